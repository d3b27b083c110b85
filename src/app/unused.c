/* Options that a command has, but that nothing of this run would look at. */
#include "app.h"
#include <string.h>

RengaErrorCode AppRefuseUnused(MPI_Comm printer, const char *name, const char *why)
{
  const char *value;
  bool given;
  RengaCall(RengaOptionsGetString(name, &value, &given));
  const bool shown = strcmp(name, "monitor_token") != 0; /* which is a secret */
  RengaCheck(!given, printer, RENGA_ERR_OPTION, "-%s%s%s: %s", name, shown ? " " : "",
             shown ? value : "", why);
  return RENGA_SUCCESS;
}
