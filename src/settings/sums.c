/* The settings of how sums over replicas run beside what ranks compute. */
#include "renga/private/settings.h"

/*@
   RengaSettingsSetBucketSize - how large the parts are in which gradients are summed

   Input:
   . bytes - bytes of gradients, about so many in each part, which says how many parts a stage has;
     0: as RengaSettingsSetBuckets() says

   Options:
   . -pipeline_bucket_size - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for a negative number.

   Notes: parts are whole parameters, at least one part and at most 1000. Results do not depend on
   it.

   See also: RengaSettingsGetBucketSize(), RengaSettingsSetBuckets(), RengaSettingsSetOverlap()
@*/
RengaErrorCode RengaSettingsSetBucketSize(RengaSettings settings, int64_t bytes)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetBucketSize"));
  RengaCheck(bytes >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "buckets of %lld bytes",
             (long long)bytes);
  settings->bucket_size = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetBucketSize(RengaSettings settings, int64_t *bytes)
{
  RengaCheckPointers(settings, bytes);
  *bytes = settings->bucket_size;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetOverlap - whether sums and gathers over replicas go on while ranks compute

   Input:
   . overlap - true, as at first: the sum of each bucket of gradients begins when the last backward
     has made them, and the update awaits it. Parameters of a sharded stage are awaited by the first
     kernel of the next step that reads them. false: each is awaited where the schedule begins it

   Options:
   . -pipeline_overlap - on or off

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up.

   Notes: results do not depend on it; -log_view says how much of the sums was hidden. It takes
   several buckets to hide much.

   See also: RengaSettingsGetOverlap(), RengaSettingsSetBucketSize()
@*/
RengaErrorCode RengaSettingsSetOverlap(RengaSettings settings, bool overlap)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetOverlap"));
  settings->overlap = overlap;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetOverlap(RengaSettings settings, bool *overlap)
{
  RengaCheckPointers(settings, overlap);
  *overlap = settings->overlap;
  return RENGA_SUCCESS;
}
