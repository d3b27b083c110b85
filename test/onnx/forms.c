/* TEST ranks: 1 */
/* Forms of operators that ONNX's node tests of opset 17 do not have: newer and older ones, an open
   batch and one that the file fixes. Each network has an input x [N,4] and an output y that is
   compared with a formula, at two batch sizes. */
#include "../check.h"
#include "formula.h"
#include "rengacomm.h"
#include "renga/private/onnx.h"
#include "text.h"
#include <math.h>
#include <string.h>

enum { FLOAT = 1, INT64 = 7, WIDTH = FORMULA_WIDTH, FILE_BATCH = 3 };
static const char file_name[] = "onnx-forms.onnx";

static Message *NewGraph(const char *batch)
{
  Message *graph = MessageNew();
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){FILE_BATCH, WIDTH}, batch);
  AddOutput(graph, "y");
  return graph;
}

static void AddNumbers(Message *graph, const char *name, int count, const int64_t numbers[])
{
  int64_t dim[] = {count};
  AddInitializer(graph, name, INT64, 1, dim, numbers, (size_t)count * sizeof *numbers);
}

static void AddNumber(Message *graph, const char *name, int64_t number)
{
  AddInitializer(graph, name, INT64, 0, NULL, &number, sizeof number);
}

/* ---- networks, and y[k] from x [n, WIDTH]; the count of y ---- */
static Message *MeanByInput(void)
{
  Message *graph = NewGraph("N"), *mean = NewNode("ReduceMean", "x axes", "y");
  AddNumbers(graph, "axes", 1, (int64_t[]){-1});
  AddInt(mean, "keepdims", 0);
  AddNode(graph, mean);
  return NewModel(graph, 18);
}
static Message *MeanByAttribute(void)
{
  Message *graph = NewGraph("N"), *mean = NewNode("ReduceMean", "x", "y");
  AddInts(mean, "axes", 1, (int64_t[]){1});
  AddInt(mean, "keepdims", 0);
  AddNode(graph, mean);
  return NewModel(graph, 11);
}
static int64_t RowMeans(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i / WIDTH] += (double)x[i] / WIDTH;
  return n;
}

static Message *SplitByCount(void)
{
  Message *graph = NewGraph("N"), *split = NewNode("Split", "x", "a b");
  AddInt(split, "axis", 1);
  AddInt(split, "num_outputs", 2);
  AddNode(graph, split);
  AddOperator(graph, "Sub", "a b", "y");
  return NewModel(graph, 18);
}
static Message *SplitByAttribute(void)
{
  Message *graph = NewGraph("N"), *split = NewNode("Split", "x", "a b");
  AddInt(split, "axis", 1);
  AddInts(split, "split", 2, (int64_t[]){2, 2});
  AddNode(graph, split);
  AddOperator(graph, "Sub", "a b", "y");
  return NewModel(graph, 11);
}
static int64_t Halves(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < 2; k++)
      y[2 * i + k] = (double)x[WIDTH * i + k] - (double)x[WIDTH * i + k + 2];
  return 2 * n;
}

static Message *PadAxes(void)
{
  Message *graph = NewGraph("N");
  AddNumbers(graph, "pads", 2, (int64_t[]){1, 2});
  AddNumbers(graph, "axes", 1, (int64_t[]){1});
  AddOperator(graph, "Pad", "x pads - axes", "y");
  return NewModel(graph, 18);
}
static int64_t Padded(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < WIDTH; k++) y[(WIDTH + 3) * i + 1 + k] = (double)x[WIDTH * i + k];
  return (WIDTH + 3) * n;
}

static Message *Gelu(void)
{
  Message *graph = NewGraph("N");
  AddOperator(graph, "Gelu", "x", "y");
  return NewModel(graph, 20);
}
static int64_t GeluOf(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++)
    y[i] = 0.5 * (double)x[i] * (1 + erf((double)x[i] / sqrt(2)));
  return n * WIDTH;
}

/* [N,4,1] in two groups; scale 2 and 3 per group until 20, per channel from 21. */
static Message *GroupNormalization(int64_t opset, int count)
{
  static const float scales[2][4] = {{2, 3}, {2, 2, 3, 3}}, zeros[4];
  Message *graph = NewGraph("N"), *norm = NewNode("GroupNormalization", "c s b", "z");
  int64_t dim[] = {count};
  AddInitializer(graph, "s", FLOAT, 1, dim, scales[count == 4], (size_t)count * sizeof(float));
  AddInitializer(graph, "b", FLOAT, 1, dim, zeros, (size_t)count * sizeof(float));
  AddNumbers(graph, "two", 1, (int64_t[]){2});
  AddOperator(graph, "Unsqueeze", "x two", "c");
  AddInt(norm, "num_groups", 2);
  AddNode(graph, norm);
  AddOperator(graph, "Squeeze", "z two", "y");
  return NewModel(graph, opset);
}
static Message *PerGroup(void)
{
  return GroupNormalization(18, 2);
}
static Message *PerChannel(void)
{
  return GroupNormalization(21, 4);
}
static int64_t Grouped(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * 2; i++) {
    double a = (double)x[2 * i], b = (double)x[2 * i + 1], half = (a - b) / 2;
    double scale = (i % 2 == 0 ? 2 : 3) / sqrt(half * half + 1e-5);
    y[2 * i] = half * scale;
    y[2 * i + 1] = -half * scale;
  }
  return n * WIDTH;
}

/* Until opset 12 all dimensions from axis on are one row. */
static Message *SoftmaxOfRows(void)
{
  Message *graph = NewGraph("N"), *unsqueeze = NewNode("Unsqueeze", "x", "u");
  Message *softmax = NewNode("Softmax", "u", "s"), *squeeze = NewNode("Squeeze", "s", "y");
  AddInts(unsqueeze, "axes", 1, (int64_t[]){2});
  AddNode(graph, unsqueeze);
  AddInt(softmax, "axis", 1);
  AddNode(graph, softmax);
  AddInts(squeeze, "axes", 1, (int64_t[]){2});
  AddNode(graph, squeeze);
  return NewModel(graph, 11);
}
static int64_t Softmax(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int k = 0; k < WIDTH; k++) sum += y[WIDTH * i + k] = exp((double)x[WIDTH * i + k]);
    for (int k = 0; k < WIDTH; k++) y[WIDTH * i + k] /= sum;
  }
  return n * WIDTH;
}

/* ReduceSum(x) / batch, where the batch comes from Shape: data, not a shape. */
static Message *BatchAsData(void)
{
  Message *graph = NewGraph("N"), *sum = NewNode("ReduceSum", "x", "s");
  Message *cast = NewNode("Cast", "n", "f");
  AddNumber(graph, "zero", 0);
  AddOperator(graph, "Shape", "x", "shape");
  AddOperator(graph, "Gather", "shape zero", "n");
  AddInt(cast, "to", FLOAT);
  AddNode(graph, cast);
  AddInt(sum, "keepdims", 0);
  AddNode(graph, sum);
  AddOperator(graph, "Div", "s f", "y");
  return NewModel(graph, 13);
}
static int64_t MeanOfRowSums(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[0] += (double)x[i] / (double)n;
  return 1;
}

/* x + (0 … N-1 as a column): a range as long as the batch, which tells samples apart */
static Message *RangeOfBatch(void)
{
  Message *graph = NewGraph("N"), *cast = NewNode("Cast", "c", "f");
  AddNumber(graph, "zero", 0);
  AddNumber(graph, "one", 1);
  AddNumbers(graph, "axis", 1, (int64_t[]){1});
  AddOperator(graph, "Shape", "x", "shape");
  AddOperator(graph, "Gather", "shape zero", "n");
  AddOperator(graph, "Range", "zero n one", "r");
  AddOperator(graph, "Unsqueeze", "r axis", "c");
  AddInt(cast, "to", FLOAT);
  AddNode(graph, cast);
  AddOperator(graph, "Add", "x f", "y");
  return NewModel(graph, 13);
}

/* The file's batch of 3 in shapes: [3,4] -> [12] -> [3,2,2] -> [6,2] -> [3,4], + 0 [3,4]. */
static Message *FixedBatch(void)
{
  Message *graph = NewGraph(NULL);
  AddNumbers(graph, "flat", 1, (int64_t[]){12});
  AddNumbers(graph, "cube", 3, (int64_t[]){3, 2, -1});
  AddNumbers(graph, "rows", 2, (int64_t[]){6, 2});
  AddNumbers(graph, "back", 2, (int64_t[]){3, 4});
  AddOperator(graph, "Reshape", "x flat", "a");
  AddOperator(graph, "Reshape", "a cube", "b");
  AddOperator(graph, "Reshape", "b rows", "c");
  AddOperator(graph, "Relu", "c", "d");
  AddOperator(graph, "Reshape", "d back", "e");
  AddOperator(graph, "ConstantOfShape", "back", "z");
  AddOperator(graph, "Add", "e z", "y");
  return NewModel(graph, 13);
}
static int64_t Positive(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = x[i] > 0 ? (double)x[i] : 0;
  return n * WIDTH;
}

/* Rows of a table by constant indices [3,1], and a constant [3,4]: equal for each sample. */
static Message *Copies(void)
{
  static const float table[3] = {5, 0.25f, 7};
  static const float rows[12] = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  static const int64_t indices[3] = {1, 1, 1};
  Message *graph = NewGraph(NULL), *constant;
  AddInitializer(graph, "table", FLOAT, 1, (int64_t[]){3}, table, sizeof table);
  AddInitializer(graph, "i", INT64, 2, (int64_t[]){3, 1}, indices, sizeof indices);
  constant = NewNode("Constant", "", "c");
  AddTensor(constant, "value", FLOAT, 2, (int64_t[]){3, 4}, rows, sizeof rows);
  AddNode(graph, constant);
  AddOperator(graph, "Gather", "table i", "g");
  AddOperator(graph, "Mul", "g c", "p");
  AddOperator(graph, "Add", "x p", "y");
  return NewModel(graph, 13);
}
static int64_t PlusQuarters(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = (double)x[i] + 0.25 * (double)(i % WIDTH + 1);
  return n * WIDTH;
}

/* The sum of all elements, shape arithmetic on the way: x as [Max(N, 1), Size / N]. */
static Message *Arithmetic(void)
{
  Message *graph = NewGraph("N"), *join = NewNode("Concat", "m q", "target");
  AddNumbers(graph, "zero", 1, (int64_t[]){0});
  AddNumbers(graph, "one", 1, (int64_t[]){1});
  AddOperator(graph, "Shape", "x", "shape");
  AddOperator(graph, "Size", "x", "size");
  AddOperator(graph, "Slice", "shape zero one", "n");
  AddOperator(graph, "Max", "n one", "m");
  AddOperator(graph, "Div", "size n", "q");
  AddInt(join, "axis", 0);
  AddNode(graph, join);
  AddOperator(graph, "Relu", "x", "r");
  AddOperator(graph, "Reshape", "r target", "y");
  return NewModel(graph, 13);
}

/* ---- opset 23, and Einsum ---- */
static Message *RootMeanSquare(void)
{
  return NewModelOf(23, "in x f32 N 4; init s f32 4 : 2 2 2 2; out y; "
                        "RMSNormalization x s -> y epsilon=0.5");
}
static int64_t TwiceNormalized(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t k = 0; k < WIDTH; k++) sum += (double)x[i * WIDTH + k] * (double)x[i * WIDTH + k];
    for (int64_t k = 0; k < WIDTH; k++)
      y[i * WIDTH + k] = 2 * (double)x[i * WIDTH + k] / sqrt(sum / WIDTH + 0.5);
  }
  return n * WIDTH;
}

/* Two tokens of width 2; the second sees both. */
static Message *CausalAttention(void)
{
  return NewModelOf(23, "in x f32 N 4; init t i64 3 : -1 2 2; Reshape x t -> b; out y; "
                        "Attention b b b -> c q_num_heads=1 kv_num_heads=1 is_causal=1 scale=0.5; "
                        "init u i64 2 : -1 4; Reshape c u -> y");
}
static int64_t Attended(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) {
    const float *a = x + i * WIDTH, *b = a + 2;
    double ba = exp(0.5 * ((double)b[0] * (double)a[0] + (double)b[1] * (double)a[1]));
    double bb = exp(0.5 * ((double)b[0] * (double)b[0] + (double)b[1] * (double)b[1]));
    for (int k = 0; k < 2; k++) {
      y[i * WIDTH + k] = (double)a[k];
      y[i * WIDTH + 2 + k] = (ba * (double)a[k] + bb * (double)b[k]) / (ba + bb);
    }
  }
  return n * WIDTH;
}

/* Two tokens of one pair: the first stays, the second turns by a right angle. */
static Message *Rotary(void)
{
  return NewModelOf(23, "in x f32 N 4; init t i64 3 : -1 2 2; Reshape x t -> b; out y; "
                        "init c f32 1 2 1 : 1 0; init s f32 1 2 1 : 0 1; "
                        "RotaryEmbedding b c s -> r num_heads=1; "
                        "init u i64 2 : -1 4; Reshape r u -> y");
}
static int64_t Turned(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i += WIDTH) {
    y[i] = (double)x[i], y[i + 1] = (double)x[i + 1];
    y[i + 2] = -(double)x[i + 3], y[i + 3] = (double)x[i + 2];
  }
  return n * WIDTH;
}

/* x w summed over the width, and its outer product with two numbers, in another order. */
static Message *Einsum(void)
{
  return NewModelOf(13, "in x f32 N 4; init w f32 4 1 : 1 2 3 4; init v f32 2 : 5 7; out y; "
                        "Einsum x w v -> y equation=ni,io,k->nko");
}
static int64_t OuterOfSum(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int k = 0; k < WIDTH; k++) sum += (k + 1) * (double)x[i * WIDTH + k];
    y[2 * i] = 5 * sum;
    y[2 * i + 1] = 7 * sum;
  }
  return 2 * n;
}

/* One step of an RNN, tanh(x + h), whose first state is in the file for each of its 3 samples. */
static Message *FirstState(void)
{
  return NewModelOf(14, "in x f32 3 4; init s i64 3 : 0 1 4; Reshape x s -> a; out y; "
                        "Transpose a -> b perm=1,0,2; init o i64 1 : 0; "
                        "init w f32 1 4 4 : 1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1; "
                        "init h f32 1 3 4 : 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5 0.5; "
                        "RNN b w w - - h -> - c hidden_size=4; Squeeze c o -> y");
}
static int64_t Stepped(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = tanh((double)x[i] + 0.5);
  return n * WIDTH;
}

/* x + 0 … 3, the range's start and step cast to the type of its end as exporters write it */
static Message *CastRange(void)
{
  return NewModelOf(18, "in x f32 N 4; init a f32 : 0; init b i64 : 4; init c f32 : 1; out y; "
                        "CastLike a b -> d; CastLike c b -> e; Range d b e -> r; "
                        "Cast r -> s to=1; Add x s -> y");
}
/* The same, its start real and its end an integer, as of torch.arange(0., 4). */
static Message *MixedRange(void)
{
  return NewModelOf(18, "in x f32 N 4; init a f32 : 0; init b i64 : 4; init c i64 : 1; out y; "
                        "Range a b c -> r; Add x r -> y");
}
static int64_t PlusColumn(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = (double)x[i] + (double)(i % WIDTH);
  return n * WIDTH;
}

/* A function whose attribute has a default of 0.5, called without it and with 0.25: x / 8 where
   x is negative, x elsewhere. */
static Message *Defaults(void)
{
  Message *model = NewModelOf(17, "in x f32 N 4; out y"), *graph = MessageNew();
  Message *function = MessageNew(), *relu = NewNode("LeakyRelu", "a", "b"), *call[2];
  Message *given = MessageNew(), *reference = MessageNew(), *default_value = MessageNew();
  call[0] = NewNode("Leak", "x", "z");
  call[1] = NewNode("Leak", "z", "y");
  PutText(given, 1, "slope");
  PutFloat(given, 2, 0.25f);
  PutNumber(given, 20, 1);
  PutMessage(call[1], 5, given);
  PutText(default_value, 1, "slope");
  PutFloat(default_value, 2, 0.5f);
  PutNumber(default_value, 20, 1);
  PutText(reference, 1, "alpha");
  PutText(reference, 21, "slope");
  PutNumber(reference, 20, 1);
  PutMessage(relu, 5, reference);
  PutText(function, 1, "Leak");
  PutText(function, 10, "local");
  PutText(function, 4, "a");
  PutText(function, 5, "b");
  PutMessage(function, 11, default_value);
  PutMessage(function, 7, relu);
  for (int i = 0; i < 2; i++) {
    PutText(call[i], 7, "local");
    AddNode(graph, call[i]);
  }
  PutMessage(model, 7, graph); /* is merged with the graph that is there */
  PutMessage(model, 25, function);
  return model;
}
static int64_t Leaked(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = x[i] > 0 ? (double)x[i] : (double)x[i] / 8;
  return n * WIDTH;
}

/* x + x, then Relu in the branch that is taken */
static Message *Function(void)
{
  return NewNetwork(3);
}
static int64_t TwicePositive(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * 3; i++) y[i] = x[i] > 0 ? 2 * (double)x[i] : 0;
  return n * 3;
}

static const struct {
  const char *name;
  Message *(*make)(void);
  Formula formula; /* NULL: refused */
} cases[] = {
    {"ReduceMean 18", MeanByInput, RowMeans},
    {"ReduceMean 11", MeanByAttribute, RowMeans},
    {"Split 18", SplitByCount, Halves},
    {"Split 11", SplitByAttribute, Halves},
    {"Pad 18", PadAxes, Padded},
    {"Gelu 20", Gelu, GeluOf},
    {"GroupNormalization 18", PerGroup, Grouped},
    {"GroupNormalization 21", PerChannel, Grouped},
    {"Softmax 11", SoftmaxOfRows, Softmax},
    {"batch as data", BatchAsData, MeanOfRowSums},
    {"range of the batch", RangeOfBatch, NULL},
    {"fixed batch", FixedBatch, Positive},
    {"shape arithmetic", Arithmetic, Positive},
    {"copies for each sample", Copies, PlusQuarters},
    {"function and If", Function, TwicePositive},
    {"function with a default", Defaults, Leaked},
    {"RMSNormalization 23", RootMeanSquare, TwiceNormalized},
    {"Attention 23", CausalAttention, Attended},
    {"RotaryEmbedding 23", Rotary, Turned},
    {"Einsum of three", Einsum, OuterOfSum},
    {"first state for each sample", FirstState, Stepped},
    {"range by CastLike", CastRange, PlusColumn},
    {"range of two types", MixedRange, PlusColumn},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static RengaErrorCode RunCase(RengaComm comm, RengaDevice device, int row)
{
  RengaGraph graph;
  Message *model = cases[row].make();
  RengaErrorCode code = WriteMessage(model, file_name);
  MessageFree(model);
  RengaCall(code);
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, file_name));
  if (cases[row].formula) {
    RengaCall(RengaGraphSetUp(graph));
    RengaCall(RunFormula(graph, device, cases[row].name, cases[row].formula, 2));
    RengaCall(RunFormula(graph, device, cases[row].name, cases[row].formula, 5));
  } else {
    ExpectError(RengaGraphSetUp(graph), RENGA_ERR_GRAPH, "mix the samples", "\"r\" (Range)");
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaDevice device;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(NewFormulaDevice(comm, &device));
  for (int row = 0; row < N_CASES; row++) RengaCall(RunCase(comm, device, row));
  remove(file_name);
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
