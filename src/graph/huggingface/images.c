/* The network of a Hugging Face folder that classifies images by their patches (Dosovitskiy et al.
   2021). */
#include "parts.h"
#include <math.h>

/* A parameter that is added to all samples alike: [1, places, width]. */
static RengaErrorCode AddLearned(const RengaHfParts *p, const char *name, int64_t places,
                                 RengaValue *value)
{
  const RengaInit normal = {.kind = RENGA_INIT_NORMAL, .a = 0, .b = p->config->deviation};
  const RengaTensorSpec spec = {
      .type = RENGA_FLOAT32, .ndim = 3, .dim = {1, places, p->config->hidden}};
  RengaCall(RengaGraphAddParameter(p->graph, name, &spec, &normal, value));
  return RENGA_SUCCESS;
}

/* [N, channels, side, side] -> [N, patches, width] */
static RengaErrorCode AddPatches(const RengaHfParts *p, RengaValue image, RengaValue *x)
{
  const RengaHfConfig *c = p->config;
  const int64_t flat[] = {-1, c->hidden, c->places - 1}, order[] = {0, 2, 1};
  RengaCall(RengaGraphAddConvolution(p->graph, p->names->patches, image, c->hidden, c->image[1],
                                     c->image[1], 0, true, x));
  RengaCall(RengaGraphAddReshape(p->graph, *x, 3, flat, x));
  RengaCall(RengaGraphAddTranspose(p->graph, *x, order, x));
  return RENGA_SUCCESS;
}

/* A learned place in front of the patches, whose result is classified; and the positions. */
static RengaErrorCode AddFirstPlace(const RengaHfParts *p, RengaValue *x)
{
  const RengaHfConfig *c = p->config;
  const RengaTensorSpec each = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {-1, 1, c->hidden}};
  RengaAttributes attributes = {0};
  RengaValue first, places, in[2] = {RENGA_VALUE_NONE, *x};
  RengaCall(AddLearned(p, p->names->first, 1, &first));
  RengaCall(AddLearned(p, p->names->places, c->places, &places));
  RengaCall(RengaGraphAddNode(p->graph, "Expand", NULL, NULL, 1, &first, 1, &each, &in[0]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 1));
  RengaCall(RengaBlockNode(p->graph, "Concat", NULL, &attributes, 2, in, 1, x));
  RengaCall(RengaGraphAddAdd(p->graph, *x, places, x));
  RengaCall(RengaGraphAddDropout(p->graph, *x, p->dropout[RENGA_HF_OF_RESIDUALS], x));
  return RENGA_SUCCESS;
}

/* Scores of the first place. */
static RengaErrorCode AddClassScores(const RengaHfParts *p, RengaValue x, RengaValue *scores)
{
  const RengaHfConfig *c = p->config;
  const RengaTensorSpec shape = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {c->vocabulary}};
  const int64_t row[] = {-1, c->hidden};
  char text[BLOCK_NAME];
  RengaAttributes attributes = {0};
  RengaValue weight, bias, first;
  RengaCall(RengaAttributesSetInts(&attributes, "starts", 1, (const int64_t[]){0}));
  RengaCall(RengaAttributesSetInts(&attributes, "ends", 1, (const int64_t[]){1}));
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){1}));
  RengaCall(RengaBlockNode(p->graph, "Slice", NULL, &attributes, 1, &x, 1, &first));
  RengaCall(RengaGraphAddReshape(p->graph, first, 2, row, &first));
  RengaCall(RengaBlockTable(p->graph, RengaBlockName(p->names->head, ".weight", text),
                            c->vocabulary, c->hidden, c->deviation, &weight));
  RengaCall(RengaGraphAddParameter(p->graph, RengaBlockName(p->names->head, ".bias", text), &shape,
                                   NULL, &bias));
  RengaCall(RengaBlockScores(p->graph, "logits", first, weight, bias, scores));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddImages(RengaHfParts *p, RengaValue image, RengaValue *scores)
{
  RengaValue x;
  RengaCall(AddPatches(p, image, &x));
  RengaCall(AddFirstPlace(p, &x));
  for (int64_t i = 0; i < p->config->layers; i++) {
    snprintf(p->prefix, sizeof p->prefix, "%s%lld.", p->names->blocks, (long long)i);
    RengaCall(RengaHfAddBlock(p, &x));
  }
  p->prefix[0] = '\0';
  RengaCall(RengaHfAddNorm(p, p->names->last, x, &x));
  RengaCall(AddClassScores(p, x, scores));
  return RENGA_SUCCESS;
}

void RengaHfNarrowImages(RengaHfConfig *config, double share)
{
  RengaGraphNarrowHeads(share, &config->hidden, &config->heads);
  config->intermediate = RengaGraphNarrow(config->intermediate, share);
  config->groups = config->heads;
  config->head_width = config->hidden / config->heads;
  config->attention_scale = 1 / sqrt((double)config->head_width);
}

RengaErrorCode RengaHfBuildImages(RengaGraph graph, const RengaHfModel *model,
                                  const RengaHfOptions *options)
{
  const int64_t *size = model->config->image;
  const RengaTensorSpec spec = {
      .type = RENGA_FLOAT32, .ndim = 4, .dim = {-1, size[2], size[0], size[0]}};
  RengaHfParts p = RengaHfStartParts(graph, model, options);
  RengaValue image, labels, scores, loss;
  RengaCall(RengaGraphAddInput(graph, "image", &spec, &image));
  RengaCall(RengaBlockIntegers(graph, "labels", 0, &labels));
  RengaCall(AddImages(&p, image, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}
