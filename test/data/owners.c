/* TEST ranks: 1 3 */
/* Samples of owners: every one once in each epoch, for any number of owners, share and size; owners
   give and get equally many; each batch takes as many of each owner; one that exchanges nothing
   keeps its samples; the order is one of the seed, whoever reads it; what cannot be is refused. */
#include "datatest.h"
#include "rengasys.h"
#include <stdlib.h>

enum { MOST_SAMPLES = 1009, OWNER_EPOCHS = 3 };

#define OnFirst(comm, text) (RengaCommGetRank(comm) == 0 ? (text) : "")

static RengaErrorCode MakeOwners(RengaComm comm, const char *file, int64_t owners, double exchange,
                                 RengaData *data)
{
  static const char *const fields[] = {"x"};
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 0};
  const int64_t classes[] = {0};
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFile(*data, file));
  RengaCall(RengaDataSetSeed(*data, 5));
  RengaCall(RengaDataSetOwners(*data, owners, exchange));
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

/* Of each sample the owner that has it in an epoch. */
static RengaErrorCode FindAllOwners(RengaData data, int64_t samples, int64_t owners, int64_t epoch,
                                    int64_t owner[])
{
  int64_t size[64] = {0}, read[MOST_SAMPLES];
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, epoch, 0, samples, read));
  for (int64_t i = 0; i < samples; i++) owner[i] = -1;
  for (int64_t place = 0; place < samples; place++) {
    int64_t who, sample;
    RengaCall(RengaDataFindOwner(data, epoch, place, &who, &sample));
    Expect(sample == read[place] && sample >= 0 && sample < samples && owner[sample] < 0);
    Expect(who >= 0 && who < owners);
    owner[sample] = who;
    size[who]++;
  }
  for (int64_t l = 0; l < owners; l++) Expect(size[l] == samples / owners + (l < samples % owners));
  return RENGA_SUCCESS;
}

/* What left each owner, and came: the share of the smallest, of all. */
static RengaErrorCode CheckMoved(int64_t samples, int64_t owners, double exchange,
                                 const int64_t before[], const int64_t after[])
{
  const int64_t expected = owners == 1 ? 0 : (int64_t)(exchange * (double)(samples / owners));
  int64_t left[64] = {0}, came[64] = {0};
  for (int64_t i = 0; i < samples; i++)
    if (before[i] != after[i]) left[before[i]]++, came[after[i]]++;
  for (int64_t l = 0; l < owners; l++) Expect(left[l] == expected && came[l] == expected);
  return RENGA_SUCCESS;
}

/* Sample i of a whole batch is of owner i * owners / batch. */
static RengaErrorCode CheckBatches(RengaData data, int64_t samples, int64_t owners, int64_t batch)
{
  int64_t owner[MOST_SAMPLES];
  RengaCall(RengaDataSetBatch(data, batch));
  for (int64_t place = 0; place < samples / batch * batch; place++) {
    int64_t who, sample;
    RengaCall(RengaDataFindOwner(data, 1, place, &who, &sample));
    Expect(who == place % batch * owners / batch);
  }
  RengaCall(FindAllOwners(data, samples, owners, 1, owner));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOwnersOf(RengaComm comm, int64_t samples, int64_t owners,
                                    double exchange)
{
  RengaData data;
  int64_t owner[2][MOST_SAMPLES];
  char name[32];
  snprintf(name, sizeof name, "n%lld.h5", (long long)samples);
  RengaCall(MakeOwners(comm, name, owners, exchange, &data));
  for (int64_t epoch = 0; epoch < OWNER_EPOCHS; epoch++) {
    RengaCall(FindAllOwners(data, samples, owners, epoch, owner[epoch % 2]));
    if (epoch > 0)
      RengaCall(CheckMoved(samples, owners, exchange, owner[(epoch + 1) % 2], owner[epoch % 2]));
  }
  RengaCall(CheckBatches(data, samples, owners, 3 * owners));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

/* For ever. */
static RengaErrorCode CheckFixed(RengaComm comm)
{
  RengaData data;
  int64_t order[MOST_SAMPLES], owners;
  double exchange;
  RengaCall(MakeOwners(comm, "n1009.h5", 8, 0.25, &data));
  RengaCall(RengaDataGetOwners(data, &owners, &exchange));
  Expect(owners == 8 && exchange == 0.25);
  RengaCall(RengaDataSetBatch(data, 16));
  RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, 7, 0, 1009, order));
  const uint64_t hash = RengaHash(order, 1009 * sizeof *order, 0);
  if (hash != UINT64_C(0x96378b084b6b5de1)) printf("hash 0x%llx\n", (unsigned long long)hash);
  Expect(hash == UINT64_C(0x96378b084b6b5de1));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOwnerErrors(RengaComm comm)
{
  static const struct {
    const char *shuffle, *owners, *placement, *says;
    RengaErrorCode code;
  } wrong[] = {
      {"partial:1.5", "4", "shared", "none of global, local, partial:Q", RENGA_ERR_OPTION},
      {"partial:", "4", "shared", "none of global, local, partial:Q", RENGA_ERR_OPTION},
      {"sometimes", "0", "shared", "none of global, local, partial:Q", RENGA_ERR_OPTION},
      {"local", "0", "shared", "-data_owners says how many", RENGA_ERR_OPTION},
      {"true", "4", "shared", "-data_owners 4 is for -data_shuffle local", RENGA_ERR_OPTION},
      {"global", "0", "local", "-data_placement local is for samples that belong to owners",
       RENGA_ERR_OPTION},
  };
  RengaData data;
  int64_t who, sample;
  for (int w = 0; w < COUNT_OF(wrong); w++) {
    RengaCall(RengaOptionsSetValue("data_shuffle", wrong[w].shuffle));
    RengaCall(RengaOptionsSetValue("data_owners", wrong[w].owners));
    RengaCall(RengaOptionsSetValue("data_placement", wrong[w].placement));
    RengaCall(RengaDataCreate(comm, &data));
    ExpectError(RengaDataSetFromOptions(data), wrong[w].code, OnFirst(comm, wrong[w].says));
    RengaCall(RengaDataDestroy(&data));
  }
  RengaCall(RengaDataCreate(comm, &data));
  ExpectError(RengaDataSetOwners(data, -1, 0.5), RENGA_ERR_ARGUMENT, OnFirst(comm, "at least 1"));
  RengaCall(RengaDataDestroy(&data));
  ExpectError(MakeOwners(comm, "n5.h5", 6, 0.5, &data), RENGA_ERR_OPTION,
              OnFirst(comm, "5 training samples cannot be split among 6 owners"));
  RengaCall(RengaDataDestroy(&data));
  RengaCall(MakeOwners(comm, "n5.h5", 2, 0.5, &data));
  ExpectError(RengaDataSetBatch(data, 3), RENGA_ERR_OPTION,
              OnFirst(comm, "3 samples cannot be filled equally by 2 data owners"));
  ExpectError(RengaDataFindOwner(data, 0, 5, &who, &sample), RENGA_ERR_ARGUMENT, "place 5");
  ExpectError(RengaDataSetOwners(data, 2, 0), RENGA_ERR_ORDER, OnFirst(comm, "set up already"));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const int64_t sizes[] = {5, 64, 200, 1009};
  static const double shares[] = {0, 0.1, 0.5, 1};
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(WriteSizes(comm, COUNT_OF(sizes), sizes));
  for (int s = 0; s < COUNT_OF(sizes); s++)
    for (int64_t owners = 1; owners <= 64 && owners <= sizes[s]; owners++)
      for (int q = 0; q < COUNT_OF(shares); q++)
        RengaCall(CheckOwnersOf(comm, sizes[s], owners, shares[q]));
  RengaCall(CheckFixed(comm));
  RengaCall(CheckOwnerErrors(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
