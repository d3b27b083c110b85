/* Data source: an HDF5 file, in one of two formats.

   Arrays (no attribute format): each input is a dataset [samples, …] of the group /training, or of
   the file's root; the validation part is the group /validation with the same names. Inputs and
   datasets of one name belong together, the others in order.

   Tokens (attributes format = "tokens", sequence T, vocabulary): the datasets /training and
   /validation are one-dimensional streams. Sample i is the window [i T, i T + T + 1): its tokens
   are the first T of it, its labels the last T. */
#include "dataimpl.h"
#include <stdlib.h>
#include <string.h>

enum { STAGING = 4 * 1024 * 1024 }; /* bytes of one read, unless one sample is larger */

/* The shape of one sample: all but the first dimension of a dataset. */
static RengaTensorSpec SampleSpec(const RengaTensorSpec *dataset)
{
  RengaTensorSpec sample = *dataset;
  sample.ndim--;
  for (int i = 0; i < sample.ndim; i++) sample.dim[i] = dataset->dim[i + 1];
  return sample;
}

static int Squeeze(const RengaTensorSpec *spec, int64_t dim[RENGA_MAX_DIM])
{
  int n = 0;
  for (int i = 0; i < spec->ndim; i++)
    if (spec->dim[i] != 1) dim[n++] = spec->dim[i];
  return n;
}

/* Dimensions of 1 do not count. */
static bool SameShape(const RengaTensorSpec *a, const RengaTensorSpec *b)
{
  int64_t x[RENGA_MAX_DIM], y[RENGA_MAX_DIM];
  int n = Squeeze(a, x);
  return n == Squeeze(b, y) && memcmp(x, y, (size_t)n * sizeof *x) == 0;
}

static RengaErrorCode CheckField(const RengaDataField *field, const RengaTensorSpec *sample,
                                 const char *dataset)
{
  char want[128], have[128];
  RengaTensorSpecFormat(&field->spec, sizeof want, want);
  RengaTensorSpecFormat(sample, sizeof have, have);
  RengaCheck(SameShape(&field->spec, sample), MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "input %s of the network takes %s per sample; %s has %s per sample", field->name, want,
             dataset, have);
  RengaCheck(RengaDataConvertible(sample->type, field->spec.type), MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "input %s of the network takes %s; %s has %s, which is not converted to %s",
             field->name, want, dataset, have, RengaDataTypeName(field->spec.type));
  return RENGA_SUCCESS;
}

static void ListNames(int count, char *const names[], size_t size, char text[])
{
  size_t used = 0;
  snprintf(text, size, "none");
  for (int i = 0; i < count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
}

/* from[i] is count where field i has no dataset yet. */
static bool IsTaken(RengaData data, const int from[], int name)
{
  for (int i = 0; i < data->n_fields; i++)
    if (from[i] == name) return true;
  return false;
}

/* from[i]: which of the names is field i's; first those of the same name, then the rest in order.
   */
static RengaErrorCode MatchNames(RengaData data, int count, char *const names[], int from[])
{
  char list[512];
  int left_fields = data->n_fields, left_names = count, next = 0;
  for (int i = 0; i < data->n_fields; i++) {
    from[i] = 0;
    while (from[i] < count && strcmp(names[from[i]], data->fields[i].name) != 0) from[i]++;
    left_fields -= from[i] < count;
    left_names -= from[i] < count;
  }
  ListNames(count, names, sizeof list, list);
  for (int i = 0; i < data->n_fields; i++) {
    if (from[i] < count) continue;
    RengaCheck(left_fields == left_names, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "data set %s has no dataset for input %s of the network; it has %s", data->source,
               data->fields[i].name, list);
    while (IsTaken(data, from, next)) next++;
    from[i] = next;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenArray(RengaData data, int field, RengaDataPart part, const char *group,
                                const char *name, int64_t *count)
{
  RengaDataField *f = &data->fields[field];
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", group, name);
  RengaCheck(RengaHdf5Has(data->file, path), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s has no dataset %s for input %s of the network", data->source, path,
             f->name);
  RengaCall(RengaHdf5DatasetOpen(data->file, path, &f->dataset[part]));
  const RengaTensorSpec *spec = RengaHdf5DatasetSpec(f->dataset[part]);
  RengaTensorSpec sample = SampleSpec(spec);
  f->rows = 1;
  f->shift = 0;
  f->scale[part] = 1;
  f->offset[part] = 0;
  RengaCall(RengaHdf5DatasetGetReal(f->dataset[part], "scale", &f->scale[part]));
  RengaCall(RengaHdf5DatasetGetReal(f->dataset[part], "offset", &f->offset[part]));
  RengaCall(CheckField(f, &sample, RengaHdf5DatasetName(f->dataset[part])));
  RengaCheck(field == 0 || spec->dim[0] == *count, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "%s holds %lld samples, the dataset of input %s %lld",
             RengaHdf5DatasetName(f->dataset[part]), (long long)spec->dim[0], data->fields[0].name,
             (long long)*count);
  *count = spec->dim[0];
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpArraysOf(RengaData data, int count, char *const names[],
                                    const char *training, int64_t counts[RENGA_DATA_PARTS])
{
  int *from;
  bool validation = RengaHdf5Has(data->file, "/validation");
  RengaCall(RengaMalloc(data->n_fields, &from));
  RengaErrorCode code = MatchNames(data, count, names, from);
  for (int i = 0; i < data->n_fields && code == RENGA_SUCCESS; i++) {
    code = OpenArray(data, i, RENGA_DATA_TRAINING, training, names[from[i]], &counts[0]);
    if (validation && code == RENGA_SUCCESS)
      code = OpenArray(data, i, RENGA_DATA_VALIDATION, "/validation", names[from[i]], &counts[1]);
  }
  RengaFree(&from);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpArrays(RengaData data, int64_t counts[RENGA_DATA_PARTS])
{
  const char *training = RengaHdf5Has(data->file, "/training") ? "/training" : "";
  char **names;
  int count;
  RengaCall(RengaHdf5List(data->file, *training ? training : "/", &count, &names));
  RengaErrorCode code = SetUpArraysOf(data, count, names, training, counts);
  for (int i = 0; i < count; i++) RengaFree(&names[i]);
  RengaFree(&names);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool IsNamedLabels(const char *name)
{
  static const char *const words[] = {"labels", "label", "targets", "target"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(name, words[i]) == 0) return true;
  return false;
}

static RengaErrorCode OpenStream(RengaData data, int field, RengaDataPart part, const char *path,
                                 int64_t sequence, int64_t *count)
{
  RengaDataField *f = &data->fields[field];
  RengaCall(RengaHdf5DatasetOpen(data->file, path, &f->dataset[part]));
  const RengaTensorSpec *spec = RengaHdf5DatasetSpec(f->dataset[part]);
  const char *name = RengaHdf5DatasetName(f->dataset[part]);
  RengaCheck(spec->ndim == 1 && RengaDataIsInteger(spec->type), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s is no one-dimensional dataset of integers", name);
  RengaTensorSpec sample = {.type = spec->type, .ndim = 1, .dim = {sequence}};
  RengaCall(CheckField(f, &sample, name));
  f->rows = sequence;
  f->scale[part] = 1;
  f->offset[part] = 0;
  *count = spec->dim[0] > sequence ? (spec->dim[0] - 1) / sequence : 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpTokens(RengaData data, int64_t counts[RENGA_DATA_PARTS])
{
  int64_t sequence;
  RengaCall(RengaHdf5GetInt(data->file, "sequence", &sequence));
  RengaCall(RengaHdf5GetInt(data->file, "vocabulary", &data->vocabulary));
  RengaCheck(sequence > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "data set %s: sequence is %lld",
             data->source, (long long)sequence);
  RengaCheck(data->n_fields <= 2, MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "data set %s gives tokens and labels; the network has %d inputs, the third is %s",
             data->source, data->n_fields, data->fields[2].name);
  RengaCheck(RengaHdf5Has(data->file, "/training"), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s has no dataset /training", data->source);
  bool validation = RengaHdf5Has(data->file, "/validation");
  bool swapped = IsNamedLabels(data->fields[0].name);
  for (int i = 0; i < data->n_fields; i++) {
    RengaDataField *f = &data->fields[i];
    f->shift = (i == 1) != swapped;
    RengaCheck(f->classes == 0 || data->vocabulary <= f->classes, MPI_COMM_SELF, RENGA_ERR_SHAPE,
               "data set %s has %lld kinds of tokens; input %s of the network takes %lld",
               data->source, (long long)data->vocabulary, f->name, (long long)f->classes);
    RengaCall(OpenStream(data, i, RENGA_DATA_TRAINING, "/training", sequence, &counts[0]));
    if (validation)
      RengaCall(OpenStream(data, i, RENGA_DATA_VALIDATION, "/validation", sequence, &counts[1]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindFormat(RengaData data, bool *tokens)
{
  char *format;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaHdf5GetText(data->file, "format", &format));
  *tokens = format != NULL && strcmp(format, "tokens") == 0;
  if (format != NULL && !*tokens)
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, __LINE__,
                           "data set %s has format %s; known are tokens and no attribute format",
                           data->source, format);
  RengaFree(&format);
  return code;
}

static RengaErrorCode SetUpFile(RengaData data, int64_t counts[RENGA_DATA_PARTS])
{
  bool tokens = false;
  RengaCall(RengaHdf5Open(data->source, &data->file));
  RengaCall(FindFormat(data, &tokens));
  if (tokens)
    RengaCall(SetUpTokens(data, counts));
  else
    RengaCall(SetUpArrays(data, counts));
  return RENGA_SUCCESS;
}

/* Where one of the samples that are asked for stands in the file and in the buffer. */
typedef struct {
  int64_t sample, place;
} Wanted;

static int CompareWanted(const void *a, const void *b)
{
  const Wanted *x = a, *y = b;
  return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Length of the run of neighbours in the file that wanted[0] begins. */
static int64_t RunLength(const Wanted wanted[], int64_t count, int64_t most)
{
  int64_t n = 1;
  while (n < count && n < most && wanted[n].sample == wanted[0].sample + n) n++;
  return n;
}

static RengaErrorCode RaiseUnfit(const RengaDataField *f, int64_t sample, double value)
{
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_NUMERIC,
             "sample %lld of the data for input %s: %.17g does not fit into %s", (long long)sample,
             f->name, value, RengaDataTypeName(f->spec.type));
}

/* value * scale + offset, of floating numbers. */
static void Normalize(RengaDataType type, int64_t count, double scale, double offset, void *values)
{
  if (type == RENGA_FLOAT32)
    for (int64_t i = 0; i < count; i++)
      ((float *)values)[i] = (float)(((float *)values)[i] * scale + offset);
  if (type == RENGA_FLOAT64)
    for (int64_t i = 0; i < count; i++)
      ((double *)values)[i] = ((double *)values)[i] * scale + offset;
}

/* Samples of a run from staging memory to their places. */
static RengaErrorCode PlaceRun(const RengaDataField *f, RengaDataPart source, RengaDataType from,
                               const char *staging, int64_t count, const Wanted run[], char *buffer)
{
  bool normalized = !(f->scale[source] == 1 && f->offset[source] == 0);
  size_t in_bytes = (size_t)f->elements * RengaDataTypeSize(from);
  size_t out_bytes = (size_t)f->elements * RengaDataTypeSize(f->spec.type);
  for (int64_t i = 0; i < count; i++) {
    const char *in = staging + (size_t)i * in_bytes;
    char *out = buffer + (size_t)run[i].place * out_bytes;
    int64_t done = RengaDataConvert(from, in, f->spec.type, out, f->elements);
    if (done < f->elements)
      RengaCall(RaiseUnfit(f, run[i].sample, RengaDataValueAt(from, in, done)));
    if (normalized) Normalize(f->spec.type, f->elements, f->scale[source], f->offset[source], out);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadRuns(RengaData data, RengaDataPart source, int field, int64_t count,
                               Wanted wanted[], void *buffer)
{
  const RengaDataField *f = &data->fields[field];
  RengaHdf5Dataset dataset = f->dataset[source];
  RengaDataType from = RengaHdf5DatasetSpec(dataset)->type;
  size_t bytes = (size_t)f->elements * RengaDataTypeSize(from);
  int64_t most = bytes == 0 || bytes > STAGING ? 1 : (int64_t)(STAGING / bytes);
  char *staging;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc((size_t)(most < count ? most : count) * bytes, &staging));
  qsort(wanted, (size_t)count, sizeof *wanted, CompareWanted);
  for (int64_t at = 0, run; at < count && code == RENGA_SUCCESS; at += run) {
    run = RunLength(wanted + at, count - at, most);
    code = RengaHdf5Read(dataset, wanted[at].sample * f->rows + f->shift, run * f->rows, staging);
    if (code == RENGA_SUCCESS) code = PlaceRun(f, source, from, staging, run, wanted + at, buffer);
  }
  RengaFree(&staging);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadFile(RengaData data, RengaDataPart source, int field, int64_t count,
                               const int64_t samples[], void *buffer)
{
  Wanted *wanted;
  RengaCall(RengaMalloc(count, &wanted));
  for (int64_t i = 0; i < count; i++) wanted[i] = (Wanted){samples[i], i};
  RengaErrorCode code = ReadRuns(data, source, field, count, wanted, buffer);
  RengaFree(&wanted);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ViewFile(RengaData data, RengaViewer viewer)
{
  if (data->vocabulary > 0)
    RengaCall(RengaViewerPrintf(viewer, "  tokens of %lld kinds\n", (long long)data->vocabulary));
  for (int i = 0; i < data->n_fields; i++) {
    const RengaDataField *f = &data->fields[i];
    char want[128], have[128];
    RengaTensorSpecFormat(&f->spec, sizeof want, want);
    RengaTensorSpecFormat(RengaHdf5DatasetSpec(f->dataset[0]), sizeof have, have);
    RengaCall(RengaViewerPrintf(viewer, "  %s %s from %s %s%s\n", f->name, want,
                                RengaHdf5DatasetName(f->dataset[0]), have,
                                f->rows == 1   ? ""
                                : f->shift > 0 ? ", the last of each window"
                                               : ", the first of each window"));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataCloseFile(RengaData data)
{
  for (int i = 0; i < data->n_fields; i++)
    for (int part = 0; part < RENGA_DATA_PARTS; part++)
      RengaCall(RengaHdf5DatasetClose(&data->fields[i].dataset[part]));
  RengaCall(RengaHdf5Close(&data->file));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataCreate_File(RengaData data)
{
  data->ops->setup = SetUpFile;
  data->ops->read = ReadFile;
  data->ops->view = ViewFile;
  return RENGA_SUCCESS;
}
