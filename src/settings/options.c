/* The settings of a run: their options, and what others make of them. */
#include "renga/private/device.h"
#include "renga/private/number.h"
#include "renga/private/schedule.h"
#include "renga/private/settings.h"
#include <string.h>

/*@
   RengaSettingsSetFromOptions - take what the user asked for; also of device and optimizer

   Collective

   Options:
   . -seed - of first values, dropout and shuffles
   . -schedule_type - order of forwards and backwards; see RengaScheduleSetType()
   . -schedule_eager - extra warm-up micro-batches of 1f1b, for each stage that follows
   . -timeout - seconds without progress after which a run ends, 0: never
   . -pipeline_reduction - ordered or unordered
   . -pipeline_buckets - parts of a stage's gradients, each summed over the replicas by itself
   . -pipeline_bucket_size - bytes of each such part, which says how many there are
   . -pipeline_overlap - whether sums, gathers and exchanges go on while ranks compute
   . -layout_chunks - stages that each rank computes
   . -layout_zero - what is sharded over replicas (ZeRO): none, optimizer, gradients, parameters
     or auto
   . -layout_zero_groups - groups of replicas that add up gradients by themselves first
   . -layout_offload - what waits in the memory of the host: none, optimizer, saved, all
   . -layout_recompute - whether stages recompute before backward: none, full or auto
   . -transport_type - how tensors travel between ranks: auto, mpi, mpi_device, staged or nccl

   Errors: RENGA_ERR_OPTION for a bad value, or options that do not go together; RENGA_ERR_ORDER
   where the settings are of a pipeline that is set up.

   Notes: the one place where these options are read: planner, profile and pipeline see the object.

   See also: RengaSettingsCreate()
@*/
RengaErrorCode RengaSettingsSetFromOptions(RengaSettings settings)
{
  const char *schedule = NULL;
  double eager = 0;
  bool given = false, eager_given = false;
  RengaCheckPointer(settings);
  RengaCheck(!settings->users, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaSettingsSetFromOptions comes before RengaPipelineSetUp");
  RengaCall(RengaSettingsReadRows_Private(settings));
  RengaCall(RengaOptionsGetString("schedule_type", &schedule, &given));
  RengaCall(RengaOptionsGetReal("schedule_eager", &eager, &eager_given));
  RengaCheck(!given || !eager_given || strcmp(schedule, RENGA_SCHEDULE_1F1B) == 0 ||
                 strcmp(schedule, RENGA_SCHEDULE_AUTO) == 0,
             settings->hdr.comm, RENGA_ERR_OPTION,
             "-schedule_eager %g asks for extra warm-up micro-batches of -schedule_type 1f1b, "
             "but -schedule_type is %s: leave one of the two out",
             eager, schedule);
  RengaCheck(!(settings->offload & RENGA_OFFLOAD_SAVED) ||
                 settings->recompute == RENGA_RECOMPUTE_AUTO,
             settings->hdr.comm, RENGA_ERR_OPTION,
             "-layout_offload %s lets saved activations wait on the host, and "
             "-layout_recompute %s says something else of them: leave one of the two out",
             RengaOffloadName(settings->offload), RengaRecomputeName(settings->recompute));
  RengaCheck(settings->buckets == 0 || settings->bucket_size == 0, settings->hdr.comm,
             RENGA_ERR_OPTION,
             "-pipeline_buckets %d says how many buckets there are, and -pipeline_bucket_size %lld "
             "how large they are: leave one of the two out",
             settings->buckets, (long long)settings->bucket_size);
  if (settings->timeout >= 0) RengaCall(RengaSettingsSetTimeout(settings, settings->timeout));
  if (given) RengaCall(RengaSettingsSetSchedule(settings, schedule));
  if (eager_given) RengaCall(RengaSettingsSetEager(settings, eager));
  RengaCall(RengaDeviceSetFromOptions(settings->device));
  RengaCall(RengaOptimizerSetFromOptions(settings->optimizer));
  return RENGA_SUCCESS;
}

static uint64_t AddText(const char *text, uint64_t hash)
{
  return text ? RengaHash(text, strlen(text) + 1, hash) : RengaHash("", 1, hash);
}

/* A number of all that decides the memory of a stage. Collective the first time where
   -device_threads is not given, else not. settings: the settings; their device is set up by this.
   hash: any number: a hash of device, moments, groups and rows of the optimizer, reduction, buckets
   and schedule, with the text of its file. */
RengaErrorCode RengaSettingsGetHash(RengaSettings settings, uint64_t *hash)
{
  int moments = 0;
  RengaSparse sparse;
  const char *const *names, *groups;
  RengaCheckPointers(settings, hash);
  RengaCall(RengaDeviceSetUp(settings->device));
  RengaCall(RengaOptimizerGetMoments(settings->optimizer, &moments, &names));
  RengaCall(RengaOptimizerGetGroups(settings->optimizer, &groups));
  RengaCall(RengaOptimizerGetSparse(settings->optimizer, &sparse));
  const double number[] = {moments,
                           settings->device->threads,
                           settings->eager,
                           settings->buckets,
                           (double)settings->bucket_size,
                           settings->reduction,
                           settings->offload,
                           sparse};
  uint64_t made = RengaHash(number, sizeof number, 0);
  made = AddText(groups, made);
  made = AddText(settings->schedule, made);
  RengaScheduleHashLists_Private(settings->schedule, &made);
  made = AddText(settings->device->options.type, made);
  made = AddText(settings->device->options.isa, made);
  *hash = made;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsView - show the settings

   Collective

   Input:
   . viewer - the viewer that it is shown by

   Errors: RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaViewerCreate()
@*/
RengaErrorCode RengaSettingsView(RengaSettings settings, RengaViewer viewer)
{
  char eager[48] = "", chunks[32] = "", buckets[48] = "", bound[32] = "as plan and machine say";
  char shard[48] = "", recompute[32] = "", offload[32] = "";
  const char *device;
  double timeout;
  RengaCheckPointers(settings, viewer);
  RengaCall(RengaSettingsGetTimeout(settings, &timeout));
  if (settings->eager >= 0) RengaTextFormat(eager, sizeof eager, ", eager %g", settings->eager);
  if (settings->chunks)
    snprintf(chunks, sizeof chunks, ", %d stage%s per rank", settings->chunks,
             settings->chunks == 1 ? "" : "s");
  if (settings->shard != RENGA_SHARD_AUTO)
    snprintf(shard, sizeof shard, ", sharded over replicas: %s", RengaShardName(settings->shard));
  if (settings->recompute != RENGA_RECOMPUTE_AUTO)
    snprintf(recompute, sizeof recompute, ", recomputation: %s",
             RengaRecomputeName(settings->recompute));
  if (settings->offload != RENGA_OFFLOAD_NONE)
    snprintf(offload, sizeof offload, ", offloaded: %s", RengaOffloadName(settings->offload));
  if (settings->buckets > 0) snprintf(buckets, sizeof buckets, " in %d buckets", settings->buckets);
  if (settings->bucket_size) {
    char size[16];
    RengaFormatBytes((double)settings->bucket_size, sizeof size, size);
    snprintf(buckets, sizeof buckets, " in buckets of %s", size);
  }
  if (settings->memory_bound) RengaFormatBytes((double)settings->memory_bound, sizeof bound, bound);
  RengaCall(RengaDeviceGetType(settings->device, &device));
  RengaCall(
      RengaViewerPrintf(viewer,
                        "Settings: device %s, %s reduction%s%s, schedule %s%s%s%s%s%s, seed %lld, "
                        "timeout %g s, memory of a "
                        "device: %s\n",
                        device, RengaReductionName(settings->reduction), buckets,
                        settings->overlap ? "" : " without overlap",
                        settings->schedule ? settings->schedule : "of the plan", eager, chunks,
                        shard, recompute, offload, (long long)settings->seed, timeout, bound));
  RengaCall(RengaOptimizerView(settings->optimizer, viewer));
  return RENGA_SUCCESS;
}
