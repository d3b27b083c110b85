/* GPT-2 (Radford et al. 2019): a decoder with learned positions and normalisation before each
   part. */
#include "../graphimpl.h"
#include <math.h>

typedef struct {
  int64_t layers, hidden, heads, sequence, vocabulary, tied;
  double dropout;
} Settings;

#define AT(member) offsetof(Settings, member)
static const RengaOptionRow rows[] = {
    {"layers", RENGA_OPTION_INT64, "12", AT(layers), NULL, 1, 1e6, "blocks"},
    {"hidden", RENGA_OPTION_INT64, "768", AT(hidden), NULL, 1, 1e7, "width"},
    {"heads", RENGA_OPTION_INT64, "12", AT(heads), NULL, 1, 1e6, "attention heads"},
    {"sequence", RENGA_OPTION_INT64, "1024", AT(sequence), NULL, 1, 1e8, "tokens per sample"},
    {"vocabulary", RENGA_OPTION_INT64, "50257", AT(vocabulary), NULL, 1, 1e9, "different tokens"},
    {"dropout", RENGA_OPTION_REAL, "0", AT(dropout), NULL, 0, 0.999, "share set to zero"},
    {"tied", RENGA_OPTION_INT64, "1", AT(tied), NULL, 0, 1,
     "1: the output layer is the token table"},
};

typedef struct {
  RengaGraph graph;
  const Settings *settings;
  char prefix[64];
} Builder;

static const char *Name(const Builder *builder, const char *part, char text[96])
{
  snprintf(text, 96, "%s%s", builder->prefix, part);
  return text;
}

/* x [N,T,d] -> three times [N,heads,T,d/heads] */
static RengaErrorCode SplitHeads(const Builder *builder, RengaValue qkv, RengaValue part[3])
{
  const Settings *s = builder->settings;
  int64_t width = s->hidden / s->heads, order[] = {2, 0, 3, 1, 4};
  int64_t apart[] = {-1, s->sequence, 3, s->heads, width},
          one[] = {-1, s->heads, s->sequence, width};
  RengaValue x, split[3];
  RengaAttributes attributes = {0};
  RengaCall(RengaGraphAddReshape(builder->graph, qkv, 5, apart, &x));
  RengaCall(RengaGraphAddTranspose(builder->graph, x, order, &x));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 0));
  RengaErrorCode code =
      RengaGraphAddNode(builder->graph, "Split", NULL, &attributes, 1, &x, 3, NULL, split);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  for (int i = 0; i < 3; i++)
    RengaCall(RengaGraphAddReshape(builder->graph, split[i], 4, one, &part[i]));
  return RENGA_SUCCESS;
}

/* x + dropout(projection(attention(normalisation(x)))) */
static RengaErrorCode AddAttention(const Builder *builder, RengaValue *x)
{
  char text[96];
  const Settings *s = builder->settings;
  RengaGraph graph = builder->graph;
  int64_t order[] = {0, 2, 1, 3}, joined[] = {-1, s->sequence, s->hidden};
  double deviation = 0.02 / sqrt(2.0 * (double)s->layers);
  RengaValue y, part[3];
  RengaCall(RengaGraphAddLayerNormalization(graph, Name(builder, "ln1", text), *x, 1e-5, &y));
  RengaCall(
      RengaGraphAddLinear(graph, Name(builder, "qkv", text), y, 3 * s->hidden, true, 0.02, &y));
  RengaCall(SplitHeads(builder, y, part));
  RengaCall(RengaGraphAddAttention(graph, part[0], part[1], part[2], true, s->dropout, &y));
  RengaCall(RengaGraphAddTranspose(graph, y, order, &y));
  RengaCall(RengaGraphAddReshape(graph, y, 3, joined, &y));
  RengaCall(
      RengaGraphAddLinear(graph, Name(builder, "proj", text), y, s->hidden, true, deviation, &y));
  RengaCall(RengaGraphAddDropout(graph, y, s->dropout, &y));
  RengaCall(RengaGraphAddAdd(graph, *x, y, x));
  return RENGA_SUCCESS;
}

/* x + dropout(narrow(gelu(wide(normalisation(x))))) */
static RengaErrorCode AddFeedForward(const Builder *builder, RengaValue *x)
{
  char text[96];
  const Settings *s = builder->settings;
  RengaGraph graph = builder->graph;
  double deviation = 0.02 / sqrt(2.0 * (double)s->layers);
  RengaAttributes attributes = {0};
  RengaValue y;
  RengaCall(RengaGraphAddLayerNormalization(graph, Name(builder, "ln2", text), *x, 1e-5, &y));
  RengaCall(
      RengaGraphAddLinear(graph, Name(builder, "fc", text), y, 4 * s->hidden, true, 0.02, &y));
  RengaCall(RengaAttributesSetString(&attributes, "approximate", "tanh"));
  RengaErrorCode code = RengaGraphAddNode(graph, "Gelu", Name(builder, "gelu", text), &attributes,
                                          1, &(RengaValue){y}, 1, NULL, &y);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaCall(
      RengaGraphAddLinear(graph, Name(builder, "out", text), y, s->hidden, true, deviation, &y));
  RengaCall(RengaGraphAddDropout(graph, y, s->dropout, &y));
  RengaCall(RengaGraphAddAdd(graph, *x, y, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTable(const Builder *builder, const char *name, int64_t count,
                               RengaValue *table)
{
  const RengaInit normal = {.kind = RENGA_INIT_NORMAL, .a = 0, .b = 0.02};
  RengaTensorSpec spec = {
      .type = RENGA_FLOAT32, .ndim = 2, .dim = {count, builder->settings->hidden}};
  RengaCall(RengaGraphAddParameter(builder->graph, name, &spec, &normal, table));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddScores(const Builder *builder, RengaValue x, RengaValue tokens,
                                RengaValue *scores)
{
  RengaAttributes attributes = {0};
  RengaValue in[2] = {x, tokens};
  if (!builder->settings->tied)
    RengaCall(AddTable(builder, "head.weight", builder->settings->vocabulary, &in[1]));
  RengaCall(RengaAttributesSetInt(&attributes, "transB", 1));
  RengaErrorCode code =
      RengaGraphAddNode(builder->graph, "Linear", "logits", &attributes, 2, in, 1, NULL, scores);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* tokens -> table + positions -> blocks -> normalisation -> scores */
static RengaErrorCode AddNetwork(Builder *builder, RengaValue tokens, RengaValue *scores)
{
  const Settings *s = builder->settings;
  RengaGraph graph = builder->graph;
  RengaValue table, positions, x;
  RengaCall(AddTable(builder, "wte.weight", s->vocabulary, &table));
  RengaCall(AddTable(builder, "wpe.weight", s->sequence, &positions));
  RengaCall(RengaGraphAddEmbedding(graph, table, tokens, &x));
  RengaCall(RengaGraphAddAdd(graph, x, positions, &x));
  for (int64_t i = 0; i < s->layers; i++) {
    snprintf(builder->prefix, sizeof builder->prefix, "blocks.%lld.", (long long)i);
    RengaCall(AddAttention(builder, &x));
    RengaCall(AddFeedForward(builder, &x));
  }
  RengaCall(RengaGraphAddLayerNormalization(graph, "lnf", x, 1e-5, &x));
  RengaCall(AddScores(builder, x, table, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode Build(RengaGraph graph, const void *settings)
{
  Builder builder = {.graph = graph, .settings = settings};
  const Settings *s = settings;
  RengaTensorSpec spec = {.type = RENGA_INT64, .ndim = 2, .dim = {-1, s->sequence}};
  RengaValue tokens, labels, scores, loss;
  RengaCheck(s->hidden % s->heads == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "gpt: hidden=%lld is no multiple of heads=%lld", (long long)s->hidden,
             (long long)s->heads);
  RengaCall(RengaGraphAddInput(graph, "tokens", &spec, &tokens));
  RengaCall(RengaGraphAddInput(graph, "labels", &spec, &labels));
  RengaCall(AddNetwork(&builder, tokens, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, scores));
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderGpt = {"gpt", sizeof(Settings),
                                                sizeof rows / sizeof rows[0], rows, Build};
