/* TEST ranks: 1 3 */
/* Samples that ranks hold: for any number of owners, share and layout they are those of the files,
   also where steps do not follow each other, or MPI refuses a message; what travels is counted, and
   as much as must; memory is bounded; files of a cache are used again, and refused, each by its
   name, where they are damaged, of another set, of other owners, in use, or without room. */
#include "datatest.h"
#include "renga/private/epochs.h"
#include "renga/private/fault.h"
#include <dirent.h>

enum { SAMPLES = 203, WIDTH = 5, HELD_EPOCHS = 4, MOST_BATCH = 64 };
static const char cache[] = "held-cache";
static int receives_to_fail;

/* Stands before MPI's own. */
int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
  if (receives_to_fail > 0 && receives_to_fail--) return MPI_ERR_OTHER;
  return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

#define OnFirst(comm, text) (RengaCommGetRank(comm) == 0 ? (text) : "")

static RengaErrorCode WriteSet(RengaComm comm, const char *name, int64_t factor)
{
  int64_t x[SAMPLES * WIDTH], y[SAMPLES];
  const hsize_t dims[] = {SAMPLES, WIDTH};
  for (int64_t i = 0; i < SAMPLES * WIDTH; i++) x[i] = i * factor % 251;
  for (int64_t i = 0; i < SAMPLES; i++) y[i] = i;
  if (RengaCommGetRank(comm) == 0) {
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    PutArray(file, "/x", H5T_STD_U8LE, H5T_NATIVE_INT64, 2, dims, x);
    PutArray(file, "/y", H5T_STD_I32BE, H5T_NATIVE_INT64, 1, dims, y);
    H5Fclose(file);
  }
  RengaCall(RengaCommBarrier(comm, "the files"));
  return RENGA_SUCCESS;
}

typedef struct {
  const char *file;
  RengaPlacement placement;
  const char *cache;
  int64_t owners, batch;
  double exchange;
} Case;

static RengaErrorCode MakeSet(RengaComm comm, const Case *c, RengaData *data)
{
  static const char *const fields[] = {"x", "y"};
  const RengaTensorSpec specs[] = {Spec(RENGA_FLOAT32, 1, WIDTH, 0), Spec(RENGA_INT64, 0, 0, 0)};
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFile(*data, c->file));
  RengaCall(RengaDataSetSeed(*data, 11));
  RengaCall(RengaDataSetOwners(*data, c->owners, c->exchange));
  RengaCall(RengaDataSetPlacement(*data, c->placement, c->cache));
  RengaCall(RengaDataSetFields(*data, 2, fields, specs, NULL));
  RengaCall(RengaDataSetUp(*data));
  RengaCall(RengaDataSetBatch(*data, c->batch));
  return RENGA_SUCCESS;
}

/* Ranks share the batch out; the last one alone reads y. */
static void ShareOut(RengaComm comm, int64_t batch, int64_t first[2], int64_t last[2])
{
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  first[0] = batch * rank / size;
  last[0] = batch * (rank + 1) / size;
  first[1] = 0;
  last[1] = rank == size - 1 ? batch : 0;
}

static RengaErrorCode ReadStep(RengaData data, int64_t batch, int64_t step, const int64_t first[2],
                               const int64_t last[2], float x[], int64_t y[])
{
  int64_t begin, count, epoch;
  RengaCall(RengaDataGetStep(data, RENGA_DATA_TRAINING, batch, step, &begin, &count, &epoch));
  for (int f = 0; f < 2; f++) {
    const int64_t end = last[f] < count ? last[f] : count;
    const int64_t n = end > first[f] ? end - first[f] : 0;
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, f, epoch, begin + (n > 0 ? first[f] : 0), n,
                            f == 0 ? (void *)x : (void *)y));
  }
  return RENGA_SUCCESS;
}

/* The same values from both. */
static RengaErrorCode CompareReads(RengaComm comm, RengaData shared, RengaData held, int64_t batch,
                                   int64_t step)
{
  int64_t first[2], last[2], y[2][MOST_BATCH] = {{0}};
  float x[2][MOST_BATCH * WIDTH] = {{0}};
  ShareOut(comm, batch, first, last);
  RengaCall(ReadStep(shared, batch, step, first, last, x[0], y[0]));
  RengaCall(ReadStep(held, batch, step, first, last, x[1], y[1]));
  Expect(memcmp(x[0], x[1], sizeof x[0]) == 0 && memcmp(y[0], y[1], sizeof y[0]) == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode CompareStep(RengaComm comm, RengaData shared, RengaData held, int64_t batch,
                                  int64_t step)
{
  RengaCall(RengaDataBeginStep(held, step));
  RengaCall(CompareReads(comm, shared, held, batch, step));
  return RENGA_SUCCESS;
}

static bool Holds(RengaComm comm, const Case *c, int rank, int field, int64_t owner)
{
  const int size = RengaCommGetSize(comm);
  const int64_t block = c->batch / c->owners;
  if (field == 1) return rank == size - 1;
  return owner >= c->batch * rank / size / block &&
         owner < (c->batch * (rank + 1) / size + block - 1) / block;
}

/* Bytes that must travel before the epoch, and those that would if each owner had a rank of its
   own. */
static RengaErrorCode CountMoved(RengaComm comm, RengaData shared, const Case *c, int64_t epoch,
                                 int64_t *bytes, int64_t *apart)
{
  int64_t before[SAMPLES], owner, sample;
  for (int64_t at = 0; at < SAMPLES; at++) {
    RengaCall(RengaDataFindOwner(shared, epoch - 1, at, &owner, &sample));
    before[sample] = owner;
  }
  for (int64_t at = 0; at < SAMPLES; at++) {
    RengaCall(RengaDataFindOwner(shared, epoch, at, &owner, &sample));
    *apart += before[sample] != owner;
    for (int r = 0; r < RengaCommGetSize(comm) && before[sample] != owner; r++)
      for (int f = 0; f < 2; f++)
        if (Holds(comm, c, r, f, owner) && !Holds(comm, c, r, f, before[sample]))
          *bytes += f == 0 ? WIDTH : 4;
  }
  return RENGA_SUCCESS;
}

/* Of an input each owner's samples, and the share that comes in; and what a step sends and gets. */
static RengaErrorCode CheckHeld(RengaComm comm, const Case *c, const RengaDataTraffic *traffic)
{
  int64_t bytes = 0;
  const int64_t window =
      c->owners == 1 ? 0 : (int64_t)(c->exchange * (double)(SAMPLES / c->owners));
  const int64_t steps = (SAMPLES + c->batch - 1) / c->batch, most = (window + steps - 1) / steps;
  int64_t stores[2] = {0};
  for (int64_t o = 0; o < c->owners; o++)
    for (int f = 0; f < 2; f++)
      if (Holds(comm, c, RengaCommGetRank(comm), f, o)) {
        bytes += (SAMPLES / c->owners + (o < SAMPLES % c->owners) + window) * (f == 0 ? WIDTH : 4);
        stores[f]++;
      }
  Expect(traffic->held_bytes == bytes);
  Expect(traffic->buffer_bytes <= most * (stores[0] * 4 + stores[1] * 2) * (32 + 8));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCase(RengaComm comm, const Case *c)
{
  RengaData shared, held;
  RengaDataTraffic traffic;
  int64_t first[2], last[2], sums[3], moved = 0, apart = 0;
  const Case plain = {c->file, RENGA_PLACEMENT_SHARED, NULL, c->owners, c->batch, c->exchange};
  const int64_t steps = (SAMPLES + c->batch - 1) / c->batch;
  RengaCall(MakeSet(comm, &plain, &shared));
  RengaCall(MakeSet(comm, c, &held));
  ShareOut(comm, c->batch, first, last);
  RengaCall(RengaDataPlace(held, first, last));
  for (int64_t step = 0; step <= HELD_EPOCHS * steps; step++)
    RengaCall(CompareStep(comm, shared, held, c->batch, step));
  RengaCall(RengaDataGetTraffic(held, &traffic));
  RengaCall(CheckHeld(comm, c, &traffic));
  for (int64_t e = 1; e <= HELD_EPOCHS; e++)
    RengaCall(CountMoved(comm, shared, c, e, &moved, &apart));
  const int64_t window =
      c->owners == 1 ? 0 : (int64_t)(c->exchange * (double)(SAMPLES / c->owners));
  Expect(apart == HELD_EPOCHS * window * c->owners);
  /* the step behind the last epoch has begun another exchange */
  sums[0] = traffic.sent_bytes, sums[1] = traffic.again_samples, sums[2] = traffic.loaded_samples;
  RengaCall(RengaCommSumInt64(comm, 3, sums, "sums"));
  Expect(sums[0] >= moved && sums[1] == 0 && (c->cache || sums[2] >= 2 * SAMPLES));
  Expect(sums[0] <= moved + (window / steps + 1) * c->owners * 2 * (WIDTH + 4));
  Expect(RengaCommGetSize(comm) == 1 || window == 0 || sums[0] > 0);
  RengaCall(RengaDataDestroy(&held));
  RengaCall(RengaDataDestroy(&shared));
  return RENGA_SUCCESS;
}

/* Steps in any order, as after an interruption. */
static RengaErrorCode CheckJumps(RengaComm comm, const char *folder)
{
  const Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, folder, 4, 16, 0.5};
  const Case plain = {"held.h5", RENGA_PLACEMENT_SHARED, NULL, 4, 16, 0.5};
  static const int64_t steps[] = {40, 41, 42, 7, 8, 51, 52, 12, 13, 14, 0};
  RengaData shared, held;
  int64_t first[2], last[2];
  RengaCall(MakeSet(comm, &plain, &shared));
  RengaCall(MakeSet(comm, &c, &held));
  ShareOut(comm, c.batch, first, last);
  RengaCall(RengaDataPlace(held, first, last));
  for (int s = 0; s < COUNT_OF(steps); s++)
    RengaCall(CompareStep(comm, shared, held, c.batch, steps[s]));
  RengaCall(RengaDataDestroy(&held));
  RengaCall(RengaDataDestroy(&shared));
  return RENGA_SUCCESS;
}

/* MPI refuses a message of the second epoch's step 5 to rank 0, which goes on: its samples are
   missing, and nothing is taken for them. */
static RengaErrorCode CheckLost(RengaComm comm, const char *folder)
{
  enum { STEPS = 13, LOST = STEPS + 5 };
  const Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, folder, 4, 16, 0.5};
  const Case plain = {"held.h5", RENGA_PLACEMENT_SHARED, NULL, 4, 16, 0.5};
  const bool loses = RengaCommGetRank(comm) == 0 && RengaCommGetSize(comm) > 1;
  RengaData shared, held;
  RengaDataTraffic traffic;
  int64_t first[2], last[2];
  RengaCall(MakeSet(comm, &plain, &shared));
  RengaCall(MakeSet(comm, &c, &held));
  ShareOut(comm, c.batch, first, last);
  RengaCall(RengaDataPlace(held, first, last));
  for (int64_t step = 0; step < HELD_EPOCHS * STEPS; step++) {
    receives_to_fail = loses && step == LOST ? 3 : 0;
    if (loses && step == LOST)
      ExpectError(RengaDataBeginStep(held, step), RENGA_ERR_LIBRARY, "MPI_Irecv");
    else
      RengaCall(RengaDataBeginStep(held, step));
    RengaCall(CompareReads(comm, shared, held, c.batch, step));
  }
  RengaCall(RengaDataGetTraffic(held, &traffic));
  Expect(!loses || traffic.again_samples > 0);
  RengaCall(RengaDataDestroy(&held));
  RengaCall(RengaDataDestroy(&shared));
  return RENGA_SUCCESS;
}

/* Messages that begin need no memory, which one rank alone might lack: others wait for them. */
static RengaErrorCode CheckReserve(RengaComm comm)
{
  const Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, NULL, 4, 16,
                  0.1}; /* step 0 exchanges nothing */
  RengaData data;
  int64_t first[2], last[2];
  RengaCall(MakeSet(comm, &c, &data));
  ShareOut(comm, c.batch, first, last);
  RengaCall(RengaDataPlace(data, first, last));
  RengaCall(RengaDataBeginStep(data, 0));
  for (int64_t step = 1; step < 13; step++) {
    RengaFaultSet(RENGA_FAULT_ALLOCATION, 1);
    RengaCall(RengaDataBeginStep(data, step));
    RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
  }
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode RemoveCache(RengaComm comm)
{
  char path[512];
  RengaCall(RengaCommBarrier(comm, "the cache"));
  DIR *entries = RengaCommGetRank(comm) == 0 ? opendir(cache) : NULL;
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
    unlink(path);
  }
  if (entries) closedir(entries);
  rmdir(cache);
  RengaCall(RengaCommBarrier(comm, "the cache"));
  return RENGA_SUCCESS;
}

/* The code of a set's first step. */
static RengaErrorCode Place(RengaComm comm, const Case *c, RengaDataTraffic *traffic)
{
  RengaData data;
  int64_t first[2], last[2];
  RengaErrorCode code = MakeSet(comm, c, &data);
  ShareOut(comm, c->batch, first, last);
  if (!code) code = RengaDataPlace(data, first, last);
  if (!code) code = RengaDataBeginStep(data, 0);
  if (!code && traffic) code = RengaDataGetTraffic(data, traffic);
  RengaCall(RengaDataDestroy(&data));
  return code;
}

static RengaErrorCode CheckUsedAgain(RengaComm comm)
{
  const Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, cache, 4, 16, 0.5};
  RengaDataTraffic traffic;
  RengaCall(RemoveCache(comm));
  RengaCall(Place(comm, &c, &traffic));
  int64_t loaded = traffic.loaded_samples;
  RengaCall(RengaCommSumInt64(comm, 1, &loaded, "sum"));
  Expect(loaded >= 2 * SAMPLES);
  RengaCall(Place(comm, &c, &traffic));
  Expect(traffic.loaded_samples == 0);
  if (RengaCommGetRank(comm) == 0) unlink("held-cache/owner-0.field-0"); /* is made again */
  RengaCall(Place(comm, &c, &traffic));
  Expect(traffic.loaded_samples == (RengaCommGetRank(comm) == 0 ? 51 : 0));
  return RENGA_SUCCESS;
}

/* A byte of a sample is another: it is read from the set again. */
static RengaErrorCode CheckHealed(RengaComm comm)
{
  const Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, cache, 4, 16, 0};
  const Case plain = {"held.h5", RENGA_PLACEMENT_SHARED, NULL, 4, 16, 0};
  RengaData shared, held;
  RengaDataTraffic traffic;
  int64_t first[2], last[2];
  RengaCall(RemoveCache(comm));
  RengaCall(MakeSet(comm, &plain, &shared));
  RengaCall(MakeSet(comm, &c, &held));
  ShareOut(comm, c.batch, first, last);
  RengaCall(RengaDataPlace(held, first, last));
  RengaCall(CompareStep(comm, shared, held, c.batch, 0));
  FILE *file = RengaCommGetRank(comm) == 0 ? fopen("held-cache/owner-0.field-0", "r+b") : NULL;
  for (int s = 0; file && s < 51; s++) {
    fseek(file, 4096 + 24 * s + 16 + 2, SEEK_SET);
    fputc(255, file);
  }
  if (file) fclose(file);
  for (int64_t step = 1; step < 13; step++)
    RengaCall(CompareStep(comm, shared, held, c.batch, step));
  RengaCall(RengaDataGetTraffic(held, &traffic));
  Expect((traffic.again_samples > 40) == (RengaCommGetRank(comm) == 0));
  RengaCall(RengaDataDestroy(&held));
  RengaCall(RengaDataDestroy(&shared));
  return RENGA_SUCCESS;
}

static void Spoil(RengaComm comm, const char *what)
{
  if (RengaCommGetRank(comm) != 0) return;
  const char *name = "held-cache/owner-0.field-0";
  if (strcmp(what, "short") == 0 && truncate(name, 4500) != 0) perror(name);
  FILE *file = strcmp(what, "text") == 0 ? fopen(name, "w") : NULL;
  if (file) fputs("these are no samples", file);
  if (file) fclose(file);
}

static RengaErrorCode CheckCacheErrors(RengaComm comm)
{
  static const struct {
    const char *spoil, *file, *says;
    int64_t owners;
  } wrong[] = {
      {"", "other.h5", "owner-0.field-0 holds another data set (hash ", 4},
      {"", "held.h5", "owner-0.field-0 holds owner 0 of 4, with 51 samples, not owner 0 of 8", 8},
      {"short", "held.h5", "owner-0.field-0 is damaged: it has 4500 bytes, not ", 4},
      {"text", "held.h5", "owner-0.field-0 is no file of a data cache", 4},
  };
  Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, cache, 4, 16, 0.5};
  RengaCall(RemoveCache(comm));
  RengaCall(Place(comm, &c, NULL));
  for (int w = 0; w < COUNT_OF(wrong); w++) {
    Spoil(comm, wrong[w].spoil);
    RengaCall(RengaCommBarrier(comm, "the file"));
    c.file = wrong[w].file, c.owners = wrong[w].owners;
    ExpectError(Place(comm, &c, NULL), RENGA_ERR_FILE_FORMAT, OnFirst(comm, wrong[w].says));
  }
  RengaCall(RemoveCache(comm));
  RengaFaultSet(RENGA_FAULT_FILE, RengaCommGetRank(comm) == 0);
  ExpectError(Place(comm, &c, NULL), RENGA_ERR_FILE_WRITE,
              OnFirst(comm, "-data_cache held-cache: no room for "), OnFirst(comm, " are free"));
  RengaFaultSet(RENGA_FAULT_FILE, 0);
  c.cache = "held.h5/folder";
  ExpectError(Place(comm, &c, NULL), RENGA_ERR_FILE_WRITE,
              "-data_cache held.h5/folder cannot be made");
  return RENGA_SUCCESS;
}

static RengaErrorCode GetDigest(RengaComm comm, const Case *c, uint64_t *digest)
{
  RengaData data;
  RengaCall(MakeSet(comm, c, &data));
  RengaCall(RengaDataGetDigest(data, digest));
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

/* One sample is corrected in the set's file, none of those that its digest is of. */
static RengaErrorCode CheckCorrected(RengaComm comm)
{
  const Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, cache, 4, 16, 0.5};
  const hsize_t place[] = {100, 0}, one[] = {1, 1};
  const unsigned char value = 255;
  uint64_t before, after;
  RengaCall(RemoveCache(comm));
  RengaCall(Place(comm, &c, NULL));
  RengaCall(GetDigest(comm, &c, &before));
  RengaCall(RengaCommBarrier(comm, "no rank to have the file open"));
  if (RengaCommGetRank(comm) == 0) {
    hid_t file = H5Fopen(c.file, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t x = H5Dopen2(file, "/x", H5P_DEFAULT), in_file = H5Dget_space(x);
    hid_t in_memory = H5Screate_simple(2, one, NULL);
    H5Sselect_hyperslab(in_file, H5S_SELECT_SET, place, NULL, one, NULL);
    H5Dwrite(x, H5T_NATIVE_UCHAR, in_memory, in_file, H5P_DEFAULT, &value);
    H5Sclose(in_memory), H5Sclose(in_file), H5Dclose(x), H5Fclose(file);
  }
  RengaCall(RengaCommBarrier(comm, "the file"));
  RengaCall(GetDigest(comm, &c, &after));
  Expect(before == after);
  ExpectError(Place(comm, &c, NULL), RENGA_ERR_FILE_FORMAT,
              OnFirst(comm, "owner-0.field-0 is of the data set before its files changed"));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckInUse(RengaComm comm)
{
  const Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, cache, 4, 16, 0.5};
  RengaData data;
  int64_t first[2], last[2];
  RengaCall(RemoveCache(comm));
  RengaCall(MakeSet(comm, &c, &data));
  ShareOut(comm, c.batch, first, last);
  RengaCall(RengaDataPlace(data, first, last));
  ExpectError(Place(comm, &c, NULL), RENGA_ERR_FILE_OPEN, "is in use by another run");
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckPlacementErrors(RengaComm comm)
{
  RengaData data;
  const Case synthetic = {"synthetic", RENGA_PLACEMENT_LOCAL, NULL, 4, 16, 0.5};
  const Case none = {"held.h5", RENGA_PLACEMENT_LOCAL, NULL, 0, 16, 0};
  ExpectError(Place(comm, &synthetic, NULL), RENGA_ERR_OPTION,
              OnFirst(comm, "made-up samples lie nowhere"));
  ExpectError(Place(comm, &none, NULL), RENGA_ERR_OPTION,
              OnFirst(comm, "a local placement is for samples that belong to owners"));
  RengaCall(RengaDataCreate(comm, &data));
  ExpectError(RengaDataSetPlacement(data, RENGA_PLACEMENT_SHARED, "c"), RENGA_ERR_ARGUMENT,
              OnFirst(comm, "not 0 with the folder c"));
  RengaPlacement placement;
  const char *folder;
  RengaCall(RengaDataGetPlacement(data, &placement, &folder));
  Expect(placement == RENGA_PLACEMENT_SHARED && !folder);
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

/* Samples so large that those of the next batch are asked for: the values are those of the file. */
static RengaErrorCode CheckLarge(RengaComm comm)
{
  enum { LARGE = 5000, COUNT = 22, BATCH = 4 };
  static const char *const fields[] = {"x"};
  static int64_t x[COUNT * LARGE], read[BATCH * LARGE];
  const RengaTensorSpec spec = Spec(RENGA_INT64, 1, LARGE, 0);
  const hsize_t dims[] = {COUNT, LARGE};
  RengaData data;
  for (int64_t i = 0; i < COUNT * LARGE; i++) x[i] = i;
  if (RengaCommGetRank(comm) == 0) {
    hid_t file = H5Fcreate("other.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    PutArray(file, "/x", H5T_STD_I32BE, H5T_NATIVE_INT64, 2, dims, x);
    H5Fclose(file);
  }
  RengaCall(RengaCommBarrier(comm, "the file"));
  RengaCall(OpenData(comm, "other.h5", 1, fields, &spec, NULL, &data));
  RengaCall(RengaDataSetBatch(data, BATCH));
  for (int64_t step = 0; step < 12; step++) {
    int64_t first, count, epoch, sum = 0;
    RengaCall(RengaDataGetStep(data, RENGA_DATA_TRAINING, BATCH, step, &first, &count, &epoch));
    RengaCall(RengaDataRead(data, RENGA_DATA_TRAINING, 0, epoch, first, count, read));
    for (int64_t i = 0; i < count; i++) sum += read[i * LARGE + LARGE - 1] - read[i * LARGE];
    Expect(sum == count * (LARGE - 1) && read[0] % LARGE == 0);
  }
  RengaCall(RengaDataDestroy(&data));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const double shares[] = {0, 0.1, 0.5, 1};
  static const int64_t owners[] = {1, 2, 3, 8, 32, 64};
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(WriteSet(comm, "held.h5", 1));
  RengaCall(WriteSet(comm, "other.h5", 7));
  for (int o = 0; o < COUNT_OF(owners); o++)
    for (int q = 0; q < COUNT_OF(shares); q++) {
      const int64_t batch = owners[o] * (MOST_BATCH / 2 / owners[o] + (owners[o] > 32));
      const Case c = {"held.h5", RENGA_PLACEMENT_LOCAL, NULL, owners[o], batch, shares[q]};
      RengaCall(CheckCase(comm, &c));
    }
  RengaCall(CheckJumps(comm, NULL));
  RengaCall(CheckLost(comm, NULL));
  RengaCall(CheckReserve(comm));
  RengaCall(RemoveCache(comm));
  RengaCall(CheckJumps(comm, cache));
  const Case filed = {"held.h5", RENGA_PLACEMENT_LOCAL, cache, 4, 16, 0.5};
  RengaCall(CheckCase(comm, &filed));
  RengaCall(CheckUsedAgain(comm));
  RengaCall(CheckHealed(comm));
  RengaCall(CheckCacheErrors(comm));
  RengaCall(CheckInUse(comm));
  RengaCall(CheckCorrected(comm));
  RengaCall(CheckPlacementErrors(comm));
  RengaCall(CheckLarge(comm));
  RengaCall(RemoveCache(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
