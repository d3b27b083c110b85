/* Learners: copies of the network that train apart for a number of steps, each with its share of
   every batch (local SGD; Stich, ICLR 2019), and become their mean, or, by pairs, means of two
   (gossip). Moments of the optimizer stay with their learner. */
#include "mean.h"
#include <math.h>
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
static bool ParseManner(const char *text, AppLearners *learners)
{
  static const char local[] = "local:", gossip[] = "gossip:";
  char *end;
  learners->gossip = strncmp(text, gossip, strlen(gossip)) == 0;
  learners->apart = learners->gossip || strncmp(text, local, strlen(local)) == 0;
  if (!learners->apart) return strcmp(text, "sync") == 0;
  const char *digits = strchr(text, ':') + 1;
  learners->every = strtoll(digits, &end, 10);
  return *digits >= '0' && *digits <= '9' && !*end && learners->every >= 1 &&
         learners->every <= (int64_t)1e15;
}

static RengaErrorCode ReadManner(MPI_Comm printer, AppLearners *learners)
{
  const char *text;
  int64_t count;
  RengaCall(RengaOptionsGetString("train_average", &text, NULL));
  RengaCall(RengaOptionsGetInt64("train_learners", &count, NULL));
  RengaCheck(ParseManner(text, learners), printer, RENGA_ERR_OPTION,
             "-train_average %s is none of sync, local:K, gossip:K, where K is a number of steps "
             "from 1",
             text);
  RengaCheck(
      !learners->apart || count > 1, printer, RENGA_ERR_OPTION,
      "-train_average %s is for copies of the network that train apart: -train_learners says "
      "how many, 2 or more",
      text);
  RengaCheck(learners->apart || count == 0, printer, RENGA_ERR_OPTION,
             "-train_learners %lld is for -train_average local:K or gossip:K", (long long)count);
  learners->count = learners->apart ? (int)count : 1;
  return RENGA_SUCCESS;
}

/* Options that have no meaning, or none yet, where learners train apart. */
static RengaErrorCode RefuseOptions(MPI_Comm printer)
{
  static const struct {
    const char *option, *plain;
  } rows[] = {{"data_hide", "0"},          {"pipeline_on_nonfinite", "stop"},
              {"optimizer_sparse", "off"}, {"layout_context", "1"},
              {"layout_tensor", "1"},      {"layout_offload", "none"},
              {"layout_zero", "0"},        {"precision", "fp32"},
              {"schedule_view", "none"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *value, *manner;
    bool given, tensor;
    RengaCall(AppHasTensorRanks(&tensor));
    RengaCall(RengaOptionsGetString("train_average", &manner, NULL));
    RengaCall(RengaOptionsGetString(rows[i].option, &value, &given));
    if (!value) value = "";
    const bool low = strcmp(rows[i].option, "precision") == 0 && strcmp(value, "fp16") != 0;
    const bool one = strcmp(rows[i].plain, "1") == 0 && !tensor && strcmp(value, "auto") != 0;
    const bool plain = one || strcmp(value, rows[i].plain) == 0;
    RengaCheck(!given || low || plain, printer, RENGA_ERR_SUPPORT,
               "-%s %s together with -train_average %s is not supported", rows[i].option, value,
               manner);
  }
  return RENGA_SUCCESS;
}

/* As many groups as learners and ranks can both be shared out among equally. */
static RengaErrorCode CutRanks(AppLearners *learners)
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
static RengaErrorCode MakePipeline(const AppLearners *learners, int l, int64_t steps)
{
  RengaPipeline *pipeline = &learners->pipeline[l];
  RengaOptimizer optimizer;
  RengaSettings settings;
  const int64_t words[] = {learners->seed, learners->first + l};
  const uint64_t own = RengaHash(words, sizeof words, 0x1ea51e5);
  RengaCall(RengaPipelineCreate(learners->ranks, pipeline));
  RengaCall(RengaPipelineGetSettings(*pipeline, &settings));
  RengaCall(RengaSettingsSetSeed(settings, (uint64_t)learners->seed));
  RengaCall(RengaPipelineSetFromOptions(*pipeline));
  if (learners->first + l > 0) RengaCall(RengaSettingsSetSeed(settings, own));
  RengaCall(RengaPipelineGetOptimizer(*pipeline, &optimizer));
  RengaCall(RengaOptimizerSetTotalSteps(optimizer, steps));
  return RENGA_SUCCESS;
}

static RengaErrorCode MakePipelines(const AppLearners *learners, int64_t steps)
{
  for (int l = 0; l < learners->own; l++) RengaCall(MakePipeline(learners, l, steps));
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersCreate(RengaComm comm, int64_t seed, int64_t steps, AppLearners *learners)
{
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(comm, &printer));
  *learners = (AppLearners){.all = comm, .seed = seed};
  RengaCall(ReadManner(printer, learners));
  if (learners->apart) RengaCall(RefuseOptions(printer));
  RengaCall(CutRanks(learners));
  RengaCall(RengaMalloc(learners->own, &learners->pipeline));
  RengaCall(RengaMalloc((int64_t)VALUES * learners->count + 1, &learners->values));
  RengaCall(MakePipelines(learners, steps));
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersDestroy(AppLearners *learners)
{
  AppMeanDestroy(&learners->mean);
  for (int l = 0; l < learners->own; l++) RengaCall(RengaPipelineDestroy(&learners->pipeline[l]));
  RengaFree(&learners->pipeline);
  RengaFree(&learners->values);
  if (learners->across) RengaCall(RengaCommDestroy(&learners->across));
  if (learners->ranks != learners->all) RengaCall(RengaCommDestroy(&learners->ranks));
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersSetPartition(AppLearners *learners, RengaPartition partition)
{
  int64_t batch, microbatch, memory;
  MPI_Comm printer;
  if (!learners->apart) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(learners->all, &printer));
  RengaCall(RengaPartitionGetBatch(partition, &batch, &microbatch));
  RengaCheck(batch > 0, printer, RENGA_ERR_OPTION,
             "-train_average local and gossip need -batch_size: the samples of a step, of all %d "
             "learners",
             learners->count);
  RengaCheck(batch % learners->count == 0, printer, RENGA_ERR_OPTION,
             "a batch of %lld samples cannot be split equally among %d learners", (long long)batch,
             learners->count);
  learners->batch = batch;
  RengaCall(RengaPartitionSetBatch(partition, batch / learners->count, microbatch));
  RengaCall(RengaPartitionSetRanks(partition, RengaCommGetSize(learners->ranks)));
  RengaCall(RengaPartitionGetMemory(partition, &memory));
  if (memory > 0) RengaCall(RengaPartitionSetMemory(partition, memory / learners->own));
  RengaCall(RengaPartitionSetTensor(partition, 1)); /* what is refused is not chosen either */
  return RENGA_SUCCESS;
}

/* The first sample of learner number's share of so many. */
static int64_t FirstOfShare(const AppLearners *learners, int64_t samples, int number)
{
  return samples * number / learners->count;
}

RengaErrorCode AppLearnersAddPasses(const AppLearners *learners, RengaPartition partition,
                                    RengaData data, int64_t eval_samples)
{
  int64_t samples;
  MPI_Comm printer;
  if (!learners->apart) {
    RengaCall(AppAddPasses(partition, data, eval_samples));
    return RENGA_SUCCESS;
  }
  RengaCall(RengaObjectGetComm(learners->all, &printer));
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &samples));
  const int64_t whole = samples / learners->batch * (learners->batch / learners->count);
  const int64_t rest = samples % learners->batch;
  RengaCheck(samples > 0, printer, RENGA_ERR_FILE_FORMAT,
             "the data set has no samples to train with");
  if (whole + rest / learners->count > 0)
    RengaCall(RengaPartitionAddDataPass(partition, whole + rest / learners->count));
  if (rest % learners->count)
    RengaCall(RengaPartitionAddDataPass(partition, whole + rest / learners->count + 1));
  if (eval_samples > 0) RengaCall(RengaPartitionAddDataPass(partition, eval_samples));
  return RENGA_SUCCESS;
}

static RengaErrorCode AnnounceShort(RengaPipeline pipeline, int64_t samples)
{
  if (samples > 0) RengaCall(RengaPipelineSetDataShortBatch(pipeline, samples));
  return RENGA_SUCCESS;
}

/* The sizes of batches that will occur besides the whole one. */
static RengaErrorCode AnnounceAll(const AppLearners *learners, RengaPipeline pipeline,
                                  RengaData data, int64_t eval_samples)
{
  int64_t samples;
  const int64_t batch = learners->batch / learners->count;
  RengaCall(RengaDataGetCount(data, RENGA_DATA_TRAINING, &samples));
  const int64_t rest = samples % learners->batch;
  RengaCall(AnnounceShort(pipeline, rest / learners->count));
  if (rest % learners->count) RengaCall(AnnounceShort(pipeline, rest / learners->count + 1));
  RengaCall(AnnounceShort(pipeline, eval_samples % batch));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpOwn(AppLearners *learners, RengaGraph graph, RengaPlan plan,
                               RengaData data, int64_t eval_samples)
{
  for (int l = 0; l < learners->own; l++) {
    RengaCall(RengaPipelineSetPlan(learners->pipeline[l], graph, plan));
    RengaCall(AnnounceAll(learners, learners->pipeline[l], data, eval_samples));
    RengaCall(RengaPipelineSetUp(learners->pipeline[l]));
  }
  return RENGA_SUCCESS;
}

/* Of the plan and its device. */
static RengaErrorCode CheckLearnersPlan(const AppLearners *learners, RengaPlan plan)
{
  RengaDevice device;
  const char *type, *manner;
  MPI_Comm printer;
  RengaCall(RengaObjectGetComm(learners->all, &printer));
  RengaCall(RengaOptionsGetString("device_type", &type, NULL));
  RengaCall(RengaOptionsGetString("train_average", &manner, NULL));
  const RengaStageShape *shape = &RengaPlanGetStage(plan, 0)->shape;
  RengaCheck(shape->tensor == 1 && shape->sequence == 1, printer, RENGA_ERR_SUPPORT,
             "a plan with %s ranks together with -train_average %s is not supported",
             shape->tensor > 1 ? "tensor-parallel" : "context-parallel", manner);
  RengaCall(RengaPipelineGetDevice(learners->pipeline[0], &device));
  RengaCheck(RengaDeviceIsHost(device), printer, RENGA_ERR_SUPPORT,
             "-train_average local and gossip are not supported for -device_type %s, which has "
             "memory of its own",
             type);
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersSetUp(AppLearners *learners, RengaGraph graph, RengaPlan plan,
                                RengaData data, int64_t eval_samples)
{
  MPI_Comm printer;
  int64_t batch, microbatch;
  RengaCall(RengaObjectGetComm(learners->all, &printer));
  RengaCall(RengaPlanGetBatch(plan, &batch, &microbatch));
  learners->batch = batch * learners->count;
  if (learners->apart) RengaCall(CheckLearnersPlan(learners, plan));
  RengaCall(RengaErrorAgree(printer, SetUpOwn(learners, graph, plan, data, eval_samples)));
  if (!learners->apart) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(printer, AppMeanCreate(learners, &learners->mean)));
  RengaCall(AppLearnersSpread(learners));
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersSpread(AppLearners *learners)
{
  AppMean mean = learners->mean;
  if (!learners->apart) return RENGA_SUCCESS;
  RengaCall(AppMeanTakeLists(mean));
  AppMeanRead(mean, 0, 0, mean->elements, mean->values);
  if (learners->across)
    RengaCall(RengaCommBroadcast(learners->across, mean->values,
                                 (size_t)mean->elements * sizeof *mean->values, 0,
                                 "the first values of all learners"));
  for (int l = 0; l < learners->own; l++) AppMeanWrite(mean, l, 0, mean->elements, mean->values);
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersPlaceData(const AppLearners *learners, RengaData data,
                                    const AppFields *fields)
{
  const int64_t batch = learners->batch / learners->count;
  const int64_t begin[] = {learners->first * batch, (learners->first + learners->own - 1) * batch};
  RengaCall(AppPlaceData(learners->pipeline[0], begin, data, fields));
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersPrint(const AppLearners *learners)
{
  const char *manner;
  MPI_Comm printer;
  if (!learners->apart) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(learners->all, &printer));
  RengaCall(RengaOptionsGetString("train_average", &manner, NULL));
  RengaCall(RengaPrintf(printer,
                        "%d learners train apart (%s), each with %lld of %lld samples of a step: "
                        "%d on each of %d group%s of ranks\n",
                        learners->count, manner, (long long)(learners->batch / learners->count),
                        (long long)learners->batch, learners->own, learners->groups,
                        learners->groups == 1 ? "" : "s"));
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersSetStep(AppLearners *learners, int64_t step)
{
  for (int l = 0; l < learners->own; l++)
    RengaCall(RengaPipelineSetStepNumber(learners->pipeline[l], step));
  return RENGA_SUCCESS;
}

/* This rank's learner l makes its step; one that has no samples of a short batch rests. */
static RengaErrorCode StepOne(AppLearners *learners, int l, const AppWindow *whole, int64_t count)
{
  const int number = learners->first + l;
  const int64_t from = FirstOfShare(learners, count, number),
                to = FirstOfShare(learners, count, number + 1);
  AppWindow window = *whole;
  RengaBatch batch = {.samples = to - from, .read = AppReadWindow, .user = &window};
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

static RengaErrorCode StepOwn(AppLearners *learners, const AppWindow *window, int64_t count)
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

static void AddResults(const AppLearners *learners, AppRow *result)
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
static RengaErrorCode StepApart(AppLearners *learners, const AppWindow *window, AppRow *row)
{
  MPI_Comm printer;
  const int last = VALUES * learners->count;
  RengaCall(RengaObjectGetComm(learners->all, &printer));
  memset(learners->values, 0, (size_t)(last + 1) * sizeof *learners->values);
  const RengaErrorCode code = StepOwn(learners, window, row->samples);
  learners->values[last] = code != RENGA_SUCCESS;
  RengaCall(
      RengaCommSumExact(learners->all, last + 1, learners->values, "all learners to end a step"));
  AddResults(learners, row);
  learners->nonfinite = row->skipped;
  if (learners->values[last] > 0) RengaCall(RengaErrorAgree(printer, code));
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersStep(AppLearners *learners, const AppWindow *window, AppRow *row)
{
  RengaPipeline pipeline = learners->pipeline[0];
  AppWindow whole = *window;
  RengaBatch batch = {.samples = row->samples, .read = AppReadWindow, .user = &whole};
  if (learners->apart) return StepApart(learners, window, row);
  RengaCall(RengaPipelineStep(pipeline, &batch, &row->loss));
  RengaCall(RengaPipelineGetGradientNorm(pipeline, &row->gradient_norm));
  RengaCall(RengaPipelineGetNonfiniteCount(pipeline, &row->skipped));
  return RENGA_SUCCESS;
}

static RengaErrorCode ExchangeAll(AppLearners *learners, int64_t step)
{
  AppMean mean = learners->mean;
  if (learners->gossip) return AppMeanGossip(mean, step / learners->every);
  RengaCall(AppMeanMake(mean));
  for (int l = 0; l < learners->own; l++) AppMeanWrite(mean, l, 0, mean->elements, mean->values);
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersExchange(AppLearners *learners, int64_t step)
{
  MPI_Comm printer;
  if (!learners->apart || step % learners->every != 0) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(learners->all, &printer));
  RengaCall(RengaErrorAgree(printer, ExchangeAll(learners, step)));
  return RENGA_SUCCESS;
}

static RengaErrorCode ShowMean(AppMean mean)
{
  RengaCall(AppMeanMake(mean));
  AppMeanRead(mean, 0, 0, mean->elements, mean->kept);
  AppMeanWrite(mean, 0, 0, mean->elements, mean->values);
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersShowMean(AppLearners *learners)
{
  MPI_Comm printer;
  if (!learners->apart || learners->shown) return RENGA_SUCCESS;
  RengaCall(RengaObjectGetComm(learners->all, &printer));
  RengaCall(RengaErrorAgree(printer, ShowMean(learners->mean)));
  learners->shown = true;
  return RENGA_SUCCESS;
}

RengaErrorCode AppLearnersHideMean(AppLearners *learners)
{
  AppMean mean = learners->mean;
  if (!learners->shown) return RENGA_SUCCESS;
  RengaCall(AppMeanTakeLists(mean));
  AppMeanWrite(mean, 0, 0, mean->elements, mean->kept);
  learners->shown = false;
  return RENGA_SUCCESS;
}
