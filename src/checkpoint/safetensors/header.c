/* The header of one file. It may come from anywhere: each number is looked at before it is used,
   and what is wrong is said in one sentence. */
#include "safetensors.h"
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, MOST_HEADER = 100000000 }; /* the latter as of the format */

typedef struct {
  const char *path;
  RengaCheckpointTable *table;
  int shard, first; /* first: of the table's entries that is of this file */
  int64_t data;     /* where the tensors begin */
  int64_t bytes;    /* of all of them */
} HeaderReader;

#define CheckHeader(condition, reader, ...)                                                        \
  do {                                                                                             \
    char why_[400];                                                                                \
    if (!(condition)) snprintf(why_, sizeof why_, __VA_ARGS__);                                    \
    RengaCheck(condition, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s: %s", (reader)->path, why_);   \
  } while (0)

/* Types of the format, and in what they are kept; others are refused by name. */
static const struct {
  const char *name;
  RengaDataType stored;
} types[] = {
    {"F32", RENGA_FLOAT32}, {"F16", RENGA_FLOAT16}, {"BF16", RENGA_BFLOAT16},
    {"F64", RENGA_FLOAT64}, {"I64", RENGA_INT64},   {"I32", RENGA_INT32},
    {"I16", RENGA_INT16},   {"I8", RENGA_INT8},     {"U8", RENGA_UINT8},
    {"U16", RENGA_UINT16},  {"U32", RENGA_UINT32},  {"U64", RENGA_UINT64},
    {"BOOL", RENGA_BOOL},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

static RengaErrorCode ReadStoredType(const HeaderReader *reader, const char *name,
                                     json_object *value, RengaDataType *stored)
{
  const bool text = json_object_is_type(value, json_type_string);
  const char *type = text ? json_object_get_string(value) : "";
  for (int i = 0; i < N_TYPES; i++) {
    if (strcmp(types[i].name, type) != 0) continue;
    *stored = types[i].stored;
    return RENGA_SUCCESS;
  }
  CheckHeader(text, reader, "tensor \"%.100s\" has no dtype", name);
  CheckHeader(false, reader,
              "tensor \"%.100s\" is of type %.40s, which is not read; F32, F16 and BF16 are", name,
              type);
}

/* An integer from 0 on that fits into 63 bits. */
static bool IsCount(json_object *value, int64_t *number)
{
  *number = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
  return *number >= 0 && *number < INT64_MAX;
}

/* Bytes of the shape; an overflow is more than any file has. */
static RengaErrorCode ReadShape(const HeaderReader *reader, const char *name, json_object *value,
                                RengaTensorSpec *spec, int64_t *bytes)
{
  CheckHeader(json_object_is_type(value, json_type_array), reader, "tensor \"%.100s\" has no shape",
              name);
  const size_t ndim = json_object_array_length(value);
  CheckHeader(ndim <= RENGA_MAX_DIM, reader, "tensor \"%.100s\" has %zu dimensions, of at most %d",
              name, ndim, RENGA_MAX_DIM);
  spec->ndim = (int)ndim;
  int64_t most = (int64_t)RengaDataTypeSize(RENGA_FLOAT32) * 2; /* no sum on the way may be more */
  *bytes = (int64_t)RengaDataTypeSize(spec->type);
  for (int d = 0; d < spec->ndim; d++) {
    const bool whole = IsCount(json_object_array_get_idx(value, (size_t)d), &spec->dim[d]);
    CheckHeader(whole, reader, "tensor \"%.100s\": its shape %.80s is not of numbers from 0 on",
                name, json_object_to_json_string(value));
    const int64_t factor = spec->dim[d] > 0 ? spec->dim[d] : 1;
    CheckHeader(most <= INT64_MAX / factor, reader,
                "tensor \"%.100s\": its shape %.80s has more elements than can be counted", name,
                json_object_to_json_string(value));
    most *= factor;
    *bytes *= spec->dim[d];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadPlace(const HeaderReader *reader, const char *name, json_object *value,
                                int64_t bytes, int64_t *begin)
{
  int64_t end = 0;
  const bool pair = json_object_is_type(value, json_type_array) &&
                    json_object_array_length(value) == 2 &&
                    IsCount(json_object_array_get_idx(value, 0), begin) &&
                    IsCount(json_object_array_get_idx(value, 1), &end) && *begin <= end;
  CheckHeader(pair, reader, "tensor \"%.100s\": data_offsets is %.80s, must be begin and end", name,
              value ? json_object_to_json_string(value) : "missing");
  CheckHeader(end <= reader->bytes, reader,
              "tensor \"%.100s\" ends at byte %lld of the data, which has %lld: is the file "
              "truncated?",
              name, (long long)end, (long long)reader->bytes);
  CheckHeader(end - *begin == bytes, reader,
              "tensor \"%.100s\" has %lld bytes, its type and shape need %lld", name,
              (long long)(end - *begin), (long long)bytes);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadHeaderTensor(HeaderReader *reader, const char *name, json_object *value)
{
  RengaDataType stored = RENGA_FLOAT32;
  json_object *dtype = NULL, *shape = NULL, *place = NULL;
  int64_t bytes, begin = 0;
  CheckHeader(json_object_is_type(value, json_type_object), reader,
              "tensor \"%.100s\" is no object with dtype, shape and data_offsets", name);
  json_object_object_get_ex(value, "dtype", &dtype);
  json_object_object_get_ex(value, "shape", &shape);
  json_object_object_get_ex(value, "data_offsets", &place);
  RengaCall(ReadStoredType(reader, name, dtype, &stored));
  RengaTensorSpec spec = {.type = stored};
  RengaCall(ReadShape(reader, name, shape, &spec, &bytes));
  RengaCall(ReadPlace(reader, name, place, bytes, &begin));
  if (stored == RENGA_FLOAT16 || stored == RENGA_BFLOAT16) spec.type = RENGA_FLOAT32;
  RengaCall(RengaCheckpointTableAdd(reader->table, name, &spec, false));
  RengaCheckpointEntry *entry = &reader->table->entries[reader->table->n_entries - 1];
  entry->stored = stored;
  entry->shard = reader->shard;
  entry->offset = reader->data + begin;
  entry->bytes = bytes;
  return RENGA_SUCCESS;
}

static int CompareDataPlaces(const void *a, const void *b)
{
  const RengaCheckpointEntry *one = a, *other = b;
  if (one->offset != other->offset) return one->offset < other->offset ? -1 : 1;
  return one->bytes < other->bytes ? -1 : one->bytes > other->bytes;
}

/* Each byte of the data is of one tensor. */
static RengaErrorCode CheckPlaces(const HeaderReader *reader)
{
  const int count = reader->table->n_entries - reader->first;
  RengaCheckpointEntry *entry = reader->table->entries + reader->first;
  int64_t at = reader->data;
  if (count > 0) qsort(entry, (size_t)count, sizeof *entry, CompareDataPlaces);
  for (int i = 0; i < count; i++) {
    CheckHeader(entry[i].offset >= at, reader,
                "tensors \"%.100s\" and \"%.100s\" overlap at byte %lld of the data",
                entry[i > 0 ? i - 1 : 0].name, entry[i].name,
                (long long)(entry[i].offset - reader->data));
    CheckHeader(entry[i].offset == at, reader, "bytes %lld to %lld of the data are of no tensor",
                (long long)(at - reader->data), (long long)(entry[i].offset - reader->data));
    at += entry[i].bytes;
  }
  CheckHeader(at - reader->data == reader->bytes, reader,
              "the data has %lld bytes, its tensors have %lld: is the file truncated?",
              (long long)reader->bytes, (long long)(at - reader->data));
  return RENGA_SUCCESS;
}

/* Members of objects, however deep. */
static int64_t CountMembers(json_object *value)
{
  int64_t count = 0;
  if (json_object_is_type(value, json_type_object)) {
    json_object_object_foreach(value, name, member)
    {
      (void)name;
      count += 1 + CountMembers(member);
    }
  }
  if (json_object_is_type(value, json_type_array))
    for (size_t i = 0; i < json_object_array_length(value); i++)
      count += CountMembers(json_object_array_get_idx(value, i));
  return count;
}

/* Of JSON that is whole: as many as members were written, of which the reader keeps the last of
   each name. */
static int64_t CountColons(const char *text, int64_t length)
{
  bool inside = false;
  int64_t count = 0;
  for (int64_t i = 0; i < length; i++) {
    if (inside && text[i] == '\\')
      i++;
    else if (text[i] == '"')
      inside = !inside;
    else if (!inside && text[i] == ':')
      count++;
  }
  return count;
}

static RengaErrorCode ReadHeaderRoot(HeaderReader *reader, json_object *root, const char *text,
                                     int64_t length)
{
  CheckHeader(json_object_is_type(root, json_type_object), reader,
              "its header is no JSON object: is it a safetensors file?");
  CheckHeader(CountColons(text, length) == CountMembers(root), reader,
              "its header names a tensor, or what belongs to one, twice");
  json_object_object_foreach(root, name, value)
  {
    if (strcmp(name, "__metadata__") != 0) RengaCall(ReadHeaderTensor(reader, name, value));
  }
  RengaCall(CheckPlaces(reader));
  return RENGA_SUCCESS;
}

/* NULL: it is not JSON, or something follows. */
static json_object *ParseHeader(const char *text, int64_t length)
{
  json_tokener *tokener = json_tokener_new();
  if (!tokener) return NULL;
  json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
  json_object *root = json_tokener_parse_ex(tokener, text, (int)length);
  int64_t end = (int64_t)json_tokener_get_parse_end(tokener);
  const bool whole = json_tokener_get_error(tokener) == json_tokener_success;
  json_tokener_free(tokener);
  while (end < length && text[end] == ' ') end++;
  if (whole && end == length) return root;
  json_object_put(root);
  return NULL;
}

static RengaErrorCode ReadMapped(HeaderReader *reader, const RengaMappedFile *file)
{
  uint64_t length = 0;
  CheckHeader(file->size >= LENGTH_BYTES, reader,
              "the file has %lld bytes, a safetensors file begins with 8 that say how long its "
              "header is",
              (long long)file->size);
  for (int i = LENGTH_BYTES; i-- > 0;) length = length << 8 | file->bytes[i];
  CheckHeader(length <= MOST_HEADER, reader,
              "its header is said to have %llu bytes, of at most %d: is it a safetensors file?",
              (unsigned long long)length, MOST_HEADER);
  CheckHeader((int64_t)length <= file->size - LENGTH_BYTES, reader,
              "its header is said to have %llu bytes, the file has %lld: is it truncated?",
              (unsigned long long)length, (long long)file->size);
  const char *text = (const char *)file->bytes + LENGTH_BYTES;
  reader->data = LENGTH_BYTES + (int64_t)length;
  reader->bytes = file->size - reader->data;
  json_object *root = length > 0 && text[0] == '{' ? ParseHeader(text, (int64_t)length) : NULL;
  const RengaErrorCode code = ReadHeaderRoot(reader, root, text, (int64_t)length);
  json_object_put(root);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSafetensorsReadHeader(const char *folder, const char *file, int shard,
                                          RengaCheckpointTable *table)
{
  char *path = NULL;
  RengaMappedFile mapped = {.bytes = NULL};
  const size_t room = strlen(folder) + strlen(file) + 2;
  RengaCall(RengaMalloc(room, &path));
  snprintf(path, room, "%s/%s", folder, file);
  HeaderReader reader = {.path = path, .table = table, .shard = shard, .first = table->n_entries};
  RengaErrorCode code = RengaMapFile(path, &mapped);
  if (!code) code = ReadMapped(&reader, &mapped);
  RengaUnmapFile(&mapped);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}
