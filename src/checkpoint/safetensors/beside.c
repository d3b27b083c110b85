/* The small files of a folder: config.json, and what a tokenizer is made of. */
#include "renga/private/output.h"
#include "safetensors.h"
#include "write.h"
#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

static const char *const others[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
    "spiece.model",
    "chat_template.jinja",
    "chat_template.json",
};

RengaErrorCode RengaSafetensorsJoin(const char *folder, const char *name, char **path)
{
  const size_t room = strlen(folder) + strlen(name) + 2;
  RengaCall(RengaMalloc(room, path));
  snprintf(*path, room, "%s/%s", folder, name);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteBytes(const char *path, const void *bytes, int64_t count)
{
  RengaOutput output = {.stream = NULL};
  RengaCall(RengaOutputOpen_Private(path, &output));
  if (count > 0) fwrite(bytes, 1, (size_t)count, output.stream);
  RengaCall(RengaOutputClose_Private(&output, RENGA_SUCCESS));
  return RENGA_SUCCESS;
}

/* Sets the member where the object has it with another text; true: it was another. */
static bool SetType(json_object *root, const char *member, const char *name)
{
  json_object *value = NULL;
  if (!json_object_object_get_ex(root, member, &value)) return false;
  if (value && strcmp(json_object_get_string(value), name) == 0) return false;
  json_object_object_add(root, member, json_object_new_string(name));
  return true;
}

/* The same bytes where the type of its numbers is said already. */
static RengaErrorCode WriteConfig(const RengaMappedFile *from, const char *path, RengaDataType type)
{
  json_tokener *tokener = json_tokener_new();
  RengaCheck(tokener, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no memory to read %s", from->path);
  json_object *root =
      from->size > 0 ? json_tokener_parse_ex(tokener, (const char *)from->bytes, (int)from->size)
                     : NULL;
  json_tokener_free(tokener);
  const bool object = json_object_is_type(root, json_type_object);
  bool changed = object && SetType(root, "dtype", RengaDataTypeName(type));
  changed = (object && SetType(root, "torch_dtype", RengaDataTypeName(type))) || changed;
  const int style =
      JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;
  const char *text = changed ? json_object_to_json_string_ext(root, style) : NULL;
  const RengaErrorCode code = text ? WriteBytes(path, text, (int64_t)strlen(text))
                                   : WriteBytes(path, from->bytes, from->size);
  json_object_put(root);
  RengaCheck(object, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s is no JSON object", from->path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* config: it is config.json, which must be there. */
static RengaErrorCode CopyOne(const char *from, const char *folder, const char *name, bool config,
                              RengaDataType type)
{
  char *source = NULL, *path = NULL;
  RengaMappedFile file = {.bytes = NULL};
  RengaCall(RengaSafetensorsJoin(from, name, &source));
  RengaErrorCode code = RengaSafetensorsJoin(folder, name, &path);
  const bool there = config || access(source, F_OK) == 0;
  if (!code && there) code = RengaMapFile(source, &file);
  if (!code && there)
    code = config ? WriteConfig(&file, path, type) : WriteBytes(path, file.bytes, file.size);
  RengaUnmapFile(&file);
  RengaFree(&source);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSafetensorsCopyFiles(const char *from, const char *folder, RengaDataType type)
{
  RengaCall(CopyOne(from, folder, "config.json", true, type));
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    RengaCall(CopyOne(from, folder, others[i], false, type));
  return RENGA_SUCCESS;
}
