/* Tensors brought together block after block. A block's elements are neighbours in the vector of
   each part, so that owners send what lies there, and the rank that takes the block puts the runs
   where they belong. All ranks go through all blocks in one order: the first block that is not done
   can always go on. */
#include "renga/private/holdings.h"
#include "renga/private/kernel.h"
#include <string.h>

enum { TAG = 32766 };

typedef struct {
  const RengaHoldings *holdings;
  RengaDevice device; /* NULL where its memory is the host's */
  const RengaBringing *bringing;
  char *whole, *part;  /* [RENGA_HOLDINGS_BLOCK] the block, what comes from one row */
  RengaErrorCode code; /* the first error of this rank */
} Bringer;

/* Elements [first, last) of a tensor. */
typedef struct {
  const RengaHeldTensor *tensor;
  int number;
  size_t size; /* of an element */
  int64_t first, last;
  int taker;
} BroughtBlock;

static int64_t CountInBlock(const BroughtBlock *block, const RengaHolding *row)
{
  const RengaRuns runs = RengaRunsOf(&block->tensor->spec, &row->part);
  return RengaRunsBefore(&runs, block->last) - RengaRunsBefore(&runs, block->first);
}

/* The rank of a row that has most of the elements; of n equal ones number turn modulo n. So all
   take about as many blocks, of tensors that are cut alike, too. */
static int FindMainOwner(const RengaHoldings *holdings, const BroughtBlock *block, int64_t turn)
{
  const RengaHolding *row = holdings->row + block->tensor->first;
  int64_t most = -1, equal = 0;
  for (int i = 0; i < block->tensor->count; i++) {
    const int64_t count = CountInBlock(block, &row[i]);
    equal = count > most ? 1 : equal + (count == most);
    if (count > most) most = count;
  }
  int64_t before = equal > 0 ? turn % equal : 0;
  for (int i = 0; i < block->tensor->count; i++)
    if (CountInBlock(block, &row[i]) == most && before-- == 0) return row[i].rank;
  return -1;
}

/* host: it lies there, and the device may be at work with it. */
static RengaErrorCode CopyDown(const Bringer *bringer, bool host, char *to, const char *from,
                               size_t bytes)
{
  if (bringer->device && host) RengaCall(RengaStreamSynchronize(bringer->device, NULL));
  if (!bringer->device || host) {
    memcpy(to, from, bytes);
    return RENGA_SUCCESS;
  }
  RengaCall(RengaDeviceCopy(bringer->device, NULL, RENGA_DEVICE_TO_HOST, to, from, bytes));
  RengaCall(RengaStreamSynchronize(bringer->device, NULL));
  return RENGA_SUCCESS;
}

/* The elements of the block in a part of this rank, in host memory: in place where it can be. After
   an error any bytes will do: nobody takes them. */
static const char *FindElements(Bringer *bringer, const BroughtBlock *block,
                                const RengaHolding *row, int64_t count)
{
  const RengaRuns runs = RengaRunsOf(&block->tensor->spec, &row->part);
  const char *from =
      (const char *)row->mine->data + (size_t)RengaRunsBefore(&runs, block->first) * block->size;
  if (!bringer->device) return from;
  if (!bringer->code)
    bringer->code =
        CopyDown(bringer, row->mine->host, bringer->part, from, (size_t)count * block->size);
  return bringer->part;
}

/* To where they belong in the block. */
static void PlaceElements(Bringer *bringer, const BroughtBlock *block, const RengaHolding *row,
                          const char *from)
{
  const RengaRuns runs = RengaRunsOf(&block->tensor->spec, &row->part);
  for (int64_t r = RengaRunsFind(&runs, block->first); r < runs.count; r++) {
    int64_t first = RengaRunsAt(&runs, r), last = first + runs.length;
    if (first >= block->last) return;
    if (first < block->first) first = block->first;
    if (last > block->last) last = block->last;
    const size_t bytes = (size_t)(last - first) * block->size;
    memcpy(bringer->whole + (size_t)(first - block->first) * block->size, from, bytes);
    from += bytes;
  }
}

/* A message that cannot be started is tried again: another rank waits for it. */
static RengaErrorCode MoveElements(Bringer *bringer, bool send, char *bytes, size_t count,
                                   int other)
{
  enum { ATTEMPTS = 3 };
  const RengaComm comm = bringer->holdings->comm;
  RengaRequest request = NULL;
  RengaErrorCode code;
  int attempt = 0;
  do {
    code = send ? RengaCommSend(comm, bytes, count, other, TAG, &request)
                : RengaCommReceive(comm, bytes, count, other, TAG, &request);
    if (code && !bringer->code) bringer->code = code;
  } while (code && ++attempt < ATTEMPTS);
  RengaCall(code);
  RengaCall(RengaCommWait(comm, &request, "parts of a tensor to come together"));
  return RENGA_SUCCESS;
}

static RengaErrorCode SendElements(Bringer *bringer, const BroughtBlock *block,
                                   const RengaHolding *row, int64_t count)
{
  const char *from = FindElements(bringer, block, row, count);
  RengaCall(MoveElements(bringer, true, (char *)(uintptr_t)from, (size_t)count * block->size,
                         block->taker));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReceiveElements(Bringer *bringer, const BroughtBlock *block,
                                      const RengaHolding *row, int64_t count)
{
  RengaCall(MoveElements(bringer, false, bringer->part, (size_t)count * block->size, row->rank));
  PlaceElements(bringer, block, row, bringer->part);
  return RENGA_SUCCESS;
}

static void TakeBlock(Bringer *bringer, const BroughtBlock *block, const char *data)
{
  if (bringer->code) return;
  bringer->code = bringer->bringing->take(
      bringer->bringing->user, block->number, block->first * (int64_t)block->size,
      (block->last - block->first) * (int64_t)block->size, data);
}

/* Fails where messages do. */
static RengaErrorCode BringToMe(Bringer *bringer, const BroughtBlock *block)
{
  const RengaHolding *row = bringer->holdings->row + block->tensor->first;
  for (int i = 0; i < block->tensor->count; i++) {
    const int64_t count = CountInBlock(block, &row[i]);
    const char *here =
        count > 0 && row[i].mine ? FindElements(bringer, block, &row[i], count) : NULL;
    if (count == block->last - block->first && here) {
      TakeBlock(bringer, block, here);
      return RENGA_SUCCESS;
    }
    if (here)
      PlaceElements(bringer, block, &row[i], here);
    else if (count > 0)
      RengaCall(ReceiveElements(bringer, block, &row[i], count));
  }
  TakeBlock(bringer, block, bringer->whole);
  return RENGA_SUCCESS;
}

static RengaErrorCode BringBlock(Bringer *bringer, const BroughtBlock *block)
{
  const RengaHolding *row = bringer->holdings->row + block->tensor->first;
  if (block->taker == RengaCommGetRank(bringer->holdings->comm)) {
    RengaCall(BringToMe(bringer, block));
    return RENGA_SUCCESS;
  }
  for (int i = 0; i < block->tensor->count; i++) {
    const int64_t count = row[i].mine ? CountInBlock(block, &row[i]) : 0;
    if (count > 0) RengaCall(SendElements(bringer, block, &row[i], count));
  }
  return RENGA_SUCCESS;
}

int RengaHoldingsTaker(const RengaHoldings *holdings, int tensor, int64_t block)
{
  const RengaHeldTensor *held = &holdings->tensor[tensor];
  const int64_t count = RengaTensorSpecCount(&held->spec);
  const int64_t most = RENGA_HOLDINGS_BLOCK / (int64_t)RengaDataTypeSize(held->spec.type);
  const BroughtBlock of = {.tensor = held,
                           .first = block * most,
                           .last = block * most + most < count ? block * most + most : count};
  return FindMainOwner(holdings, &of, block + tensor);
}

int64_t RengaHoldingsCountTaken(const RengaHoldings *holdings, const int *writer)
{
  int64_t bytes = 0;
  for (int t = 0; t < holdings->n_tensors; t++) {
    const RengaTensorSpec *spec = &holdings->tensor[t].spec;
    const int64_t all = RengaTensorSpecCount(spec) * (int64_t)RengaDataTypeSize(spec->type);
    for (int64_t at = 0; at < all; at += RENGA_HOLDINGS_BLOCK) {
      const int taker = RengaHoldingsTaker(holdings, t, at / RENGA_HOLDINGS_BLOCK);
      const int64_t left = all - at;
      if ((writer ? writer[taker] : taker) == RengaCommGetRank(holdings->comm))
        bytes += left < RENGA_HOLDINGS_BLOCK ? left : RENGA_HOLDINGS_BLOCK;
    }
  }
  return bytes;
}

static RengaErrorCode BringTensor(Bringer *bringer, int number)
{
  const RengaHeldTensor *tensor = &bringer->holdings->tensor[number];
  const int64_t count = RengaTensorSpecCount(&tensor->spec);
  BroughtBlock block = {.tensor = tensor,
                        .number = number,
                        .size = RengaDataTypeSize(tensor->spec.type),
                        .last = count,
                        .taker = bringer->bringing->taker};
  const int64_t most = RENGA_HOLDINGS_BLOCK / (int64_t)block.size;
  const bool each = block.taker == RENGA_TAKER_OF_BLOCK;
  if (tensor->count == 1 && bringer->bringing->split_only) return RENGA_SUCCESS;
  if (block.taker == RENGA_TAKER_OF_TENSOR)
    block.taker = FindMainOwner(bringer->holdings, &block, number);
  for (int64_t b = 0; b == 0 || b * most < count; b++) {
    block.first = b * most;
    block.last = block.first + most < count ? block.first + most : count;
    if (each) block.taker = RengaHoldingsTaker(bringer->holdings, number, b);
    if (each && bringer->bringing->writer) block.taker = bringer->bringing->writer[block.taker];
    RengaCall(BringBlock(bringer, &block));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BringAll(Bringer *bringer)
{
  for (int t = 0; t < bringer->holdings->n_tensors; t++) RengaCall(BringTensor(bringer, t));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHoldingsBring(const RengaHoldings *holdings, RengaDevice device,
                                  const RengaBringing *bringing, bool *lost)
{
  Bringer bringer = {.holdings = holdings, .bringing = bringing};
  *lost = false;
  if (device && !RengaDeviceIsHost(device)) bringer.device = device;
  RengaErrorCode code = RengaMalloc(RENGA_HOLDINGS_BLOCK, &bringer.whole);
  if (!code) code = RengaMalloc(RENGA_HOLDINGS_BLOCK, &bringer.part);
  code = RengaErrorAgree(holdings->ranks, code);
  if (!code) {
    code = BringAll(&bringer);
    *lost = code != RENGA_SUCCESS;
    if (!code) code = bringer.code;
  }
  RengaFree(&bringer.whole);
  RengaFree(&bringer.part);
  RengaCall(code);
  return RENGA_SUCCESS;
}
