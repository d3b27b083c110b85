/*
   What a file says about its initializers: which are trained, which rows and values have no
   gradient. PyTorch's newer exporter leaves it in properties of values, nodes and the graph; a file
   may say it in properties of the model; the options of the graph stand above both. Where nothing
   is said, floating initializers are trained as their names suggest, and the doubtful are named.
*/
#include "onnx.h"
#include <string.h>

/* ---- what the new exporter says ---- */
static RengaErrorCode NoteMetadata(RengaOnnxImporter *importer, const char *name,
                                   RengaOnnxMetadata said)
{
  RengaOnnxBinding *binding;
  RengaCall(RengaOnnxScopeAdd(importer, importer->said, name, &binding));
  if (binding) binding->said = said;
  return RENGA_SUCCESS;
}

static RengaOnnxMetadata MetadataOf(const RengaOnnxImporter *importer, const char *name)
{
  const RengaOnnxBinding *binding = RengaOnnxScopeFind(importer->said, name);
  return binding ? binding->said : RENGA_ONNX_UNSAID;
}

static RengaOnnxMetadata KindFromText(const char *text)
{
  return strncmp(text, "PARAMETER", 9) == 0 ? RENGA_ONNX_PARAMETER : RENGA_ONNX_BUFFER;
}

/* What the program makes in place of a buffer or parameter, for its next call. */
static RengaErrorCode ReadChanged(RengaOnnxImporter *importer, const char *kind, const char *target)
{
  RengaOnnxBinding *changed;
  if (strcmp(kind, "BUFFER_MUTATION") != 0 && strcmp(kind, "PARAMETER_MUTATION") != 0)
    return RENGA_SUCCESS;
  if (!importer->changed) RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->changed));
  RengaCall(RengaOnnxScopeAdd(importer, importer->changed, target, &changed));
  return RENGA_SUCCESS;
}

/* "p_weight: PARAMETER target='layer.weight'", a line for each input of the exported program: a
   name in calls, and what it is; then its outputs: "add: BUFFER_MUTATION target='layer.count'" */
static RengaErrorCode ReadSignature(RengaOnnxImporter *importer, char *text)
{
  char *rest = NULL;
  bool outputs = false;
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    char *kind = strstr(line, ": "), *target = strstr(line, " target='");
    RengaOnnxBinding *placeholder;
    outputs = outputs || strncmp(line, "# outputs", 9) == 0;
    if (!kind || !target) continue;
    *target = *kind = '\0';
    target += strlen(" target='");
    target[strcspn(target, "'")] = '\0';
    if (outputs) {
      RengaCall(ReadChanged(importer, kind + 2, target));
      continue;
    }
    importer->is_signed = true;
    RengaCall(NoteMetadata(importer, target, KindFromText(kind + 2)));
    RengaCall(RengaOnnxScopeAdd(importer, importer->placeholders, line, &placeholder));
    if (!placeholder) continue;
    placeholder->target = target;
    placeholder->said = KindFromText(kind + 2);
  }
  return RENGA_SUCCESS;
}

/* Is one of the names that a value was folded from a parameter? */
static bool IsFromParameter(const RengaOnnxImporter *importer, const RengaOnnxBinding *folded)
{
  for (int i = 0; i < importer->said->capacity; i++) {
    const RengaOnnxBinding *said = importer->said->slot[i];
    if (said && said->said == RENGA_ONNX_PARAMETER && RengaOnnxIsFoldedFrom(folded, said->name))
      return true;
  }
  return false;
}

static RengaErrorCode ReadFolded(RengaOnnxImporter *importer, const Onnx__ValueInfoProto *value)
{
  RengaOnnxBinding *folded;
  char *text;
  RengaCall(
      RengaOnnxProperty(importer, &value->base, "pkg.onnxscript.optimizer.folded_from", &text));
  if (!text) return RENGA_SUCCESS;
  RengaCall(RengaOnnxScopeAdd(importer, importer->said, value->name, &folded));
  if (!folded) return RENGA_SUCCESS;
  folded->folded_from = text;
  folded->said = IsFromParameter(importer, folded) ? RENGA_ONNX_FOLDED : RENGA_ONNX_CONSTANT;
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadValue(RengaOnnxImporter *importer, const Onnx__ValueInfoProto *value)
{
  char *text;
  if (!value->name) return RENGA_SUCCESS;
  RengaCall(RengaOnnxProperty(importer, &value->base,
                              "pkg.torch.export.graph_signature.InputSpec.kind", &text));
  if (text) RengaCall(NoteMetadata(importer, value->name, KindFromText(text)));
  if (text) importer->is_signed = true;
  RengaCall(ReadFolded(importer, value));
  return RENGA_SUCCESS;
}

/* ---- properties of the model: lists of names, separated by commas or lines ---- */
static char *FindModelProperty(const Onnx__ModelProto *model, const char *key)
{
  for (size_t i = 0; i < model->n_metadata_props; i++)
    if (model->metadata_props[i]->key && strcmp(model->metadata_props[i]->key, key) == 0)
      return model->metadata_props[i]->value;
  return NULL;
}

static RengaErrorCode ReadNames(RengaOnnxImporter *importer, const char *key,
                                RengaOnnxScope **scope)
{
  char *text = FindModelProperty(importer->model, key), *rest = NULL;
  *scope = NULL;
  if (!text) return RENGA_SUCCESS;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, scope));
  for (char *name = strtok_r(text, ", \n", &rest); name; name = strtok_r(NULL, ", \n", &rest)) {
    RengaOnnxBinding *binding;
    RengaCall(RengaOnnxScopeAdd(importer, *scope, name, &binding));
  }
  return RENGA_SUCCESS;
}

/* "table:row" */
static RengaErrorCode ReadPadding(RengaOnnxImporter *importer)
{
  RengaOnnxScope *found;
  RengaCall(ReadNames(importer, "renga.padding_rows", &found));
  if (!found) return RENGA_SUCCESS;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->padding));
  for (int i = 0; i < found->capacity; i++) {
    RengaOnnxBinding *binding;
    long long row = -1;
    char *name, *colon, rest = 0;
    if (!found->slot[i]) continue;
    RengaCall(RengaOnnxJoin(importer, found->slot[i]->name, "", &name));
    colon = strrchr(name, ':');
    RengaCheck(colon && sscanf(colon + 1, "%lld%c", &row, &rest) == 1 && row >= 0, importer->comm,
               RENGA_ERR_FILE_FORMAT,
               "%s: property renga.padding_rows: \"%s\" is not TABLE:ROW with a row from 0",
               importer->file, name);
    *colon = '\0';
    RengaCall(RengaOnnxScopeAdd(importer, importer->padding, name, &binding));
    if (binding) binding->row = row;
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxReadMetadata(RengaOnnxImporter *importer)
{
  const Onnx__GraphProto *graph = importer->model->graph;
  char *signature;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->said));
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->placeholders));
  RengaCall(RengaOnnxProperty(importer, &graph->base,
                              "pkg.torch.export.ExportedProgram.graph_signature", &signature));
  if (signature) RengaCall(ReadSignature(importer, signature));
  for (size_t i = 0; i < graph->n_value_info; i++)
    RengaCall(ReadValue(importer, graph->value_info[i]));
  RengaCall(ReadNames(importer, "renga.parameters", &importer->listed));
  RengaCall(ReadNames(importer, "renga.stop_gradient", &importer->stopped));
  RengaCall(ReadPadding(importer));
  return RENGA_SUCCESS;
}

/* ---- the decision ---- */
static bool IsFromPyTorch(const RengaOnnxImporter *importer)
{
  return importer->model->producer_name && strcmp(importer->model->producer_name, "pytorch") == 0;
}

/* A name that its author gave, as layer.0.weight; not onnx::Mul_12, /Constant_output_0, val_3. */
static bool IsOwnName(const char *name)
{
  if (strchr(name, '/') || strstr(name, "::")) return false;
  if (strncmp(name, "val_", 4) == 0) return name[4 + strspn(name + 4, "0123456789")] != '\0';
  return true;
}

/* Products have weights: onnx::MatMul_123 is one that was transposed. */
static bool IsFoldedWeight(const char *name)
{
  static const char *const products[] = {"onnx::MatMul_", "onnx::Gemm_", "onnx::Conv",
                                         "onnx::LSTM_",   "onnx::GRU_",  "onnx::RNN_"};
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    if (strncmp(name, products[i], strlen(products[i])) == 0) return true;
  return false;
}

/* Names that nearly always are parameters of a module. */
static bool IsUsualName(const char *name)
{
  static const char *const words[] = {"weight", "bias",  "gamma",        "beta",       "embed",
                                      "token",  "scale", "running_mean", "running_var"};
  const char *dot = strrchr(name, '.');
  const char *last = dot ? dot + 1 : name;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(last, words[i])) return true;
  return false;
}

/* Names of buffers in transformers that would pass for parameters. */
static bool IsUsualBuffer(const char *name)
{
  static const char *const names[] = {"final_logits_bias", "inv_freq", "original_inv_freq"};
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(dot ? dot + 1 : name, names[i]) == 0) return true;
  return false;
}

/* Nothing is said: by its shape and its name. */
static bool GuessParameter(const RengaOnnxImporter *importer, const RengaOnnxBinding *binding,
                           bool *unsure)
{
  const bool pytorch = IsFromPyTorch(importer), own = IsOwnName(binding->name);
  *unsure = false;
  if (binding->spec.ndim == 0) {
    *unsure = pytorch && own;
    return pytorch && own;
  }
  if (pytorch && IsUsualBuffer(binding->name)) {
    *unsure = true;
    return false;
  }
  *unsure = pytorch && (own ? !IsUsualName(binding->name) : !IsFoldedWeight(binding->name));
  return true;
}

static bool DecideByMetadata(const RengaOnnxImporter *importer, const RengaOnnxBinding *binding,
                             bool *unsure)
{
  const RengaOnnxMetadata said = MetadataOf(importer, binding->name);
  if (importer->listed) return RengaOnnxScopeFind(importer->listed, binding->name) != NULL;
  if (said == RENGA_ONNX_UNSAID && !importer->is_signed)
    return GuessParameter(importer, binding, unsure);
  return said == RENGA_ONNX_PARAMETER || said == RENGA_ONNX_FOLDED;
}

void RengaOnnxDecide(RengaOnnxImporter *importer, RengaOnnxBinding *binding)
{
  bool unsure = false;
  const RengaOnnxBinding *said = RengaOnnxScopeFind(importer->said, binding->name);
  binding->said = said ? said->said : RENGA_ONNX_UNSAID;
  binding->folded_from = said ? said->folded_from : NULL;
  if (!RengaDataTypeIsFloating(binding->spec.type)) return;
  binding->trainable = DecideByMetadata(importer, binding, &unsure);
  const RengaGraphChoice choice = RengaGraphChoose_Private(importer->graph, binding->name);
  if (choice == RENGA_GRAPH_TRAINED) binding->trainable = true;
  binding->unsure = unsure && choice == RENGA_GRAPH_UNSAID;
}

/* A parameter by the file's or the user's own words. */
bool RengaOnnxIsCertain(const RengaOnnxImporter *importer, const RengaOnnxBinding *binding)
{
  const RengaGraphChoice choice = RengaGraphChoose_Private(importer->graph, binding->name);
  if (choice != RENGA_GRAPH_UNSAID) return choice == RENGA_GRAPH_TRAINED;
  return binding->trainable && (importer->listed || binding->said == RENGA_ONNX_PARAMETER);
}

/* ---- gradients that are stopped ---- */
bool RengaOnnxIsStopped(const RengaOnnxImporter *importer, const char *name)
{
  RengaOnnxBinding *binding =
      importer->stopped ? RengaOnnxScopeFind(importer->stopped, name) : NULL;
  if (binding) binding->found = true;
  return binding != NULL;
}

static RengaErrorCode CheckFound(const RengaOnnxImporter *importer, const RengaOnnxScope *scope,
                                 const char *key, const char *what)
{
  for (int i = 0; scope && i < scope->capacity; i++)
    RengaCheck(!scope->slot[i] || scope->slot[i]->found, importer->comm, RENGA_ERR_FILE_FORMAT,
               "%s: property %s: %s \"%s\"", importer->file, key, what, scope->slot[i]->name);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxCheckMetadata(RengaOnnxImporter *importer)
{
  for (int i = 0; importer->listed && i < importer->listed->capacity; i++)
    if (importer->listed->slot[i]) {
      const RengaOnnxBinding *binding =
          RengaOnnxScopeFind(importer->model_scope, importer->listed->slot[i]->name);
      importer->listed->slot[i]->found =
          binding && binding->kind == RENGA_ONNX_TENSOR && binding->trainable;
    }
  RengaCall(CheckFound(importer, importer->listed, "renga.parameters",
                       "there is no floating initializer"));
  RengaCall(CheckFound(importer, importer->stopped, "renga.stop_gradient", "no node makes"));
  RengaCall(CheckFound(importer, importer->padding, "renga.padding_rows", "no Gather reads"));
  return RENGA_SUCCESS;
}
