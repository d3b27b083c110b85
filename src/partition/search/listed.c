/* Lists of candidates that were made. Models of a chain are asked for again and again, under other
   bounds on memory and other schedules, on which no shape depends; to list those of thousands of
   devices takes long, as each is compared with all that may dominate it. */
#include "search.h"
#include <string.h>

enum { LISTED_MOST = 16 };

/* What a list depends on; without gaps, as it is compared byte by byte. */
typedef struct {
  RengaMachine machine;
  const int64_t *short_batch;
  int64_t microbatch, microbatches, leaf;
  int devices, replicas, moments, unit, context, precision, n_short;
  int least, most; /* shards */
  int spread, every, several, by_ranks, groups;
} ListedKey;
_Static_assert(sizeof(ListedKey) == 2 * sizeof(void *) + 3 * sizeof(int64_t) + 14 * sizeof(int),
               "a key with gaps is not compared byte by byte");

typedef struct {
  ListedKey key;
  int widest, count;
  SearchCandidate *candidate; /* [count] */
} Listed;

struct SearchListed {
  int count;
  Listed row[LISTED_MOST];
};

RengaErrorCode RengaSearchListedCreate_Private(struct SearchListed **listed)
{
  RengaCall(RengaMalloc(1, listed));
  return RENGA_SUCCESS;
}

void RengaSearchListedFree_Private(struct SearchListed **listed)
{
  for (int i = 0; *listed && i < (*listed)->count; i++) RengaFree(&(*listed)->row[i].candidate);
  RengaFree(listed);
}

static ListedKey ListedKeyOf(const SearchModel *model)
{
  const SearchListing *listing = &model->listing;
  return (ListedKey){.machine = listing->machine,
                     .short_batch = listing->short_batch,
                     .microbatch = model->microbatch,
                     .microbatches = model->microbatches,
                     .leaf = model->leaf,
                     .devices = model->devices,
                     .replicas = model->replicas,
                     .moments = model->moments,
                     .unit = listing->unit,
                     .context = listing->context,
                     .precision = (int)listing->precision,
                     .n_short = listing->n_short,
                     .least = (int)listing->shards.least,
                     .most = (int)listing->shards.most,
                     .spread = listing->spread,
                     .every = listing->every,
                     .several = listing->several,
                     .by_ranks = listing->by_ranks,
                     .groups = listing->groups};
}

RengaErrorCode RengaSearchTakeListed_Private(SearchModel *model, bool *taken)
{
  const struct SearchListed *listed = model->listing.listed;
  const ListedKey key = ListedKeyOf(model);
  *taken = false;
  for (int i = 0; listed && i < listed->count && !*taken; i++) {
    const Listed *row = &listed->row[i];
    if (memcmp(&row->key, &key, sizeof key) != 0) continue;
    RengaCall(RengaRealloc(2 * row->count + 1, &model->candidate)); /* as lists grow */
    if (row->count)
      memcpy(model->candidate, row->candidate, (size_t)row->count * sizeof *row->candidate);
    model->n_candidates = row->count;
    model->listing.widest = row->widest;
    *taken = true;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchKeepListed_Private(const SearchModel *model)
{
  struct SearchListed *listed = model->listing.listed;
  if (!listed || listed->count == LISTED_MOST || model->replicas) return RENGA_SUCCESS; /* short */
  Listed *row = &listed->row[listed->count];
  RengaCall(RengaMalloc(model->n_candidates + 1, &row->candidate));
  if (model->n_candidates)
    memcpy(row->candidate, model->candidate, (size_t)model->n_candidates * sizeof *row->candidate);
  row->key = ListedKeyOf(model);
  row->count = model->n_candidates;
  row->widest = model->listing.widest;
  listed->count++;
  return RENGA_SUCCESS;
}

uint64_t RengaSearchListedHash_Private(const SearchModel *model)
{
  const ListedKey key = ListedKeyOf(model);
  return RengaHash(&key, sizeof key, 0);
}
