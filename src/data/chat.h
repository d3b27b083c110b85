/* Conversations and the templates that make texts of them. */
#pragma once
#include "dataimpl.h"

typedef enum {
  RENGA_CHAT_SYSTEM,
  RENGA_CHAT_USER,
  RENGA_CHAT_ASSISTANT,
  RENGA_CHAT_ROLES
} RengaChatRole;
typedef struct {
  RengaChatRole role;
  const char *content; /* lent */
} RengaChatTurn;
/* What of the text is learned, from begin to end. */
typedef struct {
  int64_t begin, end;
} RengaChatSpan;
typedef struct {
  int64_t length, room;
  char *text;
  int n_spans, span_room;
  RengaChatSpan *span;
} RengaChatText;

typedef struct {
  const struct RengaChatFamily *family;
  char *begin, *end;  /* bos_token, eos_token, or "" */
  char *system;       /* a text of the system where a conversation has none, or NULL */
  char *date;         /* of Llama 3.1, or NULL */
  bool begins, ends;  /* begin stands in front, end behind all */
  bool spaced, apart; /* of Mistral; spaced: of Gemma, from 3 on */
  bool plain;         /* it has no turns of the system */
} RengaChatTemplate;
/* Of FOLDER/tokenizer_config.json and FOLDER/chat_template.jinja. */
RengaErrorCode RengaChatTemplateRead_Private(const char *folder, RengaChatTemplate *chat);
void RengaChatTemplateFree_Private(RengaChatTemplate *chat);
/* where: of errors, the file and line. The text is written anew. */
RengaErrorCode RengaChatTemplateApply_Private(const RengaChatTemplate *chat, const char *where,
                                              int count, const RengaChatTurn turns[],
                                              RengaChatText *text);
