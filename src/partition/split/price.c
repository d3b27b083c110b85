/* A price of a byte: the least seconds and priced bytes of a path, less the price of the bound, are
   a bound on every choice (Lagrange). The price that is worth most is found by lines through two
   choices, one that fits and one that takes fewer seconds. */
#include "widthimpl.h"
#include <math.h>
#include <string.h>

enum { ROUNDS_MOST = 60 };

/* A path from the first state to the last place. */
typedef struct {
  double seconds, cost; /* cost: seconds and priced bytes */
  int64_t bytes;
  int *way;
} WidthPath;

/* Least seconds, priced bytes and bytes from each state to the end. Without seconds: bytes count
   first, to find whether anything fits. */
static void FindRest(WidthSearch *search, double price, bool without)
{
  const RengaWidthProblem *p = search->problem;
  for (int s = 0; s < search->n_states; s++) {
    const bool end = s >= search->first_state[p->nodes];
    search->rest[s] = end ? 0 : HUGE_VAL;
    if (without) search->least[s] = end ? 0 : INT64_MAX;
  }
  for (int64_t a = search->n_arcs - 1; a >= 0; a--) {
    const WidthArc *arc = &search->arc[a];
    const double rest = search->rest[arc->to] + arc->seconds + price * (double)p->bytes[arc->way];
    if (rest < search->rest[arc->from]) search->rest[arc->from] = rest;
    if (!without || search->least[arc->to] == INT64_MAX) continue;
    const int64_t bytes = search->least[arc->to] + p->bytes[arc->way];
    if (bytes < search->least[arc->from]) search->least[arc->from] = bytes;
  }
}

/* Along the rests, or along the fewest bytes; of arcs that are as good the first. */
static void FollowRest(const WidthSearch *search, bool fewest, WidthPath *path)
{
  const RengaWidthProblem *p = search->problem;
  int state = 0;
  path->seconds = 0;
  path->bytes = 0;
  for (int n = 0; n < p->nodes; n++) {
    /* One of a node's arcs leaves each state from which there is a rest. */
    const WidthArc *best = &search->arc[search->first_arc[n]];
    double cost = HUGE_VAL;
    for (int64_t a = search->first_arc[n]; a < search->first_arc[n + 1]; a++) {
      const WidthArc *arc = &search->arc[a];
      if (arc->from != state || isinf(search->rest[arc->to])) continue;
      const double way = (double)p->bytes[arc->way];
      const double here = fewest ? (double)search->least[arc->to] + way
                                 : search->rest[arc->to] + arc->seconds + search->price * way;
      if (here < cost) best = arc, cost = here;
    }
    path->seconds += best->seconds;
    path->bytes += p->bytes[best->way];
    path->way[n] = best->way;
    state = best->to;
  }
}

/* The path that is best at the price; a bound follows, and a choice if it fits. */
static void TryPrice(WidthSearch *search, double price, WidthPath *path)
{
  search->price = price;
  FindRest(search, price, false);
  FollowRest(search, false, path);
  path->cost = search->rest[0];
}

static void KeepPath(WidthSearch *search, const WidthPath *path)
{
  const RengaWidthProblem *p = search->problem;
  if (path->bytes > p->bound || path->seconds >= search->seconds) return;
  search->seconds = path->seconds;
  memcpy(search->way, path->way, (size_t)p->nodes * sizeof *path->way);
}

/* Both ends come nearer until no path lies below the line through them. */
static void NarrowPrice(WidthSearch *search, WidthPath *fits, WidthPath *fast, WidthPath *path)
{
  const double bound = (double)search->problem->bound;
  double best = 0;
  for (int round = 0; round < ROUNDS_MOST; round++) {
    const double price = (fits->seconds - fast->seconds) / (double)(fast->bytes - fits->bytes);
    const double line = fits->seconds + price * (double)fits->bytes;
    TryPrice(search, price, path);
    KeepPath(search, path);
    if (path->cost - price * bound > search->bound) {
      search->bound = path->cost - price * bound;
      best = price;
    }
    if (path->cost >= line * (1 - width_precision)) break;
    WidthPath *end = path->bytes <= search->problem->bound ? fits : fast;
    if (path->bytes == end->bytes) break;
    int *way = end->way;
    *end = *path;
    path->way = way;
  }
  search->price = best;
  FindRest(search, best, false);
}

static RengaErrorCode TryEnds(WidthSearch *search, WidthPath path[3], int64_t *least)
{
  const int64_t bound = search->problem->bound;
  FindRest(search, 0, true);
  *least = search->least[0];
  if (*least > bound) return RENGA_SUCCESS;
  FollowRest(search, true, &path[0]);
  KeepPath(search, &path[0]);
  TryPrice(search, 0, &path[1]);
  KeepPath(search, &path[1]);
  search->bound = path[1].cost;
  if (path[1].bytes > bound && path[0].seconds > path[1].seconds)
    NarrowPrice(search, &path[0], &path[1], &path[2]);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWidthFindPrice_Private(WidthSearch *search, int64_t *least)
{
  WidthPath path[3] = {{.way = NULL}, {.way = NULL}, {.way = NULL}};
  const int nodes = search->problem->nodes;
  RengaErrorCode code = RengaMalloc(search->n_states, &search->rest);
  if (!code) code = RengaMalloc(search->n_states, &search->least);
  for (int i = 0; i < 3 && !code; i++) code = RengaMalloc(nodes + 1, &path[i].way);
  if (!code) code = TryEnds(search, path, least);
  for (int i = 0; i < 3; i++) RengaFree(&path[i].way);
  RengaCall(code);
  return RENGA_SUCCESS;
}
