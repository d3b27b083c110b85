/* config.json: each key is in the table of what is understood, or is refused by its name and value.
   Whatever would change the numbers of the network is built or refused, and never left out. */
#include "huggingface.h"
#include <math.h>
#include <string.h>

typedef enum {
  KEY_COUNT,      /* an integer from 1 on */
  KEY_REAL,       /* a number */
  KEY_ROOT,       /* a number, of which 1 over its root is kept */
  KEY_FLAG,       /* true or false */
  KEY_CLASSES,    /* an object with a name for each class */
  KEY_ACTIVATION, /* the name of a function */
  KEY_GATED,      /* the name of a function, behind "gated-" where it has a factor */
  KEY_ROPE,       /* an object, or null */
  KEY_LAYERS,     /* a text for each layer */
  KEY_ROW,        /* a row of the table of tokens, from its end where it is negative */
  KEY_EQUAL,      /* one of the values, no other is built */
  KEY_FREE        /* nothing of what is computed depends on it */
} KeyKind;

typedef struct {
  const char *name;
  KeyKind kind;
  size_t at;            /* in RengaHfConfig */
  const char *families; /* " llama gpt2 ", NULL: of all */
  const char *allowed;  /* KEY_EQUAL: "false|0" */
} Key;

enum { MOST_LAYERS = 100000, MOST_WIDTH = 65536 };

#define AT(member) offsetof(RengaHfConfig, member)
#define LLAMAS " llama mistral qwen2 qwen3 gemma gemma2 gemma3_text olmo2 granite phi3 "
#define OTHERS " phi stablelm starcoder2 "
#define ENCODERS " bert roberta "
#define IMAGES " vit "
#define MODERN " modernbert "
#define T5 " t5 "
#define WHISPER " whisper "
#define GEMMAS " gemma gemma2 gemma3_text "
static const Key keys[] = {
    {"vocab_size", KEY_COUNT, AT(vocabulary), LLAMAS OTHERS ENCODERS MODERN " gpt2 gpt_neox ",
     NULL},
    {"vocab_size", KEY_COUNT, AT(vocabulary), T5 WHISPER, NULL},
    {"d_model", KEY_COUNT, AT(hidden), T5 WHISPER, NULL},
    {"d_kv", KEY_COUNT, AT(head_width), T5, NULL},
    {"d_ff", KEY_COUNT, AT(intermediate), T5, NULL},
    {"num_layers", KEY_COUNT, AT(layers), T5, NULL},
    {"num_decoder_layers", KEY_COUNT, AT(stack[RENGA_HF_DECODER_LAYERS]), T5, NULL},
    {"num_heads", KEY_COUNT, AT(heads), T5, NULL},
    {"relative_attention_num_buckets", KEY_COUNT, AT(stack[RENGA_HF_BUCKETS]), T5, NULL},
    {"relative_attention_max_distance", KEY_COUNT, AT(stack[RENGA_HF_DISTANCE]), T5, NULL},
    {"dropout_rate", KEY_REAL, AT(dropout[RENGA_HF_OF_RESIDUALS]), T5, NULL},
    {"layer_norm_epsilon", KEY_REAL, AT(epsilon), T5, NULL},
    {"feed_forward_proj", KEY_GATED, AT(activation), T5, NULL},
    {"tie_word_embeddings", KEY_FLAG, AT(tied), T5 WHISPER, NULL},
    {"is_encoder_decoder", KEY_EQUAL, 0, T5 WHISPER, "true"},
    {"scale_decoder_outputs", KEY_FLAG, AT(of_t5[RENGA_HF_SCALED]), T5, NULL},
    {"dense_act_fn", KEY_FREE, 0, T5, NULL}, /* feed_forward_proj is what counts */
    {"is_gated_act", KEY_FREE, 0, T5, NULL},
    {"initializer_factor", KEY_FREE, 0, T5, NULL},
    {"decoder_start_token_id", KEY_FREE, 0, T5 WHISPER, NULL}, /* of the data */
    {"pad_token_id", KEY_FREE, 0, T5, NULL},
    {"n_positions", KEY_FREE, 0, T5, NULL},
    {"output_past", KEY_FREE, 0, T5, NULL},
    {"encoder_layers", KEY_COUNT, AT(layers), WHISPER, NULL},
    {"encoder_attention_heads", KEY_COUNT, AT(heads), WHISPER, NULL},
    {"encoder_ffn_dim", KEY_COUNT, AT(intermediate), WHISPER, NULL},
    {"decoder_layers", KEY_COUNT, AT(stack[RENGA_HF_DECODER_LAYERS]), WHISPER, NULL},
    {"decoder_attention_heads", KEY_COUNT, AT(stack[RENGA_HF_DECODER_HEADS]), WHISPER, NULL},
    {"decoder_ffn_dim", KEY_COUNT, AT(stack[RENGA_HF_DECODER_INTERMEDIATE]), WHISPER, NULL},
    {"max_source_positions", KEY_COUNT, AT(places), WHISPER, NULL},
    {"max_target_positions", KEY_COUNT, AT(stack[RENGA_HF_TARGETS]), WHISPER, NULL},
    {"num_mel_bins", KEY_COUNT, AT(stack[RENGA_HF_MELS]), WHISPER, NULL},
    {"activation_function", KEY_ACTIVATION, AT(activation), WHISPER, NULL},
    {"dropout", KEY_REAL, AT(dropout[RENGA_HF_OF_RESIDUALS]), WHISPER, NULL},
    {"attention_dropout", KEY_REAL, AT(dropout[RENGA_HF_OF_ATTENTION]), WHISPER, NULL},
    {"activation_dropout", KEY_EQUAL, 0, WHISPER, "0.0|0"},
    {"encoder_layerdrop", KEY_EQUAL, 0, WHISPER, "0.0|0"},
    {"decoder_layerdrop", KEY_EQUAL, 0, WHISPER, "0.0|0"},
    {"apply_spec_augment", KEY_EQUAL, 0, WHISPER, "false"},
    {"scale_embedding", KEY_EQUAL, 0, WHISPER, "false"},
    {"init_std", KEY_REAL, AT(deviation), WHISPER, NULL},
    {"num_hidden_layers", KEY_FREE, 0, WHISPER, NULL}, /* encoder_layers is what counts */
    {"mask_time_prob", KEY_FREE, 0, WHISPER, NULL},    /* of apply_spec_augment, and so below */
    {"mask_time_length", KEY_FREE, 0, WHISPER, NULL},
    {"mask_time_min_masks", KEY_FREE, 0, WHISPER, NULL},
    {"mask_feature_prob", KEY_FREE, 0, WHISPER, NULL},
    {"mask_feature_length", KEY_FREE, 0, WHISPER, NULL},
    {"mask_feature_min_masks", KEY_FREE, 0, WHISPER, NULL},
    {"median_filter_width", KEY_FREE, 0, WHISPER, NULL},    /* of times of words */
    {"use_weighted_layer_sum", KEY_FREE, 0, WHISPER, NULL}, /* of classes of sound */
    {"classifier_proj_size", KEY_FREE, 0, WHISPER, NULL},
    {"suppress_tokens", KEY_FREE, 0, WHISPER, NULL}, /* of generation, and so below */
    {"begin_suppress_tokens", KEY_FREE, 0, WHISPER, NULL},
    {"forced_decoder_ids", KEY_FREE, 0, WHISPER, NULL},
    {"max_length", KEY_FREE, 0, WHISPER, NULL},
    {"image_size", KEY_COUNT, AT(image[0]), IMAGES, NULL},
    {"patch_size", KEY_COUNT, AT(image[1]), IMAGES, NULL},
    {"num_channels", KEY_COUNT, AT(image[2]), IMAGES, NULL},
    {"id2label", KEY_CLASSES, AT(vocabulary), IMAGES, NULL},
    {"num_labels", KEY_COUNT, AT(vocabulary), IMAGES, NULL},
    {"problem_type", KEY_EQUAL, 0, IMAGES, "\"single_label_classification\""},
    {"qkv_bias", KEY_EQUAL, 0, IMAGES, "true"},
    {"encoder_stride", KEY_FREE, 0, IMAGES, NULL},
    {"pooler_act", KEY_FREE, 0, IMAGES, NULL},
    {"pooler_output_size", KEY_FREE, 0, IMAGES, NULL},
    {"hidden_size", KEY_COUNT, AT(hidden), LLAMAS OTHERS ENCODERS MODERN IMAGES " gpt_neox ", NULL},
    {"n_embd", KEY_COUNT, AT(hidden), " gpt2 ", NULL},
    {"num_hidden_layers", KEY_COUNT, AT(layers), LLAMAS OTHERS ENCODERS MODERN IMAGES " gpt_neox ",
     NULL},
    {"n_layer", KEY_COUNT, AT(layers), " gpt2 ", NULL},
    {"num_attention_heads", KEY_COUNT, AT(heads), LLAMAS OTHERS ENCODERS MODERN IMAGES " gpt_neox ",
     NULL},
    {"n_head", KEY_COUNT, AT(heads), " gpt2 ", NULL},
    {"num_key_value_heads", KEY_COUNT, AT(groups), LLAMAS OTHERS, NULL},
    {"head_dim", KEY_COUNT, AT(head_width), LLAMAS " starcoder2 ", NULL},
    {"intermediate_size", KEY_COUNT, AT(intermediate),
     LLAMAS OTHERS ENCODERS MODERN IMAGES " gpt_neox ", NULL},
    {"n_inner", KEY_COUNT, AT(intermediate), " gpt2 ", NULL},
    {"max_position_embeddings", KEY_COUNT, AT(places), LLAMAS OTHERS ENCODERS MODERN " gpt_neox ",
     NULL},
    {"n_positions", KEY_COUNT, AT(places), " gpt2 ", NULL},
    {"rms_norm_eps", KEY_REAL, AT(epsilon), LLAMAS, NULL},
    {"layer_norm_eps", KEY_REAL, AT(epsilon), " gpt_neox phi stablelm " ENCODERS IMAGES, NULL},
    {"layer_norm_epsilon", KEY_REAL, AT(epsilon), " gpt2 ", NULL},
    {"norm_epsilon", KEY_REAL, AT(epsilon), " starcoder2 ", NULL},
    {"hidden_act", KEY_ACTIVATION, AT(activation),
     " llama mistral qwen2 qwen3 olmo2 granite phi3 gpt_neox " OTHERS ENCODERS IMAGES, NULL},
    {"hidden_act", KEY_EQUAL, 0, GEMMAS, "\"gelu_pytorch_tanh\"|\"gelu\""},
    {"hidden_activation", KEY_EQUAL, 0, GEMMAS, "\"gelu_pytorch_tanh\""},
    {"activation_function", KEY_ACTIVATION, AT(activation), " gpt2 ", NULL},
    {"initializer_range", KEY_REAL, AT(deviation), NULL, NULL},
    {"tie_word_embeddings", KEY_FLAG, AT(tied), LLAMAS OTHERS " gpt2 gpt_neox ", NULL},
    {"tie_word_embeddings", KEY_EQUAL, 0, ENCODERS MODERN, "true"},
    {"type_vocab_size", KEY_COUNT, AT(segments), ENCODERS, NULL},
    {"position_embedding_type", KEY_EQUAL, 0, ENCODERS, "\"absolute\""},
    {"hidden_dropout_prob", KEY_REAL, AT(dropout[RENGA_HF_OF_RESIDUALS]), ENCODERS IMAGES, NULL},
    {"attention_probs_dropout_prob", KEY_REAL, AT(dropout[RENGA_HF_OF_ATTENTION]), ENCODERS IMAGES,
     NULL},
    {"attention_probs_dropout_prob", KEY_FREE, 0, " gpt_neox ", NULL}, /* of another library */
    {"hidden_dropout_prob", KEY_FREE, 0, " gpt_neox ", NULL},
    {"use_mrope", KEY_EQUAL, 0, " qwen2 ", "false"},
    {"attention_bias", KEY_EQUAL, 0, " phi3 mistral ", "false"},
    {"norm_type", KEY_EQUAL, 0, " starcoder2 ", "\"layer_norm\""},
    {"mlp_type", KEY_EQUAL, 0, " starcoder2 ", "\"default\""},
    {"scale_attn_weights", KEY_EQUAL, 0, " starcoder2 ", "true"},
    {"attention_softmax_in_fp32", KEY_FREE, 0, " starcoder2 ", NULL}, /* a matter of 16 bits */
    {"scale_attention_softmax_in_fp32", KEY_FREE, 0, " starcoder2 ", NULL},
    {"activation_function", KEY_FREE, 0, " starcoder2 ", NULL}, /* hidden_act is what counts */
    {"layer_norm_epsilon", KEY_FREE, 0, " starcoder2 ", NULL},  /* norm_epsilon is */
    {"sliding_window_size", KEY_FREE, 0, " gemma2 ", NULL},     /* sliding_window is */
    {"max_sequence_length", KEY_FREE, 0, " llama ", NULL},      /* max_position_embeddings is */
    {"unsloth_version", KEY_FREE, 0, NULL, NULL},
    {"unsloth_fixed", KEY_FREE, 0, NULL, NULL},
    {"gradient_checkpointing", KEY_FREE, 0, NULL, NULL},
    {"attention_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_ALL]),
     " llama qwen3 gemma gemma2 gemma3_text olmo2 granite gpt_neox ", NULL},
    {"mlp_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_FEED]), " llama granite ", NULL},
    {"use_qkv_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_QKV]), " stablelm ", NULL},
    {"use_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_ALL]), " starcoder2 ", NULL},
    {"use_parallel_residual", KEY_FLAG, AT(parallel), " gpt_neox ", NULL},
    {"use_parallel_residual", KEY_EQUAL, 0, " stablelm ", "false"},
    {"qk_layernorm", KEY_EQUAL, 0, " phi stablelm ", "false"},
    {"attention_dropout", KEY_REAL, AT(dropout[RENGA_HF_OF_ATTENTION]), LLAMAS OTHERS " gpt_neox ",
     NULL},
    {"attn_pdrop", KEY_REAL, AT(dropout[RENGA_HF_OF_ATTENTION]), " gpt2 ", NULL},
    {"embd_pdrop", KEY_REAL, AT(dropout[RENGA_HF_OF_EMBEDDINGS]), " gpt2 phi ", NULL},
    {"embedding_dropout", KEY_REAL, AT(dropout[RENGA_HF_OF_EMBEDDINGS]), " starcoder2 ", NULL},
    {"resid_pdrop", KEY_REAL, AT(dropout[RENGA_HF_OF_RESIDUALS]), " gpt2 phi phi3 ", NULL},
    {"residual_dropout", KEY_REAL, AT(dropout[RENGA_HF_OF_RESIDUALS]), " starcoder2 ", NULL},
    {"hidden_dropout", KEY_EQUAL, 0, " gpt_neox stablelm ", "0|0.0"},
    {"embd_pdrop", KEY_FREE, 0, " phi3 ", NULL},
    {"sliding_window", KEY_COUNT, AT(window),
     " mistral qwen2 qwen3 gemma2 gemma3_text phi3 starcoder2 ", NULL},
    {"use_sliding_window", KEY_FLAG, AT(windowed), " qwen2 qwen3 ", NULL},
    {"max_window_layers", KEY_COUNT, AT(full_layers), " qwen2 qwen3 ", NULL},
    {"sliding_window_pattern", KEY_COUNT, AT(pattern), " gemma3_text ", NULL},
    {"_sliding_window_pattern", KEY_COUNT, AT(pattern), " gemma3_text ", NULL},
    {"norm_eps", KEY_REAL, AT(epsilon), MODERN, NULL},
    {"norm_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_NORM]), MODERN, NULL},
    {"attention_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_ALL]), MODERN, NULL},
    {"mlp_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_FEED]), MODERN, NULL},
    {"classifier_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_TRANSFORM]), MODERN, NULL},
    {"decoder_bias", KEY_FLAG, AT(bias[RENGA_HF_BIAS_HEAD]), MODERN, NULL},
    {"hidden_activation", KEY_ACTIVATION, AT(activation), MODERN, NULL},
    {"classifier_activation", KEY_EQUAL, 0, MODERN, "\"gelu\""},
    {"local_attention", KEY_COUNT, AT(window), MODERN, NULL},
    {"global_attn_every_n_layers", KEY_COUNT, AT(pattern), MODERN, NULL},
    {"global_rope_theta", KEY_REAL, AT(rope[0].base), MODERN, NULL},
    {"local_rope_theta", KEY_REAL, AT(rope[1].base), MODERN, NULL},
    {"embedding_dropout", KEY_REAL, AT(dropout[RENGA_HF_OF_EMBEDDINGS]), MODERN, NULL},
    {"attention_dropout", KEY_EQUAL, 0, MODERN, "0.0|0"},
    {"mlp_dropout", KEY_EQUAL, 0, MODERN, "0.0|0"},
    {"layer_norm_eps", KEY_FREE, 0, MODERN, NULL},          /* norm_eps is what counts */
    {"position_embedding_type", KEY_FREE, 0, MODERN, NULL}, /* positions turn */
    {"initializer_cutoff_factor", KEY_FREE, 0, MODERN, NULL},
    {"classifier_pooling", KEY_FREE, 0, MODERN, NULL},
    {"deterministic_flash_attn", KEY_FREE, 0, MODERN, NULL},
    {"sparse_prediction", KEY_FREE, 0, MODERN, NULL},
    {"sparse_pred_ignore_index", KEY_EQUAL, 0, MODERN, "-100"},
    {"repad_logits_with_grad", KEY_FREE, 0, MODERN, NULL},
    {"reference_compile", KEY_FREE, 0, MODERN, NULL},
    {"cls_token_id", KEY_FREE, 0, MODERN, NULL},
    {"layer_types", KEY_LAYERS, 0, NULL, NULL},
    {"query_pre_attn_scalar", KEY_ROOT, AT(attention_scale), " gemma2 gemma3_text ", NULL},
    {"attn_logit_softcapping", KEY_REAL, AT(attention_cap), " gemma2 ", NULL},
    {"final_logit_softcapping", KEY_REAL, AT(score_cap), " gemma2 gemma3_text ", NULL},
    {"use_bidirectional_attention", KEY_EQUAL, 0, GEMMAS, "false"},
    {"attention_multiplier", KEY_REAL, AT(attention_scale), " granite ", NULL},
    {"embedding_multiplier", KEY_REAL, AT(embedding_scale), " granite ", NULL},
    {"residual_multiplier", KEY_REAL, AT(residual_scale), " granite ", NULL},
    {"logits_scaling", KEY_REAL, AT(score_divisor), " granite ", NULL},
    {"rope_theta", KEY_REAL, AT(rope[0].base), LLAMAS OTHERS, NULL},
    {"rotary_emb_base", KEY_REAL, AT(rope[0].base), " gpt_neox ", NULL},
    {"rope_local_base_freq", KEY_REAL, AT(rope[1].base), " gemma3_text ", NULL},
    {"rotary_pct", KEY_REAL, AT(rope[0].share), " gpt_neox ", NULL},
    {"partial_rotary_factor", KEY_REAL, AT(rope[0].share), " phi stablelm phi3 ", NULL},
    {"rope_scaling", KEY_ROPE, 0, LLAMAS OTHERS " gpt_neox ", NULL},
    {"rope_parameters", KEY_ROPE, 0, LLAMAS OTHERS MODERN " gpt_neox ", NULL},
    {"original_max_position_embeddings", KEY_REAL, AT(rope[0].original), " phi3 ", NULL},
    {"scale_attn_weights", KEY_EQUAL, 0, " gpt2 ", "true"},
    {"scale_attn_by_inverse_layer_idx", KEY_EQUAL, 0, " gpt2 ", "false"},
    {"add_cross_attention", KEY_EQUAL, 0, NULL, "false"},
    {"is_encoder_decoder", KEY_EQUAL, 0, NULL, "false"},
    {"tie_encoder_decoder", KEY_EQUAL, 0, NULL, "false"},
    {"chunk_size_feed_forward", KEY_FREE, 0, NULL, NULL},
    {"reorder_and_upcast_attn", KEY_FREE, 0, " gpt2 ", NULL}, /* a matter of 16 bits */
    {"pretraining_tp", KEY_FREE, 0, " llama ", NULL},         /* of an order of sums */
    {"model_type", KEY_FREE, 0, NULL, NULL},
    {"architectures", KEY_FREE, 0, NULL, NULL}, /* looked at before */
    {"auto_map", KEY_FREE, 0, NULL, NULL},      /* code of its own for the same family */
    {"dtype", KEY_FREE, 0, NULL, NULL},
    {"torch_dtype", KEY_FREE, 0, NULL, NULL},
    {"transformers_version", KEY_FREE, 0, NULL, NULL},
    {"_name_or_path", KEY_FREE, 0, NULL, NULL},
    {"name_or_path", KEY_FREE, 0, NULL, NULL},
    {"_attn_implementation_autoset", KEY_FREE, 0, NULL, NULL},
    {"attn_implementation", KEY_FREE, 0, NULL, NULL},
    {"_attn_implementation", KEY_FREE, 0, NULL, NULL},
    {"_attn_implementation_internal", KEY_FREE, 0, NULL, NULL},
    {"cache_implementation", KEY_FREE, 0, NULL, NULL},
    {"use_cache", KEY_FREE, 0, NULL, NULL},
    {"is_decoder", KEY_FREE, 0, NULL, NULL},
    {"bos_token_id", KEY_FREE, 0, NULL, NULL},
    {"eos_token_id", KEY_FREE, 0, NULL, NULL},
    {"pad_token_id", KEY_ROW, AT(padding), LLAMAS OTHERS ENCODERS MODERN WHISPER, NULL},
    {"pad_token_id", KEY_FREE, 0, " gpt2 gpt_neox ", NULL},
    {"sep_token_id", KEY_FREE, 0, NULL, NULL},
    {"classifier_dropout", KEY_FREE, 0, NULL, NULL},
    {"output_attentions", KEY_FREE, 0, NULL, NULL},
    {"output_hidden_states", KEY_FREE, 0, NULL, NULL},
    {"return_dict", KEY_FREE, 0, NULL, NULL},
    {"task_specific_params", KEY_FREE, 0, NULL, NULL},
    {"id2label", KEY_FREE, 0, NULL, NULL},
    {"label2id", KEY_FREE, 0, NULL, NULL},
    {"problem_type", KEY_FREE, 0, NULL, NULL},
    {"n_ctx", KEY_FREE, 0, " gpt2 ", NULL},
    {"summary_type", KEY_FREE, 0, " gpt2 ", NULL},
    {"summary_use_proj", KEY_FREE, 0, " gpt2 ", NULL},
    {"summary_activation", KEY_FREE, 0, " gpt2 ", NULL},
    {"summary_proj_to_labels", KEY_FREE, 0, " gpt2 ", NULL},
    {"summary_first_dropout", KEY_FREE, 0, " gpt2 ", NULL},
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* The way that is left for networks of other kinds. */
#define EXPORTER "export it from Python by renga.export and train the file (doc/huggingface.md)"

static bool IsOfFamily(const char *list, const char *name)
{
  char framed[80];
  snprintf(framed, sizeof framed, " %.70s ", name);
  return list == NULL || strstr(list, framed) != NULL;
}

/* NULL: the family has no such key. */
static const Key *FindKey(const RengaHfFamily *family, const char *name)
{
  for (int i = 0; i < N_KEYS; i++)
    if (strcmp(keys[i].name, name) == 0 && IsOfFamily(keys[i].families, family->type))
      return &keys[i];
  return NULL;
}

static const char *ValueText(json_object *value)
{
  return json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
}

static RengaErrorCode ReadCountKey(const char *folder, const Key *key, json_object *value,
                                   RengaHfConfig *config)
{
  const int64_t number = json_object_get_int64(value);
  RengaCheck(json_object_is_type(value, json_type_int) && number >= 1 && number <= 1000000000,
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %s is %.100s, must be an integer from 1 to 1000000000", folder,
             key->name, ValueText(value));
  memcpy((char *)config + key->at, &number, sizeof number);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadRealKey(const char *folder, const Key *key, json_object *value,
                                  RengaHfConfig *config)
{
  const double number = json_object_get_double(value);
  const bool is =
      json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int);
  RengaCheck(is && isfinite(number) && number >= 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %s is %.100s, must be a number from 0 on", folder, key->name,
             ValueText(value));
  memcpy((char *)config + key->at, &number, sizeof number);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadRootKey(const char *folder, const Key *key, json_object *value,
                                  RengaHfConfig *config)
{
  double number = 0;
  RengaCall(ReadRealKey(folder, key, value, config));
  memcpy(&number, (char *)config + key->at, sizeof number);
  if (number > 0) number = 1 / sqrt(number);
  memcpy((char *)config + key->at, &number, sizeof number);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadClasses(const char *folder, const Key *key, json_object *value,
                                  RengaHfConfig *config)
{
  const int64_t count =
      json_object_is_type(value, json_type_object) ? json_object_object_length(value) : 0;
  RengaCheck(count > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %s is %.100s, must name each class", folder, key->name,
             ValueText(value));
  memcpy((char *)config + key->at, &count, sizeof count);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadFlagKey(const char *folder, const Key *key, json_object *value,
                                  RengaHfConfig *config)
{
  const bool flag = json_object_get_boolean(value);
  RengaCheck(json_object_is_type(value, json_type_boolean), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %s is %.100s, must be true or false", folder, key->name,
             ValueText(value));
  memcpy((char *)config + key->at, &flag, sizeof flag);
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadActivation(const char *folder, const Key *key, json_object *value,
                                     const char *name, RengaHfConfig *config)
{
  static const struct {
    const char *name;
    RengaHfActivation activation;
  } known[] = {{"silu", RENGA_HF_SILU}, {"swish", RENGA_HF_SILU},
               {"gelu", RENGA_HF_GELU}, {"gelu_new", RENGA_HF_GELU_TANH},
               {"relu", RENGA_HF_RELU}, {"gelu_pytorch_tanh", RENGA_HF_GELU_TANH}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].name, name) != 0) continue;
    config->activation = known[i].activation;
    return RENGA_SUCCESS;
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/config.json: %s is %.100s, which is not built; built are silu, gelu, gelu_new, "
             "gelu_pytorch_tanh, relu: " EXPORTER,
             folder, key->name, ValueText(value));
}

/* "relu", or "gated-gelu", which is that of GPT-2 in T5. */
static RengaErrorCode ReadGated(const char *folder, const Key *key, json_object *value,
                                RengaHfConfig *config)
{
  const char *name = json_object_get_string(value);
  config->of_t5[RENGA_HF_GATED] = strncmp(name, "gated-", 6) == 0;
  if (strcmp(name, "gated-gelu") == 0) {
    config->activation = RENGA_HF_GELU_TANH;
    return RENGA_SUCCESS;
  }
  RengaCall(
      ReadActivation(folder, key, value, config->of_t5[RENGA_HF_GATED] ? name + 6 : name, config));
  return RENGA_SUCCESS;
}

/* Is the text one of "a|b"? */
static bool IsAllowed(const char *allowed, const char *text)
{
  for (const char *at = allowed; *at;) {
    const size_t length = strcspn(at, "|");
    if (strlen(text) == length && strncmp(at, text, length) == 0) return true;
    at += length + (at[length] == '|');
  }
  return false;
}

static RengaErrorCode ReadEqual(const char *folder, const Key *key, json_object *value)
{
  RengaCheck(IsAllowed(key->allowed, ValueText(value)), MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/config.json: %s is %.100s; only %.*s is built: " EXPORTER, folder, key->name,
             ValueText(value), (int)strcspn(key->allowed, "|"), key->allowed);
  return RENGA_SUCCESS;
}

/* layer_types: "full_attention" or "sliding_attention" for each. */
static RengaErrorCode ReadLayerTypes(json_object *value, RengaHfModel *model)
{
  const int64_t count =
      json_object_is_type(value, json_type_array) ? (int64_t)json_object_array_length(value) : -1;
  RengaCheck(count == model->config->layers, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: layer_types is %.100s, must be a text for each of %lld layers",
             model->folder, ValueText(value), (long long)model->config->layers);
  for (int64_t i = 0; i < count; i++) {
    json_object *text = json_object_array_get_idx(value, (size_t)i);
    const char *name = text ? json_object_get_string(text) : "null";
    model->local[i] = strcmp(name, "sliding_attention") == 0;
    RengaCheck(model->local[i] || strcmp(name, "full_attention") == 0, MPI_COMM_SELF,
               RENGA_ERR_SUPPORT,
               "%s/config.json: layer_types has %.100s, which is not built; built are "
               "full_attention and sliding_attention: " EXPORTER,
               model->folder, name);
  }
  return RENGA_SUCCESS;
}

/* pad_token_id: null stands for none. */
static RengaErrorCode ReadPaddingRow(RengaHfModel *model, json_object *root)
{
  json_object *value = NULL;
  RengaHfConfig *c = model->config;
  const Key *key = FindKey(model->family, "pad_token_id");
  if (!key || key->kind != KEY_ROW || !json_object_object_get_ex(root, key->name, &value))
    return RENGA_SUCCESS;
  const int64_t row = json_object_get_int64(value), rows = c->vocabulary;
  RengaCheck(!value || (json_object_is_type(value, json_type_int) && row < rows && row >= -rows),
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: pad_token_id is %.100s, must be a token of %lld or null",
             model->folder, ValueText(value), (long long)rows);
  c->padding = value ? 1 + (row < 0 ? row + rows : row) : 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadKey(RengaHfModel *model, const Key *key, json_object *value)
{
  switch (key->kind) {
  case KEY_COUNT:
    RengaCall(ReadCountKey(model->folder, key, value, model->config));
    break;
  case KEY_REAL:
    RengaCall(ReadRealKey(model->folder, key, value, model->config));
    break;
  case KEY_ROOT:
    RengaCall(ReadRootKey(model->folder, key, value, model->config));
    break;
  case KEY_CLASSES:
    RengaCall(ReadClasses(model->folder, key, value, model->config));
    break;
  case KEY_FLAG:
    RengaCall(ReadFlagKey(model->folder, key, value, model->config));
    break;
  case KEY_ACTIVATION:
    RengaCall(
        ReadActivation(model->folder, key, value, json_object_get_string(value), model->config));
    break;
  case KEY_GATED:
    RengaCall(ReadGated(model->folder, key, value, model->config));
    break;
  case KEY_ROPE:
    RengaCall(RengaHfReadRope(model->folder, key->name, value, model->config));
    break;
  case KEY_EQUAL:
    RengaCall(ReadEqual(model->folder, key, value));
    break;
  case KEY_LAYERS:
  case KEY_ROW:
  case KEY_FREE:
    break;
  }
  return RENGA_SUCCESS;
}

/* All keys but that of the layers; null stands for what is not said. */
static RengaErrorCode ReadKeys(RengaHfModel *model, json_object *root)
{
  json_object_object_foreach(root, name, value)
  {
    const Key *key = FindKey(model->family, name);
    if (value == NULL) continue;
    RengaCheck(key, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
               "%s/config.json: %.80s is %.100s, of which is not known what it changes in a "
               "network of type %s; take the key out where it changes nothing, or " EXPORTER,
               model->folder, name, ValueText(value), model->family->type);
    RengaCall(ReadKey(model, key, value));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode NeedCount(const RengaHfModel *model, int64_t value, const char *what)
{
  RengaCheck(value > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT, "%s/config.json does not say %s",
             model->folder, what);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckImage(const RengaHfModel *model)
{
  const int64_t side = model->config->image[0], patch = model->config->image[1];
  RengaCheck(!model->family->names->patches || (side <= 65536 && side % patch == 0), MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "%s/config.json: image_size %lld is no multiple of patch_size %lld, or above 65536",
             model->folder, (long long)side, (long long)patch);
  return RENGA_SUCCESS;
}

/* What config.json must say, and sizes that follow from others. */
static RengaErrorCode CompleteConfig(RengaHfModel *model)
{
  RengaHfConfig *c = model->config;
  const bool gemma = model->family->norm == RENGA_HF_RMS_PLUS_ONE;
  RengaCall(NeedCount(model, c->layers, "how many layers there are (num_hidden_layers)"));
  const int64_t most =
      c->layers > c->stack[RENGA_HF_DECODER_LAYERS] ? c->layers : c->stack[RENGA_HF_DECODER_LAYERS];
  RengaCheck(most <= MOST_LAYERS, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %lld layers, of at most %d", model->folder, (long long)most,
             MOST_LAYERS);
  RengaCall(NeedCount(model, c->hidden, "the width (hidden_size)"));
  RengaCall(NeedCount(model, c->heads, "how many heads there are (num_attention_heads)"));
  RengaCall(NeedCount(model, c->vocabulary, "the vocabulary (vocab_size)"));
  RengaCall(CheckImage(model));
  if (model->family->complete) model->family->complete(c);
  RengaCall(NeedCount(model, c->places, "the longest sequence (max_position_embeddings)"));
  RengaCall(NeedCount(model, c->epsilon > 0, "the epsilon of its norms (rms_norm_eps)"));
  if (gemma) RengaCall(NeedCount(model, c->head_width, "the width of a head (head_dim)"));
  RengaCheck(c->head_width > 0 || c->hidden % c->heads == 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: the width %lld is no multiple of %lld heads", model->folder,
             (long long)c->hidden, (long long)c->heads);
  if (gemma) c->activation = RENGA_HF_GELU_TANH;
  if (c->groups == 0) c->groups = c->heads;
  if (c->head_width == 0) c->head_width = c->hidden / c->heads;
  RengaCheck(c->head_width <= MOST_WIDTH, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: a head has %lld numbers, of at most %d", model->folder,
             (long long)c->head_width, MOST_WIDTH);
  if (c->attention_scale == 0) c->attention_scale = 1 / sqrt((double)c->head_width);
  RengaCall(NeedCount(model, c->intermediate, "the width inside a block (intermediate_size)"));
  c->bias[RENGA_HF_BIAS_QKV] = c->bias[RENGA_HF_BIAS_QKV] || c->bias[RENGA_HF_BIAS_ALL];
  if (c->pattern == 0) c->rope[1] = c->rope[0];
  c->rope[1].share = c->rope[0].share;
  RengaCall(RengaHfCheckRope(model->folder, &c->rope[0], c->head_width));
  RengaCall(RengaHfCheckRope(model->folder, &c->rope[1], c->head_width));
  RengaCheck(c->heads % c->groups == 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %lld heads are no multiple of num_key_value_heads, %lld",
             model->folder, (long long)c->heads, (long long)c->groups);
  return RENGA_SUCCESS;
}

/* Which layers attend within a window alone. */
static RengaErrorCode FindLocalLayers(RengaHfModel *model, json_object *root)
{
  json_object *types = NULL;
  const RengaHfConfig *c = model->config;
  RengaCall(RengaMalloc(c->layers, &model->local));
  json_object_object_get_ex(root, "layer_types", &types);
  for (int64_t i = 0; i < c->layers; i++)
    model->local[i] = c->window > 0 && (!model->family->is_local || model->family->is_local(c, i));
  if (types) RengaCall(ReadLayerTypes(types, model));
  for (int64_t i = 0; i < c->layers; i++)
    RengaCheck(!model->local[i] || c->window > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s/config.json: layer %lld has sliding_attention, and there is no sliding_window",
               model->folder, (long long)i);
  return RENGA_SUCCESS;
}

/* The member "model_type", and the first of "architectures". */
static RengaErrorCode FindFamily(RengaHfModel *model, json_object *root)
{
  char list[512];
  json_object *type = NULL, *classes = NULL, *first = NULL;
  json_object_object_get_ex(root, "model_type", &type);
  json_object_object_get_ex(root, "architectures", &classes);
  if (json_object_is_type(classes, json_type_array)) first = json_object_array_get_idx(classes, 0);
  RengaCheck(json_object_is_type(type, json_type_string), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json has no model_type", model->folder);
  const char *name = json_object_get_string(type);
  model->family = RengaHfFindFamily(name);
  RengaCheck(model->family, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/config.json: networks of type %.80s are not built from their folder; built are "
             "%s. Others: " EXPORTER,
             model->folder, name, RengaHfListFamilies(sizeof list, list));
  RengaCheck(!first || strcmp(json_object_get_string(first), model->family->architecture) == 0,
             MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/config.json: architectures is %.100s; of type %s only %s is built: " EXPORTER,
             model->folder, ValueText(classes), name, model->family->architecture);
  RengaCall(RengaMalloc(1, &model->config));
  *model->config = *model->family->otherwise;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadConfigRoot(RengaHfModel *model, json_object *root)
{
  RengaCheck(json_object_is_type(root, json_type_object), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json is no JSON object", model->folder);
  RengaCall(FindFamily(model, root));
  RengaCall(ReadKeys(model, root));
  RengaCall(CompleteConfig(model));
  RengaCall(ReadPaddingRow(model, root));
  RengaCheck(model->config->padding <= model->config->vocabulary, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "%s/config.json does not say pad_token_id, which is %lld for type %s and no token of "
             "%lld",
             model->folder, (long long)model->config->padding - 1, model->family->type,
             (long long)model->config->vocabulary);
  RengaCall(FindLocalLayers(model, root));
  return RENGA_SUCCESS;
}

void RengaHfFreeModel(RengaHfModel *model)
{
  RengaFree(&model->local);
  if (!model->config) return;
  RengaHfRope *rope = model->config->rope;
  for (int k = 0; k < 2; k++) {
    if (rope[1].divisor[k] != rope[0].divisor[k]) RengaFree(&rope[1].divisor[k]);
    RengaFree(&rope[0].divisor[k]);
  }
  RengaFree(&model->config);
}

RengaErrorCode RengaHfReadConfig(const char *folder, const char *text, RengaHfModel *model)
{
  *model = (RengaHfModel){.folder = folder};
  json_object *root = json_tokener_parse(text);
  const RengaErrorCode code = ReadConfigRoot(model, root);
  json_object_put(root);
  RengaCall(code);
  return RENGA_SUCCESS;
}
