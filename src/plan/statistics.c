/* Statistics over the samples of a micro-batch: of how many values they are, and what is said of
   them. */
#include "planimpl.h"

/* Samples of the smallest micro-batch of a step. */
static int64_t SmallestMicrobatch(RengaPlan plan, int64_t samples)
{
  const int64_t rest = samples % plan->microbatch;
  return rest ? rest : plan->microbatch;
}

/* Whether each statistic of a training step is of two values or more. The same on all ranks.
   samples: samples of the step, at most the plan's batch. */
RengaErrorCode RengaPlanCheckStatistics(RengaPlan plan, RengaGraph graph, int64_t samples)
{
  int count, node;
  int64_t values;
  RengaCheckPointers(plan, graph);
  RengaCall(RengaGraphGetBatchStatistics(graph, &count, &node, &values));
  if (!count || samples < 1) return RENGA_SUCCESS;
  const int64_t least = SmallestMicrobatch(plan, samples);
  RengaCheck(least * values > 1, plan->hdr.comm, RENGA_ERR_PLAN,
             "node \"%s\" (%s) takes the statistics of a channel in training over one value: a "
             "step of %lld sample%s in micro-batches of %lld has one of %lld sample%s. Its output "
             "would not depend on the sample: give another -microbatch_size, a -batch_size that "
             "leaves no such rest, or larger inputs",
             RengaGraphGetNode(graph, node)->name, RengaGraphGetNode(graph, node)->op->name,
             (long long)samples, samples == 1 ? "" : "s", (long long)plan->microbatch,
             (long long)least, least == 1 ? "" : "s");
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPlanSayStatistics_Private(RengaPlan plan, RengaGraph graph, int ranks,
                                              bool *parts)
{
  int count, node;
  int64_t values;
  char text[512];
  *parts = false;
  RengaCall(RengaGraphGetBatchStatistics(graph, &count, &node, &values));
  if (!count) return RENGA_SUCCESS;
  const long long batch = plan->batch, size = plan->microbatch;
  const char *node_s = count == 1 ? " takes its" : "s take their";
  *parts = size < batch;
  if (*parts)
    snprintf(
        text, sizeof text,
        "in training %d BatchNormalization%s statistics over micro-batches of %lld of the %lld "
        "samples of a step (%lld values of a channel in \"%.80s\"): -microbatch_size %lld takes "
        "them over the whole batch",
        count, node_s, size, batch, size * (long long)values, RengaGraphGetNode(graph, node)->name,
        batch);
  else if (ranks > 1)
    snprintf(
        text, sizeof text,
        "in training %d BatchNormalization%s statistics over the whole batch of %lld, which is "
        "one micro-batch on one replica: with a smaller -microbatch_size more of %d ranks "
        "compute at once, each with statistics of its own samples (the lower bound is not of such "
        "plans)",
        count, node_s, batch, ranks);
  if ((*parts || ranks > 1) && !RengaPlanHasReason_Private(plan, RENGA_PLAN_STATISTICS))
    RengaCall(RengaPlanAddReason(plan, RENGA_PLAN_STATISTICS, text));
  return RENGA_SUCCESS;
}
