/* TEST ranks: 1 */
/* Flat vectors: the cpu device against the ref one, and the same bits for 1, 2 and 3 threads. */
#include "../check.h"
#include "renga/private/kernel.h"
#include "renga/private/op.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include <math.h>
#include <string.h>

enum { COUNT = 70001, THREADS = 3, VECTORS = 4 };
typedef RengaErrorCode (*Action)(RengaDevice device, int variant, int64_t count, float *const x[],
                                 double *sum);

static RengaParameterUpdate UpdateOf(float *const x[], int64_t count, double weight_decay,
                                     int moments)
{
  RengaParameterUpdate update = {.parameter = {x[0], RENGA_FLOAT32, count},
                                 .gradient = {x[1], RENGA_FLOAT32, count},
                                 .rate_scale = 0.5,
                                 .weight_decay = weight_decay};
  for (int m = 0; m < moments; m++)
    update.moment[m] = (RengaVector){x[2 + m], RENGA_FLOAT32, count};
  return update;
}

/* The numbers of all pieces, added up. */
static RengaErrorCode Square(RengaDevice device, const RengaVector *vector, double *sum)
{
  double squares[COUNT / RENGA_VECTOR_PIECE + 1];
  *sum = 0;
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, vector, squares));
  for (int64_t p = 0; p < RengaVectorPieces(vector->count); p++) *sum += squares[p];
  return RENGA_SUCCESS;
}

static RengaErrorCode Add(RengaDevice device, int variant, int64_t count, float *const x[],
                          double *sum)
{
  (void)variant;
  const RengaVector vector = {x[0], RENGA_FLOAT32, count};
  RengaCall(RengaDeviceAdd(device, NULL, RENGA_FLOAT32, count, x[0], x[1]));
  RengaCall(Square(device, &vector, sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode Sgd(RengaDevice device, int variant, int64_t count, float *const x[],
                          double *sum)
{
  (void)sum;
  static const RengaSgdStep steps[] = {{0.2, 0, 0, false, false},
                                       {0.2, 0, 0, false, false},
                                       {0.2, 0.9, 0, false, true},
                                       {0.2, 0.9, 0.3, false, false},
                                       {0.2, 0.9, 0, true, false}};
  static const double decays[] = {0, 0.01, 0.01, 0, 0.01};
  const RengaSgdStep *step = &steps[variant % 5];
  const RengaParameterUpdate update = UpdateOf(x, count, decays[variant % 5], step->momentum > 0);
  RengaCall(RengaDeviceUpdateSgd(device, NULL, step, 0.5, 1, &update));
  return RENGA_SUCCESS;
}

static RengaErrorCode Adam(RengaDevice device, int variant, int64_t count, float *const x[],
                           double *sum)
{
  (void)sum;
  const RengaAdamStep step = {0.02, 0.9, 0.999, 1e-8, variant / 2 % 2 == 1, 1 + variant};
  const RengaParameterUpdate update = UpdateOf(x, count, variant % 2 ? 0.1 : 0, 2);
  RengaCall(RengaDeviceUpdateAdam(device, NULL, &step, 0.5, 1, &update));
  return RENGA_SUCCESS;
}

static RengaErrorCode Start(float *const x[])
{
  for (int v = 0; v < VECTORS; v++) {
    RengaRandomUniform(3, (uint64_t)v, 0, COUNT, x[v]);
    for (int i = 0; i < COUNT && v < 2; i++) x[v][i] -= 0.5f; /* moments stay positive */
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckAction(const RengaDevice device[], Action action, int variant,
                                  int64_t count, float *const expected[], float *const got[],
                                  float *const first[])
{
  double sum[2] = {0, 0}, first_sum = 0;
  RengaCall(Start(expected));
  RengaCall(action(device[0], variant, count, expected, &sum[0]));
  for (int t = 1; t <= THREADS; t++) {
    RengaCall(Start(got));
    RengaCall(action(device[t], variant, count, got, &sum[1]));
    if (t == 1) first_sum = sum[1];
    Expect(sum[1] == first_sum && fabs(sum[0] - sum[1]) <= 1e-12 * fabs(sum[0]));
    for (int v = 0; v < VECTORS; v++) {
      for (int i = 0; i < COUNT; i++)
        RengaCheck(fabs((double)got[v][i] - expected[v][i]) <= 2e-6, MPI_COMM_SELF,
                   RENGA_ERR_INTERNAL, "variant %d, vector %d, element %d is %.9g, not %.9g",
                   variant, v, i, (double)got[v][i], (double)expected[v][i]);
      if (t == 1) memcpy(first[v], got[v], COUNT * sizeof(float));
      Expect(memcmp(first[v], got[v], COUNT * sizeof(float)) == 0);
    }
  }
  return RENGA_SUCCESS;
}

/* Vectors of a table: the bits of each are those of a call of its own, for any number of threads,
   whatever else is in the table. */
static RengaErrorCode CheckTable(RengaDevice one, RengaDevice device, float *const alone[],
                                 float *const together[])
{
  enum { ROWS = 40 };
  const RengaAdamStep adam = {0.02, 0.9, 0.999, 1e-8, true, 3};
  RengaParameterUpdate update[ROWS];
  RengaVector vector[ROWS];
  double square[2 * ROWS], own[2];
  int64_t at = 0, piece = 0;
  RengaCall(Start(alone));
  RengaCall(Start(together));
  for (int k = 0; k < ROWS; k++) {
    const int64_t count = k % 13 == 5 ? 21001 : (int64_t)k * 17 % 400; /* 0 too */
    float *here[VECTORS], *there[VECTORS];
    for (int v = 0; v < VECTORS; v++) here[v] = alone[v] + at, there[v] = together[v] + at;
    const RengaParameterUpdate single = UpdateOf(here, count, 0.1 * k, 2);
    update[k] = UpdateOf(there, count, 0.1 * k, 2);
    vector[k] = update[k].gradient;
    RengaCall(RengaDeviceUpdateAdam(one, NULL, &adam, 0.5, 1, &single));
    at += count;
    Expect(at <= COUNT);
  }
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, ROWS, vector, square));
  RengaCall(RengaDeviceUpdateAdam(device, NULL, &adam, 0.5, ROWS, update));
  RengaCall(RengaStreamSynchronize(device, NULL));
  for (int v = 0; v < VECTORS; v++)
    Expect(memcmp(alone[v], together[v], COUNT * sizeof(float)) == 0);
  for (int k = 0; k < ROWS; k++) {
    const int64_t pieces = RengaVectorPieces(vector[k].count);
    RengaCall(RengaDeviceSumsOfSquares(one, NULL, 1, &vector[k], own));
    for (int64_t p = 0; p < pieces; p++) Expect(own[p] == square[piece + p]);
    piece += pieces;
  }
  return RENGA_SUCCESS;
}

/* Whoever owns whole pieces of a vector finds the bits that they have in it, and what stands behind
   the numbers of a table stays as it is. */
static RengaErrorCode CheckPieces(RengaDevice device, float x[])
{
  enum { PIECES = COUNT / RENGA_VECTOR_PIECE + 1 };
  const RengaVector whole = {x, RENGA_FLOAT32, COUNT};
  double all[PIECES + 1] = {[PIECES] = -1};
  Expect(RengaVectorPieces(COUNT) == PIECES && RengaVectorPieces(0) == 0);
  Expect(RengaVectorPieces(RENGA_VECTOR_PIECE) == 1);
  RengaCall(Start((float *[VECTORS]){x, x, x, x}));
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, &whole, all));
  Expect(all[PIECES] == -1 && all[0] != all[1]);
  for (int first = 0; first < PIECES; first++)
    for (int last = first + 1; last <= PIECES; last++) {
      const int64_t begin = (int64_t)first * RENGA_VECTOR_PIECE,
                    end = last < PIECES ? (int64_t)last * RENGA_VECTOR_PIECE : COUNT;
      const RengaVector part = {x + begin, RENGA_FLOAT32, end - begin};
      double squares[PIECES];
      RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, &part, squares));
      Expect(memcmp(squares, all + first, (size_t)(last - first) * sizeof *all) == 0);
    }
  return RENGA_SUCCESS;
}

/* Other types are refused by name, and a table is all or nothing. */
static RengaErrorCode CheckTypes(RengaDevice device, float *const x[])
{
  const RengaAdamStep adam = {0.02, 0.9, 0.999, 1e-8, true, 3};
  RengaParameterUpdate update[2] = {UpdateOf(x, 4, 0, 2), UpdateOf(x, 4, 0, 2)};
  RengaVector vector[2] = {update[0].gradient, update[0].gradient};
  const float before = x[0][0];
  double sums[2] = {-1, -1};
  update[1].moment[1].type = RENGA_BFLOAT16;
  vector[1].type = RENGA_FLOAT16;
  ExpectError(RengaDeviceUpdateAdam(device, NULL, &adam, 1, 2, update), RENGA_ERR_SUPPORT,
              "an update by moments of bfloat16 vectors is not supported");
  ExpectError(RengaDeviceSumsOfSquares(device, NULL, 2, vector, sums), RENGA_ERR_SUPPORT,
              "a norm of float16 vectors is not supported");
  ExpectError(RengaDeviceAdd(device, NULL, RENGA_FLOAT64, 4, x[0], x[1]), RENGA_ERR_SUPPORT,
              "a sum of float64 vectors is not supported");
  update[1] = UpdateOf(x, 4, 0, 1);
  ExpectError(RengaDeviceUpdateAdam(device, NULL, &adam, 1, 2, update), RENGA_ERR_ARGUMENT,
              "needs two moments");
  Expect(x[0][0] == before && sums[0] == -1);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const int64_t counts[] = {COUNT, 16384, 1, 0};
  RengaComm comm = NULL;
  RengaDevice device[THREADS + 1] = {NULL};
  float *x[3][VECTORS] = {{NULL}};
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int t = 0; t <= THREADS; t++) {
    RengaCall(RengaDeviceCreate(comm, &device[t]));
    RengaCall(RengaDeviceSetType(device[t], t ? RENGA_DEVICE_CPU : RENGA_DEVICE_REF));
    RengaCall(RengaDeviceSetThreads(device[t], t));
    RengaCall(RengaDeviceSetUp(device[t]));
  }
  for (int i = 0; i < 3 * VECTORS; i++) RengaCall(RengaMalloc(COUNT, &x[i / VECTORS][i % VECTORS]));
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    RengaCall(CheckAction(device, Add, 0, counts[c], x[0], x[1], x[2]));
    for (int v = 0; v < 5; v++) RengaCall(CheckAction(device, Sgd, v, counts[c], x[0], x[1], x[2]));
    for (int v = 0; v < 4; v++)
      RengaCall(CheckAction(device, Adam, v, counts[c], x[0], x[1], x[2]));
  }
  for (int t = 1; t <= THREADS; t++) RengaCall(CheckTable(device[1], device[t], x[0], x[1]));
  RengaCall(CheckTable(device[0], device[0], x[0], x[1]));
  for (int t = 0; t <= THREADS; t++) RengaCall(CheckPieces(device[t], x[0][0]));
  RengaCall(CheckTypes(device[1], x[0]));
  for (int i = 0; i < 3 * VECTORS; i++) RengaFree(&x[i / VECTORS][i % VECTORS]);
  for (int t = 0; t <= THREADS; t++) RengaCall(RengaDeviceDestroy(&device[t]));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
