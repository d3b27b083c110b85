/* Calls with images [N,…,C] for which a device has no kernel of its own: its kernel for [N,C,…]
   computes on copies, and its outputs are copied back. */
#include "renga/private/device.h"
#include "renga/private/op.h"
#include <string.h>

typedef struct {
  size_t bytes;        /* of the copies, in front of the workspaces of both kinds of kernels */
  size_t *offset;      /* [n_in + n_out] of copies in the workspace */
  void **pointer;      /* [n_in + n_out] room for the arguments of a run */
  RengaKernel *copier; /* [n_in + n_out] Transpose; NULL: it is no image */
} TurnedKernel;

static const RengaTensorSpec *SpecOfImage(const RengaOpCall *call, int p)
{
  return p < call->n_in ? &call->in[p] : &call->out[p - call->n_in];
}

/* All with spatial dimensions but the weights, of which a convolution has one. */
static bool IsTurnedImage(const RengaOpCall *call, int p)
{
  static const struct {
    const char *op;
    int weight;
  } convolutions[] = {{"Conv", 1}, {"ConvGradInput", 1}, {"ConvGradWeight", 2}};
  for (size_t c = 0; c < sizeof convolutions / sizeof *convolutions; c++)
    if (strcmp(call->op->name, convolutions[c].op) == 0 && p == convolutions[c].weight)
      return false;
  return SpecOfImage(call, p)->ndim >= 3;
}

void RengaOpCallTurn_Private(const RengaOpCall *call, RengaTensorSpec in[], RengaTensorSpec out[])
{
  for (int p = 0; p < call->n_in + call->n_out; p++) {
    const RengaTensorSpec *spec = SpecOfImage(call, p);
    *(p < call->n_in ? &in[p] : &out[p - call->n_in]) =
        IsTurnedImage(call, p) ? RengaOpChannelsFirst_Private(call, spec) : *spec;
  }
}

static RengaErrorCode RunTurned(RengaKernel kernel, RengaStream stream,
                                const RengaKernelContext *context, const void *const in[],
                                void *const out[], void *workspace)
{
  TurnedKernel *turned = kernel->data;
  const RengaKernel wide = kernel->wide;
  const int n_in = kernel->call.n_in, count = n_in + kernel->call.n_out;
  char *copies = workspace, *rest = copies + turned->bytes;
  for (int p = 0; p < count; p++) {
    const void *given = p < n_in ? in[p] : out[p - n_in];
    const bool copy = given && turned->copier[p];
    turned->pointer[p] = copy ? copies + turned->offset[p] : (void *)(uintptr_t)given;
    if (copy && p < n_in)
      RengaCall(turned->copier[p]->run(turned->copier[p], stream, context, &given,
                                       &turned->pointer[p], rest));
  }
  RengaCall(wide->run(wide, stream, context, (const void **)turned->pointer, turned->pointer + n_in,
                      rest));
  for (int p = n_in; p < count; p++) {
    const void *from = turned->pointer[p];
    if (turned->copier[p] && out[p - n_in])
      RengaCall(turned->copier[p]->run(turned->copier[p], stream, context, &from,
                                       (void *const *)&out[p - n_in], rest));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyTurned(RengaKernel kernel)
{
  TurnedKernel *turned = kernel->data;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int p = 0; turned->copier && p < kernel->call.n_in + kernel->call.n_out; p++)
    RengaKeepFirst_Private(&code, RengaKernelDestroy(&turned->copier[p]));
  RengaFree(&turned->copier);
  RengaFree(&turned->offset);
  RengaFree(&turned->pointer);
  RengaFree(&kernel->data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* [N,…,C] to [N,C,…], or back */
static RengaErrorCode MakeCopier(RengaKernel kernel, int p, RengaKernel *copier)
{
  const RengaTensorSpec *last = SpecOfImage(&kernel->call, p);
  const RengaTensorSpec *first = SpecOfImage(&kernel->wide->call, p);
  const bool back = p >= kernel->call.n_in;
  RengaTensorSpec to = back ? *last : *first;
  int64_t perm[RENGA_MAX_DIM];
  RengaAttributes attributes = {0};
  for (int d = 0; d < to.ndim; d++) perm[d] = back ? d + 1 : d - 1;
  perm[0] = 0;
  perm[back ? to.ndim - 1 : 1] = back ? 1 : to.ndim - 1;
  RengaErrorCode code = RengaAttributesSetInts(&attributes, "perm", to.ndim, perm);
  const RengaOpCall call = {.op = RengaOperatorFind("Transpose"),
                            .attributes = &attributes,
                            .n_in = 1,
                            .n_out = 1,
                            .in = back ? first : last,
                            .out = &to};
  if (!code) code = RengaKernelCreate(kernel->device, &call, copier);
  RengaKeepFirst_Private(&code, RengaAttributesFree(&attributes));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeCopiers(RengaKernel kernel, TurnedKernel *turned)
{
  const int count = kernel->call.n_in + kernel->call.n_out;
  size_t most = kernel->wide->workspace;
  RengaCall(RengaMalloc(count + 1, &turned->copier));
  RengaCall(RengaMalloc(count + 1, &turned->offset));
  RengaCall(RengaMalloc(count + 1, &turned->pointer));
  for (int p = 0; p < count; p++) {
    const RengaTensorSpec *spec = SpecOfImage(&kernel->call, p);
    if (!IsTurnedImage(&kernel->call, p) || RengaTensorSpecCount(spec) == 0) continue;
    RengaCall(MakeCopier(kernel, p, &turned->copier[p]));
    turned->offset[p] = turned->bytes;
    turned->bytes += (RengaTensorSpecBytes(spec) + 63) / 64 * 64;
    if (turned->copier[p]->workspace > most) most = turned->copier[p]->workspace;
  }
  kernel->workspace = turned->bytes + most;
  return RENGA_SUCCESS;
}

/* Where this fails, who destroys the kernel frees what was made. */
RengaErrorCode RengaKernelTurn_Private(RengaKernel kernel)
{
  TurnedKernel *turned;
  RengaCall(RengaMalloc(1, &turned));
  kernel->data = turned;
  kernel->destroy = DestroyTurned;
  RengaCall(MakeCopiers(kernel, turned));
  kernel->fallback = kernel->wide->fallback;
  kernel->waits = kernel->wide->waits;
  kernel->run = RunTurned;
  return RENGA_SUCCESS;
}
