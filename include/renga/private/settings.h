/* The settings as the rooms that run by them see them: read through the members, set through
   setters. */
#pragma once
#include "renga/private/object.h"
#include "renga/private/same.h"
#include "renga/private/plan.h"
#include "rengasettings.h"

/* Of the enums of the settings, for choice.h. */
#define RENGA_REDUCTION_WORDS(first, other) first("ordered") other("unordered")
#define RENGA_RECOMPUTE_WORDS(first, other) first("auto") other("none") other("full")
#define RENGA_RECOMPUTE_CHOICES "auto=selective|none|full"
#define RENGA_OFFLOAD_WORDS(first, other)                                                          \
  first("none") other("optimizer") other("saved") other("all")
#define RENGA_TRANSPORT_CHOICES                                                                    \
  RENGA_TRANSPORT_AUTO "|" RENGA_TRANSPORT_MPI "|" RENGA_TRANSPORT_MPI_DEVICE                      \
                       "|" RENGA_TRANSPORT_STAGED "|" RENGA_TRANSPORT_NCCL

enum { RENGA_BUCKETS_MOST = 1000, RENGA_CHUNKS_MOST = 1000 };
enum { RENGA_BUCKETS_FOLDED = 8 }; /* where replicas share gradients and nothing was said */

struct _p_RengaSettings {
  struct _p_RengaObject hdr;
  RengaDevice device;
  RengaOptimizer optimizer;
  int64_t seed, memory_bound;
  double timeout; /* of -timeout; negative: not given */
  RengaReduction reduction;
  int buckets;         /* of a stage's gradients; 0: by their size */
  int64_t bucket_size; /* bytes; 0: so many as buckets says */
  bool overlap;        /* sums and gathers go on while ranks compute */
  int chunks;          /* stages of a rank; 0: nothing was said */
  RengaShard shard;    /* AUTO: nothing was said, as of recompute */
  int shard_groups;
  RengaRecompute recompute;
  RengaOffload offload;
  char *schedule;  /* NULL: not said */
  double eager;    /* negative: not said */
  char *transport; /* NULL: not said */
  int users;       /* pipelines that are set up with these: nothing may change under them */
};

/* What a pipeline that is set up holds on to. */
void RengaSettingsHold_Private(RengaSettings settings);
void RengaSettingsRelease_Private(RengaSettings settings);
/* An error of the function `what` where a pipeline holds on to the settings. */
RengaErrorCode RengaSettingsCheckUnused_Private(RengaSettings settings, const char *what);
/* tables: NULL where nothing is updated by rows; else, to be freed, [values of the network] 1 + the
   node that gathers rows of a table that is, or 0. */
RengaErrorCode RengaSettingsFindTables_Private(RengaSettings settings, RengaGraph graph,
                                               int64_t batch, int **tables);
/* Positions that such a node reads of so many samples. */
int64_t RengaTablePositions_Private(RengaGraph graph, const RengaGraphNode *gather,
                                    int64_t samples);
bool RengaSettingsIsOrdered_Private(RengaSettings settings);
/* What is to be sharded; false: nothing was said of it. */
bool RengaSettingsFindShard_Private(RengaSettings settings, RengaShard *shard);
/* Groups in which replicas add up gradients by themselves first; 1: they do not. settings: NULL:
   none. */
int RengaSettingsShardGroups_Private(RengaSettings settings, RengaShard shard, int replicas);
/* What stages are to do with saved tensors: keep all, or recompute all; false: nothing was said. */
bool RengaSettingsFindSaved_Private(RengaSettings settings, RengaSaved *saved);
bool RengaSettingsOffloadsMoments_Private(RengaSettings settings);
RengaErrorCode RengaSettingsSetDefaults_Private(RengaSettings settings);
/* All that decides a plan; with the optimizer. */
void RengaSettingsList_Private(RengaSettings settings, RengaSettingList *list);
RengaErrorCode RengaSettingsReadRows_Private(RengaSettings settings); /* of the data base */
RengaErrorCode RengaSettingsGetHash(RengaSettings settings, uint64_t *hash);
