/* -partition_tensor auto, -partition_sequence auto: what the type finds with one rank for each
   replica of a stage, beside what it finds with groups of 2 and more tensor ranks. A type that does
   not look for these is beside even plans of them, in the micro-batches and leaves of its own plan.
   The fastest that fits is taken. Numbers of tensor ranks are those that divide the ranks, up to
   the lanes, in groups that do not leave a node, unless the links between nodes are nearly as good.
   A limit on the time is one of all of them. */
#include "partitionimpl.h"
#include "renga/private/graph.h"
#include "renga/private/quiet.h"
#include "renga/private/settings.h"
#include "search/search.h"
#include "rengacomm.h"
#include <math.h>
#include <string.h>

enum { DEGREE_TEXT = 480 };
static const double links_alike = 0.5; /* share of the bandwidth within a node from which on */

/* The best of one number of tensor ranks. */
typedef struct {
  int tensor;
  RengaPlan plan;        /* NULL: none fits */
  double step;           /* seconds */
  double least;          /* bytes that a device needs of those that do not fit; HUGE_VAL: none */
  RengaErrorCode code;   /* there is no plan for it, and for: */
  char why[DEGREE_TEXT]; /* empty: it does not fit */
} Degree;

/* What all have in common. */
typedef struct {
  RengaPartition partition;
  int ranks, lanes;
  int64_t batch, microbatch, leaf;
  bool sizes;    /* of micro-batches are given to choose from */
  double memory; /* bytes of a device; 0: no bound */
  bool searches; /* the type looks for plans with tensor ranks */
  int64_t node;  /* ranks whose links a group may use */
  double limit;  /* seconds that type exact has for all of them; 0: any time */
  double begun;  /* on the clock of MPI_Wtime */
} DegreeTask;

/* stages x replicas x tensor ranks, as type even cuts. */
static RengaErrorCode FillDegreePlan(const DegreeTask *task, int tensor, int stages, int replicas,
                                     RengaPlanStage stage[], RengaPlan plan)
{
  RengaPartition partition = task->partition;
  RengaSettings settings;
  RengaStageShape shape = RengaStageShapePlain(replicas);
  shape.tensor = tensor;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaGraphGetPrecision(partition->graph, &shape.precision));
  RengaSettingsFindShard_Private(settings, &shape.shard);
  RengaSettingsFindSaved_Private(settings, &shape.saved);
  RengaCall(RengaPartitionCutEvenly_Private(partition, stages, stage));
  for (int s = 0; s < stages; s++) stage[s].shape = shape;
  RengaCall(RengaPlanSetStages(plan, partition->graph, stages, stage));
  RengaCall(RengaPlanSetBatch(plan, task->batch, task->microbatch));
  RengaCall(RengaPlanSetLeaf(plan, task->leaf));
  return RENGA_SUCCESS;
}

static RengaErrorCode CutDegreePlan(const DegreeTask *task, int tensor, int stages, int replicas,
                                    RengaPlan plan)
{
  RengaPlanStage *stage = NULL;
  RengaCall(RengaMalloc(stages, &stage));
  const RengaErrorCode code = FillDegreePlan(task, tensor, stages, replicas, stage, plan);
  RengaFree(&stage);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* With what a step takes. */
static RengaErrorCode WeighDegreePlan(const DegreeTask *task, int tensor, int stages, int replicas,
                                      RengaPlan made)
{
  MPI_Comm comm = task->partition->hdr.comm;
  RengaPlan cut = NULL;
  RengaErrorCode code = RengaPlanCreate(task->partition->hdr.owner, &cut);
  if (!code) code = CutDegreePlan(task, tensor, stages, replicas, cut);
  code = RengaErrorAgree(comm, code);
  const RengaSearchWish wish = {.given = cut, .spares = true};
  if (!code)
    code = RengaSearchPartition_Private(task->partition, &wish, task->ranks, task->batch,
                                        task->microbatch, made);
  if (cut) RengaPlanDestroy(&cut);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of an error on all ranks the sentence of the first that has found it. */
static RengaErrorCode ShareRefusal(const DegreeTask *task, char why[DEGREE_TEXT])
{
  const RengaComm comm = task->partition->hdr.owner;
  const int size = RengaCommGetSize(comm);
  int first = RengaErrorIsReported() ? RengaCommGetRank(comm) : size;
  snprintf(why, DEGREE_TEXT, "%s", RengaErrorGetMessage());
  RengaCallMPI(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, task->partition->hdr.comm));
  if (first == size) return RENGA_SUCCESS;
  RengaCall(RengaCommBroadcast(comm, why, DEGREE_TEXT, first, "why there is no plan"));
  return RENGA_SUCCESS;
}

/* What cannot be is no error here, but the reason why there is no plan; others go on. */
static RengaErrorCode TakeRefusal(const DegreeTask *task, RengaErrorCode code, Degree *degree)
{
  const bool fails = code == RENGA_ERR_PLAN || code == RENGA_ERR_MEMORY;
  const bool refused = code == RENGA_ERR_SUPPORT || code == RENGA_ERR_OPTION;
  degree->code = code;
  RengaCall(ShareRefusal(task, degree->why));
  RengaCheck(fails || (refused && degree->tensor > 1), task->partition->hdr.comm, code, "%s",
             degree->why);
  return RENGA_SUCCESS;
}

/* The faster of the degree's plan and this one, which it takes or frees. */
static RengaErrorCode TakeDegreePlan(const DegreeTask *task, RengaPlan *made, Degree *degree)
{
  RengaPlanPrediction prediction;
  double most = 0;
  RengaCall(RengaPlanGetPrediction(*made, &prediction));
  RengaCall(RengaPartitionMostOfRank_Private(*made, &most));
  const bool fits = task->memory <= 0 || most <= task->memory;
  if (!fits) degree->least = fmin(degree->least, most);
  if (!fits || (degree->plan && prediction.step >= degree->step)) return RENGA_SUCCESS;
  if (degree->plan) RengaCall(RengaPlanDestroy(&degree->plan));
  degree->plan = *made;
  degree->step = prediction.step;
  *made = NULL;
  return RENGA_SUCCESS;
}

/* Others may have none. */
static RengaErrorCode CreateOnAll(const DegreeTask *task, RengaPlan *plan)
{
  const RengaErrorCode code =
      RengaErrorAgree(task->partition->hdr.comm, RengaPlanCreate(task->partition->hdr.owner, plan));
  if (code && *plan) RengaPlanDestroy(plan);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TryDegreeLayout(const DegreeTask *task, int stages, int replicas,
                                      Degree *degree)
{
  RengaQuiet quiet;
  RengaPlan made = NULL;
  RengaCall(CreateOnAll(task, &made));
  RengaQuietBegin_Private(&quiet);
  RengaErrorCode code = WeighDegreePlan(task, degree->tensor, stages, replicas, made);
  RengaQuietEnd_Private(&quiet);
  code = code ? TakeRefusal(task, code, degree) : TakeDegreePlan(task, &made, degree);
  if (made) RengaPlanDestroy(&made);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Type exact has what those before have left of its time, if hardly any. */
static RengaErrorCode LeaveTime(const DegreeTask *task)
{
  const double left = task->limit - (MPI_Wtime() - task->begun), least = 1e-3;
  if (task->limit <= 0) return RENGA_SUCCESS;
  RengaCall(RengaPartitionExactSetTimeLimit(task->partition, left > least ? left : least));
  return RENGA_SUCCESS;
}

/* The type's own plan. */
static RengaErrorCode SolveDegree(const DegreeTask *task, int tensor, RengaPlan plan)
{
  RengaPartition partition = task->partition;
  RengaQuiet quiet;
  const int wish = partition->tensor;
  RengaQuietBegin_Private(&quiet);
  if (task->searches) partition->tensor = tensor;
  partition->compares = task->searches;
  RengaErrorCode code = LeaveTime(task);
  if (!code)
    code = partition->ops->plan(partition, task->ranks, task->batch, task->microbatch, plan);
  if (task->limit > 0) RengaPartitionExactSetTimeLimit(partition, task->limit);
  partition->compares = false;
  partition->tensor = wish;
  RengaQuietEnd_Private(&quiet);
  return code;
}

static RengaErrorCode SearchDegree(const DegreeTask *task, int tensor, Degree *degree)
{
  RengaPlanPrediction prediction;
  *degree = (Degree){.tensor = tensor, .least = HUGE_VAL};
  RengaCall(CreateOnAll(task, &degree->plan));
  RengaErrorCode code = SolveDegree(task, tensor, degree->plan);
  if (!code) code = RengaPlanGetPrediction(degree->plan, &prediction);
  if (!code) degree->step = prediction.step;
  if (!code) return RENGA_SUCCESS;
  RengaPlanDestroy(&degree->plan);
  RengaCall(TakeRefusal(task, code, degree));
  return RENGA_SUCCESS;
}

/* All numbers of stages, as far as wishes go. */
static RengaErrorCode TryEvenDegree(const DegreeTask *task, int tensor, Degree *degree)
{
  RengaPartition partition = task->partition;
  const int groups = task->ranks / tensor, n_nodes = RengaGraphGetNodeCount(partition->graph);
  const int64_t microbatches = (task->batch + task->microbatch - 1) / task->microbatch;
  const int64_t leaves = (microbatches + task->leaf - 1) / task->leaf;
  *degree = (Degree){.tensor = tensor, .least = HUGE_VAL};
  snprintf(degree->why, sizeof degree->why, "no layout%s has work for all ranks",
           partition->stages || partition->replicas ? " as is wanted" : "");
  for (int stages = 1; stages <= groups && stages <= n_nodes; stages++) {
    const int replicas = groups / stages;
    if (groups % stages || replicas > leaves ||
        (partition->stages && partition->stages != stages) ||
        (partition->replicas && partition->replicas != replicas))
      continue;
    degree->why[0] = '\0';
    RengaCall(TryDegreeLayout(task, stages, replicas, degree));
  }
  return RENGA_SUCCESS;
}

static void NameLayout(RengaPlan plan, size_t size, char text[])
{
  const int stages = RengaPlanGetStageCount(plan);
  const RengaStageShape *shape = &RengaPlanGetStage(plan, 0)->shape;
  const char *several = stages > 1 ? "s" : "";
  int64_t batch = 0, microbatch = 0;
  RengaPlanGetBatch(plan, &batch, &microbatch);
  const int n =
      shape->tensor > 1
          ? snprintf(text, size, "%d stage%s, %d ranks in groups of %d", stages, several,
                     RengaPlanGetRankCount(plan), shape->tensor)
          : snprintf(text, size, "%d stage%s, %d rank%s", stages, several,
                     RengaPlanGetRankCount(plan), RengaPlanGetRankCount(plan) > 1 ? "s" : "");
  snprintf(text + n, size - (size_t)n, ", micro-batches of %lld", (long long)microbatch);
}

static void SayDegree(const DegreeTask *task, const Degree *degree, size_t size, char text[])
{
  char number[32], bound[32], layout[96];
  const size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%d: ", used ? "; " : "", degree->tensor);
  const size_t at = strlen(text);
  if (degree->plan) {
    NameLayout(degree->plan, sizeof layout, layout);
    RengaFormatSeconds(degree->step, sizeof number, number);
    snprintf(text + at, size - at, "%s (%s)", number, layout);
  } else if (isfinite(degree->least)) {
    RengaFormatBytes(degree->least, sizeof number, number);
    RengaFormatBytes(task->memory, sizeof bound, bound);
    snprintf(text + at, size - at, "does not fit (%s of the %s of a device)", number, bound);
  } else {
    snprintf(text + at, size - at, "none (%.200s)", degree->why);
  }
}

/* What the choice goes by, and ends with. */
typedef struct {
  Degree best;
  double least; /* bytes that a device needs of those with tensor ranks that do not fit */
  int smallest; /* their tensor ranks; 0: there are none */
  char text[4 * DEGREE_TEXT];
  char why[DEGREE_TEXT]; /* the last of them has no plan */
} DegreeChoice;

static void TakeDegree(const DegreeTask *task, Degree *degree, DegreeChoice *choice)
{
  SayDegree(task, degree, sizeof choice->text, choice->text);
  if (!degree->plan && degree->tensor > 1)
    snprintf(choice->why, sizeof choice->why, "%s", degree->why);
  if (!degree->plan && degree->least < choice->least) {
    choice->least = degree->least;
    choice->smallest = degree->tensor;
  }
  if (!degree->plan) return;
  if (!choice->best.plan || degree->step < choice->best.step) {
    const Degree slower = choice->best;
    choice->best = *degree;
    *degree = slower;
  }
  if (degree->plan) RengaPlanDestroy(&degree->plan);
}

static RengaErrorCode TryDegrees(const DegreeTask *task, DegreeChoice *choice)
{
  const int most = task->lanes < task->ranks ? task->lanes : task->ranks;
  for (int tensor = 2; tensor <= most; tensor++) {
    Degree degree;
    if (task->ranks % tensor) continue;
    if (tensor > task->node) {
      const size_t used = strlen(choice->text);
      snprintf(choice->text + used, sizeof choice->text - used,
               "; %d and more: not looked at, as a group would not be in one node", tensor);
      break;
    }
    if (task->ranks > task->node && task->node % tensor) {
      const size_t used = strlen(choice->text);
      snprintf(choice->text + used, sizeof choice->text - used,
               "; %d: not looked at, as groups would lie across nodes of %lld devices", tensor,
               (long long)task->node);
      continue;
    }
    const RengaErrorCode code =
        task->searches ? SearchDegree(task, tensor, &degree) : TryEvenDegree(task, tensor, &degree);
    if (code && degree.plan) RengaPlanDestroy(&degree.plan);
    RengaCall(code);
    TakeDegree(task, &degree, choice);
  }
  return RENGA_SUCCESS;
}

/* Micro-batches that nobody asked for are made smaller until something fits. */
static RengaErrorCode TryWithoutOne(DegreeTask *task, DegreeChoice *choice)
{
  const size_t used = strlen(choice->text);
  if (task->partition->leaves || task->sizes) return RENGA_SUCCESS; /* a search takes one of them */
  do {
    choice->text[used] = '\0';
    RengaCall(TryDegrees(task, choice));
    if (choice->best.plan || task->partition->microbatch || task->microbatch == 1) break;
    task->microbatch = (task->microbatch + 1) / 2;
  } while (true);
  return RENGA_SUCCESS;
}

/* What decides the bits of results is never chosen without a word. */
static RengaErrorCode SaySize(const DegreeTask *task, RengaPlan plan)
{
  char sentence[200];
  if (task->partition->microbatch && task->partition->leaf) return RENGA_SUCCESS;
  snprintf(sentence, sizeof sentence,
           "micro-batches of %lld sample%s and leaves of %lld, on which the bits of results "
           "depend; -microbatch_size %lld -reduction_leaf %lld fix them",
           (long long)task->microbatch, task->microbatch == 1 ? "" : "s", (long long)task->leaf,
           (long long)task->microbatch, (long long)task->leaf);
  RengaCall(RengaPlanAddReason(plan, RENGA_PLAN_CHOSEN, sentence));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeChosen(RengaPlan from, char **sentence)
{
  const char *topic = "", *text;
  for (int r = 0; topic; r++) {
    RengaCall(RengaPlanGetReason(from, r, &topic, &text));
    if (!topic || strcmp(topic, RENGA_PLAN_CHOSEN)) continue;
    RengaCall(RengaStringCopy(text, sentence));
    return RENGA_SUCCESS;
  }
  return RENGA_SUCCESS;
}

/* In the micro-batches and leaves of the type's own plan. */
static RengaErrorCode TryBesideOne(DegreeTask *task, DegreeChoice *choice)
{
  char *chosen = NULL;
  RengaCall(RengaPlanGetBatch(choice->best.plan, &task->batch, &task->microbatch));
  task->leaf = RengaPlanGetLeaf(choice->best.plan);
  RengaCall(TakeChosen(choice->best.plan, &chosen));
  RengaErrorCode code = TryDegrees(task, choice);
  if (!code && chosen && choice->best.tensor > 1)
    code = RengaPlanAddReason(choice->best.plan, RENGA_PLAN_CHOSEN, chosen);
  RengaFree(&chosen);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RefuseDegrees(const DegreeTask *task, const Degree *one,
                                    const DegreeChoice *choice)
{
  MPI_Comm comm = task->partition->hdr.comm;
  const char *share = RengaGraphShareOption_Private(task->partition->graph);
  char bytes[32];
  const bool fitting = task->searches || choice->smallest == 0;
  RengaCheck(!fitting || !choice->why[0], comm, one->code,
             "%s; nor is there a plan with tensor ranks (%s auto): %s", one->why, share,
             choice->why);
  RengaFormatBytes(choice->least, sizeof bytes, bytes);
  RengaCheck(choice->smallest == 0, comm, RENGA_ERR_MEMORY,
             "%s; of the plans with tensor ranks (%s) the smallest has %d, and needs %s of a "
             "device",
             one->why, share, choice->smallest, bytes);
  RengaCheck(!task->partition->leaves && !task->sizes, comm, one->code,
             "%s; plans with tensor ranks (%s auto) were not looked at, for which %s is not "
             "chosen: give %s",
             one->why, share,
             task->sizes ? "a micro-batch of -partition_microbatch_sizes" : "a leaf",
             task->sizes ? "-microbatch_size" : "-reduction_leaf");
  RengaRaise(comm, one->code, "%s", one->why);
}

static RengaErrorCode ChooseDegree(DegreeTask *task, DegreeChoice *choice)
{
  Degree one;
  RengaCall(SearchDegree(task, 1, &one));
  const bool fits = one.plan;
  TakeDegree(task, &one, choice);
  if (task->searches)
    RengaCall(TryDegrees(task, choice));
  else if (fits)
    RengaCall(TryBesideOne(task, choice));
  else
    RengaCall(TryWithoutOne(task, choice));
  if (!choice->best.plan) RengaCall(RefuseDegrees(task, &one, choice));
  if (!fits && !task->searches) RengaCall(SaySize(task, choice->best.plan));
  RengaCall(RengaPlanAddReason(choice->best.plan, "tensor degrees", choice->text));
  return RENGA_SUCCESS;
}

static RengaErrorCode AreSizesGiven(RengaPartition partition, bool *given)
{
  const char *sizes, *type = partition->hdr.type_name;
  *given = false;
  if (strcmp(type, RENGA_PARTITION_AUTO) && strcmp(type, RENGA_PARTITION_EXACT))
    return RENGA_SUCCESS;
  RengaCall(RengaPartitionAutoGetMicrobatchSizes(partition, &sizes));
  *given = !partition->microbatch && strcmp(sizes, "auto") && strcmp(sizes, "default");
  return RENGA_SUCCESS;
}

/* Links that are no slower than half of those within a node are as good. */
static RengaErrorCode FindNodeOfGroup(DegreeTask *task)
{
  RengaMachine machine;
  const RengaMachineLevel *levels;
  int count = 0, level = 0;
  task->node = task->ranks;
  RengaCall(RengaPartitionGetMachine(task->partition, &machine));
  if (!machine) return RENGA_SUCCESS;
  RengaCall(RengaMachineGetLevels(machine, &count, &levels));
  while (level < count - 1 &&
         (levels[level].devices < 2 ||
          levels[level + 1].bandwidth >= links_alike * levels[level].bandwidth))
    level++;
  if (count) task->node = levels[level].devices;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionChooseTensor_Private(RengaPartition partition, int ranks,
                                                  int64_t batch, int64_t microbatch,
                                                  RengaPlan *plan)
{
  DegreeTask task = {.partition = partition,
                     .ranks = ranks,
                     .batch = batch,
                     .microbatch = microbatch,
                     .leaf = partition->leaf ? partition->leaf : 1,
                     .searches = RengaPartitionSearchesTensor_Private(partition),
                     .begun = MPI_Wtime()};
  DegreeChoice choice = {.least = HUGE_VAL};
  int nodes;
  RengaCall(RengaGraphGetLanes(partition->graph, &task.lanes, &nodes));
  RengaCall(RengaPartitionMemoryBound_Private(partition, &task.memory));
  RengaCall(FindNodeOfGroup(&task));
  RengaCall(AreSizesGiven(partition, &task.sizes));
  if (!strcmp(partition->hdr.type_name, RENGA_PARTITION_EXACT))
    RengaCall(RengaPartitionExactGetTimeLimit(partition, &task.limit));
  const RengaErrorCode code = ChooseDegree(&task, &choice);
  if (code && choice.best.plan) RengaPlanDestroy(&choice.best.plan);
  RengaCall(code);
  RengaCall(RengaPlanDestroy(plan));
  *plan = choice.best.plan;
  return RENGA_SUCCESS;
}
