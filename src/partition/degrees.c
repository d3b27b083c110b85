/* The tensor and the context degree: what the type finds with one rank for each replica of a stage,
   beside what it finds with groups of 2 and more tensor- and context-parallel ranks. A type that
   does not look for these is beside even plans of them, in the micro-batches and leaves of its own
   plan. The fastest that fits is taken. Numbers of tensor ranks are those that divide the ranks, up
   to the lanes, in groups that do not leave a node, unless the links between nodes are nearly as
   good; of each, numbers of context ranks are looked at one after the other while more are faster,
   or nothing fits. Where lanes are open the network is put in as many as ranks of the kind, and one
   rank for each replica computes it in none. A limit on the time is one of all of them. */
#include "degrees.h"
#include "renga/private/wait.h"
#include "renga/private/graph.h"
#include "renga/private/number.h"
#include "renga/private/plan.h"
#include "renga/private/quiet.h"
#include "renga/private/settings.h"
#include "search/search.h"
#include "rengacomm.h"
#include <math.h>
#include <string.h>

/* What is already found is worth more than what is slower by more than this: so much the plan that
   a search begins with, and its estimate of exchanges, may be off. */
static const double degrees_near = 1.02, degrees_near_small = 1.1; /* of few ranks */

/* stages x replicas x ranks of the degree, as type even cuts. */
static RengaErrorCode FillDegreePlan(const DegreeTask *task, const Degree *degree, int stages,
                                     int replicas, RengaPlanStage stage[], RengaPlan plan)
{
  RengaPartition partition = task->partition;
  RengaSettings settings;
  RengaStageShape shape = RengaStageShapePlain(replicas);
  shape.tensor = degree->tensor;
  shape.sequence = degree->context;
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

static RengaErrorCode CutDegreePlan(const DegreeTask *task, const Degree *degree, int stages,
                                    int replicas, RengaPlan plan)
{
  RengaPlanStage *stage = NULL;
  RengaCall(RengaMalloc(stages, &stage));
  const RengaErrorCode code = FillDegreePlan(task, degree, stages, replicas, stage, plan);
  RengaFree(&stage);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* With what a step takes. */
static RengaErrorCode WeighDegreePlan(const DegreeTask *task, const Degree *degree, int stages,
                                      int replicas, RengaPlan made)
{
  MPI_Comm comm = task->partition->hdr.comm;
  RengaPlan cut = NULL;
  RengaErrorCode code = RengaPlanCreate(task->partition->hdr.owner, &cut);
  if (!code) code = CutDegreePlan(task, degree, stages, replicas, cut);
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
  int64_t first = RengaErrorIsReported() ? RengaCommGetRank(comm) : size;
  snprintf(why, DEGREE_TEXT, "%s", RengaErrorGetMessage());
  RengaCall(RengaReduceInt64_Private(task->partition->hdr.comm, MPI_MIN, &first,
                                     "all ranks to say why there is no plan"));
  if (first == size) return RENGA_SUCCESS;
  RengaCall(RengaCommBroadcast(comm, why, DEGREE_TEXT, (int)first, "why there is no plan"));
  return RENGA_SUCCESS;
}

/* What cannot be is no error here, but the reason why there is no plan; others go on. */
static RengaErrorCode TakeRefusal(const DegreeTask *task, RengaErrorCode code, Degree *degree)
{
  const bool fails = code == RENGA_ERR_PLAN || code == RENGA_ERR_MEMORY;
  const bool refused = RengaPartitionIsRefusal_Private(code);
  degree->code = code;
  RengaCall(ShareRefusal(task, degree->why));
  RengaCheck(fails || (refused && RengaDegreeGroup_Private(degree) > 1), task->partition->hdr.comm,
             code, "%s", degree->why);
  return RENGA_SUCCESS;
}

/* The faster of the degree's plan and this one, which it takes or frees. */
static RengaErrorCode TakeDegreePlan(const DegreeTask *task, RengaPlan *made, Degree *degree)
{
  RengaPlanPrediction prediction;
  double most = 0;
  RengaCall(RengaPlanGetPrediction(*made, &prediction));
  RengaCall(RengaPartitionMostOfRank_Private(task->partition, *made, &most));
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
  RengaErrorCode code = WeighDegreePlan(task, degree, stages, replicas, made);
  RengaQuietEnd_Private(&quiet);
  code = RengaPartitionTellFailure_Private(code);
  if (code && !RengaPartitionIsRefusal_Private(code)) {
    RengaPlanDestroy(&made);
    RengaCall(code);
  }
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

/* The network in as many lanes, where they are open; where it cannot be the degree has no plan. */
static RengaErrorCode MakeDegreeGraph(const DegreeTask *task, Degree *degree)
{
  RengaPartition partition = task->partition;
  RengaQuiet quiet;
  int lanes = 1, tokens = 1;
  if (!task->open && !task->tokens_open) return RENGA_SUCCESS;
  RengaCall(RengaGraphGetLanes(partition->graph, &lanes, NULL));
  RengaCall(RengaGraphGetTokenLanes(partition->graph, &tokens, NULL));
  if ((!task->open || lanes == degree->lanes) && (!task->tokens_open || tokens == degree->context))
    return RENGA_SUCCESS;
  RengaQuietBegin_Private(&quiet);
  const RengaErrorCode code =
      RengaGraphInLanes_Private(partition->graph, task->open ? degree->lanes : 0,
                                task->tokens_open ? degree->context : 1, &degree->graph);
  RengaQuietEnd_Private(&quiet);
  const RengaErrorCode agreed = RengaErrorAgree(partition->hdr.comm, code);
  if (agreed == RENGA_ERR_TIMEOUT || agreed == RENGA_ERR_LIBRARY) RengaCall(agreed);
  if (!agreed && degree->graph) return RENGA_SUCCESS;
  if (degree->graph) RengaCall(RengaGraphDestroy(&degree->graph));
  degree->code = RENGA_ERR_PLAN;
  snprintf(degree->why, sizeof degree->why, "%s",
           agreed ? "the network cannot be put in so many lanes"
                  : "the network does not have so many heads and columns, or tokens");
  return RENGA_SUCCESS;
}

/* The type's own plan. */
static RengaErrorCode SolveDegree(const DegreeTask *task, const Degree *degree, RengaPlan *plan)
{
  RengaPartition partition = task->partition;
  RengaQuiet quiet;
  const bool several = RengaDegreeGroup_Private(degree) > 1;
  const int tensor = partition->tensor, context = partition->sequence;
  const int64_t own_microbatch = partition->microbatch, own_leaf = partition->leaf;
  const bool settled = task->settled_microbatch > 0;
  const int64_t microbatch = settled ? task->settled_microbatch : task->microbatch;
  if (settled) partition->microbatch = microbatch;
  if (settled) partition->leaf = task->settled_leaf;
  RengaQuietBegin_Private(&quiet);
  if (task->searches) partition->tensor = degree->tensor;
  if (task->searches) partition->sequence = degree->context;
  partition->compares = task->searches;
  partition->quick = several;
  partition->beat = task->beat;
  partition->beaten = false;
  RengaErrorCode code = LeaveTime(task);
  if (!code)
    code = RengaPartitionPlan_Private(partition, task->ranks, task->batch, microbatch, plan);
  if (task->limit > 0) RengaPartitionExactSetTimeLimit(partition, task->limit);
  partition->microbatch = own_microbatch;
  partition->leaf = own_leaf;
  partition->compares = partition->quick = false;
  partition->beat = 0;
  partition->tensor = tensor;
  partition->sequence = context;
  RengaQuietEnd_Private(&quiet);
  return RengaPartitionTellFailure_Private(code);
}

static RengaErrorCode SearchInGraph(const DegreeTask *task, Degree *degree)
{
  RengaPlanPrediction prediction;
  RengaCall(CreateOnAll(task, &degree->plan));
  task->partition->work = 0;
  RengaErrorCode code = SolveDegree(task, degree, &degree->plan);
  code = RengaErrorAgree(task->partition->hdr.comm, code);
  if (task->partition->work > 0) degree->bound = task->partition->work;
  degree->beaten = !code && task->partition->beaten;
  if (!code && !degree->beaten) code = RengaPlanGetPrediction(degree->plan, &prediction);
  if (!code && !degree->beaten) degree->step = prediction.step;
  if (!code && !degree->beaten) degree->bound = prediction.bound;
  degree->first = task->partition->first;
  if (!code && !degree->beaten && task->chosen && task->settled_microbatch > 0)
    code = RengaErrorAgree(task->partition->hdr.comm,
                           RengaPlanAddReason(degree->plan, RENGA_PLAN_CHOSEN, task->chosen));
  if (degree->beaten) RengaCall(RengaPlanDestroy(&degree->plan));
  if (!code) return RENGA_SUCCESS;
  RengaPlanDestroy(&degree->plan);
  if (!RengaPartitionIsRefusal_Private(code)) RengaCall(code);
  RengaCall(TakeRefusal(task, code, degree));
  return RENGA_SUCCESS;
}

/* All numbers of stages, as far as wishes go. */
static RengaErrorCode TryEvenInGraph(const DegreeTask *task, Degree *degree)
{
  RengaPartition partition = task->partition;
  const int groups = task->ranks / RengaDegreeGroup_Private(degree);
  const int n_nodes = RengaGraphGetNodeCount(partition->graph);
  const int64_t microbatches = (task->batch + task->microbatch - 1) / task->microbatch;
  const int64_t leaves = (microbatches + task->leaf - 1) / task->leaf;
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

/* With the partition's network in the degree's lanes meanwhile. */
static RengaErrorCode LookFor(const DegreeTask *task, const DegreeNumber *number,
                              RengaErrorCode (*look)(const DegreeTask *, Degree *), Degree *degree)
{
  RengaPartition partition = task->partition;
  const RengaGraph own = partition->graph;
  *degree = (Degree){.tensor = number->tensor,
                     .context = number->context,
                     .lanes = number->lanes,
                     .least = HUGE_VAL,
                     .bound = HUGE_VAL};
  RengaCall(MakeDegreeGraph(task, degree));
  if (degree->code) return RENGA_SUCCESS;
  if (degree->graph) partition->graph = degree->graph;
  const RengaErrorCode code = look(task, degree);
  partition->graph = own;
  if (code) RengaDegreeFree_Private(degree);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What there is with so many. Where somebody asks what each takes a search that was given up is
   made again to its end, only to be told of, so that the plan is the same. */
static RengaErrorCode LookAtDegree(DegreeTask *task, bool explains, const DegreeNumber *number,
                                   Degree *degree)
{
  RengaCall(LookFor(task, number, SearchInGraph, degree));
  const double first = degree->first;
  if (!degree->beaten || !explains) return RENGA_SUCCESS;
  task->beat = 0;
  RengaCall(RengaDegreeFree_Private(degree));
  RengaCall(LookFor(task, number, SearchInGraph, degree));
  degree->late = true;
  degree->first = first;
  return RENGA_SUCCESS;
}

/* Without waiting, message or sum all work takes nearly as long as the plan of one tensor rank:
   others are not looked at. */
static bool IsNearWork(const DegreeTask *task, const Degree *one, const DegreeChoice *choice)
{
  const double work = task->partition->work;
  if (!task->open || !one->plan || one->step * (1 - task->gain) > work) return false;
  if (choice->n_numbers < 2) return true;
  RengaTextFormat(
      choice->number[1].said, DEGREE_TEXT,
      "2 and more: not looked at, as the plan with 1 is %.1f %% slower than all work split evenly",
      100 * (one->step / work - 1));
  return true;
}

static RengaErrorCode TakeChosen(RengaPlan from, char **sentence);

/* On many ranks others are searched in the micro-batches and leaves of the plan of one tensor rank
   first: in all of them each number would take as long as this. */
static RengaErrorCode SettleSizes(DegreeTask *task, const Degree *one)
{
  int64_t batch;
  if (!task->open || !one->plan || task->ranks <= PARTITION_RANKS_SMALL) return RENGA_SUCCESS;
  if (task->partition->microbatch && task->partition->leaf) return RENGA_SUCCESS;
  RengaCall(RengaPlanGetBatch(one->plan, &batch, &task->settled_microbatch));
  task->settled_leaf = RengaPlanGetLeaf(one->plan);
  RengaCall(TakeChosen(one->plan, &task->chosen));
  task->one_size = task->partition->one_size;
  return RENGA_SUCCESS;
}

static RengaErrorCode SearchNumber(DegreeTask *task, bool explains, const DegreeNumber *number,
                                   double *least, Degree *degree)
{
  const double near = task->ranks <= PARTITION_RANKS_SMALL ? degrees_near_small : degrees_near;
  task->beat = task->gives_up && isfinite(*least) ? near * *least : 0;
  RengaCall(LookAtDegree(task, explains, number, degree));
  if (degree->plan && !degree->late) *least = fmin(*least, degree->first);
  return RENGA_SUCCESS;
}

/* Of the two numbers of context ranks before it. */
static bool AreMoreSlower(const DegreeNumber *number)
{
  if (number[-2].tensor != number->tensor) return false;
  return number[-1].left_out || (number[-2].step > 0 && number[-1].step > number[-2].step);
}

/* More context ranks of each number of tensor ranks, until more are slower. */
static RengaErrorCode SearchContext(DegreeTask *task, bool explains, double *least,
                                    DegreeChoice *choice)
{
  const int first = choice->n_numbers;
  task->context_chosen = task->context_chosen || (task->tokens_open && !choice->best.plan);
  if (!task->context_chosen) return RENGA_SUCCESS;
  RengaCall(RengaDegreesListContext_Private(task, choice));
  for (int i = first; i < choice->n_numbers; i++) {
    DegreeNumber *number = &choice->number[i];
    Degree degree;
    number->left_out = !explains && i > first + 1 && AreMoreSlower(number);
    if (number->left_out) {
      snprintf(number->said, DEGREE_TEXT,
               "%d x %d: not looked at, as fewer context-parallel ranks are faster", number->tensor,
               number->context);
      continue;
    }
    RengaCall(SearchNumber(task, explains, number, least, &degree));
    RengaCall(RengaDegreeTake_Private(task, &degree, choice));
  }
  return RENGA_SUCCESS;
}

/* Lanes have finer nodes, between which stages may be cut: where a machine is described and the
   plan has few ranks one for each replica is looked at in two of them, too, in all sizes. */
static RengaErrorCode SearchFinerLanes(const DegreeTask *task, bool explains, double *least,
                                       DegreeChoice *choice)
{
  const int context = RengaPartitionContextRanks_Private(task->partition);
  DegreeTask open = *task;
  Degree degree;
  open.settled_microbatch = 0;
  open.chosen = NULL;
  if (!task->open || task->gain > RENGA_DEGREES_GAIN || !choice->best.plan ||
      !RengaHasHardlyMore(RengaPlanGetRankCount(choice->best.plan), PARTITION_RANKS_SMALL))
    return RENGA_SUCCESS;
  RengaCall(RengaDegreesAdd_Private(1, context, 2, choice));
  const DegreeNumber *number = &choice->number[choice->n_numbers - 1];
  RengaCall(SearchNumber(&open, explains, number, least, &degree));
  RengaCall(RengaDegreeTake_Private(task, &degree, choice));
  return RENGA_SUCCESS;
}

/* Groups that leave a node, where nothing fits otherwise: the smallest of them. */
static RengaErrorCode SearchLeftOut(DegreeTask *task, bool explains, double *least,
                                    DegreeChoice *choice)
{
  int last = choice->n_numbers - 1;
  Degree degree;
  while (last > 0 && choice->number[last].tensor <= task->node) last--;
  DegreeNumber *number = &choice->number[last];
  if (choice->best.plan || last < 0 || !number->left_out) return RENGA_SUCCESS;
  number->left_out = false;
  RengaCall(SearchNumber(task, explains, number, least, &degree));
  RengaCall(RengaDegreeTake_Private(task, &degree, choice));
  return RENGA_SUCCESS;
}

/* The number is searched once more; what is said of it stays unless a faster plan is found. */
static RengaErrorCode SearchOnceMore(const DegreeTask *task, int i, DegreeChoice *choice)
{
  const DegreeNumber number = choice->number[i];
  Degree degree;
  RengaCall(LookFor(task, &number, SearchInGraph, &degree));
  const bool faster = degree.plan && degree.step < number.step;
  RengaCall(RengaDegreeTake_Private(task, &degree, choice));
  if (!faster) choice->number[i] = number; /* but for the bound, which is of all of them */
  return RENGA_SUCCESS;
}

/* Of numbers whose plan is near the best all micro-batches and leaves, for what is faster. */
static RengaErrorCode SearchOtherSizes(const DegreeTask *task, DegreeChoice *choice)
{
  DegreeTask open = *task;
  if (!task->settled_microbatch || task->one_size || !choice->best.plan) return RENGA_SUCCESS;
  open.settled_microbatch = 0;
  open.chosen = NULL;
  for (int i = 0; i < choice->n_numbers; i++) {
    const DegreeNumber *number = &choice->number[i];
    if (number->tensor * number->context == 1 || number->step <= 0) continue;
    if (number->step > RENGA_DEGREES_NEAR * choice->best.step) continue;
    open.beat = choice->best.step;
    RengaCall(SearchOnceMore(&open, i, choice));
  }
  return RENGA_SUCCESS;
}

/* What decides the bits of results is never chosen without a word. */
static void FormatSizes(int64_t microbatch, int64_t leaf, size_t size, char text[])
{
  snprintf(text, size,
           "micro-batches of %lld sample%s and leaves of %lld, on which the bits of results "
           "depend; -microbatch_size %lld -partition_leaf %lld fix them",
           (long long)microbatch, microbatch == 1 ? "" : "s", (long long)leaf,
           (long long)microbatch, (long long)leaf);
}

/* The number in micro-batches of the size. *faster: than all before. */
static RengaErrorCode SearchSize(DegreeTask *task, int i, int64_t size, DegreeChoice *choice,
                                 bool *faster)
{
  DegreeTask other = *task;
  char sentence[200];
  const double before = choice->best.step;
  FormatSizes(size, task->settled_leaf, sizeof sentence, sentence);
  other.settled_microbatch = size;
  other.chosen = sentence;
  other.beat = before;
  RengaCall(SearchOnceMore(&other, i, choice));
  *faster = choice->best.step < before;
  if (size > task->larger) task->larger = size;
  if (size < task->smaller) task->smaller = size;
  return RENGA_SUCCESS;
}

/* Twice as many samples as long as that is faster; else half as many. */
static RengaErrorCode WalkSizes(DegreeTask *task, int i, DegreeChoice *choice)
{
  const int64_t first = task->settled_microbatch;
  bool faster = true, any = false;
  for (int64_t size = 2 * first; size <= task->batch && faster; size *= 2) {
    RengaCall(SearchSize(task, i, size, choice, &faster));
    any = any || faster;
  }
  faster = !any;
  for (int64_t size = first; size > 1 && faster;) {
    size = (size + 1) / 2;
    if (task->batch / size > RENGA_MICROBATCHES_MANY) break;
    RengaCall(SearchSize(task, i, size, choice, &faster));
  }
  return RENGA_SUCCESS;
}

/* In a large problem one size of micro-batches is looked at: others with the best number of ranks,
   then with those that are near it. */
static RengaErrorCode SearchNearSizes(DegreeTask *task, DegreeChoice *choice)
{
  int best = 0;
  if (!task->one_size || !choice->best.plan) return RENGA_SUCCESS;
  while (choice->number[best].tensor != choice->best.tensor ||
         choice->number[best].context != choice->best.context ||
         choice->number[best].lanes != choice->best.lanes)
    best++;
  RengaCall(RengaPlanGetBatch(choice->best.plan, &task->batch, &task->settled_microbatch));
  task->settled_leaf = RengaPlanGetLeaf(choice->best.plan);
  task->larger = task->smaller = task->settled_microbatch;
  const double near = RENGA_DEGREES_NEAR_SIZES * choice->best.step;
  RengaCall(WalkSizes(task, best, choice));
  for (int i = 0; i < choice->n_numbers; i++)
    if (i != best && choice->number[i].step > 0 && choice->number[i].step <= near)
      RengaCall(WalkSizes(task, i, choice));
  return RENGA_SUCCESS;
}

static const DegreeNumber *LookedAt(const DegreeChoice *choice, int n)
{
  const DegreeNumber *number = choice->number;
  for (; number->left_out || n > 0; number++) n -= !number->left_out;
  return number;
}

/* All numbers, that of one rank first where lanes are open. Of a long chain on many ranks most of
   the time goes where the plan is slower than another's at last: such a search is given up, by what
   others' were when they had come as far. */
static RengaErrorCode SearchAll(DegreeTask *task, Degree *one, DegreeChoice *choice)
{
  const int first = choice->n_numbers;
  bool explains = task->partition->explains, near = false;
  double least = HUGE_VAL;
  int count = 0;
  RengaCall(RengaCommBroadcast(task->partition->hdr.owner, &explains, sizeof explains, 0,
                               "whether numbers of tensor-parallel ranks are explained"));
  for (int i = 0; i < first; i++) count += !choice->number[i].left_out;
  for (int turn = 0; turn < count && !near; turn++) {
    Degree degree;
    const DegreeNumber *number = LookedAt(choice, RengaDegreesTurn_Private(task, count, turn));
    RengaCall(SearchNumber(task, explains, number, &least, &degree));
    const bool is_one = RengaDegreeGroup_Private(&degree) == 1;
    if (is_one) *one = degree;
    near = is_one && IsNearWork(task, one, choice);
    if (is_one) RengaCall(RengaErrorAgree(task->partition->hdr.comm, SettleSizes(task, one)));
    RengaCall(RengaDegreeTake_Private(task, &degree, choice));
  }
  if (near) return RENGA_SUCCESS;
  RengaCall(SearchLeftOut(task, explains, &least, choice));
  RengaCall(SearchFinerLanes(task, explains, &least, choice));
  RengaCall(SearchContext(task, explains, &least, choice));
  RengaCall(SearchOtherSizes(task, choice));
  RengaCall(SearchNearSizes(task, choice));
  return RENGA_SUCCESS;
}

static RengaErrorCode TryEvenDegrees(const DegreeTask *task, DegreeChoice *choice)
{
  for (int i = 0; i < choice->n_numbers; i++) {
    const DegreeNumber *number = &choice->number[i];
    Degree degree;
    if (number->left_out || number->tensor * number->context == 1) continue;
    RengaCall(LookFor(task, number, TryEvenInGraph, &degree));
    RengaCall(RengaDegreeTake_Private(task, &degree, choice));
  }
  return RENGA_SUCCESS;
}

/* one: what there is with one rank; NULL: that is known. */
static RengaErrorCode TryDegrees(DegreeTask *task, Degree *one, DegreeChoice *choice)
{
  const bool listed = choice->n_numbers > 0;
  if (!listed) RengaCall(RengaDegreesList_Private(task, choice));
  if (task->searches) {
    RengaCall(SearchAll(task, one, choice));
    return RENGA_SUCCESS;
  }
  if (!listed && task->context_chosen) RengaCall(RengaDegreesListContext_Private(task, choice));
  RengaCall(TryEvenDegrees(task, choice));
  return RENGA_SUCCESS;
}

/* Micro-batches that nobody asked for are made smaller until something fits. */
static RengaErrorCode TryWithoutOne(DegreeTask *task, DegreeChoice *choice)
{
  if (task->partition->leaves || task->sizes) return RENGA_SUCCESS; /* a search takes one of them */
  do {
    RengaCall(TryDegrees(task, NULL, choice));
    if (choice->best.plan || task->partition->microbatch || task->microbatch == 1) break;
    task->microbatch = (task->microbatch + 1) / 2;
  } while (true);
  return RENGA_SUCCESS;
}

static RengaErrorCode SaySize(const DegreeTask *task, RengaPlan plan)
{
  char sentence[200];
  if (task->partition->microbatch && task->partition->leaf) return RENGA_SUCCESS;
  FormatSizes(task->microbatch, task->leaf, sizeof sentence, sentence);
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
  RengaErrorCode code = TryDegrees(task, NULL, choice);
  if (!code && chosen && RengaDegreeGroup_Private(&choice->best) > 1)
    code = RengaPlanAddReason(choice->best.plan, RENGA_PLAN_CHOSEN, chosen);
  RengaFree(&chosen);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ChooseEven(DegreeTask *task, Degree *one, DegreeChoice *choice)
{
  RengaCall(
      LookFor(task, &(DegreeNumber){.tensor = 1, .context = 1, .lanes = 1}, SearchInGraph, one));
  const bool fits = one->plan;
  RengaCall(RengaDegreeTake_Private(task, one, choice));
  if (fits)
    RengaCall(TryBesideOne(task, choice));
  else
    RengaCall(TryWithoutOne(task, choice));
  if (!fits && choice->best.plan) RengaCall(SaySize(task, choice->best.plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode ChooseDegree(DegreeTask *task, DegreeChoice *choice)
{
  Degree one = {.tensor = 1, .context = 1, .lanes = 1};
  if (task->searches)
    RengaCall(TryDegrees(task, &one, choice));
  else
    RengaCall(ChooseEven(task, &one, choice));
  if (!choice->best.plan) RengaCall(RengaDegreesRefuse_Private(task, &one, choice));
  RengaCall(RengaDegreesSay_Private(task, choice));
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

/* The partition's graph becomes the other one. What is known of its costs was of what it was. */
static RengaErrorCode TakeGraph(RengaPartition partition, RengaGraph *graph)
{
  RengaGraphExchange_Private(partition->graph, *graph);
  RengaCall(RengaGraphDestroy(graph));
  if (partition->own.profile)
    RengaCall(RengaProfileSetGraph(partition->own.profile, partition->graph));
  if (partition->profile) RengaCall(RengaProfileSetGraph(partition->profile, partition->graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode SayLanes(RengaPlan plan, int count, const char *of, const char *lanes,
                               const char *without)
{
  char sentence[200];
  if (count == 1) return RENGA_SUCCESS;
  snprintf(sentence, sizeof sentence,
           "%d lanes of %s, on which the bits of results depend; %s %d fixes it, %s 1 leaves them "
           "out",
           count, of, lanes, count, without);
  RengaCall(RengaPlanAddReason(plan, RENGA_PLAN_CHOSEN, sentence));
  return RENGA_SUCCESS;
}

/* That of the plan, with what fixes it. */
static RengaErrorCode TakeDegreeGraph(const DegreeTask *task, Degree *best)
{
  if (best->graph) RengaCall(TakeGraph(task->partition, &best->graph));
  if (task->open)
    RengaCall(
        SayLanes(best->plan, best->lanes, "heads and columns", "-graph_lanes", "-graph_lanes"));
  if (task->tokens_open)
    RengaCall(
        SayLanes(best->plan, best->context, "tokens", "-graph_token_lanes", "-layout_context"));
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
  RengaCall(RengaDegreesFindOpen_Private(&task));
  RengaCall(RengaPartitionMemoryBound_Private(partition, &task.memory));
  RengaCall(RengaDegreesFindNode_Private(&task));
  RengaCall(AreSizesGiven(partition, &task.sizes));
  if (!strcmp(partition->hdr.type_name, RENGA_PARTITION_EXACT))
    RengaCall(RengaPartitionExactGetTimeLimit(partition, &task.limit));
  else
    task.gives_up = true;
  RengaErrorCode code = ChooseDegree(&task, &choice);
  RengaFree(&choice.number);
  RengaFree(&task.chosen);
  if (!code) code = TakeDegreeGraph(&task, &choice.best);
  if (code) RengaDegreeFree_Private(&choice.best);
  RengaCall(code);
  RengaCall(RengaPlanDestroy(plan));
  *plan = choice.best.plan;
  return RENGA_SUCCESS;
}

/* Of a plan whose ranks are given, where nothing else says which sizes its bound is of. */
static RengaErrorCode SaySizes(const DegreeTask *task, const DegreeChoice *choice)
{
  RengaPlan plan = choice->best.plan;
  char sentence[96], larger[32] = " alone";
  if (RengaPlanHasReason_Private(plan, "covered")) return RENGA_SUCCESS;
  RengaCall(RengaDegreesTakeBound_Private(choice));
  if (task->smaller < task->larger)
    snprintf(larger, sizeof larger, " to %lld", (long long)task->larger);
  snprintf(sentence, sizeof sentence, "the lower bound is of plans in micro-batches of %lld%s",
           (long long)task->smaller, larger);
  RengaCall(RengaPlanAddReason(plan, "covered", sentence));
  return RENGA_SUCCESS;
}

/* As between numbers of ranks, of which there is one. */
static RengaErrorCode WalkGiven(RengaPartition partition, int ranks, RengaPlan *plan)
{
  const RengaStageShape *shape = &RengaPlanGetStage(*plan, 0)->shape;
  RengaPlanPrediction prediction;
  DegreeTask task = {.partition = partition, .ranks = ranks, .one_size = true};
  RengaCall(RengaPlanGetPrediction(*plan, &prediction));
  RengaCall(RengaPlanGetBatch(*plan, &task.batch, &task.microbatch));
  RengaCall(RengaPartitionMemoryBound_Private(partition, &task.memory));
  DegreeChoice choice = {.best = {.tensor = shape->tensor,
                                  .context = shape->sequence,
                                  .lanes = shape->tensor,
                                  .plan = *plan,
                                  .step = prediction.step,
                                  .bound = prediction.bound},
                         .bound = prediction.bound,
                         .n_bounded = 1};
  RengaCall(RengaDegreesAdd_Private(shape->tensor, shape->sequence, shape->tensor, &choice));
  RengaErrorCode code = SearchNearSizes(&task, &choice);
  RengaFree(&choice.number);
  *plan = choice.best.plan;
  if (!code) code = RengaErrorAgree(partition->hdr.comm, SaySizes(&task, &choice));
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionSearch_Private(RengaPartition partition, int ranks, int64_t batch,
                                            int64_t microbatch, RengaPlan *plan)
{
  if (RengaPartitionChoosesTensor_Private(partition, ranks))
    RengaCall(RengaPartitionChooseTensor_Private(partition, ranks, batch, microbatch, plan));
  else
    RengaCall(RengaPartitionPlan_Private(partition, ranks, batch, microbatch, plan));
  if (partition->one_size && !RengaPlanHasReason_Private(*plan, "covered"))
    RengaCall(WalkGiven(partition, ranks, plan));
  return RENGA_SUCCESS;
}
