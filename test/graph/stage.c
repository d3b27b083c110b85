/* TEST ranks: 1 */
/* Stages: the same bits as in one; what is cloned, sent and shared; tied and frozen parameters. */
#include "../plan/plantest.h"
#include "execute.h"
#include "renga/private/graph.h"

static unsigned forms; /* of stages */
enum { MAX_STAGES = 4, MAX_NAMES = 512, BATCH = 3, SEED = 5 };

/* Tensors by name, handed from stage to stage. */
typedef struct {
  char name[128];
  int64_t count;
  float *data;
} Tensor;
typedef struct {
  int count;
  Tensor tensor[MAX_NAMES];
} Board;

static Tensor *Find(Board *board, const char *name)
{
  for (int i = 0; i < board->count; i++)
    if (strcmp(board->tensor[i].name, name) == 0) return &board->tensor[i];
  return NULL;
}

static RengaErrorCode Put(Board *board, const char *name, const Execute *from, RengaValue value)
{
  Tensor *tensor = Find(board, name);
  int64_t count = ExecuteCountElements(from, value);
  if (!tensor) {
    tensor = &board->tensor[board->count++];
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->count = count;
    RengaCall(RengaMalloc(count + 1, &tensor->data));
  }
  for (int64_t i = 0; i < count; i++) tensor->data[i] = (float)ExecuteGet(from, value, i);
  return RENGA_SUCCESS;
}

static void Clear(Board *board)
{
  for (int i = 0; i < board->count; i++) RengaFree(&board->tensor[i].data);
  board->count = 0;
}

static void Get(Board *board, const char *name, Execute *to, RengaValue value)
{
  Tensor *tensor = Find(board, name);
  TestTrue(tensor && tensor->count == ExecuteCountElements(to, value));
  for (int64_t i = 0; i < tensor->count; i++) ExecuteSet(to, value, i, (double)tensor->data[i]);
}

static bool IsBoundary(RengaGraph whole, const RengaGraphValue *value)
{
  const RengaGraphValue *there = RengaGraphGetValue(whole, RengaGraphFindValue(whole, value->name));
  return value->kind == RENGA_VALUE_INPUT && there && there->kind == RENGA_VALUE_ACTIVATION;
}

/* Inputs of the network are numbers by place; boundary values come from the board. */
static void SetInputs(RengaGraph whole, Board *board, Execute *execute)
{
  for (int i = 0; i < RengaGraphGetValueCount(execute->graph); i++) {
    const RengaGraphValue *value = RengaGraphGetValue(execute->graph, i);
    if (value->kind != RENGA_VALUE_INPUT || strncmp(value->name, "gradient:", 9) == 0) continue;
    int64_t count = ExecuteCountElements(execute, i);
    if (IsBoundary(whole, value))
      Get(board, value->name, execute, i);
    else
      for (int64_t j = 0; j < count; j++)
        ExecuteSet(execute, i, j, (double)((j * 7 + (value->name[0] == 't' ? 0 : 3)) % 11));
  }
}

typedef struct {
  RengaGraph graph;
  int n_seeds, n_wanted;
  RengaValue seed[MAX_NAMES], seed_gradient[MAX_NAMES], wanted[MAX_NAMES],
      wanted_gradient[MAX_NAMES];
} Stage;

/* Later stages hold gradients of names already: those are the seeds of this one. */
static RengaErrorCode OpenStage(RengaGraph whole, int first, int last, Board *gradients,
                                Stage *stage)
{
  stage->n_seeds = stage->n_wanted = 0;
  RengaCall(RengaGraphGetStage_Private(whole, first, last, forms, &stage->graph));
  for (int i = 0; i < RengaGraphGetValueCount(stage->graph); i++) {
    const RengaGraphValue *value = RengaGraphGetValue(stage->graph, i);
    if (Find(gradients, value->name)) stage->seed[stage->n_seeds++] = i;
    if (IsBoundary(whole, value) && value->differentiable) stage->wanted[stage->n_wanted++] = i;
  }
  RengaCall(RengaGraphDifferentiate(stage->graph, stage->n_seeds, stage->seed, stage->seed_gradient,
                                    stage->n_wanted, stage->wanted, stage->wanted_gradient));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunBackward(RengaGraph whole, RengaDevice device, Board *values,
                                  Board *gradients, Board *uses, Stage *stage)
{
  Execute execute;
  const RengaParameterUse *use;
  int count;
  RengaCall(ExecuteCreate(stage->graph, device, BATCH, SEED, &execute));
  SetInputs(whole, values, &execute);
  for (int i = 0; i < stage->n_seeds; i++)
    Get(gradients, RengaGraphGetValue(stage->graph, stage->seed[i])->name, &execute,
        stage->seed_gradient[i]);
  RengaCall(ExecuteRun(&execute, false));
  for (int i = 0; i < stage->n_wanted; i++) {
    TestTrue(stage->wanted_gradient[i] >= 0);
    RengaCall(Put(gradients, RengaGraphGetValue(stage->graph, stage->wanted[i])->name, &execute,
                  stage->wanted_gradient[i]));
  }
  RengaCall(RengaGraphGetParameterUses(stage->graph, &count, &use));
  for (int i = 0; i < count; i++) {
    char name[256];
    TestTrue(i == 0 || use[i].node_id > use[i - 1].node_id ||
             (use[i].node_id == use[i - 1].node_id && use[i].input > use[i - 1].input));
    snprintf(name, sizeof name, "%.90s %d",
             RengaGraphGetValue(stage->graph, use[i].parameter)->name, use[i].node_id);
    RengaCall(Put(uses, name, &execute, use[i].gradient));
  }
  RengaCall(ExecuteDestroy(&execute));
  return RENGA_SUCCESS;
}

/* Forward of all stages in order: what each makes for others goes on the board. */
static RengaErrorCode RunForward(RengaGraph whole, RengaDevice device, int n, const int cut[],
                                 Board *values)
{
  for (int s = 0; s < n; s++) {
    RengaGraph part;
    Execute execute;
    const RengaValue *outputs;
    RengaValue loss;
    int count;
    RengaCall(RengaGraphGetStage_Private(whole, cut[s], cut[s + 1], forms, &part));
    RengaCall(ExecuteCreate(part, device, BATCH, SEED, &execute));
    SetInputs(whole, values, &execute);
    RengaCall(ExecuteRun(&execute, true));
    RengaCall(RengaGraphGetOutputs(part, &count, &outputs));
    for (int i = 0; i < count; i++)
      RengaCall(Put(values, RengaGraphGetValue(part, outputs[i])->name, &execute, outputs[i]));
    RengaCall(RengaGraphGetLoss(part, &loss));
    TestTrue((loss >= 0) == (s == n - 1));
    RengaCall(ExecuteDestroy(&execute));
    RengaCall(RengaGraphDestroy(&part));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunStages(RengaGraph whole, RengaDevice device, int n, const int cut[],
                                Board *values, Board *uses)
{
  static Board gradients;
  static Stage stage;
  RengaCall(RunForward(whole, device, n, cut, values));
  for (int s = n; s-- > 0;) {
    RengaCall(OpenStage(whole, cut[s], cut[s + 1], &gradients, &stage));
    RengaCall(RunBackward(whole, device, values, &gradients, uses, &stage));
    RengaCall(RengaGraphDestroy(&stage.graph));
  }
  Clear(&gradients);
  return RENGA_SUCCESS;
}

static void CheckEqual(Board *a, Board *b, const char *what)
{
  TestTrue(a->count == b->count);
  for (int i = 0; i < a->count; i++) {
    Tensor *x = &a->tensor[i], *y = Find(b, x->name);
    bool same = y && y->count == x->count &&
                memcmp(x->data, y->data, (size_t)x->count * sizeof *x->data) == 0;
    if (!same) fprintf(stderr, "%s: %s differs\n", what, x->name);
    TestTrue(same);
  }
}

static RengaErrorCode CheckLayouts(RengaComm comm, RengaDevice device, const char *what)
{
  static Board values, uses, others;
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, what));
  RengaCall(RengaGraphSetUp(graph));
  int n = RengaGraphGetNodeCount(graph);
  RengaCall(RunStages(graph, device, 1, (const int[]){0, n}, &values, &uses));
  Clear(&values);
  for (int i = 1; i < 8; i++) {
    int two[] = {0, i * n / 8, n}, three[] = {0, i * n / 16, i * n / 16 + n / 3, n};
    RengaCall(RunStages(graph, device, 2, two, &values, &others));
    CheckEqual(&uses, &others, what);
    Clear(&others);
    Clear(&values);
    RengaCall(RunStages(graph, device, 3, three, &values, &others));
    CheckEqual(&uses, &others, what);
    Clear(&others);
    Clear(&values);
  }
  Clear(&uses);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static int CountUses(RengaGraph stage, const char *name)
{
  const RengaParameterUse *use;
  int count, found = 0;
  if (RengaGraphGetParameterUses(stage, &count, &use) != RENGA_SUCCESS) return -1;
  for (int i = 0; i < count; i++)
    found += strcmp(RengaGraphGetValue(stage, use[i].parameter)->name, name) == 0;
  return found;
}

#define PLAIN "layers=1,hidden=8,heads=2,vocabulary=11"
#define SMALL "gpt:layers=2,hidden=8,heads=2,sequence=4,vocabulary=11"

static RengaErrorCode CheckFrozen(RengaComm comm)
{
  RengaGraph graph, stage;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, SMALL));
  RengaCall(RengaGraphSetFrozen(graph, "wpe*,blocks.0.*"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphGetSubgraph(graph, 0, RengaGraphGetNodeCount(graph), &stage));
  RengaCall(RengaGraphDifferentiate(stage, 0, NULL, NULL, 0, NULL, NULL));
  TestTrue(CountUses(stage, "wte.weight") == 2);
  TestTrue(CountUses(stage, "wpe.weight") == 0 && CountUses(stage, "blocks.0.fc.weight") == 0);
  TestTrue(CountUses(stage, "blocks.1.fc.weight") == 1);
  RengaCall(RengaGraphDestroy(&stage));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, SMALL));
  RengaCall(RengaGraphSetFrozen(graph, "no.such.*"));
  TestError(RengaGraphSetUp(graph), RENGA_ERR_OPTION, "no.such.*");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* The count of labels is cloned into the last stage wherever it stands, with its id; phases are
   apart. */
static RengaErrorCode CheckClones(RengaComm comm)
{
  RengaGraph graph, stage;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, SMALL));
  RengaCall(RengaGraphSetUp(graph));
  int n = RengaGraphGetNodeCount(graph);
  RengaCall(RengaGraphGetSubgraph(graph, n - 1, n, &stage));
  int counts = 0;
  for (int i = 0; i < RengaGraphGetNodeCount(stage); i++) {
    const RengaGraphNode *node = RengaGraphGetNode(stage, i);
    counts += strcmp(node->op->name, "CrossEntropyCount") == 0;
    TestTrue(strcmp(RengaGraphGetNode(graph, node->id)->name, node->name) == 0);
  }
  TestTrue(counts == 1 && RengaGraphGetNodeCount(stage) == 3);
  TestTrue(RengaGraphFindValue(stage, "labels") >= 0 && RengaGraphFindValue(stage, "logits") < 0);
  RengaCall(RengaGraphDestroy(&stage));
  RengaCall(RengaGraphGetSubgraph(graph, 0, n, &stage));
  RengaCall(RengaGraphDifferentiate(stage, 0, NULL, NULL, 0, NULL, NULL));
  int phases[3] = {0};
  for (int i = 0; i < RengaGraphGetNodeCount(stage); i++) {
    const RengaGraphNode *node = RengaGraphGetNode(stage, i);
    phases[node->phase]++;
    if (strcmp(node->op->name, "LinearGradWeight") == 0)
      TestTrue(node->phase == RENGA_PHASE_BACKWARD_WEIGHT);
    if (strcmp(node->op->name, "LinearGradInput") == 0)
      TestTrue(node->phase == RENGA_PHASE_BACKWARD_INPUT);
  }
  TestTrue(phases[0] == n && phases[1] > 0 && phases[2] > 0);
  TestError(RengaGraphDifferentiate(stage, 0, NULL, NULL, 0, NULL, NULL), RENGA_ERR_ORDER,
            "already");
  RengaCall(RengaGraphDestroy(&stage));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckUpdates(RengaComm comm)
{
  RengaGraph graph;
  const RengaStateUpdate *updates;
  int count;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "resnet:depth=18,width=0.0625,image=32,classes=3"));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphGetStateUpdates(graph, &count, &updates));
  TestTrue(count == 40 && updates[0].keep == 0.9 && updates[0].sample_values == 0 &&
           updates[1].sample_values == 256);
  TestTrue(strcmp(RengaGraphGetValue(graph, updates[1].state)->name, "bn.running_var") == 0);
  TestTrue(strcmp(RengaGraphGetValue(graph, updates[1].batch_value)->name, "bn:2") == 0);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* The gradients of a network whose stages have forms of a device, however it is cut. counts: how
   many nodes of these operators a stage of all has. */
typedef struct {
  unsigned forms;
  const char *what;
  int64_t lanes;
  const char *op[2];
  int counts[2];
} FormCase;

static RengaErrorCode CheckForms(RengaComm comm, RengaDevice device, const FormCase *row)
{
  static Board values, uses, others;
  RengaGraph graph, stage;
  int found[2] = {0};
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, row->what));
  RengaCall(RengaGraphSetLanes(graph, row->lanes));
  RengaCall(RengaGraphSetUp(graph));
  const int n = RengaGraphGetNodeCount(graph);
  RengaCall(RengaGraphGetStage_Private(graph, 0, n, row->forms, &stage));
  for (int i = 0; i < RengaGraphGetNodeCount(stage); i++)
    for (int o = 0; o < 2; o++)
      found[o] += strcmp(RengaGraphGetNode(stage, i)->op->name, row->op[o]) == 0;
  for (int o = 0; o < 2; o++) {
    if (found[o] != row->counts[o])
      fprintf(stderr, "%s: %d nodes %s\n", row->what, found[o], row->op[o]);
    TestTrue(found[o] == row->counts[o]);
  }
  RengaCall(RengaGraphDestroy(&stage));
  RengaCall(RunStages(graph, device, 1, (const int[]){0, n}, &values, &uses));
  Clear(&values);
  forms = row->forms;
  for (int i = 2; i < 9; i += 2) {
    RengaCall(RunStages(graph, device, 2, (const int[]){0, i * n / 9, n}, &values, &others));
    CheckEqual(&uses, &others, row->what);
    Clear(&others);
    Clear(&values);
  }
  forms = 0;
  Clear(&uses);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

#define PACKED(what, lanes, attentions, moves)                                                     \
  {                                                                                                \
    RENGA_FORM_PACKED, what, lanes, {"PackedAttention", "Transpose"},                              \
    {                                                                                              \
      attentions, moves                                                                            \
    }                                                                                              \
  }
#define RELUS(what, relus, others)                                                                 \
  {                                                                                                \
    RENGA_FORM_RELU, what, 1, {"BatchNormalizationRelu", "BatchNormalization"},                    \
    {                                                                                              \
      relus, others                                                                                \
    }                                                                                              \
  }
#define LAST(what, images, copies)                                                                 \
  {                                                                                                \
    RENGA_FORM_LAST, what, 1, {"BatchNormalization", "Transpose"},                                 \
    {                                                                                              \
      images, copies                                                                               \
    }                                                                                              \
  }
static const FormCase form_cases[] = {
    PACKED(SMALL ",dropout=0.2", 1, 2, 0),
    PACKED(SMALL, 2, 4, 0),
    PACKED("gpt:layers=1,hidden=8,heads=2,sequence=4,vocabulary=261", 1, 1, 0),
    PACKED("transformer:" PLAIN ",sequence=4,target=3", 1, 3, 0),
    PACKED("llama:" PLAIN ",sequence=4", 1, 1, 2),
    PACKED("t5:" PLAIN ",sequence=4,target=3", 1, 3, 2),
    RELUS("resnet:depth=18,width=0.0625,image=16,classes=11", 17, 3),
    LAST("resnet:depth=18,width=0.0625,image=16,classes=11", 20, 68),
};

/* What a device of these forms computes has the bits of the nodes that they replace. */
static RengaErrorCode CheckDevice(RengaComm comm, const char *type, unsigned of)
{
  RengaDevice device;
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, type));
  RengaCall(RengaDeviceSetUp(device));
  for (size_t i = 0; i < sizeof form_cases / sizeof *form_cases; i++)
    if (form_cases[i].forms & of) RengaCall(CheckForms(comm, device, &form_cases[i]));
  RengaCall(RengaDeviceDestroy(&device));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaDevice device;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(device));
  RengaCall(CheckLayouts(comm, device, SMALL ",dropout=0.2"));
  RengaCall(CheckLayouts(comm, device, SMALL ",tied=0"));
  RengaCall(CheckLayouts(comm, device, "resnet:depth=18,width=0.0625,image=16,classes=11"));
  RengaCall(CheckFrozen(comm));
  RengaCall(CheckClones(comm));
  RengaCall(CheckUpdates(comm));
  RengaCall(CheckDevice(comm, RENGA_DEVICE_REF, RENGA_FORM_PACKED | RENGA_FORM_LAST));
  RengaCall(CheckDevice(comm, RENGA_DEVICE_CPU, RENGA_FORM_RELU));
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
