/* Data: a set of images and their classes from IDX files, packed by gzip or not: the form of MNIST
   and its like. A file is 0, 0, a byte for the type, a byte for the number of dimensions, the
   dimensions and the numbers, all with the first byte the most significant. */
#include "dataimpl.h"
#include "renga/private/open.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BLOCK = 4 * 1024 * 1024, MOST_PACKED = 1032 /* what deflate reaches at the most */ };

typedef struct {
  const char *name;
  gzFile file;
  RengaTensorSpec spec; /* all dimensions */
  int64_t row_bytes;
} IdxFile;

static const struct {
  int code;
  RengaDataType type;
} types[] = {{0x08, RENGA_UINT8}, {0x09, RENGA_INT8},    {0x0b, RENGA_INT16},
             {0x0c, RENGA_INT32}, {0x0d, RENGA_FLOAT32}, {0x0e, RENGA_FLOAT64}};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* bytes of the file as it would be without gzip. */
static RengaErrorCode ReadIdxBytes(IdxFile *idx, size_t bytes, const char *what, void *buffer)
{
  int status;
  int got = gzread(idx->file, buffer, (unsigned)bytes);
  if (got == (int)bytes) return RENGA_SUCCESS;
  const char *reason = gzerror(idx->file, &status);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "IDX file %s: %s cannot be read: %s", idx->name,
             what,
             status == Z_ERRNO                         ? RengaFileReason_Private(errno)
             : status == Z_OK || status == Z_BUF_ERROR ? "the file ends too early"
                                                       : reason);
}

static RengaErrorCode ReadType(IdxFile *idx)
{
  unsigned char magic[4];
  int t = 0;
  RengaCall(ReadIdxBytes(idx, sizeof magic, "its first four bytes", magic));
  while (t < N_TYPES && types[t].code != magic[2]) t++;
  RengaCheck(
      magic[0] == 0 && magic[1] == 0 && t < N_TYPES && magic[3] >= 1 && magic[3] < RENGA_MAX_DIM,
      MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
      "%s is no IDX file: it begins with %02x %02x %02x %02x; zeros, a type (08 to 0e) and a "
      "number of dimensions (1 to %d) are expected",
      idx->name, magic[0], magic[1], magic[2], magic[3], RENGA_MAX_DIM - 1);
  idx->spec.type = types[t].type;
  idx->spec.ndim = magic[3];
  return RENGA_SUCCESS;
}

/* What the dimensions promise must be possible in a file of this size. */
static RengaErrorCode ReadIdxShape(IdxFile *idx)
{
  struct stat status;
  char text[128];
  double bytes = (double)RengaDataTypeSize(idx->spec.type);
  for (int d = 0; d < idx->spec.ndim; d++) {
    unsigned char b[4];
    RengaCall(ReadIdxBytes(idx, sizeof b, "its dimensions", b));
    idx->spec.dim[d] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
    bytes *= (double)idx->spec.dim[d];
  }
  RengaTensorSpecFormat(&idx->spec, sizeof text, text);
  RengaCheck(stat(idx->name, &status) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "IDX file %s: %s",
             idx->name, RengaFileReason_Private(errno));
  RengaCheck(bytes > 0 && bytes <= (double)status.st_size * MOST_PACKED, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "IDX file %s says that it holds %s, %g bytes; a file of %lld bytes does not",
             idx->name, text, bytes, (long long)status.st_size);
  idx->row_bytes = (int64_t)(bytes / (double)idx->spec.dim[0]);
  RengaCheck(idx->row_bytes <= INT32_MAX, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "IDX file %s: a sample of %lld bytes is too large", idx->name,
             (long long)idx->row_bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenIdx(const char *name, IdxFile *idx)
{
  const int file = RengaFileDescriptor_Private(name, O_RDONLY, 0);
  *idx = (IdxFile){.name = name, .file = file >= 0 ? gzdopen(file, "rb") : NULL};
  if (!idx->file && file >= 0) close(file);
  RengaCheck(idx->file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "IDX file %s: %s", name,
             RengaFileReason_Private(errno));
  gzbuffer(idx->file, 128 * 1024);
  RengaCall(ReadType(idx));
  RengaCall(ReadIdxShape(idx));
  return RENGA_SUCCESS;
}

static void CloseIdx(IdxFile *idx)
{
  if (idx->file != NULL) gzclose(idx->file);
  idx->file = NULL;
}

/* All samples of a file into a dataset; moments may be NULL. */
static RengaErrorCode CopyIdxRows(IdxFile *idx, RengaDataWriter output, int dataset,
                                  RengaDataMoments *moments)
{
  int64_t most = BLOCK / idx->row_bytes, rows = idx->spec.dim[0];
  size_t size = RengaDataTypeSize(idx->spec.type);
  char what[64];
  unsigned char *block;
  RengaErrorCode code = RENGA_SUCCESS;
  if (most < 1) most = 1;
  if (most > rows) most = rows;
  RengaCall(RengaMalloc(most * idx->row_bytes, &block));
  for (int64_t at = 0; at < rows && code == RENGA_SUCCESS; at += most) {
    int64_t n = rows - at < most ? rows - at : most, count = n * idx->row_bytes / (int64_t)size;
    snprintf(what, sizeof what, "samples %lld to %lld", (long long)at, (long long)(at + n - 1));
    code = ReadIdxBytes(idx, (size_t)(n * idx->row_bytes), what, block);
    if (code != RENGA_SUCCESS) break;
    RengaDataSwapBytes(size, count, block);
    if (moments != NULL) RengaDataMomentsAdd_Private(moments, idx->spec.type, block, count);
    code = RengaDataWriterWrite(output, dataset, at, n, block);
  }
  RengaFree(&block);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Nothing may follow; reading on also compares gzip's checksum. */
static RengaErrorCode CheckIdxEnd(IdxFile *idx)
{
  char more;
  int status, got = gzread(idx->file, &more, 1);
  const char *reason = gzerror(idx->file, &status);
  RengaCheck(got <= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "IDX file %s holds more than its dimensions say", idx->name);
  RengaCheck(got == 0 && status != Z_BUF_ERROR, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "IDX file %s: its end cannot be read: %s", idx->name,
             status == Z_BUF_ERROR ? "the file ends too early" : reason);
  return RENGA_SUCCESS;
}

/* [N,H,W] as images of one channel. */
static RengaTensorSpec ImageSpec(const RengaTensorSpec *spec)
{
  RengaTensorSpec image = *spec;
  if (spec->ndim != 3) return image;
  image.ndim = 4;
  image.dim[1] = 1;
  image.dim[2] = spec->dim[1];
  image.dim[3] = spec->dim[2];
  return image;
}

static RengaErrorCode CheckImagesLabels(const IdxFile *images, const IdxFile *labels)
{
  char text[128];
  RengaTensorSpecFormat(&labels->spec, sizeof text, text);
  RengaCheck(labels->spec.ndim == 1 && RengaDataIsInteger(labels->spec.type), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "IDX file %s holds %s; labels are whole numbers, one per image: give the images "
             "first, then the labels",
             labels->name, text);
  RengaCheck(images->spec.dim[0] == labels->spec.dim[0], MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "IDX files %s and %s do not belong together: %lld images, %lld labels", images->name,
             labels->name, (long long)images->spec.dim[0], (long long)labels->spec.dim[0]);
  return RENGA_SUCCESS;
}

typedef struct {
  RengaDataWriter output;
  RengaTensorSpec image;  /* of the first part */
  double mean, deviation; /* of a value in [0, 1] where the file has bytes; deviation 0: measured */
  RengaDataMoments moments;
} IdxSet;

/* What a stored number is as a number of the network: number * scale + offset. */
static RengaErrorCode PutNormalization(IdxSet *set, int dataset, const char *file)
{
  char what[512];
  snprintf(what, sizeof what, "IDX file %.480s", file);
  RengaCall(RengaDataMomentsPut_Private(&set->moments, set->output, dataset,
                                        set->image.type == RENGA_UINT8 ? 255 : 1, &set->mean,
                                        &set->deviation, what));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSameImages(IdxSet *set, int part, const IdxFile *images)
{
  RengaTensorSpec image = ImageSpec(&images->spec);
  char here[128], first[128];
  if (part == 0) set->image = image;
  bool same = image.type == set->image.type && image.ndim == set->image.ndim;
  for (int d = 1; d < image.ndim && same; d++) same = image.dim[d] == set->image.dim[d];
  RengaTensorSpecFormat(&image, sizeof here, here);
  RengaTensorSpecFormat(&set->image, sizeof first, first);
  RengaCheck(same, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "IDX file %s has images %s, those for training are %s", images->name, here, first);
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyIdxPart(IdxSet *set, int part, IdxFile *images, IdxFile *labels)
{
  static const char *const paths[RENGA_DATA_PARTS][2] = {
      {"/training/image", "/training/labels"}, {"/validation/image", "/validation/labels"}};
  int dataset[2];
  RengaCall(CheckImagesLabels(images, labels));
  RengaCall(CheckSameImages(set, part, images));
  RengaTensorSpec image = ImageSpec(&images->spec);
  RengaCall(RengaDataWriterAdd(set->output, paths[part][0], &image, &dataset[0]));
  RengaCall(RengaDataWriterAdd(set->output, paths[part][1], &labels->spec, &dataset[1]));
  RengaCall(CopyIdxRows(images, set->output, dataset[0], part == 0 ? &set->moments : NULL));
  RengaCall(CopyIdxRows(labels, set->output, dataset[1], NULL));
  RengaCall(CheckIdxEnd(images));
  RengaCall(CheckIdxEnd(labels));
  RengaCall(PutNormalization(set, dataset[0], images->name));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddIdxPart(IdxSet *set, int part, const char *const files[])
{
  IdxFile images = {0}, labels = {0};
  RengaErrorCode code = OpenIdx(files[0], &images);
  if (code == RENGA_SUCCESS) code = OpenIdx(files[1], &labels);
  if (code == RENGA_SUCCESS) code = CopyIdxPart(set, part, &images, &labels);
  CloseIdx(&images);
  CloseIdx(&labels);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteIdx(int n_files, const char *const files[], const char *out_file,
                               double mean, double deviation)
{
  IdxSet set = {.mean = mean, .deviation = deviation};
  RengaErrorCode code = RengaDataWriterCreate(out_file, &set.output);
  for (int i = 0; i < n_files && code == RENGA_SUCCESS; i += 2)
    code = AddIdxPart(&set, i / 2, files + i);
  RengaCall(RengaDataWriterClose(&set.output, code));
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteIdx - make a set of images and classes from IDX files, as those of MNIST

   Collective; rank 0 works

   Input:
   . n_files - 2, or 4 with a validation part
   . files - images and labels for training, then images and labels for validation; gzip or not
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . mean, deviation - the network sees (value - mean) / deviation, where the value of a byte b is
     b / 255; deviation 0: both are those of all training images

   Errors: RENGA_ERR_ARGUMENT for a number of files that is not 2 or 4, or a normalisation that
   is none; RENGA_ERR_FILE_OPEN, RENGA_ERR_FILE_FORMAT or RENGA_ERR_FILE_WRITE where a file
   cannot be read or written. All ranks have the error.

   Notes: datasets image [N,1,H,W] and labels [N] of the groups training and validation, in the type
   of the IDX file; attributes scale and offset of image make what is read stored * scale + offset.

   See also: RengaDataWriteImages(), RengaDataSetFile()
@*/
RengaErrorCode RengaDataWriteIdx(RengaComm comm, int n_files, const char *const files[],
                                 const char *out_file, double mean, double deviation)
{
  RengaCheckPointers(comm, files, out_file);
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCheck(n_files == 2 || n_files == 4, mpi, RENGA_ERR_ARGUMENT,
             "%d IDX files: 2 are needed, images and labels, or 4 with those for validation",
             n_files);
  RengaCheck(deviation >= 0 && isfinite(deviation) && isfinite(mean), mpi, RENGA_ERR_ARGUMENT,
             "mean %g and deviation %g are no normalisation", mean, deviation);
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = WriteIdx(n_files, files, out_file, mean, deviation);
  RengaCall(RengaErrorAgree(mpi, code));
  return RENGA_SUCCESS;
}
