/* The operator table: look up, infer, count. */
#include "renga/private/object.h"
#include "renga/private/op.h"
#include "renga/private/quiet.h"
#include "renga/private/split.h"
#include <string.h>

static const RengaOperator *const families[] = {
    RengaOperatorsUnary, RengaOperatorsBinary,    RengaOperatorsReduce,    RengaOperatorsMove,
    RengaOperatorsIndex, RengaOperatorsMatrix,    RengaOperatorsConvolve,  RengaOperatorsNormalize,
    RengaOperatorsLoss,  RengaOperatorsAttention, RengaOperatorsRecurrent,
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };
static const char outside[] = "RengaOperator"; /* the class of what is registered */

/*@
   RengaOperatorFind - the operator of a name, NULL where there is none

   Input:
   . name - ONNX's name, or one of Renga's own

   Errors: none; NULL where there is no such operator.

   See also: RengaOperatorRegister(), RengaOperatorAt()
@*/
const RengaOperator *RengaOperatorFind(const char *name)
{
  for (int f = 0; f < N_FAMILIES; f++)
    for (const RengaOperator *op = families[f]; op->name; op++)
      if (strcmp(op->name, name) == 0) return op;
  return RengaTypeOutside_Private(outside, name);
}

bool RengaOperatorIsOutside_Private(const char *name)
{
  return RengaTypeOutside_Private(outside, name) != NULL;
}

/*@
   RengaOperatorRegister - add an operator from outside

   Input:
   . op - kept, not copied, until the program ends: a row of the table. Its flags may be
     RENGA_OP_ELEMENTWISE and RENGA_OP_OUTPUT_GIVEN

   Errors: RENGA_ERR_ARGUMENT for a name that another operator has, no rule for shapes, types,
   attributes or a split rule that cannot be read, other flags, an open number (-1) of inputs or
   outputs.

   Notes: the operator works on each sample by itself, and where an input or output has the batch,
   that is dimension 0; Renga cannot see this, and the same answer on any layout rests on it. All
   inputs are there. A node of an ONNX file that has this name, of whatever domain, is such an
   operator. What computes it: RengaKernelRegister(); its gradient: RengaGradientRegister(). Before
   the first graph that uses it. With a split rule it may stand between products that are computed
   in lanes (RengaGraphSetLanes()): its kernel is then given the dimensions that a lane has, which
   may be any units of the axis, and so must not depend on their places or their number. That, too,
   Renga cannot see. The gradient of a lane's call is that of those dimensions.

   See also: RengaKernelRegister(), RengaGradientRegister(), RengaGraphSetLanes()
@*/
RengaErrorCode RengaOperatorRegister(const RengaOperator *op)
{
  enum { ALLOWED = RENGA_OP_ELEMENTWISE | RENGA_OP_OUTPUT_GIVEN };
  RengaCheckPointer(op);
  const char *name = op->name ? op->name : "without a name";
  RengaCheck(op->shape && op->types, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the operator %s needs a rule for shapes, and types", name);
  RengaCheck((op->flags & ~(unsigned)ALLOWED) == 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the operator %s has flags %#x; one from outside may be elementwise and may be given "
             "its outputs' shapes",
             name, op->flags);
  RengaCheck(op->min_in >= 1 && op->max_in >= op->min_in && op->min_out >= 1 &&
                 op->max_out >= op->min_out,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the operator %s takes %d to %d inputs and makes %d to %d outputs: at least one of "
             "each, no less than the least, and no open number",
             name, op->min_in, op->max_in, op->min_out, op->max_out);
  RengaCheck(RengaOpRowIsSound_Private(op), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the operator %s: types \"%s\" or attributes \"%s\" cannot be read; they look like "
             "\"NI>N\" and \"axis:int=-1 pads:ints\"",
             name, op->types, op->attributes ? op->attributes : "");
  if (op->split) RengaCall(RengaSplitCheck_Private(op));
  const RengaOperator *known = op->name ? RengaOperatorFind(op->name) : NULL;
  RengaCheck(!known || known == op, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "there is an operator %s already: choose another name", name);
  RengaCall(RengaTypeRegister_Private(outside, NULL, NULL, op->name, op));
  return RENGA_SUCCESS;
}

/*@
   RengaOperatorAt - an operator by its place in the table, NULL past the end

   Input:
   . index - 0 … RengaOperatorCount() - 1

   Errors: none; NULL behind the last.

   See also: RengaOperatorCount(), RengaOperatorFind()
@*/
const RengaOperator *RengaOperatorAt(int index)
{
  for (int f = 0; f < N_FAMILIES; f++)
    for (const RengaOperator *op = families[f]; op->name; op++)
      if (index-- == 0) return op;
  return index < 0 ? NULL : RengaTypeOutsideAt_Private(outside, index);
}

/*@
   RengaOperatorCount - number of operators in the table

   See also: RengaOperatorAt()
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

/* Check one use of an operator and find the types and shapes of its outputs. Wrong arity,
   attributes, types or shapes are errors that show the call with all its shapes. call: the use:
   operator, attributes, concrete shapes of the inputs; where the operator is marked
   RENGA_OP_OUTPUT_GIVEN also the shapes of the outputs. call: out[] is filled. */
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
  const int64_t errors = RengaErrorCount_Private();
  const RengaErrorCode code = call->op->shape(call);
  RengaCheck(code == RENGA_SUCCESS || RengaErrorCount_Private() > errors, MPI_COMM_SELF, code,
             "the shapes of %s, a rule of the program, returned %d", call->op->name, (int)code);
  RengaCall(code);
  for (int i = 0; i < call->n_out; i++) RengaCall(CheckConcrete(call, &call->out[i], "output", i));
  return RENGA_SUCCESS;
}

/*@
   RengaOperatorFlops - floating point operations of a call whose outputs are inferred

   Input:
   . call - the use of an operator

   Notes: a multiply-add counts two; operators that only move data count none

   See also: RengaOperatorBytes(), RengaGraphGetNodeFlops()
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

   Input:
   . call - the use of an operator, outputs inferred

   See also: RengaOperatorFlops()
@*/
double RengaOperatorBytes(const RengaOpCall *call)
{
  double bytes = 0;
  for (int i = 0; i < call->n_in; i++) bytes += (double)RengaTensorSpecBytes(&call->in[i]);
  for (int i = 0; i < call->n_out; i++) bytes += (double)RengaTensorSpecBytes(&call->out[i]);
  return bytes;
}
