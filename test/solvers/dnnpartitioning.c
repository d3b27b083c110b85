/* TEST ranks: 1 timeout: 300 */
/* The exact objective, or that there is none, of every instance of the dnn-partitioning graphs. */
#include "cutstest.h"
#include "graphs.h"
#include <stdlib.h>

#define PREFIX "dnn-partitioning/throughput/"

static RengaErrorCode CheckRow(const GraphsReference *row)
{
  RengaCutsColoured coloured;
  RengaCutsResult result;
  RengaCall(GraphsReadColoured(row->workload + strlen(PREFIX), &coloured));
  coloured.problem.devices = atoi(row->devices);
  coloured.problem.hosts = row->hosts;
  coloured.problem.capacity = row->memory;
  RengaCall(RengaCutsSolve(&coloured.problem, &result));
  if (row->value == HUGE_VAL) {
    RengaCheck(result.proof == RENGA_CUTS_INFEASIBLE && result.bound == HUGE_VAL, MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "%s k=%s: %s with %.17g, not infeasible", row->workload,
               row->devices, RengaCutsProofName(result.proof), result.load);
  } else {
    RengaCheck(result.proof == RENGA_CUTS_OPTIMAL && result.bound == result.load &&
                   fabs(result.load - row->value) <= 1e-9 * row->value,
               MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s k=%s hosts=%d memory %g: %s %.15g, not %.15g",
               row->workload, row->devices, row->hosts, row->memory,
               RengaCutsProofName(result.proof), result.load, row->value);
    RengaCall(CheckStages(&coloured.problem, &result));
  }
  RengaCutsFreeResult(&result);
  RengaCutsFreeColoured(&coloured);
  return RENGA_SUCCESS;
}

/* Loads that the authors' local search found, which bounds no memory, rounded down. */
static const struct {
  const char *name;
  double load;
} spreads[] = {
    {"LayerGraphs/gnmt_training", 90.94},         {"LayerGraphs/bert24_training", 39.94},
    {"LayerGraphs/gnmt_inference", 31.78},        {"LayerGraphs/bert24_inference", 17.777},
    {"OperatorGraphs/bert_l-3_inference", 27.57}, {"LayerGraphs/resnet50_training", 81.6}};
enum { SPREADS = sizeof spreads / sizeof spreads[0] };

/* Virtual stages: better than others', never worse than convex ones, and what they say. */
static RengaErrorCode CheckSpread(const char *name, double load)
{
  RengaCutsColoured coloured;
  RengaCutsResult stages;
  RengaCutsSpreadResult spread, again;
  RengaCutsStage device[16] = {{0}};
  RengaCall(GraphsReadColoured(name, &coloured));
  RengaCall(RengaCutsSolve(&coloured.problem, &stages));
  RengaCall(RengaCutsSpread(&coloured.problem, &stages, 0, &spread));
  RengaCheck(spread.load <= load && spread.load <= stages.load, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: virtual stages %.12g, not %g; convex %.12g", name, spread.load, load,
             stages.load);
  Expect(spread.bound > 0 && spread.bound <= spread.load);
  memcpy(device, spread.device, sizeof *device * (size_t)spread.count);
  RengaCall(RengaCutsEvaluate(&coloured.problem, spread.device_of, spread.count, device));
  double largest = 0;
  for (int d = 0; d < spread.count; d++) {
    largest = fmax(largest, device[d].load);
    Expect(device[d].memory <= coloured.problem.capacity);
  }
  Expect(largest == spread.load);
  RengaCutsFreeSpreadResult(&spread);
  RengaCall(RengaCutsSpread(&coloured.problem, &stages, 10000, &spread));
  RengaCall(RengaCutsSpread(&coloured.problem, &stages, 10000, &again));
  for (int v = 0; v < coloured.problem.items; v++)
    Expect(spread.device_of[v] == again.device_of[v]);
  RengaCutsFreeSpreadResult(&again);
  RengaCutsFreeSpreadResult(&spread);
  RengaCutsFreeResult(&stages);
  RengaCutsFreeColoured(&coloured);
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  int count = 0;
  GraphsReference *row = NULL;
  RengaCall(GraphsReadReferences(&count, &row));
  for (int r = 0; r < count; r++)
    if (!strncmp(row[r].workload, PREFIX, strlen(PREFIX)) &&
        (!strcmp(row[r].method, "prunedDP_opt") || !strcmp(row[r].method, "dpcpp_DP")))
      RengaCall(CheckRow(&row[r]));
  RengaFree(&row);
  for (int s = 0; s < SPREADS; s++) RengaCall(CheckSpread(spreads[s].name, spreads[s].load));
  return RENGA_SUCCESS;
}

GRAPHS_MAIN(Run)
