/* Memory that lives as long as the reader: freed at once, also after an error. */
#include "onnx.h"
#include <string.h>

enum { BLOCK_BYTES = 1 << 16, ALIGNMENT = 16 };
typedef struct RengaOnnxBlock Block;
struct RengaOnnxBlock {
  Block *next;
  size_t used, size;
  unsigned char *bytes;
};

static RengaErrorCode AddMemoryBlock(RengaOnnxImporter *importer, size_t bytes)
{
  Block *block = NULL;
  RengaCall(RengaMalloc(1, &block));
  block->next = importer->blocks;
  importer->blocks = block;
  RengaCall(RengaMalloc(bytes, &block->bytes));
  block->size = bytes;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxAllocate(RengaOnnxImporter *importer, int64_t count, size_t size,
                                 void *pointer_to_pointer)
{
  RengaCheck(count >= 0 && (uint64_t)count <= ((size_t)1 << 40) / size, MPI_COMM_SELF,
             RENGA_ERR_MEMORY, "%s: %lld elements are too many", importer->file, (long long)count);
  size_t bytes = ((size_t)count * size + ALIGNMENT) & ~(size_t)(ALIGNMENT - 1);
  Block *block = importer->blocks;
  if (!block || block->size - block->used < bytes) {
    RengaCall(AddMemoryBlock(importer, bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES));
    block = importer->blocks;
  }
  void *pointer = block->bytes + block->used;
  block->used += bytes;
  memcpy(pointer_to_pointer, &pointer, sizeof pointer);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxJoin(RengaOnnxImporter *importer, const char *a, const char *b,
                             char **joined)
{
  size_t na = strlen(a), nb = strlen(b);
  RengaCall(RengaOnnxAllocate(importer, (int64_t)(na + nb + 1), 1, joined));
  memcpy(*joined, a, na);
  memcpy(*joined + na, b, nb + 1);
  return RENGA_SUCCESS;
}

void RengaOnnxFreeAll(RengaOnnxImporter *importer)
{
  while (importer->blocks) {
    Block *block = importer->blocks;
    importer->blocks = block->next;
    RengaFree(&block->bytes);
    RengaFree(&block);
  }
}
