/* Values of inputs that are not float32: indices must lie within bounds. Where an operator's time
   depends on them, they are spread as data spreads them. */
#include "profileimpl.h"
#include <string.h>

/* Input `input` of an operator points into dimension `axis` of tensor `of`: inputs, then outputs
   counted from the number of inputs; OUTPUT: output 0. */
enum {
  AXIS_ATTRIBUTE = -100,
  AXIS_WINDOWS = -101,
  AXIS_LEAST = -102,
  AXIS_FIRST = -103,
  OUTPUT = -1
};
static const struct {
  const char *op;
  int input, of;
  int axis; /* AXIS_ATTRIBUTE: the attribute's; WINDOWS: a position of a plane, in order */
} indices[] = {
    {"Gather", 1, 0, AXIS_ATTRIBUTE},
    {"GatherGrad", 1, 2, AXIS_ATTRIBUTE},
    {"GatherElements", 1, 0, AXIS_ATTRIBUTE},
    {"GatherElementsGrad", 1, 2, AXIS_ATTRIBUTE},
    {"GatherND", 1, 0, AXIS_LEAST},
    {"GatherNDGrad", 1, 2, AXIS_LEAST},
    {"ScatterElements", 1, 0, AXIS_ATTRIBUTE},
    {"ScatterND", 1, 0, AXIS_LEAST},
    {"CrossEntropy", 1, 0, AXIS_ATTRIBUTE},
    {"CrossEntropyGrad", 2, 1, AXIS_ATTRIBUTE},
    {"CrossEntropyLane", 1, 0, AXIS_ATTRIBUTE},
    {"CrossEntropyLaneGrad", 3, 2, AXIS_ATTRIBUTE},
    {"LogLikelihood", 1, 0, AXIS_ATTRIBUTE},
    {"LogLikelihoodGrad", 2, 1, AXIS_ATTRIBUTE},
    {"MaxPoolGrad", 1, 2, AXIS_WINDOWS},
    {"RoiAlign", 2, 0, AXIS_FIRST},
    {"RoiAlignGrad", 2, OUTPUT, AXIS_FIRST},
};

static int64_t LeastOfShape(const RengaTensorSpec *spec)
{
  int64_t least = spec->ndim > 0 ? spec->dim[0] : 1;
  for (int d = 1; d < spec->ndim; d++)
    if (spec->dim[d] < least) least = spec->dim[d];
  return least;
}

static int64_t PlaneSize(const RengaTensorSpec *spec)
{
  int64_t count = 1;
  for (int d = 2; d < spec->ndim; d++) count *= spec->dim[d];
  return count;
}

/* Values are 0 … bound - 1; period > 0: they rise from 0 to it over that many elements. */
static void FindIndexBound(const RengaOpCall *call, int input, int64_t *bound, int64_t *period)
{
  *bound = 2;
  *period = 0;
  for (size_t r = 0; r < sizeof indices / sizeof *indices; r++) {
    if (strcmp(indices[r].op, call->op->name) || indices[r].input != input) continue;
    const int of = indices[r].of;
    const RengaTensorSpec *spec = of == OUTPUT      ? &call->out[0]
                                  : of < call->n_in ? &call->in[of]
                                                    : &call->out[of - call->n_in];
    if (indices[r].axis == AXIS_LEAST) {
      *bound = LeastOfShape(spec);
    } else if (indices[r].axis == AXIS_FIRST) {
      *bound = spec->dim[0];
    } else if (indices[r].axis == AXIS_WINDOWS) {
      *bound = PlaneSize(spec);
      *period = PlaneSize(&call->in[input]);
    } else {
      int64_t axis = RengaOpCallInt(call, "axis");
      if (axis < 0) axis += spec->ndim;
      *bound = axis >= 0 && axis < spec->ndim ? spec->dim[axis] : 1;
      const int64_t rows = RengaAttributesInt(call->attributes, "rows", 0); /* of all lanes */
      if (rows > 0) *bound = rows;
    }
  }
  if (*bound < 1) *bound = 1;
}

static void StoreElement(RengaDataType type, int64_t at, int64_t integer, float real, void *data)
{
  uint32_t bits;
  memcpy(&bits, &real, sizeof bits);
  switch (type) {
  case RENGA_FLOAT32:
    ((float *)data)[at] = real;
    break;
  case RENGA_FLOAT64:
    ((double *)data)[at] = (double)real;
    break;
  case RENGA_BFLOAT16:
    ((uint16_t *)data)[at] = (uint16_t)(bits >> 16);
    break;
  case RENGA_FLOAT16:
    ((uint16_t *)data)[at] = (uint16_t)(0x3800 + integer % 512);
    break;
  case RENGA_INT64:
  case RENGA_UINT64:
    ((int64_t *)data)[at] = integer;
    break;
  case RENGA_INT32:
  case RENGA_UINT32:
    ((int32_t *)data)[at] = (int32_t)integer;
    break;
  case RENGA_INT16:
  case RENGA_UINT16:
    ((int16_t *)data)[at] = (int16_t)integer;
    break;
  default:
    ((int8_t *)data)[at] = (int8_t)(integer & 1);
    break;
  }
}

bool RengaProfileIsIndex_Private(const RengaOpCall *call, int input, int64_t *bound)
{
  int64_t period;
  bool is = false;
  for (size_t r = 0; r < sizeof indices / sizeof *indices; r++)
    is = is || (!strcmp(indices[r].op, call->op->name) && indices[r].input == input);
  FindIndexBound(call, input, bound, &period);
  return is;
}

RengaErrorCode RengaProfileFill_Private(const RengaOpCall *call, int input, void *data)
{
  const RengaTensorSpec *spec = &call->in[input];
  const int64_t count = RengaTensorSpecCount(spec);
  int64_t bound, period;
  uint64_t state = 0x9e3779b97f4a7c15u;
  FindIndexBound(call, input, &bound, &period);
  for (int64_t i = 0; i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t draw = state >> 33;
    const int64_t integer =
        period > 0 ? i % period * bound / period : (int64_t)(draw % (uint64_t)bound);
    StoreElement(spec->type, i, integer, 0.1f + 0.8f * (float)draw / 2147483648.0f, data);
  }
  return RENGA_SUCCESS;
}
