/* Data: what a camera noted in a picture. */
#include "picture.h"
#include <string.h>

static int ReadExifNumber(const unsigned char *at, int bytes, bool little)
{
  unsigned number = 0;
  for (int i = 0; i < bytes; i++) number = number << 8 | at[little ? bytes - 1 - i : i];
  return number > 1u << 30 ? 1 << 30 : (int)number;
}

/* Exif 2.3, section 4.6: the head of a TIFF file, where its first directory lies, and in it entries
   of 12 bytes: tag, type, count, value. */
int RengaPictureOrientation_Private(const unsigned char exif[], int64_t bytes)
{
  enum { HEAD = 8, ENTRY = 12, TAG = 0x0112, SHORT = 3 };
  if (bytes < HEAD || (memcmp(exif, "II*\0", 4) != 0 && memcmp(exif, "MM\0*", 4) != 0)) return 0;
  const bool little = exif[0] == 'I';
  const int64_t first = ReadExifNumber(exif + 4, 4, little);
  if (first + 2 > bytes) return 0;
  const int count = ReadExifNumber(exif + first, 2, little);
  for (int64_t at = first + 2; at + ENTRY <= bytes && at < first + 2 + (int64_t)count * ENTRY;
       at += ENTRY) {
    const int value = ReadExifNumber(exif + at + 8, 2, little);
    if (ReadExifNumber(exif + at, 2, little) == TAG)
      return ReadExifNumber(exif + at + 2, 2, little) == SHORT && value >= 1 && value <= 8 ? value
                                                                                           : 0;
  }
  return 0;
}
