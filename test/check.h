/* What tests share: a condition that must hold, and a main that reports. */
#pragma once
#include "rengasys.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define Expect(condition)                                                                          \
  RengaCheck(condition, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "expected: %s", #condition)

/* How many cases, steps ...: the second number where RENGA_TEST_SLOW is set (sanitizers). */
static inline int UnlessSlow(int usual, int slow)
{
  return getenv("RENGA_TEST_SLOW") ? slow : usual;
}

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

/* The end of a test whose MPI keeps messages that were given up, and would wait for them in
   MPI_Finalize. MPICH's launcher kills the other ranks where one ends without it, so it is told. */
static inline void LeaveWithoutMPI(void)
{
  const char *pmi = getenv("PMI_FD");
  char answer[64];
  MPI_Barrier(MPI_COMM_WORLD);
  fflush(NULL);
  if (pmi && dprintf(atoi(pmi), "cmd=finalize\n") > 0)
    if (read(atoi(pmi), answer, sizeof answer) < 0) perror("PMI_FD");
  _exit(0);
}

/* Between the two calls standard error goes to a file, whose text the second one gives. */
static inline int BeginErrors(FILE **file)
{
  fflush(stderr);
  int saved = dup(STDERR_FILENO);
  *file = tmpfile();
  dup2(fileno(*file), STDERR_FILENO);
  return saved;
}

static inline const char *EndErrors(FILE *file, int saved)
{
  static char text[8192];
  fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

/* The call fails with this code, and every part of the text was printed. */
#define ExpectError(call, code, ...)                                                               \
  do {                                                                                             \
    const char *parts_[] = {__VA_ARGS__};                                                          \
    FILE *file_;                                                                                   \
    int saved_ = BeginErrors(&file_);                                                              \
    RengaErrorCode code_ = (call);                                                                 \
    const char *text_ = EndErrors(file_, saved_);                                                  \
    if (code_ != (code)) printf("%s", text_);                                                      \
    Expect(code_ == (code));                                                                       \
    for (int i_ = 0; i_ < (int)(sizeof parts_ / sizeof *parts_); i_++)                             \
      if (*parts_[i_] && strstr(text_, parts_[i_]) == NULL) {                                      \
        printf("%s:%d: no \"%s\" in:\n%s", __FILE__, __LINE__, parts_[i_], text_);                 \
        return RENGA_ERR_INTERNAL;                                                                 \
      }                                                                                            \
  } while (0)
