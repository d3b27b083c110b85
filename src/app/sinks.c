/* -monitor: a list of places that the numbers of a run go to. */
#include "http.h"
#include <string.h>

static const AppMonitorKind *const kinds[] = {&AppRowsKind, &AppTensorboardKind, &AppHttpKind};
enum {
  KINDS = sizeof kinds / sizeof kinds[0],
  MOST = sizeof((AppSinks *)0)->of / sizeof((AppSinks *)0)->of[0]
};

/* The kind that text begins with, with its colon; NULL: none. */
static const AppMonitorKind *FindMonitorKind(const char *text)
{
  for (int k = 0; k < KINDS; k++) {
    const size_t length = strlen(kinds[k]->kind);
    if (!strncmp(text, kinds[k]->kind, length) && text[length] == ':') return kinds[k];
  }
  return NULL;
}

/* A comma is part of a name unless a kind follows it. */
static size_t MeasureWord(const char *text)
{
  const char *end = text;
  while ((end = strchr(end, ',')) != NULL && !FindMonitorKind(end + 1)) end++;
  return end ? (size_t)(end - text) : strlen(text);
}

/* "csv:FILE, tensorboard:DIR or …" */
static void ListKinds(size_t size, char text[])
{
  size_t used = 0;
  for (int k = 0; k < KINDS && used < size; k++)
    used += (size_t)snprintf(text + used, size - used, "%s%s:%s",
                             k == 0           ? ""
                             : k == KINDS - 1 ? " or "
                                              : ", ",
                             kinds[k]->kind, kinds[k]->place);
}

/* The last one: two to one place would write into each other. */
static RengaErrorCode CheckLastSink(MPI_Comm comm, const AppSinks *sinks)
{
  const int last = sinks->count - 1;
  for (int i = 0; i < last; i++) {
    if (sinks->of[i].kind != sinks->of[last].kind) continue;
    RengaCheck(sinks->of[i].kind != &AppHttpKind, comm, RENGA_ERR_OPTION,
               "-monitor http:%s: a run has one page", sinks->of[last].where);
    RengaCheck(strcmp(sinks->of[i].where, sinks->of[last].where) != 0, comm, RENGA_ERR_OPTION,
               "-monitor %s:%s stands there twice", sinks->of[i].kind->kind, sinks->of[i].where);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddSink(MPI_Comm comm, AppSinks *sinks, const char *text, size_t length)
{
  char known[256];
  const AppMonitorKind *kind = FindMonitorKind(text);
  const size_t before = kind ? strlen(kind->kind) + 1 : 0;
  ListKinds(sizeof known, known);
  RengaCheck(kind && length > before, comm, RENGA_ERR_OPTION,
             "-monitor %s: write %s, or several of them with commas between", text, known);
  RengaCheck(sinks->count < MOST, comm, RENGA_ERR_OPTION, "-monitor: more than %d places", MOST);
  sinks->of[sinks->count].kind = kind;
  RengaCall(RengaStringCopy(text + before, &sinks->of[sinks->count].where));
  sinks->of[sinks->count++].where[length - before] = '\0';
  RengaCall(CheckLastSink(comm, sinks));
  return RENGA_SUCCESS;
}

RengaErrorCode AppSinksCreate(MPI_Comm comm, AppSinks *sinks)
{
  const char *text;
  void *page;
  *sinks = (AppSinks){0};
  RengaCall(RengaOptionsGetString("monitor", &text, NULL));
  while (text) {
    const size_t length = MeasureWord(text);
    RengaCall(AddSink(comm, sinks, text, length));
    text = text[length] ? text + length + 1 : NULL;
  }
  if (!AppSinksFind(sinks, &AppHttpKind, &page))
    RengaCall(AppTokenRefuse(comm, "only -monitor http has a page"));
  return RENGA_SUCCESS;
}

bool AppSinksFind(const AppSinks *sinks, const AppMonitorKind *kind, void **sink)
{
  *sink = NULL;
  for (int i = 0; i < sinks->count; i++) {
    if (sinks->of[i].kind != kind) continue;
    *sink = sinks->of[i].sink;
    return true;
  }
  return false;
}

RengaErrorCode AppSinksOpen(AppSinks *sinks)
{
  for (int i = 0; i < sinks->count; i++)
    RengaCall(sinks->of[i].kind->open(sinks->of[i].where, &sinks->of[i].sink));
  return RENGA_SUCCESS;
}

RengaErrorCode AppSinksBegin(AppSinks *sinks, const AppRun *run)
{
  for (int i = 0; i < sinks->count; i++)
    RengaCall(sinks->of[i].kind->begin(sinks->of[i].sink, run));
  return RENGA_SUCCESS;
}

void AppSinksStep(AppSinks *sinks, const RengaTrainerRow *row)
{
  for (int i = 0; i < sinks->count; i++) sinks->of[i].kind->step(sinks->of[i].sink, row);
}

void AppSinksValidation(AppSinks *sinks, const AppValidation *validation)
{
  for (int i = 0; i < sinks->count; i++)
    sinks->of[i].kind->validation(sinks->of[i].sink, validation);
}

RengaErrorCode AppSinksClose(AppSinks *sinks, bool goes_on)
{
  RengaErrorCode worst = RENGA_SUCCESS;
  for (int i = 0; i < sinks->count; i++) {
    if (!sinks->of[i].sink) continue;
    const RengaErrorCode code = sinks->of[i].kind->close(&sinks->of[i].sink, goes_on);
    if (code) worst = code;
  }
  return worst;
}

void AppSinksFree(AppSinks *sinks)
{
  for (int i = 0; i < sinks->count; i++) RengaFree(&sinks->of[i].where);
}
