/* The table of owned parts: gathered, sent to all, sorted and checked by each rank alike. */
#include "renga/private/holdings.h"
#include "renga/private/gather.h"
#include <stdlib.h>
#include <string.h>

/* A part between ranks; its name follows, with the zero at its end. */
typedef struct {
  RengaTensorSpec spec;
  RengaRectangle part;
  int32_t name_bytes, state, rank, number; /* number: in the list of its rank */
} PackedPart;

/* A part with its name, to be sorted. */
typedef struct {
  const char *name;
  PackedPart packed;
} NamedPart;

static bool IsOwned(const RengaPersistent *persistent, const char *only)
{
  return persistent->owner && (!only || strcmp(persistent->name, only) == 0);
}

static RengaErrorCode PackParts(int rank, int count, const RengaPersistent list[], const char *only,
                                char **bytes, size_t *used)
{
  size_t size = 0;
  *used = 0;
  for (int i = 0; i < count; i++)
    if (IsOwned(&list[i], only)) size += sizeof(PackedPart) + strlen(list[i].name) + 1;
  RengaCall(RengaMalloc(size + 1, bytes));
  for (int i = 0; i < count; i++) {
    if (!IsOwned(&list[i], only)) continue;
    PackedPart packed;
    memset(&packed, 0, sizeof packed);
    packed.spec = list[i].spec;
    packed.part = list[i].part;
    packed.name_bytes = (int32_t)strlen(list[i].name) + 1;
    packed.state = list[i].state;
    packed.rank = rank;
    packed.number = i;
    memcpy(*bytes + *used, &packed, sizeof packed);
    memcpy(*bytes + *used + sizeof packed, list[i].name, (size_t)packed.name_bytes);
    *used += sizeof packed + (size_t)packed.name_bytes;
  }
  return RENGA_SUCCESS;
}

/* By name, then by the first element. */
static int CompareParts(const void *a, const void *b)
{
  const NamedPart *x = a, *y = b;
  const int order = strcmp(x->name, y->name);
  if (order) return order;
  for (int d = 0; d < x->packed.spec.ndim; d++)
    if (x->packed.part.start[d] != y->packed.part.start[d])
      return x->packed.part.start[d] < y->packed.part.start[d] ? -1 : 1;
  return x->packed.rank - y->packed.rank;
}

/* Names are lent by bytes. */
static RengaErrorCode SortParts(const char *bytes, size_t used, int *count, NamedPart **sorted)
{
  NamedPart *part = NULL;
  int made = 0;
  for (size_t at = 0; at < used;) {
    PackedPart packed;
    memcpy(&packed, bytes + at, sizeof packed);
    at += sizeof packed;
    if ((made & (made - 1)) == 0) {
      const RengaErrorCode code = RengaRealloc(made ? 2 * made : 1, &part);
      if (code) RengaFree(&part);
      RengaCall(code);
    }
    part[made++] = (NamedPart){.name = bytes + at, .packed = packed};
    at += (size_t)packed.name_bytes;
  }
  if (made > 0) qsort(part, (size_t)made, sizeof *part, CompareParts);
  *count = made;
  *sorted = part;
  return RENGA_SUCCESS;
}

/* Rows and tensors of the sorted parts; this rank's rows know its list. */
static RengaErrorCode FillHoldings(int rank, const RengaPersistent list[], int count,
                                   const NamedPart part[], RengaHoldings *holdings)
{
  RengaCall(RengaMalloc(count + 1, &holdings->row));
  RengaCall(RengaMalloc(count + 1, &holdings->tensor));
  for (int i = 0; i < count; i++) {
    const PackedPart *packed = &part[i].packed;
    if (i == 0 || strcmp(part[i].name, part[i - 1].name) != 0)
      holdings->tensor[holdings->n_tensors++] = (RengaHeldTensor){
          .name = part[i].name, .spec = packed->spec, .state = packed->state != 0, .first = i};
    holdings->tensor[holdings->n_tensors - 1].count++;
    holdings->row[i] = (RengaHolding){.rank = packed->rank,
                                      .part = packed->part,
                                      .mine = packed->rank == rank ? &list[packed->number] : NULL};
  }
  holdings->n_rows = count;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOwnedPart(MPI_Comm ranks, const RengaHeldTensor *tensor,
                                     const RengaHolding *row)
{
  const RengaRectangle *part = &row->part;
  for (int d = 0; d < tensor->spec.ndim; d++)
    RengaCheck(part->start[d] >= 0 && part->extent[d] >= 0 &&
                   part->extent[d] <= tensor->spec.dim[d] - part->start[d],
               ranks, RENGA_ERR_INTERNAL,
               "rank %d owns elements %lld to %lld of dimension %d of tensor %s, which has %lld",
               row->rank, (long long)part->start[d], (long long)(part->start[d] + part->extent[d]),
               d, tensor->name, (long long)tensor->spec.dim[d]);
  return RENGA_SUCCESS;
}

/* Each element once. */
static RengaErrorCode CheckTensor(const RengaHoldings *holdings, const RengaHeldTensor *tensor)
{
  const RengaHolding *row = holdings->row + tensor->first;
  int64_t owned = 0;
  for (int i = 0; i < tensor->count; i++) {
    RengaCall(CheckOwnedPart(holdings->ranks, tensor, &row[i]));
    owned += RengaRectangleCount(&tensor->spec, &row[i].part);
    for (int j = 0; j < i; j++)
      RengaCheck(!RengaRectangleMeets(&tensor->spec, &row[i].part, &row[j].part), holdings->ranks,
                 RENGA_ERR_INTERNAL, "two ranks own tensor %s: parts of ranks %d and %d overlap",
                 tensor->name, row[j].rank, row[i].rank);
  }
  RengaCheck(owned == RengaTensorSpecCount(&tensor->spec), holdings->ranks, RENGA_ERR_INTERNAL,
             "ranks own %lld of the %lld elements of tensor %s", (long long)owned,
             (long long)RengaTensorSpecCount(&tensor->spec), tensor->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOwnedParts(const RengaHoldings *holdings, int count,
                                      const NamedPart part[])
{
  for (int i = 1; i < count; i++)
    RengaCheck(strcmp(part[i].name, part[i - 1].name) != 0 ||
                   RengaTensorSpecEqual(&part[i].packed.spec, &part[i - 1].packed.spec),
               holdings->ranks, RENGA_ERR_INTERNAL, "ranks %d and %d have tensor %s in two shapes",
               part[i - 1].packed.rank, part[i].packed.rank, part[i].name);
  for (int t = 0; t < holdings->n_tensors; t++)
    RengaCall(CheckTensor(holdings, &holdings->tensor[t]));
  return RENGA_SUCCESS;
}

/* The names of holdings are lent by holdings->names, which holds what all ranks packed. */
static RengaErrorCode UnpackHoldings(int rank, const RengaPersistent list[], size_t bytes,
                                     RengaHoldings *holdings)
{
  NamedPart *part = NULL;
  int count = 0;
  RengaCall(SortParts(holdings->names, bytes, &count, &part));
  RengaErrorCode code = FillHoldings(rank, list, count, part, holdings);
  if (!code) code = CheckOwnedParts(holdings, count, part);
  RengaFree(&part);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What rank 0 gathered, to all. */
static RengaErrorCode ShareParts(const char *mine, size_t used, RengaHoldings *holdings,
                                 int64_t *total)
{
  static const char what[] = "all ranks to say which parts of tensors they own";
  const RengaComm comm = holdings->comm;
  const MPI_Comm ranks = holdings->ranks;
  size_t *sizes = NULL;
  char *all = NULL;
  RengaCall(RengaGatherBytes(ranks, mine, used, &all, &sizes, what));
  *total = 0;
  for (int i = 0; sizes && i < RengaCommGetSize(comm); i++) *total += (int64_t)sizes[i];
  RengaFree(&sizes);
  holdings->names = all;
  RengaCall(RengaCommBroadcast(comm, total, sizeof *total, 0, what));
  RengaCall(RengaErrorAgree(ranks, holdings->names ? RENGA_SUCCESS
                                                   : RengaMalloc(*total + 1, &holdings->names)));
  RengaCall(RengaCommBroadcast(comm, holdings->names, (size_t)*total, 0, what));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeHoldings(int count, const RengaPersistent list[], const char *only,
                                   RengaHoldings *holdings)
{
  const int rank = RengaCommGetRank(holdings->comm);
  const MPI_Comm ranks = holdings->ranks;
  char *mine = NULL;
  size_t used = 0;
  int64_t total = 0;
  RengaErrorCode code = RengaErrorAgree(ranks, PackParts(rank, count, list, only, &mine, &used));
  if (!code) code = ShareParts(mine, used, holdings, &total);
  RengaFree(&mine);
  if (!code) code = RengaErrorAgree(ranks, UnpackHoldings(rank, list, (size_t)total, holdings));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHoldingsCreate(RengaComm comm, int count, const RengaPersistent list[],
                                   const char *only, RengaHoldings *holdings)
{
  RengaHoldings made = {.comm = comm};
  RengaCall(RengaObjectGetComm(comm, &made.ranks));
  const RengaErrorCode code = MakeHoldings(count, list, only, &made);
  if (code) RengaHoldingsFree(&made);
  RengaCall(code);
  *holdings = made;
  return RENGA_SUCCESS;
}

void RengaHoldingsFree(RengaHoldings *holdings)
{
  RengaFree(&holdings->tensor);
  RengaFree(&holdings->row);
  RengaFree(&holdings->names);
  *holdings = (RengaHoldings){.n_tensors = 0};
}

int RengaHoldingsFind(const RengaHoldings *holdings, const char *name)
{
  int low = 0, high = holdings->n_tensors - 1;
  while (low <= high) {
    const int middle = low + (high - low) / 2;
    const int order = strcmp(name, holdings->tensor[middle].name);
    if (order == 0) return middle;
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  return -1;
}
