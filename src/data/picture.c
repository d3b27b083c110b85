/* Data: pictures in files, and their sizes. */
#include "picture.h"
#include "renga/private/number.h"
#include <math.h>
#include <string.h>

static const struct {
  const char *ending;
  RengaErrorCode (*read)(const char *file, bool pixels, RengaPicture *picture);
} picture_kinds[] = {{".png", RengaPictureReadPng_Private},
                     {".jpg", RengaPictureReadJpeg_Private},
                     {".jpeg", RengaPictureReadJpeg_Private}};
enum { PICTURE_KINDS = sizeof picture_kinds / sizeof picture_kinds[0] };

/* -1: of none. */
static int PictureKindOf(const char *name)
{
  const char *ending = strrchr(name, '.');
  for (int k = 0; ending && k < PICTURE_KINDS; k++)
    if (RengaIsSameWord(ending, picture_kinds[k].ending)) return k;
  return -1;
}

bool RengaPictureIsName_Private(const char *name)
{
  return PictureKindOf(name) >= 0;
}

RengaErrorCode RengaPictureRead_Private(const char *file, bool pixels, RengaPicture *picture)
{
  const int kind = PictureKindOf(file);
  *picture = (RengaPicture){0};
  RengaCheck(kind >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%s is neither a PNG nor a JPEG file",
             file);
  const RengaErrorCode code = picture_kinds[kind].read(file, pixels, picture);
  if (code) RengaPictureFree_Private(picture);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaPictureFree_Private(RengaPicture *picture)
{
  RengaFree(&picture->pixel);
}

/* Lines of pixels: how many, how far one is from the next, and the same for the pixels of a line;
   numbers of channels beside each other. */
typedef struct {
  int lines, line_step, length, step, beside;
} PictureSweep;

/* One line: each new pixel is the mean of the old ones around its place. */
static void ResizeLine(const PictureSweep *sweep, const float from[], int wanted, float to[],
                       int to_step)
{
  const double scale = (double)sweep->length / wanted, reach = scale > 1 ? scale : 1;
  for (int i = 0; i < wanted; i++) {
    const double centre = (i + 0.5) * scale;
    int first = (int)ceil(centre - reach - 0.5), last = (int)floor(centre + reach - 0.5);
    if (first < 0) first = 0;
    if (last > sweep->length - 1) last = sweep->length - 1;
    for (int c = 0; c < sweep->beside; c++) {
      double sum = 0, weights = 0;
      for (int k = first; k <= last; k++) {
        const double weight = 1 - fabs(k + 0.5 - centre) / reach;
        if (weight <= 0) continue;
        sum += weight * (double)from[(int64_t)k * sweep->step + c];
        weights += weight;
      }
      to[(int64_t)i * to_step + c] = (float)(sum / weights);
    }
  }
}

/* Along the width, then along the height. scratch: [2][most pixels of a pass]. */
static void ResizePasses(const RengaPicture *picture, int width, int height, float *from, float *to)
{
  const int c = picture->channels;
  const PictureSweep rows = {picture->height, picture->width * c, picture->width, c, c};
  const PictureSweep columns = {width, c, picture->height, width * c, c};
  for (int64_t i = 0; i < (int64_t)picture->width * picture->height * c; i++)
    from[i] = picture->pixel[i];
  for (int y = 0; y < rows.lines; y++)
    ResizeLine(&rows, from + (size_t)y * (size_t)rows.line_step, width,
               to + (size_t)y * (size_t)(width * c), c);
  for (int x = 0; x < columns.lines; x++)
    ResizeLine(&columns, to + (size_t)x * (size_t)columns.line_step, height,
               from + (size_t)x * (size_t)c, width * c);
}

RengaErrorCode RengaPictureResize_Private(RengaPicture *picture, int width, int height)
{
  const int c = picture->channels;
  if (picture->width == width && picture->height == height) return RENGA_SUCCESS;
  const int64_t old = (int64_t)picture->width * picture->height * c,
                between = (int64_t)width * picture->height * c, new = (int64_t)width *height *c;
  float *from = NULL, *to = NULL;
  unsigned char *pixel = NULL;
  RengaErrorCode code = RengaMalloc(old > new ? old : new, &from);
  if (!code) code = RengaMalloc(between, &to);
  if (!code) code = RengaMalloc(new, &pixel);
  if (!code) {
    ResizePasses(picture, width, height, from, to);
    for (int64_t i = 0; i < new; i++) pixel[i] = (unsigned char)(from[i] + 0.5f);
    RengaFree(&picture->pixel);
    picture->pixel = pixel;
    picture->width = width;
    picture->height = height;
  }
  RengaFree(&from);
  RengaFree(&to);
  RengaCall(code);
  return RENGA_SUCCESS;
}
