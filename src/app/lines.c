/* Files of lines that rank 0 reads for all ranks. */
#include "text.h"
#include "renga/private/open.h"
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

static RengaErrorCode ReadBytes(const char *name, FILE *file, char **bytes, int64_t *length)
{
  int64_t room = 0;
  for (bool ended = false; !ended;) {
    if (room < *length + 4096) RengaCall(RengaRealloc(room = 2 * *length + 8192, bytes));
    const size_t wanted = (size_t)(room - *length), got = fread(*bytes + *length, 1, wanted, file);
    *length += (int64_t)got;
    ended = got < wanted;
  }
  RengaCheck(!ferror(file), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", name,
             RengaFileReason_Private(errno));
  RengaCheck(!memchr(*bytes, '\0', (size_t)*length), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s is no file of lines of text: it has a byte 0", name);
  return RENGA_SUCCESS;
}

static RengaErrorCode OpenBytes(const char *name, char **bytes, int64_t *length)
{
  FILE *file = RengaFileOpen_Private(name, "rb");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", name,
             RengaFileReason_Private(errno));
  const RengaErrorCode code = ReadBytes(name, file, bytes, length);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Lines that end with \r\n lose both. */
static RengaErrorCode CutLines(int64_t length, AppLines *lines)
{
  char *at = lines->bytes, *end = at + length;
  RengaCall(RengaMalloc(length + 1, &lines->line));
  *end = '\0';
  while (at < end) {
    char *newline = strchr(at, '\n'), *last = newline ? newline : end;
    lines->line[lines->count++] = at;
    *last = '\0';
    if (last > at && last[-1] == '\r') last[-1] = '\0';
    at = last + 1;
  }
  while (lines->count > 0 && lines->line[lines->count - 1][0] == '\0') lines->count--;
  return RENGA_SUCCESS;
}

static RengaErrorCode ShareLines(RengaComm comm, const char *file, AppLines *lines)
{
  const bool reads = RengaCommGetRank(comm) == 0;
  int64_t length = 0;
  const MPI_Comm printer = AppPrinter(comm);
  RengaErrorCode code = reads ? OpenBytes(file, &lines->bytes, &length) : RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(printer, code));
  RengaCall(RengaCommBroadcast(comm, &length, sizeof length, 0, "the length of a file"));
  RengaCall(RengaRealloc(length + 1, &lines->bytes));
  if (length > 0)
    RengaCall(RengaCommBroadcast(comm, lines->bytes, (size_t)length, 0, "the lines of a file"));
  RengaCall(CutLines(length, lines));
  RengaCheck(lines->count > 0, printer, RENGA_ERR_FILE_FORMAT, "%s has no lines", file);
  return RENGA_SUCCESS;
}

RengaErrorCode AppReadLines(RengaComm comm, const char *file, AppLines *lines)
{
  *lines = (AppLines){0};
  const RengaErrorCode code = ShareLines(comm, file, lines);
  if (code) AppFreeLines(lines);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void AppFreeLines(AppLines *lines)
{
  RengaFree(&lines->bytes);
  RengaFree(&lines->line);
  lines->count = 0;
}

void AppJoinLines(AppLines *lines)
{
  for (int64_t i = 1; i < lines->count; i++) {
    char *at = lines->bytes + (lines->line[i - 1] - lines->bytes);
    for (at += strlen(at); at < lines->line[i]; at++) *at = ' ';
  }
  if (lines->count > 0) lines->count = 1;
}

static int64_t NumberOr(json_object *owner, const char *key, int64_t otherwise)
{
  json_object *value = NULL;
  if (json_object_is_type(owner, json_type_object)) json_object_object_get_ex(owner, key, &value);
  return json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : otherwise;
}

RengaErrorCode AppReadStart(RengaComm comm, const char *folder, int64_t *start, int64_t *padding)
{
  AppLines lines;
  char *file = NULL;
  RengaCall(RengaMalloc(strlen(folder) + 16, &file));
  sprintf(file, "%s/config.json", folder);
  const RengaErrorCode code = AppReadLines(comm, file, &lines);
  RengaFree(&file);
  RengaCall(code);
  AppJoinLines(&lines);
  json_object *root = AppParseLine(lines.line[0]);
  *padding = NumberOr(root, "pad_token_id", 0);
  *start = NumberOr(root, "decoder_start_token_id", *padding);
  json_object_put(root);
  AppFreeLines(&lines);
  return RENGA_SUCCESS;
}

json_object *AppParseLine(const char *line)
{
  json_tokener *tokener = json_tokener_new();
  if (!tokener) return NULL;
  json_object *object = json_tokener_parse_ex(tokener, line, (int)strlen(line));
  const bool whole = json_tokener_get_error(tokener) == json_tokener_success;
  const char *rest = line + json_tokener_get_parse_end(tokener);
  if (!whole || rest[strspn(rest, " \t\r")] != '\0') {
    json_object_put(object);
    object = NULL;
  }
  json_tokener_free(tokener);
  return object;
}
