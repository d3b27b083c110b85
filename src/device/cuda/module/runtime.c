/* Memory, copies, streams and events: CUDA's own, and the table of the module. */
#include "cudnn.h"
#include <stdio.h>
#include <stdlib.h>

/* An old driver and none are one error. */
static int SayDriver(cudaError_t code)
{
  char text[160];
  int driver = 0, runtime = 0;
  if (cudaDriverGetVersion(&driver) || driver == 0)
    return RengaCudaSay("cudaGetDeviceCount", (int)code, "there is no driver");
  if (cudaRuntimeGetVersion(&runtime)) runtime = CUDART_VERSION;
  snprintf(
      text, sizeof text,
      "the driver is for CUDA %d.%d, older than CUDA %d.%d of this module: install a newer driver",
      driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  return RengaCudaSay("cudaGetDeviceCount", (int)code, text);
}

/* Without a driver CUDA leaves the number as it was. */
static int CountGpus(int *devices)
{
  *devices = 0;
  const cudaError_t code = cudaGetDeviceCount(devices);
  if (code == cudaErrorInsufficientDriver) return SayDriver(code);
  return RengaCudaSayError("cudaGetDeviceCount", code);
}

/* As CUDA reads it: 1 to 32, 8 where it is not set. */
static int CountQueues(void)
{
  const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int set = text ? atoi(text) : 8;
  return set < 1 ? 1 : set > 32 ? 32 : set;
}

static int TellFact(RengaCudaFact fact)
{
  return fact == RENGA_CUDA_QUEUES ? CountQueues() : RengaCudaHasEights();
}

int RengaCudaCapability;

static int OpenDevice(int device, size_t size, char text[])
{
  struct cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  cudaError_t code = cudaSetDevice(device);
  if (!code) code = cudaGetDeviceProperties(&properties, device);
  if (!code) code = cudaDriverGetVersion(&driver);
  if (!code) code = cudaRuntimeGetVersion(&runtime);
  if (code) return RengaCudaSayError("cudaSetDevice", code);
  snprintf(text, size, "%s, %d multiprocessors, sm_%d%d, driver %d, CUDA %d, cuBLAS %zu",
           properties.name, properties.multiProcessorCount, properties.major, properties.minor,
           driver, runtime, RengaCudaProductVersion());
  RengaCudaCapability = 10 * properties.major + properties.minor;
  return RengaCudaProductOpen();
}

static int FreeMemory(size_t *bytes)
{
  size_t all;
  return RengaCudaSayError("cudaMemGetInfo", cudaMemGetInfo(bytes, &all));
}

static int ReserveMemory(size_t bytes, void **pointer)
{
  return RengaCudaSayError("cudaMalloc", cudaMalloc(pointer, bytes));
}

static int ReleaseMemory(void *pointer)
{
  return RengaCudaSayError("cudaFree", cudaFree(pointer));
}

static int ReserveHost(size_t bytes, void **pointer)
{
  return RengaCudaSayError("cudaHostAlloc", cudaHostAlloc(pointer, bytes, cudaHostAllocDefault));
}

static int ReleaseHost(void *pointer)
{
  return RengaCudaSayError("cudaFreeHost", cudaFreeHost(pointer));
}

static int CopyMemory(void *stream, RengaCudaCopy kind, void *to, const void *from, size_t bytes)
{
  static const enum cudaMemcpyKind kinds[] = {cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice,
                                              cudaMemcpyDeviceToDevice};
  return RengaCudaSayError("cudaMemcpyAsync",
                           cudaMemcpyAsync(to, from, bytes, kinds[kind], (cudaStream_t)stream));
}

static int SetMemory(void *stream, void *to, int byte, size_t bytes)
{
  return RengaCudaSayError("cudaMemsetAsync",
                           cudaMemsetAsync(to, byte, bytes, (cudaStream_t)stream));
}

/* Never CUDA's own stream NULL, which waits for all others. */
static int CreateStream(int ahead, void **stream)
{
  int least = 0, greatest = 0;
  cudaError_t code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (!code)
    code = cudaStreamCreateWithPriority((cudaStream_t *)stream, cudaStreamNonBlocking,
                                        ahead ? greatest : least);
  return RengaCudaSayError("cudaStreamCreate", code);
}

static int SynchronizeStream(void *stream)
{
  return RengaCudaSayError("cudaStreamSynchronize", cudaStreamSynchronize((cudaStream_t)stream));
}

static int DestroyStream(void *stream)
{
  return RengaCudaSayError("cudaStreamDestroy", cudaStreamDestroy((cudaStream_t)stream));
}

static int CreateEvent(void **event)
{
  return RengaCudaSayError("cudaEventCreate",
                           cudaEventCreateWithFlags((cudaEvent_t *)event, cudaEventDisableTiming));
}

/* Not an error, but the last one for CUDA, which the next launch would find. */
static int MayBeNotReady(const char *what, cudaError_t code)
{
  if (code != cudaErrorNotReady) return RengaCudaSayError(what, code);
  (void)cudaGetLastError();
  return 0;
}

static int CreateTimedEvent(void **event)
{
  return RengaCudaSayError("cudaEventCreate",
                           cudaEventCreateWithFlags((cudaEvent_t *)event, cudaEventDefault));
}

static int SecondsBetween(void *from, void *to, int *done, double *seconds)
{
  float milliseconds = 0;
  const cudaError_t code = cudaEventElapsedTime(&milliseconds, (cudaEvent_t)from, (cudaEvent_t)to);
  *done = code == cudaSuccess;
  *seconds = 1e-3 * (double)milliseconds;
  return MayBeNotReady("cudaEventElapsedTime", code);
}

static int RecordEvent(void *event, void *stream)
{
  return RengaCudaSayError("cudaEventRecord",
                           cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream));
}

static int WaitEvent(void *event, void *stream)
{
  return RengaCudaSayError("cudaStreamWaitEvent",
                           cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0));
}

static int SynchronizeEvent(void *event)
{
  return RengaCudaSayError("cudaEventSynchronize", cudaEventSynchronize((cudaEvent_t)event));
}

static int QueryEvent(void *event, int *done)
{
  const cudaError_t code = cudaEventQuery((cudaEvent_t)event);
  *done = code == cudaSuccess;
  return MayBeNotReady("cudaEventQuery", code);
}

static int DestroyEvent(void *event)
{
  return RengaCudaSayError("cudaEventDestroy", cudaEventDestroy((cudaEvent_t)event));
}

/* Of this thread alone: other threads of the process may use CUDA meanwhile. */
static int BeginRecording(void *stream)
{
  return RengaCudaSayError(
      "cudaStreamBeginCapture",
      cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeThreadLocal));
}

/* What CUDA says of a capture that it refused, or of a call in one, is not left to the next
   launch. */
static int EndRecording(void *stream, void **recording)
{
  cudaGraph_t graph = NULL;
  cudaGraphExec_t made = NULL;
  cudaError_t code = cudaStreamEndCapture((cudaStream_t)stream, &graph);
  if (!code) code = cudaGraphInstantiate(&made, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  *recording = made;
  return RengaCudaSayError("a CUDA graph", code);
}

static int LaunchRecording(void *recording, void *stream)
{
  return RengaCudaSayError("cudaGraphLaunch",
                           cudaGraphLaunch((cudaGraphExec_t)recording, (cudaStream_t)stream));
}

static int DestroyRecording(void *recording)
{
  return RengaCudaSayError("cudaGraphExecDestroy",
                           cudaGraphExecDestroy((cudaGraphExec_t)recording));
}

static RengaCudaModule module = {
    .version = RENGA_CUDA_VERSION,
    .error = RengaCudaError,
    .count = CountGpus,
    .open = OpenDevice,
    .memory = FreeMemory,
    .tell = TellFact,
    .reserve = ReserveMemory,
    .release = ReleaseMemory,
    .hostreserve = ReserveHost,
    .hostrelease = ReleaseHost,
    .copy = CopyMemory,
    .set = SetMemory,
    .streamcreate = CreateStream,
    .streamsynchronize = SynchronizeStream,
    .streamdestroy = DestroyStream,
    .eventcreate = CreateEvent,
    .eventrecord = RecordEvent,
    .eventwait = WaitEvent,
    .eventsynchronize = SynchronizeEvent,
    .eventquery = QueryEvent,
    .eventdestroy = DestroyEvent,
    .eventcreatetimed = CreateTimedEvent,
    .eventseconds = SecondsBetween,
    .recordbegin = BeginRecording,
    .recordend = EndRecording,
    .replay = LaunchRecording,
    .recordingdestroy = DestroyRecording,
    .setmoment = RengaCudaSetMoment,
    .convert = RengaCudaConvert,
    .round = RengaCudaRoundFactor,
    .add = RengaCudaAdd,
    .norms = RengaCudaNorms,
    .gateshare = RengaCudaShareGate,
    .gate = RengaCudaJudge,
    .sgd = RengaCudaUpdateSgd,
    .adam = RengaCudaUpdateAdam,
    .run = {.softmax = RengaCudaSoftmax,
            .norm = RengaCudaNormalization,
            .normgrad = RengaCudaNormalizationGrad,
            .loss = RengaCudaCrossEntropy,
            .lossgrad = RengaCudaCrossEntropyGrad,
            .join = RengaCudaJoinLanes,
            .joingrad = RengaCudaJoinLanesGrad,
            .losscount = RengaCudaCountLabels,
            .gather = RengaCudaTakeRows,
            .gathergrad = RengaCudaTakeRowsGrad,
            .reduce = RengaCudaReduction,
            .draw = RengaCudaDropout,
            .attention = RengaCudaAttend,
            .attentiongrad = RengaCudaAttendGrad,
            .preparemask = RengaCudaPrepareMask,
            .finishmasked = RengaCudaFinishMasked,
            .preparesums = RengaCudaPrepareSums,
            .batchnorm = RengaCudaBatchNormalization,
            .batchnormgrad = RengaCudaBatchNormalizationGrad,
            .columns = RengaCudaMakeColumns,
            .columnsgrad = RengaCudaAddColumns,
            .addbias = RengaCudaAddBias,
            .maxpool = RengaCudaMaxPool,
            .maxpoolgrad = RengaCudaMaxPoolGrad,
            .averagepool = RengaCudaAveragePool,
            .averagepoolgrad = RengaCudaAveragePoolGrad},
    .productcreate = RengaCudaProductCreate,
    .productrun = RengaCudaProductRun,
    .productdestroy = RengaCudaProductDestroy,
};

__attribute__((visibility("default"))) const RengaCudaModule *RengaCudaGetModule(void);

const RengaCudaModule *RengaCudaGetModule(void)
{
  module.product_bytes = RengaCudaProductBytes;
  module.each = RengaCudaEach;
  module.nccl = RengaCudaNcclTable;
  module.cudnn = RengaCudaCudnnTable;
  return &module;
}
