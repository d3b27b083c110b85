/* A plan while it is sought, and loads straight from the definition. */
#include "exactimpl.h"

RengaErrorCode ChainCreate(int items, Chain *chain)
{
  chain->count = 0;
  chain->load = HUGE_VAL;
  RengaCall(RengaMalloc(items + 1, &chain->stage_of));
  RengaCall(RengaMalloc(items + 1, &chain->stage));
  return RENGA_SUCCESS;
}

void ChainFree(Chain *chain)
{
  RengaFree(&chain->stage_of);
  RengaFree(&chain->stage);
}

static bool IsCut(const RengaCutsProblem *problem, const int stage_of[], int message)
{
  int begin = problem->message_first[message], end = problem->message_first[message + 1];
  for (int p = begin + 1; p < end; p++)
    if (stage_of[problem->message_pin[p]] != stage_of[problem->message_pin[begin]]) return true;
  return false;
}

/* Each stage with a pin of a message that is cut pays it once. last[s] is the message, plus one,
   that stage s paid last. */
static void PayMessages(const RengaCutsProblem *problem, const int stage_of[], int last[],
                        double messages[])
{
  for (int m = 0; m < problem->messages; m++) {
    if (!IsCut(problem, stage_of, m)) continue;
    for (int p = problem->message_first[m]; p < problem->message_first[m + 1]; p++) {
      int s = stage_of[problem->message_pin[p]];
      if (last[s] == m + 1) continue;
      last[s] = m + 1;
      messages[s] += problem->message_cost[m];
    }
  }
}

typedef struct {
  double work, host_work, weight;
} ChainSums;

static double LoadOf(const RengaCutsProblem *problem, const RengaCutsStage *stage,
                     const ChainSums *sums, double messages)
{
  int d = stage->replicas;
  if (stage->host) return sums->host_work;
  double each = problem->resynchronise ? problem->resynchronise[d] : 0;
  return each == HUGE_VAL ? HUGE_VAL : (sums->work + messages) / d + sums->weight * each;
}

RengaErrorCode RengaCutsEvaluate(const RengaCutsProblem *problem, const int stage_of[], int count,
                                 RengaCutsStage stage[])
{
  ChainSums *sums = NULL;
  double *messages = NULL;
  int *last = NULL;
  RengaErrorCode code = RengaMalloc(count + 1, &sums);
  if (!code) code = RengaMalloc(count + 1, &messages);
  if (!code) code = RengaMalloc(count + 1, &last);
  if (code) goto cleanup;
  for (int s = 0; s < count; s++) stage[s].memory = 0;
  for (int v = 0; v < problem->items; v++) {
    const RengaCutsItem *item = &problem->item[v];
    int s = stage_of[v];
    sums[s].work += item->host_only && !stage[s].host ? HUGE_VAL : item->work;
    sums[s].host_work += item->host_work;
    sums[s].weight += item->weight;
    stage[s].memory += item->memory;
  }
  PayMessages(problem, stage_of, last, messages);
  for (int s = 0; s < count; s++) {
    stage[s].load = LoadOf(problem, &stage[s], &sums[s], messages[s]);
    if (stage[s].host) stage[s].memory = 0;
  }
cleanup:
  RengaFree(&sums);
  RengaFree(&messages);
  RengaFree(&last);
  RengaCall(code);
  return RENGA_SUCCESS;
}
