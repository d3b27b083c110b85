/* Data: byte-pair encoding (Sennrich, Haddow, Birch: Neural machine translation of rare words with
   subword units, 2016, algorithm 1): begin with bytes, join the pair of neighbours that is most
   frequent, until there are as many kinds of tokens as wanted.

   Pairs stand in a hash table with their count and the words that had them; a heap gives the most
   frequent. Counts in the heap may be old: an entry that is too high is put back with the right
   one, one that is too low has a better one in the heap. Of equally frequent pairs the one with the
   smaller tokens is joined, so that the result depends on the text alone. */
#include "vocabulary.h"

typedef struct {
  int32_t left, right;
  int64_t count;
  int64_t places; /* first of its list, -1: none */
} BytePair;

typedef struct {
  int64_t word, next;
} PairPlace;

typedef struct {
  int64_t count;
  int64_t pair;
} Candidate;

typedef struct {
  const RengaWords *words;
  const int64_t *counts; /* of the words */
  int32_t *symbol;       /* the symbols of word w begin where its bytes do */
  int32_t *length;       /* in symbols */
  int64_t n_pairs, pair_room, n_slots, n_places, place_room, n_heap, heap_room;
  BytePair *pair;
  int64_t *slot;
  PairPlace *place;
  Candidate *heap;
} Joiner;

static int64_t *PairSlotOf(const Joiner *j, int32_t left, int32_t right)
{
  int32_t key[2] = {left, right};
  for (uint64_t at = RengaHash(key, sizeof key, 0);; at++) {
    int64_t *slot = &j->slot[at & (uint64_t)(j->n_slots - 1)];
    if (*slot == 0 || (j->pair[*slot - 1].left == left && j->pair[*slot - 1].right == right))
      return slot;
  }
}

static RengaErrorCode FindPair(Joiner *j, int32_t left, int32_t right, int64_t *pair)
{
  if (j->n_pairs * 2 >= j->n_slots) {
    RengaFree(&j->slot);
    j->n_slots = j->n_slots > 0 ? 2 * j->n_slots : 4096;
    RengaCall(RengaMalloc(j->n_slots, &j->slot));
    for (int64_t p = 0; p < j->n_pairs; p++)
      *PairSlotOf(j, j->pair[p].left, j->pair[p].right) = p + 1;
  }
  int64_t *slot = PairSlotOf(j, left, right);
  if (*slot == 0) {
    RengaCall(RengaWordsRoom(j->n_pairs, &j->pair_room, &j->pair));
    j->pair[j->n_pairs] = (BytePair){left, right, 0, -1};
    *slot = ++j->n_pairs;
  }
  *pair = *slot - 1;
  return RENGA_SUCCESS;
}

/* Is a to be joined before b? */
static bool IsBefore(const Joiner *j, const Candidate *a, const Candidate *b)
{
  const BytePair *p = &j->pair[a->pair], *q = &j->pair[b->pair];
  if (a->count != b->count) return a->count > b->count;
  return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static RengaErrorCode PushPair(Joiner *j, int64_t pair)
{
  RengaCall(RengaWordsRoom(j->n_heap, &j->heap_room, &j->heap));
  const Candidate made = {j->pair[pair].count, pair};
  int64_t at = j->n_heap++;
  for (; at > 0 && IsBefore(j, &made, &j->heap[(at - 1) / 2]); at = (at - 1) / 2)
    j->heap[at] = j->heap[(at - 1) / 2];
  j->heap[at] = made;
  return RENGA_SUCCESS;
}

static Candidate Pop(Joiner *j)
{
  const Candidate top = j->heap[0], last = j->heap[--j->n_heap];
  int64_t at = 0;
  for (int64_t child = 1; child < j->n_heap; child = 2 * at + 1) {
    if (child + 1 < j->n_heap && IsBefore(j, &j->heap[child + 1], &j->heap[child])) child++;
    if (!IsBefore(j, &j->heap[child], &last)) break;
    j->heap[at] = j->heap[child];
    at = child;
  }
  if (j->n_heap > 0) j->heap[at] = last;
  return top;
}

/* The pairs of a word, sign times its count; new ones, those with the token made (-1: all), learn
   of the word. */
static RengaErrorCode CountPairsOf(Joiner *j, int64_t word, int64_t sign, int32_t made)
{
  const int32_t *symbol = j->symbol + j->words->word[word].at;
  for (int32_t i = 0; i + 1 < j->length[word]; i++) {
    int64_t pair = 0;
    RengaCall(FindPair(j, symbol[i], symbol[i + 1], &pair));
    j->pair[pair].count += sign * j->counts[word];
    if (sign < 0 || (made >= 0 && symbol[i] != made && symbol[i + 1] != made)) continue;
    RengaCall(RengaWordsRoom(j->n_places, &j->place_room, &j->place));
    j->place[j->n_places] = (PairPlace){word, j->pair[pair].places};
    j->pair[pair].places = j->n_places++;
    if (made >= 0) RengaCall(PushPair(j, pair));
  }
  return RENGA_SUCCESS;
}

static bool HasPair(const int32_t symbol[], int32_t length, int32_t left, int32_t right)
{
  for (int32_t i = 0; i + 1 < length; i++)
    if (symbol[i] == left && symbol[i + 1] == right) return true;
  return false;
}

static void JoinIn(int32_t symbol[], int32_t *length, int32_t left, int32_t right, int32_t made)
{
  int32_t n = 0;
  for (int32_t i = 0; i < *length; i++) {
    bool joined = i + 1 < *length && symbol[i] == left && symbol[i + 1] == right;
    symbol[n++] = joined ? made : symbol[i];
    i += joined;
  }
  *length = n;
}

static RengaErrorCode JoinPair(Joiner *j, int64_t pair, int32_t made)
{
  const int32_t left = j->pair[pair].left, right = j->pair[pair].right;
  for (int64_t place = j->pair[pair].places; place >= 0; place = j->place[place].next) {
    const int64_t word = j->place[place].word;
    int32_t *symbol = j->symbol + j->words->word[word].at;
    if (!HasPair(symbol, j->length[word], left, right)) continue;
    RengaCall(CountPairsOf(j, word, -1, made));
    JoinIn(symbol, &j->length[word], left, right, made);
    RengaCall(CountPairsOf(j, word, 1, made));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode BeginMerges(Joiner *j)
{
  RengaCall(RengaMalloc(j->words->n_bytes + 1, &j->symbol));
  RengaCall(RengaMalloc(j->words->n_words + 1, &j->length));
  for (int64_t i = 0; i < j->words->n_bytes; i++)
    j->symbol[i] = RENGA_TOKEN_BYTE + j->words->bytes[i];
  for (int64_t w = 0; w < j->words->n_words; w++) {
    j->length[w] = j->words->word[w].length;
    RengaCall(CountPairsOf(j, w, 1, -1));
  }
  for (int64_t p = 0; p < j->n_pairs; p++) RengaCall(PushPair(j, p));
  return RENGA_SUCCESS;
}

/* The most frequent pair, which occurs at least twice; -1: there is none. */
static RengaErrorCode TakeBestPair(Joiner *j, int64_t *pair)
{
  *pair = -1;
  while (j->n_heap > 0 && *pair < 0) {
    const Candidate best = Pop(j);
    const int64_t count = j->pair[best.pair].count;
    if (count == best.count && count >= 2) *pair = best.pair;
    if (count < best.count && count >= 2) RengaCall(PushPair(j, best.pair));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode JoinAll(Joiner *j, int64_t most, int64_t *n_merges, int32_t (*merges)[2])
{
  RengaCall(BeginMerges(j));
  *n_merges = 0;
  while (*n_merges < most) {
    int64_t pair = 0;
    RengaCall(TakeBestPair(j, &pair));
    if (pair < 0) break;
    merges[*n_merges][0] = j->pair[pair].left;
    merges[*n_merges][1] = j->pair[pair].right;
    RengaCall(JoinPair(j, pair, (int32_t)(RENGA_TOKEN_PAIR + *n_merges)));
    (*n_merges)++;
  }
  return RENGA_SUCCESS;
}

/* kinds: of tokens at the most. *merges is the caller's. */
RengaErrorCode RengaBytePairsFind_Private(const RengaWords *words, const int64_t counts[],
                                          int64_t kinds, int64_t *n_merges, int32_t (**merges)[2])
{
  Joiner j = {.words = words, .counts = counts};
  int64_t most = kinds - RENGA_TOKEN_PAIR;
  if (most > words->n_bytes) most = words->n_bytes; /* each joins two tokens somewhere */
  RengaCall(RengaMalloc(most + 1, merges));
  RengaErrorCode code = JoinAll(&j, most, n_merges, *merges);
  RengaFree(&j.symbol);
  RengaFree(&j.length);
  RengaFree(&j.pair);
  RengaFree(&j.slot);
  RengaFree(&j.place);
  RengaFree(&j.heap);
  if (code != RENGA_SUCCESS) RengaFree(merges);
  RengaCall(code);
  return RENGA_SUCCESS;
}
