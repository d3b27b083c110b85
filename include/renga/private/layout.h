/* The axes of a layout: a row each of one table (src/plan/layout.c). */
#pragma once
#include "rengaplan.h"

typedef enum {
  RENGA_AXIS_STAGES,
  RENGA_AXIS_CHUNKS,
  RENGA_AXIS_REPLICAS,
  RENGA_AXIS_TENSOR,
  RENGA_AXIS_CONTEXT,
  RENGA_AXIS_SHARD,
  RENGA_AXIS_SAVED,
  RENGA_AXES
} RengaAxisNumber;
typedef struct {
  const char *name;
  const char *option, *none; /* what gives it, and the word that leaves it out */
  size_t offset;             /* of its int, or enum, in RengaLayout */
  int plain;                 /* the value of a layout that does without */
} RengaAxis;
extern const RengaAxis RengaAxes_Private[RENGA_AXES];
int RengaLayoutGet_Private(const RengaLayout *layout, RengaAxisNumber axis);
/* Its value is not the plain one. */
bool RengaLayoutUses_Private(const RengaLayout *layout, RengaAxisNumber axis);
