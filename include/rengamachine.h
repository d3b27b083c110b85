/* Machine: devices, their memory and rates, and the links between them, from a machine file. */
#pragma once
#include "rengasys.h"

RENGA_BEGIN_DECLS

/* The computer that a plan is for: its devices and the links between them. */
typedef struct _p_RengaMachine *RengaMachine;

/* One device: what a machine file says of it. Peak rates times efficiencies are what is reached. */
typedef struct {
  const char *name;        /* as the machine file has it */
  int64_t memory;          /* bytes that a rank may use */
  double matrix_rate;      /* FLOP/s of matrix products and convolutions, float32 */
  double vector_rate;      /* FLOP/s of everything else */
  double memory_bandwidth; /* bytes/s */
  double matrix_efficiency, vector_efficiency, bandwidth_efficiency; /* reached share of these */
  double launch; /* seconds that each kernel costs besides its work */
  /* matrix_rate of other types; 0: not known, and costs of such products are refused */
  double matrix_rate_float64, matrix_rate_bfloat16, matrix_rate_float16;
  double matrix_rate_tf32; /* of float32 whose factors are rounded (-precision tf32) */
  double matrix_rate_fp8;  /* of factors that are rounded to 8 bits (-precision fp8) */
  double host; /* seconds between products that a host issues, with all that goes with them: a
                  product takes no less */
  double attention_efficiency; /* share of the matrix rate in attention; 0: matrix_efficiency */
  double attention_passes; /* how often a forward of attention reads or writes all its scores; 0:
                              kernels are fused, and scores never lie in memory */
  double spread; /* standard deviation of devices' seconds for the same work, as a share */
  double unaligned_efficiency; /* share of the matrix rate in products with rows that are no
                                  multiple of 4 bytes; 0: matrix_efficiency */
  double scatter_efficiency;   /* share of the memory's bandwidth in gradients of looked-up rows; 0:
                                  bandwidth_efficiency */
  double half_depth;  /* terms of each element of a product with which it reaches half its rate */
  int64_t processors; /* multiprocessors that tiles of a product are dealt to; 0: a product
                                  reaches the same rate whatever its shape */
  double all_reduce;  /* seconds of a sum of tensor-parallel ranks besides its bytes, where it is an
                        all-reduce of values as stored; 0: kernels cut, exchange and add terms */
  bool accumulates;   /* products add gradients of parameters to those of the micro-batches
                                  before, and no pass over memory does */
} RengaMachineDevice;

/* Devices that share a level (0: a node, 1: the nodes of a switch, …) talk over its links. */
typedef struct {
  const char *name;        /* of the level, as the machine file has it */
  int64_t devices;         /* of a group of this level, all below included */
  double latency;          /* seconds */
  double bandwidth;        /* bytes/s of one device to another of the group, one direction */
  double reduce_bandwidth; /* the same while all of a group sum; 0: bandwidth */
  bool nested;             /* exchanges are made within groups of the levels below first */
  /* shares of sums over replicas, and of tensor-parallel collectives, in which devices compute */
  double reduce_hidden, exchange_hidden;
} RengaMachineLevel;

/* What messages between nodes share. */
typedef struct {
  int64_t cards;           /* network cards of a node, dealt to its devices in turn; 0: not known */
  double card_bandwidth;   /* bytes/s of a card, in each direction */
  int64_t switch_nodes;    /* nodes under a switch; 0: all */
  double uplink_bandwidth; /* bytes/s from a switch to others, in each direction; 0: enough */
} RengaMachineNetwork;

RengaErrorCode RengaMachineCreate(RengaComm comm, RengaMachine *machine);
RengaErrorCode RengaMachineLoad(RengaMachine machine, const char *file);
RengaErrorCode RengaMachineSetNodes(RengaMachine machine, int64_t nodes); /* 0: the file's */
RengaErrorCode RengaMachineSetDevicesPerNode(RengaMachine machine, int64_t devices);
RengaErrorCode RengaMachineSetMemory(RengaMachine machine, int64_t bytes);  /* of each device */
RengaErrorCode RengaMachineGetMemory(RengaMachine machine, int64_t *bytes); /* 0: the file's */
RengaErrorCode RengaMachineSetFromOptions(RengaMachine machine);            /* -machine_file, … */
RengaErrorCode RengaMachineGetNodeCounts(RengaMachine machine, int *count, const int64_t **nodes);
/* A machine that no file describes: both. */
RengaErrorCode RengaMachineSetDevice(RengaMachine machine, const RengaMachineDevice *device);
/* RENGA_MACHINE_KINDS_MOST: of devices, in one machine. */
enum { RENGA_MACHINE_KINDS_MOST = 8 };
/* Devices of several kinds: of kind k those from begin[k] to before begin[k + 1]. */
RengaErrorCode RengaMachineSetKinds(RengaMachine machine, int count,
                                    const RengaMachineDevice devices[], const int64_t begin[]);
RengaErrorCode RengaMachineGetKinds(RengaMachine machine, int *count,
                                    const RengaMachineDevice **devices,
                                    const int64_t **begin); /* lent; count 1: all are alike */
RengaErrorCode RengaMachineSetLevels(RengaMachine machine, int count,
                                     const RengaMachineLevel levels[]);
RengaErrorCode RengaMachineSetIslands(RengaMachine machine, int count, const int64_t begin[]);
RengaErrorCode RengaMachineGetIslands(RengaMachine machine, int *count,
                                      const int64_t **begin); /* lent */
RengaErrorCode RengaMachineSetNetwork(RengaMachine machine, const RengaMachineNetwork *network);
RengaErrorCode RengaMachineGetNetwork(RengaMachine machine,
                                      const RengaMachineNetwork **network);  /* lent */
RengaErrorCode RengaMachineGetName(RengaMachine machine, const char **name); /* lent */
RengaErrorCode RengaMachineGetNodes(RengaMachine machine, int64_t *nodes);
RengaErrorCode RengaMachineGetDeviceCount(RengaMachine machine, int64_t *devices);
RengaErrorCode RengaMachineGetDevicesPerNode(RengaMachine machine, int64_t *devices);
RengaErrorCode RengaMachineGetDevice(RengaMachine machine, const RengaMachineDevice **device);
RengaErrorCode RengaMachineGetLevels(RengaMachine machine, int *count,
                                     const RengaMachineLevel **levels); /* lowest first; lent */
int RengaMachineLevelOf(RengaMachine machine, int64_t rank, int64_t other);
double RengaMachineMessageSeconds(RengaMachine machine, int level, double bytes);
double RengaMachineReduceSeconds(RengaMachine machine, int level, int64_t replicas, double bytes);
RengaErrorCode RengaMachineView(RengaMachine machine, RengaViewer viewer);
RengaErrorCode RengaMachineDestroy(RengaMachine *machine);

RENGA_END_DECLS
