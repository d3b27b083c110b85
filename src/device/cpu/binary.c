/* Elementwise operators of two inputs that broadcast, and Where. */
#include "broadcast.h"
#include "low.h"
#include "math.h"
#include <string.h>

/* count elements; each input steps by 1 or, where it is broadcast, by 0. y may be an input of
 * step 1. */
typedef void (*BinaryLoop_Cpu)(int64_t count, const void *a, int64_t step_a, const void *b,
                               int64_t step_b, void *y);

#define LOOP(name, type, result, expression)                                                       \
  static void name(int64_t count, const void *a, int64_t step_a, const void *b, int64_t step_b,    \
                   void *y)                                                                        \
  {                                                                                                \
    const type *u = a, *v = b;                                                                     \
    result *w = y;                                                                                 \
    if (step_a && step_b) {                                                                        \
      _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                      \
      {                                                                                            \
        type p = u[i], q = v[i];                                                                   \
        w[i] = (result)(expression);                                                               \
      }                                                                                            \
    } else if (step_a) {                                                                           \
      type q = *v;                                                                                 \
      _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                      \
      {                                                                                            \
        type p = u[i];                                                                             \
        w[i] = (result)(expression);                                                               \
      }                                                                                            \
    } else if (step_b) {                                                                           \
      type p = *u;                                                                                 \
      _Pragma("omp simd") for (int64_t i = 0; i < count; i++)                                      \
      {                                                                                            \
        type q = v[i];                                                                             \
        w[i] = (result)(expression);                                                               \
      }                                                                                            \
    } else {                                                                                       \
      type p = *u, q = *v;                                                                         \
      result r = (result)(expression);                                                             \
      for (int64_t i = 0; i < count; i++) w[i] = r;                                                \
    }                                                                                              \
  }

static float PowerOf(float base, float exponent)
{
  if (exponent == 2) return base * base;
  if (exponent == 3) return base * base * base;
  return powf(base, exponent);
}

LOOP(AddFloat, float, float, p + q)
LOOP(SubFloat, float, float, p - q)
LOOP(MulFloat, float, float, p *q)
LOOP(DivFloat, float, float, p / q)
LOOP(MinFloat, float, float, p != p || p < q ? p : q)
LOOP(MaxFloat, float, float, p != p || p > q ? p : q)
LOOP(PowFloat, float, float, PowerOf(p, q))
LOOP(EqualFloat, float, bool, p == q)
LOOP(LessFloat, float, bool, p < q)
LOOP(GreaterFloat, float, bool, p > q)
LOOP(LessOrEqualFloat, float, bool, p <= q)
LOOP(GreaterOrEqualFloat, float, bool, p >= q)
LOOP(AddInt64, uint64_t, uint64_t, p + q)
LOOP(SubInt64, uint64_t, uint64_t, p - q)
LOOP(MulInt64, uint64_t, uint64_t, p *q)
LOOP(EqualInt64, int64_t, bool, p == q)
LOOP(LessInt64, int64_t, bool, p < q)
LOOP(GreaterInt64, int64_t, bool, p > q)
LOOP(LessOrEqualInt64, int64_t, bool, p <= q)
LOOP(GreaterOrEqualInt64, int64_t, bool, p >= q)
LOOP(AndBool, bool, bool, p &&q)
LOOP(OrBool, bool, bool, p || q)
LOOP(XorBool, bool, bool, p != q)
LOOP(EqualBool, bool, bool, p == q)

static const struct {
  const char *name;
  RengaDataType type;
  BinaryLoop_Cpu loop;
} rows[] = {
    {"Add", RENGA_FLOAT32, AddFloat},
    {"Sub", RENGA_FLOAT32, SubFloat},
    {"Mul", RENGA_FLOAT32, MulFloat},
    {"Div", RENGA_FLOAT32, DivFloat},
    {"Min", RENGA_FLOAT32, MinFloat},
    {"Max", RENGA_FLOAT32, MaxFloat},
    {"Pow", RENGA_FLOAT32, PowFloat},
    {"Equal", RENGA_FLOAT32, EqualFloat},
    {"Less", RENGA_FLOAT32, LessFloat},
    {"Greater", RENGA_FLOAT32, GreaterFloat},
    {"LessOrEqual", RENGA_FLOAT32, LessOrEqualFloat},
    {"GreaterOrEqual", RENGA_FLOAT32, GreaterOrEqualFloat},
    {"Add", RENGA_INT64, AddInt64},
    {"Sub", RENGA_INT64, SubInt64},
    {"Mul", RENGA_INT64, MulInt64},
    {"Equal", RENGA_INT64, EqualInt64},
    {"Less", RENGA_INT64, LessInt64},
    {"Greater", RENGA_INT64, GreaterInt64},
    {"LessOrEqual", RENGA_INT64, LessOrEqualInt64},
    {"GreaterOrEqual", RENGA_INT64, GreaterOrEqualInt64},
    {"And", RENGA_BOOL, AndBool},
    {"Or", RENGA_BOOL, OrBool},
    {"Xor", RENGA_BOOL, XorBool},
    {"Equal", RENGA_BOOL, EqualBool},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

typedef struct {
  BinaryLoop_Cpu loop;
  size_t size, result_size;
  RengaCpuBroadcast shape;
  bool low, adds; /* adds: sums of bfloat16 */
} Binary;

static void AddBrain(int64_t count, const uint16_t *a, const uint16_t *b, uint16_t *y)
{
#pragma omp simd
  for (int64_t i = 0; i < count; i++)
    y[i] = RengaLowToBrain(RengaLowFromBrain(a[i]) + RengaLowFromBrain(b[i]));
}

/* Part of a row where not all is float32: count results from y's element `to` on; the inputs begin
   at the elements in at. */
static void BinaryLow_Cpu(const RengaKernel kernel, const void *const in[], const int64_t at[],
                          void *y, int64_t to, int64_t count)
{
  const Binary *s = kernel->data;
  const RengaOpCall *call = &kernel->call;
  const RengaDataType type = call->out[0].type;
  const int64_t *step = s->shape.step;
  float buffer[3][RENGA_CPU_RUN];
  if (s->adds && step[0] == 1 && step[1] == 1) {
    AddBrain(count, (const uint16_t *)in[0] + at[0], (const uint16_t *)in[1] + at[1],
             (uint16_t *)y + to);
    return;
  }
  for (int64_t done = 0; done < count; done += RENGA_CPU_RUN) {
    const int64_t here = RengaCpuSmaller(count - done, RENGA_CPU_RUN);
    const float *x[2];
    for (int i = 0; i < 2; i++)
      x[i] = RengaCpuRead(call->in[i].type, in[i], at[i] + done * step[i], step[i] ? here : 1,
                          buffer[i]);
    if (type == RENGA_BOOL) {
      s->loop(here, x[0], step[0], x[1], step[1], (bool *)y + to + done);
      continue;
    }
    float *made = RengaCpuPlace(type, y, to + done, buffer[2]);
    s->loop(here, x[0], step[0], x[1], step[1], made);
    RengaCpuWrite(type, y, to + done, here, made);
  }
}

static RengaErrorCode BinaryRun_Cpu(RengaKernel kernel, RengaStream stream,
                                    const RengaKernelContext *context, const void *const in[],
                                    void *const out[], void *workspace)
{
  const Binary *s = kernel->data;
  const RengaCpuBroadcast *shape = &s->shape;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, shape->pieces))
  for (int64_t piece = 0; piece < shape->pieces; piece++) {
    RengaCpuRows rows_of = RengaCpuBroadcastRows(shape, piece);
    for (int64_t row = rows_of.first; row < rows_of.last; row++) {
      int64_t at[3];
      RengaCpuBroadcastAt(shape, row, at);
      int64_t here = rows_of.columns, to = row * shape->inner + rows_of.column;
      for (int i = 0; i < 2; i++) at[i] += rows_of.column * shape->step[i];
      if (s->low)
        BinaryLow_Cpu(kernel, in, at, out[0], to, here);
      else
        s->loop(here, (const char *)in[0] + (size_t)at[0] * s->size, shape->step[0],
                (const char *)in[1] + (size_t)at[1] * s->size, shape->step[1],
                (char *)out[0] + (size_t)to * s->result_size);
    }
  }
  return RENGA_SUCCESS;
}

/* An input as large as the output, of elements of the same size, may be overwritten. */
static void AllowAliases(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  int64_t count = RengaTensorSpecCount(&call->out[0]);
  for (int i = 0; i < call->n_in; i++)
    if (RengaTensorSpecCount(&call->in[i]) == count &&
        RengaDataTypeSize(call->in[i].type) == RengaDataTypeSize(call->out[0].type))
      kernel->alias |= RENGA_KERNEL_ALIAS(0, i);
}

static RengaDataType ComputedIn(RengaDataType type)
{
  return RengaDeviceIsLow(type) ? RENGA_FLOAT32 : type;
}

static RengaErrorCode BinaryCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  const RengaDataType type = ComputedIn(call->in[0].type);
  int r = 0;
  while (r < N_ROWS && (rows[r].type != type || strcmp(rows[r].name, call->op->name) != 0)) r++;
  if (r == N_ROWS || ComputedIn(call->in[1].type) != type) return RENGA_SUCCESS;
  Binary *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->loop = rows[r].loop;
  s->size = RengaDataTypeSize(call->in[0].type);
  s->result_size = RengaDataTypeSize(call->out[0].type);
  s->low = RengaOpCallIsLow_Private(call);
  s->adds = s->loop == AddFloat && RengaCpuAllOf(call, 0, RENGA_BFLOAT16);
  RengaCpuBroadcastInit(&s->shape, &call->out[0], 2, call->in);
  AllowAliases(kernel);
  kernel->run = BinaryRun_Cpu;
  return RENGA_SUCCESS;
}

static void ChooseBinary_Cpu(int64_t count, size_t size, const bool *condition, int64_t step,
                             const char *a, int64_t step_a, const char *b, int64_t step_b, char *y)
{
#define CHOOSE(type)                                                                               \
  if (size == sizeof(type)) {                                                                      \
    const type *u = (const type *)a, *v = (const type *)b;                                         \
    for (int64_t i = 0; i < count; i++)                                                            \
      ((type *)y)[i] = condition[i * step] ? u[i * step_a] : v[i * step_b];                        \
    return;                                                                                        \
  }
  CHOOSE(int32_t)
  CHOOSE(int16_t)
#undef CHOOSE
  for (int64_t i = 0; i < count; i++)
    memcpy(y + (size_t)i * size,
           condition[i * step] ? a + (size_t)(i * step_a) * size : b + (size_t)(i * step_b) * size,
           size);
}

static RengaErrorCode WhereRun_Cpu(RengaKernel kernel, RengaStream stream,
                                   const RengaKernelContext *context, const void *const in[],
                                   void *const out[], void *workspace)
{
  const Binary *s = kernel->data;
  const RengaCpuBroadcast *shape = &s->shape;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(RengaCpuThreads(kernel->device->threads, shape->pieces))
  for (int64_t piece = 0; piece < shape->pieces; piece++) {
    RengaCpuRows rows_of = RengaCpuBroadcastRows(shape, piece);
    for (int64_t row = rows_of.first; row < rows_of.last; row++) {
      int64_t at[3];
      RengaCpuBroadcastAt(shape, row, at);
      for (int i = 0; i < 3; i++) at[i] += rows_of.column * shape->step[i];
      ChooseBinary_Cpu(rows_of.columns, s->size, (const bool *)in[0] + at[0], shape->step[0],
                       (const char *)in[1] + (size_t)at[1] * s->size, shape->step[1],
                       (const char *)in[2] + (size_t)at[2] * s->size, shape->step[2],
                       (char *)out[0] + (size_t)(row * shape->inner + rows_of.column) * s->size);
    }
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode WhereCreate_Cpu(RengaKernel kernel)
{
  const RengaOpCall *call = &kernel->call;
  if (!RengaCpuAllOf(call, 1, call->in[1].type)) return RENGA_SUCCESS;
  Binary *s = NULL;
  RengaCall(RengaMalloc(1, &s));
  kernel->data = s;
  kernel->destroy = RengaCpuFreeData;
  s->size = RengaDataTypeSize(call->out[0].type);
  RengaCpuBroadcastInit(&s->shape, &call->out[0], 3, call->in);
  kernel->run = WhereRun_Cpu;
  return RENGA_SUCCESS;
}

const RengaKernelRow RENGA_ISA_NAME(RengaCpuBinary)[] = {
    {"Add", BinaryCreate_Cpu},
    {"Sub", BinaryCreate_Cpu},
    {"Mul", BinaryCreate_Cpu},
    {"Div", BinaryCreate_Cpu},
    {"Min", BinaryCreate_Cpu},
    {"Max", BinaryCreate_Cpu},
    {"Pow", BinaryCreate_Cpu},
    {"Equal", BinaryCreate_Cpu},
    {"Less", BinaryCreate_Cpu},
    {"Greater", BinaryCreate_Cpu},
    {"LessOrEqual", BinaryCreate_Cpu},
    {"GreaterOrEqual", BinaryCreate_Cpu},
    {"And", BinaryCreate_Cpu},
    {"Or", BinaryCreate_Cpu},
    {"Xor", BinaryCreate_Cpu},
    {"Where", WhereCreate_Cpu},
    {NULL, NULL},
};
