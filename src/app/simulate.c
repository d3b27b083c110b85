/* renga plan: the planned step on a machine whose links are shared, and with what -simulate_...
   says of its nodes and links. */
#include "simulate.h"
#include "renga/private/number.h"
#include <stdlib.h>

enum { UNASKED_MOST = 1 << 19 }; /* micro-batches of all stages */

/* "NODE:FACTOR" */
static RengaErrorCode ReadNodeFactor(MPI_Comm printer, const char *option, int64_t *node,
                                     double *factor, bool *given)
{
  const char *text;
  char *end, *last = NULL;
  RengaCall(RengaOptionsGetString(option, &text, given));
  if (!*given) return RENGA_SUCCESS;
  *node = strtoll(text, &end, 10);
  if (end != text && *end == ':') *factor = RengaReadReal(end + 1, &last);
  RengaCheck(last && last > end + 1 && !*last, printer, RENGA_ERR_OPTION,
             "-%s %s: write NODE:FACTOR, a node from 0 on and a number", option, text);
  return RENGA_SUCCESS;
}

/* -simulate_save */
static RengaErrorCode SaveStep(RengaComm comm, RengaSchedule schedule, RengaPlan plan,
                               RengaMachine machine)
{
  const char *file;
  char what[4096];
  bool given;
  RengaViewer viewer = NULL;
  RengaCall(RengaOptionsGetString("simulate_save", &file, &given));
  if (!given) return RENGA_SUCCESS;
  RengaTextFormat(what, sizeof what, "ascii:%s", file);
  RengaCall(RengaViewerCreate(comm, what, &viewer));
  const RengaErrorCode code = RengaScheduleViewNetwork(schedule, plan, machine, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* disturbed: any is asked for. */
static RengaErrorCode ReadDisturbance(MPI_Comm printer, RengaScheduleDisturbance *disturbance,
                                      bool *disturbed)
{
  bool slow, link, lost, jitter, seeded;
  int64_t seed;
  *disturbance = RengaScheduleDisturbanceNone();
  RengaCall(ReadNodeFactor(printer, "simulate_slow", &disturbance->slow_node,
                           &disturbance->slow_factor, &slow));
  RengaCall(ReadNodeFactor(printer, "simulate_link", &disturbance->link_node,
                           &disturbance->link_factor, &link));
  RengaCall(RengaOptionsGetInt64("simulate_lost", &disturbance->lost_node, &lost));
  RengaCall(RengaOptionsGetReal("simulate_jitter", &disturbance->jitter, &jitter));
  RengaCall(RengaOptionsGetInt64("simulate_seed", &seed, &seeded));
  disturbance->seed = (uint64_t)seed;
  disturbance->card_lost = lost;
  *disturbed = slow || link || lost || jitter;
  RengaCheck(!seeded || jitter, printer, RENGA_ERR_OPTION,
             "-simulate_seed %lld is of random numbers: give -simulate_jitter", (long long)seed);
  return RENGA_SUCCESS;
}

/* The step is to be simulated, or saved. */
static RengaErrorCode IsSimulationAsked(MPI_Comm printer, bool *asked)
{
  RengaScheduleDisturbance disturbance;
  const char *file;
  bool saved;
  RengaCall(ReadDisturbance(printer, &disturbance, asked));
  RengaCall(RengaOptionsGetString("simulate_save", &file, &saved));
  *asked = *asked || saved;
  return RENGA_SUCCESS;
}

RengaErrorCode AppSimulateNetwork(RengaComm comm, RengaSchedule schedule, RengaPlan plan,
                                  RengaMachine machine)
{
  RengaScheduleDisturbance disturbance;
  bool disturbed;
  double step = 0, with = 0;
  char step_text[24], with_text[24];
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(ReadDisturbance(printer, &disturbance, &disturbed));
  RengaCall(SaveStep(comm, schedule, plan, machine));
  RengaCall(RengaScheduleSimulateNetwork(schedule, plan, machine, NULL, &step));
  RengaFormatSeconds(step, sizeof step_text, step_text);
  if (!disturbed) {
    RengaCall(RengaPrintf(printer, "  simulated on shared links: %s per step (%.6g s)\n", step_text,
                          step));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaScheduleSimulateNetwork(schedule, plan, machine, &disturbance, &with));
  RengaFormatSeconds(with, sizeof with_text, with_text);
  RengaCall(RengaPrintf(printer,
                        "  simulated on shared links: %s per step without, %s with what "
                        "-simulate_... says: %.3f times as long\n",
                        step_text, with_text, with / step));
  return RENGA_SUCCESS;
}

RengaErrorCode AppCheckSimulation(RengaComm comm, bool machine)
{
  bool asked;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(IsSimulationAsked(printer, &asked));
  RengaCheck(machine || !asked, printer, RENGA_ERR_OPTION,
             "-simulate_... is for the links of a machine: give -machine_file");
  return RENGA_SUCCESS;
}

/* Unasked only what takes little, and what the plan knows all of. */
static RengaErrorCode IsSimulatedUnasked(RengaPlan plan, bool *simulated)
{
  int64_t batch, microbatch;
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  const int stages = RengaPlanGetStageCount(plan);
  *simulated = RengaPlanMicrobatches(plan, batch) <= UNASKED_MOST / stages;
  for (int s = 0; s < stages; s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    const bool folds = stage->shape.shard >= RENGA_SHARD_GRADIENTS && stage->shape.replicas > 1;
    *simulated = *simulated && (!folds || stage->exchange.parts > 0);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppIsSimulated(RengaComm comm, RengaPlan plan, RengaMachine machine, bool printed,
                              bool *simulated)
{
  const RengaMachineNetwork *network;
  RengaPlanPrediction prediction;
  bool asked, unasked;
  *simulated = false;
  if (!machine) return RENGA_SUCCESS;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(IsSimulationAsked(printer, &asked));
  RengaCall(IsSimulatedUnasked(plan, &unasked));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaCall(RengaMachineGetNetwork(machine, &network));
  unasked = unasked && printed && prediction.step > 0 && network->cards > 0;
  *simulated = asked || unasked;
  return RENGA_SUCCESS;
}
