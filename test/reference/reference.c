/* Arrays and numbers of the reference files, by HDF5. */
#include "reference.h"
#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *FolderOfSet(ReferenceSet set)
{
  static char folder[900];
  const char *given = getenv("RENGA_REFERENCE"), *top = getenv("top_srcdir");
  if (set == REFERENCE_OWN)
    snprintf(folder, sizeof folder, "%s/test/reference/networks", top ? top : ".");
  else if (given)
    snprintf(folder, sizeof folder, "%s", given);
  else
    snprintf(folder, sizeof folder, "%s/../shared/reference", top ? top : ".");
  return folder;
}

bool ReferenceIsThere(ReferenceSet set)
{
  return set == REFERENCE_OWN || access(FolderOfSet(set), R_OK) == 0;
}

void ReferenceNetwork(ReferenceSet set, const char *name, size_t size, char path[])
{
  snprintf(path, size, "%s%s/%s.onnx", FolderOfSet(set), set == REFERENCE_OWN ? "" : "/onnx", name);
}

RengaErrorCode ReferenceOpen(ReferenceSet set, const char *name, Reference *reference)
{
  snprintf(reference->path, sizeof reference->path, "%s/%s.h5", FolderOfSet(set), name);
  reference->file = H5Fopen(reference->path, H5F_ACC_RDONLY, H5P_DEFAULT);
  RengaCheck(reference->file >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s", reference->path);
  return RENGA_SUCCESS;
}

RengaErrorCode ReferenceClose(Reference *reference)
{
  H5Fclose((hid_t)reference->file);
  return RENGA_SUCCESS;
}

RengaErrorCode ReferenceReal(const Reference *reference, const char *name, double *value)
{
  hid_t attribute = H5Aopen((hid_t)reference->file, name, H5P_DEFAULT);
  herr_t status = attribute >= 0 ? H5Aread(attribute, H5T_NATIVE_DOUBLE, value) : -1;
  if (attribute >= 0) H5Aclose(attribute);
  RengaCheck(status >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s has no number %s",
             reference->path, name);
  return RENGA_SUCCESS;
}

bool ReferenceHas(const Reference *reference, const char *group, const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", group, name);
  return H5Lexists((hid_t)reference->file, group, H5P_DEFAULT) > 0 &&
         H5Lexists((hid_t)reference->file, path, H5P_DEFAULT) > 0;
}

static hid_t MemoryType(RengaDataType type)
{
  switch (type) {
  case RENGA_FLOAT64:
    return H5T_NATIVE_DOUBLE;
  case RENGA_INT64:
    return H5T_NATIVE_INT64;
  case RENGA_INT32:
    return H5T_NATIVE_INT32;
  default:
    return H5T_NATIVE_FLOAT;
  }
}

RengaErrorCode ReferenceRead(const Reference *reference, const char *group, const char *name,
                             RengaDataType type, int64_t first, int64_t count, void *data)
{
  char path[512], *all = NULL;
  snprintf(path, sizeof path, "%s/%s", group, name);
  hid_t set = H5Dopen2((hid_t)reference->file, path, H5P_DEFAULT);
  RengaCheck(set >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s has no %s", reference->path, path);
  hid_t space = H5Dget_space(set);
  int64_t total = H5Sget_simple_extent_npoints(space);
  size_t size = RengaDataTypeSize(type);
  RengaErrorCode code = RengaMalloc((size_t)total * size + 1, &all);
  herr_t status = -1;
  if (code == RENGA_SUCCESS)
    status = H5Dread(set, MemoryType(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, all);
  H5Sclose(space);
  H5Dclose(set);
  bool fits = status >= 0 && first >= 0 && first + count <= total;
  if (fits) memcpy(data, all + (size_t)first * size, (size_t)count * size);
  RengaFree(&all);
  RengaCall(code);
  RengaCheck(fits, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s: %s has %lld elements, not %lld",
             reference->path, path, (long long)total, (long long)(first + count));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddSquares(const Reference *reference, const char *group, const char *name,
                                 double *sum)
{
  char path[512];
  double *numbers = NULL;
  snprintf(path, sizeof path, "%s/%s", group, name);
  hid_t set = H5Dopen2((hid_t)reference->file, path, H5P_DEFAULT), space = H5Dget_space(set);
  const int64_t count = H5Sget_simple_extent_npoints(space);
  H5Sclose(space);
  H5Dclose(set);
  RengaCall(RengaMalloc(count + 1, &numbers));
  RengaErrorCode code = ReferenceRead(reference, group, name, RENGA_FLOAT64, 0, count, numbers);
  for (int64_t i = 0; i < count; i++) *sum += numbers[i] * numbers[i];
  RengaFree(&numbers);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode ReferenceNorm(const Reference *reference, const char *group, double *norm)
{
  H5G_info_t info = {0};
  double sum = 0;
  H5Gget_info_by_name((hid_t)reference->file, group, &info, H5P_DEFAULT);
  for (hsize_t i = 0; i < info.nlinks; i++) {
    char name[256];
    H5Lget_name_by_idx((hid_t)reference->file, group, H5_INDEX_NAME, H5_ITER_INC, i, name,
                       sizeof name, H5P_DEFAULT);
    RengaCall(AddSquares(reference, group, name, &sum));
  }
  *norm = sqrt(sum);
  return RENGA_SUCCESS;
}
