/* Fewer ranks than there are. A search on many ranks looks at less for each number of stages and
   replicas than one on few, and messages between many may take longer than what they save: where
   all work shared out among fewer ranks may take less than the plan that was found, these are
   searched as well. More ranks may still make a slower plan than a number that is no half of
   them. */
#include "partitionimpl.h"
#include "renga/private/plan.h"
#include "renga/private/quiet.h"
#include <math.h>
#include <string.h>

typedef struct {
  RengaPartition partition;
  int ranks;
  int64_t batch, microbatch;
  double work; /* seconds of a step, shared out among all ranks */
  int kinds;   /* of devices */
  const int64_t *begin;
} FewerTask;

/* Bounds, and what is said of them, are those of all ranks. */
static RengaErrorCode TakeBounds(RengaPlan from, RengaPlan to)
{
  RengaPlanPrediction all, own;
  const char *topic = RENGA_PLAN_BOUND, *text;
  RengaCall(RengaPlanGetPrediction(from, &all));
  RengaCall(RengaPlanGetPrediction(to, &own));
  own.bound = fmin(all.bound, own.step);
  RengaCall(RengaPlanSetPrediction(to, &own));
  RengaPlanDropReasonsIf_Private(to, RengaPlanSpeaksOfBound_Private);
  for (int r = 0; topic; r++) {
    RengaCall(RengaPlanGetReason(from, r, &topic, &text));
    if (topic && RengaPlanSpeaksOfBound_Private(topic))
      RengaCall(RengaPlanAddReason(to, topic, text));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SayIdle(const FewerTask *task, int ranks, RengaPlan plan)
{
  char sentence[160];
  snprintf(sentence, sizeof sentence,
           "at least %d of %d devices stay idle: no plan that was found with all of them is faster",
           task->ranks - ranks, task->ranks);
  RengaCall(RengaPlanAddReason(plan, "idle", sentence));
  return RENGA_SUCCESS;
}

/* What a plan on fewer ranks must be faster than: the plan, and another that is known beside it. */
static double StepOfOthers(const FewerTask *task, double step)
{
  const double beat = task->partition->beat;
  return beat > 0 ? fmin(beat, step) : step;
}

/* What is faster than so many seconds, quickly; the first few as if nothing were known, where the
   plan itself has hardly more: what leads to the fastest may be much slower. */
static RengaErrorCode SolveOnFewer(const FewerTask *task, int ranks, double step, int planned,
                                   RengaPlan made)
{
  RengaPartition partition = task->partition;
  const double beat = partition->beat;
  const bool own = partition->quick,
             few = ranks <= PARTITION_RANKS_SMALL && RengaHasHardlyMore(planned, ranks);
  const int most = task->ranks > PARTITION_RANKS_SMALL ? PARTITION_RANKS_SMALL : task->ranks;
  const bool first = 2 * ranks >= most;
  const bool alone = few && (first || task->kinds > 1);
  RengaQuiet quiet;
  partition->beat = alone ? 0 : step;
  partition->quick = own || !alone;
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code =
      partition->ops->plan(partition, ranks, task->batch, task->microbatch, made);
  RengaQuietEnd_Private(&quiet);
  partition->beat = beat;
  partition->quick = own;
  return RengaPartitionTellFailure_Private(code);
}

/* In place of the plan, where it is faster. */
static RengaErrorCode TakeFewer(const FewerTask *task, int ranks, RengaPlan *made, RengaPlan *plan)
{
  RengaPlanPrediction own, other;
  RengaCall(RengaPlanGetPrediction(*plan, &own));
  RengaCall(RengaPlanGetPrediction(*made, &other));
  if (other.step >= own.step * (1 - 1e-9)) return RENGA_SUCCESS;
  RengaCall(TakeBounds(*plan, *made));
  RengaCall(SayIdle(task, ranks, *made));
  const RengaPlan slower = *plan;
  *plan = *made;
  *made = slower;
  return RENGA_SUCCESS;
}

/* What cannot be planned for fewer is no error. */
static RengaErrorCode TryFewer(const FewerTask *task, int ranks, RengaPlan *plan)
{
  RengaPartition partition = task->partition;
  RengaPlan made = NULL;
  RengaErrorCode code =
      RengaErrorAgree(partition->hdr.comm, RengaPlanCreate(partition->hdr.owner, &made));
  RengaPlanPrediction own;
  if (!code) code = RengaPlanGetPrediction(*plan, &own);
  code = RengaErrorAgree(partition->hdr.comm, code);
  RengaErrorCode refused = code;
  if (!code)
    refused =
        RengaErrorAgree(partition->hdr.comm, SolveOnFewer(task, ranks, StepOfOthers(task, own.step),
                                                          RengaPlanGetRankCount(*plan), made));
  if (refused && !RengaPartitionIsRefusal_Private(refused)) code = refused;
  if (!refused && !partition->beaten) code = TakeFewer(task, ranks, &made, plan);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (made) RengaPlanDestroy(&made);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* No plan on so many ranks is faster: it would take longer were nothing but work done. */
static bool IsTooFew(const FewerTask *task, int ranks, RengaPlan plan)
{
  RengaPlanPrediction prediction;
  if (task->kinds > 1) return false; /* those left out may be slow */
  if (RengaPlanGetPrediction(plan, &prediction)) return true;
  return task->work * task->ranks / ranks >= StepOfOthers(task, prediction.step) * (1 - 1e-9);
}

/* Of devices of several kinds those without the last kind. Else halves, and what is small enough
   for all ways of looking; of whole groups of tensor ranks. Of few ranks in groups each number. */
static int NextFewer(const FewerTask *task, int ranks)
{
  for (int k = task->kinds - 1; k > 0; k--)
    if (task->begin[k] < ranks) return (int)task->begin[k];
  const int tensor = RengaPartitionTensorRanks_Private(task->partition);
  if (tensor > 1 && ranks <= PARTITION_RANKS_SMALL) return ranks - tensor;
  const int half = ranks / 2 / tensor * tensor;
  const int small = PARTITION_RANKS_SMALL / tensor * tensor;
  return half < small && ranks > small ? small : half;
}

static bool AreRanksOpen(RengaPartition partition, int ranks)
{
  const int tensor = RengaPartitionTensorRanks_Private(partition);
  const int stages = partition->stages ? partition->stages : 1;
  const int replicas = partition->replicas ? partition->replicas : 1;
  return ranks > 0 && !strcmp(partition->hdr.type_name, RENGA_PARTITION_AUTO) &&
         (int64_t)stages * replicas * tensor <= ranks;
}

RengaErrorCode RengaPartitionPlan_Private(RengaPartition partition, int ranks, int64_t batch,
                                          int64_t microbatch, RengaPlan *plan)
{
  const RengaMachineDevice *device;
  RengaMachine machine;
  RengaCall(partition->ops->plan(partition, ranks, batch, microbatch, *plan));
  FewerTask task = {.partition = partition,
                    .ranks = ranks,
                    .batch = batch,
                    .microbatch = microbatch,
                    .work = partition->work,
                    .kinds = 1};
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (machine) RengaCall(RengaMachineGetKinds(machine, &task.kinds, &device, &task.begin));
  const double first = partition->first;
  const bool beaten = partition->beaten;
  for (int n = NextFewer(&task, ranks); !beaten && AreRanksOpen(partition, n);
       n = NextFewer(&task, n)) {
    if (IsTooFew(&task, n, *plan) || (task.kinds > 1 && n < task.begin[1])) break;
    RengaCall(TryFewer(&task, n, plan));
  }
  partition->work = task.work;
  partition->first = first;
  partition->beaten = beaten;
  return RENGA_SUCCESS;
}
