/* Tensors that live across steps: their first values and their list. */
#include "gradients.h"
#include "updates.h"
#include "renga/private/rectangle.h"
#include <string.h>

enum { PIECE = 1 << 16 }; /* elements made at a time where device memory is not the host's */

/* Elements [first, first + count) of a value of the network, kept as a type. */
static RengaErrorCode FillRun(const Chunk *chunk, RengaValue whole, int64_t first, int64_t count,
                              RengaDataType type, char *to, float *piece)
{
  const Outline *outline = chunk->outline;
  const uint64_t seed = (uint64_t)outline->settings->seed;
  const size_t size = RengaDataTypeSize(type);
  if (!piece) {
    RengaCall(
        RengaGraphInitializeValue(outline->graph, whole, seed, first, count, (float *)(void *)to));
    return RENGA_SUCCESS;
  }
  for (int64_t at = 0; at < count; at += PIECE) {
    const int64_t part = count - at < PIECE ? count - at : PIECE;
    RengaCall(RengaGraphInitializeValue(outline->graph, whole, seed, first + at, part, piece));
    RengaCall(RengaDataNarrow(type, part, piece, piece));
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_HOST_TO_DEVICE, to + (size_t)at * size,
                              piece, (size_t)part * size));
    RengaCall(RengaPipelineAwaitDevice_Private(chunk->pipeline)); /* the piece is used again */
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FillRuns(const Chunk *chunk, const RengaPersistent *row, float *piece)
{
  const RengaValue whole = RengaGraphFindValue(chunk->outline->graph, row->name);
  const RengaRuns runs = RengaRunsOf(&row->spec, &row->part);
  const size_t bytes = (size_t)runs.length * RengaDataTypeSize(row->spec.type);
  for (int64_t r = 0; r < runs.count; r++)
    RengaCall(FillRun(chunk, whole, RengaRunsAt(&runs, r), runs.length, row->spec.type,
                      (char *)row->data + (size_t)r * bytes, piece));
  return RENGA_SUCCESS;
}

/* The first values of what is here of a parameter's master or a state. They are made as float32,
   which both are in every precision but where a frozen parameter has 16 bits alone. */
static RengaErrorCode FillHeldPart(const Chunk *chunk, const RengaPersistent *row)
{
  float *piece = NULL;
  if (!RengaDeviceIsHost(chunk->device) || row->spec.type != RENGA_FLOAT32)
    RengaCall(RengaMalloc(PIECE, &piece));
  const RengaErrorCode code = FillRuns(chunk, row, piece);
  RengaFree(&piece);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillConstants(const Chunk *chunk)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(chunk->sub); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, v);
    if (value->kind == RENGA_VALUE_CONSTANT)
      RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_HOST_TO_DEVICE,
                                chunk->at->persistent + chunk->value_place[v].offset, value->data,
                                RengaTensorSpecBytes(&value->spec)));
  }
  return RENGA_SUCCESS;
}

/* Constants and zero moments. */
static RengaErrorCode ClearChunk(const Chunk *chunk)
{
  RengaCall(RengaDeviceSetBytes(chunk->device, NULL, chunk->at->persistent, 0,
                                (size_t)chunk->sizes->persistent_bytes));
  if (chunk->memory->bytes.optimizer > 0)
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, chunk->at->moments, 0,
                                  (size_t)chunk->memory->bytes.optimizer));
  if (chunk->memory->own > 0 && chunk->at->masters)
    RengaCall(RengaDeviceSetBytes(
        chunk->device, NULL, chunk->at->masters, 0,
        (size_t)RengaChunkRoleBytes_Private(chunk, ROLE_MASTER, chunk->memory->own)));
  RengaCall(FillConstants(chunk));
  return RENGA_SUCCESS;
}

/* row: all but the name, which is made of that of a value of the network and of a moment. */
static RengaErrorCode AppendPersistent(Persistents *list, const char *name, const char *moment,
                                       RengaPersistent row)
{
  const size_t size = strlen(name) + (moment ? strlen(moment) : 0) + 2;
  char *full;
  RengaCall(RengaMalloc(size, &full));
  snprintf(full, size, moment ? "%s:%s" : "%s", name, moment ? moment : "");
  row.name = full;
  list->row[list->count++] = row;
  return RENGA_SUCCESS;
}

/* The parts of the whole that a replica has of a parameter in a role, which its vector has one
   after the other. */
RengaErrorCode RengaChunkCutParts_Private(const Chunk *chunk, const Parameter *parameter,
                                          ParameterRole role, int *count, RengaRectangle part[])
{
  const RengaTensorSpec *spec = &RengaGraphGetValue(chunk->sub, parameter->value)->spec;
  *count = 1;
  part[0] = parameter->part;
  if (!RengaChunkHoldsShare_Private(chunk, parameter, role)) return RENGA_SUCCESS;
  RengaCall(
      RengaRectanglesOfRange(spec, parameter->from, parameter->to - parameter->from, count, part));
  for (int i = 0; i < *count; i++)
    for (int d = 0; d < spec->ndim; d++) part[i].start[d] += parameter->part.start[d];
  return RENGA_SUCCESS;
}

/* What lives across steps of a parameter is its master, and, unless it is frozen, the moments: a
   rank has the whole of each parameter of its stages, or its replica's share, which no other rank
   has. */
static RengaErrorCode AppendRole(Rank *rank, const Chunk *chunk, const Parameter *parameter,
                                 ParameterRole role)
{
  RengaRectangle part[RENGA_RANGE_RECTANGLES];
  int count;
  const RengaVector vector = RengaChunkVectorOf_Private(chunk, parameter, role);
  RengaPersistent row = {.spec = RengaGraphGetValue(chunk->outline->graph, parameter->whole)->spec,
                         .data = vector.data,
                         .host = role >= ROLE_MOMENT && chunk->updates->offload.host,
                         .owner = parameter->owner ||
                                  RengaChunkHoldsShare_Private(chunk, parameter, role)};
  row.spec.type = vector.type;
  RengaCall(RengaChunkCutParts_Private(chunk, parameter, role, &count, part));
  for (int i = 0; i < count; i++) {
    row.part = part[i];
    RengaCall(AppendPersistent(&rank->persistents, parameter->name,
                               role < ROLE_MOMENT ? NULL : rank->moment[role - ROLE_MOMENT], row));
    row.data = (char *)row.data + RengaPersistentGetBytes(&row);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListParameter(Rank *rank, const Chunk *chunk, const Parameter *parameter)
{
  const int before = rank->persistents.count;
  RengaCall(AppendRole(rank, chunk, parameter, ROLE_MASTER));
  for (int t = before; t < rank->persistents.count; t++)
    RengaCall(FillHeldPart(chunk, &rank->persistents.row[t]));
  for (int m = 0; m < rank->n_moments && !parameter->frozen; m++)
    RengaCall(AppendRole(rank, chunk, parameter, (ParameterRole)(ROLE_MOMENT + m)));
  return RENGA_SUCCESS;
}

/* A state belongs to the first stage that holds it; states are small: replica 0 writes them. */
static bool OwnsState(const Chunk *chunk, RengaValue whole)
{
  const Outline *outline = chunk->outline;
  int first = chunk->stage;
  for (int n = RengaGraphGetNodeCount(outline->graph) - 1; n >= 0; n--) {
    const RengaGraphNode *node = RengaGraphGetNode(outline->graph, n);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] == whole) first = RengaPlanStageOfNode(outline->plan, n);
  }
  return first == chunk->stage && chunk->replica == 0 && RengaChunkSpeaks_Private(chunk);
}

/* What a lane has of a state is a part of it. */
static RengaErrorCode ListState(Rank *rank, const Chunk *chunk, int s)
{
  RengaGraph graph = chunk->outline->graph;
  const char *name = RengaGraphGetValue(chunk->sub, chunk->states->value[s])->name;
  const RengaValue number = RengaGraphFindValue(graph, name);
  const RengaGraphValue *state = RengaGraphGetValue(graph, number), *whole = state;
  if (state->cache) return RENGA_SUCCESS;
  RengaPersistent row = {.data = chunk->at->persistent + chunk->states->offset[s],
                         .owner = OwnsState(chunk, number),
                         .state = true};
  if (state->whole != RENGA_VALUE_NONE) whole = RengaGraphGetValue(graph, state->whole);
  row.spec = whole->spec;
  RengaCall(RengaRectangleWhole(&state->spec, &row.part));
  if (whole != state) row.part.start[0] = state->first;
  RengaCall(AppendPersistent(&rank->persistents, whole->name, NULL, row));
  RengaCall(FillHeldPart(chunk, &rank->persistents.row[rank->persistents.count - 1]));
  return RENGA_SUCCESS;
}

/* Parameters and moments of all chunks, then their states, with their first values. */
static RengaErrorCode ListAllPersistents(Rank *rank)
{
  int count = 0;
  for (int c = 0; c < rank->n_chunks; c++) {
    count += rank->chunk[c].states->count;
    for (int p = 0; p < rank->chunk[c].n_parameters; p++)
      count += (1 + rank->n_moments) *
               (rank->chunk[c].parameter[p].sharded ? RENGA_RANGE_RECTANGLES : 1);
  }
  RengaCall(RengaMalloc(count + 1, &rank->persistents.row));
  for (int c = 0; c < rank->n_chunks; c++)
    for (int p = 0; p < rank->chunk[c].n_parameters; p++)
      RengaCall(ListParameter(rank, &rank->chunk[c], &rank->chunk[c].parameter[p]));
  for (int c = 0; c < rank->n_chunks; c++)
    for (int s = 0; s < rank->chunk[c].states->count; s++)
      RengaCall(ListState(rank, &rank->chunk[c], s));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineSetUpPersistents_Private(RengaPipeline pipeline)
{
  for (int c = 0; c < pipeline->rank->n_chunks; c++)
    RengaCall(ClearChunk(&pipeline->rank->chunk[c]));
  RengaCall(ListAllPersistents(pipeline->rank));
  pipeline->rank->rewritten = true;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetPersistents - the tensors of this rank that live across steps

   Input:
   . pipeline - the pipeline, set up

   Output:
   . count - number of tensors; 0 on an idle rank
   . tensors - parameters, moments ("NAME:first_moment") and states of this rank's stage, lent

   Errors: RENGA_ERR_ORDER before set-up, and after an error that left the pipeline broken; where
   parameters of a sharded stage do not come, what ends their gather: the pipeline can only be
   destroyed then.

   Notes: after a step of a sharded stage it waits for parameters that other replicas have updated,
   which come while those are in a call of Renga: all of them ask, or call something collective.
   Of a sharded stage a rank has parts of tensors, each a row of the list. Over all ranks
   each element of a name has one owner, which writes it to checkpoints. Who writes to data does so
   on all ranks that hold it, before the next step or evaluation, and asks for the list again when
   it writes again: parameters that are kept in 16 bits are then rounded from what is written here.
   All are float32 but frozen parameters of a network in 16 bits, which are kept in these alone, as
   the type of their spec says.

   See also: RengaPipelineGetParameter(), RengaPipelineGetDigest()
@*/
RengaErrorCode RengaPipelineGetPersistents(RengaPipeline pipeline, int *count,
                                           const RengaPersistent **tensors)
{
  RengaCall(RengaPipelineCheckReady_Private(pipeline, __func__));
  RengaCheckPointers(count, tensors);
  RengaCall(RengaPipelineEndShares_Private(pipeline));
  pipeline->rank->rewritten = true;
  *count = pipeline->rank->persistents.count;
  *tensors = pipeline->rank->persistents.row;
  return RENGA_SUCCESS;
}
