/* Attention and RotaryEmbedding of opset 23. Inputs are [batch, heads, sequence, width], or
   [batch, sequence, heads * width]. */
#include "onnx.h"
#include <math.h>

/* [B, T, h * d] -> [B, h, T, d] */
static RengaErrorCode ToHeads(RengaOnnxNode *node, int64_t heads, RengaValue *x)
{
  const RengaTensorSpec spec = *RengaOnnxSpec(node, *x);
  if (spec.ndim == 4) return RENGA_SUCCESS;
  RengaOnnxCheck(spec.ndim == 3 && heads > 0 && spec.dim[2] > 0 && spec.dim[2] % heads == 0, node,
                 RENGA_ERR_SHAPE, "a width of %lld in %lld heads, of %d dimensions",
                 (long long)spec.dim[2], (long long)heads, spec.ndim);
  RengaTensorSpec split = {.ndim = 4,
                           .dim = {spec.dim[0], spec.dim[1], heads, spec.dim[2] / heads}};
  RengaCall(RengaOnnxReshape(node, *x, &split, x));
  RengaCall(RengaOnnxTranspose(node, *x, 4, (const int64_t[]){0, 2, 1, 3}, x));
  return RENGA_SUCCESS;
}

/* [B, h, T, d] -> [B, T, h * d] */
static RengaErrorCode FromHeads(RengaOnnxNode *node, RengaValue *x)
{
  const RengaTensorSpec spec = *RengaOnnxSpec(node, *x);
  RengaTensorSpec flat = {.ndim = 3, .dim = {spec.dim[0], spec.dim[2], spec.dim[1] * spec.dim[3]}};
  RengaCall(RengaOnnxTranspose(node, *x, 4, (const int64_t[]){0, 2, 1, 3}, x));
  RengaCall(RengaOnnxReshape(node, *x, &flat, x));
  return RENGA_SUCCESS;
}

/* [B, h, T, d] -> [B, h * times, T, d]: each head times over */
static RengaErrorCode RepeatHeads(RengaOnnxNode *node, int64_t times, RengaValue *x)
{
  const RengaTensorSpec s = *RengaOnnxSpec(node, *x);
  if (times == 1) return RENGA_SUCCESS;
  RengaTensorSpec one = {.ndim = 5, .dim = {s.dim[0], s.dim[1], 1, s.dim[2], s.dim[3]}}, many;
  RengaTensorSpec flat = {.ndim = 4, .dim = {s.dim[0], s.dim[1] * times, s.dim[2], s.dim[3]}};
  many = one;
  many.type = s.type;
  many.dim[2] = times;
  RengaCall(RengaOnnxReshape(node, *x, &one, x));
  const RengaValue narrow = *x;
  RengaCall(RengaOnnxEmit(node, "Expand", 1, &narrow, 1, &many, x));
  RengaCall(RengaOnnxReshape(node, *x, &flat, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode JoinPast(RengaOnnxNode *node, int64_t axis, RengaValue a, RengaValue b,
                               RengaValue *y)
{
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", axis));
  RengaCall(RengaOnnxApply(node, "Concat", a, b, y));
  return RENGA_SUCCESS;
}

/* Keys or values: split into heads, after those of the past; outputs are the whole. */
static RengaErrorCode ReadMemory(RengaOnnxNode *node, int input, int past, int present,
                                 RengaValue *x, int64_t *past_length)
{
  RengaValue before;
  RengaCall(RengaOnnxInputValue(node, input, x));
  RengaOnnxCheck(*x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input %d is missing", input);
  RengaCall(ToHeads(node, RengaOnnxInt(node, "kv_num_heads", 0), x));
  RengaCall(RengaOnnxInputValue(node, past, &before));
  if (before != RENGA_VALUE_NONE) {
    const RengaTensorSpec *spec = RengaOnnxSpec(node, before);
    RengaOnnxCheck(spec->ndim == 4, node, RENGA_ERR_SHAPE,
                   "input %d has %d dimensions, must have 4", past, spec->ndim);
    *past_length = spec->dim[2];
    RengaCall(JoinPast(node, 2, before, *x, x));
  }
  RengaCall(RengaOnnxBindValue(node, present, *x));
  return RENGA_SUCCESS;
}

static RengaErrorCode Scalar(RengaOnnxNode *node, RengaDataType type, double number,
                             RengaValue *value)
{
  RengaOnnxHost *host;
  void *data;
  RengaOnnxCheck(type == RENGA_FLOAT32 || type == RENGA_FLOAT64, node, RENGA_ERR_SUPPORT,
                 "a mask for type %s", RengaDataTypeName(type));
  RengaCall(RengaOnnxHostCreate(node->importer, type, 0, NULL, &host));
  host->number->real = number;
  RengaCall(RengaOnnxHostToData(node, host, &data));
  RengaCall(RengaOnnxConstant(node, &host->spec, data, value));
  return RENGA_SUCCESS;
}

/* 0 up to the diagonal, then -inf: query t sees keys 0 … past + t. */
static RengaErrorCode CausalMask(RengaOnnxNode *node, RengaDataType type, int64_t queries,
                                 int64_t keys, int64_t past, RengaValue *mask)
{
  RengaAttributes *to = &node->importer->attributes;
  RengaTensorSpec spec = {.type = type, .ndim = 2, .dim = {queries, keys}};
  RengaCall(RengaAttributesSetReal(to, "value", -INFINITY));
  RengaCall(RengaAttributesSetInt(to, "to", (int64_t)type));
  RengaCall(RengaOnnxEmit(node, "ConstantOfShape", 0, NULL, 1, &spec, mask));
  RengaCall(RengaAttributesSetInt(to, "upper", 1));
  RengaCall(RengaAttributesSetInt(to, "k", past + 1));
  RengaCall(RengaOnnxApply(node, "Trilu", *mask, RENGA_VALUE_NONE, mask));
  return RENGA_SUCCESS;
}

/* Booleans as 0 and -inf; keys after the last of the mask are hidden. */
static RengaErrorCode ReadMask(RengaOnnxNode *node, RengaDataType type, int64_t keys,
                               RengaValue *mask)
{
  RengaCall(RengaOnnxInputValue(node, 3, mask));
  if (*mask == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaValue in[3] = {*mask};
  if (RengaOnnxSpec(node, *mask)->type == RENGA_BOOL) {
    RengaCall(Scalar(node, type, 0, &in[1]));
    RengaCall(Scalar(node, type, -INFINITY, &in[2]));
    RengaCall(RengaOnnxEmit(node, "Where", 3, in, 1, NULL, mask));
  }
  const RengaTensorSpec *spec = RengaOnnxSpec(node, *mask);
  int64_t last = spec->ndim - 1, given = last < 0 ? keys : spec->dim[last];
  if (given < 0 || given >= keys) return RENGA_SUCCESS;
  RengaAttributes *to = &node->importer->attributes;
  RengaCall(RengaAttributesSetInts(to, "pads", 2, (const int64_t[]){0, keys - given}));
  RengaCall(RengaAttributesSetInts(to, "axes", 1, &last));
  RengaCall(RengaAttributesSetReal(to, "value", -INFINITY));
  RengaCall(RengaOnnxApply(node, "Pad", *mask, RENGA_VALUE_NONE, mask));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaValue q, k, v, mask;
  int64_t past;
  double scale, softcap;
  bool causal, masked; /* masked: by an input, which may hide all keys of a query */
} OnnxAttention;

/* The causal mask, where the operator's own does not do: after a past, or beside the softcap. */
static RengaErrorCode AddCausal(RengaOnnxNode *node, OnnxAttention *a)
{
  const RengaTensorSpec *q = RengaOnnxSpec(node, a->q), *k = RengaOnnxSpec(node, a->k);
  RengaValue mask;
  RengaOnnxCheck(q->dim[2] >= 0 && k->dim[2] >= 0, node, RENGA_ERR_SUPPORT,
                 "the sequence holds the batch");
  RengaCall(CausalMask(node, q->type, q->dim[2], k->dim[2], a->past, &mask));
  if (a->mask != RENGA_VALUE_NONE) RengaCall(RengaOnnxApply(node, "Add", a->mask, mask, &mask));
  a->mask = mask;
  a->causal = false;
  return RENGA_SUCCESS;
}

/* Output 3 is what the scores are after step 0 … 3: product, softcap, mask, softmax. */
static RengaErrorCode BindScores(RengaOnnxNode *node, int64_t step, RengaValue scores)
{
  if (RengaOnnxInt(node, "qk_matmul_output_mode", 0) == step)
    RengaCall(RengaOnnxBindValue(node, 3, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode SelectZero(RengaOnnxNode *node, RengaValue where, RengaValue x, RengaValue *y)
{
  RengaValue in[3] = {where, RENGA_VALUE_NONE, x};
  RengaCall(Scalar(node, RengaOnnxSpec(node, x)->type, 0, &in[1]));
  RengaCall(RengaOnnxEmit(node, "Where", 3, in, 1, NULL, y));
  return RENGA_SUCCESS;
}

/* A query to which all keys are hidden attends to nothing: its row of the mask is 0 instead, so
   that its softmax has values and a gradient, and is set to 0 afterwards. */
static RengaErrorCode FindHidden(RengaOnnxNode *node, RengaValue *mask, RengaValue *hidden)
{
  const int64_t last = RengaOnnxSpec(node, *mask)->ndim - 1;
  RengaCall(RengaOnnxReduce(node, "ReduceMax", *mask, last >= 0, &last, true, hidden));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "detect_positive", 0));
  RengaCall(RengaOnnxApply(node, "IsInf", *hidden, RENGA_VALUE_NONE, hidden));
  RengaCall(SelectZero(node, *hidden, *mask, mask));
  return RENGA_SUCCESS;
}

/* Scores, softcap, mask, softmax, values, one after the other. The mask comes after the softcap,
   which would make a number of -inf, and give weight to hidden keys: ONNX has corrected this in
   opset 23, too. */
static RengaErrorCode EmitSteps(RengaOnnxNode *node, const OnnxAttention *a, RengaValue *y)
{
  RengaAttributes *to = &node->importer->attributes;
  RengaValue scores, mask = a->mask, hidden = RENGA_VALUE_NONE, shown;
  if (a->masked) RengaCall(FindHidden(node, &mask, &hidden));
  RengaCall(RengaAttributesSetInt(to, "transB", 1));
  RengaCall(RengaAttributesSetReal(to, "alpha", a->scale));
  RengaCall(RengaOnnxApply(node, "MatMul", a->q, a->k, &scores));
  RengaCall(BindScores(node, 0, scores));
  if (a->softcap > 0) {
    RengaCall(RengaOnnxApplyReal(node, "Div", scores, a->softcap, &scores));
    RengaCall(RengaOnnxApply(node, "Tanh", scores, RENGA_VALUE_NONE, &scores));
    RengaCall(RengaOnnxApplyReal(node, "Mul", scores, a->softcap, &scores));
  }
  RengaCall(BindScores(node, 1, scores));
  shown = scores;
  if (mask != RENGA_VALUE_NONE && RengaOnnxInt(node, "qk_matmul_output_mode", 0) == 2)
    RengaCall(RengaOnnxApply(node, "Add", scores, a->mask, &shown));
  RengaCall(BindScores(node, 2, shown));
  if (mask != RENGA_VALUE_NONE) RengaCall(RengaOnnxApply(node, "Add", scores, mask, &scores));
  RengaCall(RengaAttributesSetInt(to, "axis", -1));
  RengaCall(RengaOnnxApply(node, "Softmax", scores, RENGA_VALUE_NONE, &scores));
  if (hidden != RENGA_VALUE_NONE) RengaCall(SelectZero(node, hidden, scores, &scores));
  RengaCall(BindScores(node, 3, scores));
  RengaCall(RengaOnnxApply(node, "MatMul", scores, a->v, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode EmitFused(RengaOnnxNode *node, const OnnxAttention *a, RengaValue *y)
{
  RengaAttributes *to = &node->importer->attributes;
  const RengaValue in[] = {a->q, a->k, a->v, a->mask};
  RengaCall(RengaAttributesSetReal(to, "scale", a->scale));
  RengaCall(RengaAttributesSetInt(to, "causal", a->causal));
  RengaCall(RengaOnnxEmit(node, "Attention", a->mask == RENGA_VALUE_NONE ? 3 : 4, in, 1, NULL, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadAttention(RengaOnnxNode *node, bool *flat, OnnxAttention *a)
{
  int64_t past = 0;
  RengaCall(RengaOnnxInputValue(node, 0, &a->q));
  RengaOnnxCheck(a->q != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  *flat = RengaOnnxSpec(node, a->q)->ndim == 3;
  RengaCall(ToHeads(node, RengaOnnxInt(node, "q_num_heads", 0), &a->q));
  RengaCall(ReadMemory(node, 1, 4, 1, &a->k, &a->past));
  RengaCall(ReadMemory(node, 2, 5, 2, &a->v, &past));
  const RengaTensorSpec *q = RengaOnnxSpec(node, a->q), *k = RengaOnnxSpec(node, a->k);
  RengaOnnxCheck(past == a->past, node, RENGA_ERR_SHAPE, "%lld past keys, but %lld past values",
                 (long long)a->past, (long long)past);
  RengaOnnxCheck(q->dim[1] > 0 && k->dim[1] > 0 && q->dim[1] % k->dim[1] == 0 && q->dim[3] > 0,
                 node, RENGA_ERR_SHAPE, "%lld heads of queries for %lld of keys",
                 (long long)q->dim[1], (long long)k->dim[1]);
  a->scale = RengaOnnxReal(node, "scale", 1 / sqrt((double)q->dim[3]));
  a->softcap = RengaOnnxReal(node, "softcap", 0);
  a->causal = RengaOnnxInt(node, "is_causal", 0) != 0;
  const int64_t times = q->dim[1] / k->dim[1], keys = k->dim[2];
  RengaCall(ReadMask(node, q->type, keys, &a->mask));
  a->masked = a->mask != RENGA_VALUE_NONE;
  RengaCall(RepeatHeads(node, times, &a->k));
  RengaCall(RepeatHeads(node, times, &a->v));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertAttention(RengaOnnxNode *node)
{
  OnnxAttention a = {0};
  RengaValue y;
  bool flat = false;
  RengaOnnxCheck(!RengaOnnxHasInput(node, 6), node, RENGA_ERR_SUPPORT,
                 "lengths without padding (input 6)");
  RengaCall(ReadAttention(node, &flat, &a));
  const int64_t mode = RengaOnnxInt(node, "qk_matmul_output_mode", 0);
  RengaOnnxCheck(mode >= 0 && mode <= 3, node, RENGA_ERR_FILE_FORMAT,
                 "qk_matmul_output_mode is %lld, must be 0 to 3", (long long)mode);
  const bool steps = a.softcap != 0 || a.scale == 0 || RengaOnnxIsUsed(node, 3);
  RengaOnnxCheck(a.softcap >= 0, node, RENGA_ERR_FILE_FORMAT, "softcap is %g", a.softcap);
  if (a.causal && (steps || a.past > 0)) RengaCall(AddCausal(node, &a));
  if (steps)
    RengaCall(EmitSteps(node, &a, &y));
  else
    RengaCall(EmitFused(node, &a, &y));
  if (flat) RengaCall(FromHeads(node, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}

/* ---- RotaryEmbedding: pairs of numbers turn by angles that depend on the position ---- */
static RengaErrorCode SliceLast(RengaOnnxNode *node, RengaValue x, int64_t start, int64_t end,
                                int64_t step, RengaValue *y)
{
  RengaAttributes *to = &node->importer->attributes;
  const int64_t axis = 3;
  RengaCall(RengaAttributesSetInts(to, "starts", 1, &start));
  RengaCall(RengaAttributesSetInts(to, "ends", 1, &end));
  RengaCall(RengaAttributesSetInts(to, "axes", 1, &axis));
  RengaCall(RengaAttributesSetInts(to, "steps", 1, &step));
  RengaCall(RengaOnnxApply(node, "Slice", x, RENGA_VALUE_NONE, y));
  return RENGA_SUCCESS;
}

/* A cache of cosines or sines as [B, 1, T, half]: rows by position, or given for each sample. */
static RengaErrorCode ReadCache(RengaOnnxNode *node, int input, int64_t half, RengaValue *y)
{
  RengaValue positions;
  RengaCall(RengaOnnxInputValue(node, input, y));
  RengaCall(RengaOnnxInputValue(node, 3, &positions));
  RengaOnnxCheck(*y != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input %d is missing", input);
  if (positions != RENGA_VALUE_NONE) {
    RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", 0));
    RengaCall(RengaOnnxApply(node, "Gather", *y, positions, y));
  }
  const RengaTensorSpec s = *RengaOnnxSpec(node, *y);
  RengaOnnxCheck(s.ndim == 3 && s.dim[2] == half, node, RENGA_ERR_SHAPE,
                 "input %d must have %lld numbers for each position", input, (long long)half);
  RengaTensorSpec shape = {.ndim = 4, .dim = {s.dim[0], 1, s.dim[1], half}};
  RengaCall(RengaOnnxReshape(node, *y, &shape, y));
  return RENGA_SUCCESS;
}

/* Two halves again to pairs: [B, h, T, half] twice -> [B, h, T, half, 2] -> [B, h, T, 2 * half] */
static RengaErrorCode Interleave(RengaOnnxNode *node, RengaValue pair[2], RengaValue *y)
{
  RengaTensorSpec spec = *RengaOnnxSpec(node, pair[0]), column = spec;
  column.dim[column.ndim++] = 1;
  for (int i = 0; i < 2; i++) RengaCall(RengaOnnxReshape(node, pair[i], &column, &pair[i]));
  RengaCall(JoinPast(node, 4, pair[0], pair[1], y));
  spec.dim[3] *= 2;
  RengaCall(RengaOnnxReshape(node, *y, &spec, y));
  return RENGA_SUCCESS;
}

/* c * a + sign * s * b */
static RengaErrorCode TurnPair(RengaOnnxNode *node, RengaValue c, RengaValue a, const char *sign,
                               RengaValue s, RengaValue b, RengaValue *y)
{
  RengaValue ca, sb;
  RengaCall(RengaOnnxApply(node, "Mul", a, c, &ca));
  RengaCall(RengaOnnxApply(node, "Mul", b, s, &sb));
  RengaCall(RengaOnnxApply(node, sign, ca, sb, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertRotaryEmbedding(RengaOnnxNode *node)
{
  RengaValue x, c, s, pair[2], turned[2], y;
  RengaCall(RengaOnnxInputValue(node, 0, &x));
  RengaOnnxCheck(x != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT, "input 0 is missing");
  const bool flat = RengaOnnxSpec(node, x)->ndim == 3;
  const bool pairs = RengaOnnxInt(node, "interleaved", 0) != 0;
  RengaCall(ToHeads(node, RengaOnnxInt(node, "num_heads", 0), &x));
  int64_t width = RengaOnnxSpec(node, x)->dim[3];
  int64_t turning = RengaOnnxInt(node, "rotary_embedding_dim", 0);
  if (turning == 0) turning = width;
  RengaOnnxCheck(turning > 0 && turning <= width && turning % 2 == 0, node, RENGA_ERR_SHAPE,
                 "%lld of %lld numbers of a head turn", (long long)turning, (long long)width);
  RengaCall(ReadCache(node, 1, turning / 2, &c));
  RengaCall(ReadCache(node, 2, turning / 2, &s));
  for (int64_t i = 0; i < 2; i++)
    RengaCall(SliceLast(node, x, pairs ? i : i * turning / 2,
                        pairs ? turning : (i + 1) * turning / 2, pairs ? 2 : 1, &pair[i]));
  RengaCall(TurnPair(node, c, pair[0], "Sub", s, pair[1], &turned[0]));
  RengaCall(TurnPair(node, c, pair[1], "Add", s, pair[0], &turned[1]));
  if (pairs)
    RengaCall(Interleave(node, turned, &y));
  else
    RengaCall(JoinPast(node, 3, turned[0], turned[1], &y));
  if (turning < width) {
    RengaCall(SliceLast(node, x, turning, width, 1, &x));
    RengaCall(JoinPast(node, 3, y, x, &y));
  }
  if (flat) RengaCall(FromHeads(node, &y));
  RengaCall(RengaOnnxBindValue(node, 0, y));
  return RENGA_SUCCESS;
}
