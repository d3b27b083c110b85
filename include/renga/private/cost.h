/* What planners ask of profiles beside their public functions. */
#pragma once
#include "rengaprofile.h"

/* The graph as one stage, differentiated; lent until the profile's graph is set again or it is
   destroyed; NULL: the profile has another graph, or has not done that. */
RengaGraph RengaProfileGetWhole_Private(RengaProfile profile, RengaGraph graph);
RengaErrorCode RengaProfileKeepSeconds(RengaProfile profile, const char *name, double *seconds);
/* Devices that a step is to run on, of which costs may know that it waits for all; 0, as before
   it is called: those of the machine. Not collective. */
void RengaProfileSetDevices_Private(RengaProfile profile, int64_t devices);
