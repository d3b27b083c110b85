/* Split rules: the ways in which a call of an operator may be computed in lanes.

   An operator has axes, along which it does the same thing again and again: the rows and columns of
   a product, its inner dimension, heads, channels. A way splits one axis. Its units are dealt out:
   lane l of L has units [l*n/L, (l+1)*n/L), and of each tensor on which the axis lies the elements
   of these units. An input without the axis is whole in each lane; an output without it is a sum
   over lanes, of which each lane makes one term. Any set of units could be a lane's, so that axes
   may be dealt out in coarser or interleaved units (RengaSplitWayRefine). What an
   operator adds once, a bias, is then a sum, too: whoever has it whole gives it to one lane, and
   zeros to the others. A lane without units makes zeros of its terms, or what it is to add. */
#pragma once
#include "rengaop.h"

typedef enum {
  RENGA_SPLIT_WHOLE, /* each lane has all of it */
  RENGA_SPLIT_ALONG, /* each lane has its units of one dimension */
  RENGA_SPLIT_SUM    /* the tensor is the sum of what lanes have, by the fixed tree of lanes */
} RengaSplitKind;

/* How lanes have a tensor. Along: dimension dim is repeat times n units of unit elements, and a
   lane has its units of each repetition: heads of [T, 3*h*d] are repeat 3, unit d. */
typedef struct {
  RengaSplitKind kind;
  int dim;
  int64_t repeat, unit;
} RengaSplit;

/* What a lane must know beside its parts of the inputs. */
typedef enum {
  RENGA_LANE_ALONE,   /* nothing: its kernel is the operator's own */
  RENGA_LANE_PLACE,   /* where its elements lie in the whole (RengaSplitPlace): it draws numbers */
  RENGA_LANE_INDICES, /* which rows it has, consecutive ones: its call has their first, and how many
                         there are; an index of another lane's row reads or adds zeros */
  RENGA_LANE_WINDOW,  /* rows of input 0 that other lanes have, too: RengaSplitWindow */
  RENGA_LANE_STATISTICS /* those of all lanes, as inputs 3 and 4 of its call */
} RengaLaneNeed;

typedef struct {
  int64_t units; /* of the axis; 0: no axis, each lane has terms of sums */
  RengaLaneNeed need;
  const char *scaled;  /* an attribute that is proportional to the units of a lane; NULL: none */
  const char *shifted; /* an attribute that the first unit of a lane is added to; NULL: none */
  RengaSplit *in, *out;
} RengaSplitWay;
typedef struct {
  int count;
  RengaSplitWay *way;
} RengaSplitWays;

/* All ways of a call whose outputs are inferred; that all is whole is not among them. None where
   the operator has no rule. Free them with RengaSplitWaysFree. */
RengaErrorCode RengaSplitWaysGet(const RengaOpCall *call, RengaSplitWays *ways);
void RengaSplitWaysFree(RengaSplitWays *ways);
bool RengaSplitHasRule(const RengaOperator *op);
/* Whether the formula of an operator from outside can be read, and fits its inputs and outputs. */
RengaErrorCode RengaSplitCheck_Private(const RengaOperator *op);
/* Deals out unit consecutive units together, in each of repeat equal ranges of the axis; an error
   where these do not divide its units, or units must be consecutive (shifted, or rows). */
RengaErrorCode RengaSplitWayRefine(RengaSplitWay *way, const RengaOpCall *call, int64_t repeat,
                                   int64_t unit);

bool RengaSplitEqual(const RengaSplit *a, const RengaSplit *b);
void RengaLaneUnits(int64_t units, int lane, int lanes, int64_t *first, int64_t *count);
int64_t RengaSplitUnits(const RengaTensorSpec *whole, const RengaSplit *split);
/* The shape of what a lane has, and the place in the whole of its element number e. */
RengaTensorSpec RengaSplitSpec(const RengaTensorSpec *whole, const RengaSplit *split, int lane,
                               int lanes);
int64_t RengaSplitPlace(const RengaTensorSpec *whole, const RengaSplit *split, int lane, int lanes,
                        int64_t element);
/* Where a window moves over the rows of input 0 (RENGA_LANE_WINDOW): those that the lane, which has
   units, reads: [first, first + count) of the whole input. */
RengaErrorCode RengaSplitWindow(const RengaOpCall *whole, const RengaSplitWay *way, int lane,
                                int lanes, int64_t *first, int64_t *count);
/* The call of one lane: shapes in in[n_in] and out[n_out], attributes to be freed by the caller.
   It points to all three. */
RengaErrorCode RengaSplitCall(const RengaOpCall *whole, const RengaSplitWay *way, int lane,
                              int lanes, RengaTensorSpec in[], RengaTensorSpec out[],
                              RengaAttributes *attributes, RengaOpCall *call);
