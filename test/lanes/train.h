/* A network that is trained for a few steps on the ranks of a communicator, as options of the
   command say, and what came of it. */
#pragma once
#include "../check.h"
#include "rengapipeline.h"

enum { MOST_STEPS = 20, MOST_TEXT = 2048 };

/* What no layout may change, and what layouts are made of. */
typedef struct {
  double loss[MOST_STEPS], norm[MOST_STEPS], validation;
  uint64_t digest;
  int64_t parameter_bytes; /* of the rank that has most of them */
  int steps;
  int nodes, in_lanes;          /* of the network */
  int stages, replicas, shared; /* of the plan; ranks of a replica */
  int recomputed;               /* stages that run forward again */
} Outcome;

/* "-name value -name value": gives them, or forgets them. */
RengaErrorCode GiveOptions(const char *options, bool give);
/* Collective. "-steps" is 3 where it is not given; all that options name is forgotten afterwards.
   An error is on all ranks. */
RengaErrorCode Train(RengaComm comm, const char *options, Outcome *outcome);
/* The bits of two; says the first that differs. */
bool SameOutcome(const Outcome *one, const Outcome *other, size_t size, char difference[]);
