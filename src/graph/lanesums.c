/* Sums of what lanes make, by the fixed tree. Where ranks share the lanes out each term would go
   whole to all of them. So a sum is made in pieces, one for each lane. Lanes cut their terms; of
   the lanes of a subtree each adds up some of its pieces, in the end the lane of a piece has its
   sum, and a node in no lane puts the sums together. What ranks give each other is a reduce-scatter
   of terms and an all-gather of the sum, which may be narrower: of n elements each of T ranks gives
   away (1 - 1/T) (4 + 2) n bytes in 16 bits, and not (T - 1) 4 n L/T. Elements are added in the
   order of whole terms. Where bytes would be no fewer (two lanes in 32 bits) terms go whole. */
#include "lanes.h"

enum { SUM_NAME = 512, PIECES_MOST = 16 }; /* a sum has a node for each two of them */

typedef struct {
  const RengaLanes *pass;
  RengaGraph graph;
  const RengaGraphNode *node; /* of which lanes make terms */
  bool exact;                 /* all but one of the terms are zeros */
  int lanes;
} LaneSum;

static RengaErrorCode AddTwo(const LaneSum *sum, const char *name, bool term, RengaValue a,
                             RengaValue b, RengaValue *added)
{
  RengaGraph graph = sum->graph;
  const RengaValue pair[2] = {a, b};
  RengaCall(RengaGraphInsertNode(graph, "Add", name, NULL, 2, pair, 1, NULL, added));
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = sum->node->wide;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = sum->node->lane;
  graph->entry[graph->n_nodes - 1]->term = term && !sum->exact;
  return RENGA_SUCCESS;
}

/* Lanes [first, first + n) of the fixed tree: the left half is a power of two. The root makes the
   value that the node has made. */
static RengaErrorCode AddWholeTerms(const LaneSum *sum, const RengaValue term[], int first, int n,
                                    RengaValue root, RengaValue *added)
{
  const bool inner = root == RENGA_VALUE_NONE;
  const char *made = sum->node->name;
  char wanted[SUM_NAME], name[SUM_NAME];
  RengaValue left, right;
  int half = 1;
  *added = term[first];
  if (n == 1) return RENGA_SUCCESS;
  while (2 * half < n) half *= 2;
  RengaCall(AddWholeTerms(sum, term, first, half, RENGA_VALUE_NONE, &left));
  RengaCall(AddWholeTerms(sum, term, first + half, n - half, RENGA_VALUE_NONE, &right));
  snprintf(wanted, sizeof wanted, "%.400s.lanes%d-%d", made, first, first + n - 1);
  RengaCall(RengaGraphUniqueName(sum->graph, wanted, sizeof name, name));
  *added = root;
  RengaCall(AddTwo(sum, inner ? name : made, inner, left, right, added));
  return RENGA_SUCCESS;
}

/* The dimension in which sums are made in pieces, one for each lane, of consecutive elements where
   there are several tokens; -1: terms go whole, as there are too few elements, or bytes would be no
   fewer that a rank of as many as lanes gives away, or nodes too many. term, sum: bytes of an
   element */
int RengaGraphPieceDimension(const RengaTensorSpec *spec, int lanes, size_t term, size_t sum)
{
  if (lanes > PIECES_MOST || (size_t)lanes * term <= term + sum) return -1;
  for (int d = 0; d < spec->ndim; d++)
    if (spec->dim[d] >= lanes) return d;
  return -1;
}

/* The last that has so many elements: where lanes of tokens are still to be made their dimension
   stays as it is. */
static int LastPieceDimension(const RengaTensorSpec *spec, int lanes)
{
  int d = spec->ndim - 1;
  while (d >= 0 && spec->dim[d] < lanes) d--;
  return d;
}

/* name: or NULL; piece: [lanes] */
RengaErrorCode RengaGraphCutPieces(RengaGraph graph, const char *name, RengaValue term, int dim,
                                   int lanes, RengaValue piece[])
{
  const int64_t units = RengaGraphSpec(graph, term)->dim[dim];
  RengaAttributes attributes = {0};
  int64_t *extent, first;
  RengaCall(RengaGraphScratch(graph, lanes, &extent));
  for (int l = 0; l < lanes; l++) {
    RengaLaneUnits(units, l, lanes, &first, &extent[l]);
    piece[l] = RENGA_VALUE_NONE;
  }
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", dim);
  if (!code) code = RengaAttributesSetInts(&attributes, "split", lanes, extent);
  if (!code)
    code = RengaGraphInsertNode(graph, "Split", name, &attributes, 1, &term, lanes, NULL, piece);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  graph->entry[graph->n_nodes - 1]->pieces = true;
  return RENGA_SUCCESS;
}

/* *whole: NONE, or the value that is made. */
RengaErrorCode RengaGraphJoinPieces(RengaGraph graph, const char *name, int dim, int lanes,
                                    const RengaValue piece[], RengaValue *whole)
{
  RengaAttributes attributes = {0};
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", dim);
  if (!code)
    code = RengaGraphInsertNode(graph, "Concat", name, &attributes, lanes, piece, 1, NULL, whole);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  graph->entry[graph->n_nodes - 1]->pieces = true;
  return RENGA_SUCCESS;
}

/* Of the lanes [first, first + both) each adds up those pieces that it has the place of. */
static RengaErrorCode AddSubtree(const LaneSum *sum, int first, int half, RengaValue piece[])
{
  RengaGraph graph = sum->graph;
  const int lanes = sum->lanes, rest = lanes - first;
  const int both = rest < 2 * half ? rest : 2 * half;
  char wanted[SUM_NAME], name[SUM_NAME];
  for (int p = 0; p < lanes; p++) {
    RengaValue *left = &piece[first * lanes + p], added = RENGA_VALUE_NONE;
    snprintf(wanted, sizeof wanted, "%.400s.lanes%d-%d.piece%d", sum->node->name, first,
             first + both - 1, p);
    RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
    RengaCall(AddTwo(sum, name, both < lanes, *left, piece[(first + half) * lanes + p], &added));
    RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane =
        RengaGraphInLane(sum->pass, sum->node->lane, first + p % both);
    graph->entry[graph->n_nodes - 1]->pieces = true;
    *left = added;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode AddInPieces(const LaneSum *sum, const RengaValue term[], int dim,
                                  RengaValue root)
{
  RengaGraph graph = sum->graph;
  const int lanes = sum->lanes;
  char wanted[SUM_NAME], name[SUM_NAME];
  RengaValue *piece;
  RengaCall(RengaGraphScratch(graph, (int64_t)lanes * lanes, &piece));
  for (int l = 0; l < lanes; l++) {
    snprintf(wanted, sizeof wanted, "%.400s.lane%d.pieces", sum->node->name, l);
    RengaCall(RengaGraphUniqueName(graph, wanted, sizeof name, name));
    RengaCall(RengaGraphCutPieces(graph, name, term[l], dim, lanes, piece + l * lanes));
    RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = sum->node->wide;
    RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane =
        RengaGraphInLane(sum->pass, sum->node->lane, l);
    graph->entry[graph->n_nodes - 1]->term = !sum->exact;
  }
  for (int half = 1; half < lanes; half *= 2)
    for (int first = 0; first + half < lanes; first += 2 * half)
      RengaCall(AddSubtree(sum, first, half, piece));
  RengaCall(RengaGraphJoinPieces(graph, sum->node->name, dim, lanes, piece, &root));
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->wide = sum->node->wide;
  RengaGraphEntryNode(graph, graph->n_nodes - 1)->lane = sum->node->lane;
  return RENGA_SUCCESS;
}

/* Bytes of an element that may be kept in 16 bits. */
static RengaErrorCode SizeOfNarrow(RengaGraph graph, const RengaGraphNode *node, size_t *size)
{
  RengaPrecision precision;
  RengaStorage storage;
  RengaCall(RengaGraphGetPrecision(graph, &precision));
  RengaCall(RengaPrecisionGetStorage(precision, &storage));
  *size = node->wide ? sizeof(float) : RengaDataTypeSize(storage.value);
  return RENGA_SUCCESS;
}

/* out becomes the sum of term[lanes], which lanes make of the node. */
RengaErrorCode RengaGraphSumLanes(RengaLanes *pass, const RengaGraphNode *node, bool exact,
                                  const RengaValue term[], RengaValue out)
{
  const LaneSum sum = {pass, pass->graph, node, exact, pass->lanes};
  size_t narrow;
  RengaCall(SizeOfNarrow(pass->graph, node, &narrow));
  int dim = RengaGraphPieceDimension(RengaGraphSpec(pass->graph, out), pass->lanes,
                                     exact ? narrow : sizeof(float), narrow);
  if (dim >= 0 && !pass->tokens && pass->graph->options.token_lanes > 1)
    dim = LastPieceDimension(RengaGraphSpec(pass->graph, out), pass->lanes);
  if (dim >= 0)
    RengaCall(AddInPieces(&sum, term, dim, out));
  else
    RengaCall(AddWholeTerms(&sum, term, 0, pass->lanes, out, &out));
  return RENGA_SUCCESS;
}

RengaDataType RengaGraphTypeOfLaneSum(RengaGraph graph, RengaValue value)
{
  const int maker = graph->value[value]->producer;
  const bool view = maker >= 0 && graph->entry[maker]->term &&
                    (RengaGraphEntryNode(graph, maker)->op->flags & RENGA_OP_RESHAPE);
  return RengaGraphTypeOfGradient_Private(graph,
                                          view ? RengaGraphEntryNode(graph, maker)->in[0] : value);
}

/* Of all lanes' terms. */
RengaGraphLaneGradient RengaGraphGetLaneGradient_Private(RengaGraph graph, RengaValue value)
{
  int lanes = 1;
  RengaGraphLaneGradient gradient = {
      .term = RengaDataTypeSize(RengaGraphTypeOfGradient_Private(graph, value)),
      .sum = RengaDataTypeSize(RengaGraphTypeOfLaneSum(graph, value))};
  if (RengaGraphGetLanes(graph, &lanes, NULL) != RENGA_SUCCESS) return gradient;
  gradient.in_pieces = graph->value[value]->kind != RENGA_VALUE_PARAMETER &&
                       RengaGraphPieceDimension(RengaGraphSpec(graph, value), lanes, gradient.term,
                                                gradient.sum) >= 0;
  return gradient;
}

bool RengaGraphIsOfPieces_Private(RengaGraph graph, int node)
{
  return graph->entry[node]->pieces;
}
