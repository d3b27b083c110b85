/* Data: samples from HDF5 files or made up, read by any rank in any order. */
#pragma once
#include "rengaop.h"

typedef struct _p_RengaData *RengaData;
RengaErrorCode RengaDataCreate(RengaComm comm, RengaData *data);
/* -data FILE.h5,…|synthetic -data_samples -data_shuffle -data_validation -data_masking */
RengaErrorCode RengaDataSetFromOptions(RengaData data);
RengaErrorCode RengaDataSetFile(RengaData data, const char *file); /* or several, or patterns */
RengaErrorCode RengaDataSetValidationFile(RengaData data, const char *file);
RengaErrorCode RengaDataSetMasking(RengaData data, double share);
RengaErrorCode RengaDataSetSeed(RengaData data, uint64_t seed);
/* A label that is no class but allowed: ignore_index of the loss; -100 where this is not called. */
RengaErrorCode RengaDataSetIgnored(RengaData data, int64_t value);
/* The network's inputs: name and shape of one sample (no batch dimension). By name, then by order.
   classes[i]: the exclusive bound of a synthetic or checked integer field; 0: none. */
RengaErrorCode RengaDataSetFields(RengaData data, int count, const char *const names[],
                                  const RengaTensorSpec specs[], const int64_t classes[]);
/* Opens the file, checks shapes and types against the fields. */
RengaErrorCode RengaDataSetUp(RengaData data);
RengaErrorCode RengaDataView(RengaData data, RengaViewer viewer);
RengaErrorCode RengaDataDestroy(RengaData *data);
typedef enum { RENGA_DATA_TRAINING, RENGA_DATA_VALIDATION } RengaDataPart;
RengaErrorCode RengaDataGetCount(RengaData data, RengaDataPart part, int64_t *samples);
/* Samples per step of at most batch: step s (0-based) of an endless sequence of shuffled epochs; an
   epoch's last batch is short where the samples do not divide. */
RengaErrorCode RengaDataGetStep(RengaData data, RengaDataPart part, int64_t batch, int64_t step,
                                int64_t *first, int64_t *count, int64_t *epoch);
/* Not collective. Field i of samples first … first+count-1 of the given epoch's order, converted to
   the field's type, into buffer. */
RengaErrorCode RengaDataRead(RengaData data, RengaDataPart part, int field, int64_t epoch,
                             int64_t first, int64_t count, void *buffer);
/* Of a set of tokens; 0: unknown. */
RengaErrorCode RengaDataGetVocabulary(RengaData data, int64_t *classes);
/* Make a set of byte-level samples from text: windows of sequence+1 bytes. Rank 0 works. */
RengaErrorCode RengaDataWriteText(RengaComm comm, const char *text_file, const char *out_file,
                                  int64_t sequence, double validation_share);
/* Images and classes from IDX files, packed or not: training, then validation where there are four.
   deviation 0: mean and deviation of the training images. Rank 0 works. */
RengaErrorCode RengaDataWriteIdx(RengaComm comm, int n_files, const char *const files[],
                                 const char *out_file, double mean, double deviation);
