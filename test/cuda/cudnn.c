/* cuDNN: attention and convolutions as graphs of operations, against loops in double; what changes
   from one run to the next; and what is refused. */
#include "cudatest.h"
#include "renga/private/low.h"
#include "../../src/device/cuda/module/cudnn.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef void *Part;
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))
#define KIND(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define SET(part, attribute, type, count, elements)                                                \
  CUDA(cudnnBackendSetAttribute(part, CUDNN_ATTR_##attribute, CUDNN_TYPE_##type, count, elements))
#define HOLD(part, attribute, other) SET(part, attribute, BACKEND_DESCRIPTOR, 1, &(other))
static void *handle;
static cudaStream_t stream;

static Part New(int kind)
{
  Part part;
  CUDA(cudnnBackendCreateDescriptor(kind, &part));
  return part;
}

/* Operations of the graph that is made. */
static Part operation[64];
static int operations;
static int64_t ids;

static Part Add(Part part)
{
  CUDA(cudnnBackendFinalize(part));
  return operation[operations++] = part;
}

typedef struct {
  int64_t dims[4], strides[4];
} Shape;

static Shape Dense(int64_t a, int64_t b, int64_t c, int64_t d)
{
  const Shape s = {{a, b, c, d}, {b * c * d, c * d, d, 1}};
  return s;
}

typedef enum { REAL, VIRTUAL, VALUE } Place;

static Part Tensor(int64_t id, Shape shape, int type, Place place)
{
  const int64_t alignment = 16;
  const bool virtual = place == VIRTUAL, value = place == VALUE;
  Part t = New(KIND(TENSOR));
  SET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
  SET(t, TENSOR_DIMENSIONS, INT64, 4, shape.dims);
  SET(t, TENSOR_STRIDES, INT64, 4, shape.strides);
  SET(t, TENSOR_UNIQUE_ID, INT64, 1, &id);
  SET(t, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
  SET(t, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &virtual);
  SET(t, TENSOR_IS_BY_VALUE, BOOLEAN, 1, &value);
  CUDA(cudnnBackendFinalize(t));
  return t;
}

static Part Between(Shape shape, int type)
{
  return Tensor(1000 + ids++, shape, type, VIRTUAL);
}

static Part Multiply(Part a, Part b, Part c)
{
  const int type = CUDNN_DATA_FLOAT;
  Part how = New(KIND(MATMUL)), o = New(KIND(OPERATION_MATMUL));
  SET(how, MATMUL_COMP_TYPE, DATA_TYPE, 1, &type);
  CUDA(cudnnBackendFinalize(how));
  HOLD(o, OPERATION_MATMUL_ADESC, a);
  HOLD(o, OPERATION_MATMUL_BDESC, b);
  HOLD(o, OPERATION_MATMUL_CDESC, c);
  HOLD(o, OPERATION_MATMUL_DESC, how);
  Add(o);
  return c;
}

static Part Point(int mode, Part x, Part b, Part t, Part y, int64_t axis)
{
  const int type = CUDNN_DATA_FLOAT;
  Part how = New(KIND(POINTWISE)), o = New(KIND(OPERATION_POINTWISE));
  SET(how, POINTWISE_MODE, POINTWISE_MODE, 1, &mode);
  SET(how, POINTWISE_MATH_PREC, DATA_TYPE, 1, &type);
  if (axis >= 0) SET(how, POINTWISE_AXIS, INT64, 1, &axis);
  CUDA(cudnnBackendFinalize(how));
  HOLD(o, OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  HOLD(o, OPERATION_POINTWISE_XDESC, x);
  if (b) HOLD(o, OPERATION_POINTWISE_BDESC, b);
  if (t) HOLD(o, OPERATION_POINTWISE_TDESC, t);
  HOLD(o, OPERATION_POINTWISE_YDESC, y);
  Add(o);
  return y;
}

static Part Reduce(int how_many, Part x, Part y)
{
  const int type = CUDNN_DATA_FLOAT;
  Part how = New(KIND(REDUCTION)), o = New(KIND(OPERATION_REDUCTION));
  SET(how, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, &how_many);
  SET(how, REDUCTION_COMP_TYPE, DATA_TYPE, 1, &type);
  CUDA(cudnnBackendFinalize(how));
  HOLD(o, OPERATION_REDUCTION_XDESC, x);
  HOLD(o, OPERATION_REDUCTION_YDESC, y);
  HOLD(o, OPERATION_REDUCTION_DESC, how);
  Add(o);
  return y;
}

static Part View(Part x, Part y)
{
  Part o = New(KIND(OPERATION_RESHAPE));
  HOLD(o, OPERATION_RESHAPE_XDESC, x);
  HOLD(o, OPERATION_RESHAPE_YDESC, y);
  Add(o);
  return y;
}

/* A plan of the first engine that the notes allow, or of the first one. */
typedef struct {
  Part plan;
  int64_t engine;
  size_t bytes; /* of the workspace */
  void *workspace;
} Plan;

static bool IsOrdered(Part configuration, int64_t *number)
{
  int64_t count = 0, n = 0;
  bool ordered = true;
  int note[16];
  Part engine = New(KIND(ENGINE));
  CUDA(cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine));
  CUDA(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n,
                                number));
  CUDA(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                16, &count, note));
  for (int64_t i = 0; i < count; i++)
    ordered = ordered && note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
  CUDA(cudnnBackendDestroyDescriptor(engine));
  return ordered;
}

static int MakeGraph(Part *graph)
{
  *graph = New(KIND(OPERATIONGRAPH));
  SET(*graph, OPERATIONGRAPH_HANDLE, HANDLE, 1, &handle);
  SET(*graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, operations, operation);
  const int status = cudnnBackendFinalize(*graph);
  operations = 0;
  return status;
}

static Plan MakePlan(bool ordered)
{
  enum { MOST = 16 };
  const int mode = CUDNN_HEUR_MODE_A;
  Part graph, advice = New(KIND(ENGINEHEUR)), each[MOST];
  int64_t count = 0, bytes = 0;
  Plan p = {.plan = New(KIND(EXECUTION_PLAN))};
  CUDA(MakeGraph(&graph));
  HOLD(advice, ENGINEHEUR_OPERATION_GRAPH, graph);
  SET(advice, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
  CUDA(cudnnBackendFinalize(advice));
  for (int i = 0; i < MOST; i++) each[i] = New(KIND(ENGINECFG));
  CUDA(cudnnBackendGetAttribute(advice, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &count, each));
  int chosen = 0;
  while (chosen < count && !IsOrdered(each[chosen], &p.engine) && ordered) chosen++;
  EXPECT(chosen < count);
  SET(p.plan, EXECUTION_PLAN_HANDLE, HANDLE, 1, &handle);
  HOLD(p.plan, EXECUTION_PLAN_ENGINE_CONFIG, each[chosen]);
  CUDA(cudnnBackendFinalize(p.plan));
  CUDA(cudnnBackendGetAttribute(p.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                1, &count, &bytes));
  for (int i = 0; i < MOST; i++) CUDA(cudnnBackendDestroyDescriptor(each[i]));
  CUDA(cudnnBackendDestroyDescriptor(advice));
  CUDA(cudnnBackendDestroyDescriptor(graph));
  p.bytes = (size_t)bytes;
  if (bytes) p.workspace = OnDevice(NULL, p.bytes);
  return p;
}

static int Execute(const Plan *p, int count, const int64_t id[], void *const memory[])
{
  Part pack = New(KIND(VARIANT_PACK));
  SET(pack, VARIANT_PACK_UNIQUE_IDS, INT64, count, id);
  SET(pack, VARIANT_PACK_DATA_POINTERS, VOID_PTR, count, memory);
  SET(pack, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &p->workspace);
  CUDA(cudnnBackendFinalize(pack));
  const int status = cudnnBackendExecute(handle, p->plan, pack);
  CUDA(cudnnBackendDestroyDescriptor(pack));
  return status;
}

static bool IsLow(int type)
{
  return type == CUDNN_DATA_BFLOAT16;
}

/* Rounds x, too. */
static void *Put(int type, size_t count, float x[])
{
  if (!IsLow(type)) return OnDevice(x, count * sizeof *x);
  uint16_t *low = malloc(count * sizeof *low);
  for (size_t i = 0; i < count; i++) low[i] = RengaLowToBrain(x[i]);
  for (size_t i = 0; i < count; i++) x[i] = RengaLowFromBrain(low[i]);
  void *made = OnDevice(low, count * sizeof *low);
  free(low);
  return made;
}

static void Get(int type, size_t count, const void *from, float x[])
{
  uint16_t *low = malloc(count * sizeof *low);
  ToHost(IsLow(type) ? (void *)low : x, from, count * (IsLow(type) ? sizeof *low : sizeof *x));
  for (size_t i = 0; i < count && IsLow(type); i++) x[i] = RengaLowFromBrain(low[i]);
  free(low);
}

static double Furthest(size_t count, const float x[], const double wanted[])
{
  double most = 0, size = 1e-30;
  for (size_t i = 0; i < count; i++) {
    most = fmax(most, fabs((double)x[i] - wanted[i]));
    size = fmax(size, fabs(wanted[i]));
  }
  return most / size;
}

/* x [N, C, H, H], w [K, C / groups, R, R], y [N, K, O, O]; a padding in front, none behind. */
typedef struct {
  int64_t n, c, h, k, r, stride, dilation, groups, pad;
} Case;
enum { FORWARD, DATA, FILTER, ROOM = 4096 };
static float tensor[3][ROOM];
static double expected[ROOM];

static int64_t OutOf(const Case *c)
{
  return (c->h + c->pad - c->dilation * (c->r - 1) - 1) / c->stride + 1;
}

static void ConvolveByLoops(const Case *c, int which)
{
  const int64_t o = OutOf(c), in = c->c / c->groups, out = c->k / c->groups;
  memset(expected, 0, sizeof expected);
  for (int64_t i = 0; i < c->n * c->k * in * c->r * c->r * o * o; i++) {
    int64_t left = i;
    const int64_t q = left % o, p = (left /= o) % o, s = (left /= o) % c->r;
    const int64_t r = (left /= c->r) % c->r, g = (left /= c->r) % in, k = (left /= in) % c->k;
    const int64_t n = left / c->k;
    const int64_t u = p * c->stride - c->pad + r * c->dilation;
    const int64_t v = q * c->stride - c->pad + s * c->dilation;
    if (u < 0 || v < 0 || u >= c->h || v >= c->h) continue;
    const int64_t x = ((n * c->c + k / out * in + g) * c->h + u) * c->h + v;
    const int64_t w = ((k * in + g) * c->r + r) * c->r + s, y = ((n * c->k + k) * o + p) * o + q;
    if (which == FORWARD) expected[y] += (double)tensor[0][x] * tensor[1][w];
    if (which == DATA) expected[x] += (double)tensor[2][y] * tensor[1][w];
    if (which == FILTER) expected[w] += (double)tensor[2][y] * tensor[0][x];
  }
}

#define CONVOLVE(kind, prefix, image, filter, out)                                                 \
  do {                                                                                             \
    o = New(KIND(OPERATION_CONVOLUTION_##kind));                                                   \
    HOLD(o, OPERATION_CONVOLUTION_##prefix##_##image, t[0]);                                       \
    HOLD(o, OPERATION_CONVOLUTION_##prefix##_##filter, t[1]);                                      \
    HOLD(o, OPERATION_CONVOLUTION_##prefix##_##out, t[2]);                                         \
    HOLD(o, OPERATION_CONVOLUTION_##prefix##_CONV_DESC, how);                                      \
    SET(o, OPERATION_CONVOLUTION_##prefix##_ALPHA, FLOAT, 1, &one);                                \
    SET(o, OPERATION_CONVOLUTION_##prefix##_BETA, FLOAT, 1, &zero);                                \
  } while (0)

static void AddConvolution(const Case *c, int which, const Part t[3])
{
  const int type = CUDNN_DATA_FLOAT;
  const int mode = CUDNN_CROSS_CORRELATION;
  const int64_t two = 2, pad[2] = {c->pad, c->pad}, none[2] = {0, 0};
  const int64_t stride[2] = {c->stride, c->stride}, dilation[2] = {c->dilation, c->dilation};
  const float one = 1, zero = 0;
  Part how = New(KIND(CONVOLUTION)), o;
  SET(how, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &type);
  SET(how, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
  SET(how, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &two);
  SET(how, CONVOLUTION_PRE_PADDINGS, INT64, 2, pad);
  SET(how, CONVOLUTION_POST_PADDINGS, INT64, 2, none);
  SET(how, CONVOLUTION_FILTER_STRIDES, INT64, 2, stride);
  SET(how, CONVOLUTION_DILATIONS, INT64, 2, dilation);
  CUDA(cudnnBackendFinalize(how));
  if (which == FORWARD) CONVOLVE(FORWARD, FORWARD, X, W, Y);
  if (which == DATA) CONVOLVE(BACKWARD_DATA, BWD_DATA, DX, W, DY);
  if (which == FILTER) CONVOLVE(BACKWARD_FILTER, BWD_FILTER, X, DW, DY);
  Add(o);
}

static const int64_t three[3] = {1, 2, 3};

static Plan PlanConvolution(const Case *c, int which, int type, bool ordered)
{
  const int64_t o = OutOf(c);
  const Part t[3] = {
      Tensor(1, Dense(c->n, c->c, c->h, c->h), type, REAL),
      Tensor(2, Dense(c->k, c->c / c->groups, c->r, c->r), type, REAL),
      Tensor(3, Dense(c->n, c->k, o, o), type, REAL),
  };
  AddConvolution(c, which, t);
  return MakePlan(ordered);
}

static void SizesOf(const Case *c, size_t size[3])
{
  const int64_t o = OutOf(c);
  size[0] = (size_t)(c->n * c->c * c->h * c->h);
  size[1] = (size_t)(c->k * c->c / c->groups * c->r * c->r);
  size[2] = (size_t)(c->n * c->k * o * o);
}

static void TestConvolution(const Case *c, int which, int type)
{
  static const int result_of[3] = {2, 0, 1};
  const int result = result_of[which];
  size_t size[3];
  void *memory[3];
  SizesOf(c, size);
  for (int i = 0; i < 3; i++) FillRandom(size[i], tensor[i]);
  for (int i = 0; i < 3; i++) memory[i] = Put(type, size[i], tensor[i]);
  ConvolveByLoops(c, which);
  Plan plan = PlanConvolution(c, which, type, true);
  CUDA(Execute(&plan, 3, three, memory));
  CUDA(cudaStreamSynchronize(stream));
  Get(type, size[result], memory[result], tensor[result]);
  EXPECT(Furthest(size[result], tensor[result], expected) < (IsLow(type) ? 1e-2 : 2e-3));
  for (int i = 0; i < 3; i++) CUDA(cudaFree(memory[i]));
}

static const Case some = {3, 4, 7, 6, 3, 1, 1, 1, 1};

static void TestConvolutions(void)
{
  const Case cases[] = {
      some, {2, 4, 9, 6, 3, 2, 1, 2, 1}, {1, 3, 8, 4, 2, 1, 2, 1, 0}, {2, 4, 6, 4, 1, 2, 1, 4, 0}};
  for (int i = 0; i < COUNT(cases); i++)
    for (int which = 0; which < 3; which++) {
      TestConvolution(&cases[i], which, CUDNN_DATA_FLOAT);
      TestConvolution(&cases[i], which, CUDNN_DATA_BFLOAT16);
    }
}

/* How often repeats make other bits than the first run. */
static int CountChanges(bool ordered)
{
  static float first[ROOM], again[ROOM];
  size_t size[3];
  void *memory[3];
  int changes = 0;
  SizesOf(&some, size);
  for (int i = 0; i < 3; i++) FillRandom(size[i], tensor[i]);
  for (int i = 0; i < 3; i++) memory[i] = Put(CUDNN_DATA_FLOAT, size[i], tensor[i]);
  Plan plan = PlanConvolution(&some, FILTER, CUDNN_DATA_FLOAT, ordered);
  for (int i = 0; i < 20; i++) {
    CUDA(Execute(&plan, 3, three, memory));
    CUDA(cudaStreamSynchronize(stream));
    Get(CUDNN_DATA_FLOAT, size[1], memory[1], i ? again : first);
    changes += i && memcmp(first, again, size[1] * sizeof *first) != 0;
  }
  return changes;
}

/* What was recorded takes what is in memory when it is replayed. */
static void TestRecording(void)
{
  size_t size[3];
  void *memory[3];
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  SizesOf(&some, size);
  for (int i = 0; i < 3; i++) FillRandom(size[i], tensor[i]);
  for (int i = 0; i < 3; i++) memory[i] = Put(CUDNN_DATA_FLOAT, size[i], tensor[i]);
  Plan plan = PlanConvolution(&some, FORWARD, CUDNN_DATA_FLOAT, true);
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CUDA(Execute(&plan, 3, three, memory));
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (size_t i = 0; i < size[0]; i++) tensor[0][i] *= 3;
  CUDA(cudaMemcpy(memory[0], tensor[0], size[0] * sizeof(float), cudaMemcpyHostToDevice));
  ConvolveByLoops(&some, FORWARD);
  CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  Get(CUDNN_DATA_FLOAT, size[2], memory[2], tensor[2]);
  EXPECT(Furthest(size[2], tensor[2], expected) < 2e-3);
  CUDA(cudaGraphExecDestroy(exec));
  CUDA(cudaGraphDestroy(graph));
}

/* Attention: q, k and v stand together, [B, S, QUERIES + 2 KEYS, W] of heads. */
enum { B = 2, S = 7, W = 8, QUERIES = 4, ROWS = B * QUERIES * S, MASKED = 2 };
enum { Q = 1, K, V, O, STATISTICS, SCALE, LOWEST, MASK, DO, DQ, DK, DV, DELTA, IDS };
typedef struct {
  int keys; /* heads */
  bool causal, masked;
} Attention;

static int64_t RowOf(const Attention *a)
{
  return (QUERIES + 2 * a->keys) * W;
}

static Shape Packed(const Attention *a, int heads, bool turned)
{
  const int64_t row = RowOf(a);
  const Shape plain = {{B, heads, S, W}, {S * row, W, row, 1}};
  const Shape other = {{B, heads, W, S}, {S * row, W, 1, row}};
  return turned ? other : plain;
}

static Shape Output(void)
{
  const Shape s = {{B, QUERIES, S, W}, {S * QUERIES * W, W, QUERIES * W, 1}};
  return s;
}

static Part Scores(void)
{
  return Between(Dense(B, QUERIES, S, S), CUDNN_DATA_FLOAT);
}

static Part OfRow(void)
{
  return Between(Dense(B, QUERIES, S, 1), CUDNN_DATA_FLOAT);
}

static Part Value(int64_t id)
{
  return Tensor(id, Dense(1, 1, 1, 1), CUDNN_DATA_FLOAT, VALUE);
}

static Part HideLater(Part x)
{
  const Shape shape = Dense(B, QUERIES, S, S);
  Part row = Between(shape, CUDNN_DATA_INT32), column = Between(shape, CUDNN_DATA_INT32);
  Part seen = Between(shape, CUDNN_DATA_BOOLEAN);
  Point(CUDNN_POINTWISE_GEN_INDEX, x, NULL, NULL, row, 2);
  Point(CUDNN_POINTWISE_GEN_INDEX, x, NULL, NULL, column, 3);
  Point(CUDNN_POINTWISE_CMP_GE, row, column, NULL, seen, -1);
  return Point(CUDNN_POINTWISE_BINARY_SELECT, x, Value(LOWEST), seen, Scores(), -1);
}

static Part Score(const Attention *a, Part q, Part k)
{
  Part x = Multiply(q, k, Scores());
  x = Point(CUDNN_POINTWISE_MUL, x, Value(SCALE), NULL, Scores(), -1);
  if (a->masked) {
    Part mask = Tensor(MASK, Dense(B, 1, 1, S), CUDNN_DATA_FLOAT, REAL);
    x = Point(CUDNN_POINTWISE_ADD, x, mask, NULL, Scores(), -1);
  }
  return a->causal ? HideLater(x) : x;
}

static Plan PlanForward(const Attention *a)
{
  const int low = CUDNN_DATA_BFLOAT16;
  Part q = Tensor(Q, Packed(a, QUERIES, false), low, REAL);
  Part k = Tensor(K, Packed(a, a->keys, true), low, REAL);
  Part v = Tensor(V, Packed(a, a->keys, false), low, REAL);
  Part o = Tensor(O, Output(), low, REAL);
  Part kept = Tensor(STATISTICS, Dense(B, QUERIES, S, 1), CUDNN_DATA_FLOAT, REAL);
  Part x = Score(a, q, k);
  Part most = Reduce(CUDNN_REDUCE_TENSOR_MAX, x, OfRow());
  x = Point(CUDNN_POINTWISE_SUB, x, most, NULL, Scores(), -1);
  x = Point(CUDNN_POINTWISE_EXP, x, NULL, NULL, Scores(), -1);
  Part sum = Reduce(CUDNN_REDUCE_TENSOR_ADD, x, OfRow());
  Part log_sum = Point(CUDNN_POINTWISE_LOG, sum, NULL, NULL, OfRow(), -1);
  Point(CUDNN_POINTWISE_ADD, most, log_sum, NULL, kept, -1);
  Part p = Between(Dense(B, QUERIES, S, S), low);
  Multiply(Point(CUDNN_POINTWISE_DIV, x, sum, NULL, p, -1), v, o);
  return MakePlan(true);
}

/* Into the gradient of a factor that several heads share. */
static void MultiplyForKeys(const Attention *a, Part scores, Part other, int64_t id)
{
  const Shape turned = {{B, QUERIES, S, S}, {QUERIES * S * S, S * S, 1, S}};
  Part to = Tensor(id, Packed(a, a->keys, false), CUDNN_DATA_BFLOAT16, REAL);
  Part low = View(scores, Between(turned, CUDNN_DATA_BFLOAT16));
  if (a->keys == QUERIES) {
    Multiply(low, other, to);
    return;
  }
  Part each = Between(Dense(B, QUERIES, S, W), CUDNN_DATA_FLOAT);
  Reduce(CUDNN_REDUCE_TENSOR_ADD, Multiply(low, other, each), to);
}

static Plan PlanBackward(const Attention *a)
{
  const int low = CUDNN_DATA_BFLOAT16;
  Part q = Tensor(Q, Packed(a, QUERIES, false), low, REAL);
  Part k = Tensor(K, Packed(a, a->keys, true), low, REAL);
  Part v = Tensor(V, Packed(a, a->keys, true), low, REAL);
  Part o = Tensor(O, Output(), low, REAL), g = Tensor(DO, Output(), low, REAL);
  Part kept = Tensor(STATISTICS, Dense(B, QUERIES, S, 1), CUDNN_DATA_FLOAT, REAL);
  Part delta = OfRow();
  Part x = Between(Output(), CUDNN_DATA_FLOAT);
  Reduce(CUDNN_REDUCE_TENSOR_ADD, Point(CUDNN_POINTWISE_MUL, g, o, NULL, x, -1), delta);
  x = Point(CUDNN_POINTWISE_SUB, Score(a, q, k), kept, NULL, Scores(), -1);
  Part p = Point(CUDNN_POINTWISE_EXP, x, NULL, NULL, Scores(), -1);
  MultiplyForKeys(a, p, g, DV);
  x = Point(CUDNN_POINTWISE_SUB, Multiply(g, v, Scores()), delta, NULL, Scores(), -1);
  x = Point(CUDNN_POINTWISE_MUL, x, p, NULL, Scores(), -1);
  x = Point(CUDNN_POINTWISE_MUL, x, Value(SCALE), NULL, Scores(), -1);
  MultiplyForKeys(a, x, q, DK);
  Part rows = View(k, Between(Packed(a, a->keys, false), low));
  Multiply(x, rows, Tensor(DQ, Packed(a, QUERIES, false), low, REAL));
  return MakePlan(true);
}

enum { MOST = B * S * 3 * QUERIES * W };
static float packed[MOST], out[B * S * QUERIES * W], gradient[B * S * QUERIES * W], mask[B * S];
static double wanted_out[B * S * QUERIES * W], wanted_packed[MOST], wanted_kept[ROWS];

/* One row of queries: i of head h. */
static void AttendByLoops(const Attention *a, int b, int h, int i)
{
  const int64_t row = RowOf(a), kh = QUERIES + h / (QUERIES / a->keys), vh = kh + a->keys;
  const int64_t base = b * S * row, q = base + i * row + h * W;
  const int64_t o = ((int64_t)(b * S + i) * QUERIES + h) * W;
  double p[S], most = -1e30, sum = 0, delta = 0;
  const int last = a->causal ? i + 1 : S;
  for (int j = 0; j < last; j++) {
    p[j] = a->masked ? mask[b * S + j] : 0;
    for (int w = 0; w < W; w++)
      p[j] += (double)packed[q + w] * packed[base + j * row + kh * W + w] / sqrt(W);
    most = fmax(most, p[j]);
  }
  for (int j = 0; j < last; j++) sum += p[j] = exp(p[j] - most);
  wanted_kept[(b * QUERIES + h) * S + i] = most + log(sum);
  for (int j = 0; j < last; j++)
    for (int w = 0; w < W; w++)
      wanted_out[o + w] += p[j] / sum * packed[base + j * row + vh * W + w];
  for (int w = 0; w < W; w++) delta += (double)gradient[o + w] * wanted_out[o + w];
  for (int j = 0; j < last; j++) {
    double d = -delta;
    for (int w = 0; w < W; w++) d += (double)gradient[o + w] * packed[base + j * row + vh * W + w];
    d *= p[j] / sum / sqrt(W);
    for (int w = 0; w < W; w++) {
      const int64_t k = base + j * row + kh * W + w;
      wanted_packed[q + w] += d * packed[k];
      wanted_packed[k] += d * packed[q + w];
      wanted_packed[base + j * row + vh * W + w] += p[j] / sum * gradient[o + w];
    }
  }
}

static void TestAttention(const Attention *a)
{
  static const int64_t id[] = {Q, K, V, O, STATISTICS, SCALE, LOWEST, MASK, DO, DQ, DK, DV};
  const int low = CUDNN_DATA_BFLOAT16;
  const size_t count = (size_t)(B * S * RowOf(a)), outs = B * S * QUERIES * W;
  static float kept[ROWS];
  float scale = (float)(1 / sqrt(W)), lowest = -3.4e38f;
  FillRandom(count, packed);
  FillRandom(outs, gradient);
  for (int i = 0; i < B * S; i++) mask[i] = i % S == MASKED ? -1e4f : 0;
  char *in = Put(low, count, packed), *to = OnDevice(NULL, count * 2);
  const int64_t k = QUERIES * W * 2, v = k + a->keys * W * 2;
  void *memory[] = {in,
                    in + k,
                    in + v,
                    OnDevice(NULL, outs * 2),
                    OnDevice(NULL, sizeof kept),
                    &scale,
                    &lowest,
                    OnDevice(mask, sizeof mask),
                    Put(low, outs, gradient),
                    to,
                    to + k,
                    to + v};
  memset(wanted_out, 0, sizeof wanted_out);
  memset(wanted_packed, 0, sizeof wanted_packed);
  for (int i = 0; i < ROWS; i++) AttendByLoops(a, i / S / QUERIES, i / S % QUERIES, i % S);
  const Plan forward = PlanForward(a), backward = PlanBackward(a);
  EXPECT(forward.bytes == 0 && backward.bytes >= (size_t)ROWS * S * 2);
  CUDA(Execute(&forward, 8, id, memory));
  CUDA(Execute(&backward, COUNT(id), id, memory));
  scale = lowest = NAN; /* values were taken by the calls */
  CUDA(cudaStreamSynchronize(stream));
  Get(low, outs, memory[3], out);
  Get(CUDNN_DATA_FLOAT, ROWS, memory[4], kept);
  Get(low, count, to, packed);
  EXPECT(Furthest(outs, out, wanted_out) < 1e-2);
  EXPECT(Furthest(ROWS, kept, wanted_kept) < 1e-5);
  EXPECT(Furthest(count, packed, wanted_packed) < 2e-2);
}

/* What a caller does wrong. */
static void TestRefusals(void)
{
  const int64_t five[5] = {1, 1, 1, 1, 1};
  const float zero = 0;
  int64_t n = 0;
  Part t = New(KIND(TENSOR)), graph;
#define REFUSED(call) EXPECT((call) != CUDNN_STATUS_SUCCESS)
  REFUSED(cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, &zero));
  REFUSED(cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, five));
  REFUSED(cudnnBackendSetAttribute(t, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, five));
  REFUSED(cudnnBackendGetAttribute(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &n, &n));
  REFUSED(cudnnBackendFinalize(t));
  Part whole = Tensor(1, Dense(1, 1, 1, 1), CUDNN_DATA_FLOAT, REAL);
  REFUSED(cudnnBackendSetAttribute(whole, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, five));
  Part o = New(KIND(OPERATION_RESHAPE)); /* its parts are looked at in the end */
  HOLD(o, OPERATION_RESHAPE_XDESC, whole);
  HOLD(o, OPERATION_RESHAPE_YDESC, t);
  REFUSED(cudnnBackendFinalize(o));
  /* A virtual tensor that nobody reads; a width that is no multiple of 8. */
  const int low = CUDNN_DATA_BFLOAT16;
  Part q = Tensor(1, Dense(1, 1, 8, 8), low, REAL), k = Tensor(2, Dense(1, 1, 8, 8), low, REAL);
  Multiply(q, k, Between(Dense(1, 1, 8, 8), low));
  REFUSED(MakeGraph(&graph));
  Part narrow = Tensor(3, Dense(1, 1, 8, 4), low, REAL),
       w = Tensor(4, Dense(1, 1, 4, 8), low, REAL);
  Part p = Multiply(narrow, w, Between(Dense(1, 1, 8, 8), low));
  Multiply(p, q, Tensor(5, Dense(1, 1, 8, 8), low, REAL));
  REFUSED(MakeGraph(&graph));
  /* A plan without its tensors, or with one at an odd place. */
  size_t size[3];
  SizesOf(&some, size);
  char *memory = OnDevice(NULL, 4 * (size[0] + size[1] + size[2]) + 64);
  void *at[3] = {memory, memory + 4 * size[0] + 4, memory + 4 * (size[0] + size[1])};
  Plan plan = PlanConvolution(&some, FORWARD, CUDNN_DATA_FLOAT, true);
  REFUSED(Execute(&plan, 2, three, at));
  REFUSED(Execute(&plan, 3, three, at));
}

int main(void)
{
  NeedDevice();
  if (cudnnGetVersion() == 0) return 77;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA(cudnnCreate(&handle));
  CUDA(cudnnSetStream(handle, stream));
  TestConvolutions();
  TestRecording();
  EXPECT(CountChanges(true) == 0);
  EXPECT(CountChanges(false) > 0);
  for (int i = 0; i < 8; i++) {
    const Attention a = {i & 1 ? QUERIES : QUERIES / 2, (i & 2) != 0, (i & 4) != 0};
    TestAttention(&a);
  }
  TestRefusals();
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaStreamDestroy(stream));
  return 0;
}
