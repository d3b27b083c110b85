/* TEST ranks: 1 */
/* Nodes of every operator with too few or too many inputs, outputs or attributes: each is an error
   of the file that says which, before anything of the node is read. */
#include "../check.h"
#include "rengacomm.h"
#include "renga/private/graph.h"
#include "text.h"
#include <stdio.h>

enum { OPSET = 24 };
static const char file_name[] = "onnx-arity.onnx";
static const char operators[] =
    "Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention "
    "AveragePool BatchNormalization Bernoulli BitShift BitwiseAnd BitwiseNot BitwiseOr "
    "BitwiseXor Cast CastLike Ceil Celu Clip Col2Im Compress Concat ConcatFromSequence "
    "Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DFT DepthToSpace Det Div "
    "Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements "
    "GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample "
    "GroupNormalization HardSigmoid HardSwish Hardmax Identity If InstanceNormalization "
    "IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop "
    "LpNormalization LpPool MatMul Max MaxPool MaxUnpool Mean MeanVarianceNormalization Min "
    "Mish Mod Mul Neg NegativeLogLikelihoodLoss NonZero Not OneHot Or PRelu Pad Pow "
    "RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike "
    "Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
    "ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence "
    "RoiAlign RotaryEmbedding Round STFT Scan Scatter ScatterElements ScatterND Selu "
    "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
    "Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus "
    "Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze Sub Sum Swish Tan Tanh "
    "ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor";

/* n_in: how many inputs in a first trial, of which the first `absent` are not there. A trial with
   one input more follows where the message is another, up to 6. but: operators excepted. */
static const struct {
  int n_in, absent, trials;
  const char *outputs, *what, *but;
} cases[] = {
    {0, 0, 1, "y", "input 0 is missing",
     " Constant SequenceEmpty RandomUniform RandomNormal Loop "},
    {1, 1, 1, "y", "input 0 is missing",
     " Constant SequenceEmpty RandomUniform RandomNormal Loop "},
    {9, 0, 1, "y", " at most are possible",
     " Concat Einsum Loop Max Mean Min Scan SequenceConstruct Sum "},
    {0, 0, 6, "", "output 0 is missing", " RNN GRU LSTM "},
    {0, 0, 6, "y z z1 z2 z3 z4", " outputs; ", " If Loop Scan Split "},
    {0, 0, 6, "y frobnicate=1", "no attribute frobnicate of it", " TopK "},
    {2, 0, 1, "y z frobnicate=1", "no attribute frobnicate of it", NULL}, /* TopK alone */
};
enum { N_CASES = sizeof cases / sizeof *cases };

static RengaErrorCode ReadText(RengaComm comm, const char *text)
{
  RengaGraph graph;
  Message *model = NewModelOf(OPSET, text);
  RengaErrorCode code = WriteMessage(model, file_name);
  MessageFree(model);
  RengaCall(code);
  RengaCall(RengaGraphCreate(comm, &graph));
  code = RengaGraphReadOnnx(graph, file_name);
  RengaCall(RengaGraphDestroy(&graph));
  return code;
}

static RengaErrorCode CheckCase(RengaComm comm, const char *op, int row)
{
  bool found = false;
  char text[256];
  for (int trial = 0; trial < cases[row].trials && !found; trial++) {
    FILE *file;
    int length = snprintf(text, sizeof text, "in x f32 N 4; %s", op);
    for (int i = 0; i < cases[row].n_in + trial; i++)
      length += snprintf(text + length, sizeof text - (size_t)length,
                         i < cases[row].absent ? " -" : " x");
    snprintf(text + length, sizeof text - (size_t)length, " -> %s; out x", cases[row].outputs);
    int saved = BeginErrors(&file);
    RengaErrorCode code = ReadText(comm, text);
    const char *said = EndErrors(file, saved);
    found = code == RENGA_ERR_FILE_FORMAT && strstr(said, cases[row].what);
  }
  RengaCheck(found, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "\"%s\" is not refused: %s", text,
             cases[row].what);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOperator(RengaComm comm, const char *op)
{
  char word[64];
  snprintf(word, sizeof word, " %s ", op);
  for (int i = 0; i < N_CASES; i++)
    if (cases[i].but ? !strstr(cases[i].but, word) : strcmp(op, "TopK") == 0)
      RengaCall(CheckCase(comm, op, i));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  char list[sizeof operators], *rest = NULL;
  strcpy(list, operators);
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (char *op = strtok_r(list, " ", &rest); op; op = strtok_r(NULL, " ", &rest))
    RengaCall(CheckOperator(comm, op));
  remove(file_name);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)
