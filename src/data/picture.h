/* Pictures in files, as rows of bytes; picture.c, and one file for each library. */
#pragma once
#include "rengasys.h"

typedef struct {
  int width, height, channels; /* channels: 1 grey, 3 red, green and blue */
  unsigned char *pixel;        /* [height, width, channels]; NULL where only the head was read */
} RengaPicture;

/* Only the head where pixels is false. An error names the file. */
RengaErrorCode RengaPictureRead_Private(const char *file, bool pixels, RengaPicture *picture);
void RengaPictureFree_Private(RengaPicture *picture);
/* Does the name end as that of a picture that can be read? */
bool RengaPictureIsName_Private(const char *name);
/* To other sizes, linear between pixels; where it becomes smaller each pixel is a mean of those
   that it covers, weighted by a triangle. */
RengaErrorCode RengaPictureResize_Private(RengaPicture *picture, int width, int height);

/* png.c, jpeg.c: one kind of file each. */
RengaErrorCode RengaPictureReadPng_Private(const char *file, bool pixels, RengaPicture *picture);
RengaErrorCode RengaPictureReadJpeg_Private(const char *file, bool pixels, RengaPicture *picture);
