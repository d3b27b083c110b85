/* What the files of this room share: the states of a problem, from its last item to its first.

   At place p the items from p on are decided. What counts of them for the others is which of the
   values that earlier items make they need, beside those that backward reads: a state is the set of
   these, as bits. From a state the item before it is run again, or not. */
#pragma once
#include "renga/private/keep.h"

enum { KEEP_BITS = 64, KEEP_NONE = -1 };

/* The item before a state's place: the states that it leads to, where the item is not run again,
   for the price of what is wanted of it, and where it is. NONE: that cannot be. */
typedef struct {
  int idle, again;
  int64_t price;
} KeepArc;

/* What is left to do from a state on, at a price of a byte in seconds. */
typedef struct {
  double cost, seconds;
  int64_t bytes;
  bool again; /* the item that it begins with */
} KeepRest;

typedef struct {
  const RengaKeepProblem *problem;
  int *start, *made; /* [items + 1], [values] what each item makes */
  bool *wanted;      /* [values] in any case */
  int *bit;          /* [values] of those that may be needed; NONE: it is there, or wanted */
  bool exact;        /* the states say all that there is to say */
  int *first;        /* [items + 2] states of place p: first[p] to first[p + 1], all in one row */
  int *count;        /* [items + 1] of each place */
  uint64_t *set;     /* [states] */
  KeepArc *arc;      /* [states] */
  KeepRest *rest;    /* [states] at the price below */
  int n_states;
  double price;   /* seconds for a byte */
  double least;   /* proved: no choice takes fewer seconds */
  double seconds; /* of the best choice so far */
  bool *keep;     /* [values] it */
} KeepSearch;

/* Seconds that are the same but for rounding. */
static const double keep_precision = 1e-12;

/* ---- states.c ---- */
RengaErrorCode RengaKeepFindStates_Private(KeepSearch *search);
/* It is made by the item before the place, and needed from the state on. */
bool RengaKeepIsWanted_Private(const KeepSearch *search, int state, int value);

/* ---- price.c ---- */
/* The price of a byte at which what is kept just fits, with a bound and a first choice. */
RengaErrorCode RengaKeepFindPrice_Private(KeepSearch *search);
/* Marks what is kept where the item before the place is not run again. */
void RengaKeepMark_Private(const KeepSearch *search, int place, int state, bool keep[]);
/* Marks what is kept from a state on, as its rest says. */
void RengaKeepFollow_Private(const KeepSearch *search, int place, int state, bool keep[]);

/* ---- front.c ---- */
/* All choices that may be better; *all: they were looked at. */
RengaErrorCode RengaKeepLookAtAll_Private(KeepSearch *search, int64_t limit, int64_t *points,
                                          bool *all);
