/* What a whole training takes of the machine, by the predicted step: for who writes a proposal. */
#include "app.h"
#include "renga/private/number.h"
#include <math.h>

/* Of a sample: the longest of its inputs that are rows of a table of words. */
static int64_t CountSampleTokens(const RengaDataFields *fields)
{
  int64_t most = 0;
  for (int f = 0; f < fields->count; f++) {
    const RengaTensorSpec *spec = &fields->specs[f];
    if (fields->is_table_index[f] && spec->ndim == 1 && spec->dim[0] > most) most = spec->dim[0];
  }
  return most;
}

/* 0 where no input is [batch, sequence] of tokens. */
static RengaErrorCode FindSampleTokens(RengaGraph graph, double *tokens)
{
  RengaDataFields fields;
  *tokens = 0;
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  const RengaErrorCode code = RengaDataFindFields(graph, &fields);
  RengaErrorSetHandler(NULL, NULL);
  if (code)
    return RENGA_SUCCESS; /* no network that a data set goes with: its tokens are not known */
  *tokens = (double)CountSampleTokens(&fields);
  RengaDataFreeFields(&fields);
  return RENGA_SUCCESS;
}

RengaErrorCode AppReadBudget(RengaComm comm, RengaGraph graph, AppBudget *budget)
{
  double tokens, samples;
  *budget = (AppBudget){.samples = 0};
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetReal("plan_tokens", &tokens, NULL));
  RengaCall(RengaOptionsGetReal("plan_samples", &samples, NULL));
  RengaCheck(tokens == 0 || samples == 0, printer, RENGA_ERR_OPTION,
             "-plan_tokens %g and -plan_samples %g: give one of them", tokens, samples);
  RengaCall(FindSampleTokens(graph, &budget->per_sample));
  budget->samples = samples;
  budget->tokens = tokens > 0;
  RengaCheck(!budget->tokens || budget->per_sample > 0, printer, RENGA_ERR_OPTION,
             "-plan_tokens: no input of the network is [batch, sequence] of tokens; give "
             "-plan_samples");
  if (budget->tokens) budget->samples = tokens / budget->per_sample;
  return RENGA_SUCCESS;
}

double AppTrainingTime(const AppBudget *budget, int64_t batch, double step, double *steps)
{
  *steps = ceil(budget->samples / (double)batch);
  return *steps * step;
}

void AppFormatDays(double seconds, size_t size, char text[])
{
  if (seconds < 3600)
    RengaFormatSeconds(seconds, size, text);
  else if (seconds < 2 * 86400)
    RengaTextFormat(text, size, "%.3g hours", seconds / 3600);
  else
    RengaTextFormat(text, size, "%.3g days", seconds / 86400);
}

void AppFormatHours(double seconds, size_t size, char text[])
{
  const double minutes = ceil(seconds / 60);
  RengaTextFormat(text, size, "%.0f:%02.0f", floor(minutes / 60), fmod(minutes, 60));
}

static RengaErrorCode PrintBudgetHours(MPI_Comm printer, double hours, const char *what,
                                       int64_t count)
{
  char text[32];
  RengaFormatCount(hours * (double)count, sizeof text, text);
  RengaCall(RengaPrintf(printer, ", %s %s-hours on %lld %s%s", text, what, (long long)count, what,
                        count == 1 ? "" : "s"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPrintBudget(RengaComm comm, const AppBudget *budget, RengaPlan plan,
                              int64_t nodes, int64_t devices)
{
  RengaPlanPrediction prediction;
  int64_t batch, microbatch;
  char all[32], time[32], days[32];
  double steps;
  if (budget->samples <= 0) return RENGA_SUCCESS;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaCheck(prediction.step > 0, printer, RENGA_ERR_OPTION,
             "-plan_tokens, -plan_samples: the plan has no predicted step; give -machine_file, or "
             "-partition_type auto, which measures");
  const double seconds = AppTrainingTime(budget, batch, prediction.step, &steps);
  RengaFormatCount(budget->samples * (budget->tokens ? budget->per_sample : 1), sizeof all, all);
  AppFormatHours(seconds, sizeof time, time);
  AppFormatDays(seconds, sizeof days, days);
  RengaCall(RengaPrintf(printer, "  %s %s: %.0f steps take %s hours (%s)", all,
                        budget->tokens ? "tokens" : "samples", steps, time, days));
  if (nodes) RengaCall(PrintBudgetHours(printer, seconds / 3600, "node", nodes));
  RengaCall(PrintBudgetHours(printer, seconds / 3600, "device",
                             nodes ? devices : RengaPlanGetRankCount(plan)));
  RengaCall(RengaPrintf(printer, "\n"));
  return RENGA_SUCCESS;
}
