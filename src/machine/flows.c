/* Rates of flows over shared links: max-min fairness by progressive filling (Bertsekas and
   Gallager, "Data Networks", 1992, section 6.5.2). Messages on a full link get equal shares of it,
   but for those that a fuller link, or their sender, holds back. A flow of many messages goes at
   the rate of its slowest. Only flows that a new or ended one reaches over links are looked at. */
#include "renga/private/flows.h"
#include <math.h>

RengaErrorCode RengaFlowsCreate_Private(int n_links, RengaFlows *flows)
{
  *flows = (RengaFlows){.n_links = n_links};
  const int64_t count = n_links;
  RengaErrorCode code = RengaMalloc(3 * count + 1, &flows->capacity);
  if (!code) code = RengaMalloc(count + 1, &flows->first);
  if (!code) code = RengaMalloc(2 * count + 1, &flows->seen);
  if (code) RengaFlowsDestroy_Private(flows);
  RengaCall(code);
  flows->room = flows->capacity + n_links;
  flows->share = flows->room + n_links;
  flows->reached = flows->seen + n_links;
  return RENGA_SUCCESS;
}

void RengaFlowsDestroy_Private(RengaFlows *flows)
{
  RengaFree(&flows->capacity);
  RengaFree(&flows->first);
  RengaFree(&flows->seen);
  RengaFree(&flows->near);
}

static RengaErrorCode AddNear(RengaFlows *flows, RengaFlow *flow)
{
  if (flow->mark == flows->mark) return RENGA_SUCCESS;
  if (flows->n_near == flows->most_near) {
    flows->most_near = 2 * flows->most_near + 64;
    RengaCall(RengaRealloc(flows->most_near, &flows->near));
  }
  flow->mark = flows->mark;
  flows->near[flows->n_near++] = flow;
  return RENGA_SUCCESS;
}

/* Those who share a link with one of near[], and so on. */
static RengaErrorCode FindNear(RengaFlows *flows, int from)
{
  for (int n = from; n < flows->n_near; n++)
    for (int h = 0; h < flows->near[n]->n_hops; h++) {
      const int link = flows->near[n]->hop[h].link;
      if (flows->seen[link] == flows->mark) continue;
      flows->seen[link] = flows->mark;
      flows->reached[flows->n_reached++] = link;
      for (RengaFlowHop *hop = flows->first[link]; hop; hop = hop->next)
        RengaCall(AddNear(flows, hop->flow));
    }
  return RENGA_SUCCESS;
}

/* What a message gets where the fullest of the links is shared out evenly. */
static double EvenShare(const RengaFlows *flows)
{
  double least = HUGE_VAL;
  for (int l = 0; l < flows->n_reached; l++) {
    const int link = flows->reached[l];
    if (flows->share[link] > 0) least = fmin(least, flows->room[link] / flows->share[link]);
  }
  return least;
}

static const double rounding = 1 + 1e-12; /* of what is divided and multiplied again */

/* The link cannot give the message more than this. */
static bool IsFull(const RengaFlows *flows, int link, double each)
{
  return flows->room[link] <= flows->share[link] * each * rounding;
}

static bool IsHeldBack(const RengaFlows *flows, const RengaFlow *flow, double each)
{
  if (flow->most <= each * flow->weight * rounding) return true;
  for (int h = 0; h < flow->n_hops; h++)
    if (IsFull(flows, flow->hop[h].link, each)) return true;
  return false;
}

static void TakeRate(RengaFlows *flows, RengaFlow *flow, double each)
{
  flow->rate = fmin(flow->most, each * flow->weight);
  for (int h = 0; h < flow->n_hops; h++) {
    const RengaFlowHop *hop = &flow->hop[h];
    flows->room[hop->link] = fmax(0, flows->room[hop->link] - flow->rate * hop->load);
    flows->share[hop->link] -= flow->weight * hop->load;
    if (flows->share[hop->link] < 1e-9 * flow->weight * hop->load) flows->share[hop->link] = 0;
  }
}

/* The least that a sender alone gives each of its messages. */
static double FindSlowest(const RengaFlows *flows, int from)
{
  double least = HUGE_VAL;
  for (int n = from; n < flows->n_near; n++)
    least = fmin(least, flows->near[n]->most / flows->near[n]->weight);
  return least;
}

/* What is left of a share by rounding alone holds nobody back: all of the link have their rates. */
static void EmptyFullLinks(RengaFlows *flows, double each)
{
  for (int l = 0; l < flows->n_reached; l++)
    if (IsFull(flows, flows->reached[l], each)) flows->share[flows->reached[l]] = 0;
}

/* Of near[]: those that are held are moved to the front, round after round. */
static void FillLinks(RengaFlows *flows)
{
  for (int l = 0; l < flows->n_reached; l++) {
    const int link = flows->reached[l];
    flows->room[link] = flows->capacity[link];
    flows->share[link] = 0;
    for (const RengaFlowHop *hop = flows->first[link]; hop; hop = hop->next)
      flows->share[link] += hop->flow->weight * hop->load;
  }
  for (int done = 0; done < flows->n_near;) {
    const double each = fmin(EvenShare(flows), FindSlowest(flows, done));
    const int before = done;
    for (int n = done; n < flows->n_near; n++) {
      RengaFlow *flow = flows->near[n];
      if (!IsHeldBack(flows, flow, each)) continue;
      TakeRate(flows, flow, each);
      flows->near[n] = flows->near[done];
      flows->near[done++] = flow;
    }
    if (done == before) EmptyFullLinks(flows, each);
  }
}

static void PutOnLink(RengaFlows *flows, RengaFlowHop *hop)
{
  hop->previous = NULL;
  hop->next = flows->first[hop->link];
  if (hop->next) hop->next->previous = hop;
  flows->first[hop->link] = hop;
}

static void TakeOffLink(RengaFlows *flows, RengaFlowHop *hop)
{
  if (hop->next) hop->next->previous = hop->previous;
  if (hop->previous)
    hop->previous->next = hop->next;
  else
    flows->first[hop->link] = hop->next;
}

/* At new rates from now on. */
static void RenewRates(RengaFlows *flows, double now)
{
  for (int n = 0; n < flows->n_near; n++) {
    RengaFlow *flow = flows->near[n];
    flow->left = fmax(0, flow->left - flow->rate * (now - flow->since));
    flow->since = now;
    flow->version++;
  }
  FillLinks(flows);
}

RengaErrorCode RengaFlowsBegin_Private(RengaFlows *flows, RengaFlow *flow, double now)
{
  flow->rate = 0;
  flow->since = now;
  for (int h = 0; h < flow->n_hops; h++) {
    flow->hop[h].flow = flow;
    PutOnLink(flows, &flow->hop[h]);
  }
  flows->mark++;
  flows->n_near = flows->n_reached = 0;
  RengaCall(AddNear(flows, flow));
  RengaCall(FindNear(flows, 0));
  RenewRates(flows, now);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaFlowsEnd_Private(RengaFlows *flows, RengaFlow *flow, double now)
{
  for (int h = 0; h < flow->n_hops; h++) TakeOffLink(flows, &flow->hop[h]);
  flows->mark++;
  flows->n_near = flows->n_reached = 0;
  RengaCall(AddNear(flows, flow));
  RengaCall(FindNear(flows, 0));
  flow->version++;
  flows->near[0] = flows->near[--flows->n_near]; /* all but itself */
  RenewRates(flows, now);
  return RENGA_SUCCESS;
}
