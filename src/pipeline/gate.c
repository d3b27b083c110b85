/* Updates that are queued before the host knows loss and norm of a step: the device, which has
   both, lets them pass or not, and the host, which finds the same later, only says what came of it.
   So the device does not idle between backward and update.

   Several ranks add up on their devices what each knows, where their transport can (nccl): losses
   of micro-batches and squares of gradients, or of the pieces of those that several replicas have.
   Each number has one writer, so that the sum is the host's whatever its order. All ranks take part
   in every step: one that has failed says so there, and all gates are shut. By other transports the
   host queues updates once it has the sum (entry/update.c). */
#include "updates.h"
#include "renga/private/op.h"
#include "renga/private/optimizer.h"
#include "renga/private/transport.h"
#include <stdlib.h>

struct _p_StepGate {
  RengaGate gate;           /* with the memory of: */
  RengaSquares *row;        /* pinned: [rows] in the order of the network's parameters */
  RengaSplitSquares *split; /* pinned: [splits], likewise */
  RengaGateFound *found;    /* pinned */
  int64_t most;             /* micro-batches that there is room for */
  int64_t *turn;            /* pinned: [most] */
  RengaEvent judged;        /* behind the gate, before updates */
};

static int CompareSquares(const void *one, const void *other)
{
  const int64_t a = ((const RengaSquares *)one)->place, b = ((const RengaSquares *)other)->place;
  return (a > b) - (a < b);
}

static int CountNorms(const Rank *rank)
{
  int count = 0;
  for (int c = 0; c < rank->n_chunks; c++) count += rank->chunk[c].updates->n_norms;
  return count;
}

/* The same on all ranks. Rules of the program compute on the host, and moments there are brought by
   it. */
bool RengaPipelineWantsGate_Private(RengaPipeline pipeline)
{
  return pipeline->outline->has_loss && RengaDeviceHasGate_Private(pipeline->device) &&
         !RengaOptimizerIsOutside_Private(pipeline->optimizer) &&
         !RengaSettingsOffloadsMoments_Private(pipeline->settings);
}

/* Once the ranks are connected, the same on all of them. */
static bool CanHaveGate(RengaPipeline pipeline)
{
  const Rank *rank = pipeline->rank;
  return RengaPipelineWantsGate_Private(pipeline) &&
         (RengaCommGetSize(rank->all) == 1 || RengaTransportSumsExact_Private(rank->transport));
}

/* pieces: [parameters of the network]; 0: a rank has all of them. Collective. */
static RengaErrorCode FindSplits(RengaPipeline pipeline, int64_t pieces[])
{
  const Rank *rank = pipeline->rank;
  RengaRequest request;
  for (int c = 0; c < rank->n_chunks; c++) {
    const UpdateTable *updates = rank->chunk[c].updates;
    for (int i = 0; i < updates->n_splits; i++)
      pieces[updates->split[i].number] = updates->split[i].pieces;
  }
  RengaCall(RengaCommStartLargest(rank->all, pipeline->outline->n_parameters, pieces, &request));
  RengaCall(RengaCommWait(rank->all, &request, "all ranks to say which gradients they share"));
  return RENGA_SUCCESS;
}

/* Behind the squares of gradients. */
static RengaErrorCode ListSplits(RengaPipeline pipeline, const int64_t pieces[])
{
  StepGate *made = pipeline->rank->gate;
  const int n = pipeline->outline->n_parameters;
  int64_t count = 0;
  for (int p = 0; p < n; p++) count += pieces[p] > 0;
  RengaCall(RengaDeviceHostMalloc(pipeline->device, (size_t)(count + 1) * sizeof *made->split,
                                  &made->split));
  RengaGate *gate = &made->gate;
  for (int p = 0; p < n; p++) {
    if (pieces[p] == 0) continue;
    made->split[gate->splits++] = (RengaSplitSquares){1 + n + gate->pieces, pieces[p], 1 + p};
    gate->pieces += pieces[p];
  }
  gate->split = made->split;
  gate->gradients = n;
  return RENGA_SUCCESS;
}

/* Of those of all ranks. */
static const RengaSplitSquares *SplitOf(const RengaGate *gate, int number)
{
  for (int64_t s = 0; s < gate->splits; s++)
    if (gate->split[s].place == 1 + number) return &gate->split[s];
  return NULL;
}

/* Of the chunk's own. */
static int64_t FirstPiece(const UpdateTable *updates, int number)
{
  for (int i = 0; i < updates->n_splits; i++)
    if (updates->split[i].number == number) return updates->split[i].first;
  return 0;
}

static void ListGateRows(const UpdateTable *updates, RengaGate *gate, RengaSquares row[])
{
  const double *square = updates->square;
  for (int i = 0; i < updates->n_norms; i++) {
    const int number = updates->number[i];
    const int64_t pieces = RengaVectorPieces(updates->gradient[i].count);
    const bool whole = updates->place[i] < 0;
    RengaSquares *next = &row[gate->rows++];
    *next = (RengaSquares){square, pieces, 1 + number, whole};
    if (!whole)
      next->place = SplitOf(gate, number)->first + updates->place[i] - FirstPiece(updates, number);
    square += pieces;
  }
}

static RengaErrorCode ListSquares(RengaPipeline pipeline)
{
  const Rank *rank = pipeline->rank;
  StepGate *made = rank->gate;
  RengaCall(RengaDeviceHostMalloc(pipeline->device,
                                  (size_t)(CountNorms(rank) + 1) * sizeof *made->row, &made->row));
  for (int c = 0; c < rank->n_chunks; c++)
    ListGateRows(rank->chunk[c].updates, &made->gate, made->row);
  qsort(made->row, (size_t)made->gate.rows, sizeof *made->row, CompareSquares);
  made->gate.row = made->row;
  return RENGA_SUCCESS;
}

/* For a step of so many micro-batches. */
static RengaErrorCode MakeGateRoom(RengaPipeline pipeline, int64_t microbatches)
{
  StepGate *made = pipeline->rank->gate;
  RengaGate *gate = &made->gate;
  const int64_t n_values = 1 + gate->gradients + gate->pieces + microbatches;
  if (microbatches > made->most) {
    made->most = 0;
    gate->turn = NULL;
    if (made->turn) RengaCall(RengaDeviceHostFree(pipeline->device, &made->turn));
    RengaCall(RengaDeviceHostMalloc(pipeline->device, (size_t)microbatches * sizeof *made->turn,
                                    &made->turn));
    made->most = microbatches;
    gate->turn = made->turn;
  }
  RengaCall(RengaDeviceReserveGate_Private(pipeline->device, n_values, &gate->values));
  gate->losses = microbatches;
  gate->n_values = n_values;
  return RENGA_SUCCESS;
}

/* What may take long the first time: of a step of the plan's batch. */
static RengaErrorCode SumFirst(RengaPipeline pipeline)
{
  const RengaGate *gate = &pipeline->rank->gate->gate;
  RengaErrorCode code = RengaDeviceSetBytes(pipeline->device, NULL, gate->values, 0,
                                            (size_t)gate->n_values * sizeof *gate->values);
  if (!code) code = RengaPipelineAwaitDevice_Private(pipeline);
  RengaCall(RengaErrorAgree(pipeline->hdr.comm, code));
  RengaCall(
      RengaTransportSumExact_Private(pipeline->rank->transport, gate->n_values, gate->values));
  RengaCall(RengaPipelineAwaitDevice_Private(pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode FillGate(RengaPipeline pipeline, const int64_t pieces[])
{
  StepGate *made = pipeline->rank->gate;
  RengaCall(RengaEventCreate(pipeline->device, &made->judged));
  RengaCall(RengaDeviceHostMalloc(pipeline->device, sizeof *made->found, &made->found));
  made->gate.found = made->found;
  RengaCall(ListSplits(pipeline, pieces));
  RengaCall(ListSquares(pipeline));
  RengaCall(MakeGateRoom(pipeline, RengaOutlineMostMicrobatches_Private(pipeline->outline)));
  return RENGA_SUCCESS;
}

/* Collective, once the tables of updates are there. */
RengaErrorCode RengaPipelineMakeGate_Private(RengaPipeline pipeline)
{
  MPI_Comm comm = pipeline->hdr.comm;
  Rank *rank = pipeline->rank;
  int64_t *pieces = NULL;
  if (!CanHaveGate(pipeline)) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(1, &rank->gate);
  if (!code) code = RengaMalloc(pipeline->outline->n_parameters + 1, &pieces);
  code = RengaErrorAgree(comm, code);
  if (!code) code = FindSplits(pipeline, pieces);
  if (!code) code = RengaErrorAgree(comm, FillGate(pipeline, pieces));
  if (!code && RengaCommGetSize(rank->all) > 1) code = SumFirst(pipeline);
  RengaFree(&pieces);
  RengaCall(code);
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
  if (made->split)
    RengaKeepFirst_Private(&code, RengaDeviceHostFree(pipeline->device, &made->split));
  if (made->turn) RengaKeepFirst_Private(&code, RengaDeviceHostFree(pipeline->device, &made->turn));
  RengaFree(&pipeline->rank->gate);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The chunk that has the losses of the step, and gives them. */
static const Chunk *ChunkWithLoss(const Rank *rank)
{
  for (int c = 0; c < rank->n_chunks; c++)
    if (rank->chunk[c].loss->value != RENGA_VALUE_NONE && RengaChunkSpeaks_Private(&rank->chunk[c]))
      return &rank->chunk[c];
  return NULL;
}

/* Before a step: which losses this rank has. */
RengaErrorCode RengaPipelinePrepareGate_Private(RengaPipeline pipeline, const Pass *pass)
{
  StepGate *made = pipeline->rank->gate;
  const Chunk *chunk = ChunkWithLoss(pipeline->rank);
  if (!made) return RENGA_SUCCESS;
  RengaCall(MakeGateRoom(pipeline, pass->microbatches));
  made->gate.own = chunk ? chunk->portion->last - chunk->portion->first : 0;
  made->gate.loss = chunk ? chunk->portion->taken.loss : NULL;
  for (int64_t i = 0; i < made->gate.own; i++)
    made->turn[i] = RengaPassTurn_Private(pass, chunk->portion->first + i);
  return RENGA_SUCCESS;
}

/* What this rank knows, or that it has failed, and the sum. */
static RengaErrorCode ShareValues(RengaPipeline pipeline, const Pass *pass)
{
  const Rank *rank = pipeline->rank;
  RengaGate gate = rank->gate->gate;
  gate.failed = pass->failed;
  if (pass->failed) gate.rows = gate.own = 0;
  RengaCall(RengaDeviceShareGate_Private(pipeline->device, &gate));
  if (RengaCommGetSize(rank->all) > 1)
    RengaCall(RengaTransportSumExact_Private(rank->transport, gate.n_values, gate.values));
  return RENGA_SUCCESS;
}

static RengaErrorCode QueueGate(RengaPipeline pipeline)
{
  StepGate *made = pipeline->rank->gate;
  made->found->go = true; /* until the device has found something */
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

static RengaErrorCode QueueGateAndUpdates(RengaPipeline pipeline, Pass *pass)
{
  RengaErrorCode code = QueueGate(pipeline);
  if (!code) pass->judged = pipeline->rank->gate->judged;
  if (!code && pipeline->rank->n_chunks > 0) code = QueueBehindGate(pipeline);
  RengaKeepFirst_Private(&code, RengaDeviceSetGate_Private(pipeline->device, NULL));
  if (code && (pass->judged || RengaCommGetSize(pipeline->rank->all) > 1))
    RengaPipelineSpoil_Private(pipeline, code); /* others have made the step, or this rank half */
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Once norms are queued, of a pass that has failed too; pass->judged: it was done. After an error
   here some parameters may have changed. Fails only where messages are left under way. */
RengaErrorCode RengaPipelineUpdateAhead_Private(RengaPipeline pipeline, Pass *pass)
{
  RengaErrorCode code;
  int attempt = 0;
  if (!pipeline->rank->gate) return RENGA_SUCCESS;
  if (pass->failed && RengaCommGetSize(pipeline->rank->all) == 1) return RENGA_SUCCESS;
  do code = ShareValues(pipeline, pass);
  while (RengaPipelineTryAgain_Private(pipeline, pass, code, &attempt));
  RengaCall(code);
  if (pass->failed) return RENGA_SUCCESS;
  RengaCall(RengaPipelineNote_Private(pipeline, pass, QueueGateAndUpdates(pipeline, pass)));
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
