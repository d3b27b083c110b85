/* The gradient of a table that is embedding and output layer at once, summed over processes in two
   ways: as rows that all processes gather (each has all rows of the output layer, and one for each
   token, as TensorFlow hands them to Horovod), and as a dense sum. Real ranks first: bytes that a
   rank sends, memory and seconds, beside the formulas; then the formulas for more processes, with
   the rate of adding that was measured and the given rate of a link.

   mpiexec -n 4 test/bench/densify -bench_vocabulary 33945 -bench_hidden 1024 -bench_tokens 9600

   The setting is that of Cavdar et al., Densifying assumed-sparse tensors, ISC 2019. */
#include "../check.h"
#include "renga/private/device.h"
#include "renga/private/sums.h"
#include "rengacomm.h"
#include <string.h>

typedef struct {
  int64_t vocabulary, hidden, tokens;
  double bandwidth;
} Settings;

#define AT(member) offsetof(Settings, member)
static const RengaOptionRow rows[] = {
    {"bench_vocabulary", RENGA_OPTION_INT64, "33945", AT(vocabulary), NULL, 1, 1e9, "rows"},
    {"bench_hidden", RENGA_OPTION_INT64, "256", AT(hidden), NULL, 16, 1e6, "width of a row"},
    {"bench_tokens", RENGA_OPTION_INT64, "9600", AT(tokens), NULL, 1, 1e9, "of a process"},
    {"bench_bandwidth", RENGA_OPTION_REAL, "3.1e9", AT(bandwidth), NULL, 1, 1e15,
     "bytes per second of a process on a cluster (100 Gb/s for 4 processes)"},
};

/* Carries messages by MPI, and counts what is sent. */
typedef struct {
  int count;
  MPI_Request *request;
  int64_t sent;
} Courier;

static RengaErrorCode ReserveCourier(void *user, int count, size_t bytes)
{
  Courier *courier = user;
  (void)bytes;
  if (count <= courier->count) return RENGA_SUCCESS;
  RengaCall(RengaRealloc(count, &courier->request));
  courier->count = count;
  return RENGA_SUCCESS;
}

static RengaErrorCode SendByCourier(void *user, int place, const void *from, size_t bytes, int to,
                                    int tag)
{
  Courier *courier = user;
  courier->sent += (int64_t)bytes;
  Expect(MPI_Isend(from, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &courier->request[place]) ==
         MPI_SUCCESS);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReceiveByCourier(void *user, int place, void *to, size_t room, int from,
                                       int tag)
{
  Courier *courier = user;
  Expect(MPI_Irecv(to, (int)room, MPI_BYTE, from, tag, MPI_COMM_WORLD, &courier->request[place]) ==
         MPI_SUCCESS);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestByCourier(void *user, int place, bool *done, size_t *bytes)
{
  Courier *courier = user;
  MPI_Status status;
  int flag, count;
  Expect(MPI_Test(&courier->request[place], &flag, &status) == MPI_SUCCESS);
  *done = flag;
  if (!flag || !bytes) return RENGA_SUCCESS;
  Expect(MPI_Get_count(&status, MPI_BYTE, &count) == MPI_SUCCESS);
  *bytes = (size_t)count;
  return RENGA_SUCCESS;
}

typedef struct {
  RengaComm comm;
  RengaDevice device;
  Settings settings;
  Courier courier;
  int ranks, rank;
  int64_t positions, slot, table; /* of a process; bytes of a slot; elements of the table */
} Bench;

/* Of one way: bytes that this rank sent, memory beside the gradient, seconds of messages and of
   adding. */
typedef struct {
  int64_t sent, memory;
  double messages, adding;
} Way;

static RengaErrorCode AddVectors(void *user, RengaDataType type, int64_t count, void *y,
                                 const void *x)
{
  Bench *bench = user;
  RengaCall(RengaDeviceAdd(bench->device, NULL, type, count, y, x));
  return RENGA_SUCCESS;
}

static RengaCommSumTask TaskOf(Bench *bench, RengaBlocks blocks, void *result)
{
  return (RengaCommSumTask){.blocks = blocks,
                            .type = RENGA_FLOAT32,
                            .result = result,
                            .adder = {.begin = AddVectors, .user = bench},
                            .carrier = {.reserve = ReserveCourier,
                                        .send = SendByCourier,
                                        .receive = ReceiveByCourier,
                                        .test = TestByCourier,
                                        .user = &bench->courier}};
}

/* A row for each of the output layer, and one for each token, somewhere. */
static void FillSlot(const Bench *bench, char *slot)
{
  float *gradients = (float *)(void *)slot;
  int64_t *numbers = (int64_t *)(void *)(slot + bench->positions * bench->settings.hidden * 4);
  for (int64_t i = 0; i < bench->positions * bench->settings.hidden; i++) gradients[i] = 1;
  for (int64_t i = 0; i < bench->positions; i++)
    numbers[i] = i < bench->settings.vocabulary
                     ? i
                     : (i * 7919 + bench->rank * 104729) % bench->settings.vocabulary;
}

static RengaErrorCode WaitFor(Bench *bench, RengaErrorCode code, RengaCommSum *sum, Way *way,
                              double begin)
{
  bool whole;
  RengaCall(code);
  RengaCall(RengaCommSumEnd(sum, "the sum of the bench", &whole));
  Expect(whole);
  way->messages = MPI_Wtime() - begin;
  way->sent = bench->courier.sent;
  bench->courier.sent = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode GatherSlots(Bench *bench, char *slots, Way *way)
{
  RengaBlocks blocks;
  RengaCommSum sum;
  int64_t *bounds;
  RengaCall(RengaMalloc(bench->ranks + 1, &bounds));
  for (int r = 0; r <= bench->ranks; r++) bounds[r] = r * bench->slot / 4;
  RengaCall(RengaBlocksCreate(bench->ranks, bench->ranks, bounds, &blocks));
  RengaCall(RengaBlocksSetBounds(blocks, bounds));
  const RengaCommSumTask task = TaskOf(bench, blocks, slots);
  RengaCall(RengaCommBarrier(bench->comm, "the gather"));
  const double begin = MPI_Wtime();
  RengaCall(WaitFor(bench, RengaCommAllGatherBegin(bench->comm, &task, &sum), &sum, way, begin));
  RengaCall(RengaBlocksDestroy(&blocks));
  RengaFree(&bounds);
  return RENGA_SUCCESS;
}

/* table: [vocabulary][hidden] gets the sum of all rows. */
static RengaErrorCode AddSlots(Bench *bench, const char *slots, int ranks, float table[],
                               int64_t index[], uint64_t work[], double *seconds)
{
  int64_t count = 0;
  double square;
  const RengaRowsTask task = {.slot = slots,
                              .stride = bench->slot,
                              .numbers = bench->positions * bench->settings.hidden * 4,
                              .slots = ranks,
                              .rows = bench->positions,
                              .last_rows = bench->positions,
                              .leaf = 1,
                              .width = bench->settings.hidden,
                              .length = bench->settings.vocabulary,
                              .padding = -1,
                              .wide = true,
                              .index = index,
                              .count = &count,
                              .sum = table,
                              .work = work};
  const double begin = MPI_Wtime();
  RengaCall(RengaDeviceSumRows_Private(bench->device, NULL, &task, &square));
  *seconds = MPI_Wtime() - begin;
  Expect(count == bench->settings.vocabulary);
  return RENGA_SUCCESS;
}

/* table: [vocabulary][hidden] */
static RengaErrorCode SumGathered(Bench *bench, float table[], Way *way)
{
  const int64_t all = bench->ranks * bench->positions;
  char *slots;
  int64_t *index;
  uint64_t *work;
  RengaCall(RengaMalloc(bench->ranks * bench->slot, &slots));
  RengaCall(RengaMalloc(all, &index));
  RengaCall(RengaMalloc(2 * all, &work));
  FillSlot(bench, slots + bench->rank * bench->slot);
  RengaCall(GatherSlots(bench, slots, way));
  RengaCall(AddSlots(bench, slots, bench->ranks, table, index, work, &way->adding));
  way->memory = bench->ranks * bench->slot;
  RengaFree(&slots);
  RengaFree(&index);
  RengaFree(&work);
  return RENGA_SUCCESS;
}

static RengaErrorCode SumTables(Bench *bench, float table[], Way *way)
{
  const int64_t begin_of[2] = {0, bench->table};
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  RengaBlocks blocks;
  RengaCommSum sum;
  int64_t *leaves;
  char *work;
  RengaCall(RengaMalloc(bench->ranks + 1, &leaves));
  for (int r = 0; r <= bench->ranks; r++) leaves[r] = r;
  RengaCall(RengaBlocksCreate(bench->ranks, 1, begin_of, &blocks));
  RengaCommSumTask task = TaskOf(bench, blocks, table);
  task.work_bytes =
      RengaCommTreeWork(bench->ranks, bench->ranks, leaves, RENGA_FLOAT32, bench->table);
  RengaCall(RengaMalloc((int64_t)task.work_bytes + 64, &work));
  task.work = work + (64 - (uintptr_t)work % 64) % 64;
  task.n_leaves = bench->ranks;
  task.leaves = leaves;
  task.pieces = piece;
  Expect(RengaCommTreePieces(bench->ranks, bench->rank, bench->rank + 1, piece) == 1);
  piece[0].data = table;
  RengaCall(RengaCommBarrier(bench->comm, "the sum"));
  const double begin = MPI_Wtime();
  RengaCall(WaitFor(bench, RengaCommSumBegin(bench->comm, &task, &sum), &sum, way, begin));
  way->memory = (int64_t)task.work_bytes;
  RengaCall(RengaBlocksDestroy(&blocks));
  RengaFree(&work);
  RengaFree(&leaves);
  return RENGA_SUCCESS;
}

/* A process adds its own rows up, then all add up tables. */
static RengaErrorCode SumDense(Bench *bench, float table[], Way *way)
{
  char *slot;
  int64_t *index;
  uint64_t *work;
  double adding;
  RengaCall(RengaMalloc(bench->slot, &slot));
  RengaCall(RengaMalloc(bench->positions, &index));
  RengaCall(RengaMalloc(2 * bench->positions, &work));
  FillSlot(bench, slot);
  RengaCall(AddSlots(bench, slot, 1, table, index, work, &adding));
  RengaFree(&slot);
  RengaFree(&index);
  RengaFree(&work);
  RengaCall(SumTables(bench, table, way));
  way->adding = adding;
  return RENGA_SUCCESS;
}

static void PrintWay(const Bench *bench, const char *name, const Way *way, double formula)
{
  if (bench->rank > 0) return;
  printf("%d processes, %s: rank 0 sends %lld bytes (formula %.0f), memory %.1f MB, messages %.3f "
         "s, adding %.3f s\n",
         bench->ranks, name, (long long)way->sent, formula, 1e-6 * (double)way->memory,
         way->messages, way->adding);
}

/* rate: bytes of rows that are added in a second. */
static void PrintModel(const Bench *bench, double rate)
{
  static const int processes[] = {8, 16, 32, 64, 128, 256, 512, 1200};
  const double link = bench->settings.bandwidth, table = 4.0 * (double)bench->table;
  const double local = (double)bench->slot / rate;
  if (bench->rank > 0) return;
  printf("| processes | gathered MB | dense MB | memory ratio | gather s | dense s | time ratio |\n"
         "|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < sizeof processes / sizeof processes[0]; i++) {
    const double p = processes[i], slot = (double)bench->slot;
    const double gather = (p - 1) * slot / link + p * slot / rate;
    const double dense = 2 * (p - 1) / p * table / link + table / rate + local;
    printf("| %.0f | %.0f | %.0f | %.0f | %.3f | %.3f | %.1f |\n", p, 1e-6 * p * slot, 1e-6 * table,
           p * slot / table, gather, dense, gather / dense);
  }
}

static RengaErrorCode RunBench(void)
{
  Bench bench = {0};
  Way gather = {0}, dense = {0};
  float *table, *other;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &bench.comm));
  RengaCall(RengaOptionsSetDefaults(sizeof rows / sizeof *rows, rows, &bench.settings));
  RengaCall(RengaOptionsSetFromDatabase(NULL, sizeof rows / sizeof *rows, rows, &bench.settings));
  bench.ranks = RengaCommGetSize(bench.comm);
  bench.rank = RengaCommGetRank(bench.comm);
  bench.positions = bench.settings.vocabulary + bench.settings.tokens;
  bench.slot = (bench.positions * (bench.settings.hidden * 4 + 8) + 63) / 64 * 64;
  bench.table = bench.settings.vocabulary * bench.settings.hidden;
  RengaCall(RengaDeviceCreate(bench.comm, &bench.device));
  RengaCall(RengaDeviceSetType(bench.device, "cpu"));
  RengaCall(RengaDeviceSetThreads(bench.device, 1));
  RengaCall(RengaDeviceSetUp(bench.device));
  RengaCall(RengaMalloc(bench.ranks * bench.positions * bench.settings.hidden, &table));
  RengaCall(RengaMalloc(bench.positions * bench.settings.hidden, &other));
  RengaCall(SumGathered(&bench, table, &gather));
  RengaCall(SumDense(&bench, other, &dense));
  Expect(memcmp(table, other, (size_t)bench.table * sizeof *table) == 0);
  PrintWay(&bench, "gather", &gather, (double)(bench.ranks - 1) * (double)bench.slot);
  PrintWay(&bench, "dense", &dense,
           2.0 * (bench.ranks - 1) / bench.ranks * 4.0 * (double)bench.table);
  PrintModel(&bench, (double)bench.ranks * (double)bench.slot / gather.adding);
  RengaFree(&table);
  RengaFree(&other);
  RengaFree(&bench.courier.request);
  RengaCall(RengaDeviceDestroy(&bench.device));
  RengaCall(RengaCommDestroy(&bench.comm));
  return RENGA_SUCCESS;
}

int main(int argc, char *argv[])
{
  RengaCallAbort(RengaOptionsRegister("Bench", sizeof rows / sizeof *rows, rows));
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RunBench());
  RengaCallAbort(RengaFinalize());
  return 0;
}
