/* What is wrong with a launch, said before any work: processes that do not know of each other,
   several versions of the library, and nodes that do not fit together. */
#include "renga/private/gather.h"
#include "renga/private/open.h"
#include "renga/private/wait.h"
#include "sys.h"
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const char other_mpiexec[] = "use the mpiexec of the MPI library that Renga was built with";
static const struct {
  const char *tasks; /* a variable of the environment that holds their number */
  const char *launcher, *advice;
} launchers[] = {
    {"SLURM_STEP_NUM_TASKS", "Slurm",
     "give srun the --mpi that this MPI library knows (srun --mpi=list names all), or use mpiexec"},
    {"OMPI_COMM_WORLD_SIZE", "Open MPI", other_mpiexec},
    {"PMI_SIZE", "mpiexec", other_mpiexec},
    {"FLUX_JOB_SIZE", "Flux", other_mpiexec},
    {"JSM_NAMESPACE_SIZE", "jsrun", other_mpiexec},
};

/* 1 where it says nothing. */
static long CountTasks(size_t launcher)
{
  const char *text = getenv(launchers[launcher].tasks);
  return text ? strtol(text, NULL, 10) : 1;
}

/* Also before MPI_Init. */
bool RengaLaunchHasSeveral_Private(void)
{
  bool several = false;
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    several = several || CountTasks(i) > 1;
  return several;
}

/* Launchers that speak another language than the MPI library start programs of one rank each. */
RengaErrorCode RengaLaunchCheckAlone_Private(void)
{
  int size;
  RengaCallMPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  if (size > 1 || getenv("RENGA_ALONE")) return RENGA_SUCCESS;
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    const long tasks = CountTasks(i);
    RengaCheck(tasks < 2, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "%s started %ld tasks (%s), but to MPI this process is the only one, and would do "
               "all of the work alone: %s; where it should be alone, set RENGA_ALONE=1",
               launchers[i].launcher, tasks, launchers[i].tasks, launchers[i].advice);
  }
  return RENGA_SUCCESS;
}

/* A version and a node, with a null byte behind each, on rank 0 for each rank. */
static RengaErrorCode NameOtherVersion(int count, const char *all, const size_t sizes[])
{
  const char *first = all, *mine = all;
  for (int r = 1; r < count; r++) {
    mine += sizes[r - 1];
    RengaCheck(strcmp(first, mine) == 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "rank %d (%s) has version %s of Renga, and rank 0 (%s) has %s: install the same on "
               "all nodes, and look at PATH and LD_LIBRARY_PATH there",
               r, mine + strlen(mine) + 1, mine, first + strlen(first) + 1, first);
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT, "ranks have several versions of Renga");
}

static RengaErrorCode GatherVersions(MPI_Comm comm, const char *version, const char *what)
{
  char mine[64 + MPI_MAX_PROCESSOR_NAME], node[MPI_MAX_PROCESSOR_NAME], *all = NULL;
  size_t *sizes = NULL;
  int count, rank, length;
  RengaCallMPI(MPI_Comm_size(comm, &count));
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Get_processor_name(node, &length));
  const int used = snprintf(mine, 64, "%.60s", version) + 1;
  snprintf(mine + used, sizeof mine - (size_t)used, "%s", node);
  const size_t bytes = (size_t)used + strlen(node) + 1;
  RengaErrorCode code = RengaGatherBytes(comm, mine, bytes, &all, &sizes, what);
  if (!code && rank == 0) code = NameOtherVersion(count, all, sizes);
  RengaFree(&all);
  RengaFree(&sizes);
  return code;
}

RengaErrorCode RengaLaunchCheckVersions_Private(MPI_Comm comm)
{
  static const char what[] = "all ranks to tell their version of Renga";
  const char *version;
  RengaGetVersion(NULL, NULL, NULL, &version);
  int64_t largest = (int64_t)RengaHash(version, strlen(version), 0), inverse = ~largest;
  RengaCall(RengaReduceInt64_Private(comm, MPI_MAX, &largest, what));
  RengaCall(RengaReduceInt64_Private(comm, MPI_MAX, &inverse, what));
  if (largest == ~inverse) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(comm, GatherVersions(comm, version, what)));
  return RENGA_SUCCESS;
}

/* What a rank knows of its node and of its share of it. */
typedef struct {
  int64_t clock;   /* seconds since 1970 */
  int64_t locked;  /* bytes that it may lock in memory for a network card; -1: enough */
  int64_t threads; /* that OMP_NUM_THREADS asks for; 0: it says nothing, or the options do */
  int64_t cores;   /* that it may run on */
  uint64_t where;  /* hash of node and these cores */
  char card[32], node[96];
} LaunchedRank;

/* Some 30 seconds of difference come from a slow start. */
enum { CLOCK_APART = 60, CAP_IPC_LOCK_BIT = 14 };
static const int64_t LOCKED_LEAST = (int64_t)1 << 30;

/* Whoever has this right may lock all memory. */
static bool MayLockAll(void)
{
  char line[256];
  unsigned long long rights = 0;
  FILE *file = RengaFileOpen_Private("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "CapEff: %llx", &rights) == 1) break;
  if (file) fclose(file);
  return rights >> CAP_IPC_LOCK_BIT & 1;
}

/* A card that sends from memory by itself: InfiniBand or RoCE. */
static void FindCard(LaunchedRank *rank)
{
  struct rlimit limit;
  DIR *cards = opendir("/sys/class/infiniband");
  rank->locked = -1;
  if (!cards) return;
  for (const struct dirent *entry = readdir(cards); entry; entry = readdir(cards))
    if (entry->d_name[0] != '.') snprintf(rank->card, sizeof rank->card, "%.31s", entry->d_name);
  closedir(cards);
  if (!*rank->card || getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)LOCKED_LEAST || MayLockAll())
    return;
  rank->locked = (int64_t)limit.rlim_cur;
}

static void FindThreads(LaunchedRank *rank)
{
  const char *text = getenv("OMP_NUM_THREADS");
  cpu_set_t cores;
  const long threads = text ? strtol(text, NULL, 10) : 0;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return;
  rank->cores = CPU_COUNT(&cores);
  rank->where = RengaHash(&cores, sizeof cores, RengaHash(rank->node, strlen(rank->node), 0));
  if (!RengaOptionsFindValue(NULL, "device_threads")) rank->threads = threads > 1 ? threads : 0;
}

static void SayClocks(int count, const LaunchedRank rank[])
{
  int worst = 0;
  for (int r = 1; r < count; r++)
    if (llabs(rank[r].clock - rank[0].clock) > llabs(rank[worst].clock - rank[0].clock)) worst = r;
  const long long apart = rank[worst].clock - rank[0].clock;
  if (llabs(apart) <= CLOCK_APART) return;
  RengaWarning(
      MPI_COMM_SELF,
      "the clock of rank %d (%s) is %lld s %s that of rank 0 (%s): times of files and logs "
      "contradict each other; let chrony or ntpd keep the clocks of all nodes",
      worst, rank[worst].node, llabs(apart), apart > 0 ? "ahead of" : "behind", rank[0].node);
}

static void SayLocked(int count, const LaunchedRank rank[])
{
  int first = 0;
  bool several = false;
  for (int r = 1; r < count; r++)
    if (strcmp(rank[r].node, rank[0].node) != 0) several = true;
  while (first < count && rank[first].locked < 0) first++;
  if (first == count || !several) return;
  RengaWarning(MPI_COMM_SELF,
               "rank %d (%s) may lock %lld KiB of memory, and its network card %s needs more: MPI "
               "will fail or be slow; set memlock to unlimited in limits.conf, or for the batch "
               "system's daemon (ulimit -l shows it)",
               first, rank[first].node, (long long)rank[first].locked >> 10, rank[first].card);
}

static int CompareCores(const void *a, const void *b)
{
  const LaunchedRank *x = a, *y = b;
  return (x->where > y->where) - (x->where < y->where);
}

/* Ranks that may run on the same cores share them. The order of the ranks changes. */
static void SayThreads(int count, LaunchedRank rank[])
{
  qsort(rank, (size_t)count, sizeof *rank, CompareCores);
  for (int first = 0, last = 0; first < count; first = last) {
    const LaunchedRank *own = &rank[first];
    int64_t threads = 0, asked = 0;
    for (; last < count && rank[last].where == own->where; last++) {
      threads += rank[last].threads > 0 ? rank[last].threads : 1;
      asked += rank[last].threads;
    }
    const int sharers = last - first;
    if (asked == 0 || threads <= own->cores) continue;
    RengaWarning(MPI_COMM_SELF,
                 "OMP_NUM_THREADS asks for %lld threads on %lld cores of %s, by %d rank%s: steps "
                 "will be many times slower; give each rank at most %lld, or bind it to more cores",
                 (long long)threads, (long long)own->cores, own->node, sharers,
                 sharers > 1 ? "s" : "", (long long)(own->cores + sharers - 1) / sharers);
    return;
  }
}

RengaErrorCode RengaLaunchCheckNodes_Private(MPI_Comm comm)
{
  LaunchedRank mine = {.clock = (int64_t)time(NULL)};
  char node[MPI_MAX_PROCESSOR_NAME], *all = NULL;
  size_t *sizes = NULL;
  int count, rank, length;
  RengaCallMPI(MPI_Comm_size(comm, &count));
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  RengaCallMPI(MPI_Get_processor_name(node, &length));
  snprintf(mine.node, sizeof mine.node, "%.95s", node);
  FindCard(&mine);
  FindThreads(&mine);
  RengaCall(RengaGatherBytes(comm, &mine, sizeof mine, &all, &sizes, "all ranks to start"));
  if (rank == 0) {
    LaunchedRank *ranks = (LaunchedRank *)(void *)all;
    SayClocks(count, ranks);
    SayLocked(count, ranks);
    SayThreads(count, ranks);
  }
  RengaFree(&all);
  RengaFree(&sizes);
  return RENGA_SUCCESS;
}
