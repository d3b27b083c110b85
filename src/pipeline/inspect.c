/* What the outside may see of a run: outputs of the network, gradients, norm, step number,
   memory. */
#include "pipelineimpl.h"
#include <string.h>

/* Tags after those of messages and tied parameters. */
static int TagOfResult(RengaPipeline pipeline)
{
  return pipeline->n_messages + pipeline->n_network;
}

static RengaErrorCode Transfer(RengaPipeline pipeline, void *buffer, size_t bytes, int from, int to,
                               const char *what)
{
  const int rank = RengaCommGetRank(pipeline->all);
  RengaRequest request = NULL;
  if (rank == from)
    RengaCall(RengaCommSend(pipeline->all, buffer, bytes, to, TagOfResult(pipeline), &request));
  else
    RengaCall(
        RengaCommReceive(pipeline->all, buffer, bytes, from, TagOfResult(pipeline), &request));
  if (request) RengaCall(RengaCommWait(pipeline->all, &request, what));
  return RENGA_SUCCESS;
}

/* The graph's output of a name: a batch of rows of float32. */
static RengaErrorCode FindOutput(RengaPipeline pipeline, const char *name, int *stage,
                                 size_t *row_bytes)
{
  int count;
  const RengaValue *output;
  RengaCall(RengaGraphGetOutputs(pipeline->graph, &count, &output));
  int found = 0;
  while (found < count && strcmp(RengaGraphGetValue(pipeline->graph, output[found])->name, name))
    found++;
  RengaCheck(found < count, pipeline->hdr.comm, RENGA_ERR_ARGUMENT, "the network has no output %s",
             name);
  const RengaGraphValue *value = RengaGraphGetValue(pipeline->graph, output[found]);
  const RengaTensorSpec one = RengaTensorSpecAt(&value->spec, 1);
  bool rows = value->spec.type == RENGA_FLOAT32 && value->spec.ndim > 0 && value->spec.dim[0] < 0;
  for (int d = 1; d < value->spec.ndim; d++) rows = rows && value->spec.dim[d] >= 0;
  RengaCheck(rows && value->producer >= 0, pipeline->hdr.comm, RENGA_ERR_SUPPORT,
             "output %s is not made of float32 rows, one or more for each sample", name);
  RengaCheck(value->in_order, pipeline->hdr.comm, RENGA_ERR_SUPPORT,
             "output %s runs through all samples more than once (parts joined along the batch): it "
             "cannot be put together from micro-batches. Make the parts outputs of their own",
             name);
  *stage = RengaPlanStageOfNode(pipeline->plan, value->producer);
  *row_bytes = RengaTensorSpecBytes(&one);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunForward(RengaPipeline pipeline, Pass *pass)
{
  if (pipeline->stage < 0) return RENGA_SUCCESS;
  RengaCall(RengaPipelineRunPrologue_Private(pipeline, pass));
  RengaCall(RengaPipelineRunPass_Private(pipeline, pass));
  return RENGA_SUCCESS;
}

/* rows: of this replica, on the ranks of the stage; buffer: of all samples, on rank 0. */
static RengaErrorCode CollectRows(RengaPipeline pipeline, const Pass *pass, int stage,
                                  size_t row_bytes, char *rows, char *buffer)
{
  const int rank = RengaCommGetRank(pipeline->all);
  const int replicas = RengaPlanGetStage(pipeline->plan, stage)->replicas;
  for (int r = 0; r < replicas; r++) {
    const int64_t samples = pass->batch->samples, size = pipeline->microbatch;
    const int64_t m = pass->microbatches, leaf = pipeline->leaf;
    int64_t first = RengaPlanLeafBound(m, leaf, replicas, r) * size;
    int64_t last = RengaPlanLeafBound(m, leaf, replicas, r + 1) * size;
    if (last > samples) last = samples;
    if (first >= last) continue;
    const int from = RengaPlanGetRank(pipeline->plan, stage, r);
    const size_t bytes = (size_t)(last - first) * row_bytes;
    char *place = buffer ? buffer + (size_t)first * row_bytes : NULL;
    if (from == 0 && rank == 0)
      memcpy(place, rows, bytes);
    else if (rank == 0 || rank == from)
      RengaCall(Transfer(pipeline, rank == 0 ? place : rows, bytes, from, 0,
                         "rank 0 to collect an output of the network"));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForward - run the network forward and collect an output

   Collective

   Input:
   . pipeline - the pipeline, set up
   . batch - number of samples over all replicas, and how to read them; fields that the output does
     not need are not read
   . output - name of an output of the network, [samples, ...], float32

   Output:
   . buffer - on rank 0: the output of all samples in order; not looked at on other ranks
@*/
RengaErrorCode RengaPipelineForward(RengaPipeline pipeline, const RengaBatch *batch,
                                    const char *output, float *buffer)
{
  Pass pass = {.kind = PROGRAM_EVALUATION, .target = RENGA_VALUE_NONE};
  int stage = 0;
  size_t row_bytes = 0;
  RengaCheckPointer(output);
  RengaCall(RengaPipelineBeginPass_Private(pipeline, batch, &pass));
  RengaCall(FindOutput(pipeline, output, &stage, &row_bytes));
  const bool root = RengaCommGetRank(pipeline->all) == 0;
  RengaCheck(!root || buffer, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "rank 0 has no buffer for %s",
             output);
  char *rows = NULL;
  if (stage == pipeline->stage) {
    pass.target = RengaGraphFindValue(pipeline->sub, output);
    RengaCall(RengaMalloc((pass.last - pass.first) * pipeline->microbatch * (int64_t)row_bytes + 1,
                          &rows));
    pass.output = rows;
  }
  RengaErrorCode code = RunForward(pipeline, &pass);
  if (code == RENGA_SUCCESS)
    code = CollectRows(pipeline, &pass, stage, row_bytes, rows, root ? (char *)buffer : NULL);
  RengaFree(&rows);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static const Parameter *FindParameter(RengaPipeline pipeline, const char *name)
{
  for (int p = 0; p < pipeline->n_parameters; p++)
    if (strcmp(pipeline->parameter[p].name, name) == 0) return &pipeline->parameter[p];
  return NULL;
}

/*@
   RengaPipelineGetGradient - the gradient of the last step's batch with respect to a parameter

   Collective

   Input:
   . pipeline - the pipeline, after a step
   . parameter - its name in the network

   Output:
   . buffer - on rank 0: the whole gradient, before clipping

   Notes: for tests and diagnosis.
@*/
RengaErrorCode RengaPipelineGetGradient(RengaPipeline pipeline, const char *parameter,
                                        float *buffer)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(parameter);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  const Parameter *here = FindParameter(pipeline, parameter);
  const int rank = RengaCommGetRank(pipeline->all);
  int64_t owner = here && here->owner && here->trained && pipeline->gradient_valid ? rank + 1 : 0;
  RengaCall(RengaCommSumInt64(pipeline->all, 1, &owner, "all ranks to find a gradient"));
  RengaCheck(owner > 0, pipeline->hdr.comm, RENGA_ERR_ARGUMENT,
             "there is no gradient of %s: no such parameter, frozen, or no step yet", parameter);
  const RengaValue whole = RengaGraphFindValue(pipeline->graph, parameter);
  const size_t bytes = RengaTensorSpecBytes(&RengaGraphGetValue(pipeline->graph, whole)->spec);
  const int from = (int)owner - 1;
  float *mine = rank == from ? pipeline->gradient + here->gradient : buffer;
  if (from == 0 && rank == 0)
    memcpy(buffer, mine, bytes);
  else if (rank == 0 || rank == from)
    RengaCall(Transfer(pipeline, mine, bytes, from, 0, "rank 0 to receive a gradient"));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetGradientNorm - the norm of the last step's gradient, before clipping

   Not collective

   Input:
   . pipeline - the pipeline

   Output:
   . norm - Euclidean, over all parameters; 0 before the first step
@*/
RengaErrorCode RengaPipelineGetGradientNorm(RengaPipeline pipeline, double *norm)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(norm);
  *norm = pipeline->norm;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetStepNumber - steps done so far

   Not collective

   Input:
   . pipeline - the pipeline
@*/
int64_t RengaPipelineGetStepNumber(RengaPipeline pipeline)
{
  return pipeline->step;
}

/*@
   RengaPipelineSetStepNumber - go on from another step, after reading a checkpoint

   Collective

   Input:
   . pipeline - the pipeline
   . step - steps done so far; random numbers and learning rates follow from it
@*/
RengaErrorCode RengaPipelineSetStepNumber(RengaPipeline pipeline, int64_t step)
{
  RengaCheckPointer(pipeline);
  RengaCheck(step >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "step %lld", (long long)step);
  pipeline->step = step;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetMemory - memory of this rank's device by category

   Not collective

   Input:
   . pipeline - the pipeline, set up

   Output:
   . memory - bytes: forecast before anything was allocated, and what the device used at the most
@*/
RengaErrorCode RengaPipelineGetMemory(RengaPipeline pipeline, RengaPipelineMemory *memory)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(memory);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  size_t peak;
  RengaCall(RengaDeviceGetMemory(pipeline->device, NULL, NULL, &peak));
  *memory = pipeline->memory;
  memory->measured = (int64_t)peak;
  return RENGA_SUCCESS;
}
