/* What the tests of this folder share: a check that names the line and ends all ranks. */
#pragma once
#include "../check.h"
#include "rengacomm.h"

#define TestTrue(condition)                                                                        \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                    \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                \
    }                                                                                              \
  } while (0)

/* The call fails with this code; what it prints is not shown. */
#define TestError(call, code)                                                                      \
  do {                                                                                             \
    FILE *file_;                                                                                   \
    int saved_ = BeginErrors(&file_);                                                              \
    RengaErrorCode code_ = (call);                                                                 \
    EndErrors(file_, saved_);                                                                      \
    TestTrue(code_ == (code));                                                                     \
  } while (0)
