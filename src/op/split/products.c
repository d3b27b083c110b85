/* Split rules of products, attention, images, normalisations and recurrent layers. */
#include "splitimpl.h"
#include <string.h>

static RengaErrorCode WriteFormula(const char *text, RengaFormula *formula)
{
  RengaFormulaAdd_Private(formula, text);
  return RENGA_SUCCESS;
}

static bool FlipsB(const RengaOpCall *call)
{
  return RengaOpCallInt(call, "transB") != 0;
}

static RengaErrorCode WriteLinear(const RengaOpCall *call, RengaFormula *formula)
{
  return WriteFormula(FlipsB(call) ? "*k ok +o > *o" : "*k ko +o > *o", formula);
}

static RengaErrorCode WriteLinearGradInput(const RengaOpCall *call, RengaFormula *formula)
{
  return WriteFormula(FlipsB(call) ? "*o ok > *k" : "*o ko > *k", formula);
}

static RengaErrorCode WriteLinearGradWeight(const RengaOpCall *call, RengaFormula *formula)
{
  return WriteFormula(FlipsB(call) ? "*k *o > ok" : "*k *o > ko", formula);
}

/* A vector is a row on the left and a column on the right. */
static RengaErrorCode WriteMatMul(const RengaOpCall *call, RengaFormula *formula)
{
  const bool row = call->in[0].ndim == 1, column = call->in[1].ndim == 1;
  const bool flip_a = RengaOpCallInt(call, "transA") != 0;
  RengaFormulaAdd_Private(formula, row ? "k " : flip_a ? "*km " : "*mk ");
  RengaFormulaAdd_Private(formula, column ? "k > " : FlipsB(call) ? "*nk > " : "*kn > ");
  RengaFormulaAdd_Private(formula, row ? (column ? "." : "*n") : (column ? "*m" : "*mn"));
  return RENGA_SUCCESS;
}

/* Channels c and o of a group; w is [(go), c, taps]. Every convolution is made of these words. */
#define X "n(gc)~ "
#define Y "n(go)~ "
#define W "(go)c~ "

static RengaErrorCode WriteConvolution(const RengaOpCall *call, RengaFormula *formula)
{
  static const struct {
    const char *name, *text;
  } forms[] = {{"Conv", X W "+(go) > " Y},
               {"ConvGradInput", Y W "> " X},
               {"ConvGradWeight", X Y "> " W},
               {"ConvTranspose", X "(gc)o~ +(go) > " Y}};
  formula->groups = RengaOpCallInt(call, "group");
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(forms[i].name, call->op->name) == 0) RengaFormulaAdd_Private(formula, forms[i].text);
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteGroupNorm(const RengaOpCall *call, RengaFormula *formula)
{
  const bool grad = strstr(call->op->name, "Grad") != NULL;
  formula->groups = RengaOpCallInt(call, "num_groups");
  if (formula->groups == 0) formula->groups = call->in[grad].dim[1];
  RengaFormulaAdd_Private(formula,
                          grad ? "n(g-)~ n(g-)~ (g-) ng > n(g-)~ (g-)" : "n(g-)~ (g-) > n(g-)~ ng");
  return RENGA_SUCCESS;
}

/* With given statistics an element needs no other. */
static RengaErrorCode WriteBatchNorm(const RengaOpCall *call, RengaFormula *formula)
{
  const bool trains = RengaOpCallInt(call, "training") != 0;
  const bool alone = !trains && call->n_out == 1;
  RengaFormulaAdd_Private(formula, alone ? "nc* c > nc*" : "-c~ c > -c~ c");
  return RENGA_SUCCESS;
}

static RengaErrorCode WriteBatchNormGrad(const RengaOpCall *call, RengaFormula *formula)
{
  const bool trains = RengaOpCallInt(call, "training") != 0;
  RengaFormulaAdd_Private(formula, trains ? "-c~ -c~ c > -c~ c" : "nc* nc* c > nc* c");
  return RENGA_SUCCESS;
}

RengaErrorCode RengaSplitWaysAddStatistics_Private(const RengaOpCall *call, RengaSplitWays *ways)
{
  RengaSplitWay *way;
  if (strcmp(call->op->name, "BatchNormalization") != 0 || call->n_out != 1) return RENGA_SUCCESS;
  if (RengaOpCallInt(call, "training") == 0) return RENGA_SUCCESS;
  for (int d = 2; d < call->in[0].ndim; d++) {
    RengaCall(RengaSplitWaysAdd_Private(call, call->in[0].dim[d], ways, &way));
    way->need = RENGA_LANE_STATISTICS;
    way->in[0] = way->out[0] = (RengaSplit){RENGA_SPLIT_ALONG, d, 1, 1};
  }
  return RENGA_SUCCESS;
}

/* Dimensions before the axis; each row has its own statistics. */
static RengaErrorCode WriteRowNorm(const RengaOpCall *call, RengaFormula *formula)
{
  const bool grad = strstr(call->op->name, "Grad") != NULL;
  const RengaTensorSpec *x = &call->in[grad];
  bool without[RENGA_MAX_DIM];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", x->ndim, &axis));
  for (int d = 0; d < x->ndim; d++) without[d] = d >= axis;
  for (int i = 0; i <= grad; i++) RengaFormulaAddDims_Private(formula, x->ndim, without);
  RengaFormulaAdd_Private(formula, "~ ");
  if (grad) RengaFormulaAddDims_Private(formula, x->ndim, without);
  RengaFormulaAdd_Private(formula, "> ");
  RengaFormulaAddDims_Private(formula, x->ndim, without);
  if (grad)
    RengaFormulaAdd_Private(formula, "~");
  else
    RengaFormulaAddDims_Private(formula, x->ndim, without);
  return RENGA_SUCCESS;
}

/* Heads of keys and values, with those of the queries that read them; not samples, which have one
   cache. */
static RengaErrorCode WriteCachedAttention(const RengaOpCall *call, RengaFormula *formula)
{
  static const bool without[RENGA_MAX_DIM] = {true, true, true, true, true, true, true, true};
  const bool masked = RengaOpCallHasInput(call, 7);
  const bool heads =
      masked && call->in[7].ndim > 2 && call->in[7].dim[call->in[7].ndim - 3] == call->in[0].dim[1];
  formula->groups = call->in[3].dim[0];
  RengaFormulaAdd_Private(formula, "-(g-)-- - - g--- g--- ");
  if (call->n_in > 5) RengaFormulaAdd_Private(formula, "-g-- -g-- ");
  if (masked && heads && call->in[0].dim[1] > 1) {
    RengaFormulaAdd_Private(formula, call->in[7].ndim > 3 ? "-(g-)-- " : "(g-)-- ");
  } else if (masked) {
    RengaFormulaAddDims_Private(formula, call->in[7].ndim, without);
    RengaFormulaAdd_Private(formula, " ");
  }
  RengaFormulaAdd_Private(formula, "> -(g-)--");
  return RENGA_SUCCESS;
}

const RengaSplitRule RengaSplitRulesMatrix[] = {
    {"MatMul", NULL, WriteMatMul, "0 1", NULL},
    {"Linear", NULL, WriteLinear, "02 12", NULL},
    {"LinearGradInput", NULL, WriteLinearGradInput, "0 1", NULL},
    {"LinearGradWeight", NULL, WriteLinearGradWeight, "0 1", NULL},
    {"Det", "*-- > *", NULL, NULL, NULL},
    {"DetGrad", "* *-- > *--", NULL, "0", NULL},
    {"Attention", "*t- *-- *-- *t- > *t- *t", NULL, NULL, NULL},
    {"AttentionGrad", "*t- *t- *-- *-- *t- *t *t- > *t- *-- *-- *t-", NULL, "0", NULL},
    {"CachedAttention", NULL, WriteCachedAttention, NULL, NULL},
    {"RNNCells", "-b- -- b- > -b-", NULL, NULL, NULL},
    {"RNNCellsGrad", "-- b- -b- > -b- -- b-", NULL, "3", NULL},
    {"LSTMCells", "-b- -- b- > -b-", NULL, NULL, NULL},
    {"LSTMCellsGrad", "-- b- b- -b- > -b- -- b-", NULL, "67", NULL},
    {"GRUCells", "-b- -- - b- > -b-", NULL, NULL, NULL},
    {"GRUCellsGrad", "-- b- -b- > -b- -- - b-", NULL, "5", NULL},
    {0},
};

const RengaSplitRule RengaSplitRulesImage[] = {
    {"Conv", NULL, WriteConvolution, "02 12", "group"},
    {"ConvGradInput", NULL, WriteConvolution, "0 1", "group"},
    {"ConvGradWeight", NULL, WriteConvolution, "0 1", "group"},
    {"ConvTranspose", NULL, WriteConvolution, "02 12", "group"},
    {"MaxPool", "nc~ > nc~", NULL, NULL, NULL},
    {"MaxPoolGrad", "nc~ > nc~", NULL, "0", NULL},
    {"AveragePool", "nc~ > nc~", NULL, "0", NULL},
    {"AveragePoolGrad", "nc~ > nc~", NULL, "0", NULL},
    {"RoiAlign", "-c-- b- b > bc--", NULL, NULL, NULL},
    {"RoiAlignGrad", "bc-- b- b -c-- > -c--", NULL, "0", NULL},
    {0},
};

const RengaSplitRule RengaSplitRulesNormalize[] = {
    {"LayerNormalization", NULL, WriteRowNorm, NULL, NULL},
    {"LayerNormalizationGrad", NULL, WriteRowNorm, "0", NULL},
    {"RMSNormalization", NULL, WriteRowNorm, NULL, NULL},
    {"RMSNormalizationGrad", NULL, WriteRowNorm, "0", NULL},
    {"GroupNormalization", NULL, WriteGroupNorm, NULL, "num_groups"},
    {"GroupNormalizationGrad", NULL, WriteGroupNorm, "0", "num_groups"},
    {"InstanceNormalization", NULL, WriteGroupNorm, NULL, NULL},
    {"InstanceNormalizationGrad", NULL, WriteGroupNorm, "0", NULL},
    {"BatchNormalization", NULL, WriteBatchNorm, NULL, NULL},
    {"BatchNormalizationGrad", NULL, WriteBatchNormGrad, "0", NULL},
    {"BatchNormalizationLane", "-c~ > c c", NULL, NULL, NULL},
    {"BatchNormalizationLaneGrad", "c c -c~ c > -c~", NULL, "01", NULL},
    {"BatchNormalizationJoin", "c c c > c", NULL, NULL, NULL},
    {"BatchNormalizationJoinGrad", "c c c c > c", NULL, "01", NULL},
    {"LRN", "n-* > n-*", NULL, NULL, NULL},
    {"LRNGrad", "n-* > n-*", NULL, "0", NULL},
    {0},
};
