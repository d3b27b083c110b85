/* What the files of src/sys know of the watch. */
#pragma once
#include "renga/private/wait.h"

/* The watch of communicators that have none. Set before RengaInitialize is done, NULL after it. */
void RengaWatchSetWorld(MPI_Comm comm);
enum { RENGA_WATCH_CELLS = 4096 };
/* Bytes for one short collective at a time, which stay when MPI may still write to them. */
void *RengaWatchCells(MPI_Comm comm);
/* The time limit of watches to come, and of waits without one. */
void RengaWatchSetDefaultLimit(double seconds);
double RengaWatchGetDefaultLimit(void);
/* Hear others, tell them, end a wait that reached the limit. */
RengaErrorCode RengaWatchLook(RengaWait *wait, double now);
