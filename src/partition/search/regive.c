/* Plans with tensor ranks are looked for with estimates of what these give each other. What is
   found is predicted once more, as a plan that is given, for which the runtime says it. A bound
   that the plan itself is below proves nothing: then the plan has that of the work (work.c). */
#include "../partitionimpl.h"
#include "renga/private/plan.h"
#include "search.h"
#include "rengacomm.h"
#include <math.h>
#include <string.h>

/* What the search says of what it found, beside what the plan takes. */
static RengaErrorCode TakeWhatSearchSays(RengaPlan found, RengaPlan plan)
{
  RengaPlanPrediction prediction, estimate;
  const char *topic = "", *text;
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  RengaCall(RengaPlanGetPrediction(found, &estimate));
  const bool contradicts = estimate.bound > prediction.step * (1 + 1e-9);
  const bool own = contradicts || RengaPlanHasReason_Private(found, RENGA_PLAN_BOUND);
  if (!own) RengaPlanDropReasons_Private(plan, RENGA_PLAN_BOUND);
  if (!own) prediction.bound = fmin(estimate.bound, prediction.step);
  RengaCall(RengaPlanSetPrediction(plan, &prediction));
  RengaPlanDropReasons_Private(plan, "kinds"); /* which the search says, too */
  for (int r = 0; topic; r++) {
    RengaCall(RengaPlanGetReason(found, r, &topic, &text));
    if (!topic || !strcmp(topic, RENGA_PLAN_BOUND) ||
        (contradicts && RengaPlanSpeaksOfBound_Private(topic)))
      continue;
    RengaCall(RengaPlanAddReason(plan, topic, text));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PredictAgain(RengaPartition partition, RengaPlan found, int ranks,
                                   struct SearchSession *session, RengaPlan plan)
{
  const RengaSearchWish given = {.given = found, .searched = true, .session = session};
  int64_t batch, microbatch;
  const RengaErrorCode code = RengaPlanGetBatch(found, &batch, &microbatch);
  RengaCall(RengaErrorAgree(partition->hdr.comm, code));
  RengaCall(RengaSearchPlanOnce_Private(partition, &given, ranks, batch, microbatch, plan));
  RengaCall(TakeWhatSearchSays(found, plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode SearchIn(struct SearchSession *session, RengaPartition partition,
                               const RengaSearchWish *wish, int ranks, int64_t batch,
                               int64_t microbatch, RengaPlan plan)
{
  RengaSearchWish own = *wish;
  own.session = session;
  RengaCall(RengaSearchPlanOnce_Private(partition, &own, ranks, batch, microbatch, plan));
  return RENGA_SUCCESS;
}

/* A search for plans with tensor ranks estimates what these give each other: of what it found the
   runtime says it. */
static RengaErrorCode SearchWithTensor(struct SearchSession *session, RengaPartition partition,
                                       const RengaSearchWish *wish, int ranks, int64_t batch,
                                       int64_t microbatch, RengaPlan plan)
{
  RengaPlan found = NULL;
  RengaErrorCode code =
      RengaErrorAgree(partition->hdr.comm, RengaPlanCreate(partition->hdr.owner, &found));
  if (!code) code = SearchIn(session, partition, wish, ranks, batch, microbatch, found);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (!code && !partition->beaten) code = PredictAgain(partition, found, ranks, session, plan);
  code = RengaErrorAgree(partition->hdr.comm, code);
  if (found) RengaPlanDestroy(&found);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchPartition_Private(RengaPartition partition, const RengaSearchWish *wish,
                                            int ranks, int64_t batch, int64_t microbatch,
                                            RengaPlan plan)
{
  const RengaMemoryForecast *forecast = RengaSearchForecast_Private();
  struct SearchSession session = {.before = partition->asked};
  RengaErrorCode code;
  if (RengaSearchSeeksTensor_Private(partition, wish))
    code = SearchWithTensor(&session, partition, wish, ranks, batch, microbatch, plan);
  else
    code = SearchIn(&session, partition, wish, ranks, batch, microbatch, plan);
  partition->asked += session.asked;
  if (forecast) forecast->end(&session.forecasts);
  RengaCall(code);
  return RENGA_SUCCESS;
}
