/* Fragments of a checkpoint in the memory of nodes. Blocks of tensors go to the ranks that would
   write them to a file, and rank 0 has the table of names, shapes and attributes, from which the
   file is laid out once it is needed: that takes longer than all the rest where tensors are small.

   Each fragment has two slots. A save wipes out the head of the older one, once all ranks agree
   that the save before is complete, and writes the head last; so each rank has the last or the one
   before whole, and all have one in common. The fragments of a rank lie in files of its node's
   memory, which no process holds, and a copy in that of the next node. A token in the folder of
   checkpoints (.renga_memory) tells its fragments from those of a folder that was removed and made
   anew. */
#include "memory.h"
#include "renga/private/object.h"
#include "renga/private/open.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FRAGMENT_TAG = 32765, TMPFS = 0x01021994 };
static const char token_name[] = "%s/.renga_memory"; /* of a folder of checkpoints */
static const char token_line[] = "Renga checkpoint memory %016llx\n";
static const char fragment_what[] = "all ranks to keep a checkpoint in memory";

bool RengaNodesMemoryIsLeft(const char *directory)
{
  char path[4096];
  return snprintf(path, sizeof path, token_name, directory) < (int)sizeof path &&
         access(path, F_OK) == 0;
}

/* Rank 0: the directory's token, which is made where there is none. */
static RengaErrorCode FindMemoryToken(RengaNodesMemory memory, const char *directory)
{
  const size_t room = strlen(directory) + 32;
  unsigned long long token = 0;
  RengaCall(RengaMalloc(room, &memory->token_file));
  const char *path = memory->token_file;
  snprintf(memory->token_file, room, token_name, directory);
  FILE *file = RengaFileOpen_Private(path, "r");
  memory->was_there = file && fscanf(file, token_line, &token) == 1;
  if (file) fclose(file);
  if (!memory->was_there && getrandom(&token, sizeof token, 0) != (ssize_t)sizeof token) token = 0;
  memory->token = token;
  if (memory->was_there) return RENGA_SUCCESS;
  file = RengaFileOpen_Private(path, "w");
  bool good = file && fprintf(file, token_line, token) > 0;
  if (file && fclose(file) != 0) good = false;
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", path,
             RengaFileReason_Private(errno));
  return RENGA_SUCCESS;
}

/* Names of nodes' folders are as long-lived as the directory's: a run that begins anew there finds
   what an earlier one left, and clears it. */
static uint64_t HashDirectory(const char *directory)
{
  char *real = realpath(directory, NULL);
  const char *name = real ? real : directory;
  const uint64_t hash = RengaHash(name, strlen(name), 0);
  free(real);
  return hash;
}

static RengaErrorCode NameNodeFolder(RengaNodesMemory memory, const char *parent, uint64_t hash)
{
  const size_t room = strlen(parent) + 64;
  RengaCall(RengaMalloc(room, &memory->folder));
  snprintf(memory->folder, room, "%s/renga-%ld-%016llx", parent, (long)geteuid(),
           (unsigned long long)hash);
  return RENGA_SUCCESS;
}

/* Where it is not there. Systems remove all that a user has in /dev/shm once the user's last
   session ends (RemoveIPC, logind.conf(5)), also where runs go on. */
static RengaErrorCode MakeNodeFolder(RengaNodesMemory memory)
{
  struct stat about;
  const int reason = mkdir(memory->folder, 0700) == 0 || errno == EEXIST ? 0 : errno;
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-checkpoint_memory: %s cannot be made: %s; -checkpoint_memory_dir names a folder of "
             "each node's own memory",
             memory->folder, RengaFileReason_Private(reason));
  RengaCheck(lstat(memory->folder, &about) == 0 && S_ISDIR(about.st_mode) &&
                 about.st_uid == geteuid(),
             MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-checkpoint_memory: %s is there and is no folder of this user", memory->folder);
  return RENGA_SUCCESS;
}

/* The same path may be another folder for a run in another container, or on another node. */
static RengaErrorCode CheckNodeFolderIsFree(const struct _RengaNodesMemory *memory)
{
  char path[4096];
  bool taken = false;
  int rank, by, slot;
  DIR *entries = opendir(memory->folder);
  for (struct dirent *entry; !taken && entries && (entry = readdir(entries)) != NULL;) {
    if (!RengaFragmentParseName(entry->d_name, &rank, &by, &slot)) continue;
    snprintf(path, sizeof path, "%s/%s", memory->folder, entry->d_name);
    taken = RengaFragmentIsTaken(path, memory->token);
  }
  if (entries) closedir(entries);
  RengaCheck(!taken, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE,
             "-checkpoint_memory: %s is used by another run, whose folder of checkpoints has the "
             "same name: -checkpoint_memory_dir names another folder of each node's own memory",
             memory->folder);
  return RENGA_SUCCESS;
}

static int FindRankAt(const struct _RengaNodesMemory *memory, int node, int local)
{
  const int size = RengaCommGetSize(memory->comm);
  for (int r = 0; r < size; r++)
    if (memory->place[r].node == node && memory->place[r].local == local) return r;
  return -1;
}

/* The rank of the next node that has the copy of a rank's fragment. */
static int FindKeeper(const struct _RengaNodesMemory *memory, int rank)
{
  const RengaNodePlace *own = &memory->place[rank];
  const int next = (own->node + 1) % memory->nodes, first = FindRankAt(memory, next, 0);
  if (next == own->node) return -1;
  return FindRankAt(memory, next, own->local % memory->place[first].local_size);
}

static RengaErrorCode FindNeighbours(RengaNodesMemory memory)
{
  const int size = RengaCommGetSize(memory->comm), rank = RengaCommGetRank(memory->comm);
  RengaCall(RengaMalloc(size, &memory->from));
  memory->to = FindKeeper(memory, rank);
  for (int r = 0; r < size && memory->nodes > 1; r++)
    if (FindKeeper(memory, r) == rank) memory->from[memory->n_from++] = r;
  RengaCall(RengaMalloc(size, &memory->heads));
  RengaCall(RengaMalloc(memory->n_from + 1, &memory->request));
  RengaCall(RengaMalloc(2 * memory->n_from + 1, &memory->copy));
  for (int s = 0; s < 2; s++) {
    RengaCall(RengaFragmentCreate(memory->folder, rank, rank, s, &memory->own[s]));
    memory->own[s].token = memory->token;
    for (int i = 0; i < memory->n_from; i++) {
      RengaFragment *copy = &memory->copy[2 * i + s];
      RengaCall(RengaFragmentCreate(memory->folder, memory->from[i], rank, s, copy));
      copy->token = memory->token;
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindPlaces(RengaNodesMemory memory)
{
  RengaNodePlace mine;
  RengaCall(
      RengaCommGetNode(memory->comm, &mine.node, &memory->nodes, &mine.local, &mine.local_size));
  RengaCall(RengaCommGather(memory->comm, &mine, sizeof mine, memory->place, -1, fragment_what));
  return RENGA_SUCCESS;
}

static RengaErrorCode FillMemory(RengaNodesMemory memory, const char *parent, const char *directory)
{
  struct {
    uint64_t token, hash;
    bool was_there;
  } told = {.token = 0};
  const bool root = RengaCommGetRank(memory->comm) == 0;
  RengaErrorCode code = RengaMalloc(RengaCommGetSize(memory->comm), &memory->place);
  if (!code && root) code = FindMemoryToken(memory, directory);
  RengaCall(RengaErrorAgree(memory->ranks, code));
  if (root) {
    told.token = memory->token;
    told.was_there = memory->was_there;
    told.hash = HashDirectory(directory);
  }
  RengaCall(RengaCommBroadcast(memory->comm, &told, sizeof told, 0, fragment_what));
  memory->token = told.token;
  memory->was_there = told.was_there;
  RengaCall(FindPlaces(memory));
  code = NameNodeFolder(memory, parent, told.hash);
  if (!code) code = MakeNodeFolder(memory);
  if (!code && memory->place[RengaCommGetRank(memory->comm)].local == 0)
    code = CheckNodeFolderIsFree(memory);
  if (!code) code = FindNeighbours(memory);
  RengaCall(RengaErrorAgree(memory->ranks, code));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaNodesMemoryCreate(RengaComm comm, const char *parent, const char *directory,
                                      RengaNodesMemory *memory)
{
  RengaNodesMemory made;
  MPI_Comm ranks;
  RengaCall(RengaObjectGetComm(comm, &ranks));
  RengaErrorCode code = RengaMalloc(1, &made);
  RengaCall(RengaErrorAgree(ranks, code));
  *made =
      (struct _RengaNodesMemory){.comm = comm, .ranks = ranks, .to = -1, .step = -1, .before = -1};
  code = FillMemory(made, parent, directory);
  if (code) RengaNodesMemoryDestroy(&made, false);
  RengaCall(code);
  *memory = made;
  return RENGA_SUCCESS;
}

/* What of the node's memory is free: of the folder's file system, and where that is memory of all
   that is. */
static int64_t FreeBytes(const char *folder)
{
  struct statvfs space;
  struct statfs kind;
  char line[128];
  long long kib;
  if (statvfs(folder, &space) != 0) return INT64_MAX;
  int64_t bytes = (int64_t)space.f_bavail * (int64_t)space.f_frsize;
  if (statfs(folder, &kind) != 0 || kind.f_type != TMPFS) return bytes;
  if (space.f_blocks == 0) bytes = INT64_MAX; /* without a limit of its own */
  FILE *file = RengaFileOpen_Private("/proc/meminfo", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1 && kib * 1024 < bytes) bytes = kib * 1024;
  if (file) fclose(file);
  return bytes;
}

typedef struct {
  int64_t fragment, free; /* bytes of a file of this rank's fragment, and free of its node */
  int64_t needed;         /* all that the rank takes; 0 before it is found */
  char host[64];
} RoomOfRank;

/* Two files of a rank's own fragment, and of each that it has copies of. */
static void FindRoomNeeded(const struct _RengaNodesMemory *memory, RoomOfRank all[])
{
  const int size = RengaCommGetSize(memory->comm);
  for (int r = 0; r < size; r++) {
    const int keeper = memory->nodes > 1 ? FindKeeper(memory, r) : -1;
    all[r].needed += 2 * all[r].fragment;
    if (keeper >= 0) all[keeper].needed += 2 * all[r].fragment;
  }
}

/* The same on all ranks. */
static RengaErrorCode CheckRoomOfNodes(RengaNodesMemory memory, const RoomOfRank all[])
{
  const int size = RengaCommGetSize(memory->comm);
  char needed[16], there[16];
  for (int n = 0; n < memory->nodes; n++) {
    const int first = FindRankAt(memory, n, 0);
    int64_t bytes = 0;
    for (int r = 0; r < size; r++)
      if (memory->place[r].node == n) bytes += all[r].needed;
    RengaFormatBytes((double)bytes, sizeof needed, needed);
    RengaFormatBytes((double)all[first].free, sizeof there, there);
    RengaCheck(bytes <= all[first].free, memory->ranks, RENGA_ERR_MEMORY,
               "-checkpoint_memory needs %s in %s of node %d (%s), which has room for %s: free "
               "some there, use more nodes, or name another folder of the nodes' own "
               "(-checkpoint_memory_dir)",
               needed, memory->folder, n, all[first].host, there);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReserveFragment(RengaFragment *fragment, int64_t bytes)
{
  int reason = RengaFragmentReserve(fragment, bytes);
  if (!reason) reason = RengaFragmentBegin(fragment);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_MEMORY, "-checkpoint_memory: %s: %s",
             fragment->path, RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReserveFragments(RengaNodesMemory memory, const RoomOfRank all[])
{
  for (int s = 0; s < 2; s++) {
    RengaCall(ReserveFragment(&memory->own[s], all[RengaCommGetRank(memory->comm)].fragment));
    for (int i = 0; i < memory->n_from; i++)
      RengaCall(ReserveFragment(&memory->copy[2 * i + s], all[memory->from[i]].fragment));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaNodesMemoryReserve(RengaNodesMemory memory, int64_t bytes, int64_t *all)
{
  enum { ROWS = 1 << 16, REST = 1 << 20 }; /* beside tensors; on rank 0 */
  const int rank = RengaCommGetRank(memory->comm);
  RoomOfRank mine = {.fragment = bytes + bytes / 1024 + ROWS + (rank == 0 ? REST : 0),
                     .free = FreeBytes(memory->folder)};
  RoomOfRank *rooms = NULL;
  gethostname(mine.host, sizeof mine.host - 1);
  RengaErrorCode code =
      RengaErrorAgree(memory->ranks, RengaMalloc(RengaCommGetSize(memory->comm), &rooms));
  if (!code) code = RengaCommGather(memory->comm, &mine, sizeof mine, rooms, -1, fragment_what);
  if (!code) FindRoomNeeded(memory, rooms);
  if (!code) code = CheckRoomOfNodes(memory, rooms);
  if (!code) code = RengaErrorAgree(memory->ranks, ReserveFragments(memory, rooms));
  if (!code) *all = rooms[rank].needed;
  RengaFree(&rooms);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeFragmentBlock(void *user, int tensor, int64_t first, int64_t bytes,
                                        const void *data)
{
  const RengaFragmentBlock block = {.tensor = tensor, .first = first, .bytes = bytes};
  RengaCall(RengaFragmentAdd(user, &block, data));
  return RENGA_SUCCESS;
}

/* Rank 0. */
static RengaErrorCode AddTable(RengaFragment *fragment, const RengaHoldings *holdings,
                               RengaCheckpointTable *table)
{
  RengaFragmentBlock block = {.tensor = RENGA_FRAGMENT_TABLE};
  char *bytes;
  RengaCall(RengaCheckpointTableAddHoldings(table, holdings));
  RengaCall(RengaCheckpointTablePack(table, &bytes, &block.bytes));
  const RengaErrorCode code = RengaFragmentAdd(fragment, &block, bytes);
  RengaFree(&bytes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginFragment(RengaFragment *fragment)
{
  const int reason = RengaFragmentBegin(fragment);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", fragment->path,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

/* run and time: on rank 0. */
static RengaErrorCode BeginOwn(RengaNodesMemory memory, const RengaCheckpointTable *table)
{
  RengaFragment *own = &memory->own[memory->slot];
  RengaCall(MakeNodeFolder(memory));
  RengaCall(BeginFragment(own));
  own->head.token = memory->token;
  own->head.run = table->run;
  own->head.step = table->step;
  own->head.time = table->time;
  own->head.ranks = RengaCommGetSize(memory->comm);
  own->head.rank = RengaCommGetRank(memory->comm);
  return RENGA_SUCCESS;
}

/* Where it fails on a rank the others bring their tensors together all the same. */
static RengaErrorCode FillOwn(RengaNodesMemory memory, RengaDevice device,
                              const RengaHoldings *holdings, RengaCheckpointTable *table)
{
  RengaFragment *own = &memory->own[memory->slot];
  const RengaBringing bringing = {
      .taker = RENGA_TAKER_OF_BLOCK, .take = TakeFragmentBlock, .user = own};
  bool lost;
  RengaErrorCode code = BeginOwn(memory, table);
  RengaKeepFirst_Private(&code, RengaHoldingsBring(holdings, device, &bringing, &lost));
  if (!code && RengaCommGetRank(memory->comm) == 0) code = AddTable(own, holdings, table);
  if (!code) code = RengaFragmentEnd(own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* That all ranks know what the others hold is the proof that they have ended the checkpoint before:
   the slot that is wiped out then is not needed any more. */
static RengaErrorCode MakeOwnFragment(RengaNodesMemory memory, RengaDevice device, int count,
                                      const RengaPersistent tensors[], RengaCheckpointTable *table)
{
  RengaHoldings holdings;
  RengaCall(RengaHoldingsCreate(memory->comm, count, tensors, NULL, &holdings));
  const RengaErrorCode code =
      RengaErrorAgree(memory->ranks, FillOwn(memory, device, &holdings, table));
  RengaHoldingsFree(&holdings);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Those of all ranks, with what rank 0 knows. */
static RengaErrorCode ShareFragmentHeads(RengaNodesMemory memory)
{
  RengaFragmentHead *own = &memory->own[memory->slot].head, *heads = memory->heads;
  RengaCall(RengaCommGather(memory->comm, own, sizeof *own, heads, -1, fragment_what));
  for (int r = RengaCommGetSize(memory->comm) - 1; r >= 0; r--) {
    heads[r].run = heads[0].run;
    heads[r].time = heads[0].time;
  }
  *own = heads[RengaCommGetRank(memory->comm)];
  return RENGA_SUCCESS;
}

/* Room for the copies that come. */
static RengaErrorCode PrepareCopies(RengaNodesMemory memory)
{
  for (int i = 0; i < memory->n_from; i++) {
    RengaFragment *copy = &memory->copy[2 * i + memory->slot];
    RengaCall(BeginFragment(copy));
    copy->head = memory->heads[memory->from[i]];
    const int reason = RengaFragmentReserve(copy, RengaFragmentBytes(&copy->head));
    RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", copy->path,
               RengaFileReason_Private(reason));
  }
  return RENGA_SUCCESS;
}

static size_t BytesOfCopy(const RengaFragment *fragment)
{
  return (size_t)(RengaFragmentBytes(&fragment->head) - RENGA_FRAGMENT_HEAD);
}

/* Ranks that own nothing send nothing. */
static RengaErrorCode StartCopies(RengaNodesMemory memory, RengaRequest request[])
{
  const RengaFragment *own = &memory->own[memory->slot];
  for (int i = 0; i < memory->n_from; i++) {
    RengaFragment *copy = &memory->copy[2 * i + memory->slot];
    if (BytesOfCopy(copy) == 0) continue;
    RengaCall(RengaCommReceive(memory->comm, copy->at + RENGA_FRAGMENT_HEAD, BytesOfCopy(copy),
                               memory->from[i], FRAGMENT_TAG, &request[i]));
  }
  if (memory->to >= 0 && BytesOfCopy(own) > 0)
    RengaCall(RengaCommSend(memory->comm, own->at + RENGA_FRAGMENT_HEAD, BytesOfCopy(own),
                            memory->to, FRAGMENT_TAG, &request[memory->n_from]));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyToNeighbours(RengaNodesMemory memory)
{
  static const char what[] = "a copy of a checkpoint's fragment on another node";
  RengaRequest *request = memory->request;
  if (memory->nodes == 1) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(memory->ranks, PrepareCopies(memory)));
  memset(request, 0, (size_t)(memory->n_from + 1) * sizeof *request);
  RengaErrorCode code = StartCopies(memory, request);
  for (int i = 0; i <= memory->n_from; i++)
    if (request[i]) RengaKeepFirst_Private(&code, RengaCommWait(memory->comm, &request[i], what));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CommitFragments(RengaNodesMemory memory)
{
  int reason = RengaFragmentCommit(&memory->own[memory->slot]);
  for (int i = 0; i < memory->n_from && !reason; i++)
    reason = RengaFragmentCommit(&memory->copy[2 * i + memory->slot]);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", memory->folder,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaNodesMemorySave(RengaNodesMemory memory, RengaDevice device, int count,
                                    const RengaPersistent tensors[], RengaCheckpointTable *table)
{
  RengaCall(MakeOwnFragment(memory, device, count, tensors, table));
  RengaCall(ShareFragmentHeads(memory));
  RengaCall(CopyToNeighbours(memory));
  RengaCall(RengaErrorAgree(memory->ranks, CommitFragments(memory)));
  memory->before = memory->step;
  memory->step = memory->own[memory->slot].head.step;
  memory->slot = 1 - memory->slot;
  return RENGA_SUCCESS;
}

void RengaNodesMemoryForget(RengaNodesMemory memory, int64_t step)
{
  if (memory->step != step) return;
  const int slot = 1 - memory->slot;
  RengaFragmentBegin(&memory->own[slot]);
  for (int i = 0; i < memory->n_from; i++) RengaFragmentBegin(&memory->copy[2 * i + slot]);
  memory->slot = slot;
  memory->step = memory->before;
  memory->before = -1;
}

void RengaNodesMemoryDestroy(RengaNodesMemory *memory, bool keeps)
{
  RengaNodesMemory gone = *memory;
  if (!gone) return;
  keeps = keeps || (gone->was_there && !gone->cleared);
  for (int s = 0; s < 2; s++) RengaFragmentDestroy(&gone->own[s], !keeps);
  for (int i = 0; i < 2 * gone->n_from && gone->copy; i++)
    RengaFragmentDestroy(&gone->copy[i], !keeps);
  if (!keeps && gone->folder) rmdir(gone->folder); /* the last rank of the node can */
  if (!keeps && gone->token_file) unlink(gone->token_file);
  RengaFree(&gone->token_file);
  RengaFree(&gone->folder);
  RengaFree(&gone->place);
  RengaFree(&gone->from);
  RengaFree(&gone->copy);
  RengaFree(&gone->heads);
  RengaFree(&gone->request);
  RengaFree(memory);
}
