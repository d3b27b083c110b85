/* Options that a command has, but that nothing of this run would look at. */
#include "app.h"

RengaErrorCode AppRefuseUnused(MPI_Comm printer, const char *name, const char *why)
{
  const char *value;
  bool given;
  RengaCall(RengaOptionsGetString(name, &value, &given));
  RengaCheck(!given, printer, RENGA_ERR_OPTION, "-%s %s: %s", name, value, why);
  return RENGA_SUCCESS;
}
