/* Attentions of a decoder: one query for each sample, and caches of the keys and values of all
   earlier tokens of its text. Heads that share keys share a cache. An attention must not see later
   tokens: it says so, or its mask does. */
#include "decode.h"
#include <math.h>
#include <string.h>

static const double masked = -1e9; /* what is below is attended to with probability 0 */

/* [N, G, T, d] of which [N, G * r, T, d] are r copies of each head; the value itself: of none. */
static RengaValue FindSharedHeads(RengaGraph graph, RengaValue value)
{
  const RengaTensorSpec *whole = RengaGraphSpec(graph, value);
  const RengaGraphNode *join = RengaDecodeMaker_Private(graph, value, "Reshape");
  const RengaGraphNode *copy = join ? RengaDecodeMaker_Private(graph, join->in[0], "Expand") : NULL;
  const RengaGraphNode *part =
      copy ? RengaDecodeMaker_Private(graph, copy->in[0], "Reshape") : NULL;
  if (!part || whole->ndim != 4) return value;
  const RengaTensorSpec *few = RengaGraphSpec(graph, part->in[0]);
  const RengaTensorSpec *one = RengaGraphSpec(graph, copy->in[0]);
  const RengaTensorSpec *many = RengaGraphSpec(graph, join->in[0]);
  if (few->ndim != 4 || one->ndim != 5 || many->ndim != 5 || one->dim[2] != 1) return value;
  const bool fits = one->dim[0] == -1 && one->dim[1] == few->dim[1] &&
                    many->dim[1] == one->dim[1] && many->dim[2] * many->dim[1] == whole->dim[1];
  for (int d = 2; d < 4; d++)
    if (few->dim[d] != whole->dim[d] || one->dim[d + 1] != few->dim[d]) return value;
  return fits ? part->in[0] : value;
}

/* Numbers of a constant mask [..., queries, keys]; NULL: it is none. */
static const float *MaskNumbers(RengaGraph graph, RengaValue mask, int64_t *rows)
{
  const RengaGraphValue *value = graph->value[mask];
  const RengaTensorSpec *spec = &value->spec;
  if (value->kind != RENGA_VALUE_CONSTANT || spec->type != RENGA_FLOAT32 || spec->ndim < 2)
    return NULL;
  if (spec->dim[spec->ndim - 1] != spec->dim[spec->ndim - 2]) return NULL;
  *rows = RengaTensorSpecCount(spec) / spec->dim[spec->ndim - 1];
  return value->data;
}

/* Nothing later is seen; only: all that is earlier is. */
static bool HidesLater(RengaGraph graph, RengaValue mask, bool only)
{
  int64_t rows;
  const float *number = mask < 0 ? NULL : MaskNumbers(graph, mask, &rows);
  if (!number) return false;
  const RengaTensorSpec *spec = RengaGraphSpec(graph, mask);
  const int64_t places = spec->dim[spec->ndim - 1];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t j = 0; j < places; j++) {
      const double at = (double)number[r * places + j];
      if (j > r % places ? !(at < masked) : only && at != 0) return false;
    }
  return true;
}

/* value = factor * what it becomes */
static double FollowFactors(RengaGraph graph, RengaValue *value)
{
  double factor = 1;
  for (const RengaGraphNode *node; (node = RengaDecodeMaker_Private(graph, *value, "Mul"));) {
    int number = -1;
    for (int i = 0; i < 2; i++) {
      const RengaGraphValue *in = graph->value[node->in[i]];
      if (in->kind == RENGA_VALUE_CONSTANT && in->spec.type == RENGA_FLOAT32 &&
          RengaTensorSpecCount(&in->spec) == 1)
        number = i;
    }
    if (number < 0) break;
    factor *= (double)*(const float *)graph->value[node->in[number]]->data;
    *value = node->in[1 - number];
  }
  return factor;
}

/* The keys of a product of queries with them; NONE: it is none. */
static RengaValue FindKeysOf(RengaGraph graph, const RengaGraphNode *product, bool *flipped)
{
  const RengaGraphNode *flip = RengaDecodeMaker_Private(graph, product->in[1], "Transpose");
  int count = 0;
  const int64_t *order = flip ? RengaAttributesInts(&flip->attributes, "perm", &count) : NULL;
  *flipped = false;
  if (RengaAttributesInt(&product->attributes, "transA", 0)) return RENGA_VALUE_NONE;
  if (RengaAttributesInt(&product->attributes, "transB", 0)) return product->in[1];
  const bool flips = count == 4 && order[0] == 0 && order[1] == 1 && order[2] == 3 && order[3] == 2;
  *flipped = !flips;
  return flips ? flip->in[0] : product->in[1];
}

/* softmax(cap * tanh(scale / cap * q k^T) + mask) v, by its last product. */
static bool FindAttentionParts(const Decoder *decoder, const RengaGraphNode *last,
                               DecodedAttention *form)
{
  RengaGraph graph = decoder->from;
  const RengaGraphNode *drop = RengaDecodeMaker_Private(graph, last->in[0], "Dropout");
  const RengaGraphNode *softmax =
      RengaDecodeMaker_Private(graph, drop ? drop->in[0] : last->in[0], "Softmax");
  const RengaGraphNode *add =
      softmax ? RengaDecodeMaker_Private(graph, softmax->in[0], "Add") : NULL;
  if (!add || RengaGraphSpec(graph, softmax->in[0])->ndim != 4) return false;
  const int64_t axis = RengaAttributesInt(&softmax->attributes, "axis", -1);
  const int mask = RengaGraphHasBatch(graph, add->in[0]);
  if (axis != -1 && axis != 3) return false;
  RengaValue scores = add->in[1 - mask];
  double outer = FollowFactors(graph, &scores), inner = 1;
  const RengaGraphNode *tanh = RengaDecodeMaker_Private(graph, scores, "Tanh");
  if (tanh) scores = tanh->in[0];
  if (tanh) inner = FollowFactors(graph, &scores);
  const RengaGraphNode *product = RengaDecodeMaker_Private(graph, scores, "MatMul");
  if (!product || RengaAttributesInt(&last->attributes, "transA", 0) ||
      RengaAttributesInt(&last->attributes, "transB", 0) ||
      RengaAttributesReal(&last->attributes, "alpha", 1) != 1)
    return false;
  *form = (DecodedAttention){.q = product->in[0],
                             .v = last->in[1],
                             .mask = add->in[mask],
                             .scale = outer * inner *
                                      RengaAttributesReal(&product->attributes, "alpha", 1),
                             .cap = tanh ? outer : 0};
  form->k = FindKeysOf(graph, product, &form->flipped);
  return form->k >= 0;
}

static DecodedAttention ReadAttentionNode(const RengaGraphNode *node)
{
  const RengaAttributes *attributes = &node->attributes;
  return (DecodedAttention){.q = node->in[0],
                            .k = node->in[1],
                            .v = node->in[2],
                            .mask = node->n_in > 3 ? node->in[3] : RENGA_VALUE_NONE,
                            .causal = RengaAttributesInt(attributes, "causal", 0) != 0 &&
                                      RengaAttributesInt(attributes, "first", 0) == 0,
                            .scale = RengaAttributesReal(attributes, "scale", 0)};
}

/* [N, heads, T, width] or, with the tokens along dimension 3, [N, heads, width, T]. */
static bool HasTokens(const Decoder *decoder, RengaValue value, int dim)
{
  const RengaTensorSpec *spec = RengaGraphSpec(decoder->from, value);
  const DecodedValue *made = &decoder->made[value];
  return spec->ndim == 4 && spec->dim[0] == -1 && spec->dim[dim] == decoder->places &&
         made->kind == DECODED_ALONG && made->dim == dim;
}

/* Both have copies of heads, or neither is taken for such. */
static void ShareHeads(const Decoder *decoder, DecodedAttention *form)
{
  RengaGraph graph = decoder->from;
  const RengaValue k = FindSharedHeads(graph, form->k), v = FindSharedHeads(graph, form->v);
  const bool both = !form->flipped && HasTokens(decoder, k, 2) && HasTokens(decoder, v, 2) &&
                    RengaGraphSpec(graph, k)->dim[1] == RengaGraphSpec(graph, v)->dim[1];
  if (!both) return;
  form->k = k;
  form->v = v;
}

/* What is added to scores, [N, 1 or heads, 1, places]; NONE: nothing. */
static RengaErrorCode AddMaskRows(Decoder *decoder, const DecodedAttention *form, RengaValue *mask)
{
  *mask = RENGA_VALUE_NONE;
  if (form->mask < 0 || HidesLater(decoder->from, form->mask, true)) return RENGA_SUCCESS;
  const RengaTensorSpec *spec = RengaGraphSpec(decoder->from, form->mask);
  const int rows = spec->ndim - 2;
  if (rows >= 0 && spec->dim[rows] == decoder->places) {
    RengaCall(RengaDecodePlaces_Private(decoder, form->mask, rows, 4, mask));
    return RENGA_SUCCESS;
  }
  DecodedValue made;
  RengaCall(RengaDecodeRead_Private(decoder, form->mask, &made));
  *mask = made.value;
  return RENGA_SUCCESS;
}

/* value: of the decoder, [N, heads, 1, width] */
static RengaErrorCode AddHeadCache(Decoder *decoder, RengaValue value, const char *what,
                                   RengaValue *cache)
{
  char name[512];
  const RengaTensorSpec *spec = RengaGraphSpec(decoder->to, value);
  const RengaTensorSpec shape = {
      .type = RENGA_FLOAT32,
      .ndim = 4,
      .dim = {spec->dim[1], decoder->texts, decoder->places, spec->dim[3]}};
  snprintf(name, sizeof name, "decoder:%s%d", what, decoder->caches);
  RengaCall(RengaGraphAddCache(decoder->to, name, &shape, cache));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddCached(Decoder *decoder, const RengaGraphNode *node,
                                const DecodedAttention *form)
{
  RengaAttributes attributes = {0};
  RengaValue in[8] = {[0] = decoder->made[form->q].value,
                      [1] = decoder->text,
                      [2] = decoder->place,
                      [5] = decoder->made[form->k].value,
                      [6] = decoder->made[form->v].value};
  static const int dim[] = {2};
  if (form->flipped) RengaCall(RengaDecodeFlip_Private(decoder, &in[5]));
  RengaCall(AddHeadCache(decoder, in[5], "keys", &in[3]));
  RengaCall(AddHeadCache(decoder, in[6], "values", &in[4]));
  RengaCall(AddMaskRows(decoder, form, &in[7]));
  decoder->caches++;
  RengaErrorCode code = RengaAttributesSetReal(&attributes, "scale", form->scale);
  if (!code) code = RengaAttributesSetReal(&attributes, "cap", form->cap);
  if (!code)
    code = RengaDecodeMake_Private(decoder, node, "CachedAttention", &attributes, in, 8, dim);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDecodeAttention_Private(Decoder *decoder, const RengaGraphNode *node,
                                            bool *found)
{
  DecodedAttention form;
  *found = strcmp(node->op->name, "Attention") == 0;
  if (*found)
    form = ReadAttentionNode(node);
  else if (strcmp(node->op->name, "MatMul") == 0)
    *found = FindAttentionParts(decoder, node, &form);
  if (!*found) return RENGA_SUCCESS;
  const RengaValue need[] = {form.q, form.k, form.v};
  for (int i = 0; i < 3; i++)
    if (decoder->made[need[i]].kind == DECODED_NOT) return RENGA_SUCCESS; /* said before */
  *found = decoder->made[form.q].kind != DECODED_BESIDE; /* else an encoder's own */
  if (!*found) return RENGA_SUCCESS;
  DecodedValue mask = {.kind = DECODED_WHOLE};
  if (form.mask >= 0) RengaCall(RengaDecodeRead_Private(decoder, form.mask, &mask));
  if (HasTokens(decoder, form.q, 2) && decoder->made[form.k].kind == DECODED_BESIDE) {
    RengaCall(RengaDecodeMemory_Private(decoder, node, &form));
    return RENGA_SUCCESS;
  }
  if (!HasTokens(decoder, form.q, 2) || !HasTokens(decoder, form.k, form.flipped ? 3 : 2) ||
      !HasTokens(decoder, form.v, 2)) {
    RengaDecodeRefuse_Private(decoder, node, "attends to something else than the tokens so far");
  } else if (mask.kind != DECODED_WHOLE) {
    RengaDecodeRefuse_Private(decoder, node, "has a mask that depends on the samples");
  } else if (!form.causal && !HidesLater(decoder->from, form.mask, false)) {
    RengaDecodeRefuse_Private(decoder, node, "attends to later tokens");
  } else {
    ShareHeads(decoder, &form);
    RengaCall(AddCached(decoder, node, &form));
  }
  return RENGA_SUCCESS;
}
