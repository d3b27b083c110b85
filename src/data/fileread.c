/* Data: samples of HDF5 files. What is asked for is sorted, so that neighbours are read at once. */
#include "dataimpl.h"
#include <stdlib.h>

enum { STAGING = 4 * 1024 * 1024 }; /* bytes of one read, unless one sample is larger */

/* Where one of the samples that are asked for stands in the files and in the buffer. */
typedef struct {
  int64_t sample, place;
} Wanted;

typedef struct {
  const RengaData data;
  const RengaDataField *field;
  RengaDataPart source;
  RengaDataType type; /* of the buffer */
  char *buffer;
  RengaDataVisitor visit; /* NULL, or who gets the samples as they are */
  void *user;
} Reading;

static int CompareWanted(const void *a, const void *b)
{
  const Wanted *x = a, *y = b;
  return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Length of the run of neighbours that wanted[0] begins; end: number of the first sample that is
   not in its file. */
static int64_t RunLength(const Wanted wanted[], int64_t count, int64_t most, int64_t end)
{
  int64_t n = 1;
  while (n < count && n < most && wanted[n].sample == wanted[0].sample + n &&
         wanted[n].sample < end)
    n++;
  return n;
}

static int FileOf(const struct _p_RengaData *data, RengaDataPart source, int64_t sample)
{
  int low = 0, high = data->n_files - 1;
  while (low < high) { /* the last file whose first sample is not behind this one */
    int middle = (low + high + 1) / 2;
    if (data->files[middle].first[source] <= sample)
      low = middle;
    else
      high = middle - 1;
  }
  while (low > 0 && data->files[low].count[source] == 0) low--;
  return low;
}

const char *RengaDataFileName_Private(const struct _p_RengaData *data, RengaDataPart source,
                                      int64_t *sample)
{
  if (data->n_files == 0) return data->source;
  const RengaDataFile *file = &data->files[FileOf(data, source, *sample)];
  *sample -= file->first[source];
  return file->name;
}

static RengaErrorCode RaiseUnfit(const Reading *r, int64_t sample, double value)
{
  const char *file = RengaDataFileName_Private(r->data, r->source, &sample);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "sample %lld of %s, input %s: %.17g does not fit into %s", (long long)sample, file,
             r->field->name, value, RengaDataTypeName(r->type));
}

/* value * scale + offset, of floating numbers. */
static void NormalizeField(RengaDataType type, int64_t count, const RengaDataColumn *column,
                           void *values)
{
  if (column->scale == 1 && column->offset == 0) return;
  if (type == RENGA_FLOAT32)
    for (int64_t i = 0; i < count; i++)
      ((float *)values)[i] = (float)(((float *)values)[i] * column->scale + column->offset);
  if (type == RENGA_FLOAT64)
    for (int64_t i = 0; i < count; i++)
      ((double *)values)[i] = ((double *)values)[i] * column->scale + column->offset;
}

/* A sample as the files have it to its place in the buffer. */
static RengaErrorCode PlaceSample(const Reading *r, const RengaDataColumn *column, const char *in,
                                  const Wanted *wanted)
{
  const RengaDataType from = RengaHdf5DatasetSpec(column->dataset)->type;
  const int64_t elements = r->field->elements;
  char *out = r->buffer + (size_t)wanted->place * (size_t)elements * RengaDataTypeSize(r->type);
  const int64_t done = RengaDataConvert(from, in, r->type, out, elements);
  if (done < elements) RengaCall(RaiseUnfit(r, wanted->sample, RengaDataValueAt(from, in, done)));
  NormalizeField(r->type, elements, column, out);
  return RENGA_SUCCESS;
}

static size_t StoredBytes(const RengaDataField *field, const RengaDataColumn *column)
{
  const RengaDataType type = RengaHdf5DatasetSpec(column->dataset)->type;
  return (size_t)field->elements * RengaDataTypeSize(type);
}

/* Samples of a run from staging memory to their places. */
static RengaErrorCode PlaceRun(const Reading *r, const RengaDataColumn *column, const char *staging,
                               int64_t count, const Wanted run[])
{
  const size_t bytes = StoredBytes(r->field, column);
  for (int64_t i = 0; i < count; i++) {
    const char *in = staging + (size_t)i * bytes;
    if (r->visit)
      RengaCall(r->visit(r->user, run[i].place, run[i].sample, bytes, in));
    else
      RengaCall(PlaceSample(r, column, in, &run[i]));
  }
  return RENGA_SUCCESS;
}

/* The run that wanted[0] begins. Files may have numbers of other sizes: staging grows. */
static RengaErrorCode ReadRun(const Reading *r, int64_t count, const Wanted wanted[],
                              char **staging, size_t *room, int64_t *run)
{
  const RengaDataField *f = r->field;
  const int number = FileOf(r->data, r->source, wanted[0].sample);
  const RengaDataFile *file = &r->data->files[number];
  const RengaDataColumn *column = &f->column[r->source][number];
  const int64_t first = file->first[r->source], end = first + file->count[r->source];
  const size_t bytes = StoredBytes(f, column);
  int64_t most = bytes == 0 || bytes > STAGING ? 1 : (int64_t)(STAGING / bytes);
  *run = RunLength(wanted, count, most, end);
  if ((size_t)*run * bytes > *room) {
    *room = (size_t)*run * bytes;
    RengaCall(RengaRealloc(*room, staging));
  }
  RengaCall(RengaHdf5Read(column->dataset, wanted[0].sample,
                          (wanted[0].sample - first) * f->rows + f->shift, *run * f->rows,
                          *staging));
  RengaCall(PlaceRun(r, column, *staging, *run, wanted));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSorted(const Reading *r, int64_t count, const Wanted wanted[])
{
  char *staging = NULL;
  size_t room = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  for (int64_t at = 0, run = 1; at < count && code == RENGA_SUCCESS; at += run)
    code = ReadRun(r, count - at, wanted + at, &staging, &room, &run);
  RengaFree(&staging);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Those that are known already; the others are listed. */
static RengaErrorCode PlaceKnown(const Reading *r, int64_t count, const int64_t samples[],
                                 const char *const raw[], int64_t *left, Wanted wanted[])
{
  *left = 0;
  for (int64_t i = 0; i < count; i++) {
    const Wanted one = {samples[i], i};
    if (!raw || !raw[i])
      wanted[(*left)++] = one;
    else
      RengaCall(PlaceSample(r, &r->field->column[r->source][FileOf(r->data, r->source, samples[i])],
                            raw[i], &one));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadStored(const Reading *r, int64_t count, const int64_t samples[],
                                 const char *const raw[])
{
  Wanted *wanted;
  int64_t left;
  RengaCall(RengaMalloc(count, &wanted));
  RengaErrorCode code = PlaceKnown(r, count, samples, raw, &left, wanted);
  if (!code) qsort(wanted, (size_t)left, sizeof *wanted, CompareWanted);
  if (!code) code = ReadSorted(r, left, wanted);
  RengaFree(&wanted);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Windows of whole numbers first, then what becomes of them in the input's type. */
static RengaErrorCode FillTokens(const Reading *r, int64_t epoch, int64_t count,
                                 const int64_t samples[], const char *const raw[], int64_t tokens[])
{
  const RengaDataField *f = r->field;
  Reading whole = *r;
  whole.type = RENGA_INT64;
  whole.buffer = (char *)tokens;
  if (f->role == RENGA_ROLE_ATTENTION)
    for (int64_t i = 0; i < count * f->elements; i++) tokens[i] = 1;
  else if (f->role != RENGA_ROLE_SEGMENTS)
    RengaCall(ReadStored(&whole, count, samples, raw));
  if (r->data->masking > 0)
    RengaDataMaskTokens_Private(r->data, f->role, epoch, count, samples, tokens);
  int64_t done = RengaDataConvert(RENGA_INT64, tokens, r->type, r->buffer, count * f->elements);
  if (done < count * f->elements)
    RengaCall(RaiseUnfit(r, samples[done / f->elements], (double)tokens[done]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataReadFile_Private(RengaData data, RengaDataPart source, int field,
                                         int64_t epoch, int64_t count, const int64_t samples[],
                                         const char *const raw[], void *buffer)
{
  const RengaDataField *f = &data->fields[field];
  const Reading reading = {data, f, source, f->spec.type, buffer, NULL, NULL};
  int64_t *tokens;
  if (!data->tokens) {
    RengaCall(ReadStored(&reading, count, samples, raw));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaMalloc(count * f->elements, &tokens));
  RengaErrorCode code = FillTokens(&reading, epoch, count, samples, raw, tokens);
  RengaFree(&tokens);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The system reads them while others are computed with. */
void RengaDataExpectFile_Private(const struct _p_RengaData *data, RengaDataPart source, int field,
                                 int64_t count, const int64_t samples[])
{
  const RengaDataField *f = &data->fields[field];
  for (int64_t i = 0; i < count; i++) {
    const int number = FileOf(data, source, samples[i]);
    const RengaDataFile *file = &data->files[number];
    const RengaDataColumn *column = &f->column[source][number];
    if (column->dataset)
      RengaHdf5Expect(column->dataset, (samples[i] - file->first[source]) * f->rows + f->shift,
                      f->rows);
  }
}

size_t RengaDataRawBytes_Private(const struct _p_RengaData *data, int field)
{
  const RengaDataField *f = &data->fields[field];
  const RengaDataColumn *column = f->column[RENGA_DATA_TRAINING];
  size_t most = 0;
  if (f->role == RENGA_ROLE_SEGMENTS || f->role == RENGA_ROLE_ATTENTION) return 0;
  for (int file = 0; column && file < data->n_files; file++) {
    const size_t bytes = column[file].dataset ? StoredBytes(f, &column[file]) : 0;
    if (bytes > most) most = bytes;
  }
  return most;
}

RengaErrorCode RengaDataVisitFile_Private(RengaData data, int field, int64_t count,
                                          const int64_t samples[], RengaDataVisitor visit,
                                          void *user)
{
  const RengaDataPartPlace *place = &data->part[RENGA_DATA_TRAINING];
  const RengaDataField *f = &data->fields[field];
  const Reading reading = {data, f, place->source, f->spec.type, NULL, visit, user};
  RengaCall(ReadStored(&reading, count, samples, NULL));
  return RENGA_SUCCESS;
}
