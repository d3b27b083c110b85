/* The settings of a run: their options, and what others make of them. */
#include "renga/private/device.h"
#include "renga/private/settings.h"
#include <string.h>

/*@
   RengaSettingsSetFromOptions - take what the user asked for; also of device and optimizer

   Collective

   Input:
   . settings - the settings

   Options:
   . -seed - of first values, dropout and shuffles
   . -pipeline_schedule - gpipe or 1f1b
   . -pipeline_eager - micro-batches that 1f1b begins early, for each stage that follows
   . -pipeline_timeout - as -timeout: seconds without progress after which a run ends, 0: never
   . -pipeline_reduction - ordered or unordered
   . -pipeline_buckets - parts of a stage's gradients, each summed over the replicas by itself
   . -pipeline_chunks - stages that each rank computes
   . -comm_transport - how tensors travel between ranks: auto, mpi, mpi_device, staged or nccl

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
  RengaCall(RengaOptionsGetString("pipeline_schedule", &schedule, &given));
  RengaCall(RengaOptionsGetReal("pipeline_eager", &eager, &eager_given));
  RengaCheck(!given || !eager_given || strcmp(schedule, RENGA_SCHEDULE_1F1B) == 0,
             settings->hdr.comm, RENGA_ERR_OPTION,
             "-pipeline_eager %g begins micro-batches of -pipeline_schedule 1f1b early, but "
             "-pipeline_schedule is %s: leave one of the two out",
             eager, schedule);
  if (settings->timeout >= 0) RengaCall(RengaSettingsSetTimeout(settings, settings->timeout));
  if (given) RengaCall(RengaSettingsSetSchedule(settings, schedule));
  if (eager_given) RengaCall(RengaSettingsSetEager(settings, eager));
  RengaCall(RengaDeviceSetFromOptions(settings->device));
  RengaCall(RengaOptimizerSetFromOptions(settings->optimizer));
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsApplySchedule - give a schedule the type that is set

   Not collective

   Input:
   . settings - the settings
   . schedule - keeps its own type, such as the plan's, where none is set

   Errors: RENGA_ERR_SUPPORT for a schedule that there is not.

   See also: RengaSettingsSetSchedule(), RengaScheduleSetType()
@*/
RengaErrorCode RengaSettingsApplySchedule(RengaSettings settings, RengaSchedule schedule)
{
  RengaCheckPointer(settings);
  RengaCheckPointer(schedule);
  if (settings->schedule) RengaCall(RengaScheduleSetType(schedule, settings->schedule));
  if (settings->eager >= 0) RengaCall(RengaScheduleSetEager(schedule, settings->eager));
  return RENGA_SUCCESS;
}

static uint64_t AddText(const char *text, uint64_t hash)
{
  return text ? RengaHash(text, strlen(text) + 1, hash) : RengaHash("", 1, hash);
}

/*@
   RengaSettingsGetHash - a number of all that decides the memory of a stage

   Collective the first time where -device_threads is not given, else not

   Input:
   . settings - the settings; their device is set up by this

   Output:
   . hash - of device, moments and groups of the optimizer, reduction, buckets and schedule

   Errors: RENGA_ERR_TIMEOUT where a rank does not come; RENGA_ERR_LIBRARY from MPI.

   See also: RengaPipelineSetUp()
@*/
RengaErrorCode RengaSettingsGetHash(RengaSettings settings, uint64_t *hash)
{
  int moments = 0;
  const char *const *names, *groups;
  RengaCheckPointer(settings);
  RengaCheckPointer(hash);
  RengaCall(RengaDeviceSetUp(settings->device));
  RengaCall(RengaOptimizerGetMoments(settings->optimizer, &moments, &names));
  RengaCall(RengaOptimizerGetGroups(settings->optimizer, &groups));
  const double number[4] = {(double)moments, (double)settings->device->threads, settings->eager,
                            (double)settings->buckets};
  uint64_t made = RengaHash(number, sizeof number, 0);
  made = AddText(groups, made);
  made = AddText(settings->reduction, made);
  made = AddText(settings->schedule, made);
  made = AddText(settings->device->options.type, made);
  made = AddText(settings->device->options.isa, made);
  *hash = made;
  return RENGA_SUCCESS;
}

/*@
   RengaSettingsView - show the settings

   Collective

   Input:
   . settings - the settings
   . viewer - where to

   Errors: RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaViewerCreate()
@*/
RengaErrorCode RengaSettingsView(RengaSettings settings, RengaViewer viewer)
{
  char eager[48] = "", chunks[32] = "", buckets[32] = "", bound[32] = "as plan and machine say";
  const char *device;
  double timeout;
  RengaCheckPointer(settings);
  RengaCheckPointer(viewer);
  RengaCall(RengaSettingsGetTimeout(settings, &timeout));
  if (settings->eager >= 0) snprintf(eager, sizeof eager, ", eager %g", settings->eager);
  if (settings->chunks)
    snprintf(chunks, sizeof chunks, ", %d stage%s per rank", settings->chunks,
             settings->chunks == 1 ? "" : "s");
  if (settings->buckets > 1) snprintf(buckets, sizeof buckets, " in %d buckets", settings->buckets);
  if (settings->memory_bound) RengaFormatBytes((double)settings->memory_bound, sizeof bound, bound);
  RengaCall(RengaDeviceGetType(settings->device, &device));
  RengaCall(RengaViewerPrintf(
      viewer,
      "Settings: device %s, %s reduction%s, schedule %s%s%s, seed %lld, timeout %g s, memory of a "
      "device: %s\n",
      device, settings->reduction, buckets, settings->schedule ? settings->schedule : "of the plan",
      eager, chunks, (long long)settings->seed, timeout, bound));
  RengaCall(RengaOptimizerView(settings->optimizer, viewer));
  return RENGA_SUCCESS;
}
