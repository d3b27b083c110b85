/* BERT (Devlin et al. 2019): an encoder that is trained to fill in masked words and, where asked,
   to say whether the second sentence follows the first. With prenorm=1 the normalisation is before
   each part and once at the end, as in Megatron-LM (Shoeybi et al. 2019). */
#include "blocks.h"
#include <math.h>

typedef struct {
  int64_t layers, hidden, heads, intermediate, sequence, vocabulary, segments;
  int64_t padding, next_sentence, prenorm;
  double dropout, deviation;
} BertSettings;

#define AT(member) offsetof(BertSettings, member)
static const RengaOptionRow rows[] = {
    {"layers", RENGA_OPTION_INT64, "12", AT(layers), NULL, 1, 1e5, "blocks"},
    {"hidden", RENGA_OPTION_INT64, "768", AT(hidden), NULL, 1, 1e7, "width"},
    {"heads", RENGA_OPTION_INT64, "0", AT(heads), NULL, 0, 1e6, "attention heads; 0: hidden / 64"},
    {"intermediate", RENGA_OPTION_INT64, "0", AT(intermediate), NULL, 0, 1e8,
     "width inside a block; 0: 4 hidden"},
    {"sequence", RENGA_OPTION_INT64, "512", AT(sequence), NULL, 1, 1e8, "tokens per sample"},
    {"vocabulary", RENGA_OPTION_INT64, "30522", AT(vocabulary), NULL, 1, 1e9, "different tokens"},
    {"segments", RENGA_OPTION_INT64, "2", AT(segments), NULL, 0, 1e6,
     "kinds of sentences; 0: no input of that name"},
    {"padding", RENGA_OPTION_INT64, "1", AT(padding), NULL, 0, 1,
     "1: input attention_mask says which tokens are real"},
    {"next_sentence", RENGA_OPTION_INT64, "0", AT(next_sentence), NULL, 0, 1,
     "1: the loss has a second part, with an input of that name"},
    {"prenorm", RENGA_OPTION_INT64, "0", AT(prenorm), NULL, 0, 1,
     "normalisation 1: before each part, 0: after it"},
    {"deviation", RENGA_OPTION_REAL, "0.02", AT(deviation), NULL, 0, 10,
     "of the normal distribution from which weights begin"},
    {"dropout", RENGA_OPTION_REAL, "0", AT(dropout), NULL, 0, 0.999, "share set to zero"},
};

typedef struct {
  RengaGraph graph;
  BertSettings settings;
  RengaValue words, mask;
  char prefix[64];
} BertBuilder;

/* projection(attention(x)) */
static RengaErrorCode AddBertAttention(const BertBuilder *builder, RengaValue x, RengaValue *y)
{
  char text[BLOCK_NAME];
  const BertSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaBlockHeads heads = {.mask = builder->mask, .dropout = s->dropout};
  RengaValue part[3];
  heads.scale = 1.0 / sqrt((double)(s->hidden / s->heads));
  RengaCall(RengaGraphAddLinear(graph, RengaBlockName(builder->prefix, "qkv", text), x,
                                3 * s->hidden, true, s->deviation, &x));
  RengaCall(RengaBlockSplitHeads(graph, x, 3, s->heads, part));
  heads.q = part[0];
  heads.k = part[1];
  heads.v = part[2];
  RengaCall(RengaBlockAttention(graph, &heads, &x));
  RengaCall(RengaBlockJoinHeads(graph, x, &x));
  RengaCall(RengaGraphAddLinear(graph, RengaBlockName(builder->prefix, "proj", text), x, s->hidden,
                                true, s->deviation, y));
  return RENGA_SUCCESS;
}

/* narrow(gelu(wide(x))) */
static RengaErrorCode AddBertFeedForward(const BertBuilder *builder, RengaValue x, RengaValue *y)
{
  char text[BLOCK_NAME];
  const BertSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaCall(RengaGraphAddLinear(graph, RengaBlockName(builder->prefix, "fc", text), x,
                                s->intermediate, true, s->deviation, &x));
  RengaCall(RengaGraphAddUnary(graph, "Gelu", x, &x));
  RengaCall(RengaGraphAddLinear(graph, RengaBlockName(builder->prefix, "out", text), x, s->hidden,
                                true, s->deviation, y));
  return RENGA_SUCCESS;
}

/* norm(x + part(x)), or x + part(norm(x)) */
static RengaErrorCode
AddBertPart(const BertBuilder *builder, const char *norm,
            RengaErrorCode (*part)(const BertBuilder *, RengaValue, RengaValue *), RengaValue *x)
{
  char text[BLOCK_NAME];
  const BertSettings *s = &builder->settings;
  RengaValue y = *x;
  const char *name = RengaBlockName(builder->prefix, norm, text);
  if (s->prenorm) RengaCall(RengaGraphAddLayerNormalization(builder->graph, name, y, 1e-12, &y));
  RengaCall(part(builder, y, &y));
  RengaCall(RengaBlockResidual(builder->graph, *x, y, s->dropout, x));
  if (!s->prenorm) RengaCall(RengaGraphAddLayerNormalization(builder->graph, name, *x, 1e-12, x));
  return RENGA_SUCCESS;
}

/* words + positions + segments, normalised (with prenorm: by the first block) */
static RengaErrorCode AddEmbeddings(BertBuilder *builder, RengaValue *x)
{
  const BertSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaValue tokens, segments, positions, table, y;
  RengaCall(RengaBlockIntegers(graph, "tokens", s->sequence, &tokens));
  RengaCall(RengaBlockTable(graph, "words.weight", s->vocabulary, s->hidden, s->deviation,
                            &builder->words));
  RengaCall(
      RengaBlockTable(graph, "positions.weight", s->sequence, s->hidden, s->deviation, &positions));
  RengaCall(RengaGraphAddEmbedding(graph, builder->words, tokens, x));
  RengaCall(RengaGraphAddAdd(graph, *x, positions, x));
  if (s->segments > 0) {
    RengaCall(RengaBlockIntegers(graph, "segments", s->sequence, &segments));
    RengaCall(
        RengaBlockTable(graph, "segments.weight", s->segments, s->hidden, s->deviation, &table));
    RengaCall(RengaGraphAddEmbedding(graph, table, segments, &y));
    RengaCall(RengaGraphAddAdd(graph, *x, y, x));
  }
  if (!s->prenorm) RengaCall(RengaGraphAddLayerNormalization(graph, "ln", *x, 1e-12, x));
  RengaCall(RengaGraphAddDropout(graph, *x, s->dropout, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddBertEncoder(BertBuilder *builder, RengaValue *x)
{
  const BertSettings *s = &builder->settings;
  RengaValue real;
  RengaCall(AddEmbeddings(builder, x));
  builder->mask = RENGA_VALUE_NONE;
  if (s->padding) {
    RengaCall(RengaBlockIntegers(builder->graph, "attention_mask", s->sequence, &real));
    RengaCall(RengaBlockPaddingMask(builder->graph, real, &builder->mask));
  }
  for (int64_t i = 0; i < s->layers; i++) {
    snprintf(builder->prefix, sizeof builder->prefix, "layers.%lld.", (long long)i);
    RengaCall(AddBertPart(builder, "ln1", AddBertAttention, x));
    RengaCall(AddBertPart(builder, "ln2", AddBertFeedForward, x));
  }
  if (s->prenorm) RengaCall(RengaGraphAddLayerNormalization(builder->graph, "ln", *x, 1e-12, x));
  return RENGA_SUCCESS;
}

/* The words that were masked: norm(gelu(linear(x))) against the table of words. */
static RengaErrorCode AddWords(const BertBuilder *builder, RengaValue x, RengaValue *scores)
{
  const BertSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {s->vocabulary}};
  RengaValue bias;
  RengaCall(RengaGraphAddLinear(graph, "head.dense", x, s->hidden, true, s->deviation, &x));
  RengaCall(RengaGraphAddUnary(graph, "Gelu", x, &x));
  RengaCall(RengaGraphAddLayerNormalization(graph, "head.ln", x, 1e-12, &x));
  RengaCall(RengaGraphAddParameter(graph, "head.bias", &spec, NULL, &bias));
  RengaCall(RengaBlockScores(graph, "logits", x, builder->words, bias, scores));
  return RENGA_SUCCESS;
}

/* Does the second sentence follow? From the first place: loss + the second part. */
static RengaErrorCode AddNextSentence(const BertBuilder *builder, RengaValue x, RengaValue *loss)
{
  const BertSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  const int64_t flat[] = {-1, s->hidden};
  RengaAttributes attributes = {0};
  RengaValue labels, second;
  RengaCall(RengaBlockIntegers(graph, "next_sentence", 0, &labels));
  RengaCall(RengaAttributesSetInts(&attributes, "starts", 1, (const int64_t[]){0}));
  RengaCall(RengaAttributesSetInts(&attributes, "ends", 1, (const int64_t[]){1}));
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){1}));
  RengaCall(RengaBlockNode(graph, "Slice", NULL, &attributes, 1, &(RengaValue){x}, 1, &x));
  RengaCall(RengaGraphAddReshape(graph, x, 2, flat, &x));
  RengaCall(RengaGraphAddLinear(graph, "pooler", x, s->hidden, true, s->deviation, &x));
  RengaCall(RengaGraphAddUnary(graph, "Tanh", x, &x));
  RengaCall(RengaGraphAddLinear(graph, "follows", x, 2, true, s->deviation, &x));
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &second));
  RengaCall(RengaGraphAddAdd(graph, *loss, second, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildBert(RengaGraph graph, const void *settings)
{
  BertBuilder builder = {.graph = graph, .settings = *(const BertSettings *)settings};
  BertSettings *s = &builder.settings;
  RengaValue x, labels, scores, loss;
  if (s->heads == 0) s->heads = s->hidden / 64 > 0 ? s->hidden / 64 : 1;
  if (s->intermediate == 0) s->intermediate = 4 * s->hidden;
  RengaCheck(s->hidden % s->heads == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "bert: hidden=%lld is no multiple of heads=%lld", (long long)s->hidden,
             (long long)s->heads);
  RengaCall(AddBertEncoder(&builder, &x));
  RengaCall(RengaBlockIntegers(graph, "labels", s->sequence, &labels));
  RengaCall(AddWords(&builder, x, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  if (s->next_sentence) RengaCall(AddNextSentence(&builder, x, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderBert = {
    "bert", sizeof(BertSettings), sizeof rows / sizeof rows[0], rows, BuildBert, NULL};
