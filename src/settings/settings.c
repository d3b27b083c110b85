/* The settings of a run: their life, device, optimizer, seed, timeout, memory. A pipeline that is
   set up holds on to its settings, and they change no more. */
#include "renga/private/settings.h"
#include "rengacomm.h"

static RengaErrorCode DestroySettings(void *object)
{
  RengaSettings settings = object;
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
   . settings - the new settings, with a device and an optimizer of their own;
     RengaSettingsDestroy() frees them

   Notes: RengaPipelineCreate() makes some for its pipeline. To have a plan made for what a program
   sets in its pipeline, give RengaPipelineGetSettings() to RengaPartitionSetSettings().

   See also: RengaSettingsSetFromOptions(), RengaSettingsDestroy(), RengaPipelineSetSettings()
@*/
RengaErrorCode RengaSettingsCreate(RengaComm comm, RengaSettings *settings)
{
  RengaSettings made;
  RengaCheckPointers(comm, settings);
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

RengaErrorCode RengaSettingsCheckUnused_Private(RengaSettings settings, const char *what)
{
  RengaCheckPointerOf(what, settings);
  RengaCheck(!settings->users, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "%s: these settings are of a pipeline that is set up; make others with "
             "RengaSettingsCreate for another one",
             what);
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetDevice - what computes, lent

   Output:
   . device - may be configured before RengaPipelineSetUp()

   See also: RengaSettingsGetOptimizer()
@*/
RengaErrorCode RengaSettingsGetDevice(RengaSettings settings, RengaDevice *device)
{
  RengaCheckPointers(settings, device);
  *device = settings->device;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetOptimizer - how parameters follow from gradients, lent

   Output:
   . optimizer - may be configured before RengaPipelineSetUp()

   See also: RengaSettingsGetDevice()
@*/
RengaErrorCode RengaSettingsGetOptimizer(RengaSettings settings, RengaOptimizer *optimizer)
{
  RengaCheckPointers(settings, optimizer);
  *optimizer = settings->optimizer;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetSeed - of first values, dropout and shuffles

   Input:
   . seed - any number

   Options:
   . -seed - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up.
@*/
RengaErrorCode RengaSettingsSetSeed(RengaSettings settings, uint64_t seed)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetSeed"));
  settings->seed = (int64_t)seed;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetSeed - of first values, dropout and shuffles

   Output:
   . seed - 0 where nothing was said
@*/
RengaErrorCode RengaSettingsGetSeed(RengaSettings settings, uint64_t *seed)
{
  RengaCheckPointers(settings, seed);
  *seed = (uint64_t)settings->seed;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetTimeout - how long a wait may last without progress

   Input:
   . seconds - 0: for ever

   Options:
   . -timeout - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for a negative time.

   Notes: RengaCommSetTimeout of their communicator, for all that is made from it.
@*/
RengaErrorCode RengaSettingsSetTimeout(RengaSettings settings, double seconds)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetTimeout"));
  RengaCheck(seconds >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a timeout of %g seconds", seconds);
  RengaCall(RengaCommSetTimeout(settings->hdr.owner, seconds));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetTimeout(RengaSettings settings, double *seconds)
{
  RengaCheckPointers(settings, seconds);
  RengaCall(RengaCommGetTimeout(settings->hdr.owner, seconds));
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetMemoryBound - bytes that a device may use

   Input:
   . bytes - the bound of this rank's device; 0: what RengaPartitionSetMemory() or the machine says

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for a negative number.

   Notes: a pipeline over it is refused at its set-up; a plan is made under that of rank 0.
@*/
RengaErrorCode RengaSettingsSetMemoryBound(RengaSettings settings, int64_t bytes)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetMemoryBound"));
  RengaCheck(bytes >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a bound of %lld bytes",
             (long long)bytes);
  settings->memory_bound = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetMemoryBound(RengaSettings settings, int64_t *bytes)
{
  RengaCheckPointers(settings, bytes);
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
