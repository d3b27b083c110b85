/* Settings: what decides results, time and memory of a run beside its network, plan and data. One
   object for all who must agree on it: Pipeline, Partition, Profile and forecasts of memory. */
#pragma once
#include "rengadevice.h"
#include "rengaoptimizer.h"
#include "rengaplan.h"
#include "rengaschedule.h"

RENGA_BEGIN_DECLS

/* What decides results, time and memory of a run beside its network, plan and data. */
typedef struct _p_RengaSettings *RengaSettings;
/* How gradients are added up. */
typedef enum {
  RENGA_REDUCTION_ORDERED,  /* the same bits on any layout */
  RENGA_REDUCTION_UNORDERED /* one buffer, and MPI's own sum */
} RengaReduction;
const char *RengaReductionName(RengaReduction reduction); /* ordered, unordered */
/* What backward recomputes. */
typedef enum {
  RENGA_RECOMPUTE_AUTO, /* as the plan says, and the planner chooses it */
  RENGA_RECOMPUTE_NONE, /* stages keep what backward reads */
  RENGA_RECOMPUTE_FULL  /* all */
} RengaRecompute;
const char *RengaRecomputeName(RengaRecompute recompute); /* auto, none, full */
/* What waits in the memory of the host, of a device that has its own. */
typedef enum {
  RENGA_OFFLOAD_NONE,
  RENGA_OFFLOAD_OPTIMIZER, /* the moments of the optimizer */
  RENGA_OFFLOAD_SAVED,     /* what backward reads of forward */
  RENGA_OFFLOAD_ALL        /* both */
} RengaOffload;
const char *RengaOffloadName(RengaOffload offload); /* none, optimizer, saved, all */
RengaErrorCode RengaSettingsCreate(RengaComm comm, RengaSettings *settings);
RengaErrorCode RengaSettingsGetDevice(RengaSettings settings, RengaDevice *device); /* lent */
RengaErrorCode RengaSettingsGetOptimizer(RengaSettings settings,
                                         RengaOptimizer *optimizer); /* lent */
RengaErrorCode RengaSettingsSetSchedule(RengaSettings settings, const char *type);
RengaErrorCode RengaSettingsGetSchedule(RengaSettings settings, const char **type); /* lent */
RengaErrorCode RengaSettingsSetEager(RengaSettings settings, double eager);
RengaErrorCode RengaSettingsGetEager(RengaSettings settings, double *eager);
RengaErrorCode RengaSettingsSetReduction(RengaSettings settings, RengaReduction reduction);
RengaErrorCode RengaSettingsGetReduction(RengaSettings settings, RengaReduction *reduction);
RengaErrorCode RengaSettingsSetBuckets(RengaSettings settings, int buckets);
RengaErrorCode RengaSettingsGetBuckets(RengaSettings settings, int *buckets);
RengaErrorCode RengaSettingsSetBucketSize(RengaSettings settings, int64_t bytes);
RengaErrorCode RengaSettingsGetBucketSize(RengaSettings settings, int64_t *bytes);
RengaErrorCode RengaSettingsSetOverlap(RengaSettings settings, bool overlap);
RengaErrorCode RengaSettingsGetOverlap(RengaSettings settings, bool *overlap);
RengaErrorCode RengaSettingsSetChunks(RengaSettings settings, int chunks);
RengaErrorCode RengaSettingsGetChunks(RengaSettings settings, int *chunks);
RengaErrorCode RengaSettingsSetShard(RengaSettings settings, RengaShard shard);
RengaErrorCode RengaSettingsGetShard(RengaSettings settings, RengaShard *shard);
RengaErrorCode RengaSettingsSetShardGroups(RengaSettings settings, int groups);
RengaErrorCode RengaSettingsGetShardGroups(RengaSettings settings, int *groups);
RengaErrorCode RengaSettingsSetRecompute(RengaSettings settings, RengaRecompute recompute);
RengaErrorCode RengaSettingsGetRecompute(RengaSettings settings, RengaRecompute *recompute);
RengaErrorCode RengaSettingsSetOffload(RengaSettings settings, RengaOffload offload);
RengaErrorCode RengaSettingsGetOffload(RengaSettings settings, RengaOffload *offload);
RengaErrorCode RengaSettingsSetTransport(RengaSettings settings, const char *type);
RengaErrorCode RengaSettingsGetTransport(RengaSettings settings, const char **type); /* lent */
RengaErrorCode RengaSettingsSetSeed(RengaSettings settings, uint64_t seed);
RengaErrorCode RengaSettingsGetSeed(RengaSettings settings, uint64_t *seed);
RengaErrorCode RengaSettingsSetTimeout(RengaSettings settings, double seconds); /* 0: never */
RengaErrorCode RengaSettingsGetTimeout(RengaSettings settings, double *seconds);
RengaErrorCode RengaSettingsSetMemoryBound(RengaSettings settings, int64_t bytes);
RengaErrorCode RengaSettingsGetMemoryBound(RengaSettings settings, int64_t *bytes);
RengaErrorCode RengaSettingsSetFromOptions(RengaSettings settings);
RengaErrorCode RengaSettingsView(RengaSettings settings, RengaViewer viewer);
RengaErrorCode RengaSettingsDestroy(RengaSettings *settings);

RENGA_END_DECLS
