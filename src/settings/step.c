/* The settings of how a step runs: schedule, sums of gradients, stages of a rank, transport. */
#include "renga/private/choice.h"
#include "renga/private/settings.h"
#include "rengacomm.h"
#include <string.h>

/*@
   RengaSettingsSetSchedule - the order of forwards and backwards

   Input:
   . type - a type that RengaScheduleSetType() takes, without extra warm-up micro-batches. NULL: the
     plan's, and types auto, exact and rannc choose gpipe or 1f1b

   Options:
   . -schedule_type - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up.

   See also: RengaSettingsGetSchedule(), RengaSettingsSetEager()
@*/
RengaErrorCode RengaSettingsSetSchedule(RengaSettings settings, const char *type)
{
  char *copy = NULL;
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetSchedule"));
  if (type) RengaCall(RengaStringCopy(type, &copy));
  RengaFree(&settings->schedule);
  settings->schedule = copy;
  settings->eager = -1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetSchedule(RengaSettings settings, const char **type)
{
  RengaCheckPointers(settings, type);
  *type = settings->schedule;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetEager - extra warm-up micro-batches of 1f1b, for each stage that follows

   Input:
   . eager - extra warm-up micro-batches, at least 0: see RengaScheduleSetEager(). The schedule
     becomes 1f1b where nothing was said of it. Negative: nothing is said

   Options:
   . -schedule_eager - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up, or the schedule
   is not 1f1b.

   See also: RengaSettingsGetEager(), RengaScheduleSetEager()
@*/
RengaErrorCode RengaSettingsSetEager(RengaSettings settings, double eager)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetEager"));
  RengaCheck(eager < 0 || !settings->schedule || !strcmp(settings->schedule, RENGA_SCHEDULE_1F1B) ||
                 !strcmp(settings->schedule, RENGA_SCHEDULE_AUTO),
             MPI_COMM_SELF, RENGA_ERR_ORDER,
             "%g extra warm-up micro-batches are for schedule 1f1b, but the schedule is %s", eager,
             settings->schedule);
  settings->eager = eager < 0 ? -1 : eager;
  if (eager >= 0 && !settings->schedule)
    RengaCall(RengaStringCopy(RENGA_SCHEDULE_1F1B, &settings->schedule));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetEager(RengaSettings settings, double *eager)
{
  RengaCheckPointers(settings, eager);
  *eager = settings->eager;
  return RENGA_SUCCESS;
}

/*@
   RengaReductionName - how gradients are added up, in a word

   Input:
   . reduction - ordered or unordered; NULL is returned for what is neither

   Notes: the words of -pipeline_reduction.

   See also: RengaSettingsSetReduction()
@*/
const char *RengaReductionName(RengaReduction reduction)
{
  static const char *const names[] = {RENGA_REDUCTION_WORDS(RENGA_WORD, RENGA_WORD)};
  return (unsigned)reduction <= RENGA_REDUCTION_UNORDERED ? names[reduction] : NULL;
}

/*@
   RengaSettingsSetReduction - how gradients of micro-batches are added up

   Input:
   . reduction - RENGA_REDUCTION_ORDERED: the same bits on any layout, or RENGA_REDUCTION_UNORDERED:
     one buffer and the sum of MPI or NCCL, of which NCCL's goes on beside the last backward

   Options:
   . -pipeline_reduction - the same, as RengaReductionName() says it

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for a reduction that there is not.
@*/
RengaErrorCode RengaSettingsSetReduction(RengaSettings settings, RengaReduction reduction)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetReduction"));
  RengaCheck(RengaReductionName(reduction), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d is no RengaReduction", (int)reduction);
  settings->reduction = reduction;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetReduction(RengaSettings settings, RengaReduction *reduction)
{
  RengaCheckPointers(settings, reduction);
  *reduction = settings->reduction;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetBuckets - in how many parts gradients are summed over the replicas

   Input:
   . buckets - the number of parts of the gradients of each stage, of whole parameters, 1 to 1000.
     0: parts of 4 MiB each or more, at most 16, where several replicas add up

   Options:
   . -pipeline_buckets - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for a number that is out of range.

   Notes: several sums are under way at once, each with work memory of its own. Results do not
   depend on it.
@*/
RengaErrorCode RengaSettingsSetBuckets(RengaSettings settings, int buckets)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetBuckets"));
  RengaCheck(buckets >= 0 && buckets <= RENGA_BUCKETS_MOST, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "gradients in %d buckets: 0 to %d are possible", buckets, RENGA_BUCKETS_MOST);
  settings->buckets = buckets;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetBuckets(RengaSettings settings, int *buckets)
{
  RengaCheckPointers(settings, buckets);
  *buckets = settings->buckets;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetChunks - how many stages each rank computes

   Input:
   . chunks - virtual stages of each rank, at least 1: of p x chunks stages a rank computes stages
     s, s + p, s + 2p, …; 0: as the plan says

   Options:
   . -layout_chunks - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for a number that is out of range.

   Notes: a partition of type even, tree or manual, or of RengaPartitionRegister(), makes plans of
   so many chunks, where nothing is said of one; types auto, exact and rannc refuse more than 1.
   With 0 auto and exact take several where that is clearly faster. A pipeline refuses a plan of
   another number than is said. Results do not depend on it.
@*/
RengaErrorCode RengaSettingsSetChunks(RengaSettings settings, int chunks)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetChunks"));
  RengaCheck(chunks >= 0 && chunks <= RENGA_CHUNKS_MOST, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d virtual stages per rank: 0 to %d are possible", chunks, RENGA_CHUNKS_MOST);
  settings->chunks = chunks;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetChunks - how many stages each rank computes

   Output:
   . chunks - 0: nothing was said, and the schedule that is set has one stage for each rank
@*/
RengaErrorCode RengaSettingsGetChunks(RengaSettings settings, int *chunks)
{
  RengaCheckPointers(settings, chunks);
  bool wave;
  int own;
  RengaCall(RengaScheduleFindPlacement(settings->schedule, &own, &wave));
  *chunks = settings->chunks || own == 1 ? settings->chunks : own;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetTransport - how tensors get from one rank's device to another's

   Input:
   . type - RENGA_TRANSPORT_MPI: MPI gets the device's memory, which must be the host's.
     RENGA_TRANSPORT_MPI_DEVICE: MPI gets memory that need not be the host's, if a try shows that it
     can send it. RENGA_TRANSPORT_STAGED: messages are copied to memory of the host and from there.
     RENGA_TRANSPORT_NCCL: they go from GPU to GPU, one for each rank. RENGA_TRANSPORT_AUTO, or
     NULL: mpi where the device's memory is the host's, else the first of nccl, mpi_device and
     staged that goes. Or a type of RengaTransportRegister()

   Options:
   . -transport_type - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for a transport that there is not.

   Notes: results do not depend on it. -comm_view shows which one a pipeline has, and why.

   See also: RengaSettingsGetTransport(), RengaTransportRegister()
@*/
RengaErrorCode RengaSettingsSetTransport(RengaSettings settings, const char *type)
{
  const char *wanted = type ? type : RENGA_TRANSPORT_AUTO;
  const bool known = RengaFindChoice_Private(wanted, RENGA_TRANSPORT_CHOICES) >= 0 ||
                     RengaTypeOutside_Private("RengaTransport", wanted);
  char *copy = NULL;
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetTransport"));
  RengaCheck(
      known, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
      "there is no transport \"%s\": give auto, mpi, mpi_device, staged, nccl, or the name of "
      "one that was given to RengaTransportRegister before",
      wanted);
  RengaCall(RengaStringCopy(wanted, &copy));
  RengaFree(&settings->transport);
  settings->transport = copy;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetTransport(RengaSettings settings, const char **type)
{
  RengaCheckPointers(settings, type);
  *type = settings->transport;
  return RENGA_SUCCESS;
}

bool RengaSettingsIsOrdered_Private(RengaSettings settings)
{
  return settings->reduction == RENGA_REDUCTION_ORDERED;
}
