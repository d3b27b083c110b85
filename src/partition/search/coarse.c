/* A long chain with fewer places: those where fewer bytes cross than around them. Layers that
   repeat have one or two of them each, and no stage gains by a dearer one but in balance, which
   moving the cuts of what is found sees to. All sums stay exact for the places that are left. */
#include "search.h"

enum { AROUND = 8, GAP_MOST = 64 };

/* The first place after the last chosen one where no place around has fewer bytes, or the cheapest
   within the largest gap. */
static int NextPlace(const SearchModel *fine, int last)
{
  int cheapest = last + 1;
  for (int c = last + 1; c < fine->count && c <= last + GAP_MOST; c++) {
    bool least = true;
    for (int a = c - AROUND; a <= c + AROUND && least; a++)
      least = a <= 0 || a >= fine->count || fine->cut[a] >= fine->cut[c];
    if (least) return c;
    if (fine->cut[c] < fine->cut[cheapest]) cheapest = c;
  }
  return cheapest;
}

static RengaErrorCode ChoosePlaces(const SearchModel *fine, int *count, int **place)
{
  RengaCall(RengaMalloc(fine->count + 1, place));
  *count = 0;
  for (int c = NextPlace(fine, 0); c < fine->count; c = NextPlace(fine, c)) (*place)[++*count] = c;
  (*place)[++*count] = fine->count;
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
  const double *const from[] = {fine->forward, fine->backward, fine->elements, fine->states,
                                fine->saved,   fine->inputs,   fine->cut,      fine->unsaved};
  double *const to[] = {coarse->forward, coarse->backward, coarse->elements, coarse->states,
                        coarse->saved,   coarse->inputs,   coarse->cut,      coarse->unsaved};
  for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
    for (int c = 0; c <= coarse->count; c++) to[i][c] = from[i][place[c]];
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
