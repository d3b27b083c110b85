/* Rates of the cpu kernels on one device: GFLOP/s and GB/s per second of processor time, so that
   other work on the machine matters little. Usage: kernels [network [type]] with the options of a
   device; network: gpt, resnet or all; type: float32, bfloat16 or float16, of all tensors but
   gradients of parameters and those that are small beside the call's largest. Each line has a
   case's share of one training step of that network where count is given. */
#include "../device/calls.h"
#include "../device/lowcalls.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include <time.h>

typedef struct {
  const char *network;
  int count; /* of such calls in one step */
  Case call;
} Bench;

static const Bench benches[] = {
    /* GPT small: 12 layers, width 768, 4 x 256 tokens, 50257 words */
    {"gpt", 12, {"Linear", "", "f1024,768 f768,2304 f2304", "1", 0}},
    {"gpt", 12, {"LinearGradInput", "", "f1024,2304 f768,2304", "1", 0}},
    {"gpt", 12, {"LinearGradWeight", "", "f1024,768 f1024,2304", "1", 0}},
    {"gpt", 12, {"Linear", "", "f1024,768 f768,768 f768", "1", 0}},
    {"gpt", 12, {"LinearGradInput", "", "f1024,768 f768,768", "1", 0}},
    {"gpt", 12, {"LinearGradWeight", "", "f1024,768 f1024,768", "1", 0}},
    {"gpt", 12, {"Linear", "", "f1024,768 f768,3072 f3072", "1", 0}},
    {"gpt", 12, {"LinearGradInput", "", "f1024,3072 f768,3072", "1", 0}},
    {"gpt", 12, {"LinearGradWeight", "", "f1024,768 f1024,3072", "1", 0}},
    {"gpt", 12, {"Linear", "", "f1024,3072 f3072,768 f768", "1", 0}},
    {"gpt", 12, {"LinearGradInput", "", "f1024,768 f3072,768", "1", 0}},
    {"gpt", 12, {"LinearGradWeight", "", "f1024,3072 f1024,768", "1", 0}},
    {"gpt", 1, {"Linear", "transB=1", "f1024,768 f50257,768", "1", 0}},
    {"gpt", 1, {"LinearGradInput", "transB=1", "f1024,50257 f50257,768", "1", 0}},
    {"gpt", 1, {"LinearGradWeight", "transB=1", "f1024,768 f1024,50257", "1", 0}},
    {"gpt", 12, {"Attention", "causal=1", "f4,12,256,64 f4,12,256,64 f4,12,256,64", "2", 0}},
    {"gpt", 12, {"AttentionGrad", "causal=1", "f4,12,256,64 ^0 ^1 ^2 @0 @1", "3", 0}},
    {"gpt", 25, {"LayerNormalization", "axis=-1", "f1024,768 f768 f768", "3", 0}},
    {"gpt", 25, {"LayerNormalizationGrad", "axis=-1", "f1024,768 ^0 ^1 @1 @2", "3", 0}},
    {"gpt", 12, {"Gelu", "approximate=tanh", "f1024,3072", "1", 0}},
    {"gpt", 12, {"GeluGrad", "approximate=tanh", "f1024,3072 f1024,3072", "1", 0}},
    {"gpt", 0, {"Gelu", "", "f1024,3072", "1", 0}},
    {"gpt", 0, {"GeluGrad", "", "f1024,3072 f1024,3072", "1", 0}},
    {"gpt", 48, {"Add", "", "f1024,768 f1024,768", "1", 0}},
    {"gpt", 1, {"Add", "", "f4,256,768 f256,768", "1", 0}},
    {"gpt", 12, {"ReduceSum", "axes=0 keepdims=0", "f1024,2304", "1", 0}},
    {"gpt", 24, {"ReduceSum", "axes=0 keepdims=0", "f1024,768", "1", 0}},
    {"gpt", 12, {"ReduceSum", "axes=0 keepdims=0", "f1024,3072", "1", 0}},
    {"gpt", 48, {"Transpose", "perm=0,2,1,3", "f4,256,12,64", "1", 0}},
    {"gpt", 48, {"Transpose", "perm=0,2,1,3", "f4,12,256,64", "1", 0}},
    {"gpt", 12, {"Split", "axis=-1 split=768,768,768", "f4,256,2304", "3", 0}},
    {"gpt", 12, {"Concat", "axis=-1", "f4,256,768 f4,256,768 f4,256,768", "1", 0}},
    {"gpt", 0, {"Dropout", "ratio=0.1 key=3", "f4,256,768", "1", 0}},
    {"gpt", 0, {"Softmax", "axis=-1", "f48,256,256", "1", 0}},
    {"gpt", 0, {"SoftmaxGrad", "axis=-1", "f48,256,256 @0", "1", 0}},
    {"gpt", 1, {"Gather", "axis=0", "f50257,768 l4,256<50257", "1", 0}},
    {"gpt", 1, {"GatherGrad", "axis=0", "f4,256,768 l4,256<50257", "f50257,768", 0}},
    {"gpt", 1, {"CrossEntropy", "axis=-1", "f1024,50257 l1024<50257", "2", 0}},
    {"gpt", 1, {"CrossEntropyGrad", "axis=-1", "f ^0 ^1 @1", "1", 0}},
    /* ResNet-50: 4 images of 224 x 224 */
    {"resnet", 1, {"Conv", "strides=2,2 pads=3,3,3,3", "f4,3,224,224 f64,3,7,7", "1", 0}},
    {"resnet",
     1,
     {"ConvGradWeight", "strides=2,2 pads=3,3,3,3", "f4,3,224,224 f4,64,112,112", "f64,3,7,7", 0}},
    {"resnet", 3, {"Conv", "pads=1,1,1,1", "f4,64,56,56 f64,64,3,3", "1", 0}},
    {"resnet", 3, {"ConvGradInput", "pads=1,1,1,1", "f4,64,56,56 f64,64,3,3", "f4,64,56,56", 0}},
    {"resnet", 3, {"ConvGradWeight", "pads=1,1,1,1", "f4,64,56,56 f4,64,56,56", "f64,64,3,3", 0}},
    {"resnet", 4, {"Conv", "", "f4,64,56,56 f256,64,1,1", "1", 0}},
    {"resnet", 4, {"ConvGradInput", "", "f4,256,56,56 f256,64,1,1", "f4,64,56,56", 0}},
    {"resnet", 4, {"ConvGradWeight", "", "f4,64,56,56 f4,256,56,56", "f256,64,1,1", 0}},
    {"resnet", 2, {"Conv", "", "f4,256,56,56 f64,256,1,1", "1", 0}},
    {"resnet", 2, {"ConvGradInput", "", "f4,64,56,56 f64,256,1,1", "f4,256,56,56", 0}},
    {"resnet", 2, {"ConvGradWeight", "", "f4,256,56,56 f4,64,56,56", "f64,256,1,1", 0}},
    {"resnet", 1, {"Conv", "pads=1,1,1,1 strides=2,2", "f4,128,56,56 f128,128,3,3", "1", 0}},
    {"resnet",
     1,
     {"ConvGradInput", "pads=1,1,1,1 strides=2,2", "f4,128,28,28 f128,128,3,3", "f4,128,56,56", 0}},
    {"resnet",
     1,
     {"ConvGradWeight", "pads=1,1,1,1 strides=2,2", "f4,128,56,56 f4,128,28,28", "f128,128,3,3",
      0}},
    {"resnet", 1, {"Conv", "strides=2,2", "f4,256,56,56 f512,256,1,1", "1", 0}},
    {"resnet", 1, {"ConvGradInput", "strides=2,2", "f4,512,28,28 f512,256,1,1", "f4,256,56,56", 0}},
    {"resnet",
     1,
     {"ConvGradWeight", "strides=2,2", "f4,256,56,56 f4,512,28,28", "f512,256,1,1", 0}},
    {"resnet", 3, {"Conv", "pads=1,1,1,1", "f4,128,28,28 f128,128,3,3", "1", 0}},
    {"resnet",
     3,
     {"ConvGradInput", "pads=1,1,1,1", "f4,128,28,28 f128,128,3,3", "f4,128,28,28", 0}},
    {"resnet",
     3,
     {"ConvGradWeight", "pads=1,1,1,1", "f4,128,28,28 f4,128,28,28", "f128,128,3,3", 0}},
    {"resnet", 4, {"Conv", "", "f4,128,28,28 f512,128,1,1", "1", 0}},
    {"resnet", 4, {"ConvGradInput", "", "f4,512,28,28 f512,128,1,1", "f4,128,28,28", 0}},
    {"resnet", 4, {"ConvGradWeight", "", "f4,128,28,28 f4,512,28,28", "f512,128,1,1", 0}},
    {"resnet", 5, {"Conv", "pads=1,1,1,1", "f4,256,14,14 f256,256,3,3", "1", 0}},
    {"resnet",
     5,
     {"ConvGradInput", "pads=1,1,1,1", "f4,256,14,14 f256,256,3,3", "f4,256,14,14", 0}},
    {"resnet",
     5,
     {"ConvGradWeight", "pads=1,1,1,1", "f4,256,14,14 f4,256,14,14", "f256,256,3,3", 0}},
    {"resnet", 6, {"Conv", "", "f4,256,14,14 f1024,256,1,1", "1", 0}},
    {"resnet", 6, {"ConvGradInput", "", "f4,1024,14,14 f1024,256,1,1", "f4,256,14,14", 0}},
    {"resnet", 6, {"ConvGradWeight", "", "f4,256,14,14 f4,1024,14,14", "f1024,256,1,1", 0}},
    {"resnet", 2, {"Conv", "pads=1,1,1,1", "f4,512,7,7 f512,512,3,3", "1", 0}},
    {"resnet", 2, {"ConvGradInput", "pads=1,1,1,1", "f4,512,7,7 f512,512,3,3", "f4,512,7,7", 0}},
    {"resnet", 2, {"ConvGradWeight", "pads=1,1,1,1", "f4,512,7,7 f4,512,7,7", "f512,512,3,3", 0}},
    {"resnet", 3, {"Conv", "", "f4,512,7,7 f2048,512,1,1", "1", 0}},
    {"resnet", 3, {"ConvGradInput", "", "f4,2048,7,7 f2048,512,1,1", "f4,512,7,7", 0}},
    {"resnet", 3, {"ConvGradWeight", "", "f4,512,7,7 f4,2048,7,7", "f2048,512,1,1", 0}},
    {"resnet", 1, {"BatchNormalization", "", "f4,64,112,112 f64 f64 f64 f64+", "3", 0}},
    {"resnet", 1, {"BatchNormalizationGrad", "", "f4,64,112,112 ^0 ^1 @1 @2", "3", 0}},
    {"resnet", 4, {"BatchNormalization", "", "f4,256,56,56 f256 f256 f256 f256+", "3", 0}},
    {"resnet", 4, {"BatchNormalizationGrad", "", "f4,256,56,56 ^0 ^1 @1 @2", "3", 0}},
    {"resnet", 13, {"BatchNormalization", "", "f4,256,14,14 f256 f256 f256 f256+", "3", 0}},
    {"resnet", 13, {"BatchNormalizationGrad", "", "f4,256,14,14 ^0 ^1 @1 @2", "3", 0}},
    {"resnet", 4, {"Relu", "", "f4,256,56,56", "1", 0}},
    {"resnet", 4, {"ReluGrad", "", "f4,256,56,56 f4,256,56,56", "1", 0}},
    {"resnet", 4, {"Add", "", "f4,256,56,56 f4,256,56,56", "1", 0}},
    {"resnet",
     1,
     {"MaxPool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", "f4,64,112,112", "2", 0}},
    {"resnet", 1, {"MaxPoolGrad", "", "f4,64,56,56 @1", "f4,64,112,112", 0}},
    {"resnet", 1, {"ReduceMean", "axes=2,3", "f4,2048,7,7", "1", 0}},
};
enum { N_BENCHES = sizeof benches / sizeof *benches };

static double Processor(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Best of five rounds of at least 0.05 s. */
static RengaErrorCode Time(RengaKernel kernel, const void *const in[], void *const out[],
                           void *workspace, double *seconds)
{
  RengaKernelContext context = {1, 1, 0, 4, true};
  *seconds = 1e30;
  RengaCall(RengaKernelRun(kernel, NULL, &context, in, out, workspace));
  for (int round = 0; round < 5; round++) {
    int runs = 0;
    double start = Processor(), spent = 0;
    while (spent < 0.05) {
      RengaCall(RengaKernelRun(kernel, NULL, &context, in, out, workspace));
      runs++;
      spent = Processor() - start;
    }
    if (spent / runs < *seconds) *seconds = spent / runs;
  }
  return RENGA_SUCCESS;
}

/* Which tensors of a call keep float32 where the others are of another type. */
static unsigned MaskOf(const RengaOpCall *op)
{
  static const char *const gradients[] = {"LinearGradWeight", "ConvGradWeight", "GatherGrad"};
  const int count = op->n_in + op->n_out;
  int64_t largest = 0;
  unsigned mask = 0;
  for (int p = 0; p < count; p++) {
    const int64_t here = RengaTensorSpecCount(p < op->n_in ? &op->in[p] : &op->out[p - op->n_in]);
    if (here > largest) largest = here;
  }
  for (int p = 0; p < count; p++) {
    const int64_t here = RengaTensorSpecCount(p < op->n_in ? &op->in[p] : &op->out[p - op->n_in]);
    if (64 * here > largest || here > 1 << 17) mask |= 1u << p;
  }
  for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
    if (strcmp(gradients[i], op->op->name) == 0) mask &= ~(1u << op->n_in);
  return mask;
}

static RengaErrorCode RunBench(RengaDevice device, const Bench *bench, RengaDataType type,
                               int number, Call *before, double *total)
{
  Call call;
  RengaOpCall op;
  Variant wide, low;
  RengaKernel kernel = NULL;
  char *workspace = NULL;
  double seconds = 0;
  RengaCall(MakeCall(&bench->call, number, before, &call, &op));
  for (int i = 0; i < call.n_out; i++) RengaCall(Allocate(&call.out[i], &call.output[i]));
  RengaCall(
      MakeVariants(device, &op, (const void *const *)call.input, type, MaskOf(&op), &wide, &low));
  RengaCall(RengaKernelCreate(device, &low.op, &kernel));
  RengaCall(RengaMalloc(RengaKernelGetWorkspace(kernel) + 1, &workspace));
  RengaCall(Time(kernel, (const void *const *)low.data, low.data + op.n_in, workspace, &seconds));
  for (int o = 0; o < op.n_out; o++)
    RengaCall(RengaDeviceConvert(device, NULL, RengaTensorSpecCount(&op.out[o]),
                                 low.spec[op.n_in + o].type, low.data[op.n_in + o], op.out[o].type,
                                 call.output[o]));
  *total += seconds * bench->count;
  RengaCall(RengaPrintf(
      MPI_COMM_WORLD, "%-24s %-42s %9.3f ms %7.1f GFLOP/s %6.1f GB/s %3d %8.1f ms%s\n",
      bench->call.op, bench->call.inputs, 1e3 * seconds, 1e-9 * RengaOperatorFlops(&op) / seconds,
      1e-9 * RengaOperatorBytes(&low.op) / seconds, bench->count, 1e3 * seconds * bench->count,
      RengaKernelIsFallback(kernel) ? " (ref)" : ""));
  RengaCall(FreeVariant(&wide));
  RengaCall(FreeVariant(&low));
  RengaFree(&workspace);
  RengaCall(RengaKernelDestroy(&kernel));
  RengaCall(FreeCall(before));
  *before = call;
  return RENGA_SUCCESS;
}

/* The updates of vectors, of GPT small's size. */
static RengaErrorCode RunVectors(RengaDevice device)
{
  enum { COUNT = 1 << 25 };
  float *x[4] = {NULL};
  static double squares[COUNT / RENGA_VECTOR_PIECE];
  const RengaAdamStep adam = {1e-3, 0.9, 0.999, 1e-8, true, 3};
  for (int i = 0; i < 4; i++) RengaCall(RengaMalloc(COUNT, &x[i]));
  const RengaParameterUpdate update = {
      .parameter = {x[0], RENGA_FLOAT32, COUNT},
      .gradient = {x[1], RENGA_FLOAT32, COUNT},
      .moment = {{x[2], RENGA_FLOAT32, COUNT}, {x[3], RENGA_FLOAT32, COUNT}},
      .rate_scale = 1,
      .weight_decay = 0.1};
  RengaCall(RengaDeviceUpdateAdam(device, NULL, &adam, 1, 1, &update));
  double start = Processor();
  RengaCall(RengaDeviceUpdateAdam(device, NULL, &adam, 1, 1, &update));
  double adam_seconds = Processor() - start;
  start = Processor();
  RengaCall(RengaDeviceAdd(device, NULL, RENGA_FLOAT32, COUNT, x[0], x[1]));
  double add_seconds = Processor() - start;
  start = Processor();
  RengaCall(RengaDeviceSumsOfSquares(device, NULL, 1, &update.parameter, squares));
  double sum_seconds = Processor() - start;
  for (int i = 0; i < 4; i++) RengaFree(&x[i]);
  RengaCall(RengaPrintf(
      MPI_COMM_WORLD, "adam %.1f GB/s, add %.1f GB/s, sum of squares %.1f GB/s of processor time\n",
      28e-9 * COUNT / adam_seconds, 12e-9 * COUNT / add_seconds, 4e-9 * COUNT / sum_seconds));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAll(const char *network, const char *type_name)
{
  RengaDataType type = RENGA_FLOAT32;
  if (strcmp(type_name, "bfloat16") == 0) type = RENGA_BFLOAT16;
  if (strcmp(type_name, "float16") == 0) type = RENGA_FLOAT16;
  RengaComm comm = NULL;
  RengaDevice device = NULL;
  Call before;
  double total = 0;
  memset(&before, 0, sizeof before);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetFromOptions(device));
  RengaCall(RengaDeviceSetUp(device));
  for (int b = 0; b < N_BENCHES; b++)
    if (strcmp(network, "all") == 0 || strcmp(network, benches[b].network) == 0)
      RengaCall(RunBench(device, &benches[b], type, b, &before, &total));
  RengaCall(FreeCall(&before));
  RengaCall(RengaPrintf(MPI_COMM_WORLD, "these calls of one step: %.1f ms of processor time\n",
                        1e3 * total));
  RengaCall(RunVectors(device));
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(
      RengaInitialize(&argc, &argv, "Rates of the kernels: kernels [gpt|resnet|all [type]]\n"));
  RengaCallAbort(RunAll(argc > 1 ? argv[1] : "all", argc > 2 ? argv[2] : "float32"));
  RengaCallAbort(RengaFinalize());
  return 0;
}
