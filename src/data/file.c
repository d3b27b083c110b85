/* Data source: HDF5 files that are one set, each in the same one of two formats.

   Arrays (no attribute format): each input is a dataset [samples, …] of the group /training, or
   of the file's root; the validation part is the group /validation with the same names. Inputs and
   datasets of one name belong together, the others in order. Numbers for a floating input are what
   is stored * scale + offset where the dataset has such attributes.

   Tokens (attributes format = "tokens", sequence T, vocabulary, and mask where there is a token to
   mask with): the datasets /training and /validation are one-dimensional streams. Sample i is the
   window [i T, i T + T + 1): its tokens are the first T of it, its labels the last T. With masked
   tokens it is the window [i T, i T + T).

   Samples are numbered through the files, in the order in which these are given. */
#include "dataimpl.h"
#include "renga/private/number.h"
#include <string.h>

/* The shape of one sample: all but the first dimension of a dataset. */
static RengaTensorSpec SampleSpec(const RengaTensorSpec *dataset)
{
  RengaTensorSpec sample = *dataset;
  sample.ndim--;
  for (int i = 0; i < sample.ndim; i++) sample.dim[i] = dataset->dim[i + 1];
  return sample;
}

static int SqueezeSample(const RengaTensorSpec *spec, int64_t dim[RENGA_MAX_DIM])
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
  int n = SqueezeSample(a, x);
  return n == SqueezeSample(b, y) && memcmp(x, y, (size_t)n * sizeof *x) == 0;
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

static void ListDatasetNames(int count, char *const names[], size_t size, char text[])
{
  size_t used = 0;
  snprintf(text, size, "none");
  for (int i = 0; i < count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
}

/* from[i] is count where field i has no dataset yet. */
static bool IsNameTaken(RengaData data, const int from[], int name)
{
  for (int i = 0; i < data->n_fields; i++)
    if (from[i] == name) return true;
  return false;
}

/* Tokens of packed rows are of several documents, which a network without position_ids would take
   for one. */
static RengaErrorCode RefusePacked(RengaData data, const RengaDataFile *file, int count,
                                   char *const names[])
{
  bool packed = false, reads = false, tokens = false;
  for (int i = 0; i < count; i++) packed = packed || strcmp(names[i], "position_ids") == 0;
  for (int i = 0; i < data->n_fields; i++) {
    reads = reads || strcmp(data->fields[i].name, "position_ids") == 0;
    tokens = tokens || strcmp(data->fields[i].name, "tokens") == 0;
  }
  RengaCheck(!packed || reads || !tokens, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s has rows of several documents (position_ids), which the network would "
             "take for one: -graph hf:FOLDER,packed=1 reads them",
             file->name);
  return RENGA_SUCCESS;
}

/* from[i]: which of the names is field i's; first those of the same name, then the rest in order.
   */
static RengaErrorCode MatchNames(RengaData data, const RengaDataFile *file, int count,
                                 char *const names[], int from[])
{
  char list[512];
  int left_fields = data->n_fields, left_names = count, next = 0;
  RengaCall(RefusePacked(data, file, count, names));
  for (int i = 0; i < data->n_fields; i++) {
    from[i] = 0;
    while (from[i] < count && strcmp(names[from[i]], data->fields[i].name) != 0) from[i]++;
    left_fields -= from[i] < count;
    left_names -= from[i] < count;
  }
  ListDatasetNames(count, names, sizeof list, list);
  for (int i = 0; i < data->n_fields; i++) {
    if (from[i] < count) continue;
    RengaCheck(left_fields == left_names, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "data set %s has no dataset for input %s of the network; it has %s", file->name,
               data->fields[i].name, list);
    while (IsNameTaken(data, from, next)) next++;
    from[i] = next;
  }
  return RENGA_SUCCESS;
}

/* What the file gives for a part stands here; NULL: it gives nothing for it. */
static const char *PathOf(RengaData data, const RengaDataFile *file, RengaDataPart part)
{
  bool parts = RengaHdf5Has(file->file, "/training");
  if (file->validates) return part == RENGA_DATA_TRAINING ? NULL : parts ? "/training" : "";
  if (part == RENGA_DATA_TRAINING) return parts ? "/training" : "";
  bool left = data->validation_source != NULL || !RengaHdf5Has(file->file, "/validation");
  return left ? NULL : "/validation";
}

static RengaErrorCode OpenColumn(RengaData data, int file, const char *path,
                                 RengaDataColumn *column)
{
  RengaCall(RengaHdf5DatasetOpen(data->files[file].file, path, &column->dataset));
  column->scale = 1;
  column->offset = 0;
  RengaCall(RengaHdf5DatasetGetReal(column->dataset, "scale", &column->scale));
  RengaCall(RengaHdf5DatasetGetReal(column->dataset, "offset", &column->offset));
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenArray(RengaData data, int field, int file, RengaDataPart part,
                                const char *group, const char *name)
{
  RengaDataField *f = &data->fields[field];
  RengaDataFile *from = &data->files[file];
  RengaDataColumn *column = &f->column[part][file];
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", group, name);
  RengaCheck(RengaHdf5Has(from->file, path), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s has no dataset %s for input %s of the network", from->name, path,
             f->name);
  RengaCall(OpenColumn(data, file, path, column));
  const RengaTensorSpec *spec = RengaHdf5DatasetSpec(column->dataset);
  RengaTensorSpec sample = SampleSpec(spec);
  f->rows = 1;
  f->shift = 0;
  RengaCall(CheckField(f, &sample, RengaHdf5DatasetName(column->dataset)));
  RengaCheck(field == 0 || spec->dim[0] == from->count[part], MPI_COMM_SELF, RENGA_ERR_SHAPE,
             "%s holds %lld samples, the dataset of input %s %lld",
             RengaHdf5DatasetName(column->dataset), (long long)spec->dim[0], data->fields[0].name,
             (long long)from->count[part]);
  from->count[part] = spec->dim[0];
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenArraysOf(RengaData data, int file, RengaDataPart part, const char *group,
                                   int count, char *const names[])
{
  int *from;
  RengaCall(RengaMalloc(data->n_fields, &from));
  RengaErrorCode code = MatchNames(data, &data->files[file], count, names, from);
  for (int i = 0; i < data->n_fields && code == RENGA_SUCCESS; i++)
    code = OpenArray(data, i, file, part, group, names[from[i]]);
  RengaFree(&from);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpArrays(RengaData data, int file, RengaDataPart part, const char *group)
{
  char **names;
  int count;
  RengaCheck(data->masking == 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-data_masking %g: data set %s is no set of tokens; renga data text makes one",
             data->masking, data->files[file].name);
  RengaCall(RengaHdf5List(data->files[file].file, *group ? group : "/", &count, &names));
  RengaErrorCode code = OpenArraysOf(data, file, part, group, count, names);
  for (int i = 0; i < count; i++) RengaFree(&names[i]);
  RengaFree(&names);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenStream(RengaData data, int field, int file, RengaDataPart part,
                                 const char *path)
{
  RengaDataField *f = &data->fields[field];
  RengaDataColumn *column = &f->column[part][file];
  RengaCall(OpenColumn(data, file, path, column));
  const RengaTensorSpec *spec = RengaHdf5DatasetSpec(column->dataset);
  const char *name = RengaHdf5DatasetName(column->dataset);
  RengaCheck(spec->ndim == 1 && RengaDataIsInteger(spec->type), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s is no one-dimensional dataset of integers", name);
  RengaTensorSpec sample = {.type = spec->type, .ndim = 1, .dim = {data->sequence}};
  bool fixed = f->role == RENGA_ROLE_SEGMENTS || f->role == RENGA_ROLE_ATTENTION;
  if (fixed) sample.type = RENGA_INT64; /* made here, of any type */
  if (!fixed || !RengaDataIsInteger(f->spec.type)) RengaCall(CheckField(f, &sample, name));
  RengaCheck(fixed || f->classes == 0 || data->vocabulary <= f->classes, MPI_COMM_SELF,
             RENGA_ERR_SHAPE,
             "data set %s has %lld kinds of tokens; input %s of the network takes %lld",
             data->files[file].name, (long long)data->vocabulary, f->name, (long long)f->classes);
  f->rows = data->sequence;
  f->shift = f->role == RENGA_ROLE_LABELS && data->masking == 0;
  int64_t ahead = data->masking == 0; /* the label of the last token */
  data->files[file].count[part] =
      spec->dim[0] > ahead ? (spec->dim[0] - ahead) / data->sequence : 0;
  return RENGA_SUCCESS;
}

/* What files of one set must have in common. */
static RengaErrorCode ReadTokenNumbers(RengaData data, int file)
{
  RengaDataFile *f = &data->files[file];
  int64_t sequence, vocabulary, mask = -1, digest = 0;
  RengaCall(RengaHdf5GetInt(f->file, "sequence", &sequence));
  RengaCall(RengaHdf5GetInt(f->file, "vocabulary", &vocabulary));
  RengaCall(RengaHdf5FindInt(f->file, "mask", &mask));
  RengaCall(RengaHdf5FindInt(f->file, "vocabulary_digest", &digest));
  RengaCheck(sequence > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "data set %s: sequence is %lld",
             f->name, (long long)sequence);
  RengaCheck(data->masking == 0 || (mask >= 0 && mask < vocabulary - 1), MPI_COMM_SELF,
             RENGA_ERR_OPTION,
             "-data_masking %g: data set %s has no token to mask with; renga data text makes one "
             "with -vocabulary KINDS",
             data->masking, f->name);
  RengaCheck(
      file == 0 || (sequence == data->sequence && vocabulary == data->vocabulary &&
                    mask == data->mask && digest == data->vocabulary_digest),
      MPI_COMM_SELF, RENGA_ERR_SHAPE,
      "data set %s has %lld kinds of tokens in samples of %lld, %s %lld in samples of %lld%s",
      f->name, (long long)vocabulary, (long long)sequence, data->files[0].name,
      (long long)data->vocabulary, (long long)data->sequence,
      digest != data->vocabulary_digest ? "; their vocabularies differ" : "");
  data->sequence = sequence;
  data->vocabulary = vocabulary;
  data->mask = mask;
  data->vocabulary_digest = digest;
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpTokens(RengaData data, int file, RengaDataPart part, const char *path)
{
  RengaCheck(*path, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "data set %s has no dataset /training",
             data->files[file].name);
  for (int i = 0; i < data->n_fields; i++) RengaCall(OpenStream(data, i, file, part, path));
  return RENGA_SUCCESS;
}

static RengaErrorCode FindFormat(RengaDataFile *file, bool *tokens)
{
  char *format;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaHdf5GetText(file->file, "format", &format));
  *tokens = format != NULL && strcmp(format, "tokens") == 0;
  if (format != NULL && !*tokens)
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, __LINE__,
                           "data set %s has format %s; known are tokens and no attribute format",
                           file->name, format);
  RengaFree(&format);
  return code;
}

static RengaErrorCode SetUpOne(RengaData data, int file, int64_t counts[RENGA_DATA_PARTS])
{
  RengaDataFile *f = &data->files[file];
  bool tokens = false;
  RengaCall(RengaHdf5Open(f->name, &f->file));
  RengaCall(FindFormat(f, &tokens));
  RengaCheck(file == 0 || tokens == data->tokens, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s holds %s, %s %s: they are no one set", f->name,
             tokens ? "tokens" : "arrays", data->files[0].name, data->tokens ? "tokens" : "arrays");
  data->tokens = tokens;
  if (tokens) RengaCall(ReadTokenNumbers(data, file));
  if (tokens && file == 0) RengaCall(RengaDataAssignRoles_Private(data));
  for (int part = 0; part < RENGA_DATA_PARTS; part++) {
    const char *path = PathOf(data, f, (RengaDataPart)part);
    f->first[part] = counts[part];
    if (path == NULL) continue;
    if (tokens)
      RengaCall(SetUpTokens(data, file, (RengaDataPart)part, path));
    else
      RengaCall(SetUpArrays(data, file, (RengaDataPart)part, path));
    counts[part] += f->count[part];
  }
  return RENGA_SUCCESS;
}

/* Takes over the names. */
static RengaErrorCode AddFiles(RengaData data, const char *list, bool validates)
{
  int count;
  char **names;
  RengaCall(RengaDataFindFiles(list, &count, &names));
  const RengaErrorCode code = RengaRealloc(data->n_files + count, &data->files);
  for (int i = 0; i < count; i++)
    if (code)
      RengaFree(&names[i]);
    else
      data->files[data->n_files++] = (RengaDataFile){.name = names[i], .validates = validates};
  RengaFree(&names);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpFile(RengaData data, int64_t counts[RENGA_DATA_PARTS])
{
  RengaCall(AddFiles(data, data->source, false));
  if (data->validation_source) RengaCall(AddFiles(data, data->validation_source, true));
  for (int i = 0; i < data->n_fields; i++)
    for (int part = 0; part < RENGA_DATA_PARTS; part++)
      RengaCall(RengaMalloc(data->n_files, &data->fields[i].column[part]));
  for (int file = 0; file < data->n_files; file++) RengaCall(SetUpOne(data, file, counts));
  return RENGA_SUCCESS;
}

static void FormatColumn(const RengaDataField *f, bool tokens, size_t size, char text[])
{
  static const char *const roles[] = {"the first of each window", "the last of each window",
                                      "zeros", "ones"};
  const RengaDataColumn *column = &f->column[RENGA_DATA_TRAINING][0];
  char have[128];
  RengaTensorSpecFormat(RengaHdf5DatasetSpec(column->dataset), sizeof have, have);
  size_t used = (size_t)snprintf(text, size, "%s %s%s%s", RengaHdf5DatasetName(column->dataset),
                                 have, tokens ? ", " : "", tokens ? roles[f->role] : "");
  if (used < size && (column->scale != 1 || column->offset != 0))
    RengaTextFormat(text + used, size - used, " * %g + %g", column->scale, column->offset);
}

static RengaErrorCode ViewFile(RengaData data, RengaViewer viewer)
{
  if (data->vocabulary > 0)
    RengaCall(RengaViewerPrintf(viewer, "  tokens of %lld kinds\n", (long long)data->vocabulary));
  if (data->masking > 0)
    RengaCall(RengaViewerPrintf(viewer, "  %g of them are to be found again\n", data->masking));
  for (int i = 0; i < data->n_fields; i++) {
    const RengaDataField *f = &data->fields[i];
    char want[128], from[1024];
    RengaTensorSpecFormat(&f->spec, sizeof want, want);
    FormatColumn(f, data->tokens, sizeof from, from);
    RengaCall(RengaViewerPrintf(viewer, "  %s %s from %s\n", f->name, want, from));
  }
  for (int file = 1; file < data->n_files; file++)
    RengaCall(RengaViewerPrintf(viewer, "  and %s: %lld samples for %s\n", data->files[file].name,
                                (long long)data->files[file].count[data->files[file].validates],
                                data->files[file].validates ? "validation" : "training"));
  return RENGA_SUCCESS;
}

/* Some samples of a column, as they are stored. */
static RengaErrorCode HashColumn(const RengaDataField *f, const RengaDataColumn *column,
                                 int64_t count, uint64_t *digest)
{
  enum { SAMPLES = 16 };
  const RengaTensorSpec *spec = RengaHdf5DatasetSpec(column->dataset);
  RengaTensorSpec rows = *spec;
  char *buffer;
  rows.dim[0] = f->rows;
  const size_t bytes = RengaTensorSpecBytes(&rows);
  *digest = RengaHash(spec, sizeof *spec, *digest);
  RengaCall(RengaMalloc(bytes, &buffer));
  RengaErrorCode code = RENGA_SUCCESS;
  for (int64_t i = 0; i < SAMPLES && i < count && code == RENGA_SUCCESS; i++) {
    const int64_t sample = count <= SAMPLES ? i : i * (count - 1) / (SAMPLES - 1);
    code = RengaHdf5Read(column->dataset, sample, sample * f->rows, f->rows, buffer);
    *digest = RengaHash(buffer, bytes, *digest);
  }
  RengaFree(&buffer);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode DigestFile(RengaData data, uint64_t *digest)
{
  for (int file = 0; file < data->n_files; file++)
    for (int i = 0; i < data->n_fields; i++)
      for (int part = 0; part < RENGA_DATA_PARTS; part++) {
        const RengaDataField *f = &data->fields[i];
        const RengaDataColumn *column = &f->column[part][file];
        const int64_t count = data->files[file].count[part];
        *digest = RengaHash(&count, sizeof count, *digest);
        if (column->dataset && count > 0) RengaCall(HashColumn(f, column, count, digest));
      }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataCloseFile(RengaData data)
{
  for (int i = 0; i < data->n_fields; i++)
    for (int part = 0; part < RENGA_DATA_PARTS; part++) {
      RengaDataColumn **column = &data->fields[i].column[part];
      for (int file = 0; *column != NULL && file < data->n_files; file++)
        RengaCall(RengaHdf5DatasetClose(&(*column)[file].dataset));
      RengaFree(column);
    }
  for (int file = 0; file < data->n_files; file++) {
    RengaCall(RengaHdf5Close(&data->files[file].file));
    RengaFree(&data->files[file].name);
  }
  RengaFree(&data->files);
  data->n_files = 0;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataCreate_File(RengaData data)
{
  data->ops->setup = SetUpFile;
  data->ops->read = RengaDataReadFile_Private;
  data->ops->view = ViewFile;
  data->ops->digest = DigestFile;
  return RENGA_SUCCESS;
}
