/* Operations of a graph, one after the other, by plain loops over numbers without gaps, in float32.
   What lies between two of them is rounded to its type. */
#include "dnn.h"
#include "blas.h"
#include <algorithm>
#include <cmath>
#include <cstring>

typedef std::vector<float> Floats;

static DnnList StridesOf(const DnnList &dims)
{
  DnnList strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

/* Where the elements of a tensor stand, in the order of the indices of `large`, whose dimensions
   are multiples of the tensor's: neighbours share an element. */
static DnnList PlacesIn(const DnnList &large, const DnnList &dims, const DnnList &strides)
{
  DnnList places = {0};
  for (size_t d = 0; d < large.size(); d++) {
    DnnList next;
    next.reserve(places.size() * (size_t)large[d]);
    for (int64_t at : places)
      for (int64_t i = 0; i < large[d]; i++)
        next.push_back(at + i / (large[d] / dims[d]) * strides[d]);
    places = std::move(next);
  }
  return places;
}

static DnnList PlacesIn(const DnnList &large, const DnnList &dims)
{
  return PlacesIn(large, dims, StridesOf(dims));
}

static cudaDataType TypeOf(int type)
{
  return type == CUDNN_DATA_HALF       ? CUDA_R_16F
         : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
                                       : CUDA_R_32F;
}

static float RoundTo(int type, float x)
{
  EmuStoreNumber(x, &x, TypeOf(type), 0);
  return EmuLoadNumber(&x, TypeOf(type), 0);
}

/* What runs. */
struct Run {
  const DnnProgram &program;
  const DnnEngine &engine;
  uint64_t *random;
  std::vector<Floats> value; /* by tensor */
  const DnnTensor &At(int i) const
  {
    return program.tensors[(size_t)i];
  }
  const Floats &Of(int i) const
  {
    return value[(size_t)i];
  }
  /* Where a sum of so many begins. */
  int64_t Begin(int64_t count) const
  {
    return engine.ordered ? 0 : (int64_t)(EmuNextRandom(random) % (uint64_t)count);
  }
};

static float Compute(int mode, float x, float b, float t)
{
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return expf(x);
  case CUDNN_POINTWISE_LOG:
    return logf(x);
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return t != 0 ? x : b;
  default:
    EmuFail("cuDNN: pointwise mode %d is not emulated", mode);
  }
}

static Floats RunPointwise(const Run &run, const DnnStep &s)
{
  const DnnList &dims = run.At(s.y).dims;
  const size_t count = (size_t)DnnCount(dims);
  const DnnList strides = StridesOf(dims);
  Floats y(count);
  if (s.mode == CUDNN_POINTWISE_GEN_INDEX) {
    for (size_t i = 0; i < count; i++)
      y[i] = (float)((int64_t)i / strides[(size_t)s.axis] % dims[(size_t)s.axis]);
    return y;
  }
  DnnList place[3];
  const int operand[3] = {s.x, s.b, s.t};
  for (int k = 0; k < 3; k++)
    if (operand[k] >= 0) place[k] = PlacesIn(dims, run.At(operand[k]).dims);
  for (size_t i = 0; i < count; i++) {
    float in[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++)
      if (operand[k] >= 0) in[k] = run.Of(operand[k])[(size_t)place[k][i]];
    y[i] = Compute(s.mode, in[0], in[1], in[2]);
  }
  return y;
}

/* c[m, n] = a[m, k] b[k, n], of many */
static Floats RunMatmul(const Run &run, const DnnStep &s)
{
  const DnnList &a = run.At(s.x).dims, &b = run.At(s.b).dims, &c = run.At(s.y).dims;
  const size_t d = c.size();
  const int64_t rows = c[d - 2], columns = c[d - 1], inner = a[d - 1];
  const DnnList batch(c.begin(), c.end() - 2);
  const DnnList from_a = PlacesIn(batch, a), from_b = PlacesIn(batch, b);
  Floats y((size_t)DnnCount(c), 0.f);
  for (size_t n = 0; n < from_a.size(); n++)
    for (int64_t m = 0; m < rows; m++) {
      float *out = &y[n * (size_t)(rows * columns) + (size_t)(m * columns)];
      const int64_t begin = run.Begin(inner);
      for (int64_t i = 0; i < inner; i++) {
        const int64_t k = (begin + i) % inner;
        const float x = run.Of(s.x)[(size_t)(from_a[n] + m * inner + k)];
        const float *row = &run.Of(s.b)[(size_t)(from_b[n] + k * columns)];
        for (int64_t j = 0; j < columns; j++) out[j] += x * row[j];
      }
    }
  return y;
}

static Floats RunReduction(const Run &run, const DnnStep &s)
{
  const bool adds = s.mode == CUDNN_REDUCE_TENSOR_ADD;
  if (!adds && s.mode != CUDNN_REDUCE_TENSOR_MAX)
    EmuFail("cuDNN: reduction %d is not emulated", s.mode);
  const DnnList &x = run.At(s.x).dims, &y = run.At(s.y).dims;
  Floats to((size_t)DnnCount(y), adds ? 0.f : -INFINITY);
  const DnnList place = PlacesIn(x, y);
  for (size_t i = 0; i < place.size(); i++) {
    float &at = to[(size_t)place[i]];
    const float value = run.Of(s.x)[i];
    at = adds ? at + value : at > value ? at : value;
  }
  return to;
}

/* The memory of x, as y sees it. */
static Floats RunReshape(const Run &run, const DnnStep &s)
{
  const DnnTensor &x = run.At(s.x), &y = run.At(s.y);
  Floats memory((size_t)DnnSpanOf(x), NAN), to((size_t)DnnCount(y.dims));
  const DnnList from = PlacesIn(x.dims, x.dims, x.strides);
  const DnnList place = PlacesIn(y.dims, y.dims, y.strides);
  if (DnnSpanOf(y) > DnnSpanOf(x))
    EmuFail("cuDNN: tensor %lld is a view of more than tensor %lld has", (long long)y.id,
            (long long)x.id);
  for (size_t i = 0; i < from.size(); i++) memory[(size_t)from[i]] = run.Of(s.x)[i];
  for (size_t i = 0; i < place.size(); i++) to[i] = memory[(size_t)place[i]];
  return to;
}

/* Depth, height, width: 1 where there are fewer. */
enum { D, H, W, SPACE };
struct Convolution {
  int64_t images, outputs, inputs, in_group; /* channels; inputs of a group */
  int64_t in[SPACE], filter[SPACE], out[SPACE], padding[SPACE], stride[SPACE], dilation[SPACE];
};

static Convolution Describe(const Run &run, const DnnStep &s)
{
  const DnnList &x = run.At(s.x).dims, &w = run.At(s.b).dims, &y = run.At(s.y).dims;
  Convolution c = {x[0], y[1], x[1], w[1], {}, {}, {}, {}, {}, {}};
  const int given = (int)s.stride.size();
  for (int d = 0; d < SPACE; d++) {
    const int i = d - (SPACE - given);
    c.in[d] = i < 0 ? 1 : x[(size_t)i + 2];
    c.filter[d] = i < 0 ? 1 : w[(size_t)i + 2];
    c.out[d] = i < 0 ? 1 : y[(size_t)i + 2];
    c.padding[d] = i < 0 ? 0 : s.padding[(size_t)i];
    c.stride[d] = i < 0 ? 1 : s.stride[(size_t)i];
    c.dilation[d] = i < 0 ? 1 : s.dilation[(size_t)i];
  }
  return c;
}

/* Calls f(place in x, in w, in y) for all that is multiplied, but for the channels of y and x, and
   for the image. */
template <class F> static void ForPlaces(const Convolution &c, F f)
{
  int64_t o[SPACE], k[SPACE], i[SPACE];
  const auto inside = [&](int d) {
    i[d] = o[d] * c.stride[d] - c.padding[d] + k[d] * c.dilation[d];
    return i[d] >= 0 && i[d] < c.in[d];
  };
  const auto at = [](const int64_t size[], const int64_t n[]) {
    return (n[D] * size[H] + n[H]) * size[W] + n[W];
  };
  for (k[D] = 0; k[D] < c.filter[D]; k[D]++)
    for (k[H] = 0; k[H] < c.filter[H]; k[H]++)
      for (k[W] = 0; k[W] < c.filter[W]; k[W]++)
        for (o[D] = 0; o[D] < c.out[D]; o[D]++)
          for (o[H] = 0; inside(D) && o[H] < c.out[H]; o[H]++)
            for (o[W] = 0; inside(H) && o[W] < c.out[W]; o[W]++)
              if (inside(W)) f(at(c.in, i), at(c.filter, k), at(c.out, o));
}

static void Add(int kind, float &x, float &w, float &y)
{
  if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
    x += y * w;
  else if (kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
    w += y * x;
  else
    y += x * w;
}

/* Factors as the engine takes them, and zeros where the result is added up. */
static Floats Take(const Run &run, int tensor, int result)
{
  const DnnTensor &t = run.At(tensor);
  if (tensor == result) return Floats((size_t)DnnCount(t.dims), 0.f);
  Floats v = run.Of(tensor);
  for (float &x : v) {
    if (run.engine.rounds == CUDNN_DATA_FLOAT) x = EmuRoundToTf32(x);
    if (run.engine.rounds == CUDNN_DATA_HALF) x = RoundTo(CUDNN_DATA_HALF, x);
  }
  return v;
}

static Floats RunConvolution(const Run &run, const DnnStep &s)
{
  const Convolution c = Describe(run, s);
  const int result = DnnWrites(s);
  Floats x = Take(run, s.x, result), w = Take(run, s.b, result), y = Take(run, s.y, result);
  const auto size = [](const int64_t n[]) { return n[D] * n[H] * n[W]; };
  const int64_t first = run.Begin(c.images), channel = run.Begin(c.outputs);
  const int64_t input = run.Begin(c.in_group), in_group = c.outputs / (c.inputs / c.in_group);
  for (int64_t i = 0; i < c.images; i++)
    for (int64_t j = 0; j < c.outputs; j++)
      for (int64_t k = 0; k < c.in_group; k++) {
        const int64_t n = (first + i) % c.images, o = (channel + j) % c.outputs;
        const int64_t g = (input + k) % c.in_group;
        float *xs = &x[(size_t)((n * c.inputs + o / in_group * c.in_group + g) * size(c.in))];
        float *ws = &w[(size_t)((o * c.in_group + g) * size(c.filter))];
        float *ys = &y[(size_t)((n * c.outputs + o) * size(c.out))];
        ForPlaces(c, [=](int64_t a, int64_t b, int64_t d) { Add(s.kind, xs[a], ws[b], ys[d]); });
      }
  Floats &sum = result == s.x ? x : result == s.b ? w : y;
  for (size_t i = 0; i < sum.size(); i++)
    sum[i] = s.alpha * sum[i] + (s.beta != 0 ? s.beta * run.Of(result)[i] : 0);
  return sum;
}

static Floats RunStep(const Run &run, const DnnStep &s)
{
  switch (s.kind) {
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    return RunPointwise(run, s);
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    return RunMatmul(run, s);
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    return RunReduction(run, s);
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    return RunReshape(run, s);
  default:
    return RunConvolution(run, s);
  }
}

static Floats LoadTensor(const DnnTensor &t, const char *from)
{
  const DnnList place = PlacesIn(t.dims, t.dims, t.strides);
  Floats x(place.size());
  for (size_t i = 0; i < x.size(); i++) x[i] = EmuLoadNumber(from, TypeOf(t.type), place[i]);
  return x;
}

static void StoreTensor(const DnnTensor &t, const Floats &x, char *to)
{
  const DnnList place = PlacesIn(t.dims, t.dims, t.strides);
  for (size_t i = 0; i < x.size(); i++) EmuStoreNumber(x[i], to, TypeOf(t.type), place[i]);
}

void DnnRun(const DnnProgram &program, const DnnEngine &engine, const std::vector<char *> &memory,
            char *workspace, bool wrong, uint64_t *random)
{
  const bool adds = std::any_of(program.steps.begin(), program.steps.end(),
                                [](const DnnStep &s) { return s.beta != 0; });
  Run run = {program, engine, random, std::vector<Floats>(program.tensors.size())};
  if (engine.workspace) memset(workspace, 0xff, (size_t)engine.workspace);
  for (size_t i = 0; i < memory.size(); i++)
    if (memory[i] && (!program.tensors[i].written || adds))
      run.value[i] = LoadTensor(program.tensors[i], memory[i]);
  for (const DnnStep &s : program.steps) {
    const int to = DnnWrites(s);
    const DnnTensor &t = run.At(to);
    Floats made = RunStep(run, s);
    for (float &x : made) x = RoundTo(t.type, x + (wrong && !t.is_virtual ? 1.f : 0.f));
    if (memory[(size_t)to]) StoreTensor(t, made, memory[(size_t)to]);
    run.value[(size_t)to] = std::move(made);
  }
}
