/* Shape arithmetic: nodes whose inputs are known while reading are evaluated here.
   Numbers are whole + batch * N with N >= 1 unknown, so that one evaluation is right for every
   batch size; what has no such form (N * N, N < 3) is left to the graph. */
#include "fold.h"
#include <math.h>
#include <string.h>

/* The position in a tensor of shape in that broadcasts to position at of shape out. */
static int64_t BroadcastNumbers(const RengaTensorSpec *out, const RengaTensorSpec *in, int64_t at)
{
  int64_t position = 0, stride = 1;
  for (int d = out->ndim - 1, k = in->ndim - 1; d >= 0; d--, k--) {
    if (out->dim[d] < 2) continue; /* its index is 0 */
    int64_t index = at % out->dim[d];
    at /= out->dim[d];
    if (k < 0 || in->dim[k] == 1) continue;
    position += index * stride;
    stride *= in->dim[k];
  }
  return position;
}

static bool BroadcastShape(const RengaTensorSpec *a, const RengaTensorSpec *b, RengaTensorSpec *out)
{
  out->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int d = 0; d < out->ndim; d++) {
    int ia = d - (out->ndim - a->ndim), ib = d - (out->ndim - b->ndim);
    int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
    if (da != db && da != 1 && db != 1) return false;
    out->dim[d] = da == 1 ? db : da;
  }
  return true;
}

/* As the type would hold it. */
static int64_t Wrap(RengaDataType type, int64_t value)
{
  switch (type) {
  case RENGA_INT8:
    return (int8_t)value;
  case RENGA_UINT8:
    return (uint8_t)value;
  case RENGA_INT16:
    return (int16_t)value;
  case RENGA_UINT16:
    return (uint16_t)value;
  case RENGA_INT32:
    return (int32_t)value;
  case RENGA_UINT32:
    return (uint32_t)value;
  case RENGA_BOOL:
    return value != 0;
  default:
    return value;
  }
}

static double Round(RengaDataType type, double value)
{
  return type == RENGA_FLOAT32 ? (double)(float)value : value;
}

typedef RengaOnnxNumber Number;

/* Does the input broadcast to the shape with one row for each sample where others have it? */
static bool BroadcastOpen(const RengaTensorSpec *out, const RengaOnnxHost *in, int *open)
{
  if (in->open < 0) return true;
  int mine = in->open + out->ndim - in->spec.ndim;
  bool fits = (*open < 0 || *open == mine) && out->dim[mine] == 1;
  *open = mine;
  return fits;
}

/* One of n inputs after the other; for Min and Max there may be more than two. */
static RengaErrorCode FoldPair(RengaOnnxNode *node, const RengaOnnxBinary *binary,
                               const RengaOnnxHost *a, const RengaOnnxHost *b, RengaOnnxHost **out)
{
  RengaTensorSpec spec = {.ndim = 0};
  bool fits = a->spec.type == b->spec.type && BroadcastShape(&a->spec, &b->spec, &spec);
  int open = -1;
  *out = NULL;
  if (!fits || !BroadcastOpen(&spec, a, &open) || !BroadcastOpen(&spec, b, &open) ||
      RengaTensorSpecCount(&spec) > RENGA_ONNX_HOST_MAX)
    return RENGA_SUCCESS;
  RengaDataType type = binary->to_bool ? RENGA_BOOL : a->spec.type;
  RengaOnnxHost *made;
  RengaCall(RengaOnnxHostCreate(node->importer, type, spec.ndim, spec.dim, &made));
  made->open = open;
  for (int64_t i = 0; i < made->count; i++) {
    Number *y = &made->number[i];
    if (!binary->apply(RengaOnnxIsReal(a->spec.type),
                       a->number[BroadcastNumbers(&spec, &a->spec, i)],
                       b->number[BroadcastNumbers(&spec, &b->spec, i)], y))
      return RENGA_SUCCESS;
    y->whole = Wrap(type, y->whole);
    y->real = Round(type, y->real);
  }
  *out = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldBinary(RengaOnnxNode *node, int n, const RengaOnnxHost *const in[],
                                 RengaOnnxHost **out)
{
  const RengaOnnxBinary *binary = RengaOnnxFindBinary(node->proto->op_type);
  if (!binary || n < 2 || RengaOnnxInt(node, "fmod", 0) != 0) return RENGA_SUCCESS;
  const RengaOnnxHost *sum = in[0];
  for (int i = 1; i < n && sum; i++) {
    if (!in[i]) return RENGA_SUCCESS;
    RengaCall(FoldPair(node, binary, sum, in[i], out));
    sum = *out;
  }
  return RENGA_SUCCESS;
}

/* Between two numbers, each of which may be left out. */
static RengaErrorCode FoldClip(RengaOnnxNode *node, int n, const RengaOnnxHost *const in[],
                               RengaOnnxHost **out)
{
  static const char *const limits[] = {"Max", "Min"};
  const RengaOnnxHost *x = in[0];
  for (int i = 1; i < n && i <= 2 && x; i++) {
    if (!in[i]) continue;
    RengaCall(FoldPair(node, RengaOnnxFindBinary(limits[i - 1]), x, in[i], out));
    x = *out;
  }
  return RENGA_SUCCESS;
}

/* ---- one input ---- */
static int64_t NegativeWhole(int64_t x)
{
  return (int64_t)(0 - (uint64_t)x);
}

static bool UnaryNumber(const char *op, bool real, Number x, Number *y)
{
  *y = x;
  if (strcmp(op, "Neg") == 0) {
    *y = (Number){NegativeWhole(x.whole), NegativeWhole(x.batch), NegativeWhole(x.sample), -x.real};
    return true;
  }
  if (!RengaOnnxIsNumber(x)) return false;
  if (strcmp(op, "Not") == 0)
    y->whole = !x.whole;
  else if (strcmp(op, "Abs") == 0)
    *y = (Number){.whole = x.whole < 0 ? NegativeWhole(x.whole) : x.whole, .real = fabs(x.real)};
  else if (strcmp(op, "Relu") == 0)
    *y = (Number){.whole = x.whole > 0 ? x.whole : 0, .real = x.real > 0 ? x.real : 0};
  else if (!real)
    return false;
  else if (strcmp(op, "Floor") == 0)
    y->real = floor(x.real);
  else if (strcmp(op, "Ceil") == 0)
    y->real = ceil(x.real);
  else if (strcmp(op, "Round") == 0)
    y->real = nearbyint(x.real);
  else if (strcmp(op, "Sqrt") == 0)
    y->real = sqrt(x.real);
  else if (strcmp(op, "Reciprocal") == 0)
    y->real = 1 / x.real;
  else if (strcmp(op, "Log") == 0)
    y->real = log(x.real);
  else
    return false;
  return true;
}

static RengaErrorCode FoldUnary(RengaOnnxNode *node, int n, const RengaOnnxHost *const in[],
                                RengaOnnxHost **out)
{
  RengaOnnxHost *made;
  if (n != 1) return RENGA_SUCCESS;
  RengaDataType type = in[0]->spec.type;
  RengaCall(RengaOnnxHostCreate(node->importer, type, in[0]->spec.ndim, in[0]->spec.dim, &made));
  made->open = in[0]->open;
  for (int64_t i = 0; i < made->count; i++) {
    Number *y = &made->number[i];
    if (!UnaryNumber(node->proto->op_type, RengaOnnxIsReal(type), in[0]->number[i], y))
      return RENGA_SUCCESS;
    y->real = Round(type, y->real);
    y->whole = Wrap(type, y->whole);
  }
  *out = made;
  return RENGA_SUCCESS;
}

/* A number in another type; false where the result is not defined. */
static bool Convert(RengaDataType from, RengaDataType to, Number x, Number *y)
{
  if (to == RENGA_BOOL) {
    *y = (Number){.whole = RengaOnnxIsReal(from) ? x.real != 0 : x.whole != 0};
    return RengaOnnxIsNumber(x);
  }
  if (RengaOnnxIsReal(to)) {
    *y = (Number){.batch = x.batch,
                  .sample = x.sample,
                  .real = Round(to, RengaOnnxIsReal(from) ? x.real : (double)x.whole)};
    return true;
  }
  if (RengaOnnxIsReal(from) && !(fabs(x.real) < 9e18)) return false;
  if (!RengaOnnxIsNumber(x) && RengaOnnxIsReal(from) && x.real != floor(x.real)) return false;
  *y = (Number){.whole = RengaOnnxIsReal(from) ? (int64_t)x.real : x.whole,
                .batch = x.batch,
                .sample = x.sample};
  y->whole = Wrap(to, y->whole);
  return true;
}

RengaErrorCode RengaOnnxCastHost(RengaOnnxNode *node, const RengaOnnxHost *x, RengaDataType type,
                                 RengaOnnxHost **y)
{
  RengaOnnxHost *made;
  const RengaTensorSpec *spec = &x->spec;
  if (!RengaOnnxHostHasType(type)) return RENGA_SUCCESS;
  RengaCall(RengaOnnxHostCreate(node->importer, type, spec->ndim, spec->dim, &made));
  made->open = x->open;
  for (int64_t i = 0; i < made->count; i++)
    if (!Convert(spec->type, type, x->number[i], &made->number[i])) return RENGA_SUCCESS;
  *y = made;
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldCast(RengaOnnxNode *node, int n, const RengaOnnxHost *const in[],
                               RengaOnnxHost **out)
{
  int type = RengaOnnxTypeFromFile(RengaOnnxInt(node, "to", 0));
  if (n != 1 || type < 0) return RENGA_SUCCESS;
  RengaCall(RengaOnnxCastHost(node, in[0], (RengaDataType)type, out));
  return RENGA_SUCCESS;
}

static RengaErrorCode FoldWhere(RengaOnnxNode *node, int n, const RengaOnnxHost *const in[],
                                RengaOnnxHost **out)
{
  RengaTensorSpec both = {.ndim = 0}, spec = {.ndim = 0};
  if (n != 3 || !BroadcastShape(&in[1]->spec, &in[2]->spec, &both) ||
      !BroadcastShape(&both, &in[0]->spec, &spec) ||
      RengaTensorSpecCount(&spec) > RENGA_ONNX_HOST_MAX)
    return RENGA_SUCCESS;
  int open = -1;
  for (int i = 0; i < 3; i++)
    if (!BroadcastOpen(&spec, in[i], &open)) return RENGA_SUCCESS;
  RengaOnnxHost *made;
  RengaCall(RengaOnnxHostCreate(node->importer, in[1]->spec.type, spec.ndim, spec.dim, &made));
  made->open = open;
  for (int64_t i = 0; i < made->count; i++) {
    const RengaOnnxHost *from =
        in[0]->number[BroadcastNumbers(&spec, &in[0]->spec, i)].whole ? in[1] : in[2];
    made->number[i] = from->number[BroadcastNumbers(&spec, &from->spec, i)];
  }
  *out = made;
  return RENGA_SUCCESS;
}

/* first, first + step, … as many as there are samples: their own numbers, times step. */
static RengaErrorCode FoldNumbers(RengaOnnxNode *node, const RengaOnnxHost *const in[],
                                  RengaOnnxHost **out)
{
  const int64_t one = 1;
  const RengaDataType type = in[0]->spec.type;
  const Number start = *in[0]->number, limit = *in[1]->number, delta = *in[2]->number;
  const int64_t step = RengaOnnxIsReal(type) ? (int64_t)delta.real : delta.whole;
  bool plain = RengaOnnxIsNumber(start) && RengaOnnxIsNumber(delta) && limit.sample == 0 &&
               (!RengaOnnxIsReal(type) || delta.real == (double)step);
  if (!plain || step == 0 || limit.batch != step || limit.whole != start.whole ||
      limit.real != start.real)
    return RENGA_SUCCESS;
  RengaOnnxHost *made;
  RengaCall(RengaOnnxHostCreate(node->importer, type, 1, &one, &made));
  made->open = 0;
  *made->number = (Number){.whole = start.whole, .sample = step, .real = start.real};
  node->importer->range = node->name;
  *out = made;
  return RENGA_SUCCESS;
}

/* Start, limit and delta in one type: exporters write some as integers where others are real. */
RengaErrorCode RengaOnnxUniteRange(RengaOnnxNode *node, const RengaOnnxHost *in[3])
{
  RengaDataType type = in[0]->spec.type;
  for (int i = 1; i < 3; i++)
    if (!RengaOnnxIsReal(type) && RengaOnnxIsReal(in[i]->spec.type)) type = in[i]->spec.type;
  for (int i = 0; i < 3; i++) {
    RengaOnnxHost *made = NULL;
    if (in[i]->spec.type == type) continue;
    RengaCall(RengaOnnxCastHost(node, in[i], type, &made));
    RengaOnnxCheck(made, node, RENGA_ERR_SUPPORT,
                   "a range whose start, limit and delta are of different types");
    in[i] = made;
  }
  return RENGA_SUCCESS;
}

/* Start, limit, delta. */
static RengaErrorCode FoldRange(RengaOnnxNode *node, int n, const RengaOnnxHost *const given[],
                                RengaOnnxHost **out)
{
  if (n != 3) return RENGA_SUCCESS;
  for (int i = 0; i < 3; i++)
    if (given[i]->count != 1 || given[i]->open >= 0) return RENGA_SUCCESS;
  const RengaOnnxHost *in[] = {given[0], given[1], given[2]};
  RengaCall(RengaOnnxUniteRange(node, in));
  if (!RengaOnnxIsNumber(*in[1]->number)) {
    RengaCall(FoldNumbers(node, in, out));
    return RENGA_SUCCESS;
  }
  if (!RengaOnnxIsNumber(*in[0]->number) || !RengaOnnxIsNumber(*in[2]->number))
    return RENGA_SUCCESS;
  bool real = RengaOnnxIsReal(in[0]->spec.type);
  Number start = *in[0]->number, limit = *in[1]->number, delta = *in[2]->number;
  double first = real ? start.real : (double)start.whole,
         step = real ? delta.real : (double)delta.whole;
  double length = ceil(((real ? limit.real : (double)limit.whole) - first) / step);
  if (step == 0 || !(length <= (double)RENGA_ONNX_HOST_MAX)) return RENGA_SUCCESS;
  int64_t count = length > 0 ? (int64_t)length : 0;
  RengaOnnxHost *made;
  RengaCall(RengaOnnxHostCreate(node->importer, in[0]->spec.type, 1, &count, &made));
  for (int64_t i = 0; i < count; i++)
    made->number[i] =
        (Number){.whole = (int64_t)((uint64_t)start.whole + (uint64_t)i * (uint64_t)delta.whole),
                 .real = Round(in[0]->spec.type, start.real + (double)i * delta.real)};
  *out = made;
  return RENGA_SUCCESS;
}

/* All elements to one number; over one axis of a vector is the same. */
static RengaErrorCode FoldReduce(RengaOnnxNode *node, int n, const RengaOnnxHost *const in[],
                                 RengaOnnxHost **out)
{
  static const struct {
    const char *op, *by;
  } rows[] = {
      {"ReduceProd", "Mul"}, {"ReduceSum", "Add"}, {"ReduceMax", "Max"}, {"ReduceMin", "Min"}};
  const RengaOnnxHost *x = in[0];
  if (n < 1 || x->spec.ndim > 1 || x->count < 1 || x->open >= 0) return RENGA_SUCCESS;
  const RengaOnnxBinary *binary = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].op, node->proto->op_type) == 0) binary = RengaOnnxFindBinary(rows[i].by);
  int64_t one = 1;
  int ndim = RengaOnnxInt(node, "keepdims", 1) ? x->spec.ndim : 0;
  RengaOnnxHost *made;
  RengaCall(RengaOnnxHostCreate(node->importer, x->spec.type, ndim, &one, &made));
  made->number[0] = x->number[0];
  for (int64_t i = 1; i < x->count; i++) {
    Number sum;
    if (!binary ||
        !binary->apply(RengaOnnxIsReal(x->spec.type), made->number[0], x->number[i], &sum))
      return RENGA_SUCCESS;
    made->number[0] = sum;
  }
  *out = made;
  return RENGA_SUCCESS;
}

static const RengaOnnxFoldRow rows[] = {
    {"Add", FoldBinary},
    {"Sub", FoldBinary},
    {"Mul", FoldBinary},
    {"Div", FoldBinary},
    {"Mod", FoldBinary},
    {"Min", FoldBinary},
    {"Max", FoldBinary},
    {"Pow", FoldBinary},
    {"Equal", FoldBinary},
    {"Less", FoldBinary},
    {"LessOrEqual", FoldBinary},
    {"Greater", FoldBinary},
    {"GreaterOrEqual", FoldBinary},
    {"And", FoldBinary},
    {"Or", FoldBinary},
    {"Xor", FoldBinary},
    {"Clip", FoldClip},
    {"Neg", FoldUnary},
    {"Not", FoldUnary},
    {"Abs", FoldUnary},
    {"Relu", FoldUnary},
    {"Floor", FoldUnary},
    {"Ceil", FoldUnary},
    {"Round", FoldUnary},
    {"Sqrt", FoldUnary},
    {"Reciprocal", FoldUnary},
    {"Log", FoldUnary},
    {"Cast", FoldCast},
    {"Where", FoldWhere},
    {"Range", FoldRange},
    {"ReduceProd", FoldReduce},
    {"ReduceSum", FoldReduce},
    {"ReduceMax", FoldReduce},
    {"ReduceMin", FoldReduce},
};

static const RengaOnnxFoldRow *FindFoldRow(const char *op)
{
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].op, op) == 0) return &rows[i];
  return RengaOnnxFindMove(op);
}

/* The input, where it is known and small; floating initializers are parameters. */
RengaErrorCode RengaOnnxKnownInput(RengaOnnxNode *node, int input, const RengaOnnxHost **host)
{
  RengaOnnxBinding *binding;
  *host = NULL;
  RengaCall(RengaOnnxInputBinding(node, input, &binding));
  *host = binding->host;
  if (binding->host || binding->kind != RENGA_ONNX_TENSOR || binding->trainable)
    return RENGA_SUCCESS;
  if (RengaOnnxHostHasType(binding->spec.type) &&
      RengaTensorSpecCount(&binding->spec) <= RENGA_ONNX_HOST_MAX)
    RengaCall(RengaOnnxInputHost(node, input, host));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxFold(RengaOnnxNode *node, bool *folded)
{
  enum { IN_MAX = 16 };
  const RengaOnnxHost *in[IN_MAX] = {NULL};
  const RengaOnnxFoldRow *row = FindFoldRow(node->proto->op_type);
  int n = RengaOnnxInputCount(node);
  *folded = false;
  if (!row || n > IN_MAX || n < 1) return RENGA_SUCCESS;
  for (int i = 0; i < n; i++) {
    if (!RengaOnnxHasInput(node, i)) continue;
    RengaCall(RengaOnnxKnownInput(node, i, &in[i]));
    if (!in[i]) return RENGA_SUCCESS;
  }
  if (!in[0]) return RENGA_SUCCESS;
  RengaOnnxHost *out = NULL;
  RengaCall(row->fold(node, n, in, &out));
  if (!out) return RENGA_SUCCESS;
  RengaCall(RengaOnnxBindHost(node, 0, out));
  *folded = true;
  return RENGA_SUCCESS;
}
