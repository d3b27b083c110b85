/* What the tests of this folder share: small HDF5 files, and what was printed to standard error. */
#pragma once
#include "../check.h"
#include "rengacomm.h"
#include "rengadata.h"
#include <hdf5.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

/* A dataset of a file that is open for writing; values are of the native type. */
static inline void PutArray(hid_t file, const char *path, hid_t type, hid_t native, int ndim,
                            const hsize_t dims[], const void *values)
{
  hid_t links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(ndim, dims, NULL);
  H5Pset_create_intermediate_group(links, 1);
  hid_t id = H5Dcreate2(file, path, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(id, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(id);
  H5Sclose(space);
  H5Pclose(links);
}

static inline RengaTensorSpec Spec(RengaDataType type, int ndim, int64_t a, int64_t b)
{
  return (RengaTensorSpec){.type = type, .ndim = ndim, .dim = {a, b}};
}

/* A data set that is set up, or the code of what is wrong with it. */
static inline RengaErrorCode OpenData(RengaComm comm, const char *file, int count,
                                      const char *const names[], const RengaTensorSpec specs[],
                                      const int64_t classes[], RengaData *data)
{
  RengaCall(RengaDataCreate(comm, data));
  RengaCall(RengaDataSetFile(*data, file));
  RengaCall(RengaDataSetFields(*data, count, names, specs, classes));
  return RengaDataSetUp(*data);
}
