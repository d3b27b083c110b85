/* Comm: nodes of a switch side by side.

   Slurm's plugin topology/tree tells each task the switches above its node, from the top one on, in
   SLURM_TOPOLOGY_ADDR: "core.leaf2.node7". Where a job's nodes are not named in the order of their
   switches, replicas side by side would send sums from switch to switch. */
#include "commimpl.h"
#include "renga/private/wait.h"
#include <stdlib.h>
#include <string.h>

enum { SWITCH_LEVELS = 6 };

typedef struct {
  char path[COMM_SWITCH_BYTES];
  int node;                    /* a number of the rank's node, ascending with the first ranks */
  int rank;                    /* as the launcher has it */
  int switches[SWITCH_LEVELS]; /* the first rank below each of the switches, from the top on */
} SwitchedRank;

/* Names of switches, without that of the node; "" where there are none. */
void RengaCommFindSwitches(char path[COMM_SWITCH_BYTES])
{
  const char *text = getenv("SLURM_TOPOLOGY_ADDR"), *end = text ? strrchr(text, '.') : NULL;
  memset(path, 0, COMM_SWITCH_BYTES);
  if (end && end - text < COMM_SWITCH_BYTES) memcpy(path, text, (size_t)(end - text));
}

/* Letters of the first switches of a path. */
static size_t LengthTo(const char path[], int level)
{
  const char *at = path;
  for (int l = 0; l <= level; l++) at += strcspn(at + (l > 0), ".") + (l > 0);
  return (size_t)(at - path);
}

static bool ShareSwitch(const SwitchedRank *a, const SwitchedRank *b, int level)
{
  const size_t length = LengthTo(a->path, level);
  return length == LengthTo(b->path, level) && !memcmp(a->path, b->path, length);
}

static void NumberSwitches(int size, SwitchedRank ranks[])
{
  for (int r = 0; r < size; r++)
    for (int l = 0; l < SWITCH_LEVELS; l++) {
      int before = r - 1; /* most often the last one */
      while (before >= 0 && !ShareSwitch(&ranks[before], &ranks[r], l)) before--;
      ranks[r].switches[l] = before < 0 ? r : ranks[before].switches[l];
    }
}

static int CompareSwitched(const void *one, const void *other)
{
  const SwitchedRank *a = one, *b = other;
  for (int l = 0; l < SWITCH_LEVELS; l++)
    if (a->switches[l] != b->switches[l]) return a->switches[l] - b->switches[l];
  return a->node != b->node ? a->node - b->node : a->rank - b->rank;
}

static RengaErrorCode GatherSwitched(MPI_Comm comm, const SwitchedRank *mine, SwitchedRank ranks[])
{
  MPI_Request request;
  RengaCallStart(MPI_Iallgather(mine, (int)sizeof *mine, MPI_BYTE, ranks, (int)sizeof *mine,
                                MPI_BYTE, comm, &request));
  RengaCall(RengaWaitRequest_Private(comm, &request, "all ranks to find their switches"));
  return RENGA_SUCCESS;
}

/* node: a number of this rank's node. place: where this rank belongs. moved: some rank does not
   stand there. */
RengaErrorCode RengaCommOrderBySwitches(MPI_Comm comm, int node, int *place, bool *moved)
{
  SwitchedRank mine = {.node = node}, *ranks = NULL;
  int size;
  RengaCallMPI(MPI_Comm_rank(comm, &mine.rank));
  RengaCallMPI(MPI_Comm_size(comm, &size));
  RengaCommFindSwitches(mine.path);
  int64_t some = mine.path[0] != '\0';
  RengaCall(RengaReduceInt64_Private(comm, MPI_MAX, &some, "all ranks to find their switches"));
  if (!some) return RENGA_SUCCESS;
  RengaErrorCode code = RengaErrorAgree(comm, RengaMalloc(size, &ranks));
  if (!code) code = GatherSwitched(comm, &mine, ranks);
  if (!code) NumberSwitches(size, ranks);
  if (!code) qsort(ranks, (size_t)size, sizeof *ranks, CompareSwitched);
  for (int r = 0; r < size && !code; r++) {
    *moved = *moved || ranks[r].rank != r;
    if (ranks[r].rank == mine.rank) *place = r;
  }
  RengaFree(&ranks);
  RengaCall(code);
  return RENGA_SUCCESS;
}
