/* TEST ranks: 1 2 */
/* A null pointer in place of a handle, and a handle of another class, are errors of every class. */
#include "../check.h"
#include "renga.h"
#include "renga/private/kernel.h"
#include "renga/private/sums.h"

static RengaErrorCode CheckDestroy(void)
{
#define Refuses(function) ExpectError(function(NULL), RENGA_ERR_ARGUMENT, #function)
  Refuses(RengaCheckpointDestroy);
  Refuses(RengaCommDestroy);
  Refuses(RengaDataDestroy);
  Refuses(RengaDeviceDestroy);
  Refuses(RengaGraphDestroy);
  Refuses(RengaMachineDestroy);
  Refuses(RengaOptimizerDestroy);
  Refuses(RengaPartitionDestroy);
  Refuses(RengaPipelineDestroy);
  Refuses(RengaPlanDestroy);
  Refuses(RengaProfileDestroy);
  Refuses(RengaScheduleDestroy);
  Refuses(RengaSettingsDestroy);
  Refuses(RengaViewerDestroy);
  Refuses(RengaVocabularyDestroy);
  Refuses(RengaBlocksDestroy);
  Refuses(RengaKernelDestroy);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckClasses(RengaComm comm)
{
  static const char other[] = "is a handle of another class than Renga";
  RengaGraph graph;
  RengaPlan plan;
  void *wrong, *right;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaPlanCreate(comm, &plan));
  memcpy(&wrong, &graph, sizeof wrong);
  memcpy(&right, &plan, sizeof right);
  ExpectError(RengaPipelineSetUp(wrong), RENGA_ERR_ARGUMENT, other);
  ExpectError(RengaCheckpointSetUp(wrong), RENGA_ERR_ARGUMENT, other);
  ExpectError(RengaPartitionSolve(wrong, &plan), RENGA_ERR_ARGUMENT, other);
  ExpectError(RengaGraphSetUp(right), RENGA_ERR_ARGUMENT, other);
  ExpectError(RengaCommBarrier(wrong, "nobody"), RENGA_ERR_ARGUMENT, other);
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  Expect(RengaCommGetSize(wrong) == 0 && RengaPlanGetStageCount(wrong) == 0);
  RengaErrorSetHandler(NULL, NULL);
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(CheckDestroy());
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckClasses(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
