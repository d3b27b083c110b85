/* What all ranks must be given alike. */
#pragma once
#include "rengacomm.h"

/* A name for people, and a hash of the value. */
typedef struct {
  const char *name; /* "optimizer_clip_norm", as an option without its dash, or words; lent */
  uint64_t hash;
} RengaSetting;

enum { RENGA_SETTINGS_MOST = 80 };

/* A list that grows; a hash of bytes, of a text or NULL, of a number. */
typedef struct {
  int count;
  RengaSetting row[RENGA_SETTINGS_MOST];
} RengaSettingList;
void RengaSettingAdd_Private(RengaSettingList *list, const char *name, const void *bytes,
                             size_t size);
void RengaSettingAddText_Private(RengaSettingList *list, const char *name, const char *text);
void RengaSettingAddInt64_Private(RengaSettingList *list, const char *name, int64_t value);

/* What the struct at base has of an option. */
void RengaSettingAddRow_Private(RengaSettingList *list, const RengaOptionRow *row,
                                const void *base);

/* Collective, before the first message that differs where the values do: an error with this code on
   all ranks, which names the first setting of which a rank has another value than rank 0. Which
   settings there are follows from those that stand before in the list. what: "all ranks to ...". */
RengaErrorCode RengaCommCheckSame_Private(RengaComm comm, RengaErrorCode code, const char *what,
                                          const RengaSettingList *list);
