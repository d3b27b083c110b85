/* Files that are there whole or not at all: written beside their place, and renamed at the end. */
#pragma once
#include "rengasys.h"
#include <stdio.h>

typedef struct {
  FILE *stream;           /* to be written; NULL: nothing is open */
  char *name, *temporary; /* temporary NULL: a device or a pipe, which is written as it is */
} RengaOutput;

/* Not collective. A file of that name stays what it is until the end. */
RengaErrorCode RengaOutputOpen_Private(const char *name, RengaOutput *output);
/* Not collective. code: of what was written so far; where it is an error, or the disk is full,
   the file of that name is still what it was. Returns the first error. */
RengaErrorCode RengaOutputClose_Private(RengaOutput *output, RengaErrorCode code);
