/* Bytes of all ranks to rank 0, waiting politely. */
#pragma once
#include "rengasys.h"

/* Collective; fails on all ranks where it fails on one. On rank 0: all, the bytes one after the
   other, and sizes[rank], for RengaFree. */
RengaErrorCode RengaGatherBytes(MPI_Comm comm, const void *mine, size_t bytes, char **all,
                                size_t **sizes, const char *what);
