/* Why a call of HDF5 failed. */
#include "hdf5impl.h"
#include <string.h>

/* The innermost sentence of HDF5's stack of errors; of one about the system only what that said. */
static herr_t TakeHdf5Reason(unsigned depth, const H5E_error2_t *error, void *user)
{
  static const char mark[] = "error message = '";
  const char *text = error->desc ? error->desc : "no reason given", *system = strstr(text, mark);
  if (system != NULL) text = system + strlen(mark);
  if (depth == 0) snprintf(user, 256, "%.*s", (int)strcspn(text, system ? "'" : "\n"), text);
  return 0;
}

void RengaHdf5Reason_Private(char text[256])
{
  snprintf(text, 256, "no reason given");
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, TakeHdf5Reason, text);
}
