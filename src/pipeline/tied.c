/* Parameters with several uses: the gradients of the uses are added in ascending order of (node,
   input). As stages are intervals of nodes that is: stage by stage. Stages that share a parameter
   send each other their uses, replica r to the replicas that are r modulo their number, and each
   adds up all of them. */
#include "pipelineimpl.h"
#include <string.h>

static int64_t Holds(const Chunk *chunk, const Parameter *parameter, int stage)
{
  return chunk->holds[(parameter - chunk->parameter) * chunk->outline->stages + stage];
}

/* Uses of a parameter in a stage, -1 where it is not held. */
static int64_t UsesIn(const Chunk *chunk, const Parameter *parameter, int stage)
{
  return Holds(chunk, parameter, stage) - 1;
}

static int64_t UsesElsewhere(const Chunk *chunk, const Parameter *parameter)
{
  int64_t uses = 0;
  for (int s = 0; s < chunk->outline->stages; s++)
    if (s != chunk->stage && UsesIn(chunk, parameter, s) > 0) uses += UsesIn(chunk, parameter, s);
  return uses;
}

/* Memory for the uses of other stages, of one parameter at a time. */
int64_t RengaChunkTiedBytes_Private(const Chunk *chunk)
{
  int64_t bytes = 0;
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    if (!parameter->trained) continue;
    const int64_t needed =
        UsesElsewhere(chunk, parameter) * parameter->stride * (int64_t)sizeof(float);
    if (needed > bytes) bytes = needed;
  }
  return bytes;
}

static RengaErrorCode Add(Chunk *chunk, const Parameter *parameter, float **sum, float *use)
{
  if (!*sum)
    *sum = use;
  else
    RengaCall(RengaDeviceAdd(chunk->device, NULL, parameter->count, *sum, use));
  return RENGA_SUCCESS;
}

/* Uses of all stages in order; those of other stages lie in tied_work, by stage. */
static RengaErrorCode AddUses(Chunk *chunk, const Parameter *parameter)
{
  float *own = chunk->gradients.sum + parameter->gradient, *other = (float *)chunk->at.tied;
  float *sum = NULL;
  for (int s = 0; s < chunk->outline->stages; s++)
    for (int64_t u = 0; u < UsesIn(chunk, parameter, s); u++) {
      if (s == chunk->stage) {
        RengaCall(Add(chunk, parameter, &sum, own + u * parameter->stride));
      } else {
        RengaCall(Add(chunk, parameter, &sum, other));
        other += parameter->stride;
      }
    }
  if (sum && sum != own)
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_DEVICE_TO_DEVICE, own, sum,
                              (size_t)parameter->count * sizeof(float)));
  return RENGA_SUCCESS;
}

/* Replica r of this stage sends to the replicas of another that ask it: r, r + replicas, … */
static RengaErrorCode PostSends(Chunk *chunk, Pass *pass, const Parameter *parameter, int stage,
                                int *count)
{
  const float *own = chunk->gradients.sum + parameter->gradient;
  const size_t bytes = (size_t)(parameter->n_uses * parameter->stride) * sizeof(float);
  const int tag = chunk->outline->n_messages + parameter->number;
  const int others = RengaPlanGetStage(chunk->outline->plan, stage)->shape.replicas;
  for (int r = chunk->replica; bytes > 0 && r < others; r += chunk->replicas) {
    RengaErrorCode code;
    int attempt = 0;
    do
      code = RengaCommSend(chunk->pipeline->rank.all, own, bytes,
                           RengaPlanGetRank(chunk->outline->plan, stage, r), tag,
                           &chunk->exchange[*count]);
    while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
    RengaCall(code);
    ++*count;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PostOne(Chunk *chunk, Pass *pass, const Parameter *parameter, int stage,
                              float *to, int *count)
{
  const int others = RengaPlanGetStage(chunk->outline->plan, stage)->shape.replicas;
  const int peer = RengaPlanGetRank(chunk->outline->plan, stage, chunk->replica % others);
  const size_t bytes = (size_t)(UsesIn(chunk, parameter, stage) * parameter->stride) * sizeof *to;
  const int tag = chunk->outline->n_messages + parameter->number;
  RengaErrorCode code;
  int attempt = 0;
  do
    code =
        RengaCommReceive(chunk->pipeline->rank.all, to, bytes, peer, tag, &chunk->exchange[*count]);
  while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
  RengaCall(code);
  ++*count;
  return RENGA_SUCCESS;
}

static RengaErrorCode Post(Chunk *chunk, Pass *pass, const Parameter *parameter, int *count)
{
  float *other = (float *)chunk->at.tied;
  for (int s = 0; s < chunk->outline->stages; s++) {
    if (s == chunk->stage || UsesIn(chunk, parameter, s) < 0) continue;
    const int64_t uses = UsesIn(chunk, parameter, s);
    if (uses > 0) RengaCall(PostOne(chunk, pass, parameter, s, other, count));
    other += uses * parameter->stride;
    RengaCall(PostSends(chunk, pass, parameter, s, count));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WaitAll(Chunk *chunk, Pass *pass, const Parameter *parameter, int count)
{
  char what[384];
  snprintf(what, sizeof what,
           "rank %d (stage %d, replica %d) exchanges the gradient of %s with the other stages that "
           "use it in step %lld",
           RengaCommGetRank(chunk->pipeline->rank.all), chunk->stage, chunk->replica,
           parameter->name, (long long)chunk->pipeline->step);
  for (int i = 0; i < count; i++) {
    RengaErrorCode code;
    int attempt = 0;
    do code = RengaCommWait(chunk->pipeline->rank.all, &chunk->exchange[i], what);
    while (RengaPipelineTryAgain_Private(chunk->pipeline, pass, code, &attempt));
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

static bool IsShared(Chunk *chunk, const Parameter *parameter)
{
  for (int s = 0; s < chunk->outline->stages; s++)
    if (s != chunk->stage && UsesIn(chunk, parameter, s) >= 0) return true;
  return false;
}

static RengaErrorCode Exchange(Chunk *chunk, Pass *pass, const Parameter *parameter)
{
  int count = 0;
  RengaCall(Post(chunk, pass, parameter, &count));
  RengaCall(WaitAll(chunk, pass, parameter, count));
  return RENGA_SUCCESS;
}

/* The sum of all uses of each parameter; it lies where this stage's first use lay. Fails only where
   messages are left under way. */
RengaErrorCode RengaChunkExchangeTied_Private(Chunk *chunk, Pass *pass)
{
  const RengaLogEvent event = RengaPipelineEvent_Private(EVENT_TIED);
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Parameter *parameter = &chunk->parameter[p];
    const bool shared = IsShared(chunk, parameter);
    RengaErrorCode code = RENGA_SUCCESS;
    if (!parameter->trained || (!shared && parameter->n_uses < 2)) continue;
    RengaLogEventBegin(event);
    if (shared) code = Exchange(chunk, pass, parameter);
    if (!code && !pass->failed)
      code = RengaPipelineNote_Private(chunk->pipeline, pass, AddUses(chunk, parameter));
    RengaLogEventEnd(event, 0, shared, parameter->count * (int64_t)sizeof(float));
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}
