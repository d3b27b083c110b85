/* Flat vectors: one pass over memory each, in pieces of RENGA_VECTOR_PIECE elements. */
#include "cpu.h"
#include <math.h>

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
void RENGA_ISA_NAME(RengaCpuSumOfSquares)(int threads, int64_t count, const float x[], double *sum)
{
  enum { GROUP = 64 };
  double total = 0, part[GROUP];
  for (int64_t start = 0; start < count; start += (int64_t)GROUP * PIECE) {
    int64_t here = RengaCpuSmaller(count - start, (int64_t)GROUP * PIECE);
    int64_t pieces = RengaCpuPieces(here, PIECE);
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
    for (int64_t piece = 0; piece < pieces; piece++)
      part[piece] =
          SquaresOfPiece(RengaCpuSmaller(here - piece * PIECE, PIECE), x + start + piece * PIECE);
    for (int64_t piece = 0; piece < pieces; piece++) total += part[piece];
  }
  *sum = total;
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

void RENGA_ISA_NAME(RengaCpuUpdateSgd)(int threads, const RengaSgdStep *step, double scale,
                                       int64_t count, float parameter[], const float gradient[],
                                       float momentum[])
{
  int64_t pieces = RengaCpuPieces(count, PIECE);
  float rate = (float)step->learning_rate, decay = (float)step->weight_decay;
  float keep = step->first ? 0 : (float)step->momentum;
  float take = step->first ? 1 : (float)(1 - step->dampening);
  float a = step->nesterov ? 1 : 0, b = step->nesterov ? (float)step->momentum : 1;
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t first = piece * PIECE, here = RengaCpuSmaller(count - first, PIECE);
    if (momentum)
      SgdMomentum(rate, decay, (float)scale, keep, take, a, b, here, parameter + first,
                  gradient + first, momentum + first);
    else
      SgdPlain(rate, decay, (float)scale, here, parameter + first, gradient + first);
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

void RENGA_ISA_NAME(RengaCpuUpdateAdam)(int threads, const RengaAdamStep *step, double scale,
                                        int64_t count, float parameter[], const float gradient[],
                                        float first[], float second[])
{
  int64_t pieces = RengaCpuPieces(count, PIECE);
  double correction1 = 1 - pow(step->beta1, (double)step->step);
  double correction2 = 1 - pow(step->beta2, (double)step->step);
  Adam s = {
      .shrink = step->decoupled ? (float)(1 - step->learning_rate * step->weight_decay) : 1,
      .decay = step->decoupled ? 0 : (float)step->weight_decay,
      .scale = (float)scale,
      .keep1 = (float)step->beta1,
      .take1 = (float)(1 - step->beta1),
      .keep2 = (float)step->beta2,
      .take2 = (float)(1 - step->beta2),
      .rate = (float)(step->learning_rate / correction1),
      .root = (float)(1 / sqrt(correction2)),
      .epsilon = (float)step->epsilon,
  };
#pragma omp parallel for schedule(static) num_threads(RengaCpuThreads(threads, pieces))
  for (int64_t piece = 0; piece < pieces; piece++) {
    int64_t start = piece * PIECE;
    AdamPiece(s, RengaCpuSmaller(count - start, PIECE), parameter + start, gradient + start,
              first + start, second + start);
  }
}
