/* A finder of layouts: RaNNC's three phases (rannc.h) on the model of the search, so that its plans
   are predicted, fitted into memory and bounded as all others are. Where RaNNC is heuristic and
   Renga need not be, it is mended: blocks are intervals, fronts are exact, any number of replicas
   and all numbers of stages are tried, there are more blocks where there may be more stages, and
   stages are uncoarsened as blocks are. What is left of it is its idea: few blocks of like weight
   with little sent between them, and the slowest forward and backward in place of the pipeline. */
#include "rannc.h"
#include "../search/search.h"
#include <math.h>

enum {
  BLOCKS = 32,           /* as in RaNNC, where stages may have any replicas */
  BLOCKS_PER_DEVICE = 8, /* where all have the same */
  BLOCKS_MOST = 256,
  DEVICES_MOST = 64, /* of stages with any replicas */
  REACH = 24,        /* places */
  ROUNDS = 12
};

/* Blocks are uncoarsened where their step is no more than so much of the best known. */
static const double coarse = 1.15;

/* One way to lay pipelines side by side: `pipelines` of them take turns, each on so many
   devices. */
typedef struct {
  const SearchModel *model;
  int n_blocks, *begin;              /* [n_blocks + 1] places */
  double *work;                      /* [n_blocks + 1] */
  int pipelines, devices;            /* devices of each, at most */
  int64_t waves;                     /* micro-batches of a pipeline */
  int n_options, *devices_of;        /* in each pipeline */
  const SearchCandidate **candidate; /* [n_options] of the model */
  double beat;                       /* seconds; 0: any step will do */
} Pipelines;

/* All replicas of a stage work at once: a wave takes a stage that part of a micro-batch's seconds
   which its rounds are of the waves. */
static bool CostOfStaging(const void *context, int begin, int end, int option, int depth,
                          RanncCost *cost)
{
  const Pipelines *pipelines = context;
  const SearchModel *model = pipelines->model;
  const SearchCandidate *candidate = pipelines->candidate[option];
  SearchCost one;
  if (!RengaSearchStageCost_Private(model, candidate, pipelines->begin[begin],
                                    pipelines->begin[end], depth, &one))
    return false;
  const double share = (double)candidate->rounds / (double)pipelines->waves;
  cost->forward = one.forward * share + 0.5 * one.delay;
  cost->backward = one.backward * share + 0.5 * one.delay;
  cost->reduce = one.reduce + one.update;
  return true;
}

/* The largest candidate on at most so many devices: those above it have the same rounds. NULL:
   there is none. */
static const SearchCandidate *CandidateWithin(const SearchModel *model, int devices)
{
  int count = 0;
  while (count < model->n_candidates && model->candidate[count].devices <= devices) count++;
  return count ? &model->candidate[count - 1] : NULL;
}

/* What a stage may be within one pipeline. */
static void ListStageOptions(const SearchModel *model, int devices, Pipelines *pipelines)
{
  pipelines->n_options = 0;
  for (int n = 1; n <= devices; n++) {
    const SearchCandidate *candidate = CandidateWithin(model, n * pipelines->pipelines);
    const int last = pipelines->n_options - 1;
    if (!candidate || (last >= 0 && pipelines->candidate[last] == candidate)) continue;
    pipelines->candidate[pipelines->n_options] = candidate;
    pipelines->devices_of[pipelines->n_options++] = n;
  }
}

/* The layout of a staging; RengaFree(layout->stage). */
static RengaErrorCode LayOutStaging(const Pipelines *pipelines, const RanncStaging *staging,
                                    SearchLayout *layout)
{
  layout->count = staging->count;
  RengaCall(RengaMalloc(staging->count, &layout->stage));
  for (int s = 0; s < staging->count; s++) {
    const int end = s + 1 < staging->count ? staging->begin[s + 1] : pipelines->n_blocks;
    layout->stage[s] = (SearchStage){.begin = pipelines->begin[staging->begin[s]],
                                     .end = pipelines->begin[end],
                                     .shape = pipelines->candidate[staging->option[s]]->shape};
  }
  return RENGA_SUCCESS;
}

/* Uncoarsens stages: their blocks become places, and boundaries move, all at once, as long as that
   helps. */
static RengaErrorCode RefineStaging(RanncTask *task, RanncStaging *staging)
{
  bool better = true;
  task->near = staging;
  for (int round = 0; round < ROUNDS && better; round++) {
    RanncStaging found = {0};
    RengaCall(RengaRanncStages_Private(task, &found));
    better = found.seconds < staging->seconds;
    RengaRanncStagingFree_Private(staging);
    *staging = found;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode SpreadStaging(RanncTask *task, RanncStaging *staging)
{
  bool moved = true;
  for (int round = 0; round < ROUNDS && moved; round++)
    RengaCall(RengaRanncSpread_Private(task, staging, &moved));
  return RENGA_SUCCESS;
}

static RengaErrorCode KeepStaging(const Pipelines *pipelines, const RanncStaging *staging,
                                  SearchLayout *best)
{
  SearchLayout layout = {0};
  RengaCall(LayOutStaging(pipelines, staging, &layout));
  RengaSearchLayoutKeep_Private(pipelines->model, &layout, best);
  return RENGA_SUCCESS;
}

/* From blocks to places. */
static RengaErrorCode Uncoarsen(Pipelines *pipelines, RanncTask *task, RanncStaging *staging,
                                SearchLayout *best)
{
  const SearchModel *model = pipelines->model;
  for (int s = 0; s < staging->count; s++) staging->begin[s] = pipelines->begin[staging->begin[s]];
  RengaFree(&pipelines->begin);
  RengaCall(RengaMalloc(model->count + 1, &pipelines->begin));
  for (int c = 0; c <= model->count; c++) pipelines->begin[c] = c;
  task->blocks = pipelines->n_blocks = model->count;
  task->work = NULL;
  task->stages = staging->count;
  task->given = true;
  const int half = (model->count / staging->count + 1) / 2;
  task->reach = half < REACH ? half : REACH;
  RengaCall(RefineStaging(task, staging));
  RengaCall(KeepStaging(pipelines, staging, best));
  RengaCall(SpreadStaging(task, staging));
  RengaCall(KeepStaging(pipelines, staging, best));
  return RENGA_SUCCESS;
}

/* Of all options. */
static double LeastShareOf(const Pipelines *pipelines)
{
  double least = 1;
  for (int o = 0; o < pipelines->n_options; o++)
    least = fmin(least, (double)pipelines->candidate[o]->rounds / (double)pipelines->waves);
  return least;
}

/* The step to look below; 0: any. */
static double KnownStep(const Pipelines *pipelines, const SearchLayout *best)
{
  const double beat = pipelines->beat;
  if (best->step <= 0) return coarse * beat;
  return coarse * (beat > 0 ? fmin(beat, best->step) : best->step);
}

/* The best pipelines of blocks of at most this number. */
static RengaErrorCode TryBlocks(Pipelines *pipelines, const RanncChain *chain, int blocks,
                                SearchLayout *best)
{
  const SearchModel *model = pipelines->model;
  const int most = model->stages > blocks ? model->stages : blocks;
  RanncStaging staging = {0};
  RengaFree(&pipelines->begin);
  RengaFree(&pipelines->work);
  RengaCall(RengaRanncBlocks_Private(chain, most, &pipelines->n_blocks, &pipelines->begin));
  RengaCall(RengaMalloc(pipelines->n_blocks + 1, &pipelines->work));
  for (int b = 0; b <= pipelines->n_blocks; b++)
    pipelines->work[b] = chain->seconds[pipelines->begin[b]];
  RanncTask task = {.blocks = pipelines->n_blocks,
                    .devices = pipelines->devices,
                    .stages = model->stages,
                    .given = model->stages > 0,
                    .microbatches = pipelines->waves,
                    .n_options = pipelines->n_options,
                    .replicas = pipelines->devices_of,
                    .cost = CostOfStaging,
                    .context = pipelines,
                    .work = pipelines->work,
                    .share = LeastShareOf(pipelines),
                    .known = KnownStep(pipelines, best)};
  RengaErrorCode code = RengaRanncStages_Private(&task, &staging);
  if (!code && staging.count) code = Uncoarsen(pipelines, &task, &staging, best);
  RengaRanncStagingFree_Private(&staging);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Stages of any replicas are made of few blocks, stages of equal ones of many. */
static RengaErrorCode TryPipelines(Pipelines *pipelines, const RanncChain *chain, int blocks,
                                   SearchLayout *best)
{
  const SearchModel *model = pipelines->model;
  const int devices = model->devices / pipelines->pipelines;
  int many = BLOCKS_PER_DEVICE * devices;
  many = many < BLOCKS ? BLOCKS : many > BLOCKS_MOST ? BLOCKS_MOST : many;
  pipelines->waves = CandidateWithin(model, pipelines->pipelines)->rounds;
  pipelines->devices = devices;
  ListStageOptions(model, 1, pipelines);
  RengaCall(TryBlocks(pipelines, chain, blocks ? blocks : many, best));
  if (!model->unequal) return RENGA_SUCCESS;
  pipelines->devices = devices < DEVICES_MOST ? devices : DEVICES_MOST;
  ListStageOptions(model, pipelines->devices, pipelines);
  RengaCall(TryBlocks(pipelines, chain, blocks ? blocks : BLOCKS, best));
  return RENGA_SUCCESS;
}

typedef struct {
  double *seconds, *bytes, *cut;
} ModelSums;

static void FreeSums(ModelSums *sums)
{
  RengaFree(&sums->seconds);
  RengaFree(&sums->bytes);
  RengaFree(&sums->cut);
}

/* What a stage of these places holds at the least, but for what does not add up. */
static RengaErrorCode SumUp(const SearchModel *model, ModelSums *sums)
{
  const SearchBytes *bytes = &model->candidate[0].bytes;
  RengaCall(RengaMalloc(model->count + 1, &sums->seconds));
  RengaCall(RengaMalloc(model->count + 1, &sums->bytes));
  RengaCall(RengaMalloc(model->count + 1, &sums->cut));
  for (int c = 0; c <= model->count; c++) {
    sums->seconds[c] = model->forward[c] + model->backward[c];
    sums->bytes[c] = (bytes->parameter + bytes->gradient) * model->elements[c];
    sums->cut[c] = 2 * model->candidate[0].message_rate * model->cut[c];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TryAll(const SearchModel *model, int blocks, const ModelSums *sums,
                             Pipelines *pipelines, SearchLayout *best)
{
  const RanncChain chain = {model->count, sums->seconds, sums->bytes, sums->cut, model->memory};
  RengaCall(RengaMalloc(DEVICES_MOST, &pipelines->candidate));
  RengaCall(RengaMalloc(DEVICES_MOST, &pipelines->devices_of));
  for (int o = 0; o < model->n_candidates; o++) {
    pipelines->pipelines = model->candidate[o].devices;
    if (CandidateWithin(model, pipelines->pipelines) != &model->candidate[o]) continue;
    RengaCall(TryPipelines(pipelines, &chain, blocks, best));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaRanncFind_Private(const void *context, const SearchTask *task,
                                      const SearchModel *model, SearchLayout *best)
{
  ModelSums sums = {0};
  Pipelines pipelines = {.model = model, .beat = task->beat};
  RengaErrorCode code = SumUp(model, &sums);
  if (!code) code = TryAll(model, *(const int *)context, &sums, &pipelines, best);
  RengaFree(&pipelines.begin);
  RengaFree(&pipelines.work);
  RengaFree(&pipelines.candidate);
  RengaFree(&pipelines.devices_of);
  FreeSums(&sums);
  RengaCall(code);
  return RENGA_SUCCESS;
}
