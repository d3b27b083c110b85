/* Lanes of both kinds in one number, as nodes have them (RengaGraphNode.lane), and the ranks that
   share them out. Of each kind such a number names a lane, or none: then all lanes of the kind
   have what it says, as each of their ranks computes it. 0 is all of both kinds. */
#pragma once
#include <stdbool.h>

typedef enum {
  RENGA_LANES_OF_HEADS,  /* columns, heads, experts: -graph_lanes; tensor ranks share them out */
  RENGA_LANES_OF_TOKENS, /* -graph_token_lanes; context ranks do */
  RENGA_LANE_KINDS
} RengaLaneKind;

/* Of a kind: 1 + the lane, of which there are 1,024 at most. */
enum { RENGA_LANE_BITS = 12 };

static inline int RengaLaneMake(RengaLaneKind kind, int number)
{
  return (int)((1 + (unsigned)number) << ((unsigned)kind * RENGA_LANE_BITS));
}
/* The number and nothing else of the kind. */
static inline int RengaLaneOfKind(int lane, RengaLaneKind kind)
{
  return lane & (((1 << RENGA_LANE_BITS) - 1) << ((int)kind * RENGA_LANE_BITS));
}
/* -1: it names none of the kind. */
static inline int RengaLaneNumber(int lane, RengaLaneKind kind)
{
  return (RengaLaneOfKind(lane, kind) >> ((int)kind * RENGA_LANE_BITS)) - 1;
}
/* What the lane needs all have that are named by the other number. */
static inline bool RengaLaneCovers(int all, int lane)
{
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    const int named = RengaLaneOfKind(all, (RengaLaneKind)k);
    if (named && named != RengaLaneOfKind(lane, (RengaLaneKind)k)) return false;
  }
  return true;
}
/* The fewest that cover both. */
static inline int RengaLaneBoth(int a, int b)
{
  int both = 0;
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    const int named = RengaLaneOfKind(a, (RengaLaneKind)k);
    if (named == RengaLaneOfKind(b, (RengaLaneKind)k)) both |= named;
  }
  return both;
}
