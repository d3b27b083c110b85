/* TEST ranks: 1 2 */
/* Viewers: rank 0 writes a file; every rank hears of an error. */
#include "../check.h"
#include "renga/private/object.h"
#include <string.h>
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

static RengaErrorCode TestViewer(void)
{
  struct _p_RengaObject *comm;
  int rank;
  RengaViewer viewer = NULL;
  RengaCall(RengaHeaderCreate(NULL, "RengaComm", sizeof *comm, NULL, &comm));
  comm->comm = MPI_COMM_WORLD;
  RengaCallMPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  RengaCall(TestFile((RengaComm)comm, rank));
  RengaCall(RengaViewerCreate((RengaComm)comm, NULL, &viewer));
  Expect(strcmp(RengaViewerGetKind(viewer), "ascii") == 0);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(RengaHeaderDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestViewer)
