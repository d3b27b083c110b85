/* Comm: where the partial sums of a sum are added up on their way, and how much each rank owns.

   A node of the machine has partial sums, whole nodes of the tree, that others have the other
   halves of. Each goes to the owner of a block, or to a node that adds up a larger node of the
   tree first, of which the owner gets one: a relay. A relay of the whole tree has the sum then, and
   is not sent it.

   The least. Of an element, let H(v) be the nodes of the machine that come to have the value v of a
   node of the tree, and m(v) the fewest messages of values of v's part of the tree after which some
   node has v: after at least m(v) + |H(v)| - 1 messages all of H(v) have it. For a leaf m is 0, and
   each but one receives it. Else those in H(v) that add it up themselves, d of them, have both
   halves: if d is 1 the others receive v; if d > 1 there were m(left) + m(right) + 2 (d - 1)
   messages for that, and m(v) is at most m(left) + m(right) + 1. So one node adds up each, messages
   of partial sums are the edges of the tree that lead from one node to another, and their least
   number m(root) is the parsimony of Fitch (Toward defining the course of evolution, Systematic
   Zoology 20, 1971). The sum goes to N nodes: some node sends (m(root) + N - 1) / N vectors or
   more. test/comm/crossing prints that bound beside what is sent.

   Routes are found by turns: each gives a part of the vector to the owner and relays for which the
   nodes that have sent or received most have least to do. Numbers are whole, the same on all
   ranks. */
#include "sum.h"
#include <stdlib.h>
#include <string.h>

enum {
  NODES_MOST = 64, /* of a sum with routes; those of more go straight to owners of equal blocks */
  TURNS_OF_RANK = 32,
  TURNS_LEAST = 64,
  TURNS_MOST = 512,
  PART = 4096,    /* shares of a turn */
  UNIT_BITS = 15, /* of weights */
  SQUARES_TO_FIND = 4,
  SQUARES_TO_SHARE = 6,
  OUT_COUNTS = 8,
  IN_COUNTS = 7, /* of a vector */
  ENOUGH = 32    /* part of the traffic that routes have to save */
};

/* A node of the tree over the partial sums of nodes: [begin, end) of them. left < 0: one of
   them. */
typedef struct {
  int left, right, begin, end, first_relay; /* in RoutePlay.relay */
  int64_t weight;                           /* of what leaves their nodes */
  uint64_t nodes;                           /* a bit for each that has some of them */
  int64_t cost;
  int chosen; /* number of a relay; -1: none */
} RouteVertex;

/* A node that could add up a vertex, and how many of its partial sums are its own. */
typedef struct {
  int node, own;
} RouteRelay;

/* A way to add up a block: its owner's node and relays. turns: parts of the vector that go so. */
typedef struct {
  int owner, n;
  SumRelay relay[SUM_RELAYS];
  int64_t turns, cost;
} Route;

/* Of a node. Weights grow with what it has sent and received. */
typedef struct {
  int64_t out, in, out_weight, in_weight;
  int ranks;
} RouteLoad;

typedef struct {
  const SumCrossing *piece;
  int n_pieces, n_vertices, n_relays, nodes, n_routes;
  RouteVertex *vertex; /* [2 n_pieces - 1] pieces, then sums */
  RouteRelay *relay;
  RouteLoad *load; /* [nodes] */
  Route *route;
} RoutePlay;

static bool IsWholeTree(const RoutePlay *play, int vertex)
{
  return vertex == play->n_vertices - 1;
}

/* Nodes of whose partial sums a vertex has two, and any of the root. */
static RengaErrorCode ListRelays(RoutePlay *play, int number, int64_t *room)
{
  RouteVertex *vertex = &play->vertex[number];
  vertex->first_relay = play->n_relays;
  for (int s = vertex->begin; s < vertex->end; s++) {
    RouteRelay relay = {play->piece[s].node, 0};
    bool earlier = false;
    for (int q = vertex->begin; q < vertex->end; q++) {
      earlier = earlier || (q < s && play->piece[q].node == relay.node);
      relay.own += play->piece[q].node == relay.node;
    }
    if (earlier || (relay.own < 2 && !IsWholeTree(play, number))) continue;
    if (play->n_relays == *room) RengaCall(RengaRealloc(*room *= 2, &play->relay));
    play->relay[play->n_relays++] = relay;
  }
  return RENGA_SUCCESS;
}

/* The tree over the partial sums. */
static RengaErrorCode MakeVertices(RoutePlay *play, int64_t n_leaves)
{
  RengaPartialSum stack[RENGA_COMM_TREE_PIECES];
  int number[RENGA_COMM_TREE_PIECES] = {0}, depth = 0;
  int64_t room = 8;
  play->n_vertices = play->n_pieces;
  RengaCall(RengaMalloc(2 * play->n_pieces - 1, &play->vertex));
  RengaCall(RengaMalloc(room, &play->relay));
  for (int s = 0; s < play->n_pieces; s++) {
    play->vertex[s] = (RouteVertex){-1, -1, s, s + 1, 0, 0, 1ULL << play->piece[s].node, 0, -1};
    number[depth] = s;
    stack[depth++] = play->piece[s].sum;
    for (int m = RengaCommTreeMerges(n_leaves, depth, stack); m > 0 && depth > 1; m--, depth--) {
      const int left = number[depth - 2], right = number[depth - 1];
      play->vertex[play->n_vertices] =
          (RouteVertex){left, right, play->vertex[left].begin, s + 1, 0, 0, 0, 0, -1};
      play->vertex[play->n_vertices].nodes = play->vertex[left].nodes | play->vertex[right].nodes;
      stack[depth - 2].count += stack[depth - 1].count;
      number[depth - 2] = play->n_vertices++;
    }
  }
  RengaCheck(depth == 1 && play->n_vertices == 2 * play->n_pieces - 1, MPI_COMM_SELF,
             RENGA_ERR_INTERNAL, "%d partial sums of nodes make %d sums", play->n_pieces, depth);
  for (int v = play->n_pieces; v < play->n_vertices; v++) RengaCall(ListRelays(play, v, &room));
  return RENGA_SUCCESS;
}

/* A high power of it, of 1 where a node has moved most. */
static int64_t LoadWeight(int64_t load, int64_t most, int squares)
{
  int64_t part = most > 0 ? (load << UNIT_BITS) / most : 0;
  for (int i = 0; i < squares; i++) part = part * part >> UNIT_BITS;
  return 1 + part;
}

static void SetWeights(RoutePlay *play, int squares)
{
  int64_t most = 0;
  for (int k = 0; k < play->nodes; k++) {
    const RouteLoad *load = &play->load[k];
    if (load->out > most) most = load->out;
    if (load->in > most) most = load->in;
  }
  for (int k = 0; k < play->nodes; k++) {
    play->load[k].out_weight = LoadWeight(play->load[k].out, most, squares);
    play->load[k].in_weight = LoadWeight(play->load[k].in, most, squares);
  }
  for (int v = 0; v < play->n_vertices; v++) {
    RouteVertex *vertex = &play->vertex[v];
    vertex->weight = v < play->n_pieces
                         ? play->load[play->piece[v].node].out_weight
                         : play->vertex[vertex->left].weight + play->vertex[vertex->right].weight;
  }
}

/* A relay may not take partial sums of the owner's node, but all of them. */
static void ChooseRelay(RoutePlay *play, int number, int owner)
{
  RouteVertex *vertex = &play->vertex[number];
  const RouteLoad *load = play->load;
  const int end = IsWholeTree(play, number) ? play->n_relays : play->vertex[number + 1].first_relay;
  if (!IsWholeTree(play, number) && (vertex->nodes >> owner & 1)) return;
  for (int r = vertex->first_relay; r < end; r++) {
    const int node = play->relay[r].node, own = play->relay[r].own;
    int64_t cost = vertex->weight - (own - 1) * load[node].out_weight + load[owner].in_weight +
                   (vertex->end - vertex->begin - own) * load[node].in_weight;
    if (IsWholeTree(play, number)) cost -= load[owner].out_weight + load[node].in_weight;
    if (node == owner || cost >= vertex->cost) continue;
    vertex->cost = cost;
    vertex->chosen = r;
  }
}

static void ListChosen(const RoutePlay *play, int number, Route *route)
{
  const RouteVertex *vertex = &play->vertex[number];
  if (vertex->left < 0 || route->n == SUM_RELAYS) return;
  if (vertex->chosen >= 0) {
    route->relay[route->n++] =
        (SumRelay){vertex->begin, vertex->end, play->relay[vertex->chosen].node};
    return;
  }
  ListChosen(play, vertex->left, route);
  ListChosen(play, vertex->right, route);
}

static const SumRelay *RelayOf(const Route *route, int piece)
{
  for (int r = 0; r < route->n; r++)
    if (route->relay[r].begin <= piece && piece < route->relay[r].end) return &route->relay[r];
  return NULL;
}

/* Returns what a part costs there now. */
static int64_t MoveVector(RoutePlay *play, int from, int to, int64_t parts)
{
  if (from == to) return 0;
  play->load[from].out += OUT_COUNTS * parts;
  play->load[to].in += IN_COUNTS * parts;
  return play->load[from].out_weight + play->load[to].in_weight;
}

/* So many parts go that way. Returns what one costs now. */
static int64_t SendRoute(RoutePlay *play, const Route *route, int64_t parts)
{
  int64_t cost = 0;
  int root = -1;
  for (int s = 0; s < play->n_pieces; s++) {
    const SumRelay *relay = RelayOf(route, s);
    cost += MoveVector(play, play->piece[s].node, relay ? relay->node : route->owner, parts);
  }
  for (int r = 0; r < route->n; r++) {
    const SumRelay *relay = &route->relay[r];
    cost += MoveVector(play, relay->node, route->owner, parts);
    if (relay->end - relay->begin == play->n_pieces) root = relay->node;
  }
  for (int k = 0; k < play->nodes; k++)
    if (k != root) cost += MoveVector(play, route->owner, k, parts);
  return cost;
}

/* The best relays for an owner. */
static void FindRoute(RoutePlay *play, int owner, Route *route)
{
  *route = (Route){.owner = owner};
  for (int v = 0; v < play->n_vertices; v++) {
    RouteVertex *vertex = &play->vertex[v];
    vertex->chosen = -1;
    if (v < play->n_pieces) {
      const bool stays = play->piece[v].node == owner;
      vertex->cost = stays ? 0 : vertex->weight + play->load[owner].in_weight;
    } else {
      vertex->cost = play->vertex[vertex->left].cost + play->vertex[vertex->right].cost;
      if (play->nodes > 2) ChooseRelay(play, v, owner);
    }
  }
  ListChosen(play, play->n_vertices - 1, route);
  route->cost = SendRoute(play, route, 0);
}

static void ClearLoads(RoutePlay *play)
{
  for (int k = 0; k < play->nodes; k++) play->load[k].out = play->load[k].in = 0;
}

static int64_t MostLoad(const RoutePlay *play)
{
  int64_t most = 0;
  for (int k = 0; k < play->nodes; k++) {
    if (play->load[k].out > most) most = play->load[k].out;
    if (play->load[k].in > most) most = play->load[k].in;
  }
  return most;
}

static bool SameRoute(const Route *a, const Route *b)
{
  return a->owner == b->owner && a->n == b->n &&
         (a->n == 0 || !memcmp(a->relay, b->relay, (size_t)a->n * sizeof *a->relay));
}

/* As many turns as it takes to find the routes that are worth while. */
static void FindRoutes(RoutePlay *play, int turns)
{
  for (int i = 0; i < turns; i++) {
    Route best = {.cost = INT64_MAX}, route;
    int at = 0;
    SetWeights(play, SQUARES_TO_FIND);
    for (int o = 0; o < play->nodes; o++) {
      FindRoute(play, o, &route);
      if (route.cost < best.cost) best = route;
    }
    while (at < play->n_routes && !SameRoute(&play->route[at], &best)) at++;
    if (at == play->n_routes) play->route[play->n_routes++] = best;
    play->route[at].turns++;
    SendRoute(play, &best, 1);
  }
}

static int CompareRoutes(const void *one, const void *other)
{
  const Route *a = one, *b = other;
  if (a->owner != b->owner) return a->owner - b->owner;
  if (a->turns != b->turns) return a->turns < b->turns ? 1 : -1;
  return a->n != b->n ? a->n - b->n : memcmp(a->relay, b->relay, (size_t)a->n * sizeof *a->relay);
}

/* A rank's block goes one way: a node has as many as it has ranks. */
static void KeepRoutes(RoutePlay *play)
{
  int kept = 0, of_owner = 0;
  qsort(play->route, (size_t)play->n_routes, sizeof *play->route, CompareRoutes);
  for (int i = 0; i < play->n_routes; i++) {
    of_owner = i > 0 && play->route[i - 1].owner == play->route[i].owner ? of_owner + 1 : 0;
    if (of_owner < play->load[play->route[i].owner].ranks) play->route[kept++] = play->route[i];
  }
  play->n_routes = kept;
}

/* How much goes each way of those that are kept. */
static void ShareTurns(RoutePlay *play, int turns)
{
  ClearLoads(play);
  for (int i = 0; i < play->n_routes; i++) play->route[i].turns = 0;
  for (int i = 0; i < turns; i++) {
    int best = 0;
    int64_t least = INT64_MAX;
    SetWeights(play, SQUARES_TO_SHARE);
    for (int r = 0; r < play->n_routes; r++) {
      const int64_t cost = SendRoute(play, &play->route[r], 0);
      if (cost < least) best = r;
      if (cost < least) least = cost;
    }
    play->route[best].turns++;
    SendRoute(play, &play->route[best], 1);
  }
}

/* The most that a node moves where all goes straight to the owners of equal blocks. */
static int64_t StraightLoad(RoutePlay *play)
{
  ClearLoads(play);
  for (int o = 0; o < play->nodes; o++) SendRoute(play, &(Route){.owner = o}, play->load[o].ranks);
  return MostLoad(play);
}

/* The way of each rank's block; of those of a node, one with more turns has more ranks. */
static RengaErrorCode DealRoutes(const RoutePlay *play, const struct _p_RengaComm *comm,
                                 SumRoutes *routes)
{
  RengaCall(RengaMalloc(comm->size + 1, &routes->first));
  RengaCall(RengaMalloc((int64_t)comm->size * SUM_RELAYS, &routes->relay));
  int ranks[TURNS_MOST] = {0}, *way;
  RengaCall(RengaMalloc(comm->size, &way));
  for (int b = 0; b < comm->size; b++) {
    way[b] = -1;
    for (int r = 0; r < play->n_routes; r++) {
      const Route *route = &play->route[r], *now = way[b] < 0 ? NULL : &play->route[way[b]];
      if (route->owner != comm->node_of[b] || route->turns == 0) continue;
      if (!now || route->turns * (ranks[way[b]] + 1) > now->turns * (ranks[r] + 1)) way[b] = r;
    }
    if (way[b] >= 0) ranks[way[b]]++;
  }
  for (int b = 0; b < comm->size; b++) {
    const Route *route = way[b] < 0 ? NULL : &play->route[way[b]];
    routes->first[b + 1] = routes->first[b];
    routes->share[b] = route ? route->turns * PART / ranks[way[b]] : 0;
    for (int r = 0; route && r < route->n; r++)
      routes->relay[routes->first[b + 1]++] = route->relay[r];
  }
  RengaFree(&way);
  return RENGA_SUCCESS;
}

/* Blocks begin at multiples of 64 elements. */
static void SetBounds(const SumRoutes *routes, int size, int64_t bounds[])
{
  const int64_t count = bounds[size];
  int64_t all = 0, before = 0;
  for (int r = 0; r < size; r++) all += routes->share[r];
  for (int r = 0; r < size && all > 0; r++) {
    bounds[r] = before == all ? count : count / all * before + count % all * before / all;
    bounds[r] -= before == all ? 0 : bounds[r] % 64;
    before += routes->share[r];
  }
}

static RengaErrorCode Play(RoutePlay *play, const struct _p_RengaComm *comm, int64_t n_leaves,
                           SumRoutes *routes)
{
  int turns = TURNS_OF_RANK * comm->size;
  if (turns < TURNS_LEAST) turns = TURNS_LEAST;
  if (turns > TURNS_MOST) turns = TURNS_MOST;
  RengaCall(RengaMalloc(comm->nodes, &play->load));
  RengaCall(RengaMalloc(turns, &play->route));
  for (int k = 0; k < comm->nodes; k++)
    play->load[k].ranks = comm->node_begin[k + 1] - comm->node_begin[k];
  RengaCall(MakeVertices(play, n_leaves));
  const int64_t straight = StraightLoad(play) * turns;
  ClearLoads(play);
  FindRoutes(play, turns);
  KeepRoutes(play);
  ShareTurns(play, turns);
  const int64_t most = MostLoad(play) * comm->size;
  if (straight <= most + most / ENOUGH) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(comm->size, &routes->share));
  RengaCall(DealRoutes(play, comm, routes));
  return RENGA_SUCCESS;
}

/* Whether the last sum of the comm had the same leaves. */
static bool AreRoutesOf(const SumRoutes *routes, const SumLeaves *leaves, int size)
{
  return routes->leaves && routes->n_leaves == leaves->n &&
         !memcmp(routes->leaves, leaves->bounds, (size_t)(size + 1) * sizeof *routes->leaves);
}

void RengaCommSumFreeRoutes(SumRoutes *routes)
{
  RengaFree(&routes->leaves);
  RengaFree(&routes->first);
  RengaFree(&routes->relay);
  RengaFree(&routes->share);
}

static RengaErrorCode MakeRoutes(RengaComm comm, const SumLeaves *leaves, SumRoutes *routes)
{
  RoutePlay play = {.nodes = comm->nodes};
  SumCrossing *piece = NULL;
  RengaCommSumFreeRoutes(routes);
  RengaErrorCode code = RengaCommSumListCrossing(comm, leaves, &play.n_pieces, &piece);
  play.piece = piece;
  if (!code && play.n_pieces > 1) code = Play(&play, comm, leaves->n, routes);
  if (!code) code = RengaMalloc(comm->size + 1, &routes->leaves);
  if (!code) {
    memcpy(routes->leaves, leaves->bounds, (size_t)(comm->size + 1) * sizeof *routes->leaves);
    routes->n_leaves = leaves->n;
  }
  RengaFree(&piece);
  RengaFree(&play.vertex);
  RengaFree(&play.relay);
  RengaFree(&play.load);
  RengaFree(&play.route);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Sets the bounds of blocks and the relays of a whole sum, where that is better than what the task
   says. Those of the last sum are kept. */
RengaErrorCode RengaCommSumRoute(RengaCommSum sum, SumLeaves *leaves)
{
  RengaComm comm = sum->comm;
  if (comm->nodes == 1 || comm->nodes > NODES_MOST || sum->bounds[comm->size] == 0)
    return RENGA_SUCCESS;
  if (!AreRoutesOf(&comm->routes, leaves, comm->size)) {
    const RengaErrorCode code = MakeRoutes(comm, leaves, &comm->routes);
    if (code) RengaCommSumFreeRoutes(&comm->routes);
    RengaCall(code);
  }
  if (!comm->routes.share) return RENGA_SUCCESS;
  leaves->routes = &comm->routes;
  SetBounds(&comm->routes, comm->size, sum->bounds);
  return RENGA_SUCCESS;
}
