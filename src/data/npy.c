/* Data: a set from arrays of NumPy, a file each (numpy.lib.format, versions 1 to 3): a magic text,
   the version, the length of a header, the header as a dictionary of Python, the numbers. */
#include "dataimpl.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK = 4 * 1024 * 1024, LONGEST_HEADER = 1 << 16 };

typedef struct {
  const char *name;
  FILE *file;
  RengaTensorSpec spec; /* all dimensions */
  bool swapped;
  int64_t row_bytes, bytes_left; /* of the file, behind what was read */
} NpyFile;

static const struct {
  const char *code;
  RengaDataType type;
} types[] = {{"u1", RENGA_UINT8}, {"i1", RENGA_INT8},    {"b1", RENGA_BOOL},   {"u2", RENGA_UINT16},
             {"i2", RENGA_INT16}, {"u4", RENGA_UINT32},  {"i4", RENGA_INT32},  {"u8", RENGA_UINT64},
             {"i8", RENGA_INT64}, {"f4", RENGA_FLOAT32}, {"f8", RENGA_FLOAT64}};
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
             "array %s is of type %.*s; known are integers, bool, float32 and float64", npy->name,
             at ? (int)strcspn(at, "'\"") : 7, at ? at : "unknown");
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
  RengaCheck(npy->spec.ndim == 1 || strncmp(order, "False", 5) == 0, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT,
             "array %s has its columns first (fortran_order); save numpy.ascontiguousarray of it",
             npy->name);
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

static RengaErrorCode CopyNpyRows(NpyFile *npy, RengaDataWriter output, int dataset)
{
  const int64_t rows = npy->spec.dim[0], size = (int64_t)RengaDataTypeSize(npy->spec.type);
  int64_t most = npy->row_bytes < BLOCK ? BLOCK / npy->row_bytes : 1;
  unsigned char *block;
  RengaErrorCode code = RENGA_SUCCESS;
  if (most > rows) most = rows;
  RengaCall(RengaMalloc(most * npy->row_bytes, &block));
  for (int64_t at = 0, n; at < rows && code == RENGA_SUCCESS; at += n) {
    n = rows - at < most ? rows - at : most;
    code = ReadNpyBytes(npy, (size_t)(n * npy->row_bytes), block);
    if (code == RENGA_SUCCESS && npy->swapped)
      RengaDataSwapBytes((size_t)size, n * npy->row_bytes / size, block);
    if (code == RENGA_SUCCESS) code = RengaDataWriterWrite(output, dataset, at, n, block);
  }
  RengaFree(&block);
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
   . comm - the ranks
   . n_files - at least 1
   . files - arrays [samples, …], in the order of the network's inputs or named as they are
   . out_file - the HDF5 file to make; replaced when the new one is whole

   Errors: RENGA_ERR_ARGUMENT without a file; RENGA_ERR_FILE_OPEN, RENGA_ERR_FILE_FORMAT or
   RENGA_ERR_FILE_WRITE where a file cannot be read or written. All ranks have the error.

   Notes: folder/NAME.npy becomes dataset NAME of the group training, in its type. Columns first
   (fortran_order) and types besides integers, bool, float32 and float64 are refused.

   See also: RengaDataWriteCsv(), RengaDataSetFile()
@*/
RengaErrorCode RengaDataWriteNpy(RengaComm comm, int n_files, const char *const files[],
                                 const char *out_file)
{
  RengaCheckPointer(comm);
  RengaCheckPointer(files);
  RengaCheckPointer(out_file);
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
