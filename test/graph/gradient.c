/* TEST ranks: 1 */
/* Every rule of reverse mode against finite differences, in float64 on the ref device; and every
   floating input of every operator has one, or is refused by name. */
#include "../check.h"
#include "execute.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
   inputs: "f2,3 c4@1:2 i5<7 b2,3": parameter, constant, integers below 7, booleans; numbers are
   drawn from @low:high, -1:1 where not given. given: shape of output 0 where the operator takes
   it from the node. outputs: how many of its outputs the loss reads.
*/
typedef struct {
  const char *op, *attributes, *inputs, *given;
  int n_out;
} Case;

static const Case cases[] = {
    {"Identity", "", "f2,3", NULL, 1},
    {"Neg", "", "f2,3", NULL, 1},
    {"Exp", "", "f2,3", NULL, 1},
    {"Log", "", "f2,3@0.2:3", NULL, 1},
    {"Cast", "to:int=1", "f5", NULL, 1},
    {"Relu", "", "f4,5", NULL, 1},
    {"Sigmoid", "", "f2,3@-3:3", NULL, 1},
    {"Tanh", "", "f2,3@-2:2", NULL, 1},
    {"Sqrt", "", "f2,3@0.2:3", NULL, 1},
    {"Reciprocal", "", "f2,3@0.3:3", NULL, 1},
    {"Abs", "", "f4,5", NULL, 1},
    {"Clip", "min:real=-0.4 max:real=0.5", "f4,5", NULL, 1},
    {"Erf", "", "f2,3@-2:2", NULL, 1},
    {"Softplus", "", "f2,3@-4:4", NULL, 1},
    {"Softsign", "", "f2,3@-3:3", NULL, 1},
    {"Gelu", "approximate:string=none", "f2,7@-3:3", NULL, 1},
    {"Gelu", "approximate:string=tanh", "f2,7@-3:3", NULL, 1},
    {"Swish", "alpha:real=1.3", "f2,7@-3:3", NULL, 1},
    {"Mish", "", "f2,7@-3:3", NULL, 1},
    {"HardSwish", "", "f4,7@-4:4", NULL, 1},
    {"HardSigmoid", "alpha:real=0.3 beta:real=0.4", "f4,7@-4:4", NULL, 1},
    {"LeakyRelu", "alpha:real=0.2", "f4,7", NULL, 1},
    {"ThresholdedRelu", "alpha:real=0.3", "f4,7", NULL, 1},
    {"Shrink", "bias:real=0.1 lambd:real=0.3", "f4,7", NULL, 1},
    {"Elu", "alpha:real=0.7", "f4,7", NULL, 1},
    {"Celu", "alpha:real=0.7", "f4,7", NULL, 1},
    {"Selu", "", "f4,7", NULL, 1},
    {"Sin", "", "f6", NULL, 1},
    {"Cos", "", "f6", NULL, 1},
    {"Tan", "", "f6", NULL, 1},
    {"Asin", "", "f6@-0.8:0.8", NULL, 1},
    {"Acos", "", "f6@-0.8:0.8", NULL, 1},
    {"Atan", "", "f6", NULL, 1},
    {"Sinh", "", "f6", NULL, 1},
    {"Cosh", "", "f6", NULL, 1},
    {"Asinh", "", "f6", NULL, 1},
    {"Acosh", "", "f6@1.2:3", NULL, 1},
    {"Atanh", "", "f6@-0.8:0.8", NULL, 1},
    {"Add", "", "f2,3 f3", NULL, 1},
    {"Add", "", "f4,1,3 f2,1", NULL, 1},
    {"Add", "", "f f2,3", NULL, 1},
    {"Sub", "", "f2,3 f2,1", NULL, 1},
    {"Mul", "", "f2,3 f1,3", NULL, 1},
    {"Mul", "", "f3 f2,1,3", NULL, 1},
    {"Div", "", "f2,3 f3@0.5:2", NULL, 1},
    {"Div", "", "f3 f2,3@0.5:2", NULL, 1},
    {"Pow", "", "f2,3@0.5:2 f3", NULL, 1},
    {"Pow", "", "f2,3 i<4@2:3", NULL, 1},
    {"Max", "", "f4,5 f5", NULL, 1},
    {"Min", "", "f5 f4,5", NULL, 1},
    {"Where", "", "b4,5 f4,5 f5", NULL, 1},
    {"Where", "", "b5 f f4,1", NULL, 1},
    {"PRelu", "", "f4,5 f5", NULL, 1},
    {"ReduceSum", "axes:ints=1 keepdims:int=0", "f2,3,4", NULL, 1},
    {"ReduceSum", "", "f2,3", NULL, 1},
    {"ReduceSum", "noop_with_empty_axes:int=1", "f2,3", NULL, 1},
    {"ReduceMean", "axes:ints=-1,0 keepdims:int=1", "f2,3,4", NULL, 1},
    {"ReduceMean", "axes:ints=2,3 keepdims:int=0", "f2,3,4,5", NULL, 1},
    {"ReduceMax", "axes:ints=1 keepdims:int=0", "f3,5", NULL, 1},
    {"ReduceMin", "axes:ints=0 keepdims:int=1", "f3,5", NULL, 1},
    {"ReduceProd", "axes:ints=1 keepdims:int=0", "f3,4", NULL, 1},
    {"ReduceL1", "axes:ints=1 keepdims:int=0", "f3,4", NULL, 1},
    {"ReduceL2", "axes:ints=0 keepdims:int=1", "f3,4", NULL, 1},
    {"ReduceSumSquare", "axes:ints=1 keepdims:int=0", "f3,4", NULL, 1},
    {"ReduceLogSum", "axes:ints=1 keepdims:int=0", "f3,4@0.3:2", NULL, 1},
    {"ReduceLogSumExp", "axes:ints=1 keepdims:int=0", "f3,4@-2:2", NULL, 1},
    {"CumSum", "axis:int=1", "f3,4", NULL, 1},
    {"CumSum", "axis:int=0 exclusive:int=1 reverse:int=1", "f3,4", NULL, 1},
    {"TopK", "k:int=2 axis:int=1", "f3,5", NULL, 1},
    {"Reshape", "", "f2,6", "3,4", 1},
    {"Expand", "", "f3,1", "2,3,4", 1},
    {"Transpose", "perm:ints=2,0,1", "f2,3,4", NULL, 1},
    {"Transpose", "", "f2,3,4", NULL, 1},
    {"Slice", "starts:ints=1,-1 ends:ints=4,-9 axes:ints=0,1 steps:ints=2,-2", "f5,6", NULL, 1},
    {"Concat", "axis:int=1", "f2,3 f2,1 f2,4", NULL, 1},
    {"Split", "axis:int=1 split:ints=2,3", "f2,5", NULL, 2},
    {"Split", "axis:int=-1", "f2,6", NULL, 3},
    {"Pad", "pads:ints=1,0,2,1", "f2,3", NULL, 1},
    {"Pad", "pads:ints=1,2,1,1 mode:string=reflect", "f3,4", NULL, 1},
    {"Pad", "pads:ints=1,2,0,1 mode:string=edge", "f3,4", NULL, 1},
    {"Tile", "repeats:ints=2,1,3", "f2,3,2", NULL, 1},
    {"Trilu", "upper:int=0 k:int=1", "f2,4,4", NULL, 1},
    {"DepthToSpace", "blocksize:int=2", "f1,8,2,3", NULL, 1},
    {"DepthToSpace", "blocksize:int=2 mode:string=CRD", "f1,8,2,3", NULL, 1},
    {"SpaceToDepth", "blocksize:int=2", "f1,2,4,6", NULL, 1},
    {"Gather", "axis:int=0", "f5,3 i2,4<5", NULL, 1},
    {"Gather", "axis:int=1", "f2,5,3 i4<5", NULL, 1},
    {"Gather", "padding:int=7", "f5,3 i4<5", NULL, 1},
    {"GatherElements", "axis:int=1", "f3,5 i3,4<5", NULL, 1},
    {"GatherND", "", "f3,4,2 i5,2<3", NULL, 1},
    {"ScatterElements", "axis:int=0 reduction:string=add", "f5,3 i2,3<5 f2,3", NULL, 1},
    {"ScatterND", "reduction:string=add", "f5,3 i4,1<5 f4,3", NULL, 1},
    {"ScatterND", "", "f5,3 i1,1<5 f1,3", NULL, 1},
    {"MatMul", "", "f2,3 f3,4", NULL, 1},
    {"MatMul", "transA:int=1 transB:int=1 alpha:real=0.5", "f2,3,4 f2,5,3", NULL, 1},
    {"MatMul", "transB:int=1", "f2,1,4,3 f3,5,3", NULL, 1},
    {"MatMul", "transA:int=1", "f3,4 f2,3,5", NULL, 1},
    {"MatMul", "", "f3 f2,3,4", NULL, 1},
    {"MatMul", "", "f2,4,3 f3", NULL, 1},
    {"MatMul", "", "f3 f3", NULL, 1},
    {"Det", "", "f3,4,4", NULL, 1},
    {"Det", "", "f1,1", NULL, 1},
    {"Det", "", "f2,3,2,2", NULL, 1},
    {"Linear", "", "f2,3,4 f4,5 f5", NULL, 1},
    {"Linear", "transB:int=1", "f3,4 f5,4", NULL, 1},
    {"Linear", "transB:int=1", "f4 f5,4 f5", NULL, 1},
    {"Conv", "strides:ints=2,1 pads:ints=1,0,1,1", "f2,3,5,4 f4,3,3,2 f4", NULL, 1},
    {"Conv", "group:int=2 dilations:ints=2", "f2,4,7 f6,2,3", NULL, 1},
    {"ConvTranspose", "strides:ints=2,2 pads:ints=1,0,0,1", "f1,3,3,4 f3,2,3,2 f2", NULL, 1},
    {"ConvTranspose", "group:int=2 strides:ints=2 output_padding:ints=1", "f2,4,3 f4,2,3", NULL, 1},
    {"RoiAlign", "output_height:int=3 output_width:int=2 sampling_ratio:int=2",
     "f2,2,5,6 c3,4@0:6 i3<2", NULL, 1},
    {"RoiAlign", "output_height:int=2 output_width:int=2 half_pixel:int=0 spatial_scale:real=0.5",
     "f2,1,4,5 c4,4@-3:12 i4<2", NULL, 1},
    {"RoiAlign", "output_height:int=2 output_width:int=2 sampling_ratio:int=1 mode:string=max",
     "f1,2,4,5 c2,4@0:5 i2<1", NULL, 1},
    {"MaxPool", "kernel_shape:ints=3,3 strides:ints=2,2 pads:ints=1,1,1,1", "f2,2,5,6", NULL, 1},
    {"AveragePool", "kernel_shape:ints=2,3 strides:ints=2,1 pads:ints=1,1,0,1", "f1,2,5,4", NULL,
     1},
    {"AveragePool", "kernel_shape:ints=3 count_include_pad:int=1 pads:ints=1,1", "f1,2,5", NULL, 1},
    {"LayerNormalization", "axis:int=-1 epsilon:real=1e-3", "f2,3,5 f5 f5", NULL, 1},
    {"LayerNormalization", "axis:int=1", "f2,3,2 f3,2", NULL, 1},
    {"RMSNormalization", "axis:int=-1 epsilon:real=1e-3", "f2,3,5 f5", NULL, 1},
    {"GroupNormalization", "num_groups:int=2", "f2,4,3 f4 f4", NULL, 1},
    {"InstanceNormalization", "", "f2,3,5 f3 f3", NULL, 1},
    {"BatchNormalization", "", "f3,2,4 f2 f2 c2 c2@0.5:2", NULL, 1},
    {"BatchNormalization", "training:int=0", "f3,2,4 f2 f2 c2 c2@0.5:2", NULL, 1},
    {"Softmax", "axis:int=1", "f2,4,3@-2:2", NULL, 1},
    {"LogSoftmax", "axis:int=-1", "f2,5@-2:2", NULL, 1},
    {"LRN", "size:int=3 alpha:real=0.5", "f2,5,3", NULL, 1},
    {"LpNormalization", "axis:int=1 p:int=2", "f3,4", NULL, 1},
    {"LpNormalization", "axis:int=0 p:int=1", "f3,4", NULL, 1},
    {"Dropout", "ratio:real=0.4", "f6,5", NULL, 1},
    {"Attention", "", "f2,3,4,5 f2,3,4,5 f2,3,4,5", NULL, 1},
    {"Attention", "scale:real=0.7 causal:int=1 ratio:real=0.3", "f2,2,5,3 f2,2,5,3 f2,2,5,3", NULL,
     1},
    {"Attention", "", "f2,2,3,4 f2,2,5,4 f2,2,5,6 f2,1,1,5", NULL, 1},
    {"CrossEntropy", "axis:int=-1 ignore_index:int=2", "f6,4@-2:2 i6<4", NULL, 1},
    {"CrossEntropy", "axis:int=1", "f2,4,3@-2:2 i2,3<4 c4@0.5:2", NULL, 1},
    {"RNNCells", "", "f4,2,3 f3,3 f2,3", NULL, 1},
    {"RNNCells", "activation:string=Relu reverse:int=1", "f4,2,3 f3,3 f2,3", NULL, 1},
    {"LSTMCells", "", "f4,2,12 f12,3 f2,3 f2,3", NULL, 2},
    {"LSTMCells", "reverse:int=1", "f3,2,8 f8,2 f2,2 f2,2", NULL, 1},
    {"GRUCells", "", "f4,2,9 f9,3 f9 f2,3", NULL, 1},
    {"GRUCells", "linear_before_reset:int=1 reverse:int=1", "f4,2,9 f9,3 f9 f2,3", NULL, 1},
    {"LogLikelihood", "axis:int=1", "f5,4 i5<4 c4@0.5:2", NULL, 1},
};
enum { N_CASES = sizeof cases / sizeof cases[0], MAX_INPUTS = 8, MAX_OUTPUTS = 4 };

/* No rule for their floating inputs. */
static const Case refused[] = {
    {"Mod", "fmod:int=1", "f4 c4@0.5:2", NULL, 1},
    {"Mod", "fmod:int=1", "c4 f4@0.5:2", NULL, 1},
    {"CumProd", "axis:int=0", "f3,2", NULL, 1},
    {"OneHot", "depth:int=3", "i4<3 f2", NULL, 1},
    {"OneHot", "depth:int=3", "f4@0:3 c2", NULL, 1},
    {"BatchSum", "", "f", NULL, 1},
    {"WholeBatch", "", "f3", "3", 1},
};
enum { N_REFUSED = sizeof refused / sizeof refused[0] };
/* Constant between their steps: the gradient is zero. */
static const char *const constant_pieces[] = {"Sign",  "Floor",   "Ceil",
                                              "Round", "Hardmax", "StopGradient"};
enum { N_CONSTANT = sizeof constant_pieces / sizeof constant_pieces[0] };

typedef struct {
  char kind;
  int64_t below;
  double low, high;
  RengaTensorSpec spec;
  RengaValue value;
  char name[24];
} Input;

static void ReadDimensions(const char **text, RengaTensorSpec *spec)
{
  spec->ndim = 0;
  while (isdigit((unsigned char)**text)) {
    char *end;
    spec->dim[spec->ndim++] = strtoll(*text, &end, 10);
    *text = end + (*end == ',');
  }
}

static int ReadInputs(const char *text, Input input[])
{
  int count = 0;
  while (*text) {
    Input *at = &input[count];
    *at = (Input){.kind = *text++, .low = -1, .high = 1};
    at->spec.type = at->kind == 'i' ? RENGA_INT64 : at->kind == 'b' ? RENGA_BOOL : RENGA_FLOAT64;
    ReadDimensions(&text, &at->spec);
    char *end = NULL;
    if (*text == '<') at->below = strtoll(text + 1, &end, 10);
    if (end) text = end;
    if (*text == '@') {
      at->low = strtod(text + 1, &end);
      at->high = strtod(end + 1, &end);
      text = end;
    }
    snprintf(at->name, sizeof at->name, "input%d", count++);
    text += strspn(text, " ");
  }
  return count;
}

static RengaErrorCode ReadAttribute(char *text, RengaAttributes *attributes)
{
  char *kind = strchr(text, ':'), *value = strchr(text, '=');
  *kind++ = *value++ = '\0';
  if (strcmp(kind, "int") == 0)
    RengaCall(RengaAttributesSetInt(attributes, text, strtoll(value, NULL, 10)));
  if (strcmp(kind, "real") == 0)
    RengaCall(RengaAttributesSetReal(attributes, text, strtod(value, NULL)));
  if (strcmp(kind, "string") == 0) RengaCall(RengaAttributesSetString(attributes, text, value));
  if (strcmp(kind, "ints") == 0) {
    int64_t ints[2 * RENGA_MAX_DIM];
    int count = 0;
    for (char *end; *value; value = end + (*end == ',')) ints[count++] = strtoll(value, &end, 10);
    RengaCall(RengaAttributesSetInts(attributes, text, count, ints));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadAttributes(const char *text, RengaAttributes *attributes)
{
  char copy[256], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    RengaCall(ReadAttribute(word, attributes));
  return RENGA_SUCCESS;
}

static double Draw(uint64_t *state, double low, double high)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (double)(*state >> 11) / 9007199254740992.0;
}

static RengaErrorCode AddConstant(RengaGraph graph, Input *input, uint64_t *state)
{
  int64_t count = RengaTensorSpecCount(&input->spec);
  char *data = NULL;
  RengaCall(RengaMalloc(count * 8 + 8, &data));
  for (int64_t i = 0; i < count; i++) {
    bool ranged = input->kind == 'i' && input->low >= 0;
    double number = Draw(state, input->kind == 'i' && !ranged ? 0 : input->low,
                         input->kind == 'i' && !ranged ? (double)input->below : input->high);
    if (input->kind == 'i')
      ((int64_t *)(void *)data)[i] = (int64_t)number;
    else if (input->kind == 'b')
      data[i] = number > 0;
    else
      ((double *)(void *)data)[i] = number;
  }
  RengaErrorCode code =
      RengaGraphAddConstant(graph, input->name, &input->spec, data, &input->value);
  RengaFree(&data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* loss = sum of c * y for all outputs the loss reads */
static RengaErrorCode AddLoss(RengaGraph graph, int n_out, const RengaValue out[], uint64_t *state)
{
  RengaValue loss = RENGA_VALUE_NONE;
  for (int i = 0; i < n_out; i++) {
    Input weight = {.kind = 'c', .low = -1, .high = 1};
    RengaValue y = out[i];
    RengaAttributes attributes = {0};
    snprintf(weight.name, sizeof weight.name, "weight%d", i);
    weight.spec = RengaGraphGetValue(graph, y)->spec;
    if (weight.spec.type != RENGA_FLOAT64) return RENGA_SUCCESS;
    RengaCall(AddConstant(graph, &weight, state));
    RengaValue in[2] = {y, weight.value};
    RengaCall(RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, in, 1, NULL, &y));
    RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
    RengaCall(
        RengaGraphAddNode(graph, "ReduceSum", NULL, &attributes, 1, &(RengaValue){y}, 1, NULL, &y));
    RengaCall(RengaAttributesFree(&attributes));
    if (loss < 0)
      loss = y;
    else
      RengaCall(RengaGraphAddAdd(graph, loss, y, &loss));
  }
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode Build(RengaGraph graph, const Case *test, int n_in, Input input[],
                            uint64_t *state)
{
  RengaValue in[MAX_INPUTS], out[MAX_OUTPUTS];
  RengaAttributes attributes = {0};
  RengaTensorSpec given = {.type = RENGA_FLOAT64};
  for (int i = 0; i < n_in; i++) {
    if (input[i].kind == 'f')
      RengaCall(
          RengaGraphAddParameter(graph, input[i].name, &input[i].spec, NULL, &input[i].value));
    else
      RengaCall(AddConstant(graph, &input[i], state));
    in[i] = input[i].value;
  }
  const char *text = test->given;
  if (text) ReadDimensions(&text, &given);
  RengaCall(ReadAttributes(test->attributes, &attributes));
  int least = RengaOperatorFind(test->op)->min_out;
  RengaCall(RengaGraphAddNode(graph, test->op, "tested", &attributes, n_in, in,
                              test->n_out > least ? test->n_out : least, text ? &given : NULL,
                              out));
  RengaCall(RengaAttributesFree(&attributes));
  RengaCall(AddLoss(graph, test->n_out, out, state));
  return RENGA_SUCCESS;
}

static RengaErrorCode LossAt(Execute *execute, RengaValue parameter, int64_t element, double number,
                             double *loss)
{
  RengaValue value;
  RengaCall(RengaGraphGetLoss(execute->graph, &value));
  double before = ExecuteGet(execute, parameter, element);
  ExecuteSet(execute, parameter, element, number);
  RengaCall(ExecuteRun(execute, true));
  *loss = ExecuteGet(execute, value, 0);
  ExecuteSet(execute, parameter, element, before);
  return RENGA_SUCCESS;
}

enum { MOST_ELEMENTS = 40 };

/* Central differences of the fourth order. */
static RengaErrorCode Difference(Execute *execute, RengaValue parameter, int64_t element,
                                 double *slope)
{
  const double h = 1e-4, x = ExecuteGet(execute, parameter, element);
  double loss[4];
  for (int i = 0; i < 4; i++) {
    double step = i < 2 ? i - 2 : i - 1;
    RengaCall(LossAt(execute, parameter, element, x + step * h, &loss[i]));
  }
  *slope = (loss[0] - 8 * loss[1] + 8 * loss[2] - loss[3]) / (12 * h);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckUse(Execute *execute, const Case *test, const RengaParameterUse *use,
                               bool *good)
{
  int64_t count = ExecuteCountElements(execute, use->parameter);
  int64_t step = count / MOST_ELEMENTS + 1;
  for (int64_t i = 0; i < count; i += step) {
    double slope = 0, found = ExecuteGet(execute, use->gradient, i);
    RengaCall(Difference(execute, use->parameter, i, &slope));
    if (fabs(slope - found) <= 1e-7 * (1 + fabs(slope))) continue;
    fprintf(stderr, "%s %s %s: %s[%lld]: difference %.12g, gradient %.12g\n", test->op,
            test->attributes, test->inputs,
            RengaGraphGetValue(execute->graph, use->parameter)->name, (long long)i, slope, found);
    *good = false;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckGradients(Execute *execute, const Case *test, int n_parameters,
                                     bool *good)
{
  const RengaParameterUse *use;
  int count;
  RengaCall(RengaGraphGetParameterUses(execute->graph, &count, &use));
  if (count != n_parameters) {
    fprintf(stderr, "%s %s: %d gradients of %d parameters\n", test->op, test->inputs, count,
            n_parameters);
    *good = false;
  }
  RengaCall(ExecuteRun(execute, false));
  for (int i = 0; i < count; i++) RengaCall(CheckUse(execute, test, &use[i], good));
  return RENGA_SUCCESS;
}

/* given_parameter: this input is a parameter instead of a constant; -1: as the case says. */
static RengaErrorCode BuildCase(RengaComm comm, const Case *test, int given_parameter,
                                Input input[], int *n_in, uint64_t *state, RengaGraph *graph)
{
  *n_in = ReadInputs(test->inputs, input);
  if (given_parameter >= 0) input[given_parameter].kind = 'f';
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(Build(*graph, test, *n_in, input, state));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpAndDifferentiate(RengaGraph graph)
{
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCase(RengaGraph graph, RengaDevice device, const Case *test, int n_in,
                                const Input input[], uint64_t seed, uint64_t *state, bool *good)
{
  Execute execute;
  int n_parameters = 0;
  RengaCall(ExecuteCreate(graph, device, 1, seed, &execute));
  for (int i = 0; i < n_in; i++) {
    if (input[i].kind != 'f') continue;
    n_parameters++;
    RengaValue value = RengaGraphFindValue(graph, input[i].name);
    int64_t count = ExecuteCountElements(&execute, value);
    for (int64_t j = 0; j < count; j++)
      ExecuteSet(&execute, value, j, Draw(state, input[i].low, input[i].high));
  }
  RengaCall(CheckGradients(&execute, test, n_parameters, good));
  RengaCall(ExecuteDestroy(&execute));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunCase(RengaComm comm, RengaDevice device, const Case *test, uint64_t seed,
                              bool *good)
{
  RengaGraph graph;
  Input input[MAX_INPUTS];
  uint64_t state = seed * 2654435761u + 12345;
  int n_in;
  RengaCall(BuildCase(comm, test, -1, input, &n_in, &state, &graph));
  RengaCall(SetUpAndDifferentiate(graph));
  RengaCall(CheckCase(graph, device, test, n_in, input, seed, &state, good));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A constant of the case becomes a parameter: it gets its gradient, or the node is refused. */
static RengaErrorCode RunFreed(RengaComm comm, RengaDevice device, const Case *test, int freed,
                               bool must_refuse, bool *good)
{
  RengaGraph graph;
  Input input[MAX_INPUTS];
  uint64_t state = 12345;
  int n_in;
  FILE *file;
  RengaCall(BuildCase(comm, test, freed, input, &n_in, &state, &graph));
  int saved = BeginErrors(&file);
  RengaErrorCode code = SetUpAndDifferentiate(graph);
  const char *text = EndErrors(file, saved);
  if (code == RENGA_SUCCESS && !must_refuse) {
    RengaCall(CheckCase(graph, device, test, n_in, input, 1, &state, good));
  } else if (code == RENGA_SUCCESS || !strstr(text, "node \"tested\"") || !strstr(text, test->op)) {
    fprintf(stderr, "%s %s: input %d is not refused by name: %s\n", test->op, test->inputs, freed,
            text);
    *good = false;
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAllFreed(RengaComm comm, RengaDevice device, const Case *test, bool *good)
{
  Input input[MAX_INPUTS];
  int n_in = ReadInputs(test->inputs, input);
  for (int i = 0; i < n_in; i++)
    if (input[i].kind == 'c') RengaCall(RunFreed(comm, device, test, i, false, good));
  return RENGA_SUCCESS;
}

static bool IsFloatingLetter(char letter)
{
  return strchr("TUNMF", letter) != NULL;
}

static bool Tries(const Case *test, const char *op, int number)
{
  Input input[MAX_INPUTS];
  return strcmp(test->op, op) == 0 && ReadInputs(test->inputs, input) > number &&
         (input[number].kind == 'f' || input[number].kind == 'c');
}

static bool IsTried(const char *op, int number)
{
  for (int i = 0; i < N_CASES; i++)
    if (Tries(&cases[i], op, number)) return true;
  for (int i = 0; i < N_REFUSED; i++)
    if (Tries(&refused[i], op, number)) return true;
  for (int i = 0; i < N_CONSTANT; i++)
    if (strcmp(constant_pieces[i], op) == 0) return true;
  return false;
}

/* Each floating input of each operator with an output of its type stands in some case. Operators
   of gradients have no rules of their own. */
static bool IsComplete(void)
{
  bool complete = true;
  for (int i = 0; i < RengaOperatorCount(); i++) {
    const RengaOperator *op = RengaOperatorAt(i);
    const char *out = strchr(op->types, '>') + 1;
    int letters = (int)(out - op->types) - 1, most = op->max_in < 0 ? 2 : op->max_in;
    if (strstr(op->name, "Grad") || strchr("BZLIS", *out)) continue;
    for (int k = 0; k < most; k++) {
      if (!IsFloatingLetter(op->types[k < letters ? k : letters - 1]) || IsTried(op->name, k))
        continue;
      fprintf(stderr, "no case has input %d of %s\n", k, op->name);
      complete = false;
    }
  }
  return complete;
}

static RengaErrorCode RunAll(RengaComm comm, RengaDevice device, const Case *test, bool *good)
{
  for (uint64_t seed = 1; seed <= 2; seed++) {
    RengaErrorCode code = RunCase(comm, device, test, seed, good);
    if (code != RENGA_SUCCESS) fprintf(stderr, "%s %s failed\n", test->op, test->inputs);
    RengaCall(code);
  }
  RengaCall(RunAllFreed(comm, device, test, good));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaDevice device;
  int wrong = 0;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(device));
  for (int i = 0; i < N_CASES; i++) {
    bool good = true;
    RengaCall(RunAll(comm, device, &cases[i], &good));
    wrong += !good;
  }
  for (int i = 0; i < N_REFUSED; i++) {
    bool good = true;
    RengaCall(RunFreed(comm, device, &refused[i], -1, true, &good));
    wrong += !good;
  }
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  RengaCheck(wrong == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%d of %d gradients are wrong", wrong,
             (int)N_CASES);
  Expect(IsComplete());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
