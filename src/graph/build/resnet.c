/* Residual networks for images (He et al. 2016); the stride of a bottleneck is in its 3x3 part. */
#include "blocks.h"
#include <math.h>

typedef struct {
  int64_t depth, classes, image, channels;
  double width;
} ResNetSettings;

#define AT(member) offsetof(ResNetSettings, member)
static const RengaOptionRow rows[] = {
    {"depth", RENGA_OPTION_INT64, "50", AT(depth), NULL, 1, 1e6, "18, 34, 50, 101 or 152"},
    {"width", RENGA_OPTION_REAL, "1", AT(width), NULL, 0.015625, 1e4, "factor of the 64 channels"},
    {"classes", RENGA_OPTION_INT64, "1000", AT(classes), NULL, 1, 1e9, "classes"},
    {"image", RENGA_OPTION_INT64, "224", AT(image), NULL, 1, 1e6, "height and width of an image"},
    {"channels", RENGA_OPTION_INT64, "3", AT(channels), NULL, 1, 1e6, "channels of an image"},
};

static const struct {
  int64_t depth;
  bool bottleneck;
  int blocks[4];
} depths[] = {
    {18, false, {2, 2, 2, 2}},  {34, false, {3, 4, 6, 3}},  {50, true, {3, 4, 6, 3}},
    {101, true, {3, 4, 23, 3}}, {152, true, {3, 8, 36, 3}},
};
enum { N_DEPTHS = sizeof depths / sizeof depths[0] };

/* convolution, batch normalisation and, where asked, ReLU */
static RengaErrorCode AddResNetPart(RengaGraph graph, const char *prefix, const char *convolution,
                                    const char *normalization, int64_t channels, int64_t kernel,
                                    int64_t stride, bool relu, RengaValue *x)
{
  char name[96];
  snprintf(name, sizeof name, "%s%s", prefix, convolution);
  RengaCall(
      RengaGraphAddConvolution(graph, name, *x, channels, kernel, stride, kernel / 2, false, x));
  snprintf(name, sizeof name, "%s%s", prefix, normalization);
  RengaCall(RengaGraphAddBatchNormalization(graph, name, *x, 1e-5, 0.9, x));
  if (relu) RengaCall(RengaGraphAddUnary(graph, "Relu", *x, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddResNetBlock(RengaGraph graph, int number, bool bottleneck,
                                     int64_t channels, int64_t stride, RengaValue *x)
{
  char prefix[64];
  int64_t wide = bottleneck ? 4 * channels : channels;
  RengaValue y = *x, shortcut = *x;
  snprintf(prefix, sizeof prefix, "layers.%d.", number);
  if (bottleneck) {
    RengaCall(AddResNetPart(graph, prefix, "c1", "b1", channels, 1, 1, true, &y));
    RengaCall(AddResNetPart(graph, prefix, "c2", "b2", channels, 3, stride, true, &y));
    RengaCall(AddResNetPart(graph, prefix, "c3", "b3", wide, 1, 1, false, &y));
  } else {
    RengaCall(AddResNetPart(graph, prefix, "c1", "b1", channels, 3, stride, true, &y));
    RengaCall(AddResNetPart(graph, prefix, "c2", "b2", channels, 3, 1, false, &y));
  }
  if (stride != 1 || RengaGraphSpec(graph, *x)->dim[1] != wide)
    RengaCall(AddResNetPart(graph, prefix, "ds.0", "ds.1", wide, 1, stride, false, &shortcut));
  RengaCall(RengaGraphAddAdd(graph, y, shortcut, &y));
  RengaCall(RengaGraphAddUnary(graph, "Relu", y, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddPool(RengaGraph graph, RengaValue *x)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "kernel_shape", 2, (const int64_t[]){3, 3}));
  RengaCall(RengaAttributesSetInts(&attributes, "strides", 2, (const int64_t[]){2, 2}));
  RengaCall(RengaAttributesSetInts(&attributes, "pads", 4, (const int64_t[]){1, 1, 1, 1}));
  RengaCall(RengaBlockNode(graph, "MaxPool", "pool", &attributes, 1, &(RengaValue){*x}, 1, x));
  return RENGA_SUCCESS;
}

/* The mean over each image plane, then the scores of the classes. */
static RengaErrorCode AddHead(RengaGraph graph, int64_t classes, RengaValue *x)
{
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 2, (const int64_t[]){2, 3}));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaBlockNode(graph, "ReduceMean", "mean", &attributes, 1, &(RengaValue){*x}, 1, x));
  double k = (double)RengaGraphSpec(graph, *x)->dim[1];
  RengaCall(RengaGraphAddLinear(graph, "fc", *x, classes, true, 1.0 / sqrt(3.0 * k), x));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddResNet(RengaGraph graph, const ResNetSettings *s, int depth, RengaValue *x)
{
  int number = 0;
  int64_t channels = (int64_t)(64 * s->width + 0.5);
  RengaCall(AddResNetPart(graph, "", "stem", "bn", channels, 7, 2, true, x));
  RengaCall(AddPool(graph, x));
  for (int group = 0; group < 4; group++)
    for (int i = 0; i < depths[depth].blocks[group]; i++)
      RengaCall(AddResNetBlock(graph, number++, depths[depth].bottleneck, channels << group,
                               i == 0 && group > 0 ? 2 : 1, x));
  RengaCall(AddHead(graph, s->classes, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildResNet(RengaGraph graph, const void *settings)
{
  const ResNetSettings *s = settings;
  int depth = 0;
  while (depth < N_DEPTHS && depths[depth].depth != s->depth) depth++;
  RengaCheck(depth < N_DEPTHS, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "resnet: depth=%lld must be 18, 34, 50, 101 or 152", (long long)s->depth);
  RengaTensorSpec of_x = {
      .type = RENGA_FLOAT32, .ndim = 4, .dim = {-1, s->channels, s->image, s->image}};
  RengaTensorSpec of_labels = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaValue x, labels, loss;
  RengaCall(RengaGraphAddInput(graph, "image", &of_x, &x));
  RengaCall(RengaGraphAddInput(graph, "labels", &of_labels, &labels));
  RengaCall(AddResNet(graph, s, depth, &x));
  RengaCall(RengaGraphAddCrossEntropy(graph, x, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, x));
  return RENGA_SUCCESS;
}

static RengaErrorCode NarrowResNet(void *settings, double share)
{
  ResNetSettings *s = settings;
  s->width *= share;
  return RENGA_SUCCESS;
}

const RengaGraphBuilder RengaGraphBuilderResnet = {
    "resnet",    sizeof(ResNetSettings), sizeof rows / sizeof rows[0], rows, BuildResNet,
    NarrowResNet};
