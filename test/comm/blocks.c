/* TEST ranks: 1 */
/* Blocks: every element has one owner, no piece has two, and shares are even as far as that
   goes. */
#include "commtest.h"
#include "renga/private/sums.h"

enum { PARTS = 9, MOST_RANKS = 7 };

/* Whether a block may begin at an element. */
static bool MayBegin(int64_t parts, const int64_t begin[], int64_t at)
{
  for (int64_t p = 0; p < parts; p++)
    if (at >= begin[p] && at < begin[p + 1]) return (at - begin[p]) % RENGA_VECTOR_PIECE == 0;
  return at == begin[parts];
}

static void CheckEven(int ranks, int64_t parts, const int64_t begin[])
{
  RengaBlocks blocks;
  int64_t at = 0, first, last;
  const int64_t count = begin[parts];
  RengaCallAbort(RengaBlocksCreate(ranks, parts, begin, &blocks));
  for (int r = 0; r < ranks; r++) {
    RengaCallAbort(RengaBlocksGetRange(blocks, r, &first, &last));
    TestTrue(first == at && last >= first && MayBegin(parts, begin, first));
    TestTrue(last - first <= count / ranks + 1 + RENGA_VECTOR_PIECE);
    at = last;
  }
  TestTrue(at == count);
  TestError(RengaBlocksGetRange(blocks, ranks, &first, &last), RENGA_ERR_ARGUMENT);
  RengaCallAbort(RengaBlocksDestroy(&blocks));
  TestTrue(blocks == NULL);
}

static RengaErrorCode SetBoundsOf(RengaBlocks blocks)
{
  const int64_t bounds[3] = {0, 40000, 100000};
  RengaCall(RengaBlocksSetBounds(blocks, bounds));
  return RENGA_SUCCESS;
}

static void CheckBounds(void)
{
  const int64_t begin[3] = {0, 20000, 100000};
  const int64_t right[][3] = {{0, 16384, 100000},
                              {0, 20000, 100000},
                              {0, 20000 + 3 * 16384, 100000},
                              {0, 100000, 100000},
                              {0, 0, 100000}};
  const int64_t wrong[][3] = {{0, 2 * 16384, 100000},
                              {0, 20001, 100000},
                              {16384, 20000, 100000},
                              {0, 20000, 99999},
                              {0, 100001, 100000}};
  int64_t first, last;
  RengaBlocks blocks;
  FILE *file;
  RengaCallAbort(RengaBlocksCreate(2, 2, begin, &blocks));
  for (int i = 0; i < 5; i++) {
    RengaCallAbort(RengaBlocksSetBounds(blocks, right[i]));
    TestError(RengaBlocksSetBounds(blocks, wrong[i]), RENGA_ERR_ARGUMENT);
    RengaCallAbort(RengaBlocksGetRange(blocks, 1, &first, &last));
    TestTrue(first == right[i][1] && last == 100000); /* the refused bounds changed nothing */
  }
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = SetBoundsOf(blocks);
  const char *text = EndErrors(file, saved);
  TestTrue(code == RENGA_ERR_ARGUMENT &&
           strstr(text, "rank 1's block may not begin at element 40000, within a piece: at 36384 "
                        "or 52768") != NULL);
  RengaCallAbort(RengaBlocksDestroy(&blocks));
}

int main(int argc, char **argv)
{
  static const int64_t begin[] = {0, 64, 64, 50000, 50016, 50032, 300000, 316384, 316400, 400007};
  static const int64_t empty[] = {0, 0}, falls[] = {0, 5, 4}, late[] = {1, 5};
  RengaBlocks blocks = NULL;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
    for (int64_t parts = 1; parts <= PARTS; parts++) CheckEven(ranks, parts, begin);
  CheckEven(3, 1, empty);
  CheckBounds();
  TestError(RengaBlocksCreate(2, 2, falls, &blocks), RENGA_ERR_ARGUMENT);
  TestError(RengaBlocksCreate(2, 1, late, &blocks), RENGA_ERR_ARGUMENT);
  TestError(RengaBlocksCreate(0, 1, empty, &blocks), RENGA_ERR_ARGUMENT);
  TestTrue(blocks == NULL);
  RengaCallAbort(RengaFinalize());
  return 0;
}
