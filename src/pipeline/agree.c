/* The ranks agree on all that decides the bits, at set-up; allornone.c compares before each pass
   what may have changed since. */
#include "pipelineimpl.h"
#include "renga/private/device.h"
#include "renga/private/optimizer.h"
#include "renga/private/quiet.h"
#include "renga/private/wait.h"
#include <string.h>

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
    const int each = RengaShapeGroup_Private(shape);
    for (int r = 0; r < shape->replicas * each; r++) {
      const RengaPlanPlace place = RengaPlanPlaceOf_Private(pipeline->plan, s, r / each, r % each);
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

static RengaErrorCode AddPlan(RengaPipeline pipeline, RengaSettingList *list)
{
  const uint64_t network = RengaGraphGetDigest(pipeline->graph), stages = HashStages(pipeline);
  const uint64_t stored = HashStored(pipeline->graph);
  const int64_t batch[2] = {pipeline->outline->batch[0], pipeline->outline->microbatch};
  int64_t memory;
  RengaCall(RengaPlanGetMemoryLimit(pipeline->plan, &memory));
  RengaSettingAdd_Private(list, "network", &network, sizeof network);
  RengaSettingAdd_Private(list, "precision (-precision, -precision_keep)", &stored, sizeof stored);
  RengaSettingAdd_Private(list, "plan (its stages or ranks)", &stages, sizeof stages);
  RengaSettingAdd_Private(list, "plan (its batch or micro-batch)", batch, sizeof batch);
  RengaSettingAdd_Private(list, "plan (its leaf: -partition_leaf)", &pipeline->outline->leaf,
                          sizeof pipeline->outline->leaf);
  RengaSettingAdd_Private(list, "plan (its memory: -partition_memory)", &memory, sizeof memory);
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
static RengaErrorCode AddSchedule(RengaPipeline pipeline, RengaSettingList *list)
{
  const int64_t microbatches = RengaPlanMicrobatches(pipeline->plan, pipeline->outline->batch[0]);
  RengaSchedule schedule;
  const char *type;
  double eager;
  uint64_t lists;
  RengaCall(RengaOutlineGetSchedule_Private(pipeline->outline, microbatches,
                                            !pipeline->outline->has_loss, &schedule));
  RengaCall(HashLists(pipeline, schedule, &lists));
  RengaCall(RengaScheduleGetType(schedule, &type));
  RengaCall(RengaScheduleGetEager(schedule, &eager));
  RengaSettingAddText_Private(list, "schedule (-schedule_type)", type);
  RengaSettingAdd_Private(list, "extra warm-up micro-batches (-schedule_eager)", &eager,
                          sizeof eager);
  RengaSettingAdd_Private(list, "schedule (the lists that its rule made)", &lists, sizeof lists);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddOptions(RengaPipeline pipeline, RengaSettingList *list)
{
  RengaSettingAdd_Private(list, "seed", &pipeline->settings->seed, sizeof pipeline->settings->seed);
  RengaSettingAddInt64_Private(list, "reduction (-pipeline_reduction)",
                               pipeline->settings->reduction);
  RengaSettingAdd_Private(list, "buckets (-pipeline_buckets)", &pipeline->settings->buckets,
                          sizeof pipeline->settings->buckets);
  RengaSettingAdd_Private(list, "size of buckets (-pipeline_bucket_size)",
                          &pipeline->settings->bucket_size, sizeof pipeline->settings->bucket_size);
  RengaSettingAdd_Private(list, "overlap (-pipeline_overlap)", &pipeline->settings->overlap,
                          sizeof pipeline->settings->overlap);
  RengaSettingAddInt64_Private(list, "offload (-layout_offload)", pipeline->settings->offload);
  RengaSettingAddInt64_Private(list, "-pipeline_on_nonfinite", pipeline->on_nonfinite);
  RengaSettingAddText_Private(
      list, "instruction set of kernels (-device_isa; auto: the best of each processor)",
      RengaDeviceGetKernelSet_Private(pipeline->device));
  RengaSettingAdd_Private(list, "announced sizes of batches", pipeline->short_batch,
                          (size_t)pipeline->n_short * sizeof *pipeline->short_batch);
  return RENGA_SUCCESS;
}

static RengaErrorCode ListAllSettings(RengaPipeline pipeline, RengaSettingList *list)
{
  RengaCall(AddPlan(pipeline, list));
  RengaCall(AddOptions(pipeline, list));
  RengaCall(AddSchedule(pipeline, list)); /* its lists follow from what stands before */
  RengaOptimizerListSettings_Private(pipeline->optimizer, list);
  return RENGA_SUCCESS;
}

/* Whether libraries differ; own kernels do not, here. The text becomes the same on all ranks. */
static RengaErrorCode CompareKernels(RengaPipeline pipeline)
{
  static const char what[] = "all ranks to compare their kernels";
  enum { LONGEST = RENGA_KERNELS_TEXT / 2 - 32 };
  const RengaComm comm = pipeline->rank->all;
  const int size = RengaCommGetSize(comm);
  char text[2][LONGEST] = {{0}}; /* of rank 0, and of the first rank that has another */
  for (int i = 0; i < 2; i++)
    snprintf(text[i], LONGEST, "%.*s", LONGEST - 1, pipeline->device->computed_by);
  RengaCall(RengaCommBroadcast(comm, text[0], LONGEST, 0, what));
  const bool differs = strcmp(text[0], text[1]) != 0;
  int64_t first = differs ? RengaCommGetRank(comm) : size, count = differs;
  RengaCall(RengaReduceInt64_Private(pipeline->hdr.comm, MPI_MIN, &first, what));
  if (first == size) return RENGA_SUCCESS;
  RengaCall(RengaReduceInt64_Private(pipeline->hdr.comm, MPI_SUM, &count, what));
  RengaCall(RengaCommBroadcast(comm, text[1], LONGEST, (int)first, what));
  const RengaKernelsDifference is = RengaDeviceFindDifference_Private(text[0], text[1]);
  RengaWarning(pipeline->hdr.comm,
               "ranks compute by unequal libraries, so the bits depend on the layout: rank 0 by "
               "%.*s, rank %lld by %.*s (%lld of %d ranks by others than rank 0)",
               is.length[0], is.text[0], (long long)first, is.length[1], is.text[1],
               (long long)count, size);
  snprintf(pipeline->device->computed_by, RENGA_KERNELS_TEXT, "%s; rank %lld: %s", text[0],
           (long long)first, text[1]);
  return RENGA_SUCCESS;
}

/* Collective. Which settings of the optimizer there are follows from its type, whose name comes
   before them. */
RengaErrorCode RengaPipelineCheckAgreement_Private(RengaPipeline pipeline)
{
  RengaSettingList list = {0};
  RengaQuiet quiet; /* all ranks make the schedule, and find that it does not fit the plan */
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code = ListAllSettings(pipeline, &list);
  RengaQuietEnd_Private(&quiet);
  RengaCall(RengaErrorAgreeOnce_Private(pipeline->hdr.comm, code));
  RengaCall(RengaCommCheckSame_Private(pipeline->rank->all, RENGA_ERR_PLAN,
                                       "all ranks to set up the pipeline", &list));
  RengaCall(CompareKernels(pipeline));
  return RENGA_SUCCESS;
}

/* Tasks that another rank has, too, and computes otherwise; all: [ranks][most]. */
static RengaErrorCode DropUnequal(RengaPipeline pipeline, int count,
                                  const RengaDeviceChoice choice[], int64_t all_count,
                                  const RengaDeviceChoice all[], int64_t *dropped)
{
  *dropped = 0;
  for (int c = 0; c < count; c++) {
    bool equal = true;
    for (int64_t o = 0; o < all_count && equal; o++)
      equal = all[o].task != choice[c].task || all[o].chosen == choice[c].chosen;
    if (!equal) RengaCall(pipeline->device->choices->drop(pipeline->device, choice[c].task));
    *dropped += !equal;
  }
  return RENGA_SUCCESS;
}

/* Of all ranks, of which none has more than most; what is missing is of no task. */
static RengaErrorCode CompareChoices(RengaPipeline pipeline, int count,
                                     const RengaDeviceChoice choice[], int64_t most)
{
  static const char what[] = "all ranks to compare what libraries chose";
  MPI_Comm comm = pipeline->hdr.comm;
  const int ranks = RengaCommGetSize(pipeline->rank->all);
  RengaDeviceChoice *mine = NULL, *all = NULL;
  int64_t dropped = 0;
  RengaErrorCode code = RengaMalloc(most, &mine);
  if (!code) code = RengaMalloc(ranks * most, &all);
  code = RengaErrorAgree(comm, code);
  if (!code && count > 0) memcpy(mine, choice, (size_t)count * sizeof *mine);
  if (!code)
    code = RengaCommGather(pipeline->rank->all, mine, (size_t)most * sizeof *mine, all, -1, what);
  if (!code) code = DropUnequal(pipeline, count, choice, ranks * most, all, &dropped);
  RengaFree(&mine);
  RengaFree(&all);
  RengaCall(RengaErrorAgree(comm, code));
  RengaCall(RengaReduceInt64_Private(comm, MPI_MAX, &dropped, what));
  if (dropped > 0)
    RengaWarning(
        comm,
        "ranks chose unequal engines of a library for %lld shapes of kernels, which own "
        "kernels compute instead: are the GPUs, their drivers and their free memory equal?",
        (long long)dropped);
  return RENGA_SUCCESS;
}

/* Collective, where kernels are there and have no memory yet: what libraries chose for them is
   tried, and is used where all ranks chose it. */
RengaErrorCode RengaPipelineAgreeOnChoices_Private(RengaPipeline pipeline)
{
  static const char what[] = "all ranks to count what libraries chose";
  RengaDevice device = pipeline->device;
  RengaDeviceChoice *choice = NULL;
  int count = 0;
  if (!device->choices) return RENGA_SUCCESS;
  RengaErrorCode code = device->choices->list(device, &count, &choice);
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  int64_t most = count;
  if (!code) code = RengaReduceInt64_Private(pipeline->hdr.comm, MPI_MAX, &most, what);
  if (!code && most > 0) code = CompareChoices(pipeline, count, choice, most);
  RengaFree(&choice);
  RengaCall(code);
  RengaCall(RengaDeviceShowChoices_Private(device));
  return RENGA_SUCCESS;
}
