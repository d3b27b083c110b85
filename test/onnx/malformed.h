/* Files that are wrong, and what is to be said about them. */
#pragma once
#include "write.h"
#include "rengasys.h"

typedef struct {
  const char *name;
  Message *(*make)(void);
  RengaErrorCode code;
  const char *where, *what;
} MalformedRow;
extern const MalformedRow malformed_rows[];
extern const int malformed_count;
extern const char malformed_file[], malformed_link[];
