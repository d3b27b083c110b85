/* Split rules of operators that choose elements by index. */
#include "splitimpl.h"
#include <string.h>

/* Dimensions [first, last) of the data, or of the places that indices have. */
static void AddLetters(RengaFormula *formula, const char *letters, int first, int last)
{
  char word[RENGA_MAX_DIM + 1] = "";
  for (int d = first; d < last; d++) word[d - first] = letters[d];
  RengaFormulaAdd_Private(formula, word);
}

static void EndWord(RengaFormula *formula, const char *end)
{
  const size_t length = strlen(formula->text);
  if (length == 0 || formula->text[length - 1] == ' ') RengaFormulaAdd_Private(formula, ".");
  RengaFormulaAdd_Private(formula, end);
}

/* data[a v b], indices[jk] -> y[a jk b] */
static RengaErrorCode WriteGather(const RengaOpCall *call, RengaFormula *formula)
{
  const bool grad = (call->op->flags & RENGA_OP_OUTPUT_GIVEN) != 0;
  const RengaTensorSpec *data = grad ? &call->out[0] : &call->in[0];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", data->ndim, &axis));
  RengaFormula word[3] = {{.groups = 0}, {.groups = 0}, {.groups = 0}};
  AddLetters(&word[0], RENGA_FORMULA_DIMS, 0, axis);
  RengaFormulaAdd_Private(&word[0], "v");
  AddLetters(&word[0], RENGA_FORMULA_DIMS, axis + 1, data->ndim);
  AddLetters(&word[1], RENGA_FORMULA_PLACES, 0, call->in[1].ndim);
  AddLetters(&word[2], RENGA_FORMULA_DIMS, 0, axis);
  AddLetters(&word[2], RENGA_FORMULA_PLACES, 0, call->in[1].ndim);
  AddLetters(&word[2], RENGA_FORMULA_DIMS, axis + 1, data->ndim);
  RengaFormulaAdd_Private(formula, word[grad ? 2 : 0].text);
  EndWord(formula, " ");
  RengaFormulaAdd_Private(formula, word[1].text);
  EndWord(formula, " > ");
  RengaFormulaAdd_Private(formula, word[grad ? 0 : 2].text);
  EndWord(formula, "");
  return RENGA_SUCCESS;
}

/* Indices say which element along the axis; off it data and indices stand side by side where they
   have one extent. Along it, data is whole, and each index by itself. */
static RengaErrorCode WriteElements(const RengaOpCall *call, RengaFormula *formula)
{
  const bool grad = (call->op->flags & RENGA_OP_OUTPUT_GIVEN) != 0;
  const RengaTensorSpec *data = grad ? &call->out[0] : &call->in[0], *index = &call->in[1];
  char of_data[RENGA_MAX_DIM + 3] = "", of_index[RENGA_MAX_DIM + 3] = "";
  int axis;
  RengaCall(RengaOpAxis(call, "axis", data->ndim, &axis));
  for (int d = 0; d < data->ndim; d++) {
    const bool same = d != axis && index->dim[d] == data->dim[d];
    of_data[d] = same ? RENGA_FORMULA_DIMS[d] : '-';
    of_index[d] = d == axis ? 'y' : of_data[d];
  }
  RengaFormulaAdd_Private(formula, grad ? of_index : of_data);
  RengaFormulaAdd_Private(formula, " ");
  RengaFormulaAdd_Private(formula, of_index);
  RengaFormulaAdd_Private(formula, " > ");
  RengaFormulaAdd_Private(formula, grad ? of_data : of_index);
  return RENGA_SUCCESS;
}

/* data, indices, updates -> y: off the axis, where all have one extent. */
static RengaErrorCode WriteScatterElements(const RengaOpCall *call, RengaFormula *formula)
{
  const RengaTensorSpec *data = &call->in[0];
  bool without[RENGA_MAX_DIM];
  int axis;
  RengaCall(RengaOpAxis(call, "axis", data->ndim, &axis));
  for (int d = 0; d < data->ndim; d++) without[d] = d == axis || call->in[1].dim[d] != data->dim[d];
  RengaFormulaAddDims_Private(formula, data->ndim, without);
  RengaFormulaAdd_Private(formula, "> ");
  RengaFormulaAddDims_Private(formula, data->ndim, without);
  return RENGA_SUCCESS;
}

/* Words of data, of indices [batch, places, depth], and of what they choose. */
static void WriteND(const RengaTensorSpec *data, const RengaTensorSpec *index, int batch,
                    RengaFormula word[3])
{
  const int depth = (int)index->dim[index->ndim - 1];
  AddLetters(&word[0], RENGA_FORMULA_DIMS, 0, batch);
  for (int d = 0; d < depth; d++) RengaFormulaAdd_Private(&word[0], "-");
  AddLetters(&word[0], RENGA_FORMULA_DIMS, batch + depth, data->ndim);
  AddLetters(&word[1], RENGA_FORMULA_DIMS, 0, batch);
  AddLetters(&word[1], RENGA_FORMULA_PLACES, batch, index->ndim - 1);
  RengaFormulaAdd_Private(&word[1], "-");
  AddLetters(&word[2], RENGA_FORMULA_DIMS, 0, batch);
  AddLetters(&word[2], RENGA_FORMULA_PLACES, batch, index->ndim - 1);
  AddLetters(&word[2], RENGA_FORMULA_DIMS, batch + depth, data->ndim);
}

static RengaErrorCode WriteGatherND(const RengaOpCall *call, RengaFormula *formula)
{
  const bool grad = (call->op->flags & RENGA_OP_OUTPUT_GIVEN) != 0;
  RengaFormula word[3] = {{.groups = 0}, {.groups = 0}, {.groups = 0}};
  WriteND(grad ? &call->out[0] : &call->in[0], &call->in[1],
          (int)RengaOpCallInt(call, "batch_dims"), word);
  RengaFormulaAdd_Private(formula, word[grad ? 2 : 0].text);
  EndWord(formula, " ");
  RengaFormulaAdd_Private(formula, word[1].text);
  EndWord(formula, " > ");
  RengaFormulaAdd_Private(formula, word[grad ? 0 : 2].text);
  EndWord(formula, "");
  return RENGA_SUCCESS;
}

/* Updates may meet: only what each of them has whole, the dimensions behind, are axes. */
static RengaErrorCode WriteScatterND(const RengaOpCall *call, RengaFormula *formula)
{
  const int depth = (int)call->in[1].dim[call->in[1].ndim - 1], ndim = call->in[0].ndim;
  RengaFormula data = {.groups = 0}, updates = {.groups = 0};
  for (int d = 0; d < depth; d++) RengaFormulaAdd_Private(&data, "-");
  AddLetters(&data, RENGA_FORMULA_DIMS, depth, ndim);
  RengaFormulaAdd_Private(&updates, "~");
  AddLetters(&updates, RENGA_FORMULA_DIMS, depth, ndim);
  RengaFormulaAdd_Private(formula, data.text);
  EndWord(formula, " ~ ");
  RengaFormulaAdd_Private(formula, updates.text);
  RengaFormulaAdd_Private(formula, " > ");
  RengaFormulaAdd_Private(formula, data.text);
  EndWord(formula, "");
  return RENGA_SUCCESS;
}

/* indices, off and on -> a dimension more, of classes */
static RengaErrorCode WriteOneHot(const RengaOpCall *call, RengaFormula *formula)
{
  const int ndim = call->in[0].ndim;
  int axis;
  RengaCall(RengaOpAxis(call, "axis", ndim + 1, &axis));
  AddLetters(formula, RENGA_FORMULA_DIMS, 0, ndim);
  EndWord(formula, " - > ");
  AddLetters(formula, RENGA_FORMULA_DIMS, 0, axis);
  RengaFormulaAdd_Private(formula, "-");
  AddLetters(formula, RENGA_FORMULA_DIMS, axis, ndim);
  return RENGA_SUCCESS;
}

/* scores, labels, (class weights) -> sum, log-sum-exp; gradient: d sum, scores, labels,
   (log-sum-exp,) (class weights) -> d scores */
static RengaErrorCode WriteLikelihood(const RengaOpCall *call, RengaFormula *formula)
{
  const bool grad = strstr(call->op->name, "Grad") != NULL;
  const bool keeps = strstr(call->op->name, "CrossEntropy") != NULL;
  const int ndim = call->in[grad].ndim;
  RengaFormula scores = {.groups = 0}, labels = {.groups = 0};
  int axis;
  RengaCall(RengaOpAxis(call, "axis", ndim, &axis));
  AddLetters(&scores, RENGA_FORMULA_DIMS, 0, axis);
  RengaFormulaAdd_Private(&scores, "-");
  AddLetters(&scores, RENGA_FORMULA_DIMS, axis + 1, ndim);
  AddLetters(&labels, RENGA_FORMULA_DIMS, 0, axis);
  AddLetters(&labels, RENGA_FORMULA_DIMS, axis + 1, ndim);
  EndWord(&labels, " ");
  if (grad) RengaFormulaAdd_Private(formula, "~ ");
  RengaFormulaAdd_Private(formula, scores.text);
  RengaFormulaAdd_Private(formula, " ");
  RengaFormulaAdd_Private(formula, labels.text);
  if (grad && keeps) RengaFormulaAdd_Private(formula, labels.text);
  RengaFormulaAdd_Private(formula, "- > ");
  RengaFormulaAdd_Private(formula, grad ? scores.text : ". ");
  if (!grad) RengaFormulaAdd_Private(formula, labels.text);
  return RENGA_SUCCESS;
}

/* scores, labels -> log-sum-exp, score; gradient: d log-sum-exp, d score, scores, labels,
   log-sum-exp -> d scores. Where the classes lie is an attribute: they are no axis. */
static RengaErrorCode WriteEntropyLane(const RengaOpCall *call, RengaFormula *formula)
{
  const bool grad = call->n_in > 2;
  const int ndim = call->in[grad ? 2 : 0].ndim;
  RengaFormula scores = {.groups = 0}, labels = {.groups = 0};
  int axis;
  RengaCall(RengaOpAxis(call, "axis", ndim, &axis));
  AddLetters(&scores, RENGA_FORMULA_DIMS, 0, axis);
  RengaFormulaAdd_Private(&scores, "-");
  AddLetters(&scores, RENGA_FORMULA_DIMS, axis + 1, ndim);
  AddLetters(&labels, RENGA_FORMULA_DIMS, 0, axis);
  AddLetters(&labels, RENGA_FORMULA_DIMS, axis + 1, ndim);
  EndWord(&labels, " ");
  for (int i = 0; i < 2 && grad; i++) RengaFormulaAdd_Private(formula, labels.text);
  RengaFormulaAdd_Private(formula, scores.text);
  RengaFormulaAdd_Private(formula, " ");
  for (int i = 0; i < 2; i++)
    if (i == 0 || grad) RengaFormulaAdd_Private(formula, labels.text);
  RengaFormulaAdd_Private(formula, "> ");
  RengaFormulaAdd_Private(formula, grad ? scores.text : labels.text);
  return RENGA_SUCCESS;
}

const RengaSplitRule RengaSplitRulesIndex[] = {
    {"Gather", NULL, WriteGather, "0", NULL},
    {"GatherGrad", NULL, WriteGather, "0", NULL},
    {"GatherElements", NULL, WriteElements, "0", NULL},
    {"GatherElementsGrad", NULL, WriteElements, "0", NULL},
    {"GatherND", NULL, WriteGatherND, "0", NULL},
    {"GatherNDGrad", NULL, WriteGatherND, "0", NULL},
    {"ScatterElements", NULL, WriteScatterElements, NULL, NULL},
    {"ScatterND", NULL, WriteScatterND, NULL, NULL},
    {"OneHot", NULL, WriteOneHot, "1", NULL},
    {"CrossEntropy", NULL, WriteLikelihood, NULL, NULL},
    {"CrossEntropyGrad", NULL, WriteLikelihood, "0", NULL},
    {"CrossEntropyCount", "* - > .", NULL, NULL, NULL},
    {"CrossEntropyLane", NULL, WriteEntropyLane, NULL, NULL},
    {"CrossEntropyLaneGrad", NULL, WriteEntropyLane, "01", NULL},
    {"CrossEntropyJoin", "* - * > . *", NULL, NULL, NULL},
    {"CrossEntropyJoinGrad", "~ * * - * > *", NULL, "0", NULL},
    {"LogLikelihood", NULL, WriteLikelihood, NULL, NULL},
    {"LogLikelihoodGrad", NULL, WriteLikelihood, "0", NULL},
    {0},
};
