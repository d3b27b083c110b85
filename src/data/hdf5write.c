/* Data: writing HDF5 files. A file is made under another name and gets its own when it is whole,
   so that one that cannot be finished leaves the old one as it was. */
#include "hdf5impl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct _RengaHdf5Output {
  char *name, *temporary;
  hid_t file;
  int n_datasets;
  hid_t *dataset;
};

static RengaErrorCode FailToWrite(RengaHdf5Output output, const char *reason)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s cannot be written: %s", output->name, reason);
}

/* Closed by the caller, good or not. */
RengaErrorCode RengaHdf5OutputCreate(const char *name, RengaHdf5Output *output)
{
  RengaHdf5Output o;
  char reason[256] = "";
  size_t room = strlen(name) + 32;
  RengaCall(RengaMalloc(1, &o));
  o->file = -1;
  *output = o;
  RengaCall(RengaStringCopy(name, &o->name));
  RengaCall(RengaMalloc(room, &o->temporary));
  snprintf(o->temporary, room, "%s.%ld.tmp", name, (long)getpid());
  H5E_BEGIN_TRY
  {
    o->file = H5Fcreate(o->temporary, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (o->file < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  if (o->file < 0) RengaCall(FailToWrite(o, reason));
  return RENGA_SUCCESS;
}

/* Groups remember the order of their datasets: inputs of other names are matched by it. */
static herr_t MakeGroup(hid_t file, const char *path)
{
  char group[256];
  snprintf(group, sizeof group, "%s", path);
  char *slash = strrchr(group, '/');
  if (slash == NULL || slash == group) return 0;
  *slash = '\0';
  if (H5Lexists(file, group, H5P_DEFAULT) > 0) return 0;
  hid_t create = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_link_creation_order(create, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  hid_t id = H5Gcreate2(file, group, H5P_DEFAULT, create, H5P_DEFAULT);
  H5Pclose(create);
  return id < 0 ? -1 : H5Gclose(id);
}

static hid_t MakeDataset(hid_t file, const char *path, const RengaTensorSpec *spec)
{
  hsize_t dims[RENGA_MAX_DIM];
  for (int i = 0; i < spec->ndim; i++) dims[i] = (hsize_t)spec->dim[i];
  hid_t create = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(spec->ndim, dims, NULL);
  H5Pset_fill_time(create, H5D_FILL_TIME_NEVER); /* each element is written once */
  hid_t id = H5Dcreate2(file, path, RengaHdf5Type_Private(spec->type), space, H5P_DEFAULT, create,
                        H5P_DEFAULT);
  H5Pclose(create);
  H5Sclose(space);
  return id;
}

/* path: /NAME or /GROUP/NAME, a group is made where it is not there. */
RengaErrorCode RengaHdf5OutputAdd(RengaHdf5Output output, const char *path,
                                  const RengaTensorSpec *spec, int *dataset)
{
  char reason[256] = "";
  hid_t id = -1;
  RengaCall(RengaRealloc(output->n_datasets + 1, &output->dataset));
  H5E_BEGIN_TRY
  {
    if (MakeGroup(output->file, path) >= 0) id = MakeDataset(output->file, path, spec);
    if (id < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  if (id < 0) RengaCall(FailToWrite(output, reason));
  output->dataset[output->n_datasets] = id;
  *dataset = output->n_datasets++;
  return RENGA_SUCCESS;
}

static herr_t WriteRows(hid_t dataset, int64_t first, int64_t rows, const void *values)
{
  hsize_t start[RENGA_MAX_DIM] = {(hsize_t)first}, count[RENGA_MAX_DIM];
  hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
  int ndim = H5Sget_simple_extent_dims(space, count, NULL);
  count[0] = (hsize_t)rows;
  hid_t memory = H5Screate_simple(ndim, count, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  herr_t written = H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, values);
  H5Sclose(memory);
  H5Tclose(type);
  H5Sclose(space);
  return written;
}

/* values: rows of the dataset's own type. */
RengaErrorCode RengaHdf5OutputWrite(RengaHdf5Output output, int dataset, int64_t first,
                                    int64_t rows, const void *values)
{
  char reason[256] = "";
  herr_t written;
  if (rows == 0) return RENGA_SUCCESS;
  H5E_BEGIN_TRY
  {
    written = WriteRows(output->dataset[dataset], first, rows, values);
    if (written < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  if (written < 0) RengaCall(FailToWrite(output, reason));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutAttribute(RengaHdf5Output output, int dataset, const char *name,
                                   hid_t type, const void *value)
{
  char reason[256] = "";
  herr_t written;
  H5E_BEGIN_TRY
  {
    hid_t owner = dataset < 0 ? output->file : output->dataset[dataset];
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t id = H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    written = id < 0 ? -1 : H5Awrite(id, type, value);
    if (written < 0) RengaHdf5Reason_Private(reason);
    if (id >= 0) H5Aclose(id);
    H5Sclose(space);
  }
  H5E_END_TRY
  if (written < 0) RengaCall(FailToWrite(output, reason));
  return RENGA_SUCCESS;
}

/* Attributes of a dataset, or (-1) of the file. */
RengaErrorCode RengaHdf5OutputPutInt(RengaHdf5Output output, int dataset, const char *name,
                                     int64_t value)
{
  return PutAttribute(output, dataset, name, H5T_NATIVE_INT64, &value);
}

RengaErrorCode RengaHdf5OutputPutReal(RengaHdf5Output output, int dataset, const char *name,
                                      double value)
{
  return PutAttribute(output, dataset, name, H5T_NATIVE_DOUBLE, &value);
}

RengaErrorCode RengaHdf5OutputPutText(RengaHdf5Output output, int dataset, const char *name,
                                      const char *value)
{
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, strlen(value) + 1);
  RengaErrorCode code = PutAttribute(output, dataset, name, type, value);
  H5Tclose(type);
  return code;
}

static bool SyncPath(const char *name, int flags)
{
  int descriptor = open(name, flags);
  bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  if (descriptor >= 0) close(descriptor);
  return synced;
}

static RengaErrorCode Publish(RengaHdf5Output output)
{
  char *folder;
  if (!SyncPath(output->temporary, O_RDWR) || rename(output->temporary, output->name) != 0)
    RengaCall(FailToWrite(output, strerror(errno)));
  RengaCall(RengaStringCopy(output->name, &folder));
  char *slash = strrchr(folder, '/');
  if (slash != NULL) *(slash == folder ? slash + 1 : slash) = '\0';
  SyncPath(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY);
  RengaFree(&folder);
  return RENGA_SUCCESS;
}

static RengaErrorCode CloseFile(RengaHdf5Output output)
{
  herr_t closed = 0;
  char reason[256] = "";
  if (output->file < 0) return RENGA_SUCCESS;
  H5E_BEGIN_TRY
  {
    for (int i = 0; i < output->n_datasets; i++) H5Dclose(output->dataset[i]);
    closed = H5Fclose(output->file);
    if (closed < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  if (closed < 0) RengaCall(FailToWrite(output, reason));
  return RENGA_SUCCESS;
}

/* code: of what was written; the file gets its name when that is RENGA_SUCCESS, else it is removed.
   Returns code, or what closing made of it. NULL is allowed. */
RengaErrorCode RengaHdf5OutputClose(RengaHdf5Output *output, RengaErrorCode code)
{
  RengaHdf5Output o = *output;
  if (o == NULL) return code;
  RengaErrorCode closed = CloseFile(o);
  if (code == RENGA_SUCCESS) code = closed;
  if (code == RENGA_SUCCESS) code = Publish(o);
  if (code != RENGA_SUCCESS && o->temporary != NULL) unlink(o->temporary);
  RengaFree(&o->dataset);
  RengaFree(&o->temporary);
  RengaFree(&o->name);
  RengaFree(output);
  return code;
}
