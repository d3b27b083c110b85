/* What a tokenizer.json does to a text before its model: normalizers and pre-tokenizers, in their
   order. */
#pragma once
#include "expression.h"
#include <json-c/json.h>

typedef struct RengaNormalizer RengaNormalizer;
typedef struct RengaSplitter RengaSplitter;

/* value: "normalizer" of the file, or NULL. owner: for errors. */
RengaErrorCode RengaNormalizerCreate_Private(const char *owner, json_object *value,
                                             RengaNormalizer **normalizer);
/* from -> to, which is empty; both are free to change. */
RengaErrorCode RengaNormalizerApply_Private(const RengaNormalizer *normalizer, RengaSignText *from,
                                            RengaSignText *to);
void RengaNormalizerFree_Private(RengaNormalizer **normalizer);

/* Words of a text that is normalized; at: as of RengaSignText, or NULL. */
typedef RengaErrorCode (*RengaPieceVisitor)(void *user, const unsigned char bytes[], int64_t length,
                                            const int64_t at[]);
/* value: "pre_tokenizer" of the file, or NULL. *bytes: the model is of bytes, as GPT-2 has them. */
RengaErrorCode RengaSplitterCreate_Private(const char *owner, json_object *value,
                                           RengaSplitter **splitter, bool *bytes);
/* first: the text is the beginning of the whole. */
RengaErrorCode RengaSplitterVisit_Private(const RengaSplitter *splitter, const unsigned char text[],
                                          int64_t length, const int64_t at[], bool first,
                                          RengaPieceVisitor visit, void *user);
void RengaSplitterFree_Private(RengaSplitter **splitter);

/* json.c: members of objects; NULL where there is none. */
json_object *RengaTokenizerMember_Private(json_object *owner, const char *key);
const char *RengaTokenizerText_Private(json_object *owner, const char *key); /* lent */
bool RengaTokenizerFlag_Private(json_object *owner, const char *key, bool otherwise);
/* A part of the file that is not understood, by its name and text. */
RengaErrorCode RengaTokenizerRefuse_Private(const char *owner, const char *part,
                                            json_object *value);
/* {"String": text} or {"Regex": expression}, the first as an expression, too. */
RengaErrorCode RengaTokenizerExpression_Private(const char *owner, const char *part,
                                                json_object *value, RengaExpression **pattern);
