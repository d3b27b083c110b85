/* The network that the user names, and its plan. */
#include "app.h"

RengaErrorCode AppNeedOption(RengaComm comm, const char *name, const char *purpose,
                             const char **value)
{
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(comm, &printer));
  RengaCall(RengaOptionsGetString(name, value, NULL));
  RengaCheck(*value, printer, RENGA_ERR_OPTION, "-%s is missing: %s", name, purpose);
  return RENGA_SUCCESS;
}

RengaErrorCode AppCreateGraph(RengaComm comm, RengaGraph *graph)
{
  const char *name;
  RengaCall(AppNeedOption(comm, "graph",
                          "an ONNX file or a built-in network, such as "
                          "gpt:layers=4,hidden=256,heads=8,sequence=128,"
                          "vocabulary=256",
                          &name));
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphSetFromOptions(*graph));
  return RENGA_SUCCESS;
}

RengaErrorCode AppLoadGraph(RengaComm comm, RengaGraph *graph)
{
  RengaCall(AppCreateGraph(comm, graph));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

/* Nobody says how to share out the network among several ranks. */
static RengaErrorCode IsOpen(RengaComm comm, bool *open)
{
  static const char *const names[] = {"partition_type", "partition_stages", "partition_replicas",
                                      "partition_cuts", "plan_load"};
  *open = RengaCommGetSize(comm) > 1;
  for (size_t i = 0; i < sizeof names / sizeof names[0] && *open; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(names[i], &text, &given));
    *open = !given;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode AppMakePartition(RengaComm comm, RengaGraph graph, int64_t batch, int replicas,
                                RengaPartition *partition)
{
  bool open = false;
  RengaCall(IsOpen(comm, &open));
  RengaCall(RengaPartitionCreate(comm, partition));
  if (open && !replicas) RengaCall(RengaPartitionSetType(*partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetGraph(*partition, graph));
  RengaCall(RengaPartitionSetBatch(*partition, batch, 0));
  RengaCall(RengaPartitionSetReplicas(*partition, replicas));
  RengaCall(RengaPartitionSetFromOptions(*partition));
  return RENGA_SUCCESS;
}
