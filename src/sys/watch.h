/* What the files of src/sys know of the watch. */
#pragma once
#include "renga/private/wait.h"

/* The watch of communicators that have none. Set before RengaInitialize is done, NULL after it. */
void RengaWatchSetWorld(MPI_Comm comm);
enum { RENGA_WATCH_CELLS = 4096, RENGA_WATCH_TEXT = 160, RENGA_WATCH_PEERS = 40 };

struct _RengaWatch {
  MPI_Comm side; /* MPI_COMM_NULL: a rank alone */
  int rank, size, holders;
  double limit; /* seconds; 0: none */
  bool broken;
  double listened, told, heard; /* MPI_Wtime; heard: a notice that was fresh */
  double *seen;                 /* by rank: when it was last known to wait */
  size_t bytes;                 /* of a notice: a text, then ages as float */
  int n_peers, peer[RENGA_WATCH_PEERS];
  MPI_Request sent[RENGA_WATCH_PEERS], incoming;
  char *in, *out;              /* one notice; one for each peer */
  /* What the rank at this distance before this one waits for. */
  char text[RENGA_WATCH_PEERS][RENGA_WATCH_TEXT];
  char cells[RENGA_WATCH_CELLS];
};

/* The watch of comm; of one that has none, and of MPI_COMM_NULL, that of the world, or NULL. */
RengaWatch RengaWatchOf(MPI_Comm comm);
RengaErrorCode RengaWatchAttach(RengaWatch watch, MPI_Comm comm);
/* last: the watch that no communicator has any more, to be freed; NULL: there is none. */
RengaErrorCode RengaWatchDetach(MPI_Comm comm, RengaWatch *last);
/* Bytes for one short collective at a time, which stay when MPI may still write to them. */
void *RengaWatchCells(MPI_Comm comm);
/* The time limit of watches to come, and of waits without one. */
void RengaWatchSetDefaultLimit(double seconds);
double RengaWatchGetDefaultLimit(void);
/* notice.c: take the notices that came. Hear others, tell them, end a wait that reached the
   limit. */
RengaErrorCode RengaWatchListen(RengaWatch watch, double now);
RengaErrorCode RengaWatchLook(RengaWait *wait, double now);
