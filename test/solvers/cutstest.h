/* What tests of cuts share. */
#pragma once
#include "../check.h"
#include "cuts.h"
#include <math.h>

/* The stages of a result are what it says: in order, within the devices and their memory, and their
   largest load, weighed again, is the result's. */
static inline RengaErrorCode CheckStages(const RengaCutsProblem *problem,
                                         const RengaCutsResult *result)
{
  RengaCutsStage *stage = NULL;
  double largest = 0;
  int used[2] = {0, 0};
  RengaCall(RengaMalloc(result->count + 1, &stage));
  memcpy(stage, result->stage, sizeof *stage * (size_t)result->count);
  RengaCall(RengaCutsEvaluate(problem, result->stage_of, result->count, stage));
  for (int s = 0; s < result->count; s++) {
    largest = fmax(largest, stage[s].load);
    used[stage[s].host] += stage[s].replicas;
    Expect(stage[s].memory <= problem->capacity);
  }
  Expect(fabs(largest - result->load) <= 1e-12 * largest);
  Expect(used[0] <= problem->devices && used[1] <= problem->hosts);
  for (int e = 0; e < problem->edges; e++)
    Expect(result->stage_of[problem->edge[2 * e]] <= result->stage_of[problem->edge[2 * e + 1]]);
  RengaFree(&stage);
  return RENGA_SUCCESS;
}
