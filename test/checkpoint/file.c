/* TEST ranks: 1 2 4 5 */
/* One file: written by one layout, read by others; damaged in every region; compared. */
#include "tensors.h"
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

static RengaErrorCode Write(RengaComm comm, int stages)
{
  TestTensors mine;
  RengaCheckpointTable table = {.step = 100};
  RengaCall(RengaCheckpointTableSetAttribute(&table, "seed", "42"));
  RengaCall(TestTensorsCreate(RengaCommGetRank(comm), RengaCommGetSize(comm), stages, true, &mine));
  RengaCall(RengaCheckpointFileWrite(comm, NULL, path, mine.count, mine.tensors, &table));
  TestTensorsFree(&mine);
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

/* Read on a layout; whole: what came out. */
static RengaErrorCode Read(RengaComm comm, int stages, bool *whole)
{
  TestTensors mine;
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE];
  RengaCall(
      TestTensorsCreate(RengaCommGetRank(comm), RengaCommGetSize(comm), stages, false, &mine));
  RengaCall(RengaCheckpointFileOpen(comm, path, &table, whole, message));
  if (*whole) {
    Expect(table.step == 100 && table.n_entries == TENSORS);
    Expect(strcmp(RengaCheckpointTableGetAttribute(&table, "seed"), "42") == 0);
    Expect(RengaCheckpointTableGetAttribute(&table, "nothing") == NULL);
    RengaCall(RengaCheckpointFileCompare(comm, path, &table, mine.count, mine.tensors, false));
    RengaCall(RengaCheckpointFileRead(comm, NULL, path, &table, mine.count, mine.tensors, whole,
                                      message));
  }
  if (*whole)
    RengaCall(TestTensorsCheck(&mine));
  else
    Expect(message[0] != '\0');
  TestTensorsFree(&mine);
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestLayouts(RengaComm comm, int size)
{
  bool whole;
  uint64_t first = 0;
  for (int stages = 1; stages <= size; stages++) {
    RengaCall(Write(comm, stages));
    if (RengaCommGetRank(comm) == 0) { /* the same bytes, whoever wrote them */
      char *bytes;
      struct stat status;
      Expect(stat(path, &status) == 0);
      RengaCall(RengaMalloc(status.st_size, &bytes));
      int file = open(path, O_RDONLY);
      Expect(read(file, bytes, (size_t)status.st_size) == status.st_size);
      close(file);
      uint64_t hash = RengaHash(bytes, (size_t)status.st_size, 0);
      RengaFree(&bytes);
      if (stages == 1) first = hash;
      Expect(hash == first);
    }
    for (int other = 1; other <= size; other++) {
      RengaCall(Read(comm, other, &whole));
      Expect(whole);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Flip(RengaComm comm, int64_t place)
{
  char byte;
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) {
    int file = open(path, O_RDWR);
    Expect(pread(file, &byte, 1, place) == 1);
    byte ^= 0x10;
    Expect(pwrite(file, &byte, 1, place) == 1);
    close(file);
  }
  RengaCall(RengaCommBarrier(comm, "after"));
  return RENGA_SUCCESS;
}

/* One changed bit anywhere is found, but in the unused rest of the head. */
static RengaErrorCode TestFlips(RengaComm comm, int size)
{
  int64_t bytes = 0, flipped = 0;
  struct stat status;
  bool whole;
  RengaCall(Write(comm, size > 2 ? 2 : 1));
  Expect(stat(path, &status) == 0);
  bytes = status.st_size;
  int64_t pace = bytes / (size == 1 ? 499 : 47);
  for (int64_t place = 0; place < bytes; place += pace, flipped++) {
    RengaCall(Flip(comm, place));
    RengaCall(Read(comm, 1 + (int)(flipped % size), &whole));
    bool unused = place >= (int64_t)sizeof(RengaCheckpointHead) && place < RENGA_CHECKPOINT_HEAD;
    Expect(whole == unused);
    RengaCall(Flip(comm, place));
  }
  RengaCall(Read(comm, size, &whole));
  Expect(whole);
  return RENGA_SUCCESS;
}

/* The head of a file of another kind, right but for its number. */
static RengaErrorCode SetKind(RengaComm comm, int kind)
{
  RengaCheckpointHead head;
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) {
    int file = open(path, O_RDWR);
    Expect(pread(file, &head, sizeof head, 0) == sizeof head);
    snprintf(head.magic, sizeof head.magic, RENGA_CHECKPOINT_MAGIC, kind);
    head.head_hash = RengaHash(&head, offsetof(RengaCheckpointHead, head_hash), 0);
    Expect(pwrite(file, &head, sizeof head, 0) == sizeof head);
    close(file);
  }
  RengaCall(RengaCommBarrier(comm, "after"));
  return RENGA_SUCCESS;
}

/* Older files are read; what a newer program wrote is called so, not damaged. */
static RengaErrorCode TestKinds(RengaComm comm)
{
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE];
  bool whole;
  RengaCall(SetKind(comm, 1));
  RengaCall(Read(comm, 1, &whole));
  Expect(whole);
  RengaCall(SetKind(comm, RENGA_CHECKPOINT_KIND + 1));
  RengaCall(RengaCheckpointFileOpen(comm, path, &table, &whole, message));
  Expect(!whole && strstr(message, "a newer version of Renga wrote it"));
  RengaCheckpointTableFree(&table);
  RengaCall(SetKind(comm, RENGA_CHECKPOINT_KIND));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTruncation(RengaComm comm)
{
  struct stat status;
  bool whole;
  Expect(stat(path, &status) == 0);
  const int64_t lengths[] = {status.st_size - 1, status.st_size / 2, 600, 512, 100, 0};
  for (int i = 0; i < 6; i++) {
    RengaCall(RengaCommBarrier(comm, "before"));
    if (RengaCommGetRank(comm) == 0) Expect(truncate(path, lengths[i]) == 0);
    RengaCall(RengaCommBarrier(comm, "after"));
    RengaCall(Read(comm, 1, &whole));
    Expect(!whole);
  }
  RengaCall(RengaCommBarrier(comm, "before"));
  if (RengaCommGetRank(comm) == 0) unlink(path);
  RengaCall(RengaCommBarrier(comm, "after"));
  RengaCall(Read(comm, 1, &whole));
  Expect(!whole);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestView(RengaComm comm)
{
  RengaViewer viewer;
  RengaCall(RengaViewerCreate(comm, "ascii:file-test.txt", &viewer));
  RengaCall(RengaCheckpointView(comm, path, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  if (RengaCommGetRank(comm) == 0) {
    char text[256];
    FILE *file = fopen("file-test.txt", "r");
    Expect(fgets(text, sizeof text, file) && strstr(text, "step 100") && strstr(text, "whole"));
    fclose(file);
    unlink("file-test.txt");
  }
  return RENGA_SUCCESS;
}

/* Rank 0 changes a file and makes its checksums right again, as a stranger may. */
static RengaErrorCode Forge(void (*change)(int file, int64_t bytes))
{
  RengaCheckpointTable table = {0};
  RengaCheckpointHead head;
  char message[RENGA_CHECKPOINT_MESSAGE];
  RengaCall(RengaCheckpointHeadCheck(path, &head, message));
  Expect(message[0] == '\0');
  RengaCall(RengaCheckpointLayoutRead(path, &table, message));
  Expect(message[0] == '\0');
  table.file_bytes = head.file_bytes;
  table.run = head.run;
  table.time = head.time;
  const int file = open(path, O_RDWR);
  change(file, head.file_bytes);
  Expect(RengaCheckpointHeadWrite(file, &table, message));
  close(file);
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

/* The version of an attribute's message, 8 bytes before its name, is one that there is not. */
static void BreakAttribute(int file, int64_t bytes)
{
  static const char name[] = "hostile30";
  static char text[1 << 16];
  const char none = 0x63;
  for (int64_t at = RENGA_CHECKPOINT_HEAD; at < bytes; at += (int64_t)sizeof text - 64) {
    const ssize_t got = pread(file, text, sizeof text, at);
    for (ssize_t i = 8; i + (ssize_t)sizeof name <= got; i++)
      if (memcmp(text + i, name, sizeof name) == 0 && pwrite(file, &none, 1, at + i - 8) < 0)
        perror(path);
  }
}

/* A head whose own checksum is right. */
static RengaErrorCode ForgeHead(int64_t index_offset, int64_t index_count)
{
  RengaCheckpointHead head;
  const int file = open(path, O_RDWR);
  Expect(pread(file, &head, sizeof head, 0) == sizeof head);
  if (index_offset) head.index_offset = index_offset;
  head.index_count = index_count;
  head.head_hash = RengaHash(&head, offsetof(RengaCheckpointHead, head_hash), 0);
  Expect(pwrite(file, &head, sizeof head, 0) == sizeof head);
  close(file);
  return RENGA_SUCCESS;
}

static RengaErrorCode ExpectRefusal(RengaComm comm, const char *why)
{
  RengaCheckpointTable table = {0};
  char message[RENGA_CHECKPOINT_MESSAGE];
  bool whole;
  RengaCall(RengaCheckpointFileOpen(comm, path, &table, &whole, message));
  Expect(!whole && strstr(message, why));
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteManyAttributes(RengaComm comm)
{
  TestTensors mine;
  RengaCheckpointTable table = {.step = 100};
  for (int i = 0; i < 60; i++) {
    char name[16];
    snprintf(name, sizeof name, "hostile%d", i);
    RengaCall(RengaCheckpointTableSetAttribute(&table, name, "a value of some length"));
  }
  RengaCall(TestTensorsCreate(RengaCommGetRank(comm), RengaCommGetSize(comm), 1, true, &mine));
  RengaCall(RengaCheckpointFileWrite(comm, NULL, path, mine.count, mine.tensors, &table));
  TestTensorsFree(&mine);
  RengaCheckpointTableFree(&table);
  return RENGA_SUCCESS;
}

/* Files that no program of ours has written, and whose checksums are right. */
static RengaErrorCode TestHostile(RengaComm comm)
{
  static const struct {
    int64_t offset, count;
  } index[] = {{0, INT64_MAX}, {0, -1}, {INT64_MAX - 8, 3}, {-(1 << 20), 3}, {0, INT64_MAX / 24}};
  const bool root = RengaCommGetRank(comm) == 0;
  RengaCall(WriteManyAttributes(comm));
  RengaCall(RengaCommBarrier(comm, "before"));
  if (root) RengaCall(Forge(BreakAttribute));
  RengaCall(ExpectRefusal(comm, "attributes cannot be listed"));
  for (size_t i = 0; i < sizeof index / sizeof index[0]; i++) {
    RengaCall(RengaCommBarrier(comm, "before"));
    if (root) RengaCall(ForgeHead(index[i].offset, index[i].count));
    RengaCall(ExpectRefusal(comm, "its checksums cannot be where it says"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TestFile(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  int size = RengaCommGetSize(comm);
  snprintf(path, sizeof path, "file-test-%d.h5", size);
  RengaCall(TestLayouts(comm, size));
  RengaCall(TestView(comm));
  RengaCall(TestFlips(comm, size));
  RengaCall(TestKinds(comm));
  RengaCall(TestHostile(comm));
  RengaCall(TestTruncation(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestFile)
