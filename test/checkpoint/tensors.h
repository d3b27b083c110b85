/* A network's worth of tensors for tests, on any layout. */
#pragma once
#include "../../src/checkpoint/file.h"
#include "../check.h"
#include "rengacheckpoint.h"
#include <string.h>

enum { TENSORS = 23 };

typedef struct {
  RengaPersistent tensors[TENSORS];
  int count;
} TestTensors;

static inline void TestShape(int i, RengaTensorSpec *spec)
{
  memset(spec, 0, sizeof *spec);
  spec->type = RENGA_FLOAT32;
  spec->ndim = i % 4;
  for (int d = 0; d < spec->ndim; d++) spec->dim[d] = 1 + (i * 7 + d * 5) % 41;
  if (i == 11) spec->dim[1] = 0;     /* an empty tensor */
  if (i == 14) spec->dim[0] = 60000; /* one that is larger than a block of copying */
  if (i == 15) spec->type = RENGA_INT64;
  if (i == 18) spec->type = RENGA_BFLOAT16;
}

/* Names with all that is awkward; every third a moment of the one before. */
static inline const char *TestName(int i)
{
  static char names[TENSORS][48];
  static const char *const odd[] = {".",  "a/b/c", "%2F",    "w:0",
                                    "..", "",      "x y\"z", "\xc3\xa9t\xc3\xa9"};
  if (i % 3 == 2)
    snprintf(names[i], sizeof names[i], "layer.%d/weight:first_moment", i - 1);
  else if (i % 3 == 1)
    snprintf(names[i], sizeof names[i], "layer.%d/weight", i);
  else
    snprintf(names[i], sizeof names[i], "%s", odd[i / 3]);
  return names[i];
}

/* Tensor i is held by ranks of the group i % stages, owned by one of them. */
static inline RengaErrorCode TestTensorsCreate(int rank, int size, int stages, bool filled,
                                               TestTensors *mine)
{
  memset(mine, 0, sizeof *mine);
  int replicas = size / stages, stage = rank % stages, replica = rank / stages;
  for (int i = 0; i < TENSORS && rank < stages * replicas; i++) {
    if (i % stages != stage) continue;
    RengaPersistent *tensor = &mine->tensors[mine->count++];
    char *bytes;
    tensor->name = TestName(i);
    TestShape(i, &tensor->spec);
    size_t count = RengaTensorSpecBytes(&tensor->spec);
    RengaCall(RengaMalloc(count, &bytes));
    for (size_t b = 0; filled && b < count; b++) bytes[b] = (char)(b * 131 + (b >> 8) + (size_t)i);
    tensor->data = bytes;
    RengaCall(RengaRectangleWhole(&tensor->spec, &tensor->part));
    tensor->owner = i / stages % replicas == replica;
    tensor->state = i % 3 == 0;
  }
  return RENGA_SUCCESS;
}

static inline RengaErrorCode TestTensorsCheck(const TestTensors *mine)
{
  for (int i = 0; i < mine->count; i++) {
    const RengaPersistent *tensor = &mine->tensors[i];
    int number = 0;
    while (strcmp(TestName(number), tensor->name) != 0) number++;
    const char *bytes = (const char *)tensor->data;
    for (size_t b = 0; b < RengaTensorSpecBytes(&tensor->spec); b++)
      Expect(bytes[b] == (char)(b * 131 + (b >> 8) + (size_t)number));
  }
  return RENGA_SUCCESS;
}

static inline void TestTensorsFree(TestTensors *mine)
{
  for (int i = 0; i < mine->count; i++) RengaFree(&mine->tensors[i].data);
}
