/* Folders of adapters as peft writes them: adapter_model.safetensors, whose names begin with
   base_model.model, and adapter_config.json. Whatever in this would change the numbers is known, or
   refused by its name and value. */
#include "adapter.h"
#include "renga/private/output.h"
#include "safetensors.h"
#include "write.h"
#include <json-c/json.h>
#include <math.h>
#include <string.h>

#define PREFIX RENGA_ADAPTER_PREFIX
static const char config_name[] = "adapter_config.json", file_name[] = "adapter_model.safetensors";
enum { MOST_CONFIG = 100000000 };

/* What a key may be besides null, false, and what is empty; NULL: anything. */
static const struct {
  const char *name, *allowed;
} keys[] = {
    {"task_type", NULL},
    {"peft_type", "\"LORA\""},
    {"auto_mapping", NULL},
    {"peft_version", NULL},
    {"base_model_name_or_path", NULL},
    {"revision", NULL},
    {"inference_mode", NULL},
    {"r", NULL},
    {"target_modules", NULL},
    {"exclude_modules", NULL},
    {"lora_alpha", NULL},
    {"lora_dropout", NULL},
    {"fan_in_fan_out", NULL},
    {"bias", "\"none\""},
    {"use_rslora", NULL},
    {"modules_to_save", NULL}, /* their tensors are named as what is not in the network */
    {"init_lora_weights", "true|\"gaussian\"|\"eva\"|\"orthogonal\""}, /* others change weights */
    {"layers_to_transform", NULL},
    {"layers_pattern", NULL},
    {"rank_pattern", NULL}, /* shapes differ then */
    {"megatron_config", NULL},
    {"megatron_core", NULL},
    {"loftq_config", NULL},
    {"eva_config", NULL},
    {"qalora_group_size", NULL},
    {"runtime_config", NULL},
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

/* What counts of adapter_config.json. */
typedef struct {
  const char *folder;
  int64_t rank;
  double scale, alpha;
} AdapterConfig;

static const char *AdapterText(json_object *value)
{
  return json_object_to_json_string_ext(value,
                                        JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static bool IsLeftOut(json_object *value)
{
  static const char *const nothing[] = {"null", "false", "{}", "[]", "\"\""};
  for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
    if (strcmp(AdapterText(value), nothing[i]) == 0) return true;
  return false;
}

/* "a|b|c" */
static bool IsAmong(const char *list, const char *text)
{
  const size_t length = strlen(text);
  for (const char *at = list; at; at = strchr(at, '|')) {
    at += *at == '|';
    if (strncmp(at, text, length) == 0 && (at[length] == '|' || !at[length])) return true;
  }
  return false;
}

static RengaErrorCode CheckKey(const char *folder, const char *name, json_object *value)
{
  if (IsLeftOut(value)) return RENGA_SUCCESS;
  for (int k = 0; k < N_KEYS; k++)
    if (strcmp(keys[k].name, name) == 0 &&
        (!keys[k].allowed || IsAmong(keys[k].allowed, AdapterText(value))))
      return RENGA_SUCCESS;
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/%s: %.100s is %.100s, and such adapters are not computed here", folder,
             config_name, name, AdapterText(value));
}

static json_object *AdapterMember(json_object *root, const char *name)
{
  json_object *value = NULL;
  json_object_object_get_ex(root, name, &value);
  return value;
}

static RengaErrorCode TakeFactor(json_object *root, AdapterConfig *config)
{
  json_object *rank = AdapterMember(root, "r"), *alpha = AdapterMember(root, "lora_alpha");
  config->rank = json_object_get_int64(rank);
  config->alpha = json_object_get_double(alpha);
  const bool number =
      json_object_is_type(alpha, json_type_int) || json_object_is_type(alpha, json_type_double);
  RengaCheck(json_object_is_type(rank, json_type_int) && config->rank > 0 && number &&
                 isfinite(config->alpha),
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/%s: r is %.40s and lora_alpha %.40s, must be an integer from 1 on and a number",
             config->folder, config_name, AdapterText(rank), AdapterText(alpha));
  const double rank_of_scale = (double)config->rank;
  config->scale = config->alpha / (json_object_get_boolean(AdapterMember(root, "use_rslora"))
                                       ? sqrt(rank_of_scale)
                                       : rank_of_scale);
  return RENGA_SUCCESS;
}

static RengaErrorCode TakeConfig(json_object *root, AdapterConfig *config)
{
  RengaCheck(json_object_is_type(root, json_type_object), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/%s is no JSON object", config->folder, config_name);
  RengaCheck(AdapterMember(root, "peft_type"), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/%s does not say its peft_type", config->folder, config_name);
  json_object_object_foreach(root, name, value)
  {
    RengaCall(CheckKey(config->folder, name, value));
  }
  RengaCall(TakeFactor(root, config));
  return RENGA_SUCCESS;
}

static RengaErrorCode ParseFile(const RengaMappedFile *file, json_object **root)
{
  *root = NULL;
  RengaCheck(file->size > 0 && file->size <= MOST_CONFIG, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s has %lld bytes, of 1 to %d", file->path, (long long)file->size, MOST_CONFIG);
  json_tokener *tokener = json_tokener_new();
  RengaCheck(tokener, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no memory to read %s", file->path);
  *root = json_tokener_parse_ex(tokener, (const char *)file->bytes, (int)file->size);
  json_tokener_free(tokener);
  return RENGA_SUCCESS;
}

/* To be given to json_object_put; NULL: it is no JSON. */
static RengaErrorCode ParseJson(const char *folder, const char *name, json_object **root)
{
  char *path = NULL;
  RengaMappedFile file = {.bytes = NULL};
  *root = NULL;
  RengaCall(RengaSafetensorsJoin(folder, name, &path));
  RengaErrorCode code = RengaMapFile(path, &file);
  if (!code) code = ParseFile(&file, root);
  RengaUnmapFile(&file);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* The network adds the same multiple of the same product. */
static RengaErrorCode CompareConfig(const AdapterConfig *config, const RengaGraphLora *lora)
{
  const double own = lora->rank > 0 ? lora->alpha / (double)lora->rank : 0;
  RengaCheck(lora->rank > 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "%s is an adapter of rank %lld, and the network has none: it needs -graph_lora %lld "
             "-graph_lora_alpha %g, and -graph_lora_targets as target_modules in %s",
             config->folder, (long long)config->rank, (long long)config->rank,
             config->scale * (double)config->rank, config_name);
  RengaCheck(fabs(own - config->scale) <= 1e-6 * fabs(own), MPI_COMM_SELF, RENGA_ERR_OPTION,
             "%s counts %g times, and that of the network %g times: -graph_lora_alpha %g",
             config->folder, config->scale, own, config->scale * (double)lora->rank);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckConfig(const char *folder, const RengaGraphLora *lora)
{
  AdapterConfig config = {.folder = folder};
  json_object *root = NULL;
  RengaCall(ParseJson(folder, config_name, &root));
  RengaErrorCode code = TakeConfig(root, &config);
  if (!code) code = CompareConfig(&config, lora);
  json_object_put(root);
  RengaCall(code);
  return RENGA_SUCCESS;
}

bool RengaAdapterIsThere(const char *path)
{
  return RengaSafetensorsHasFile(path, file_name);
}

/* Names of the network: "base_model.model.NAME". */
static RengaErrorCode StripPrefix(const char *folder, RengaCheckpointTable *table)
{
  const size_t prefix = strlen(PREFIX);
  for (int i = 0; i < table->n_entries; i++) {
    char *name = table->entries[i].name;
    RengaCheck(strncmp(name, PREFIX, prefix) == 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s/%s: the name \"%.100s\" does not begin with %s", folder, file_name, name,
               PREFIX);
    memmove(name, name + prefix, strlen(name) - prefix + 1);
  }
  RengaCheckpointTableSort(table);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaAdapterRead(const char *folder, const RengaGraphLora *lora,
                                RengaCheckpointTable *table)
{
  RengaCall(CheckConfig(folder, lora));
  RengaCall(RengaSafetensorsReadOne(folder, file_name, table));
  RengaCall(StripPrefix(folder, table));
  return RENGA_SUCCESS;
}

/* ---- writing ---- */
static RengaErrorCode IsCausal(const char *folder, bool *causal)
{
  static const char end[] = "ForCausalLM";
  json_object *root = NULL;
  RengaCall(ParseJson(folder, "config.json", &root));
  json_object *list = AdapterMember(root, "architectures");
  const char *name = json_object_is_type(list, json_type_array) && json_object_array_length(list)
                         ? json_object_get_string(json_object_array_get_idx(list, 0))
                         : NULL;
  const size_t length = name ? strlen(name) : 0, tail = sizeof end - 1;
  *causal = length > tail && strcmp(name + length - tail, end) == 0;
  json_object_put(root);
  return RENGA_SUCCESS;
}

/* All as peft writes it, so that nothing is left to its defaults of another day. */
static json_object *DescribeAdapter(const RengaAdapterDescription *adapter, bool causal)
{
  json_object *root = json_object_new_object(), *modules = json_object_new_array();
  json_object_object_add(root, "peft_type", json_object_new_string("LORA"));
  json_object_object_add(root, "task_type", causal ? json_object_new_string("CAUSAL_LM") : NULL);
  json_object_object_add(root, "base_model_name_or_path",
                         adapter->base ? json_object_new_string(adapter->base) : NULL);
  json_object_object_add(root, "inference_mode", json_object_new_boolean(true));
  json_object_object_add(root, "r", json_object_new_int64(adapter->rank));
  json_object_object_add(root, "lora_alpha",
                         adapter->alpha == floor(adapter->alpha)
                             ? json_object_new_int64((int64_t)adapter->alpha)
                             : json_object_new_double(adapter->alpha));
  json_object_object_add(root, "lora_dropout", json_object_new_double(adapter->dropout));
  json_object_object_add(root, "fan_in_fan_out", json_object_new_boolean(adapter->transposed));
  json_object_object_add(root, "bias", json_object_new_string("none"));
  json_object_object_add(root, "use_rslora", json_object_new_boolean(false));
  json_object_object_add(root, "use_dora", json_object_new_boolean(false));
  json_object_object_add(root, "init_lora_weights", json_object_new_boolean(true));
  json_object_object_add(root, "modules_to_save", NULL);
  for (int i = 0; i < adapter->count; i++)
    json_object_array_add(modules, json_object_new_string(adapter->module[i]));
  json_object_object_add(root, "target_modules", modules);
  return root;
}

RengaErrorCode RengaAdapterWriteConfig(const char *folder, const RengaAdapterDescription *adapter)
{
  const int style =
      JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;
  char *path = NULL;
  bool causal = false;
  RengaOutput output = {.stream = NULL};
  if (adapter->base) RengaCall(IsCausal(adapter->base, &causal));
  RengaCall(RengaSafetensorsJoin(folder, config_name, &path));
  RengaErrorCode code = RengaOutputOpen_Private(path, &output);
  if (!code) {
    json_object *root = DescribeAdapter(adapter, causal);
    fprintf(output.stream, "%s\n", json_object_to_json_string_ext(root, style));
    json_object_put(root);
  }
  code = RengaOutputClose_Private(&output, code);
  RengaFree(&path);
  RengaCall(code);
  return RENGA_SUCCESS;
}
