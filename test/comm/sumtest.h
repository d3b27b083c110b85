/* What the tests of sums share: leaves, this rank's pieces of them, who adds, and bounds at
   random. */
#pragma once
#include "commtest.h"
#include "renga/private/sums.h"

enum { MOST_BUFFERS = 12, MOST_RANKS = 8 };

static inline float SumLeaf(int64_t leaf, int64_t i)
{
  uint32_t bits = (uint32_t)(leaf * 2654435761u + i * 40503u) ^ (uint32_t)(i << 11);
  return (float)(bits % 20011) / 997.0f - (float)(leaf % 3) * 1e4f;
}

static inline void SetLeaf(RengaDataType type, void *data, int64_t leaf, int64_t i)
{
  const float value = SumLeaf(leaf, i);
  if (type == RENGA_FLOAT32)
    ((float *)data)[i] = value;
  else if (type == RENGA_FLOAT64)
    ((double *)data)[i] = (double)value / 3;
  else
    ((uint16_t *)data)[i] = (uint16_t)(int32_t)value;
}

/* float32, float64, and 16 bits, which wrap around. */
static inline void AddTyped(RengaDataType type, int64_t count, void *y, const void *x)
{
  TestTrue(type == RENGA_FLOAT32 || type == RENGA_FLOAT64 || type == RENGA_UINT16);
  for (int64_t i = 0; i < count; i++) {
    if (type == RENGA_FLOAT32)
      ((float *)y)[i] += ((const float *)x)[i];
    else if (type == RENGA_FLOAT64)
      ((double *)y)[i] += ((const double *)x)[i];
    else
      ((uint16_t *)y)[i] = (uint16_t)(((uint16_t *)y)[i] + ((const uint16_t *)x)[i]);
  }
}

/* Adds at once, counts, and fails when that is due. */
typedef struct {
  int64_t elements;
  int calls, fails; /* fails: so many calls from now; 0: never */
} AtOnce;

static inline RengaErrorCode AddAtOnce(void *user, RengaDataType type, int64_t count, void *y,
                                       const void *x)
{
  AtOnce *state = user;
  RengaCheck(++state->calls != state->fails, MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "the device cannot add");
  state->elements += count;
  AddTyped(type, count, y, x);
  return RENGA_SUCCESS;
}

/* Adds later: one addition each time that it is asked whether all are done. */
typedef struct {
  int first, last;
  struct {
    RengaDataType type;
    int64_t count;
    void *y;
    const void *x;
  } queue[4096];
} Later;

static inline RengaErrorCode AddLater(void *user, RengaDataType type, int64_t count, void *y,
                                      const void *x)
{
  Later *later = user;
  TestTrue(later->last < 4096);
  later->queue[later->last].type = type;
  later->queue[later->last].count = count;
  later->queue[later->last].y = y;
  later->queue[later->last++].x = x;
  return RENGA_SUCCESS;
}

static inline RengaErrorCode TestLater(void *user, bool *done)
{
  Later *later = user;
  AtOnce at_once = {0};
  if (later->first < later->last) {
    const int q = later->first++;
    RengaCall(AddAtOnce(&at_once, later->queue[q].type, later->queue[q].count, later->queue[q].y,
                        later->queue[q].x));
  }
  *done = later->first == later->last;
  if (*done) later->first = later->last = 0;
  return RENGA_SUCCESS;
}

/* This rank's leaves as a binary counter; FreePieces frees the buffers. Returns how many are
   left. */
static inline int Accumulate(int64_t n, int64_t first, int64_t last, RengaDataType type,
                             int64_t count, RengaPartialSum pieces[])
{
  int buffers = RengaCommTreeBuffers(n, true, first, last), held = 0;
  AtOnce at_once = {0};
  const RengaCommAdder adder = {.begin = AddAtOnce, .user = &at_once};
  TestTrue(buffers <= MOST_BUFFERS);
  memset(pieces, 0, MOST_BUFFERS * sizeof *pieces);
  for (int i = 0; i < buffers; i++)
    RengaCallAbort(RengaMalloc((int64_t)RengaDataTypeSize(type) * count, (char **)&pieces[i].data));
  for (int64_t leaf = first; leaf < last; leaf++) {
    pieces[held].first = leaf;
    pieces[held].count = 1;
    for (int64_t i = 0; i < count; i++) SetLeaf(type, pieces[held].data, leaf, i);
    held++;
    RengaCallAbort(RengaCommTreeMerge(n, &held, pieces, type, count, &adder));
  }
  return held;
}

static inline void FreePieces(RengaPartialSum pieces[])
{
  for (int i = 0; i < MOST_BUFFERS; i++) RengaFree(&pieces[i].data);
}

static inline uint32_t DrawNumber(int draw, int r, int64_t n)
{
  uint32_t counter[4] = {(uint32_t)draw, (uint32_t)r, (uint32_t)n, 0}, key[2] = {1, 2}, out[4];
  RengaPhilox(counter, key, out);
  return out[0];
}

/* Even bounds, then bounds drawn from a counter, so that ranks have none, one or many of n. */
static inline void DrawBounds(int64_t n, int size, int draw, int64_t bounds[])
{
  for (int r = 0; r <= size; r++) bounds[r] = n * r / size;
  if (draw == 0) return;
  for (int r = 1; r < size; r++) {
    int64_t b = (int64_t)(DrawNumber(draw, r, n) % (uint32_t)(n + 1));
    int at = r;
    for (; at > 1 && bounds[at - 1] > b; at--) bounds[at] = bounds[at - 1];
    bounds[at] = b;
  }
}

/* Blocks of a vector of one part: even, or with whole pieces drawn. */
static inline RengaBlocks DrawBlocks(int size, int64_t count, int draw)
{
  const int64_t whole[2] = {0, count},
                pieces = (count + RENGA_VECTOR_PIECE - 1) / RENGA_VECTOR_PIECE;
  int64_t bounds[MOST_RANKS + 1];
  RengaBlocks blocks;
  RengaCallAbort(RengaBlocksCreate(size, 1, whole, &blocks));
  if (draw == 0) return blocks;
  DrawBounds(pieces, size, draw, bounds);
  for (int r = 0; r <= size; r++) {
    bounds[r] *= RENGA_VECTOR_PIECE;
    if (bounds[r] > count) bounds[r] = count;
  }
  RengaCallAbort(RengaBlocksSetBounds(blocks, bounds));
  return blocks;
}

/* One sum and what it needs. */
typedef struct {
  int64_t count;
  int64_t leaves[MOST_RANKS + 1];
  RengaPartialSum one[MOST_BUFFERS], pieces[MOST_BUFFERS]; /* one: the whole sum, on one rank */
  char *work;
  char *result;
  AtOnce at_once;
  Later *later;
  RengaCommSumTask task;
  RengaCommSum sum;
} Sample;

/* work_bytes 0: as RengaCommTreeWork says; else this much. */
static inline void SampleCreateOf(RengaComm comm, RengaDataType type, int64_t n, int leaf_draw,
                                  int64_t count, int block_draw, size_t work_bytes, bool in_place,
                                  Sample *s)
{
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  *s = (Sample){.count = count};
  DrawBounds(n, size, leaf_draw, s->leaves);
  Accumulate(n, 0, n, type, count, s->one);
  const int held = Accumulate(n, s->leaves[rank], s->leaves[rank + 1], type, count, s->pieces);
  if (work_bytes == 0) work_bytes = RengaCommTreeWork(size, n, s->leaves, type, count);
  RengaCallAbort(RengaMalloc((int64_t)work_bytes, &s->work));
  RengaCallAbort(RengaMalloc((int64_t)RengaDataTypeSize(type) * count, &s->result));
  RengaCallAbort(RengaMalloc(1, &s->later));
  s->task = (RengaCommSumTask){.blocks = DrawBlocks(size, count, block_draw),
                               .type = type,
                               .n_leaves = n,
                               .leaves = s->leaves,
                               .pieces = s->pieces,
                               .result = in_place && held > 0 ? s->pieces[0].data : s->result,
                               .work = s->work,
                               .work_bytes = work_bytes,
                               .adder = {.begin = AddAtOnce, .user = &s->at_once}};
}

static inline void SampleCreate(RengaComm comm, int64_t n, int leaf_draw, int64_t count,
                                int block_draw, size_t work_bytes, bool in_place, Sample *s)
{
  SampleCreateOf(comm, RENGA_FLOAT32, n, leaf_draw, count, block_draw, work_bytes, in_place, s);
}

/* Begin a sum once rank `first` has begun it, which then waits for messages of all. */
static inline void SampleBeginBehind(RengaComm comm, int first, Sample *s)
{
  enum { BEGUN_TAG = 11 };
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  MPI_Comm ranks; /* which are not those of MPI_COMM_WORLD where nodes are pretended */
  RengaCallAbort(RengaObjectGetComm(comm, &ranks));
  if (rank != first) MPI_Recv(NULL, 0, MPI_BYTE, first, BEGUN_TAG, ranks, MPI_STATUS_IGNORE);
  RengaCallAbort(RengaCommSumBegin(comm, &s->task, &s->sum));
  for (int r = 0; rank == first && r < size; r++)
    if (r != first) MPI_Send(NULL, 0, MPI_BYTE, r, BEGUN_TAG, ranks);
}

static inline bool SampleIsRight(const Sample *s)
{
  const size_t bytes = (size_t)s->count * RengaDataTypeSize(s->task.type);
  return memcmp(s->task.result, s->one[0].data, bytes) == 0;
}

static inline void SampleFree(Sample *s)
{
  TestTrue(s->sum == NULL);
  RengaCallAbort(RengaBlocksDestroy(&s->task.blocks));
  RengaFree(&s->later);
  RengaFree(&s->result);
  RengaFree(&s->work);
  FreePieces(s->pieces);
  FreePieces(s->one);
}
