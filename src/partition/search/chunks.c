/* Plans of several stages for each rank, beside what was found: stages of equal replicas, cut so
   that all ranks have as much to do, under the types of schedules that are made for them. With
   fewer micro-batches than a pipeline has stages ranks wait least under these.

   They are listed by an estimate, and the few that promise most are simulated. Stages keep all that
   backward reads. The bound of the search is none of such plans: theirs is the work (work.c). */
#include "solution.h"
#include "renga/private/quiet.h"
#include "rengaschedule.h"
#include <math.h>

enum { CHUNK_TRIALS = 12, CHUNK_FORECASTS = 4, CHUNK_MOST = 4, CHUNK_ACROSS_ALL = 32 };
static const double chunk_actions = 1e6; /* about, of all that are simulated */
static const double chunk_near = 1.02;   /* of the best, up to which estimates may be too long */
static const double chunk_saved_least = 0.8; /* share of what ranks save on the average */

typedef struct {
  const char *type;
  int chunks;
  bool wave;
  double forwards; /* of the stages of each other rank, for which ranks wait in a step; */
  double works;    /* the same, of forwards with their backwards */
} ChunkKind;

static const ChunkKind chunk_kinds[] = {{RENGA_SCHEDULE_ZB_V, 2, true, 0.5, 0},
                                        {RENGA_SCHEDULE_DUALPIPE_V, 2, true, 0.5, 0},
                                        {RENGA_SCHEDULE_INTERLEAVED, 2, false, 0, 0.5},
                                        {RENGA_SCHEDULE_INTERLEAVED, CHUNK_MOST, false, 0, 0.25}};

typedef struct {
  int row, across, replicas; /* of the task; ranks one after the other; of each stage */
  bool spread;               /* replica after replica lies on the ranks, not stage after stage */
  RengaShard shard;
  const ChunkKind *kind;
  double estimate; /* seconds of a step, about and mostly too few */
} ChunkTrial;

/* Those with the smallest estimates, in their order. */
typedef struct {
  int count;
  ChunkTrial row[CHUNK_TRIALS];
} ChunkTrials;

static void AddTrial(ChunkTrials *trials, const ChunkTrial *trial)
{
  int at = trials->count;
  while (at > 0 && trials->row[at - 1].estimate > trial->estimate) at--;
  if (at == CHUNK_TRIALS) return;
  const int last = trials->count < CHUNK_TRIALS ? trials->count++ : CHUNK_TRIALS - 1;
  for (int i = last; i > at; i--) trials->row[i] = trials->row[i - 1];
  trials->row[at] = *trial;
}

/* Stages are of one shape. */
static RengaStageShape ShapeOfChunks(const Solution *solution, const ChunkTrial *trial)
{
  RengaStageShape shape = RengaStageShapePlain(trial->replicas);
  shape.sequence = solution->layout.stage[0].shape.sequence;
  shape.tensor = solution->layout.stage[0].shape.tensor;
  shape.chunks = trial->kind->chunks;
  shape.precision = solution->layout.stage[0].shape.precision;
  shape.shard = trial->replicas > 1 ? trial->shard : solution->task->shards.least;
  return shape;
}

/* The most that stages share that were found, of what they may. */
static RengaShard ShardFound(const Solution *solution)
{
  const SearchShards *may = &solution->task->shards;
  RengaShard shard = may->least;
  for (int s = 0; s < solution->layout.count; s++)
    if (solution->layout.stage[s].shape.shard > shard)
      shard = solution->layout.stage[s].shape.shard;
  return shard < may->most ? shard : may->most;
}

/* What a step takes: the work of the busiest rank for all its micro-batches, what a pipeline waits
   with stages as long as the longest, or one micro-batch's way there and back; latencies, and what
   comes behind. */
static double EstimateChunks(const SearchModel *model, const SearchCandidate *candidate,
                             const ChunkTrial *trial, const SearchDealt *pace)
{
  const ChunkKind *kind = trial->kind;
  const double elements = model->elements[model->count] / trial->across;
  const double hops = trial->across * kind->chunks - 1;
  const double waits = (trial->across - 1) * kind->chunks *
                       (kind->forwards * pace->forward + kind->works * pace->longest);
  const double path = RengaSearchWork_Private(model) - model->weight[model->count];
  double step = fmax(path, (double)candidate->rounds * pace->busiest + waits) +
                2 * hops * candidate->message_latency;
  if (trial->replicas > 1)
    step += candidate->reduce_latency +
            candidate->reduce_rate * candidate->bytes.gradient * elements / kind->chunks;
  return step + model->update_rate * elements / candidate->updaters;
}

/* What a rank holds on the average, or a little less, is no more than there is. */
static bool MayFitChunks(const SearchModel *model, const SearchCandidate *candidate, double memory,
                         const ChunkTrial *trial)
{
  const double elements = model->elements[model->count], p = trial->across;
  const double held = fmin((double)candidate->rounds, p);
  const double bytes =
      (candidate->bytes.parameter + candidate->bytes.gradient * candidate->least_buffers) *
          elements +
      held * candidate->bytes.saved * model->saved[model->count];
  return memory <= 0 || chunk_saved_least * bytes / p <= memory;
}

/* The trial's stages, as they are cut best. */
static RengaErrorCode CutChunks(const Solution *solution, const SearchModel *model,
                                const ChunkTrial *trial, SearchLayout *layout)
{
  const int count = trial->across * trial->kind->chunks;
  RengaSearchLayoutFree_Private(layout);
  RengaCall(RengaMalloc(count, &layout->stage));
  layout->count = count;
  layout->chunks = trial->kind->chunks;
  layout->wave = trial->kind->wave;
  for (int s = 0; s < count; s++)
    layout->stage[s] = (SearchStage){.shape = ShapeOfChunks(solution, trial)};
  RengaCall(RengaSearchDeal_Private(model, layout));
  return RENGA_SUCCESS;
}

/* However it is cut. */
static SearchDealt PaceAtBest(const SearchModel *model, const ChunkTrial *trial)
{
  const double p = trial->across, stages = p * trial->kind->chunks;
  SearchDealt pace = {.longest = RengaSearchWork_Private(model) / stages,
                      .forward = model->forward[model->count] / stages};
  for (int c = 0; c < model->count; c++) {
    pace.longest = fmax(pace.longest, RengaSearchWorkBefore_Private(model, c + 1) -
                                          RengaSearchWorkBefore_Private(model, c));
    pace.forward = fmax(pace.forward, model->forward[c + 1] - model->forward[c]);
  }
  pace.busiest = fmax(pace.longest, RengaSearchWork_Private(model) / p);
  return pace;
}

static bool IsTimeOver(const SearchTask *task)
{
  return task->until > 0 && MPI_Wtime() > task->until;
}

static double ActionsOf(const SearchTask *task, const ChunkTrial *trial)
{
  const int64_t size = task->size[trial->row];
  const double stages = trial->across * trial->kind->chunks;
  return (double)((task->batch + size - 1) / size) * 6 * stages;
}

/* Added where it promises enough, first by any cuts, then by its own, which are made where those
   of the kind before lie otherwise. */
static RengaErrorCode ListChunkKind(const Solution *solution, const SearchModel *model,
                                    SearchLayout *layout, ChunkTrial *trial, ChunkTrials *trials)
{
  const double most = (1 - solution->task->chunk_gain) * solution->step;
  const RengaStageShape shape = ShapeOfChunks(solution, trial);
  const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &shape);
  SearchDealt pace = PaceAtBest(model, trial);
  if (EstimateChunks(model, &candidate, trial, &pace) >= most) return RENGA_SUCCESS;
  if (!MayFitChunks(model, &candidate, solution->task->memory, trial)) return RENGA_SUCCESS;
  if (ActionsOf(solution->task, trial) > chunk_actions) return RENGA_SUCCESS;
  if (layout->chunks != trial->kind->chunks || layout->wave != trial->kind->wave)
    RengaCall(CutChunks(solution, model, trial, layout));
  pace = RengaSearchDealt_Private(model, layout);
  trial->estimate = EstimateChunks(model, &candidate, trial, &pace);
  if (trial->estimate < most) AddTrial(trials, trial);
  return RENGA_SUCCESS;
}

/* All kinds of so many ranks one after the other. */
static RengaErrorCode ListChunkKinds(const Solution *solution, const SearchModel *model,
                                     ChunkTrial *trial, ChunkTrials *trials)
{
  SearchLayout layout = {0};
  RengaErrorCode code = RENGA_SUCCESS;
  for (size_t k = 0; k < sizeof chunk_kinds / sizeof chunk_kinds[0] && !code; k++) {
    trial->kind = &chunk_kinds[k];
    if (trial->across * trial->kind->chunks <= model->count)
      code = ListChunkKind(solution, model, &layout, trial, trials);
  }
  RengaSearchLayoutFree_Private(&layout);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of many ranks those that divide them. As many replicas as there are ranks for, and as have
   micro-batches. */
static RengaErrorCode ListOfModel(const Solution *solution, const SearchModel *model,
                                  ChunkTrial *trial, ChunkTrials *trials)
{
  const int ranks = solution->task->ranks, wanted = solution->task->wanted.replicas;
  const int64_t leaves = (model->microbatches + model->leaf - 1) / model->leaf;
  for (trial->across = 2; trial->across <= ranks && !IsTimeOver(solution->task); trial->across++) {
    const int most = ranks / trial->across;
    if (trial->across > CHUNK_ACROSS_ALL && ranks % trial->across) continue;
    trial->replicas = wanted ? wanted : most < leaves ? most : (int)leaves;
    if (trial->replicas > most) break;
    if (trial->replicas > 1 || (!trial->spread && trial->shard == ShardFound(solution)))
      RengaCall(ListChunkKinds(solution, model, trial, trials));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ListOfRow(const Solution *solution, RengaShard most, int row, bool spread,
                                ChunkTrials *trials)
{
  SearchModel model;
  ChunkTrial trial = {.row = row, .spread = spread, .shard = ShardFound(solution)};
  const bool more = trial.shard < RENGA_SHARD_OPTIMIZER && most >= RENGA_SHARD_OPTIMIZER;
  RengaCall(RengaSearchModelOf_Private(solution->task, solution->chain, row, spread, &model));
  RengaErrorCode code = ListOfModel(solution, &model, &trial, trials);
  trial.shard = RENGA_SHARD_OPTIMIZER;
  if (!code && more) code = ListOfModel(solution, &model, &trial, trials);
  RengaSearchModelFree_Private(&model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Micro-batches up to twice and down to half of those that were found, with their leaf; most: that
   stages may share. */
static RengaErrorCode ListTrials(const Solution *solution, RengaShard most, ChunkTrials *trials)
{
  const SearchTask *task = solution->task;
  const SearchLayout *layout = &solution->layout;
  bool groups = false;
  RengaCall(RengaSearchHasGroups_Private(task, &groups));
  for (int row = 0; row < task->n_sizes; row++) {
    if (task->leaf[row] != layout->leaf || 2 * task->size[row] < layout->microbatch ||
        task->size[row] > 2 * layout->microbatch)
      continue;
    RengaCall(ListOfRow(solution, most, row, false, trials));
    if (groups) RengaCall(ListOfRow(solution, most, row, true, trials));
  }
  return RENGA_SUCCESS;
}

/* Ranks of all replicas of all stages; those of a rank's stages are the same. */
static RengaErrorCode PlaceChunks(const ChunkTrial *trial, int unit, SearchLayout *layout)
{
  const int p = trial->across, r = trial->replicas;
  RengaCall(RengaMalloc(layout->count * r * unit, &layout->rank));
  layout->n_ranks = layout->count * r * unit;
  for (int first = 0; first < p; first++)
    for (int c = 0; c < layout->chunks; c++)
      for (int k = 0; k < r * unit; k++)
        layout->rank[RengaSearchStageOf_Private(layout, first, c) * r * unit + k] =
            (trial->spread ? k / unit * p + first : first * r + k / unit) * unit + k % unit;
  return RENGA_SUCCESS;
}

/* The trial's model, layout and plan. */
static RengaErrorCode DraftChunks(const Solution *solution, const ChunkTrial *trial,
                                  Solution *other)
{
  SearchTask task = *solution->task;
  SearchLayout *layout = &other->layout;
  task.memory = 0; /* stages keep all */
  task.schedule = (SearchSchedule){.type = trial->kind->type};
  RengaCall(RengaSearchModelOf_Private(&task, other->chain, trial->row, false, &other->model));
  RengaCall(CutChunks(solution, &other->model, trial, layout));
  RengaCall(PlaceChunks(trial, RengaSearchUnit_Private(&other->model), layout));
  RengaSearchEvaluate_Private(&other->model, layout);
  RengaCall(RengaSearchPlan_Private(&task, other->chain, layout, &other->plan));
  return RENGA_SUCCESS;
}

/* How far the trials have come. */
typedef struct {
  double seconds; /* of a step, that others must be below */
  int simulated, forecasts;
} ChunkProgress;

static RengaErrorCode ForecastChunks(Solution *other)
{
  const SearchLayout *layout = &other->layout;
  RengaCall(RengaMalloc(layout->count, &other->memory));
  RengaCall(RengaSearchMemory_Private(other->task, &other->model, layout, other->plan,
                                      other->memory, &other->most));
  return RENGA_SUCCESS;
}

static RengaErrorCode JudgeChunks(const Solution *solution, const ChunkTrial *trial,
                                  ChunkProgress *progress, Solution *other, bool *better)
{
  RengaCall(DraftChunks(solution, trial, other));
  RengaCall(RengaSolutionFindStep_Private(other));
  progress->simulated++;
  if (other->step >= progress->seconds) return RENGA_SUCCESS;
  progress->forecasts++;
  RengaCall(ForecastChunks(other));
  *better = RengaSolutionFits_Private(other);
  return RENGA_SUCCESS;
}

/* Where the type has no lists of this shape, or what runs it does not support it, the trial is none
   and no error. */
static RengaErrorCode JudgeQuietly(const Solution *solution, const ChunkTrial *trial,
                                   ChunkProgress *progress, Solution *other, bool *better)
{
  char message[512];
  RengaQuiet quiet;
  *better = false;
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code = JudgeChunks(solution, trial, progress, other, better);
  RengaQuietEnd_Private(&quiet);
  if (code == RENGA_ERR_PLAN || code == RENGA_ERR_SUPPORT) return RENGA_SUCCESS;
  if (code) snprintf(message, sizeof message, "%s", RengaErrorGetMessage());
  RengaCheck(!code, MPI_COMM_SELF, code, "%s", message);
  return RENGA_SUCCESS;
}

/* The row of the same micro-batches with the next larger leaf; -1: there is none. */
static int NextLeaf(const SearchTask *task, int row)
{
  int next = -1;
  for (int r = 0; r < task->n_sizes; r++)
    if (task->size[r] == task->size[row] && task->leaf[r] > task->leaf[row] &&
        (next < 0 || task->leaf[r] < task->leaf[next]))
      next = r;
  return next;
}

/* What the trial makes becomes the best, if it is faster and fits. *ended: larger leaves are of no
   use, as it does, or is not faster. */
static RengaErrorCode TryChunkRow(const Solution *solution, const ChunkTrial *trial,
                                  ChunkProgress *progress, Solution *best, bool *ended)
{
  Solution other = {.task = solution->task, .chain = solution->chain};
  bool better = false;
  const RengaErrorCode code = JudgeQuietly(solution, trial, progress, &other, &better);
  *ended = better || !other.memory; /* nobody asked for the memory of a slower one */
  if (better) {
    RengaSolutionFree_Private(best);
    *best = other;
    progress->seconds = other.step;
  } else {
    RengaSolutionFree_Private(&other);
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* With larger leaves, which need fewer buffers, where it does not fit. */
static RengaErrorCode TryChunkTrial(const Solution *solution, const ChunkTrial *trial,
                                    ChunkProgress *progress, Solution *best)
{
  ChunkTrial own = *trial;
  const int forecasts = progress->forecasts;
  bool ended = false;
  for (; own.row >= 0 && !ended; own.row = NextLeaf(solution->task, own.row))
    RengaCall(TryChunkRow(solution, &own, progress, best, &ended));
  if (progress->forecasts > forecasts) progress->forecasts = forecasts + 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode TryChunkTrials(const Solution *solution, const ChunkTrials *trials,
                                     int *simulated, Solution *best)
{
  ChunkProgress progress = {.seconds = (1 - solution->task->chunk_gain) * solution->step};
  double left = chunk_actions;
  for (int i = 0; i < trials->count && progress.forecasts < CHUNK_FORECASTS; i++) {
    const ChunkTrial *trial = &trials->row[i];
    const double actions = ActionsOf(solution->task, trial);
    if (trial->estimate >= chunk_near * progress.seconds || IsTimeOver(solution->task)) break;
    if (actions > left) continue;
    left -= actions;
    RengaCall(TryChunkTrial(solution, trial, &progress, best));
  }
  *simulated = progress.simulated;
  return RENGA_SUCCESS;
}

/* What recomputes is not chosen for several stages of a rank, nor is the number of stages that the
   user gives that of the plan; what exchanges of tensor-parallel ranks take is not estimated well
   enough. */
static bool MayHaveChunks(const SearchTask *task)
{
  if (task->unit > 1) return false;
  return task->chunk_gain > 0 && task->lanes.ranks <= 1 && task->any_schedule && !task->given &&
         !task->finder.find && task->ranks > 1 && !task->wanted.stages &&
         (!task->fixes_saved || task->saved == RENGA_SAVED_KEEP) &&
         task->shards.least < RENGA_SHARD_GRADIENTS;
}

/* The step that was found; an estimate of one is not compared with those of trials. */
static bool IsSimulated(const Solution *solution)
{
  return RengaSearchMaySimulate_Private(&solution->model, &solution->layout,
                                        2 * (solution->layout.count - 1));
}

RengaErrorCode RengaSolutionChunk_Private(Solution *solution, const SearchTask *task)
{
  ChunkTrials trials = {0};
  Solution best = {0}, found = *solution;
  SolutionChunks chunks = {.looked = true, .without = solution->step};
  if (solution->folds_too) found.task = task;
  if (!MayHaveChunks(found.task) || !IsSimulated(solution)) return RENGA_SUCCESS;
  RengaCall(ListTrials(&found, task->shards.most, &trials));
  const RengaErrorCode code = TryChunkTrials(&found, &trials, &chunks.tried, &best);
  if (code) RengaSolutionFree_Private(&best);
  RengaCall(code);
  chunks.taken = best.plan != NULL;
  if (chunks.taken) {
    best.bound = solution->bound;
    best.proved = solution->proved;
    best.shards_too = solution->shards_too;
    best.tried_folds = solution->tried_folds;
    RengaSolutionFree_Private(solution);
    *solution = best;
  }
  solution->chunks = chunks;
  return RENGA_SUCCESS;
}
