/* What the last call that failed has to say. */
#include "cuda.h"
#include <stdio.h>

static _Thread_local char message[256];

int RengaCudaSay(const char *what, int code, const char *text)
{
  if (code) snprintf(message, sizeof message, "%s: %s", what, text);
  if (code) (void)cudaGetLastError(); /* it is told: the next launch does not find it */
  return code;
}

const char *RengaCudaError(void)
{
  return message;
}
