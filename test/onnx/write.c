/* ONNX files by hand: protobuf.dev/programming-guides/encoding and onnx.proto. */
#include "write.h"
#include <stdlib.h>
#include <string.h>

Message *MessageNew(void)
{
  return calloc(1, sizeof(Message));
}

void MessageFree(Message *message)
{
  free(message);
}

static void PutByte(Message *message, unsigned byte)
{
  if (message->count < sizeof message->bytes) message->bytes[message->count] = (unsigned char)byte;
  message->count++;
}

static void PutVarint(Message *message, uint64_t value)
{
  for (; value > 0x7f; value >>= 7) PutByte(message, (unsigned)(value & 0x7f) | 0x80);
  PutByte(message, (unsigned)value);
}

void PutNumber(Message *message, int field, int64_t value)
{
  PutVarint(message, (uint64_t)field << 3);
  PutVarint(message, (uint64_t)value);
}

void PutBytes(Message *message, int field, const void *bytes, size_t count)
{
  PutVarint(message, (uint64_t)field << 3 | 2);
  PutVarint(message, count);
  for (size_t i = 0; i < count; i++) PutByte(message, ((const unsigned char *)bytes)[i]);
}

void PutFloat(Message *message, int field, float value)
{
  unsigned char bytes[sizeof value];
  memcpy(bytes, &value, sizeof value);
  PutVarint(message, (uint64_t)field << 3 | 5);
  for (size_t i = 0; i < sizeof bytes; i++) PutByte(message, bytes[i]);
}

void PutText(Message *message, int field, const char *text)
{
  PutBytes(message, field, text, strlen(text));
}

void PutMessage(Message *message, int field, Message *nested)
{
  PutBytes(message, field, nested->bytes, nested->count);
  MessageFree(nested);
}

/* Fields of onnx.proto. */
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { FLOAT = 1, INT64 = 7, BOOL = 9 };

void AddInput(Message *graph, const char *name, int onnx_type, int ndim, const int64_t dim[],
              const char *batch)
{
  Message *shape = MessageNew(), *tensor = MessageNew(), *type = MessageNew(), *info = MessageNew();
  for (int d = 0; d < ndim; d++) {
    Message *dimension = MessageNew();
    if (d == 0 && batch)
      PutText(dimension, 2, batch);
    else
      PutNumber(dimension, 1, dim[d]);
    PutMessage(shape, 1, dimension);
  }
  PutNumber(tensor, 1, onnx_type);
  PutMessage(tensor, 2, shape);
  PutMessage(type, 1, tensor);
  PutText(info, 1, name);
  PutMessage(info, 2, type);
  PutMessage(graph, GRAPH_INPUT, info);
}

void AddOutput(Message *graph, const char *name)
{
  Message *info = MessageNew();
  PutText(info, 1, name);
  PutMessage(graph, GRAPH_OUTPUT, info);
}

static Message *NewTensor(const char *name, int onnx_type, int ndim, const int64_t dim[],
                          const void *data, size_t bytes)
{
  Message *tensor = MessageNew();
  for (int d = 0; d < ndim; d++) PutNumber(tensor, TENSOR_DIMS, dim[d]);
  PutNumber(tensor, TENSOR_TYPE, onnx_type);
  PutText(tensor, TENSOR_NAME, name);
  PutBytes(tensor, TENSOR_RAW, data, bytes);
  return tensor;
}

void AddInitializer(Message *graph, const char *name, int onnx_type, int ndim, const int64_t dim[],
                    const void *data, size_t bytes)
{
  PutMessage(graph, GRAPH_INITIALIZER, NewTensor(name, onnx_type, ndim, dim, data, bytes));
}

static void PutWords(Message *message, int field, const char *words)
{
  char word[64];
  for (const char *at = words; *at;) {
    size_t length = strcspn(at, " ");
    snprintf(word, sizeof word, "%.*s", (int)length, at);
    PutText(message, field, strcmp(word, "-") == 0 ? "" : word);
    at += length + strspn(at + length, " ");
  }
}

Message *NewNode(const char *op, const char *inputs, const char *outputs)
{
  Message *node = MessageNew();
  PutWords(node, NODE_INPUT, inputs);
  PutWords(node, NODE_OUTPUT, outputs);
  PutText(node, NODE_OP, op);
  return node;
}

static Message *NewAttribute(const char *name, int type)
{
  Message *attribute = MessageNew();
  PutText(attribute, 1, name);
  PutNumber(attribute, 20, type);
  return attribute;
}

void AddInts(Message *node, const char *name, int count, const int64_t ints[])
{
  Message *attribute = NewAttribute(name, 7);
  for (int i = 0; i < count; i++) PutNumber(attribute, 8, ints[i]);
  PutMessage(node, NODE_ATTRIBUTE, attribute);
}

void AddInt(Message *node, const char *name, int64_t value)
{
  Message *attribute = NewAttribute(name, 2);
  PutNumber(attribute, 3, value);
  PutMessage(node, NODE_ATTRIBUTE, attribute);
}

void AddTensor(Message *node, const char *name, int onnx_type, int ndim, const int64_t dim[],
               const void *data, size_t bytes)
{
  Message *attribute = NewAttribute(name, 4);
  PutMessage(attribute, 5, NewTensor("", onnx_type, ndim, dim, data, bytes));
  PutMessage(node, NODE_ATTRIBUTE, attribute);
}

void AddGraph(Message *node, const char *name, Message *graph)
{
  Message *attribute = NewAttribute(name, 5);
  PutMessage(attribute, 6, graph);
  PutMessage(node, NODE_ATTRIBUTE, attribute);
}

void AddNode(Message *graph, Message *node)
{
  PutMessage(graph, GRAPH_NODE, node);
}

void AddOperator(Message *graph, const char *op, const char *inputs, const char *outputs)
{
  AddNode(graph, NewNode(op, inputs, outputs));
}

void AddProperty(Message *message, int field, const char *key, const char *value)
{
  Message *property = MessageNew();
  PutText(property, 1, key);
  PutText(property, 2, value);
  PutMessage(message, field, property);
}

Message *NewModel(Message *graph, int64_t opset)
{
  Message *model = MessageNew(), *import = MessageNew();
  PutNumber(model, 1, 8);
  PutText(import, 1, "");
  PutNumber(import, 2, opset);
  PutMessage(model, 8, import);
  PutMessage(model, 7, graph);
  return model;
}

RengaErrorCode WriteBytes(const void *bytes, size_t count, const char *name)
{
  FILE *file = fopen(name, "wb");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s", name);
  bool written = fwrite(bytes, 1, count, file) == count;
  RengaCheck(fclose(file) == 0 && written, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s", name);
  return RENGA_SUCCESS;
}

RengaErrorCode WriteMessage(const Message *model, const char *name)
{
  RengaCheck(model->count <= sizeof model->bytes, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s is too large for this writer", name);
  RengaCall(WriteBytes(model->bytes, model->count, name));
  return RENGA_SUCCESS;
}

static const float weights[256] = {0.5f, -0.25f, 0.125f, 1, -1};
static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};

static void AddWeight(Message *graph, const char *name, int ndim, const int64_t dim[])
{
  size_t count = 1;
  for (int d = 0; d < ndim; d++) count *= (size_t)dim[d];
  AddInitializer(graph, name, FLOAT, ndim, dim, weights, count * sizeof(float));
}

static void AddShape(Message *graph, const char *name, int count, const int64_t numbers[])
{
  int64_t dim[] = {count};
  AddInitializer(graph, name, INT64, 1, dim, numbers, (size_t)count * sizeof *numbers);
}

/* x [N,6] -> Gemm, Relu, Gemm -> cross-entropy of 3 classes */
static Message *NewPerceptron(void)
{
  Message *graph = MessageNew();
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){4, 6}, "batch");
  AddInput(graph, "labels", INT64, 1, (int64_t[]){4}, "batch");
  AddWeight(graph, "w", 2, (int64_t[]){6, 5});
  AddWeight(graph, "b", 1, (int64_t[]){5});
  AddWeight(graph, "v", 2, (int64_t[]){3, 5});
  AddOperator(graph, "Gemm", "x w b", "h");
  AddOperator(graph, "Relu", "h", "r");
  Message *gemm = NewNode("Gemm", "r v", "s");
  AddInt(gemm, "transB", 1);
  AddNode(graph, gemm);
  AddOperator(graph, "SoftmaxCrossEntropyLoss", "s labels", "loss");
  AddOutput(graph, "loss");
  return NewModel(graph, 13);
}

static Message *NewConvolution(void)
{
  Message *graph = MessageNew();
  AddInput(graph, "image", FLOAT, 4, (int64_t[]){4, 2, 5, 5}, NULL);
  AddWeight(graph, "w", 4, (int64_t[]){3, 2, 3, 3});
  const char *const statistics[] = {"scale", "bias", "mean", "variance"};
  for (int i = 0; i < 4; i++)
    AddInitializer(graph, statistics[i], FLOAT, 1, (int64_t[]){3}, ones, 3 * sizeof(float));
  Message *conv = NewNode("Conv", "image w", "c"), *norm, *pool;
  AddInts(conv, "pads", 4, (int64_t[]){1, 1, 1, 1});
  AddNode(graph, conv);
  norm = NewNode("BatchNormalization", "c scale bias mean variance", "n m v");
  AddInt(norm, "training_mode", 1);
  AddNode(graph, norm);
  pool = NewNode("MaxPool", "n", "p");
  AddInts(pool, "kernel_shape", 2, (int64_t[]){2, 2});
  AddInts(pool, "strides", 2, (int64_t[]){2, 2});
  AddNode(graph, pool);
  AddOperator(graph, "GlobalAveragePool", "p", "g");
  AddOperator(graph, "Flatten", "g", "y");
  AddOutput(graph, "y");
  return NewModel(graph, 17);
}

/* tokens [4,8] -> embedding [4,8,6] -> heads [4,2,8,3] -> back, shapes as an exporter has them */
static Message *NewShapes(void)
{
  Message *graph = MessageNew();
  AddInput(graph, "tokens", INT64, 2, (int64_t[]){4, 8}, NULL);
  AddWeight(graph, "table", 2, (int64_t[]){10, 6});
  AddShape(graph, "heads", 4, (int64_t[]){4, 8, 2, 3});
  AddShape(graph, "zero", 1, (int64_t[]){0});
  AddShape(graph, "two", 1, (int64_t[]){2});
  AddShape(graph, "rest", 1, (int64_t[]){-1});
  AddOperator(graph, "Gather", "table tokens", "e");
  AddOperator(graph, "Reshape", "e heads", "h");
  Message *transpose = NewNode("Transpose", "h", "t"), *back, *join;
  AddInts(transpose, "perm", 4, (int64_t[]){0, 2, 1, 3});
  AddNode(graph, transpose);
  AddOperator(graph, "Softmax", "t", "s");
  back = NewNode("Transpose", "s", "u");
  AddInts(back, "perm", 4, (int64_t[]){0, 2, 1, 3});
  AddNode(graph, back);
  AddOperator(graph, "Shape", "e", "shape");
  AddOperator(graph, "Slice", "shape zero two zero", "first");
  join = NewNode("Concat", "first rest", "target");
  AddInt(join, "axis", 0);
  AddNode(graph, join);
  AddOperator(graph, "Reshape", "u target", "y");
  AddOutput(graph, "y");
  return NewModel(graph, 13);
}

static Message *NewBranch(const char *op)
{
  Message *branch = MessageNew();
  PutText(branch, GRAPH_NAME, op);
  AddOperator(branch, op, "d", "z");
  AddOutput(branch, "z");
  return branch;
}

/* A function Twice(a) = a + a, called, and an If on a constant. */
static Message *NewFunction(void)
{
  Message *graph = MessageNew(), *choose = NewNode("If", "condition", "y");
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){4, 3}, "N");
  AddInitializer(graph, "condition", BOOL, 0, NULL, "\1", 1);
  Message *call = NewNode("Twice", "x", "d");
  PutText(call, 7, "local");
  AddNode(graph, call);
  AddGraph(choose, "then_branch", NewBranch("Relu"));
  AddGraph(choose, "else_branch", NewBranch("Neg"));
  AddNode(graph, choose);
  AddOutput(graph, "y");
  Message *model = NewModel(graph, 17), *function = MessageNew(), *import = MessageNew();
  PutText(function, 1, "Twice");
  PutText(function, 10, "local");
  PutText(function, 4, "a");
  PutText(function, 5, "b");
  PutMessage(function, 7, NewNode("Add", "a a", "b"));
  PutNumber(import, 2, 17);
  PutMessage(function, 9, import);
  PutMessage(model, 25, function);
  return model;
}

Message *NewNetwork(int number)
{
  static Message *(*const makers[N_MODELS])(void) = {NewPerceptron, NewConvolution, NewShapes,
                                                     NewFunction};
  return makers[number]();
}
