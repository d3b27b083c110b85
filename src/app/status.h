/* What a page about a run shows. The run writes it, the server's thread reads it; each holds the
   lock for as long as it takes to copy some numbers. */
#pragma once
#include "monitor.h"

enum { APP_MOST_BARS = 256 };
typedef struct {
  float begin, end; /* seconds since the step began */
  char track[16], name[40];
} AppBar;
/* What a rank tells of a step. */
typedef struct {
  int32_t rank, bars;
  int64_t step, resident; /* resident: bytes of the process */
  double seconds;         /* of the step, on this rank */
  AppBar bar[APP_MOST_BARS];
} AppReport;
/* What is known of a rank before the first step. */
typedef struct {
  char node[64], place[96]; /* "stage 1, replica 0" */
  RengaPipelineMemory memory;
} AppRankFacts;

typedef struct _AppStatus *AppStatus;
RengaErrorCode AppStatusCreate(const char *network, AppStatus *status);
void AppStatusSetPhase(AppStatus status, const char *phase); /* a constant */
/* Facts of all ranks, and the plan as SVG, both the status's from now on; the plan may be NULL. */
RengaErrorCode AppStatusBegin(AppStatus status, const AppRun *run, int ranks, AppRankFacts *facts,
                              char *plan);
void AppStatusStep(AppStatus status, const RengaTrainerRow *row);
void AppStatusValidation(AppStatus status, const AppValidation *validation);
void AppStatusReport(AppStatus status, const AppReport *report);
/* Of malloc; NULL: there is none. In any thread. */
char *AppStatusFormat(AppStatus status, size_t *length);
char *AppStatusCopyPlan(AppStatus status, size_t *length);
void AppStatusDestroy(AppStatus *status);
