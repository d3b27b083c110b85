/* A folder of safetensors files: model.safetensors, or those that model.safetensors.index.json
   names. */
#include "safetensors.h"
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char single[] = "model.safetensors", index_name[] = "model.safetensors.index.json";
enum { MOST_INDEX = 100000000, MOST_SHARDS = 100000 };

typedef struct {
  const char *folder;
  RengaCheckpointTable *table;
  int n_shards;
  char **shard; /* [n_shards] names, sorted; lent */
} FolderReader;

static bool HasSuffix(const char *path)
{
  static const char suffix[] = ".safetensors";
  const size_t length = strlen(path), tail = sizeof suffix - 1;
  return length > tail && strcmp(path + length - tail, suffix) == 0;
}

bool RengaSafetensorsHasFile(const char *folder, const char *name)
{
  struct stat status;
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length < (int)sizeof path && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool RengaSafetensorsIsThere(const char *path)
{
  return HasSuffix(path) || RengaSafetensorsHasFile(path, index_name) ||
         RengaSafetensorsHasFile(path, single);
}

const char *RengaSafetensorsShard(const RengaCheckpointTable *table, int shard)
{
  char name[32];
  snprintf(name, sizeof name, "shard %d", shard);
  return RengaCheckpointTableGetAttribute(table, name);
}

static RengaErrorCode KeepShardPath(const FolderReader *reader, const char *file, int shard)
{
  char name[32], *path = NULL;
  const size_t room = strlen(reader->folder) + strlen(file) + 2;
  snprintf(name, sizeof name, "shard %d", shard);
  RengaCall(RengaMalloc(room, &path));
  snprintf(path, room, "%s/%s", reader->folder, file);
  const RengaErrorCode code = RengaCheckpointTableSetAttribute(reader->table, name, path);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadShard(const FolderReader *reader, const char *file, int shard)
{
  RengaCall(RengaSafetensorsReadHeader(reader->folder, file, shard, reader->table));
  RengaCall(KeepShardPath(reader, file, shard));
  return RENGA_SUCCESS;
}

static int CompareShardNames(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int FindShardFile(const FolderReader *reader, const char *name)
{
  char *const *found = bsearch(&name, reader->shard, (size_t)reader->n_shards,
                               sizeof *reader->shard, CompareShardNames);
  return found ? (int)(found - reader->shard) : -1;
}

/* The different files of the index, sorted. They lie in the folder itself. */
static RengaErrorCode ListShardFiles(FolderReader *reader, json_object *map)
{
  const int count = json_object_object_length(map);
  RengaCall(RengaMalloc(count + 1, &reader->shard));
  json_object_object_foreach(map, name, value)
  {
    const char *file =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    RengaCheck(HasSuffix(file) && !strchr(file, '/'), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s/%s: \"%.100s\" is in \"%.100s\", which is no safetensors file of the folder",
               reader->folder, index_name, name, file);
    reader->shard[reader->n_shards++] = (char *)(uintptr_t)file;
  }
  if (count > 0) qsort(reader->shard, (size_t)count, sizeof *reader->shard, CompareShardNames);
  int kept = 0;
  for (int i = 0; i < count; i++)
    if (kept == 0 || strcmp(reader->shard[kept - 1], reader->shard[i]) != 0)
      reader->shard[kept++] = reader->shard[i];
  reader->n_shards = kept;
  RengaCheck(kept > 0 && kept <= MOST_SHARDS, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/%s names %d files, of 1 to %d", reader->folder, index_name, kept, MOST_SHARDS);
  return RENGA_SUCCESS;
}

/* What the index says is what the files hold, and the reverse. */
static RengaErrorCode CompareIndex(const FolderReader *reader, json_object *map)
{
  const RengaCheckpointTable *table = reader->table;
  json_object_object_foreach(map, name, value)
  {
    const int found = RengaCheckpointTableFind(table, name);
    const char *file = json_object_get_string(value);
    RengaCheck(found >= 0 && table->entries[found].shard == FindShardFile(reader, file),
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s/%s: \"%.100s\" is not in %.100s",
               reader->folder, index_name, name, file);
  }
  for (int i = 0; i < table->n_entries; i++)
    RengaCheck(json_object_object_get_ex(map, table->entries[i].name, NULL), MPI_COMM_SELF,
               RENGA_ERR_FILE_FORMAT, "%s/%s does not name \"%.100s\", which %.100s has",
               reader->folder, index_name, table->entries[i].name,
               reader->shard[table->entries[i].shard]);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckDifferent(const FolderReader *reader)
{
  const RengaCheckpointTable *table = reader->table;
  for (int i = 1; i < table->n_entries; i++)
    RengaCheck(strcmp(table->entries[i - 1].name, table->entries[i].name) != 0, MPI_COMM_SELF,
               RENGA_ERR_FILE_FORMAT, "%s: two files have a tensor \"%.100s\"", reader->folder,
               table->entries[i].name);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadShards(FolderReader *reader, json_object *map)
{
  RengaCall(ListShardFiles(reader, map));
  for (int i = 0; i < reader->n_shards; i++) {
    RengaCheck(RengaSafetensorsHasFile(reader->folder, reader->shard[i]), MPI_COMM_SELF,
               RENGA_ERR_FILE_OPEN, "%s: %s is missing, one of %d files that %s names",
               reader->folder, reader->shard[i], reader->n_shards, index_name);
    RengaCall(ReadShard(reader, reader->shard[i], i));
  }
  RengaCheckpointTableSort(reader->table);
  RengaCall(CheckDifferent(reader));
  RengaCall(CompareIndex(reader, map));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadMap(FolderReader *reader, json_object *root)
{
  json_object *map = NULL;
  json_object_object_get_ex(root, "weight_map", &map);
  RengaCheck(json_object_is_type(map, json_type_object), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/%s has no weight_map", reader->folder, index_name);
  const RengaErrorCode code = ReadShards(reader, map);
  RengaFree(&reader->shard);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadIndexText(FolderReader *reader, const RengaMappedFile *file)
{
  RengaCheck(file->size > 0 && file->size <= MOST_INDEX, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s has %lld bytes, of 1 to %d", file->path, (long long)file->size, MOST_INDEX);
  json_tokener *tokener = json_tokener_new();
  RengaCheck(tokener, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no memory to read %s", file->path);
  json_object *root = json_tokener_parse_ex(tokener, (const char *)file->bytes, (int)file->size);
  json_tokener_free(tokener);
  RengaErrorCode code = root ? ReadMap(reader, root) : RENGA_ERR_FILE_FORMAT;
  json_object_put(root);
  RengaCheck(root, MPI_COMM_SELF, code, "%s is no JSON", file->path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadIndex(FolderReader *reader)
{
  char *path = NULL;
  RengaMappedFile file = {.bytes = NULL};
  const size_t room = strlen(reader->folder) + sizeof index_name + 1;
  RengaCall(RengaMalloc(room, &path));
  snprintf(path, room, "%s/%s", reader->folder, index_name);
  RengaErrorCode code = RengaMapFile(path, &file);
  if (!code) code = ReadIndexText(reader, &file);
  RengaUnmapFile(&file);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* FOLDER/NAME.safetensors, or NAME.safetensors here. */
static RengaErrorCode ReadSingle(const char *path, RengaCheckpointTable *table)
{
  char *folder = NULL;
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  RengaCall(RengaStringCopy(slash ? path : ".", &folder));
  if (slash) folder[slash == path ? 1 : slash - path] = '\0';
  const FolderReader reader = {.folder = folder, .table = table};
  const RengaErrorCode code = ReadShard(&reader, name, 0);
  RengaFree(&folder);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSafetensorsReadOne(const char *folder, const char *file,
                                       RengaCheckpointTable *table)
{
  const FolderReader reader = {.folder = folder, .table = table};
  RengaCall(ReadShard(&reader, file, 0));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSafetensorsReadFolder(const char *path, RengaCheckpointTable *table)
{
  FolderReader reader = {.folder = path, .table = table};
  if (HasSuffix(path))
    RengaCall(ReadSingle(path, table));
  else if (RengaSafetensorsHasFile(path, index_name))
    RengaCall(ReadIndex(&reader));
  else
    RengaCall(RengaSafetensorsReadOne(path, single, table));
  RengaCheckpointTableSort(table);
  return RENGA_SUCCESS;
}
