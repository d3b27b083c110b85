/* Matrix products: a loop over tiles of the result. Where each element's terms are added up in an
   order that follows from k alone, tiles are as many as threads, and as large as they can be: a
   large product packs its operands less often. */
#include "onednn.h"
#include "packed.h"
#include <cblas.h>
#include <dnnl.h>
#include <string.h>

/* Of tiles that follow from the shape alone. */
enum { TILE_M = 512, TILE_N = 768, TILE_LEAST = 384, TILES_WANTED = 4 };

/* oneDNN has other products for fewer rows and columns; and with AVX-512 it adds up terms in runs
   of so many, but the last ones, where they are more than two runs, by the product's size, too. */
enum { LEAST_M = 32, LEAST_N = 64, RUN_K = 384 };

/* Whose product is faster. oneDNN's, by a few percent, where rows are wide enough for its vectors.
   But without AVX-512 it multiplies small tiles where they lie, and loses a sixth to a half of its
   rate where rows that it goes down, of b or of a transposed, are cold and lie some KiB apart, so
   that they push each other out of the cache. */
static bool IsForDnn(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, int64_t ldb)
{
#if defined __x86_64__
  enum { SHORT = 192, FAR = 1024, PACKED = 263 }; /* the last is oneDNN's own */
  if (n < LEAST_N || RengaConvolutionHasBrain()) return n >= LEAST_N;
  if (PACKED * (m + n) < m * n) return true;
  return !trans_a && (trans_b || k < SHORT || ldb % FAR != 0);
#else
  return false;
#endif
}

/* The last terms, which are less than a run, in a call of their own. */
static void MultiplyByDnn(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                          const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                          float *c, int64_t ldc)
{
  const int64_t rest = k > 2 * RUN_K ? k % RUN_K : 0, first = k - rest;
  RengaCpuBeAlone();
  dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, first, alpha, a, lda, b, ldb, beta, c,
             ldc);
  if (rest > 0)
    dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, rest, alpha,
               a + first * (trans_a ? lda : 1), lda, b + first * (trans_b ? 1 : ldb), ldb, 1, c,
               ldc);
}

/* Both libraries are asked for one thread: results must not depend on how many there are. */
void RengaCpuGemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc)
{
  if (IsForDnn(trans_a, trans_b, m, n, k, ldb)) {
    MultiplyByDnn(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
              trans_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, alpha, a, (int)lda, b,
              (int)ldb, beta, c, (int)ldc);
}

static int64_t DivideLength(int64_t length, int64_t parts)
{
  return (length + parts - 1) / parts;
}

RengaCpuTiling RengaCpuTile(int64_t m, int64_t n)
{
  RengaCpuTiling tiling = {.rows = DivideLength(m, TILE_M), .columns = DivideLength(n, TILE_N)};
  while (tiling.rows * tiling.columns < TILES_WANTED) {
    int64_t tile_m = DivideLength(m, tiling.rows), tile_n = DivideLength(n, tiling.columns);
    if (tile_m >= tile_n && tile_m > TILE_LEAST)
      tiling.rows++;
    else if (tile_n > TILE_LEAST)
      tiling.columns++;
    else
      break;
  }
  tiling.m = (DivideLength(m, tiling.rows) + 15) / 16 * 16;
  tiling.n = (DivideLength(n, tiling.columns) + 15) / 16 * 16;
  tiling.rows = DivideLength(m, tiling.m);
  tiling.columns = DivideLength(n, tiling.n);
  return tiling;
}

/* About a part of the length, a multiple of 16, so that no tile is shorter than least. */
static int64_t CutLength(int64_t length, int64_t parts, int64_t least)
{
  int64_t tile = (DivideLength(length, parts) + 15) / 16 * 16;
  while (length % tile != 0 && length % tile < least) tile += 16;
  return tile;
}

/* As many tiles as threads, or the next fewer that are not too small; the squarest. bias: what is
   filled with it first stays in the cache. */
static RengaCpuTiling TileForThreads(int threads, int64_t m, int64_t n, bool bias)
{
  RengaCpuTiling tiling = {.m = m, .n = n};
  const int64_t most = m / LEAST_M * (n / LEAST_N);
  if (threads > most) threads = (int)most;
  for (bool found = false; !found && threads > 1; threads--)
    for (int64_t rows = 1; rows <= threads; rows++) {
      const int64_t columns = threads / rows;
      if (rows * columns != threads || m < rows * LEAST_M || n < columns * LEAST_N) continue;
      const int64_t tile_m = CutLength(m, rows, LEAST_M), tile_n = CutLength(n, columns, LEAST_N);
      if (found && tile_m + tile_n >= tiling.m + tiling.n) continue;
      tiling = (RengaCpuTiling){.m = tile_m, .n = tile_n};
      found = true;
    }
  if (bias && tiling.n > TILE_N) tiling.n = CutLength(n, DivideLength(n, TILE_N), LEAST_N);
  tiling.rows = DivideLength(m, tiling.m);
  tiling.columns = DivideLength(n, tiling.n);
  return tiling;
}

/* Whether the order of an element's sum is the same in each tile. oneDNN's without AVX-512 and
   OpenBLAS's may depend on it. */
static bool HasOneOrder(int64_t m, int64_t n)
{
#if defined __x86_64__
  return RengaConvolutionHasBrain() && m >= LEAST_M && n >= LEAST_N;
#else
  return false;
#endif
}

bool RengaCpuAddsAtOnce(int64_t m, int64_t n, int64_t k)
{
  return HasOneOrder(m, n) && k <= RUN_K;
}

static void FillBiasRows(int64_t m, int64_t n, int64_t ldc, const float *bias, float *c)
{
  for (int64_t i = 0; i < m; i++) {
    if (bias)
      memcpy(c + i * ldc, bias, (size_t)n * sizeof *c);
    else
      memset(c + i * ldc, 0, (size_t)n * sizeof *c);
  }
}

void RengaCpuMultiplyTile(const RengaCpuProduct *product, const RengaCpuTiling *tiling,
                          int64_t tile)
{
  const int64_t i = tile / tiling->columns * tiling->m, j = tile % tiling->columns * tiling->n;
  RengaCpuProduct p = *product;
  p.m = RengaCpuSmaller(p.m - i, tiling->m);
  p.n = RengaCpuSmaller(p.n - j, tiling->n);
  p.a += p.trans_a ? i : i * p.lda;
  p.b += p.trans_b ? j * p.ldb : j;
  p.c += i * p.ldc + j;
  if (p.bias) p.bias += j;
  if (p.work && HasOneOrder(p.m, p.n) && RengaCpuPackedFits(&p)) {
    RengaCpuMultiplyPacked(&p, p.work + RengaCpuThread() * RengaCpuPackedFloats(product));
    return;
  }
  if (p.bias || (p.k == 0 && p.beta == 0)) {
    FillBiasRows(p.m, p.n, p.ldc, p.bias, p.c);
    p.beta = 1;
  }
  if (p.k == 0) return;
  RengaCpuGemm(p.trans_a, p.trans_b, p.m, p.n, p.k, p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c,
               p.ldc);
}

RengaCpuTiling RengaCpuTileFor(int threads, int64_t products, int64_t m, int64_t n, bool bias)
{
  const int each = (int)DivideLength(threads, products < threads ? products : threads);
  return HasOneOrder(m, n) ? TileForThreads(each, m, n, bias) : RengaCpuTile(m, n);
}

void RengaCpuMultiply(int threads, const RengaCpuProduct *product)
{
  if (product->m == 0 || product->n == 0) return;
  const bool fills = product->bias && !product->work;
  const RengaCpuTiling tiling = RengaCpuTileFor(threads, 1, product->m, product->n, fills);
  const int64_t tiles = tiling.rows * tiling.columns;
#pragma omp parallel for schedule(dynamic) num_threads(RengaCpuThreads(threads, tiles))
  for (int64_t tile = 0; tile < tiles; tile++) RengaCpuMultiplyTile(product, &tiling, tile);
}
