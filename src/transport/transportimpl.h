/* What the files of src/transport know of each other. */
#pragma once
#include "renga/private/line.h"
#include "renga/private/transport.h"

struct _RengaTransportOps {
  RengaErrorCode (*destroy)(RengaTransport transport);
  RengaErrorCode (*parcelcreate)(RengaParcel parcel); /* what a message takes; may be NULL */
  RengaErrorCode (*parceldestroy)(RengaParcel parcel);
  RengaErrorCode (*send)(RengaParcel parcel, const void *memory, size_t bytes, int to, int tag);
  RengaErrorCode (*receive)(RengaParcel parcel, void *memory, size_t bytes, int from, int tag);
  RengaErrorCode (*test)(RengaParcel parcel, bool *done);
  RengaErrorCode (*wait)(RengaParcel parcel, const char *what);
  RengaErrorCode (*cancel)(RengaParcel parcel, const char *what);
  /* The device uses no staging memory any more; NULL: there is none, and sums are MPI's. */
  RengaErrorCode (*settle)(RengaTransport transport);
  RengaErrorCode (*sum)(RengaConvoy convoy, RengaDataType type, int64_t count, void *values,
                        const char *what);
  const char *does; /* in words */
};

struct _p_RengaTransport {
  RENGAHEADER(struct _RengaTransportOps);
  RengaDevice device; /* lent */
  bool asked;         /* by -comm_transport, or by the program */
  size_t staging;     /* bytes */
  int users;          /* parcels and convoys */
  void *data;         /* of the type */
};

struct _RengaParcel {
  RengaTransport transport;
  RengaComm comm;
  bool sums;     /* on the line of sums, where what comes may be shorter */
  char *staging; /* NULL: the type takes its own where it wants some; else lent by a convoy */
  size_t room;
  bool under_way;
  RengaRequest request;
  size_t received; /* bytes that came */
  void *data;      /* of the type */
};

struct _RengaConvoy {
  RengaTransport transport;
  RengaComm comm;
  int count;           /* 0: MPI carries */
  RengaParcel *parcel; /* [count] */
  char *staging;       /* of all of them */
  size_t bytes;
  int n_cut;   /* parcels that have a part of staging, */
  size_t each; /* of that length: the messages of the running sum */
};

/* parcel.c: a parcel of a convoy; staging is lent. */
RengaErrorCode RengaParcelMake(RengaTransport transport, RengaComm comm, bool sums, char *staging,
                               size_t room, RengaParcel *parcel);
/* Types. */
RengaErrorCode RengaTransportCreate_MPI(void *transport);
RengaErrorCode RengaTransportCreate_Staged(void *transport);
