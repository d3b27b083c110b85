/* The version of the library that runs. */
#include "rengasys.h"
#include <stddef.h>

/*@
   RengaGetVersion - the version of the library that runs

   Output:
   . major, minor, patch - numbers; any may be NULL
   . text - "MAJOR.MINOR.PATCH"; may be NULL

   Notes: RENGA_VERSION_MAJOR and the others are of the headers that a program was compiled with.

   See also: RengaInitialize()
@*/
void RengaGetVersion(int *major, int *minor, int *patch, const char **text)
{
  if (major) *major = RENGA_VERSION_MAJOR;
  if (minor) *minor = RENGA_VERSION_MINOR;
  if (patch) *patch = RENGA_VERSION_PATCH;
  if (text) *text = RENGA_VERSION;
}
