/* Tensors of a file: their shapes are checked against the data that are there before anything is
   allocated. */
#include "onnx.h"
#include "renga/private/path.h"
#include <stdlib.h>
#include <string.h>

static const int64_t element_max = (int64_t)1 << 40;

/* TensorProto.DataType */
static const struct {
  int64_t onnx;
  RengaDataType type;
} types[] = {
    {1, RENGA_FLOAT32},   {2, RENGA_UINT8},    {3, RENGA_INT8},    {4, RENGA_UINT16},
    {5, RENGA_INT16},     {6, RENGA_INT32},    {7, RENGA_INT64},   {9, RENGA_BOOL},
    {10, RENGA_FLOAT16},  {11, RENGA_FLOAT64}, {12, RENGA_UINT32}, {13, RENGA_UINT64},
    {16, RENGA_BFLOAT16},
};

int RengaOnnxTypeFromFile(int64_t data_type)
{
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (types[i].onnx == data_type) return (int)types[i].type;
  return -1;
}

bool RengaOnnxCount(int n, const int64_t dim[], int64_t *count)
{
  int64_t product = 1;
  bool empty = false;
  for (int i = 0; i < n; i++) {
    if (dim[i] < 0 || dim[i] > element_max) return false;
    if (dim[i] == 0)
      empty = true;
    else if (product > element_max / dim[i])
      return false;
    else
      product *= dim[i];
  }
  *count = empty ? 0 : product;
  return true;
}

RengaErrorCode RengaOnnxTensorSpec(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   RengaTensorSpec *spec)
{
  const char *name = tensor->name ? tensor->name : "";
  int type = RengaOnnxTypeFromFile(tensor->data_type);
  RengaCheck(type >= 0, importer->comm, RENGA_ERR_SUPPORT,
             "%s: tensor \"%s\" has ONNX data type %d, which is not supported", importer->file,
             name, tensor->data_type);
  RengaCheck(tensor->n_dims <= RENGA_MAX_DIM, importer->comm, RENGA_ERR_SUPPORT,
             "%s: tensor \"%s\" has %zu dimensions; at most %d are supported", importer->file, name,
             tensor->n_dims, RENGA_MAX_DIM);
  RengaCheck(!tensor->segment, importer->comm, RENGA_ERR_SUPPORT,
             "%s: tensor \"%s\" is stored in segments, which is not supported", importer->file,
             name);
  RengaTensorSpec made = {.type = (RengaDataType)type, .ndim = (int)tensor->n_dims};
  for (int i = 0; i < made.ndim; i++) made.dim[i] = tensor->dims[i];
  int64_t count;
  RengaCheck(RengaOnnxCount(made.ndim, made.dim, &count), importer->comm, RENGA_ERR_FILE_FORMAT,
             "%s: tensor \"%s\" has a negative dimension or more than 2^40 elements",
             importer->file, name);
  *spec = made;
  return RENGA_SUCCESS;
}

static const char *ExternalEntry(const Onnx__TensorProto *tensor, const char *key)
{
  for (size_t i = 0; i < tensor->n_external_data; i++)
    if (tensor->external_data[i]->key && strcmp(tensor->external_data[i]->key, key) == 0)
      return tensor->external_data[i]->value;
  return NULL;
}

static RengaErrorCode ExternalNumber(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                     const char *key, int64_t otherwise, int64_t *number)
{
  const char *text = ExternalEntry(tensor, key);
  char *end = NULL;
  long long value = text ? strtoll(text, &end, 10) : otherwise;
  RengaCheck(!text || (end != text && *end == 0 && value >= 0), importer->comm,
             RENGA_ERR_FILE_FORMAT, "%s: tensor \"%s\": external data have %s \"%s\"",
             importer->file, tensor->name ? tensor->name : "", key, text ? text : "");
  *number = value;
  return RENGA_SUCCESS;
}

static RengaErrorCode ExternalFile(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   const char **file)
{
  const char *location = ExternalEntry(tensor, "location"), *slash = strrchr(importer->file, '/');
  *file = importer->file;
  if (!location || !*location) return RENGA_SUCCESS;
  char *folder, *path, what[160];
  RengaCall(RengaOnnxJoin(importer, importer->file, "", &folder));
  folder[slash ? slash - importer->file + 1 : 0] = 0;
  RengaCall(RengaOnnxJoin(importer, location[0] == '/' ? "" : folder, location, &path));
  *file = path;
  if (importer->inside && strcmp(importer->inside, path) == 0) return RENGA_SUCCESS;
  snprintf(what, sizeof what, "external data of tensor \"%.100s\"",
           tensor->name ? tensor->name : "");
  RengaCall(RengaPathCheckExternal(importer->file, path, what));
  importer->inside = path;
  return RENGA_SUCCESS;
}

typedef struct {
  const char *file;
  int64_t offset, bytes;
} DataPlace;

static RengaErrorCode FindPlace(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                DataPlace *place)
{
  RengaTensorSpec spec;
  RengaCall(RengaOnnxTensorSpec(importer, tensor, &spec));
  RengaCall(ExternalFile(importer, tensor, &place->file));
  int64_t wanted = (int64_t)RengaTensorSpecBytes(&spec);
  RengaCall(ExternalNumber(importer, tensor, "offset", 0, &place->offset));
  RengaCall(ExternalNumber(importer, tensor, "length", wanted, &place->bytes));
  RengaCheck(place->bytes == wanted, importer->comm, RENGA_ERR_FILE_FORMAT,
             "%s: tensor \"%s\" has %lld bytes of data, but its shape needs %lld", importer->file,
             tensor->name ? tensor->name : "", (long long)place->bytes, (long long)wanted);
  return RENGA_SUCCESS;
}

/* Asked once for many tensors: a file system may serve thousands of ranks. */
static RengaErrorCode SizeOf(RengaOnnxImporter *importer, const char *file, int64_t *size)
{
  if (!importer->sized_file || strcmp(importer->sized_file, file) != 0) {
    RengaCall(RengaOnnxFileSize(file, &importer->size));
    importer->sized_file = file;
  }
  *size = importer->size;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxTensorInit(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   RengaInit *init)
{
  DataPlace place;
  RengaTensorSpec spec;
  int64_t size = 0;
  const char *name = tensor->name ? tensor->name : "";
  RengaCall(RengaOnnxTensorSpec(importer, tensor, &spec));
  RengaCheck(tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL, importer->comm,
             RENGA_ERR_FILE_FORMAT, "%s: parameter \"%s\" has no data in consecutive numbers",
             importer->file, name);
  RengaCall(FindPlace(importer, tensor, &place));
  RengaCall(SizeOf(importer, place.file, &size));
  RengaCheck(place.bytes <= size && place.offset <= size - place.bytes, importer->comm,
             RENGA_ERR_FILE_FORMAT,
             "%s: tensor \"%s\": %lld bytes at offset %lld of %s are wanted, but it has %lld",
             importer->file, name, (long long)place.bytes, (long long)place.offset, place.file,
             (long long)size);
  *init = (RengaInit){
      .kind = RENGA_INIT_FILE, .offset = place.offset, .bytes = place.bytes, .type = spec.type};
  RengaCall(RengaOnnxJoin(importer, place.file, "", &init->file));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadExternal(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   void **data)
{
  DataPlace place;
  RengaOnnxFile file;
  RengaCall(FindPlace(importer, tensor, &place));
  RengaCall(RengaOnnxFileOpen(place.file, &file));
  unsigned char *bytes = NULL, none;
  RengaErrorCode code = RENGA_SUCCESS;
  /* allocate only what the file has */
  if (place.bytes <= file.size) code = RengaOnnxAllocate(importer, place.bytes, 1, &bytes);
  if (code == RENGA_SUCCESS)
    code = RengaOnnxFileRead(&file, place.offset, place.bytes, bytes ? bytes : &none);
  RengaOnnxFileClose(&file);
  RengaCall(code);
  *data = bytes;
  return RENGA_SUCCESS;
}

/* The typed field that holds the data of a type, as an array of source elements. */
typedef struct {
  const void *data;
  size_t count, size; /* elements, bytes of one */
} DataSource;

static DataSource FindSource(const Onnx__TensorProto *t, RengaDataType type)
{
  switch (type) {
  case RENGA_FLOAT32:
    return (DataSource){t->float_data, t->n_float_data, 4};
  case RENGA_FLOAT64:
    return (DataSource){t->double_data, t->n_double_data, 8};
  case RENGA_INT64:
    return (DataSource){t->int64_data, t->n_int64_data, 8};
  case RENGA_UINT32:
  case RENGA_UINT64:
    return (DataSource){t->uint64_data, t->n_uint64_data, 8};
  default:
    return (DataSource){t->int32_data, t->n_int32_data, 4};
  }
}

static RengaErrorCode CopyEmbedded(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   const RengaTensorSpec *spec, void **data)
{
  int64_t count = RengaTensorSpecCount(spec);
  size_t size = RengaDataTypeSize(spec->type);
  DataSource source = FindSource(tensor, spec->type);
  if (tensor->has_raw_data)
    source = (DataSource){tensor->raw_data.data, tensor->raw_data.len / size, size};
  bool exact = !tensor->has_raw_data || tensor->raw_data.len % size == 0;
  RengaCheck(exact && source.count == (size_t)count, importer->comm, RENGA_ERR_FILE_FORMAT,
             "%s: tensor \"%s\" has data for %zu elements, but its shape needs %lld",
             importer->file, tensor->name ? tensor->name : "", source.count, (long long)count);
  unsigned char *bytes;
  RengaCall(RengaOnnxAllocate(importer, count, size, &bytes));
  /* little-endian: the low bytes of each element come first */
  for (int64_t i = 0; i < count; i++)
    memcpy(bytes + (size_t)i * size, (const unsigned char *)source.data + (size_t)i * source.size,
           size);
  *data = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxTensorRead(RengaOnnxImporter *importer, const Onnx__TensorProto *tensor,
                                   RengaTensorSpec *spec, void **data)
{
  RengaCall(RengaOnnxTensorSpec(importer, tensor, spec));
  if (tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
    RengaCall(ReadExternal(importer, tensor, data));
  else
    RengaCall(CopyEmbedded(importer, tensor, spec, data));
  unsigned char *flag = *data;
  for (int64_t i = 0; flag && spec->type == RENGA_BOOL && i < RengaTensorSpecCount(spec); i++)
    flag[i] = flag[i] != 0;
  return RENGA_SUCCESS;
}
