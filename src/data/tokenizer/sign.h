/* Signs, the code points of a text, and texts that are changed on their way to tokens. */
#pragma once
#include "../dataimpl.h"

/* The code point at a place of a text, and how many bytes it takes; 0: it is no UTF-8. */
int RengaSignDecode_Private(const unsigned char text[], int64_t at, int64_t end, uint32_t *code);
int RengaSignSpell_Private(uint32_t code, unsigned char to[4]);
/* 1 << its general category */
uint32_t RengaSignCategory_Private(uint32_t code);
/* Categories of a name of one or two letters, "L" or "Lu"; 0: there are none. */
uint32_t RengaSignCategories_Private(const char *name, int length);
bool RengaSignIsWhite_Private(uint32_t code); /* the property White_Space */
uint32_t RengaSignSmall_Private(uint32_t code);

/* bytes: UTF-8; at: where in the first text the sign of each byte comes from, or NULL. */
typedef struct {
  int64_t length, room, at_room;
  unsigned char *bytes;
  int64_t *at;
  bool places; /* at is wanted */
} RengaSignText;
RengaErrorCode RengaSignTextAdd_Private(RengaSignText *text, const void *bytes, int64_t length,
                                        int64_t at);
RengaErrorCode RengaSignTextAddSign_Private(RengaSignText *text, uint32_t code, int64_t at);
void RengaSignTextFree_Private(RengaSignText *text);
/* Canonical decomposition, and composition where composed (UAX 15): to has none before. */
RengaErrorCode RengaSignNormalize_Private(const RengaSignText *from, bool composed,
                                          RengaSignText *to);
