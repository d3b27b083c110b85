/* What renga watch shows of a run, wherever it learned it. */
#pragma once
#include "app.h"

typedef struct {
  char place[96], node[64];
  int64_t step;        /* 0-based; -1: nothing was heard of it */
  double seconds, age; /* of that step; since it was heard of */
} AppViewRank;
typedef struct {
  char name[256], phase[32]; /* phase "": not known */
  int64_t first, steps;      /* steps 0: not known */
  int64_t tokens;            /* of a sample; 0: none, or not known */
  int64_t step;              /* 0-based, the last one; -1: there was none */
  double loss, learning_rate, gradient_norm, rate, seconds; /* of it; a loss may be NaN */
  double age, left;  /* seconds since it ended, until the run ends; -1: not known */
  int64_t validated; /* 0-based: the step before the last validation; -1: none */
  double validation_loss, perplexity, accuracy; /* 0, -1: not known */
  int ranks;
  AppViewRank *rank; /* [ranks] */
} AppView;

/* view.c. Where it is drawn over the last one (a terminal): lines of the last one are left behind.
 */
void AppViewDraw(const AppView *view, int columns, int *lines);
void AppViewPrintLine(const AppView *view); /* elsewhere */

/* A source of views; each of them takes a look. over: the run has ended, which was said. */
typedef struct _AppRunFile *AppRunFile;
RengaErrorCode AppRunFileOpen(const char *place, AppRunFile *file); /* runfile.c */
RengaErrorCode AppRunFileLook(AppRunFile file, AppView *view, bool *over);
void AppRunFileClose(AppRunFile *file);
typedef struct _AppRunPage *AppRunPage;
RengaErrorCode AppRunPageOpen(const char *place, AppRunPage *page); /* runpage.c */
RengaErrorCode AppRunPageLook(AppRunPage page, AppView *view, bool *over);
void AppRunPageClose(AppRunPage *page);

/* fetch.c: what GET gives. status: of HTTP, 0: nobody answered, and why says so. body: of malloc,
   ends with 0. */
typedef struct {
  const char *host, *port, *token; /* token NULL: none */
} AppAddress;
int AppFetch(const AppAddress *address, const char *path, size_t size, char why[], char **body);
