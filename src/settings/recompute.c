/* The settings of a run: whether stages run forward again. */
#include "renga/private/settings.h"
#include <string.h>

/*@
   RengaSettingsSetRecompute - whether stages run forward again before backward

   Not collective (the same on all ranks)

   Input:
   . settings - the settings
   . recompute - RENGA_RECOMPUTE_NONE: stages keep all that backward reads; RENGA_RECOMPUTE_FULL:
     they keep what lies between their segments, which run forward again one at a time;
     RENGA_RECOMPUTE_AUTO: as the plan says

   Options:
   . -pipeline_recompute - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for another word.

   Notes: plans are made so, and those that are loaded must be so, whatever stages that recompute
   keep beside. Segments are as many as need the least memory, about the square root of a stage's
   layers. With RENGA_RECOMPUTE_AUTO the planner lets stages keep all where that fits; where it does
   not, a stage keeps what spares most seconds of the bytes that there are, and makes the rest
   again. Results do not depend on it.

   See also: RengaSettingsGetRecompute(), RengaPlanSetKept()
@*/
RengaErrorCode RengaSettingsSetRecompute(RengaSettings settings, const char *recompute)
{
  char *copy = NULL;
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetRecompute"));
  RengaCheckPointer(recompute);
  RengaCheck(!strcmp(recompute, RENGA_RECOMPUTE_AUTO) || !strcmp(recompute, RENGA_RECOMPUTE_NONE) ||
                 !strcmp(recompute, RENGA_RECOMPUTE_FULL),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "what stages run again is none, full or auto, not %s", recompute);
  RengaCall(RengaStringCopy(recompute, &copy));
  RengaFree(&settings->recompute);
  settings->recompute = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsGetRecompute - whether stages run forward again before backward

   Not collective

   Input:
   . settings - the settings

   Output:
   . recompute - as of RengaSettingsSetRecompute(); lent

   Errors: none beyond bad arguments.

   See also: RengaSettingsSetRecompute()
@*/
RengaErrorCode RengaSettingsGetRecompute(RengaSettings settings, const char **recompute)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(recompute);
  *recompute = settings->recompute;
  return RENGA_SUCCESS;
}

bool RengaSettingsFindSaved_Private(RengaSettings settings, RengaSaved *saved)
{
  const bool full = !strcmp(settings->recompute, RENGA_RECOMPUTE_FULL);
  *saved = full ? RENGA_SAVED_RECOMPUTE : RENGA_SAVED_KEEP;
  if (RengaSettingsOffloadsSaved_Private(settings)) *saved = RENGA_SAVED_OFFLOAD;
  return full || *saved == RENGA_SAVED_OFFLOAD ||
         !strcmp(settings->recompute, RENGA_RECOMPUTE_NONE);
}
