/* What tests share: a condition that must hold, and a main that reports. */
#pragma once
#include "rengasys.h"

#define Expect(condition)                                                                          \
  RengaCheck(condition, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "expected: %s", #condition)

/* main of a test: RunTest() between RengaInitialize and RengaFinalize. */
#define TEST_MAIN(run)                                                                             \
  static RengaErrorCode TestAll(int argc, char **argv)                                             \
  {                                                                                                \
    RengaCall(RengaInitialize(&argc, &argv, NULL));                                                \
    RengaCall(run());                                                                              \
    RengaCall(RengaFinalize());                                                                    \
    return RENGA_SUCCESS;                                                                          \
  }                                                                                                \
  int main(int argc, char **argv)                                                                  \
  {                                                                                                \
    RengaCallAbort(TestAll(argc, argv));                                                           \
    return 0;                                                                                      \
  }
