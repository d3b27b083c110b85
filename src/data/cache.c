/* Data: the files of -data_cache, one for each owner and input. A header says of which set and
   owner it is; each slot says which sample it holds, with a checksum, so that a run which ended
   anywhere leaves a file from which the next one takes what is good and what it wants. */
#include "placement.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { HEADER_BYTES = 4096, SECOND = 1000000000 /* ns */ };
static const char magic[8] = "rengadc1";

typedef struct {
  char magic[8];
  uint64_t digest;
  int64_t owners, owner, field, places, bytes, slots;
  RengaDataSetState state;
} CacheHeader;

/* In front of a sample. */
typedef struct {
  int64_t sample; /* + 1; 0: the slot is empty */
  uint64_t check;
} SlotHeader;

static RengaErrorCode AddFileState(const char *name, RengaDataSetState *state)
{
  struct stat file;
  RengaCheck(stat(name, &file) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", name,
             RengaFileReason_Private(errno));
  const int64_t words[2] = {(int64_t)file.st_size,
                            (int64_t)file.st_mtim.tv_sec * SECOND + file.st_mtim.tv_nsec};
  state->bytes += words[0];
  if (words[1] > state->changed) state->changed = words[1];
  state->files = RengaHash(words, sizeof words, state->files);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddFileStates(RengaData data, RengaDataSetState *state)
{
  for (int f = 0; f < data->n_files; f++) RengaCall(AddFileState(data->files[f].name, state));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCacheFindState_Private(RengaData data, RengaDataSetState *state)
{
  RengaDataSetState found = {0, 0, 0};
  const bool first = RengaCommGetRank(data->hdr.owner) == 0;
  const RengaErrorCode code = first ? AddFileStates(data, &found) : RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(data->hdr.comm, code));
  RengaCall(RengaBroadcast_Private(data->hdr.comm, &found, sizeof found,
                                   "rank 0 to look at the files of the data set"));
  *state = found;
  return RENGA_SUCCESS;
}

static size_t SlotStride(const RengaDataStore *store)
{
  return sizeof(SlotHeader) + (store->bytes + 7) / 8 * 8;
}

static off_t SlotPlace(const RengaDataStore *store, int64_t slot)
{
  return (off_t)(HEADER_BYTES + (size_t)slot * SlotStride(store));
}

static bool ReadAll(int file, void *to, size_t bytes, off_t from)
{
  char *at = to;
  while (bytes > 0) {
    const ssize_t got = pread(file, at, bytes, from);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = ENODATA;
    if (got <= 0) return false;
    at += got, from += got, bytes -= (size_t)got;
  }
  return true;
}

static bool WriteAll(int file, const void *from, size_t bytes, off_t to)
{
  const char *at = from;
  while (bytes > 0) {
    const ssize_t put = RengaWritten(pwrite(file, at, bytes, to));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put, to += put, bytes -= (size_t)put;
  }
  return true;
}

static uint64_t CheckOfSlot(const RengaDataStore *store, int64_t sample, const char *raw)
{
  return RengaHash(raw, store->bytes, (uint64_t)sample);
}

bool RengaCacheRead_Private(const RengaDataStore *store, int64_t slot, char *buffer)
{
  SlotHeader header;
  const off_t place = SlotPlace(store, slot);
  if (!ReadAll(store->file, &header, sizeof header, place)) return false;
  if (!ReadAll(store->file, buffer, store->bytes, place + (off_t)sizeof header)) return false;
  errno = 0;
  return header.sample == store->held[slot] + 1 &&
         header.check == CheckOfSlot(store, store->held[slot], buffer);
}

bool RengaCacheWrite_Private(RengaDataStore *store, int64_t slot, int64_t sample, const char *raw)
{
  SlotHeader header = {.sample = sample + 1};
  const off_t place = SlotPlace(store, slot);
  if (sample >= 0) header.check = CheckOfSlot(store, sample, raw);
  return WriteAll(store->file, &header, sizeof header, place) &&
         (sample < 0 || WriteAll(store->file, raw, store->bytes, place + (off_t)sizeof header));
}

void RengaStoreExpect_Private(const RengaDataStore *store, int64_t slot)
{
  if (store->memory) return;
  posix_fadvise(store->file, SlotPlace(store, slot), (off_t)SlotStride(store),
                POSIX_FADV_WILLNEED); /* advice: what it returns changes nothing */
}

static RengaErrorCode NameCacheFile(RengaDataStore *store, const RengaDataCacheKey *key)
{
  char name[4096], copy[32] = "";
  if (key->copy > 0) snprintf(copy, sizeof copy, ".%d", key->copy);
  RengaCheck(snprintf(name, sizeof name, "%s/owner-%lld.field-%d%s", key->folder,
                      (long long)store->owner, store->field, copy) < (int)sizeof name,
             MPI_COMM_SELF, RENGA_ERR_OPTION, "-data_cache %.64s...: the name is too long",
             key->folder);
  RengaCall(RengaStringCopy(name, &store->name));
  return RENGA_SUCCESS;
}

/* Blocks of the disk for all slots. */
static RengaErrorCode ReserveSlots(RengaDataStore *store, const RengaDataCacheKey *key, bool made)
{
  char need[16], left[16] = "?";
  struct statvfs status;
  const off_t size = SlotPlace(store, store->slots);
  const int reason =
      RengaFaultIsDue(RENGA_FAULT_FILE) ? ENOSPC : posix_fallocate(store->file, 0, size);
  if (reason == 0) return RENGA_SUCCESS;
  if (made) unlink(store->name);
  RengaFormatBytes((double)size, sizeof need, need);
  if (statvfs(key->folder, &status) == 0)
    RengaFormatBytes((double)status.f_bavail * (double)status.f_frsize, sizeof left, left);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-data_cache %s: no room for %s of owner %lld, %s are free (%s)", key->folder, need,
             (long long)store->owner, left, RengaFileReason_Private(reason));
}

static CacheHeader HeaderOf(const RengaDataStore *store, const RengaDataCacheKey *key)
{
  CacheHeader header = {.digest = key->digest,
                        .owners = key->owners,
                        .owner = store->owner,
                        .field = store->field,
                        .places = store->places,
                        .bytes = (int64_t)store->bytes,
                        .slots = store->slots,
                        .state = key->state};
  memcpy(header.magic, magic, sizeof magic);
  return header;
}

static RengaErrorCode WriteHeader(RengaDataStore *store, const RengaDataCacheKey *key, bool made)
{
  const CacheHeader header = HeaderOf(store, key);
  RengaCall(ReserveSlots(store, key, made));
  RengaCheck(WriteAll(store->file, &header, sizeof header, 0), MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "data cache %s cannot be written: %s", store->name, RengaFileReason_Private(errno));
  return RENGA_SUCCESS;
}

/* A file that was there. */
static RengaErrorCode CheckCacheHeader(const RengaDataStore *store, const RengaDataCacheKey *key,
                                       const CacheHeader *is, off_t size)
{
  const CacheHeader want = HeaderOf(store, key);
  RengaCheck(memcmp(is->magic, magic, sizeof magic) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data cache %s is no file of a data cache: give -data_cache a folder of its own",
             store->name);
  RengaCheck(is->field == want.field && is->bytes == want.bytes, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "data cache %s holds another data set (%lld bytes of a sample, not %lld): remove it, "
             "or give -data_cache another folder",
             store->name, (long long)is->bytes, (long long)want.bytes);
  RengaCheck(is->digest == want.digest, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data cache %s holds another data set (hash %016llx, not %016llx): remove it, or give "
             "-data_cache another folder",
             store->name, (unsigned long long)is->digest, (unsigned long long)want.digest);
  RengaCheck(memcmp(&is->state, &want.state, sizeof want.state) == 0, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "data cache %s is of the data set before its files changed (then %lld bytes, last "
             "written at second %lld.%09lld; now %lld bytes, at %lld.%09lld): remove it, or give "
             "-data_cache another folder",
             store->name, (long long)is->state.bytes, (long long)(is->state.changed / SECOND),
             (long long)(is->state.changed % SECOND), (long long)want.state.bytes,
             (long long)(want.state.changed / SECOND), (long long)(want.state.changed % SECOND));
  RengaCheck(is->owners == want.owners && is->owner == want.owner && is->places == want.places,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data cache %s holds owner %lld of %lld, with %lld samples, not owner %lld of %lld, "
             "with %lld: remove it, or give -data_cache another folder",
             store->name, (long long)is->owner, (long long)is->owners, (long long)is->places,
             (long long)want.owner, (long long)want.owners, (long long)want.places);
  RengaCheck(is->slots >= is->places && size >= SlotPlace(store, is->slots), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "data cache %s is damaged: it has %lld bytes, not %lld; remove it", store->name,
             (long long)size, (long long)SlotPlace(store, is->slots));
  return RENGA_SUCCESS;
}

/* Which samples its slots hold. */
static RengaErrorCode ReadHeld(RengaDataStore *store, int64_t slots)
{
  for (int64_t s = 0; s < slots && s < store->slots; s++) {
    SlotHeader header;
    RengaCheck(ReadAll(store->file, &header, sizeof header, SlotPlace(store, s)), MPI_COMM_SELF,
               RENGA_ERR_FILE_OPEN, "data cache %s cannot be read: %s", store->name,
               RengaFileReason_Private(errno));
    store->held[s] = header.sample - 1;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeCacheFile(RengaDataStore *store, const RengaDataCacheKey *key, off_t size)
{
  CacheHeader header = {.slots = 0};
  const size_t bytes = size < (off_t)sizeof header ? (size_t)size : sizeof header;
  RengaCheck(ReadAll(store->file, &header, bytes, 0), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "data cache %s cannot be read: %s", store->name, RengaFileReason_Private(errno));
  const CacheHeader none = {.slots = 0};
  if (memcmp(&header, &none, sizeof none) == 0) { /* new, or its making broke off */
    RengaCall(WriteHeader(store, key, size == 0));
    return RENGA_SUCCESS;
  }
  RengaCall(CheckCacheHeader(store, key, &header, size));
  RengaCall(ReadHeld(store, header.slots));
  if (header.slots < store->slots) RengaCall(WriteHeader(store, key, false));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCacheOpen_Private(RengaDataStore *store, const RengaDataCacheKey *key)
{
  struct stat status;
  RengaCall(NameCacheFile(store, key));
  store->file = RengaFileDescriptor_Private(store->name, O_RDWR | O_CREAT, 0666); /* a FIFO */
  RengaCheck(store->file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "data cache %s cannot be opened: %s", store->name, RengaFileReason_Private(errno));
  RengaCheck(flock(store->file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK, MPI_COMM_SELF,
             RENGA_ERR_FILE_OPEN,
             "data cache %s is in use by another run: give -data_cache another folder",
             store->name);
  RengaCheck(fstat(store->file, &status) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "data cache %s: %s", store->name, RengaFileReason_Private(errno));
  RengaCheck(S_ISREG(status.st_mode), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data cache %s is no regular file: give -data_cache a folder of its own", store->name);
  RengaCall(TakeCacheFile(store, key, status.st_size));
  return RENGA_SUCCESS;
}
