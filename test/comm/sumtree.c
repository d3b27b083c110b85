/* TEST ranks: 1 2 3 4 8 */
/* RengaCommSumTree: the bits of one rank, for any bounds, lengths, work memory, and in place. */
#include "commtest.h"
#include <string.h>

enum { LONGEST = 40007, MOST_BUFFERS = 12 };

static float Leaf(int64_t leaf, int64_t i)
{
  uint32_t bits = (uint32_t)(leaf * 2654435761u + i * 40503u) ^ (uint32_t)(i << 11);
  return (float)(bits % 20011) / 997.0f - (float)(leaf % 3) * 1e4f;
}

static RengaErrorCode Add(void *user, float *y, const float *x)
{
  int64_t count = *(int64_t *)user;
  for (int64_t i = 0; i < count; i++) y[i] += x[i];
  return RENGA_SUCCESS;
}

/* This rank's leaves as a binary counter; the caller frees the buffers. */
static int Accumulate(int64_t n, int64_t first, int64_t last, int64_t count,
                      RengaPartialSum pieces[])
{
  int buffers = RengaCommTreeBuffers(n, true, first, last), held = 0;
  TestTrue(buffers <= MOST_BUFFERS);
  memset(pieces, 0, MOST_BUFFERS * sizeof *pieces);
  for (int i = 0; i < buffers; i++) RengaCallAbort(RengaMalloc(count, &pieces[i].data));
  for (int64_t leaf = first; leaf < last; leaf++) {
    pieces[held].first = leaf;
    pieces[held].count = 1;
    for (int64_t i = 0; i < count; i++) pieces[held].data[i] = Leaf(leaf, i);
    held++;
    RengaCallAbort(RengaCommTreeMerge(n, &held, pieces, Add, &count));
  }
  return held;
}

static void FreePieces(RengaPartialSum pieces[])
{
  for (int i = 0; i < MOST_BUFFERS; i++) RengaFree(&pieces[i].data);
}

/* work_bytes 0: as RengaCommTreeWork says; else this much. */
static void CheckSum(RengaComm comm, int64_t n, const int64_t bounds[], int64_t count,
                     size_t work_bytes, bool in_place)
{
  int rank = RengaCommGetRank(comm);
  RengaPartialSum one[MOST_BUFFERS], pieces[MOST_BUFFERS];
  float *result;
  char *work;
  Accumulate(n, 0, n, count, one);
  int held = Accumulate(n, bounds[rank], bounds[rank + 1], count, pieces);
  if (work_bytes == 0) work_bytes = RengaCommTreeWork(RengaCommGetSize(comm), n, bounds, count);
  RengaCallAbort(RengaMalloc(work_bytes, &work));
  RengaCallAbort(RengaMalloc(count, &result));
  float *to = in_place && held > 0 ? pieces[0].data : result;
  RengaCallAbort(RengaCommSumTree(comm, n, bounds, pieces, count, to, work, work_bytes, "a sum"));
  TestTrue(memcmp(to, one[0].data, (size_t)count * sizeof(float)) == 0);
  RengaFree(&result);
  RengaFree(&work);
  FreePieces(pieces);
  FreePieces(one);
}

/* Even bounds, then bounds drawn from a counter, so that ranks have none, one or many leaves. */
static void MakeBounds(int64_t n, int size, int draw, int64_t bounds[])
{
  for (int r = 0; r <= size; r++) bounds[r] = n * r / size;
  if (draw == 0) return;
  for (int r = 1; r < size; r++) {
    uint32_t counter[4] = {(uint32_t)draw, (uint32_t)r, (uint32_t)n, 0}, key[2] = {1, 2}, out[4];
    RengaPhilox(counter, key, out);
    int64_t b = (int64_t)(out[0] % (uint32_t)(n + 1));
    int at = r;
    for (; at > 1 && bounds[at - 1] > b; at--) bounds[at] = bounds[at - 1];
    bounds[at] = b;
  }
}

static void CheckErrors(RengaComm comm)
{
  int64_t bounds[9] = {0};
  float data[4] = {0}, work[4];
  RengaPartialSum piece = {.first = 0, .count = 1, .data = data};
  for (int r = 1; r <= RengaCommGetSize(comm); r++) bounds[r] = 2;
  TestError(RengaCommSumTree(comm, 3, bounds, &piece, 4, data, work, 0, "x"), RENGA_ERR_ARGUMENT);
  TestError(RengaCommSumTree(comm, 2, bounds, &piece, -1, data, work, 0, "x"), RENGA_ERR_ARGUMENT);
  if (RengaCommGetSize(comm) == 1) return;
  TestError(RengaCommSumTree(comm, 2, bounds, &piece, 4, data, work, 16, "x"), RENGA_ERR_ARGUMENT);
}

int main(int argc, char **argv)
{
  static const int64_t leaves[] = {1, 2, 3, 4, 5, 7, 8, 11, 16, 20},
                       counts[] = {1, 15, 17, 300, 2048};
  enum { N_LEAVES = sizeof leaves / sizeof *leaves, N_COUNTS = sizeof counts / sizeof *counts };
  RengaComm comm;
  int64_t bounds[9];
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  int size = RengaCommGetSize(comm);
  for (int i = 0; i < N_LEAVES; i++)
    for (int draw = 0; draw < 4; draw++) {
      MakeBounds(leaves[i], size, draw, bounds);
      CheckSum(comm, leaves[i], bounds, counts[(i + draw) % N_COUNTS], 0, draw % 2 == 0);
    }
  /* many rounds, long vectors, parts of odd length */
  for (int draw = 0; draw < 2; draw++) {
    MakeBounds(13, size, draw, bounds);
    CheckSum(comm, 13, bounds, LONGEST, 0, draw == 0);
    if (size > 1) CheckSum(comm, 13, bounds, LONGEST, 5 * 4096 + 100 * 1000, draw == 1);
  }
  CheckErrors(comm);
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
