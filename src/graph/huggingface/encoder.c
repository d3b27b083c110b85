/* The encoder of a Hugging Face folder that fills in masked words (Devlin et al. 2019, Liu et al.
   2019): norms after each part, and an output layer that is the table of words. */
#include "parts.h"

RengaErrorCode RengaHfAddTable(const RengaHfParts *p, const char *name, int64_t rows,
                               RengaValue *table)
{
  char text[BLOCK_NAME];
  RengaCall(RengaBlockTable(p->graph, RengaBlockName(name, ".weight", text), rows,
                            p->config->hidden, p->config->deviation, table));
  return RENGA_SUCCESS;
}

/* Rows of the table; that of padding gets no gradient. */
RengaErrorCode RengaHfAddRows(const RengaHfParts *p, RengaValue table, RengaValue rows,
                              int64_t padding, RengaValue *y)
{
  const RengaValue in[2] = {table, rows};
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 0));
  RengaCall(RengaAttributesSetInt(&attributes, "padding", padding));
  RengaCall(RengaBlockNode(p->graph, "Gather", NULL, &attributes, 2, in, 1, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfAddFirstRows(const RengaHfParts *p, RengaValue table, int64_t rows,
                                   RengaValue *y)
{
  RengaAttributes attributes = {0};
  *y = table;
  if (RengaGraphSpec(p->graph, table)->dim[0] == rows) return RENGA_SUCCESS;
  RengaCall(RengaAttributesSetInts(&attributes, "starts", 1, (const int64_t[]){0}));
  RengaCall(RengaAttributesSetInts(&attributes, "ends", 1, &rows));
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){0}));
  RengaCall(RengaBlockNode(p->graph, "Slice", NULL, &attributes, 1, &table, 1, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddHfInteger(RengaGraph graph, int64_t number, RengaValue *value)
{
  const RengaTensorSpec scalar = {.type = RENGA_INT64};
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &number, value));
  return RENGA_SUCCESS;
}

/* Words are counted from the row behind that of padding on, padding has its own row (RoBERTa). */
static RengaErrorCode AddCountedPlaces(const RengaHfParts *p, RengaValue tokens, RengaValue *rows)
{
  RengaGraph graph = p->graph;
  RengaAttributes attributes = {0};
  RengaValue pair[2] = {tokens, RENGA_VALUE_NONE}, in[3], words;
  RengaCall(AddHfInteger(graph, p->config->padding - 1, &pair[1]));
  RengaCall(RengaBlockNode(graph, "Equal", NULL, NULL, 2, pair, 1, &in[0]));
  RengaCall(AddHfInteger(graph, 0, &in[1]));
  RengaCall(AddHfInteger(graph, 1, &in[2]));
  RengaCall(RengaBlockNode(graph, "Where", NULL, NULL, 3, in, 1, &words));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
  RengaCall(RengaBlockNode(graph, "CumSum", NULL, &attributes, 1, &words, 1, rows));
  RengaCall(
      RengaBlockNode(graph, "Mul", NULL, NULL, 2, (const RengaValue[]){*rows, words}, 1, rows));
  RengaCall(RengaGraphAddAdd(graph, *rows, pair[1], rows));
  return RENGA_SUCCESS;
}

/* x + the positions of its tokens */
static RengaErrorCode AddHfPlaces(const RengaHfParts *p, RengaValue tokens, RengaValue *x)
{
  const RengaHfConfig *c = p->config;
  RengaValue table, rows, y;
  RengaCall(RengaHfAddTable(p, p->names->places, c->places, &table));
  if (p->family->counts_words) {
    RengaCall(AddCountedPlaces(p, tokens, &rows));
    RengaCall(RengaHfAddRows(p, table, rows, c->padding - 1, &y));
  } else {
    RengaCall(RengaHfAddFirstRows(p, table, p->sequence, &y));
  }
  RengaCall(RengaGraphAddAdd(p->graph, *x, y, x));
  return RENGA_SUCCESS;
}

/* x + the kinds of its tokens: of an input, or all the first. */
static RengaErrorCode AddHfSegments(const RengaHfParts *p, bool given, RengaValue *x)
{
  RengaValue table, rows, y;
  RengaCall(RengaHfAddTable(p, p->names->segments, p->config->segments, &table));
  if (given) {
    RengaCall(RengaBlockIntegers(p->graph, "segments", p->sequence, &rows));
    RengaCall(RengaHfAddRows(p, table, rows, -1, &y));
  } else {
    RengaCall(RengaHfAddFirstRows(p, table, 1, &y));
  }
  RengaCall(RengaGraphAddAdd(p->graph, *x, y, x));
  return RENGA_SUCCESS;
}

/* norm(x + dropout(y)) */
static RengaErrorCode AddNormedSum(const RengaHfParts *p, const char *norm, RengaValue x,
                                   RengaValue y, RengaValue *sum)
{
  RengaCall(RengaBlockResidual(p->graph, x, y, p->dropout[RENGA_HF_OF_RESIDUALS], &y));
  RengaCall(RengaHfAddNorm(p, norm, y, sum));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddEncoderBlock(const RengaHfParts *p, RengaValue *x)
{
  RengaValue y;
  RengaCall(RengaHfAddAttention(p, *x, &y));
  RengaCall(AddNormedSum(p, p->names->after_attention, *x, y, x));
  RengaCall(RengaHfAddFeedForward(p, *x, &y));
  RengaCall(AddNormedSum(p, p->names->after_feed, *x, y, x));
  return RENGA_SUCCESS;
}

/* Scores of norm(activation(transform(x))) against the table of words. */
static RengaErrorCode AddWordScores(const RengaHfParts *p, RengaValue x, RengaValue table,
                                    RengaValue *scores)
{
  const RengaHfConfig *c = p->config;
  const RengaTensorSpec shape = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {c->vocabulary}};
  RengaValue bias, y;
  RengaCall(RengaHfAddProduct(p, p->names->transform, x, c->hidden, true, &x));
  RengaCall(RengaHfAddActivation(p, p->family->gelu_head ? RENGA_HF_GELU : c->activation, x, &y));
  RengaCall(RengaHfAddNorm(p, p->names->last, y, &x));
  RengaCall(RengaGraphAddParameter(p->graph, p->names->head_bias, &shape, NULL, &bias));
  RengaCall(RengaBlockScores(p->graph, "logits", x, table, bias, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddEncoder(RengaHfParts *p, const RengaHfOptions *options, RengaValue tokens,
                                 RengaValue *scores)
{
  const RengaHfConfig *c = p->config;
  RengaValue table, x;
  RengaCall(RengaHfAddTable(p, p->names->table, c->vocabulary, &table));
  RengaCall(RengaHfAddRows(p, table, tokens, c->padding - 1, &x));
  RengaCall(AddHfSegments(p, options->segments && c->segments > 1, &x));
  RengaCall(AddHfPlaces(p, tokens, &x));
  RengaCall(RengaHfAddNorm(p, p->names->table_norm, x, &x));
  RengaCall(RengaGraphAddDropout(p->graph, x, p->dropout[RENGA_HF_OF_RESIDUALS], &x));
  for (int64_t i = 0; i < c->layers; i++) {
    snprintf(p->prefix, sizeof p->prefix, "%s%lld.", p->names->blocks, (long long)i);
    RengaCall(AddEncoderBlock(p, &x));
  }
  p->prefix[0] = '\0';
  RengaCall(AddWordScores(p, x, table, scores));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfBuildEncoder(RengaGraph graph, const RengaHfModel *model,
                                   const RengaHfOptions *options)
{
  RengaHfParts p = RengaHfStartParts(graph, model, options);
  RengaValue tokens, real, labels, scores, loss;
  RengaCall(RengaBlockIntegers(graph, "tokens", p.sequence, &tokens));
  if (options->padding) {
    RengaCall(RengaBlockIntegers(graph, "attention_mask", p.sequence, &real));
    RengaCall(RengaBlockPaddingMask(graph, real, &p.mask[RENGA_HF_FULL]));
  }
  RengaCall(RengaBlockIntegers(graph, "labels", p.sequence, &labels));
  RengaCall(AddEncoder(&p, options, tokens, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}
