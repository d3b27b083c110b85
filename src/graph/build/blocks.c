/* Parts of transformer networks (Vaswani et al. 2017). */
#include "blocks.h"
#include <math.h>

const char *RengaBlockName(const char *prefix, const char *part, char text[BLOCK_NAME])
{
  snprintf(text, BLOCK_NAME, "%s%s", prefix, part);
  return text;
}

RengaErrorCode RengaBlockTable(RengaGraph graph, const char *name, int64_t rows, int64_t width,
                               double deviation, RengaValue *table)
{
  const RengaInit normal = {.kind = RENGA_INIT_NORMAL, .a = 0, .b = deviation};
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {rows, width}};
  RengaCall(RengaGraphAddParameter(graph, name, &spec, &normal, table));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockNode(RengaGraph graph, const char *op, const char *name,
                              RengaAttributes *attributes, int n_in, const RengaValue in[],
                              int n_out, RengaValue out[])
{
  RengaErrorCode code = RengaGraphAddNode(graph, op, name, attributes, n_in, in, n_out, NULL, out);
  RengaAttributesFree(attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddScalar(RengaGraph graph, double number, RengaValue *value)
{
  const RengaTensorSpec scalar = {.type = RENGA_FLOAT32};
  RengaCall(RengaGraphAddConstant(graph, NULL, &scalar, &(float){(float)number}, value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockScale(RengaGraph graph, RengaValue x, double factor, RengaValue *y)
{
  RengaValue in[2] = {x};
  RengaCall(AddScalar(graph, factor, &in[1]));
  RengaCall(RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, in, 1, NULL, y));
  return RENGA_SUCCESS;
}

static RengaErrorCode SplitOne(RengaGraph graph, RengaValue x, const int64_t dim[4], RengaValue *y)
{
  RengaCall(RengaGraphAddReshape(graph, x, 4, dim, y));
  RengaCall(RengaGraphAddTranspose(graph, *y, (const int64_t[]){0, 2, 1, 3}, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockSplitHeads(RengaGraph graph, RengaValue x, int n, int64_t heads,
                                    RengaValue part[])
{
  const RengaTensorSpec *spec = RengaGraphSpec(graph, x);
  const int64_t places = spec->dim[1], width = spec->dim[2] / n / heads;
  const int64_t order[] = {2, 0, 3, 1, 4}, apart[] = {-1, places, n, heads, width};
  const int64_t one[] = {-1, heads, places, width};
  RengaValue y, split[3];
  RengaAttributes attributes = {0};
  if (n == 1) return SplitOne(graph, x, (const int64_t[]){-1, places, heads, width}, part);
  RengaCall(RengaGraphAddReshape(graph, x, 5, apart, &y));
  RengaCall(RengaGraphAddTranspose(graph, y, order, &y));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", 0));
  RengaCall(RengaBlockNode(graph, "Split", NULL, &attributes, 1, &y, n, split));
  for (int i = 0; i < n; i++) RengaCall(RengaGraphAddReshape(graph, split[i], 4, one, &part[i]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockJoinHeads(RengaGraph graph, RengaValue x, RengaValue *y)
{
  const RengaTensorSpec *spec = RengaGraphSpec(graph, x);
  const int64_t joined[] = {-1, spec->dim[2], spec->dim[1] * spec->dim[3]};
  RengaCall(RengaGraphAddTranspose(graph, x, (const int64_t[]){0, 2, 1, 3}, y));
  RengaCall(RengaGraphAddReshape(graph, *y, 3, joined, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockAttention(RengaGraph graph, const RengaBlockHeads *heads, RengaValue *y)
{
  const RengaValue in[4] = {heads->q, heads->k, heads->v, heads->mask};
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetReal(&attributes, "scale", heads->scale));
  RengaCall(RengaAttributesSetInt(&attributes, "causal", heads->causal));
  RengaCall(RengaAttributesSetReal(&attributes, "ratio", heads->dropout));
  RengaCall(RengaBlockNode(graph, "Attention", NULL, &attributes, 4, in, 1, y));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockPaddingMask(RengaGraph graph, RengaValue tokens, RengaValue *mask)
{
  const RengaTensorSpec integer = {.type = RENGA_INT64};
  const int64_t wide[] = {-1, 1, 1, RengaGraphSpec(graph, tokens)->dim[1]};
  RengaValue compared[2] = {tokens}, in[3];
  RengaCall(RengaGraphAddConstant(graph, NULL, &integer, &(int64_t){0}, &compared[1]));
  RengaCall(RengaGraphAddNode(graph, "Equal", NULL, NULL, 2, compared, 1, NULL, &in[0]));
  RengaCall(AddScalar(graph, -INFINITY, &in[1]));
  RengaCall(AddScalar(graph, 0, &in[2]));
  RengaCall(RengaGraphAddNode(graph, "Where", NULL, NULL, 3, in, 1, NULL, mask));
  RengaCall(RengaGraphAddReshape(graph, *mask, 4, wide, mask));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockScores(RengaGraph graph, const char *name, RengaValue x, RengaValue table,
                                RengaValue bias, RengaValue *scores)
{
  const RengaValue in[3] = {x, table, bias};
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetInt(&attributes, "transB", 1));
  RengaCall(RengaBlockNode(graph, "Linear", name, &attributes, 3, in, 1, scores));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockResidual(RengaGraph graph, RengaValue x, RengaValue y, double dropout,
                                  RengaValue *sum)
{
  RengaCall(RengaGraphAddDropout(graph, y, dropout, &y));
  RengaCall(RengaGraphAddAdd(graph, x, y, sum));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockIntegers(RengaGraph graph, const char *name, int64_t places,
                                  RengaValue *value)
{
  const RengaTensorSpec spec = {
      .type = RENGA_INT64, .ndim = places > 0 ? 2 : 1, .dim = {-1, places}};
  RengaCall(RengaGraphAddInput(graph, name, &spec, value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockFinish(RengaGraph graph, RengaValue loss, RengaValue scores)
{
  RengaCall(RengaGraphSetLoss(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, scores));
  return RENGA_SUCCESS;
}
