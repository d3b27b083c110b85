/* Neural collaborative filtering, NeuMF (He et al. 2017), in the size of MLPerf and of the
   SageMaker experiments: does the user like the item? Products of factors beside a perceptron. */
#include "blocks.h"
#include <math.h>

typedef struct {
  int64_t users, items, factors;
  char layers[256];
} NcfSettings;

#define AT(member) offsetof(NcfSettings, member)
static const RengaOptionRow rows[] = {
    {"users", RENGA_OPTION_INT64, "138493", AT(users), NULL, 1, 1e10, "users"},
    {"items", RENGA_OPTION_INT64, "26744", AT(items), NULL, 1, 1e10, "items"},
    {"factors", RENGA_OPTION_INT64, "64", AT(factors), NULL, 1, 1e7, "factors of the product"},
    {"layers", RENGA_OPTION_STRING, "256-256-128-64", AT(layers), NULL, 0, 256,
     "widths of the perceptron; half of the first is a user's, half an item's"},
};

/* The rows of a user and of an item, from tables of their own. */
static RengaErrorCode AddNcfRows(RengaGraph graph, const char *part, const NcfSettings *s,
                                 const RengaValue index[2], int64_t width, RengaValue row[2])
{
  static const char *const kinds[] = {"user", "item"};
  const int64_t count[] = {s->users, s->items};
  for (int i = 0; i < 2; i++) {
    char name[BLOCK_NAME];
    RengaValue table;
    snprintf(name, sizeof name, "%s.%s.weight", part, kinds[i]);
    RengaCall(RengaBlockTable(graph, name, count[i], width, 0.01, &table));
    RengaCall(RengaGraphAddEmbedding(graph, table, index[i], &row[i]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode JoinNcf(RengaGraph graph, RengaValue a, RengaValue b, RengaValue *y)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
  RengaCall(
      RengaBlockNode(graph, "Concat", NULL, &attributes, 2, (const RengaValue[]){a, b}, 1, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddPerceptron(RengaGraph graph, int count, const int64_t width[],
                                    RengaValue *x)
{
  for (int i = 1; i < count; i++) {
    char name[BLOCK_NAME];
    snprintf(name, sizeof name, "mlp.%d", i - 1);
    double deviation = sqrt(2.0 / (double)(width[i - 1] + width[i]));
    RengaCall(RengaGraphAddLinear(graph, name, *x, width[i], true, deviation, x));
    RengaCall(RengaGraphAddUnary(graph, "Relu", *x, x));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddNcf(RengaGraph graph, const NcfSettings *s, int count,
                             const int64_t width[], RengaValue *scores)
{
  const RengaTensorSpec integers = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaValue index[2], row[2], product, x;
  RengaCall(RengaGraphAddInput(graph, "user", &integers, &index[0]));
  RengaCall(RengaGraphAddInput(graph, "item", &integers, &index[1]));
  RengaCall(AddNcfRows(graph, "mf", s, index, s->factors, row));
  RengaCall(RengaBlockNode(graph, "Mul", NULL, NULL, 2, row, 1, &product));
  RengaCall(AddNcfRows(graph, "mlp", s, index, width[0] / 2, row));
  RengaCall(JoinNcf(graph, row[0], row[1], &x));
  RengaCall(AddPerceptron(graph, count, width, &x));
  RengaCall(JoinNcf(graph, product, x, &x));
  double deviation = 1.0 / sqrt((double)(s->factors + width[count - 1]));
  RengaCall(RengaGraphAddLinear(graph, "out", x, 1, true, deviation, &x));
  const RengaTensorSpec flat = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {-1}};
  RengaCall(RengaGraphAddNode(graph, "Reshape", "logits", NULL, 1, &x, 1, &flat, scores));
  return RENGA_SUCCESS;
}

/* Binary cross-entropy of the logistic function of x: the mean of log(1 + exp x) - x label. */
static RengaErrorCode AddLoss(RengaGraph graph, RengaValue x, RengaValue label, RengaValue *loss)
{
  RengaValue in[2] = {x, label};
  RengaAttributes attributes = {0};
  RengaCall(RengaBlockNode(graph, "Mul", NULL, NULL, 2, in, 1, &in[1]));
  RengaCall(RengaGraphAddUnary(graph, "Softplus", x, &in[0]));
  RengaCall(RengaBlockNode(graph, "Sub", NULL, NULL, 2, in, 1, &in[0]));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaBlockNode(graph, "ReduceMean", "loss", &attributes, 1, in, 1, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildNcf(RengaGraph graph, const void *settings)
{
  const NcfSettings *s = settings;
  const RengaTensorSpec reals = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {-1}};
  int count;
  int64_t width[BLOCK_WIDTHS];
  RengaValue label, scores, loss;
  RengaCall(RengaBlockReadWidths("ncf", "layers", s->layers, &count, width));
  RengaCheck(count > 0 && width[0] % 2 == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "ncf: layers=%s must begin with an even width", s->layers);
  RengaCall(AddNcf(graph, s, count, width, &scores));
  RengaCall(RengaGraphAddInput(graph, "label", &reals, &label));
  RengaCall(AddLoss(graph, scores, label, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderNcf = {
    "ncf", sizeof(NcfSettings), sizeof rows / sizeof rows[0], rows, BuildNcf, NULL};
