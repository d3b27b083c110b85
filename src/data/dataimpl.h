/* What the files of src/data know of each other. */
#pragma once
#include "renga/private/object.h"
#include "rengadata.h"

/* hdf5.c: with hdf5origin.c and hdf5write.c the only files that know the library. */
typedef struct _RengaHdf5File *RengaHdf5File;
typedef struct _RengaHdf5Dataset *RengaHdf5Dataset;
RengaErrorCode RengaHdf5Open(const char *name, RengaHdf5File *file);
RengaErrorCode RengaHdf5Close(RengaHdf5File *file);
bool RengaHdf5Has(RengaHdf5File file, const char *path);
/* Names of the datasets of a group, in order of creation where the file keeps it, else of name. */
RengaErrorCode RengaHdf5List(RengaHdf5File file, const char *group, int *count, char ***names);
RengaErrorCode RengaHdf5GetText(RengaHdf5File file, const char *attribute, char **value);
/* *value stays where the file has no such attribute. */
RengaErrorCode RengaHdf5FindInt(RengaHdf5File file, const char *attribute, int64_t *value);
RengaErrorCode RengaHdf5GetInt(RengaHdf5File file, const char *attribute, int64_t *value);
RengaErrorCode RengaHdf5DatasetOpen(RengaHdf5File file, const char *path,
                                    RengaHdf5Dataset *dataset);
RengaErrorCode RengaHdf5DatasetClose(RengaHdf5Dataset *dataset);
const RengaTensorSpec *RengaHdf5DatasetSpec(RengaHdf5Dataset dataset); /* all dimensions */
const char *RengaHdf5DatasetName(RengaHdf5Dataset dataset);            /* FILE:/path */
/* A real attribute of a dataset; *value stays where there is none. */
RengaErrorCode RengaHdf5DatasetGetReal(RengaHdf5Dataset dataset, const char *attribute,
                                       double *value);
/* sample: the first of them, for the error that a file changed. */
RengaErrorCode RengaHdf5Read(RengaHdf5Dataset dataset, int64_t sample, int64_t first, int64_t rows,
                             void *buffer);

/* These rows will be read soon. */
void RengaHdf5Expect(RengaHdf5Dataset dataset, int64_t first, int64_t rows);

/* hdf5write.c: names with line ends between them, as an attribute of the file. */
RengaErrorCode RengaDataWriterPutNames_Private(RengaDataWriter writer, const char *attribute,
                                               int count, char *const names[]);

/* moments.c: sums over the numbers for training. */
typedef struct {
  double count, sum, squares;
} RengaDataMoments;
void RengaDataMomentsAdd_Private(RengaDataMoments *moments, RengaDataType type, const void *values,
                                 int64_t count);
/* Attributes scale and offset, so that (stored / unit - mean) / deviation is what a network reads.
   deviation 0: mean and deviation are found here. */
RengaErrorCode RengaDataMomentsPut_Private(const RengaDataMoments *moments, RengaDataWriter writer,
                                           int dataset, double unit, double *mean,
                                           double *deviation, const char *what);

/* convert.c: numbers of one type to another, none changed but by rounding to a float. */
bool RengaDataConvertible(RengaDataType from, RengaDataType to);
/* How many were converted: count, or the place of the first that does not fit. */
int64_t RengaDataConvert(RengaDataType from, const void *in, RengaDataType to, void *out,
                         int64_t count);
/* The place of the first integer outside [0, bound) that is not allowed; count where there is
   none. */
int64_t RengaDataFindOutside(RengaDataType type, const void *in, int64_t count, int64_t bound,
                             int64_t allowed);
double RengaDataValueAt(RengaDataType type, const void *in, int64_t at);
bool RengaDataIsInteger(RengaDataType type);
/* Numbers of size bytes, between the most and the least significant byte first. */
void RengaDataSwapBytes(size_t size, int64_t count, unsigned char values[]);

/* shuffle.c */
void RengaDataShuffle(uint64_t seed, int64_t epoch, int64_t samples, int64_t first, int64_t count,
                      int64_t sample[]);
int64_t RengaDataShuffleOne(uint64_t seed, int64_t epoch, int64_t samples, int64_t position);

/* select.c: the smallest of many keys. */
#define RENGA_KEY_NONE UINT32_MAX
uint32_t RengaDataKey_Private(float value);
RengaErrorCode RengaDataSelect_Private(int64_t count, const uint32_t key[], int64_t wanted,
                                       bool marked[]);

/* order.c: samples that an epoch hides. */
typedef struct {
  int64_t samples, count; /* of all, of those that are hidden */
  uint64_t *word;         /* a bit for each sample */
  int64_t *before;        /* [blocks + 1] how many are hidden before a block */
} RengaHidden;
RengaErrorCode RengaHiddenSet_Private(RengaHidden *set, int64_t samples, const bool marked[]);
void RengaHiddenFree_Private(RengaHidden *set);

/* hide.c */
typedef struct {
  double fraction, confidence;
  RengaImportance importance;
  enum { HIDE_IN_STAIRS, HIDE_CONSTANT } schedule;
  int64_t warmup;
  bool adapts_rate;
  int64_t epoch; /* that hidden belongs to; -1: none was begun */
  RengaHidden hidden;
  float *state; /* [3][samples] loss, confidence, 1 where hidden; NULL: nothing is known */
} RengaDataHiding;
RengaErrorCode RengaDataRegisterHiding_Private(void);
RengaErrorCode RengaDataBeginHiding_Private(RengaData data);
RengaErrorCode RengaDataReadHidingOptions_Private(RengaData data);
void RengaDataForgetLosses_Private(RengaData data);
RengaErrorCode RengaDataEndHiding_Private(RengaData data);

/* owners.c */
typedef struct {
  int64_t count;   /* 0: none */
  double exchange; /* share of an owner; -1: no owners */
  int64_t batch;   /* that they fill */
  enum { OWNERS_SHUFFLED, OWNERS_OF_FILE } order;
  RengaPlacement placement;
  char *cache, *shuffle;
} RengaDataOwners;
RengaErrorCode RengaDataRegisterOwners_Private(void);
RengaErrorCode RengaDataBeginOwners_Private(RengaData data);
RengaErrorCode RengaDataReadOwnerOptions_Private(RengaData data);
RengaErrorCode RengaDataSetUpOwners_Private(RengaData data);
RengaErrorCode RengaDataEndOwners_Private(RengaData data);
/* A sample that changes owners: from a place of one to a place of another. */
typedef struct {
  int64_t place, from, from_place;
} RengaDataMove;

enum { RENGA_DATA_PARTS = 2 };

/* What an input takes of a stream of tokens. */
typedef enum {
  RENGA_ROLE_TOKENS,
  RENGA_ROLE_LABELS,
  RENGA_ROLE_SEGMENTS,  /* 0: one text */
  RENGA_ROLE_ATTENTION, /* 1: no padding */
  RENGA_ROLE_COUNT
} RengaDataRole;

/* Where an input comes from in one file. */
typedef struct {
  RengaHdf5Dataset dataset;
  double scale, offset; /* of a floating input: what is stored * scale + offset */
} RengaDataColumn;

/* One input of the network. */
typedef struct {
  char *name;
  RengaTensorSpec spec; /* of one sample */
  int64_t classes;      /* 0: not known */
  int64_t elements;     /* of one sample */
  /* In files: sample i of a file is rows [i * rows + shift, i * rows + shift + rows). */
  RengaDataColumn *column[RENGA_DATA_PARTS]; /* [files] */
  int64_t rows, shift;
  RengaDataRole role;
} RengaDataField;

/* One HDF5 file, and the samples that it gives. */
typedef struct {
  char *name;
  RengaHdf5File file;
  bool validates; /* it is one of -eval: what is for training elsewhere is for validation */
  int64_t count[RENGA_DATA_PARTS];
  int64_t first[RENGA_DATA_PARTS]; /* number of its first sample in the part */
} RengaDataFile;

/* Where a part's samples come from: number `first` onwards of what the source calls part `source`.
   */
typedef struct {
  int64_t count, first;
  RengaDataPart source;
} RengaDataPartPlace;

struct _RengaDataOps {
  RengaErrorCode (*setup)(RengaData data, int64_t counts[RENGA_DATA_PARTS]);
  /* count samples, by their numbers in the source, ascending in no order. raw: NULL, or what the
     files have of a sample where that is known, else NULL. */
  RengaErrorCode (*read)(RengaData data, RengaDataPart source, int field, int64_t epoch,
                         int64_t count, const int64_t samples[], const char *const raw[],
                         void *buffer);
  RengaErrorCode (*view)(RengaData data, RengaViewer viewer);
  RengaErrorCode (*digest)(RengaData data, uint64_t *digest); /* by one process */
};

/* Places of an epoch that were found last: each input of a micro-batch asks for them. */
typedef struct {
  uint64_t seed;
  int64_t epoch, samples, first, count;
  int64_t sample[1024];
} RengaDataShuffled;

struct _p_RengaData {
  RENGAHEADER(struct _RengaDataOps);
  char *source;            /* files' names and patterns, or "synthetic" */
  char *validation_source; /* the same for the validation part, or NULL */
  int64_t samples_option;
  bool shuffle;
  double validation, masking;
  uint64_t seed;
  int64_t ignored, vocabulary;
  int n_fields;
  RengaDataField *fields;
  RengaDataPartPlace part[RENGA_DATA_PARTS];
  int n_files;
  RengaDataFile *files;
  bool tokens; /* the files are streams of tokens */
  int64_t sequence, mask, vocabulary_digest;
  RengaDataHiding hiding;
  RengaDataOwners owners;
  struct _RengaPlacement *placement; /* NULL: nothing is held */
  RengaDataShuffled *shuffled;       /* order.c */
};

/* places.c: of a set with owners. */
bool RengaDataIsLocal_Private(const struct _p_RengaData *data);
int64_t RengaDataOwnerSize_Private(const struct _p_RengaData *data, int64_t owner);
int64_t RengaDataExchanged_Private(const struct _p_RengaData *data);
int64_t RengaDataOfOwners_Private(const struct _p_RengaData *data, int64_t epoch, int64_t at,
                                  int64_t *owner);
void RengaDataPlaceOf_Private(const struct _p_RengaData *data, int64_t epoch, int64_t at,
                              int64_t *owner, int64_t *place);
int64_t RengaDataSampleOf_Private(const struct _p_RengaData *data, int64_t epoch, int64_t owner,
                                  int64_t place);
RengaDataMove RengaDataMoveTo_Private(const struct _p_RengaData *data, int64_t exchange,
                                      int64_t owner, int64_t w);
int64_t RengaDataMovesOn_Private(const struct _p_RengaData *data, int64_t exchange, int64_t owner,
                                 int64_t w);

/* placement.c: what a rank holds of the training samples. */
RengaErrorCode RengaDataEndPlacement_Private(RengaData data);
RengaErrorCode RengaPlacementGet_Private(RengaData data, int field, int64_t epoch, int64_t first,
                                         int64_t count, int64_t samples[], const char *raw[]);

/* order.c: places of an epoch of the training part. */
void RengaDataAt_Private(const struct _p_RengaData *data, int64_t epoch, int64_t first,
                         int64_t count, int64_t sample[]);
void RengaDataPlaces_Private(const struct _p_RengaData *data, int64_t epoch, int64_t batch,
                             int64_t step, int64_t *first, int64_t *count);

/* file.c, synthetic.c */
RengaErrorCode RengaDataCreate_File(RengaData data);
RengaErrorCode RengaDataCreate_Synthetic(RengaData data);
RengaErrorCode RengaDataCloseFile(RengaData data);

/* fileread.c: samples of files, in the type of the input. */
RengaErrorCode RengaDataReadFile_Private(RengaData data, RengaDataPart source, int field,
                                         int64_t epoch, int64_t count, const int64_t samples[],
                                         const char *const raw[], void *buffer);
/* The file that has it; *sample: its number there from now on. */
const char *RengaDataFileName_Private(const struct _p_RengaData *data, RengaDataPart source,
                                      int64_t *sample);
void RengaDataExpectFile_Private(const struct _p_RengaData *data, RengaDataPart source, int field,
                                 int64_t count, const int64_t samples[]);
/* Bytes of a training sample in the files, the most of any; 0: it is made up for this input. */
size_t RengaDataRawBytes_Private(const struct _p_RengaData *data, int field);
/* Training samples as the files have them, in the files' order; index: in samples. */
typedef RengaErrorCode (*RengaDataVisitor)(void *user, int64_t index, int64_t sample, size_t bytes,
                                           const char *raw);
RengaErrorCode RengaDataVisitFile_Private(RengaData data, int field, int64_t count,
                                          const int64_t samples[], RengaDataVisitor visit,
                                          void *user);

/* tokens.c: inputs of a stream of tokens. */
RengaErrorCode RengaDataAssignRoles_Private(RengaData data);
/* tokens: windows of whole numbers, changed in place to what the input's role takes. */
void RengaDataMaskTokens_Private(RengaData data, RengaDataRole role, int64_t epoch, int64_t count,
                                 const int64_t samples[], int64_t tokens[]);

/* text.c */
RengaErrorCode RengaDataCheckWindow_Private(MPI_Comm comm, int64_t sequence,
                                            double validation_share);
