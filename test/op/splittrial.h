/* One way of a call in lanes, and what lanes need beside parts: rows of others, statistics. */
#pragma once
#include "../device/calls.h"
#include "renga/private/op.h"
#include "renga/private/ref.h"
#include "renga/private/split.h"
#include <math.h>

enum { MOST_LANES = 6 };
static const RengaKernelContext context = {
    .seed = 17, .step = 3, .sample = 5, .samples = 2, .training = true};

static void *NewTensor(const RengaTensorSpec *spec)
{
  void *data = NULL;
  RengaCallAbort(Allocate(spec, &data));
  memset(data, 0, RengaTensorSpecBytes(spec) + 64);
  return data;
}

static void RunRef(const RengaOpCall *op, void *const input[], void *const output[])
{
  RengaCallAbort(RengaRefFind(op->op->name)(op, &context, (const void *const *)input, output));
}

typedef struct {
  const Case *test;
  const RengaOpCall *op;
  const Call *call;
  const RengaSplitWay *way;
  int lanes;
  void *in[MOST][MOST_LANES], *out[MOST][MOST_LANES];
} Trial;

/* The rows of input 0, by hand, that the windows of the lane reach. */
static RengaErrorCode CutWindowed(Trial *trial, int lane)
{
  const RengaTensorSpec *x = &trial->op->in[0];
  int64_t units, first, count, inner = 1;
  RengaLaneUnits(trial->way->units, lane, trial->lanes, &first, &units);
  if (units == 0) return RENGA_SUCCESS;
  RengaCall(RengaSplitWindow(trial->op, trial->way, lane, trial->lanes, &first, &count));
  Expect(first >= 0 && count > 0 && first + count <= x->dim[2]);
  for (int d = 3; d < x->ndim; d++) inner *= x->dim[d];
  for (int64_t plane = 0; plane < x->dim[0] * x->dim[1]; plane++)
    memcpy((float *)trial->in[0][lane] + plane * count * inner,
           (float *)trial->call->input[0] + (plane * x->dim[2] + first) * inner,
           (size_t)(count * inner) * sizeof(float));
  return RENGA_SUCCESS;
}

/* Inputs 3 and 4 of lanes become the statistics of the batch, of those that lanes have. */
static RengaErrorCode JoinStatistics(Trial *trial)
{
  enum { JOINED = 2 + 2 * MOST_LANES };
  const RengaTensorSpec of_channels = trial->op->in[1];
  int64_t rows[MOST_LANES], first, units;
  int n = 0;
  RengaTensorSpec in[JOINED];
  void *input[JOINED] = {trial->call->input[3], trial->call->input[4]}, *joined[2];
  RengaAttributes attributes = {0};
  for (int i = 0; i < JOINED; i++) in[i] = of_channels;
  for (int i = 0; i < 2; i++) joined[i] = NewTensor(&of_channels);
  for (int l = 0; l < trial->lanes; l++) {
    RengaTensorSpec x = RengaSplitSpec(&trial->op->in[0], &trial->way->in[0], l, trial->lanes);
    RengaOpCall own = {RengaOperatorFind("BatchNormalizationLane"),  NULL, 1, 2, &x,
                       (RengaTensorSpec[]){of_channels, of_channels}};
    RengaLaneUnits(trial->way->units, l, trial->lanes, &first, &units);
    if (units == 0) continue;
    void *output[2] = {NewTensor(&of_channels), NewTensor(&of_channels)};
    RunRef(&own, &trial->in[0][l], output);
    rows[n] = units * trial->way->in[0].unit * trial->way->in[0].repeat;
    input[2 + n] = output[0];
    input[2 + MOST_LANES + n++] = output[1];
  }
  memmove(&input[2 + n], &input[2 + MOST_LANES], (size_t)n * sizeof *input);
  RengaCall(RengaAttributesSetInts(&attributes, "lane_rows", n, rows));
  RengaOpCall join = {RengaOperatorFind("BatchNormalizationJoin"),  &attributes, 2 + 2 * n, 2, in,
                      (RengaTensorSpec[]){of_channels, of_channels}};
  RengaCall(RengaOperatorInfer(&join));
  RunRef(&join, input, joined);
  for (int l = 0; l < trial->lanes; l++)
    for (int i = 0; i < 2; i++)
      memcpy(trial->in[3 + i][l], joined[i], RengaTensorSpecBytes(&of_channels));
  for (int i = 2; i < 2 + 2 * n; i++) RengaFree(&input[i]);
  for (int i = 0; i < 2; i++) RengaFree(&joined[i]);
  RengaCall(RengaAttributesFree(&attributes));
  return RENGA_SUCCESS;
}

static bool IsNear(int64_t count, const float *a, const float *b)
{
  for (int64_t e = 0; e < count; e++)
    if (!(fabsf(a[e] - b[e]) <= 2e-5f * (1 + fabsf(b[e])))) return false;
  return true;
}
