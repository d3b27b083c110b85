/* ModernBERT (Warner et al. 2024): an encoder with norms before each part, positions that turn, and
   layers that attend to tokens near by. */
#include "parts.h"
#include <math.h>

/* Added to scores: minus infinity where a token is farther away than the window, on either side. */
static RengaErrorCode AddNearMask(const RengaHfParts *p, RengaValue *mask)
{
  const int64_t places = p->sequence, window = p->config->window;
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {places, places}};
  float *numbers = NULL;
  RengaCall(RengaMalloc(places * places, &numbers));
  for (int64_t i = 0; i < places * places; i++) {
    const int64_t apart = i / places - i % places;
    numbers[i] = apart > window || -apart > window ? -INFINITY : 0;
  }
  const RengaErrorCode code = RengaGraphAddConstant(p->graph, NULL, &spec, numbers, mask);
  RengaFree(&numbers);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* padding: of the whole, or RENGA_VALUE_NONE */
static RengaErrorCode AddMasks(RengaHfParts *p, const bool local[], RengaValue padding)
{
  bool has[RENGA_HF_KINDS] = {false, false};
  for (int64_t i = 0; i < p->config->layers; i++) has[local[i]] = true;
  for (int k = 0; k < RENGA_HF_KINDS; k++) {
    RengaValue near = RENGA_VALUE_NONE;
    p->mask[k] = padding;
    if (!has[k]) continue;
    RengaCall(RengaHfAddAngles(p, k));
    if (k != RENGA_HF_LOCAL || p->config->window >= p->sequence - 1) continue;
    RengaCall(AddNearMask(p, &near));
    p->mask[k] = near;
    if (padding != RENGA_VALUE_NONE)
      RengaCall(RengaGraphAddAdd(p->graph, padding, near, &p->mask[k]));
  }
  return RENGA_SUCCESS;
}

/* The first block has no norm before its attention: the table has one. */
static RengaErrorCode AddModernBlocks(RengaHfParts *p, const bool local[], RengaValue *x)
{
  const RengaHfNames *names = p->names;
  RengaHfNames first = *names;
  RengaErrorCode code = RENGA_SUCCESS;
  first.before_attention = NULL;
  for (int64_t i = 0; i < p->config->layers && !code; i++) {
    snprintf(p->prefix, sizeof p->prefix, "%s%lld.", names->blocks, (long long)i);
    p->names = i == 0 ? &first : names;
    p->local = local[i];
    code = RengaHfAddBlock(p, x);
  }
  p->names = names;
  RengaCall(code);
  p->prefix[0] = '\0';
  RengaCall(RengaHfAddNorm(p, names->after_blocks, *x, x));
  return RENGA_SUCCESS;
}

/* norm(gelu(dense(x))) against the table of words */
static RengaErrorCode AddModernScores(const RengaHfParts *p, RengaValue x, RengaValue table,
                                      RengaValue *scores)
{
  const RengaHfConfig *c = p->config;
  const RengaTensorSpec shape = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {c->vocabulary}};
  RengaValue bias = RENGA_VALUE_NONE;
  RengaCall(RengaHfAddProduct(p, p->names->transform, x, c->hidden,
                              c->bias[RENGA_HF_BIAS_TRANSFORM], &x));
  RengaCall(RengaHfAddActivation(p, RENGA_HF_GELU, x, &x));
  RengaCall(RengaHfAddNorm(p, p->names->last, x, &x));
  if (c->bias[RENGA_HF_BIAS_HEAD])
    RengaCall(RengaGraphAddParameter(p->graph, p->names->head_bias, &shape, NULL, &bias));
  RengaCall(RengaBlockScores(p->graph, "logits", x, table, bias, scores));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfBuildModernEncoder(RengaGraph graph, const RengaHfModel *model,
                                         const RengaHfOptions *options)
{
  RengaHfParts p = RengaHfStartParts(graph, model, options);
  RengaValue tokens, real, labels, table, x, scores, loss, padding = RENGA_VALUE_NONE;
  RengaCall(RengaBlockIntegers(graph, "tokens", p.sequence, &tokens));
  if (options->padding) {
    RengaCall(RengaBlockIntegers(graph, "attention_mask", p.sequence, &real));
    RengaCall(RengaBlockPaddingMask(graph, real, &padding));
  }
  RengaCall(RengaBlockIntegers(graph, "labels", p.sequence, &labels));
  RengaCall(AddMasks(&p, model->local, padding));
  RengaCall(RengaHfAddTable(&p, p.names->table, p.config->vocabulary, &table));
  RengaCall(RengaHfAddRows(&p, table, tokens, p.config->padding - 1, &x));
  RengaCall(RengaHfAddNorm(&p, p.names->table_norm, x, &x));
  RengaCall(RengaGraphAddDropout(graph, x, p.dropout[RENGA_HF_OF_EMBEDDINGS], &x));
  RengaCall(AddModernBlocks(&p, model->local, &x));
  RengaCall(AddModernScores(&p, x, table, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}
