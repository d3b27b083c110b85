/* Learners: copies of the network that train apart for a number of steps, each with its share of
   every batch (local SGD; Stich, ICLR 2019), and become their mean, or, by pairs, means of two
   (gossip). Moments of the optimizer stay with their learner. */
#include "mean.h"
#include "renga/private/epochs.h"
#include "renga/private/number.h"
#include "renga/private/optimizer.h"
#include <stdlib.h>
#include <string.h>

enum { VALUE_LOSS, VALUE_NORM, VALUE_NONFINITE, VALUES };

static int GreatestDivisor(int a, int b)
{
  while (b > 0) {
    const int rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* "local:4" */
static bool ParseManner(const char *text, RengaLearners *learners)
{
  static const char local[] = "local:", gossip[] = "gossip:";
  char *end;
  learners->manner = text;
  learners->gossip = strncmp(text, gossip, strlen(gossip)) == 0;
  learners->apart = learners->gossip || strncmp(text, local, strlen(local)) == 0;
  if (!learners->apart) return strcmp(text, "sync") == 0;
  const char *digits = strchr(text, ':') + 1;
  learners->every = strtoll(digits, &end, 10);
  return *digits >= '0' && *digits <= '9' && !*end && learners->every >= 1 &&
         learners->every <= (int64_t)1e15 && strlen(digits) <= strlen("1000000000000000");
}

RengaErrorCode RengaLearnersRead(MPI_Comm printer, const char *manner, int count,
                                 RengaLearners *learners)
{
  RengaCheck(ParseManner(manner, learners), printer, RENGA_ERR_OPTION,
             "-train_average %s is none of sync, local:K, gossip:K, where K is a number of steps "
             "from 1",
             manner);
  RengaCheck(
      !learners->apart || count > 1, printer, RENGA_ERR_OPTION,
      "-train_average %s is for copies of the network that train apart: -train_learners says "
      "how many, 2 or more",
      manner);
  RengaCheck(learners->apart || count == 0, printer, RENGA_ERR_OPTION,
             "-train_learners %d is for -train_average local:K or gossip:K", count);
  learners->count = learners->apart ? count : 1;
  return RENGA_SUCCESS;
}

/* As many groups as learners and ranks can both be shared out among equally. */
static RengaErrorCode CutRanks(RengaLearners *learners)
{
  const int size = RengaCommGetSize(learners->all), rank = RengaCommGetRank(learners->all);
  learners->groups = learners->apart ? GreatestDivisor(learners->count, size) : 1;
  learners->own = learners->count / learners->groups;
  learners->ranks = learners->all;
  if (learners->groups == 1) return RENGA_SUCCESS;
  const int ranks = size / learners->groups;
  learners->group = rank / ranks;
  learners->first = learners->group * learners->own;
  RengaCall(RengaCommSplit(learners->all, learners->group, rank, &learners->ranks));
  RengaCall(RengaCommSplit(learners->all, rank % ranks, rank, &learners->across));
  return RENGA_SUCCESS;
}

/* Random numbers of a step are those of its learner; the first values of the network those of
   learner 0. */
static RengaErrorCode MakePipeline(RengaLearners *learners, int l, int64_t steps)
{
  RengaPipeline *pipeline = &learners->pipeline[l];
  RengaOptimizer optimizer;
  RengaSettings settings;
  uint64_t seed;
  RengaCall(RengaPipelineCreate(learners->ranks, pipeline));
  RengaCall(RengaPipelineSetFromOptions(*pipeline));
  RengaCall(RengaPipelineGetSettings(*pipeline, &settings));
  RengaCall(RengaSettingsGetSeed(settings, &seed));
  learners->seed = (int64_t)seed;
  const int64_t words[] = {learners->seed, learners->first + l};
  const uint64_t own = RengaHash(words, sizeof words, 0x1ea51e5);
  if (learners->first + l > 0) RengaCall(RengaSettingsSetSeed(settings, own));
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &optimizer));
  RengaCall(RengaOptimizerSetTotalSteps(optimizer, steps));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeOwnPipelines(RengaLearners *learners, int64_t steps)
{
  for (int l = 0; l < learners->own; l++) RengaCall(MakePipeline(learners, l, steps));
  return RENGA_SUCCESS;
}

static RengaErrorCode AllocateLearners(RengaLearners *learners)
{
  RengaCall(RengaMalloc(learners->own, &learners->pipeline));
  RengaCall(RengaMalloc((int64_t)VALUES * learners->count + 1, &learners->values));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersCreate(RengaComm comm, int64_t steps, RengaLearners *learners)
{
  learners->all = comm;
  RengaCall(RengaObjectGetComm(comm, &learners->printer));
  RengaCall(CutRanks(learners));
  RengaCall(RengaErrorAgree(learners->printer, AllocateLearners(learners)));
  RengaCall(RengaErrorAgree(learners->printer, MakeOwnPipelines(learners, steps)));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersTake(RengaComm comm, RengaPipeline pipeline, int64_t batch,
                                 RengaLearners *learners)
{
  RengaPipeline *made;
  RengaCall(RengaObjectGetComm(comm, &learners->printer));
  RengaCall(RengaMalloc(1, &made));
  made[0] = pipeline;
  learners->pipeline = made;
  learners->all = learners->ranks = comm;
  learners->groups = learners->own = 1;
  learners->lent = true;
  learners->batch = batch;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersDestroy(RengaLearners *learners)
{
  RengaMeanDestroy(&learners->mean);
  for (int l = 0; learners->pipeline && !learners->lent && l < learners->own; l++)
    RengaCall(RengaPipelineDestroy(&learners->pipeline[l]));
  RengaFree(&learners->pipeline);
  RengaFree(&learners->values);
  if (learners->across) RengaCall(RengaCommDestroy(&learners->across));
  if (learners->ranks != learners->all) RengaCall(RengaCommDestroy(&learners->ranks));
  return RENGA_SUCCESS;
}

/* What a learner was asked for, of which learners have none yet. */
static RengaErrorCode CheckLearnersSettings(const RengaLearners *learners, RengaGraph graph,
                                            RengaData data, RengaPartition partition)
{
  static const char *const manners[] = {"stop", "skip", "rollback"};
  RengaSettings settings;
  RengaOptimizer optimizer;
  RengaShard shard;
  RengaOffload offload;
  RengaSparse sparse;
  RengaPrecision precision;
  RengaNonfinite manner;
  RengaImportance importance;
  int tensor, context;
  double hidden;
  bool adapts;
  char tensors[16], contexts[16], fraction[16];
  RengaCall(RengaPipelineGetSettings(learners->pipeline[0], &settings));
  RengaCall(RengaPipelineGetOptimizer(learners->pipeline[0], &optimizer));
  RengaCall(RengaPipelineGetOnNonfinite(learners->pipeline[0], &manner));
  RengaCall(RengaPartitionGetTensor(partition, &tensor));
  RengaCall(RengaPartitionGetSequence(partition, &context));
  RengaCall(RengaSettingsGetShard(settings, &shard));
  RengaCall(RengaSettingsGetOffload(settings, &offload));
  RengaCall(RengaOptimizerGetSparse(optimizer, &sparse));
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  RengaCall(RengaDataGetHiding(data, &hidden, &importance, &adapts));
  snprintf(tensors, sizeof tensors, "%d", tensor);
  snprintf(contexts, sizeof contexts, "%d", context);
  RengaTextFormat(fraction, sizeof fraction, "%g", hidden);
  const struct {
    bool asked;
    const char *option, *value;
  } rows[] = {
      {tensor > 1, "layout_tensor", tensors},
      {context > 1, "layout_context", contexts},
      {shard != RENGA_SHARD_NOTHING && shard != RENGA_SHARD_AUTO, "layout_zero",
       RengaShardName(shard)},
      {offload != RENGA_OFFLOAD_NONE, "layout_offload", RengaOffloadName(offload)},
      {sparse != RENGA_SPARSE_OFF, "optimizer_sparse", RengaSparseName(sparse)},
      {precision == RENGA_PRECISION_FP16, "precision", RengaPrecisionName(precision)},
      {manner != RENGA_NONFINITE_STOP, "pipeline_on_nonfinite", manners[manner]},
      {hidden > 0, "data_hide", fraction},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    RengaCheck(!rows[i].asked, learners->printer, RENGA_ERR_SUPPORT,
               "-%s %s together with -train_average %s is not supported", rows[i].option,
               rows[i].value, learners->manner);
  return RENGA_SUCCESS;
}

/* What is refused is not chosen either. */
static RengaErrorCode CloseChoices(const RengaLearners *learners, RengaPartition partition)
{
  RengaSettings settings;
  RengaCall(RengaPipelineGetSettings(learners->pipeline[0], &settings));
  RengaCall(RengaSettingsSetShard(settings, RENGA_SHARD_NOTHING));
  RengaCall(RengaPartitionSetTensor(partition, 1));
  RengaCall(RengaPartitionSetSequence(partition, 1));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersSetPartition(RengaLearners *learners, RengaGraph graph, RengaData data,
                                         RengaPartition partition)
{
  int64_t batch, microbatch, memory;
  if (!learners->apart) return RENGA_SUCCESS;
  RengaCall(CheckLearnersSettings(learners, graph, data, partition));
  RengaCall(RengaPartitionGetBatch(partition, &batch, &microbatch));
  RengaCheck(batch > 0, learners->printer, RENGA_ERR_OPTION,
             "-train_average local and gossip need -batch_size: the samples of a step, of all %d "
             "learners",
             learners->count);
  RengaCheck(batch % learners->count == 0, learners->printer, RENGA_ERR_OPTION,
             "a batch of %lld samples cannot be split equally among %d learners", (long long)batch,
             learners->count);
  learners->batch = batch;
  RengaCall(RengaPartitionSetBatch(partition, batch / learners->count, microbatch));
  RengaCall(RengaPartitionSetRanks(partition, RengaCommGetSize(learners->ranks)));
  RengaCall(RengaPartitionGetMemory(partition, &memory));
  if (memory > 0) RengaCall(RengaPartitionSetMemory(partition, memory / learners->own));
  RengaCall(CloseChoices(learners, partition));
  return RENGA_SUCCESS;
}

/* The first sample of learner number's share of so many. */
static int64_t FirstOfShare(const RengaLearners *learners, int64_t samples, int number)
{
  return samples * number / learners->count;
}

static RengaErrorCode AddPass(RengaPartition partition, int64_t samples)
{
  if (samples > 0) RengaCall(RengaPartitionAddDataPass(partition, samples));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersAddPasses(const RengaLearners *learners, RengaPartition partition,
                                      int64_t samples, int64_t eval_samples)
{
  const int64_t rest = learners->apart ? samples % learners->batch : 0;
  const int64_t whole = (samples - rest) / learners->count;
  RengaCall(AddPass(partition, whole + rest / learners->count));
  if (rest % learners->count) RengaCall(AddPass(partition, whole + rest / learners->count + 1));
  RengaCall(AddPass(partition, eval_samples));
  return RENGA_SUCCESS;
}

static RengaErrorCode AnnounceShort(RengaPipeline pipeline, int64_t samples)
{
  if (samples > 0) RengaCall(RengaPipelineSetDataShortBatch(pipeline, samples));
  return RENGA_SUCCESS;
}

/* The sizes of batches that will occur besides the whole one. */
static RengaErrorCode AnnounceAll(const RengaLearners *learners, RengaPipeline pipeline,
                                  int64_t samples, int64_t eval_samples)
{
  const int64_t batch = learners->batch / learners->count;
  const int64_t rest = samples % learners->batch;
  RengaCall(AnnounceShort(pipeline, rest / learners->count));
  if (rest % learners->count) RengaCall(AnnounceShort(pipeline, rest / learners->count + 1));
  RengaCall(AnnounceShort(pipeline, eval_samples % batch));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpOwn(RengaLearners *learners, RengaGraph graph, RengaPlan plan,
                               const int64_t samples[2])
{
  for (int l = 0; l < learners->own; l++) {
    RengaCall(RengaPipelineSetPlan(learners->pipeline[l], graph, plan));
    RengaCall(AnnounceAll(learners, learners->pipeline[l], samples[RENGA_DATA_TRAINING],
                          samples[RENGA_DATA_VALIDATION]));
    RengaCall(RengaPipelineSetUp(learners->pipeline[l]));
  }
  return RENGA_SUCCESS;
}

/* A plan that was loaded, and the device. */
static RengaErrorCode CheckLearnersPlan(const RengaLearners *learners, RengaPlan plan)
{
  RengaDevice device;
  const char *type;
  const RengaStageShape *shape = &RengaPlanGetStage(plan, 0)->shape;
  RengaCheck(shape->tensor == 1 && shape->sequence == 1, learners->printer, RENGA_ERR_SUPPORT,
             "a plan with %s ranks together with -train_average %s is not supported",
             shape->tensor > 1 ? "tensor-parallel" : "context-parallel", learners->manner);
  RengaCall(RengaPipelineGetDevice(learners->pipeline[0], &device));
  RengaCall(RengaDeviceGetType(device, &type));
  RengaCheck(RengaDeviceIsHost(device), learners->printer, RENGA_ERR_SUPPORT,
             "-train_average local and gossip are not supported for -device_type %s, which has "
             "memory of its own",
             type);
  return RENGA_SUCCESS;
}

/* A program may have set its pipeline after the partition was given. */
static RengaErrorCode CheckLearnersManner(const RengaLearners *learners)
{
  for (int l = 0; l < learners->own; l++) {
    RengaNonfinite manner;
    RengaCall(RengaPipelineGetOnNonfinite(learners->pipeline[l], &manner));
    RengaCheck(manner == RENGA_NONFINITE_STOP, learners->printer, RENGA_ERR_SUPPORT,
               "-pipeline_on_nonfinite skip or rollback together with -train_average %s is not "
               "supported",
               learners->manner);
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersSetUp(RengaLearners *learners, RengaGraph graph, RengaPlan plan,
                                  const int64_t samples[2])
{
  if (learners->apart) RengaCall(CheckLearnersManner(learners));
  if (learners->apart) RengaCall(CheckLearnersPlan(learners, plan));
  RengaCall(RengaErrorAgree(learners->printer, SetUpOwn(learners, graph, plan, samples)));
  if (learners->apart)
    RengaCall(RengaErrorAgree(learners->printer, RengaMeanCreate(learners, &learners->mean)));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersSpread(RengaLearners *learners)
{
  RengaMean mean = learners->mean;
  if (!learners->apart) return RENGA_SUCCESS;
  RengaCall(RengaMeanTakeLists(mean));
  RengaMeanRead(mean, 0, 0, mean->elements, mean->values);
  if (learners->across)
    RengaCall(RengaCommBroadcast(learners->across, mean->values,
                                 (size_t)mean->elements * sizeof *mean->values, 0,
                                 "the first values of all learners"));
  for (int l = 0; l < learners->own; l++) RengaMeanWrite(mean, l, 0, mean->elements, mean->values);
  return RENGA_SUCCESS;
}

static RengaErrorCode FindReads(const RengaLearners *learners, int fields, int64_t first[],
                                int64_t last[])
{
  const int64_t batch = learners->batch / learners->count;
  RengaCall(RengaPipelineGetReads(learners->pipeline[0], fields, first, last));
  for (int f = 0; f < fields; f++) {
    if (first[f] == last[f]) continue;
    first[f] += learners->first * batch;
    last[f] += (learners->first + learners->own - 1) * batch;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersPlaceData(const RengaLearners *learners, RengaData data, int fields)
{
  int64_t *first = NULL, *last = NULL;
  MPI_Comm comm;
  RengaCall(RengaObjectGetComm(data, &comm));
  RengaErrorCode code = RengaMalloc(fields, &first);
  if (!code) code = RengaMalloc(fields, &last);
  if (!code) code = FindReads(learners, fields, first, last);
  code = RengaErrorAgree(comm, code);
  if (!code) code = RengaDataPlace(data, first, last);
  RengaFree(&first);
  RengaFree(&last);
  RengaCall(code);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersSetStep(RengaLearners *learners, int64_t step)
{
  for (int l = 0; l < learners->own; l++)
    RengaCall(RengaPipelineSetStepNumber(learners->pipeline[l], step));
  return RENGA_SUCCESS;
}

/* This rank's learner l makes its step; one that has no samples of a short batch rests. */
static RengaErrorCode StepOne(RengaLearners *learners, int l, const RengaWindow *whole,
                              int64_t count)
{
  const int number = learners->first + l;
  const int64_t from = FirstOfShare(learners, count, number),
                to = FirstOfShare(learners, count, number + 1);
  RengaWindow window = *whole;
  RengaBatch batch = {.samples = to - from, .read = RengaReadWindow, .user = &window};
  double loss, norm;
  window.first += from;
  if (batch.samples == 0) {
    const int64_t step = RengaPipelineGetStepNumber(learners->pipeline[l]);
    RengaCall(RengaPipelineSetStepNumber(learners->pipeline[l], step + 1));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaPipelineStep(learners->pipeline[l], &batch, &loss));
  RengaCall(RengaPipelineGetGradientNorm(learners->pipeline[l], &norm));
  if (RengaCommGetRank(learners->ranks) > 0) return RENGA_SUCCESS;
  learners->values[VALUES * number + VALUE_LOSS] = loss * (double)batch.samples;
  learners->values[VALUES * number + VALUE_NORM] = norm;
  return RENGA_SUCCESS;
}

static RengaErrorCode StepOwn(RengaLearners *learners, const RengaWindow *window, int64_t count)
{
  RengaErrorCode code = RENGA_SUCCESS;
  for (int l = 0; l < learners->own && !code; l++) {
    int64_t nonfinite = 0;
    code = StepOne(learners, l, window, count);
    (void)RengaPipelineGetNonfiniteCount(learners->pipeline[l], &nonfinite);
    if (RengaCommGetRank(learners->ranks) == 0)
      learners->values[VALUES * (learners->first + l) + VALUE_NONFINITE] = (double)nonfinite;
  }
  return code;
}

static void AddResults(const RengaLearners *learners, RengaTrainerRow *result)
{
  double nonfinite = 0;
  result->loss = result->gradient_norm = 0;
  for (int i = 0; i < learners->count; i++) {
    const double *row = &learners->values[VALUES * i];
    result->loss += row[VALUE_LOSS];
    result->gradient_norm += row[VALUE_NORM];
    nonfinite += row[VALUE_NONFINITE];
  }
  result->loss /= (double)result->samples;
  result->gradient_norm /= learners->count;
  result->skipped = (int64_t)nonfinite;
}

/* Whatever one group meets, all ranks come here. */
static RengaErrorCode StepApart(RengaLearners *learners, const RengaWindow *window,
                                RengaTrainerRow *row)
{
  const int last = VALUES * learners->count;
  memset(learners->values, 0, (size_t)(last + 1) * sizeof *learners->values);
  const RengaErrorCode code = StepOwn(learners, window, row->samples);
  learners->values[last] = code != RENGA_SUCCESS;
  RengaCall(
      RengaCommSumExact(learners->all, last + 1, learners->values, "all learners to end a step"));
  AddResults(learners, row);
  learners->nonfinite = row->skipped;
  if (learners->values[last] > 0) RengaCall(RengaErrorAgree(learners->printer, code));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersStep(RengaLearners *learners, const RengaWindow *window,
                                 RengaTrainerRow *row)
{
  RengaPipeline pipeline = learners->pipeline[0];
  RengaWindow whole = *window;
  RengaBatch batch = {.samples = row->samples, .read = RengaReadWindow, .user = &whole};
  if (learners->apart) return StepApart(learners, window, row);
  RengaCall(RengaPipelineStep(pipeline, &batch, &row->loss));
  RengaCall(RengaPipelineGetGradientNorm(pipeline, &row->gradient_norm));
  RengaCall(RengaPipelineGetNonfiniteCount(pipeline, &row->skipped));
  return RENGA_SUCCESS;
}

static RengaErrorCode ExchangeAll(RengaLearners *learners, int64_t step)
{
  RengaMean mean = learners->mean;
  if (learners->gossip) return RengaMeanGossip(mean, step / learners->every);
  RengaCall(RengaMeanMake(mean));
  for (int l = 0; l < learners->own; l++) RengaMeanWrite(mean, l, 0, mean->elements, mean->values);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersExchange(RengaLearners *learners, int64_t step)
{
  if (!learners->apart || step % learners->every != 0) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(learners->printer, ExchangeAll(learners, step)));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowMean(RengaMean mean)
{
  RengaCall(RengaMeanMake(mean));
  RengaMeanRead(mean, 0, 0, mean->elements, mean->kept);
  RengaMeanWrite(mean, 0, 0, mean->elements, mean->values);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersShowMean(RengaLearners *learners)
{
  if (!learners->apart || learners->shown) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(learners->printer, ShowMean(learners->mean)));
  learners->shown = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaLearnersHideMean(RengaLearners *learners)
{
  RengaMean mean = learners->mean;
  if (!learners->shown) return RENGA_SUCCESS;
  RengaCall(RengaMeanTakeLists(mean));
  RengaMeanWrite(mean, 0, 0, mean->elements, mean->kept);
  learners->shown = false;
  return RENGA_SUCCESS;
}
