/* The elements of a rectangle as runs of the tensor's row-major vector. */
#pragma once
#include "rengapersistent.h"

/* Runs of `length` elements that are neighbours in the tensor, `count` of them, ascending. They
   follow each other in the rectangle's own row-major vector. */
typedef struct {
  const RengaTensorSpec *spec;
  const RengaRectangle *part;
  int outer; /* a run has one place in each of the dimensions before this one */
  int64_t length, count;
} RengaRuns;
RengaRuns RengaRunsOf(const RengaTensorSpec *spec, const RengaRectangle *part);
/* The place in the tensor of run r's first element. */
int64_t RengaRunsAt(const RengaRuns *runs, int64_t r);
/* The first run that ends behind this place of the tensor, `count` where there is none. */
int64_t RengaRunsFind(const RengaRuns *runs, int64_t place);
/* How many elements of the rectangle lie before this place of the tensor: those of a range of the
   tensor are a range of the rectangle's own vector. */
int64_t RengaRunsBefore(const RengaRuns *runs, int64_t place);

bool RengaRectangleEqual(const RengaTensorSpec *spec, const RengaRectangle *a,
                         const RengaRectangle *b);
bool RengaRectangleHolds(const RengaTensorSpec *spec, const RengaRectangle *outer,
                         const RengaRectangle *inner);
bool RengaRectangleMeets(const RengaTensorSpec *spec, const RengaRectangle *a,
                         const RengaRectangle *b);
int64_t RengaPersistentGetBytes(const RengaPersistent *persistent); /* of the part */
int64_t RengaRectangleCount(const RengaTensorSpec *spec, const RengaRectangle *rectangle);
RengaErrorCode RengaRectangleWhole(const RengaTensorSpec *spec, RengaRectangle *whole);
RengaErrorCode RengaRectanglesOfRange(const RengaTensorSpec *spec, int64_t first, int64_t count,
                                      int *n, RengaRectangle rectangles[]);
