/* Parameters with several uses: the gradients of the uses are added in ascending order of (node,
   input). As stages are intervals of nodes that is: stage by stage. Stages that share a parameter
   send each other their uses, replica r to the replicas that are r modulo their number, and each
   adds up all of them. */
#include "pipelineimpl.h"
#include <string.h>

static int64_t Holds(RengaPipeline pipeline, const Parameter *parameter, int stage)
{
  return pipeline->holds[(parameter - pipeline->parameter) * pipeline->stages + stage];
}

/* Uses of a parameter in a stage, -1 where it is not held. */
static int64_t UsesIn(RengaPipeline pipeline, const Parameter *parameter, int stage)
{
  return Holds(pipeline, parameter, stage) - 1;
}

static int64_t UsesElsewhere(RengaPipeline pipeline, const Parameter *parameter)
{
  int64_t uses = 0;
  for (int s = 0; s < pipeline->stages; s++)
    if (s != pipeline->stage && UsesIn(pipeline, parameter, s) > 0)
      uses += UsesIn(pipeline, parameter, s);
  return uses;
}

/* Memory for the uses of other stages, of one parameter at a time. */
int64_t RengaPipelineTiedBytes_Private(RengaPipeline pipeline)
{
  int64_t bytes = 0;
  for (int p = 0; p < pipeline->n_parameters; p++) {
    const Parameter *parameter = &pipeline->parameter[p];
    if (!parameter->trained) continue;
    const int64_t needed =
        UsesElsewhere(pipeline, parameter) * parameter->stride * (int64_t)sizeof(float);
    if (needed > bytes) bytes = needed;
  }
  return bytes;
}

static RengaErrorCode Add(RengaPipeline pipeline, const Parameter *parameter, float **sum,
                          float *use)
{
  if (!*sum)
    *sum = use;
  else
    RengaCall(RengaDeviceAdd(pipeline->device, NULL, parameter->count, *sum, use));
  return RENGA_SUCCESS;
}

/* Uses of all stages in order; those of other stages lie in tied_work, by stage. */
static RengaErrorCode AddUses(RengaPipeline pipeline, const Parameter *parameter)
{
  float *own = pipeline->gradient + parameter->gradient, *other = (float *)pipeline->tied_work;
  float *sum = NULL;
  for (int s = 0; s < pipeline->stages; s++)
    for (int64_t u = 0; u < UsesIn(pipeline, parameter, s); u++) {
      if (s == pipeline->stage) {
        RengaCall(Add(pipeline, parameter, &sum, own + u * parameter->stride));
      } else {
        RengaCall(Add(pipeline, parameter, &sum, other));
        other += parameter->stride;
      }
    }
  if (sum && sum != own)
    RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_DEVICE, own, sum,
                              (size_t)parameter->count * sizeof(float)));
  return RENGA_SUCCESS;
}

/* Replica r of this stage sends to the replicas of another that ask it: r, r + replicas, … */
static RengaErrorCode PostSends(RengaPipeline pipeline, const Parameter *parameter, int stage,
                                int *count, RengaRequest request[])
{
  const float *own = pipeline->gradient + parameter->gradient;
  const size_t bytes = (size_t)(parameter->n_uses * parameter->stride) * sizeof(float);
  const int tag = pipeline->n_messages + parameter->number;
  const int others = RengaPlanGetStage(pipeline->plan, stage)->replicas;
  for (int r = pipeline->replica; bytes > 0 && r < others; r += pipeline->replicas)
    RengaCall(RengaCommSend(pipeline->all, own, bytes, RengaPlanGetRank(pipeline->plan, stage, r),
                            tag, &request[(*count)++]));
  return RENGA_SUCCESS;
}

static RengaErrorCode Post(RengaPipeline pipeline, const Parameter *parameter, int *count,
                           RengaRequest request[])
{
  float *other = (float *)pipeline->tied_work;
  const size_t use_bytes = (size_t)parameter->stride * sizeof(float);
  const int tag = pipeline->n_messages + parameter->number;
  for (int s = 0; s < pipeline->stages; s++) {
    if (s == pipeline->stage || UsesIn(pipeline, parameter, s) < 0) continue;
    const int others = RengaPlanGetStage(pipeline->plan, s)->replicas;
    const int peer = RengaPlanGetRank(pipeline->plan, s, pipeline->replica % others);
    const int64_t uses = UsesIn(pipeline, parameter, s);
    if (uses > 0)
      RengaCall(RengaCommReceive(pipeline->all, other, (size_t)uses * use_bytes, peer, tag,
                                 &request[(*count)++]));
    other += uses * parameter->stride;
    RengaCall(PostSends(pipeline, parameter, s, count, request));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WaitAll(RengaPipeline pipeline, const Parameter *parameter, int count,
                              RengaRequest request[])
{
  char what[384];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) exchanges the gradient of %s with the other stages that "
           "use it in step %lld",
           RengaCommGetRank(pipeline->all), pipeline->stage, pipeline->replica, parameter->name,
           (long long)pipeline->step);
  for (int i = 0; i < count; i++)
    if (request[i]) RengaCall(RengaCommWait(pipeline->all, &request[i], what));
  return RENGA_SUCCESS;
}

static bool IsShared(RengaPipeline pipeline, const Parameter *parameter)
{
  for (int s = 0; s < pipeline->stages; s++)
    if (s != pipeline->stage && UsesIn(pipeline, parameter, s) >= 0) return true;
  return false;
}

/* The sum of all uses of each parameter; it lies where this stage's first use lay. */
RengaErrorCode RengaPipelineExchangeTied_Private(RengaPipeline pipeline)
{
  RengaRequest *request;
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_TIED);
  RengaCall(RengaMalloc(pipeline->stages + RengaPlanGetRankCount(pipeline->plan), &request));
  for (int p = 0; p < pipeline->n_parameters; p++) {
    const Parameter *parameter = &pipeline->parameter[p];
    const bool shared = IsShared(pipeline, parameter);
    if (!parameter->trained || (!shared && parameter->n_uses < 2)) continue;
    RengaLogEventBegin(event);
    int count = 0;
    if (shared) RengaCall(Post(pipeline, parameter, &count, request));
    if (shared) RengaCall(WaitAll(pipeline, parameter, count, request));
    RengaCall(AddUses(pipeline, parameter));
    RengaLogEventEnd(event, 0, shared, parameter->count * (int64_t)sizeof(float));
  }
  RengaFree(&request);
  return RENGA_SUCCESS;
}
