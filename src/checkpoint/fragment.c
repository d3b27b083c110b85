/* Files of fragments. They are mapped, so that blocks are copied once and messages go from and to
   where they lie; their memory is taken before that, as a page that cannot be had would end the
   process. */
#include "fragment.h"
#include "renga/private/fault.h"
#include "renga/private/hash.h"
#include "renga/private/image.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
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
  if (fragment->file >= 0) return 0;
  fragment->file =
      RengaFileDescriptor_Private(fragment->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  return fragment->file >= 0 ? 0 : errno;
}

int RengaFragmentReserve(RengaFragment *fragment, int64_t bytes)
{
  int reason = RengaFragmentOpen(fragment);
  if (reason || bytes <= fragment->room) return reason;
  if (!RengaImageMayHold(bytes)) return EFBIG;
  if (RengaFaultIsDue(RENGA_FAULT_FILE)) return ENOSPC;
  do reason = posix_fallocate(fragment->file, 0, bytes);
  while (reason == EINTR);
  if (reason) return reason;
  void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fragment->file, 0);
  if (at == MAP_FAILED) return errno;
  if (fragment->at) munmap(fragment->at, (size_t)fragment->room);
  fragment->at = at;
  fragment->room = bytes;
  return 0;
}

int RengaFragmentBegin(RengaFragment *fragment)
{
  static const RengaFragmentHead none;
  int reason = RengaFragmentReserve(fragment, RENGA_FRAGMENT_HEAD);
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

RengaErrorCode RengaFragmentAdd(RengaFragment *fragment, int64_t offset, int64_t bytes,
                                const void *data)
{
  RengaFragmentHead *head = &fragment->head;
  const int64_t at = RENGA_FRAGMENT_HEAD + head->data_bytes;
  if (head->n_blocks == fragment->most_rows) {
    RengaCall(RengaRealloc(2 * fragment->most_rows + 16, &fragment->row));
    fragment->most_rows = 2 * fragment->most_rows + 16;
  }
  RengaCall(CheckFragmentRoom(fragment, at + bytes));
  if (bytes > 0) memcpy(fragment->at + at, data, (size_t)bytes);
  fragment->row[head->n_blocks++] = (RengaFragmentBlock){
      .offset = offset, .bytes = bytes, .hash = RengaHash(data, (size_t)bytes, 0)};
  head->data_bytes += bytes;
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
  head->hash = RengaHash(head, offsetof(RengaFragmentHead, hash), 0);
  return RENGA_SUCCESS;
}

int RengaFragmentCommit(RengaFragment *fragment)
{
  return RengaWriteAt(fragment->file, 0, sizeof fragment->head, &fragment->head);
}

void RengaFragmentDestroy(RengaFragment *fragment, bool unlinks)
{
  if (fragment->at) munmap(fragment->at, (size_t)fragment->room);
  if (fragment->file >= 0) close(fragment->file);
  if (unlinks && fragment->path) unlink(fragment->path);
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

/* Blocks whose rows are those that were written. */
static RengaErrorCode CopyFragmentOut(int from, const RengaFragmentHead *head,
                                      const RengaFragmentBlock row[], int to, bool *whole,
                                      int *reason)
{
  char *block = NULL;
  int64_t at = RENGA_FRAGMENT_HEAD, most = 1;
  for (int64_t b = 0; b < head->n_blocks; b++)
    if (row[b].bytes > most) most = row[b].bytes;
  RengaCall(RengaMalloc(most, &block));
  for (int64_t b = 0; b < head->n_blocks && *whole && *reason == 0; b++) {
    const size_t bytes = (size_t)row[b].bytes;
    *whole = ReadFragment(from, at, bytes, block) && RengaHash(block, bytes, 0) == row[b].hash;
    if (*whole) *reason = RengaTransferWrite(to, row[b].offset, row[b].bytes, block);
    at += row[b].bytes;
  }
  RengaFree(&block);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFragmentCopyOut(const char *path, const RengaFragmentHead *head, int file,
                                    bool *whole, int *reason)
{
  RengaFragmentBlock *row = NULL;
  RengaFragmentHead now;
  const size_t bytes = (size_t)head->n_blocks * sizeof *row;
  *reason = 0;
  *whole = false;
  const int from = RengaFileDescriptor_Private(path, O_RDONLY | O_NOFOLLOW, 0);
  if (from < 0) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(head->n_blocks + 1, &row);
  *whole = !code && ReadFragment(from, 0, sizeof now, &now) &&
           memcmp(&now, head, sizeof now) == 0 &&
           ReadFragment(from, RENGA_FRAGMENT_HEAD + head->data_bytes, bytes, row) &&
           RengaHash(row, bytes, 0) == head->rows_hash;
  if (*whole) code = CopyFragmentOut(from, head, row, file, whole, reason);
  close(from);
  RengaFree(&row);
  RengaCall(code);
  return RENGA_SUCCESS;
}
