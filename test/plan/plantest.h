/* Checks for functions that return nothing: one that fails names its line and ends all ranks. */
#pragma once
#include "../check.h"
#include "renga.h"
#include <stdlib.h>

#define TestTrue(condition)                                                                        \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                    \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                \
    }                                                                                              \
  } while (0)

/* The call fails with this code and says this. */
#define TestError(call, wanted_code, wanted_text)                                                  \
  do {                                                                                             \
    FILE *file_;                                                                                   \
    int saved_ = BeginErrors(&file_);                                                              \
    RengaErrorCode code_ = (call);                                                                 \
    const char *text_ = EndErrors(file_, saved_);                                                  \
    bool said_ = strstr(text_, wanted_text) != NULL;                                               \
    if (!said_) fprintf(stderr, "wanted: %s\ngot: %s\n", wanted_text, text_);                      \
    TestTrue(code_ == (wanted_code) && said_);                                                     \
  } while (0)
