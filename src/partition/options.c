/* Options of the partition, of all its types. */
#include "partitionimpl.h"
#include "renga/private/packages.h"
#include "search/event.h"
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct _p_RengaPartition, member)
enum { TENSOR_MOST = 1000000 };
static const RengaOptionRow layout_rows[] = {
    {"layout_pipeline", RENGA_OPTION_INT, "0", AT(stages), NULL, 0, 1e6,
     "pipeline stages; 0: ranks / replicas, or 1"},
    {"layout_data", RENGA_OPTION_INT, "0", AT(replicas), NULL, 0, 1e6,
     "data-parallel replicas of each stage; 0: ranks / stages"},
    {"layout_tensor", RENGA_OPTION_STRING, "0", AT(tensor_text), NULL, 0, 0,
     "tensor-parallel degree; 0: -partition_type auto chooses, others take 1; auto: the fastest"},
    {"layout_context", RENGA_OPTION_STRING, "0", AT(sequence_text), NULL, 0, 0,
     "context-parallel degree; 0: 1, or chosen for long sequences; auto: the fastest"},
    {"layout_expert", RENGA_OPTION_INT, "1", RENGA_OPTION_NO_OFFSET, NULL, 1, 1,
     "expert-parallel degree: 1, as no other is supported"},
};
enum { N_LAYOUT_ROWS = sizeof layout_rows / sizeof layout_rows[0] };
static const RengaOptionRow rows[] = {
    {"partition_type", RENGA_OPTION_STRING, RENGA_PARTITION_EVEN, RENGA_OPTION_NO_OFFSET,
     "auto|exact|rannc|tree|even|manual", 0, 0,
     "how nodes are assigned to stages: searched, as RaNNC, evenly, or manually"},
    {"partition_cuts", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "manual: first node of stages 1, 2, …, or nodes per stage"},
    {"partition_even_slack", RENGA_OPTION_REAL, "0.02", RENGA_OPTION_NO_OFFSET, NULL, 0, 10,
     "even: share by which the largest stage may exceed the best balance"},
    {"partition_tree_memory_weight", RENGA_OPTION_REAL, "0.2", RENGA_OPTION_NO_OFFSET, NULL, 0, 1,
     "tree: share of memory, beside time, in the cost of a subtree"},
    {"partition_rannc_blocks", RENGA_OPTION_INT, "0", RENGA_OPTION_NO_OFFSET, NULL, 0, 1e4,
     "rannc: blocks at most; 0: as many as stages need"},
    {"partition_microbatch_sizes", RENGA_OPTION_STRING, "auto", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "auto, exact, rannc: micro-batch sizes to choose from: 1,2,4, auto or default"},
    {"partition_exact_time_limit", RENGA_OPTION_REAL, "60", RENGA_OPTION_NO_OFFSET, NULL, 0, 1e9,
     "exact: seconds for the search; then the best found is taken; 0: any time"},
    {"partition_ranks", RENGA_OPTION_INT, "0", AT(ranks), NULL, 0, 1e6,
     "ranks to plan for; 0: those of this run"},
    {"partition_memory", RENGA_OPTION_BYTES, "0", AT(memory), NULL, 0, 0,
     "bytes that each device may use; 0: no bound"},
    {"batch_size", RENGA_OPTION_INT64, "0", AT(batch), NULL, 0, 1e12,
     "samples per step over all replicas; 0: the network file's, or 32"},
    {"microbatch_size", RENGA_OPTION_INT64, "0", AT(microbatch), NULL, 0, 1e12,
     "samples per micro-batch; 0: chosen, or an eighth of the batch"},
    {"partition_leaf", RENGA_OPTION_STRING, "0", AT(leaf_text), NULL, 0, 0,
     "micro-batches per accumulation group (leaf); 0: chosen; 1,4,16 or auto: the fastest"},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* Options of one type: to give one to another type is a mistake. */
static const struct {
  const char *option, *type;
} used_by[] = {{"partition_cuts", RENGA_PARTITION_MANUAL},
               {"partition_even_slack", RENGA_PARTITION_EVEN},
               {"partition_tree_memory_weight", RENGA_PARTITION_TREE},
               {"partition_rannc_blocks", RENGA_PARTITION_RANNC},
               {"partition_exact_time_limit", RENGA_PARTITION_EXACT}};

RengaErrorCode RengaPartitionRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Layout", N_LAYOUT_ROWS, layout_rows));
  RengaCall(RengaOptionsRegister("Partition", N_ROWS, rows));
  RengaCall(RengaSearchRegisterEvents_Private());
  return RENGA_SUCCESS;
}

/* A number, or a word; text NULL: *ranks stays. */
static RengaErrorCode ReadRanks(RengaPartition partition, const char *option, const char *text,
                                int *ranks)
{
  char *end;
  if (!text) return RENGA_SUCCESS;
  const long number = strtol(text, &end, 10);
  const bool chosen = strcmp(text, "auto") == 0;
  RengaCheck(chosen || (end != text && !*end && number >= 0 && number <= TENSOR_MOST),
             partition->hdr.comm, RENGA_ERR_OPTION,
             "-%s %s: write how many ranks compute a replica of a stage together, at most %d, or "
             "auto",
             option, text, (int)TENSOR_MOST);
  *ranks = chosen ? RENGA_PARTITION_TENSOR_AUTO : (int)number;
  return RENGA_SUCCESS;
}

/* A number is the leaf; anything else are several, of which one is chosen. */
static RengaErrorCode ReadLeaf(RengaPartition partition)
{
  static const int64_t leaf_most = INT64_C(1000000000000);
  const char *text = partition->leaf_text;
  char *end;
  if (!text) return RENGA_SUCCESS;
  const long long number = strtoll(text, &end, 10);
  const bool one = end != text && !*end;
  RengaCheck(!one || (number >= 0 && number <= leaf_most), partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_leaf %s: write at most %lld micro-batches, several numbers, or auto", text,
             (long long)leaf_most);
  RengaCall(RengaPartitionSetLeaves(partition, one ? NULL : text));
  partition->leaf = one ? number : 0;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionReadOptions_Private(RengaPartition partition)
{
  RengaCall(
      RengaOptionsSetFromDatabase(partition->hdr.prefix, N_LAYOUT_ROWS, layout_rows, partition));
  RengaCall(RengaOptionsSetFromDatabase(partition->hdr.prefix, N_ROWS, rows, partition));
  RengaCall(ReadRanks(partition, "layout_tensor", partition->tensor_text, &partition->tensor));
  RengaCall(ReadRanks(partition, "layout_context", partition->sequence_text, &partition->sequence));
  RengaCall(ReadLeaf(partition));
  RengaCall(RengaOptionsGetBool("plan_explain", &partition->explains, NULL));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionFreeOptions_Private(RengaPartition partition)
{
  RengaCall(RengaOptionsFreeStrings(N_LAYOUT_ROWS, layout_rows, partition));
  RengaCall(RengaOptionsFreeStrings(N_ROWS, rows, partition));
  RengaFree(&partition->leaves);
  return RENGA_SUCCESS;
}

/* A plan from a file says all that these say: to ask for both is a mistake. */
RengaErrorCode RengaPartitionCheckLoadAlone_Private(RengaPartition partition)
{
  const char *const names[] = {
      "partition_type", "partition_cuts", "layout_pipeline", "layout_data",
      "layout_tensor",  "layout_context", "layout_chunks",   "partition_microbatch_sizes"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(names[i], &text, &given));
    RengaCheck(!given, partition->hdr.comm, RENGA_ERR_OPTION,
               "-plan_load and -%s are both given, but the file says it already: leave one out",
               names[i]);
  }
  RengaCheck(
      !partition->leaves, partition->hdr.comm, RENGA_ERR_OPTION,
      "-plan_load and -partition_leaf %s are both given, but the file says it already: leave "
      "one out",
      partition->leaves);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSizes(RengaPartition partition)
{
  static const char *const choosing[] = {RENGA_PARTITION_AUTO, RENGA_PARTITION_EXACT,
                                         RENGA_PARTITION_RANNC};
  const char *sizes;
  bool given = false, chooses = false;
  RengaCall(RengaOptionsGetString("partition_microbatch_sizes", &sizes, &given));
  for (size_t i = 0; i < sizeof choosing / sizeof choosing[0]; i++)
    chooses = chooses || strcmp(choosing[i], partition->hdr.type_name) == 0;
  RengaCheck(!given || chooses, partition->hdr.comm, RENGA_ERR_OPTION,
             "-partition_microbatch_sizes is for -partition_type auto, exact and rannc, but the "
             "type is %s: give -microbatch_size",
             partition->hdr.type_name);
  RengaCheck(!given || !partition->microbatch, partition->hdr.comm, RENGA_ERR_OPTION,
             "-microbatch_size %lld and -partition_microbatch_sizes %s are both given: leave one "
             "out",
             (long long)partition->microbatch, sizes);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionCheckOptions_Private(RengaPartition partition)
{
  RengaCheck(!partition->leaf || !partition->leaves, partition->hdr.comm, RENGA_ERR_OPTION,
             "RengaPartitionSetLeaf %lld and RengaPartitionSetLeaves %s are both given: leave one "
             "out",
             (long long)partition->leaf, partition->leaves);
  for (size_t i = 0; i < sizeof used_by / sizeof used_by[0]; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(used_by[i].option, &text, &given));
    RengaCheck(!given || !strcmp(used_by[i].type, partition->hdr.type_name), partition->hdr.comm,
               RENGA_ERR_OPTION, "-%s is for -partition_type %s, but the type is %s",
               used_by[i].option, used_by[i].type, partition->hdr.type_name);
  }
  return CheckSizes(partition);
}
