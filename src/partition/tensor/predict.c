/* The fastest of the layouts that a user leaves open, and its plan. */
#include "layout.h"
#include "../partitionimpl.h"
#include "renga/private/graph.h"
#include "rengaoptimizer.h"

static const int64_t tensor_microbatches[] = {1, 2, 4, 8, 16};
enum { CHUNKS_MOST = 8, TURNS = 6 };
#define NONE_TRIED INT64_MAX

/* What is the same for all layouts that are compared. */
typedef struct {
  TensorPrediction made; /* the layout that is looked at */
  TensorPrediction best; /* of those that fit; memory 0: none yet */
  int64_t over;          /* bytes by which the last one does not fit, or NONE_TRIED */
  int64_t least;         /* bytes of the device that one was nearest to fit on; 0: none yet */
  bool shaped, cut;      /* some stages take the chunks; and some the batch, in micro-batches */
  bool *saved;
  RengaProfileCost *cost;
  int64_t costed; /* samples of these costs */
  RengaTensorLayout wish;
  int64_t devices, memory, tried;
} TensorSearch;

static RengaErrorCode FindTensorCosts(TensorSearch *search)
{
  const int64_t samples = search->made.layout.microbatch;
  if (search->costed == samples) return RENGA_SUCCESS;
  RengaCall(RengaProfileGetCosts(search->made.profile, samples, search->cost));
  search->costed = samples;
  return RENGA_SUCCESS;
}

/* The first rank keeps most micro-batches. */
static double MostFlight(const TensorPrediction *made)
{
  const int p = made->layout.stages, v = made->layout.chunks;
  const double flight = v == 1 ? p : p + (p - 1.0) / v;
  return flight < (double)made->rounds ? flight : (double)made->rounds;
}

static int64_t ResidentBytes(const TensorPrediction *made)
{
  const RengaStorage *storage = &made->storage;
  const int64_t value = (int64_t)RengaDataTypeSize(storage->value);
  const int64_t master =
      storage->master == storage->value ? 0 : (int64_t)RengaDataTypeSize(storage->master);
  const int64_t moments = made->moments * (int64_t)RengaDataTypeSize(storage->moment);
  const int64_t shares = made->shard ? made->layout.replicas : 1;
  return value + (int64_t)RengaDataTypeSize(storage->gradient) + (master + moments) / shares;
}

static RengaErrorCode ChooseCosts(TensorSearch *search, int64_t bound, bool *fits)
{
  TensorPrediction *made = &search->made;
  const int p = made->layout.stages;
  const TensorStage stage = {.graph = made->graph,
                             .profile = made->profile,
                             .machine = made->machine,
                             .repeat = made->repeat,
                             .saved = search->saved,
                             .cost = search->cost,
                             .ranks = made->layout.tensor,
                             .layers = (made->repeat.count + p - 1) / p,
                             .samples = made->layout.microbatch,
                             .rounds = made->rounds,
                             .flight = MostFlight(made),
                             .resident = ResidentBytes(made),
                             .bound = bound,
                             .recompute = made->layout.recompute,
                             .split = made->layout.split};
  RengaCall(RengaTensorChoose_Private(&stage, fits, &made->costs));
  return RENGA_SUCCESS;
}

static void NoteLeast(TensorSearch *search, int64_t bytes)
{
  if (bytes > 0 && (search->least == 0 || bytes < search->least)) search->least = bytes;
}

/* No schedule is shorter than the work of its busiest rank. */
static double BusiestSeconds(const TensorPrediction *made)
{
  const TensorPart *part = made->costs.part;
  const double layers = (double)made->repeat.count / made->layout.stages;
  return (double)made->rounds * layers * (part[TENSOR_LAYER].forward + part[TENSOR_LAYER].backward);
}

static RengaErrorCode TryChoice(TensorSearch *search)
{
  TensorPrediction *made = &search->made;
  const int chunks = made->layout.chunks;
  made->chunks = made->layout.stages * chunks;
  made->schedule = chunks > 1 ? RENGA_SCHEDULE_INTERLEAVED : RENGA_SCHEDULE_1F1B;
  search->over = NONE_TRIED;
  if (search->best.memory && BusiestSeconds(made) >= search->best.seconds.step)
    return RENGA_SUCCESS;
  RengaCall(RengaTensorSimulate_Private(made));
  search->tried++;
  NoteLeast(search, made->memory);
  search->over = made->memory - search->memory;
  if (search->over > 0) return RENGA_SUCCESS;
  if (!search->best.memory || made->seconds.step < search->best.seconds.step) search->best = *made;
  return RENGA_SUCCESS;
}

/* The choice that is there, if one is, and narrower ones while it does not fit. *bound: under which
   it was made, of the choice's own bytes: what a node works with comes on top. */
static RengaErrorCode TryChunks(TensorSearch *search, int chunks, int64_t *bound, bool *chosen)
{
  TensorPrediction *made = &search->made;
  made->layout.chunks = chunks;
  for (int turn = 0; turn < TURNS; turn++) {
    if (turn > 0 || !*chosen) {
      const TensorCosts last = made->costs;
      bool fits;
      RengaCall(ChooseCosts(search, *bound, &fits));
      if (!fits) {
        NoteLeast(search, made->costs.least);
        made->costs = last;
        return RENGA_SUCCESS;
      }
    }
    *chosen = true;
    RengaCall(TryChoice(search));
    if (search->over <= 0 || search->over == NONE_TRIED) break;
    *bound -= search->over + search->memory / 50;
  }
  return RENGA_SUCCESS;
}

/* With several on each rank layers and micro-batches must come out even. They keep more than one
   does, so that what is chosen for one is the fastest for them where it fits, and does not fit them
   where it fits none. */
static RengaErrorCode TryRecompute(TensorSearch *search, RengaRecompute recompute)
{
  TensorPrediction *made = &search->made;
  const int p = made->layout.stages, layers = made->repeat.count;
  int64_t bound = search->memory;
  bool chosen = false;
  made->layout.recompute = recompute;
  RengaCall(TryChunks(search, search->wish.chunks ? search->wish.chunks : 1, &bound, &chosen));
  const TensorCosts costs = made->costs;
  const bool fits = chosen && (search->over <= 0 || search->over == NONE_TRIED);
  if (!fits || search->wish.chunks || p == 1 || made->rounds % p) return RENGA_SUCCESS;
  for (int v = 2; v <= CHUNKS_MOST; v++) {
    int64_t own = bound;
    made->costs = costs;
    if (layers % (p * v) == 0) RengaCall(TryChunks(search, v, &own, &chosen));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TryMicrobatch(TensorSearch *search, int64_t samples)
{
  TensorPrediction *made = &search->made;
  const int64_t group = samples * made->layout.replicas;
  const RengaRecompute wish = search->wish.recompute;
  if (made->layout.batch % group) return RENGA_SUCCESS;
  made->layout.microbatch = samples;
  made->rounds = made->layout.batch / group;
  search->cut = true;
  RengaCall(FindTensorCosts(search));
  static const RengaRecompute all[] = {RENGA_RECOMPUTE_NONE, RENGA_RECOMPUTE_SELECTIVE,
                                       RENGA_RECOMPUTE_FULL};
  for (int r = 0; r < (int)(sizeof all / sizeof all[0]); r++)
    if (wish == RENGA_RECOMPUTE_AUTO || wish == all[r]) RengaCall(TryRecompute(search, all[r]));
  return RENGA_SUCCESS;
}

/* Parts of a pipeline have a layer each; ranks with several of them are at least two. */
static bool TakesChunks(const TensorSearch *search, int stages)
{
  const int chunks = search->wish.chunks;
  return chunks <= 1 || (stages > 1 && (int64_t)stages * chunks <= search->made.repeat.count);
}

static RengaErrorCode TryStages(TensorSearch *search, int stages)
{
  TensorPrediction *made = &search->made;
  const int64_t group = (int64_t)stages * made->layout.tensor;
  const int64_t replicas = search->wish.replicas ? search->wish.replicas : search->devices / group;
  if (replicas < 1 || replicas * group > search->devices) return RENGA_SUCCESS;
  if (!TakesChunks(search, stages)) return RENGA_SUCCESS;
  search->shaped = true;
  if (made->layout.batch < replicas) return RENGA_SUCCESS;
  made->layout.stages = stages;
  made->layout.replicas = (int)replicas;
  if (search->wish.microbatch) {
    RengaCall(TryMicrobatch(search, search->wish.microbatch));
    return RENGA_SUCCESS;
  }
  for (size_t i = 0; i < sizeof tensor_microbatches / sizeof *tensor_microbatches; i++)
    RengaCall(TryMicrobatch(search, tensor_microbatches[i]));
  return RENGA_SUCCESS;
}

static RengaErrorCode TryAllStages(TensorSearch *search)
{
  const int layers = search->made.repeat.count;
  if (search->wish.stages) {
    RengaCall(TryStages(search, search->wish.stages));
    return RENGA_SUCCESS;
  }
  for (int p = 1; p <= layers || p == 1; p++)
    if (p == 1 || layers % p == 0) RengaCall(TryStages(search, p));
  return RENGA_SUCCESS;
}

/* What goes with no number of tensor ranks, or with none on this machine. */
static RengaErrorCode CheckTensorLayout(const TensorSearch *search)
{
  const TensorPrediction *made = &search->made;
  const RengaTensorLayout *wish = &search->wish;
  const int stages = wish->stages ? wish->stages : 1,
            replicas = wish->replicas ? wish->replicas : 1;
  const int64_t asked = (int64_t)stages * replicas * wish->tensor;
  const int64_t group = wish->microbatch * replicas;
  const int64_t chunks = (int64_t)stages * (wish->chunks ? wish->chunks : 1);
  RengaCheck(asked <= search->devices, made->printer, RENGA_ERR_ARGUMENT,
             "%d stages x %d replicas x %d tensor ranks need %lld devices, but the machine has "
             "%lld: give more -machine_nodes",
             stages, replicas, wish->tensor, (long long)asked, (long long)search->devices);
  RengaCheck(chunks <= made->repeat.count || chunks == 1, made->printer, RENGA_ERR_ARGUMENT,
             "%lld parts of the pipeline, but the network has %d layers that are alike, and tensor "
             "ranks are predicted for whole layers: ask for fewer stages or chunks",
             (long long)chunks, made->repeat.count);
  RengaCheck(wish->stages != 1 || wish->chunks <= 1, made->printer, RENGA_ERR_ARGUMENT,
             "%d chunks on each rank of a pipeline that has one stage only: ask for more stages, "
             "or for 1 chunk",
             wish->chunks);
  RengaCheck(group == 0 || wish->batch % group == 0, made->printer, RENGA_ERR_ARGUMENT,
             "a batch of %lld is no whole number of micro-batches of %lld on %d replicas",
             (long long)wish->batch, (long long)wish->microbatch, replicas);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadStorage(RengaPartition partition, TensorPrediction *made)
{
  RengaSettings settings;
  RengaOptimizer optimizer;
  RengaShard shard;
  const char *const *names;
  RengaCall(RengaPartitionGetSettings(partition, &settings));
  RengaCall(RengaSettingsGetOptimizer(settings, &optimizer));
  RengaCall(RengaOptimizerGetMoments(optimizer, &made->moments, &names));
  RengaCall(RengaSettingsGetShard(settings, &shard));
  made->shard = shard == RENGA_SHARD_OPTIMIZER;
  RengaCheck(shard <= RENGA_SHARD_OPTIMIZER, made->printer, RENGA_ERR_SUPPORT,
             "replicas that share their %s are not predicted with tensor ranks: give "
             "-pipeline_shard optimizer, or none",
             RengaShardName(shard));
  RengaCall(RengaGraphGetPrecision(made->graph, &made->precision));
  RengaCall(RengaPrecisionGetStorage(made->precision, &made->storage));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckTensorNumbers(MPI_Comm printer, const RengaTensorLayout *layout)
{
  RengaCheck(layout->tensor >= 1 && layout->batch >= 1 && layout->stages >= 0 &&
                 layout->replicas >= 0 && layout->chunks >= 0 && layout->microbatch >= 0,
             printer, RENGA_ERR_ARGUMENT,
             "a layout of %d stages, %d replicas, %d tensor ranks and a batch of %lld",
             layout->stages, layout->replicas, layout->tensor, (long long)layout->batch);
  RengaCheck(RengaRecomputeName(layout->recompute), printer, RENGA_ERR_ARGUMENT,
             "%d is no RengaRecompute", (int)layout->recompute);
  RengaCheck((unsigned)layout->split <= RENGA_TENSOR_SPLIT_FEATURES, printer, RENGA_ERR_ARGUMENT,
             "%d is no kind of split: 0 (auto) to %d (features)", (int)layout->split,
             (int)RENGA_TENSOR_SPLIT_FEATURES);
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginSearch(RengaPartition partition, const RengaTensorLayout *layout,
                                  TensorSearch *search)
{
  TensorPrediction *made = &search->made;
  double memory;
  *search = (TensorSearch){.wish = *layout};
  made->layout = *layout;
  RengaCall(RengaPartitionGetGraph(partition, &made->graph));
  RengaCall(RengaObjectGetComm(partition, &made->printer));
  RengaCall(RengaPartitionGetMachine(partition, &made->machine));
  RengaCall(RengaPartitionGetProfile(partition, &made->profile));
  RengaCheck(made->graph && made->machine && made->profile, made->printer, RENGA_ERR_ORDER,
             "a prediction with tensor ranks needs a network, a machine and analytic costs: give "
             "-graph and -machine_file");
  RengaCall(CheckTensorNumbers(made->printer, layout));
  int lanes, in_lanes;
  RengaCall(RengaGraphGetLanes(made->graph, &lanes, &in_lanes));
  RengaCheck(lanes == 1, made->printer, RENGA_ERR_SUPPORT,
             "a prediction with tensor ranks splits the network by itself: leave %s %d out",
             RengaGraphLanesOption_Private(made->graph), lanes);
  RengaCall(ReadStorage(partition, made));
  RengaCall(RengaMachineGetDeviceCount(made->machine, &search->devices));
  RengaCall(RengaPartitionMemoryBound_Private(partition, &memory));
  search->memory = (int64_t)memory;
  RengaCall(RengaTensorFindRepeat_Private(made->graph, &made->repeat));
  RengaCall(CheckTensorLayout(search));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunSearch(TensorSearch *search)
{
  RengaGraph graph = search->made.graph;
  RengaCall(RengaProfileSetGraph(search->made.profile, graph));
  RengaCall(RengaMalloc(RengaGraphGetValueCount(graph) + 1, &search->saved));
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(graph) + 1, &search->cost));
  RengaCall(RengaTensorFindSaved_Private(graph, search->saved));
  RengaCall(TryAllStages(search));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSomeFits(const TensorSearch *search)
{
  const RengaTensorLayout *wish = &search->wish;
  char needs[32] = "more", has[32];
  if (search->least > 0) RengaFormatBytes((double)search->least, sizeof needs, needs);
  RengaFormatBytes((double)search->memory, sizeof has, has);
  RengaCheck(search->shaped, search->made.printer, RENGA_ERR_PLAN,
             "no layout with %d tensor ranks has %d chunks on each of several stages: the network "
             "has %d layers that are alike, and the machine %lld devices; ask for fewer chunks",
             wish->tensor, wish->chunks, search->made.repeat.count, (long long)search->devices);
  RengaCheck(search->cut, search->made.printer, RENGA_ERR_PLAN,
             "no layout with %d tensor ranks cuts the batch of %lld into whole micro-batches: give "
             "another -batch_size, -partition_replicas or -microbatch_size",
             wish->tensor, (long long)wish->batch);
  RengaCheck(search->best.memory > 0, search->made.printer, RENGA_ERR_PLAN,
             "no layout with %d tensor ranks fits: the nearest takes %s of a device's %s; give "
             "more stages, full recomputation or more -machine_nodes",
             wish->tensor, needs, has);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeBestPlan(const TensorSearch *search, RengaComm comm, RengaPlan *plan)
{
  RengaCall(RengaPlanCreate(comm, plan));
  const RengaErrorCode code = RengaTensorMakePlan_Private(&search->best, search->made.graph, *plan);
  if (code) RengaPlanDestroy(plan);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionPredictTensor - what a layout whose ranks share tensors would take

   Collective

   Input:
   . partition - with a network, a machine, and a profile of analytic costs
   . layout - tensor ranks and the batch; what is 0 in it is chosen

   Output:
   . layout - with the fastest of what fits where it was 0
   . plan - its stages, memory and seconds, to be freed by the caller

   Options:
   . -plan_tensor - of renga plan, which calls this

   Errors: RENGA_ERR_ORDER without network, machine or profile; RENGA_ERR_ARGUMENT for numbers that
   make no sense, and for what is asked of a machine, layers or a batch that do not allow it;
   RENGA_ERR_PLAN where what is open has no answer: no layout fits in memory, takes the chunks, or
   cuts the batch into whole micro-batches; RENGA_ERR_SUPPORT where replicas share more than the
   optimizer, and for a network in lanes.

   Notes: the plan is a prediction: a run shares out lanes of the network over tensor ranks
   (RengaPartitionSetTensor()), and takes no such plan. Which values are split is found from the
   operators' rules, with least seconds in the memory there is (src/partition/tensor). All layers do
   alike, and one of them is looked at for all. What a device may use is the bound of
   RengaPartitionSetMemory(), or else the machine's. Gradients are counted once, as with
   -reduction_leaf of all micro-batches.

   See also: RengaPartitionSolve(), RengaPlanView()
@*/
RengaErrorCode RengaPartitionPredictTensor(RengaPartition partition, RengaTensorLayout *layout,
                                           RengaPlan *plan)
{
  TensorSearch search;
  RengaCheckPointer(partition);
  RengaCheckPointer(layout);
  RengaCheckPointer(plan);
  RengaCall(BeginSearch(partition, layout, &search));
  const RengaComm comm = search.made.comm = partition->hdr.owner;
  RengaErrorCode code = RunSearch(&search);
  if (!code) code = CheckSomeFits(&search);
  if (!code) code = MakeBestPlan(&search, comm, plan);
  if (!code) *layout = search.best.layout;
  RengaFree(&search.saved);
  RengaFree(&search.cost);
  RengaCall(code);
  return RENGA_SUCCESS;
}
