/* Files of fragments. They are mapped, so that blocks are copied once and messages go from and to
   where they lie; their memory is taken before that, as a page that cannot be had would end the
   process. */
#include "fragment.h"
#include "renga/private/fault.h"
#include "renga/private/image.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char fragment_magic[] = "Renga checkpoint in memory, 1\n";

RengaErrorCode RengaFragmentCreate(const char *folder, int rank, int by, int slot,
                                   RengaFragment *fragment)
{
  const size_t room = strlen(folder) + 64;
  *fragment = (RengaFragment){.file = -1};
  RengaCall(RengaMalloc(room, &fragment->path));
  snprintf(fragment->path, room, "%s/fragment_%d_by_%d.%d", folder, rank, by, slot);
  return RENGA_SUCCESS;
}

bool RengaFragmentParseName(const char *name, int *rank, int *by, int *slot)
{
  int length = 0;
  return sscanf(name, "fragment_%d_by_%d.%d%n", rank, by, slot, &length) == 3 && !name[length];
}

int RengaFragmentOpen(RengaFragment *fragment)
{
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  if (fragment->file >= 0) return 0;
  fragment->file = RengaFileDescriptor_Private(fragment->path, flags, 0600);
  if (fragment->file < 0) return errno;
  (void)!flock(fragment->file, LOCK_EX | LOCK_NB); /* where the file system has locks */
  return 0;
}

int RengaFragmentReserve(RengaFragment *fragment, int64_t bytes)
{
  int reason = RengaFragmentOpen(fragment);
  if (reason || bytes <= fragment->room) return reason;
  if (!RengaImageMayHold(bytes)) return EFBIG;
  if (RengaFaultIsDue(RENGA_FAULT_FILE)) return ENOSPC;
  do reason = posix_fallocate(fragment->file, fragment->room, bytes - fragment->room);
  while (reason == EINTR);
  if (reason) return reason;
  void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fragment->file, 0);
  if (at == MAP_FAILED) return errno;
  if (fragment->at) munmap(fragment->at, (size_t)fragment->room);
  fragment->at = at;
  fragment->room = bytes;
  return 0;
}

/* Under its name is still the file that was made, and not another run's. */
static bool IsFragmentThere(const RengaFragment *fragment)
{
  struct stat own, there;
  return fragment->file >= 0 && fstat(fragment->file, &own) == 0 &&
         lstat(fragment->path, &there) == 0 && own.st_dev == there.st_dev &&
         own.st_ino == there.st_ino;
}

static void CloseFragment(RengaFragment *fragment)
{
  if (fragment->at) munmap(fragment->at, (size_t)fragment->room);
  if (fragment->file >= 0) close(fragment->file);
  fragment->at = NULL;
  fragment->room = 0;
  fragment->file = -1;
}

/* As much room as before for one that was removed. */
static int MakeFragmentAgain(RengaFragment *fragment)
{
  const int64_t room = fragment->room;
  if (fragment->file < 0 || IsFragmentThere(fragment)) return 0;
  CloseFragment(fragment);
  return RengaFragmentReserve(fragment, room);
}

int RengaFragmentBegin(RengaFragment *fragment)
{
  const RengaFragmentHead none = {.token = fragment->token};
  int reason = MakeFragmentAgain(fragment);
  if (!reason) reason = RengaFragmentReserve(fragment, RENGA_FRAGMENT_HEAD);
  if (!reason) reason = RengaWriteAt(fragment->file, 0, sizeof none, &none);
  fragment->head = none;
  return reason;
}

static RengaErrorCode CheckFragmentRoom(RengaFragment *fragment, int64_t bytes)
{
  enum { STEP = 1 << 20 };
  if (bytes <= fragment->room) return RENGA_SUCCESS;
  const int reason = RengaFragmentReserve(fragment, (bytes + STEP - 1) / STEP * STEP);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", fragment->path,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFragmentAdd(RengaFragment *fragment, const RengaFragmentBlock *block,
                                const void *data)
{
  RengaFragmentHead *head = &fragment->head;
  const int64_t at = RENGA_FRAGMENT_HEAD + head->data_bytes;
  if (head->n_blocks == fragment->most_rows) {
    RengaCall(RengaRealloc(2 * fragment->most_rows + 16, &fragment->row));
    fragment->most_rows = 2 * fragment->most_rows + 16;
  }
  RengaCall(CheckFragmentRoom(fragment, at + block->bytes));
  if (block->bytes > 0) memcpy(fragment->at + at, data, (size_t)block->bytes);
  fragment->row[head->n_blocks] = *block;
  fragment->row[head->n_blocks++].hash = RengaHash(data, (size_t)block->bytes, 0);
  head->data_bytes += block->bytes;
  return RENGA_SUCCESS;
}

int64_t RengaFragmentBytes(const RengaFragmentHead *head)
{
  return RENGA_FRAGMENT_HEAD + head->data_bytes +
         head->n_blocks * (int64_t)sizeof(RengaFragmentBlock);
}

RengaErrorCode RengaFragmentEnd(RengaFragment *fragment)
{
  RengaFragmentHead *head = &fragment->head;
  const size_t bytes = (size_t)head->n_blocks * sizeof *fragment->row;
  RengaCall(CheckFragmentRoom(fragment, RengaFragmentBytes(head)));
  if (bytes > 0)
    memcpy(fragment->at + RENGA_FRAGMENT_HEAD + head->data_bytes, fragment->row, bytes);
  memcpy(head->magic, fragment_magic, sizeof fragment_magic);
  head->rows_hash = RengaHash(fragment->row, bytes, 0);
  return RENGA_SUCCESS;
}

int RengaFragmentCommit(RengaFragment *fragment)
{
  fragment->head.hash = RengaHash(&fragment->head, offsetof(RengaFragmentHead, hash), 0);
  return RengaWriteAt(fragment->file, 0, sizeof fragment->head, &fragment->head);
}

void RengaFragmentDestroy(RengaFragment *fragment, bool unlinks)
{
  if (!fragment->path) return; /* it was never created: 0 is no file of it */
  if (unlinks && IsFragmentThere(fragment)) unlink(fragment->path);
  CloseFragment(fragment);
  RengaFree(&fragment->path);
  RengaFree(&fragment->row);
  *fragment = (RengaFragment){.file = -1};
}

static bool ReadFragment(int file, int64_t offset, size_t bytes, void *to)
{
  char *place = to;
  while (bytes > 0) {
    const ssize_t got = pread(file, place, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    place += got;
    offset += got;
    bytes -= (size_t)got;
  }
  return true;
}

static bool FragmentHeadIsGood(int file, const RengaFragmentHead *head)
{
  struct stat about;
  const int64_t most = INT64_C(1) << 60;
  return memcmp(head->magic, fragment_magic, sizeof fragment_magic) == 0 &&
         head->hash == RengaHash(head, offsetof(RengaFragmentHead, hash), 0) &&
         head->data_bytes >= 0 && head->data_bytes < most && head->n_blocks >= 0 &&
         head->n_blocks < most / (int64_t)sizeof(RengaFragmentBlock) && fstat(file, &about) == 0 &&
         RengaFragmentBytes(head) <= (int64_t)about.st_size;
}

bool RengaFragmentHeadRead(const char *path, RengaFragmentHead *head)
{
  const int file = RengaFileDescriptor_Private(path, O_RDONLY | O_NOFOLLOW, 0);
  const bool good =
      file >= 0 && ReadFragment(file, 0, sizeof *head, head) && FragmentHeadIsGood(file, head);
  if (file >= 0) close(file);
  return good;
}

bool RengaFragmentIsTaken(const char *path, uint64_t token)
{
  RengaFragmentHead head;
  const int file = RengaFileDescriptor_Private(path, O_RDONLY | O_NOFOLLOW, 0);
  const bool others = file >= 0 && ReadFragment(file, 0, sizeof head, &head) && head.token != 0 &&
                      head.token != token;
  const bool taken = others && flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (file >= 0) close(file);
  return taken;
}

/* A fragment that is read: its file, and the rows of its blocks. */
typedef struct {
  int file; /* -1: it is not as it was written */
  RengaFragmentBlock *row;
} OpenFragment;

static RengaErrorCode OpenFragmentRows(const char *path, const RengaFragmentHead *head,
                                       OpenFragment *fragment)
{
  RengaFragmentHead now;
  const size_t bytes = (size_t)head->n_blocks * sizeof *fragment->row;
  *fragment = (OpenFragment){.file = -1};
  const int file = RengaFileDescriptor_Private(path, O_RDONLY | O_NOFOLLOW, 0);
  if (file < 0) return RENGA_SUCCESS;
  const RengaErrorCode code = RengaMalloc(head->n_blocks + 1, &fragment->row);
  const bool whole =
      !code && ReadFragment(file, 0, sizeof now, &now) && memcmp(&now, head, sizeof now) == 0 &&
      ReadFragment(file, RENGA_FRAGMENT_HEAD + head->data_bytes, bytes, fragment->row) &&
      RengaHash(fragment->row, bytes, 0) == head->rows_hash;
  if (whole)
    fragment->file = file;
  else
    close(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void CloseFragmentRows(OpenFragment *fragment)
{
  if (fragment->file >= 0) close(fragment->file);
  RengaFree(&fragment->row);
}

static bool BlockFitsTable(const RengaCheckpointTable *table, const RengaFragmentBlock *row)
{
  return row->tensor >= 0 && row->tensor < table->n_entries && row->first >= 0 && row->bytes >= 0 &&
         row->first % table->block == 0 && row->bytes <= table->block &&
         row->first + row->bytes <= table->entries[row->tensor].bytes;
}

static uint64_t *HashOf(const RengaCheckpointTable *table, const RengaFragmentBlock *row)
{
  return &table->hashes[table->entries[row->tensor].first_hash + row->first / table->block];
}

/* room: for a block. */
static void CopyRows(const OpenFragment *fragment, int64_t count, RengaCheckpointTable *table,
                     int to, char *room, bool *whole, int *reason)
{
  int64_t at = RENGA_FRAGMENT_HEAD;
  for (int64_t b = 0; b < count && *whole && *reason == 0; b++) {
    const RengaFragmentBlock *row = &fragment->row[b];
    const int64_t from = at;
    at += row->bytes;
    if (row->tensor == RENGA_FRAGMENT_TABLE) continue;
    *whole = BlockFitsTable(table, row) &&
             ReadFragment(fragment->file, from, (size_t)row->bytes, room) &&
             RengaHash(room, (size_t)row->bytes, 0) == row->hash;
    if (!*whole) continue;
    *reason =
        RengaTransferWrite(to, table->entries[row->tensor].offset + row->first, row->bytes, room);
    *HashOf(table, row) = row->hash;
  }
}

RengaErrorCode RengaFragmentCopyOut(const char *path, const RengaFragmentHead *head,
                                    RengaCheckpointTable *table, int file, bool *whole, int *reason)
{
  OpenFragment fragment;
  char *room = NULL;
  *reason = 0;
  *whole = false;
  RengaCall(OpenFragmentRows(path, head, &fragment));
  const RengaErrorCode code = RengaMalloc(table->block + 1, &room);
  *whole = !code && fragment.file >= 0;
  if (*whole) CopyRows(&fragment, head->n_blocks, table, file, room, whole, reason);
  for (int64_t b = 0; b < head->n_blocks && fragment.file >= 0 && !*whole; b++)
    if (BlockFitsTable(table, &fragment.row[b]))
      *HashOf(table, &fragment.row[b]) = 0; /* a copy's */
  CloseFragmentRows(&fragment);
  RengaFree(&room);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFragmentReadTable(const char *path, const RengaFragmentHead *head, char **bytes,
                                      int64_t *count, bool *whole)
{
  OpenFragment fragment;
  int64_t at = RENGA_FRAGMENT_HEAD, b = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  *bytes = NULL;
  *whole = false;
  RengaCall(OpenFragmentRows(path, head, &fragment));
  if (fragment.file < 0) b = head->n_blocks;
  for (; b < head->n_blocks && fragment.row[b].tensor != RENGA_FRAGMENT_TABLE; b++)
    at += fragment.row[b].bytes;
  if (b < head->n_blocks) {
    *count = fragment.row[b].bytes;
    code = RengaMalloc(*count + 1, bytes);
    *whole = !code && ReadFragment(fragment.file, at, (size_t)*count, *bytes) &&
             RengaHash(*bytes, (size_t)*count, 0) == fragment.row[b].hash;
  }
  CloseFragmentRows(&fragment);
  if (!*whole) RengaFree(bytes);
  RengaCall(code);
  return RENGA_SUCCESS;
}
