/* Tables of Unicode 14.0.0, written by build-aux/unicode.py. */
#pragma once
#include <stdint.h>

/* General categories, three letters each, by the number of their bit. */
#define RENGA_CATEGORIES                                                                           \
  "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co"

/* The first code point of a run and its category. */
extern const uint32_t renga_category_runs[3968][2];
/* First and last capital letter, the step between them, and how far the small ones are. */
extern const int32_t renga_small_letters[181][4];
/* The first code point of a run and its canonical combining class. */
extern const uint32_t renga_combining_runs[571][2];
/* A code point, the one or two that it is made of, and whether these are composed again. */
extern const uint32_t renga_decompositions[2061][4];
