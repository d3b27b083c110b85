/* The settings of a run: create, set, get. What a pipeline is set up with changes no more. */
#include "renga/private/settings.h"
#include "rengacomm.h"
#include <string.h>

static RengaErrorCode DestroySettings(void *object)
{
  RengaSettings settings = object;
  RengaFree(&settings->reduction);
  RengaFree(&settings->schedule);
  RengaFree(&settings->transport);
  if (settings->optimizer) RengaCall(RengaOptimizerDestroy(&settings->optimizer));
  if (settings->device) RengaCall(RengaDeviceDestroy(&settings->device));
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsCreate - settings of a run as they are where nothing is said

   Collective

   Input:
   . comm - the ranks of the run

   Output:
   . settings - with a device and an optimizer of their own; RengaSettingsDestroy() frees them

   Notes: RengaPipelineCreate() makes some for its pipeline. To have a plan made for what a program
   sets in its pipeline, give RengaPipelineGetSettings() to RengaPartitionSetSettings().
@*/
RengaErrorCode RengaSettingsCreate(RengaComm comm, RengaSettings *settings)
{
  RengaSettings made;
  RengaCheckPointer(comm);
  RengaCheckPointer(settings);
  RengaCall(RengaHeaderCreate(comm, "RengaSettings", sizeof *made, DestroySettings, &made));
  made->eager = -1;
  RengaErrorCode code = RengaSettingsSetDefaults_Private(made);
  if (!code) code = RengaDeviceCreate(comm, &made->device);
  if (!code) code = RengaOptimizerCreate(comm, &made->optimizer);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *settings = made;
  return RENGA_SUCCESS;
}

void RengaSettingsHold_Private(RengaSettings settings)
{
  settings->users++;
}

void RengaSettingsRelease_Private(RengaSettings settings)
{
  settings->users--;
}

static RengaErrorCode CheckUnused(RengaSettings settings, const char *what)
{
  RengaCheckPointer(settings);
  RengaCheck(!settings->users, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "%s: these settings are of a pipeline that is set up; make others with "
             "RengaSettingsCreate for another one",
             what);
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetDevice - what computes, lent

   Not collective

   Input:
   . settings - the settings

   Output:
   . device - may be configured before RengaPipelineSetUp()
@*/
RengaErrorCode RengaSettingsGetDevice(RengaSettings settings, RengaDevice *device)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(device);
  *device = settings->device;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetOptimizer - how parameters follow from gradients, lent

   Not collective

   Input:
   . settings - the settings

   Output:
   . optimizer - may be configured before RengaPipelineSetUp()
@*/
RengaErrorCode RengaSettingsGetOptimizer(RengaSettings settings, RengaOptimizer *optimizer)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(optimizer);
  *optimizer = settings->optimizer;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetSchedule - the order of forwards and backwards

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . type - gpipe or 1f1b, with no micro-batch begun early; NULL: the plan's, and types auto, exact
     and rannc choose it

   Options:
   . -pipeline_schedule - the same
@*/
RengaErrorCode RengaSettingsSetSchedule(RengaSettings settings, const char *type)
{
  char *copy = NULL;
  RengaCall(CheckUnused(settings, "RengaSettingsSetSchedule"));
  if (type) RengaCall(RengaStringCopy(type, &copy));
  RengaFree(&settings->schedule);
  settings->schedule = copy;
  settings->eager = -1;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetSchedule - the order of forwards and backwards

   Not collective

   Input:
   . settings - the settings

   Output:
   . type - lent; NULL: nothing was said
@*/
RengaErrorCode RengaSettingsGetSchedule(RengaSettings settings, const char **type)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(type);
  *type = settings->schedule;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetEager - micro-batches that 1f1b begins early, for each stage that follows

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . eager - see RengaScheduleSetEager(); the schedule becomes 1f1b where nothing was said of it;
     negative: nothing is said

   Options:
   . -pipeline_eager - the same
@*/
RengaErrorCode RengaSettingsSetEager(RengaSettings settings, double eager)
{
  RengaCall(CheckUnused(settings, "RengaSettingsSetEager"));
  RengaCheck(eager < 0 || !settings->schedule || !strcmp(settings->schedule, RENGA_SCHEDULE_1F1B),
             MPI_COMM_SELF, RENGA_ERR_ORDER,
             "%g micro-batches begun early are for schedule 1f1b, but the schedule is %s", eager,
             settings->schedule);
  settings->eager = eager < 0 ? -1 : eager;
  if (eager >= 0 && !settings->schedule)
    RengaCall(RengaStringCopy(RENGA_SCHEDULE_1F1B, &settings->schedule));
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetEager - micro-batches that 1f1b begins early, for each stage that follows

   Not collective

   Input:
   . settings - the settings

   Output:
   . eager - negative: nothing was said
@*/
RengaErrorCode RengaSettingsGetEager(RengaSettings settings, double *eager)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(eager);
  *eager = settings->eager;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetReduction - how gradients of micro-batches are added up

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . reduction - RENGA_REDUCTION_ORDERED: the same bits on any layout, or RENGA_REDUCTION_UNORDERED:
     one buffer and MPI's own sum

   Options:
   . -pipeline_reduction - the same
@*/
RengaErrorCode RengaSettingsSetReduction(RengaSettings settings, const char *reduction)
{
  static const char *const names[] = {RENGA_REDUCTION_ORDERED, RENGA_REDUCTION_UNORDERED};
  char *copy = NULL;
  RengaCall(CheckUnused(settings, "RengaSettingsSetReduction"));
  RengaCheckPointer(reduction);
  RengaCheck(strcmp(reduction, names[0]) == 0 || strcmp(reduction, names[1]) == 0, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "there is no reduction \"%s\": did you mean \"%s\"?", reduction,
             RengaClosestName(reduction, 2, names));
  RengaCall(RengaStringCopy(reduction, &copy));
  RengaFree(&settings->reduction);
  settings->reduction = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetReduction - how gradients of micro-batches are added up

   Not collective

   Input:
   . settings - the settings

   Output:
   . reduction - lent
@*/
RengaErrorCode RengaSettingsGetReduction(RengaSettings settings, const char **reduction)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(reduction);
  *reduction = settings->reduction;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetBuckets - in how many parts gradients are summed over the replicas

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . buckets - 1 to 1000 parts of the gradients of each stage, of whole parameters

   Options:
   . -pipeline_buckets - the same

   Notes: several sums are under way at once, each with work memory of its own. Results do not
   depend on it.
@*/
RengaErrorCode RengaSettingsSetBuckets(RengaSettings settings, int buckets)
{
  RengaCall(CheckUnused(settings, "RengaSettingsSetBuckets"));
  RengaCheck(buckets >= 1 && buckets <= RENGA_BUCKETS_MOST, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "gradients in %d buckets: 1 to %d are possible", buckets, RENGA_BUCKETS_MOST);
  settings->buckets = buckets;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetBuckets - in how many parts gradients are summed over the replicas

   Not collective

   Input:
   . settings - the settings

   Output:
   . buckets - parts of the gradients of each stage
@*/
RengaErrorCode RengaSettingsGetBuckets(RengaSettings settings, int *buckets)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(buckets);
  *buckets = settings->buckets;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetChunks - how many stages each rank computes

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . chunks - of p x chunks stages a rank computes stages s, s + p, s + 2p, …; 0: as the plan says

   Options:
   . -pipeline_chunks - the same

   Notes: a partition of type even, tree or manual, or of RengaPartitionRegister(), makes plans of
   so many chunks, where nothing is said of one; types auto, exact and rannc refuse more. A pipeline
   refuses a plan of another number. Results do not depend on it.
@*/
RengaErrorCode RengaSettingsSetChunks(RengaSettings settings, int chunks)
{
  RengaCall(CheckUnused(settings, "RengaSettingsSetChunks"));
  RengaCheck(chunks >= 0 && chunks <= RENGA_CHUNKS_MOST, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d stages per rank: 0 to %d are possible", chunks, RENGA_CHUNKS_MOST);
  settings->chunks = chunks;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetChunks - how many stages each rank computes

   Not collective

   Input:
   . settings - the settings

   Output:
   . chunks - 0: nothing was said
@*/
RengaErrorCode RengaSettingsGetChunks(RengaSettings settings, int *chunks)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(chunks);
  *chunks = settings->chunks;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetTransport - how tensors get from one rank's device to another's

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . type - RENGA_TRANSPORT_MPI: MPI gets the device's memory, which must be the host's;
     RENGA_TRANSPORT_STAGED: it is copied to memory of the host and from there; NULL: mpi where
     the device's memory is the host's, else staged

   Options:
   . -comm_transport - the same

   Notes: results do not depend on it. -comm_view shows which one a pipeline has, and why.
@*/
RengaErrorCode RengaSettingsSetTransport(RengaSettings settings, const char *type)
{
  static const char *const names[] = {RENGA_TRANSPORT_MPI, RENGA_TRANSPORT_STAGED};
  char *copy = NULL;
  RengaCall(CheckUnused(settings, "RengaSettingsSetTransport"));
  RengaCheck(!type || strcmp(type, names[0]) == 0 || strcmp(type, names[1]) == 0, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "there is no transport \"%s\": did you mean \"%s\"?", type,
             RengaClosestName(type, 2, names));
  if (type) RengaCall(RengaStringCopy(type, &copy));
  RengaFree(&settings->transport);
  settings->transport = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetTransport - how tensors get from one rank's device to another's

   Not collective

   Input:
   . settings - the settings

   Output:
   . type - lent; NULL: nothing was said
@*/
RengaErrorCode RengaSettingsGetTransport(RengaSettings settings, const char **type)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(type);
  *type = settings->transport;
  return RENGA_SUCCESS;
}

bool RengaSettingsIsOrdered_Private(RengaSettings settings)
{
  return strcmp(settings->reduction, RENGA_REDUCTION_ORDERED) == 0;
}

/*@
   RengaSettingsSetSeed - of first values, dropout and shuffles

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . seed - any number

   Options:
   . -seed - the same
@*/
RengaErrorCode RengaSettingsSetSeed(RengaSettings settings, uint64_t seed)
{
  RengaCall(CheckUnused(settings, "RengaSettingsSetSeed"));
  settings->seed = (int64_t)seed;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetSeed - of first values, dropout and shuffles

   Not collective

   Input:
   . settings - the settings

   Output:
   . seed - 0 where nothing was said
@*/
RengaErrorCode RengaSettingsGetSeed(RengaSettings settings, uint64_t *seed)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(seed);
  *seed = (uint64_t)settings->seed;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetTimeout - how long a wait may last without progress

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . seconds - 0: for ever

   Options:
   . -pipeline_timeout - the same

   Notes: RengaCommSetTimeout of their communicator, for all that is made from it.
@*/
RengaErrorCode RengaSettingsSetTimeout(RengaSettings settings, double seconds)
{
  RengaCall(CheckUnused(settings, "RengaSettingsSetTimeout"));
  RengaCheck(seconds >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a timeout of %g seconds", seconds);
  RengaCall(RengaCommSetTimeout(settings->hdr.owner, seconds));
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetTimeout - how long a wait may last without progress

   Not collective

   Input:
   . settings - the settings

   Output:
   . seconds - 0: for ever
@*/
RengaErrorCode RengaSettingsGetTimeout(RengaSettings settings, double *seconds)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(seconds);
  RengaCall(RengaCommGetTimeout(settings->hdr.owner, seconds));
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetMemoryBound - bytes that a device may use

   Not collective

   Input:
   . settings - the settings
   . bytes - the bound of this rank's device; 0: what RengaPartitionSetMemory() or the machine says

   Notes: a pipeline over it is refused at its set-up; a plan is made under that of rank 0.
@*/
RengaErrorCode RengaSettingsSetMemoryBound(RengaSettings settings, int64_t bytes)
{
  RengaCall(CheckUnused(settings, "RengaSettingsSetMemoryBound"));
  RengaCheck(bytes >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a bound of %lld bytes",
             (long long)bytes);
  settings->memory_bound = bytes;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetMemoryBound - bytes that a device may use

   Not collective

   Input:
   . settings - the settings

   Output:
   . bytes - 0: nothing was said
@*/
RengaErrorCode RengaSettingsGetMemoryBound(RengaSettings settings, int64_t *bytes)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(bytes);
  *bytes = settings->memory_bound;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsDestroy - free settings

   Collective

   Input:
   . settings - set to NULL; who holds them keeps them
@*/
RengaErrorCode RengaSettingsDestroy(RengaSettings *settings)
{
  RengaCheckPointer(settings);
  RengaCall(RengaHeaderDestroy(settings));
  return RENGA_SUCCESS;
}
