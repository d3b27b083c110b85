/* Parts of networks, most of them of transformers (Vaswani et al. 2017). */
#include "blocks.h"
#include <math.h>
#include <stdlib.h>

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

RengaErrorCode RengaBlockReadWidths(const char *builder, const char *key, const char *text,
                                    int *count, int64_t width[BLOCK_WIDTHS])
{
  *count = 0;
  for (const char *at = text; *at;) {
    char *end;
    int64_t number = strtoll(at, &end, 10);
    bool fits = end > at && number > 0 && number <= BLOCK_WIDEST && (*end == '-' || *end == '\0');
    RengaCheck(fits && *count < BLOCK_WIDTHS, MPI_COMM_SELF, RENGA_ERR_OPTION,
               "%s: %s=%s must be at most %d widths from 1 to %d, as 784-2048-10", builder, key,
               text, BLOCK_WIDTHS, BLOCK_WIDEST);
    width[(*count)++] = number;
    at = end + (*end == '-');
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockNode(RengaGraph graph, const char *op, const char *name,
                              RengaAttributes *attributes, int n_in, const RengaValue in[],
                              int n_out, RengaValue out[])
{
  RengaValue made[BLOCK_OUTPUTS];
  RengaErrorCode code = RengaGraphAddNode(graph, op, name, attributes, n_in, in, n_out, NULL, made);
  if (attributes) RengaAttributesFree(attributes);
  RengaCall(code);
  for (int i = 0; i < n_out; i++) out[i] = made[i];
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
  RengaCall(RengaBlockNode(graph, "Mul", NULL, NULL, 2, in, 1, y));
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
  RengaCall(RengaBlockNode(graph, "Equal", NULL, NULL, 2, compared, 1, &in[0]));
  RengaCall(AddScalar(graph, -INFINITY, &in[1]));
  RengaCall(AddScalar(graph, 0, &in[2]));
  RengaCall(RengaBlockNode(graph, "Where", NULL, NULL, 3, in, 1, mask));
  RengaCall(RengaGraphAddReshape(graph, *mask, 4, wide, mask));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockRmsNormalization(RengaGraph graph, const char *name, RengaValue x,
                                          double epsilon, RengaValue *y)
{
  const RengaInit one = {.kind = RENGA_INIT_CONSTANT, .a = 1};
  const RengaTensorSpec *spec = RengaGraphSpec(graph, x);
  const RengaTensorSpec width = {.type = spec->type, .ndim = 1, .dim = {spec->dim[spec->ndim - 1]}};
  char text[BLOCK_NAME];
  RengaValue in[2] = {x};
  RengaAttributes attributes = {0};
  RengaCall(
      RengaGraphAddParameter(graph, RengaBlockName(name, ".weight", text), &width, &one, &in[1]));
  RengaCall(RengaAttributesSetInt(&attributes, "axis", -1));
  RengaCall(RengaAttributesSetReal(&attributes, "epsilon", epsilon));
  RengaCall(RengaBlockNode(graph, "RMSNormalization", name, &attributes, 2, in, 1, y));
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

/* Sum of -log p over classes and labels that count, divided by the number of classes. */
static RengaErrorCode AddUniform(RengaGraph graph, RengaValue scores, RengaValue labels,
                                 RengaValue *sum)
{
  const RengaTensorSpec integer = {.type = RENGA_INT64};
  RengaAttributes attributes = {0};
  RengaValue pair[2] = {labels}, in[3];
  RengaCall(RengaAttributesSetInts(&attributes, "axes", 1, (const int64_t[]){-1}));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaGraphAddUnary(graph, "LogSoftmax", scores, &in[2]));
  RengaCall(RengaBlockNode(graph, "ReduceMean", NULL, &attributes, 1, &in[2], 1, &in[2]));
  RengaCall(RengaGraphAddUnary(graph, "Neg", in[2], &in[2]));
  RengaCall(RengaGraphAddConstant(graph, NULL, &integer, &(int64_t){-100}, &pair[1]));
  RengaCall(RengaBlockNode(graph, "Equal", NULL, NULL, 2, pair, 1, &in[0]));
  RengaCall(AddScalar(graph, 0, &in[1]));
  RengaCall(RengaBlockNode(graph, "Where", NULL, NULL, 3, in, 1, sum));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaBlockNode(graph, "ReduceSum", NULL, &attributes, 1, &(RengaValue){*sum}, 1, sum));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockSmoothLoss(RengaGraph graph, RengaValue scores, RengaValue labels,
                                    double share, RengaValue *loss)
{
  RengaAttributes attributes = {0};
  RengaValue sum, uniform, count;
  if (share == 0) return RengaGraphAddCrossEntropy(graph, scores, labels, -100, loss);
  RengaCall(RengaAttributesSetInt(&attributes, "ignore_index", -100));
  RengaCall(RengaBlockNode(graph, "CrossEntropyCount", NULL, &attributes, 1, &labels, 1, &count));
  RengaCall(RengaGraphAddUnary(graph, "BatchSum", count, &count));
  RengaCall(RengaAttributesSetInt(&attributes, "ignore_index", -100));
  RengaCall(RengaBlockNode(graph, "CrossEntropy", NULL, &attributes, 2,
                           (const RengaValue[]){scores, labels}, 1, &sum));
  RengaCall(AddUniform(graph, scores, labels, &uniform));
  RengaCall(RengaBlockScale(graph, sum, 1 - share, &sum));
  RengaCall(RengaBlockScale(graph, uniform, share, &uniform));
  RengaCall(RengaGraphAddAdd(graph, sum, uniform, &sum));
  RengaCall(
      RengaBlockNode(graph, "Div", "loss", NULL, 2, (const RengaValue[]){sum, count}, 1, loss));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaBlockFinish(RengaGraph graph, RengaValue loss, RengaValue scores)
{
  bool is_part;
  RengaCall(RengaGraphFinishPart(graph, loss, scores, &is_part));
  if (is_part) return RENGA_SUCCESS;
  RengaCall(RengaGraphSetLoss(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, scores));
  return RENGA_SUCCESS;
}

/* The kind of a distance from a query to a key: half of them for one step each, the others grow by
   a factor. Where a
   query looks both ways there are as many for keys ahead. */
int64_t RengaBlockBucket(int64_t ahead, bool both, int64_t buckets, int64_t distance)
{
  int64_t first = 0, back = -ahead;
  if (both) {
    buckets /= 2;
    if (ahead > 0) first = buckets;
    if (ahead > 0) back = ahead;
  }
  if (back < 0) back = 0;
  int64_t exact = buckets / 2;
  if (back < exact) return first + back;
  double part = log((double)back / (double)exact) / log((double)distance / (double)exact);
  int64_t far = exact + (int64_t)(part * (double)(buckets - exact));
  return first + (far < buckets - 1 ? far : buckets - 1);
}
