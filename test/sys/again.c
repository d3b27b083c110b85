/* TEST ranks: 1 2 */
/* A process can start MPI once only: a start of Renga after the end of MPI is an error. */
#include "../check.h"

static RengaErrorCode TestAgain(void)
{
  RengaCall(RengaInitialize(NULL, NULL, NULL));
  RengaCall(RengaFinalize());
  for (int round = 0; round < 2; round++)
    ExpectError(RengaInitialize(NULL, NULL, NULL), RENGA_ERR_ORDER, "comes after the end of MPI");
  ExpectError(RengaFinalize(), RENGA_ERR_ORDER, "RengaFinalize comes after RengaInitialize");
  return RENGA_SUCCESS;
}

int main(void)
{
  return TestAgain() == RENGA_SUCCESS ? 0 : 1;
}
