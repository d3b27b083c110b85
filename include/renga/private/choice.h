/* Texts of which a table names the choices. */
#pragma once
#include "rengasys.h"

/* Not collective. Is the text one of "a|b|c:"? Behind a colon the user goes on as he likes. */
bool RengaIsChoice_Private(const char *text, const char *choices);
