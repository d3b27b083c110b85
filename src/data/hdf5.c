/* Data: the HDF5 files. Every rank opens a file by itself, read-only, with the serial driver:
   ranks read different samples at different times, so nothing may be collective. */
#include "hdf5impl.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

struct _RengaHdf5File {
  char *name;
  hid_t id;
};

struct _RengaHdf5Dataset {
  char *name;
  hid_t id, memory_type;
  bool owns_type;
  RengaTensorSpec spec;
  int file;         /* that holds the numbers, HDF5's own; -1: they lie in no one range of a file */
  int64_t place;    /* of that range */
  size_t row_bytes; /* of a row in the file */
  RengaHdf5Origins origins;
};

/* A file whose root group cannot be searched is none. */
static hid_t OpenQuietly(const char *name, char reason[256])
{
  hid_t id, access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_sec2(access);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access, true, true); /* file systems without locks are no reason to fail */
#endif
  H5E_BEGIN_TRY
  {
    id = H5Fopen(name, H5F_ACC_RDONLY, access);
    const bool readable = id >= 0 && H5Lexists(id, "any", H5P_DEFAULT) >= 0;
    if (!readable) RengaHdf5Reason_Private(reason);
    if (!readable && id >= 0) {
      H5Fclose(id);
      id = -1;
    }
  }
  H5E_END_TRY
  H5Pclose(access);
  return id;
}

RengaErrorCode RengaHdf5Open(const char *name, RengaHdf5File *file)
{
  char reason[256];
  htri_t is_hdf5;
  const int wrong = RengaFileCheck_Private(name);
  RengaCheck(!wrong, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "data set %s: %s", name,
             RengaFileReason_Private(wrong));
  RengaCheck(access(name, R_OK) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "data set %s: %s", name,
             strerror(errno));
  H5E_BEGIN_TRY
  {
    is_hdf5 = H5Fis_hdf5(name);
  }
  H5E_END_TRY
  RengaCheck(is_hdf5 > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s is not an HDF5 file; make one of text with: renga data text IN OUT",
             name);
  hid_t id = OpenQuietly(name, reason);
  RengaCheck(id >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "data set %s cannot be opened: %s",
             name, reason);
  RengaHdf5File f = NULL;
  RengaErrorCode code = RengaMalloc(1, &f);
  if (!code) code = RengaStringCopy(name, &f->name);
  if (code) {
    RengaFree(&f);
    H5Fclose(id);
  }
  RengaCall(code);
  f->id = id;
  *file = f;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHdf5Close(RengaHdf5File *file)
{
  if (*file == NULL) return RENGA_SUCCESS;
  H5Fclose((*file)->id);
  RengaFree(&(*file)->name);
  RengaFree(file);
  return RENGA_SUCCESS;
}

bool RengaHdf5Has(RengaHdf5File file, const char *path)
{
  htri_t has;
  H5E_BEGIN_TRY
  {
    has = H5Lexists(file->id, path, H5P_DEFAULT);
  }
  H5E_END_TRY
  return has > 0;
}

typedef struct {
  int count;
  char **names;
  RengaErrorCode code;
} Hdf5Names;

static herr_t TakeName(hid_t group, const char *name, const H5L_info_t *link, void *user)
{
  Hdf5Names *list = user;
  H5O_info_t info;
  (void)link;
  if (H5Oget_info_by_name(group, name, &info, H5P_DEFAULT) < 0) return 0; /* a dangling link */
  if (info.type != H5O_TYPE_DATASET) return 0;
  list->code = RengaRealloc(list->count + 1, &list->names);
  if (list->code == RENGA_SUCCESS) list->code = RengaStringCopy(name, &list->names[list->count]);
  if (list->code != RENGA_SUCCESS) return -1;
  list->count++;
  return 0;
}

RengaErrorCode RengaHdf5List(RengaHdf5File file, const char *group, int *count, char ***names)
{
  Hdf5Names list = {0};
  hid_t id = H5Gopen2(file->id, group, H5P_DEFAULT);
  RengaCheck(id >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "data set %s: %s is not a group",
             file->name, group);
  H5E_BEGIN_TRY
  {
    if (H5Literate(id, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, TakeName, &list) < 0 &&
        list.count == 0)
      H5Literate(id, H5_INDEX_NAME, H5_ITER_INC, NULL, TakeName, &list);
  }
  H5E_END_TRY
  H5Gclose(id);
  if (list.code) {
    for (int i = 0; i < list.count; i++) RengaFree(&list.names[i]);
    RengaFree(&list.names);
  }
  RengaCall(list.code);
  *count = list.count;
  *names = list.names;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadHdf5Text(hid_t attribute, hid_t type, char **value)
{
  if (H5Tis_variable_str(type) > 0) {
    char *text = NULL;
    RengaErrorCode code = RENGA_SUCCESS;
    hid_t memory = H5Tcopy(H5T_C_S1);
    H5Tset_size(memory, H5T_VARIABLE);
    H5Tset_cset(memory, H5Tget_cset(type));
    if (H5Aread(attribute, memory, &text) >= 0 && text) code = RengaStringCopy(text, value);
    if (text) H5free_memory(text);
    H5Tclose(memory);
    RengaCall(code);
    return RENGA_SUCCESS;
  }
  RengaCall(RengaMalloc(H5Tget_size(type) + 1, value));
  hid_t memory = H5Tcopy(type);
  if (H5Aread(attribute, memory, *value) < 0) RengaFree(value);
  H5Tclose(memory);
  return RENGA_SUCCESS;
}

/* Is there an attribute? An object whose attributes cannot be read is damaged. */
static RengaErrorCode FindAttribute(hid_t id, const char *of, const char *attribute, bool *found)
{
  htri_t there;
  H5E_BEGIN_TRY
  {
    there = H5Aexists(id, attribute);
  }
  H5E_END_TRY
  *found = there > 0;
  RengaCheck(there >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: its attributes cannot be read (looking for %s): it is damaged", of, attribute);
  return RENGA_SUCCESS;
}

/* *value stays NULL where there is no such attribute, or it is no text. */
RengaErrorCode RengaHdf5GetText(RengaHdf5File file, const char *attribute, char **value)
{
  bool found;
  *value = NULL;
  RengaCall(FindAttribute(file->id, file->name, attribute, &found));
  if (!found) return RENGA_SUCCESS;
  hid_t id = H5Aopen(file->id, attribute, H5P_DEFAULT), type = H5Aget_type(id);
  const RengaErrorCode code =
      H5Tget_class(type) == H5T_STRING ? ReadHdf5Text(id, type, value) : RENGA_SUCCESS;
  H5Tclose(type);
  H5Aclose(id);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadInt(RengaHdf5File file, const char *attribute, int64_t *value)
{
  hid_t id = H5Aopen(file->id, attribute, H5P_DEFAULT), space = H5Aget_space(id);
  herr_t read = -1;
  if (H5Sget_simple_extent_npoints(space) == 1) {
    H5E_BEGIN_TRY
    {
      read = H5Aread(id, H5T_NATIVE_INT64, value);
    }
    H5E_END_TRY
  }
  H5Sclose(space);
  H5Aclose(id);
  RengaCheck(read >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s: attribute %s is no whole number", file->name, attribute);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHdf5FindInt(RengaHdf5File file, const char *attribute, int64_t *value)
{
  bool found;
  RengaCall(FindAttribute(file->id, file->name, attribute, &found));
  if (found) RengaCall(ReadInt(file, attribute, value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHdf5GetInt(RengaHdf5File file, const char *attribute, int64_t *value)
{
  bool found;
  RengaCall(FindAttribute(file->id, file->name, attribute, &found));
  RengaCheck(found, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s has no attribute %s that is a whole number", file->name, attribute);
  RengaCall(ReadInt(file, attribute, value));
  return RENGA_SUCCESS;
}

/* Types of a file as types of memory; h5py writes bool as an enumeration of int8. */
static const struct {
  H5T_class_t class;
  H5T_sign_t sign;
  size_t largest;
  RengaDataType type;
} file_types[] = {
    {H5T_INTEGER, H5T_SGN_2, 1, RENGA_INT8},      {H5T_INTEGER, H5T_SGN_NONE, 1, RENGA_UINT8},
    {H5T_INTEGER, H5T_SGN_2, 2, RENGA_INT16},     {H5T_INTEGER, H5T_SGN_NONE, 2, RENGA_UINT16},
    {H5T_INTEGER, H5T_SGN_2, 4, RENGA_INT32},     {H5T_INTEGER, H5T_SGN_NONE, 4, RENGA_UINT32},
    {H5T_INTEGER, H5T_SGN_2, 8, RENGA_INT64},     {H5T_INTEGER, H5T_SGN_NONE, 8, RENGA_UINT64},
    {H5T_ENUM, H5T_SGN_2, 1, RENGA_INT8},         {H5T_ENUM, H5T_SGN_NONE, 1, RENGA_UINT8},
    {H5T_FLOAT, H5T_SGN_ERROR, 4, RENGA_FLOAT32}, {H5T_FLOAT, H5T_SGN_ERROR, 16, RENGA_FLOAT64},
};

/* Predefined types are values that HDF5 makes when it starts. */
hid_t RengaHdf5Type_Private(RengaDataType type)
{
  switch (type) {
  case RENGA_INT8:
    return H5T_NATIVE_INT8;
  case RENGA_UINT8:
  case RENGA_BOOL:
    return H5T_NATIVE_UINT8;
  case RENGA_INT16:
    return H5T_NATIVE_INT16;
  case RENGA_UINT16:
    return H5T_NATIVE_UINT16;
  case RENGA_INT32:
    return H5T_NATIVE_INT32;
  case RENGA_UINT32:
    return H5T_NATIVE_UINT32;
  case RENGA_INT64:
    return H5T_NATIVE_INT64;
  case RENGA_UINT64:
    return H5T_NATIVE_UINT64;
  case RENGA_FLOAT32:
    return H5T_NATIVE_FLOAT;
  default:
    return H5T_NATIVE_DOUBLE;
  }
}

static RengaErrorCode FindHdf5Type(RengaHdf5Dataset dataset)
{
  hid_t type = H5Dget_type(dataset->id), base = type;
  H5T_class_t class = H5Tget_class(type);
  if (class == H5T_ENUM) base = H5Tget_super(type);
  H5T_sign_t sign = class == H5T_FLOAT ? H5T_SGN_ERROR : H5Tget_sign(base);
  size_t size = H5Tget_size(base), i = 0, rows = sizeof file_types / sizeof *file_types;
  while (i < rows && !(class == file_types[i].class && size <= file_types[i].largest &&
                       (class == H5T_FLOAT || sign == file_types[i].sign)))
    i++;
  if (base != type) H5Tclose(base);
  if (i == rows) H5Tclose(type);
  RengaCheck(i < rows, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s holds neither integers of at most 8 bytes nor floating-point numbers",
             dataset->name);
  dataset->spec.type = file_types[i].type;
  dataset->owns_type = class == H5T_ENUM;
  dataset->memory_type = dataset->owns_type ? type : RengaHdf5Type_Private(file_types[i].type);
  if (!dataset->owns_type) H5Tclose(type);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindShape(RengaHdf5Dataset dataset)
{
  hsize_t dims[H5S_MAX_RANK];
  hid_t space = H5Dget_space(dataset->id);
  int ndim = H5Sget_simple_extent_dims(space, dims, NULL);
  H5Sclose(space);
  RengaCheck(ndim >= 1 && ndim <= RENGA_MAX_DIM, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s has %d dimensions; 1 to %d are possible, the first for the samples", dataset->name,
             ndim, RENGA_MAX_DIM);
  dataset->spec.ndim = ndim;
  for (int i = 0; i < ndim; i++) dataset->spec.dim[i] = (int64_t)dims[i];
  return RENGA_SUCCESS;
}

/* A chunk that does not fit the cache would be read and unpacked again for every sample. */
static hid_t OpenWithCache(hid_t file, const char *path)
{
  hid_t id = H5Dopen2(file, path, H5P_DEFAULT);
  if (id < 0) return id;
  hid_t made = H5Dget_create_plist(id);
  hsize_t dims[H5S_MAX_RANK];
  int ndim = H5Pget_layout(made) == H5D_CHUNKED ? H5Pget_chunk(made, H5S_MAX_RANK, dims) : 0;
  hid_t type = H5Dget_type(id);
  size_t bytes = H5Tget_size(type);
  for (int i = 0; i < ndim; i++) bytes *= (size_t)dims[i];
  H5Tclose(type);
  H5Pclose(made);
  if (ndim == 0 || bytes <= 1024 * 1024) return id;
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  H5Pset_chunk_cache(access, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, 4 * bytes, H5D_CHUNK_CACHE_W0_DEFAULT);
  H5Dclose(id);
  id = H5Dopen2(file, path, access);
  H5Pclose(access);
  return id;
}

/* Where the numbers lie, if they lie there as they are and one behind the other. */
static void FindRange(RengaHdf5Dataset dataset)
{
  void *handle = NULL;
  H5E_BEGIN_TRY
  {
    const hid_t file = H5Iget_file_id(dataset->id), type = H5Dget_type(dataset->id);
    const haddr_t place = H5Dget_offset(dataset->id);
    const bool found = H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 && handle;
    dataset->file = found && place != HADDR_UNDEF ? *(int *)handle : -1;
    dataset->place = (int64_t)place;
    dataset->row_bytes = H5Tget_size(type);
    for (int i = 1; i < dataset->spec.ndim; i++) dataset->row_bytes *= (size_t)dataset->spec.dim[i];
    H5Tclose(type);
    H5Fclose(file);
  }
  H5E_END_TRY
}

void RengaHdf5Expect(RengaHdf5Dataset dataset, int64_t first, int64_t rows)
{
  const size_t bytes = dataset->row_bytes;
  if (dataset->file < 0) return;
  posix_fadvise(dataset->file, (off_t)(dataset->place + first * (int64_t)bytes),
                (off_t)(rows * (int64_t)bytes), POSIX_FADV_WILLNEED); /* advice: no more */
}

RengaErrorCode RengaHdf5DatasetOpen(RengaHdf5File file, const char *path, RengaHdf5Dataset *dataset)
{
  char reason[256], name[4096];
  hid_t id;
  H5E_BEGIN_TRY
  {
    id = OpenWithCache(file->id, path);
    if (id < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  RengaCheck(id >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "data set %s: %s cannot be opened: %s",
             file->name, path, reason);
  RengaHdf5Dataset d = NULL;
  const RengaErrorCode code = RengaMalloc(1, &d);
  if (code) H5Dclose(id);
  RengaCall(code);
  d->id = id;
  *dataset = d; /* closed by the caller, good or not */
  snprintf(name, sizeof name, "%s:%s", file->name, path);
  RengaCall(RengaStringCopy(name, &d->name));
  RengaCall(FindHdf5Type(d));
  RengaCall(FindShape(d));
  FindRange(d);
  RengaCall(RengaHdf5OriginsCreate_Private(file->name, id, &d->origins));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHdf5DatasetClose(RengaHdf5Dataset *dataset)
{
  if (*dataset == NULL) return RENGA_SUCCESS;
  if ((*dataset)->owns_type) H5Tclose((*dataset)->memory_type);
  H5Dclose((*dataset)->id);
  RengaHdf5OriginsDestroy_Private(&(*dataset)->origins);
  RengaFree(&(*dataset)->name);
  RengaFree(dataset);
  return RENGA_SUCCESS;
}

const RengaTensorSpec *RengaHdf5DatasetSpec(RengaHdf5Dataset dataset)
{
  return &dataset->spec;
}

const char *RengaHdf5DatasetName(RengaHdf5Dataset dataset)
{
  return dataset->name;
}

RengaErrorCode RengaHdf5DatasetGetReal(RengaHdf5Dataset dataset, const char *attribute,
                                       double *value)
{
  herr_t read = -1;
  double number = *value;
  bool found;
  RengaCall(FindAttribute(dataset->id, dataset->name, attribute, &found));
  if (!found) return RENGA_SUCCESS;
  hid_t id = H5Aopen(dataset->id, attribute, H5P_DEFAULT), space = H5Aget_space(id);
  if (H5Sget_simple_extent_npoints(space) == 1) {
    H5E_BEGIN_TRY
    {
      read = H5Aread(id, H5T_NATIVE_DOUBLE, &number);
    }
    H5E_END_TRY
  }
  H5Sclose(space);
  H5Aclose(id);
  RengaCheck(read >= 0 && isfinite(number), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: attribute %s is no finite number", dataset->name, attribute);
  *value = number;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHdf5Read(RengaHdf5Dataset dataset, int64_t sample, int64_t first, int64_t rows,
                             void *buffer)
{
  hsize_t start[RENGA_MAX_DIM] = {(hsize_t)first}, count[RENGA_MAX_DIM] = {(hsize_t)rows};
  for (int i = 1; i < dataset->spec.ndim; i++) count[i] = (hsize_t)dataset->spec.dim[i];
  char reason[256] = "";
  herr_t read;
  H5E_BEGIN_TRY
  {
    hid_t memory = H5Screate_simple(dataset->spec.ndim, count, NULL);
    hid_t space = H5Dget_space(dataset->id);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    read = H5Dread(dataset->id, dataset->memory_type, memory, space, H5P_DEFAULT, buffer);
    if (read < 0) RengaHdf5Reason_Private(reason);
    H5Sclose(space);
    H5Sclose(memory);
  }
  H5E_END_TRY
  RengaCall(RengaHdf5OriginsCheck_Private(dataset->origins, dataset->name, sample));
  RengaCheck(read >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: rows %lld to %lld cannot be read: %s", dataset->name, (long long)first,
             (long long)(first + rows - 1), reason);
  return RENGA_SUCCESS;
}
