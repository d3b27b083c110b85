/* A chain of linear layers with a function between them, to classify or to fit numbers. */
#include "blocks.h"
#include <math.h>
#include <string.h>

enum { MAX_LAYERS = 4096 };
typedef struct {
  char sizes[256];
  int64_t input, layers, hidden, classes;
  char activation[16], loss[16];
} MlpSettings;

#define AT(member) offsetof(MlpSettings, member)
static const RengaOptionRow rows[] = {
    {"sizes", RENGA_OPTION_STRING, "", AT(sizes), NULL, 0, 256, "widths, as 784-2048-10"},
    {"input", RENGA_OPTION_INT64, "784", AT(input), NULL, 1, 1e9, "width of the input"},
    {"layers", RENGA_OPTION_INT64, "8", AT(layers), NULL, 0, 4000, "hidden layers"},
    {"hidden", RENGA_OPTION_INT64, "2048", AT(hidden), NULL, 1, 1e9, "width of a hidden layer"},
    {"classes", RENGA_OPTION_INT64, "10", AT(classes), NULL, 1, 1e9, "classes"},
    {"activation", RENGA_OPTION_STRING, "relu", AT(activation), "relu|tanh|gelu", 0, 16,
     "between the layers"},
    {"loss", RENGA_OPTION_STRING, "cross_entropy", AT(loss), "cross_entropy|mse", 0, 16,
     "mse: the mean of the squared differences to the input target, as wide as the last layer"},
};

static RengaErrorCode ReadSizes(const MlpSettings *s, int *count, int64_t size[])
{
  RengaCall(RengaBlockReadWidths("mlp", "sizes", s->sizes, count, size));
  if (*count == 0) {
    size[(*count)++] = s->input;
    for (int64_t i = 0; i < s->layers; i++) size[(*count)++] = s->hidden;
    size[(*count)++] = s->classes;
  }
  RengaCheck(*count >= 2, MPI_COMM_SELF, RENGA_ERR_OPTION, "mlp: sizes=%s needs two widths or more",
             s->sizes);
  return RENGA_SUCCESS;
}

/* As PyTorch: weight uniform with deviation sqrt(2 / k) (He et al. 2015), bias within 1 /
   sqrt(k). */
static RengaErrorCode AddLayer(RengaGraph graph, int number, int64_t k, int64_t width,
                               RengaValue *x)
{
  char weight[64], bias[64], name[64];
  double bound = sqrt(6.0 / (double)k), small = 1.0 / sqrt((double)k);
  RengaInit of_weight = {.kind = RENGA_INIT_UNIFORM, .a = -bound, .b = bound};
  RengaInit of_bias = {.kind = RENGA_INIT_UNIFORM, .a = -small, .b = small};
  RengaTensorSpec w = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {width, k}};
  RengaTensorSpec b = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {width}};
  RengaValue in[3] = {*x};
  RengaAttributes attributes = {0};
  snprintf(name, sizeof name, "l.%d", number);
  snprintf(weight, sizeof weight, "l.%d.weight", number);
  snprintf(bias, sizeof bias, "l.%d.bias", number);
  RengaCall(RengaGraphAddParameter(graph, weight, &w, &of_weight, &in[1]));
  RengaCall(RengaGraphAddParameter(graph, bias, &b, &of_bias, &in[2]));
  RengaCall(RengaAttributesSetInt(&attributes, "transB", 1));
  RengaErrorCode code = RengaGraphAddNode(graph, "Linear", name, &attributes, 3, in, 1, NULL, x);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddActivation(RengaGraph graph, const char *name, RengaValue *x)
{
  const bool relu = strcmp(name, "relu") == 0, tanh = strcmp(name, "tanh") == 0;
  RengaCall(RengaGraphAddUnary(graph, relu ? "Relu" : tanh ? "Tanh" : "Gelu", *x, x));
  return RENGA_SUCCESS;
}

/* The mean of the squared differences, over all numbers of the batch. */
static RengaErrorCode AddSquares(RengaGraph graph, RengaValue x, RengaValue target,
                                 RengaValue *loss)
{
  RengaAttributes attributes = {0};
  RengaValue in[2] = {x, target};
  RengaCall(RengaBlockNode(graph, "Sub", NULL, NULL, 2, in, 1, &in[0]));
  in[1] = in[0];
  RengaCall(RengaBlockNode(graph, "Mul", NULL, NULL, 2, in, 1, &in[0]));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaBlockNode(graph, "ReduceMean", "loss", &attributes, 1, in, 1, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddMlpLoss(RengaGraph graph, const char *name, int64_t width, RengaValue x,
                                 RengaValue *loss)
{
  const RengaTensorSpec of_labels = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  const RengaTensorSpec of_target = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, width}};
  RengaValue wanted;
  if (strcmp(name, "mse") == 0) {
    RengaCall(RengaGraphAddInput(graph, "target", &of_target, &wanted));
    return AddSquares(graph, x, wanted, loss);
  }
  RengaCall(RengaGraphAddInput(graph, "labels", &of_labels, &wanted));
  return RengaGraphAddCrossEntropy(graph, x, wanted, -100, loss);
}

static RengaErrorCode BuildMlp(RengaGraph graph, const void *settings)
{
  const MlpSettings *s = settings;
  int count;
  int64_t size[MAX_LAYERS + 2];
  RengaCall(ReadSizes(s, &count, size));
  RengaTensorSpec of_x = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, size[0]}};
  RengaValue x, loss;
  RengaCall(RengaGraphAddInput(graph, "x", &of_x, &x));
  for (int i = 0; i + 1 < count; i++) {
    if (i > 0) RengaCall(AddActivation(graph, s->activation, &x));
    RengaCall(AddLayer(graph, i, size[i], size[i + 1], &x));
  }
  RengaCall(AddMlpLoss(graph, s->loss, size[count - 1], x, &loss));
  RengaCall(RengaBlockFinish(graph, loss, x));
  return RENGA_SUCCESS;
}

/* All widths but those of the input and of the classes. */
static RengaErrorCode NarrowMlp(void *settings, double share)
{
  MlpSettings *s = settings;
  int count;
  int64_t size[MAX_LAYERS + 2];
  RengaCheck(strcmp(s->loss, "mse") != 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "-graph_divide: mlp with loss=mse has no probabilities of classes, by which parts are "
             "trained together");
  RengaCall(ReadSizes(s, &count, size));
  s->hidden = RengaGraphNarrow(s->hidden, share);
  if (!s->sizes[0]) return RENGA_SUCCESS;
  size_t used = 0;
  for (int i = 0; i < count && used < sizeof s->sizes; i++) {
    const bool end = i == 0 || i == count - 1;
    used += (size_t)snprintf(s->sizes + used, sizeof s->sizes - used, "%s%lld", i ? "-" : "",
                             (long long)(end ? size[i] : RengaGraphNarrow(size[i], share)));
  }
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderMlp = {
    "mlp", sizeof(MlpSettings), sizeof rows / sizeof rows[0], rows, BuildMlp, NarrowMlp};
