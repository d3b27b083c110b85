/* What the replicas of a stage that share gradients give each other with each micro-batch: its
   gradients, in a reduce-scatter; where they share parameters the values that it reads, in gathers
   of which the runtime says the bytes. */
#include "search.h"
#include "renga/private/links.h"
#include "renga/private/schedule.h"
#include "renga/private/settings.h"
#include "renga/private/sums.h"
#include "rengacomm.h"
#include <math.h>

void RengaSearchSetExchanges_Private(const SearchLayout *layout, const double seconds[],
                                     const int parts[], bool apart,
                                     RengaScheduleDurations *durations)
{
  const double *row = seconds;
  const int count = layout->count;
  durations->first = row + SEARCH_FETCH_FIRST * count;
  durations->fetch[RENGA_ACTION_FORWARD] = row + SEARCH_FETCH_FORWARD * count;
  durations->fetch[RENGA_ACTION_RECOMPUTE] = row + SEARCH_FETCH_AGAIN * count;
  durations->fetch[RENGA_ACTION_BACKWARD] = row + SEARCH_FETCH_BACKWARD * count;
  durations->fetch[RENGA_ACTION_BACKWARD_INPUT] = row + SEARCH_FETCH_BACKWARD * count;
  durations->fetch[RENGA_ACTION_BACKWARD_WEIGHT] = row + SEARCH_FETCH_WEIGHT * count;
  durations->fold = row + SEARCH_FOLD * count;
  durations->parts = parts;
  durations->apart = apart;
}

bool RengaSearchFoldsStage_Private(const SearchStage *stage)
{
  return stage->shape.shard >= RENGA_SHARD_GRADIENTS && stage->shape.replicas > 1;
}

bool RengaSearchFolds_Private(const SearchTask *task, const SearchLayout *layout)
{
  for (int s = 0; s < layout->count; s++)
    if (task->machine && RengaSearchFoldsStage_Private(&layout->stage[s])) return true;
  return false;
}

/* Of stages of which nobody was asked. */
enum { NOT_ASKED = -1 };

void RengaSearchTakeExchanges_Private(const RengaForecastMemory memory[], SearchLayout *layout)
{
  for (int s = 0; s < layout->count; s++) {
    SearchStage *stage = &layout->stage[s];
    stage->exchange = (RengaForecastExchange){0};
    if (!RengaSearchFoldsStage_Private(stage)) continue;
    if (memory)
      stage->exchange = memory[s].exchange;
    else
      stage->exchange.buckets = NOT_ASKED;
  }
}

/* Of so many leaves. */
static RengaSumPieces MeanPieces(RengaMachine machine, int64_t leaves, int level, int replicas,
                                 int64_t each, int most)
{
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  const int own = (int)RengaMachineNodeReplicas_Private(machine, level, replicas, each);
  const int apart = 1 + (replicas - 1) / most;
  const int nodes_apart = own * (1 + (replicas - 1) / own / most);
  int64_t of_ranks = 0, of_nodes = 0, ranks = 0, nodes = 0;
  for (int r = 0; r < replicas; r += apart, ranks++)
    of_ranks += RengaCommTreePieces(leaves, RengaPlanBound(leaves, replicas, r),
                                    RengaPlanBound(leaves, replicas, r + 1), piece);
  for (int r = 0; r < replicas; r += nodes_apart, nodes++)
    of_nodes += RengaCommTreePieces(
        leaves, RengaPlanBound(leaves, replicas, r),
        RengaPlanBound(leaves, replicas, r + own < replicas ? r + own : replicas), piece);
  return (RengaSumPieces){(double)of_ranks / (double)ranks, (double)of_nodes / (double)nodes};
}

/* Partial sums that replicas, and nodes of them, have for others: means of so many at most, as if
   all went straight to the owners. */
RengaSumPieces RengaSearchSumPieces_Private(RengaMachine machine, const SearchModel *model,
                                            int level, int replicas, int64_t each, int most)
{
  const int64_t leaves = (model->microbatches + model->leaf - 1) / model->leaf;
  if (model->listing.groups == 0) return (RengaSumPieces){1, 1};
  return MeanPieces(machine, leaves, level, replicas, each, most);
}

/* Sums whose routes were found. */
enum { SUMS_MOST = 256 };
typedef struct {
  RengaSumRouting routing;
  int replicas, own; /* own: of a node */
  int64_t leaves;
} SumKey;

struct SearchSums {
  int count;
  struct {
    SumKey key;
    double pieces;
  } row[SUMS_MOST];
};

RengaErrorCode RengaSearchSumsCreate_Private(struct SearchSums **sums)
{
  RengaCall(RengaMalloc(1, sums));
  return RENGA_SUCCESS;
}

/* A round is of neighbours in the batch, one for each replica. */
static RengaErrorCode FindPiecesOfNode(const SumKey *key, double *pieces)
{
  int64_t *bounds;
  RengaCall(RengaMalloc(key->replicas + 1, &bounds));
  for (int r = 0; r <= key->replicas; r++)
    bounds[r] = key->routing == RENGA_SUM_FOLD ? r : RengaPlanBound(key->leaves, key->replicas, r);
  const RengaErrorCode code = RengaCommSumPieces_Private(key->routing, key->replicas, key->own,
                                                         key->leaves, bounds, pieces);
  RengaFree(&bounds);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode PiecesOfNode(const SearchModel *model, const SumKey *key, double *pieces)
{
  struct SearchSums *sums = model->listing.sums;
  for (int i = 0; sums && i < sums->count; i++)
    if (sums->row[i].key.routing == key->routing && sums->row[i].key.replicas == key->replicas &&
        sums->row[i].key.own == key->own && sums->row[i].key.leaves == key->leaves) {
      *pieces = sums->row[i].pieces;
      return RENGA_SUCCESS;
    }
  RengaCall(FindPiecesOfNode(key, pieces));
  if (!sums || sums->count == SUMS_MOST) return RENGA_SUCCESS;
  sums->row[sums->count].key = *key;
  sums->row[sums->count++].pieces = *pieces;
  return RENGA_SUCCESS;
}

/* The same by the routes that such a sum takes; of a round of micro-batches where gradients are
   shared, which a node adds up as far as each is a leaf of its own. */
RengaErrorCode RengaSearchRoutedPieces_Private(RengaMachine machine, const SearchModel *model,
                                               const RengaStageShape *shape, int level,
                                               int64_t each, RengaSumPieces *pieces)
{
  const bool folds = shape->shard >= RENGA_SHARD_GRADIENTS;
  const bool ordered = model->listing.groups > 0;
  const int replicas = shape->replicas;
  SumKey key = {.routing = folds                                   ? RENGA_SUM_FOLD
                           : shape->shard == RENGA_SHARD_OPTIMIZER ? RENGA_SUM_HALF
                                                                   : RENGA_SUM_WHOLE,
                .replicas = replicas,
                .own = (int)RengaMachineNodeReplicas_Private(machine, level, replicas, each),
                .leaves = (model->microbatches + model->leaf - 1) / model->leaf};
  if (folds) {
    *pieces = (RengaSumPieces){1, model->leaf > 1 || !ordered ? key.own : 1};
    key.leaves = replicas;
  } else {
    *pieces = RengaSearchSumPieces_Private(machine, model, level, replicas, each, replicas);
  }
  if (!ordered || (folds && model->leaf > 1)) return RENGA_SUCCESS;
  RengaCall(PiecesOfNode(model, &key, &pieces->node));
  return RENGA_SUCCESS;
}

/* Half of a sum over replicas, of so many bytes in so many parts. */
static double HalfSum(const SearchTask *task, int level, int replicas, double bytes, int parts,
                      RengaSumPieces pieces)
{
  static const RengaSumPieces one = {1, 1};
  RengaMachine machine = task->machine;
  const double back = RengaMachineSumSeconds_Private(machine, level, replicas, 1, bytes, &one);
  const double whole = RengaMachineSumSeconds_Private(machine, level, replicas, 1, bytes, &pieces);
  const double more = (parts - 1) * RengaMachineReduceSeconds(machine, level, replicas, 0);
  return bytes > 0 ? whole - (1 - SEARCH_GATHER) * back + SEARCH_GATHER * more : 0;
}

/* Of a stage of which nobody was asked, so that it is no slower: how many buckets are counted, and
   in how many, no fewer, they hide. 0: gradients are not, either, as where stages may recompute:
   their backwards are longer and hide more. */
static int LeastBuckets(const SearchTask *task, double elements, int *most)
{
  const RengaSettings settings = task->run.settings;
  const double bytes = elements * (double)RengaDataTypeSize(RENGA_FLOAT32);
  if (!settings || settings->bucket_size > 0 || task->memory > 0) return 0;
  const int least = settings->buckets > 0 ? settings->buckets : RENGA_BUCKETS_FOLDED;
  const double of_size = fmin(RENGA_BUCKETS_ENOUGH, ceil(bytes / RENGA_BUCKET_SIZE));
  *most = settings->buckets > 0 || of_size < least ? least : (int)of_size;
  return least;
}

/* seconds: [SEARCH_EXCHANGES][stages], zero; parts: [stages] */
RengaErrorCode RengaSearchFindExchanges_Private(const SearchTask *task, const SearchModel *model,
                                                const SearchLayout *layout, RengaPlan plan,
                                                bool nearest, double seconds[], int parts[])
{
  const int count = layout->count;
  const RengaSumPieces one = {1, 1};
  RengaSumPieces pieces;
  for (int s = 0; s < count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const RengaForecastExchange *exchange = &stage->exchange;
    const double elements = model->elements[stage->end] - model->elements[stage->begin];
    const double bytes[SEARCH_EXCHANGES] = {
        [SEARCH_FETCH_FIRST] = (double)exchange->first,
        [SEARCH_FETCH_FORWARD] = (double)exchange->forward,
        [SEARCH_FETCH_AGAIN] = (double)exchange->again,
        [SEARCH_FETCH_BACKWARD] = (double)exchange->backward,
        [SEARCH_FETCH_WEIGHT] = (double)exchange->weight,
        [SEARCH_FOLD] = model->listing.bytes[stage->shape.precision].gradient * elements};
    int level = 0, least = exchange->buckets > 0 ? exchange->buckets : 1;
    parts[s] = least;
    if (!RengaSearchFoldsStage_Private(stage)) continue;
    if (exchange->buckets == NOT_ASKED) least = LeastBuckets(task, elements, &parts[s]);
    if (least == 0) continue;
    RengaCall(RengaSearchLevelOfStage_Private(task, plan, s, 1, nearest, &level));
    for (int e = 0; e < SEARCH_FOLD; e++)
      seconds[e * count + s] = HalfSum(task, level, stage->shape.replicas, bytes[e], least, one);
    RengaStageShape round = stage->shape;
    const int groups =
        RengaSettingsShardGroups_Private(task->run.settings, round.shard, round.replicas);
    round.replicas /= groups;
    if (round.replicas == 1) continue;
    RengaCall(RengaSearchLevelOfStage_Private(task, plan, s, groups, nearest, &level));
    RengaCall(RengaSearchRoutedPieces_Private(task->machine, model, &round, level, 1, &pieces));
    seconds[SEARCH_FOLD * count + s] =
        HalfSum(task, level, round.replicas, bytes[SEARCH_FOLD], least, pieces);
  }
  return RENGA_SUCCESS;
}

/* To what is not simulated: of the stage that takes longest for them, and nothing hides them. */
RengaErrorCode RengaSearchAddExchanges_Private(const SearchTask *task, const SearchModel *model,
                                               const SearchLayout *layout, RengaPlan plan,
                                               bool nearest, double *pipeline)
{
  const int count = layout->count;
  double *seconds = NULL, most = 0;
  int *parts = NULL;
  if (!RengaSearchFolds_Private(task, layout)) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(SEARCH_EXCHANGES * count, &seconds);
  if (!code) code = RengaMalloc(count, &parts);
  if (!code)
    code = RengaSearchFindExchanges_Private(task, model, layout, plan, nearest, seconds, parts);
  for (int s = 0; s < count && !code; s++) {
    double all = 0;
    for (int e = SEARCH_FETCH_FORWARD; e < SEARCH_EXCHANGES; e++) all += seconds[e * count + s];
    most = fmax(most, all * ceil((double)model->microbatches / layout->stage[s].shape.replicas));
  }
  RengaFree(&parts);
  RengaFree(&seconds);
  RengaCall(code);
  *pipeline += most;
  return RENGA_SUCCESS;
}

bool RengaSearchMustAskExchanges_Private(const SearchTask *task, const SearchLayout *layout)
{
  if (!RengaSearchFolds_Private(task, layout)) return false;
  for (int s = 0; s < layout->count; s++)
    if (RengaSearchFoldsStage_Private(&layout->stage[s]) && layout->stage[s].exchange.buckets <= 0)
      return true;
  return false;
}
