/* Tensors that live across steps: their first values and their list. */
#include "pipelineimpl.h"
#include <string.h>

enum { PIECE = 1 << 16 }; /* elements made at a time where device memory is not the host's */

static RengaErrorCode FillByPieces(const Chunk *chunk, RengaValue whole, int64_t count, float *to,
                                   float *piece)
{
  const Outline *outline = chunk->outline;
  for (int64_t first = 0; first < count; first += PIECE) {
    const int64_t part = count - first < PIECE ? count - first : PIECE;
    RengaCall(RengaGraphInitializeValue(outline->graph, whole, (uint64_t)outline->settings->seed,
                                        first, part, piece));
    RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_HOST_TO_DEVICE, to + first, piece,
                              (size_t)part * sizeof(float)));
    RengaCall(RengaStreamSynchronize(chunk->device, NULL)); /* the piece is used again */
  }
  return RENGA_SUCCESS;
}

/* The first values of a parameter or state. */
static RengaErrorCode FillTensor(const Chunk *chunk, const char *name, int64_t count, float *to)
{
  const Outline *outline = chunk->outline;
  const RengaValue whole = RengaGraphFindValue(outline->graph, name);
  if (RengaDeviceIsHost(chunk->device)) {
    RengaCall(RengaGraphInitializeValue(outline->graph, whole, (uint64_t)outline->settings->seed, 0,
                                        count, to));
    return RENGA_SUCCESS;
  }
  float *piece;
  RengaCall(RengaMalloc(PIECE, &piece));
  const RengaErrorCode code = FillByPieces(chunk, whole, count, to, piece);
  RengaFree(&piece);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static float *ParameterAt(const Chunk *chunk, const Parameter *parameter)
{
  return (float *)chunk->at.persistent + parameter->offset;
}

static float *StateAt(const Chunk *chunk, int state)
{
  return (float *)(chunk->at.persistent + chunk->states.offset[state]);
}

static RengaErrorCode FillConstants(const Chunk *chunk)
{
  for (RengaValue v = 0; v < RengaGraphGetValueCount(chunk->sub); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, v);
    if (value->kind == RENGA_VALUE_CONSTANT)
      RengaCall(RengaDeviceCopy(chunk->device, NULL, RENGA_HOST_TO_DEVICE,
                                chunk->at.persistent + chunk->value_place[v].offset, value->data,
                                RengaTensorSpecBytes(&value->spec)));
  }
  return RENGA_SUCCESS;
}

/* First values of parameters and states; constants; zero moments. */
static RengaErrorCode FillChunk(const Chunk *chunk)
{
  RengaCall(RengaDeviceSetBytes(chunk->device, NULL, chunk->at.persistent, 0,
                                (size_t)chunk->sizes.persistent_bytes));
  if (chunk->memory.optimizer > 0)
    RengaCall(RengaDeviceSetBytes(chunk->device, NULL, chunk->at.moments, 0,
                                  (size_t)chunk->memory.optimizer));
  for (int p = 0; p < chunk->n_parameters; p++)
    RengaCall(FillTensor(chunk, chunk->parameter[p].name, chunk->parameter[p].count,
                         ParameterAt(chunk, &chunk->parameter[p])));
  for (int s = 0; s < chunk->states.count; s++) {
    const RengaGraphValue *state = RengaGraphGetValue(chunk->sub, chunk->states.value[s]);
    RengaCall(
        FillTensor(chunk, state->name, RengaTensorSpecCount(&state->spec), StateAt(chunk, s)));
  }
  RengaCall(FillConstants(chunk));
  return RENGA_SUCCESS;
}

/* row: all but the name, which is made of that of a value of the network and of a moment. */
static RengaErrorCode AppendPersistent(Persistents *list, const char *name, const char *moment,
                                       RengaPersistent row, int number)
{
  const size_t size = strlen(name) + (moment ? strlen(moment) : 0) + 2;
  char *full;
  RengaCall(RengaMalloc(size, &full));
  snprintf(full, size, moment ? "%s:%s" : "%s", name, moment ? moment : "");
  row.name = full;
  list->row[list->count] = row;
  list->number[list->count++] = number;
  return RENGA_SUCCESS;
}

static RengaErrorCode ListParameter(Rank *rank, const Chunk *chunk, const Parameter *parameter)
{
  RengaPersistent row = {.spec = RengaGraphGetValue(chunk->sub, parameter->value)->spec,
                         .data = ParameterAt(chunk, parameter),
                         .owner = parameter->owner};
  const int number = parameter->number * (1 + rank->n_moments);
  RengaCall(AppendPersistent(&rank->persistents, parameter->name, NULL, row, number));
  for (int m = 0; m < rank->n_moments; m++) {
    row.data = (float *)chunk->at.moments + m * chunk->sizes.parameter_count + parameter->offset;
    RengaCall(AppendPersistent(&rank->persistents, parameter->name, rank->moment[m], row,
                               number + 1 + m));
  }
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
  return first == chunk->stage && chunk->replica == 0;
}

/* States of the network before this value. */
static int CountStates(RengaGraph graph, RengaValue before)
{
  int count = 0;
  for (RengaValue v = 0; v < before; v++)
    count += RengaGraphGetValue(graph, v)->kind == RENGA_VALUE_STATE;
  return count;
}

static RengaErrorCode ListState(Rank *rank, const Chunk *chunk, int s)
{
  const Outline *outline = chunk->outline;
  const RengaGraphValue *state = RengaGraphGetValue(chunk->sub, chunk->states.value[s]);
  const RengaValue whole = RengaGraphFindValue(outline->graph, state->name);
  const RengaPersistent row = {.spec = state->spec,
                               .data = StateAt(chunk, s),
                               .owner = OwnsState(chunk, whole),
                               .state = true};
  const int number =
      outline->n_parameters * (1 + rank->n_moments) + CountStates(outline->graph, whole);
  RengaCall(AppendPersistent(&rank->persistents, state->name, NULL, row, number));
  return RENGA_SUCCESS;
}

/* Parameters and moments of all chunks, then their states. */
static RengaErrorCode ListAllPersistents(Rank *rank)
{
  int count = 0;
  for (int c = 0; c < rank->n_chunks; c++)
    count += rank->chunk[c].n_parameters * (1 + rank->n_moments) + rank->chunk[c].states.count;
  RengaCall(RengaMalloc(count + 1, &rank->persistents.row));
  RengaCall(RengaMalloc(count + 1, &rank->persistents.number));
  for (int c = 0; c < rank->n_chunks; c++)
    for (int p = 0; p < rank->chunk[c].n_parameters; p++)
      RengaCall(ListParameter(rank, &rank->chunk[c], &rank->chunk[c].parameter[p]));
  for (int c = 0; c < rank->n_chunks; c++)
    for (int s = 0; s < rank->chunk[c].states.count; s++)
      RengaCall(ListState(rank, &rank->chunk[c], s));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPipelineSetUpPersistents_Private(RengaPipeline pipeline)
{
  for (int c = 0; c < pipeline->rank.n_chunks; c++) RengaCall(FillChunk(&pipeline->rank.chunk[c]));
  RengaCall(ListAllPersistents(&pipeline->rank));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineGetPersistents - the tensors of this rank that live across steps

   Not collective

   Input:
   . pipeline - the pipeline, set up

   Output:
   . count - number of tensors; 0 on an idle rank
   . tensors - parameters, moments ("NAME:first_moment") and states of this rank's stage, lent

   Notes: over all ranks each name has one owner, which writes it to checkpoints. Who writes to data
   does so on all ranks that hold the name.
@*/
RengaErrorCode RengaPipelineGetPersistents(RengaPipeline pipeline, int *count,
                                           const RengaPersistent **tensors)
{
  RengaCheckPointer(pipeline);
  RengaCheckPointer(count);
  RengaCheckPointer(tensors);
  RengaCheckState(pipeline, RENGA_STATE_SETUP, "RengaPipelineSetUp");
  *count = pipeline->rank.persistents.count;
  *tensors = pipeline->rank.persistents.row;
  return RENGA_SUCCESS;
}
