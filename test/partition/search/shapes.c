/* TEST ranks: 1 */
/* Candidate shapes: what each of them costs follows from its fields, whether a model lists it or
   not; one that another dominates is not listed; searches take what is added to the list; a plan of
   what the runtime cannot execute is refused by name. */
#include "../../../src/partition/search/search.h"
#include "../../plan/plantest.h"
#include "renga/private/op.h"
#include <math.h>
#include <string.h>

enum { SAMPLES = 1024, BATCH = 8192, RANKS = 4 };

typedef struct {
  SearchTask task;
  SearchChain chain;
  SearchModel model;
  int64_t size, leaf;
  RengaProfileCost *costs;
} Shapes;

static void MakeShapes(RengaComm comm, RengaGraph graph, Shapes *one)
{
  *one = (Shapes){.size = SAMPLES, .leaf = 1};
  one->task = (SearchTask){.self = comm,
                           .graph = graph,
                           .ranks = RANKS,
                           .moments = 2,
                           .batch = BATCH,
                           .size = &one->size,
                           .leaf = &one->leaf,
                           .costs = &one->costs,
                           .n_sizes = 1,
                           .n_first = 1};
  RengaCallAbort(RengaMalloc(RengaGraphGetNodeCount(graph), &one->costs));
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++)
    one->costs[n] = (RengaProfileCost){.forward = 1, .backward = 2};
  RengaCallAbort(RengaSearchChainCreate_Private(graph, NULL, &one->chain));
  RengaCallAbort(RengaSearchModelOf_Private(&one->task, &one->chain, 0, false, &one->model));
}

static void FreeShapes(Shapes *one)
{
  RengaSearchModelFree_Private(&one->model);
  RengaSearchChainFree_Private(&one->chain);
  RengaFree(&one->costs);
}

static SearchStage StageOf(const Shapes *one, RengaPrecision precision, RengaSaved saved)
{
  SearchStage stage = {.end = one->model.count, .shape = RengaStageShapePlain(1)};
  stage.shape.precision = precision;
  stage.shape.saved = saved;
  return stage;
}

/* The last of the stages, alone on its device: one micro-batch in flight. */
static double BytesAtEnd(const Shapes *one, RengaPrecision precision, int begin)
{
  SearchStage stage = StageOf(one, precision, RENGA_SAVED_KEEP);
  stage.begin = begin;
  return RengaSearchCostOf_Private(&one->model, &stage, 1).memory;
}

/* What precisions are apart follows from their rows of the plan's table. */
static void CheckPrecision(const Shapes *one, RengaPrecision precision)
{
  const SearchModel *model = &one->model;
  const int count = model->count, begin = count / 2;
  RengaStorage storage;
  int64_t each;
  RengaCallAbort(RengaPrecisionGetStorage(precision, &storage));
  RengaCallAbort(RengaStorageCountParameterBytes(&storage, one->task.moments, &each));
  const SearchStage stage = StageOf(one, precision, RENGA_SAVED_KEEP);
  const SearchCandidate candidate = RengaSearchCandidateOf_Private(model, &stage.shape);
  TestTrue(candidate.bytes.parameter == (double)each);
  TestTrue(candidate.bytes.gradient == (double)RengaDataTypeSize(storage.gradient));
  const double held = RengaSearchHeld_Private(model, begin, count);
  const double gradients = (model->elements[count] - model->elements[begin]) * candidate.buffers;
  const double saved = model->saved[count] - model->saved[begin];
  const double wanted = (candidate.bytes.parameter - 4 * (1 + one->task.moments)) * held +
                        (candidate.bytes.gradient - 4) * gradients +
                        (candidate.bytes.saved - 1) * saved +
                        (candidate.bytes.message - 1) * 4 * model->cut[begin];
  const double more =
      BytesAtEnd(one, precision, begin) - BytesAtEnd(one, RENGA_PRECISION_FP32, begin);
  TestTrue(held > 0 && saved > 0 && model->cut[begin] > 0);
  TestTrue(fabs(more - wanted) <= 1e-9 * BytesAtEnd(one, RENGA_PRECISION_FP32, begin));
  TestTrue(precision == RENGA_PRECISION_FP32 ? more == 0 : more != 0);
}

/* Saved tensors of three micro-batches in flight but one of 16 parts of one, and a forward more. */
static void CheckPolicies(const Shapes *one)
{
  const SearchModel *model = &one->model;
  for (RengaPrecision p = RENGA_PRECISION_FP32; p <= RENGA_PRECISION_FP16; p++) {
    const SearchStage keep = StageOf(one, p, RENGA_SAVED_KEEP);
    const SearchStage again = StageOf(one, p, RENGA_SAVED_RECOMPUTE);
    const SearchCost a = RengaSearchCostOf_Private(model, &keep, 3);
    const SearchCost b = RengaSearchCostOf_Private(model, &again, 3);
    const double share = model->listing.bytes[p].saved;
    const double less = (3 - 1.0 / 16) * share * model->saved[model->count];
    TestTrue(fabs(a.memory - b.memory - less) <= 1e-9 * a.memory);
    TestTrue(b.backward == a.backward + a.forward && a.again == 0 && b.again == a.forward);
  }
}

/* All else alike, more devices, bytes or buffers are worse. */
static void CheckDominance(const SearchModel *model)
{
  const SearchCandidate own = model->candidate[0];
  SearchCandidate worse = own;
  TestTrue(RengaSearchDominates_Private(&own, &own));
  worse.devices++;
  TestTrue(RengaSearchDominates_Private(&own, &worse));
  TestTrue(!RengaSearchDominates_Private(&worse, &own));
  worse.bytes.saved /= 2;
  TestTrue(!RengaSearchDominates_Private(&own, &worse));
  worse = own;
  worse.buffers++;
  TestTrue(!RengaSearchDominates_Private(&worse, &own));
  worse.rounds--;
  TestTrue(!RengaSearchDominates_Private(&own, &worse));
}

/* Two tensor ranks of today's costs win nothing; bf16 has smaller tensors, and masters beside its
   parameters. */
static void AddShapes(SearchModel *model)
{
  RengaStageShape shape = RengaStageShapePlain(RANKS / 2);
  const int count = model->n_candidates;
  shape.tensor = 2;
  RengaCallAbort(RengaSearchAddCandidate_Private(model, &shape));
  TestTrue(model->n_candidates == count && !RengaSearchMayHave_Private(model, &shape));
  shape = RengaStageShapePlain(RANKS);
  shape.precision = RENGA_PRECISION_BF16;
  RengaCallAbort(RengaSearchAddCandidate_Private(model, &shape));
  TestTrue(model->n_candidates == count + 1 && RengaSearchMayHave_Private(model, &shape));
}

/* A stage of tensor ranks has all of its devices in the plan, and so has one of context ranks. */
static void CheckTensor(Shapes *one)
{
  const int half = one->model.count / 2;
  SearchStage stages[] = {
      {.end = half, .shape = RengaStageShapePlain(2)},
      {.begin = half, .end = one->model.count, .shape = RengaStageShapePlain(2)}};
  SearchLayout layout = {.microbatch = SAMPLES, .leaf = 1, .spread = true, .count = 2};
  const int wanted[] = {0, 1, 3, 4, 2, 5};
  int rank[6];
  RengaPlan plan;
  stages[0].shape.tensor = 2;
  layout.stage = stages;
  TestTrue(RengaSearchDevices_Private(&layout) == 6);
  RengaCallAbort(RengaSearchPlan_Private(&one->task, &one->chain, &layout, &plan));
  RengaSearchListRanks_Private(plan, 0, rank);
  RengaSearchListRanks_Private(plan, 1, rank + 4);
  TestTrue(!memcmp(rank, wanted, sizeof rank));
  RengaCallAbort(RengaPlanCheck(plan, one->task.graph, 6));
  RengaCallAbort(RengaPlanDestroy(&plan));
  stages[0].shape.tensor = 1;
  stages[0].shape.sequence = 2;
  RengaCallAbort(RengaSearchPlan_Private(&one->task, &one->chain, &layout, &plan));
  RengaCallAbort(RengaPlanCheck(plan, one->task.graph, 6));
  RengaCallAbort(RengaPlanDestroy(&plan));
}

/* Where only the added shape fits it is found, and its plan is refused. */
static void CheckFound(Shapes *one)
{
  SearchModel *model = &one->model;
  SearchLayout layout = {0};
  RengaPlan plan;
  bool proved = false;
  const SearchCandidate *added = &model->candidate[model->n_candidates - 1];
  model->memory = 1.0001 * RengaSearchStageBytes_Private(model, added, RENGA_SAVED_RECOMPUTE, 0,
                                                         model->count, 1);
  model->stages = 1;
  RengaCallAbort(RengaSearchLabels_Private(model, 0, 0, &layout, &proved));
  TestTrue(proved && layout.count == 1);
  TestTrue(layout.stage[0].shape.precision == RENGA_PRECISION_BF16);
  RengaCallAbort(RengaSearchPlan_Private(&one->task, &one->chain, &layout, &plan));
  TestError(RengaPlanCheck(plan, one->task.graph, RANKS), RENGA_ERR_PLAN,
            "of precision bf16, but the network's is fp32");
  RengaCallAbort(RengaPlanDestroy(&plan));
  RengaSearchLayoutFree_Private(&layout);
}

int main(int argc, char **argv)
{
  RengaComm comm;
  RengaGraph graph;
  Shapes one;
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_SELF, &comm));
  RengaCallAbort(RengaGraphCreate(comm, &graph));
  RengaCallAbort(RengaGraphLoad(graph, "mlp:sizes=20-64-64-64-30-10"));
  RengaCallAbort(RengaGraphSetUp(graph));
  MakeShapes(comm, graph, &one);
  for (RengaPrecision p = RENGA_PRECISION_FP32; p <= RENGA_PRECISION_FP16; p++)
    CheckPrecision(&one, p);
  CheckPolicies(&one);
  CheckDominance(&one.model);
  AddShapes(&one.model);
  CheckTensor(&one);
  CheckFound(&one);
  FreeShapes(&one);
  RengaCallAbort(RengaGraphDestroy(&graph));
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  return 0;
}
