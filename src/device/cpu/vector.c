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

/* Groups of 64 pieces, so that the partial sums fit on the stack. */
static double SquaresOfVector(int threads, const RengaVector *vector)
{
  enum { GROUP = 64 };
  const float *x = vector->data;
  double total = 0, part[GROUP];
  for (int64_t start = 0; start < vector->count; start += (int64_t)GROUP * PIECE) {
    int64_t here = RengaCpuSmaller(vector->count - start, (int64_t)GROUP * PIECE);
    int64_t pieces = RengaCpuPieces(here, PIECE);
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
    for (int64_t piece = 0; piece < pieces; piece++)
      part[piece] =
          SquaresOfPiece(RengaCpuSmaller(here - piece * PIECE, PIECE), x + start + piece * PIECE);
    for (int64_t piece = 0; piece < pieces; piece++) total += part[piece];
  }
  return total;
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

void RENGA_ISA_NAME(RengaCpuSumsOfSquares)(int threads, int count, const RengaVector x[],
                                           double sums[])
{
  for (int first = 0; first < count; first++) {
    int64_t pieces;
    const int end = EndOfShort(count, first, x, sizeof *x, &pieces);
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(threads, pieces)) if (pieces > 1)
    for (int k = first; k < end; k++) sums[k] = SquaresOfVector(1, &x[k]);
    if (end < count) sums[end] = SquaresOfVector(threads, &x[end]);
    first = end;
  }
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

/* A vector of the table. */
static void UpdateSgdVector(int threads, const RengaSgdStep *step, double scale,
                            const RengaParameterUpdate *update)
{
  const int64_t count = update->parameter.count, pieces = RengaCpuPieces(count, PIECE);
  float *parameter = update->parameter.data, *momentum = update->moment[0].data;
  const float *gradient = update->gradient.data;
  const float rate = (float)(step->learning_rate * update->rate_scale);
  const float decay = (float)update->weight_decay;
  const float keep = step->first ? 0 : (float)step->momentum;
  const float take = step->first ? 1 : (float)(1 - step->dampening);
  const float a = step->nesterov ? 1 : 0, b = step->nesterov ? (float)step->momentum : 1;
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * PIECE, here = RengaCpuSmaller(count - first, PIECE);
    if (momentum)
      SgdMomentum(rate, decay, (float)scale, keep, take, a, b, here, parameter + first,
                  gradient + first, momentum + first);
    else
      SgdPlain(rate, decay, (float)scale, here, parameter + first, gradient + first);
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

typedef struct {
  float shrink, decay, scale, keep1, take1, keep2, take2, rate, root, epsilon;
} Adam;

static void AdamPiece(Adam s, int64_t count, float *restrict parameter,
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

/* What is the same for all elements of a parameter. */
static Adam AdamOf(const RengaAdamStep *step, double scale, const RengaParameterUpdate *update)
{
  const double correction1 = 1 - pow(step->beta1, (double)step->step);
  const double correction2 = 1 - pow(step->beta2, (double)step->step);
  const double rate = step->learning_rate * update->rate_scale, decay = update->weight_decay;
  return (Adam){
      .shrink = step->decoupled ? (float)(1 - rate * decay) : 1,
      .decay = step->decoupled ? 0 : (float)decay,
      .scale = (float)scale,
      .keep1 = (float)step->beta1,
      .take1 = (float)(1 - step->beta1),
      .keep2 = (float)step->beta2,
      .take2 = (float)(1 - step->beta2),
      .rate = (float)(rate / correction1),
      .root = (float)(1 / sqrt(correction2)),
      .epsilon = (float)step->epsilon,
  };
}

static void UpdateAdamVector(int threads, const RengaAdamStep *step, double scale,
                             const RengaParameterUpdate *update)
{
  const int64_t count = update->parameter.count, pieces = RengaCpuPieces(count, PIECE);
  const Adam s = AdamOf(step, scale, update);
  float *parameter = update->parameter.data;
  float *first = update->moment[0].data, *second = update->moment[1].data;
  const float *gradient = update->gradient.data;
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
