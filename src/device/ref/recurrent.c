/* Recurrent layers in one direction, step by step.

   Hochreiter, Schmidhuber: Long short-term memory, Neural Computation 9 (1997). Cho and others:
   Learning phrase representations using RNN encoder-decoder, arXiv 1406.1078. */
#include "ref.h"
#include <math.h>
#include <string.h>

typedef struct {
  int64_t steps, batch, hidden;
  bool reverse;
} Sequence_Ref;

static Sequence_Ref SequenceOf(const RengaOpCall *call, const RengaTensorSpec *y)
{
  return (Sequence_Ref){y->dim[0], y->dim[1], y->dim[2], RengaOpCallInt(call, "reverse") != 0};
}

/* The k-th step to be made; the one before it is at TimeOf(k - 1). */
static int64_t TimeOf(const Sequence_Ref *sequence, int64_t k)
{
  return sequence->reverse ? sequence->steps - 1 - k : k;
}

/* A state before step k: the first one, or the output of the step before; row n of it. */
typedef struct {
  RefIn data;
  int64_t at;
} CellState_Ref;

static CellState_Ref StateBefore(const Sequence_Ref *sequence, int64_t k, int64_t n, RefIn first,
                                 RefIn all)
{
  if (k == 0) return (CellState_Ref){first, n * sequence->hidden};
  return (CellState_Ref){all, (TimeOf(sequence, k - 1) * sequence->batch + n) * sequence->hidden};
}

/* Row of r times the state. */
static double Recurrent(const Sequence_Ref *sequence, RefIn r, int64_t row, CellState_Ref state)
{
  return RefDot(r, row * sequence->hidden, 1, state.data, state.at, 1, sequence->hidden);
}

static double Sigmoid(double x)
{
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

static RefIn ReadBack(RefOut y)
{
  return (RefIn){y.data, y.type};
}

static double GetOr0(RefIn x, int64_t i)
{
  return x.data ? RefGet(x, i) : 0;
}

static bool IsRelu(const RengaOpCall *call)
{
  return strcmp(RengaOpCallString(call, "activation"), "Relu") == 0;
}

/* y = f(a + r h) */
static RengaErrorCode RNNCells_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                   const void *const in[], void *const out[])
{
  RefIn a = RefInput(call, in, 0), r = RefInput(call, in, 1), first = RefInput(call, in, 2);
  RefOut y = RefOutput(call, out, 0);
  Sequence_Ref s = SequenceOf(call, &call->out[0]);
  bool relu = IsRelu(call);
  for (int64_t k = 0; k < s.steps; k++)
    for (int64_t n = 0; n < s.batch; n++) {
      CellState_Ref h = StateBefore(&s, k, n, first, ReadBack(y));
      int64_t at = (TimeOf(&s, k) * s.batch + n) * s.hidden;
      for (int64_t j = 0; j < s.hidden; j++) {
        double sum = RefGet(a, at + j) + Recurrent(&s, r, j, h);
        RefSet(y, at + j, relu ? (sum > 0 ? sum : 0) : tanh(sum));
      }
    }
  return RENGA_SUCCESS;
}

/* c = f c + i g, y = o tanh c */
static void LSTMRow(const Sequence_Ref *s, const RefIn in[], const RefOut out[], CellState_Ref h,
                    CellState_Ref c, int64_t row)
{
  int64_t hidden = s->hidden, wide = row * 4 * hidden, at = row * hidden;
  for (int64_t j = 0; j < hidden; j++) {
    double gate[4];
    for (int g = 0; g < 4; g++) {
      double sum = RefGet(in[0], wide + g * hidden + j) + Recurrent(s, in[1], g * hidden + j, h);
      gate[g] = g < 3 ? Sigmoid(sum) : tanh(sum);
      RefSet(out[2], wide + g * hidden + j, gate[g]);
    }
    double cell = gate[2] * RefGet(c.data, c.at + j) + gate[0] * gate[3];
    RefSet(out[1], at + j, cell);
    RefSet(out[0], at + j, gate[1] * tanh(cell));
  }
}

static RengaErrorCode LSTMCells_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                    const void *const in[], void *const out[])
{
  RefIn inputs[4];
  RefOut outputs[3];
  for (int i = 0; i < 4; i++) inputs[i] = RefInput(call, in, i);
  for (int i = 0; i < 3; i++) outputs[i] = RefOutput(call, out, i);
  Sequence_Ref s = SequenceOf(call, &call->out[0]);
  for (int64_t k = 0; k < s.steps; k++)
    for (int64_t n = 0; n < s.batch; n++)
      LSTMRow(&s, inputs, outputs, StateBefore(&s, k, n, inputs[2], ReadBack(outputs[0])),
              StateBefore(&s, k, n, inputs[3], ReadBack(outputs[1])), TimeOf(&s, k) * s.batch + n);
  return RENGA_SUCCESS;
}

/* What r gives to the hidden gate: r h + b, or r (reset h) + b. reset: gates of this row, from 1
   on. */
static double HiddenPart(const Sequence_Ref *s, RefIn r, RefIn bias, CellState_Ref h, bool linear,
                         RefIn gates, int64_t reset, int64_t j)
{
  int64_t row = 2 * s->hidden + j;
  double sum = RefGet(bias, row);
  if (linear) return sum + Recurrent(s, r, row, h);
  for (int64_t k = 0; k < s->hidden; k++)
    sum += RefGet(r, row * s->hidden + k) * RefGet(gates, reset + k) * RefGet(h.data, h.at + k);
  return sum;
}

/* z = σ, r = σ, g = tanh(a + r q) or tanh(a + q), y = (1 - z) g + z h */
static void GRURow(const Sequence_Ref *s, const RefIn in[], const RefOut out[], CellState_Ref h,
                   bool linear, int64_t row)
{
  int64_t hidden = s->hidden, wide = row * 3 * hidden, at = row * hidden;
  RefIn gates = ReadBack(out[1]);
  for (int64_t j = 0; j < 2 * hidden; j++)
    RefSet(out[1], wide + j,
           Sigmoid(RefGet(in[0], wide + j) + Recurrent(s, in[1], j, h) + RefGet(in[2], j)));
  for (int64_t j = 0; j < hidden; j++) {
    double q = HiddenPart(s, in[1], in[2], h, linear, gates, wide + hidden, j);
    double z = RefGet(gates, wide + j), reset = linear ? RefGet(gates, wide + hidden + j) : 1;
    double g = tanh(RefGet(in[0], wide + 2 * hidden + j) + reset * q);
    RefSet(out[1], wide + 2 * hidden + j, g);
    RefSet(out[2], at + j, q);
    RefSet(out[0], at + j, (1 - z) * g + z * RefGet(h.data, h.at + j));
  }
}

static RengaErrorCode GRUCells_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                   const void *const in[], void *const out[])
{
  RefIn inputs[4];
  RefOut outputs[3];
  for (int i = 0; i < 4; i++) inputs[i] = RefInput(call, in, i);
  for (int i = 0; i < 3; i++) outputs[i] = RefOutput(call, out, i);
  Sequence_Ref s = SequenceOf(call, &call->out[0]);
  bool linear = RengaOpCallInt(call, "linear_before_reset") != 0;
  for (int64_t k = 0; k < s.steps; k++)
    for (int64_t n = 0; n < s.batch; n++)
      GRURow(&s, inputs, outputs, StateBefore(&s, k, n, inputs[3], ReadBack(outputs[0])), linear,
             TimeOf(&s, k) * s.batch + n);
  return RENGA_SUCCESS;
}

/* Gradients go from the last step to the first. carry[n, j], the gradient of the state, is kept
   where that of the first state will be. */

/* carry[n] = transpose of r times da of the row (over the gates [0, gates)), plus what is there. */
static void AddThroughMatrix(const Sequence_Ref *s, RefIn r, RefIn da, int64_t row, int64_t gates,
                             int64_t all_gates, int64_t n, RefOut carry)
{
  for (int64_t k = 0; k < s->hidden; k++)
    RefAdd(carry, n * s->hidden + k,
           RefDot(da, row * all_gates * s->hidden, 1, r, k, s->hidden, gates * s->hidden));
}

/* dr[row, k]: over all steps and samples, da[row] * factor * state[k]; also its sum without the
   state. */
typedef double Factor(const Sequence_Ref *s, const RefIn saved[], int64_t row, int64_t j,
                      bool state);

static void MatrixGradient(const Sequence_Ref *s, RefIn da, int64_t gates, RefIn first, RefIn y,
                           const RefIn saved[], Factor *factor, RefOut dr, RefOut dbias)
{
  int64_t hidden = s->hidden;
  for (int64_t j = 0; j < gates * hidden; j++)
    for (int64_t c = dbias.data ? -1 : 0; c < hidden; c++) {
      double sum = 0;
      for (int64_t k = 0; k < s->steps; k++)
        for (int64_t n = 0; n < s->batch; n++) {
          int64_t row = TimeOf(s, k) * s->batch + n;
          CellState_Ref h = StateBefore(s, k, n, first, y);
          double value = RefGet(da, row * gates * hidden + j);
          if (factor && j >= 2 * hidden) value *= factor(s, saved, row, j - 2 * hidden, false);
          if (factor && j >= 2 * hidden && c >= 0) value *= factor(s, saved, row, c, true);
          sum += c >= 0 ? value * RefGet(h.data, h.at + c) : value;
        }
      if (c >= 0)
        RefSet(dr, j * hidden + c, sum);
      else
        RefSet(dbias, j, sum);
    }
}

/* in: r, h, y, dy */
static RengaErrorCode RNNCellsGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[])
{
  RefIn r = RefInput(call, in, 0), y = RefInput(call, in, 2), dy = RefInput(call, in, 3);
  RefOut da = RefOutput(call, out, 0), carry = RefOutput(call, out, 2);
  Sequence_Ref s = SequenceOf(call, &call->in[2]);
  bool relu = IsRelu(call);
  RefZero(carry, s.batch * s.hidden);
  for (int64_t k = s.steps - 1; k >= 0; k--)
    for (int64_t n = 0; n < s.batch; n++) {
      int64_t row = TimeOf(&s, k) * s.batch + n;
      for (int64_t j = 0; j < s.hidden; j++) {
        int64_t i = row * s.hidden + j;
        double dh = RefGet(dy, i) + RefGet(ReadBack(carry), n * s.hidden + j), value = RefGet(y, i);
        RefSet(da, i, dh * (relu ? value > 0 : 1 - value * value));
        RefSet(carry, n * s.hidden + j, 0);
      }
      AddThroughMatrix(&s, r, ReadBack(da), row, 1, 1, n, carry);
    }
  MatrixGradient(&s, ReadBack(da), 1, RefInput(call, in, 1), y, NULL, NULL, RefOutput(call, out, 1),
                 (RefOut){NULL, da.type});
  return RENGA_SUCCESS;
}

/* in: r, h, c, y, all c, gates, dy, d all c; out: da, dr, dh, dc */
static void LSTMRowGradient(const Sequence_Ref *s, const RefIn in[], const RefOut out[],
                            CellState_Ref c, int64_t row, int64_t n)
{
  int64_t hidden = s->hidden, wide = row * 4 * hidden;
  for (int64_t j = 0; j < hidden; j++) {
    int64_t at = row * hidden + j, state = n * hidden + j;
    double i = RefGet(in[5], wide + j), o = RefGet(in[5], wide + hidden + j);
    double f = RefGet(in[5], wide + 2 * hidden + j), g = RefGet(in[5], wide + 3 * hidden + j);
    double t = tanh(RefGet(in[4], at)), dh = GetOr0(in[6], at) + RefGet(ReadBack(out[2]), state);
    double dc = GetOr0(in[7], at) + RefGet(ReadBack(out[3]), state) + dh * o * (1 - t * t);
    RefSet(out[0], wide + j, dc * g * i * (1 - i));
    RefSet(out[0], wide + hidden + j, dh * t * o * (1 - o));
    RefSet(out[0], wide + 2 * hidden + j, dc * RefGet(c.data, c.at + j) * f * (1 - f));
    RefSet(out[0], wide + 3 * hidden + j, dc * i * (1 - g * g));
    RefSet(out[3], state, dc * f);
    RefSet(out[2], state, 0);
  }
  AddThroughMatrix(s, in[0], ReadBack(out[0]), row, 4, 4, n, out[2]);
}

static RengaErrorCode LSTMCellsGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                        const void *const in[], void *const out[])
{
  RefIn inputs[8];
  RefOut outputs[4];
  for (int i = 0; i < 8; i++) inputs[i] = RefInput(call, in, i);
  for (int i = 0; i < 4; i++) outputs[i] = RefOutput(call, out, i);
  Sequence_Ref s = SequenceOf(call, &call->in[3]);
  RefZero(outputs[2], s.batch * s.hidden);
  RefZero(outputs[3], s.batch * s.hidden);
  for (int64_t k = s.steps - 1; k >= 0; k--)
    for (int64_t n = 0; n < s.batch; n++)
      LSTMRowGradient(&s, inputs, outputs, StateBefore(&s, k, n, inputs[2], inputs[4]),
                      TimeOf(&s, k) * s.batch + n, n);
  MatrixGradient(&s, ReadBack(outputs[0]), 4, inputs[1], inputs[3], NULL, NULL, outputs[1],
                 (RefOut){NULL, outputs[0].type});
  return RENGA_SUCCESS;
}

/* Behind the reset gate: the gradient of q is that of the gate times r (linear), and q is of h;
   otherwise it is that of the gate, and q is of r h. saved: gates. */
static double LinearFactor(const Sequence_Ref *s, const RefIn saved[], int64_t row, int64_t j,
                           bool state)
{
  return state ? 1 : RefGet(saved[0], row * 3 * s->hidden + s->hidden + j);
}

static double ResetFactor(const Sequence_Ref *s, const RefIn saved[], int64_t row, int64_t j,
                          bool state)
{
  return state ? RefGet(saved[0], row * 3 * s->hidden + s->hidden + j) : 1;
}

/* Gradient of element j of what the hidden part of r is multiplied with (h, or r h). */
static double ThroughHidden(const Sequence_Ref *s, const RefIn in[], RefIn da, bool linear,
                            int64_t row, int64_t j)
{
  int64_t hidden = s->hidden, wide = row * 3 * hidden;
  double sum = 0;
  for (int64_t k = 0; k < hidden; k++) {
    double dq = RefGet(da, wide + 2 * hidden + k);
    if (linear) dq *= RefGet(in[3], wide + hidden + k);
    sum += dq * RefGet(in[0], (2 * hidden + k) * hidden + j);
  }
  return sum;
}

/* in: r, h, y, gates, q, dy; out: da, dr, d bias, dh */
static void GRURowGradient(const Sequence_Ref *s, const RefIn in[], const RefOut out[],
                           CellState_Ref h, bool linear, int64_t row, int64_t n)
{
  int64_t hidden = s->hidden, wide = row * 3 * hidden;
  RefIn da = ReadBack(out[0]);
  for (int64_t j = 0; j < hidden; j++) {
    double z = RefGet(in[3], wide + j), g = RefGet(in[3], wide + 2 * hidden + j);
    double dh = RefGet(in[5], row * hidden + j) + RefGet(ReadBack(out[3]), n * hidden + j);
    RefSet(out[0], wide + j, dh * (RefGet(h.data, h.at + j) - g) * z * (1 - z));
    RefSet(out[0], wide + 2 * hidden + j, dh * (1 - z) * (1 - g * g));
    RefSet(out[3], n * hidden + j, dh * z);
  }
  for (int64_t j = 0; j < hidden; j++) {
    double r = RefGet(in[3], wide + hidden + j), through = ThroughHidden(s, in, da, linear, row, j);
    double dr = linear ? RefGet(da, wide + 2 * hidden + j) * RefGet(in[4], row * hidden + j)
                       : through * RefGet(h.data, h.at + j);
    RefSet(out[0], wide + hidden + j, dr * r * (1 - r));
    RefAdd(out[3], n * hidden + j, linear ? through : through * r);
  }
  AddThroughMatrix(s, in[0], da, row, 2, 3, n, out[3]);
}

static RengaErrorCode GRUCellsGrad_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                       const void *const in[], void *const out[])
{
  RefIn inputs[6];
  RefOut outputs[4];
  for (int i = 0; i < 6; i++) inputs[i] = RefInput(call, in, i);
  for (int i = 0; i < 4; i++) outputs[i] = RefOutput(call, out, i);
  Sequence_Ref s = SequenceOf(call, &call->in[2]);
  bool linear = RengaOpCallInt(call, "linear_before_reset") != 0;
  RefZero(outputs[3], s.batch * s.hidden);
  for (int64_t k = s.steps - 1; k >= 0; k--)
    for (int64_t n = 0; n < s.batch; n++)
      GRURowGradient(&s, inputs, outputs, StateBefore(&s, k, n, inputs[1], inputs[2]), linear,
                     TimeOf(&s, k) * s.batch + n, n);
  MatrixGradient(&s, ReadBack(outputs[0]), 3, inputs[1], inputs[2], &inputs[3],
                 linear ? LinearFactor : ResetFactor, outputs[1], outputs[2]);
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindRecurrent(const char *name)
{
  static const RefRow rows[] = {
      {"RNNCells", RNNCells_Ref},
      {"RNNCellsGrad", RNNCellsGrad_Ref},
      {"LSTMCells", LSTMCells_Ref},
      {"LSTMCellsGrad", LSTMCellsGrad_Ref},
      {"GRUCells", GRUCells_Ref},
      {"GRUCellsGrad", GRUCellsGrad_Ref},
      {NULL, NULL},
  };
  return RefFindRow(rows, name);
}
