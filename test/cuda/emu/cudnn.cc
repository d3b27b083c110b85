/* cuDNN's functions: descriptors with attributes, of which a table says what they may be, and the
   queueing of plans. EMU_CUDNN gives the version; without it there is none. */
#include "dnn.h"
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct Handle {
  cudaStream_t stream;
};
static thread_local std::string last_error;

void DnnRefuse(int status, const char *format, ...)
{
  char text[256];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  throw DnnRefusal{status, text};
}

/* What a call does, or why it does not. */
template <class F> static cudnnStatus_t Try(F call)
{
  try {
    call();
  } catch (const DnnRefusal &refusal) {
    last_error = refusal.text;
    return (cudnnStatus_t)refusal.status;
  }
  return CUDNN_STATUS_SUCCESS;
}

/* Attributes: how many elements of which type, and whether one must be given, may be, or is the
   library's to tell. */
enum Use { MUST, MAY, TOLD };
static const int LIST = 64, SPACE = 3;
struct Row {
  int kind, attribute, type, least, most;
  Use use;
  int part; /* kind of the descriptors that it holds; -1: any operation */
};
#define KIND(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define ONE(kind, attribute, type, use)                                                            \
  {                                                                                                \
    KIND(kind), CUDNN_ATTR_##attribute, CUDNN_TYPE_##type, 1, 1, use, 0                            \
  }
#define MANY(kind, attribute, type, most, use)                                                     \
  {                                                                                                \
    KIND(kind), CUDNN_ATTR_##attribute, CUDNN_TYPE_##type, 1, most, use, 0                         \
  }
#define PART(kind, attribute, part, use)                                                           \
  {                                                                                                \
    KIND(kind), CUDNN_ATTR_##attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, use, KIND(part)       \
  }
#define CONVOLUTION(kind, prefix, image, filter, out)                                              \
  ONE(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##prefix##_ALPHA, FLOAT, MUST),          \
      ONE(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##prefix##_BETA, FLOAT, MUST),       \
      PART(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##prefix##_CONV_DESC, CONVOLUTION,  \
           MUST),                                                                                  \
      PART(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##prefix##_##image, TENSOR, MUST),  \
      PART(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##prefix##_##filter, TENSOR, MUST), \
      PART(OPERATION_CONVOLUTION_##kind, OPERATION_CONVOLUTION_##prefix##_##out, TENSOR, MUST)
static const Row rows[] = {
    ONE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, MUST),
    MANY(TENSOR, TENSOR_DIMENSIONS, INT64, 8, MUST),
    MANY(TENSOR, TENSOR_STRIDES, INT64, 8, MUST),
    ONE(TENSOR, TENSOR_UNIQUE_ID, INT64, MUST),
    ONE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, MUST),
    ONE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, MAY),
    ONE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, MAY),
    ONE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, MUST),
    ONE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, MUST),
    ONE(POINTWISE, POINTWISE_AXIS, INT64, MAY),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, POINTWISE, MUST),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, TENSOR, MUST),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, TENSOR, MAY),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, TENSOR, MAY),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, TENSOR, MUST),
    ONE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, MUST),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, TENSOR, MUST),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, TENSOR, MUST),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, TENSOR, MUST),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_DESC, MATMUL, MUST),
    ONE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, MUST),
    ONE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, MUST),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, TENSOR, MUST),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, TENSOR, MUST),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, REDUCTION, MUST),
    PART(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, TENSOR, MUST),
    PART(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, TENSOR, MUST),
    ONE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, MUST),
    ONE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, MUST),
    ONE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, MUST),
    MANY(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, SPACE, MUST),
    MANY(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, SPACE, MUST),
    MANY(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, SPACE, MUST),
    MANY(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, SPACE, MUST),
    CONVOLUTION(FORWARD, FORWARD, X, W, Y),
    CONVOLUTION(BACKWARD_DATA, BWD_DATA, DX, W, DY),
    CONVOLUTION(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
    ONE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, MAY),
    {KIND(OPERATIONGRAPH), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, LIST,
     MUST, -1},
    PART(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH, MUST),
    ONE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, MUST),
    {KIND(ENGINEHEUR), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, LIST, TOLD,
     KIND(ENGINECFG)},
    ONE(ENGINE, ENGINE_GLOBAL_INDEX, INT64, TOLD),
    MANY(ENGINE, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE, LIST, TOLD),
    PART(ENGINECFG, ENGINECFG_ENGINE, ENGINE, TOLD),
    ONE(ENGINECFG, ENGINECFG_WORKSPACE_SIZE, INT64, TOLD),
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, MUST),
    PART(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG, MUST),
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, TOLD),
    MANY(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, LIST, MUST),
    MANY(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, LIST, MUST),
    ONE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, MAY),
};

static bool IsKind(int kind)
{
  return std::any_of(std::begin(rows), std::end(rows),
                     [=](const Row &r) { return r.kind == kind; });
}

/* An attribute of another descriptor is the caller's fault; one that no row has, the twin's. */
static const Row &FindRow(const DnnState &state, int attribute)
{
  const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row &r) {
    return r.kind == state.kind && r.attribute == attribute;
  });
  if (row != std::end(rows)) return *row;
  if (std::none_of(std::begin(rows), std::end(rows),
                   [=](const Row &r) { return r.attribute == attribute; }))
    EmuFail("cuDNN: attribute %d of a descriptor of kind %d is not emulated", attribute,
            state.kind);
  DnnRefuse(DNN_BAD, "a descriptor of kind %d has no attribute %d", state.kind, attribute);
}

static size_t SizeOf(int type)
{
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
    return 1;
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    return 8;
  default:
    return 4;
  }
}

static void CheckType(const Row &row, int type)
{
  if (type != row.type)
    DnnRefuse(DNN_OTHER_TYPE, "attribute %d is of type %d, not %d", row.attribute, row.type, type);
}

bool DnnHas(const DnnState &state, int attribute)
{
  return state.values.count(attribute) != 0;
}

const DnnPart &DnnGetPart(const DnnState &state, int attribute, size_t number)
{
  return state.values.at(attribute).parts.at(number);
}

std::vector<int64_t> DnnGetNumbers(const DnnState &state, int attribute)
{
  std::vector<int64_t> numbers;
  if (!DnnHas(state, attribute)) return numbers;
  const DnnValue &v = state.values.at(attribute);
  const size_t size = SizeOf(v.type);
  for (int64_t i = 0; i < v.count; i++) {
    int64_t n = 0; /* little-endian */
    memcpy(&n, v.bytes.data() + (size_t)i * size, size);
    numbers.push_back(n);
  }
  return numbers;
}

int64_t DnnGetNumber(const DnnState &state, int attribute, int64_t otherwise)
{
  return DnnHas(state, attribute) ? DnnGetNumbers(state, attribute)[0] : otherwise;
}

static void Tell(DnnState &state, int attribute, int type, const DnnList &numbers)
{
  DnnValue v = {type, (int64_t)numbers.size(), "", {}};
  for (int64_t n : numbers) v.bytes.append((const char *)&n, SizeOf(type));
  state.values[attribute] = v;
}

/* What the user has is a pointer to a part, which descriptors that are made of it keep. */
static DnnState &Open(cudnnBackendDescriptor_t descriptor)
{
  if (!descriptor) DnnRefuse(DNN_NULL, "no descriptor");
  return **(DnnPart *)descriptor;
}

static void SetParts(const Row &row, DnnValue &v, const void *elements)
{
  for (int64_t i = 0; i < v.count; i++) {
    const DnnPart *part = ((const DnnPart *const *)elements)[i];
    if (!part) DnnRefuse(DNN_BAD, "element %d of attribute %d is NULL", (int)i, row.attribute);
    v.parts.push_back(*part);
  }
}

static void SetValue(DnnState &state, int attribute, int type, int64_t count, const void *elements)
{
  const Row &row = FindRow(state, attribute);
  CheckType(row, type);
  if (state.finalized) DnnRefuse(DNN_BAD, "the descriptor is finalized");
  if (row.use == TOLD) DnnRefuse(DNN_BAD, "attribute %d is read-only", attribute);
  if (!elements) DnnRefuse(DNN_NULL, "no elements");
  if (count < row.least || count > row.most)
    DnnRefuse(DNN_BAD, "%lld elements of attribute %d", (long long)count, attribute);
  DnnValue v = {type, count, "", {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    SetParts(row, v, elements);
  else
    v.bytes.assign((const char *)elements, (size_t)count * SizeOf(type));
  state.values[attribute] = v;
}

/* Those that are asked for become what is told: the user has created them. Fewer results may come
   than their number was said to be, as of NVIDIA's library. */
static void GetParts(const Row &row, const DnnValue &v, int64_t count, void *elements)
{
  for (int64_t i = 0; i < count; i++) {
    DnnPart *part = ((DnnPart **)elements)[i];
    if (!part) DnnRefuse(DNN_NULL, "element %d is NULL", (int)i);
    if ((*part)->kind != row.part)
      DnnRefuse(DNN_BAD, "attribute %d gives descriptors of kind %d, not %d", row.attribute,
                row.part, (*part)->kind);
    *part = v.parts[(size_t)i];
  }
}

static void GetValue(const DnnState &state, int attribute, int type, int64_t wanted, int64_t *count,
                     void *elements)
{
  const Row &row = FindRow(state, attribute);
  CheckType(row, type);
  if (!state.finalized) DnnRefuse(DNN_NOT_INITIALIZED, "attribute %d is not told yet", attribute);
  const auto found = state.values.find(attribute);
  const int64_t all = found == state.values.end() ? 0 : found->second.count;
  const int64_t some = std::min(all, wanted);
  const bool asks = wanted <= 0 || !elements;
  if (count) *count = !asks ? some : attribute == CUDNN_ATTR_ENGINEHEUR_RESULTS ? all + 1 : all;
  if (asks || all == 0) return;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    GetParts(row, found->second, some, elements);
  else
    memcpy(elements, found->second.bytes.data(), (size_t)some * SizeOf(type));
}

static void CheckTensor(const DnnState &s)
{
  const DnnList dims = DnnGetNumbers(s, CUDNN_ATTR_TENSOR_DIMENSIONS);
  const DnnList strides = DnnGetNumbers(s, CUDNN_ATTR_TENSOR_STRIDES);
  const int64_t alignment = DnnGetNumber(s, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  const int type = (int)DnnGetNumber(s, CUDNN_ATTR_TENSOR_DATA_TYPE);
  static const int types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16,
                              CUDNN_DATA_INT32, CUDNN_DATA_BOOLEAN};
  if (std::find(std::begin(types), std::end(types), type) == std::end(types))
    EmuFail("cuDNN: tensors of type %d are not emulated", type);
  if (dims.size() != strides.size())
    DnnRefuse(DNN_BAD, "%zu dimensions and %zu strides", dims.size(), strides.size());
  for (size_t i = 0; i < dims.size(); i++)
    if (dims[i] < 1 || strides[i] < 0)
      DnnRefuse(DNN_BAD, "an extent or a stride is below its least");
  if (alignment < 1 || (alignment & (alignment - 1)) || alignment % (int64_t)DnnSizeOf(type))
    DnnRefuse(DNN_BAD, "an alignment of %lld bytes", (long long)alignment);
}

static void CheckConvolution(const DnnState &s)
{
  const int64_t space = DnnGetNumber(s, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  if (DnnGetNumber(s, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT ||
      DnnGetNumber(s, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
    EmuFail("cuDNN: only correlations in float32 are emulated");
  for (int a : {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
                CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS}) {
    const bool pads =
        a == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS || a == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS;
    const DnnList list = DnnGetNumbers(s, a);
    if ((int64_t)list.size() != space)
      DnnRefuse(DNN_BAD, "%zu numbers for %d dimensions", list.size(), (int)space);
    for (int64_t n : list)
      if (n < (pads ? 0 : 1)) DnnRefuse(DNN_BAD, "a padding, stride or dilation");
  }
}

static void TellEngine(DnnState &s, const DnnEngine &engine)
{
  Tell(s, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, {engine.number});
  Tell(s, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, engine.notes);
}

static const DnnEngine &FindEngine(const DnnState &s)
{
  const int64_t number = DnnGetNumber(s, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  for (const DnnEngine &e : s.program->engines)
    if (e.number == number) return e;
  DnnRefuse(CUDNN_STATUS_NOT_SUPPORTED, "the graph has no engine %lld", (long long)number);
}

/* EMU_CUDNN_ENGINE: 1, or 1@2 of rank 2: so many engines are not advised. */
static size_t CountHidden()
{
  const char *text = getenv("EMU_CUDNN_ENGINE");
  int hidden = 0, rank = EmuRank();
  if (text) sscanf(text, "%d@%d", &hidden, &rank);
  return rank == EmuRank() ? (size_t)hidden : 0;
}

static void FinishAdvice(DnnState &s)
{
  const DnnPart &graph = DnnGetPart(s, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const int mode = (int)DnnGetNumber(s, CUDNN_ATTR_ENGINEHEUR_MODE);
  const auto &engines = graph->program->engines;
  DnnValue v = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, "", {}};
  const size_t last = engines.empty() ? 0 : engines.size() - 1;
  const size_t first = mode == CUDNN_HEUR_MODE_FALLBACK ? last : CountHidden();
  for (size_t i = first; i < engines.size(); i++) {
    auto engine = std::make_shared<DnnState>(), made = std::make_shared<DnnState>();
    engine->kind = KIND(ENGINE);
    made->kind = KIND(ENGINECFG);
    engine->program = made->program = graph->program;
    TellEngine(*engine, engines[i]);
    made->values[CUDNN_ATTR_ENGINECFG_ENGINE] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, "", {engine}};
    Tell(*made, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, {engines[i].workspace});
    engine->finalized = made->finalized = true;
    v.parts.push_back(made);
  }
  v.count = (int64_t)v.parts.size();
  s.values[CUDNN_ATTR_ENGINEHEUR_RESULTS] = v;
}

static void FinishPlan(DnnState &s)
{
  if (EmuFails("plan")) DnnRefuse(CUDNN_STATUS_NOT_SUPPORTED, "EMU_FAIL=plan");
  const DnnState &from = *DnnGetPart(s, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  s.program = from.program;
  Tell(s, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
       {DnnGetNumber(from, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE)});
}

static void CheckPack(const DnnState &s)
{
  DnnList ids = DnnGetNumbers(s, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (ids.size() != DnnGetNumbers(s, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size())
    DnnRefuse(DNN_BAD, "other numbers of ids and of pointers");
  std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end())
    DnnRefuse(DNN_BAD, "an id comes twice");
}

static void CheckParts(const DnnState &s, const Row &row)
{
  if (!DnnHas(s, row.attribute)) return;
  for (const DnnPart &part : s.values.at(row.attribute).parts) {
    if (row.part >= 0 && part->kind != row.part)
      DnnRefuse(DNN_BAD, "attribute %d takes descriptors of kind %d, not %d", row.attribute,
                row.part, part->kind);
    if (!part->finalized) DnnRefuse(DNN_NOT_FINALIZED, "a part, attribute %d", row.attribute);
  }
}

static void Finish(DnnState &s)
{
  if (s.finalized) DnnRefuse(DNN_BAD, "the descriptor is finalized already");
  for (const Row &row : rows)
    if (row.kind == s.kind && row.use == MUST && !DnnHas(s, row.attribute))
      DnnRefuse(DNN_BAD, "attribute %d is not set", row.attribute);
  for (const Row &row : rows)
    if (row.kind == s.kind) CheckParts(s, row);
  DnnCheckOperation(s);
  static const struct {
    int kind;
    void (*finish)(DnnState &);
  } each[] = {
      {KIND(TENSOR), [](DnnState &t) { CheckTensor(t); }},
      {KIND(CONVOLUTION), [](DnnState &t) { CheckConvolution(t); }},
      {KIND(OPERATIONGRAPH), [](DnnState &t) { t.program = DnnMakeProgram(t); }},
      {KIND(ENGINEHEUR), FinishAdvice},
      {KIND(EXECUTION_PLAN), FinishPlan},
      {KIND(VARIANT_PACK), [](DnnState &t) { CheckPack(t); }},
  };
  for (const auto &row : each)
    if (row.kind == s.kind) row.finish(s);
  s.finalized = true;
}

/* Of one execution: values are taken at once, memory when the work runs. */
struct Binding {
  std::vector<char *> memory; /* by tensor; NULL: virtual */
  std::vector<std::string> values;
  char *workspace;
};

static void Bind(const DnnTensor &t, void *pointer, Binding &to)
{
  const size_t bytes = (size_t)DnnSpanOf(t) * DnnSizeOf(t.type);
  if (!pointer) DnnRefuse(DNN_NULL, "tensor %lld has no memory", (long long)t.id);
  if (t.by_value) {
    to.values.emplace_back((const char *)pointer, bytes);
    to.memory.push_back(&to.values.back()[0]);
    return;
  }
  if ((uintptr_t)pointer % (uintptr_t)t.alignment)
    DnnRefuse(DNN_MISALIGNED, "tensor %lld is at %p", (long long)t.id, pointer);
  EmuNeedDevice("cudnnBackendExecute", ("tensor " + std::to_string(t.id)).c_str(), pointer, bytes);
  to.memory.push_back((char *)pointer);
}

static std::shared_ptr<Binding> BindAll(const DnnProgram &program, const DnnState &pack,
                                        int64_t workspace)
{
  auto made = std::make_shared<Binding>();
  const DnnList ids = DnnGetNumbers(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const DnnList pointers = DnnGetNumbers(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  made->values.reserve(program.tensors.size());
  for (const DnnTensor &t : program.tensors) {
    const auto found = std::find(ids.begin(), ids.end(), t.id);
    if (t.is_virtual)
      made->memory.push_back(nullptr);
    else if (found == ids.end())
      DnnRefuse(DNN_BAD, "the pack has no tensor %lld", (long long)t.id);
    else
      Bind(t, (void *)pointers[(size_t)(found - ids.begin())], *made);
  }
  made->workspace = (char *)DnnGetNumber(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (workspace && !made->workspace)
    DnnRefuse(DNN_NULL, "no workspace of %lld bytes", (long long)workspace);
  EmuNeedDevice("cudnnBackendExecute", "the workspace", made->workspace, (size_t)workspace);
  return made;
}

static void Execute(cudnnHandle_t handle, const DnnState &plan, const DnnState &pack)
{
  if (!handle) DnnRefuse(DNN_NULL, "no handle");
  if (plan.kind != KIND(EXECUTION_PLAN) || pack.kind != KIND(VARIANT_PACK))
    DnnRefuse(DNN_BAD, "no plan, or no pack");
  if (!plan.finalized || !pack.finalized) DnnRefuse(DNN_NOT_FINALIZED, "the plan or the pack");
  const DnnState &from = *DnnGetPart(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const DnnEngine engine = FindEngine(*DnnGetPart(from, CUDNN_ATTR_ENGINECFG_ENGINE));
  const auto binding = BindAll(*plan.program, pack, engine.workspace);
  const auto program = plan.program;
  const bool fails = EmuFails("cudnn");
  const cudaError_t code = EmuQueue(((Handle *)handle)->stream, "cudnnBackendExecute", [=] {
    static uint64_t random = 0x9e3779b97f4a7c15ull; /* of the device's thread */
    DnnRun(*program, engine, binding->memory, binding->workspace, fails, &random);
    return true;
  });
  if (code) DnnRefuse(DNN_FAILED, "error %d of CUDA", (int)code);
}

extern "C" {

/* EMU_CUDNN=9.19.0 is 91900, and 8.9.7 is 8907. */
size_t cudnnGetVersion(void)
{
  const char *text = getenv("EMU_CUDNN");
  unsigned major = 0, minor = 0, patch = 0;
  if (!text || sscanf(text, "%u.%u.%u", &major, &minor, &patch) < 1) return 0;
  return (major < 9 ? 1000 : 10000) * (size_t)major + 100 * (size_t)minor + patch;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
  static thread_local char text[60];
  snprintf(text, sizeof text, "status %d of the emulated cuDNN", (int)status);
  return text;
}

void cudnnGetLastErrorString(char *message, size_t size)
{
  snprintf(message, size, "%s", last_error.c_str());
  last_error.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
  if (!EmuGetSettings().devices || cudnnGetVersion() == 0) return DNN_NOT_INITIALIZED;
  *handle = (cudnnHandle_t) new Handle{};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
  if (!handle) return DNN_NULL;
  ((Handle *)handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind,
                                           cudnnBackendDescriptor_t *descriptor)
{
  if (!descriptor) return DNN_NULL;
  if (!IsKind(kind)) EmuFail("cuDNN: descriptors of kind %d are not emulated", (int)kind);
  auto state = std::make_shared<DnnState>();
  state->kind = kind;
  *descriptor = new DnnPart(state);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
  delete (DnnPart *)descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t attribute,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *elements)
{
  return Try([=] { SetValue(Open(descriptor), attribute, type, count, elements); });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t attribute,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t *count, void *elements)
{
  return Try([=] { GetValue(Open(descriptor), attribute, type, wanted, count, elements); });
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
  return Try([=] { Finish(Open(descriptor)); });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
  return Try([=] { Execute(handle, Open(plan), Open(pack)); });
}
}
