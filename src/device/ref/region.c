/* Regions of images, each brought to one size by sampling it in bins.
   He, Gkioxari, Dollar, Girshick: Mask R-CNN, 2017. */
#include "ref.h"
#include "renga/private/op.h"
#include <math.h>
#include <string.h>

enum { TAPS = 4 };

/* A box is cut into out_height x out_width bins of bin_y x bin_x elements, each with
   samples_y x samples_x places; y, x: its first corner; image: its plane of channel 0. */
typedef struct {
  const RengaOpCall *call;
  int64_t images, channels, height, width, out_height, out_width, ratio;
  double scale, offset;
  bool maximum;
  RefIn boxes, numbers;
  int64_t image, samples_y, samples_x;
  double y, x, bin_y, bin_x;
} Regions;

static void StartRegions(const RengaOpCall *call, const RengaTensorSpec *x, const void *const in[],
                         Regions *regions)
{
  *regions = (Regions){
      .call = call,
      .images = x->dim[0],
      .channels = x->dim[1],
      .height = x->dim[2],
      .width = x->dim[3],
      .out_height = RengaOpCallInt(call, "output_height"),
      .out_width = RengaOpCallInt(call, "output_width"),
      .ratio = RengaOpCallInt(call, "sampling_ratio"),
      .scale = RengaOpCallReal(call, "spatial_scale"),
      .offset = RengaOpCallInt(call, "half_pixel") ? 0.5 : 0,
      .maximum = strcmp(RengaOpCallString(call, "mode"), "max") == 0,
      .boxes = RefInput(call, in, 1),
      .numbers = RefInput(call, in, 2),
  };
}

/* Without the half pixel a box has at least one element. */
static RengaErrorCode TakeBox(Regions *regions, int64_t box)
{
  const int64_t number = RefGetInt(regions->numbers, box);
  double corner[4];
  RengaOpCheckValue(number >= 0 && number < regions->images, regions->call,
                    "box %lld is of image %lld of %lld", (long long)box, (long long)number,
                    (long long)regions->images);
  for (int i = 0; i < 4; i++)
    corner[i] = RefGet(regions->boxes, 4 * box + i) * regions->scale - regions->offset;
  double extent_x = corner[2] - corner[0], extent_y = corner[3] - corner[1];
  RengaOpCheckValue(fabs(extent_x) < 1e6 && fabs(extent_y) < 1e6, regions->call,
                    "box %lld has %g x %g elements", (long long)box, extent_y, extent_x);
  if (regions->offset == 0) extent_x = fmax(extent_x, 1), extent_y = fmax(extent_y, 1);
  regions->image = number * regions->channels * regions->height * regions->width;
  regions->x = corner[0];
  regions->y = corner[1];
  regions->bin_x = extent_x / (double)regions->out_width;
  regions->bin_y = extent_y / (double)regions->out_height;
  regions->samples_x = regions->ratio ? regions->ratio : (int64_t)fmax(ceil(regions->bin_x), 0);
  regions->samples_y = regions->ratio ? regions->ratio : (int64_t)fmax(ceil(regions->bin_y), 0);
  return RENGA_SUCCESS;
}

/* The elements on either side of a place, the second with this weight. */
static double Neighbours(double place, int64_t extent, int64_t *first, int64_t *second)
{
  place = fmax(place, 0);
  *first = (int64_t)place;
  *second = *first + 1;
  if (*first < extent - 1) return place - (double)*first;
  *first = *second = extent - 1;
  return 0;
}

/* The elements around a sample of a bin, and their weights: 0 more than one element outside. */
static void TapsOf_Ref(const Regions *regions, int64_t bin, int64_t sample, int64_t place[TAPS],
                       double weight[TAPS])
{
  const int64_t row = bin / regions->out_width, column = bin % regions->out_width;
  const int64_t down = sample / regions->samples_x, right = sample % regions->samples_x;
  const double in_y = (double)row + ((double)down + 0.5) / (double)regions->samples_y;
  const double in_x = (double)column + ((double)right + 0.5) / (double)regions->samples_x;
  const double y = regions->y + in_y * regions->bin_y, x = regions->x + in_x * regions->bin_x;
  const bool inside =
      y >= -1 && y <= (double)regions->height && x >= -1 && x <= (double)regions->width;
  int64_t top = 0, bottom = 0, left = 0, after = 0;
  const double low = inside ? Neighbours(y, regions->height, &top, &bottom) : 0;
  const double side = inside ? Neighbours(x, regions->width, &left, &after) : 0;
  const int64_t rows[TAPS] = {top, top, bottom, bottom};
  const int64_t columns[TAPS] = {left, after, left, after};
  const double weights[TAPS] = {(1 - low) * (1 - side), (1 - low) * side, low * (1 - side),
                                low * side};
  for (int t = 0; t < TAPS; t++) {
    place[t] = rows[t] * regions->width + columns[t];
    weight[t] = inside ? weights[t] : 0;
  }
}

/* The largest weighted element of a bin: ONNX's maximum is not one of samples. */
static double LargestTap(const Regions *regions, RefIn x, int64_t plane, int64_t bin, int64_t *at,
                         double *slope)
{
  const int64_t samples = regions->samples_y * regions->samples_x;
  double largest = 0;
  *at = -1;
  *slope = 0;
  for (int64_t s = 0; s < samples; s++) {
    int64_t place[TAPS];
    double weight[TAPS];
    TapsOf_Ref(regions, bin, s, place, weight);
    for (int t = 0; t < TAPS; t++) {
      const double value = weight[t] * RefGet(x, plane + place[t]);
      if (*at >= 0 && !(value > largest)) continue;
      largest = value;
      *at = plane + place[t];
      *slope = weight[t];
    }
  }
  return largest;
}

static double MeanOfBin(const Regions *regions, RefIn x, int64_t plane, int64_t bin)
{
  const int64_t samples = regions->samples_y * regions->samples_x;
  double sum = 0;
  for (int64_t s = 0; s < samples; s++) {
    int64_t place[TAPS];
    double weight[TAPS];
    TapsOf_Ref(regions, bin, s, place, weight);
    for (int t = 0; t < TAPS; t++)
      if (weight[t] != 0) sum += weight[t] * RefGet(x, plane + place[t]);
  }
  return samples > 0 ? sum / (double)samples : 0;
}

/* x, boxes, images of the boxes */
static RengaErrorCode RoiAlign_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                   const void *const in[], void *const out[])
{
  RefIn x = RefInput(call, in, 0);
  RefOut y = RefOutput(call, out, 0);
  Regions regions;
  StartRegions(call, &call->in[0], in, &regions);
  const int64_t bins = regions.out_height * regions.out_width;
  const int64_t size = regions.height * regions.width;
  for (int64_t r = 0, i = 0; r < call->in[1].dim[0]; r++) {
    RengaCall(TakeBox(&regions, r));
    for (int64_t c = 0; c < regions.channels; c++)
      for (int64_t b = 0; b < bins; b++, i++) {
        const int64_t plane = regions.image + c * size;
        int64_t at;
        double slope;
        RefSet(y, i,
               regions.maximum ? LargestTap(&regions, x, plane, b, &at, &slope)
                               : MeanOfBin(&regions, x, plane, b));
      }
  }
  return RENGA_SUCCESS;
}

static void SpreadMean(const Regions *regions, double dy, int64_t plane, int64_t bin, RefOut dx)
{
  const int64_t samples = regions->samples_y * regions->samples_x;
  for (int64_t s = 0; s < samples; s++) {
    int64_t place[TAPS];
    double weight[TAPS];
    TapsOf_Ref(regions, bin, s, place, weight);
    for (int t = 0; t < TAPS; t++)
      if (weight[t] != 0) RefAdd(dx, plane + place[t], dy * weight[t] / (double)samples);
  }
}

/* dy, boxes, images of the boxes, (x) */
static RengaErrorCode RoiAlignGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[])
{
  RefIn dy = RefInput(call, in, 0), x = RefInput(call, in, 3);
  RefOut dx = RefOutput(call, out, 0);
  Regions regions;
  StartRegions(call, &call->out[0], in, &regions);
  const int64_t bins = regions.out_height * regions.out_width;
  const int64_t size = regions.height * regions.width;
  RefZero(dx, RengaTensorSpecCount(&call->out[0]));
  for (int64_t r = 0, i = 0; r < call->in[1].dim[0]; r++) {
    RengaCall(TakeBox(&regions, r));
    for (int64_t c = 0; c < regions.channels; c++)
      for (int64_t b = 0; b < bins; b++, i++) {
        const int64_t plane = regions.image + c * size;
        int64_t at = -1;
        double slope;
        if (!regions.maximum)
          SpreadMean(&regions, RefGet(dy, i), plane, b, dx);
        else
          LargestTap(&regions, x, plane, b, &at, &slope);
        if (at >= 0) RefAdd(dx, at, RefGet(dy, i) * slope);
      }
  }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindRegion(const char *name)
{
  static const RefRow rows[] = {
      {"RoiAlign", RoiAlign_Ref},
      {"RoiAlignGrad", RoiAlignGrad_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
