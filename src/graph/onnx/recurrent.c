/* RNN, GRU and LSTM: a Linear of the whole sequence, then the cells of each direction. */
#include "onnx.h"
#include <string.h>

enum { X, WEIGHT, RECURRENT, BIAS, LENGTHS, FIRST_STATE, FIRST_CELL, PEEPHOLES, N_INPUTS };

typedef struct {
  RengaOnnxNode *node;
  RengaValue in[N_INPUTS];
  const char *cells; /* Renga's operator */
  int64_t gates, hidden, steps, batch;
  int directions;
  bool backwards, batch_first, lstm, gru; /* backwards: the only direction is */
} RecurrentLayer;

/* Activations are those that the operator has by itself; of an RNN all Tanh or all Relu. */
static RengaErrorCode CheckActivations(RengaOnnxNode *node, bool lstm, bool gru,
                                       const char **activation)
{
  static const char *const lstm_names[] = {"Sigmoid", "Tanh", "Tanh"};
  static const char *const gru_names[] = {"Sigmoid", "Tanh"};
  const Onnx__AttributeProto *given = RengaOnnxAttribute(node, "activations");
  *activation = "Tanh";
  for (size_t i = 0; given && i < given->n_strings; i++) {
    const ProtobufCBinaryData *text = &given->strings[i];
    bool relu = !lstm && !gru && text->len == 4 && memcmp(text->data, "Relu", 4) == 0;
    const char *wanted = lstm ? lstm_names[i % 3] : gru ? gru_names[i % 2] : relu ? "Relu" : "Tanh";
    bool same = text->len == strlen(wanted) && memcmp(text->data, wanted, text->len) == 0;
    if (i == 0) *activation = wanted;
    RengaOnnxCheck(same && (lstm || gru || strcmp(*activation, wanted) == 0), node,
                   RENGA_ERR_SUPPORT, "activation %.*s", (int)text->len, (const char *)text->data);
  }
  RengaOnnxCheck(!RengaOnnxAttribute(node, "clip"), node, RENGA_ERR_SUPPORT, "clip");
  RengaOnnxCheck(RengaOnnxInt(node, "input_forget", 0) == 0, node, RENGA_ERR_SUPPORT,
                 "input_forget");
  return RENGA_SUCCESS;
}

/* A first state that the file gives for each sample of its batch is no parameter; where it is the
   same for all samples, it is opened. */
static RengaErrorCode ReadState(RecurrentLayer *layer, int input)
{
  RengaOnnxNode *node = layer->node;
  RengaOnnxBinding *binding;
  const int axis = layer->batch_first ? 0 : 1;
  if (!RengaOnnxHasInput(node, input)) return RENGA_SUCCESS;
  RengaCall(RengaOnnxInputBinding(node, input, &binding));
  const int64_t batch = RengaOnnxSpec(node, layer->in[X])->dim[axis];
  if (node->importer->open && binding->tensor && binding->value == RENGA_VALUE_NONE &&
      binding->spec.ndim == 3 && binding->spec.dim[axis] == node->importer->file_batch)
    binding->trainable = false;
  RengaCall(RengaOnnxInputValue(node, input, &layer->in[input]));
  RengaCall(RengaOnnxOpenDimension(node, axis, batch, &layer->in[input]));
  RengaTensorSpec wide = *RengaOnnxSpec(node, layer->in[input]);
  if (batch >= 0 || wide.ndim != 3 || wide.dim[axis] != 1) return RENGA_SUCCESS;
  wide.dim[axis] = batch;
  const RengaValue one = layer->in[input];
  RengaCall(RengaOnnxEmit(node, "Expand", 1, &one, 1, &wide, &layer->in[input]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadInputs(RecurrentLayer *layer)
{
  RengaOnnxNode *node = layer->node;
  static const int64_t order[] = {1, 0, 2};
  for (int i = 0; i < N_INPUTS; i++)
    if (i != FIRST_STATE && i != FIRST_CELL) RengaCall(RengaOnnxInputValue(node, i, &layer->in[i]));
  for (int i = X; i <= RECURRENT; i++)
    RengaOnnxCheck(layer->in[i] != RENGA_VALUE_NONE && RengaOnnxSpec(node, layer->in[i])->ndim == 3,
                   node, RENGA_ERR_FILE_FORMAT, "input %d must have three dimensions", i);
  layer->in[FIRST_STATE] = layer->in[FIRST_CELL] = RENGA_VALUE_NONE;
  for (int i = FIRST_STATE; i <= FIRST_CELL; i++) RengaCall(ReadState(layer, i));
  RengaOnnxCheck(layer->in[LENGTHS] == RENGA_VALUE_NONE, node, RENGA_ERR_SUPPORT,
                 "sequences of different lengths");
  RengaOnnxCheck(layer->in[PEEPHOLES] == RENGA_VALUE_NONE, node, RENGA_ERR_SUPPORT, "peepholes");
  for (int i = X; i <= FIRST_CELL; i += i == X ? FIRST_STATE : 1)
    if (layer->batch_first && layer->in[i] != RENGA_VALUE_NONE)
      RengaCall(RengaOnnxTranspose(node, layer->in[i], 3, order, &layer->in[i]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadLayer(RengaOnnxNode *node, RecurrentLayer *layer)
{
  const char *op = node->proto->op_type, *activation;
  *layer = (RecurrentLayer){.node = node, .lstm = op[0] == 'L', .gru = op[0] == 'G'};
  layer->batch_first = RengaOnnxInt(node, "layout", 0) != 0;
  layer->gates = layer->lstm ? 4 : layer->gru ? 3 : 1;
  layer->cells = layer->lstm ? "LSTMCells" : layer->gru ? "GRUCells" : "RNNCells";
  layer->directions = RengaOnnxString(node, "direction", "bidirectional", "forward") ? 2 : 1;
  layer->backwards = RengaOnnxString(node, "direction", "reverse", "forward");
  RengaOnnxCheck(layer->directions == 2 || layer->backwards ||
                     RengaOnnxString(node, "direction", "forward", "forward"),
                 node, RENGA_ERR_FILE_FORMAT,
                 "direction must be forward, reverse or bidirectional");
  RengaCall(CheckActivations(node, layer->lstm, layer->gru, &activation));
  RengaCall(ReadInputs(layer));
  const RengaTensorSpec *x = RengaOnnxSpec(node, layer->in[X]);
  const RengaTensorSpec *r = RengaOnnxSpec(node, layer->in[RECURRENT]);
  layer->steps = x->dim[0];
  layer->batch = x->dim[1];
  layer->hidden = r->dim[2];
  RengaOnnxCheckApart(layer->steps > 0, node, "the number of steps depends on the batch");
  RengaOnnxCheck(r->dim[0] == layer->directions && r->dim[1] == layer->gates * layer->hidden, node,
                 RENGA_ERR_FILE_FORMAT, "the recurrent weight is [%lld,%lld,%lld]",
                 (long long)r->dim[0], (long long)r->dim[1], (long long)r->dim[2]);
  return RENGA_SUCCESS;
}

/* Elements [from, to) of x along its first dimension. */
static RengaErrorCode CutGates(RengaOnnxNode *node, RengaValue x, int64_t from, int64_t to,
                               RengaValue *y)
{
  RengaAttributes *attributes = &node->importer->attributes;
  static const int64_t axis = 0;
  *y = x;
  if (from == 0 && to == RengaOnnxSpec(node, x)->dim[0]) return RENGA_SUCCESS;
  RengaCall(RengaAttributesSetInts(attributes, "starts", 1, &from));
  RengaCall(RengaAttributesSetInts(attributes, "ends", 1, &to));
  RengaCall(RengaAttributesSetInts(attributes, "axes", 1, &axis));
  RengaCall(RengaOnnxApply(node, "Slice", x, RENGA_VALUE_NONE, y));
  return RENGA_SUCCESS;
}

/* Input of one direction: its first dimension is gone. Absent: NONE. */
static RengaErrorCode Pick(const RecurrentLayer *layer, int input, int direction, RengaValue *y)
{
  *y = layer->in[input];
  if (*y == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaCall(CutGates(layer->node, *y, direction, direction + 1, y));
  RengaTensorSpec shape = *RengaOnnxSpec(layer->node, *y);
  shape.ndim--;
  memmove(shape.dim, shape.dim + 1, (size_t)shape.ndim * sizeof shape.dim[0]);
  RengaCall(RengaOnnxReshape(layer->node, *y, &shape, y));
  return RENGA_SUCCESS;
}

/* The bias [2 x gates x hidden] is that of the input's weight, then that of the recurrent one. A
   GRU needs them apart, the others their sum. */
static RengaErrorCode PickBias(const RecurrentLayer *layer, int direction, RengaValue *of_input,
                               RengaValue *of_state)
{
  RengaOnnxNode *node = layer->node;
  RengaValue both;
  int64_t width = layer->gates * layer->hidden;
  *of_input = *of_state = RENGA_VALUE_NONE;
  RengaCall(Pick(layer, BIAS, direction, &both));
  if (both == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaCall(CutGates(node, both, 0, width, of_input));
  RengaCall(CutGates(node, both, width, 2 * width, of_state));
  if (!layer->gru) RengaCall(RengaOnnxApply(node, "Add", *of_input, *of_state, of_input));
  return RENGA_SUCCESS;
}

static RengaErrorCode Zeros(const RecurrentLayer *layer, int ndim, int64_t rows, int64_t columns,
                            RengaValue *y)
{
  RengaOnnxNode *node = layer->node;
  RengaTensorSpec shape = {RengaOnnxSpec(node, layer->in[X])->type, ndim, {rows, columns}};
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "to", (int64_t)shape.type));
  RengaCall(RengaOnnxEmit(node, "ConstantOfShape", 0, NULL, 1, &shape, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode PickState(const RecurrentLayer *layer, int input, int direction,
                                RengaValue *state)
{
  RengaCall(Pick(layer, input, direction, state));
  if (*state == RENGA_VALUE_NONE) RengaCall(Zeros(layer, 2, layer->batch, layer->hidden, state));
  return RENGA_SUCCESS;
}

/* Sequences of one direction: outputs, and for an LSTM the cells. */
static RengaErrorCode EmitDirection(const RecurrentLayer *layer, int direction, RengaValue out[3])
{
  RengaOnnxNode *node = layer->node;
  RengaAttributes *attributes = &node->importer->attributes;
  RengaValue in[4], project[3] = {layer->in[X]}, of_state;
  const char *activation;
  int n = 2;
  RengaCall(Pick(layer, WEIGHT, direction, &project[1]));
  RengaCall(PickBias(layer, direction, &project[2], &of_state));
  RengaCall(RengaAttributesSetInt(attributes, "transB", 1));
  RengaCall(RengaOnnxEmit(node, "Linear", project[2] == RENGA_VALUE_NONE ? 2 : 3, project, 1, NULL,
                          &in[0]));
  RengaCall(Pick(layer, RECURRENT, direction, &in[1]));
  if (layer->gru && of_state == RENGA_VALUE_NONE)
    RengaCall(Zeros(layer, 1, layer->gates * layer->hidden, 0, &of_state));
  if (layer->gru) in[n++] = of_state;
  RengaCall(PickState(layer, FIRST_STATE, direction, &in[n++]));
  if (layer->lstm) RengaCall(PickState(layer, FIRST_CELL, direction, &in[n++]));
  RengaCall(CheckActivations(node, layer->lstm, layer->gru, &activation));
  if (layer->gru)
    RengaCall(RengaAttributesSetInt(attributes, "linear_before_reset",
                                    RengaOnnxInt(node, "linear_before_reset", 0) != 0));
  if (!layer->gru && !layer->lstm)
    RengaCall(RengaAttributesSetString(attributes, "activation", activation));
  RengaCall(RengaAttributesSetInt(attributes, "reverse", layer->backwards || direction == 1));
  RengaCall(RengaOnnxEmit(node, layer->cells, n, in, layer->gru || layer->lstm ? 3 : 1, NULL, out));
  return RENGA_SUCCESS;
}

/* Both directions of a [...] become [..., directions, ...] at a new dimension. */
static RengaErrorCode Stack(const RecurrentLayer *layer, const RengaValue x[], int place,
                            RengaValue *y)
{
  RengaValue part[2] = {RENGA_VALUE_NONE, RENGA_VALUE_NONE};
  for (int d = 0; d < layer->directions; d++) {
    RengaTensorSpec shape = *RengaOnnxSpec(layer->node, x[d]);
    memmove(shape.dim + place + 1, shape.dim + place,
            (size_t)(shape.ndim - place) * sizeof shape.dim[0]);
    shape.dim[place] = 1;
    shape.ndim++;
    RengaCall(RengaOnnxReshape(layer->node, x[d], &shape, &part[d]));
  }
  *y = part[0];
  if (layer->directions == 1) return RENGA_SUCCESS;
  RengaCall(RengaAttributesSetInt(&layer->node->importer->attributes, "axis", place));
  RengaCall(RengaOnnxEmit(layer->node, "Concat", 2, part, 1, NULL, y));
  return RENGA_SUCCESS;
}

/* All steps [steps, directions, batch, hidden] */
static RengaErrorCode BindStates(const RecurrentLayer *layer, const RengaValue x[])
{
  static const int64_t order[] = {2, 0, 1, 3};
  RengaValue y;
  if (!RengaOnnxHasOutput(layer->node, 0)) return RENGA_SUCCESS;
  RengaCall(Stack(layer, x, 1, &y));
  if (layer->batch_first) RengaCall(RengaOnnxTranspose(layer->node, y, 4, order, &y));
  RengaCall(RengaOnnxBindValue(layer->node, 0, y));
  return RENGA_SUCCESS;
}

/* What the last step leaves [directions, batch, hidden] */
static RengaErrorCode BindLast(const RecurrentLayer *layer, int output, const RengaValue x[])
{
  static const int64_t order[] = {1, 0, 2};
  RengaOnnxNode *node = layer->node;
  RengaTensorSpec shape = {.ndim = 2};
  RengaValue last[2], y;
  if (!RengaOnnxHasOutput(node, output)) return RENGA_SUCCESS;
  for (int d = 0; d < layer->directions; d++) {
    int64_t step = layer->backwards || d == 1 ? 0 : layer->steps - 1;
    RengaCall(CutGates(node, x[d], step, step + 1, &last[d]));
    shape.type = RengaOnnxSpec(node, x[d])->type;
    shape.dim[0] = layer->batch;
    shape.dim[1] = layer->hidden;
    RengaCall(RengaOnnxReshape(node, last[d], &shape, &last[d]));
  }
  RengaCall(Stack(layer, last, 0, &y));
  if (layer->batch_first) RengaCall(RengaOnnxTranspose(node, y, 3, order, &y));
  RengaCall(RengaOnnxBindValue(node, output, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertRecurrent(RengaOnnxNode *node)
{
  RecurrentLayer layer;
  RengaValue out[2][3], sequence[2], cell[2];
  RengaCall(ReadLayer(node, &layer));
  for (int d = 0; d < layer.directions; d++) {
    RengaCall(EmitDirection(&layer, d, out[d]));
    sequence[d] = out[d][0];
    cell[d] = out[d][1];
  }
  RengaCall(BindStates(&layer, sequence));
  RengaCall(BindLast(&layer, 1, sequence));
  if (layer.lstm) RengaCall(BindLast(&layer, 2, cell));
  return RENGA_SUCCESS;
}
