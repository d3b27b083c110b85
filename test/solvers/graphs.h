/* Graphs and reference values of others' planners, read from ../shared/graphs. */
#pragma once
#include "cuts.h"

/* NULL: not there. */
const char *GraphsFolder(void);

/* A row of reference.tsv. */
typedef struct {
  char workload[160], method[64], note[512];
  char devices[16]; /* "6", or "4x4" */
  int hosts;
  double memory; /* HUGE_VAL: no bound */
  double value;  /* HUGE_VAL: no plan */
} GraphsReference;
RengaErrorCode GraphsReadReferences(int *count, GraphsReference **row); /* RengaFree(&row) */

/* Throughput graphs of dnn-partitioning; name: LayerGraphs/bert24_inference, … */
RengaErrorCode GraphsReadColoured(const char *name, RengaCutsColoured *coloured);

/* Graphs of Piper; name: bert32a100, gnmt. */
typedef struct {
  RengaCutsShardProblem problem; /* points into what follows; devices, batch, … are the caller's */
  int *edge, *degree;
  double *edge_bytes, *weight, *receive_bytes, *send_bytes;
  bool *offered;
  RengaCutsOption *option;
} GraphsShards;
RengaErrorCode GraphsReadShards(const char *name, GraphsShards *shards);
void GraphsFreeShards(GraphsShards *shards);

/* Profiles of PipeDream; name: vgg16, … Work is in seconds forward and backward, weight in bytes of
   parameters; no messages, as its optimizer counts none. */
typedef struct {
  RengaCutsProblem problem; /* points into what follows; devices and replicas are the caller's */
  RengaCutsItem *item;
  int *edge, *message_first;
} GraphsProfile;
RengaErrorCode GraphsReadProfile(const char *name, GraphsProfile *profile);
void GraphsFreeProfile(GraphsProfile *profile);

/* main of a test that needs the folder: exit code 77, skipped, where it is not there. */
#define GRAPHS_MAIN(run)                                                                           \
  static RengaErrorCode TestAll(int argc, char **argv)                                             \
  {                                                                                                \
    RengaCall(RengaInitialize(&argc, &argv, NULL));                                                \
    RengaCall(run());                                                                              \
    RengaCall(RengaFinalize());                                                                    \
    return RENGA_SUCCESS;                                                                          \
  }                                                                                                \
  int main(int argc, char **argv)                                                                  \
  {                                                                                                \
    if (GraphsFolder() == NULL) {                                                                  \
      printf("skipped: there is no ../shared/graphs, and RENGA_GRAPHS is not set\n");              \
      return 77;                                                                                   \
    }                                                                                              \
    RengaCallAbort(TestAll(argc, argv));                                                           \
    return 0;                                                                                      \
  }
