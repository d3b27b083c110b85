/* Texts of files that rank 0 has read for all ranks. */
#pragma once
#include "rengasys.h"

/* Not collective. Keeps the text (of RengaMalloc, ended by a zero) under the file's name, instead
   of one that was there; *text is NULL then. */
RengaErrorCode RengaShareText_Private(const char *name, char **text);
/* Lent until another text has the name; NULL: there is none. */
const char *RengaSharedText_Private(const char *name);
