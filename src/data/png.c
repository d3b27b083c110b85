/* Data: PNG files, by libpng. */
#include "config.h"
#include "picture.h"

#ifdef RENGA_HAVE_PNG
#include "renga/private/open.h"
#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <string.h>

/* The note of Exif stands in a chunk of its own: length, name, bytes, checksum. */
static int FindExifChunk(FILE *file)
{
  unsigned char head[8], exif[512];
  if (fseek(file, 8, SEEK_SET) != 0) return 0;
  while (fread(head, 1, sizeof head, file) == sizeof head) {
    const size_t length =
        (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    const size_t taken = length < sizeof exif ? length : sizeof exif;
    if (memcmp(head + 4, "eXIf", 4) == 0)
      return RengaPictureOrientation_Private(exif, (int64_t)fread(exif, 1, taken, file));
    if (length > 0x7fffffff || fseek(file, (long)length + 4, SEEK_CUR) != 0) return 0;
  }
  return 0;
}

static int FindPngOrientation(const char *name)
{
  FILE *file = RengaFileOpen_Private(name, "rb");
  if (!file) return 0; /* it was read a moment ago */
  const int orientation = FindExifChunk(file);
  fclose(file);
  return orientation;
}

static RengaErrorCode FailPng(const char *file, png_image *image)
{
  png_image_free(image);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "PNG file %s: %s", file, image->message);
}

/* Transparency is dropped: colours stay as they are stored below it. */
static void DropAlpha(int64_t pixels, int channels, unsigned char *pixel)
{
  for (int64_t i = 0; i < pixels; i++)
    for (int c = 0; c < channels; c++) pixel[i * channels + c] = pixel[i * (channels + 1) + c];
}

static RengaErrorCode ReadPng(const char *file, FILE *stream, bool pixels, RengaPicture *picture)
{
  png_image image = {.version = PNG_IMAGE_VERSION};
  if (!png_image_begin_read_from_stdio(&image, stream)) RengaCall(FailPng(file, &image));
  image.warning_or_error = 0; /* of a colour profile, say: the pixels are good */
  const bool colour = image.format & PNG_FORMAT_FLAG_COLOR;
  image.format = colour ? PNG_FORMAT_RGBA : PNG_FORMAT_GA;
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  picture->width = (int)image.width;
  picture->height = (int)image.height;
  picture->channels = colour ? 3 : 1;
  picture->orientation = FindPngOrientation(file);
  if (!pixels) {
    png_image_free(&image);
    return RENGA_SUCCESS;
  }
  const RengaErrorCode code = RengaMalloc(PNG_IMAGE_SIZE(image), &picture->pixel);
  if (code) png_image_free(&image);
  RengaCall(code);
  if (!png_image_finish_read(&image, NULL, picture->pixel, 0, NULL) || image.warning_or_error)
    RengaCall(FailPng(file, &image));
  DropAlpha((int64_t)picture->width * picture->height, picture->channels, picture->pixel);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPictureReadPng_Private(const char *file, bool pixels, RengaPicture *picture)
{
  FILE *stream = RengaFileOpen_Private(file, "rb");
  RengaCheck(stream, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "PNG file %s: %s", file,
             RengaFileReason_Private(errno));
  const RengaErrorCode code = ReadPng(file, stream, pixels, picture);
  fclose(stream);
  RengaCall(code);
  return RENGA_SUCCESS;
}

#else

RengaErrorCode RengaPictureReadPng_Private(const char *file, bool pixels, RengaPicture *picture)
{
  (void)pixels;
  (void)picture;
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s: Renga was built without libpng; install libpng-dev and configure again", file);
}

#endif
