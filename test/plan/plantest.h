/* Checks that name the line; and errors that are wanted, with a part of their message. */
#pragma once
#include "renga.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TestTrue(condition)                                                                        \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                    \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                \
    }                                                                                              \
  } while (0)

/* What the process writes to standard error goes to a file until TestErrorEnd reads it. */
typedef struct {
  int saved;
  FILE *file;
} TestCapture;

static inline TestCapture TestErrorBegin(void)
{
  TestCapture capture = {dup(2), tmpfile()};
  TestTrue(capture.saved >= 0 && capture.file);
  fflush(stderr);
  dup2(fileno(capture.file), 2);
  return capture;
}

static inline bool TestErrorEnd(TestCapture capture, const char *wanted)
{
  char text[8192];
  fflush(stderr);
  dup2(capture.saved, 2);
  close(capture.saved);
  rewind(capture.file);
  size_t got = fread(text, 1, sizeof text - 1, capture.file);
  fclose(capture.file);
  text[got] = 0;
  bool found = strstr(text, wanted) != NULL;
  if (!found) fprintf(stderr, "wanted: %s\ngot: %s\n", wanted, text);
  return found;
}

/* The call fails with this code and says this (on rank 0 of who prints). */
#define TestError(expression, wanted_code, wanted_text)                                            \
  do {                                                                                             \
    TestCapture capture_ = TestErrorBegin();                                                       \
    RengaErrorCode code_ = (expression);                                                           \
    bool said_ = TestErrorEnd(capture_, wanted_text);                                              \
    TestTrue(code_ == (wanted_code));                                                              \
    TestTrue(said_);                                                                               \
  } while (0)
