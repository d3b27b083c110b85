/* Data: mean and deviation of the numbers for training, and what they make of a dataset. */
#include "dataimpl.h"
#include <math.h>

void RengaDataMomentsAdd_Private(RengaDataMoments *moments, RengaDataType type, const void *values,
                                 int64_t count)
{
  enum { FEW = 512 };
  double wide[FEW];
  size_t size = RengaDataTypeSize(type);
  RengaDataType whole = RengaDataIsInteger(type) ? RENGA_INT64 : RENGA_FLOAT64;
  int64_t integers[FEW];
  for (int64_t at = 0; at < count; at += FEW) {
    int64_t n = count - at < FEW ? count - at : FEW;
    void *to = whole == RENGA_INT64 ? (void *)integers : (void *)wide;
    RengaDataConvert(type, (const char *)values + (size_t)at * size, whole, to, n);
    for (int64_t i = 0; i < n; i++) {
      double value = whole == RENGA_INT64 ? (double)integers[i] : wide[i];
      moments->sum += value;
      moments->squares += value * value;
    }
  }
  moments->count += (double)count;
}

RengaErrorCode RengaDataMomentsPut_Private(const RengaDataMoments *moments, RengaDataWriter writer,
                                           int dataset, double unit, double *mean,
                                           double *deviation, const char *what)
{
  if (*deviation == 0) {
    const double stored = moments->sum / moments->count;
    const double variance = moments->squares / moments->count - stored * stored;
    *mean = stored / unit;
    *deviation = variance > 0 ? sqrt(variance) / unit : 0;
    RengaCheck(*deviation > 0 && isfinite(*deviation) && isfinite(*mean), MPI_COMM_SELF,
               RENGA_ERR_FILE_FORMAT,
               "%s: the numbers have mean %g and variance %g, which is no normalisation; give "
               "another with -data_mean and -data_deviation",
               what, stored, variance);
  }
  RengaCall(RengaDataWriterPutReal(writer, dataset, "scale", 1 / (unit * *deviation)));
  RengaCall(RengaDataWriterPutReal(writer, dataset, "offset", -*mean / *deviation));
  return RENGA_SUCCESS;
}
