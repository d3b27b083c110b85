/* Where machine files are: installed, and in the sources that this was built from. The build says
   where. */
#include "machineimpl.h"

const char *const RengaMachineFolders_Private[] = {RENGA_MACHINES_INSTALLED, RENGA_MACHINES_SOURCE,
                                                   NULL};
