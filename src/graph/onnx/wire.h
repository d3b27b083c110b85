/* The wire format of a model: everything but the data of its tensors, which stay in the file. */
#pragma once
#include "rengasys.h"

/* A file read through a window, so that its size does not matter. */
typedef struct {
  const char *name;
  int descriptor;
  int64_t size, first, count; /* the window holds bytes [first, first + count) */
  unsigned char *window;
} RengaOnnxFile;

RengaErrorCode RengaOnnxFileOpen(const char *name, RengaOnnxFile *file);
RengaErrorCode RengaOnnxFileSize(const char *name, int64_t *size);
void RengaOnnxFileClose(RengaOnnxFile *file);
RengaErrorCode RengaOnnxFileRead(RengaOnnxFile *file, int64_t offset, int64_t count, void *bytes);

/* Properties of graphs, nodes and values came with IR version 10: what an older definition of the
   format does not know. The copy has them under this number, which no definition knows, so that
   all decoders keep them as unknown fields. */
enum { RENGA_ONNX_PROPERTY = 1000 };

/* A copy of the model message in which the data of tensors are replaced by external_data entries
   without a location: (offset, length) in the same file. RengaFree(bytes). */
RengaErrorCode RengaOnnxStrip(RengaOnnxFile *file, size_t *count, unsigned char **bytes);
