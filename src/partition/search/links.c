/* The options of a model: what messages and reductions cost for each number of replicas, on the
   levels of the machine. */
#include "search.h"
#include "rengacomm.h"
#include <math.h>
#include <string.h>

/* The lowest level whose groups hold so many devices side by side. */
static int LevelOf(int count, const RengaMachineLevel levels[], int64_t devices)
{
  int level = 0;
  while (level < count - 1 && levels[level].devices < devices) level++;
  return level;
}

/* Latency and rate of a cost that is (nearly) a straight line of the bytes. */
typedef struct {
  double latency, rate;
} LinkLine;

static LinkLine MessageLine(RengaMachine machine, int level)
{
  const double bytes = 64 << 20;
  LinkLine line = {.latency = RengaMachineMessageSeconds(machine, level, 0)};
  line.rate = (RengaMachineMessageSeconds(machine, level, bytes) - line.latency) / bytes;
  return line;
}

/* Neighbouring stages lie `distance` devices apart: part of such messages leave the group. */
static LinkLine AverageMessage(RengaMachine machine, int count, const RengaMachineLevel levels[],
                               double distance)
{
  LinkLine sum = {0, 0};
  double inside = 1;
  for (int level = 0; level < count; level++) {
    const bool last = level == count - 1;
    const double out = last ? 0 : fmin(1, distance / (double)levels[level].devices);
    const double share = inside * (1 - out);
    const LinkLine line = MessageLine(machine, level);
    sum.latency += share * line.latency;
    sum.rate += share * line.rate;
    inside *= out;
  }
  return sum;
}

static void SetLinks(const SearchModel *model, SearchOption *option)
{
  RengaMachine machine = model->listing.machine;
  const RengaMachineLevel *levels = model->listing.levels;
  const double bytes = 64 << 20;
  const int count = model->listing.n_levels, replicas = option->shape.replicas;
  const LinkLine message =
      AverageMessage(machine, count, levels, model->listing.spread ? 1 : replicas);
  option->message_latency = message.latency;
  option->message_rate = message.rate;
  if (replicas == 1) return;
  const int level = LevelOf(count, levels, model->listing.spread ? model->devices : replicas);
  option->reduce_latency = RengaMachineReduceSeconds(machine, level, replicas, 0);
  option->reduce_rate =
      (RengaMachineReduceSeconds(machine, level, replicas, bytes) - option->reduce_latency) / bytes;
}

static int64_t Leaves(int64_t microbatches, int64_t leaf)
{
  return (microbatches + leaf - 1) / leaf;
}

/* Partial sums that the busiest replicas hold; all of them where they are few. */
static int Buffers(int64_t leaves, bool chains, int replicas)
{
  int most = 1, step = replicas > SEARCH_BUFFERS_MOST ? replicas / SEARCH_BUFFERS_MOST : 1;
  for (int r = 0; r < replicas; r += step) {
    const int buffers = RengaCommTreeBuffers(leaves, chains, RengaPlanBound(leaves, replicas, r),
                                             RengaPlanBound(leaves, replicas, r + 1));
    if (buffers > most) most = buffers;
  }
  return most;
}

/* A replica whose range begins at 0 needs fewest in ascending order: those of the largest whole
   subtree. A last leaf of one micro-batch takes none of its own. */
static int LeastBuffers(int64_t microbatches, int64_t leaf, int replicas)
{
  const int64_t leaves = Leaves(microbatches, leaf), own = RengaPlanBound(leaves, replicas, 1);
  const bool alone = leaf > 1 && own == leaves && microbatches % leaf == 1;
  const int buffers = RengaCommTreeBuffers(leaves, leaf > 1, 0, own);
  return alone && buffers > 1 ? buffers - 1 : buffers;
}

/* Micro-batches of the busiest replica. The last one has the last leaf, which may be short, and as
   many leaves as any. */
static int64_t Rounds(int64_t microbatches, int64_t leaf, int replicas)
{
  const int64_t leaves = Leaves(microbatches, leaf), most = (leaves + replicas - 1) / replicas;
  const bool others = replicas > 1 && leaves % replicas != 1;
  return others ? most * leaf : microbatches - (leaves - most) * leaf;
}

SearchOption RengaSearchOption_Private(int64_t microbatches, int64_t leaf, int replicas)
{
  return (SearchOption){.shape = RengaStageShapePlain(replicas),
                        .most_replicas = replicas,
                        .rounds = Rounds(microbatches, leaf, replicas),
                        .buffers = Buffers(Leaves(microbatches, leaf), leaf > 1, replicas),
                        .least_buffers = LeastBuffers(microbatches, leaf, replicas)};
}

/* What is no faster, and has no fewer buffers, stands for no row of its own. */
static void AddReplicaOption(const SearchOption *own, SearchOption *option)
{
  option->most_replicas = own->shape.replicas;
  if (own->least_buffers < option->least_buffers) option->least_buffers = own->least_buffers;
}

RengaErrorCode RengaSearchModelOptions_Private(RengaMachine machine, bool spread,
                                               SearchModel *model)
{
  const int64_t m = model->microbatches, leaf = model->leaf, leaves = Leaves(m, leaf);
  const int most = (int)(leaves < model->devices ? leaves : model->devices);
  model->listing.machine = machine;
  model->listing.spread = spread;
  if (machine)
    RengaCall(RengaMachineGetLevels(machine, &model->listing.n_levels, &model->listing.levels));
  model->n_options = 0;
  RengaFree(&model->option);
  RengaCall(RengaMalloc(most + 1, &model->option));
  for (int r = 1; r <= most; r++) {
    if (model->replicas && r != model->replicas) continue;
    const SearchOption own = RengaSearchOption_Private(m, leaf, r);
    SearchOption *last = model->n_options > 0 ? &model->option[model->n_options - 1] : NULL;
    if (last && !model->listing.every && own.rounds == last->rounds &&
        own.buffers >= last->buffers) {
      AddReplicaOption(&own, last);
      continue;
    }
    SearchOption *option = &model->option[model->n_options++];
    *option = own;
    if (machine) SetLinks(model, option);
  }
  for (int o = 0; model->unordered && o < model->n_options; o++)
    model->option[o].buffers = model->option[o].least_buffers = 1;
  return RENGA_SUCCESS;
}

/* The row of so many replicas, or the one before which it would stand. Where all numbers are listed
   it is the first that is looked at. */
static int FindOptionRow(const SearchModel *model, int replicas)
{
  int low = 0, high = model->n_options;
  if (replicas <= high && model->option[replicas - 1].shape.replicas == replicas)
    return replicas - 1;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (model->option[middle].shape.replicas < replicas)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool RengaSearchMayHave_Private(const SearchModel *model, int replicas)
{
  if (replicas < 1) return false;
  const int row = FindOptionRow(model, replicas);
  return row < model->n_options && model->option[row].shape.replicas == replicas;
}

SearchOption RengaSearchOptionOf_Private(const SearchModel *model, const RengaStageShape *shape)
{
  if (RengaSearchMayHave_Private(model, shape->replicas))
    return model->option[FindOptionRow(model, shape->replicas)];
  SearchOption option =
      RengaSearchOption_Private(model->microbatches, model->leaf, shape->replicas);
  if (model->listing.machine) SetLinks(model, &option);
  if (model->unordered) option.buffers = option.least_buffers = 1;
  return option;
}
