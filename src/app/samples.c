/* The samples of -data, as a network takes them. */
#include "app.h"
#include <math.h>

RengaErrorCode AppReadWindow(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const AppWindow *window = user;
  RengaCall(RengaDataRead(window->data, window->part, field, window->epoch, window->first + first,
                          count, buffer));
  return RENGA_SUCCESS;
}

RengaErrorCode AppOpenFields(RengaComm comm, const RengaDataFields *fields, bool in_order,
                             RengaData *data)
{
  const char *name, *eval;
  int64_t seed;
  RengaCall(AppNeedOption(comm, "data",
                          "an HDF5 data set (renga data text makes one), or "
                          "synthetic",
                          &name));
  RengaCall(RengaOptionsGetInt64("seed", &seed, NULL));
  RengaCall(RengaOptionsGetString("eval", &eval, NULL));
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetSeed(*data, (uint64_t)seed));
  RengaCall(RengaDataSetFromOptions(*data));
  if (in_order) RengaCall(RengaDataSetShuffle(*data, false));
  RengaCall(RengaDataSetValidationFile(*data, eval));
  RengaCall(
      RengaDataSetFields(*data, fields->count, fields->names, fields->specs, fields->classes));
  RengaCall(RengaDataSetIgnored(*data, fields->ignored));
  RengaCall(RengaDataSetUp(*data));
  return RENGA_SUCCESS;
}

RengaErrorCode AppOpenData(RengaComm comm, RengaGraph graph, bool in_order, RengaData *data)
{
  RengaDataFields fields;
  RengaCall(RengaDataFindFields(graph, &fields));
  const RengaErrorCode code = AppOpenFields(comm, &fields, in_order, data);
  RengaDataFreeFields(&fields);
  RengaCall(code);
  return RENGA_SUCCESS;
}

int64_t AppTokensPerSample(const RengaDataFields *fields)
{
  for (int f = 0; f < fields->count; f++)
    if (fields->is_table_index[f] && fields->specs[f].ndim == 1) return fields->specs[f].dim[0];
  return 0;
}

double AppPerplexity(const RengaDataFields *fields, const AppAccuracy *accuracy, double loss)
{
  return accuracy->likelihood && AppTokensPerSample(fields) > 0 ? exp(loss) : 0;
}
