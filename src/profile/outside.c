/* Costs from outside: a rule that a program registered gives seconds of calls, or of nodes. Rank 0
   asks it, and all ranks have what it says. */
#include "profileimpl.h"
#include "renga/private/quiet.h"

static const char what[] = "costs that rank 0 asks a rule of the program for";

/* A function of the rule that returns a code, but has told nobody why, is told of here. */
static RengaErrorCode CheckAnswer(RengaProfile profile, RengaErrorCode code, int64_t errors,
                                  const char *function)
{
  RengaCheck(code == RENGA_SUCCESS || RengaErrorCount_Private() > errors, MPI_COMM_SELF, code,
             "%s of the profile %s, a rule of the program, returned %d", function,
             profile->rule->name, (int)code);
  return code;
}

/* Their sums are finite, too. */
static bool IsSeconds(double seconds)
{
  return seconds >= 0 && seconds < 1e9;
}

static RengaErrorCode PriceOne(RengaProfile profile, ProfileCall *call)
{
  const RengaProfileRule *rule = profile->rule;
  const RengaOpCall asked = RengaProfileOpCall_Private(call);
  const int64_t errors = RengaErrorCount_Private();
  char text[256];
  double seconds = -1;
  RengaCall(CheckAnswer(profile, rule->price(profile, &asked, &seconds, rule->user), errors,
                        "the price of a call"));
  RengaOpCallFormat(&asked, sizeof text, text);
  RengaCheck(IsSeconds(seconds), MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "the profile %s, a rule of the program, says that %s takes %g seconds",
             profile->rule->name, text, seconds);
  call->seconds = seconds;
  return RENGA_SUCCESS;
}

static RengaErrorCode PriceByRule(RengaProfile profile, int first)
{
  RengaComm comm = profile->hdr.owner;
  const int count = profile->n_calls - first;
  RengaErrorCode code = RENGA_SUCCESS;
  double *seconds = NULL;
  for (int c = first; c < profile->n_calls && !code && RengaCommGetRank(comm) == 0; c++)
    code = PriceOne(profile, &profile->call[c]);
  if (!code) code = RengaMalloc(count + 1, &seconds);
  code = RengaErrorAgree(profile->hdr.comm, code);
  for (int c = 0; c < count && !code; c++) seconds[c] = profile->call[first + c].seconds;
  if (!code) code = RengaCommBroadcast(comm, seconds, (size_t)count * sizeof *seconds, 0, what);
  for (int c = 0; c < count && !code; c++) profile->call[first + c].seconds = seconds[c];
  RengaFree(&seconds);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode AskNodes(RengaProfile profile, int64_t samples, RengaProfileCost costs[])
{
  const RengaProfileRule *rule = profile->rule;
  const int nodes = RengaGraphGetNodeCount(profile->graph);
  const int64_t errors = RengaErrorCount_Private();
  for (int n = 0; n < nodes; n++) costs[n] = (RengaProfileCost){-1, -1};
  RengaCall(CheckAnswer(profile, rule->costs(profile, samples, costs, rule->user), errors,
                        "the costs of nodes"));
  for (int n = 0; n < nodes; n++)
    RengaCheck(IsSeconds(costs[n].forward) && IsSeconds(costs[n].backward), MPI_COMM_SELF,
               RENGA_ERR_NUMERIC,
               "the profile %s, a rule of the program, says that node %s takes %g seconds forward, "
               "%g backward",
               rule->name, RengaGraphGetNode(profile->graph, n)->name, costs[n].forward,
               costs[n].backward);
  return RENGA_SUCCESS;
}

static RengaErrorCode CostsByRule(RengaProfile profile, int64_t samples, RengaProfileCost costs[])
{
  RengaComm comm = profile->hdr.owner;
  const size_t bytes = (size_t)RengaGraphGetNodeCount(profile->graph) * sizeof *costs;
  const bool first = RengaCommGetRank(comm) == 0;
  RengaCall(RengaErrorAgree(profile->hdr.comm,
                            first ? AskNodes(profile, samples, costs) : RENGA_SUCCESS));
  RengaCall(RengaCommBroadcast(comm, costs, bytes, 0, what));
  return RENGA_SUCCESS;
}

static RengaErrorCode MachineOfRule(RengaProfile profile, RengaMachine *machine)
{
  RengaCheck(profile->machine, profile->hdr.comm, RENGA_ERR_ORDER,
             "costs of type %s need a machine for memory and links: give -machine_file, or "
             "RengaProfileSetMachine",
             profile->rule->name);
  *machine = profile->machine;
  return RENGA_SUCCESS;
}

/* ask: update or accumulate of the rule, NULL: as of type analytic. */
static RengaErrorCode VectorByRule(RengaProfile profile, int64_t parameters, double *seconds,
                                   RengaErrorCode (*ask)(RengaProfile, int64_t, double *, void *),
                                   RengaErrorCode (*analytic)(RengaProfile, int64_t, double *))
{
  RengaErrorCode code = RENGA_SUCCESS;
  RengaMachine machine;
  double found = -1;
  const int64_t errors = RengaErrorCount_Private();
  if (!ask) {
    RengaCall(MachineOfRule(profile, &machine));
    RengaCall(analytic(profile, parameters, seconds));
    return RENGA_SUCCESS;
  }
  if (RengaCommGetRank(profile->hdr.owner) == 0)
    code = CheckAnswer(profile, ask(profile, parameters, &found, profile->rule->user), errors,
                       "the seconds of parameters");
  RengaCall(RengaErrorAgree(profile->hdr.comm, code));
  RengaCall(RengaCommBroadcast(profile->hdr.owner, &found, sizeof found, 0, what));
  RengaCheck(IsSeconds(found), profile->hdr.comm, RENGA_ERR_NUMERIC,
             "the profile %s, a rule of the program, says %g seconds for %lld parameters",
             profile->rule->name, found, (long long)parameters);
  *seconds = found;
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateByRule(RengaProfile profile, int64_t parameters, double *seconds)
{
  RengaCall(VectorByRule(profile, parameters, seconds, profile->rule->update,
                         RengaProfileUpdate_Analytic));
  return RENGA_SUCCESS;
}

static RengaErrorCode AccumulateByRule(RengaProfile profile, int64_t parameters, double *seconds)
{
  RengaCall(VectorByRule(profile, parameters, seconds, profile->rule->accumulate,
                         RengaProfileAccumulate_Analytic));
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewRule(RengaProfile profile, RengaViewer viewer)
{
  RengaCall(RengaViewerPrintf(viewer, "  a rule of the program that prices %s\n",
                              profile->rule->price ? "calls" : "nodes"));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaProfileAdopt_Private(void *object, const void *rule)
{
  RengaProfile profile = object;
  profile->rule = rule;
  profile->ops->costs = profile->rule->price ? RengaProfileSumCalls_Private : CostsByRule;
  profile->ops->price = PriceByRule;
  profile->ops->together = true;
  profile->ops->update = UpdateByRule;
  profile->ops->accumulate = AccumulateByRule;
  profile->ops->machine = MachineOfRule;
  profile->ops->view = ViewRule;
  return RENGA_SUCCESS;
}
