/* TEST ranks: 1 */
/* RaNNC's phases: its traps, brute force on small chains, and the plans that it logged itself. */
#include "../../src/partition/rannc/rannc.h"
#include "../check.h"
#include <math.h>
#include <stdlib.h>

enum { MOST = 64, N_CHAINS = 400 };

static uint32_t state = 1;

static int Draw(int below)
{
  state = state * 1664525u + 1013904223u;
  return (int)((state >> 8) % (uint32_t)below);
}

/* ---- block level ---- */

static RengaErrorCode CheckBlocks(const RanncChain *chain, int most, int count, const int begin[])
{
  Expect(count >= 1 && begin[0] == 0 && begin[count] == chain->count);
  for (int b = 0; b < count; b++) {
    Expect(begin[b] < begin[b + 1]);
    if (chain->memory > 0 && begin[b + 1] - begin[b] > 1)
      Expect(chain->bytes[begin[b + 1]] - chain->bytes[begin[b]] <= chain->memory);
  }
  if (chain->memory <= 0) Expect(count <= most);
  return RENGA_SUCCESS;
}

/* {a->b, c->d, a->d, c->b}: (a,b) and (c,d) at once would depend on each other in a circle. In the
   order a, c, b, d each pair of blocks is an interval, and edges go forward only. */
static RengaErrorCode CheckCrossing(void)
{
  const double seconds[] = {0, 1, 2, 3, 4}, bytes[] = {0, 1, 2, 3, 4}, cut[] = {0, 2, 4, 2, 0};
  const int edges[4][2] = {{0, 2}, {1, 3}, {0, 3}, {1, 2}};
  const RanncChain chain = {4, seconds, bytes, cut, 0};
  for (int most = 1; most <= 4; most++) {
    int count = 0, *begin = NULL, block[4];
    RengaCall(RengaRanncBlocks_Private(&chain, most, &count, &begin));
    RengaCall(CheckBlocks(&chain, most, count, begin));
    for (int b = 0; b < count; b++)
      for (int i = begin[b]; i < begin[b + 1]; i++) block[i] = b;
    for (int e = 0; e < 4; e++) Expect(block[edges[e][0]] <= block[edges[e][1]]);
    RengaFree(&begin);
  }
  return RENGA_SUCCESS;
}

/* The lightest block does not fit with its predecessor, but does with its successor: RaNNC gave up.
   Then one that fits with none: the others are still merged. */
static RengaErrorCode CheckCompaction(void)
{
  const double seconds[] = {0, 5, 6, 9, 13}, bytes[] = {0, 9, 11, 15, 19}, cut[] = {0, 1, 1, 1, 0};
  const RanncChain chain = {4, seconds, bytes, cut, 10};
  int begin[] = {0, 1, 2, 3, 4}, count = 4;
  RengaCall(RengaRanncCompact_Private(&chain, 2, &count, begin));
  Expect(count == 2 && begin[1] == 1 && begin[2] == 4);
  const double heavy[] = {0, 5, 15, 19, 23};
  const RanncChain stuck = {4, seconds, heavy, cut, 10};
  int again[] = {0, 1, 2, 3, 4};
  count = 4;
  RengaCall(RengaRanncCompact_Private(&stuck, 1, &count, again));
  Expect(count == 3 && again[1] == 1 && again[2] == 2 && again[3] == 4);
  return RENGA_SUCCESS;
}

/* Chains of all lengths, with and without memory; a long one of equal items comes down, too. */
static RengaErrorCode CheckChains(void)
{
  static double seconds[5001], bytes[5001], cut[5001];
  for (int trial = 0; trial < 60; trial++) {
    const int n = trial < 50 ? 1 + Draw(600) : 5000, most = 1 + Draw(40);
    for (int i = 0; i < n; i++) {
      seconds[i + 1] = seconds[i] + (trial % 3 ? Draw(100) : 1);
      bytes[i + 1] = bytes[i] + 1 + Draw(9);
      cut[i] = i ? Draw(50) : 0;
    }
    const RanncChain chain = {n, seconds, bytes, cut, trial % 2 ? bytes[n] / 3 + 20 : 0};
    int count = 0, *begin = NULL;
    RengaCall(RengaRanncBlocks_Private(&chain, most, &count, &begin));
    RengaCall(CheckBlocks(&chain, most, count, begin));
    RengaFree(&begin);
  }
  return RENGA_SUCCESS;
}

/* ---- stage level ---- */

/* Costs per block, for one device; what n devices do takes scale[n] of it. */
typedef struct {
  int count;
  double forward[MOST], backward[MOST], bytes[MOST], reduce[MOST];
  double scale[MOST], memory;
  const int *replicas;
} Blocks;

static bool BlockCost(const void *context, int begin, int end, int option, int depth,
                      RanncCost *cost)
{
  const Blocks *blocks = context;
  double bytes = 0;
  *cost = (RanncCost){0};
  (void)depth;
  for (int b = begin; b < end; b++) {
    const double scale = blocks->scale[blocks->replicas[option]];
    cost->forward += blocks->forward[b] * scale;
    cost->backward += blocks->backward[b] * scale;
    cost->reduce += blocks->reduce[b];
    bytes += blocks->bytes[b];
  }
  return blocks->memory <= 0 || bytes <= blocks->memory;
}

/* Prefixes (5,5) and (3,8), then (1,8): the sum of the two maxima is 13 after the first and 11
   after the second. The program runs from the back, so the chain is turned around as well. */
static RengaErrorCode CheckFront(void)
{
  static const int one[] = {1};
  for (int turned = 0; turned < 2; turned++) {
    /* {0}, {1, 2}: (5,5); {0, 1}, {2}: (3,8). */
    const double forward[] = {1, 2, 3, 1}, backward[] = {5, 3, 2, 8};
    Blocks blocks = {.count = 4, .scale = {0, 1}, .replicas = one};
    for (int b = 0; b < 4; b++) {
      blocks.forward[b] = forward[turned ? 3 - b : b];
      blocks.backward[b] = backward[turned ? 3 - b : b];
    }
    const RanncTask task = {.blocks = 4,
                            .devices = 3,
                            .stages = 3,
                            .given = true,
                            .microbatches = 1,
                            .n_options = 1,
                            .replicas = one,
                            .cost = BlockCost,
                            .context = &blocks};
    RanncStaging best;
    RengaCall(RengaRanncStages_Private(&task, &best));
    Expect(best.count == 3);
    double slowest[2] = {0, 0};
    for (int s = 0; s < 3; s++) {
      RanncCost cost;
      BlockCost(&blocks, best.begin[s], s < 2 ? best.begin[s + 1] : 4, 0, 1, &cost);
      slowest[0] = fmax(slowest[0], cost.forward);
      slowest[1] = fmax(slowest[1], cost.backward);
    }
    Expect(slowest[0] + slowest[1] == 11);
    RengaRanncStagingFree_Private(&best);
  }
  return RENGA_SUCCESS;
}

static double Objective(const RanncTask *task, int count, const RanncCost cost[])
{
  RanncCost most = {0};
  for (int s = 0; s < count; s++) {
    most.forward = fmax(most.forward, cost[s].forward);
    most.backward = fmax(most.backward, cost[s].backward);
    most.reduce = fmax(most.reduce, cost[s].reduce);
  }
  return ((double)task->microbatches + count - 1) * (most.forward + most.backward) + most.reduce;
}

/* All ways to go on from a block with so many devices left. */
static double BruteForce(const RanncTask *task, int block, int devices, int count, RanncCost cost[])
{
  if (block == task->blocks) return Objective(task, count, cost);
  double least = HUGE_VAL;
  for (int end = block + 1; end <= task->blocks; end++)
    for (int o = 0; o < task->n_options && task->replicas[o] <= devices; o++)
      if (task->cost(task->context, block, end, o, 1, &cost[count]))
        least = fmin(least, BruteForce(task, end, devices - task->replicas[o], count + 1, cost));
  return least;
}

static void DrawBlocks(Blocks *blocks)
{
  for (int b = 0; b < blocks->count; b++) {
    blocks->forward[b] = Draw(20);
    blocks->backward[b] = Draw(40);
    blocks->reduce[b] = Draw(30);
    blocks->bytes[b] = 1 + Draw(10);
  }
  blocks->memory = Draw(2) ? 0 : 8 + Draw(30);
  for (int n = 1; n < MOST; n++) blocks->scale[n] = 0.2 + 0.8 / n;
}

static RengaErrorCode CheckBruteForce(void)
{
  static const int replicas[] = {1, 2, 3, 4, 5};
  int feasible = 0;
  for (int trial = 0; trial < N_CHAINS; trial++) {
    Blocks blocks = {.count = 1 + Draw(6), .replicas = replicas};
    DrawBlocks(&blocks);
    const int devices = 1 + Draw(5);
    const RanncTask task = {.blocks = blocks.count,
                            .devices = devices,
                            .microbatches = 1 + Draw(9),
                            .n_options = devices,
                            .replicas = replicas,
                            .cost = BlockCost,
                            .context = &blocks};
    RanncStaging best;
    RanncCost cost[MOST];
    RengaCall(RengaRanncStages_Private(&task, &best));
    const double least = BruteForce(&task, 0, devices, 0, cost);
    Expect((best.count == 0) == (least == HUGE_VAL));
    if (best.count == 0) continue;
    feasible++;
    Expect(best.seconds <= least * (1 + 1e-9)); /* fewer stages work in fill and drain */
    RengaRanncStagingFree_Private(&best);
  }
  Expect(feasible > N_CHAINS / 2);
  return RENGA_SUCCESS;
}

/* ---- stages uncoarsened ---- */

/* No stage is over the memory or slower than the slowest was. */
static RengaErrorCode CheckWithin(const RanncTask *task, const RanncStaging *old,
                                  const RanncStaging *new)
{
  RanncCost most[2] = {0};
  const RanncStaging *both[] = {old, new};
  Expect(new->count == old->count &&new->begin[0] == 0);
  for (int i = 0; i < 2; i++)
    for (int s = 0; s < old->count; s++) {
      const RanncStaging *one = both[i];
      const int end = s + 1 < one->count ? one->begin[s + 1] : task->blocks;
      RanncCost cost;
      Expect(one->begin[s] < end && new->option[s] == old->option[s]);
      Expect(task->cost(task->context, one->begin[s], end, one->option[s], 1, &cost));
      most[i].forward = fmax(most[i].forward, cost.forward);
      most[i].backward = fmax(most[i].backward, cost.backward);
      most[i].reduce = fmax(most[i].reduce, cost.reduce);
    }
  Expect(most[1].forward <= most[0].forward && most[1].backward <= most[0].backward &&
         most[1].reduce <= most[0].reduce);
  return RENGA_SUCCESS;
}

/* Moved boundaries: never slower, as fast as the program for all where the reach is large, and
   spread without a slower stage. */
static RengaErrorCode CheckNear(void)
{
  static const int replicas[] = {1};
  for (int trial = 0; trial < N_CHAINS; trial++) {
    Blocks blocks = {.count = 6 + Draw(20), .replicas = replicas};
    DrawBlocks(&blocks);
    blocks.memory = 0;
    RanncStaging near = {.count = 2 + Draw(4)}, all, found, small;
    int begin[MOST], option[MOST] = {0}, kept[MOST];
    for (int s = 0; s < near.count; s++) kept[s] = begin[s] = s * blocks.count / near.count;
    near.begin = begin;
    near.option = option;
    RanncTask task = {.blocks = blocks.count,
                      .devices = near.count,
                      .stages = near.count,
                      .given = true,
                      .microbatches = 30,
                      .n_options = 1,
                      .replicas = replicas,
                      .cost = BlockCost,
                      .context = &blocks};
    Expect(RengaRanncEstimate_Private(&task, &near, &near.seconds));
    RengaCall(RengaRanncStages_Private(&task, &all));
    task.near = &near;
    task.reach = 2;
    RengaCall(RengaRanncStages_Private(&task, &small));
    task.reach = blocks.count;
    RengaCall(RengaRanncStages_Private(&task, &found));
    Expect(small.seconds <= near.seconds && found.seconds <= small.seconds);
    Expect(found.seconds <= all.seconds * 1.1); /* the estimate also counts fill and drain */
    for (int s = 0; s < near.count; s++) Expect(abs(small.begin[s] - begin[s]) <= 2);
    task.reach = 3;
    for (bool moved = true; moved;) RengaCall(RengaRanncSpread_Private(&task, &near, &moved));
    const RanncStaging old = {.count = near.count, .begin = kept, .option = option};
    RengaCall(CheckWithin(&task, &old, &near));
    RengaRanncStagingFree_Private(&all);
    RengaRanncStagingFree_Private(&small);
    RengaRanncStagingFree_Private(&found);
  }
  return RENGA_SUCCESS;
}

/* Four stages, three of which have one block too many beside an empty-handed last: all are moved
   at once. */
static RengaErrorCode CheckSpread(void)
{
  static const int replicas[] = {1};
  Blocks blocks = {.count = 16, .scale = {0, 1}, .replicas = replicas};
  for (int b = 0; b < blocks.count; b++) blocks.forward[b] = blocks.backward[b] = 1;
  int begin[] = {0, 5, 10, 15}, option[] = {0, 0, 0, 0};
  bool moved = false;
  RanncStaging staging = {.count = 4, .begin = begin, .option = option};
  const RanncTask task = {.blocks = blocks.count,
                          .devices = 4,
                          .microbatches = 9,
                          .n_options = 1,
                          .replicas = replicas,
                          .cost = BlockCost,
                          .context = &blocks,
                          .near = &staging,
                          .reach = 3};
  RengaCall(RengaRanncSpread_Private(&task, &staging, &moved));
  Expect(moved);
  for (int s = 0; s < 4; s++) Expect(begin[s] == 4 * s);
  RengaCall(RengaRanncSpread_Private(&task, &staging, &moved));
  Expect(!moved);
  return RENGA_SUCCESS;
}

/* ---- the plans that RaNNC logged ---- */

/* A plan of RaNNC's: what its log says of each stage at the local micro-batch that it had. Within a
   stage all blocks are taken as alike, and a stage's time goes with its samples only as far as that
   does not help us: fewer samples than logged save half of what they could. */
enum { STAGES_MOST = 4 };
typedef struct {
  const char *name;
  int devices, stages;
  int64_t batch, microbatches;
  double memory; /* bytes that a device may use */
  int blocks[STAGES_MOST], replicas[STAGES_MOST];
  double forward[STAGES_MOST], backward[STAGES_MOST], reduce[STAGES_MOST]; /* seconds */
  double bytes[STAGES_MOST];
} Logged;

static const Logged logged[] = {
    {"BERT 4.9 B on 8 V100",
     8,
     4,
     64,
     8,
     30.68e9,
     {24, 24, 24, 24},
     {2, 2, 2, 2},
     {.0348, .0348, .0348, .0367},
     {.110, .110, .110, .1152},
     {.235, .222, .222, .235},
     {27.4e9, 25.7e9, 25.7e9, 27.4e9}},
    {"BERT 4.9 B on 32 V100",
     32,
     4,
     256,
     8,
     30.68e9,
     {24, 24, 24, 24},
     {8, 8, 8, 8},
     {.0348, .0348, .0348, .0367},
     {.110, .110, .110, .1152},
     {.235, .222, .222, .235},
     {27.4e9, 25.7e9, 25.7e9, 27.4e9}},
    {"ResNet152x8 on 32 V100",
     32,
     3,
     128,
     4,
     30.68e9,
     {28, 12, 10},
     {16, 8, 8},
     {.164, .143, .113},
     {.456, .460, .410},
     {.489, .372, .528},
     {23.8e9, 17.3e9, 24.0e9}},
    {"MLP 2.5 B on 8 A100",
     8,
     2,
     512,
     1,
     38.6e9,
     {47, 53},
     {4, 4},
     {.0275, .0312},
     {.127, .154},
     {.438, .494},
     {18.8e9, 21.2e9}},
};

typedef struct {
  const Logged *plan;
  const int *replicas;
  int n, stage[128]; /* of each block */
} Replay;

static double Samples(const Logged *plan, int replicas)
{
  const int64_t wave = (plan->batch + plan->microbatches - 1) / plan->microbatches;
  return (double)((wave + replicas - 1) / replicas);
}

static bool ReplayCost(const void *context, int begin, int end, int option, int depth,
                       RanncCost *cost)
{
  const Replay *replay = context;
  const Logged *plan = replay->plan;
  double bytes = 0;
  *cost = (RanncCost){0};
  (void)depth;
  for (int b = begin; b < end; b++) {
    const int s = replay->stage[b];
    const double ratio = Samples(plan, replay->replicas[option]) / Samples(plan, plan->replicas[s]);
    const double scale = ratio < 1 ? 0.5 + 0.5 * ratio : ratio;
    cost->forward += plan->forward[s] / plan->blocks[s] * scale;
    cost->backward += plan->backward[s] / plan->blocks[s] * scale;
    cost->reduce += plan->reduce[s] / plan->blocks[s];
    bytes += plan->bytes[s] / plan->blocks[s] * fmax(1, ratio);
  }
  return bytes <= plan->memory;
}

static RengaErrorCode CheckLogged(const Logged *plan)
{
  int replicas[32], begin[STAGES_MOST], option[STAGES_MOST];
  Replay replay = {.plan = plan, .replicas = replicas};
  for (int n = 0; n < 32; n++) replicas[n] = n + 1;
  for (int s = 0; s < plan->stages; s++) {
    begin[s] = replay.n;
    option[s] = plan->replicas[s] - 1;
    for (int b = 0; b < plan->blocks[s]; b++) replay.stage[replay.n++] = s;
  }
  const RanncTask task = {.blocks = replay.n,
                          .devices = plan->devices,
                          .microbatches = plan->microbatches,
                          .n_options = plan->devices,
                          .replicas = replicas,
                          .cost = ReplayCost,
                          .context = &replay};
  const RanncStaging theirs = {.count = plan->stages, .begin = begin, .option = option};
  RanncStaging ours;
  double seconds = 0;
  Expect(RengaRanncEstimate_Private(&task, &theirs, &seconds));
  RengaCall(RengaRanncStages_Private(&task, &ours));
  if (getenv("RENGA_TEST_VERBOSE"))
    printf("%s: theirs %d stages, %.4f s; ours %d stages, %.4f s\n", plan->name, theirs.count,
           seconds, ours.count, ours.seconds);
  Expect(ours.count > 0 && ours.seconds <= seconds);
  RengaRanncStagingFree_Private(&ours);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaCall(CheckCrossing());
  RengaCall(CheckCompaction());
  RengaCall(CheckChains());
  RengaCall(CheckFront());
  RengaCall(CheckBruteForce());
  RengaCall(CheckNear());
  RengaCall(CheckSpread());
  for (size_t i = 0; i < sizeof logged / sizeof logged[0]; i++) RengaCall(CheckLogged(&logged[i]));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
