/* TEST ranks: 1 3 */
/* Orders of samples: permutations, others for other epochs and seeds, the same on all ranks and for
   ever; steps of an endless sequence of epochs. */
#include "datatest.h"
#include "rengasys.h"
#include <stdlib.h>

static const char *const names[] = {"number"};

/* A file whose sample i is the number i. */
static RengaErrorCode MakeNumbers(RengaComm comm, const char *name, int64_t count)
{
  if (RengaCommGetRank(comm) == 0) {
    int64_t *values;
    hsize_t dim = (hsize_t)count;
    RengaCall(RengaMalloc(count, &values));
    for (int64_t i = 0; i < count; i++) values[i] = i;
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    PutArray(file, "/number", H5T_STD_I32BE, H5T_NATIVE_INT64, 1, &dim, values);
    H5Fclose(file);
    RengaFree(&values);
  }
  RengaCall(RengaCommBarrier(comm, "the file"));
  return RENGA_SUCCESS;
}

static int CompareNumbers(const void *a, const void *b)
{
  const int64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Read in pieces of uneven lengths, other ones on each rank; the hash is that of the whole order.
   */
static RengaErrorCode ReadOrder(RengaComm comm, RengaData data, int64_t epoch, int64_t count,
                                uint64_t *hash)
{
  int64_t *order, piece = 1 + RengaCommGetRank(comm) * 37;
  RengaCall(RengaMalloc(count, &order));
  for (int64_t at = 0; at < count; at += 1 + count / 50) {
    int64_t number = -1, sample = -1;
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, epoch, at, 1, &number));
    RengaCall(RengaDataFindSample(data, epoch, at, &sample));
    Expect(sample == number);
  }
  for (int64_t at = 0, n; at < count; at += n) {
    n = count - at < piece ? count - at : piece;
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, epoch, at, n, order + at));
    piece = piece * 3 + 1;
  }
  *hash = RengaHash(order, (size_t)count * sizeof *order, 0);
  qsort(order, (size_t)count, sizeof *order, CompareNumbers);
  for (int64_t i = 0; i < count; i++) Expect(order[i] == i);
  RengaFree(&order);
  return RENGA_SUCCESS;
}

/* As the file has them, when that is asked for. */
static RengaErrorCode CheckFileOrder(RengaData data, int64_t count)
{
  bool shuffle = false;
  RengaCall(RengaDataGetShuffle(data, &shuffle));
  Expect(shuffle);
  RengaCall(RengaDataSetShuffle(data, false));
  for (int64_t i = 0; i < count; i += 97) {
    int64_t number = -1;
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 3, i, 1, &number));
    Expect(number == i);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOrders(RengaComm comm, int64_t count)
{
  char name[64];
  RengaData data;
  RengaTensorSpec spec = Spec(RENGA_INT64, 0, 0, 0);
  uint64_t hash[6];
  snprintf(name, sizeof name, "numbers-%d.tmp.h5", RengaCommGetSize(comm));
  RengaCall(MakeNumbers(comm, name, count));
  RengaCall(OpenData(comm, name, 1, names, &spec, NULL, &data));
  for (int i = 0; i < 6; i++) {
    RengaCall(RengaDataSetSeed(data, (uint64_t)(i / 3)));
    RengaCall(ReadOrder(comm, data, i % 3, count, &hash[i]));
    int64_t same[2] = {(int64_t)(hash[i] >> 32), (int64_t)(hash[i] >> 32)};
    RengaCall(RengaCommBroadcast(comm, same, sizeof *same, 0, "the order of rank 0"));
    Expect(same[0] == same[1]);
    for (int j = 0; j < i && count > 100; j++) Expect(hash[i] != hash[j]);
  }
  RengaCall(CheckFileOrder(data, count));
  if (count == 1000) Expect(hash[0] == UINT64_C(0x8759ed05fe656c9d)); /* resumed runs rely on it */
  RengaCall(RengaDataDestroy(&data));
  RengaCall(RengaCommBarrier(comm, "all to close the file"));
  if (RengaCommGetRank(comm) == 0) remove(name);
  return RENGA_SUCCESS;
}

/* Steps of an epoch follow each other without a gap; the last is short where the samples do not
   divide. */
static RengaErrorCode CheckSteps(RengaData data, RengaDataPart part, int64_t batch)
{
  int64_t samples, at = 0, epoch = 0, first, count, of;
  RengaCall(RengaDataGetCount(data, part, &samples));
  for (int64_t step = 0; step < 100; step++) {
    RengaCall(RengaDataGetStep(data, part, batch, step, &first, &count, &of));
    Expect(of == epoch && first == at && count > 0);
    Expect(count == batch || first + count == samples);
    at += count;
    if (at == samples) {
      epoch++;
      at = 0;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAllSteps(RengaComm comm)
{
  RengaData data;
  RengaTensorSpec spec = Spec(RENGA_FLOAT32, 1, 3, 0);
  int64_t count;
  RengaCall(RengaOptionsSetValue("data", "synthetic"));
  RengaCall(RengaOptionsSetValue("data_samples", "50"));
  RengaCall(RengaOptionsSetValue("data_validation", "0.25"));
  RengaCall(RengaDataCreate(comm, &data));
  RengaCall(RengaDataSetFromOptions(data));
  RengaCall(RengaDataSetFields(data, 1, names, &spec, NULL));
  RengaCall(RengaDataSetUp(data));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &count));
  Expect(count == 37);
  RengaCall(RengaDataGetCount(data, RENGA_DATA_VALIDATION, &count));
  Expect(count == 13);
  for (int64_t batch = 1; batch < 60; batch++) {
    RengaCall(CheckSteps(data, RENGA_DATA_TRAINING, batch));
    RengaCall(CheckSteps(data, RENGA_DATA_VALIDATION, batch));
  }
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const int64_t counts[] = {1, 2, 3, 4, 5, 15, 16, 17, 257, 1000, 4099};
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int i = 0; i < COUNT_OF(counts); i++) RengaCall(CheckOrders(comm, counts[i]));
  RengaCall(CheckAllSteps(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
