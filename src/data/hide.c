/* Data: training samples of the least loss are hidden for an epoch. Nguyen et al., KAKURENBO:
   Adaptively Hiding Samples in Deep Neural Network Training, NeurIPS 2023.

   Of each sample the loss is kept, and where it has one label how sure the network was, from the
   last time that it was computed with. At the beginning of an epoch the share F of the samples with
   the least loss are candidates; those that were classified wrongly, or less surely than a bound,
   are moved back; of the rest as many whole batches as there are, of the least loss, are hidden.
   They stand at the end of the epoch, for an evaluation that finds their losses anew.

   Unlike the published scripts: probabilities are over the classes, not over the batch; a sample is
   one sample whatever the number of ranks, for none is doubled to make ranks equal; a sample whose
   loss is not known, or not finite, is not hidden. */
#include "dataimpl.h"
#include "renga/private/epochs.h"
#include <math.h>

#define AT(member) offsetof(struct _p_RengaData, hiding.member)
#define MOST_HIDDEN 0.9

static const RengaOptionRow hiding_rows[] = {
    {"data_hide", RENGA_OPTION_REAL, "0", AT(fraction), NULL, 0, MOST_HIDDEN,
     "largest share of the training samples that an epoch may leave out"},
    {"data_importance", RENGA_OPTION_ENUM, "loss", AT(importance), "loss|random|gradient_norm", 0,
     0, "measure by which -data_hide ranks samples"},
    {"data_hide_confidence", RENGA_OPTION_REAL, "0.7", AT(confidence), NULL, 0, 1,
     "samples with a less probable label than this are never hidden"},
    {"data_hide_warmup", RENGA_OPTION_INT64, "1", AT(warmup), NULL, 1, 1e15,
     "epochs in which nothing is hidden"},
    {"data_hide_schedule", RENGA_OPTION_ENUM, "stairs", AT(schedule), "stairs|constant", 0, 0,
     "share of -data_hide over the epochs: falling in stairs, or constant"},
    {"data_hide_rate", RENGA_OPTION_BOOL, "true", AT(adapts_rate), NULL, 0, 0,
     "divide the learning rate by the share of samples not hidden"},
};
enum { HIDING_OPTIONS = sizeof hiding_rows / sizeof *hiding_rows };

RengaErrorCode RengaDataRegisterHiding_Private(void)
{
  RengaCall(RengaOptionsRegister("Data", HIDING_OPTIONS, hiding_rows));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataBeginHiding_Private(RengaData data)
{
  data->hiding.epoch = -1;
  RengaCall(RengaOptionsSetDefaults(HIDING_OPTIONS, hiding_rows, data));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataReadHidingOptions_Private(RengaData data)
{
  RengaCall(RengaOptionsSetFromDatabase(data->hdr.prefix, HIDING_OPTIONS, hiding_rows, data));
  return RENGA_SUCCESS;
}

/* What was learned about the samples of a set that is opened anew is not about them. */
void RengaDataForgetLosses_Private(RengaData data)
{
  RengaFree(&data->hiding.state);
  RengaHiddenFree_Private(&data->hiding.hidden);
  data->hiding.epoch = -1;
}

RengaErrorCode RengaDataEndHiding_Private(RengaData data)
{
  RengaDataForgetLosses_Private(data);
  RengaCall(RengaOptionsFreeStrings(HIDING_OPTIONS, hiding_rows, data));
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetHiding - leave out the training samples that matter least

   Collective

   Input:
   . fraction - the most that an epoch leaves out, 0 to 0.9; 0: nothing
   . importance - RENGA_IMPORTANCE_LOSS, RENGA_IMPORTANCE_GRADIENT_NORM, or RENGA_IMPORTANCE_RANDOM
     for comparison

   Options:
   . -data_hide - the fraction
   . -data_importance - loss, gradient_norm or random
   . -data_hide_confidence - a sample of one label is not hidden where its label was not the
     likeliest class, or had a probability below this (0.7); 0: only the first
   . -data_hide_warmup - epochs in which nothing is hidden (1)
   . -data_hide_schedule - stairs: all of the fraction, from 30 % of the epochs on 0.8 of it, from
     60 % 0.6, from 80 % 0.4 (as the paper); constant
   . -data_hide_rate - whether whoever trains divides the learning rate by the share that is left
     (true)

   Errors: RENGA_ERR_ARGUMENT for another share or number.

   Notes: RengaTrainer hides samples. With gradient_norm their numbers are norms
   (RengaGraphSetSampleNorms). Source: KAKURENBO, NeurIPS 2023.

   See also: RengaDataGetHiding()
@*/
RengaErrorCode RengaDataSetHiding(RengaData data, double fraction, RengaImportance importance)
{
  RengaCheckPointer(data);
  RengaCheck(fraction >= 0 && fraction <= MOST_HIDDEN, data->hdr.comm, RENGA_ERR_ARGUMENT,
             "a share of %g hidden samples is not in 0 to %g", fraction, MOST_HIDDEN);
  RengaCheck((unsigned)importance <= RENGA_IMPORTANCE_GRADIENT_NORM, data->hdr.comm,
             RENGA_ERR_ARGUMENT, "%d is no RengaImportance", (int)importance);
  data->hiding.importance = importance;
  data->hiding.fraction = fraction;
  return RENGA_SUCCESS;
}

/*@
   RengaDataGetHiding - what may be left out

   Output:
   . fraction - the share of the samples, from 0, as RengaDataSetHiding takes it
   . importance - the measure that RengaDataSetHiding takes
   . adapts_rate - whether the learning rate is to be divided by the share that is left
@*/
RengaErrorCode RengaDataGetHiding(RengaData data, double *fraction, RengaImportance *importance,
                                  bool *adapts_rate)
{
  RengaCheckPointers(data, fraction, importance, adapts_rate);
  *fraction = data->hiding.fraction;
  *importance = data->hiding.importance;
  *adapts_rate = data->hiding.adapts_rate;
  return RENGA_SUCCESS;
}

static int64_t TrainingSamples(RengaData data)
{
  return data->part[RENGA_DATA_TRAINING].count;
}

/* Where the state of a sample lies: three rows of one number for each. */
static float *KnownLosses(RengaData data)
{
  return data->hiding.state;
}

static float *KnownConfidences(RengaData data)
{
  return data->hiding.state + TrainingSamples(data);
}

static float *HiddenRow(RengaData data)
{
  return data->hiding.state + 2 * TrainingSamples(data);
}

static RengaErrorCode NeedState(RengaData data)
{
  const int64_t samples = TrainingSamples(data);
  if (data->hiding.state) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(3 * samples, &data->hiding.state));
  for (int64_t i = 0; i < samples; i++) KnownLosses(data)[i] = INFINITY;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckHiding(RengaData data, const char *function)
{
  RengaCheckPointerOf(function, data);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  return RENGA_SUCCESS;
}

/* The share that may be hidden when so much of the training is done. */
static double FractionAt(RengaData data, int64_t epoch, double progress)
{
  const RengaDataHiding *hiding = &data->hiding;
  if (epoch < hiding->warmup) return 0;
  if (hiding->schedule == HIDE_CONSTANT) return hiding->fraction;
  return hiding->fraction * (progress < 0.3   ? 1
                             : progress < 0.6 ? 0.8
                             : progress < 0.8 ? 0.6
                                              : 0.4);
}

static bool IsRandom(RengaData data)
{
  return data->hiding.importance == RENGA_IMPORTANCE_RANDOM;
}

/* Keys whose order is that of importance. */
static void MakeKeys(RengaData data, int64_t epoch, uint32_t key[])
{
  const uint32_t stream[2] = {(uint32_t)data->seed, (uint32_t)(data->seed >> 32) ^ 0x41de};
  for (int64_t i = 0; i < TrainingSamples(data); i++) {
    const uint32_t counter[4] = {(uint32_t)i, (uint32_t)((uint64_t)i >> 32), (uint32_t)epoch, 1};
    uint32_t drawn[4];
    if (!IsRandom(data)) {
      key[i] = RengaDataKey_Private(KnownLosses(data)[i]);
      continue;
    }
    RengaPhilox(counter, stream, drawn);
    key[i] = drawn[0] == RENGA_KEY_NONE ? 0 : drawn[0];
  }
}

/* Of the marked samples those that the network got wrong, or was not sure of, lose their mark; all
   that have none get no key. */
static int64_t MoveBack(RengaData data, bool marked[], uint32_t key[])
{
  int64_t left = 0;
  for (int64_t i = 0; i < TrainingSamples(data); i++) {
    const float sure = KnownConfidences(data)[i];
    if (!IsRandom(data) && (sure <= 0 || (double)sure < data->hiding.confidence)) marked[i] = false;
    if (!marked[i]) key[i] = RENGA_KEY_NONE;
    left += marked[i];
  }
  return left;
}

static RengaErrorCode Choose(RengaData data, int64_t batch, double fraction, uint32_t key[],
                             bool marked[], RengaDataEpoch *chosen)
{
  const int64_t samples = TrainingSamples(data);
  int64_t known = 0;
  MakeKeys(data, chosen->epoch, key);
  for (int64_t i = 0; i < samples; i++) known += key[i] != RENGA_KEY_NONE;
  chosen->candidates = (int64_t)(fraction * (double)samples);
  if (chosen->candidates > known) chosen->candidates = known;
  RengaCall(RengaDataSelect_Private(samples, key, chosen->candidates, marked));
  const int64_t left = MoveBack(data, marked, key);
  chosen->moved_back = chosen->candidates - left;
  chosen->hidden = left / batch * batch;
  RengaCall(RengaDataSelect_Private(samples, key, chosen->hidden, marked));
  return RENGA_SUCCESS;
}

/* The marks are those of the epoch: bits for its order, a row for checkpoints. */
static RengaErrorCode Hide(RengaData data, int64_t epoch, const bool marked[])
{
  data->hiding.epoch = -1;
  RengaCall(RengaHiddenSet_Private(&data->hiding.hidden, TrainingSamples(data), marked));
  for (int64_t i = 0; i < TrainingSamples(data); i++) HiddenRow(data)[i] = marked[i];
  data->hiding.epoch = epoch;
  return RENGA_SUCCESS;
}

/* Choose the training samples that an epoch leaves out. Collective in effect: all ranks choose the
   same, without a message. Hidden samples stand behind the others in the epoch's order: the steps
   that take them are for RengaPipelineForwardTo and RengaDataPutLosses, not for training. The steps
   of an epoch are as many as without hiding. epoch: the number of the epoch, from 0; from now on
   its order and its steps are those without the hidden samples. batch: samples of a step, at least
   1: whole batches are hidden. progress: the part of the training that is done, from 0 to 1, for
   the schedule. */
RengaErrorCode RengaDataBeginEpoch(RengaData data, int64_t epoch, int64_t batch, double progress,
                                   RengaDataEpoch *chosen)
{
  uint32_t *key = NULL;
  bool *marked = NULL;
  RengaCall(CheckHiding(data, __func__));
  RengaCheckPointer(chosen);
  RengaCheck(epoch >= 0 && batch > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "epoch %lld of batches of %lld samples", (long long)epoch, (long long)batch);
  RengaDataEpoch found = {.epoch = epoch, .samples = TrainingSamples(data)};
  RengaCall(NeedState(data));
  RengaErrorCode code = RengaMalloc(found.samples, &key);
  if (!code) code = RengaMalloc(found.samples, &marked);
  if (!code) code = Choose(data, batch, FractionAt(data, epoch, progress), key, marked, &found);
  if (!code) code = Hide(data, epoch, marked);
  RengaFree(&key);
  RengaFree(&marked);
  RengaCall(code);
  *chosen = found;
  return RENGA_SUCCESS;
}

/* How many samples the epoch leaves out that was begun last. epoch: its number; -1: none was begun.
   hidden: the number of samples that are hidden, at least 0. */
RengaErrorCode RengaDataGetHidden(RengaData data, int64_t *epoch, int64_t *hidden)
{
  RengaCall(CheckHiding(data, __func__));
  RengaCheckPointers(epoch, hidden);
  *epoch = data->hiding.epoch;
  *hidden = data->hiding.epoch < 0 ? 0 : data->hiding.hidden.count;
  return RENGA_SUCCESS;
}

/* What a step found about its samples. Collective in effect: the same on all ranks. columns: 1:
   losses; 2: and how sure the network was, negative where it was wrong. values: [count x columns],
   any numbers, as RengaPipelineGetSampleLosses gives them. */
RengaErrorCode RengaDataPutLosses(RengaData data, int64_t epoch, int64_t first, int64_t count,
                                  int64_t columns, const double values[])
{
  RengaCall(CheckHiding(data, __func__));
  RengaCheckPointer(values);
  RengaCheck(first >= 0 && count >= 0 && first <= TrainingSamples(data) - count && epoch >= 0 &&
                 (columns == 1 || columns == 2),
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%lld numbers of samples %lld to %lld of %lld in epoch %lld", (long long)columns,
             (long long)first, (long long)(first + count - 1), (long long)TrainingSamples(data),
             (long long)epoch);
  RengaCall(NeedState(data));
  for (int64_t i = 0; i < count; i++) {
    int64_t sample;
    RengaDataAt_Private(data, epoch, first + i, 1, &sample);
    KnownLosses(data)[sample] = (float)values[i * columns];
    KnownConfidences(data)[sample] = columns == 2 ? (float)values[i * columns + 1] : 1;
  }
  return RENGA_SUCCESS;
}

/* What is known of the samples, for checkpoints. samples: the number of samples of the training
   part, at least 0. state: [3, samples]: loss, confidence, and 1 where the epoch hides the sample;
   lent. A program may fill it, and then calls RengaDataResumeEpoch. */
RengaErrorCode RengaDataGetHidingState(RengaData data, int64_t *samples, float **state)
{
  RengaCall(CheckHiding(data, __func__));
  RengaCheckPointers(samples, state);
  RengaCall(NeedState(data));
  *samples = TrainingSamples(data);
  *state = data->hiding.state;
  return RENGA_SUCCESS;
}

/* Go on in the middle of an epoch with the hidden samples of its state. Collective in effect: the
   same on all ranks. epoch: the number of the running epoch, from 0. batch: samples of a step, at
   least 1. */
RengaErrorCode RengaDataResumeEpoch(RengaData data, int64_t epoch, int64_t batch)
{
  int64_t hidden = 0;
  bool *marked;
  RengaCall(CheckHiding(data, __func__));
  RengaCall(NeedState(data));
  for (int64_t i = 0; i < TrainingSamples(data); i++) hidden += HiddenRow(data)[i] > 0;
  RengaCheck(batch > 0 && hidden % batch == 0 && hidden < TrainingSamples(data), data->hdr.comm,
             RENGA_ERR_OPTION,
             "the checkpoint's epoch hides %lld samples, which are no batches of %lld: go on with "
             "the -batch_size of the run, or after a whole epoch",
             (long long)hidden, (long long)batch);
  RengaCall(RengaMalloc(TrainingSamples(data), &marked));
  for (int64_t i = 0; i < TrainingSamples(data); i++) marked[i] = HiddenRow(data)[i] > 0;
  const RengaErrorCode code = Hide(data, epoch, marked);
  RengaFree(&marked);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The running epoch goes on after the state was filled from elsewhere. Of use after a step back to
   an older checkpoint: the losses are those of the file, the hidden samples those of the epoch that
   runs. */
RengaErrorCode RengaDataKeepEpoch(RengaData data)
{
  RengaCall(CheckHiding(data, __func__));
  const RengaHidden *hidden = &data->hiding.hidden;
  if (!data->hiding.state) return RENGA_SUCCESS;
  for (int64_t i = 0; i < TrainingSamples(data); i++)
    HiddenRow(data)[i] = hidden->word && (hidden->word[i / 64] >> (i % 64) & 1);
  return RENGA_SUCCESS;
}
