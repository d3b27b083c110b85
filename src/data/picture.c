/* Data: pictures in files, and their sizes. */
#include "picture.h"
#include "renga/private/number.h"
#include "renga/private/open.h"
#include <errno.h>
#include <math.h>
#include <string.h>

/* How files begin; read NULL: of a kind that is not read. */
static const struct {
  int offset, length;
  const char *begin, *what;
  RengaErrorCode (*read)(const char *file, bool pixels, RengaPicture *picture);
} picture_kinds[] = {{0, 8, "\x89PNG\r\n\x1a\n", "PNG", RengaPictureReadPng_Private},
                     {0, 3, "\xff\xd8\xff", "JPEG", RengaPictureReadJpeg_Private},
                     {0, 4, "GIF8", "GIF", NULL},
                     {0, 2, "BM", "BMP", NULL},
                     {8, 4, "WEBP", "WebP", NULL},
                     {4, 8, "ftypavif", "AVIF", NULL},
                     {4, 4, "ftyp", "HEIF", NULL},
                     {0, 4, "II*\0", "TIFF", NULL},
                     {0, 4, "MM\0*", "TIFF", NULL}};
enum { PICTURE_KINDS = sizeof picture_kinds / sizeof picture_kinds[0], LONGEST_BEGIN = 12 };

bool RengaPictureIsName_Private(const char *name)
{
  const char *ending = strrchr(name, '.');
  return ending && (RengaIsSameWord(ending, ".png") || RengaIsSameWord(ending, ".jpg") ||
                    RengaIsSameWord(ending, ".jpeg"));
}

/* The kind of a file by its content, whatever its name; PICTURE_KINDS: of none. */
static RengaErrorCode FindPictureKind(const char *file, int *kind)
{
  char begin[LONGEST_BEGIN] = "";
  FILE *stream = RengaFileOpen_Private(file, "rb");
  RengaCheck(stream, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "image %s: %s", file,
             RengaFileReason_Private(errno));
  const size_t got = fread(begin, 1, sizeof begin, stream);
  const bool failed = ferror(stream);
  const int reason = errno;
  fclose(stream);
  RengaCheck(!failed, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "image %s: %s", file,
             RengaFileReason_Private(reason));
  for (*kind = 0; *kind < PICTURE_KINDS; ++*kind) {
    const size_t offset = (size_t)picture_kinds[*kind].offset,
                 length = (size_t)picture_kinds[*kind].length;
    if (offset + length <= got && !memcmp(begin + offset, picture_kinds[*kind].begin, length))
      break;
  }
  return RENGA_SUCCESS;
}

/* From where a pixel of the turned picture comes: from 5 on rows are columns; some orientations
   have the rows of the file from below, some its columns from the right. */
static void TurnPixels(const RengaPicture *picture, unsigned char *to)
{
  const int o = picture->orientation, h = picture->height, w = picture->width;
  const bool from_below = o == 3 || o == 4 || o == 6 || o == 7;
  const bool from_right = o == 2 || o == 3 || o == 7 || o == 8;
  for (int y = 0; y < (o < 5 ? h : w); y++)
    for (int x = 0; x < (o < 5 ? w : h); x++, to += picture->channels) {
      const int row = o < 5 ? y : x, column = o < 5 ? x : y;
      const int64_t from =
          (int64_t)(from_below ? h - 1 - row : row) * w + (from_right ? w - 1 - column : column);
      memcpy(to, picture->pixel + from * picture->channels, (size_t)picture->channels);
    }
}

/* As the camera was held. */
static RengaErrorCode TurnPicture(RengaPicture *picture)
{
  const int width = picture->width;
  if (picture->orientation < 2) return RENGA_SUCCESS;
  if (picture->pixel) {
    unsigned char *turned;
    RengaCall(RengaMalloc((int64_t)width * picture->height * picture->channels, &turned));
    TurnPixels(picture, turned);
    RengaFree(&picture->pixel);
    picture->pixel = turned;
  }
  if (picture->orientation >= 5) {
    picture->width = picture->height;
    picture->height = width;
  }
  picture->orientation = 0;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPictureRead_Private(const char *file, bool pixels, RengaPicture *picture)
{
  int kind;
  *picture = (RengaPicture){0};
  RengaCall(FindPictureKind(file, &kind));
  const bool known = kind < PICTURE_KINDS;
  RengaCheck(known && picture_kinds[kind].read, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "image %s: its content is that of %s%s; PNG and JPEG files are read", file,
             known ? "a file of kind " : "no picture that is known",
             known ? picture_kinds[kind].what : "");
  RengaErrorCode code = picture_kinds[kind].read(file, pixels, picture);
  if (!code) code = TurnPicture(picture);
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
