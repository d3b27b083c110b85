/* Texts of which a table names the choices. */
#pragma once
#include "rengasys.h"

/* A macro WORDS(first, other) lists the words of an enum once, in the order of its values.
   WORDS(RENGA_WORD, RENGA_WORD) makes a table of them, WORDS(RENGA_CHOICE, RENGA_OR_CHOICE) the
   choices of an option. */
#define RENGA_WORD(word) word,
#define RENGA_CHOICE(word) word
#define RENGA_OR_CHOICE(word) "|" word

/* Not collective. Which of "a|b|c:" is the text, from 0? -1: none. Behind a colon the user goes on
   as he likes. */
int RengaFindChoice_Private(const char *text, const char *choices);

/* What the version before called an option: its name of this number, from 0; NULL: no such. */
const char *RengaOptionOldName_Private(const char *option, int number);
/* The option that a name is another name of; NULL: of none. old: of the version before. */
const char *RengaOptionNewName_Private(const char *name, bool *old);

/* Does a line of an options file, such as a checkpoint of an older version holds, give a secret?
   Then the length of its name, with the dash; else 0. */
int RengaSecretInLine_Private(const char *line);
