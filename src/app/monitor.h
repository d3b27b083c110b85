/* Where the numbers of a run go besides the lines of progress: a kind of -monitor is a row of a
   table, and a sink is one of its kind. All of this is called on rank 0 only. */
#pragma once
#include "app.h"

typedef struct {
  const char *kind, *place; /* "csv", "FILE": -monitor csv:FILE */
  /* Before any work: is the place one that can be written? where: what follows the colon. */
  RengaErrorCode (*open)(const char *where, void **sink);
  /* The run is set up, and its first step known. */
  RengaErrorCode (*begin)(void *sink, const AppRun *run);
  void (*step)(void *sink, const RengaTrainerRow *row);
  void (*validation)(void *sink, const AppValidation *validation); /* of the step before */
  /* An error where numbers are missing. goes_on: the run, later, so that it is a warning. */
  RengaErrorCode (*close)(void **sink, bool goes_on);
} AppMonitorKind;

extern const AppMonitorKind AppRowsKind;        /* rows.c */
extern const AppMonitorKind AppTensorboardKind; /* tensorboard.c */

/* sinks.c: those of -monitor, in a list with commas. */
typedef struct {
  int count;
  struct {
    const AppMonitorKind *kind;
    char *where;
    void *sink; /* of rank 0; NULL: it is not open */
  } of[8];
} AppSinks;
/* On every rank: the list is read. Collective, as its errors are. */
RengaErrorCode AppSinksCreate(MPI_Comm comm, AppSinks *sinks);
/* Is there one of a kind? sink: the first, of rank 0; NULL on others, or where it is not open. */
bool AppSinksFind(const AppSinks *sinks, const AppMonitorKind *kind, void **sink);
RengaErrorCode AppSinksOpen(AppSinks *sinks);
RengaErrorCode AppSinksBegin(AppSinks *sinks, const AppRun *run);
void AppSinksStep(AppSinks *sinks, const RengaTrainerRow *row);
void AppSinksValidation(AppSinks *sinks, const AppValidation *validation);
RengaErrorCode AppSinksClose(AppSinks *sinks, bool goes_on); /* the worst of their errors */
void AppSinksFree(AppSinks *sinks);

/* row.c. Samples per second of a step; 0 where it took no time. */
double AppRowRate(const RengaTrainerRow *row);
/* At the end of a run that lacks `missing` of its `what` (rows, steps). */
RengaErrorCode AppSayMissing(const char *kind, const char *where, int64_t missing, const char *what,
                             bool goes_on);
