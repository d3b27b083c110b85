/* Kernels: one operator with concrete shapes, made ready once and run many times. */
#include "renga/private/device.h"
#include "renga/private/op.h"
#include "renga/private/quiet.h"
#include <string.h>

static const char outside[] = "RengaKernel"; /* the class of what is registered */

static RengaErrorCode CopyKernelCall(const RengaOpCall *from, RengaOpCall *to)
{
  RengaAttributes *attributes = NULL;
  RengaTensorSpec *in = NULL, *out = NULL;
  *to = (RengaOpCall){.op = from->op};
  RengaCall(RengaMalloc(1, &attributes));
  to->attributes = attributes;
  if (from->attributes) RengaCall(RengaAttributesCopy(from->attributes, attributes));
  RengaCall(RengaMalloc(from->n_in + 1, &in));
  to->in = in;
  RengaCall(RengaMalloc(from->n_out + 1, &out));
  to->out = out;
  if (from->n_in) memcpy(in, from->in, (size_t)from->n_in * sizeof *in);
  if (from->n_out) memcpy(out, from->out, (size_t)from->n_out * sizeof *out);
  to->n_in = from->n_in;
  to->n_out = from->n_out;
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeCall(RengaOpCall *call)
{
  RengaAttributes *attributes = (RengaAttributes *)call->attributes;
  RengaTensorSpec *in = (RengaTensorSpec *)call->in;
  if (attributes) RengaCall(RengaAttributesFree(attributes));
  RengaFree(&attributes);
  RengaFree(&in);
  RengaFree(&call->out);
  *call = (RengaOpCall){.op = NULL};
  return RENGA_SUCCESS;
}

static RengaErrorCode RunOutside(RengaKernel kernel, RengaStream stream,
                                 const RengaKernelContext *context, const void *const in[],
                                 void *const out[], void *workspace)
{
  const RengaKernelRule *rule = RengaTypeOutside_Private(outside, kernel->call.op->name);
  (void)stream;
  (void)workspace;
  const int64_t errors = RengaErrorCount_Private();
  const RengaErrorCode code = rule->run(&kernel->call, context, in, out, rule->user);
  RengaCheck(code == RENGA_SUCCESS || RengaErrorCount_Private() > errors, MPI_COMM_SELF, code,
             "the kernel of %s, a rule of the program, returned %d", kernel->call.op->name,
             (int)code);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaKernelRegister - say what computes an operator from outside

   Input:
   . rule - kept, not copied, until the program ends

   Errors: RENGA_ERR_ARGUMENT where the operator is one of Renga's own, or has another kernel.

   Notes: see RengaOperatorRegister(). For results that do not depend on the layout it looks at its
   arguments alone; an error that it returns fails the step on all ranks.

   See also: RengaOperatorRegister(), RengaGradientRegister()
@*/
RengaErrorCode RengaKernelRegister(const RengaKernelRule *rule)
{
  RengaCheckPointer(rule);
  RengaCheck(rule->op && rule->run && RengaOperatorIsOutside_Private(rule->op), MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT,
             "a kernel needs a function, and an operator of RengaOperatorRegister: %s is none",
             rule->op ? rule->op : "one without a name");
  RengaCall(RengaTypeRegister_Private(outside, NULL, NULL, rule->op, rule));
  return RENGA_SUCCESS;
}

/* What computes in the host's memory: the kernel from outside, or the ref one. */
static RengaErrorCode ChooseOnHost(RengaKernel kernel)
{
  const char *name = kernel->call.op->name;
  bool found = false;
  RengaCheck(!(kernel->call.op->flags & RENGA_OP_WRITES_STATE) || RengaDeviceIsHost(kernel->device),
             MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s writes to what it reads: device %s, whose memory is not the host's, has no kernel "
             "for it",
             name, kernel->device->hdr.type_name);
  if (RengaTypeOutside_Private(outside, name)) {
    kernel->run = RunOutside;
    return RENGA_SUCCESS;
  }
  RengaCall(RengaKernelCreate_Ref(kernel, &found));
  RengaCheck(found, MPI_COMM_SELF, RENGA_ERR_SUPPORT, "no device of this build has a kernel for %s",
             name);
  kernel->fallback = strcmp(kernel->device->hdr.type_name, RENGA_DEVICE_REF) != 0;
  return RENGA_SUCCESS;
}

/* Where create left it to the kernel for float32. */
static RengaErrorCode ChooseWide(RengaKernel kernel)
{
  RengaOpCall call = kernel->call;
  RengaTensorSpec *spec;
  RengaCall(RengaMalloc(call.n_in + call.n_out + 1, &spec));
  RengaOpCallWiden_Private(&kernel->call, spec, spec + call.n_in);
  call.in = spec;
  call.out = spec + call.n_in;
  const RengaErrorCode code = RengaKernelCreate(kernel->device, &call, &kernel->wide);
  RengaFree(&spec);
  RengaCall(code);
  RengaCall(RengaKernelWiden_Private(kernel));
  return RENGA_SUCCESS;
}

/* A product whose factors are rounded is one of rounded copies. */
static RengaErrorCode ChooseRounded(RengaKernel kernel)
{
  RengaOpCall call = kernel->call;
  RengaAttributes attributes = {0};
  RengaTensorSpec *in;
  RengaCall(RengaMalloc(call.n_in, &in));
  RengaErrorCode code = RengaOpCallOfRounded_Private(&kernel->call, in, &attributes);
  call.in = in;
  call.attributes = &attributes;
  if (!code) code = RengaKernelCreate(kernel->device, &call, &kernel->wide);
  RengaFree(&in);
  RengaKeepFirst_Private(&code, RengaAttributesFree(&attributes));
  RengaCall(code);
  RengaCall(RengaKernelRound_Private(kernel));
  return RENGA_SUCCESS;
}

bool RengaDeviceHasKernel_Private(RengaDevice device, const char *op)
{
  const RengaKernelRow *row = NULL;
  return device && !device->ops->findkernel(device, op, &row) && row && !strcmp(row->name, op);
}

/* Calls with images [N,…,C] for which a device has no kernel of its own: its kernel for [N,C,…]
   computes on copies, and its outputs are copied back. */
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

static void TurnCall(const RengaOpCall *call, RengaTensorSpec in[], RengaTensorSpec out[])
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
static RengaErrorCode TurnKernel(RengaKernel kernel)
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

static RengaErrorCode ChooseTurned(RengaKernel kernel)
{
  RengaOpCall call = kernel->call;
  RengaAttributes attributes = {0};
  RengaTensorSpec *spec;
  RengaCall(RengaMalloc(call.n_in + call.n_out + 1, &spec));
  TurnCall(&kernel->call, spec, spec + call.n_in);
  call.in = spec;
  call.out = spec + call.n_in;
  call.attributes = &attributes;
  RengaErrorCode code = RengaAttributesCopy(kernel->call.attributes, &attributes);
  if (!code) code = RengaAttributesRemove(&attributes, "channels_last");
  if (!code) code = RengaKernelCreate(kernel->device, &call, &kernel->wide);
  RengaFree(&spec);
  RengaKeepFirst_Private(&code, RengaAttributesFree(&attributes));
  RengaCall(code);
  RengaCall(TurnKernel(kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode ChooseKernel(RengaKernel kernel)
{
  RengaDevice device = kernel->device;
  const RengaKernelRow *row = NULL;
  RengaCall(device->ops->findkernel(device, kernel->call.op->name, &row));
  const bool rounds =
      device->ops->round && RengaOpCallRounds_Private(&kernel->call, RENGA_PRECISION_FP8);
  const bool last = RengaOpIsLast_Private(&kernel->call);
  if (row && (!rounds || device->eights) && (!last || device->last_in))
    RengaCall(row->create(kernel));
  if (rounds && !kernel->run) {
    RengaCall(ChooseRounded(kernel));
    return RENGA_SUCCESS;
  }
  if (kernel->run) return RENGA_SUCCESS;
  if (last) {
    RengaCall(ChooseTurned(kernel));
    return RENGA_SUCCESS;
  }
  if (RengaOpCallIsLow_Private(&kernel->call)) {
    RengaCall(ChooseWide(kernel));
    return RENGA_SUCCESS;
  }
  RengaCall(ChooseOnHost(kernel));
  if (!device->host) RengaCall(RengaKernelStage_Private(kernel));
  return RENGA_SUCCESS;
}

/* Make one use of an operator ready. Memory that a run needs is asked for once, as its workspace; a
   run allocates nothing. Any tensor whose type is float32 by the operator's rules may be bfloat16
   or float16 instead, each by itself: inputs are widened exactly, the result is that of float32,
   and each output is rounded once, to nearest even. Where the device has no kernel for such a call
   its workspace holds copies of these tensors in float32. device: the device, set up; it must
   outlive the kernel. call: operator, attributes and concrete shapes; copied. */
RengaErrorCode RengaKernelCreate(RengaDevice device, const RengaOpCall *call, RengaKernel *kernel)
{
  RengaCheckPointers(device, call, kernel);
  RengaCheckState(device, RENGA_STATE_SETUP, "RengaDeviceSetUp");
  RengaKernel made = NULL;
  RengaCall(RengaMalloc(1, &made));
  made->device = device;
  RengaErrorCode code = CopyKernelCall(call, &made->call);
  if (code == RENGA_SUCCESS) code = ChooseKernel(made);
  if (code != RENGA_SUCCESS) RengaKernelDestroy(&made);
  RengaCall(code);
  *kernel = made;
  return RENGA_SUCCESS;
}

/* Bytes of scratch memory that a run needs. */
size_t RengaKernelGetWorkspace(RengaKernel kernel)
{
  RengaCheckHandle(kernel, 0);
  return kernel->workspace;
}

/* Does the ref device's kernel stand in for a missing one? */
bool RengaKernelIsFallback(RengaKernel kernel)
{
  RengaCheckHandle(kernel, false);
  return kernel->fallback;
}

/* May an output be written over an input? output: the number of the output, from 0. input: the
   number of the input, from 0. */
bool RengaKernelMayAlias(RengaKernel kernel, int output, int input)
{
  RengaCheckHandle(kernel, false);
  if (output > 7 || input > 7) return false;
  return kernel->alias & RENGA_KERNEL_ALIAS(output, input);
}

/* Compute. Signals of the process wait while a kernel computes, those of faults (SIGSEGV ...)
   apart: some libraries of kernels do not bear a handler on their stack. in: one pointer per input;
   NULL where the input is absent or empty. workspace: RengaKernelGetWorkspace bytes, 64-byte
   aligned; NULL where that is 0. out: one pointer per output, each 64-byte aligned memory of the
   device; not an input unless RengaKernelMayAlias. */
RengaErrorCode RengaKernelRun(RengaKernel kernel, RengaStream stream,
                              const RengaKernelContext *context, const void *const in[],
                              void *const out[], void *workspace)
{
  RengaCheckPointers(kernel, context);
  RengaCheck(workspace || kernel->workspace == 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s needs a workspace of %zu bytes", kernel->call.op->name, kernel->workspace);
  RengaDevice device = kernel->device;
  if (device->options.poison && kernel->workspace)
    RengaCall(device->ops->setbytes(device, stream, workspace, 0xff, kernel->workspace));
  RengaDeviceHoldSignals_Private();
  const RengaErrorCode code = kernel->run(kernel, stream, context, in, out, workspace);
  RengaDeviceReleaseSignals_Private();
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Free a kernel. kernel: set to NULL. */
RengaErrorCode RengaKernelDestroy(RengaKernel *kernel)
{
  RengaCheckPointer(kernel);
  if (!*kernel) return RENGA_SUCCESS;
  if ((*kernel)->destroy) RengaCall((*kernel)->destroy(*kernel));
  RengaCall(RengaKernelDestroy(&(*kernel)->wide));
  RengaCall(FreeCall(&(*kernel)->call));
  RengaFree(kernel);
  return RENGA_SUCCESS;
}
