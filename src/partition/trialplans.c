/* Plans that are only tried: that there is none is told later, if at all; all else at once. */
#include "partitionimpl.h"
#include "renga/private/quiet.h"
#include <stdio.h>

bool RengaPartitionIsRefusal_Private(RengaErrorCode code)
{
  return code == RENGA_ERR_PLAN || code == RENGA_ERR_MEMORY || code == RENGA_ERR_SUPPORT ||
         code == RENGA_ERR_OPTION;
}

RengaErrorCode RengaPartitionTellFailure_Private(RengaErrorCode code)
{
  char told[1024];
  if (!code || RengaPartitionIsRefusal_Private(code) || !RengaErrorIsReported()) return code;
  snprintf(told, sizeof told, "%s", RengaErrorGetMessage());
  RengaRaise(MPI_COMM_SELF, code, "%s", told);
}
