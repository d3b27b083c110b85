/* Reductions over dimensions, in double. A result's terms are cut into pieces of a fixed number;
   threads take every eighth or thirty-second term of a piece, a tree adds the threads, and a second
   kernel the pieces. */
#include "kernel.h"

static __device__ inline int64_t PlaceOf(int n, const int64_t *extent, const int64_t *stride,
                                         int64_t index)
{
  int64_t place = 0;
  for (int d = n - 1; d > 0; d--) {
    place += index % extent[d] * stride[d];
    index /= extent[d];
  }
  return n > 0 ? place + index * stride[0] : place;
}

struct SumOf : AddUp {
  static __device__ double Start()
  {
    return 0;
  }
  static __device__ double Term(double v)
  {
    return v;
  }
};
struct SquaresOf : SumOf {
  static __device__ double Term(double v)
  {
    return v * v;
  }
};
struct AbsolutesOf : SumOf {
  static __device__ double Term(double v)
  {
    return fabs(v);
  }
};
struct MostOf : TakeMost {
  static __device__ double Start()
  {
    return -INFINITY;
  }
  static __device__ double Term(double v)
  {
    return v;
  }
};
struct LeastOf : TakeLeast {
  static __device__ double Start()
  {
    return INFINITY;
  }
  static __device__ double Term(double v)
  {
    return v;
  }
};

static __device__ inline void StoreResult(const RengaCudaReduce &s, int64_t result, int64_t piece,
                                          double sum, double *parts, RengaCudaOperand y)
{
  if (s.pieces > 1) {
    parts[result * s.pieces + piece] = sum;
    return;
  }
  if (s.root) sum = sqrt(sum);
  Values<void>(y).Put(result, (float)(s.mean ? sum / (double)s.terms : sum));
}

/* Terms are neighbours: a warp takes a result's piece. */
template <class F, class T>
__global__ void ReduceKernel(RengaCudaReduce s, RengaCudaOperand x_, double *parts,
                             RengaCudaOperand y)
{
  const Values<T> x(x_);
  const int64_t line = (int64_t)blockIdx.x * ROWS + threadIdx.y;
  if (line >= s.results * s.pieces) return;
  const int64_t result = line / s.pieces, piece = line % s.pieces;
  const int64_t from = PlaceOf(s.n_kept, s.kept, s.kept_stride, result);
  const int64_t last = (piece + 1) * s.per_piece, end = last < s.terms ? last : s.terms;
  double sum = F::Start();
  for (int64_t t = piece * s.per_piece + threadIdx.x; t < end; t += WARP)
    sum = F::Join(sum, F::Term(x[from + PlaceOf(s.n_reduced, s.reduced, s.reduced_stride, t)]));
  sum = JoinWarp<F>(sum);
  if (threadIdx.x == 0) StoreResult(s, result, piece, sum, parts, y);
}

/* Results are neighbours: a block takes a piece of 32 of them, its 8 warps every eighth term. */
template <class F, class T>
__global__ void ReduceAcrossKernel(RengaCudaReduce s, RengaCudaOperand x_, double *parts,
                                   RengaCudaOperand y)
{
  const Values<T> x(x_);
  RENGA_DYNAMIC_SHARED(double, sums); /* [ROWS, WARP] */
  const int64_t blocks = (s.results + WARP - 1) / WARP, piece = blockIdx.x / blocks;
  const int64_t result = blockIdx.x % blocks * WARP + threadIdx.x;
  const int64_t last = (piece + 1) * s.per_piece, end = last < s.terms ? last : s.terms;
  double sum = F::Start();
  if (result < s.results) {
    const int64_t from = PlaceOf(s.n_kept, s.kept, s.kept_stride, result);
    for (int64_t t = piece * s.per_piece + threadIdx.y; t < end; t += ROWS)
      sum = F::Join(sum, F::Term(x[from + PlaceOf(s.n_reduced, s.reduced, s.reduced_stride, t)]));
  }
  sums[threadIdx.y * WARP + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || result >= s.results) return;
  for (int w = 1; w < ROWS; w++) sum = F::Join(sum, sums[w * WARP + threadIdx.x]);
  StoreResult(s, result, piece, sum, parts, y);
}

/* A warp adds up the pieces of a result. */
template <class F>
__global__ void JoinPiecesKernel(RengaCudaReduce s, const double *__restrict__ parts,
                                 RengaCudaOperand y)
{
  const int64_t result = (int64_t)blockIdx.x * ROWS + threadIdx.y;
  if (result >= s.results) return;
  double sum = F::Start();
  for (int64_t p = threadIdx.x; p < s.pieces; p += WARP)
    sum = F::Join(sum, parts[result * s.pieces + p]);
  sum = JoinWarp<F>(sum);
  s.pieces = 1;
  if (threadIdx.x == 0) StoreResult(s, result, 0, sum, NULL, y);
}

typedef void (*ReduceForm)(RengaCudaReduce, RengaCudaOperand, double *, RengaCudaOperand);
typedef struct {
  ReduceForm terms[VALUE_FORMS], across[VALUE_FORMS];
  void (*pieces)(RengaCudaReduce, const double *, RengaCudaOperand);
} ReduceKernels;
#define KERNELS(F)                                                                                 \
  {                                                                                                \
    RENGA_FORMS_OF(ReduceKernel, F), RENGA_FORMS_OF(ReduceAcrossKernel, F), JoinPiecesKernel<F>    \
  }
static const ReduceKernels reductions[] = {KERNELS(SumOf), KERNELS(SquaresOf), KERNELS(AbsolutesOf),
                                           KERNELS(MostOf), KERNELS(LeastOf)};
#undef KERNELS

RENGA_CUDA_RUN(RengaCudaReduction)
{
  const RengaCudaReduce *s = (const RengaCudaReduce *)shape;
  const ReduceKernels *kernels = &reductions[s->kind];
  const int form = FormFor(in[0]);
  const int64_t blocks = (s->results + WARP - 1) / WARP;
  cudaError_t code;
  (void)context;
  if (s->across)
    code = RENGA_LAUNCH(kernels->across[form], (unsigned)(blocks * s->pieces), TeamBlock(),
                        THREADS * sizeof(double), (cudaStream_t)stream, *s, in[0],
                        (double *)workspace, out[0]);
  else
    code = RENGA_LAUNCH(kernels->terms[form], TeamGrid(false, s->results * s->pieces), TeamBlock(),
                        0, (cudaStream_t)stream, *s, in[0], (double *)workspace, out[0]);
  if (!code && s->pieces > 1)
    code = RENGA_LAUNCH(kernels->pieces, TeamGrid(false, s->results), TeamBlock(), 0,
                        (cudaStream_t)stream, *s, (const double *)workspace, out[0]);
  return RengaCudaSayError("ReduceKernel", code);
}
