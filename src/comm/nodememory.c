/* Comm: memory that the ranks of a node share, in which sums show each other their pieces and
   blocks: a file in memory of the node's first rank, which the others open by way of /proc. Where
   any rank of the comm cannot have it, none has, and all is messages.

   Each rank has a box for each of a few sums at once. Ranks count, for ever, for how many rounds
   they have shown something in it and taken what they need of the others': so a sum finds a box as
   the last one left it. */
#include "nodememory.h"
#include "renga/private/image.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  LEAST_HALF = 2048 * 1024, /* bytes that a rank shows in a round; */
  HALF_OF_RANK = 16 * 1024  /* for each rank of the comm, where that is more */
};

/* What a rank tells the others of its node. */
typedef struct {
  long process;
  int file;              /* its descriptor there, or -1 */
  int64_t device, inode; /* by which the file is known, whatever the process is called elsewhere */
  size_t length, inside; /* bytes, and where in them its memory begins */
} NodeFile;

static int MakeFile(size_t bytes)
{
  if (!RengaImageMayHold((int64_t)bytes)) return -1;
  const int file = memfd_create("renga", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

static NodeFile TellFile(int file)
{
  struct stat about;
  if (file < 0 || fstat(file, &about)) return (NodeFile){.file = -1};
  return (NodeFile){.process = getpid(),
                    .file = file,
                    .device = (int64_t)about.st_dev,
                    .inode = (int64_t)about.st_ino};
}

/* In a container of its own a process has another number, and somebody else has its own. */
static int OpenFile(const NodeFile *of)
{
  char path[64];
  if (of->file < 0) return -1;
  snprintf(path, sizeof path, "/proc/%ld/fd/%d", of->process, of->file);
  const int file = RengaFileDescriptor_Private(path, O_RDWR | O_CLOEXEC, 0);
  const NodeFile found = TellFile(file);
  if (found.file >= 0 && found.device == of->device && found.inode == of->inode) return file;
  if (file >= 0) close(file);
  return -1;
}

/* NULL: it cannot be had. */
static char *MapFile(int file, size_t bytes)
{
  if (file < 0) return NULL;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  return at == MAP_FAILED ? NULL : at;
}

static RengaErrorCode ShareFile(RengaComm comm, RengaNodeMemory memory, NodeFile all[])
{
  NodeFile mine = {.file = -1};
  int64_t lacks;
  if (comm->local_rank == 0) mine = TellFile(MakeFile(memory->bytes));
  RengaErrorCode code =
      RengaCommGather(comm, &mine, sizeof mine, all, -1, "all ranks to share memory");
  int file = mine.file;
  if (!code && comm->local_rank > 0)
    file = OpenFile(&all[comm->by_node[comm->node_begin[comm->node]]]);
  memory->at = MapFile(file, memory->bytes);
  lacks = !memory->at;
  if (!code)
    code = RengaReduceInt64_Private(comm->hdr.comm, MPI_MAX, &lacks, "all ranks to share memory");
  if (file >= 0) close(file); /* mapped memory stays */
  RengaCall(code);
  memory->works = !lacks;
  return RENGA_SUCCESS;
}

static size_t HalfOf(int ranks)
{
  const size_t half = (size_t)ranks * HALF_OF_RANK;
  return half < LEAST_HALF ? LEAST_HALF : half;
}

/*@
   RengaCommSumMemory - how much of its node's memory a rank has for sums at most

   Input:
   . ranks - the number of ranks of the comm in which the sums are, at least 1; the rank has others
     of it on its node

   Errors: none; 0 for less than two ranks.

   Notes: memory of the host that the ranks of a node share, beside what a sum's task is given: as
   much as two sums at once use where their vectors are as large. Ranks alone on their node have
   none.

   See also: RengaCommGetSumMemory()
@*/
int64_t RengaCommSumMemory(int ranks)
{
  const struct _RengaNodeMemory memory = {.half = HalfOf(ranks)};
  return ranks > 1 ? NODE_SUMS * (int64_t)RengaNodeBoxBytes(&memory) : 0;
}

/*@
   RengaCommGetSumMemory - how much of its node's memory a rank has used for sums

   Output:
   . bytes - the most bytes of sums of comm and of all groups made of it so far, at least 0

   See also: RengaCommSumMemory()
@*/
RengaErrorCode RengaCommGetSumMemory(RengaComm comm, int64_t *bytes)
{
  RengaCheckPointers(comm, bytes);
  *bytes = comm->sums->shared_bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaNodeMemoryCreate(RengaComm comm)
{
  NodeFile *all = NULL;
  RengaNodeMemory memory = NULL;
  if (comm->nodes == comm->size) return RENGA_SUCCESS;
  RengaErrorCode code = RengaMalloc(1, &memory);
  if (!code) code = RengaMalloc(comm->size, &all);
  code = RengaErrorAgree(comm->hdr.comm, code);
  if (!code) {
    memory->half = HalfOf(comm->size);
    memory->bytes = (size_t)comm->local_size * NODE_SUMS * RengaNodeBoxBytes(memory);
    code = ShareFile(comm, memory, all);
  }
  RengaFree(&all);
  if (code || !memory->works) RengaNodeMemoryDestroy(&memory);
  RengaCall(code);
  comm->shared = memory;
  return RENGA_SUCCESS;
}

void RengaNodeMemoryDestroy(RengaNodeMemory *memory)
{
  if (*memory && (*memory)->at) munmap((*memory)->at, (*memory)->bytes);
  RengaFree(memory);
}

/* Pages of this rank's memory give way to those of the file, or of nobody's where file is -1, with
   what they hold, which copy takes meanwhile. UCX stands before mremap, and loses an argument. */
static RengaErrorCode ReplacePages(RengaCommShared shared, int file, char *copy)
{
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  memcpy(copy, shared->pages, shared->length);
  void *at = mmap(shared->pages, shared->length, PROT_READ | PROT_WRITE,
                  kind | MAP_FIXED | MAP_NORESERVE, file, 0);
  RengaCheck(at != MAP_FAILED, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%zu bytes of vectors cannot be shared with the ranks of this node", shared->length);
  if (file < 0) memcpy(shared->pages, copy, shared->length);
  return RENGA_SUCCESS;
}

static bool MapOthers(RengaCommShared shared, const NodeFile all[])
{
  const struct _p_RengaComm *comm = shared->comm;
  bool all_there = true;
  for (int q = 0; q < comm->local_size; q++) {
    const NodeFile *of = &all[comm->by_node[comm->node_begin[comm->node] + q]];
    NodeView *view = &shared->view[q];
    if (q == comm->local_rank) continue;
    const int file = OpenFile(of);
    view->length = of->length;
    view->pages = MapFile(file, of->length);
    if (view->pages) view->memory = view->pages + of->inside;
    if (file >= 0) close(file);
    all_there = all_there && view->pages;
  }
  return all_there;
}

static RengaErrorCode ExchangePages(RengaCommShared shared, NodeFile all[])
{
  RengaComm comm = shared->comm;
  NodeFile mine = TellFile(MakeFile(shared->length));
  mine.length = shared->length;
  mine.inside = (size_t)(shared->memory - shared->pages);
  char *pages = MapFile(mine.file, shared->length);
  RengaErrorCode code =
      RengaCommGather(comm, &mine, sizeof mine, all, -1, "all ranks to share vectors");
  int64_t lacks = code || !pages || !MapOthers(shared, all);
  if (!code)
    code = RengaReduceInt64_Private(comm->hdr.comm, MPI_MAX, &lacks, "all ranks to share vectors");
  if (!code && !lacks && pages)
    code = RengaErrorAgree(comm->hdr.comm, ReplacePages(shared, mine.file, pages));
  shared->works = !lacks;
  if (pages) munmap(pages, shared->length);
  if (mine.file >= 0) close(mine.file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void FreeShared(RengaCommShared *shared)
{
  for (int q = 0; (*shared)->view && q < (*shared)->comm->local_size; q++)
    if ((*shared)->view[q].pages) munmap((*shared)->view[q].pages, (*shared)->view[q].length);
  RengaFree(&(*shared)->view);
  RengaFree(shared);
}

static RengaErrorCode MakeShared(RengaComm comm, char *memory, size_t bytes,
                                 RengaCommShared *shared, NodeFile **all)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (size_t)memory % page;
  RengaCheck(memory && bytes > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "no memory to share");
  RengaCall(RengaMalloc(1, shared));
  **shared = (struct _RengaCommShared){.comm = comm,
                                       .memory = memory,
                                       .bytes = bytes,
                                       .pages = memory - before,
                                       .length = (before + bytes + page - 1) / page * page};
  RengaCall(RengaMalloc(comm->local_size, &(*shared)->view));
  RengaCall(RengaMalloc(comm->size, all));
  return RENGA_SUCCESS;
}

/* Let the ranks of a node read memory of each other, for sums. Collective. Sums of vectors that lie
   there are made where they lie, without messages or copies within a node: that is several times
   faster. The pages of the memory are replaced by shared ones, which the system does not make huge,
   unless it is asked to (/sys/kernel/mm/transparent_hugepage/shmem_enabled). What else lies in the
   first and the last of them is replaced too: no other thread may write it meanwhile. memory:
   memory of the host that is this rank's alone; its content stays. bytes: its length, at least 1.
   shared: the shared memory, for RengaCommSumTask. NULL on all ranks where no ranks share a node,
   or one of them cannot share memory. RengaCommUnshare ends it, before the memory is given back. */
RengaErrorCode RengaCommShare(RengaComm comm, void *memory, size_t bytes, RengaCommShared *shared)
{
  RengaCommShared made = NULL;
  NodeFile *all = NULL;
  RengaCheckPointers(comm, shared);
  *shared = NULL;
  if (!comm->shared) return RENGA_SUCCESS;
  RengaErrorCode code =
      RengaErrorAgree(comm->hdr.comm, MakeShared(comm, memory, bytes, &made, &all));
  if (!code) code = ExchangePages(made, all);
  RengaFree(&all);
  if (made && (code || !made->works)) FreeShared(&made);
  RengaCall(code);
  *shared = made;
  return RENGA_SUCCESS;
}

/* End what RengaCommShare began. shared: set to NULL; NULL is none. No sum of it is under way on
   any rank. */
RengaErrorCode RengaCommUnshare(RengaCommShared *shared)
{
  RengaCheckPointer(shared);
  if (!*shared) return RENGA_SUCCESS;
  void *pages = mmap(NULL, (*shared)->length, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RengaErrorCode code = RENGA_SUCCESS;
  if (pages != MAP_FAILED) code = ReplacePages(*shared, -1, pages); /* else they stay as they are */
  if (pages != MAP_FAILED) munmap(pages, (*shared)->length);
  FreeShared(shared);
  RengaCall(code);
  return RENGA_SUCCESS;
}
