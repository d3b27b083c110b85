/* Rank 0 reads a model without the data of its tensors; all ranks get that and build the graph. */
#include "onnx.h"
#include "renga/private/onnx.h"
#include "renga/private/wait.h"
#include <string.h>

static RengaErrorCode ReadStripped(const char *name, size_t *count, unsigned char **bytes)
{
  RengaOnnxFile file;
  RengaCall(RengaOnnxFileOpen(name, &file));
  RengaErrorCode code = RengaOnnxStrip(&file, count, bytes);
  RengaOnnxFileClose(&file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode BroadcastFile(MPI_Comm comm, void *bytes, int64_t count)
{
  return RengaBroadcast_Private(comm, bytes, (size_t)count, "rank 0 to read the network's file");
}

/* The stripped model on every rank. RengaFree(bytes). */
static RengaErrorCode ShareModel(MPI_Comm comm, const char *name, size_t *count,
                                 unsigned char **bytes)
{
  int rank;
  int64_t size = 0;
  RengaErrorCode code = RENGA_SUCCESS;
  *bytes = NULL;
  RengaCallMPI(MPI_Comm_rank(comm, &rank));
  if (rank == 0) code = ReadStripped(name, count, bytes);
  if (rank == 0 && code == RENGA_SUCCESS) size = (int64_t)*count;
  code = RengaErrorAgree(comm, code);
  RengaCall(code);
  RengaCall(BroadcastFile(comm, &size, (int64_t)sizeof size));
  if (rank != 0) code = RengaMalloc(size, bytes);
  code = RengaErrorAgree(comm, code);
  if (code == RENGA_SUCCESS) code = BroadcastFile(comm, *bytes, size);
  if (code != RENGA_SUCCESS) RengaFree(bytes);
  RengaCall(code);
  *count = (size_t)size;
  return RENGA_SUCCESS;
}

/* Memory of the decoder is in the ledger, too. */
static void *AllocateUnpacker(void *user, size_t size)
{
  unsigned char *bytes = NULL;
  (void)user;
  return RengaMalloc(size, &bytes) == RENGA_SUCCESS ? bytes : NULL;
}

static void FreeUnpacked(void *user, void *bytes)
{
  (void)user;
  RengaFree(&bytes);
}

static ProtobufCAllocator ledger = {AllocateUnpacker, FreeUnpacked, NULL};

static RengaErrorCode Import(RengaOnnxImporter *importer, size_t count, const unsigned char *bytes)
{
  Onnx__ModelProto *model = onnx__model_proto__unpack(&ledger, count, bytes);
  RengaCheck(model, importer->comm, RENGA_ERR_FILE_FORMAT, "%s is not an ONNX model",
             importer->file);
  importer->model = model;
  RengaErrorCode code = RengaOnnxImportModel(importer);
  onnx__model_proto__free_unpacked(model, &ledger);
  RengaAttributesFree(&importer->attributes);
  RengaFree(&importer->inner);
  RengaFree(&importer->numbers);
  RengaFree(&importer->mask);
  RengaOnnxFreeAll(importer);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaGraphReadOnnxWith - RengaGraphReadOnnx, with choices that tests need

   Collective

   Input:
   . graph - new
   . file - path of the model
   . options - the wishes: see RengaOnnxOptions

   Errors: RENGA_ERR_ORDER where the graph is not empty; RENGA_ERR_FILE_OPEN where a file cannot
   be read; RENGA_ERR_FILE_FORMAT where it is no ONNX model or is damaged, RENGA_ERR_SUPPORT for
   what Renga does not have, RENGA_ERR_SHAPE or RENGA_ERR_GRAPH for nodes that do not go
   together, with the node. All ranks have the error.

   See also: RengaGraphLoad()
@*/
RengaErrorCode RengaGraphReadOnnxWith(RengaGraph graph, const char *file,
                                      const RengaOnnxOptions *options)
{
  size_t count = 0;
  unsigned char *bytes;
  RengaOnnxImporter importer = {.graph = graph,
                                .options = options,
                                .file = file,
                                .open = !options->keep_batch,
                                .batch_size = RENGA_VALUE_NONE};
  RengaCall(RengaObjectGetComm(graph, &importer.comm));
  RengaCall(ShareModel(importer.comm, file, &count, &bytes));
  RengaErrorCode code = Import(&importer, count, bytes);
  RengaFree(&bytes);
  code = RengaErrorAgree(importer.comm, code);
  RengaCall(code);
  RengaCall(RengaGraphSetFileBatch_Private(graph, importer.file_batch));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphReadOnnx - a network from an ONNX file, opsets 11 to 24

   Collective

   Input:
   . graph - new, nothing added yet
   . file - path of the model; external data of its tensors are in the same folder or below

   Options:
   . -graph_dimension - sizes of symbolic dimensions other than the batch

   Errors: RENGA_ERR_ORDER where the graph is not empty; RENGA_ERR_FILE_OPEN where a file cannot
   be read; RENGA_ERR_FILE_FORMAT where it is no ONNX model or is damaged, RENGA_ERR_SUPPORT for
   what Renga does not have, RENGA_ERR_SHAPE or RENGA_ERR_GRAPH for nodes that do not go
   together, with the node. All ranks have the error.

   Notes: parameters are floating initializers that are no scalars; each rank reads what it needs of
   them from the file later. The first dimension of the first input is the batch. The output called
   loss, or the first that is a floating scalar, is the loss. What is not supported is one error
   that names every operator, its first node, the opset and the file.

   See also: RengaGraphLoad(), RengaGraphSetDimension()
@*/
RengaErrorCode RengaGraphReadOnnx(RengaGraph graph, const char *file)
{
  const RengaOnnxOptions options = {.keep_batch = false};
  RengaCall(RengaGraphReadOnnxWith(graph, file, &options));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadTensor(RengaOnnxImporter *importer, RengaOnnxFile *file, char **name,
                                 RengaTensorSpec *spec, void **data)
{
  unsigned char *bytes, *copy = NULL;
  void *read;
  RengaCall(RengaOnnxAllocate(importer, file->size, 1, &bytes));
  RengaCall(RengaOnnxFileRead(file, 0, file->size, bytes));
  Onnx__TensorProto *tensor = onnx__tensor_proto__unpack(&ledger, (size_t)file->size, bytes);
  RengaCheck(tensor, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s is no ONNX tensor", file->name);
  RengaErrorCode code = RengaOnnxTensorRead(importer, tensor, spec, &read);
  if (code == RENGA_SUCCESS) code = RengaMalloc(RengaTensorSpecBytes(spec) + 1, &copy);
  if (code == RENGA_SUCCESS) code = RengaStringCopy(tensor->name ? tensor->name : "", name);
  onnx__tensor_proto__free_unpacked(tensor, &ledger);
  if (code != RENGA_SUCCESS) RengaFree(&copy);
  RengaCall(code);
  memcpy(copy, read, RengaTensorSpecBytes(spec));
  *data = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaOnnxReadTensorFile - one tensor from a file that holds a TensorProto message

   Input:
   . file - path

   Output:
   . name - the tensor's name; RengaFree() frees it
   . spec - type and shape
   . data - its elements; RengaFree

   Errors: RENGA_ERR_FILE_OPEN where the file cannot be read; RENGA_ERR_FILE_FORMAT where it is
   no tensor; RENGA_ERR_SUPPORT for a type that Renga does not have.

   See also: RengaGraphLoad()
@*/
RengaErrorCode RengaOnnxReadTensorFile(const char *file, char **name, RengaTensorSpec *spec,
                                       void **data)
{
  RengaOnnxFile opened;
  RengaOnnxImporter importer = {.file = file, .comm = MPI_COMM_SELF};
  RengaCall(RengaOnnxFileOpen(file, &opened));
  RengaErrorCode code = ReadTensor(&importer, &opened, name, spec, data);
  RengaOnnxFileClose(&opened);
  RengaOnnxFreeAll(&importer);
  RengaCall(code);
  return RENGA_SUCCESS;
}
