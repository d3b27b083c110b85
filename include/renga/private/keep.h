/* Errors that are an answer: what a program asks whether it can be done. */
#pragma once
#include <stddef.h>

/* From now on the sentence of an error is kept in text, without trace, and not printed. NULL: they
   are printed again. */
void RengaErrorKeep(size_t size, char text[]);
