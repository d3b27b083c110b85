/* The decoder of a Hugging Face folder: one builder for all families, whose parts are those that
   the family has names for. */
#include "parts.h"
#include <math.h>

/* What is added to scores: minus infinity where a place may not be attended to. Attention alone
   sees to what comes later. */
static RengaErrorCode AddWindowMask(const RengaHfParts *p, bool causal, int64_t window,
                                    RengaValue *mask)
{
  const int64_t places = p->sequence;
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {places, places}};
  float *numbers = NULL;
  RengaCall(RengaMalloc(places * places, &numbers));
  for (int64_t i = 0; i < places * places; i++) {
    const int64_t back = i / places - i % places;
    numbers[i] = (causal && back < 0) || (window > 0 && back >= window) ? -INFINITY : 0;
  }
  const RengaErrorCode code = RengaGraphAddConstant(p->graph, NULL, &spec, numbers, mask);
  RengaFree(&numbers);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* ---- rows of several documents ---- */
static RengaErrorCode AddIntegerNode(const RengaHfParts *p, const char *op, RengaValue a,
                                     RengaValue b, RengaValue *y)
{
  RengaCall(RengaBlockNode(p->graph, op, NULL, NULL, 2, (const RengaValue[]){a, b}, 1, y));
  return RENGA_SUCCESS;
}

/* 0 .. sequence - 1 */
static RengaErrorCode AddCounting(const RengaHfParts *p, RengaValue *counting)
{
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 1, .dim = {p->sequence}};
  int64_t *numbers = NULL;
  RengaCall(RengaMalloc(p->sequence, &numbers));
  for (int64_t i = 0; i < p->sequence; i++) numbers[i] = i;
  const RengaErrorCode code = RengaGraphAddConstant(p->graph, NULL, &spec, numbers, counting);
  RengaFree(&numbers);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A token's place in the row less its position is where its document begins: tokens of one begin
   are of one document, and attend to no other. The mask is [N,1,places,places]. */
static RengaErrorCode AddDocumentMask(const RengaHfParts *p, RengaValue *mask)
{
  const int64_t rows[] = {-1, p->sequence, 1}, columns[] = {-1, 1, p->sequence};
  const int64_t heads[] = {-1, 1, p->sequence, p->sequence};
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  RengaValue begin, row, column, in[3];
  RengaCall(AddCounting(p, &begin));
  RengaCall(AddIntegerNode(p, "Sub", begin, p->positions, &begin));
  RengaCall(RengaGraphAddReshape(p->graph, begin, 3, rows, &row));
  RengaCall(RengaGraphAddReshape(p->graph, begin, 3, columns, &column));
  RengaCall(AddIntegerNode(p, "Equal", row, column, &in[0]));
  RengaCall(RengaGraphAddConstant(p->graph, NULL, &scalar, &(float){0}, &in[1]));
  RengaCall(RengaGraphAddConstant(p->graph, NULL, &scalar, &(float){-INFINITY}, &in[2]));
  RengaCall(RengaBlockNode(p->graph, "Where", NULL, NULL, 3, in, 1, mask));
  RengaCall(RengaGraphAddReshape(p->graph, *mask, 4, heads, mask));
  return RENGA_SUCCESS;
}

/* [places, width] -> [N,1,places,width]: that of each token's position */
static RengaErrorCode PickPositions(const RengaHfParts *p, RengaValue *table)
{
  const int64_t heads[] = {-1, 1, p->sequence, p->config->head_width};
  const RengaValue in[2] = {*table, p->positions};
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 0));
  RengaCall(RengaBlockNode(p->graph, "Gather", NULL, &attributes, 2, in, 1, table));
  RengaCall(RengaGraphAddReshape(p->graph, *table, 4, heads, table));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddDocuments(RengaHfParts *p)
{
  RengaValue documents;
  if (p->positions == RENGA_VALUE_NONE) return RENGA_SUCCESS;
  RengaCall(AddDocumentMask(p, &documents));
  for (int k = 0; k < RENGA_HF_KINDS; k++) {
    if (p->mask[k] == RENGA_VALUE_NONE)
      p->mask[k] = documents;
    else
      RengaCall(RengaGraphAddAdd(p->graph, documents, p->mask[k], &p->mask[k]));
    if (p->cosine[k] == RENGA_VALUE_NONE) continue;
    RengaCall(PickPositions(p, &p->cosine[k]));
    RengaCall(PickPositions(p, &p->sine[k]));
  }
  return RENGA_SUCCESS;
}

/* Constants of blocks without and with a window, as far as there are any. */
static RengaErrorCode AddConstants(RengaHfParts *p, const bool local[])
{
  const RengaHfConfig *c = p->config;
  bool has[RENGA_HF_KINDS] = {false, false};
  const bool causal = c->attention_cap > 0;
  for (int64_t i = 0; i < c->layers; i++) has[local && local[i]] = true;
  for (int k = 0; k < RENGA_HF_KINDS; k++) {
    const int64_t window = k == RENGA_HF_LOCAL && c->window < p->sequence ? c->window : 0;
    p->mask[k] = p->cosine[k] = RENGA_VALUE_NONE;
    if (!has[k]) continue;
    if (c->rope[0].share > 0) RengaCall(RengaHfAddAngles(p, k));
    if (causal || window > 0) RengaCall(AddWindowMask(p, causal, window, &p->mask[k]));
  }
  RengaCall(AddDocuments(p));
  return RENGA_SUCCESS;
}

/* ---- ends ---- */
/* The learned positions: of the first places, all samples alike, or of each token. */
static RengaErrorCode AddPlaces(const RengaHfParts *p, RengaValue *x)
{
  RengaAttributes attributes = {0};
  RengaValue table;
  if (!p->names->places) return RENGA_SUCCESS;
  RengaCall(RengaHfAddTable(p, p->names->places, p->config->places, &table));
  if (p->positions != RENGA_VALUE_NONE) {
    RengaCall(RengaAttributesSetInt(&attributes, "axis", 0));
    RengaCall(RengaBlockNode(p->graph, "Gather", NULL, &attributes, 2,
                             (const RengaValue[]){table, p->positions}, 1, &table));
  } else {
    RengaCall(RengaHfAddFirstRows(p, table, p->sequence, &table));
  }
  RengaCall(RengaGraphAddAdd(p->graph, *x, table, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTokenEmbedding(const RengaHfParts *p, RengaValue tokens, RengaValue *table,
                                        RengaValue *x)
{
  const RengaHfConfig *c = p->config;
  RengaCall(RengaHfAddTable(p, p->names->table, c->vocabulary, table));
  RengaCall(RengaHfAddRows(p, *table, tokens, c->padding - 1, x));
  if (c->embedding_scale != 1) RengaCall(RengaHfAddFactor(p->graph, c->embedding_scale, NULL, x));
  RengaCall(AddPlaces(p, x));
  RengaCall(RengaGraphAddDropout(p->graph, *x, p->dropout[RENGA_HF_OF_EMBEDDINGS], x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddScores(const RengaHfParts *p, RengaValue x, RengaValue table,
                                RengaValue *scores)
{
  const RengaHfConfig *c = p->config;
  const RengaTensorSpec shape = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {c->vocabulary}};
  const bool plain = c->score_divisor == 1 && c->score_cap == 0;
  char text[BLOCK_NAME];
  RengaValue bias = RENGA_VALUE_NONE;
  if (!c->tied) RengaCall(RengaHfAddTable(p, p->names->head, c->vocabulary, &table));
  if (p->family->head_bias)
    RengaCall(RengaGraphAddParameter(p->graph, RengaBlockName(p->names->head, ".bias", text),
                                     &shape, NULL, &bias));
  RengaCall(RengaBlockScores(p->graph, plain ? "logits" : NULL, x, table, bias, scores));
  if (c->score_cap > 0)
    RengaCall(RengaHfAddCap(p->graph, c->score_cap, "logits", scores));
  else if (!plain)
    RengaCall(RengaHfAddFactor(p->graph, 1 / c->score_divisor, "logits", scores));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfAddDecoder(RengaHfParts *p, const bool local[], RengaValue tokens,
                                 RengaValue *scores)
{
  RengaValue table, x;
  RengaCall(AddConstants(p, local));
  RengaCall(AddTokenEmbedding(p, tokens, &table, &x));
  for (int64_t i = 0; i < p->config->layers; i++) {
    snprintf(p->prefix, sizeof p->prefix, "%s%lld.", p->names->blocks, (long long)i);
    p->local = local && local[i];
    RengaCall(RengaHfAddBlock(p, &x));
  }
  p->prefix[0] = '\0';
  RengaCall(RengaHfAddNorm(p, p->names->last, x, &x));
  RengaCall(AddScores(p, x, table, scores));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfBuildDecoder(RengaGraph graph, const RengaHfModel *model,
                                   const RengaHfOptions *options)
{
  RengaHfParts p = RengaHfStartParts(graph, model, options);
  RengaValue tokens, labels, scores, loss;
  p.causal = true;
  RengaCall(RengaBlockIntegers(graph, "tokens", p.sequence, &tokens));
  RengaCall(RengaBlockIntegers(graph, "labels", p.sequence, &labels));
  if (options->packed)
    RengaCall(RengaBlockIntegers(graph, "position_ids", p.sequence, &p.positions));
  RengaCall(RengaHfAddDecoder(&p, model->local, tokens, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}
