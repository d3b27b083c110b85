/* The operators of ONNX that Renga reads. Opsets 11 to 24 are what is promised; `since` is the
   first whose form is understood, as some operators have not changed for long.

   Several operators become a few nodes of others. Einsum is products of matrices; Resize a Gather
   (nearest) or a product with constant weights along each axis, then a Where outside of a crop; DFT
   and STFT products with constant matrices of cosines and sines; GridSample a GatherND of all taps
   and a product with their weights; Col2Im a ConvTranspose whose kernels have a single one. Random
   numbers of all kinds are made of RandomUniform. */
#include "onnx.h"
#include <string.h>

#define ROW(op, since, canonical, convert)                                                         \
  {                                                                                                \
    op, since, canonical, RengaOnnxConvert##convert                                                \
  }
#define SAME(op, since) ROW(op, since, op, Same)

static const RengaOnnxRow rows[] = {
    SAME("Abs", 6),
    SAME("Acos", 7),
    SAME("Acosh", 9),
    SAME("Add", 7),
    SAME("And", 7),
    SAME("ArgMax", 1),
    SAME("ArgMin", 1),
    SAME("Asin", 7),
    SAME("Asinh", 9),
    SAME("Atan", 7),
    SAME("Atanh", 9),
    SAME("BitShift", 11),
    SAME("BitwiseAnd", 18),
    SAME("BitwiseNot", 18),
    SAME("BitwiseOr", 18),
    SAME("BitwiseXor", 18),
    SAME("Ceil", 6),
    SAME("Celu", 12),
    SAME("Concat", 4),
    SAME("Cos", 7),
    SAME("Cosh", 9),
    SAME("DepthToSpace", 1),
    SAME("Det", 11),
    SAME("Div", 7),
    SAME("Elu", 6),
    SAME("Equal", 7),
    SAME("Erf", 9),
    SAME("Exp", 6),
    SAME("Floor", 6),
    SAME("GatherElements", 11),
    SAME("Gelu", 20),
    SAME("Greater", 7),
    SAME("GreaterOrEqual", 12),
    SAME("HardSigmoid", 6),
    SAME("HardSwish", 14),
    SAME("InstanceNormalization", 6),
    SAME("IsInf", 10),
    SAME("IsNaN", 9),
    SAME("LayerNormalization", 17),
    SAME("LeakyRelu", 6),
    SAME("Less", 7),
    SAME("LessOrEqual", 12),
    SAME("Log", 6),
    SAME("LpNormalization", 1),
    SAME("LRN", 1),
    SAME("Mish", 18),
    SAME("Mod", 10),
    SAME("Mul", 7),
    SAME("Neg", 6),
    SAME("Not", 1),
    SAME("Or", 7),
    SAME("Pow", 7),
    SAME("PRelu", 7),
    SAME("Reciprocal", 6),
    SAME("Relu", 6),
    SAME("Round", 11),
    ROW("ScatterElements", 11, "ScatterElements", Scatter),
    ROW("ScatterND", 11, "ScatterND", ScatterND),
    SAME("Selu", 6),
    SAME("Shrink", 9),
    SAME("Sigmoid", 6),
    SAME("Sign", 9),
    SAME("Sin", 7),
    SAME("Sinh", 9),
    SAME("Softplus", 1),
    SAME("Softsign", 1),
    SAME("SpaceToDepth", 1),
    SAME("Sqrt", 6),
    SAME("Sub", 7),
    SAME("Swish", 24),
    SAME("Tan", 7),
    SAME("Tanh", 6),
    SAME("ThresholdedRelu", 10),
    SAME("Where", 9),
    SAME("Xor", 7),
    ROW("Min", 6, "Min", Chain),
    ROW("Max", 6, "Max", Chain),
    ROW("Sum", 6, "Add", Chain),
    ROW("Mean", 6, "Add Div", Mean),
    ROW("Cast", 6, "Cast", Cast),
    ROW("CastLike", 15, "Cast", CastLike),
    ROW("Clip", 6, "Clip Min Max", Clip),
    ROW("CumSum", 11, "CumSum", CumSum),
    ROW("Trilu", 14, "Trilu", Trilu),
    ROW("TopK", 1, "TopK", TopK),
    ROW("OneHot", 9, "OneHot", OneHot),
    ROW("Identity", 1, "", Identity),
    ROW("Constant", 1, "", Constant),
    ROW("ConstantOfShape", 9, "ConstantOfShape", ConstantOfShape),
    ROW("EyeLike", 9, "EyeLike", EyeLike),
    ROW("Shape", 1, "", Shape),
    ROW("Size", 1, "", Size),
    ROW("Range", 11, "Range", Range),
    ROW("NonZero", 9, "", NonZero),
    ROW("If", 1, "", If),
    ROW("Reshape", 5, "Reshape", Reshape),
    ROW("Flatten", 1, "Reshape", Flatten),
    ROW("Squeeze", 1, "Reshape", Squeeze),
    ROW("Unsqueeze", 1, "Reshape", Unsqueeze),
    ROW("Expand", 8, "Expand", Expand),
    ROW("Transpose", 1, "Transpose", Transpose),
    ROW("Slice", 1, "Slice", Slice),
    ROW("Split", 2, "Split", Split),
    ROW("SplitToSequence", 11, "Split Reshape", SplitToSequence),
    ROW("SequenceEmpty", 11, "", SequenceConstruct),
    ROW("SequenceConstruct", 11, "", SequenceConstruct),
    ROW("SequenceAt", 11, "", SequenceAt),
    ROW("SequenceInsert", 11, "", SequenceInsert),
    ROW("SequenceErase", 11, "", SequenceErase),
    ROW("SequenceLength", 11, "", SequenceLength),
    ROW("ConcatFromSequence", 11, "Concat Reshape", ConcatFromSequence),
    ROW("Pad", 2, "Pad", Pad),
    ROW("Tile", 6, "Tile Reshape Expand", Tile),
    ROW("MatMul", 1, "MatMul", MatMul),
    ROW("Gather", 1, "Gather GatherND Reshape Expand Transpose", Gather),
    ROW("GatherND", 11, "GatherND Reshape Expand Transpose Concat", GatherND),
    ROW("Gemm", 7, "Linear MatMul Mul Add", Gemm),
    ROW("Conv", 1, "Conv", Window),
    ROW("ConvTranspose", 1, "ConvTranspose", Window),
    ROW("MaxPool", 1, "MaxPool", Pool),
    ROW("AveragePool", 1, "AveragePool", Pool),
    ROW("GlobalAveragePool", 1, "ReduceMean", GlobalAveragePool),
    ROW("GlobalMaxPool", 1, "ReduceMax", GlobalMaxPool),
    ROW("ReduceSum", 1, "ReduceSum", Reduce),
    ROW("ReduceProd", 1, "ReduceProd", Reduce),
    ROW("ReduceMax", 1, "ReduceMax", Reduce),
    ROW("ReduceMin", 1, "ReduceMin", Reduce),
    ROW("ReduceL1", 1, "ReduceL1 Abs", Reduce),
    ROW("ReduceL2", 1, "ReduceL2 Abs", Reduce),
    ROW("ReduceSumSquare", 1, "ReduceSumSquare Mul", Reduce),
    ROW("ReduceLogSum", 1, "ReduceLogSum Log", Reduce),
    ROW("ReduceLogSumExp", 1, "ReduceLogSumExp", Reduce),
    ROW("ReduceMean", 1, "ReduceMean", Reduce),
    ROW("Softmax", 1, "Softmax", Softmax),
    ROW("LogSoftmax", 1, "LogSoftmax", Softmax),
    ROW("Hardmax", 1, "Hardmax", Softmax),
    ROW("GroupNormalization", 18, "GroupNormalization Expand", GroupNormalization),
    ROW("BatchNormalization", 7, "BatchNormalization Mul Add", BatchNormalization),
    ROW("MeanVarianceNormalization", 9, "ReduceMean Mul Sub Sqrt Add Div",
        MeanVarianceNormalization),
    SAME("RMSNormalization", 23),
    ROW("Attention", 23,
        "Attention Transpose Reshape Expand Concat Where Pad Trilu ConstantOfShape MatMul Tanh "
        "Softmax ReduceMax IsInf",
        Attention),
    ROW("RotaryEmbedding", 23, "Transpose Reshape Gather Slice Mul Add Sub Concat",
        RotaryEmbedding),
    ROW("Einsum", 12, "Transpose Reshape MatMul Mul ReduceSum EyeLike", Einsum),
    ROW("Resize", 10, "Gather MatMul Transpose Where", Resize),
    ROW("Upsample", 7, "Gather MatMul Transpose", Resize),
    ROW("Scatter", 9, "ScatterElements", Scatter),
    ROW("RNN", 7, "Linear RNNCells Add Slice Reshape Concat Transpose ConstantOfShape", Recurrent),
    ROW("GRU", 7, "Linear GRUCells Slice Reshape Concat Transpose ConstantOfShape", Recurrent),
    ROW("LSTM", 7, "Linear LSTMCells Add Slice Reshape Concat Transpose ConstantOfShape",
        Recurrent),
    ROW("DFT", 17, "MatMul Transpose Reshape", DFT),
    ROW("STFT", 17, "Gather Mul MatMul Reshape", STFT),
    ROW("AffineGrid", 20, "MatMul Transpose Reshape", AffineGrid),
    ROW("GridSample", 16,
        "Slice Mul Add Sub Div Abs Floor Round Clip GreaterOrEqual LessOrEqual And Cast Concat "
        "MatMul "
        "GatherND Transpose Reshape",
        GridSample),
    ROW("RoiAlign", 10, "RoiAlign", RoiAlign),
    ROW("Col2Im", 18, "ConvTranspose Reshape", Col2Im),
    ROW("MaxUnpool", 9, "ScatterElements Mod ConstantOfShape Pad Reshape", MaxUnpool),
    ROW("LpPool", 2, "Abs Pow AveragePool Mul", LpPool),
    ROW("Compress", 9, "Gather Reshape", Compress),
    ROW("ReverseSequence", 10, "Less Where Sub GatherND Transpose Reshape", ReverseSequence),
    ROW("RandomUniform", 1, "RandomUniform Mul Add Cast", Random),
    ROW("RandomUniformLike", 1, "RandomUniform Mul Add Cast", Random),
    ROW("RandomNormal", 1, "RandomUniform Mul Add Neg Log Sqrt Cos Cast", Random),
    ROW("RandomNormalLike", 1, "RandomUniform Mul Add Neg Log Sqrt Cos Cast", Random),
    ROW("Bernoulli", 15, "RandomUniform Less Cast", Bernoulli),
    ROW("Loop", 1, "Reshape Concat", Loop),
    ROW("Scan", 9, "Gather Reshape Concat", Scan),
    ROW("Dropout", 7, "Dropout ConstantOfShape", Dropout),
    ROW("SoftmaxCrossEntropyLoss", 12,
        "CrossEntropy CrossEntropyCount BatchSum Div LogSoftmax Equal Where ReduceSum",
        SoftmaxCrossEntropyLoss),
    ROW("NegativeLogLikelihoodLoss", 12,
        "LogLikelihood CrossEntropyCount BatchSum Div Equal Where ReduceSum",
        NegativeLogLikelihoodLoss),
};

const RengaOnnxRow *RengaOnnxFindRow(const char *op)
{
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].op, op) == 0) return &rows[i];
  return NULL;
}

/* Are all operators that the conversion may make in the table of operators? */
bool RengaOnnxRowIsBuilt(const RengaOnnxRow *row)
{
  char name[64];
  for (const char *at = row->canonical; *at;) {
    size_t length = strcspn(at, " ");
    if (length >= sizeof name) return false;
    memcpy(name, at, length);
    name[length] = 0;
    if (!RengaOperatorFind(name)) return false;
    at += length + strspn(at + length, " ");
  }
  return true;
}
