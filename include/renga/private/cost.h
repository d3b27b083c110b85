/* What planners ask of profiles beside their public functions. */
#pragma once
#include "rengaprofile.h"

/* The graph as one stage, differentiated; lent until the profile's graph is set again or it is
   destroyed; NULL: the profile has another graph, or has not done that. */
RengaGraph RengaProfileGetWhole_Private(RengaProfile profile, RengaGraph graph);
RengaErrorCode RengaProfileKeepSeconds(RengaProfile profile, const char *name, double *seconds);
