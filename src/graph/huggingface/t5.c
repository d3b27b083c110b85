/* T5 (Raffel et al. 2020) of a folder: encoder and decoder, whose positions are a learned number
   for each kind of distance and head, of the first block of each, which all blocks share. */
#include "parts.h"
#include <math.h>

typedef struct {
  RengaHfParts parts;
  int64_t places;  /* tokens of what is built */
  RengaValue bias; /* of distances, with the mask of padding */
  RengaValue mask,
      memory; /* of the source: its padding, or RENGA_VALUE_NONE; the encoder's result */
  bool decoder;
} T5Parts;

static RengaErrorCode AddT5Norm(const T5Parts *t, const char *name, RengaValue x, RengaValue *y)
{
  char text[BLOCK_NAME];
  const RengaHfParts *p = &t->parts;
  RengaCall(RengaBlockRmsNormalization(p->graph, RengaBlockName(p->prefix, name, text), x,
                                       p->config->epsilon, y));
  return RENGA_SUCCESS;
}

/* x [N, places, width] -> [N, heads, places, width of a head] */
static RengaErrorCode AddT5Heads(const T5Parts *t, const char *kind, const char *part, RengaValue x,
                                 RengaValue *y)
{
  const RengaHfConfig *c = t->parts.config;
  char name[BLOCK_NAME];
  RengaCall(RengaHfAddProduct(&t->parts, RengaBlockName(kind, part, name), x,
                              c->heads * c->head_width, false, &x));
  RengaCall(RengaBlockSplitHeads(t->parts.graph, x, 1, c->heads, y));
  return RENGA_SUCCESS;
}

/* kind: "SelfAttention" or "EncDecAttention"; scores are not divided. */
static RengaErrorCode AddT5Scores(const T5Parts *t, const char *kind, RengaValue x,
                                  RengaValue memory, RengaValue *y)
{
  const RengaHfParts *p = &t->parts;
  const bool self = x == memory;
  char name[BLOCK_NAME];
  RengaBlockHeads heads = {.mask = self ? t->bias : t->mask,
                           .scale = 1,
                           .dropout = p->dropout[RENGA_HF_OF_ATTENTION],
                           .causal = self && t->decoder};
  RengaCall(AddT5Heads(t, kind, ".q", x, &heads.q));
  RengaCall(AddT5Heads(t, kind, ".k", memory, &heads.k));
  RengaCall(AddT5Heads(t, kind, ".v", memory, &heads.v));
  RengaCall(RengaBlockAttention(p->graph, &heads, &x));
  RengaCall(RengaBlockJoinHeads(p->graph, x, &x));
  RengaCall(RengaHfAddProduct(p, RengaBlockName(kind, ".o", name), x, p->config->hidden, false, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddT5Inside(const T5Parts *t, RengaValue x, RengaValue *y)
{
  const RengaHfParts *p = &t->parts;
  const RengaHfConfig *c = p->config;
  RengaValue pair[2];
  RengaCall(
      RengaHfAddProduct(p, c->of_t5[RENGA_HF_GATED] ? "DenseReluDense.wi_0" : "DenseReluDense.wi",
                        x, c->intermediate, false, &pair[0]));
  RengaCall(RengaHfAddActivation(p, c->activation, pair[0], &pair[0]));
  if (c->of_t5[RENGA_HF_GATED]) {
    RengaCall(RengaHfAddProduct(p, "DenseReluDense.wi_1", x, c->intermediate, false, &pair[1]));
    RengaCall(RengaBlockNode(p->graph, "Mul", NULL, NULL, 2, pair, 1, &pair[0]));
  }
  RengaCall(RengaGraphAddDropout(p->graph, pair[0], p->dropout[RENGA_HF_OF_RESIDUALS], &x));
  RengaCall(RengaHfAddProduct(p, "DenseReluDense.wo", x, c->hidden, false, y));
  return RENGA_SUCCESS;
}

/* x + part(norm(x)) of each of the parts of a block. */
static RengaErrorCode AddT5Block(T5Parts *t, int64_t block, RengaValue *x)
{
  RengaHfParts *p = &t->parts;
  const int n_parts = t->decoder ? 3 : 2;
  for (int part = 0; part < n_parts; part++) {
    RengaValue y;
    snprintf(p->prefix, sizeof p->prefix, "%s.block.%lld.layer.%d.",
             t->decoder ? "decoder" : "encoder", (long long)block, part);
    RengaCall(AddT5Norm(t, "layer_norm", *x, &y));
    if (part == 0)
      RengaCall(AddT5Scores(t, "SelfAttention", y, y, &y));
    else if (part < n_parts - 1)
      RengaCall(AddT5Scores(t, "EncDecAttention", y, t->memory, &y));
    else
      RengaCall(AddT5Inside(t, y, &y));
    RengaCall(RengaBlockResidual(p->graph, *x, y, p->dropout[RENGA_HF_OF_RESIDUALS], x));
  }
  return RENGA_SUCCESS;
}

/* [heads, places, places] from the table [buckets, heads] of the first block */
static RengaErrorCode AddT5Distances(T5Parts *t)
{
  const RengaHfParts *p = &t->parts;
  const RengaHfConfig *c = p->config;
  const int64_t places = t->places;
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 2, .dim = {places, places}};
  RengaValue table, index;
  int64_t *kind = NULL;
  RengaCall(RengaMalloc(places * places, &kind));
  for (int64_t i = 0; i < places * places; i++)
    kind[i] = RengaBlockBucket(i % places - i / places, !t->decoder, c->stack[RENGA_HF_BUCKETS],
                               c->stack[RENGA_HF_DISTANCE]);
  const RengaErrorCode code = RengaGraphAddConstant(p->graph, NULL, &spec, kind, &index);
  RengaFree(&kind);
  RengaCall(code);
  RengaCall(RengaBlockTable(
      p->graph,
      t->decoder ? "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
                 : "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
      c->stack[RENGA_HF_BUCKETS], c->heads, c->deviation, &table));
  RengaCall(RengaGraphAddEmbedding(p->graph, table, index, &t->bias));
  RengaCall(RengaGraphAddTranspose(p->graph, t->bias, (const int64_t[]){2, 0, 1}, &t->bias));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddT5Stack(T5Parts *t, RengaValue table, RengaValue tokens, RengaValue *x)
{
  RengaHfParts *p = &t->parts;
  const RengaHfConfig *c = p->config;
  RengaCall(AddT5Distances(t));
  if (!t->decoder && t->mask != RENGA_VALUE_NONE)
    RengaCall(RengaGraphAddAdd(p->graph, t->bias, t->mask, &t->bias));
  RengaCall(RengaGraphAddEmbedding(p->graph, table, tokens, x));
  RengaCall(RengaGraphAddDropout(p->graph, *x, p->dropout[RENGA_HF_OF_EMBEDDINGS], x));
  for (int64_t i = 0; i < (t->decoder ? c->stack[RENGA_HF_DECODER_LAYERS] : c->layers); i++)
    RengaCall(AddT5Block(t, i, x));
  snprintf(p->prefix, sizeof p->prefix, "%s.", t->decoder ? "decoder" : "encoder");
  RengaCall(AddT5Norm(t, "final_layer_norm", *x, x));
  p->prefix[0] = '\0';
  RengaCall(RengaGraphAddDropout(p->graph, *x, p->dropout[RENGA_HF_OF_EMBEDDINGS], x));
  return RENGA_SUCCESS;
}

/* What is compared with a tied table is made smaller. */
static RengaErrorCode AddT5Words(const T5Parts *t, RengaValue x, RengaValue table,
                                 RengaValue *scores)
{
  const RengaHfParts *p = &t->parts;
  const RengaHfConfig *c = p->config;
  if (c->tied)
    RengaCall(RengaBlockScale(p->graph, x, 1 / sqrt((double)c->hidden), &x));
  else
    RengaCall(RengaHfAddTable(p, p->names->head, c->vocabulary, &table));
  RengaCall(RengaBlockScores(p->graph, "logits", x, table, RENGA_VALUE_NONE, scores));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfBuildT5(RengaGraph graph, const RengaHfModel *model,
                              const RengaHfOptions *options)
{
  T5Parts t = {.parts = RengaHfStartParts(graph, model, options), .mask = RENGA_VALUE_NONE};
  const int64_t sources = options->sequence, targets = options->target ? options->target : sources;
  const RengaHfConfig *c = model->config;
  RengaValue source, real, target, labels, table, scores, loss;
  RengaCheck(c->stack[RENGA_HF_BUCKETS] >= 4 && c->stack[RENGA_HF_BUCKETS] % 4 == 0 &&
                 c->stack[RENGA_HF_DISTANCE] > c->stack[RENGA_HF_BUCKETS] / 2,
             MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/config.json: %lld kinds of distances up to %lld: only multiples of 4, and more "
             "than half of them, are built",
             model->folder, (long long)c->stack[RENGA_HF_BUCKETS],
             (long long)c->stack[RENGA_HF_DISTANCE]);
  RengaCall(RengaBlockIntegers(graph, "source", sources, &source));
  if (options->padding) {
    RengaCall(RengaBlockIntegers(graph, "source_mask", sources, &real));
    RengaCall(RengaBlockPaddingMask(graph, real, &t.mask));
  }
  RengaCall(RengaBlockIntegers(graph, "target", targets, &target));
  RengaCall(RengaBlockIntegers(graph, "labels", targets, &labels));
  RengaCall(RengaHfAddTable(&t.parts, t.parts.names->table, c->vocabulary, &table));
  t.places = sources;
  RengaCall(AddT5Stack(&t, table, source, &t.memory));
  t.decoder = true;
  t.places = targets;
  RengaCall(AddT5Stack(&t, table, target, &source));
  RengaCall(AddT5Words(&t, source, table, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}
