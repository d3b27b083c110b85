/* T5 (Raffel et al. 2020): encoder and decoder without biases, normalised by the root of the mean
   square; positions are a learned number for each distance and head, which all blocks share. Word 0
   of the source is padding. gated=1,tied=0 is the later version 1.1 (Shazeer 2020). */
#include "blocks.h"
#include <math.h>

typedef struct {
  int64_t layers, hidden, heads, head_width, intermediate, sequence, target, vocabulary;
  int64_t buckets, distance, gated, tied, padding;
  double dropout;
} T5Settings;

#define AT(member) offsetof(T5Settings, member)
static const RengaOptionRow rows[] = {
    {"layers", RENGA_OPTION_INT64, "12", AT(layers), NULL, 1, 1e5, "blocks of encoder and decoder"},
    {"hidden", RENGA_OPTION_INT64, "768", AT(hidden), NULL, 1, 1e7, "width"},
    {"heads", RENGA_OPTION_INT64, "0", AT(heads), NULL, 0, 1e5,
     "attention heads; 0: hidden / head_width"},
    {"head_width", RENGA_OPTION_INT64, "64", AT(head_width), NULL, 1, 1e5, "width of a head"},
    {"intermediate", RENGA_OPTION_INT64, "0", AT(intermediate), NULL, 0, 1e8,
     "width inside a block; 0: 4 hidden"},
    {"sequence", RENGA_OPTION_INT64, "512", AT(sequence), NULL, 1, 8192, "tokens of a source"},
    {"target", RENGA_OPTION_INT64, "0", AT(target), NULL, 0, 8192,
     "tokens of a target; 0: as many as of a source"},
    {"vocabulary", RENGA_OPTION_INT64, "32128", AT(vocabulary), NULL, 1, 1e9, "different tokens"},
    {"buckets", RENGA_OPTION_INT64, "32", AT(buckets), NULL, 4, 65536, "kinds of distances"},
    {"distance", RENGA_OPTION_INT64, "128", AT(distance), NULL, 2, 1e9,
     "from here on distances are of one kind"},
    {"gated", RENGA_OPTION_INT64, "0", AT(gated), NULL, 0, 1,
     "1: Gelu times a linear part inside a block, 0: ReLU"},
    {"tied", RENGA_OPTION_INT64, "1", AT(tied), NULL, 0, 1,
     "1: the output layer is the table of words"},
    {"padding", RENGA_OPTION_INT64, "1", AT(padding), NULL, 0, 1,
     "1: token 0 of a source is not attended to"},
    {"dropout", RENGA_OPTION_REAL, "0", AT(dropout), NULL, 0, 0.999, "share set to zero"},
};

typedef struct {
  RengaGraph graph;
  T5Settings settings;
  RengaValue bias, mask, memory; /* of self-attention; padding and result of the encoder */
  bool decoder;
  char prefix[64];
} T5Builder;

typedef RengaErrorCode (*T5Part)(const T5Builder *builder, RengaValue x, RengaValue *y);

static RengaErrorCode AddT5Linear(const T5Builder *builder, const char *part, RengaValue x,
                                  int64_t out, double deviation, RengaValue *y)
{
  char text[BLOCK_NAME];
  RengaCall(RengaGraphAddLinear(builder->graph, RengaBlockName(builder->prefix, part, text), x, out,
                                false, deviation, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddHeads(const T5Builder *builder, const char *part, RengaValue x,
                               double deviation, RengaValue *y)
{
  const T5Settings *s = &builder->settings;
  RengaCall(AddT5Linear(builder, part, x, s->heads * s->head_width, deviation, &x));
  RengaCall(RengaBlockSplitHeads(builder->graph, x, 1, s->heads, y));
  return RENGA_SUCCESS;
}

/* Scores are not divided: the first weights of queries are smaller instead. */
static RengaErrorCode AddT5Attention(const T5Builder *builder, const char *const names[4],
                                     RengaValue x, RengaValue memory, RengaBlockHeads *heads,
                                     RengaValue *y)
{
  const T5Settings *s = &builder->settings;
  double hidden = (double)s->hidden, width = (double)s->head_width;
  heads->scale = 1;
  heads->dropout = s->dropout;
  RengaCall(AddHeads(builder, names[0], x, 1 / sqrt(hidden * width), &heads->q));
  RengaCall(AddHeads(builder, names[1], memory, 1 / sqrt(hidden), &heads->k));
  RengaCall(AddHeads(builder, names[2], memory, 1 / sqrt(hidden), &heads->v));
  RengaCall(RengaBlockAttention(builder->graph, heads, &x));
  RengaCall(RengaBlockJoinHeads(builder->graph, x, &x));
  RengaCall(AddT5Linear(builder, names[3], x, s->hidden, 1 / sqrt((double)s->heads * width), y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddT5SelfAttention(const T5Builder *builder, RengaValue x, RengaValue *y)
{
  static const char *const names[] = {"q", "k", "v", "proj"};
  RengaBlockHeads heads = {.mask = builder->bias, .causal = builder->decoder};
  RengaCall(AddT5Attention(builder, names, x, x, &heads, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddT5CrossAttention(const T5Builder *builder, RengaValue x, RengaValue *y)
{
  static const char *const names[] = {"cross.q", "cross.k", "cross.v", "cross.proj"};
  RengaBlockHeads heads = {.mask = builder->mask};
  RengaCall(AddT5Attention(builder, names, x, builder->memory, &heads, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddT5FeedForward(const T5Builder *builder, RengaValue x, RengaValue *y)
{
  const T5Settings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  double in = 1 / sqrt((double)s->hidden), out = 1 / sqrt((double)s->intermediate);
  RengaAttributes attributes = {0};
  RengaValue pair[2];
  RengaCall(AddT5Linear(builder, "fc", x, s->intermediate, in, &pair[0]));
  if (s->gated) {
    RengaCall(RengaAttributesSetString(&attributes, "approximate", "tanh"));
    RengaCall(RengaBlockNode(graph, "Gelu", NULL, &attributes, 1, pair, 1, &pair[0]));
    RengaCall(AddT5Linear(builder, "gate", x, s->intermediate, in, &pair[1]));
    RengaCall(RengaBlockNode(graph, "Mul", NULL, NULL, 2, pair, 1, &x));
  } else {
    RengaCall(RengaGraphAddUnary(graph, "Relu", pair[0], &x));
  }
  RengaCall(RengaGraphAddDropout(graph, x, s->dropout, &x));
  RengaCall(AddT5Linear(builder, "out", x, s->hidden, out, y));
  return RENGA_SUCCESS;
}

static const struct {
  const char *norm;
  T5Part part;
  bool encoder; /* has it too */
} parts[] = {
    {"ln1", AddT5SelfAttention, true},
    {"ln2", AddT5CrossAttention, false},
    {"ln3", AddT5FeedForward, true},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

/* x + part(norm(x)) */
static RengaErrorCode AddT5Part(const T5Builder *builder, int p, RengaValue *x)
{
  char text[BLOCK_NAME];
  RengaValue y;
  RengaCall(RengaBlockRmsNormalization(
      builder->graph, RengaBlockName(builder->prefix, parts[p].norm, text), *x, 1e-6, &y));
  RengaCall(parts[p].part(builder, y, &y));
  RengaCall(RengaBlockResidual(builder->graph, *x, y, builder->settings.dropout, x));
  return RENGA_SUCCESS;
}

/* All blocks of the encoder or of the decoder. */
static RengaErrorCode AddT5Blocks(T5Builder *builder, const char *name, RengaValue *x)
{
  char text[BLOCK_NAME];
  const T5Settings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaCall(RengaGraphAddDropout(graph, *x, s->dropout, x));
  for (int64_t i = 0; i < s->layers; i++) {
    snprintf(builder->prefix, sizeof builder->prefix, "%s.%lld.", name, (long long)i);
    for (int p = 0; p < N_PARTS; p++)
      if (parts[p].encoder || builder->decoder) RengaCall(AddT5Part(builder, p, x));
  }
  RengaCall(RengaBlockRmsNormalization(graph, RengaBlockName(name, ".ln", text), *x, 1e-6, x));
  RengaCall(RengaGraphAddDropout(graph, *x, s->dropout, x));
  return RENGA_SUCCESS;
}

/* [heads, places, places] from a table [buckets, heads] */
static RengaErrorCode AddT5Bias(const T5Builder *builder, const char *name, int64_t places,
                                RengaValue *bias)
{
  const T5Settings *s = &builder->settings;
  const RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 2, .dim = {places, places}};
  RengaValue table, index;
  int64_t *kind = NULL;
  RengaCall(RengaMalloc(places * places, &kind));
  for (int64_t q = 0; q < places; q++)
    for (int64_t k = 0; k < places; k++)
      kind[q * places + k] = RengaBlockBucket(k - q, !builder->decoder, s->buckets, s->distance);
  RengaErrorCode code = RengaGraphAddConstant(builder->graph, NULL, &spec, kind, &index);
  RengaFree(&kind);
  RengaCall(code);
  RengaCall(RengaBlockTable(builder->graph, name, s->buckets, s->heads, 1 / sqrt((double)s->hidden),
                            &table));
  RengaCall(RengaGraphAddEmbedding(builder->graph, table, index, bias));
  RengaCall(RengaGraphAddTranspose(builder->graph, *bias, (const int64_t[]){2, 0, 1}, bias));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddT5Encoder(T5Builder *builder, RengaValue table)
{
  const T5Settings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaValue tokens;
  builder->decoder = false;
  builder->mask = RENGA_VALUE_NONE;
  RengaCall(RengaBlockIntegers(graph, "source", s->sequence, &tokens));
  RengaCall(AddT5Bias(builder, "encoder.distances.weight", s->sequence, &builder->bias));
  if (s->padding) {
    RengaCall(RengaBlockPaddingMask(graph, tokens, &builder->mask));
    RengaCall(RengaGraphAddAdd(graph, builder->bias, builder->mask, &builder->bias));
  }
  RengaCall(RengaGraphAddEmbedding(graph, table, tokens, &builder->memory));
  RengaCall(AddT5Blocks(builder, "encoder", &builder->memory));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddT5Decoder(T5Builder *builder, RengaValue table, RengaValue *x)
{
  const T5Settings *s = &builder->settings;
  RengaValue tokens;
  builder->decoder = true;
  RengaCall(RengaBlockIntegers(builder->graph, "target", s->target, &tokens));
  RengaCall(AddT5Bias(builder, "decoder.distances.weight", s->target, &builder->bias));
  RengaCall(RengaGraphAddEmbedding(builder->graph, table, tokens, x));
  RengaCall(AddT5Blocks(builder, "decoder", x));
  return RENGA_SUCCESS;
}

/* A tied table is of unit size: what is compared with it is made smaller. */
static RengaErrorCode AddT5(T5Builder *builder, RengaValue *scores)
{
  const T5Settings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaValue table, x;
  RengaCall(RengaBlockTable(graph, "words.weight", s->vocabulary, s->hidden, 1, &table));
  RengaCall(AddT5Encoder(builder, table));
  RengaCall(AddT5Decoder(builder, table, &x));
  if (s->tied)
    RengaCall(RengaBlockScale(graph, x, 1 / sqrt((double)s->hidden), &x));
  else
    RengaCall(RengaBlockTable(graph, "logits.weight", s->vocabulary, s->hidden,
                              1 / sqrt((double)s->hidden), &table));
  RengaCall(RengaBlockScores(graph, "logits", x, table, RENGA_VALUE_NONE, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildT5(RengaGraph graph, const void *settings)
{
  T5Builder builder = {.graph = graph, .settings = *(const T5Settings *)settings};
  T5Settings *s = &builder.settings;
  RengaValue labels, scores, loss;
  if (s->heads == 0) s->heads = s->hidden > s->head_width ? s->hidden / s->head_width : 1;
  if (s->intermediate == 0) s->intermediate = 4 * s->hidden;
  if (s->target == 0) s->target = s->sequence;
  RengaCheck(s->distance > s->buckets / 2, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "t5: distance=%lld must be above half of buckets=%lld", (long long)s->distance,
             (long long)s->buckets);
  RengaCall(AddT5(&builder, &scores));
  RengaCall(RengaBlockIntegers(graph, "labels", s->target, &labels));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderT5 = {
    "t5", sizeof(T5Settings), sizeof rows / sizeof rows[0], rows, BuildT5, NULL};
