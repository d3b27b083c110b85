/* What the tests of this folder share: a check that names the line and ends all ranks. */
#pragma once
#include "renga.h"

#define TestTrue(condition)                                                                        \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                    \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                \
    }                                                                                              \
  } while (0)
