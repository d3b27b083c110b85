/* Data: a set of rows of conversations, of which the turns of the assistant are learned. */
#include "chat.h"
#include "packing.h"
#include "renga/private/open.h"
#include "tokenizer/sign.h"
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *name;
  RengaVocabulary vocabulary;
  RengaChatTemplate chat;
  RengaChatText text;
  int turn_room;
  RengaChatTurn *turn;
  FILE *file;
  char *line;
  size_t room;
  int64_t number; /* of the line */
} Chats;

static json_object *ChatMember(json_object *owner, const char *key)
{
  json_object *value = NULL;
  if (owner && json_object_is_type(owner, json_type_object))
    json_object_object_get_ex(owner, key, &value);
  return value && json_object_is_type(value, json_type_string) ? value : NULL;
}

static RengaErrorCode ReadTurn(const Chats *chats, json_object *message, size_t number,
                               RengaChatTurn *turn)
{
  static const char *const names[RENGA_CHAT_ROLES] = {"system", "user", "assistant"};
  json_object *role = ChatMember(message, "role"), *content = ChatMember(message, "content");
  RengaCheck(role && content, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: line %lld: message %zu has no texts role and content: %.100s", chats->name,
             (long long)chats->number, number + 1, json_object_to_json_string(message));
  turn->role = RENGA_CHAT_ROLES;
  for (int r = 0; r < RENGA_CHAT_ROLES; r++)
    if (strcmp(names[r], json_object_get_string(role)) == 0) turn->role = (RengaChatRole)r;
  turn->content = json_object_get_string(content);
  RengaCheck(
      turn->role < RENGA_CHAT_ROLES && (turn->role != RENGA_CHAT_SYSTEM || number == 0),
      MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
      "%s: line %lld: message %zu is of the %.40s; understood are system, as the first, user "
      "and assistant",
      chats->name, (long long)chats->number, number + 1, json_object_get_string(role));
  RengaCheck(strlen(turn->content) == (size_t)json_object_get_string_len(content), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s: line %lld: message %zu has a character 0", chats->name,
             (long long)chats->number, number + 1);
  json_object_object_foreach(message, key, value)
  {
    (void)value;
    RengaCheck(!strcmp(key, "role") || !strcmp(key, "content"), MPI_COMM_SELF,
               RENGA_ERR_FILE_FORMAT,
               "%s: line %lld: message %zu has %.40s, of which is not known what becomes of it",
               chats->name, (long long)chats->number, number + 1, key);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadTurns(Chats *chats, json_object *object, int *count)
{
  /* What templates write besides the turns. */
  static const char *const others[] = {
      "tools",    "functions",        "documents",     "enable_thinking",
      "thinking", "reasoning_effort", "chat_template", "chat_template_kwargs"};
  json_object *messages = NULL, *other = NULL;
  const char *unknown = NULL;
  if (object && json_object_is_type(object, json_type_object)) {
    json_object_object_get_ex(object, "messages", &messages);
    for (size_t i = 0; i < sizeof others / sizeof others[0] && !other; i++)
      if (json_object_object_get_ex(object, others[i], &other) && other) unknown = others[i];
  }
  const bool list = messages && json_object_is_type(messages, json_type_array) &&
                    json_object_array_length(messages) > 0;
  RengaCheck(list && json_object_array_length(messages) < 100000, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s: line %lld is no JSON object with a list messages: %.60s",
             chats->name, (long long)chats->number, chats->line);
  RengaCheck(!unknown, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s: line %lld has %s, which are not supported", chats->name, (long long)chats->number,
             unknown);
  *count = (int)json_object_array_length(messages);
  if (*count > chats->turn_room) {
    RengaCall(RengaRealloc(*count, &chats->turn));
    chats->turn_room = *count;
  }
  for (int i = 0; i < *count; i++)
    RengaCall(ReadTurn(chats, json_object_array_get_idx(messages, (size_t)i), (size_t)i,
                       &chats->turn[i]));
  return RENGA_SUCCESS;
}

/* Labels are the tokens that come next, if they begin in what is learned. */
static RengaErrorCode TakeChatTokens(const Chats *chats, RengaPacking *packing, int64_t count,
                                     const int64_t tokens[], const int64_t places[])
{
  const RengaChatText *text = &chats->text;
  int64_t *labels = NULL;
  int span = 0;
  RengaCall(RengaMalloc(count + 1, &labels));
  for (int64_t i = 0; i < count; i++) labels[i] = RENGA_LABEL_IGNORED;
  for (int64_t i = 1; i < count; i++) {
    while (span < text->n_spans && places[i] >= text->span[span].end) span++;
    if (span < text->n_spans && places[i] >= text->span[span].begin) labels[i - 1] = tokens[i];
  }
  const RengaErrorCode code = RengaPackingTake_Private(packing, count, tokens, labels);
  RengaFree(&labels);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeChat(Chats *chats, RengaPacking *packing, int turns)
{
  char where[1024];
  int64_t count = 0, *tokens = NULL, *places = NULL;
  snprintf(where, sizeof where, "%s: line %lld", chats->name, (long long)chats->number);
  RengaCall(RengaChatTemplateApply_Private(&chats->chat, where, turns, chats->turn, &chats->text));
  RengaCheck(chats->text.n_spans > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s has no turn of the assistant, so that nothing of it is learned", where);
  RengaErrorCode code = RengaVocabularyEncodePlaces_Private(
      chats->vocabulary, chats->text.text, chats->text.length, &count, &tokens, &places);
  if (!code) code = TakeChatTokens(chats, packing, count, tokens, places);
  RengaFree(&tokens);
  RengaFree(&places);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckUtf8(const Chats *chats, int64_t length)
{
  const unsigned char *bytes = (const unsigned char *)chats->line;
  uint32_t code;
  for (int64_t at = 0, n; at < length; at += n) {
    n = RengaSignDecode_Private(bytes, at, length, &code);
    RengaCheck(n > 0 && code > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s: line %lld: byte %lld, 0x%02x, is no text in UTF-8", chats->name,
               (long long)chats->number, (long long)at, bytes[at]);
  }
  return RENGA_SUCCESS;
}

/* The value that the line is, or NULL. */
static RengaErrorCode ParseLine(const Chats *chats, int64_t length, json_object **object)
{
  json_tokener *parser = json_tokener_new_ex(64);
  RengaCheck(parser && length < INT32_MAX, MPI_COMM_SELF, RENGA_ERR_MEMORY,
             "%s: line %lld of %lld bytes is too long", chats->name, (long long)chats->number,
             (long long)length);
  *object = json_tokener_parse_ex(parser, chats->line, (int)length);
  const size_t end = json_tokener_get_parse_end(parser);
  const bool whole = json_tokener_get_error(parser) == json_tokener_success &&
                     strspn(chats->line + end, " \t\r\n") == (size_t)length - end;
  json_tokener_free(parser);
  if (whole) return RENGA_SUCCESS;
  json_object_put(*object);
  *object = NULL;
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeChatLine(Chats *chats, RengaPacking *packing, int64_t length)
{
  int turns = 0;
  json_object *object = NULL;
  RengaErrorCode code = CheckUtf8(chats, length);
  if (!code) code = ParseLine(chats, length, &object);
  if (!code) code = ReadTurns(chats, object, &turns);
  if (!code) code = TakeChat(chats, packing, turns);
  json_object_put(object);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitChats(void *user, RengaPacking *packing)
{
  Chats *chats = user;
  rewind(chats->file);
  for (chats->number = 1;; chats->number++) {
    errno = 0;
    const ssize_t got = getline(&chats->line, &chats->room, chats->file);
    RengaCheck(got >= 0 || !ferror(chats->file), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s",
               chats->name, RengaFileReason_Private(errno));
    if (got < 0) return RENGA_SUCCESS;
    if (strspn(chats->line, " \t\r\n") == (size_t)got) continue;
    RengaCall(TakeChatLine(chats, packing, (int64_t)got));
  }
}

static RengaErrorCode PackChats(RengaPackingTask *task, const char *folder, Chats *chats,
                                int64_t counts[])
{
  char path[4096];
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  RengaCall(RengaChatTemplateRead_Private(folder, &chats->chat));
  RengaCall(RengaVocabularyRead(path, &chats->vocabulary));
  RengaCheck(RengaVocabularyIsTokenizer_Private(chats->vocabulary), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s is no tokenizer.json", path);
  chats->file = RengaFileOpen_Private(chats->name, "rb");
  RengaCheck(chats->file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "%s: %s", chats->name,
             RengaFileReason_Private(errno));
  task->vocabulary = chats->vocabulary;
  RengaCall(RengaPackingWrite_Private(task, counts));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteChats(const char *folder, Chats *chats, const RengaDataRows *rows,
                                 const char *out_file, int64_t counts[])
{
  RengaPackingTask task = {.source = chats->name,
                           .out_file = out_file,
                           .visit = VisitChats,
                           .user = chats,
                           .rows = rows,
                           .cuts = true};
  const RengaErrorCode code = PackChats(&task, folder, chats, counts);
  if (chats->vocabulary) RengaCall(RengaVocabularyDestroy(&chats->vocabulary));
  if (chats->file) fclose(chats->file);
  free(chats->line); /* of getline */
  RengaChatTemplateFree_Private(&chats->chat);
  RengaFree(&chats->text.text);
  RengaFree(&chats->text.span);
  RengaFree(&chats->turn);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaDataWriteChat - make a set of rows of conversations

   Collective; rank 0 works

   Input:
   . folder - has tokenizer.json and tokenizer_config.json, whose chat_template is of a family that
     is known: ChatML, Llama 3, Llama 2, Mistral, Gemma, Phi-3, Zephyr
   . chat_file - lines {"messages": [{"role": ..., "content": ...}, ...]}
   . out_file - the HDF5 file to make; replaced when the new one is whole
   . rows - their length; end is not looked at

   Output:
   . counts - conversations, rows, conversations that are cut as they are longer than a row, tokens,
     and those of the assistant, which are learned. Rank 0 knows

   Errors: RENGA_ERR_SUPPORT for a template that is not known; RENGA_ERR_FILE_FORMAT names the line
   that is not as expected; RENGA_ERR_FILE_OPEN or RENGA_ERR_FILE_WRITE where a file cannot be read
   or written. All ranks have the error.

   Notes: tokens are those of apply_chat_template of transformers. Labels are those of the
   assistant's turns, with the token that ends each, and else -100. Otherwise as
   RengaDataWriteDocuments.

   See also: RengaDataWriteDocuments(), RengaVocabularyRead()
@*/
RengaErrorCode RengaDataWriteChat(RengaComm comm, const char *folder, const char *chat_file,
                                  const char *out_file, const RengaDataRows *rows,
                                  int64_t counts[RENGA_DATA_ROW_COUNTS])
{
  RengaCheckPointers(comm, folder, chat_file, out_file, rows);
  Chats chats = {.name = chat_file};
  int64_t found[RENGA_DATA_ROW_COUNTS] = {0};
  MPI_Comm mpi;
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(comm, &mpi));
  RengaCall(RengaDataCheckWindow_Private(mpi, rows->sequence, rows->validation_share));
  RengaCallMPI(MPI_Comm_rank(mpi, &rank));
  if (rank == 0) code = WriteChats(folder, &chats, rows, out_file, found);
  RengaCall(RengaErrorAgree(mpi, code));
  if (counts != NULL) memcpy(counts, found, sizeof found);
  return RENGA_SUCCESS;
}
