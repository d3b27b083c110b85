/* Data: what the inputs of a network take of a stream of tokens; masked tokens as BERT's.

   Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding,
   2019, section 3.1: of the tokens that are to be found again, eight in ten are replaced by the
   mask, one by another token, and one stays. */
#include "dataimpl.h"
#include <string.h>

enum { MASKING = 0x6d61736b /* a stream of random numbers of its own */ };

static const struct {
  const char *name;
  RengaDataRole role;
} known[] = {
    {"tokens", RENGA_ROLE_TOKENS},
    {"input_ids", RENGA_ROLE_TOKENS},
    {"labels", RENGA_ROLE_LABELS},
    {"label", RENGA_ROLE_LABELS},
    {"targets", RENGA_ROLE_LABELS},
    {"target", RENGA_ROLE_LABELS},
    {"segments", RENGA_ROLE_SEGMENTS},
    {"token_type", RENGA_ROLE_SEGMENTS},
    {"token_type_ids", RENGA_ROLE_SEGMENTS},
    {"segment_ids", RENGA_ROLE_SEGMENTS},
    {"attention_mask", RENGA_ROLE_ATTENTION},
};
enum { N_KNOWN = sizeof known / sizeof known[0] };

static RengaDataRole RoleOf(const char *name)
{
  for (int k = 0; k < N_KNOWN; k++)
    if (strcmp(known[k].name, name) == 0) return known[k].role;
  return RENGA_ROLE_COUNT;
}

/* Inputs by name; of the others the first takes the tokens, the second the labels. */
RengaErrorCode RengaDataAssignRoles_Private(RengaData data)
{
  const char *taker[RENGA_ROLE_COUNT] = {NULL};
  for (int i = 0; i < data->n_fields; i++) {
    data->fields[i].role = RoleOf(data->fields[i].name);
    if (data->fields[i].role != RENGA_ROLE_COUNT)
      taker[data->fields[i].role] = data->fields[i].name;
  }
  for (int i = 0; i < data->n_fields; i++) {
    RengaDataField *f = &data->fields[i];
    if (f->role != RENGA_ROLE_COUNT) continue;
    f->role = !taker[RENGA_ROLE_TOKENS] ? RENGA_ROLE_TOKENS : RENGA_ROLE_LABELS;
    RengaCheck(taker[f->role] == NULL, MPI_COMM_SELF, RENGA_ERR_SHAPE,
               "data set %s gives tokens, labels, segments and attention_mask; the network has %d "
               "inputs, and %s is none of these",
               data->source, data->n_fields, f->name);
    taker[f->role] = f->name;
  }
  return RENGA_SUCCESS;
}

static int64_t MaskBelow(uint32_t draw, int64_t bound)
{
  return (int64_t)((uint64_t)draw * (uint64_t)bound >> 32);
}

typedef struct {
  RengaData data;
  uint32_t key[2];
  int64_t sample;
} Masker;

/* draw[0]: is the token at this place to be found? [1]: what becomes of it, [2]: which other. */
static void DrawMask(const Masker *masker, int64_t place, uint32_t draw[4])
{
  const uint32_t counter[4] = {(uint32_t)place, (uint32_t)masker->sample,
                               (uint32_t)(masker->sample >> 32), MASKING};
  RengaPhilox(counter, masker->key, draw);
}

static int64_t ReplaceToken(const Masker *masker, int64_t token, const uint32_t draw[4])
{
  const int64_t first = masker->data->mask + 1; /* tokens up to the mask stand for no text */
  int64_t tenth = MaskBelow(draw[1], 10);
  if (tenth < 8) return masker->data->mask;
  return tenth == 8 ? first + MaskBelow(draw[2], masker->data->vocabulary - first) : token;
}

/* One window. Where no token is drawn, one is taken: a loss over nothing is no number. */
static void MaskWindow(const Masker *masker, RengaDataRole role, int64_t length, int64_t tokens[])
{
  const RengaData data = masker->data;
  const uint32_t bound = (uint32_t)(data->masking * 4294967296.0);
  uint32_t draw[4];
  bool any = false;
  for (int64_t i = 0; i < length && !any; i++) {
    DrawMask(masker, i, draw);
    any = draw[0] < bound;
  }
  DrawMask(masker, length, draw);
  const int64_t only = any ? -1 : MaskBelow(draw[0], length);
  for (int64_t i = 0; i < length; i++) {
    DrawMask(masker, i, draw);
    bool found = draw[0] < bound || i == only;
    if (role == RENGA_ROLE_LABELS && !found) tokens[i] = data->ignored;
    if (role == RENGA_ROLE_TOKENS && found) tokens[i] = ReplaceToken(masker, tokens[i], draw);
  }
}

void RengaDataMaskTokens_Private(RengaData data, RengaDataRole role, int64_t epoch, int64_t count,
                                 const int64_t samples[], int64_t tokens[])
{
  uint64_t words[2] = {data->seed, (uint64_t)epoch}, hash = RengaHash(words, sizeof words, MASKING);
  Masker masker = {.data = data, .key = {(uint32_t)hash, (uint32_t)(hash >> 32)}};
  for (int64_t s = 0; s < count; s++) {
    masker.sample = samples[s];
    MaskWindow(&masker, role, data->sequence, tokens + s * data->sequence);
  }
}
