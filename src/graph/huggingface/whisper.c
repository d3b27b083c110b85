/* Whisper (Radford et al. 2023) of a folder: an encoder of sound, whose frames two convolutions
   make half as many places of, and a decoder that attends to its result. */
#include "parts.h"
#include <math.h>

/* x [N, numbers, frames] -> [N, width, frames / stride]; each looks one frame back and ahead. */
static RengaErrorCode AddFrames(const RengaHfParts *p, int64_t stride, RengaValue *x)
{
  char name[BLOCK_NAME];
  RengaBlockName(p->family->names->sound, stride == 1 ? "1" : "2", name);
  RengaCall(RengaGraphAddConvolution(p->graph, name, *x, p->config->hidden, 3, stride, 1, true, x));
  RengaCall(RengaHfAddActivation(p, RENGA_HF_GELU, *x, x));
  return RENGA_SUCCESS;
}

/* x + waves, which are in the state dict, and are not trained */
static RengaErrorCode AddWaves(const RengaHfParts *p, RengaValue *x)
{
  const RengaInit waves = {.kind = RENGA_INIT_SINUSOIDS};
  const RengaTensorSpec spec = {
      .type = RENGA_FLOAT32, .ndim = 2, .dim = {p->sequence, p->config->hidden}};
  char name[BLOCK_NAME];
  RengaValue table;
  RengaBlockName(p->names->places, ".weight", name);
  RengaCall(RengaGraphAddParameter(p->graph, name, &spec, &waves, &table));
  RengaCall(RengaGraphFreeze_Private(p->graph, table));
  RengaCall(RengaGraphAddAdd(p->graph, *x, table, x));
  return RENGA_SUCCESS;
}

/* The encoder's result, [N, places, width] of [N, numbers, frames]. */
static RengaErrorCode AddSound(const RengaHfParts *own, RengaValue sound, RengaValue *x)
{
  RengaHfParts p = *own;
  p.names = own->names->encoder;
  *x = sound;
  RengaCall(AddFrames(&p, 1, x));
  RengaCall(AddFrames(&p, 2, x));
  RengaCall(RengaGraphAddTranspose(p.graph, *x, (const int64_t[]){0, 2, 1}, x));
  RengaCall(AddWaves(&p, x));
  RengaCall(RengaGraphAddDropout(p.graph, *x, p.dropout[RENGA_HF_OF_EMBEDDINGS], x));
  for (int64_t i = 0; i < p.config->layers; i++) {
    snprintf(p.prefix, sizeof p.prefix, "%s%lld.", p.names->blocks, (long long)i);
    RengaCall(RengaHfAddBlock(&p, x));
  }
  p.prefix[0] = '\0';
  RengaCall(RengaHfAddNorm(&p, p.names->last, *x, x));
  return RENGA_SUCCESS;
}

/* The decoder's sizes, where the encoder has its own. */
static RengaErrorCode TakeDecoderSizes(const RengaHfModel *model, RengaHfConfig *c)
{
  const int64_t *own = c->stack;
  c->layers = own[RENGA_HF_DECODER_LAYERS];
  c->heads = c->groups = own[RENGA_HF_DECODER_HEADS];
  c->intermediate = own[RENGA_HF_DECODER_INTERMEDIATE];
  c->places = own[RENGA_HF_TARGETS];
  RengaCheck(c->layers > 0 && c->heads > 0 && c->intermediate > 0 && c->places > 0 &&
                 own[RENGA_HF_MELS] > 0,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json does not say all of decoder_layers, decoder_attention_heads, "
             "decoder_ffn_dim, max_target_positions and num_mel_bins",
             model->folder);
  RengaCheck(c->hidden % c->heads == 0 && c->hidden % 2 == 0 && c->hidden > 2, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "%s/config.json: the width %lld is no multiple of %lld heads of the decoder and of 2",
             model->folder, (long long)c->hidden, (long long)c->heads);
  c->head_width = c->hidden / c->heads;
  c->attention_scale = 1 / sqrt((double)c->head_width);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfBuildWhisper(RengaGraph graph, const RengaHfModel *model,
                                   const RengaHfOptions *options)
{
  RengaHfParts p = RengaHfStartParts(graph, model, options);
  RengaHfConfig decoder = *model->config;
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {-1}};
  RengaValue sound, target, labels, scores, loss;
  RengaCall(TakeDecoderSizes(model, &decoder));
  const int64_t targets = options->target ? options->target : decoder.places;
  RengaCheck(targets <= decoder.places, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "hf: target=%lld, but %s has learned positions for %lld tokens", (long long)targets,
             model->folder, (long long)decoder.places);
  spec.dim[1] = decoder.stack[RENGA_HF_MELS];
  spec.dim[2] = 2 * p.sequence;
  RengaCall(RengaGraphAddInput(graph, "features", &spec, &sound));
  RengaCall(RengaBlockIntegers(graph, "target", targets, &target));
  RengaCall(RengaBlockIntegers(graph, "labels", targets, &labels));
  RengaCall(AddSound(&p, sound, &p.memory));
  p.config = &decoder;
  p.sequence = targets;
  p.causal = true;
  RengaCall(RengaHfAddDecoder(&p, NULL, target, &scores));
  RengaCall(RengaGraphAddCrossEntropy(graph, scores, labels, -100, &loss));
  RengaCall(RengaBlockFinish(graph, loss, scores));
  return RENGA_SUCCESS;
}
