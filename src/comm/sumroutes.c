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
   more. Where nodes have prices of messages, which add up to 1, the one that sends most sends no
   less than the least mean by these: test/comm/crossing finds prices, and prints that bound beside
   what is sent.

   Routes are found by turns: each gives a part of the vector to the owner and relays for which the
   nodes that have sent or received most have least to do. Numbers are whole, the same on all
   ranks. The blocks of a half have owners: of sharded moments, gradients or parameters. Then relays
   are found for one after the other, several times. */
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
  SQUARES_OF_WAYS = 3,
  OUT_COUNTS = 8,
  IN_COUNTS = 7, /* of a vector */
  ENOUGH = 32,   /* part of the traffic that routes have to save */
  PASSES = 6,    /* over blocks that have owners */
  ROUTES_MOST = 1024
};

/* A node of the tree over the partial sums of nodes: [begin, end) of them. left < 0: one of
   them. The leaves of a round are several trees. */
typedef struct {
  int left, right, begin, end, first_relay; /* in RoutePlay.relay; those of the next follow */
  bool root;
  int64_t weight; /* of what leaves their nodes */
  uint64_t nodes; /* a bit for each that has some of them */
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
  RengaSumRouting kind;
  const SumCrosser *piece;
  int n_pieces, n_vertices, n_relays, nodes, n_routes;
  RouteVertex *vertex; /* [2 n_pieces] pieces, then sums; behind them where their relays end */
  RouteRelay *relay;
  RouteLoad *load; /* [nodes] */
  Route *route;
} RoutePlay;

static bool IsWholeTree(const RoutePlay *play, int vertex)
{
  return vertex == 2 * play->n_pieces - 2;
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
static RengaErrorCode MakeVertices(RoutePlay *play)
{
  int number[RENGA_COMM_TREE_PIECES] = {0}, depth = 0;
  int64_t room = 8;
  play->n_vertices = play->n_pieces;
  RengaCall(RengaMalloc(2 * play->n_pieces, &play->vertex));
  RengaCall(RengaMalloc(room, &play->relay));
  for (int s = 0; s < play->n_pieces; s++) {
    play->vertex[s] = (RouteVertex){
        .left = -1, .begin = s, .end = s + 1, .nodes = 1ULL << play->piece[s].node, .chosen = -1};
    number[depth++] = s;
    for (int m = 0; m < play->piece[s].merges; m++, depth--) {
      const int left = number[depth - 2], right = number[depth - 1];
      play->vertex[play->n_vertices] =
          (RouteVertex){.left = left,
                        .right = right,
                        .begin = play->vertex[left].begin,
                        .end = s + 1,
                        .nodes = play->vertex[left].nodes | play->vertex[right].nodes,
                        .chosen = -1};
      number[depth - 2] = play->n_vertices++;
    }
  }
  RengaCheck(depth == 1 || play->kind == RENGA_SUM_FOLD, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%d partial sums of nodes make %d sums", play->n_pieces, depth);
  for (int d = 0; d < depth; d++) play->vertex[number[d]].root = true;
  for (int v = play->n_pieces; v < play->n_vertices; v++) RengaCall(ListRelays(play, v, &room));
  play->vertex[play->n_vertices].first_relay = play->n_relays;
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

/* Where it takes those of the owner's node, too. */
static bool MayTakeAll(const RoutePlay *play, int vertex)
{
  return IsWholeTree(play, vertex) && play->kind != RENGA_SUM_FOLD;
}

/* A relay may not take partial sums of the owner's node, but all of them. */
static void ChooseRelay(RoutePlay *play, int number, int owner)
{
  RouteVertex *vertex = &play->vertex[number];
  const RouteLoad *load = play->load;
  const bool sends_back = IsWholeTree(play, number) && play->kind == RENGA_SUM_WHOLE;
  if (!MayTakeAll(play, number) && (vertex->nodes >> owner & 1)) return;
  for (int r = vertex->first_relay; r < vertex[1].first_relay; r++) {
    const int node = play->relay[r].node, own = play->relay[r].own;
    int64_t cost = vertex->weight - (own - 1) * load[node].out_weight + load[owner].in_weight +
                   (vertex->end - vertex->begin - own) * load[node].in_weight;
    if (sends_back) cost -= load[owner].out_weight + load[node].in_weight;
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
  for (int k = 0; k < play->nodes && play->kind == RENGA_SUM_WHOLE; k++)
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
      if (play->nodes > 2 || play->kind == RENGA_SUM_HALF) ChooseRelay(play, v, owner);
    }
  }
  for (int v = 0; v < play->n_vertices; v++)
    if (play->vertex[v].root) ListChosen(play, v, route);
  route->cost = SendRoute(play, route, 0);
}

static void ClearLoads(RoutePlay *play)
{
  for (int k = 0; k < play->nodes; k++) play->load[k].out = play->load[k].in = 0;
}

/* In vectors of so many parts. */
static double MostOut(const RoutePlay *play, int64_t parts)
{
  int64_t most = 0;
  for (int k = 0; k < play->nodes; k++)
    if (play->load[k].out > most) most = play->load[k].out;
  return (double)most / (double)(OUT_COUNTS * parts);
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

/* Whether one more rank goes the way rather than the other: each has one, those with more turns
   more. */
static bool NeedsRank(const Route *way, int ranks, const Route *other, int ranks_of_other)
{
  if (ranks == 0 || ranks_of_other == 0) return ranks < ranks_of_other;
  return way->turns * (ranks_of_other + 1) > other->turns * (ranks + 1);
}

/* The way of each rank's block. */
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
      if (!now || NeedsRank(route, ranks[r], now, ranks[way[b]])) way[b] = r;
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

/* Each block is of one part, with a way of its own. */
static RengaErrorCode KeepWays(const RoutePlay *play, const struct _p_RengaComm *comm,
                               SumRoutes *routes)
{
  RengaCall(RengaMalloc(comm->size + 1, &routes->first));
  for (int b = 0; b < comm->size; b++) routes->first[b + 1] = routes->first[b] + play->route[b].n;
  RengaCall(RengaMalloc(routes->first[comm->size], &routes->relay));
  for (int b = 0; b < comm->size; b++)
    for (int r = 0; r < play->route[b].n; r++)
      routes->relay[routes->first[b] + r] = play->route[b].relay[r];
  return RENGA_SUCCESS;
}

/* A sum over nodes that falls where the most of them does. all: a load that none is far above. */
static int64_t TrafficOf(const RoutePlay *play, int64_t all)
{
  int64_t sum = 0;
  for (int k = 0; k < play->nodes; k++)
    sum += LoadWeight(play->load[k].out, all, SQUARES_OF_WAYS) +
           LoadWeight(play->load[k].in, all, SQUARES_OF_WAYS);
  return sum;
}

static int64_t TrafficWith(RoutePlay *play, const Route *route, int64_t all)
{
  SendRoute(play, route, 1);
  const int64_t traffic = TrafficOf(play, all);
  SendRoute(play, route, -1);
  return traffic;
}

/* Beside the ways of the other blocks: straight, or better by weights that it has with the best
   one so far. */
static void ImproveWay(RoutePlay *play, int owner, int64_t all, Route *way)
{
  *way = (Route){.owner = owner};
  int64_t least = TrafficWith(play, way, all);
  for (int squares = 0; squares <= SQUARES_TO_FIND; squares++) {
    Route route;
    SendRoute(play, way, 1);
    SetWeights(play, squares);
    SendRoute(play, way, -1);
    FindRoute(play, owner, &route);
    const int64_t traffic = TrafficWith(play, &route, all);
    if (traffic >= least) continue;
    least = traffic;
    *way = route;
  }
}

/* Each node has one partial sum: then there is nothing to gain, but by owners on nodes of fewer
   ranks. */
static bool IsSimple(const RoutePlay *play)
{
  uint64_t nodes = 0;
  bool even = true;
  for (int s = 0; s < play->n_pieces; s++) {
    if (nodes >> play->piece[s].node & 1) return false;
    nodes |= 1ULL << play->piece[s].node;
  }
  for (int k = 0; k < play->nodes; k++) even = even && play->load[k].ranks == play->load[0].ranks;
  return play->kind != RENGA_SUM_WHOLE || (even && play->n_pieces == play->nodes);
}

static RengaErrorCode PlayHalf(RoutePlay *play, const struct _p_RengaComm *comm, SumRoutes *routes)
{
  const int64_t straight = StraightLoad(play);
  routes->out = MostOut(play, comm->size);
  if (IsSimple(play)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(comm->size, &play->route));
  for (int b = 0; b < comm->size; b++) play->route[b] = (Route){.owner = comm->node_of[b]};
  for (int pass = 0; pass < PASSES; pass++)
    for (int b = 0; b < comm->size; b++) {
      SendRoute(play, &play->route[b], -1);
      ImproveWay(play, comm->node_of[b], straight, &play->route[b]);
      SendRoute(play, &play->route[b], 1);
    }
  if (MostLoad(play) >= straight - straight / ENOUGH) return RENGA_SUCCESS;
  routes->out = MostOut(play, comm->size);
  RengaCall(KeepWays(play, comm, routes));
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

static RengaErrorCode PlayWhole(RoutePlay *play, const struct _p_RengaComm *comm, SumRoutes *routes)
{
  int turns = TURNS_OF_RANK * comm->size;
  if (turns < TURNS_LEAST) turns = TURNS_LEAST;
  if (turns > TURNS_MOST) turns = TURNS_MOST;
  RengaCall(RengaMalloc(turns, &play->route));
  const int64_t straight = StraightLoad(play) * turns;
  routes->out = MostOut(play, comm->size);
  if (IsSimple(play)) return RENGA_SUCCESS;
  ClearLoads(play);
  FindRoutes(play, turns);
  KeepRoutes(play);
  ShareTurns(play, turns);
  const int64_t most = MostLoad(play) * comm->size;
  if (straight <= most + most / ENOUGH) return RENGA_SUCCESS;
  routes->out = MostOut(play, turns);
  RengaCall(RengaMalloc(comm->size, &routes->share));
  RengaCall(DealRoutes(play, comm, routes));
  return RENGA_SUCCESS;
}

static RengaErrorCode Play(RoutePlay *play, const struct _p_RengaComm *comm, SumRoutes *routes)
{
  RengaCall(RengaMalloc(comm->nodes, &play->load));
  for (int k = 0; k < comm->nodes; k++)
    play->load[k].ranks = comm->node_begin[k + 1] - comm->node_begin[k];
  RengaCall(MakeVertices(play));
  RengaCall(play->kind == RENGA_SUM_WHOLE ? PlayWhole(play, comm, routes)
                                          : PlayHalf(play, comm, routes));
  return RENGA_SUCCESS;
}

static void FreeRoutes(SumRoutes *routes)
{
  RengaFree(&routes->crosser);
  RengaFree(&routes->first);
  RengaFree(&routes->relay);
  RengaFree(&routes->share);
}

void RengaCommSumFreeRoutes(RengaComm comm)
{
  for (int i = 0; i < comm->n_routes; i++) FreeRoutes(&comm->routes[i]);
  RengaFree(&comm->routes);
  comm->n_routes = 0;
}

/* What routes follow from: the leaves of many rounds make the same. crosser: allocated */
static RengaErrorCode ListCrossers(RengaComm comm, const SumLeaves *leaves, int *n,
                                   SumCrosser **crosser)
{
  RengaPartialSum stack[RENGA_COMM_TREE_PIECES];
  SumCrossing *crossing;
  int depth = 0;
  RengaCall(RengaCommSumListCrossing(comm, leaves, n, &crossing));
  const RengaErrorCode code = RengaMalloc(*n, crosser);
  for (int s = 0; s < *n && !code; s++) {
    stack[depth++] = crossing[s].sum;
    const int merges = RengaCommTreeMerges(leaves->n, depth, stack);
    for (int m = 0; m < merges; m++, depth--) stack[depth - 2].count += stack[depth - 1].count;
    (*crosser)[s] = (SumCrosser){crossing[s].node, merges};
  }
  RengaFree(&crossing);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Of what is listed in routes. */
static RengaErrorCode MakeRoutes(const struct _p_RengaComm *comm, SumRoutes *routes)
{
  RoutePlay play = {.nodes = comm->nodes,
                    .kind = routes->kind,
                    .n_pieces = routes->n_crossers,
                    .piece = routes->crosser};
  RengaErrorCode code = RENGA_SUCCESS;
  if (play.n_pieces > 0) code = Play(&play, comm, routes);
  RengaFree(&play.vertex);
  RengaFree(&play.relay);
  RengaFree(&play.load);
  RengaFree(&play.route);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static bool AreAlike(const SumRoutes *a, const SumRoutes *b)
{
  return a->kind == b->kind && a->n_crossers == b->n_crossers &&
         (a->n_crossers == 0 ||
          !memcmp(a->crosser, b->crosser, (size_t)a->n_crossers * sizeof *a->crosser));
}

/* Those of rounds of micro-batches and of whole batches are kept; when there are too many, they
   begin anew. */
RengaErrorCode RengaCommSumRoute(RengaComm comm, RengaSumRouting kind, SumLeaves *leaves)
{
  SumRoutes of = {.kind = kind};
  RengaErrorCode code = RENGA_SUCCESS;
  int at = 0;
  if (comm->nodes == 1 || comm->nodes > NODES_MOST || !leaves->merge) return RENGA_SUCCESS;
  RengaCall(ListCrossers(comm, leaves, &of.n_crossers, &of.crosser));
  while (at < comm->n_routes && !AreAlike(&comm->routes[at], &of)) at++;
  if (at == ROUTES_MOST) RengaCommSumFreeRoutes(comm);
  at %= ROUTES_MOST;
  const bool found = at < comm->n_routes;
  if (!found) code = RengaRealloc(at + 1, &comm->routes);
  if (!found && !code) code = MakeRoutes(comm, &of);
  if (found || code) FreeRoutes(&of);
  RengaCall(code);
  if (!found) comm->routes[comm->n_routes++] = of;
  if (comm->routes[at].first) leaves->routes = &comm->routes[at];
  return RENGA_SUCCESS;
}

/* Sets the bounds of the blocks of a whole sum, where that is better than what the task says. */
void RengaCommSumShare(RengaCommSum sum, const SumLeaves *leaves)
{
  if (leaves->routes && leaves->routes->share)
    SetBounds(leaves->routes, sum->comm->size, sum->bounds);
}

/* A comm of nodes of `own` ranks each, the last one of those that are left, of which only what
   routes are made of is there. nodes: [4 * ranks + 1] */
static void PretendNodes(int ranks, int own, int nodes[], struct _p_RengaComm *comm)
{
  *comm = (struct _p_RengaComm){.size = ranks, .nodes = (ranks + own - 1) / own};
  comm->node_of = nodes;
  comm->local_of = nodes + ranks;
  comm->by_node = nodes + 2 * (size_t)ranks;
  comm->node_begin = nodes + 3 * (size_t)ranks;
  for (int r = 0; r < ranks; r++) {
    comm->node_of[r] = r / own;
    comm->local_of[r] = r % own;
    comm->by_node[r] = r;
  }
  for (int n = 0; n <= comm->nodes; n++) comm->node_begin[n] = n * own < ranks ? n * own : ranks;
}

/* The mean of some nodes, where all goes straight to the owners. */
static double MeanOfSomeNodes(int ranks, int own, int64_t n_leaves, const int64_t leaves[])
{
  RengaPartialSum piece[RENGA_COMM_TREE_PIECES];
  const int step = own * (1 + (ranks - 1) / own / NODES_MOST);
  int64_t all = 0, nodes = 0;
  for (int r = 0; r < ranks; r += step, nodes++)
    all +=
        RengaCommTreePieces(n_leaves, leaves[r], leaves[r + own < ranks ? r + own : ranks], piece);
  return (double)all / (double)nodes;
}

/* How many vectors a node gives each other one in a sum over ranks, of `own` on each node, on the
   way to the owners: those that leave the node which sends most, by the routes that such a sum
   takes, as if all sent as many. On the way back it is one. leaves: [ranks + 1] that each has;
   ascending. pieces: 1 on one node. */
RengaErrorCode RengaCommSumPieces_Private(RengaSumRouting kind, int ranks, int own,
                                          int64_t n_leaves, const int64_t leaves[], double *pieces)
{
  const SumLeaves of = {.n = n_leaves, .bounds = leaves, .merge = true};
  struct _p_RengaComm comm;
  SumRoutes routes = {.kind = kind};
  int *nodes;
  *pieces = 1;
  if (own >= ranks) return RENGA_SUCCESS;
  if ((ranks + own - 1) / own > NODES_MOST) {
    *pieces = MeanOfSomeNodes(ranks, own, n_leaves, leaves);
    return RENGA_SUCCESS;
  }
  RengaCall(RengaMalloc(4 * (int64_t)ranks + 1, &nodes));
  PretendNodes(ranks, own, nodes, &comm);
  RengaErrorCode code = ListCrossers(&comm, &of, &routes.n_crossers, &routes.crosser);
  if (!code) code = MakeRoutes(&comm, &routes);
  FreeRoutes(&routes);
  RengaFree(&nodes);
  RengaCall(code);
  const double half = (double)(comm.nodes - 1) / comm.nodes;
  *pieces = (routes.out - (kind == RENGA_SUM_WHOLE ? half : 0)) / half;
  return RENGA_SUCCESS;
}

/* What other nodes give the owner of a block, who is on a node of its own: of a relay one sum. */
static int ListForeign(RengaComm comm, const SumRoutes *routes, int n, const SumCrossing crossing[],
                       RengaPartialSum pieces[])
{
  int count = 0;
  for (int s = 0; s < n; s++) {
    bool behind = false; /* others of its relay stand before it */
    for (int r = routes ? routes->first[comm->rank] : 0;
         routes && r < routes->first[comm->rank + 1]; r++)
      behind = behind || (routes->relay[r].begin < s && s < routes->relay[r].end);
    if (crossing[s].node != comm->node && behind) pieces[count - 1].count += crossing[s].sum.count;
    if (crossing[s].node != comm->node && !behind) pieces[count++] = crossing[s].sum;
  }
  return count;
}

static int CompareFirstLeaves(const void *a, const void *b)
{
  const RengaPartialSum *x = a, *y = b;
  return (x->first > y->first) - (x->first < y->first);
}

/* The pieces that a folder is given on this rank. Those of the ranks of this rank's own node are
   never added up. Allocates what the sum of the same leaves needs of its routes. n_leaves, leaves:
   the number of leaves, from 1, and [ranks + 1] where each rank's begin. pieces: first leaf and
   number of leaves of each, ascending; data is not touched. n: their number. */
RengaErrorCode RengaCommFoldPieces(RengaComm comm, int64_t n_leaves, const int64_t leaves[],
                                   bool merges, RengaPartialSum pieces[], int *n)
{
  SumLeaves of = {.n = n_leaves, .bounds = leaves, .merge = merges};
  SumCrossing *crossing;
  int n_crossing;
  RengaCall(RengaCommSumRoute(comm, RENGA_SUM_FOLD, &of));
  RengaCall(RengaCommSumListCrossing(comm, &of, &n_crossing, &crossing));
  int count = ListForeign(comm, of.routes, n_crossing, crossing, pieces);
  RengaFree(&crossing);
  for (int i = comm->node_begin[comm->node]; i < comm->node_begin[comm->node + 1]; i++) {
    const int rank = comm->by_node[i];
    count += RengaCommTreePieces(n_leaves, leaves[rank], leaves[rank + 1], pieces + count);
  }
  qsort(pieces, (size_t)count, sizeof *pieces, CompareFirstLeaves);
  *n = count;
  return RENGA_SUCCESS;
}
