/* Patterns of the shell that mean the same in every locale: what they fit, and in which order. */
#pragma once
#include "renga/private/number.h"
#include <fnmatch.h>
#include <glob.h>

/* Does the name fit? Bytes are letters, whatever they are in the locale. */
static inline bool RengaIsMatch(const char *pattern, const char *name)
{
  const RengaLocale locale = RengaLocaleBegin();
  const bool fits = fnmatch(pattern, name, 0) == 0;
  RengaLocaleEnd(locale);
  return fits;
}

/* As glob(), without flags: files in the order of their bytes. */
static inline int RengaFindFiles(const char *pattern, glob_t *found)
{
  const RengaLocale locale = RengaLocaleBegin();
  const int status = glob(pattern, 0, NULL, found);
  RengaLocaleEnd(locale);
  return status;
}
