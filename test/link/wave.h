/* Samples of four numbers and one of three classes. */
#pragma once
#include "renga.h"
#include <math.h>

static inline RengaErrorCode ReadWave(void *user, int field, int64_t first, int64_t count,
                                      void *buffer)
{
  (void)user;
  for (int64_t i = 0; i < count; i++) {
    for (int k = 0; k < 4 && field == 0; k++)
      ((float *)buffer)[4 * i + k] = sinf((float)((first + i) * (k + 1)));
    if (field == 1) ((int64_t *)buffer)[i] = (first + i) % 3;
  }
  return RENGA_SUCCESS;
}
