/* A file in memory for a library that does not bear a full disk: it writes there, and what it wrote
   is then copied to a real file, by calls that may fail. Holes take no memory. */
#pragma once
#include "rengasys.h"

typedef struct {
  int descriptor; /* -1: none */
  char path[48];  /* under which this process can open it */
} RengaImage;

/* 0 or errno; *image is to be closed in both cases. */
int RengaImageCreate(RengaImage *image);
/* May this process make a file of so many bytes? A limit on sizes counts in memory too. */
bool RengaImageMayHold(int64_t bytes);
int64_t RengaImageBytes(const RengaImage *image); /* its length, holes included */
/* All that was written, to the same places of file, but for ranges, in their order, which others
   have filled there. 0 or errno. */
typedef struct {
  int64_t begin, end;
} RengaImageRange;
int RengaImageCopy(const RengaImage *image, int file, int count, const RengaImageRange keep[]);
void RengaImageClose(RengaImage *image);

/* All bytes to a place of a file; 0 or errno. */
int RengaWriteAt(int file, int64_t offset, size_t bytes, const void *from);
