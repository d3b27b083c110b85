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
static RengaErrorCode PostSends(RengaPipeline pipeline, Pass *pass, const Parameter *parameter,
                                int stage, int *count)
{
  const float *own = pipeline->gradient + parameter->gradient;
  const size_t bytes = (size_t)(parameter->n_uses * parameter->stride) * sizeof(float);
  const int tag = pipeline->n_messages + parameter->number;
  const int others = RengaPlanGetStage(pipeline->plan, stage)->replicas;
  for (int r = pipeline->replica; bytes > 0 && r < others; r += pipeline->replicas) {
    RengaErrorCode code;
    int attempt = 0;
    do
      code = RengaCommSend(pipeline->all, own, bytes, RengaPlanGetRank(pipeline->plan, stage, r),
                           tag, &pipeline->exchange[*count]);
    while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
    RengaCall(code);
    ++*count;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PostOne(RengaPipeline pipeline, Pass *pass, const Parameter *parameter,
                              int stage, float *to, int *count)
{
  const int others = RengaPlanGetStage(pipeline->plan, stage)->replicas;
  const int peer = RengaPlanGetRank(pipeline->plan, stage, pipeline->replica % others);
  const size_t bytes =
      (size_t)(UsesIn(pipeline, parameter, stage) * parameter->stride) * sizeof *to;
  const int tag = pipeline->n_messages + parameter->number;
  RengaErrorCode code;
  int attempt = 0;
  do code = RengaCommReceive(pipeline->all, to, bytes, peer, tag, &pipeline->exchange[*count]);
  while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
  RengaCall(code);
  ++*count;
  return RENGA_SUCCESS;
}

static RengaErrorCode Post(RengaPipeline pipeline, Pass *pass, const Parameter *parameter,
                           int *count)
{
  float *other = (float *)pipeline->tied_work;
  for (int s = 0; s < pipeline->stages; s++) {
    if (s == pipeline->stage || UsesIn(pipeline, parameter, s) < 0) continue;
    const int64_t uses = UsesIn(pipeline, parameter, s);
    if (uses > 0) RengaCall(PostOne(pipeline, pass, parameter, s, other, count));
    other += uses * parameter->stride;
    RengaCall(PostSends(pipeline, pass, parameter, s, count));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WaitAll(RengaPipeline pipeline, Pass *pass, const Parameter *parameter,
                              int count)
{
  char what[384];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) exchanges the gradient of %s with the other stages that "
           "use it in step %lld",
           RengaCommGetRank(pipeline->all), pipeline->stage, pipeline->replica, parameter->name,
           (long long)pipeline->step);
  for (int i = 0; i < count; i++) {
    RengaErrorCode code;
    int attempt = 0;
    do code = RengaCommWait(pipeline->all, &pipeline->exchange[i], what);
    while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

static bool IsShared(RengaPipeline pipeline, const Parameter *parameter)
{
  for (int s = 0; s < pipeline->stages; s++)
    if (s != pipeline->stage && UsesIn(pipeline, parameter, s) >= 0) return true;
  return false;
}

static RengaErrorCode Exchange(RengaPipeline pipeline, Pass *pass, const Parameter *parameter)
{
  int count = 0;
  RengaCall(Post(pipeline, pass, parameter, &count));
  RengaCall(WaitAll(pipeline, pass, parameter, count));
  return RENGA_SUCCESS;
}

/* The sum of all uses of each parameter; it lies where this stage's first use lay. Fails only where
   messages are left under way. */
RengaErrorCode RengaPipelineExchangeTied_Private(RengaPipeline pipeline, Pass *pass)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_TIED);
  for (int p = 0; p < pipeline->n_parameters; p++) {
    const Parameter *parameter = &pipeline->parameter[p];
    const bool shared = IsShared(pipeline, parameter);
    RengaErrorCode code = RENGA_SUCCESS;
    if (!parameter->trained || (!shared && parameter->n_uses < 2)) continue;
    RengaLogEventBegin(event);
    if (shared) code = Exchange(pipeline, pass, parameter);
    if (!code && !pass->failed)
      code = RengaPipelineNote_Private(pipeline, pass, AddUses(pipeline, parameter));
    RengaLogEventEnd(event, 0, shared, parameter->count * (int64_t)sizeof(float));
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}
