/* A price for bytes instead of a bound on them (Lagrange): the least seconds and bytes together at
   any price, less the price of the bound, is at most what any choice within the bound takes. The
   price is raised until the choice that it leads to fits, by the line through two choices, one
   that fits and one that does not, until no other is below it. */
#include "keepimpl.h"
#include <math.h>
#include <string.h>

enum { PRICES_MOST = 100 };

/* The smaller cost, and the fewer bytes where it is the same. */
static bool IsCheaper(const KeepRest *one, const KeepRest *other)
{
  if (fabs(one->cost - other->cost) > keep_precision * fmax(one->cost, other->cost))
    return one->cost < other->cost;
  return one->bytes < other->bytes;
}

static KeepRest RestOf(const KeepSearch *search, int item, const KeepArc *arc)
{
  const double price = search->price, seconds = search->problem->seconds[item];
  KeepRest idle = {.cost = HUGE_VAL, .bytes = INT64_MAX}, again = idle;
  if (arc->idle >= 0) {
    idle = search->rest[arc->idle];
    idle.cost += price * (double)arc->price;
    idle.bytes += arc->price;
    idle.again = false;
  }
  if (arc->again >= 0) {
    again = search->rest[arc->again];
    again.cost += seconds;
    again.seconds += seconds;
    again.again = true;
  }
  return arc->again >= 0 && (arc->idle < 0 || IsCheaper(&again, &idle)) ? again : idle;
}

/* Of all states; that of the first one is returned. */
static KeepRest TakePrice(KeepSearch *search, double price)
{
  const int items = search->problem->items;
  search->price = price;
  search->rest[search->first[0]] = (KeepRest){0};
  for (int p = 1; p <= items; p++)
    for (int s = search->first[p]; s < search->first[p] + search->count[p]; s++)
      search->rest[s] = RestOf(search, p - 1, &search->arc[s]);
  const KeepRest whole = search->rest[search->first[items]];
  const double least = whole.cost - price * (double)search->problem->bound;
  if (search->exact && least > search->least) search->least = least;
  return whole;
}

void RengaKeepMark_Private(const KeepSearch *search, int place, int state, bool keep[])
{
  for (int m = search->start[place - 1]; m < search->start[place]; m++)
    if (RengaKeepIsWanted_Private(search, state, search->made[m])) keep[search->made[m]] = true;
}

void RengaKeepFollow_Private(const KeepSearch *search, int place, int state, bool keep[])
{
  for (; place > 0; place--) {
    const bool again = search->rest[state].again;
    if (!again) RengaKeepMark_Private(search, place, state, keep);
    state = again ? search->arc[state].again : search->arc[state].idle;
  }
}

/* The choice that the price leads to, which fits. */
static void TakePricedChoice(KeepSearch *search, const KeepRest *whole)
{
  const int items = search->problem->items;
  if (whole->seconds >= search->seconds) return;
  search->seconds = whole->seconds;
  memset(search->keep, 0, (size_t)search->problem->values * sizeof *search->keep);
  RengaKeepFollow_Private(search, items, search->first[items], search->keep);
}

/* Nothing is kept, whatever it costs: a price at which no byte is worth its seconds. */
static double HighestPrice(const RengaKeepProblem *problem)
{
  double all = 1;
  for (int i = 0; i < problem->items; i++) all += problem->seconds[i];
  return all;
}

RengaErrorCode RengaKeepFindPrice_Private(KeepSearch *search)
{
  const int64_t bound = search->problem->bound;
  RengaCall(RengaMalloc(search->n_states + 1, &search->rest));
  search->seconds = HUGE_VAL;
  KeepRest over = TakePrice(search, 0), fits = over;
  if (over.bytes > bound) fits = TakePrice(search, HighestPrice(search->problem));
  TakePricedChoice(search, &fits);
  for (int i = 0; over.bytes > bound && i < PRICES_MOST; i++) {
    const double price = (fits.seconds - over.seconds) / (double)(over.bytes - fits.bytes);
    const double line = fits.seconds + price * (double)fits.bytes;
    const KeepRest whole = TakePrice(search, price);
    if (whole.bytes <= bound) TakePricedChoice(search, &whole);
    if (whole.cost >= line - keep_precision * line) break;
    if (whole.bytes <= bound)
      fits = whole;
    else
      over = whole;
  }
  return RENGA_SUCCESS;
}
