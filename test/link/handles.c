/* TEST ranks: 1 */
/* Functions that return a value and no code: a null handle is an error for the handler, names the
   function, and gives a value that is no answer. */
#include "../check.h"
#include "renga.h"

static int told;

static void CountTold(const RengaErrorReport *report, void *user)
{
  (void)user;
  told += report->code == RENGA_ERR_ARGUMENT && strstr(report->message, "is a null pointer");
}

#define GivesOne(call, value)                                                                      \
  do {                                                                                             \
    const int before_ = told;                                                                      \
    Expect((call) == (value));                                                                     \
    Expect(told == before_ + 1);                                                                   \
    Expect(strncmp(RengaErrorGetMessage(), #call, strcspn(#call, "(")) == 0);                      \
  } while (0)

static RengaErrorCode TestGraphs(void)
{
  GivesOne(RengaGraphGetNodeCount(NULL), 0);
  GivesOne(RengaGraphGetValueCount(NULL), 0);
  GivesOne(RengaGraphGetNode(NULL, 0), NULL);
  GivesOne(RengaGraphGetValue(NULL, 0), NULL);
  GivesOne(RengaGraphFindValue(NULL, "x"), RENGA_VALUE_NONE);
  GivesOne(RengaGraphGetDigest(NULL), 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestPlans(void)
{
  GivesOne(RengaPlanGetStageCount(NULL), 0);
  GivesOne(RengaPlanGetStage(NULL, 0), NULL);
  GivesOne(RengaPlanGetRank(NULL, 0, 0), -1);
  GivesOne(RengaPlanGetRankCount(NULL), 0);
  GivesOne(RengaPlanMicrobatches(NULL, 8), 0);
  GivesOne(RengaPlanGetLeaf(NULL), 0);
  GivesOne(RengaPlanStageOfNode(NULL, 0), -1);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestOthers(void)
{
  GivesOne(RengaCommGetRank(NULL), -1);
  GivesOne(RengaCommGetSize(NULL), 0);
  GivesOne(RengaDeviceGetPoison(NULL), false);
  GivesOne(RengaDeviceIsHost(NULL), false);
  GivesOne(RengaMachineLevelOf(NULL, 0, 0), -1);
  GivesOne(RengaMachineMessageSeconds(NULL, 0, 1), 0);
  GivesOne(RengaMachineReduceSeconds(NULL, 0, 1, 1), 0);
  GivesOne(RengaPipelineGetStepNumber(NULL), -1);
  const int before = told;
  Expect(strcmp(RengaViewerGetKind(NULL), "") == 0 && told == before + 1);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestHandles(void)
{
  RengaErrorSetHandler(CountTold, NULL);
  RengaErrorCode code = TestGraphs();
  if (!code) code = TestPlans();
  if (!code) code = TestOthers();
  RengaErrorSetHandler(NULL, NULL);
  RengaCall(code);
  return RENGA_SUCCESS;
}

TEST_MAIN(TestHandles)
