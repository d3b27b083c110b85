/* TEST ranks: 1 2 */
/* A model file of more than 2 GiB, and one whose data are in another file: parameters are places in
   files, read element by element. The files have holes, so that they take no room on the disk. */
#include "rengacomm.h"
#include "renga/private/graph.h"
#include "write.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const char large_name[] = "onnx-large.onnx", small_name[] = "onnx-outside.onnx";
static const char data_name[] = "onnx-outside.data";
enum { FLOAT = 1, ROWS = 25000 };
static const int64_t large_bytes = (int64_t)ROWS * ROWS * 4; /* 2.5e9 */

static size_t WriteVarint(unsigned char *to, uint64_t value)
{
  size_t n = 0;
  for (; value > 0x7f; value >>= 7) to[n++] = (unsigned char)(value & 0x7f) | 0x80;
  to[n++] = (unsigned char)value;
  return n;
}

/* Key and length of a field of bytes. */
static size_t WriteHead(unsigned char *to, int field, int64_t length)
{
  size_t n = WriteVarint(to, (uint64_t)field << 3 | 2);
  return n + WriteVarint(to + n, (uint64_t)length);
}

/* The last element of w is 3, all others are a hole. */
static RengaErrorCode WriteLarge(void)
{
  static const float three = 3;
  Message *graph = MessageNew(), *tensor = MessageNew(), *model = NewModel(MessageNew(), 17);
  unsigned char head[64];
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){1, ROWS}, "N");
  AddOperator(graph, "MatMul", "x w", "y");
  AddOutput(graph, "y");
  PutNumber(tensor, 1, ROWS);
  PutNumber(tensor, 1, ROWS);
  PutNumber(tensor, 2, FLOAT);
  PutText(tensor, 8, "w");
  unsigned char raw[32], in_graph[32];
  size_t n_raw = WriteHead(raw, 9, large_bytes);
  int64_t tensor_bytes = (int64_t)(tensor->count + n_raw) + large_bytes;
  size_t n_in_graph = WriteHead(in_graph, 5, tensor_bytes);
  int64_t graph_bytes = (int64_t)(graph->count + n_in_graph) + tensor_bytes;
  size_t n_head = WriteHead(head, 7, graph_bytes);
  FILE *file = fopen(large_name, "wb");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s", large_name);
  fwrite(model->bytes, 1, model->count - 2, file); /* but the empty graph */
  fwrite(head, 1, n_head, file);
  fwrite(graph->bytes, 1, graph->count, file);
  fwrite(in_graph, 1, n_in_graph, file);
  fwrite(tensor->bytes, 1, tensor->count, file);
  fwrite(raw, 1, n_raw, file);
  fseeko(file, large_bytes - (int64_t)sizeof three, SEEK_CUR);
  fwrite(&three, sizeof three, 1, file);
  RengaCheck(fclose(file) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "%s", large_name);
  MessageFree(graph);
  MessageFree(tensor);
  MessageFree(model);
  return RENGA_SUCCESS;
}

static void AddEntry(Message *tensor, const char *key, const char *value)
{
  Message *entry = MessageNew();
  PutText(entry, 1, key);
  PutText(entry, 2, value);
  PutMessage(tensor, 13, entry);
}

/* w [2,3] is at byte 4096 of another file. */
static RengaErrorCode WriteOutside(void)
{
  static unsigned char data[4096 + 24];
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  memcpy(data + 4096, numbers, sizeof numbers);
  RengaCall(WriteBytes(data, sizeof data, data_name));
  Message *graph = MessageNew(), *tensor = MessageNew();
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){1, 2}, "N");
  PutNumber(tensor, 1, 2);
  PutNumber(tensor, 1, 3);
  PutNumber(tensor, 2, FLOAT);
  PutText(tensor, 8, "w");
  AddEntry(tensor, "location", data_name);
  AddEntry(tensor, "offset", "4096");
  AddEntry(tensor, "length", "24");
  PutNumber(tensor, 14, 1);
  PutMessage(graph, 5, tensor);
  AddOperator(graph, "MatMul", "x w", "y");
  AddOutput(graph, "y");
  Message *model = NewModel(graph, 17);
  RengaErrorCode code = WriteMessage(model, small_name);
  MessageFree(model);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The last elements of w. */
static RengaErrorCode CheckTail(RengaComm comm, const char *name, int64_t count,
                                const float wanted[3])
{
  RengaGraph graph;
  float got[3];
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphReadOnnx(graph, name));
  RengaValue w = RengaGraphFindValue(graph, "w");
  RengaCheck(w != RENGA_VALUE_NONE, MPI_COMM_SELF, RENGA_ERR_GRAPH, "%s: no w", name);
  RengaCheck(RengaGraphGetValue(graph, w)->init.kind == RENGA_INIT_FILE, MPI_COMM_SELF,
             RENGA_ERR_GRAPH, "%s: w is in memory", name);
  RengaCall(RengaGraphInitializeValue(graph, w, 0, count - 3, 3, got));
  for (int i = 0; i < 3; i++)
    RengaCheck(got[i] == wanted[i], MPI_COMM_SELF, RENGA_ERR_NUMERIC,
               "%s: element %lld is %g, not %g", name, (long long)(count - 3 + i), (double)got[i],
               (double)wanted[i]);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  MPI_Comm mpi;
  int rank;
  size_t bytes, before, after;
  int64_t blocks;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) RengaCall(WriteLarge());
  if (rank == 0) RengaCall(WriteOutside());
  RengaCallMPI(MPI_Barrier(mpi));
  RengaMemoryGetUsage(&bytes, &before, &blocks);
  RengaCall(CheckTail(comm, large_name, (int64_t)ROWS * ROWS, (const float[]){0, 0, 3}));
  RengaCall(CheckTail(comm, small_name, 6, (const float[]){4, 5, 6}));
  RengaMemoryGetUsage(&bytes, &after, &blocks);
  RengaCheck(after < before + (1 << 20), MPI_COMM_SELF, RENGA_ERR_MEMORY, "%zu bytes at peak",
             after);
  RengaCallMPI(MPI_Barrier(mpi));
  if (rank == 0) remove(large_name), remove(small_name), remove(data_name);
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
