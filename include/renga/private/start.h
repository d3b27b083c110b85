/* How src/init.c starts and ends the services of src/sys. */
#pragma once
#include "rengasys.h"

RengaErrorCode RengaSysStartMPI(int *argc, char ***argv);
/* Reads all sources of options; ends the program after -help or -version. */
RengaErrorCode RengaSysReadOptions(int *argc, char ***argv, const char help[]);
RengaErrorCode RengaSysReport(void); /* -log_view, -log_trace */
/* Frees the services, reports leaks, ends MPI if it started it. */
RengaErrorCode RengaSysFinish(void);
