/* Several plans as a table, and as a picture. */
#include "app.h"
#include "renga/private/number.h"
#include <string.h>

RengaErrorCode AppRefuseOfOnePlan(RengaComm comm)
{
  static const char *const of_one[] = {"plan_save",     "schedule_view", "simulate_slow",
                                       "simulate_link", "simulate_lost", "simulate_jitter",
                                       "simulate_save"};
  const char *text;
  bool given;
  const MPI_Comm printer = AppPrinter(comm);
  for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++) {
    RengaCall(RengaOptionsGetString(of_one[i], &text, &given));
    RengaCheck(!given, printer, RENGA_ERR_OPTION,
               "-%s %s is for one plan, and a table of several is asked for", of_one[i], text);
  }
  RengaCall(RengaOptionsGetString("plan_view", &text, NULL));
  RengaCheck(!text || !*text || !strncmp(text, "draw", 4) || !strncmp(text, "ascii", 5), printer,
             RENGA_ERR_OPTION, "a table of several plans is shown as ascii or draw, not as %s",
             text);
  return RENGA_SUCCESS;
}

RengaErrorCode AppOpenPlanTable(RengaComm comm, const char **view, RengaViewer *viewer)
{
  RengaCall(RengaOptionsGetString("plan_view", view, NULL));
  const bool draw = *view && !strncmp(*view, "draw", 4);
  RengaCall(RengaViewerCreate(comm, draw ? "ascii" : *view, viewer));
  return RENGA_SUCCESS;
}

/* Room for the values of what the rows differ in. */
static int FindWidth(const AppPlanTable *table, int a)
{
  int width = (int)strlen(table->along[a]);
  for (int i = 0; i < table->count; i++) {
    const int length = (int)strlen(table->rows[i].value[a]);
    if (length > width) width = length;
  }
  return width;
}

static void FormatNumber(double number, size_t size, char text[])
{
  RengaTextFormat(text, size, number < 1e4 ? "%.4g" : "%.0f", number);
}

/* What the whole training takes. */
static RengaErrorCode PrintCost(RengaViewer viewer, const AppPlanTable *table,
                                const AppPlanRow *row)
{
  char days[24], time[24], nodes[32], devices[32];
  double steps;
  if (table->budget.samples <= 0) return RENGA_SUCCESS;
  const double seconds = AppTrainingTime(&table->budget, row->batch, row->prediction.step, &steps);
  AppFormatDays(seconds, sizeof days, days);
  AppFormatHours(seconds, sizeof time, time);
  FormatNumber(seconds / 3600 * (double)row->nodes, sizeof nodes, nodes);
  FormatNumber(seconds / 3600 * (double)row->devices, sizeof devices, devices);
  RengaCall(RengaViewerPrintf(viewer, "  %10.0f  %9s  %10s  %10s  %12s", steps, time, days, nodes,
                              devices));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintSpeeds(RengaViewer viewer, const AppPlanTable *table,
                                  const AppPlanRow *row)
{
  char samples[32], tokens[32], gap[24] = "", peak[24] = "";
  const bool has_tokens = table->budget.per_sample > 0;
  FormatNumber(row->rate, sizeof samples, samples);
  FormatNumber(row->rate * table->budget.per_sample, sizeof tokens, tokens);
  if (row->peak > 0) RengaTextFormat(peak, sizeof peak, "%.1f %%", 100 * row->flops / row->peak);
  if (row->prediction.bound > 0)
    RengaTextFormat(gap, sizeof gap, "%.2f %%",
                    100 * (row->prediction.step / row->prediction.bound - 1));
  RengaCall(RengaViewerPrintf(viewer, "  %9s", samples));
  if (has_tokens) RengaCall(RengaViewerPrintf(viewer, "  %9s", tokens));
  RengaCall(RengaViewerPrintf(viewer, "  %7.3g  %7s  %8.1f %%  %8s", row->flops / 1e12, peak,
                              100 * row->efficiency, gap));
  return RENGA_SUCCESS;
}

static RengaErrorCode PrintPlanRow(RengaViewer viewer, const AppPlanTable *table,
                                   const AppPlanRow *row)
{
  char memory[24], step[24];
  for (int a = 0; a < table->n_along; a++)
    RengaCall(RengaViewerPrintf(viewer, "  %*s", FindWidth(table, a), row->value[a]));
  RengaCall(RengaViewerPrintf(viewer, "  %8lld  ", (long long)row->devices));
  if (!row->fits) {
    const bool room = row->code == RENGA_ERR_MEMORY || row->code == RENGA_ERR_PLAN;
    RengaCall(RengaViewerPrintf(viewer, "%s\n", room ? "does not fit" : "is refused"));
    return RENGA_SUCCESS;
  }
  RengaFormatBytes((double)row->memory, sizeof memory, memory);
  RengaFormatSeconds(row->prediction.step, sizeof step, step);
  RengaCall(RengaViewerPrintf(viewer, "%-12s  %6d  %13lld  %10d  %9s  %8s", row->shape, row->used,
                              (long long)row->microbatches, row->recomputed, memory, step));
  RengaCall(PrintSpeeds(viewer, table, row));
  RengaCall(PrintCost(viewer, table, row));
  RengaCall(RengaViewerPrintf(viewer, "%s\n", table->order && row->front ? "      *" : ""));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPrintPlanTable(RengaViewer viewer, const AppPlanTable *table)
{
  RengaCall(RengaViewerPrintf(viewer, "plans for %s\n", table->subject));
  for (int a = 0; a < table->n_along; a++)
    RengaCall(RengaViewerPrintf(viewer, "  %*s", FindWidth(table, a), table->along[a]));
  RengaCall(RengaViewerPrintf(viewer, "  %8s  %-12s  %6s  %13s  %10s  %9s  %8s  %9s", "devices",
                              "stages x rep", "used", "micro-batches", "recomputed", "memory",
                              "step", "samples/s"));
  if (table->budget.per_sample > 0) RengaCall(RengaViewerPrintf(viewer, "  %9s", "tokens/s"));
  RengaCall(RengaViewerPrintf(viewer, "  %7s  %7s  %10s  %8s", "TFLOP/s", "of peak",
                              table->compared, "gap"));
  if (table->budget.samples > 0)
    RengaCall(RengaViewerPrintf(viewer, "  %10s  %9s  %10s  %10s  %12s", "steps", "walltime",
                                "training", "node-hours", "device-hours"));
  RengaCall(RengaViewerPrintf(viewer, "%s\n", table->order ? "  front" : ""));
  for (int i = 0; i < table->count; i++)
    RengaCall(PrintPlanRow(viewer, table, &table->rows[table->order ? table->order[i] : i]));
  return RENGA_SUCCESS;
}

RengaErrorCode AppDrawPlanTable(RengaComm comm, const char *view, const AppCurve *curve,
                                const AppPlanTable *table)
{
  RengaViewer viewer = NULL;
  if (!view || strncmp(view, "draw", 4)) return RENGA_SUCCESS;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaViewerCreate(comm, view, &viewer));
  const RengaErrorCode code = AppDrawRows(viewer, curve, table->count, table->rows);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  if (view[4] == ':') RengaCall(RengaPrintf(printer, "wrote %s\n", view + 5));
  return RENGA_SUCCESS;
}
