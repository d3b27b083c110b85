/* Pipeline: the object, its options and settings. */
#include "pipelineimpl.h"
#include "renga/private/packages.h"
#include <string.h>

#define AT(member) offsetof(struct _p_RengaPipeline, member)
static const RengaOptionRow rows[] = {
    {"on_nonfinite", RENGA_OPTION_STRING, "stop", AT(on_nonfinite), "stop|skip|rollback", 0, 0,
     "what a step does whose loss or gradient is not finite"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const char *const event_names[EVENT_COUNT] = {[EVENT_SETUP] = "Pipeline set-up",
                                                     [EVENT_PROLOGUE] = "Prologue",
                                                     [EVENT_READ] = "Read",
                                                     [EVENT_FORWARD] = "Forward",
                                                     [EVENT_RECOMPUTE] = "Recompute",
                                                     [EVENT_BACKWARD] = "Backward",
                                                     [EVENT_SEND] = "Send",
                                                     [EVENT_RECEIVE] = "Receive",
                                                     [EVENT_ACCUMULATE] = "Accumulate",
                                                     [EVENT_REDUCE] = "Reduce",
                                                     [EVENT_TIED] = "Tied",
                                                     [EVENT_NORM] = "Norm",
                                                     [EVENT_UPDATE] = "Update"};
static RengaLogEvent events[EVENT_COUNT];

RengaLogEvent RengaPipelineEvent_Private(PipelineEvent event)
{
  return events[event];
}

RengaErrorCode RengaPipelineRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Pipeline", N_ROWS, rows));
  for (int e = 0; e < EVENT_COUNT; e++)
    RengaCall(RengaLogEventRegister(event_names[e], &events[e]));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreePrograms(RengaPipeline pipeline)
{
  for (int p = 0; p < pipeline->n_programs; p++)
    RengaCall(RengaProgramDestroy_Private(&pipeline->program[p]));
  for (int k = 0; k < pipeline->n_kernels; k++) {
    RengaCall(RengaKernelDestroy(&pipeline->kernel[k].kernel));
    RengaFree(&pipeline->kernel[k].spec);
  }
  for (int s = 0; s < pipeline->n_schedules; s++) {
    RengaCall(RengaScheduleDestroy(&pipeline->schedule[s].schedule));
    RengaFree(&pipeline->schedule[s].place);
  }
  RengaFree(&pipeline->program);
  RengaFree(&pipeline->kernel);
  RengaFree(&pipeline->kernel_slot);
  RengaFree(&pipeline->schedule);
  for (int s = 0; s < pipeline->n_shares; s++) RengaFree(&pipeline->shares[s].row);
  RengaFree(&pipeline->shares);
  RengaFree(&pipeline->value_place);
  RengaFree(&pipeline->argument);
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeStage(RengaPipeline pipeline)
{
  for (int m = 0; pipeline->link && m < pipeline->n_messages; m++)
    RengaFree(&pipeline->link[m].request);
  RengaFree(&pipeline->link);
  RengaFree(&pipeline->message);
  RengaFree(&pipeline->field);
  RengaFree(&pipeline->parameter);
  RengaFree(&pipeline->sum);
  RengaFree(&pipeline->use_place);
  RengaFree(&pipeline->state);
  RengaFree(&pipeline->state_offset);
  RengaFree(&pipeline->holds);
  RengaFree(&pipeline->base);
  RengaFree(&pipeline->piece);
  for (int t = 0; t < pipeline->n_persistents; t++) {
    char *name = (char *)(uintptr_t)pipeline->persistent[t].name;
    RengaFree(&name);
  }
  RengaFree(&pipeline->persistent);
  if (pipeline->sub) RengaCall(RengaGraphDestroy(&pipeline->sub));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeRanks(RengaPipeline pipeline)
{
  RengaFree(&pipeline->standing);
  RengaFree(&pipeline->heard);
  RengaFree(&pipeline->notice);
  RengaFree(&pipeline->leaf_bounds);
  RengaFree(&pipeline->exchange);
  RengaFree(&pipeline->listed);
  if (pipeline->group) RengaCall(RengaCommDestroy(&pipeline->group));
  if (pipeline->side) RengaCall(RengaCommDestroy(&pipeline->side));
  if (pipeline->all) RengaCall(RengaCommDestroy(&pipeline->all));
  return RENGA_SUCCESS;
}

/* All that set-up made, also where it ended half way. */
RengaErrorCode RengaPipelineForget_Private(RengaPipeline pipeline)
{
  const size_t first = offsetof(struct _p_RengaPipeline, stages);
  RengaErrorCode code = FreePrograms(pipeline);
  if (!code) code = FreeStage(pipeline);
  if (!code && pipeline->arena) code = RengaDeviceFree(pipeline->device, &pipeline->arena);
  if (!code) code = FreeRanks(pipeline);
  memset((char *)pipeline + first, 0, sizeof *pipeline - first);
  pipeline->stage = -1;
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Destroy(void *object)
{
  RengaPipeline pipeline = object;
  RengaCall(RengaPipelineForget_Private(pipeline));
  if (pipeline->forecasts) RengaCall(RengaHeaderDestroy(&pipeline->forecasts));
  RengaFree(&pipeline->short_batch);
  RengaCall(RengaOptionsFreeStrings(N_ROWS, rows, pipeline));
  if (pipeline->hdr.state >= RENGA_STATE_SETUP) RengaSettingsRelease_Private(pipeline->settings);
  if (pipeline->settings) RengaCall(RengaSettingsDestroy(&pipeline->settings));
  if (pipeline->plan) RengaCall(RengaPlanDestroy(&pipeline->plan));
  if (pipeline->graph) RengaCall(RengaGraphDestroy(&pipeline->graph));
  return RENGA_SUCCESS;
}

static void TakeSettings(RengaPipeline pipeline, RengaSettings settings)
{
  pipeline->settings = settings;
  pipeline->device = settings->device;
  pipeline->optimizer = settings->optimizer;
}

/*@
   RengaPipelineCreate - a pipeline, with settings of its own: device, optimizer and the others

   Collective

   Input:
   . comm - the ranks

   Output:
   . pipeline - the pipeline; RengaPipelineDestroy frees it
@*/
RengaErrorCode RengaPipelineCreate(RengaComm comm, RengaPipeline *pipeline)
{
  RengaPipeline made;
  RengaCheckPointer(comm);
  RengaCheckPointer(pipeline);
  RengaCall(RengaHeaderCreate(comm, "RengaPipeline", sizeof *made, Destroy, &made));
  made->stage = -1;
  RengaErrorCode code = RengaOptionsSetDefaults(N_ROWS, rows, made);
  if (!code) code = RengaSettingsCreate(comm, &made->settings);
  if (!code) TakeSettings(made, made->settings);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *pipeline = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyOwn(RengaPipeline from, RengaPipeline to)
{
  RengaCall(RengaStringCopy(from->on_nonfinite, &to->on_nonfinite));
  RengaCall(RengaMalloc(from->n_short + 1, &to->short_batch));
  to->n_short = from->n_short;
  for (int i = 0; i < from->n_short; i++) to->short_batch[i] = from->short_batch[i];
  return RENGA_SUCCESS;
}

/* Settings, graph and plan are shared. */
RengaErrorCode RengaPipelineCopy_Private(RengaPipeline pipeline, RengaPipeline *copy)
{
  RengaPipeline made;
  RengaCall(RengaHeaderCreate(pipeline->hdr.owner, "RengaPipeline", sizeof *made, Destroy, &made));
  made->stage = -1;
  RengaCall(RengaHeaderReference(pipeline->settings));
  TakeSettings(made, pipeline->settings);
  RengaCall(RengaHeaderReference(made->graph = pipeline->graph));
  RengaCall(RengaHeaderReference(made->plan = pipeline->plan));
  const RengaErrorCode code = CopyOwn(pipeline, made);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *copy = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNew(RengaPipeline pipeline, const char *what)
{
  RengaCheckPointer(pipeline);
  RengaCheck(pipeline->hdr.state == RENGA_STATE_NEW, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "%s comes before RengaPipelineSetUp", what);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetPlan - what to run, and how it is laid out

   Collective

   Input:
   . pipeline - the pipeline
   . graph - the network, set up; the pipeline keeps a reference
   . plan - of this graph; the pipeline keeps a reference
@*/
RengaErrorCode RengaPipelineSetPlan(RengaPipeline pipeline, RengaGraph graph, RengaPlan plan)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetPlan"));
  RengaCheckPointer(graph);
  RengaCheckPointer(plan);
  RengaCall(RengaHeaderReference(graph));
  RengaCall(RengaHeaderReference(plan));
  if (pipeline->graph) RengaCall(RengaGraphDestroy(&pipeline->graph));
  if (pipeline->plan) RengaCall(RengaPlanDestroy(&pipeline->plan));
  pipeline->graph = graph;
  pipeline->plan = plan;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetSettings - run by settings that others share

   Collective

   Input:
   . pipeline - the pipeline
   . settings - in place of its own; the pipeline keeps a reference. They may not change while it is
     set up

   Notes: pipelines that share settings share a device: RengaPipelineGetMemory() measures both.
@*/
RengaErrorCode RengaPipelineSetSettings(RengaPipeline pipeline, RengaSettings settings)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetSettings"));
  RengaCheckPointer(settings);
  RengaCall(RengaHeaderReference(settings));
  RengaCall(RengaSettingsDestroy(&pipeline->settings));
  TakeSettings(pipeline, settings);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetSettings - what the pipeline runs by, lent

   Not collective

   Input:
   . pipeline - the pipeline

   Output:
   . settings - give them to RengaPartitionSetSettings() to have a plan made for them
@*/
RengaErrorCode RengaPipelineGetSettings(RengaPipeline pipeline, RengaSettings *settings)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(settings);
  *settings = pipeline->settings;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetSchedule - the order of forwards and backwards

   Collective

   Input:
   . pipeline - the pipeline
   . type - "1f1b" or "gpipe"; NULL: that of the plan

   Notes: RengaSettingsSetSchedule() of its settings.
@*/
RengaErrorCode RengaPipelineSetSchedule(RengaPipeline pipeline, const char *type)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetSchedule"));
  RengaCall(RengaSettingsSetSchedule(pipeline->settings, type));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetSeed - of first values and random numbers

   Collective

   Input:
   . pipeline - the pipeline
   . seed - any number, the same on all ranks

   Notes: RengaSettingsSetSeed() of its settings.
@*/
RengaErrorCode RengaPipelineSetSeed(RengaPipeline pipeline, uint64_t seed)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetSeed"));
  RengaCall(RengaSettingsSetSeed(pipeline->settings, seed));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetReduction - how gradients are added up

   Collective

   Input:
   . pipeline - the pipeline
   . reduction - "ordered": the same bits on any layout; "unordered": one buffer and MPI's own sum

   Notes: RengaSettingsSetReduction() of its settings.
@*/
RengaErrorCode RengaPipelineSetReduction(RengaPipeline pipeline, const char *reduction)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetReduction"));
  RengaCall(RengaSettingsSetReduction(pipeline->settings, reduction));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetTimeout - how long a wait may last without progress

   Collective

   Input:
   . pipeline - the pipeline
   . seconds - 0: for ever

   Notes: RengaSettingsSetTimeout() of its settings.
@*/
RengaErrorCode RengaPipelineSetTimeout(RengaPipeline pipeline, double seconds)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetTimeout"));
  RengaCall(RengaSettingsSetTimeout(pipeline->settings, seconds));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetMemoryBound - bytes that this rank's device may use

   Collective

   Input:
   . pipeline - the pipeline
   . bytes - the bound; 0: that of the plan (-partition_memory)

   Notes: RengaSettingsSetMemoryBound() of its settings.
@*/
RengaErrorCode RengaPipelineSetMemoryBound(RengaPipeline pipeline, int64_t bytes)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetMemoryBound"));
  RengaCall(RengaSettingsSetMemoryBound(pipeline->settings, bytes));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetDataShortBatch - announce that some steps have fewer (or more) samples

   Collective

   Input:
   . pipeline - the pipeline
   . samples - of such a step or evaluation; may be called for several sizes

   Notes: programs and memory for announced sizes are made at set-up.
@*/
RengaErrorCode RengaPipelineSetDataShortBatch(RengaPipeline pipeline, int64_t samples)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetDataShortBatch"));
  RengaCheck(samples > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a step of %lld samples",
             (long long)samples);
  for (int i = 0; i < pipeline->n_short; i++)
    if (pipeline->short_batch[i] == samples) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(pipeline->n_short + 1, &pipeline->short_batch));
  pipeline->short_batch[pipeline->n_short++] = samples;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetFromOptions - take what the user asked for: RengaSettingsSetFromOptions()

   Collective

   Input:
   . pipeline - the pipeline, whose settings it is that take the options

   Options:
   . -on_nonfinite - stop, skip or rollback, see RengaPipelineSetOnNonfinite()
@*/
RengaErrorCode RengaPipelineSetFromOptions(RengaPipeline pipeline)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetFromOptions"));
  RengaCall(RengaOptionsSetFromDatabase(pipeline->hdr.prefix, N_ROWS, rows, pipeline));
  if (pipeline->hdr.prefix)
    RengaCall(RengaObjectSetOptionsPrefix(pipeline->settings, pipeline->hdr.prefix));
  RengaCall(RengaSettingsSetFromOptions(pipeline->settings));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetSeed - the seed

   Not collective

   Input:
   . pipeline - the pipeline

   Output:
   . seed - as set, or of -seed
@*/
RengaErrorCode RengaPipelineGetSeed(RengaPipeline pipeline, uint64_t *seed)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(seed);
  *seed = (uint64_t)pipeline->settings->seed;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetDevice - the device of this rank, lent

   Not collective

   Input:
   . pipeline - the pipeline

   Output:
   . device - may be configured before RengaPipelineSetUp
@*/
RengaErrorCode RengaPipelineGetDevice(RengaPipeline pipeline, RengaDevice *device)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(device);
  *device = pipeline->device;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetOptimizer - the optimizer, lent

   Not collective

   Input:
   . pipeline - the pipeline

   Output:
   . optimizer - may be configured before RengaPipelineSetUp
@*/
RengaErrorCode RengaPipelineGetOptimizer(RengaPipeline pipeline, RengaOptimizer *optimizer)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(optimizer);
  *optimizer = pipeline->optimizer;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineDestroy - free a pipeline

   Collective

   Input:
   . pipeline - the pipeline; set to NULL
@*/
RengaErrorCode RengaPipelineDestroy(RengaPipeline *pipeline)
{
  RengaCall(RengaHeaderDestroy(pipeline));
  return RENGA_SUCCESS;
}
