/* TEST ranks: 1 timeout: 300 */
/* On small random problems (2 to 8 devices, bounds on memory, counts that divide nothing) the plan
   of the search is never slower than that of any other type, nor than its own under an option more.
   TEST_PROBLEMS: how many; TEST_FIRST: from which on. */
#include "../../../src/partition/search/search.h"
#include "../../plan/plantest.h"
#include "renga/private/graph.h"
#include "random.h"
#include <math.h>
#include <time.h>

enum { ROWS = 24 };
/* Of a check; of the last, in which one number of replicas by itself leads to the plan, the types
   alone. */
static const int usual[] = {0, 1, 2, 4, 6, 8, 11, 12, 15, 16, 84, 166, 42};
enum { N_USUAL = sizeof usual / sizeof usual[0] };

static const char *const networks[] = {
    "mlp:sizes=20-64-64-30-10",
    "mlp:sizes=100-30-200-10",
    "mlp:sizes=8-80-8-80-8-80-8",
    "ncf:users=50,items=60,factors=8,layers=32-16-8",
    "gpt:layers=1,hidden=16,heads=2,sequence=8,vocabulary=40",
    "gpt:layers=3,hidden=16,heads=2,sequence=8,vocabulary=40",
    "bert:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,segments=0",
};
enum { N_NETWORKS = sizeof networks / sizeof networks[0] };

typedef struct {
  RengaComm comm;
  RengaGraph graph;
  RengaMachine machine;
  RengaProfile profile;
  RengaPartition rivals[SEARCH_RIVALS_MOST];
  SearchTask task;
  int64_t size[ROWS], leaf[ROWS];
  RengaProfileCost *costs[ROWS]; /* [rows][nodes] */
  int number, compared, refused;
  bool types_alone;
} Problem;

static void DescribeMachine(Problem *one)
{
  const RengaMachineDevice device = {.name = (char *)"device",
                                     .memory = (int64_t)1 << 40,
                                     .matrix_rate = 1e12,
                                     .vector_rate = 1e11,
                                     .memory_bandwidth = 1e11,
                                     .matrix_efficiency = 0.8,
                                     .vector_efficiency = 0.5,
                                     .bandwidth_efficiency = 0.8,
                                     .launch = 1e-6};
  const double slow = Random() < 0.5 ? 1e8 : 1e9;
  const RengaMachineLevel levels[] = {
      {.name = (char *)"node",
       .devices = 1 << RandomBelow(3),
       .latency = 1e-6,
       .bandwidth = 10 * slow},
      {.name = (char *)"cluster", .devices = 64, .latency = 1e-5, .bandwidth = slow}};
  RengaCallAbort(RengaMachineCreate(one->comm, &one->machine));
  RengaCallAbort(RengaMachineSetDevice(one->machine, &device));
  RengaCallAbort(RengaMachineSetLevels(one->machine, 2, levels));
}

/* A part that each kernel takes, and one that grows with the samples. */
static void MakeCosts(Problem *one)
{
  const int nodes = RengaGraphGetNodeCount(one->graph);
  double *each = NULL;
  RengaCallAbort(RengaMalloc(2 * nodes, &each));
  for (int n = 0; n < 2 * nodes; n++) each[n] = Random();
  for (int r = 0; r < one->task.n_sizes; r++) {
    RengaCallAbort(RengaMalloc(nodes, &one->costs[r]));
    for (int n = 0; n < nodes; n++) {
      if (RengaGraphNodeIsPrepared_Private(one->graph, RengaGraphGetNode(one->graph, n))) continue;
      const double seconds = 1e-6 + 4e-6 * (double)one->size[r] * each[n];
      one->costs[r][n] =
          (RengaProfileCost){.forward = seconds, .backward = seconds * (1 + each[nodes + n])};
    }
  }
  RengaFree(&each);
}

/* Micro-batches of one to all samples, leaves of 1 and 4. */
static void ListRows(Problem *one)
{
  SearchTask *task = &one->task;
  const bool leaves = Random() < 0.4;
  for (int64_t size = 1; size <= task->batch && task->n_sizes + 2 <= ROWS;
       size = size < 4 ? size + 1 : 2 * size)
    for (int64_t leaf = 1; leaf <= (leaves ? 4 : 1); leaf += 3) {
      if (leaf > (task->batch + size - 1) / size) continue;
      one->size[task->n_sizes] = size;
      one->leaf[task->n_sizes++] = leaf;
    }
  if (Random() < 0.5) { /* one that is given */
    const int row = RandomBelow(task->n_sizes);
    one->size[0] = one->size[row];
    one->leaf[0] = one->leaf[row];
    task->n_sizes = 1;
  }
  task->n_first = task->n_sizes;
}

static double WholeBytes(Problem *one)
{
  SearchChain chain;
  SearchModel model;
  double bytes;
  RengaCallAbort(RengaSearchChainCreate_Private(one->graph, NULL, &chain));
  RengaCallAbort(RengaSearchModelOf_Private(&one->task, &chain, 0, false, &model));
  bytes = RengaSearchStageBytes_Private(&model, &model.candidate[0], RENGA_SAVED_KEEP, 0,
                                        model.count, 1);
  RengaSearchModelFree_Private(&model);
  RengaSearchChainFree_Private(&chain);
  return bytes;
}

static void MakeProblem(Problem *one)
{
  RengaCallAbort(RengaGraphCreate(one->comm, &one->graph));
  RengaCallAbort(RengaGraphLoad(one->graph, networks[RandomBelow(N_NETWORKS)]));
  RengaCallAbort(RengaGraphSetUp(one->graph));
  DescribeMachine(one);
  RengaCallAbort(RengaProfileCreate(one->comm, &one->profile));
  RengaCallAbort(RengaProfileSetMachine(one->profile, one->machine));
  RengaCallAbort(RengaProfileSetGraph(one->profile, one->graph));
  one->task = (SearchTask){.self = one->comm,
                           .graph = one->graph,
                           .machine = one->machine,
                           .ranks = 2 + RandomBelow(7),
                           .moments = 2,
                           .batch = 1 + RandomBelow(30),
                           .any_schedule = true,
                           .update_rate = Random() < 0.5 ? 0 : 1e-9,
                           .accumulate_rate = Random() < 0.5 ? 0 : 1e-9,
                           .size = one->size,
                           .leaf = one->leaf,
                           .costs = one->costs};
  ListRows(one);
  MakeCosts(one);
  if (Random() < 0.6) one->task.memory = WholeBytes(one) * (0.2 + Random());
  RengaCallAbort(RengaSearchRivals_Private(one->profile, &one->task, one->rivals));
}

static void FreeProblem(Problem *one)
{
  for (int r = 0; r < SEARCH_RIVALS_MOST; r++)
    RengaCallAbort(RengaPartitionDestroy(&one->rivals[r]));
  for (int r = 0; r < ROWS; r++) RengaFree(&one->costs[r]);
  RengaCallAbort(RengaProfileDestroy(&one->profile));
  RengaCallAbort(RengaMachineDestroy(&one->machine));
  RengaCallAbort(RengaGraphDestroy(&one->graph));
}

/* HUGE_VAL: nothing fits. *answer is kept where it is asked for. */
static double Step(const SearchTask *task, SearchAnswer *kept)
{
  SearchAnswer answer;
  FILE *file;
  const int saved = BeginErrors(&file);
  const RengaErrorCode code = RengaSearchSolve_Private(task, &answer);
  EndErrors(file, saved);
  TestTrue(!code || code == RENGA_ERR_MEMORY || code == RENGA_ERR_PLAN);
  if (code) return HUGE_VAL;
  const double step = answer.prediction.step;
  if (kept)
    *kept = answer;
  else
    RengaSearchAnswerFree_Private(&answer);
  return step;
}

static void Compare(Problem *one, const char *what, double number, double own, double other)
{
  one->compared++;
  one->refused += isinf(other);
  if (own <= other * (1 + 1e-9)) return;
  fprintf(stderr, "problem %d: %.9g s, but %.9g s with %s %g (%s, %d devices, batch %lld, %g B)\n",
          one->number, own, other, what, number, RengaGraphGetNode(one->graph, 0)->name,
          one->task.ranks, (long long)one->task.batch, one->task.memory);
  TestTrue(getenv("TEST_PROBLEMS"));
}

static void CompareTypes(Problem *one, double own)
{
  for (int r = 0; r < one->task.n_rivals; r++) {
    SearchTask task = one->task;
    task.finder = one->task.rival[r];
    task.n_rivals = 0;
    Compare(one, "type", r, own, Step(&task, NULL));
  }
}

static void CompareSizes(Problem *one, double own)
{
  for (int row = 0; row < one->task.n_sizes && one->task.n_sizes > 1; row++) {
    SearchTask task = one->task;
    task.size += row;
    task.leaf += row;
    task.costs += row;
    task.n_sizes = task.n_first = 1;
    Compare(one, "row", row, own, Step(&task, NULL));
  }
}

static void CompareSchedules(Problem *one, double own)
{
  static const double eager[] = {0, 0.3, 0.5, 1, 1.5, 2, 3, 5, 9, 30};
  SearchTask task = one->task;
  task.any_schedule = false;
  for (size_t e = 0; e < sizeof eager / sizeof eager[0]; e++) {
    task.schedule.eager = eager[e];
    Compare(one, "eager", task.schedule.eager, own, Step(&task, NULL));
  }
  task.schedule.eager = 0;
  task.schedule.gpipe = true;
  Compare(one, "gpipe", 1, own, Step(&task, NULL));
  for (int i = SEARCH_WHOLE; i < SEARCH_SCHEDULES; i++) {
    task.schedule = RengaSearchScheduleList[i];
    Compare(one, task.schedule.type, i, own, Step(&task, NULL));
  }
}

static void CompareLayouts(Problem *one, double own)
{
  for (int n = 1; n <= one->task.ranks; n++) {
    SearchTask task = one->task;
    task.wanted.stages = n;
    Compare(one, "stages", n, own, Step(&task, NULL));
    task.wanted.stages = 0;
    task.wanted.replicas = n;
    Compare(one, "replicas", n, own, Step(&task, NULL));
  }
}

static void CheckProblem(Problem *one)
{
  SearchAnswer answer = {0};
  const clock_t begin = clock();
  const double own = Step(&one->task, &answer);
  const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  if (getenv("TEST_VERBOSE"))
    printf("problem %d: %s, %d devices, batch %lld, %d rows, %.3g B: %g s, gap %.3g %%, in %.2f s "
           "of a core\n",
           one->number, RengaGraphGetNode(one->graph, 0)->name, one->task.ranks,
           (long long)one->task.batch, one->task.n_sizes, one->task.memory, own,
           100 * (own / answer.prediction.bound - 1), seconds);
  RengaSearchAnswerFree_Private(&answer);
  CompareTypes(one, own);
  if (one->types_alone) return;
  CompareSizes(one, own);
  CompareSchedules(one, own);
  CompareLayouts(one, own);
}

int main(int argc, char **argv)
{
  const char *first = getenv("TEST_FIRST"), *wanted = getenv("TEST_PROBLEMS");
  const int begin = first ? atoi(first) : 0, count = wanted ? atoi(wanted) : N_USUAL;
  int compared = 0, refused = 0;
  RengaComm comm;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_SELF, &comm));
  for (int i = 0; i < count; i++) {
    const int number = wanted ? begin + i : usual[i];
    Problem one = {.comm = comm, .number = number, .types_alone = !wanted && i == N_USUAL - 1};
    state = 88172645463325252u + 7919u * (uint64_t)number;
    for (int n = 0; n < 8; n++) Random();
    MakeProblem(&one);
    CheckProblem(&one);
    FreeProblem(&one);
    compared += one.compared;
    refused += one.refused;
  }
  if (getenv("TEST_VERBOSE")) printf("%d compared, %d refused\n", compared, refused);
  TestTrue(compared > 10 * count && refused < compared);
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
