/* Numbers whole + batch * N + sample * n, with N >= 1 unknown and n in 0 … N - 1: what two of them
   make, where that has the same form for every N and n. */
#include "fold.h"
#include <math.h>
#include <string.h>

typedef RengaOnnxNumber Number;

static int64_t AddInts(int64_t a, int64_t b)
{
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t SubtractInts(int64_t a, int64_t b)
{
  return (int64_t)((uint64_t)a - (uint64_t)b);
}
static int64_t MultiplyInts(int64_t a, int64_t b)
{
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
static bool CanDivide(int64_t a, int64_t b)
{
  return b != 0 && !(a == INT64_MIN && b == -1);
}

/* The sign of whole + batch * N for every N >= 1; 2 where it depends on N. */
static int LinearSign(double whole, double batch)
{
  if (batch == 0) return (whole > 0) - (whole < 0);
  if (batch > 0 && whole + batch > 0) return 1;
  if (batch < 0 && whole + batch < 0) return -1;
  return 2;
}

static double Difference(bool real, Number a, Number b)
{
  return real ? a.real - b.real : (double)a.whole - (double)b.whole;
}

/* The sign of a - b for every N >= 1 and every sample 0 … N - 1, of which the first and the last
   decide; 2 where it depends on them. */
static int CompareTwo(bool real, Number a, Number b)
{
  double whole = Difference(real, a, b), batch = (double)a.batch - (double)b.batch;
  double sample = (double)a.sample - (double)b.sample;
  if (!real && batch == 0 && sample == 0) return (a.whole > b.whole) - (a.whole < b.whole);
  int first = LinearSign(whole, batch), last = LinearSign(whole - sample, batch + sample);
  return first == last && (first != 0 || sample == 0) ? first : 2;
}

/* Is a >= b for every N >= 1 and every sample? */
static bool IsAtLeast(bool real, Number a, Number b)
{
  double whole = Difference(real, a, b);
  double batch = (double)a.batch - (double)b.batch, sample = (double)a.sample - (double)b.sample;
  if (batch == 0 && sample == 0) return CompareTwo(real, a, b) >= 0;
  return batch >= 0 && whole + batch >= 0 && batch + sample >= 0 && whole + batch >= 0;
}

bool RengaOnnxIsNumber(RengaOnnxNumber x)
{
  return x.batch == 0 && x.sample == 0;
}

static bool AddNumbers(bool real, Number a, Number b, Number *y)
{
  (void)real;
  *y = (Number){AddInts(a.whole, b.whole), AddInts(a.batch, b.batch), AddInts(a.sample, b.sample),
                a.real + b.real};
  return true;
}
static bool Subtract(bool real, Number a, Number b, Number *y)
{
  (void)real;
  *y = (Number){SubtractInts(a.whole, b.whole), SubtractInts(a.batch, b.batch),
                SubtractInts(a.sample, b.sample), a.real - b.real};
  return true;
}
static bool IsWhole(double x)
{
  return x == floor(x) && fabs(x) <= 1e15;
}
static bool MultiplyNumbers(bool real, Number a, Number b, Number *y)
{
  if (!RengaOnnxIsNumber(b)) {
    Number t = a;
    a = b, b = t;
  }
  if (!RengaOnnxIsNumber(b)) return false; /* N * N */
  double batch = (double)a.batch * b.real, sample = (double)a.sample * b.real;
  if (real && (!IsWhole(batch) || !IsWhole(sample))) return false;
  *y = (Number){MultiplyInts(a.whole, b.whole),
                real ? (int64_t)batch : MultiplyInts(a.batch, b.whole),
                real ? (int64_t)sample : MultiplyInts(a.sample, b.whole), a.real * b.real};
  return true;
}
static bool DivideReal(Number a, Number b, Number *y)
{
  double batch = b.real != 0 ? (double)a.batch / b.real : 0;
  double sample = b.real != 0 ? (double)a.sample / b.real : 0;
  if (!RengaOnnxIsNumber(b) || !IsWhole(batch) || !IsWhole(sample)) return false;
  *y = (Number){.batch = (int64_t)batch, .sample = (int64_t)sample, .real = a.real / b.real};
  return true;
}
static bool DivideNumbers(bool real, Number a, Number b, Number *y)
{
  if (real) return DivideReal(a, b, y);
  if (b.sample != 0) return false;
  if (b.batch != 0) { /* a = k * b */
    if (a.sample != 0 || !CanDivide(a.batch, b.batch) || a.batch % b.batch != 0) return false;
    int64_t k = a.batch / b.batch;
    *y = (Number){.whole = k};
    return MultiplyInts(k, b.whole) == a.whole;
  }
  if (!CanDivide(a.whole, b.whole) || !CanDivide(a.batch, b.whole) || !CanDivide(a.sample, b.whole))
    return false;
  if (a.batch % b.whole != 0 || a.sample % b.whole != 0) return false;
  bool upwards = a.whole >= 0 && a.batch >= 0 && a.sample >= 0 && b.whole > 0;
  if (!RengaOnnxIsNumber(a) && !upwards && a.whole % b.whole != 0) return false;
  *y = (Number){
      .whole = a.whole / b.whole, .batch = a.batch / b.whole, .sample = a.sample / b.whole};
  return true;
}
/* The sign of the divisor, as in Python. */
static bool ModuloNumbers(bool real, Number a, Number b, Number *y)
{
  if (real || !RengaOnnxIsNumber(b) || !CanDivide(a.whole, b.whole) ||
      !CanDivide(a.batch, b.whole) || !CanDivide(a.sample, b.whole))
    return false;
  if (a.batch % b.whole != 0 || a.sample % b.whole != 0) return false;
  int64_t rest = a.whole % b.whole;
  *y = (Number){.whole = rest != 0 && (rest < 0) != (b.whole < 0) ? rest + b.whole : rest};
  return true;
}
static bool Minimum(bool real, Number a, Number b, Number *y)
{
  bool less = IsAtLeast(real, b, a);
  *y = less ? a : b;
  return less || IsAtLeast(real, a, b);
}
static bool Maximum(bool real, Number a, Number b, Number *y)
{
  bool greater = IsAtLeast(real, a, b);
  *y = greater ? a : b;
  return greater || IsAtLeast(real, b, a);
}
static bool PowerOfNumbers(bool real, Number a, Number b, Number *y)
{
  if (!RengaOnnxIsNumber(a) || !RengaOnnxIsNumber(b)) return false;
  *y = (Number){.whole = (int64_t)(real ? 0 : pow((double)a.whole, (double)b.whole)),
                .real = pow(a.real, b.real)};
  return real || (b.whole >= 0 && fabs(pow((double)a.whole, (double)b.whole)) < 1e15);
}
static bool EqualNumbers(bool real, Number a, Number b, Number *y)
{
  int sign = CompareTwo(real, a, b);
  *y = (Number){.whole = sign == 0};
  return sign != 2;
}
static bool GreaterOrEqual(bool real, Number a, Number b, Number *y)
{
  bool holds = IsAtLeast(real, a, b);
  *y = (Number){.whole = holds};
  return holds || CompareTwo(real, a, b) == -1;
}
static bool LessOrEqual(bool real, Number a, Number b, Number *y)
{
  return GreaterOrEqual(real, b, a, y);
}
static bool Less(bool real, Number a, Number b, Number *y)
{
  bool known = GreaterOrEqual(real, a, b, y);
  y->whole = !y->whole;
  return known;
}
static bool Greater(bool real, Number a, Number b, Number *y)
{
  return Less(real, b, a, y);
}
#define LOGICAL(name, holds)                                                                       \
  static bool name(bool real, Number a, Number b, Number *y)                                       \
  {                                                                                                \
    *y = (Number){.whole = holds};                                                                 \
    return !real && RengaOnnxIsNumber(a) && RengaOnnxIsNumber(b);                                  \
  }
LOGICAL(And, a.whole &&b.whole)
LOGICAL(Or, a.whole || b.whole)
LOGICAL(Xor, !a.whole != !b.whole)

static const RengaOnnxBinary binaries[] = {
    {"Add", AddNumbers, false},
    {"Sub", Subtract, false},
    {"Mul", MultiplyNumbers, false},
    {"Div", DivideNumbers, false},
    {"Mod", ModuloNumbers, false},
    {"Min", Minimum, false},
    {"Max", Maximum, false},
    {"Pow", PowerOfNumbers, false},
    {"Equal", EqualNumbers, true},
    {"Less", Less, true},
    {"LessOrEqual", LessOrEqual, true},
    {"Greater", Greater, true},
    {"GreaterOrEqual", GreaterOrEqual, true},
    {"And", And, true},
    {"Or", Or, true},
    {"Xor", Xor, true},
};

const RengaOnnxBinary *RengaOnnxFindBinary(const char *op)
{
  for (size_t i = 0; i < sizeof binaries / sizeof binaries[0]; i++)
    if (strcmp(binaries[i].op, op) == 0) return &binaries[i];
  return NULL;
}
