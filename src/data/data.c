/* Data: samples of a file or made up, in an order that only the seed decides. */
#include "dataimpl.h"
#include "renga/private/same.h"
#include "renga/private/packages.h"
#include "renga/private/wait.h"
#include <string.h>

#define AT(member) offsetof(struct _p_RengaData, member)
#define SYNTHETIC "synthetic"

static const RengaOptionRow option_rows[] = {
    {"data", RENGA_OPTION_STRING, NULL, AT(source), NULL, 0, 0,
     "HDF5 files of the samples, with commas and patterns, or: synthetic"},
    {"data_samples", RENGA_OPTION_INT64, "4096", AT(samples_option), NULL, 1, 4e18,
     "samples of -data synthetic"},
    {"data_validation", RENGA_OPTION_REAL, "0", AT(validation), NULL, 0, 0.999,
     "share of the samples, from the end, that is kept for validation"},
    {"data_masking", RENGA_OPTION_REAL, "0", AT(masking), NULL, 0, 0.999,
     "share of the tokens that are masked, as for BERT; 0: none"},
};
enum { OPTIONS = sizeof option_rows / sizeof *option_rows, IGNORED = -100 };

RengaErrorCode RengaDataRegisterPackage(void)
{
  RengaCall(RengaOptionsRegister("Data", OPTIONS, option_rows));
  RengaCall(RengaDataRegisterHiding_Private());
  RengaCall(RengaDataRegisterOwners_Private());
  return RENGA_SUCCESS;
}

static void FreeFields(RengaData data)
{
  for (int i = 0; i < data->n_fields; i++) RengaFree(&data->fields[i].name);
  RengaFree(&data->fields);
  data->n_fields = 0;
}

static RengaErrorCode DataDestroy(void *object)
{
  RengaData data = object;
  RengaCall(RengaDataEndPlacement_Private(data));
  RengaCall(RengaDataCloseFile(data));
  FreeFields(data);
  RengaFree(&data->validation_source);
  RengaFree(&data->shuffled);
  RengaCall(RengaDataEndHiding_Private(data));
  RengaCall(RengaDataEndOwners_Private(data));
  RengaCall(RengaOptionsFreeStrings(OPTIONS, option_rows, data));
  return RENGA_SUCCESS;
}

static RengaErrorCode DataIsNew(RengaData data, const char *function)
{
  RengaCheckPointerOf(function, data);
  RengaCall(RengaDataEndPlacement_Private(data));
  RengaCall(RengaDataCloseFile(data));
  data->hdr.state = RENGA_STATE_NEW;
  return RENGA_SUCCESS;
}

/*@
   RengaDataCreate - make a data set

   Collective

   Output:
   . data - end it with RengaDataDestroy

   See also: RengaDataSetFromOptions(), RengaDataSetUp(), RengaDataDestroy()
@*/
RengaErrorCode RengaDataCreate(RengaComm comm, RengaData *data)
{
  RengaCheckPointers(comm, data);
  RengaData d;
  RengaCall(RengaHeaderCreate(comm, "RengaData", sizeof *d, DataDestroy, &d));
  RengaErrorCode code = RengaOptionsSetDefaults(OPTIONS, option_rows, d);
  if (!code) code = RengaDataBeginHiding_Private(d);
  if (!code) code = RengaDataBeginOwners_Private(d);
  if (!code) code = RengaMalloc(1, &d->shuffled);
  if (code) RengaHeaderDestroy(&d);
  RengaCall(code);
  d->ignored = IGNORED;
  *data = d;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetFromOptions - take what the user asked for

   Collective

   Options:
   . -data - HDF5 files of the samples, separated by commas, with * and ? where the shell has left
     them, or: synthetic
   . -data_samples - samples of -data synthetic (4096)
   . -data_shuffle - true or global: training samples of each epoch in an order drawn from the seed;
     local and partial:Q: within owners (RengaDataSetOwners); false: as the files have them (true)
   . -data_validation - share of the samples, from the end, that is kept for validation (0)
   . -data_masking - share of the tokens that the network must find again (0: it finds the next)
   . -data_placement, -data_cache - see RengaDataSetPlacement
   . -data_hide, -data_importance, -data_hide_... - see RengaDataSetHiding

   Errors: RENGA_ERR_OPTION for a bad value, or options that do not go together;
   RENGA_ERR_SUPPORT for -data_hide with owners.

   See also: RengaDataSetFile(), RengaDataSetUp()
@*/
RengaErrorCode RengaDataSetFromOptions(RengaData data)
{
  const char *value;
  bool given;
  RengaCall(DataIsNew(data, __func__));
  RengaCall(RengaOptionsSetFromDatabase(data->hdr.prefix, OPTIONS, option_rows, data));
  RengaCall(RengaDataReadHidingOptions_Private(data));
  RengaCall(RengaDataReadOwnerOptions_Private(data));
  RengaCall(RengaOptionsGetString("data_samples", &value, &given));
  RengaCheck(!given || data->source == NULL || strcmp(data->source, SYNTHETIC) == 0, data->hdr.comm,
             RENGA_ERR_OPTION, "-data_samples %s is for -data synthetic; -data is %s", value,
             data->source);
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetFile - where the samples come from

   Collective

   Input:
   . file - HDF5 files, separated by commas, names or patterns with * and ?, taken as one set; or
     "synthetic"

   Options:
   . -data - the same

   Notes: a file holds one dataset [samples, …] per input of the network, in the root or the group
   training, and, if it likes, in the group validation; or a stream of tokens as RengaDataWriteText
   makes it.

   See also: RengaDataFindFiles(), RengaDataSetValidationFile(), RengaDataSetUp()
@*/
RengaErrorCode RengaDataSetFile(RengaData data, const char *file)
{
  RengaCall(DataIsNew(data, __func__));
  RengaCheckPointer(file);
  char *copy;
  RengaCall(RengaStringCopy(file, &copy));
  RengaFree(&data->source);
  data->source = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetValidationFile - other files for the validation part

   Collective

   Input:
   . file - a name, as for RengaDataSetFile. The training part of the files is taken, or all samples
     where they have no parts. NULL: none

   Notes: a validation part of the files for training is then left alone.

   See also: RengaDataSetFile()
@*/
RengaErrorCode RengaDataSetValidationFile(RengaData data, const char *file)
{
  RengaCall(DataIsNew(data, __func__));
  char *copy = NULL;
  if (file != NULL) RengaCall(RengaStringCopy(file, &copy));
  RengaFree(&data->validation_source);
  data->validation_source = copy;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetMasking - let the network find masked tokens instead of the next one

   Collective

   Input:
   . data - the data set, of tokens with a vocabulary that has one to mask with
   . share - the share of the tokens that are to be found anew, less than 1; 0: the next token is to
     be found

   Options:
   . -data_masking - the same

   Errors: RENGA_ERR_ARGUMENT for a share below 0, or of 1 and above.

   Notes: of the tokens to be found eight in ten are masked, one is another token of the vocabulary,
   one stays; the labels of all others are those that the loss ignores. Which ones they are follows
   from seed, epoch and sample alone; each sample has at least one. Source: Devlin et al. 2019,
   section 3.1.

   See also: RengaDataGetMasking(), RengaDataSetUp()
@*/
RengaErrorCode RengaDataSetMasking(RengaData data, double share)
{
  RengaCall(DataIsNew(data, __func__));
  RengaCheck(share >= 0 && share < 1, data->hdr.comm, RENGA_ERR_ARGUMENT,
             "a share of %g masked tokens is not at least 0 and less than 1", share);
  data->masking = share;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaDataGetMasking(RengaData data, double *share)
{
  RengaCheckPointers(data, share);
  *share = data->masking;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetSeed - what decides the order of samples, and made-up ones

   Collective

   Input:
   . seed - any number

   See also: RengaDataSetShuffle()
@*/
RengaErrorCode RengaDataSetSeed(RengaData data, uint64_t seed)
{
  RengaCheckPointer(data);
  RengaCall(RengaDataEndPlacement_Private(data));
  data->seed = seed;
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetIgnored - an integer that is no class but allowed: the loss ignores it

   Collective

   Input:
   . value - the ignore_index of the loss; -100 if this is not called

   See also: RengaDataSetFields()
@*/
RengaErrorCode RengaDataSetIgnored(RengaData data, int64_t value)
{
  RengaCheckPointer(data);
  data->ignored = value;
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSpec(RengaData data, const char *name, const RengaTensorSpec *spec,
                                int64_t classes)
{
  bool concrete = spec->ndim >= 0 && spec->ndim <= RENGA_MAX_DIM;
  for (int i = 0; i < spec->ndim && concrete; i++) concrete = spec->dim[i] >= 0;
  RengaCheck(concrete, data->hdr.comm, RENGA_ERR_ARGUMENT,
             "the shape of one sample of input %s is not concrete", name);
  RengaCheck(classes >= 0 && classes <= INT64_C(1) << 32, data->hdr.comm, RENGA_ERR_ARGUMENT,
             "input %s has %lld classes; 0 to 2^32 are possible", name, (long long)classes);
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetFields - what the network's inputs are

   Collective

   Input:
   . count - the number of inputs, at least 1
   . names - [count], the names of the inputs; datasets of the same name belong to them, others by
     their order
   . specs - type and shape of one sample of each, without the batch
   . classes - exclusive bound of an integer input, which made-up samples keep and read ones are
     checked against; 0: none. May be NULL

   Errors: RENGA_ERR_ARGUMENT for a shape that is not concrete, or a number of classes that
   cannot be.

   See also: RengaDataSetUp(), RengaDataRead()
@*/
RengaErrorCode RengaDataSetFields(RengaData data, int count, const char *const names[],
                                  const RengaTensorSpec specs[], const int64_t classes[])
{
  RengaCall(DataIsNew(data, __func__));
  RengaCheckPointers(names, specs);
  RengaCheck(count > 0, data->hdr.comm, RENGA_ERR_ARGUMENT, "the network has %d inputs", count);
  for (int i = 0; i < count; i++)
    RengaCall(CheckSpec(data, names[i], &specs[i], classes ? classes[i] : 0));
  FreeFields(data);
  RengaCall(RengaMalloc(count, &data->fields));
  data->n_fields = count;
  for (int i = 0; i < count; i++) {
    RengaDataField *f = &data->fields[i];
    RengaCall(RengaStringCopy(names[i], &f->name));
    f->spec = specs[i];
    f->classes = classes && RengaDataIsInteger(specs[i].type) ? classes[i] : 0;
    f->elements = RengaTensorSpecCount(&specs[i]);
  }
  return RENGA_SUCCESS;
}

/* Parts from what the source has: its own validation part, or a share of the training part's end.
   */
static RengaErrorCode PlaceParts(RengaData data, const int64_t counts[RENGA_DATA_PARTS])
{
  MPI_Comm comm = data->hdr.comm;
  RengaCheck(counts[0] > 0, comm, RENGA_ERR_FILE_FORMAT, "data set %s has no samples",
             data->source);
  RengaCheck(counts[1] == 0 || data->validation == 0, comm, RENGA_ERR_OPTION,
             "data set %s has a validation part already; leave out -data_validation", data->source);
  int64_t kept = (int64_t)((double)counts[0] * data->validation + 0.5);
  if (data->validation > 0 && kept == 0) kept = 1;
  RengaCheck(kept < counts[0], comm, RENGA_ERR_OPTION,
             "-data_validation %g of the %lld samples leaves none for training", data->validation,
             (long long)counts[0]);
  data->part[RENGA_DATA_TRAINING] = (RengaDataPartPlace){counts[0] - kept, 0, RENGA_DATA_TRAINING};
  data->part[RENGA_DATA_VALIDATION] =
      counts[1] > 0 ? (RengaDataPartPlace){counts[1], 0, RENGA_DATA_VALIDATION}
                    : (RengaDataPartPlace){kept, counts[0] - kept, RENGA_DATA_TRAINING};
  return RENGA_SUCCESS;
}

/* Ranks may see other files under one name. */
static RengaErrorCode CompareCounts(RengaData data, const int64_t counts[RENGA_DATA_PARTS])
{
  int64_t first[RENGA_DATA_PARTS] = {counts[0], counts[1]};
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCall(RengaBroadcast_Private(data->hdr.comm, first, sizeof first,
                                   "rank 0 to count the samples of the data set"));
  if (memcmp(first, counts, sizeof first) != 0)
    code = RengaErrorRaise(MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, __func__, __FILE__, __LINE__,
                           "data set %s has %lld samples here, %lld on rank 0", data->source,
                           (long long)counts[0], (long long)first[0]);
  RengaCall(RengaErrorAgree(data->hdr.comm, code));
  return RENGA_SUCCESS;
}

/* And with as many samples: some of them are compared where there are several nodes. */
static RengaErrorCode CompareSamples(RengaData data)
{
  RengaSettingList list = {0};
  char name[512];
  uint64_t digest = 0;
  int nodes;
  RengaCall(RengaCommGetNode(data->hdr.owner, NULL, &nodes, NULL, NULL));
  if (nodes < 2 || strcmp(data->source, SYNTHETIC) == 0) return RENGA_SUCCESS;
  RengaCall(RengaErrorAgree(data->hdr.comm, data->ops->digest(data, &digest)));
  snprintf(name, sizeof name, "samples of data set %s (a node has another file of that name)",
           data->source);
  RengaSettingAdd_Private(&list, name, &digest, sizeof digest);
  RengaCall(RengaCommCheckSame_Private(data->hdr.owner, RENGA_ERR_FILE_FORMAT,
                                       "all ranks to read some samples", &list));
  return RENGA_SUCCESS;
}

/* Rank 0 goes first, so that what is wrong with a file is said once. */
static RengaErrorCode SetUpInTurn(RengaData data, int64_t counts[RENGA_DATA_PARTS])
{
  int rank;
  RengaCallMPI(MPI_Comm_rank(data->hdr.comm, &rank));
  for (int turn = 0; turn < 2; turn++) {
    bool mine = (turn == 0) == (rank == 0);
    RengaErrorCode code = mine ? data->ops->setup(data, counts) : RENGA_SUCCESS;
    RengaCall(RengaErrorAgree(data->hdr.comm, code));
  }
  return RENGA_SUCCESS;
}

/* Names of files may differ, their contents are compared later; kind: made-up samples, or files. */
static RengaErrorCode CheckSameData(RengaData data)
{
  RengaSettingList list = {0};
  RengaSettingAddInt64_Private(&list, "kind of data (-data)", strcmp(data->source, SYNTHETIC) == 0);
  RengaSettingAddInt64_Private(&list, "files of data (-data, -eval)", !!data->validation_source);
  RengaSettingAddInt64_Private(&list, "inputs of the network", data->n_fields);
  RengaSettingAddInt64_Private(&list, "-data_samples", data->samples_option);
  RengaSettingAdd_Private(&list, "-data_validation", &data->validation, sizeof data->validation);
  RengaSettingAdd_Private(&list, "-data_masking", &data->masking, sizeof data->masking);
  RengaSettingAddInt64_Private(&list, "seed of the data set", (int64_t)data->seed);
  RengaSettingAddText_Private(&list, "-data_shuffle", data->owners.shuffle);
  RengaSettingAddInt64_Private(&list, "-data_shuffle", data->shuffle);
  RengaSettingAddInt64_Private(&list, "-data_owners", data->owners.count);
  RengaSettingAddInt64_Private(&list, "batch of the owners", data->owners.batch);
  RengaSettingAddInt64_Private(&list, "-data_owners_order", data->owners.order);
  RengaSettingAddInt64_Private(&list, "-data_placement", data->owners.placement);
  RengaCall(RengaCommCheckSame_Private(data->hdr.owner, RENGA_ERR_ARGUMENT,
                                       "all ranks to set up a data set", &list));
  return RENGA_SUCCESS;
}

/*@
   RengaDataSetUp - open the file, and check its shapes and types against the network's inputs

   Collective

   Input:
   . data - the data set, with a file and fields

   Errors: RENGA_ERR_ORDER without a file or fields; RENGA_ERR_FILE_FORMAT where the file does
   not have the fields, or is damaged; RENGA_ERR_OPTION for options that made-up samples do not
   have; RENGA_ERR_TIMEOUT where a rank does not come.

   Notes: what is wrong with the file is an error on all ranks. Nothing of the samples is read yet.

   See also: RengaDataSetFile(), RengaDataSetFields(), RengaDataRead()
@*/
RengaErrorCode RengaDataSetUp(RengaData data)
{
  RengaCheckPointer(data);
  if (data->hdr.state >= RENGA_STATE_SETUP) return RENGA_SUCCESS;
  RengaCheck(data->source != NULL, data->hdr.comm, RENGA_ERR_ORDER,
             "no samples: set -data FILE.h5 or -data synthetic");
  RengaCheck(data->n_fields > 0, data->hdr.comm, RENGA_ERR_ORDER,
             "RengaData does not know the network's inputs: call RengaDataSetFields first");
  int64_t counts[RENGA_DATA_PARTS] = {0, 0};
  RengaCall(CheckSameData(data));
  RengaCall(RengaDataCloseFile(data)); /* of a set-up that failed */
  RengaDataForgetLosses_Private(data);
  data->vocabulary = 0;
  bool synthetic = strcmp(data->source, SYNTHETIC) == 0;
  RengaCheck(!synthetic || (data->masking == 0 && data->validation_source == NULL), data->hdr.comm,
             RENGA_ERR_OPTION, "made-up samples have no %s",
             data->masking > 0 ? "text whose tokens could be masked" : "validation files");
  RengaCheck(!synthetic || data->owners.placement != RENGA_PLACEMENT_LOCAL, data->hdr.comm,
             RENGA_ERR_OPTION, "made-up samples lie nowhere: -data_placement local is for files");
  if (synthetic)
    RengaCall(RengaDataCreate_Synthetic(data));
  else
    RengaCall(RengaDataCreate_File(data));
  RengaCall(SetUpInTurn(data, counts));
  RengaCall(CompareCounts(data, counts));
  RengaCall(CompareSamples(data));
  RengaCall(PlaceParts(data, counts));
  RengaCall(RengaDataSetUpOwners_Private(data));
  data->hdr.state = RENGA_STATE_SETUP;
  return RENGA_SUCCESS;
}

/*@
   RengaDataView - print where the samples come from

   Collective

   Input:
   . data - set up
   . viewer - the viewer, of kind ascii

   Errors: RENGA_ERR_ORDER before RengaDataSetUp; RENGA_ERR_FILE_WRITE where the file does not
   take it.

   See also: RengaViewerCreate()
@*/
RengaErrorCode RengaDataView(RengaData data, RengaViewer viewer)
{
  RengaCheckPointers(data, viewer);
  RengaCheckState(data, RENGA_STATE_SETUP, "RengaDataSetUp");
  RengaCall(RengaViewerPrintf(
      viewer, "Data: %s, %lld samples for training%s, %lld for validation, seed %llu\n",
      data->source, (long long)data->part[0].count, data->shuffle ? ", shuffled" : "",
      (long long)data->part[1].count, (unsigned long long)data->seed));
  if (data->owners.count > 0)
    RengaCall(RengaViewerPrintf(
        viewer, "  %lld owners, each of which exchanges %lld samples before an epoch\n",
        (long long)data->owners.count, (long long)RengaDataExchanged_Private(data)));
  RengaCall(data->ops->view(data, viewer));
  return RENGA_SUCCESS;
}

/*@
   RengaDataDestroy - end a data set

   Collective

   Input:
   . data - set to NULL
@*/
RengaErrorCode RengaDataDestroy(RengaData *data)
{
  RengaCheckPointer(data);
  RengaCall(RengaHeaderDestroy(data));
  return RENGA_SUCCESS;
}
