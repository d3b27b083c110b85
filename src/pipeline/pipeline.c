/* Pipeline: the object, its options and settings. */
#include "pipelineimpl.h"
#include "renga/private/packages.h"

#define AT(member) offsetof(struct _p_RengaPipeline, member)
static const RengaOptionRow rows[] = {
    {"pipeline_loss_scale", RENGA_OPTION_REAL, "65536", AT(loss_scale), NULL, 1, 0x1p24,
     "fp16: first scale of the loss, a power of two"},
    {"pipeline_on_nonfinite", RENGA_OPTION_ENUM, "stop", AT(on_nonfinite), "stop|skip|rollback", 0,
     0, "what a step does whose loss or gradient is not finite"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

RengaErrorCode RengaPipelineRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Pipeline", N_ROWS, rows));
  RengaCall(RengaPipelineRegisterEvents_Private());
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyPipeline(void *object)
{
  RengaPipeline pipeline = object;
  RengaErrorCode code = pipeline->rank ? RengaPipelineForget_Private(pipeline) : RENGA_SUCCESS;
  RengaFree(&pipeline->rank);
  RengaFree(&pipeline->outline);
  if (pipeline->forecasts) RengaKeepFirst_Private(&code, RengaHeaderDestroy(&pipeline->forecasts));
  RengaFree(&pipeline->short_batch);
  RengaKeepFirst_Private(&code, RengaOptionsFreeStrings(N_ROWS, rows, pipeline));
  if (pipeline->hdr.state >= RENGA_STATE_SETUP) RengaSettingsRelease_Private(pipeline->settings);
  if (pipeline->settings) RengaKeepFirst_Private(&code, RengaSettingsDestroy(&pipeline->settings));
  if (pipeline->plan) RengaKeepFirst_Private(&code, RengaPlanDestroy(&pipeline->plan));
  if (pipeline->graph) RengaKeepFirst_Private(&code, RengaGraphDestroy(&pipeline->graph));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void TakePipelineSettings(RengaPipeline pipeline, RengaSettings settings)
{
  pipeline->settings = settings;
  pipeline->device = settings->device;
  pipeline->optimizer = settings->optimizer;
}

/*@
   RengaPipelineCreate - a pipeline, with settings of its own: device, optimizer and the others

   Collective

   Output:
   . pipeline - the pipeline; RengaPipelineDestroy frees it

   See also: RengaPipelineSetFromOptions(), RengaPipelineSetPlan(), RengaPipelineSetUp(),
   RengaPipelineDestroy()
@*/
RengaErrorCode RengaPipelineCreate(RengaComm comm, RengaPipeline *pipeline)
{
  RengaPipeline made;
  RengaCheckPointers(comm, pipeline);
  RengaCall(RengaHeaderCreate(comm, "RengaPipeline", sizeof *made, DestroyPipeline, &made));
  RengaErrorCode code = RengaOptionsSetDefaults(N_ROWS, rows, made);
  if (!code) code = RengaMalloc(1, &made->outline);
  if (!code) code = RengaMalloc(1, &made->rank);
  if (!code) code = RengaSettingsCreate(comm, &made->settings);
  if (!code) TakePipelineSettings(made, made->settings);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *pipeline = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNew(RengaPipeline pipeline, const char *what)
{
  RengaCheckPointerOf(what, pipeline);
  RengaCheck(pipeline->hdr.state == RENGA_STATE_NEW, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "%s comes before RengaPipelineSetUp", what);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetPlan - what to run, and how it is laid out

   Collective

   Input:
   . graph - the network, set up; the pipeline keeps a reference
   . plan - the plan of this graph; the pipeline keeps a reference

   Errors: RENGA_ERR_ORDER after RengaPipelineSetUp. Whether the plan is of this graph is found
   there.

   See also: RengaPartitionSolve(), RengaPlanLoad(), RengaPipelineSetUp(), RengaPipelineReset()
@*/
RengaErrorCode RengaPipelineSetPlan(RengaPipeline pipeline, RengaGraph graph, RengaPlan plan)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetPlan"));
  RengaCheckPointers(graph, plan);
  RengaCall(RengaHeaderReference(graph));
  RengaCall(RengaHeaderReference(plan));
  if (pipeline->graph) RengaCall(RengaGraphDestroy(&pipeline->graph));
  if (pipeline->plan) RengaCall(RengaPlanDestroy(&pipeline->plan));
  pipeline->graph = graph;
  pipeline->plan = plan;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetGraph - the network that is run

   Output:
   . graph - the graph, lent by the pipeline until it is given another; NULL before
     RengaPipelineSetPlan

   See also: RengaPipelineSetPlan()
@*/
RengaErrorCode RengaPipelineGetGraph(RengaPipeline pipeline, RengaGraph *graph)
{
  RengaCheckPointers(pipeline, graph);
  *graph = pipeline->graph;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetSettings - run by settings that others share

   Collective

   Input:
   . settings - the settings in place of its own; the pipeline keeps a reference. They may not
     change while it is set up

   Errors: RENGA_ERR_ORDER after RengaPipelineSetUp.

   Notes: pipelines that share settings share a device: RengaPipelineGetMemory() measures both.

   See also: RengaPipelineGetSettings(), RengaSettingsCreate()
@*/
RengaErrorCode RengaPipelineSetSettings(RengaPipeline pipeline, RengaSettings settings)
{
  RengaCall(CheckNew(pipeline, "RengaPipelineSetSettings"));
  RengaCheckPointer(settings);
  RengaCall(RengaHeaderReference(settings));
  RengaCall(RengaSettingsDestroy(&pipeline->settings));
  TakePipelineSettings(pipeline, settings);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetSettings - what the pipeline runs by, lent

   Output:
   . settings - give them to RengaPartitionSetSettings() to have a plan made for them

   See also: RengaPipelineSetSettings(), RengaPartitionSetSettings()
@*/
RengaErrorCode RengaPipelineGetSettings(RengaPipeline pipeline, RengaSettings *settings)
{
  RengaCheckPointers(pipeline, settings);
  *settings = pipeline->settings;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineSetDataShortBatch - announce that some steps have fewer (or more) samples

   Collective

   Input:
   . samples - samples of such a step or evaluation, at least 1; the call may be made for several
     sizes

   Errors: RENGA_ERR_ARGUMENT for no samples, RENGA_ERR_ORDER after set-up. Set-up refuses a size of
   more than 1048576 micro-batches with RENGA_ERR_PLAN.

   Notes: programs and memory for announced sizes are made at set-up.

   See also: RengaPipelineStep(), RengaPipelineSetUp()
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
   . -pipeline_on_nonfinite - stop, skip or rollback, see RengaPipelineSetOnNonfinite()

   Errors: RENGA_ERR_OPTION for a bad value, or options that do not go together; RENGA_ERR_ORDER
   after RengaPipelineSetUp, or where the settings are of another pipeline that is set up.

   See also: RengaSettingsSetFromOptions(), RengaPipelineSetOnNonfinite()
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
   RengaPipelineGetDevice - the device of this rank, lent

   Output:
   . device - may be configured before RengaPipelineSetUp

   See also: RengaPipelineGetOptimizer(), RengaSettingsGetDevice()
@*/
RengaErrorCode RengaPipelineGetDevice(RengaPipeline pipeline, RengaDevice *device)
{
  RengaCheckPointers(pipeline, device);
  *device = pipeline->device;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetOptimizer - the optimizer, lent

   Output:
   . optimizer - may be configured before RengaPipelineSetUp

   See also: RengaPipelineGetDevice(), RengaSettingsGetOptimizer()
@*/
RengaErrorCode RengaPipelineGetOptimizer(RengaPipeline pipeline, RengaOptimizer *optimizer)
{
  RengaCheckPointers(pipeline, optimizer);
  *optimizer = pipeline->optimizer;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineDestroy - free a pipeline

   Collective

   Input:
   . pipeline - the pipeline; set to NULL

   Errors: none for a pipeline that is NULL; else the first that a device, MPI or a kept object
   reports. The handle is NULL in any case.

   See also: RengaPipelineCreate(), RengaPipelineReset()
@*/
RengaErrorCode RengaPipelineDestroy(RengaPipeline *pipeline)
{
  RengaCheckPointer(pipeline);
  RengaCall(RengaHeaderDestroy(pipeline));
  return RENGA_SUCCESS;
}
