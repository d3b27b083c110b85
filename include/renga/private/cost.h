/* The analytic cost of a call, for who prices calls that no network has: parts of one. */
#pragma once
#include "rengaprofile.h"

/* Seconds on the device, which has the rate of its products; 0 of what only reshapes. */
double RengaCostSeconds_Private(const RengaMachineDevice *device, const RengaOpCall *call);
