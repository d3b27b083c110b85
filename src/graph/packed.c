/* Attentions in a stage that read queries, keys and values where a product leaves them, and write
   where the next one reads: [N,T,…] instead of [N,H,T,d]. What moved heads there and back is left
   out, and what copied keys and values for the heads that share them. And normalisations with the
   sum before them, or with the sum and ReLU behind them. Devices that have kernels of these ask for
   them; the numbers are the same. */
#include "graphimpl.h"
#include <string.h>

typedef struct {
  RengaGraph graph;
  int first, last;
  const RengaGraphNode *attention;
  RengaValue in[3]; /* queries, keys and values, these as they are shared by heads */
  RengaGraphPacked *packed;
} PackMatch;

/* The node that makes the value, which nothing but one node of the stage reads; NULL: another one,
   or it is in other lanes. */
static const RengaGraphNode *MadeFor(const PackMatch *match, RengaValue value, const char *op)
{
  RengaGraph graph = match->graph;
  const int maker = graph->value[value]->producer;
  if (maker < match->first || maker >= match->last) return NULL;
  const RengaGraphEntry *entry = graph->entry[maker];
  const int *from = &graph->known.reading_from[value];
  if (strcmp(entry->node.op->name, op) != 0 || from[1] - from[0] != 1 ||
      RengaGraphIsOutput(graph, value) || entry->rows || entry->pieces ||
      entry->node.lane != match->attention->lane || entry->node.wide != match->attention->wide)
    return NULL;
  return &entry->node;
}

static bool IsTurnedBy(const RengaGraphNode *transpose, int ndim, const int64_t order[])
{
  int count;
  const int64_t *perm = RengaAttributesInts(&transpose->attributes, "perm", &count);
  return perm && count == ndim && memcmp(perm, order, (size_t)ndim * sizeof *perm) == 0;
}

/* Both begin with samples and places; the first has all else in one dimension. */
static bool IsFlat(RengaGraph graph, RengaValue flat, RengaValue apart)
{
  const RengaTensorSpec *x = RengaGraphSpec(graph, flat), *y = RengaGraphSpec(graph, apart);
  return x->ndim == 3 && y->ndim > 3 && x->dim[0] == y->dim[0] && x->dim[1] == y->dim[1];
}

static void PackAway(PackMatch *match, const RengaGraphNode *node)
{
  const int n = match->graph->value[node->out[0]]->producer;
  for (int i = 0; i < match->packed->n_left; i++)
    if (match->packed->left[i] == n) return;
  match->packed->left[match->packed->n_left++] = n;
}

/* Parts from number `from` on are all outputs of a split, in order, of which the first is given. */
static const RengaGraphNode *WholeSplit(const PackMatch *match, RengaValue part, int axis, int ndim)
{
  const RengaGraphNode *split = MadeFor(match, part, "Split");
  if (split == NULL || split->out[0] != part) return NULL;
  const int64_t own = RengaAttributesInt(&split->attributes, "axis", 0);
  return own == axis || own == axis - ndim ? split : NULL;
}

/* x [N,G,T,d] -> [N,G,1,T,d] -> [N,G,H/G,T,d] -> [N,H,T,d]: heads that follow each other share x.
   NONE: it is not so. */
static RengaValue MatchShared(const PackMatch *match, RengaValue value, int64_t *groups)
{
  RengaGraph graph = match->graph;
  const RengaGraphNode *join = MadeFor(match, value, "Reshape");
  const RengaGraphNode *copy = join ? MadeFor(match, join->in[0], "Expand") : NULL;
  const RengaGraphNode *part = copy ? MadeFor(match, copy->in[0], "Reshape") : NULL;
  if (part == NULL) return RENGA_VALUE_NONE;
  const RengaTensorSpec *x = RengaGraphSpec(graph, part->in[0]);
  const RengaTensorSpec *apart = RengaGraphSpec(graph, part->out[0]);
  const RengaTensorSpec *wide = RengaGraphSpec(graph, copy->out[0]);
  const RengaTensorSpec *y = RengaGraphSpec(graph, value);
  if (x->ndim != 4 || apart->ndim != 5 || wide->ndim != 5 || apart->dim[2] != 1 ||
      y->dim[1] != wide->dim[1] * wide->dim[2])
    return RENGA_VALUE_NONE;
  for (int d = 0; d < 4; d++) {
    const int own = d < 2 ? d : d + 1; /* of five */
    if (x->dim[d] != apart->dim[own] || x->dim[d] != wide->dim[own] ||
        (d != 1 && x->dim[d] != y->dim[d]))
      return RENGA_VALUE_NONE;
  }
  *groups = x->dim[1];
  return part->in[0];
}

/* Keys and values of as many heads each, or all heads have their own. */
static bool MatchGroups(PackMatch *match)
{
  int64_t groups[2] = {0, 0};
  RengaValue shared[2];
  for (int i = 0; i < 2; i++) shared[i] = MatchShared(match, match->in[1 + i], &groups[i]);
  if (shared[0] < 0 || shared[1] < 0 || groups[0] != groups[1]) return false;
  for (int i = 0; i < 2; i++) {
    const RengaGraphNode *join = MadeFor(match, match->in[1 + i], "Reshape");
    const RengaGraphNode *copy = MadeFor(match, join->in[0], "Expand");
    PackAway(match, join);
    PackAway(match, copy);
    PackAway(match, MadeFor(match, copy->in[0], "Reshape"));
    match->in[1 + i] = shared[i];
  }
  match->packed->groups = groups[0];
  return true;
}

/* [N,T,P H d] -> [N,T,P,H,d] -> [P,N,H,T,d] -> P times [1,N,H,T,d] -> [N,H,T,d] */
static int MatchTurnedParts(PackMatch *match, int from, RengaValue *base)
{
  static const int64_t order[] = {2, 0, 3, 1, 4};
  RengaGraph graph = match->graph;
  const RengaValue *in = match->in;
  const RengaGraphNode *reshape = MadeFor(match, in[from], "Reshape");
  const RengaGraphNode *split = reshape ? WholeSplit(match, reshape->in[0], 0, 5) : NULL;
  const RengaGraphNode *turn = split ? MadeFor(match, split->in[0], "Transpose") : NULL;
  const RengaGraphNode *apart = turn ? MadeFor(match, turn->in[0], "Reshape") : NULL;
  if (apart == NULL || split->n_out > 3 - from || !IsTurnedBy(turn, 5, order) ||
      !IsFlat(graph, apart->in[0], apart->out[0]) ||
      RengaGraphSpec(graph, apart->out[0])->dim[2] != split->n_out)
    return 0;
  for (int i = 0; i < split->n_out; i++) {
    const RengaGraphNode *own = MadeFor(match, in[from + i], "Reshape");
    if (own == NULL || own->in[0] != split->out[i] || !MadeFor(match, own->in[0], "Split"))
      return 0;
  }
  for (int i = 0; i < split->n_out; i++) PackAway(match, MadeFor(match, in[from + i], "Reshape"));
  PackAway(match, split);
  PackAway(match, turn);
  PackAway(match, apart);
  *base = apart->in[0];
  return split->n_out;
}

/* [N,T,H d] -> [N,T,H,d] -> [N,H,T,d] */
static const RengaGraphNode *MatchTurned(const PackMatch *match, RengaValue value,
                                         const RengaGraphNode **apart)
{
  static const int64_t order[] = {0, 2, 1, 3};
  const RengaGraphNode *turn = MadeFor(match, value, "Transpose");
  *apart = turn ? MadeFor(match, turn->in[0], "Reshape") : NULL;
  const bool fits = *apart && IsTurnedBy(turn, 4, order) &&
                    IsFlat(match->graph, (*apart)->in[0], (*apart)->out[0]);
  return fits ? turn : NULL;
}

/* The same of each of equal parts of [N,T,P H d], or of one tensor. */
static int MatchParts(PackMatch *match, int from, RengaValue *base)
{
  RengaGraph graph = match->graph;
  const RengaValue *in = match->in;
  const RengaGraphNode *apart, *turn = MatchTurned(match, in[from], &apart);
  if (turn == NULL) return 0;
  const RengaGraphNode *split = WholeSplit(match, apart->in[0], 2, 3);
  int parts = split && split->n_out <= 3 - from ? split->n_out : 1;
  for (int i = 0; i < parts && parts > 1; i++) {
    const RengaGraphNode *own, *to = MatchTurned(match, in[from + i], &own);
    if (to == NULL || own->in[0] != split->out[i] || !MadeFor(match, own->in[0], "Split") ||
        !RengaTensorSpecEqual(RengaGraphSpec(graph, split->out[i]),
                              RengaGraphSpec(graph, split->out[0])))
      parts = 1;
  }
  *base = parts > 1 ? split->in[0] : apart->in[0];
  if (parts > 1) PackAway(match, split);
  for (int i = 0; i < parts; i++) {
    turn = MatchTurned(match, in[from + i], &apart);
    PackAway(match, turn);
    PackAway(match, apart);
  }
  return parts;
}

/* o [N,H,T,e] -> [N,T,H,e] -> [N,T,H e] */
static bool MatchOutput(PackMatch *match)
{
  static const int64_t order[] = {0, 2, 1, 3};
  RengaGraph graph = match->graph;
  const int *from = graph->known.reading_from, *reading = graph->known.reading;
  const RengaGraphNode *reader[2];
  RengaValue value = match->attention->out[0];
  for (int i = 0; i < 2; i++) {
    if (!MadeFor(match, value, i ? "Transpose" : "Attention") ||
        reading[from[value]] >= match->last)
      return false;
    reader[i] = &graph->entry[reading[from[value]]]->node;
    value = reader[i]->out[0];
  }
  if (strcmp(reader[0]->op->name, "Transpose") != 0 || !IsTurnedBy(reader[0], 4, order) ||
      strcmp(reader[1]->op->name, "Reshape") != 0 || !IsFlat(graph, value, reader[0]->out[0]) ||
      reader[1]->lane != match->attention->lane || reader[1]->wide != match->attention->wide)
    return false;
  PackAway(match, reader[0]);
  PackAway(match, reader[1]);
  match->packed->out = value;
  return true;
}

/* Where node n is the sum of two tensors of one shape that the next node normalises, the number of
   that node; else 0. */
int RengaGraphFindAddedNorm(RengaGraph graph, int last, int n)
{
  if (n + 1 >= last || strcmp(graph->entry[n]->node.op->name, "Add") != 0) return 0;
  const RengaGraphEntry *sum = graph->entry[n], *norm = graph->entry[n + 1];
  const RengaGraphNode *add = &sum->node, *next = &norm->node;
  const bool known = strcmp(next->op->name, "LayerNormalization") == 0 ||
                     strcmp(next->op->name, "RMSNormalization") == 0;
  if (!known || next->in[0] != add->out[0] || sum->term || sum->pieces || sum->rows ||
      add->lane != next->lane || add->wide != next->wide)
    return 0;
  for (int i = 0; i < 2; i++)
    if (!RengaTensorSpecEqual(RengaGraphSpec(graph, add->in[i]),
                              RengaGraphSpec(graph, add->out[0])))
      return 0;
  for (int i = 1; i < next->n_in; i++)
    if (next->in[i] >= 0 && graph->value[next->in[i]]->producer >= 0) return 0;
  return n + 1;
}

/* Node n reads what the one before it makes, and nothing else does; both are stored alike. */
static bool FollowsAlone(RengaGraph graph, int last, int n, const char *op)
{
  if (n >= last || strcmp(graph->entry[n]->node.op->name, op) != 0) return false;
  const RengaGraphEntry *before = graph->entry[n - 1];
  const RengaGraphNode *node = &graph->entry[n]->node;
  const RengaValue value = before->node.out[0], made = node->out[0];
  const int *from = &graph->known.reading_from[value];
  if (from[1] - from[0] != 1 || graph->known.reading[from[0]] != n ||
      RengaGraphIsOutput(graph, value) || before->term || before->pieces || before->rows ||
      before->node.lane != node->lane || before->node.wide != node->wide)
    return false;
  for (int i = 0; i < node->n_in; i++)
    if (!RengaTensorSpecEqual(RengaGraphSpec(graph, node->in[i]), RengaGraphSpec(graph, made)) ||
        graph->value[node->in[i]]->stored != graph->value[made]->stored ||
        RengaGraphTypeOfGradient_Private(graph, node->in[i]) !=
            RengaGraphTypeOfGradient_Private(graph, made))
      return false;
  return true;
}

/* Where node n is a BatchNormalization by the batch that only the next node reads, and this is a
   ReLU, or a sum that only the ReLU behind it reads: the number of the ReLU; else 0. */
int RengaGraphFindRelu(RengaGraph graph, int last, int n)
{
  const RengaGraphNode *norm = &graph->entry[n]->node;
  if (strcmp(norm->op->name, "BatchNormalization") != 0 || norm->n_out < 3 ||
      RengaAttributesInt(&norm->attributes, "training", 1) == 0)
    return 0;
  int relu = n + 1;
  if (FollowsAlone(graph, last, relu, "Add")) {
    const RengaGraphNode *add = &graph->entry[relu++]->node;
    if (add->in[0] == norm->in[0] || add->in[1] == norm->in[0]) return 0;
  }
  return FollowsAlone(graph, last, relu, "Relu") ? relu : 0;
}

bool RengaGraphFindPacked(RengaGraph graph, int first, int last, int n, RengaGraphPacked *packed)
{
  const RengaGraphNode *node = &graph->entry[n]->node;
  PackMatch match = {graph, first, last, node, {node->in[0], node->in[1], node->in[2]}, packed};
  const RengaValue mask = node->n_in > 3 ? node->in[3] : RENGA_VALUE_NONE;
  *packed = (RengaGraphPacked){.in = {RENGA_VALUE_NONE, RENGA_VALUE_NONE, RENGA_VALUE_NONE, mask}};
  if (strcmp(node->op->name, "Attention") != 0 || RengaGraphSpec(graph, node->in[0])->ndim != 4 ||
      RengaAttributesInt(&node->attributes, "first", 0) > 0 || !MatchOutput(&match))
    return false;
  packed->heads = packed->groups = RengaGraphSpec(graph, node->in[0])->dim[1];
  bool any = MatchGroups(&match);
  for (int i = 0, parts; i < 3; i += parts) {
    parts = MatchTurnedParts(&match, i, &packed->in[i]);
    if (parts == 0) parts = MatchParts(&match, i, &packed->in[i]);
    any = any || parts > 0;
    if (parts > 0) continue;
    packed->in[i] = match.in[i];
    parts = 1;
  }
  return any;
}
