/* What a rank has of tensors, out of the files that are in memory as far as it looks at them. */
#include "renga/private/kernel.h"
#include "safetensors.h"
#include <limits.h>
#include <math.h>
#include <string.h>

enum { PIECE = 1 << 16 }; /* elements that are made at a time */

typedef struct {
  RengaDevice device; /* NULL where its memory is the host's */
  const RengaCheckpointTable *table;
  RengaMappedFile file;
  unsigned char *raw; /* [PIECE * 4] elements as stored, where they may be read */
  float *piece;       /* [PIECE] */
  int worst;
} PartReader;

static bool AreFinite(int64_t count, const float numbers[])
{
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(numbers[i])) return false;
  return true;
}

/* Elements [first, first + count) of the entry to the part's place `to`, on the device or here. */
static RengaErrorCode MovePiece(PartReader *reader, int entry, int64_t first, int64_t count,
                                const RengaPersistent *tensor, char *to)
{
  const RengaCheckpointEntry *from = &reader->table->entries[entry];
  const RengaDataType type = tensor->spec.type;
  const int64_t size = (int64_t)RengaDataTypeSize(from->stored);
  const bool direct = !reader->device || tensor->host;
  float *numbers = direct && type == RENGA_FLOAT32 ? (float *)(void *)to : reader->piece;
  memcpy(reader->raw, reader->file.bytes + from->offset + first * size, (size_t)(count * size));
  RengaCall(RengaDataWiden(from->stored, count, reader->raw, numbers));
  if (entry < reader->worst && !AreFinite(count, numbers)) reader->worst = entry;
  if (direct) {
    RengaCall(RengaDataNarrow(type, count, numbers, to));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaDataNarrow(type, count, numbers, numbers));
  RengaCall(RengaDeviceCopy(reader->device, NULL, RENGA_HOST_TO_DEVICE, to, numbers,
                            (size_t)count * RengaDataTypeSize(type)));
  RengaCall(RengaStreamSynchronize(reader->device, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode MovePart(PartReader *reader, int entry, const RengaPersistent *tensor)
{
  const RengaRuns runs = RengaRunsOf(&tensor->spec, &tensor->part);
  const size_t size = RengaDataTypeSize(tensor->spec.type);
  char *to = tensor->data;
  for (int64_t r = 0; r < runs.count; r++) {
    const int64_t first = RengaRunsAt(&runs, r);
    for (int64_t at = 0; at < runs.length; at += PIECE) {
      const int64_t count = runs.length - at < PIECE ? runs.length - at : PIECE;
      RengaCall(MovePiece(reader, entry, first + at, count, tensor, to));
      to += (size_t)count * size;
    }
  }
  return RENGA_SUCCESS;
}

/* The tensors that are in one file. */
static RengaErrorCode MoveOfShard(PartReader *reader, int shard, int count,
                                  const RengaPersistent tensors[])
{
  for (int t = 0; t < count; t++) {
    const int entry = RengaCheckpointTableFind(reader->table, tensors[t].name);
    const RengaCheckpointEntry *found = &reader->table->entries[entry];
    if (found->shard != shard) continue;
    if (!reader->file.path)
      RengaCall(RengaMapFile(RengaSafetensorsShard(reader->table, shard), &reader->file));
    RengaCheck(found->offset + found->bytes <= reader->file.size, MPI_COMM_SELF,
               RENGA_ERR_FILE_FORMAT, "%s has become shorter while it was read", reader->file.path);
    RengaCall(MovePart(reader, entry, &tensors[t]));
    RengaForgetMapped(&reader->file, found->offset, found->bytes);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MoveAll(PartReader *reader, int count, const RengaPersistent tensors[])
{
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaMalloc((int64_t)PIECE * (int64_t)sizeof(float), &reader->raw));
  RengaCall(RengaMalloc(PIECE, &reader->piece));
  for (int s = 0; RengaSafetensorsShard(reader->table, s) && !code; s++) {
    code = MoveOfShard(reader, s, count, tensors);
    RengaUnmapFile(&reader->file);
    reader->file.path = NULL;
  }
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSafetensorsReadParts(RengaDevice device, const RengaCheckpointTable *table,
                                         int count, const RengaPersistent tensors[], int *worst)
{
  PartReader reader = {.table = table, .worst = INT_MAX};
  if (device && !RengaDeviceIsHost(device)) reader.device = device;
  const RengaErrorCode code = MoveAll(&reader, count, tensors);
  RengaFree(&reader.raw);
  RengaFree(&reader.piece);
  RengaCall(code);
  *worst = reader.worst;
  return RENGA_SUCCESS;
}
