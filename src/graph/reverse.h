/* What the rules of reverse mode share. */
#pragma once
#include "graphimpl.h"

typedef struct {
  RengaGraph graph;
  const RengaGraphNode *node; /* of the forward phase */
  const RengaValue *dy;       /* by output; NONE where no gradient arrives */
  const bool *wanted;         /* by input */
  RengaValue *dx;             /* by input: to be filled where wanted; NONE on entry */
  RengaValue
      before; /* the gradient of input 0 so far, which a rule may add it to; NONE: it may not */
  bool added; /* to be set where it has */
  const char *with; /* of the row */
} RengaReverse;
typedef struct {
  const char *op;
  RengaErrorCode (*rule)(RengaReverse *reverse); /* NULL: the derivative is zero */
  const char *with;                              /* the operator that it applies, or NULL */
} RengaReverseRow;
extern const RengaReverseRow RengaReverseUnary[], RengaReverseBinary[], RengaReverseReduce[],
    RengaReverseMove[], RengaReverseIndex[], RengaReverseMatrix[], RengaReverseConvolve[],
    RengaReverseNormalize[], RengaReverseLoss[], RengaReverseRecurrent[];

/* Rules of several rows: dx = WITH(dy) in the shape of x, with the attributes of the forward node;
   dx = NAMEGrad(dy, y), and of x. */
RengaErrorCode RengaReverseBack(RengaReverse *reverse);
RengaErrorCode RengaReverseOfOutput(RengaReverse *reverse);
RengaErrorCode RengaReverseOfInput(RengaReverse *reverse);
/* Operators from outside that have a gradient. */
bool RengaReverseIsOutside(const char *op);
RengaErrorCode RengaReverseOutside(RengaReverse *reverse);

static inline const RengaTensorSpec *RengaReverseSpec(const RengaReverse *reverse, RengaValue value)
{
  return RengaGraphSpec(reverse->graph, value);
}
static inline bool RengaReverseWants(const RengaReverse *reverse, int input)
{
  return input < reverse->node->n_in && reverse->wanted[input];
}
/* One node of the backward phase. attributes may be NULL; they are freed. */
RengaErrorCode RengaReverseApply(RengaReverse *reverse, const char *op, RengaAttributes *attributes,
                                 int n_in, const RengaValue in[], const RengaTensorSpec *given,
                                 RengaValue *y);
/* The same with those attributes of the forward node that op knows, and any number of outputs. */
RengaErrorCode RengaReverseApplyLike(RengaReverse *reverse, const char *op, int n_in,
                                     const RengaValue in[], const RengaTensorSpec *given, int n_out,
                                     RengaValue y[]);
RengaErrorCode RengaReverseUnaryOp(RengaReverse *reverse, const char *op, RengaValue x,
                                   RengaValue *y);
RengaErrorCode RengaReverseBinaryOp(RengaReverse *reverse, const char *op, RengaValue a,
                                    RengaValue b, RengaValue *y);
/* a op number, where number is a scalar constant of a's type */
RengaErrorCode RengaReverseWithScalar(RengaReverse *reverse, const char *op, RengaValue a,
                                      double number, RengaValue *y);
RengaErrorCode RengaReverseScalar(RengaReverse *reverse, RengaDataType type, double number,
                                  RengaValue *y);
RengaErrorCode RengaReverseReshape(RengaReverse *reverse, RengaValue x,
                                   const RengaTensorSpec *shape, RengaValue *y);
RengaErrorCode RengaReverseSum(RengaReverse *reverse, RengaValue x, int count, const int64_t axes[],
                               bool keep, RengaValue *y);
/* The value, or a copy of it where a lane has made it of what is kept. */
RengaErrorCode RengaReverseRecompute(RengaReverse *reverse, RengaValue value, RengaValue *again);
RengaErrorCode RengaReverseZeros(RengaReverse *reverse, RengaValue like, RengaValue *y);
/* Where(condition, a, b), with NONE for zero */
RengaErrorCode RengaReverseChoose(RengaReverse *reverse, RengaValue condition, RengaValue a,
                                  RengaValue b, RengaValue *y);
/* g where x is not 0, and 0 where it is */
RengaErrorCode RengaReverseWithoutZero(RengaReverse *reverse, RengaValue x, RengaValue g,
                                       RengaValue *y);
/* What broadcasting has repeated is added up: y has the shape of the value target. */
RengaErrorCode RengaReverseReduceTo(RengaReverse *reverse, RengaValue x, RengaValue target,
                                    RengaValue *y);
#define RengaReverseRefuse(reverse, ...)                                                           \
  RengaGraphRefuse((reverse)->node, RENGA_ERR_SUPPORT, "no gradient: " __VA_ARGS__)
/* Made of values of one stored type, and kept in it; lane: as of the node. */
RengaErrorCode RengaReverseInsertLike(RengaGraph graph, const char *op, int lane, int n_in,
                                      const RengaValue in[], RengaValue *out);
