/* Data: tokenizer.json of Hugging Face: models BPE (of bytes and of signs), Unigram and WordPiece,
   with normalizers and pre-tokenizers. All else that changes tokens is refused by name. */
#include "../vocabulary.h"
#include "sign.h"
#include "steps.h"
#include <string.h>

enum { MOST_TOKENS = 1 << 24, SIGNS = 0x180 };

typedef struct {
  const char *name; /* of the file, for errors */
  json_object *root, *model, *vocab;
  bool pairs; /* model BPE */
  RengaTokenizer *to;
  int byte_of[SIGNS]; /* what a code point of a token's text stands for; -1: no byte */
  uint32_t sign_of[256];
  const char **text;             /* [count] as in the file, lent by the root; NULL: none */
  const RengaAddedToken **added; /* [count] NULL: the token is not added */
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
    json_object *value = RengaTokenizerMember_Private(owner, keys[i]);
    RengaCheck(IsNothing(value), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "tokenizer %s: %s%s is %.100s, which is not supported", file->name, where, keys[i],
               json_object_to_json_string(value));
  }
  return RENGA_SUCCESS;
}

/* Of what is read here, what must be an object or an array. */
static RengaErrorCode CheckForms(const TokenizerFile *file)
{
  json_object *added = RengaTokenizerMember_Private(file->root, "added_tokens");
  json_object *merges = RengaTokenizerMember_Private(file->model, "merges");
  const bool list = file->to->model == RENGA_TOKENS_LIKELIEST;
  RengaCheck(json_object_is_type(file->vocab, list ? json_type_array : json_type_object),
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer %s: model.vocab is no %s of tokens: %.100s", file->name,
             list ? "list" : "object", json_object_to_json_string(file->vocab));
  RengaCheck(!file->pairs || json_object_is_type(merges, json_type_array), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "tokenizer %s: model.merges is no array: %.100s", file->name,
             json_object_to_json_string(merges));
  RengaCheck(!added || json_object_is_type(added, json_type_array), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "tokenizer %s: added_tokens is no array: %.100s", file->name,
             json_object_to_json_string(added));
  return RENGA_SUCCESS;
}

/* Older files have no type of their model: its members say what it is. */
static RengaErrorCode FindModel(TokenizerFile *file, bool bytes)
{
  static const struct {
    const char *type;
    RengaTokenModel model;
  } known[] = {{"BPE", RENGA_TOKENS_OF_SIGNS},
               {"Unigram", RENGA_TOKENS_LIKELIEST},
               {"WordPiece", RENGA_TOKENS_LONGEST}};
  const char *type = RengaTokenizerText_Private(file->model, "type");
  const bool merges = RengaTokenizerMember_Private(file->model, "merges") != NULL;
  const bool list = json_object_is_type(file->vocab, json_type_array);
  bool found = false;
  if (!type) type = merges ? "BPE" : list ? "Unigram" : "WordPiece";
  for (int k = 0; k < 3; k++) {
    if (strcmp(known[k].type, type) != 0) continue;
    file->to->model = known[k].model;
    found = true;
  }
  file->pairs = found && file->to->model == RENGA_TOKENS_OF_SIGNS;
  if (file->pairs && bytes) file->to->model = RENGA_TOKENS_OF_BYTES;
  RengaCheck(found && file->vocab && (!file->pairs || merges), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s is no tokenizer.json that is known: its model (%.100s) is not BPE with vocab and "
             "merges, Unigram or WordPiece",
             file->name, type);
  RengaCheck(file->pairs || !bytes, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "tokenizer %s: pre_tokenizer ByteLevel with model %s is not supported", file->name,
             type);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckKind(TokenizerFile *file)
{
  static const char *const whole[] = {"truncation", "padding"};
  static const char *const models[] = {"dropout", "continuing_subword_prefix",
                                       "end_of_word_suffix"};
  const char *name = file->name;
  bool bytes;
  file->model = RengaTokenizerMember_Private(file->root, "model");
  file->vocab = RengaTokenizerMember_Private(file->model, "vocab");
  RengaCall(RengaNormalizerCreate_Private(
      name, RengaTokenizerMember_Private(file->root, "normalizer"), &file->to->normalizer));
  RengaCall(RengaSplitterCreate_Private(name,
                                        RengaTokenizerMember_Private(file->root, "pre_tokenizer"),
                                        &file->to->splitter, &bytes));
  RengaCall(FindModel(file, bytes));
  RengaCall(CheckForms(file));
  RengaCall(RefuseMembers(file, file->root, "", 2, whole));
  if (file->pairs) RengaCall(RefuseMembers(file, file->model, "model.", 3, models));
  return RENGA_SUCCESS;
}

static RengaErrorCode TokenOf(const TokenizerFile *file, const char *text, int32_t *token)
{
  json_object *value = RengaTokenizerMember_Private(file->vocab, text);
  const int64_t number = value ? json_object_get_int64(value) : -1;
  RengaCheck(value && json_object_is_type(value, json_type_int) && number >= 0 &&
                 number < MOST_TOKENS,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer %s: \"%.100s\" has no token from 0 to %d in its vocab", file->name, text,
             MOST_TOKENS - 1);
  *token = (int32_t)number;
  return RENGA_SUCCESS;
}

/* [text, score] of each token, in their order */
static RengaErrorCode CheckScoredTexts(const TokenizerFile *file)
{
  const size_t count = json_object_array_length(file->vocab);
  RengaCheck(count < MOST_TOKENS, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer %s has %zu tokens, of at most %d", file->name, count, MOST_TOKENS);
  for (size_t t = 0; t < count; t++) {
    json_object *pair = json_object_array_get_idx(file->vocab, t);
    const bool two =
        json_object_is_type(pair, json_type_array) && json_object_array_length(pair) == 2;
    json_object *score = two ? json_object_array_get_idx(pair, 1) : NULL;
    const bool good =
        two && json_object_is_type(json_object_array_get_idx(pair, 0), json_type_string) &&
        (json_object_is_type(score, json_type_double) || json_object_is_type(score, json_type_int));
    RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "tokenizer %s: token %zu is no text with a score: %.100s", file->name, t,
               json_object_to_json_string(pair));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CountTokens(TokenizerFile *file)
{
  json_object *added = RengaTokenizerMember_Private(file->root, "added_tokens");
  if (file->to->model == RENGA_TOKENS_LIKELIEST) {
    RengaCall(CheckScoredTexts(file));
    file->to->count = (int64_t)json_object_array_length(file->vocab);
  } else {
    json_object_object_foreach(file->vocab, text, value)
    {
      int32_t token;
      (void)value;
      RengaCall(TokenOf(file, text, &token));
      if (token >= file->to->count) file->to->count = token + 1;
    }
  }
  for (size_t i = 0; added && i < json_object_array_length(added); i++) {
    json_object *number = RengaTokenizerMember_Private(json_object_array_get_idx(added, i), "id");
    const int64_t id = json_object_get_int64(number);
    RengaCheck(json_object_is_type(number, json_type_int) && id >= 0 && id < MOST_TOKENS,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "tokenizer %s: the id of added token %zu, %.100s, is no number from 0 to %d",
               file->name, i, json_object_to_json_string(number), MOST_TOKENS - 1);
    if (id >= file->to->count) file->to->count = id + 1;
  }
  return RENGA_SUCCESS;
}

/* As the token looks in a text in which it is searched for. */
static RengaErrorCode FindChanged(const RengaTokenizer *tokenizer, RengaAddedToken *added)
{
  RengaSignText from = {0}, to = {0};
  RengaErrorCode code = RengaSignTextAdd_Private(&from, added->text, added->length, 0);
  if (!code && added->normalized)
    code = RengaNormalizerApply_Private(tokenizer->normalizer, &from, &to);
  const RengaSignText *found = added->normalized ? &to : &from;
  if (!code) code = RengaMalloc(found->length + 1, &added->changed);
  if (!code && found->length > 0) memcpy(added->changed, found->bytes, (size_t)found->length);
  added->changed_length = found->length;
  RengaSignTextFree_Private(&from);
  RengaSignTextFree_Private(&to);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Tokens that stand for themselves in a text, before it is split. */
static RengaErrorCode TakeAdded(TokenizerFile *file)
{
  json_object *added = RengaTokenizerMember_Private(file->root, "added_tokens");
  const size_t count = added ? json_object_array_length(added) : 0;
  RengaCall(RengaMalloc(count + 1, &file->to->added));
  for (size_t i = 0; i < count; i++) {
    json_object *token = json_object_array_get_idx(added, i),
                *content = RengaTokenizerMember_Private(token, "content");
    RengaAddedToken *to = &file->to->added[file->to->n_added];
    to->length = content ? json_object_get_string_len(content) : 0; /* 0: no text */
    RengaCheck(to->length > 0 && strlen(json_object_get_string(content)) == (size_t)to->length,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "tokenizer %s: added token %zu has no text as its content: %.100s", file->name, i,
               json_object_to_json_string(content));
    to->token = (int32_t)json_object_get_int64(RengaTokenizerMember_Private(token, "id"));
    to->special = RengaTokenizerFlag_Private(token, "special", false);
    to->normalized = RengaTokenizerFlag_Private(token, "normalized", !to->special);
    to->left = RengaTokenizerFlag_Private(token, "lstrip", false);
    to->right = RengaTokenizerFlag_Private(token, "rstrip", false);
    to->single = RengaTokenizerFlag_Private(token, "single_word", false);
    RengaCall(RengaStringCopy(json_object_get_string(content), &to->text));
    file->to->n_added++;
    RengaCall(FindChanged(file->to, to));
  }
  return RENGA_SUCCESS;
}

static void SpellSign(uint32_t sign, char text[3])
{
  text[0] = (char)(sign < 0x80 ? sign : 0xc0 | sign >> 6);
  text[1] = (char)(sign < 0x80 ? 0 : 0x80 | (sign & 0x3f));
  text[2] = '\0';
}

/* <0x0A>, of the bytes that have a token */
static void FindFallbacks(TokenizerFile *file)
{
  for (int b = 0; b < 256; b++) {
    char text[8];
    snprintf(text, sizeof text, "<0x%02X>", b);
    file->to->byte_token[b] =
        RengaPiecesFind_Private(&file->to->pieces, (const unsigned char *)text, 6);
  }
}

static RengaErrorCode FindBytes(TokenizerFile *file)
{
  for (int b = 0; b < 256; b++) {
    char text[3];
    SpellSign(file->sign_of[b], text);
    RengaCheck(RengaTokenizerMember_Private(file->vocab, text), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "tokenizer %s: byte 0x%02X has no token, so that texts with it could not be "
               "written; ByteLevel needs all 256 in its vocab (\"%s\" is missing)",
               file->name, b, text);
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
  json_object *merges = RengaTokenizerMember_Private(file->model, "merges");
  const size_t count = json_object_array_length(merges);
  RengaCall(RengaMalloc(count + 1, &file->to->merge));
  RengaCall(RengaMalloc(count + 1, &file->to->joined));
  file->to->n_merges = (int64_t)count;
  for (size_t m = 0; m < count; m++)
    RengaCall(TakeMerge(file, json_object_array_get_idx(merges, m), (int64_t)m));
  return RENGA_SUCCESS;
}

/* A sentencepiece: blanks are signs of their own, and <0x0A> is a byte; to may be NULL. */
static int64_t SpellPiece(const char *text, unsigned char *to)
{
  static const char blank[] = "\xe2\x96\x81";
  unsigned byte;
  int64_t length = 0;
  char rest;
  if (text && strlen(text) == 6 && sscanf(text, "<0x%2x%c", &byte, &rest) == 2 && rest == '>') {
    if (to) to[0] = (unsigned char)byte;
    return 1;
  }
  for (const char *at = text; at && *at; length++) {
    const bool is_blank = strncmp(at, blank, 3) == 0;
    if (to) to[length] = (unsigned char)(is_blank ? ' ' : *at);
    at += is_blank ? 3 : 1;
  }
  return length;
}

/* A piece inside of a word, or a word with a blank before it; to may be NULL. */
static int64_t SpellWordPiece(const char *text, const char *inside, unsigned char *to)
{
  const size_t width = strlen(inside);
  if (!text) return 0;
  const bool is_inside = width > 0 && strncmp(text, inside, width) == 0;
  const char *from = is_inside ? text + width : text;
  if (to && !is_inside) *to++ = ' ';
  if (to) memcpy(to, from, strlen(from));
  return (int64_t)strlen(from) + !is_inside;
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

/* Special tokens stand for no text, other added ones for what they are. */
static RengaErrorCode SpellAll(TokenizerFile *file)
{
  RengaTokenizer *to = file->to;
  RengaCall(RengaMalloc(to->count + 1, &to->start));
  for (int turn = 0; turn < 2; turn++) {
    for (int64_t t = 0; t < to->count; t++) {
      const RengaAddedToken *added = file->added[t];
      unsigned char *at = turn ? to->bytes + to->start[t] : NULL;
      int64_t length = added ? (added->special ? 0 : added->length) : 0;
      if (!added && to->model == RENGA_TOKENS_OF_BYTES)
        length = SpellToken(file, file->text[t], at);
      else if (!added && to->model == RENGA_TOKENS_LONGEST)
        length = SpellWordPiece(file->text[t], to->inside, at);
      else if (!added)
        length = SpellPiece(file->text[t], at);
      if (added && at) memcpy(at, added->text, (size_t)length);
      to->start[t + 1] = to->start[t] + length;
    }
    if (turn == 0) RengaCall(RengaMalloc(to->start[to->count] + 1, &to->bytes));
  }
  return RENGA_SUCCESS;
}

static void FindTexts(TokenizerFile *file)
{
  if (file->to->model != RENGA_TOKENS_LIKELIEST) {
    json_object_object_foreach(file->vocab, text, value)
    {
      file->text[json_object_get_int64(value)] = text;
    }
    return;
  }
  for (size_t t = 0; t < json_object_array_length(file->vocab); t++)
    file->text[t] = json_object_get_string(
        json_object_array_get_idx(json_object_array_get_idx(file->vocab, t), 0));
}

/* Texts as words have them: of bytes the bytes that signs stand for. */
static RengaErrorCode IndexPieces(TokenizerFile *file)
{
  RengaTokenizer *to = file->to;
  const bool bytes = to->model == RENGA_TOKENS_OF_BYTES;
  const char **text = NULL;
  int64_t *length = NULL, room = 0, used = 0;
  unsigned char *spelled = NULL;
  RengaErrorCode code = RengaMalloc(to->count + 1, &text);
  if (!code) code = RengaMalloc(to->count + 1, &length);
  for (int64_t t = 0; t < to->count && !code; t++) {
    text[t] = file->text[t] ? file->text[t] : "";
    length[t] = bytes ? SpellToken(file, text[t], NULL) : (int64_t)strlen(text[t]);
    room += length[t];
  }
  if (!code && bytes) code = RengaMalloc(room + 1, &spelled);
  for (int64_t t = 0; t < to->count && bytes && !code; t++) {
    SpellToken(file, text[t], spelled + used);
    text[t] = (const char *)spelled + used;
    used += length[t];
  }
  if (!code) code = RengaPiecesCreate_Private(to->count, text, length, &to->pieces);
  RengaFree(&text);
  RengaFree(&length);
  RengaFree(&spelled);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeScores(TokenizerFile *file)
{
  const size_t count = json_object_array_length(file->vocab);
  json_object *unknown = RengaTokenizerMember_Private(file->model, "unk_id");
  const int64_t number = unknown ? json_object_get_int64(unknown) : -1;
  RengaCheck(unknown && json_object_is_type(unknown, json_type_int) && number >= 0 &&
                 number < (int64_t)count,
             MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "tokenizer %s: model.unk_id is %.100s, must be one of the %zu tokens", file->name,
             json_object_to_json_string(unknown), count);
  file->to->unknown = (int32_t)number;
  RengaCall(RengaMalloc(file->to->count, &file->to->score));
  for (size_t t = 0; t < count; t++) {
    const double score = json_object_get_double(
        json_object_array_get_idx(json_object_array_get_idx(file->vocab, t), 1));
    file->to->score[t] = score;
    if (t == 0 || score < file->to->least_score) file->to->least_score = score;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeModel(TokenizerFile *file)
{
  RengaTokenizer *to = file->to;
  const char *unknown = RengaTokenizerText_Private(file->model, "unk_token");
  const char *inside = RengaTokenizerText_Private(file->model, "continuing_subword_prefix");
  json_object *most = RengaTokenizerMember_Private(file->model, "max_input_chars_per_word");
  RengaCall(RengaStringCopy(inside ? inside : "##", &to->inside));
  to->most_signs = most ? json_object_get_int64(most) : 100;
  to->falls_back = RengaTokenizerFlag_Private(file->model, "byte_fallback", false);
  to->joins_unknown = RengaTokenizerFlag_Private(file->model, "fuse_unk", false);
  to->whole_first = RengaTokenizerFlag_Private(file->model, "ignore_merges", false);
  to->unknown = unknown ? RengaPiecesFind_Private(&to->pieces, (const unsigned char *)unknown,
                                                  (int64_t)strlen(unknown))
                        : -1;
  RengaCheck(to->model != RENGA_TOKENS_LONGEST || to->unknown >= 0, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "tokenizer %s: model.unk_token is %.100s, which is none of its tokens", file->name,
             unknown ? unknown : "not there");
  if (to->model == RENGA_TOKENS_OF_BYTES)
    RengaCall(FindBytes(file));
  else
    FindFallbacks(file);
  if (to->model == RENGA_TOKENS_LIKELIEST) RengaCall(TakeScores(file));
  if (file->pairs) RengaCall(TakeMerges(file));
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeTokenizer(TokenizerFile *file)
{
  FillSigns(file);
  RengaCall(CheckKind(file));
  RengaCall(CountTokens(file));
  RengaCall(TakeAdded(file));
  RengaCall(RengaMalloc(file->to->count + 1, &file->added));
  for (int i = file->to->n_added - 1; i >= 0; i--) /* of several of a number the first */
    file->added[file->to->added[i].token] = &file->to->added[i];
  RengaCall(RengaMalloc(file->to->count + 1, &file->text));
  FindTexts(file);
  RengaCall(IndexPieces(file));
  RengaCall(TakeModel(file));
  RengaCall(SpellAll(file));
  return RENGA_SUCCESS;
}

/* What follows takes sign by sign of the texts in it. */
static RengaErrorCode CheckSigns(const char *name, const char *json, int64_t bytes)
{
  const unsigned char *text = (const unsigned char *)json;
  uint32_t code;
  for (int64_t at = 0, n; at < bytes; at += n) {
    n = RengaSignDecode_Private(text, at, bytes, &code);
    RengaCheck(n > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "tokenizer %s: byte %lld, 0x%02x, is no text in UTF-8", name, (long long)at,
               text[at]);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTokenizerParse_Private(const char *name, const char *json, int64_t bytes,
                                           RengaTokenizer *tokenizer)
{
  TokenizerFile file = {.name = name, .to = tokenizer};
  *tokenizer = (RengaTokenizer){0};
  RengaCheck(bytes > 0 && bytes < INT32_MAX, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "tokenizer %s has %lld bytes", name, (long long)bytes);
  RengaCall(CheckSigns(name, json, bytes));
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
  RengaFree(&file.added);
  json_object_put(file.root);
  if (code) RengaTokenizerFree_Private(tokenizer);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaTokenizerFree_Private(RengaTokenizer *tokenizer)
{
  for (int i = 0; i < tokenizer->n_added; i++) {
    RengaFree(&tokenizer->added[i].text);
    RengaFree(&tokenizer->added[i].changed);
  }
  RengaFree(&tokenizer->added);
  RengaFree(&tokenizer->merge);
  RengaFree(&tokenizer->joined);
  RengaFree(&tokenizer->start);
  RengaFree(&tokenizer->bytes);
  RengaFree(&tokenizer->json);
  RengaFree(&tokenizer->score);
  RengaFree(&tokenizer->inside);
  RengaPiecesFree_Private(&tokenizer->pieces);
  RengaNormalizerFree_Private(&tokenizer->normalizer);
  RengaSplitterFree_Private(&tokenizer->splitter);
  *tokenizer = (RengaTokenizer){0};
}
