/* Transport: how tensors get from one rank's device to another's, by a library of the program's. */
#pragma once
#include "rengasys.h"

RENGA_BEGIN_DECLS

/* Messages that may come between two ranks of a pipeline. */
typedef struct {
  int from, to, tag; /* ranks, which may be one; the tag of the messages */
} RengaRoute;

/* One message under way, as a rule sees it; it stays where it is until test says that it is done.
   Messages from one rank to another of one group under one tag come in the order in which they are
   sent; others may overtake them. */
typedef struct {
  int group;     /* whose rank peer is: -1: of all; else of groups[group] that connect was given */
  int peer, tag; /* rank that it goes to, or comes from, maybe this one; its tag */
  void *memory;  /* of the host; to be read, or filled; lent until test says that it is done */
  size_t bytes;  /* of it, 0 too; test says of a message of a group how many came, maybe fewer */
  void *own;     /* the rule's, NULL before send and receive */
} RengaTransportMessage;

/* A type of transport from outside. No function waits for another rank but create, connect and
   destroy, which all ranks call; where one of these fails on a rank it still does what the others
   wait for. state: what create made. An error of send and receive leaves nothing under way, and the
   same may be tried again; one of test leaves the message as it is. */
typedef struct {
  size_t size;      /* sizeof(RengaTransportRule), by which later versions know what it has */
  const char *name; /* of the type, as -transport_type takes it */
  const char *does; /* in words, for -comm_view; may be NULL */
  /* Opens it for the ranks of comm, on which Renga sends: its messages want a duplicate. */
  RengaErrorCode (*create)(MPI_Comm comm, void **state, void *user);
  RengaErrorCode (*destroy)(void **state, void *user); /* some messages may be given up */
  /* Opens what its messages need; all is lent. routes: those that this rank is on, and maybe
     others, in an order that is the same on all ranks; groups: of ranks that add up vectors,
     likewise. */
  RengaErrorCode (*connect)(void *state, int n_routes, const RengaRoute routes[], int n_groups,
                            const MPI_Comm groups[], void *user);
  RengaErrorCode (*send)(void *state, RengaTransportMessage *message, void *user);    /* starts */
  RengaErrorCode (*receive)(void *state, RengaTransportMessage *message, void *user); /* starts */
  /* Is it done? At once; where it is done is set to true, and own is the rule's to free. */
  RengaErrorCode (*test)(void *state, RengaTransportMessage *message, bool *done, void *user);
  /* Moves on all that is under way; asked while Renga waits, and between kernels. NULL: nothing
     needs it. */
  RengaErrorCode (*progress)(void *state, void *user);
  /* Gives a message up: its memory is Renga's again, and own is freed. NULL: such memory is not
     freed. */
  RengaErrorCode (*cancel)(void *state, RengaTransportMessage *message, void *user);
  void *user; /* handed to each of them */
} RengaTransportRule;
RengaErrorCode RengaTransportRegister(const RengaTransportRule *rule);

RENGA_END_DECLS
