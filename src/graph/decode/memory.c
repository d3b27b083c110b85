/* Attentions of a decoder to what an encoder beside it makes of a text's source. That is the same
   for all tokens of the text: the keys and values of all places are computed once, by a network of
   their own, and are put into caches that no node writes. */
#include "decode.h"
#include "renga/private/graph.h"
#include <string.h>

static const char prefix[] = RENGA_DECODER_MEMORY ":";

bool RengaGraphIsMemory_Private(const RengaGraphValue *value)
{
  return value->kind == RENGA_VALUE_STATE && value->cache && value->whole == RENGA_VALUE_NONE &&
         strncmp(value->name, prefix, strlen(prefix)) == 0;
}

/* Minus infinity where an input says that there is padding; the decoder is told how many places are
   none. */
static bool HidesPadding(RengaGraph graph, RengaValue mask)
{
  const RengaGraphNode *shape = RengaDecodeMaker_Private(graph, mask, "Reshape");
  const RengaGraphNode *where =
      shape ? RengaDecodeMaker_Private(graph, shape->in[0], "Where") : NULL;
  const RengaGraphNode *equal =
      where ? RengaDecodeMaker_Private(graph, where->in[0], "Equal") : NULL;
  return equal && graph->value[equal->in[0]]->kind == RENGA_VALUE_INPUT;
}

/* [heads, texts, places, width] of a value [N, heads, places, width] */
static RengaErrorCode AddMemory(Decoder *decoder, RengaValue value, RengaValue *cache)
{
  char name[512];
  const RengaGraphValue *from = decoder->from->value[value];
  const RengaTensorSpec shape = {
      .type = RENGA_FLOAT32,
      .ndim = 4,
      .dim = {from->spec.dim[1], decoder->texts, from->spec.dim[2], from->spec.dim[3]}};
  snprintf(name, sizeof name, "%s%.400s", prefix, from->name);
  RengaCall(RengaGraphAddCache(decoder->to, name, &shape, cache));
  return RENGA_SUCCESS;
}

static bool IsBesideHeads(const Decoder *decoder, RengaValue value)
{
  const RengaTensorSpec *spec = RengaGraphSpec(decoder->from, value);
  return decoder->made[value].kind == DECODED_BESIDE && spec->ndim == 4 && spec->dim[0] == -1;
}

RengaErrorCode RengaDecodeMemory_Private(Decoder *decoder, const RengaGraphNode *node,
                                         const DecodedAttention *form)
{
  const RengaTensorSpec number = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  RengaAttributes attributes = {0};
  RengaValue in[5] = {decoder->made[form->q].value, decoder->text};
  static const int dim[] = {2};
  if (!IsBesideHeads(decoder, form->k) || !IsBesideHeads(decoder, form->v) || form->flipped ||
      form->causal || (form->mask >= 0 && !HidesPadding(decoder->from, form->mask))) {
    RengaDecodeRefuse_Private(decoder, node,
                              "attends to an encoder with another mask than that of padding");
    return RENGA_SUCCESS;
  }
  if (decoder->source == RENGA_VALUE_NONE)
    RengaCall(RengaGraphAddInput(decoder->to, RENGA_DECODER_SOURCE, &number, &decoder->source));
  in[2] = decoder->source;
  RengaCall(AddMemory(decoder, form->k, &in[3]));
  RengaCall(AddMemory(decoder, form->v, &in[4]));
  RengaErrorCode code = RengaAttributesSetReal(&attributes, "scale", form->scale);
  if (!code) code = RengaAttributesSetReal(&attributes, "cap", form->cap);
  if (!code)
    code = RengaDecodeMake_Private(decoder, node, "CachedAttention", &attributes, in, 5, dim);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* [N, heads, places, width] -> [N, all] */
static RengaErrorCode AddFlat(RengaGraph graph, const char *name, RengaValue *flat)
{
  const RengaValue value = RengaGraphFindValue(graph, name);
  RengaCheck(value >= 0, graph->hdr.comm, RENGA_ERR_ARGUMENT,
             "the network has no value %s that its decoder attends to", name);
  RengaTensorSpec one = RengaTensorSpecAt(RengaGraphSpec(graph, value), 1);
  const int64_t shape[] = {-1, RengaTensorSpecCount(&one)};
  RengaCall(RengaGraphAddReshape(graph, value, 2, shape, flat));
  return RENGA_SUCCESS;
}

/*@
   RengaGraphKeepMemory - the network as far as a decoder attends to its encoder

   Collective

   Input:
   . graph - loaded, not set up: the network that the decoder was made of
   . decoder - the graph that RengaGraphMakeDecoder made

   Errors: RENGA_ERR_ORDER after RengaGraphSetUp; RENGA_ERR_ARGUMENT where the decoder attends to
   nothing but its own tokens, or is of another network.

   Notes: the only output is RENGA_DECODER_MEMORY [samples, numbers]: of each source the keys and
   values that RengaPipelineSetMemory takes.

   See also: RengaGraphMakeDecoder(), RengaPipelineSetMemory()
@*/
RengaErrorCode RengaGraphKeepMemory(RengaGraph graph, RengaGraph decoder)
{
  static const char *const ends[] = {RENGA_DECODER_MEMORY};
  RengaCheckPointers(graph, decoder);
  RengaAttributes attributes = {0};
  RengaValue *in = NULL, memory;
  int count = 0, done = 0;
  for (int v = 0; v < decoder->n_values; v++)
    count += RengaGraphIsMemory_Private(decoder->value[v]);
  RengaCheck(count > 0, graph->hdr.comm, RENGA_ERR_ARGUMENT, "the decoder attends to no encoder");
  RengaCall(RengaMalloc(count, &in));
  RengaErrorCode code = RengaAttributesSetInt(&attributes, "axis", 1);
  for (int v = 0; v < decoder->n_values && !code; v++)
    if (RengaGraphIsMemory_Private(decoder->value[v]))
      code = AddFlat(graph, decoder->value[v]->name + strlen(prefix), &in[done++]);
  if (!code)
    code = RengaGraphAddNode(graph, "Concat", RENGA_DECODER_MEMORY, &attributes, count, in, 1, NULL,
                             &memory);
  RengaAttributesFree(&attributes);
  RengaFree(&in);
  RengaCall(code);
  RengaCall(RengaGraphKeepOutputs(graph, 1, ends));
  return RENGA_SUCCESS;
}
