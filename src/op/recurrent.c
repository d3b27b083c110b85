/* Recurrent layers in one direction: what is left of ONNX's RNN, GRU and LSTM when the input has
   been projected by a Linear. a [steps, batch, gates x hidden], r [gates x hidden, hidden],
   states [batch, hidden], outputs [steps, batch, hidden]. Attribute reverse: from the last step
   to the first. */
#include "renga/private/op.h"
#include <string.h>

static RengaErrorCode CheckMatrix(const RengaOpCall *call, int input, int64_t rows, int64_t columns)
{
  const RengaTensorSpec *x = &call->in[input];
  RengaOpCheck(x->ndim == 2 && x->dim[0] == rows && x->dim[1] == columns, call,
               "input %d must be [%lld,%lld]", input, (long long)rows, (long long)columns);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSequence(const RengaOpCall *call, int input, const RengaTensorSpec *like)
{
  const RengaTensorSpec *x = &call->in[input];
  bool fits = x->ndim == 3 && x->dim[0] == like->dim[0] && x->dim[1] == like->dim[1];
  RengaOpCheck(fits && x->dim[2] == like->dim[2], call, "input %d must be [%lld,%lld,%lld]", input,
               (long long)like->dim[0], (long long)like->dim[1], (long long)like->dim[2]);
  return RENGA_SUCCESS;
}

static void SetSequence(RengaTensorSpec *to, const RengaTensorSpec *like, int64_t width)
{
  RengaOpCopyShape(to, like);
  to->dim[2] = width;
}

/* a, r, (bias of r), states ... -> y, further sequences */
static RengaErrorCode Cells(RengaOpCall *call, int64_t gates, int first_state, int gate_output)
{
  const RengaTensorSpec *a = &call->in[0], *r = &call->in[1];
  RengaOpCheck(a->ndim == 3 && r->ndim == 2, call, "needs a sequence and a matrix");
  int64_t hidden = r->dim[1];
  RengaOpCheck(a->dim[2] == gates * hidden, call, "%lld gates of %lld need %lld columns, not %lld",
               (long long)gates, (long long)hidden, (long long)(gates * hidden),
               (long long)a->dim[2]);
  RengaCall(CheckMatrix(call, 1, gates * hidden, hidden));
  for (int i = first_state; i < call->n_in; i++) RengaCall(CheckMatrix(call, i, a->dim[1], hidden));
  for (int i = 0; i < call->n_out; i++)
    SetSequence(&call->out[i], a, i == gate_output ? gates * hidden : hidden);
  return RENGA_SUCCESS;
}

static RengaErrorCode RNNCells(RengaOpCall *call)
{
  const char *activation = RengaOpCallString(call, "activation");
  RengaOpCheckValue(activation[0] == '\0' || strcmp(activation, "Tanh") == 0 ||
                        strcmp(activation, "Relu") == 0,
                    call, "activation is %s, must be Tanh or Relu", activation);
  RengaCall(Cells(call, 1, 2, -1));
  return RENGA_SUCCESS;
}

static RengaErrorCode LSTMCells(RengaOpCall *call)
{
  RengaCall(Cells(call, 4, 2, 2));
  return RENGA_SUCCESS;
}

static RengaErrorCode GRUCells(RengaOpCall *call)
{
  const RengaTensorSpec *bias = &call->in[2];
  RengaCall(Cells(call, 3, 3, 1));
  RengaOpCheck(bias->ndim == 1 && bias->dim[0] == call->in[1].dim[0], call,
               "the bias must have %lld elements", (long long)call->in[1].dim[0]);
  return RENGA_SUCCESS;
}

/* r, states ..., sequences ..., dy ... -> da, dr, (dbias), d states; y is the first sequence */
static RengaErrorCode CellsGrad(RengaOpCall *call, int64_t gates, int n_states, int n_sequences,
                                int gate_input)
{
  const RengaTensorSpec *r = &call->in[0];
  RengaTensorSpec y = call->in[1 + n_states];
  RengaOpCheck(r->ndim == 2 && y.ndim == 3 && y.dim[2] == r->dim[1], call,
               "the outputs do not fit the matrix");
  RengaCall(CheckMatrix(call, 0, gates * r->dim[1], r->dim[1]));
  for (int i = 0; i < n_states; i++) RengaCall(CheckMatrix(call, 1 + i, y.dim[1], r->dim[1]));
  RengaTensorSpec wide = y;
  wide.dim[2] *= gates;
  for (int i = 1 + n_states; i < call->n_in; i++)
    if (RengaOpCallHasInput(call, i))
      RengaCall(CheckSequence(call, i, i == gate_input ? &wide : &y));
  RengaOpCheck(call->n_in > 1 + n_states + n_sequences, call, "no gradient of an output");
  RengaOpCopyShape(&call->out[0], &wide);
  RengaOpCopyShape(&call->out[1], r);
  for (int i = 0; i < n_states; i++)
    RengaOpCopyShape(&call->out[call->n_out - n_states + i], &call->in[1 + i]);
  return RENGA_SUCCESS;
}

static RengaErrorCode RNNCellsGrad(RengaOpCall *call)
{
  RengaCall(CellsGrad(call, 1, 1, 1, -1));
  return RENGA_SUCCESS;
}

static RengaErrorCode LSTMCellsGrad(RengaOpCall *call)
{
  RengaCall(CellsGrad(call, 4, 2, 3, 5));
  return RENGA_SUCCESS;
}

static RengaErrorCode GRUCellsGrad(RengaOpCall *call)
{
  RengaCall(CellsGrad(call, 3, 1, 3, 3));
  call->out[2].ndim = 1;
  call->out[2].dim[0] = call->in[0].dim[0];
  return RENGA_SUCCESS;
}

static double CellsFlops(const RengaOpCall *call)
{
  const RengaTensorSpec *a = &call->in[0];
  return 2.0 * (double)RengaTensorSpecCount(a) * (double)call->in[1].dim[1];
}

static double CellsGradFlops(const RengaOpCall *call)
{
  const RengaTensorSpec *da = &call->out[0];
  return 4.0 * (double)RengaTensorSpecCount(da) * (double)call->in[0].dim[1];
}

#define OWN RENGA_OP_INTERNAL
#define RNN "activation:string=Tanh reverse:int=0"
#define GRU "linear_before_reset:int=0 reverse:int=0"

const RengaOperator RengaOperatorsRecurrent[] = {
    /* a, r, h -> y */
    {"RNNCells", 3, 3, 1, 1, OWN | RENGA_OP_PRODUCT, RNNCells, CellsFlops, RNN, "F>F", NULL},
    /* r, h, y, dy -> da, dr, dh */
    {"RNNCellsGrad", 4, 4, 3, 3, OWN, RNNCellsGrad, CellsGradFlops, RNN, "F>F", NULL},
    /* a, r, h, c -> y, all c, activated gates (input, output, forget, cell) */
    {"LSTMCells", 4, 4, 3, 3, OWN | RENGA_OP_PRODUCT, LSTMCells, CellsFlops, "reverse:int=0", "F>F",
     NULL},
    /* r, h, c, y, all c, gates, (dy), (d all c) -> da, dr, dh, dc */
    {"LSTMCellsGrad", 6, 8, 4, 4, OWN, LSTMCellsGrad, CellsGradFlops, "reverse:int=0", "F>F", NULL},
    /* a, r, bias of r, h -> y, activated gates (update, reset, hidden), what r gives to the last */
    {"GRUCells", 4, 4, 3, 3, OWN | RENGA_OP_PRODUCT, GRUCells, CellsFlops, GRU, "F>F", NULL},
    /* r, h, y, gates, what r gives, dy -> da, dr, d bias, dh */
    {"GRUCellsGrad", 6, 6, 4, 4, OWN, GRUCellsGrad, CellsGradFlops, GRU, "F>F", NULL},
    {0},
};
