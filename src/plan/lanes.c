/* Which parameters are there in parts. What lanes have of a parameter are outputs of a Split of it
   (-graph_lanes). Where nobody else reads it, and each is read by one lane of the same stage and
   kept in the same type, it is a part: the runtime has it as a tensor of its own and runs neither
   the Split nor the Concat of its gradients, and predictions count neither. A table that is looked
   up and the output layer too has a Split for each, in any stages: they make the same parts, of the
   same lanes. */
#include "planimpl.h"
#include "renga/private/graph.h"
#include "renga/private/op.h"
#include <string.h>

/* What the network's nodes say of its values. */
typedef struct {
  RengaGraph graph;
  const RengaGraphRows *rows; /* lent by the graph */
  RengaPlan plan;             /* NULL: one stage has all */
  int *readers;               /* [values] inputs of nodes */
  int *lane;                  /* [values] of the readers; 0: there is none yet */
  int *splits;                /* [values] Splits that make the same parts of it */
  bool *plain; /* [values] a reader is in no lane, or in another lane or stage than others */
} PartReaders;

/* Nodes come in order, and so do their stages. */
static void CountPartReaders(const PartReaders *of)
{
  const RengaPlanStage all = {.last = RengaGraphGetNodeCount(of->graph)}, *row = &all;
  if (of->plan) row = of->plan->stage;
  for (int n = 0; n < RengaGraphGetNodeCount(of->graph); n++) {
    const RengaGraphRow *node = &of->rows->node[n];
    while (of->plan && n >= row->last) row++;
    for (int i = 0; i < node->n_in; i++) {
      const RengaValue v = node->in[i];
      if (v == RENGA_VALUE_NONE) continue;
      const int maker = of->rows->source[v].producer;
      of->readers[v]++;
      of->plain[v] = of->plain[v] || node->lane == 0 || maker < 0 ||
                     (of->lane[v] && of->lane[v] != node->lane) || maker < row->first ||
                     maker >= row->last;
      of->lane[v] = node->lane;
    }
  }
}

/* Each output of the node is read by one lane of its stage, and by nothing else. */
static bool MakesParts(const PartReaders *of, const RengaGraphNode *node)
{
  int count;
  const RengaValue *output;
  const RengaGraphValue *whole = RengaGraphGetValue(of->graph, node->in[0]);
  if (node->lane) return false;
  if (RengaGraphGetOutputs(of->graph, &count, &output)) return false;
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue v = node->out[o];
    if (v == RENGA_VALUE_NONE || of->readers[v] == 0 || of->plain[v]) return false;
    if (RengaGraphGetValue(of->graph, v)->stored != whole->stored) return false;
    for (int i = 0; i < count; i++)
      if (output[i] == v) return false;
  }
  return true;
}

/* Two Splits of one parameter. */
static bool MakeSameParts(const PartReaders *of, const RengaGraphNode *a, const RengaGraphNode *b)
{
  bool same = a->n_out == b->n_out && RengaAttributesEqual(&a->attributes, &b->attributes);
  for (int o = 0; o < a->n_out && same; o++) same = of->lane[a->out[o]] == of->lane[b->out[o]];
  return same;
}

/* The first of the Splits counts for all of them. */
static void MarkPartsOf(const PartReaders *of, int parts[])
{
  for (int n = 0; n < RengaGraphGetNodeCount(of->graph); n++) {
    if (strcmp(of->rows->node[n].op->name, "Split") != 0) continue;
    const RengaGraphNode *node = RengaGraphGetNode(of->graph, n);
    if (!MakesParts(of, node)) continue;
    const RengaValue v = node->in[0];
    if (RengaGraphGetValue(of->graph, v)->kind != RENGA_VALUE_PARAMETER) continue;
    if (!parts[v]) parts[v] = 1 + n;
    of->splits[v] += MakeSameParts(of, RengaGraphGetNode(of->graph, parts[v] - 1), node);
  }
  for (RengaValue v = 0; v < RengaGraphGetValueCount(of->graph); v++)
    if (parts[v] && of->splits[v] != of->readers[v]) parts[v] = 0;
}

static bool HasSplits(const PartReaders *of)
{
  for (int n = 0; n < RengaGraphGetNodeCount(of->graph); n++)
    if (strcmp(of->rows->node[n].op->name, "Split") == 0) return true;
  return false;
}

RengaErrorCode RengaPlanFindParts_Private(RengaPlan plan, RengaGraph graph, int parts[])
{
  const int n_values = RengaGraphGetValueCount(graph) + 1;
  PartReaders of = {.graph = graph, .plan = plan};
  RengaCall(RengaGraphGetRows_Private(graph, &of.rows));
  if (!HasSplits(&of)) return RENGA_SUCCESS;
  RengaCall(RengaMalloc(3 * n_values, &of.readers));
  of.lane = of.readers + n_values;
  of.splits = of.lane + n_values;
  RengaErrorCode code = RengaMalloc(n_values, &of.plain);
  if (!code) CountPartReaders(&of);
  if (!code) MarkPartsOf(&of, parts);
  RengaFree(&of.readers);
  RengaFree(&of.plain);
  RengaCall(code);
  return RENGA_SUCCESS;
}

int RengaPlanRankOfLane_Private(int lanes, int ranks, int lane)
{
  int rank = (int)((int64_t)lane * ranks / lanes);
  while ((int64_t)(rank + 1) * lanes / ranks <= lane) rank++;
  return rank;
}

RengaLaneGroup RengaPlanGetLaneGroup_Private(const RengaStageShape *shape, RengaGraph graph)
{
  RengaLaneGroup group = {
      .size = RengaShapeGroup_Private(shape),
      .ranks = {[RENGA_LANES_OF_HEADS] = shape->tensor, [RENGA_LANES_OF_TOKENS] = shape->sequence}};
  for (int k = 0; k < RENGA_LANE_KINDS; k++)
    RengaGraphCountLanes_Private(graph, (RengaLaneKind)k, &group.lanes[k], NULL);
  return group;
}

int RengaLaneGroupHas_Private(const RengaLaneGroup *group, int lane)
{
  int ranks = 0;
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    const int number = RengaLaneNumber(lane, (RengaLaneKind)k);
    if (number >= 0 && group->ranks[k] > 1)
      ranks |= RengaLaneMake((RengaLaneKind)k,
                             RengaPlanRankOfLane_Private(group->lanes[k], group->ranks[k], number));
  }
  return ranks;
}

RengaErrorCode RengaPlanCheckGroup_Private(RengaGraph graph, int tensor, int context)
{
  const int ranks[] = {tensor, context};
  MPI_Comm comm;
  RengaCall(RengaObjectGetComm(graph, &comm));
  for (int k = 0; k < RENGA_LANE_KINDS; k++) {
    const RengaLaneWords *words = &RengaLaneWords_Private[k];
    int lanes;
    RengaGraphCountLanes_Private(graph, (RengaLaneKind)k, &lanes, NULL);
    RengaCheck(
        ranks[k] <= lanes, comm, RENGA_ERR_OPTION,
        "%d %s ranks (%s) split the lanes of the network, of which there %s %d: give %s %d or more",
        ranks[k], words->ranks, words->share, lanes == 1 ? "is" : "are", lanes, words->lanes,
        ranks[k]);
  }
  return RENGA_SUCCESS;
}

/* Tensor ranks lie side by side. */
int RengaLaneGroupRank_Private(const RengaLaneGroup *group, int n)
{
  const int tensor = group->ranks[RENGA_LANES_OF_HEADS];
  int rank = 0;
  if (tensor > 1) rank |= RengaLaneMake(RENGA_LANES_OF_HEADS, n % tensor);
  if (group->ranks[RENGA_LANES_OF_TOKENS] > 1)
    rank |= RengaLaneMake(RENGA_LANES_OF_TOKENS, n / tensor);
  return rank;
}

int RengaLaneGroupAt_Private(const RengaLaneGroup *group, int ranks, int n)
{
  const int tensor = group->ranks[RENGA_LANES_OF_HEADS];
  const int t = RengaLaneNumber(ranks, RENGA_LANES_OF_HEADS),
            c = RengaLaneNumber(ranks, RENGA_LANES_OF_TOKENS);
  return (c < 0 ? n / tensor : c) * tensor + (t < 0 ? n % tensor : t);
}

bool RengaLaneGroupIsOne_Private(const RengaLaneGroup *group, int ranks)
{
  return ranks == RengaLaneGroupRank_Private(group, RengaLaneGroupAt_Private(group, ranks, 0));
}

RengaPlanPlace RengaPlanPlaceOf_Private(RengaPlan plan, int stage, int replica, int n)
{
  const int tensor = plan->stage[stage].shape.tensor;
  return (RengaPlanPlace){
      .stage = stage, .replica = replica, .sequence = n / tensor, .tensor = n % tensor};
}
