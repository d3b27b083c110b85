/* Local placement: what a rank holds of the samples that it reads. */
#pragma once
#include "dataimpl.h"
#include "rengacomm.h"

/* Samples of one owner for one input, as the files have them. The owner has a place for each of its
   samples; a place has a slot, and so has each sample that comes in before the next epoch. */
typedef struct {
  int field;
  int64_t owner, places, slots; /* slots: places, and as many as are exchanged */
  size_t bytes;                 /* of a sample */
  int64_t *slot; /* [slots] of each place; behind these, of each sample that comes in */
  int64_t *held; /* [slots] number of the training sample that is there; -1: none */
  char *memory;  /* [slots][bytes]; NULL: they lie in a file */
  int file;      /* of -data_cache; -1: none */
  char *name;    /* of the file */
} RengaDataStore;

/* store.c */
RengaErrorCode RengaStoreCreate_Private(RengaDataStore *store, bool in_memory);
void RengaStoreFree_Private(RengaDataStore *store);
/* *raw: what the slot holds, lent; where that is not memory, in buffer. False: it cannot be read,
   errno says why, or (0) it is damaged. */
bool RengaStoreGet_Private(const RengaDataStore *store, int64_t slot, char *buffer,
                           const char **raw);
/* sample -1: nothing from now on. False: it could not be written, and the slot holds nothing. */
bool RengaStorePut_Private(RengaDataStore *store, int64_t slot, int64_t sample, const char *raw);
/* It will be read soon. */
void RengaStoreExpect_Private(const RengaDataStore *store, int64_t slot);

/* cache.c: the set's files, as rank 0 finds them; a digest is of some samples alone. */
typedef struct {
  int64_t bytes, changed; /* of all; when the newest was changed, in nanoseconds */
  uint64_t files;         /* hash of both for each file */
} RengaDataSetState;
RengaErrorCode RengaCacheFindState_Private(RengaData data, RengaDataSetState *state);

/* A file of -data_cache, new or of an earlier run. */
typedef struct {
  const char *folder;
  uint64_t digest; /* of the set */
  RengaDataSetState state;
  int64_t owners;
  int copy; /* of the ranks of this node that hold the same samples */
} RengaDataCacheKey;
RengaErrorCode RengaCacheOpen_Private(RengaDataStore *store, const RengaDataCacheKey *key);
bool RengaCacheRead_Private(const RengaDataStore *store, int64_t slot, char *buffer);
bool RengaCacheWrite_Private(RengaDataStore *store, int64_t slot, int64_t sample, const char *raw);

/* What a rank reads of an input: the samples of so many owners. */
typedef struct {
  int64_t first, last; /* owners */
} RengaDataRange;

/* Samples that travel before the next epoch. */
typedef struct {
  RengaComm line;                  /* for these messages alone */
  RengaLogEvent filling, awaiting; /* "DataSend", "DataReceive" */
  int ranks;
  size_t *sends, *receives, *filled; /* [ranks] bytes of messages of this step */
  RengaRequest *sending, *receiving; /* [ranks] */
  bool spoilt;                       /* a wait failed: nothing is taken of this step any more */
  char *out, *in;                    /* the messages of a step */
  size_t out_room, in_room;
  char *sample; /* one, on its way from a file */
} RengaDataExchange;

struct _RengaPlacement {
  RengaDataRange *range; /* [ranks][fields] */
  int *node;             /* [ranks] */
  int rank, ranks;
  int n_stores;
  RengaDataStore *store; /* of a field one behind the other, by owners */
  int *first_store;      /* [fields] */
  int64_t epoch, step;   /* whose samples are held, and the next step of it; -1: none */
  RengaDataExchange exchange;
  RengaDataTraffic traffic;
  size_t room; /* of raw */
  char *raw;   /* samples of files, while they are read */
};

static inline RengaDataRange RengaPlacementRange(const struct _RengaPlacement *placement,
                                                 int fields, int rank, int field)
{
  return placement->range[(size_t)rank * (size_t)fields + (size_t)field];
}
RengaDataStore *RengaPlacementFind_Private(const struct _RengaPlacement *placement, int fields,
                                           int field, int64_t owner);

/* load.c: from the files of the set what the stores lack, in the epoch, and of what they get before
   the next one the first `incoming`. */
RengaErrorCode RengaPlacementLoad_Private(RengaData data, int64_t epoch, int64_t incoming);

/* exchange.c */
/* most: samples of an owner that a step exchanges. */
RengaErrorCode RengaExchangeCreate_Private(RengaData data, int64_t most);
void RengaExchangeRoom_Private(RengaData data, int rank, int64_t samples, size_t *in, size_t *out);
RengaErrorCode RengaExchangeFree_Private(RengaData data);
/* Numbers first … last - 1 of the windows of all owners; the samples arrive at the end. */
RengaErrorCode RengaExchangeBegin_Private(RengaData data, int64_t first, int64_t last);
RengaErrorCode RengaExchangeEnd_Private(RengaData data);
