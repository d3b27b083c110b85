/* What the files of the machine's room share. */
#pragma once
#include "renga/private/object.h"
#include "rengamachine.h"

enum { MACHINE_LEVELS = 3, MACHINE_NODE_COUNTS = 64 };

/* A machine file: keys, and what they mean. */
typedef struct {
  char *name;
  char *islands;
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
  MachineFile *file;         /* as loaded */
  /* wished for: nodes, devices of a node, bytes of a device; 0: the file's */
  int64_t nodes, devices, memory;
  int n_counts; /* of -machine_nodes */
  int64_t counts[MACHINE_NODE_COUNTS];
  RengaMachineDevice device;
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
/* Nodes as the file describes have so many devices: else an error. */
RengaErrorCode RengaMachineCheckDevices_Private(RengaMachine machine, const MachineFile *file,
                                                int64_t devices);
/* The device and the levels follow from the file and the wishes. */
RengaErrorCode RengaMachineBuild_Private(RengaMachine machine);
RengaErrorCode RengaMachineReadIslands_Private(RengaMachine machine, const char *text);
RengaErrorCode RengaMachineFreeFile_Private(RengaMachine machine);
