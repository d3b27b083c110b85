/* Products of bfloat16 matrices by AMX. Both factors are packed into strips of 32 lanes, which are
   rows of a or columns of b, a block at a time; four of the processor's tiles hold 32 x 32 results
   while two strips go by. Some terms of a strip of a stay in the first cache while strips of b go
   by, and these in the second while strips of a do. */
#include "amx.h"
#include "low.h"
#include "onednn.h"
#include "words.h"
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
  NEAR_TERMS = 256,   /* of a strip in the first cache */
  OUTER_LANES = 512,  /* of a block of the outer factor */
  FEW_LANES = 128,    /* of one whose terms follow each other, where the inner one is narrow */
  NARROW = 256,       /* lanes */
  INNER_LANES = 1024, /* of a block of the inner one, for all blocks of the outer one */
  MOST_SUMS = 1 << 20,
  REGION_ROWS = 128,    /* of c, whose sums stay in the second cache beside the strips of b */
  REGION_COLUMNS = 512, /* of c */
  REGION_SUMS = REGION_ROWS * REGION_COLUMNS,
  FETCHED = 2048, /* bytes of the next strip of a that are fetched with each strip of b */
  AHEAD = 128,    /* bytes that a row is fetched before it is packed */
};
/* Bytes of a result that no cache keeps: it is written past them. */
static const int64_t LARGE = 4 << 20;

/* A factor from its first lane on. Either the terms of a lane follow each other, or its lanes. */
typedef struct {
  const uint16_t *data;
  int64_t lanes, ld;
  bool by_terms;
  bool left; /* a: tiles have a row for each lane; b: for each pair of terms */
} Factor;

typedef struct {
  const RengaCpuLowShape *shape;
  Factor factor[2];        /* the outer and the inner one */
  int64_t block[2], terms; /* lanes and terms that are packed at a time */
  int64_t group;           /* lanes of the outer factor that have sums at a time */
  const void *bias;
  void *c;
  char *packed[2];
  float *sums; /* of blocks of 32 x 32, of a region, or of all lanes where terms are in parts */
  bool passes; /* results are written past the caches */
} Product;

/* What is packed: lanes of both factors from the first on, and some terms of them. */
typedef struct {
  int64_t first[2], lanes[2], term, last;
} PackedBlocks;

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

/* Of so many bits, the lower ones. */
static uint32_t LowBits(int64_t count)
{
  return count >= 32 ? UINT32_MAX : count > 0 ? (1U << count) - 1 : 0;
}

/* A tile of SIDE lanes, whose terms follow each other; zeros where there are none. */
static inline void PackLanes(const Factor *f, int64_t lane, int64_t term, int64_t terms, char *to)
{
  __m512i row[SIDE];
  const uint32_t mask = LowBits(terms - term);
  const uint16_t *from = f->data + lane * f->ld + term;
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; i++) {
    row[i] = _mm512_maskz_loadu_epi16(lane + i < f->lanes ? mask : 0, from + i * f->ld);
    _mm_prefetch((const char *)(from + i * f->ld) + AHEAD, _MM_HINT_T0);
  }
  if (!f->left) RengaTurnWords(row);
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; i++) _mm512_store_si512(to + i * 64, row[i]);
}

/* Both tiles of a strip, where the lanes of a term follow each other. */
static inline void PackTerms(const Factor *f, int64_t lane, int64_t term, int64_t terms, char *to)
{
  static const uint16_t pairs[2 * STRIP] = {
      0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
      11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
      22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
  const __m512i lower = _mm512_loadu_si512(pairs), upper = _mm512_loadu_si512(pairs + STRIP);
  const uint32_t mask = LowBits(f->lanes - lane);
  const uint16_t *from = f->data + term * f->ld + lane;
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; i++, from += 2 * f->ld) {
    const __m512i even = _mm512_maskz_loadu_epi16(term + 2 * i < terms ? mask : 0, from);
    const __m512i odd = _mm512_maskz_loadu_epi16(term + 2 * i + 1 < terms ? mask : 0, from + f->ld);
    _mm_prefetch((const char *)from + AHEAD, _MM_HINT_T0);
    _mm_prefetch((const char *)(from + f->ld) + AHEAD, _MM_HINT_T0);
    _mm512_store_si512(to + i * 64, _mm512_permutex2var_epi16(even, lower, odd));
    _mm512_store_si512(to + TILE + i * 64, _mm512_permutex2var_epi16(even, upper, odd));
  }
  for (int t = 0; t < 2 && f->left; t++, to += TILE) {
    __m512i row[SIDE];
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) row[i] = _mm512_load_si512(to + i * 64);
    RengaTurnWords(row);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++) _mm512_store_si512(to + i * 64, row[i]);
  }
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
    const int64_t lane = first + strip * STRIP, from = term + step * DEPTH;
    if (f->by_terms) {
      PackLanes(f, lane, from, last, tiles);
      PackLanes(f, lane + SIDE, from, last, tiles + TILE);
    } else {
      PackTerms(f, lane, from, last, tiles);
    }
  }
}

static inline void LoadSums(const float *c, size_t stride)
{
  _tile_loadd(0, c, stride);
  _tile_loadd(1, c + SIDE, stride);
  c += SIDE * stride / sizeof *c;
  _tile_loadd(2, c, stride);
  _tile_loadd(3, c + SIDE, stride);
}

/* Two strips, a's and b's; c is [32, 32]. sums: to which these are added, [32, 32] without gaps;
   NULL: zeros */
static void MultiplyStrips(int64_t steps, const char *a, const char *b, const float *sums, float *c,
                           int64_t ldc)
{
  const size_t stride = (size_t)ldc * sizeof *c;
  float *below = c + SIDE * ldc;
  if (sums) {
    LoadSums(sums, STRIP * sizeof *sums);
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

/* Elements of a bias from j on, those of the mask. */
static inline __m512 ReadBias(const Product *p, int64_t j, __mmask16 mask)
{
  if (p->shape->bias == RENGA_FLOAT32)
    return _mm512_maskz_loadu_ps(mask, (const float *)p->bias + j);
  const __m256i bits = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)p->bias + j);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

static inline void PutFloats(const Product *p, float *c, __mmask16 mask, __m512 x)
{
  if (p->shape->adds) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, c));
  if (p->passes && mask == 0xffff)
    _mm512_stream_ps(c, x);
  else
    _mm512_mask_storeu_ps(c, mask, x);
}

/* Sums of columns [j, j + 32) of a row become its elements. */
static inline void FinishRow(const Product *p, int64_t i, int64_t j, const float *sums)
{
  const RengaCpuLowShape *s = p->shape;
  const uint32_t mask = LowBits(s->n - j);
  const __mmask16 half[2] = {(__mmask16)mask, (__mmask16)(mask >> SIDE)};
  const int64_t at = i * s->ldc + j; /* shape: of this part */
  __m512 x[2];
  for (int h = 0; h < 2; h++) {
    x[h] = _mm512_mul_ps(_mm512_load_ps(sums + h * SIDE), _mm512_set1_ps(s->alpha));
    if (s->has_bias) x[h] = _mm512_add_ps(x[h], ReadBias(p, j + h * SIDE, half[h]));
    if (s->c == RENGA_FLOAT32) PutFloats(p, (float *)p->c + at + h * SIDE, half[h], x[h]);
  }
  if (s->c == RENGA_BFLOAT16)
    _mm512_mask_storeu_epi16((uint16_t *)p->c + at, mask, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]));
}

static void FinishBlock(const Product *p, int64_t i, int64_t j, const float *sums)
{
  const int64_t rows = RengaCpuSmaller(p->shape->m - i, STRIP);
  for (int64_t r = 0; r < rows; r++) FinishRow(p, i + r, j, sums + r * STRIP);
}

/* Results are sums as they are, and 32 x 32 of them are there. */
static bool IsPlain(const Product *p, int64_t i, int64_t j)
{
  const RengaCpuLowShape *s = p->shape;
  return s->c == RENGA_FLOAT32 && !s->has_bias && !s->adds && s->alpha == 1 && i + STRIP <= s->m &&
         j + STRIP <= s->n && !p->passes;
}

/* Of the block of c at row i, column j. */
static void FetchResults(const Product *p, int64_t i, int64_t j)
{
  const size_t element = RengaDataTypeSize(p->shape->c), bytes = STRIP * element;
  const char *c = (const char *)p->c + (size_t)(i * p->shape->ldc + j) * element;
  const int64_t rows = RengaCpuSmaller(p->shape->m - i, STRIP);
  for (int64_t r = 0; r < rows; r++, c += (size_t)p->shape->ldc * element)
    for (size_t b = 0; b < bytes; b += 64) _mm_prefetch(c + b, _MM_HINT_T0);
}

/* The block of c at row i, column j, where strips of a and b meet. sums: of the block so far, where
   goes_on, and where they are kept; ends: these are the last terms */
static void MultiplyStripPair(const Product *p, int64_t i, int64_t j, int64_t steps, const char *a,
                              const char *b, float *sums, bool goes_on, bool ends)
{
  const float *from = goes_on ? sums : NULL;
  if (ends && !p->passes) FetchResults(p, i, j);
  if (ends && IsPlain(p, i, j)) {
    MultiplyStrips(steps, a, b, from, (float *)p->c + i * p->shape->ldc + j, p->shape->ldc);
    return;
  }
  MultiplyStrips(steps, a, b, from, sums, STRIP);
  if (ends) FinishBlock(p, i, j, sums);
}

/* A region of the packed block of c, from its row i and its column j on. sums: of its first strips;
   next: floats from those of a strip of a to the next one's */
static void MultiplyRegion(const Product *p, const PackedBlocks *k, int64_t i, int64_t j,
                           float *sums, int64_t next)
{
  const int left = p->factor[0].left ? 0 : 1, right = 1 - left;
  const int64_t bytes = RoundUp(k->last - k->term, DEPTH) / DEPTH * STEP;
  const int64_t near = PartOf(k->last - k->term, NEAR_TERMS, DEPTH);
  const int64_t rows = RengaCpuSmaller(k->lanes[left], i + REGION_ROWS);
  const int64_t columns = RengaCpuSmaller(k->lanes[right], j + REGION_COLUMNS);
  for (int64_t term = k->term; term < k->last; term += near) {
    const int64_t last = RengaCpuSmaller(k->last, term + near);
    const int64_t at = (term - k->term) / DEPTH * STEP;
    const int64_t steps = RoundUp(last - term, DEPTH) / DEPTH;
    for (int64_t r = i; r < rows; r += STRIP) {
      const char *a = p->packed[left] + r / STRIP * bytes + at;
      const char *further = a + (r + STRIP < rows ? bytes : (i - r) / STRIP * bytes + steps * STEP);
      for (int64_t c = j; c < columns; c += STRIP) {
        const int64_t part = (c - j) / STRIP * FETCHED;
        for (int64_t f = part; f < part + FETCHED && f < steps * STEP; f += 64)
          _mm_prefetch(further + f, _MM_HINT_T1);
        MultiplyStripPair(p, k->first[left] + r, k->first[right] + c, steps, a,
                          p->packed[right] + c / STRIP * bytes + at,
                          sums + (r - i) / STRIP * next + (c - j) * STRIP, term > 0,
                          last == p->shape->k);
      }
    }
  }
}

/* All of a packed block of c; lane: its first of the outer factor, among those that have sums.
   Compilers do not know that tiles read memory: the fence keeps what was packed before them. */
static void MultiplyBlocks(const Product *p, const PackedBlocks *k, int64_t lane)
{
  const int left = p->factor[0].left ? 0 : 1, right = 1 - left;
  const bool whole = p->terms >= p->shape->k;
  const int64_t region = RoundUp(RengaCpuSmaller(p->shape->n, REGION_COLUMNS), STRIP);
  const int64_t columns = whole ? region : right == 0 ? p->group : p->block[1];
  const int64_t next = columns * STRIP; /* floats of a strip of a */
  atomic_signal_fence(memory_order_seq_cst);
  for (int64_t j = 0; j < k->lanes[right]; j += REGION_COLUMNS)
    for (int64_t i = 0; i < k->lanes[left]; i += REGION_ROWS) {
      const int64_t row = left == 0 ? i + lane : i, column = right == 0 ? j + lane : j;
      float *sums = whole ? p->sums : p->sums + row / STRIP * next + column * STRIP;
      MultiplyRegion(p, k, i, j, sums, next);
    }
}

/* Lanes of the inner factor that are packed, by some of the outer one: all terms, in parts where
   they are too many. */
static void MultiplyGroup(const Product *p, PackedBlocks *k, int64_t first)
{
  const int64_t end = RengaCpuSmaller(p->factor[0].lanes, first + p->group);
  for (k->term = 0; k->term < p->shape->k; k->term += p->terms) {
    k->last = RengaCpuSmaller(p->shape->k, k->term + p->terms);
    if (p->terms < p->shape->k || first == 0)
      PackBlock(&p->factor[1], k->first[1], k->lanes[1], k->term, k->last, p->packed[1]);
    for (k->first[0] = first; k->first[0] < end; k->first[0] += p->block[0]) {
      k->lanes[0] = RengaCpuSmaller(end - k->first[0], p->block[0]);
      PackBlock(&p->factor[0], k->first[0], k->lanes[0], k->term, k->last, p->packed[0]);
      MultiplyBlocks(p, k, k->first[0] - first);
    }
  }
}

static void MultiplyAll(const Product *p)
{
  PackedBlocks packed;
  for (packed.first[1] = 0; packed.first[1] < p->factor[1].lanes; packed.first[1] += p->block[1]) {
    packed.lanes[1] = RengaCpuSmaller(p->factor[1].lanes - packed.first[1], p->block[1]);
    for (int64_t first = 0; first < p->factor[0].lanes; first += p->group)
      MultiplyGroup(p, &packed, first);
  }
}

/* Bytes of the parts of the workspace: outer factor, inner factor, sums. No smaller product needs
   more, nor one of fewer terms. */
static void DivideWorkspace(const RengaCpuLowShape *s, int64_t m, int64_t n, size_t bytes[3])
{
  const int64_t terms = RoundUp(RengaCpuSmaller(s->k, MOST_TERMS), DEPTH);
  const int64_t all = RoundUp(s->trans_a ? m : n, STRIP), outer = RengaCpuSmaller(all, OUTER_LANES);
  const int64_t inner = RoundUp(RengaCpuSmaller(s->trans_a ? n : m, INNER_LANES), STRIP);
  const int64_t sums = RengaCpuSmaller(all * inner, s->k > MOST_TERMS ? MOST_SUMS : REGION_SUMS);
  bytes[0] = (size_t)(outer * terms) * sizeof(uint16_t);
  bytes[1] = (size_t)(inner * terms) * sizeof(uint16_t);
  bytes[2] = (size_t)sums * sizeof(float);
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

/* Results of float32 that no cache keeps and that fill its lines. */
static bool PassesCaches(const RengaCpuLowShape *s, const void *c)
{
  return s->c == RENGA_FLOAT32 && !s->adds && s->ldc % SIDE == 0 && (uintptr_t)c % 64 == 0 &&
         s->m * s->n * (int64_t)sizeof(float) >= LARGE;
}

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
               .terms = PartOf(part.k, MOST_TERMS, DEPTH),
               .bias = bias,
               .c = c,
               .passes = PassesCaches(&part, c)};
  p.factor[0] = part.trans_a ? left : right;
  p.factor[1] = part.trans_a ? right : left;
  const bool few = p.factor[0].by_terms && p.factor[1].lanes <= NARROW;
  p.block[0] = PartOf(p.factor[0].lanes, few ? FEW_LANES : OUTER_LANES, STRIP);
  p.block[1] = PartOf(p.factor[1].lanes, INNER_LANES, STRIP);
  p.group = RengaCpuSmaller(RoundUp(p.factor[0].lanes, STRIP),
                            MOST_SUMS / p.block[1] / p.block[0] * p.block[0]);
  p.packed[0] = workspace;
  p.packed[1] = p.packed[0] + bytes[0];
  p.sums = (float *)(void *)(p.packed[1] + bytes[1]);
  _tile_loadconfig(&tiles);
  MultiplyAll(&p);
  _tile_release();
  if (p.passes) _mm_sfence();
}

#endif
