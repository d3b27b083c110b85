/* Reverse mode of operators from outside: another such operator finds their gradients. */
#include "../reverse.h"
#include "renga/private/object.h"
#include "renga/private/op.h"

static const char class_name[] = "RengaGradient";

/*@
   RengaGradientRegister - say which operator finds the gradients of one from outside

   Input:
   . rule - kept, not copied, until the program ends: both are of RengaOperatorRegister(), and the
     gradient is marked RENGA_OP_OUTPUT_GIVEN

   Errors: RENGA_ERR_ARGUMENT where one is not registered, or the operator has another gradient.

   Notes: the inputs of the gradient are the operator's n inputs, its m outputs, and the m gradients
   that arrive (zeros where none does); its outputs are the gradients of the floating inputs, in
   their order and of their shapes. It has those attributes of the operator that it declares. The
   gradient of an input without the batch (a parameter) is the sum over the samples, in one order.
   An operator without a gradient cannot stand between a parameter and the loss.

   See also: RengaOperatorRegister(), RengaKernelRegister()
@*/
RengaErrorCode RengaGradientRegister(const RengaGradientRule *rule)
{
  RengaCheckPointer(rule);
  const RengaOperator *gradient = rule->gradient ? RengaOperatorFind(rule->gradient) : NULL;
  RengaCheck(rule->op && RengaOperatorIsOutside_Private(rule->op) && gradient &&
                 RengaOperatorIsOutside_Private(rule->gradient),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the gradient %s of operator %s: both are to be registered by RengaOperatorRegister",
             rule->gradient ? rule->gradient : "without a name",
             rule->op ? rule->op : "without a name");
  RengaCheck(gradient->flags & RENGA_OP_OUTPUT_GIVEN, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the gradient %s of operator %s is given the shapes of its outputs: it needs the flag "
             "RENGA_OP_OUTPUT_GIVEN",
             rule->gradient, rule->op);
  RengaCall(RengaTypeRegister_Private(class_name, NULL, NULL, rule->op, rule));
  return RENGA_SUCCESS;
}

bool RengaReverseIsOutside(const char *op)
{
  return RengaTypeOutside_Private(class_name, op) != NULL;
}

/* in: the node's inputs, its outputs, what arrives at them. */
static RengaErrorCode GatherForGradient(RengaReverse *reverse, RengaValue in[])
{
  const RengaGraphNode *node = reverse->node;
  const int n = node->n_in, m = node->n_out;
  for (int i = 0; i < n; i++) {
    if (node->in[i] < 0) RengaReverseRefuse(reverse, "input %d is left out", i);
    in[i] = node->in[i];
  }
  for (int i = 0; i < m; i++) {
    in[n + i] = node->out[i];
    in[n + m + i] = reverse->dy[i];
    if (reverse->dy[i] < 0) RengaCall(RengaReverseZeros(reverse, node->out[i], &in[n + m + i]));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaReverseOutside(RengaReverse *reverse)
{
  const RengaGraphNode *node = reverse->node;
  const RengaGradientRule *rule = RengaTypeOutside_Private(class_name, node->op->name);
  const int n_in = node->n_in + 2 * node->n_out;
  RengaValue *in, *out;
  RengaTensorSpec *given;
  int n_out = 0;
  RengaCall(RengaGraphScratch(reverse->graph, n_in, &in));
  RengaCall(RengaGraphScratch(reverse->graph, node->n_in, &out));
  RengaCall(RengaGraphScratch(reverse->graph, node->n_in, &given));
  RengaCall(GatherForGradient(reverse, in));
  for (int i = 0; i < node->n_in; i++) {
    const RengaTensorSpec *spec = RengaReverseSpec(reverse, node->in[i]);
    if (RengaDataTypeIsFloating(spec->type)) given[n_out++] = *spec;
  }
  RengaCall(RengaReverseApplyLike(reverse, rule->gradient, n_in, in, given, n_out, out));
  for (int i = 0, k = 0; i < node->n_in; i++)
    if (RengaDataTypeIsFloating(RengaReverseSpec(reverse, node->in[i])->type))
      reverse->dx[i] = out[k++];
  return RENGA_SUCCESS;
}
