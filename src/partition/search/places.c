/* Where the ranks of a layout may lie on the machine: of all ways to put replicas into the groups
   of its lowest level, those that no other beats. What counts of a way is the level between each
   two stages and the level that holds a stage; one with no level higher is as fast under any
   schedule. */
#include "kinds.h"
#include <string.h>

/* KINDS_FEW: ranks that are put on devices of several kinds in all ways. */
enum { VISITS_MOST = 20000, KEPT_MOST = 256, KINDS_FEW = 4 };

typedef struct {
  RengaMachine machine;
  int count; /* stages */
  const int *replicas;
  int *first; /* [count + 1] rank of the layout */
  int n_groups;
  int unit;         /* ranks of the machine that lie side by side as one device, */
  bool across;      /* some of them on two groups */
  int *group_begin; /* [n_groups + 1] devices of each group */
  int *device_rank; /* [devices] the first rank of each */
  int *at;          /* [ranks] the first of them */
  int n_levels;
  const RengaMachineLevel *levels;
  const SearchKinds *kinds; /* of devices; NULL: all are alike */
  int *used;                /* [n_groups] devices that have a replica */
  int *rank;                /* [ranks] device of each */
  int n_values;             /* levels of a way, and of each stage the kinds that it lies on */
  int *value;               /* [n_values] of this way, then [kept][n_values] */
  int visits;
  SearchPlaces *places;
} Placing;

int RengaSearchLevelBetween_Private(RengaMachine machine, int m, const int from[], int n,
                                    const int to[])
{
  enum { PAIRS_LOOKED_AT = 64 };
  const int pairs = m > n ? m : n, step = pairs > PAIRS_LOOKED_AT ? pairs / PAIRS_LOOKED_AT : 1;
  int widest = 0;
  for (int i = 0; i < pairs; i += step) {
    const int level =
        RengaMachineLevelOf(machine, from[(int64_t)i * m / pairs], to[(int64_t)i * n / pairs]);
    if (level > widest) widest = level;
  }
  return widest;
}

int RengaSearchLevelWithin_Private(RengaMachine machine, int n, const int rank[])
{
  int widest = 0;
  for (int r = 1; r < n; r++) {
    const int level = RengaMachineLevelOf(machine, rank[0], rank[r]);
    if (level > widest) widest = level;
  }
  return widest;
}

static void FindLevels(const Placing *placing, int value[])
{
  int n = 0;
  for (int r = 0; r < placing->first[placing->count]; r++)
    placing->at[r] = placing->device_rank[placing->rank[r]];
  for (int a = 0; a < placing->count; a++) {
    const int *own = placing->at + placing->first[a], m = placing->replicas[a];
    value[n++] = RengaSearchLevelWithin_Private(placing->machine, m, own);
    for (int b = a + 1; b < placing->count; b++)
      value[n++] = RengaSearchLevelBetween_Private(placing->machine, m, own, placing->replicas[b],
                                                   placing->at + placing->first[b]);
  }
  for (int s = 0; s < placing->count && placing->kinds; s++) {
    value[n] = 0;
    for (int r = placing->first[s]; r < placing->first[s + 1]; r++)
      value[n] |= 1 << RengaSearchKindOf_Private(placing->kinds, placing->at[r]);
    n++;
  }
}

/* Ways that differ in the kinds of a stage's devices are both of use. */
static bool NoHigher(const Placing *placing, const int a[], const int b[])
{
  const int levels = placing->n_values - (placing->kinds ? placing->count : 0);
  for (int i = 0; i < levels; i++)
    if (a[i] > b[i]) return false;
  for (int i = levels; i < placing->n_values; i++)
    if (a[i] != b[i]) return false;
  return true;
}

/* Kept unless another is no worse; those that are no better than it go. */
static RengaErrorCode KeepPlacement(Placing *placing)
{
  SearchPlaces *places = placing->places;
  const int ranks = placing->first[placing->count], values = placing->n_values;
  int *own = placing->value, *kept = placing->value + values, left = 0;
  FindLevels(placing, own);
  for (int p = 0; p < places->count; p++)
    if (NoHigher(placing, kept + (int64_t)p * values, own)) return RENGA_SUCCESS;
  for (int p = 0; p < places->count; p++) {
    if (NoHigher(placing, own, kept + (int64_t)p * values)) continue;
    memmove(kept + (int64_t)left * values, kept + (int64_t)p * values,
            (size_t)values * sizeof *kept);
    memmove(places->rank + (int64_t)left * ranks, places->rank + (int64_t)p * ranks,
            (size_t)ranks * sizeof *places->rank);
    left++;
  }
  places->count = left;
  if (left == KEPT_MOST) {
    placing->visits = VISITS_MOST;
    return RENGA_SUCCESS;
  }
  memcpy(kept + (int64_t)left * values, own, (size_t)values * sizeof *kept);
  memcpy(places->rank + (int64_t)left * ranks, placing->rank, (size_t)ranks * sizeof *kept);
  places->count++;
  return RENGA_SUCCESS;
}

static int Capacity(const Placing *placing, int group)
{
  return placing->group_begin[group + 1] - placing->group_begin[group];
}

static int FirstRank(const Placing *placing, int group)
{
  return placing->device_rank[placing->group_begin[group]];
}

static bool Share(const Placing *placing, int level, int a, int b)
{
  return RengaMachineLevelOf(placing->machine, FirstRank(placing, a), FirstRank(placing, b)) <=
         level;
}

/* Devices that are used in the group of a level that has a lowest group, and all that it has. */
static void CountIn(const Placing *placing, int level, int group, int *used, int *all)
{
  int begin = group, end = group + 1;
  while (level > 0 && begin > 0 && Share(placing, level, begin - 1, group)) begin--;
  while (level > 0 && end < placing->n_groups && Share(placing, level, end, group)) end++;
  *used = *all = 0;
  for (int g = begin; g < end; g++) {
    *used += placing->used[g];
    *all += Capacity(placing, g);
  }
}

/* An empty group is as good as an earlier one if what has it, up to what has both, is empty too. */
static bool IsAlike(const Placing *placing, int a, int b)
{
  const int level =
      RengaMachineLevelOf(placing->machine, FirstRank(placing, a), FirstRank(placing, b));
  int used[2], all[2];
  if (level == 0) return false;
  if (placing->kinds && RengaSearchKindOf_Private(placing->kinds, FirstRank(placing, a)) !=
                            RengaSearchKindOf_Private(placing->kinds, FirstRank(placing, b)))
    return false;
  CountIn(placing, level - 1, a, &used[0], &all[0]);
  CountIn(placing, level - 1, b, &used[1], &all[1]);
  return used[0] == 0 && used[1] == 0 && all[0] == all[1];
}

static bool IsRedundant(const Placing *placing, int group)
{
  for (int g = 0; g < group && placing->used[group] == 0; g++)
    if (placing->used[g] == 0 && IsAlike(placing, g, group)) return true;
  return false;
}

/* All ways for the ranks from one on. */
static RengaErrorCode PlaceFrom(Placing *placing, int rank)
{
  if (rank == placing->first[placing->count]) {
    placing->visits++;
    RengaCall(KeepPlacement(placing));
    return RENGA_SUCCESS;
  }
  for (int g = 0; g < placing->n_groups && placing->visits < VISITS_MOST; g++) {
    if (placing->used[g] == Capacity(placing, g) || IsRedundant(placing, g)) continue;
    placing->rank[rank] = placing->group_begin[g] + placing->used[g]++;
    RengaCall(PlaceFrom(placing, rank + 1));
    placing->used[g]--;
  }
  return RENGA_SUCCESS;
}

/* The group that so many devices fit into most closely; -1: into none. */
static int ClosestGroup(const Placing *placing, int devices)
{
  int best = -1;
  for (int g = 0; g < placing->n_groups; g++) {
    const int room = Capacity(placing, g) - placing->used[g];
    const int least = best < 0 ? room : Capacity(placing, best) - placing->used[best];
    if (room >= devices && (best < 0 || room < least)) best = g;
  }
  return best;
}

static int EmptiestGroup(const Placing *placing)
{
  int best = 0;
  for (int g = 1; g < placing->n_groups; g++)
    if (Capacity(placing, g) - placing->used[g] > Capacity(placing, best) - placing->used[best])
      best = g;
  return best;
}

/* Replica r of stage s, or of `by_replica` stage r of replica s, is put beside the others of s. */
static int RankOf(const Placing *placing, bool by_replica, int s, int r)
{
  return by_replica ? placing->first[r] + s : placing->first[s] + r;
}

/* Each stage, or each replica of all stages, into one group, the largest first; those that fit into
   none then where there is most room. */
static RengaErrorCode PackGroups(Placing *placing, bool by_replica)
{
  const int bundles = by_replica ? placing->replicas[0] : placing->count;
  int *left = NULL, n_left = 0, largest = 0;
  for (int s = 0; s < placing->count; s++)
    if (placing->replicas[s] > largest) largest = placing->replicas[s];
  if (by_replica) largest = placing->count;
  RengaCall(RengaMalloc(bundles, &left));
  for (int size = largest; size > 0; size--)
    for (int s = 0; s < bundles; s++) {
      if ((by_replica ? placing->count : placing->replicas[s]) != size) continue;
      const int g = ClosestGroup(placing, size);
      if (g < 0) left[n_left++] = s;
      for (int r = 0; r < size && g >= 0; r++)
        placing->rank[RankOf(placing, by_replica, s, r)] =
            placing->group_begin[g] + placing->used[g]++;
    }
  for (int i = 0; i < n_left; i++) {
    const int size = by_replica ? placing->count : placing->replicas[left[i]];
    for (int r = 0, g = 0; r < size; r++) {
      if (r == 0 || placing->used[g] == Capacity(placing, g)) g = EmptiestGroup(placing);
      placing->rank[RankOf(placing, by_replica, left[i], r)] =
          placing->group_begin[g] + placing->used[g]++;
    }
  }
  memset(placing->used, 0, (size_t)placing->n_groups * sizeof *placing->used);
  RengaFree(&left);
  RengaCall(KeepPlacement(placing));
  return RENGA_SUCCESS;
}

/* The device whose first rank it is; -1: there is none. */
static int DeviceOfRank(const Placing *placing, int rank)
{
  const int count = placing->group_begin[placing->n_groups];
  int device = 0;
  while (device < count && placing->device_rank[device] != rank) device++;
  return device < count ? device : -1;
}

/* Stage after stage on kinds in an order, and replica after replica. */
static RengaErrorCode PlaceInKinds(Placing *placing, const SearchOrder *order, bool equal)
{
  const int ranks = placing->first[placing->count];
  if (order->n_devices < ranks * placing->unit) return RENGA_SUCCESS;
  for (int r = 0; r < ranks; r++) {
    placing->rank[r] = DeviceOfRank(placing, order->device[r * placing->unit]);
    if (placing->rank[r] < 0) return RENGA_SUCCESS;
  }
  RengaCall(KeepPlacement(placing));
  for (int r = 0; r < ranks && equal; r++) {
    const int place = r % placing->replicas[0] * placing->count + r / placing->replicas[0];
    placing->rank[r] = DeviceOfRank(placing, order->device[place * placing->unit]);
  }
  if (equal) RengaCall(KeepPlacement(placing));
  return RENGA_SUCCESS;
}

/* Stage after stage, then replica after replica where all have as many; then packed into nodes. */
static RengaErrorCode PlaceSimply(Placing *placing)
{
  const int ranks = placing->first[placing->count];
  bool equal = true;
  placing->places->count = 0;
  for (int r = 0; r < ranks; r++) placing->rank[r] = r;
  RengaCall(KeepPlacement(placing));
  for (int s = 1; s < placing->count; s++)
    equal = equal && placing->replicas[s] == placing->replicas[0];
  for (int r = 0; r < ranks && equal; r++)
    placing->rank[r] = r % placing->replicas[0] * placing->count + r / placing->replicas[0];
  if (equal) RengaCall(KeepPlacement(placing));
  for (int o = 0; placing->kinds && o < placing->kinds->n_orders; o++)
    RengaCall(PlaceInKinds(placing, &placing->kinds->order[o], equal));
  if (placing->n_groups == 1) return RENGA_SUCCESS;
  RengaCall(PackGroups(placing, false));
  if (equal) RengaCall(PackGroups(placing, true));
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocatePlacing(Placing *placing)
{
  const int ranks = placing->first[placing->count];
  placing->n_values = placing->count * (placing->count + 1) / 2;
  if (placing->kinds) placing->n_values += placing->count;
  RengaCall(RengaMalloc(placing->n_groups + 1, &placing->used));
  RengaCall(RengaMalloc(ranks + 1, &placing->rank));
  RengaCall(RengaMalloc(ranks + 1, &placing->at));
  RengaCall(RengaMalloc((int64_t)(KEPT_MOST + 1) * placing->n_values, &placing->value));
  RengaCall(RengaMalloc((int64_t)KEPT_MOST * ranks, &placing->places->rank));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindRankPlaces(Placing *placing, bool simply)
{
  SearchPlaces *places = placing->places;
  RengaCall(AllocatePlacing(placing));
  RengaCall(PlaceSimply(placing));
  if (placing->n_groups == 1 && !placing->across) return RENGA_SUCCESS;
  places->all = false;
  if (simply || placing->across || (placing->kinds && placing->first[placing->count] > KINDS_FEW))
    return RENGA_SUCCESS;
  RengaCall(PlaceFrom(placing, 0));
  places->all = placing->visits < VISITS_MOST;
  if (!places->all) RengaCall(PlaceSimply(placing));
  return RENGA_SUCCESS;
}

/* Each device becomes the ranks of its tensor group. */
static RengaErrorCode PlaceUnits(const Placing *placing)
{
  SearchPlaces *places = placing->places;
  const int64_t n = (int64_t)places->count * places->ranks, unit = placing->unit;
  int *rank = NULL;
  if (unit == 1) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(n * unit, &rank));
  for (int64_t r = 0; r < n * unit; r++)
    rank[r] = placing->device_rank[places->rank[r / unit]] + (int)(r % unit);
  RengaFree(&places->rank);
  places->rank = rank;
  places->ranks *= placing->unit;
  return RENGA_SUCCESS;
}

/* Devices of some ranks, from rank `first` on. */
static void AddGroup(Placing *placing, int64_t first, int64_t ranks)
{
  int *begin = &placing->group_begin[placing->n_groups++];
  begin[1] = begin[0];
  for (int64_t d = 0; d < ranks / placing->unit; d++)
    placing->device_rank[begin[1]++] = (int)(first + d * placing->unit);
}

/* The nodes of the machine are the groups, as far as the layout needs them; where that leaves too
   few devices, or there are no nodes, all ranks are one. */
static RengaErrorCode FindGroups(Placing *placing, const SearchTask *task)
{
  const int64_t all = (int64_t)task->ranks * placing->unit;
  const int64_t *island = NULL;
  int n_islands = 0;
  int64_t each = all;
  if (task->machine) RengaCall(RengaMachineGetIslands(task->machine, &n_islands, &island));
  if (task->machine && placing->n_levels > 1) each = placing->levels[0].devices;
  RengaCall(RengaMalloc(all + n_islands + 2, &placing->group_begin));
  RengaCall(RengaMalloc(task->ranks + 1, &placing->device_rank));
  for (int64_t first = 0, end; first < all; first = end) {
    end = n_islands > 0 ? island[placing->n_groups + 1] : first + each;
    if (n_islands > 0 && placing->n_groups == n_islands - 1) end = all;
    if (end > all) end = all;
    AddGroup(placing, first, end - first);
  }
  placing->across = placing->group_begin[placing->n_groups] < placing->first[placing->count];
  if (!placing->across) return RENGA_SUCCESS;
  placing->n_groups = 0;
  AddGroup(placing, 0, all);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPlaces_Private(const SearchTask *task, bool simply, int count,
                                         const int replicas[], SearchPlaces *places)
{
  Placing placing = {.machine = task->machine,
                     .count = count,
                     .replicas = replicas,
                     .kinds = task->kinds,
                     .places = places,
                     .unit = task->unit > 1 ? task->unit : 1};
  *places = (SearchPlaces){.all = true};
  if (task->machine)
    RengaCall(RengaMachineGetLevels(task->machine, &placing.n_levels, &placing.levels));
  RengaCall(RengaMalloc(count + 1, &placing.first));
  for (int s = 0; s < count; s++) placing.first[s + 1] = placing.first[s] + replicas[s];
  places->ranks = placing.first[count];
  RengaErrorCode code = FindGroups(&placing, task);
  if (!code) code = FindRankPlaces(&placing, simply);
  if (!code) code = PlaceUnits(&placing);
  RengaFree(&placing.first);
  RengaFree(&placing.group_begin);
  RengaFree(&placing.device_rank);
  RengaFree(&placing.used);
  RengaFree(&placing.rank);
  RengaFree(&placing.at);
  RengaFree(&placing.value);
  if (code) RengaFree(&places->rank);
  RengaCall(code);
  return RENGA_SUCCESS;
}
