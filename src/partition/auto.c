/* Types auto and exact: stages, replicas, micro-batches, recomputation and ranks are found by the
   search of search/, for the least predicted step under the memory that the schedule needs. auto
   takes the best layout of quick searches and a bound on all; exact goes on until every layout is
   known to be no faster, or until its time is over. */
#include "partitionimpl.h"
#include "search/search.h"
#include <string.h>

typedef RengaSearchWish Auto;

static RengaErrorCode SetFromOptions_Auto(RengaPartition partition)
{
  const char *sizes = NULL;
  double limit = 0;
  bool given = false;
  const Auto *wish = partition->data;
  RengaCall(RengaOptionsGetString("partition_microbatch_sizes", &sizes, &given));
  if (given) RengaCall(RengaPartitionAutoSetMicrobatchSizes(partition, sizes));
  RengaCall(RengaOptionsGetReal("partition_exact_time_limit", &limit, &given));
  if (given && wish->exact) RengaCall(RengaPartitionExactSetTimeLimit(partition, limit));
  return RENGA_SUCCESS;
}

static RengaErrorCode Plan_Auto(RengaPartition partition, int ranks, int64_t batch,
                                int64_t microbatch, RengaPlan plan)
{
  RengaCall(
      RengaSearchPartition_Private(partition, partition->data, ranks, batch, microbatch, plan));
  return RENGA_SUCCESS;
}

static void List_Auto(RengaPartition partition, RengaSettingList *list)
{
  const Auto *wish = partition->data;
  RengaSettingAddText_Private(list, "-partition_microbatch_sizes", wish->sizes);
  RengaSettingAdd_Private(list, "-partition_exact_time_limit", &wish->time_limit,
                          sizeof wish->time_limit);
}

static RengaErrorCode View_Auto(RengaPartition partition, RengaViewer viewer)
{
  const Auto *wish = partition->data;
  RengaCall(RengaViewerPrintf(viewer, "  sizes of micro-batches: %s\n",
                              wish->sizes ? wish->sizes : "auto"));
  if (wish->exact)
    RengaCall(RengaViewerPrintf(viewer, "  at most %g s (0: any time)\n", wish->time_limit));
  return RENGA_SUCCESS;
}

static RengaErrorCode Destroy_Auto(RengaPartition partition)
{
  Auto *wish = partition->data;
  RengaFree(&wish->sizes);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindAuto(RengaPartition partition, bool exact, Auto **wish,
                               const char *function)
{
  RengaCheckPointerOf(function, partition);
  const char *type = partition->hdr.type_name;
  RengaCheck(!strcmp(type, RENGA_PARTITION_EXACT) ||
                 (!exact && !strcmp(type, RENGA_PARTITION_AUTO)),
             partition->hdr.comm, RENGA_ERR_ORDER,
             "this is for a partition of type %s, but this one's type is %s",
             exact ? "exact" : "auto or exact", type);
  *wish = partition->data;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionAutoSetMicrobatchSizes - sizes of micro-batches that may be chosen

   Collective

   Input:
   . partition - the partition, of type auto or exact
   . sizes - auto, as at first: powers of two and halves between, fewer where costs are measured or
     the problem is large. Or numbers of samples: "1,2,4". Or default: an eighth of the batch, and
     smaller ones only if it does not fit. Where nothing is set, a network with statistics
     (RengaGraphGetBatchStatistics()) has the whole batch as one micro-batch, and smaller ones only
     if it does not fit

   Options:
   . -partition_microbatch_sizes - the same

   Errors: RENGA_ERR_ORDER for a type other than auto or exact.

   Notes: results depend on the size of the micro-batch, and on no other choice. A size that is
   given to RengaPartitionSetBatch() is kept.

   See also: RengaPartitionAutoGetMicrobatchSizes(), RengaPartitionSetBatch()
@*/
RengaErrorCode RengaPartitionAutoSetMicrobatchSizes(RengaPartition partition, const char *sizes)
{
  Auto *wish = NULL;
  char *copy = NULL;
  RengaCheckPointer(sizes);
  RengaCall(FindAuto(partition, false, &wish, __func__));
  RengaCall(RengaStringCopy(sizes, &copy));
  RengaFree(&wish->sizes);
  wish->sizes = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionAutoGetMicrobatchSizes - sizes of micro-batches that may be chosen

   Input:
   . partition - the partition, of type auto or exact

   Output:
   . sizes - the text that RengaPartitionAutoSetMicrobatchSizes() takes, lent by the partition

   Errors: RENGA_ERR_ORDER for a type other than auto or exact.
@*/
RengaErrorCode RengaPartitionAutoGetMicrobatchSizes(RengaPartition partition, const char **sizes)
{
  Auto *wish = NULL;
  RengaCheckPointer(sizes);
  RengaCall(FindAuto(partition, false, &wish, __func__));
  *sizes = wish->sizes ? wish->sizes : "auto";
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionExactSetTimeLimit - how long the search may take

   Collective

   Input:
   . partition - the partition, of type exact
   . seconds - seconds for the whole search, 60 at first; then the best so far is taken, with the
     bound that is proved. 0: any time

   Options:
   . -partition_exact_time_limit - the seconds

   Errors: RENGA_ERR_ORDER for a type other than auto or exact; RENGA_ERR_ARGUMENT for a negative
   limit.
@*/
RengaErrorCode RengaPartitionExactSetTimeLimit(RengaPartition partition, double seconds)
{
  Auto *wish = NULL;
  RengaCall(FindAuto(partition, true, &wish, __func__));
  RengaCheck(seconds >= 0, partition->hdr.comm, RENGA_ERR_ARGUMENT, "a limit of %g seconds",
             seconds);
  wish->time_limit = seconds;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionExactGetTimeLimit - how long the search may take

   Input:
   . partition - the partition, of type exact

   Output:
   . seconds - 0: any time

   Errors: RENGA_ERR_ORDER for a type other than auto or exact.
@*/
RengaErrorCode RengaPartitionExactGetTimeLimit(RengaPartition partition, double *seconds)
{
  Auto *wish = NULL;
  RengaCheckPointer(seconds);
  RengaCall(FindAuto(partition, true, &wish, __func__));
  *seconds = wish->time_limit;
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateSearching(RengaPartition partition, bool exact)
{
  Auto *wish = NULL;
  RengaCall(RengaMalloc(1, &wish));
  wish->exact = exact;
  wish->time_limit = 60;
  partition->data = wish;
  partition->ops[0] = (struct _RengaPartitionOps){.set_from_options = SetFromOptions_Auto,
                                                  .plan = Plan_Auto,
                                                  .list = List_Auto,
                                                  .view = View_Auto,
                                                  .destroy = Destroy_Auto};
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCreate_Auto(void *partition)
{
  RengaCall(CreateSearching(partition, false));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCreate_Exact(void *partition)
{
  RengaCall(CreateSearching(partition, true));
  return RENGA_SUCCESS;
}
