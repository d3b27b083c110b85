/* Data: a set from arrays of NumPy, a file each (numpy.lib.format, versions 1 to 3): a magic text,
   the version, the length of a header, the header as a dictionary of Python, the numbers. */
#include "dataimpl.h"
#include "renga/private/low.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  BLOCK = 4 * 1024 * 1024,
  BLOCK_OF_COLUMNS = 64 * 1024 * 1024, /* which costs a read for each element of a row */
  LONGEST_HEADER = 1 << 16
};

typedef struct {
  const char *name;
  FILE *file;
  RengaTensorSpec spec;          /* all dimensions */
  bool swapped, by_columns;      /* by_columns: the first dimension runs fastest (Fortran) */
  int64_t row_bytes, bytes_left; /* of the file, behind what was read */
  int64_t begin;                 /* of the numbers in the file */
} NpyFile;

static const struct {
  const char *code;
  RengaDataType type;
} types[] = {{"u1", RENGA_UINT8},   {"i1", RENGA_INT8},    {"b1", RENGA_BOOL},
             {"u2", RENGA_UINT16},  {"i2", RENGA_INT16},   {"u4", RENGA_UINT32},
             {"i4", RENGA_INT32},   {"u8", RENGA_UINT64},  {"i8", RENGA_INT64},
             {"f2", RENGA_FLOAT16}, {"f4", RENGA_FLOAT32}, {"f8", RENGA_FLOAT64}};
enum { N_TYPES = sizeof types / sizeof types[0] };

static RengaErrorCode ReadNpyBytes(NpyFile *npy, size_t bytes, void *buffer)
{
  RengaCheck((int64_t)bytes <= npy->bytes_left && fread(buffer, 1, bytes, npy->file) == bytes,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "array %s ends too early", npy->name);
  npy->bytes_left -= (int64_t)bytes;
  return RENGA_SUCCESS;
}

/* What stands behind a key of the header. */
static const char *FindNpyKey(const char *header, const char *key)
{
  const char *at = strstr(header, key);
  if (at == NULL) return NULL;
  at += strlen(key);
  return at + strspn(at, "'\": ");
}

static RengaErrorCode ParseType(NpyFile *npy, const char *header)
{
  const char *at = FindNpyKey(header, "'descr'");
  int t = N_TYPES;
  if (at != NULL && strchr("<>|=", *at))
    for (t = 0; t < N_TYPES && strncmp(types[t].code, at + 1, 2) != 0; t++) continue;
  RengaCheck(t < N_TYPES && (at[3] == '\'' || at[3] == '"'), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "array %s is of type %.*s; known are integers, bool, float16, float32 and float64",
             npy->name, at ? (int)strcspn(at, "'\"") : 7, at ? at : "unknown");
  npy->spec.type = types[t].type;
  npy->swapped = *at == '>';
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseShape(NpyFile *npy, const char *header)
{
  const char *at = FindNpyKey(header, "'shape'"), *order = FindNpyKey(header, "'fortran_order'");
  bool good = at != NULL && *at == '(' && order != NULL;
  double bytes = good ? (double)RengaDataTypeSize(npy->spec.type) : 0;
  char text[128], *end = NULL;
  for (at += good; good && *at != ')'; at = end + strspn(end, ", ")) {
    good = npy->spec.ndim < RENGA_MAX_DIM;
    if (!good) break;
    errno = 0;
    int64_t dim = strtoll(at, &end, 10);
    good = end != at && errno == 0 && dim >= 0 && strchr(", )", *end) && *end;
    if (!good) break;
    npy->spec.dim[npy->spec.ndim++] = dim;
    bytes *= (double)dim;
  }
  RengaCheck(good && npy->spec.ndim > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "array %s: its shape is not 1 to %d dimensions, the first for the samples", npy->name,
             RENGA_MAX_DIM);
  RengaTensorSpecFormat(&npy->spec, sizeof text, text);
  npy->by_columns = npy->spec.ndim > 1 && strncmp(order, "False", 5) != 0;
  npy->begin = (int64_t)ftell(npy->file);
  RengaCheck(bytes == (double)npy->bytes_left, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "array %s is said to be %s, %g bytes, but %lld follow", npy->name, text, bytes,
             (long long)npy->bytes_left);
  npy->row_bytes = npy->spec.dim[0] > 0 ? npy->bytes_left / npy->spec.dim[0] : 0;
  RengaCheck(npy->row_bytes > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "array %s, %s, is empty",
             npy->name, text);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadHeader(NpyFile *npy)
{
  unsigned char begin[8], length[4] = {0};
  RengaCall(ReadNpyBytes(npy, sizeof begin, begin));
  RengaCheck(memcmp(begin, "\x93NUMPY", 6) == 0 && begin[6] >= 1 && begin[6] <= 3, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s is no array of NumPy (.npy, versions 1 to 3)", npy->name);
  RengaCall(ReadNpyBytes(npy, begin[6] == 1 ? 2 : 4, length));
  const int64_t bytes = length[0] | length[1] << 8 | length[2] << 16 | (int64_t)length[3] << 24;
  RengaCheck(bytes <= LONGEST_HEADER && bytes <= npy->bytes_left, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "array %s: a header of %lld bytes", npy->name,
             (long long)bytes);
  char *header;
  RengaCall(RengaMalloc(bytes + 1, &header));
  RengaErrorCode code = ReadNpyBytes(npy, (size_t)bytes, header);
  if (code == RENGA_SUCCESS) code = ParseType(npy, header);
  if (code == RENGA_SUCCESS) code = ParseShape(npy, header);
  RengaFree(&header);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenNpy(NpyFile *npy)
{
  struct stat status;
  npy->file = RengaFileOpen_Private(npy->name, "rb");
  RengaCheck(npy->file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "array %s: %s", npy->name,
             RengaFileReason_Private(errno));
  RengaCheck(fstat(fileno(npy->file), &status) == 0 && S_ISREG(status.st_mode), MPI_COMM_SELF,
             RENGA_ERR_FILE_OPEN, "array %s is not a regular file", npy->name);
  npy->bytes_left = (int64_t)status.st_size;
  RengaCall(ReadHeader(npy));
  return RENGA_SUCCESS;
}

/* Where an element of a row, counted with its last dimension fastest, stands where its first is. */
static int64_t PlaceByColumns(const RengaTensorSpec *spec, int64_t element)
{
  int64_t place = 0;
  for (int d = spec->ndim - 1; d > 0; d--) {
    int64_t step = 1;
    for (int before = 1; before < d; before++) step *= spec->dim[before];
    place += element % spec->dim[d] * step;
    element /= spec->dim[d];
  }
  return place;
}

/* Rows [at, at + n) of an array whose elements lie sample by sample; column: room for n of one. */
static RengaErrorCode GatherNpyRows(const NpyFile *npy, int64_t at, int64_t n,
                                    unsigned char *column, unsigned char *block)
{
  const size_t size = RengaDataTypeSize(npy->spec.type), elements = (size_t)npy->row_bytes / size;
  for (size_t e = 0; e < elements; e++) {
    const int64_t first = PlaceByColumns(&npy->spec, (int64_t)e) * npy->spec.dim[0] + at;
    const ssize_t wanted = (ssize_t)n * (ssize_t)size;
    RengaCheck(pread(fileno(npy->file), column, (size_t)wanted,
                     (off_t)(npy->begin + first * (int64_t)size)) == wanted,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "array %s ends too early", npy->name);
    for (size_t row = 0; row < (size_t)n; row++)
      memcpy(block + (row * elements + e) * size, column + row * size, size);
  }
  return RENGA_SUCCESS;
}

/* Buffers of a file: rows, one column of them, rows as they are written. */
typedef struct {
  int64_t rows;
  unsigned char *block, *column;
  float *wide; /* of float16 */
} NpyBuffers;

static RengaErrorCode CopyNpyBlock(NpyFile *npy, RengaDataWriter output, int dataset, int64_t at,
                                   int64_t n, NpyBuffers *buffers)
{
  const int64_t size = (int64_t)RengaDataTypeSize(npy->spec.type),
                count = n * npy->row_bytes / size;
  const uint16_t *half = (const uint16_t *)(void *)buffers->block;
  if (npy->by_columns)
    RengaCall(GatherNpyRows(npy, at, n, buffers->column, buffers->block));
  else
    RengaCall(ReadNpyBytes(npy, (size_t)(n * npy->row_bytes), buffers->block));
  if (npy->swapped) RengaDataSwapBytes((size_t)size, count, buffers->block);
  for (int64_t i = 0; i < count && buffers->wide; i++) buffers->wide[i] = RengaLowFromHalf(half[i]);
  RengaCall(RengaDataWriterWrite(output, dataset, at, n,
                                 buffers->wide ? (void *)buffers->wide : buffers->block));
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateNpy(const NpyFile *npy, NpyBuffers *buffers)
{
  const int64_t size = (int64_t)RengaDataTypeSize(npy->spec.type);
  const int64_t room = npy->by_columns ? BLOCK_OF_COLUMNS : BLOCK, rows = npy->spec.dim[0];
  const int64_t most = npy->row_bytes < room ? room / npy->row_bytes : 1;
  buffers->rows = most < rows ? most : rows;
  RengaCall(RengaMalloc(buffers->rows * npy->row_bytes, &buffers->block));
  if (npy->by_columns) RengaCall(RengaMalloc(buffers->rows * size, &buffers->column));
  if (npy->spec.type == RENGA_FLOAT16)
    RengaCall(RengaMalloc(buffers->rows * npy->row_bytes / size, &buffers->wide));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyNpyRows(NpyFile *npy, RengaDataWriter output, int dataset)
{
  const int64_t rows = npy->spec.dim[0];
  NpyBuffers buffers = {.rows = 0};
  RengaErrorCode code = AllocateNpy(npy, &buffers);
  for (int64_t at = 0; at < rows && code == RENGA_SUCCESS; at += buffers.rows) {
    const int64_t n = rows - at < buffers.rows ? rows - at : buffers.rows;
    code = CopyNpyBlock(npy, output, dataset, at, n, &buffers);
  }
  RengaFree(&buffers.block);
  RengaFree(&buffers.column);
  RengaFree(&buffers.wide);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* /training/NAME of folder/NAME.npy */
static RengaErrorCode AddArray(NpyFile *npy, RengaDataWriter output, const NpyFile *first)
{
  const char *slash = strrchr(npy->name, '/'), *base = slash ? slash + 1 : npy->name;
  const char *dot = strrchr(base, '.');
  int length = dot && strcmp(dot, ".npy") == 0 ? (int)(dot - base) : (int)strlen(base), dataset;
  char path[256];
  RengaCall(OpenNpy(npy));
  RengaCheck(npy->spec.dim[0] == first->spec.dim[0], MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "arrays %s and %s do not belong together: %lld samples, %lld samples", first->name,
             npy->name, (long long)first->spec.dim[0], (long long)npy->spec.dim[0]);
  RengaCheck(length > 0 && length < 200, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "array %s: its name cannot be that of an input", npy->name);
  snprintf(path, sizeof path, "/training/%.*s", length, base);
  RengaTensorSpec stored = npy->spec;
  if (stored.type == RENGA_BOOL) stored.type = RENGA_UINT8;
  if (stored.type == RENGA_FLOAT16) stored.type = RENGA_FLOAT32;
  RengaCall(RengaDataWriterAdd(output, path, &stored, &dataset));
  RengaCall(CopyNpyRows(npy, output, dataset));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddArrays(int n_files, const char *const files[], RengaDataWriter output)
{
  NpyFile first = {0};
  for (int i = 0; i < n_files; i++) {
    NpyFile npy = {.name = files[i]}, *at = i == 0 ? &first : &npy;
    at->name = files[i];
    RengaErrorCode code = AddArray(at, output, &first);
    if (at->file != NULL) fclose(at->file);
    RengaCall(code);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteNpy(int n_files, const char *const files[], const char *out_file)
{
  RengaDataWriter output = NULL;
  RengaErrorCode code = RengaDataWriterCreate(out_file, &output);
  if (code == RENGA_SUCCESS) code = AddArrays(n_files, files, output);
  RengaCall(RengaDataWriterClose(&output, code));
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteNpy - make a set from arrays of NumPy

   Collective; rank 0 works

   Input:
   . n_files - the number of files, at least 1
   . files - arrays [samples, …], in the order of the network's inputs or named as they are
   . out_file - the HDF5 file to make; replaced when the new one is whole

   Errors: RENGA_ERR_ARGUMENT without a file; RENGA_ERR_FILE_OPEN, RENGA_ERR_FILE_FORMAT or
   RENGA_ERR_FILE_WRITE where a file cannot be read or written. All ranks have the error.

   Notes: folder/NAME.npy becomes dataset NAME of the group training, in its type (float16 as
   float32), rows first also where the file has its columns first (fortran_order). Types besides
   integers, bool, float16, float32 and float64 are refused.

   See also: RengaDataWriteCsv(), RengaDataSetFile()
@*/
RengaErrorCode RengaDataWriteNpy(RengaComm comm, int n_files, const char *const files[],
                                 const char *out_file)
{
  RengaCheckPointers(comm, files, out_file);
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCheck(n_files > 0, mpi, RENGA_ERR_ARGUMENT, "a data set of %d arrays", n_files);
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = WriteNpy(n_files, files, out_file);
  RengaCall(RengaErrorAgree(mpi, code));
  return RENGA_SUCCESS;
}
