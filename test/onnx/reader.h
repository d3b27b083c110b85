/* Models read as a run reads them, and what came of their initializers. */
#pragma once
#include "rengagraph.h"
#include "write.h"

/* Reads and sets up; what was warned of is in text. model is freed. trained, frozen: of
   RengaGraphSetTrained and SetFrozen. */
RengaErrorCode ReadModel(RengaComm comm, Message *model, const char *trained, const char *frozen,
                         RengaGraph *graph, const char **text);
/* Whether it can be read. model is freed. */
RengaErrorCode ReadOnly(RengaComm comm, Message *model, const char *trained);
/* "t": trained, "f": a frozen parameter, "s": a state, "c": anything else */
char KindOf(RengaGraph graph, const char *name);
/* names: the first letters of the parameters that get gradients. model is freed. */
RengaErrorCode CheckUses(RengaComm comm, Message *model, const char *names);
