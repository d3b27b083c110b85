/* Split rules of elementwise operators, of reductions, and of operators that move blocks. */
#include "splitimpl.h"
#include <string.h>

void RengaFormulaAdd_Private(RengaFormula *formula, const char *text)
{
  const size_t used = strlen(formula->text), length = strlen(text);
  if (used + length < sizeof formula->text) memcpy(formula->text + used, text, length + 1);
}

void RengaFormulaAddDims_Private(RengaFormula *formula, int ndim, const bool without[])
{
  char word[RENGA_MAX_DIM + 3] = "";
  for (int d = 0; d < ndim; d++) word[d] = without[d] ? '-' : RENGA_FORMULA_DIMS[d];
  memcpy(word + ndim, ndim ? " " : ". ", ndim ? 2 : 3);
  RengaFormulaAdd_Private(formula, word);
}

/* All inputs and outputs have one shape, and one word: along the axis nothing is alike. */
static RengaErrorCode WriteOffAxis(const RengaOpCall *call, RengaFormula *formula)
{
  bool without[RENGA_MAX_DIM] = {false};
  int axis;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &axis));
  without[axis] = true;
  RengaFormulaAddDims_Private(formula, call->in[0].ndim, without);
  RengaFormulaAdd_Private(formula, "> ");
  RengaFormulaAddDims_Private(formula, call->in[0].ndim, without);
  return RENGA_SUCCESS;
}

/* reduced: dimensions that y keeps as 1, or not at all. sums: lanes may have parts of them. */
static void WriteReduction(const RengaOpCall *call, const bool reduced[], bool sums,
                           RengaFormula *formula)
{
  static const bool none[RENGA_MAX_DIM] = {false};
  const int ndim = call->in[0].ndim;
  char word[RENGA_MAX_DIM + 2] = "";
  int n = 0;
  RengaFormulaAddDims_Private(formula, ndim, sums ? none : reduced);
  for (int d = 0; d < ndim; d++)
    if (!reduced[d])
      word[n++] = RENGA_FORMULA_DIMS[d];
    else if (call->out[0].ndim == ndim)
      word[n++] = '-';
  if (n == 0) word[0] = '.';
  RengaFormulaAdd_Private(formula, "> ");
  RengaFormulaAdd_Private(formula, word);
}

static RengaErrorCode WriteReduce(const RengaOpCall *call, RengaFormula *formula)
{
  bool reduced[RENGA_MAX_DIM];
  RengaCall(RengaOpAxes(call, call->in[0].ndim, reduced));
  WriteReduction(call, reduced, false, formula);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteSumOf(const RengaOpCall *call, RengaFormula *formula)
{
  bool reduced[RENGA_MAX_DIM];
  RengaCall(RengaOpAxes(call, call->in[0].ndim, reduced));
  WriteReduction(call, reduced, true, formula);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteArgExtreme(const RengaOpCall *call, RengaFormula *formula)
{
  bool reduced[RENGA_MAX_DIM] = {false};
  int axis;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &axis));
  reduced[axis] = true;
  WriteReduction(call, reduced, false, formula);
  return RENGA_SUCCESS;
}

/* dy with the reduced dimensions, x -> dx */
static RengaErrorCode WriteProdGrad(const RengaOpCall *call, RengaFormula *formula)
{
  bool reduced[RENGA_MAX_DIM];
  RengaCall(RengaOpAxes(call, call->in[1].ndim, reduced));
  RengaFormulaAddDims_Private(formula, call->in[1].ndim, reduced);
  RengaFormulaAdd_Private(formula, "> ");
  RengaFormulaAddDims_Private(formula, call->in[1].ndim, reduced);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTranspose(const RengaOpCall *call, RengaFormula *formula)
{
  static const bool none[RENGA_MAX_DIM] = {false};
  const int ndim = call->in[0].ndim;
  char word[RENGA_MAX_DIM + 1] = "";
  int count;
  const int64_t *perm = RengaOpCallInts(call, "perm", &count);
  RengaFormulaAddDims_Private(formula, ndim, none);
  for (int d = 0; d < ndim; d++) word[d] = RENGA_FORMULA_DIMS[count ? perm[d] : ndim - 1 - d];
  RengaFormulaAdd_Private(formula, "> ");
  RengaFormulaAdd_Private(formula, ndim ? word : ".");
  return RENGA_SUCCESS;
}

/* x -> y of as many dimensions: those of which nothing is cut, padded, repeated are axes. */
static void WriteKept(const RengaOpCall *call, const bool changed[], RengaFormula *formula)
{
  RengaFormulaAddDims_Private(formula, call->in[0].ndim, changed);
  RengaFormulaAdd_Private(formula, "> ");
  RengaFormulaAddDims_Private(formula, call->in[0].ndim, changed);
}

static RengaErrorCode WriteSlice(const RengaOpCall *call, RengaFormula *formula)
{
  const bool grad = (call->op->flags & RENGA_OP_OUTPUT_GIVEN) != 0;
  const RengaTensorSpec *x = grad ? &call->out[0] : &call->in[0];
  bool changed[RENGA_MAX_DIM];
  RengaOpSlice slice;
  RengaCall(RengaOpGetSlice(call, x, &slice));
  for (int d = 0; d < x->ndim; d++)
    changed[d] = slice.begin[d] != 0 || slice.step[d] != 1 || slice.count[d] != x->dim[d];
  WriteKept(call, changed, formula);
  return RENGA_SUCCESS;
}

static RengaErrorCode WritePad(const RengaOpCall *call, RengaFormula *formula)
{
  bool changed[RENGA_MAX_DIM];
  RengaOpPad pad;
  RengaCall(RengaOpGetPad(call, call->in[0].ndim, &pad));
  for (int d = 0; d < call->in[0].ndim; d++) changed[d] = pad.before[d] != 0 || pad.after[d] != 0;
  WriteKept(call, changed, formula);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteTile(const RengaOpCall *call, RengaFormula *formula)
{
  bool changed[RENGA_MAX_DIM];
  for (int d = 0; d < call->in[0].ndim; d++) changed[d] = call->out[0].dim[d] != call->in[0].dim[d];
  WriteKept(call, changed, formula);
  return RENGA_SUCCESS;
}

/* The word of many: like that of a part, with parts side by side along the axis where all have one
   extent; a lane then has its units of each. */
static void WriteParts(const RengaTensorSpec *part, int axis, bool equal, bool many,
                       RengaFormula *formula)
{
  char sign[2] = "";
  for (int d = 0; d < part->ndim; d++) {
    sign[0] = RENGA_FORMULA_DIMS[d];
    RengaFormulaAdd_Private(formula, d != axis ? sign : !equal ? "-" : many ? "(rx)" : "x");
  }
  RengaFormulaAdd_Private(formula, " ");
}

static RengaErrorCode WriteConcat(const RengaOpCall *call, RengaFormula *formula)
{
  bool equal = true;
  int axis;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &axis));
  for (int i = 1; i < call->n_in; i++)
    equal = equal && call->in[i].dim[axis] == call->in[0].dim[axis];
  formula->groups = call->n_in;
  WriteParts(&call->in[0], axis, equal, false, formula);
  RengaFormulaAdd_Private(formula, "> ");
  WriteParts(&call->in[0], axis, equal, true, formula);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteSplitParts(const RengaOpCall *call, RengaFormula *formula)
{
  bool equal = true;
  int axis;
  RengaCall(RengaOpAxis(call, "axis", call->in[0].ndim, &axis));
  for (int o = 1; o < call->n_out; o++)
    equal = equal && call->out[o].dim[axis] == call->out[0].dim[axis];
  formula->groups = call->n_out;
  WriteParts(&call->in[0], axis, equal, true, formula);
  RengaFormulaAdd_Private(formula, "> ");
  WriteParts(&call->in[0], axis, equal, false, formula);
  return RENGA_SUCCESS;
}

#define GRADIENT(name)                                                                             \
  {                                                                                                \
    name, "* > *", NULL, "0", NULL                                                                 \
  }

/* Elementwise operators that are linear in nothing need no row. */
const RengaSplitRule RengaSplitRulesEach[] = {
    {"Add", "* > *", NULL, "01", NULL},
    {"Sub", "* > *", NULL, "01", NULL},
    {"Mul", "* > *", NULL, "0 1", NULL},
    {"Div", "* > *", NULL, "0", NULL},
    {"Where", "* > *", NULL, "12", NULL},
    {"Neg", "* > *", NULL, "0", NULL},
    {"Identity", "* > *", NULL, "0", NULL},
    {"StopGradient", "* > *", NULL, "0", NULL},
    {"Dropout", "* > *", NULL, "0", NULL},
    {"RandomUniform", "> *", NULL, NULL, NULL},
    {"ConstantOfShape", "> *", NULL, NULL, NULL},
    GRADIENT("ReluGrad"),
    GRADIENT("SigmoidGrad"),
    GRADIENT("TanhGrad"),
    GRADIENT("SqrtGrad"),
    GRADIENT("ReciprocalGrad"),
    GRADIENT("AbsGrad"),
    GRADIENT("ClipGrad"),
    GRADIENT("ErfGrad"),
    GRADIENT("SoftplusGrad"),
    GRADIENT("SoftsignGrad"),
    GRADIENT("GeluGrad"),
    GRADIENT("SwishGrad"),
    GRADIENT("MishGrad"),
    GRADIENT("HardSwishGrad"),
    GRADIENT("HardSigmoidGrad"),
    GRADIENT("LeakyReluGrad"),
    GRADIENT("ThresholdedReluGrad"),
    GRADIENT("ShrinkGrad"),
    GRADIENT("EluGrad"),
    GRADIENT("CeluGrad"),
    GRADIENT("SeluGrad"),
    GRADIENT("SinGrad"),
    GRADIENT("CosGrad"),
    GRADIENT("TanGrad"),
    GRADIENT("AsinGrad"),
    GRADIENT("AcosGrad"),
    GRADIENT("AtanGrad"),
    GRADIENT("SinhGrad"),
    GRADIENT("CoshGrad"),
    GRADIENT("AsinhGrad"),
    GRADIENT("AcoshGrad"),
    GRADIENT("AtanhGrad"),
    {0},
};

const RengaSplitRule RengaSplitRulesMove[] = {
    {"Reshape", NULL, NULL, "0", NULL}, /* by factors: reshape.c */
    {"Expand", "* > *", NULL, "0", NULL},
    {"Transpose", NULL, WriteTranspose, "0", NULL},
    {"Slice", NULL, WriteSlice, "0", NULL},
    {"SliceGrad", NULL, WriteSlice, "0", NULL},
    {"Concat", NULL, WriteConcat, "*", NULL},
    {"Split", NULL, WriteSplitParts, "0", "split"},
    {"Pad", NULL, WritePad, NULL, NULL},
    {"PadGrad", NULL, WritePad, "0", NULL},
    {"Tile", NULL, WriteTile, "0", NULL},
    {"Trilu", "*-- > *--", NULL, "0", NULL},
    {"DepthToSpace", "n--- > n---", NULL, "0", NULL},
    {"SpaceToDepth", "n--- > n---", NULL, "0", NULL},
    {"ReduceSum", NULL, WriteSumOf, "0", NULL},
    {"ReduceMean", NULL, WriteReduce, "0", NULL},
    {"ReduceMax", NULL, WriteReduce, NULL, NULL},
    {"ReduceMin", NULL, WriteReduce, NULL, NULL},
    {"ReduceProd", NULL, WriteReduce, NULL, NULL},
    {"ReduceL1", NULL, WriteSumOf, NULL, NULL},
    {"ReduceL2", NULL, WriteReduce, NULL, NULL},
    {"ReduceSumSquare", NULL, WriteSumOf, NULL, NULL},
    {"ReduceLogSum", NULL, WriteReduce, NULL, NULL},
    {"ReduceLogSumExp", NULL, WriteReduce, NULL, NULL},
    {"ReduceProdGrad", NULL, WriteProdGrad, "0", NULL},
    {"ArgMax", NULL, WriteArgExtreme, NULL, NULL},
    {"ArgMin", NULL, WriteArgExtreme, NULL, NULL},
    {"CumSum", NULL, WriteOffAxis, "0", NULL},
    {"CumProd", NULL, WriteOffAxis, NULL, NULL},
    {"TopK", NULL, WriteOffAxis, NULL, NULL},
    {"Hardmax", NULL, WriteOffAxis, NULL, NULL},
    {"Softmax", NULL, WriteOffAxis, NULL, NULL},
    {"LogSoftmax", NULL, WriteOffAxis, NULL, NULL},
    {"SoftmaxGrad", NULL, WriteOffAxis, "0", NULL},
    {"LogSoftmaxGrad", NULL, WriteOffAxis, "0", NULL},
    {"LpNormalization", NULL, WriteOffAxis, NULL, NULL},
    {0},
};
