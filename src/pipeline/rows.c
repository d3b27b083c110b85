/* Tables whose gradient is a list of rows: which they are, and what memory they take.

   A table that one node gathers rows of, and nothing else reads, has no gradient but in these rows.
   With -optimizer_sparse lazy or exact (RengaOptimizerSetSparse) it has no place in the gradient
   vector: each micro-batch of the step has a *slot* for the numbers of the rows that it read and
   the gradients of these positions, where else GatherGrad would add them up. Behind the last
   backward the replicas give each other their slots, and each adds up all of them, row by row, in
   the order of the tree (rowsums.c). Which tables these are follows from network and batch, never
   from the layout.

   A leaf that did not read a row adds nothing to it. Sums begin at +0 and so are never -0, to which
   alone adding 0 makes a difference: the row's gradient has the bits that it has in the whole
   vector. */
#include "rows.h"
#include "renga/private/device.h"
#include "renga/private/op.h"
#include "renga/private/optimizer.h"
#include <string.h>

/* Needs the batch. */
RengaErrorCode RengaOutlineMarkRows_Private(Outline *outline)
{
  RengaCall(RengaOptimizerGetSparse(outline->settings->optimizer, &outline->sparse));
  if (!outline->has_loss) return RENGA_SUCCESS;
  RengaCall(RengaSettingsFindTables_Private(outline->settings, outline->graph, outline->batch[0],
                                            &outline->tables));
  return RENGA_SUCCESS;
}

/* The settings and the network can be trained so. */
RengaErrorCode RengaPipelineCheckRows_Private(RengaPipeline pipeline)
{
  const char *device;
  RengaSparse mode;
  RengaPrecision precision;
  RengaCall(RengaOptimizerGetSparse(pipeline->optimizer, &mode));
  if (mode == RENGA_SPARSE_OFF) return RENGA_SUCCESS;
  RengaCall(RengaGraphGetPrecision(pipeline->graph, &precision));
  RengaCall(RengaDeviceGetType(pipeline->device, &device));
  RengaCheck(!RengaPrecisionIsNarrow_Private(precision), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "-optimizer_sparse %s updates rows of float32 tables; -precision is %s: use fp32 or "
             "tf32, or -optimizer_sparse off",
             RengaSparseName(mode), RengaPrecisionName(precision));
  RengaCheck(RengaDeviceHasRows_Private(pipeline->device), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "-optimizer_sparse %s is not supported on a device of type %s, which has no updates "
             "of rows: use -device_type cpu, or -optimizer_sparse off",
             RengaSparseName(mode), device);
  return RENGA_SUCCESS;
}

/* Memory was laid out for what the optimizer says now. */
RengaErrorCode RengaPipelineCheckLazy_Private(RengaPipeline pipeline)
{
  RengaSparse mode;
  RengaCall(RengaOptimizerGetSparse(pipeline->optimizer, &mode));
  RengaCheck(pipeline->outline->sparse == mode, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "-optimizer_sparse is %s now, and memory is laid out otherwise: call "
             "RengaPipelineReset and RengaPipelineSetUp",
             RengaSparseName(mode));
  return RENGA_SUCCESS;
}

/* The list of a use of a parameter whose gradient GatherGrad would make. */
static RengaErrorCode DescribeList(const Chunk *chunk, int p, RengaValue gradient, RowList *list)
{
  const RengaTensorSpec *table = &RengaGraphGetValue(chunk->sub, chunk->parameter[p].value)->spec;
  const int producer = RengaGraphGetValue(chunk->sub, gradient)->producer;
  const RengaGraphNode *node = producer < 0 ? NULL : RengaGraphGetNode(chunk->sub, producer);
  RengaCheck(node && strcmp(node->op->name, "GatherGrad") == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "the gradient of %s is made by %s", chunk->parameter[p].name,
             node ? node->op->name : "no node");
  const RengaTensorSpec *numbers = &RengaGraphGetValue(chunk->sub, node->in[1])->spec;
  *list = (RowList){.parameter = p,
                    .gradients = node->in[0],
                    .numbers = node->in[1],
                    .width = chunk->parameter[p].count / table->dim[0],
                    .length = table->dim[0],
                    .padding = RengaAttributesInt(&node->attributes, "padding", -1),
                    .wide = numbers->type == RENGA_INT64};
  return RENGA_SUCCESS;
}

/* Of the parameters that are trained. */
RengaErrorCode RengaChunkFindRows_Private(Chunk *chunk)
{
  RowLists *rows = chunk->rows;
  if (!chunk->outline->tables) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(chunk->n_parameters + 1, &rows->row));
  for (int p = 0; p < chunk->n_parameters; p++) {
    Parameter *parameter = &chunk->parameter[p];
    if (!parameter->trained || !chunk->outline->tables[parameter->whole]) continue;
    for (int u = 0; u < chunk->uses->count; u++)
      if (chunk->uses->row[u].parameter == parameter->value)
        RengaCall(DescribeList(chunk, p, chunk->uses->row[u].gradient, &rows->row[rows->count++]));
    parameter->sparse = true;
  }
  return RENGA_SUCCESS;
}

/* Positions of the list in a micro-batch of so many samples. */
static int64_t PositionsOf(const Chunk *chunk, const RowList *list, int64_t samples)
{
  const RengaTensorSpec spec =
      RengaTensorSpecAt(&RengaGraphGetValue(chunk->sub, list->numbers)->spec, samples);
  return RengaTensorSpecCount(&spec);
}

static int64_t NumberBytes(const RowList *list, int64_t positions)
{
  return positions * (int64_t)RengaDataTypeSize(list->wide ? RENGA_INT64 : RENGA_INT32);
}

static int64_t TakeBytes(int64_t *next, int64_t bytes)
{
  const int64_t at = *next;
  *next += RengaAlign_Private(bytes);
  return at;
}

/* Places in a slot, and behind all slots of the most micro-batches of a step. */
void RengaChunkPlaceRows_Private(Chunk *chunk)
{
  RowLists *rows = chunk->rows;
  ChunkSizes *sizes = chunk->sizes;
  int64_t most = 0, positions = 0;
  sizes->row_slot_bytes = sizes->row_bytes = 0;
  for (int i = 0; i < chunk->outline->n_batches; i++) {
    const int64_t all = RengaPlanMicrobatches(chunk->outline->plan, chunk->outline->batch[i]);
    if (all > most) most = all;
  }
  rows->slots = most;
  for (int l = 0; l < rows->count; l++) {
    RowList *list = &rows->row[l];
    list->rows = PositionsOf(chunk, list, chunk->outline->microbatch);
    list->gradients_at =
        TakeBytes(&sizes->row_slot_bytes, list->rows * list->width * (int64_t)sizeof *list->sum);
    list->numbers_at = TakeBytes(&sizes->row_slot_bytes, NumberBytes(list, list->rows));
    if (most * list->rows > positions) positions = most * list->rows;
  }
  TakeBytes(&sizes->row_bytes, most * sizes->row_slot_bytes);
  for (int l = 0; l < rows->count; l++) {
    RowList *list = &rows->row[l];
    const int64_t all = most * list->rows;
    list->index_at = TakeBytes(&sizes->row_bytes, all * (int64_t)sizeof *list->index);
    list->count_at = TakeBytes(&sizes->row_bytes, (int64_t)sizeof *list->count);
    list->sum_at = TakeBytes(&sizes->row_bytes, all * list->width * (int64_t)sizeof *list->sum);
  }
  rows->work_at = TakeBytes(&sizes->row_bytes, 2 * positions * (int64_t)sizeof(uint64_t));
}

/* bounds: [replicas + 1] elements of the slots of a step of so many micro-batches. */
static RengaErrorCode MakeRowBlocks(const Chunk *chunk, int64_t microbatches, RengaBlocks *blocks)
{
  const int64_t slot = chunk->sizes->row_slot_bytes / (int64_t)RengaDataTypeSize(RENGA_FLOAT32);
  int64_t *begin;
  RengaCall(RengaMalloc(microbatches + chunk->replicas + 2, &begin));
  int64_t *bounds = begin + microbatches + 1;
  for (int64_t m = 0; m <= microbatches; m++) begin[m] = m * slot;
  for (int r = 0; r <= chunk->replicas; r++)
    bounds[r] = slot * RengaPlanLeafBound(microbatches, chunk->outline->leaf, chunk->replicas, r);
  RengaErrorCode code = RengaBlocksCreate(chunk->replicas, microbatches, begin, blocks);
  if (!code) code = RengaBlocksSetBounds(*blocks, bounds);
  if (code) RengaBlocksDestroy(blocks);
  RengaFree(&begin);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The convoy has room for the batches that are known. */
static RengaErrorCode MakeRowConvoy(Chunk *chunk)
{
  RowLists *rows = chunk->rows;
  for (int i = 0; i < chunk->outline->n_batches; i++) {
    RengaBlocks blocks = NULL;
    size_t room;
    RengaCall(MakeRowBlocks(
        chunk, RengaPlanMicrobatches(chunk->outline->plan, chunk->outline->batch[i]), &blocks));
    const int places = RengaCommGatherPlaces(chunk->group, blocks, RENGA_FLOAT32, &room);
    RengaCall(RengaBlocksDestroy(&blocks));
    if (places > rows->places) rows->places = places;
    if (room > rows->room) rows->room = room;
  }
  RengaCall(RengaConvoyCreate_Private(chunk->pipeline->rank->transport, chunk->group, rows->places,
                                      rows->room, &rows->convoy));
  return RENGA_SUCCESS;
}

/* base: the chunk's part of the arena for them. */
RengaErrorCode RengaChunkSetUpRows_Private(Chunk *chunk, char *base)
{
  RowLists *rows = chunk->rows;
  rows->base = base;
  if (rows->count == 0) return RENGA_SUCCESS;
  for (int l = 0; l < rows->count; l++) {
    RowList *list = &rows->row[l];
    list->index = (int64_t *)(void *)(base + list->index_at);
    list->count = (int64_t *)(void *)(base + list->count_at);
    list->sum = (float *)(void *)(base + list->sum_at);
  }
  RengaCall(RengaDeviceSetBytes(chunk->device, NULL, base, 0, (size_t)chunk->sizes->row_bytes));
  RengaCall(RengaDeviceHostMalloc(chunk->device, (size_t)rows->count * sizeof *rows->square,
                                  &rows->square));
  if (chunk->replicas > 1) RengaCall(MakeRowConvoy(chunk));
  return RENGA_SUCCESS;
}

static bool RowMessagesFit(const Chunk *chunk)
{
  const RowLists *rows = chunk->rows;
  size_t bytes;
  if (!rows->convoy || !RengaConvoyGetCarrier_Private(rows->convoy).reserve) return true;
  const int count = RengaCommGatherPlaces(chunk->group, rows->blocks, RENGA_FLOAT32, &bytes);
  return count <= rows->places && (size_t)count * bytes <= (size_t)rows->places * rows->room;
}

/* Of a step of so many samples: who has which slots. */
RengaErrorCode RengaChunkPrepareRows_Private(Chunk *chunk, int64_t microbatches, int64_t samples)
{
  RowLists *rows = chunk->rows;
  const int64_t size = chunk->outline->microbatch, last = samples - (microbatches - 1) * size;
  rows->begun = false;
  if (rows->count == 0) return RENGA_SUCCESS;
  if (microbatches != rows->used) {
    rows->used = 0;
    RengaCall(RengaBlocksDestroy(&rows->blocks));
    RengaCall(MakeRowBlocks(chunk, microbatches, &rows->blocks));
    rows->used = microbatches;
  }
  for (int l = 0; l < rows->count; l++)
    rows->row[l].last_rows = PositionsOf(chunk, &rows->row[l], last);
  const bool fits = microbatches <= rows->slots && RowMessagesFit(chunk);
  RengaCheck(fits, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a step of %lld samples has more rows of tables than was planned for: announce it "
             "with RengaPipelineSetDataShortBatch before RengaPipelineSetUp",
             (long long)samples);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChunkFreeRows_Private(Chunk *chunk)
{
  RowLists *rows = chunk->rows;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCommSumCancel(&rows->gather, "ranks to give up the rows of their tables");
  RengaKeepFirst_Private(&code, RengaConvoyDestroy_Private(&rows->convoy));
  RengaKeepFirst_Private(&code, RengaBlocksDestroy(&rows->blocks));
  if (rows->square)
    RengaKeepFirst_Private(&code, RengaDeviceHostFree(chunk->device, &rows->square));
  RengaFree(&rows->row);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetRows - whether a parameter is updated by the rows that steps read

   Not collective; the same on all ranks

   Input:
   . pipeline - the pipeline, set up
   . parameter - its name in the network

   Output:
   . rows - the most rows of it that a step of the plan's batch reads, each time counted. 0: a step
     updates all of it, or nothing where it is frozen

   Errors: RENGA_ERR_ORDER before RengaPipelineSetUp; RENGA_ERR_ARGUMENT for a parameter that there
   is not.

   See also: RengaOptimizerSetSparse()
@*/
RengaErrorCode RengaPipelineGetRows(RengaPipeline pipeline, const char *parameter, int64_t *rows)
{
  RengaCheckPointers(pipeline, parameter, rows);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  const Outline *outline = pipeline->outline;
  const RengaValue value = RengaGraphFindValue(outline->graph, parameter);
  RengaCheck(value != RENGA_VALUE_NONE &&
                 RengaGraphGetValue(outline->graph, value)->kind == RENGA_VALUE_PARAMETER,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "the network has no parameter %s", parameter);
  double rate_scale, weight_decay;
  bool frozen;
  RengaCall(RengaOptimizerGetGroup(outline->settings->optimizer, parameter, &rate_scale,
                                   &weight_decay, &frozen));
  const int gather = outline->tables && !frozen ? outline->tables[value] : 0;
  *rows = gather == 0 ? 0
                      : RengaTablePositions_Private(outline->graph,
                                                    RengaGraphGetNode(outline->graph, gather - 1),
                                                    outline->batch[0]);
  return RENGA_SUCCESS;
}
