/* The ways of a call: its rule is looked up, its formula read, sums are let through. */
#include "splitimpl.h"
#include <string.h>

static const RengaSplitRule *const rule_families[] = {
    RengaSplitRulesEach,   RengaSplitRulesMove,  RengaSplitRulesIndex,
    RengaSplitRulesMatrix, RengaSplitRulesImage, RengaSplitRulesNormalize,
};
enum { RULE_FAMILIES = sizeof rule_families / sizeof rule_families[0] };

static const RengaSplitRule *FindRule(const RengaOperator *op)
{
  static const RengaSplitRule elementwise = {.name = "", .formula = "* > *"};
  static const RengaSplitRule own = {.name = ""}; /* the operator has the formula */
  if (op->split) return &own;
  if (RengaOperatorIsOutside_Private(op->name))
    return op->flags & RENGA_OP_ELEMENTWISE ? &elementwise : NULL;
  for (int f = 0; f < RULE_FAMILIES; f++)
    for (const RengaSplitRule *rule = rule_families[f]; rule->name; rule++)
      if (strcmp(rule->name, op->name) == 0) return rule;
  return op->flags & RENGA_OP_ELEMENTWISE ? &elementwise : NULL;
}

/* Whether the operator can be split in any way; one without a rule stays whole. */
bool RengaSplitHasRule(const RengaOperator *op)
{
  return (op->flags & RENGA_OP_RESHAPE) != 0 || FindRule(op) != NULL;
}

/* Inputs that a set of the rule names are terms of sums; false where the call has none of them. */
static bool MarkTerms(const RengaOpCall *call, const char *set, RengaSplitWay *way)
{
  bool any = false;
  for (int i = 0; i < call->n_in; i++) {
    const bool named = *set == '*' || (i < 10 && memchr(set, '0' + i, strcspn(set, " ")));
    if (!named || !RengaOpCallHasInput(call, i)) continue;
    way->in[i].kind = RENGA_SPLIT_SUM;
    any = true;
  }
  for (int o = 0; o < call->n_out; o++) way->out[o].kind = RENGA_SPLIT_SUM;
  return any;
}

/* The ways in which terms of sums go in and come out: f(a + b) = f(a) + f(b). */
static RengaErrorCode AddLinear(const RengaOpCall *call, const char *sets, RengaSplitWays *ways)
{
  for (int o = 0; o < call->n_out; o++)
    if (!RengaDataTypeIsFloating(call->out[o].type)) return RENGA_SUCCESS;
  for (const char *set = sets; *set; set += strcspn(set, " "), set += strspn(set, " ")) {
    RengaSplitWay *way = NULL;
    RengaCall(RengaSplitWaysAdd_Private(call, 0, ways, &way));
    if (MarkTerms(call, set, way)) continue;
    RengaFree(&way->in);
    ways->count--;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode GetWays(const RengaOpCall *call, RengaSplitWays *ways)
{
  const RengaSplitRule *rule = FindRule(call->op);
  RengaFormula formula = {.groups = 0};
  if (!rule) return RENGA_SUCCESS;
  const char *text = call->op->split ? call->op->split : rule->formula;
  if (rule->write)
    RengaCall(rule->write(call, &formula));
  else if (text)
    memcpy(formula.text, text, strlen(text) + 1);
  if (formula.text[0]) RengaCall(RengaFormulaGetWays_Private(call, &formula, rule, ways));
  if (call->op->flags & RENGA_OP_RESHAPE) RengaCall(RengaSplitWaysAddReshape_Private(call, ways));
  RengaCall(RengaSplitWaysAddWindow_Private(call, ways));
  RengaCall(RengaSplitWaysAddStatistics_Private(call, ways));
  if (rule->linear) RengaCall(AddLinear(call, rule->linear, ways));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitWaysGet(const RengaOpCall *call, RengaSplitWays *ways)
{
  RengaSplitWays found = {0};
  const RengaErrorCode code = GetWays(call, &found);
  if (code != RENGA_SUCCESS) RengaSplitWaysFree(&found);
  RengaCall(code);
  *ways = found;
  return RENGA_SUCCESS;
}
