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

/* vocabulary.c */
RengaErrorCode RengaVocabularyCreate_Private(int64_t n_merges, int32_t (*merges)[2],
                                             RengaVocabulary *vocabulary); /* takes the merges */
RengaErrorCode RengaVocabularyPut_Private(RengaVocabulary vocabulary, RengaDataWriter output);
/* Tokens of a word, lent until the next call. */
RengaErrorCode RengaVocabularyGetWord_Private(RengaVocabulary vocabulary,
                                              const unsigned char word[], int64_t length,
                                              int64_t *count, const int32_t **tokens);
