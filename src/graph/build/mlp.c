/* A chain of linear layers with ReLU between them. */
#include "blocks.h"
#include <math.h>

enum { MAX_LAYERS = 4096 };
typedef struct {
  char sizes[256];
  int64_t input, layers, hidden, classes;
} MlpSettings;

#define AT(member) offsetof(MlpSettings, member)
static const RengaOptionRow rows[] = {
    {"sizes", RENGA_OPTION_STRING, "", AT(sizes), NULL, 0, 256, "widths, as 784-2048-10"},
    {"input", RENGA_OPTION_INT64, "784", AT(input), NULL, 1, 1e9, "width of the input"},
    {"layers", RENGA_OPTION_INT64, "8", AT(layers), NULL, 0, 4000, "hidden layers"},
    {"hidden", RENGA_OPTION_INT64, "2048", AT(hidden), NULL, 1, 1e9, "width of a hidden layer"},
    {"classes", RENGA_OPTION_INT64, "10", AT(classes), NULL, 1, 1e9, "classes"},
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

static RengaErrorCode BuildMlp(RengaGraph graph, const void *settings)
{
  int count;
  int64_t size[MAX_LAYERS + 2];
  RengaCall(ReadSizes(settings, &count, size));
  RengaTensorSpec of_x = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, size[0]}};
  RengaTensorSpec of_labels = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaValue x, labels, loss;
  RengaCall(RengaGraphAddInput(graph, "x", &of_x, &x));
  RengaCall(RengaGraphAddInput(graph, "labels", &of_labels, &labels));
  for (int i = 0; i + 1 < count; i++) {
    if (i > 0) RengaCall(RengaGraphAddUnary(graph, "Relu", x, &x));
    RengaCall(AddLayer(graph, i, size[i], size[i + 1], &x));
  }
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, x));
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderMlp = {"mlp", sizeof(MlpSettings),
                                                sizeof rows / sizeof rows[0], rows, BuildMlp};
