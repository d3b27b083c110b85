/* Which parameters are there in parts. What lanes have of a parameter are outputs of a Split of it
   (-graph_lanes). Where nobody else reads it, and each is read by one lane of the same stage and
   kept in the same type, it is a part: the runtime has it as a tensor of its own and runs neither
   the Split nor the Concat of its gradients, and predictions count neither. A table that is looked
   up and the output layer too has a Split for each, in any stages: they make the same parts, of the
   same lanes. */
#include "planimpl.h"
#include <string.h>

/* What the network's nodes say of its values. */
typedef struct {
  RengaGraph graph;
  RengaPlan plan; /* NULL: one stage has all */
  int *readers;   /* [values] inputs of nodes */
  int *lane;      /* [values] of the readers; 0: there is none yet */
  int *splits;    /* [values] Splits that make the same parts of it */
  bool *plain;    /* [values] a reader is in no lane, or in another lane or stage than others */
} PartReaders;

/* Nodes come in order, and so do their stages. */
static void CountPartReaders(const PartReaders *of)
{
  const RengaPlanStage all = {.last = RengaGraphGetNodeCount(of->graph)}, *row = &all;
  if (of->plan) row = of->plan->stage;
  for (int n = 0; n < RengaGraphGetNodeCount(of->graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(of->graph, n);
    while (of->plan && n >= row->last) row++;
    for (int i = 0; i < node->n_in; i++) {
      const RengaValue v = node->in[i];
      if (v == RENGA_VALUE_NONE) continue;
      const int maker = RengaGraphGetValue(of->graph, v)->producer;
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
    const RengaGraphNode *node = RengaGraphGetNode(of->graph, n);
    if (strcmp(node->op->name, "Split") != 0 || !MakesParts(of, node)) continue;
    const RengaValue v = node->in[0];
    if (RengaGraphGetValue(of->graph, v)->kind != RENGA_VALUE_PARAMETER) continue;
    if (!parts[v]) parts[v] = 1 + n;
    of->splits[v] += MakeSameParts(of, RengaGraphGetNode(of->graph, parts[v] - 1), node);
  }
  for (RengaValue v = 0; v < RengaGraphGetValueCount(of->graph); v++)
    if (parts[v] && of->splits[v] != of->readers[v]) parts[v] = 0;
}

RengaErrorCode RengaPlanFindParts_Private(RengaPlan plan, RengaGraph graph, int parts[])
{
  const int n_values = RengaGraphGetValueCount(graph) + 1;
  PartReaders of = {.graph = graph, .plan = plan};
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

int RengaPlanTensorRankOfLane_Private(int lanes, int tensor, int lane)
{
  int rank = (int)((int64_t)lane * tensor / lanes);
  while ((int64_t)(rank + 1) * lanes / tensor <= lane) rank++;
  return rank;
}
