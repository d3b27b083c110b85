/* A long chain with fewer places: those where fewer bytes cross than around them. Layers that
   repeat have one or two of them each, and no stage gains by a dearer one but in balance, which
   moving the cuts of what is found sees to. Places between which there is only what costs nothing,
   as what other tensor ranks compute, are one: the last with the fewest bytes, which has all lanes
   of an operator in one stage. All sums stay exact for the places that are left. */
#include "search.h"

enum {
  AROUND = 8,
  GAP_MOST = 64,
  COARSE_MIDDLE = 1000 /* places of a chain, of more of which unequal stages have fewer */
};

/* The node behind the place takes no time and no memory, as a view, or what another tensor rank
   computes: stages that end before it are those that end after it but for the bytes over the
   cut. */
static bool IsFree(const SearchModel *fine, int c)
{
  const double *const sums[] = {fine->forward, fine->backward, fine->elements,
                                fine->states,  fine->saved,    fine->inputs};
  for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
    if (sums[i][c] != sums[i][c + 1]) return false;
  return true;
}

/* Of places with nothing but such nodes between them the last of those with the fewest bytes;
   place: [count] of the chain, behind its first. */
static int ListUnlike(const SearchModel *fine, int place[])
{
  int count = 0, cheapest = 1;
  for (int c = 1; c < fine->count; c++) {
    if (fine->cut[c] <= fine->cut[cheapest]) cheapest = c;
    if (IsFree(fine, c)) continue;
    place[count++] = cheapest;
    cheapest = c + 1;
  }
  return count;
}

/* The first of the places from one on where none around has fewer bytes, or the cheapest within the
   largest gap. */
static int NextUnlike(const SearchModel *fine, int count, const int place[], int from)
{
  int cheapest = from;
  for (int p = from; p < count && p < from + GAP_MOST; p++) {
    const double own = fine->cut[place[p]];
    bool least = true;
    for (int a = p - AROUND; a <= p + AROUND && least; a++)
      least = a < 0 || a >= count || fine->cut[place[a]] >= own;
    if (least) return p;
    if (own < fine->cut[place[cheapest]]) cheapest = p;
  }
  return cheapest;
}

/* *place: the first and the end of the chain too. */
static RengaErrorCode ChoosePlaces(const SearchModel *fine, int *count, int **place)
{
  int *unlike = NULL;
  RengaCall(RengaMalloc(fine->count + 1, &unlike));
  const RengaErrorCode code = RengaMalloc(fine->count + 2, place);
  const int all = ListUnlike(fine, unlike);
  *count = 0;
  for (int p = NextUnlike(fine, all, unlike, 0); p < all && !code;
       p = NextUnlike(fine, all, unlike, p + 1))
    (*place)[++*count] = unlike[p];
  if (!code) (*place)[++*count] = fine->count;
  RengaFree(&unlike);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Number of the part that has a place. */
static int PartOfChain(const int place[], int count, int at)
{
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (place[middle] <= at)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static RengaErrorCode CopySums(const SearchModel *fine, const int place[], SearchModel *coarse)
{
  const double *const from[] = {fine->forward, fine->backward, fine->elements,
                                fine->states,  fine->saved,    fine->inputs,
                                fine->cut,     fine->unsaved,  fine->listing.rates.across};
  double *const to[] = {coarse->forward, coarse->backward, coarse->elements,
                        coarse->states,  coarse->saved,    coarse->inputs,
                        coarse->cut,     coarse->unsaved,  coarse->listing.rates.across};
  for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
    for (int c = 0; c <= coarse->count; c++) to[i][c] = from[i][place[c]];
  for (int k = 0; k < SEARCH_CLASSES; k++)
    for (int c = 0; c <= coarse->count; c++)
      coarse->listing.rates.bytes[k][c] = fine->listing.rates.bytes[k][place[c]];
  for (int c = 0; c < coarse->count; c++)
    for (int at = place[c]; at < place[c + 1]; at++)
      if (fine->temporary[at] > coarse->temporary[c]) coarse->temporary[c] = fine->temporary[at];
  RengaSearchModelFinish_Private(coarse);
  return RENGA_SUCCESS;
}

static RengaErrorCode FillCoarse(const SearchModel *fine, const int place[], SearchModel *coarse)
{
  SearchTie *tie = NULL;
  RengaCall(CopySums(fine, place, coarse));
  RengaCall(RengaMalloc(fine->n_candidates + 1, &coarse->candidate));
  for (int o = 0; o < fine->n_candidates; o++) coarse->candidate[o] = fine->candidate[o];
  coarse->n_candidates = fine->n_candidates;
  RengaCall(RengaMalloc(fine->n_ties + 1, &tie));
  for (int t = 0; t < fine->n_ties; t++)
    tie[t] = (SearchTie){.before = PartOfChain(place, coarse->count, fine->tie[t].before),
                         .after = PartOfChain(place, coarse->count, fine->tie[t].after),
                         .elements = fine->tie[t].elements};
  coarse->tie = tie;
  coarse->n_ties = fine->n_ties;
  return RENGA_SUCCESS;
}

static RengaErrorCode SearchCoarse(const SearchModel *fine, const int place[],
                                   const SearchModel *coarse, SearchLayout *best)
{
  SearchLayout found = {0};
  RengaErrorCode code = RengaSearchEqual_Private(coarse, &found);
  if (!code && coarse->unequal) code = RengaSearchCover_Private(coarse, &found);
  for (int s = 0; s < found.count; s++) {
    found.stage[s].begin = place[found.stage[s].begin];
    found.stage[s].end = place[found.stage[s].end];
  }
  if (code || !found.count) RengaSearchLayoutFree_Private(&found);
  RengaCall(code);
  if (found.count) RengaCall(RengaSearchTake_Private(fine, &found, best));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchCoarse_Private(const SearchModel *model, SearchLayout *best)
{
  SearchModel coarse = RengaSearchModelSettings_Private(model);
  int *place = NULL, count = 0;
  RengaCall(ChoosePlaces(model, &count, &place));
  coarse.paths.longest = model->paths.longest;
  coarse.halves.longest = model->halves.longest;
  RengaErrorCode code = RengaSearchModelAllocate_Private(count, &coarse);
  if (!code) code = FillCoarse(model, place, &coarse);
  if (!code) code = SearchCoarse(model, place, &coarse, best);
  SearchTie *tie = (SearchTie *)(uintptr_t)coarse.tie;
  RengaFree(&tie);
  RengaSearchModelFree_Private(&coarse);
  RengaFree(&place);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchQuickly_Private(const SearchModel *model, SearchLayout *best)
{
  const bool middle = model->count > COARSE_MIDDLE;
  if (model->count <= SEARCH_LONG) RengaCall(RengaSearchEqual_Private(model, best));
  if (model->count > SEARCH_LONG || (middle && model->unequal))
    RengaCall(RengaSearchCoarse_Private(model, best));
  else if (model->unequal)
    RengaCall(RengaSearchCover_Private(model, best));
  return RENGA_SUCCESS;
}
