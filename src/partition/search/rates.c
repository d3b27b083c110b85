/* What it takes at the least to make saved tensors again, for bounds on stages that keep a part of
   them.

   What a node makes and backward reads is not kept at the price of running the node again. Nodes of
   whose outputs backward reads none cannot be kept: each of the nodes that read them has an equal
   share of their seconds, so that however many of these are run again, no more is counted than is
   run. So each maker of saved bytes has a rate, seconds of a byte; to free bytes of a stage takes
   no less than the cheapest of its bytes do. Of what is shared over the stage's first cut the part
   before it is taken away again. */
#include "search.h"
#include <math.h>
#include <stdlib.h>

typedef struct {
  double rate, bytes;
  int place;
} Maker;

static int CompareMakers(const void *a, const void *b)
{
  const Maker *x = a, *y = b;
  return x->rate != y->rate ? (x->rate > y->rate) - (x->rate < y->rate)
                            : (x->place > y->place) - (x->place < y->place);
}

static double SavedBytesOf(const SearchChain *chain, const RengaGraphNode *node, int64_t microbatch)
{
  double bytes = 0;
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0 && chain->saved[node->out[o]])
      bytes +=
          RengaSearchBytesOf_Private(RengaGraphGetValue(chain->graph, node->out[o]), microbatch);
  return bytes;
}

/* Which place made a value; -1: none of the chain. */
static RengaErrorCode FindMakers(const SearchChain *chain, int **maker)
{
  const int count = RengaGraphGetValueCount(chain->graph);
  RengaCall(RengaMalloc(count + 1, maker));
  for (int v = 0; v < count; v++) (*maker)[v] = -1;
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] >= 0) (*maker)[node->out[o]] = c;
  }
  return RENGA_SUCCESS;
}

/* The input comes from the same place as one before it. */
static bool IsSameMaker(const RengaGraphNode *node, const int maker[], int input)
{
  for (int i = 0; i < input; i++)
    if (node->in[i] >= 0 && maker[node->in[i]] == maker[node->in[input]]) return true;
  return false;
}

/* readers: [places] nodes that read what each place makes. */
static void CountReaders(const SearchChain *chain, const int maker[], double readers[])
{
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] >= 0 && maker[node->in[i]] >= 0 && !IsSameMaker(node, maker, i))
        readers[maker[node->in[i]]]++;
  }
}

/* A node that only says other values anew, a reshape, is never run again. */
static bool MakesMemory(const SearchChain *chain, const RengaGraphNode *node)
{
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0 && RengaSearchRootOf_Private(chain->graph, node->out[o]) == node->out[o])
      return true;
  return false;
}

/* seconds: [places] of the node, and its shares of those before it. */
static void ShareSeconds(const SearchChain *chain, const RengaProfileCost costs[],
                         const int maker[], const double readers[], const double bytes[],
                         double seconds[], double across[])
{
  for (int c = 0; c < chain->count; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    seconds[c] = MakesMemory(chain, node) ? costs[chain->node[c]].forward : 0;
    for (int i = 0; i < node->n_in; i++) {
      const int from = node->in[i] >= 0 ? maker[node->in[i]] : -1;
      if (from < 0 || bytes[from] > 0 || IsSameMaker(node, maker, i)) continue;
      const double share = seconds[from] / readers[from];
      seconds[c] += share;
      across[from + 1] += share;
      across[c + 1] -= share;
    }
  }
  for (int c = 0; c < chain->count; c++) across[c + 1] += across[c];
}

/* Classes of about as many bytes each; a class has the rate of its cheapest. */
static void FillClasses(int count, const Maker maker[], double all, SearchModel *model)
{
  double before = 0;
  int last = -1;
  for (int m = 0; m < count; m++) {
    int class = (int)(SEARCH_CLASSES * before / all);
    if (class >= SEARCH_CLASSES) class = SEARCH_CLASSES - 1;
    for (; last < class; last++) model->listing.rates.rate[last + 1] = maker[m].rate;
    model->listing.rates.bytes[class][maker[m].place + 1] += maker[m].bytes;
    before += maker[m].bytes;
  }
  for (int k = 0; k < SEARCH_CLASSES; k++)
    for (int c = 0; c < model->count; c++)
      model->listing.rates.bytes[k][c + 1] += model->listing.rates.bytes[k][c];
}

/* work: [3 * places] */
static RengaErrorCode FillRates(const SearchChain *chain, int64_t microbatch,
                               const RengaProfileCost costs[], const int maker[], double work[],
                               SearchModel *model)
{
  double *readers = work, *bytes = work + chain->count, *seconds = work + (int64_t)2 * chain->count;
  double all = 0;
  Maker *row = NULL;
  int count = 0;
  RengaCall(RengaMalloc(chain->count + 1, &row));
  CountReaders(chain, maker, readers);
  for (int c = 0; c < chain->count; c++)
    bytes[c] = SavedBytesOf(chain, RengaGraphGetNode(chain->graph, chain->node[c]), microbatch);
  ShareSeconds(chain, costs, maker, readers, bytes, seconds, model->listing.rates.across);
  for (int c = 0; c < chain->count; c++) {
    if (bytes[c] <= 0) continue;
    row[count++] = (Maker){.rate = seconds[c] / bytes[c], .bytes = bytes[c], .place = c};
    all += bytes[c];
  }
  if (count) qsort(row, (size_t)count, sizeof *row, CompareMakers);
  FillClasses(count, row, all, model);
  RengaFree(&row);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchFillRates_Private(const SearchChain *chain, int64_t microbatch,
                                            const RengaProfileCost costs[], SearchModel *model)
{
  int *maker = NULL;
  double *work = NULL;
  RengaErrorCode code = FindMakers(chain, &maker);
  if (!code) code = RengaMalloc((int64_t)3 * chain->count + 1, &work);
  if (!code) code = FillRates(chain, microbatch, costs, maker, work, model);
  RengaFree(&maker);
  RengaFree(&work);
  RengaCall(code);
  return RENGA_SUCCESS;
}

double RengaSearchAgainAtLeast_Private(const SearchModel *model, const SearchCandidate *candidate,
                                       int begin, int end, double bytes)
{
  const SearchRates *rates = &model->listing.rates;
  double seconds = 0, left = bytes / candidate->bytes.saved;
  for (int k = 0; k < SEARCH_CLASSES && left > 0; k++) {
    const double most = rates->bytes[k][end] - rates->bytes[k][begin];
    const double taken = most < left ? most : left;
    seconds += rates->rate[k] * taken;
    left -= taken;
  }
  seconds -= rates->across[begin];
  return seconds > 0 ? seconds : 0;
}
