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
  bool special; /* it stands for no text */
} RengaAddedToken;
/* What a tokenizer.json says. */
typedef struct {
  int64_t count, n_merges;
  int32_t byte_token[256], (*merge)[2], *joined; /* [n_merges] the token that a pair becomes */
  int64_t *start;                                /* [count + 1] the text of a token in bytes */
  unsigned char *bytes;
  int n_added;
  RengaAddedToken *added;
  char *json; /* [json_bytes] the file */
  int64_t json_bytes;
} RengaTokenizer;

/* tokenizer.c: name is for errors; nothing is to be freed after one. */
RengaErrorCode RengaTokenizerParse_Private(const char *name, const char *json, int64_t bytes,
                                           RengaTokenizer *tokenizer);
void RengaTokenizerFree_Private(RengaTokenizer *tokenizer);

/* split.c: added tokens and words of a text, which is UTF-8, in order. */
RengaErrorCode RengaTokenizerVisit_Private(const RengaTokenizer *tokenizer,
                                           const unsigned char text[], int64_t length,
                                           RengaWordVisitor visit, void *user);
RengaErrorCode RengaTokenizerVisitFile_Private(const RengaTokenizer *tokenizer, const char *name,
                                               RengaWordVisitor visit, void *user);

/* vocabulary.c */
struct _p_RengaVocabulary {
  int64_t count, n_merges;
  int32_t (*merge)[2], *joined; /* joined: [n_merges] the token that a pair becomes */
  int32_t byte_token[256];
  RengaTokenizer *tokenizer; /* NULL: of Renga's own form */
  int64_t n_slots, *slot;    /* open addressing by pair: merge + 1, 0 where free */
  int64_t *start;            /* [count + 1] the text of a token in bytes */
  unsigned char *bytes;
  /* words that were encoded before */
  RengaWords words;
  int64_t first_room, token_room, n_tokens;
  int64_t *first; /* [words] their first token */
  int32_t *token;
  int32_t *counts; /* [words] of tokens */
  int64_t count_room;
};
/* Of a tokenizer.json; name: for errors. */
RengaErrorCode RengaVocabularyCreateFromJson_Private(const char *name, const char *json,
                                                     int64_t bytes, RengaVocabulary *vocabulary);
/* Words as the vocabulary splits a text. */
RengaErrorCode RengaVocabularyVisit_Private(RengaVocabulary vocabulary, const unsigned char text[],
                                            int64_t length, RengaWordVisitor visit, void *user);
RengaErrorCode RengaVocabularyVisitFile_Private(RengaVocabulary vocabulary, const char *file_name,
                                                RengaWordVisitor visit, void *user);
bool RengaVocabularyIsTokenizer_Private(RengaVocabulary vocabulary);
RengaErrorCode RengaVocabularyCreate_Private(int64_t n_merges, int32_t (*merges)[2],
                                             RengaVocabulary *vocabulary); /* takes the merges */
RengaErrorCode RengaVocabularyPut_Private(RengaVocabulary vocabulary, RengaDataWriter output);
/* Tokens of a word, lent until the next call. */
RengaErrorCode RengaVocabularyGetWord_Private(RengaVocabulary vocabulary,
                                              const unsigned char word[], int64_t length,
                                              int64_t *count, const int32_t **tokens);
