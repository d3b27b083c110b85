/* TEST ranks: 1 3 */
/* Samples of least loss are hidden: as many as sorting would choose, those that are wrong or unsure
   moved back, whole batches, at the end of the epoch's order; every sample once; the same after a
   resume; what cannot be is refused by name. */
#include "datatest.h"
#include "renga/private/epochs.h"
#include "rengasys.h"
#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 1500, HIDE_BATCH = 32 };

/* Said once: on rank 0. */
#define OnFirst(comm, text) (RengaCommGetRank(comm) == 0 ? (text) : "")

static RengaErrorCode MakeHidingData(RengaComm comm, double fraction, RengaData *data)
{
  static const char *const fields[] = {"x"};
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 0};
  const int64_t classes[] = {0};
  RengaCall(RengaOptionsSetValue("data", "numbers.h5"));
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFromOptions(*data));
  RengaCall(RengaDataSetSeed(*data, 77));
  if (fraction > 0) RengaCall(RengaDataSetHiding(*data, fraction, RENGA_IMPORTANCE_LOSS));
  RengaCall(RengaDataSetFields(*data, 1, fields, &spec, classes));
  RengaCall(RengaDataSetUp(*data));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteNumbers(RengaComm comm)
{
  if (RengaCommGetRank(comm) == 0) {
    int64_t values[SAMPLES];
    const hsize_t dim = SAMPLES;
    for (int64_t i = 0; i < SAMPLES; i++) values[i] = i;
    hid_t file = H5Fcreate("numbers.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    PutArray(file, "/x", H5T_STD_I32BE, H5T_NATIVE_INT64, 1, &dim, values);
    H5Fclose(file);
  }
  RengaCall(RengaCommBarrier(comm, "the file"));
  return RENGA_SUCCESS;
}

/* Many equal ones, some that are no numbers; every eleventh sample is wrong, every thirteenth
   unsure. */
static double LossFor(int64_t sample, int64_t epoch)
{
  if (sample % 97 == 5) return NAN;
  return (double)((sample * 7919 + epoch * 31) % 211) / 16 - 1;
}

static double SureFor(int64_t sample)
{
  return sample % 11 == 0 ? -0.9 : sample % 13 == 0 ? 0.3 : 0.8;
}

/* All places of an epoch, in uneven pieces. */
static RengaErrorCode ReadPlaces(RengaData data, int64_t epoch, int64_t order[])
{
  for (int64_t at = 0, n = 1; at < SAMPLES; at += n, n = n * 2 + 1) {
    if (n > SAMPLES - at) n = SAMPLES - at;
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, epoch, at, n, order + at));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PutAllLosses(RengaData data, int64_t epoch)
{
  int64_t order[SAMPLES], hidden, running;
  double values[2 * SAMPLES];
  RengaCall(ReadPlaces(data, epoch, order));
  RengaCall(RengaDataGetHidden(data, &running, &hidden));
  for (int64_t i = 0; i < SAMPLES; i++) {
    values[2 * i] = LossFor(order[i], epoch);
    values[2 * i + 1] = SureFor(order[i]);
  }
  RengaCall(RengaDataPutLosses(data, epoch, 0, 700, 2, values));
  RengaCall(RengaDataPutLosses(data, epoch, 700, SAMPLES - 700, 2, values + 1400));
  return RENGA_SUCCESS;
}

typedef struct {
  int64_t sample;
  double loss;
} Ranked;

static int CompareRanked(const void *a, const void *b)
{
  const Ranked *x = a, *y = b;
  if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
  return (x->sample > y->sample) - (x->sample < y->sample);
}

/* By sorting. */
static int64_t ExpectHidden(int64_t epoch, double fraction, bool hidden[])
{
  Ranked row[SAMPLES];
  int64_t count = 0, kept = 0;
  for (int64_t i = 0; i < SAMPLES; i++)
    if (!isnan(LossFor(i, epoch))) row[count++] = (Ranked){i, LossFor(i, epoch)};
  qsort(row, (size_t)count, sizeof *row, CompareRanked);
  int64_t candidates = (int64_t)(fraction * SAMPLES), left = 0;
  for (int64_t r = 0; r < candidates; r++) left += SureFor(row[r].sample) >= 0.7;
  memset(hidden, 0, SAMPLES * sizeof *hidden);
  for (int64_t r = 0; r < candidates && kept < left / HIDE_BATCH * HIDE_BATCH; r++)
    if (SureFor(row[r].sample) >= 0.7) hidden[row[r].sample] = true, kept++;
  return kept;
}

/* Steps of the epoch cover its places once, hidden ones last and in whole batches. */
static RengaErrorCode CheckSteps(RengaData data, int64_t epoch, int64_t n_hidden)
{
  const int64_t steps = (SAMPLES + HIDE_BATCH - 1) / HIDE_BATCH;
  int64_t next = 0, first, count, found;
  for (int64_t s = 0; s < steps; s++) {
    RengaCall(RengaDataGetStep(data, RENGA_DATA_TRAINING, HIDE_BATCH, epoch * steps + s, &first,
                               &count, &found));
    Expect(found == epoch && first == next && count > 0 && count <= HIDE_BATCH);
    Expect(count == HIDE_BATCH || first + count == SAMPLES - n_hidden);
    Expect(first >= SAMPLES - n_hidden || first + count <= SAMPLES - n_hidden);
    next = first + count;
  }
  Expect(next == SAMPLES);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOrder(RengaData data, int64_t epoch, const bool hidden[],
                                 int64_t n_hidden)
{
  int64_t order[SAMPLES];
  bool seen[SAMPLES] = {false};
  RengaCall(ReadPlaces(data, epoch, order));
  for (int64_t i = 0; i < SAMPLES; i++) {
    Expect(order[i] >= 0 && order[i] < SAMPLES && !seen[order[i]]);
    seen[order[i]] = true;
    Expect(hidden[order[i]] == (i >= SAMPLES - n_hidden));
    Expect(i <= SAMPLES - n_hidden || order[i] > order[i - 1]);
  }
  RengaCall(CheckSteps(data, epoch, n_hidden));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckEpochs(RengaComm comm, double fraction)
{
  static const double stairs[] = {1, 1, 1, 0.8, 0.8, 0.8, 0.6, 0.6, 0.4, 0.4};
  RengaData data;
  RengaDataEpoch chosen;
  bool hidden[SAMPLES] = {false};
  RengaCall(MakeHidingData(comm, fraction, &data));
  for (int64_t epoch = 0; epoch < 10; epoch++) {
    const double share = epoch == 0 ? 0 : fraction * stairs[epoch];
    const int64_t expected = epoch == 0 ? 0 : ExpectHidden(epoch - 1, share, hidden);
    RengaCall(RengaDataBeginEpoch(data, epoch, HIDE_BATCH, (double)epoch / 10, &chosen));
    Expect(chosen.hidden == expected && chosen.candidates == (int64_t)(share * SAMPLES));
    RengaCall(CheckOrder(data, epoch, hidden, expected));
    RengaCall(PutAllLosses(data, epoch));
  }
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

/* The state of one set makes another go on alike, within the epoch and after it. */
static RengaErrorCode CheckState(RengaComm comm)
{
  RengaData one, two;
  RengaDataEpoch chosen, again;
  int64_t order[SAMPLES], other[SAMPLES], samples;
  float *from, *to;
  RengaCall(MakeHidingData(comm, 0.3, &one));
  RengaCall(MakeHidingData(comm, 0.3, &two));
  RengaCall(PutAllLosses(one, 0));
  RengaCall(RengaDataBeginEpoch(one, 1, HIDE_BATCH, 0.1, &chosen));
  Expect(chosen.hidden > 200);
  RengaCall(RengaDataGetHidingState(one, &samples, &from));
  RengaCall(RengaDataGetHidingState(two, &samples, &to));
  Expect(samples == SAMPLES);
  memcpy(to, from, 3 * SAMPLES * sizeof *to);
  RengaCall(RengaDataResumeEpoch(two, 1, HIDE_BATCH));
  RengaCall(ReadPlaces(one, 1, order));
  RengaCall(ReadPlaces(two, 1, other));
  Expect(memcmp(order, other, sizeof order) == 0);
  RengaCall(RengaDataBeginEpoch(two, 2, HIDE_BATCH, 0.7, &again));
  RengaCall(RengaDataKeepEpoch(one));
  RengaCall(RengaDataBeginEpoch(one, 2, HIDE_BATCH, 0.7, &chosen));
  Expect(again.hidden == chosen.hidden && again.moved_back == chosen.moved_back);
  ExpectError(RengaDataResumeEpoch(two, 2, 31), RENGA_ERR_OPTION,
              OnFirst(comm, "which are no batches of 31"));
  RengaCall(RengaDataDestroy(&one));
  RengaCall(RengaDataDestroy(&two));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSettings(RengaComm comm)
{
  RengaData data;
  RengaDataEpoch chosen;
  RengaImportance importance;
  double fraction;
  bool adapts;
  RengaCall(MakeHidingData(comm, 0, &data));
  RengaCall(RengaDataSetHiding(data, 0.5, RENGA_IMPORTANCE_RANDOM));
  RengaCall(RengaDataGetHiding(data, &fraction, &importance, &adapts));
  Expect(fraction == 0.5 && importance == RENGA_IMPORTANCE_RANDOM && adapts);
  RengaCall(RengaDataBeginEpoch(data, 3, HIDE_BATCH, 0, &chosen));
  Expect(chosen.hidden == SAMPLES / 2 / HIDE_BATCH * HIDE_BATCH && chosen.moved_back == 0);
  RengaCall(CheckSteps(data, 3, chosen.hidden));
  ExpectError(RengaDataSetHiding(data, 1, RENGA_IMPORTANCE_LOSS), RENGA_ERR_ARGUMENT,
              OnFirst(comm, "is not in 0 to 0.9"));
  RengaCall(RengaDataSetHiding(data, 0.1, RENGA_IMPORTANCE_GRADIENT_NORM));
  RengaCall(RengaDataGetHiding(data, &fraction, &importance, &adapts));
  Expect(importance == RENGA_IMPORTANCE_GRADIENT_NORM);
  ExpectError(RengaDataSetHiding(data, 0.1, (RengaImportance)3), RENGA_ERR_ARGUMENT,
              OnFirst(comm, "3 is no RengaImportance"));
  ExpectError(RengaDataPutLosses(data, 3, SAMPLES - 1, 2, 1, (double[]){0, 0}), RENGA_ERR_ARGUMENT,
              "samples 1499 to 1500 of 1500");
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(WriteNumbers(comm));
  RengaCall(CheckEpochs(comm, 0.3));
  RengaCall(CheckEpochs(comm, 0.85));
  RengaCall(CheckState(comm));
  RengaCall(CheckSettings(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
