/* The states of a problem and how they follow from each other. */
#include "keepimpl.h"
#include <stdlib.h>
#include <string.h>

enum { STATES_MOST = 1 << 20, PLACE_MOST = 1 << 12 };

/* What each item makes: made[start[i]] to made[start[i + 1]]. */
static RengaErrorCode ListMade(KeepSearch *search)
{
  const RengaKeepProblem *problem = search->problem;
  int *start = NULL;
  RengaCall(RengaMalloc(problem->items + 2, &search->start));
  RengaCall(RengaMalloc(problem->values + 1, &search->made));
  start = search->start;
  for (int v = 0; v < problem->values; v++)
    if (problem->maker[v] >= 0) start[problem->maker[v] + 2]++;
  for (int i = 2; i < problem->items + 2; i++) start[i] += start[i - 1];
  for (int v = 0; v < problem->values; v++)
    if (problem->maker[v] >= 0) search->made[start[problem->maker[v] + 1]++] = v;
  return RENGA_SUCCESS;
}

/* Those that no bit is left for are taken to be wanted in any case. */
static void GiveBit(KeepSearch *search, int value, uint64_t *used)
{
  int bit = 0;
  if (search->problem->maker[value] < 0 || search->wanted[value] || search->bit[value] >= 0) return;
  while (bit < KEEP_BITS && *used >> bit & 1) bit++;
  if (bit == KEEP_BITS) {
    search->wanted[value] = true;
    search->exact = false;
    return;
  }
  search->bit[value] = bit;
  *used |= UINT64_C(1) << bit;
}

/* A value that may be needed has a bit from the last item that needs it down to the one that makes
   it. */
static RengaErrorCode GiveBits(KeepSearch *search)
{
  const RengaKeepProblem *problem = search->problem;
  uint64_t used = 0;
  RengaCall(RengaMalloc(problem->values + 1, &search->wanted));
  RengaCall(RengaMalloc(problem->values + 1, &search->bit));
  for (int v = 0; v < problem->values; v++) {
    search->wanted[v] = problem->read[v] && problem->maker[v] >= 0;
    search->bit[v] = KEEP_NONE;
  }
  for (int i = problem->items - 1; i >= 0; i--) {
    for (int m = search->start[i]; m < search->start[i + 1]; m++)
      if (search->bit[search->made[m]] >= 0) used &= ~(UINT64_C(1) << search->bit[search->made[m]]);
    for (int n = problem->first[i]; n < problem->first[i + 1]; n++)
      GiveBit(search, problem->need[n], &used);
  }
  return RENGA_SUCCESS;
}

bool RengaKeepIsWanted_Private(const KeepSearch *search, int state, int value)
{
  const int bit = search->bit[value];
  return search->wanted[value] || (bit >= 0 && search->set[state] >> bit & 1);
}

/* Without what the item makes; again: with what it needs. */
static uint64_t SetBefore(const KeepSearch *search, int item, bool again, uint64_t set)
{
  const RengaKeepProblem *problem = search->problem;
  for (int m = search->start[item]; m < search->start[item + 1]; m++)
    if (search->bit[search->made[m]] >= 0) set &= ~(UINT64_C(1) << search->bit[search->made[m]]);
  for (int n = problem->first[item]; again && n < problem->first[item + 1]; n++)
    if (search->bit[problem->need[n]] >= 0) set |= UINT64_C(1) << search->bit[problem->need[n]];
  return set;
}

/* What is wanted of the item before a state's place: whether there is any, its price, and whether
   all of it can be kept. */
static void WeighWanted(const KeepSearch *search, int item, int state, bool *any, bool *can,
                        int64_t *price)
{
  *any = false;
  *can = true;
  *price = 0;
  for (int m = search->start[item]; m < search->start[item + 1]; m++) {
    const int value = search->made[m];
    if (!RengaKeepIsWanted_Private(search, state, value)) continue;
    *any = true;
    *can = *can && search->problem->price[value] >= 0;
    *price += search->problem->price[value];
  }
}

/* The state of a place with this set; it is added where it is not there. */
static RengaErrorCode FindState(KeepSearch *search, int place, uint64_t set, int *state)
{
  const int begin = search->first[place];
  for (int s = begin + search->count[place] - 1; s >= begin; s--)
    if (search->set[s] == set) {
      *state = s;
      return RENGA_SUCCESS;
    }
  if ((search->n_states & (search->n_states - 1)) == 0) {
    RengaCall(RengaRealloc(2 * search->n_states + 1, &search->set));
    RengaCall(RengaRealloc(2 * search->n_states + 1, &search->arc));
  }
  *state = search->n_states++;
  search->set[*state] = set;
  search->count[place]++;
  return RENGA_SUCCESS;
}

static RengaErrorCode FollowState(KeepSearch *search, int place, int state)
{
  const int item = place - 1;
  const uint64_t set = search->set[state];
  KeepArc arc = {.idle = KEEP_NONE, .again = KEEP_NONE};
  bool any, can;
  WeighWanted(search, item, state, &any, &can, &arc.price);
  if (can) RengaCall(FindState(search, item, SetBefore(search, item, false, set), &arc.idle));
  if (any) RengaCall(FindState(search, item, SetBefore(search, item, true, set), &arc.again));
  search->arc[state] = arc;
  return RENGA_SUCCESS;
}

/* From the last place, of one state that nothing is needed in, to the first; *all: there are not
   too many. */
static RengaErrorCode ListStates(KeepSearch *search, bool *all)
{
  const int items = search->problem->items;
  int state;
  search->n_states = 0;
  memset(search->count, 0, (size_t)(items + 1) * sizeof *search->count);
  search->first[items] = 0;
  RengaCall(FindState(search, items, 0, &state));
  *all = true;
  for (int p = items; p > 0 && *all; p--) {
    search->first[p - 1] = search->n_states;
    for (int s = 0; s < search->count[p]; s++)
      RengaCall(FollowState(search, p, search->first[p] + s));
    *all = search->count[p - 1] <= PLACE_MOST && search->n_states <= STATES_MOST;
  }
  return RENGA_SUCCESS;
}

/* One state for each place: whatever may be needed is wanted in any case. */
static void GiveUpBits(KeepSearch *search)
{
  for (int v = 0; v < search->problem->values; v++) {
    search->wanted[v] = search->wanted[v] || search->bit[v] >= 0;
    search->bit[v] = KEEP_NONE;
  }
  search->exact = false;
}

RengaErrorCode RengaKeepFindStates_Private(KeepSearch *search)
{
  const int items = search->problem->items;
  bool all = false;
  search->exact = true;
  RengaCall(ListMade(search));
  RengaCall(GiveBits(search));
  RengaCall(RengaMalloc(items + 1, &search->first));
  RengaCall(RengaMalloc(items + 1, &search->count));
  RengaCall(ListStates(search, &all));
  if (all) return RENGA_SUCCESS;
  GiveUpBits(search);
  RengaCall(ListStates(search, &all));
  return RENGA_SUCCESS;
}
