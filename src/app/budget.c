/* What a whole training takes of the machine, by the predicted step: for who writes a proposal. */
#include "app.h"
#include <math.h>

/* Of a sample: the longest of its inputs that are rows of a table of words. */
static int64_t CountSampleTokens(const AppFields *fields)
{
  int64_t most = 0;
  for (int f = 0; f < fields->count; f++) {
    const RengaTensorSpec *spec = &fields->specs[f];
    if (fields->is_table_index[f] && spec->ndim == 1 && spec->dim[0] > most) most = spec->dim[0];
  }
  return most;
}

static RengaErrorCode FindBudgetTokens(RengaComm comm, RengaGraph graph, AppBudget *budget)
{
  MPI_Comm printer;
  AppFields fields;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(AppFindFields(comm, graph, &fields));
  budget->per_sample = (double)CountSampleTokens(&fields);
  AppFreeFields(&fields);
  RengaCheck(budget->per_sample > 0, printer, RENGA_ERR_OPTION,
             "-plan_tokens: no input of the network is [batch, sequence] of tokens; give "
             "-plan_samples");
  return RENGA_SUCCESS;
}

RengaErrorCode AppReadBudget(RengaComm comm, RengaGraph graph, AppBudget *budget)
{
  MPI_Comm printer;
  double tokens, samples;
  *budget = (AppBudget){.samples = 0};
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaOptionsGetReal("plan_tokens", &tokens, NULL));
  RengaCall(RengaOptionsGetReal("plan_samples", &samples, NULL));
  RengaCheck(tokens == 0 || samples == 0, printer, RENGA_ERR_OPTION,
             "-plan_tokens %g and -plan_samples %g: give one of them", tokens, samples);
  budget->samples = samples;
  if (tokens == 0) return RENGA_SUCCESS;
  RengaCall(FindBudgetTokens(comm, graph, budget));
  budget->samples = tokens / budget->per_sample;
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
    snprintf(text, size, "%.3g hours", seconds / 3600);
  else
    snprintf(text, size, "%.3g days", seconds / 86400);
}

RengaErrorCode AppPrintBudget(RengaComm comm, const AppBudget *budget, RengaPlan plan,
                              int64_t nodes)
{
  MPI_Comm printer;
  RengaPlanPrediction prediction;
  int64_t batch, microbatch, used = nodes ? nodes : RengaPlanGetRankCount(plan);
  char all[32], time[32], hours[32];
  if (budget->samples <= 0) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaCheck(prediction.step > 0, printer, RENGA_ERR_OPTION,
             "-plan_tokens, -plan_samples: the plan has no predicted step; give -machine_file, or "
             "-partition_type auto, which measures");
  const double unit = budget->per_sample > 0 ? budget->per_sample : 1;
  double steps;
  const double seconds = AppTrainingTime(budget, batch, prediction.step, &steps);
  RengaFormatCount(budget->samples * unit, sizeof all, all);
  RengaFormatCount(seconds / 3600 * (double)used, sizeof hours, hours);
  AppFormatDays(seconds, sizeof time, time);
  RengaCall(RengaPrintf(printer, "  %s %s: %.0f steps take %s, %s %s-hours on %lld %s%s\n", all,
                        budget->per_sample > 0 ? "tokens" : "samples", steps, time, hours,
                        nodes ? "node" : "device", (long long)used, nodes ? "node" : "device",
                        used == 1 ? "" : "s"));
  return RENGA_SUCCESS;
}
