/* -monitor http:PORT: a page about the run, served by rank 0. */
#pragma once
#include "report.h"

extern const AppMonitorKind AppHttpKind;
/* Collective, before the first step: what ranks are, and the plan. sink: of rank 0. */
RengaErrorCode AppHttpBegin(RengaComm comm, void *sink, const AppRun *run);
void AppHttpTake(void *sink, const AppReport *report);
void AppHttpSetPhase(void *sink, const char *phase);
