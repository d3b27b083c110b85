/* Gossip: pairs of learners become their means. Who meets whom follows from seed and number of the
   exchange, which all ranks know; of an odd number of learners one rests. */
#include "mean.h"

/* partner[i]: of learner i; itself where it rests. Pairs stand side by side in an order that is
   drawn as Fisher and Yates do. */
static RengaErrorCode DrawPairs(RengaMean mean, int64_t exchange)
{
  const int count = mean->learners->count;
  int *order;
  RengaCall(RengaMalloc(count, &order));
  for (int i = 0; i < count; i++) order[i] = mean->partner[i] = i;
  for (int i = count - 1; i > 0; i--) {
    const int64_t words[] = {mean->learners->seed, exchange, i};
    const int j = (int)(RengaHash(words, sizeof words, 0x90551b) % (uint64_t)(i + 1));
    const int other = order[j];
    order[j] = order[i];
    order[i] = other;
  }
  for (int i = 0; i + 1 < count; i += 2) {
    mean->partner[order[i]] = order[i + 1];
    mean->partner[order[i + 1]] = order[i];
  }
  RengaFree(&order);
  return RENGA_SUCCESS;
}

/* A learner of this rank exchanges with one of another group. */
static bool MeetsOther(const RengaLearners *learners, int partner)
{
  return partner < learners->first || partner >= learners->first + learners->own;
}

static RengaErrorCode StartMeetings(RengaMean mean, int64_t first, int64_t count)
{
  const RengaLearners *learners = mean->learners;
  const size_t bytes = (size_t)count * sizeof(float);
  for (int l = 0; l < learners->own; l++) {
    const int64_t at = (int64_t)l * RENGA_MEAN_PART;
    const int me = learners->first + l, partner = mean->partner[me],
              there = partner / learners->own;
    RengaMeanRead(mean, l, first, count, mean->sent + at);
    if (!MeetsOther(learners, partner)) continue;
    RengaCall(RengaCommReceive(learners->across, mean->received + at, bytes, there, partner,
                               &mean->request[2 * l]));
    RengaCall(RengaCommSend(learners->across, mean->sent + at, bytes, there, me,
                            &mean->request[2 * l + 1]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode EndMeetings(RengaMean mean, int64_t first, int64_t count)
{
  const RengaLearners *learners = mean->learners;
  for (int l = 0; l < learners->own; l++) {
    const int partner = mean->partner[learners->first + l];
    float *mine = mean->received + (int64_t)l * RENGA_MEAN_PART;
    const float *sent = mean->sent + (int64_t)l * RENGA_MEAN_PART, *other = mine;
    if (MeetsOther(learners, partner)) {
      for (int r = 0; r < 2; r++)
        RengaCall(RengaCommWait(learners->across, &mean->request[2 * l + r],
                                "a learner to exchange parameters"));
    } else {
      other = mean->sent + (int64_t)(partner - learners->first) * RENGA_MEAN_PART;
    }
    for (int64_t i = 0; i < count; i++) mine[i] = (sent[i] + other[i]) * 0.5f;
    RengaMeanWrite(mean, l, first, count, mine);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMeanGossip(RengaMean mean, int64_t exchange)
{
  RengaCall(DrawPairs(mean, exchange));
  RengaCall(RengaMeanTakeLists(mean));
  for (int64_t at = 0; at < mean->elements; at += RENGA_MEAN_PART) {
    const int64_t left = mean->elements - at,
                  count = left < RENGA_MEAN_PART ? left : RENGA_MEAN_PART;
    RengaCall(StartMeetings(mean, at, count));
    RengaCall(EndMeetings(mean, at, count));
  }
  return RENGA_SUCCESS;
}
