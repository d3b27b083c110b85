/* TEST ranks: 1 3 */
/* -layout_tensor auto of a long network on many devices: numbers of tensor ranks that cannot
   beat what is found are given up, and the plan is that of a search of all; with -plan_explain it
   is said what each takes. */
#include "setting.h"
#include <string.h>

enum { RANKS = 128, BATCH = 64, LANES = 2 };

static RengaErrorCode FindBest(bool explains, double *step, char said[512])
{
  const RengaMachineDevice device = {.name = "device",
                                     .memory = (int64_t)1 << 30,
                                     .matrix_rate = 1e12,
                                     .vector_rate = 1e12,
                                     .memory_bandwidth = 1e12,
                                     .matrix_efficiency = 1,
                                     .vector_efficiency = 1,
                                     .bandwidth_efficiency = 1,
                                     .launch = 1e-5};
  const RengaMachineLevel levels[] = {
      {.name = "node", .devices = LANES, .latency = 1e-6, .bandwidth = 1e11},
      {.name = "cluster", .devices = RANKS, .latency = 1e-5, .bandwidth = 1e10}};
  Setting own;
  RengaPlan plan = NULL;
  RengaPlanPrediction prediction;
  const char *topic = "", *sentence;
  RengaCall(BeginSetting(&own, &device, levels,
                         "gpt:layers=128,hidden=64,heads=4,sequence=64,vocabulary=128", LANES, 1));
  RengaCall(RengaOptionsSetValue("plan_explain", explains ? "true" : "false"));
  RengaCall(RengaPartitionSetFromOptions(own.partition));
  RengaCall(RengaPartitionSetType(own.partition, RENGA_PARTITION_AUTO));
  RengaCall(RengaPartitionSetBatch(own.partition, BATCH, 1));
  RengaCall(RengaPartitionSetLeaf(own.partition, 1));
  RengaCall(RengaPartitionSetRanks(own.partition, RANKS));
  RengaCall(RengaPartitionSetTensor(own.partition, RENGA_PARTITION_TENSOR_AUTO));
  RengaCall(RengaPartitionSolve(own.partition, &plan));
  RengaCall(RengaPlanGetPrediction(plan, &prediction));
  *step = prediction.step;
  for (int r = 0; topic; r++) {
    RengaCall(RengaPlanGetReason(plan, r, &topic, &sentence));
    if (topic && !strcmp(topic, "tensor-parallel degrees")) snprintf(said, 512, "%s", sentence);
  }
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(EndSetting(&own));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  char given_up[512] = "", all[512] = "";
  double chosen = 0, explained = 0;
  RengaCall(FindBest(false, &chosen, given_up));
  RengaCall(FindBest(true, &explained, all));
  RengaCheck(chosen == explained, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%.9g s, but %.9g s where all are looked at: %s", chosen, explained, all);
  RengaCheck(strstr(given_up, "no plan below "), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "nothing is given up: %s; %s", given_up, all);
  Expect(!strncmp(given_up, "1: ", 3) && strstr(given_up, "; 2: "));
  Expect(!strncmp(all, "1: ", 3) && strstr(all, "; 2: ") && !strstr(all, "no plan below "));
  Expect(strstr(all, ", given up before another number's plan") != NULL);
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
