/* TEST ranks: 1 2 */
/* A trainer makes the same parameters of a plan, of a pipeline with a reader of the program, and
   after a resume; monitors hear of all, and one that fails on one rank ends the run on all; what is
   out of order is refused. */
#include "../check.h"
#include "renga.h"
#include <math.h>

typedef struct {
  RengaComm comm;
  RengaGraph graph;
  RengaData data;
  RengaPlan plan;
  int begun, steps, batches, evaluations, sentences;
  int64_t fails_after; /* a step, on the last rank; -1: none */
} Case;

static bool IsLast(const Case *c)
{
  return RengaCommGetRank(c->comm) == RengaCommGetSize(c->comm) - 1;
}

static RengaErrorCode OnBeginStep(void *user, int64_t step)
{
  Expect(step == ((Case *)user)->steps);
  ((Case *)user)->begun++;
  return RENGA_SUCCESS;
}

static RengaErrorCode OnStep(void *user, const RengaTrainerRow *row)
{
  Case *c = user;
  Expect(row->step == c->steps++ && isfinite(row->loss) && row->gradient_norm > 0);
  Expect(row->whole == (row->samples == 4));
  RengaCheck(row->step != c->fails_after || !IsLast(c), MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "a monitor fails");
  return RENGA_SUCCESS;
}

static RengaErrorCode OnEvaluating(void *user, const RengaTrainerProgress *progress)
{
  ((Case *)user)->batches += progress->batch != NULL;
  Expect(progress->samples == 6 && progress->done <= 6);
  return RENGA_SUCCESS;
}

static RengaErrorCode OnEvaluated(void *user, double loss, int64_t step, int64_t samples)
{
  Case *c = user;
  c->evaluations++;
  Expect(isfinite(loss) && step == c->steps && samples == 6);
  return RENGA_SUCCESS;
}

static RengaErrorCode OnSentence(void *user, const char *sentence)
{
  ((Case *)user)->sentences += sentence[0] != '\0';
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeData(Case *c)
{
  RengaDataFields fields;
  RengaCall(RengaGraphCreate(c->comm, &c->graph));
  RengaCall(RengaGraphLoad(c->graph, "mlp:sizes=4-6-3"));
  RengaCall(RengaGraphSetUp(c->graph));
  RengaCall(RengaOptionsSetValue("data_samples", "20"));
  RengaCall(RengaOptionsSetValue("data_validation", "0.3"));
  RengaCall(RengaDataCreate(c->comm, &c->data));
  RengaCall(RengaDataSetFromOptions(c->data));
  RengaCall(RengaDataSetFile(c->data, "synthetic"));
  RengaCall(RengaDataFindFields(c->graph, &fields));
  Expect(fields.count == 2 && fields.classes[1] == 3 && fields.specs[0].dim[0] == 4);
  RengaDataFreeFields(&fields);
  RengaCall(RengaDataSetGraph(c->data, c->graph));
  RengaCall(RengaDataSetUp(c->data));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeTrainer(Case *c, int64_t steps, RengaTrainer *trainer)
{
  const RengaTrainerMonitor monitor = {OnBeginStep, OnStep,     OnEvaluating,
                                       OnEvaluated, OnSentence, c};
  RengaTrainerRules rules;
  RengaCall(RengaTrainerCreate(c->comm, trainer));
  RengaCall(RengaTrainerSetFromOptions(*trainer));
  RengaCall(RengaTrainerGetRules(*trainer, &rules));
  rules.steps = steps;
  rules.eval_every = 2;
  RengaCall(RengaTrainerSetRules(*trainer, &rules));
  RengaCall(RengaTrainerAddMonitor(*trainer, &monitor));
  return RENGA_SUCCESS;
}

static RengaErrorCode ByPlan(Case *c, RengaTrainerStatus *status, uint64_t *digest)
{
  RengaTrainer trainer;
  RengaPartition partition;
  RengaTrainerParts parts;
  RengaCall(MakeTrainer(c, 6, &trainer));
  ExpectError(RengaTrainerSetUp(trainer), RENGA_ERR_ORDER, "RengaTrainerSetPlan or");
  RengaCall(RengaTrainerSetData(trainer, c->graph, c->data));
  RengaCall(RengaPartitionCreate(c->comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, c->graph));
  RengaCall(RengaPartitionSetBatch(partition, 4, 1));
  RengaCall(RengaTrainerSetPartition(trainer, partition));
  RengaCall(RengaPartitionSolve(partition, &c->plan));
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaTrainerSetPlan(trainer, c->plan));
  ExpectError(RengaTrainerRun(trainer), RENGA_ERR_ORDER, "call RengaTrainerSetUp first");
  RengaCall(RengaTrainerSetUp(trainer));
  c->fails_after = 2;
  ExpectError(RengaTrainerRun(trainer), RENGA_ERR_ARGUMENT, IsLast(c) ? "a monitor fails" : "");
  c->fails_after = -1;
  RengaCall(RengaTrainerGetStatus(trainer, status));
  Expect(status->step == 3);
  RengaCall(RengaTrainerRun(trainer));
  RengaCall(RengaTrainerGetStatus(trainer, status));
  RengaCall(RengaTrainerGetParts(trainer, &parts));
  Expect(parts.batch == 4 && parts.eval_samples == 6 && parts.group == 0 && parts.data == c->data);
  RengaCall(RengaPipelineGetDigest(parts.pipeline, digest));
  RengaCall(RengaTrainerDestroy(&trainer));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadSamples(void *user, RengaDataPart part, int field, int64_t epoch,
                                  int64_t first, int64_t count, void *buffer)
{
  RengaCall(RengaDataRead(user, part, field, epoch, first, count, buffer));
  return RENGA_SUCCESS;
}

/* Three steps that write a checkpoint, or the rest of six. */
static RengaErrorCode ByPipeline(Case *c, bool resume, double *loss, uint64_t *digest)
{
  RengaTrainer trainer;
  RengaPipeline pipeline;
  RengaCheckpoint checkpoint;
  bool found = false;
  int64_t step = 0;
  char directory[32];
  snprintf(directory, sizeof directory, "checkpoints-%d", RengaCommGetSize(c->comm));
  RengaCall(RengaPipelineCreate(c->comm, &pipeline));
  RengaCall(RengaPipelineSetPlan(pipeline, c->graph, c->plan));
  RengaCall(RengaPipelineSetDataShortBatch(pipeline, 2));
  RengaCall(RengaPipelineSetUp(pipeline));
  RengaCall(MakeTrainer(c, resume ? 6 : 3, &trainer));
  RengaCall(RengaTrainerSetReader(trainer, ReadSamples, c->data));
  RengaCall(RengaTrainerSetData(trainer, c->graph, c->data));
  ExpectError(RengaTrainerSetReader(trainer, ReadSamples, c->data), RENGA_ERR_ORDER,
              "before RengaTrainerSetData");
  ExpectError(RengaTrainerSetPipeline(trainer, pipeline, 0), RENGA_ERR_ARGUMENT, "0 samples");
  RengaCall(RengaTrainerSetPipeline(trainer, pipeline, 4));
  ExpectError(RengaTrainerSetPipeline(trainer, pipeline, 4), RENGA_ERR_ORDER, "comes once");
  RengaCall(RengaTrainerSetUp(trainer));
  RengaCall(RengaTrainerSetUp(trainer));
  RengaCall(RengaCheckpointCreate(c->comm, &checkpoint));
  RengaCall(RengaCheckpointSetDirectory(checkpoint, directory));
  RengaCall(RengaCheckpointSetUp(checkpoint));
  RengaCall(RengaTrainerSetCheckpoint(trainer, checkpoint));
  if (resume) RengaCall(RengaTrainerResume(trainer, &found, &step));
  Expect(found == resume && step == (resume ? 3 : 0));
  if (!resume) RengaCall(RengaTrainerStep(trainer));
  RengaCall(RengaTrainerRun(trainer));
  RengaCall(RengaTrainerEvaluate(trainer, NULL, loss));
  RengaCall(RengaPipelineGetDigest(pipeline, digest));
  RengaCall(RengaCheckpointDestroy(&checkpoint));
  RengaCall(RengaTrainerDestroy(&trainer));
  RengaCall(RengaPipelineDestroy(&pipeline));
  return RENGA_SUCCESS;
}

static RengaErrorCode Refused(Case *c)
{
  RengaTrainer trainer;
  RengaTrainerRules rules;
  RengaTrainerParts parts;
  RengaViewer viewer;
  RengaCall(MakeTrainer(c, 1, &trainer));
  ExpectError(RengaTrainerSetUp(NULL), RENGA_ERR_ARGUMENT, "trainer is a null pointer");
  ExpectError(RengaTrainerRun(NULL), RENGA_ERR_ARGUMENT, "trainer is a null pointer");
  RengaCall(RengaTrainerGetRules(trainer, &rules));
  rules.early_stop = -1;
  ExpectError(RengaTrainerSetRules(trainer, &rules), RENGA_ERR_ARGUMENT, "below 0");
  rules.early_stop = 1;
  rules.eval_every = 0;
  RengaCall(RengaTrainerSetRules(trainer, &rules));
  ExpectError(RengaTrainerSetData(trainer, c->graph, c->data), RENGA_ERR_OPTION,
              RengaCommGetRank(c->comm) == 0 ? "-eval_every" : "");
  RengaCall(RengaTrainerGetParts(trainer, &parts));
  Expect(!parts.data && parts.eval_samples == 0);
  RengaCall(RengaViewerCreate(c->comm, "ascii:trainer.txt", &viewer));
  RengaCall(RengaTrainerView(trainer, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(RengaTrainerDestroy(&trainer));
  return RENGA_SUCCESS;
}

/* Learners: what is refused changes nothing, so that the same call is right once its cause is. */
static RengaErrorCode RefusedLearners(Case *c)
{
  const bool first = RengaCommGetRank(c->comm) == 0;
  RengaTrainer trainer;
  RengaTrainerRules rules;
  RengaTrainerParts parts;
  RengaPartition partition;
  RengaCall(MakeTrainer(c, 1, &trainer));
  RengaCall(RengaTrainerGetRules(trainer, &rules));
  rules.learners = 2;
  snprintf(rules.average, sizeof rules.average, "local:00000000000000010");
  ExpectError(RengaTrainerSetRules(trainer, &rules), RENGA_ERR_OPTION, first ? "local:K" : "");
  snprintf(rules.average, sizeof rules.average, "local:2");
  RengaCall(RengaTrainerSetRules(trainer, &rules));
  RengaCall(RengaTrainerSetData(trainer, c->graph, c->data));
  RengaCall(RengaPartitionCreate(c->comm, &partition));
  RengaCall(RengaPartitionSetGraph(partition, c->graph));
  ExpectError(RengaTrainerSetPartition(trainer, partition), RENGA_ERR_OPTION,
              first ? "need -batch_size" : "");
  RengaCall(RengaPartitionSetBatch(partition, 4, 1));
  RengaCall(RengaPartitionSetTensor(partition, 2));
  ExpectError(RengaTrainerSetPartition(trainer, partition), RENGA_ERR_SUPPORT,
              first ? "-layout_tensor 2 together with -train_average local:2" : "");
  RengaCall(RengaTrainerGetParts(trainer, &parts));
  Expect(!parts.pipeline && !parts.ranks);
  RengaCall(RengaPartitionSetTensor(partition, 1));
  RengaCall(RengaTrainerSetPartition(trainer, partition));
  ExpectError(RengaTrainerSetData(trainer, c->graph, c->data), RENGA_ERR_ORDER, "comes before");
  RengaCall(RengaPartitionDestroy(&partition));
  RengaCall(RengaTrainerDestroy(&trainer));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestTrainer(void)
{
  Case c = {.fails_after = -1};
  RengaTrainerStatus status;
  uint64_t wanted, digest;
  double loss;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &c.comm));
  RengaCall(MakeData(&c));
  RengaCall(ByPlan(&c, &status, &wanted));
  Expect(status.step == 6 && status.timed_steps == 5 && !status.stopped && !status.unsaved);
  Expect(c.begun == 6 && c.steps == 6 && c.evaluations == 3 && c.batches == 6 && !c.sentences);
  c.steps = 0;
  RengaCall(ByPipeline(&c, false, &loss, &digest));
  Expect(c.steps == 3 && c.sentences == 1);
  RengaCall(ByPipeline(&c, true, &loss, &digest));
  Expect(c.steps == 6 && digest == wanted && loss == status.best);
  RengaCall(Refused(&c));
  RengaCall(RefusedLearners(&c));
  RengaCall(RengaPlanDestroy(&c.plan));
  RengaCall(RengaDataDestroy(&c.data));
  RengaCall(RengaGraphDestroy(&c.graph));
  RengaCall(RengaCommDestroy(&c.comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(TestTrainer)
