/* The loss of each sample, beside that of the batch: the sum over the samples that the loss is made
   of, taken sample by sample. Of a cross-entropy it is the mean over the sample's labels that
   count; class weights are left out. Where a sample has one label its confidence follows: the
   probability of the likeliest class, negative where that is not the label.

   In place of the loss the norm of its gradient may be wanted: with respect to what the loss is
   made of, the scores of a cross-entropy, which bounds that with respect to the parameters up to a
   factor of all samples alike (Katharopoulos and Fleuret, Not All Samples Are Created Equal: Deep
   Learning with Importance Sampling, ICML 2018). */
#include "graphimpl.h"
#include <string.h>

typedef struct {
  RengaGraph graph;
  int sum;     /* the node that adds up the samples; -1: none was found */
  int n_sums;  /* how many there are */
  int unknown; /* a node that is neither linear nor such a sum; -1: there is none */
} LossParts;

static bool IsOneOfNames(const char *name, const char *const names[])
{
  for (; *names; names++)
    if (strcmp(name, *names) == 0) return true;
  return false;
}

/* Down from the loss, through what is linear, to the sums over samples. */
static void FindLossParts(LossParts *parts, RengaValue value)
{
  static const char *const sums[] = {"CrossEntropy",
                                     "CrossEntropyJoin",
                                     "LogLikelihood",
                                     "ReduceSum",
                                     "ReduceSumSquare",
                                     "ReduceL1",
                                     NULL};
  static const char *const linear[] = {"Add",       "Sub",      "Mul",     "Div",
                                       "Neg",       "Cast",     "Reshape", "StopGradient",
                                       "ReduceSum", "Identity", NULL};
  const RengaGraphValue *at = parts->graph->value[value];
  if (at->producer < 0 || at->prepared) return;
  const RengaGraphNode *node = &parts->graph->entry[at->producer]->node;
  bool batch = false;
  for (int i = 0; i < node->n_in; i++)
    batch = batch || RengaGraphHasBatch(parts->graph, node->in[i]);
  if (batch && IsOneOfNames(node->op->name, sums)) {
    parts->n_sums += parts->sum != at->producer;
    parts->sum = at->producer;
  } else if (batch) {
    parts->unknown = at->producer;
  } else if (IsOneOfNames(node->op->name, linear)) {
    for (int i = 0; i < node->n_in; i++) FindLossParts(parts, node->in[i]);
  }
}

/* One node; attributes are freed, also where it fails. */
static RengaErrorCode PutNode(RengaGraph graph, const char *op, RengaAttributes *attributes,
                              int n_in, const RengaValue in[], const RengaTensorSpec *given,
                              RengaValue *out)
{
  RengaValue made = RENGA_VALUE_NONE;
  const RengaErrorCode code =
      RengaGraphInsertNode(graph, op, NULL, attributes, n_in, in, 1, given, &made);
  if (attributes) RengaAttributesFree(attributes);
  RengaCall(code);
  *out = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode PutOne(RengaGraph graph, const char *op, RengaValue x, RengaValue *y)
{
  RengaCall(PutNode(graph, op, NULL, 1, &x, NULL, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutTwo(RengaGraph graph, const char *op, RengaValue a, RengaValue b,
                             RengaValue *y)
{
  RengaCall(PutNode(graph, op, NULL, 2, (const RengaValue[]){a, b}, NULL, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutNumber(RengaGraph graph, double value, RengaDataType type, RengaValue *y)
{
  const RengaTensorSpec scalar = {.type = type};
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetReal(&attributes, "value", value));
  RengaCall(RengaAttributesSetInt(&attributes, "to", (int64_t)type));
  RengaCall(PutNode(graph, "ConstantOfShape", &attributes, 0, NULL, &scalar, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutShape(RengaGraph graph, RengaValue x, const RengaTensorSpec *shape,
                               RengaValue *y)
{
  RengaTensorSpec spec = *shape;
  spec.type = RengaGraphSpec(graph, x)->type;
  RengaCall(PutNode(graph, "Reshape", NULL, 1, &x, &spec, y));
  return RENGA_SUCCESS;
}

/* [samples, elements of each] */
static RengaErrorCode PutRows(RengaGraph graph, RengaValue x, RengaValue *y)
{
  const RengaTensorSpec one = RengaTensorSpecAt(RengaGraphSpec(graph, x), 1);
  const RengaTensorSpec rows = {.ndim = 2, .dim = {-1, RengaTensorSpecCount(&one)}};
  RengaCall(PutShape(graph, x, &rows, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutReduced(RengaGraph graph, const char *op, RengaValue x, int64_t axis,
                                 RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, &axis));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 1));
  RengaCall(PutNode(graph, op, &attributes, 1, &x, NULL, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutFloat(RengaGraph graph, RengaValue x, RengaValue *y)
{
  RengaAttributes attributes = {0};
  *y = x;
  if (RengaGraphSpec(graph, x)->type == RENGA_FLOAT32) return RENGA_SUCCESS;
  RengaCall(RengaAttributesSetInt(&attributes, "to", RENGA_FLOAT32));
  RengaCall(PutNode(graph, "Cast", &attributes, 1, &x, NULL, y));
  return RENGA_SUCCESS;
}

/* What a cross-entropy compares. Values below have the shape of the scores, 1 at the axis. */
typedef struct {
  RengaGraph graph;
  RengaValue scores, labels, logsum; /* logsum NONE: the scores are log-probabilities */
  RengaValue ignored;                /* in the shape of the labels, bool; NONE: all count */
  RengaTensorSpec shape;
  int64_t axis;
} LabelLoss;

/* The labels, 0 in place of those that do not count. */
static RengaErrorCode PutLabels(LabelLoss *loss, int64_t ignore, RengaValue *safe)
{
  const RengaDataType type = RengaGraphSpec(loss->graph, loss->labels)->type;
  RengaValue number, zero;
  *safe = loss->labels;
  if (ignore == INT64_MIN) return RENGA_SUCCESS;
  RengaCall(PutNumber(loss->graph, (double)ignore, type, &number));
  RengaCall(PutTwo(loss->graph, "Equal", loss->labels, number, &loss->ignored));
  RengaCall(PutNumber(loss->graph, 0, type, &zero));
  RengaCall(PutNode(loss->graph, "Where", NULL, 3,
                    (const RengaValue[]){loss->ignored, zero, loss->labels}, NULL, safe));
  return RENGA_SUCCESS;
}

/* The score of the label. */
static RengaErrorCode PutPicked(const LabelLoss *loss, RengaValue safe, RengaValue *picked)
{
  RengaAttributes attributes = {0};
  RengaValue indices;
  RengaCall(PutShape(loss->graph, safe, &loss->shape, &indices));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", loss->axis));
  RengaCall(PutNode(loss->graph, "GatherElements", &attributes, 2,
                    (const RengaValue[]){loss->scores, indices}, NULL, picked));
  return RENGA_SUCCESS;
}

/* Log-probabilities of scores. */
static RengaErrorCode PutLogarithm(const LabelLoss *loss, RengaValue score, RengaValue *logarithm)
{
  RengaValue sum;
  RengaCall(PutFloat(loss->graph, score, logarithm));
  if (loss->logsum == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaCall(PutShape(loss->graph, loss->logsum, &loss->shape, &sum));
  RengaCall(PutTwo(loss->graph, "Sub", *logarithm, sum, logarithm));
  return RENGA_SUCCESS;
}

/* [samples, 1]: how many labels count, at least 1. */
static RengaErrorCode PutCounted(const LabelLoss *loss, RengaValue *number)
{
  RengaValue zero, one, skipped, counted;
  RengaCall(PutNumber(loss->graph, 0, RENGA_FLOAT32, &zero));
  RengaCall(PutNumber(loss->graph, 1, RENGA_FLOAT32, &one));
  RengaCall(PutRows(loss->graph, loss->ignored, &skipped));
  RengaCall(PutNode(loss->graph, "Where", NULL, 3, (const RengaValue[]){skipped, zero, one}, NULL,
                    &counted));
  RengaCall(PutReduced(loss->graph, "ReduceSum", counted, 1, number));
  RengaCall(PutTwo(loss->graph, "Max", *number, one, number));
  return RENGA_SUCCESS;
}

/* [samples, 1]: the mean of [samples, labels] over those that count. */
static RengaErrorCode PutMean(const LabelLoss *loss, RengaValue rows, RengaValue *mean)
{
  RengaValue zero, skipped, number;
  if (loss->ignored == RENGA_VALUE_NONE) {
    RengaCall(PutReduced(loss->graph, "ReduceMean", rows, 1, mean));
    return RENGA_SUCCESS;
  }
  RengaCall(PutCounted(loss, &number));
  RengaCall(PutNumber(loss->graph, 0, RENGA_FLOAT32, &zero));
  RengaCall(PutRows(loss->graph, loss->ignored, &skipped));
  RengaCall(PutNode(loss->graph, "Where", NULL, 3, (const RengaValue[]){skipped, zero, rows}, NULL,
                    &rows));
  RengaCall(PutReduced(loss->graph, "ReduceSum", rows, 1, mean));
  RengaCall(PutTwo(loss->graph, "Div", *mean, number, mean));
  return RENGA_SUCCESS;
}

/* [samples, 1]: the largest probability, negative where the label has a smaller one. */
static RengaErrorCode PutConfidence(const LabelLoss *loss, RengaValue picked, RengaValue *y)
{
  RengaValue most, right, confidence, wrong;
  RengaCall(PutReduced(loss->graph, "ReduceMax", loss->scores, loss->axis, &most));
  RengaCall(PutFloat(loss->graph, most, &most));
  RengaCall(PutFloat(loss->graph, picked, &picked));
  RengaCall(PutTwo(loss->graph, "Equal", picked, most, &right));
  RengaCall(PutLogarithm(loss, most, &confidence));
  RengaCall(PutOne(loss->graph, "Exp", confidence, &confidence));
  RengaCall(PutOne(loss->graph, "Neg", confidence, &wrong));
  RengaCall(PutNode(loss->graph, "Where", NULL, 3, (const RengaValue[]){right, confidence, wrong},
                    NULL, &confidence));
  RengaCall(PutRows(loss->graph, confidence, y));
  return RENGA_SUCCESS;
}

/* [samples, 1]: the norm of the gradient of the mean over the labels that count. */
static RengaErrorCode PutNorms(const LabelLoss *loss, int64_t ignore, int64_t labels, RengaValue *y)
{
  RengaValue one, number, gradient;
  RengaAttributes attributes = {0};
  RengaCall(PutNumber(loss->graph, 1, RENGA_FLOAT32, &one));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", loss->axis));
  RengaCall(RengaAttributesSetInt(&attributes, "ignore_index", ignore));
  RengaCall(PutNode(loss->graph, "CrossEntropyGrad", &attributes, 4,
                    (const RengaValue[]){one, loss->scores, loss->labels, loss->logsum}, NULL,
                    &gradient));
  RengaCall(PutFloat(loss->graph, gradient, &gradient));
  RengaCall(PutRows(loss->graph, gradient, &gradient));
  RengaCall(PutReduced(loss->graph, "ReduceL2", gradient, 1, y));
  if (loss->ignored != RENGA_VALUE_NONE)
    RengaCall(PutCounted(loss, &number));
  else
    RengaCall(PutNumber(loss->graph, (double)labels, RENGA_FLOAT32, &number));
  RengaCall(PutTwo(loss->graph, "Div", *y, number, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutLabelLosses(LabelLoss *loss, const RengaGraphNode *node, RengaValue *y)
{
  RengaValue safe, picked, logarithm, rows, confidence;
  const int64_t ignore = RengaAttributesInt(&node->attributes, "ignore_index", INT64_MIN);
  RengaCall(PutLabels(loss, ignore, &safe));
  RengaCall(PutPicked(loss, safe, &picked));
  RengaCall(PutLogarithm(loss, picked, &logarithm));
  RengaCall(PutOne(loss->graph, "Neg", logarithm, &logarithm));
  RengaCall(PutRows(loss->graph, logarithm, &rows));
  if (loss->graph->flags & RENGA_GRAPH_GRADIENT_NORMS)
    RengaCall(PutNorms(loss, ignore, RengaGraphSpec(loss->graph, rows)->dim[1], y));
  else
    RengaCall(PutMean(loss, rows, y));
  if (RengaGraphSpec(loss->graph, rows)->dim[1] != 1) return RENGA_SUCCESS;
  RengaAttributes attributes = {0};
  RengaCall(PutConfidence(loss, picked, &confidence));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
  RengaCall(PutNode(loss->graph, "Concat", &attributes, 2, (const RengaValue[]){*y, confidence},
                    NULL, y));
  return RENGA_SUCCESS;
}

/* Scores that the loss compares, and the node that says how. Where they are in lanes
   (-graph_lanes), a node puts them together. */
static void FindCompared(RengaGraph graph, const RengaGraphNode *sum,
                         const RengaGraphNode **compares, RengaValue *scores)
{
  *compares = sum;
  *scores = sum->in[0];
  if (strcmp(sum->op->name, "CrossEntropyJoin") != 0) return;
  *compares = &graph->entry[graph->value[sum->in[2]]->producer]->node;
  for (int n = 0; n < graph->n_nodes; n++) {
    const RengaGraphNode *node = &graph->entry[n]->node;
    if (strcmp(node->op->name, "Concat") == 0 && node->in[0] == (*compares)->in[0])
      *scores = node->out[0];
  }
}

static RengaErrorCode PutClassLosses(RengaGraph graph, const RengaGraphNode *sum, RengaValue *y)
{
  const RengaGraphNode *node;
  RengaValue compared;
  FindCompared(graph, sum, &node, &compared);
  const RengaTensorSpec *scores = RengaGraphSpec(graph, compared);
  const bool logarithms = strcmp(node->op->name, "LogLikelihood") == 0;
  LabelLoss loss = {.graph = graph,
                    .scores = compared,
                    .labels = node->in[1],
                    .logsum = RENGA_VALUE_NONE,
                    .ignored = RENGA_VALUE_NONE,
                    .shape = *scores,
                    .axis = RengaAttributesInt(&node->attributes, "axis", -1)};
  RengaCheck(!logarithms || !(graph->flags & RENGA_GRAPH_GRADIENT_NORMS), graph->hdr.comm,
             RENGA_ERR_SUPPORT,
             "norms of the gradients of single samples are not supported where the loss takes "
             "logarithms of probabilities (%s), only scores",
             sum->name);
  RengaCheck(logarithms || sum->n_out > 1, graph->hdr.comm, RENGA_ERR_SUPPORT,
             "losses of single samples are not supported where nothing before the cross-entropy is "
             "trained (%s)",
             sum->name);
  if (loss.axis < 0) loss.axis += scores->ndim;
  loss.shape.dim[loss.axis] = 1;
  if (!logarithms) loss.logsum = sum->out[1];
  RengaCall(PutLabelLosses(&loss, node, y));
  return RENGA_SUCCESS;
}

/* The same sum over what each sample has of it. */
static RengaErrorCode PutSummands(RengaGraph graph, const RengaGraphNode *node, RengaValue *y)
{
  RengaValue rows, two;
  const bool norms = graph->flags & RENGA_GRAPH_GRADIENT_NORMS;
  RengaCheck(!norms || strcmp(node->op->name, "ReduceSumSquare") == 0, graph->hdr.comm,
             RENGA_ERR_SUPPORT,
             "norms of the gradients of single samples are supported for a cross-entropy and a sum "
             "of squares; the loss is a %s (%s)",
             node->op->name, node->name);
  RengaCheck(
      RengaGraphBatchDimension(RengaGraphSpec(graph, node->in[0])) == 0, graph->hdr.comm,
      RENGA_ERR_SUPPORT,
      "losses of single samples are not supported where the batch is not the first dimension "
      "of what the loss adds up (%s, input of %s)",
      graph->value[node->in[0]]->name, node->name);
  RengaCall(PutFloat(graph, node->in[0], &rows));
  RengaCall(PutRows(graph, rows, &rows));
  RengaCall(PutReduced(graph, norms ? "ReduceL2" : node->op->name, rows, 1, y));
  if (!norms) return RENGA_SUCCESS;
  RengaCall(PutNumber(graph, 2, RENGA_FLOAT32, &two)); /* of squares */
  RengaCall(PutTwo(graph, "Mul", *y, two, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindLossSum(RengaGraph graph, int *node)
{
  LossParts parts = {.graph = graph, .sum = -1, .unknown = -1};
  RengaCheck(graph->loss >= 0, graph->hdr.comm, RENGA_ERR_GRAPH,
             "losses of single samples need a network with a loss");
  RengaCheck(
      graph->options.whole_batch == 0, graph->hdr.comm, RENGA_ERR_SUPPORT,
      "losses of single samples are not supported with -graph_whole_batch %lld: its loss may "
      "depend on several samples at once",
      (long long)graph->options.whole_batch);
  FindLossParts(&parts, graph->loss);
  RengaCheck(parts.unknown < 0, graph->hdr.comm, RENGA_ERR_SUPPORT,
             "losses of single samples are not supported for a loss that %s (%s) makes of the "
             "samples",
             graph->entry[parts.unknown]->node.name, graph->entry[parts.unknown]->node.op->name);
  RengaCheck(graph->options.token_lanes < 2 || parts.n_sums < 2, graph->hdr.comm, RENGA_ERR_SUPPORT,
             "losses of single samples are not supported for a loss in lanes of tokens: leave out "
             "-graph_token_lanes %lld",
             (long long)graph->options.token_lanes);
  RengaCheck(parts.n_sums == 1, graph->hdr.comm, RENGA_ERR_SUPPORT,
             "losses of single samples are not supported for a loss of %d sums over the samples "
             "(the network has one for each of several targets, or none)",
             parts.n_sums);
  *node = parts.sum;
  return RENGA_SUCCESS;
}

/* A step of set-up, where the program has asked for it: an output more. */
RengaErrorCode RengaGraphAddSampleLosses(RengaGraph graph)
{
  RengaValue y;
  char name[64];
  int at = -1;
  if (!(graph->flags & RENGA_GRAPH_SAMPLE_LOSSES)) return RENGA_SUCCESS;
  RengaCall(FindLossSum(graph, &at));
  const RengaGraphNode *node = &graph->entry[at]->node;
  if (strncmp(node->op->name, "Reduce", 6) == 0)
    RengaCall(PutSummands(graph, node, &y));
  else
    RengaCall(PutClassLosses(graph, node, &y));
  RengaCall(RengaGraphMarkValues(graph));
  RengaCall(RengaGraphCheckSamples(graph));
  RengaCheck(graph->value[y]->in_order, graph->hdr.comm, RENGA_ERR_SUPPORT,
             "losses of single samples are not supported where the samples do not follow one "
             "another in what the loss adds up (%s)",
             node->name);
  RengaCall(RengaGraphUniqueName(graph, "sample_losses", sizeof name, name));
  RengaCall(RengaGraphRenameValue_Private(graph, y, name));
  graph->sample_losses = graph->n_outputs;
  RengaCall(RengaGraphAddOutput(graph, y));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetSampleLosses - ask for the loss of each sample beside that of the batch

   Not collective (the same on all ranks)

   Input:
   . graph - not set up yet
   . wanted - true: set-up adds an output [samples, 1 or 2] of float32, which a training step makes
     with no pass of its own. The first column is the loss of the sample. Where a cross-entropy has
     one label for each sample, the second is the probability of the likeliest class, negative where
     that is not the label

   Errors: set-up refuses networks whose loss is not one sum over the samples (several targets,
   -graph_whole_batch, a batch that is not the first dimension) with RENGA_ERR_SUPPORT.

   Notes: the loss of a cross-entropy is the mean over the labels of the sample that count, without
   class weights; that of another sum is the same sum over what the sample has of it. Penalties on
   parameters belong to no sample. RengaPipelineGetSampleLosses has the numbers after a step.

   See also: RengaGraphGetSampleLosses(), RengaGraphSetSampleNorms(), RengaGraphSetUp()
@*/
RengaErrorCode RengaGraphSetSampleLosses(RengaGraph graph, bool wanted)
{
  RengaCheckPointer(graph);
  RengaCheck(graph->hdr.state < RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetSampleLosses: the graph is set up already");
  graph->flags =
      (graph->flags & ~RENGA_GRAPH_SAMPLE_LOSSES) | (wanted ? RENGA_GRAPH_SAMPLE_LOSSES : 0);
  return RENGA_SUCCESS;
}

/*@
   RengaGraphSetSampleNorms - norms of gradients in place of the losses of the samples

   Not collective (the same on all ranks)

   Input:
   . graph - not set up yet, with RengaGraphSetSampleLosses
   . wanted - true: the first column of that output is, of each sample, the norm of the gradient of
     its loss. It is with respect to the scores of a cross-entropy, or the summands of a sum of
     squares

   Errors: RENGA_ERR_ORDER after set-up; set-up refuses other losses with RENGA_ERR_SUPPORT.

   Notes: of a cross-entropy with one label the norm of the probabilities less 1 at the label. No
   pass is made for it. Source: Katharopoulos and Fleuret, ICML 2018, equation 19: up to a factor it
   bounds the norm of the gradient with respect to all parameters.

   See also: RengaGraphSetSampleLosses()
@*/
RengaErrorCode RengaGraphSetSampleNorms(RengaGraph graph, bool wanted)
{
  RengaCheckPointer(graph);
  RengaCheck(graph->hdr.state < RENGA_STATE_SETUP, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaGraphSetSampleNorms: the graph is set up already");
  graph->flags =
      (graph->flags & ~RENGA_GRAPH_GRADIENT_NORMS) | (wanted ? RENGA_GRAPH_GRADIENT_NORMS : 0);
  return RENGA_SUCCESS;
}

/*@
   RengaGraphGetSampleLosses - the output with the loss of each sample

   Output:
   . value - RENGA_VALUE_NONE where it was not asked for, or the graph is not set up
@*/
RengaErrorCode RengaGraphGetSampleLosses(RengaGraph graph, RengaValue *value)
{
  RengaCheckPointers(graph, value);
  *value = (graph->flags & RENGA_GRAPH_SAMPLE_LOSSES) && graph->hdr.state >= RENGA_STATE_SETUP
               ? graph->output[graph->sample_losses]
               : RENGA_VALUE_NONE;
  return RENGA_SUCCESS;
}
