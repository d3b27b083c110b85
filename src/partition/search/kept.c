/* What stages that recompute keep all the same: a stage as a problem of src/partition/keep, from
   the chain and the costs of its nodes, and the sets of values that are kept.

   What lies in the memory of another value, a reshape, is that value here. A value that is read and
   sent lies in each micro-batch's slot anyway, so that it is always kept. What other tensor ranks
   make is not chosen: it is kept where its twin is (twins.c). */
#include "kept.h"
#include "renga/private/keep.h"
#include "renga/private/plan.h"
#include <math.h>
#include <string.h>

enum { ALIGNMENT = 64, CHOICES_FIRST = 256 };

typedef struct {
  int count;
  uint64_t hash;
  RengaValue *value;
} KeptSet;

/* What a choice depends on; without gaps, as it is compared byte by byte. */
typedef enum { CHOICE_BEST, CHOICE_ABOUT, CHOICE_OF_PARTS } ChoiceKind;
typedef struct {
  const RengaProfileCost *costs; /* those of the micro-batch */
  double share;                  /* bytes of a saved element */
  int64_t microbatch, slots, bound;
  int begin, end, base, kind;
} ChoiceKey;

typedef struct {
  bool used;
  ChoiceKey key;
  SearchKept kept;
} KnownChoice;

/* Set number n is row n - 1. The search asks for the same stages again and again, under schedules
   and beside others that leave them the same room: what was chosen is known. */
struct SearchKeptSets {
  int count;
  KeptSet *row;
  int *local; /* [values] number in the stage that is looked at, -1: not in it */
  int n_known, n_slots;
  KnownChoice *known; /* [n_slots] open addressing */
};

typedef struct {
  RengaKeepProblem problem;
  double *seconds;
  int *maker, *first, *need;
  bool *read, *sent, *keep, *others;
  int64_t *price, *bytes;
} KeptStage;

RengaErrorCode RengaSearchKeptCreate_Private(RengaGraph graph, struct SearchKeptSets **sets)
{
  const int count = RengaGraphGetValueCount(graph);
  struct SearchKeptSets *made = NULL;
  RengaCall(RengaMalloc(1, &made));
  const RengaErrorCode code = RengaMalloc(count + 1, &made->local);
  if (code) RengaFree(&made);
  RengaCall(code);
  for (int v = 0; v < count; v++) made->local[v] = -1;
  *sets = made;
  return RENGA_SUCCESS;
}

void RengaSearchKeptFree_Private(struct SearchKeptSets **sets)
{
  for (int i = 0; *sets && i < (*sets)->count; i++) RengaFree(&(*sets)->row[i].value);
  if (*sets) RengaFree(&(*sets)->row);
  if (*sets) RengaFree(&(*sets)->known);
  if (*sets) RengaFree(&(*sets)->local);
  RengaFree(sets);
}

static void FreeKeptStage(KeptStage *own)
{
  RengaFree(&own->seconds);
  RengaFree(&own->maker);
  RengaFree(&own->first);
  RengaFree(&own->need);
  RengaFree(&own->read);
  RengaFree(&own->sent);
  RengaFree(&own->keep);
  RengaFree(&own->others);
  RengaFree(&own->price);
  RengaFree(&own->bytes);
}

static RengaErrorCode AllocateKeptStage(const SearchChain *chain, const SearchStage *stage,
                                        KeptStage *own)
{
  const int items = stage->end - stage->begin;
  int values = 0, needs = 0;
  for (int c = stage->begin; c < stage->end; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    values += node->n_out;
    needs += node->n_in;
  }
  RengaCall(RengaMalloc(items + 1, &own->seconds));
  RengaCall(RengaMalloc(items + 1, &own->first));
  RengaCall(RengaMalloc(needs + 1, &own->need));
  RengaCall(RengaMalloc(values + 1, &own->maker));
  RengaCall(RengaMalloc(values + 1, &own->read));
  RengaCall(RengaMalloc(values + 1, &own->sent));
  RengaCall(RengaMalloc(values + 1, &own->keep));
  RengaCall(RengaMalloc(values + 1, &own->others));
  RengaCall(RengaMalloc(values + 1, &own->price));
  RengaCall(RengaMalloc(values + 1, &own->bytes));
  return RENGA_SUCCESS;
}

/* Number in the stage of the value whose memory it is; -1: it is not made there. */
static int KeptNumberOf(const SearchChain *chain, RengaValue value)
{
  return value < 0 ? -1 : chain->kept->local[RengaSearchRootOf_Private(chain->graph, value)];
}

static bool IsOfOtherLanes(const SearchChain *chain, RengaValue value)
{
  return chain->twin && chain->twin[value] != value;
}

static void AddKeptItem(const SearchChain *chain, const SearchModel *model,
                        const SearchStage *stage, int place, int *needs, KeptStage *own)
{
  const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[place]);
  const double share = model->listing.bytes[stage->shape.precision].saved;
  const int item = place - stage->begin;
  const bool free = chain->others && chain->others[place];
  own->first[item] = *needs;
  for (int i = 0; i < node->n_in; i++)
    if (KeptNumberOf(chain, node->in[i]) >= 0 && !IsOfOtherLanes(chain, node->in[i]))
      own->need[(*needs)++] = KeptNumberOf(chain, node->in[i]);
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue value = node->out[o];
    if (value < 0) continue;
    if (RengaSearchRootOf_Private(chain->graph, value) == value) {
      const int n = chain->kept->local[value] = own->problem.values++;
      const double bytes = share * RengaSearchBytesOf_Private(
                                       RengaGraphGetValue(chain->graph, value), model->microbatch);
      own->maker[n] = item;
      own->others[n] = IsOfOtherLanes(chain, value);
      own->read[n] = !own->others[n] && !free && chain->reader[value] < stage->end;
      own->bytes[n] = ALIGNMENT * (int64_t)ceil(bytes / ALIGNMENT);
    }
    const int n = KeptNumberOf(chain, value);
    if (n >= 0 && chain->last[value] >= stage->end) own->sent[n] = true;
  }
}

/* Without prices and a bound; freed by FreeKeptStage in any case. */
static RengaErrorCode MakeKeptStage(const SearchChain *chain, const RengaProfileCost costs[],
                                    const SearchModel *model, const SearchStage *stage,
                                    KeptStage *own)
{
  const int items = stage->end - stage->begin;
  int needs = 0;
  RengaCall(AllocateKeptStage(chain, stage, own));
  for (int c = stage->begin; c < stage->end; c++) {
    AddKeptItem(chain, model, stage, c, &needs, own);
    own->seconds[c - stage->begin] = costs[chain->node[c]].forward;
  }
  own->first[items] = needs;
  own->problem = (RengaKeepProblem){.items = items,
                                    .values = own->problem.values,
                                    .seconds = own->seconds,
                                    .maker = own->maker,
                                    .read = own->read,
                                    .price = own->price,
                                    .first = own->first,
                                    .need = own->need};
  return RENGA_SUCCESS;
}

/* Numbers in a stage are forgotten. */
static void LeaveKeptStage(const SearchChain *chain, const SearchStage *stage)
{
  for (int c = stage->begin; c < stage->end; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] >= 0) chain->kept->local[node->out[o]] = -1;
  }
}

/* The number of a set; it takes the values over. */
static RengaErrorCode NumberSet(struct SearchKeptSets *sets, int count, RengaValue **value,
                                int *number)
{
  const size_t size = (size_t)count * sizeof **value;
  const uint64_t hash = RengaHash(*value, size, 0);
  for (int i = 0; i < sets->count; i++) {
    const KeptSet *row = &sets->row[i];
    if (row->hash != hash || row->count != count || memcmp(row->value, *value, size) != 0) continue;
    RengaFree(value);
    *number = i + 1;
    return RENGA_SUCCESS;
  }
  if ((sets->count & (sets->count - 1)) == 0)
    RengaCall(RengaRealloc(2 * sets->count + 1, &sets->row));
  sets->row[sets->count++] = (KeptSet){.count = count, .hash = hash, .value = *value};
  *value = NULL;
  *number = sets->count;
  return RENGA_SUCCESS;
}

/* All values that lie in the memory of those that are kept. */
static RengaErrorCode StoreSet(const SearchChain *chain, const SearchStage *stage,
                               const KeptStage *own, int *number)
{
  RengaValue *value = NULL;
  int count = 0;
  for (int c = stage->begin; c < stage->end; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    for (int o = 0; o < node->n_out; o++) {
      const int n = KeptNumberOf(chain, node->out[o]);
      if (n < 0 || !own->keep[n]) continue;
      if ((count & (count - 1)) == 0) RengaCall(RengaRealloc(2 * count + 1, &value));
      value[count++] = node->out[o];
    }
  }
  *number = 0;
  if (!count) return RENGA_SUCCESS;
  const RengaErrorCode code = NumberSet(chain->kept, count, &value, number);
  RengaFree(&value);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of what other tensor ranks make that whose twin is kept. */
static void KeepTwins(const SearchChain *chain, const SearchStage *stage, KeptStage *own)
{
  for (int c = stage->begin; c < stage->end && chain->twin; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    for (int o = 0; o < node->n_out; o++) {
      const RengaValue value = node->out[o];
      if (value < 0 || !IsOfOtherLanes(chain, value)) continue;
      const int n = KeptNumberOf(chain, value), twin = KeptNumberOf(chain, chain->twin[value]);
      if (n >= 0 && own->others[n] && twin >= 0) own->keep[n] = own->keep[twin];
    }
  }
}

/* What the stage's choice means for its costs. */
static RengaErrorCode TakeKeptChoice(const SearchChain *chain, const KeptStage *own,
                                     SearchStage *stage)
{
  int64_t price;
  stage->kept = (SearchKept){0};
  RengaCall(RengaKeepEvaluate(&own->problem, own->keep, NULL, &stage->kept.again, &price));
  for (int n = 0; n < own->problem.values; n++)
    if (own->keep[n] && own->read[n]) stage->kept.bytes += (double)own->bytes[n];
  RengaCall(StoreSet(chain, stage, own, &stage->kept.set));
  if (!stage->kept.set) stage->kept = (SearchKept){0};
  return RENGA_SUCCESS;
}

/* What is kept in any case takes none of the budget. */
static void FillKeptPrices(const SearchChain *chain, int64_t slots, const SearchKept *base,
                           KeptStage *own)
{
  const KeptSet *set = base->set > 0 ? &chain->kept->row[base->set - 1] : NULL;
  for (int n = 0; n < own->problem.values; n++) {
    const bool free = own->read[n] && own->sent[n];
    own->price[n] = own->read[n] ? slots * own->bytes[n] : -1;
    if (free) own->price[n] = 0;
  }
  for (int k = 0; set && k < set->count; k++) {
    const int n = KeptNumberOf(chain, set->value[k]);
    if (n >= 0 && own->read[n]) own->price[n] = 0;
  }
}

/* Where the choice is among those that are known, or where it goes. */
static KnownChoice *FindChoice(const struct SearchKeptSets *sets, const ChoiceKey *key)
{
  for (uint64_t at = RengaHash(key, sizeof *key, 0);; at++) {
    KnownChoice *known = &sets->known[at % (uint64_t)sets->n_slots];
    if (!known->used || !memcmp(&known->key, key, sizeof *key)) return known;
  }
}

static RengaErrorCode GrowChoices(struct SearchKeptSets *sets)
{
  const struct SearchKeptSets old = *sets;
  if (2 * sets->n_known < sets->n_slots) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(4 * old.n_slots + CHOICES_FIRST, &sets->known));
  sets->n_slots = 4 * old.n_slots + CHOICES_FIRST;
  for (int i = 0; i < old.n_slots; i++)
    if (old.known[i].used) *FindChoice(sets, &old.known[i].key) = old.known[i];
  KnownChoice *known = old.known;
  RengaFree(&known);
  return RENGA_SUCCESS;
}

/* Of one kind, into stage->kept; key->bound: bytes, or parts. */
typedef RengaErrorCode (*ChooseHow)(const SearchChain *chain, const SearchModel *model,
                                    const ChoiceKey *key, const SearchKept *base, KeptStage *own,
                                    SearchStage *stage);

static RengaErrorCode SolveKept(const ChoiceKey *key, const SearchKept *base,
                                const SearchChain *chain, KeptStage *own, RengaKeepResult *result)
{
  FillKeptPrices(chain, key->slots, base, own);
  own->problem.bound = key->bound;
  own->problem.point_limit = key->kind == CHOICE_ABOUT ? 1 : 0; /* by the price of a byte alone */
  RengaCall(RengaKeepSolve(&own->problem, result));
  return RENGA_SUCCESS;
}

static RengaErrorCode KeepBest(const SearchChain *chain, const SearchModel *model,
                               const ChoiceKey *key, const SearchKept *base, KeptStage *own,
                               SearchStage *stage)
{
  RengaKeepResult result;
  (void)model;
  RengaCall(SolveKept(key, base, chain, own, &result));
  memcpy(own->keep, result.keep, (size_t)own->problem.values * sizeof *own->keep);
  RengaKeepFreeResult(&result);
  KeepTwins(chain, stage, own);
  RengaCall(TakeKeptChoice(chain, own, stage));
  return RENGA_SUCCESS;
}

/* Some choice, of which the seconds alone are known. */
static RengaErrorCode KeepAbout(const SearchChain *chain, const SearchModel *model,
                                const ChoiceKey *key, const SearchKept *base, KeptStage *own,
                                SearchStage *stage)
{
  RengaKeepResult result;
  (void)model;
  RengaCall(SolveKept(key, base, chain, own, &result));
  stage->kept = (SearchKept){.set = -1, .again = result.seconds};
  RengaKeepFreeResult(&result);
  return RENGA_SUCCESS;
}

/* The place with the fewest bytes over it of those that are nearest to part number of so many; end:
   there is none. */
static int NarrowPlace(const SearchModel *model, const SearchStage *stage, int parts, int number)
{
  const double first = model->saved[stage->begin], all = model->saved[stage->end] - first;
  const double target = first + all * number / parts, reach = all / (2 * parts);
  int best = stage->end;
  for (int c = stage->begin + 1; c < stage->end; c++) {
    const double away = fabs(model->saved[c] - target);
    if (away > reach) continue;
    if (best < stage->end &&
        (model->cut[c] > model->cut[best] ||
         (model->cut[c] == model->cut[best] && away >= fabs(model->saved[best] - target))))
      continue;
    best = c;
  }
  return best;
}

/* What the stage makes before the place and needs behind it. */
static void KeepOver(const SearchChain *chain, const SearchStage *stage, int place, KeptStage *own)
{
  for (int c = stage->begin; c < place; c++) {
    const RengaGraphNode *node = RengaGraphGetNode(chain->graph, chain->node[c]);
    for (int o = 0; o < node->n_out; o++) {
      const int n = KeptNumberOf(chain, node->out[o]);
      if (n >= 0 && own->read[n] && chain->last[node->out[o]] >= place) own->keep[n] = true;
    }
  }
}

static RengaErrorCode KeepParts(const SearchChain *chain, const SearchModel *model,
                                const ChoiceKey *key, const SearchKept *base, KeptStage *own,
                                SearchStage *stage)
{
  (void)base;
  for (int k = 1; k < key->bound; k++) {
    const int place = NarrowPlace(model, stage, (int)key->bound, k);
    if (place < stage->end) KeepOver(chain, stage, place, own);
  }
  KeepTwins(chain, stage, own);
  RengaCall(TakeKeptChoice(chain, own, stage));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeChoice(const SearchChain *chain, const SearchModel *model,
                                 const ChoiceKey *key, const SearchKept *base, SearchStage *stage)
{
  static const ChooseHow choose[] = {
      [CHOICE_BEST] = KeepBest, [CHOICE_ABOUT] = KeepAbout, [CHOICE_OF_PARTS] = KeepParts};
  KeptStage own = {0};
  RengaErrorCode code = MakeKeptStage(chain, key->costs, model, stage, &own);
  if (!code) code = choose[key->kind](chain, model, key, base, &own, stage);
  LeaveKeptStage(chain, stage);
  FreeKeptStage(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindOrChoose(const SearchChain *chain, const RengaProfileCost costs[],
                                   const SearchModel *model, ChoiceKind kind, int64_t slots,
                                   int64_t bound, const SearchKept *base, SearchStage *stage)
{
  const ChoiceKey key = {.costs = costs,
                         .share = model->listing.bytes[stage->shape.precision].saved,
                         .microbatch = model->microbatch,
                         .slots = slots,
                         .bound = bound,
                         .begin = stage->begin,
                         .end = stage->end,
                         .base = base->set,
                         .kind = kind};
  RengaCall(GrowChoices(chain->kept));
  KnownChoice *known = FindChoice(chain->kept, &key);
  if (!known->used) {
    RengaCall(MakeChoice(chain, model, &key, base, stage));
    *known = (KnownChoice){.used = true, .key = key, .kept = stage->kept};
    chain->kept->n_known++;
  }
  stage->kept = known->kept;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchChooseKept_Private(const SearchChain *chain,
                                             const RengaProfileCost costs[],
                                             const SearchModel *model, int64_t slots, double budget,
                                             const SearchKept *base, SearchStage *stage)
{
  RengaCall(FindOrChoose(chain, costs, model, CHOICE_BEST, slots, budget > 0 ? (int64_t)budget : 0,
                         base, stage));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchAgainAbout_Private(const SearchChain *chain,
                                             const RengaProfileCost costs[],
                                             const SearchModel *model, int64_t slots, double budget,
                                             const SearchKept *base, const SearchStage *stage,
                                             double *again)
{
  SearchStage own = *stage;
  RengaCall(FindOrChoose(chain, costs, model, CHOICE_ABOUT, slots, budget > 0 ? (int64_t)budget : 0,
                         base, &own));
  *again = own.kept.again;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchCutKept_Private(const SearchChain *chain, const RengaProfileCost costs[],
                                          const SearchModel *model, int parts, SearchStage *stage)
{
  const SearchKept none = {0};
  RengaCall(FindOrChoose(chain, costs, model, CHOICE_OF_PARTS, 0, parts, &none, stage));
  return RENGA_SUCCESS;
}

/* By the names that the plan has: of a value, or of a reshape of it. */
static RengaErrorCode TakeNames(const SearchChain *chain, RengaPlan plan, int s, KeptStage *own,
                                SearchStage *stage)
{
  const char *const *name;
  int count;
  RengaCall(RengaPlanGetKept(plan, s, &count, &name));
  for (int k = 0; k < count; k++) {
    const int n = KeptNumberOf(chain, RengaGraphFindValue(chain->graph, name[k]));
    if (n >= 0) own->keep[n] = own->read[n] || own->others[n];
  }
  RengaCall(TakeKeptChoice(chain, own, stage));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSearchTakeKept_Private(const SearchChain *chain, const RengaProfileCost costs[],
                                           const SearchModel *model, RengaPlan plan, int s,
                                           SearchStage *stage)
{
  const char *const *name;
  KeptStage own = {0};
  int count;
  RengaCall(RengaPlanGetKept(plan, s, &count, &name));
  if (!count) return RENGA_SUCCESS;
  RengaErrorCode code = MakeKeptStage(chain, costs, model, stage, &own);
  if (!code) code = TakeNames(chain, plan, s, &own, stage);
  LeaveKeptStage(chain, stage);
  FreeKeptStage(&own);
  RengaCall(code);
  return RENGA_SUCCESS;
}

void RengaSearchGetKept_Private(const SearchChain *chain, const SearchStage *stage, int *count,
                                const RengaValue **value)
{
  const KeptSet *set = stage->kept.set > 0 ? &chain->kept->row[stage->kept.set - 1] : NULL;
  *count = set ? set->count : 0;
  *value = set ? set->value : NULL;
}

RengaErrorCode RengaSearchSetKept_Private(RengaGraph graph, RengaPlan plan, int s, int count,
                                          const RengaValue value[])
{
  const char **name = NULL;
  if (!count) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(count, &name));
  for (int k = 0; k < count; k++) name[k] = RengaGraphGetValue(graph, value[k])->name;
  const RengaErrorCode code = RengaPlanSetKept(plan, s, count, name);
  RengaFree(&name);
  RengaCall(code);
  return RENGA_SUCCESS;
}
