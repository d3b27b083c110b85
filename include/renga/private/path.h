/* Files that other files name: they stay in the folder, unless -allow_external lets them out. */
#pragma once
#include "rengasys.h"

/* Not collective. base names file (absolute, or as this process would open it); what: "external
   data of tensor \"w\"". An error that names all three where file is not in base's folder or below,
   symbolic links followed; none where base's own folder is a link, or -allow_external is given. */
RengaErrorCode RengaPathCheckExternal(const char *base, const char *file, const char *what);
/* Not collective. Refuses a name under which a file is to be written, or replaced, where something
   else stands: a device, a pipe, a folder. */
RengaErrorCode RengaPathCheckOutput_Private(const char *name);
