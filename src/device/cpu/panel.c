/* Products in panels of 14 rows and 32 columns, with AVX-512. */
#include "panel.h"

#ifdef __AVX512F__
#include "words.h"

enum {
  LANES = 16,  /* floats of a vector */
  VECTORS = 2, /* of a panel of columns */
  WIDTH = VECTORS * LANES,
  ROWS = 14,  /* of a panel of rows, at most; at least half as many */
  RUN = 384,  /* terms that are added up in registers */
  BASES = 5,  /* addresses that three rows each are reached from */
  SMALL = 64, /* rows and columns that are worth it */
};

/* Rows of a, of which either the terms follow each other or the rows do. */
typedef struct {
  const float *a;
  int64_t lda, terms;
  const float *b; /* its terms ldb apart */
  int64_t ldb;
  int vectors;
  __mmask16 last; /* columns of the last vector */
  bool adds;
  float *c;
  int64_t ldc;
} Tile;

/* One tile; rows, vectors and by_rows are constants where it is expanded. */
static inline __attribute__((always_inline)) void
MultiplyPanel(const Tile *t, const int rows, const int vectors, const bool by_rows)
{
  __m512 sum[ROWS][VECTORS];
  const float *base[BASES], *a = t->a, *b = t->b;
  const int64_t lda = t->lda, twice = 2 * lda, ldb = t->ldb;
#pragma GCC unroll 14
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_setzero_ps();
#pragma GCC unroll 5
  for (int i = 0; i < BASES; i++) base[i] = a + 3 * i * lda;
  for (int64_t term = 0; term < t->terms; term++, b += ldb) {
    __m512 x[VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      x[v] = v < vectors - 1 ? _mm512_loadu_ps(b + LANES * v)
                             : _mm512_maskz_loadu_ps(t->last, b + LANES * v);
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
      const int64_t from = r % 3 == 0 ? 0 : r % 3 == 1 ? lda : twice;
      const __m512 factor = _mm512_set1_ps(by_rows ? a[r] : base[r / 3][from]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_fmadd_ps(factor, x[v], sum[r][v]);
    }
    a += by_rows ? lda : 0;
#pragma GCC unroll 5
    for (int i = 0; i < BASES; i++) base[i]++;
  }
#pragma GCC unroll 14
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      const __mmask16 mask = v < vectors - 1 ? 0xffff : t->last;
      float *to = t->c + r * t->ldc + LANES * v;
      if (t->adds) sum[r][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum[r][v]);
      _mm512_mask_storeu_ps(to, mask, sum[r][v]);
    }
}

#define PANEL(rows, by_rows)                                                                       \
  case rows:                                                                                       \
    if (t->vectors == 2)                                                                           \
      MultiplyPanel(t, rows, 2, by_rows);                                                          \
    else                                                                                           \
      MultiplyPanel(t, rows, 1, by_rows);                                                          \
    break;
#define PANELS(name, by_rows)                                                                      \
  static void name(const Tile *t, int64_t rows)                                                    \
  {                                                                                                \
    switch (rows) {                                                                                \
      PANEL(7, by_rows)                                                                            \
      PANEL(8, by_rows)                                                                            \
      PANEL(9, by_rows)                                                                            \
      PANEL(10, by_rows)                                                                           \
      PANEL(11, by_rows)                                                                           \
      PANEL(12, by_rows)                                                                           \
      PANEL(13, by_rows)                                                                           \
      PANEL(14, by_rows)                                                                           \
    }                                                                                              \
  }
PANELS(MultiplyByTerms, false)
PANELS(MultiplyByRows, true)

/* The terms of up to 16 columns, which follow each other, into rows of a packed panel. */
static void PackColumns(int64_t columns, int64_t terms, const float *from, int64_t ld, float *to)
{
  for (int64_t term = 0; term < terms; term += LANES) {
    const int64_t here = RengaCpuSmaller(terms - term, LANES);
    const __mmask16 mask = (__mmask16)((1U << here) - 1);
    __m512i row[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      row[i] = i < columns ? _mm512_maskz_loadu_epi32(mask, from + i * ld + term)
                           : _mm512_setzero_si512();
    RengaTurnWords(row);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
      if (i < here) _mm512_storeu_si512(to + (term + i) * WIDTH, row[i]);
  }
}

/* What fills 16 x 16 numbers is turned in registers. */
void RengaCpuTurnMatrix(int threads, int64_t rows, int64_t columns, const float *from, float *to)
{
  const int64_t whole = rows / LANES * LANES, wide = columns / LANES * LANES;
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, rows / LANES))
  for (int64_t i = 0; i < whole; i += LANES)
    for (int64_t j = 0; j < wide; j += LANES) {
      __m512i row[LANES];
#pragma GCC unroll 16
      for (int r = 0; r < LANES; r++) row[r] = _mm512_loadu_si512(from + (i + r) * columns + j);
      RengaTurnWords(row);
#pragma GCC unroll 16
      for (int r = 0; r < LANES; r++) _mm512_storeu_si512(to + (j + r) * rows + i, row[r]);
    }
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = i < whole ? wide : 0; j < columns; j++)
      to[j * rows + i] = from[i * columns + j];
}

/* Rows are dealt to as few panels as there can be, as evenly as can be. */
static int64_t CountRowPanels(int64_t m)
{
  return RengaCpuPieces(m, ROWS);
}

static int64_t FirstRowOfPanel(int64_t m, int64_t panel)
{
  const int64_t panels = CountRowPanels(m), rest = m % panels;
  return m / panels * panel + (panel < rest ? panel : rest);
}

/* The terms of the run that begins at one. */
static int64_t TermsOfRun(int64_t k, int64_t first)
{
  const int64_t run = k > RUN && k <= 2 * RUN ? (k + 1) / 2 : RUN;
  return RengaCpuSmaller(run, k - first);
}

/* Terms of a product, and panels of the columns of its result: one thread's. */
typedef struct {
  int64_t product, first, terms, columns[2];
} RunOfTerms;

static void AddRun(const RengaCpuPanelSum *sum, const RunOfTerms *run, float *packed)
{
  const RengaCpuProduct *p = &sum->first;
  const int64_t first = run->first, terms = run->terms, end = run->columns[1];
  const float *a = p->a + run->product * sum->a_step + first * (p->trans_a ? p->lda : 1);
  const float *b = p->b + run->product * sum->b_step + first * (p->trans_b ? 1 : p->ldb);
  for (int64_t j = run->columns[0]; j < end && p->trans_b; j++)
    for (int64_t column = j * WIDTH; column < (j + 1) * WIDTH && column < p->n; column += LANES)
      PackColumns(RengaCpuSmaller(p->n - column, LANES), terms, b + column * p->ldb, p->ldb,
                  packed + j * WIDTH * RUN + column % WIDTH);
  for (int64_t r = 0; r < CountRowPanels(p->m); r++) {
    const int64_t row = FirstRowOfPanel(p->m, r), rows = FirstRowOfPanel(p->m, r + 1) - row;
    for (int64_t j = run->columns[0]; j < end; j++) {
      const int64_t column = j * WIDTH, width = RengaCpuSmaller(p->n - column, WIDTH);
      const Tile tile = {.a = a + row * (p->trans_a ? 1 : p->lda),
                         .lda = p->lda,
                         .terms = terms,
                         .b = p->trans_b ? packed + column * RUN : b + column,
                         .ldb = p->trans_b ? WIDTH : p->ldb,
                         .vectors = width > LANES ? 2 : 1,
                         .last = (__mmask16)((1U << ((width - 1) % LANES + 1)) - 1),
                         .adds = run->product > 0 || first > 0,
                         .c = p->c + row * p->ldc + column,
                         .ldc = p->ldc};
      (p->trans_a ? MultiplyByRows : MultiplyByTerms)(&tile, rows);
    }
  }
}

bool RengaCpuPanelsFit(int threads, const RengaCpuProduct *p)
{
  return RengaCpuPieces(p->n, WIDTH) >= threads && p->m >= SMALL && p->n >= SMALL && p->k > 0;
}

int64_t RengaCpuPanelFloats(const RengaCpuProduct *p)
{
  return p->trans_b ? RengaCpuPieces(p->n, WIDTH) * WIDTH * RUN : 0;
}

/* Threads share the columns. */
void RengaCpuAddPanels(int threads, const RengaCpuPanelSum *sum, float *work)
{
  const RengaCpuProduct *p = &sum->first;
  const int64_t columns = RengaCpuPieces(p->n, WIDTH), parts = RengaCpuSmaller(threads, columns);
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, parts))
  for (int64_t part = 0; part < parts; part++) {
    RunOfTerms run = {.columns = {columns * part / parts, columns * (part + 1) / parts}};
    for (run.product = 0; run.product < sum->count; run.product++)
      for (run.first = 0; run.first < p->k; run.first += run.terms) {
        run.terms = TermsOfRun(p->k, run.first);
        AddRun(sum, &run, work);
      }
  }
}

#else

bool RengaCpuPanelsFit(int threads, const RengaCpuProduct *product)
{
  return false;
}

int64_t RengaCpuPanelFloats(const RengaCpuProduct *product)
{
  return 0;
}

void RengaCpuAddPanels(int threads, const RengaCpuPanelSum *sum, float *work)
{
}

void RengaCpuTurnMatrix(int threads, int64_t rows, int64_t columns, const float *from, float *to)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) to[j * rows + i] = from[i * columns + j];
}

#endif
