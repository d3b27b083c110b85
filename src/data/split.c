/* Data: the words that a tokenizer of Hugging Face joins bytes in, as its type ByteLevel splits
   text: added tokens; 's 't 're 've 'm 'll 'd; runs of letters, of numbers, of other signs, each
   with a blank before it; white space, whose last blank goes with the word that follows. */
#include "vocabulary.h"

#include "unicode.h"
#include "renga/private/open.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef enum { SIGN_SPACE, SIGN_LETTER, SIGN_NUMBER, SIGN_OTHER, SIGN_NONE } SignClass;

/* The code point at a place of a text, and how many bytes it takes; 0: it is no UTF-8. */
static int DecodeSign(const unsigned char text[], int64_t at, int64_t end, uint32_t *code)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char head = text[at];
  const int bytes = head < 0x80 ? 1 : head < 0xc0 ? 0 : head < 0xe0 ? 2 : head < 0xf0 ? 3 : 4;
  if (bytes == 0 || head > 0xf4 || at + bytes > end) return 0;
  *code = bytes == 1 ? head : head & (0x7fu >> bytes);
  for (int i = 1; i < bytes; i++) {
    if ((text[at + i] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (text[at + i] & 0x3f);
  }
  return *code >= least[bytes] && *code <= 0x10ffff && (*code < 0xd800 || *code > 0xdfff) ? bytes
                                                                                          : 0;
}

static bool IsWithin(uint32_t code, size_t count, const uint32_t ranges[][2])
{
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (code > ranges[middle][1])
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && code >= ranges[low][0];
}

static bool IsWhite(uint32_t code)
{
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

/* The text is UTF-8. */
static SignClass ClassOf(const unsigned char text[], int64_t at, int64_t end, int *bytes)
{
  uint32_t code = 0;
  *bytes = at < end ? DecodeSign(text, at, end, &code) : 0;
  if (*bytes == 0) return SIGN_NONE;
  if (IsWhite(code)) return SIGN_SPACE;
  if (IsWithin(code, sizeof renga_letters / sizeof *renga_letters, renga_letters))
    return SIGN_LETTER;
  if (IsWithin(code, sizeof renga_numbers / sizeof *renga_numbers, renga_numbers))
    return SIGN_NUMBER;
  return SIGN_OTHER;
}

/* The end of a run of one class; *last: where its last sign begins. */
static int64_t RunEnd(const unsigned char text[], int64_t at, int64_t end, SignClass class,
                      int64_t *last)
{
  int bytes;
  *last = at;
  while (ClassOf(text, at, end, &bytes) == class) {
    *last = at;
    at += bytes;
  }
  return at;
}

static int64_t ContractionEnd(const unsigned char text[], int64_t at, int64_t end)
{
  static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    const int64_t length = (int64_t)strlen(endings[i]);
    if (at + length <= end && memcmp(text + at, endings[i], (size_t)length) == 0)
      return at + length;
  }
  return at;
}

static int64_t WordEnd(const unsigned char text[], int64_t at, int64_t end)
{
  int bytes, more;
  int64_t last, stop = text[at] == '\'' ? ContractionEnd(text, at, end) : at;
  if (stop > at) return stop;
  SignClass class = ClassOf(text, at, end, &bytes);
  if (text[at] == ' ') {
    const SignClass next = ClassOf(text, at + 1, end, &more);
    if (next != SIGN_SPACE && next != SIGN_NONE) return RunEnd(text, at + 1, end, next, &last);
  }
  stop = RunEnd(text, at, end, class, &last);
  return class == SIGN_SPACE && stop < end && last > at ? last : stop;
}

/* The longest added token that stands there; NULL: none. */
static const RengaAddedToken *AddedAt(const RengaTokenizer *tokenizer, const unsigned char text[],
                                      int64_t at, int64_t end)
{
  const RengaAddedToken *found = NULL;
  for (int i = 0; i < tokenizer->n_added; i++) {
    const RengaAddedToken *token = &tokenizer->added[i];
    if (text[at] == (unsigned char)token->text[0] && at + token->length <= end &&
        (!found || token->length > found->length) &&
        memcmp(text + at, token->text, (size_t)token->length) == 0)
      found = token;
  }
  return found;
}

static RengaErrorCode SplitPart(const unsigned char text[], int64_t at, int64_t end,
                                RengaWordVisitor visit, void *user)
{
  while (at < end) {
    const int64_t stop = WordEnd(text, at, end);
    RengaCall(visit(user, text + at, stop - at));
    at = stop;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTokenizerVisit_Private(const RengaTokenizer *tokenizer,
                                           const unsigned char text[], int64_t length,
                                           RengaWordVisitor visit, void *user)
{
  int64_t begin = 0;
  uint32_t code;
  for (int64_t at = 0, bytes; at < length; at += bytes) {
    bytes = DecodeSign(text, at, length, &code);
    RengaCheck(bytes > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "byte %lld of the text, 0x%02x, is no UTF-8, which a tokenizer needs", (long long)at,
               text[at]);
  }
  for (int64_t at = 0; at < length;) {
    const RengaAddedToken *added = AddedAt(tokenizer, text, at, length);
    if (!added) {
      at++;
      continue;
    }
    RengaCall(SplitPart(text, begin, at, visit, user));
    RengaCall(visit(user, text + at, added->length));
    begin = at += added->length;
  }
  RengaCall(SplitPart(text, begin, length, visit, user));
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitOpenFile(const RengaTokenizer *tokenizer, FILE *file, const char *name,
                                    RengaWordVisitor visit, void *user)
{
  struct stat status;
  unsigned char *text;
  RengaCheck(fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode), MPI_COMM_SELF,
             RENGA_ERR_FILE_OPEN, "text %s is not a regular file", name);
  RengaCall(RengaMalloc(status.st_size + 1, &text));
  const size_t got = fread(text, 1, (size_t)status.st_size, file);
  RengaErrorCode code = RENGA_SUCCESS;
  if (got == (size_t)status.st_size)
    code = RengaTokenizerVisit_Private(tokenizer, text, status.st_size, visit, user);
  RengaFree(&text);
  RengaCall(code);
  RengaCheck(got == (size_t)status.st_size, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "text %s became shorter while it was read", name);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTokenizerVisitFile_Private(const RengaTokenizer *tokenizer, const char *name,
                                               RengaWordVisitor visit, void *user)
{
  FILE *file = RengaFileOpen_Private(name, "rb");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s", name,
             RengaFileReason_Private(errno));
  const RengaErrorCode code = VisitOpenFile(tokenizer, file, name, visit, user);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}
