/* Stored types: what the elements of each value are kept in while the network runs. The network's
   own types, which shape rules and reverse mode go by, stay what they are.

   In 16 bits are kept: what a product makes or leads to, and parameters of two dimensions or more.
   In 32 bits stay: what stands behind the last product (the loss and all that it is made of), what
   depends on no parameter (positions, masks, counts), what a node makes besides its first output
   (statistics of normalizations, logarithms of sums), and the nodes of -precision_keep. So do the
   terms of what lanes add up, and their inner sums; the sum of products is what a product makes. A
   gradient is kept as its value, those of terms as that of their sum, of which they are copies:
   products read 16 bits. Gradients of what has no samples, as parameters, are kept as the sums that
   they become.

   With factors of 8 bits it is the same: who computes a product rounds copies of them. */
#include "graphimpl.h"
#include "renga/private/pattern.h"
#include <string.h>

/*@
   RengaGraphSetPrecision - say in what types a network's tensors are kept

   Input:
   . graph - the graph, before RengaGraphSetUp
   . precision - RENGA_PRECISION_FP32, _BF16, _FP16, _TF32 or _FP8; the same on all ranks
   . keep - nodes whose tensors and parameters stay float32: patterns of the shell, comma separated
     ("*norm*,lm_head"); NULL: none

   Options:
   . -precision fp32|bf16|fp16|tf32|fp8, -precision_keep PATTERNS - likewise

   Errors: RENGA_ERR_ARGUMENT for a precision that there is not; RENGA_ERR_ORDER after
   RengaGraphSetUp. A pattern that fits no node is an error of RengaGraphSetUp.

   Notes: kernels compute in float32 and round what they make. Parameters have float32 masters,
   which updates change and checkpoints hold; what is summed over samples, micro-batches and
   replicas, the loss, norms and statistics are float32. A checkpoint made in one precision goes on
   in any other. With _TF32 all tensors are float32, and products (MatMul, Linear, Conv and their
   gradients) round their factors to 10 bits of fraction; only the cuda device runs it. With _FP8
   types are those of _BF16, and linear layers but the last ones round the factors of their products
   to 8 bits, see doc/precision.md.

   Source: P. Micikevicius and others, Mixed precision training, ICLR 2018.

   See also: RengaGraphGetPrecision(), RengaPrecisionGetStorage()
@*/
RengaErrorCode RengaGraphSetPrecision(RengaGraph graph, RengaPrecision precision, const char *keep)
{
  RengaStorage storage;
  char *patterns = NULL;
  RengaCheckPointer(graph);
  RengaCall(RengaPrecisionGetStorage(precision, &storage));
  RengaCheck(graph->hdr.state == RENGA_STATE_NEW, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetPrecision: call it before RengaGraphSetUp");
  if (keep) RengaCall(RengaStringCopy(keep, &patterns));
  RengaFree(&graph->options.keep);
  graph->options.precision = precision;
  graph->options.keep = patterns;
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetPrecision - in what types a network's tensors are kept

   Output:
   . precision - RENGA_PRECISION_FP32 where nothing was said
@*/
RengaErrorCode RengaGraphGetPrecision(RengaGraph graph, RengaPrecision *precision)
{
  RengaCheckPointers(graph, precision);
  *precision = graph->options.precision;
  return RENGA_SUCCESS;
}

static RengaErrorCode GetNarrow(RengaGraph graph, RengaDataType *narrow)
{
  RengaPrecision precision;
  RengaStorage storage;
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  RengaCall(RengaPrecisionGetStorage(precision, &storage));
  *narrow = storage.value;
  return RENGA_SUCCESS;
}

/* The nodes that a pattern of -precision_keep names become wide. Where lanes follow it is done
   before, with the names that the network has, and again for nodes that are made later. */
RengaErrorCode RengaGraphMarkWide(RengaGraph graph)
{
  const char *list = graph->options.keep;
  char pattern[RENGA_GRAPH_PATTERN];
  for (int p = 0; list && RengaGraphNextPattern(&list, pattern); p++) {
    const uint64_t bit = UINT64_C(1) << (p < 63 ? p : 63);
    bool fits = graph->fitted[RENGA_GRAPH_OF_KEPT] & bit;
    for (int i = 0; i < graph->n_nodes; i++) {
      RengaGraphNode *node = RengaGraphEntryNode(graph, i);
      if (RengaIsMatch(pattern, node->name)) fits = node->wide = true;
    }
    RengaCheck(fits, graph->hdr.comm, RENGA_ERR_OPTION,
               "-precision_keep: \"%s\" fits no node of the network", pattern);
    graph->fitted[RENGA_GRAPH_OF_KEPT] |= bit;
  }
  return RENGA_SUCCESS;
}

static bool Leads(const RengaGraphNode *node, const bool leads[])
{
  bool any = false;
  for (int o = 0; o < node->n_out; o++) any = any || (node->out[o] >= 0 && leads[node->out[o]]);
  return any;
}

/* leads: by value, a product reads what is made of it. */
static void FindLeads(RengaGraph graph, bool leads[])
{
  for (int n = graph->n_nodes; n-- > 0;) {
    const RengaGraphNode *node = &graph->entry[n]->node;
    if (!(node->op->flags & RENGA_OP_PRODUCT) && !Leads(node, leads)) continue;
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] >= 0) leads[node->in[i]] = true;
  }
}

/* Outputs after the first are sums and statistics; Split makes parts of its input. */
static bool IsStatistic(const RengaGraphNode *node, int output)
{
  return output > 0 && node->op->max_out > 0;
}

static bool MayBeNarrow(const RengaGraphValue *value)
{
  return value->spec.type == RENGA_FLOAT32 && value->kind == RENGA_VALUE_ACTIVATION &&
         !value->prepared;
}

/* product: by value, products make it, or the terms that are added up. */
static bool AddsProducts(RengaGraph graph, int at, const bool product[])
{
  const RengaGraphNode *node = &graph->entry[at]->node;
  const RengaValue in = node->n_in > 0 ? node->in[0] : RENGA_VALUE_NONE;
  const int maker = in < 0 ? -1 : graph->value[in]->producer;
  return maker >= 0 && (graph->entry[maker]->term || graph->entry[at]->pieces) && product[in];
}

static void StoreOutputs(RengaGraph graph, int at, const bool leads[], bool product[],
                         RengaDataType narrow)
{
  const RengaGraphNode *node = &graph->entry[at]->node;
  for (int o = 0; o < node->n_out; o++) {
    if (node->out[o] < 0) continue;
    RengaGraphValue *value = graph->value[node->out[o]];
    if (!MayBeNarrow(value)) continue;
    if (node->op->flags & RENGA_OP_RESHAPE) {
      value->stored = graph->value[node->in[0]]->stored;
      if (!graph->entry[at]->term)
        value->stored_gradient = graph->value[node->in[0]]->stored_gradient;
      continue;
    }
    if (IsStatistic(node, o) || node->wide) continue;
    product[node->out[o]] =
        (node->op->flags & RENGA_OP_PRODUCT) || AddsProducts(graph, at, product);
    if (!product[node->out[o]] && !leads[node->out[o]]) continue;
    value->stored_gradient = narrow;
    if (!graph->entry[at]->term) value->stored = narrow;
  }
}

/* A parameter that a wide node reads is read as it is updated. */
static void StoreParameters(RengaGraph graph, RengaDataType narrow)
{
  for (int v = 0; v < graph->n_values; v++) {
    RengaGraphValue *value = graph->value[v];
    if (value->kind == RENGA_VALUE_PARAMETER && value->spec.ndim >= 2 &&
        value->spec.type == RENGA_FLOAT32)
      value->stored = narrow;
  }
  for (int n = 0; n < graph->n_nodes; n++) {
    const RengaGraphNode *node = &graph->entry[n]->node;
    for (int i = 0; i < node->n_in && node->wide; i++)
      if (node->in[i] >= 0 && graph->value[node->in[i]]->kind == RENGA_VALUE_PARAMETER)
        graph->value[node->in[i]]->stored = graph->value[node->in[i]]->spec.type;
  }
}

/* TF32: products from node first on that know the attribute, but those of nodes that stay wide. */
static RengaErrorCode MarkTf32(RengaGraph graph, const RengaGraphNode *forward, int first)
{
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  for (int n = first; n < graph->n_nodes && precision == RENGA_PRECISION_TF32; n++) {
    RengaGraphNode *node = RengaGraphEntryNode(graph, n);
    const bool wide = forward ? forward->wide : node->wide;
    if (!wide && node->op->attributes && strstr(node->op->attributes, "rounds:"))
      RengaCall(RengaAttributesSetInt(&node->attributes, "rounds", RENGA_PRECISION_TF32));
  }
  return RENGA_SUCCESS;
}

/* FP8: linear layers whose output leads to another product; the last ones make scores. Their
   gradients have their attributes. */
static RengaErrorCode MarkFp8(RengaGraph graph, const bool leads[])
{
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  for (int n = 0; n < graph->n_nodes && precision == RENGA_PRECISION_FP8; n++) {
    RengaGraphNode *node = RengaGraphEntryNode(graph, n);
    if (strcmp(node->op->name, "Linear") == 0 && !node->wide && leads[node->out[0]] &&
        !RengaGraphHasBatch(graph, node->in[1]))
      RengaCall(RengaAttributesSetInt(&node->attributes, "rounds", RENGA_PRECISION_FP8));
  }
  return RENGA_SUCCESS;
}

/* Of a network in canonical form. */
RengaErrorCode RengaGraphChooseStored(RengaGraph graph)
{
  RengaDataType narrow;
  bool *leads, *product;
  RengaCall(GetNarrow(graph, &narrow));
  RengaCall(RengaGraphMarkWide(graph));
  RengaCall(MarkTf32(graph, NULL, 0));
  for (int v = 0; v < graph->n_values; v++)
    graph->value[v]->stored = graph->value[v]->stored_gradient = graph->value[v]->spec.type;
  if (narrow == RENGA_FLOAT32) return RENGA_SUCCESS;
  RengaCall(RengaGraphScratch(graph, graph->n_values, &leads));
  RengaCall(RengaGraphScratch(graph, graph->n_values, &product));
  FindLeads(graph, leads);
  RengaCall(MarkFp8(graph, leads));
  StoreParameters(graph, narrow);
  for (int n = 0; n < graph->n_nodes; n++) StoreOutputs(graph, n, leads, product, narrow);
  return RENGA_SUCCESS;
}

/* A value that the nodes of one rule of reverse mode make on the way: narrow where what it is made
   of is. */
static void StoreInnerOutputs(RengaGraph graph, const RengaGraphNode *forward,
                              const RengaGraphNode *node)
{
  RengaDataType type = RENGA_FLOAT32;
  for (int i = 0; i < node->n_in && !forward->wide; i++) {
    if (node->in[i] < 0) continue;
    const RengaGraphValue *value = graph->value[node->in[i]];
    if (value->spec.type == RENGA_FLOAT32 && value->stored != RENGA_FLOAT32) type = value->stored;
  }
  if (node->op->flags & RENGA_OP_RESHAPE) type = graph->value[node->in[0]]->stored;
  for (int o = 0; o < node->n_out; o++) {
    RengaGraphValue *value = node->out[o] < 0 ? NULL : graph->value[node->out[o]];
    if (value && value->spec.type == RENGA_FLOAT32) value->stored = type;
  }
}

/* What a value is a view of, among those that nodes from first on make. */
static RengaValue ViewedBy(RengaGraph graph, int first, RengaValue value)
{
  while (graph->value[value]->producer >= first) {
    const RengaGraphNode *node = &graph->entry[graph->value[value]->producer]->node;
    if (!(node->op->flags & RENGA_OP_RESHAPE)) break;
    value = node->in[0];
  }
  return value;
}

static void StoreViews(RengaGraph graph, int first)
{
  for (int n = first; n < graph->n_nodes; n++) {
    const RengaGraphNode *node = &graph->entry[n]->node;
    if (node->op->flags & RENGA_OP_RESHAPE)
      graph->value[node->out[0]]->stored = graph->value[node->in[0]]->stored;
  }
}

/* Of a parameter, and of what is made of parameters alone, it is a sum over samples; lanes and
   stages add to it. */
RengaDataType RengaGraphTypeOfGradient_Private(RengaGraph graph, RengaValue of)
{
  const RengaGraphValue *value = graph->value[of];
  const bool sum = value->kind == RENGA_VALUE_PARAMETER || !RengaGraphHasBatch(graph, of);
  return sum ? value->spec.type : value->stored_gradient;
}

static RengaErrorCode CastGradient(RengaGraph graph, RengaDataType type, RengaValue *gradient)
{
  RengaAttributes attributes = {0};
  RengaValue copy = RENGA_VALUE_NONE;
  if (graph->value[*gradient]->stored == type) return RENGA_SUCCESS;
  RengaErrorCode code =
      RengaAttributesSetInt(&attributes, "to", (int64_t)graph->value[*gradient]->spec.type);
  if (!code)
    code = RengaGraphInsertNode(graph, "Cast", NULL, &attributes, 1, gradient, 1, NULL, &copy);
  RengaKeepFirst_Private(&code, RengaAttributesFree(&attributes));
  RengaCall(code);
  graph->value[copy]->stored = type;
  *gradient = copy;
  return RENGA_SUCCESS;
}

/* The gradients that one rule has made, by the nodes from first on: dx[i] of the forward node's
   input i, or NONE. Each is kept as its value is; one that stands for two values of different types
   is copied. */
RengaErrorCode RengaGraphStoreGradients(RengaGraph graph, const RengaGraphNode *forward, int first,
                                        RengaValue dx[])
{
  for (int n = first; n < graph->n_nodes; n++)
    StoreInnerOutputs(graph, forward, &graph->entry[n]->node);
  for (int i = forward->n_in; i-- > 0;) { /* the first input has the last word */
    const RengaValue root = dx[i] < 0 ? dx[i] : ViewedBy(graph, first, dx[i]);
    if (root >= 0 && graph->value[root]->producer >= first)
      graph->value[root]->stored = RengaGraphTypeOfGradient_Private(graph, forward->in[i]);
  }
  StoreViews(graph, first);
  RengaCall(MarkTf32(graph, forward, first));
  for (int i = 0; i < forward->n_in; i++)
    if (dx[i] >= 0)
      RengaCall(
          CastGradient(graph, RengaGraphTypeOfGradient_Private(graph, forward->in[i]), &dx[i]));
  return RENGA_SUCCESS;
}
