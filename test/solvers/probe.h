/* What the files of a probe share: its states, and the stage that is being grown. */
#pragma once
#include "exactimpl.h"

typedef struct {
  int devices; /* plus 1; 0: not reached */
  int from;    /* ideal before the last stage */
  int kind;    /* replicas of the last stage; 0: a host */
} State;

typedef struct {
  int ideal, arc, item;
  double work, messages, memory, weight;
  double entering; /* of the messages, those with pins before the stage */
} Frame;

typedef struct {
  int count, room, *ideal;
} Bucket;

/* What a search knows of an ideal. */
typedef struct {
  int search; /* that saw it last */
  int need;   /* accelerators of the stage that ends there, 0: too few */
} Mark;

typedef struct {
  double cost;
  int pins, inside; /* of all its pins, those in the stage */
  int search;       /* that the next two are of */
  double entering;  /* its cost where it has pins before the stage, 0 else */
} Message;

struct _Probe {
  const Instance *instance;
  Lattice lattice;
  int64_t ideal_limit, pairs;
  double bound;
  int rows;                   /* hosts + 1 */
  int64_t room;               /* of what follows, in ideals */
  Mark *mark;                 /* [room] */
  State *state;               /* [room][rows] */
  Bucket *bucket;             /* [rows][devices + 1] */
  int search;                 /* number of the one that goes on */
  Frame *frame;               /* [items + 1] */
  Message *message;           /* [messages] */
  int end, end_row, end_kind; /* found: the last stage begins at ideal end */
  bool found, open;
};

/* The stage that is being grown. */
typedef struct {
  int source, row, devices; /* the state that it continues */
  bool host;
  int most;     /* accelerators that it may take */
  double limit; /* of their work together */
} Search;

/* Room for what is kept of each ideal. */
RengaErrorCode ProbeFollowLattice(Probe probe);
/* Can any stage within the bound hold the item that is most work for one? True also where there is
   none worth asking for. */
RengaErrorCode ProbePlaceCritical(Probe probe, bool *can);

/* The stage of the frame takes the arc's item. *entered: frame[1] is the larger stage; false: it
   was seen before, or it and all larger ones are over the bound. */
RengaErrorCode StageEnter(Probe probe, const Search *search, Frame *frame, int arc, bool *entered);
/* Of a stage on accelerators: undoes what entering the item did. */
void StageRemove(Probe probe, int item);
