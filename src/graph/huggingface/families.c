/* The families of networks whose config.json is understood: names in their state dicts, and in what
   their decoders differ. */
#include "huggingface.h"
#include <math.h>
#include <string.h>

#define LLAMA_ENDS                                                                                 \
  .table = "model.embed_tokens", .blocks = "model.layers.", .last = "model.norm", .head = "lm_head"
#define LLAMA_NORMS .before_attention = "input_layernorm", .before_feed = "post_attention_layernorm"
#define LLAMA_ATTENTION                                                                            \
  .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj",                       \
  .projection = "self_attn.o_proj"
#define LLAMA_FEED .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"
#define HEAD_NORMS .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"
#define GEMMA_NORMS                                                                                \
  .before_attention = "input_layernorm", .after_attention = "post_attention_layernorm",            \
  .before_feed = "pre_feedforward_layernorm", .after_feed = "post_feedforward_layernorm"

static const RengaHfNames llama = {LLAMA_ENDS, LLAMA_NORMS, LLAMA_ATTENTION, LLAMA_FEED};
static const RengaHfNames qwen3 = {LLAMA_ENDS, LLAMA_NORMS, LLAMA_ATTENTION, HEAD_NORMS,
                                   LLAMA_FEED};
static const RengaHfNames gemma2 = {LLAMA_ENDS, GEMMA_NORMS, LLAMA_ATTENTION, LLAMA_FEED};
static const RengaHfNames gemma3 = {LLAMA_ENDS, GEMMA_NORMS, LLAMA_ATTENTION, HEAD_NORMS,
                                    LLAMA_FEED};
static const RengaHfNames olmo2 = {LLAMA_ENDS,      .after_attention = "post_attention_layernorm",
                                   LLAMA_ATTENTION, HEAD_NORMS,
                                   LLAMA_FEED,      .after_feed = "post_feedforward_layernorm"};
static const RengaHfNames phi3 = {LLAMA_ENDS,
                                  LLAMA_NORMS,
                                  .qkv = "self_attn.qkv_proj",
                                  .projection = "self_attn.o_proj",
                                  .gate_up = "mlp.gate_up_proj",
                                  .down = "mlp.down_proj"};
static const RengaHfNames phi = {.table = "model.embed_tokens",
                                 .blocks = "model.layers.",
                                 .before_attention = "input_layernorm",
                                 .q = "self_attn.q_proj",
                                 .k = "self_attn.k_proj",
                                 .v = "self_attn.v_proj",
                                 .projection = "self_attn.dense",
                                 .up = "mlp.fc1",
                                 .down = "mlp.fc2",
                                 .last = "model.final_layernorm",
                                 .head = "lm_head"};
static const RengaHfNames starcoder2 = {LLAMA_ENDS, LLAMA_NORMS, LLAMA_ATTENTION, .up = "mlp.c_fc",
                                        .down = "mlp.c_proj"};
static const RengaHfNames neox = {.table = "gpt_neox.embed_in",
                                  .blocks = "gpt_neox.layers.",
                                  .before_attention = "input_layernorm",
                                  .qkv = "attention.query_key_value",
                                  .projection = "attention.dense",
                                  .before_feed = "post_attention_layernorm",
                                  .up = "mlp.dense_h_to_4h",
                                  .down = "mlp.dense_4h_to_h",
                                  .last = "gpt_neox.final_layer_norm",
                                  .head = "embed_out"};
static const RengaHfNames gpt2 = {.table = "transformer.wte",
                                  .places = "transformer.wpe",
                                  .blocks = "transformer.h.",
                                  .before_attention = "ln_1",
                                  .qkv = "attn.c_attn",
                                  .projection = "attn.c_proj",
                                  .before_feed = "ln_2",
                                  .up = "mlp.c_fc",
                                  .down = "mlp.c_proj",
                                  .last = "transformer.ln_f",
                                  .head = "lm_head"};

#define ENCODER(word)                                                                              \
  .table = word ".embeddings.word_embeddings", .places = word ".embeddings.position_embeddings",   \
  .segments = word ".embeddings.token_type_embeddings",                                            \
  .table_norm = word ".embeddings.LayerNorm", .blocks = word ".encoder.layer.",                    \
  .q = "attention.self.query", .k = "attention.self.key", .v = "attention.self.value",             \
  .projection = "attention.output.dense", .after_attention = "attention.output.LayerNorm",         \
  .up = "intermediate.dense", .down = "output.dense", .after_feed = "output.LayerNorm"

static const RengaHfNames bert = {ENCODER("bert"), .transform = "cls.predictions.transform.dense",
                                  .last = "cls.predictions.transform.LayerNorm",
                                  .head_bias = "cls.predictions.bias"};
static const RengaHfNames roberta = {ENCODER("roberta"), .transform = "lm_head.dense",
                                     .last = "lm_head.layer_norm", .head_bias = "lm_head.bias"};

static const RengaHfNames modernbert = {.table = "model.embeddings.tok_embeddings",
                                        .table_norm = "model.embeddings.norm",
                                        .blocks = "model.layers.",
                                        .before_attention = "attn_norm",
                                        .qkv = "attn.Wqkv",
                                        .projection = "attn.Wo",
                                        .before_feed = "mlp_norm",
                                        .gate_up = "mlp.Wi",
                                        .down = "mlp.Wo",
                                        .after_blocks = "model.final_norm",
                                        .transform = "head.dense",
                                        .last = "head.norm",
                                        .head_bias = "decoder.bias"};

static const RengaHfNames vit = {.patches = "vit.embeddings.patch_embeddings.projection",
                                 .first = "vit.embeddings.cls_token",
                                 .places = "vit.embeddings.position_embeddings",
                                 .blocks = "vit.encoder.layer.",
                                 .before_attention = "layernorm_before",
                                 .q = "attention.attention.query",
                                 .k = "attention.attention.key",
                                 .v = "attention.attention.value",
                                 .projection = "attention.output.dense",
                                 .before_feed = "layernorm_after",
                                 .up = "intermediate.dense",
                                 .down = "output.dense",
                                 .last = "vit.layernorm",
                                 .head = "classifier"};

static const RengaHfNames t5 = {.table = "shared", .head = "lm_head"};

#define WHISPER_BLOCK                                                                              \
  .before_attention = "self_attn_layer_norm", .q = "self_attn.q_proj", .k = "self_attn.k_proj",    \
  .v = "self_attn.v_proj", .projection = "self_attn.out_proj", .before_feed = "final_layer_norm",  \
  .up = "fc1", .down = "fc2"
static const RengaHfNames whisper_encoder = {.places = "model.encoder.embed_positions",
                                             .blocks = "model.encoder.layers.",
                                             WHISPER_BLOCK,
                                             .last = "model.encoder.layer_norm"};
static const RengaHfNames whisper_cross = {.before_attention = "encoder_attn_layer_norm",
                                           .q = "encoder_attn.q_proj",
                                           .k = "encoder_attn.k_proj",
                                           .v = "encoder_attn.v_proj",
                                           .projection = "encoder_attn.out_proj"};
static const RengaHfNames whisper = {.sound = "model.encoder.conv",
                                     .table = "model.decoder.embed_tokens",
                                     .places = "model.decoder.embed_positions",
                                     .blocks = "model.decoder.layers.",
                                     WHISPER_BLOCK,
                                     .last = "model.decoder.layer_norm",
                                     .head = "proj_out",
                                     .cross = &whisper_cross,
                                     .encoder = &whisper_encoder};

static void CompleteGemma(RengaHfConfig *config)
{
  config->embedding_scale = sqrt((double)config->hidden);
}

static void CompleteStarcoder2(RengaHfConfig *config)
{
  config->bias[RENGA_HF_BIAS_FEED] = config->bias[RENGA_HF_BIAS_ALL];
}

static void CompleteGpt2(RengaHfConfig *config)
{
  if (config->intermediate == 0) config->intermediate = 4 * config->hidden;
}

/* One share for all of its dropouts. Version 1.1 has an output layer of its own: its files say that
   tables are not tied, or, of newer libraries, that what is compared is not scaled. */
static void CompleteT5(RengaHfConfig *config)
{
  config->tied = config->tied && config->of_t5[RENGA_HF_SCALED];
  if (config->stack[RENGA_HF_DECODER_LAYERS] == 0)
    config->stack[RENGA_HF_DECODER_LAYERS] = config->layers;
  config->dropout[RENGA_HF_OF_EMBEDDINGS] = config->dropout[RENGA_HF_OF_ATTENTION] =
      config->dropout[RENGA_HF_OF_RESIDUALS];
}

/* One share for what is added to x and for embeddings. */
static void CompleteWhisper(RengaHfConfig *config)
{
  config->dropout[RENGA_HF_OF_EMBEDDINGS] = config->dropout[RENGA_HF_OF_RESIDUALS];
}

/* Patches, and one place in front of them. */
static void CompleteVit(RengaHfConfig *config)
{
  const int64_t along = config->image[0] / config->image[1];
  config->places = along * along + 1;
}

/* local_attention is as wide as both sides together. */
static void CompleteModernBert(RengaHfConfig *config)
{
  config->window /= 2;
}

/* The first of so many layers is not. */
static bool IsLocalInModernBert(const RengaHfConfig *config, int64_t i)
{
  return i % config->pattern != 0;
}

static bool IsLocalInQwen(const RengaHfConfig *config, int64_t i)
{
  return config->windowed && i >= config->full_layers;
}

static bool IsLocalInGemma2(const RengaHfConfig *config, int64_t i)
{
  (void)config;
  return i % 2 == 0;
}

static bool IsLocalInGemma3(const RengaHfConfig *config, int64_t i)
{
  return (i + 1) % config->pattern != 0;
}

#define ROPE(turning) .rope = {{.base = 10000, .share = turning}}
#define USUAL(turning)                                                                             \
  .deviation = 0.02, .embedding_scale = 1, .residual_scale = 1, .score_divisor = 1, ROPE(turning)

#define MASKED(row)                                                                                \
  .otherwise = &(const RengaHfConfig)                                                              \
  {                                                                                                \
    USUAL(0), .tied = true, .bias[RENGA_HF_BIAS_ALL] = true, .bias[RENGA_HF_BIAS_FEED] = true,     \
              .segments = 2, .activation = RENGA_HF_GELU, .padding = 1 + (row), .dropout = {       \
                0,                                                                                 \
                0.1,                                                                               \
                0.1                                                                                \
              }                                                                                    \
  }

static const RengaHfFamily families[] = {
    {.type = "bert",
     .architecture = "BertForMaskedLM",
     .names = &bert,
     .norm = RENGA_HF_LAYER,
     .build = RengaHfBuildEncoder,
     MASKED(0)},
    {.type = "gemma",
     .architecture = "GemmaForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &llama,
     .norm = RENGA_HF_RMS_PLUS_ONE,
     .otherwise = &(const RengaHfConfig){USUAL(1), .tied = true, .padding = 1},
     .complete = CompleteGemma},
    {.type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &gemma2,
     .norm = RENGA_HF_RMS_PLUS_ONE,
     .otherwise = &(const RengaHfConfig){USUAL(1), .tied = true, .padding = 1},
     .is_local = IsLocalInGemma2,
     .complete = CompleteGemma},
    {.type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &gemma3,
     .norm = RENGA_HF_RMS_PLUS_ONE,
     .otherwise =
         &(const RengaHfConfig){.deviation = 0.02,
                                .residual_scale = 1,
                                .score_divisor = 1,
                                .pattern = 6,
                                .tied = true,
                                .padding = 1,
                                .rope = {{.base = 1e6, .share = 1}, {.base = 1e4, .share = 1}}},
     .is_local = IsLocalInGemma3,
     .complete = CompleteGemma},
    {.type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .build = RengaHfBuildDecoder,
     .names = &gpt2,
     .norm = RENGA_HF_LAYER,
     .transposed = true,
     .otherwise =
         &(const RengaHfConfig){USUAL(0), .tied = true, .bias[RENGA_HF_BIAS_ALL] = true,
                                .bias[RENGA_HF_BIAS_FEED] = true, .activation = RENGA_HF_GELU_TANH},
     .complete = CompleteGpt2},
    {.type = "gpt_neox",
     .architecture = "GPTNeoXForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &neox,
     .norm = RENGA_HF_LAYER,
     .columns = RENGA_HF_BY_HEAD,
     .otherwise = &(const RengaHfConfig){USUAL(0.25), .bias[RENGA_HF_BIAS_ALL] = true,
                                         .bias[RENGA_HF_BIAS_FEED] = true, .parallel = true,
                                         .activation = RENGA_HF_GELU}},
    {.type = "granite",
     .architecture = "GraniteForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &llama,
     .otherwise = &(const RengaHfConfig){USUAL(1), .attention_scale = 1}},
    {.type = "llama",
     .architecture = "LlamaForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &llama,
     .otherwise = &(const RengaHfConfig){USUAL(1)}},
    {.type = "mistral",
     .architecture = "MistralForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &llama,
     .otherwise = &(const RengaHfConfig){USUAL(1)}},
    {.type = "modernbert",
     .architecture = "ModernBertForMaskedLM",
     .build = RengaHfBuildModernEncoder,
     .names = &modernbert,
     .norm = RENGA_HF_LAYER,
     .bare_norms = true,
     .otherwise =
         &(const RengaHfConfig){.deviation = 0.02,
                                .epsilon = 1e-5,
                                .embedding_scale = 1,
                                .residual_scale = 1,
                                .score_divisor = 1,
                                .window = 128,
                                .pattern = 3,
                                .tied = true,
                                .bias[RENGA_HF_BIAS_HEAD] = true,
                                .padding = 50284,
                                .activation = RENGA_HF_GELU,
                                .rope = {{.base = 160000, .share = 1}, {.base = 1e4, .share = 1}}},
     .is_local = IsLocalInModernBert,
     .complete = CompleteModernBert},
    {.type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &olmo2,
     .wide_norm = true,
     .otherwise = &(const RengaHfConfig){USUAL(1), .padding = 2}},
    {.type = "phi",
     .architecture = "PhiForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &phi,
     .norm = RENGA_HF_LAYER,
     .head_bias = true,
     .otherwise = &(const RengaHfConfig){USUAL(0.5), .bias[RENGA_HF_BIAS_ALL] = true,
                                         .bias[RENGA_HF_BIAS_FEED] = true, .parallel = true,
                                         .activation = RENGA_HF_GELU_TANH}},
    {.type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &phi3,
     .otherwise = &(const RengaHfConfig){.deviation = 0.02,
                                         .embedding_scale = 1,
                                         .residual_scale = 1,
                                         .score_divisor = 1,
                                         .padding = 32001,
                                         .rope = {{.base = 10000, .share = 1, .original = 4096}}}},
    {.type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &llama,
     .otherwise =
         &(const RengaHfConfig){USUAL(1), .bias[RENGA_HF_BIAS_QKV] = true, .full_layers = 28},
     .is_local = IsLocalInQwen},
    {.type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &qwen3,
     .otherwise = &(const RengaHfConfig){USUAL(1), .full_layers = 28},
     .is_local = IsLocalInQwen},
    {.type = "roberta",
     .architecture = "RobertaForMaskedLM",
     .names = &roberta,
     .norm = RENGA_HF_LAYER,
     .counts_words = true,
     .gelu_head = true,
     .build = RengaHfBuildEncoder,
     MASKED(1)},
    {.type = "stablelm",
     .architecture = "StableLmForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &llama,
     .norm = RENGA_HF_LAYER,
     .otherwise = &(const RengaHfConfig){USUAL(0.25)}},
    {.type = "starcoder2",
     .architecture = "Starcoder2ForCausalLM",
     .build = RengaHfBuildDecoder,
     .names = &starcoder2,
     .norm = RENGA_HF_LAYER,
     .otherwise = &(const RengaHfConfig){USUAL(1), .tied = true, .bias[RENGA_HF_BIAS_ALL] = true,
                                         .activation = RENGA_HF_GELU_TANH},
     .complete = CompleteStarcoder2},
    {.type = "t5",
     .architecture = "T5ForConditionalGeneration",
     .build = RengaHfBuildT5,
     .names = &t5,
     .otherwise =
         &(const RengaHfConfig){USUAL(0), .epsilon = 1e-6, .places = 512,
                                .stack[RENGA_HF_BUCKETS] = 32, .stack[RENGA_HF_DISTANCE] = 128,
                                .tied = true, .of_t5 = {[RENGA_HF_SCALED] = true},
                                .attention_scale = 1, .head_width = 64, .activation = RENGA_HF_RELU,
                                .dropout = {0.1, 0.1, 0.1}},
     .complete = CompleteT5},
    {.type = "vit",
     .architecture = "ViTForImageClassification",
     .names = &vit,
     .norm = RENGA_HF_LAYER,
     .build = RengaHfBuildImages,
     .narrow = RengaHfNarrowImages,
     .otherwise =
         &(const RengaHfConfig){USUAL(0), .bias[RENGA_HF_BIAS_ALL] = true,
                                .bias[RENGA_HF_BIAS_FEED] = true, .activation = RENGA_HF_GELU,
                                .image = {224, 16, 3}, .vocabulary = 2},
     .complete = CompleteVit},
    {.type = "whisper",
     .architecture = "WhisperForConditionalGeneration",
     .names = &whisper,
     .norm = RENGA_HF_LAYER,
     .bare_keys = true,
     .build = RengaHfBuildWhisper,
     .otherwise =
         &(const RengaHfConfig){USUAL(0), .epsilon = 1e-5, .tied = true, .padding = 50257,
                                .bias[RENGA_HF_BIAS_ALL] = true, .bias[RENGA_HF_BIAS_FEED] = true,
                                .activation = RENGA_HF_GELU},
     .complete = CompleteWhisper},
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

const RengaHfFamily *RengaHfFindFamily(const char *type)
{
  for (int i = 0; i < N_FAMILIES; i++)
    if (strcmp(families[i].type, type) == 0) return &families[i];
  return NULL;
}

const char *RengaHfListFamilies(size_t size, char text[])
{
  text[0] = '\0';
  for (int i = 0; i < N_FAMILIES; i++) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", i ? ", " : "", families[i].type);
  }
  return text;
}
