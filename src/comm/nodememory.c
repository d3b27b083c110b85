/* Comm: memory that the ranks of a node share, in which sums show each other their pieces and
   blocks: a file in memory of the node's first rank, which the others open by way of /proc. Where
   any rank of the comm cannot have it, none has, and all is messages.

   Each rank has a box for each of a few sums at once. Ranks count, for ever, for how many rounds
   they have shown something in it and taken what they need of the others': so a sum finds a box as
   the last one left it. */
#include "nodememory.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  LEAST_HALF = 2048 * 1024, /* bytes that a rank shows in a round; */
  HALF_OF_RANK = 16 * 1024  /* for each rank of the comm, where that is more */
};

/* What the first rank of a node tells the others. */
typedef struct {
  long process;
  int file; /* its descriptor there, or -1 */
} NodeFile;

static int MakeFile(size_t bytes)
{
  const int file = memfd_create("renga", MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, (off_t)bytes) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

static int OpenFile(const NodeFile *of)
{
  char path[64];
  if (of->file < 0) return -1;
  snprintf(path, sizeof path, "/proc/%ld/fd/%d", of->process, of->file);
  return RengaFileDescriptor_Private(path, O_RDWR | O_CLOEXEC, 0);
}

/* Whether this rank has it. */
static bool MapFile(RengaNodeMemory memory, int file)
{
  if (file < 0) return false;
  void *at = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (at == MAP_FAILED) return false;
  memory->at = at;
  return true;
}

static RengaErrorCode ShareFile(RengaComm comm, RengaNodeMemory memory, NodeFile all[])
{
  NodeFile mine = {getpid(), -1};
  int64_t lacks;
  if (comm->local_rank == 0) mine.file = MakeFile(memory->bytes);
  RengaErrorCode code =
      RengaCommGather(comm, &mine, sizeof mine, all, -1, "all ranks to share memory");
  int file = mine.file;
  if (!code && comm->local_rank > 0)
    file = OpenFile(&all[comm->by_node[comm->node_begin[comm->node]]]);
  lacks = !MapFile(memory, file);
  if (!code)
    code = RengaReduceInt64_Private(comm->hdr.comm, MPI_MAX, &lacks, "all ranks to share memory");
  if (file >= 0) close(file); /* mapped memory stays */
  RengaCall(code);
  memory->works = !lacks;
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
    memory->half = (size_t)comm->size * HALF_OF_RANK;
    if (memory->half < LEAST_HALF) memory->half = LEAST_HALF;
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
