/* TEST ranks: 4 */
/* A step that is not finite, and RengaCheckpointRollBack: the run goes on with the parameters of
   the newest file that a finite step has followed, as one does that never made the steps between.
   */
#include "../pipeline/run.h"
#include "rengacheckpoint.h"
#include <unistd.h>

enum { STEPS = 7, FAILS = 3, GOOD = 2 }; /* the step that is not finite; the file from before */
static const char directory[] = "rollback-test";

static const Run networks[] = {
    {.graph = "mlp:sizes=6-16-12-8-5", .classes = 5, .optimizer = "adamw"},
    {.graph = "skip", .classes = 4, .optimizer = "sgd"},
};

static const struct {
  int stages, replicas[4];
} layouts[] = {{1, {1}}, {2, {2, 2}}, {2, {1, 3}}, {4, {1, 1, 1, 1}}};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* One sample of the step that fails is infinite. */
static RengaErrorCode ReadPoison(void *user, int field, int64_t first, int64_t count, void *buffer)
{
  const Source *source = user;
  RengaCall(RunRead(user, field, first, count, buffer));
  if (source->step == FAILS && field == 0 && first <= 5 && 5 < first + count)
    ((float *)buffer)[(5 - first) * 6] = INFINITY;
  return RENGA_SUCCESS;
}

typedef struct {
  RengaGraph graph;
  RengaPlan plan;
  RengaPipeline pipeline;
  RengaCheckpoint checkpoint;
  Source source;
} Trial;

static RengaErrorCode OpenTrial(RengaComm comm, const Run *network, int layout, Trial *trial)
{
  Run run = *network;
  run.stages = layouts[layout].stages;
  run.unequal = layouts[layout].replicas;
  run.batch = 8;
  run.microbatch = 2;
  RengaCall(RunGraph(comm, run.graph, &trial->graph));
  RengaCall(RunPlan(comm, &run, trial->graph, &trial->plan));
  RengaCall(RunPipeline(comm, &run, trial->graph, trial->plan, &trial->pipeline));
  RengaCall(RengaPipelineSetOnNonfinite(trial->pipeline, RENGA_NONFINITE_ROLLBACK));
  RengaCall(RengaCheckpointCreate(comm, &trial->checkpoint));
  RengaCall(RengaCheckpointSetPipeline(trial->checkpoint, trial->pipeline));
  RengaCall(RengaCheckpointSetFromOptions(trial->checkpoint));
  RengaCall(RengaCheckpointSetUp(trial->checkpoint));
  trial->source = (Source){.graph = trial->graph, .classes = run.classes};
  return RENGA_SUCCESS;
}

static RengaErrorCode CloseTrial(RengaComm comm, Trial *trial)
{
  RengaCall(RengaCheckpointDestroy(&trial->checkpoint));
  RengaCall(RengaPipelineDestroy(&trial->pipeline));
  RengaCall(RengaPlanDestroy(&trial->plan));
  RengaCall(RengaGraphDestroy(&trial->graph));
  RengaCall(RengaCommBarrier(comm, "all to close"));
  for (int step = 0; step <= STEPS && RengaCommGetRank(comm) == 0; step++) {
    char path[64];
    snprintf(path, sizeof path, "%s/step_%09d.h5", directory, step);
    unlink(path);
  }
  RengaCall(RengaCommBarrier(comm, "the files to be removed"));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeStep(Trial *trial, RengaPipelineStepInfo *info)
{
  const RengaBatch batch = {8, ReadPoison, &trial->source};
  double loss;
  trial->source.step = RengaPipelineGetStepNumber(trial->pipeline);
  RengaCall(RengaPipelineStep(trial->pipeline, &batch, &loss));
  RengaCall(RengaPipelineGetLastStep(trial->pipeline, info));
  return RENGA_SUCCESS;
}

/* What is to come out: the steps from the good file to the one that fails were never made. */
static RengaErrorCode RunWithout(RengaComm comm, const Run *network, uint64_t *digest)
{
  RengaPipelineStepInfo info;
  Trial trial;
  RengaCall(OpenTrial(comm, network, 1, &trial));
  while (RengaPipelineGetStepNumber(trial.pipeline) < STEPS) {
    if (RengaPipelineGetStepNumber(trial.pipeline) == GOOD)
      RengaCall(RengaPipelineSetStepNumber(trial.pipeline, FAILS + 1));
    RengaCall(MakeStep(&trial, &info));
    Expect(info.finite && info.counts);
  }
  RengaCall(RengaPipelineGetDigest(trial.pipeline, digest));
  RengaCall(CloseTrial(comm, &trial));
  return RENGA_SUCCESS;
}

/* Files after each step; the one of step 3, which the bad step follows, is not the one to take. */
static RengaErrorCode RunRolledBack(RengaComm comm, const Run *network, int layout,
                                    uint64_t *digest)
{
  RengaPipelineStepInfo info;
  Trial trial;
  bool wrote, stop;
  int64_t count;
  RengaCall(OpenTrial(comm, network, layout, &trial));
  while (RengaPipelineGetStepNumber(trial.pipeline) < STEPS) {
    bool found = false;
    int64_t from = -1;
    RengaCall(MakeStep(&trial, &info));
    Expect(info.finite == (trial.source.step != FAILS) && info.counts == info.finite);
    if (!info.finite) {
      RengaCall(RengaCheckpointRollBack(trial.checkpoint, &found, &from));
      Expect(found && from == GOOD && RengaPipelineGetStepNumber(trial.pipeline) == FAILS + 1);
    }
    RengaCall(RengaCheckpointStep(trial.checkpoint, &wrote, &stop));
    Expect(wrote && !stop);
  }
  RengaCall(RengaPipelineGetNonfiniteCount(trial.pipeline, &count));
  Expect(count == 1);
  RengaCall(RengaPipelineGetDigest(trial.pipeline, digest));
  RengaCall(CloseTrial(comm, &trial));
  return RENGA_SUCCESS;
}

/* Without a file that a finite step has followed nothing is changed. */
static RengaErrorCode RunWithoutFile(RengaComm comm, const Run *network)
{
  RengaPipelineStepInfo info;
  Trial trial;
  uint64_t before, after;
  bool found = true;
  int64_t from;
  RengaCall(OpenTrial(comm, network, 1, &trial));
  RengaCall(RengaPipelineSetStepNumber(trial.pipeline, FAILS));
  RengaCall(RengaCheckpointWrite(trial.checkpoint, NULL)); /* no step has followed it */
  RengaCall(RengaPipelineGetDigest(trial.pipeline, &before));
  RengaCall(MakeStep(&trial, &info));
  RengaCall(RengaCheckpointRollBack(trial.checkpoint, &found, &from));
  RengaCall(RengaPipelineGetDigest(trial.pipeline, &after));
  Expect(!found && before == after && RengaPipelineGetStepNumber(trial.pipeline) == FAILS);
  RengaCall(CloseTrial(comm, &trial));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRollBack(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaOptionsSetValue("checkpoint_dir", directory));
  RengaCall(RengaOptionsSetValue("checkpoint_every", "1"));
  for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
    uint64_t wanted, digest;
    RengaCall(RunWithout(comm, &networks[i], &wanted));
    for (int layout = 0; layout < LAYOUTS; layout++) {
      RengaCall(RunRolledBack(comm, &networks[i], layout, &digest));
      Expect(digest == wanted);
    }
    RengaCall(RunWithoutFile(comm, &networks[i]));
  }
  if (RengaCommGetRank(comm) == 0) Expect(rmdir(directory) == 0);
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestRollBack)
