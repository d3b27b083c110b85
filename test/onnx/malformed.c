/* Files that are wrong in their bytes, their types, their data or what they call. */
#include "malformed.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLOAT = 1, INT64 = 7 };
static const float data[64];
const char malformed_file[] = "onnx-bad.onnx";
const char malformed_link[] = "onnx-bad-link";

/* A graph with an input x [4,6] of an open batch. */
static Message *NewGraph(void)
{
  Message *graph = MessageNew();
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){4, 6}, "N");
  AddOutput(graph, "y");
  return graph;
}

static Message *Relu(Message *graph)
{
  AddOperator(graph, "Relu", "x", "y");
  return NewModel(graph, 13);
}

/* ---- the model ---- */
static Message *NoOpset(void)
{
  Message *graph = NewGraph(), *model = MessageNew();
  AddOperator(graph, "Relu", "x", "y");
  PutMessage(model, 7, graph);
  return model;
}
static Message *NoGraph(void)
{
  Message *model = MessageNew();
  PutNumber(model, 1, 8);
  return model;
}
static Message *NoOperator(void)
{
  Message *graph = NewGraph(), *node = MessageNew();
  PutText(node, 1, "x");
  PutText(node, 2, "y");
  AddNode(graph, node);
  return NewModel(graph, 13);
}

/* ---- inputs: field 1 of a type is a tensor, 4 a sequence, 5 a map, 9 an optional ---- */
static Message *InputOfType(const char *name, int field, Message *nested)
{
  Message *graph = MessageNew(), *info = MessageNew(), *type = MessageNew();
  if (nested) PutMessage(type, field, nested);
  if (name) PutText(info, 1, name);
  PutMessage(info, 2, type);
  PutMessage(graph, 11, info);
  AddOutput(graph, "y");
  return Relu(graph);
}
static Message *InputSequence(void)
{
  return InputOfType("x", 4, MessageNew());
}
static Message *InputMap(void)
{
  return InputOfType("x", 5, MessageNew());
}
static Message *InputOptional(void)
{
  return InputOfType("x", 9, MessageNew());
}
static Message *InputUntyped(void)
{
  return InputOfType("x", 0, NULL);
}
static Message *InputShapeless(void)
{
  Message *tensor = MessageNew();
  PutNumber(tensor, 1, FLOAT);
  return InputOfType("x", 1, tensor);
}
static Message *InputNameless(void)
{
  return InputOfType(NULL, 0, NULL);
}

/* Types inside types inside types. */
static Message *DeepType(void)
{
  Message *type = MessageNew(), *info = MessageNew(), *graph = NewGraph();
  for (int i = 0; i < 1000; i++) {
    Message *sequence = MessageNew(), *outer = MessageNew();
    PutMessage(sequence, 1, type);
    PutMessage(outer, 4, sequence);
    type = outer;
  }
  PutText(info, 1, "deep");
  PutMessage(info, 2, type);
  PutMessage(graph, 11, info);
  return Relu(graph);
}

/* ---- tensors ---- */
static Message *WithData(const char *name, int64_t rows, size_t bytes)
{
  Message *graph = NewGraph();
  AddInitializer(graph, name, FLOAT, 2, (int64_t[]){6, rows}, data, bytes);
  AddOperator(graph, "MatMul", "x w", "y");
  return NewModel(graph, 13);
}
static Message *ShortData(void)
{
  return WithData("w", 3, 48);
}
static Message *LongData(void)
{
  return WithData("w", 1, 48);
}
static Message *NoData(void)
{
  return WithData("w", 2, 0);
}
static Message *TensorNameless(void)
{
  return WithData("", 2, 48);
}

/* A tensor w [6,2] without data; FLOAT_DATA, INT64_DATA and SEGMENT are fields of it. */
enum { SEGMENT = 3, FLOAT_DATA = 4, INT64_DATA = 7 };
static Message *BareTensor(void)
{
  Message *tensor = MessageNew();
  PutNumber(tensor, 1, 6);
  PutNumber(tensor, 1, 2);
  PutNumber(tensor, 2, FLOAT);
  PutText(tensor, 8, "w");
  return tensor;
}
static Message *WithTensor(int field, Message *tensor)
{
  Message *graph = NewGraph();
  PutMessage(graph, field, tensor);
  AddOperator(graph, "MatMul", "x w", "y");
  return NewModel(graph, 13);
}
static Message *FewNumbers(void)
{
  Message *tensor = BareTensor();
  PutBytes(tensor, FLOAT_DATA, data, 20);
  return WithTensor(5, tensor);
}
static Message *OtherNumbers(void)
{
  Message *tensor = BareTensor();
  for (int i = 0; i < 12; i++) PutNumber(tensor, INT64_DATA, i);
  return WithTensor(5, tensor);
}
static Message *Segments(void)
{
  Message *tensor = BareTensor(), *segment = MessageNew();
  PutNumber(segment, 1, 0);
  PutNumber(segment, 2, 12);
  PutMessage(tensor, SEGMENT, segment);
  PutBytes(tensor, FLOAT_DATA, data, 48);
  return WithTensor(5, tensor);
}
static Message *Sparse(void)
{
  Message *sparse = MessageNew();
  PutMessage(sparse, 1, BareTensor());
  return WithTensor(15, sparse);
}

/* ---- data in other files ---- */
static void AddEntry(Message *tensor, const char *key, const char *value)
{
  Message *entry = MessageNew();
  PutText(entry, 1, key);
  PutText(entry, 2, value);
  PutMessage(tensor, 13, entry);
}
static Message *External(const char *location, const char *key, const char *number)
{
  Message *tensor = BareTensor();
  AddEntry(tensor, "location", location);
  AddEntry(tensor, key, number);
  PutNumber(tensor, 14, 1);
  return WithTensor(5, tensor);
}
static Message *ExternalUpwards(void)
{
  return External("../../../../../../../../../../etc/passwd", "offset", "0");
}
static Message *ExternalAbsolute(void)
{
  return External("/etc/passwd", "offset", "0");
}
/* A symbolic link in the folder that leads out of it. */
static Message *ExternalLink(void)
{
  remove(malformed_link);
  if (symlink("/etc/passwd", malformed_link) != 0) perror(malformed_link);
  return External(malformed_link, "offset", "0");
}
static Message *ExternalMissing(void)
{
  return External("no-such-file", "offset", "0");
}
static Message *ExternalFolder(void)
{
  return External(".", "offset", "0");
}
static Message *ExternalPastEnd(void)
{
  return External(malformed_file, "offset", "100000");
}
static Message *ExternalHugeOffset(void)
{
  return External(malformed_file, "offset", "9223372036854775807");
}
static Message *ExternalNegative(void)
{
  return External(malformed_file, "offset", "-5");
}
static Message *ExternalNoNumber(void)
{
  return External(malformed_file, "offset", "here");
}
static Message *ExternalLength(void)
{
  return External(malformed_file, "length", "9223372036854775807");
}

/* ---- functions and subgraphs ---- */
static Message *Call(const char *op, const char *inputs, const char *outputs)
{
  Message *node = NewNode(op, inputs, outputs);
  PutText(node, 7, "local");
  return node;
}
static Message *NewFunction(const char *name, const char *input, const char *output)
{
  Message *function = MessageNew();
  PutText(function, 1, name);
  PutText(function, 10, "local");
  PutText(function, 4, input);
  PutText(function, 5, output);
  return function;
}
static Message *CallingModel(const char *op)
{
  Message *graph = NewGraph();
  AddNode(graph, Call(op, "x", "y"));
  return NewModel(graph, 17);
}
static Message *Recursion(void)
{
  Message *model = CallingModel("F"), *function = NewFunction("F", "a", "b");
  PutMessage(function, 7, Call("F", "a", "b"));
  PutMessage(model, 25, function);
  return model;
}
static Message *MutualRecursion(void)
{
  Message *model = CallingModel("F"), *f = NewFunction("F", "a", "b"), *g;
  g = NewFunction("G", "a", "b");
  PutMessage(f, 7, Call("G", "a", "b"));
  PutMessage(g, 7, Call("F", "a", "b"));
  PutMessage(model, 25, f);
  PutMessage(model, 25, g);
  return model;
}
/* F0 calls F1 twice, which calls F2 twice, …: 2^22 nodes. */
static Message *Explosion(void)
{
  enum { LEVELS = 22 };
  Message *model = CallingModel("F0");
  for (int i = 0; i <= LEVELS; i++) {
    char name[16], next[16];
    snprintf(name, sizeof name, "F%d", i);
    snprintf(next, sizeof next, "F%d", i + 1);
    Message *function = NewFunction(name, "a", "b");
    if (i == LEVELS) {
      PutMessage(function, 7, NewNode("Identity", "a", "b"));
    } else {
      PutMessage(function, 7, Call(next, "a", "c"));
      PutMessage(function, 7, Call(next, "c", "b"));
    }
    PutMessage(model, 25, function);
  }
  return model;
}
static Message *FunctionWithoutOutput(void)
{
  Message *model = CallingModel("F"), *function = NewFunction("F", "a", "b");
  PutMessage(function, 7, NewNode("Relu", "a", "c"));
  PutMessage(model, 25, function);
  return model;
}
static Message *FunctionOfUnknown(void)
{
  Message *model = CallingModel("F"), *function = NewFunction("F", "a", "b");
  PutMessage(function, 7, NewNode("Frobnicate", "a", "c"));
  PutMessage(function, 7, NewNode("SequenceMap", "c", "b"));
  PutMessage(model, 25, function);
  return model;
}
static Message *Branch(const char *op, const char *output)
{
  Message *branch = MessageNew();
  AddOperator(branch, op, "x", "z");
  AddOutput(branch, output);
  return branch;
}
static Message *If(Message *taken)
{
  Message *graph = NewGraph(), *node = NewNode("If", "c", "y");
  AddInitializer(graph, "c", 9, 0, NULL, "\1", 1);
  AddGraph(node, "then_branch", taken);
  AddNode(graph, node);
  return NewModel(graph, 13);
}
static Message *BranchWithoutOutput(void)
{
  return If(Branch("Relu", "nothing"));
}
static Message *BranchOfUnknown(void)
{
  return If(Branch("Frobnicate", "z"));
}
static Message *BranchOfTwo(void)
{
  Message *branch = Branch("Relu", "z");
  AddOutput(branch, "z");
  return If(branch);
}
static Message *DeepBranches(void)
{
  Message *branch = Branch("Relu", "z");
  for (int i = 0; i < 40; i++) {
    Message *outer = MessageNew(), *node = NewNode("If", "c", "z");
    AddGraph(node, "then_branch", branch);
    AddNode(outer, node);
    AddOutput(outer, "z");
    branch = outer;
  }
  return If(branch);
}

/* ---- bytes that are no message ---- */
static Message *Bytes(const char *text, size_t count)
{
  Message *message = MessageNew();
  memcpy(message->bytes, text, count);
  message->count = count;
  return message;
}
#define BYTES(text) Bytes(text, sizeof text - 1)
static Message *Empty(void)
{
  return MessageNew();
}
static Message *Text(void)
{
  return BYTES("This is not a model.\n");
}
static Message *Zeros(void)
{
  Message *message = MessageNew();
  message->count = 512;
  return message;
}
static Message *Zip(void)
{
  return BYTES("PK\3\4\24\0\0\0\10\0archive/data.pkl");
}
static Message *Gzip(void)
{
  return BYTES("\37\213\10\0\0\0\0\0\0\3\313\110\315\311\311");
}
static Message *LongNumber(void)
{
  return BYTES("\10\377\377\377\377\377\377\377\377\377\377\377\1");
}
static Message *Group(void)
{
  return BYTES("\13\20\1\14");
}
static Message *HugeLength(void)
{
  return BYTES("\72\377\377\377\377\377\377\377\177\1\2\3");
}

const MalformedRow malformed_rows[] = {
    {"no opset", NoOpset, RENGA_ERR_FILE_FORMAT, malformed_file,
     "which version of ONNX's operators"},
    {"no graph", NoGraph, RENGA_ERR_FILE_FORMAT, malformed_file, "it has no graph"},
    {"a node without operator", NoOperator, RENGA_ERR_FILE_FORMAT, "node 0", "has no operator"},
    {"an input that is a sequence", InputSequence, RENGA_ERR_SUPPORT, "\"x\"", "is no tensor"},
    {"an input that is a map", InputMap, RENGA_ERR_SUPPORT, "\"x\"", "is no tensor"},
    {"an optional input", InputOptional, RENGA_ERR_SUPPORT, "\"x\"", "is no tensor"},
    {"an input without type", InputUntyped, RENGA_ERR_SUPPORT, "\"x\"", "is no tensor"},
    {"an input without shape", InputShapeless, RENGA_ERR_GRAPH, "\"x\"", "has no shape"},
    {"an input without name", InputNameless, RENGA_ERR_FILE_FORMAT, malformed_file, "has no name"},
    {"a type a thousand deep", DeepType, RENGA_ERR_FILE_FORMAT, "byte", "inside each other"},
    {"data shorter than the shape", ShortData, RENGA_ERR_FILE_FORMAT, "\"w\"", "has 48 bytes"},
    {"data longer than the shape", LongData, RENGA_ERR_FILE_FORMAT, "\"w\"", "has 48 bytes"},
    {"a tensor without data", NoData, RENGA_ERR_FILE_FORMAT, "\"w\"", "has 0 bytes"},
    {"a tensor without name", TensorNameless, RENGA_ERR_FILE_FORMAT, malformed_file, "has no name"},
    {"fewer numbers than the shape", FewNumbers, RENGA_ERR_FILE_FORMAT, "\"w\"", "has 20 bytes"},
    {"numbers of another type", OtherNumbers, RENGA_ERR_FILE_FORMAT, "\"w\"", "has no data"},
    {"a tensor in segments", Segments, RENGA_ERR_SUPPORT, "\"w\"", "segments"},
    {"a sparse tensor", Sparse, RENGA_ERR_SUPPORT, malformed_file, "sparse"},
    {"data above the folder", ExternalUpwards, RENGA_ERR_FILE_FORMAT, "\"w\"",
     "outside of its folder"},
    {"data behind a link", ExternalLink, RENGA_ERR_FILE_FORMAT, "\"w\"", "-allow_external"},
    {"data at an absolute path", ExternalAbsolute, RENGA_ERR_FILE_FORMAT, "\"w\"", "/etc/passwd"},
    {"data that are missing", ExternalMissing, RENGA_ERR_FILE_OPEN, "no-such-file", "No such file"},
    {"data in a folder", ExternalFolder, RENGA_ERR_FILE_OPEN, "\"w\"", "Is a directory"},
    {"data past the end", ExternalPastEnd, RENGA_ERR_FILE_FORMAT, "\"w\"", "at offset 100000"},
    {"data at a huge offset", ExternalHugeOffset, RENGA_ERR_FILE_FORMAT, "\"w\"", "at offset 922"},
    {"a negative offset", ExternalNegative, RENGA_ERR_FILE_FORMAT, "\"w\"", "offset \"-5\""},
    {"an offset that is no number", ExternalNoNumber, RENGA_ERR_FILE_FORMAT, "\"w\"", "\"here\""},
    {"data of a huge length", ExternalLength, RENGA_ERR_FILE_FORMAT, "\"w\"", "shape needs 48"},
    {"a function that calls itself", Recursion, RENGA_ERR_FILE_FORMAT, malformed_file,
     "each other"},
    {"functions in a circle", MutualRecursion, RENGA_ERR_FILE_FORMAT, malformed_file, "each other"},
    {"functions that multiply", Explosion, RENGA_ERR_SUPPORT, malformed_file, "functions inlined"},
    {"a function without its output", FunctionWithoutOutput, RENGA_ERR_FILE_FORMAT, "\"y\" (F",
     "does not make \"b\""},
    {"what a function calls", FunctionOfUnknown, RENGA_ERR_SUPPORT, "first node \"c\"",
     "2 operators are not supported: Frobnicate"},
    {"a branch without its output", BranchWithoutOutput, RENGA_ERR_FILE_FORMAT, "\"y\" (If",
     "does not make \"nothing\""},
    {"what a branch does", BranchOfUnknown, RENGA_ERR_SUPPORT, "first node \"z\"", "Frobnicate"},
    {"a branch of two outputs", BranchOfTwo, RENGA_ERR_FILE_FORMAT, "\"y\" (If", "makes 2 tensors"},
    {"branches forty deep", DeepBranches, RENGA_ERR_FILE_FORMAT, "byte", "inside each other"},
    {"an empty file", Empty, RENGA_ERR_FILE_FORMAT, malformed_file, ""},
    {"text", Text, RENGA_ERR_FILE_FORMAT, malformed_file, "byte"},
    {"zeros", Zeros, RENGA_ERR_FILE_FORMAT, "byte 0", "field number 0"},
    {"a checkpoint of PyTorch", Zip, RENGA_ERR_FILE_FORMAT, malformed_file, "byte"},
    {"a compressed file", Gzip, RENGA_ERR_FILE_FORMAT, "byte 0", "wire type 7"},
    {"a number of 12 bytes", LongNumber, RENGA_ERR_FILE_FORMAT, "byte", "longer than 10 bytes"},
    {"a group", Group, RENGA_ERR_FILE_FORMAT, "byte 0", "wire type 3"},
    {"a huge length", HugeLength, RENGA_ERR_FILE_FORMAT, "byte 0", "are left"},
};
const int malformed_count = sizeof malformed_rows / sizeof malformed_rows[0];
