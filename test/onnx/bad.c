/* TEST ranks: 1 3 timeout: 300 */
/* Files that are wrong: each is an error on all ranks, without a crash, a hang or a leak. Then
   thousands of random changes of right files, of which only that is asked. */
#include "rengacomm.h"
#include "renga/private/graph.h"
#include "write.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { FLOAT = 1, INT64 = 7, STRING = 8, MUTATIONS = 2000 };
static const float data[64];

/* A graph with an input x [4,6] of an open batch. */
static Message *NewGraph(void)
{
  Message *graph = MessageNew();
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){4, 6}, "N");
  AddOutput(graph, "y");
  return graph;
}

static Message *Cycle(void)
{
  Message *graph = NewGraph();
  AddOperator(graph, "Add", "x b", "a");
  AddOperator(graph, "Add", "x a", "b");
  AddOperator(graph, "Add", "a b", "y");
  return NewModel(graph, 13);
}
static Message *MissingTensor(void)
{
  Message *graph = NewGraph();
  AddOperator(graph, "Add", "x nowhere", "y");
  return NewModel(graph, 13);
}
static Message *MissingOutput(void)
{
  Message *graph = NewGraph();
  AddOperator(graph, "Relu", "x", "z");
  return NewModel(graph, 13);
}
static Message *MadeTwice(void)
{
  Message *graph = NewGraph();
  AddOperator(graph, "Relu", "x", "y");
  AddOperator(graph, "Neg", "x", "y");
  return NewModel(graph, 13);
}
static Message *WithInitializer(int type, int ndim, const int64_t dim[], size_t bytes)
{
  Message *graph = NewGraph();
  AddInitializer(graph, "w", type, ndim, dim, data, bytes);
  AddOperator(graph, "MatMul", "x w", "y");
  return NewModel(graph, 13);
}
static Message *NegativeDimension(void)
{
  return WithInitializer(FLOAT, 2, (int64_t[]){6, -2}, 48);
}
static Message *HugeDimensions(void)
{
  return WithInitializer(FLOAT, 2, (int64_t[]){INT64_MAX, INT64_MAX}, 48);
}
static Message *ManyDimensions(void)
{
  return WithInitializer(FLOAT, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 6, 2}, 48);
}
static Message *ShortData(void)
{
  return WithInitializer(FLOAT, 2, (int64_t[]){6, 3}, 48);
}
static Message *LongData(void)
{
  return WithInitializer(FLOAT, 2, (int64_t[]){6, 1}, 48);
}
static Message *Strings(void)
{
  return WithInitializer(STRING, 2, (int64_t[]){6, 2}, 48);
}
static Message *WrongShapes(void)
{
  return WithInitializer(FLOAT, 2, (int64_t[]){5, 2}, 40);
}
static Message *Unsupported(void)
{
  Message *graph = NewGraph();
  AddOperator(graph, "Frobnicate", "x", "a");
  AddOperator(graph, "LSTM", "a", "y");
  return NewModel(graph, 13);
}
static Message *NewerOpset(void)
{
  Message *graph = NewGraph();
  AddOperator(graph, "Relu", "x", "y");
  return NewModel(graph, 99);
}
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
static Message *Reshaped(int n, const int64_t shape[])
{
  Message *graph = MessageNew();
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){4, 6}, NULL);
  AddOutput(graph, "y");
  AddInitializer(graph, "s", INT64, 1, (int64_t[]){n}, shape, (size_t)n * sizeof *shape);
  AddOperator(graph, "Reshape", "x s", "y");
  return NewModel(graph, 13);
}
static Message *ReshapeInseparable(void)
{
  return Reshaped(2, (int64_t[]){3, 8});
}
static Message *ReshapeOther(void)
{
  return Reshaped(2, (int64_t[]){4, 7});
}
static Message *ReshapeTwoUnknown(void)
{
  return Reshaped(2, (int64_t[]){-1, -1});
}
static Message *ReshapeHuge(void)
{
  return Reshaped(2, (int64_t[]){INT64_MAX, 2});
}
static Message *ReshapeNegative(void)
{
  return Reshaped(2, (int64_t[]){INT64_MIN, 2});
}
static Message *WrongAxis(void)
{
  Message *graph = NewGraph(), *softmax = NewNode("Softmax", "x", "y");
  AddInt(softmax, "axis", 1 << 30);
  AddNode(graph, softmax);
  return NewModel(graph, 13);
}
static Message *WrongPermutation(void)
{
  Message *graph = NewGraph(), *transpose = NewNode("Transpose", "x", "y");
  AddInts(transpose, "perm", 2, (int64_t[]){0, 0});
  AddNode(graph, transpose);
  return NewModel(graph, 13);
}
static Message *HugeKernel(void)
{
  Message *graph = MessageNew(), *pool = NewNode("MaxPool", "x", "y");
  AddInput(graph, "x", FLOAT, 4, (int64_t[]){4, 6, 6, 6}, "N");
  AddOutput(graph, "y");
  AddInts(pool, "kernel_shape", 2, (int64_t[]){INT64_MAX, 2});
  AddNode(graph, pool);
  return NewModel(graph, 13);
}
static Message *NamedDimension(void)
{
  Message *graph = NewGraph();
  AddInput(graph, "z", FLOAT, 1, (int64_t[]){4}, "sequence");
  AddOperator(graph, "Relu", "x", "y");
  return NewModel(graph, 13);
}
static Message *EmptyConstant(void)
{
  Message *graph = NewGraph();
  AddOperator(graph, "Constant", "", "c");
  AddOperator(graph, "Add", "x c", "y");
  return NewModel(graph, 13);
}

/* A function that calls itself. */
static Message *Recursion(void)
{
  Message *graph = NewGraph(), *call = NewNode("F", "x", "y"), *again = NewNode("F", "a", "b");
  PutText(call, 7, "local");
  AddNode(graph, call);
  Message *model = NewModel(graph, 17), *function = MessageNew();
  PutText(function, 1, "F");
  PutText(function, 10, "local");
  PutText(function, 4, "a");
  PutText(function, 5, "b");
  PutText(again, 7, "local");
  PutMessage(function, 7, again);
  PutMessage(model, 25, function);
  return model;
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
  AddOperator(graph, "Relu", "x", "y");
  return NewModel(graph, 13);
}

static void AddEntry(Message *tensor, const char *key, const char *value)
{
  Message *entry = MessageNew();
  PutText(entry, 1, key);
  PutText(entry, 2, value);
  PutMessage(tensor, 13, entry);
}

static Message *External(const char *location, const char *offset)
{
  Message *graph = NewGraph(), *tensor = MessageNew();
  PutNumber(tensor, 1, 6);
  PutNumber(tensor, 1, 2);
  PutNumber(tensor, 2, FLOAT);
  PutText(tensor, 8, "w");
  AddEntry(tensor, "location", location);
  AddEntry(tensor, "offset", offset);
  PutNumber(tensor, 14, 1);
  PutMessage(graph, 5, tensor);
  AddOperator(graph, "MatMul", "x w", "y");
  return NewModel(graph, 13);
}
static Message *ExternalUpwards(void)
{
  return External("a/../../secret", "0");
}
static Message *ExternalAbsolute(void)
{
  return External("/etc/passwd", "0");
}
static Message *ExternalMissing(void)
{
  return External("no-such-file", "0");
}
static Message *ExternalPastEnd(void)
{
  return External("onnx-bad.onnx", "100000");
}
static Message *ExternalBadNumber(void)
{
  return External("onnx-bad.onnx", "-5");
}

static const struct {
  const char *name;
  Message *(*make)(void);
  RengaErrorCode code;
} cases[] = {
    {"nodes that form a cycle", Cycle, RENGA_ERR_FILE_FORMAT},
    {"a tensor that nothing makes", MissingTensor, RENGA_ERR_FILE_FORMAT},
    {"an output that nothing makes", MissingOutput, RENGA_ERR_FILE_FORMAT},
    {"a tensor made twice", MadeTwice, RENGA_ERR_FILE_FORMAT},
    {"a negative dimension", NegativeDimension, RENGA_ERR_FILE_FORMAT},
    {"huge dimensions", HugeDimensions, RENGA_ERR_FILE_FORMAT},
    {"nine dimensions", ManyDimensions, RENGA_ERR_SUPPORT},
    {"data shorter than the shape", ShortData, RENGA_ERR_FILE_FORMAT},
    {"data longer than the shape", LongData, RENGA_ERR_FILE_FORMAT},
    {"strings", Strings, RENGA_ERR_SUPPORT},
    {"a product that does not fit", WrongShapes, RENGA_ERR_SHAPE},
    {"unknown operators", Unsupported, RENGA_ERR_SUPPORT},
    {"a newer opset", NewerOpset, RENGA_ERR_SUPPORT},
    {"no opset", NoOpset, RENGA_ERR_FILE_FORMAT},
    {"no graph", NoGraph, RENGA_ERR_FILE_FORMAT},
    {"a batch that cannot be separated", ReshapeInseparable, RENGA_ERR_SUPPORT},
    {"a reshape to another count", ReshapeOther, RENGA_ERR_SHAPE},
    {"a reshape with two unknowns", ReshapeTwoUnknown, RENGA_ERR_FILE_FORMAT},
    {"a reshape to a huge shape", ReshapeHuge, RENGA_ERR_SHAPE},
    {"a reshape to a negative dimension", ReshapeNegative, RENGA_ERR_FILE_FORMAT},
    {"an axis out of range", WrongAxis, RENGA_ERR_FILE_FORMAT},
    {"a permutation that is none", WrongPermutation, RENGA_ERR_FILE_FORMAT},
    {"a huge kernel", HugeKernel, RENGA_ERR_FILE_FORMAT},
    {"a dimension without a size", NamedDimension, RENGA_ERR_GRAPH},
    {"a constant without a value", EmptyConstant, RENGA_ERR_SUPPORT},
    {"a function that calls itself", Recursion, RENGA_ERR_FILE_FORMAT},
    {"a type a thousand deep", DeepType, RENGA_ERR_FILE_FORMAT},
    {"data above the model's folder", ExternalUpwards, RENGA_ERR_FILE_FORMAT},
    {"data at an absolute path", ExternalAbsolute, RENGA_ERR_FILE_FORMAT},
    {"data in a file that is not there", ExternalMissing, RENGA_ERR_FILE_OPEN},
    {"data past the end of their file", ExternalPastEnd, RENGA_ERR_FILE_FORMAT},
    {"an offset that is no number", ExternalBadNumber, RENGA_ERR_FILE_FORMAT},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };
static const char file_name[] = "onnx-bad.onnx";

/* Reads what rank 0 has written; the messages of errors go nowhere. */
static RengaErrorCode Read(RengaComm comm, RengaErrorCode *code)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  fflush(stderr);
  int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDERR_FILENO);
  *code = RengaGraphReadOnnx(graph, file_name);
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(nowhere);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadCopy(RengaComm comm, int rank, const unsigned char *bytes, size_t count,
                               RengaErrorCode *code)
{
  MPI_Comm mpi;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCallMPI(MPI_Barrier(mpi));
  if (rank == 0) RengaCall(WriteBytes(bytes, count, file_name));
  RengaCallMPI(MPI_Barrier(mpi));
  RengaCall(Read(comm, code));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunCases(RengaComm comm, int rank)
{
  RengaErrorCode code;
  for (int i = 0; i < N_CASES; i++) {
    Message *message = cases[i].make();
    size_t count = message->count;
    RengaCheck(count <= sizeof message->bytes, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "too long");
    RengaErrorCode read = ReadCopy(comm, rank, message->bytes, count, &code);
    MessageFree(message);
    RengaCall(read);
    RengaCheck(code == cases[i].code, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "%s: error %d (%s), not %d (%s)", cases[i].name, (int)code, RengaErrorText(code),
               (int)cases[i].code, RengaErrorText(cases[i].code));
  }
  static const unsigned char text[] = "This is not a model.\n";
  RengaCall(ReadCopy(comm, rank, text, sizeof text - 1, &code));
  RengaCheck(code == RENGA_ERR_FILE_FORMAT, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "text: %d",
             (int)code);
  RengaCall(ReadCopy(comm, rank, text, 0, &code));
  RengaCheck(code != RENGA_SUCCESS, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "an empty file is read");
  return RENGA_SUCCESS;
}

/* Every length of a file but the whole one is wrong, or lacks what comes last. */
static RengaErrorCode RunTruncations(RengaComm comm, int rank)
{
  Message *message = NewNetwork(0);
  RengaErrorCode code = RENGA_SUCCESS, read = RENGA_SUCCESS;
  for (size_t count = 1; count < message->count && read == RENGA_SUCCESS; count += 7) {
    read = ReadCopy(comm, rank, message->bytes, count, &code);
    if (read == RENGA_SUCCESS && code == RENGA_SUCCESS) read = RENGA_ERR_INTERNAL;
  }
  MessageFree(message);
  RengaCheck(read == RENGA_SUCCESS, MPI_COMM_SELF, read, "a truncated file is read");
  return RENGA_SUCCESS;
}

/* Up to four bytes changed, removed or doubled, by numbers that depend on the round alone. */
static size_t Mutate(int round, const Message *from, unsigned char to[], size_t size)
{
  uint32_t random[4], key[2] = {7, 11};
  size_t count = from->count;
  memcpy(to, from->bytes, count);
  for (int i = 0; i <= round % 4; i++) {
    RengaPhilox((uint32_t[4]){(uint32_t)round, (uint32_t)i, 0, 0}, key, random);
    size_t at = random[0] % count, length = 1 + random[1] % 8;
    switch (random[2] % 4) {
    case 0:
      to[at] = (unsigned char)random[3];
      break;
    case 1:
      to[at] ^= (unsigned char)(1u << random[3] % 8);
      break;
    case 2:
      if (at + length < count)
        memmove(to + at, to + at + length, count - at - length), count -= length;
      break;
    default:
      if (at + length < count && count + length < size)
        memmove(to + at + length, to + at, count - at), count += length;
    }
  }
  return count;
}

static RengaErrorCode RunMutations(RengaComm comm, int rank, int rounds)
{
  static unsigned char changed[1 << 16];
  for (int model = 0; model < N_MODELS; model++) {
    Message *message = NewNetwork(model);
    RengaErrorCode code, read = ReadCopy(comm, rank, message->bytes, message->count, &code);
    RengaErrorCode whole = code;
    for (int round = 0; round < rounds && read == RENGA_SUCCESS && whole == RENGA_SUCCESS;
         round++) {
      size_t count = Mutate(round, message, changed, sizeof changed);
      read = ReadCopy(comm, rank, changed, count, &code);
    }
    MessageFree(message);
    RengaCheck(whole == RENGA_SUCCESS, MPI_COMM_SELF, whole, "network %d cannot be read", model);
    RengaCall(read);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  MPI_Comm mpi;
  int rank, ranks;
  size_t before, after, peak;
  int64_t blocks;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  RengaCallMPI(MPI_Comm_size(mpi, &ranks));
  RengaMemoryGetUsage(&before, &peak, &blocks);
  RengaCall(RunCases(comm, rank));
  RengaCall(RunTruncations(comm, rank));
  RengaCall(RunMutations(comm, rank, ranks == 1 ? MUTATIONS : MUTATIONS / 50));
  RengaMemoryGetUsage(&after, &peak, &blocks);
  RengaCheck(after == before, MPI_COMM_SELF, RENGA_ERR_MEMORY, "%zu bytes are left",
             after - before);
  RengaCheck(peak < (size_t)1 << 30, MPI_COMM_SELF, RENGA_ERR_MEMORY, "%zu bytes at peak", peak);
  RengaCallMPI(MPI_Barrier(mpi));
  if (rank == 0) remove(file_name);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
