/* The settings of a run: what lies in the memory of the host instead of the device's. */
#include "renga/private/settings.h"
#include <string.h>

/*@
   RengaSettingsSetOffload - what waits in the memory of the host

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . offload - RENGA_OFFLOAD_NONE; RENGA_OFFLOAD_OPTIMIZER: the moments of the optimizer, of which
     the device has a window at a time while parameters are updated; RENGA_OFFLOAD_SAVED: what
     backward reads of forward, of which the device has that of one micro-batch;
     RENGA_OFFLOAD_ALL: both

   Options:
   . -pipeline_offload - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for another word.

   Notes: a device whose memory is the host's is refused by RengaPipelineSetUp(). Forecasts count
   what the device has, and not what lies on the host; predictions do not count the copies. Plans
   are made so, and say which stages offload saved tensors. Results do not depend on it.

   See also: RengaSettingsGetOffload(), RengaSettingsSetShard()
@*/
RengaErrorCode RengaSettingsSetOffload(RengaSettings settings, const char *offload)
{
  char *copy = NULL;
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetOffload"));
  RengaCheckPointer(offload);
  RengaCheck(!strcmp(offload, RENGA_OFFLOAD_NONE) || !strcmp(offload, RENGA_OFFLOAD_OPTIMIZER) ||
                 !strcmp(offload, RENGA_OFFLOAD_SAVED) || !strcmp(offload, RENGA_OFFLOAD_ALL),
             settings->hdr.comm, RENGA_ERR_ARGUMENT,
             "what is offloaded is none, optimizer, saved or all, not %s", offload);
  RengaCall(RengaStringCopy(offload, &copy));
  RengaFree(&settings->offload);
  settings->offload = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetOffload - what waits in the memory of the host

   Not collective

   Input:
   . settings - the settings

   Output:
   . offload - as of RengaSettingsSetOffload(); lent

   Errors: none beyond bad arguments.

   See also: RengaSettingsSetOffload()
@*/
RengaErrorCode RengaSettingsGetOffload(RengaSettings settings, const char **offload)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(offload);
  *offload = settings->offload;
  return RENGA_SUCCESS;
}

bool RengaSettingsOffloadsMoments_Private(RengaSettings settings)
{
  return !strcmp(settings->offload, RENGA_OFFLOAD_OPTIMIZER) ||
         !strcmp(settings->offload, RENGA_OFFLOAD_ALL);
}

bool RengaSettingsOffloadsSaved_Private(RengaSettings settings)
{
  return !strcmp(settings->offload, RENGA_OFFLOAD_SAVED) ||
         !strcmp(settings->offload, RENGA_OFFLOAD_ALL);
}
