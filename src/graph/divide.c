/* Divided networks: in place of one network S narrow ones, whose widths are divided by the root of
   S, so that together they have about as many parameters and FLOPs. They begin differently and are
   trained together: each with the loss of its own, and all with the Jensen-Shannon divergence of
   their probabilities, which pulls them to their mean. What the network answers is that mean.

   Zhao et al., "Towards Better Accuracy-Efficiency Trade-Offs: Divide and Co-Training", IEEE TIP
   2022; Nguyen et al., "FedDCT", IEEE TNSM 2023 (arXiv 2211.10948).

   The builder runs once for each part, with names under a prefix and the inputs of the first part.
   What it ends with (RengaBlockFinish) is taken as a part's scores and loss. Parts are intervals of
   the canonical order, so that cuts find them. */
#include "build/blocks.h"
#include "division.h"
#include <math.h>
#include <string.h>

/* ---- the loss ---- */
static RengaErrorCode AddPair(RengaGraph graph, const char *op, RengaValue a, RengaValue b,
                              RengaValue *y)
{
  const RengaValue in[2] = {a, b};
  RengaCall(RengaBlockNode(graph, op, NULL, NULL, 2, in, 1, y));
  return RENGA_SUCCESS;
}

/* The logarithm of the mean probability: m + log(sum of exp(log p - m)) - log S, where m is the
   largest of the logarithms, and no variable. */
static RengaErrorCode AddMean(RengaGraph graph, const RengaGraphParts *parts, RengaValue *mean)
{
  RengaValue largest = parts->logs[0], sum = RENGA_VALUE_NONE, x;
  for (int s = 1; s < parts->done; s++)
    RengaCall(AddPair(graph, "Max", largest, parts->logs[s], &largest));
  RengaCall(RengaGraphAddUnary(graph, "StopGradient", largest, &largest));
  for (int s = 0; s < parts->done; s++) {
    RengaCall(AddPair(graph, "Sub", parts->logs[s], largest, &x));
    RengaCall(RengaGraphAddUnary(graph, "Exp", x, &x));
    if (s > 0) RengaCall(AddPair(graph, "Add", sum, x, &x));
    sum = x;
  }
  RengaCall(RengaGraphAddUnary(graph, "Log", sum, &x));
  RengaCall(AddPair(graph, "Add", largest, x, &x));
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  const float shift = (float)log((double)parts->done);
  RengaValue in[2] = {x};
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &shift, &in[1]));
  RengaCall(RengaBlockNode(graph, "Sub", RENGA_GRAPH_MEAN_OF_PARTS, NULL, 2, in, 1, mean));
  return RENGA_SUCCESS;
}

/* The sum over parts and classes of p (log p - log mean p), for each label. */
static RengaErrorCode AddDivergence(RengaGraph graph, const RengaGraphParts *parts, RengaValue mean,
                                    RengaValue *each)
{
  RengaValue sum = RENGA_VALUE_NONE, p, x;
  RengaAttributes attributes = {0};
  for (int s = 0; s < parts->done; s++) {
    RengaCall(RengaGraphAddUnary(graph, "Exp", parts->logs[s], &p));
    RengaCall(AddPair(graph, "Sub", parts->logs[s], mean, &x));
    RengaCall(AddPair(graph, "Mul", p, x, &x));
    if (s > 0) RengaCall(AddPair(graph, "Add", sum, x, &x));
    sum = x;
  }
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){-1}));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaBlockNode(graph, "ReduceSum", NULL, &attributes, 1, &sum, 1, each));
  return RENGA_SUCCESS;
}

/* The mean over the labels that count. */
static RengaErrorCode AddMeanOfLabels(RengaGraph graph, RengaValue labels, RengaValue each,
                                      RengaValue *mean)
{
  const RengaTensorSpec integer = {.type = RENGA_INT64}, real = {.type = RENGA_FLOAT32};
  RengaAttributes attributes = {0};
  RengaValue pair[2] = {labels}, in[3] = {RENGA_VALUE_NONE, RENGA_VALUE_NONE, each}, count;
  RengaCall(RengaGraphAddConstant(graph, NULL, &integer, &(int64_t){-100}, &pair[1]));
  RengaCall(RengaBlockNode(graph, "Equal", NULL, NULL, 2, pair, 1, &in[0]));
  RengaCall(RengaGraphAddConstant(graph, NULL, &real, &(float){0}, &in[1]));
  RengaCall(RengaBlockNode(graph, "Where", NULL, NULL, 3, in, 1, mean));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(
      RengaBlockNode(graph, "ReduceSum", NULL, &attributes, 1, &(RengaValue){*mean}, 1, mean));
  RengaCall(RengaAttributesSetInt(&attributes, "ignore_index", -100));
  RengaCall(RengaBlockNode(graph, "CrossEntropyCount", NULL, &attributes, 1, &labels, 1, &count));
  RengaCall(RengaGraphAddUnary(graph, "BatchSum", count, &count));
  RengaCall(AddPair(graph, "Div", *mean, count, mean));
  return RENGA_SUCCESS;
}

/* sum of the losses + weight * Jensen-Shannon divergence; the outputs are it and the mean. */
static RengaErrorCode FinishParts(RengaGraph graph)
{
  const RengaGraphParts *parts = graph->parts;
  const RengaValue labels = RengaGraphFindValue(graph, "labels");
  RengaValue mean, divergence, loss = parts->loss[0];
  for (int s = 0; s < parts->done; s++)
    RengaCall(RengaGraphAddUnary(graph, "LogSoftmax", parts->scores[s], &parts->logs[s]));
  for (int s = 1; s < parts->done; s++)
    RengaCall(AddPair(graph, "Add", loss, parts->loss[s], &loss));
  RengaCall(AddMean(graph, parts, &mean));
  if (parts->division.weight > 0) {
    RengaCall(AddDivergence(graph, parts, mean, &divergence));
    RengaCall(AddMeanOfLabels(graph, labels, divergence, &divergence));
    RengaCall(
        RengaBlockScale(graph, divergence, parts->division.weight / parts->done, &divergence));
    const RengaValue in[2] = {loss, divergence};
    RengaCall(RengaBlockNode(graph, "Add", "loss", NULL, 2, in, 1, &loss));
  }
  RengaCall(RengaGraphSetLoss(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, mean));
  return RENGA_SUCCESS;
}

/* ---- building ---- */
/* settings: of the whole network; narrow: room for those of a part. */
static RengaErrorCode BuildPart(RengaGraph graph, const RengaGraphBuilder *builder,
                                const void *settings, void *narrow)
{
  RengaGraphParts *parts = graph->parts;
  memcpy(narrow, settings, builder->size);
  RengaCall(builder->narrow(narrow, 1 / sqrt((double)parts->division.parts)));
  snprintf(parts->prefix, sizeof parts->prefix, "models.%d.", parts->done);
  parts->building = true;
  const RengaErrorCode code = builder->build(graph, narrow);
  parts->building = false;
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphBuildParts(RengaGraph graph, const RengaGraphBuilder *builder,
                                    const void *settings)
{
  RengaGraphParts *parts = graph->parts;
  char *narrow = NULL;
  if (!parts || parts->division.parts <= 1) {
    RengaCall(builder->build(graph, settings));
    return RENGA_SUCCESS;
  }
  RengaCheck(builder->narrow, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "-graph_divide %lld: %s cannot be divided; gpt, mlp, resnet and folders of vit can",
             (long long)parts->division.parts, builder->name);
  RengaCall(RengaGraphScratch(graph, parts->division.parts, &parts->scores));
  RengaCall(RengaGraphScratch(graph, parts->division.parts, &parts->logs));
  RengaCall(RengaGraphScratch(graph, parts->division.parts, &parts->loss));
  RengaCall(RengaMalloc(builder->size, &narrow));
  RengaErrorCode code = RENGA_SUCCESS;
  while (!code && parts->done < parts->division.parts)
    code = BuildPart(graph, builder, settings, narrow);
  if (!code) code = FinishParts(graph);
  RengaFree(&narrow);
  RengaCall(code);
  return RENGA_SUCCESS;
}

int64_t RengaGraphNarrow(int64_t width, double share)
{
  const int64_t narrow = (int64_t)((double)width * share + 0.5);
  return narrow > 0 ? narrow : 1;
}

/* The width of a head stays, where the heads can be divided; else their number does. */
void RengaGraphNarrowHeads(double share, int64_t *hidden, int64_t *heads)
{
  const double fewer = (double)*heads * share;
  const int64_t whole = (int64_t)(fewer + 0.5);
  const int64_t kept = whole > 0 && fabs(fewer - (double)whole) < 1e-9 ? whole : *heads;
  *hidden = RengaGraphNarrow(*hidden, share / (double)kept) * kept;
  *heads = kept;
}
