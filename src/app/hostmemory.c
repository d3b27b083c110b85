/* Memory of the host that is not the plan's: what the ranks of a node share for sums, and
   checkpoints in memory. */
#include "hostmemory.h"

RengaErrorCode AppPrintSharedMemory(RengaComm comm)
{
  char text[16];
  int64_t bytes = 0;
  RengaRequest request = NULL;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaCommGetSumMemory(comm, &bytes));
  if (bytes > 0) RengaLogMemory("sums, shared within the node", bytes, -1);
  RengaCall(RengaCommStartLargest(comm, 1, &bytes, &request));
  RengaCall(RengaCommWait(comm, &request, "the memory of all ranks"));
  if (bytes == 0) return RENGA_SUCCESS;
  RengaFormatBytes((double)bytes, sizeof text, text);
  RengaCall(RengaPrintf(
      printer, "  beside it sums share up to %s of a rank with the others of its node\n", text));
  return RENGA_SUCCESS;
}

/* Sums over replicas and tensor ranks, if a node has several of them. */
static int64_t SharedBytesOf(RengaPlan plan, int stage, int64_t groups)
{
  const RengaStageShape *shape = &RengaPlanGetStage(plan, stage)->shape;
  const int lanes = shape->sequence * shape->tensor;
  int64_t bytes = 0;
  const bool folds = shape->shard >= RENGA_SHARD_GRADIENTS && shape->replicas % groups == 0;
  const int sums = 1 + (shape->shard >= RENGA_SHARD_PARAMETERS); /* gathers of parameters */
  if (shape->replicas > 1) bytes += sums * RengaCommSumMemory(shape->replicas);
  if (folds && groups > 1) /* in a group, and over them */
    bytes += RengaCommSumMemory(shape->replicas / (int)groups) + RengaCommSumMemory((int)groups);
  if (lanes > 1) bytes += RengaCommSumMemory(lanes);
  return bytes;
}

/* At most: a rank owns no more than its parameters and moments, and has as much of a neighbour
   where there are several nodes, twice. */
static RengaErrorCode PrintCheckpointMemory(MPI_Comm printer, RengaPlan plan, int64_t per_node)
{
  int64_t steps, most = 0;
  char text[16];
  RengaCall(RengaOptionsGetInt64("checkpoint_memory", &steps, NULL));
  if (steps == 0) return RENGA_SUCCESS;
  for (int s = 0; s < RengaPlanGetStageCount(plan); s++) {
    const RengaPlanStage *stage = RengaPlanGetStage(plan, s);
    const int64_t bytes = (stage->parts.parameters + stage->parts.optimizer) * stage->shape.chunks;
    if (bytes > most) most = bytes;
  }
  const bool copies = per_node < RengaPlanGetRankCount(plan);
  RengaFormatBytes((double)(most * (copies ? 4 : 2)), sizeof text, text);
  RengaCall(RengaPrintf(printer,
                        "  memory of the host beside it: -checkpoint_memory takes up to %s for a "
                        "rank%s\n",
                        text, copies ? ", with the copies of a neighbour node" : ""));
  return RENGA_SUCCESS;
}

RengaErrorCode AppPrintHostMemory(RengaComm comm, RengaPlan plan, int64_t per_node)
{
  char text[16];
  int64_t most = 0, groups;
  const MPI_Comm printer = AppPrinter(comm);
  RengaCall(RengaOptionsGetInt64("layout_zero_groups", &groups, NULL));
  for (int s = 0; s < RengaPlanGetStageCount(plan) && per_node != 1; s++) {
    const int64_t bytes = SharedBytesOf(plan, s, groups);
    if (bytes > most) most = bytes;
  }
  RengaFormatBytes((double)most, sizeof text, text);
  if (most > 0)
    RengaCall(RengaPrintf(printer,
                          "  memory of the host beside it: sums share up to %s of a rank with the "
                          "others of its node\n",
                          text));
  RengaCall(PrintCheckpointMemory(printer, plan, per_node));
  return RENGA_SUCCESS;
}
