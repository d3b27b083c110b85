/* Data: how models of a tokenizer.json make tokens of a word: signs that pairs are joined of (with
   bytes for those that have none), the likeliest split (Kudo 2018), the longest pieces from the
   left (Schuster and Nakajima 2012). */
#include "../vocabulary.h"
#include "sign.h"
#include <string.h>

static const double penalty_of_unknown = 10;

static int BytesOfSign(const unsigned char word[], int64_t at, int64_t length)
{
  uint32_t code;
  return RengaSignDecode_Private(word, at, length, &code);
}

/* Tokens of the bytes of a part; false: some have none. */
static bool FallBack(const RengaTokenizer *t, const unsigned char word[], int64_t begin,
                     int64_t end, int32_t token[], int32_t place[], int64_t *n)
{
  for (int64_t i = begin; i < end; i++)
    if (!t->falls_back || t->byte_token[word[i]] < 0) return false;
  for (int64_t i = begin; i < end; i++) {
    token[*n] = t->byte_token[word[i]];
    place[(*n)++] = (int32_t)i;
  }
  return true;
}

/* Unknown signs beside each other are one token, where the file says so; without a token for them
   they are left out. */
static void EncodeSigns(const RengaTokenizer *t, const unsigned char word[], int64_t length,
                        int32_t token[], int32_t begin[], int64_t *n)
{
  bool unknown = false;
  *n = 0;
  for (int64_t at = 0; at < length;) {
    const int bytes = BytesOfSign(word, at, length);
    const int32_t found = RengaPiecesFind_Private(&t->pieces, word + at, bytes);
    if (found >= 0) {
      token[*n] = found;
      begin[(*n)++] = (int32_t)at;
      unknown = false;
    } else if (FallBack(t, word, at, at + bytes, token, begin, n)) {
      unknown = false;
    } else if (t->unknown >= 0 && !(unknown && t->joins_unknown)) {
      token[*n] = t->unknown;
      begin[(*n)++] = (int32_t)at;
      unknown = true;
    }
    at += bytes;
  }
}

/* ---- the likeliest split ---- */
typedef struct {
  double score;
  int32_t token, begin; /* of the last piece; begin -1: nothing ends here */
} SplitEnd;

static void ReachEnd(SplitEnd *end, double score, int32_t token, int64_t begin)
{
  if (end->begin >= 0 && score <= end->score) return;
  *end = (SplitEnd){score, token, (int32_t)begin};
}

/* end: [length + 1] the best way to each place */
static void FindLikeliest(const RengaTokenizer *t, const unsigned char word[], int64_t length,
                          SplitEnd end[])
{
  for (int64_t i = 0; i <= length; i++) end[i].begin = -1;
  for (int64_t at = 0; at < length;) {
    const int bytes = BytesOfSign(word, at, length);
    const double score = at ? end[at].score : 0;
    const int64_t most = length - at < t->pieces.longest ? length - at : t->pieces.longest;
    bool single = false;
    for (int64_t n = bytes; n <= most; n++) {
      if (at + n < length && (word[at + n] & 0xc0) == 0x80) continue;
      const int32_t found = RengaPiecesFind_Private(&t->pieces, word + at, n);
      if (found < 0) continue;
      ReachEnd(&end[at + n], t->score[found] + score, found, at);
      single = single || n == bytes;
    }
    if (!single)
      ReachEnd(&end[at + bytes], t->least_score - penalty_of_unknown + score, t->unknown, at);
    at += bytes;
  }
}

/* Unknown pieces beside each other are one. */
static RengaErrorCode EncodeLikeliest(const RengaTokenizer *t, const unsigned char word[],
                                      int64_t length, int32_t token[], int32_t begin[], int64_t *n)
{
  SplitEnd *end = NULL;
  int64_t at = length, first = length;
  RengaCall(RengaMalloc(length + 1, &end));
  FindLikeliest(t, word, length, end);
  /* from the end, the ends of pieces in the last places of begin */
  while (at > 0) {
    const int64_t stop = at;
    const bool unknown = end[at].token == t->unknown;
    do at = end[at].begin;
    while (unknown && at > 0 && end[at].token == t->unknown);
    end[stop].begin = (int32_t)at;
    begin[--first] = (int32_t)stop;
  }
  *n = 0;
  for (int64_t i = first; i < length; i++) {
    const int64_t stop = begin[i];
    const SplitEnd piece = end[stop];
    if (piece.token == t->unknown && FallBack(t, word, piece.begin, stop, token, begin, n))
      continue;
    token[*n] = piece.token;
    begin[(*n)++] = piece.begin;
  }
  RengaFree(&end);
  return RENGA_SUCCESS;
}

/* ---- the longest pieces ---- */
static int64_t LongestPiece(const RengaTokenizer *t, const unsigned char word[], int64_t at,
                            int64_t length, unsigned char text[], int32_t *found)
{
  const int64_t inside = at > 0 ? (int64_t)strlen(t->inside) : 0;
  if (inside > 0) memcpy(text, t->inside, (size_t)inside);
  for (int64_t n = length - at; n > 0; n--) {
    if (inside + n > t->pieces.longest) continue;
    if (at + n < length && (word[at + n] & 0xc0) == 0x80) continue;
    memcpy(text + inside, word + at, (size_t)n);
    *found = RengaPiecesFind_Private(&t->pieces, text, inside + n);
    if (*found >= 0) return n;
  }
  return 0;
}

/* A word of which a part is in no piece, or that is long, is unknown as a whole. */
static RengaErrorCode EncodeLongest(const RengaTokenizer *t, const unsigned char word[],
                                    int64_t length, int32_t token[], int32_t begin[], int64_t *n)
{
  unsigned char *text = NULL;
  int64_t signs = 0, at = 0;
  for (int64_t i = 0; i < length; i++) signs += (word[i] & 0xc0) != 0x80;
  RengaCall(RengaMalloc(t->pieces.longest + (int64_t)strlen(t->inside) + 1, &text));
  *n = 0;
  while (at < length && signs <= t->most_signs) {
    const int64_t bytes = LongestPiece(t, word, at, length, text, &token[*n]);
    if (bytes == 0) break;
    begin[(*n)++] = (int32_t)at;
    at += bytes;
  }
  RengaFree(&text);
  if (at == length) return RENGA_SUCCESS;
  token[0] = t->unknown;
  begin[0] = 0;
  *n = 1;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaTokenizerEncode_Private(const RengaTokenizer *t, const unsigned char word[],
                                            int64_t length, int32_t token[], int32_t begin[],
                                            int64_t *count)
{
  if (t->model == RENGA_TOKENS_LIKELIEST)
    RengaCall(EncodeLikeliest(t, word, length, token, begin, count));
  else if (t->model == RENGA_TOKENS_LONGEST)
    RengaCall(EncodeLongest(t, word, length, token, begin, count));
  else
    EncodeSigns(t, word, length, token, begin, count);
  return RENGA_SUCCESS;
}
