/* TEST ranks: 1 */
/* Operators that the reader makes of others, with an open batch: each sample gets, to the last bit,
   what it gets alone, and random numbers are those of the sample, not of its micro-batch. Their
   values are compared by ONNX's own tests (nodes.c); loops with formulas here. */
#include "../check.h"
#include "execute.h"
#include "rengacomm.h"
#include "text.h"
#include <math.h>
#include <string.h>

enum { BATCH = 3, ELEMENTS_MAX = 4096, STEP = 7, SEED = 11 };
static const char file_name[] = "onnx-composed.onnx";

static const struct {
  int64_t opset;
  const char *text;
} samplewise[] = {
    {20, "in x f32 N 2 3 4; in g f32 N 5 6 2; GridSample x g -> y mode=linear; out y"},
    {20,
     "in x f32 N 2 3 4; in g f32 N 5 6 2; GridSample x g -> y mode=cubic align_corners=1; out y"},
    {16, "in x f32 N 2 3 4; in g f32 N 5 6 2; GridSample x g -> y mode=bilinear "
         "padding_mode=reflection; out y"},
    {20, "in x f32 N 1 3 4 2; in g f32 N 2 5 6 3; GridSample x g -> y mode=nearest "
         "padding_mode=border; out y"},
    {20, "in x f32 N 2 3; init s i64 4 : 9 1 4 5; AffineGrid x s -> y; out y"},
    {20, "in x f32 N 5 7 1; init a i64 : 1; DFT x - a -> y onesided=1; out y"},
    {17, "in x f32 N 20 1; init s i64 : 4; init w f32 6 : 1 2 3 3 2 1; STFT x s w -> y; out y"},
    {18, "in x f32 N 12 6; init i i64 2 : 4 5; init b i64 2 : 2 2; Col2Im x i b -> y strides=1,2; "
         "out y"},
    {22, "in x f32 N 3 4 4; Det x -> y; out y"},
    {13, "in x f32 3 1 4 4; init r f32 8 : 0 0 0.4 0.6 1 1 1.2 1.7; init z i64 4 : 3 1 3 3; "
         "Resize x r - z -> y mode=linear coordinate_transformation_mode=tf_crop_and_resize "
         "extrapolation_value=10.0; out y"},
    {13, "in x f32 N 1 4 4; init r f32 8 : 0 0 -0.5 0.6 1 1 1 1; init s f32 4 : 1 1 2 1; "
         "Resize x r s -> y mode=nearest coordinate_transformation_mode=tf_crop_and_resize "
         "extrapolation_value=-1.0; out y"},
    {16, "in b f32 N 4; in n i64 N; init w f32 2 1 2 3 : 1 2 3 5 8 13 21 34 55 89 1 2; "
         "init t i64 : 1; init p f32 4 : 0 0 3 2; Sub n n -> i; Add i t -> k; Add b p -> c; "
         "RoiAlign w c k -> y output_height=2 output_width=2; out y"},
    {22, "in x f32 N 2 7 6; LpPool x -> y kernel_shape=2,3 p=3 strides=2,1; out y"},
    {17, "in x f32 N 6 2; in n i64 N; ReverseSequence x n -> y batch_axis=0 time_axis=1; out y"},
    {20, "in x f32 N 6 5; RandomNormalLike x -> r; Add x r -> y; out y"},
    {20, "in x f32 N 6 5; RandomUniformLike x -> r low=-1.0; Mul x r -> y; out y"},
    {20, "in x f32 N 6 5; Sigmoid x -> p; Bernoulli p -> y; out y"},
    /* files that fix the batch: numbers of samples as an index, copies of a mask, of something
       learnt, and of a matrix */
    {18, "in x f32 3 6; in n i64 3; init k i64 3 : 0 1 2; init one i64 1 : 1; Max k n -> m; "
         "Shape m -> s; Expand k s -> e; Unsqueeze e one -> a; Unsqueeze n one -> b; "
         "Concat a b -> c axis=-1; GatherND x c -> y; out y"},
    {18, "in x f32 3 4; init p i64 3 4 : 0 1 2 3 0 1 2 3 0 1 2 3; init a i64 : 1; CumSum p a -> c; "
         "Cast c -> f to=1; Mul x f -> y; out y"},
    {18, "in x f32 3 8; init w f32 2 4 : 1 2 3 4 5 6 7 8; init r i64 2 : 3 1; init s i64 2 : 6 4; "
         "Tile w r -> t; Reshape x s -> z; Mul z t -> y; out y"},
    {18, "in x f32 3 2 2; init m i64 3 2 2 : 1 2 3 4 1 2 3 4 1 2 3 4; Cast m -> f to=1; "
         "MatMul x f -> y; out y"},
    {18, "in x f32 3 4; init k i64 3 4 : 0 2 1 3 0 2 1 3 0 2 1 3; "
         "ScatterElements x k x -> y axis=1; out y"},
};

/* Sample `first` and those after it of inputs that are functions of their place. */
static RengaErrorCode SetInputs(Execution *execution, int64_t first)
{
  static float real[ELEMENTS_MAX];
  static int64_t whole[ELEMENTS_MAX];
  static const char *const names[] = {"x", "g", "n", "b"};
  for (int i = 0; i < 4; i++) {
    RengaValue input = RengaGraphFindValue(execution->graph, names[i]);
    if (input == RENGA_VALUE_NONE) continue;
    RengaTensorSpec spec = ExecutionSpec(execution, input);
    const int64_t n = RengaTensorSpecCount(&spec), from = first * n / execution->batch;
    Expect(n <= ELEMENTS_MAX);
    for (int64_t k = 0; k < n; k++) {
      real[k] = (float)sin(1.0 + 2.0 * (double)(from + k) + i);
      whole[k] = 2 + (from + k) % 4;
    }
    const bool is_real = spec.type == RENGA_FLOAT32;
    RengaCall(ExecutionSet(execution, input, is_real ? (const void *)real : whole));
  }
  return RENGA_SUCCESS;
}

/* The output of the samples from first on. */
static RengaErrorCode Evaluate(RengaGraph graph, RengaDevice device, int64_t first, int64_t batch,
                               int64_t *count, float y[])
{
  Execution execution;
  RengaValue value = RengaGraphFindValue(graph, "y");
  RengaKernelContext context = {
      .training = true, .seed = SEED, .step = STEP, .sample = first, .samples = batch};
  RengaCall(ExecutionCreate(graph, device, batch, &execution));
  RengaErrorCode code = ExecutionInitialize(&execution, 0);
  if (code == RENGA_SUCCESS) code = SetInputs(&execution, first);
  if (code == RENGA_SUCCESS) code = ExecutionRun(&execution, &context);
  if (code == RENGA_SUCCESS) {
    RengaTensorSpec spec = ExecutionSpec(&execution, value);
    *count = RengaTensorSpecCount(&spec);
    Expect(*count > 0 && *count <= ELEMENTS_MAX);
    memcpy(y, execution.memory[value], (size_t)*count * sizeof *y);
  }
  RengaCall(ExecutionDestroy(&execution));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode Read(RengaComm comm, int64_t opset, const char *text, const char *inputs,
                           RengaGraph *graph)
{
  Message *model = NewModelOf(opset, text);
  RengaErrorCode code = WriteMessage(model, file_name);
  MessageFree(model);
  RengaCall(code);
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphSetBatchInputs(*graph, inputs));
  return RengaGraphLoad(*graph, file_name);
}

static RengaErrorCode Load(RengaComm comm, int64_t opset, const char *text, RengaGraph *graph)
{
  RengaCall(Read(comm, opset, text, NULL, graph));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSamplewise(RengaComm comm, RengaDevice device, int row)
{
  static float all[ELEMENTS_MAX], one[ELEMENTS_MAX];
  RengaGraph graph;
  int64_t n_all, n_one;
  bool vary = false;
  RengaCall(Load(comm, samplewise[row].opset, samplewise[row].text, &graph));
  RengaCall(Evaluate(graph, device, 0, BATCH, &n_all, all));
  for (int64_t s = 0; s < BATCH; s++) {
    RengaCall(Evaluate(graph, device, s, 1, &n_one, one));
    Expect(n_one * BATCH == n_all);
    RengaCheck(memcmp(one, all + s * n_one, (size_t)n_one * sizeof *one) == 0, MPI_COMM_SELF,
               RENGA_ERR_NUMERIC, "sample %lld alone gets other numbers: %s", (long long)s,
               samplewise[row].text);
  }
  for (int64_t i = 1; i < n_all; i++) vary = vary || all[i] != all[0];
  Expect(vary);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Mean and variance of many numbers, and that no two are the same. */
static RengaErrorCode CheckDraws(RengaComm comm, RengaDevice device)
{
  static const struct {
    const char *text;
    double mean, variance;
  } rows[] = {
      {"in x f32 N 1024; RandomNormalLike x -> y mean=2.0 scale=3.0; out y", 2, 9},
      {"in x f32 N 1024; RandomUniformLike x -> y low=-1.0 high=2.0; out y", 0.5, 0.75},
      {"in x f32 N 1024; init q f32 : 0.25; Sub x x -> o; Add o q -> p; Bernoulli p -> y; out y",
       0.25, 0.1875},
  };
  static float y[ELEMENTS_MAX];
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    RengaGraph graph;
    int64_t count;
    double sum = 0, square = 0;
    RengaCall(Load(comm, 20, rows[r].text, &graph));
    RengaCall(Evaluate(graph, device, 0, 4, &count, y));
    for (int64_t i = 0; i < count; i++) {
      sum += (double)y[i] / (double)count;
      square += (double)y[i] * (double)y[i] / (double)count;
    }
    const double deviation = sqrt(rows[r].variance);
    Expect(fabs(sum - rows[r].mean) < 5 * deviation / sqrt((double)count));
    Expect(fabs(square - sum * sum - rows[r].variance) < 0.1 * rows[r].variance);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

/* The mean of exp(x) where n > 3: the rows that the mask leaves out do not count. */
static RengaErrorCode CheckSelection(RengaComm comm, RengaDevice device)
{
  enum { WIDTH = 4 };
  static float y[ELEMENTS_MAX];
  RengaGraph graph;
  int64_t count, selected = 0;
  double sum = 0;
  RengaCall(Load(comm, 18,
                 "in x f32 N 4; in n i64 N 4; init t i64 : 3; Greater n t -> m; NonZero m -> p; "
                 "Transpose p -> q perm=1,0; GatherND x q -> s; Exp s -> e; "
                 "ReduceMean e -> y keepdims=0; out y",
                 &graph));
  RengaCall(Evaluate(graph, device, 0, BATCH, &count, y));
  for (int k = 0; k < BATCH * WIDTH; k++)
    if (2 + k % 4 > 3) {
      sum += exp(sin(1.0 + 2.0 * k));
      selected++;
    }
  Expect(count == 1 && fabs((double)y[0] - sum / (double)selected) < 1e-5);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Rows of x, where a mask has one dimension: as the newer exporter writes x[mask]. */
static RengaErrorCode CheckRows(RengaComm comm, RengaDevice device)
{
  enum { WIDTH = 4 };
  static float y[ELEMENTS_MAX];
  RengaGraph graph;
  int64_t count, selected = 0;
  double sum = 0;
  RengaCall(Load(comm, 18,
                 "in x f32 N 4; in n i64 N; init t i64 : 3; Greater n t -> m; NonZero m -> p; "
                 "Transpose p -> q perm=1,0; init one i64 1 : 1; Squeeze q one -> r; Max r -> u; "
                 "Shape u -> s; Expand r s -> v; init last i64 1 : -1; Unsqueeze v last -> w; "
                 "Concat w -> k axis=-1; GatherND x k -> h; Transpose h -> g perm=0,1; Exp g -> e; "
                 "ReduceMean e -> y keepdims=0; out y",
                 &graph));
  RengaCall(Evaluate(graph, device, 0, BATCH, &count, y));
  for (int k = 0; k < BATCH; k++)
    for (int i = 0; i < WIDTH && 2 + k % 4 > 3; i++, selected++)
      sum += exp(sin(1.0 + 2.0 * (WIDTH * k + i)));
  Expect(count == 1 && fabs((double)y[0] - sum / (double)selected) < 1e-5);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* What logarithms make of rows that a mask leaves out is finite, and so are their slopes. */
static RengaErrorCode CheckVoid(RengaComm comm, RengaDevice device)
{
  static float y[ELEMENTS_MAX];
  RengaGraph graph;
  int64_t count;
  int void_rows = 0;
  RengaCall(Load(comm, 18,
                 "in x f32 N 4; Relu x -> r; NonZero r -> p; "
                 "Transpose p -> q perm=1,0; GatherND r q -> s; Log s -> y; Reciprocal s -> z; "
                 "ReduceMean y -> a keepdims=0; ReduceMean z -> b keepdims=0; out a; out b",
                 &graph));
  RengaCall(Evaluate(graph, device, 0, BATCH, &count, y));
  for (int64_t k = 0; k < count; k++) {
    const double x = sin(1.0 + 2.0 * (double)k), wanted = log(x > 0 ? x : 0.5);
    Expect(fabs((double)y[k] - wanted) < 1e-5);
    void_rows += x <= 0;
  }
  Expect(count == BATCH * 4 && void_rows > 2);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* ---- -graph_batch_inputs ---- */
static RengaErrorCode CheckBatchInputs(RengaComm comm)
{
  /* as long as the batch, but no samples; and samples that are not the first dimension */
  static const char *const text =
      "in t f32 4 5; in x f32 3 4 5; in f f32; in w f32 5; init w f32 5 : 1 2 3 4 5; Mul t w -> u; "
      "ReduceSum u -> s keepdims=0; Mul x s -> v; Add v f -> y; out y";
  static const struct {
    const char *inputs, *message[2];
  } wrong[] = {
      {"x:1,z", {"-graph_batch_inputs: onnx-composed.onnx has no input \"z\"", ""}},
      {"f", {"input \"f\" of onnx-composed.onnx cannot hold samples: it is one number", ""}},
      {"x:1,w", {"\"w\" of onnx-composed.onnx cannot hold samples", "given by an initializer"}},
      {"x:3", {"input \"x\" of onnx-composed.onnx has 3 dimensions, not one of number 3", ""}},
      {"t,x", {"dimension 0 of input \"x\" of onnx-composed.onnx is 3", "first input named is 4"}},
  };
  RengaGraph graph;
  char shape[64];
  RengaCall(Read(comm, 18, text, "x:1", &graph));
  const RengaGraphValue *x = RengaGraphGetValue(graph, RengaGraphFindValue(graph, "x"));
  const RengaGraphValue *t = RengaGraphGetValue(graph, RengaGraphFindValue(graph, "t"));
  RengaTensorSpecFormat(&x->spec, sizeof shape, shape);
  Expect(x->kind == RENGA_VALUE_INPUT && strcmp(shape, "float32[N,3,5]") == 0);
  RengaTensorSpecFormat(&t->spec, sizeof shape, shape);
  Expect(t->kind == RENGA_VALUE_PARAMETER && strcmp(shape, "float32[4,5]") == 0);
  RengaCall(RengaGraphDestroy(&graph));
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    ExpectError(Read(comm, 18, text, wrong[i].inputs, &graph), RENGA_ERR_OPTION,
                wrong[i].message[0], wrong[i].message[1]);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

/* ---- loops ---- */
static Message *Body(bool scan)
{
  Message *body = MessageNew();
  if (!scan) {
    AddInput(body, "i", 7, 0, NULL, NULL);
    AddInput(body, "go", 9, 0, NULL, NULL);
  }
  AddInput(body, "before", 1, 2, (int64_t[]){1, 4}, NULL);
  if (scan) AddInput(body, "part", 1, 1, (int64_t[]){1}, NULL);
  if (!scan) AddOperator(body, "Identity", "go", "on");
  if (scan) AddOperator(body, "Reshape", "part column", "element");
  AddOperator(body, "Add", scan ? "before element" : "before x", "after");
  AddOperator(body, "Mul", "after after", "square");
  if (!scan) AddOutput(body, "on");
  AddOutput(body, "after");
  AddOutput(body, "square");
  return body;
}

/* Three times s = s + x, from s = x; or s = s + column k of x, over all columns. */
static Message *LoopModel(bool scan)
{
  static const int64_t three = 3, column[] = {-1, 1};
  Message *graph = MessageNew(), *node;
  AddInput(graph, "x", 1, 2, (int64_t[]){2, 4}, "N");
  AddInitializer(graph, "three", 7, 0, NULL, &three, sizeof three);
  AddInitializer(graph, "column", 7, 1, (int64_t[]){2}, column, sizeof column);
  node = scan ? NewNode("Scan", "x x", "y squares") : NewNode("Loop", "three - x", "y squares");
  AddGraph(node, "body", Body(scan));
  if (scan) AddInt(node, "num_scan_inputs", 1);
  if (scan) AddInts(node, "scan_input_axes", 1, (int64_t[]){1});
  AddNode(graph, node);
  AddOutput(graph, "y");
  AddOutput(graph, "squares");
  return NewModel(graph, 18);
}

static RengaErrorCode CheckLoop(RengaComm comm, RengaDevice device, bool scan)
{
  enum { WIDTH = 4, LOOP_BATCH = 5 };
  static float x[LOOP_BATCH * WIDTH], y[ELEMENTS_MAX];
  RengaGraph graph;
  int64_t count;
  Message *model = LoopModel(scan);
  RengaErrorCode code = WriteMessage(model, file_name);
  MessageFree(model);
  RengaCall(code);
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, file_name));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(Evaluate(graph, device, 0, LOOP_BATCH, &count, y));
  Expect(count == LOOP_BATCH * WIDTH);
  for (int i = 0; i < LOOP_BATCH * WIDTH; i++) x[i] = (float)sin(1.0 + 2.0 * i);
  for (int i = 0; i < LOOP_BATCH * WIDTH; i++) {
    double wanted = (double)x[i] * (scan ? 1 : WIDTH);
    for (int k = 0; k < WIDTH && scan; k++) wanted += (double)x[i / WIDTH * WIDTH + k];
    Expect(fabs((double)y[i] - wanted) < 1e-5);
  }
  RengaTensorSpec squares = RengaGraphGetValue(graph, RengaGraphFindValue(graph, "squares"))->spec;
  Expect(squares.ndim == 3 && squares.dim[0] == (scan ? WIDTH : 3) && squares.dim[1] == -1);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* At most three passes, while the sum of what has been reached is below a bound: a number of passes
   that depends on data. And one whose condition is an initializer, true or not. */
static Message *WhileModel(bool known, char on)
{
  static const int64_t three = 3;
  static const float bound = 2;
  Message *graph = MessageNew(), *body = MessageNew(), *node;
  AddInput(graph, "x", 1, 2, (int64_t[]){2, 4}, "N");
  AddInitializer(graph, "three", 7, 0, NULL, &three, sizeof three);
  AddInitializer(graph, "bound", 1, 0, NULL, &bound, sizeof bound);
  AddInitializer(graph, "first", 9, 0, NULL, &on, sizeof on);
  AddInput(body, "i", 7, 0, NULL, NULL);
  AddInput(body, "go", 9, 0, NULL, NULL);
  AddInput(body, "before", 1, 2, (int64_t[]){1, 4}, NULL);
  if (known) AddInitializer(body, "on", 9, 0, NULL, "", 1);
  AddOperator(body, "Add", "before x", "after");
  AddOperator(body, "ReduceSum", "after", "sum");
  if (!known) AddOperator(body, "Less", "sum bound", "on");
  AddOutput(body, "on");
  AddOutput(body, "after");
  node = NewNode("Loop", "three first x", "reached");
  AddGraph(node, "body", body);
  AddNode(graph, node);
  AddOperator(graph, "Neg", "reached", "y");
  AddOutput(graph, "y");
  return NewModel(graph, 18);
}

static RengaErrorCode LoadWhile(RengaComm comm, bool known, char on, RengaGraph *graph)
{
  Message *model = WhileModel(known, on);
  RengaErrorCode code = WriteMessage(model, file_name);
  MessageFree(model);
  RengaCall(code);
  RengaCall(RengaGraphCreate(comm, graph));
  return RengaGraphLoad(*graph, file_name);
}

/* One pass, whose own condition ends the loop; or none. */
static RengaErrorCode CheckConditions(RengaComm comm, RengaDevice device)
{
  static float y[ELEMENTS_MAX];
  RengaGraph graph;
  int64_t count;
  ExpectError(LoadWhile(comm, false, 1, &graph), RENGA_ERR_SUPPORT,
              "whether it makes another pass depends on data");
  RengaCall(RengaGraphDestroy(&graph));
  for (char on = 0; on < 2; on++) {
    RengaCall(LoadWhile(comm, true, on, &graph));
    RengaCall(RengaGraphSetUp(graph));
    RengaCall(Evaluate(graph, device, 0, BATCH, &count, y));
    Expect(count == BATCH * 4);
    for (int64_t k = 0; k < count; k++)
      Expect(fabs((double)y[k] + (1 + on) * sin(1.0 + 2.0 * (double)k)) < 1e-5);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const char *const types[] = {RENGA_DEVICE_REF, RENGA_DEVICE_CPU};
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int d = 0; d < 2; d++) {
    RengaDevice device;
    RengaCall(RengaDeviceCreate(comm, &device));
    RengaCall(RengaDeviceSetType(device, types[d]));
    RengaCall(RengaDeviceSetUp(device));
    for (int row = 0; row < (int)(sizeof samplewise / sizeof samplewise[0]); row++)
      RengaCall(CheckSamplewise(comm, device, row));
    RengaCall(CheckDraws(comm, device));
    RengaCall(CheckSelection(comm, device));
    RengaCall(CheckRows(comm, device));
    RengaCall(CheckVoid(comm, device));
    RengaCall(CheckLoop(comm, device, false));
    RengaCall(CheckLoop(comm, device, true));
    RengaCall(CheckConditions(comm, device));
    RengaCall(RengaDeviceDestroy(&device));
  }
  RengaCall(CheckBatchInputs(comm));
  remove(file_name);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
