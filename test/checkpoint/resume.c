/* TEST ranks: 4 */
/* A run that is cut and goes on with other stages and replicas ends with the same bits as one that
   was not. */
#include "../pipeline/run.h"
#include "rengacheckpoint.h"
#include <unistd.h>

enum { STEPS = 6, CUT = 3 };
static const int64_t samples[STEPS] = {8, 8, 7, 8, 5, 8};
static const char directory[] = "resume-test";
static const char file[] = "resume-test/step_000000003.h5";

static const Run networks[] = {
    {.graph = "mlp:sizes=6-16-12-8-5", .classes = 5, .optimizer = "sgd"},
    {.graph = "skip", .classes = 4, .optimizer = "adamw"},
    {.graph = "gpt:layers=2,hidden=16,heads=2,sequence=6,vocabulary=11,dropout=0.1",
     .classes = 11,
     .optimizer = "adam"},
    {.graph = "mlp:sizes=6-300-80-5",
     .classes = 5,
     .optimizer = "adamw"}, /* a matrix of two pieces */
};

static const struct {
  int stages, replicas[4];
  unsigned recompute, shard;
} layouts[] = {{1, {1}, 0, 0},       {2, {2, 2}, 0, 0}, {2, {1, 3}, 1, 3}, {3, {1, 1, 1}, 0, 0},
               {3, {2, 1, 1}, 6, 1}, {1, {4}, 1, 0},    {1, {4}, 0, 1},    {4, {1, 1, 1, 1}, 0, 0},
               {1, {3}, 0, 1},       {2, {2, 2}, 0, 2}};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* A pipeline on a layout, steps [first, last), a checkpoint read before or written after. */
static RengaErrorCode Part(RengaComm comm, const Run *network, int layout, int first, int last,
                           Result *result)
{
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCheckpoint checkpoint;
  bool found;
  int64_t step;
  Run run = *network;
  run.stages = layouts[layout].stages;
  run.unequal = layouts[layout].replicas;
  run.recompute = layouts[layout].recompute;
  run.shard = layouts[layout].shard;
  run.batch = 8;
  run.microbatch = 2;
  run.steps = STEPS;
  run.samples = samples;
  RengaCall(RunGraph(comm, run.graph, &graph));
  RengaCall(RunPlan(comm, &run, graph, &plan));
  RengaCall(RunPipeline(comm, &run, graph, plan, &pipeline));
  RengaCall(RengaCheckpointCreate(comm, &checkpoint));
  if (first == 0 && RengaCommGetRank(comm) == 0) unlink(file); /* of the run before */
  RengaCall(RengaCheckpointSetPipeline(checkpoint, pipeline));
  RengaCall(RengaCheckpointSetDirectory(checkpoint, directory));
  RengaCall(RengaCheckpointSetUp(checkpoint));
  if (first > 0) {
    RengaCall(RengaCheckpointResume(checkpoint, &found, &step));
    Expect(found && step == first && RengaPipelineGetStepNumber(pipeline) == first);
  }
  Source source = {.graph = graph, .classes = run.classes};
  for (int i = first; i < last; i++) {
    source.step = i;
    const RengaBatch batch = {samples[i], RunRead, &source};
    RengaCall(RengaPipelineStep(pipeline, &batch, &result->loss[i]));
  }
  if (last < STEPS) RengaCall(RengaCheckpointWrite(checkpoint, NULL));
  RengaCall(RengaPipelineGetDigest(pipeline, &result->digest));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  RengaCall(RengaPipelineDestroy(&pipeline));
  RengaCall(RengaPlanDestroy(&plan));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestNetwork(RengaComm comm, const Run *network)
{
  Result whole, parts;
  RengaCall(Part(comm, network, 1, 0, STEPS, &whole));
  for (int layout = 0; layout < LAYOUTS; layout++) {
    memset(&parts, 0, sizeof parts);
    RengaCall(Part(comm, network, layout, 0, CUT, &parts));
    RengaCall(Part(comm, network, (layout + 1) % LAYOUTS, CUT, STEPS, &parts));
    for (int i = 0; i < STEPS; i++)
      RengaCheck(parts.loss[i] == whole.loss[i], MPI_COMM_SELF, RENGA_ERR_INTERNAL,
                 "%s, layout %d: loss of step %d is %.17g, not %.17g", network->graph, layout, i,
                 parts.loss[i], whole.loss[i]);
    Expect(parts.digest == whole.digest);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TestResume(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++)
    RengaCall(TestNetwork(comm, &networks[i]));
  RengaCall(RengaCommBarrier(comm, "the end"));
  if (RengaCommGetRank(comm) == 0) Expect(unlink(file) == 0 && rmdir(directory) == 0);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestResume)
