/* The one place where files are opened. A pipe would wait for its other end, for ever and without a
   word; a device may have no end. */
#pragma once
#include <stdio.h>
#include <sys/types.h>

/* As fopen and open, of regular files alone; NULL or -1, and errno, for others. Streams that a
   shell has opened for this process (/dev/stdin, /dev/fd/3, /dev/null) are taken as they are, and
   what is written may go to a terminal or another device of characters. Folders: with O_DIRECTORY.
 */
FILE *RengaFileOpen_Private(const char *name, const char *mode);
int RengaFileDescriptor_Private(const char *name, int flags, mode_t mode);
/* Before a library opens a file by itself: 0, or an errno. */
int RengaFileCheck_Private(const char *name);
/* strerror, which also knows what the functions above found. */
const char *RengaFileReason_Private(int error);
