/* Llama (Touvron et al. 2023; Grattafiori et al. 2024): a decoder without biases, normalised by the
   root of the mean square; positions turn pairs of a query's and a key's numbers (Su et al. 2021);
   several heads may share keys and values (Ainslie et al. 2023). */
#include "blocks.h"
#include <math.h>

typedef struct {
  int64_t layers, hidden, heads, groups, intermediate, sequence, vocabulary, tied;
  double base;
} LlamaSettings;

#define AT(member) offsetof(LlamaSettings, member)
static const RengaOptionRow rows[] = {
    {"layers", RENGA_OPTION_INT64, "32", AT(layers), NULL, 1, 1e5, "blocks"},
    {"hidden", RENGA_OPTION_INT64, "4096", AT(hidden), NULL, 1, 1e7, "width"},
    {"heads", RENGA_OPTION_INT64, "0", AT(heads), NULL, 0, 1e6, "attention heads; 0: hidden / 128"},
    {"groups", RENGA_OPTION_INT64, "0", AT(groups), NULL, 0, 1e6,
     "heads of keys and values; 0: as many as of queries"},
    {"intermediate", RENGA_OPTION_INT64, "0", AT(intermediate), NULL, 0, 1e8,
     "width inside a block; 0: 8/3 hidden, rounded up to a multiple of 256"},
    {"sequence", RENGA_OPTION_INT64, "2048", AT(sequence), NULL, 1, 1e8, "tokens per sample"},
    {"vocabulary", RENGA_OPTION_INT64, "32000", AT(vocabulary), NULL, 1, 1e9, "different tokens"},
    {"tied", RENGA_OPTION_INT64, "0", AT(tied), NULL, 0, 1,
     "1: the output layer is the token table"},
    {"base", RENGA_OPTION_REAL, "10000", AT(base), NULL, 1, 1e12,
     "of the angles by which positions turn"},
};

typedef struct {
  RengaGraph graph;
  LlamaSettings settings;
  RengaValue cosine, sine; /* [places, width of a head] */
  char prefix[64];
} LlamaBuilder;

static RengaErrorCode AddLlamaLinear(const LlamaBuilder *builder, const char *part, RengaValue x,
                                     int64_t out, double deviation, RengaValue *y)
{
  char text[BLOCK_NAME];
  RengaCall(RengaGraphAddLinear(builder->graph, RengaBlockName(builder->prefix, part, text), x, out,
                                false, deviation, y));
  return RENGA_SUCCESS;
}

static double ResidualDeviation(const LlamaBuilder *builder)
{
  return 0.02 / sqrt(2.0 * (double)builder->settings.layers);
}

/* Cosines and sines of the angles; number i of a head makes a pair with the one half a head on. */
static RengaErrorCode AddAngles(LlamaBuilder *builder)
{
  const LlamaSettings *s = &builder->settings;
  const int64_t places = s->sequence, width = s->hidden / s->heads, half = width / 2;
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {places, width}};
  float *cosines = NULL, *sines = NULL;
  RengaCall(RengaMalloc(places * width, &cosines));
  RengaErrorCode code = RengaMalloc(places * width, &sines);
  for (int64_t i = 0; i < places * width && !code; i++) {
    const double pair = (double)(i % width % half) / (double)half;
    const double angle = (double)(i / width) * pow(s->base, -pair);
    cosines[i] = (float)cos(angle);
    sines[i] = (float)sin(angle);
  }
  if (!code) code = RengaGraphAddConstant(builder->graph, NULL, &spec, cosines, &builder->cosine);
  if (!code) code = RengaGraphAddConstant(builder->graph, NULL, &spec, sines, &builder->sine);
  RengaFree(&cosines);
  RengaFree(&sines);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* (a, b) -> (-b, a) */
static RengaErrorCode AddQuarterTurn(RengaGraph graph, RengaValue x, RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaValue halves[2];
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 3));
  RengaCall(RengaBlockNode(graph, "Split", NULL, &attributes, 1, &x, 2, halves));
  RengaCall(RengaGraphAddUnary(graph, "Neg", halves[1], &halves[1]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 3));
  RengaCall(RengaBlockNode(graph, "Concat", NULL, &attributes, 2,
                           (const RengaValue[]){halves[1], halves[0]}, 1, y));
  return RENGA_SUCCESS;
}

/* Each pair turned by the angle of its place: x [N, heads, places, width]. */
static RengaErrorCode AddTurn(const LlamaBuilder *builder, RengaValue x, RengaValue *y)
{
  RengaGraph graph = builder->graph;
  RengaValue turned, along[2] = {x, builder->cosine}, across[2] = {RENGA_VALUE_NONE, builder->sine};
  RengaCall(AddQuarterTurn(graph, x, &turned));
  across[0] = turned;
  RengaCall(RengaBlockNode(graph, "Mul", NULL, NULL, 2, along, 1, &along[0]));
  RengaCall(RengaBlockNode(graph, "Mul", NULL, NULL, 2, across, 1, &across[0]));
  RengaCall(RengaGraphAddAdd(graph, along[0], across[0], y));
  return RENGA_SUCCESS;
}

/* [N, groups, places, width] -> [N, heads, places, width]: those of a group follow each other. */
static RengaErrorCode ShareWithHeads(const LlamaBuilder *builder, RengaValue x, RengaValue *y)
{
  const LlamaSettings *s = &builder->settings;
  const int64_t width = s->hidden / s->heads;
  const int64_t apart[] = {-1, s->groups, 1, s->sequence, width};
  const int64_t joined[] = {-1, s->heads, s->sequence, width};
  const RengaTensorSpec shared = {.type = RENGA_FLOAT32,
                                  .ndim = 5,
                                  .dim = {-1, s->groups, s->heads / s->groups, s->sequence, width}};
  *y = x;
  if (s->groups == s->heads) return RENGA_SUCCESS;
  RengaCall(RengaGraphAddReshape(builder->graph, x, 5, apart, &x));
  RengaCall(RengaGraphAddNode(builder->graph, "Expand", NULL, NULL, 1, &x, 1, &shared, y));
  RengaCall(RengaGraphAddReshape(builder->graph, *y, 4, joined, y));
  return RENGA_SUCCESS;
}

/* x + projection(attention(normalisation(x))) */
static RengaErrorCode AddLlamaAttention(const LlamaBuilder *builder, RengaValue *x)
{
  char text[BLOCK_NAME];
  const LlamaSettings *s = &builder->settings;
  const int64_t width = s->hidden / s->heads;
  RengaGraph graph = builder->graph;
  RengaBlockHeads heads = {
      .mask = RENGA_VALUE_NONE, .scale = 1 / sqrt((double)width), .causal = true};
  RengaValue y;
  RengaCall(RengaBlockRmsNormalization(graph, RengaBlockName(builder->prefix, "ln1", text), *x,
                                       1e-5, &y));
  RengaCall(AddLlamaLinear(builder, "q", y, s->hidden, 0.02, &heads.q));
  RengaCall(AddLlamaLinear(builder, "k", y, s->groups * width, 0.02, &heads.k));
  RengaCall(AddLlamaLinear(builder, "v", y, s->groups * width, 0.02, &heads.v));
  RengaCall(RengaBlockSplitHeads(graph, heads.q, 1, s->heads, &heads.q));
  RengaCall(RengaBlockSplitHeads(graph, heads.k, 1, s->groups, &heads.k));
  RengaCall(RengaBlockSplitHeads(graph, heads.v, 1, s->groups, &heads.v));
  RengaCall(AddTurn(builder, heads.q, &heads.q));
  RengaCall(AddTurn(builder, heads.k, &heads.k));
  RengaCall(ShareWithHeads(builder, heads.k, &heads.k));
  RengaCall(ShareWithHeads(builder, heads.v, &heads.v));
  RengaCall(RengaBlockAttention(graph, &heads, &y));
  RengaCall(RengaBlockJoinHeads(graph, y, &y));
  RengaCall(AddLlamaLinear(builder, "proj", y, s->hidden, ResidualDeviation(builder), &y));
  RengaCall(RengaBlockResidual(graph, *x, y, 0, x));
  return RENGA_SUCCESS;
}

/* x + narrow(swish(gate(y)) * wide(y)) of y = normalisation(x) (Shazeer 2020) */
static RengaErrorCode AddLlamaFeedForward(const LlamaBuilder *builder, RengaValue *x)
{
  char text[BLOCK_NAME];
  const LlamaSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaValue y, pair[2];
  RengaCall(RengaBlockRmsNormalization(graph, RengaBlockName(builder->prefix, "ln2", text), *x,
                                       1e-5, &y));
  RengaCall(AddLlamaLinear(builder, "gate", y, s->intermediate, 0.02, &pair[0]));
  RengaCall(RengaGraphAddUnary(graph, "Swish", pair[0], &pair[0]));
  RengaCall(AddLlamaLinear(builder, "fc", y, s->intermediate, 0.02, &pair[1]));
  RengaCall(RengaBlockNode(graph, "Mul", NULL, NULL, 2, pair, 1, &y));
  RengaCall(AddLlamaLinear(builder, "out", y, s->hidden, ResidualDeviation(builder), &y));
  RengaCall(RengaBlockResidual(graph, *x, y, 0, x));
  return RENGA_SUCCESS;
}

/* tokens -> table -> blocks -> normalisation -> scores */
static RengaErrorCode AddLlama(LlamaBuilder *builder, RengaValue tokens, RengaValue *scores)
{
  const LlamaSettings *s = &builder->settings;
  RengaGraph graph = builder->graph;
  RengaValue table, x;
  RengaCall(RengaBlockTable(graph, "wte.weight", s->vocabulary, s->hidden, 0.02, &table));
  RengaCall(AddAngles(builder));
  RengaCall(RengaGraphAddEmbedding(graph, table, tokens, &x));
  for (int64_t i = 0; i < s->layers; i++) {
    snprintf(builder->prefix, sizeof builder->prefix, "blocks.%lld.", (long long)i);
    RengaCall(AddLlamaAttention(builder, &x));
    RengaCall(AddLlamaFeedForward(builder, &x));
  }
  RengaCall(RengaBlockRmsNormalization(graph, "lnf", x, 1e-5, &x));
  if (!s->tied)
    RengaCall(RengaBlockTable(graph, "head.weight", s->vocabulary, s->hidden, 0.02, &table));
  RengaCall(RengaBlockScores(graph, "logits", x, table, RENGA_VALUE_NONE, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLlama(const LlamaSettings *s)
{
  RengaCheck(s->hidden % (2 * s->heads) == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "llama: hidden=%lld is no multiple of twice heads=%lld: positions turn pairs of a "
             "head's numbers",
             (long long)s->hidden, (long long)s->heads);
  RengaCheck(s->heads % s->groups == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "llama: heads=%lld is no multiple of groups=%lld", (long long)s->heads,
             (long long)s->groups);
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildLlama(RengaGraph graph, const void *settings)
{
  LlamaBuilder builder = {.graph = graph, .settings = *(const LlamaSettings *)settings};
  LlamaSettings *s = &builder.settings;
  RengaValue tokens, labels, scores, loss;
  if (s->heads == 0) s->heads = s->hidden / 128 > 0 ? s->hidden / 128 : 1;
  if (s->groups == 0) s->groups = s->heads;
  if (s->intermediate == 0) s->intermediate = (8 * s->hidden / 3 + 255) / 256 * 256;
  RengaCall(CheckLlama(s));
  RengaCall(RengaBlockIntegers(graph, "tokens", s->sequence, &tokens));
  RengaCall(RengaBlockIntegers(graph, "labels", s->sequence, &labels));
  RengaCall(AddLlama(&builder, tokens, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderLlama = {
    "llama", sizeof(LlamaSettings), sizeof rows / sizeof rows[0], rows, BuildLlama, NULL};
