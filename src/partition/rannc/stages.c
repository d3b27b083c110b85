/* Stage level: intervals of blocks and their replicas by a dynamic program, from the last stage to
   the first, so that one run gives all numbers of stages. A state is what is left: the first block
   and the devices used. Two ends of a pipeline of which one has the slower forward and the other
   the slower backward may both begin the best pipeline: each state keeps the Pareto front of
   (forward, backward, reduction), which makes the program exact for
     (micro-batches + stages - 1) (slowest forward + slowest backward) + longest reduction.
   In fill and drain not all stages work, and RaNNC's estimate is less than that: of all pipelines
   that the fronts leave, the one with the least estimate is taken, and its cuts and replicas are
   moved as long as that helps. Any number of replicas may be taken, and devices may stay idle.
   Near a known pipeline the program is quick with any number of blocks. */
#include "rannc.h"
#include <math.h>
#include <string.h>

/* The slowest of stages [this one, last]; next: the label of the stages after this one. */
typedef struct {
  RanncCost most;
  double sum; /* of their forwards and backwards */
  int end, option, next;
} StagingLabel;

/* Labels of a state lie side by side: [first, first + count). */
typedef struct {
  int first, count;
} Front;

typedef struct {
  const RanncTask *task;
  int n_labels, capacity;
  StagingLabel *label;
  int n_found, room;
  StagingLabel *found; /* the front that is being made */
  int n_devices;       /* rows of devices in a state; 1: they follow from the stages */
  Front *front;        /* [stages + 1][blocks + 1][n_devices] */
  bool *reached;       /* [stages + 1][blocks + 1] some front of these is not empty */
  RanncCost *cost;     /* [blocks + 1][options] of the stages that begin at a block */
  bool *fits;          /* the same */
  RanncStaging best, trial;
} StagingProgram;

static int64_t RowOf(const StagingProgram *program, int stages, int block)
{
  return (int64_t)stages * (program->task->blocks + 1) + block;
}

static Front *FrontOf(const StagingProgram *program, int stages, int block, int devices)
{
  return program->front + RowOf(program, stages, block) * program->n_devices +
         devices % program->n_devices;
}

/* Blocks between which a stage may begin, with so many stages from it to the last. */
typedef struct {
  int first, last;
} StagingRange;

static StagingRange BeginsOf(const RanncTask *task, int stages)
{
  const RanncStaging *near = task->near;
  if (stages == 0) return (StagingRange){task->blocks, task->blocks};
  if (!near) return (StagingRange){0, task->blocks - 1};
  if (stages == near->count) return (StagingRange){0, 0};
  const int begin = near->begin[near->count - stages];
  const int first = begin - task->reach, last = begin + task->reach;
  return (StagingRange){first > 0 ? first : 0, last < task->blocks ? last : task->blocks - 1};
}

static StagingRange OptionsOfStages(const RanncTask *task, int stages)
{
  if (!task->near) return (StagingRange){0, task->n_options - 1};
  const int option = task->near->option[task->near->count - stages];
  return (StagingRange){option, option};
}

/* No pipeline with this end, which begins at the block, has a shorter step by RaNNC's estimate: the
   slowest stage works in as many steps as there are micro-batches, and each other one has a step
   before or after these in which nothing else is known to work. */
static double Bound(const StagingProgram *program, const StagingLabel *label, int block)
{
  const RanncTask *task = program->task;
  const double before = task->work ? task->share * task->work[block] : 0;
  return (double)(task->microbatches - 1) * (label->most.forward + label->most.backward) +
         label->sum + before + label->most.reduce;
}

/* The step that pipelines must be faster than. */
static double Limit(const StagingProgram *program)
{
  if (program->best.count) return program->best.seconds;
  return program->task->known > 0 ? program->task->known : HUGE_VAL;
}

static bool Dominates(const RanncCost *a, const RanncCost *b)
{
  return a->forward <= b->forward && a->backward <= b->backward && a->reduce <= b->reduce;
}

/* Into the front that is being made, unless another is as good in all; those that it betters go. */
static RengaErrorCode AddLabel(StagingProgram *program, const StagingLabel *label)
{
  int kept = 0;
  for (int i = 0; i < program->n_found; i++)
    if (Dominates(&program->found[i].most, &label->most)) return RENGA_SUCCESS;
  for (int i = 0; i < program->n_found; i++)
    if (!Dominates(&label->most, &program->found[i].most))
      program->found[kept++] = program->found[i];
  if (kept == program->room) {
    program->room = 2 * program->room + 16;
    RengaCall(RengaRealloc(program->room, &program->found));
  }
  program->found[kept++] = *label;
  program->n_found = kept;
  return RENGA_SUCCESS;
}

/* Places the finished front behind all others. */
static RengaErrorCode StoreFront(StagingProgram *program, Front *front)
{
  *front = (Front){program->n_labels, program->n_found};
  while (program->n_labels + program->n_found > program->capacity) {
    program->capacity = 2 * program->capacity + 1024;
    RengaCall(RengaRealloc(program->capacity, &program->label));
  }
  memcpy(program->label + program->n_labels, program->found,
         (size_t)program->n_found * sizeof *program->found);
  program->n_labels += program->n_found;
  program->n_found = 0;
  return RENGA_SUCCESS;
}

/* The stage from a block to block `end` on an option, before every way to go on. */
static RengaErrorCode ExtendFront(StagingProgram *program, int stages, int devices, int block,
                                  int end, int option)
{
  const RanncTask *task = program->task;
  const RanncCost *cost = &program->cost[(int64_t)end * task->n_options + option];
  const Front *after = FrontOf(program, stages - 1, end, devices - task->replicas[option]);
  for (int l = after->first; l < after->first + after->count; l++) {
    const RanncCost *most = &program->label[l].most;
    const StagingLabel label = {.most = {fmax(cost->forward, most->forward),
                                         fmax(cost->backward, most->backward),
                                         fmax(cost->reduce, most->reduce)},
                                .sum = program->label[l].sum + cost->forward + cost->backward,
                                .end = end,
                                .option = option,
                                .next = l};
    if (Bound(program, &label, block) >= Limit(program)) continue;
    RengaCall(AddLabel(program, &label));
  }
  return RENGA_SUCCESS;
}

static void CostStages(StagingProgram *program, int stages, int block)
{
  const RanncTask *task = program->task;
  const StagingRange ends = BeginsOf(task, stages - 1), options = OptionsOfStages(task, stages);
  for (int end = ends.first > block ? ends.first : block + 1; end <= task->blocks; end++)
    for (int o = options.first; o <= options.last; o++) {
      const int64_t at = (int64_t)end * task->n_options + o;
      program->fits[at] = program->reached[RowOf(program, stages - 1, end)] &&
                          task->cost(task->context, block, end, o, stages, &program->cost[at]);
    }
}

static void TraceStaging(const StagingProgram *program, int l, int stages, RanncStaging *staging)
{
  const StagingLabel *label = &program->label[l];
  staging->count = stages;
  for (int s = 0, begin = 0; s < stages; s++) {
    staging->begin[s] = begin;
    staging->option[s] = label->option;
    begin = label->end;
    label = &program->label[label->next];
  }
}

static void CopyStaging(const RanncStaging *from, RanncStaging *to)
{
  to->count = from->count;
  to->seconds = from->seconds;
  memcpy(to->begin, from->begin, (size_t)from->count * sizeof *from->begin);
  memcpy(to->option, from->option, (size_t)from->count * sizeof *from->option);
}

static void KeepLabel(StagingProgram *program)
{
  RanncStaging *best = &program->best, *trial = &program->trial;
  if (!RengaRanncEstimate_Private(program->task, trial, &trial->seconds)) return;
  if (trial->seconds < Limit(program)) CopyStaging(trial, best);
}

/* Whole pipelines. */
static void FinishStaging(StagingProgram *program, int stages, const Front *front)
{
  if (program->task->given && stages != program->task->stages) return;
  for (int l = front->first; l < front->first + front->count; l++) {
    if (Bound(program, &program->label[l], 0) >= Limit(program)) continue;
    TraceStaging(program, l, stages, &program->trial);
    KeepLabel(program);
  }
}

static RengaErrorCode MakeState(StagingProgram *program, int stages, int block, int devices)
{
  const RanncTask *task = program->task;
  const StagingRange ends = BeginsOf(task, stages - 1), options = OptionsOfStages(task, stages);
  for (int end = ends.last; end >= ends.first && end > block; end--)
    for (int o = options.first; o <= options.last && task->replicas[o] <= devices; o++)
      if (program->fits[(int64_t)end * task->n_options + o])
        RengaCall(ExtendFront(program, stages, devices, block, end, o));
  Front *front = FrontOf(program, stages, block, devices);
  RengaCall(StoreFront(program, front));
  if (front->count) program->reached[RowOf(program, stages, block)] = true;
  if (block == 0) FinishStaging(program, stages, front);
  return RENGA_SUCCESS;
}

/* What is before the block is too much for the devices that these stages leave. */
static bool IsStagingHopeless(const StagingProgram *program, int stages, int block)
{
  const RanncTask *task = program->task;
  const int left = task->devices - stages * task->replicas[0];
  if (block == 0) return false;
  if (left <= 0) return true;
  return task->work && (double)task->microbatches * task->work[block] / left >= Limit(program);
}

/* Stages of one number more than those that are known. The first block of all comes first: what it
   finds prunes the others. */
static RengaErrorCode AddStage(StagingProgram *program, int stages)
{
  const RanncTask *task = program->task;
  const StagingRange begins = BeginsOf(task, stages);
  const int fewest = program->n_devices == 1 ? task->devices : stages;
  for (int block = begins.first; block <= begins.last; block++) {
    if (IsStagingHopeless(program, stages, block)) continue;
    CostStages(program, stages, block);
    for (int devices = fewest; devices <= task->devices; devices++)
      RengaCall(MakeState(program, stages, block, devices));
  }
  return RENGA_SUCCESS;
}

static int MostBlocksStages(const RanncTask *task)
{
  const int devices = task->devices / task->replicas[0];
  const int most = task->blocks < devices ? task->blocks : devices;
  return task->stages && task->stages < most ? task->stages : most;
}

static RengaErrorCode AllocateProgram(const RanncTask *task, StagingProgram *program)
{
  const int64_t costs = (int64_t)(task->blocks + 1) * task->n_options;
  program->n_devices = task->n_options == 1 || task->near ? 1 : task->devices + 1;
  const int64_t states = (int64_t)(MostBlocksStages(task) + 1) * (task->blocks + 1);
  RengaCall(RengaMalloc(costs, &program->cost));
  RengaCall(RengaMalloc(costs, &program->fits));
  RengaCall(RengaMalloc(states * program->n_devices, &program->front));
  RengaCall(RengaMalloc(states, &program->reached));
  RanncStaging *const stagings[] = {&program->best, &program->trial};
  for (int i = 0; i < 2; i++) {
    RengaCall(RengaMalloc(MostBlocksStages(task), &stagings[i]->begin));
    RengaCall(RengaMalloc(MostBlocksStages(task), &stagings[i]->option));
  }
  const StagingLabel none = {.next = -1};
  RengaCall(AddLabel(program, &none));
  RengaCall(StoreFront(program, FrontOf(program, 0, task->blocks, 0)));
  program->reached[RowOf(program, 0, task->blocks)] = true;
  return RENGA_SUCCESS;
}

static void FreeProgram(StagingProgram *program)
{
  RengaFree(&program->label);
  RengaFree(&program->found);
  RengaFree(&program->front);
  RengaFree(&program->reached);
  RengaFree(&program->cost);
  RengaFree(&program->fits);
  RengaRanncStagingFree_Private(&program->best);
  RengaRanncStagingFree_Private(&program->trial);
}

static int CountDevices(const RanncTask *task, const RanncStaging *staging)
{
  int devices = 0;
  for (int s = 0; s < staging->count; s++) devices += task->replicas[staging->option[s]];
  return devices;
}

/* The best one with one number changed, if it is still a pipeline; true: it became the best. */
static bool TryChange(StagingProgram *program, int *number, int by)
{
  const RanncTask *task = program->task;
  const RanncStaging *trial = &program->trial;
  const double before = program->best.seconds;
  bool valid = true;
  *number += by;
  for (int s = 0; s < trial->count; s++) {
    const int end = s + 1 < trial->count ? trial->begin[s + 1] : task->blocks;
    valid = valid && trial->begin[s] < end && trial->option[s] >= 0 &&
            trial->option[s] < task->n_options;
  }
  if (valid && CountDevices(task, trial) <= task->devices) KeepLabel(program);
  if (program->best.seconds < before) return true;
  *number -= by;
  return false;
}

static void Polish(StagingProgram *program)
{
  RanncStaging *best = &program->best, *trial = &program->trial;
  CopyStaging(best, trial);
  for (bool better = true; better;) {
    better = false;
    for (int s = 0; s < best->count; s++)
      for (int by = -1; by <= 1; by += 2) {
        better = (s > 0 && TryChange(program, &trial->begin[s], by)) || better;
        better = TryChange(program, &trial->option[s], by) || better;
      }
  }
}

RengaErrorCode RengaRanncStages_Private(const RanncTask *task, RanncStaging *best)
{
  StagingProgram program = {.task = task};
  *best = (RanncStaging){0};
  RengaErrorCode code = AllocateProgram(task, &program);
  if (!code && task->near) CopyStaging(task->near, &program.best);
  for (int stages = 1; stages <= MostBlocksStages(task) && !code; stages++)
    code = AddStage(&program, stages);
  if (!code && program.best.count) {
    if (!task->near) Polish(&program);
    *best = program.best;
    program.best = (RanncStaging){0};
  }
  FreeProgram(&program);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaRanncStagingFree_Private(RanncStaging *staging)
{
  RengaFree(&staging->begin);
  RengaFree(&staging->option);
  staging->count = 0;
}

/* Stage s works in steps s … s + micro-batches - 1: the stages of a step are a window that first
   grows, then is whole (or full of the micro-batches), then shrinks. */
bool RengaRanncEstimate_Private(const RanncTask *task, const RanncStaging *staging, double *seconds)
{
  const int64_t steps = task->microbatches + staging->count - 1;
  double whole = 0, reduce = 0;
  bool fits = true;
  *seconds = 0;
  for (int64_t step = 0; step < steps; step++) {
    RanncCost most = {0};
    const bool all = step >= staging->count && step < task->microbatches;
    if (all && whole > 0) {
      *seconds += whole;
      continue;
    }
    for (int s = 0; s < staging->count; s++) {
      if (step < s || step >= s + task->microbatches) continue;
      const int end = s + 1 < staging->count ? staging->begin[s + 1] : task->blocks;
      RanncCost cost;
      fits = task->cost(task->context, staging->begin[s], end, staging->option[s],
                        staging->count - s, &cost) &&
             fits;
      most.forward = fmax(most.forward, cost.forward);
      most.backward = fmax(most.backward, cost.backward);
      reduce = fmax(reduce, cost.reduce);
    }
    if (all) whole = most.forward + most.backward;
    *seconds += most.forward + most.backward;
  }
  *seconds += reduce;
  return fits;
}
