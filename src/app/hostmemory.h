/* Lines about memory of the host beside that of the plan, and about what was found there. */
#pragma once
#include "app.h"

/* What sums of a run have shared. Collective. */
RengaErrorCode AppPrintSharedMemory(RengaComm comm);
/* Of a plan, for so many devices in a node; 0: all are in one. */
RengaErrorCode AppPrintHostMemory(RengaComm comm, RengaPlan plan, int64_t per_node);
/* The checkpoint that the nodes had in memory and that is a file now, if there was one. */
RengaErrorCode AppSayRecovered(RengaCheckpoint checkpoint, const char *directory, MPI_Comm printer);
