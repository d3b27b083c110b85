/* Type rannc: the plan of RaNNC's phases (find.c), weighed as all plans are. */
#include "../partitionimpl.h"
#include "../search/search.h"
#include <string.h>

typedef struct {
  RengaSearchWish wish;
  int blocks;
} Rannc;

static RengaErrorCode Plan_Rannc(RengaPartition partition, int ranks, int64_t batch,
                                 int64_t microbatch, RengaPlan plan)
{
  Rannc *rannc = partition->data;
  rannc->wish.finder = (SearchFinder){.find = RengaRanncFind_Private, .context = &rannc->blocks};
  RengaCall(RengaSearchPartition_Private(partition, &rannc->wish, ranks, batch, microbatch, plan));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetFromOptions_Rannc(RengaPartition partition)
{
  Rannc *rannc = partition->data;
  const char *sizes = NULL;
  int64_t blocks = 0;
  bool given = false;
  RengaCall(RengaOptionsGetString("partition_microbatch_sizes", &sizes, &given));
  RengaFree(&rannc->wish.sizes);
  if (given) RengaCall(RengaStringCopy(sizes, &rannc->wish.sizes));
  RengaCall(RengaOptionsGetInt64("partition_rannc_blocks", &blocks, &given));
  if (given) RengaCall(RengaPartitionRanncSetBlocks(partition, (int)blocks));
  return RENGA_SUCCESS;
}

static void List_Rannc(RengaPartition partition, RengaSettingList *list)
{
  const Rannc *rannc = partition->data;
  RengaSettingAddInt64_Private(list, "-partition_rannc_blocks", rannc->blocks);
}

static RengaErrorCode View_Rannc(RengaPartition partition, RengaViewer viewer)
{
  const Rannc *rannc = partition->data;
  if (rannc->blocks)
    RengaCall(RengaViewerPrintf(viewer, "  %d blocks\n", rannc->blocks));
  else
    RengaCall(RengaViewerPrintf(viewer, "  as many blocks as stages need\n"));
  return RENGA_SUCCESS;
}

static RengaErrorCode Destroy_Rannc(RengaPartition partition)
{
  Rannc *rannc = partition->data;
  RengaFree(&rannc->wish.sizes);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindRannc(RengaPartition partition, Rannc **rannc, const char *function)
{
  RengaCheckPointerOf(function, partition);
  RengaCheck(!strcmp(partition->hdr.type_name, RENGA_PARTITION_RANNC), partition->hdr.comm,
             RENGA_ERR_ORDER, "blocks are for a partition of type rannc, but this one's type is %s",
             partition->hdr.type_name);
  *rannc = partition->data;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionRanncSetBlocks - how many blocks stages are made of

   Collective

   Input:
   . partition - the partition, of type rannc
   . blocks - the most blocks, at least 1; more are slower. 0, as at first: 32, as in RaNNC, for
     stages of different replicas. For stages of equal ones it is 8 for each stage that there may
     be, from 32 to 256

   Options:
   . -partition_rannc_blocks - the number

   Errors: RENGA_ERR_ORDER for another type; RENGA_ERR_ARGUMENT for a negative number.

   Notes: where memory keeps blocks from being merged there are more. A block is an interval of the
   canonical order of the nodes, since stages are; RaNNC's own may be any convex set. Stages may end
   within a block: their boundaries are moved afterwards.
@*/
RengaErrorCode RengaPartitionRanncSetBlocks(RengaPartition partition, int blocks)
{
  Rannc *rannc = NULL;
  RengaCall(FindRannc(partition, &rannc, __func__));
  RengaCheck(blocks >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT,
             "%d blocks: at least 1, or 0 for as many as stages need", blocks);
  rannc->blocks = blocks;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionRanncGetBlocks - how many blocks stages are made of

   Input:
   . partition - the partition, of type rannc

   Output:
   . blocks - the most; 0: as many as stages need

   Errors: RENGA_ERR_ORDER for another type.
@*/
RengaErrorCode RengaPartitionRanncGetBlocks(RengaPartition partition, int *blocks)
{
  Rannc *rannc = NULL;
  RengaCheckPointer(blocks);
  RengaCall(FindRannc(partition, &rannc, __func__));
  *blocks = rannc->blocks;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCreate_Rannc(void *object)
{
  RengaPartition partition = object;
  Rannc *rannc = NULL;
  RengaCall(RengaMalloc(1, &rannc));
  partition->data = rannc;
  partition->ops[0] = (struct _RengaPartitionOps){.set_from_options = SetFromOptions_Rannc,
                                                  .plan = Plan_Rannc,
                                                  .list = List_Rannc,
                                                  .view = View_Rannc,
                                                  .destroy = Destroy_Rannc};
  return RENGA_SUCCESS;
}
