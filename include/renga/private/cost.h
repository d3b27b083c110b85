/* What planners ask of profiles beside their public functions. */
#pragma once
#include "rengaprofile.h"

/* Of a call that no network need have, by the rates of a device, which has that of its products;
   0 of what only reshapes. */
double RengaCostSeconds_Private(const RengaMachineDevice *device, const RengaOpCall *call);
/* The graph as one stage, differentiated; lent; NULL: the profile has not done that. */
RengaGraph RengaProfileGetWhole_Private(RengaProfile profile, RengaGraph graph);
