/* Tensors that are known while reading: made, filled, turned into bytes and numbers. */
#include "onnx.h"
#include <string.h>

RengaErrorCode RengaOnnxHostCreate(RengaOnnxImporter *importer, RengaDataType type, int ndim,
                                   const int64_t dim[], RengaOnnxHost **host)
{
  RengaOnnxHost *made;
  RengaCall(RengaOnnxAllocate(importer, 1, sizeof *made, &made));
  made->spec = (RengaTensorSpec){.type = type, .ndim = ndim};
  for (int i = 0; i < ndim; i++) made->spec.dim[i] = dim[i];
  made->open = -1;
  made->count = RengaTensorSpecCount(&made->spec);
  RengaCall(RengaOnnxAllocate(importer, made->count, sizeof *made->number, &made->number));
  *host = made;
  return RENGA_SUCCESS;
}

/* X(type, C type, member): what a host tensor may hold. */
#define HOST_TYPES(X)                                                                              \
  X(RENGA_FLOAT32, float, real)                                                                    \
  X(RENGA_FLOAT64, double, real)                                                                   \
  X(RENGA_INT8, int8_t, whole)                                                                     \
  X(RENGA_UINT8, uint8_t, whole)                                                                   \
  X(RENGA_INT16, int16_t, whole)                                                                   \
  X(RENGA_UINT16, uint16_t, whole)                                                                 \
  X(RENGA_INT32, int32_t, whole)                                                                   \
  X(RENGA_UINT32, uint32_t, whole)                                                                 \
  X(RENGA_INT64, int64_t, whole) X(RENGA_UINT64, uint64_t, whole) X(RENGA_BOOL, uint8_t, whole)

bool RengaOnnxHostHasType(RengaDataType type)
{
#define IS_TYPE(row, c_type, member)                                                               \
  if (type == row) return true;
  HOST_TYPES(IS_TYPE)
#undef IS_TYPE
  return false;
}

RengaErrorCode RengaOnnxHostFromData(RengaOnnxImporter *importer, const RengaTensorSpec *spec,
                                     const void *data, RengaOnnxHost **host)
{
  RengaCall(RengaOnnxHostCreate(importer, spec->type, spec->ndim, spec->dim, host));
  RengaOnnxNumber *number = (*host)->number;
#define READ_TYPE(row, c_type, member)                                                             \
  for (int64_t i = 0; spec->type == row && i < (*host)->count; i++) {                              \
    c_type element;                                                                                \
    memcpy(&element, (const unsigned char *)data + (size_t)i * sizeof element, sizeof element);    \
    if (row == RENGA_FLOAT32 || row == RENGA_FLOAT64)                                              \
      number[i].real = (double)element;                                                            \
    else                                                                                           \
      number[i].whole = (int64_t)element;                                                          \
  }
  HOST_TYPES(READ_TYPE)
#undef READ_TYPE
  return RENGA_SUCCESS;
}

bool RengaOnnxHostIsBatchFree(const RengaOnnxHost *host)
{
  for (int64_t i = 0; i < host->count; i++)
    if (host->number[i].batch != 0 || host->number[i].sample != 0) return false;
  return host->open < 0;
}

/* The shape of a value that is made of it. */
void RengaOnnxHostSpec(const RengaOnnxHost *host, RengaTensorSpec *spec)
{
  *spec = host->spec;
  if (host->open >= 0) spec->dim[host->open] = -1;
}

RengaErrorCode RengaOnnxHostToData(const RengaOnnxNode *node, const RengaOnnxHost *host,
                                   void **data)
{
  RengaOnnxCheckApart(RengaOnnxHostIsBatchFree(host), node,
                      "a tensor that depends on the batch size is used as data");
  unsigned char *bytes;
  RengaCall(
      RengaOnnxAllocate(node->importer, (int64_t)RengaTensorSpecBytes(&host->spec), 1, &bytes));
#define WRITE_TYPE(row, c_type, member)                                                            \
  for (int64_t i = 0; host->spec.type == row && i < host->count; i++) {                            \
    c_type element = (c_type)host->number[i].member;                                               \
    memcpy(bytes + (size_t)i * sizeof element, &element, sizeof element);                          \
  }
  HOST_TYPES(WRITE_TYPE)
#undef WRITE_TYPE
  *data = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxHostToInts(const RengaOnnxNode *node, const RengaOnnxHost *host, int limit,
                                   int *count, int64_t ints[])
{
  RengaOnnxCheck(host->spec.type != RENGA_FLOAT32 && host->spec.type != RENGA_FLOAT64, node,
                 RENGA_ERR_FILE_FORMAT, "an input that must hold integers has type %s",
                 RengaDataTypeName(host->spec.type));
  RengaOnnxCheck(host->count <= limit, node, RENGA_ERR_FILE_FORMAT,
                 "an input has %lld numbers where at most %d are allowed", (long long)host->count,
                 limit);
  RengaOnnxCheckApart(RengaOnnxHostIsBatchFree(host), node,
                      "an input depends on the batch size in a way that is not supported");
  for (int64_t i = 0; i < host->count; i++) ints[i] = host->number[i].whole;
  *count = (int)host->count;
  return RENGA_SUCCESS;
}
