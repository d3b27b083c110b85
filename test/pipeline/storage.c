/* TEST ranks: 1 */
/* Chunks laid out for each precision: values, masters, moments and gradients have the bytes of
   their types and lie apart; in fp32 values are masters, as ever. Kernels read parameters of one
   dimension from the masters. */
#include "../../src/pipeline/gradients.h"
#include "../../src/pipeline/memory.h"
#include "../../src/pipeline/pipelineimpl.h"
#include "../../src/pipeline/updates.h"
#include "run.h"

enum { STAGES = 2, MOMENTS = 2 /* of adamw */ };

/* One stage, laid out as for a precision. */
typedef struct {
  RengaStorage storage;
  Chunk chunk;
  ShareTable shares;
  RengaPipelineMemory memory;
  char *arena; /* as much as parameters, moments and a gradient buffer take */
} LaidOut;

static RengaErrorCode LayOut(Outline *outline, int stage, RengaPrecision precision, LaidOut *laid)
{
  *laid = (LaidOut){0};
  RengaCall(RengaPrecisionGetStorage(precision, &laid->storage));
  RengaCall(RengaChunkBegin_Private(outline, stage, &laid->chunk));
  RengaCall(RengaChunkSetUp_Private(&laid->chunk));
  RengaCall(RengaChunkCountLag_Private(&laid->chunk));
  RengaCall(RengaChunkSizeStage_Private(&laid->chunk));
  RengaCall(RengaChunkSizeWorst_Private(&laid->chunk, &laid->shares, &laid->memory));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeLaidOut(LaidOut *laid)
{
  RengaFree(&laid->arena);
  RengaFreeShares_Private(&laid->shares);
  RengaCall(RengaChunkFree_Private(&laid->chunk));
  return RENGA_SUCCESS;
}

/* Elements of all parameters, each padded to so many. */
static int64_t PaddedElements(const Chunk *chunk, int64_t unit)
{
  int64_t sum = 0;
  for (int p = 0; p < chunk->n_parameters; p++)
    sum += (chunk->parameter[p].count + unit - 1) / unit * unit;
  return sum;
}

/* Per element: 2 bytes of value, 4 of master, 8 of moments, 4 of gradient; messages are half. What
   else a chunk keeps is as it was. */
static RengaErrorCode CheckBytes(const LaidOut *wide, const LaidOut *narrow)
{
  const int64_t before = PaddedElements(&wide->chunk, 16), now = PaddedElements(&narrow->chunk, 32);
  Expect(now > before && narrow->chunk.storage.value != RENGA_FLOAT32);
  Expect(narrow->memory.parameters - (2 + 4) * now == wide->memory.parameters - 4 * before);
  Expect(wide->memory.optimizer == MOMENTS * 4 * before);
  Expect(narrow->memory.optimizer == MOMENTS * 4 * now);
  Expect(narrow->memory.gradients == wide->memory.gradients && wide->memory.gradients > 4 * before);
  Expect(2 * narrow->memory.messages == wide->memory.messages && wide->memory.messages > 0);
  Expect(narrow->memory.inputs == wide->memory.inputs);
  return RENGA_SUCCESS;
}

/* An arena in the order of arena.c, of what has roles. */
static RengaErrorCode GiveArena(LaidOut *laid)
{
  Chunk *chunk = &laid->chunk;
  const int64_t held = chunk->sizes->persistent_bytes, moments = laid->memory.optimizer;
  RengaCall(RengaMalloc(held + moments + laid->memory.gradients, &laid->arena));
  chunk->at->persistent = laid->arena;
  chunk->at->moments = laid->arena + held;
  chunk->gradients->sum = laid->arena + held + moments;
  return RENGA_SUCCESS;
}

static RengaVector VectorOf(const LaidOut *laid, int p, int role)
{
  return RengaChunkVectorOf_Private(&laid->chunk, &laid->chunk.parameter[p], (ParameterRole)role);
}

/* From `end`, where the one before ended, to its own end. */
static RengaErrorCode Follow(const LaidOut *laid, int p, int role, RengaDataType type,
                             const char **end)
{
  const RengaVector vector = VectorOf(laid, p, role);
  const char *data = vector.data;
  Expect(vector.type == type && vector.count == laid->chunk.parameter[p].count);
  Expect(data >= *end && (data - laid->arena) % PIPELINE_ALIGNMENT == 0);
  *end = data + vector.count * (int64_t)RengaDataTypeSize(type);
  return RENGA_SUCCESS;
}

/* Role after role, parameter after parameter: nothing overlaps, all of it is in the arena. */
static RengaErrorCode CheckPlaces(const LaidOut *laid)
{
  const RengaStorage *storage = &laid->storage;
  const Chunk *chunk = &laid->chunk;
  const char *end = laid->arena;
  const bool apart = storage->value != storage->master;
  for (int p = 0; p < chunk->n_parameters; p++) {
    const Place place = chunk->value_place[chunk->parameter[p].value];
    Expect(place.region == REGION_PERSISTENT);
    const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, chunk->parameter[p].value);
    const ParameterRole read = value->spec.ndim > 1 ? ROLE_VALUE : ROLE_MASTER;
    Expect(VectorOf(laid, p, read).data == chunk->at->persistent + place.offset);
    Expect(value->stored == VectorOf(laid, p, read).type);
    Expect(apart == (VectorOf(laid, p, ROLE_VALUE).data != VectorOf(laid, p, ROLE_MASTER).data));
    RengaCall(Follow(laid, p, ROLE_VALUE, storage->value, &end));
  }
  for (int p = 0; p < chunk->n_parameters && apart; p++)
    RengaCall(Follow(laid, p, ROLE_MASTER, storage->master, &end));
  Expect(end <= chunk->at->persistent + chunk->sizes->persistent_bytes);
  for (int m = 0; m < MOMENTS; m++)
    for (int p = 0; p < chunk->n_parameters; p++)
      RengaCall(Follow(laid, p, ROLE_MOMENT + m, storage->moment, &end));
  Expect(end <= chunk->at->moments + laid->memory.optimizer);
  for (int p = 0; p < chunk->n_parameters; p++)
    RengaCall(Follow(laid, p, ROLE_GRADIENT, storage->gradient, &end));
  Expect(end <= chunk->gradients->sum + laid->memory.gradients);
  return RENGA_SUCCESS;
}

/* The table of a step's updates has the values where they are not the parameters, and an update
   leaves the new parameters there, rounded. */
static RengaErrorCode CheckUpdates(LaidOut *laid)
{
  Chunk *chunk = &laid->chunk;
  const bool apart = laid->storage.value != laid->storage.master;
  const RengaAdamStep step = {
      .learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .step = 1};
  RengaCall(RengaChunkSetUpUpdates_Private(chunk));
  Expect(chunk->updates->n_updates == chunk->n_parameters);
  for (int u = 0; u < chunk->updates->n_updates; u++)
    Expect(chunk->updates->update[u].value.data ==
           (apart ? VectorOf(laid, u, ROLE_VALUE).data : NULL));
  for (int u = 0; u < chunk->updates->n_updates; u++) {
    RengaParameterUpdate *update = &chunk->updates->update[u];
    update->gradient = VectorOf(laid, u, ROLE_GRADIENT);
    RengaRandomUniform(5, (uint64_t)u, 0, update->parameter.count, update->parameter.data);
  }
  RengaCall(RengaDeviceUpdateAdam(chunk->device, NULL, &step, 1, chunk->updates->n_updates,
                                  chunk->updates->update));
  for (int u = 0; apart && u < chunk->updates->n_updates; u++) {
    const RengaVector *value = &chunk->updates->update[u].value;
    uint16_t *rounded;
    RengaCall(RengaMalloc(value->count, &rounded));
    RengaCall(RengaDeviceConvert(chunk->device, NULL, value->count, RENGA_FLOAT32,
                                 chunk->updates->update[u].parameter.data, value->type, rounded));
    Expect(memcmp(rounded, value->data, (size_t)value->count * sizeof *rounded) == 0);
    RengaFree(&rounded);
  }
  return RENGA_SUCCESS;
}

/* A network in a precision, with its plan. */
typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Outline outline;
} InPrecision;

/* Two stages that share the table of words, of sizes that fill no line. */
static RengaErrorCode MakeIn(RengaComm comm, RengaPrecision precision, InPrecision *one)
{
  RengaPlanStage stage[STAGES] = {{0}};
  RengaCall(RengaGraphCreate(comm, &one->graph));
  RengaCall(RengaGraphLoad(one->graph, "gpt:layers=2,hidden=20,heads=2,sequence=16,vocabulary=50"));
  RengaCall(RengaGraphSetPrecision(one->graph, precision, NULL));
  RengaCall(RengaGraphSetUp(one->graph));
  const int nodes = RengaGraphGetNodeCount(one->graph);
  for (int s = 0; s < STAGES; s++) {
    stage[s] = (RengaPlanStage){.first = nodes * s / STAGES,
                                .last = nodes * (s + 1) / STAGES,
                                .shape = RengaStageShapePlain(2)};
    stage[s].shape.precision = precision;
  }
  RengaCall(RengaPlanCreate(comm, &one->plan));
  RengaCall(RengaPlanSetStages(one->plan, one->graph, STAGES, stage));
  RengaCall(RengaPlanSetBatch(one->plan, 24, 4));
  RengaCall(RengaPipelineCreate(comm, &one->pipeline));
  RengaCall(RengaPipelineSetFromOptions(one->pipeline));
  RengaCall(RengaPipelineSetPlan(one->pipeline, one->graph, one->plan));
  RengaCall(RengaOutlineRead_Private(one->pipeline, &one->outline));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeIn(InPrecision *one)
{
  RengaCall(RengaOutlineFree_Private(&one->outline));
  RengaCall(RengaPipelineDestroy(&one->pipeline));
  RengaCall(RengaPlanDestroy(&one->plan));
  RengaCall(RengaGraphDestroy(&one->graph));
  return RENGA_SUCCESS;
}

/* Of tf32 tensors are those of fp32, and the cpu device has no such products. */
enum { PRECISIONS = RENGA_PRECISION_FP16 + 1 };

static RengaErrorCode CheckStage(InPrecision in[], int stage)
{
  LaidOut laid[PRECISIONS];
  RengaPipelineMemory forecast[STAGES];
  for (int p = 0; p < PRECISIONS; p++) {
    RengaCall(RengaPipelineForecastStages(in[p].pipeline, forecast)); /* sets the device up */
    RengaCall(LayOut(&in[p].outline, stage, (RengaPrecision)p, &laid[p]));
    RengaCall(GiveArena(&laid[p]));
    RengaCall(CheckPlaces(&laid[p]));
    RengaCall(CheckUpdates(&laid[p]));
    Expect(laid[p].memory.forecast == forecast[stage].forecast);
  }
  for (int p = RENGA_PRECISION_BF16; p < PRECISIONS; p++)
    RengaCall(CheckBytes(&laid[RENGA_PRECISION_FP32], &laid[p]));
  for (int p = 0; p < PRECISIONS; p++) RengaCall(FreeLaidOut(&laid[p]));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  InPrecision in[PRECISIONS];
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int p = 0; p < PRECISIONS; p++) RengaCall(MakeIn(comm, (RengaPrecision)p, &in[p]));
  for (int s = 0; s < STAGES; s++) RengaCall(CheckStage(in, s));
  for (int p = 0; p < PRECISIONS; p++) RengaCall(FreeIn(&in[p]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
