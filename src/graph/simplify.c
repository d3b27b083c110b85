/* Nodes that do nothing, chains that are one node, and nodes that another one repeats. */
#include "graphimpl.h"
#include <string.h>

typedef struct {
  RengaGraph graph;
  RengaValue *instead; /* by value: what is read instead of it */
  bool *kept;          /* outputs keep their name, hence their node */
  int n_slots, *slot;  /* node + 1 or constant + 1, by hash of its content */
} SimplifyPass;

static bool SameAsInput(SimplifyPass *pass, RengaGraphNode *node)
{
  return RengaTensorSpecEqual(RengaGraphSpec(pass->graph, node->in[0]),
                              RengaGraphSpec(pass->graph, node->out[0]));
}

static RengaGraphNode *ProducerOf(SimplifyPass *pass, RengaValue value, const char *op)
{
  int producer = value < 0 ? -1 : pass->graph->value[value]->producer;
  if (producer < 0) return NULL;
  RengaGraphNode *node = RengaGraphEntryNode(pass->graph, producer);
  return strcmp(node->op->name, op) == 0 ? node : NULL;
}

static RengaErrorCode Always(SimplifyPass *pass, RengaGraphNode *node, bool *idle)
{
  (void)pass;
  (void)node;
  *idle = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode WhereSame(SimplifyPass *pass, RengaGraphNode *node, bool *idle)
{
  *idle = SameAsInput(pass, node);
  return RENGA_SUCCESS;
}

static RengaErrorCode SimplifyReshape(SimplifyPass *pass, RengaGraphNode *node, bool *idle)
{
  const RengaGraphNode *before = ProducerOf(pass, node->in[0], "Reshape");
  if (before) node->in[0] = before->in[0];
  *idle = SameAsInput(pass, node);
  return RENGA_SUCCESS;
}

/* Without perm the order is reversed. */
static void GetOrder(const RengaGraphNode *node, int ndim, int64_t order[RENGA_MAX_DIM])
{
  int count;
  const int64_t *perm = RengaAttributesInts(&node->attributes, "perm", &count);
  for (int d = 0; d < ndim; d++) order[d] = count ? perm[d] : ndim - 1 - d;
}

static RengaErrorCode SimplifyTranspose(SimplifyPass *pass, RengaGraphNode *node, bool *idle)
{
  int ndim = RengaGraphSpec(pass->graph, node->in[0])->ndim;
  int64_t order[RENGA_MAX_DIM], inner[RENGA_MAX_DIM];
  const RengaGraphNode *before = ProducerOf(pass, node->in[0], "Transpose");
  GetOrder(node, ndim, order);
  if (before) {
    GetOrder(before, ndim, inner);
    for (int d = 0; d < ndim; d++) order[d] = inner[order[d]];
    node->in[0] = before->in[0];
    RengaCall(RengaAttributesSetInts(&node->attributes, "perm", ndim, order));
  }
  *idle = true;
  for (int d = 0; d < ndim; d++) *idle = *idle && order[d] == d;
  return RENGA_SUCCESS;
}

static RengaErrorCode SimplifyDropout(SimplifyPass *pass, RengaGraphNode *node, bool *idle)
{
  (void)pass;
  *idle = RengaAttributesReal(&node->attributes, "ratio", 0.5) == 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode SimplifyOneInput(SimplifyPass *pass, RengaGraphNode *node, bool *idle)
{
  (void)pass;
  *idle = node->n_in == 1;
  return RENGA_SUCCESS;
}

static const struct {
  const char *op;
  RengaErrorCode (*idle)(SimplifyPass *pass, RengaGraphNode *node, bool *idle);
} rules[] = {
    {"Identity", Always},         {"Reshape", SimplifyReshape}, {"Transpose", SimplifyTranspose},
    {"Cast", WhereSame},          {"Expand", WhereSame},        {"Dropout", SimplifyDropout},
    {"Concat", SimplifyOneInput},
};
enum { N_RULES = sizeof rules / sizeof rules[0] };

static RengaErrorCode FindIdle(SimplifyPass *pass, RengaGraphNode *node, bool *idle)
{
  *idle = false;
  for (int i = 0; i < N_RULES; i++)
    if (strcmp(node->op->name, rules[i].op) == 0) RengaCall(rules[i].idle(pass, node, idle));
  if (node->n_out != 1 || pass->kept[node->out[0]]) *idle = false;
  return RENGA_SUCCESS;
}

static uint64_t HashNodeCall(const RengaGraphNode *node)
{
  uint64_t hash = RengaHash(node->op->name, strlen(node->op->name), 1);
  return RengaHash(node->in, (size_t)node->n_in * sizeof *node->in, hash);
}

static bool EqualNodes(RengaGraph graph, const RengaGraphNode *a, const RengaGraphNode *b)
{
  if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out) return false;
  if (memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) != 0) return false;
  for (int i = 0; i < a->n_out; i++)
    if (!RengaTensorSpecEqual(RengaGraphSpec(graph, a->out[i]), RengaGraphSpec(graph, b->out[i])))
      return false;
  return RengaAttributesEqual(&a->attributes, &b->attributes);
}

/* The earlier node that does the same, or -1; the node is entered where there is none. */
static int FindEqualNode(SimplifyPass *pass, int at)
{
  RengaGraph graph = pass->graph;
  const RengaGraphNode *node = &graph->entry[at]->node;
  for (uint64_t hash = HashNodeCall(node);; hash++) {
    int *slot = &pass->slot[hash % (uint64_t)pass->n_slots];
    if (*slot == 0) {
      *slot = at + 1;
      return -1;
    }
    if (EqualNodes(graph, node, &graph->entry[*slot - 1]->node)) return *slot - 1;
  }
}

/* Random numbers and running statistics belong to one node each. */
static bool MayRepeat(SimplifyPass *pass, const RengaGraphNode *node)
{
  if (node->op->flags & RENGA_OP_RANDOM || strcmp(node->op->name, "BatchNormalization") == 0)
    return false;
  for (int i = 0; i < node->n_out; i++)
    if (pass->kept[node->out[i]]) return false;
  return true;
}

static RengaErrorCode SimplifyNode(SimplifyPass *pass, int at)
{
  RengaGraph graph = pass->graph;
  RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  bool idle;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] >= 0) node->in[i] = pass->instead[node->in[i]];
  RengaCall(FindIdle(pass, node, &idle));
  if (idle) {
    pass->instead[node->out[0]] = node->in[0];
    graph->entry[at]->dead = true;
    return RENGA_SUCCESS;
  }
  int equal = MayRepeat(pass, node) ? FindEqualNode(pass, at) : -1;
  if (equal < 0) return RENGA_SUCCESS;
  for (int i = 0; i < node->n_out; i++)
    pass->instead[node->out[i]] = graph->entry[equal]->node.out[i];
  graph->entry[at]->dead = true;
  return RENGA_SUCCESS;
}

static uint64_t HashConstant(const RengaGraphValue *value)
{
  return RengaHash(value->data, RengaTensorSpecBytes(&value->spec), (uint64_t)value->spec.type + 2);
}

static bool EqualConstants(const RengaGraphValue *a, const RengaGraphValue *b)
{
  return RengaTensorSpecEqual(&a->spec, &b->spec) &&
         memcmp(a->data, b->data, RengaTensorSpecBytes(&a->spec)) == 0;
}

static void MergeConstants(SimplifyPass *pass)
{
  RengaGraph graph = pass->graph;
  for (int i = 0; i < graph->n_values; i++) {
    if (graph->value[i]->kind != RENGA_VALUE_CONSTANT) continue;
    for (uint64_t hash = HashConstant(graph->value[i]);; hash++) {
      int *slot = &pass->slot[hash % (uint64_t)pass->n_slots];
      if (*slot == 0) *slot = i + 1;
      if (!EqualConstants(graph->value[i], graph->value[*slot - 1])) continue;
      pass->instead[i] = *slot - 1;
      break;
    }
  }
  memset(pass->slot, 0, (size_t)pass->n_slots * sizeof *pass->slot);
}

RengaErrorCode RengaGraphSimplify(RengaGraph graph)
{
  SimplifyPass pass = {.graph = graph};
  pass.n_slots = 4 * (graph->n_nodes + graph->n_values) + 1;
  RengaCall(RengaGraphScratch(graph, graph->n_values, &pass.instead));
  RengaCall(RengaGraphScratch(graph, graph->n_values, &pass.kept));
  RengaCall(RengaGraphScratch(graph, pass.n_slots, &pass.slot));
  for (int i = 0; i < graph->n_values; i++) pass.instead[i] = i;
  for (int i = 0; i < graph->n_outputs; i++) pass.kept[graph->output[i]] = true;
  if (graph->loss >= 0) pass.kept[graph->loss] = true;
  MergeConstants(&pass);
  for (int i = 0; i < graph->n_nodes; i++)
    if (!graph->entry[i]->dead) RengaCall(SimplifyNode(&pass, i));
  RengaCall(RengaGraphRemoveDead(graph));
  return RENGA_SUCCESS;
}
