/* Networks that are wrong, a line of text each, and what is to be said about them. */
#pragma once
#include "text.h"

typedef struct {
  const char *name;
  int64_t opset;
  const char *text; /* text.h */
  RengaErrorCode code;
  const char *where, *what; /* both are in the message */
} WrongRow;
extern const WrongRow wrong_rows[];
extern const int wrong_count;
