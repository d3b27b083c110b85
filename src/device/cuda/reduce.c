/* Reductions of the cuda device over dimensions; the gradient of a bias is one. */
#include "cuda.h"
#include "renga/private/op.h"
#include <string.h>

/* Dimensions in order; neighbours of one sort are one. */
static void CollectAxes_Cuda(const RengaTensorSpec *x, const bool chosen[], RengaCudaReduce *s)
{
  int before = -1; /* sort of the last dimension that was taken */
  int64_t stride = RengaTensorSpecCount(x);
  s->results = s->terms = 1;
  for (int d = 0; d < x->ndim; d++) {
    stride /= x->dim[d];
    if (x->dim[d] == 1) continue;
    int *n = chosen[d] ? &s->n_reduced : &s->n_kept;
    int64_t *extent = chosen[d] ? s->reduced : s->kept;
    *(chosen[d] ? &s->terms : &s->results) *= x->dim[d];
    if (before != chosen[d]) extent[(*n)++] = 1;
    extent[*n - 1] *= x->dim[d];
    (chosen[d] ? s->reduced_stride : s->kept_stride)[*n - 1] = stride;
    before = chosen[d];
  }
  s->across = before == 0;
}

static const struct {
  const char *name;
  RengaCudaSum kind;
  bool mean, root;
} reductions[] = {
    {"ReduceSum", RENGA_CUDA_SUM, false, false},
    {"ReduceMean", RENGA_CUDA_SUM, true, false},
    {"ReduceMax", RENGA_CUDA_MOST, false, false},
    {"ReduceMin", RENGA_CUDA_LEAST, false, false},
    {"ReduceL1", RENGA_CUDA_ABSOLUTES, false, false},
    {"ReduceL2", RENGA_CUDA_SQUARES, false, true},
    {"ReduceSumSquare", RENGA_CUDA_SQUARES, false, false},
};

/* What the result of no terms is, the host knows. */
static RengaErrorCode ReduceCreate_Cuda(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  bool chosen[RENGA_MAX_DIM] = {false};
  RengaCudaReduce s = {.results = 0};
  size_t r = 0;
  if (!RengaCudaAllFloats_Private(call) || RengaTensorSpecCount(&call->in[0]) == 0)
    return RENGA_SUCCESS;
  while (strcmp(reductions[r].name, call->op->name) != 0) r++;
  RengaCall(RengaOpAxes(call, call->in[0].ndim, chosen));
  s.kind = reductions[r].kind;
  s.mean = reductions[r].mean;
  s.root = reductions[r].root;
  CollectAxes_Cuda(&call->in[0], chosen, &s);
  s.per_piece = s.across ? RENGA_CUDA_TERMS_ACROSS : RENGA_CUDA_TERMS;
  s.pieces = RengaCudaPieces_Private(s.terms, s.per_piece);
  RengaCall(RengaCudaCreateShaped_Private(kernel, RengaCudaModuleOf_Private(kernel)->run.reduce,
                                          sizeof s, &s));
  if (s.pieces > 1) kernel->workspace = (size_t)(s.results * s.pieces) * sizeof(double);
  return RENGA_SUCCESS;
}

const RengaKernelRow RengaCudaReduceRows[] = {
    {"ReduceSum", ReduceCreate_Cuda},       {"ReduceMean", ReduceCreate_Cuda},
    {"ReduceMax", ReduceCreate_Cuda},       {"ReduceMin", ReduceCreate_Cuda},
    {"ReduceL1", ReduceCreate_Cuda},        {"ReduceL2", ReduceCreate_Cuda},
    {"ReduceSumSquare", ReduceCreate_Cuda}, {NULL, NULL},
};
