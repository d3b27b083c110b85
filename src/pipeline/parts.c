/* Parameters in parts. What lanes have of a parameter are outputs of a Split of it (-graph_lanes).
   Where nobody else reads it, and lanes are of the same stage, each of these is a tensor of its own
   in the chunk, with its place in the whole: values, gradient, moments, norm. So neither the Split
   nor the Concat of its gradients is run, and a rank has no more of the parameter than its lanes
   read. Initial values, checkpoints, digests and names are those of the whole. */
#include "parts.h"
#include "renga/private/graph.h"
#include <string.h>

/* What the network's nodes say of its values. */
typedef struct {
  int *readers; /* [values] inputs of nodes */
  int *last;    /* [values] 1 + the last node that reads it */
  int *lane;    /* [values] of the readers; 0: there is none yet */
  bool *plain;  /* [values] a reader is in no lane, or in another lane or stage than others */
} PartReaders;

static void CountPartReaders(const Outline *outline, const PartReaders *of)
{
  for (int n = 0; n < RengaGraphGetNodeCount(outline->graph); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(outline->graph, n);
    for (int i = 0; i < node->n_in; i++) {
      const RengaValue v = node->in[i];
      if (v == RENGA_VALUE_NONE) continue;
      const int maker = RengaGraphGetValue(outline->graph, v)->producer;
      of->readers[v]++;
      of->last[v] = 1 + n;
      of->plain[v] =
          of->plain[v] || node->lane == 0 || maker < 0 ||
          (of->lane[v] && of->lane[v] != node->lane) ||
          RengaPlanStageOfNode(outline->plan, n) != RengaPlanStageOfNode(outline->plan, maker);
      of->lane[v] = node->lane;
    }
  }
}

/* Each output of the node is read by one lane of its stage, and by nothing else. */
static bool MakesParts(const Outline *outline, const PartReaders *of, const RengaGraphNode *node)
{
  int count;
  const RengaValue *output;
  if (strcmp(node->op->name, "Split") != 0 || node->lane) return false;
  if (RengaGraphGetOutputs(outline->graph, &count, &output)) return false;
  for (int o = 0; o < node->n_out; o++) {
    const RengaValue v = node->out[o];
    if (v == RENGA_VALUE_NONE || of->readers[v] == 0 || of->plain[v]) return false;
    for (int i = 0; i < count; i++)
      if (output[i] == v) return false;
  }
  return true;
}

static RengaErrorCode MarkPartsOf(Outline *outline, const PartReaders *of)
{
  RengaPrecision precision;
  RengaCall(RengaGraphGetPrecision(outline->graph, &precision));
  for (RengaValue v = 0; v < RengaGraphGetValueCount(outline->graph); v++) {
    if (RengaGraphGetValue(outline->graph, v)->kind != RENGA_VALUE_PARAMETER) continue;
    outline->n_parameters++;
    if (of->readers[v] != 1 || precision != RENGA_PRECISION_FP32) continue;
    const RengaGraphNode *node = RengaGraphGetNode(outline->graph, of->last[v] - 1);
    if (!MakesParts(outline, of, node)) continue;
    outline->parts[v] = of->last[v];
    outline->n_parameters += node->n_out - 1;
  }
  return RENGA_SUCCESS;
}

/* Fills parts, and n_parameters, which counts each part. */
RengaErrorCode RengaOutlineFindParts_Private(Outline *outline)
{
  const int n_values = RengaGraphGetValueCount(outline->graph) + 1;
  PartReaders of = {0};
  RengaCall(RengaMalloc(n_values, &outline->parts));
  RengaCall(RengaMalloc(3 * n_values, &of.readers));
  of.last = of.readers + n_values;
  of.lane = of.last + n_values;
  RengaErrorCode code = RengaMalloc(n_values, &of.plain);
  if (!code) CountPartReaders(outline, &of);
  if (!code) code = MarkPartsOf(outline, &of);
  RengaFree(&of.readers);
  RengaFree(&of.plain);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The node that makes the parts of a parameter of the network; NULL: it is whole. */
const RengaGraphNode *RengaOutlinePartsOf_Private(const Outline *outline, RengaValue whole)
{
  const int node = outline->parts[whole] - 1;
  return node < 0 ? NULL : RengaGraphGetNode(outline->graph, node);
}

/* The same of a value of the chunk's graph. */
static const RengaGraphNode *PartsOfHeld(const Chunk *chunk, RengaValue value)
{
  const RengaGraphValue *held = RengaGraphGetValue(chunk->sub, value);
  if (held->kind != RENGA_VALUE_PARAMETER) return NULL;
  return RengaOutlinePartsOf_Private(chunk->outline,
                                     RengaGraphFindValue(chunk->outline->graph, held->name));
}

static RengaValue FindPartHere(const Chunk *chunk, const RengaGraphNode *split, int o)
{
  return RengaGraphFindValue(chunk->sub,
                             RengaGraphGetValue(chunk->outline->graph, split->out[o])->name);
}

/* Marks parameters of the chunk's graph that are there in parts, and the ranks of the tensor group
   that have the parts: those of the lanes that read them. */
RengaErrorCode RengaChunkMarkParts_Private(Chunk *chunk)
{
  const int n_values = RengaGraphGetValueCount(chunk->sub);
  RengaCall(RengaMalloc(n_values + 1, &chunk->uses.cut));
  RengaCall(RengaMalloc(n_values + 1, &chunk->uses.rank));
  for (RengaValue v = 0; v < n_values; v++) chunk->uses.cut[v] = PartsOfHeld(chunk, v) != NULL;
  for (int n = 0; n < RengaGraphGetNodeCount(chunk->sub); n++) {
    const RengaGraphNode *node = RengaGraphGetNode(chunk->sub, n);
    for (int i = 0; i < node->n_in && node->lane; i++)
      if (node->in[i] != RENGA_VALUE_NONE)
        chunk->uses.rank[node->in[i]] = RengaTensorRankOf_Private(&chunk->tensor, node->lane - 1);
  }
  return RENGA_SUCCESS;
}

/* Which part of the whole output o is: behind those before it along the axis. */
RengaErrorCode RengaChunkGetPart_Private(const Chunk *chunk, const RengaGraphNode *split, int o,
                                         RengaValue *value, RengaRectangle *part)
{
  RengaGraph graph = chunk->outline->graph;
  const int axis = (int)RengaAttributesInt(&split->attributes, "axis", 0);
  RengaCall(RengaRectangleWhole(&RengaGraphGetValue(graph, split->in[0])->spec, part));
  for (int p = 0; p < o; p++)
    part->start[axis] += RengaGraphGetValue(graph, split->out[p])->spec.dim[axis];
  part->extent[axis] = RengaGraphGetValue(graph, split->out[o])->spec.dim[axis];
  *value = FindPartHere(chunk, split, o);
  return RENGA_SUCCESS;
}

/* The node that puts the gradients of the parts together. */
static RengaErrorCode FindConcat(const Chunk *chunk, const RengaGraphNode *split,
                                 RengaValue gradient, const RengaGraphNode **concat)
{
  for (;;) {
    const int producer = RengaGraphGetValue(chunk->sub, gradient)->producer;
    const RengaGraphNode *node = producer < 0 ? NULL : RengaGraphGetNode(chunk->sub, producer);
    if (node && strcmp(node->op->name, "Identity") == 0) {
      gradient = node->in[0];
      continue;
    }
    RengaCheck(node && strcmp(node->op->name, "Concat") == 0 && node->n_in == split->n_out,
               MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "stage %d: the gradient of %s is not made of those of its %d parts", chunk->stage,
               RengaGraphGetValue(chunk->outline->graph, split->in[0])->name, split->n_out);
    *concat = node;
    return RENGA_SUCCESS;
  }
}

/* A use of each part instead of one of the whole, unless the optimizer leaves it as it is. */
static RengaErrorCode AddUsesOfParts(Chunk *chunk, const RengaGraphNode *split,
                                     const RengaParameterUse *whole, RengaParameterUse row[])
{
  const char *name = RengaGraphGetValue(chunk->sub, whole->parameter)->name;
  const RengaGraphNode *concat;
  double rate_scale, weight_decay;
  bool frozen;
  RengaCall(RengaOptimizerGetGroup(chunk->outline->settings->optimizer, name, &rate_scale,
                                   &weight_decay, &frozen));
  if (frozen) return RENGA_SUCCESS;
  RengaCall(FindConcat(chunk, split, whole->gradient, &concat));
  for (int o = 0; o < split->n_out; o++)
    row[chunk->uses.count++] = (RengaParameterUse){FindPartHere(chunk, split, o), concat->in[o],
                                                   whole->node_id, whole->input};
  return RENGA_SUCCESS;
}

/* From the uses of whole parameters, which the chunk's graph lends. */
RengaErrorCode RengaChunkListUses_Private(Chunk *chunk, int count, const RengaParameterUse whole[])
{
  int most = 0;
  for (int u = 0; u < count; u++) {
    const RengaGraphNode *split = PartsOfHeld(chunk, whole[u].parameter);
    most += split ? split->n_out : 1;
  }
  RengaCall(RengaMalloc(most + 1, &chunk->uses.row));
  RengaCall(RengaMalloc(most + 1, &chunk->uses.place));
  for (int u = 0; u < count; u++) {
    const RengaGraphNode *split = PartsOfHeld(chunk, whole[u].parameter);
    if (split)
      RengaCall(AddUsesOfParts(chunk, split, &whole[u], chunk->uses.row));
    else
      chunk->uses.row[chunk->uses.count++] = whole[u];
  }
  return RENGA_SUCCESS;
}
