/* Faults on purpose: each must be reported (exit code 86), and be reported as what it is. The list
   is in suite.sh, with the words that it expects. */
#include "kernels.h"
#include "launch.h"
#include <nccl.h>
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 64, BYTES = N * sizeof(float), FOUND = 86 };

__global__ void MissingBarrier(float *x)
{
  __shared__ float s[N];
  s[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = s[N - 1 - threadIdx.x];
}

__global__ void LateValue(float *x)
{
  __shared__ float s;
  if (threadIdx.x == 40) s = 7;
  x[threadIdx.x] = s;
}

__global__ void TwoBarriers(float *x)
{
  if (threadIdx.x < 32) {
    x[threadIdx.x] = 1;
    __syncthreads();
  } else {
    x[threadIdx.x] = 2;
    __syncthreads();
  }
}

__global__ void HalfABarrier(float *x)
{
  if (threadIdx.x < 32) __syncthreads();
  if (threadIdx.x >= 32) __syncwarp(threadIdx.x == 63 ? 0x80000000u : 0xffffffffu);
  x[threadIdx.x] = 1;
}

__global__ void HalfAShuffle(float *x)
{
  float v = x[threadIdx.x];
  if ((threadIdx.x & 31) < 16) v += __shfl_xor_sync(0xffffffffu, v, 1);
  x[threadIdx.x] = v;
}

__global__ void ForeignLane(float *x)
{
  if ((threadIdx.x & 31) < 16) x[threadIdx.x] = __shfl_sync(0x0000ffffu, x[threadIdx.x], 20);
}

__global__ void OutOfBounds(float *x)
{
  x[1024 * blockIdx.x + threadIdx.x] = 1;
}

__global__ void JustBehind(float *x)
{
  x[threadIdx.x + 1] = 1;
}

__global__ void AtomicSum(float *x)
{
  atomicAdd(&x[0], 1.0f / (float)(1 + blockIdx.x * N + threadIdx.x));
}

__global__ void RaceOfBlocks(float *x)
{
  if (threadIdx.x == 0) x[0] = x[0] * 0.5f + (float)blockIdx.x;
}

__global__ void UnsetShared(float *x)
{
  __shared__ float s[N];
  if (threadIdx.x < N / 2) s[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];
}

__global__ void Dynamic(float *x)
{
  RENGA_DYNAMIC_SHARED(float, s);
  s[threadIdx.x] = x[threadIdx.x];
}

__global__ void Copy(const float *from, float *to)
{
  to[threadIdx.x] = from[threadIdx.x];
}

static const struct {
  const char *name;
  void (*kernel)(float *);
  unsigned blocks;
  size_t shared;
} kernels[] = {
    {"missing-barrier", MissingBarrier, 1, 0}, {"late-value", LateValue, 1, 0},
    {"two-barriers", TwoBarriers, 1, 0},       {"half-a-barrier", HalfABarrier, 1, 0},
    {"half-a-shuffle", HalfAShuffle, 1, 0},    {"foreign-lane", ForeignLane, 1, 0},
    {"out-of-bounds", OutOfBounds, 2, 0},      {"at-the-end", JustBehind, 1, 0},
    {"atomic-sum", AtomicSum, 4, 0},           {"race-of-blocks", RaceOfBlocks, 4, 0},
    {"dynamic-shared", Dynamic, 1, BYTES - 4},
};

static float *x, *y, *pinned, host[N];
static cudaStream_t first, second;

static void Create()
{
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaMalloc((void **)&x, BYTES);
  cudaMalloc((void **)&y, BYTES);
  cudaHostAlloc((void **)&pinned, BYTES, 0);
  for (int i = 0; i < N; i++) pinned[i] = host[i] = (float)i;
  cudaMemcpy(x, host, BYTES, cudaMemcpyHostToDevice);
  cudaMemcpy(y, host, BYTES, cudaMemcpyHostToDevice);
}

/* What CUDA itself refuses: the right code is as good as a report. */
static bool IsRefused(const char *fault)
{
  if (!strcmp(fault, "many-threads"))
    return RENGA_LAUNCH(Copy, 1, 2048, 0, first, x, y) == cudaErrorInvalidConfiguration;
  if (!strcmp(fault, "much-shared"))
    return RENGA_LAUNCH(Copy, 1, N, 60000, first, x, y) == cudaErrorInvalidValue;
  if (!strcmp(fault, "wrong-direction"))
    return cudaMemcpyAsync(x, y, BYTES, cudaMemcpyHostToDevice, first) == cudaErrorInvalidValue;
  if (!strcmp(fault, "much-memory"))
    return cudaMalloc((void **)&x, (size_t)1 << 50) == cudaErrorMemoryAllocation;
  return false;
}

/* The host is ahead of the stream that calls it. */
static void Pause(void *)
{
  usleep(1000);
}

/* What shows in numbers, under some order. */
static bool IsWrong(const char *fault)
{
  const bool early = !strcmp(fault, "early-read"), unordered = !strcmp(fault, "missing-wait");
  if (!strcmp(fault, "unset-shared")) {
    RENGA_LAUNCH(UnsetShared, 1, N, 0, first, x);
    cudaMemcpyAsync(host, x, BYTES, cudaMemcpyDeviceToHost, first);
    return host[N - 1] != host[N - 1];
  }
  for (int t = 0; t < 20 && (early || unordered); t++) {
    cudaLaunchHostFunc(first, Pause, nullptr);
    KernelFill(first, N, x, (float)(N + t));
    if (unordered) RENGA_LAUNCH(Copy, 1, N, 0, second, x, y);
    cudaMemcpyAsync(pinned, early ? x : y, BYTES, cudaMemcpyDeviceToHost, early ? first : second);
    if (unordered) cudaStreamSynchronize(second);
    if (pinned[N - 1] != (float)(N + t)) return true;
    cudaDeviceSynchronize();
  }
  return false;
}

/* The graph has the address of what is freed then. */
static void FreeBehindGraph(void)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal);
  RENGA_LAUNCH(Copy, 1, N, 0, first, y, x);
  cudaStreamEndCapture(first, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, first);
  cudaFree(x);
  cudaGraphLaunch(exec, first);
}

static void TouchMemory(const char *fault)
{
  if (!strcmp(fault, "freed-behind-graph")) FreeBehindGraph();
  if (!strcmp(fault, "host-pointer")) RENGA_LAUNCH(Copy, 1, N, 0, first, host, x);
  if (!strcmp(fault, "behind-the-end")) {
    cudaMalloc((void **)&x, sizeof(float));
    RENGA_LAUNCH(JustBehind, 1, 1, 0, first, x);
  }
  if (!strcmp(fault, "host-touch")) {
    cudaDeviceSynchronize();
    printf("%g\n", x[3]);
  }
  if (!strcmp(fault, "use-after-free")) {
    cudaFree(x);
    RENGA_LAUNCH(Copy, 1, N, 0, first, y, x);
  }
  if (!strcmp(fault, "host-after-free")) {
    cudaFree(x);
    x[0] = 1;
  }
  if (!strcmp(fault, "changed-source"))
    for (int t = 1; t < 20; t++) {
      cudaMemcpyAsync(x, pinned, BYTES, cudaMemcpyHostToDevice, first);
      for (int i = 0; i < N; i++) pinned[i] = (float)t / 3;
    }
}

static void CallOthers(const char *fault)
{
  ncclUniqueId id;
  ncclComm_t comm;
  if (!strcmp(fault, "split-sums")) {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int found;
    cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, 4, 4, 4);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulAlgoGetHeuristic(nullptr, op, a, a, a, a, preference, 1, &result, &found);
  }
  if (strncmp(fault, "nccl-", 5) != 0) return;
  ncclGetUniqueId(&id);
  ncclCommInitRank(&comm, 1, id, 0);
  if (!strcmp(fault, "nccl-host-pointer")) ncclSend(host, N, ncclFloat32, 0, comm, first);
  if (!strcmp(fault, "nccl-ungrouped")) ncclSend(x, N, ncclFloat32, 0, comm, first);
  if (!strcmp(fault, "nccl-sizes")) {
    ncclGroupStart();
    ncclSend(x, N, ncclFloat32, 0, comm, first);
    ncclRecv(y, N / 2, ncclFloat32, 0, comm, first);
    ncclGroupEnd();
  }
}

int main(int argc, char **argv)
{
  const char *fault = argc > 1 ? argv[1] : "";
  Create();
  for (const auto &k : kernels)
    if (!strcmp(fault, k.name)) RENGA_LAUNCH(k.kernel, k.blocks, N, k.shared, first, x);
  if (IsRefused(fault) || IsWrong(fault)) {
    fprintf(stderr, "%s: refused or wrong, as it must be\n", fault);
    return FOUND;
  }
  TouchMemory(fault);
  CallOthers(fault);
  cudaDeviceSynchronize();
  return 0;
}
