/* What a page about a run shows, as one object of JSON. */
#include "status.h"
#include "points.h"
#include "renga/private/number.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  AppReport report; /* the newest */
  double came;      /* SecondsOfClock; 0: none came */
} RankStatus;

struct _AppStatus {
  pthread_mutex_t lock;
  char *network, *plan;
  const char *phase;
  AppRun run;
  int ranks;
  AppRankFacts *facts; /* [ranks] */
  RankStatus *rank;    /* [ranks] */
  RengaTrainerRow row;
  bool stepped;
  double began, stepped_at, step_seconds; /* step_seconds: smoothed */
  AppPoints steps, validations;
};

static double SecondsOfClock(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

RengaErrorCode AppStatusCreate(const char *network, AppStatus *status)
{
  AppStatus made;
  RengaCall(RengaMalloc(1, &made));
  *status = made;
  pthread_mutex_init(&made->lock, NULL);
  made->phase = "setting up";
  made->began = SecondsOfClock();
  RengaCall(RengaStringCopy(network, &made->network));
  return RENGA_SUCCESS;
}

void AppStatusSetPhase(AppStatus status, const char *phase)
{
  pthread_mutex_lock(&status->lock);
  status->phase = phase;
  pthread_mutex_unlock(&status->lock);
}

RengaErrorCode AppStatusBegin(AppStatus status, const AppRun *run, int ranks, AppRankFacts *facts,
                              char *plan)
{
  RankStatus *rank = NULL;
  RengaCall(RengaMalloc(ranks, &rank));
  pthread_mutex_lock(&status->lock);
  status->phase = "training";
  status->run = *run;
  status->ranks = ranks;
  status->facts = facts;
  status->rank = rank;
  status->plan = plan;
  pthread_mutex_unlock(&status->lock);
  return RENGA_SUCCESS;
}

void AppStatusStep(AppStatus status, const RengaTrainerRow *row)
{
  const AppPoint point = {
      row->step,
      {row->loss, row->learning_rate, row->gradient_norm, AppRowRate(row), row->seconds}};
  const double now = SecondsOfClock();
  pthread_mutex_lock(&status->lock);
  const double keep = status->step_seconds > 0 ? 0.8 : 0;
  status->phase = row->step + 1 < status->run.steps ? "training" : "finishing";
  status->row = *row;
  status->stepped = true;
  status->stepped_at = now;
  status->step_seconds = keep * status->step_seconds + (1 - keep) * row->seconds;
  AppPointsAdd(&status->steps, &point);
  pthread_mutex_unlock(&status->lock);
}

void AppStatusValidation(AppStatus status, const AppValidation *validation)
{
  const double perplexity = validation->perplexity > 0 ? validation->perplexity : NAN;
  const double accuracy = validation->accuracy >= 0 ? validation->accuracy : NAN;
  const AppPoint point = {validation->done - 1, {validation->loss, perplexity, accuracy}};
  pthread_mutex_lock(&status->lock);
  AppPointsAdd(&status->validations, &point);
  pthread_mutex_unlock(&status->lock);
}

void AppStatusReport(AppStatus status, const AppReport *report)
{
  const double now = SecondsOfClock();
  if (report->rank < 0 || report->rank >= status->ranks) return;
  pthread_mutex_lock(&status->lock);
  status->rank[report->rank] = (RankStatus){*report, now};
  pthread_mutex_unlock(&status->lock);
}

/* JSON has no numbers that are not finite. */
static void PutReal(FILE *file, double value)
{
  if (isfinite(value))
    RengaFilePrint(file, "%.9g", value);
  else
    fputs("null", file);
}

static void PutText(FILE *file, const char *text)
{
  fputc('"', file);
  for (; *text; text++) {
    const unsigned char letter = (unsigned char)*text;
    if (letter == '"' || letter == '\\') fputc('\\', file);
    if (letter < ' ')
      fprintf(file, "\\u%04x", letter);
    else
      fputc(letter, file);
  }
  fputc('"', file);
}

/* "steps":{"stride":1,"step":[…],"loss":[…],…} */
static void PutPoints(FILE *file, const char *name, const AppPoints *points, int columns,
                      const char *const names[])
{
  fprintf(file, "\"%s\":{\"stride\":%lld,\"step\":[", name,
          (long long)(points->stride ? points->stride : 1));
  for (int i = 0; i < points->count; i++)
    fprintf(file, "%s%lld", i ? "," : "", (long long)points->point[i].step);
  for (int c = 0; c < columns; c++) {
    fprintf(file, "],\"%s\":[", names[c]);
    for (int i = 0; i < points->count; i++) {
      if (i) fputc(',', file);
      PutReal(file, points->point[i].value[c]);
    }
  }
  fputs("]},\n", file);
}

static void PutMemory(FILE *file, const RengaPipelineMemory *memory)
{
  fprintf(file,
          "{\"parameters\":%lld,\"gradients\":%lld,\"optimizer\":%lld,\"saved\":%lld,"
          "\"temporary\":%lld,\"messages\":%lld,\"inputs\":%lld,\"forecast\":%lld}",
          (long long)memory->parameters, (long long)memory->gradients, (long long)memory->optimizer,
          (long long)memory->saved, (long long)memory->temporary, (long long)memory->messages,
          (long long)memory->inputs, (long long)memory->forecast);
}

static void PutBars(FILE *file, const AppReport *report)
{
  for (int b = 0; b < report->bars; b++) {
    const AppBar *bar = &report->bar[b];
    RengaFilePrint(file, "%s[%.6f,%.6f,", b ? "," : "", (double)bar->begin, (double)bar->end);
    PutText(file, bar->track);
    fputc(',', file);
    PutText(file, bar->name);
    fputc(']', file);
  }
}

static void PutRank(FILE *file, const AppRankFacts *facts, const RankStatus *status, int rank,
                    double now)
{
  const AppReport *report = &status->report;
  fprintf(file, "%s{\"rank\":%d,\"node\":", rank ? ",\n" : "", rank);
  PutText(file, facts->node);
  fputs(",\"place\":", file);
  PutText(file, facts->place);
  fputs(",\"memory\":", file);
  PutMemory(file, &facts->memory);
  if (status->came > 0) {
    RengaFilePrint(
        file, ",\"age\":%.3f,\"step\":%lld,\"seconds\":%.6g,\"resident\":%lld,\"bars\":[",
        now - status->came, (long long)report->step, report->seconds, (long long)report->resident);
    PutBars(file, report);
    fputc(']', file);
  }
  fputc('}', file);
}

/* Of the step that ended last; its names are those of the columns of -monitor csv. */
static void PutLast(FILE *file, const struct _AppStatus *status, double now)
{
  const RengaTrainerRow *row = &status->row;
  if (!status->stepped) return;
  fprintf(file, "\"last\":{\"step\":%lld,\"loss\":", (long long)row->step);
  PutReal(file, row->loss);
  fputs(",\"learning_rate\":", file);
  PutReal(file, row->learning_rate);
  fputs(",\"gradient_norm\":", file);
  PutReal(file, row->gradient_norm);
  RengaFilePrint(file,
                 ",\"samples_per_second\":%.6g,\"seconds\":%.6g,\"skipped\":%lld,\"age\":%.3f},\n"
                 "\"seconds_left\":%.6g,\n",
                 AppRowRate(row), row->seconds, (long long)row->skipped, now - status->stepped_at,
                 status->step_seconds * (double)(status->run.steps - row->step - 1));
}

static void PutStatus(FILE *file, const struct _AppStatus *status)
{
  static const char *const columns[] = {"loss", "learning_rate", "gradient_norm",
                                        "samples_per_second", "seconds"};
  static const char *const found[] = {"loss", "perplexity", "accuracy"};
  const double now = SecondsOfClock();
  fprintf(file, "{\"format\":1,\"renga\":\"%s\",\"network\":", RENGA_VERSION);
  PutText(file, status->network);
  RengaFilePrint(
      file, ",\"phase\":\"%s\",\"age\":%.3f,\n\"first\":%lld,\"steps\":%lld,\"tokens\":%lld,\n",
      status->phase, now - status->began, (long long)status->run.first,
      (long long)status->run.steps, (long long)status->run.tokens);
  PutLast(file, status, now);
  PutPoints(file, "rows", &status->steps, 5, columns);
  PutPoints(file, "validations", &status->validations, 3, found);
  fputs("\"ranks\":[", file);
  for (int r = 0; r < status->ranks; r++)
    PutRank(file, &status->facts[r], &status->rank[r], r, now);
  fputs("]}\n", file);
}

/* What is written of a report; the rest of its bars is of earlier steps. */
static void CopyReport(const RankStatus *from, RankStatus *to)
{
  const size_t bars = (size_t)from->report.bars * sizeof(AppBar);
  memcpy(&to->report, &from->report, offsetof(AppReport, bar) + bars);
  to->came = from->came;
}

static int CountStatusRanks(AppStatus status)
{
  pthread_mutex_lock(&status->lock);
  const int ranks = status->ranks;
  pthread_mutex_unlock(&status->lock);
  return ranks;
}

/* The numbers as they are now; the caller frees rank. What does not change is the status's. Where
   the ranks have come to be known since they were counted, they are not shown yet. */
static bool CopyStatus(AppStatus status, struct _AppStatus *copy)
{
  const int ranks = CountStatusRanks(status);
  RankStatus *rank = calloc((size_t)ranks + 1, sizeof *rank);
  if (!rank) return false;
  pthread_mutex_lock(&status->lock);
  memcpy(copy, status, sizeof *copy);
  for (int r = 0; r < ranks; r++) CopyReport(&status->rank[r], &rank[r]);
  pthread_mutex_unlock(&status->lock);
  copy->rank = rank;
  copy->ranks = ranks;
  return true;
}

char *AppStatusFormat(AppStatus status, size_t *length)
{
  char *text = NULL;
  FILE *file = NULL;
  struct _AppStatus *copy = malloc(sizeof *copy);
  if (!copy || !CopyStatus(status, copy)) {
    free(copy);
    return NULL;
  }
  file = open_memstream(&text, length);
  if (file) {
    PutStatus(file, copy);
    fclose(file);
  }
  free(copy->rank);
  free(copy);
  return text;
}

char *AppStatusCopyPlan(AppStatus status, size_t *length)
{
  pthread_mutex_lock(&status->lock);
  const char *plan = status->plan;
  pthread_mutex_unlock(&status->lock);
  char *text = plan ? strdup(plan) : NULL;
  *length = text ? strlen(text) : 0;
  return text;
}

void AppStatusDestroy(AppStatus *status)
{
  if (!*status) return;
  pthread_mutex_destroy(&(*status)->lock);
  RengaFree(&(*status)->network);
  RengaFree(&(*status)->plan);
  RengaFree(&(*status)->facts);
  RengaFree(&(*status)->rank);
  RengaFree(status);
}
