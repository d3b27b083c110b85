/* Lines about memory of the host beside that of the plan. */
#pragma once
#include "app.h"

/* What sums of a run have shared. Collective. */
RengaErrorCode AppPrintSharedMemory(RengaComm comm);
/* Of a plan, for so many devices in a node; 0: all are in one. */
RengaErrorCode AppPrintHostMemory(RengaComm comm, RengaPlan plan, int64_t per_node);
