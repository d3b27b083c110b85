/* TEST ranks: 1 */
/* Networks that are built by size have the parameters, operations and activations that the papers'
   formulas give, written out here by themselves; known totals; the largest are built in no time and
   without their parameters. */
#include "../plan/plantest.h"
#include <math.h>

typedef struct {
  double parameters, products, attention, activations; /* activations: floats of all nodes */
} Expected;

static double FlopsOf(RengaGraph graph, const char *op)
{
  double sum = 0;
  for (int n = 0; n < RengaGraphGetNodeCount(graph); n++) {
    double flops = 0;
    if (strcmp(RengaGraphGetNode(graph, n)->op->name, op) != 0) continue;
    TestTrue(RengaGraphGetNodeFlops(graph, n, 1, &flops) == RENGA_SUCCESS);
    sum += flops;
  }
  return sum;
}

/* Sums of whole numbers below 2^53 are exact. */
static void CheckNumber(const char *what, const char *kind, double found, double expected)
{
  if (found == expected || expected == 0) return;
  fprintf(stderr, "%s: %s are %.0f, not %.0f\n", what, kind, found, expected);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static RengaErrorCode Check(RengaComm comm, const char *what, const Expected *expected)
{
  RengaGraph graph;
  RengaGraphTotals totals;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, what));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphGetTotals(graph, &totals));
  CheckNumber(what, "parameters", (double)totals.parameters, expected->parameters);
  CheckNumber(what, "products",
              FlopsOf(graph, "Linear") + FlopsOf(graph, "MatMul") + FlopsOf(graph, "Conv"),
              expected->products);
  CheckNumber(what, "operations of attention", FlopsOf(graph, "Attention"), expected->attention);
  CheckNumber(what, "bytes of activations", totals.activation_bytes, 4 * expected->activations);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* y = x w: a multiply-add is two operations; a bias is not counted. */
static double Linear(double rows, double in, double out)
{
  return 2 * rows * in * out;
}

/* Scores and weighted sum are 2 T S d each; a score's scale and softmax count 12. */
static double Attention(double queries, double keys, double heads, double width)
{
  return heads * queries * keys * (4 * width + 12);
}

/* The blocks that GPT-2 and BERT have in common: four d x d and two d x f matrices, biases, two
   normalisations: 12 d^2 + 13 d where f = 4 d (Narayanan et al. 2021). */
static Expected Blocks(double layers, double d, double heads, double f, double t)
{
  Expected e = {.parameters = 4 * d * d + 2 * d * f + 9 * d + f};
  e.products = 8 * t * d * d + 4 * t * d * f;
  e.attention = Attention(t, t, heads, d / heads);
  /* qkv five times until it is in heads, attention three times; 4 projections and sums */
  e.activations = t * (5 * 3 * d + 3 * d + 4 * d + 2 * f);
  e.activations += t * (2 * d + 4 + heads); /* normalisations, log-sum-exp */
  e.parameters *= layers;
  e.products *= layers;
  e.attention *= layers;
  e.activations *= layers;
  return e;
}

static RengaErrorCode CheckGpt(RengaComm comm, double layers, double d, double heads, double t,
                               double v)
{
  char what[160];
  Expected e = Blocks(layers, d, heads, 4 * d, t);
  snprintf(what, sizeof what,
           "gpt:layers=%.0f,hidden=%.0f,heads=%.0f,sequence=%.0f,vocabulary=%.0f", layers, d, heads,
           t, v);
  e.parameters += (v + t) * d + 2 * d;
  e.products += Linear(t, d, v);
  /* Narayanan et al. 2021, forward: 24 s l h^2 (1 + s / 6 h + V / 12 l h) */
  double paper = 24 * t * layers * d * d * (1 + t / (6 * d) + v / (12 * layers * d));
  TestTrue(fabs(e.products + 4 * layers * t * t * d - paper) < 1e-12 * paper);
  /* words, their sum with positions, last normalisation, scores; log-sum-exp, loss, sum, count x 2
   */
  e.activations += t * (3 * d + 2 + v) + t + 4;
  RengaCall(Check(comm, what, &e));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBert(RengaComm comm, double layers, double d, double t, double v,
                                int next)
{
  char what[160];
  Expected e = Blocks(layers, d, d / 64, 4 * d, t);
  snprintf(what, sizeof what,
           "bert:layers=%.0f,hidden=%.0f,sequence=%.0f,vocabulary=%.0f,next_sentence=%d", layers, d,
           t, v, next);
  e.parameters += (v + t + 2) * d + 2 * d;
  e.parameters += d * d + d + 2 * d + v; /* head of the words */
  e.products += Linear(t, d, d) + Linear(t, d, v);
  /* words, positions, segments, their sum, normalisation; the head: linear, Gelu, norm, scores */
  e.activations += t * (5 * d + 2) + t * (3 * d + 2 + v) + t + 4;
  e.activations += t / 4 + 2 * t; /* the mask: one byte, and twice as floats */
  if (next) {
    e.parameters += d * d + d + 2 * d + 2;
    e.products += Linear(1, d, d) + Linear(1, d, 2);
    e.activations += 2 * d + 2 * d + 2 + 1 + 4 + 1;
  }
  RengaCall(Check(comm, what, &e));
  return RENGA_SUCCESS;
}

/* He et al. 2016: a convolution costs 2 k^2 c c' for each place of its output. */
static RengaErrorCode CheckResnet(RengaComm comm, int depth, const int blocks[4], int wide,
                                  double width)
{
  char what[64];
  double c = 3, places = 112 * 112;
  Expected e = {.parameters = 7 * 7 * c * 64 * width + 2 * 64 * width};
  snprintf(what, sizeof what, "resnet:depth=%d,width=%g", depth, width);
  e.products = 2 * places * 7 * 7 * c * 64 * width;
  c = 64 * width;
  e.activations = 3 * c * places + 2 * c; /* convolution, normalisation, ReLU; statistics */
  places /= 4;
  e.activations += 3 * c * places; /* maxima and, in 8 bytes, their places */
  for (int group = 0; group < 4; group++)
    for (int i = 0; i < blocks[group]; i++) {
      double inner = 64 * width * (1 << group), out = inner * wide;
      double before = places, stride = i == 0 && group > 0 ? 4 : 1;
      places /= stride;
      double first = wide > 1 ? c * inner : 9 * c * inner;
      double rest = wide > 1 ? 9 * inner * inner + inner * out : 9 * inner * out;
      double shortcut = c != out ? c * out : 0;
      e.parameters += first + rest + shortcut + 2 * (wide > 1 ? 2 : 1) * inner + 2 * out;
      e.parameters += c != out ? 2 * out : 0;
      e.products += 2 * (wide > 1 ? before : places) * first + 2 * places * (rest + shortcut);
      e.activations += 3 * inner * (wide > 1 ? before + places : places) + 4 * out * places;
      e.activations += 2 * (wide > 1 ? 2 : 1) * inner + 2 * out;
      e.activations += c != out ? 2 * out * places + 2 * out : 0;
      c = out;
    }
  e.parameters += 1000 * c + 1000;
  e.products += Linear(1, c, 1000);
  e.activations += c + 1000 + 5;
  RengaCall(Check(comm, what, &e));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckResnets(RengaComm comm)
{
  static const struct {
    int depth, blocks[4], wide;
  } rows[] = {{18, {2, 2, 2, 2}, 1},
              {34, {3, 4, 6, 3}, 1},
              {50, {3, 4, 6, 3}, 4},
              {101, {3, 4, 23, 3}, 4},
              {152, {3, 8, 36, 3}, 4}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int width = 1; width <= 8; width *= 8)
      RengaCall(CheckResnet(comm, rows[i].depth, rows[i].blocks, rows[i].wide, width));
  return RENGA_SUCCESS;
}

/* Vaswani et al. 2017: a block has 4 matrices d x d for each attention, 2 d f for the rest. */
static RengaErrorCode CheckTransformer(RengaComm comm, double layers, double d, double s, double t,
                                       double v, int tied)
{
  char what[160];
  double f = 4 * d, heads = d / 64;
  Expected e = {.parameters = layers * (12 * d * d + 4 * d * f + 12 * d + 2 * (f + d) + 10 * d)};
  snprintf(what, sizeof what,
           "transformer:layers=%.0f,hidden=%.0f,sequence=%.0f,target=%.0f,vocabulary=%.0f,tied=%d",
           layers, d, s, t, v, tied);
  e.parameters += v * d * (tied ? 1 : 3);
  e.products = layers * (8 * s * d * d + 12 * t * d * d + 4 * s * d * d + 4 * (s + t) * d * f);
  e.products += Linear(t, d, v);
  e.attention = layers * (Attention(s, s, heads, 64) + Attention(t, t, heads, 64) +
                          Attention(t, s, heads, 64));
  /* Encoder: as Blocks; decoder: its query passes 3 times, its keys and values 5, of the source */
  e.activations = layers * ((s + t) * (5 * 3 * d + 3 * d + 4 * d + 2 * f + 2 * d + 4 + heads) +
                            t * (3 * d + 3 * d + 2 * d + d + 2 + heads) + s * 5 * 2 * d);
  /* words, scaled, with positions; the mask; scores and loss */
  e.activations += 3 * (s + t) * d + s / 4 + 2 * s + t * v + t + 4;
  RengaCall(Check(comm, what, &e));
  return RENGA_SUCCESS;
}

/* Raffel et al. 2020: no biases, weights of d for a normalisation, heads of any width. */
static RengaErrorCode CheckT5(RengaComm comm, double layers, double d, double heads, double w,
                              double f, int gated)
{
  char what[256];
  const double s = 96, t = 64, v = 32128, inner = heads * w, wide = gated ? 3 : 2;
  Expected e = {.parameters = layers * (12 * d * inner + 2 * wide * d * f + 5 * d)};
  snprintf(what, sizeof what,
           "t5:layers=%.0f,hidden=%.0f,heads=%.0f,head_width=%.0f,intermediate=%.0f,sequence=%.0f,"
           "target=%.0f,gated=%d,tied=%d",
           layers, d, heads, w, f, s, t, gated, !gated);
  e.parameters += v * d * (gated ? 2 : 1) + 2 * 32 * heads + 2 * d;
  e.products = layers * (12 * s + 12 * t) * d * inner + layers * 2 * wide * (s + t) * d * f;
  e.products += Linear(t, d, v);
  e.attention =
      layers * (Attention(s, s, heads, w) + Attention(t, t, heads, w) + Attention(t, s, heads, w));
  RengaCall(Check(comm, what, &e));
  return RENGA_SUCCESS;
}

/* He et al. 2017: tables of f and of half the perceptron's first width, for users and for items. */
static RengaErrorCode CheckNcf(RengaComm comm)
{
  const double users = 6040, items = 3706, f = 16, w[] = {64, 32, 8};
  Expected e = {.parameters = (users + items) * (f + w[0] / 2) + f + w[2] + 1};
  e.products = 2 * (f + w[2]);
  for (int i = 1; i < 3; i++) {
    e.parameters += w[i - 1] * w[i] + w[i];
    e.products += 2 * w[i - 1] * w[i];
  }
  /* rows, product, rows, joined; each layer twice; joined, score twice; loss 4, count 4 */
  e.activations = 3 * f + 2 * w[0] + 2 * (w[1] + w[2]) + f + w[2] + 2 + 3 + 1 + 4;
  RengaCall(Check(comm, "ncf:users=6040,items=3706,factors=16,layers=64-32-8", &e));
  return RENGA_SUCCESS;
}

/* Sizes as published, or as their authors' programs give them. */
static const struct {
  const char *what;
  double parameters;
} known[] = {
    {"gpt", 124439808},
    {"gpt:layers=48,hidden=1600,heads=25", 1557611200},
    {"gpt:layers=24,hidden=1024,heads=0", 354823168},
    {"gpt:layers=96,hidden=12288,heads=96,sequence=2048", 174604259328},
    {"bert", 109514298},
    {"bert:next_sentence=1", 110106428},
    {"bert:layers=24,hidden=1024", 335174458},
    {"bert:layers=24,hidden=1024,prenorm=1", 335174458},
    {"bert:layers=24,hidden=1024,next_sentence=1", 336226108},
    {"bert:layers=24,hidden=1024,vocabulary=50265,sequence=514,segments=1",
     355412057}, /* RoBERTa */
    {"llama", 6738415616},
    {"llama:layers=40,hidden=5120,intermediate=13824", 13015864320},
    {"llama:layers=60,hidden=6656,intermediate=17920", 32528943616},
    {"llama:layers=80,hidden=8192,groups=8,intermediate=28672,sequence=4096", 68976648192},
    {"llama:groups=8,intermediate=14336,vocabulary=128256,sequence=8192", 8030261248},
    {"llama:layers=80,hidden=8192,groups=8,intermediate=28672,vocabulary=128256", 70553706496},
    {"llama:layers=126,hidden=16384,groups=8,intermediate=53248,vocabulary=128256,sequence=8192",
     405853388800},
    {"ncf", 31832577},
    {"t5:layers=6,hidden=512,intermediate=2048", 60506624},
    {"t5", 222903552},
    {"t5:gated=1,tied=0,intermediate=2048", 247577856},
    {"t5:layers=24,hidden=1024", 737668096},
    {"t5:layers=24,hidden=1024,heads=32,head_width=128,intermediate=16384", 2851598336},
    {"t5:layers=24,hidden=1024,heads=128,head_width=128,intermediate=65536", 11307321344},
    {"resnet:depth=18", 11689512},
    {"resnet:depth=34", 21797672},
    {"resnet:depth=50", 25557032},
    {"resnet:depth=101", 44549160},
    {"resnet:depth=152", 60192808},
};

/* RaNNC's enlarged networks, in billions (Tanaka et al. 2021 and its documentation). */
static const struct {
  const char *what;
  double billions;
} enlarged[] = {
    {"bert:hidden=2048,layers=96", 4.9}, {"bert:hidden=2048,layers=256", 12.96},
    {"resnet:depth=50,width=8", 1.52},   {"resnet:depth=101,width=8", 2.73},
    {"resnet:depth=152,width=8", 3.73},  {"resnet:depth=152,width=4", 0.94},
};

static RengaErrorCode CheckKnown(RengaComm comm)
{
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    RengaCall(Check(comm, known[i].what, &(Expected){.parameters = known[i].parameters}));
  for (size_t i = 0; i < sizeof enlarged / sizeof enlarged[0]; i++) {
    RengaGraph graph;
    RengaGraphTotals totals;
    RengaCall(RengaGraphCreate(comm, &graph));
    RengaCall(RengaGraphLoad(graph, enlarged[i].what));
    RengaCall(RengaGraphGetTotals(graph, &totals));
    TestTrue(fabs((double)totals.parameters * 1e-9 - enlarged[i].billions) < 0.01);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckKnown(comm));
  RengaCall(CheckGpt(comm, 12, 768, 12, 1024, 50257));
  RengaCall(CheckGpt(comm, 3, 96, 4, 20, 101));
  RengaCall(CheckGpt(comm, 2000, 64, 1, 8, 17)); /* 36,000 nodes */
  RengaCall(CheckBert(comm, 24, 1024, 512, 30522, 0));
  RengaCall(CheckBert(comm, 24, 1024, 128, 30522, 1));
  RengaCall(CheckBert(comm, 3, 128, 36, 77, 1));
  RengaCall(CheckResnets(comm));
  RengaCall(CheckTransformer(comm, 6, 1024, 128, 112, 37000, 1));
  RengaCall(CheckTransformer(comm, 2, 128, 24, 20, 77, 0));
  RengaCall(CheckT5(comm, 3, 96, 5, 16, 200, 0));
  RengaCall(CheckT5(comm, 24, 1024, 32, 128, 16384, 1));
  RengaCall(CheckNcf(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
