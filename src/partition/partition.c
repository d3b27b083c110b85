/* The partition: graph and wishes to plan. What all types share: ranks, replicas, batch. */
#include "partitionimpl.h"
#include "search/search.h"
#include "rengacomm.h"
#include "renga/private/packages.h"
#include <string.h>

enum { DEFAULT_BATCH = 32, DEFAULT_MICROBATCHES = 8, MICROBATCHES_MOST = 1 << 20 };

static const RengaOptionRow rows[] = {
    {"partition_type", RENGA_OPTION_STRING, RENGA_PARTITION_EVEN, RENGA_OPTION_NO_OFFSET,
     "auto|exact|rannc|tree|even|manual", 0, 0,
     "how nodes are shared out: for the fastest step (quickly, or with proof), as RaNNC does, "
     "along the tree of their names, evenly by FLOPs, or at given cuts; the programs take auto "
     "for several devices where neither stages nor replicas are given"},
    {"partition_cuts", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "manual: first node (or value) of stages 1, 2, …, or the node count of each stage"},
    {"partition_even_slack", RENGA_OPTION_REAL, "0.02", RENGA_OPTION_NO_OFFSET, NULL, 0, 10,
     "even: share by which a stage may be over the least largest load, to send fewer bytes"},
    {"partition_tree_memory_weight", RENGA_OPTION_REAL, "0.2", RENGA_OPTION_NO_OFFSET, NULL, 0, 1,
     "tree: share of memory, beside time, in the cost of a subtree"},
    {"partition_rannc_blocks", RENGA_OPTION_INT, "0", RENGA_OPTION_NO_OFFSET, NULL, 0, 1e4,
     "rannc: blocks at most, of which stages are made; 0: as many as stages need"},
    {"partition_microbatch_sizes", RENGA_OPTION_STRING, "auto", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "auto, exact: sizes to choose from: auto, 1,2,4, or default (an eighth of the batch, smaller "
     "if it does not fit)"},
    {"partition_exact_time_limit", RENGA_OPTION_REAL, "60", RENGA_OPTION_NO_OFFSET, NULL, 0, 1e9,
     "exact: seconds for the search; then the best found is taken; 0: any time"},
    {"partition_stages", RENGA_OPTION_INT, "0", offsetof(struct _p_RengaPartition, stages), NULL, 0,
     1e6, "pipeline stages; 0: 1, or ranks / replicas where replicas are given"},
    {"partition_replicas", RENGA_OPTION_INT, "0", offsetof(struct _p_RengaPartition, replicas),
     NULL, 0, 1e6, "copies of each stage; 0: ranks / stages"},
    {"partition_ranks", RENGA_OPTION_INT, "0", offsetof(struct _p_RengaPartition, ranks), NULL, 0,
     1e6, "ranks to plan for; 0: those of this run"},
    {"partition_memory", RENGA_OPTION_BYTES, "0", offsetof(struct _p_RengaPartition, memory), NULL,
     0, 0, "bytes that each device may use; a plan over it is refused; 0: no bound"},
    {"batch_size", RENGA_OPTION_INT64, "0", offsetof(struct _p_RengaPartition, batch), NULL, 0,
     1e12, "samples per step over all replicas; 0: the network file's, or else 32"},
    {"microbatch_size", RENGA_OPTION_INT64, "0", offsetof(struct _p_RengaPartition, microbatch),
     NULL, 0, 1e12,
     "samples per micro-batch; 0: auto and exact choose it, else an eighth of the batch"},
    {"reduction_leaf", RENGA_OPTION_INT64, "0", offsetof(struct _p_RengaPartition, leaf), NULL, 0,
     1e12,
     "micro-batches whose gradients are added in a row: more take fewer buffers; 0: chosen by "
     "types that know costs, else 1"},
    {"partition_leaves", RENGA_OPTION_STRING, NULL, offsetof(struct _p_RengaPartition, leaves),
     NULL, 0, 0,
     "types that know costs: leaves of which the fastest that fits is taken: 1,4,16, or auto, "
     "which is the default"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const RengaTypeRow types[] = {
    {RENGA_PARTITION_MANUAL, RengaPartitionCreate_Manual, NULL},
    {RENGA_PARTITION_EVEN, RengaPartitionCreate_Even, NULL},
    {RENGA_PARTITION_TREE, RengaPartitionCreate_Tree, NULL},
    {RENGA_PARTITION_RANNC, RengaPartitionCreate_Rannc, NULL},
    {RENGA_PARTITION_AUTO, RengaPartitionCreate_Auto, NULL},
    {RENGA_PARTITION_EXACT, RengaPartitionCreate_Exact, NULL},
    {NULL, NULL, NULL},
};

/* Options of one type: to give one to another type is a mistake. */
static const struct {
  const char *option, *type;
} used_by[] = {{"partition_cuts", RENGA_PARTITION_MANUAL},
               {"partition_even_slack", RENGA_PARTITION_EVEN},
               {"partition_tree_memory_weight", RENGA_PARTITION_TREE},
               {"partition_rannc_blocks", RENGA_PARTITION_RANNC},
               {"partition_exact_time_limit", RENGA_PARTITION_EXACT}};

RengaErrorCode RengaPartitionRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Partition", N_ROWS, rows));
  return RENGA_SUCCESS;
}

static RengaErrorCode DestroyType(RengaPartition partition)
{
  if (partition->ops->destroy) RengaCall(partition->ops->destroy(partition));
  partition->ops[0] = (struct _RengaPartitionOps){0};
  RengaFree(&partition->data);
  return RENGA_SUCCESS;
}

static RengaErrorCode Destroy(void *object)
{
  RengaPartition partition = object;
  RengaCall(DestroyType(partition));
  RengaCall(RengaPartitionFreeGiven_Private(partition));
  RengaFree(&partition->load);
  RengaPartitionFreeReadings_Private(partition);
  RengaCall(RengaOptionsFreeStrings(N_ROWS, rows, partition));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionRegister - add a type of partition from outside

   Not collective (the same on all ranks)

   Input:
   . rule - kept, not copied, until the program ends: its name, and the function that cuts

   Errors: a name that another type has. Cuts that do not rise are errors of RengaPartitionSolve.

   Notes: before RengaInitialize, so that -partition_type may choose it. The function is called on
   all ranks and must give all of them the same cuts. Replicas, micro-batches and what a plan
   predicts are Renga's, as with type even.
@*/
RengaErrorCode RengaPartitionRegister(const RengaPartitionRule *rule)
{
  RengaCheckPointer(rule);
  RengaCheck(rule->cut, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the partition %s needs a function that cuts",
             rule->name ? rule->name : "without a name");
  RengaCall(RengaTypeRegister_Private("RengaPartition", types, "partition_type", rule->name, rule));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionCreate - make a partition of the default type, even

   Collective

   Input:
   . comm - the ranks that are to be shared out

   Output:
   . partition - to be freed with RengaPartitionDestroy()
@*/
RengaErrorCode RengaPartitionCreate(RengaComm comm, RengaPartition *partition)
{
  RengaCheckPointer(comm);
  RengaCheckPointer(partition);
  RengaPartition made;
  RengaCall(RengaHeaderCreate(comm, "RengaPartition", sizeof *made, Destroy, &made));
  const RengaErrorCode code = RengaPartitionSetType(made, RENGA_PARTITION_EVEN);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *partition = made;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetGraph - say which network is to be cut

   Collective

   Input:
   . partition - the partition
   . graph - the network, set up; borrowed until the partition is freed
@*/
RengaErrorCode RengaPartitionSetGraph(RengaPartition partition, RengaGraph graph)
{
  RengaCheckPointer(partition);
  RengaCheckPointer(graph);
  partition->graph = graph;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetType - choose how nodes are shared out

   Collective

   Input:
   . partition - the partition
   . type - auto, exact, rannc, tree, even, manual or one of RengaPartitionRegister
@*/
RengaErrorCode RengaPartitionSetType(RengaPartition partition, const char *type)
{
  const RengaTypeRow *row = NULL;
  RengaCheckPointer(partition);
  RengaCheckPointer(type);
  const RengaPartitionRule *rule = RengaTypeOutside_Private("RengaPartition", type);
  if (!rule) RengaCall(RengaTypeFind("RengaPartition", types, type, &row));
  RengaCall(DestroyType(partition));
  if (rule)
    RengaCall(RengaPartitionCreateOutside_Private(partition, rule));
  else
    RengaCall(row->create(partition));
  RengaCall(RengaHeaderSetTypeName(partition, type));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetStages - number of pipeline stages

   Collective

   Input:
   . partition - the partition
   . stages - at least 1; 0: 1, or ranks / replicas where the replicas are set

   Options:
   . -partition_stages - the number
@*/
RengaErrorCode RengaPartitionSetStages(RengaPartition partition, int stages)
{
  RengaCheckPointer(partition);
  RengaCheck(stages >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "%d stages", stages);
  partition->stages = stages;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetReplicas - number of copies of each stage

   Collective

   Input:
   . partition - the partition
   . replicas - at least 1; 0: ranks / stages

   Options:
   . -partition_replicas - the number
@*/
RengaErrorCode RengaPartitionSetReplicas(RengaPartition partition, int replicas)
{
  RengaCheckPointer(partition);
  RengaCheck(replicas >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "%d replicas", replicas);
  partition->replicas = replicas;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetRanks - how many ranks to plan for

   Collective

   Input:
   . partition - the partition
   . ranks - their number, which may differ from this run's; 0: the ranks of the communicator

   Options:
   . -partition_ranks - the number
@*/
RengaErrorCode RengaPartitionSetRanks(RengaPartition partition, int ranks)
{
  RengaCheckPointer(partition);
  RengaCheck(ranks >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "%d ranks", ranks);
  partition->ranks = ranks;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetMemory - what each device may use

   Collective

   Input:
   . partition - the partition
   . bytes - per device; 0: no bound

   Options:
   . -partition_memory - the bound, such as 8GiB

   Notes: the plan carries it, and RengaPipelineSetUp(), which knows the memory of each stage,
   refuses a plan that is over it.
@*/
RengaErrorCode RengaPartitionSetMemory(RengaPartition partition, int64_t bytes)
{
  RengaCheckPointer(partition);
  RengaCheck(bytes >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "a memory of %lld bytes",
             (long long)bytes);
  partition->memory = bytes;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetBatch - samples per step and per micro-batch

   Collective

   Input:
   . partition - the partition
   . batch - samples of a step over all replicas; 0: the network file's, or else 32
   . microbatch - samples of a micro-batch; 0: types auto and exact choose it
     (RengaPartitionAutoSetMicrobatchSizes()), for others an eighth of the batch, rounded up

   Options:
   . -batch_size - samples of a step
   . -microbatch_size - samples of a micro-batch

   Notes: results depend on the micro-batch, so that one that is given is kept; the eighth depends
   on no ranks and no layout.
@*/
RengaErrorCode RengaPartitionSetBatch(RengaPartition partition, int64_t batch, int64_t microbatch)
{
  RengaCheckPointer(partition);
  RengaCheck(batch >= 0 && microbatch >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT,
             "a batch of %lld in micro-batches of %lld samples", (long long)batch,
             (long long)microbatch);
  partition->batch = batch;
  partition->microbatch = microbatch;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetLeaf - micro-batches whose gradients are added one after the other

   Collective

   Input:
   . partition - the partition
   . leaf - their number, a leaf of the sum of gradients (RengaPlanSetLeaf()); 0: what the plan's
     file says, or one of RengaPartitionSetLeaves() where the type knows costs, or 1

   Options:
   . -reduction_leaf - the number
@*/
RengaErrorCode RengaPartitionSetLeaf(RengaPartition partition, int64_t leaf)
{
  RengaCheckPointer(partition);
  RengaCheck(leaf >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "leaves of %lld micro-batches",
             (long long)leaf);
  partition->leaf = leaf;
  return RENGA_SUCCESS;
}

/* A plan from a file says all that these say: to ask for both is a mistake. */
static RengaErrorCode CheckLoadAlone(RengaPartition partition)
{
  const char *const names[] = {"partition_type", "partition_cuts", "partition_stages",
                               "partition_replicas", "partition_leaves"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(names[i], &text, &given));
    RengaCheck(!given, partition->hdr.comm, RENGA_ERR_OPTION,
               "-plan_load and -%s are both given, but the file says it already: leave one out",
               names[i]);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckType(RengaPartition partition)
{
  RengaCheck(!partition->leaf || !partition->leaves, partition->hdr.comm, RENGA_ERR_OPTION,
             "-reduction_leaf %lld and -partition_leaves %s are both given: leave one out",
             (long long)partition->leaf, partition->leaves);
  for (size_t i = 0; i < sizeof used_by / sizeof used_by[0]; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(used_by[i].option, &text, &given));
    RengaCheck(!given || !strcmp(used_by[i].type, partition->hdr.type_name), partition->hdr.comm,
               RENGA_ERR_OPTION, "-%s is for -partition_type %s, but the type is %s",
               used_by[i].option, used_by[i].type, partition->hdr.type_name);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetFromOptions - take what the user asked for

   Collective

   Input:
   . partition - the partition

   Options:
   . -partition_type - auto, exact, rannc, tree, even or manual
   . -partition_cuts - manual: where stages begin
   . -partition_even_slack - even: how far a stage may be over the least largest load
   . -partition_rannc_blocks - rannc: blocks of which stages are made
   . -partition_tree_memory_weight - tree: how much memory counts beside time
   . -partition_stages, -partition_replicas, -partition_ranks, -partition_memory - numbers
   . -batch_size, -microbatch_size - samples
   . -reduction_leaf, -partition_leaves - micro-batches whose gradients are added in a row
   . -plan_load - a file to take the plan from; samples and leaf that are given win over its own
   . -machine_file, -profile_type, … - those of machine, profile and settings where none were set

   Notes: options that contradict each other are errors.
@*/
RengaErrorCode RengaPartitionSetFromOptions(RengaPartition partition)
{
  const char *type = NULL, *load = NULL;
  bool given = false;
  RengaCheckPointer(partition);
  RengaCall(RengaOptionsSetFromDatabase(partition->hdr.prefix, N_ROWS, rows, partition));
  RengaCall(RengaOptionsGetString("partition_type", &type, &given));
  if (given) RengaCall(RengaPartitionSetType(partition, type));
  RengaCall(CheckType(partition));
  RengaCall(RengaPartitionTakeGiven_Private(partition));
  RengaCall(partition->ops->set_from_options(partition));
  RengaCall(RengaOptionsGetString("plan_load", &load, &given));
  if (!given) return RENGA_SUCCESS;
  RengaCall(CheckLoadAlone(partition));
  RengaCall(RengaPartitionSetPlanFile(partition, load));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWishes(RengaPartition partition, int ranks, int stages, int replicas)
{
  MPI_Comm comm = partition->hdr.comm;
  int n_nodes = RengaGraphGetNodeCount(partition->graph);
  RengaCheck(stages <= n_nodes, comm, RENGA_ERR_PLAN,
             "%d stages, but the network has only %d nodes: ask for fewer stages", stages, n_nodes);
  RengaCheck(
      stages <= ranks, comm, RENGA_ERR_PLAN,
      "%d stages need at least %d ranks, but there are %d: start more ranks or ask for fewer "
      "stages",
      stages, stages, ranks);
  RengaCheck(replicas <= ranks, comm, RENGA_ERR_PLAN,
             "%d replicas need at least %d ranks, but there are %d: start more ranks or ask for "
             "fewer replicas",
             replicas, replicas, ranks);
  RengaCheck((int64_t)stages * replicas <= ranks, comm, RENGA_ERR_PLAN,
             "%d stages x %d replicas need %lld ranks, but there are %d: start more ranks or ask "
             "for fewer stages or replicas",
             stages, replicas, (long long)stages * replicas, ranks);
  return RENGA_SUCCESS;
}

/* A step that no schedule could be made of in a reasonable time. */
RengaErrorCode RengaPartitionCheckMicrobatches_Private(RengaPartition partition, int64_t batch,
                                                       int64_t microbatch)
{
  const int64_t count = (batch - 1) / microbatch + 1;
  RengaCheck(count <= MICROBATCHES_MOST, partition->hdr.comm, RENGA_ERR_PLAN,
             "a step of %lld samples in micro-batches of %lld has %lld micro-batches, more than "
             "the %d that can be planned: give a -microbatch_size of %lld or more",
             (long long)batch, (long long)microbatch, (long long)count, (int)MICROBATCHES_MOST,
             (long long)((batch - 1) / MICROBATCHES_MOST + 1));
  return RENGA_SUCCESS;
}

/* Leaves of a step: more replicas than these have nothing to do. */
static int64_t CountLeaves(RengaPartition partition, int64_t batch, int64_t microbatch)
{
  const int64_t count = (batch + microbatch - 1) / microbatch;
  const int64_t leaf = partition->leaf ? partition->leaf : 1;
  return (count + leaf - 1) / leaf;
}

/* Before a search, which would find no layout and could not say why. The size of a micro-batch that
   is not given may be made as small as a sample. */
static RengaErrorCode CheckReplicas(RengaPartition partition, int64_t batch, int64_t microbatch)
{
  const int64_t least = partition->microbatch ? microbatch : 1;
  const int64_t leaves = CountLeaves(partition, batch, least);
  RengaCheck(partition->replicas <= leaves, partition->hdr.comm, RENGA_ERR_PLAN,
             "%d replicas, but a step of %lld samples in micro-batches of %lld makes only %lld "
             "parts, and each replica needs one: ask for fewer replicas, a larger -batch_size or "
             "a smaller -microbatch_size",
             partition->replicas, (long long)batch, (long long)least, (long long)leaves);
  return RENGA_SUCCESS;
}

/* The number of stages and replicas that are not given, and whether all fits. Where replicas are
   not given, those that would have no micro-batch are left out. */
static RengaErrorCode ChooseLayout(RengaPartition partition, int ranks, int64_t leaves, int *stages,
                                   int *replicas)
{
  int own = 0, n_nodes = RengaGraphGetNodeCount(partition->graph);
  RengaCall(partition->ops->count(partition, &own));
  *stages = own ? own : partition->stages;
  *replicas = partition->replicas;
  RengaCheck(!own || !partition->stages || own == partition->stages, partition->hdr.comm,
             RENGA_ERR_PLAN, "the cuts make %d stages, but %d stages are asked for", own,
             partition->stages);
  RengaCall(CheckWishes(partition, ranks, *stages, *replicas));
  if (!*stages) *stages = *replicas ? ranks / *replicas : 1;
  if (*stages > n_nodes) *stages = n_nodes;
  if (!*replicas) *replicas = ranks / *stages < leaves ? ranks / *stages : (int)leaves;
  return RENGA_SUCCESS;
}

static RengaErrorCode FindBatch(RengaPartition partition, int64_t *batch, int64_t *microbatch)
{
  *batch = partition->batch;
  *microbatch = partition->microbatch;
  if (!*batch) RengaCall(RengaGraphGetFileBatch(partition->graph, batch));
  if (!*batch) *batch = DEFAULT_BATCH;
  if (!*microbatch) *microbatch = (*batch + DEFAULT_MICROBATCHES - 1) / DEFAULT_MICROBATCHES;
  return RENGA_SUCCESS;
}

static RengaErrorCode Cut(RengaPartition partition, int ranks, int64_t leaves, RengaPlan plan)
{
  int count = 0, replicas = 0;
  RengaPlanStage *stages = NULL;
  RengaCall(ChooseLayout(partition, ranks, leaves, &count, &replicas));
  RengaCall(RengaMalloc(count, &stages));
  RengaErrorCode code = partition->ops->solve(partition, count, stages);
  for (int s = 0; s < count; s++) stages[s].shape = RengaStageShapePlain(replicas);
  if (!code) code = RengaPlanSetStages(plan, partition->graph, count, stages);
  RengaFree(&stages);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Make(RengaPartition partition, int ranks, RengaPlan plan)
{
  int64_t batch, microbatch;
  RengaMachine machine;
  RengaCall(FindBatch(partition, &batch, &microbatch));
  RengaCall(RengaPartitionCheckMicrobatches_Private(partition, batch, microbatch));
  RengaCall(RengaPartitionGetMachine(partition, &machine));
  if (partition->ops->plan || machine || partition->profile)
    RengaCall(CheckReplicas(partition, batch, microbatch));
  if (partition->ops->plan) {
    RengaCall(CheckWishes(partition, ranks, partition->stages, partition->replicas));
    RengaCall(partition->ops->plan(partition, ranks, batch, microbatch, plan));
  } else if (machine || partition->profile) { /* else a plan that only cuts has no prediction */
    int stages = 0;
    RengaCall(partition->ops->count(partition, &stages));
    if (!stages) stages = partition->stages;
    RengaCall(CheckWishes(partition, ranks, stages, partition->replicas));
    RengaCall(RengaSearchCuts_Private(partition, ranks, batch, microbatch, plan));
  } else {
    RengaCheck(!partition->leaves, partition->hdr.comm, RENGA_ERR_OPTION,
               "-partition_leaves %s: type %s does not know which is faster without costs: give "
               "-reduction_leaf, or -machine_file",
               partition->leaves, partition->hdr.type_name);
    RengaCall(Cut(partition, ranks, CountLeaves(partition, batch, microbatch), plan));
    RengaCall(RengaPlanSetBatch(plan, batch, microbatch));
    if (partition->leaf) RengaCall(RengaPlanSetLeaf(plan, partition->leaf));
  }
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSolve - make the plan

   Collective

   Input:
   . partition - the partition, with its graph

   Output:
   . plan - the caller frees it with RengaPlanDestroy()

   Notes: an error says with numbers what does not fit. Ranks that are left over are idle; the view
   of the plan names them.
@*/
RengaErrorCode RengaPartitionSolve(RengaPartition partition, RengaPlan *plan)
{
  RengaPlan made = NULL;
  RengaCheckPointer(partition);
  RengaCheckPointer(plan);
  RengaCheck(partition->graph, MPI_COMM_SELF, RENGA_ERR_ORDER,
             "RengaPartition has no graph: call RengaPartitionSetGraph first");
  int ranks = partition->ranks ? partition->ranks : RengaCommGetSize(partition->hdr.owner);
  RengaCall(RengaErrorAgree(partition->hdr.comm, RengaPlanCreate(partition->hdr.owner, &made)));
  RengaErrorCode code = partition->load ? RengaPartitionLoad_Private(partition, ranks, made)
                                        : Make(partition, ranks, made);
  if (!code && RengaPlanGetLeaf(made) > 1) code = RengaPlanCheck(made, partition->graph, 0);
  if (!code) code = RengaPlanSetAvailableRanks(made, ranks);
  if (!code) code = RengaPlanSetMemoryLimit(made, partition->memory);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (code) RengaPlanDestroy(&made);
  RengaCall(code);
  partition->hdr.state = RENGA_STATE_SOLVED;
  *plan = made;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionView - show what is asked for

   Collective

   Input:
   . partition - the partition
   . viewer - where to
@*/
RengaErrorCode RengaPartitionView(RengaPartition partition, RengaViewer viewer)
{
  char memory[32] = "no bound";
  RengaCheckPointer(partition);
  RengaCheckPointer(viewer);
  if (partition->memory) RengaFormatBytes((double)partition->memory, sizeof memory, memory);
  RengaCall(RengaViewerPrintf(viewer,
                              "partition %s: stages %d, replicas %d, ranks %d (0: chosen); memory "
                              "of a device: %s\n",
                              partition->hdr.type_name, partition->stages, partition->replicas,
                              partition->ranks, memory));
  if (partition->load) RengaCall(RengaViewerPrintf(viewer, "  plan from %s\n", partition->load));
  RengaCall(partition->ops->view(partition, viewer));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionDestroy - free a partition

   Collective

   Input:
   . partition - the partition; set to NULL
@*/
RengaErrorCode RengaPartitionDestroy(RengaPartition *partition)
{
  RengaCall(RengaHeaderDestroy(partition));
  return RENGA_SUCCESS;
}
