/* Graphs of operations: which of them the library runs, in which order, and by which engines. It
   knows attention, forward and backward, and convolutions alone. */
#include "dnn.h"
#include <algorithm>
#include <cstring>

int64_t DnnCount(const DnnList &dims)
{
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  return count;
}

size_t DnnSizeOf(int type)
{
  if (type == CUDNN_DATA_BOOLEAN) return 1;
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2 : 4;
}

int64_t DnnSpanOf(const DnnTensor &t)
{
  int64_t last = 0;
  for (size_t i = 0; i < t.dims.size(); i++) last += (t.dims[i] - 1) * t.strides[i];
  return last + 1;
}

bool DnnGoesInto(const DnnList &small, const DnnList &large, size_t dims)
{
  for (size_t i = 0; i < dims; i++)
    if (large[i] % small[i]) return false;
  return true;
}

static bool IsLow(const DnnTensor &t)
{
  return t.type == CUDNN_DATA_HALF || t.type == CUDNN_DATA_BFLOAT16;
}

/* The tensor's number in the program; the same id is the same tensor. */
static int FindTensor(DnnProgram &program, const DnnState &from)
{
  DnnTensor t = {};
  t.id = DnnGetNumber(from, CUDNN_ATTR_TENSOR_UNIQUE_ID);
  t.alignment = DnnGetNumber(from, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  t.type = (int)DnnGetNumber(from, CUDNN_ATTR_TENSOR_DATA_TYPE);
  t.dims = DnnGetNumbers(from, CUDNN_ATTR_TENSOR_DIMENSIONS);
  t.strides = DnnGetNumbers(from, CUDNN_ATTR_TENSOR_STRIDES);
  t.is_virtual = DnnGetNumber(from, CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
  t.by_value = DnnGetNumber(from, CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0;
  for (size_t i = 0; i < program.tensors.size(); i++) {
    const DnnTensor &old = program.tensors[i];
    if (old.id != t.id) continue;
    if (old.dims != t.dims || old.strides != t.strides || old.type != t.type ||
        old.is_virtual != t.is_virtual || old.by_value != t.by_value)
      DnnRefuse(DNN_BAD, "two tensors of one graph have the id %lld", (long long)t.id);
    return (int)i;
  }
  program.tensors.push_back(t);
  return (int)program.tensors.size() - 1;
}

/* -1: the operation has none. */
static int FindOperand(DnnProgram &program, const DnnState &operation, int attribute)
{
  return DnnHas(operation, attribute) ? FindTensor(program, *DnnGetPart(operation, attribute)) : -1;
}

static void CheckShape(bool fits, const char *what)
{
  if (!fits) DnnRefuse(DNN_BAD, "%s: shapes do not fit", what);
}

static DnnStep ReadPointwise(DnnProgram &p, const DnnState &o)
{
  const DnnState &how = *DnnGetPart(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  DnnStep s = {};
  s.mode = (int)DnnGetNumber(how, CUDNN_ATTR_POINTWISE_MODE);
  s.axis = DnnGetNumber(how, CUDNN_ATTR_POINTWISE_AXIS, -1);
  s.x = FindOperand(p, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
  s.b = FindOperand(p, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  s.t = FindOperand(p, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
  s.y = FindOperand(p, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  const DnnList &y = p.tensors[(size_t)s.y].dims;
  for (int i : {s.x, s.b, s.t}) {
    if (i < 0) continue;
    const DnnList &d = p.tensors[(size_t)i].dims;
    CheckShape(d.size() == y.size(), "a pointwise operation");
    for (size_t k = 0; k < d.size(); k++)
      CheckShape(d[k] == y[k] || d[k] == 1, "a pointwise operation");
  }
  if (s.mode == CUDNN_POINTWISE_GEN_INDEX && (s.axis < 0 || s.axis >= (int64_t)y.size()))
    DnnRefuse(DNN_BAD, "an index has no axis");
  return s;
}

static DnnStep ReadMatmul(DnnProgram &p, const DnnState &o)
{
  DnnStep s = {};
  s.x = FindOperand(p, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  s.b = FindOperand(p, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  s.y = FindOperand(p, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  const DnnList &a = p.tensors[(size_t)s.x].dims, &b = p.tensors[(size_t)s.b].dims;
  const DnnList &c = p.tensors[(size_t)s.y].dims;
  const size_t n = c.size();
  CheckShape(n >= 3 && a.size() == n && b.size() == n, "a product");
  CheckShape(a[n - 2] == c[n - 2] && b[n - 1] == c[n - 1] && a[n - 1] == b[n - 2], "a product");
  CheckShape(DnnGoesInto(a, c, n - 2) && DnnGoesInto(b, c, n - 2), "a product");
  return s;
}

static DnnStep ReadReduction(DnnProgram &p, const DnnState &o)
{
  DnnStep s = {};
  s.mode = (int)DnnGetNumber(*DnnGetPart(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC),
                             CUDNN_ATTR_REDUCTION_OPERATOR);
  s.x = FindOperand(p, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  s.y = FindOperand(p, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  const DnnList &x = p.tensors[(size_t)s.x].dims, &y = p.tensors[(size_t)s.y].dims;
  CheckShape(x.size() == y.size() && DnnGoesInto(y, x, y.size()), "a reduction");
  return s;
}

static DnnStep ReadReshape(DnnProgram &p, const DnnState &o)
{
  DnnStep s = {};
  s.x = FindOperand(p, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  s.y = FindOperand(p, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  CheckShape(DnnCount(p.tensors[(size_t)s.x].dims) == DnnCount(p.tensors[(size_t)s.y].dims),
             "a reshape");
  return s;
}

/* Attributes of the three operations: image, filter, what is convolved, description, factors. */
static const struct {
  int kind, image, filter, out, how, alpha, beta;
} convolutions[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static bool IsConvolution(int kind)
{
  return std::any_of(std::begin(convolutions), std::end(convolutions),
                     [=](const auto &row) { return row.kind == kind; });
}

static float GetFloat(const DnnState &o, int attribute)
{
  float x;
  memcpy(&x, o.values.at(attribute).bytes.data(), sizeof x);
  return x;
}

static void CheckConvolution(const DnnProgram &p, const DnnStep &s)
{
  const DnnList &x = p.tensors[(size_t)s.x].dims, &w = p.tensors[(size_t)s.b].dims;
  const DnnList &y = p.tensors[(size_t)s.y].dims;
  const size_t space = s.stride.size();
  CheckShape(x.size() == space + 2 && w.size() == x.size() && y.size() == x.size(),
             "a convolution");
  CheckShape(x[0] == y[0] && w[0] == y[1] && x[1] % w[1] == 0 && y[1] % (x[1] / w[1]) == 0,
             "a convolution");
  for (size_t i = 0; i < space; i++) {
    const int64_t reach = s.dilation[i] * (w[i + 2] - 1) + 1;
    const int64_t room = x[i + 2] + s.padding[i] + s.padding[space + i] - reach;
    CheckShape(room >= 0 && y[i + 2] == room / s.stride[i] + 1, "a convolution");
  }
}

static DnnStep ReadConvolution(DnnProgram &p, const DnnState &o)
{
  const auto *row = convolutions;
  while (row->kind != o.kind) row++;
  const DnnState &how = *DnnGetPart(o, row->how);
  DnnStep s = {};
  s.x = FindOperand(p, o, row->image);
  s.b = FindOperand(p, o, row->filter);
  s.y = FindOperand(p, o, row->out);
  s.padding = DnnGetNumbers(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const DnnList behind = DnnGetNumbers(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  s.padding.insert(s.padding.end(), behind.begin(), behind.end());
  s.stride = DnnGetNumbers(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  s.dilation = DnnGetNumbers(how, CUDNN_ATTR_CONVOLUTION_DILATIONS);
  s.alpha = GetFloat(o, row->alpha);
  s.beta = GetFloat(o, row->beta);
  CheckConvolution(p, s);
  return s;
}

static const struct {
  int kind;
  DnnStep (*read)(DnnProgram &, const DnnState &);
} readers[] = {
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, ReadPointwise},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, ReadMatmul},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, ReadReduction},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, ReadReshape},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, ReadConvolution},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, ReadConvolution},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, ReadConvolution},
};

static void AddOperation(DnnProgram &p, const DnnState &o)
{
  for (const auto &row : readers)
    if (row.kind == o.kind) {
      p.steps.push_back(row.read(p, o));
      p.steps.back().kind = o.kind;
    }
}

/* Whether shapes fit; other descriptors are no operations. */
void DnnCheckOperation(const DnnState &state)
{
  DnnProgram alone;
  AddOperation(alone, state);
}

int DnnWrites(const DnnStep &s)
{
  if (s.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) return s.x;
  if (s.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR) return s.b;
  return s.y;
}

/* Each tensor is written once, before it is read; who writes a virtual one is among the
   operations, and so is who reads it. */
static void Sort(DnnProgram &p)
{
  std::vector<DnnStep> left = std::move(p.steps);
  for (const DnnStep &s : left) {
    DnnTensor &y = p.tensors[(size_t)DnnWrites(s)];
    if (y.written || y.by_value)
      DnnRefuse(DNN_BAD, "tensor %lld is written twice", (long long)y.id);
    y.written = true;
    for (int i : {s.x, s.b, s.t, s.y})
      if (i >= 0 && i != DnnWrites(s)) p.tensors[(size_t)i].read = true;
  }
  for (const DnnTensor &t : p.tensors)
    if (t.is_virtual && (!t.written || !t.read))
      DnnRefuse(DNN_BAD, "virtual tensor %lld is %s by no operation", (long long)t.id,
                t.written ? "read" : "written");
  std::vector<bool> there(p.tensors.size());
  for (size_t i = 0; i < there.size(); i++) there[i] = !p.tensors[i].written;
  p.steps.clear();
  while (!left.empty()) {
    const auto next = std::find_if(left.begin(), left.end(), [&](const DnnStep &s) {
      for (int i : {s.x, s.b, s.t, s.y})
        if (i >= 0 && i != DnnWrites(s) && !there[(size_t)i]) return false;
      return true;
    });
    if (next == left.end()) DnnRefuse(DNN_BAD, "operations wait for each other");
    there[(size_t)DnnWrites(*next)] = true;
    p.steps.push_back(*next);
    left.erase(next);
  }
}

static int64_t RoundUp(int64_t bytes)
{
  return (bytes + 255) / 256 * 256;
}

static bool IsDense(const DnnTensor &t)
{
  return DnnSpanOf(t) == DnnCount(t.dims);
}

/* Of several types there is no engine. Channels first are turned round on the way. The first engine
   that is advised adds up in any order: who wants the same bits twice must read the notes. */
static void AdviseConvolution(DnnProgram &p)
{
  int64_t turned = 0;
  for (const DnnTensor &t : p.tensors) {
    if (t.type != p.tensors[0].type) return;
    if (!IsDense(t)) DnnRefuse(DNN_OTHER_LAYOUT, "a convolution with gaps");
    if (t.strides[1] != 1) turned += RoundUp(DnnCount(t.dims) * (int64_t)DnnSizeOf(t.type));
  }
  const DnnList any = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  const DnnList cores = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  const DnnList down = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
  const bool low = IsLow(p.tensors[0]);
  const int tf32 = low ? -1 : CUDNN_DATA_FLOAT;
  p.engines.push_back({17, turned + 4096, any, false, tf32});
  if (!low) p.engines.push_back({19, turned, down, true, CUDNN_DATA_HALF});
  p.engines.push_back({23, turned, cores, true, tf32});
  if (!low) p.engines.push_back({5, 0, {}, true, -1});
}

/* Products of 16 bits whose scores stay inside, of widths that are multiples of 8. dQ that is added
   up in memory is added up in any order, and no note says so. */
static void AdviseAttention(DnnProgram &p)
{
  const auto products = std::count_if(p.steps.begin(), p.steps.end(), [](const DnnStep &s) {
    return s.kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  });
  if (products != 2 && products != 5)
    DnnRefuse(DNN_OTHER_PATTERN, "%d products: attention has 2 forward and 5 backward",
              (int)products);
  bool ordered = true;
  int64_t scores = 0;
  for (const DnnStep &s : p.steps) {
    if (s.kind != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    const DnnTensor &a = p.tensors[(size_t)s.x], &b = p.tensors[(size_t)s.b];
    const DnnTensor &c = p.tensors[(size_t)s.y];
    const size_t n = c.dims.size();
    if (n != 4) DnnRefuse(DNN_OTHER_SHAPE, "%zu dimensions", n);
    for (const DnnTensor *t : {&a, &b, &c}) {
      if (t->is_virtual) continue;
      const int64_t width =
          std::min(t->strides[2], t->strides[3]) == 1 ? t->dims[t->strides[3] == 1 ? 3 : 2] : 0;
      if (width % 8 || width == 0 || width > 256)
        DnnRefuse(DNN_OTHER_SHAPE, "a width of %lld of tensor %lld", (long long)width,
                  (long long)t->id);
      if (!IsLow(*t) && !t->written) DnnRefuse(DNN_OTHER_DATA_TYPE, "products of float32");
      ordered = ordered && IsLow(*t);
    }
    if (c.is_virtual && scores == 0) scores = DnnCount(c.dims);
  }
  const int64_t workspace = products == 5 && ordered ? RoundUp(2 * scores) : 0;
  const DnnList cores = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
  p.engines.push_back({11, workspace, cores, ordered, -1});
  p.engines.push_back({13, workspace, cores, ordered, -1});
}

std::shared_ptr<const DnnProgram> DnnMakeProgram(const DnnState &graph)
{
  auto p = std::make_shared<DnnProgram>();
  const auto &operations = graph.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts;
  for (const DnnPart &o : operations) AddOperation(*p, *o);
  if (p->steps.size() != operations.size())
    DnnRefuse(CUDNN_STATUS_NOT_SUPPORTED, "a graph of other things than operations");
  Sort(*p);
  const bool convolves = std::any_of(p->steps.begin(), p->steps.end(),
                                     [](const DnnStep &s) { return IsConvolution(s.kind); });
  if (convolves && p->steps.size() > 1)
    DnnRefuse(DNN_OTHER_PATTERN, "a convolution with other operations");
  if (convolves)
    AdviseConvolution(*p);
  else
    AdviseAttention(*p);
  return p;
}
