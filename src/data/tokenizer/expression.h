/* Regular expressions of tokenizers. */
#pragma once
#include "sign.h"

typedef struct RengaExpression RengaExpression;
/* Errors: RENGA_ERR_SUPPORT for what is not understood, with the place; owner is for errors. */
RengaErrorCode RengaExpressionCreate_Private(const char *owner, const char *expression,
                                             RengaExpression **pattern);
/* Where the match that begins at a place ends; -1: there is none. Text behind end is looked at by
   nothing. Too hard: as many tries as there may be did not find it. */
enum { RENGA_EXPRESSION_TOO_HARD = -2 };
int64_t RengaExpressionMatch_Private(const RengaExpression *pattern, const unsigned char text[],
                                     int64_t at, int64_t end);
RengaErrorCode RengaExpressionRaise_Private(const RengaExpression *pattern, int64_t at);
void RengaExpressionFree_Private(RengaExpression **pattern);
