/* Layouts that are tried always, or in turn where many are alike. */
#include "networks.h"
#include "cases.h"

#define DEEP "gpt:layers=12,hidden=16,heads=2,vocabulary=64"
#define LONG                                                                                       \
  "-data synthetic -batch_size 2 -microbatch_size 1 -steps 1 -device_threads 1 "                   \
  "-graph_token_lanes 4 -graph " DEEP
#define KEEPS "-partition_memory 4MiB -layout_recompute none"
#define WIDE                                                                                       \
  "-data synthetic -data_samples 8 -batch_size 4 -microbatch_size 4 -steps 1 -device_threads 1 "   \
  "-graph_token_lanes 4 -graph resnet:depth=18,width=0.0625,image=160,classes=5,channels=1"
#define LAPTOP "-machine_file laptop"

typedef struct {
  int ranks;
  const char *common, *layout;
  Expected expected;
} Row;

static const Row rows[] = {
    {8,
     LANES HEADS,
     "-layout_tensor 2 -layout_pipeline 2 -layout_data 2",
     {.shared = 2, .stages = 2, .replicas = 2}},
    {4, LANES HEADS, "-layout_tensor 2 -layout_pipeline 2 -schedule_type zb-h1", {.shared = 2}},
    {4, LANES HEADS, "-layout_tensor 2 -layout_data 2 -layout_zero 1", {.shared = 2}},
    {4, LANES HEADS, "-layout_tensor 2 -layout_data 2 -layout_zero 2", {.shared = 2}},
    {4, LANES HEADS, "-layout_tensor 2 -layout_data 2 -layout_zero 3", {.shared = 2}},
    {4, LANES HEADS " -precision bf16", "-layout_tensor 2 -layout_data 2", {.shared = 2}},
    {4, LANES HEADS " -precision fp16", "-layout_tensor 2 -layout_data 2", {.shared = 2}},
    {4, LANES HEADS ",dropout=0.1", "-layout_tensor 2 -layout_pipeline 2", {.shared = 2}},
    /* What there is no room for is made again, with the exchanges that lead to it. */
    {2, LANES HEADS, "-layout_tensor 2 -partition_memory 220KiB", {.shared = 2, .recomputed = 1}},
    {2, LANES HEADS, "-layout_tensor 2 -partition_memory 210KiB", {.shared = 2, .recomputed = 1}},
    /* Several stages on each rank, which make their exchanges in one order. */
    {4,
     LANES HEADS,
     "-layout_tensor 2 -layout_pipeline 2 -layout_chunks 2 -schedule_type interleaved",
     {.shared = 2, .stages = 4}},
    {4,
     LANES HEADS,
     "-layout_tensor 2 -layout_pipeline 2 -layout_chunks 2 -schedule_type zb-v",
     {.shared = 2, .stages = 4}},
    /* Stages of few nodes: some have a parameter, and others the lanes that read it, so that
       gradients of its parts are messages. */
    {8, LANES HEADS " -precision bf16", "-layout_pipeline 8", {.shared = 1, .stages = 8}},
    {8,
     LANES HEADS " -precision bf16",
     "-layout_tensor 2 -layout_pipeline 4 -layout_chunks 4 -schedule_type interleaved",
     {.shared = 2, .stages = 16}},
    /* In 16 bits, too, a rank has its lanes' parts alone; of the table as well, which the first
       stage looks up and the last one multiplies by. */
    {3, LANES HEADS " -precision bf16", "-layout_tensor 3", {.shared = 3, .percent = 45}},
    {6,
     LANES HEADS " -precision bf16",
     "-layout_tensor 3 -layout_pipeline 2",
     {.shared = 3, .stages = 2, .percent = 30}},
    /* Plans of files; without a number of lanes as many as ranks that share them. */
    {4, LANES HEADS, "-plan_load lanes-heads.plan", {.shared = 2, .stages = 2}},
    {3, TOKENS HEADS, "-plan_load lanes-tokens.plan", {.shared = 3}},
    {2,
     COMMON " -graph_lanes 2 -graph " HEADS,
     "-graph_lanes auto -layout_tensor 2",
     {.shared = 2}},
    /* What is searched and found; of uneven stages, too. */
    {2, LANES HEADS, "-partition_type tree -layout_tensor 2 -profile_type measured", {.shared = 2}},
    {2,
     LANES HEADS " -microbatch_size 8",
     "-partition_type auto -layout_tensor auto " LAPTOP,
     {.shared = 2, .stages = 1, .replicas = 1}},
    {2,
     LANES HEADS " -microbatch_size 8",
     "-partition_type auto -layout_tensor 2 " LAPTOP,
     {.shared = 2, .stages = 1, .replicas = 1}},
    {4,
     LANES HEADS " -microbatch_size 4",
     "-partition_type auto -layout_tensor 2 " LAPTOP,
     {.shared = 2}},
    {6,
     LANES HEADS " -microbatch_size 4",
     "-partition_type auto -layout_tensor 2 " LAPTOP,
     {.shared = 2}},
    {3,
     LANES HEADS " -microbatch_size 4",
     "-partition_type auto -layout_tensor 3 " LAPTOP,
     {.shared = 3}},
    {4, LANES HEADS, "-partition_type auto -layout_tensor 2 -layout_zero 1 " LAPTOP, {.shared = 2}},
    {3,
     TOKENS HEADS,
     "-partition_type auto -layout_context 3 -layout_pipeline 1 "
     "-layout_data 1 " LAPTOP,
     {.shared = 3, .stages = 1, .replicas = 1}},
    /* Both kinds of lanes, of which ranks share out one or both; a plan's file says of how many. */
    {4, BOTH HEADS, "-layout_tensor 2 -layout_context 2", {.shared = 4}},
    {6, BOTH HEADS, "-layout_tensor 2 -layout_context 3", {.shared = 6}},
    {8,
     BOTH HEADS,
     "-layout_tensor 2 -layout_context 2 -layout_pipeline 2 -layout_recompute full",
     {.shared = 4, .stages = 2}},
    {8,
     BOTH HEADS,
     "-layout_tensor 2 -layout_context 2 -layout_data 2 -layout_zero 3",
     {.shared = 4, .replicas = 2}},
    {2, BOTH HEADS, "-layout_tensor 2", {.shared = 2}},
    {4, BOTH HEADS, "-plan_load lanes-both.plan", {.shared = 4}},
    {4,
     BOTH "resnet:depth=18,width=0.0625,image=33,classes=7 -microbatch_size 4",
     "-layout_tensor 2 -layout_context 2",
     {.shared = 4}},
    /* 4 MiB hold 230 tokens of one rank, but not 240; each of four ranks has 800 in them, and 1840,
       8 times as many, where it runs forward again. */
    {1, LONG ",sequence=230", KEEPS, {.shared = 1}},
    {4, LONG ",sequence=800", "-layout_context 4 " KEEPS, {.shared = 4}},
    {4,
     LONG ",sequence=1840",
     "-layout_context 4 -partition_memory 4MiB -layout_recompute full",
     {.shared = 4, .recomputed = 1}},
    /* A budget that four ranks keep with images that one rank has no room for. */
    {4, WIDE, "-layout_context 4 -partition_memory 2.5MiB -layout_recompute none", {.shared = 4}},
};

/* A message that fails is sent again. */
static const struct {
  Row row;
  int64_t fault;
  int rank;
} faults[] = {
    {{2, LANES HEADS, "-layout_tensor 2", {.shared = 2}}, 100, 0},
    {{2, LANES HEADS, "-layout_tensor 2", {.shared = 2}}, 201, 1},
    {{4, LANES HEADS, "-layout_tensor 2 -layout_pipeline 2 -layout_recompute full", {.shared = 2}},
     150,
     1},
    {{4, LANES HEADS, "-layout_tensor 2 -layout_pipeline 2 -layout_recompute full", {.shared = 2}},
     207,
     0},
    {{2, TOKENS HEADS, "-layout_context 2", {.shared = 2}}, 102, 1},
    {{4, BOTH HEADS, "-layout_tensor 2 -layout_context 2", {.shared = 4}}, 120, 3},
};

static RengaErrorCode AddRow(Cases *cases, const Row *row, int64_t fault, int rank)
{
  char options[MOST_TEXT];
  if ((cases->fixed++ + cases->slot) % cases->fixed_every) return RENGA_SUCCESS;
  Case added = {.ranks = row->ranks,
                .options = options,
                .expected = row->expected,
                .fault = fault,
                .fault_rank = rank};
  Expect(snprintf(options, sizeof options, "%s %s", row->common, row->layout) <
         (int)sizeof options);
  RengaCall(AddReference(cases, row->common, &added.reference));
  RengaCall(AddCase(cases, &added));
  return RENGA_SUCCESS;
}

/* Two and three ranks that share out three lanes, and stages and replicas of two. */
static RengaErrorCode AddShared(Cases *cases)
{
  static const char *const networks[] = {
      "t5:layers=1,hidden=12,heads=3,head_width=4,intermediate=17," WORDS ",gated=1,buckets=8",
      "llama:layers=1,hidden=24,heads=6,groups=3,intermediate=17," WORDS,
      "bert:layers=1,hidden=12,heads=3,intermediate=17," WORDS ",next_sentence=1",
      "ncf:users=41,items=29,factors=5,layers=14-11-7-5",
      "mlp:sizes=9-17-15-13-5",
      HEADS};
  static const Row layouts[] = {
      {2, NULL, "-layout_tensor 2", {.shared = 2}},
      {3, NULL, "-layout_tensor 3", {.shared = 3}},
      {4, NULL, "-layout_tensor 2 -layout_pipeline 2", {.shared = 2, .stages = 2, .replicas = 1}},
      {4, NULL, "-layout_tensor 2 -layout_data 2", {.shared = 2, .stages = 1, .replicas = 2}}};
  for (size_t n = 0; n < sizeof networks / sizeof networks[0]; n++)
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
      char common[MOST_TEXT];
      Row row = layouts[l];
      Expect(snprintf(common, sizeof common, LANES "%s", networks[n]) < (int)sizeof common);
      row.common = common;
      RengaCall(AddRow(cases, &row, 0, 0));
    }
  return RENGA_SUCCESS;
}

/* What the optimizer leaves as it is: biases, that lanes read or nobody in lanes; all but the last
   layer; whole parameters of lanes. */
static RengaErrorCode AddFrozen(Cases *cases)
{
  static const char *const groups[] = {"*bias:frozen=yes", "blocks*:frozen=yes;w*:frozen=yes",
                                       "*weight:frozen=yes"};
  for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
    for (int low = 0; low < 2; low++) {
      char common[MOST_TEXT];
      const Row row = {2, common, "-layout_tensor 2", {.shared = 2}};
      Expect(snprintf(common, sizeof common, LANES HEADS " -optimizer_groups %s -precision %s",
                      groups[g], low ? "bf16" : "fp32") < (int)sizeof common);
      RengaCall(AddRow(cases, &row, 0, 0));
    }
  return RENGA_SUCCESS;
}

/* A file names the statistics of its batch norms, which nobody reads: these are in lanes, too. */
static RengaErrorCode AddTraced(Cases *cases)
{
  char common[MOST_TEXT];
  const Row row = {4, common, "-layout_context 2 -layout_pipeline 2", {.shared = 2, .stages = 2}};
  Expect(snprintf(common, sizeof common, TOKENS "%s/resnet_trace.onnx", NetworksFolder()) <
         (int)sizeof common);
  RengaCall(AddRow(cases, &row, 0, 0));
  return RENGA_SUCCESS;
}

RengaErrorCode AddFixedCases(Cases *cases)
{
  const int every = cases->fixed_every;
  cases->fixed_every = 3 * every; /* of many that are alike */
  RengaCall(AddShared(cases));
  RengaCall(AddFrozen(cases));
  cases->fixed_every = every;
  RengaCall(AddTraced(cases));
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
    RengaCall(AddRow(cases, &rows[r], 0, 0));
  for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++)
    RengaCall(AddRow(cases, &faults[f].row, faults[f].fault, faults[f].rank));
  return RENGA_SUCCESS;
}
