/* Data: JPEG files, by libjpeg. */
#include "config.h"
#include "picture.h"
#include "renga/private/open.h"

#ifdef RENGA_HAVE_JPEG
#include <stdio.h>

#include <errno.h>
#include <jpeglib.h>
#include <setjmp.h>
#include <string.h>

/* libjpeg calls, and is left by a jump where something is wrong. */
typedef struct {
  struct jpeg_error_mgr manager; /* first: libjpeg knows its address */
  jmp_buf leave;
  char message[JMSG_LENGTH_MAX];
} JpegErrors;

static void LeaveJpeg(j_common_ptr info)
{
  JpegErrors *errors = (JpegErrors *)(void *)info->err;
  info->err->format_message(info, errors->message);
  longjmp(errors->leave, 1);
}

/* A warning is of data that are damaged: a picture that libjpeg would fill up with grey. */
static void TakeJpegMessage(j_common_ptr info, int level)
{
  if (level < 0) LeaveJpeg(info);
}

static RengaErrorCode AllocateJpeg(const struct jpeg_decompress_struct *info, bool pixels,
                                   RengaPicture *picture)
{
  picture->width = (int)info->image_width;
  picture->height = (int)info->image_height;
  picture->channels = info->num_components == 1 ? 1 : 3;
  if (pixels)
    RengaCall(RengaMalloc((int64_t)picture->width * picture->height * picture->channels,
                          &picture->pixel));
  return RENGA_SUCCESS;
}

/* Four inks of a line are three colours: what an ink lets through of what black lets through.
   Adobe's programs write the light, not the ink. */
static void MixInks(const unsigned char *inks, int width, bool are_light, unsigned char *rgb)
{
  for (int i = 0; i < width; i++)
    for (int c = 0; c < 3; c++) {
      const int ink = inks[4 * i + c], black = inks[4 * i + 3];
      const int light = (are_light ? ink : 255 - ink) * (are_light ? black : 255 - black);
      rgb[3 * i + c] = (unsigned char)((light + 127) / 255);
    }
}

/* inks: room for a line of four inks, or NULL. */
static void ReadJpegLines(struct jpeg_decompress_struct *info, const RengaPicture *picture,
                          unsigned char *inks)
{
  const size_t line = (size_t)picture->width * (size_t)picture->channels;
  jpeg_start_decompress(info);
  while (info->output_scanline < info->output_height) {
    unsigned char *to = picture->pixel + info->output_scanline * line;
    JSAMPROW row = inks ? inks : to;
    jpeg_read_scanlines(info, &row, 1);
    if (inks) MixInks(inks, picture->width, info->saw_Adobe_marker, to);
  }
  jpeg_finish_decompress(info);
}

/* The first note of Exif. */
static int FindJpegOrientation(const struct jpeg_decompress_struct *info)
{
  static const char head[] = "Exif\0"; /* and the zero at its end */
  for (jpeg_saved_marker_ptr note = info->marker_list; note; note = note->next)
    if (note->data_length > sizeof head && memcmp(note->data, head, sizeof head) == 0)
      return RengaPictureOrientation_Private(note->data + sizeof head,
                                             (int64_t)(note->data_length - sizeof head));
  return 0;
}

/* All that may jump. Returns what was wrong besides. */
static RengaErrorCode DecodeJpeg(const char *name, FILE *file, bool pixels,
                                 struct jpeg_decompress_struct *info, RengaPicture *picture)
{
  unsigned char *inks = NULL;
  jpeg_create_decompress(info);
  jpeg_save_markers(info, JPEG_APP0 + 1, 0xffff);
  jpeg_stdio_src(info, file);
  jpeg_read_header(info, TRUE);
  const int channels = info->num_components;
  RengaCheck(channels == 1 || channels == 3 || channels == 4, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "JPEG file %s has %d channels; grey, red, green and blue, and four inks are supported",
             name, channels);
  info->out_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  RengaCall(AllocateJpeg(info, pixels, picture));
  picture->orientation = FindJpegOrientation(info);
  if (channels == 4) /* of libjpeg, which frees it also after a jump */
    inks = info->mem->alloc_large((j_common_ptr)info, JPOOL_IMAGE, (size_t)picture->width * 4);
  if (pixels) ReadJpegLines(info, picture, inks);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPictureReadJpeg_Private(const char *file, bool pixels, RengaPicture *picture)
{
  struct jpeg_decompress_struct info;
  JpegErrors errors = {.message = ""};
  volatile RengaErrorCode code = RENGA_SUCCESS;
  FILE *stream = RengaFileOpen_Private(file, "rb");
  RengaCheck(stream, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "JPEG file %s: %s", file,
             RengaFileReason_Private(errno));
  memset(&info, 0, sizeof info);
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = LeaveJpeg;
  errors.manager.emit_message = TakeJpegMessage;
  if (setjmp(errors.leave) == 0) code = DecodeJpeg(file, stream, pixels, &info, picture);
  jpeg_destroy_decompress(&info);
  fclose(stream);
  RengaCall(code);
  RengaCheck(!errors.message[0], MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "JPEG file %s: %s", file,
             errors.message);
  return RENGA_SUCCESS;
}

#else

RengaErrorCode RengaPictureReadJpeg_Private(const char *file, bool pixels, RengaPicture *picture)
{
  (void)pixels;
  (void)picture;
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s: Renga was built without libjpeg; install libjpeg-dev and configure again", file);
}

#endif
