/* TEST ranks: 1 3 timeout: 200 */
/* Samples of lanes: every one once in each epoch, for any number of lanes, share and size; lanes
   give and get equally many; each batch takes as many of each lane; a lane that exchanges nothing
   keeps its samples; the order is one of the seed, whoever reads it; what cannot be is refused. */
#include "datatest.h"
#include "rengasys.h"
#include <stdlib.h>

enum { MOST_SAMPLES = 1009, LANE_EPOCHS = 3 };

#define OnFirst(comm, text) (RengaCommGetRank(comm) == 0 ? (text) : "")

static RengaErrorCode MakeLanes(RengaComm comm, const char *file, int64_t lanes, double exchange,
                                RengaData *data)
{
  static const char *const fields[] = {"x"};
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 0};
  const int64_t classes[] = {0};
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFile(*data, file));
  RengaCall(RengaDataSetSeed(*data, 5));
  RengaCall(RengaDataSetLanes(*data, lanes, exchange));
  RengaCall(RengaDataSetFields(*data, 1, fields, &spec, classes));
  return RengaDataSetUp(*data);
}

static RengaErrorCode WriteSizes(RengaComm comm, int n, const int64_t sizes[])
{
  for (int s = 0; s < n && RengaCommGetRank(comm) == 0; s++) {
    int64_t values[MOST_SAMPLES];
    char name[32];
    const hsize_t dim = (hsize_t)sizes[s];
    snprintf(name, sizeof name, "n%lld.h5", (long long)sizes[s]);
    for (int64_t i = 0; i < sizes[s]; i++) values[i] = i;
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    PutArray(file, "/x", H5T_STD_I32BE, H5T_NATIVE_INT64, 1, &dim, values);
    H5Fclose(file);
  }
  RengaCall(RengaCommBarrier(comm, "the files"));
  return RENGA_SUCCESS;
}

/* Of each sample the lane that has it in an epoch. */
static RengaErrorCode FindOwners(RengaData data, int64_t samples, int64_t lanes, int64_t epoch,
                                 int64_t owner[])
{
  int64_t size[64] = {0}, read[MOST_SAMPLES];
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, epoch, 0, samples, read));
  for (int64_t i = 0; i < samples; i++) owner[i] = -1;
  for (int64_t place = 0; place < samples; place++) {
    int64_t lane, sample;
    RengaCall(RengaDataFindLane(data, epoch, place, &lane, &sample));
    Expect(sample == read[place] && sample >= 0 && sample < samples && owner[sample] < 0);
    Expect(lane >= 0 && lane < lanes);
    owner[sample] = lane;
    size[lane]++;
  }
  for (int64_t l = 0; l < lanes; l++) Expect(size[l] == samples / lanes + (l < samples % lanes));
  return RENGA_SUCCESS;
}

/* What left each lane, and came: the share of the smallest, of all. */
static RengaErrorCode CheckMoved(int64_t samples, int64_t lanes, double exchange,
                                 const int64_t before[], const int64_t after[])
{
  const int64_t expected = (int64_t)(exchange * (double)(samples / lanes));
  int64_t left[64] = {0}, came[64] = {0};
  for (int64_t i = 0; i < samples; i++)
    if (before[i] != after[i]) left[before[i]]++, came[after[i]]++;
  for (int64_t l = 0; l < lanes; l++) Expect(left[l] == expected && came[l] == expected);
  return RENGA_SUCCESS;
}

/* Sample i of a whole batch is of lane i * lanes / batch. */
static RengaErrorCode CheckBatches(RengaData data, int64_t samples, int64_t lanes, int64_t batch)
{
  int64_t owner[MOST_SAMPLES];
  RengaCall(RengaDataSetBatch(data, batch));
  for (int64_t place = 0; place < samples / batch * batch; place++) {
    int64_t lane, sample;
    RengaCall(RengaDataFindLane(data, 1, place, &lane, &sample));
    Expect(lane == place % batch * lanes / batch);
  }
  RengaCall(FindOwners(data, samples, lanes, 1, owner));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLanesOf(RengaComm comm, int64_t samples, int64_t lanes, double exchange)
{
  RengaData data;
  int64_t owner[2][MOST_SAMPLES];
  char name[32];
  snprintf(name, sizeof name, "n%lld.h5", (long long)samples);
  RengaCall(MakeLanes(comm, name, lanes, exchange, &data));
  for (int64_t epoch = 0; epoch < LANE_EPOCHS; epoch++) {
    RengaCall(FindOwners(data, samples, lanes, epoch, owner[epoch % 2]));
    if (epoch > 0)
      RengaCall(CheckMoved(samples, lanes, exchange, owner[(epoch + 1) % 2], owner[epoch % 2]));
  }
  RengaCall(CheckBatches(data, samples, lanes, 3 * lanes));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

/* For ever. */
static RengaErrorCode CheckFixed(RengaComm comm)
{
  RengaData data;
  int64_t order[MOST_SAMPLES], lanes;
  double exchange;
  RengaCall(MakeLanes(comm, "n1009.h5", 8, 0.25, &data));
  RengaCall(RengaDataGetLanes(data, &lanes, &exchange));
  Expect(lanes == 8 && exchange == 0.25);
  RengaCall(RengaDataSetBatch(data, 16));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 7, 0, 1009, order));
  const uint64_t hash = RengaHash(order, 1009 * sizeof *order, 0);
  if (hash != UINT64_C(0x96378b084b6b5de1)) printf("hash 0x%llx\n", (unsigned long long)hash);
  Expect(hash == UINT64_C(0x96378b084b6b5de1));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLaneErrors(RengaComm comm)
{
  static const struct {
    const char *shuffle, *lanes, *placement, *says;
    RengaErrorCode code;
  } wrong[] = {
      {"partial:1.5", "4", "shared", "none of global, local, partial:Q", RENGA_ERR_OPTION},
      {"partial:", "4", "shared", "none of global, local, partial:Q", RENGA_ERR_OPTION},
      {"sometimes", "0", "shared", "none of global, local, partial:Q", RENGA_ERR_OPTION},
      {"local", "1", "shared", "-data_lanes says how many, at least 2", RENGA_ERR_OPTION},
      {"true", "4", "shared", "-data_lanes 4 is for -data_shuffle local", RENGA_ERR_OPTION},
      {"global", "0", "local", "-data_placement local is not supported", RENGA_ERR_SUPPORT},
  };
  RengaData data;
  int64_t lane, sample;
  for (int w = 0; w < COUNT_OF(wrong); w++) {
    RengaCall(RengaOptionsSetValue("data_shuffle", wrong[w].shuffle));
    RengaCall(RengaOptionsSetValue("data_lanes", wrong[w].lanes));
    RengaCall(RengaOptionsSetValue("data_placement", wrong[w].placement));
    RengaCall(RengaDataCreate(comm, &data));
    ExpectError(RengaDataSetFromOptions(data), wrong[w].code, OnFirst(comm, wrong[w].says));
    RengaCall(RengaDataDestroy(&data));
  }
  RengaCall(RengaDataCreate(comm, &data));
  ExpectError(RengaDataSetLanes(data, 1, 0.5), RENGA_ERR_ARGUMENT, OnFirst(comm, "at least 2"));
  RengaCall(RengaDataDestroy(&data));
  ExpectError(MakeLanes(comm, "n5.h5", 6, 0.5, &data), RENGA_ERR_OPTION,
              OnFirst(comm, "5 training samples cannot be shared out among 6 lanes"));
  RengaCall(RengaDataDestroy(&data));
  RengaCall(MakeLanes(comm, "n5.h5", 2, 0.5, &data));
  ExpectError(RengaDataSetBatch(data, 3), RENGA_ERR_OPTION,
              OnFirst(comm, "3 samples cannot be filled equally by 2 data lanes"));
  ExpectError(RengaDataFindLane(data, 0, 5, &lane, &sample), RENGA_ERR_ARGUMENT, "place 5");
  ExpectError(RengaDataSetLanes(data, 2, 0), RENGA_ERR_ORDER, OnFirst(comm, "set up already"));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const int64_t sizes[] = {5, 64, 200, 1009}, lanes[] = {2, 5, 8, 32, 64};
  static const double shares[] = {0, 0.1, 0.5, 1};
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(WriteSizes(comm, COUNT_OF(sizes), sizes));
  for (int s = 0; s < COUNT_OF(sizes); s++)
    for (int l = 0; l < COUNT_OF(lanes); l++)
      for (int q = 0; q < COUNT_OF(shares) && lanes[l] <= sizes[s]; q++)
        RengaCall(CheckLanesOf(comm, sizes[s], lanes[l], shares[q]));
  RengaCall(CheckFixed(comm));
  RengaCall(CheckLaneErrors(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
