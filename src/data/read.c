/* Samples of a data set that is set up: how many, which in a step, and their values. */
#include "dataimpl.h"

enum {
  CHUNK = 1024,        /* samples that are read at once */
  EXPECTED = 16 * 1024 /* bytes of a sample; smaller ones the system reads several at once */
};

static RengaErrorCode CheckPart(RengaData data, RengaDataPart part, const char *function)
{
  RengaCheckPointerOf(function, data);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  RengaCheck(part == RENGA_DATA_TRAINING || part == RENGA_DATA_VALIDATION, MPI_COMM_SELF,
             RENGA_ERR_ARGUMENT, "there is no part %d", (int)part);
  return RENGA_SUCCESS;
}

/*@
   RengaDataGetCount - the samples of a part

   Input:
   . data - set up
   . part - training or validation

   Output:
   . samples - their number; 0 where there is no validation part

   Errors: RENGA_ERR_ORDER before RengaDataSetUp; RENGA_ERR_ARGUMENT for a part that there is
   not.

   See also: RengaDataGetStep()
@*/
RengaErrorCode RengaDataGetCount(RengaData data, RengaDataPart part, int64_t *samples)
{
  RengaCall(CheckPart(data, part, __func__));
  RengaCheckPointer(samples);
  *samples = data->part[part].count;
  return RENGA_SUCCESS;
}

/*@
   RengaDataGetStep - which samples a step takes

   Input:
   . data - set up
   . part - training or validation
   . batch - samples of a step, at most
   . step - the number of the step, from 0, in an endless sequence of epochs

   Output:
   . first - the place of the first sample in its epoch's order, from 0
   . count - samples of the step, at least 1; the last step of an epoch takes the samples that are
     left
   . epoch - the number of the epoch, from 0

   Errors: RENGA_ERR_ORDER before RengaDataSetUp; RENGA_ERR_ARGUMENT for a negative step, an
   empty batch, or a part that there is not.

   See also: RengaDataGetCount(), RengaDataRead()
@*/
RengaErrorCode RengaDataGetStep(RengaData data, RengaDataPart part, int64_t batch, int64_t step,
                                int64_t *first, int64_t *count, int64_t *epoch)
{
  RengaCall(CheckPart(data, part, __func__));
  RengaCheckPointers(first, count, epoch);
  int64_t samples = data->part[part].count;
  RengaCheck(batch > 0 && step >= 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "step %lld of batches of %lld samples", (long long)step, (long long)batch);
  RengaCheck(samples > 0, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "data set %s has no validation part: set -data_validation", data->source);
  int64_t steps = samples / batch + (samples % batch > 0);
  *epoch = step / steps;
  *first = step % steps * batch;
  *count = samples - *first < batch ? samples - *first : batch;
  if (part == RENGA_DATA_TRAINING)
    RengaDataPlaces_Private(data, *epoch, batch, step % steps, first, count);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckClasses(RengaData data, RengaDataPart source, const RengaDataField *f,
                                   int64_t count, const int64_t samples[], const void *values)
{
  if (f->classes == 0 || f->elements == 0) return RENGA_SUCCESS;
  const int64_t n = count * f->elements;
  const int64_t at = RengaDataFindOutside(f->spec.type, values, n, f->classes, data->ignored);
  if (at == n) return RENGA_SUCCESS;
  int64_t sample = samples[at / f->elements];
  const char *file = RengaDataFileName_Private(data, source, &sample);
  RengaRaise(
      MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
      "sample %lld of %s, input %s: %.0f is none of the %lld classes, 0 to %lld: correct the "
      "data, or give the network more classes",
      (long long)sample, file, f->name, RengaDataValueAt(f->spec.type, values, at),
      (long long)f->classes, (long long)f->classes - 1);
}

/* Samples of a part at places of an epoch's order. */
static void FindAtPlaces(const struct _p_RengaData *data, RengaDataPart part, int64_t epoch,
                         int64_t first, int64_t count, int64_t samples[])
{
  if (part == RENGA_DATA_TRAINING)
    RengaDataAt_Private(data, epoch, first, count, samples);
  else
    for (int64_t i = 0; i < count; i++) samples[i] = first + i;
}

/* Numbers of the samples at places of an epoch's order; raw: what is held of them. */
static RengaErrorCode FindSamples(RengaData data, RengaDataPart part, int field, int64_t epoch,
                                  int64_t first, int64_t count, int64_t samples[],
                                  const char *raw[])
{
  const bool held = part == RENGA_DATA_TRAINING && data->placement;
  if (held)
    RengaCall(RengaPlacementGet_Private(data, field, epoch, first, count, samples, raw));
  else
    FindAtPlaces(data, part, epoch, first, count, samples);
  for (int64_t i = 0; i < count; i++) {
    samples[i] += data->part[part].first;
    if (!held) raw[i] = NULL;
  }
  return RENGA_SUCCESS;
}

/* Those that stand in the next batch where these stand in theirs: the system reads them meanwhile.
   */
static void ExpectChunk(RengaData data, RengaDataPart part, int field, int64_t epoch, int64_t first,
                        int64_t count)
{
  int64_t samples[CHUNK];
  const int64_t begin = first + data->owners.batch, left = data->part[part].count - begin;
  const size_t bytes = RengaDataRawBytes_Private(data, field);
  if (bytes < EXPECTED || data->owners.batch == 0) return;
  if (count > left) count = left;
  if (count > 0) FindAtPlaces(data, part, epoch, begin, count, samples);
  for (int64_t i = 0; i < count; i++) samples[i] += data->part[part].first;
  RengaDataExpectFile_Private(data, data->part[part].source, field, count, samples);
}

/* At most CHUNK samples. */
static RengaErrorCode ReadChunk(RengaData data, RengaDataPart part, int field, int64_t epoch,
                                int64_t first, int64_t count, void *buffer)
{
  int64_t samples[CHUNK];
  const char *raw[CHUNK];
  RengaCall(FindSamples(data, part, field, epoch, first, count, samples, raw));
  if (part == RENGA_DATA_VALIDATION || !data->placement)
    ExpectChunk(data, part, field, epoch, first, count);
  const RengaDataPart source = data->part[part].source;
  RengaCall(data->ops->read(data, source, field, epoch, count, samples, raw, buffer));
  RengaCall(CheckClasses(data, source, &data->fields[field], count, samples, buffer));
  return RENGA_SUCCESS;
}

/*@
   RengaDataRead - one input of some samples

   Input:
   . data - set up
   . part - training, in the epoch's order, or validation, in the file's
   . field - the number of the input, from 0
   . epoch - the number of the epoch, from 0
   . first, count - the first place in that order, from 0, and the number of places, at least 0

   Output:
   . buffer - count samples, in the type of the input

   Errors: RENGA_ERR_ORDER before RengaDataSetUp; RENGA_ERR_ARGUMENT for a field or samples that
   there are not; RENGA_ERR_FILE_FORMAT for a class that the field does not have, or a number that
   the input's type cannot hold.

   Notes: the same whoever reads it. An error of a sample names its file, its number there, the
   input and the value.

   See also: RengaDataGetStep(), RengaDataSetFields()
@*/
RengaErrorCode RengaDataRead(RengaData data, RengaDataPart part, int field, int64_t epoch,
                             int64_t first, int64_t count, void *buffer)
{
  RengaCall(CheckPart(data, part, __func__));
  RengaCheck(field >= 0 && field < data->n_fields, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "input %d is not one of 0 to %d", field, data->n_fields - 1);
  RengaCheck(first >= 0 && count >= 0 && first <= data->part[part].count - count && epoch >= 0,
             MPI_COMM_SELF, RENGA_ERR_ARGUMENT, "samples %lld to %lld of %lld in epoch %lld",
             (long long)first, (long long)(first + count - 1), (long long)data->part[part].count,
             (long long)epoch);
  RengaCheck(count == 0 || buffer != NULL, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "%lld samples have no buffer", (long long)count);
  size_t bytes = RengaTensorSpecBytes(&data->fields[field].spec);
  for (int64_t at = 0; at < count; at += CHUNK)
    RengaCall(ReadChunk(data, part, field, epoch, first + at,
                        count - at < CHUNK ? count - at : CHUNK,
                        (char *)buffer + (size_t)at * bytes));
  return RENGA_SUCCESS;
}

/*@
   RengaDataFindSample - which training sample stands at a place of an epoch

   Input:
   . data - set up
   . epoch - the number of the epoch, from 0
   . place - the place in the epoch's order, from 0, as RengaDataGetStep says it

   Output:
   . sample - the sample's number among the training samples, from 0, as the files have them

   Errors: RENGA_ERR_ORDER before RengaDataSetUp; RENGA_ERR_ARGUMENT for a place that is not in the
   epoch.

   Notes: a program that has the samples itself takes them in the order that a data set of as many
   samples would have; -data synthetic with -data_samples is one.

   See also: RengaDataRead(), RengaDataFindOwner()
@*/
RengaErrorCode RengaDataFindSample(RengaData data, int64_t epoch, int64_t place, int64_t *sample)
{
  RengaCall(CheckPart(data, RENGA_DATA_TRAINING, __func__));
  RengaCheckPointer(sample);
  const int64_t samples = data->part[RENGA_DATA_TRAINING].count;
  RengaCheck(epoch >= 0 && place >= 0 && place < samples, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "place %lld of epoch %lld of %lld samples", (long long)place, (long long)epoch,
             (long long)samples);
  RengaDataAt_Private(data, epoch, place, 1, sample);
  return RENGA_SUCCESS;
}

/*@
   RengaDataGetVocabulary - the kinds of tokens of a text

   Input:
   . data - set up

   Output:
   . classes - exclusive bound of the tokens; 0 where the set is not one of tokens

   Errors: RENGA_ERR_ORDER before RengaDataSetUp.

   See also: RengaVocabularyRead()
@*/
RengaErrorCode RengaDataGetVocabulary(RengaData data, int64_t *classes)
{
  RengaCheckPointers(data, classes);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  *classes = data->vocabulary;
  return RENGA_SUCCESS;
}
