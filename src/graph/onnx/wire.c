/* One walk over the protocol-buffer wire format of a model (protobuf.dev, "Encoding"): what is
   nested is checked against the bounds of what holds it, and data of tensors are left out.
   The decoder of protobuf-c recurses without a bound and copies raw data; after this walk it meets
   a message of bounded depth without them. */
#include "wire.h"
#include <string.h>

/* Messages that hold messages; the others are copied as they are. */
typedef enum {
  OPAQUE,
  MODEL,
  GRAPH,
  NODE,
  ATTRIBUTE,
  TENSOR,
  SPARSE,
  VALUE_INFO,
  TYPE,
  SEQUENCE,
  MAP,
  FUNCTION,
  TRAINING,
} WireMessage;
typedef struct {
  WireMessage message;
  uint64_t field;
  WireMessage nested;
} Nesting;
static const Nesting nestings[] = {
    {MODEL, 7, GRAPH},          {MODEL, 20, TRAINING},
    {MODEL, 25, FUNCTION},      {TRAINING, 1, GRAPH},
    {TRAINING, 2, GRAPH},       {GRAPH, 1, NODE},
    {GRAPH, 5, TENSOR},         {GRAPH, 15, SPARSE},
    {GRAPH, 11, VALUE_INFO},    {GRAPH, 12, VALUE_INFO},
    {GRAPH, 13, VALUE_INFO},    {NODE, 5, ATTRIBUTE},
    {ATTRIBUTE, 5, TENSOR},     {ATTRIBUTE, 6, GRAPH},
    {ATTRIBUTE, 10, TENSOR},    {ATTRIBUTE, 11, GRAPH},
    {ATTRIBUTE, 14, TYPE},      {ATTRIBUTE, 15, TYPE},
    {ATTRIBUTE, 22, SPARSE},    {ATTRIBUTE, 23, SPARSE},
    {SPARSE, 1, TENSOR},        {SPARSE, 2, TENSOR},
    {VALUE_INFO, 2, TYPE},      {TYPE, 4, SEQUENCE},
    {TYPE, 9, SEQUENCE},        {TYPE, 5, MAP},
    {SEQUENCE, 1, TYPE},        {MAP, 2, TYPE},
    {FUNCTION, 7, NODE},        {FUNCTION, 11, ATTRIBUTE},
    {FUNCTION, 12, VALUE_INFO},
};
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { DEPTH_MAX = 32, LARGE_BYTES = 1 << 16, LENGTH_BYTES = 5 };
static const int64_t copy_max = (int64_t)1 << 30;

typedef struct {
  RengaOnnxFile *file;
  unsigned char *bytes;
  int64_t count, capacity;
} WireCopy;

/* A field: its key and contents are bytes [begin, end) of the file, its contents [data, end). */
typedef struct {
  uint64_t number;
  int wire;
  int64_t begin, data, end;
  uint64_t value; /* of a varint */
} WireField;

static RengaErrorCode ReadVarint(RengaOnnxFile *file, int64_t end, int64_t *at, uint64_t *value)
{
  uint64_t sum = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    unsigned char byte;
    RengaCheck(*at < end, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s is not an ONNX model: byte %lld: a number runs over the end of its message",
               file->name, (long long)*at);
    RengaCall(RengaOnnxFileRead(file, (*at)++, 1, &byte));
    if (shift < 64) sum |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *value = sum;
      return RENGA_SUCCESS;
    }
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s is not an ONNX model: byte %lld: a number is longer than 10 bytes", file->name,
             (long long)*at);
}

static RengaErrorCode ReadWireField(RengaOnnxFile *file, int64_t at, int64_t end, WireField *field)
{
  uint64_t key, length = 0;
  *field = (WireField){.begin = at};
  RengaCall(ReadVarint(file, end, &at, &key));
  field->number = key >> 3;
  field->wire = (int)(key & 7);
  field->data = at;
  switch (field->wire) {
  case WIRE_VARINT:
    RengaCall(ReadVarint(file, end, &at, &field->value));
    break;
  case WIRE_64:
    length = 8;
    break;
  case WIRE_32:
    length = 4;
    break;
  case WIRE_BYTES:
    RengaCall(ReadVarint(file, end, &at, &length));
    field->data = at;
    break;
  default:
    RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s is not an ONNX model: byte %lld: wire type %d", file->name,
               (long long)field->begin, field->wire);
  }
  RengaCheck(field->number > 0 && field->number < (1 << 29), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s is not an ONNX model: byte %lld: field number %llu", file->name,
             (long long)field->begin, (unsigned long long)field->number);
  RengaCheck(length <= (uint64_t)(end - at), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: byte %lld: %llu bytes are announced, but %lld are left: is the file truncated?",
             file->name, (long long)field->begin, (unsigned long long)length,
             (long long)(end - at));
  field->end = at + (int64_t)length;
  return RENGA_SUCCESS;
}

static RengaErrorCode Reserve(WireCopy *copy, int64_t count)
{
  int64_t wanted = copy->count + count;
  RengaCheck(wanted <= copy_max, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: more than 1 GiB beside the data of its tensors", copy->file->name);
  if (wanted <= copy->capacity) return RENGA_SUCCESS;
  int64_t capacity = wanted + wanted / 2 + 4096;
  RengaCall(RengaRealloc(capacity, &copy->bytes));
  copy->capacity = capacity;
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyBytes(WireCopy *copy, int64_t begin, int64_t end)
{
  RengaCall(Reserve(copy, end - begin));
  RengaCall(RengaOnnxFileRead(copy->file, begin, end - begin, copy->bytes + copy->count));
  copy->count += end - begin;
  return RENGA_SUCCESS;
}

/* A varint of fixed width, so that a length may be written after what it measures. */
static void WriteLength(unsigned char to[LENGTH_BYTES], int64_t length)
{
  for (int i = 0; i < LENGTH_BYTES; i++)
    to[i] = (unsigned char)(((length >> (7 * i)) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}

/* external_data (field 13) entry: key and value. */
static RengaErrorCode WriteEntry(WireCopy *copy, const char *key, int64_t number)
{
  char value[24];
  int value_size = snprintf(value, sizeof value, "%lld", (long long)number);
  int key_size = (int)strlen(key), size = 4 + key_size + value_size;
  RengaCall(Reserve(copy, size + 2));
  unsigned char *to = copy->bytes + copy->count;
  const unsigned char head[] = {(13 << 3) | WIRE_BYTES, (unsigned char)size, (1 << 3) | WIRE_BYTES,
                                (unsigned char)key_size};
  memcpy(to, head, sizeof head);
  memcpy(to + 4, key, (size_t)key_size);
  to[4 + key_size] = (2 << 3) | WIRE_BYTES;
  to[5 + key_size] = (unsigned char)value_size;
  memcpy(to + 6 + key_size, value, (size_t)value_size);
  copy->count += size + 2;
  return RENGA_SUCCESS;
}

/* The one field of a tensor that holds its data as consecutive little-endian numbers: raw_data, or
   float_data or double_data, packed. */
static RengaErrorCode FindData(RengaOnnxFile *file, int64_t begin, int64_t end, WireField *data)
{
  enum { DIMS = 1, DATA_TYPE = 2, FLOAT_DATA = 4, RAW_DATA = 9, DOUBLE_DATA = 10, LOCATION = 14 };
  uint64_t type = 0;
  bool scalar = true;
  int found = 0;
  *data = (WireField){0};
  for (int64_t at = begin; at < end;) {
    WireField field;
    RengaCall(ReadWireField(file, at, end, &field));
    at = field.end;
    if (field.number == DATA_TYPE) type = field.value;
    if (field.number == DIMS) scalar = false;
    if (field.number == LOCATION && field.value != 0) found = 2;
    if (field.number != FLOAT_DATA && field.number != RAW_DATA && field.number != DOUBLE_DATA)
      continue;
    found += field.wire == WIRE_BYTES ? 1 : 2;
    *data = field;
  }
  bool floating = type == 1 || type == 10 || type == 11 || type == 16;
  bool wanted = (floating && !scalar) || data->end - data->data > LARGE_BYTES;
  if (found != 1 || !wanted) *data = (WireField){0};
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyTensor(WireCopy *copy, int64_t begin, int64_t end)
{
  WireField data;
  RengaCall(FindData(copy->file, begin, end, &data));
  if (data.number == 0) {
    RengaCall(CopyBytes(copy, begin, end));
    return RENGA_SUCCESS;
  }
  RengaCall(CopyBytes(copy, begin, data.begin));
  RengaCall(CopyBytes(copy, data.end, end));
  RengaCall(WriteEntry(copy, "offset", data.data));
  RengaCall(WriteEntry(copy, "length", data.end - data.data));
  static const unsigned char external[] = {(14 << 3) | WIRE_VARINT, 1};
  RengaCall(Reserve(copy, sizeof external));
  memcpy(copy->bytes + copy->count, external, sizeof external);
  copy->count += (int64_t)sizeof external;
  return RENGA_SUCCESS;
}

static WireMessage NestedIn(WireMessage message, uint64_t field)
{
  for (size_t i = 0; i < sizeof nestings / sizeof nestings[0]; i++)
    if (nestings[i].message == message && nestings[i].field == field) return nestings[i].nested;
  return OPAQUE;
}

static bool IsProperty(WireMessage message, uint64_t field)
{
  return (message == GRAPH && field == 16) || (message == NODE && field == 9) ||
         (message == VALUE_INFO && field == 4);
}

static RengaErrorCode CopyProperty(WireCopy *copy, const WireField *field)
{
  const int64_t key = RENGA_ONNX_PROPERTY << 3 | WIRE_BYTES;
  RengaCall(Reserve(copy, 2 + LENGTH_BYTES));
  copy->bytes[copy->count++] = (unsigned char)((key & 0x7f) | 0x80);
  copy->bytes[copy->count++] = (unsigned char)(key >> 7);
  WriteLength(copy->bytes + copy->count, field->end - field->data);
  copy->count += LENGTH_BYTES;
  RengaCall(CopyBytes(copy, field->data, field->end));
  return RENGA_SUCCESS;
}

static RengaErrorCode CopyMessage(WireCopy *copy, WireMessage message, int depth, int64_t begin,
                                  int64_t end)
{
  RengaCheck(depth < DEPTH_MAX, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: byte %lld: more than %d messages inside each other", copy->file->name,
             (long long)begin, DEPTH_MAX);
  for (int64_t at = begin; at < end;) {
    WireField field;
    RengaCall(ReadWireField(copy->file, at, end, &field));
    at = field.end;
    WireMessage nested = field.wire == WIRE_BYTES ? NestedIn(message, field.number) : OPAQUE;
    if (nested == OPAQUE) {
      const bool property = field.wire == WIRE_BYTES && IsProperty(message, field.number);
      if (property)
        RengaCall(CopyProperty(copy, &field));
      else
        RengaCall(CopyBytes(copy, field.begin, field.end));
      continue;
    }
    /* fields that nest have numbers of one or two key bytes */
    RengaCall(Reserve(copy, 2 + LENGTH_BYTES));
    uint64_t key = field.number << 3 | WIRE_BYTES;
    if (key > 0x7f) copy->bytes[copy->count++] = (unsigned char)((key & 0x7f) | 0x80);
    copy->bytes[copy->count++] = (unsigned char)(key > 0x7f ? key >> 7 : key);
    int64_t length_at = copy->count;
    copy->count += LENGTH_BYTES;
    if (nested == TENSOR)
      RengaCall(CopyTensor(copy, field.data, field.end));
    else
      RengaCall(CopyMessage(copy, nested, depth + 1, field.data, field.end));
    WriteLength(copy->bytes + length_at, copy->count - length_at - LENGTH_BYTES);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxStrip(RengaOnnxFile *file, size_t *count, unsigned char **bytes)
{
  WireCopy copy = {.file = file};
  RengaErrorCode code = CopyMessage(&copy, MODEL, 0, 0, file->size);
  if (code != RENGA_SUCCESS) RengaFree(&copy.bytes);
  RengaCall(code);
  *count = (size_t)copy.count;
  *bytes = copy.bytes;
  return RENGA_SUCCESS;
}
