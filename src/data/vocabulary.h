/* Words of a text and byte-pair vocabularies, between the files that make data sets of text. */
#pragma once
#include "dataimpl.h"

/* words.c: different words of a text, each with a number. */
typedef struct {
  int64_t at; /* of its first byte */
  int32_t length;
} RengaWord;
typedef struct {
  int64_t n_words, word_room, n_bytes, byte_room, n_slots;
  RengaWord *word;
  unsigned char *bytes;
  int64_t *slot; /* open addressing: word + 1, 0 where free */
} RengaWords;
RengaErrorCode RengaWordsFind_Private(RengaWords *words, const unsigned char text[], int64_t length,
                                      int64_t *number, bool *is_new);
void RengaWordsFree_Private(RengaWords *words);
/* Room for one more in an array that grows by doubling. */
#define RengaWordsRoom(count, room, pointer)                                                       \
  ((count) < *(room) ? RENGA_SUCCESS : (*(room) = *(room)*2 + 64, RengaRealloc(*(room), pointer)))

/* A function for each word, in order. */
typedef RengaErrorCode (*RengaWordVisitor)(void *user, const unsigned char word[], int64_t length);
RengaErrorCode RengaWordsVisit_Private(const unsigned char text[], int64_t length,
                                       RengaWordVisitor visit, void *user);
RengaErrorCode RengaWordsVisitFile_Private(const char *file_name, RengaWordVisitor visit,
                                           void *user);

/* bytepairs.c: the pairs that are joined, the most frequent first. */
RengaErrorCode RengaBytePairsFind_Private(const RengaWords *words, const int64_t counts[],
                                          int64_t kinds, int64_t *n_merges, int32_t (**merges)[2]);

/* A token that stands for itself in a text. */
typedef struct {
  char *text;
  int64_t length;
  int32_t token;
  bool special;     /* it stands for no text */
  bool normalized;  /* it is looked for in the text that is normalized */
  bool left, right; /* white space beside it is of it */
  bool single;      /* letters beside it make it another word */
  char *changed;    /* its text, normalized, which a text is searched for */
  int64_t changed_length;
} RengaAddedToken;

/* tokenizer/pieces.c: texts, each with a token. */
typedef struct {
  int64_t n_slots, longest; /* longest: bytes of a text */
  int32_t *slot;            /* [n_slots] token + 1, 0 where free */
  int64_t count, *start; /* [count + 1] of the text of each token, which has none if it is empty */
  unsigned char *bytes;
} RengaPieces;
RengaErrorCode RengaPiecesCreate_Private(int64_t count, const char *const text[],
                                         const int64_t length[], RengaPieces *pieces);
/* -1: there is none. */
int32_t RengaPiecesFind_Private(const RengaPieces *pieces, const unsigned char text[],
                                int64_t length);
void RengaPiecesFree_Private(RengaPieces *pieces);

typedef enum {
  RENGA_TOKENS_OF_BYTES,  /* pairs of bytes */
  RENGA_TOKENS_OF_SIGNS,  /* pairs of signs */
  RENGA_TOKENS_LIKELIEST, /* the split of the greatest sum of scores (Kudo 2018) */
  RENGA_TOKENS_LONGEST    /* the longest from the left (WordPiece) */
} RengaTokenModel;
/* What a tokenizer.json says. */
typedef struct {
  RengaTokenModel model;
  int64_t count, n_merges;
  int32_t byte_token[256], (*merge)[2], *joined; /* [n_merges] the token that a pair becomes */
  int64_t *start;                                /* [count + 1] the text of a token in bytes */
  unsigned char *bytes;
  RengaPieces pieces;         /* as the model has them */
  double *score, least_score; /* [count] */
  int32_t unknown;            /* -1: there is none */
  bool joins_unknown, whole_first,
      falls_back;     /* whole_first: a word that is a token is not split */
  char *inside;       /* stands before pieces inside of a word, "##" */
  int64_t most_signs; /* of a word */
  struct RengaNormalizer *normalizer;
  struct RengaSplitter *splitter;
  int n_added;
  RengaAddedToken *added;
  char *json; /* [json_bytes] the file */
  int64_t json_bytes;
} RengaTokenizer;

/* tokenizer/file.c: name is for errors; nothing is to be freed after one. */
RengaErrorCode RengaTokenizerParse_Private(const char *name, const char *json, int64_t bytes,
                                           RengaTokenizer *tokenizer);
void RengaTokenizerFree_Private(RengaTokenizer *tokenizer);

/* tokenizer/split.c: added tokens (added: their token, else -1) and words of a text, which is
   UTF-8, in order. at: where in the text each byte of a word comes from; NULL if places are not
   wanted. */
typedef RengaErrorCode (*RengaTokenizerVisitor)(void *user, int32_t added,
                                                const unsigned char word[], int64_t length,
                                                const int64_t at[]);
RengaErrorCode RengaTokenizerVisit_Private(const RengaTokenizer *tokenizer,
                                           const unsigned char text[], int64_t length, bool places,
                                           RengaTokenizerVisitor visit, void *user);
RengaErrorCode RengaTokenizerVisitFile_Private(const RengaTokenizer *tokenizer, const char *name,
                                               RengaTokenizerVisitor visit, void *user);
/* tokenizer/models.c: tokens of a word, [at most length] of them, and where in it they begin; but
   for pairs of bytes. */
RengaErrorCode RengaTokenizerEncode_Private(const RengaTokenizer *tokenizer,
                                            const unsigned char word[], int64_t length,
                                            int32_t token[], int32_t begin[], int64_t *count);

/* vocabulary.c */
struct _p_RengaVocabulary {
  int64_t count, n_merges;
  int32_t (*merge)[2], *joined; /* joined: [n_merges] the token that a pair becomes */
  int32_t byte_token[256];
  int64_t begin_token, padding_token; /* of a decoder's texts; -1: not known */
  RengaTokenizer *tokenizer;          /* NULL: of Renga's own form */
  int64_t n_slots, *slot;             /* open addressing by pair: merge + 1, 0 where free */
  int64_t *start;                     /* [count + 1] the text of a token in bytes */
  unsigned char *bytes;
  /* words that were encoded before */
  RengaWords words;
  int64_t first_room, token_room, begin_room, n_tokens;
  int64_t *first;         /* [words] their first token */
  int32_t *token, *begin; /* begin: of the token, in its word */
  int32_t *counts;        /* [words] of tokens */
  int64_t count_room;
};
/* Of a tokenizer.json; name: for errors. */
RengaErrorCode RengaVocabularyCreateFromJson_Private(const char *name, const char *json,
                                                     int64_t bytes, RengaVocabulary *vocabulary);
/* Tokens of a text, in order; places: where in it each begins, if they are wanted, or NULL. */
typedef RengaErrorCode (*RengaTokenVisitor)(void *user, int64_t count, const int32_t tokens[],
                                            const int64_t places[]);
RengaErrorCode RengaVocabularyVisit_Private(RengaVocabulary vocabulary, const unsigned char text[],
                                            int64_t length, bool places, RengaTokenVisitor visit,
                                            void *user);
RengaErrorCode RengaVocabularyVisitFile_Private(RengaVocabulary vocabulary, const char *file_name,
                                                RengaTokenVisitor visit, void *user);
/* As RengaVocabularyEncode of a tokenizer, with places. */
RengaErrorCode RengaVocabularyEncodePlaces_Private(RengaVocabulary vocabulary, const char *text,
                                                   int64_t length, int64_t *count, int64_t **tokens,
                                                   int64_t **places);
bool RengaVocabularyIsTokenizer_Private(RengaVocabulary vocabulary);
RengaErrorCode RengaVocabularyCreate_Private(int64_t n_merges, int32_t (*merges)[2],
                                             RengaVocabulary *vocabulary); /* takes the merges */
RengaErrorCode RengaVocabularyPut_Private(RengaVocabulary vocabulary, RengaDataWriter output);
