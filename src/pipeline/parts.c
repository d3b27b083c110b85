/* Parameters in parts (RengaPlanFindParts_Private). Each part is a tensor of its own in the chunk,
   with its place in the whole: values, gradient, moments, norm. So neither the Split that makes
   them nor the Concat of their gradients is run, and a rank has no more of the parameter than its
   lanes read. Initial values, checkpoints, digests and names are those of the whole. Several nodes
   of a stage may make the same parts, each for a use of them. */
#include "parameter.h"
#include "renga/private/optimizer.h"
#include "renga/private/plan.h"
#include "renga/private/rectangle.h"
#include <string.h>

/* Fills parts, and numbers, which count each part. */
RengaErrorCode RengaOutlineFindParts_Private(Outline *outline)
{
  RengaGraph graph = outline->graph;
  const int n_values = RengaGraphGetValueCount(graph);
  RengaCall(RengaMalloc(n_values + 1, &outline->parts));
  RengaCall(RengaMalloc(n_values + 1, &outline->number));
  RengaCall(RengaPlanFindParts_Private(outline->plan, graph, outline->parts));
  for (RengaValue v = 0; v < n_values; v++) {
    outline->number[v] = outline->n_parameters;
    if (RengaGraphGetValue(graph, v)->kind == RENGA_VALUE_PARAMETER)
      outline->n_parameters +=
          outline->parts[v] ? RengaGraphGetNode(graph, outline->parts[v] - 1)->n_out : 1;
  }
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
  const RengaValue whole = chunk->uses->whole[value];
  return whole == RENGA_VALUE_NONE ? NULL : RengaOutlinePartsOf_Private(chunk->outline, whole);
}

/* Part o of a parameter of the chunk's graph. */
static RengaValue FindPartHere(const Chunk *chunk, RengaValue own, int o)
{
  return RengaGraphGetNode(chunk->sub, chunk->uses->split[own] - 1)->out[o];
}

/* A node that makes parts: those of the first one of the parameter. */
static void NoteSplit(Chunk *chunk, const RengaGraphRow *node, int n)
{
  ParameterUses *uses = chunk->uses;
  if (node->n_in != 1 || node->in[0] == RENGA_VALUE_NONE || !uses->cut[node->in[0]]) return;
  if (!uses->split[node->in[0]]) uses->split[node->in[0]] = 1 + n;
  for (int o = 0; o < node->n_out; o++)
    uses->same[node->out[o]] = FindPartHere(chunk, node->in[0], o);
}

/* Marks parameters of the chunk's graph that are there in parts, and the ranks of the tensor group
   that have the parts: those of the lanes that read them. */
RengaErrorCode RengaChunkMarkParts_Private(Chunk *chunk)
{
  const int n_values = RengaGraphGetValueCount(chunk->sub);
  const RengaGraphRows *rows;
  RengaCall(RengaGraphGetRows_Private(chunk->sub, &rows));
  RengaCall(RengaMalloc(n_values + 1, &chunk->uses->whole));
  RengaCall(RengaMalloc(n_values + 1, &chunk->uses->cut));
  RengaCall(RengaMalloc(n_values + 1, &chunk->uses->rank));
  RengaCall(RengaMalloc(n_values + 1, &chunk->uses->split));
  RengaCall(RengaMalloc(n_values + 1, &chunk->uses->same));
  chunk->uses->rows = rows;
  for (RengaValue v = 0; v < n_values; v++) {
    chunk->uses->whole[v] = RENGA_VALUE_NONE;
    chunk->uses->same[v] = v;
  }
  for (int l = 0; l < rows->n_leaves; l++) {
    const RengaValue v = rows->leaf[l];
    if (rows->source[v].kind != RENGA_VALUE_PARAMETER) continue;
    chunk->uses->whole[v] =
        RengaGraphFindValue(chunk->outline->graph, RengaGraphGetValue(chunk->sub, v)->name);
    chunk->uses->cut[v] = PartsOfHeld(chunk, v) != NULL;
  }
  for (int n = 0; n < RengaGraphGetNodeCount(chunk->sub); n++) {
    const RengaGraphRow *node = &rows->node[n];
    NoteSplit(chunk, node, n);
    for (int i = 0; i < node->n_in && node->lane; i++)
      if (node->in[i] != RENGA_VALUE_NONE)
        chunk->uses->rank[node->in[i]] =
            RengaLaneGroupHas_Private(&chunk->tensor.group, node->lane);
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
  *value = FindPartHere(
      chunk, RengaGraphFindValue(chunk->sub, RengaGraphGetValue(graph, split->in[0])->name), o);
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
    row[chunk->uses->count++] = (RengaParameterUse){FindPartHere(chunk, whole->parameter, o),
                                                    concat->in[o], whole->node_id, whole->input};
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
  RengaCall(RengaMalloc(most + 1, &chunk->uses->row));
  RengaCall(RengaMalloc(most + 1, &chunk->uses->place));
  for (int u = 0; u < count; u++) {
    const RengaGraphNode *split = PartsOfHeld(chunk, whole[u].parameter);
    if (split)
      RengaCall(AddUsesOfParts(chunk, split, &whole[u], chunk->uses->row));
    else
      chunk->uses->row[chunk->uses->count++] = whole[u];
  }
  return RENGA_SUCCESS;
}

void RengaChunkFreeUses_Private(Chunk *chunk)
{
  ParameterUses *uses = chunk->uses;
  RengaFree(&uses->row);
  RengaFree(&uses->place);
  RengaFree(&uses->whole);
  RengaFree(&uses->cut);
  RengaFree(&uses->rank);
  RengaFree(&uses->split);
  RengaFree(&uses->same);
  RengaFree(&uses->joined);
  RengaFree(&uses->holds);
}
