/* Parts of parameters that a lane puts together. Where units are interleaved (queries, keys and
   values) a lane has several parts of a parameter and reads their Concat. These parts lie one after
   the other among the values, so that the Concat is there without being made: no copy is kept for
   each micro-batch. */
#include "parameter.h"
#include <string.h>

/* What it puts together would lie in a row: the dimensions before its axis are 1. */
static bool JoinsRows(const Chunk *chunk, int n)
{
  const RengaGraphRow *row = &chunk->uses->rows->node[n];
  if (strcmp(row->op->name, "Concat") != 0 || row->n_in < 2) return false;
  const RengaGraphNode *node = RengaGraphGetNode(chunk->sub, n);
  const RengaTensorSpec *spec = &RengaGraphGetValue(chunk->sub, node->out[0])->spec;
  int axis = (int)RengaAttributesInt(&node->attributes, "axis", 0);
  if (axis < 0) axis += spec->ndim;
  for (int d = 0; d < axis; d++)
    if (spec->dim[d] != 1) return false;
  return true;
}

/* The node reads parameters of the rank, and nothing else. known: [values] 1 + the parameter that
   it is */
static bool ReadsParameters(const RengaGraphNode *node, const int known[])
{
  for (int i = 0; i < node->n_in; i++)
    if (node->in[i] == RENGA_VALUE_NONE || !known[node->in[i]]) return false;
  return true;
}

/* follows: [parameters] 1 + the one that is to lie behind it; behind: it lies behind another. */
static void FindFollowers(const Chunk *chunk, const int known[], int follows[], int behind[])
{
  for (int n = 0; n < RengaGraphGetNodeCount(chunk->sub); n++) {
    if (!JoinsRows(chunk, n)) continue;
    const RengaGraphNode *node = RengaGraphGetNode(chunk->sub, n);
    if (!ReadsParameters(node, known)) continue;
    for (int i = 0; i + 1 < node->n_in; i++) {
      const int p = known[node->in[i]] - 1, next = known[node->in[i + 1]] - 1;
      if (next <= p || follows[p] || behind[next]) continue; /* no circles */
      follows[p] = 1 + next;
      behind[next] = 1;
    }
  }
}

/* A part has several names where several nodes would make it. */
static void MarkKnown(const Chunk *chunk, int known[])
{
  for (int p = 0; p < chunk->n_parameters; p++) known[chunk->parameter[p].value] = 1 + p;
  for (RengaValue v = 0; v < RengaGraphGetValueCount(chunk->sub); v++)
    known[v] = known[chunk->uses->same[v]];
}

/* In which order parameters lie. order: [parameters] */
RengaErrorCode RengaChunkOrderParameters_Private(const Chunk *chunk, int order[])
{
  const int n = chunk->n_parameters, n_values = RengaGraphGetValueCount(chunk->sub);
  int *known, count = 0;
  RengaCall(RengaMalloc((int64_t)n_values + 2 * (int64_t)n + 1, &known));
  int *follows = known + n_values, *behind = follows + n;
  MarkKnown(chunk, known);
  FindFollowers(chunk, known, follows, behind);
  for (int p = 0; p < n; p++)
    for (int next = behind[p] ? 0 : 1 + p; next; next = follows[next - 1])
      order[count++] = next - 1;
  RengaFree(&known);
  return RENGA_SUCCESS;
}

/* All inputs are there, one behind the other and of the type that the output has. */
static bool LiesInARow(const Chunk *chunk, const RengaGraphNode *node)
{
  const RengaDataType type = RengaGraphGetValue(chunk->sub, node->out[0])->stored;
  const Place *first = &chunk->value_place[node->in[0]];
  int64_t offset = first->offset;
  for (int i = 0; i < node->n_in; i++) {
    const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, node->in[i]);
    const Place *place = &chunk->value_place[node->in[i]];
    if (place->region != REGION_PERSISTENT || place->offset != offset) return false;
    if (value->stored != type) return false;
    RengaTensorSpec spec = value->spec;
    spec.type = type;
    offset += (int64_t)RengaTensorSpecBytes(&spec);
  }
  return true;
}

/* away: [values] parts that another rank of the tensor group has, and has among its values. */
static void MarkAway(const Chunk *chunk, int away[], int fetched[])
{
  for (int p = 0; p < chunk->n_parameters; p++)
    if (chunk->parameter[p].sharded && RengaChunkFetches_Private(chunk))
      fetched[RengaGraphFindValue(chunk->sub, chunk->parameter[p].name)] = 1;
  for (int n = 0; n < RengaGraphGetNodeCount(chunk->sub); n++) {
    const RengaGraphRow *node = &chunk->uses->rows->node[n];
    const bool cuts = node->n_in == 1 && node->in[0] >= 0 && chunk->uses->cut[node->in[0]];
    for (int o = 0; o < node->n_out && cuts && !fetched[node->in[0]]; o++)
      away[node->out[o]] =
          !RengaLaneCovers(chunk->uses->rank[node->out[o]], RengaChunkAlone_Private(chunk));
  }
}

/* All inputs are there one behind the other on the rank that has them, which works it out for
   itself: each but the last fills its room. So the ranks of a tensor group leave out the same
   nodes. */
static bool LiesInARowAway(const Chunk *chunk, const RengaGraphNode *node, const int away[])
{
  const RengaDataType type = RengaGraphGetValue(chunk->sub, node->out[0])->stored;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == RENGA_VALUE_NONE || !away[node->in[i]]) return false;
    const RengaGraphValue *value = RengaGraphGetValue(chunk->sub, node->in[i]);
    const int64_t count = RengaTensorSpecCount(&value->spec);
    if (value->stored != type) return false;
    if (i + 1 < node->n_in && RengaChunkRoom_Private(chunk, count) != count) return false;
  }
  return true;
}

/* The parameter that the value is, or is a part of. */
static RengaValue ParameterOf(const Chunk *chunk, RengaValue value)
{
  const int producer = RengaGraphGetValue(chunk->sub, value)->producer;
  const RengaGraphNode *maker = producer < 0 ? NULL : RengaGraphGetNode(chunk->sub, producer);
  const bool cut = maker && maker->n_in == 1 && maker->in[0] >= 0 && chunk->uses->cut[maker->in[0]];
  return cut ? maker->in[0] : value;
}

/* What is frozen lies apart from what is not, on whichever rank. */
static RengaErrorCode AreFrozenAlike(const Chunk *chunk, const RengaGraphNode *node, bool *alike)
{
  bool first = false, frozen;
  *alike = true;
  for (int i = 0; i < node->n_in; i++) {
    if (node->in[i] == RENGA_VALUE_NONE) continue;
    const RengaValue whole = ParameterOf(chunk, node->in[i]);
    RengaCall(RengaOutlineIsFrozen_Private(chunk->outline, RengaGraphGetValue(chunk->sub, whole),
                                           &frozen));
    if (i == 0) first = frozen;
    *alike = *alike && frozen == first;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PlaceJoinedBy(Chunk *chunk, int n, const int known[], const int away[])
{
  bool alike;
  if (!JoinsRows(chunk, n)) return RENGA_SUCCESS;
  const RengaGraphNode *node = RengaGraphGetNode(chunk->sub, n);
  RengaCall(AreFrozenAlike(chunk, node, &alike));
  if (!alike) return RENGA_SUCCESS;
  const bool here = ReadsParameters(node, known) && LiesInARow(chunk, node);
  if (here) chunk->value_place[node->out[0]] = chunk->value_place[node->in[0]];
  chunk->uses->joined[node->out[0]] = here || LiesInARowAway(chunk, node, away);
  return RENGA_SUCCESS;
}

/* What is sent is made. */
static void LeaveSentOut(Chunk *chunk)
{
  for (int m = 0; m < chunk->outline->n_messages; m++) {
    const Link *link = &chunk->link[m];
    if (!link->active || link->incoming || !chunk->uses->joined[link->value]) continue;
    chunk->uses->joined[link->value] = false;
    chunk->value_place[link->value].region = REGION_ABSENT;
  }
}

/* Once it is known where parameters lie. */
RengaErrorCode RengaChunkPlaceJoined_Private(Chunk *chunk)
{
  const int n_values = RengaGraphGetValueCount(chunk->sub);
  int *known;
  RengaCall(RengaMalloc(n_values + 1, &chunk->uses->joined));
  RengaCall(RengaMalloc(3 * (int64_t)n_values + 1, &known));
  int *away = known + n_values, *fetched = away + n_values;
  MarkKnown(chunk, known);
  if (chunk->tensor.group.size > 1) MarkAway(chunk, away, fetched);
  RengaErrorCode code = RENGA_SUCCESS;
  for (int n = 0; n < RengaGraphGetNodeCount(chunk->sub) && !code; n++)
    code = PlaceJoinedBy(chunk, n, known, away);
  LeaveSentOut(chunk);
  RengaFree(&known);
  RengaCall(code);
  return RENGA_SUCCESS;
}
