/* The settings of a run: what of it the memory of a device holds. Replicas may have shares of it,
   stages may run forward again, and some of it may wait in the memory of the host. */
#include "renga/private/choice.h"
#include "renga/private/settings.h"

/*@
   RengaSettingsSetShard - the ZeRO stage: what is sharded over the replicas of a stage

   Input:
   . shard - RENGA_SHARD_NOTHING; RENGA_SHARD_OPTIMIZER: masters and moments, which each replica
     updates of its share of the parameters; RENGA_SHARD_GRADIENTS, RENGA_SHARD_PARAMETERS: these
     too; RENGA_SHARD_AUTO: as the plan says

   Options:
   . -layout_zero - the same, as RengaShardName() says it

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for another number.

   Notes: plans are made so, and those that are loaded must be so. With RENGA_SHARD_AUTO a search
   shards the optimizer, or gradients and parameters too, where nothing fits otherwise, or where
   memory is short and it is faster so, and types that do not search shard nothing. Results do not
   depend on it. With gradients replicas take micro-batches in turn, in all stages alike, and where
   no other number of buckets is given there are 8; type rannc refuses it. With parameters they ask
   each other for what they read. Paper: Rajbhandari et al., ZeRO, 2020.
@*/
RengaErrorCode RengaSettingsSetShard(RengaSettings settings, RengaShard shard)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetShard"));
  RengaCheck(RengaShardName(shard), MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%d is no RengaShard",
             (int)shard);
  settings->shard = shard;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetShard(RengaSettings settings, RengaShard *shard)
{
  RengaCheckPointers(settings, shard);
  *shard = settings->shard;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsSetShardGroups - groups of replicas that add up gradients by themselves first

   Input:
   . groups - a number from 1, as at first: with sharded gradients the micro-batches of a round are
     added up over all replicas. More: so many groups of consecutive replicas add up their part of
     the batch, round by round, and then once over all of them

   Options:
   . -layout_zero_groups - the same

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for a number below 1.

   Notes: for replicas that shard gradients (RengaSettingsSetShard()) on several nodes: with a group
   for each node, gradients cross the network once a step, not once in each round of micro-batches.
   A replica keeps partial sums of 1 / (replicas of a group) of the gradients then, which the
   forecast counts, and not of 1 / replicas. Replicas that the number does not divide are one group.
   Results do not depend on it.

   See also: RengaSettingsGetShardGroups(), RengaSettingsSetShard()
@*/
RengaErrorCode RengaSettingsSetShardGroups(RengaSettings settings, int groups)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetShardGroups"));
  RengaCheck(groups >= 1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%d groups of replicas", groups);
  settings->shard_groups = groups;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetShardGroups(RengaSettings settings, int *groups)
{
  RengaCheckPointers(settings, groups);
  *groups = settings->shard_groups;
  return RENGA_SUCCESS;
}

int RengaSettingsShardGroups_Private(RengaSettings settings, RengaShard shard, int replicas)
{
  const int groups = settings ? settings->shard_groups : 1;
  return shard >= RENGA_SHARD_GRADIENTS && replicas % groups == 0 ? groups : 1;
}

bool RengaSettingsFindShard_Private(RengaSettings settings, RengaShard *shard)
{
  const bool said = settings->shard != RENGA_SHARD_AUTO;
  *shard = said ? settings->shard : RENGA_SHARD_NOTHING;
  return said;
}

/*@
   RengaRecomputeName - what stages run again, in a word

   Input:
   . recompute - auto, none or full; NULL is returned for what is none of these

   Notes: the words of -layout_recompute.

   See also: RengaSettingsSetRecompute()
@*/
const char *RengaRecomputeName(RengaRecompute recompute)
{
  static const char *const names[] = {RENGA_RECOMPUTE_WORDS(RENGA_WORD, RENGA_WORD)};
  return (unsigned)recompute <= RENGA_RECOMPUTE_FULL ? names[recompute] : NULL;
}

/*@
   RengaSettingsSetRecompute - whether stages recompute before backward

   Input:
   . recompute - RENGA_RECOMPUTE_NONE: stages keep all that backward reads; RENGA_RECOMPUTE_FULL:
     they keep what lies between their segments, which are recomputed one at a time;
     RENGA_RECOMPUTE_AUTO: as the plan says

   Options:
   . -layout_recompute - the same, as RengaRecomputeName() says it

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for another number.

   Notes: plans are made so, and those that are loaded must be so, whatever stages that recompute
   keep beside. Segments are as many as need the least memory, about the square root of a stage's
   layers. With RENGA_RECOMPUTE_AUTO the planner lets stages keep all where that fits; where it does
   not, a stage keeps what spares most seconds of the bytes that there are, and recomputes the rest.
   Results do not depend on it.

   See also: RengaSettingsGetRecompute(), RengaPlanSetKept()
@*/
RengaErrorCode RengaSettingsSetRecompute(RengaSettings settings, RengaRecompute recompute)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetRecompute"));
  RengaCheck(RengaRecomputeName(recompute), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d is no RengaRecompute", (int)recompute);
  settings->recompute = recompute;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetRecompute(RengaSettings settings, RengaRecompute *recompute)
{
  RengaCheckPointers(settings, recompute);
  *recompute = settings->recompute;
  return RENGA_SUCCESS;
}

/*@
   RengaOffloadName - what waits in the memory of the host, in a word

   Input:
   . offload - none, optimizer, saved or all; NULL is returned for what is none of these

   Notes: the words of -layout_offload.

   See also: RengaSettingsSetOffload()
@*/
const char *RengaOffloadName(RengaOffload offload)
{
  static const char *const names[] = {RENGA_OFFLOAD_WORDS(RENGA_WORD, RENGA_WORD)};
  return (unsigned)offload <= RENGA_OFFLOAD_ALL ? names[offload] : NULL;
}

/*@
   RengaSettingsSetOffload - what waits in the memory of the host

   Input:
   . offload - RENGA_OFFLOAD_NONE: nothing. RENGA_OFFLOAD_OPTIMIZER: the moments of the optimizer,
     of which the device has a window at a time while parameters are updated. RENGA_OFFLOAD_SAVED:
     the saved activations, of which the device has those of one micro-batch. RENGA_OFFLOAD_ALL:
     both

   Options:
   . -layout_offload - the same, as RengaOffloadName() says it

   Errors: RENGA_ERR_ORDER where the settings are of a pipeline that is set up;
   RENGA_ERR_ARGUMENT for another number.

   Notes: a device whose memory is the host's is refused by RengaPipelineSetUp(). Forecasts count
   what the device has, and not what lies on the host; predictions do not count the copies. Plans
   are made so, and say which stages offload saved activations. Results do not depend on it.

   See also: RengaSettingsGetOffload(), RengaSettingsSetShard()
@*/
RengaErrorCode RengaSettingsSetOffload(RengaSettings settings, RengaOffload offload)
{
  RengaCall(RengaSettingsCheckUnused_Private(settings, "RengaSettingsSetOffload"));
  RengaCheck(RengaOffloadName(offload), MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%d is no RengaOffload",
             (int)offload);
  settings->offload = offload;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSettingsGetOffload(RengaSettings settings, RengaOffload *offload)
{
  RengaCheckPointers(settings, offload);
  *offload = settings->offload;
  return RENGA_SUCCESS;
}

bool RengaSettingsOffloadsMoments_Private(RengaSettings settings)
{
  return settings->offload & RENGA_OFFLOAD_OPTIMIZER;
}

bool RengaSettingsFindSaved_Private(RengaSettings settings, RengaSaved *saved)
{
  const bool offloads = settings->offload & RENGA_OFFLOAD_SAVED;
  const bool full = settings->recompute == RENGA_RECOMPUTE_FULL;
  *saved = offloads ? RENGA_SAVED_OFFLOAD : full ? RENGA_SAVED_RECOMPUTE : RENGA_SAVED_KEEP;
  return offloads || settings->recompute != RENGA_RECOMPUTE_AUTO;
}
