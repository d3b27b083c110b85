/* Data: signs of texts: UTF-8, what Unicode says of a sign, and canonical forms (UAX 15). */
#include "sign.h"
#include "unicode.h"
#include <string.h>

#define ROWS(table) (sizeof(table) / sizeof *(table))
enum { HANGUL = 0xac00, HANGUL_L = 0x1100, HANGUL_V = 0x1161, HANGUL_T = 0x11a7 };
enum { N_L = 19, N_V = 21, N_T = 28, N_HANGUL = N_L * N_V * N_T };

int RengaSignDecode_Private(const unsigned char text[], int64_t at, int64_t end, uint32_t *code)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (at >= end) return 0;
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

int RengaSignSpell_Private(uint32_t code, unsigned char to[4])
{
  const int bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (int i = bytes - 1; i > 0; i--) {
    to[i] = (unsigned char)(0x80 | (code & 0x3f));
    code >>= 6;
  }
  to[0] = (unsigned char)(heads[bytes] | code);
  return bytes;
}

/* The row of the run that a sign is in. */
static size_t FindSignRun(size_t rows, const uint32_t runs[][2], uint32_t code)
{
  size_t low = 0, high = rows;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (code >= runs[middle][0])
      low = middle;
    else
      high = middle;
  }
  return low;
}

uint32_t RengaSignCategory_Private(uint32_t code)
{
  const size_t row = FindSignRun(ROWS(renga_category_runs), renga_category_runs, code);
  return UINT32_C(1) << renga_category_runs[row][1];
}

uint32_t RengaSignCategories_Private(const char *name, int length)
{
  uint32_t found = 0;
  for (size_t i = 0; i < sizeof RENGA_CATEGORIES; i += 3)
    if (memcmp(&RENGA_CATEGORIES[i], name, (size_t)length) == 0) found |= UINT32_C(1) << i / 3;
  return found;
}

bool RengaSignIsWhite_Private(uint32_t code)
{
  return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
         code == 0x202f || code == 0x205f || code == 0x3000;
}

uint32_t RengaSignSmall_Private(uint32_t code)
{
  const int64_t wanted = code;
  for (size_t i = 0; i < ROWS(renga_small_letters) && renga_small_letters[i][0] <= wanted; i++) {
    const int32_t *run = renga_small_letters[i];
    if (wanted <= run[1] && (wanted - run[0]) % run[2] == 0) return (uint32_t)(wanted + run[3]);
  }
  return code;
}

/* ---- texts ---- */
RengaErrorCode RengaSignTextAdd_Private(RengaSignText *text, const void *bytes, int64_t length,
                                        int64_t at)
{
  if (length == 0) return RENGA_SUCCESS;
  if (text->length + length > text->room) {
    text->room = 2 * text->room + length + 64;
    RengaCall(RengaRealloc(text->room, &text->bytes));
  }
  if (text->places && text->room > text->at_room) {
    RengaCall(RengaRealloc(text->room, &text->at));
    text->at_room = text->room;
  }
  memcpy(text->bytes + text->length, bytes, (size_t)length);
  for (int64_t i = 0; i < length && text->places; i++) text->at[text->length + i] = at;
  text->length += length;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSignTextAddSign_Private(RengaSignText *text, uint32_t code, int64_t at)
{
  unsigned char bytes[4];
  const int length = RengaSignSpell_Private(code, bytes);
  RengaCall(RengaSignTextAdd_Private(text, bytes, length, at));
  return RENGA_SUCCESS;
}

void RengaSignTextFree_Private(RengaSignText *text)
{
  RengaFree(&text->bytes);
  RengaFree(&text->at);
  text->length = text->room = text->at_room = 0;
}

/* ---- canonical forms ---- */
typedef struct {
  uint32_t code, class;
  int64_t at;
} Sign;
typedef struct {
  int64_t count, room;
  Sign *sign;
} Signs;

static RengaErrorCode PushSign(Signs *signs, uint32_t code, int64_t at)
{
  const uint32_t class =
      renga_combining_runs[FindSignRun(ROWS(renga_combining_runs), renga_combining_runs, code)][1];
  if (signs->count == signs->room) {
    signs->room = 2 * signs->room + 16;
    RengaCall(RengaRealloc(signs->room, &signs->sign));
  }
  signs->sign[signs->count++] = (Sign){code, class, at};
  return RENGA_SUCCESS;
}

/* The row of what a sign is made of; -1: it is made of nothing. */
static int64_t FindDecomposition(uint32_t code)
{
  int64_t low = 0, high = ROWS(renga_decompositions);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (renga_decompositions[middle][0] < code)
      low = middle + 1;
    else
      high = middle;
  }
  return low < (int64_t)ROWS(renga_decompositions) && renga_decompositions[low][0] == code ? low
                                                                                           : -1;
}

static RengaErrorCode PushParts(Signs *signs, uint32_t code, int64_t at)
{
  uint32_t rest[8]; /* of a sign of a sign of a sign */
  int n = 0;
  while (FindDecomposition(code) >= 0) {
    const uint32_t *row = renga_decompositions[FindDecomposition(code)];
    if (row[2]) rest[n++] = row[2];
    code = row[1];
  }
  if (code >= HANGUL && code < HANGUL + N_HANGUL) {
    const uint32_t number = code - HANGUL, last = number % N_T;
    RengaCall(PushSign(signs, HANGUL_L + number / (N_V * N_T), at));
    RengaCall(PushSign(signs, HANGUL_V + number % (N_V * N_T) / N_T, at));
    if (last) RengaCall(PushSign(signs, HANGUL_T + last, at));
  } else {
    RengaCall(PushSign(signs, code, at));
  }
  while (n > 0) RengaCall(PushSign(signs, rest[--n], at));
  return RENGA_SUCCESS;
}

/* Signs of rising class between those of class 0. */
static void OrderSigns(Signs *signs)
{
  for (int64_t i = 1; i < signs->count; i++) {
    const Sign sign = signs->sign[i];
    int64_t k = i;
    for (; k > 0 && sign.class > 0 && signs->sign[k - 1].class > sign.class; k--)
      signs->sign[k] = signs->sign[k - 1];
    signs->sign[k] = sign;
  }
}

/* 0: the two are not composed. */
static uint32_t ComposeSigns(uint32_t one, uint32_t other)
{
  if (one >= HANGUL_L && one < HANGUL_L + N_L && other >= HANGUL_V && other < HANGUL_V + N_V)
    return HANGUL + ((one - HANGUL_L) * N_V + (other - HANGUL_V)) * N_T;
  if (one >= HANGUL && one < HANGUL + N_HANGUL && (one - HANGUL) % N_T == 0 && other > HANGUL_T &&
      other < HANGUL_T + N_T)
    return one + (other - HANGUL_T);
  if (other < 0x300) return 0;
  for (size_t i = 0; i < ROWS(renga_decompositions); i++) {
    const uint32_t *row = renga_decompositions[i];
    if (row[1] == one && row[2] == other && row[3]) return row[0];
  }
  return 0;
}

static void ComposeAll(Signs *signs)
{
  int64_t first = -1, n = 0;
  for (int64_t i = 0; i < signs->count; i++) {
    const Sign sign = signs->sign[i];
    const bool blocked = n > first + 1 && signs->sign[n - 1].class >= sign.class;
    const uint32_t whole =
        first >= 0 && !blocked ? ComposeSigns(signs->sign[first].code, sign.code) : 0;
    if (whole) {
      signs->sign[first].code = whole;
      continue;
    }
    if (sign.class == 0) first = n;
    signs->sign[n++] = sign;
  }
  signs->count = n;
}

/* A part that is closed: no sign of it is composed with others. */
static RengaErrorCode FlushSigns(Signs *signs, bool composed, RengaSignText *to)
{
  OrderSigns(signs);
  if (composed) ComposeAll(signs);
  for (int64_t i = 0; i < signs->count; i++)
    RengaCall(RengaSignTextAddSign_Private(to, signs->sign[i].code, signs->sign[i].at));
  signs->count = 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode NormalizeSigns(const RengaSignText *from, bool composed, Signs *signs,
                                     RengaSignText *to)
{
  uint32_t code = 0;
  for (int64_t i = 0; i < from->length;) {
    const int bytes = RengaSignDecode_Private(from->bytes, i, from->length, &code);
    if (code < 0x80) RengaCall(FlushSigns(signs, composed, to)); /* composed with none before it */
    RengaCall(PushParts(signs, code, from->at ? from->at[i] : i));
    i += bytes;
  }
  RengaCall(FlushSigns(signs, composed, to));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSignNormalize_Private(const RengaSignText *from, bool composed,
                                          RengaSignText *to)
{
  Signs signs = {0};
  const RengaErrorCode code = NormalizeSigns(from, composed, &signs, to);
  RengaFree(&signs.sign);
  RengaCall(code);
  return RENGA_SUCCESS;
}
