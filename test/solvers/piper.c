/* TEST ranks: 1 timeout: 300 */
/* The exact plans of Piper's BERT-32 are as good as Piper's own on every point, or better, and are
   what they say when weighed again. */
#include "cutstest.h"
#include "graphs.h"
#include <stdlib.h>

enum { BATCH = 1920 };

/* Seconds and memory of a stage, item by item and edge by edge; the sum is of its and all later
   stages' replicas. */
static void WeighStage(const RengaCutsShardProblem *problem, const RengaCutsShardResult *result,
                       int stage, int sum, double *seconds, double *memory)
{
  int d = result->stage[stage].replicas, t = 0, y = (sum + d - 1) / d;
  while (problem->degree[t] != result->stage[stage].degree) t++;
  *seconds = *memory = 0;
  for (int v = 0; v < problem->items; v++) {
    if (result->stage_of[v] != stage) continue;
    int row = v * problem->degrees + t;
    const RengaCutsOption *option = &problem->option[row * problem->options + result->option_of[v]];
    *seconds += option->seconds / d;
    *seconds += 4.0 * (d - 1) * problem->weight[row] / d / problem->batch / problem->bandwidth;
    *memory += option->memory_each * y + option->memory_once;
  }
  for (int e = 0; e < problem->edges; e++) {
    int from = result->stage_of[problem->edge[2 * e]],
        to = result->stage_of[problem->edge[2 * e + 1]];
    double bytes = problem->edge_bytes[e];
    if (from == to || (from != stage && to != stage)) continue;
    bytes +=
        (from == stage ? problem->send_bytes : problem->receive_bytes)[e * problem->degrees + t];
    *seconds += 2 * bytes / d / problem->bandwidth;
  }
}

static RengaErrorCode CheckPlan(const RengaCutsShardProblem *problem,
                                const RengaCutsShardResult *result)
{
  int sum = 0, devices = 0;
  double largest = 0;
  for (int s = result->count - 1; s >= 0; s--) {
    double seconds, memory;
    Expect(problem->batch % result->stage[s].replicas == 0);
    sum += result->stage[s].replicas;
    devices += result->stage[s].replicas * result->stage[s].degree;
    WeighStage(problem, result, s, sum, &seconds, &memory);
    Expect(fabs(seconds - result->stage[s].seconds) <= 1e-9 * seconds);
    Expect(fabs(memory - result->stage[s].memory) <= 1e-9 * memory);
    Expect(memory <= problem->capacity * (1 + 1e-12));
    largest = fmax(largest, seconds);
  }
  Expect(sum <= problem->batch && devices <= problem->devices);
  Expect(fabs(largest - result->seconds) <= 1e-9 * largest);
  for (int e = 0; e < problem->edges; e++)
    Expect(result->stage_of[problem->edge[2 * e]] <= result->stage_of[problem->edge[2 * e + 1]]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPoint(const GraphsReference *row)
{
  GraphsShards shards;
  RengaCutsShardResult result;
  RengaCall(GraphsReadShards("bert32a100", &shards));
  shards.problem.devices = atoi(row->devices);
  shards.problem.batch = BATCH;
  shards.problem.bandwidth = 25.0 * (1 << 30);
  shards.problem.capacity = row->memory;
  RengaCall(RengaCutsSolveShards(&shards.problem, &result));
  RengaCheck(result.seconds <= row->value * (1 + 1e-9) && result.bound == result.seconds,
             MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s devices, %g bytes: %.12g, but Piper has %.12g",
             row->devices, row->memory, result.seconds, row->value);
  Expect(result.proof == (result.seconds < HUGE_VAL ? RENGA_CUTS_OPTIMAL : RENGA_CUTS_INFEASIBLE));
  if (result.seconds < HUGE_VAL) RengaCall(CheckPlan(&shards.problem, &result));
  RengaCutsFreeShardResult(&result);
  GraphsFreeShards(&shards);
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  int count = 0, points = 0;
  GraphsReference *row = NULL;
  RengaCall(GraphsReadReferences(&count, &row));
  for (int r = 0; r < count; r++) {
    if (strcmp(row[r].method, "piper_Piper")) continue;
    RengaCall(CheckPoint(&row[r]));
    points++;
  }
  Expect(points == 28);
  RengaFree(&row);
  return RENGA_SUCCESS;
}

GRAPHS_MAIN(Run)
