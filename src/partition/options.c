/* Options of the partition, of all its types. */
#include "partitionimpl.h"
#include "renga/private/packages.h"
#include "search/event.h"
#include <stdlib.h>
#include <string.h>

enum { TENSOR_MOST = 1000000 };
static const RengaOptionRow rows[] = {
    {"partition_type", RENGA_OPTION_STRING, RENGA_PARTITION_EVEN, RENGA_OPTION_NO_OFFSET,
     "auto|exact|rannc|tree|even|manual", 0, 0,
     "how nodes are shared out: for the fastest step (quickly, or with proof), as RaNNC does, "
     "along the tree of their names, evenly by FLOPs, or at given cuts; the programs take auto "
     "for several devices where neither stages nor replicas nor -pipeline_chunks are given"},
    {"partition_cuts", RENGA_OPTION_STRING, NULL, RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "manual: first node (or value) of stages 1, 2, …, or the node count of each stage"},
    {"partition_even_slack", RENGA_OPTION_REAL, "0.02", RENGA_OPTION_NO_OFFSET, NULL, 0, 10,
     "even: share by which a stage may be over the least largest load, to send fewer bytes"},
    {"partition_tree_memory_weight", RENGA_OPTION_REAL, "0.2", RENGA_OPTION_NO_OFFSET, NULL, 0, 1,
     "tree: share of memory, beside time, in the cost of a subtree"},
    {"partition_rannc_blocks", RENGA_OPTION_INT, "0", RENGA_OPTION_NO_OFFSET, NULL, 0, 1e4,
     "rannc: blocks at most, of which stages are made; 0: as many as stages need"},
    {"partition_microbatch_sizes", RENGA_OPTION_STRING, "auto", RENGA_OPTION_NO_OFFSET, NULL, 0, 0,
     "auto, exact, rannc: sizes to choose from: auto, 1,2,4, or default (an eighth of the batch, "
     "smaller if it does not fit); not with -microbatch_size"},
    {"partition_exact_time_limit", RENGA_OPTION_REAL, "60", RENGA_OPTION_NO_OFFSET, NULL, 0, 1e9,
     "exact: seconds for the search; then the best found is taken; 0: any time"},
    {"partition_stages", RENGA_OPTION_INT, "0", offsetof(struct _p_RengaPartition, stages), NULL, 0,
     1e6,
     "pipeline stages, each of -pipeline_chunks where that is given; 0: 1, or ranks / replicas "
     "where replicas are given"},
    {"partition_replicas", RENGA_OPTION_INT, "0", offsetof(struct _p_RengaPartition, replicas),
     NULL, 0, 1e6, "copies of each stage; 0: ranks / stages"},
    {"partition_tensor", RENGA_OPTION_STRING, "0", offsetof(struct _p_RengaPartition, tensor_text),
     NULL, 0, 0,
     "ranks that compute a replica of a stage together, each some of the lanes of -graph_lanes; "
     "0: type auto chooses, others take 1; auto: the fastest number, of types that search"},
    {"partition_sequence", RENGA_OPTION_STRING, "0",
     offsetof(struct _p_RengaPartition, sequence_text), NULL, 0, 0,
     "context ranks of a replica of a stage, each the tokens of some lanes of -graph_token_lanes, "
     "of as many tensor ranks; 0: 1; auto, of types that search: 1, or more in even stages where "
     "that is faster or alone fits"},
    {"partition_ranks", RENGA_OPTION_INT, "0", offsetof(struct _p_RengaPartition, ranks), NULL, 0,
     1e6, "ranks to plan for; 0: those of this run"},
    {"partition_memory", RENGA_OPTION_BYTES, "0", offsetof(struct _p_RengaPartition, memory), NULL,
     0, 0, "bytes that each device may use; a plan over it is refused; 0: no bound"},
    {"batch_size", RENGA_OPTION_INT64, "0", offsetof(struct _p_RengaPartition, batch), NULL, 0,
     1e12,
     "samples per step over all replicas, at most those of the data set; 0: the network file's, or "
     "else 32"},
    {"microbatch_size", RENGA_OPTION_INT64, "0", offsetof(struct _p_RengaPartition, microbatch),
     NULL, 0, 1e12,
     "samples per micro-batch; 0: auto and exact choose it, else an eighth of the batch; with "
     "BatchNormalization the whole batch where it fits"},
    {"reduction_leaf", RENGA_OPTION_INT64, "0", offsetof(struct _p_RengaPartition, leaf), NULL, 0,
     1e12,
     "micro-batches whose gradients are added in a row: more take fewer buffers; 0: chosen by "
     "types that know costs, else 1"},
    {"partition_leaves", RENGA_OPTION_STRING, NULL, offsetof(struct _p_RengaPartition, leaves),
     NULL, 0, 0,
     "types that know costs: leaves of which the fastest that fits is taken: 1,4,16, or auto, "
     "which is the default"},
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

RengaErrorCode RengaPartitionReadOptions_Private(RengaPartition partition)
{
  RengaCall(RengaOptionsSetFromDatabase(partition->hdr.prefix, N_ROWS, rows, partition));
  RengaCall(ReadRanks(partition, "partition_tensor", partition->tensor_text, &partition->tensor));
  RengaCall(
      ReadRanks(partition, "partition_sequence", partition->sequence_text, &partition->sequence));
  RengaCall(RengaOptionsGetBool("plan_explain", &partition->explains, NULL));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaPartitionFreeOptions_Private(RengaPartition partition)
{
  RengaCall(RengaOptionsFreeStrings(N_ROWS, rows, partition));
  return RENGA_SUCCESS;
}

/* A plan from a file says all that these say: to ask for both is a mistake. */
RengaErrorCode RengaPartitionCheckLoadAlone_Private(RengaPartition partition)
{
  const char *const names[] = {
      "partition_type",     "partition_cuts",   "partition_stages",
      "partition_replicas", "partition_tensor", "partition_leaves",
      "partition_sequence", "pipeline_chunks",  "partition_microbatch_sizes"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *text;
    bool given = false;
    RengaCall(RengaOptionsGetString(names[i], &text, &given));
    RengaCheck(!given, partition->hdr.comm, RENGA_ERR_OPTION,
               "-plan_load and -%s are both given, but the file says it already: leave one out",
               names[i]);
  }
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
             "-reduction_leaf %lld and -partition_leaves %s are both given: leave one out",
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
