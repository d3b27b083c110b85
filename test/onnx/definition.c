/* TEST ranks: 1 */
/* Operators as ONNX defines them where that was read wrong once: reductions over no axis, and the
   steps of Attention. */
#include "../check.h"
#include "execute.h"
#include "formula.h"
#include "rengacomm.h"
#include "text.h"
#include <math.h>

enum { WIDTH = 4 };
static const char file_name[] = "onnx-definition.onnx";

/* ---- reductions over no axis: of each element, and of -3 ---- */
static int64_t Each(const float x[], int64_t n, double (*of)(double), double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = of((double)x[i]);
  return n * WIDTH;
}
static double Squared(double x)
{
  return x * x;
}
static int64_t Squares(const float x[], int64_t n, double y[])
{
  return Each(x, n, Squared, y);
}
static int64_t Sizes(const float x[], int64_t n, double y[])
{
  return Each(x, n, fabs, y);
}
static int64_t Logarithms(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = log(fabs((double)x[i]));
  return n * WIDTH;
}
static int64_t Plus(const float x[], int64_t n, double added, double y[])
{
  for (int64_t i = 0; i < n * WIDTH; i++) y[i] = (double)x[i] + added;
  return n * WIDTH;
}
static int64_t PlusNine(const float x[], int64_t n, double y[])
{
  return Plus(x, n, 9, y);
}
static int64_t PlusThree(const float x[], int64_t n, double y[])
{
  return Plus(x, n, 3, y);
}
static int64_t MinusThree(const float x[], int64_t n, double y[])
{
  return Plus(x, n, -3, y);
}
static int64_t PlusLogarithm(const float x[], int64_t n, double y[])
{
  return Plus(x, n, log(3), y);
}

/* ---- Attention of two tokens a, b of width 2, scale 0.5, softcap 0.25 ---- */
static double Product(const float a[], const float b[])
{
  return 0.5 * ((double)a[0] * (double)b[0] + (double)a[1] * (double)b[1]);
}
static double Capped(double score)
{
  return 0.25 * tanh(score / 0.25);
}

/* scores [2, 2] of a sample after the softcap, with what is added to those of the second key */
static void ScoresOf(const float x[], double added, double score[4])
{
  for (int q = 0; q < 2; q++)
    for (int k = 0; k < 2; k++)
      score[2 * q + k] = Capped(Product(x + 2 * q, x + 2 * k)) + (k == 1 ? added : 0);
}

static void Attend(const float x[], const double score[4], double y[WIDTH])
{
  for (int q = 0; q < 2; q++) {
    const double most = fmax(score[2 * q], score[2 * q + 1]);
    const double a = exp(score[2 * q] - most), b = exp(score[2 * q + 1] - most);
    for (int i = 0; i < 2; i++) y[2 * q + i] = (a * (double)x[i] + b * (double)x[2 + i]) / (a + b);
  }
}

static int64_t CappedCausal(const float x[], int64_t n, double y[])
{
  double score[4];
  for (int64_t i = 0; i < n; i++) {
    ScoresOf(x + i * WIDTH, 0, score);
    score[1] = -INFINITY;
    Attend(x + i * WIDTH, score, y + i * WIDTH);
  }
  return n * WIDTH;
}
static int64_t CappedMasked(const float x[], int64_t n, double y[])
{
  double score[4];
  for (int64_t i = 0; i < n; i++) {
    ScoresOf(x + i * WIDTH, -INFINITY, score);
    Attend(x + i * WIDTH, score, y + i * WIDTH);
  }
  return n * WIDTH;
}
/* of the first token nothing is seen, by the second the first */
static int64_t FirstHidden(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < 2; k++) {
      y[i * WIDTH + k] = 0;
      y[i * WIDTH + 2 + k] = (double)x[i * WIDTH + k];
    }
  return n * WIDTH;
}
static int64_t CappedAdded(const float x[], int64_t n, double y[])
{
  double score[4];
  for (int64_t i = 0; i < n; i++) {
    ScoresOf(x + i * WIDTH, 3, score);
    Attend(x + i * WIDTH, score, y + i * WIDTH);
  }
  return n * WIDTH;
}

static int64_t Products(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n * 4; i++)
    y[i] = Product(x + i / 4 * WIDTH + i / 2 % 2 * 2, x + i / 4 * WIDTH + i % 2 * 2);
  return n * 4;
}
static int64_t CappedScores(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) ScoresOf(x + i * WIDTH, 0, y + i * 4);
  return n * 4;
}
static int64_t AddedScores(const float x[], int64_t n, double y[])
{
  for (int64_t i = 0; i < n; i++) ScoresOf(x + i * WIDTH, 3, y + i * 4);
  return n * 4;
}
static int64_t Shares(const float x[], int64_t n, double y[])
{
  AddedScores(x, n, y);
  for (int64_t i = 0; i < n * 4; i += 2) {
    const double a = exp(y[i]), b = exp(y[i + 1]);
    y[i] = a / (a + b), y[i + 1] = b / (a + b);
  }
  return n * 4;
}

#define REDUCED(op) "in x f32 N 4; " op " x -> y noop_with_empty_axes=1; out y"
#define SAME(op) "in x f32 N 4; " op " x -> r noop_with_empty_axes=1; Abs r -> y; out y"
#define OF_ONE(op) "in x f32 N 4; init s f32 : -3; " op " s -> r; Add x r -> y; out y"
#define TOKENS "in x f32 N 4; init t i64 3 : -1 2 2; Reshape x t -> b; init u i64 2 : -1 4; "
#define HEADS "q_num_heads=1 kv_num_heads=1 scale=0.5 softcap=0.25 "
#define SCORES(mode)                                                                               \
  TOKENS "init m f32 2 : 0 3; Attention b b b m -> c - - s " HEADS "qk_matmul_output_mode=" mode   \
         "; Reshape s u -> y; out y"

#define TWO(second)                                                                                \
  "in x f32 N 4; init w f32 4 2; MatMul x w -> h; ReduceMean h -> a keepdims=0; "                  \
  "ReduceSum h -> " second " keepdims=0; out a; out " second

static const struct {
  int64_t opset;
  const char *text;
  Formula formula;
} cases[] = {
    {18, REDUCED("ReduceSumSquare"), Squares},
    {18, REDUCED("ReduceL1"), Sizes},
    {18, REDUCED("ReduceL2"), Sizes},
    {18, "in x f32 N 4; Abs x -> a; ReduceLogSum a -> y noop_with_empty_axes=1; out y", Logarithms},
    {18, SAME("ReduceLogSumExp"), Sizes},
    {18, SAME("ReduceProd"), Sizes},
    {18, SAME("ReduceMax"), Sizes},
    {18, SAME("ReduceMean"), Sizes},
    {13, SAME("ReduceSum"), Sizes},
    {13, OF_ONE("ReduceSumSquare"), PlusNine},
    {13, OF_ONE("ReduceL1"), PlusThree},
    {13, OF_ONE("ReduceL2"), PlusThree},
    {13, "in x f32 N 4; init s f32 : 3; ReduceLogSum s -> r; Add x r -> y; out y", PlusLogarithm},
    {13, OF_ONE("ReduceLogSumExp"), MinusThree},
    {13, OF_ONE("ReduceMin"), MinusThree},
    {23, TOKENS "Attention b b b -> c is_causal=1 " HEADS "; Reshape c u -> y; out y",
     CappedCausal},
    {24, TOKENS "Attention b b b -> c is_causal=1 " HEADS "; Reshape c u -> y; out y",
     CappedCausal},
    {23, TOKENS "init m bool 2 : 1 0; Attention b b b m -> c " HEADS "; Reshape c u -> y; out y",
     CappedMasked},
    {23, TOKENS "init m f32 2 : 0 -3e38; Attention b b b m -> c " HEADS "; Reshape c u -> y; out y",
     CappedMasked},
    {23, TOKENS "init m f32 2 : 0 3; Attention b b b m -> c " HEADS "; Reshape c u -> y; out y",
     CappedAdded},
    {23,
     TOKENS "init m bool 2 2 : 0 0 1 0; Attention b b b m -> c " HEADS "; Reshape c u -> y; out y",
     FirstHidden},
    {24,
     TOKENS "init m bool 2 2 : 0 1 1 0; Attention b b b m -> c is_causal=1 " HEADS
            "; Reshape c u -> y; out y",
     FirstHidden},
    {23, SCORES("0"), Products},
    {23, SCORES("1"), CappedScores},
    {23, SCORES("2"), AddedScores},
    {24, SCORES("3"), Shares},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static RengaErrorCode RunCase(RengaComm comm, RengaDevice device, int row)
{
  RengaGraph graph;
  Message *model = NewModelOf(cases[row].opset, cases[row].text);
  RengaErrorCode code = WriteMessage(model, file_name);
  MessageFree(model);
  RengaCall(code);
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, file_name));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RunFormula(graph, device, cases[row].text, cases[row].formula, 3));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Of two outputs that are one number each, which is trained? what: "", or what a warning says. */
static RengaErrorCode CheckLoss(RengaComm comm, const char *text, const char *loss,
                                const char *what)
{
  RengaGraph graph;
  FILE *file;
  RengaValue value;
  Message *model = NewModelOf(18, text);
  RengaErrorCode code = WriteMessage(model, file_name);
  MessageFree(model);
  RengaCall(code);
  RengaCall(RengaGraphCreate(comm, &graph));
  int saved = BeginErrors(&file);
  code = RengaGraphLoad(graph, file_name);
  const char *said = EndErrors(file, saved);
  RengaCall(code);
  RengaCall(RengaGraphGetLoss(graph, &value));
  Expect(value != RENGA_VALUE_NONE && value == RengaGraphFindValue(graph, loss));
  Expect(*what ? strstr(said, what) != NULL : !*said);
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
  RengaCall(CheckLoss(comm, TWO("b"), "a", "the first, \"a\", is trained"));
  RengaCall(CheckLoss(comm, TWO("loss"), "loss", ""));
  remove(file_name);
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
