/* Comm: a private duplicate of the user's communicator, its place on the nodes, its groups. */
#include "commimpl.h"
#include "renga/private/log.h"
#include "renga/private/packages.h"
#include <limits.h>

static const RengaOptionRow option_rows[] = {
    {"comm_message_limit", RENGA_OPTION_BYTES, "1GiB", offsetof(struct _p_RengaComm, message_limit),
     NULL, 64, INT_MAX, "longer messages travel in parts of this size"},
    {"comm_view", RENGA_OPTION_STRING, NULL, offsetof(struct _p_RengaComm, view), NULL, 0, 0,
     "print which ranks run on which nodes: ascii or ascii:FILE"},
};
enum { OPTION_COUNT = sizeof option_rows / sizeof *option_rows };

/* In the order of RengaCommEvent. */
static const char *const event_names[RENGA_COMM_EVENT_COUNT] = {
    "CommSend", "CommReceive", "CommWait", "CommCollective", RENGA_LOG_AWAITED, RENGA_LOG_UNDERWAY};

RengaErrorCode RengaCommRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Communication", OPTION_COUNT, option_rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode CommFree(MPI_Comm *mpi)
{
  if (*mpi != MPI_COMM_NULL) RengaCallMPI(MPI_Comm_free(mpi));
  return RENGA_SUCCESS;
}

static RengaErrorCode CommDestroy(void *object)
{
  RengaComm comm = object;
  const bool broken = RengaWatchIsBroken_Private(comm->hdr.comm); /* MPI still uses them */
  RengaErrorCode code = RengaCommFreeMessages(comm, broken);
  RengaKeepFirst_Private(&code, RengaCommSumsRelease(comm, broken));
  RengaKeepFirst_Private(&code, RengaOptionsFreeStrings(OPTION_COUNT, option_rows, comm));
  RengaCommFreeNodes(comm);
  RengaNodeMemoryDestroy(&comm->shared);
  if (comm->hdr.comm != MPI_COMM_NULL) { /* else it is half made */
    RengaKeepFirst_Private(&code, RengaWatchRelease_Private(comm->hdr.comm));
    if (!broken) RengaKeepFirst_Private(&code, CommFree(&comm->tree));
    if (!broken) RengaKeepFirst_Private(&code, CommFree(&comm->hdr.comm));
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CommDuplicate(MPI_Comm comm, MPI_Comm *duplicate)
{
  MPI_Request request;
  RengaCallStart(MPI_Comm_idup(comm, duplicate, &request));
  RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to make a communicator"));
  return RENGA_SUCCESS;
}

/* What one rank may lack the memory for. */
static RengaErrorCode CommAllocate(MPI_Comm mpi, RengaComm parent, RengaComm *comm)
{
  RengaComm c;
  RengaCall(RengaHeaderCreate(NULL, "RengaComm", sizeof *c, CommDestroy, &c));
  c->hdr.comm = MPI_COMM_NULL;
  c->tree = MPI_COMM_NULL;
  *comm = c;
  RengaCall(RengaOptionsSetDefaults(OPTION_COUNT, option_rows, c));
  for (int i = 0; i < RENGA_COMM_EVENT_COUNT; i++)
    RengaCall(RengaLogEventRegister(event_names[i], &c->event[i]));
  RengaCallMPI(MPI_Comm_rank(mpi, &c->rank));
  RengaCallMPI(MPI_Comm_size(mpi, &c->size));
  RengaCall(RengaMalloc(1, &c->spare)); /* an agreement needs no memory */
  RengaCall(RengaCommSumsCreate(parent, c));
  return RENGA_SUCCESS;
}

static RengaErrorCode CommOpen(RengaComm c, MPI_Comm mpi, RengaComm parent)
{
  c->hdr.comm = mpi;
  if (parent)
    RengaCall(RengaWatchShare_Private(parent->hdr.comm, mpi));
  else
    RengaCall(RengaWatchCreate_Private(mpi));
  RengaCall(CommDuplicate(mpi, &c->tree));
  int *limit, found;
  RengaCallMPI(MPI_Comm_get_attr(mpi, MPI_TAG_UB, &limit, &found));
  c->tag_limit = found ? *limit : 32767;
  return RENGA_SUCCESS;
}

/* Owns mpi from now on, whatever happens; its watch is that of parent, or one of its own, and so
   is its list of sums. */
static RengaErrorCode CommBuild(MPI_Comm mpi, RengaComm parent, RengaComm *comm)
{
  RengaComm c = NULL;
  RengaCallMPI(MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN));
  RengaErrorCode code = RengaErrorAgree(mpi, CommAllocate(mpi, parent, &c));
  if (code)
    MPI_Comm_free(&mpi);
  else
    code = CommOpen(c, mpi, parent);
  if (code && c) RengaHeaderDestroy(&c);
  RengaCall(code);
  *comm = c;
  return RENGA_SUCCESS;
}

static RengaErrorCode CommSplitByColor(MPI_Comm comm, int color, int key, MPI_Comm *group)
{
  RengaCallStart(MPI_Comm_split(comm, color < 0 ? MPI_UNDEFINED : color, key, group));
  return RENGA_SUCCESS;
}

/*@
   RengaCommCreate - make Renga's private view of a communicator

   Collective on user

   Input:
   . user - any intracommunicator, of any size; it is duplicated, never used for messages

   Output:
   . comm - end it with RengaCommDestroy

   Errors: RENGA_ERR_ORDER where MPI is not started; RENGA_ERR_ARGUMENT for MPI_COMM_NULL or an
   intercommunicator; RENGA_ERR_TIMEOUT where a rank does not come; RENGA_ERR_LIBRARY from MPI.

   Notes: the waiting time before an error starts at that of -timeout (RengaCommSetTimeout). Where
   the ranks of a node do not stand side by side in user, RengaCommGetRank is not the rank there:
   ranks are numbered node after node, in the order of the nodes' first ranks.

   See also: RengaCommSplit(), RengaCommSetFromOptions(), RengaCommDestroy()
@*/
RengaErrorCode RengaCommCreate(MPI_Comm user, RengaComm *comm)
{
  RengaCheckPointer(comm);
  int started = 0;
  MPI_Initialized(&started);
  RengaCheck(started, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "MPI is not started: call RengaInitialize (or MPI_Init) before RengaCommCreate");
  RengaCheck(user != MPI_COMM_NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the communicator is MPI_COMM_NULL");
  int inter = 0;
  RengaCallMPI(MPI_Comm_test_inter(user, &inter));
  RengaCheck(!inter, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the communicator is an intercommunicator; pass it to MPI_Intercomm_merge first");
  MPI_Comm mpi;
  RengaComm c;
  int first;
  bool moved = false;
  RengaCall(CommDuplicate(user, &mpi));
  RengaCallMPI(MPI_Comm_set_errhandler(mpi, MPI_ERRORS_RETURN));
  RengaErrorCode code = RengaCommOrder(&mpi, &first, &moved);
  if (code) MPI_Comm_free(&mpi);
  RengaCall(code);
  RengaCall(CommBuild(mpi, NULL, &c));
  c->moved = moved;
  code = RengaCommFindNodes(c, first);
  if (code) RengaHeaderDestroy(&c);
  RengaCall(code);
  *comm = c;
  return RENGA_SUCCESS;
}

/*@
   RengaCommSplit - form groups of ranks, each a RengaComm of its own

   Collective on comm

   Input:
   . color - ranks of one color (0 or larger) form a group; -1: in no group
   . key - any number: ranks of the group are ordered by it; equal keys: by their order in comm

   Output:
   . group - NULL where color is -1; end it with RengaCommDestroy

   Errors: RENGA_ERR_ARGUMENT for a color below -1; RENGA_ERR_TIMEOUT where a rank does not come;
   RENGA_ERR_LIBRARY from MPI.

   Notes: the group shares the timeout of comm, and starts with its message limit.

   See also: RengaCommCreate(), RengaCommDestroy()
@*/
RengaErrorCode RengaCommSplit(RengaComm comm, int color, int key, RengaComm *group)
{
  RengaCheckPointers(comm, group);
  RengaCheck(color >= -1, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "color %d is smaller than -1", color);
  MPI_Comm mpi;
  RengaComm g = NULL;
  RengaCall(RengaCommBarrier(comm, "all ranks to form groups")); /* MPI's own wait spins */
  RengaGuardBegin_Private("MPI_Comm_split");
  RengaErrorCode code = CommSplitByColor(comm->hdr.comm, color, key, &mpi);
  RengaGuardEnd_Private();
  RengaCall(code);
  if (mpi != MPI_COMM_NULL) {
    RengaCall(CommBuild(mpi, comm, &g));
    g->message_limit = comm->message_limit;
    code = RengaCommFindNodes(g, comm->node);
    if (code) RengaHeaderDestroy(&g);
    RengaCall(code);
  }
  *group = g;
  return RENGA_SUCCESS;
}

/*@
   RengaCommSetFromOptions - take what the user asked for

   Collective

   Options:
   . -comm_message_limit - longer messages travel in parts of this size (1GiB)
   . -comm_view - print which ranks run on which nodes

   Errors: RENGA_ERR_OPTION for a bad value; RENGA_ERR_FILE_OPEN or RENGA_ERR_FILE_WRITE where
   -comm_view names a file that cannot be written.

   See also: RengaCommCreate(), RengaCommView()
@*/
RengaErrorCode RengaCommSetFromOptions(RengaComm comm)
{
  RengaCheckPointer(comm);
  RengaCall(RengaOptionsSetFromDatabase(comm->hdr.prefix, OPTION_COUNT, option_rows, comm));
  if (comm->view == NULL) return RENGA_SUCCESS;
  RengaViewer viewer;
  RengaCall(RengaViewerCreate(comm, comm->view, &viewer));
  const RengaErrorCode code = RengaCommView(comm, viewer);
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(code);
  return RENGA_SUCCESS;
}

const char *RengaCommGetViewWanted_Private(RengaComm comm)
{
  return comm->view;
}

/*@
   RengaCommDestroy - end a communicator

   Collective

   Input:
   . comm - set to NULL; objects made from it keep it alive until they end

   Notes: an error where messages of it are still outstanding.

   See also: RengaCommCreate(), RengaCommSplit()
@*/
RengaErrorCode RengaCommDestroy(RengaComm *comm)
{
  RengaCheckPointer(comm);
  if (*comm == NULL) return RENGA_SUCCESS;
  RengaCall(RengaHeaderDestroy(comm));
  return RENGA_SUCCESS;
}

/*@
   RengaCommGetRank - this process's number in comm

   See also: RengaCommGetSize(), RengaCommGetNode()
@*/
int RengaCommGetRank(RengaComm comm)
{
  RengaCheckHandle(comm, -1);
  return comm->rank;
}

/*@
   RengaCommGetSize - the number of processes of comm

   See also: RengaCommGetRank()
@*/
int RengaCommGetSize(RengaComm comm)
{
  RengaCheckHandle(comm, 0);
  return comm->size;
}

/*@
   RengaCommGetNode - where this rank runs: ranks that share memory are on one node

   Output:
   . node - the number of this rank's node, from 0, in order of the nodes' first ranks
   . nodes - the number of nodes, at least 1
   . local_rank - this rank's number among those of comm on its node, from 0
   . local_size - the number of ranks of comm on its node, at least 1

   Notes: outputs that are not wanted may be NULL.

   See also: RengaCommGetRank(), RengaCommView()
@*/
RengaErrorCode RengaCommGetNode(RengaComm comm, int *node, int *nodes, int *local_rank,
                                int *local_size)
{
  RengaCheckPointer(comm);
  if (node != NULL) *node = comm->node;
  if (nodes != NULL) *nodes = comm->nodes;
  if (local_rank != NULL) *local_rank = comm->local_rank;
  if (local_size != NULL) *local_size = comm->local_size;
  return RENGA_SUCCESS;
}

/*@
   RengaCommSetTimeout - how long a rank waits while nothing moves before that is an error

   Input:
   . comm - the ranks; the time is one for comm, all groups made of it and all objects on them
   . seconds - 0: wait for ever

   Options:
   . -timeout - where the program says nothing

   Errors: RENGA_ERR_ARGUMENT for a negative time.

   Notes: the same on all ranks. After RENGA_ERR_TIMEOUT all further waits end at once with that
   code, and no memory is given back, as MPI may still write to it; to set a time is to try again.
@*/
RengaErrorCode RengaCommSetTimeout(RengaComm comm, double seconds)
{
  RengaCheckPointer(comm);
  RengaCheck(seconds >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "a timeout of %g s is negative",
             seconds);
  RengaCall(RengaWatchSetLimit_Private(comm->hdr.comm, seconds));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaCommGetTimeout(RengaComm comm, double *seconds)
{
  RengaCheckPointers(comm, seconds);
  *seconds = RengaWatchGetLimit_Private(comm->hdr.comm);
  return RENGA_SUCCESS;
}
