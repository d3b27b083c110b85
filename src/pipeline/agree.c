/* The ranks agree on all that decides the bits, at set-up; together.c compares before each pass
   what may have changed since. */
#include "pipelineimpl.h"
#include "renga/private/device.h"
#include "renga/private/optimizer.h"
#include <string.h>

enum { MOST = 24 + RENGA_OPTIMIZER_SETTINGS_MOST };

typedef struct {
  int count;
  RengaSetting row[MOST];
} SettingList;

static void AddAgreedSetting(SettingList *list, const char *name, const void *bytes, size_t size)
{
  list->row[list->count++] = (RengaSetting){name, RengaHash(bytes, size, 0)};
}

static void AddAgreedText(SettingList *list, const char *name, const char *text)
{
  AddAgreedSetting(list, name, text, strlen(text));
}

static uint64_t HashKept(RengaPlan plan, int stage, uint64_t hash)
{
  const char *const *name = NULL;
  int count = 0;
  if (RengaPlanGetKept(plan, stage, &count, &name)) return hash;
  for (int k = 0; k < count; k++) hash = RengaHash(name[k], strlen(name[k]) + 1, hash);
  return hash;
}

/* Stages as intervals of nodes, their shapes, what they keep, and the ranks that run them. */
static uint64_t HashStages(RengaPipeline pipeline)
{
  uint64_t hash = 0;
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(pipeline->plan, s);
    const RengaStageShape *shape = &stage->shape;
    const int row[] = {stage->first,      stage->last,           shape->replicas,
                       shape->tensor,     shape->sequence,       (int)shape->shard,
                       (int)shape->saved, (int)shape->precision, shape->chunks};
    hash = HashKept(pipeline->plan, s, RengaHash(row, sizeof row, hash));
    for (int r = 0; r < shape->replicas * shape->tensor; r++) {
      const RengaPlanPlace place = {
          .stage = s, .replica = r / shape->tensor, .tensor = r % shape->tensor};
      const int rank = RengaPlanGetRankAt(pipeline->plan, &place);
      hash = RengaHash(&rank, sizeof rank, hash);
    }
  }
  return hash;
}

/* What values are kept in, and which nodes are. */
static uint64_t HashStored(RengaGraph graph)
{
  uint64_t hash = 0;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++)
    hash = hash * 31 + (uint64_t)RengaGraphGetValue(graph, v)->stored;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++)
    hash = hash * 31 + RengaGraphGetNode(graph, n)->wide;
  return hash;
}

static RengaErrorCode AddPlan(RengaPipeline pipeline, SettingList *list)
{
  const uint64_t network = RengaGraphGetDigest(pipeline->graph), stages = HashStages(pipeline);
  const uint64_t stored = HashStored(pipeline->graph);
  const int64_t batch[2] = {pipeline->outline.batch[0], pipeline->outline.microbatch};
  int64_t memory;
  RengaCall(RengaPlanGetMemoryLimit(pipeline->plan, &memory));
  AddAgreedSetting(list, "network", &network, sizeof network);
  AddAgreedSetting(list, "precision (-precision, -precision_keep)", &stored, sizeof stored);
  AddAgreedSetting(list, "plan (its stages or ranks)", &stages, sizeof stages);
  AddAgreedSetting(list, "plan (its batch or micro-batch)", batch, sizeof batch);
  AddAgreedSetting(list, "plan (its leaf: -reduction_leaf)", &pipeline->outline.leaf,
                   sizeof pipeline->outline.leaf);
  AddAgreedSetting(list, "plan (its memory: -partition_memory)", &memory, sizeof memory);
  return RENGA_SUCCESS;
}

/* Of all ranks, as this one made them. */
static RengaErrorCode HashLists(RengaPipeline pipeline, RengaSchedule schedule, uint64_t *hash)
{
  *hash = 0;
  for (int s = 0; s < RengaPlanGetStageCount(pipeline->plan); s++)
    for (int r = 0; r < RengaPlanGetStage(pipeline->plan, s)->shape.replicas; r++) {
      const RengaAction *action;
      int64_t count;
      RengaCall(RengaScheduleGetActions(schedule, s, r, &count, &action));
      for (int64_t a = 0; a < count; a++) {
        const int64_t fields[] = {action[a].kind,    action[a].stage,  action[a].replica,
                                  action[a].message, action[a].bucket, action[a].microbatch};
        *hash = RengaHash(fields, sizeof fields, *hash);
      }
    }
  return RENGA_SUCCESS;
}

/* What plan, program and options make of it together. */
static RengaErrorCode AddSchedule(RengaPipeline pipeline, SettingList *list)
{
  const int64_t microbatches = RengaPlanMicrobatches(pipeline->plan, pipeline->outline.batch[0]);
  RengaSchedule schedule;
  const char *type;
  double eager;
  uint64_t lists;
  RengaCall(RengaOutlineGetSchedule_Private(&pipeline->outline, microbatches,
                                            !pipeline->outline.has_loss, &schedule));
  RengaCall(HashLists(pipeline, schedule, &lists));
  RengaCall(RengaScheduleGetType(schedule, &type));
  RengaCall(RengaScheduleGetEager(schedule, &eager));
  AddAgreedText(list, "schedule (-pipeline_schedule)", type);
  AddAgreedSetting(list, "micro-batches begun early (-pipeline_eager)", &eager, sizeof eager);
  AddAgreedSetting(list, "schedule (the lists that its rule made)", &lists, sizeof lists);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddOptions(RengaPipeline pipeline, SettingList *list)
{
  const char *device;
  RengaCall(RengaDeviceGetType(pipeline->device, &device));
  AddAgreedSetting(list, "seed", &pipeline->settings->seed, sizeof pipeline->settings->seed);
  AddAgreedText(list, "reduction (-pipeline_reduction)", pipeline->settings->reduction);
  AddAgreedSetting(list, "buckets (-pipeline_buckets)", &pipeline->settings->buckets,
                   sizeof pipeline->settings->buckets);
  AddAgreedSetting(list, "size of buckets (-pipeline_bucket_size)",
                   &pipeline->settings->bucket_size, sizeof pipeline->settings->bucket_size);
  AddAgreedSetting(list, "overlap (-pipeline_overlap)", &pipeline->settings->overlap,
                   sizeof pipeline->settings->overlap);
  AddAgreedText(list, "offload (-pipeline_offload)", pipeline->settings->offload);
  AddAgreedText(list, "-on_nonfinite", pipeline->on_nonfinite);
  AddAgreedText(list, "device type", device);
  AddAgreedText(list, "instruction set of kernels (-device_isa; auto: the best of each processor)",
                RengaDeviceGetKernelSet_Private(pipeline->device));
  AddAgreedSetting(list, "announced sizes of batches", pipeline->short_batch,
                   (size_t)pipeline->n_short * sizeof *pipeline->short_batch);
  return RENGA_SUCCESS;
}

static RengaErrorCode ListAllSettings(RengaPipeline pipeline, SettingList *list)
{
  int count;
  RengaCall(AddPlan(pipeline, list));
  RengaCall(AddOptions(pipeline, list));
  RengaCall(AddSchedule(pipeline, list)); /* its lists follow from what stands before */
  RengaCall(
      RengaOptimizerListSettings_Private(pipeline->optimizer, &count, &list->row[list->count]));
  list->count += count;
  return RENGA_SUCCESS;
}

/* all: [ranks][MOST] hashes. Which settings there are follows from the type of the optimizer, whose
   name comes before the others. */
static RengaErrorCode NameDifference(RengaPipeline pipeline, const SettingList *list,
                                     const uint64_t all[])
{
  for (int r = 1; r < RengaCommGetSize(pipeline->rank.all); r++)
    for (int s = 0; s < list->count; s++)
      RengaCheck(all[r * MOST + s] == all[s], pipeline->hdr.comm, RENGA_ERR_PLAN,
                 "rank %d differs from rank 0 in its %s%s: all ranks must be given the same", r,
                 strncmp(list->row[s].name, "optimizer_", 10) == 0 ? "-" : "", list->row[s].name);
  RengaRaise(pipeline->hdr.comm, RENGA_ERR_PLAN, "some rank differs from rank 0 in its settings");
}

static RengaErrorCode FindDifferentSetting(RengaPipeline pipeline, const SettingList *list)
{
  uint64_t mine[MOST] = {0}, *all = NULL;
  for (int s = 0; s < list->count; s++) mine[s] = list->row[s].hash;
  RengaErrorCode code = RengaErrorAgree(
      pipeline->hdr.comm, RengaMalloc(MOST * RengaCommGetSize(pipeline->rank.all), &all));
  if (!code)
    code = RengaCommGather(pipeline->rank.all, mine, sizeof mine, all, -1,
                           "all ranks to compare their settings");
  if (!code) code = NameDifference(pipeline, list, all);
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Collective. */
RengaErrorCode RengaPipelineCheckAgreement_Private(RengaPipeline pipeline)
{
  SettingList list = {0};
  RengaRequest request;
  int64_t both[2];
  uint64_t hash = 0;
  RengaCall(RengaErrorAgree(pipeline->hdr.comm, ListAllSettings(pipeline, &list)));
  for (int s = 0; s < list.count; s++) hash = RengaHash(&list.row[s].hash, sizeof hash, hash);
  memcpy(&both[0], &hash, sizeof hash);
  both[1] = ~both[0];
  RengaCall(RengaCommStartLargest(pipeline->rank.all, 2, both, &request));
  RengaCall(RengaCommWait(pipeline->rank.all, &request, "all ranks to set up the pipeline"));
  if (both[0] != ~both[1]) RengaCall(FindDifferentSetting(pipeline, &list));
  return RENGA_SUCCESS;
}
