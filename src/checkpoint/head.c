/* The head of a checkpoint file: what makes a changed byte outside of tensors known before HDF5
   reads it. Blocks of tensors have their own checksums in the index; the rest of the file is hashed
   whole. */
#include "file.h"
#include "renga/private/fault.h"
#include "renga/private/hash.h"
#include "renga/private/image.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

typedef struct {
  int64_t offset, bytes, hash;
} IndexRow;

static bool ReadWholeHead(int file, int64_t offset, size_t bytes, void *to)
{
  char *place = to;
  while (bytes > 0) {
    ssize_t got = pread(file, place, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    place += got;
    offset += got;
    bytes -= (size_t)got;
  }
  return true;
}

static int CompareHeadRows(const void *a, const void *b)
{
  int64_t x = ((const IndexRow *)a)->offset, y = ((const IndexRow *)b)->offset;
  return (x > y) - (x < y);
}

static bool HashRange(int file, int64_t from, int64_t to, RengaHasher hasher)
{
  char block[BLOCK];
  while (from < to) {
    size_t bytes = (size_t)(to - from < BLOCK ? to - from : BLOCK);
    if (!ReadWholeHead(file, from, bytes, block)) return false;
    RengaHasherAdd(hasher, block, bytes);
    from += (int64_t)bytes;
  }
  return true;
}

/* All bytes after the head that are no tensor; good: they could be read. rows come back in order of
   offset. */
static RengaErrorCode HashRest(int file, int64_t file_bytes, int64_t count, IndexRow rows[],
                               bool *good, uint64_t *hash)
{
  RengaHasher hasher;
  int64_t at = RENGA_CHECKPOINT_HEAD;
  RengaCall(RengaHasherCreate(&hasher));
  if (count > 0) qsort(rows, (size_t)count, sizeof *rows, CompareHeadRows);
  *good = true;
  for (int64_t i = 0; *good && i < count; i++) {
    const IndexRow *row = &rows[i];
    if (row->bytes == 0) continue;
    *good = row->offset >= at && row->offset <= file_bytes && row->bytes > 0 &&
            row->bytes <= file_bytes - row->offset && HashRange(file, at, row->offset, hasher);
    if (*good) at = row->offset + row->bytes;
  }
  *good = *good && HashRange(file, at, file_bytes, hasher);
  *hash = RengaHasherGet(hasher);
  RengaHasherDestroy(&hasher);
  return RENGA_SUCCESS;
}

static void FillIndex(const RengaCheckpointTable *table, IndexRow rows[])
{
  for (int i = 0; i < table->n_entries; i++) {
    const RengaCheckpointEntry *entry = &table->entries[i];
    for (int64_t b = 0; b < RengaCheckpointTableBlocks(table, i); b++) {
      IndexRow *row = &rows[entry->first_hash + b];
      RengaCheckpointTableBlock(table, i, b, &row->offset, &row->bytes);
      row->offset += entry->offset;
      row->hash = (int64_t)table->hashes[entry->first_hash + b];
    }
  }
}

typedef struct {
  char text[40];
  int64_t step;
  uint64_t head_hash, hash; /* of the file's head; of the bytes above */
} HeadMark;
static const char *const mark_texts[] = {"", "Renga mark: good\n",
                                         "Renga mark: not finite after\n"};

static void MakeMark(const RengaCheckpointHead *head, RengaCheckpointMarkKind kind, HeadMark *mark)
{
  memset(mark, 0, sizeof *mark);
  strcpy(mark->text, mark_texts[kind]);
  mark->step = head->step;
  mark->head_hash = head->head_hash;
  mark->hash = RengaHash(mark, offsetof(HeadMark, hash), 0);
}

static int PutMark(int file, const RengaCheckpointHead *head, RengaCheckpointMarkKind kind)
{
  HeadMark mark;
  MakeMark(head, kind, &mark);
  return RengaWriteAt(file, RENGA_CHECKPOINT_MARK, sizeof mark, &mark);
}

/* The index, then the head that vouches for all but the tensors. */
bool RengaCheckpointHeadWrite(int file, const RengaCheckpointTable *table,
                              char message[RENGA_CHECKPOINT_MESSAGE])
{
  IndexRow *rows;
  RengaCheckpointHead head;
  memset(&head, 0, sizeof head);
  if (RengaMalloc(table->n_hashes + 1, &rows) != RENGA_SUCCESS) {
    snprintf(message, RENGA_CHECKPOINT_MESSAGE, "%s", RengaFileReason_Private(ENOMEM));
    return false;
  }
  FillIndex(table, rows);
  snprintf(head.magic, sizeof head.magic, RENGA_CHECKPOINT_MAGIC, RENGA_CHECKPOINT_KIND);
  head.file_bytes = table->file_bytes;
  head.step = table->step;
  head.time = table->time;
  head.run = table->run;
  head.index_offset = table->index_offset;
  head.index_count = table->n_hashes;
  size_t index_bytes = (size_t)table->n_hashes * sizeof *rows;
  int reason = RengaWriteAt(file, table->index_offset, index_bytes, rows);
  bool good = true;
  if (!reason && HashRest(file, table->file_bytes, table->n_hashes, rows, &good, &head.rest_hash))
    reason = ENOMEM;
  if (!reason && !good) reason = errno ? errno : EIO;
  head.head_hash = RengaHash(&head, offsetof(RengaCheckpointHead, head_hash), 0);
  if (!reason) reason = RengaWriteAt(file, 0, sizeof head, &head);
  if (!reason && table->mark != RENGA_MARK_NONE) reason = PutMark(file, &head, table->mark);
  if (reason) snprintf(message, RENGA_CHECKPOINT_MESSAGE, "%s", RengaFileReason_Private(reason));
  RengaFree(&rows);
  return reason == 0;
}

/* 0: it is no checkpoint. */
static int KindOfFile(const RengaCheckpointHead *head)
{
  char magic[sizeof head->magic], wanted[sizeof head->magic];
  int kind = 0;
  memcpy(magic, head->magic, sizeof magic);
  magic[sizeof magic - 1] = '\0';
  if (sscanf(magic, RENGA_CHECKPOINT_MAGIC, &kind) != 1 || kind < 1) return 0;
  snprintf(wanted, sizeof wanted, RENGA_CHECKPOINT_MAGIC, kind);
  return strcmp(magic, wanted) == 0 ? kind : 0;
}

/* What is wrong with the head of an open file, or NULL. */
static const char *ReadHead(int file, RengaCheckpointHead *head)
{
  struct stat about;
  if (fstat(file, &about) == 0 && S_ISDIR(about.st_mode)) return "it is a folder, not a file";
  if (!ReadWholeHead(file, 0, sizeof *head, head)) return "it is shorter than its head";
  const int kind = KindOfFile(head);
  if (kind == 0) return "it does not begin as a checkpoint of Renga";
  if (kind > RENGA_CHECKPOINT_KIND)
    return "a newer version of Renga wrote it, and is needed to read it";
  if (head->head_hash != RengaHash(head, offsetof(RengaCheckpointHead, head_hash), 0))
    return "its head is damaged";
  return NULL;
}

/* The length of the file is known to be right. */
static bool IndexFits(const RengaCheckpointHead *head)
{
  const int64_t end = head->file_bytes, row = sizeof(IndexRow);
  if (head->index_count == 0) return true;
  return head->index_count > 0 && head->index_offset >= RENGA_CHECKPOINT_HEAD &&
         head->index_offset <= end && head->index_count <= (end - head->index_offset) / row;
}

/* What is wrong with an open file, tensors aside, or NULL. */
static RengaErrorCode FindDamage(int file, RengaCheckpointHead *head, const char **damage)
{
  IndexRow *rows = NULL;
  uint64_t hash = 0;
  *damage = ReadHead(file, head);
  if (!*damage && head->file_bytes != lseek(file, 0, SEEK_END))
    *damage = "it is truncated, or longer than it was written";
  else if (!*damage && !IndexFits(head))
    *damage = "its checksums cannot be where it says";
  if (*damage) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(head->index_count, &rows));
  RengaErrorCode code = RENGA_SUCCESS;
  bool good =
      ReadWholeHead(file, head->index_offset, (size_t)head->index_count * sizeof *rows, rows);
  if (good) code = HashRest(file, head->file_bytes, head->index_count, rows, &good, &hash);
  RengaFree(&rows);
  RengaCall(code);
  if (!good || hash != head->rest_hash) *damage = "its names, shapes or checksums are damaged";
  return RENGA_SUCCESS;
}

bool RengaCheckpointHeadRead(const char *path, RengaCheckpointHead *head)
{
  int file = RengaFileDescriptor_Private(path, O_RDONLY, 0);
  bool good = file >= 0 && ReadHead(file, head) == NULL;
  if (file >= 0) close(file);
  return good;
}

RengaErrorCode RengaCheckpointHeadCheck(const char *path, RengaCheckpointHead *head,
                                        char message[RENGA_CHECKPOINT_MESSAGE])
{
  RengaErrorCode code = RENGA_SUCCESS;
  const char *damage = NULL;
  int file = RengaFileDescriptor_Private(path, O_RDONLY, 0);
  if (file < 0)
    damage = RengaFileReason_Private(errno);
  else
    code = FindDamage(file, head, &damage);
  snprintf(message, RENGA_CHECKPOINT_MESSAGE, "%s", damage ? damage : "");
  if (file >= 0) close(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

int RengaCheckpointMarkWrite(const char *path, RengaCheckpointMarkKind kind)
{
  RengaCheckpointHead head;
  int file = RengaFileDescriptor_Private(path, O_RDWR, 0);
  int reason = file < 0 ? errno : 0;
  if (reason == 0 && ReadHead(file, &head) != NULL) reason = EINVAL;
  if (reason == 0) reason = PutMark(file, &head, kind);
  if (reason == 0 && RengaWritten(fdatasync(file)) != 0 && errno != EINVAL) reason = errno;
  if (file >= 0) close(file);
  return reason;
}

RengaCheckpointMarkKind RengaCheckpointMarkRead(const char *path)
{
  RengaCheckpointMarkKind found = RENGA_MARK_NONE;
  RengaCheckpointHead head;
  HeadMark read, wanted;
  int file = RengaFileDescriptor_Private(path, O_RDONLY, 0);
  bool there = file >= 0 && ReadHead(file, &head) == NULL &&
               ReadWholeHead(file, RENGA_CHECKPOINT_MARK, sizeof read, &read);
  for (int kind = RENGA_MARK_GOOD; there && kind <= RENGA_MARK_BAD; kind++) {
    MakeMark(&head, (RengaCheckpointMarkKind)kind, &wanted);
    if (memcmp(&read, &wanted, sizeof read) == 0) found = (RengaCheckpointMarkKind)kind;
  }
  if (file >= 0) close(file);
  return found;
}
