/* Where the time of a training step goes on a device, and what of it the machine would not
   need: each distinct call of the reference networks, timed as a measured profile does, beside the
   machine's ceiling in the same minutes. The ceiling is the best product of any library, or a copy
   of as many bytes, as cold or warm, whichever takes longer. Sorted by the time that is lost.

   kernels [NETWORK ...] -device_threads 1 [-precision bf16] [-device_isa avx2]
   kernels [NETWORK ...] -device_type cuda [-precision bf16]

   On a GPU the ceilings are its own: a product of 8192 cubed in the precision, a sum of vectors.

   The libraries choose their instructions themselves: DNNL_MAX_CPU_ISA=AVX2 and
   OPENBLAS_CORETYPE=Haswell hold them to AVX2. */
#include "../../src/profile/profileimpl.h"
#include "ceilings.h"
#include "renga/private/kernel.h"
#include "renga/private/op.h"
#include "rengadevice.h"
#include "rengagraph.h"
#include "rengaoptimizer.h"
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name, *graph;
  int64_t samples;
  bool large; /* for GPUs; the others are for the host */
} networks[] = {
    {"gpt", "gpt:layers=12,hidden=768,heads=12,sequence=256,vocabulary=50257", 4, false},
    {"bert", "bert:sequence=128", 4, false},
    {"resnet", "resnet:depth=50,image=64,classes=1000", 16, false},
    {"resnet_224", "resnet:depth=50,image=224,classes=1000", 4, false},
    {"mlp", "mlp:sizes=784-2048-2048-2048-2048-2048-2048-2048-2048-10", 128, false},
    {"transformer", "transformer:sequence=64,vocabulary=32000", 4, false},
    {"ncf", "ncf:users=6040,items=3706", 1024, false},
    {"gpt2_124m", "gpt:layers=12,hidden=768,heads=12,sequence=1024,vocabulary=50304", 16, true},
    {"bert_large", "bert:layers=24,hidden=1024,heads=16,sequence=512", 16, true},
    {"resnet50", "resnet:depth=50,image=224,classes=1000", 64, true},
};
enum { N_NETWORKS = sizeof networks / sizeof *networks, ROUNDS = 2, SIZES = 13 };
static const double LONG = 0.1; /* seconds of a call that is timed less often */

typedef struct {
  char name[120];
  int count; /* in a step */
  bool matrix;
  double seconds, flops, bytes, ceiling;
  BenchBest best; /* of a product of the call's shape; 1e30: it is none */
} Row;

typedef struct {
  RengaDevice device;
  bool host;
  int threads, n_rows;
  Row *row;
  double peak[2];     /* flop/s of one thread, of float32 and of bfloat16 */
  double copy[SIZES]; /* bytes per second where 2^(i + 15) come again */
} Table;

/* Some other work on the machine makes everything slower for a while: the best of the run. */
static RengaErrorCode RaisePeaks(Table *table, bool low)
{
  if (!table->host) return RENGA_SUCCESS; /* known at the start, and nothing else is on it */
  const BenchProduct reference = {.m = 1024, .n = 1024, .k = 1024};
  for (int l = 0; l <= low; l++) {
    BenchBest best;
    RengaCall(BenchTimeProduct(&reference, l, ROUNDS, &best));
    const double rate = 2.0 * 1024 * 1024 * 1024 / best.seconds;
    if (rate > table->peak[l]) table->peak[l] = rate;
  }
  if (!low) table->peak[1] = table->peak[0];
  for (int i = 0; i < SIZES; i++) {
    const double rate = BenchCopyRate((int64_t)1 << (i + 15));
    if (rate > table->copy[i]) table->copy[i] = rate;
  }
  return RENGA_SUCCESS;
}

static double CopySeconds(const Table *table, double bytes)
{
  int i = table->host ? 0 : SIZES - 1;
  while (i + 1 < SIZES && (double)(1 << (i + 15)) < bytes) i++;
  return bytes / table->copy[i] / table->threads;
}

/* Bytes of the call's tensors that come from memory, and of those that a cache has. */
static void CountBytes(const ProfileCall *call, int64_t cold, double bytes[2])
{
  const RengaOpCall op = RengaProfileOpCall_Private(call);
  double all = 0;
  bytes[0] = bytes[1] = 0;
  for (int i = 0; i < op.n_in + op.n_out; i++) {
    const double here = (double)RengaTensorSpecBytes(&call->spec[i]);
    all += here;
    bytes[i < 32 && call->warm >> i & 1] += here;
  }
  if (all > 0 && RengaProfileBytes_Private(&op) < all) /* of a table only what is read */
    bytes[0] -= bytes[0] < all - RengaProfileBytes_Private(&op)
                    ? bytes[0]
                    : all - RengaProfileBytes_Private(&op);
  if ((double)cold < bytes[0]) bytes[0] = (double)cold;
}

/* A product that one call of a library can make; halved until it takes less than a tenth of a
   second. */
static bool FindProduct(const RengaOpCall *op, BenchProduct *s)
{
  const RengaTensorSpec *x = &op->in[0], *y = &op->out[0];
  const bool trans = RengaAttributesInt(op->attributes, "transB", 0) != 0;
  const int64_t rows = RengaOpProduct(x, 0, x->ndim - 1), in = x->dim[x->ndim - 1];
  const int64_t out = y->dim[y->ndim - 1];
  if (strcmp(op->op->name, "Linear") == 0)
    *s = (BenchProduct){.trans_b = trans, .m = rows, .n = out, .k = in};
  else if (strcmp(op->op->name, "LinearGradInput") == 0)
    *s = (BenchProduct){.trans_b = !trans, .m = rows, .n = out, .k = in};
  else if (strcmp(op->op->name, "LinearGradWeight") == 0)
    *s = (BenchProduct){.trans_a = true, .m = y->dim[0], .n = y->dim[1], .k = rows};
  else
    return false;
  while (s->m * s->n * s->k > (int64_t)1 << 31) {
    int64_t *largest = s->m > s->n ? &s->m : &s->n;
    if (s->k > *largest) largest = &s->k;
    *largest /= 2;
  }
  return s->m > 0 && s->n > 0 && s->k > 0;
}

static RengaErrorCode FindLibrary(const RengaOpCall *op, bool low, BenchBest *best, double *flops)
{
  BenchProduct shape;
  *best = (BenchBest){"", 1e30};
  if (!FindProduct(op, &shape)) return RENGA_SUCCESS;
  RengaCall(BenchTimeProduct(&shape, low, 1, best));
  *flops = 2.0 * (double)shape.m * (double)shape.n * (double)shape.k;
  return RENGA_SUCCESS;
}

static double FlopsOf(const RengaOpCall *op)
{
  const bool causal = RengaAttributesInt(op->attributes, "causal", 0) != 0;
  return RengaOperatorFlops(op) / (causal ? 2 : 1); /* half the scores are none */
}

/* bench has tensors as cold as in a step. */
static RengaErrorCode TimeRow(Table *table, ProfileBench *bench, const ProfileCall *call, Row *row)
{
  const RengaOpCall op = RengaProfileOpCall_Private(call);
  const bool low =
      op.in[0].type == RENGA_BFLOAT16 && op.n_in > 1 && op.in[1].type == RENGA_BFLOAT16;
  double bytes[2], product = 0;
  char *end;
  RengaProfileCallText_Private(call, sizeof row->name, row->name);
  if ((end = strrchr(row->name, '#')) != NULL) *end = '\0';
  row->seconds = 1e30;
  row->matrix = RengaProfileIsMatrix_Private(&op);
  row->flops = FlopsOf(&op);
  CountBytes(call, bench->cold, bytes);
  for (int round = 0; round < ROUNDS; round++) {
    double seconds;
    RengaCall(RengaProfileTimeCall_Private(bench, call, &seconds));
    if (seconds < row->seconds) row->seconds = seconds;
    if (seconds > LONG) break;
  }
  row->best.seconds = 1e30;
  if (table->host) RengaCall(FindLibrary(&op, low, &row->best, &product));
  if (product > 0) row->best.seconds *= row->flops / product / table->threads;
  row->bytes = bytes[0] + bytes[1];
  row->ceiling = CopySeconds(table, (double)bench->cold) * bytes[0] / (double)bench->cold +
                 CopySeconds(table, bytes[1]);
  const double least = row->flops / table->peak[low] / table->threads;
  if (row->matrix && least > row->ceiling) row->ceiling = least;
  return RENGA_SUCCESS;
}

typedef enum { VECTOR_ADAM, VECTOR_NORM, VECTOR_ADD, N_VECTOR_ROWS } VectorRow;

static RengaErrorCode RunVector(RengaDevice device, VectorRow kind, int64_t count, float *x[4],
                                double squares[])
{
  const RengaAdamStep adam = {1e-3, 0.9, 0.999, 1e-8, true, 3};
  const RengaParameterUpdate update = {
      .parameter = {x[0], RENGA_FLOAT32, count},
      .gradient = {x[1], RENGA_FLOAT32, count},
      .moment = {{x[2], RENGA_FLOAT32, count}, {x[3], RENGA_FLOAT32, count}},
      .rate_scale = 1,
      .weight_decay = 0.1};
  if (kind == VECTOR_ADAM)
    RengaCall(RengaDeviceUpdateAdam(device, NULL, &adam, 1, 1, &update));
  else if (kind == VECTOR_NORM)
    RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, &update.gradient, squares));
  else
    RengaCall(RengaDeviceAdd(device, NULL, RENGA_FLOAT32, count, x[0], x[1]));
  return RENGA_SUCCESS;
}

/* All parameters, as many of them at a time as a large network has from memory. */
static RengaErrorCode TimeVector(Table *table, const ProfileBench *bench, VectorRow kind,
                                 int64_t parameters, float *x[4], double squares[])
{
  enum { MOST = 1 << 24 };
  static const char *const names[] = {"update by Adam", "norm of gradients, where clipped",
                                      "add gradients, of a further micro-batch"};
  static const int moved[] = {28, 4, 12};
  const int64_t count = parameters < MOST ? parameters : MOST;
  Row *row = &table->row[table->n_rows++];
  *row = (Row){.count = 1, .seconds = 1e30, .best = {"", 1e30}};
  snprintf(row->name, sizeof row->name, "%s", names[kind]);
  for (int round = 0; round < 3; round++) {
    const double start = RengaProfileClock_Private(bench);
    RengaCall(RunVector(table->device, kind, count, x, squares));
    RengaCall(RengaStreamSynchronize(table->device, NULL));
    const double spent = RengaProfileClock_Private(bench) - start;
    if (round > 0 && spent < row->seconds) row->seconds = spent;
  }
  row->bytes = moved[kind] * (double)parameters;
  row->ceiling = CopySeconds(table, moved[kind] * (double)count);
  row->seconds *= (double)parameters / (double)count;
  row->ceiling *= (double)parameters / (double)count;
  return RENGA_SUCCESS;
}

static RengaErrorCode TimeVectors(Table *table, int64_t parameters)
{
  ProfileBench bench;
  float *x[4] = {NULL};
  double *squares = NULL;
  RengaCall(RengaProfileBenchCreate_Private(table->device, 0, &bench));
  RengaCall(RengaMalloc(parameters / RENGA_VECTOR_PIECE + 1, &squares));
  for (int i = 0; i < 4; i++)
    RengaCall(RengaDeviceMalloc(table->device, (size_t)parameters * sizeof(float), &x[i]));
  for (int i = 0; i < 4; i++)
    RengaCall(
        RengaDeviceSetBytes(table->device, NULL, x[i], 0, (size_t)parameters * sizeof(float)));
  for (int k = 0; k < N_VECTOR_ROWS; k++)
    RengaCall(TimeVector(table, &bench, (VectorRow)k, parameters, x, squares));
  for (int i = 0; i < 4; i++) RengaCall(RengaDeviceFree(table->device, &x[i]));
  RengaFree(&squares);
  return RENGA_SUCCESS;
}

static double LostBy(const Row *row)
{
  return row->count * (row->seconds - row->ceiling);
}

static int CompareRows(const void *a, const void *b)
{
  const double x = LostBy(a), y = LostBy(b);
  return (x < y) - (x > y);
}

static void PrintTable(Table *table, const char *network)
{
  double step = 0;
  for (int r = 0; r < table->n_rows; r++) step += table->row[r].count * table->row[r].seconds;
  qsort(table->row, (size_t)table->n_rows, sizeof *table->row, CompareRows);
  RengaPrintf(MPI_COMM_WORLD,
              "\n%s: %.1f ms; peak %.1f GFLOP/s%s, copies from memory %.1f GB/s\n"
              "  lost%% share%% step%%       ms   n  GFLOP/s   GB/s library%%  call\n",
              network, 1e3 * step, 1e-9 * table->peak[0],
              table->peak[1] > table->peak[0] ? " (bf16 more)" : "", 1e-9 * table->copy[SIZES - 1]);
  for (int r = 0; r < table->n_rows; r++) {
    const Row *row = &table->row[r];
    const double share = row->ceiling / row->seconds;
    char library[40] = "";
    if (row->best.seconds < 1e30)
      snprintf(library, sizeof library, "%.0f %s", 100 * row->best.seconds / row->seconds,
               row->best.library);
    RengaPrintf(MPI_COMM_WORLD, "  %5.2f %6.0f %5.1f %8.3f %3d %8.1f %6.1f %-20s %s\n",
                100 * LostBy(row) / step, 100 * share, 100 * row->count * row->seconds / step,
                1e3 * row->seconds, row->count, row->matrix ? 1e-9 * row->flops / row->seconds : 0,
                1e-9 * row->bytes / row->seconds, library, row->name);
  }
}

/* The calls of a step of one micro-batch, each with how often it comes. */
static RengaErrorCode TimeCalls(Table *table, RengaProfile profile, int64_t samples)
{
  ProfileBench bench;
  RengaPrecision precision;
  const int n_nodes = RengaGraphGetNodeCount(profile->whole);
  RengaCall(RengaMalloc(n_nodes + 1, &profile->number));
  RengaCall(RengaProfileFindCalls_Private(profile, samples, profile->number));
  RengaCall(RengaMalloc(profile->n_calls + N_VECTOR_ROWS, &table->row));
  RengaCall(RengaGraphGetPrecision(profile->graph, &precision));
  RengaCall(RengaProfileBenchCreate_Private(
      table->device, RengaProfileColdBytes_Private(profile, samples), &bench));
  for (int c = 0; c < profile->n_calls; c++) {
    Row *row = &table->row[table->n_rows++];
    *row = (Row){.count = 0};
    for (int n = 0; n < n_nodes; n++) row->count += profile->number[n] == c;
    if (c % 16 == 0) RengaCall(RaisePeaks(table, precision == RENGA_PRECISION_BF16));
    RengaCall(TimeRow(table, &bench, &profile->call[c], row));
  }
  RengaCall(RengaProfileBenchFree_Private(&bench));
  return RENGA_SUCCESS;
}

static RengaErrorCode TimeNetwork(RengaComm comm, Table *table, const char *text, int64_t samples)
{
  RengaGraph graph = NULL;
  RengaProfile profile = NULL;
  RengaGraphTotals totals;
  RengaFree(&table->row);
  table->n_rows = 0;
  RengaCall(RengaOptionsSetValue("graph", text));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetFromOptions(graph));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphGetTotals(graph, &totals));
  RengaCall(RengaProfileCreate(comm, &profile));
  RengaCall(RengaProfileSetGraph(profile, graph));
  RengaCall(RengaProfileDifferentiate_Private(profile));
  RengaCall(TimeCalls(table, profile, samples));
  RengaCall(TimeVectors(table, totals.parameters));
  RengaCall(RengaProfileDestroy(&profile));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Of a device that is no host, by what it does itself: its best product of a layer whose sides are
   equal, and the sum of two vectors that no cache holds. RENGA_BENCH_WIDTH: of the sides, for
   emulated devices. */
static RengaErrorCode FindCeilings(RengaComm comm, Table *table)
{
  const char *width = getenv("RENGA_BENCH_WIDTH");
  const int side = width ? atoi(width) : 8192;
  char text[80];
  table->peak[0] = table->peak[1] = table->copy[SIZES - 1] = 1;
  snprintf(text, sizeof text, "mlp:sizes=%d-%d-%d", side, side, side);
  RengaCall(TimeNetwork(comm, table, text, side));
  for (int r = 0; r < table->n_rows; r++) {
    const Row *row = &table->row[r];
    const double flops = row->flops / row->seconds, bytes = row->bytes / row->seconds;
    if (row->matrix && flops > table->peak[0]) table->peak[0] = table->peak[1] = flops;
    if (r == table->n_rows - N_VECTOR_ROWS + VECTOR_ADD) table->copy[SIZES - 1] = bytes;
  }
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "ceilings: %.1f TFLOP/s (%d cubed), %.2f TB/s\n",
                        1e-12 * table->peak[0], side, 1e-12 * table->copy[SIZES - 1]));
  return RENGA_SUCCESS;
}

/* Those that are named; else those for the kind of device. */
static bool IsWanted(int n, bool host, int argc, char **argv)
{
  bool named = false, wanted = false;
  for (int a = 1; a < argc && argv[a][0] != '-'; a++) {
    named = true;
    wanted = wanted || strcmp(argv[a], networks[n].name) == 0;
  }
  return named ? wanted : networks[n].large != host;
}

static RengaErrorCode RunNetworks(int argc, char **argv)
{
  RengaComm comm = NULL;
  Table table = {0};
  char text[512];
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &table.device));
  RengaCall(RengaDeviceSetFromOptions(table.device));
  RengaCall(RengaDeviceSetUp(table.device));
  RengaCall(RengaDeviceDescribe(table.device, sizeof text, text));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "%s\n", text));
  table.host = RengaDeviceIsHost(table.device);
  RengaCall(RengaDeviceGetThreads(table.device, &table.threads));
  if (!table.host) table.threads = 1;
  if (table.host)
    BenchPrintLibraries();
  else
    RengaCall(FindCeilings(comm, &table));
  for (int n = 0; n < N_NETWORKS; n++) {
    if (!IsWanted(n, table.host, argc, argv)) continue;
    RengaCall(TimeNetwork(comm, &table, networks[n].graph, networks[n].samples));
    PrintTable(&table, networks[n].graph);
  }
  RengaFree(&table.row);
  RengaCall(RengaDeviceDestroy(&table.device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, "Shares of the kernels: kernels [NETWORK ...]\n"));
  RengaCallAbort(RunNetworks(argc, argv));
  RengaCallAbort(RengaFinalize());
  return 0;
}
