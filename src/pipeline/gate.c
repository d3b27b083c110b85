/* Updates that are queued before the host knows loss and norm of a step: the device, which has
   both, lets them pass or not, and the host, which finds the same later, only says what came of it.
   So the device does not idle between backward and update.

   Of one rank whose device can. Several would have to agree on the device, by sums of NCCL's there,
   before the first update: their host does, and queues updates then (entry/update.c). */
#include "updates.h"
#include "renga/private/op.h"
#include "renga/private/optimizer.h"
#include <stdlib.h>

struct _p_StepGate {
  RengaGate gate;
  RengaSquares *row;     /* pinned: [gate.count] in the order of the network's parameters */
  RengaGateFound *found; /* pinned */
  RengaEvent judged;     /* behind the gate, before updates */
};

/* A row that is not sorted yet. */
typedef struct {
  int number;
  RengaSquares squares;
} NumberedSquares;

static int CompareSquares(const void *one, const void *other)
{
  const int a = ((const NumberedSquares *)one)->number,
            b = ((const NumberedSquares *)other)->number;
  return (a > b) - (a < b);
}

static int CountNorms(const Rank *rank)
{
  int count = 0;
  for (int c = 0; c < rank->n_chunks; c++) count += rank->chunk[c].updates->n_norms;
  return count;
}

/* Rules of the program compute on the host, moments there are brought by it, and parts of squares
   are added up there. */
static bool CanHaveGate(RengaPipeline pipeline)
{
  const Rank *rank = pipeline->rank;
  if (RengaCommGetSize(rank->all) > 1 || rank->n_chunks == 0 || !pipeline->outline->has_loss ||
      !RengaDeviceHasGate_Private(pipeline->device, CountNorms(rank)) ||
      RengaOptimizerIsOutside_Private(pipeline->optimizer))
    return false;
  for (int c = 0; c < rank->n_chunks; c++)
    if (rank->chunk[c].updates->offload.host || rank->chunk[c].updates->n_splits > 0) return false;
  return true;
}

static void ListSquares(const Rank *rank, NumberedSquares list[])
{
  int count = 0;
  for (int c = 0; c < rank->n_chunks; c++) {
    const UpdateTable *updates = rank->chunk[c].updates;
    const double *square = updates->square;
    for (int i = 0; i < updates->n_norms; i++) {
      const int64_t pieces = RengaVectorPieces(updates->gradient[i].count);
      list[count++] = (NumberedSquares){updates->number[i], {square, pieces}};
      square += pieces;
    }
  }
  qsort(list, (size_t)count, sizeof *list, CompareSquares);
}

/* Once the tables of updates are there. */
RengaErrorCode RengaPipelineMakeGate_Private(RengaPipeline pipeline)
{
  Rank *rank = pipeline->rank;
  NumberedSquares *list = NULL;
  const int count = CountNorms(rank);
  if (!CanHaveGate(pipeline)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &rank->gate));
  RengaCall(RengaEventCreate(pipeline->device, &rank->gate->judged));
  RengaCall(RengaDeviceHostMalloc(pipeline->device, sizeof *rank->gate->found, &rank->gate->found));
  RengaCall(RengaDeviceHostMalloc(pipeline->device, (size_t)(count + 1) * sizeof *rank->gate->row,
                                  &rank->gate->row));
  RengaCall(RengaMalloc(count + 1, &list));
  ListSquares(rank, list);
  for (int i = 0; i < count; i++) rank->gate->row[i] = list[i].squares;
  rank->gate->gate =
      (RengaGate){.count = count, .row = rank->gate->row, .found = rank->gate->found};
  RengaFree(&list);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineFreeGate_Private(RengaPipeline pipeline)
{
  StepGate *made = pipeline->rank->gate;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!made) return RENGA_SUCCESS;
  if (made->judged) code = RengaEventDestroy(pipeline->device, &made->judged);
  if (made->found)
    RengaKeepFirst_Private(&code, RengaDeviceHostFree(pipeline->device, &made->found));
  if (made->row) RengaKeepFirst_Private(&code, RengaDeviceHostFree(pipeline->device, &made->row));
  RengaFree(&pipeline->rank->gate);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The chunk that has the losses of the step. */
static const Chunk *ChunkWithLoss(const Rank *rank)
{
  for (int c = 0; c < rank->n_chunks; c++)
    if (rank->chunk[c].loss->value != RENGA_VALUE_NONE) return &rank->chunk[c];
  return NULL;
}

static RengaErrorCode QueueGate(RengaPipeline pipeline, const Pass *pass, const float loss[])
{
  StepGate *made = pipeline->rank->gate;
  made->found->go = true; /* until the device has found something */
  made->gate.loss = loss;
  made->gate.losses = pass->microbatches;
  made->gate.loss_scale = RengaLossScaleOf_Private(pipeline);
  RengaCall(RengaOptimizerGetClipNorm(pipeline->optimizer, &made->gate.clip));
  RengaCall(RengaDeviceSetGate_Private(pipeline->device, &made->gate));
  RengaCall(RengaSpansMark_Private(pipeline->device));
  RengaCall(RengaEventRecord(pipeline->device, made->judged, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode QueueBehindGate(RengaPipeline pipeline)
{
  const double begin = MPI_Wtime();
  RengaErrorCode code = RENGA_SUCCESS;
  RengaSpan span;
  RengaCall(RengaPipelineBeginTimed_Private(pipeline, EVENT_UPDATE, &span));
  for (int c = 0; c < pipeline->rank->n_chunks && !code; c++)
    code = RengaChunkQueueUpdates_Private(&pipeline->rank->chunk[c], 1);
  RengaCall(RengaPipelineEndTimed_Private(pipeline, EVENT_UPDATE, span, 0, "update", code));
  RengaLogTrace(RengaPipelineTrack_Private(pipeline), "update", begin, MPI_Wtime());
  return RENGA_SUCCESS;
}

/* Once norms are queued; pass->judged: it was done. After an error here some parameters may have
   changed. */
RengaErrorCode RengaPipelineUpdateAhead_Private(RengaPipeline pipeline, Pass *pass)
{
  const Chunk *chunk = ChunkWithLoss(pipeline->rank);
  if (!pipeline->rank->gate || pass->failed || !pass->loss || !chunk || pass->turn)
    return RENGA_SUCCESS;
  RengaErrorCode code = QueueGate(pipeline, pass, chunk->portion->taken.loss);
  if (!code) pass->judged = pipeline->rank->gate->judged;
  if (!code) code = QueueBehindGate(pipeline);
  RengaKeepFirst_Private(&code, RengaDeviceSetGate_Private(pipeline->device, NULL));
  if (code && pass->judged) RengaPipelineSpoil_Private(pipeline, code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of a pass that fails after that: parameters may have changed, but behind a gate that is shut. */
void RengaPipelineFailGate_Private(RengaPipeline pipeline, const Pass *pass)
{
  if (pass->judged && pipeline->rank->gate->found->go)
    RengaPipelineSpoil_Private(pipeline, pass->code);
}

/* The device has found what the host has: finite, and scale where it is. */
RengaErrorCode RengaPipelineCheckGate_Private(RengaPipeline pipeline, bool finite, double scale)
{
  const RengaGateFound *found = pipeline->rank->gate->found;
  const bool same = (found->go != 0) == finite && (!finite || found->scale == (float)scale);
  if (!same) RengaPipelineSpoil_Private(pipeline, RENGA_ERR_INTERNAL);
  RengaCheck(same, pipeline->hdr.comm, RENGA_ERR_INTERNAL,
             "the device %s step %lld with factor %.9g of its gradient, the host finds it %s with "
             "factor %.9g",
             found->go ? "has made" : "has not made", (long long)pipeline->step,
             (double)found->scale, finite ? "finite," : "not finite,", scale);
  return RENGA_SUCCESS;
}
