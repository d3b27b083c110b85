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
  return RENGA_SUCCESS;
}

GRAPHS_MAIN(Run)
