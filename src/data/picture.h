/* Pictures in files, as rows of bytes; picture.c, and one file for each library. */
#pragma once
#include "rengasys.h"

typedef struct {
  int width, height, channels; /* channels: 1 grey, 3 red, green and blue */
  int orientation;             /* as Exif numbers them: 1 to 8; 0: none is noted. Of the readers */
  unsigned char *pixel;        /* [height, width, channels]; NULL where only the head was read */
} RengaPicture;

/* Only the head where pixels is false. An error names the file. Turned as the camera noted. */
RengaErrorCode RengaPictureRead_Private(const char *file, bool pixels, RengaPicture *picture);
void RengaPictureFree_Private(RengaPicture *picture);
/* Does the name end as that of a picture that can be read? */
bool RengaPictureIsName_Private(const char *name);
/* To other sizes, linear between pixels; where it becomes smaller each pixel is a mean of those
   that it covers, weighted by a triangle. */
RengaErrorCode RengaPictureResize_Private(RengaPicture *picture, int width, int height);

/* exif.c: the orientation of a directory of Exif, which begins as a TIFF file; 0: none is known. */
int RengaPictureOrientation_Private(const unsigned char exif[], int64_t bytes);

/* png.c, jpeg.c: one kind of file each. */
RengaErrorCode RengaPictureReadPng_Private(const char *file, bool pixels, RengaPicture *picture);
RengaErrorCode RengaPictureReadJpeg_Private(const char *file, bool pixels, RengaPicture *picture);
