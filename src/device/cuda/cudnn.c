/* cuDNN in place of own kernels. A kernel is made as ever, and then offered: where cuDNN has an
   engine for its task, plans of equal tasks being shared, the engine computes, once it has been
   tried. To try it is to compare it with the own kernel, once in the life of a device, on random
   numbers of these very shapes: one that differs is not used. Ranks that chose unequally for a task
   all go on with own kernels for it (RengaPipelineAgreeOnChoices_Private). */
#include "cuda.h"
#include "renga/private/low.h"
#include "renga/private/number.h"
#include "renga/private/wait.h"
#include <float.h>
#include <math.h>
#include <string.h>

struct CudaEngine {
  RengaCudnnTask task;
  RengaCudnnChoice choice;
  void *plan;          /* NULL: own kernels compute it */
  bool tried, refused; /* refused: by a later pipeline, whose kernels are own ones */
  CudaEngine *next;
};

/* own: the kernel as it was before, which is still there. */
struct CudaReplaced {
  CudaEngine *engine;
  CudaOperands operands;
  RengaKernelRunFunction run;
  RengaErrorCode (*destroy)(RengaKernel kernel);
  void *data;
  size_t workspace; /* where the operands in it begin: behind the plan's */
  RengaKernel kernel;
  bool listed, settled; /* ranks agree on it, of a pipeline before the one that is set up */
  bool own;             /* they do not: the kernel as it was computes */
  CudaReplaced *next, **link;
};

void RengaCudnnOpen_Private(CudaDevice *cuda)
{
  if (cuda->options.cudnn && cuda->module->cudnn.find(sizeof cuda->cudnn, cuda->cudnn) == 0) return;
  snprintf(cuda->no_cudnn, sizeof cuda->no_cudnn, "%s",
           cuda->options.cudnn ? cuda->module->error() : "-device_cudnn off");
  cuda->cudnn[0] = '\0';
}

RengaErrorCode RengaCudnnCompare_Private(RengaDevice device)
{
  static const char what[] = "all ranks to compare their versions of cuDNN";
  CudaDevice *cuda = device->data;
  char first[sizeof cuda->cudnn];
  memcpy(first, cuda->cudnn, sizeof first);
  RengaCall(RengaBroadcast_Private(device->hdr.comm, first, sizeof first, what));
  int64_t others = strcmp(first, cuda->cudnn) != 0;
  RengaCall(RengaReduceInt64_Private(device->hdr.comm, MPI_SUM, &others, what));
  if (others == 0) return RENGA_SUCCESS;
  RengaWarning(device->hdr.comm,
               "%lld ranks have another cuDNN, or none, than rank 0 (%s), so no rank uses it: "
               "install one version everywhere, or say -device_cudnn off",
               (long long)others, first[0] ? first : "none");
  snprintf(cuda->no_cudnn, sizeof cuda->no_cudnn, "ranks have unequal ones");
  cuda->cudnn[0] = '\0';
  return RENGA_SUCCESS;
}

/* The engine of a task: asked for once. */
static RengaErrorCode FindEngine(CudaDevice *cuda, const RengaCudnnTask *task, CudaEngine **engine)
{
  const size_t most = (size_t)cuda->options.cudnn_workspace << 20;
  for (*engine = cuda->engines; *engine; *engine = (*engine)->next)
    if (memcmp(&(*engine)->task, task, sizeof *task) == 0) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, engine));
  CudaEngine *made = *engine;
  made->task = *task;
  char *plan = NULL;
  const RengaErrorCode code = RengaMalloc(cuda->module->cudnn.bytes, &plan);
  if (code) RengaFree(engine);
  RengaCall(code);
  if (cuda->module->cudnn.create(task, most, &made->choice, plan)) RengaFree(&plan);
  made->plan = plan;
  made->next = cuda->engines;
  cuda->engines = made;
  return RENGA_SUCCESS;
}

/* Own kernels find their own data. */
static RengaErrorCode RunOwn(RengaKernel kernel, RengaStream stream,
                             const RengaKernelContext *context, const void *const in[],
                             void *const out[], void *workspace)
{
  CudaReplaced *r = kernel->data;
  kernel->data = r->data;
  const RengaErrorCode code = r->run(kernel, stream, context, in, out, workspace);
  kernel->data = r;
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* cuDNN has workspaces at such multiples. */
enum { CUDNN_ALIGNED = 256 };
static size_t UpToAligned(size_t bytes)
{
  return (bytes + CUDNN_ALIGNED - 1) / CUDNN_ALIGNED * CUDNN_ALIGNED;
}

/* failed: what cuDNN says, or 0 */
static RengaErrorCode RunEngine(RengaKernel kernel, RengaStream stream, const void *const in[],
                                void *const out[], void *workspace, int *failed)
{
  const CudaReplaced *r = kernel->data;
  const CudaOperands *of = &r->operands;
  void *operand[RENGA_CUDNN_OPERANDS] = {NULL};
  char *plans = (char *)UpToAligned((size_t)(uintptr_t)workspace), *own = plans + r->workspace;
  for (int p = 0; p < RENGA_CUDNN_OPERANDS; p++) {
    const CudaOperandPlace *at = &of->place[p];
    char *memory = NULL;
    if (at->from == CUDA_OPERAND_INPUT) memory = (char *)(uintptr_t)in[at->tensor];
    if (at->from == CUDA_OPERAND_OUTPUT) memory = out[at->tensor];
    if (at->from == CUDA_OPERAND_WORKSPACE) memory = own;
    if (memory) operand[p] = memory + at->offset;
  }
  if (of->before) RengaCall(of->before(kernel, stream, in, own, out));
  *failed =
      RengaCudaOf_Private(kernel->device)
          ->module->cudnn.run(RengaCudaStream_Private(kernel->device, stream), r->engine->plan,
                              operand, r->engine->choice.workspace ? plans : NULL);
  if (!*failed && of->after) RengaCall(of->after(kernel, stream, in, own, out));
  return RENGA_SUCCESS;
}

/* Memory of the device that a trial works in: each tensor of the kernel, outputs twice. It is given
   back at its end, before pipelines take theirs, and is not counted. */
enum { TRIAL_TENSORS = 24, TRIAL_PERIOD = 65521 };
typedef struct {
  RengaKernel kernel;
  void *in[TRIAL_TENSORS], *out[2][TRIAL_TENSORS], *workspace; /* out: of the own kernel first */
  float *random;                                               /* [TRIAL_PERIOD] in [-1, 1) */
} EngineTrial;

static void PutValue(RengaDataType type, void *data, int64_t i, float value)
{
  if (type == RENGA_FLOAT32)
    ((float *)data)[i] = value;
  else if (type == RENGA_BFLOAT16)
    ((uint16_t *)data)[i] = RengaLowToBrain(value);
  else
    ((uint16_t *)data)[i] = RengaLowToHalf(value);
}

/* Of a mask some numbers are -infinity, and all of its last row where it has several; log-sum-exps
   are about as large as scores of random numbers make them. */
static void FillHost(const EngineTrial *trial, int i, char *host)
{
  const RengaCudnnTask *task = &((const CudaReplaced *)trial->kernel->data)->engine->task;
  const RengaTensorSpec *spec = &trial->kernel->call.in[i];
  const int64_t count = RengaTensorSpecCount(spec);
  const bool gradient = task->kind == RENGA_CUDNN_ATTENTION_GRAD;
  const bool mask = (task->kind == RENGA_CUDNN_ATTENTION && i == 3) || (gradient && i == 6);
  const float more = gradient && i == 5 ? logf((float)task->keys) : 0;
  const size_t period = TRIAL_PERIOD * RengaDataTypeSize(spec->type);
  for (int64_t e = 0; e < count && e < TRIAL_PERIOD; e++)
    PutValue(spec->type, host, e,
             mask && e % 7 == 3 ? -INFINITY : trial->random[(e + 7919 * i) % TRIAL_PERIOD] + more);
  for (size_t at = period; at < RengaTensorSpecBytes(spec); at += period) {
    const size_t left = RengaTensorSpecBytes(spec) - at;
    memcpy(host + at, host, left < period ? left : period);
  }
  for (int64_t e = count - task->keys; mask && count > task->keys && e < count; e++)
    PutValue(spec->type, host, e, -INFINITY);
}

static RengaErrorCode FillInput(EngineTrial *trial, int i)
{
  const size_t bytes = RengaTensorSpecBytes(&trial->kernel->call.in[i]);
  char *host = NULL;
  RengaCall(RengaMalloc(bytes, &host));
  FillHost(trial, i, host);
  RengaErrorCode code =
      RengaDeviceCopy(trial->kernel->device, NULL, RENGA_HOST_TO_DEVICE, trial->in[i], host, bytes);
  if (!code) code = RengaStreamSynchronize(trial->kernel->device, NULL);
  RengaFree(&host);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* false: there is no memory for a trial */
static bool ReserveForTrial(EngineTrial *trial)
{
  const RengaKernel kernel = trial->kernel;
  const RengaCudaModule *module = RengaCudaModuleOf_Private(kernel);
  const RengaOpCall *call = &kernel->call;
  bool there = call->n_in <= TRIAL_TENSORS && call->n_out <= TRIAL_TENSORS &&
               (!kernel->workspace || !module->reserve(kernel->workspace, &trial->workspace));
  for (int i = 0; i < call->n_in && there; i++)
    if (call->in[i].ndim >= 0)
      there = !module->reserve(RengaTensorSpecBytes(&call->in[i]), &trial->in[i]);
  for (int o = 0; o < 2 * call->n_out && there; o++)
    if (call->out[o / 2].ndim >= 0)
      there = !module->reserve(RengaTensorSpecBytes(&call->out[o / 2]), &trial->out[o % 2][o / 2]);
  return there;
}

static RengaErrorCode ReleaseTrial(EngineTrial *trial)
{
  RengaDevice device = trial->kernel->device;
  RengaFree(&trial->random);
  if (trial->workspace) RENGA_CALL_CUDA(device, module_->release(trial->workspace));
  for (int t = 0; t < TRIAL_TENSORS; t++) {
    if (trial->in[t]) RENGA_CALL_CUDA(device, module_->release(trial->in[t]));
    for (int o = 0; o < 2; o++)
      if (trial->out[o][t]) RENGA_CALL_CUDA(device, module_->release(trial->out[o][t]));
  }
  return RENGA_SUCCESS;
}

/* By how much two results of a task may differ, beside the largest one: sums of some thousand
   products of factors that are rounded alike. */
static double ToleranceOf(const RengaCudnnTask *task)
{
  if (task->type == RENGA_CUDA_FLOAT32) return task->tf32 ? 5e-3 : 1e-4;
  return task->type == RENGA_CUDA_FLOAT16 ? 4e-3 : 2e-2;
}

/* The largest of count, and the largest difference; false: somewhere a number is none, or infinite
   in one of both. */
#define DEFINE_FARTHEST(name, type, widen)                                                         \
  static bool name(int64_t count, const void *own_, const void *its_, float *largest, float *most) \
  {                                                                                                \
    const type *own = own_, *its = its_;                                                           \
    int wrong = 0;                                                                                 \
    for (int64_t i = 0; i < count; i++) {                                                          \
      const float a = widen(own[i]), b = widen(its[i]), far = a == b ? 0 : fabsf(a - b);           \
      const float size = a == b && fabsf(a) > FLT_MAX ? 0 : fabsf(a);                              \
      *largest = size > *largest ? size : *largest;                                                \
      *most = far > *most ? far : *most;                                                           \
      wrong |= !(far <= FLT_MAX);                                                                  \
    }                                                                                              \
    return !wrong;                                                                                 \
  }
#define AS_IT_IS(x) (x)
DEFINE_FARTHEST(FarthestFloat, float, AS_IT_IS)
DEFINE_FARTHEST(FarthestBrain, uint16_t, RengaLowFromBrain)
DEFINE_FARTHEST(FarthestHalf, uint16_t, RengaLowFromHalf)

/* difference: the largest one, beside the largest number of the own kernel's output. */
static RengaErrorCode CompareOutput(const EngineTrial *trial, int o, double *difference)
{
  const RengaTensorSpec *spec = &trial->kernel->call.out[o];
  const size_t bytes = RengaTensorSpecBytes(spec);
  RengaDevice device = trial->kernel->device;
  char *host[2] = {NULL};
  float largest = 1e-30f, most = 0;
  bool right = true;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int k = 0; k < 2 && !code; k++) {
    code = RengaMalloc(bytes, &host[k]);
    if (!code)
      code = RengaDeviceCopy(device, NULL, RENGA_DEVICE_TO_HOST, host[k], trial->out[k][o], bytes);
  }
  if (!code) code = RengaStreamSynchronize(device, NULL);
  if (!code)
    right = (spec->type == RENGA_FLOAT32 ? FarthestFloat
             : spec->type == RENGA_BFLOAT16
                 ? FarthestBrain
                 : FarthestHalf)(RengaTensorSpecCount(spec), host[0], host[1], &largest, &most);
  RengaFree(&host[0]);
  RengaFree(&host[1]);
  RengaCall(code);
  *difference = right ? (double)most / (double)largest : INFINITY;
  return RENGA_SUCCESS;
}

static RengaErrorCode ComputeBoth(EngineTrial *trial, int *failed)
{
  static const RengaKernelContext context = {.samples = 1};
  const RengaKernel kernel = trial->kernel;
  RengaDevice device = kernel->device;
  const void *const *in = (const void *const *)trial->in;
  RengaCall(RengaMalloc(TRIAL_PERIOD, &trial->random));
  RengaRandomUniform(1, 1, 0, TRIAL_PERIOD, trial->random);
  for (int e = 0; e < TRIAL_PERIOD; e++) trial->random[e] = 2 * trial->random[e] - 1;
  for (int i = 0; i < kernel->call.n_in; i++)
    if (trial->in[i]) RengaCall(FillInput(trial, i));
  for (int o = 0; o < 2 * kernel->call.n_out; o++) /* no numbers: all must be written */
    if (trial->out[o % 2][o / 2])
      RENGA_CALL_CUDA(device,
                      module_->set(RengaCudaOf_Private(device)->compute, trial->out[o % 2][o / 2],
                                   0xff, RengaTensorSpecBytes(&kernel->call.out[o / 2])));
  RengaCall(RunOwn(kernel, NULL, &context, in, trial->out[0], trial->workspace));
  RengaCall(RunEngine(kernel, NULL, in, trial->out[1], trial->workspace, failed));
  RengaCall(RengaStreamSynchronize(device, NULL));
  return RENGA_SUCCESS;
}

/* why: empty where the engine may be trusted */
static RengaErrorCode FindTrust(EngineTrial *trial, size_t size, char why[])
{
  const CudaReplaced *r = trial->kernel->data;
  const double tolerance = ToleranceOf(&r->engine->task);
  int failed = 0;
  why[0] = '\0';
  if (!ReserveForTrial(trial)) {
    snprintf(why, size, "it could not be compared with the own kernel: no memory");
    return RENGA_SUCCESS;
  }
  RengaCall(ComputeBoth(trial, &failed));
  if (failed) snprintf(why, size, "%s", RengaCudaModuleOf_Private(trial->kernel)->error());
  for (int o = 0; o < trial->kernel->call.n_out && !why[0]; o++) {
    double difference = 0;
    if (!trial->out[0][o]) continue;
    RengaCall(CompareOutput(trial, o, &difference));
    if (!(difference <= tolerance))
      RengaTextFormat(why, size,
                      "output %d differs from the own kernel's by %g of its largest number", o,
                      difference);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode DropEngine(RengaDevice device, CudaEngine *engine)
{
  const RengaCudaModule *module = RengaCudaOf_Private(device)->module;
  const int failed = engine->plan ? module->cudnn.destroy(engine->plan) : 0;
  RengaFree(&engine->plan);
  RENGA_CALL_CUDA(device, failed);
  return RENGA_SUCCESS;
}

/* One line each, of the first ones. */
static void TellDropped(RengaKernel kernel, const char *why)
{
  enum { TOLD = 4 };
  const CudaReplaced *r = kernel->data;
  CudaDevice *cuda = RengaCudaOf_Private(kernel->device);
  char shape[2][96];
  for (int i = 0; i < 2; i++)
    RengaTensorSpecFormat(&kernel->call.in[i < kernel->call.n_in ? i : 0], sizeof *shape, shape[i]);
  if (cuda->dropped++ < TOLD)
    RengaWarning(MPI_COMM_SELF, "engine %lld of %s is not used for %s of %s, %s: %s%s",
                 (long long)r->engine->choice.engine, cuda->cudnn, kernel->call.op->name, shape[0],
                 shape[1], why, cuda->dropped == TOLD ? "; others are not named" : "");
}

static RengaErrorCode TryEngine(RengaKernel kernel)
{
  const CudaReplaced *r = kernel->data;
  EngineTrial trial = {.kernel = kernel};
  char why[256];
  RengaErrorCode code = FindTrust(&trial, sizeof why, why);
  if (code)
    RengaWarning(MPI_COMM_SELF,
                 "that was while engine %lld of %s was tried for %s: -device_cudnn off keeps own "
                 "kernels",
                 (long long)r->engine->choice.engine, RengaCudaOf_Private(kernel->device)->cudnn,
                 kernel->call.op->name);
  RengaKeepFirst_Private(&code, ReleaseTrial(&trial));
  RengaCall(code);
  r->engine->tried = true;
  if (!why[0]) return RENGA_SUCCESS;
  TellDropped(kernel, why);
  RengaCall(DropEngine(kernel->device, r->engine));
  return RENGA_SUCCESS;
}

/* What comes after ranks have agreed, or is recorded, was tried before. */
static RengaErrorCode ReplacedRun_Cuda(RengaKernel kernel, RengaStream stream,
                                       const RengaKernelContext *context, const void *const in[],
                                       void *const out[], void *workspace)
{
  const CudaReplaced *r = kernel->data;
  CudaDevice *cuda = RengaCudaOf_Private(kernel->device);
  CudaEngine *engine = r->engine;
  int failed = 0;
  if (engine->plan && !engine->tried && !cuda->records && !cuda->agreed)
    RengaCall(TryEngine(kernel));
  if (engine->plan && !engine->tried && cuda->agreed && !cuda->told_late) {
    cuda->told_late = true;
    RengaWarning(
        MPI_COMM_SELF,
        "%s of a shape that came after the ranks agreed on engines of cuDNN is computed by "
        "an own kernel, with other bits: say with RengaPipelineSetDataShortBatch() that a "
        "batch may be shorter",
        kernel->call.op->name);
  }
  if (!engine->plan || !engine->tried || r->own) {
    RengaCall(RunOwn(kernel, stream, context, in, out, workspace));
    return RENGA_SUCCESS;
  }
  RengaCall(RunEngine(kernel, stream, in, out, workspace, &failed));
  RENGA_CALL_CUDA(kernel->device, failed);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReplacedDestroy_Cuda(RengaKernel kernel)
{
  CudaReplaced *r = kernel->data;
  RengaErrorCode code = RENGA_SUCCESS;
  *r->link = r->next;
  if (r->next) r->next->link = r->link;
  kernel->data = r->data;
  if (r->destroy) code = r->destroy(kernel);
  RengaFree(&r);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCudnnOffer_Private(RengaKernel kernel, const RengaCudnnTask *task,
                                       const CudaOperands *operands)
{
  CudaDevice *cuda = RengaCudaOf_Private(kernel->device);
  CudaEngine *engine = NULL;
  CudaReplaced *r = NULL;
  if (!cuda->cudnn[0] || !kernel->run) return RENGA_SUCCESS;
  RengaCall(FindEngine(cuda, task, &engine));
  if (!engine->plan || engine->refused) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(1, &r));
  *r = (CudaReplaced){.engine = engine,
                      .operands = *operands,
                      .run = kernel->run,
                      .destroy = kernel->destroy,
                      .data = kernel->data,
                      .workspace = UpToAligned(engine->choice.workspace),
                      .kernel = kernel,
                      .next = cuda->replaced,
                      .link = &cuda->replaced};
  if (r->next) r->next->link = &r->next;
  cuda->replaced = r;
  const size_t all = r->workspace + operands->workspace, bytes = all ? all + CUDNN_ALIGNED : 0;
  if (bytes > kernel->workspace) kernel->workspace = bytes;
  kernel->data = r;
  kernel->run = ReplacedRun_Cuda;
  kernel->destroy = ReplacedDestroy_Cuda;
  return RENGA_SUCCESS;
}

static uint64_t NumberOfTask(const CudaEngine *engine)
{
  return RengaHash(&engine->task, sizeof engine->task, 0);
}

/* All that kernels have are tried first. What was listed for an earlier pipeline stays as it is
   there. */
static RengaErrorCode ListChoices_Cuda(RengaDevice device, int *count, RengaDeviceChoice **choice)
{
  CudaDevice *cuda = device->data;
  int n = 0;
  cuda->agreed = true;
  for (CudaReplaced *r = cuda->replaced; r; r = r->next) {
    r->settled = r->listed;
    r->listed = true;
    if (r->engine->plan && !r->engine->tried) RengaCall(TryEngine(r->kernel));
  }
  for (const CudaEngine *e = cuda->engines; e; e = e->next) n++;
  RengaCall(RengaMalloc(n, choice));
  n = 0;
  for (const CudaEngine *e = cuda->engines; e; e = e->next) {
    const int64_t chosen[] = {e->choice.engine, e->choice.place, (int64_t)e->choice.workspace};
    if (e->plan && !e->tried) continue; /* of kernels that are gone */
    (*choice)[n++] = (RengaDeviceChoice){
        .task = NumberOfTask(e),
        .chosen = e->plan && !e->refused ? RengaHash(chosen, sizeof chosen, 1) : 0};
  }
  *count = n;
  return RENGA_SUCCESS;
}

/* Kernels of earlier pipelines, which may be recorded, keep the engine and its bits. */
static RengaErrorCode RefuseEngine(RengaDevice device, CudaEngine *engine)
{
  bool kept = false;
  engine->refused = true;
  for (CudaReplaced *r = RengaCudaOf_Private(device)->replaced; r; r = r->next) {
    if (r->engine != engine) continue;
    r->own = r->own || !r->settled;
    kept = kept || !r->own;
  }
  if (!kept) RengaCall(DropEngine(device, engine));
  return RENGA_SUCCESS;
}

static RengaErrorCode DropChoice_Cuda(RengaDevice device, uint64_t task)
{
  for (CudaEngine *e = RengaCudaOf_Private(device)->engines; e; e = e->next)
    if (NumberOfTask(e) == task) RengaCall(RefuseEngine(device, e));
  return RENGA_SUCCESS;
}

static void NameTask(const RengaCudnnTask *s, size_t size, char text[])
{
  static const char *const kinds[] = {"convolution", "its gradient of inputs",
                                      "its gradient of weights", "attention", "its gradient"};
  static const char *const types[] = {"float32", "bfloat16", "float16"};
  const char *type = s->tf32 ? "tf32" : types[s->type];
  if (s->kind >= RENGA_CUDNN_ATTENTION)
    snprintf(text, size, "%s, %s, %lld x %lld heads%s, %lld queries, %lld keys, width %lld%s",
             kinds[s->kind], type, (long long)s->samples, (long long)s->heads,
             s->rows[RENGA_CUDNN_K].share > 1 ? " in groups" : "", (long long)s->queries,
             (long long)s->keys, (long long)s->width,
             s->causal   ? ", causal"
             : s->masked ? ", masked"
                         : "");
  else
    snprintf(text, size,
             "%s%s, %s, %lld x %lld x %lld x %lld by %lld of %lld x %lld, stride %lld%s",
             kinds[s->kind], s->biased ? " with a bias" : "", type, (long long)s->images,
             (long long)s->channels, (long long)s->in[0], (long long)s->in[1],
             (long long)s->out_channels, (long long)s->kernel[0], (long long)s->kernel[1],
             (long long)s->stride[1], s->last ? ", channels last" : "");
}

/* Tasks so far, and what computes them. */
static RengaErrorCode ViewChoices_Cuda(RengaDevice device, RengaViewer viewer)
{
  for (const CudaEngine *e = RengaCudaOf_Private(device)->engines; e; e = e->next) {
    char task[200], bytes[32], by[64] = "an own kernel";
    NameTask(&e->task, sizeof task, task);
    RengaFormatBytes((double)e->choice.workspace, sizeof bytes, bytes);
    if (e->plan && !e->refused)
      snprintf(by, sizeof by, "engine %lld, %s of workspace", (long long)e->choice.engine, bytes);
    RengaCall(RengaViewerPrintf(viewer, "    %s: %s\n", task, by));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCudnnView_Private(RengaDevice device, RengaViewer viewer)
{
  const CudaDevice *cuda = device->data;
  if (cuda->cudnn[0])
    RengaCall(RengaViewerPrintf(viewer, "  %s: attention and convolutions\n", cuda->cudnn));
  else
    RengaCall(RengaViewerPrintf(viewer, "  no cuDNN: %s\n", cuda->no_cudnn));
  RengaCall(ViewChoices_Cuda(device, viewer));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCudnnForget_Private(RengaDevice device)
{
  CudaDevice *cuda = device->data;
  RengaErrorCode code = RENGA_SUCCESS;
  while (cuda->engines) {
    CudaEngine *gone = cuda->engines;
    cuda->engines = gone->next;
    RengaKeepFirst_Private(&code, DropEngine(device, gone));
    RengaFree(&gone);
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

const RengaDeviceChoices RengaCudnnChoices_Private = {ListChoices_Cuda, DropChoice_Cuda,
                                                      ViewChoices_Cuda};
