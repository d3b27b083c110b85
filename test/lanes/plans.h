/* Plans with ranks that share out lanes, and what is told of them, without running. */
#pragma once
#include "../check.h"
#include "rengapartition.h"

/* Files of the working folder: lanes-heads.plan (2 stages of 2 ranks, 3 lanes), lanes-two.plan (2
   ranks, 2 lanes), lanes-chunks.plan, lanes-tokens.plan (3 ranks, 3 lanes of tokens) and
   lanes-columns.plan (3 ranks, 3 lanes of columns). Read again they have the same prediction. */
RengaErrorCode WritePlans(RengaComm alone);
void RemovePlans(void);
/* Views of networks and plans say and do not say; row of so many. */
int CountViews(void);
RengaErrorCode CheckView(RengaComm alone, int row);
