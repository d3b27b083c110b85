/* How src/init.c starts and ends the services of src/sys. */
#pragma once
#include "rengasys.h"

RengaErrorCode RengaSysStartMPI(int *argc, char ***argv);
/* Collective: fails on all ranks where it failed on one. */
RengaErrorCode RengaSysAgree(RengaErrorCode mine);
/* After a start that failed: another may follow. MPI stays. */
void RengaSysUndo(void);
/* Reads all sources of options. */
RengaErrorCode RengaSysReadOptions(int *argc, char ***argv, const char help[]);
RengaErrorCode RengaSysReport(void); /* -log_view, -log_trace */
/* Frees the services, reports leaks, ends MPI if it started it. */
RengaErrorCode RengaSysFinish(void);
