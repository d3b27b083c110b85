/* Calls of operators from text, with inputs drawn at random. */
#pragma once
#include "../check.h"
#include "renga/private/op.h"
#include "rengaop.h"
#include <stdlib.h>
#include <string.h>

/* Inputs and outputs are words: a type (f float32, l int64, i int32, b bool, d float64), extents
   with commas, then <n for integers below n, + for positive values, ! for numbers of which each
   third row is masked by -3e38; @n and ^n are output and input n of the case before; - is an input
   that is absent. Outputs: how many, or words. */
typedef struct {
  const char *op, *attributes, *inputs, *outputs;
  double tolerance; /* relative to the largest value; 0: 1e-5 */
} Case;

enum { MOST = 8 };

typedef struct {
  RengaAttributes attributes;
  RengaTensorSpec in[MOST], out[MOST];
  void *input[MOST], *output[MOST]; /* what ref made */
  int n_in, n_out;
} Call;

static RengaErrorCode ParseAttribute(const char *name, char *value, RengaAttributes *attributes)
{
  if (strchr("0123456789-", value[0]) == NULL) {
    RengaCall(RengaAttributesSetString(attributes, name, value));
    return RENGA_SUCCESS;
  }
  static const char *const lists[] = {
      "perm", "axes",    "starts",    "ends",         "steps",          "split",    "repeats",
      "pads", "strides", "dilations", "kernel_shape", "output_padding", "lane_rows"};
  static const char *const reals[] = {"alpha",   "min",   "max",   "value",
                                      "epsilon", "ratio", "scale", "cap"};
  int64_t ints[MOST];
  int count = 0;
  for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
    if (strcmp(name, reals[i]) == 0) {
      RengaCall(RengaAttributesSetReal(attributes, name, atof(value)));
      return RENGA_SUCCESS;
    }
  for (char *end = value; *value && count < MOST; value = *end ? end + 1 : end)
    ints[count++] = strtoll(value, &end, 10);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (strcmp(name, lists[i]) == 0) {
      RengaCall(RengaAttributesSetInts(attributes, name, count, ints));
      return RENGA_SUCCESS;
    }
  RengaCall(RengaAttributesSetInt(attributes, name, ints[0]));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseAttributes(const char *text, RengaAttributes *attributes)
{
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
    char *equals = strchr(word, '=');
    Expect(equals != NULL);
    *equals = '\0';
    RengaCall(ParseAttribute(word, equals + 1, attributes));
  }
  return RENGA_SUCCESS;
}

static RengaTensorSpec ParseSpec(const char *word, int64_t *below, char *mark)
{
  static const struct {
    char letter;
    RengaDataType type;
  } types[] = {{'f', RENGA_FLOAT32},
               {'l', RENGA_INT64},
               {'i', RENGA_INT32},
               {'b', RENGA_BOOL},
               {'d', RENGA_FLOAT64}};
  RengaTensorSpec spec = {.ndim = 0};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    if (types[t].letter == word[0]) spec.type = types[t].type;
  const char *at = word + 1;
  while (*at >= '0' && *at <= '9') {
    char *end = NULL;
    spec.dim[spec.ndim++] = strtoll(at, &end, 10);
    at = *end == ',' ? end + 1 : end;
  }
  *below = *at == '<' ? atoll(at + 1) : 2;
  *mark = *at;
  return spec;
}

static RengaErrorCode Fill(const RengaTensorSpec *spec, uint64_t stream, int64_t below, char mark,
                           void *data)
{
  int64_t count = RengaTensorSpecCount(spec);
  const int64_t row = spec->ndim > 0 ? spec->dim[spec->ndim - 1] : 1;
  float *uniform = NULL;
  RengaCall(RengaMalloc(count + 1, &uniform));
  RengaRandomUniform(7, stream, 0, count, uniform);
  for (int64_t i = 0; i < count; i++) {
    float value = mark == '+' ? uniform[i] + 0.2f : 4 * uniform[i] - 2;
    if (mark == '!' && i / row % 3 == 0) value = -3e38f;
    int64_t integer = (int64_t)(uniform[i] * (float)below);
    if (spec->type == RENGA_FLOAT32) ((float *)data)[i] = value;
    if (spec->type == RENGA_INT64) ((int64_t *)data)[i] = integer;
    if (spec->type == RENGA_INT32) ((int32_t *)data)[i] = (int32_t)integer;
    if (spec->type == RENGA_BOOL) ((bool *)data)[i] = integer != 0;
  }
  RengaFree(&uniform);
  return RENGA_SUCCESS;
}

static RengaErrorCode Allocate(const RengaTensorSpec *spec, void **data)
{
  char *bytes = NULL;
  RengaCall(RengaMalloc(RengaTensorSpecBytes(spec) + 64, &bytes));
  *data = bytes;
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeInputs(const char *text, uint64_t number, const Call *before, Call *call)
{
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
    int i = call->n_in++;
    RengaTensorSpec *spec = &call->in[i];
    spec->ndim = -1;
    if (strcmp(word, "-") == 0) continue;
    if (word[0] == '@' || word[0] == '^') {
      int from = atoi(word + 1);
      *spec = word[0] == '@' ? before->out[from] : before->in[from];
      RengaCall(Allocate(spec, &call->input[i]));
      memcpy(call->input[i], word[0] == '@' ? before->output[from] : before->input[from],
             RengaTensorSpecBytes(spec));
      continue;
    }
    int64_t below;
    char mark;
    *spec = ParseSpec(word, &below, &mark);
    RengaCall(Allocate(spec, &call->input[i]));
    RengaCall(Fill(spec, 100 * number + (uint64_t)i, below, mark, call->input[i]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeOutputs(const char *text, Call *call)
{
  int64_t below;
  char mark;
  char copy[256];
  snprintf(copy, sizeof copy, "%s", text);
  if (text[0] >= '0' && text[0] <= '9') {
    call->n_out = atoi(text);
    return RENGA_SUCCESS;
  }
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    call->out[call->n_out++] = ParseSpec(word, &below, &mark);
  return RENGA_SUCCESS;
}

/* number: of the case, so that no two draw the same inputs. */
static RengaErrorCode MakeCall(const Case *c, int number, const Call *before, Call *call,
                               RengaOpCall *op)
{
  memset(call, 0, sizeof *call);
  RengaCall(ParseAttributes(c->attributes, &call->attributes));
  RengaCall(MakeInputs(c->inputs, (uint64_t)number, before, call));
  RengaCall(MakeOutputs(c->outputs, call));
  *op = (RengaOpCall){.op = RengaOperatorFind(c->op),
                      .attributes = &call->attributes,
                      .n_in = call->n_in,
                      .n_out = call->n_out,
                      .in = call->in,
                      .out = call->out};
  Expect(op->op != NULL);
  RengaCall(RengaOperatorInfer(op));
  return RENGA_SUCCESS;
}

static RengaErrorCode FreeCall(Call *call)
{
  RengaCall(RengaAttributesFree(&call->attributes));
  for (int i = 0; i < MOST; i++) {
    RengaFree(&call->input[i]);
    RengaFree(&call->output[i]);
  }
  return RENGA_SUCCESS;
}
