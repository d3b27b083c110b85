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

static void ReadJpegLines(struct jpeg_decompress_struct *info, const RengaPicture *picture)
{
  const size_t line = (size_t)picture->width * (size_t)picture->channels;
  jpeg_start_decompress(info);
  while (info->output_scanline < info->output_height) {
    JSAMPROW row = picture->pixel + info->output_scanline * line;
    jpeg_read_scanlines(info, &row, 1);
  }
  jpeg_finish_decompress(info);
}

/* All that may jump. Returns what was wrong besides. */
static RengaErrorCode DecodeJpeg(const char *name, FILE *file, bool pixels,
                                 struct jpeg_decompress_struct *info, RengaPicture *picture)
{
  jpeg_create_decompress(info);
  jpeg_stdio_src(info, file);
  jpeg_read_header(info, TRUE);
  RengaCheck(info->num_components == 1 || info->num_components == 3, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT,
             "JPEG file %s has %d channels; grey and red, green and blue are supported", name,
             info->num_components);
  info->out_color_space = info->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  RengaCall(AllocateJpeg(info, pixels, picture));
  if (pixels) ReadJpegLines(info, picture);
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
