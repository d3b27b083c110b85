/* Writes small ONNX files, right ones and wrong ones, without any library. */
#pragma once
#include "rengaop.h"

/* A protocol-buffer message in the making; what does not fit is an error of WriteMessage. */
typedef struct {
  size_t count;
  unsigned char bytes[1 << 15];
} Message;
Message *MessageNew(void); /* MessageFree */
void MessageFree(Message *message);
void PutNumber(Message *message, int field, int64_t value);
void PutBytes(Message *message, int field, const void *bytes, size_t count);
void PutFloat(Message *message, int field, float value);
void PutText(Message *message, int field, const char *text);
void PutMessage(Message *message, int field, Message *nested); /* frees nested */

/* Parts of a graph. Names are separated by blanks; "-" is an absent one. */
void AddInput(Message *graph, const char *name, int onnx_type, int ndim, const int64_t dim[],
              const char *batch); /* batch: name of dimension 0, or NULL */
void AddOutput(Message *graph, const char *name);
void AddInitializer(Message *graph, const char *name, int onnx_type, int ndim, const int64_t dim[],
                    const void *data, size_t bytes);
Message *NewNode(const char *op, const char *inputs, const char *outputs);
void AddInts(Message *node, const char *name, int count, const int64_t ints[]); /* attribute */
void AddInt(Message *node, const char *name, int64_t value);
void AddTensor(Message *node, const char *name, int onnx_type, int ndim, const int64_t dim[],
               const void *data, size_t bytes);
void AddGraph(Message *node, const char *name, Message *graph); /* frees graph */
void AddNode(Message *graph, Message *node);                    /* frees node */
void AddOperator(Message *graph, const char *op, const char *inputs, const char *outputs);
/* An entry of metadata_props, whose field in the message it is. */
void AddProperty(Message *message, int field, const char *key, const char *value);
/* A model of the graph, which is freed. */
Message *NewModel(Message *graph, int64_t opset);
RengaErrorCode WriteMessage(const Message *model, const char *file);
RengaErrorCode WriteBytes(const void *bytes, size_t count, const char *file);

/* Whole networks that are right: a perceptron with a loss, a convolution with BatchNormalization,
   attention-like shape arithmetic with a fixed batch of 4, and a function with an If. */
enum { N_MODELS = 4 };
Message *NewNetwork(int number);
