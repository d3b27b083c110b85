/* Plans of products by cuBLASLt, which all families of kernels share: their workspace, and products
   whose terms are cut into parts. */
#include "cuda.h"

size_t RengaCudaPlanBytes_Private(RengaDevice device)
{
  return (RengaCudaOf_Private(device)->module->product_bytes + 63) / 64 * 64;
}

/* The workspace of products is there from the first one on. */
static RengaErrorCode ReserveWorkspace(RengaDevice device)
{
  CudaDevice *cuda = device->data;
  const size_t bytes = RengaCudaWorkspace_Private(device);
  if (!cuda->workspace_free) RENGA_CALL_CUDA(device, module_->eventcreate(&cuda->workspace_free));
  if (bytes && !cuda->workspace) {
    RengaCheck(cuda->module->reserve(bytes, &cuda->workspace) == 0, MPI_COMM_SELF, RENGA_ERR_MEMORY,
               "GPU %d has no %zu bytes more, for products (-device_cuda_workspace): %s",
               cuda->number, bytes, cuda->module->error());
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCudaPlanCreate_Private(RengaDevice device, const RengaCudaProduct *product,
                                           void *plan)
{
  RengaCall(ReserveWorkspace(device));
  RENGA_CALL_CUDA(device,
                  module_->productcreate(product, RengaCudaWorkspace_Private(device), plan));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCudaPlanTry_Private(RengaDevice device, const RengaCudaProduct *product,
                                        void *plan, bool *found)
{
  const RengaCudaModule *module = RengaCudaOf_Private(device)->module;
  RengaCall(ReserveWorkspace(device));
  *found = module->productcreate(product, RengaCudaWorkspace_Private(device), plan) == 0;
  return RENGA_SUCCESS;
}

/* A product on another stream than the last one waits for it: they have one workspace. */
RengaErrorCode RengaCudaTakeWorkspace_Private(RengaDevice device, void *queue)
{
  CudaDevice *cuda = device->data;
  if (cuda->workspace && cuda->workspace_stream && cuda->workspace_stream != queue) {
    RENGA_CALL_CUDA(device, module_->eventrecord(cuda->workspace_free, cuda->workspace_stream));
    RENGA_CALL_CUDA(device, module_->eventwait(cuda->workspace_free, queue));
  }
  cuda->workspace_stream = queue;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCudaPlanRun_Private(RengaDevice device, RengaStream stream, void *plan,
                                        const void *a, const void *b, const void *bias, void *c)
{
  void *queue = RengaCudaStream_Private(device, stream);
  RengaCall(RengaCudaTakeWorkspace_Private(device, queue));
  RENGA_CALL_CUDA(device, module_->productrun(queue, plan, a, b, bias, c,
                                              RengaCudaOf_Private(device)->workspace));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCudaPlanDestroy_Private(RengaDevice device, void *plan)
{
  RENGA_CALL_CUDA(device, module_->productdestroy(plan));
  return RENGA_SUCCESS;
}

/* The sum of so many vectors of float32, which are parts of y, rounded once. out may be the first
   of them. */
RengaErrorCode RengaCudaAddParts_Private(RengaKernel kernel, RengaStream stream, int64_t terms,
                                         void *parts, const RengaTensorSpec *y, void *out)
{
  const RengaTensorSpec wide = {.type = RENGA_FLOAT32};
  const int64_t results = RengaTensorSpecCount(y);
  const RengaCudaReduce shape = {.kind = RENGA_CUDA_SUM,
                                 .across = 1,
                                 .n_kept = 1,
                                 .n_reduced = 1,
                                 .results = results,
                                 .terms = terms,
                                 .pieces = 1,
                                 .per_piece = terms,
                                 .kept = {results},
                                 .kept_stride = {1},
                                 .reduced = {terms},
                                 .reduced_stride = {results}};
  const RengaCudaOperand from[RENGA_CUDA_ARGUMENTS] = {RengaCudaOperand_Private(&wide, parts)};
  const RengaCudaOperand to[RENGA_CUDA_ARGUMENTS] = {RengaCudaOperand_Private(y, out)};
  RENGA_CALL_CUDA(kernel->device,
                  module_->run.reduce(RengaCudaStream_Private(kernel->device, stream), &shape, NULL,
                                      from, to, NULL));
  return RENGA_SUCCESS;
}

/* A gradient of weights has few results and many terms: a GPU computes a tile of results in a
   block, and would have blocks for a part of its multiprocessors alone (108 to 148 of large cards).
   With parts of the terms there are more blocks. How many follows from the shape, whatever the
   card, so that bits do. Each has as many terms, from which memory is still aligned. size: bytes of
   a number of the factors. */
int64_t RengaCudaFindParts_Private(const RengaCudaProduct *p, int64_t size)
{
  enum { TILE = 128, BLOCKS = 128, TERMS = 2048, ALIGNED = 16 };
  const int64_t step_a = p->trans_a ? p->lda : 1, step_b = p->trans_b ? 1 : p->ldb;
  const int64_t tiles = RengaCudaPieces_Private(p->m, TILE) * RengaCudaPieces_Private(p->n, TILE);
  int64_t parts = tiles > 0 ? BLOCKS / tiles : 0;
  if (parts > p->k / TERMS) parts = p->k / TERMS;
  while (parts > 1 && (p->k % parts != 0 || p->k / parts * step_a * size % ALIGNED != 0 ||
                       p->k / parts * step_b * size % ALIGNED != 0 ||
                       p->m * p->n * (int64_t)sizeof(float) % ALIGNED != 0))
    parts--;
  return parts > 1 ? parts : 1;
}

void RengaCudaCutTerms_Private(RengaCudaProduct *p, int64_t parts)
{
  p->k /= parts;
  p->batch = parts;
  p->stride_a = p->k * (p->trans_a ? p->lda : 1);
  p->stride_b = p->k * (p->trans_b ? 1 : p->ldb);
  p->stride_c = p->m * p->n;
}
