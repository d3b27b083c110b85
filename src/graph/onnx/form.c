/* What ONNX says of the form of its operators: inputs, outputs and attributes, from the opset on in
   which they changed last. A node of another form is refused before anything of it is read. */
#include "form.h"
#include <string.h>

/* Inputs and outputs: one letter each; x must be there, ? may be left out, * any number that may be
   left out, + one or more. */
typedef struct {
  const char *op;
  int since;
  const char *in, *out, *attributes;
} RengaOnnxForm;

static const RengaOnnxForm forms[] = {
    {"Abs", 6, "x", "x", ""},
    {"Acos", 7, "x", "x", ""},
    {"Acosh", 9, "x", "x", ""},
    {"Add", 7, "xx", "x", ""},
    {"AffineGrid", 20, "xx", "x", "align_corners"},
    {"And", 7, "xx", "x", ""},
    {"ArgMax", 1, "x", "x", "axis keepdims"},
    {"ArgMax", 12, "x", "x", "axis keepdims select_last_index"},
    {"ArgMin", 1, "x", "x", "axis keepdims"},
    {"ArgMin", 12, "x", "x", "axis keepdims select_last_index"},
    {"Asin", 7, "x", "x", ""},
    {"Asinh", 9, "x", "x", ""},
    {"Atan", 7, "x", "x", ""},
    {"Atanh", 9, "x", "x", ""},
    {"Attention", 23, "xxx???", "x???",
     "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision"},
    {"Attention", 24, "xxx????", "x???",
     "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision"},
    {"AveragePool", 1, "x", "x", "auto_pad kernel_shape pads strides"},
    {"AveragePool", 7, "x", "x", "auto_pad count_include_pad kernel_shape pads strides"},
    {"AveragePool", 10, "x", "x", "auto_pad ceil_mode count_include_pad kernel_shape pads strides"},
    {"AveragePool", 19, "x", "x",
     "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"BatchNormalization", 7, "xxxxx", "x????", "epsilon momentum spatial"},
    {"BatchNormalization", 9, "xxxxx", "x????", "epsilon momentum"},
    {"BatchNormalization", 14, "xxxxx", "x??", "epsilon momentum training_mode"},
    {"Bernoulli", 15, "x", "x", "dtype seed"},
    {"BitShift", 11, "xx", "x", "direction"},
    {"BitwiseAnd", 18, "xx", "x", ""},
    {"BitwiseNot", 18, "x", "x", ""},
    {"BitwiseOr", 18, "xx", "x", ""},
    {"BitwiseXor", 18, "xx", "x", ""},
    {"Cast", 6, "x", "x", "to"},
    {"Cast", 19, "x", "x", "saturate to"},
    {"Cast", 24, "x", "x", "round_mode saturate to"},
    {"CastLike", 15, "xx", "x", ""},
    {"CastLike", 19, "xx", "x", "saturate"},
    {"CastLike", 24, "xx", "x", "round_mode saturate"},
    {"Ceil", 6, "x", "x", ""},
    {"Celu", 12, "x", "x", "alpha"},
    {"Clip", 6, "x", "x", "max min"},
    {"Clip", 11, "x??", "x", ""},
    {"Col2Im", 18, "xxx", "x", "dilations pads strides"},
    {"Compress", 9, "xx", "x", "axis"},
    {"Concat", 4, "+", "x", "axis"},
    {"ConcatFromSequence", 11, "x", "x", "axis new_axis"},
    {"Constant", 1, "", "x", "value"},
    {"Constant", 11, "", "x", "sparse_value value"},
    {"Constant", 12, "", "x",
     "sparse_value value value_float value_floats value_int value_ints value_string value_strings"},
    {"ConstantOfShape", 9, "x", "x", "value"},
    {"Conv", 1, "xx?", "x", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", 1, "xx?", "x",
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"Cos", 7, "x", "x", ""},
    {"Cosh", 9, "x", "x", ""},
    {"CumSum", 11, "xx", "x", "exclusive reverse"},
    {"DFT", 17, "x?", "x", "axis inverse onesided"},
    {"DFT", 20, "x??", "x", "inverse onesided"},
    {"DepthToSpace", 1, "x", "x", "blocksize"},
    {"DepthToSpace", 11, "x", "x", "blocksize mode"},
    {"Det", 11, "x", "x", ""},
    {"Div", 7, "xx", "x", ""},
    {"Dropout", 7, "x", "x?", "ratio"},
    {"Dropout", 12, "x??", "x?", "seed"},
    {"Einsum", 12, "+", "x", "equation"},
    {"Elu", 6, "x", "x", "alpha"},
    {"Equal", 7, "xx", "x", ""},
    {"Erf", 9, "x", "x", ""},
    {"Exp", 6, "x", "x", ""},
    {"Expand", 8, "xx", "x", ""},
    {"EyeLike", 9, "x", "x", "dtype k"},
    {"Flatten", 1, "x", "x", "axis"},
    {"Floor", 6, "x", "x", ""},
    {"GRU", 7, "xxx???", "??",
     "activation_alpha activation_beta activations clip direction hidden_size linear_before_reset"},
    {"GRU", 14, "xxx???", "??",
     "activation_alpha activation_beta activations clip direction hidden_size layout "
     "linear_before_reset"},
    {"Gather", 1, "xx", "x", "axis"},
    {"GatherElements", 11, "xx", "x", "axis"},
    {"GatherND", 11, "xx", "x", ""},
    {"GatherND", 12, "xx", "x", "batch_dims"},
    {"Gelu", 20, "x", "x", "approximate"},
    {"Gemm", 7, "xxx", "x", "alpha beta transA transB"},
    {"Gemm", 11, "xx?", "x", "alpha beta transA transB"},
    {"GlobalAveragePool", 1, "x", "x", ""},
    {"GlobalMaxPool", 1, "x", "x", ""},
    {"Greater", 7, "xx", "x", ""},
    {"GreaterOrEqual", 12, "xx", "x", ""},
    {"GridSample", 16, "xx", "x", "align_corners mode padding_mode"},
    {"GroupNormalization", 18, "xxx", "x", "epsilon num_groups"},
    {"GroupNormalization", 21, "xxx", "x", "epsilon num_groups stash_type"},
    {"HardSigmoid", 6, "x", "x", "alpha beta"},
    {"HardSwish", 14, "x", "x", ""},
    {"Hardmax", 1, "x", "x", "axis"},
    {"Identity", 1, "x", "x", ""},
    {"If", 1, "x", "+", "else_branch then_branch"},
    {"InstanceNormalization", 6, "xxx", "x", "epsilon"},
    {"IsInf", 10, "x", "x", "detect_negative detect_positive"},
    {"IsNaN", 9, "x", "x", ""},
    {"LRN", 1, "x", "x", "alpha beta bias size"},
    {"LSTM", 7, "xxx?????", "???",
     "activation_alpha activation_beta activations clip direction hidden_size input_forget"},
    {"LSTM", 14, "xxx?????", "???",
     "activation_alpha activation_beta activations clip direction hidden_size input_forget layout"},
    {"LayerNormalization", 17, "xx?", "x??", "axis epsilon stash_type"},
    {"LeakyRelu", 6, "x", "x", "alpha"},
    {"Less", 7, "xx", "x", ""},
    {"LessOrEqual", 12, "xx", "x", ""},
    {"Log", 6, "x", "x", ""},
    {"LogSoftmax", 1, "x", "x", "axis"},
    {"Loop", 1, "??*", "+", "body"},
    {"Loop", 11, "??*", "+", "body"},
    {"LpNormalization", 1, "x", "x", "axis p"},
    {"LpPool", 2, "x", "x", "auto_pad kernel_shape p pads strides"},
    {"LpPool", 18, "x", "x", "auto_pad ceil_mode dilations kernel_shape p pads strides"},
    {"MatMul", 1, "xx", "x", ""},
    {"Max", 6, "+", "x", ""},
    {"MaxPool", 1, "x", "x", "auto_pad kernel_shape pads strides"},
    {"MaxPool", 8, "x", "x?", "auto_pad kernel_shape pads storage_order strides"},
    {"MaxPool", 10, "x", "x?",
     "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"MaxUnpool", 9, "xx?", "x", "kernel_shape pads strides"},
    {"Mean", 6, "+", "x", ""},
    {"MeanVarianceNormalization", 9, "x", "x", "axes"},
    {"Min", 6, "+", "x", ""},
    {"Mish", 18, "x", "x", ""},
    {"Mod", 10, "xx", "x", "fmod"},
    {"Mul", 7, "xx", "x", ""},
    {"Neg", 6, "x", "x", ""},
    {"NegativeLogLikelihoodLoss", 12, "xx?", "x", "ignore_index reduction"},
    {"NonZero", 9, "x", "x", ""},
    {"Not", 1, "x", "x", ""},
    {"OneHot", 9, "xxx", "x", "axis"},
    {"Or", 7, "xx", "x", ""},
    {"PRelu", 7, "xx", "x", ""},
    {"Pad", 2, "x", "x", "mode pads value"},
    {"Pad", 11, "xx?", "x", "mode"},
    {"Pad", 18, "xx??", "x", "mode"},
    {"Pow", 7, "xx", "x", ""},
    {"RMSNormalization", 23, "xx", "x", "axis epsilon stash_type"},
    {"RNN", 7, "xxx???", "??",
     "activation_alpha activation_beta activations clip direction hidden_size"},
    {"RNN", 14, "xxx???", "??",
     "activation_alpha activation_beta activations clip direction hidden_size layout"},
    {"RandomNormal", 1, "", "x", "dtype mean scale seed shape"},
    {"RandomNormalLike", 1, "x", "x", "dtype mean scale seed"},
    {"RandomUniform", 1, "", "x", "dtype high low seed shape"},
    {"RandomUniformLike", 1, "x", "x", "dtype high low seed"},
    {"Range", 11, "xxx", "x", ""},
    {"Reciprocal", 6, "x", "x", ""},
    {"ReduceL1", 1, "x", "x", "axes keepdims"},
    {"ReduceL1", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceL2", 1, "x", "x", "axes keepdims"},
    {"ReduceL2", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceLogSum", 1, "x", "x", "axes keepdims"},
    {"ReduceLogSum", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceLogSumExp", 1, "x", "x", "axes keepdims"},
    {"ReduceLogSumExp", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceMax", 1, "x", "x", "axes keepdims"},
    {"ReduceMax", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceMean", 1, "x", "x", "axes keepdims"},
    {"ReduceMean", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceMin", 1, "x", "x", "axes keepdims"},
    {"ReduceMin", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceProd", 1, "x", "x", "axes keepdims"},
    {"ReduceProd", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceSum", 1, "x", "x", "axes keepdims"},
    {"ReduceSum", 13, "x?", "x", "keepdims noop_with_empty_axes"},
    {"ReduceSumSquare", 1, "x", "x", "axes keepdims"},
    {"ReduceSumSquare", 18, "x?", "x", "keepdims noop_with_empty_axes"},
    {"Relu", 6, "x", "x", ""},
    {"Reshape", 5, "xx", "x", ""},
    {"Reshape", 14, "xx", "x", "allowzero"},
    {"Resize", 10, "xx", "x", "mode"},
    {"Resize", 11, "xxx?", "x",
     "coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value mode "
     "nearest_mode"},
    {"Resize", 13, "x???", "x",
     "coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value mode "
     "nearest_mode"},
    {"Resize", 18, "x???", "x",
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy mode nearest_mode"},
    {"ReverseSequence", 10, "xx", "x", "batch_axis time_axis"},
    {"RoiAlign", 10, "xxx", "x", "mode output_height output_width sampling_ratio spatial_scale"},
    {"RoiAlign", 16, "xxx", "x",
     "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale"},
    {"RotaryEmbedding", 23, "xxx?", "x", "interleaved num_heads rotary_embedding_dim"},
    {"Round", 11, "x", "x", ""},
    {"STFT", 17, "xx??", "x", "onesided"},
    {"Scan", 9, "+", "+",
     "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "
     "scan_output_directions"},
    {"Scatter", 9, "xxx", "x", "axis"},
    {"ScatterElements", 11, "xxx", "x", "axis"},
    {"ScatterElements", 16, "xxx", "x", "axis reduction"},
    {"ScatterND", 11, "xxx", "x", ""},
    {"ScatterND", 16, "xxx", "x", "reduction"},
    {"Selu", 6, "x", "x", "alpha gamma"},
    {"SequenceAt", 11, "xx", "x", ""},
    {"SequenceConstruct", 11, "+", "x", ""},
    {"SequenceEmpty", 11, "", "x", "dtype"},
    {"SequenceErase", 11, "x?", "x", ""},
    {"SequenceInsert", 11, "xx?", "x", ""},
    {"SequenceLength", 11, "x", "x", ""},
    {"Shape", 1, "x", "x", ""},
    {"Shape", 15, "x", "x", "end start"},
    {"Shrink", 9, "x", "x", "bias lambd"},
    {"Sigmoid", 6, "x", "x", ""},
    {"Sign", 9, "x", "x", ""},
    {"Sin", 7, "x", "x", ""},
    {"Sinh", 9, "x", "x", ""},
    {"Size", 1, "x", "x", ""},
    {"Slice", 1, "x", "x", "axes ends starts"},
    {"Slice", 10, "xxx??", "x", ""},
    {"Softmax", 1, "x", "x", "axis"},
    {"SoftmaxCrossEntropyLoss", 12, "xx?", "x?", "ignore_index reduction"},
    {"Softplus", 1, "x", "x", ""},
    {"Softsign", 1, "x", "x", ""},
    {"SpaceToDepth", 1, "x", "x", "blocksize"},
    {"Split", 2, "x", "+", "axis split"},
    {"Split", 13, "x?", "+", "axis"},
    {"Split", 18, "x?", "+", "axis num_outputs"},
    {"SplitToSequence", 11, "x?", "x", "axis keepdims"},
    {"Sqrt", 6, "x", "x", ""},
    {"Squeeze", 1, "x", "x", "axes"},
    {"Squeeze", 13, "x?", "x", ""},
    {"Sub", 7, "xx", "x", ""},
    {"Sum", 6, "+", "x", ""},
    {"Swish", 24, "x", "x", "alpha"},
    {"Tan", 7, "x", "x", ""},
    {"Tanh", 6, "x", "x", ""},
    {"ThresholdedRelu", 10, "x", "x", "alpha"},
    {"Tile", 6, "xx", "x", ""},
    {"TopK", 1, "x", "xx", "axis k"},
    {"TopK", 10, "xx", "xx", "axis"},
    {"TopK", 11, "xx", "xx", "axis largest sorted"},
    {"Transpose", 1, "x", "x", "perm"},
    {"Trilu", 14, "x?", "x", "upper"},
    {"Unsqueeze", 1, "x", "x", "axes"},
    {"Unsqueeze", 13, "xx", "x", ""},
    {"Upsample", 7, "x", "x", "mode scales"},
    {"Upsample", 9, "xx", "x", "mode"},
    {"Where", 9, "xxx", "x", ""},
    {"Xor", 7, "xx", "x", ""},
};

/* NULL: not an operator of ONNX. */
static const RengaOnnxForm *FindOnnxForm(const char *op, int64_t opset)
{
  const RengaOnnxForm *found = NULL;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(forms[i].op, op) == 0 && (!found || forms[i].since <= opset)) found = &forms[i];
  return found;
}

static bool HasMany(const char *letters)
{
  return strpbrk(letters, "*+") != NULL;
}

/* All inputs of a list must be there; an output of one that nobody reads needs no name. */
static bool MustBe(const char *letters, int number, bool is_input)
{
  const int length = (int)strlen(letters), last = number < length ? number : length - 1;
  const char letter = letters[last < 0 ? 0 : last];
  return letter == 'x' || (letter == '+' && (is_input || number < length));
}

static RengaErrorCode CheckInputs(const RengaOnnxNode *node, const RengaOnnxForm *form)
{
  const int most = (int)strlen(form->in), count = RengaOnnxInputCount(node);
  RengaOnnxCheck(count <= most || HasMany(form->in), node, RENGA_ERR_FILE_FORMAT,
                 "it has %d inputs; %d at most are possible", count, most);
  for (int i = 0; i < (count > most ? count : most); i++)
    RengaOnnxCheck(RengaOnnxHasInput(node, i) || !MustBe(form->in, i, true), node,
                   RENGA_ERR_FILE_FORMAT, "input %d is missing", i);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckOutputs(const RengaOnnxNode *node, const RengaOnnxForm *form)
{
  const int most = (int)strlen(form->out);
  size_t count = node->proto->n_output;
  const bool named = count > 0 && HasMany(form->out);
  while (count > 0 && !RengaOnnxHasOutput(node, (int)count - 1)) count--;
  RengaOnnxCheck(count <= (size_t)most || HasMany(form->out), node, RENGA_ERR_FILE_FORMAT,
                 "it has %zu outputs; %d at most are possible", count, most);
  for (int i = 0; i < most; i++)
    RengaOnnxCheck(RengaOnnxHasOutput(node, i) || named || !MustBe(form->out, i, false), node,
                   RENGA_ERR_FILE_FORMAT, "output %d is missing", i);
  return RENGA_SUCCESS;
}

static bool IsTwice(const Onnx__NodeProto *node, size_t number)
{
  size_t i = 0;
  while (i < number && strcmp(node->attribute[i]->name, node->attribute[number]->name) != 0) i++;
  return i < number;
}

static RengaErrorCode CheckNames(const RengaOnnxNode *node)
{
  const Onnx__NodeProto *proto = node->proto;
  RengaOnnxCheck(proto->n_attribute <= RENGA_ONNX_ATTRIBUTES_MAX, node, RENGA_ERR_SUPPORT,
                 "it has %zu attributes; at most %d are supported", proto->n_attribute,
                 RENGA_ONNX_ATTRIBUTES_MAX);
  for (size_t i = 0; i < proto->n_attribute; i++) {
    const char *name = proto->attribute[i]->name;
    RengaOnnxCheck(name && name[0], node, RENGA_ERR_FILE_FORMAT, "attribute %zu has no name", i);
    RengaOnnxCheck(!IsTwice(proto, i), node, RENGA_ERR_FILE_FORMAT, "it has attribute %s twice",
                   name);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckKnown(const RengaOnnxNode *node, const RengaOnnxForm *form)
{
  static const char old[] = "consumed_inputs"; /* of opset 1 to 5, without effect */
  for (size_t i = 0; i < node->proto->n_attribute; i++) {
    const char *name = node->proto->attribute[i]->name;
    if (RengaOnnxIsToolsAttribute(name) || RengaOnnxHasWord(old, name)) continue;
    RengaOnnxCheck(RengaOnnxHasWord(form->attributes, name), node, RENGA_ERR_FILE_FORMAT,
                   "ONNX defines no attribute %s of it in this opset; %s%s", name,
                   form->attributes[0] ? "it has " : "it has none", form->attributes);
  }
  return RENGA_SUCCESS;
}

/* Inputs that a function's call leaves out are missing, too. */
RengaErrorCode RengaOnnxCheckForm(const RengaOnnxNode *node)
{
  const RengaOnnxForm *form = NULL;
  RengaCall(CheckNames(node));
  if (node->row && node->row->op[0]) form = FindOnnxForm(node->row->op, node->opset);
  if (!form) return RENGA_SUCCESS;
  RengaCall(CheckInputs(node, form));
  RengaCall(CheckOutputs(node, form));
  RengaCall(CheckKnown(node, form));
  return RENGA_SUCCESS;
}

static bool IsAttributeOf(const Onnx__FunctionProto *function, const RengaOnnxDefaults *defaults,
                          const char *name)
{
  for (size_t i = 0; i < function->n_attribute; i++)
    if (strcmp(function->attribute[i], name) == 0) return true;
  for (size_t i = 0; defaults && i < defaults->count; i++) {
    const char *with_default = defaults->attribute[i]->name;
    if (with_default && strcmp(with_default, name) == 0) return true;
  }
  return RengaOnnxIsToolsAttribute(name);
}

/* A call has no more than its function declares. */
RengaErrorCode RengaOnnxCheckCallForm(const RengaOnnxNode *node,
                                      const Onnx__FunctionProto *function,
                                      const RengaOnnxDefaults *defaults)
{
  const int count = RengaOnnxInputCount(node);
  RengaCall(CheckNames(node));
  RengaOnnxCheck((size_t)count <= function->n_input, node, RENGA_ERR_FILE_FORMAT,
                 "it has %d inputs, but its function %zu", count, function->n_input);
  for (size_t i = function->n_output; i < node->proto->n_output; i++)
    RengaOnnxCheck(!RengaOnnxHasOutput(node, (int)i), node, RENGA_ERR_FILE_FORMAT,
                   "it has %zu outputs, but its function %zu", i + 1, function->n_output);
  for (size_t i = 0; i < node->proto->n_attribute; i++)
    RengaOnnxCheck(IsAttributeOf(function, defaults, node->proto->attribute[i]->name), node,
                   RENGA_ERR_FILE_FORMAT, "its function has no attribute %s",
                   node->proto->attribute[i]->name);
  return RENGA_SUCCESS;
}
