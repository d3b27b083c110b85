/* Data: samples from HDF5 files or made up, read by any rank in any order. */
#pragma once
#include "rengagraph.h"

RENGA_BEGIN_DECLS

/* A data set: the samples of training and of validation, from files or made up. */
typedef struct _p_RengaData *RengaData;
RengaErrorCode RengaDataCreate(RengaComm comm, RengaData *data);
RengaErrorCode RengaDataSetFromOptions(RengaData data);
RengaErrorCode RengaDataSetFile(RengaData data, const char *file); /* or several, or patterns */
RengaErrorCode RengaDataSetValidationFile(RengaData data, const char *file);
RengaErrorCode RengaDataFindFiles(const char *list, int *count, char ***names);
RengaErrorCode RengaDataSetMasking(RengaData data, double share);
RengaErrorCode RengaDataGetMasking(RengaData data, double *share);
RengaErrorCode RengaDataSetShuffle(RengaData data, bool shuffle);
RengaErrorCode RengaDataGetShuffle(RengaData data, bool *shuffle);
RengaErrorCode RengaDataSetOwners(RengaData data, int64_t owners, double exchange);
RengaErrorCode RengaDataGetOwners(RengaData data, int64_t *owners, double *exchange);
/* The training samples that matter least are left out of an epoch: those of the least losses or
   norms of their gradients, or for comparison any. */
typedef enum {
  RENGA_IMPORTANCE_LOSS,
  RENGA_IMPORTANCE_RANDOM,
  RENGA_IMPORTANCE_GRADIENT_NORM
} RengaImportance;
RengaErrorCode RengaDataSetHiding(RengaData data, double fraction, RengaImportance importance);
RengaErrorCode RengaDataGetHiding(RengaData data, double *fraction, RengaImportance *importance,
                                  bool *adapts_rate);
RengaErrorCode RengaDataSetSeed(RengaData data, uint64_t seed);
RengaErrorCode RengaDataSetIgnored(RengaData data, int64_t value);
RengaErrorCode RengaDataSetFields(RengaData data, int count, const char *const names[],
                                  const RengaTensorSpec specs[], const int64_t classes[]);
/* The inputs of a network, as one sample of a data set has them. */
typedef struct {
  int count;              /* of the inputs */
  const char **names;     /* lent by the graph */
  RengaTensorSpec *specs; /* of one sample: no batch dimension */
  int64_t *classes;       /* exclusive bound of an integer input; 0: none known */
  bool *is_table_index;   /* the classes are rows of an embedding table */
  int64_t ignored;        /* label that the loss leaves out; -100 where it names none */
} RengaDataFields;
RengaErrorCode RengaDataFindFields(RengaGraph graph, RengaDataFields *fields);
void RengaDataFreeFields(RengaDataFields *fields);
RengaErrorCode RengaDataSetGraph(RengaData data, RengaGraph graph); /* these fields */
RengaErrorCode RengaDataSetUp(RengaData data);
RengaErrorCode RengaDataView(RengaData data, RengaViewer viewer);
RengaErrorCode RengaDataDestroy(RengaData *data);
/* The part of a data set that is meant: the samples that train, or those that only test. */
typedef enum { RENGA_DATA_TRAINING, RENGA_DATA_VALIDATION } RengaDataPart;
RengaErrorCode RengaDataGetCount(RengaData data, RengaDataPart part, int64_t *samples);
RengaErrorCode RengaDataGetStep(RengaData data, RengaDataPart part, int64_t batch, int64_t step,
                                int64_t *first, int64_t *count, int64_t *epoch);
RengaErrorCode RengaDataSetBatch(RengaData data, int64_t batch);
RengaErrorCode RengaDataFindOwner(RengaData data, int64_t epoch, int64_t place, int64_t *owner,
                                  int64_t *sample);
/* Where samples are: in the files of the set, or on the ranks that read them, in memory or in a
   folder. */
typedef enum { RENGA_PLACEMENT_SHARED, RENGA_PLACEMENT_LOCAL } RengaPlacement;
RengaErrorCode RengaDataSetPlacement(RengaData data, RengaPlacement placement, const char *cache);
RengaErrorCode RengaDataGetPlacement(RengaData data, RengaPlacement *placement, const char **cache);
/* What this rank holds of a data set whose placement is local, and what it moved so far. */
typedef struct {
  int64_t held_bytes, buffer_bytes;     /* of samples; of messages on their way */
  int64_t loaded_samples, loaded_bytes; /* from the files of the set */
  int64_t sent_samples, sent_bytes;     /* to other ranks */
  int64_t again_samples;   /* that should have been held: read from the files of the set */
  int64_t outside_samples; /* of owners that the rank does not hold: the same */
} RengaDataTraffic;
RengaErrorCode RengaDataGetTraffic(RengaData data, RengaDataTraffic *traffic);
/* What an epoch leaves out: samples stand last in its order, in whole batches. */
typedef struct {
  int64_t epoch, samples; /* samples: of the training part */
  int64_t candidates;     /* of least loss, as many as may be hidden */
  int64_t moved_back;     /* of these: wrong or unsure */
  int64_t hidden;         /* of the rest: whole batches */
} RengaDataEpoch;
RengaErrorCode RengaDataRead(RengaData data, RengaDataPart part, int field, int64_t epoch,
                             int64_t first, int64_t count, void *buffer);
RengaErrorCode RengaDataFindSample(RengaData data, int64_t epoch, int64_t place, int64_t *sample);
RengaErrorCode RengaDataGetDigest(RengaData data, uint64_t *digest);
RengaErrorCode RengaDataGetVocabulary(RengaData data, int64_t *classes);
/* An HDF5 file that is made by one process, in parts; it has its name only when it is whole. */
typedef struct _p_RengaDataWriter *RengaDataWriter;
RengaErrorCode RengaDataWriterCreate(const char *file, RengaDataWriter *writer);
RengaErrorCode RengaDataWriterAdd(RengaDataWriter writer, const char *path,
                                  const RengaTensorSpec *spec, int *dataset);
RengaErrorCode RengaDataWriterWrite(RengaDataWriter writer, int dataset, int64_t first,
                                    int64_t rows, const void *values);
/* Attributes of a dataset, or (-1) of the file. */
RengaErrorCode RengaDataWriterPutInt(RengaDataWriter writer, int dataset, const char *name,
                                     int64_t value);
RengaErrorCode RengaDataWriterPutReal(RengaDataWriter writer, int dataset, const char *name,
                                      double value);
RengaErrorCode RengaDataWriterPutText(RengaDataWriter writer, int dataset, const char *name,
                                      const char *value);
RengaErrorCode RengaDataWriterClose(RengaDataWriter *writer, RengaErrorCode code);
RengaErrorCode RengaDataWriteText(RengaComm comm, const char *text_file, const char *out_file,
                                  int64_t sequence, double validation_share);
RengaErrorCode RengaDataWriteIdx(RengaComm comm, int n_files, const char *const files[],
                                 const char *out_file, double mean, double deviation);

RengaErrorCode RengaDataWriteImages(RengaComm comm, int n_folders, const char *const folders[],
                                    const char *out_file, const int size[2], double mean,
                                    double deviation, double validation_share, int64_t numbers[3]);

/* A vocabulary of tokens for text: byte pairs. It has no options; any rank may have one. */
typedef struct _p_RengaVocabulary *RengaVocabulary;
/* The tokens that every vocabulary begins with; those of pairs of bytes follow. */
enum {
  RENGA_TOKEN_PADDING,                      /* after a text that is shorter than its sample */
  RENGA_TOKEN_BEGIN,                        /* before a text */
  RENGA_TOKEN_END,                          /* after a text */
  RENGA_TOKEN_MASK,                         /* in place of a token that is to be predicted */
  RENGA_TOKEN_BYTE,                         /* token of byte b: RENGA_TOKEN_BYTE + b */
  RENGA_TOKEN_PAIR = RENGA_TOKEN_BYTE + 256 /* the first of the tokens that are pairs */
};
RengaErrorCode RengaVocabularyTrain(int n_files, const char *const files[], int64_t kinds,
                                    RengaVocabulary *vocabulary);
RengaErrorCode RengaVocabularyRead(const char *file, RengaVocabulary *vocabulary);
RengaErrorCode RengaVocabularyWrite(RengaVocabulary vocabulary, const char *file);
RengaErrorCode RengaVocabularyGetCount(RengaVocabulary vocabulary, int64_t *kinds);
RengaErrorCode RengaVocabularyEncode(RengaVocabulary vocabulary, const char *text, int64_t length,
                                     int64_t *count, int64_t **tokens);
RengaErrorCode RengaVocabularyDecode(RengaVocabulary vocabulary, int64_t token, const char **text,
                                     int64_t *length); /* lent */
RengaErrorCode RengaVocabularyGetFrame(RengaVocabulary vocabulary, int64_t count[2],
                                       int64_t *tokens[2]);
RengaErrorCode RengaVocabularySetStart(RengaVocabulary vocabulary, int64_t start, int64_t padding);
RengaErrorCode RengaVocabularyGetStart(RengaVocabulary vocabulary, int64_t *start,
                                       int64_t *padding);
RengaErrorCode RengaVocabularyDestroy(RengaVocabulary *vocabulary);
RengaErrorCode RengaDataWriteTokens(RengaComm comm, RengaVocabulary vocabulary,
                                    const char *text_file, const char *out_file, int64_t sequence,
                                    double validation_share);
RengaErrorCode RengaDataWritePairs(RengaComm comm, RengaVocabulary vocabulary,
                                   const char *source_file, const char *target_file,
                                   const char *out_file, const int64_t lengths[2],
                                   double validation_share, int64_t pairs[3]);
/* Rows of documents. */
typedef struct {
  int64_t sequence;        /* tokens of a row */
  bool packed;             /* several documents to a row, with position_ids, or one */
  const char *end;         /* the text behind each document; of conversations NULL */
  double validation_share; /* of the rows, from the end; at least 0, less than 1 */
} RengaDataRows;
/* Documents; rows; documents that are longer than a row; tokens; tokens that are learned. */
enum {
  RENGA_DATA_COUNT_DOCUMENTS,
  RENGA_DATA_COUNT_ROWS,
  RENGA_DATA_COUNT_CUT,
  RENGA_DATA_COUNT_TOKENS,
  RENGA_DATA_COUNT_LABELS,
  RENGA_DATA_ROW_COUNTS
};
RengaErrorCode RengaDataWriteDocuments(RengaComm comm, RengaVocabulary vocabulary,
                                       const char *text_file, const char *out_file,
                                       const RengaDataRows *rows,
                                       int64_t counts[RENGA_DATA_ROW_COUNTS]);
RengaErrorCode RengaDataWriteChat(RengaComm comm, const char *folder, const char *chat_file,
                                  const char *out_file, const RengaDataRows *rows,
                                  int64_t counts[RENGA_DATA_ROW_COUNTS]);
RengaErrorCode RengaDataWriteRatings(RengaComm comm, const char *text_file, const char *out_file,
                                     int64_t negatives, uint64_t seed, int64_t numbers[3]);
RengaErrorCode RengaDataWriteCsv(RengaComm comm, const char *table, const char *out_file,
                                 const char *label, const char *targets, const char *dropped,
                                 double validation_share, int64_t numbers[3]);
RengaErrorCode RengaDataWriteNpy(RengaComm comm, int n_files, const char *const files[],
                                 const char *out_file);

RENGA_END_DECLS
