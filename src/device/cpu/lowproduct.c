/* Products of which some operand has 16 bits. Of bfloat16 by bfloat16 they are Renga's own on
   processors with AMX (amx.c), or oneDNN's where it has them, with AVX-512; else block after block
   is widened into memory of the thread that stays in its cache, for the product of float32. */
#include "lowproduct.h"
#include "amx.h"
#include "low.h"
#include "onednn.h"
#include "turn.h"
#include <string.h>

/* Of a block; a, b and c of one are 1.25 MiB of float32. */
enum { BLOCK_M = 256, BLOCK_N = 256, BLOCK_K = 512 };
enum { ALIGNED = 64 }; /* bytes */
enum { BLOCK_FLOATS = BLOCK_M * BLOCK_K + BLOCK_K * BLOCK_N + BLOCK_M * BLOCK_N };

static int64_t LengthOfLast(int64_t length, int64_t tile, int64_t tiles)
{
  return length - (tiles - 1) * tile;
}

/* Nothing lies between the rows of the matrices. */
static bool IsDense_Cpu(const RengaCpuLowShape *s)
{
  return s->lda == (s->trans_a ? s->m : s->k) && s->ldb == (s->trans_b ? s->k : s->n) &&
         s->ldc == s->n;
}

static int64_t LengthOfTile(int64_t m)
{
  enum { LEAST = 128, MOST = 512, WANTED = 4, UNIT = 16 };
  int64_t length = RengaCpuPieces(m, WANTED);
  if (length < LEAST) length = LEAST;
  if (length > MOST) length = MOST;
  return (length + UNIT - 1) / UNIT * UNIT;
}

static RengaCpuTiling TileByRows(int64_t m, int64_t n)
{
  const int64_t length = LengthOfTile(m);
  return (RengaCpuTiling){.m = length, .n = n, .rows = RengaCpuPieces(m, length), .columns = 1};
}

static RengaErrorCode CreateBrain(int threads, RengaCpuLowProduct *p, bool last_row,
                                  bool last_column)
{
  const RengaCpuLowShape *s = &p->shape;
  const RengaCpuTiling *t = &p->tiling;
  const RengaBrainShape shape = {
      .trans_a = s->trans_a && !p->turns,
      .trans_b = s->trans_b,
      .has_bias = s->has_bias,
      .adds = s->adds,
      .m = last_row ? LengthOfLast(s->m, t->m, t->rows) : t->m,
      .n = last_column ? LengthOfLast(s->n, t->n, t->columns) : t->n,
      .k = s->k,
      .lda = p->turns ? s->k : s->lda,
      .ldb = s->ldb,
      .ldc = s->ldc,
      .alpha = s->alpha,
      .c = s->c,
      .bias = s->bias,
  };
  RengaBrainProduct *made = &p->brain[last_row][last_column];
  RengaCall(RengaBrainProductCreate(&shape, threads, made));
  const size_t bytes = *made ? RengaBrainProductGetScratch(*made) : 0;
  if (bytes > p->bytes) p->bytes = bytes;
  return RENGA_SUCCESS;
}

static size_t BytesTurned(const RengaCpuLowProduct *p)
{
  const size_t bytes = (size_t)(p->tiling.m * p->shape.k) * sizeof(uint16_t);
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* bfloat16 by bfloat16, with a result and a bias that these products have. */
static bool IsOfBrains(const RengaCpuLowShape *s)
{
  const bool c_fits = s->c == RENGA_BFLOAT16 || s->c == RENGA_FLOAT32;
  const bool bias_fits =
      !s->has_bias || s->bias == RENGA_FLOAT32 || (s->bias == RENGA_BFLOAT16 && s->c == s->bias);
  return s->a == RENGA_BFLOAT16 && s->b == RENGA_BFLOAT16 && c_fits && bias_fits && s->k > 0;
}

static void PlanAmx(int threads, RengaCpuLowProduct *p)
{
  const RengaCpuLowShape *s = &p->shape;
  p->amx = true;
  p->tiling = RengaCpuTileFor(threads, 1, s->m, s->n, false);
  p->bytes = RengaAmxBytes(s, p->tiling.m, p->tiling.n);
}

/* All kinds of tiles, or none: whether oneDNN has a product must not depend on the tile, and tiles
   depend on the shape alone. oneDNN's own products by AMX are never taken, see RengaDnnLeaveAmx. */
static RengaErrorCode CreateBrains(int threads, RengaCpuLowProduct *p)
{
  const RengaCpuLowShape *s = &p->shape;
  const bool dense = IsDense_Cpu(s);
  bool all = IsOfBrains(s);
  if (all && RengaAmxIsHere()) {
    PlanAmx(threads, p);
    return RENGA_SUCCESS;
  }
  all = all && !RengaDnnHasAmx();
  p->tiling = dense ? TileByRows(s->m, s->n) : RengaCpuTile(s->m, s->n);
  p->turns = dense && s->trans_a;
  for (int row = 0; row < 2 && all; row++)
    for (int column = 0; column < 2 && all; column++) {
      if ((!row && p->tiling.rows == 1) || (!column && p->tiling.columns == 1)) continue;
      RengaCall(CreateBrain(threads, p, row, column));
      all = p->brain[row][column] != NULL;
    }
  if (all && p->turns) p->bytes += BytesTurned(p);
  if (all) return RENGA_SUCCESS;
  p->turns = false;
  p->tiling = RengaCpuTile(s->m, s->n);
  for (int i = 0; i < 4; i++) RengaCall(RengaBrainProductDestroy(&p->brain[i / 2][i % 2]));
  p->bytes = BLOCK_FLOATS * sizeof(float);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCpuLowProductCreate(int threads, const RengaCpuLowShape *shape,
                                        RengaCpuLowProduct **product)
{
  RengaCpuLowProduct *made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->shape = *shape;
  RengaErrorCode code = RENGA_SUCCESS;
  if (shape->m > 0 && shape->n > 0) code = CreateBrains(threads, made);
  made->bytes = (made->bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
  if (code) RengaCpuLowProductDestroy(&made);
  RengaCall(code);
  *product = made;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCpuLowProductDestroy(RengaCpuLowProduct **product)
{
  if (!*product) return RENGA_SUCCESS;
  for (int i = 0; i < 4; i++) RengaCall(RengaBrainProductDestroy(&(*product)->brain[i / 2][i % 2]));
  RengaFree(product);
  return RENGA_SUCCESS;
}

/* Part of a matrix: [rows, columns] as stored, at an element of it. */
typedef struct {
  const float *data;
  int64_t ld;
} LowBlock;

/* In place where it is float32; else a dense copy in the buffer. */
static LowBlock ReadLowBlock(RengaDataType type, const void *matrix, int64_t at, int64_t ld,
                             int64_t rows, int64_t columns, float *buffer)
{
  if (type == RENGA_FLOAT32) return (LowBlock){(const float *)matrix + at, ld};
  for (int64_t r = 0; r < rows; r++)
    RengaCpuWiden(type, columns, (const uint16_t *)matrix + at + r * ld, buffer + r * columns);
  return (LowBlock){buffer, columns};
}

/* c[m, n] of the block at row i, column j: the bias, or nothing. */
static void StartBlock(const RengaCpuLowShape *s, int64_t j, int64_t m, int64_t n, const void *bias,
                       float *c, int64_t ldc)
{
  for (int64_t r = 0; r < m; r++)
    for (int64_t q = 0; q < n; q++)
      c[r * ldc + q] = s->has_bias ? RengaCpuGet(s->bias, bias, j + q) : 0;
}

/* The block of c at (i, j), [m, n]; buffers: a, b, c. */
static void MultiplyBlock(const RengaCpuLowShape *s, int64_t i, int64_t j, int64_t m, int64_t n,
                          const void *a, const void *b, const void *bias, void *c, float *buffer)
{
  float *buffer_b = buffer + BLOCK_M * BLOCK_K, *own = buffer_b + BLOCK_K * BLOCK_N;
  const bool direct = s->c == RENGA_FLOAT32;
  float *to = direct ? (float *)c + i * s->ldc + j : own;
  const int64_t ldc = direct ? s->ldc : n;
  if (!s->adds) StartBlock(s, j, m, n, bias, to, ldc);
  for (int64_t k = 0; k < s->k; k += BLOCK_K) {
    const int64_t here = RengaCpuSmaller(s->k - k, BLOCK_K);
    const LowBlock x = s->trans_a ? ReadLowBlock(s->a, a, k * s->lda + i, s->lda, here, m, buffer)
                                  : ReadLowBlock(s->a, a, i * s->lda + k, s->lda, m, here, buffer);
    const LowBlock y = s->trans_b
                           ? ReadLowBlock(s->b, b, j * s->ldb + k, s->ldb, n, here, buffer_b)
                           : ReadLowBlock(s->b, b, k * s->ldb + j, s->ldb, here, n, buffer_b);
    RengaCpuGemm(s->trans_a, s->trans_b, m, n, here, s->alpha, x.data, x.ld, y.data, y.ld, 1, to,
                 ldc);
  }
  for (int64_t r = 0; r < m && !direct; r++)
    RengaCpuNarrow(s->c, n, own + r * n, (uint16_t *)c + (i + r) * s->ldc + j);
}

static void TileByBlocks(const RengaCpuLowShape *s, int64_t i, int64_t j, int64_t m, int64_t n,
                         const void *a, const void *b, const void *bias, void *c, float *buffer)
{
  for (int64_t row = 0; row < m; row += BLOCK_M)
    for (int64_t column = 0; column < n; column += BLOCK_N)
      MultiplyBlock(s, i + row, j + column, RengaCpuSmaller(m - row, BLOCK_M),
                    RengaCpuSmaller(n - column, BLOCK_N), a, b, bias, c, buffer);
}

int RengaCpuLowProductTile(const RengaCpuLowProduct *p, int64_t tile, const void *a, const void *b,
                           const void *bias, void *c, void *workspace)
{
  const RengaCpuLowShape *s = &p->shape;
  const RengaCpuTiling *t = &p->tiling;
  const int64_t row = tile / t->columns, column = tile % t->columns;
  const int64_t i = row * t->m, j = column * t->n;
  const int thread = RengaCpuThread();
  char *own = (char *)workspace + p->bytes * (size_t)thread;
  const RengaBrainProduct brain = p->brain[row == t->rows - 1][column == t->columns - 1];
  const uint16_t *rows = (const uint16_t *)a + (s->trans_a ? i : i * s->lda);
  const uint16_t *columns = (const uint16_t *)b + (s->trans_b ? j * s->ldb : j);
  const char *its_bias =
      s->has_bias ? (const char *)bias + (size_t)j * RengaDataTypeSize(s->bias) : NULL;
  char *made = (char *)c + (size_t)(i * s->ldc + j) * RengaDataTypeSize(s->c);
  if (p->amx) {
    RengaAmxMultiply(s, RengaCpuSmaller(s->m - i, t->m), RengaCpuSmaller(s->n - j, t->n), rows,
                     columns, its_bias, made, own);
    return 0;
  }
  if (!brain) {
    TileByBlocks(s, i, j, RengaCpuSmaller(s->m - i, t->m), RengaCpuSmaller(s->n - j, t->n), a, b,
                 bias, c, (float *)(void *)own);
    return 0;
  }
  if (p->turns) {
    uint16_t *turned = (uint16_t *)(void *)own;
    RengaCpuTurn16(s->k, RengaCpuSmaller(s->m - i, t->m), rows, s->lda, turned, s->k);
    own += BytesTurned(p);
    rows = turned;
  }
  return RengaBrainProductRun(brain, thread, rows, columns, its_bias, made, own);
}

RengaErrorCode RengaCpuLowMultiply(int threads, const RengaCpuLowProduct *p, const void *a,
                                   const void *b, const void *bias, void *c, void *workspace)
{
  const int64_t tiles = p->tiling.rows * p->tiling.columns;
  int failed = 0;
#pragma omp parallel for schedule(dynamic) num_threads(RengaCpuThreads(threads, tiles))
  for (int64_t tile = 0; tile < tiles; tile++) {
    const int status = RengaCpuLowProductTile(p, tile, a, b, bias, c, workspace);
    if (status) {
#pragma omp atomic write
      failed = status;
    }
  }
  RengaCheck(failed == 0, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "oneDNN: status %d", failed);
  return RENGA_SUCCESS;
}
