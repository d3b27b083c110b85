/* TEST ranks: 1 2 3 4 */
/* Ranges as rectangles; one digest however tensors are cut; what is wrong with a cut is said. */
#include "cuts.h"
#include "renga/private/hash.h"
#include <stdlib.h>

/* Runs of the rectangles of a range, one after the other, are the range. */
static RengaErrorCode TestRange(const RengaTensorSpec *spec, int64_t first, int64_t count)
{
  RengaRectangle part[RENGA_RANGE_RECTANGLES];
  int64_t at = first;
  int n = -1;
  Expect(RengaRectanglesOfRange(spec, first, count, &n, part) == RENGA_SUCCESS);
  for (int i = 0; i < n; i++) {
    const RengaRuns runs = RengaRunsOf(spec, &part[i]);
    Expect(runs.count * runs.length == RengaRectangleCount(spec, &part[i]));
    for (int64_t r = 0; r < runs.count; r++, at += runs.length) Expect(RengaRunsAt(&runs, r) == at);
  }
  Expect(at == first + count && n <= (spec->ndim ? 2 * spec->ndim - 1 : 1));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRanges(void)
{
  const RengaTensorSpec shapes[] = {{RENGA_FLOAT32, 0, {0}},
                                    {RENGA_FLOAT32, 1, {7}},
                                    {RENGA_FLOAT32, 3, {3, 4, 5}},
                                    {RENGA_FLOAT32, 4, {2, 1, 3, 2}}};
  for (int s = 0; s < 4; s++)
    for (int64_t first = 0; first <= RengaTensorSpecCount(&shapes[s]); first++)
      for (int64_t count = 0; first + count <= RengaTensorSpecCount(&shapes[s]); count++)
        RengaCall(TestRange(&shapes[s], first, count));
  return RENGA_SUCCESS;
}

/* Elements of a rectangle before each place, counted one by one. */
static RengaErrorCode TestBefore(void)
{
  const RengaTensorSpec spec = {RENGA_FLOAT32, 3, {4, 5, 6}};
  const RengaRectangle part[] = {
      {{1, 0, 0}, {2, 5, 6}}, {{0, 2, 0}, {4, 2, 6}}, {{1, 1, 2}, {3, 3, 3}}};
  for (int p = 0; p < 3; p++) {
    const RengaRuns runs = RengaRunsOf(&spec, &part[p]);
    int64_t before = 0;
    for (int64_t at = 0; at <= 120; at++) {
      Expect(RengaRunsBefore(&runs, at) == before);
      const int64_t place[] = {at / 30, at / 6 % 5, at % 6};
      bool in = true;
      for (int d = 0; d < 3; d++)
        in = in && place[d] >= part[p].start[d] && place[d] < part[p].start[d] + part[p].extent[d];
      before += in;
    }
    Expect(before == RengaRectangleCount(&spec, &part[p]));
  }
  return RENGA_SUCCESS;
}

/* As it was before there were rectangles: of whole tensors. */
static RengaErrorCode DigestOfWhole(uint64_t *digest)
{
  CutList cut;
  RengaCall(CutCreate(CUT_WHOLE, 0, 1, false, true, &cut));
  *digest = 0;
  for (int i = 0; i < cut.count; i++)
    *digest += RengaHash(cut.list[i].data, (size_t)RengaPersistentGetBytes(&cut.list[i]),
                         RengaHash(cut.list[i].name, strlen(cut.list[i].name), 0));
  CutFree(&cut);
  return RENGA_SUCCESS;
}

static RengaErrorCode DigestOf(RengaComm comm, const CutList *cut, uint64_t *digest,
                               RengaDeparture *departure)
{
  RengaHoldings holdings;
  RengaCall(RengaHoldingsCreate(comm, cut->count, cut->list, NULL, &holdings));
  const RengaErrorCode code =
      RengaHoldingsDigest(&holdings, NULL, cut->count, cut->list, digest, departure);
  if (departure->name) departure->name = "some";
  RengaHoldingsFree(&holdings);
  return code;
}

static RengaErrorCode TestDigests(RengaComm comm, int rank, int size)
{
  RengaDeparture departure;
  uint64_t whole, digest;
  CutList cut;
  RengaCall(DigestOfWhole(&whole));
  for (int kind = 0; kind < 2 * CUT_KINDS; kind++) {
    RengaCall(CutCreate(kind / 2, rank, size, kind % 2 == 1, true, &cut));
    RengaCall(DigestOf(comm, &cut, &digest, &departure));
    Expect(!departure.name && digest == whole);
    if (rank == size - 1)
      ((char *)cut.list[0].data)[RengaPersistentGetBytes(&cut.list[0]) / 2] ^= 4;
    RengaCall(DigestOf(comm, &cut, &digest, &departure));
    if (kind % 2 == 1 && size > 1)
      Expect(departure.name && departure.wrong.hash != departure.right.hash);
    else
      Expect(!departure.name && digest != whole);
    CutFree(&cut);
  }
  return RENGA_SUCCESS;
}

/* One rank has whole copies of all that the others own in parts. */
static RengaErrorCode TestLargerCopy(RengaComm comm, int rank, int size)
{
  RengaDeparture departure;
  uint64_t whole, digest;
  CutList cut;
  RengaCall(DigestOfWhole(&whole));
  RengaCall(CutCreate(CUT_TILES, rank, size, false, true, &cut));
  for (int t = 0; t < CUT_TENSORS && rank == 0; t++)
    RengaCall(CutOne(CUT_WHOLE, t, t, t + 1, false, true, &cut));
  RengaCall(DigestOf(comm, &cut, &digest, &departure));
  Expect(!departure.name && digest == whole);
  if (rank == 0) ((char *)cut.list[cut.count - 1].data)[5] ^= 1;
  RengaCall(DigestOf(comm, &cut, &digest, &departure));
  Expect(departure.name != NULL);
  CutFree(&cut);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefusals(RengaComm comm, int rank, int size)
{
  RengaHoldings holdings;
  CutList cut;
  RengaRectangle part[RENGA_RANGE_RECTANGLES];
  int n;
  RengaErrorSetHandler(RengaErrorIgnore, NULL);
  Expect(RengaRectanglesOfRange(&cut_tensors[2].spec, 10, 4, &n, part) == RENGA_ERR_ARGUMENT);
  RengaCall(CutCreate(CUT_COLUMNS, rank, size, false, true, &cut));
  if (rank == size - 1) cut.list[0].part.extent[0]--;
  Expect(RengaHoldingsCreate(comm, cut.count, cut.list, NULL, &holdings) == RENGA_ERR_INTERNAL);
  Expect(strstr(RengaErrorGetMessage(), "elements of tensor embedding"));
  if (rank == size - 1) cut.list[0].part.extent[0]++;
  if (size > 1) {
    if (rank == size - 1) cut.list[0].part.start[1]--;
    Expect(RengaHoldingsCreate(comm, cut.count, cut.list, NULL, &holdings) == RENGA_ERR_INTERNAL);
    Expect(strstr(RengaErrorGetMessage(), "overlap"));
  }
  RengaErrorSetHandler(NULL, NULL);
  CutFree(&cut);
  return RENGA_SUCCESS;
}

/* 1,024 ranks: 8 stages of 16 replicas, each on a node of 8 tensor-parallel ranks, which share what
   they update (ZeRO stage 1). With WRITERS_TABLE=1 in the environment it is printed who writes a
   checkpoint of 32 layers of 2,048. */
enum {
  NODE = 8,
  REPLICAS = 16,
  STAGES = 8,
  ALL = NODE * REPLICAS * STAGES,
  LAYERS = 32,
  WIDTH = 2048
};
enum { SHAPES = 4, STATES = 3, PARTS = NODE * REPLICAS };

static void CutTensor(int stage, int64_t rows, int first, RengaHeldTensor *tensor,
                      RengaHolding row[])
{
  *tensor =
      (RengaHeldTensor){.spec = {RENGA_FLOAT32, 2, {rows, WIDTH}}, .first = first, .count = PARTS};
  for (int p = 0; p < PARTS; p++) { /* lanes one after the other, in each of them the replicas */
    const int lane = p / REPLICAS, replica = p % REPLICAS;
    row[p] = (RengaHolding){.rank = (stage * REPLICAS + replica) * NODE + lane,
                            .part = {.start = {rows / PARTS * p}, .extent = {rows / PARTS, WIDTH}}};
  }
}

/* of_node: 0: all ranks write. */
static int WriterOf(int rank, int of_node)
{
  const int each = of_node > 0 ? NODE / of_node : 1;
  return rank / each * each;
}

static RengaErrorCode CheckWriters(RengaHoldings *holdings, int of_node)
{
  int64_t *bytes, all = 0, most = 0;
  int writers = 0, nodes = 0;
  RengaCall(RengaMalloc(ALL, &bytes));
  for (int t = 0; t < holdings->n_tensors; t++) {
    const int64_t size = (int64_t)RengaTensorSpecBytes(&holdings->tensor[t].spec);
    for (int64_t b = 0; b * RENGA_HOLDINGS_BLOCK < size; b++)
      bytes[WriterOf(RengaHoldingsTaker(holdings, t, b), of_node)] += RENGA_HOLDINGS_BLOCK;
  }
  for (int r = 0; r < ALL; r++) {
    all += bytes[r];
    writers += bytes[r] > 0;
    if (bytes[r] > most) most = bytes[r];
  }
  for (int n = 0; n < ALL / NODE; n++) {
    int64_t own = 0;
    for (int r = n * NODE; r < (n + 1) * NODE; r++) own += bytes[r];
    nodes += own > 0;
  }
  if (getenv("WRITERS_TABLE"))
    printf(
        "%d of a node: %4d ranks on %3d nodes write %.2f GiB, at most %.1f MiB, %.2f of the mean\n",
        of_node, writers, nodes, (double)all / (1 << 30), (double)most / (1 << 20),
        (double)most * writers / (double)all);
  RengaFree(&bytes);
  Expect(nodes == ALL / NODE);
  Expect(writers == (of_node > 0 ? of_node * nodes : ALL));
  Expect((double)most * writers < 1.7 * (double)all);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestWriters(RengaComm comm)
{
  static const int64_t rows[SHAPES] = {3 * WIDTH, WIDTH, 4 * WIDTH, 4 * WIDTH};
  RengaHoldings holdings = {.n_tensors = LAYERS * SHAPES * STATES};
  if (RengaCommGetSize(comm) > 1) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(holdings.n_tensors, &holdings.tensor));
  RengaCall(RengaMalloc((int64_t)holdings.n_tensors * PARTS, &holdings.row));
  for (int t = 0; t < holdings.n_tensors; t++)
    CutTensor(t / STATES / SHAPES * STAGES / LAYERS, rows[t / STATES % SHAPES], t * PARTS,
              &holdings.tensor[t], holdings.row + (int64_t)t * PARTS);
  for (int of_node = 0; of_node <= 4; of_node += of_node + (of_node == 0))
    RengaCall(CheckWriters(&holdings, of_node));
  RengaHoldingsFree(&holdings);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestAllOf(RengaComm comm)
{
  const int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  RengaCall(TestRanges());
  RengaCall(TestBefore());
  RengaCall(TestDigests(comm, rank, size));
  RengaCall(TestLargerCopy(comm, rank, size));
  RengaCall(TestRefusals(comm, rank, size));
  RengaCall(TestWriters(comm));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRectangles(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(TestAllOf(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestRectangles)
