/* What planners ask of profiles beside their public functions. */
#pragma once
#include "rengaprofile.h"

/* Seconds of a call that no network need have, by the rates of a device, which has that of its
   products; 0 of what only reshapes. */
double RengaCostSeconds_Private(const RengaMachineDevice *device, const RengaOpCall *call);
/* The graph as one stage, differentiated; lent until the profile's graph is set again or it is
   destroyed; NULL: the profile has another graph, or has not done that. */
RengaGraph RengaProfileGetWhole_Private(RengaProfile profile, RengaGraph graph);
