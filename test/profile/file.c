/* TEST ranks: 1 2 */
/* Costs of a text file: what is saved comes back, other sizes lie on lines, and every mistake in a
   file is named with its line. */
#include "../check.h"
#include "rengacomm.h"
#include "rengaprofile.h"
#include <math.h>

enum { NODES = 2 };
static RengaComm comm;
static const char file[] = "costs.txt";

/* x[N,4] -> Linear "first" -> Relu "second": no loss, so that there are just two nodes. */
static RengaErrorCode MakeGraph(RengaGraph *graph)
{
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 4}};
  const RengaTensorSpec weight = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {4, 4}};
  const RengaInit init = {.kind = RENGA_INIT_NORMAL, .b = 0.1};
  RengaValue in[2], x = RENGA_VALUE_NONE, y = RENGA_VALUE_NONE;
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphAddInput(*graph, "x", &spec, &in[0]));
  RengaCall(RengaGraphAddParameter(*graph, "w", &weight, &init, &in[1]));
  RengaCall(RengaGraphAddNode(*graph, "Linear", "first", NULL, 2, in, 1, NULL, &x));
  RengaCall(RengaGraphAddNode(*graph, "Relu", "second", NULL, 1, &x, 1, NULL, &y));
  RengaCall(RengaGraphAddOutput(*graph, y));
  RengaCall(RengaGraphSetUp(*graph));
  Expect(RengaGraphGetNodeCount(*graph) == NODES);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteFile(const char *text)
{
  if (RengaCommGetRank(comm) == 0) {
    FILE *stream = fopen(file, "w");
    Expect(stream && fputs(text, stream) >= 0 && fclose(stream) == 0);
  }
  RengaCall(RengaCommBarrier(comm, "test"));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeProfile(RengaGraph graph, RengaProfile *profile)
{
  RengaCall(RengaProfileCreate(comm, profile));
  RengaCall(RengaProfileSetType(*profile, RENGA_PROFILE_FILE));
  RengaCall(RengaProfileSetGraph(*profile, graph));
  RengaCall(RengaProfileSetFromOptions(*profile));
  return RENGA_SUCCESS;
}

static const char good[] = "renga-profile 1\n# remarks\nupdate 2e-9\naccumulate 1e-9\n"
                           "samples 4\n1e-3 2e-3 first\n3e-3 0 second\n"
                           "samples 8\n2e-3 2e-3 first\n5e-3 1e-3 second\nend\n";

static bool Near(double a, double b)
{
  return fabs(a - b) <= 1e-12;
}

static RengaErrorCode TestLines(RengaGraph graph)
{
  static const struct {
    int64_t samples;
    double forward, backward; /* of first */
  } row[] = {
      {4, 1e-3, 2e-3}, {8, 2e-3, 2e-3}, {6, 1.5e-3, 2e-3}, {2, 0.5e-3, 1e-3}, {16, 4e-3, 4e-3}};
  RengaProfile profile;
  RengaProfileCost costs[NODES];
  RengaMachine machine;
  double seconds;
  RengaCall(WriteFile(good));
  RengaCall(MakeProfile(graph, &profile));
  for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
    RengaCall(RengaProfileGetCosts(profile, row[r].samples, costs));
    Expect(Near(costs[0].forward, row[r].forward) && Near(costs[0].backward, row[r].backward));
  }
  RengaCall(RengaProfileGetUpdateSeconds(profile, 1000, &seconds));
  Expect(Near(seconds, 2e-6));
  RengaCall(RengaProfileGetAccumulateSeconds(profile, 1000, &seconds));
  Expect(Near(seconds, 1e-6));
  ExpectError(RengaProfileGetMachine(profile, &machine), RENGA_ERR_ORDER,
              RengaCommGetRank(comm) == 0 ? "-machine_file" : "");
  RengaCall(RengaProfileDestroy(&profile));
  return RENGA_SUCCESS;
}

/* Analytic costs, saved and read. */
static RengaErrorCode TestRoundTrip(RengaGraph graph)
{
  RengaProfile profile;
  RengaMachine machine;
  RengaProfileCost before[2][NODES], after[NODES];
  const int64_t samples[] = {3, 5};
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineLoad(machine, "h200"));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaProfileSetMachine(profile, machine));
  RengaCall(RengaProfileSetGraph(profile, graph));
  for (int s = 0; s < 2; s++) RengaCall(RengaProfileGetCosts(profile, samples[s], before[s]));
  RengaCall(RengaProfileSave(profile, file, 2, samples));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(MakeProfile(graph, &profile));
  for (int s = 0; s < 2; s++) {
    RengaCall(RengaProfileGetCosts(profile, samples[s], after));
    for (int n = 0; n < NODES; n++) Expect(Near(before[s][n].forward, after[n].forward));
  }
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

/* What goes wrong when `from` is written `to` in the good file. */
static const struct {
  const char *from, *to, *text;
} bad[] = {
    {"renga-profile 1", "renga-profile 2", "must begin"},
    {"3e-3 0 second", "3e-3 0 secnd", "did you mean \"second\"?"},
    {"3e-3 0 second\n", "", "1 of 2 nodes"},
    {"3e-3 0 second", "3e-3 0 first", "twice"},
    {"3e-3 0 second", "-3e-3 0 second", "must be from 0 to 1e9"},
    {"3e-3 0 second", "3e-3 second", "line 7"},
    {"3e-3 0 second", "nan 0 second", "must be from 0 to 1e9"},
    {"samples 8", "samples 4", "must rise"},
    {"samples 8", "samples many", "many"},
    {"update 2e-9", "update quickly", "quickly"},
    {"end\n", "", "before its line \"end\""},
    {"end\n", "end\n1 1 first\n", "after \"end\""},
};

static RengaErrorCode TestBad(RengaGraph graph)
{
  const bool prints = RengaCommGetRank(comm) == 0;
  for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
    char text[1024];
    RengaProfile profile;
    RengaProfileCost costs[NODES];
    const char *at = strstr(good, bad[b].from);
    Expect(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, bad[b].to,
             at + strlen(bad[b].from));
    RengaCall(WriteFile(text));
    RengaCall(MakeProfile(graph, &profile));
    ExpectError(RengaProfileGetCosts(profile, 4, costs), RENGA_ERR_FILE_FORMAT,
                prints ? bad[b].text : "", prints ? "costs.txt, line" : "");
    RengaCall(RengaProfileDestroy(&profile));
    RengaCall(RengaCommBarrier(comm, "test"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaGraph graph;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaOptionsSetValue("profile_file", file));
  RengaCall(RengaOptionsSetValue("profile_type", "file"));
  RengaCall(MakeGraph(&graph));
  RengaCall(TestLines(graph));
  RengaCall(TestRoundTrip(graph));
  RengaCall(TestBad(graph));
  RengaCall(RengaGraphDestroy(&graph));
  if (RengaCommGetRank(comm) == 0) unlink(file);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
