/* A stage of a network: an interval of its nodes, with the prepared nodes that these need. */
#include "graphimpl.h"
#include "renga/private/graph.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  RengaGraph whole, part;
  int first, last;
  unsigned forms;      /* RENGA_FORM_PACKED and so on */
  bool *wanted, *left; /* by node: it is in the part; but not made there */
  int n_nodes, *node;  /* those that are, in order */
  RengaValue *number;  /* by value: its number in the part */
  RengaValue *image;   /* by value: 1 + that of the same image [N,H,W,C], or 0 */
  RengaValue *padded;  /* by value: 1 + that of the same scores with padding, or 0 */
} GraphCut;

static bool IsPreparedNode(RengaGraph graph, int node)
{
  return RengaGraphNodeIsPrepared_Private(graph, &graph->entry[node]->node);
}

static bool MakesCutOutput(RengaGraph graph, const RengaGraphNode *node)
{
  for (int i = 0; i < node->n_out; i++)
    if (RengaGraphIsOutput(graph, node->out[i])) return true;
  return false;
}

static void WantNode(GraphCut *cut, int node)
{
  if (cut->wanted[node]) return;
  cut->wanted[node] = true;
  cut->node[cut->n_nodes++] = node;
}

static int CompareNumbers(const void *a, const void *b)
{
  const int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

static void SortNumbers(int count, int number[])
{
  if (count > 1) qsort(number, (size_t)count, sizeof *number, CompareNumbers);
}

/* Nodes of the interval that are not prepared or make an output, then the prepared ones they
   need. */
static void ChooseNodes(GraphCut *cut)
{
  RengaGraph whole = cut->whole;
  for (int i = cut->first; i < cut->last; i++)
    if (!IsPreparedNode(whole, i) || MakesCutOutput(whole, &whole->entry[i]->node))
      WantNode(cut, i);
  for (int n = 0; n < cut->n_nodes; n++) {
    const RengaGraphNode *node = &whole->entry[cut->node[n]]->node;
    for (int j = 0; j < node->n_in; j++) {
      int producer = node->in[j] < 0 ? -1 : whole->value[node->in[j]]->producer;
      if (producer >= 0 && IsPreparedNode(whole, producer)) WantNode(cut, producer);
    }
  }
  SortNumbers(cut->n_nodes, cut->node);
}

static RengaErrorCode CopyValue(GraphCut *cut, RengaValue from)
{
  const RengaGraphValue *value = cut->whole->value[from];
  RengaValue to;
  if (cut->number[from] >= 0) return RENGA_SUCCESS;
  bool made = value->producer >= 0 && cut->wanted[value->producer];
  RengaValueKind kind =
      value->kind == RENGA_VALUE_ACTIVATION && !made ? RENGA_VALUE_INPUT : value->kind;
  RengaCall(RengaGraphNewValue(cut->part, value->name, kind, &value->spec, &to));
  RengaGraphValue *copy = cut->part->value[to];
  copy->stored = value->stored;
  copy->stored_gradient = value->stored_gradient;
  copy->prepared = value->prepared;
  copy->differentiable = value->differentiable;
  copy->frozen = value->frozen;
  copy->cache = value->cache;
  copy->adapter = value->adapter;
  RengaCall(RengaGraphCopyContents(value, copy));
  cut->number[from] = to;
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyGraphNode(GraphCut *cut, int at)
{
  const RengaGraphNode *node = &cut->whole->entry[at]->node;
  RengaGraph part = cut->part;
  RengaValue *in, *out;
  RengaTensorSpec *specs;
  RengaCall(RengaGraphScratch(part, node->n_in, &in));
  RengaCall(RengaGraphScratch(part, node->n_out, &out));
  RengaCall(RengaGraphScratch(part, node->n_out, &specs));
  for (int i = 0; i < node->n_in; i++)
    in[i] = node->in[i] < 0 ? RENGA_VALUE_NONE : cut->number[node->in[i]];
  for (int i = 0; i < node->n_out; i++) {
    RengaCall(CopyValue(cut, node->out[i]));
    out[i] = cut->number[node->out[i]];
    specs[i] = *RengaGraphSpec(cut->whole, node->out[i]);
  }
  part->id = node->id;
  part->phase = node->phase;
  RengaCall(RengaGraphInsertNode(part, node->op->name, node->name, &node->attributes, node->n_in,
                                 in, node->n_out, specs, out));
  RengaGraphEntryNode(part, part->n_nodes - 1)->wide = node->wide;
  RengaGraphEntryNode(part, part->n_nodes - 1)->lane = node->lane;
  part->entry[part->n_nodes - 1]->rows = cut->whole->entry[at]->rows;
  part->entry[part->n_nodes - 1]->term = cut->whole->entry[at]->term;
  part->entry[part->n_nodes - 1]->pieces = cut->whole->entry[at]->pieces;
  return RENGA_SUCCESS;
}

static RengaErrorCode LeaveOutPacked(GraphCut *cut)
{
  RengaGraphPacked packed;
  RengaCall(RengaGraphFindReaders(cut->whole));
  for (int n = 0; n < cut->n_nodes && cut->forms & RENGA_FORM_PACKED; n++)
    if (RengaGraphFindPacked(cut->whole, cut->first, cut->last, cut->node[n], &packed))
      for (int i = 0; i < packed.n_left; i++) cut->left[packed.left[i]] = true;
  return RENGA_SUCCESS;
}

/* The node that several become: it has the id, lane and phase of the given one. */
static RengaErrorCode InsertFused(GraphCut *cut, const RengaGraphNode *like, const char *op,
                                  const RengaAttributes *attributes, int n_in,
                                  const RengaValue in[], int n_out, const RengaValue made[])
{
  RengaValue out[4];
  for (int o = 0; o < n_out; o++) {
    RengaCall(CopyValue(cut, made[o]));
    out[o] = cut->number[made[o]];
  }
  cut->part->id = like->id;
  cut->part->phase = like->phase;
  RengaCall(
      RengaGraphInsertNode(cut->part, op, like->name, attributes, n_in, in, n_out, NULL, out));
  RengaGraphNode *node = RengaGraphEntryNode(cut->part, cut->part->n_nodes - 1);
  node->wide = like->wide;
  node->lane = like->lane;
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyPacked(GraphCut *cut, int at, const RengaGraphPacked *packed)
{
  const RengaGraphNode *node = &cut->whole->entry[at]->node;
  const RengaValue made[2] = {packed->out, node->n_out > 1 ? node->out[1] : RENGA_VALUE_NONE};
  RengaValue in[4];
  RengaAttributes attributes = {0};
  for (int i = 0; i < 4; i++)
    in[i] = packed->in[i] < 0 ? RENGA_VALUE_NONE : cut->number[packed->in[i]];
  RengaErrorCode code = RengaAttributesCopy(&node->attributes, &attributes);
  if (!code) code = RengaAttributesSetInt(&attributes, "heads", packed->heads);
  if (!code && packed->groups < packed->heads)
    code = RengaAttributesSetInt(&attributes, "groups", packed->groups);
  if (!code)
    code = InsertFused(cut, node, "PackedAttention", &attributes, 4, in, node->n_out, made);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyAddedNorm(GraphCut *cut, int at, int next)
{
  const RengaGraphNode *add = &cut->whole->entry[at]->node, *norm = &cut->whole->entry[next]->node;
  RengaValue in[4] = {cut->number[add->in[0]], cut->number[add->in[1]], RENGA_VALUE_NONE,
                      RENGA_VALUE_NONE};
  RengaValue made[4] = {add->out[0]};
  char name[64];
  for (int i = 1; i < norm->n_in; i++)
    if (norm->in[i] >= 0) in[1 + i] = cut->number[norm->in[i]];
  for (int o = 0; o < norm->n_out; o++) made[1 + o] = norm->out[o];
  snprintf(name, sizeof name, "Add%s", norm->op->name);
  RengaCall(InsertFused(cut, norm, name, &norm->attributes, 4, in, 1 + norm->n_out, made));
  cut->left[next] = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyRelu(GraphCut *cut, int at, int relu)
{
  const RengaGraphNode *norm = &cut->whole->entry[at]->node;
  const RengaGraphNode *next = &cut->whole->entry[at + 1]->node;
  const RengaValue made[3] = {cut->whole->entry[relu]->node.out[0], norm->out[1], norm->out[2]};
  RengaValue in[6];
  for (int i = 0; i < 5; i++) in[i] = cut->number[norm->in[i]];
  if (next->n_in > 1) in[5] = cut->number[next->in[next->in[0] == norm->out[0]]];
  RengaCall(InsertFused(cut, norm, "BatchNormalizationRelu", &norm->attributes, 4 + next->n_in, in,
                        3, made));
  for (int n = at + 1; n <= relu; n++) cut->left[n] = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyPadded(GraphCut *cut, int at, int64_t zeros)
{
  const RengaGraphNode *node = &cut->whole->entry[at]->node;
  RengaValue in[3] = {RENGA_VALUE_NONE, RENGA_VALUE_NONE, RENGA_VALUE_NONE}, padded;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] >= 0) in[i] = cut->number[node->in[i]];
  RengaCall(CopyValue(cut, node->out[0]));
  cut->part->id = node->id;
  cut->part->phase = node->phase;
  RengaCall(RengaGraphInsertPadded(cut->part, node, in, zeros, cut->number[node->out[0]], &padded));
  cut->padded[node->out[0]] = 1 + padded;
  return RENGA_SUCCESS;
}

/* A loss whose scores are made in this stage reads them with their padding. */
static RengaErrorCode CopyLossOfPadded(GraphCut *cut, int at, int64_t zeros)
{
  RengaValue *scores = &cut->number[cut->whole->entry[at]->node.in[0]];
  const RengaValue own = *scores;
  *scores = cut->padded[cut->whole->entry[at]->node.in[0]] - 1;
  RengaErrorCode code = CopyGraphNode(cut, at);
  *scores = own;
  RengaCall(code);
  RengaCall(RengaAttributesSetInt(
      &RengaGraphEntryNode(cut->part, cut->part->n_nodes - 1)->attributes, "padding", zeros));
  return RENGA_SUCCESS;
}

/* The image [N,H,W,C]: this is what all nodes read from now on, if by a copy. */
static RengaErrorCode GetLast(GraphCut *cut, RengaValue value, RengaValue *last)
{
  RengaValue made = RENGA_VALUE_NONE;
  if (!cut->image[value]) {
    RengaCall(RengaGraphTurnImage(cut->part, cut->number[value], false, &made));
    cut->image[value] = 1 + made;
  }
  *last = cut->image[value] - 1;
  return RENGA_SUCCESS;
}

/* Of a mean that keeps its dimensions the four are others, too. */
static bool IsImageMade(RengaGraph graph, const RengaGraphNode *node, RengaGraphImages kind,
                        RengaValue value)
{
  return RengaGraphIsImageOf(graph, node, kind, value) ||
         (kind == IMAGES_MEAN && RengaGraphSpec(graph, value)->ndim == 4);
}

/* A mean over space [N,1,1,C] as [N,C,1,1] has the same bytes. */
static RengaErrorCode ReshapeMean(GraphCut *cut, RengaValue mean, RengaValue value)
{
  const RengaTensorSpec *spec = RengaGraphSpec(cut->whole, value);
  RengaCall(CopyValue(cut, value));
  RengaCall(RengaGraphInsertNode(cut->part, "Reshape", NULL, NULL, 1, &mean, 1, spec,
                                 &cut->number[value]));
  return RENGA_SUCCESS;
}

static RengaErrorCode InsertImages(GraphCut *cut, const RengaGraphNode *node, RengaGraphImages kind,
                                   const RengaAttributes *attributes)
{
  RengaValue *in, *out;
  RengaCall(RengaGraphScratch(cut->part, node->n_in, &in));
  RengaCall(RengaGraphScratch(cut->part, node->n_out, &out));
  for (int i = 0; i < node->n_in; i++) {
    const RengaValue v = node->in[i];
    in[i] = v < 0 || cut->image[v] ? RENGA_VALUE_NONE : cut->number[v];
    if (RengaGraphIsImageOf(cut->whole, node, kind, v))
      RengaCall(GetLast(cut, v, &in[i]));
    else if (v >= 0 && cut->image[v]) /* weights that are made as an image */
      RengaCall(RengaGraphTurnImage(cut->part, cut->image[v] - 1, true, &in[i]));
  }
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue v = node->out[o];
    out[o] = RENGA_VALUE_NONE;
    if (IsImageMade(cut->whole, node, kind, v)) continue;
    RengaCall(CopyValue(cut, v));
    out[o] = cut->number[v];
  }
  char name[512]; /* also of the images that it makes */
  snprintf(name, sizeof name, "%s (channels last)", node->name);
  RengaCall(RengaGraphInsertNode(cut->part, node->op->name, name, attributes, node->n_in, in,
                                 node->n_out, NULL, out));
  RengaGraphEntryNode(cut->part, cut->part->n_nodes - 1)->wide = node->wide;
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue v = node->out[o];
    if (!IsImageMade(cut->whole, node, kind, v)) continue;
    RengaGraphStoreLike(cut->whole->value[v], cut->part->value[out[o]]);
    if (kind == IMAGES_MEAN)
      RengaCall(ReshapeMean(cut, out[o], v));
    else
      cut->image[v] = 1 + out[o];
  }
  return RENGA_SUCCESS;
}

/* Which nodes sum up how depends on them alone; others follow what they read. */
static RengaGraphImages FindLast(const GraphCut *cut, int at)
{
  const RengaGraphNode *node = &cut->whole->entry[at]->node;
  if (!(cut->forms & RENGA_FORM_LAST) || at < cut->first) return IMAGES_NONE;
  if (cut->forms & RENGA_FORM_PACKED && RengaGraphFindAddedNorm(cut->whole, cut->last, at) > 0)
    return IMAGES_NONE;
  const RengaGraphImages kind = RengaGraphFindImages(cut->whole, at);
  if (kind == IMAGES_WINDOW || kind == IMAGES_MEAN) return kind;
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] >= 0 && cut->image[node->in[i]]) return kind;
  return IMAGES_NONE;
}

static RengaErrorCode CopyWithLast(GraphCut *cut, int at, RengaGraphImages kind)
{
  const RengaGraphNode *node = &cut->whole->entry[at]->node;
  RengaAttributes attributes = {0};
  cut->part->id = node->id;
  cut->part->phase = node->phase;
  RengaErrorCode code = RengaGraphTurnAttributes(node, kind, &attributes);
  if (!code) code = InsertImages(cut, node, kind, &attributes);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyAnyNode(GraphCut *cut, int at, RengaGraphImages images)
{
  const RengaGraphNode *node = &cut->whole->entry[at]->node;
  RengaGraphPacked packed;
  const RengaValue scores = node->n_in > 0 ? node->in[0] : RENGA_VALUE_NONE;
  const bool packs = cut->forms & RENGA_FORM_PACKED, relus = cut->forms & RENGA_FORM_RELU;
  const bool inside = at >= cut->first;
  const int64_t zeros = packs ? RengaGraphFindPadding(cut->whole, node->out[0]) : 0;
  const int norm = packs && inside ? RengaGraphFindAddedNorm(cut->whole, cut->last, at) : 0;
  const int relu = relus && inside ? RengaGraphFindRelu(cut->whole, cut->last, at) : 0;
  if (norm > 0)
    RengaCall(CopyAddedNorm(cut, at, norm));
  else if (relu > 0)
    RengaCall(CopyRelu(cut, at, relu));
  else if (zeros > 0)
    RengaCall(CopyPadded(cut, at, zeros));
  else if (scores >= 0 && cut->padded[scores] && strcmp(node->op->name, "CrossEntropy") == 0)
    RengaCall(CopyLossOfPadded(cut, at, RengaGraphFindPadding(cut->whole, scores)));
  else if (packs && RengaGraphFindPacked(cut->whole, cut->first, cut->last, at, &packed))
    RengaCall(CopyPacked(cut, at, &packed));
  else if (images != IMAGES_NONE)
    RengaCall(CopyWithLast(cut, at, images));
  else
    RengaCall(CopyGraphNode(cut, at));
  return RENGA_SUCCESS;
}

/* What reads [N,C,H,W] has a copy of its own. */
static RengaErrorCode CopyWithFirst(GraphCut *cut, int at)
{
  const RengaGraphNode *node = &cut->whole->entry[at]->node;
  const RengaGraphImages images = FindLast(cut, at);
  RengaValue *before;
  if (images != IMAGES_NONE) {
    RengaCall(CopyAnyNode(cut, at, images));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaGraphScratch(cut->part, node->n_in, &before));
  for (int i = 0; i < node->n_in; i++) {
    const RengaValue v = node->in[i];
    RengaValue first = RENGA_VALUE_NONE;
    before[i] = v < 0 ? RENGA_VALUE_NONE : cut->number[v];
    if (v < 0 || !cut->image[v]) continue;
    cut->part->id = node->id;
    cut->part->phase = node->phase;
    RengaCall(RengaGraphTurnImage(cut->part, cut->image[v] - 1, true, &first));
    cut->number[v] = first;
  }
  RengaCall(CopyAnyNode(cut, at, IMAGES_NONE));
  for (int i = node->n_in; i-- > 0;)
    if (node->in[i] >= 0 && cut->image[node->in[i]]) cut->number[node->in[i]] = before[i];
  return RENGA_SUCCESS;
}

/* Others know the images of the stage by their names: [N,C,H,W]. Behind all readers, so that a
   gradient that comes from there is the first one. */
static RengaErrorCode NameImages(GraphCut *cut)
{
  for (int n = 0; n < cut->n_nodes; n++) {
    const RengaGraphNode *node = &cut->whole->entry[cut->node[n]]->node;
    for (int o = 0; o < node->n_out; o++) {
      const RengaValue v = node->out[o];
      if (v < 0 || !cut->image[v] || cut->number[v] >= 0) continue;
      cut->part->id = node->id;
      cut->part->phase = node->phase;
      RengaCall(CopyValue(cut, v));
      RengaCall(RengaGraphTurnImage(cut->part, cut->image[v] - 1, true, &cut->number[v]));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyNodes(GraphCut *cut)
{
  RengaCall(LeaveOutPacked(cut));
  for (int n = 0; n < cut->n_nodes; n++)
    if (!cut->left[cut->node[n]]) RengaCall(CopyWithFirst(cut, cut->node[n]));
  RengaCall(NameImages(cut));
  return RENGA_SUCCESS;
}

/* Inputs of the network, parameters, states and constants first, in the order of the network. */
static RengaErrorCode CopyLeaves(GraphCut *cut)
{
  RengaGraph whole = cut->whole;
  int inputs = 0, count = 0, *leaf;
  for (int n = 0; n < cut->n_nodes; n++) inputs += whole->entry[cut->node[n]]->node.n_in;
  RengaCall(RengaGraphScratch(cut->part, inputs, &leaf));
  for (int n = 0; n < cut->n_nodes; n++) {
    const RengaGraphNode *node = &whole->entry[cut->node[n]]->node;
    for (int j = 0; j < node->n_in; j++) {
      int producer = node->in[j] < 0 ? -1 : whole->value[node->in[j]]->producer;
      if (node->in[j] >= 0 && (producer < 0 || !cut->wanted[producer])) leaf[count++] = node->in[j];
    }
  }
  SortNumbers(count, leaf);
  for (int i = 0; i < count; i++) RengaCall(CopyValue(cut, leaf[i]));
  return RENGA_SUCCESS;
}

static bool IsWantedOutput(RengaGraph graph, RengaValue value)
{
  for (int i = 0; i < graph->n_outputs; i++)
    if (graph->output[i] == value) return true;
  return false;
}

/* What nodes behind the interval read, and what the caller wants, in the order of the network. */
static RengaErrorCode CopyOutputs(GraphCut *cut)
{
  RengaGraph whole = cut->whole;
  int made = 0, count = 0, *output;
  const RengaGraphRows *rows;
  for (int n = 0; n < cut->n_nodes; n++) made += whole->entry[cut->node[n]]->node.n_out;
  RengaCall(RengaGraphScratch(cut->part, made, &output));
  RengaCall(RengaGraphGetRows_Private(whole, &rows));
  for (int n = 0; n < cut->n_nodes; n++) {
    const RengaGraphNode *node = &whole->entry[cut->node[n]]->node;
    const bool inside = cut->node[n] >= cut->first && cut->node[n] < cut->last;
    for (int o = 0; o < node->n_out && inside; o++) {
      const RengaValue v = node->out[o];
      if (v < 0 || (rows->last[v] < cut->last && !IsWantedOutput(whole, v))) continue;
      if (!whole->value[v]->prepared || RengaGraphIsOutput(whole, v)) output[count++] = v;
    }
  }
  SortNumbers(count, output);
  for (int i = 0; i < count; i++) RengaCall(RengaGraphAddOutput(cut->part, cut->number[output[i]]));
  int loss = whole->loss < 0 ? -1 : whole->value[whole->loss]->producer;
  if (loss >= cut->first && loss < cut->last) cut->part->loss = cut->number[whole->loss];
  return RENGA_SUCCESS;
}

static RengaErrorCode FillPart(GraphCut *cut)
{
  RengaGraph whole = cut->whole;
  RengaCall(RengaGraphScratch(cut->part, whole->n_nodes, &cut->wanted));
  RengaCall(RengaGraphScratch(cut->part, whole->n_nodes, &cut->left));
  RengaCall(RengaGraphScratch(cut->part, whole->n_nodes, &cut->node));
  RengaCall(RengaGraphScratch(cut->part, whole->n_values, &cut->number));
  RengaCall(RengaGraphScratch(cut->part, whole->n_values, &cut->padded));
  RengaCall(RengaGraphScratch(cut->part, whole->n_values, &cut->image));
  for (int i = 0; i < whole->n_values; i++) cut->number[i] = RENGA_VALUE_NONE;
  ChooseNodes(cut);
  RengaCall(CopyLeaves(cut));
  RengaCall(CopyNodes(cut));
  RengaCall(CopyOutputs(cut));
  cut->part->options.precision = whole->options.precision;
  if (cut->forms & RENGA_FORM_PACKED) cut->part->flags |= RENGA_GRAPH_PACKS;
  if (cut->forms & RENGA_FORM_RELU) cut->part->flags |= RENGA_GRAPH_RELUS;
  cut->part->id = -1;
  cut->part->phase = RENGA_PHASE_FORWARD;
  cut->part->file_batch = whole->file_batch;
  RengaCall(RengaGraphFindUpdates(cut->part));
  cut->part->hdr.state = RENGA_STATE_SETUP;
  RengaGraphFreeScratch(cut->part);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphGetStage_Private(RengaGraph graph, int first, int last, unsigned forms,
                                          RengaGraph *subgraph)
{
  RengaCheckPointers(graph, subgraph);
  RengaCheckState(graph, RENGA_STATE_SETUP, "RengaGraphSetUp");
  RengaCheck(first >= 0 && first <= last && last <= graph->n_nodes, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "nodes [%d, %d) of a graph of %d", first, last, graph->n_nodes);
  GraphCut cut = {.whole = graph, .first = first, .last = last, .forms = forms};
  RengaCall(RengaGraphCreate(graph->hdr.owner, &cut.part));
  RengaErrorCode code = FillPart(&cut);
  if (code != RENGA_SUCCESS) RengaGraphDestroy(&cut.part);
  RengaCall(code);
  *subgraph = cut.part;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetSubgraph - a stage of a network

   Input:
   . graph - a graph that is set up
   . first, last - numbers of nodes from 0: nodes [first, last) of its order

   Output:
   . subgraph - the new graph; RengaGraphDestroy() frees it

   Errors: RENGA_ERR_ORDER before RengaGraphSetUp; RENGA_ERR_ARGUMENT for nodes that there are
   not.

   Notes: values keep their names and nodes their ids. Values made by earlier stages are inputs
   of the subgraph; those that later stages or the caller need are its outputs, and the loss is,
   where it is made here. Prepared nodes are cloned into each stage that needs them; where none
   of a stage's nodes needs one of its own prepared nodes, that node is left out.

   See also: RengaGraphDifferentiate(), RengaPlanSetStages()
@*/
RengaErrorCode RengaGraphGetSubgraph(RengaGraph graph, int first, int last, RengaGraph *subgraph)
{
  RengaCall(RengaGraphGetStage_Private(graph, first, last, 0, subgraph));
  return RENGA_SUCCESS;
}
