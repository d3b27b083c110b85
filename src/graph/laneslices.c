/* Slices of one value that lie side by side, all of one size, are one Split. An older exporter of
   PyTorch writes chunks so. Lanes have their units of each part of a Split, but none of a Slice,
   so that this comes before them. Slices far apart in the order of the nodes stay: their parts
   would live long, and cross the cuts of stages; and so do those that -precision_keep or
   -graph_split tell apart. */
#include "lanes.h"
#include "renga/private/op.h"
#include <string.h>

enum { NEAR_SLICES = 32 }; /* nodes before and after the slice that begins at 0 */

/* What a node cuts out of its input along one dimension; size 0: it does something else. */
typedef struct {
  int axis;
  int64_t first, size;
} LaneSlice;

static RengaErrorCode ReadSlice(RengaGraph graph, int at, LaneSlice *cut)
{
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  const RengaTensorSpec *x = RengaGraphSpec(graph, node->in[0]);
  RengaOpCall call;
  RengaOpSlice slice;
  int changed = 0;
  *cut = (LaneSlice){.size = 0};
  RengaCall(RengaGraphMakeCall(graph, node, RENGA_OP_SOME_BATCH, &call));
  const RengaErrorCode code = RengaOpGetSlice(&call, &call.in[0], &slice);
  for (int d = 0; d < x->ndim && !code; d++) {
    if (slice.begin[d] == 0 && slice.step[d] == 1 && slice.count[d] == call.in[0].dim[d]) continue;
    changed += x->dim[d] > 0 && slice.step[d] == 1 ? 1 : 2;
    *cut = (LaneSlice){d, slice.begin[d], slice.count[d]};
  }
  if (changed != 1) cut->size = 0;
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* A slice of the value like that at node `at`, which the user names as this. */
static bool IsLikeSlice(RengaGraph graph, int at, int other)
{
  const RengaGraphEntry *a = graph->entry[at], *b = graph->entry[other];
  return !b->dead && strcmp(b->node.op->name, "Slice") == 0 && b->node.in[0] == a->node.in[0] &&
         b->node.wide == a->node.wide && b->wish == a->wish;
}

/* Near node `at`: part[p] is the slice that has elements p * size and on. */
static RengaErrorCode FindSlices(RengaGraph graph, int at, const LaneSlice *wanted, int count,
                                 int part[], int *found)
{
  *found = 0;
  for (int p = 0; p < count; p++) part[p] = -1;
  for (int i = at > NEAR_SLICES ? at - NEAR_SLICES : 0; i <= at + NEAR_SLICES && i < graph->n_nodes;
       i++) {
    LaneSlice cut;
    if (!IsLikeSlice(graph, at, i)) continue;
    RengaCall(ReadSlice(graph, i, &cut));
    if (cut.size != wanted->size || cut.axis != wanted->axis || cut.first % cut.size) continue;
    if (cut.first / cut.size >= count) continue;
    *found += part[cut.first / cut.size] < 0;
    part[cut.first / cut.size] = i;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PutSplit(RengaGraph graph, const LaneSlice *cut, int count, const int part[])
{
  const RengaGraphNode *first = RengaGraphEntryNode(graph, part[0]);
  const RengaValue value = first->in[0];
  RengaAttributes attributes = {0};
  RengaValue *out;
  int64_t *extent;
  RengaCall(RengaGraphScratch(graph, count, &out));
  RengaCall(RengaGraphScratch(graph, count, &extent));
  graph->place = graph->entry[part[0]]->place;
  for (int p = 0; p < count; p++) {
    out[p] = RengaGraphEntryNode(graph, part[p])->out[0];
    extent[p] = cut->size;
    graph->entry[part[p]]->dead = true;
    if (graph->entry[part[p]]->place < graph->place) graph->place = graph->entry[part[p]]->place;
  }
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", cut->axis);
  if (!code) code = RengaAttributesSetInts(&attributes, "split", count, extent);
  if (!code)
    code =
        RengaGraphInsertNode(graph, "Split", first->name, &attributes, 1, &value, count, NULL, out);
  graph->place = -1;
  RengaAttributesFree(&attributes);
  RengaCall(code);
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = first->wide;
  graph->entry[graph->n_nodes - 1]->wish = graph->entry[part[0]]->wish;
  return RENGA_SUCCESS;
}

/* The node, which begins at 0, and those beside it, where they are all of the value. */
static RengaErrorCode MergeSlicesOf(RengaGraph graph, int at)
{
  const RengaGraphNode *node = RengaGraphEntryNode(graph, at);
  LaneSlice cut;
  int part[2 * NEAR_SLICES + 1] = {0}, found;
  RengaCall(ReadSlice(graph, at, &cut));
  if (cut.size == 0 || cut.first != 0) return RENGA_SUCCESS;
  const int64_t extent = RengaGraphSpec(graph, node->in[0])->dim[cut.axis];
  if (extent % cut.size || extent / cut.size > 2 * NEAR_SLICES + 1) return RENGA_SUCCESS;
  const int count = (int)(extent / cut.size);
  RengaCall(FindSlices(graph, at, &cut, count, part, &found));
  if (found == count) RengaCall(PutSplit(graph, &cut, count, part));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaGraphMergeSlices(RengaGraph graph)
{
  const int n = graph->n_nodes;
  for (int i = 0; i < n; i++)
    if (!graph->entry[i]->dead && strcmp(RengaGraphEntryNode(graph, i)->op->name, "Slice") == 0)
      RengaCall(MergeSlicesOf(graph, i));
  RengaCall(RengaGraphSortNodes(graph));
  return RENGA_SUCCESS;
}
