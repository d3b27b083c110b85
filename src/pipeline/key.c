/* What the memory of a stage depends on, written down as a *key*: for each node its class
   (operator, attributes, shapes, kinds of its values), for each input how far back it is made, then
   the messages. Names and numbers that do not change its memory are not in it; what is used in
   several places of the network is there by its number. */
#include "forecasts.h"
#include "memory.h"
#include "renga/private/graph.h"
#include "renga/private/op.h"
#include <stdlib.h>
#include <string.h>

enum { OUTPUTS_MOST = 1 << 20 };

static uint64_t HashText(const char *text, uint64_t seed)
{
  return RengaHash(text, strlen(text) + 1, seed);
}

/* The key of random numbers changes no size. */
static uint64_t HashAttributes(const RengaGraphNode *node, uint64_t hash)
{
  const char *except = node->op->flags & RENGA_OP_RANDOM ? "key" : NULL;
  return RengaAttributesHash(&node->attributes, except, hash);
}

static bool IsOutput(RengaGraph graph, RengaValue value)
{
  int count;
  const RengaValue *output;
  if (RengaGraphGetOutputs(graph, &count, &output)) return false;
  for (int o = 0; o < count; o++)
    if (output[o] == value) return true;
  return false;
}

static RengaErrorCode HashValue(const Outline *outline, RengaValue v, RengaValue loss,
                                uint64_t *hash)
{
  int64_t number[11 + RENGA_MAX_DIM] = {0};
  bool frozen;
  if (v == RENGA_VALUE_NONE) {
    *hash = RengaHash(number, sizeof number, *hash);
    return RENGA_SUCCESS;
  }
  const RengaGraphValue *value = RengaGraphGetValue(outline->graph, v);
  RengaCall(RengaOutlineIsFrozen_Private(outline, value, &frozen));
  const int64_t head[11] = {1,
                            value->kind,
                            value->prepared,
                            value->differentiable,
                            frozen + 2 * (outline->tables && outline->tables[v]),
                            v == loss,
                            value->producer >= 0 && IsOutput(outline->graph, v),
                            value->spec.type,
                            value->stored,
                            value->stored_gradient,
                            value->spec.ndim};
  memcpy(number, head, sizeof head);
  for (int d = 0; d < value->spec.ndim; d++) number[11 + d] = value->spec.dim[d];
  *hash = RengaHash(number, sizeof number, *hash);
  return RENGA_SUCCESS;
}

static RengaErrorCode ClassifyNode(const Outline *outline, int n, RengaValue loss,
                                   StageClasses *classes)
{
  const RengaGraphNode *node = RengaGraphGetNode(outline->graph, n);
  const uint64_t lane = (uint64_t)node->lane << 32;
  const bool pieces = RengaGraphIsOfPieces_Private(outline->graph, n);
  const uint64_t form = (lane + (uint64_t)node->n_in) * 4 + 2 * pieces + node->wide;
  uint64_t hash = HashAttributes(node, HashText(node->op->name, form));
  for (int i = 0; i < node->n_in + node->n_out; i++)
    RengaCall(
        HashValue(outline, i < node->n_in ? node->in[i] : node->out[i - node->n_in], loss, &hash));
  classes->class[n] = hash;
  for (int i = 0; i < node->n_in; i++) {
    const RengaValue v = node->in[i];
    if (v == RENGA_VALUE_NONE || (classes->uses[v] && classes->first[v] == n)) continue;
    if (!classes->uses[v]++) classes->first[v] = n;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PushNumber(StageKey *key, int64_t number)
{
  if (key->count == key->capacity) {
    key->capacity = 2 * key->capacity + 1024;
    RengaCall(RengaRealloc(key->capacity, &key->number));
  }
  key->number[key->count++] = number;
  return RENGA_SUCCESS;
}

static int64_t DistanceOf(const RengaGraphValue *value, int from)
{
  return ((int64_t)from - value->producer) * OUTPUTS_MOST + value->output;
}

/* Other stages may leave it whole here: the number is set for each plan. */
static RengaErrorCode PushKeyOfParts(StageClasses *classes, RengaValue parameter)
{
  if (!(classes->n_parts & (classes->n_parts - 1)))
    RengaCall(RengaRealloc(2 * classes->n_parts + 1, &classes->part));
  classes->part[classes->n_parts++] = (KeyOfParts){classes->all.count, parameter};
  RengaCall(PushNumber(&classes->all, 0));
  return RENGA_SUCCESS;
}

/* Which value an input is: made so far back, or one that only this node reads, or one of the whole
   network. */
static RengaErrorCode PushInput(const Outline *outline, StageClasses *classes,
                                const RengaGraphNode *node, int n, int i)
{
  enum { NONE, NEAR, OWN, WHOLE };
  StageKey *key = &classes->all;
  const RengaValue v = node->in[i];
  int first = 0;
  if (v == RENGA_VALUE_NONE) {
    RengaCall(PushNumber(key, NONE));
    return RENGA_SUCCESS;
  }
  const RengaGraphValue *value = RengaGraphGetValue(outline->graph, v);
  const bool made = value->kind == RENGA_VALUE_ACTIVATION && value->producer >= 0;
  const bool own = value->kind == RENGA_VALUE_PARAMETER || value->kind == RENGA_VALUE_CONSTANT;
  while (node->in[first] != v) first++;
  if (value->kind == RENGA_VALUE_PARAMETER) RengaCall(PushKeyOfParts(classes, v));
  if (made && !value->prepared)
    RengaCall(PushNumber(key, 4 * DistanceOf(value, n) + NEAR));
  else if (own && classes->uses[v] == 1)
    RengaCall(PushNumber(key, 4 * first + OWN));
  else
    RengaCall(PushNumber(key, 4 * (int64_t)v + WHOLE));
  return RENGA_SUCCESS;
}

static bool MakesOutput(RengaGraph graph, const RengaGraphNode *node, RengaValue loss)
{
  for (int o = 0; o < node->n_out; o++)
    if (node->out[o] >= 0 && (node->out[o] == loss || IsOutput(graph, node->out[o]))) return true;
  return false;
}

/* Prepared nodes are in the stages that read them; those that make an output are where they
   stand. */
static RengaErrorCode PushNode(const Outline *outline, StageClasses *classes, int n,
                               RengaValue loss)
{
  const RengaGraphNode *node = RengaGraphGetNode(outline->graph, n);
  if (RengaGraphNodeIsPrepared_Private(outline->graph, node)) {
    RengaCall(PushNumber(&classes->all, MakesOutput(outline->graph, node, loss) ? -1 - n : 0));
    return RENGA_SUCCESS;
  }
  RengaCall(PushNumber(&classes->all, (int64_t)classes->class[n]));
  for (int i = 0; i < node->n_in; i++) RengaCall(PushInput(outline, classes, node, n, i));
  return RENGA_SUCCESS;
}

/* Of all nodes of the network; what was made is freed by RengaClassesFree_Private in any case. */
RengaErrorCode RengaClassesMake_Private(const Outline *outline, StageClasses *classes)
{
  const int n_values = RengaGraphGetValueCount(outline->graph);
  const int n_nodes = RengaGraphGetNodeCount(outline->graph);
  RengaValue loss;
  RengaCall(RengaMalloc(n_nodes + 1, &classes->class));
  RengaCall(RengaMalloc(n_nodes + 1, &classes->from));
  RengaCall(RengaMalloc(n_nodes + 1, &classes->part_from));
  RengaCall(RengaMalloc(n_values + 1, &classes->first));
  RengaCall(RengaMalloc(n_values + 1, &classes->uses));
  RengaCall(RengaGraphGetLoss(outline->graph, &loss));
  for (int n = 0; n < n_nodes; n++) RengaCall(ClassifyNode(outline, n, loss, classes));
  for (int n = 0; n < n_nodes; n++) {
    RengaCall(PushNode(outline, classes, n, loss));
    classes->from[n + 1] = classes->all.count;
    classes->part_from[n + 1] = classes->n_parts;
  }
  return RENGA_SUCCESS;
}

void RengaClassesFree_Private(StageClasses *classes)
{
  RengaFree(&classes->class);
  RengaFree(&classes->first);
  RengaFree(&classes->uses);
  RengaFree(&classes->all.number);
  RengaFree(&classes->from);
  RengaFree(&classes->part_from);
  RengaFree(&classes->part);
}

static RengaErrorCode PushStage(const Outline *outline, const StageClasses *classes, int first,
                                int last, StageKey *key)
{
  const int64_t from = classes->from[first], count = classes->from[last] - from;
  if (key->count + count > key->capacity) {
    key->capacity = 2 * (key->count + count);
    RengaCall(RengaRealloc(key->capacity, &key->number));
  }
  int64_t *number = key->number + key->count;
  memcpy(number, classes->all.number + from, (size_t)count * sizeof *number);
  for (int p = classes->part_from[first]; p < classes->part_from[last]; p++)
    number[classes->part[p].at - from] = outline->parts[classes->part[p].parameter] != 0;
  key->count += count;
  return RENGA_SUCCESS;
}

static RengaErrorCode PushMessage(const Outline *outline, int m, const RengaPlanStage *row,
                                  int stage, StageKey *key)
{
  const RengaMessage *message = &outline->message[m];
  const RengaValue v = RengaGraphFindValue(outline->graph, message->value);
  const RengaGraphValue *value = RengaGraphGetValue(outline->graph, v);
  const int64_t kind = 2 * (message->to == stage) + message->backward;
  RengaCall(PushNumber(key, 4 * DistanceOf(value, row->first) + kind));
  return RENGA_SUCCESS;
}

static int CompareKeyNumbers(const void *a, const void *b)
{
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* What a stage that recomputes keeps all the same: how far in front it is made, in order. */
static RengaErrorCode PushPolicies(const Chunk *chunk, const RengaPlanStage *row, StageKey *key)
{
  RengaGraph graph = chunk->outline->graph;
  const char *const *names;
  int kept;
  RengaCall(RengaPlanGetKept(chunk->outline->plan, chunk->stage, &kept, &names));
  RengaCall(PushNumber(key, kept));
  if (!chunk->recompute || RengaChunkKeepsAway_Private(chunk)) return RENGA_SUCCESS;
  const int64_t before = key->count + 1; /* behind how many there are */
  RengaCall(PushNumber(key, 0));
  for (int k = 0; k < kept; k++) {
    const RengaValue v = RengaGraphFindValue(graph, names[k]);
    const RengaGraphValue *value = v < 0 ? NULL : RengaGraphGetValue(graph, v);
    if (value && value->producer >= row->first && value->producer < row->last)
      RengaCall(PushNumber(key, DistanceOf(value, row->first)));
  }
  const int64_t found = key->count - before;
  if (found > 1) qsort(key->number + before, (size_t)found, sizeof *key->number, CompareKeyNumbers);
  key->number[before - 1] = found;
  return RENGA_SUCCESS;
}

/* Of a chunk that is not compiled yet; own: [n_own] rows of the message table that it has to do
   with. */
RengaErrorCode RengaKeyMake_Private(const Chunk *chunk, const StageClasses *classes, int n_own,
                                    const int own[], StageKey *key)
{
  const Outline *outline = chunk->outline;
  const RengaPlanStage *row = RengaPlanGetStage(outline->plan, chunk->stage);
  key->count = 0;
  RengaCall(PushNumber(key, row->shape.saved));
  RengaCall(
      PushNumber(key, 2 * (int64_t)row->shape.shard + RengaChunkShardsGradients_Private(chunk)));
  RengaCall(PushNumber(key, chunk->memory->lag > 0));
  RengaCall(PushNumber(key, row->shape.tensor));
  RengaCall(PushNumber(key, row->shape.sequence));
  RengaCall(PushNumber(key, chunk->tensor.rank));
  RengaCall(PushNumber(key, outline->microbatch));
  RengaCall(PushNumber(key, outline->leaf));
  for (int i = 0; i < outline->n_batches; i++) RengaCall(PushNumber(key, outline->batch[i]));
  RengaCall(PushNumber(key, row->last - row->first));
  RengaCall(PushStage(outline, classes, row->first, row->last, key));
  RengaCall(PushPolicies(chunk, row, key));
  for (int i = 0; i < n_own; i++) RengaCall(PushMessage(outline, own[i], row, chunk->stage, key));
  return RENGA_SUCCESS;
}
