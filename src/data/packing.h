/* Rows of documents, and the sets that they are written to. */
#pragma once
#include "vocabulary.h"

typedef struct RengaPacking RengaPacking;
/* A document: labels, as the tokens, are those that come next, or RENGA_LABEL_IGNORED. Its tokens
   beyond a row's begin rows of their own. */
enum { RENGA_LABEL_IGNORED = -100 };
RengaErrorCode RengaPackingTake_Private(RengaPacking *packing, int64_t count,
                                        const int64_t tokens[], const int64_t labels[]);

/* A set to be made. visit is called twice and must give the same documents in the same order. */
typedef struct {
  const char *source, *out_file; /* source: the file of the documents, for errors */
  RengaVocabulary vocabulary;
  RengaErrorCode (*visit)(void *user, RengaPacking *packing);
  void *user;
  const RengaDataRows *rows;
  int64_t padding; /* the token of places that no document has */
  bool cuts;       /* what is longer than a row is cut, and does not go on in another */
} RengaPackingTask;
RengaErrorCode RengaPackingWrite_Private(const RengaPackingTask *task,
                                         int64_t counts[RENGA_DATA_ROW_COUNTS]);
