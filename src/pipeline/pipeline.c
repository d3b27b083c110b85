/* Pipeline: the object, its options and settings. */
#include "pipelineimpl.h"
#include "renga/private/packages.h"
#include <string.h>

#define AT(member) offsetof(struct _p_RengaPipeline, member)
static const RengaOptionRow rows[] = {
    {"seed", RENGA_OPTION_INT64, "0", AT(seed), NULL, 0, 0,
     "of first values, dropout and shuffles"},
    {"pipeline_timeout", RENGA_OPTION_REAL, "300", AT(timeout), NULL, 0, 1e9,
     "seconds without progress after which a run ends and says what it waits for; 0: never"},
    {"pipeline_reduction", RENGA_OPTION_STRING, "ordered", AT(reduction), "ordered|unordered", 0, 0,
     "how gradients are added up: the same bits on any layout, or less memory"},
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

static RengaErrorCode Destroy(void *object)
{
  RengaPipeline pipeline = object;
  RengaCall(FreePrograms(pipeline));
  RengaCall(FreeStage(pipeline));
  if (pipeline->arena) RengaCall(RengaDeviceFree(pipeline->device, &pipeline->arena));
  RengaPipelineFreeForecasts_Private(pipeline);
  RengaFree(&pipeline->short_batch);
  RengaCall(RengaOptionsFreeStrings(N_ROWS, rows, pipeline));
  RengaFree(&pipeline->schedule_type);
  if (pipeline->group) RengaCall(RengaCommDestroy(&pipeline->group));
  if (pipeline->all) RengaCall(RengaCommDestroy(&pipeline->all));
  if (pipeline->optimizer) RengaCall(RengaOptimizerDestroy(&pipeline->optimizer));
  if (pipeline->device) RengaCall(RengaDeviceDestroy(&pipeline->device));
  if (pipeline->plan) RengaCall(RengaPlanDestroy(&pipeline->plan));
  if (pipeline->graph) RengaCall(RengaGraphDestroy(&pipeline->graph));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineCreate - a pipeline, with a device and an optimizer of its own

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
  if (code == RENGA_SUCCESS) code = RengaDeviceCreate(comm, &made->device);
  if (code == RENGA_SUCCESS) code = RengaOptimizerCreate(comm, &made->optimizer);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *pipeline = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyOptions(RengaPipeline from, RengaPipeline to)
{
  to->seed = from->seed;
  to->memory_bound = from->memory_bound;
  to->timeout = from->timeout;
  to->from_options = from->from_options;
  RengaCall(RengaStringCopy(from->reduction, &to->reduction));
  RengaCall(RengaStringCopy(from->on_nonfinite, &to->on_nonfinite));
  if (from->schedule_type) RengaCall(RengaStringCopy(from->schedule_type, &to->schedule_type));
  if (from->hdr.prefix) RengaCall(RengaStringCopy(from->hdr.prefix, &to->hdr.prefix));
  RengaCall(RengaMalloc(from->n_short + 1, &to->short_batch));
  to->n_short = from->n_short;
  for (int i = 0; i < from->n_short; i++) to->short_batch[i] = from->short_batch[i];
  return RENGA_SUCCESS;
}

/* Device, optimizer, graph and plan are shared. */
RengaErrorCode RengaPipelineCopy_Private(RengaPipeline pipeline, RengaPipeline *copy)
{
  RengaPipeline made;
  RengaCall(RengaHeaderCreate(pipeline->hdr.owner, "RengaPipeline", sizeof *made, Destroy, &made));
  made->stage = -1;
  RengaCall(RengaHeaderReference(made->device = pipeline->device));
  RengaCall(RengaHeaderReference(made->optimizer = pipeline->optimizer));
  RengaCall(RengaHeaderReference(made->graph = pipeline->graph));
  RengaCall(RengaHeaderReference(made->plan = pipeline->plan));
  const RengaErrorCode code = CopyOptions(pipeline, made);
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
  if (pipeline->graph != graph) RengaPipelineFreeForecasts_Private(pipeline);
  if (pipeline->graph) RengaCall(RengaGraphDestroy(&pipeline->graph));
  if (pipeline->plan) RengaCall(RengaPlanDestroy(&pipeline->plan));
  pipeline->graph = graph;
  pipeline->plan = plan;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetSchedule - the type of the schedule

   Collective

   Input:
   . pipeline - the pipeline
   . type - "1f1b" or "gpipe"
@*/
RengaErrorCode RengaPipelineSetSchedule(RengaPipeline pipeline, const char *type)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetSchedule"));
  RengaCheckPointer(type);
  RengaFree(&pipeline->schedule_type);
  RengaCall(RengaStringCopy(type, &pipeline->schedule_type));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetSeed - of first values and random numbers

   Collective

   Input:
   . pipeline - the pipeline
   . seed - any number, the same on all ranks
@*/
RengaErrorCode RengaPipelineSetSeed(RengaPipeline pipeline, uint64_t seed)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetSeed"));
  pipeline->seed = (int64_t)seed;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetReduction - how gradients are added up

   Collective

   Input:
   . pipeline - the pipeline
   . reduction - "ordered": the same bits on any layout; "unordered": one buffer and MPI's own sum
@*/
RengaErrorCode RengaPipelineSetReduction(RengaPipeline pipeline, const char *reduction)
{
  static const char *const names[] = {"ordered", "unordered"};
  RengaCall(CheckNew(pipeline, "RengaPipelineSetReduction"));
  RengaCheckPointer(reduction);
  RengaCheck(strcmp(reduction, names[0]) == 0 || strcmp(reduction, names[1]) == 0, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "there is no reduction \"%s\": did you mean \"%s\"?", reduction,
             RengaClosestName(reduction, 2, names));
  RengaFree(&pipeline->reduction);
  RengaCall(RengaStringCopy(reduction, &pipeline->reduction));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetTimeout - how long a wait may last without progress

   Collective

   Input:
   . pipeline - the pipeline
   . seconds - 0: for ever
@*/
RengaErrorCode RengaPipelineSetTimeout(RengaPipeline pipeline, double seconds)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetTimeout"));
  RengaCheck(seconds >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a timeout of %g seconds", seconds);
  pipeline->timeout = seconds;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetMemoryBound - bytes that this rank's device may use

   Collective

   Input:
   . pipeline - the pipeline
   . bytes - the bound; 0: that of the plan (-partition_memory)
@*/
RengaErrorCode RengaPipelineSetMemoryBound(RengaPipeline pipeline, int64_t bytes)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetMemoryBound"));
  RengaCheck(bytes >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a bound of %lld bytes",
             (long long)bytes);
  pipeline->memory_bound = bytes;
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
   RengaPipelineSetFromOptions - take what the user asked for; also of device and optimizer

   Collective

   Input:
   . pipeline - the pipeline

   Options:
   . -seed - of first values, dropout and shuffles
   . -pipeline_schedule - gpipe or 1f1b
   . -pipeline_timeout - seconds without progress after which a run ends, 0: never
   . -pipeline_reduction - ordered or unordered
   . -on_nonfinite - stop, skip or rollback, see RengaPipelineSetOnNonfinite()
@*/
RengaErrorCode RengaPipelineSetFromOptions(RengaPipeline pipeline)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetFromOptions"));
  RengaCall(RengaOptionsSetFromDatabase(pipeline->hdr.prefix, N_ROWS, rows, pipeline));
  RengaCall(RengaDeviceSetFromOptions(pipeline->device));
  RengaCall(RengaOptimizerSetFromOptions(pipeline->optimizer));
  pipeline->from_options = true;
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
  *seed = (uint64_t)pipeline->seed;
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
