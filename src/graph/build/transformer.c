/* The transformer for translation (Vaswani et al. 2017): an encoder, a decoder, positions by
   sinusoids; one table of words for source, target and scores. Word 0 of the source is padding. */
#include "blocks.h"
#include <math.h>

typedef struct {
  int64_t layers, hidden, heads, intermediate, sequence, target, vocabulary;
  int64_t tied, padding, prenorm;
  double dropout, smoothing;
} TransformerSettings;

#define AT(member) offsetof(TransformerSettings, member)
static const RengaOptionRow rows[] = {
    {"layers", RENGA_OPTION_INT64, "6", AT(layers), NULL, 1, 1e5, "blocks of encoder and decoder"},
    {"hidden", RENGA_OPTION_INT64, "512", AT(hidden), NULL, 1, 1e7, "width"},
    {"heads", RENGA_OPTION_INT64, "0", AT(heads), NULL, 0, 1e6, "attention heads; 0: hidden / 64"},
    {"intermediate", RENGA_OPTION_INT64, "0", AT(intermediate), NULL, 0, 1e8,
     "width inside a block; 0: 4 hidden"},
    {"sequence", RENGA_OPTION_INT64, "128", AT(sequence), NULL, 1, 65536, "tokens of a source"},
    {"target", RENGA_OPTION_INT64, "0", AT(target), NULL, 0, 65536,
     "tokens of a target; 0: as many as of a source"},
    {"vocabulary", RENGA_OPTION_INT64, "37000", AT(vocabulary), NULL, 1, 1e9, "different tokens"},
    {"tied", RENGA_OPTION_INT64, "1", AT(tied), NULL, 0, 1,
     "1: one table for source, target and output layer, 0: three"},
    {"padding", RENGA_OPTION_INT64, "1", AT(padding), NULL, 0, 1,
     "1: token 0 of a source is not attended to"},
    {"prenorm", RENGA_OPTION_INT64, "0", AT(prenorm), NULL, 0, 1,
     "normalisation 1: before each part, 0: after it"},
    {"dropout", RENGA_OPTION_REAL, "0", AT(dropout), NULL, 0, 0.999, "share set to zero"},
    {"smoothing", RENGA_OPTION_REAL, "0", AT(smoothing), NULL, 0, 0.999,
     "share of a label that is spread over all tokens"},
};

typedef struct {
  RengaGraph graph;
  TransformerSettings settings;
  RengaValue mask, memory; /* of the source */
  bool causal;
  char prefix[64];
} TransformerBuilder;

typedef RengaErrorCode (*TransformerPart)(const TransformerBuilder *builder, RengaValue x,
                                          RengaValue *y);

static RengaErrorCode AddTransformerLinear(const TransformerBuilder *builder, const char *part,
                                           RengaValue x, int64_t out, double deviation,
                                           RengaValue *y)
{
  char text[BLOCK_NAME];
  RengaCall(RengaGraphAddLinear(builder->graph, RengaBlockName(builder->prefix, part, text), x, out,
                                true, deviation, y));
  return RENGA_SUCCESS;
}

/* Square matrices begin as in Glorot and Bengio 2010. */
static double Square(const TransformerBuilder *builder)
{
  return 1.0 / sqrt((double)builder->settings.hidden);
}

static RengaErrorCode Attend(const TransformerBuilder *builder, RengaBlockHeads *heads,
                             RengaValue *y)
{
  const TransformerSettings *s = &builder->settings;
  heads->scale = 1.0 / sqrt((double)(s->hidden / s->heads));
  heads->dropout = s->dropout;
  RengaCall(RengaBlockAttention(builder->graph, heads, y));
  RengaCall(RengaBlockJoinHeads(builder->graph, *y, y));
  return RENGA_SUCCESS;
}

/* Of a source to itself, or of each place of a target to those before it. */
static RengaErrorCode AddTransformerSelfAttention(const TransformerBuilder *builder, RengaValue x,
                                                  RengaValue *y)
{
  const TransformerSettings *s = &builder->settings;
  RengaValue part[3];
  RengaCall(AddTransformerLinear(builder, "qkv", x, 3 * s->hidden, Square(builder), &x));
  RengaCall(RengaBlockSplitHeads(builder->graph, x, 3, s->heads, part));
  RengaBlockHeads heads = {.q = part[0], .k = part[1], .v = part[2], .causal = builder->causal};
  heads.mask = builder->causal ? RENGA_VALUE_NONE : builder->mask;
  RengaCall(Attend(builder, &heads, &x));
  RengaCall(AddTransformerLinear(builder, "proj", x, s->hidden, Square(builder), y));
  return RENGA_SUCCESS;
}

/* Of a target to the source. */
static RengaErrorCode AddTransformerCrossAttention(const TransformerBuilder *builder, RengaValue x,
                                                   RengaValue *y)
{
  const TransformerSettings *s = &builder->settings;
  RengaValue pair, part[2];
  RengaBlockHeads heads = {.mask = builder->mask};
  RengaCall(AddTransformerLinear(builder, "q", x, s->hidden, Square(builder), &x));
  RengaCall(
      AddTransformerLinear(builder, "kv", builder->memory, 2 * s->hidden, Square(builder), &pair));
  RengaCall(RengaBlockSplitHeads(builder->graph, x, 1, s->heads, &heads.q));
  RengaCall(RengaBlockSplitHeads(builder->graph, pair, 2, s->heads, part));
  heads.k = part[0];
  heads.v = part[1];
  RengaCall(Attend(builder, &heads, &x));
  RengaCall(AddTransformerLinear(builder, "cross", x, s->hidden, Square(builder), y));
  return RENGA_SUCCESS;
}

/* narrow(relu(wide(x))) */
static RengaErrorCode AddTransformerFeedForward(const TransformerBuilder *builder, RengaValue x,
                                                RengaValue *y)
{
  const TransformerSettings *s = &builder->settings;
  double deviation = sqrt(2.0 / (double)(s->hidden + s->intermediate));
  RengaCall(AddTransformerLinear(builder, "fc", x, s->intermediate, deviation, &x));
  RengaCall(RengaGraphAddUnary(builder->graph, "Relu", x, &x));
  RengaCall(AddTransformerLinear(builder, "out", x, s->hidden, deviation, y));
  return RENGA_SUCCESS;
}

/* norm(x + part(x)), or x + part(norm(x)) */
static RengaErrorCode AddTransformerPart(const TransformerBuilder *builder, const char *norm,
                                         TransformerPart part, RengaValue *x)
{
  char text[BLOCK_NAME];
  const TransformerSettings *s = &builder->settings;
  const char *name = RengaBlockName(builder->prefix, norm, text);
  RengaValue y = *x;
  if (s->prenorm) RengaCall(RengaGraphAddLayerNormalization(builder->graph, name, y, 1e-5, &y));
  RengaCall(part(builder, y, &y));
  RengaCall(RengaBlockResidual(builder->graph, *x, y, s->dropout, x));
  if (!s->prenorm) RengaCall(RengaGraphAddLayerNormalization(builder->graph, name, *x, 1e-5, x));
  return RENGA_SUCCESS;
}

/* Place t, columns 2i and 2i + 1: sine and cosine of t / 10000^(2i / width). */
static void FillPositions(int64_t places, int64_t width, float *table)
{
  for (int64_t t = 0; t < places; t++)
    for (int64_t i = 0; i < width; i++) {
      double angle = (double)t * pow(10000, -(double)(i - i % 2) / (double)width);
      table[t * width + i] = (float)(i % 2 ? cos(angle) : sin(angle));
    }
}

static RengaErrorCode AddPositions(const TransformerBuilder *builder, int64_t places, RengaValue *x)
{
  const int64_t width = builder->settings.hidden;
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {places, width}};
  float *table = NULL;
  RengaValue positions;
  RengaCall(RengaMalloc(places * width, &table));
  FillPositions(places, width, table);
  RengaErrorCode code = RengaGraphAddConstant(builder->graph, NULL, &spec, table, &positions);
  RengaFree(&table);
  RengaCall(code);
  RengaCall(RengaGraphAddAdd(builder->graph, *x, positions, x));
  return RENGA_SUCCESS;
}

/* sqrt(width) rows + positions */
static RengaErrorCode AddEmbedding(const TransformerBuilder *builder, RengaValue table,
                                   RengaValue tokens, RengaValue *x)
{
  const TransformerSettings *s = &builder->settings;
  const int64_t places = RengaGraphSpec(builder->graph, tokens)->dim[1];
  RengaCall(RengaGraphAddEmbedding(builder->graph, table, tokens, x));
  RengaCall(RengaBlockScale(builder->graph, *x, sqrt((double)s->hidden), x));
  RengaCall(AddPositions(builder, places, x));
  RengaCall(RengaGraphAddDropout(builder->graph, *x, s->dropout, x));
  return RENGA_SUCCESS;
}

static const struct {
  const char *norm;
  TransformerPart part;
  bool encoder; /* has it too */
} parts[] = {
    {"ln1", AddTransformerSelfAttention, true},
    {"ln2", AddTransformerCrossAttention, false},
    {"ln3", AddTransformerFeedForward, true},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

/* All blocks of the encoder or of the decoder. */
static RengaErrorCode AddTransformerBlocks(TransformerBuilder *builder, const char *name,
                                           RengaValue *x)
{
  char text[BLOCK_NAME];
  const TransformerSettings *s = &builder->settings;
  for (int64_t i = 0; i < s->layers; i++) {
    snprintf(builder->prefix, sizeof builder->prefix, "%s.%lld.", name, (long long)i);
    for (int p = 0; p < N_PARTS; p++)
      if (parts[p].encoder || builder->causal)
        RengaCall(AddTransformerPart(builder, parts[p].norm, parts[p].part, x));
  }
  if (s->prenorm)
    RengaCall(RengaGraphAddLayerNormalization(builder->graph, RengaBlockName(name, ".ln", text), *x,
                                              1e-5, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTransformerEncoder(TransformerBuilder *builder, RengaValue table)
{
  const TransformerSettings *s = &builder->settings;
  RengaValue tokens;
  RengaCall(RengaBlockIntegers(builder->graph, "source", s->sequence, &tokens));
  builder->mask = RENGA_VALUE_NONE;
  if (s->padding) RengaCall(RengaBlockPaddingMask(builder->graph, tokens, &builder->mask));
  builder->causal = false;
  RengaCall(AddEmbedding(builder, table, tokens, &builder->memory));
  RengaCall(AddTransformerBlocks(builder, "encoder", &builder->memory));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddTransformerDecoder(TransformerBuilder *builder, RengaValue table,
                                            RengaValue *x)
{
  RengaValue tokens;
  RengaCall(RengaBlockIntegers(builder->graph, "target", builder->settings.target, &tokens));
  builder->causal = true;
  RengaCall(AddEmbedding(builder, table, tokens, x));
  RengaCall(AddTransformerBlocks(builder, "decoder", x));
  return RENGA_SUCCESS;
}

/* Three tables, or one: of the source, of the target, of the scores. */
static RengaErrorCode AddTransformer(TransformerBuilder *builder, RengaValue *scores)
{
  static const char *const names[] = {"source.weight", "target.weight", "logits.weight"};
  const TransformerSettings *s = &builder->settings;
  RengaValue table[3], x;
  for (int i = 0; i < 3; i++)
    if (i == 0 || !s->tied)
      RengaCall(RengaBlockTable(builder->graph, s->tied ? "words.weight" : names[i], s->vocabulary,
                                s->hidden, Square(builder), &table[i]));
    else
      table[i] = table[0];
  RengaCall(AddTransformerEncoder(builder, table[0]));
  RengaCall(AddTransformerDecoder(builder, table[1], &x));
  RengaCall(RengaBlockScores(builder->graph, "logits", x, table[2], RENGA_VALUE_NONE, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildTransformer(RengaGraph graph, const void *settings)
{
  TransformerBuilder builder = {.graph = graph, .settings = *(const TransformerSettings *)settings};
  TransformerSettings *s = &builder.settings;
  RengaValue labels, scores, loss;
  if (s->heads == 0) s->heads = s->hidden / 64 > 0 ? s->hidden / 64 : 1;
  if (s->intermediate == 0) s->intermediate = 4 * s->hidden;
  if (s->target == 0) s->target = s->sequence;
  RengaCheck(s->hidden % s->heads == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "transformer: hidden=%lld is no multiple of heads=%lld", (long long)s->hidden,
             (long long)s->heads);
  RengaCall(AddTransformer(&builder, &scores));
  RengaCall(RengaBlockIntegers(graph, "labels", s->target, &labels));
  RengaCall(RengaBlockSmoothLoss(graph, scores, labels, s->smoothing, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderTransformer = {"transformer",
                                                        sizeof(TransformerSettings),
                                                        sizeof rows / sizeof rows[0],
                                                        rows,
                                                        BuildTransformer,
                                                        NULL};
