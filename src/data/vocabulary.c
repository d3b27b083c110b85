/* Data: a vocabulary of tokens that are bytes or pairs of tokens, and four that stand for no text.
   As a text file it is a line that says so, then the two tokens of each pair. */
#include "vocabulary.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 1 << 20, LONGEST_TOKEN = 1 << 16 };
static const char title[] = "Renga byte-pair vocabulary";

struct _p_RengaVocabulary {
  int64_t count, n_merges;
  int32_t (*merge)[2];
  int64_t n_slots, *slot; /* open addressing by pair: merge + 1, 0 where free */
  int64_t *start;         /* [count + 1] the text of a token in bytes */
  unsigned char *bytes;
  /* words that were encoded before */
  RengaWords words;
  int64_t first_room, token_room, n_tokens;
  int64_t *first; /* [words] their first token */
  int32_t *token;
  unsigned char *counts; /* [words] of tokens */
  int64_t count_room;
};

static int64_t *SlotOf(RengaVocabulary v, int32_t left, int32_t right)
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
    const int64_t limit = RENGA_TOKEN_PAIR + m;
    bool good = left >= RENGA_TOKEN_BYTE && right >= RENGA_TOKEN_BYTE && left < limit &&
                right < limit && *SlotOf(v, left, right) == 0;
    RengaCheck(
        good, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
        "vocabulary: pair %lld is of tokens %d and %d; each pair is a new one of tokens %d to "
        "%lld",
        (long long)m, left, right, RENGA_TOKEN_BYTE, (long long)limit - 1);
    *SlotOf(v, left, right) = m + 1;
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
  code = IndexMerges(v);
  if (code == RENGA_SUCCESS) code = SpellTokens(v);
  if (code != RENGA_SUCCESS) RengaVocabularyDestroy(&v);
  RengaCall(code);
  *vocabulary = v;
  return RENGA_SUCCESS;
}

/* The pair that was joined first, again and again. */
static int64_t JoinPairs(RengaVocabulary v, int64_t length, int32_t symbol[])
{
  for (;;) {
    int64_t best = v->n_merges, n = 0;
    for (int64_t i = 0; i + 1 < length; i++) {
      int64_t merge = *SlotOf(v, symbol[i], symbol[i + 1]) - 1;
      if (merge >= 0 && merge < best) best = merge;
    }
    if (best == v->n_merges) return length;
    for (int64_t i = 0; i < length; i++) {
      bool joined =
          i + 1 < length && symbol[i] == v->merge[best][0] && symbol[i + 1] == v->merge[best][1];
      symbol[n++] = joined ? (int32_t)(RENGA_TOKEN_PAIR + best) : symbol[i];
      i += joined;
    }
    length = n;
  }
}

static RengaErrorCode EncodeWord(RengaVocabulary v, const unsigned char word[], int64_t length)
{
  while (v->n_tokens + length > v->token_room) {
    v->token_room = v->token_room * 2 + 1024;
    RengaCall(RengaRealloc(v->token_room, &v->token));
  }
  RengaCall(RengaWordsRoom(v->words.n_words, &v->first_room, &v->first));
  RengaCall(RengaWordsRoom(v->words.n_words, &v->count_room, &v->counts));
  int32_t *symbol = v->token + v->n_tokens;
  for (int64_t i = 0; i < length; i++) symbol[i] = RENGA_TOKEN_BYTE + word[i];
  int64_t n = JoinPairs(v, length, symbol);
  v->first[v->words.n_words - 1] = v->n_tokens;
  v->counts[v->words.n_words - 1] = (unsigned char)n;
  v->n_tokens += n;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaVocabularyGetWord_Private(RengaVocabulary v, const unsigned char word[],
                                              int64_t length, int64_t *count,
                                              const int32_t **tokens)
{
  int64_t number;
  bool is_new;
  if (v->words.n_words >= MOST_WORDS) {
    RengaWordsFree_Private(&v->words);
    v->n_tokens = 0;
  }
  RengaCall(RengaWordsFind_Private(&v->words, word, length, &number, &is_new));
  if (is_new) RengaCall(EncodeWord(v, word, length));
  *count = v->counts[number];
  *tokens = v->token + v->first[number];
  return RENGA_SUCCESS;
}

typedef struct {
  RengaWords words;
  int64_t *counts, room;
} Counting;

static RengaErrorCode CountWord(void *user, const unsigned char word[], int64_t length)
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

   Not collective

   Input:
   . n_files, files - the texts, of any bytes
   . kinds - of tokens at the most, at least 260: four for no text, 256 bytes, and the pairs that
     are most frequent

   Output:
   . vocabulary - end it with RengaVocabularyDestroy; it may have fewer kinds, where no pair is left
     that occurs twice

   Notes: pairs do not reach over words. The same texts give the same vocabulary. Source: Sennrich,
   Haddow, Birch 2016.
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
    code = RengaWordsVisitFile_Private(files[f], CountWord, &counting);
  if (code == RENGA_SUCCESS)
    code = RengaBytePairsFind_Private(&counting.words, counting.counts, kinds, &n_merges, &merges);
  RengaWordsFree_Private(&counting.words);
  RengaFree(&counting.counts);
  if (code == RENGA_SUCCESS) code = RengaVocabularyCreate_Private(n_merges, merges, vocabulary);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadPairs(FILE *file, const char *name, int64_t *count, int32_t (**merges)[2])
{
  char line[256] = "";
  int64_t room = 0;
  bool known = fgets(line, sizeof line, file) && strncmp(line, title, sizeof title - 1) == 0;
  RengaCheck(known, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s is no vocabulary: it does not begin with \"%s\"", name, title);
  while (fgets(line, sizeof line, file)) {
    char *end, *more;
    long left = strtol(line, &end, 10), right = strtol(end, &more, 10);
    RengaCheck(end != line && more != end && *more == '\n' && left >= 0 && right >= 0 &&
                   left <= INT32_MAX && right <= INT32_MAX,
               MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "vocabulary %s, line %lld: two tokens are expected, not \"%.*s\"", name,
               (long long)*count + 2, (int)strcspn(line, "\n"), line);
    RengaCall(RengaWordsRoom(*count, &room, merges));
    (*merges)[*count][0] = (int32_t)left;
    (*merges)[*count][1] = (int32_t)right;
    (*count)++;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadText(const char *name, int64_t *count, int32_t (**merges)[2])
{
  FILE *file = fopen(name, "rb");
  RengaCheck(file != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "vocabulary %s: %s", name,
             strerror(errno));
  RengaErrorCode code = ReadPairs(file, name, count, merges);
  fclose(file);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadDataset(RengaHdf5File file, const char *name, RengaHdf5Dataset *dataset,
                                  int64_t *count, int32_t (**merges)[2])
{
  RengaCheck(RengaHdf5Has(file, "/vocabulary"), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "data set %s has no vocabulary: its tokens are bytes or of another program", name);
  RengaCall(RengaHdf5DatasetOpen(file, "/vocabulary", dataset));
  const RengaTensorSpec *spec = RengaHdf5DatasetSpec(*dataset);
  RengaCheck(spec->type == RENGA_INT32 && spec->ndim == 2 && spec->dim[1] == 2, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s is no list of pairs", RengaHdf5DatasetName(*dataset));
  RengaCall(RengaMalloc(spec->dim[0] + 1, merges));
  if (spec->dim[0] > 0) RengaCall(RengaHdf5Read(*dataset, 0, 0, spec->dim[0], *merges));
  *count = spec->dim[0];
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadHdf5(const char *name, int64_t *count, int32_t (**merges)[2])
{
  RengaHdf5File file = NULL;
  RengaHdf5Dataset dataset = NULL;
  RengaCall(RengaHdf5Open(name, &file));
  RengaErrorCode code = ReadDataset(file, name, &dataset, count, merges);
  RengaCall(RengaHdf5DatasetClose(&dataset));
  RengaCall(RengaHdf5Close(&file));
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool BeginsAsHdf5(const char *name)
{
  static const char magic[] = "\x89HDF\r\n\x1a\n";
  char begin[8] = "";
  FILE *file = fopen(name, "rb");
  bool is = file != NULL && fread(begin, 1, 8, file) == 8 && memcmp(begin, magic, 8) == 0;
  if (file != NULL) fclose(file);
  return is;
}

/*@
   RengaVocabularyRead - a vocabulary from its own file or from a data set

   Not collective

   Input:
   . file - as RengaVocabularyWrite makes it, or a data set that was made with a vocabulary

   Output:
   . vocabulary - end it with RengaVocabularyDestroy
@*/
RengaErrorCode RengaVocabularyRead(const char *file, RengaVocabulary *vocabulary)
{
  int64_t count = 0;
  int32_t(*merges)[2] = NULL;
  RengaCheckPointer(file);
  RengaCheckPointer(vocabulary);
  RengaErrorCode code =
      BeginsAsHdf5(file) ? ReadHdf5(file, &count, &merges) : ReadText(file, &count, &merges);
  if (code != RENGA_SUCCESS) RengaFree(&merges);
  RengaCall(code);
  RengaCall(RengaVocabularyCreate_Private(count, merges, vocabulary));
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyWrite - keep a vocabulary as a text file

   Not collective

   Input:
   . vocabulary - the vocabulary
   . file - to be made or replaced
@*/
RengaErrorCode RengaVocabularyWrite(RengaVocabulary vocabulary, const char *file)
{
  RengaCheckPointer(vocabulary);
  RengaCheckPointer(file);
  FILE *out = fopen(file, "wb");
  RengaCheck(out != NULL, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "vocabulary %s: %s", file,
             strerror(errno));
  fprintf(out, "%s, %lld kinds of tokens: 4 for no text, 256 bytes, then these pairs\n", title,
          (long long)vocabulary->count);
  for (int64_t m = 0; m < vocabulary->n_merges; m++)
    fprintf(out, "%d %d\n", vocabulary->merge[m][0], vocabulary->merge[m][1]);
  bool good = !ferror(out);
  good = fclose(out) == 0 && good;
  RengaCheck(good, MPI_COMM_SELF, RENGA_ERR_FILE_WRITE, "vocabulary %s: %s", file, strerror(errno));
  return RENGA_SUCCESS;
}

/* The pairs, and what data sets of one vocabulary have in common. */
RengaErrorCode RengaVocabularyPut_Private(RengaVocabulary v, RengaDataWriter output)
{
  const RengaTensorSpec spec = {.type = RENGA_INT32, .ndim = 2, .dim = {v->n_merges, 2}};
  uint64_t digest = RengaHash(v->merge, (size_t)v->n_merges * sizeof *v->merge, 0);
  int dataset;
  RengaCall(RengaDataWriterPutInt(output, -1, "vocabulary", v->count));
  RengaCall(RengaDataWriterPutInt(output, -1, "mask", RENGA_TOKEN_MASK));
  RengaCall(RengaDataWriterPutInt(output, -1, "vocabulary_digest", (int64_t)(digest >> 1)));
  RengaCall(RengaDataWriterAdd(output, "/vocabulary", &spec, &dataset));
  RengaCall(RengaDataWriterWrite(output, dataset, 0, v->n_merges, v->merge));
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyGetCount - the kinds of tokens

   Not collective

   Input:
   . vocabulary - the vocabulary

   Output:
   . kinds - exclusive bound of the tokens
@*/
RengaErrorCode RengaVocabularyGetCount(RengaVocabulary vocabulary, int64_t *kinds)
{
  RengaCheckPointer(vocabulary);
  RengaCheckPointer(kinds);
  *kinds = vocabulary->count;
  return RENGA_SUCCESS;
}

typedef struct {
  RengaVocabulary vocabulary;
  int64_t count, room;
  int64_t *tokens;
} Encoding;

static RengaErrorCode AddWord(void *user, const unsigned char word[], int64_t length)
{
  Encoding *e = user;
  int64_t n;
  const int32_t *tokens;
  RengaCall(RengaVocabularyGetWord_Private(e->vocabulary, word, length, &n, &tokens));
  for (int64_t i = 0; i < n; i++) {
    RengaCall(RengaWordsRoom(e->count, &e->room, &e->tokens));
    e->tokens[e->count++] = tokens[i];
  }
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyEncode - the tokens of a text

   Not collective

   Input:
   . vocabulary - the vocabulary
   . text, length - any bytes

   Output:
   . count - of the tokens
   . tokens - free them with RengaFree; NULL where there are none
@*/
RengaErrorCode RengaVocabularyEncode(RengaVocabulary vocabulary, const char *text, int64_t length,
                                     int64_t *count, int64_t **tokens)
{
  RengaCheckPointer(vocabulary);
  RengaCheckPointer(count);
  RengaCheckPointer(tokens);
  Encoding e = {.vocabulary = vocabulary};
  RengaErrorCode code = RengaWordsVisit_Private((const unsigned char *)text, length, AddWord, &e);
  if (code != RENGA_SUCCESS) RengaFree(&e.tokens);
  RengaCall(code);
  *count = e.count;
  *tokens = e.tokens;
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyDecode - the text of a token

   Not collective

   Input:
   . vocabulary - the vocabulary
   . token - 0 to the kinds - 1

   Output:
   . text - its bytes, lent; not ended by a zero
   . length - their number; 0 where the token stands for no text
@*/
RengaErrorCode RengaVocabularyDecode(RengaVocabulary vocabulary, int64_t token, const char **text,
                                     int64_t *length)
{
  RengaCheckPointer(vocabulary);
  RengaCheckPointer(text);
  RengaCheckPointer(length);
  RengaCheck(token >= 0 && token < vocabulary->count, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "token %lld is none of the %lld kinds", (long long)token,
             (long long)vocabulary->count);
  *text = (const char *)vocabulary->bytes + vocabulary->start[token];
  *length = LengthOf(vocabulary, (int32_t)token);
  return RENGA_SUCCESS;
}

/*@
   RengaVocabularyDestroy - end a vocabulary

   Not collective

   Input:
   . vocabulary - set to NULL; NULL is allowed
@*/
RengaErrorCode RengaVocabularyDestroy(RengaVocabulary *vocabulary)
{
  RengaCheckPointer(vocabulary);
  RengaVocabulary v = *vocabulary;
  if (v == NULL) return RENGA_SUCCESS;
  RengaFree(&v->merge);
  RengaFree(&v->slot);
  RengaFree(&v->start);
  RengaFree(&v->bytes);
  RengaFree(&v->first);
  RengaFree(&v->token);
  RengaFree(&v->counts);
  RengaWordsFree_Private(&v->words);
  RengaFree(vocabulary);
  return RENGA_SUCCESS;
}
