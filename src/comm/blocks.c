/* Comm: who owns which elements of a vector.

   Whatever is worked out piece by piece, a norm above all, counts its pieces of RENGA_VECTOR_PIECE
   elements from where its part of the vector begins. So a rank's range may begin only there, or
   whole pieces later: then no piece lies on two ranks. */
#include "commimpl.h"
#include <string.h>

static bool AscendsFromZero(int64_t count, const int64_t begin[])
{
  for (int64_t i = 0; i < count; i++)
    if (begin[i] > begin[i + 1]) return false;
  return begin[0] == 0;
}

/* The last place at or before `at` where a range may begin, and the next one after that. */
static void BlocksNear(const struct _RengaBlocks *blocks, int64_t at, int64_t *before,
                       int64_t *after)
{
  int64_t low = 0, high = blocks->parts;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (blocks->begin[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  const int64_t first = blocks->begin[low], end = blocks->begin[low + 1];
  *before = at >= end ? end : first + (at - first) / RENGA_VECTOR_PIECE * RENGA_VECTOR_PIECE;
  *after = *before + RENGA_VECTOR_PIECE < end ? *before + RENGA_VECTOR_PIECE : end;
}

static void BlocksMakeEven(RengaBlocks blocks)
{
  const int64_t count = blocks->begin[blocks->parts], ranks = blocks->ranks;
  for (int r = 0; r < blocks->ranks; r++) {
    const int64_t wanted = count / ranks * r + count % ranks * r / ranks;
    int64_t before, after;
    BlocksNear(blocks, wanted, &before, &after);
    blocks->bounds[r] = wanted - before < after - wanted ? before : after;
  }
  blocks->bounds[0] = 0;
  blocks->bounds[blocks->ranks] = count;
}

/* Split the elements of a vector. All ranks that use the blocks together make the same. As even as
   it may be: a rank's range begins where a part does, or a multiple of RENGA_VECTOR_PIECE elements
   after that. Of a short vector some ranks have nothing. ranks: the number of ranks that have the
   vector together, at least 1. parts: the number of parts that the vector consists of, at least 1:
   parameters, or the whole. begin: [parts + 1] where each begins, the first at 0; the last number
   is the vector's length. blocks: free it with RengaBlocksDestroy; sums that were begun do not need
   it. */
RengaErrorCode RengaBlocksCreate(int ranks, int64_t parts, const int64_t begin[],
                                 RengaBlocks *blocks)
{
  RengaBlocks made;
  RengaCheckPointers(begin, blocks);
  RengaCheck(ranks > 0 && parts > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "blocks of %lld parts for %d ranks", (long long)parts, ranks);
  RengaCheck(AscendsFromZero(parts, begin), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the parts of a vector must begin at 0 and ascend");
  RengaCall(RengaMalloc(1, &made));
  made->ranks = ranks;
  made->parts = parts;
  RengaErrorCode code = RengaMalloc(parts + 1, &made->begin);
  if (!code) code = RengaMalloc(ranks + 1, &made->bounds);
  if (code) RengaBlocksDestroy(&made);
  RengaCall(code);
  memcpy(made->begin, begin, (size_t)(parts + 1) * sizeof *begin);
  BlocksMakeEven(made);
  *blocks = made;
  return RENGA_SUCCESS;
}

/* Split the elements in another way. All ranks that use the blocks together set the same. bounds:
   [ranks + 1] rank r gets elements [bounds[r], bounds[r + 1]), which may be none. */
RengaErrorCode RengaBlocksSetBounds(RengaBlocks blocks, const int64_t bounds[])
{
  RengaCheckPointers(blocks, bounds);
  const int64_t count = blocks->begin[blocks->parts];
  RengaCheck(AscendsFromZero(blocks->ranks, bounds) && bounds[blocks->ranks] == count,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the bounds of blocks must ascend from 0 to the vector's %lld elements",
             (long long)count);
  for (int r = 1; r < blocks->ranks; r++) {
    int64_t before, after;
    BlocksNear(blocks, bounds[r], &before, &after);
    RengaCheck(before == bounds[r], MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
               "rank %d's block may not begin at element %lld, within a piece: at %lld or %lld", r,
               (long long)bounds[r], (long long)before, (long long)after);
  }
  memcpy(blocks->bounds, bounds, (size_t)(blocks->ranks + 1) * sizeof *bounds);
  return RENGA_SUCCESS;
}

/* The elements that a rank owns. rank: the rank whose block it is, from 0. first, last: elements
   [first, last); the same number where the rank has none. */
RengaErrorCode RengaBlocksGetRange(RengaBlocks blocks, int rank, int64_t *first, int64_t *last)
{
  RengaCheckPointers(blocks, first, last);
  RengaCheck(rank >= 0 && rank < blocks->ranks, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "rank %d is not one of 0 to %d", rank, blocks->ranks - 1);
  *first = blocks->bounds[rank];
  *last = blocks->bounds[rank + 1];
  return RENGA_SUCCESS;
}

/* Free blocks. blocks: set to NULL; NULL is none. */
RengaErrorCode RengaBlocksDestroy(RengaBlocks *blocks)
{
  RengaCheckPointer(blocks);
  if (!*blocks) return RENGA_SUCCESS;
  RengaFree(&(*blocks)->begin);
  RengaFree(&(*blocks)->bounds);
  RengaFree(blocks);
  return RENGA_SUCCESS;
}
