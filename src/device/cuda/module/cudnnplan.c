/* Plans of cuDNN: the first engine of its list that a task bears. */
#include "cudnn.h"
#include <float.h>
#include <string.h>

enum { CONFIGURATIONS = 32, NOTES = 16 };

/* A plan, with the graph that it was made of. number: of host memory, by their places. */
typedef struct {
  RengaCudnnGraph graph;
  void *plan;
  float number[RENGA_CUDNN_TENSORS];
} CudnnPlan;

static void *MakeGraph_Cudnn(RengaCudnnGraph *g)
{
  void *graph = RengaCudnnMake(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (!RengaCudnnAsked)
    RengaCudnnSet(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                  &RengaCudnnHandle);
  RengaCudnnSet(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                g->n_operations, g->operation);
  RengaCudnnFinish(g, graph);
  return graph;
}

/* cuDNN's list of configurations of engines, the one that it thinks fastest first. */
static int ListConfigurations(RengaCudnnGraph *g, void *graph, int mode,
                              void *configuration[CONFIGURATIONS])
{
  void *list = RengaCudnnMake(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  RengaCudnnSet(g, list, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                &graph);
  RengaCudnnSet(g, list, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (RengaCudnnAsked)
    RengaCudnnSet(g, list, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &RengaCudnnAsked);
  RengaCudnnFinish(g, list);
  int64_t count =
      RengaCudnnGet(g, list, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
  if (count > CONFIGURATIONS) count = CONFIGURATIONS;
  for (int64_t i = 0; i < count; i++)
    configuration[i] = RengaCudnnMake(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (count > 0)
    count = RengaCudnnGet(g, list, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                          count, configuration);
  return g->failed ? 0 : (int)count;
}

/* Bits follow from the inputs, sums are of float32, and factors of float32 are not rounded but to
   tf32 where that is asked for. */
static int Bears(const RengaCudnnTask *task, int64_t count, const int note[])
{
  const int exact = task->type == RENGA_CUDA_FLOAT32 && !task->tf32;
  for (int64_t i = 0; i < count; i++) {
    const int winograd = note[i] >= CUDNN_NUMERICAL_NOTE_WINOGRAD &&
                         note[i] <= CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    if (note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
        note[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
        note[i] == CUDNN_NUMERICAL_NOTE_FFT || winograd)
      return 0;
    if (exact && (note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                  note[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))
      return 0;
  }
  return 1;
}

static int IsAttention(const RengaCudnnTask *task)
{
  return task->kind == RENGA_CUDNN_ATTENTION || task->kind == RENGA_CUDNN_ATTENTION_GRAD;
}

/* The plan of a configuration; NULL: it is none for this task. For a device that is not there plans
   of attention are compiled but cannot be loaded, so that they are not made. */
static void *TryConfiguration(RengaCudnnGraph *g, const RengaCudnnTask *task, size_t most,
                              void *configuration, RengaCudnnChoice *choice)
{
  int note[NOTES];
  int64_t bytes = -1;
  void *engine = RengaCudnnMake(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  RengaCudnnGet(g, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                &engine);
  RengaCudnnGet(g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &choice->engine);
  const int64_t notes = RengaCudnnGet(g, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                      CUDNN_TYPE_NUMERICAL_NOTE, NOTES, note);
  if (g->failed || !Bears(task, notes, note)) return NULL;
  void *plan = RengaCudnnMake(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (RengaCudnnAsked && IsAttention(task)) {
    RengaCudnnGet(g, configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                  &bytes);
  } else {
    if (RengaCudnnAsked)
      RengaCudnnSet(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    &RengaCudnnAsked);
    else
      RengaCudnnSet(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                    &RengaCudnnHandle);
    RengaCudnnSet(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  1, &configuration);
    RengaCudnnFinish(g, plan);
    RengaCudnnGet(g, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  }
  if (!g->failed && (bytes < 0 || (uint64_t)bytes > most))
    g->failed = RengaCudaSay("cuDNN", 1, "its engines need more workspace than they may have");
  choice->workspace = g->failed ? 0 : (size_t)bytes;
  return g->failed ? NULL : plan;
}

static void *ChooseConfiguration(RengaCudnnGraph *g, const RengaCudnnTask *task, size_t most,
                                 void *graph, RengaCudnnChoice *choice)
{
  static const int modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
  void *configuration[CONFIGURATIONS], *plan = NULL;
  for (int m = 0; m < 2 && !plan; m++) {
    const int count = ListConfigurations(g, graph, modes[m], configuration);
    for (int i = 0; i < count && !plan; i++) {
      const int before = g->n_made;
      choice->place = m * CONFIGURATIONS + i;
      g->failed = 0;
      plan = TryConfiguration(g, task, most, configuration[i], choice);
      if (!plan) RengaCudnnUnmake(g, before);
    }
    g->failed = 0;
  }
  return plan;
}

static int DestroyCudnnPlan(void *memory)
{
  CudnnPlan *plan = memory;
  RengaCudnnUnmake(&plan->graph, 0);
  return 0;
}

static int CreateCudnnPlan(const RengaCudnnTask *task, size_t most, RengaCudnnChoice *choice,
                           void *memory)
{
  CudnnPlan *plan = memory;
  memset(plan, 0, sizeof *plan);
  RengaCudnnGraph *g = &plan->graph;
  RengaCudnnDescribe(g, task);
  void *graph = MakeGraph_Cudnn(g);
  int failed = g->failed;
  (void)RengaCudaSay("cuDNN", !failed, "it has no engine for this, or none of the same bits again");
  if (!failed) plan->plan = ChooseConfiguration(g, task, most, graph, choice);
  plan->number[RENGA_CUDNN_SCALE] = (float)task->scale;
  plan->number[RENGA_CUDNN_ONE] = 1;
  plan->number[RENGA_CUDNN_LEAST] = -FLT_MAX;
  if (!plan->plan) failed = 1;
  if (failed) DestroyCudnnPlan(plan);
  return failed;
}

static int RunCudnnPlan(void *stream, void *memory, void *const operand[RENGA_CUDNN_OPERANDS],
                        void *workspace)
{
  CudnnPlan *plan = memory;
  RengaCudnnGraph g = {.n_made = 0};
  int64_t id[RENGA_CUDNN_TENSORS], count = 0;
  void *pointer[RENGA_CUDNN_TENSORS];
  for (int t = 0; t < RENGA_CUDNN_TENSORS; t++)
    if (plan->graph.tensor[t]) {
      id[count] = t + 1;
      pointer[count++] = t < RENGA_CUDNN_OPERANDS ? operand[t] : &plan->number[t];
    }
  void *pack = RengaCudnnMake(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  RengaCudnnSet(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, id);
  RengaCudnnSet(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                pointer);
  RengaCudnnSet(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  RengaCudnnFinish(&g, pack);
  RengaCudnnExecute(&g, stream, plan->plan, pack);
  RengaCudnnUnmake(&g, 0);
  return g.failed;
}

const RengaCudaCudnn RengaCudaCudnnTable = {.bytes = sizeof(CudnnPlan),
                                            .find = RengaCudnnFind,
                                            .create = CreateCudnnPlan,
                                            .run = RunCudnnPlan,
                                            .destroy = DestroyCudnnPlan};
