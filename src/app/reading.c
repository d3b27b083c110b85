/* What the planner is told of the data set: what reading it takes. For that a few
   samples of each input are read again and again: they lie in the file cache then, as those of a
   data set that fits into it do. */
#include "app.h"

enum { SAMPLES = 16, ROUNDS = 5 };
static const double most_seconds = 0.02; /* of an input */

static RengaErrorCode TimeField(RengaData data, int field, int64_t count, void *buffer,
                                double *seconds)
{
  double spent = 0;
  for (int round = 0; round < ROUNDS && spent < most_seconds; round++) {
    const double begin = MPI_Wtime();
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, field, 0, 0, count, buffer));
    const double taken = MPI_Wtime() - begin;
    spent += taken;
    if (round == 0 || taken < *seconds) *seconds = taken;
  }
  *seconds /= (double)count;
  return RENGA_SUCCESS;
}

static RengaErrorCode TimeFields(RengaPartition partition, const RengaDataFields *fields,
                                 RengaData data)
{
  int64_t count = 0;
  const char *name;
  RengaCall(RengaOptionsGetString("data", &name, NULL));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &count));
  if (count > SAMPLES) count = SAMPLES;
  for (int f = 0; f < fields->count && count > 0; f++) {
    char *buffer = NULL;
    double seconds = 0;
    RengaCall(RengaMalloc((int64_t)RengaTensorSpecBytes(&fields->specs[f]) * count, &buffer));
    RengaErrorCode code = TimeField(data, f, count, buffer, &seconds);
    if (!code) code = RengaPartitionSetReadSeconds(partition, fields->names[f], name, seconds);
    RengaFree(&buffer);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

/* One that cannot read leaves none waiting for it. */
RengaErrorCode AppSetReading(RengaPartition partition, const RengaDataFields *fields,
                             RengaData data)
{
  const MPI_Comm printer = AppPrinter(partition);
  RengaCall(RengaErrorAgree(printer, TimeFields(partition, fields, data)));
  return RENGA_SUCCESS;
}
