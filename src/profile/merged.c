/* The check of the sum: nodes one after the other, forward and then backward, on memory that is
   laid out as a stage's, against the sum of their costs. Where a network is too large for that, a
   run of nodes from its middle stands for it. */
#include "measured.h"
#include "renga/private/device.h"

enum { ALIGNMENT = 64, PASSES = 5 };
static const double MOST_SECONDS = 0.4; /* of a pass, as the sum predicts it */
static const int64_t MOST_BYTES = (int64_t)3 << 30;

typedef struct {
  RengaValue root;
  int64_t bytes, offset;
  int last;      /* position of the last node that reads it */
  bool external; /* made by none of the nodes: filled once */
  bool placed;
} RunTensor;

typedef struct {
  int64_t offset, bytes;
} Gap;

typedef struct {
  RengaProfile profile;
  RengaDevice device;
  int64_t samples, bytes;
  int count;           /* nodes */
  int *node;           /* of whole, in order */
  RengaKernel *kernel; /* [count]; lent by one of each call */
  RengaKernel *made;   /* [calls] */
  RunTensor *tensor;   /* [values], by root */
  int n_gaps;
  Gap *gap; /* [values] */
  char *base, *workspace;
} Merged;

static const RengaGraphNode *NodeAt(const Merged *merged, int position)
{
  return RengaGraphGetNode(merged->profile->whole, merged->node[position]);
}

static RunTensor *TensorOf(const Merged *merged, RengaValue value)
{
  return &merged->tensor[RengaProfileRoot_Private(merged->profile->whole, value)];
}

/* Ids [*first, *last) around the middle that a pass may take. */
static void ChooseWindow(RengaProfile profile, const RengaProfileCost costs[], int *first,
                         int *last)
{
  const int count = RengaGraphGetNodeCount(profile->graph);
  double seconds = 0;
  *first = *last = count / 2;
  while ((*first > 0 || *last < count) && seconds < MOST_SECONDS) {
    if (*first > 0) {
      --*first;
      seconds += costs[*first].forward + costs[*first].backward;
    }
    if (*last < count) {
      seconds += costs[*last].forward + costs[*last].backward;
      ++*last;
    }
  }
}

static RengaErrorCode ListRunNodes(Merged *merged, int first, int last)
{
  RengaProfile profile = merged->profile;
  const int n_nodes = RengaGraphGetNodeCount(profile->whole);
  RengaCall(RengaMalloc(n_nodes + 1, &merged->node));
  for (int n = 0; n < n_nodes; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(profile->whole, n);
    if (profile->number[n] >= 0 && node->id >= first && node->id < last)
      merged->node[merged->count++] = n;
  }
  return RENGA_SUCCESS;
}

/* Parameters' gradients and what comes from outside stay to the end. */
static RengaErrorCode ListTensors(Merged *merged)
{
  RengaGraph whole = merged->profile->whole;
  const int n_values = RengaGraphGetValueCount(whole);
  int uses;
  const RengaParameterUse *use;
  RengaCall(RengaMalloc(n_values + 1, &merged->tensor));
  RengaCall(RengaMalloc(n_values + 1, &merged->gap));
  for (RengaValue v = 0; v < n_values; v++) {
    const RengaTensorSpec spec = RengaGraphStoredAt(RengaGraphGetValue(whole, v), merged->samples);
    const int64_t bytes = (int64_t)RengaTensorSpecBytes(&spec);
    merged->tensor[v] = (RunTensor){.root = v,
                                    .bytes = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT,
                                    .last = -1,
                                    .external = true};
  }
  for (int p = 0; p < merged->count; p++) {
    const RengaGraphNode *node = NodeAt(merged, p);
    for (int i = 0; i < node->n_in; i++)
      if (node->in[i] != RENGA_VALUE_NONE) TensorOf(merged, node->in[i])->last = p;
    for (int o = 0; o < node->n_out; o++) {
      if (node->out[o] == RENGA_VALUE_NONE) continue;
      RunTensor *tensor = TensorOf(merged, node->out[o]);
      tensor->external = false;
      tensor->last = p;
    }
  }
  RengaCall(RengaGraphGetParameterUses(whole, &uses, &use));
  for (int u = 0; u < uses; u++)
    if (use[u].gradient != RENGA_VALUE_NONE)
      TensorOf(merged, use[u].gradient)->last = merged->count;
  return RENGA_SUCCESS;
}

/* The smallest gap that is large enough, or the end. */
static void TakePlace(Merged *merged, RunTensor *tensor)
{
  int best = -1;
  for (int g = 0; g < merged->n_gaps; g++)
    if (merged->gap[g].bytes >= tensor->bytes &&
        (best < 0 || merged->gap[g].bytes < merged->gap[best].bytes))
      best = g;
  tensor->placed = true;
  if (best < 0) {
    tensor->offset = merged->bytes;
    merged->bytes += tensor->bytes;
    return;
  }
  Gap *gap = &merged->gap[best];
  tensor->offset = gap->offset;
  gap->offset += tensor->bytes;
  gap->bytes -= tensor->bytes;
  if (gap->bytes == 0) *gap = merged->gap[--merged->n_gaps];
}

/* Gaps that touch become one. */
static void GivePlace(Merged *merged, const RunTensor *tensor)
{
  Gap made = {tensor->offset, tensor->bytes};
  for (int g = 0; g < merged->n_gaps;) {
    const Gap *gap = &merged->gap[g];
    if (gap->offset + gap->bytes != made.offset && made.offset + made.bytes != gap->offset) {
      g++;
      continue;
    }
    if (gap->offset < made.offset) made.offset = gap->offset;
    made.bytes += gap->bytes;
    merged->gap[g] = merged->gap[--merged->n_gaps];
  }
  merged->gap[merged->n_gaps++] = made;
}

static RengaErrorCode FindRunKernel(Merged *merged, int position)
{
  const int number = merged->profile->number[merged->node[position]];
  if (!merged->made[number]) {
    const RengaOpCall op = RengaProfileOpCall_Private(&merged->profile->call[number]);
    RengaCall(RengaKernelCreate(merged->device, &op, &merged->made[number]));
  }
  merged->kernel[position] = merged->made[number];
  return RENGA_SUCCESS;
}

/* An output over an input that is used up, where the kernel allows it. */
static bool TakeInput(Merged *merged, int position, int output)
{
  const RengaGraphNode *node = NodeAt(merged, position);
  RunTensor *to = TensorOf(merged, node->out[output]);
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == RENGA_VALUE_NONE) continue;
    RunTensor *from = TensorOf(merged, node->in[i]);
    if (from->external || !from->placed || from->last != position || from->bytes != to->bytes ||
        !RengaKernelMayAlias(merged->kernel[position], output, i))
      continue;
    to->offset = from->offset;
    to->placed = true;
    from->last = -1; /* its place has gone on */
    return true;
  }
  return false;
}

static RengaErrorCode PlaceAll(Merged *merged)
{
  RengaCall(RengaMalloc(merged->count + 1, &merged->kernel));
  RengaCall(RengaMalloc(merged->profile->n_calls + 1, &merged->made));
  for (int v = 0; v < RengaGraphGetValueCount(merged->profile->whole); v++)
    if (merged->tensor[v].external && merged->tensor[v].last >= 0)
      TakePlace(merged, &merged->tensor[v]);
  for (int p = 0; p < merged->count; p++) {
    const RengaGraphNode *node = NodeAt(merged, p);
    RengaCall(FindRunKernel(merged, p));
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] != RENGA_VALUE_NONE && !TensorOf(merged, node->out[o])->placed &&
          !TakeInput(merged, p, o))
        TakePlace(merged, TensorOf(merged, node->out[o]));
    for (int i = 0; i < node->n_in + node->n_out; i++) {
      const RengaValue value = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
      if (value == RENGA_VALUE_NONE) continue;
      RunTensor *tensor = TensorOf(merged, value);
      if (tensor->external || !tensor->placed || tensor->last != p) continue;
      GivePlace(merged, tensor);
      tensor->last = -1;
    }
  }
  return RENGA_SUCCESS;
}

static RengaOpCall CallAt(const Merged *merged, int position)
{
  return RengaProfileOpCall_Private(
      &merged->profile->call[merged->profile->number[merged->node[position]]]);
}

/* Several nodes may read the same indices: those of the one that has the least to choose from are
   within bounds of all. */
static void FindStrictest(const Merged *merged, int *position, int *input)
{
  const RunTensor *tensor = TensorOf(merged, NodeAt(merged, *position)->in[*input]);
  int64_t least = INT64_MAX, bound;
  for (int p = *position; p < merged->count; p++) {
    const RengaGraphNode *node = NodeAt(merged, p);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == RENGA_VALUE_NONE || TensorOf(merged, node->in[i]) != tensor) continue;
      const RengaOpCall op = CallAt(merged, p);
      if (!RengaProfileIsIndex_Private(&op, i, &bound) || bound >= least) continue;
      least = bound;
      *position = p;
      *input = i;
    }
  }
}

/* A parameter begins as in training, other numbers between 0.1 and 0.9, indices within bounds. */
static RengaErrorCode FillRunTensor(Merged *merged, int position, int input)
{
  RunTensor *tensor = TensorOf(merged, NodeAt(merged, position)->in[input]);
  if (!RengaDataTypeIsFloating(RengaGraphGetValue(merged->profile->whole, tensor->root)->spec.type))
    FindStrictest(merged, &position, &input);
  const RengaOpCall op = CallAt(merged, position);
  const RengaGraphValue *value = RengaGraphGetValue(merged->profile->whole, tensor->root);
  char *host = NULL;
  RengaErrorCode code;
  RengaCall(RengaMalloc(tensor->bytes, &host));
  if ((value->kind == RENGA_VALUE_PARAMETER || value->kind == RENGA_VALUE_STATE) &&
      value->stored == RENGA_FLOAT32)
    code = RengaGraphInitializeValue(merged->profile->whole, tensor->root, 1, 0,
                                     RengaTensorSpecCount(&value->spec), (float *)host);
  else
    code = RengaProfileFill_Private(&op, input, host);
  if (code == RENGA_SUCCESS)
    code =
        RengaDeviceCopy(merged->device, NULL, RENGA_HOST_TO_DEVICE, merged->base + tensor->offset,
                        host, RengaTensorSpecBytes(&op.in[input]));
  if (code == RENGA_SUCCESS) code = RengaStreamSynchronize(merged->device, NULL);
  RengaFree(&host);
  RengaCall(code);
  tensor->last = -1; /* filled */
  return RENGA_SUCCESS;
}

static RengaErrorCode FillRunTensors(Merged *merged)
{
  size_t workspace = 0;
  for (int p = 0; p < merged->count; p++)
    if (RengaKernelGetWorkspace(merged->kernel[p]) > workspace)
      workspace = RengaKernelGetWorkspace(merged->kernel[p]);
  RengaCall(RengaDeviceMalloc(merged->device, (size_t)merged->bytes + ALIGNMENT, &merged->base));
  RengaCall(RengaDeviceMalloc(merged->device, workspace + ALIGNMENT, &merged->workspace));
  for (int p = 0; p < merged->count; p++) {
    const RengaGraphNode *node = NodeAt(merged, p);
    for (int i = 0; i < node->n_in; i++) {
      if (node->in[i] == RENGA_VALUE_NONE) continue;
      const RunTensor *tensor = TensorOf(merged, node->in[i]);
      if (tensor->external && tensor->last >= 0) RengaCall(FillRunTensor(merged, p, i));
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunNode(Merged *merged, int position, const void **argument)
{
  const RengaGraphNode *node = NodeAt(merged, position);
  const RengaKernelContext context = {
      .seed = 1, .step = 1, .sample = 0, .samples = merged->samples, .training = true};
  for (int i = 0; i < node->n_in + node->n_out; i++) {
    const RengaValue value = i < node->n_in ? node->in[i] : node->out[i - node->n_in];
    argument[i] = value == RENGA_VALUE_NONE ? NULL : merged->base + TensorOf(merged, value)->offset;
  }
  RengaCall(RengaKernelRun(merged->kernel[position], NULL, &context, argument,
                           (void **)(argument + node->n_in), merged->workspace));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunNodesOf(Merged *merged, int part, int *position, const void **argument)
{
  for (; *position < merged->count && (int)merged->profile->part[merged->node[*position]] == part;
       (*position)++)
    RengaCall(RunNode(merged, *position, argument));
  RengaCall(RengaStreamSynchronize(merged->device, NULL));
  return RENGA_SUCCESS;
}

/* seconds[part], the median of some passes after one. */
static RengaErrorCode RunPasses(Merged *merged, const ProfileBench *bench, const void **argument,
                                double seconds[2])
{
  double value[2][PASSES];
  for (int pass = -1; pass < PASSES; pass++) {
    int position = 0;
    for (int part = 0; part < 2; part++) {
      RengaDeviceHoldSignals_Private();
      const double begin = RengaProfileClock_Private(bench);
      const RengaErrorCode code = RunNodesOf(merged, part, &position, argument);
      if (pass >= 0) value[part][pass] = RengaProfileClock_Private(bench) - begin;
      RengaDeviceReleaseSignals_Private();
      RengaCall(code);
    }
  }
  for (int part = 0; part < 2; part++)
    seconds[part] = RengaProfileMedian_Private(PASSES, value[part]);
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeMerged(Merged *merged)
{
  for (int c = 0; merged->made && c < merged->profile->n_calls; c++)
    if (merged->made[c]) RengaCall(RengaKernelDestroy(&merged->made[c]));
  if (merged->base) RengaCall(RengaDeviceFree(merged->device, &merged->base));
  if (merged->workspace) RengaCall(RengaDeviceFree(merged->device, &merged->workspace));
  RengaFree(&merged->node);
  RengaFree(&merged->kernel);
  RengaFree(&merged->made);
  RengaFree(&merged->tensor);
  RengaFree(&merged->gap);
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildMerged(Merged *merged, const RengaProfileCost costs[])
{
  int first, last;
  ChooseWindow(merged->profile, costs, &first, &last);
  RengaCall(ListRunNodes(merged, first, last));
  RengaCall(ListTensors(merged));
  RengaCall(PlaceAll(merged));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunInTurn(Merged *merged, double seconds[2])
{
  ProfileBench bench;
  const void **argument = NULL;
  if (merged->bytes > MOST_BYTES || merged->count == 0) return RENGA_SUCCESS;
  RengaCall(RengaProfileBenchCreate_Private(merged->device, 0, &bench));
  RengaCall(FillRunTensors(merged));
  RengaCall(RengaMalloc(merged->profile->largest + 1, &argument));
  const RengaErrorCode code = RunPasses(merged, &bench, argument, seconds);
  RengaFree(&argument);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* ratio[part]: what the nodes took over the sum of their costs; 1 where they could not be run.
   Not collective. */
RengaErrorCode RengaMeasuredMerge_Private(RengaProfile profile, int64_t samples,
                                          const RengaProfileCost costs[], double ratio[2])
{
  Merged merged = {
      .profile = profile, .device = RengaMeasuredDevice_Private(profile), .samples = samples};
  double seconds[2] = {0, 0}, sum[2] = {0, 0};
  RengaErrorCode code = BuildMerged(&merged, costs);
  if (code == RENGA_SUCCESS) code = RunInTurn(&merged, seconds);
  for (int p = 0; p < merged.count; p++)
    sum[profile->part[merged.node[p]]] += profile->call[profile->number[merged.node[p]]].seconds;
  const RengaErrorCode freed = FreeMerged(&merged);
  RengaCall(code ? code : freed);
  for (int part = 0; part < 2; part++)
    ratio[part] = seconds[part] > 0 && sum[part] > 0 ? seconds[part] / sum[part] : 1;
  return RENGA_SUCCESS;
}
