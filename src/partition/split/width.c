/* In which way each node is computed: from the problem to the answer.

   The states in which live values are make a graph of places (places.c), and a choice is a path of
   it. A price of a byte gives a bound on all paths and first ones (price.c); a dynamic program over
   states and bytes finds what is better (front.c). */
#include "widthimpl.h"
#include <math.h>

enum { WIDTH_POINTS = 4 << 20, WIDTH_STATES = 1 << 16 };

static RengaErrorCode CheckWidthNode(const RengaWidthProblem *p, int n, bool made[])
{
  RengaCheck(p->first_way[n + 1] > p->first_way[n], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "node %d has no way to be computed", n);
  for (int i = p->first_in[n]; i < p->first_in[n + 1]; i++)
    RengaCheck(made[p->in[i]], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "node %d needs value %d, which no earlier node makes", n, p->in[i]);
  for (int o = p->first_out[n]; o < p->first_out[n + 1]; o++) {
    RengaCheck(!made[p->out[o]], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "node %d makes value %d, which an earlier node makes", n, p->out[o]);
    made[p->out[o]] = true;
  }
  for (int w = p->first_way[n]; w < p->first_way[n + 1]; w++)
    RengaCheck(p->seconds[w] >= 0 && isfinite(p->seconds[w]) && p->bytes[w] >= 0, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "way %d of node %d takes %g seconds and %lld bytes",
               w - p->first_way[n], n, p->seconds[w], (long long)p->bytes[w]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNeedsOf(const RengaWidthProblem *p, int n)
{
  const int n_in = p->first_in[n + 1] - p->first_in[n];
  const int n_out = p->first_out[n + 1] - p->first_out[n];
  for (int w = p->first_way[n]; w < p->first_way[n + 1]; w++)
    for (int i = 0; i < n_in + n_out; i++) {
      const int value = i < n_in ? p->in[p->first_in[n] + i] : p->out[p->first_out[n] + i - n_in];
      const int need = p->need[p->first_need[w] + i];
      RengaCheck(need >= 0 && need < p->states[value], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
                 "way %d of node %d has value %d in state %d of %d", w - p->first_way[n], n, value,
                 need, p->states[value]);
    }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWidthProblem(const RengaWidthProblem *p)
{
  bool *made = NULL;
  RengaCheck(p->nodes > 0 && p->bound >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%d nodes and a bound of %lld bytes", p->nodes, (long long)p->bound);
  for (int v = 0; v < p->values; v++)
    RengaCheck(p->states[v] > 0 && p->states[v] <= RENGA_WIDTH_STATES, MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "value %d has %d states, must have 1 to %d", v, p->states[v],
               (int)RENGA_WIDTH_STATES);
  RengaCall(RengaMalloc(p->values + 1, &made));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int n = 0; n < p->nodes && !code; n++) code = CheckWidthNode(p, n, made);
  for (int n = 0; n < p->nodes && !code; n++) code = CheckNeedsOf(p, n);
  RengaFree(&made);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Seconds of a node's way, where have says how values were made and converted; negative: none. */
static double SecondsOfWay(const RengaWidthProblem *p, int n, int w, int made[], uint32_t had[])
{
  const int *need = p->need + p->first_need[w];
  double seconds = p->seconds[w];
  for (int i = p->first_in[n]; i < p->first_in[n + 1]; i++, need++) {
    const int v = p->in[i];
    if (had[v] >> *need & 1) continue;
    const double cost = p->convert[p->first_convert[v] + made[v] * p->states[v] + *need];
    if (cost < 0) return -1;
    seconds += cost;
    had[v] |= 1u << *need;
  }
  for (int o = p->first_out[n]; o < p->first_out[n + 1]; o++, need++) {
    made[p->out[o]] = *need;
    had[p->out[o]] = 1u << *need;
  }
  return seconds;
}

RengaErrorCode RengaWidthEvaluate(const RengaWidthProblem *problem, const int way[],
                                  double *seconds, int64_t *bytes)
{
  int *made = NULL;
  uint32_t *had = NULL;
  double sum = 0;
  int64_t kept = 0;
  RengaCall(CheckWidthProblem(problem));
  RengaErrorCode code = RengaMalloc(problem->values + 1, &made);
  if (!code) code = RengaMalloc(problem->values + 1, &had);
  for (int n = 0; n < problem->nodes && sum >= 0 && !code; n++) {
    const int w = problem->first_way[n] + way[n];
    const double more = SecondsOfWay(problem, n, w, made, had);
    sum = more < 0 ? -1 : sum + more;
    kept += problem->bytes[w];
  }
  RengaFree(&made);
  RengaFree(&had);
  RengaCall(code);
  *seconds = sum;
  *bytes = kept;
  return RENGA_SUCCESS;
}

/* Without all states only this is sure: every node takes its fastest way. */
static double FastestWays(const RengaWidthProblem *p)
{
  double sum = 0;
  for (int n = 0; n < p->nodes; n++) {
    double least = HUGE_VAL;
    for (int w = p->first_way[n]; w < p->first_way[n + 1]; w++) least = fmin(least, p->seconds[w]);
    sum += least;
  }
  return sum;
}

static RengaErrorCode LookForWays(WidthSearch *search, RengaWidthResult *result)
{
  const RengaWidthProblem *p = search->problem;
  const int64_t limit = p->point_limit > 0 ? p->point_limit : WIDTH_POINTS;
  int64_t least;
  bool all = true;
  RengaCall(
      RengaWidthFindPlaces_Private(search, p->state_limit > 0 ? p->state_limit : WIDTH_STATES));
  result->states = search->n_states;
  RengaCall(RengaMalloc(p->nodes, &search->way));
  RengaCall(RengaWidthFindPrice_Private(search, &least));
  result->bytes = least;
  result->feasible = search->seconds < HUGE_VAL;
  if (!result->feasible) return RENGA_SUCCESS;
  if (search->bound < search->seconds * (1 - width_precision))
    RengaCall(RengaWidthLookAtAll_Private(search, limit, &result->points, &all));
  for (int n = 0; n < p->nodes; n++) result->way[n] = search->way[n] - p->first_way[n];
  RengaCall(RengaWidthEvaluate(p, result->way, &result->seconds, &result->bytes));
  result->optimal = all && !search->cut;
  result->bound = result->optimal ? result->seconds : search->cut ? FastestWays(p) : search->bound;
  result->bound = fmin(result->bound, result->seconds);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWidthSolve(const RengaWidthProblem *problem, RengaWidthResult *result)
{
  WidthSearch search = {.problem = problem, .seconds = HUGE_VAL};
  RengaWidthResult made = {0};
  RengaCall(CheckWidthProblem(problem));
  RengaErrorCode code = RengaMalloc(problem->nodes, &made.way);
  if (!code) code = LookForWays(&search, &made);
  RengaFree(&search.first_arc);
  RengaFree(&search.first_state);
  RengaFree(&search.arc);
  RengaFree(&search.gone);
  RengaFree(&search.rest);
  RengaFree(&search.least);
  RengaFree(&search.way);
  if (code) RengaWidthFreeResult(&made);
  RengaCall(code);
  *result = made;
  return RENGA_SUCCESS;
}

void RengaWidthFreeResult(RengaWidthResult *result)
{
  RengaFree(&result->way);
}
