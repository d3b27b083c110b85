/* Errors that are an answer: what a program asks whether it can be done. */
#pragma once
#include "rengasys.h"

RENGA_BEGIN_DECLS

/* From now on the sentence of an error is kept in text, without trace, and not printed. NULL: they
   are printed again. */
void RengaErrorKeep(size_t size, char text[]);

RENGA_END_DECLS
