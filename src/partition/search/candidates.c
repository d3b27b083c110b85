/* The shapes that stages of a model may have, each with all of its costs that does not depend on
   the interval: rounds, buffers of gradients, bytes of an element, and what messages and reductions
   cost on the levels of the machine. */
#include "search.h"
#include "renga/private/links.h"
#include "renga/private/op.h"
#include "renga/private/settings.h"
#include "renga/private/sums.h"
#include "rengacomm.h"
#include <math.h>
#include <string.h>

/* Of stages that share gradients, by estimate: buckets whose gradients have not left yet, or whose
   values are there. */
enum { BUCKETS_HELD = 3 };

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

/* Of replicas that share gradients. */
static int GroupsOfShares(const SearchModel *model, int replicas)
{
  const int groups = model->listing.groups;
  return groups > 1 && replicas % groups == 0 ? groups : 1;
}

/* Half of a sum over so many replicas side by side. */
static LinkLine HalfLine(const SearchModel *model, int replicas)
{
  RengaMachine machine = model->listing.machine;
  const double bytes = 64 << 20;
  const int level = LevelOf(model->listing.n_levels, model->listing.levels,
                            (int64_t)replicas * RengaSearchUnit_Private(model));
  LinkLine line = {0, 0};
  if (replicas == 1) return line;
  line.latency = (1 - SEARCH_GATHER) * RengaMachineReduceSeconds(machine, level, replicas, 0);
  line.rate = ((1 - SEARCH_GATHER) * RengaMachineReduceSeconds(machine, level, replicas, bytes) -
               line.latency) /
              bytes;
  return line;
}

/* Sums, and gathers of parameters, go with each micro-batch, for forward and for backward. Of
   groups that add up by themselves the sum over all of them is left for the end. */
static void SetExchangeLinks(const SearchModel *model, SearchCandidate *candidate)
{
  const RengaStageShape *shape = &candidate->shape;
  const int groups = GroupsOfShares(model, shape->replicas);
  LinkLine round = {candidate->reduce_latency, candidate->reduce_rate};
  if (groups > 1) round = HalfLine(model, shape->replicas / groups);
  candidate->exchange_latency = RENGA_BUCKETS_FOLDED * round.latency;
  candidate->exchange_rate = round.rate * candidate->bytes.gradient;
  candidate->reduce_latency = fmax(0, candidate->reduce_latency - round.latency);
  candidate->reduce_rate = fmax(0, candidate->reduce_rate - round.rate);
  if (candidate->shape.shard < RENGA_SHARD_PARAMETERS) return;
  candidate->exchange_latency += 2 * RENGA_BUCKETS_FOLDED * candidate->gather_latency;
  candidate->exchange_rate += 2 * candidate->gather_rate * candidate->bytes.value;
  candidate->gather_latency = candidate->gather_rate = 0;
}

/* Before the gather that follows a sum of shares is taken off. */
static void SetPieces(const SearchModel *model, int level, SearchCandidate *candidate)
{
  RengaMachine machine = model->listing.machine;
  const int replicas = candidate->shape.replicas, unit = RengaSearchUnit_Private(model);
  const RengaSumPieces pieces =
      RengaSearchSumPieces_Private(machine, model, level, replicas, unit, SEARCH_PIECES_MOST);
  const double bytes = 64 << 20;
  const double seconds =
      RengaMachineSumSeconds_Private(machine, level, replicas, unit, bytes, &pieces);
  const double more = seconds - RengaMachineReduceSeconds(machine, level, replicas, bytes);
  candidate->pieces_rate =
      fmax(0, more) / bytes * (candidate->updaters == 1 ? 1 : 1 - SEARCH_GATHER);
}

static void SetLinks(const SearchModel *model, SearchCandidate *candidate)
{
  RengaMachine machine = model->listing.machine;
  const RengaMachineLevel *levels = model->listing.levels;
  const double bytes = 64 << 20;
  const int count = model->listing.n_levels, replicas = candidate->shape.replicas;
  const int unit = RengaSearchUnit_Private(model);
  const int distance = model->listing.spread ? 1 : replicas;
  const LinkLine message = AverageMessage(machine, count, levels, (double)distance * unit);
  candidate->message_latency = message.latency;
  candidate->message_rate = message.rate;
  if (replicas == 1) return;
  const int within = model->listing.spread ? model->devices : replicas;
  const int level = LevelOf(count, levels, (int64_t)within * unit);
  candidate->reduce_latency = RengaMachineReduceSeconds(machine, level, replicas, 0);
  candidate->reduce_rate =
      (RengaMachineReduceSeconds(machine, level, replicas, bytes) - candidate->reduce_latency) /
      bytes;
  if (candidate->shape.shard < RENGA_SHARD_GRADIENTS) SetPieces(model, level, candidate);
  if (candidate->updaters == 1) return;
  candidate->gather_latency = candidate->reduce_latency * SEARCH_GATHER;
  candidate->gather_rate = candidate->reduce_rate * SEARCH_GATHER;
  candidate->reduce_latency -= candidate->gather_latency;
  candidate->reduce_rate -= candidate->gather_rate;
  if (candidate->shape.shard >= RENGA_SHARD_GRADIENTS) SetExchangeLinks(model, candidate);
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

/* Micro-batches of the busiest replica. The last one has the last leaf, which may be short. */
static int64_t Rounds(int64_t microbatches, int64_t leaf, int replicas)
{
  const int64_t leaves = Leaves(microbatches, leaf), most = (leaves + replicas - 1) / replicas;
  const int64_t last = leaves - RengaPlanBound(leaves, replicas, replicas - 1);
  const bool others = replicas > 1 && (leaves % replicas != 1 || last < most);
  return others ? most * leaf : microbatches - (leaves - most) * leaf;
}

static int64_t MicrobatchesOf(int64_t batch, int64_t size)
{
  return (batch + size - 1) / size;
}

/* Of all batches, short ones too, which may take more than the whole one. */
static int BuffersOfRow(const SearchTask *task, int row, int replicas)
{
  const int64_t size = task->size[row], leaf = task->leaf[row];
  int most = 0;
  for (int b = -1; b < task->run.n_short; b++) {
    const int64_t m = MicrobatchesOf(b < 0 ? task->batch : task->run.short_batch[b], size);
    const int buffers = Buffers(Leaves(m, leaf), leaf > 1, replicas);
    if (buffers > most) most = buffers;
  }
  return most;
}

/* Replicas of which leaves are compared: those that are wanted, or of equal stages on all ranks. So
   many stages as are wanted may leave ranks idle. */
static bool AreCompared(const SearchTask *task, int replicas)
{
  if (task->wanted.replicas) return replicas == task->wanted.replicas;
  return task->wanted.stages || task->ranks % replicas == 0;
}

/* The leaf of one row does all that the other's does, with as few rounds and buffers for them. */
static bool ReplacesLeaf(const SearchTask *task, int one, int other)
{
  const int64_t m = MicrobatchesOf(task->batch, task->size[one]);
  const int64_t leaf = task->leaf[one], other_leaf = task->leaf[other];
  bool fewer = leaf < other_leaf;
  for (int replicas = 1; replicas <= task->ranks && replicas <= Leaves(m, other_leaf); replicas++) {
    if (!AreCompared(task, replicas)) continue;
    const int64_t rounds = Rounds(m, leaf, replicas), others = Rounds(m, other_leaf, replicas);
    const int buffers = BuffersOfRow(task, one, replicas);
    const int other_buffers = BuffersOfRow(task, other, replicas);
    if (Leaves(m, leaf) < replicas || rounds > others || buffers > other_buffers) return false;
    fewer = fewer || rounds < others || buffers < other_buffers;
  }
  return fewer;
}

bool RengaSearchIsLeafUseless_Private(const SearchTask *task, int row)
{
  for (int r = 0; r < task->n_sizes; r++)
    if (r != row && task->size[r] == task->size[row] && ReplacesLeaf(task, r, row)) return true;
  return false;
}

static double ShareOf(RengaDataType type, RengaDataType network)
{
  return (double)RengaDataTypeSize(type) / (double)RengaDataTypeSize(network);
}

/* Bytes follow from the table of precisions, in this place alone; own: the network's, of which the
   sums of its models are. */
RengaErrorCode RengaSearchFindBytes_Private(RengaPrecision own, RengaPrecision precision,
                                            int moments, SearchBytes *bytes)
{
  RengaStorage storage, network;
  int64_t parameter;
  RengaCall(RengaPrecisionGetStorage(own, &network));
  RengaCall(RengaPrecisionGetStorage(precision, &storage));
  RengaCall(RengaStorageCountParameterBytes(&storage, moments, &parameter));
  *bytes = (SearchBytes){.parameter = (double)parameter,
                         .shared = (double)parameter - (double)RengaDataTypeSize(storage.value),
                         .value = (double)RengaDataTypeSize(storage.value),
                         .gradient = (double)RengaDataTypeSize(storage.gradient),
                         .state = (double)RengaDataTypeSize(RENGA_FLOAT32),
                         .saved = ShareOf(storage.saved, network.saved),
                         .message = ShareOf(storage.message, network.message)};
  return RENGA_SUCCESS;
}

void RengaSearchSetPolicies_Private(bool recompute, SearchModel *model)
{
  model->policies =
      (SearchPolicies){.count = 1 + recompute, .saved = {RENGA_SAVED_KEEP, RENGA_SAVED_RECOMPUTE}};
}

bool RengaSearchNextPolicy_Private(const SearchModel *model, RengaSaved *saved)
{
  const SearchPolicies *policies = &model->policies;
  int p = 0;
  while (p < policies->count && policies->saved[p] != *saved) p++;
  if (p + 1 >= policies->count) return false;
  *saved = policies->saved[p + 1];
  return true;
}

/* Replicas that have a share of masters, moments and the update each. What tied parameters take
   more is left to the runtime to say. */
static int CountUpdaters(const RengaStageShape *shape)
{
  return shape->shard >= RENGA_SHARD_OPTIMIZER ? shape->replicas : 1;
}

static SearchBytes BytesOfShape(const SearchModel *model, const RengaStageShape *shape)
{
  SearchBytes bytes = model->listing.bytes[shape->precision];
  bytes.parameter -= bytes.shared * (1 - 1.0 / CountUpdaters(shape));
  if (shape->shard >= RENGA_SHARD_PARAMETERS)
    bytes.parameter -= bytes.value * (1 - 1.0 / CountUpdaters(shape));
  return bytes;
}

static int LargerCount(int a, int b)
{
  return a > b ? a : b;
}

/* Partial sums of the gradients: the most of all batches. A short batch that has no work for some
   replicas says nothing of how few do. */
static void CountSumBuffers(const SearchModel *model, SearchCandidate *candidate)
{
  const int64_t leaf = model->leaf;
  const int replicas = candidate->shape.replicas;
  candidate->buffers = candidate->least_buffers = 1;
  if (candidate->shape.shard >= RENGA_SHARD_GRADIENTS && replicas > 1) {
    candidate->least_buffers = 0; /* a share of them, and what has not left yet */
    return;
  }
  for (int b = -1; b < model->listing.n_short && model->listing.groups > 0; b++) {
    const int64_t m =
        b < 0 ? model->microbatches
              : (model->listing.short_batch[b] + model->microbatch - 1) / model->microbatch;
    const int64_t leaves = Leaves(m, leaf);
    candidate->buffers = LargerCount(candidate->buffers, Buffers(leaves, leaf > 1, replicas));
    if (leaves >= replicas)
      candidate->least_buffers =
          LargerCount(candidate->least_buffers, LeastBuffers(m, leaf, replicas));
  }
}

/* Of replicas that share gradients a share of the partial sums that are left between rounds, beside
   buckets on their way. */
static double SumBytes(const SearchModel *model, const SearchCandidate *candidate)
{
  const SearchBytes *bytes = &candidate->bytes;
  const int replicas = candidate->shape.replicas;
  if (candidate->shape.shard < RENGA_SHARD_GRADIENTS || replicas == 1)
    return bytes->gradient * candidate->buffers;
  const int64_t rounds = (Leaves(model->microbatches, model->leaf) + replicas - 1) / replicas;
  const int sums = RengaCommTreeBuffers(rounds, model->leaf > 1, 0, rounds);
  const double held = BUCKETS_HELD / model->listing.buckets;
  const double values = candidate->shape.shard >= RENGA_SHARD_PARAMETERS ? bytes->value : 0;
  const int groups = GroupsOfShares(model, replicas);
  const double share = (double)(groups * sums + (groups > 1)) / replicas;
  return bytes->gradient * (share + held) + values * held;
}

static SearchCandidate MakeCandidate(const SearchModel *model, const RengaStageShape *shape)
{
  const int64_t m = model->microbatches, leaf = model->leaf;
  const int replicas = shape->replicas;
  SearchCandidate candidate = {.shape = *shape,
                               .devices = RengaSearchShapeDevices_Private(shape) /
                                          RengaSearchUnit_Private(model),
                               .most_replicas = replicas,
                               .rounds = Rounds(m, leaf, replicas),
                               .updaters = CountUpdaters(shape),
                               .bytes = BytesOfShape(model, shape)};
  CountSumBuffers(model, &candidate);
  candidate.sums = SumBytes(model, &candidate);
  return candidate;
}

/* What goes between replicas with each micro-batch; it is none for one. */
static int ExchangesOf(const SearchCandidate *candidate)
{
  const int level = (int)candidate->shape.shard - (int)RENGA_SHARD_OPTIMIZER;
  return candidate->shape.replicas == 1 || level < 0 ? 0 : level;
}

/* Messages, reductions and gathers need not be compared: with fewer devices neighbours and replicas
   lie no farther apart. But where only one of both gathers, or exchanges more with each
   micro-batch, the other has less to do. */
bool RengaSearchDominates_Private(const SearchCandidate *one, const SearchCandidate *other)
{
  const SearchBytes *a = &one->bytes, *b = &other->bytes;
  return one->devices <= other->devices && one->shape.replicas <= other->shape.replicas &&
         one->rounds <= other->rounds && one->buffers <= other->buffers &&
         one->updaters >= other->updaters && (one->updaters == 1 || other->updaters > 1) &&
         ExchangesOf(one) <= ExchangesOf(other) && one->sums <= other->sums &&
         one->pieces_rate <= other->pieces_rate && a->parameter <= b->parameter &&
         a->gradient <= b->gradient && a->saved <= b->saved && a->message <= b->message;
}

/* Fewer replicas have more rounds, and no more of them that update a share: what dominates a shape
   has so many at the least. */
static int LeastReplicas(const SearchModel *model, const SearchCandidate *own)
{
  int low = 1, high = own->shape.replicas;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (Rounds(model->microbatches, model->leaf, middle) <= own->rounds)
      high = middle;
    else
      low = middle + 1;
  }
  return LargerCount(low, own->updaters);
}

/* The last one that dominates it, NULL: none does. They come by their devices, of which none has
   fewer than replicas. */
static SearchCandidate *FindDominating(SearchModel *model, const SearchCandidate *own)
{
  const int least = LeastReplicas(model, own), unit = RengaSearchUnit_Private(model);
  for (int c = model->candidate ? model->n_candidates - 1 : -1;
       c >= 0 && (int64_t)model->candidate[c].devices * unit >= least; c--)
    if (RengaSearchDominates_Private(&model->candidate[c], own)) return &model->candidate[c];
  return NULL;
}

/* Bounds are of all shapes that are wanted, also of those that a candidate stands for. */
static void StandFor(const SearchCandidate *own, SearchCandidate *candidate)
{
  if (own->most_replicas > candidate->most_replicas) candidate->most_replicas = own->most_replicas;
  if (own->least_buffers < candidate->least_buffers) candidate->least_buffers = own->least_buffers;
}

RengaErrorCode RengaSearchAddCandidate_Private(SearchModel *model, const RengaStageShape *shape)
{
  const int n = model->n_candidates;
  SearchCandidate own = MakeCandidate(model, shape);
  SearchCandidate *better = model->listing.every ? NULL : FindDominating(model, &own);
  if (better) {
    StandFor(&own, better);
    return RENGA_SUCCESS;
  }
  if (!model->candidate || !(n & (n - 1))) RengaCall(RengaRealloc(2 * n + 1, &model->candidate));
  if (model->listing.machine) SetLinks(model, &own);
  model->candidate[model->n_candidates++] = own;
  if (own.devices / shape->replicas > model->listing.widest)
    model->listing.widest = own.devices / shape->replicas;
  return RENGA_SUCCESS;
}

/* Of a number of replicas with each level of sharding. */
static RengaErrorCode ListShards(SearchModel *model, int replicas)
{
  const SearchShards shards = model->listing.shards;
  RengaStageShape shape = RengaStageShapePlain(replicas);
  shape.sequence = model->listing.context > 1 ? model->listing.context : 1;
  shape.tensor = RengaSearchUnit_Private(model) / shape.sequence;
  shape.precision = model->listing.precision;
  shape.shard = shards.least;
  RengaCall(RengaSearchAddCandidate_Private(model, &shape));
  for (; replicas > 1 && shape.shard < shards.most;) {
    shape.shard++;
    RengaCall(RengaSearchAddCandidate_Private(model, &shape));
  }
  return RENGA_SUCCESS;
}

/* The one place that says what varies: replicas, and what they have a share of; all else is plain.
   Shapes come by their devices, ascending. */
static RengaErrorCode ListShapes(SearchModel *model)
{
  const int64_t leaves = Leaves(model->microbatches, model->leaf);
  const int most = (int)(leaves < model->devices ? leaves : model->devices);
  for (int replicas = model->listing.several ? 2 : 1; replicas <= most; replicas++) {
    if (model->replicas && replicas != model->replicas) continue;
    RengaCall(ListShards(model, replicas));
  }
  return RENGA_SUCCESS;
}

/* Up to the first that has all devices: no message of theirs passes others. */
static RengaErrorCode FindLevels(RengaMachine machine, SearchModel *model)
{
  const int64_t devices = (int64_t)model->devices * RengaSearchUnit_Private(model), *island;
  int islands, *count = &model->listing.n_levels;
  const RengaMachineLevel **levels = &model->listing.levels;
  RengaCall(RengaMachineGetLevels(machine, count, levels));
  RengaCall(RengaMachineGetIslands(machine, &islands, &island));
  while (!islands && *count > 1 && (*levels)[*count - 2].devices >= devices) --*count;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchModelCandidates_Private(RengaMachine machine, bool spread,
                                                  SearchModel *model)
{
  bool known = false;
  model->listing.machine = machine;
  model->listing.spread = spread;
  if (machine) RengaCall(FindLevels(machine, model));
  for (int p = 0; p < SEARCH_PRECISIONS; p++)
    RengaCall(RengaSearchFindBytes_Private(model->listing.precision, (RengaPrecision)p,
                                           model->moments, &model->listing.bytes[p]));
  model->n_candidates = model->listing.widest = 0;
  RengaFree(&model->candidate);
  RengaCall(RengaSearchTakeListed_Private(model, &known));
  if (known) return RENGA_SUCCESS;
  RengaCall(ListShapes(model));
  RengaCall(RengaSearchKeepListed_Private(model));
  return RENGA_SUCCESS;
}

/* Every stage's saved tensors have a policy of their own. */
static bool IsOfShape(const SearchCandidate *candidate, const RengaStageShape *shape)
{
  RengaStageShape own = candidate->shape;
  own.saved = shape->saved;
  return RengaStageShapeEqual(&own, shape);
}

/* NULL: it is not listed. Where all numbers of replicas are listed the first look finds it. */
static const SearchCandidate *FindCandidate(const SearchModel *model, const RengaStageShape *shape)
{
  const int devices = RengaSearchShapeDevices_Private(shape) / RengaSearchUnit_Private(model);
  int low = 0, high = model->n_candidates;
  if (devices < 1) return NULL;
  if (devices <= high && IsOfShape(&model->candidate[devices - 1], shape))
    return &model->candidate[devices - 1];
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (model->candidate[middle].devices < devices)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < model->n_candidates && model->candidate[low].devices == devices; low++)
    if (IsOfShape(&model->candidate[low], shape)) return &model->candidate[low];
  return NULL;
}

bool RengaSearchMayHave_Private(const SearchModel *model, const RengaStageShape *shape)
{
  return FindCandidate(model, shape) != NULL;
}

SearchCandidate RengaSearchCandidateOf_Private(const SearchModel *model,
                                               const RengaStageShape *shape)
{
  const SearchCandidate *listed = FindCandidate(model, shape);
  if (listed) return *listed;
  SearchCandidate candidate = MakeCandidate(model, shape);
  if (model->listing.machine) SetLinks(model, &candidate);
  return candidate;
}
