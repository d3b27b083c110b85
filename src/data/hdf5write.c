/* Data: writing HDF5 files. A file is made under another name and gets its own when it is whole,
   so that one that cannot be finished leaves the old one as it was. HDF5 sees a file in memory that
   holds names and shapes; numbers go to the disk beside it, where a failure does HDF5 no harm. */
#include "hdf5impl.h"
#include "renga/private/image.h"
#include "renga/private/fault.h"
#include "renga/private/open.h"
#include "renga/private/path.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  hid_t id;
  int64_t rows, offset, row_bytes; /* in the file; row_bytes 0: it has no place */
} OutputDataset;

struct _p_RengaDataWriter {
  char *name, *temporary;
  RengaImage image;
  hid_t file;     /* the image */
  int descriptor; /* the temporary file */
  int n_datasets;
  OutputDataset *dataset;
};

static RengaErrorCode FailToWrite(RengaDataWriter writer, const char *reason)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s cannot be written: %s", writer->name, reason);
}

static hid_t CreateInImage(const RengaImage *image)
{
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_stdio(access);
  hid_t file = RengaWritten(H5Fcreate(image->path, H5F_ACC_TRUNC, H5P_DEFAULT, access));
  H5Pclose(access);
  return file;
}

static RengaErrorCode BeginFile(RengaDataWriter writer, const char *file)
{
  char reason[256] = "";
  const size_t room = strlen(file) + 32;
  RengaCall(RengaPathCheckOutput_Private(file));
  RengaCall(RengaStringCopy(file, &writer->name));
  RengaCall(RengaMalloc(room, &writer->temporary));
  snprintf(writer->temporary, room, "%s.%ld.tmp", file, (long)getpid());
  writer->descriptor =
      RengaFileDescriptor_Private(writer->temporary, O_RDWR | O_CREAT | O_TRUNC, 0666);
  if (writer->descriptor < 0) RengaCall(FailToWrite(writer, RengaFileReason_Private(errno)));
  const int failed = RengaImageCreate(&writer->image);
  if (failed) RengaCall(FailToWrite(writer, RengaFileReason_Private(failed)));
  H5E_BEGIN_TRY
  {
    writer->file = CreateInImage(&writer->image);
    if (writer->file < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  if (writer->file < 0) RengaCall(FailToWrite(writer, reason));
  return RENGA_SUCCESS;
}

/* HDF5 has ended its part. keep: the file has its name. */
static void EndFile(RengaDataWriter *writer, bool keep)
{
  RengaDataWriter o = *writer;
  if (!keep && o->descriptor >= 0) unlink(o->temporary);
  if (o->descriptor >= 0) close(o->descriptor);
  RengaImageClose(&o->image);
  RengaFree(&o->dataset);
  RengaFree(&o->temporary);
  RengaFree(&o->name);
  RengaFree(writer);
}

/*@
   RengaDataWriterCreate - begin to write an HDF5 file

   Not collective; one process writes

   Input:
   . file - its path

   Output:
   . writer - end it with RengaDataWriterClose

   Errors: RENGA_ERR_FILE_WRITE where the file cannot be made.

   Notes: the file is made beside its path under another name, and gets its own when it is whole;
   one of that name is replaced then. Numbers go to the disk as they are written: rows that never
   come are zero. A call that fails leaves no file.

   See also: RengaDataWriterAdd(), RengaDataWriterClose()
@*/
RengaErrorCode RengaDataWriterCreate(const char *file, RengaDataWriter *writer)
{
  RengaDataWriter o;
  RengaCheckPointers(file, writer);
  RengaCall(RengaMalloc(1, &o));
  o->file = o->descriptor = o->image.descriptor = -1;
  const RengaErrorCode code = BeginFile(o, file);
  if (code) EndFile(&o, false);
  RengaCall(code);
  *writer = o;
  return RENGA_SUCCESS;
}

/* Groups remember the order of their datasets: inputs of other names are matched by it. */
static herr_t MakeHdf5Group(hid_t file, const char *path)
{
  char group[256];
  snprintf(group, sizeof group, "%s", path);
  char *slash = strrchr(group, '/');
  if (slash == NULL || slash == group) return 0;
  *slash = '\0';
  if (H5Lexists(file, group, H5P_DEFAULT) > 0) return 0;
  hid_t create = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_link_creation_order(create, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  H5Pset_obj_track_times(create, false);
  hid_t id = H5Gcreate2(file, group, H5P_DEFAULT, create, H5P_DEFAULT);
  H5Pclose(create);
  return id < 0 ? -1 : H5Gclose(id);
}

static hid_t MakeDataset(hid_t file, const char *path, const RengaTensorSpec *spec)
{
  hsize_t dims[RENGA_MAX_DIM];
  for (int i = 0; i < spec->ndim; i++) dims[i] = (hsize_t)spec->dim[i];
  hid_t create = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(spec->ndim, dims, NULL);
  H5Pset_layout(create, H5D_CONTIGUOUS);
  H5Pset_alloc_time(create, H5D_ALLOC_TIME_EARLY); /* its place is known at once */
  H5Pset_fill_time(create, H5D_FILL_TIME_NEVER);   /* each element is written once */
  H5Pset_obj_track_times(create, false);           /* the same numbers are the same file */
  hid_t id = H5Dcreate2(file, path, RengaHdf5Type_Private(spec->type), space, H5P_DEFAULT, create,
                        H5P_DEFAULT);
  H5Pclose(create);
  H5Sclose(space);
  return id;
}

/* Of a type that a file can hold, and not of more bytes than can be counted. */
static RengaErrorCode CheckDataset(RengaDataWriter writer, const char *path,
                                   const RengaTensorSpec *spec)
{
  const bool typed = (unsigned)spec->type < RENGA_TYPE_COUNT;
  RengaCheck(spec->ndim > 0 && spec->ndim <= RENGA_MAX_DIM && typed &&
                 RengaDataConvertible(spec->type, RENGA_FLOAT64),
             MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s: dataset %s, %s with %d dimensions, cannot be written", writer->name, path,
             typed ? RengaDataTypeName(spec->type) : "no type", spec->ndim);
  int64_t bytes = (int64_t)RengaDataTypeSize(spec->type);
  for (int i = 0; i < spec->ndim; i++) {
    RengaCheck(spec->dim[i] >= 0 && (bytes == 0 || spec->dim[i] <= INT64_MAX / bytes),
               MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "%s: dimension %d of dataset %s cannot be %lld",
               writer->name, i, path, (long long)spec->dim[i]);
    bytes *= spec->dim[i];
  }
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriterAdd - add a dataset

   Input:
   . writer - the file
   . path - /NAME or /GROUP/NAME; a group is made where it is not there
   . spec - type and dimensions of the whole, rows first

   Output:
   . dataset - the dataset's number for RengaDataWriterWrite, from 0

   Errors: RENGA_ERR_SUPPORT for no dimension, more than RENGA_MAX_DIM or a 16-bit float;
   RENGA_ERR_FILE_WRITE for a path that is there already.

   See also: RengaDataWriterCreate(), RengaDataWriterWrite()
@*/
RengaErrorCode RengaDataWriterAdd(RengaDataWriter writer, const char *path,
                                  const RengaTensorSpec *spec, int *dataset)
{
  enum { REST = 1 << 20 }; /* more than names and attributes take */
  char reason[256] = "";
  RengaCheckPointers(writer, path, spec, dataset);
  RengaCall(CheckDataset(writer, path, spec));
  const int64_t bytes = (int64_t)RengaTensorSpecBytes(spec);
  const int64_t before = RengaImageBytes(&writer->image) + REST;
  OutputDataset made = {.id = -1, .rows = spec->dim[0]};
  RengaCall(RengaRealloc(writer->n_datasets + 1, &writer->dataset));
  if (bytes > INT64_MAX - before || !RengaImageMayHold(before + bytes))
    RengaCall(FailToWrite(writer, RengaFileReason_Private(EFBIG)));
  H5E_BEGIN_TRY
  {
    if (MakeHdf5Group(writer->file, path) >= 0) made.id = MakeDataset(writer->file, path, spec);
    if (made.id < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  if (made.id < 0) RengaCall(FailToWrite(writer, reason));
  haddr_t place = bytes > 0 ? H5Dget_offset(made.id) : HADDR_UNDEF;
  if (place != HADDR_UNDEF) {
    made.offset = (int64_t)place;
    made.row_bytes = bytes / spec->dim[0];
  }
  writer->dataset[writer->n_datasets] = made;
  *dataset = writer->n_datasets++;
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriterWrite - write some rows

   Input:
   . writer - the file
   . dataset - the number that RengaDataWriterAdd gave, from 0
   . first, rows - the first row, from 0, and the number of rows, at least 0; rows come in any order
   . values - row-major, of the dataset's own type; NULL is allowed where rows is 0

   Errors: RENGA_ERR_ARGUMENT for rows that the dataset has not.

   See also: RengaDataWriterAdd(), RengaDataWriterClose()
@*/
RengaErrorCode RengaDataWriterWrite(RengaDataWriter writer, int dataset, int64_t first,
                                    int64_t rows, const void *values)
{
  RengaCheckPointer(writer);
  RengaCheck(dataset >= 0 && dataset < writer->n_datasets, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s has %d datasets, number %d is not one of them", writer->name, writer->n_datasets,
             dataset);
  const OutputDataset *to = &writer->dataset[dataset];
  RengaCheck(rows >= 0 && first >= 0 && first <= to->rows && rows <= to->rows - first,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s: %lld rows from row %lld on are not all in dataset %d of %lld rows", writer->name,
             (long long)rows, (long long)first, dataset, (long long)to->rows);
  if (rows == 0) return RENGA_SUCCESS;
  RengaCheckPointer(values);
  if (to->row_bytes == 0) return RENGA_SUCCESS;
  int reason = RengaWriteAt(writer->descriptor, to->offset + first * to->row_bytes,
                            (size_t)(rows * to->row_bytes), values);
  if (reason) RengaCall(FailToWrite(writer, RengaFileReason_Private(reason)));
  return RENGA_SUCCESS;
}

static RengaErrorCode PutAttribute(RengaDataWriter writer, int dataset, const char *name,
                                   hid_t type, const void *value, const char *function)
{
  char reason[256] = "";
  herr_t written;
  RengaCheckPointerOf(function, writer);
  RengaCheckPointerOf(function, name);
  RengaCheck(dataset >= -1 && dataset < writer->n_datasets, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%s has %d datasets, number %d, for attribute %s, is not one of them, nor -1, the "
             "file itself",
             writer->name, writer->n_datasets, dataset, name);
  H5E_BEGIN_TRY
  {
    hid_t owner = dataset < 0 ? writer->file : writer->dataset[dataset].id;
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t id = RengaWritten(H5Acreate2(owner, name, type, space, H5P_DEFAULT, H5P_DEFAULT));
    written = id < 0 ? -1 : RengaWritten(H5Awrite(id, type, value));
    if (written < 0) RengaHdf5Reason_Private(reason);
    if (id >= 0) H5Aclose(id);
    H5Sclose(space);
  }
  H5E_END_TRY
  if (written < 0) RengaCall(FailToWrite(writer, reason));
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriterPutInt - add an attribute that is a whole number

   Input:
   . writer - the file
   . dataset - the number that RengaDataWriterAdd gave; -1: the file itself
   . name, value - the attribute's name, and any number

   Errors: RENGA_ERR_ARGUMENT for a dataset that there is not; RENGA_ERR_FILE_WRITE where the
   file does not take it.

   See also: RengaDataWriterPutReal(), RengaDataWriterPutText()
@*/
RengaErrorCode RengaDataWriterPutInt(RengaDataWriter writer, int dataset, const char *name,
                                     int64_t value)
{
  return PutAttribute(writer, dataset, name, H5T_NATIVE_INT64, &value, __func__);
}

/*@
   RengaDataWriterPutReal - add an attribute that is a real number

   Input:
   . writer - the file
   . dataset - the number that RengaDataWriterAdd gave; -1: the file itself
   . name, value - the attribute's name, and any number

   Errors: RENGA_ERR_ARGUMENT for a dataset that there is not; RENGA_ERR_FILE_WRITE where the
   file does not take it.

   See also: RengaDataWriterPutInt(), RengaDataWriterPutText()
@*/
RengaErrorCode RengaDataWriterPutReal(RengaDataWriter writer, int dataset, const char *name,
                                      double value)
{
  return PutAttribute(writer, dataset, name, H5T_NATIVE_DOUBLE, &value, __func__);
}

/*@
   RengaDataWriterPutText - add an attribute that is a text

   Input:
   . writer - the file
   . dataset - the number that RengaDataWriterAdd gave; -1: the file itself
   . name, value - the attribute; value below 64 KiB

   Errors: RENGA_ERR_ARGUMENT for a dataset that there is not; RENGA_ERR_FILE_WRITE where the
   file does not take it.

   See also: RengaDataWriterPutInt(), RengaDataWriterPutReal()
@*/
RengaErrorCode RengaDataWriterPutText(RengaDataWriter writer, int dataset, const char *name,
                                      const char *value)
{
  RengaCheckPointer(value);
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, strlen(value) + 1);
  RengaErrorCode code = PutAttribute(writer, dataset, name, type, value, __func__);
  H5Tclose(type);
  return code;
}

/* Names with line ends between them, as an attribute, which HDF5 keeps below 64 KiB. */
RengaErrorCode RengaDataWriterPutNames_Private(RengaDataWriter writer, const char *attribute,
                                               int count, char *const names[])
{
  enum { LONGEST = 60000 };
  char *text;
  size_t used = 0;
  RengaCall(RengaMalloc(LONGEST + 1, &text));
  for (int i = 0; i < count; i++) {
    const size_t length = strlen(names[i]);
    if (used + length + 1 > LONGEST) break;
    memcpy(text + used, names[i], length);
    used += length;
    text[used++] = '\n';
  }
  RengaErrorCode code = RengaDataWriterPutText(writer, -1, attribute, text);
  RengaFree(&text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static void SyncFolder(const char *name)
{
  int folder = RengaFileDescriptor_Private(name, O_RDONLY | O_DIRECTORY, 0);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

static int CompareRanges(const void *a, const void *b)
{
  const RengaImageRange *x = a, *y = b;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Names and shapes, around the numbers. */
static RengaErrorCode CopyImage(RengaDataWriter writer)
{
  RengaImageRange *ranges;
  RengaCall(RengaMalloc(writer->n_datasets, &ranges));
  for (int i = 0; i < writer->n_datasets; i++) {
    const OutputDataset *dataset = &writer->dataset[i];
    ranges[i] =
        (RengaImageRange){dataset->offset, dataset->offset + dataset->rows * dataset->row_bytes};
  }
  if (writer->n_datasets > 0)
    qsort(ranges, (size_t)writer->n_datasets, sizeof *ranges, CompareRanges);
  int reason = RengaImageCopy(&writer->image, writer->descriptor, writer->n_datasets, ranges);
  RengaFree(&ranges);
  if (!reason && ftruncate(writer->descriptor, RengaImageBytes(&writer->image)) != 0)
    reason = errno;
  if (reason) RengaCall(FailToWrite(writer, RengaFileReason_Private(reason)));
  return RENGA_SUCCESS;
}

static RengaErrorCode PublishHdf5(RengaDataWriter writer)
{
  char *folder;
  int reason = 0;
  RengaCall(CopyImage(writer));
  if (RengaWritten(fsync(writer->descriptor)) != 0) reason = errno;
  if (!reason && RengaWritten(rename(writer->temporary, writer->name)) != 0) reason = errno;
  if (reason) RengaCall(FailToWrite(writer, RengaFileReason_Private(reason)));
  RengaCall(RengaStringCopy(writer->name, &folder));
  char *slash = strrchr(folder, '/');
  if (slash != NULL) *(slash == folder ? slash + 1 : slash) = '\0';
  SyncFolder(slash != NULL ? folder : ".");
  RengaFree(&folder);
  return RENGA_SUCCESS;
}

static RengaErrorCode CloseImage(RengaDataWriter writer)
{
  herr_t closed = 0;
  char reason[256] = "";
  if (writer->file < 0) return RENGA_SUCCESS;
  H5E_BEGIN_TRY
  {
    for (int i = 0; i < writer->n_datasets; i++) H5Dclose(writer->dataset[i].id);
    closed = H5Fclose(writer->file);
    if (closed < 0) RengaHdf5Reason_Private(reason);
  }
  H5E_END_TRY
  if (closed < 0) RengaCall(FailToWrite(writer, reason));
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriterClose - end a file that was written

   Input:
   . writer - the file; NULL is allowed
   . code - the outcome of what was written: with RENGA_SUCCESS the file gets its name, else it is
     removed

   Output:
   . writer - set to NULL

   Errors: the code that it is given; RENGA_ERR_FILE_WRITE where the file cannot be finished.
   There is no file then.

   Notes: returns code, or what closing made of it.

   See also: RengaDataWriterCreate()
@*/
RengaErrorCode RengaDataWriterClose(RengaDataWriter *writer, RengaErrorCode code)
{
  RengaCheckPointer(writer);
  if (*writer == NULL) return code;
  RengaErrorCode closed = CloseImage(*writer);
  if (code == RENGA_SUCCESS) code = closed;
  if (code == RENGA_SUCCESS) code = PublishHdf5(*writer);
  EndFile(writer, code == RENGA_SUCCESS);
  return code;
}
