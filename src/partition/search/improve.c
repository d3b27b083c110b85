/* A layout made better by small changes, each on trial under every schedule and placement
   (trial.c): cuts moved one by one or two together, devices given from one stage to another, stages
   joined and parted. What is faster is gone on from, until nothing is or the work is done; no clock
   decides.

   Stages with changed replicas are cut anew: as they have to be for the slowest of them to take as
   little as it may (bound.c), and from there where fewer bytes cross. Where even that is slower
   than the best, no layout with these replicas in this order is faster. */
#include "solution.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  PROBES = 24,
  STAGES_FEW = 16,
  WORK_PER_ACTION = 4,
  WORK_PER_ASKED = 16, /* for each place of the chain whose memory is asked for */
  TRIED_FIRST = 256
};
/* Share of the best step up to which other orders are gone on from, in short chains and others. */
static const double near_short = 1.15, near_long = 1.04;

/* A layout that was on trial: none of it is faster than the best was afterwards. */
typedef struct {
  uint64_t hash; /* 0: free */
  double step;
} Tried;

typedef struct {
  SearchTrial trial;
  int64_t work; /* that is left */
  int n_tried, n_slots;
  Tried *tried;     /* [n_slots] open addressing by hash */
  SearchLayout now; /* the best of the trial; room for a stage more each */
  SearchLayout next;
} Climb;

/* Actions of a step, and the nodes that are looked at for messages. */
static int64_t WorkOf(const Climb *climb, int stages)
{
  const SearchModel *model = &climb->trial.model;
  return model->count + WORK_PER_ACTION * model->microbatches * stages;
}

static bool MayGoOn(const Climb *climb)
{
  return climb->work > 0;
}

static void CopyLayoutStages(const SearchLayout *from, SearchLayout *to)
{
  to->count = from->count;
  memcpy(to->stage, from->stage, (size_t)from->count * sizeof *to->stage);
}

static uint64_t HashTried(const SearchLayout *layout)
{
  uint64_t hash = 0;
  for (int s = 0; s < layout->count; s++) {
    const SearchStage *stage = &layout->stage[s];
    const int64_t cut[] = {stage->begin, stage->end};
    hash = RengaHash(cut, sizeof cut, hash);
    hash = RengaHash(&stage->shape, sizeof stage->shape, hash);
  }
  return hash ? hash : 1;
}

/* Where the layout is among those that were tried, or where it goes. */
static Tried *FindTried(const Climb *climb, uint64_t hash)
{
  for (uint64_t at = hash;; at++) {
    Tried *tried = &climb->tried[at % (uint64_t)climb->n_slots];
    if (!tried->hash || tried->hash == hash) return tried;
  }
}

static RengaErrorCode GrowTried(Climb *climb)
{
  const Climb old = *climb;
  if (2 * climb->n_tried < climb->n_slots) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(4 * old.n_slots + TRIED_FIRST, &climb->tried));
  climb->n_slots = 4 * old.n_slots + TRIED_FIRST;
  for (int i = 0; i < old.n_slots; i++)
    if (old.tried[i].hash) *FindTried(climb, old.tried[i].hash) = old.tried[i];
  Tried *tried = old.tried;
  RengaFree(&tried);
  return RENGA_SUCCESS;
}

/* Moves come back to layouts that were tried: such a one is tried again only if the best is slower
   now, as that of another order may be. */
static RengaErrorCode TryOnce(Climb *climb)
{
  const SearchLayout *best = climb->trial.best;
  RengaSearchTakeFirstPolicy_Private(&climb->trial.model, &climb->next);
  const uint64_t hash = HashTried(&climb->next);
  RengaCall(GrowTried(climb));
  Tried *tried = FindTried(climb, hash);
  if (tried->hash && best->simulated <= tried->step) return RENGA_SUCCESS;
  RengaCall(RengaSearchTry_Private(&climb->trial, &climb->next));
  if (!tried->hash) climb->n_tried++;
  *tried = (Tried){.hash = hash, .step = best->simulated};
  return RENGA_SUCCESS;
}

/* climb->next on trial; *faster: it is where the climb is now. */
static RengaErrorCode TryNext(Climb *climb, bool *faster)
{
  SearchLayout *best = climb->trial.best;
  const double before = best->simulated;
  *faster = false;
  if (!MayGoOn(climb)) return RENGA_SUCCESS;
  climb->work -= WorkOf(climb, climb->next.count);
  const struct SearchSession *session = climb->trial.task->session;
  const int64_t asked = session ? session->asked : 0;
  RengaCall(TryOnce(climb));
  if (session && (climb->trial.simply || RengaSearchIsSpent_Private(climb->trial.task)))
    climb->work -= (session->asked - asked) * WORK_PER_ASKED;
  if (best->simulated >= before) return RENGA_SUCCESS;
  *faster = true;
  CopyLayoutStages(best, &climb->now);
  return RENGA_SUCCESS;
}

/* Cuts from one on, so many of them, so many places further. */
static bool ShiftCuts(const SearchLayout *from, int cut, int count, int by, SearchLayout *to)
{
  CopyLayoutStages(from, to);
  for (int s = cut; s < cut + count; s++) {
    to->stage[s].end += by;
    to->stage[s + 1].begin += by;
  }
  for (int s = cut; s <= cut + count; s++)
    if (to->stage[s].begin >= to->stage[s].end) return false;
  return true;
}

static RengaErrorCode MoveTogether(Climb *climb, int count, bool *faster)
{
  static const int distances[] = {1,  -1,  2,  -2,  3,  -3,  4,  -4,  5,  -5,  6,  -6,
                                  7,  -7,  8,  -8,  10, -10, 12, -12, 14, -14, 16, -16,
                                  20, -20, 24, -24, 32, -32, 48, -48, 64, -64};
  for (int cut = 0; cut + count < climb->now.count && MayGoOn(climb); cut++)
    for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
      bool moved = false;
      if (!ShiftCuts(&climb->now, cut, count, distances[i], &climb->next)) continue;
      RengaCall(TryNext(climb, &moved));
      *faster = *faster || moved;
    }
  return RENGA_SUCCESS;
}

/* Whether these stages can be cut so that each takes less than a ceiling; sets where. */
static bool CutUnderWork(const SearchModel *model, double ceiling, SearchLayout *layout)
{
  int end = model->count, behind = 0;
  for (int s = layout->count - 1; s >= 0; s--) {
    const SearchCandidate candidate =
        RengaSearchCandidateOf_Private(model, &layout->stage[s].shape);
    int low = s, high = end;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (RengaSearchStageAtLeast_Private(model, &candidate, middle, end, behind) < ceiling)
        high = middle;
      else
        low = middle + 1;
    }
    if (high >= end) return false;
    layout->stage[s].begin = high;
    layout->stage[s].end = end;
    end = high;
    behind += candidate.devices;
  }
  return end == 0;
}

/* The replicas of climb->next cut anew; false: no layout of them is below the best. */
static bool Balance(Climb *climb, double *least)
{
  const SearchModel *model = &climb->trial.bounded;
  double low = 0, high = climb->trial.best->simulated;
  if (isinf(high) || !CutUnderWork(model, high, &climb->next)) return false;
  for (int probe = 0; probe < PROBES; probe++) {
    const double middle = low + (high - low) / 2;
    if (CutUnderWork(model, middle, &climb->next))
      high = middle;
    else
      low = middle;
  }
  *least = high;
  return CutUnderWork(model, high, &climb->next);
}

/* With cuts for the least, then where fewer bytes cross. */
static RengaErrorCode TryBalanced(Climb *climb, bool *faster)
{
  static const double slacks[] = {0, 0.03, 0.1, 0.2};
  SearchLayout balanced = {0};
  double least;
  if (!Balance(climb, &least)) return RENGA_SUCCESS;
  RengaCall(RengaSearchLayoutCopy_Private(&climb->next, &balanced));
  RengaErrorCode code = RENGA_SUCCESS;
  for (size_t i = 0; i < sizeof slacks / sizeof slacks[0] && !code; i++) {
    bool moved = false;
    CopyLayoutStages(&balanced, &climb->next);
    RengaSearchEvaluate_Private(&climb->trial.model, &climb->next);
    if (slacks[i] > 0) RengaSearchMoveCuts_Private(&climb->trial.model, slacks[i], &climb->next);
    code = TryNext(climb, &moved);
    *faster = *faster || moved;
  }
  RengaSearchLayoutFree_Private(&balanced);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int ReplicasAt(const Climb *climb, int s)
{
  return climb->now.stage[s].shape.replicas;
}

/* One replica has nothing to share. */
static void ChangeReplicas(const Climb *climb, int replicas, RengaStageShape *shape)
{
  shape->replicas = replicas;
  if (replicas == 1) shape->shard = climb->trial.model.listing.shards.least;
}

/* climb->next with so many replicas of a stage more; false: no stage may have as many. */
static bool AddReplicaChanges(Climb *climb, int s, int more)
{
  RengaStageShape *shape = &climb->next.stage[s].shape;
  ChangeReplicas(climb, ReplicasAt(climb, s) + more, shape);
  return RengaSearchMayHave_Private(&climb->trial.model, shape);
}

static bool HasDevices(const Climb *climb)
{
  const SearchModel *model = &climb->trial.model;
  return RengaSearchDevices_Private(&climb->next) <=
         model->devices * RengaSearchUnit_Private(model);
}

/* A replica from one stage to another; to -1: to none, from -1: from the idle ones. */
static RengaErrorCode GiveReplica(Climb *climb, int from, int to, bool *faster)
{
  bool moved = false;
  CopyLayoutStages(&climb->now, &climb->next);
  if (from >= 0 && !AddReplicaChanges(climb, from, -1)) return RENGA_SUCCESS;
  if (to >= 0 && !AddReplicaChanges(climb, to, 1)) return RENGA_SUCCESS;
  if (!HasDevices(climb)) return RENGA_SUCCESS;
  RengaCall(TryNext(climb, &moved));
  *faster = *faster || moved;
  if (moved) return RENGA_SUCCESS;
  RengaCall(TryBalanced(climb, faster));
  return RENGA_SUCCESS;
}

static RengaErrorCode GiveReplicas(Climb *climb, bool *faster)
{
  if (!climb->trial.model.unequal) return RENGA_SUCCESS;
  for (int from = -1; from < climb->now.count && MayGoOn(climb); from++)
    for (int to = -1; to < climb->now.count; to++)
      if (from != to && from < climb->now.count) RengaCall(GiveReplica(climb, from, to, faster));
  return RENGA_SUCCESS;
}

/* A stage and the one behind it as one, with the replicas of both. */
static RengaErrorCode JoinStages(Climb *climb, int s, bool *faster)
{
  const SearchLayout *now = &climb->now;
  CopyLayoutStages(now, &climb->next);
  if (!AddReplicaChanges(climb, s, ReplicasAt(climb, s + 1))) return RENGA_SUCCESS;
  climb->next.stage[s].end = now->stage[s + 1].end;
  memmove(climb->next.stage + s + 1, now->stage + s + 2,
          (size_t)(now->count - s - 2) * sizeof *now->stage);
  climb->next.count--;
  RengaCall(TryBalanced(climb, faster));
  return RENGA_SUCCESS;
}

/* A stage as two, of which the second has so many of the replicas. */
static RengaErrorCode PartStage(Climb *climb, int s, int second, bool *faster)
{
  const SearchLayout *now = &climb->now;
  RengaStageShape part = now->stage[s].shape;
  ChangeReplicas(climb, second, &part);
  if (!RengaSearchMayHave_Private(&climb->trial.model, &part)) return RENGA_SUCCESS;
  CopyLayoutStages(now, &climb->next);
  if (!AddReplicaChanges(climb, s, -second)) return RENGA_SUCCESS;
  memmove(climb->next.stage + s + 2, now->stage + s + 1,
          (size_t)(now->count - s - 1) * sizeof *now->stage);
  climb->next.stage[s + 1] = now->stage[s];
  climb->next.stage[s + 1].shape = part;
  climb->next.count++;
  RengaCall(TryBalanced(climb, faster));
  return RENGA_SUCCESS;
}

static RengaErrorCode ChangeStages(Climb *climb, bool *faster)
{
  const SearchModel *model = &climb->trial.model;
  if (!model->unequal || model->stages) return RENGA_SUCCESS;
  for (int s = 0; s + 1 < climb->now.count && MayGoOn(climb); s++)
    RengaCall(JoinStages(climb, s, faster));
  for (int s = 0; s < climb->now.count && climb->now.count < model->count; s++)
    for (int second = 1; s < climb->now.count && second < ReplicasAt(climb, s); second *= 2)
      RengaCall(PartStage(climb, s, second, faster));
  return RENGA_SUCCESS;
}

/* A stage that shares more, or less. */
static RengaErrorCode ChangeShards(Climb *climb, bool *faster)
{
  const SearchShards shards = climb->trial.model.listing.shards;
  for (int s = 0; s < climb->now.count && MayGoOn(climb); s++)
    for (int level = shards.least; level <= (int)shards.most && shards.least < shards.most;
         level++) {
      bool moved = false;
      CopyLayoutStages(&climb->now, &climb->next);
      RengaStageShape *shape = &climb->next.stage[s].shape;
      if ((int)shape->shard == level) continue;
      shape->shard = (RengaShard)level;
      if (!RengaSearchMayHave_Private(&climb->trial.model, shape)) continue;
      RengaCall(TryNext(climb, &moved));
      *faster = *faster || moved;
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunClimb(Climb *climb, bool cuts_alone)
{
  bool faster = true;
  while (faster && MayGoOn(climb)) {
    faster = false;
    RengaCall(MoveTogether(climb, 1, &faster));
    if (!faster) RengaCall(MoveTogether(climb, 2, &faster));
    if (!faster && !cuts_alone) RengaCall(ChangeShards(climb, &faster));
    if (!faster && !cuts_alone) RengaCall(GiveReplicas(climb, &faster));
    if (!faster && !cuts_alone) RengaCall(ChangeStages(climb, &faster));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateClimb(Climb *climb)
{
  const int most = climb->trial.model.count + 1;
  RengaCall(RengaMalloc(most, &climb->now.stage));
  RengaCall(RengaMalloc(most, &climb->next.stage));
  return RENGA_SUCCESS;
}

/* Of few stages on few devices every order of shapes is gone on from that may lead to what is
   faster, under a step that is near the best. */
typedef struct {
  int count;
  RengaStageShape shape[STAGES_FEW];
  double least;
} Order;

typedef struct {
  int count, size;
  Order *order;
} Orders;

static void TakeOrder(Climb *climb, const Order *order)
{
  climb->next.count = order->count;
  for (int s = 0; s < order->count; s++) climb->next.stage[s].shape = order->shape[s];
}

static RengaErrorCode AddOrder(Climb *climb, const Order *one, Orders *orders)
{
  Order order = *one;
  TakeOrder(climb, &order);
  if (!Balance(climb, &order.least)) return RENGA_SUCCESS;
  if (orders->count == orders->size) {
    orders->size = 2 * orders->size + 64;
    RengaCall(RengaRealloc(orders->size, &orders->order));
  }
  orders->order[orders->count++] = order;
  return RENGA_SUCCESS;
}

/* All that begin with those of the order. */
static RengaErrorCode ListOrders(Climb *climb, int left, Order *order, Orders *orders)
{
  const SearchModel *model = &climb->trial.model;
  const int count = order->count;
  if (count && (!model->stages || count == model->stages))
    RengaCall(AddOrder(climb, order, orders));
  if (count == STAGES_FEW || count == model->count || (model->stages && count == model->stages))
    return RENGA_SUCCESS;
  for (int c = 0; c < model->n_candidates && model->candidate[c].devices <= left; c++) {
    const RengaStageShape *shape = &model->candidate[c].shape;
    if (!model->unequal && count && shape->replicas != order->shape[0].replicas) continue;
    order->shape[order->count++] = *shape;
    RengaCall(ListOrders(climb, left - model->candidate[c].devices, order, orders));
    order->shape[--order->count] = (RengaStageShape){0};
  }
  return RENGA_SUCCESS;
}

static int CompareOrders(const void *a, const void *b)
{
  const Order *x = a, *y = b;
  if (x->least != y->least) return x->least > y->least ? 1 : -1;
  if (x->count != y->count) return x->count - y->count;
  return memcmp(x->shape, y->shape, sizeof x->shape);
}

static RengaErrorCode ClimbOrder(Climb *climb, const Order *order)
{
  SearchLayout *best = climb->trial.best;
  const double share = climb->trial.model.count > SEARCH_SHORT ? near_long : near_short;
  SearchLayout own = {.simulated = share * best->simulated};
  bool found = false;
  if (order->least >= best->simulated) return RENGA_SUCCESS;
  climb->trial.best = &own;
  TakeOrder(climb, order);
  RengaErrorCode code = TryBalanced(climb, &found);
  if (!code && found) code = RunClimb(climb, true);
  climb->trial.best = best;
  if (!code && own.count && own.simulated < best->simulated * (1 - 1e-9)) {
    const SearchLayout old = *best;
    *best = own;
    own = old;
  }
  RengaSearchLayoutFree_Private(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ClimbOrders(Climb *climb)
{
  Orders orders = {0};
  Order order = {.count = 0};
  RengaErrorCode code = ListOrders(climb, climb->trial.model.devices, &order, &orders);
  if (!code && orders.count)
    qsort(orders.order, (size_t)orders.count, sizeof *orders.order, CompareOrders);
  for (int i = 0; i < orders.count && !code && MayGoOn(climb); i++)
    code = ClimbOrder(climb, &orders.order[i]);
  RengaFree(&orders.order);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Improve(Climb *climb, bool orders)
{
  RengaCall(AllocateClimb(climb));
  if (climb->trial.best->count) {
    CopyLayoutStages(climb->trial.best, &climb->now);
    RengaCall(RunClimb(climb, false));
  }
  if (orders) RengaCall(ClimbOrders(climb));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchImprove_Private(const SearchTask *task, const SearchChain *chain,
                                          bool small, int64_t eager_most, int64_t work,
                                          SearchLayout *best)
{
  Climb climb = {.work = work};
  RengaErrorCode code = RengaSearchTrialCreate_Private(task, chain, best, &climb.trial);
  climb.trial.eager_most = eager_most;
  climb.trial.simply = !small;
  climb.trial.climbs = true;
  if (!code) code = Improve(&climb, small);
  RengaSearchTrialFree_Private(&climb.trial);
  RengaFree(&climb.now.stage);
  RengaFree(&climb.next.stage);
  RengaFree(&climb.tried);
  RengaCall(code);
  return RENGA_SUCCESS;
}
