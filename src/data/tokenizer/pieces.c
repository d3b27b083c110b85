/* Data: texts of a vocabulary, each with its token. */
#include "../vocabulary.h"
#include <string.h>

static int32_t *PieceSlot(const RengaPieces *p, const unsigned char text[], int64_t length)
{
  for (uint64_t at = RengaHash(text, (size_t)length, 0);; at++) {
    int32_t *slot = &p->slot[at & (uint64_t)(p->n_slots - 1)];
    if (*slot == 0) return slot;
    const int64_t token = *slot - 1, own = p->start[token + 1] - p->start[token];
    if (own == length && memcmp(p->bytes + p->start[token], text, (size_t)length) == 0) return slot;
  }
}

RengaErrorCode RengaPiecesCreate_Private(int64_t count, const char *const text[],
                                         const int64_t length[], RengaPieces *p)
{
  p->count = count;
  RengaCall(RengaMalloc(count + 1, &p->start));
  for (int64_t t = 0; t < count; t++) p->start[t + 1] = p->start[t] + length[t];
  RengaCall(RengaMalloc(p->start[count] + 1, &p->bytes));
  for (p->n_slots = 16; p->n_slots < 2 * count; p->n_slots *= 2) continue;
  RengaCall(RengaMalloc(p->n_slots, &p->slot));
  for (int64_t t = 0; t < count; t++) {
    if (length[t] == 0) continue;
    memcpy(p->bytes + p->start[t], text[t], (size_t)length[t]);
    *PieceSlot(p, p->bytes + p->start[t], length[t]) = (int32_t)t + 1;
    if (length[t] > p->longest) p->longest = length[t];
  }
  return RENGA_SUCCESS;
}

int32_t RengaPiecesFind_Private(const RengaPieces *p, const unsigned char text[], int64_t length)
{
  return length > 0 && length <= p->longest ? *PieceSlot(p, text, length) - 1 : -1;
}

void RengaPiecesFree_Private(RengaPieces *p)
{
  RengaFree(&p->slot);
  RengaFree(&p->start);
  RengaFree(&p->bytes);
}
