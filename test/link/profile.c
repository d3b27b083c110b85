/* TEST ranks: 1 2 */
/* A type of profile from outside: costs are what its rule says of calls and of nodes, forward and
   backward; a plan is cut where they say; ranks have what rank 0 was told; and what cannot be is
   refused. */
#include "../check.h"
#include "renga.h"
#include <math.h>

enum { LAYERS = 6, MICROBATCH = 4 };
static const char costs_file[] = "link-profile.txt";

/* What the rules are told to say. */
typedef struct {
  int64_t wide;   /* layers of so many columns are dear */
  double scale;   /* of all that they say */
  bool fails;     /* without a sentence */
  int calls, all; /* times that they were asked */
} Prices;
static Prices prices;

/* A product takes a millisecond, a dear one ten; all else nothing. */
static RengaErrorCode PriceCall(RengaProfile profile, const RengaOpCall *call, double *seconds,
                                void *user)
{
  Prices *own = user;
  const char *name = call->op->name;
  const char *type;
  RengaCall(RengaProfileGetType(profile, &type));
  Expect(!strcmp(type, "priced"));
  own->calls++;
  if (own->fails) return RENGA_ERR_LIBRARY;
  bool dear = false;
  for (int i = 0; i < call->n_in; i++)
    dear = dear || call->in[i].dim[call->in[i].ndim - 1] == own->wide;
  *seconds = strncmp(name, "Linear", 6) ? 0 : own->scale * (dear ? 1e-2 : 1e-3);
  return RENGA_SUCCESS;
}

/* Node n takes n + 1 microseconds a sample, and twice as many backward. */
static RengaErrorCode PriceNodes(RengaProfile profile, int64_t samples, RengaProfileCost costs[],
                                 void *user)
{
  Prices *own = user;
  RengaGraph graph;
  RengaCall(RengaProfileGetGraph(profile, &graph));
  own->all++;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    costs[n].forward = own->scale * 1e-6 * (double)(n + 1) * (double)samples;
    costs[n].backward = 2 * costs[n].forward;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeNanosecond(RengaProfile profile, int64_t parameters, double *seconds,
                                     void *user)
{
  (void)profile;
  (void)user;
  *seconds = prices.scale * 1e-9 * (double)parameters;
  return RENGA_SUCCESS;
}

static const RengaProfileRule priced = {
    .size = sizeof priced, .name = "priced", .price = PriceCall, .user = &prices};
static const RengaProfileRule listed = {.size = sizeof listed,
                                        .name = "listed",
                                        .costs = PriceNodes,
                                        .update = TakeNanosecond,
                                        .accumulate = TakeNanosecond,
                                        .user = &prices};

/* Products, the node after each of them a Relu but for the last; columns tell them apart. */
static RengaErrorCode MakeGraph(RengaComm comm, RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphLoad(*graph, "mlp:sizes=4-11-12-13-14-15-3"));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static int NodeOfLayer(RengaGraph graph, int layer)
{
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++)
    if (!strcmp(RengaGraphGetNode(graph, n)->op->name, "Linear") && layer-- == 0) return n;
  return -1;
}

static RengaErrorCode MakeProfile(RengaComm comm, RengaGraph graph, const char *type,
                                  RengaProfile *profile)
{
  prices = (Prices){.scale = 1};
  RengaCall(RengaProfileCreate(comm, profile));
  RengaCall(RengaProfileSetType(*profile, type));
  RengaCall(RengaProfileSetGraph(*profile, graph));
  return RENGA_SUCCESS;
}

/* A product's backward is two: of its input, which the first has none of, and of its parameter.
   Layers 2 and 3 have the dear columns, or as many rows. */
static RengaErrorCode TestCalls(RengaComm comm, RengaGraph graph, RengaMachine machine)
{
  RengaProfile profile;
  RengaProfileCost costs[64];
  RengaMachine found;
  double seconds, other;
  const bool first = RengaCommGetRank(comm) == 0;
  RengaCall(MakeProfile(comm, graph, "priced", &profile));
  prices.wide = 13;
  RengaCall(RengaProfileGetCosts(profile, MICROBATCH, costs));
  for (int l = 0; l < LAYERS; l++) {
    static const double forward[LAYERS] = {1, 1, 10, 10, 1, 1}, back[LAYERS] = {1, 2, 20, 20, 2, 2};
    const RengaProfileCost *cost = &costs[NodeOfLayer(graph, l)];
    Expect(fabs(cost->forward - 1e-3 * forward[l]) < 1e-12);
    Expect(fabs(cost->backward - 1e-3 * back[l]) < 1e-12);
  }
  const int asked = prices.calls;
  Expect(first ? asked > 0 : asked == 0);
  RengaCall(RengaProfileGetCosts(profile, MICROBATCH, costs));
  Expect(prices.calls == asked); /* they are known */
  ExpectError(RengaProfileGetMachine(profile, &found), RENGA_ERR_ORDER,
              first ? "costs of type priced need a machine" : "");
  RengaCall(RengaProfileSetMachine(profile, machine));
  RengaCall(RengaProfileGetUpdateSeconds(profile, 1000000, &seconds));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_ANALYTIC));
  RengaCall(RengaProfileGetUpdateSeconds(profile, 1000000, &other));
  Expect(seconds > 0 && seconds == other);
  RengaCall(RengaProfileDestroy(&profile));
  return RENGA_SUCCESS;
}

/* Those of nodes; a file that keeps them says the same. */
static RengaErrorCode TestNodes(RengaComm comm, RengaGraph graph)
{
  const int64_t sizes[] = {2, MICROBATCH};
  const int nodes = RengaGraphGetNodeCount(graph);
  RengaProfile profile;
  RengaProfileCost costs[64];
  double seconds;
  RengaCall(MakeProfile(comm, graph, "listed", &profile));
  RengaCall(RengaProfileGetUpdateSeconds(profile, 1000, &seconds));
  Expect(fabs(seconds - 1e-6) < 1e-15);
  RengaCall(RengaProfileSave(profile, costs_file, 2, sizes));
  RengaCall(RengaProfileSetType(profile, RENGA_PROFILE_FILE));
  RengaCall(RengaOptionsSetValue("profile_type", RENGA_PROFILE_FILE));
  RengaCall(RengaOptionsSetValue("profile_file", costs_file));
  RengaCall(RengaProfileSetFromOptions(profile));
  RengaCall(RengaProfileGetCosts(profile, MICROBATCH, costs));
  for (int n = 0; n < nodes; n++) {
    Expect(fabs(costs[n].forward - 1e-6 * (n + 1) * MICROBATCH) < 1e-12);
    Expect(fabs(costs[n].backward - 2 * costs[n].forward) < 1e-12);
  }
  RengaCall(RengaOptionsClearValue("profile_file"));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaCommBarrier(comm, "all ranks to have read costs"));
  if (RengaCommGetRank(comm) == 0) remove(costs_file);
  return RENGA_SUCCESS;
}

/* Where type exact cuts into two stages. */
static RengaErrorCode CutOf(RengaComm comm, RengaGraph graph, RengaMachine machine, int64_t wide,
                            int *cut, double *seconds)
{
  RengaPartition partition;
  RengaPlan plan;
  RengaPlanPrediction prediction;
  prices = (Prices){.scale = 1, .wide = wide};
  RengaCall(RengaOptionsSetValue("profile_type", "priced"));
  RengaCall(RengaPartitionCreate(comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, graph));
  RengaCall(RengaPartitionSetMachine(partition, machine));
  RengaCall(RengaPartitionSetBatch(partition, 8 * MICROBATCH, MICROBATCH));
  RengaCall(RengaPartitionSetRanks(partition, 2));
  RengaCall(RengaPartitionSetType(partition, RENGA_PARTITION_EXACT));
  RengaCall(RengaPartitionSetStages(partition, 2));
  RengaCall(RengaPartitionSetReplicas(partition, 1));
  RengaCall(RengaPartitionSetFromOptions(partition));
  RengaCall(RengaPartitionSolve(partition, &plan));
  *cut = RengaPlanGetStage(plan, 1)->first;
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  *seconds = prediction.step;
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaPartitionDestroy(&partition));
  return RENGA_SUCCESS;
}

/* All products alike: three of them for each stage. Where the first two have 11 columns or rows
   that are dear, or the last two 15, each stage has one of these. */
static RengaErrorCode TestPlans(RengaComm comm, RengaGraph graph, RengaMachine machine)
{
  int even, early, late;
  double seconds, dear;
  RengaCall(CutOf(comm, graph, machine, 99, &even, &seconds));
  RengaCall(CutOf(comm, graph, machine, 11, &early, &dear));
  Expect(even > NodeOfLayer(graph, 2) && even <= NodeOfLayer(graph, 3));
  Expect(early > NodeOfLayer(graph, 0) && early <= NodeOfLayer(graph, 1));
  RengaCall(CutOf(comm, graph, machine, 15, &late, &dear));
  Expect(late > NodeOfLayer(graph, 4) && late <= NodeOfLayer(graph, 5));
  Expect(dear > 3 * seconds);
  return RENGA_SUCCESS;
}

/* Seconds that are none, and functions that fail, on all ranks with one sentence. */
static RengaErrorCode TestFailing(RengaComm comm, RengaGraph graph)
{
  RengaProfile profile;
  RengaProfileCost costs[64];
  double seconds;
  const bool first = RengaCommGetRank(comm) == 0;
  RengaCall(MakeProfile(comm, graph, "priced", &profile));
  prices.scale = -1;
  ExpectError(RengaProfileGetCosts(profile, MICROBATCH, costs), RENGA_ERR_NUMERIC,
              first ? "says that Linear(float32[4,4], float32[11,4], float32[11]) takes -0.001 "
                      "seconds"
                    : "");
  prices.scale = 1e300; /* whose sum would be none */
  ExpectError(RengaProfileGetCosts(profile, MICROBATCH, costs), RENGA_ERR_NUMERIC,
              first ? "takes 1e+297 seconds" : "");
  prices = (Prices){.scale = 1, .fails = true};
  ExpectError(RengaProfileGetCosts(profile, MICROBATCH, costs), RENGA_ERR_LIBRARY,
              first ? "the price of a call of the profile priced, a rule of the program, returned"
                    : "");
  prices.fails = false;
  RengaCall(RengaProfileGetCosts(profile, MICROBATCH, costs)); /* as if nothing had been */
  Expect(fabs(costs[0].forward - 1e-3) < 1e-12);
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(MakeProfile(comm, graph, "listed", &profile));
  prices.scale = NAN;
  ExpectError(RengaProfileGetCosts(profile, MICROBATCH, costs), RENGA_ERR_NUMERIC,
              first ? "takes nan seconds forward" : "");
  ExpectError(RengaProfileGetAccumulateSeconds(profile, 10, &seconds), RENGA_ERR_NUMERIC,
              first ? "says nan seconds for 10 parameters" : "");
  RengaCall(RengaProfileDestroy(&profile));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefused(void)
{
  static RengaProfileRule taken, other, nothing, both, old;
  taken = other = nothing = both = old = priced;
  taken.name = RENGA_PROFILE_ANALYTIC;
  nothing.name = "nothing";
  nothing.price = NULL;
  both.name = "both";
  both.costs = PriceNodes;
  old.name = "old";
  old.size = 8;
  ExpectError(RengaProfileRegister(&taken), RENGA_ERR_ARGUMENT, "has a type analytic already");
  ExpectError(RengaProfileRegister(&other), RENGA_ERR_ARGUMENT, "another type priced already");
  ExpectError(RengaProfileRegister(&nothing), RENGA_ERR_ARGUMENT,
              "the profile nothing needs a function that prices calls, or one that prices nodes");
  ExpectError(RengaProfileRegister(&both), RENGA_ERR_ARGUMENT, "and not both");
  ExpectError(RengaProfileRegister(&old), RENGA_ERR_ARGUMENT, "says that it has 8 bytes");
  ExpectError(RengaProfileRegister(NULL), RENGA_ERR_ARGUMENT, "");
  return RENGA_SUCCESS;
}

static RengaErrorCode TestProfiles(void)
{
  RengaComm comm;
  RengaGraph graph;
  RengaMachine machine;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineLoad(machine, "v100"));
  RengaCall(MakeGraph(comm, &graph));
  RengaCall(TestCalls(comm, graph, machine));
  RengaCall(TestNodes(comm, graph));
  RengaCall(TestPlans(comm, graph, machine));
  RengaCall(TestFailing(comm, graph));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaMachineDestroy(&machine));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  (void)argc;
  RengaCallAbort(RengaProfileRegister(&priced));
  RengaCallAbort(RengaProfileRegister(&priced)); /* again is as good as once */
  RengaCallAbort(RengaProfileRegister(&listed));
  RengaCallAbort(TestRefused());
  char *words[] = {argv[0], (char[]){"-profile_type"}, (char[]){"priced"}, NULL};
  char **given = words;
  int n_words = 3;
  RengaCallAbort(RengaInitialize(&n_words, &given, NULL)); /* the option knows it */
  RengaCallAbort(TestProfiles());
  RengaCallAbort(RengaFinalize());
  return 0;
}
