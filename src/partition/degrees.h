/* What files of -layout_tensor auto and -layout_context auto share: what is known of each number
   of tensor- and context-parallel ranks, and the choice between them. */
#pragma once
#include "partitionimpl.h"

enum { DEGREE_TEXT = 480, DEGREES_NAMED = 64 };

/* In micro-batches of its own a number of ranks is seldom faster than in others' by more. */
#define RENGA_DEGREES_NEAR 1.1
/* Where one size was looked at, which may be the best of the fastest number alone. */
#define RENGA_DEGREES_NEAR_SIZES 1.5
/* Share of a step that more ranks must save, in other lanes, which change bits. */
#define RENGA_DEGREES_GAIN 0.01

typedef struct {
  int tensor, context, lanes;
} DegreeRanks;

/* Ranks of a replica of a stage; lanes, where they are open. */
typedef struct {
  int tensor, context, lanes;
  char said[DEGREE_TEXT]; /* what they take, or why they are not looked at; empty: nothing */
  bool left_out;
  double step; /* seconds; 0: no plan is known */
} DegreeNumber;

/* The best of one of them. */
typedef struct {
  int tensor, context, lanes;
  RengaGraph graph;      /* in its lanes, where these are open; NULL: the partition's own */
  RengaPlan plan;        /* NULL: none fits */
  double step;           /* seconds */
  double bound;          /* no plan of this number takes less; HUGE_VAL: there is none */
  double least;          /* bytes that a device needs of those that do not fit; HUGE_VAL: none */
  RengaErrorCode code;   /* there is no plan for it, and for: */
  char why[DEGREE_TEXT]; /* empty: it does not fit */
  bool beaten;           /* none was found that is faster than another number's */
  bool late;             /* it was looked for once more, to be told of, and is not chosen */
  double first;          /* seconds: as far as searches that are given up go */
} Degree;

/* What all have in common. */
typedef struct {
  RengaPartition partition;
  int ranks, lanes;
  int contexts;       /* the most context-parallel ranks */
  bool tensor_chosen; /* not given */
  bool context_chosen;
  int64_t batch, microbatch, leaf;
  bool sizes;                               /* of micro-batches are given to choose from */
  double memory;                            /* bytes of a device; 0: no bound */
  bool searches;                            /* the type looks for plans with tensor ranks */
  bool open;                                /* lanes are chosen with the tensor ranks */
  bool tokens_open;                         /* and lanes of tokens with the context ranks */
  double gain;                              /* share of a step that others must save */
  int64_t settled_microbatch, settled_leaf; /* of the plan of one tensor rank, which others take; 0:
                                               they choose */
  char *chosen;                             /* what that plan says of them */
  bool one_size;                            /* of micro-batches is looked at in a large problem; */
  int64_t smaller, larger;                  /* which others of the near ones are from and to */
  int64_t node;                             /* ranks whose links a group may use */
  double limit;  /* seconds that type exact has for all of them; 0: any time */
  double begun;  /* on the clock of MPI_Wtime */
  bool gives_up; /* what is slower than another number's plan */
  double beat;   /* seconds of a step, that it must be below; 0: any */
} DegreeTask;

/* What the choice goes by, and ends with. */
typedef struct {
  Degree best;
  double least; /* bytes that a device needs of those with tensor ranks that do not fit */
  int smallest; /* their ranks; 0: there are none */
  int last;     /* the most ranks that have no plan, and why */
  char why[DEGREE_TEXT];
  int n_numbers;
  DegreeNumber *number; /* [n_numbers] with one context rank first */
  double bound;         /* seconds: of all numbers that were looked at, which are */
  int n_bounded;
  DegreeRanks bounded[DEGREES_NAMED];
} DegreeChoice;

/* ---- degreelist.c ---- */
/* Which numbers are open, up to which, and what they must save. */
RengaErrorCode RengaDegreesFindOpen_Private(DegreeTask *task);
RengaErrorCode RengaDegreesFindNode_Private(DegreeTask *task);
RengaErrorCode RengaDegreesAdd_Private(int tensor, int context, int lanes, DegreeChoice *choice);
RengaErrorCode RengaDegreesList_Private(const DegreeTask *task, DegreeChoice *choice);
RengaErrorCode RengaDegreesListContext_Private(const DegreeTask *task, DegreeChoice *choice);
int RengaDegreesTurn_Private(const DegreeTask *task, int count, int turn);

/* ---- degreechoice.c ---- */
/* Takes or frees the degree's plan, and says what it takes. */
RengaErrorCode RengaDegreeTake_Private(const DegreeTask *task, Degree *degree,
                                       DegreeChoice *choice);
static inline int RengaDegreeGroup_Private(const Degree *degree)
{
  return degree->tensor * degree->context;
}
RengaErrorCode RengaDegreeFree_Private(Degree *degree);
/* The bound of all that were looked at becomes that of the plan that was chosen, and what is
   said of its own is left out. */
RengaErrorCode RengaDegreesTakeBound_Private(const DegreeChoice *choice);
/* Into the plan that was chosen: what all take. */
RengaErrorCode RengaDegreesSay_Private(const DegreeTask *task, const DegreeChoice *choice);
/* The error where there is no plan; one: of one tensor rank. */
RengaErrorCode RengaDegreesRefuse_Private(const DegreeTask *task, const Degree *one,
                                          const DegreeChoice *choice);
