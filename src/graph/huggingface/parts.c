/* Parts of networks of folders that decoders and encoders share. */
#include "parts.h"
#include <math.h>

/* What the user says of dropout goes before config.json. */
RengaHfParts RengaHfStartParts(RengaGraph graph, const RengaHfModel *model,
                               const RengaHfOptions *options)
{
  const RengaHfConfig *c = model->config;
  RengaHfParts p = {.graph = graph,
                    .family = model->family,
                    .names = model->family->names,
                    .config = c,
                    .sequence = options->sequence,
                    .positions = RENGA_VALUE_NONE,
                    .memory = RENGA_VALUE_NONE,
                    .mask = {RENGA_VALUE_NONE, RENGA_VALUE_NONE}};
  for (int i = 0; i < RENGA_HF_DROPOUTS; i++)
    p.dropout[i] = options->dropout >= 0 ? options->dropout : c->dropout[i];
  return p;
}

static double NarrowDeviation(const RengaHfParts *p)
{
  return p->config->deviation / sqrt(2.0 * (double)p->config->layers);
}

/* A product with a parameter, as the state dict has it. */
RengaErrorCode RengaHfAddProduct(const RengaHfParts *p, const char *part, RengaValue x,
                                 int64_t width, bool bias, RengaValue *y)
{
  char name[BLOCK_NAME], text[BLOCK_NAME];
  const RengaTensorSpec *spec = RengaGraphSpec(p->graph, x);
  const int64_t inputs = spec->dim[spec->ndim - 1];
  const bool narrows = part == p->names->projection || part == p->names->down;
  const double deviation = narrows ? NarrowDeviation(p) : p->config->deviation;
  const RengaTensorSpec shape = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {width}};
  RengaValue in[3] = {x, RENGA_VALUE_NONE, RENGA_VALUE_NONE};
  RengaBlockName(p->prefix, part, name);
  if (!p->family->transposed) {
    RengaCall(RengaGraphAddLinear(p->graph, name, x, width, bias, deviation, y));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaBlockTable(p->graph, RengaBlockName(name, ".weight", text), inputs, width,
                            deviation, &in[1]));
  if (bias)
    RengaCall(RengaGraphAddParameter(p->graph, RengaBlockName(name, ".bias", text), &shape, NULL,
                                     &in[2]));
  RengaCall(RengaBlockNode(p->graph, "Linear", name, NULL, 3, in, 1, y));
  return RENGA_SUCCESS;
}

/* Gemma's parameter is what is added to a factor of 1. */
static RengaErrorCode AddNormPlusOne(const RengaHfParts *p, const char *name, RengaValue x,
                                     RengaValue *y)
{
  const RengaTensorSpec *spec = RengaGraphSpec(p->graph, x), scalar = {.type = RENGA_FLOAT32};
  const RengaTensorSpec width = {
      .type = RENGA_FLOAT32, .ndim = 1, .dim = {spec->dim[spec->ndim - 1]}};
  char text[BLOCK_NAME];
  RengaAttributes attributes = {0};
  RengaValue weight, one, in[2] = {x, RENGA_VALUE_NONE};
  RengaCall(RengaGraphAddParameter(p->graph, RengaBlockName(name, ".weight", text), &width, NULL,
                                   &weight));
  RengaCall(RengaGraphAddConstant(p->graph, NULL, &scalar, &(float){1}, &one));
  RengaCall(RengaGraphAddAdd(p->graph, weight, one, &in[1]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", -1));
  RengaCall(RengaAttributesSetReal(&attributes, "epsilon", p->config->epsilon));
  RengaCall(RengaBlockNode(p->graph, "RMSNormalization", name, &attributes, 2, in, 1, y));
  return RENGA_SUCCESS;
}

/* A layer normalization without a bias. */
static RengaErrorCode AddBareNorm(const RengaHfParts *p, const char *name, RengaValue x,
                                  RengaValue *y)
{
  const RengaTensorSpec *spec = RengaGraphSpec(p->graph, x);
  const RengaTensorSpec width = {
      .type = RENGA_FLOAT32, .ndim = 1, .dim = {spec->dim[spec->ndim - 1]}};
  const RengaInit one = {.kind = RENGA_INIT_CONSTANT, .a = 1};
  char text[BLOCK_NAME];
  RengaAttributes attributes = {0};
  RengaValue in[2] = {x, RENGA_VALUE_NONE};
  RengaCall(RengaGraphAddParameter(p->graph, RengaBlockName(name, ".weight", text), &width, &one,
                                   &in[1]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", -1));
  RengaCall(RengaAttributesSetReal(&attributes, "epsilon", p->config->epsilon));
  RengaCall(RengaBlockNode(p->graph, "LayerNormalization", name, &attributes, 2, in, 1, y));
  return RENGA_SUCCESS;
}

/* part NULL: there is none, y is x. */
RengaErrorCode RengaHfAddNorm(const RengaHfParts *p, const char *part, RengaValue x, RengaValue *y)
{
  char name[BLOCK_NAME];
  *y = x;
  if (!part) return RENGA_SUCCESS;
  RengaBlockName(p->prefix, part, name);
  if (p->family->norm == RENGA_HF_LAYER && p->family->bare_norms &&
      !p->config->bias[RENGA_HF_BIAS_NORM])
    RengaCall(AddBareNorm(p, name, x, y));
  else if (p->family->norm == RENGA_HF_LAYER)
    RengaCall(RengaGraphAddLayerNormalization(p->graph, name, x, p->config->epsilon, y));
  else if (p->family->norm == RENGA_HF_RMS)
    RengaCall(RengaBlockRmsNormalization(p->graph, name, x, p->config->epsilon, y));
  else
    RengaCall(AddNormPlusOne(p, name, x, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddSplit(RengaGraph graph, RengaValue x, int axis, int count,
                               const int64_t sizes[], RengaValue part[])
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "axis", axis));
  RengaCall(RengaAttributesSetInts(&attributes, "split", count, sizes));
  RengaCall(RengaBlockNode(graph, "Split", NULL, &attributes, 1, &x, count, part));
  return RENGA_SUCCESS;
}

/* (a, b, rest) -> (-b, a, rest): a and b are the halves of what turns. */
static RengaErrorCode AddRopeQuarter(const RengaHfParts *p, RengaValue x, RengaValue *y)
{
  const int64_t width = p->config->head_width;
  const int64_t half = (int64_t)((double)width * p->config->rope[0].share) / 2;
  const int64_t sizes[] = {half, half, width - 2 * half};
  const int count = sizes[2] > 0 ? 3 : 2;
  RengaAttributes attributes = {0};
  RengaValue part[3], turned[3];
  RengaCall(AddSplit(p->graph, x, 3, count, sizes, part));
  RengaCall(RengaGraphAddUnary(p->graph, "Neg", part[1], &turned[0]));
  turned[1] = part[0];
  turned[2] = count > 2 ? part[2] : RENGA_VALUE_NONE;
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 3));
  RengaCall(RengaBlockNode(p->graph, "Concat", NULL, &attributes, count, turned, 1, y));
  return RENGA_SUCCESS;
}

/* x [N, heads, places, width]; the sines of what does not turn are 0. */
static RengaErrorCode AddRopeTurn(const RengaHfParts *p, RengaValue *x)
{
  RengaValue along[2] = {*x, p->cosine[p->local]},
             across[2] = {RENGA_VALUE_NONE, p->sine[p->local]};
  if (p->config->rope[0].share == 0) return RENGA_SUCCESS;
  RengaCall(AddRopeQuarter(p, *x, &across[0]));
  RengaCall(RengaBlockNode(p->graph, "Mul", NULL, NULL, 2, along, 1, &along[0]));
  RengaCall(RengaBlockNode(p->graph, "Mul", NULL, NULL, 2, across, 1, &across[0]));
  RengaCall(RengaGraphAddAdd(p->graph, along[0], across[0], x));
  return RENGA_SUCCESS;
}

/* Cosines and sines of the angles of blocks of a kind. */
RengaErrorCode RengaHfAddAngles(RengaHfParts *p, int kind)
{
  const int64_t width = p->config->head_width;
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {p->sequence, width}};
  const RengaHfRope *rope = &p->config->rope[kind];
  float *cosines = NULL, *sines = NULL;
  RengaErrorCode code = RengaMalloc(p->sequence * width, &cosines);
  if (!code) code = RengaMalloc(p->sequence * width, &sines);
  if (!code) RengaHfFillAngles(rope, p->config->places, p->sequence, width, cosines, sines);
  if (!code) code = RengaGraphAddConstant(p->graph, NULL, &spec, cosines, &p->cosine[kind]);
  if (!code) code = RengaGraphAddConstant(p->graph, NULL, &spec, sines, &p->sine[kind]);
  RengaFree(&cosines);
  RengaFree(&sines);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* name: of the result, or NULL */
RengaErrorCode RengaHfAddFactor(RengaGraph graph, double factor, const char *name, RengaValue *x)
{
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  RengaValue in[2] = {*x, RENGA_VALUE_NONE};
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &(float){(float)factor}, &in[1]));
  RengaCall(RengaBlockNode(graph, "Mul", name, NULL, 2, in, 1, x));
  return RENGA_SUCCESS;
}

/* ---- attention ---- */
/* Each head has its own columns of queries, keys and values: x [N, places, heads * 3 * width]. */
static RengaErrorCode SplitByHead(const RengaHfParts *p, RengaValue x, RengaBlockHeads *heads)
{
  const RengaHfConfig *c = p->config;
  const int64_t apart[] = {-1, p->sequence, c->heads, 3, c->head_width}, order[] = {3, 0, 2, 1, 4};
  const int64_t one[] = {-1, c->heads, p->sequence, c->head_width}, sizes[] = {1, 1, 1};
  RengaValue part[3];
  RengaCall(RengaGraphAddReshape(p->graph, x, 5, apart, &x));
  RengaCall(RengaGraphAddTranspose(p->graph, x, order, &x));
  RengaCall(AddSplit(p->graph, x, 0, 3, sizes, part));
  RengaCall(RengaGraphAddReshape(p->graph, part[0], 4, one, &heads->q));
  RengaCall(RengaGraphAddReshape(p->graph, part[1], 4, one, &heads->k));
  RengaCall(RengaGraphAddReshape(p->graph, part[2], 4, one, &heads->v));
  return RENGA_SUCCESS;
}

/* Queries, keys and values [N, heads or groups, places, width] of one product. */
static RengaErrorCode AddJoinedHeads(const RengaHfParts *p, RengaValue x, RengaBlockHeads *heads)
{
  const RengaHfConfig *c = p->config;
  const int64_t queries = c->heads * c->head_width, keys = c->groups * c->head_width;
  const int64_t sizes[] = {queries, keys, keys};
  RengaValue part[3];
  RengaCall(
      RengaHfAddProduct(p, p->names->qkv, x, queries + 2 * keys, c->bias[RENGA_HF_BIAS_QKV], &x));
  if (p->family->columns == RENGA_HF_BY_HEAD) {
    RengaCall(SplitByHead(p, x, heads));
    return RENGA_SUCCESS;
  }
  RengaCall(AddSplit(p->graph, x, 2, 3, sizes, part));
  RengaCall(RengaBlockSplitHeads(p->graph, part[0], 1, c->heads, &heads->q));
  RengaCall(RengaBlockSplitHeads(p->graph, part[1], 1, c->groups, &heads->k));
  RengaCall(RengaBlockSplitHeads(p->graph, part[2], 1, c->groups, &heads->v));
  return RENGA_SUCCESS;
}

/* One of them, of a product of its own; norm: of its numbers, or NULL. */
static RengaErrorCode AddOwnHeads(const RengaHfParts *p, const char *part, const char *norm,
                                  int64_t count, RengaValue x, RengaValue *y)
{
  const RengaHfConfig *c = p->config;
  const bool bias = c->bias[RENGA_HF_BIAS_QKV] && !(p->family->bare_keys && part == p->names->k);
  RengaCall(RengaHfAddProduct(p, part, x, count * c->head_width, bias, &x));
  if (p->family->wide_norm) RengaCall(RengaHfAddNorm(p, norm, x, &x));
  RengaCall(RengaBlockSplitHeads(p->graph, x, 1, count, &x));
  if (!p->family->wide_norm) RengaCall(RengaHfAddNorm(p, norm, x, &x));
  *y = x;
  return RENGA_SUCCESS;
}

/* Keys and values are those of the memory where there is one. */
static RengaErrorCode AddQueriesKeysValues(const RengaHfParts *p, RengaValue x, RengaValue memory,
                                           RengaBlockHeads *heads)
{
  const RengaHfNames *n = p->names;
  if (n->qkv) {
    RengaCall(AddJoinedHeads(p, x, heads));
  } else {
    RengaCall(AddOwnHeads(p, n->q, n->q_norm, p->config->heads, x, &heads->q));
    RengaCall(AddOwnHeads(p, n->k, n->k_norm, p->config->groups, memory, &heads->k));
    RengaCall(AddOwnHeads(p, n->v, NULL, p->config->groups, memory, &heads->v));
  }
  RengaCall(AddRopeTurn(p, &heads->q));
  RengaCall(AddRopeTurn(p, &heads->k));
  return RENGA_SUCCESS;
}

/* [N, groups, places, width] -> [N, heads, places, width] */
static RengaErrorCode ShareAmongHeads(const RengaHfParts *p, RengaValue *x)
{
  const RengaHfConfig *c = p->config;
  const int64_t apart[] = {-1, c->groups, 1, p->sequence, c->head_width};
  const int64_t joined[] = {-1, c->heads, p->sequence, c->head_width};
  const RengaTensorSpec shared = {
      .type = RENGA_FLOAT32,
      .ndim = 5,
      .dim = {-1, c->groups, c->heads / c->groups, p->sequence, c->head_width}};
  RengaValue y;
  if (c->groups == c->heads) return RENGA_SUCCESS;
  RengaCall(RengaGraphAddReshape(p->graph, *x, 5, apart, x));
  RengaCall(RengaGraphAddNode(p->graph, "Expand", NULL, NULL, 1, x, 1, &shared, &y));
  RengaCall(RengaGraphAddReshape(p->graph, y, 4, joined, x));
  return RENGA_SUCCESS;
}

/* cap * tanh(x / cap) */
RengaErrorCode RengaHfAddCap(RengaGraph graph, double cap, const char *name, RengaValue *x)
{
  RengaCall(RengaHfAddFactor(graph, 1 / cap, NULL, x));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", *x, x));
  RengaCall(RengaHfAddFactor(graph, cap, name, x));
  return RENGA_SUCCESS;
}

/* Attention whose scores stay below a cap, by its parts. */
static RengaErrorCode AddCappedAttention(const RengaHfParts *p, const RengaBlockHeads *heads,
                                         RengaValue *y)
{
  const int64_t flip[] = {0, 1, 3, 2};
  RengaValue x, k;
  RengaCall(RengaGraphAddTranspose(p->graph, heads->k, flip, &k));
  RengaCall(RengaGraphAddMatMul(p->graph, heads->q, k, &x));
  RengaCall(RengaHfAddFactor(p->graph, heads->scale, NULL, &x));
  RengaCall(RengaHfAddCap(p->graph, p->config->attention_cap, NULL, &x));
  RengaCall(RengaGraphAddAdd(p->graph, x, heads->mask, &x));
  RengaCall(RengaGraphAddUnary(p->graph, "Softmax", x, &x));
  RengaCall(RengaGraphAddDropout(p->graph, x, heads->dropout, &x));
  RengaCall(RengaGraphAddMatMul(p->graph, x, heads->v, y));
  return RENGA_SUCCESS;
}

/* projection(attention(x)) */
static RengaErrorCode AddAttentionTo(const RengaHfParts *p, RengaValue x, RengaValue memory,
                                     RengaValue *y)
{
  const RengaHfConfig *c = p->config;
  RengaBlockHeads heads = {.mask = p->mask[p->local],
                           .scale = c->attention_scale,
                           .dropout = p->dropout[RENGA_HF_OF_ATTENTION],
                           .causal = p->causal};
  RengaCall(AddQueriesKeysValues(p, x, memory, &heads));
  RengaCall(ShareAmongHeads(p, &heads.k));
  RengaCall(ShareAmongHeads(p, &heads.v));
  if (c->attention_cap > 0)
    RengaCall(AddCappedAttention(p, &heads, &x));
  else
    RengaCall(RengaBlockAttention(p->graph, &heads, &x));
  RengaCall(RengaBlockJoinHeads(p->graph, x, &x));
  RengaCall(
      RengaHfAddProduct(p, p->names->projection, x, c->hidden, c->bias[RENGA_HF_BIAS_ALL], y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfAddAttention(const RengaHfParts *p, RengaValue x, RengaValue *y)
{
  RengaCall(AddAttentionTo(p, x, x, y));
  return RENGA_SUCCESS;
}

/* ---- the rest of a block ---- */
RengaErrorCode RengaHfAddActivation(const RengaHfParts *p, RengaHfActivation activation,
                                    RengaValue x, RengaValue *y)
{
  static const char *const ops[] = {"Swish", "Gelu", "Gelu", "Relu"};
  RengaAttributes attributes = {0};
  if (activation == RENGA_HF_GELU_TANH)
    RengaCall(RengaAttributesSetString(&attributes, "approximate", "tanh"));
  RengaCall(RengaBlockNode(p->graph, ops[activation], NULL, &attributes, 1, &x, 1, y));
  return RENGA_SUCCESS;
}

/* down(activation(gate(x)) * up(x)), or down(activation(up(x))) */
RengaErrorCode RengaHfAddFeedForward(const RengaHfParts *p, RengaValue x, RengaValue *y)
{
  const RengaHfConfig *c = p->config;
  const RengaHfNames *n = p->names;
  const int64_t halves[] = {c->intermediate, c->intermediate};
  RengaValue pair[2];
  if (n->gate_up) {
    RengaCall(
        RengaHfAddProduct(p, n->gate_up, x, 2 * c->intermediate, c->bias[RENGA_HF_BIAS_FEED], &x));
    RengaCall(AddSplit(p->graph, x, 2, 2, halves, pair));
  } else {
    if (n->gate)
      RengaCall(
          RengaHfAddProduct(p, n->gate, x, c->intermediate, c->bias[RENGA_HF_BIAS_FEED], &pair[0]));
    RengaCall(
        RengaHfAddProduct(p, n->up, x, c->intermediate, c->bias[RENGA_HF_BIAS_FEED], &pair[1]));
    if (!n->gate) pair[0] = pair[1];
  }
  RengaCall(RengaHfAddActivation(p, c->activation, pair[0], &x));
  pair[0] = x;
  if (n->gate || n->gate_up) RengaCall(RengaBlockNode(p->graph, "Mul", NULL, NULL, 2, pair, 1, &x));
  RengaCall(RengaHfAddProduct(p, n->down, x, c->hidden, c->bias[RENGA_HF_BIAS_FEED], y));
  return RENGA_SUCCESS;
}

/* x + dropout(scale * norm(y)) */
static RengaErrorCode AddScaledResidual(const RengaHfParts *p, const char *norm, RengaValue x,
                                        RengaValue y, RengaValue *sum)
{
  RengaCall(RengaHfAddNorm(p, norm, y, &y));
  if (p->config->residual_scale != 1)
    RengaCall(RengaHfAddFactor(p->graph, p->config->residual_scale, NULL, &y));
  RengaCall(RengaBlockResidual(p->graph, x, y, p->dropout[RENGA_HF_OF_RESIDUALS], sum));
  return RENGA_SUCCESS;
}

/* x + attention(norm(x)) to all places of the encoder's result */
static RengaErrorCode AddCrossAttention(const RengaHfParts *p, RengaValue *x)
{
  RengaHfParts cross = *p;
  RengaValue y;
  cross.names = p->names->cross;
  cross.causal = false;
  RengaCall(RengaHfAddNorm(&cross, cross.names->before_attention, *x, &y));
  RengaCall(AddAttentionTo(&cross, y, p->memory, &y));
  RengaCall(AddScaledResidual(p, NULL, *x, y, x));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfAddBlock(const RengaHfParts *p, RengaValue *x)
{
  const RengaHfNames *n = p->names;
  RengaValue normed, y, other = *x;
  RengaCall(RengaHfAddNorm(p, n->before_attention, *x, &normed));
  RengaCall(RengaHfAddAttention(p, normed, &y));
  RengaCall(AddScaledResidual(p, n->after_attention, *x, y, x));
  if (p->memory != RENGA_VALUE_NONE) RengaCall(AddCrossAttention(p, x));
  if (!p->config->parallel) other = *x;
  if (n->before_feed || !p->config->parallel)
    RengaCall(RengaHfAddNorm(p, n->before_feed, other, &normed));
  RengaCall(RengaHfAddFeedForward(p, normed, &y));
  RengaCall(AddScaledResidual(p, n->after_feed, *x, y, x));
  return RENGA_SUCCESS;
}
