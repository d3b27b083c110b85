/* What the files of type measured share. */
#pragma once
#include "profileimpl.h"

typedef struct {
  char *file;        /* -profile_file; NULL: the user's cache */
  char name[4096];   /* of the file in use; empty: none */
  char device[1024]; /* description */
  bool ready;        /* the file is read */
  int64_t measured;  /* rows that no file had */
  int64_t memory;    /* of a device, -machine_memory; 0: what there is */
  ProfileRows rows;
  RengaDevice made; /* where none was set */
  RengaMachine machine;
  double ratio[2]; /* forward, backward: of the last costs; 0: none yet */
} Measured;

/* Collective, before all that measures: an error on all ranks where they do not mean the same;
   asked: samples or elements; name: what else. */
RengaErrorCode RengaMeasuredAgree_Private(RengaProfile profile, int64_t asked, const char *name);
RengaErrorCode RengaMeasuredSetUp_Private(RengaProfile profile);
RengaErrorCode RengaMeasuredSave_Private(RengaProfile profile);
RengaDevice RengaMeasuredDevice_Private(RengaProfile profile);
/* Which ranks measure at the same time: no more than there are cores. number: among them; -1: this
   rank waits. */
RengaErrorCode RengaMeasuredWorkers_Private(RengaProfile profile, int *number, int *count);
/* vectors.c: flat vectors of any length: y += x, and the optimizer's update with the norm. */
RengaErrorCode RengaMeasuredAccumulate_Private(RengaProfile profile, int64_t count,
                                               double *seconds);
RengaErrorCode RengaMeasuredUpdate_Private(RengaProfile profile, int64_t count, double *seconds);
/* links.c: latency and bandwidth between ranks, the sum over replicas. */
RengaErrorCode RengaMeasuredMachine_Private(RengaProfile profile, RengaMachine *machine);
/* merged.c: nodes in turn against the sum of their costs, forward and backward. */
RengaErrorCode RengaMeasuredMerge_Private(RengaProfile profile, int64_t samples,
                                          const RengaProfileCost costs[], double ratio[2]);
