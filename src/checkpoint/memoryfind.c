/* After a start: what the nodes that are here have of checkpoints in memory. All ranks learn of all
   fragments and choose alike; fragments are put together as a file in the directory of checkpoints,
   which is resumed from as any other, on any layout. */
#include "memory.h"
#include "renga/private/open.h"
#include "writer.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char find_what[] = "all ranks to look for checkpoints in memory";

typedef struct {
  RengaFragmentHead head;
  int node, by, slot;
} FoundFragment;

typedef struct {
  RengaNodesMemory memory;
  const char *directory;
  int64_t newest; /* the time of the newest file */
  int count;
  FoundFragment *fragment; /* [count] of all nodes; newest first, then by rank */
} FragmentSearch;

static RengaErrorCode AddFound(FragmentSearch *search, const FoundFragment *found)
{
  RengaCall(RengaRealloc(search->count + 1, &search->fragment));
  search->fragment[search->count++] = *found;
  return RENGA_SUCCESS;
}

/* Of this node, by its first rank. */
static RengaErrorCode ListFragments(FragmentSearch *search)
{
  const RengaNodesMemory memory = search->memory;
  const RengaNodePlace *own = &memory->place[RengaCommGetRank(memory->comm)];
  RengaErrorCode code = RENGA_SUCCESS;
  char path[4096];
  DIR *entries = own->local == 0 ? opendir(memory->folder) : NULL;
  for (struct dirent *entry; !code && entries && (entry = readdir(entries)) != NULL;) {
    FoundFragment found = {.node = own->node};
    int rank;
    snprintf(path, sizeof path, "%s/%s", memory->folder, entry->d_name);
    if (!RengaFragmentParseName(entry->d_name, &rank, &found.by, &found.slot)) continue;
    if (RengaFragmentHeadRead(path, &found.head) && found.head.token == memory->token &&
        found.head.rank == rank && rank < found.head.ranks)
      code = AddFound(search, &found);
  }
  if (entries) closedir(entries);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int CompareFragments(const void *a, const void *b)
{
  const FoundFragment *x = a, *y = b;
  const int64_t keys[][2] = {{y->head.time, x->head.time},
                             {y->head.step, x->head.step},
                             {x->head.rank, y->head.rank},
                             {x->node, y->node},
                             {x->by, y->by},
                             {x->slot, y->slot}};
  for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
    if (keys[k][0] != keys[k][1]) return keys[k][0] < keys[k][1] ? -1 : 1;
  return 0;
}

/* Each rank's list becomes that of all. */
static RengaErrorCode ShareFragments(FragmentSearch *search)
{
  RengaComm comm = search->memory->comm;
  const int size = RengaCommGetSize(comm);
  FoundFragment *mine = search->fragment, *all = NULL, *padded = NULL;
  int64_t most = search->count;
  RengaRequest request = NULL;
  RengaCall(RengaCommStartLargest(comm, 1, &most, &request));
  RengaCall(RengaCommWait(comm, &request, find_what));
  const size_t row = (size_t)most * sizeof *all;
  RengaErrorCode code = RengaMalloc(most + 1, &padded);
  if (!code) code = RengaMalloc(size * most + 1, &all);
  code = RengaErrorAgree(search->memory->ranks, code);
  if (!code && search->count) memcpy(padded, mine, (size_t)search->count * sizeof *mine);
  if (!code && most > 0) code = RengaCommGather(comm, padded, row, all, -1, find_what);
  RengaFree(&padded);
  if (code) RengaFree(&all);
  RengaCall(code);
  RengaFree(&search->fragment);
  search->fragment = all;
  search->count = 0;
  for (int64_t i = 0; i < size * most; i++)
    if (all[i].head.ranks > 0) all[search->count++] = all[i];
  if (search->count) qsort(all, (size_t)search->count, sizeof *all, CompareFragments);
  return RENGA_SUCCESS;
}

/* Fragments [first, last) are of one checkpoint; missing: ranks of which there is none. */
typedef struct {
  int first, last, missing;
} FragmentSet;

static FragmentSet SetFrom(const FragmentSearch *search, int first)
{
  const RengaFragmentHead *head = &search->fragment[first].head;
  FragmentSet set = {.first = first, .last = first, .missing = (int)head->ranks};
  int64_t before = -1;
  for (; set.last < search->count; set.last++) {
    const RengaFragmentHead *other = &search->fragment[set.last].head;
    if (other->time != head->time || other->step != head->step || other->run != head->run ||
        other->ranks != head->ranks)
      break;
    set.missing -= other->rank != before;
    before = other->rank;
  }
  return set;
}

/* Who copies a fragment: a rank of the node that has it. */
static int CopierOf(const struct _RengaNodesMemory *memory, const FoundFragment *fragment)
{
  const int size = RengaCommGetSize(memory->comm);
  for (int r = 0; r < size; r++) {
    const RengaNodePlace *place = &memory->place[r];
    if (place->node == fragment->node && place->local == fragment->head.rank % place->local_size)
      return r;
  }
  return 0;
}

static RengaErrorCode NameFound(const FragmentSearch *search, const FoundFragment *found,
                                RengaFragment *fragment)
{
  RengaCall(RengaFragmentCreate(search->memory->folder, (int)found->head.rank, found->by,
                                found->slot, fragment));
  return RENGA_SUCCESS;
}

typedef struct {
  FragmentSearch *search;
  FragmentSet set;
  char *path;
  RengaCheckpointTable *table; /* lent; filled on rank 0 */
  RengaCheckpointWriter writer;
  int64_t *there; /* [ranks of the set] fragments that are in the file */
} FragmentFile;

static RengaErrorCode CopyFragment(const FragmentFile *made, const FoundFragment *found, int file,
                                   bool *whole)
{
  RengaFragment name;
  int reason = 0;
  RengaErrorCode code = NameFound(made->search, found, &name);
  if (!code)
    code = RengaFragmentCopyOut(name.path, &found->head, made->writer.table, file, whole, &reason);
  RengaFragmentDestroy(&name, false);
  RengaCall(code);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", made->path,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

/* The fragments that are not in the file yet and that this rank copies: of each the copy with this
   number. there: what it wrote. */
static RengaErrorCode CopyFragments(const FragmentFile *made, int number, int file, int64_t there[])
{
  const FragmentSearch *search = made->search;
  const int rank = RengaCommGetRank(search->memory->comm);
  int copy = 0;
  for (int i = made->set.first; i < made->set.last; i++) {
    const FoundFragment *fragment = &search->fragment[i];
    const bool next = i == made->set.first || fragment[-1].head.rank != fragment->head.rank;
    bool whole = false;
    copy = next ? 0 : copy + 1;
    if (copy != number || made->there[fragment->head.rank] ||
        CopierOf(search->memory, fragment) != rank)
      continue;
    RengaCall(CopyFragment(made, fragment, file, &whole));
    there[fragment->head.rank] = whole;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyFragmentsTo(const FragmentFile *made, int number, int64_t there[])
{
  const int file = RengaFileDescriptor_Private(made->writer.temporary, O_WRONLY, 0);
  RengaCheck(file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", made->writer.temporary,
             RengaFileReason_Private(errno));
  RengaErrorCode code = CopyFragments(made, number, file, there);
  const int reason = fsync(file) == 0 || errno == EINVAL ? 0 : errno;
  close(file);
  RengaCall(code);
  RengaCheck(reason == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s: %s", made->writer.temporary,
             RengaFileReason_Private(reason));
  return RENGA_SUCCESS;
}

/* A copy of the table, from its node to all ranks. whole: it is as it was written. */
static RengaErrorCode ShareFragmentTable(FragmentFile *made, const FoundFragment *found,
                                         bool *whole)
{
  const RengaNodesMemory memory = made->search->memory;
  const int rank = RengaCommGetRank(memory->comm), reader = CopierOf(memory, found);
  int64_t told[2] = {0, 0}; /* whole, bytes */
  char *bytes = NULL;
  RengaFragment name = {.file = -1};
  RengaErrorCode code = rank == reader ? NameFound(made->search, found, &name) : RENGA_SUCCESS;
  if (!code && rank == reader)
    code = RengaFragmentReadTable(name.path, &found->head, &bytes, &told[1], whole);
  RengaFragmentDestroy(&name, false);
  code = RengaErrorAgree(memory->ranks, code);
  told[0] = *whole;
  if (!code) code = RengaCommBroadcast(memory->comm, told, sizeof told, reader, find_what);
  *whole = told[0] != 0;
  if (!code && *whole && rank != reader) code = RengaMalloc(told[1] + 1, &bytes);
  code = RengaErrorAgree(memory->ranks, code);
  if (!code && *whole)
    code = RengaCommBroadcast(memory->comm, bytes, (size_t)told[1], reader, find_what);
  if (!code && *whole && rank == 0) code = RengaCheckpointTableUnpack(bytes, told[1], made->table);
  RengaFree(&bytes);
  RengaCall(RengaErrorAgree(memory->ranks, code));
  return RENGA_SUCCESS;
}

/* That of the first fragment of rank 0 which is whole. */
static RengaErrorCode FindFragmentTable(FragmentFile *made, bool *whole)
{
  const FragmentSearch *search = made->search;
  const RengaFragmentHead *head = &search->fragment[made->set.first].head;
  *whole = false;
  for (int i = made->set.first; i < made->set.last && !*whole; i++)
    if (search->fragment[i].head.rank == 0)
      RengaCall(ShareFragmentTable(made, &search->fragment[i], whole));
  made->table->time = head->time;
  made->table->run = head->run;
  return RENGA_SUCCESS;
}

/* Copies that are damaged give way to the next ones. whole: all fragments are in the file. */
static RengaErrorCode FillFile(FragmentFile *made, bool *whole)
{
  const RengaNodesMemory memory = made->search->memory;
  const int64_t ranks = made->search->fragment[made->set.first].head.ranks;
  int64_t *more = NULL, left = ranks;
  RengaErrorCode code = RengaErrorAgree(memory->ranks, RengaMalloc(ranks, &more));
  for (int number = 0; number < made->set.last - made->set.first && left > 0 && !code; number++) {
    memset(more, 0, (size_t)ranks * sizeof *more);
    code = RengaErrorAgree(memory->ranks, CopyFragmentsTo(made, number, more));
    if (!code) code = RengaCommSumInt64(memory->comm, ranks, more, find_what);
    left = ranks;
    for (int64_t r = 0; r < ranks && !code; r++) {
      made->there[r] += more[r];
      left -= made->there[r] > 0;
    }
  }
  RengaFree(&more);
  RengaCall(code);
  *whole = left == 0;
  return RENGA_SUCCESS;
}

/* Rank 0. */
static RengaErrorCode NameWholeFile(FragmentFile *made)
{
  char message[RENGA_CHECKPOINT_MESSAGE] = "";
  RengaCall(RengaCheckpointWriterEnd_Private(&made->writer));
  RengaCheck(RengaCheckpointWriterName_Private(&made->writer, message), MPI_COMM_SELF,
             RENGA_ERR_FILE_WRITE, "%s", message);
  return RENGA_SUCCESS;
}

static RengaErrorCode NameFragmentFile(FragmentFile *made)
{
  const RengaFragmentHead *head = &made->search->fragment[made->set.first].head;
  RengaCall(RengaCheckpointDirectoryPath(made->search->directory, head->step, &made->path));
  RengaCall(RengaMalloc(head->ranks, &made->there));
  memset(made->there, 0, (size_t)head->ranks * sizeof *made->there);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeFragmentFile(FragmentFile *made, bool *whole)
{
  const RengaNodesMemory memory = made->search->memory;
  const bool root = RengaCommGetRank(memory->comm) == 0;
  RengaCall(RengaErrorAgree(memory->ranks, NameFragmentFile(made)));
  RengaCall(FindFragmentTable(made, whole));
  if (!*whole) return RENGA_SUCCESS;
  made->writer = (RengaCheckpointWriter){
      .comm = memory->comm, .path = made->path, .reserve = true, .table = made->table};
  RengaCall(RengaCheckpointWriterBeginTable_Private(&made->writer));
  RengaCall(FillFile(made, whole));
  if (!*whole) return RENGA_SUCCESS;
  RengaCall(RengaCheckpointWriterShareHashes_Private(&made->writer));
  RengaCall(RengaErrorAgree(memory->ranks, root ? NameWholeFile(made) : RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

static RengaErrorCode TrySet(FragmentSearch *search, FragmentSet set, bool *whole)
{
  RengaCheckpointTable table = {0};
  FragmentFile made = {.search = search, .set = set, .table = &table};
  *whole = false;
  const RengaErrorCode code = MakeFragmentFile(&made, whole);
  if (made.writer.comm) RengaCheckpointWriterFree_Private(&made.writer, code || !*whole);
  RengaCheckpointTableFree(&table);
  RengaFree(&made.path);
  RengaFree(&made.there);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void WarnOfSet(const FragmentSearch *search, FragmentSet set)
{
  const RengaFragmentHead *head = &search->fragment[set.first].head;
  if (set.missing)
    RengaWarning(
        search->memory->ranks,
        "the checkpoint of step %lld in the memory of the nodes is not whole: the fragments "
        "of %d of %lld ranks are lost; an older one is used",
        (long long)head->step, set.missing, (long long)head->ranks);
  else
    RengaWarning(search->memory->ranks,
                 "the checkpoint of step %lld in the memory of the nodes is damaged; an older one "
                 "is used",
                 (long long)head->step);
}

static RengaErrorCode TrySets(FragmentSearch *search, int64_t *step)
{
  bool whole = false;
  for (int i = 0; i < search->count && !whole;) {
    const FragmentSet set = SetFrom(search, i);
    const RengaFragmentHead *head = &search->fragment[i].head;
    if (head->time <= search->newest) break; /* files are newer */
    if (!set.missing) RengaCall(TrySet(search, set, &whole));
    if (whole) *step = head->step;
    if (!whole && set.missing < head->ranks && i == 0) WarnOfSet(search, set);
    i = set.last;
  }
  return RENGA_SUCCESS;
}

/* What an earlier run has left on this node. */
static void ClearNode(const struct _RengaNodesMemory *memory)
{
  char path[4096];
  int rank, by, slot;
  DIR *entries = opendir(memory->folder);
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
    if (!RengaFragmentParseName(entry->d_name, &rank, &by, &slot)) continue;
    snprintf(path, sizeof path, "%s/%s", memory->folder, entry->d_name);
    unlink(path);
  }
  if (entries) closedir(entries);
}

RengaErrorCode RengaNodesMemoryRecover(RengaNodesMemory memory, const char *directory,
                                       int64_t newest, int64_t *step)
{
  FragmentSearch search = {.memory = memory, .directory = directory, .newest = newest};
  *step = -1;
  RengaErrorCode code = RengaErrorAgree(memory->ranks, ListFragments(&search));
  if (!code) code = ShareFragments(&search);
  if (!code)
    code = RengaCommBroadcast(memory->comm, &search.newest, sizeof search.newest, 0, find_what);
  if (!code) code = TrySets(&search, step);
  if (!code && memory->was_there && search.count == 0)
    RengaWarning(memory->ranks,
                 "the memory of the nodes holds no checkpoint: the newest file of %s is used",
                 directory);
  RengaFree(&search.fragment);
  RengaCall(code);
  if (memory->place[RengaCommGetRank(memory->comm)].local == 0) ClearNode(memory);
  memory->cleared = true;
  RengaCall(RengaErrorAgree(memory->ranks, RENGA_SUCCESS)); /* before any of them makes files */
  return RENGA_SUCCESS;
}
