/* Elementwise kernels of two or three inputs that broadcast. */
#include "ref.h"
#include <math.h>
#include <string.h>

typedef double Real(double a, double b);
/* Integers as int64_t; natural: the type has no sign, and uint64 is given by its bits. */
typedef int64_t Integer(int64_t a, int64_t b, bool natural);

#define REAL(name, expression)                                                                     \
  static double name(double a, double b)                                                           \
  {                                                                                                \
    return expression;                                                                             \
  }
#define INTEGER(name, expression)                                                                  \
  static int64_t name(int64_t a, int64_t b, bool natural)                                          \
  {                                                                                                \
    return expression;                                                                             \
  }

static bool IsLess(int64_t a, int64_t b, bool natural)
{
  return natural ? (uint64_t)a < (uint64_t)b : a < b;
}

/* C's quotient and remainder, toward zero; b is not 0. */
static int64_t Quotient_Ref(int64_t a, int64_t b, bool natural)
{
  if (natural) return (int64_t)((uint64_t)a / (uint64_t)b);
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t Remainder_Ref(int64_t a, int64_t b, bool natural)
{
  if (natural) return (int64_t)((uint64_t)a % (uint64_t)b);
  return b == -1 ? 0 : a % b;
}

/* Python's: the sign of the divisor. */
static int64_t Modulo_Ref(int64_t a, int64_t b, bool natural)
{
  int64_t rest = Remainder_Ref(a, b, natural);
  return !natural && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static int64_t Power_Ref(int64_t a, int64_t b, bool natural)
{
  if (!natural && b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t base = (uint64_t)a, result = 1;
  for (uint64_t left = (uint64_t)b; left; left >>= 1) {
    if (left & 1) result *= base;
    base *= base;
  }
  return (int64_t)result;
}

REAL(RealAdd, a + b)
REAL(RealSub, a - b)
REAL(RealMul, (a * b))
REAL(RealDiv, a / b)
REAL(RealMin, a < b || isnan(a) ? a : b)
REAL(RealMax, a > b || isnan(a) ? a : b)
REAL(RealEqual, a == b)
REAL(RealLess, a < b)
REAL(RealGreater, a > b)
REAL(RealLessOrEqual, a <= b)
REAL(RealGreaterOrEqual, a >= b)
REAL(RealPRelu, a < 0 ? a * b : a)
INTEGER(IntegerAdd, (int64_t)((uint64_t)a + (uint64_t)b))
INTEGER(IntegerSub, (int64_t)((uint64_t)a - (uint64_t)b))
INTEGER(IntegerMul, (int64_t)((uint64_t)a *(uint64_t)b))
INTEGER(IntegerMin, IsLess(a, b, natural) ? a : b)
INTEGER(IntegerMax, IsLess(a, b, natural) ? b : a)
INTEGER(IntegerEqual, a == b)
INTEGER(IntegerLess, IsLess(a, b, natural))
INTEGER(IntegerGreater, IsLess(b, a, natural))
INTEGER(IntegerLessOrEqual, !IsLess(b, a, natural))
INTEGER(IntegerGreaterOrEqual, !IsLess(a, b, natural))
INTEGER(IntegerAnd, (a & b))
INTEGER(IntegerOr, a | b)
INTEGER(IntegerXor, a ^ b)
INTEGER(IntegerPRelu, a < 0 && !natural ? a * b : a)
INTEGER(ShiftLeft, (uint64_t)b < 64 ? (int64_t)((uint64_t)a << b) : 0)
INTEGER(ShiftRight, (uint64_t)b < 64 ? (int64_t)((uint64_t)a >> b) : 0)

static const struct {
  const char *name;
  Real *real;
  Integer *integer;
} rows[] = {
    {"Add", RealAdd, IntegerAdd},
    {"Sub", RealSub, IntegerSub},
    {"Mul", RealMul, IntegerMul},
    {"Div", RealDiv, Quotient_Ref},
    {"Min", RealMin, IntegerMin},
    {"Max", RealMax, IntegerMax},
    {"Pow", pow, Power_Ref},
    {"Mod", fmod, Modulo_Ref},
    {"Equal", RealEqual, IntegerEqual},
    {"Less", RealLess, IntegerLess},
    {"Greater", RealGreater, IntegerGreater},
    {"LessOrEqual", RealLessOrEqual, IntegerLessOrEqual},
    {"GreaterOrEqual", RealGreaterOrEqual, IntegerGreaterOrEqual},
    {"And", NULL, IntegerAnd},
    {"Or", NULL, IntegerOr},
    {"Xor", NULL, IntegerXor},
    {"BitwiseAnd", NULL, IntegerAnd},
    {"BitwiseOr", NULL, IntegerOr},
    {"BitwiseXor", NULL, IntegerXor},
    {"BitShift", NULL, ShiftLeft},
    {"PRelu", RealPRelu, IntegerPRelu},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static int FindBinary_Ref(const char *name)
{
  int i = 0;
  while (i < N_ROWS && strcmp(rows[i].name, name) != 0) i++;
  return i;
}

/* The integer function of the row, or of its other form that an attribute asks for. */
static Integer *ChooseInteger(const RengaOpCall *call, int row)
{
  if (rows[row].integer == Modulo_Ref && RengaOpCallInt(call, "fmod")) return Remainder_Ref;
  if (rows[row].integer == ShiftLeft && RengaOpCallString(call, "direction")[0] == 'R')
    return ShiftRight;
  return rows[row].integer;
}

static RengaErrorCode Integer_Ref(const RengaOpCall *call, const void *const in[],
                                  void *const out[], Integer *function, RefWalk *walk)
{
  RefIn a = RefInput(call, in, 0), b = RefInput(call, in, 1);
  RefOut y = RefOutput(call, out, 0);
  bool divides = function == Quotient_Ref || function == Remainder_Ref || function == Modulo_Ref;
  int64_t count = RefWalkCount(walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(walk)) {
    int64_t right = RefGetInt(b, walk->at[1]);
    RengaOpCheckValue(!divides || right != 0, call, "division by zero at element %lld",
                      (long long)i);
    RefSetInt(y, i, function(RefGetInt(a, walk->at[0]), right, RefIsNatural(a.type)));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode Binary_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                 const void *const in[], void *const out[])
{
  RefIn a = RefInput(call, in, 0), b = RefInput(call, in, 1);
  RefOut y = RefOutput(call, out, 0);
  int row = FindBinary_Ref(call->op->name);
  RefWalk walk;
  RefWalkStart(&walk, call->out[0].ndim, call->out[0].dim);
  RefWalkAddBroadcast(&walk, &call->in[0]);
  RefWalkAddBroadcast(&walk, &call->in[1]);
  if (!RengaDataTypeIsFloating(a.type) && !RengaDataTypeIsFloating(b.type))
    return Integer_Ref(call, in, out, ChooseInteger(call, row), &walk);
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk))
    RefSet(y, i, rows[row].real(RefGet(a, walk.at[0]), RefGet(b, walk.at[1])));
  return RENGA_SUCCESS;
}

static RengaErrorCode Where_Ref(const RengaOpCall *call, const RengaKernelContext *context,
                                const void *const in[], void *const out[])
{
  RefIn condition = RefInput(call, in, 0);
  size_t size = RengaDataTypeSize(call->out[0].type);
  RefWalk walk;
  RefWalkStart(&walk, call->out[0].ndim, call->out[0].dim);
  for (int k = 0; k < 3; k++) RefWalkAddBroadcast(&walk, &call->in[k]);
  int64_t count = RefWalkCount(&walk);
  for (int64_t i = 0; i < count; i++, RefWalkNext(&walk)) {
    int from = RefGetInt(condition, walk.at[0]) ? 1 : 2;
    RefCopy(out[0], i, in[from], walk.at[from], 1, size);
  }
  return RENGA_SUCCESS;
}

RengaRefKernel RefFindBinary(const char *name)
{
  if (strcmp(name, "Where") == 0) return Where_Ref;
  return FindBinary_Ref(name) < N_ROWS ? Binary_Ref : NULL;
}
