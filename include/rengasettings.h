/* Settings: what decides results, time and memory of a run beside its network, plan and data. One
   object for all who must agree on it: Pipeline, Partition, Profile and forecasts of memory. */
#pragma once
#include "rengadevice.h"
#include "rengaoptimizer.h"
#include "rengaschedule.h"

RENGA_BEGIN_DECLS

typedef struct _p_RengaSettings *RengaSettings;
#define RENGA_REDUCTION_ORDERED "ordered"     /* the same bits on any layout */
#define RENGA_REDUCTION_UNORDERED "unordered" /* one buffer, and MPI's own sum */
RengaErrorCode RengaSettingsCreate(RengaComm comm, RengaSettings *settings);
RengaErrorCode RengaSettingsGetDevice(RengaSettings settings, RengaDevice *device); /* lent */
RengaErrorCode RengaSettingsGetOptimizer(RengaSettings settings,
                                         RengaOptimizer *optimizer); /* lent */
/* NULL: that of the plan, and the planner chooses it. */
RengaErrorCode RengaSettingsSetSchedule(RengaSettings settings, const char *type);
RengaErrorCode RengaSettingsGetSchedule(RengaSettings settings, const char **type); /* lent */
RengaErrorCode RengaSettingsSetEager(RengaSettings settings, double eager);
RengaErrorCode RengaSettingsGetEager(RengaSettings settings, double *eager);
RengaErrorCode RengaSettingsSetReduction(RengaSettings settings, const char *reduction);
RengaErrorCode RengaSettingsGetReduction(RengaSettings settings, const char **reduction);
/* Parts of a stage's gradients, each summed over the replicas by itself; 1 at first. */
RengaErrorCode RengaSettingsSetBuckets(RengaSettings settings, int buckets);
RengaErrorCode RengaSettingsGetBuckets(RengaSettings settings, int *buckets);
/* Stages that each rank computes; 0: as the plan says, or one where it is made. */
RengaErrorCode RengaSettingsSetChunks(RengaSettings settings, int chunks);
RengaErrorCode RengaSettingsGetChunks(RengaSettings settings, int *chunks);
/* RENGA_TRANSPORT_... of rengacomm.h; NULL: what fits the device. Results do not depend on it. */
RengaErrorCode RengaSettingsSetTransport(RengaSettings settings, const char *type);
RengaErrorCode RengaSettingsGetTransport(RengaSettings settings, const char **type); /* lent */
RengaErrorCode RengaSettingsSetSeed(RengaSettings settings, uint64_t seed);
RengaErrorCode RengaSettingsGetSeed(RengaSettings settings, uint64_t *seed);
RengaErrorCode RengaSettingsSetTimeout(RengaSettings settings, double seconds); /* 0: never */
RengaErrorCode RengaSettingsGetTimeout(RengaSettings settings, double *seconds);
/* Bytes that a device may use; 0: as plan and machine say. */
RengaErrorCode RengaSettingsSetMemoryBound(RengaSettings settings, int64_t bytes);
RengaErrorCode RengaSettingsGetMemoryBound(RengaSettings settings, int64_t *bytes);
RengaErrorCode RengaSettingsSetFromOptions(RengaSettings settings);
/* The type and the micro-batches begun early that are set, into a schedule. */
RengaErrorCode RengaSettingsApplySchedule(RengaSettings settings, RengaSchedule schedule);
/* Of all that decides the memory of a stage: equal settings have equal hashes. */
RengaErrorCode RengaSettingsGetHash(RengaSettings settings, uint64_t *hash);
RengaErrorCode RengaSettingsView(RengaSettings settings, RengaViewer viewer);
RengaErrorCode RengaSettingsDestroy(RengaSettings *settings);

RENGA_END_DECLS
