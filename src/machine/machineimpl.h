/* What the files of the machine's room share. */
#pragma once
#include "renga/private/object.h"
#include "rengamachine.h"

enum { MACHINE_LEVELS = 3, MACHINE_NODE_COUNTS = 64 };

/* A machine file: keys, and what they mean. */
typedef struct {
  char *name;
  char *islands;
  char *kind; /* of a section: its name */
  int64_t nodes, devices, memory;
  RengaMachineNetwork network;
  double matrix_rate, vector_rate, memory_bandwidth;
  double matrix_rate_float64, matrix_rate_bfloat16, matrix_rate_float16, matrix_rate_tf32;
  double matrix_rate_fp8;
  double matrix_efficiency, vector_efficiency, bandwidth_efficiency, launch;
  double attention_passes, attention_efficiency;
  double host, spread, reduce_hidden, exchange_hidden;
  double unaligned_efficiency;
  double half_depth, all_reduce, scatter_efficiency;
  int64_t processors;
  bool nested, accumulates;
  double latency[MACHINE_LEVELS], bandwidth[MACHINE_LEVELS]; /* node, switch, cluster */
} MachineFile;

struct _p_RengaMachine {
  struct _p_RengaObject hdr; /* state SETUP: it has a device and levels */
  MachineFile *file;         /* [1 + RENGA_MACHINE_KINDS_MOST] as loaded: for all, of each kind */
  /* wished for: nodes, devices of a node, bytes of a device; 0: the file's */
  int64_t nodes, devices, memory;
  int n_counts; /* of -machine_nodes */
  int64_t counts[MACHINE_NODE_COUNTS];
  RengaMachineDevice device; /* of the first kind */
  int n_kinds;               /* 0 or 1: all devices are alike */
  RengaMachineDevice *kind;  /* [n_kinds] of several */
  char *kind_name[RENGA_MACHINE_KINDS_MOST];
  int64_t kind_begin[RENGA_MACHINE_KINDS_MOST + 1]; /* the first device of each, and all */
  RengaMachineNetwork network;
  int n_levels;
  RengaMachineLevel level[MACHINE_LEVELS];
  char *device_name;
  char *name[MACHINE_LEVELS]; /* of the levels */
  int n_islands;              /* nodes of unequal numbers of devices */
  int64_t *island;            /* [n_islands + 1] where each begins */
};

/* Folders with machine files, NULL after the last. */
extern const char *const RengaMachineFolders_Private[];
/* Nodes as the file describes have so many devices, and there are so many of them: else an error.
   0: as it says. file: [1 + sections] */
RengaErrorCode RengaMachineCheckWishes_Private(RengaMachine machine, const MachineFile file[],
                                               int64_t nodes, int64_t devices);
RengaErrorCode RengaMachineCheckDevice_Private(RengaMachine machine,
                                               const RengaMachineDevice *device);
/* The device and the levels follow from the file and the wishes. */
RengaErrorCode RengaMachineBuild_Private(RengaMachine machine);
/* kinds.c: of a file with sections, whose totals become those of file[0]; the file's kinds, or
   none; the error that their nodes are fixed. */
RengaErrorCode RengaMachineCountKinds_Private(RengaMachine machine, const char *path, int kinds,
                                              MachineFile file[]);
RengaMachineDevice RengaMachineDeviceOf_Private(RengaMachine machine, const MachineFile *file);
RengaErrorCode RengaMachineBuildKinds_Private(RengaMachine machine);
void RengaMachineFreeKinds_Private(RengaMachine machine);
RengaErrorCode RengaMachineReadIslands_Private(RengaMachine machine, const char *text);
RengaErrorCode RengaMachineFreeFile_Private(RengaMachine machine);
