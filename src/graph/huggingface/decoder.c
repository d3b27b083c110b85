/* The decoder of a Hugging Face folder: one builder for all families, whose parts are those that
   the family has names for. */
#include "huggingface.h"
#include <math.h>

enum { FULL, LOCAL, KINDS };

typedef struct {
  RengaGraph graph;
  const RengaHfFamily *family;
  const RengaHfNames *names;
  const RengaHfConfig *config;
  int64_t sequence;
  double dropout[RENGA_HF_DROPOUTS];
  RengaValue cosine[KINDS], sine[KINDS],
      mask[KINDS]; /* [places, width], [places, places] or NONE */
  bool local;      /* of the block */
  char prefix[64]; /* of its names */
} Decoder;

static double NarrowDeviation(const Decoder *d)
{
  return d->config->deviation / sqrt(2.0 * (double)d->config->layers);
}

/* A product with a parameter, as the state dict has it. */
static RengaErrorCode AddNamedProduct(const Decoder *d, const char *part, RengaValue x,
                                      int64_t width, bool bias, RengaValue *y)
{
  char name[BLOCK_NAME], text[BLOCK_NAME];
  const RengaTensorSpec *spec = RengaGraphSpec(d->graph, x);
  const int64_t inputs = spec->dim[spec->ndim - 1];
  const bool narrows = part == d->names->projection || part == d->names->down;
  const double deviation = narrows ? NarrowDeviation(d) : d->config->deviation;
  const RengaTensorSpec shape = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {width}};
  RengaValue in[3] = {x, RENGA_VALUE_NONE, RENGA_VALUE_NONE};
  RengaBlockName(d->prefix, part, name);
  if (!d->family->transposed) {
    RengaCall(RengaGraphAddLinear(d->graph, name, x, width, bias, deviation, y));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaBlockTable(d->graph, RengaBlockName(name, ".weight", text), inputs, width,
                            deviation, &in[1]));
  if (bias)
    RengaCall(RengaGraphAddParameter(d->graph, RengaBlockName(name, ".bias", text), &shape, NULL,
                                     &in[2]));
  RengaCall(RengaBlockNode(d->graph, "Linear", name, NULL, 3, in, 1, y));
  return RENGA_SUCCESS;
}

/* Gemma's parameter is what is added to a factor of 1. */
static RengaErrorCode AddNormPlusOne(const Decoder *d, const char *name, RengaValue x,
                                     RengaValue *y)
{
  const RengaTensorSpec *spec = RengaGraphSpec(d->graph, x), scalar = {.type = RENGA_FLOAT32};
  const RengaTensorSpec width = {
      .type = RENGA_FLOAT32, .ndim = 1, .dim = {spec->dim[spec->ndim - 1]}};
  char text[BLOCK_NAME];
  RengaAttributes attributes = {0};
  RengaValue weight, one, in[2] = {x, RENGA_VALUE_NONE};
  RengaCall(RengaGraphAddParameter(d->graph, RengaBlockName(name, ".weight", text), &width, NULL,
                                   &weight));
  RengaCall(RengaGraphAddConstant(d->graph, NULL, &scalar, &(float){1}, &one));
  RengaCall(RengaGraphAddAdd(d->graph, weight, one, &in[1]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", -1));
  RengaCall(RengaAttributesSetReal(&attributes, "epsilon", d->config->epsilon));
  RengaCall(RengaBlockNode(d->graph, "RMSNormalization", name, &attributes, 2, in, 1, y));
  return RENGA_SUCCESS;
}

/* part NULL: there is none, y is x. */
static RengaErrorCode AddNorm(const Decoder *d, const char *part, RengaValue x, RengaValue *y)
{
  char name[BLOCK_NAME];
  *y = x;
  if (!part) return RENGA_SUCCESS;
  RengaBlockName(d->prefix, part, name);
  if (d->family->norm == RENGA_HF_LAYER)
    RengaCall(RengaGraphAddLayerNormalization(d->graph, name, x, d->config->epsilon, y));
  else if (d->family->norm == RENGA_HF_RMS)
    RengaCall(RengaBlockRmsNormalization(d->graph, name, x, d->config->epsilon, y));
  else
    RengaCall(AddNormPlusOne(d, name, x, y));
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

/* ---- positions ---- */
static RengaErrorCode AddRopeAngles(const Decoder *d, const RengaHfRope *rope, RengaValue *cosine,
                                    RengaValue *sine)
{
  const int64_t width = d->config->head_width;
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {d->sequence, width}};
  float *cosines = NULL, *sines = NULL;
  RengaErrorCode code = RengaMalloc(d->sequence * width, &cosines);
  if (!code) code = RengaMalloc(d->sequence * width, &sines);
  if (!code) RengaHfFillAngles(rope, d->sequence, width, cosines, sines);
  if (!code) code = RengaGraphAddConstant(d->graph, NULL, &spec, cosines, cosine);
  if (!code) code = RengaGraphAddConstant(d->graph, NULL, &spec, sines, sine);
  RengaFree(&cosines);
  RengaFree(&sines);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* (a, b, rest) -> (-b, a, rest): a and b are the halves of what turns. */
static RengaErrorCode AddRopeQuarter(const Decoder *d, RengaValue x, RengaValue *y)
{
  const int64_t width = d->config->head_width;
  const int64_t half = (int64_t)((double)width * d->config->rope[0].share) / 2;
  const int64_t sizes[] = {half, half, width - 2 * half};
  const int count = sizes[2] > 0 ? 3 : 2;
  RengaAttributes attributes = {0};
  RengaValue part[3], turned[3];
  RengaCall(AddSplit(d->graph, x, 3, count, sizes, part));
  RengaCall(RengaGraphAddUnary(d->graph, "Neg", part[1], &turned[0]));
  turned[1] = part[0];
  turned[2] = count > 2 ? part[2] : RENGA_VALUE_NONE;
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 3));
  RengaCall(RengaBlockNode(d->graph, "Concat", NULL, &attributes, count, turned, 1, y));
  return RENGA_SUCCESS;
}

/* x [N, heads, places, width]; the sines of what does not turn are 0. */
static RengaErrorCode AddRopeTurn(const Decoder *d, RengaValue *x)
{
  RengaValue along[2] = {*x, d->cosine[d->local]},
             across[2] = {RENGA_VALUE_NONE, d->sine[d->local]};
  if (d->config->rope[0].share == 0) return RENGA_SUCCESS;
  RengaCall(AddRopeQuarter(d, *x, &across[0]));
  RengaCall(RengaBlockNode(d->graph, "Mul", NULL, NULL, 2, along, 1, &along[0]));
  RengaCall(RengaBlockNode(d->graph, "Mul", NULL, NULL, 2, across, 1, &across[0]));
  RengaCall(RengaGraphAddAdd(d->graph, along[0], across[0], x));
  return RENGA_SUCCESS;
}

/* What is added to scores: minus infinity where a place may not be attended to. Attention alone
   sees to what comes later. */
static RengaErrorCode AddWindowMask(const Decoder *d, bool causal, int64_t window, RengaValue *mask)
{
  const int64_t places = d->sequence;
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {places, places}};
  float *numbers = NULL;
  RengaCall(RengaMalloc(places * places, &numbers));
  for (int64_t i = 0; i < places * places; i++) {
    const int64_t back = i / places - i % places;
    numbers[i] = (causal && back < 0) || (window > 0 && back >= window) ? -INFINITY : 0;
  }
  const RengaErrorCode code = RengaGraphAddConstant(d->graph, NULL, &spec, numbers, mask);
  RengaFree(&numbers);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Constants of blocks without and with a window, as far as there are any. */
static RengaErrorCode AddConstants(Decoder *d, const bool local[])
{
  const RengaHfConfig *c = d->config;
  bool has[KINDS] = {false, false};
  const bool causal = c->attention_cap > 0;
  for (int64_t i = 0; i < c->layers; i++) has[local[i]] = true;
  for (int k = 0; k < KINDS; k++) {
    const int64_t window = k == LOCAL && c->window < d->sequence ? c->window : 0;
    d->mask[k] = RENGA_VALUE_NONE;
    if (!has[k]) continue;
    if (c->rope[0].share > 0) RengaCall(AddRopeAngles(d, &c->rope[k], &d->cosine[k], &d->sine[k]));
    if (causal || window > 0) RengaCall(AddWindowMask(d, causal, window, &d->mask[k]));
  }
  return RENGA_SUCCESS;
}

/* ---- attention ---- */
/* Each head has its own columns of queries, keys and values: x [N, places, heads * 3 * width]. */
static RengaErrorCode SplitByHead(const Decoder *d, RengaValue x, RengaBlockHeads *heads)
{
  const RengaHfConfig *c = d->config;
  const int64_t apart[] = {-1, d->sequence, c->heads, 3, c->head_width}, order[] = {3, 0, 2, 1, 4};
  const int64_t one[] = {-1, c->heads, d->sequence, c->head_width}, sizes[] = {1, 1, 1};
  RengaValue part[3];
  RengaCall(RengaGraphAddReshape(d->graph, x, 5, apart, &x));
  RengaCall(RengaGraphAddTranspose(d->graph, x, order, &x));
  RengaCall(AddSplit(d->graph, x, 0, 3, sizes, part));
  RengaCall(RengaGraphAddReshape(d->graph, part[0], 4, one, &heads->q));
  RengaCall(RengaGraphAddReshape(d->graph, part[1], 4, one, &heads->k));
  RengaCall(RengaGraphAddReshape(d->graph, part[2], 4, one, &heads->v));
  return RENGA_SUCCESS;
}

/* Queries, keys and values [N, heads or groups, places, width] of one product. */
static RengaErrorCode AddJoinedHeads(const Decoder *d, RengaValue x, RengaBlockHeads *heads)
{
  const RengaHfConfig *c = d->config;
  const int64_t queries = c->heads * c->head_width, keys = c->groups * c->head_width;
  const int64_t sizes[] = {queries, keys, keys};
  RengaValue part[3];
  RengaCall(AddNamedProduct(d, d->names->qkv, x, queries + 2 * keys, c->qkv_bias, &x));
  if (d->family->columns == RENGA_HF_BY_HEAD) {
    RengaCall(SplitByHead(d, x, heads));
    return RENGA_SUCCESS;
  }
  RengaCall(AddSplit(d->graph, x, 2, 3, sizes, part));
  RengaCall(RengaBlockSplitHeads(d->graph, part[0], 1, c->heads, &heads->q));
  RengaCall(RengaBlockSplitHeads(d->graph, part[1], 1, c->groups, &heads->k));
  RengaCall(RengaBlockSplitHeads(d->graph, part[2], 1, c->groups, &heads->v));
  return RENGA_SUCCESS;
}

/* One of them, of a product of its own; norm: of its numbers, or NULL. */
static RengaErrorCode AddOwnHeads(const Decoder *d, const char *part, const char *norm,
                                  int64_t count, RengaValue x, RengaValue *y)
{
  const RengaHfConfig *c = d->config;
  RengaCall(AddNamedProduct(d, part, x, count * c->head_width, c->qkv_bias, &x));
  if (d->family->wide_norm) RengaCall(AddNorm(d, norm, x, &x));
  RengaCall(RengaBlockSplitHeads(d->graph, x, 1, count, &x));
  if (!d->family->wide_norm) RengaCall(AddNorm(d, norm, x, &x));
  *y = x;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddQueriesKeysValues(const Decoder *d, RengaValue x, RengaBlockHeads *heads)
{
  const RengaHfNames *n = d->names;
  if (n->qkv) {
    RengaCall(AddJoinedHeads(d, x, heads));
  } else {
    RengaCall(AddOwnHeads(d, n->q, n->q_norm, d->config->heads, x, &heads->q));
    RengaCall(AddOwnHeads(d, n->k, n->k_norm, d->config->groups, x, &heads->k));
    RengaCall(AddOwnHeads(d, n->v, NULL, d->config->groups, x, &heads->v));
  }
  RengaCall(AddRopeTurn(d, &heads->q));
  RengaCall(AddRopeTurn(d, &heads->k));
  return RENGA_SUCCESS;
}

/* [N, groups, places, width] -> [N, heads, places, width] */
static RengaErrorCode ShareAmongHeads(const Decoder *d, RengaValue *x)
{
  const RengaHfConfig *c = d->config;
  const int64_t apart[] = {-1, c->groups, 1, d->sequence, c->head_width};
  const int64_t joined[] = {-1, c->heads, d->sequence, c->head_width};
  const RengaTensorSpec shared = {
      .type = RENGA_FLOAT32,
      .ndim = 5,
      .dim = {-1, c->groups, c->heads / c->groups, d->sequence, c->head_width}};
  RengaValue y;
  if (c->groups == c->heads) return RENGA_SUCCESS;
  RengaCall(RengaGraphAddReshape(d->graph, *x, 5, apart, x));
  RengaCall(RengaGraphAddNode(d->graph, "Expand", NULL, NULL, 1, x, 1, &shared, &y));
  RengaCall(RengaGraphAddReshape(d->graph, y, 4, joined, x));
  return RENGA_SUCCESS;
}

/* name: of the result, or NULL */
static RengaErrorCode AddFactor(RengaGraph graph, double factor, const char *name, RengaValue *x)
{
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  RengaValue in[2] = {*x, RENGA_VALUE_NONE};
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &(float){(float)factor}, &in[1]));
  RengaCall(RengaBlockNode(graph, "Mul", name, NULL, 2, in, 1, x));
  return RENGA_SUCCESS;
}

/* cap * tanh(x / cap) */
static RengaErrorCode AddCap(RengaGraph graph, double cap, const char *name, RengaValue *x)
{
  RengaCall(AddFactor(graph, 1 / cap, NULL, x));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", *x, x));
  RengaCall(AddFactor(graph, cap, name, x));
  return RENGA_SUCCESS;
}

/* Attention whose scores stay below a cap, by its parts. */
static RengaErrorCode AddCappedAttention(const Decoder *d, const RengaBlockHeads *heads,
                                         RengaValue *y)
{
  const int64_t flip[] = {0, 1, 3, 2};
  RengaValue x, k;
  RengaCall(RengaGraphAddTranspose(d->graph, heads->k, flip, &k));
  RengaCall(RengaGraphAddMatMul(d->graph, heads->q, k, &x));
  RengaCall(AddFactor(d->graph, heads->scale, NULL, &x));
  RengaCall(AddCap(d->graph, d->config->attention_cap, NULL, &x));
  RengaCall(RengaGraphAddAdd(d->graph, x, heads->mask, &x));
  RengaCall(RengaGraphAddUnary(d->graph, "Softmax", x, &x));
  RengaCall(RengaGraphAddDropout(d->graph, x, heads->dropout, &x));
  RengaCall(RengaGraphAddMatMul(d->graph, x, heads->v, y));
  return RENGA_SUCCESS;
}

/* projection(attention(x)) */
static RengaErrorCode AddAttention(const Decoder *d, RengaValue x, RengaValue *y)
{
  const RengaHfConfig *c = d->config;
  RengaBlockHeads heads = {.mask = d->mask[d->local],
                           .scale = c->attention_scale,
                           .dropout = d->dropout[RENGA_HF_OF_ATTENTION],
                           .causal = true};
  RengaCall(AddQueriesKeysValues(d, x, &heads));
  RengaCall(ShareAmongHeads(d, &heads.k));
  RengaCall(ShareAmongHeads(d, &heads.v));
  if (c->attention_cap > 0)
    RengaCall(AddCappedAttention(d, &heads, &x));
  else
    RengaCall(RengaBlockAttention(d->graph, &heads, &x));
  RengaCall(RengaBlockJoinHeads(d->graph, x, &x));
  RengaCall(AddNamedProduct(d, d->names->projection, x, c->hidden, c->all_bias, y));
  return RENGA_SUCCESS;
}

/* ---- the rest of a block ---- */
static RengaErrorCode AddFeedActivation(const Decoder *d, RengaValue x, RengaValue *y)
{
  static const char *const ops[] = {"Swish", "Gelu", "Gelu", "Relu"};
  const RengaHfActivation activation = d->config->activation;
  RengaAttributes attributes = {0};
  if (activation == RENGA_HF_GELU_TANH)
    RengaCall(RengaAttributesSetString(&attributes, "approximate", "tanh"));
  RengaCall(RengaBlockNode(d->graph, ops[activation], NULL, &attributes, 1, &x, 1, y));
  return RENGA_SUCCESS;
}

/* down(activation(gate(x)) * up(x)), or down(activation(up(x))) */
static RengaErrorCode AddFeedForward(const Decoder *d, RengaValue x, RengaValue *y)
{
  const RengaHfConfig *c = d->config;
  const RengaHfNames *n = d->names;
  const int64_t halves[] = {c->intermediate, c->intermediate};
  RengaValue pair[2];
  if (n->gate_up) {
    RengaCall(AddNamedProduct(d, n->gate_up, x, 2 * c->intermediate, c->feed_bias, &x));
    RengaCall(AddSplit(d->graph, x, 2, 2, halves, pair));
  } else {
    if (n->gate) RengaCall(AddNamedProduct(d, n->gate, x, c->intermediate, c->feed_bias, &pair[0]));
    RengaCall(AddNamedProduct(d, n->up, x, c->intermediate, c->feed_bias, &pair[1]));
    if (!n->gate) pair[0] = pair[1];
  }
  RengaCall(AddFeedActivation(d, pair[0], &x));
  pair[0] = x;
  if (n->gate || n->gate_up) RengaCall(RengaBlockNode(d->graph, "Mul", NULL, NULL, 2, pair, 1, &x));
  RengaCall(AddNamedProduct(d, n->down, x, c->hidden, c->feed_bias, y));
  return RENGA_SUCCESS;
}

/* x + dropout(scale * norm(y)) */
static RengaErrorCode AddResidual(const Decoder *d, const char *norm, RengaValue x, RengaValue y,
                                  RengaValue *sum)
{
  RengaCall(AddNorm(d, norm, y, &y));
  if (d->config->residual_scale != 1)
    RengaCall(AddFactor(d->graph, d->config->residual_scale, NULL, &y));
  RengaCall(RengaBlockResidual(d->graph, x, y, d->dropout[RENGA_HF_OF_RESIDUALS], sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddBlock(const Decoder *d, RengaValue *x)
{
  const RengaHfNames *n = d->names;
  RengaValue normed, y, other = *x;
  RengaCall(AddNorm(d, n->before_attention, *x, &normed));
  RengaCall(AddAttention(d, normed, &y));
  RengaCall(AddResidual(d, n->after_attention, *x, y, x));
  if (!d->config->parallel) other = *x;
  if (n->before_feed || !d->config->parallel) RengaCall(AddNorm(d, n->before_feed, other, &normed));
  RengaCall(AddFeedForward(d, normed, &y));
  RengaCall(AddResidual(d, n->after_feed, *x, y, x));
  return RENGA_SUCCESS;
}

/* ---- ends ---- */
/* The learned positions of the first places, all samples alike. */
static RengaErrorCode AddPlaces(const Decoder *d, RengaValue *x)
{
  const RengaHfConfig *c = d->config;
  char text[BLOCK_NAME];
  RengaAttributes attributes = {0};
  RengaValue table;
  if (!d->names->places) return RENGA_SUCCESS;
  RengaCall(RengaBlockTable(d->graph, RengaBlockName(d->names->places, ".weight", text), c->places,
                            c->hidden, c->deviation, &table));
  if (d->sequence < c->places) {
    RengaCall(RengaAttributesSetInts(&attributes, "starts", 1, (const int64_t[]){0}));
    RengaCall(RengaAttributesSetInts(&attributes, "ends", 1, &d->sequence));
    RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){0}));
    RengaCall(
        RengaBlockNode(d->graph, "Slice", NULL, &attributes, 1, &(RengaValue){table}, 1, &table));
  }
  RengaCall(RengaGraphAddAdd(d->graph, *x, table, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTokenEmbedding(const Decoder *d, RengaValue tokens, RengaValue *table,
                                        RengaValue *x)
{
  const RengaHfConfig *c = d->config;
  char text[BLOCK_NAME];
  RengaAttributes attributes = {0};
  RengaCall(RengaBlockTable(d->graph, RengaBlockName(d->names->table, ".weight", text),
                            c->vocabulary, c->hidden, c->deviation, table));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 0));
  RengaCall(RengaAttributesSetInt(&attributes, "padding", c->padding - 1));
  RengaCall(RengaBlockNode(d->graph, "Gather", NULL, &attributes, 2,
                           (const RengaValue[]){*table, tokens}, 1, x));
  if (c->embedding_scale != 1) RengaCall(AddFactor(d->graph, c->embedding_scale, NULL, x));
  RengaCall(AddPlaces(d, x));
  RengaCall(RengaGraphAddDropout(d->graph, *x, d->dropout[RENGA_HF_OF_EMBEDDINGS], x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddScores(const Decoder *d, RengaValue x, RengaValue table,
                                RengaValue *scores)
{
  const RengaHfConfig *c = d->config;
  const RengaTensorSpec shape = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {c->vocabulary}};
  const bool plain = c->score_divisor == 1 && c->score_cap == 0;
  char text[BLOCK_NAME];
  RengaValue bias = RENGA_VALUE_NONE;
  if (!c->tied)
    RengaCall(RengaBlockTable(d->graph, RengaBlockName(d->names->head, ".weight", text),
                              c->vocabulary, c->hidden, c->deviation, &table));
  if (d->family->head_bias)
    RengaCall(RengaGraphAddParameter(d->graph, RengaBlockName(d->names->head, ".bias", text),
                                     &shape, NULL, &bias));
  RengaCall(RengaBlockScores(d->graph, plain ? "logits" : NULL, x, table, bias, scores));
  if (c->score_cap > 0)
    RengaCall(AddCap(d->graph, c->score_cap, "logits", scores));
  else if (!plain)
    RengaCall(AddFactor(d->graph, 1 / c->score_divisor, "logits", scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddDecoder(Decoder *d, const bool local[], RengaValue tokens,
                                 RengaValue *scores)
{
  RengaValue table, x;
  RengaCall(AddConstants(d, local));
  RengaCall(AddTokenEmbedding(d, tokens, &table, &x));
  for (int64_t i = 0; i < d->config->layers; i++) {
    snprintf(d->prefix, sizeof d->prefix, "%s%lld.", d->names->blocks, (long long)i);
    d->local = local[i];
    RengaCall(AddBlock(d, &x));
  }
  d->prefix[0] = '\0';
  RengaCall(AddNorm(d, d->names->last, x, &x));
  RengaCall(AddScores(d, x, table, scores));
  return RENGA_SUCCESS;
}

/* What the user says of dropout goes before config.json. */
static Decoder StartDecoder(RengaGraph graph, const RengaHfModel *model,
                            const RengaHfOptions *options)
{
  const RengaHfConfig *c = &model->config;
  Decoder d = {.graph = graph,
               .family = model->family,
               .names = model->family->names,
               .config = c,
               .sequence = options->sequence};
  for (int i = 0; i < RENGA_HF_DROPOUTS; i++)
    d.dropout[i] = options->dropout >= 0 ? options->dropout : c->dropout[i];
  return d;
}

RengaErrorCode RengaHfBuildDecoder(RengaGraph graph, const RengaHfModel *model,
                                   const RengaHfOptions *options)
{
  Decoder d = StartDecoder(graph, model, options);
  RengaValue tokens, labels, scores, loss;
  RengaCall(RengaBlockIntegers(graph, "tokens", d.sequence, &tokens));
  RengaCall(RengaBlockIntegers(graph, "labels", d.sequence, &labels));
  RengaCall(AddDecoder(&d, model->local, tokens, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}
