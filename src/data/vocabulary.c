/* Data: a vocabulary of tokens that are bytes or pairs of tokens, and four that stand for no text.
   One of a tokenizer.json has its own numbers, and splits text in its own way. */
#include "vocabulary.h"
#include <string.h>

enum {
  MOST_WORDS = 1 << 20,
  MOST_KEPT = 1 << 24, /* tokens of words that are known */
  LONGEST_TOKEN = 1 << 16,
  LONGEST_WORD = 1 << 30,
  LONG_WORD = 48 /* symbols, from which on a heap is faster */
};

static int64_t *VocabularySlotOf(RengaVocabulary v, int32_t left, int32_t right)
{
  int32_t key[2] = {left, right};
  for (uint64_t at = RengaHash(key, sizeof key, 0);; at++) {
    int64_t *slot = &v->slot[at & (uint64_t)(v->n_slots - 1)];
    if (*slot == 0 || (v->merge[*slot - 1][0] == left && v->merge[*slot - 1][1] == right))
      return slot;
  }
}

/* Pairs are made of what was there before them, and each only once. */
static RengaErrorCode IndexMerges(RengaVocabulary v)
{
  for (v->n_slots = 16; v->n_slots < 2 * v->n_merges; v->n_slots *= 2) continue;
  RengaCall(RengaMalloc(v->n_slots, &v->slot));
  for (int64_t m = 0; m < v->n_merges; m++) {
    const int32_t left = v->merge[m][0], right = v->merge[m][1];
    const int64_t limit = v->tokenizer ? v->count : RENGA_TOKEN_PAIR + m;
    const int32_t least = v->tokenizer ? 0 : RENGA_TOKEN_BYTE;
    bool good = left >= least && right >= least && left < limit && right < limit &&
                *VocabularySlotOf(v, left, right) == 0;
    RengaCheck(
        good, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
        "vocabulary: pair %lld is of tokens %d and %d; each pair is a new one of tokens %d to "
        "%lld",
        (long long)m, left, right, least, (long long)limit - 1);
    *VocabularySlotOf(v, left, right) = m + 1;
  }
  return RENGA_SUCCESS;
}

static int64_t LengthOf(RengaVocabulary v, int32_t token)
{
  return v->start[token + 1] - v->start[token];
}

static RengaErrorCode SpellTokens(RengaVocabulary v)
{
  RengaCall(RengaMalloc(v->count + 1, &v->start));
  for (int64_t t = 0; t < v->count; t++) {
    int64_t length = t >= RENGA_TOKEN_BYTE;
    if (t >= RENGA_TOKEN_PAIR)
      length = LengthOf(v, v->merge[t - RENGA_TOKEN_PAIR][0]) +
               LengthOf(v, v->merge[t - RENGA_TOKEN_PAIR][1]);
    RengaCheck(length <= LONGEST_TOKEN, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "vocabulary: token %lld has %lld bytes", (long long)t, (long long)length);
    v->start[t + 1] = v->start[t] + length;
  }
  RengaCall(RengaMalloc(v->start[v->count] + 1, &v->bytes));
  for (int64_t t = RENGA_TOKEN_BYTE; t < v->count; t++) {
    unsigned char *to = v->bytes + v->start[t];
    if (t < RENGA_TOKEN_PAIR) *to = (unsigned char)(t - RENGA_TOKEN_BYTE);
    for (int side = 0; side < 2 && t >= RENGA_TOKEN_PAIR; side++) {
      const int32_t part = v->merge[t - RENGA_TOKEN_PAIR][side];
      memcpy(to, v->bytes + v->start[part], (size_t)LengthOf(v, part));
      to += LengthOf(v, part);
    }
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaVocabularyCreate_Private(int64_t n_merges, int32_t (*merges)[2],
                                             RengaVocabulary *vocabulary)
{
  RengaVocabulary v = NULL;
  RengaErrorCode code = RengaMalloc(1, &v);
  if (code != RENGA_SUCCESS) RengaFree(&merges);
  RengaCall(code);
  v->n_merges = n_merges;
  v->merge = merges;
  v->count = RENGA_TOKEN_PAIR + n_merges;
  for (int b = 0; b < 256; b++) v->byte_token[b] = RENGA_TOKEN_BYTE + b;
  v->begin_token = RENGA_TOKEN_BEGIN;
  v->padding_token = RENGA_TOKEN_PADDING;
  code = RengaMalloc(n_merges + 1, &v->joined);
  for (int64_t m = 0; m < n_merges && code == RENGA_SUCCESS; m++)
    v->joined[m] = (int32_t)(RENGA_TOKEN_PAIR + m);
  if (code == RENGA_SUCCESS) code = IndexMerges(v);
  if (code == RENGA_SUCCESS) code = SpellTokens(v);
  if (code != RENGA_SUCCESS) RengaVocabularyDestroy(&v);
  RengaCall(code);
  *vocabulary = v;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaVocabularyCreateFromJson_Private(const char *name, const char *json,
                                                     int64_t bytes, RengaVocabulary *vocabulary)
{
  RengaVocabulary v = NULL;
  RengaCall(RengaMalloc(1, &v));
  v->begin_token = v->padding_token = -1;
  RengaErrorCode code = RengaMalloc(1, &v->tokenizer);
  if (!code) code = RengaTokenizerParse_Private(name, json, bytes, v->tokenizer);
  if (!code) {
    RengaTokenizer *tokenizer = v->tokenizer;
    v->count = tokenizer->count;
    v->n_merges = tokenizer->n_merges;
    v->merge = tokenizer->merge;
    v->joined = tokenizer->joined;
    v->start = tokenizer->start;
    v->bytes = tokenizer->bytes;
    memcpy(v->byte_token, tokenizer->byte_token, sizeof v->byte_token);
    tokenizer->merge = NULL;
    tokenizer->joined = NULL;
    tokenizer->start = NULL;
    tokenizer->bytes = NULL;
    code = IndexMerges(v);
  }
  if (code) RengaVocabularyDestroy(&v);
  RengaCall(code);
  *vocabulary = v;
  return RENGA_SUCCESS;
}

bool RengaVocabularyIsTokenizer_Private(RengaVocabulary v)
{
  return v->tokenizer != NULL;
}

/* ---- words ---- */
static int32_t FindMerge(RengaVocabulary v, int32_t left, int32_t right)
{
  return (int32_t)(*VocabularySlotOf(v, left, right) - 1);
}

/* The pair that was joined first, again and again, the leftmost of equal ones. */
static int64_t JoinPairs(RengaVocabulary v, int64_t length, int32_t symbol[], int32_t begin[])
{
  for (;;) {
    int64_t best = v->n_merges, at = 0;
    for (int64_t i = 0; i + 1 < length; i++) {
      const int64_t merge = FindMerge(v, symbol[i], symbol[i + 1]);
      if (merge >= 0 && merge < best) {
        best = merge;
        at = i;
      }
    }
    if (best == v->n_merges) return length;
    symbol[at] = v->joined[best];
    length--;
    memmove(&symbol[at + 1], &symbol[at + 2], (size_t)(length - at - 1) * sizeof *symbol);
    memmove(&begin[at + 1], &begin[at + 2], (size_t)(length - at - 1) * sizeof *begin);
  }
}

/* The same for long words: pairs wait in a heap, and symbols know their neighbours. */
typedef struct {
  int32_t merge, at;
} WaitingPair;
typedef struct {
  RengaVocabulary vocabulary;
  int32_t *symbol, *next, *previous; /* next -1: the last; symbol -1: joined to another */
  int64_t n_waiting;
  WaitingPair *waiting;
} PairHeap;

static bool IsJoinedBefore(WaitingPair one, WaitingPair other)
{
  return one.merge != other.merge ? one.merge < other.merge : one.at < other.at;
}

static void PushWaiting(PairHeap *heap, int32_t at)
{
  const int32_t next = at < 0 ? -1 : heap->next[at];
  const int32_t merge =
      next < 0 ? -1 : FindMerge(heap->vocabulary, heap->symbol[at], heap->symbol[next]);
  if (merge < 0) return;
  const WaitingPair pair = {merge, at};
  int64_t i = heap->n_waiting++;
  for (; i > 0 && IsJoinedBefore(pair, heap->waiting[(i - 1) / 2]); i = (i - 1) / 2)
    heap->waiting[i] = heap->waiting[(i - 1) / 2];
  heap->waiting[i] = pair;
}

static WaitingPair PopWaiting(PairHeap *heap)
{
  const WaitingPair first = heap->waiting[0], last = heap->waiting[--heap->n_waiting];
  int64_t i = 0;
  for (int64_t child = 1; child < heap->n_waiting; child = 2 * i + 1) {
    if (child + 1 < heap->n_waiting &&
        IsJoinedBefore(heap->waiting[child + 1], heap->waiting[child]))
      child++;
    if (!IsJoinedBefore(heap->waiting[child], last)) break;
    heap->waiting[i] = heap->waiting[child];
    i = child;
  }
  heap->waiting[i] = last;
  return first;
}

static void JoinWaiting(PairHeap *heap)
{
  RengaVocabulary v = heap->vocabulary;
  while (heap->n_waiting > 0) {
    const WaitingPair pair = PopWaiting(heap);
    const int32_t left = heap->symbol[pair.at], next = heap->next[pair.at];
    if (left < 0 || next < 0 || left != v->merge[pair.merge][0] ||
        heap->symbol[next] != v->merge[pair.merge][1])
      continue; /* one of the two was joined since */
    heap->symbol[pair.at] = v->joined[pair.merge];
    heap->symbol[next] = -1;
    heap->next[pair.at] = heap->next[next];
    if (heap->next[next] >= 0) heap->previous[heap->next[next]] = pair.at;
    PushWaiting(heap, heap->previous[pair.at]);
    PushWaiting(heap, pair.at);
  }
}

static RengaErrorCode JoinManyPairs(RengaVocabulary v, int64_t *length, int32_t symbol[],
                                    int32_t begin[])
{
  const int64_t count = *length;
  PairHeap heap = {.vocabulary = v, .symbol = symbol};
  RengaErrorCode code = RengaMalloc(count, &heap.next);
  if (!code) code = RengaMalloc(count, &heap.previous);
  if (!code) code = RengaMalloc(3 * count, &heap.waiting); /* two more for each that is joined */
  for (int64_t i = 0; i < count && !code; i++) {
    heap.previous[i] = (int32_t)i - 1;
    heap.next[i] = i + 1 < count ? (int32_t)i + 1 : -1;
  }
  for (int64_t i = 0; i < count && !code; i++) PushWaiting(&heap, (int32_t)i);
  if (!code) JoinWaiting(&heap);
  int64_t n = 0;
  for (int64_t i = 0; i < count && !code; i++) {
    if (symbol[i] < 0) continue;
    symbol[n] = symbol[i];
    begin[n++] = begin[i];
  }
  RengaFree(&heap.next);
  RengaFree(&heap.previous);
  RengaFree(&heap.waiting);
  RengaCall(code);
  *length = n;
  return RENGA_SUCCESS;
}

/* Tokens of a word into room for as many as it has bytes. */
static RengaErrorCode SpellWord(RengaVocabulary v, const unsigned char word[], int64_t length,
                                int32_t symbol[], int32_t begin[], int64_t *count)
{
  const RengaTokenizer *t = v->tokenizer;
  const int32_t whole =
      t && t->whole_first ? RengaPiecesFind_Private(&t->pieces, word, length) : -1;
  *count = length;
  if (whole >= 0) {
    symbol[0] = whole;
    begin[0] = 0;
    *count = 1;
    return RENGA_SUCCESS;
  }
  if (t && t->model != RENGA_TOKENS_OF_BYTES)
    RengaCall(RengaTokenizerEncode_Private(t, word, length, symbol, begin, count));
  else
    for (int64_t i = 0; i < length; i++) {
      symbol[i] = v->byte_token[word[i]];
      begin[i] = (int32_t)i;
    }
  if (t && t->model != RENGA_TOKENS_OF_BYTES && t->model != RENGA_TOKENS_OF_SIGNS)
    return RENGA_SUCCESS;
  if (*count > LONG_WORD)
    RengaCall(JoinManyPairs(v, count, symbol, begin));
  else
    *count = JoinPairs(v, *count, symbol, begin);
  return RENGA_SUCCESS;
}

static RengaErrorCode EncodeWord(RengaVocabulary v, const unsigned char word[], int64_t length)
{
  int64_t n;
  RengaCheck(length <= LONGEST_WORD, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "a word of %lld bytes, which begins with \"%.20s\", is too long for a vocabulary",
             (long long)length, (const char *)word);
  if (v->n_tokens + length > v->token_room) {
    const int64_t room = 2 * v->token_room + length + 1024;
    RengaCall(RengaRealloc(room, &v->token));
    v->token_room = room;
  }
  if (v->token_room > v->begin_room) {
    RengaCall(RengaRealloc(v->token_room, &v->begin));
    v->begin_room = v->token_room;
  }
  RengaCall(RengaWordsRoom(v->words.n_words, &v->first_room, &v->first));
  RengaCall(RengaWordsRoom(v->words.n_words, &v->count_room, &v->counts));
  RengaCall(SpellWord(v, word, length, v->token + v->n_tokens, v->begin + v->n_tokens, &n));
  v->first[v->words.n_words - 1] = v->n_tokens;
  v->counts[v->words.n_words - 1] = (int32_t)n;
  v->n_tokens += n;
  return RENGA_SUCCESS;
}

/* The number of a word whose tokens are known. Long words do not come again. */
static RengaErrorCode KnowWord(RengaVocabulary v, const unsigned char word[], int64_t length,
                               int64_t *number)
{
  bool is_new;
  if (v->words.n_words >= MOST_WORDS || v->n_tokens > MOST_KEPT) {
    RengaWordsFree_Private(&v->words);
    v->n_tokens = 0;
  }
  RengaCall(RengaWordsFind_Private(&v->words, word, length, number, &is_new));
  if (!is_new) return RENGA_SUCCESS;
  const RengaErrorCode code = EncodeWord(v, word, length);
  if (code) RengaWordsFree_Private(&v->words); /* the word is without tokens */
  if (code) v->n_tokens = 0;
  RengaCall(code);
  return RENGA_SUCCESS;
}

typedef struct {
  RengaVocabulary vocabulary;
  RengaTokenVisitor visit;
  void *user;
} TokenVisit;

static RengaErrorCode VisitPiece(void *user, int32_t added, const unsigned char word[],
                                 int64_t length, const int64_t at[])
{
  const TokenVisit *t = user;
  RengaVocabulary v = t->vocabulary;
  int64_t number, *places = NULL;
  if (added >= 0) {
    RengaCall(t->visit(t->user, 1, &added, at));
    return RENGA_SUCCESS;
  }
  RengaCall(KnowWord(v, word, length, &number));
  const int64_t first = v->first[number], count = v->counts[number];
  RengaErrorCode code = at ? RengaMalloc(count + 1, &places) : RENGA_SUCCESS;
  for (int64_t i = 0; i < count && at && !code; i++) places[i] = at[v->begin[first + i]];
  if (!code) code = t->visit(t->user, count, v->token + first, places);
  RengaFree(&places);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode VisitOwnWord(void *user, const unsigned char word[], int64_t length)
{
  RengaCall(VisitPiece(user, -1, word, length, NULL));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaVocabularyVisit_Private(RengaVocabulary v, const unsigned char text[],
                                            int64_t length, bool places, RengaTokenVisitor visit,
                                            void *user)
{
  TokenVisit t = {v, visit, user};
  if (v->tokenizer)
    RengaCall(RengaTokenizerVisit_Private(v->tokenizer, text, length, places, VisitPiece, &t));
  else
    RengaCall(RengaWordsVisit_Private(text, length, VisitOwnWord, &t));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaVocabularyVisitFile_Private(RengaVocabulary v, const char *file_name,
                                                RengaTokenVisitor visit, void *user)
{
  TokenVisit t = {v, visit, user};
  if (v->tokenizer)
    RengaCall(RengaTokenizerVisitFile_Private(v->tokenizer, file_name, VisitPiece, &t));
  else
    RengaCall(RengaWordsVisitFile_Private(file_name, VisitOwnWord, &t));
  return RENGA_SUCCESS;
}

typedef struct {
  RengaWords words;
  int64_t *counts, room;
} Counting;

static RengaErrorCode CountVocabularyWord(void *user, const unsigned char word[], int64_t length)
{
  Counting *counting = user;
  int64_t number;
  bool is_new;
  RengaCall(RengaWordsFind_Private(&counting->words, word, length, &number, &is_new));
  RengaCall(RengaWordsRoom(counting->words.n_words, &counting->room, &counting->counts));
  if (is_new) counting->counts[number] = 0;
  counting->counts[number]++;
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyTrain - find the byte pairs of some texts

   Input:
   . n_files, files - the texts, of any bytes
   . kinds - the most tokens, at least 260: four for no text, 256 bytes, and the pairs that are most
     frequent

   Output:
   . vocabulary - end it with RengaVocabularyDestroy; it may have fewer kinds, where no pair is left
     that occurs twice

   Errors: RENGA_ERR_ARGUMENT for fewer kinds of tokens than there are bytes and four;
   RENGA_ERR_FILE_OPEN where a text cannot be read.

   Notes: pairs do not reach over words. The same texts give the same vocabulary. Source: Sennrich,
   Haddow, Birch 2016.

   See also: RengaVocabularyWrite(), RengaVocabularyEncode(), RengaVocabularyDestroy()
@*/
RengaErrorCode RengaVocabularyTrain(int n_files, const char *const files[], int64_t kinds,
                                    RengaVocabulary *vocabulary)
{
  Counting counting = {0};
  int64_t n_merges = 0;
  int32_t(*merges)[2] = NULL;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCheck(kinds >= RENGA_TOKEN_PAIR && kinds <= INT32_MAX, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a vocabulary of %lld kinds of tokens; it has at least %d, one for each byte and four "
             "for no text",
             (long long)kinds, RENGA_TOKEN_PAIR);
  for (int f = 0; f < n_files && code == RENGA_SUCCESS; f++)
    code = RengaWordsVisitFile_Private(files[f], CountVocabularyWord, &counting);
  if (code == RENGA_SUCCESS)
    code = RengaBytePairsFind_Private(&counting.words, counting.counts, kinds, &n_merges, &merges);
  RengaWordsFree_Private(&counting.words);
  RengaFree(&counting.counts);
  if (code == RENGA_SUCCESS) code = RengaVocabularyCreate_Private(n_merges, merges, vocabulary);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyGetCount - the kinds of tokens

   Output:
   . kinds - the number of different tokens: each token is at least 0 and less than this

   See also: RengaVocabularyTrain()
@*/
RengaErrorCode RengaVocabularyGetCount(RengaVocabulary vocabulary, int64_t *kinds)
{
  RengaCheckPointers(vocabulary, kinds);
  *kinds = vocabulary->count;
  return RENGA_SUCCESS;
}

typedef struct {
  int64_t count, room, place_room;
  int64_t *tokens, *places;
} Encoding;

static RengaErrorCode AddVocabularyTokens(void *user, int64_t n, const int32_t tokens[],
                                          const int64_t places[])
{
  Encoding *e = user;
  for (int64_t i = 0; i < n; i++) {
    RengaCall(RengaWordsRoom(e->count, &e->room, &e->tokens));
    if (places) RengaCall(RengaWordsRoom(e->count, &e->place_room, &e->places));
    if (places) e->places[e->count] = places[i];
    e->tokens[e->count++] = tokens[i];
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaVocabularyEncodePlaces_Private(RengaVocabulary vocabulary, const char *text,
                                                   int64_t length, int64_t *count, int64_t **tokens,
                                                   int64_t **places)
{
  Encoding e = {0};
  const RengaErrorCode code = RengaVocabularyVisit_Private(vocabulary, (const unsigned char *)text,
                                                           length, true, AddVocabularyTokens, &e);
  if (code) RengaFree(&e.tokens);
  if (code) RengaFree(&e.places);
  RengaCall(code);
  *count = e.count;
  *tokens = e.tokens;
  *places = e.places;
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyEncode - the tokens of a text

   Input:
   . text, length - any bytes

   Output:
   . count - the number of tokens, at least 0
   . tokens - free them with RengaFree; NULL where there are none

   Errors: RENGA_ERR_FILE_FORMAT for a text that is not UTF-8, where the vocabulary is a
   tokenizer's.

   See also: RengaVocabularyDecode(), RengaVocabularyRead()
@*/
RengaErrorCode RengaVocabularyEncode(RengaVocabulary vocabulary, const char *text, int64_t length,
                                     int64_t *count, int64_t **tokens)
{
  RengaCheckPointers(vocabulary, count, tokens);
  Encoding e = {0};
  RengaErrorCode code = RengaVocabularyVisit_Private(vocabulary, (const unsigned char *)text,
                                                     length, false, AddVocabularyTokens, &e);
  if (code != RENGA_SUCCESS) RengaFree(&e.tokens);
  RengaCall(code);
  *count = e.count;
  *tokens = e.tokens;
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyDecode - the text of a token

   Input:
   . token - 0 to the kinds - 1

   Output:
   . text - its bytes, lent; not ended by a zero
   . length - their number; 0 where the token stands for no text

   Errors: RENGA_ERR_ARGUMENT for a token that the vocabulary does not have.

   See also: RengaVocabularyEncode()
@*/
RengaErrorCode RengaVocabularyDecode(RengaVocabulary vocabulary, int64_t token, const char **text,
                                     int64_t *length)
{
  RengaCheckPointers(vocabulary, text, length);
  RengaCheck(token >= 0 && token < vocabulary->count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "token %lld is none of the %lld kinds", (long long)token,
             (long long)vocabulary->count);
  *text = (const char *)vocabulary->bytes + vocabulary->start[token];
  *length = LengthOf(vocabulary, (int32_t)token);
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyDestroy - end a vocabulary

   Input:
   . vocabulary - set to NULL; NULL is allowed

   See also: RengaVocabularyTrain(), RengaVocabularyRead()
@*/
RengaErrorCode RengaVocabularyDestroy(RengaVocabulary *vocabulary)
{
  RengaCheckPointer(vocabulary);
  RengaVocabulary v = *vocabulary;
  if (v == NULL) return RENGA_SUCCESS;
  if (v->tokenizer) RengaTokenizerFree_Private(v->tokenizer);
  RengaFree(&v->tokenizer);
  RengaFree(&v->merge);
  RengaFree(&v->joined);
  RengaFree(&v->slot);
  RengaFree(&v->start);
  RengaFree(&v->bytes);
  RengaFree(&v->first);
  RengaFree(&v->token);
  RengaFree(&v->begin);
  RengaFree(&v->counts);
  RengaWordsFree_Private(&v->words);
  RengaFree(vocabulary);
  return RENGA_SUCCESS;
}
