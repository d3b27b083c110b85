/* Stages at the cuts that the user names: first nodes (or values), or node counts. */
#include "partitionimpl.h"
#include "renga/private/number.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  char *text;   /* as given */
  int count;    /* entries */
  char **entry; /* [count] */
} Manual;

static void FreeEntries(Manual *manual)
{
  for (int i = 0; i < manual->count; i++) RengaFree(&manual->entry[i]);
  RengaFree(&manual->entry);
  RengaFree(&manual->text);
  manual->count = 0;
}

static RengaErrorCode Destroy_Manual(RengaPartition partition)
{
  FreeEntries(partition->data);
  return RENGA_SUCCESS;
}

static RengaErrorCode AddEntry(Manual *manual, const char *begin, size_t length)
{
  RengaCall(RengaRealloc(manual->count + 1, &manual->entry));
  manual->entry[manual->count] = NULL;
  RengaCall(RengaMalloc(length + 1, &manual->entry[manual->count]));
  memcpy(manual->entry[manual->count], begin, length);
  manual->entry[manual->count++][length] = 0;
  return RENGA_SUCCESS;
}

/* Entries between commas, without the blanks around them. */
static RengaErrorCode SplitCuts(RengaPartition partition, const char *cuts)
{
  for (const char *at = cuts; *at;) {
    const char *end = at + strcspn(at, ","), *begin = at + strspn(at, " \t");
    const char *last = end;
    while (last > begin && RengaIsSpace(last[-1])) last--;
    RengaCheck(last > begin, partition->hdr.comm, RENGA_ERR_ARGUMENT, "cuts \"%s\": an empty entry",
               cuts);
    RengaCall(AddEntry(partition->data, begin, (size_t)(last - begin)));
    at = *end ? end + 1 : end;
  }
  return RENGA_SUCCESS;
}

static bool AreCounts(const Manual *manual)
{
  for (int i = 0; i < manual->count; i++)
    if (manual->entry[i][strspn(manual->entry[i], "0123456789")]) return false;
  return manual->count > 0;
}

static RengaErrorCode RaiseUnknown(RengaPartition partition, const char *name)
{
  RengaGraph graph = partition->graph;
  int nodes = RengaGraphGetNodeCount(graph), values = RengaGraphGetValueCount(graph);
  const char **names = NULL, *closest;
  RengaCall(RengaMalloc(nodes + values, &names));
  for (int n = 0; n < nodes; n++) names[n] = RengaGraphGetNode(graph, n)->name;
  for (int v = 0; v < values; v++) names[nodes + v] = RengaGraphGetValue(graph, v)->name;
  closest = RengaClosestName(name, nodes + values, names);
  RengaFree(&names);
  RengaRaise(partition->hdr.comm, RENGA_ERR_PLAN,
             "cut \"%s\": the network has no node or value of that name%s%s%s; -graph_view dot "
             "lists them",
             name, closest ? " (did you mean " : "", closest ? closest : "", closest ? "?)" : "");
}

static RengaErrorCode FindNode(RengaPartition partition, const char *name, int *node)
{
  RengaGraph graph = partition->graph;
  for (*node = 0; *node < RengaGraphGetNodeCount(graph); (*node)++)
    if (!strcmp(RengaGraphGetNode(graph, *node)->name, name)) return RENGA_SUCCESS;
  RengaValue value = RengaGraphFindValue(graph, name);
  if (value < 0) RengaCall(RaiseUnknown(partition, name));
  *node = RengaGraphGetValue(graph, value)->producer;
  RengaCheck(*node >= 0, partition->hdr.comm, RENGA_ERR_PLAN,
             "cut \"%s\": no node makes this value; name one that is made in the network", name);
  return RENGA_SUCCESS;
}

static RengaErrorCode CutAtNames(RengaPartition partition, RengaPlanStage stages[])
{
  const Manual *manual = partition->data;
  int before = 0;
  for (int i = 0; i < manual->count; i++) {
    int node = 0;
    RengaCall(FindNode(partition, manual->entry[i], &node));
    RengaCheck(
        node > before, partition->hdr.comm, RENGA_ERR_PLAN,
        "cut \"%s\" is node %d, which does not come after node %d, where the stage before it "
        "begins: name the cuts in the order of the network",
        manual->entry[i], node, before);
    stages[i].last = stages[i + 1].first = before = node;
  }
  stages[manual->count].last = RengaGraphGetNodeCount(partition->graph);
  return RENGA_SUCCESS;
}

static RengaErrorCode CutAtCounts(RengaPartition partition, RengaPlanStage stages[])
{
  const Manual *manual = partition->data;
  int n_nodes = RengaGraphGetNodeCount(partition->graph);
  int64_t sum = 0;
  for (int i = 0; i < manual->count; i++) {
    long long nodes = atoll(manual->entry[i]);
    RengaCheck(nodes >= 1 && nodes <= n_nodes, partition->hdr.comm, RENGA_ERR_PLAN,
               "cuts \"%s\": stage %d has %lld of the network's %d nodes", manual->text, i, nodes,
               n_nodes);
    stages[i].first = (int)sum;
    sum += nodes;
    stages[i].last = sum < n_nodes ? (int)sum : n_nodes;
  }
  RengaCheck(sum == n_nodes, partition->hdr.comm, RENGA_ERR_PLAN,
             "cuts \"%s\": the stages have %lld nodes together, but the network has %d",
             manual->text, (long long)sum, n_nodes);
  return RENGA_SUCCESS;
}

static RengaErrorCode Count_Manual(RengaPartition partition, int *stages)
{
  const Manual *manual = partition->data;
  if (!manual->count)
    *stages = partition->stages ? partition->stages : 1;
  else
    *stages = AreCounts(manual) ? manual->count : manual->count + 1;
  return RENGA_SUCCESS;
}

static RengaErrorCode Solve_Manual(RengaPartition partition, int count, RengaPlanStage stages[])
{
  const Manual *manual = partition->data;
  if (!manual->count) /* the number of stages says it all */
    RengaCall(RengaPartitionCutEvenly_Private(partition, count, stages));
  else if (AreCounts(manual))
    RengaCall(CutAtCounts(partition, stages));
  else
    RengaCall(CutAtNames(partition, stages));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetFromOptions_Manual(RengaPartition partition)
{
  const char *cuts = NULL;
  bool given = false;
  RengaCall(RengaOptionsGetString("partition_cuts", &cuts, &given));
  if (given) RengaCall(RengaPartitionManualSetCuts(partition, cuts));
  return RENGA_SUCCESS;
}

static void List_Manual(RengaPartition partition, RengaSettingList *list)
{
  const Manual *manual = partition->data;
  RengaSettingAddText_Private(list, "-partition_cuts", manual->text);
}

static RengaErrorCode View_Manual(RengaPartition partition, RengaViewer viewer)
{
  const Manual *manual = partition->data;
  RengaCall(RengaViewerPrintf(viewer, "  cuts: %s\n", manual->text ? manual->text : "none"));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckManual(RengaPartition partition, const char *function)
{
  RengaCheckPointerOf(function, partition);
  RengaCheck(!strcmp(partition->hdr.type_name, RENGA_PARTITION_MANUAL), partition->hdr.comm,
             RENGA_ERR_ORDER, "cuts are for a partition of type manual, but this one's type is %s",
             partition->hdr.type_name);
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionManualSetCuts - say where stages begin

   Collective

   Input:
   . partition - the partition, of type manual
   . cuts - names of the first node of stages 1, 2, …, or of a value that it makes, parted by
     commas. Or, where all are numbers, the number of nodes of each stage. Without cuts stages are
     made as type even does

   Options:
   . -partition_cuts - the cuts

   Errors: RENGA_ERR_ORDER for another type; RENGA_ERR_ARGUMENT for an empty entry. What does not
   fit the network is found by RengaPartitionSolve.
@*/
RengaErrorCode RengaPartitionManualSetCuts(RengaPartition partition, const char *cuts)
{
  RengaCheckPointer(cuts);
  RengaCall(CheckManual(partition, __func__));
  Manual *manual = partition->data;
  FreeEntries(manual);
  RengaCall(RengaStringCopy(cuts, &manual->text));
  RengaCall(SplitCuts(partition, cuts));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionManualGetCuts - where stages begin

   Input:
   . partition - the partition, of type manual

   Output:
   . cuts - the text that was set, lent by the partition; NULL: none was

   Errors: RENGA_ERR_ORDER for another type.
@*/
RengaErrorCode RengaPartitionManualGetCuts(RengaPartition partition, const char **cuts)
{
  RengaCheckPointer(cuts);
  RengaCall(CheckManual(partition, __func__));
  *cuts = ((const Manual *)partition->data)->text;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCreate_Manual(void *object)
{
  RengaPartition partition = object;
  Manual *manual = NULL;
  RengaCall(RengaMalloc(1, &manual));
  partition->data = manual;
  partition->ops[0] = (struct _RengaPartitionOps){.set_from_options = SetFromOptions_Manual,
                                                  .count = Count_Manual,
                                                  .solve = Solve_Manual,
                                                  .list = List_Manual,
                                                  .view = View_Manual,
                                                  .destroy = Destroy_Manual};
  return RENGA_SUCCESS;
}
