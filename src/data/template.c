/* Data: templates of conversations, by families that are known by the text of chat_template. What
   the template of a family would do is written here; other templates are refused. */
#include "chat.h"
#include "renga/private/open.h"
#include "tokenizer/sign.h"
#include <json-c/json.h>
#include <string.h>
#include <sys/stat.h>

#define TEXT_END "{%else%}{{eos_token}}"
enum { MOST_TEMPLATE = 1 << 24, FRAGMENTS = 4 };
static const char apostrophe = 1; /* one that ends no text of a template */

typedef struct {
  const RengaChatTemplate *chat;
  const char *where;
  int count;
  const RengaChatTurn *turn;
  RengaChatText *text;
} ChatWriter;

struct RengaChatFamily {
  const char *name;
  /* of the template that is simplified */
  const char *has[FRAGMENTS], *lacks[FRAGMENTS];
  bool alternates; /* user and assistant take turns */
  bool ended;      /* eos_token stands behind those of the assistant */
  RengaErrorCode (*write)(ChatWriter *w);
};

/* ---- texts ---- */
static RengaErrorCode AddChatBytes(ChatWriter *w, const char *bytes, int64_t length)
{
  RengaChatText *text = w->text;
  if (length == 0) return RENGA_SUCCESS;
  if (text->length + length > text->room) {
    text->room = 2 * text->room + length + 256;
    RengaCall(RengaRealloc(text->room, &text->text));
  }
  memcpy(text->text + text->length, bytes, (size_t)length);
  text->length += length;
  return RENGA_SUCCESS;
}

static RengaErrorCode AddChat(ChatWriter *w, const char *words)
{
  RengaCall(AddChatBytes(w, words, (int64_t)strlen(words)));
  return RENGA_SUCCESS;
}

/* The sign of a place is white space, as strip() of Python has it: how many bytes it has, or 0. */
static int64_t WhiteBytes(const char *text, int64_t at, int64_t end)
{
  uint32_t code = 0;
  const int bytes = RengaSignDecode_Private((const unsigned char *)text, at, end, &code);
  return bytes && (RengaSignIsWhite_Private(code) || (code >= 0x1c && code <= 0x1f)) ? bytes : 0;
}

/* The end of the text without white space, from begin on. */
static int64_t TrimmedEnd(const char *text, int64_t begin, int64_t end)
{
  while (end > begin) {
    int64_t last = end - 1;
    while (last > begin && ((unsigned char)text[last] & 0xc0) == 0x80) last--;
    if (WhiteBytes(text, last, end) == 0) return end;
    end = last;
  }
  return end;
}

/* Without white space around it. */
static RengaErrorCode AddTrimmed(ChatWriter *w, const char *words)
{
  int64_t begin = 0;
  const int64_t length = (int64_t)strlen(words);
  for (int64_t bytes; (bytes = WhiteBytes(words, begin, length)) > 0;) begin += bytes;
  RengaCall(AddChatBytes(w, words + begin, TrimmedEnd(words, begin, length) - begin));
  return RENGA_SUCCESS;
}

/* What comes from here on is learned, if the turn is the assistant's. */
static RengaErrorCode BeginTurn(ChatWriter *w, const RengaChatTurn *turn)
{
  RengaChatText *text = w->text;
  if (turn->role != RENGA_CHAT_ASSISTANT) return RENGA_SUCCESS;
  if (text->n_spans == text->span_room) {
    text->span_room = 2 * text->span_room + 8;
    RengaCall(RengaRealloc(text->span_room, &text->span));
  }
  text->span[text->n_spans++] = (RengaChatSpan){text->length, text->length};
  return RENGA_SUCCESS;
}

static void EndTurn(ChatWriter *w, const RengaChatTurn *turn)
{
  if (turn->role == RENGA_CHAT_ASSISTANT) w->text->span[w->text->n_spans - 1].end = w->text->length;
}

static const char *const roles[RENGA_CHAT_ROLES] = {"system", "user", "assistant"};

/* The turns without one of the system in front, which is given. */
static const char *TakeSystem(const ChatWriter *w, int *first)
{
  *first = w->turn[0].role == RENGA_CHAT_SYSTEM;
  return *first ? w->turn[0].content : NULL;
}

/* ---- families ---- */
static RengaErrorCode WriteChatMl(ChatWriter *w)
{
  if (w->turn[0].role != RENGA_CHAT_SYSTEM && w->chat->system) {
    RengaCall(AddChat(w, "<|im_start|>system\n"));
    RengaCall(AddChat(w, w->chat->system));
    RengaCall(AddChat(w, "<|im_end|>\n"));
  }
  for (int i = 0; i < w->count; i++) {
    RengaCall(AddChat(w, "<|im_start|>"));
    RengaCall(AddChat(w, roles[w->turn[i].role]));
    RengaCall(AddChat(w, "\n"));
    RengaCall(BeginTurn(w, &w->turn[i]));
    RengaCall(AddChat(w, w->turn[i].content));
    RengaCall(AddChat(w, "<|im_end|>"));
    EndTurn(w, &w->turn[i]);
    RengaCall(AddChat(w, "\n"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddHeader(ChatWriter *w, const char *role)
{
  RengaCall(AddChat(w, "<|start_header_id|>"));
  RengaCall(AddChat(w, role));
  RengaCall(AddChat(w, "<|end_header_id|>\n\n"));
  return RENGA_SUCCESS;
}

/* From 3.1 on there is always a turn of the system, with a date. */
static RengaErrorCode WriteLlama3(ChatWriter *w)
{
  int first = 0;
  if (w->chat->date) {
    const char *system = TakeSystem(w, &first);
    RengaCall(AddHeader(w, "system"));
    RengaCall(AddChat(w, "Cutting Knowledge Date: December 2023\nToday Date: "));
    RengaCall(AddChat(w, w->chat->date));
    RengaCall(AddChat(w, "\n\n"));
    if (system) RengaCall(AddTrimmed(w, system));
    RengaCall(AddChat(w, "<|eot_id|>"));
  }
  for (int i = first; i < w->count; i++) {
    RengaCall(AddHeader(w, roles[w->turn[i].role]));
    RengaCall(BeginTurn(w, &w->turn[i]));
    RengaCall(AddTrimmed(w, w->turn[i].content));
    RengaCall(AddChat(w, "<|eot_id|>"));
    EndTurn(w, &w->turn[i]);
  }
  return RENGA_SUCCESS;
}

/* The words of the system are part of the first of the user, and both are trimmed together. */
static RengaErrorCode AddLlama2User(ChatWriter *w, const char *system, const char *content)
{
  RengaCall(AddChat(w, w->chat->begin));
  RengaCall(AddChat(w, "[INST] "));
  if (system) {
    RengaCall(AddChat(w, "<<SYS>>\n"));
    RengaCall(AddChat(w, system));
    RengaCall(AddChat(w, "\n<</SYS>>\n\n"));
    RengaCall(AddChat(w, content));
    w->text->length = TrimmedEnd(w->text->text, 0, w->text->length);
  } else {
    RengaCall(AddTrimmed(w, content));
  }
  RengaCall(AddChat(w, " [/INST]"));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteLlama2(ChatWriter *w)
{
  int first;
  const char *system = TakeSystem(w, &first);
  for (int i = first; i < w->count; i++) {
    const RengaChatTurn *turn = &w->turn[i];
    if (turn->role == RENGA_CHAT_USER) {
      RengaCall(AddLlama2User(w, i == first ? system : NULL, turn->content));
      continue;
    }
    RengaCall(BeginTurn(w, turn));
    RengaCall(AddChat(w, " "));
    RengaCall(AddTrimmed(w, turn->content));
    RengaCall(AddChat(w, " "));
    RengaCall(AddChat(w, w->chat->end));
    EndTurn(w, turn);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RefuseSystem(const ChatWriter *w)
{
  RengaCheck(w->turn[0].role != RENGA_CHAT_SYSTEM, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s: the chat template (%s) has no turns of the system", w->where,
             w->chat->family->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteMistral(ChatWriter *w)
{
  RengaCall(RefuseSystem(w));
  for (int i = 0; i < w->count; i++) {
    const RengaChatTurn *turn = &w->turn[i];
    const bool user = turn->role == RENGA_CHAT_USER;
    if (user) RengaCall(AddChat(w, "[INST] "));
    RengaCall(BeginTurn(w, turn));
    RengaCall(AddChat(w, turn->content));
    RengaCall(AddChat(w, !user ? w->chat->end : w->chat->spaced ? " [/INST]" : "[/INST]"));
    EndTurn(w, turn);
    if (!user && w->chat->apart) RengaCall(AddChat(w, " "));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteGemma(ChatWriter *w)
{
  int first = 0;
  const char *system = NULL;
  if (w->chat->spaced)
    system = TakeSystem(w, &first); /* Gemma 3 */
  else
    RengaCall(RefuseSystem(w));
  for (int i = first; i < w->count; i++) {
    const RengaChatTurn *turn = &w->turn[i];
    const bool user = turn->role == RENGA_CHAT_USER;
    RengaCall(AddChat(w, user ? "<start_of_turn>user\n" : "<start_of_turn>model\n"));
    if (i == first && system) {
      RengaCall(AddChat(w, system));
      RengaCall(AddChat(w, "\n\n"));
    }
    RengaCall(BeginTurn(w, turn));
    RengaCall(AddTrimmed(w, turn->content));
    RengaCall(AddChat(w, "<end_of_turn>"));
    EndTurn(w, turn);
    RengaCall(AddChat(w, "\n"));
  }
  return RENGA_SUCCESS;
}

/* <|user|>, a line end, the words, and what ends them: <|end|>, or the token that ends texts. A
   template without turns of the system leaves them out: they are refused. */
static RengaErrorCode WriteTagged(ChatWriter *w, const char *end)
{
  if (w->chat->plain) RengaCall(RefuseSystem(w));
  for (int i = 0; i < w->count; i++) {
    RengaCall(AddChat(w, "<|"));
    RengaCall(AddChat(w, roles[w->turn[i].role]));
    RengaCall(AddChat(w, "|>\n"));
    RengaCall(BeginTurn(w, &w->turn[i]));
    RengaCall(AddChat(w, w->turn[i].content));
    RengaCall(AddChat(w, end));
    EndTurn(w, &w->turn[i]);
    RengaCall(AddChat(w, "\n"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WritePhi3(ChatWriter *w)
{
  RengaCall(WriteTagged(w, "<|end|>"));
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteZephyr(ChatWriter *w)
{
  RengaCall(WriteTagged(w, w->chat->end));
  return RENGA_SUCCESS;
}

static const struct RengaChatFamily families[] = {
    {.name = "ChatML",
     .has = {"'<|im_start|>'+message['role']+'\n'+message['content']+'<|im_end|>\n'"},
     .lacks = {"think", "trim", "[INST]", "system_message"},
     .write = WriteChatMl},
    {.name = "Llama 3",
     .has =
         {"'<|start_header_id|>'+message['role']+'<|end_header_id|>\n\n'+message['content']|trim+"
          "'<|eot_id|>'"},
     .lacks = {"think"},
     .write = WriteLlama3},
    {.name = "Llama 2",
     .has = {"'<<SYS>>\n'+system_message+'\n<</SYS>>\n\n'+message['content']",
             "bos_token+'[INST] '+content|trim+' [/INST]'", "' '+content|trim+' '+eos_token"},
     .alternates = true,
     .ended = true,
     .write = WriteLlama2},
    {.name = "Mistral",
     .has = {"'[INST] '+message['content']+'", "[/INST]'", "{{message['content']+eos_token"},
     .lacks = {"<<SYS>>", "tool", "system_message"},
     .alternates = true,
     .ended = true,
     .write = WriteMistral},
    {.name = "Gemma",
     .has = {"'<start_of_turn>'+role+'\n'", "|trim", "<end_of_turn>\n"},
     .lacks = {"tool", "think"},
     .alternates = true,
     .write = WriteGemma},
    {.name = "Phi-3",
     .has = {"<|user|>\n", "<|assistant|>\n", "message['content']+'<|end|>\n"},
     .lacks = {"tool", "think"},
     .write = WritePhi3},
    {.name = "Zephyr",
     .has = {"'<|user|>\n'+message['content']+eos_token",
             "'<|assistant|>\n'+message['content']+eos_token"},
     .lacks = {"tool", "think"},
     .ended = true,
     .write = WriteZephyr},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* ---- the template of a folder ---- */
typedef struct {
  const char *from;
  char *begin, *to;
  char quote; /* within a text of a tag, which ends with it; else 0 */
  bool tag;   /* within {{ }} or {% %} */
} Simplifier;

/* Texts that are added to each other are one. */
static void OpenText(Simplifier *s)
{
  s->quote = *s->from++;
  if (s->to - s->begin >= 2 && s->to[-1] == '+' && s->to[-2] == '\'')
    s->to -= 2;
  else
    *s->to++ = '\'';
}

static void CopyText(Simplifier *s)
{
  const bool escaped = s->from[0] == '\\' && s->from[1] != '\0';
  s->from += escaped;
  const char letter = *s->from++;
  if (letter == '\'' || letter == '"') {
    const bool ends = letter == s->quote && !escaped;
    *s->to++ = letter == '\'' && !ends ? apostrophe : ends ? '\'' : letter;
    if (ends) s->quote = 0;
  } else if (escaped && letter != 'n') {
    *s->to++ = '\\';
    *s->to++ = letter;
  } else {
    *s->to++ = escaped ? '\n' : letter;
  }
}

static void CopyOutsideOfTexts(Simplifier *s)
{
  static const char *const members[][2] = {{"message.role", "message['role']"},
                                           {"message.content", "message['content']"}};
  for (int m = 0; m < 2 && s->tag; m++) {
    const size_t length = strlen(members[m][0]);
    if (strncmp(s->from, members[m][0], length) != 0) continue;
    s->to = stpcpy(s->to, members[m][1]);
    s->from += length;
    return;
  }
  if (s->from[0] == '{' && (s->from[1] == '{' || s->from[1] == '%')) s->tag = true;
  if (s->from[1] == '}' && (s->from[0] == '}' || s->from[0] == '%')) s->tag = false;
  const bool dash =
      s->from[0] == '-' && /* of a tag: it takes white space away */
      ((s->to - s->begin >= 2 && s->tag && strchr("{%", s->to[-1]) && s->to[-2] == '{') ||
       ((s->from[1] == '}' || s->from[1] == '%') && s->from[2] == '}'));
  if (!dash && !strchr(" \n\r\t", *s->from)) *s->to++ = *s->from;
  s->from++;
}

/* The template without white space outside of its texts, which are in single quotes and have line
   ends themselves, and without the dashes of its tags; message.role is message['role']. */
static RengaErrorCode SimplifyTemplate(const char *from, char **simple)
{
  RengaCall(RengaMalloc(2 * strlen(from) + 1, simple));
  Simplifier s = {.from = from, .begin = *simple, .to = *simple};
  while (*s.from) {
    if (s.quote)
      CopyText(&s);
    else if (s.tag && (*s.from == '"' || *s.from == '\''))
      OpenText(&s);
    else
      CopyOutsideOfTexts(&s);
  }
  *s.to = '\0';
  return RENGA_SUCCESS;
}

static bool FitsFamily(const struct RengaChatFamily *family, const char *simple)
{
  for (int i = 0; i < FRAGMENTS && family->has[i]; i++)
    if (!strstr(simple, family->has[i])) return false;
  for (int i = 0; i < FRAGMENTS && family->lacks[i]; i++)
    if (strstr(simple, family->lacks[i])) return false;
  /* the token that ends texts: of turns, or behind all of them */
  return family->ended || !strstr(simple, "eos_token") || strstr(simple, TEXT_END);
}

/* What stands between two words in a text of the template; NULL: nothing. */
static RengaErrorCode CopyBetween(const char *simple, const char *before, const char *behind,
                                  char **copy)
{
  *copy = NULL;
  for (const char *at = strstr(simple, before); at && !*copy; at = strstr(at + 1, before)) {
    const char *begin = at + strlen(before), *end = strstr(begin, behind);
    const size_t length = end ? (size_t)(end - begin) : 0;
    if (length == 0 || memchr(begin, '\'', length)) continue;
    RengaCall(RengaMalloc(length + 1, copy));
    for (size_t i = 0; i < length; i++) (*copy)[i] = begin[i] == apostrophe ? '\'' : begin[i];
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FindTemplateParts(const char *simple, RengaChatTemplate *chat)
{
  chat->begins = strstr(simple, "bos_token") && chat->family->write != WriteLlama2;
  chat->ends = strstr(simple, TEXT_END) != NULL;
  if (chat->family->write == WriteChatMl) {
    RengaCall(CopyBetween(simple, "<|im_start|>system\n", "<|im_end|>", &chat->system));
  } else if (chat->family->write == WriteLlama3) {
    const bool dated = strstr(simple, "Cutting Knowledge Date: December 2023") != NULL;
    if (dated) RengaCall(CopyBetween(simple, "setdate_string='", "'", &chat->date));
    if (dated && !chat->date) RengaCall(RengaStringCopy("26 Jul 2024", &chat->date));
  } else if (chat->family->write == WriteMistral) {
    chat->spaced = strstr(simple, "' [/INST]") != NULL;
    chat->apart = strstr(simple, "eos_token+' '") != NULL;
  } else if (chat->family->write == WriteGemma) {
    chat->spaced = strstr(simple, "first_user_prefix") != NULL;
  } else {
    chat->plain = !strstr(simple, "<|system|>\n");
  }
  return RENGA_SUCCESS;
}

/* A token that the template adds to texts must be there: it says that turns end. */
static RengaErrorCode NeedSpecial(const char *folder, const char *name, bool needed,
                                  const char *token)
{
  RengaCheck(!needed || token[0], MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/tokenizer_config.json has no %s, which its chat template writes", folder, name);
  return RENGA_SUCCESS;
}

static RengaErrorCode RecogniseTemplate(const char *folder, const char *text,
                                        RengaChatTemplate *chat)
{
  char *simple = NULL, names[128] = "";
  RengaCall(SimplifyTemplate(text, &simple));
  for (int f = 0; f < N_FAMILIES; f++) {
    if (!chat->family && FitsFamily(&families[f], simple)) chat->family = &families[f];
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", f ? ", " : "",
             families[f].name);
  }
  const bool needs[] = {strstr(simple, "bos_token+"), strstr(simple, "+eos_token")};
  const RengaErrorCode code = chat->family ? FindTemplateParts(simple, chat) : RENGA_SUCCESS;
  RengaFree(&simple);
  RengaCall(code);
  RengaCheck(chat->family, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s: its chat template is none of %s: write tokens and labels with Python into an "
             "HDF5 file (doc/data.md)",
             folder, names);
  RengaCall(NeedSpecial(folder, "bos_token", needs[0], chat->begin));
  RengaCall(NeedSpecial(folder, "eos_token", needs[1], chat->end));
  return RENGA_SUCCESS;
}

/* NULL: there is no such file. */
static RengaErrorCode ReadFolderFile(const char *folder, const char *name, char **text)
{
  char path[4096];
  struct stat status;
  *text = NULL;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = RengaFileOpen_Private(path, "rb");
  if (!file) return RENGA_SUCCESS;
  const bool good = fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
                    status.st_size < MOST_TEMPLATE;
  const RengaErrorCode code = good ? RengaMalloc(status.st_size + 1, text) : RENGA_SUCCESS;
  const size_t got = *text ? fread(*text, 1, (size_t)status.st_size, file) : 0;
  fclose(file);
  RengaCall(code);
  RengaCheck(good && got == (size_t)status.st_size, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "%s cannot be read", path);
  return RENGA_SUCCESS;
}

/* "text", or {"content": "text"} */
static RengaErrorCode CopySpecial(json_object *config, const char *key, char **text)
{
  json_object *value = NULL, *content = NULL;
  json_object_object_get_ex(config, key, &value);
  if (value && json_object_is_type(value, json_type_object) &&
      json_object_object_get_ex(value, "content", &content))
    value = content;
  RengaCall(RengaStringCopy(
      value && json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "",
      text));
  return RENGA_SUCCESS;
}

/* A text, or a list of which that named default is taken; NULL: there is none. */
static const char *FindTemplate(json_object *config)
{
  json_object *value = NULL, *name = NULL, *text = NULL;
  json_object_object_get_ex(config, "chat_template", &value);
  if (!value || json_object_is_type(value, json_type_string))
    return value ? json_object_get_string(value) : NULL;
  for (size_t i = 0;
       json_object_is_type(value, json_type_array) && i < json_object_array_length(value); i++) {
    json_object *one = json_object_array_get_idx(value, i);
    if (json_object_object_get_ex(one, "name", &name) &&
        json_object_is_type(name, json_type_string) &&
        strcmp(json_object_get_string(name), "default") == 0 &&
        json_object_object_get_ex(one, "template", &text))
      return json_object_get_string(text);
  }
  return NULL;
}

static RengaErrorCode TakeTemplate(const char *folder, json_object *config, const char *own,
                                   RengaChatTemplate *chat)
{
  RengaCheck(config && json_object_is_type(config, json_type_object), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s/tokenizer_config.json is not there, or no JSON object",
             folder);
  const char *text = own ? own : FindTemplate(config);
  RengaCheck(text, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/tokenizer_config.json has no chat_template", folder);
  RengaCall(CopySpecial(config, "bos_token", &chat->begin));
  RengaCall(CopySpecial(config, "eos_token", &chat->end));
  RengaCall(RecogniseTemplate(folder, text, chat));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaChatTemplateRead_Private(const char *folder, RengaChatTemplate *chat)
{
  char *text = NULL, *own = NULL;
  json_object *config = NULL;
  *chat = (RengaChatTemplate){0};
  RengaErrorCode code = ReadFolderFile(folder, "tokenizer_config.json", &text);
  if (!code) code = ReadFolderFile(folder, "chat_template.jinja", &own);
  if (!code && text) config = json_tokener_parse(text);
  if (!code) code = TakeTemplate(folder, config, own, chat);
  json_object_put(config);
  RengaFree(&text);
  RengaFree(&own);
  if (code) RengaChatTemplateFree_Private(chat);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaChatTemplateFree_Private(RengaChatTemplate *chat)
{
  RengaFree(&chat->begin);
  RengaFree(&chat->end);
  RengaFree(&chat->system);
  RengaFree(&chat->date);
}

RengaErrorCode RengaChatTemplateApply_Private(const RengaChatTemplate *chat, const char *where,
                                              int count, const RengaChatTurn turns[],
                                              RengaChatText *text)
{
  ChatWriter w = {chat, where, count, turns, text};
  text->length = text->n_spans = 0;
  const int first = turns[0].role == RENGA_CHAT_SYSTEM;
  for (int i = first; i < count && chat->family->alternates; i++)
    RengaCheck(turns[i].role == (((i - first) % 2) ? RENGA_CHAT_ASSISTANT : RENGA_CHAT_USER),
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s: turn %d is of the %s: in the chat template (%s) user and assistant take turns",
               where, i + 1, roles[turns[i].role], chat->family->name);
  if (chat->begins) RengaCall(AddChat(&w, chat->begin));
  RengaCall(chat->family->write(&w));
  if (chat->ends) RengaCall(AddChat(&w, chat->end));
  return RENGA_SUCCESS;
}
