/* Where a type of schedule wants stages to lie: asked by those who make plans, before there is a
   schedule. */
#include "scheduleimpl.h"
#include <string.h>

static const struct {
  const char *type;
  int chunks;
  bool wave;
} placements[] = {{RENGA_SCHEDULE_INTERLEAVED, 2, false},
                  {RENGA_SCHEDULE_ZB_V, 2, true},
                  {RENGA_SCHEDULE_DUALPIPE_V, 2, true}};

/*@
   RengaScheduleFindPlacement - how a type of schedule wants stages to lie on ranks

   Input:
   . type - a type that RengaScheduleSetType() takes; NULL: 1f1b

   Output:
   . chunks - the number of stages of each rank, at least 1, where nothing else is said
   . wave - true: of p ranks, rank r has stages r, 2p-1-r, 2p+r, …; false: r, r + p, r + 2p, …

   Errors: of type file: a file that cannot be read.

   See also: RengaPlanSetWave(), RengaSettingsSetChunks()
@*/
RengaErrorCode RengaScheduleFindPlacement(const char *type, int *chunks, bool *wave)
{
  RengaCheckPointers(chunks, wave);
  *chunks = 1;
  *wave = false;
  if (type && !strncmp(type, RENGA_SCHEDULE_FILE, strlen(RENGA_SCHEDULE_FILE)))
    RengaCall(RengaScheduleFilePlaces_Private(type, chunks, wave));
  for (size_t i = 0; type && i < sizeof placements / sizeof placements[0]; i++)
    if (!strcmp(type, placements[i].type)) {
      *chunks = placements[i].chunks;
      *wave = placements[i].wave;
    }
  return RENGA_SUCCESS;
}
