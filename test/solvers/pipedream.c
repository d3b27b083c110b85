/* TEST ranks: 1 timeout: 300 */
/* In PipeDream's model, replicas and all, no plan of its optimizer for its profiles is better than
   the exact one: machines side by side, and four in each of four. */
#include "cutstest.h"
#include "graphs.h"
#include <stdlib.h>

enum { DEVICES = 16, LEVELS = 2, SMALL = 100 };

typedef struct {
  const char *name, *devices;
  double seconds; /* per stage; with six digits */
} Row;

/* Values of its optimizer that are in no file: ../shared/references/planners.md, section 1.3. */
static const Row rows[] = {{"alexnet", "4", 0.0229012},    {"alexnet", "16", 0.0070596},
                           {"alexnet", "4x4", 0.0058563},  {"resnet18", "4", 0.065918},
                           {"resnet18", "16", 0.0179792},  {"resnet18", "4x4", 0.0168578},
                           {"resnet101", "4", 0.103941},   {"resnet101", "16", 0.026149},
                           {"densenet121", "4", 0.081985}, {"densenet121", "16", 0.020853}};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* Seconds per byte of weight and replica: all send and receive twice, and it divides by replicas
   again. The first stage's are divided by the machines of a level below, too. */
static void FillTable(int devices, double bandwidth, double divide, double table[])
{
  for (int d = 1; d <= devices; d++) table[d] = 4.0 * (d - 1) / d / d / bandwidth / divide;
}

/* One level of machines is the same problem. */
static RengaErrorCode CheckOneLevel(const RengaCutsProblem *problem, double load)
{
  RengaCutsResult result;
  RengaCutsLevel level = {.devices = problem->devices, .resynchronise = problem->resynchronise};
  RengaCall(RengaCutsSolveLevels(problem, 1, &level, &result));
  Expect(fabs(result.load - load) <= 1e-9 * load);
  RengaCall(CheckStages(problem, &result));
  RengaCutsFreeResult(&result);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckFlat(const Row *row, double slack)
{
  GraphsProfile profile;
  RengaCutsResult result;
  double table[DEVICES + 1] = {0};
  RengaCall(GraphsReadProfile(row->name, &profile));
  profile.problem.devices = profile.problem.replicas = atoi(row->devices);
  profile.problem.resynchronise = table;
  FillTable(profile.problem.devices, 1.25e9, 1, table);
  RengaCall(RengaCutsSolve(&profile.problem, &result));
  RengaCheck(result.load <= row->seconds * (1 + slack), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s on %s: %.12g, but PipeDream has %.12g", row->name, row->devices, result.load,
             row->seconds);
  Expect(result.proof == RENGA_CUTS_OPTIMAL && result.bound == result.load);
  RengaCall(CheckStages(&profile.problem, &result));
  if (profile.problem.items <= SMALL) RengaCall(CheckOneLevel(&profile.problem, result.load));
  RengaCutsFreeResult(&result);
  GraphsFreeProfile(&profile);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLevels(const Row *row, double slack)
{
  GraphsProfile profile;
  RengaCutsResult result;
  double table[LEVELS][DEVICES + 1] = {{0}}, first[DEVICES + 1] = {0};
  RengaCutsLevel level[LEVELS] = {{.devices = 4, .resynchronise = table[0]},
                                  {.devices = 4, .resynchronise = table[1], .first = first}};
  RengaCall(GraphsReadProfile(row->name, &profile));
  FillTable(4, 15e9, 1, table[0]);
  FillTable(4, 1.25e9, 1, table[1]);
  FillTable(4, 1.25e9, 4, first);
  RengaCall(RengaCutsSolveLevels(&profile.problem, LEVELS, level, &result));
  RengaCheck(result.load <= row->seconds * (1 + slack), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s on %s: %.12g, but PipeDream has %.12g", row->name, row->devices, result.load,
             row->seconds);
  int units = 0;
  double largest = 0;
  for (int s = 0; s < result.count; s++) {
    units += result.stage[s].replicas;
    largest = fmax(largest, result.stage[s].load);
  }
  Expect(units <= 4 && fabs(largest - result.load) <= 1e-9 * largest);
  RengaCutsFreeResult(&result);
  GraphsFreeProfile(&profile);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRow(const Row *row, double slack)
{
  if (strchr(row->devices, 'x'))
    RengaCall(CheckLevels(row, slack));
  else
    RengaCall(CheckFlat(row, slack));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  int count = 0;
  GraphsReference *reference = NULL;
  RengaCall(GraphsReadReferences(&count, &reference));
  for (int r = 0; r < count; r++) {
    if (strcmp(reference[r].method, "pipedream_opt_replicated")) continue;
    Row row = {strchr(reference[r].workload, '/') + 1, reference[r].devices, reference[r].value};
    RengaCall(CheckRow(&row, 1e-9));
  }
  for (int r = 0; r < ROWS; r++) RengaCall(CheckRow(&rows[r], 1e-5));
  RengaFree(&reference);
  return RENGA_SUCCESS;
}

GRAPHS_MAIN(Run)
