/* Windows that move over rows: convolutions, pooling, transposed convolutions. Rows are the first
   spatial dimension, the height of an image. A lane makes consecutive rows of the output; it reads
   the rows of the input that its windows reach, some of which other lanes have. Where the windows
   reach over the ends of the image only the lanes at the ends have padding: a lane's pads are what
   is left of those of the whole. */
#include "splitimpl.h"
#include <string.h>

enum { ROWS = 2 }; /* dimension of the rows: [N, C, rows, ...] */

/* What a lane reads and makes: rows of the whole input and output. */
typedef struct {
  int64_t first, last;           /* of the input: [first, last) */
  int64_t before, after, beyond; /* pads, and output_padding */
} LaneRows;

static bool IsTransposedWindow(const RengaOpCall *call)
{
  return strcmp(call->op->name, "ConvTranspose") == 0;
}

static const RengaTensorSpec *WeightOfWindow(const RengaOpCall *call)
{
  return strncmp(call->op->name, "Conv", 4) == 0 ? &call->in[1] : NULL;
}

static int64_t ReachOf(const RengaOpWindow *window)
{
  return (window->kernel[0] - 1) * window->dilation[0] + 1;
}

/* Windows that have a part in the image each. Of a number that is rounded up the last one may hang
   over the padding, where elements do not count for the mean. */
static bool HasWindowWay(const RengaOpCall *call, const RengaOpWindow *window)
{
  const int64_t reach = ReachOf(window), before = window->before[0], after = window->after[0];
  const bool counts =
      strcmp(call->op->name, "AveragePool") == 0 && RengaOpCallInt(call, "count_include_pad") != 0;
  if (before < 0 || after < 0) return false;
  if (IsTransposedWindow(call)) return window->stride[0] <= reach;
  if (counts && RengaOpCallInt(call, "ceil_mode") != 0) return false;
  return before < reach && after < reach;
}

static bool MovesWindow(const RengaOpCall *call)
{
  static const char *const names[] = {"Conv", "ConvTranspose", "MaxPool", "AveragePool"};
  bool known = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    known = known || strcmp(call->op->name, names[i]) == 0;
  return known;
}

RengaErrorCode RengaSplitWaysAddWindow_Private(const RengaOpCall *call, RengaSplitWays *ways)
{
  RengaSplitWay *way;
  RengaOpWindow window;
  if (!MovesWindow(call) || call->n_out != 1 || call->in[0].dim[ROWS] < 1) return RENGA_SUCCESS;
  RengaCall(RengaOpGetWindow(call, &call->in[0], WeightOfWindow(call), &window));
  if (!HasWindowWay(call, &window)) return RENGA_SUCCESS;
  RengaCall(RengaSplitWaysAdd_Private(call, call->out[0].dim[ROWS], ways, &way));
  way->need = RENGA_LANE_WINDOW;
  way->in[0] = way->out[0] = (RengaSplit){RENGA_SPLIT_ALONG, ROWS, 1, 1};
  return RENGA_SUCCESS;
}

/* Rows [a, b) of the output. A stride may leave rows behind the last window, which a convolution
   passes over: the lane takes them where its own part of the input so is all that it reads. */
static LaneRows RowsUnder(const RengaOpCall *call, const RengaOpWindow *window, int64_t a,
                          int64_t b, int64_t own_end)
{
  const int64_t extent = call->in[0].dim[ROWS], stride = window->stride[0];
  const int64_t lo = a * stride - window->before[0];
  const int64_t hi = (b - 1) * stride - window->before[0] + ReachOf(window);
  LaneRows rows = {lo < 0 ? 0 : lo, hi > extent ? extent : hi, lo < 0 ? -lo : 0,
                   hi > extent ? hi - extent : 0, 0};
  const bool exact = WeightOfWindow(call) == NULL && RengaOpCallInt(call, "ceil_mode") != 0;
  if (!exact && hi < own_end && own_end - hi < stride) rows.last = own_end;
  return rows;
}

/* Row i of the input adds to rows i * stride - before + [0, reach) of the output. */
static LaneRows RowsBeside(const RengaOpCall *call, const RengaOpWindow *window, int64_t a,
                           int64_t b)
{
  const int64_t extent = call->in[0].dim[ROWS], stride = window->stride[0];
  const int64_t reach = ReachOf(window), from = a + window->before[0] - (reach - 1);
  LaneRows rows = {from > 0 ? (from + stride - 1) / stride : 0,
                   (b - 1 + window->before[0]) / stride + 1, 0, 0, 0};
  if (rows.first > extent - 1) rows.first = extent - 1;
  if (rows.last > extent) rows.last = extent;
  rows.before = window->before[0] + a - rows.first * stride;
  const int64_t made = (rows.last - rows.first - 1) * stride + reach - rows.before;
  if (made > b - a)
    rows.after = made - (b - a);
  else
    rows.beyond = b - a - made;
  return rows;
}

static RengaErrorCode FindLaneRows(const RengaOpCall *whole, const RengaSplitWay *way, int lane,
                                   int lanes, RengaOpWindow *window, LaneRows *rows)
{
  const int64_t unit = way->out[0].unit;
  int64_t first, count, own, own_count;
  RengaLaneUnits(way->units, lane, lanes, &first, &count);
  RengaLaneUnits(whole->in[0].dim[ROWS], lane, lanes, &own, &own_count);
  RengaCall(RengaOpGetWindow(whole, &whole->in[0], WeightOfWindow(whole), window));
  const int64_t a = first * unit, b = (first + count) * unit;
  *rows = IsTransposedWindow(whole) ? RowsBeside(whole, window, a, b)
                                    : RowsUnder(whole, window, a, b, own + own_count);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitWindow(const RengaOpCall *whole, const RengaSplitWay *way, int lane,
                                int lanes, int64_t *first, int64_t *count)
{
  RengaOpWindow window;
  LaneRows rows;
  RengaCall(FindLaneRows(whole, way, lane, lanes, &window, &rows));
  *first = rows.first;
  *count = rows.last - rows.first;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitWindowCall_Private(const RengaOpCall *whole, const RengaSplitWay *way,
                                            int lane, int lanes, RengaTensorSpec *x,
                                            RengaAttributes *attributes)
{
  int64_t pads[2 * RENGA_MAX_DIM], beyond[RENGA_MAX_DIM] = {0};
  RengaOpWindow window;
  LaneRows rows;
  int n_beyond = 0;
  if (!MovesWindow(whole)) return RENGA_SUCCESS; /* the graph knows which rows it reads */
  RengaCall(FindLaneRows(whole, way, lane, lanes, &window, &rows));
  x->dim[ROWS] = rows.last - rows.first;
  for (int d = 0; d < window.n; d++) {
    pads[d] = d ? window.before[d] : rows.before;
    pads[window.n + d] = d ? window.after[d] : rows.after;
  }
  RengaCall(RengaAttributesSetInts(attributes, "pads", 2 * window.n, pads));
  if (!IsTransposedWindow(whole)) return RENGA_SUCCESS;
  const int64_t *of_whole = RengaOpCallInts(whole, "output_padding", &n_beyond);
  for (int d = 0; d < n_beyond; d++) beyond[d] = of_whole[d];
  beyond[0] = rows.beyond;
  RengaCall(RengaAttributesSetInts(attributes, "output_padding", window.n, beyond));
  return RENGA_SUCCESS;
}
