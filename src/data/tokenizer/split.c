/* Data: a text on its way to the model of a tokenizer.json: added tokens are found, what lies
   between is normalized, added tokens are found in that, and the rest is split into words. */
#include "../vocabulary.h"
#include "renga/private/open.h"
#include "steps.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
  const RengaTokenizer *tokenizer;
  RengaTokenizerVisitor visit;
  void *user;
  bool places;
} TextSplit;

/* A part of a text; at: where its bytes come from, or NULL; first: it begins the whole. */
typedef struct {
  const unsigned char *bytes;
  int64_t length, base;
  const int64_t *at;
  bool first;
} TextPart;
typedef RengaErrorCode (*PartVisitor)(const TextSplit *s, const TextPart *part);

static bool IsWordSign(uint32_t code)
{
  const uint32_t of_words =
      RengaSignCategories_Private("L", 1) | RengaSignCategories_Private("M", 1) |
      RengaSignCategories_Private("Nd", 2) | RengaSignCategories_Private("Nl", 2) |
      RengaSignCategories_Private("Pc", 2);
  return (RengaSignCategory_Private(code) & of_words) != 0;
}

static int64_t SignBefore(const unsigned char text[], int64_t at, int64_t least)
{
  int64_t begin = at - 1;
  while (begin > least && (text[begin] & 0xc0) == 0x80) begin--;
  return begin;
}

/* Is there a letter before or behind a place? */
static bool IsInWord(const TextPart *part, int64_t begin, int64_t end)
{
  uint32_t code = 0;
  if (begin > 0) {
    const int64_t before = SignBefore(part->bytes, begin, 0);
    if (RengaSignDecode_Private(part->bytes, before, begin, &code) && IsWordSign(code)) return true;
  }
  return RengaSignDecode_Private(part->bytes, end, part->length, &code) && IsWordSign(code);
}

/* The longest added token that stands there; NULL: none. */
static const RengaAddedToken *AddedAt(const RengaTokenizer *tokenizer, bool normalized,
                                      const TextPart *part, int64_t at)
{
  const RengaAddedToken *found = NULL;
  for (int i = 0; i < tokenizer->n_added; i++) {
    const RengaAddedToken *token = &tokenizer->added[i];
    if (token->normalized == normalized && token->changed_length > 0 &&
        part->bytes[at] == (unsigned char)token->changed[0] &&
        at + token->changed_length <= part->length &&
        (!found || token->changed_length > found->changed_length) &&
        memcmp(part->bytes + at, token->changed, (size_t)token->changed_length) == 0)
      found = token;
  }
  return found;
}

static RengaErrorCode VisitSome(const TextSplit *s, const TextPart *part, int64_t begin,
                                int64_t end, PartVisitor visit)
{
  const TextPart some = {.bytes = part->bytes + begin,
                         .length = end - begin,
                         .base = part->base + begin,
                         .at = part->at ? part->at + begin : NULL,
                         .first = part->first && begin == 0};
  if (begin < end) RengaCall(visit(s, &some));
  return RENGA_SUCCESS;
}

/* White space around a token that takes it. */
static void WidenAdded(const RengaAddedToken *token, const TextPart *part, int64_t least,
                       int64_t *begin, int64_t *end)
{
  uint32_t code = 0;
  while (token->left && *begin > least) {
    const int64_t before = SignBefore(part->bytes, *begin, least);
    RengaSignDecode_Private(part->bytes, before, *begin, &code);
    if (!RengaSignIsWhite_Private(code)) break;
    *begin = before;
  }
  while (token->right && *end < part->length) {
    const int bytes = RengaSignDecode_Private(part->bytes, *end, part->length, &code);
    if (!RengaSignIsWhite_Private(code)) break;
    *end += bytes;
  }
}

static RengaErrorCode VisitBetweenAdded(const TextSplit *s, const TextPart *part, bool normalized,
                                        PartVisitor visit)
{
  int64_t done = 0;
  bool any[256] = {false};
  for (int i = 0; i < s->tokenizer->n_added; i++)
    if (s->tokenizer->added[i].normalized == normalized && s->tokenizer->added[i].changed_length)
      any[(unsigned char)s->tokenizer->added[i].changed[0]] = true;
  for (int64_t i = 0; i < part->length;) {
    const RengaAddedToken *token =
        any[part->bytes[i]] ? AddedAt(s->tokenizer, normalized, part, i) : NULL;
    int64_t begin = i, end = token ? i + token->changed_length : i + 1;
    i = end;
    if (!token || (token->single && IsInWord(part, begin, end))) continue;
    WidenAdded(token, part, done, &begin, &end);
    RengaCall(VisitSome(s, part, done, begin, visit));
    const int64_t place = part->at ? part->at[begin] : part->base + begin;
    RengaCall(s->visit(s->user, token->token, part->bytes + begin, end - begin,
                       s->places ? &place : NULL));
    done = i = end;
  }
  RengaCall(VisitSome(s, part, done, part->length, visit));
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitModelWord(void *user, const unsigned char bytes[], int64_t length,
                                     const int64_t at[])
{
  const TextSplit *s = user;
  RengaCall(s->visit(s->user, -1, bytes, length, at));
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitWords(const TextSplit *s, const TextPart *part)
{
  TextSplit own = *s;
  RengaCall(RengaSplitterVisit_Private(s->tokenizer->splitter, part->bytes, part->length, part->at,
                                       part->first, VisitModelWord, &own));
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitNormalized(const TextSplit *s, const TextPart *part)
{
  RengaSignText from = {.places = s->places}, to = from;
  RengaErrorCode code = RENGA_SUCCESS;
  if (!s->places) code = RengaSignTextAdd_Private(&from, part->bytes, part->length, 0);
  for (int64_t i = 0; i < part->length && s->places && !code; i++)
    code = RengaSignTextAdd_Private(&from, part->bytes + i, 1, part->base + i);
  if (!code) code = RengaNormalizerApply_Private(s->tokenizer->normalizer, &from, &to);
  if (!code) {
    const TextPart changed = {
        .bytes = to.bytes, .length = to.length, .at = to.at, .first = part->first};
    code = VisitBetweenAdded(s, &changed, true, VisitWords);
  }
  RengaSignTextFree_Private(&from);
  RengaSignTextFree_Private(&to);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTokenizerVisit_Private(const RengaTokenizer *tokenizer,
                                           const unsigned char text[], int64_t length, bool places,
                                           RengaTokenizerVisitor visit, void *user)
{
  const TextSplit s = {tokenizer, visit, user, places};
  const TextPart whole = {.bytes = text, .length = length, .first = true};
  uint32_t code;
  for (int64_t at = 0, bytes; at < length; at += bytes) {
    bytes = RengaSignDecode_Private(text, at, length, &code);
    RengaCheck(bytes > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "byte %lld of the text, 0x%02x, is no UTF-8, which a tokenizer needs", (long long)at,
               text[at]);
  }
  RengaCall(VisitBetweenAdded(&s, &whole, false, VisitNormalized));
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitOpenFile(const RengaTokenizer *tokenizer, FILE *file, const char *name,
                                    RengaTokenizerVisitor visit, void *user)
{
  struct stat status;
  unsigned char *text;
  RengaCheck(fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode), MPI_COMM_SELF,
             RENGA_ERR_FILE_OPEN, "text %s is not a regular file", name);
  RengaCall(RengaMalloc(status.st_size + 1, &text));
  const size_t got = fread(text, 1, (size_t)status.st_size, file);
  RengaErrorCode code = RENGA_SUCCESS;
  if (got == (size_t)status.st_size)
    code = RengaTokenizerVisit_Private(tokenizer, text, status.st_size, false, visit, user);
  RengaFree(&text);
  RengaCall(code);
  RengaCheck(got == (size_t)status.st_size, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "text %s became shorter while it was read", name);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTokenizerVisitFile_Private(const RengaTokenizer *tokenizer, const char *name,
                                               RengaTokenizerVisitor visit, void *user)
{
  FILE *file = RengaFileOpen_Private(name, "rb");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s", name,
             RengaFileReason_Private(errno));
  const RengaErrorCode code = VisitOpenFile(tokenizer, file, name, visit, user);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}
