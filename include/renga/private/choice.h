/* Texts of which a table names the choices. */
#pragma once
#include "rengasys.h"

/* Not collective. Is the text one of "a|b|c:"? Behind a colon the user goes on as he likes. */
bool RengaIsChoice_Private(const char *text, const char *choices);

/* Does a line of an options file, such as a checkpoint of an older version holds, give a secret?
   Then the length of its name, with the dash; else 0. */
int RengaSecretInLine_Private(const char *line);
