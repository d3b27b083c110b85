/* TEST ranks: 1 */
/* Gradients of a table's rows: the sums over positions are those of the whole table's gradient in
   the order of leaves, to the bit, on ref and on cpu with 1, 2 and 3 threads; numbers may be
   negative, int32, or that of padding. An update of rows is the update of these rows alone, or that
   of all rows, of which the others have gradients of 0. */
#include "../check.h"
#include "renga/private/device.h"
#include "rengacomm.h"
#include <math.h>
#include <string.h>

enum { LENGTH = 2500, WIDTH = 67, SLOTS = 11, MOST = 90, TABLE = LENGTH * WIDTH, THREADS = 3 };
enum { POSITIONS = SLOTS * MOST, STRIDE = MOST * (WIDTH * 4 + 8) };

typedef struct {
  int64_t slots, rows, last_rows, leaf, padding, kinds; /* kinds: of different rows */
  bool wide;
} Case;
static const Case cases[] = {
    {1, 1, 1, 1, -1, 1, true},      {1, 90, 90, 1, -1, 40, true}, {7, 13, 5, 1, -1, 9, false},
    {11, 90, 61, 1, 3, 2500, true}, {11, 20, 20, 2, 0, 6, false}, {8, 33, 33, 3, -1, 3, true},
    {11, 90, 90, 4, 5, 300, true},  {2, 1, 1, 1, 0, 1, true},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

typedef struct {
  char slot[SLOTS * STRIDE];
  int64_t index[POSITIONS], count;
  float sum[POSITIONS * WIDTH];
  uint64_t work[2 * POSITIONS];
  float whole[TABLE], tree[8][TABLE];
} Memory;

static RengaRowsTask TaskOf(const Case *c, Memory *m)
{
  return (RengaRowsTask){.slot = m->slot,
                         .stride = STRIDE,
                         .gradients = 0,
                         .numbers = (int64_t)MOST * WIDTH * 4,
                         .slots = c->slots,
                         .rows = c->rows,
                         .last_rows = c->last_rows,
                         .leaf = c->leaf,
                         .width = WIDTH,
                         .length = LENGTH,
                         .padding = c->padding,
                         .wide = c->wide,
                         .index = m->index,
                         .count = &m->count,
                         .sum = m->sum,
                         .work = m->work};
}

/* Row of a position; some numbers count from the end. */
static int64_t NumberOf(const Case *c, int64_t position)
{
  float x[2];
  RengaRandomUniform(5, 1, (uint64_t)position * 2, 2, x);
  const int64_t row = (int64_t)(x[0] * (float)c->kinds);
  return x[1] < 0.2f ? row - LENGTH : row;
}

static void FillSlots(const Case *c, Memory *m)
{
  for (int64_t s = 0; s < c->slots; s++) {
    char *slot = m->slot + s * STRIDE, *numbers = slot + (size_t)MOST * WIDTH * 4;
    float *gradients = (float *)(void *)slot;
    RengaRandomUniform(6, (uint64_t)s, 0, (size_t)c->rows * WIDTH, gradients);
    for (int64_t i = 0; i < c->rows * WIDTH; i++)
      gradients[i] = i % 7 == 0 ? -0.0f : gradients[i] - 0.5f;
    for (int64_t i = 0; i < c->rows; i++) {
      const int64_t number = NumberOf(c, s * c->rows + i);
      if (c->wide)
        ((int64_t *)(void *)numbers)[i] = number;
      else
        ((int32_t *)(void *)numbers)[i] = (int32_t)number;
    }
  }
}

/* What GatherGrad makes of a slot. */
static void ScatterSlot(const Case *c, const Memory *m, int64_t slot, float whole[])
{
  const float *gradients = (const float *)(const void *)(m->slot + slot * STRIDE);
  const int64_t rows = slot + 1 < c->slots ? c->rows : c->last_rows;
  memset(whole, 0, TABLE * sizeof *whole);
  for (int64_t i = 0; i < rows; i++) {
    const int64_t number = NumberOf(c, slot * c->rows + i);
    const int64_t row = number < 0 ? number + LENGTH : number;
    if (row == c->padding) continue;
    for (int64_t k = 0; k < WIDTH; k++) whole[row * WIDTH + k] += gradients[i * WIDTH + k];
  }
}

static void AddWhole(float to[], const float from[])
{
  for (int64_t i = 0; i < TABLE; i++) to[i] += from[i];
}

/* Leaves [from, from + 2^level) of whole tables. */
static bool SumTree(const Case *c, Memory *m, int64_t from, int level, float to[])
{
  const int64_t leaves = (c->slots + c->leaf - 1) / c->leaf;
  if (from >= leaves) return false;
  if (level > 0) {
    SumTree(c, m, from, level - 1, to);
    if (SumTree(c, m, from + ((int64_t)1 << (level - 1)), level - 1, m->tree[level]))
      AddWhole(to, m->tree[level]);
    return true;
  }
  for (int64_t s = from * c->leaf; s < c->slots && s < (from + 1) * c->leaf; s++) {
    ScatterSlot(c, m, s, s == from * c->leaf ? to : m->tree[0]);
    if (s > from * c->leaf) AddWhole(to, m->tree[0]);
  }
  return true;
}

/* Rows ascend, and with 0 in all others they are the whole gradient. */
static RengaErrorCode CompareWhole(Memory *m, double square)
{
  double expected = 0;
  int64_t r = 0;
  for (int64_t row = 0; row < LENGTH; row++) {
    const float *whole = m->whole + row * WIDTH;
    const bool here = r < m->count && m->index[r] == row;
    for (int64_t k = 0; k < WIDTH; k++) {
      const float got = here ? m->sum[r * WIDTH + k] : 0;
      Expect(memcmp(&got, &whole[k], sizeof got) == 0);
      expected += (double)got * got;
    }
    r += here;
  }
  Expect(r == m->count && fabs(square - expected) <= 1e-12 * expected);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSums(const RengaDevice device[], const Case *c, Memory *m)
{
  const RengaRowsTask task = TaskOf(c, m);
  double square, first = 0;
  FillSlots(c, m);
  SumTree(c, m, 0, 4, m->whole);
  for (int t = 0; t <= THREADS; t++) {
    RengaCall(RengaDeviceSumRows_Private(device[t], NULL, &task, &square));
    RengaCall(CompareWhole(m, square));
    if (t == 1) first = square;
    Expect(t < 2 || square == first);
  }
  return RENGA_SUCCESS;
}

/* Parameter, gradient and two moments of a table. */
static RengaErrorCode FillTables(float *const x[4])
{
  for (int v = 0; v < 4; v++) RengaRandomUniform(9, (uint64_t)v, 0, TABLE, x[v]);
  return RENGA_SUCCESS;
}

static RengaErrorCode UpdateEither(RengaDevice device, int kind, const RengaParameterUpdate *update)
{
  const RengaSgdStep sgd = {0.2, kind == 1 ? 0.9 : 0, 0.1, kind == 1, false};
  const RengaAdamStep adam = {0.02, 0.9, 0.999, 1e-8, kind == 3, 7};
  if (kind < 2)
    RengaCall(RengaDeviceUpdateSgd(device, NULL, &sgd, 0.5, 1, update));
  else
    RengaCall(RengaDeviceUpdateAdam(device, NULL, &adam, 0.5, 1, update));
  return RENGA_SUCCESS;
}

static RengaParameterUpdate UpdateOfTable(float *const x[4], int kind)
{
  const int moments = kind == 0 ? 0 : kind == 1 ? 1 : 2;
  RengaParameterUpdate update = {.parameter = {x[0], RENGA_FLOAT32, TABLE},
                                 .gradient = {x[1], RENGA_FLOAT32, TABLE},
                                 .rate_scale = 0.5,
                                 .weight_decay = 0.1};
  for (int k = 0; k < moments; k++)
    update.moment[k] = (RengaVector){x[2 + k], RENGA_FLOAT32, TABLE};
  return update;
}

/* Gradients of every third row, of a table that is updated as a whole elsewhere. others: with
   gradients of 0, too; else they rest */
static RengaErrorCode CheckUpdate(RengaDevice device, int kind, bool others, float *const whole[4],
                                  float *const rows[4])
{
  enum { READ = (LENGTH + 2) / 3 };
  static int64_t index[READ];
  static float gradient[READ * WIDTH];
  const int64_t count = READ;
  RengaCall(FillTables(whole));
  RengaCall(FillTables(rows));
  for (int64_t row = 0; row < LENGTH && others; row++)
    if (row % 3 != 0) memset(whole[1] + row * WIDTH, 0, WIDTH * sizeof **whole);
  RengaParameterUpdate update = UpdateOfTable(whole, kind);
  RengaCall(UpdateEither(device, kind, &update));
  update = UpdateOfTable(rows, kind);
  update.gradient = (RengaVector){gradient, RENGA_FLOAT32, READ * WIDTH};
  update.rows =
      (RengaRows){.width = WIDTH, .index = index, .count = &count, .most = READ, .whole = others};
  for (int64_t r = 0; r < READ; r++) {
    index[r] = 3 * r;
    memcpy(gradient + r * WIDTH, rows[1] + 3 * r * WIDTH, WIDTH * sizeof *gradient);
  }
  RengaCall(UpdateEither(device, kind, &update));
  for (int v = 0; v < 4; v++)
    for (int64_t row = 0; row < LENGTH && others; row++)
      Expect(v == 1 || memcmp(rows[v] + row * WIDTH, whole[v] + row * WIDTH, WIDTH * 4) == 0);
  for (int v = 0; v < 4 && !others; v++)
    for (int64_t row = 0; row < LENGTH; row++)
      Expect((memcmp(rows[v] + row * WIDTH, whole[v] + row * WIDTH, WIDTH * 4) == 0) ==
             (row % 3 == 0 || !(v == 0 || (v > 1 && update.moment[v - 2].data))));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckErrors(RengaDevice device, float *const x[4])
{
  const int64_t index = 1, count = 1;
  RengaParameterUpdate update = UpdateOfTable(x, 0);
  update.rows = (RengaRows){.width = WIDTH, .index = &index, .count = &count, .most = 1};
  ExpectError(UpdateEither(device, 0, &update), RENGA_ERR_ARGUMENT, "67 elements have a gradient");
  update.gradient.count = WIDTH;
  update.parameter.count = TABLE - 1;
  ExpectError(UpdateEither(device, 0, &update), RENGA_ERR_ARGUMENT, "of a table of");
  update.parameter.count = TABLE;
  update.value = update.parameter;
  ExpectError(UpdateEither(device, 0, &update), RENGA_ERR_SUPPORT, "writes no values of float32");
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDevices(const RengaDevice device[], Memory *m, float *const whole[4],
                                   float *const rows[4])
{
  for (int c = 0; c < N_CASES; c++) RengaCall(CheckSums(device, &cases[c], m));
  for (int t = 0; t <= THREADS; t++)
    for (int kind = 0; kind < 8; kind++)
      RengaCall(CheckUpdate(device[t], kind / 2, kind % 2 == 1, whole, rows));
  RengaCall(CheckErrors(device[0], whole));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm self;
  RengaDevice device[THREADS + 1];
  Memory *memory;
  float *tables[8];
  RengaCall(RengaCommCreate(MPI_COMM_SELF, &self));
  RengaCall(RengaMalloc(1, &memory));
  for (int v = 0; v < 8; v++) RengaCall(RengaMalloc(TABLE, &tables[v]));
  for (int t = 0; t <= THREADS; t++) {
    RengaCall(RengaDeviceCreate(self, &device[t]));
    RengaCall(RengaDeviceSetType(device[t], t == 0 ? "ref" : "cpu"));
    RengaCall(RengaDeviceSetThreads(device[t], t > 0 ? t : 1));
    RengaCall(RengaDeviceSetUp(device[t]));
  }
  RengaCall(CheckDevices(device, memory, tables, tables + 4));
  for (int t = 0; t <= THREADS; t++) RengaCall(RengaDeviceDestroy(&device[t]));
  for (int v = 0; v < 8; v++) RengaFree(&tables[v]);
  RengaFree(&memory);
  RengaCall(RengaCommDestroy(&self));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
