/* Vectors: one pass over memory each, in pieces of RENGA_VECTOR_PIECE elements. Threads share the
   pieces of a long vector; of short ones, several that follow each other in a table, each thread
   takes whole vectors. */
#include "low.h"
#include <math.h>
#include <string.h>

enum { PIECE = RENGA_VECTOR_PIECE };

void RENGA_ISA_NAME(RengaCpuAdd)(int threads, int64_t count, float y[], const float x[])
{
  int64_t pieces = RengaCpuPieces(count, PIECE);
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * PIECE, last = RengaCpuSmaller(count, first + PIECE);
#pragma omp simd
    for (int64_t i = first; i < last; i++) y[i] += x[i];
  }
}

static double SquaresOfPiece(int64_t count, const float x[])
{
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) sum += (double)x[i] * x[i];
  return sum;
}

/* The same of some whole pieces at once, so that none waits for its own additions. */
enum { TOGETHER = 4 };

static void SquaresTogether(const float x[], double square[TOGETHER])
{
  double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
  for (int64_t i = 0; i < PIECE; i++) {
    s0 += (double)x[i] * x[i];
    s1 += (double)x[i + PIECE] * x[i + PIECE];
    s2 += (double)x[i + 2 * PIECE] * x[i + 2 * PIECE];
    s3 += (double)x[i + 3 * PIECE] * x[i + 3 * PIECE];
  }
  square[0] = s0;
  square[1] = s1;
  square[2] = s2;
  square[3] = s3;
}

/* Pieces [first, last) of all vectors of the table, counted one vector after the other. */
static void SquaresOfPieces(int count, const RengaVector x[], int64_t first, int64_t last,
                            double squares[])
{
  int64_t before = 0;
  for (int k = 0; k < count && before < last; k++) {
    const float *data = x[k].data;
    const int64_t end = before + RengaCpuPieces(x[k].count, PIECE);
    const int64_t stop = RengaCpuSmaller(end, last);
    for (int64_t p = first > before ? first : before, done; p < stop; p += done) {
      const int64_t at = (p - before) * PIECE, left = x[k].count - at;
      done = p + TOGETHER <= stop && left >= TOGETHER * PIECE ? TOGETHER : 1;
      if (done == TOGETHER)
        SquaresTogether(data + at, squares + p);
      else
        squares[p] = SquaresOfPiece(RengaCpuSmaller(left, PIECE), data + at);
    }
    before = end;
  }
}

void RENGA_ISA_NAME(RengaCpuSumsOfSquares)(int threads, int count, const RengaVector x[],
                                           double squares[])
{
  int64_t pieces = 0;
  for (int k = 0; k < count; k++) pieces += RengaCpuPieces(x[k].count, PIECE);
  const int shares = RengaCpuThreads(threads, pieces);
#pragma omp parallel for schedule(static) num_threads(shares) if (shares > 1)
  for (int t = 0; t < shares; t++)
    SquaresOfPieces(count, x, pieces * t / shares, pieces * (t + 1) / shares, squares);
}

enum { SHORT = 4 * PIECE }; /* elements of a vector that one thread takes as a whole */

/* The first vector behind `first` that is long, or the end; pieces: of those before it. */
static int EndOfShort(int count, int first, const RengaVector *vector, size_t stride,
                      int64_t *pieces)
{
  int end = first;
  *pieces = 0;
  for (; end < count; end++) {
    const RengaVector *next =
        (const RengaVector *)(const void *)((const char *)vector + (size_t)end * stride);
    if (next->count > SHORT) break;
    *pieces += RengaCpuPieces(next->count, PIECE);
  }
  return end;
}

/* Elements [first, first + count) of the value beside a parameter follow it. */
static void StoreValue_Cpu(const RengaParameterUpdate *update, int64_t first, int64_t count)
{
  const RengaVector *value = &update->value;
  if (!value->data) return;
  const float *parameter = (const float *)update->parameter.data + first;
  if (value->type == RENGA_FLOAT32)
    memcpy((float *)value->data + first, parameter, (size_t)count * sizeof *parameter);
  else
    RengaCpuNarrow(value->type, count, parameter, (uint16_t *)value->data + first);
}

static void SgdPlain(float rate, float decay, float scale, int64_t count, float *restrict parameter,
                     const float *restrict gradient)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    parameter[i] -= rate * (scale * gradient[i] + decay * parameter[i]);
}

/* v = keep * v + take * g; p -= rate * (a * g + b * v) */
static void SgdMomentum(float rate, float decay, float scale, float keep, float take, float a,
                        float b, int64_t count, float *restrict parameter,
                        const float *restrict gradient, float *restrict momentum)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float g = scale * gradient[i] + decay * parameter[i];
    float v = keep * momentum[i] + take * g;
    momentum[i] = v;
    parameter[i] -= rate * (a * g + b * v);
  }
}

/* momentum: [count] or NULL */
static void SgdPiece(const RengaSgdFactors *s, int64_t count, float *parameter,
                     const float *gradient, float *momentum)
{
  if (momentum)
    SgdMomentum(s->rate, s->decay, s->scale, s->keep, s->take, s->a, s->b, count, parameter,
                gradient, momentum);
  else
    SgdPlain(s->rate, s->decay, s->scale, count, parameter, gradient);
}

/* Elements of a table that follow each other and have gradients, or gradients of 0. */
typedef struct {
  int64_t at, count, end; /* end: of those that this thread updates */
  int64_t read;           /* rows with gradients before them */
  const float *gradient;
} TableSpan;

/* The first of some rows with a gradient that is no smaller. */
static int64_t FindReadRow(const RengaRows *rows, int64_t row)
{
  int64_t first = 0, last = *rows->count;
  while (first < last) {
    const int64_t middle = (first + last) / 2;
    if (rows->index[middle] < row)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

/* The span behind it; false: there is none. */
static bool NextSpan(const RengaParameterUpdate *update, TableSpan *span)
{
  enum { NOTHING = 4096 };
  static const float nothing[NOTHING];
  const RengaRows *rows = &update->rows;
  span->at += span->count;
  if (span->at >= span->end) return false;
  const int64_t next =
      span->read < *rows->count ? rows->index[span->read] * rows->width : span->end;
  if (next == span->at) {
    span->gradient = (const float *)update->gradient.data + span->read++ * rows->width;
    span->count = rows->width;
  } else {
    span->gradient = nothing;
    span->count = RengaCpuSmaller(RengaCpuSmaller(next, span->end) - span->at, NOTHING);
  }
  return true;
}

/* Pieces of an update of rows, and the first span of one: a row with a gradient, or all rows. */
static int64_t PiecesOfRows(const RengaParameterUpdate *update)
{
  const RengaRows *rows = &update->rows;
  return rows->whole ? RengaCpuPieces(update->parameter.count, PIECE) : *rows->count;
}

static TableSpan SpansOfPiece(const RengaParameterUpdate *update, int64_t piece)
{
  const RengaRows *rows = &update->rows;
  const int64_t pieces = PiecesOfRows(update), table = update->parameter.count / rows->width;
  const int64_t row = rows->whole ? table * piece / pieces : rows->index[piece];
  const int64_t end = rows->whole ? table * (piece + 1) / pieces : row + 1;
  return (TableSpan){.at = row * rows->width,
                     .end = end * rows->width,
                     .read = rows->whole ? FindReadRow(rows, row) : piece};
}

/* Threads worth waking for an update of rows. */
static int ThreadsOfRows(int threads, const RengaParameterUpdate *update)
{
  const RengaRows *rows = &update->rows;
  const int64_t count = rows->whole ? update->parameter.count : *rows->count * rows->width;
  return RengaCpuThreads(threads, RengaCpuPieces(count, PIECE));
}

static void UpdateSgdRows(int threads, const RengaSgdFactors *s, const RengaParameterUpdate *update)
{
  float *parameter = update->parameter.data, *momentum = update->moment[0].data;
#pragma omp parallel for schedule(static) num_threads(ThreadsOfRows(threads, update))
  for (int64_t piece = 0; piece < PiecesOfRows(update); piece++) {
    TableSpan span = SpansOfPiece(update, piece);
    while (NextSpan(update, &span))
      SgdPiece(s, span.count, parameter + span.at, span.gradient,
               momentum ? momentum + span.at : NULL);
  }
}

/* A vector of the table. */
static void UpdateSgdVector(int threads, const RengaSgdStep *step, double scale,
                            const RengaParameterUpdate *update)
{
  const int64_t count = update->parameter.count, pieces = RengaCpuPieces(count, PIECE);
  float *parameter = update->parameter.data, *momentum = update->moment[0].data;
  const float *gradient = update->gradient.data;
  const RengaSgdFactors s = RengaSgdFactorsOf_Private(step, scale, update);
  if (update->rows.width) {
    UpdateSgdRows(threads, &s, update);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * PIECE, here = RengaCpuSmaller(count - first, PIECE);
    SgdPiece(&s, here, parameter + first, gradient + first, momentum ? momentum + first : NULL);
    StoreValue_Cpu(update, first, here);
  }
}

void RENGA_ISA_NAME(RengaCpuUpdateSgd)(int threads, const RengaSgdStep *step, double scale,
                                       int count, const RengaParameterUpdate updates[])
{
  for (int first = 0; first < count; first++) {
    int64_t pieces;
    const int end = EndOfShort(count, first, &updates[0].parameter, sizeof *updates, &pieces);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(threads, pieces)) if (pieces > 1)
    for (int k = first; k < end; k++) UpdateSgdVector(1, step, scale, &updates[k]);
    if (end < count) UpdateSgdVector(threads, step, scale, &updates[end]);
    first = end;
  }
}

static void AdamPiece(RengaAdamFactors s, int64_t count, float *restrict parameter,
                      const float *restrict gradient, float *restrict first, float *restrict second)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float p = parameter[i], g = s.scale * gradient[i] + s.decay * p;
    float m = s.keep1 * first[i] + s.take1 * g;
    float v = s.keep2 * second[i] + s.take2 * (g * g);
    first[i] = m;
    second[i] = v;
    parameter[i] = s.shrink * p - s.rate * m / (sqrtf(v) * s.root + s.epsilon);
  }
}

static void UpdateAdamRows(int threads, const RengaAdamFactors *s,
                           const RengaParameterUpdate *update)
{
  float *parameter = update->parameter.data;
  float *first = update->moment[0].data, *second = update->moment[1].data;
#pragma omp parallel for schedule(static) num_threads(ThreadsOfRows(threads, update))
  for (int64_t piece = 0; piece < PiecesOfRows(update); piece++) {
    TableSpan span = SpansOfPiece(update, piece);
    while (NextSpan(update, &span))
      AdamPiece(*s, span.count, parameter + span.at, span.gradient, first + span.at,
                second + span.at);
  }
}

static void UpdateAdamVector(int threads, const RengaAdamStep *step, double scale,
                             const RengaParameterUpdate *update)
{
  const int64_t count = update->parameter.count, pieces = RengaCpuPieces(count, PIECE);
  const RengaAdamFactors s = RengaAdamFactorsOf_Private(step, scale, update);
  float *parameter = update->parameter.data;
  float *first = update->moment[0].data, *second = update->moment[1].data;
  const float *gradient = update->gradient.data;
  if (update->rows.width) {
    UpdateAdamRows(threads, &s, update);
    return;
  }
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t start = piece * PIECE, here = RengaCpuSmaller(count - start, PIECE);
    AdamPiece(s, here, parameter + start, gradient + start, first + start, second + start);
    StoreValue_Cpu(update, start, here);
  }
}

void RENGA_ISA_NAME(RengaCpuUpdateAdam)(int threads, const RengaAdamStep *step, double scale,
                                        int count, const RengaParameterUpdate updates[])
{
  for (int first = 0; first < count; first++) {
    int64_t pieces;
    const int end = EndOfShort(count, first, &updates[0].parameter, sizeof *updates, &pieces);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(threads, pieces)) if (pieces > 1)
    for (int k = first; k < end; k++) UpdateAdamVector(1, step, scale, &updates[k]);
    if (end < count) UpdateAdamVector(threads, step, scale, &updates[end]);
    first = end;
  }
}
