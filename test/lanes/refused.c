/* Options of lanes and of ranks that share them out which are refused, with their sentences. */
#include "cases.h"

#define LAPTOP "-machine_file laptop"
#define LONG                                                                                       \
  "-data synthetic -batch_size 2 -microbatch_size 1 -graph_token_lanes 4 "                         \
  "-graph gpt:layers=12,hidden=16,heads=2,vocabulary=64"
#define WIDE                                                                                       \
  "-data synthetic -data_samples 8 -batch_size 4 -microbatch_size 4 -graph_token_lanes 4 "         \
  "-graph resnet:depth=18,width=0.0625,image=160,classes=5,channels=1"
#define PLAIN COMMON " -graph "

static const Case rows[] = {
    {2, .options = PLAIN HEADS " -graph_lanes 1 -layout_tensor 2", .code = RENGA_ERR_OPTION,
     .sentence = "of which there is 1: give -graph_lanes 2 or more"},
    {4, .options = LANES HEADS " -layout_tensor 4", .code = RENGA_ERR_OPTION,
     .sentence = "of which there are 3: give -graph_lanes 4 or more"},
    {3, .options = LANES HEADS " -layout_tensor 2", .code = RENGA_ERR_PLAN,
     .sentence = "needs 2 ranks or a multiple of them, but there are 3"},
    {1, .options = LANES HEADS " -partition_ranks 6 -layout_tensor 3 -layout_pipeline 4 " LAPTOP,
     .code = RENGA_ERR_PLAN,
     .sentence = "-layout_tensor 3 with 4 stages x 1 replicas needs 12 ranks or a multiple of "
                 "them, but there are 6"},
    {4, .options = LANES HEADS " -layout_tensor 2 -layout_pipeline 2 -layout_data 2",
     .code = RENGA_ERR_PLAN, .sentence = "2 stages x 2 replicas needs 8 ranks, but there are 4"},
    {2, .options = LANES HEADS " -layout_tensor 2 -partition_type rannc " LAPTOP,
     .code = RENGA_ERR_SUPPORT, .sentence = "is not supported by -partition_type rannc"},
    {2, .options = LANES HEADS " -layout_tensor 2 -pipeline_reduction unordered",
     .code = RENGA_ERR_SUPPORT, .sentence = "do not go with -pipeline_reduction unordered yet"},
    {4,
     .options = LANES HEADS " -layout_tensor 2 -pipeline_reduction unordered "
                            "-partition_type auto " LAPTOP,
     .code = RENGA_ERR_SUPPORT,
     .sentence = "2 tensor-parallel ranks (-layout_tensor) do not go with -pipeline_reduction "
                 "unordered yet"},
    {2, .options = LANES HEADS " -layout_tensor 2 -optimizer_sparse lazy",
     .code = RENGA_ERR_SUPPORT, .sentence = "do not go with -optimizer_sparse lazy yet"},
    {2, .options = LANES "mlp:sizes=9-5 -layout_tensor 2", .code = RENGA_ERR_SUPPORT,
     .sentence = "nothing of the network is computed in lanes"},
    {1,
     .options = LANES HEADS " -partition_ranks 2 -layout_tensor 2 -partition_memory 100KiB " LAPTOP,
     .code = RENGA_ERR_PLAN, .sentence = "the plan: stage 0 needs"},
    {1, .options = LANES HEADS " -partition_ranks 2 -layout_tensor 2 -partition_leaf auto " LAPTOP,
     .code = RENGA_ERR_OPTION,
     .sentence = "with -layout_tensor 2 the leaf is not chosen: give a number"},
    {1,
     .options = LANES HEADS " -partition_ranks 2 -layout_tensor 2 -partition_memory 100KiB "
                            "-partition_type auto " LAPTOP,
     .code = RENGA_ERR_MEMORY,
     .sentence = "with 2 tensor-parallel ranks for each replica in micro-batches of 2 samples: "},
    {1,
     .options = PLAIN HEADS " -graph_lanes 1 -partition_ranks 2 -layout_tensor auto "
                            "-partition_type auto " LAPTOP,
     .code = RENGA_ERR_OPTION,
     .sentence = "of which there is 1: give -graph_lanes, or leave it out"},
    {1, .options = LANES HEADS " -partition_ranks 2 -layout_tensor auto -partition_type even",
     .code = RENGA_ERR_SUPPORT,
     .sentence = "-layout_tensor auto is not supported by -partition_type even"},
    {1, .options = LANES HEADS " -partition_ranks 2 -layout_tensor some", .code = RENGA_ERR_OPTION,
     .sentence = "write how many ranks compute a replica of a stage together"},
    {2, .options = PLAIN HEADS " -graph_token_lanes 1 -layout_context 2", .code = RENGA_ERR_OPTION,
     .sentence = "give -graph_token_lanes 2 or more"},
    {3, .options = PLAIN HEADS " -graph_token_lanes 2 -layout_context 3", .code = RENGA_ERR_OPTION,
     .sentence = "of which there are 2: give -graph_token_lanes 3 or more"},
    {2, .options = PLAIN HEADS " -graph_token_lanes 2 -graph_lanes 1 -layout_tensor 2",
     .code = RENGA_ERR_OPTION, .sentence = "of which there is 1: give -graph_lanes 2 or more"},
    {2, .options = PLAIN HEADS " -graph_token_lanes 2 -layout_tensor 2 -layout_context 2",
     .code = RENGA_ERR_PLAN,
     .sentence = "-layout_tensor 2 -layout_context 2 with 1 stages x 1 replicas needs 4"},
    {3, .options = PLAIN HEADS " -graph_token_lanes 2 -layout_context 2", .code = RENGA_ERR_PLAN,
     .sentence = "-layout_context 2 with 1 stages x 1 replicas needs"},
    {2, .options = PLAIN HEADS " -graph_token_lanes 2 -layout_context 2 -partition_type rannc",
     .code = RENGA_ERR_SUPPORT,
     .sentence = "-layout_context 2 is not supported by -partition_type rannc"},
    {3, .options = PLAIN HEADS " -graph_token_lanes 1 -layout_context auto -partition_type auto",
     .code = RENGA_ERR_OPTION,
     .sentence = "context-parallel ranks split the lanes of the network, of which there is 1: give "
                 "-graph_token_lanes"},
    {2,
     .options = PLAIN HEADS " -graph_token_lanes 2 -graph_lanes 1 -layout_tensor auto "
                            "-partition_type auto",
     .code = RENGA_ERR_OPTION, .sentence = "-layout_tensor auto: tensor-parallel ranks split"},
    {1, .options = PLAIN "mlp:sizes=9-5 -graph_token_lanes 2", .code = RENGA_ERR_OPTION,
     .sentence = "has no product along the tokens"},
    {1, .options = LONG ",sequence=240 -partition_memory 4MiB -layout_recompute none",
     .code = RENGA_ERR_MEMORY, .sentence = "4.00 MiB"},
    {1, .options = WIDE " -partition_memory 2.5MiB -layout_recompute none",
     .code = RENGA_ERR_MEMORY, .sentence = "allows 2.50 MiB"},
    {2, .options = LANES HEADS " -plan_load lanes-two.plan", .code = RENGA_ERR_PLAN,
     .sentence = "; lanes: 2, this network's: 3, give -graph_lanes 2"},
    {3, .options = PLAIN HEADS " -plan_load lanes-tokens.plan", .code = RENGA_ERR_PLAN,
     .sentence = "; token lanes: 3, this network's: 1, give -graph_token_lanes 3"},
    {3, .options = LANES HEADS " -plan_load lanes-tokens.plan", .code = RENGA_ERR_PLAN,
     .sentence = "; lanes: 1, this network's: 3, give -graph_lanes 1; token lanes: 3, this "
                 "network's: 1, give -graph_token_lanes 3"},
    {3, .options = TOKENS HEADS " -plan_load lanes-columns.plan", .code = RENGA_ERR_PLAN,
     .sentence = "; lanes: 3, this network's: 1, give -graph_lanes 3; token lanes: 1, this "
                 "network's: 3, give -graph_token_lanes 1"},
    {1, .options = PLAIN "lanes-few.onnx -graph_token_lanes 2", .code = RENGA_ERR_ARGUMENT,
     .sentence = "Gather: index 4 at position 3 is outside [0, 4)"},
};

RengaErrorCode AddRefusedCases(Cases *cases)
{
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    Case row = rows[r];
    row.reference = -1;
    RengaCall(AddCase(cases, &row));
  }
  return RENGA_SUCCESS;
}
