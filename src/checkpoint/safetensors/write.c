/* A folder of safetensors files, by one process: model.safetensors, or as many files as are wanted
   of a size and model.safetensors.index.json. Headers are as those of the library safetensors: a
   folder of float32 that was read and is written again has the same bytes. */
#include "renga/private/low.h"
#include "renga/private/output.h"
#include "write.h"
#include <json-c/json.h>
#include <math.h>
#include <string.h>

enum { ALIGNMENT = 8, MOST_FILES = 99999 };

typedef struct {
  const RengaSafetensorsSource *source;
  const char *folder;
  int64_t size; /* of an element as it is written */
  int n_files;
  int *first; /* [n_files + 1] the entries of each file */
  float *numbers;
  uint16_t *narrow; /* [RENGA_HOLDINGS_BLOCK / 4] each */
} FolderWriter;

static const char *TypeName(RengaDataType type)
{
  return type == RENGA_FLOAT16 ? "F16" : type == RENGA_BFLOAT16 ? "BF16" : "F32";
}

static int64_t WrittenBytes(const FolderWriter *writer, int i)
{
  return RengaTensorSpecCount(&writer->source->table->entries[i].spec) * writer->size;
}

/* A file has at least one tensor, and no more than fit. */
static RengaErrorCode CutIntoFiles(FolderWriter *writer)
{
  const RengaCheckpointTable *table = writer->source->table;
  int64_t bytes = 0;
  RengaCall(RengaMalloc(table->n_entries + 2, &writer->first));
  for (int i = 0; i < table->n_entries; i++) {
    const int64_t more = WrittenBytes(writer, i);
    if (i == 0 || bytes + more > writer->source->file_bytes) {
      writer->first[writer->n_files++] = i;
      bytes = 0;
    }
    bytes += more;
  }
  writer->first[writer->n_files] = table->n_entries;
  RengaCheck(writer->n_files <= MOST_FILES, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "%s would have %d files, of at most %d: let a file be larger", writer->folder,
             writer->n_files, MOST_FILES);
  return RENGA_SUCCESS;
}

enum { FILE_NAME = 64 };
static const char *NameFile(const FolderWriter *writer, int file, char name[FILE_NAME])
{
  const char *own = writer->source->name;
  if (writer->n_files == 1)
    snprintf(name, FILE_NAME, "%s.safetensors", own);
  else
    snprintf(name, FILE_NAME, "%s-%05d-of-%05d.safetensors", own, file + 1, writer->n_files);
  return name;
}

/* {"dtype":"F32","shape":[2,3],"data_offsets":[0,24]} */
static json_object *DescribeEntry(const FolderWriter *writer, int i, int64_t *at)
{
  const RengaTensorSpec *spec = &writer->source->table->entries[i].spec;
  json_object *tensor = json_object_new_object(), *shape = json_object_new_array();
  json_object *place = json_object_new_array();
  json_object_object_add(tensor, "dtype", json_object_new_string(TypeName(writer->source->type)));
  for (int d = 0; d < spec->ndim; d++)
    json_object_array_add(shape, json_object_new_int64(spec->dim[d]));
  json_object_object_add(tensor, "shape", shape);
  json_object_array_add(place, json_object_new_int64(*at));
  *at += WrittenBytes(writer, i);
  json_object_array_add(place, json_object_new_int64(*at));
  json_object_object_add(tensor, "data_offsets", place);
  return tensor;
}

static json_object *DescribeShard(const FolderWriter *writer, int file)
{
  json_object *root = json_object_new_object(), *metadata = json_object_new_object();
  int64_t at = 0;
  json_object_object_add(metadata, "format", json_object_new_string("pt"));
  json_object_object_add(root, "__metadata__", metadata);
  for (int i = writer->first[file]; i < writer->first[file + 1]; i++)
    json_object_object_add(root, writer->source->table->entries[i].name,
                           DescribeEntry(writer, i, &at));
  return root;
}

static void WriteShardHeader(const FolderWriter *writer, int file, FILE *stream)
{
  json_object *root = DescribeShard(writer, file);
  const char *text =
      json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
  const size_t length = strlen(text), padded = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  for (int i = 0; i < 8; i++) fputc((int)((uint64_t)padded >> (8 * i) & 255), stream);
  fwrite(text, 1, length, stream);
  for (size_t i = length; i < padded; i++) fputc(' ', stream);
  json_object_put(root);
}

/* Rounded to the type; a number that was finite must stay so. */
static RengaErrorCode NarrowNumbers(const FolderWriter *writer, const char *name, int64_t count)
{
  const bool brain = writer->source->type == RENGA_BFLOAT16;
  for (int64_t i = 0; i < count; i++) {
    const float x = writer->numbers[i];
    writer->narrow[i] = brain ? RengaLowToBrain(x) : RengaLowToHalf(x);
    const float y =
        brain ? RengaLowFromBrain(writer->narrow[i]) : RengaLowFromHalf(writer->narrow[i]);
    RengaCheck(!isfinite(x) || isfinite(y), MPI_COMM_SELF, RENGA_ERR_NUMERIC,
               "%s has %g, which %s cannot hold: export float32 or bfloat16", name, (double)x,
               RengaDataTypeName(writer->source->type));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteShardEntry(const FolderWriter *writer, int i, FILE *stream)
{
  const RengaSafetensorsSource *source = writer->source;
  const RengaCheckpointEntry *entry = &source->table->entries[i];
  const int64_t total = RengaTensorSpecCount(&entry->spec), most = RENGA_HOLDINGS_BLOCK / 4;
  for (int64_t at = 0; at < total; at += most) {
    const int64_t count = total - at < most ? total - at : most;
    const bool whole = source->type == RENGA_FLOAT32;
    RengaCall(source->read(source->user, i, at, count, writer->numbers));
    if (!whole) RengaCall(NarrowNumbers(writer, entry->name, count));
    fwrite(whole ? (const void *)writer->numbers : writer->narrow, (size_t)writer->size,
           (size_t)count, stream);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteShard(const FolderWriter *writer, int file)
{
  char name[FILE_NAME], *path = NULL;
  RengaOutput output = {.stream = NULL};
  RengaCall(RengaSafetensorsJoin(writer->folder, NameFile(writer, file, name), &path));
  RengaErrorCode code = RengaOutputOpen_Private(path, &output);
  if (!code) WriteShardHeader(writer, file, output.stream);
  for (int i = writer->first[file]; i < writer->first[file + 1] && !code; i++)
    code = WriteShardEntry(writer, i, output.stream);
  code = RengaOutputClose_Private(&output, code);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static json_object *DescribeIndex(const FolderWriter *writer)
{
  char name[FILE_NAME];
  int64_t bytes = 0;
  json_object *root = json_object_new_object(), *metadata = json_object_new_object();
  json_object *map = json_object_new_object();
  for (int f = 0; f < writer->n_files; f++)
    for (int i = writer->first[f]; i < writer->first[f + 1]; i++) {
      json_object_object_add(map, writer->source->table->entries[i].name,
                             json_object_new_string(NameFile(writer, f, name)));
      bytes += WrittenBytes(writer, i);
    }
  json_object_object_add(metadata, "total_size", json_object_new_int64(bytes));
  json_object_object_add(root, "metadata", metadata);
  json_object_object_add(root, "weight_map", map);
  return root;
}

static RengaErrorCode WriteIndex(const FolderWriter *writer)
{
  char *path = NULL;
  RengaOutput output = {.stream = NULL};
  if (writer->n_files == 1) return RENGA_SUCCESS;
  RengaCall(RengaSafetensorsJoin(writer->folder, "model.safetensors.index.json", &path));
  RengaErrorCode code = RengaOutputOpen_Private(path, &output);
  if (!code) {
    json_object *root = DescribeIndex(writer);
    fprintf(output.stream, "%s\n",
            json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                     JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(root);
  }
  code = RengaOutputClose_Private(&output, code);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteShards(FolderWriter *writer)
{
  RengaCall(CutIntoFiles(writer));
  RengaCall(RengaMalloc(RENGA_HOLDINGS_BLOCK / 4, &writer->numbers));
  RengaCall(RengaMalloc(RENGA_HOLDINGS_BLOCK / 4, &writer->narrow));
  for (int f = 0; f < writer->n_files; f++) RengaCall(WriteShard(writer, f));
  RengaCall(WriteIndex(writer));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSafetensorsWrite(const char *folder, const RengaSafetensorsSource *source)
{
  FolderWriter writer = {
      .source = source, .folder = folder, .size = (int64_t)RengaDataTypeSize(source->type)};
  const RengaErrorCode code = WriteShards(&writer);
  RengaFree(&writer.first);
  RengaFree(&writer.numbers);
  RengaFree(&writer.narrow);
  RengaCall(code);
  return RENGA_SUCCESS;
}
