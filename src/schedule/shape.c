/* The shape of a schedule: stages, replicas, ranks, micro-batches, messages. */
#include "scheduleimpl.h"

static RengaErrorCode CheckMessages(int stages, int n_messages, const RengaMessage messages[])
{
  for (int m = 0; m < n_messages; m++)
    RengaCheck(messages[m].from >= 0 && messages[m].from < stages && messages[m].to >= 0 &&
                   messages[m].to < stages &&
                   (messages[m].backward ? messages[m].from > messages[m].to
                                         : messages[m].from < messages[m].to),
               MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "message %d goes %s from stage %d to stage %d of %d stages", m,
               messages[m].backward ? "backward" : "forward", messages[m].from, messages[m].to,
               stages);
  return RENGA_SUCCESS;
}

void RengaScheduleFreeShape_Private(RengaSchedule schedule)
{
  RengaScheduleFreeLists_Private(schedule);
  RengaFree(&schedule->replicas);
  RengaFree(&schedule->first_seat);
  RengaFree(&schedule->rank);
  RengaFree(&schedule->buckets);
  RengaFree(&schedule->gathers);
  RengaFree(&schedule->folds);
  RengaFree(&schedule->recompute);
  RengaFree(&schedule->seconds);
}

/* After an error the schedule has no shape. */
static RengaErrorCode CopyReplicas(RengaSchedule schedule, const int replicas[])
{
  RengaCall(RengaMalloc(schedule->stages, &schedule->replicas));
  RengaCall(RengaMalloc(schedule->stages + 1, &schedule->first_seat));
  RengaCall(RengaMalloc(schedule->stages, &schedule->buckets));
  RengaCall(RengaMalloc(schedule->stages, &schedule->gathers));
  RengaCall(RengaMalloc(schedule->stages, &schedule->folds));
  RengaCall(RengaMalloc(schedule->stages, &schedule->recompute));
  for (int s = 0; s < schedule->stages; s++) {
    schedule->replicas[s] = replicas ? replicas[s] : 1;
    schedule->buckets[s] = 1;
    schedule->first_seat[s + 1] = schedule->first_seat[s] + schedule->replicas[s];
  }
  schedule->seats = schedule->ranks = schedule->first_seat[schedule->stages];
  RengaCall(RengaMalloc(schedule->seats, &schedule->rank));
  for (int seat = 0; seat < schedule->seats; seat++) schedule->rank[seat] = seat;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCheckShape_Private(RengaSchedule schedule)
{
  RengaCheck(schedule->stages, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaSchedule has no shape: call RengaScheduleSetShape first");
  return RENGA_SUCCESS;
}

RengaErrorCode RengaScheduleCheckStage_Private(RengaSchedule schedule, int stage, int replica)
{
  RengaCheck(stage >= 0 && stage < schedule->stages, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "stage %d of %d stages", stage, schedule->stages);
  RengaCheck(replica >= 0 && replica < schedule->replicas[stage], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "replica %d of %d replicas of stage %d", replica, schedule->replicas[stage], stage);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetShape - stages, replicas, micro-batches and messages

   Input:
   . stages - the number of stages, at least 1
   . replicas - [stages] of each, or NULL: one
   . microbatches - micro-batches of one step, at least 0, over all replicas
   . n_messages - the number of rows of the message table, at least 0
   . messages - the table, of RengaPlanGetMessages(); borrowed until the schedule is destroyed
   . forward_only - no backward: evaluation

   Errors: RENGA_ERR_ARGUMENT for numbers that cannot be, or a message between stages that there
   are not.

   Notes: after this call no stage recomputes, leaves have one micro-batch, each replica of a stage
   has a rank of its own, and its gradients are one bucket, after which nothing is gathered.

   See also: RengaScheduleGetShape(), RengaScheduleSetPlan()
@*/
RengaErrorCode RengaScheduleSetShape(RengaSchedule schedule, int stages, const int replicas[],
                                     int64_t microbatches, int n_messages,
                                     const RengaMessage messages[], bool forward_only)
{
  RengaCheckPointer(schedule);
  RengaCheck(stages >= 1 && microbatches >= 0 && n_messages >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a schedule of %d stages, %lld micro-batches, %d messages", stages,
             (long long)microbatches, n_messages);
  for (int s = 0; replicas && s < stages; s++)
    RengaCheck(replicas[s] >= 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "stage %d has %d replicas", s,
               replicas[s]);
  RengaCall(CheckMessages(stages, n_messages, messages));
  RengaScheduleFreeShape_Private(schedule);
  schedule->stages = stages;
  schedule->microbatches = microbatches;
  schedule->leaf = 1;
  schedule->n_messages = n_messages;
  schedule->message = messages;
  schedule->forward_only = forward_only;
  schedule->hdr.state = RENGA_STATE_NEW;
  const RengaErrorCode code = CopyReplicas(schedule, replicas);
  if (code) {
    RengaScheduleFreeShape_Private(schedule);
    schedule->stages = 0;
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetShape - stages, replicas and micro-batches

   Input:
   . schedule - the schedule, with its shape

   Output:
   . stages - the number of stages, at least 1
   . replicas - [stages] of each; lent
   . microbatches - micro-batches of one step, at least 0, over all replicas

   Errors: RENGA_ERR_ORDER without a shape.
@*/
RengaErrorCode RengaScheduleGetShape(RengaSchedule schedule, int *stages, const int **replicas,
                                     int64_t *microbatches)
{
  RengaCheckPointers(schedule, stages, replicas, microbatches);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  *stages = schedule->stages;
  *replicas = schedule->replicas;
  *microbatches = schedule->microbatches;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetLeaf - consecutive micro-batches that one replica has together

   Input:
   . schedule - the schedule, with its shape
   . leaf - their number, at least 1; replicas have whole leaves

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for less than 1.

   See also: RengaScheduleSetShape(), RengaPlanSetLeaf()
@*/
RengaErrorCode RengaScheduleSetLeaf(RengaSchedule schedule, int64_t leaf)
{
  RengaCheckPointer(schedule);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCheck(leaf >= 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "leaves of %lld micro-batches",
             (long long)leaf);
  RengaScheduleFreeLists_Private(schedule);
  schedule->leaf = leaf;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetRecompute - whether a stage recomputes before each backward

   Input:
   . schedule - the schedule, with its shape
   . stage - the number of the stage, from 0
   . recompute - the stage keeps of a micro-batch in flight only what it received

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for a stage that there is not.

   See also: RengaScheduleSetPlan()
@*/
RengaErrorCode RengaScheduleSetRecompute(RengaSchedule schedule, int stage, bool recompute)
{
  RengaCheckPointer(schedule);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, 0));
  RengaScheduleFreeLists_Private(schedule);
  schedule->recompute[stage] = recompute;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetBuckets - into how many parts the gradients of a stage are cut to be summed

   Input:
   . schedule - the schedule, with its shape
   . stage - the number of the stage, from 0
   . buckets - the number of buckets, at least 1; each is summed over the replicas by an action of
     its own

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for a stage that there is not, or
   less than one bucket.

   See also: RengaScheduleGetBuckets(), RengaScheduleSetGathers()
@*/
RengaErrorCode RengaScheduleSetBuckets(RengaSchedule schedule, int stage, int buckets)
{
  RengaCheckPointer(schedule);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, 0));
  RengaCheck(buckets >= 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "stage %d has %d buckets of gradients", stage, buckets);
  RengaScheduleFreeLists_Private(schedule);
  schedule->buckets[stage] = buckets;
  if (schedule->gathers[stage] > buckets) schedule->gathers[stage] = buckets;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetBuckets - into how many parts the gradients of a stage are cut

   Input:
   . schedule - the schedule, with its shape
   . stage - the number of the stage, from 0

   Output:
   . buckets - the number of buckets, at least 1: see RengaScheduleSetBuckets()

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for a stage that there is not.
@*/
RengaErrorCode RengaScheduleGetBuckets(RengaSchedule schedule, int stage, int *buckets)
{
  RengaCheckPointers(schedule, buckets);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, 0));
  *buckets = schedule->buckets[stage];
  return RENGA_SUCCESS;
}

/* Private, as what replicas wait for is the runtime's business. */
RengaErrorCode RengaScheduleSetFold_Private(RengaSchedule schedule, int stage, bool folds)
{
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, 0));
  RengaScheduleFreeLists_Private(schedule);
  schedule->folds[stage] = folds;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetGathers - parameters of how many buckets the replicas of a stage give each other

   Input:
   . schedule - the schedule, with its shape and its buckets
   . stage - the number of the stage, from 0
   . buckets - the number of first buckets of the stage, at least 0, of whose parameters each
     replica updates its block alone. The others get it by an action behind the update. 0: each
     updates all

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for a stage that there is not, or
   more buckets than it has.

   See also: RengaScheduleGetGathers(), RengaScheduleSetBuckets()
@*/
RengaErrorCode RengaScheduleSetGathers(RengaSchedule schedule, int stage, int buckets)
{
  RengaCheckPointer(schedule);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, 0));
  RengaCheck(buckets >= 0 && buckets <= schedule->buckets[stage], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "parameters of %d of the %d buckets of stage %d are gathered", buckets,
             schedule->buckets[stage], stage);
  RengaScheduleFreeLists_Private(schedule);
  schedule->gathers[stage] = buckets;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleGetGathers - parameters of how many buckets are gathered after the update

   Input:
   . schedule - the schedule, with its shape
   . stage - the number of the stage, from 0

   Output:
   . buckets - the number of buckets, at least 0: see RengaScheduleSetGathers()

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT for a stage that there is not.
@*/
RengaErrorCode RengaScheduleGetGathers(RengaSchedule schedule, int stage, int *buckets)
{
  RengaCheckPointers(schedule, buckets);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaScheduleCheckStage_Private(schedule, stage, 0));
  *buckets = schedule->gathers[stage];
  return RENGA_SUCCESS;
}

/* Each rank has work, and one replica of a stage at the most. last: [seats] the stage that was seen
   last on a rank, plus one; zero before. */
static RengaErrorCode CheckRanks(RengaSchedule schedule, const int rank[], int last[], int *ranks)
{
  int most = -1, used = 0;
  for (int s = 0, seat = 0; s < schedule->stages; s++)
    for (; seat < schedule->first_seat[s + 1]; seat++) {
      RengaCheck(rank[seat] >= 0 && rank[seat] < schedule->seats, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
                 "stage %d is on rank %d of a schedule of at most %d", s, rank[seat],
                 schedule->seats);
      RengaCheck(last[rank[seat]] != s + 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
                 "two replicas of stage %d are on rank %d", s, rank[seat]);
      used += last[rank[seat]] == 0;
      last[rank[seat]] = s + 1;
      if (rank[seat] > most) most = rank[seat];
    }
  RengaCheck(used == most + 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d of the schedule's ranks 0 to %d have no stage", most + 1 - used, most);
  *ranks = used;
  return RENGA_SUCCESS;
}

/*@
   RengaScheduleSetRanks - which replicas of stages are together on one rank

   Input:
   . schedule - the schedule, with its shape
   . rank - [stage][replica] number of the rank in the schedule, from 0 without a gap; a rank may
     have several stages, and of each one replica

   Errors: RENGA_ERR_ORDER without a shape; RENGA_ERR_ARGUMENT where two replicas of a stage are
   on one rank, or a rank has no stage.

   Notes: the types gpipe and 1f1b do the actions of such a rank in the order in which they would
   begin if each stage had a rank of its own.

   See also: RengaScheduleSetPlan(), RengaScheduleGetChunks()
@*/
RengaErrorCode RengaScheduleSetRanks(RengaSchedule schedule, const int rank[])
{
  int *last = NULL, ranks = 0;
  RengaCheckPointers(schedule, rank);
  RengaCall(RengaScheduleCheckShape_Private(schedule));
  RengaCall(RengaMalloc(schedule->seats, &last));
  const RengaErrorCode code = CheckRanks(schedule, rank, last, &ranks);
  RengaFree(&last);
  RengaCall(code);
  RengaScheduleFreeLists_Private(schedule);
  for (int seat = 0; seat < schedule->seats; seat++) schedule->rank[seat] = rank[seat];
  schedule->ranks = ranks;
  schedule->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}
