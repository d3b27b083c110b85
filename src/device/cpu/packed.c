/* Products from packed factors, with AVX-512. */
#include "packed.h"

#ifdef __AVX512F__
#include "words.h"

enum {
  LANES = 16, /* floats of a vector, and of a line of the cache */
  VECTORS = 3,
  WIDTH = VECTORS * LANES, /* columns of a tile */
  ROWS = 9,                /* of a tile, or 8: LEAST rows and more are dealt so */
  RUN = 384,               /* terms that are added up in registers */
  COLUMNS = 384,           /* of b that are packed at a time */
  GROUP = 8,               /* panels of a's columns that are packed at a time */
  AHEAD = 4,               /* terms that b is read ahead */
  PIECE = 64,              /* floats that are fetched at once */
  KEPT = 1 << 20,          /* floats of a that stay packed for all columns */
  LEAST = 96,              /* rows, columns and terms that are worth it */
  MOST = 4096,             /* rows and terms: else c goes by too often */
  FEW = 256,               /* rows or terms: with as many of both oneDNN is as fast */
  WIDE = 1024,             /* columns: fewer are packed in vain for few rows */
};

/* Memory that is wanted soon: rows, stride floats apart, of so many pieces. */
typedef struct {
  const float *row;
  int64_t stride, pieces, rows;
  int64_t piece; /* of the first row, the next one */
  int64_t each;  /* at a time */
} Fetch;

static inline void FetchPieces(Fetch *f)
{
  for (int64_t i = 0; i < f->each && f->rows > 0; i++) {
    const float *at = f->row + f->piece * PIECE;
    for (int l = 0; l < PIECE; l += LANES) _mm_prefetch((const char *)(at + l), _MM_HINT_T1);
    if (++f->piece < f->pieces) continue;
    f->piece = 0;
    f->row += f->stride;
    f->rows--;
  }
}

/* Where a panel of a meets one of b. */
typedef struct {
  const float *a, *b; /* packed: rows and WIDTH of each term */
  int64_t terms;
  __mmask16 mask[VECTORS];
  const float *first; /* to which sums are added, rows first_ld apart; NULL: to nothing */
  float *c;
  const float *next; /* the tile of c that comes next */
  int64_t first_ld, ldc;
  Fetch *fetch[2];
} PackedTile;

/* One tile; rows is a constant where it is expanded. Fetching goes on in as many parts of the terms
   as there are rows. */
__attribute__((always_inline)) static inline void MultiplyRows(const PackedTile *t, const int rows)
{
  __m512 sum[ROWS][VECTORS];
  const float *a = t->a, *b = t->b, *last = b + t->terms * WIDTH, *next = t->next;
  const int64_t part = (t->terms + rows - 1) / rows * WIDTH;
#pragma GCC unroll 9
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) sum[r][v] = _mm512_setzero_ps();
#pragma GCC unroll 1
  while (b < last) {
    const float *end = last - b > part ? b + part : last;
    for (int v = 0; v < VECTORS; v++) _mm_prefetch((const char *)(next + LANES * v), _MM_HINT_T0);
    next += t->ldc;
    FetchPieces(t->fetch[0]);
    FetchPieces(t->fetch[1]);
#pragma GCC unroll 1
    for (; b < end; b += WIDTH, a += rows) {
      __m512 x[VECTORS];
#pragma GCC unroll 3
      for (int v = 0; v < VECTORS; v++) {
        x[v] = _mm512_load_ps(b + LANES * v);
        _mm_prefetch((const char *)(b + AHEAD * WIDTH + LANES * v), _MM_HINT_T0);
      }
#pragma GCC unroll 9
      for (int r = 0; r < rows; r++) {
        const __m512 factor = _mm512_set1_ps(a[r]);
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) sum[r][v] = _mm512_fmadd_ps(factor, x[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 9
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) {
      const int64_t first = r * t->first_ld + LANES * v;
      if (t->first)
        sum[r][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(t->mask[v], t->first + first), sum[r][v]);
      _mm512_mask_storeu_ps(t->c + r * t->ldc + LANES * v, t->mask[v], sum[r][v]);
    }
}

static void MultiplyPackedTile(const PackedTile *t, int64_t rows)
{
  if (rows == ROWS)
    MultiplyRows(t, ROWS);
  else
    MultiplyRows(t, ROWS - 1);
}

static __mmask16 FirstLanes(int64_t count)
{
  return count >= LANES ? 0xffff : count > 0 ? (__mmask16)((1U << count) - 1) : 0;
}

/* A part of b: columns and terms, and where they are packed. */
typedef struct {
  int64_t column, columns, term, terms;
  float *packed;
} BlockOfB;

typedef struct {
  const RengaCpuProduct *p;
  int64_t panels; /* of rows */
  bool keeps;     /* a stays packed */
  float *a;
} PackedProduct;

static int64_t FirstRow(const PackedProduct *w, int64_t panel)
{
  const int64_t m = w->p->m, rest = m % w->panels;
  return m / w->panels * panel + RengaCpuSmaller(panel, rest);
}

/* The block that begins there; it has no columns behind the last one. */
static BlockOfB BlockAt(const RengaCpuProduct *p, int64_t column, int64_t term, float *packed)
{
  const int64_t run = p->k > RUN && p->k <= 2 * RUN ? (p->k + 1) / 2 : RUN;
  BlockOfB block = {.column = term < p->k ? column : column + COLUMNS,
                    .term = term < p->k ? term : 0,
                    .packed = packed};
  block.columns = block.column < p->n ? RengaCpuSmaller(COLUMNS, p->n - block.column) : 0;
  block.terms = RengaCpuSmaller(run, p->k - block.term);
  return block;
}

/* Terms [first, last) of a block of b, into panels of columns. */
static void PackTermsOfB(const RengaCpuProduct *p, const BlockOfB *block, int64_t first,
                         int64_t last)
{
  for (int64_t t = first; t < last; t++) {
    const float *from = p->b + (block->term + t) * p->ldb + block->column;
    for (int64_t j = 0; j < block->columns; j += LANES)
      _mm512_store_ps(block->packed + (j / WIDTH * block->terms + t) * WIDTH + j % WIDTH,
                      _mm512_maskz_loadu_ps(FirstLanes(block->columns - j), from + j));
  }
}

/* A panel of rows of a, from a term on. */
static void PackPanelOfA(const RengaCpuProduct *p, int64_t row, int64_t rows, const BlockOfB *block,
                         float *to)
{
  const int64_t terms = block->terms;
  if (p->trans_a) {
    const float *from = p->a + block->term * p->lda + row;
    const __mmask16 mask = FirstLanes(rows);
    for (int64_t t = 0; t < terms; t++)
      _mm512_mask_storeu_ps(to + t * rows, mask, _mm512_maskz_loadu_ps(mask, from + t * p->lda));
    return;
  }
  for (int64_t t = 0; t < terms; t += LANES) {
    const float *from = p->a + row * p->lda + block->term + t;
    const __mmask16 mask = FirstLanes(terms - t);
    __m512i word[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      word[i] =
          i < rows ? _mm512_maskz_loadu_epi32(mask, from + i * p->lda) : _mm512_setzero_si512();
    RengaTurnWords(word);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      if (i < terms - t) _mm512_mask_storeu_epi32(to + (t + i) * rows, FirstLanes(rows), word[i]);
  }
}

/* Rows of so many floats, to be there after so many tiles. */
static Fetch SoonRows(const float *from, int64_t stride, int64_t rows, int64_t floats,
                      int64_t tiles)
{
  Fetch f = {.row = from, .stride = stride, .rows = rows};
  f.pieces = (floats + PIECE - 1) / PIECE;
  f.each = RengaCpuPieces(rows * f.pieces, tiles * (ROWS - 1));
  return f;
}

/* Rows [first, last) of a, as they are packed or as they lie. */
static Fetch FetchRowsOfA(const PackedProduct *w, const BlockOfB *block, const int64_t row[2],
                          int64_t tiles)
{
  const RengaCpuProduct *p = w->p;
  const int64_t rows = row[1] - row[0], term = block->term, terms = block->terms;
  if (w->keeps && block->column > 0)
    return SoonRows(w->a + term * p->m + row[0] * terms, PIECE, rows * terms / PIECE, PIECE, tiles);
  if (p->trans_a)
    return SoonRows(p->a + term * p->lda + row[0], p->lda, rows > 0 ? terms : 0, rows, tiles);
  return SoonRows(p->a + row[0] * p->lda + term, p->lda, rows, terms, tiles);
}

/* The next block of b, of which as many terms are packed as tiles of this one are done. */
typedef struct {
  BlockOfB block;
  int64_t tiles, done, asked, packed;
  Fetch fetch;
} NextBlock;

static NextBlock BeginNext(const RengaCpuProduct *p, const BlockOfB *block, int64_t tiles)
{
  NextBlock next = {.block = *block, .tiles = tiles};
  next.fetch = SoonRows(p->b + block->term * p->ldb + block->column, p->ldb, 0, block->columns, 1);
  return next;
}

/* Before each tile: what was fetched with the one before it is packed, and some terms more are
   wanted. */
static void GoOnWithNext(const RengaCpuProduct *p, NextBlock *n)
{
  if (n->block.columns == 0) return;
  const int64_t terms = n->block.terms, last = terms * ++n->done / n->tiles;
  PackTermsOfB(p, &n->block, n->packed, last);
  n->packed = last;
  const int64_t wanted = RengaCpuSmaller(terms, terms * (n->done + 2) / n->tiles);
  n->fetch.rows += wanted - n->asked;
  n->asked = wanted;
  n->fetch.each = RengaCpuPieces(n->fetch.rows * n->fetch.pieces, ROWS);
}

/* Rows of one panel, all columns of the block. */
static void MultiplyPanelOfA(const PackedProduct *w, const BlockOfB *block, int64_t panel,
                             const float *a, Fetch *fetch, NextBlock *next)
{
  const RengaCpuProduct *p = w->p;
  const int64_t row = FirstRow(w, panel), rows = FirstRow(w, panel + 1) - row;
  const bool biased = p->bias && block->term == 0;
  float *c = p->c + row * p->ldc + block->column;
  const float *first = biased ? p->bias + block->column : c;
  if (!biased && p->beta == 0 && block->term == 0) first = NULL;
  PackedTile t = {.a = a,
                  .terms = block->terms,
                  .first_ld = biased ? 0 : p->ldc,
                  .ldc = p->ldc,
                  .fetch = {fetch, &next->fetch}};
  for (int64_t j = 0; j < block->columns; j += WIDTH) {
    t.b = block->packed + j * block->terms;
    t.c = c + j;
    t.first = first ? first + j : NULL;
    t.next = j + WIDTH < block->columns ? t.c + WIDTH : c + rows * p->ldc;
    for (int v = 0; v < VECTORS; v++) t.mask[v] = FirstLanes(block->columns - j - LANES * v);
    GoOnWithNext(p, next);
    MultiplyPackedTile(&t, rows);
  }
}

static void MultiplyBlockOfB(const PackedProduct *w, const BlockOfB *block, NextBlock *next)
{
  const RengaCpuProduct *p = w->p;
  const int64_t group = p->trans_a ? GROUP : 1, wide = RengaCpuPieces(block->columns, WIDTH);
  for (int64_t first = 0; first < w->panels; first += group) {
    const int64_t end = RengaCpuSmaller(w->panels, first + group), row = FirstRow(w, first);
    const int64_t further[2] = {FirstRow(w, end),
                                FirstRow(w, RengaCpuSmaller(w->panels, end + group))};
    float *a = w->keeps ? w->a + block->term * p->m + row * block->terms : w->a;
    Fetch fetch = FetchRowsOfA(w, block, further, (end - first) * wide);
    for (int64_t i = first; i < end && (!w->keeps || block->column == 0); i++)
      PackPanelOfA(p, FirstRow(w, i), FirstRow(w, i + 1) - FirstRow(w, i), block,
                   a + (FirstRow(w, i) - row) * block->terms);
    for (int64_t i = first; i < end; i++)
      MultiplyPanelOfA(w, block, i, a + (FirstRow(w, i) - row) * block->terms, &fetch, next);
  }
}

bool RengaCpuPackedFits(const RengaCpuProduct *p)
{
  return !p->trans_b && p->alpha == 1 && p->m >= LEAST && p->n >= LEAST && p->k >= LEAST &&
         p->m <= MOST && p->k <= MOST && (p->k < FEW || (p->m < FEW && p->n >= WIDE));
}

/* A part may keep what the whole is too large for. */
int64_t RengaCpuPackedFloats(const RengaCpuProduct *p)
{
  const int64_t least = GROUP * ROWS * RUN;
  const int64_t kept = p->n > COLUMNS ? RengaCpuSmaller(p->m * p->k, KEPT) : 0;
  return 2 * COLUMNS * RUN + RengaCpuPieces(kept > least ? kept : least, LANES) * LANES;
}

void RengaCpuMultiplyPacked(const RengaCpuProduct *p, float *work)
{
  float *const packed[2] = {work, work + COLUMNS * RUN};
  const PackedProduct w = {.p = p,
                           .panels = RengaCpuPieces(p->m, ROWS),
                           .keeps = p->n > COLUMNS && p->m * p->k <= KEPT,
                           .a = work + 2 * COLUMNS * RUN};
  BlockOfB block = BlockAt(p, 0, 0, packed[0]);
  PackTermsOfB(p, &block, 0, block.terms);
  for (int now = 0; block.columns > 0; now = 1 - now) {
    const BlockOfB after = BlockAt(p, block.column, block.term + block.terms, packed[1 - now]);
    NextBlock next = BeginNext(p, &after, w.panels * RengaCpuPieces(block.columns, WIDTH));
    MultiplyBlockOfB(&w, &block, &next);
    block = after;
  }
}

#else

bool RengaCpuPackedFits(const RengaCpuProduct *p)
{
  return false;
}

int64_t RengaCpuPackedFloats(const RengaCpuProduct *p)
{
  return 0;
}

void RengaCpuMultiplyPacked(const RengaCpuProduct *p, float *work)
{
}

#endif
