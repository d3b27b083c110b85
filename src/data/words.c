/* Data: words of a text. A word is a run of letters, of digits, of blanks, of line ends or of other
   bytes, with the blank before it; no byte is lost. Bytes beyond ASCII count as letters, so that
   text in any encoding may be split. */
#include "vocabulary.h"
#include "renga/private/open.h"
#include <errno.h>
#include <string.h>

enum { BLOCK = 4 * 1024 * 1024, LONGEST = 64 };

typedef enum { LETTER, DIGIT, BLANK, LINE_END, OTHER } ByteKind;

static ByteKind KindOfByte(unsigned char byte)
{
  const int lower = byte | 32;
  if (byte >= 0x80 || (lower >= 'a' && lower <= 'z')) return LETTER;
  if (byte >= '0' && byte <= '9') return DIGIT;
  if (byte == '\n' || byte == '\r') return LINE_END;
  return byte == ' ' || byte == '\t' ? BLANK : OTHER;
}

static int64_t WordLength(const unsigned char text[], int64_t left)
{
  int64_t n = 1;
  bool joined =
      left > 1 && text[0] == ' ' && KindOfByte(text[1]) != BLANK && KindOfByte(text[1]) != LINE_END;
  ByteKind kind = KindOfByte(text[joined]);
  n += joined;
  while (n < left && n < LONGEST && KindOfByte(text[n]) == kind) n++;
  if (kind == BLANK && n > 1 && n < left && text[n - 1] == ' ' && KindOfByte(text[n]) != LINE_END)
    n--;
  return n;
}

RengaErrorCode RengaWordsVisit_Private(const unsigned char text[], int64_t length,
                                       RengaWordVisitor visit, void *user)
{
  for (int64_t at = 0, n; at < length; at += n) {
    n = WordLength(text + at, length - at);
    RengaCall(visit(user, text + at, n));
  }
  return RENGA_SUCCESS;
}

/* Words of a block that end in it for sure; of the last block all. *used: their bytes. */
static RengaErrorCode VisitBlock(const unsigned char block[], int64_t length, bool last,
                                 RengaWordVisitor visit, void *user, int64_t *used)
{
  int64_t at = 0;
  while (at < length && (last || length - at > LONGEST + 1)) {
    int64_t n = WordLength(block + at, length - at);
    RengaCall(visit(user, block + at, n));
    at += n;
  }
  *used = at;
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitAll(FILE *file, const char *file_name, unsigned char block[],
                               RengaWordVisitor visit, void *user)
{
  int64_t length = 0, used = 0;
  bool last = false;
  while (!last) {
    length += (int64_t)fread(block + length, 1, (size_t)(BLOCK - length), file);
    RengaCheck(!ferror(file), MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s", file_name,
               RengaFileReason_Private(errno));
    last = length < BLOCK;
    RengaCall(VisitBlock(block, length, last, visit, user, &used));
    length -= used;
    memmove(block, block + used, (size_t)length);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWordsVisitFile_Private(const char *file_name, RengaWordVisitor visit,
                                           void *user)
{
  unsigned char *block = NULL;
  FILE *file = RengaFileOpen_Private(file_name, "rb");
  RengaCheck(file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "text %s: %s", file_name,
             RengaFileReason_Private(errno));
  RengaErrorCode code = RengaMalloc(BLOCK, &block);
  if (code == RENGA_SUCCESS) code = VisitAll(file, file_name, block, visit, user);
  RengaFree(&block);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static int64_t *WordSlotOf(const RengaWords *words, const unsigned char text[], int64_t length)
{
  uint64_t at = RengaHash(text, (size_t)length, 0);
  for (;; at++) {
    int64_t *slot = &words->slot[at & (uint64_t)(words->n_slots - 1)];
    if (*slot == 0) return slot;
    const RengaWord *word = &words->word[*slot - 1];
    if (word->length == length && memcmp(words->bytes + word->at, text, (size_t)length) == 0)
      return slot;
  }
}

static RengaErrorCode GrowWordSlots(RengaWords *words)
{
  RengaFree(&words->slot);
  words->n_slots = words->n_slots > 0 ? 2 * words->n_slots : 1024;
  RengaCall(RengaMalloc(words->n_slots, &words->slot));
  for (int64_t w = 0; w < words->n_words; w++)
    *WordSlotOf(words, words->bytes + words->word[w].at, words->word[w].length) = w + 1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaWordsFind_Private(RengaWords *words, const unsigned char text[], int64_t length,
                                      int64_t *number, bool *is_new)
{
  if (words->n_words * 2 >= words->n_slots) RengaCall(GrowWordSlots(words));
  int64_t *slot = WordSlotOf(words, text, length);
  *is_new = *slot == 0;
  if (*is_new) {
    RengaCall(RengaWordsRoom(words->n_words, &words->word_room, &words->word));
    if (words->n_bytes + length > words->byte_room) {
      words->byte_room = 2 * words->byte_room + length + 64;
      RengaCall(RengaRealloc(words->byte_room, &words->bytes));
    }
    memcpy(words->bytes + words->n_bytes, text, (size_t)length);
    words->word[words->n_words] = (RengaWord){words->n_bytes, (int32_t)length};
    words->n_bytes += length;
    *slot = ++words->n_words;
  }
  *number = *slot - 1;
  return RENGA_SUCCESS;
}

void RengaWordsFree_Private(RengaWords *words)
{
  RengaFree(&words->word);
  RengaFree(&words->bytes);
  RengaFree(&words->slot);
  *words = (RengaWords){0};
}
