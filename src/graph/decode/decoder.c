/* The network token by token, made of the network of whole sequences.

   A sample of the decoder is one token: of a text, at a place. What has the tokens of a sequence
   along a dimension has one there; the split rules say through which nodes this goes, as they do
   for lanes of tokens. What depends on no sample (positions, angles, masks) is made whole, and
   rows of it are picked by the place of each sample. What needs all tokens must be an attention to
   earlier ones (attention.c); with anything else the network has no decoder.

   So a prompt is a batch of its tokens, and several texts go on in one batch. Caches are states
   (RengaGraphValue.cache) that their node writes and no checkpoint holds; lanes of heads have parts
   of them. Micro-batches of a stage run in their order, and there is one replica, so that earlier
   tokens are there. */
#include "decode.h"
#include "renga/private/op.h"
#include "renga/private/split.h"
#include <string.h>

/* ---- nodes ---- */
/* Lanes of a token each would have it so: of each tensor one unit of one dimension. */
static bool IsOneToken(const Decoder *decoder, RengaValue value, const RengaSplit *split)
{
  return split->kind == RENGA_SPLIT_ALONG && split->repeat == 1 && split->unit == 1 &&
         RengaGraphSpec(decoder->from, value)->dim[split->dim] == decoder->places;
}

/* Both are broadcast to the output, of which dimension 0 is the samples. */
static bool PicksRows(const Decoder *decoder, const RengaGraphNode *node)
{
  static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Where", "Max", "Min", "Pow"};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    if (strcmp(node->op->name, ops[i]) == 0)
      return RengaGraphSpec(decoder->from, node->out[0])->dim[0] == -1;
  return false;
}

/* The way makes a token of a token. */
static bool FitsTokens(const Decoder *decoder, const RengaGraphNode *node, const RengaSplitWay *way)
{
  if (way->need != RENGA_LANE_ALONE || way->shifted || way->scaled) return false;
  for (int o = 0; o < node->n_out; o++)
    if (!IsOneToken(decoder, node->out[o], &way->out[o])) return false;
  for (int i = 0; i < node->n_in; i++) {
    const RengaSplit *split = &way->in[i];
    if (node->in[i] < 0) continue;
    const DecodedValue *made = &decoder->made[node->in[i]];
    if (made->kind == DECODED_ALONG) {
      if (!IsOneToken(decoder, node->in[i], split) || split->dim != made->dim) return false;
    } else if (split->kind != RENGA_SPLIT_WHOLE) {
      if (!IsOneToken(decoder, node->in[i], split) || !PicksRows(decoder, node)) return false;
    }
  }
  return true;
}

static RengaErrorCode FindTokenWay(const Decoder *decoder, const RengaGraphNode *node,
                                   RengaSplitWay *taken)
{
  RengaSplitWays ways = {0};
  RengaOpCall call;
  *taken = (RengaSplitWay){.units = 0};
  RengaErrorCode code = RengaGraphMakeCall(decoder->from, node, RENGA_OP_SOME_BATCH, &call);
  if (!code) code = RengaSplitWaysGet(&call, &ways);
  for (int w = 0; w < ways.count && !code && !taken->in; w++)
    if (FitsTokens(decoder, node, &ways.way[w])) {
      *taken = ways.way[w];
      ways.way[w].in = NULL;
    }
  RengaSplitWaysFree(&ways);
  RengaGraphFreeCall(&call);
  RengaCall(code);
  return RENGA_SUCCESS;
}

static RengaErrorCode MakeOfToken(Decoder *decoder, const RengaGraphNode *node,
                                  const RengaSplitWay *way)
{
  RengaValue *in;
  int *dim;
  const int ndim = RengaGraphSpec(decoder->from, node->out[0])->ndim;
  RengaCall(RengaGraphScratch(decoder->to, node->n_in + 1, &in));
  RengaCall(RengaGraphScratch(decoder->to, node->n_out + 1, &dim));
  for (int i = 0; i < node->n_in; i++) {
    in[i] = RENGA_VALUE_NONE;
    if (node->in[i] < 0) continue;
    const DecodedValue *made = &decoder->made[node->in[i]];
    in[i] = made->value;
    if (made->kind == DECODED_WHOLE && way->in[i].kind == RENGA_SPLIT_ALONG)
      RengaCall(RengaDecodePlaces_Private(decoder, node->in[i], way->in[i].dim, ndim, &in[i]));
  }
  for (int o = 0; o < node->n_out; o++) dim[o] = way->out[o].dim;
  RengaCall(RengaDecodeMake_Private(decoder, node, node->op->name, &node->attributes, in,
                                    node->n_in, dim));
  return RENGA_SUCCESS;
}

/* It depends on no sample. */
static RengaErrorCode MakeAsItWas(Decoder *decoder, const RengaGraphNode *node)
{
  RengaValue *in;
  int *dim;
  RengaCall(RengaGraphScratch(decoder->to, node->n_in + 1, &in));
  RengaCall(RengaGraphScratch(decoder->to, node->n_out + 1, &dim));
  for (int i = 0; i < node->n_in; i++)
    in[i] = node->in[i] < 0 ? RENGA_VALUE_NONE : decoder->made[node->in[i]].value;
  for (int o = 0; o < node->n_out; o++) dim[o] = -1;
  RengaCall(RengaDecodeMake_Private(decoder, node, node->op->name, &node->attributes, in,
                                    node->n_in, dim));
  return RENGA_SUCCESS;
}

/* all: every input can be made; has: some is of the kind. */
static RengaErrorCode ReadMade(Decoder *decoder, const RengaGraphNode *node, bool *all, bool has[])
{
  *all = true;
  for (int i = 0; i < node->n_in; i++) {
    DecodedValue made;
    if (node->in[i] < 0) continue;
    RengaCall(RengaDecodeRead_Private(decoder, node->in[i], &made));
    *all = *all && made.kind != DECODED_NOT;
    has[made.kind] = true;
  }
  return RENGA_SUCCESS;
}

static bool MakesSamples(RengaGraph graph, const RengaGraphNode *node)
{
  for (int o = 0; o < node->n_out; o++)
    if (RengaGraphHasBatch(graph, node->out[o])) return true;
  return false;
}

/* What cannot be made is no error while nothing needs it: masked scores, for instance. */
static RengaErrorCode DecodeNode(Decoder *decoder, const RengaGraphNode *node)
{
  bool all, has[] = {[DECODED_ALONG] = false}, found;
  RengaSplitWay way;
  RengaCall(RengaDecodeAttention_Private(decoder, node, &found));
  if (found) return RENGA_SUCCESS;
  RengaCall(ReadMade(decoder, node, &all, has));
  if (!all || (has[DECODED_BESIDE] && has[DECODED_ALONG])) return RENGA_SUCCESS;
  for (int o = 0; o < node->n_out && has[DECODED_BESIDE]; o++)
    decoder->made[node->out[o]] = (DecodedValue){.kind = DECODED_BESIDE};
  if (has[DECODED_BESIDE]) return RENGA_SUCCESS;
  if (strcmp(node->op->name, "Dropout") == 0) { /* nothing is trained */
    decoder->made[node->out[0]] = decoder->made[node->in[0]];
    return RENGA_SUCCESS;
  }
  if (!has[DECODED_ALONG] && !MakesSamples(decoder->from, node)) {
    RengaCall(MakeAsItWas(decoder, node));
    return RENGA_SUCCESS;
  }
  RengaCall(FindTokenWay(decoder, node, &way));
  if (!way.in) return RENGA_SUCCESS;
  const RengaErrorCode code = MakeOfToken(decoder, node, &way);
  RengaFree(&way.in);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* ---- the graph ---- */
static RengaErrorCode AddDecoderInputs(Decoder *decoder, RengaValue tokens)
{
  const RengaGraphValue *from = decoder->from->value[tokens];
  const RengaTensorSpec one = RengaDecodeShape_Private(&from->spec, 1);
  const RengaTensorSpec number = {.type = RENGA_INT64, .ndim = 1, .dim = {-1}};
  DecodedValue *made = &decoder->made[tokens];
  for (RengaValue v = 0; v < decoder->from->n_values; v++)
    if (decoder->from->value[v]->kind == RENGA_VALUE_INPUT) decoder->made[v].kind = DECODED_BESIDE;
  *made = (DecodedValue){DECODED_ALONG, 1, RENGA_VALUE_NONE};
  RengaCall(RengaGraphAddInput(decoder->to, from->name, &one, &made->value));
  RengaCall(RengaGraphAddInput(decoder->to, RENGA_DECODER_TEXT, &number, &decoder->text));
  RengaCall(RengaGraphAddInput(decoder->to, RENGA_DECODER_PLACE, &number, &decoder->place));
  return RENGA_SUCCESS;
}

/* Of the first node on the way to the output that is not made, though its inputs are. */
static void ExplainOutput(Decoder *decoder)
{
  RengaGraph graph = decoder->from;
  for (int n = 0; n < graph->n_nodes && decoder->why[0] == '\0'; n++) {
    const RengaGraphNode *node = RengaGraphEntryNode(graph, n);
    bool all = decoder->made[node->out[0]].kind == DECODED_NOT;
    for (int i = 0; i < node->n_in && all; i++)
      all = node->in[i] < 0 || decoder->made[node->in[i]].kind != DECODED_NOT ||
            graph->value[node->in[i]]->kind == RENGA_VALUE_INPUT;
    if (all) RengaDecodeRefuse_Private(decoder, node, "needs more than one token of a text");
  }
}

static RengaErrorCode AddDecoderOutputs(Decoder *decoder)
{
  RengaGraph graph = decoder->from;
  for (int o = 0; o < graph->n_outputs; o++) {
    const DecodedValue *made = &decoder->made[graph->output[o]];
    if (made->kind != DECODED_ALONG) ExplainOutput(decoder);
    RengaCheck(made->kind == DECODED_ALONG, graph->hdr.comm, RENGA_ERR_SUPPORT,
               "the network cannot be made token by token: %s",
               decoder->why[0] ? decoder->why : "an output has no tokens");
    RengaCall(RengaGraphAddOutput(decoder->to, made->value));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode FillDecoder(Decoder *decoder, RengaValue tokens)
{
  RengaGraph graph = decoder->from;
  RengaCall(RengaGraphCopyOptions(graph, decoder->to));
  RengaCall(RengaGraphScratch(decoder->to, graph->n_values, &decoder->made));
  RengaCall(AddDecoderInputs(decoder, tokens));
  for (int n = 0; n < graph->n_nodes; n++)
    RengaCall(DecodeNode(decoder, RengaGraphEntryNode(graph, n)));
  RengaCall(AddDecoderOutputs(decoder));
  RengaGraphFreeScratch(decoder->to);
  return RENGA_SUCCESS;
}

/*@
   RengaGraphMakeDecoder - the network token by token, with caches of keys and values

   Collective

   Input:
   . graph - set up, without a loss (RengaGraphKeepOutputs) and without lanes; not changed
   . tokens - name of its input [batch, places] of tokens
   . texts - texts that are under way at once, at least 1: each has a place in the caches

   Output:
   . decoder - a graph that is not set up, to be freed with RengaGraphDestroy; it has the options of
     the graph, and lanes may be set

   Errors: RENGA_ERR_ORDER before RengaGraphSetUp; RENGA_ERR_ARGUMENT for a network that has a loss,
   lanes, or no such input, or for less than one text; RENGA_ERR_SUPPORT where an output needs more
   of other tokens than an attention to earlier ones: the sentence names the node.

   Notes: a sample of the decoder is one token, in its inputs tokens [samples, 1],
   RENGA_DECODER_TEXT and RENGA_DECODER_PLACE [samples]; of text -1 nothing is kept, and what is
   made of it means nothing. Outputs have extent 1 along the tokens. The token at a place comes
   after those at all places before it, in samples before it or in earlier calls of
   RengaPipelineForward; a place may be written again. So a prompt is a batch of as many samples as
   it has tokens, and several texts go on in one batch. Micro-batches of a stage run in their order;
   all samples of a text are computed by one replica, so that a plan has one. Attentions may be
   causal by themselves or by a constant mask, with windows, biases of distances, groups of heads
   that share keys, and capped scores. An attention to what is made of other inputs alone, as an
   encoder's result, reads caches that RengaPipelineSetMemory fills; up to which place is in the
   input RENGA_DECODER_SOURCE [samples], which such a decoder has. Parameters have the names that
   they have in the network.
   Caches are float32 [heads, texts, places, width], of tensor-parallel ranks each its heads;
   devices have the host's memory. Logits are those of whole sequences but for the last bits, since
   products have other shapes.

   See also: RengaGraphKeepOutputs(), RengaGraphAddCache(), RengaGraphKeepMemory(),
   RengaPipelineForward()
@*/
RengaErrorCode RengaGraphMakeDecoder(RengaGraph graph, const char *tokens, int64_t texts,
                                     RengaGraph *decoder)
{
  RengaCheckPointers(graph, tokens, decoder);
  RengaCheckState(graph, RENGA_STATE_SETUP, "RengaGraphSetUp");
  const RengaValue input = RengaGraphFindValue(graph, tokens);
  const RengaTensorSpec *spec = input < 0 ? NULL : RengaGraphSpec(graph, input);
  RengaCheck(spec && graph->value[input]->kind == RENGA_VALUE_INPUT && spec->ndim == 2 &&
                 spec->dim[0] == -1,
             graph->hdr.comm, RENGA_ERR_ARGUMENT, "the network has no input %s [batch, places]",
             tokens);
  RengaCheck(texts > 0 && graph->loss < 0 && graph->options.lanes <= 1 &&
                 graph->options.token_lanes <= 1,
             graph->hdr.comm, RENGA_ERR_ARGUMENT,
             "a decoder is of one text or more (not %lld), and of a network without loss and lanes",
             (long long)texts);
  Decoder maker = {
      .from = graph, .places = spec->dim[1], .texts = texts, .source = RENGA_VALUE_NONE};
  RengaCall(RengaGraphCreate(graph->hdr.owner, &maker.to));
  const RengaErrorCode code = FillDecoder(&maker, input);
  if (code) RengaGraphDestroy(&maker.to);
  RengaCall(code);
  *decoder = maker.to;
  return RENGA_SUCCESS;
}
