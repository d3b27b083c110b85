/* TEST ranks: 1 2 4 */
/* NCCL: messages of a pipeline, sums and gathers; and a sum by a fixed tree from messages and an
   add kernel, which has the same bits on any number of ranks. */
#include "cudatest.h"
#include "kernels.h"
#include <math.h>
#include <mpi.h>
#include <nccl.h>

enum { COUNT = 24 * 1024, BYTES = COUNT * sizeof(float), LEAVES = 4, ROUNDS = 5 };
static int rank, ranks;
static ncclComm_t comm;
static cudaStream_t stream;
static float host[COUNT], want[COUNT], got[COUNT];
static float *leaf[LEAVES], *result, *work;

static void Create(void)
{
  ncclUniqueId id;
  if (rank == 0) CUDA(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  CUDA(ncclCommInitRank(&comm, ranks, id, rank));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  result = OnDevice(NULL, BYTES);
  work = OnDevice(NULL, BYTES);
}

static void Destroy(void)
{
  CUDA(ncclCommDestroy(comm));
  CUDA(cudaStreamDestroy(stream));
  CUDA(cudaFree(result));
  CUDA(cudaFree(work));
  for (int l = 0; l < LEAVES; l++) CUDA(cudaFree(leaf[l]));
}

/* Leaf l is the same whoever has it; want is their sum by the tree. */
static void CreateLeaves(void)
{
  static float all[LEAVES][COUNT];
  for (int l = 0; l < LEAVES; l++) {
    FillRandom(COUNT, all[l]);
    for (int i = 0; i < COUNT; i++) all[l][i] *= 1 + (float)l / 3;
    leaf[l] = OnDevice(all[l], BYTES);
  }
  for (int i = 0; i < COUNT; i++) want[i] = (all[0][i] + all[1][i]) + (all[2][i] + all[3][i]);
}

/* Pieces of each block go to its owner, who adds them up; then all get all blocks. */
static void TestTree(void)
{
  const int each = LEAVES / ranks, first = rank * each;
  const size_t block = COUNT / (size_t)ranks;
  for (int step = 1; step < each; step *= 2)
    for (int l = 0; l + step < each; l += 2 * step)
      CUDA(KernelAdd(stream, COUNT, leaf[first + l], leaf[first + l + step]));
  CUDA(ncclGroupStart());
  for (int r = 0; r < ranks; r++) {
    const size_t at = (size_t)r * block;
    CUDA(ncclSend(leaf[first] + at, block, ncclFloat32, r, comm, stream));
    CUDA(ncclRecv(work + at, block, ncclFloat32, r, comm, stream));
  }
  CUDA(ncclGroupEnd());
  for (int step = 1; step < ranks; step *= 2)
    for (int r = 0; r + step < ranks; r += 2 * step)
      CUDA(KernelAdd(stream, (int64_t)block, work + (size_t)r * block,
                     work + (size_t)(r + step) * block));
  CUDA(ncclAllGather(work, result, block, ncclFloat32, comm, stream));
  ToHost(got, result, BYTES);
  EXPECT(memcmp(got, want, BYTES) == 0);
}

static void TestSums(void)
{
  CUDA(ncclAllReduce(leaf[rank * LEAVES / ranks], result, COUNT, ncclFloat32, ncclSum, comm,
                     stream));
  ToHost(got, result, BYTES);
  for (int i = 0; i < COUNT; i++) EXPECT(fabsf(got[i] - want[i]) < 1e-5f);
  CUDA(KernelFill(stream, COUNT, work, (float)(rank + 1)));
  CUDA(ncclReduceScatter(work, result, COUNT / (size_t)ranks, ncclFloat32, ncclMax, comm, stream));
  CUDA(ncclReduce(work, work, COUNT, ncclFloat32, ncclAvg, 0, comm, stream));
  ToHost(got, result, sizeof(float));
  EXPECT(got[0] == (float)ranks);
  ToHost(got, work, BYTES);
  EXPECT(rank != 0 || got[COUNT - 1] == (float)(ranks + 1) / 2);
}

/* Each sends to the next and receives from the one before, several times, in one group. */
static void TestRing(void)
{
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  CUDA(KernelFill(stream, COUNT, work, (float)rank));
  for (int i = 0; i < ROUNDS; i++) {
    CUDA(ncclGroupStart());
    CUDA(ncclSend(work, COUNT / 2, ncclFloat32, next, comm, stream));
    CUDA(ncclSend(work + COUNT / 2, COUNT / 2, ncclFloat32, next, comm, stream));
    CUDA(ncclRecv(result, COUNT / 2, ncclFloat32, before, comm, stream));
    CUDA(ncclRecv(result + COUNT / 2, COUNT / 2, ncclFloat32, before, comm, stream));
    CUDA(ncclGroupEnd());
    CUDA(cudaMemcpyAsync(work, result, BYTES, cudaMemcpyDeviceToDevice, stream));
  }
  ToHost(got, work, BYTES);
  const float origin = (float)(((rank - ROUNDS) % ranks + ranks) % ranks);
  for (int i = 0; i < COUNT; i++) EXPECT(got[i] == origin);
  CUDA(ncclBroadcast(work, result, COUNT, ncclFloat32, 0, comm, stream));
  ToHost(host, result, BYTES);
  EXPECT(host[7] == (float)((ranks - ROUNDS % ranks) % ranks));
}

int main(int argc, char **argv)
{
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  NeedDevice();
  Create();
  CreateLeaves();
  TestTree();
  TestSums();
  TestRing();
  Destroy();
  MPI_Finalize();
  return 0;
}
