/* What the files that know the HDF5 library share. */
#pragma once
#include "dataimpl.h"
#include <hdf5.h>

/* The innermost sentence of HDF5's stack of errors. */
void RengaHdf5Reason_Private(char text[256]);
hid_t RengaHdf5Type_Private(RengaDataType type); /* in memory; not to be closed */

/* hdf5origin.c: the files that an open dataset of a file is read from, as they are now. An error
   where one is outside of the folder of the file that names it. */
typedef struct _RengaHdf5Origins *RengaHdf5Origins;
RengaErrorCode RengaHdf5OriginsCreate_Private(const char *file, hid_t dataset,
                                              RengaHdf5Origins *origins);
/* An error that names the sample where one is not as it was. */
RengaErrorCode RengaHdf5OriginsCheck_Private(RengaHdf5Origins origins, const char *dataset,
                                             int64_t sample);
void RengaHdf5OriginsDestroy_Private(RengaHdf5Origins *origins);
