/* TEST ranks: 1 2 4 */
/* A file written from parts of tensors on several ranks is the file written from the whole, and is
   read into other parts; a damaged block is found by whoever needs it; files with one checksum for
   each tensor, as they once were, are read and checked. */
#include "../../src/checkpoint/file.h"
#include "../persistent/cuts.h"
#include "renga/private/line.h"
#include <fcntl.h>
#include <sys/stat.h>

static char path[64];

static RengaErrorCode WriteCut(RengaComm comm, CutKind kind)
{
  CutList cut;
  RengaCheckpointTable table = {.step = 7};
  RengaCommSetWriters_Private(comm, kind % 3); /* the file is the same */
  RengaCall(CutCreate(kind, RengaCommGetRank(comm), RengaCommGetSize(comm), true, true, &cut));
  RengaCall(RengaCheckpointFileWrite(comm, NULL, path, cut.count, cut.list, &table));
  RengaCheckpointTableFree(&table);
  CutFree(&cut);
  return RENGA_SUCCESS;
}

/* right: all values came; whole: nobody found damage. */
static RengaErrorCode ReadCut(RengaComm comm, CutKind kind, bool *whole, bool *right)
{
  CutList cut;
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  RengaCall(CutCreate(kind, RengaCommGetRank(comm), RengaCommGetSize(comm), true, false, &cut));
  RengaCall(RengaCheckpointFileOpen(comm, path, &table, whole, message));
  Expect(*whole && table.step == 7 && table.n_entries == CUT_TENSORS);
  RengaCall(RengaCheckpointFileCompare(comm, path, &table, cut.count, cut.list, false));
  RengaCall(RengaCheckpointFileRead(comm, NULL, path, &table, cut.count, cut.list, whole, message));
  *right = CutCheck(&cut);
  RengaCheckpointTableFree(&table);
  CutFree(&cut);
  return RENGA_SUCCESS;
}

static RengaErrorCode HashFile(uint64_t *hash)
{
  struct stat status;
  char *bytes;
  Expect(stat(path, &status) == 0);
  RengaCall(RengaMalloc(status.st_size, &bytes));
  const int file = open(path, O_RDONLY);
  Expect(read(file, bytes, (size_t)status.st_size) == status.st_size);
  close(file);
  *hash = RengaHash(bytes, (size_t)status.st_size, 0);
  RengaFree(&bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestCuts(RengaComm comm)
{
  uint64_t first = 0, hash = 0;
  bool whole, right;
  for (int kind = 0; kind < CUT_KINDS; kind++) {
    RengaCall(WriteCut(comm, kind));
    RengaCall(HashFile(&hash));
    if (kind == 0) first = hash;
    Expect(hash == first);
    for (int other = 0; other < CUT_KINDS; other++) {
      RengaCall(ReadCut(comm, other, &whole, &right));
      Expect(whole && right);
    }
  }
  return RENGA_SUCCESS;
}

/* Of an entry's byte. */
static RengaErrorCode FlipByte(RengaComm comm, const char *name, int64_t at)
{
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE] = "", byte;
  bool whole;
  RengaCall(RengaCheckpointFileOpen(comm, path, &table, &whole, message));
  const int entry = RengaCheckpointTableFind(&table, name);
  Expect(whole && entry >= 0);
  const int64_t place = table.entries[entry].offset + at;
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) {
    const int file = open(path, O_RDWR);
    Expect(pread(file, &byte, 1, place) == 1);
    byte ^= 0x10;
    Expect(pwrite(file, &byte, 1, place) == 1);
    close(file);
  }
  RengaCheckpointTableFree(&table);
  RengaCall(RengaCommBarrier(comm, "after"));
  return RENGA_SUCCESS;
}

/* In the first block, in the last, in another tensor. */
static RengaErrorCode TestDamage(RengaComm comm)
{
  static const struct {
    const char *name;
    int64_t at;
  } flips[] = {{"embedding", 9}, {"embedding", 1501 * 907 * 4 - 1}, {"half", 1000}};
  bool whole, right;
  for (int f = 0; f < 3; f++) {
    RengaCall(FlipByte(comm, flips[f].name, flips[f].at));
    for (int kind = 0; kind < CUT_KINDS; kind++) {
      RengaCall(ReadCut(comm, kind, &whole, &right));
      Expect(!whole);
    }
    RengaCall(FlipByte(comm, flips[f].name, flips[f].at));
  }
  RengaCall(ReadCut(comm, CUT_RANGES, &whole, &right));
  Expect(whole && right);
  return RENGA_SUCCESS;
}

/* Rank 0: the file as it was written before blocks had checksums. */
static RengaErrorCode WriteOld(void)
{
  RengaCheckpointTable table = {.step = 7, .block = 0};
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  CutList cut;
  struct stat status;
  RengaCall(CutCreate(CUT_WHOLE, 0, 1, false, true, &cut));
  for (int t = 0; t < cut.count; t++)
    RengaCall(RengaCheckpointTableAdd(&table, cut.list[t].name, &cut.list[t].spec, false));
  RengaCheckpointTableSort(&table);
  Expect(RengaCheckpointLayoutCreate(path, &table, message));
  const int file = open(path, O_RDWR);
  for (int t = 0; t < cut.count; t++) {
    const RengaCheckpointEntry *entry =
        &table.entries[RengaCheckpointTableFind(&table, cut.list[t].name)];
    Expect(pwrite(file, cut.list[t].data, (size_t)entry->bytes, entry->offset) == entry->bytes);
    table.hashes[entry->first_hash] = RengaHash(cut.list[t].data, (size_t)entry->bytes, 0);
  }
  Expect(table.n_hashes == CUT_TENSORS && fstat(file, &status) == 0);
  table.file_bytes = status.st_size;
  Expect(RengaCheckpointHeadWrite(file, &table, message));
  close(file);
  RengaCheckpointTableFree(&table);
  CutFree(&cut);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestOld(RengaComm comm)
{
  bool whole, right;
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) RengaCall(WriteOld());
  RengaCall(RengaCommBarrier(comm, "after"));
  for (int kind = 0; kind < CUT_KINDS; kind++) {
    RengaCall(ReadCut(comm, kind, &whole, &right));
    Expect(whole && right);
  }
  RengaCall(FlipByte(comm, "tall", 40000 * 33 * 4));
  RengaCall(ReadCut(comm, CUT_COLUMNS, &whole, &right));
  Expect(!whole);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestParts(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  snprintf(path, sizeof path, "parts-test-%d.h5", RengaCommGetSize(comm));
  RengaCall(TestCuts(comm));
  RengaCall(TestDamage(comm));
  RengaCall(TestOld(comm));
  RengaCall(RengaCommBarrier(comm, "end"));
  if (RengaCommGetRank(comm) == 0) unlink(path);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestParts)
