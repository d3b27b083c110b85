/* Messages of a small pipeline. */
#pragma once
#include "rengaschedule.h"

/* A chain of activations, and one of stage 0 that all others use, with their gradients. */
static inline int FillMessages(int stages, RengaMessage rows[])
{
  int n = 0;
  for (int s = 0; s + 1 < stages; s++) {
    rows[n++] = (RengaMessage){"chain", s, s + 1, false, 8};
    rows[n++] = (RengaMessage){"chain", s + 1, s, true, 8};
  }
  for (int s = 1; s < stages; s++) rows[n++] = (RengaMessage){"skip", 0, s, false, 4};
  for (int s = stages - 1; s > 0; s--) rows[n++] = (RengaMessage){"skip", s, s - 1, true, 4};
  return n;
}
