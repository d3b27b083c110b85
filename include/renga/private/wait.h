/* The one policy of waiting: MPI may spin, Renga tests, yields, then sleeps a little. */
#pragma once
#include "rengasys.h"

/* Start each wait with {0}. The first pauses yield the core, later ones sleep 20 to 50 us. */
typedef struct {
  int64_t pauses;
} RengaWaitPolicy;

void RengaWaitPause(RengaWaitPolicy *policy);
/* Until done, politely, for as long as it takes. */
RengaErrorCode RengaWaitRequest(MPI_Request *request);
