/* What the outside may see of a run: gradients, norm, step number, memory. */
#include "gradients.h"
#include "rows.h"
#include "renga/private/holdings.h"
#include <string.h>

/* Tags after those of messages and tied parameters. */
static int TagOfResult(RengaPipeline pipeline)
{
  return pipeline->outline->n_messages + pipeline->outline->n_parameters;
}

/* From one rank to another; both call. */
RengaErrorCode RengaPipelineTransfer_Private(RengaPipeline pipeline, void *buffer, size_t bytes,
                                             int from, int to, const char *what)
{
  const int rank = RengaCommGetRank(pipeline->rank->all);
  RengaRequest request = NULL;
  if (rank == from)
    RengaCall(
        RengaCommSend(pipeline->rank->all, buffer, bytes, to, TagOfResult(pipeline), &request));
  else
    RengaCall(RengaCommReceive(pipeline->rank->all, buffer, bytes, from, TagOfResult(pipeline),
                               &request));
  if (request) RengaCall(RengaCommWait(pipeline->rank->all, &request, what));
  return RENGA_SUCCESS;
}

/* What a rank has of a gradient that it answers for: a range of the flat vector, or all of it as a
   list of rows. */
typedef struct {
  int64_t first, count;
} GradientPart;
typedef struct {
  const char *data;       /* NULL: this rank has nothing of it, or rows */
  const Chunk *chunk;     /* whose table it is */
  const Parameter *table; /* NULL: it is no list of rows */
} GradientHere;

/* Sums of gradients are float32 in every precision, as the caller gets them. */
static GradientHere FindGradient(RengaPipeline pipeline, const char *name, GradientPart *part)
{
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    const Chunk *chunk = &pipeline->rank->chunk[c];
    for (int p = 0; p < chunk->n_parameters && chunk->gradients->valid; p++) {
      const Parameter *row = &chunk->parameter[p];
      if (!row->trained || !(row->owner || row->sharded) || strcmp(row->name, name) != 0) continue;
      const RengaVector share = RengaChunkShareOf_Private(chunk, row, ROLE_GRADIENT);
      *part = (GradientPart){.first = row->from, .count = share.count};
      if (row->sparse) return (GradientHere){.chunk = chunk, .table = row};
      return (GradientHere){.data = share.data};
    }
  }
  return (GradientHere){0};
}

static RengaErrorCode FetchGradient(RengaPipeline pipeline, const GradientHere *here, size_t bytes,
                                    void *to)
{
  if (here->table) {
    RengaCall(RengaChunkSpreadRows_Private(here->chunk, here->table, to));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaDeviceCopy(pipeline->device, NULL, RENGA_DEVICE_TO_HOST, to, here->data, bytes));
  RengaCall(RengaPipelineAwaitDevice_Private(pipeline));
  return RENGA_SUCCESS;
}

/* Collective: from the rank that has it to the buffer of rank 0, by way of the host. */
static RengaErrorCode BringGradient(RengaPipeline pipeline, const GradientHere *here, size_t bytes,
                                    int from, void *buffer)
{
  const int rank = RengaCommGetRank(pipeline->rank->all);
  char *copy = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  if (rank == from && rank != 0) code = RengaMalloc((int64_t)bytes + 1, &copy);
  void *to = rank == 0 ? buffer : copy;
  if (rank == from && !code) code = FetchGradient(pipeline, here, bytes, to);
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (!code && from != 0 && to)
    code =
        RengaPipelineTransfer_Private(pipeline, to, bytes, from, 0, "rank 0 to receive a gradient");
  RengaFree(&copy);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* all: [ranks] what each has; found: some rank has something. */
static RengaErrorCode BringParts(RengaPipeline pipeline, const GradientHere *here,
                                 const GradientPart *mine, GradientPart all[], float *buffer,
                                 bool *found)
{
  *found = false;
  RengaCall(RengaCommGather(pipeline->rank->all, mine, sizeof *mine, all, -1,
                            "all ranks to find a gradient"));
  for (int r = 0; r < RengaCommGetSize(pipeline->rank->all); r++) {
    if (all[r].count == 0) continue;
    *found = true;
    RengaCall(BringGradient(pipeline, here, (size_t)all[r].count * sizeof *buffer, r,
                            buffer ? buffer + all[r].first : NULL));
  }
  return RENGA_SUCCESS;
}

/* Collective: of a parameter that is whole. */
static RengaErrorCode BringWhole(RengaPipeline pipeline, const char *parameter, float *buffer,
                                 bool *found)
{
  GradientPart mine = {0}, *all = NULL;
  const GradientHere here = FindGradient(pipeline, parameter, &mine);
  RengaErrorCode code =
      RengaErrorAgree(pipeline->hdr.comm, RengaMalloc(RengaCommGetSize(pipeline->rank->all), &all));
  if (!code) code = BringParts(pipeline, &here, &mine, all, buffer, found);
  RengaFree(&all);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What this rank has of the gradient of a parameter in parts, and answers for. */
static RengaErrorCode ListGradientParts(RengaPipeline pipeline, RengaValue whole,
                                        RengaPersistent row[], int *count)
{
  *count = 0;
  for (int c = 0; c < pipeline->rank->n_chunks; c++) {
    const Chunk *chunk = &pipeline->rank->chunk[c];
    for (int p = 0; p < chunk->n_parameters && chunk->gradients->valid; p++) {
      const Parameter *parameter = &chunk->parameter[p];
      RengaRectangle part[RENGA_RANGE_RECTANGLES];
      int parts;
      const bool share = parameter->sharded;
      if (parameter->whole != whole || !parameter->trained || !(parameter->owner || share))
        continue;
      char *data = RengaChunkShareOf_Private(chunk, parameter, ROLE_GRADIENT).data;
      RengaCall(RengaChunkCutParts_Private(chunk, parameter, share ? ROLE_MOMENT : ROLE_GRADIENT,
                                           &parts, part));
      for (int i = 0; i < parts; i++) {
        row[*count] = (RengaPersistent){.name = parameter->name,
                                        .spec = RengaGraphGetValue(pipeline->graph, whole)->spec,
                                        .part = part[i],
                                        .data = data,
                                        .owner = true};
        data += RengaPersistentGetBytes(&row[(*count)++]);
      }
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeGradientBlock(void *user, int tensor, int64_t first, int64_t bytes,
                                        const void *data)
{
  (void)tensor;
  memcpy((char *)user + first, data, (size_t)bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode BringRows(RengaPipeline pipeline, int count, const RengaPersistent row[],
                                float *buffer, bool *found)
{
  const RengaBringing bringing = {.taker = 0, .take = TakeGradientBlock, .user = buffer};
  RengaHoldings holdings;
  bool lost = false;
  RengaCall(RengaHoldingsCreate(pipeline->rank->all, count, row, NULL, &holdings));
  *found = holdings.n_tensors > 0;
  const RengaErrorCode code = RengaErrorAgree(
      pipeline->hdr.comm, RengaHoldingsBring(&holdings, pipeline->device, &bringing, &lost));
  RengaHoldingsFree(&holdings);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Collective. */
static RengaErrorCode BringGradientOfParts(RengaPipeline pipeline, RengaValue whole, float *buffer,
                                           bool *found)
{
  int most = 0, count = 0;
  RengaPersistent *row = NULL;
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    most += pipeline->rank->chunk[c].n_parameters * RENGA_RANGE_RECTANGLES;
  RengaErrorCode code = RengaMalloc(most + 1, &row);
  if (!code) code = ListGradientParts(pipeline, whole, row, &count);
  code = RengaErrorAgree(pipeline->hdr.comm, code);
  if (!code) code = BringRows(pipeline, count, row, buffer, found);
  RengaFree(&row);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetGradient - the gradient of the last step's batch with respect to a parameter

   Collective

   Input:
   . pipeline - the pipeline, after a step
   . parameter - its name in the network

   Output:
   . buffer - the whole gradient, before clipping, on rank 0

   Errors: RENGA_ERR_ORDER before set-up, or for a pipeline that can only be destroyed
   (RengaPipelineStep); RENGA_ERR_ARGUMENT on all ranks where there is no gradient: no such
   parameter, a frozen one, or no step yet; RENGA_ERR_TIMEOUT where a rank does not come.

   Notes: for tests and diagnosis.

   See also: RengaPipelineGetGradientNorm(), RengaPipelineGetParameter(), RengaPipelineStep()
@*/
RengaErrorCode RengaPipelineGetGradient(RengaPipeline pipeline, const char *parameter,
                                        float *buffer)
{
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  RengaCheckPointer(parameter);
  const int rank = RengaCommGetRank(pipeline->rank->all);
  const RengaValue whole = RengaGraphFindValue(pipeline->graph, parameter);
  bool found = false;
  RengaCall(whole >= 0 && pipeline->outline->parts[whole]
                ? BringGradientOfParts(pipeline, whole, buffer, &found)
                : BringWhole(pipeline, parameter, buffer, &found));
  RengaCheck(found, pipeline->hdr.comm, RENGA_ERR_ARGUMENT,
             "there is no gradient of %s: no such parameter, frozen, or no step yet", parameter);
  const int64_t count = RengaTensorSpecCount(&RengaGraphGetValue(pipeline->graph, whole)->spec);
  for (int64_t i = 0; rank == 0 && i < count; i++)
    buffer[i] = (float)((double)buffer[i] / pipeline->rank->scaled);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetGradientNorm - the norm of the last step's gradient, before clipping

   Output:
   . norm - Euclidean, over all parameters; 0 before the first step

   See also: RengaPipelineGetGradient(), RengaPipelineGetLastStep(), RengaOptimizerSetClipNorm()
@*/
RengaErrorCode RengaPipelineGetGradientNorm(RengaPipeline pipeline, double *norm)
{
  RengaCheckPointers(pipeline, norm);
  *norm = pipeline->norm;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetStepNumber - steps done so far

   Errors: none; -1 for a null pointer.

   See also: RengaPipelineSetStepNumber(), RengaPipelineGetLastStep()
@*/
int64_t RengaPipelineGetStepNumber(RengaPipeline pipeline)
{
  RengaCheckHandle(pipeline, -1);
  return pipeline->step;
}

/*@
   RengaPipelineSetStepNumber - go on from another step, after reading a checkpoint

   Collective

   Input:
   . step - steps done so far, at least 0; random numbers and learning rates follow from it

   Errors: RENGA_ERR_ARGUMENT for a negative number.

   See also: RengaPipelineGetStepNumber(), RengaCheckpointRead()
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

   Input:
   . pipeline - the pipeline, set up

   Output:
   . memory - bytes: forecast before anything was allocated, and what the device used at the most

   Errors: RENGA_ERR_ORDER before set-up.

   See also: RengaPipelineForecastStage(), RengaDeviceGetMemory(), RengaPipelineView()
@*/
RengaErrorCode RengaPipelineGetMemory(RengaPipeline pipeline, RengaPipelineMemory *memory)
{
  RengaCheckPointers(pipeline, memory);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  size_t peak;
  RengaCall(RengaDeviceGetMemory(pipeline->device, NULL, NULL, &peak));
  *memory = pipeline->rank->memory;
  memory->measured = (int64_t)peak;
  return RENGA_SUCCESS;
}
