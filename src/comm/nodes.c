/* Comm: which ranks share a node, and their order.

   RENGA_NODES=2 in the environment pretends that the ranks lie on so many nodes, in blocks;
   RENGA_NODES=2:cyclic deals them in turn. For tests. */
#include "commimpl.h"
#include "renga/private/line.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  int64_t nodes; /* 0: none are pretended */
  bool cyclic;
} PretendedNodes;

static PretendedNodes ReadPretended(void)
{
  const char *text = getenv("RENGA_NODES");
  char *rest = NULL;
  const long nodes = text ? strtol(text, &rest, 10) : 0;
  return nodes < 1 ? (PretendedNodes){0} : (PretendedNodes){nodes, !strcmp(rest, ":cyclic")};
}

/* Else some ranks would ask MPI for their nodes, and wait for the others. */
static RengaErrorCode AgreeOnPretended(MPI_Comm comm, PretendedNodes pretended)
{
  const int64_t mine = 2 * pretended.nodes + pretended.cyclic;
  int64_t most = mine, least = -mine;
  RengaCall(RengaReduceInt64_Private(comm, MPI_MAX, &most, "all ranks to find their nodes"));
  RengaCall(RengaReduceInt64_Private(comm, MPI_MAX, &least, "all ranks to find their nodes"));
  RengaCheck(most == -least, comm, RENGA_ERR_ARGUMENT,
             "RENGA_NODES is not the same on all ranks: give it to all of them, or to none");
  return RENGA_SUCCESS;
}

/* The first rank of the node of this rank, as it is pretended. */
static int PretendedFirst(PretendedNodes pretended, int rank, int size)
{
  const int64_t nodes = pretended.nodes;
  if (nodes > size) return rank;
  if (pretended.cyclic) return (int)(rank % nodes);
  const int64_t node = rank * nodes / size;
  int first = rank;
  while (first > 0 && (first - 1) * nodes / size == node) first--;
  return first;
}

/* The first rank of this node, and whether no rank between that and the last one is elsewhere. */
static RengaErrorCode TranslateNode(MPI_Comm comm, MPI_Comm local, int *first, bool *together)
{
  MPI_Group group, local_group;
  int size, ends[2] = {0, 0}, ranks[2];
  RengaCallMPI(MPI_Comm_size(local, &size));
  ends[1] = size - 1;
  RengaCallMPI(MPI_Comm_group(comm, &group));
  RengaCallMPI(MPI_Comm_group(local, &local_group));
  RengaCallMPI(MPI_Group_translate_ranks(local_group, 2, ends, group, ranks));
  RengaCallMPI(MPI_Group_free(&local_group));
  RengaCallMPI(MPI_Group_free(&group));
  *first = ranks[0];
  *together = ranks[1] - ranks[0] == size - 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindFirst(MPI_Comm comm, PretendedNodes pretended, int *first, bool *together)
{
  MPI_Comm local;
  int rank, size;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  *together = false;
  if (pretended.nodes > 0) {
    *first = PretendedFirst(pretended, rank, size);
    return RENGA_SUCCESS;
  }
  RengaCall(RengaSplitByNode_Private(comm, &local));
  const RengaErrorCode code = TranslateNode(comm, local, first, together);
  RengaCallMPI(MPI_Comm_free(&local));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SplitInOrder(MPI_Comm comm, int key, MPI_Comm *ordered)
{
  RengaCallStart(MPI_Comm_split(comm, 0, key, ordered));
  return RENGA_SUCCESS;
}

/* A launcher may deal ranks to nodes in turn, or nodes to switches: then comm gives way to one with
   the ranks of a node side by side, and the nodes of a switch. They keep the order of their first
   ranks, so that rank 0 stays rank 0. first: a number of this rank's node, and of no other. */
RengaErrorCode RengaCommOrder(MPI_Comm *comm, int *first, bool *moved)
{
  bool together = true;
  MPI_Comm ordered;
  const PretendedNodes pretended = ReadPretended();
  RengaCall(AgreeOnPretended(*comm, pretended));
  RengaCall(RengaErrorAgree(*comm, FindFirst(*comm, pretended, first, &together)));
  int64_t apart = !together;
  RengaCall(RengaReduceInt64_Private(*comm, MPI_MAX, &apart, "all ranks to find their nodes"));
  int place = *first;
  *moved = apart > 0;
  RengaCall(RengaCommOrderBySwitches(*comm, *first, &place, moved));
  if (!*moved) return RENGA_SUCCESS;
  RengaGuardBegin_Private("MPI_Comm_split");
  const RengaErrorCode code = SplitInOrder(*comm, place, &ordered);
  RengaGuardEnd_Private();
  RengaCall(code);
  RengaCallMPI(MPI_Comm_free(comm));
  *comm = ordered;
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateNodes(RengaComm comm, int **keys)
{
  RengaCall(RengaMalloc(comm->size, keys));
  RengaCall(RengaMalloc(comm->size, &comm->node_of));
  RengaCall(RengaMalloc(comm->size, &comm->local_of));
  RengaCall(RengaMalloc(comm->size, &comm->by_node));
  RengaCall(RengaMalloc(comm->size + 1, &comm->node_begin));
  return RENGA_SUCCESS;
}

/* Nodes are numbered by first rank. */
static void NumberNodes(RengaComm comm, const int keys[])
{
  for (int r = 0; r < comm->size; r++) {
    int before = r - 1; /* most often the last one */
    while (before >= 0 && keys[before] != keys[r]) before--;
    comm->node_of[r] = before < 0 ? comm->nodes++ : comm->node_of[before];
    comm->local_of[r] = before < 0 ? 0 : comm->local_of[before] + 1;
    comm->node_begin[comm->node_of[r] + 1]++;
  }
  for (int n = 0; n < comm->nodes; n++) comm->node_begin[n + 1] += comm->node_begin[n];
  for (int r = 0; r < comm->size; r++)
    comm->by_node[comm->node_begin[comm->node_of[r]] + comm->local_of[r]] = r;
}

/* key: the same number on all ranks of a node and on no other. */
RengaErrorCode RengaCommFindNodes(RengaComm comm, int key)
{
  int *keys = NULL;
  RengaErrorCode code = RengaErrorAgree(comm->hdr.comm, AllocateNodes(comm, &keys));
  if (!code)
    code = RengaCommGather(comm, &key, sizeof key, keys, -1, "all ranks to find their nodes");
  if (!code) NumberNodes(comm, keys);
  RengaFree(&keys);
  RengaCall(code);
  comm->node = comm->node_of[comm->rank];
  comm->local_rank = comm->local_of[comm->rank];
  comm->local_size = comm->node_begin[comm->node + 1] - comm->node_begin[comm->node];
  RengaCall(RengaNodeMemoryCreate(comm));
  return RENGA_SUCCESS;
}

void RengaCommSetWriters_Private(RengaComm comm, int of_node)
{
  comm->writers = of_node;
}

int RengaCommGetWriters_Private(RengaComm comm)
{
  return comm->writers;
}

RengaErrorCode RengaCommFindWriters_Private(RengaComm comm, int **writer)
{
  *writer = NULL;
  if (comm->writers == 0) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(comm->hdr.comm, RengaMalloc(comm->size, writer)));
  for (int r = 0; r < comm->size; r++) {
    const int first = comm->node_begin[comm->node_of[r]];
    const int ranks = comm->node_begin[comm->node_of[r] + 1] - first;
    const int writers = comm->writers < ranks ? comm->writers : ranks;
    const int number = (int)((int64_t)comm->local_of[r] * writers / ranks);
    (*writer)[r] = comm->by_node[first + (int)(((int64_t)number * ranks + writers - 1) / writers)];
  }
  return RENGA_SUCCESS;
}

void RengaCommFreeNodes(RengaComm comm)
{
  RengaFree(&comm->node_of);
  RengaFree(&comm->local_of);
  RengaFree(&comm->by_node);
  RengaFree(&comm->node_begin);
  RengaCommSumFreeRoutes(comm);
}
