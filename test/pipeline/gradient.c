/* TEST ranks: 1 3 */
/* Gradients of parameters by finite differences of the loss, in one stage and in three; both
   ways to add gradients agree; the output of a forward run agrees with the loss. */
#include "run.h"

enum { MOST = 4096 };

static const RengaPersistent *Find(RengaPipeline pipeline, const char *name)
{
  int count;
  const RengaPersistent *tensor;
  if (RengaPipelineGetPersistents(pipeline, &count, &tensor)) return NULL;
  for (int i = 0; i < count; i++)
    if (strcmp(tensor[i].name, name) == 0) return &tensor[i];
  return NULL;
}

/* The loss with element k of a parameter changed by delta, on all ranks that hold it. */
static RengaErrorCode LossAt(RengaPipeline pipeline, const RengaBatch *batch, const char *name,
                             int64_t k, float delta, double *loss)
{
  const RengaPersistent *tensor = Find(pipeline, name);
  float *at = tensor ? (float *)tensor->data + k : NULL, old = 0, changed;
  if (tensor) {
    RengaCall(RunCopy(pipeline, RENGA_DEVICE_TO_HOST, &old, at, sizeof old));
    changed = old + delta;
    RengaCall(RunCopy(pipeline, RENGA_HOST_TO_DEVICE, at, &changed, sizeof changed));
  }
  RengaCall(RengaPipelineEvaluate(pipeline, batch, loss));
  if (tensor) RengaCall(RunCopy(pipeline, RENGA_HOST_TO_DEVICE, at, &old, sizeof old));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckParameter(RengaComm comm, RengaPipeline pipeline,
                                     const RengaBatch *batch, const RengaGraphValue *value)
{
  static float gradient[MOST];
  const int64_t count = RengaTensorSpecCount(&value->spec);
  const float h = 4e-3f;
  RengaCall(RengaPipelineGetGradient(pipeline, value->name, gradient));
  for (int64_t k = 0; k < count && RengaCommGetRank(comm) == 0; k++) Expect(isfinite(gradient[k]));
  RengaCall(RengaCommBroadcast(comm, gradient, (size_t)count * sizeof(float), 0, "gradient"));
  for (int64_t k = 0; k < count; k += count / 7 + 1) {
    double above, below;
    RengaCall(LossAt(pipeline, batch, value->name, k, h, &above));
    RengaCall(LossAt(pipeline, batch, value->name, k, -h, &below));
    const double slope = (above - below) / (2 * (double)h);
    RengaCheck(fabs(slope - (double)gradient[k]) < 2e-3 + 0.02 * fabs(slope), MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "gradient of %s at %lld is %g, differences say %g", value->name,
               (long long)k, (double)gradient[k], slope);
  }
  return RENGA_SUCCESS;
}

/* A step of size 0 in effect: what it changed is put back. */
static RengaErrorCode StepInPlace(RengaPipeline pipeline, const RengaBatch *batch, double *loss)
{
  int count;
  const RengaPersistent *tensor;
  float *copy[64] = {NULL};
  RengaCall(RengaPipelineGetPersistents(pipeline, &count, &tensor));
  Expect(count <= 64);
  for (int i = 0; i < count; i++) {
    RengaCall(RengaMalloc(RengaTensorSpecCount(&tensor[i].spec), &copy[i]));
    RengaCall(RunCopy(pipeline, RENGA_DEVICE_TO_HOST, copy[i], tensor[i].data,
                      RengaTensorSpecBytes(&tensor[i].spec)));
  }
  RengaCall(RengaPipelineStep(pipeline, batch, loss));
  for (int i = 0; i < count; i++) {
    RengaCall(RunCopy(pipeline, RENGA_HOST_TO_DEVICE, tensor[i].data, copy[i],
                      RengaTensorSpecBytes(&tensor[i].spec)));
    RengaFree(&copy[i]);
  }
  return RENGA_SUCCESS;
}

/* Cross-entropy of the scores that a forward run gives, as the loss says. */
static RengaErrorCode CheckForward(RengaComm comm, RengaPipeline pipeline, RengaGraph graph,
                                   const RengaBatch *batch, double loss)
{
  int count, field = -1;
  const RengaValue *output;
  float scores[256];
  int64_t labels[64];
  RengaCall(RengaGraphGetOutputs(graph, &count, &output));
  const RengaGraphValue *value = NULL;
  for (int o = 0; o < count; o++)
    if (RengaGraphGetValue(graph, output[o])->spec.ndim == 2)
      value = RengaGraphGetValue(graph, output[o]);
  Expect(value != NULL && batch->samples * value->spec.dim[1] <= 256);
  RengaCall(RengaPipelineForward(pipeline, batch, value->name, scores));
  if (RengaCommGetRank(comm) != 0) return RENGA_SUCCESS;
  for (int f = 0; RunField(graph, f); f++)
    if (strcmp(RunField(graph, f)->name, "labels") == 0) field = f;
  RengaCall(batch->read(batch->user, field, 0, batch->samples, labels));
  double sum = 0, n = 0;
  const int64_t classes = value->spec.dim[1];
  for (int64_t i = 0; i < batch->samples; i++) {
    double total = 0;
    for (int64_t c = 0; c < classes; c++) total += exp((double)scores[i * classes + c]);
    if (labels[i] < 0) continue;
    sum += log(total) - (double)scores[i * classes + labels[i]];
    n++;
  }
  Expect(fabs(sum / n - loss) < 1e-5 * fabs(loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNetwork(RengaComm comm, Run run)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  Source source = {.classes = run.classes};
  const RengaBatch batch = {7, RunRead, &source};
  double loss, same;
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunPipeline(comm, &run, graph, plan, &pipeline));
  source.graph = graph;
  RengaCall(StepInPlace(pipeline, &batch, &loss));
  RengaCall(RengaPipelineEvaluate(pipeline, &batch, &same));
  Expect(loss == same);
  for (RengaValue v = 0; v < RengaGraphGetValueCount(graph); v++)
    if (RengaGraphGetValue(graph, v)->kind == RENGA_VALUE_PARAMETER)
      RengaCall(CheckParameter(comm, pipeline, &batch, RengaGraphGetValue(graph, v)));
  if (strncmp(run.graph, "gpt", 3) != 0)
    RengaCall(CheckForward(comm, pipeline, graph, &batch, loss));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const Run networks[] = {
      {.graph = "mlp:sizes=5-9-6-4", .classes = 4},
      {.graph = "skip", .classes = 4},
      {.graph = "gpt:layers=1,hidden=8,heads=2,sequence=4,vocabulary=9", .classes = 9},
  };
  static const int64_t samples[] = {7};
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
    for (int unordered = 0; unordered < 2; unordered++) {
      Run run = networks[n];
      run.batch = 7;
      run.microbatch = 2;
      run.steps = 1;
      run.samples = samples;
      run.stages = RengaCommGetSize(comm);
      run.replicas = 1;
      run.reduction = unordered ? RENGA_REDUCTION_UNORDERED : RENGA_REDUCTION_ORDERED;
      RengaCall(CheckNetwork(comm, run));
    }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}
TEST_MAIN(RunTest)
