/* What ranks tell rank 0 about their steps, about once a second and without anybody waiting. */
#pragma once
#include "status.h"

typedef struct _AppReports *AppReports;
/* Collective. take: on rank 0, with a report of any rank, between two steps. */
RengaErrorCode AppReportsCreate(RengaComm comm, void (*take)(void *user, const AppReport *report),
                                void *user, AppReports *reports);
/* Around each step, on every rank. */
RengaErrorCode AppReportsBegin(AppReports reports);
RengaErrorCode AppReportsEnd(AppReports reports, const RengaTrainerRow *row);
/* Collective: what is under way still comes. */
RengaErrorCode AppReportsDestroy(AppReports *reports);
