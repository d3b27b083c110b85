/* The planned step on the links of a machine, and what -simulate_... does to it. */
#pragma once
#include "app.h"

/* -simulate_... is understood, and there is a machine if it is given. */
RengaErrorCode AppCheckSimulation(RengaComm comm, bool machine);
/* Whether a line is said of it: it is asked for; or the plan was printed, and the machine (or NULL)
   says of links. */
RengaErrorCode AppIsSimulated(RengaComm comm, RengaPlan plan, RengaMachine machine, bool printed,
                              bool *simulated);
RengaErrorCode AppSimulateNetwork(RengaComm comm, RengaSchedule schedule, RengaPlan plan,
                                  RengaMachine machine);
