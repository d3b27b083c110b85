/* Values of a decoder: those of the network that are the same, rows picked by place, and what nodes
   make of single tokens. */
#include "decode.h"
#include <string.h>

void RengaDecodeRefuse_Private(Decoder *decoder, const RengaGraphNode *node, const char *why)
{
  if (decoder->why[0] == '\0')
    snprintf(decoder->why, sizeof decoder->why, "node \"%.160s\" (%s) %s", node->name,
             node->op->name, why);
}

const RengaGraphNode *RengaDecodeMaker_Private(RengaGraph graph, RengaValue value, const char *op)
{
  const int maker = value < 0 ? -1 : graph->value[value]->producer;
  const RengaGraphNode *node = maker < 0 ? NULL : RengaGraphEntryNode(graph, maker);
  return node && strcmp(node->op->name, op) == 0 ? node : NULL;
}

/* Of the same name. */
static RengaErrorCode CopyLeafValue(Decoder *decoder, RengaValue value, RengaValue *copy)
{
  const RengaGraphValue *from = decoder->from->value[value];
  RengaCall(RengaGraphNewValue(decoder->to, from->name, from->kind, &from->spec, copy));
  RengaGraphValue *made = decoder->to->value[*copy];
  made->frozen = from->frozen;
  made->adapter = from->adapter;
  RengaCall(RengaGraphCopyContents(from, made));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDecodeRead_Private(Decoder *decoder, RengaValue value, DecodedValue *made)
{
  DecodedValue *own = &decoder->made[value];
  const RengaValueKind kind = decoder->from->value[value]->kind;
  if (own->kind == DECODED_NOT && kind != RENGA_VALUE_ACTIVATION && kind != RENGA_VALUE_INPUT) {
    RengaCall(CopyLeafValue(decoder, value, &own->value));
    own->kind = DECODED_WHOLE;
  }
  *made = *own;
  return RENGA_SUCCESS;
}

/* The first rows of a table, as learned positions are: the table itself. */
static RengaValue FindTable(RengaGraph graph, RengaValue value, int t)
{
  const int maker = graph->value[value]->producer;
  const RengaGraphNode *node = maker < 0 ? NULL : RengaGraphEntryNode(graph, maker);
  int starts, axes, steps;
  if (!node || strcmp(node->op->name, "Slice") != 0) return value;
  const int64_t *start = RengaAttributesInts(&node->attributes, "starts", &starts);
  const int64_t *axis = RengaAttributesInts(&node->attributes, "axes", &axes);
  const int64_t *step = RengaAttributesInts(&node->attributes, "steps", &steps);
  const bool fits = starts == 1 && start[0] == 0 && (steps == 0 || step[0] == 1) &&
                    (axes == 0 ? t == 0 : axis[0] == t);
  return fits ? node->in[0] : value;
}

static RengaErrorCode AddPlain(Decoder *decoder, const char *op, RengaAttributes *attributes,
                               int n_in, const RengaValue in[], const RengaTensorSpec *given,
                               RengaValue *y)
{
  RengaValue made = RENGA_VALUE_NONE;
  char wanted[128], name[160];
  snprintf(wanted, sizeof wanted, "decoder:%s", op);
  RengaErrorCode code = RengaGraphUniqueName(decoder->to, wanted, sizeof name, name);
  if (!code)
    code = RengaGraphInsertNode(decoder->to, op, name, attributes, n_in, in, 1, given, &made);
  RengaAttributesFree(attributes);
  RengaCall(code);
  *y = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTransposed(Decoder *decoder, int ndim, const int64_t order[],
                                    RengaValue *x)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "perm", ndim, order));
  RengaCall(AddPlain(decoder, "Transpose", &attributes, 1, x, NULL, x));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDecodeFlip_Private(Decoder *decoder, RengaValue *x)
{
  const int ndim = RengaGraphSpec(decoder->to, *x)->ndim;
  int64_t order[RENGA_MAX_DIM];
  for (int d = 0; d < ndim; d++) order[d] = d;
  order[ndim - 2] = ndim - 1;
  order[ndim - 1] = ndim - 2;
  RengaCall(AddTransposed(decoder, ndim, order, x));
  return RENGA_SUCCESS;
}

/* Dimension t in front of the others. */
static RengaErrorCode MoveToFront(Decoder *decoder, int t, RengaValue *x)
{
  const int ndim = RengaGraphSpec(decoder->to, *x)->ndim;
  int64_t order[RENGA_MAX_DIM] = {t};
  if (t == 0) return RENGA_SUCCESS;
  for (int d = 0, to = 1; d < ndim; d++)
    if (d != t) order[to++] = d;
  RengaCall(AddTransposed(decoder, ndim, order, x));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDecodePlaces_Private(Decoder *decoder, RengaValue value, int t, int ndim,
                                         RengaValue *picked)
{
  const RengaTensorSpec *spec = RengaGraphSpec(decoder->from, value);
  RengaTensorSpec shape = {.type = spec->type, .ndim = ndim};
  RengaAttributes attributes = {0};
  DecodedValue made;
  RengaCall(RengaDecodeRead_Private(decoder, FindTable(decoder->from, value, t), &made));
  RengaValue in[2] = {made.value, decoder->place};
  for (int d = 0; d < ndim; d++) {
    const int own = d - (ndim - spec->ndim);
    shape.dim[d] = d == 0 ? -1 : own < 0 || own == t ? 1 : spec->dim[own];
  }
  RengaCall(MoveToFront(decoder, t, &in[0]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 0));
  RengaCall(AddPlain(decoder, "Gather", &attributes, 2, in, NULL, &in[0]));
  RengaCall(AddPlain(decoder, "Reshape", &attributes, 1, in, &shape, picked));
  return RENGA_SUCCESS;
}

RengaTensorSpec RengaDecodeShape_Private(const RengaTensorSpec *spec, int dim)
{
  RengaTensorSpec shape = *spec;
  if (dim >= 0) shape.dim[dim] = 1;
  return shape;
}

RengaErrorCode RengaDecodeMake_Private(Decoder *decoder, const RengaGraphNode *node, const char *op,
                                       const RengaAttributes *attributes, const RengaValue in[],
                                       int n_in, const int dim[])
{
  RengaValue *out;
  RengaTensorSpec *given;
  /* Another operator makes the first output alone. */
  const int n_out = strcmp(op, node->op->name) == 0 ? node->n_out : 1;
  RengaCall(RengaGraphScratch(decoder->to, n_out + 1, &out));
  RengaCall(RengaGraphScratch(decoder->to, n_out + 1, &given));
  for (int o = 0; o < n_out; o++) {
    const RengaGraphValue *value = decoder->from->value[node->out[o]];
    given[o] = RengaDecodeShape_Private(&value->spec, dim[o]);
    RengaCall(
        RengaGraphNewValue(decoder->to, value->name, RENGA_VALUE_ACTIVATION, &given[o], &out[o]));
  }
  RengaCall(
      RengaGraphInsertNode(decoder->to, op, node->name, attributes, n_in, in, n_out, given, out));
  for (int o = 0; o < n_out; o++)
    decoder->made[node->out[o]] = (DecodedValue){dim[o] >= 0 ? DECODED_ALONG : DECODED_WHOLE,
                                                 dim[o] >= 0 ? dim[o] : 0, out[o]};
  return RENGA_SUCCESS;
}
