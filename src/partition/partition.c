/* The partition: its types, options and view. */
#include "partitionimpl.h"

static const RengaTypeRow types[] = {
    {RENGA_PARTITION_MANUAL, RengaPartitionCreate_Manual, NULL},
    {RENGA_PARTITION_EVEN, RengaPartitionCreate_Even, NULL},
    {RENGA_PARTITION_TREE, RengaPartitionCreate_Tree, NULL},
    {RENGA_PARTITION_RANNC, RengaPartitionCreate_Rannc, NULL},
    {RENGA_PARTITION_AUTO, RengaPartitionCreate_Auto, NULL},
    {RENGA_PARTITION_EXACT, RengaPartitionCreate_Exact, NULL},
    {NULL, NULL, NULL},
};

static const RengaClass partitions = {"RengaPartition", "partition_type", types,
                                      RengaPartitionReset_Private, RengaPartitionAdopt_Private};

/*@
   RengaPartitionRegister - add a type of partition from outside

   Input:
   . rule - kept, not copied, until the program ends: its name, and the function that cuts

   Errors: a name that another type has. Cuts that do not rise are errors of RengaPartitionSolve.

   Notes: before RengaInitialize, so that -partition_type may choose it. The function is called on
   all ranks and must give all of them the same cuts. Replicas, micro-batches and what a plan
   predicts are Renga's, as with type even.

   See also: RengaPartitionSetType()
@*/
RengaErrorCode RengaPartitionRegister(const RengaPartitionRule *rule)
{
  RengaCheckPointer(rule);
  RengaCheck(rule->cut, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "the partition %s needs a function that cuts",
             rule->name ? rule->name : "without a name");
  RengaCall(RengaClassRegisterType_Private(&partitions, rule->name, rule));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionCreate - make a partition of the default type, even

   Collective

   Input:
   . comm - the ranks that are to be assigned

   Output:
   . partition - the new partition; RengaPartitionDestroy() frees it

   See also: RengaPartitionSetGraph(), RengaPartitionSolve(), RengaPartitionDestroy()
@*/
RengaErrorCode RengaPartitionCreate(RengaComm comm, RengaPartition *partition)
{
  RengaCheckPointer(comm);
  RengaCheckPointer(partition);
  RengaPartition made;
  RengaCall(RengaPartitionCreatePlain_Private(comm, &made));
  const RengaErrorCode code = RengaPartitionSetType(made, RENGA_PARTITION_EVEN);
  if (code) RengaHeaderDestroy(&made);
  RengaCall(code);
  *partition = made;
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetType - choose how nodes are assigned to stages

   Collective

   Input:
   . type - auto, exact, rannc, tree, even, manual or one of RengaPartitionRegister

   Errors: RENGA_ERR_SUPPORT for a type that there is not.

   See also: RengaPartitionGetType(), RengaPartitionRegister()
@*/
RengaErrorCode RengaPartitionSetType(RengaPartition partition, const char *type)
{
  RengaCall(RengaClassSetType_Private(&partitions, partition, type, __func__));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionSetFromOptions - take what the user asked for

   Collective

   Options:
   . -partition_type - auto, exact, rannc, tree, even or manual
   . -partition_cuts - manual: where stages begin
   . -partition_even_slack - even: how far a stage may be over the least largest load
   . -partition_rannc_blocks - rannc: blocks of which stages are made
   . -partition_tree_memory_weight - tree: how much memory counts beside time
   . -layout_pipeline, -layout_data, -layout_tensor, -layout_context - numbers; auto
     of the last two
   . -partition_ranks, -partition_memory - numbers
   . -batch_size, -microbatch_size - samples
   . -partition_leaf - micro-batches whose gradients are added in a row
   . -plan_load - a file to take the plan from; samples and leaf that are given win over its own
   . -machine_file, -profile_type, … - those of machine, profile and settings where none were set

   Errors: RENGA_ERR_OPTION for a bad value, an option of another type, or options that exclude
   each other; of -plan_load, what RengaPlanLoad says.

   Notes: options that contradict each other are errors.

   See also: RengaPartitionSetType(), RengaPartitionSolve()
@*/
RengaErrorCode RengaPartitionSetFromOptions(RengaPartition partition)
{
  const char *type = NULL, *load = NULL;
  bool given = false;
  RengaCheckPointer(partition);
  RengaCall(RengaPartitionReadOptions_Private(partition));
  RengaCall(RengaOptionsGetString("partition_type", &type, &given));
  if (given) RengaCall(RengaPartitionSetType(partition, type));
  RengaCall(RengaPartitionCheckOptions_Private(partition));
  RengaCall(RengaPartitionTakeGiven_Private(partition));
  RengaCall(partition->ops->set_from_options(partition));
  RengaCall(RengaOptionsGetString("plan_load", &load, &given));
  if (!given) return RENGA_SUCCESS;
  RengaCall(RengaPartitionCheckLoadAlone_Private(partition));
  RengaCall(RengaPartitionSetPlanFile(partition, load));
  return RENGA_SUCCESS;
}

/*@
   RengaPartitionView - show what is asked for

   Collective

   Input:
   . viewer - the viewer that it is shown by

   Errors: RENGA_ERR_FILE_WRITE where the file does not take it.

   See also: RengaPlanView(), RengaViewerCreate()
@*/
RengaErrorCode RengaPartitionView(RengaPartition partition, RengaViewer viewer)
{
  char memory[32] = "no bound";
  RengaCheckPointer(partition);
  RengaCheckPointer(viewer);
  if (partition->memory) RengaFormatBytes((double)partition->memory, sizeof memory, memory);
  RengaCall(RengaViewerPrintf(viewer,
                              "partition %s: stages %d, replicas %d, ranks %d (0: chosen); memory "
                              "of a device: %s\n",
                              partition->hdr.type_name, partition->stages, partition->replicas,
                              partition->ranks, memory));
  if (partition->load) RengaCall(RengaViewerPrintf(viewer, "  plan from %s\n", partition->load));
  RengaCall(partition->ops->view(partition, viewer));
  return RENGA_SUCCESS;
}
