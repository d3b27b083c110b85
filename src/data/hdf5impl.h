/* What the two files that know the HDF5 library share. */
#pragma once
#include "dataimpl.h"
#include <hdf5.h>

/* The innermost sentence of HDF5's stack of errors. */
void RengaHdf5Reason_Private(char text[256]);
hid_t RengaHdf5Type_Private(RengaDataType type); /* in memory; not to be closed */
