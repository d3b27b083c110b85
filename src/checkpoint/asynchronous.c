/* A checkpoint that is written while training goes on. The blocks of tensors that this rank takes
   are copied to buffers of the host; a thread writes and hashes them. It calls the system and
   nothing else: no MPI, no HDF5 (the names and shapes were laid out before, by the thread that
   trains), no memory of the ledger, no errors that are told. Once all threads are done the ranks
   bring the hashes together, and a thread of rank 0 gives the file its name. */
#include "writer.h"
#include "renga/private/line.h"
#include "renga/private/open.h"
#include "renga/private/quiet.h"
#include "renga/private/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  int tensor;                  /* of the table */
  int64_t offset, bytes, hash; /* in the file; hash: its number in the table */
  const char *data;
} AsideBlock;

/* Memory that stays from file to file; pools after the first are for parts of other ranks. */
typedef struct {
  char *data;
  int64_t bytes, used;
} AsidePool;

struct _RengaAside {
  RengaCheckpointWriter writer;
  RengaCheckpointTable table; /* rank 0: of the writer */
  char *path;
  bool root;                 /* rank 0 */
  int threads;               /* that copy */
  int n_blocks, most_blocks; /* of this file, there is room for */
  AsideBlock *block;         /* [most_blocks] */
  int n_pools;
  AsidePool *pool;        /* [n_pools] */
  RengaCheckpointOld old; /* rank 0: to be deleted once the file has its name */
  pthread_t thread;
  bool runs;          /* to be joined */
  atomic_bool done;   /* the thread has nothing left to do */
  atomic_llong steps; /* of its work: it is slow, and does not hang */
  /* Of the thread, and after it ended of all: */
  double seconds;
  char message[RENGA_CHECKPOINT_MESSAGE]; /* "": nothing failed */
};

RengaErrorCode RengaAsideCreate(RengaAside *aside)
{
  RengaAside made;
  RengaCall(RengaMalloc(1, &made));
  atomic_init(&made->done, true);
  atomic_init(&made->steps, 0);
  *aside = made;
  return RENGA_SUCCESS;
}

static double MonotonicSeconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Signals are for the thread that trains. Where no thread can be had the work is done at once. */
static void StartAside(RengaAside aside, void *(*work)(void *))
{
  sigset_t all, before;
  sigfillset(&all);
  atomic_store(&aside->done, false);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  aside->runs = pthread_create(&aside->thread, NULL, work, aside) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!aside->runs) work(aside);
}

static void NameAsideFile(const void *subject, size_t size, char text[])
{
  const struct _RengaAside *aside = subject;
  snprintf(text, size, " %s", aside->path ? aside->path : "(memory for it)");
}

/* A file system that hangs holds up its thread for ever, and this one until the limit. */
static RengaErrorCode JoinAside(RengaAside aside)
{
  RengaWait wait = {.comm = aside->path ? aside->writer.ranks : MPI_COMM_SELF,
                    .what = "the file system to write the checkpoint",
                    .describe = NameAsideFile,
                    .subject = aside};
  while (!atomic_load(&aside->done))
    RengaCall(RengaWaitPause_Private(&wait, atomic_load(&aside->steps)));
  if (aside->runs) pthread_join(aside->thread, NULL);
  aside->runs = false;
  return RENGA_SUCCESS;
}

static RengaErrorCode JoinQuietly(RengaAside aside)
{
  RengaQuiet quiet;
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code = JoinAside(aside);
  RengaQuietEnd_Private(&quiet);
  return code;
}

bool RengaAsideIsBusy(RengaAside aside)
{
  return !atomic_load(&aside->done);
}

double RengaAsideSeconds(RengaAside aside)
{
  return aside->seconds;
}

int64_t RengaAsideBytes(RengaAside aside)
{
  int64_t bytes = 0;
  for (int i = 0; i < aside->n_pools; i++) bytes += aside->pool[i].bytes;
  return bytes;
}

static RengaErrorCode AddAsidePool(RengaAside aside, int64_t bytes)
{
  char *data;
  RengaCall(RengaRealloc(aside->n_pools + 1, &aside->pool));
  RengaCall(RengaMalloc(bytes, &data));
  aside->pool[aside->n_pools++] = (AsidePool){.data = data, .bytes = bytes};
  return RENGA_SUCCESS;
}

/* Memory for a block: in the first pool that has room. */
static RengaErrorCode TakeAsideRoom(RengaAside aside, int64_t bytes, char **data)
{
  int p = 0;
  while (p < aside->n_pools && aside->pool[p].bytes - aside->pool[p].used < bytes) p++;
  if (p == aside->n_pools)
    RengaCall(AddAsidePool(aside, bytes > RENGA_HOLDINGS_BLOCK ? bytes : RENGA_HOLDINGS_BLOCK));
  *data = aside->pool[p].data + aside->pool[p].used;
  aside->pool[p].used += bytes;
  return RENGA_SUCCESS;
}

/* A thread alone does not use all of the memory's bandwidth. */
static void CopyByThreads(int threads, int64_t bytes, const char *from, char *to)
{
  enum { PIECE = 256 << 10 };
  if (bytes == 0) return;
  const int64_t pieces = (bytes + PIECE - 1) / PIECE;
  const int most = pieces < threads ? (int)pieces : threads;
#pragma omp parallel for num_threads(most) if (most > 1) schedule(static)
  for (int64_t p = 0; p < pieces; p++) {
    const int64_t first = p * PIECE, rest = bytes - first;
    memcpy(to + first, from + first, (size_t)(rest < PIECE ? rest : PIECE));
  }
}

static RengaErrorCode KeepBlock(void *user, int tensor, int64_t first, int64_t bytes,
                                const void *data)
{
  RengaAside aside = user;
  const RengaCheckpointTable *table = aside->writer.table;
  const RengaCheckpointEntry *entry = &table->entries[tensor];
  char *copy;
  if (aside->n_blocks == aside->most_blocks) {
    RengaCall(RengaRealloc(2 * aside->most_blocks + 16, &aside->block));
    aside->most_blocks = 2 * aside->most_blocks + 16;
  }
  RengaCall(TakeAsideRoom(aside, bytes, &copy));
  CopyByThreads(aside->threads, bytes, data, copy);
  aside->block[aside->n_blocks++] = (AsideBlock){.tensor = tensor,
                                                 .offset = entry->offset + first,
                                                 .bytes = bytes,
                                                 .hash = entry->first_hash + first / table->block,
                                                 .data = copy};
  return RENGA_SUCCESS;
}

/* Rank 0: all of the file's bytes, where the file system can do that beside writers; a full disk is
   found early then. */
static int ReserveBeside(int file, int64_t bytes)
{
  int code;
  if (RengaFaultIsDue(RENGA_FAULT_FILE)) return EIO;
  do code = fallocate(file, 0, 0, bytes);
  while (code != 0 && errno == EINTR);
  if (code == 0) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  return ftruncate(file, bytes) == 0 ? 0 : errno;
}

static void KeepReason(RengaAside aside, const char *tensor, int reason)
{
  snprintf(aside->message, sizeof aside->message, "%s: %s%s%s", aside->writer.path,
           tensor ? "tensor " : "", tensor ? tensor : "", tensor ? ": " : "");
  const size_t used = strlen(aside->message);
  if (used < sizeof aside->message)
    snprintf(aside->message + used, sizeof aside->message - used, "%s",
             RengaFileReason_Private(reason));
}

/* 0 or errno; tensor: at which it failed, or NULL. */
static int WriteAsideBlocks(RengaAside aside, int file, const char **tensor)
{
  RengaCheckpointTable *table = aside->writer.table;
  int reason = 0;
  for (int i = 0; i < aside->n_blocks && reason == 0; i++) {
    const AsideBlock *block = &aside->block[i];
    reason = RengaTransferWrite(file, block->offset, block->bytes, block->data);
    table->hashes[block->hash] = RengaHash(block->data, (size_t)block->bytes, 0);
    if (reason) *tensor = table->entries[block->tensor].name;
    atomic_fetch_add(&aside->steps, 1);
  }
  if (reason == 0 && RengaWritten(fsync(file)) != 0) reason = errno;
  return reason;
}

/* The first thread: what was copied, to the disk. */
static void *WriteAside(void *user)
{
  RengaAside aside = user;
  const double begin = MonotonicSeconds();
  const char *tensor = NULL;
  int reason = 0;
  if (aside->root || aside->n_blocks > 0) {
    const int file = RengaFileDescriptor_Private(aside->writer.temporary, O_WRONLY, 0);
    if (file < 0) reason = errno;
    if (aside->root && reason == 0) reason = ReserveBeside(file, aside->writer.table->file_bytes);
    if (reason == 0) reason = WriteAsideBlocks(aside, file, &tensor);
    if (file >= 0) close(file);
  }
  if (reason) KeepReason(aside, tensor, reason);
  aside->seconds += MonotonicSeconds() - begin;
  atomic_store(&aside->done, true);
  return NULL;
}

/* The second one, on rank 0: durable, its name, then older ones go. */
static void *NameAside(void *user)
{
  RengaAside aside = user;
  const double begin = MonotonicSeconds();
  if (RengaCheckpointWriterName_Private(&aside->writer, aside->message))
    RengaCheckpointOldDelete_Private(&aside->old);
  aside->seconds += MonotonicSeconds() - begin;
  atomic_store(&aside->done, true);
  return NULL;
}

/* Pages are given by the system when they are touched first, which would be a part of the stall. */
static void *TouchPool(void *user)
{
  enum { PAGE = 4096 };
  RengaAside aside = user;
  const AsidePool *pool = &aside->pool[0];
  for (int64_t at = 0; at < pool->bytes; at += PAGE) *(volatile char *)&pool->data[at] = 0;
  atomic_store(&aside->done, true);
  return NULL;
}

RengaErrorCode RengaAsidePrepare(RengaAside aside, int64_t bytes)
{
  if (aside->n_pools > 0 || bytes == 0) return RENGA_SUCCESS;
  RengaCall(AddAsidePool(aside, bytes));
  StartAside(aside, TouchPool);
  return RENGA_SUCCESS;
}

/* The pools stay; so does all else where the thread does not end. */
static void ClearAside(RengaAside aside, bool failed)
{
  if (JoinQuietly(aside)) return;
  RengaCheckpointWriterFree_Private(&aside->writer, failed);
  RengaCheckpointTableFree(&aside->table);
  RengaCheckpointOldFree_Private(&aside->old);
  RengaFree(&aside->path);
  for (int i = 0; i < aside->n_pools; i++) aside->pool[i].used = 0;
  aside->n_blocks = 0;
}

/* What was before is over: memory was prepared, or a file given up whose thread hung. */
static RengaErrorCode EndBefore(RengaAside aside)
{
  RengaCall(JoinAside(aside));
  RengaAsideGiveUp(aside);
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyAside(RengaAside aside, int count, const RengaPersistent tensors[])
{
  RengaCheckpointWriter *writer = &aside->writer;
  RengaBringing bringing = {.taker = RENGA_TAKER_OF_BLOCK, .take = KeepBlock, .user = aside};
  bool lost;
  RengaCall(RengaCheckpointWriterBegin_Private(writer, count, tensors));
  RengaErrorCode code = RengaCommFindWriters_Private(writer->comm, &bringing.writer);
  if (!code) code = RengaHoldingsBring(&writer->holdings, writer->device, &bringing, &lost);
  code = RengaErrorAgree(writer->ranks, code);
  RengaFree(&bringing.writer);
  RengaCall(code);
  RengaHoldingsFree(&writer->holdings); /* it lent the list of tensors */
  return RENGA_SUCCESS;
}

RengaErrorCode RengaAsideBegin(RengaAside aside, RengaComm comm, RengaDevice device,
                               const char *path, int count, const RengaPersistent tensors[],
                               RengaCheckpointTable *table)
{
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaCall(RengaErrorAgree(ranks, EndBefore(aside)));
  aside->threads = 1;
  RengaErrorCode code = RengaStringCopy(path, &aside->path);
  if (!code && device) code = RengaDeviceGetThreads(device, &aside->threads);
  code = RengaErrorAgree(ranks, code);
  aside->table = *table;
  *table = (RengaCheckpointTable){0};
  aside->writer = (RengaCheckpointWriter){
      .comm = comm, .device = device, .path = aside->path, .table = &aside->table};
  aside->root = RengaCommGetRank(comm) == 0;
  aside->message[0] = '\0';
  aside->seconds = 0;
  if (!code) code = CopyAside(aside, count, tensors);
  if (code) ClearAside(aside, true);
  RengaCall(code);
  StartAside(aside, WriteAside);
  return RENGA_SUCCESS;
}

/* What the thread of this rank found. */
static RengaErrorCode CheckAside(RengaAside aside)
{
  RengaCall(JoinAside(aside));
  RengaCheck(!aside->message[0], MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s", aside->message);
  return RENGA_SUCCESS;
}

static RengaErrorCode CompleteAside(RengaAside aside)
{
  RengaCheckpointWriter *writer = &aside->writer;
  RengaCall(RengaErrorAgree(writer->ranks, CheckAside(aside)));
  RengaCall(RengaCheckpointWriterShareHashes_Private(writer));
  RengaCall(RengaErrorAgree(writer->ranks, aside->root ? RengaCheckpointWriterEnd_Private(writer)
                                                       : RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaAsidePublish(RengaAside aside, RengaCheckpointMarkKind mark,
                                 RengaCheckpointOld *old)
{
  aside->old = *old;
  *old = (RengaCheckpointOld){.count = 0};
  aside->table.mark = mark;
  const RengaErrorCode code = CompleteAside(aside);
  if (code) ClearAside(aside, true);
  RengaCall(code);
  if (aside->root) StartAside(aside, NameAside);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaAsideEnd(RengaAside aside)
{
  const RengaErrorCode code = RengaErrorAgree(aside->writer.ranks, CheckAside(aside));
  ClearAside(aside, code != RENGA_SUCCESS);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaAsideGiveUp(RengaAside aside)
{
  if (aside->path) ClearAside(aside, true);
}

void RengaAsideDestroy(RengaAside *aside)
{
  RengaAside gone = *aside;
  if (gone == NULL) return;
  *aside = NULL;
  if (JoinQuietly(gone)) return; /* its thread may still use it */
  RengaAsideGiveUp(gone);
  for (int i = 0; i < gone->n_pools; i++) RengaFree(&gone->pool[i].data);
  RengaFree(&gone->pool);
  RengaFree(&gone->block);
  RengaFree(&gone);
}
