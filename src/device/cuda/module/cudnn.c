/* cuDNN: the library is opened when it is asked for, so that the module opens where there is none.
   Plans of its graph API: the first engine of its list that fits. */
#include "cudnn.h"
#include <float.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_VERSION = 91000, CONFIGURATIONS = 32, NOTES = 16 };

#define MEMBER(name) __typeof__(&name) name;
static struct {
  RENGA_CUDNN_FUNCTIONS(MEMBER)
} cudnn;
static void *handle; /* NULL: cuDNN was not opened */
static void *asked;  /* properties of a device that is not there; NULL: it is the open one */

#ifdef RENGA_NCCL_LINKED /* with the emulator, whose cuDNN is as new as it is told, or none */
#define TAKE(name) cudnn.name = name;
static int TakeCudnn(void)
{
  RENGA_CUDNN_FUNCTIONS(TAKE)
  return cudnn.cudnnGetVersion() ? 0 : RengaCudaSay("cuDNN", 1, "there is none");
}
#else
#include <dlfcn.h>
static const char cudnn_name[] = "libcudnn.so.9";

static int TakeCudnnFunction(void *library, const char *name, void *function)
{
  void *symbol = dlsym(library, name);
  if (!symbol) return RengaCudaSay(cudnn_name, 1, "it is older than cuDNN 9");
  memcpy(function, &symbol, sizeof symbol); /* ISO C has no cast from an object to a function */
  return 0;
}

#define TAKE(name)                                                                                 \
  if (TakeCudnnFunction(library, #name, &cudnn.name)) return 1;
static int TakeCudnn(void)
{
  void *library = dlopen(cudnn_name, RTLD_NOW | RTLD_LOCAL);
  if (!library) return RengaCudaSay("cuDNN", 1, dlerror());
  RENGA_CUDNN_FUNCTIONS(TAKE)
  return 0;
}
#endif

static int SayCudnn(const char *what, int code)
{
  char text[200] = "";
  if (!code) return 0;
  cudnn.cudnnGetLastErrorString(text, sizeof text);
  text[strcspn(text, "\n")] = '\0';
  return RengaCudaSay(what, code, text[0] ? text : cudnn.cudnnGetErrorString(code));
}

static int FindCudnn(size_t size, char text[])
{
  if (TakeCudnn()) return 1;
  const size_t version = cudnn.cudnnGetVersion();
  snprintf(text, size, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
  if (version < LEAST_VERSION) return RengaCudaSay(text, 1, "it is older than cuDNN 9.10");
  return handle ? 0 : SayCudnn("cudnnCreate", cudnn.cudnnCreate(&handle));
}

int RengaCudnnAskFor(size_t bytes, const char *properties)
{
  RengaCudnnGraph g = {.failed = TakeCudnn()};
  asked = RengaCudnnMake(&g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  RengaCudnnSet(&g, asked, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                (int64_t)bytes, properties);
  RengaCudnnFinish(&g, asked);
  return g.failed;
}

static void Fail_Cudnn(RengaCudnnGraph *g, const char *what, int code)
{
  if (code && !g->failed) g->failed = SayCudnn(what, code);
}

void *RengaCudnnMake(RengaCudnnGraph *g, int kind)
{
  void *made = NULL;
  if (!g->failed && g->n_made == RENGA_CUDNN_DESCRIPTORS)
    g->failed = RengaCudaSay("cuDNN", 1, "a graph of too many descriptors");
  if (!g->failed)
    Fail_Cudnn(g, "cudnnBackendCreateDescriptor", cudnn.cudnnBackendCreateDescriptor(kind, &made));
  if (made) g->made[g->n_made++] = made;
  return made;
}

void RengaCudnnSet(RengaCudnnGraph *g, void *descriptor, int name, int type, int64_t count,
                   const void *values)
{
  if (!g->failed)
    Fail_Cudnn(g, "cudnnBackendSetAttribute",
               cudnn.cudnnBackendSetAttribute(descriptor, name, type, count, values));
}

void RengaCudnnFinish(RengaCudnnGraph *g, void *descriptor)
{
  if (!g->failed) Fail_Cudnn(g, "cudnnBackendFinalize", cudnn.cudnnBackendFinalize(descriptor));
}

/* What is got is left as it was where it fails. */
static int64_t Get_Cudnn(RengaCudnnGraph *g, void *descriptor, int name, int type, int64_t most,
                         void *values)
{
  int64_t count = 0;
  if (!g->failed)
    Fail_Cudnn(g, "cudnnBackendGetAttribute",
               cudnn.cudnnBackendGetAttribute(descriptor, name, type, most, &count, values));
  return count;
}

/* Gives back what was made since there were so many. */
static void Unmake(RengaCudnnGraph *g, int count)
{
  while (g->n_made > count) cudnn.cudnnBackendDestroyDescriptor(g->made[--g->n_made]);
}

/* A plan, with the graph that it was made of. number: of host memory, by their places. */
typedef struct {
  RengaCudnnGraph graph;
  void *plan;
  float number[RENGA_CUDNN_TENSORS];
} CudnnPlan;

static void *MakeGraph_Cudnn(RengaCudnnGraph *g)
{
  void *graph = RengaCudnnMake(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (!asked)
    RengaCudnnSet(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
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
  if (asked)
    RengaCudnnSet(g, list, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &asked);
  RengaCudnnFinish(g, list);
  int64_t count =
      Get_Cudnn(g, list, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
  if (count > CONFIGURATIONS) count = CONFIGURATIONS;
  for (int64_t i = 0; i < count; i++)
    configuration[i] = RengaCudnnMake(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (count > 0)
    count = Get_Cudnn(g, list, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                      configuration);
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
  Get_Cudnn(g, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
            &engine);
  Get_Cudnn(g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &choice->engine);
  const int64_t notes = Get_Cudnn(g, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                  CUDNN_TYPE_NUMERICAL_NOTE, NOTES, note);
  if (g->failed || !Bears(task, notes, note)) return NULL;
  void *plan = RengaCudnnMake(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (asked && IsAttention(task)) {
    Get_Cudnn(g, configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  } else {
    if (asked)
      RengaCudnnSet(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    &asked);
    else
      RengaCudnnSet(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    RengaCudnnSet(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  1, &configuration);
    RengaCudnnFinish(g, plan);
    Get_Cudnn(g, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
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
      if (!plan) Unmake(g, before);
    }
    g->failed = 0;
  }
  return plan;
}

static int DestroyCudnnPlan(void *memory)
{
  CudnnPlan *plan = memory;
  Unmake(&plan->graph, 0);
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
  if (!g.failed)
    Fail_Cudnn(&g, "cudnnSetStream", cudnn.cudnnSetStream(handle, (cudaStream_t)stream));
  if (!g.failed)
    Fail_Cudnn(&g, "cudnnBackendExecute", cudnn.cudnnBackendExecute(handle, plan->plan, pack));
  Unmake(&g, 0);
  return g.failed;
}

const RengaCudaCudnn RengaCudaCudnnTable = {.bytes = sizeof(CudnnPlan),
                                            .find = FindCudnn,
                                            .create = CreateCudnnPlan,
                                            .run = RunCudnnPlan,
                                            .destroy = DestroyCudnnPlan};
