/* What to keep and what to make again: from the problem to the answer.

   Items are decided from the last to the first. Where no value is needed that backward does not
   read itself, what is decided of an item depends on nothing but bytes; where there are some, on
   which of them are needed, a set (states.c). A price of a byte gives a bound on all choices and
   first ones (price.c); a dynamic program over places, states and bytes finds what is better
   (front.c). */
#include "keepimpl.h"
#include <math.h>

enum { POINTS_MOST = 4 << 20 };

static RengaErrorCode CheckNeeds(const RengaKeepProblem *problem)
{
  for (int i = 0; i < problem->items; i++)
    for (int n = problem->first[i]; n < problem->first[i + 1]; n++)
      RengaCheck(problem->maker[problem->need[n]] < i, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
                 "item %d needs value %d, which item %d makes: a later one", i, problem->need[n],
                 problem->maker[problem->need[n]]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckKeepProblem(const RengaKeepProblem *problem)
{
  RengaCheck(problem->bound >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a bound of %lld bytes on what is kept", (long long)problem->bound);
  for (int i = 0; i < problem->items; i++)
    RengaCheck(problem->seconds[i] >= 0 && isfinite(problem->seconds[i]), MPI_COMM_SELF,
               RENGA_ERR_ARGUMENT, "item %d takes %g seconds", i, problem->seconds[i]);
  for (int v = 0; v < problem->values; v++)
    RengaCheck(problem->maker[v] < problem->items, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "value %d is made by item %d of %d", v, problem->maker[v], problem->items);
  RengaCall(CheckNeeds(problem));
  return RENGA_SUCCESS;
}

static bool IsMissing(const RengaKeepProblem *problem, const bool keep[], int value)
{
  return problem->maker[value] >= 0 && !keep[value];
}

RengaErrorCode RengaKeepEvaluate(const RengaKeepProblem *problem, const bool keep[], bool again[],
                                 double *seconds, int64_t *bytes)
{
  bool *run = NULL;
  double sum = 0;
  int64_t kept = 0;
  RengaCall(CheckKeepProblem(problem));
  RengaCall(RengaMalloc(problem->items + 1, &run));
  for (int v = 0; v < problem->values; v++) {
    if (problem->read[v] && IsMissing(problem, keep, v)) run[problem->maker[v]] = true;
    if (problem->maker[v] >= 0 && keep[v]) kept += problem->price[v];
  }
  for (int i = problem->items - 1; i >= 0; i--)
    for (int n = problem->first[i]; run[i] && n < problem->first[i + 1]; n++)
      if (IsMissing(problem, keep, problem->need[n])) run[problem->maker[problem->need[n]]] = true;
  for (int i = 0; i < problem->items; i++) {
    sum += run[i] ? problem->seconds[i] : 0;
    if (again) again[i] = run[i];
  }
  RengaFree(&run);
  *seconds = sum;
  *bytes = kept;
  return RENGA_SUCCESS;
}

/* Of a choice that is made. */
static RengaErrorCode FillResult(const KeepSearch *search, RengaKeepResult *result)
{
  RengaCall(
      RengaKeepEvaluate(search->problem, result->keep, NULL, &result->seconds, &result->bytes));
  result->optimal = result->optimal && search->exact;
  result->bound = result->optimal ? result->seconds : fmin(search->least, result->seconds);
  return RENGA_SUCCESS;
}

static RengaErrorCode LookForKept(KeepSearch *search, RengaKeepResult *result)
{
  const RengaKeepProblem *problem = search->problem;
  const int64_t limit = problem->point_limit > 0 ? problem->point_limit : POINTS_MOST;
  RengaCall(RengaKeepFindStates_Private(search));
  result->states = search->n_states;
  RengaCall(RengaKeepFindPrice_Private(search));
  RengaCall(RengaKeepLookAtAll_Private(search, limit, &result->points, &result->optimal));
  RengaCall(FillResult(search, result));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaKeepSolve(const RengaKeepProblem *problem, RengaKeepResult *result)
{
  KeepSearch search = {.problem = problem};
  RengaKeepResult made = {0};
  RengaCall(CheckKeepProblem(problem));
  RengaCall(RengaMalloc(problem->values + 1, &made.keep));
  search.keep = made.keep;
  const RengaErrorCode code = LookForKept(&search, &made);
  RengaFree(&search.start);
  RengaFree(&search.made);
  RengaFree(&search.wanted);
  RengaFree(&search.bit);
  RengaFree(&search.first);
  RengaFree(&search.count);
  RengaFree(&search.set);
  RengaFree(&search.arc);
  RengaFree(&search.rest);
  if (code) RengaFree(&made.keep);
  RengaCall(code);
  *result = made;
  return RENGA_SUCCESS;
}

void RengaKeepFreeResult(RengaKeepResult *result)
{
  RengaFree(&result->keep);
  *result = (RengaKeepResult){0};
}
