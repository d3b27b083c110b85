/* The table of split rules and how it is read. */
#pragma once
#include "renga/private/op.h"
#include "renga/private/split.h"

/* A formula has a word per input, > and a word per output; the last word stands for all further
   ones. A word has a sign per dimension:
     a letter   an axis; it lies in all dimensions with this letter
     -          no axis
     *          any number of dimensions, an axis each, counted from the last; extents of 1
                broadcast
     ~          any number of dimensions without axes
     (gx)       g groups of x: axis g has the formula's number of groups; (rx): that many
                repetitions of axis x, which are no axis
   A word that begins with + is added once: where outputs are sums, so is it. A word . is a scalar.
   Letter v is an axis of rows that are looked up. */
typedef struct {
  char text[256];
  int64_t groups;
} RengaFormula;

typedef struct {
  const char *name, *formula; /* NULL: write makes it */
  RengaErrorCode (*write)(const RengaOpCall *call, RengaFormula *formula);
  const char *linear; /* "0 12": in input 0, and in 1 and 2 together, it is linear; all: "*" */
  const char *scaled; /* attribute that counts the units of axis g, or lists extents of axis x */
} RengaSplitRule;

/* The families of rules; each ends with a row without a name. */
extern const RengaSplitRule RengaSplitRulesEach[];
extern const RengaSplitRule RengaSplitRulesMove[];
extern const RengaSplitRule RengaSplitRulesIndex[];
extern const RengaSplitRule RengaSplitRulesMatrix[];
extern const RengaSplitRule RengaSplitRulesImage[];
extern const RengaSplitRule RengaSplitRulesNormalize[];

/* Letters of dimensions, apart from those that mean something: RENGA_MAX_DIM for a tensor and as
   many for its indices. */
#define RENGA_FORMULA_DIMS "abcdefhi"
#define RENGA_FORMULA_PLACES "jklmnopq"
/* Appends the signs of ndim dimensions to a formula: letters, or - where without[d] is true. */
void RengaFormulaAdd_Private(RengaFormula *formula, const char *text);
void RengaFormulaAddDims_Private(RengaFormula *formula, int ndim, const bool without[]);

/* A way in which all is whole, at the end of the list. */
RengaErrorCode RengaSplitWaysAdd_Private(const RengaOpCall *call, int64_t units,
                                         RengaSplitWays *ways, RengaSplitWay **way);
RengaErrorCode RengaFormulaGetWays_Private(const RengaOpCall *call, const RengaFormula *formula,
                                           const RengaSplitRule *rule, RengaSplitWays *ways);
RengaErrorCode RengaSplitWaysAddReshape_Private(const RengaOpCall *call, RengaSplitWays *ways);
/* The way of a window that moves over rows, where the operator has one; what a lane's call has. */
RengaErrorCode RengaSplitWaysAddWindow_Private(const RengaOpCall *call, RengaSplitWays *ways);
RengaErrorCode RengaSplitWindowCall_Private(const RengaOpCall *whole, const RengaSplitWay *way,
                                            int lane, int lanes, RengaTensorSpec *x,
                                            RengaAttributes *attributes);
/* Ways of a batch normalisation along the image: lanes have statistics of their own rows, and need
   those of the batch. */
RengaErrorCode RengaSplitWaysAddStatistics_Private(const RengaOpCall *call, RengaSplitWays *ways);
