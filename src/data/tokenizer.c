/* Data: tokenizer.json of Hugging Face, of the kind that GPT-2 has: byte pairs (model BPE) of text
   that is split by pre-tokenizer ByteLevel. All else that changes tokens is refused by name. */
#include "vocabulary.h"
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 1 << 24, SIGNS = 0x180 };

typedef struct {
  const char *name; /* of the file, for errors */
  json_object *root, *model, *vocab;
  RengaTokenizer *to;
  int byte_of[SIGNS]; /* what a code point of a token's text stands for; -1: no byte */
  uint32_t sign_of[256];
  const char **text; /* [count] as in the file, lent by the root; NULL: none */
} TokenizerFile;

/* Printable bytes stand for themselves, the others are numbered from 256 on, as GPT-2 does. */
static void FillSigns(TokenizerFile *file)
{
  int next = 256;
  for (int i = 0; i < SIGNS; i++) file->byte_of[i] = -1;
  for (int b = 0; b < 256; b++) {
    const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    file->sign_of[b] = (uint32_t)(itself ? b : next++);
    file->byte_of[file->sign_of[b]] = b;
  }
}

static json_object *Member(json_object *owner, const char *key)
{
  json_object *value = NULL;
  if (owner && json_object_is_type(owner, json_type_object))
    json_object_object_get_ex(owner, key, &value);
  return value;
}

/* null, false and "" change nothing. */
static bool IsNothing(json_object *value)
{
  return value == NULL ||
         (json_object_is_type(value, json_type_boolean) && !json_object_get_boolean(value)) ||
         (json_object_is_type(value, json_type_string) && json_object_get_string_len(value) == 0);
}

static RengaErrorCode RefuseMembers(const TokenizerFile *file, json_object *owner,
                                    const char *where, int count, const char *const keys[])
{
  for (int i = 0; i < count; i++) {
    json_object *value = Member(owner, keys[i]);
    RengaCheck(IsNothing(value), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "tokenizer %s: %s%s is %.100s, which is not supported", file->name, where, keys[i],
               json_object_to_json_string(value));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode NeedType(const TokenizerFile *file, json_object *owner, const char *where,
                               const char *wanted)
{
  const char *type = json_object_get_string(Member(owner, "type"));
  RengaCheck(type && strcmp(type, wanted) == 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "tokenizer %s: %s is of type %.100s; supported is %s, as of GPT-2", file->name, where,
             type ? type : "none", wanted);
  return RENGA_SUCCESS;
}

/* Of what is read here, what must be an object or an array. */
static RengaErrorCode CheckForms(const TokenizerFile *file)
{
  json_object *added = Member(file->root, "added_tokens");
  RengaCheck(json_object_is_type(file->vocab, json_type_object), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "tokenizer %s: model.vocab is no object of tokens: %.100s",
             file->name, json_object_to_json_string(file->vocab));
  RengaCheck(json_object_is_type(Member(file->model, "merges"), json_type_array), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "tokenizer %s: model.merges is no array: %.100s", file->name,
             json_object_to_json_string(Member(file->model, "merges")));
  RengaCheck(!added || json_object_is_type(added, json_type_array), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "tokenizer %s: added_tokens is no array: %.100s", file->name,
             json_object_to_json_string(added));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckKind(TokenizerFile *file)
{
  static const char *const whole[] = {"normalizer", "truncation", "padding"};
  static const char *const splits[] = {"add_prefix_space"};
  static const char *const models[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                       "byte_fallback", "ignore_merges"};
  json_object *split = Member(file->root, "pre_tokenizer"), *regex = Member(split, "use_regex");
  file->model = Member(file->root, "model");
  file->vocab = Member(file->model, "vocab");
  RengaCheck(file->vocab && Member(file->model, "merges"), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s is no tokenizer.json of byte pairs: its model (%.100s) has no vocab and merges",
             file->name,
             Member(file->model, "type") ? json_object_get_string(Member(file->model, "type"))
                                         : "none");
  RengaCall(NeedType(file, file->model, "model", "BPE"));
  RengaCall(NeedType(file, split, "pre_tokenizer", "ByteLevel"));
  RengaCall(CheckForms(file));
  RengaCall(RefuseMembers(file, file->root, "", 3, whole));
  RengaCall(RefuseMembers(file, split, "pre_tokenizer.", 1, splits));
  RengaCall(RefuseMembers(file, file->model, "model.", 5, models));
  RengaCheck(!regex || json_object_get_boolean(regex), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "tokenizer %s: pre_tokenizer.use_regex is false, which is not supported", file->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode TokenOf(const TokenizerFile *file, const char *text, int32_t *token)
{
  json_object *value = Member(file->vocab, text);
  const int64_t number = value ? json_object_get_int64(value) : -1;
  RengaCheck(value && json_object_is_type(value, json_type_int) && number >= 0 &&
                 number < MOST_TOKENS,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer %s: \"%.100s\" has no token from 0 to %d in its vocab", file->name, text,
             MOST_TOKENS - 1);
  *token = (int32_t)number;
  return RENGA_SUCCESS;
}

static RengaErrorCode CountTokens(TokenizerFile *file)
{
  json_object *added = Member(file->root, "added_tokens");
  json_object_object_foreach(file->vocab, text, value)
  {
    int32_t token;
    (void)value;
    RengaCall(TokenOf(file, text, &token));
    if (token >= file->to->count) file->to->count = token + 1;
  }
  for (size_t i = 0; added && i < json_object_array_length(added); i++) {
    json_object *number = Member(json_object_array_get_idx(added, i), "id");
    const int64_t id = json_object_get_int64(number);
    RengaCheck(json_object_is_type(number, json_type_int) && id >= 0 && id < MOST_TOKENS,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "tokenizer %s: the id of added token %zu, %.100s, is no number from 0 to %d",
               file->name, i, json_object_to_json_string(number), MOST_TOKENS - 1);
    if (id >= file->to->count) file->to->count = id + 1;
  }
  return RENGA_SUCCESS;
}

/* Tokens that stand for themselves in a text, before it is split. */
static RengaErrorCode TakeAdded(TokenizerFile *file)
{
  static const char *const keys[] = {"lstrip", "rstrip", "single_word"};
  json_object *added = Member(file->root, "added_tokens");
  const size_t count = added ? json_object_array_length(added) : 0;
  RengaCall(RengaMalloc(count + 1, &file->to->added));
  for (size_t i = 0; i < count; i++) {
    json_object *token = json_object_array_get_idx(added, i), *content = Member(token, "content");
    RengaAddedToken *to = &file->to->added[file->to->n_added];
    RengaCall(RefuseMembers(file, token, "added_tokens.", 3, keys));
    to->length = content ? json_object_get_string_len(content) : 0; /* 0: no text */
    RengaCheck(to->length > 0 && strlen(json_object_get_string(content)) == (size_t)to->length,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "tokenizer %s: added token %zu has no text as its content: %.100s", file->name, i,
               json_object_to_json_string(content));
    to->token = (int32_t)json_object_get_int64(Member(token, "id"));
    to->special = json_object_get_boolean(Member(token, "special"));
    RengaCall(RengaStringCopy(json_object_get_string(content), &to->text));
    file->to->n_added++;
  }
  return RENGA_SUCCESS;
}

static void SpellSign(uint32_t sign, char text[3])
{
  text[0] = (char)(sign < 0x80 ? sign : 0xc0 | sign >> 6);
  text[1] = (char)(sign < 0x80 ? 0 : 0x80 | (sign & 0x3f));
  text[2] = '\0';
}

static RengaErrorCode FindBytes(TokenizerFile *file)
{
  for (int b = 0; b < 256; b++) {
    char text[3];
    SpellSign(file->sign_of[b], text);
    RengaCall(TokenOf(file, text, &file->to->byte_token[b]));
  }
  return RENGA_SUCCESS;
}

/* "left right" or ["left", "right"]. */
static RengaErrorCode TakeMerge(const TokenizerFile *file, json_object *pair, int64_t m)
{
  const bool list =
      json_object_is_type(pair, json_type_array) && json_object_array_length(pair) == 2;
  const char *left = list ? json_object_get_string(json_object_array_get_idx(pair, 0))
                          : json_object_get_string(pair);
  const char *blank = list || !left ? NULL : strchr(left, ' ');
  const char *right = list    ? json_object_get_string(json_object_array_get_idx(pair, 1))
                      : blank ? blank + 1
                              : NULL;
  RengaCheck(left && right, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer %s: merge %lld is not of two tokens: %.100s", file->name, (long long)m,
             json_object_to_json_string(pair));
  const size_t length = list ? strlen(left) : (size_t)(blank - left), room = length + strlen(right);
  char *text;
  RengaCall(RengaMalloc(room + 1, &text));
  memcpy(text, left, length);
  RengaErrorCode code = TokenOf(file, text, &file->to->merge[m][0]);
  if (!code) code = TokenOf(file, right, &file->to->merge[m][1]);
  strcpy(text + length, right);
  if (!code) code = TokenOf(file, text, &file->to->joined[m]);
  RengaFree(&text);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeMerges(TokenizerFile *file)
{
  json_object *merges = Member(file->model, "merges");
  const size_t count = json_object_array_length(merges);
  RengaCall(RengaMalloc(count + 1, &file->to->merge));
  RengaCall(RengaMalloc(count + 1, &file->to->joined));
  file->to->n_merges = (int64_t)count;
  for (size_t m = 0; m < count; m++)
    RengaCall(TakeMerge(file, json_object_array_get_idx(merges, m), (int64_t)m));
  return RENGA_SUCCESS;
}

/* The bytes of a token of the vocab; to may be NULL. Signs that stand for no byte are kept. */
static int64_t SpellToken(const TokenizerFile *file, const char *text, unsigned char *to)
{
  int64_t length = 0;
  for (const unsigned char *at = (const unsigned char *)text; at && *at;) {
    const bool two = *at >= 0xc0 && *at < 0xe0 && at[1];
    const uint32_t sign = two ? (uint32_t)(*at & 0x1f) << 6 | (at[1] & 0x3f) : *at;
    const int byte = sign < SIGNS && (two || *at < 0x80) ? file->byte_of[sign] : -1;
    if (to) to[length] = byte >= 0 ? (unsigned char)byte : *at;
    length++;
    at += byte >= 0 && two ? 2 : 1;
  }
  return length;
}

static const RengaAddedToken *AddedOf(const TokenizerFile *file, int64_t token)
{
  for (int i = 0; i < file->to->n_added; i++)
    if (file->to->added[i].token == token) return &file->to->added[i];
  return NULL;
}

/* Special tokens stand for no text, other added ones for what they are. */
static RengaErrorCode SpellAll(TokenizerFile *file)
{
  RengaTokenizer *to = file->to;
  json_object_object_foreach(file->vocab, text, value)
  {
    file->text[json_object_get_int64(value)] = text;
  }
  RengaCall(RengaMalloc(to->count + 1, &to->start));
  for (int turn = 0; turn < 2; turn++) {
    for (int64_t t = 0; t < to->count; t++) {
      const RengaAddedToken *added = AddedOf(file, t);
      unsigned char *at = turn ? to->bytes + to->start[t] : NULL;
      int64_t length = added ? (added->special ? 0 : added->length) : 0;
      if (!added) length = SpellToken(file, file->text[t], at);
      if (added && at) memcpy(at, added->text, (size_t)length);
      to->start[t + 1] = to->start[t] + length;
    }
    if (turn == 0) RengaCall(RengaMalloc(to->start[to->count] + 1, &to->bytes));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeTokenizer(TokenizerFile *file)
{
  FillSigns(file);
  RengaCall(CheckKind(file));
  RengaCall(CountTokens(file));
  RengaCall(TakeAdded(file));
  RengaCall(FindBytes(file));
  RengaCall(TakeMerges(file));
  RengaCall(RengaMalloc(file->to->count + 1, &file->text));
  RengaCall(SpellAll(file));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTokenizerParse_Private(const char *name, const char *json, int64_t bytes,
                                           RengaTokenizer *tokenizer)
{
  TokenizerFile file = {.name = name, .to = tokenizer};
  *tokenizer = (RengaTokenizer){0};
  RengaCheck(bytes > 0 && bytes < INT32_MAX, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer %s has %lld bytes", name, (long long)bytes);
  json_tokener *parser = json_tokener_new_ex(64);
  RengaCheck(parser, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room to read tokenizer %s", name);
  file.root = json_tokener_parse_ex(parser, json, (int)bytes);
  const enum json_tokener_error wrong = json_tokener_get_error(parser);
  const size_t at = json_tokener_get_parse_end(parser);
  json_tokener_free(parser);
  RengaErrorCode code = RENGA_SUCCESS;
  if (wrong == json_tokener_success && json_object_is_type(file.root, json_type_object))
    code = TakeTokenizer(&file);
  else
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, __LINE__,
                           "tokenizer %s is no JSON object: %s at byte %zu", name,
                           json_tokener_error_desc(wrong), at);
  if (!code) code = RengaMalloc(bytes, &tokenizer->json);
  if (!code) memcpy(tokenizer->json, json, (size_t)bytes);
  tokenizer->json_bytes = bytes;
  RengaFree(&file.text);
  json_object_put(file.root);
  if (code) RengaTokenizerFree_Private(tokenizer);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaTokenizerFree_Private(RengaTokenizer *tokenizer)
{
  for (int i = 0; i < tokenizer->n_added; i++) RengaFree(&tokenizer->added[i].text);
  RengaFree(&tokenizer->added);
  RengaFree(&tokenizer->merge);
  RengaFree(&tokenizer->joined);
  RengaFree(&tokenizer->start);
  RengaFree(&tokenizer->bytes);
  RengaFree(&tokenizer->json);
  *tokenizer = (RengaTokenizer){0};
}
