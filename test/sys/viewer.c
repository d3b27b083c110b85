/* TEST ranks: 1 2 */
/* Viewers: rank 0 writes a file, whole or not at all; every rank hears of an error. */
#include "../check.h"
#include "renga/private/object.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static RengaErrorCode TestFile(RengaComm comm, int rank)
{
  RengaViewer viewer;
  char name[] = "viewer-test.dot", text[64] = "";
  RengaCall(RengaViewerCreate(comm, "dot:viewer-test.dot", &viewer));
  Expect(strcmp(RengaViewerGetKind(viewer), "dot") == 0);
  RengaCall(RengaViewerPrintf(viewer, "digraph %d\n", 7));
  RengaCall(RengaViewerDestroy(&viewer));
  Expect(viewer == NULL);
  if (rank != 0) return RENGA_SUCCESS;
  FILE *file = fopen(name, "r");
  Expect(file != NULL && fgets(text, sizeof text, file) != NULL);
  fclose(file);
  unlink(name);
  Expect(strcmp(text, "digraph 7\n") == 0);
  return RENGA_SUCCESS;
}

static void LimitFiles(rlim_t bytes)
{
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = bytes ? bytes : limit.rlim_max;
  setrlimit(RLIMIT_FSIZE, &limit);
}

static RengaErrorCode FillViewer(RengaViewer viewer)
{
  for (int line = 0; line < 2000; line++) RengaCall(RengaViewerPrintf(viewer, "%d\n", line));
  return RENGA_SUCCESS;
}

/* On a disk that is full, or behind a limit, the file stays what it was. */
static RengaErrorCode TestFull(RengaComm comm, int rank)
{
  RengaViewer viewer;
  char name[] = "viewer-test.txt", text[64] = "";
  signal(SIGXFSZ, SIG_IGN);
  RengaCall(RengaViewerCreate(comm, "ascii:viewer-test.txt", &viewer));
  RengaCall(RengaViewerPrintf(viewer, "old\n"));
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(RengaViewerCreate(comm, "ascii:viewer-test.txt", &viewer));
  LimitFiles(4096);
  FILE *errors;
  const int saved = BeginErrors(&errors);
  const RengaErrorCode filled = FillViewer(viewer);
  const RengaErrorCode closed = RengaViewerDestroy(&viewer);
  const char *said = EndErrors(errors, saved);
  LimitFiles(0);
  Expect(rank != 0 || strstr(said, "cannot write file: ") != NULL);
  Expect(filled == (rank == 0 ? RENGA_ERR_FILE_WRITE : RENGA_SUCCESS));
  Expect(closed == RENGA_ERR_FILE_WRITE);
  if (rank != 0) return RENGA_SUCCESS;
  Expect(access("viewer-test.txt.part", F_OK) != 0);
  FILE *file = fopen(name, "r");
  Expect(file != NULL && fgets(text, sizeof text, file) != NULL);
  fclose(file);
  unlink(name);
  Expect(strcmp(text, "old\n") == 0);
  return RENGA_SUCCESS;
}

/* A full standard output is an error, unless its text may be lost. */
static RengaErrorCode CheckLostOutput(void)
{
  bool lost = true;
  fflush(stdout);
  const int saved = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
  Expect(saved >= 0 && full >= 0 && dup2(full, STDOUT_FILENO) == STDOUT_FILENO);
  ExpectError(RengaPrintf(MPI_COMM_SELF, "lost\n"), RENGA_ERR_FILE_WRITE,
              "standard output cannot be written: No space left on device");
  RengaPrintSetOptional(true);
  RengaCall(RengaPrintGetLost(&lost));
  Expect(!lost);
  FILE *file;
  const int errors = BeginErrors(&file);
  for (int i = 0; i < 2; i++) printf("lost\n");
  RengaErrorCode code = RengaPrintFlush();
  if (!code) code = RengaPrintf(MPI_COMM_SELF, "lost\n");
  const char *said = EndErrors(file, errors);
  RengaCall(code);
  RengaCall(RengaPrintGetLost(&lost));
  Expect(lost && strstr(said, "the run goes on") &&
         !strstr(strstr(said, "the run goes on") + 1, "the run goes on"));
  RengaPrintSetOptional(false);
  Expect(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO && close(full) == 0 && close(saved) == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestViewer(void)
{
  struct _p_RengaObject *comm;
  int rank;
  RengaViewer viewer = NULL;
  RengaCall(RengaHeaderCreate(NULL, "RengaComm", sizeof *comm, NULL, &comm));
  comm->comm = MPI_COMM_WORLD;
  RengaCallMPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  RengaCall(TestFile((RengaComm)comm, rank));
  RengaCall(TestFull((RengaComm)comm, rank));
  RengaCall(RengaViewerCreate((RengaComm)comm, NULL, &viewer));
  Expect(strcmp(RengaViewerGetKind(viewer), "ascii") == 0);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(RengaHeaderDestroy(&comm));
  RengaCall(CheckLostOutput());
  return RENGA_SUCCESS;
}

TEST_MAIN(TestViewer)
