/* The planned step on the links of a machine, and what -simulate_... does to it. */
#pragma once
#include "app.h"

/* -simulate_... is understood, and there is a machine if it is given. */
RengaErrorCode AppCheckSimulation(RengaComm comm, bool machine);
/* Whether a line is said of it: the machine (or NULL) says of links, or it is asked for. */
RengaErrorCode AppIsSimulated(RengaComm comm, RengaPlan plan, RengaMachine machine,
                              bool *simulated);
RengaErrorCode AppSimulateNetwork(RengaComm comm, RengaSchedule schedule, RengaPlan plan,
                                  RengaMachine machine);
