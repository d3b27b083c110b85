/* The parts of a small run, and what fails in them. */
#pragma once
#include "../check.h"
#include "renga.h"
#include "renga/private/fault.h"

/* What the parts leave to each other. */
typedef struct {
  MPI_Comm ranks;
  RengaComm comm, group;
  RengaGraph graph;
  RengaMachine machine;
  RengaProfile profile;
  RengaPartition partition;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCheckpoint checkpoint;
  RengaData data;
  double result; /* of the part: a loss, a digest; 0 where it has none */
  char *base_file;
} State;

/* A part of the run. undo: so that it can be done again; after it nothing is left of it. */
typedef RengaErrorCode (*PartFunction)(State *state);
typedef struct {
  const char *name;
  PartFunction part, undo;
  PartFunction after; /* once, when it is done */
  unsigned flags;
} Part;
enum {
  PART_KEEPS = 1, /* parameters are as before where it fails, and where it is undone */
  PART_STEPS = 2, /* is undone only where it succeeds, and may leave memory to the pipeline */
  PART_WARNS = 4, /* writes that fail are no error */
};
extern const Part parts[];
extern const int n_parts;
RengaErrorCode RemoveFiles(void);
RengaErrorCode UndoAll(State *state);

/* The failures of fault.h, and one that needs no help of the library. */
enum { FAULT_READ = RENGA_FAULT_FAILURES, KINDS };
extern const char *const kind_names[KINDS];
void SetFault(int kind, int64_t n);
int64_t CountFaults(int kind);
