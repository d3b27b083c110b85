/* Products of bfloat16 matrices by AMX. Both factors are packed into strips of 32 lanes, which are
   rows of a or columns of b, a block at a time that stays in the second cache; four of the
   processor's tiles hold 32 x 32 results while two strips go by. The factor that is dearer to pack
   is packed once where all of its terms fit: the outer one. */
#include "amx.h"
#include "low.h"
#include "onednn.h"
#include <immintrin.h>
#include <stdatomic.h>

#ifdef RENGA_AMX /* not where a compiler only looks at it, without the flags for AMX */

enum {
  SIDE = 16,          /* rows of a tile */
  STRIP = 2 * SIDE,   /* lanes */
  DEPTH = 32,         /* terms of a tile */
  TILE = 1024,        /* bytes */
  STEP = 2 * TILE,    /* bytes of a strip's DEPTH terms */
  MOST_TERMS = 1024,  /* that are packed at a time */
  OUTER_LANES = 512,  /* of a block of the outer factor */
  INNER_LANES = 1024, /* of a block of the inner one */
};

/* A factor from its first lane on. Either the terms of a lane follow each other, or its lanes. */
typedef struct {
  const uint16_t *data;
  int64_t lanes, ld;
  bool by_terms;
  bool left; /* a: tiles have a row for each lane; b: for each pair of terms */
} Factor;

typedef struct {
  const RengaCpuLowShape *shape;
  Factor outer, inner;
  int64_t block[2],
      terms; /* lanes of the outer and of the inner factor that are packed at a time */
  const void *bias;
  void *c;
  char *packed_outer, *packed_inner;
  float *sums; /* of blocks of 32 x 32, where not all terms are packed at a time */
} Product;

static int64_t RoundUp(int64_t count, int64_t unit)
{
  return (count + unit - 1) / unit * unit;
}

/* In as many parts as it takes of at most so many, which are alike. */
static int64_t PartOf(int64_t count, int64_t most, int64_t unit)
{
  const int64_t parts = (count + most - 1) / most;
  return RoundUp((count + parts - 1) / parts, unit);
}

bool RengaAmxIsHere(void)
{
  return RengaDnnHasAmx();
}

/* What was row[i]'s word j is row[j]'s word i. */
static inline void TurnWords(__m512i row[SIDE])
{
  __m512i next[SIDE];
#pragma GCC unroll 8
  for (int i = 0; i < SIDE / 2; i++) {
    next[2 * i] = _mm512_unpacklo_epi32(row[2 * i], row[2 * i + 1]);
    next[2 * i + 1] = _mm512_unpackhi_epi32(row[2 * i], row[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < SIDE; i += 4) {
    row[i] = _mm512_unpacklo_epi64(next[i], next[i + 2]);
    row[i + 1] = _mm512_unpackhi_epi64(next[i], next[i + 2]);
    row[i + 2] = _mm512_unpacklo_epi64(next[i + 1], next[i + 3]);
    row[i + 3] = _mm512_unpackhi_epi64(next[i + 1], next[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    next[i] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0x88);
    next[i + 4] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0xdd);
    next[i + 8] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0x88);
    next[i + 12] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    row[i] = _mm512_shuffle_i32x4(next[i], next[i + 8], 0x88);
    row[i + 4] = _mm512_shuffle_i32x4(next[i + 4], next[i + 12], 0x88);
    row[i + 8] = _mm512_shuffle_i32x4(next[i], next[i + 8], 0xdd);
    row[i + 12] = _mm512_shuffle_i32x4(next[i + 4], next[i + 12], 0xdd);
  }
}

/* Of so many bits, the lower ones. */
static uint32_t LowBits(int64_t count)
{
  return count >= 32 ? UINT32_MAX : count > 0 ? (1U << count) - 1 : 0;
}

/* A tile of lanes and terms from the given ones on; zeros where there are none. */
static inline void PackTile(const Factor *f, int64_t lane, int64_t term, int64_t terms, char *to)
{
  __m512i row[SIDE];
  if (f->by_terms) {
    const uint32_t mask = LowBits(terms - term);
    const uint16_t *from = f->data + lane * f->ld + term;
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
      row[i] = _mm512_maskz_loadu_epi16(lane + i < f->lanes ? mask : 0, from + i * f->ld);
  } else {
    const uint16_t mask = (uint16_t)LowBits(f->lanes - lane < SIDE ? f->lanes - lane : SIDE);
    const uint16_t *from = f->data + term * f->ld + lane;
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) {
      const __m256i even =
          _mm256_maskz_loadu_epi16(term + 2 * i < terms ? mask : 0, from + 2 * i * f->ld);
      const __m256i odd =
          _mm256_maskz_loadu_epi16(term + 2 * i + 1 < terms ? mask : 0, from + (2 * i + 1) * f->ld);
      row[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
    }
  }
  if (f->by_terms != f->left) TurnWords(row);
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; i++) _mm512_store_si512(to + i * 64, row[i]);
}

/* Lanes [first, first + lanes) and terms [term, last): strip after strip, in the order in which
   they lie. */
static void PackBlock(const Factor *f, int64_t first, int64_t lanes, int64_t term, int64_t last,
                      char *to)
{
  const int64_t steps = RoundUp(last - term, DEPTH) / DEPTH, strips = RoundUp(lanes, STRIP) / STRIP;
  for (int64_t i = 0; i < strips * steps; i++) {
    const int64_t strip = f->by_terms ? i / steps : i % strips;
    const int64_t step = f->by_terms ? i % steps : i / strips;
    char *tiles = to + (strip * steps + step) * STEP;
    PackTile(f, first + strip * STRIP, term + step * DEPTH, last, tiles);
    PackTile(f, first + strip * STRIP + SIDE, term + step * DEPTH, last, tiles + TILE);
  }
}

/* Two strips, a's and b's; c is [32, 32], what it was where it goes on. */
static void MultiplyStrips(int64_t steps, const char *a, const char *b, float *c, int64_t ldc,
                           bool goes_on)
{
  const size_t stride = (size_t)ldc * sizeof *c;
  float *below = c + SIDE * ldc;
  if (goes_on) {
    _tile_loadd(0, c, stride);
    _tile_loadd(1, c + SIDE, stride);
    _tile_loadd(2, below, stride);
    _tile_loadd(3, below + SIDE, stride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t s = 0; s < steps; s++, a += STEP, b += STEP) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(5, a + TILE, 64);
    _tile_loadd(7, b + TILE, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, stride);
  _tile_stored(1, c + SIDE, stride);
  _tile_stored(2, below, stride);
  _tile_stored(3, below + SIDE, stride);
}

/* Sums of columns [j, j + 16) of a row become its elements. */
static inline void FinishRow(const Product *p, int64_t i, int64_t j, const float *sums)
{
  const RengaCpuLowShape *s = p->shape;
  const int64_t n = s->n - j, at = i * s->ldc + j; /* shape: of this part */
  const __mmask16 mask = (__mmask16)LowBits(n < SIDE ? n : SIDE);
  __m512 x = _mm512_mul_ps(_mm512_load_ps(sums), _mm512_set1_ps(s->alpha));
  if (s->has_bias && s->bias == RENGA_FLOAT32)
    x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, (const float *)p->bias + j));
  else if (s->has_bias)
    x = _mm512_add_ps(
        x, _mm512_castsi512_ps(_mm512_slli_epi32(
               _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)p->bias + j)),
               16)));
  if (s->c == RENGA_BFLOAT16) {
    _mm256_mask_storeu_epi16((uint16_t *)p->c + at, mask, (__m256i)_mm512_cvtneps_pbh(x));
    return;
  }
  float *c = (float *)p->c + at;
  if (s->adds) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, c));
  _mm512_mask_storeu_ps(c, mask, x);
}

static void FinishBlock(const Product *p, int64_t i, int64_t j, const float *sums)
{
  const int64_t rows = RengaCpuSmaller(p->shape->m - i, STRIP);
  for (int64_t r = 0; r < rows; r++) {
    FinishRow(p, i + r, j, sums + r * STRIP);
    if (j + SIDE < p->shape->n) FinishRow(p, i + r, j + SIDE, sums + r * STRIP + SIDE);
  }
}

/* Results are sums as they are, and 32 x 32 of them are there. */
static bool IsPlain(const Product *p, int64_t i, int64_t j)
{
  const RengaCpuLowShape *s = p->shape;
  return s->c == RENGA_FLOAT32 && !s->has_bias && !s->adds && s->alpha == 1 && i + STRIP <= s->m &&
         j + STRIP <= s->n;
}

/* The block of c where strips of the two factors meet. sums: of the block so far; NULL: all terms
   are here */
static void MultiplyStripPair(const Product *p, int64_t outer, int64_t inner, int64_t term,
                              int64_t last, const char *outer_strip, const char *inner_strip,
                              float *sums)
{
  const bool left = p->outer.left, ends = last == p->shape->k;
  const int64_t i = left ? outer : inner, j = left ? inner : outer;
  const int64_t steps = RoundUp(last - term, DEPTH) / DEPTH;
  const char *a = left ? outer_strip : inner_strip, *b = left ? inner_strip : outer_strip;
  _Alignas(64) float own[STRIP * STRIP];
  if (!sums && IsPlain(p, i, j)) {
    MultiplyStrips(steps, a, b, (float *)p->c + i * p->shape->ldc + j, p->shape->ldc, false);
    return;
  }
  float *made = sums ? sums : own;
  MultiplyStrips(steps, a, b, made, STRIP, term > 0);
  if (ends) FinishBlock(p, i, j, made);
}

/* All pairs of strips of packed blocks: lanes from outer and from inner on. Compilers do not know
   that tiles read memory: the fence keeps what was packed before them. */
static void MultiplyBlocks(const Product *p, const int64_t first[2], const int64_t lanes[2],
                           int64_t term, int64_t last)
{
  const int64_t bytes = RoundUp(last - term, DEPTH) / DEPTH * STEP;
  float *sums = p->sums;
  atomic_signal_fence(memory_order_seq_cst);
  for (int64_t i = 0; i < lanes[1]; i += STRIP)
    for (int64_t o = 0; o < lanes[0]; o += STRIP) {
      MultiplyStripPair(p, first[0] + o, first[1] + i, term, last,
                        p->packed_outer + o / STRIP * bytes, p->packed_inner + i / STRIP * bytes,
                        sums);
      if (sums) sums += STRIP * STRIP;
    }
}

static void MultiplyAll(const Product *p)
{
  const int64_t k = p->shape->k;
  int64_t first[2], lanes[2];
  for (first[1] = 0; first[1] < p->inner.lanes; first[1] += p->block[1])
    for (first[0] = 0; first[0] < p->outer.lanes; first[0] += p->block[0])
      for (int64_t term = 0; term < k; term += p->terms) {
        const int64_t last = RengaCpuSmaller(k, term + p->terms);
        lanes[0] = RengaCpuSmaller(p->outer.lanes - first[0], p->block[0]);
        lanes[1] = RengaCpuSmaller(p->inner.lanes - first[1], p->block[1]);
        if (p->sums || first[0] == 0)
          PackBlock(&p->inner, first[1], lanes[1], term, last, p->packed_inner);
        PackBlock(&p->outer, first[0], lanes[0], term, last, p->packed_outer);
        MultiplyBlocks(p, first, lanes, term, last);
      }
}

/* Bytes of the parts of the workspace: outer factor, inner factor, sums. No smaller product needs
   more. */
static void DivideWorkspace(const RengaCpuLowShape *s, int64_t m, int64_t n, size_t bytes[3])
{
  const int64_t terms = RoundUp(RengaCpuSmaller(s->k, MOST_TERMS), DEPTH);
  const int64_t outer = RoundUp(RengaCpuSmaller(s->trans_a ? m : n, OUTER_LANES), STRIP);
  const int64_t inner = RoundUp(RengaCpuSmaller(s->trans_a ? n : m, INNER_LANES), STRIP);
  bytes[0] = (size_t)(outer * terms) * sizeof(uint16_t);
  bytes[1] = (size_t)(inner * terms) * sizeof(uint16_t);
  bytes[2] = s->k > MOST_TERMS ? (size_t)(outer * inner) * sizeof(float) : 0;
}

size_t RengaAmxBytes(const RengaCpuLowShape *shape, int64_t m, int64_t n)
{
  size_t bytes[3];
  DivideWorkspace(shape, m, n, bytes);
  return bytes[0] + bytes[1] + bytes[2];
}

/* Eight tiles of 16 rows of 64 bytes. It is constant as compilers do not know that all of it is
   read: they may leave out what is written before. */
static const struct {
  uint8_t palette, start, unused[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tiles = {.palette = 1,
           .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
           .rows = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE}};

void RengaAmxMultiply(const RengaCpuLowShape *shape, int64_t m, int64_t n, const uint16_t *a,
                      const uint16_t *b, const void *bias, void *c, void *workspace)
{
  RengaCpuLowShape part = *shape;
  part.m = m;
  part.n = n;
  const Factor left = {a, m, part.lda, !part.trans_a, true};
  const Factor right = {b, n, part.ldb, part.trans_b, false};
  size_t bytes[3];
  DivideWorkspace(&part, m, n, bytes);
  Product p = {.shape = &part,
               .outer = part.trans_a ? left : right,
               .inner = part.trans_a ? right : left,
               .terms = PartOf(part.k, MOST_TERMS, DEPTH),
               .bias = bias,
               .c = c,
               .packed_outer = workspace};
  p.block[0] = PartOf(p.outer.lanes, OUTER_LANES, STRIP);
  p.block[1] = PartOf(p.inner.lanes, INNER_LANES, STRIP);
  p.packed_inner = p.packed_outer + bytes[0];
  if (bytes[2] > 0) p.sums = (float *)(void *)(p.packed_inner + bytes[1]);
  _tile_loadconfig(&tiles);
  MultiplyAll(&p);
  _tile_release();
}

#endif
