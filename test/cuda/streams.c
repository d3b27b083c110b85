/* Streams, events, pinned memory, graphs: a right program has right numbers in any order. */
#include "cudatest.h"
#include "kernels.h"

enum { COUNT = 5000, BYTES = COUNT * sizeof(float), STEPS = 20, SLOTS = 2, LAUNCHES = 3 };

typedef struct {
  float *pinned, *device;
  cudaEvent_t arrived, read;
} Slot;

static cudaStream_t compute, copies;
static cudaEvent_t done;
static Slot slot[SLOTS];
static float *sum, *back;

static void Create(void)
{
  CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
  CUDA(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  for (int i = 0; i < SLOTS; i++) {
    CUDA(cudaEventCreateWithFlags(&slot[i].arrived, cudaEventDisableTiming));
    CUDA(cudaEventCreateWithFlags(&slot[i].read, cudaEventDisableTiming));
    CUDA(cudaHostAlloc((void **)&slot[i].pinned, BYTES, 0));
    slot[i].device = OnDevice(NULL, BYTES);
  }
  CUDA(cudaHostAlloc((void **)&back, BYTES, 0));
  sum = OnDevice(NULL, BYTES);
}

static void Destroy(void)
{
  for (int i = 0; i < SLOTS; i++) {
    CUDA(cudaEventDestroy(slot[i].arrived));
    CUDA(cudaEventDestroy(slot[i].read));
    CUDA(cudaFreeHost(slot[i].pinned));
    CUDA(cudaFree(slot[i].device));
  }
  CUDA(cudaFree(sum));
  CUDA(cudaFreeHost(back));
  CUDA(cudaEventDestroy(done));
  CUDA(cudaStreamDestroy(compute));
  CUDA(cudaStreamDestroy(copies));
}

static void ExpectSum(float want)
{
  CUDA(cudaMemcpyAsync(back, sum, BYTES, cudaMemcpyDeviceToHost, compute));
  CUDA(cudaEventRecord(done, compute));
  CUDA(cudaEventSynchronize(done));
  for (int i = 0; i < COUNT; i++) EXPECT(back[i] == want);
}

/* Step s + 1 is copied while s is added. */
static void TestOverlap(void)
{
  CUDA(cudaMemsetAsync(sum, 0, BYTES, compute));
  for (int s = 1; s <= STEPS; s++) {
    Slot *my = &slot[s % SLOTS];
    CUDA(cudaEventSynchronize(my->arrived));
    for (int i = 0; i < COUNT; i++) my->pinned[i] = (float)s;
    CUDA(cudaStreamWaitEvent(copies, my->read, 0));
    CUDA(cudaMemcpyAsync(my->device, my->pinned, BYTES, cudaMemcpyHostToDevice, copies));
    CUDA(cudaEventRecord(my->arrived, copies));
    CUDA(cudaStreamWaitEvent(compute, my->arrived, 0));
    CUDA(KernelAdd(compute, COUNT, sum, my->device));
    CUDA(cudaEventRecord(my->read, compute));
  }
  ExpectSum(STEPS * (STEPS + 1) / 2);
}

/* A pageable source is free when the call returns; so is a pageable target full. */
static void TestPageable(void)
{
  float host[64];
  for (int t = 0; t < STEPS; t++) {
    for (int i = 0; i < 64; i++) host[i] = (float)t;
    CUDA(cudaMemcpyAsync(sum, host, sizeof host, cudaMemcpyHostToDevice, compute));
    memset(host, 0, sizeof host);
    CUDA(cudaMemcpyAsync(host, sum, sizeof host, cudaMemcpyDeviceToHost, compute));
    for (int i = 0; i < 64; i++) EXPECT(host[i] == (float)t);
  }
}

/* The second stream joins by an event, and the first one takes it back by another. */
static void TestGraph(void)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(KernelFill(compute, COUNT, sum, 5));
  CUDA(KernelFill(compute, COUNT, slot[0].device, 1));
  CUDA(KernelFill(compute, COUNT, slot[1].device, 2));
  CUDA(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
  CUDA(cudaEventRecord(done, compute));
  CUDA(cudaStreamWaitEvent(copies, done, 0));
  CUDA(KernelAdd(copies, COUNT, sum, slot[0].device));
  CUDA(cudaEventRecord(done, copies));
  CUDA(cudaStreamWaitEvent(compute, done, 0));
  CUDA(KernelAdd(compute, COUNT, sum, slot[1].device));
  CUDA(cudaStreamEndCapture(compute, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphDestroy(graph));
  for (int i = 0; i < LAUNCHES; i++) CUDA(cudaGraphLaunch(exec, compute));
  ExpectSum(5 + LAUNCHES * (1 + 2));
  CUDA(cudaGraphExecDestroy(exec));
}

static cudaError_t Wait(void)
{
  return cudaStreamSynchronize(compute);
}

static cudaError_t Ask(void)
{
  return cudaEventQuery(done);
}

static cudaError_t Allocate(void)
{
  void *memory = NULL;
  return cudaMalloc(&memory, BYTES);
}

/* While a capture goes on some calls fail, and it with them. */
static void TestForbidden(void)
{
  static cudaError_t (*const calls[])(void) = {Wait, Ask, Allocate};
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
    cudaGraph_t graph = NULL;
    CUDA(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
    CUDA(KernelFill(compute, COUNT, sum, 5));
    EXPECT(calls[c]() == cudaErrorStreamCaptureUnsupported);
    EXPECT(cudaStreamEndCapture(compute, &graph) == cudaErrorStreamCaptureInvalidated);
    EXPECT(!graph);
    (void)cudaGetLastError();
  }
  CUDA(KernelFill(compute, COUNT, sum, 6)); /* the stream is as before */
  ExpectSum(6);
}

/* Who waits does so for what the event was recorded behind then, whatever comes later. */
static void TestRecordedAgain(void)
{
  cudaStream_t idle;
  CUDA(cudaStreamCreateWithFlags(&idle, cudaStreamNonBlocking));
  for (int s = 1; s <= STEPS; s++) {
    for (int i = 0; i <= s; i++) CUDA(KernelFill(compute, COUNT, sum, (float)i));
    CUDA(cudaEventRecord(done, compute));
    CUDA(cudaStreamWaitEvent(copies, done, 0));
    CUDA(cudaEventRecord(done, idle));
    CUDA(cudaMemcpyAsync(back, sum, BYTES, cudaMemcpyDeviceToHost, copies));
    CUDA(cudaStreamSynchronize(copies));
    for (int i = 0; i < COUNT; i++) EXPECT(back[i] == (float)s);
  }
  CUDA(cudaStreamDestroy(idle));
}

static void TestTimes(void)
{
  cudaEvent_t from, to;
  float milliseconds = -1;
  CUDA(cudaEventCreateWithFlags(&from, cudaEventDefault));
  CUDA(cudaEventCreateWithFlags(&to, cudaEventDefault));
  CUDA(cudaEventRecord(from, compute));
  CUDA(KernelFill(compute, COUNT, sum, 0));
  CUDA(cudaEventRecord(to, compute));
  CUDA(cudaEventSynchronize(to));
  CUDA(cudaEventQuery(to));
  CUDA(cudaEventElapsedTime(&milliseconds, from, to));
  EXPECT(milliseconds >= 0);
  EXPECT(cudaEventElapsedTime(&milliseconds, from, done) == cudaErrorInvalidResourceHandle);
  EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CUDA(cudaEventDestroy(from));
  CUDA(cudaEventDestroy(to));
}

int main(void)
{
  NeedDevice();
  Create();
  TestOverlap();
  TestPageable();
  TestGraph();
  TestForbidden();
  TestRecordedAgain();
  TestTimes();
  Destroy();
  return 0;
}
