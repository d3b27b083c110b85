/* TEST ranks: 1 */
/* Forms that exporters write around what a network computes: lists of tensors, samples numbered by
   a range, batches with two names. Each network has an input x [N,4] and an output y that is
   compared with a formula, at two batch sizes. */
#include "../check.h"
#include "formula.h"
#include "renga/private/onnx.h"
#include "rengacomm.h"
#include "text.h"
#include <math.h>
#include <string.h>

enum { WIDTH = FORMULA_WIDTH };
static const char file_name[] = "onnx-exported.onnx";

#define NUMBERS "init zero i64 : 0; init one i64 : 1; init two i64 : 2; init width i64 : 4;"
/* The samples' numbers r [N,1], positions p [1,2] and their indices [N,2]. */
#define SAMPLES                                                                                    \
  NUMBERS "Shape x -> s; Gather s zero -> n; Range zero n one -> r0; init column i64 2 : -1 1;"    \
          "Reshape r0 column -> r; init p i64 1 2 : 3 1;"

static int64_t Halves(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < 2 * n; i++)
    y[i] = (double)x[WIDTH * (i / 2) + i % 2] - (double)x[WIDTH * (i / 2) + i % 2 + 2];
  return 2 * n;
}
static int64_t LastFirst(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) {
    y[2 * i] = (double)x[WIDTH * i + 3];
    y[2 * i + 1] = (double)x[WIDTH * i];
  }
  return 2 * n;
}
static int64_t LastSecond(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) {
    y[2 * i] = (double)x[WIDTH * i + 3];
    y[2 * i + 1] = (double)x[WIDTH * i + 1];
  }
  return 2 * n;
}
static int64_t LastAgain(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < 2 * n; i++) y[i] = (double)x[WIDTH * (i / 2) + 3];
  for (int64_t i = 1; i < 2 * n; i += 2) y[i] = (double)x[WIDTH * (i / 2)];
  return 2 * n;
}
static int64_t Largest(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) {
    y[i] = (double)x[WIDTH * i];
    for (int64_t k = 1; k < WIDTH; k++) y[i] = fmax(y[i], (double)x[WIDTH * i + k]);
  }
  return n;
}
static int64_t Same(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = (double)x[i];
  return n * WIDTH;
}

/* Cross-entropy of a row of x with its largest number as the label; a tenth of it is even. */
static double SmoothLoss(const float x[], int64_t label, const double weight[])
{
  double sum = 0, even = 0;
  for (int64_t k = 0; k < WIDTH; k++) sum += exp((double)x[k]);
  for (int64_t k = 0; k < WIDTH; k++) even += weight[k] * (log(sum) - (double)x[k]) / WIDTH;
  return 0.9 * weight[label] * (log(sum) - (double)x[label]) + 0.1 * even;
}
static int64_t LargestAt(const float x[])
{
  int64_t at = 0;
  for (int64_t k = 1; k < WIDTH; k++) at = x[k] > x[at] ? k : at;
  return at;
}
static int64_t SmoothEach(const float x[], int64_t n, double y[])
{
  static const double ones[WIDTH] = {1, 1, 1, 1};
  for (int64_t i = 0; i < n; i++) y[i] = SmoothLoss(x + WIDTH * i, LargestAt(x + WIDTH * i), ones);
  return n;
}
/* Label 3 does not count; classes weigh 1 to 4. */
static int64_t SmoothMean(const float x[], int64_t n, double y[])
{
  static const double weight[WIDTH] = {1, 2, 3, 4};
  double divisor = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t label = LargestAt(x + WIDTH * i);
    if (label == 3) continue;
    y[0] += SmoothLoss(x + WIDTH * i, label, weight);
    divisor += weight[label];
  }
  y[0] /= divisor;
  return 1;
}
/* Labels that are probabilities: all of it is the first class. */
static int64_t SmoothFirst(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i += WIDTH) {
    double sum = 0;
    for (int64_t k = 0; k < WIDTH; k++) sum += exp((double)x[i + k]);
    for (int64_t k = 0; k < WIDTH; k++)
      y[0] += (k == 0 ? 0.925 : 0.025) * (log(sum) - (double)x[i + k]) / (double)n;
  }
  return 1;
}
/* A mean, and what has no samples: 3² + 4² and 1. */
static int64_t Penalised(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[0] += (double)x[i] / (double)(n * WIDTH);
  y[0] += 3 * 3 + 4 * 4 - 1;
  return 1;
}

#define SMOOTH "call=loss:cross_entropy_loss.default(%x,%l,None,1,-100,0.1);"
static const struct {
  const char *name;
  int64_t opset;
  const char *text;
  Formula formula;
} cases[] = {
    {"chunk", 18,
     NUMBERS "in x f32 N 4; SplitToSequence x two -> q axis=1; SequenceAt q zero -> a;"
             "SequenceAt q one -> b; Sub a b -> y; out y",
     Halves},
    {"unbind and stack", 18,
     NUMBERS "in x f32 N 4; SplitToSequence x -> q axis=1 keepdims=0; init last i64 : -1;"
             "SequenceAt q zero -> a; SequenceAt q last -> b; SequenceConstruct b a -> r;"
             "ConcatFromSequence r -> y axis=1 new_axis=1; out y",
     LastFirst},
    {"insert and erase", 18,
     NUMBERS "in x f32 N 4; SplitToSequence x -> q axis=1; SequenceEmpty -> e;"
             "SequenceAt q zero -> a; SequenceInsert e a -> f; SequenceErase q two -> g;"
             "SequenceLength g -> l; SequenceAt g two -> b; SequenceInsert f b zero -> h;"
             "ConcatFromSequence h -> y axis=1; out y",
     LastFirst},
    {"numbers of samples beside positions", 18,
     "in x f32 N 4;" SAMPLES "Max r p -> m; Shape m -> t; Expand r t -> a; Expand p t -> b;"
     "init end i64 1 : -1; Unsqueeze a end -> c; Unsqueeze b end -> d; Concat c d -> i axis=-1;"
     "GatherND x i -> y; out y",
     LastSecond},
    {"rows of a flat table", 18,
     "in x f32 N 4;" SAMPLES "init all i64 1 : -1; Reshape x all -> flat; Mul r width -> o;"
     "Add o p -> i; Gather flat i -> y axis=0; out y",
     LastSecond},
    {"one row of each sample", 18,
     "in x f32 N 4;" SAMPLES "ArgMax x -> k axis=1 keepdims=1; Concat r k -> i axis=1;"
     "GatherND x i -> y; out y",
     Largest},
    {"one row of each sample of a flat table", 18,
     "in x f32 N 4;" SAMPLES "init all i64 1 : -1; Reshape x all -> flat; Mul r0 width -> o;"
     "ArgMax x -> k axis=1 keepdims=0; Add o k -> i; Gather flat i -> y axis=0; out y",
     Largest},
    {"all samples by their numbers", 18, "in x f32 N 4;" SAMPLES "Gather x r0 -> y axis=0; out y",
     Same},
    {"a batch of three numbered by a constant", 18,
     "in x f32 3 4; init i i64 3 2 2 : 0 3 0 1 1 3 1 1 2 3 2 1; GatherND x i -> y; out y",
     LastSecond},
    {"rows of a flat table of three", 18,
     "in x f32 3 4; init all i64 1 : 12; Reshape x all -> flat; init i i64 3 2 : 3 1 7 5 11 9;"
     "Gather flat i -> y axis=0; out y",
     LastSecond},
    {"copies of positions for each sample", 18,
     "in x f32 N 4;" SAMPLES "init h i64 1 : 1; Reshape n h -> u; Concat u h -> t axis=0;"
     "Tile p t -> k; GatherElements x k -> y axis=1; out y",
     LastSecond},
    {"a sum along copies of positions", 18,
     "in x f32 N 4;" SAMPLES "init h i64 1 : 1; Reshape n h -> u; Concat u h -> t axis=0;"
     "init ones i64 1 2 : 3 0; Tile ones t -> k; CumSum k one -> c reverse=1;"
     "GatherElements x c -> y axis=1; out y",
     LastAgain},
    {"copies of a table for each sample", 18,
     "in x f32 N 4;" SAMPLES "init h i64 1 : 1; Reshape n h -> u; Concat u h -> t axis=0;"
     "init w f32 2 4 : 0 0 0 1 0 1 0 0; init z i64 3 : -1 2 4; init v i64 3 : -1 4 1;"
     "init out i64 2 : -1 2; Relu w -> w1; Tile w1 t -> k; Reshape k z -> a; Reshape x v -> b;"
     "MatMul a b -> c; Reshape c out -> y; out y",
     LastSecond},
    {"the same first state for each of three", 18,
     "in x f32 3 4; init h i64 3 2 : 0 0 0 0 0 0; init w f32 2 4; Cast h -> g to=1;"
     "MatMul g w -> a; Add x a -> y; out y",
     Same},
    {"labels that are smoothed, as only the call says", 18,
     "in x f32 N 4; ArgMax x -> l axis=1 keepdims=0;"
     "SoftmaxCrossEntropyLoss x l -> y reduction=none " SMOOTH "out y",
     SmoothEach},
    {"smoothed labels, weights and a label that does not count", 18,
     "in x f32 N 4; init w f32 4 : 1 2 3 4; ArgMax x -> l axis=1 keepdims=0;"
     "SoftmaxCrossEntropyLoss x l w -> y reduction=mean ignore_index=3 " SMOOTH "out y",
     SmoothMean},
    {"smoothed probabilities", 18,
     "in x f32 N 4; init p f32 4 : 1 0 0 0; Shape x -> s; Expand p s -> l;"
     "SoftmaxCrossEntropyLoss x l -> y reduction=mean " SMOOTH "out y",
     SmoothFirst},
    {"an end that is limited while reading", 18,
     "in x f32 N 4; init b i64 1 : 0; init e i64 1 : 9; init lo i64 : 1; init hi i64 : 4;"
     "init a i64 1 : 1; Clip e lo hi -> c; Slice x b c a -> y; out y",
     Same},
    {"a penalty on weights beside a mean", 18,
     "in x f32 N 4; init w f32 2 : 3 4; init a i64 1 : 0; init c f32 : 1; Mul w w -> v;"
     "ReduceSum v a -> p keepdims=0; init u f32 4 : 1 1 1 1; Mul x u -> z;"
     "ReduceMean z -> m keepdims=0; Add p m -> l; Sub l c -> y;"
     "out y",
     Penalised},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static RengaErrorCode Write(int64_t opset, const char *text)
{
  Message *model = NewModelOf(opset, text);
  RengaErrorCode code = WriteMessage(model, file_name);
  MessageFree(model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunCase(RengaComm comm, RengaDevice device, int row)
{
  RengaGraph graph;
  RengaCall(Write(cases[row].opset, cases[row].text));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, file_name));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RunFormula(graph, device, cases[row].name, cases[row].formula, 2));
  RengaCall(RunFormula(graph, device, cases[row].name, cases[row].formula, 5));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* The first dimension of another input is the batch too, whatever it is called. */
static RengaErrorCode TwoNames(RengaComm comm)
{
  RengaGraph graph;
  RengaCall(Write(18, "in x f32 N 4; in z f32 M 4; Add x z -> y; out y"));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, file_name));
  RengaCall(RengaGraphSetUp(graph));
  const RengaGraphValue *z = RengaGraphGetValue(graph, RengaGraphFindValue(graph, "z"));
  RengaCheck(z->spec.dim[0] == -1, MPI_COMM_SELF, RENGA_ERR_SHAPE, "z has no batch");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Each sample against all: the mean of the products of all pairs, and not of shares of them. */
static int64_t Pairs(const float x[], int64_t n, double y[])
{
  double sum = 0;
  for (int64_t i = 0; i < n * n * WIDTH; i++)
    sum += (double)x[WIDTH * (i / WIDTH / n) + i % WIDTH] *
           (double)x[WIDTH * (i / WIDTH % n) + i % WIDTH];
  y[0] = sqrt(fabs(sum) / (double)(n * n));
  return 1;
}

/* Read for one micro-batch of three samples, which is all that it runs with. */
static RengaErrorCode CheckWhole(RengaComm comm, RengaDevice device)
{
  static const char text[] = "in x f32 N 4; Transpose x -> t perm=1,0; MatMul x t -> p;"
                             "ReduceMean p -> m keepdims=0; Abs m -> a; Sqrt a -> y; out y";
  RengaGraph graph;
  int64_t samples;
  const char *why;
  RengaCall(Write(18, text));
  RengaCall(RengaGraphCreate(comm, &graph));
  ExpectError(RengaGraphLoad(graph, file_name), RENGA_ERR_SHAPE, "2 dimensions that depend on",
              "-graph_whole_batch SIZE");
  RengaCall(RengaGraphGetMixed(graph, &why));
  Expect(why &&
         strcmp(why, "value \"p\" has 2 dimensions that depend on the batch, at most one may") ==
             0);
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetWholeBatch(graph, 3));
  RengaCall(RengaGraphGetWholeBatch(graph, &samples));
  Expect(samples == 3);
  RengaCall(RengaGraphLoad(graph, file_name));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphGetMixed(graph, &why));
  Expect(why == NULL);
  RengaCall(RunFormula(graph, device, "pairs", Pairs, 3));
  ExpectError(RunFormula(graph, device, "pairs", Pairs, 2), RENGA_ERR_SHAPE,
              "8 elements of an input come to a network that is read for batches of 12");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* The older exporter writes index_add as if one of two updates were to stay. */
static RengaErrorCode CheckTwice(RengaComm comm, const char *scatter, bool fits)
{
  RengaGraph graph;
  char text[512];
  snprintf(text, sizeof text,
           "in x f32 N 4; init i i64 1 4 : 0 1 1 3; Shape x -> s; Expand i s -> k;"
           "ScatterElements x k x -> y axis=%s; out y",
           scatter);
  RengaCall(Write(18, text));
  RengaCall(RengaGraphCreate(comm, &graph));
  if (fits)
    RengaCall(RengaGraphLoad(graph, file_name));
  else
    ExpectError(RengaGraphLoad(graph, file_name), RENGA_ERR_SUPPORT, "index 1 is written twice",
                "torch.onnx.export(..., dynamo=True)");
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
  RengaCall(TwoNames(comm));
  RengaCall(CheckWhole(comm, device));
  RengaCall(CheckTwice(comm, "1", false));
  RengaCall(CheckTwice(comm, "1 reduction=add", true));
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
