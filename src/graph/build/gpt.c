/* GPT-2 (Radford et al. 2019): a decoder with learned positions and normalisation before each
   part. */
#include "blocks.h"
#include <math.h>

typedef struct {
  int64_t layers, hidden, heads, sequence, vocabulary, tied;
  double dropout;
} GptSettings;

#define AT(member) offsetof(GptSettings, member)
static const RengaOptionRow rows[] = {
    {"layers", RENGA_OPTION_INT64, "12", AT(layers), NULL, 1, 1e5, "blocks"},
    {"hidden", RENGA_OPTION_INT64, "768", AT(hidden), NULL, 1, 1e7, "width"},
    {"heads", RENGA_OPTION_INT64, "12", AT(heads), NULL, 0, 1e6, "attention heads; 0: hidden / 64"},
    {"sequence", RENGA_OPTION_INT64, "1024", AT(sequence), NULL, 1, 1e8, "tokens per sample"},
    {"vocabulary", RENGA_OPTION_INT64, "50257", AT(vocabulary), NULL, 1, 1e9, "different tokens"},
    {"dropout", RENGA_OPTION_REAL, "0", AT(dropout), NULL, 0, 0.999, "share set to zero"},
    {"tied", RENGA_OPTION_INT64, "1", AT(tied), NULL, 0, 1,
     "1: the output layer is the token table"},
};

typedef struct {
  RengaGraph graph;
  GptSettings settings;
  char prefix[64];
} GptBuilder;

/* x + dropout(projection(attention(normalisation(x)))) */
static RengaErrorCode AddGptAttention(const GptBuilder *builder, RengaValue *x)
{
  char text[BLOCK_NAME];
  const GptSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  double deviation = 0.02 / sqrt(2.0 * (double)s->layers);
  RengaValue y, part[3];
  RengaCall(RengaGraphAddLayerNormalization(graph, RengaBlockName(builder->prefix, "ln1", text), *x,
                                            1e-5, &y));
  RengaCall(RengaGraphAddLinear(graph, RengaBlockName(builder->prefix, "qkv", text), y,
                                3 * s->hidden, true, 0.02, &y));
  RengaCall(RengaBlockSplitHeads(graph, y, 3, s->heads, part));
  RengaCall(RengaGraphAddAttention(graph, part[0], part[1], part[2], true, s->dropout, &y));
  RengaCall(RengaBlockJoinHeads(graph, y, &y));
  RengaCall(RengaGraphAddLinear(graph, RengaBlockName(builder->prefix, "proj", text), y, s->hidden,
                                true, deviation, &y));
  RengaCall(RengaBlockResidual(graph, *x, y, s->dropout, x));
  return RENGA_SUCCESS;
}

/* x + dropout(narrow(gelu(wide(normalisation(x))))) */
static RengaErrorCode AddGptFeedForward(const GptBuilder *builder, RengaValue *x)
{
  char text[BLOCK_NAME];
  const GptSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  double deviation = 0.02 / sqrt(2.0 * (double)s->layers);
  RengaAttributes attributes = {0};
  RengaValue y;
  RengaCall(RengaGraphAddLayerNormalization(graph, RengaBlockName(builder->prefix, "ln2", text), *x,
                                            1e-5, &y));
  RengaCall(RengaGraphAddLinear(graph, RengaBlockName(builder->prefix, "fc", text), y,
                                4 * s->hidden, true, 0.02, &y));
  RengaCall(RengaAttributesSetString(&attributes, "approximate", "tanh"));
  RengaCall(RengaBlockNode(graph, "Gelu", RengaBlockName(builder->prefix, "gelu", text),
                           &attributes, 1, &(RengaValue){y}, 1, &y));
  RengaCall(RengaGraphAddLinear(graph, RengaBlockName(builder->prefix, "out", text), y, s->hidden,
                                true, deviation, &y));
  RengaCall(RengaBlockResidual(graph, *x, y, s->dropout, x));
  return RENGA_SUCCESS;
}

/* tokens -> table + positions -> blocks -> normalisation -> scores */
static RengaErrorCode AddGpt(GptBuilder *builder, RengaValue tokens, RengaValue *scores)
{
  const GptSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaValue table, positions, x;
  RengaCall(RengaBlockTable(graph, "wte.weight", s->vocabulary, s->hidden, 0.02, &table));
  RengaCall(RengaBlockTable(graph, "wpe.weight", s->sequence, s->hidden, 0.02, &positions));
  RengaCall(RengaGraphAddEmbedding(graph, table, tokens, &x));
  RengaCall(RengaGraphAddAdd(graph, x, positions, &x));
  for (int64_t i = 0; i < s->layers; i++) {
    snprintf(builder->prefix, sizeof builder->prefix, "blocks.%lld.", (long long)i);
    RengaCall(AddGptAttention(builder, &x));
    RengaCall(AddGptFeedForward(builder, &x));
  }
  RengaCall(RengaGraphAddLayerNormalization(graph, "lnf", x, 1e-5, &x));
  if (!s->tied)
    RengaCall(RengaBlockTable(graph, "head.weight", s->vocabulary, s->hidden, 0.02, &table));
  RengaCall(RengaBlockScores(graph, "logits", x, table, RENGA_VALUE_NONE, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildGpt(RengaGraph graph, const void *settings)
{
  GptBuilder builder = {.graph = graph, .settings = *(const GptSettings *)settings};
  GptSettings *s = &builder.settings;
  RengaValue tokens, labels, scores, loss;
  if (s->heads == 0) s->heads = s->hidden / 64 > 0 ? s->hidden / 64 : 1;
  RengaCheck(s->hidden % s->heads == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "gpt: hidden=%lld is no multiple of heads=%lld", (long long)s->hidden,
             (long long)s->heads);
  RengaCall(RengaBlockIntegers(graph, "tokens", s->sequence, &tokens));
  RengaCall(RengaBlockIntegers(graph, "labels", s->sequence, &labels));
  RengaCall(AddGpt(&builder, tokens, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode NarrowGpt(void *settings, double share)
{
  GptSettings *s = settings;
  if (s->heads == 0) s->heads = s->hidden / 64 > 0 ? s->hidden / 64 : 1;
  RengaGraphNarrowHeads(share, &s->hidden, &s->heads);
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderGpt = {
    "gpt", sizeof(GptSettings), sizeof rows / sizeof rows[0], rows, BuildGpt, NarrowGpt};
