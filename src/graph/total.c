/* What a network amounts to: parameters, operations, bytes, a digest. */
#include "graphimpl.h"
#include <string.h>

/*@
   RengaGraphGetNodeFlops - floating point operations of a node

   Input:
   . node - 0 … RengaGraphGetNodeCount() - 1
   . batch - samples, at least 1

   Output:
   . flops - floating-point operations, at least 0; a multiply-add counts two

   Errors: RENGA_ERR_ARGUMENT for a node that there is not.

   See also: RengaGraphGetTotals(), RengaOperatorFlops()
@*/
RengaErrorCode RengaGraphGetNodeFlops(RengaGraph graph, int node, int64_t batch, double *flops)
{
  RengaOpCall call;
  RengaCheckPointers(graph, flops);
  RengaCheck(node >= 0 && node < graph->n_nodes, MPI_COMM_SELF, RENGA_ERR_ARGUMENT,
             "there is no node %d, the graph has %d", node, graph->n_nodes);
  RengaErrorCode code = RengaGraphMakeCall(graph, &graph->entry[node]->node, batch, &call);
  if (code == RENGA_SUCCESS) *flops = RengaOperatorFlops(&call);
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static double ValueBytes(const RengaGraphValue *value, int64_t batch)
{
  const RengaTensorSpec spec = RengaGraphStoredAt(value, batch);
  return (double)RengaTensorSpecBytes(&spec);
}

/*@
   RengaGraphGetTotals - size and cost of a network

   Output:
   . totals - elements of the parameters; operations and bytes of the outputs of all forward
     nodes for
     a batch of one sample

   See also: RengaGraphGetNodeFlops()
@*/
RengaErrorCode RengaGraphGetTotals(RengaGraph graph, RengaGraphTotals *totals)
{
  RengaGraphTotals sum = {0};
  RengaCheckPointers(graph, totals);
  for (int i = 0; i < graph->n_values; i++)
    if (graph->value[i]->kind == RENGA_VALUE_PARAMETER)
      sum.parameters += RengaTensorSpecCount(&graph->value[i]->spec);
  for (int i = 0; i < graph->n_nodes; i++) {
    const RengaGraphNode *node = &graph->entry[i]->node;
    double flops;
    if (node->phase != RENGA_PHASE_FORWARD) continue;
    RengaCall(RengaGraphGetNodeFlops(graph, i, 1, &flops));
    sum.forward_flops += flops;
    for (int j = 0; j < node->n_out; j++)
      sum.activation_bytes += ValueBytes(graph->value[node->out[j]], 1);
  }
  *totals = sum;
  return RENGA_SUCCESS;
}

static uint64_t HashDigestText(const char *text, uint64_t seed)
{
  return RengaHash(text, strlen(text), seed);
}

static uint64_t HashSpec(const RengaTensorSpec *spec, uint64_t seed)
{
  int64_t numbers[2 + RENGA_MAX_DIM] = {spec->type, spec->ndim};
  for (int d = 0; d < spec->ndim; d++) numbers[2 + d] = spec->dim[d];
  return RengaHash(numbers, sizeof numbers, seed);
}

static uint64_t HashNodeDigest(RengaGraph graph, const RengaGraphNode *node, uint64_t seed)
{
  seed = HashDigestText(node->op->name, HashDigestText(node->name, seed));
  seed = RengaAttributesHash(&node->attributes, "rounds", seed); /* it is the run's */
  for (int i = 0; i < node->n_in; i++)
    seed = HashDigestText(node->in[i] < 0 ? "" : graph->value[node->in[i]]->name, seed);
  for (int i = 0; i < node->n_out; i++)
    seed = HashSpec(RengaGraphSpec(graph, node->out[i]),
                    HashDigestText(graph->value[node->out[i]]->name, seed));
  return seed;
}

static uint64_t Digest(RengaGraph graph)
{
  uint64_t hash = 0;
  for (int i = 0; i < graph->n_values; i++) {
    const RengaGraphValue *value = graph->value[i];
    int64_t kind = value->kind;
    if (value->kind == RENGA_VALUE_ACTIVATION) continue;
    hash = HashSpec(&value->spec, HashDigestText(value->name, hash));
    hash = RengaHash(&kind, sizeof kind, hash);
  }
  for (int i = 0; i < graph->n_nodes; i++)
    hash = HashNodeDigest(graph, &graph->entry[i]->node, hash);
  return hash;
}

/*@
   RengaGraphGetDigest - a number that tells networks apart

   Notes: of names, shapes, operators and attributes; not of data, so a plan made for a network
   fits it whatever its weights.

   See also: RengaGraphSetUp()
@*/
uint64_t RengaGraphGetDigest(RengaGraph graph)
{
  RengaCheckHandle(graph, 0);
  if (graph == NULL) return 0;
  if (graph->hdr.state < RENGA_STATE_SETUP) return Digest(graph);
  if (!graph->known.digest) graph->known.digest = Digest(graph);
  return graph->known.digest;
}
