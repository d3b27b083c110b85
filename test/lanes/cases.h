/* Cases: a network on a layout, to be compared with a reference, which is one rank's. */
#pragma once
#include "train.h"

#define COMMON                                                                                     \
  "-data synthetic -data_samples 19 -batch_size 8 -microbatch_size 2 -steps 3 -seed 1 "            \
  "-device_threads 1 -optimizer_clip_norm 0.5"
#define WORDS "sequence=8,vocabulary=61"
#define HEADS "gpt:layers=2,hidden=20,heads=5," WORDS
#define LANES COMMON " -graph_lanes 3 -graph "
#define TOKENS COMMON " -graph_token_lanes 3 -graph "
#define BOTH COMMON " -graph_lanes 2 -graph_token_lanes 3 -graph "

typedef struct {
  char *options;
  Outcome outcome;
} Reference;

/* Two references whose last losses are near each other, or (file) whose losses are near those of
   a file. */
typedef struct {
  int one, other;
  char *file;
} Nearness;

/* Of what the options leave open, and of memory; 0: anything. */
typedef struct {
  int shared, stages, replicas; /* ranks of a replica; stages of the plan; replicas of the first */
  int recomputed;               /* stages that run forward again */
  int percent;                  /* parameters of the fullest rank, at most, of the reference's */
} Expected;

typedef struct {
  int ranks;     /* that it takes */
  int reference; /* number; -1: none, as it is refused */
  char *options;
  int number, stages, shared; /* of a layout of many, from 1: of its choices; 0: options say all */
  RengaErrorCode code;        /* that it is refused with */
  const char *sentence;
  Expected expected;
  int64_t fault; /* 0: none; the message of rank fault_rank that fails, and is sent again */
  int fault_rank;
} Case;

typedef struct {
  Reference *reference;
  Nearness *nearness;
  Case *cases;
  int references, nearnesses, count;
  int slot;               /* RENGA_TEST_SLOT */
  int every, fixed_every; /* layout n is tried if this divides n + slot; the same of fixed.c */
  int fixed;              /* layouts of fixed.c so far */
  int runs, refused, differences; /* of this rank as the first of a case's ranks */
} Cases;

/* Adds what is not there yet, and returns its number. */
RengaErrorCode AddReference(Cases *cases, const char *options, int *number);
RengaErrorCode AwaitAll(void); /* collective over all ranks; leaves the processor to others */
RengaErrorCode AddNearness(Cases *cases, int one, int other, const char *file);
RengaErrorCode AddCase(Cases *cases, const Case *added); /* options are copied */
void FreeCases(Cases *cases);
/* Collective over all ranks: side by side. */
RengaErrorCode RunReferences(Cases *cases);
RengaErrorCode RunCases(Cases *cases);

/* fixed.c: those that are run always. */
RengaErrorCode AddFixedCases(Cases *cases);
/* refused.c: options that are refused, with their sentences. */
RengaErrorCode AddRefusedCases(Cases *cases);
/* choices.c: schedule, recomputation, cuts or several stages per rank of a layout's number. */
void Choose(int number, int stages, int nodes, size_t size, char options[]);
