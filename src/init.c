/* The front door of the library: every room registers its options before the command line is read. */
#include "renga/private/packages.h"
