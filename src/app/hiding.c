/* -data_hide: what the network is asked for, and which options go with it. */
#include "app.h"
#include <string.h>

/* by_loss: what a step finds out decides. */
static RengaErrorCode ReadHiding(bool *hides, bool *by_loss, bool *by_norm)
{
  const char *importance;
  double fraction;
  RengaCall(RengaOptionsGetReal("data_hide", &fraction, NULL));
  RengaCall(RengaOptionsGetString("data_importance", &importance, NULL));
  *hides = fraction > 0;
  *by_norm = *hides && strcmp(importance, "gradient_norm") == 0;
  *by_loss = *by_norm || (*hides && strcmp(importance, "loss") == 0);
  return RENGA_SUCCESS;
}

/* Before the network is set up. */
static RengaErrorCode AskForLosses(RengaGraph graph, const char *outputs)
{
  bool hides, by_loss, by_norm;
  (void)outputs;
  RengaCall(ReadHiding(&hides, &by_loss, &by_norm));
  if (by_loss) RengaCall(RengaGraphSetSampleLosses(graph, true));
  if (by_norm) RengaCall(RengaGraphSetSampleNorms(graph, true));
  return RENGA_SUCCESS;
}

const AppEnds AppHidingEnds = {AskForLosses, NULL};

RengaErrorCode AppCheckHiding(MPI_Comm printer, RengaGraph graph)
{
  static const char *const all[] = {"data_importance", "data_hide_confidence", "data_hide_warmup",
                                    "data_hide_schedule", "data_hide_rate"};
  bool hides, by_loss, by_norm;
  RengaValue value;
  RengaCall(ReadHiding(&hides, &by_loss, &by_norm));
  for (size_t i = 0; i < sizeof all / sizeof all[0] && !hides; i++)
    RengaCall(AppRefuseUnused(printer, all[i], "nothing is hidden without -data_hide"));
  RengaCall(RengaGraphGetSampleLosses(graph, &value));
  if (hides && (value == RENGA_VALUE_NONE || RengaGraphGetValue(graph, value)->spec.dim[1] < 2))
    RengaCall(AppRefuseUnused(printer, "data_hide_confidence",
                              "it needs a network with one label for each sample, and "
                              "-data_importance loss or gradient_norm"));
  return RENGA_SUCCESS;
}
