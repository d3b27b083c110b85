/* Reading ONNX files in ways that only tests need, besides RengaGraphReadOnnx. */
#pragma once
#include "rengagraph.h"

typedef struct {
  const char *name;
  RengaTensorSpec spec;
  const void *data;
} RengaOnnxTensor;
typedef struct {
  bool keep_batch; /* all shapes as in the file, none of them open */
  bool evaluate;   /* floating initializers are constants; outputs are what matters, not training */
  int n_constants;
  const RengaOnnxTensor *constants; /* inputs of the file whose data are known while reading */
} RengaOnnxOptions;

RengaErrorCode RengaGraphReadOnnxWith(RengaGraph graph, const char *file,
                                      const RengaOnnxOptions *options);
/* A file that holds one TensorProto. RengaFree(name) and RengaFree(data). */
RengaErrorCode RengaOnnxReadTensorFile(const char *file, char **name, RengaTensorSpec *spec,
                                       void **data);
