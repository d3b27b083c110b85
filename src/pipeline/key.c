/* What the memory of a stage depends on, written down as a *key*: for each node its class
   (operator, attributes, shapes, kinds of its values), for each input how far back it is made, then
   the messages. Names and numbers that do not change its memory are not in it; what is used in
   several places of the network is there by its number. */
#include "forecasts.h"
#include "memory.h"
#include "renga/private/graph.h"
#include "renga/private/op.h"
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

/* Of all nodes of the network; what was made is freed by RengaClassesFree_Private in any case. */
RengaErrorCode RengaClassesMake_Private(const Outline *outline, StageClasses *classes)
{
  const int n_values = RengaGraphGetValueCount(outline->graph);
  RengaValue loss;
  RengaCall(RengaMalloc(RengaGraphGetNodeCount(outline->graph) + 1, &classes->class));
  RengaCall(RengaMalloc(n_values + 1, &classes->first));
  RengaCall(RengaMalloc(n_values + 1, &classes->uses));
  RengaCall(RengaGraphGetLoss(outline->graph, &loss));
  for (int n = 0; n < RengaGraphGetNodeCount(outline->graph); n++)
    RengaCall(ClassifyNode(outline, n, loss, classes));
  return RENGA_SUCCESS;
}

void RengaClassesFree_Private(StageClasses *classes)
{
  RengaFree(&classes->class);
  RengaFree(&classes->first);
  RengaFree(&classes->uses);
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

/* Which value an input is: made so far back, or one that only this node reads, or one of the whole
   network. */
static RengaErrorCode PushInput(const Outline *outline, const StageClasses *classes, StageKey *key,
                                const RengaGraphNode *node, int n, int i)
{
  enum { NONE, NEAR, OWN, WHOLE };
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
  if (value->kind == RENGA_VALUE_PARAMETER) /* other stages may leave it whole here */
    RengaCall(PushNumber(key, outline->parts[v] != 0));
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
static RengaErrorCode PushNode(const Outline *outline, const StageClasses *classes, int n,
                               RengaValue loss, StageKey *key)
{
  const RengaGraphNode *node = RengaGraphGetNode(outline->graph, n);
  if (RengaGraphNodeIsPrepared_Private(outline->graph, node)) {
    RengaCall(PushNumber(key, MakesOutput(outline->graph, node, loss) ? -1 - n : 0));
    return RENGA_SUCCESS;
  }
  RengaCall(PushNumber(key, (int64_t)classes->class[n]));
  for (int i = 0; i < node->n_in; i++) RengaCall(PushInput(outline, classes, key, node, n, i));
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

/* What becomes of what each node makes, where the stage's shape does not say it all. */
static RengaErrorCode PushPolicies(const Chunk *chunk, const RengaPlanStage *row, StageKey *key)
{
  RengaGraph graph = chunk->outline->graph;
  const char *const *names;
  int kept;
  RengaCall(RengaPlanGetKept(chunk->outline->plan, chunk->stage, &kept, &names));
  RengaCall(PushNumber(key, kept));
  for (int n = row->first; n < row->last && kept; n++) {
    const RengaGraphNode *node = RengaGraphGetNode(graph, n);
    for (int o = 0; o < node->n_out; o++)
      if (node->out[o] != RENGA_VALUE_NONE)
        RengaCall(PushNumber(key, RengaChunkGetPolicy_Private(
                                      chunk, RengaGraphGetValue(graph, node->out[o])->name)));
  }
  return RENGA_SUCCESS;
}

/* Of a chunk that is not compiled yet; own: [n_own] rows of the message table that it has to do
   with. */
RengaErrorCode RengaKeyMake_Private(const Chunk *chunk, const StageClasses *classes, int n_own,
                                    const int own[], StageKey *key)
{
  const Outline *outline = chunk->outline;
  const RengaPlanStage *row = RengaPlanGetStage(outline->plan, chunk->stage);
  RengaValue loss;
  RengaCall(RengaGraphGetLoss(outline->graph, &loss));
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
  for (int n = row->first; n < row->last; n++) RengaCall(PushNode(outline, classes, n, loss, key));
  RengaCall(PushPolicies(chunk, row, key));
  for (int i = 0; i < n_own; i++) RengaCall(PushMessage(outline, own[i], row, chunk->stage, key));
  return RENGA_SUCCESS;
}
