/* Bounds that were found. They are asked for again and again, of models that are alike in all that
   a bound depends on. */
#include "search.h"
#include <math.h>

enum { BOUNDS_MOST = 128 };

typedef struct {
  const RengaProfileCost *costs;
  uint64_t model; /* hash of what candidates and places depend on */
  double memory;
  int stages, policies, saved;
  bool unequal, halves, gpipe, mixed;
} BoundKey;

typedef struct {
  BoundKey key;
  double seconds;
} KnownBound;

struct SearchBounds {
  int count;
  KnownBound row[BOUNDS_MOST];
};

RengaErrorCode RengaSearchBoundsCreate_Private(struct SearchBounds **bounds)
{
  RengaCall(RengaMalloc(1, bounds));
  return RENGA_SUCCESS;
}

void RengaSearchBoundsFree_Private(struct SearchBounds **bounds)
{
  RengaFree(bounds);
}

static BoundKey BoundKeyOf(const SearchModel *model, const RengaProfileCost *costs, int stages)
{
  return (BoundKey){.costs = costs,
                    .model = RengaSearchListedHash_Private(model),
                    .memory = model->memory,
                    .stages = stages,
                    .policies = model->policies.count,
                    .saved = (int)model->policies.saved[0],
                    .unequal = model->unequal,
                    .halves = model->halves.open,
                    .gpipe = model->schedule.gpipe,
                    .mixed = model->policies.mixed};
}

static bool IsSameBound(const BoundKey *a, const BoundKey *b)
{
  return a->costs == b->costs && a->model == b->model && a->memory == b->memory &&
         a->stages == b->stages && a->policies == b->policies && a->saved == b->saved &&
         a->unequal == b->unequal && a->halves == b->halves && a->gpipe == b->gpipe &&
         a->mixed == b->mixed;
}

RengaErrorCode RengaSearchFindBound_Private(struct SearchBounds *bounds, const SearchModel *model,
                                            const RengaProfileCost *costs, int stages,
                                            double *seconds)
{
  const double enough = *seconds;
  const BoundKey key = BoundKeyOf(model, costs, stages);
  for (int i = 0; i < bounds->count && i < BOUNDS_MOST; i++) {
    if (!IsSameBound(&bounds->row[i].key, &key)) continue;
    *seconds = fmin(*seconds, bounds->row[i].seconds);
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSearchBound_Private(model, stages, seconds));
  if (*seconds >= enough && isfinite(enough)) return RENGA_SUCCESS; /* it may be more */
  bounds->row[bounds->count++ % BOUNDS_MOST] = (KnownBound){.key = key, .seconds = *seconds};
  return RENGA_SUCCESS;
}
