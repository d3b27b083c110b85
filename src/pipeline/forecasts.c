/* Forecasts for others: any stage of any plan, without its ranks and its memory.

   Networks are made of layers that are alike, so that most stages of a large plan are too. Stages
   with the same key (key.c) are compiled once, as chunks that no rank has, and what they take of
   all replicas, slots and buffers follows from their sizes. */
#include "forecasts.h"
#include "pipelineimpl.h"
#include "renga/private/fetches.h"
#include <string.h>

typedef struct {
  uint64_t hash;
  int64_t count, *key; /* [count] */
  ChunkSizes sizes;    /* its list of parts is lent to the chunks that ask */
} KnownStage;

/* Which rank of a tensor group needed most, of stages that are alike in this. */
typedef struct {
  RengaSaved saved;
  bool keeps, lags, begins, ends; /* begins, ends: the network */
  int tensor, size, rank;         /* ranks of the group, and the one that needs most */
} KnownFullest;

/* Of one network under one set of settings, whatever the plan. */
struct _p_Forecasts {
  struct _p_RengaObject hdr;
  RengaGraph graph;
  uint64_t settings; /* RengaSettingsGetHash() */
  StageClasses classes;
  StageGraphs graphs;
  int n_known;
  KnownStage *known;
  int n_slots, *slot; /* open addressing by hash: known + 1, 0 where free */
  StageKey key;       /* of the stage that is looked for */
  int n_fullest;
  KnownFullest *fullest;
};

enum { SLOTS_FIRST = 256 };

static RengaErrorCode DestroyForecasts(void *object)
{
  Forecasts forecasts = object;
  for (int k = 0; k < forecasts->n_known; k++) {
    RengaFree(&forecasts->known[k].key);
    RengaFree(&forecasts->known[k].sizes.part);
  }
  RengaFree(&forecasts->known);
  RengaFree(&forecasts->slot);
  RengaFree(&forecasts->key.number);
  RengaFree(&forecasts->fullest);
  RengaClassesFree_Private(&forecasts->classes);
  RengaFreeStageGraphs_Private(&forecasts->graphs);
  if (forecasts->graph) RengaCall(RengaGraphDestroy(&forecasts->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode FillForecasts(const Outline *outline, Forecasts forecasts)
{
  forecasts->n_slots = SLOTS_FIRST;
  RengaCall(RengaHeaderReference(outline->graph));
  forecasts->graph = outline->graph;
  RengaCall(RengaMalloc(forecasts->n_slots, &forecasts->slot));
  RengaCall(RengaClassesMake_Private(outline, &forecasts->classes));
  return RENGA_SUCCESS;
}

/* Those that are there, if they are of this network and of settings like these; else new ones. */
static RengaErrorCode FindForecasts(const Outline *outline, Forecasts *forecasts)
{
  Forecasts made = *forecasts;
  uint64_t settings = 0;
  RengaCall(RengaSettingsGetHash(outline->settings, &settings));
  if (made && made->graph == outline->graph && made->settings == settings) return RENGA_SUCCESS;
  if (made) RengaCall(RengaHeaderDestroy(forecasts));
  RengaCall(
      RengaHeaderCreate(outline->owner, "RengaForecasts", sizeof *made, DestroyForecasts, &made));
  made->settings = settings;
  const RengaErrorCode code = FillForecasts(outline, made);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *forecasts = made;
  return RENGA_SUCCESS;
}

/* Where the key is among those that are known, or where it goes. */
static int *FindKnown(Forecasts forecasts, uint64_t hash, const StageKey *key)
{
  for (uint64_t at = hash;; at++) {
    int *slot = &forecasts->slot[at % (uint64_t)forecasts->n_slots];
    if (!*slot) return slot;
    const KnownStage *known = &forecasts->known[*slot - 1];
    if (known->hash == hash && known->count == key->count &&
        memcmp(known->key, key->number, (size_t)key->count * sizeof *key->number) == 0)
      return slot;
  }
}

static RengaErrorCode GrowKnown(Forecasts forecasts)
{
  if (2 * forecasts->n_known < forecasts->n_slots) return RENGA_SUCCESS;
  RengaFree(&forecasts->slot);
  forecasts->n_slots *= 4;
  RengaCall(RengaMalloc(forecasts->n_slots, &forecasts->slot));
  for (int k = 0; k < forecasts->n_known; k++) {
    const KnownStage *known = &forecasts->known[k];
    const StageKey key = {.count = known->count, .number = known->key};
    *FindKnown(forecasts, known->hash, &key) = k + 1;
  }
  return RENGA_SUCCESS;
}

/* The same stage as of a chunk that has only its key. */
static RengaErrorCode CompileStage(const Chunk *asked, ChunkSizes *sizes)
{
  Chunk chunk;
  RengaCall(RengaChunkBegin_Private(asked->outline, asked->stage, &chunk));
  chunk.tensor.rank = asked->tensor.rank;
  RengaErrorCode code = RengaChunkSetUp_Private(&chunk);
  if (!code) chunk.memory->lag = asked->memory->lag;
  if (!code) code = RengaChunkSizeStage_Private(&chunk);
  if (!code) {
    *sizes = *chunk.sizes;
    chunk.sizes->part = NULL;
  }
  const RengaErrorCode freed = RengaChunkFree_Private(&chunk);
  RengaCall(code ? code : freed);
  return RENGA_SUCCESS;
}

/* Behind the known ones, with a key of its own; made has sizes, which are freed where it fails. */
static RengaErrorCode AddKnown(Forecasts forecasts, KnownStage *made)
{
  const StageKey *key = &forecasts->key;
  const int n = forecasts->n_known;
  RengaErrorCode code = n & (n - 1) ? RENGA_SUCCESS : RengaRealloc(2 * n + 1, &forecasts->known);
  if (!code) code = RengaMalloc(key->count, &made->key);
  if (code) RengaFree(&made->sizes.part);
  RengaCall(code);
  memcpy(made->key, key->number, (size_t)key->count * sizeof *key->number);
  forecasts->known[forecasts->n_known++] = *made;
  return RENGA_SUCCESS;
}

/* Sizes of the chunk whose key was made. */
static RengaErrorCode FindSizes(Forecasts forecasts, Chunk *chunk)
{
  const StageKey *key = &forecasts->key;
  const size_t bytes = (size_t)key->count * sizeof *key->number;
  KnownStage made = {.hash = RengaHash(key->number, bytes, 0), .count = key->count};
  RengaCall(GrowKnown(forecasts));
  int *slot = FindKnown(forecasts, made.hash, key);
  if (!*slot) {
    RengaLogEventBegin(RengaPipelineEvent_Private(EVENT_SIZES));
    const RengaErrorCode code = CompileStage(chunk, &made.sizes);
    RengaLogEventEnd(RengaPipelineEvent_Private(EVENT_SIZES), 0, 0, 0);
    RengaCall(code);
    RengaCall(AddKnown(forecasts, &made));
    *slot = forecasts->n_known;
  }
  chunk->sizes = &forecasts->known[*slot - 1].sizes;
  return RENGA_SUCCESS;
}

/* Rows of the message table by stage: those of stage s are own[start[s] … start[s + 1]). */
typedef struct {
  int *start, *own;
} MessagesOf;

static RengaErrorCode SortMessages(const Outline *outline, MessagesOf *of)
{
  RengaCall(RengaMalloc(outline->stages + 2, &of->start));
  RengaCall(RengaMalloc(2 * outline->n_messages + 1, &of->own));
  for (int m = 0; m < outline->n_messages; m++) {
    of->start[outline->message[m].from + 2]++;
    of->start[outline->message[m].to + 2]++;
  }
  for (int s = 2; s < outline->stages + 2; s++) of->start[s] += of->start[s - 1];
  for (int m = 0; m < outline->n_messages; m++) {
    of->own[of->start[outline->message[m].from + 1]++] = m;
    of->own[of->start[outline->message[m].to + 1]++] = m;
  }
  return RENGA_SUCCESS;
}

/* exchange: of the rank; or NULL */
static RengaErrorCode AskRank(Outline *outline, Forecasts forecasts, const MessagesOf *of,
                              const RengaPlanPlace *place, ShareTable *shares,
                              RengaPipelineMemory *memory, RengaForecastExchange *exchange)
{
  const int stage = place->stage;
  const int *own = of->own + of->start[stage], n_own = of->start[stage + 1] - of->start[stage];
  ReplicaMemory replica = {0};
  Chunk chunk;
  RengaCall(RengaChunkBegin_Private(outline, stage, &chunk));
  chunk.memory = &replica;
  chunk.tensor.rank =
      RengaShapeMember_Private(&RengaPlanGetStage(outline->plan, stage)->shape, place);
  RengaCall(RengaChunkCountLag_Private(&chunk));
  RengaCall(RengaKeyMake_Private(&chunk, &forecasts->classes, n_own, own, &forecasts->key));
  RengaCall(FindSizes(forecasts, &chunk));
  RengaCall(RengaChunkSizeWorst_Private(&chunk, shares, memory));
  if (!exchange) return RENGA_SUCCESS;
  *exchange =
      (RengaForecastExchange){.buckets = RengaOutlineCountBuckets_Private(outline, stage).shared,
                              .first = chunk.sizes->first_bytes,
                              .forward = chunk.sizes->fetched_bytes[PART_FORWARD],
                              .again = chunk.sizes->fetched_bytes[PART_AGAIN],
                              .backward = chunk.sizes->fetched_bytes[PART_BACKWARD],
                              .weight = chunk.sizes->fetched_bytes[PART_WEIGHT],
                              .lanes = {.forward = chunk.sizes->terms[PART_FORWARD],
                                        .again = chunk.sizes->terms[PART_AGAIN],
                                        .backward = chunk.sizes->terms[PART_BACKWARD],
                                        .weight = chunk.sizes->terms[PART_WEIGHT]}};
  return RENGA_SUCCESS;
}

/* What is asked of the stages of a plan; fullest: RengaForecastRun. */
typedef struct {
  Outline *outline;
  Forecasts forecasts;
  MessagesOf of;
  ShareTable shares;
  bool fullest;
} Asking;

/* Of some ranks of a group the one that needs most: lanes need not be equal. exchange: or NULL. */
static RengaErrorCode AskRanks(Asking *asking, int stage, int count, const int ranks[],
                               RengaPipelineMemory *memory, RengaForecastExchange *exchange,
                               int *rank)
{
  RengaPipelineMemory own;
  for (int i = 0; i < count; i++) {
    const RengaPlanPlace place =
        RengaPlanPlaceOf_Private(asking->outline->plan, stage, 0, ranks[i]);
    RengaForecastExchange given;
    RengaCall(AskRank(asking->outline, asking->forecasts, &asking->of, &place, &asking->shares,
                      &own, exchange ? &given : NULL));
    const bool most = i == 0 || own.forecast > memory->forecast;
    if (!most) continue;
    *memory = own;
    *rank = ranks[i];
    if (exchange) *exchange = given;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DescribeFullest(Outline *outline, int stage, KnownFullest *like)
{
  const RengaPlanStage *row = RengaPlanGetStage(outline->plan, stage);
  const char *const *names;
  int kept;
  ReplicaMemory replica = {0};
  Chunk chunk;
  RengaCall(RengaPlanGetKept(outline->plan, stage, &kept, &names));
  RengaCall(RengaChunkBegin_Private(outline, stage, &chunk));
  chunk.memory = &replica;
  RengaCall(RengaChunkCountLag_Private(&chunk));
  *like = (KnownFullest){.saved = row->shape.saved,
                         .keeps = kept > 0,
                         .lags = chunk.memory->lag > 0,
                         .begins = row->first == 0,
                         .ends = row->last == RengaGraphGetNodeCount(outline->graph),
                         .tensor = row->shape.tensor,
                         .size = RengaShapeGroup_Private(&row->shape)};
  return RENGA_SUCCESS;
}

/* NULL: none was asked. */
static const KnownFullest *FullestOf(Forecasts forecasts, const KnownFullest *like)
{
  for (int i = 0; i < forecasts->n_fullest; i++) {
    const KnownFullest *row = &forecasts->fullest[i];
    if (row->saved == like->saved && row->keeps == like->keeps && row->lags == like->lags &&
        row->begins == like->begins && row->ends == like->ends && row->tensor == like->tensor &&
        row->size == like->size)
      return row;
  }
  return NULL;
}

static uint64_t HashShapes(RengaGraph graph, const RengaGraphNode *node, uint64_t hash)
{
  hash = RengaHash(node->op->name, strlen(node->op->name), hash);
  for (int i = 0; i < node->n_in + node->n_out; i++) {
    const RengaValue v = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
    const int64_t bytes =
        v < 0 ? 0 : (int64_t)RengaTensorSpecBytes(&RengaGraphGetValue(graph, v)->spec);
    hash = RengaHash(&bytes, sizeof bytes, hash);
  }
  return hash;
}

/* Of what a rank of a group has in lanes. */
static uint64_t HashLanes(RengaGraph graph, const RengaPlanStage *row, int rank)
{
  const RengaLaneGroup group = RengaPlanGetLaneGroup_Private(&row->shape, graph);
  const int own = RengaLaneGroupRank_Private(&group, rank);
  uint64_t hash = 0;
  for (int n = row->first; n < row->last; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    if (node->lane && RengaLaneCovers(RengaLaneGroupHas_Private(&group, node->lane), own))
      hash = HashShapes(graph, node, hash);
  }
  return hash;
}

/* Of ranks that compute the same shapes the first. unlike: [size] */
static RengaErrorCode ListUnlikeRanks(const Asking *asking, int stage, int size, int *count,
                                      int unlike[])
{
  const RengaPlanStage *row = RengaPlanGetStage(asking->outline->plan, stage);
  uint64_t *hash = NULL;
  RengaCall(RengaMalloc(size, &hash));
  *count = 0;
  for (int t = 0; t < size; t++) {
    int like = 0;
    const uint64_t own = HashLanes(asking->outline->graph, row, t);
    while (like < *count && hash[like] != own) like++;
    if (like < *count) continue;
    hash[*count] = own;
    unlike[(*count)++] = t;
  }
  RengaFree(&hash);
  return RENGA_SUCCESS;
}

/* ranks: [of the group] */
static RengaErrorCode AskFullest(Asking *asking, int stage, int ranks[],
                                 RengaPipelineMemory *memory, RengaForecastExchange *exchange)
{
  Forecasts forecasts = asking->forecasts;
  KnownFullest like;
  int count = 1;
  RengaCall(DescribeFullest(asking->outline, stage, &like));
  const KnownFullest *known = FullestOf(forecasts, &like);
  if (known)
    ranks[0] = known->rank;
  else
    RengaCall(ListUnlikeRanks(asking, stage, like.size, &count, ranks));
  RengaCall(AskRanks(asking, stage, count, ranks, memory, exchange, &like.rank));
  if (known) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(forecasts->n_fullest + 1, &forecasts->fullest));
  forecasts->fullest[forecasts->n_fullest++] = like;
  return RENGA_SUCCESS;
}

static RengaErrorCode AskStage(Asking *asking, int stage, RengaPipelineMemory *memory,
                               RengaForecastExchange *exchange)
{
  const int size = RengaShapeGroup_Private(&RengaPlanGetStage(asking->outline->plan, stage)->shape);
  int *ranks = NULL, rank;
  RengaCall(RengaMalloc(size, &ranks));
  for (int t = 0; t < size; t++) ranks[t] = t;
  const RengaErrorCode code = asking->fullest && size > 1
                                  ? AskFullest(asking, stage, ranks, memory, exchange)
                                  : AskRanks(asking, stage, size, ranks, memory, exchange, &rank);
  RengaFree(&ranks);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* memory: [last - first] of stages [first, last) of the outline, as exchange, which may be NULL. */
static RengaErrorCode AskStages(Asking *asking, int first, int last, RengaPipelineMemory memory[],
                                RengaForecastExchange exchange[])
{
  RengaErrorCode code = SortMessages(asking->outline, &asking->of);
  for (int s = first; s < last && !code; s++)
    code = AskStage(asking, s, &memory[s - first], exchange ? &exchange[s - first] : NULL);
  RengaFreeShares_Private(&asking->shares);
  RengaFree(&asking->of.start);
  RengaFree(&asking->of.own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Ask(RengaPipeline pipeline, bool fullest, int first, int last,
                          RengaPipelineMemory memory[], RengaForecastExchange exchange[])
{
  Outline outline;
  Asking asking = {.outline = &outline, .fullest = fullest};
  RengaCall(RengaOutlineRead_Private(pipeline, &outline));
  RengaErrorCode code = FindForecasts(&outline, &pipeline->forecasts);
  asking.forecasts = pipeline->forecasts;
  if (!code) outline.graphs = &pipeline->forecasts->graphs;
  if (!code) code = AskStages(&asking, first, last, memory, exchange);
  if (!code && pipeline->hdr.state >= RENGA_STATE_SETUP) /* a run asks once */
    RengaFreeStageGraphs_Private(&pipeline->forecasts->graphs);
  const RengaErrorCode freed = RengaOutlineFree_Private(&outline);
  RengaCall(code ? code : freed);
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForecastStage - memory that a stage of a pipeline will take, without its ranks

   Collective the first time where -device_threads is not given, else not

   Input:
   . pipeline - the pipeline, with plan, device, optimizer and options; not yet set up
   . stage - the number of the stage, from 0

   Output:
   . memory - bytes by category on the replica that needs most; what RengaPipelineSetUp will take
     there, to the byte, with the same number of threads; measured is 0

   Errors: RENGA_ERR_ORDER without a plan; RENGA_ERR_ARGUMENT for a stage that the plan does not
   have; RENGA_ERR_PLAN or RENGA_ERR_SUPPORT for a plan that RengaPipelineSetUp would refuse. The
   bound of memory is not checked: a stage that does not fit is forecast, too.

   Notes: the set-up of the stage itself is run, but for its memory, so that no parameter is made:
   stages of any size are forecast on any machine. The device is set up by it.

   See also: RengaPipelineForecastStages(), RengaPipelineForecast(), RengaPipelineGetMemory()
@*/
RengaErrorCode RengaPipelineForecastStage(RengaPipeline pipeline, int stage,
                                          RengaPipelineMemory *memory)
{
  RengaPipelineMemory worst;
  RengaCheckPointers(pipeline, memory);
  RengaCall(RengaPipelineCheckParts_Private(pipeline, 0));
  RengaCall(RengaPipelineSetUpDevice_Private(pipeline));
  RengaCheck(stage >= 0 && stage < RengaPlanGetStageCount(pipeline->plan), MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "stage %d of a plan of %d stages", stage,
             RengaPlanGetStageCount(pipeline->plan));
  RengaCall(Ask(pipeline, false, stage, stage + 1, &worst, NULL));
  *memory = worst;
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForecastStages - memory that the stages of a pipeline will take, without their ranks

   Collective the first time where -device_threads is not given, else not

   Input:
   . pipeline - the pipeline, as of RengaPipelineForecastStage()

   Output:
   . memory - [stages of the plan] as of RengaPipelineForecastStage()

   Errors: as of RengaPipelineForecastStage().

   Notes: stages that are alike but for their place in the network are compiled once. They are
   remembered with the pipeline, also when it is given another plan of the same network, until its
   settings are others.

   See also: RengaPipelineForecastStage(), RengaPipelineForecast(), RengaPipelineGetMemory()
@*/
RengaErrorCode RengaPipelineForecastStages(RengaPipeline pipeline, RengaPipelineMemory memory[])
{
  RengaCheckPointers(pipeline, memory);
  RengaCall(RengaPipelineCheckParts_Private(pipeline, 0));
  RengaCall(RengaPipelineSetUpDevice_Private(pipeline));
  RengaCall(Ask(pipeline, false, 0, RengaPlanGetStageCount(pipeline->plan), memory, NULL));
  return RENGA_SUCCESS;
}

/* The same, with what replicas give each other for a micro-batch; exchange: [stages] */
RengaErrorCode RengaPipelineForecastExchanges_Private(RengaPipeline pipeline, bool fullest,
                                                      RengaPipelineMemory memory[],
                                                      RengaForecastExchange exchange[])
{
  RengaCall(RengaPipelineCheckParts_Private(pipeline, 0));
  RengaCall(RengaPipelineSetUpDevice_Private(pipeline));
  RengaCall(Ask(pipeline, fullest, 0, RengaPlanGetStageCount(pipeline->plan), memory, exchange));
  return RENGA_SUCCESS;
}

/*@
   RengaPipelineForecast - memory that a stage of a plan will take, as the options stand

   Collective the first time where -device_threads is not given, else not

   Input:
   . graph - the network, set up
   . plan - its plan, with stages and batch
   . stage - the number of the stage, from 0

   Output:
   . memory - the bytes, as of RengaPipelineForecastStage()

   Errors: as of RengaPipelineForecastStage(); RENGA_ERR_OPTION for options that
   RengaPipelineSetFromOptions() does not take.

   See also: RengaPipelineForecastStage(), RengaPipelineForecastStages(), RengaPipelineGetMemory()
@*/
RengaErrorCode RengaPipelineForecast(RengaGraph graph, RengaPlan plan, int stage,
                                     RengaPipelineMemory *memory)
{
  RengaPipeline pipeline;
  RengaCheckPointers(graph, plan);
  RengaCall(RengaPipelineCreate(((struct _p_RengaObject *)plan)->owner, &pipeline));
  RengaErrorCode code = RengaPipelineSetFromOptions(pipeline);
  if (code == RENGA_SUCCESS) code = RengaPipelineSetPlan(pipeline, graph, plan);
  if (code == RENGA_SUCCESS) code = RengaPipelineForecastStage(pipeline, stage, memory);
  RengaPipelineDestroy(&pipeline);
  RengaCall(code);
  return RENGA_SUCCESS;
}
