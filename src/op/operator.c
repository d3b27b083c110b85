/* The operator table: look up, infer, count. */
#include "renga/private/op.h"
#include <string.h>

static const RengaOperator *const families[] = {
    RengaOperatorsUnary, RengaOperatorsBinary,    RengaOperatorsReduce,   RengaOperatorsMove,
    RengaOperatorsIndex, RengaOperatorsMatrix,    RengaOperatorsConvolve, RengaOperatorsNormalize,
    RengaOperatorsLoss,  RengaOperatorsRecurrent,
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

/*@
   RengaOperatorFind - the operator of a name, NULL where there is none

   Not collective

   Input:
   . name - ONNX's name, or one of Renga's own
@*/
const RengaOperator *RengaOperatorFind(const char *name)
{
  for (int f = 0; f < N_FAMILIES; f++)
    for (const RengaOperator *op = families[f]; op->name; op++)
      if (strcmp(op->name, name) == 0) return op;
  return NULL;
}

/*@
   RengaOperatorAt - an operator by its place in the table, NULL past the end

   Not collective

   Input:
   . index - 0 … RengaOperatorCount() - 1
@*/
const RengaOperator *RengaOperatorAt(int index)
{
  for (int f = 0; f < N_FAMILIES; f++)
    for (const RengaOperator *op = families[f]; op->name; op++)
      if (index-- == 0) return op;
  return NULL;
}

/*@
   RengaOperatorCount - number of operators in the table

   Not collective
@*/
int RengaOperatorCount(void)
{
  int count = 0;
  while (RengaOperatorAt(count)) count++;
  return count;
}

static RengaErrorCode CheckArity(const RengaOpCall *call)
{
  const RengaOperator *op = call->op;
  RengaOpCheckValue(call->n_in >= op->min_in && (op->max_in < 0 || call->n_in <= op->max_in), call,
                    "has %d inputs, takes %d to %d", call->n_in, op->min_in, op->max_in);
  RengaOpCheckValue(call->n_out >= op->min_out && (op->max_out < 0 || call->n_out <= op->max_out),
                    call, "has %d outputs, makes %d to %d", call->n_out, op->min_out, op->max_out);
  for (int i = 0; i < op->min_in; i++)
    RengaOpCheckValue(call->in[i].ndim >= 0, call, "input %d is missing", i);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckConcrete(const RengaOpCall *call, const RengaTensorSpec *spec,
                                    const char *what, int number)
{
  RengaOpCheck(spec->ndim <= RENGA_MAX_DIM, call, "%s %d has %d dimensions, at most %d are allowed",
               what, number, spec->ndim, RENGA_MAX_DIM);
  for (int d = 0; d < spec->ndim; d++)
    RengaOpCheck(spec->dim[d] >= 0, call, "dimension %d of %s %d is %lld", d, what, number,
                 (long long)spec->dim[d]);
  RengaOpCheck(RengaTensorSpecBytes(spec) < (size_t)INT64_MAX, call, "%s %d is too large", what,
               number);
  return RENGA_SUCCESS;
}

/*@
   RengaOperatorInfer - check one use of an operator and find the types and shapes of its outputs

   Not collective

   Input:
   . call - the use: operator, attributes, concrete shapes of the inputs; where the operator is
            marked RENGA_OP_OUTPUT_GIVEN also the shapes of the outputs

   Output:
   . call - out[] is filled

   Notes: wrong arity, attributes, types or shapes are errors that show the call with all its shapes
@*/
RengaErrorCode RengaOperatorInfer(RengaOpCall *call)
{
  RengaCall(CheckArity(call));
  for (int i = 0; i < call->n_in; i++) RengaCall(CheckConcrete(call, &call->in[i], "input", i));
  RengaCall(RengaOpCheckAttributes(call));
  RengaCall(RengaOpCheckTypes(call));
  if (call->op->flags & RENGA_OP_OUTPUT_GIVEN)
    for (int i = 0; i < call->n_out; i++) {
      RengaOpCheck(call->out[i].ndim >= 0, call, "the shape of output %d must be given", i);
      RengaCall(CheckConcrete(call, &call->out[i], "output", i));
    }
  RengaCall(call->op->shape(call));
  for (int i = 0; i < call->n_out; i++) RengaCall(CheckConcrete(call, &call->out[i], "output", i));
  return RENGA_SUCCESS;
}

/*@
   RengaOperatorFlops - floating point operations of a call whose outputs are inferred

   Not collective

   Input:
   . call - the use of an operator

   Notes: a multiply-add counts two; operators that only move data count none
@*/
double RengaOperatorFlops(const RengaOpCall *call)
{
  if (call->op->flops) return call->op->flops(call);
  double count = 0;
  for (int i = 0; i < call->n_out; i++) count += (double)RengaTensorSpecCount(&call->out[i]);
  return count;
}

/*@
   RengaOperatorBytes - bytes that a call reads and writes, each input and output once

   Not collective

   Input:
   . call - the use of an operator, outputs inferred
@*/
double RengaOperatorBytes(const RengaOpCall *call)
{
  double bytes = 0;
  for (int i = 0; i < call->n_in; i++) bytes += (double)RengaTensorSpecBytes(&call->in[i]);
  for (int i = 0; i < call->n_out; i++) bytes += (double)RengaTensorSpecBytes(&call->out[i]);
  return bytes;
}
