/* What looks like an exporter's doing, said once for each file: parameters that only the exporter
   made one, values of which nobody says whether they are trained, statistics that stand still. */
#include "onnx.h"
#include <string.h>

enum { NAMES_SHOWN = 4, NAMES_SIZE = 512 };

/* "a, b, c, d and 3 more" */
typedef struct {
  int count;
  char text[NAMES_SIZE];
} Names;

static void AddMergedName(Names *names, const char *name)
{
  size_t used = strlen(names->text);
  if (names->count++ < NAMES_SHOWN)
    snprintf(names->text + used, sizeof names->text - used, "%s%.100s", used ? ", " : "", name);
}

static const char *EndNames(Names *names)
{
  size_t used = strlen(names->text);
  if (names->count > NAMES_SHOWN)
    snprintf(names->text + used, sizeof names->text - used, " and %d more",
             names->count - NAMES_SHOWN);
  return names->text;
}

/* ---- modules: torch's newer exporter has them in a property, the older one in the node's name */
static void CopyModule(const RengaOnnxNode *node, size_t size, char module[])
{
  const char *name = node->proto->name ? node->proto->name : "", *slash = strrchr(name, '/');
  size_t to = 0;
  for (const char *at = name; slash && at < slash && to + 1 < size; at++) {
    size_t digits = *at == '_' ? strspn(at + 1, "0123456789") : 0;
    if (digits > 0 && at[digits + 1] == '/') /* module_1: its second call */
      at += digits;
    else
      module[to++] = *at;
  }
  module[to] = '\0';
}

/* A table of an embedding is often also that of the words at the end: by intention. */
RengaErrorCode RengaOnnxNoteUse(RengaOnnxNode *node, RengaOnnxBinding *binding)
{
  char module[NAMES_SIZE];
  if (!binding->trainable || node->importer->is_signed) return RENGA_SUCCESS;
  CopyModule(node, sizeof module, module);
  if (strcmp(node->proto->op_type, "Gather") == 0) binding->is_table = true;
  if (!module[0]) return RENGA_SUCCESS;
  if (binding->module && strcmp(binding->module, module) != 0) binding->is_shared = true;
  if (!binding->module)
    RengaCall(RengaOnnxJoin(node->importer, module, "", (char **)&binding->module));
  return RENGA_SUCCESS;
}

/* The older exporter keeps the name of a parameter that it made one with an equal one. */
void RengaOnnxNoteMerged(RengaOnnxNode *node, const RengaOnnxBinding *of)
{
  const char *name = node->proto->output[0];
  RengaOnnxImporter *importer = node->importer;
  if (!of->trainable || of->kind != RENGA_ONNX_TENSOR || importer->is_signed) return;
  if (strchr(name, '/') || strstr(name, "::") || !strchr(name, '.')) return;
  if (importer->noted.n_merged < RENGA_ONNX_MERGED_MAX)
    importer->noted.merged[importer->noted.n_merged] = name;
  importer->noted.n_merged++;
}

static bool IsParameter(const RengaOnnxImporter *importer, const RengaOnnxBinding *binding)
{
  const RengaGraphValue *value = RengaGraphGetValue(importer->graph, binding->value);
  return binding->kind == RENGA_ONNX_TENSOR && binding->trainable && value &&
         value->kind != RENGA_VALUE_STATE && value->kind != RENGA_VALUE_CONSTANT;
}

static void WarnOfMerged(RengaOnnxImporter *importer)
{
  Names merged = {0};
  for (int i = 0; i < importer->noted.n_merged && i < RENGA_ONNX_MERGED_MAX; i++)
    AddMergedName(&merged, importer->noted.merged[i]);
  merged.count = importer->noted.n_merged;
  if (importer->noted.n_merged > 0)
    RengaWarning(importer->comm,
                 "%s: the exporter made %d parameters one with others that began equal (%s): they "
                 "are trained as one. Unless the module ties them, export it with "
                 "training=torch.onnx.TrainingMode.TRAINING",
                 importer->file, importer->noted.n_merged, EndNames(&merged));
}

static void WarnOfBindings(RengaOnnxImporter *importer)
{
  Names unsure = {0}, buffers = {0}, shared = {0};
  for (int i = 0; i < importer->model_scope->capacity; i++) {
    const RengaOnnxBinding *binding = importer->model_scope->slot[i];
    if (binding && binding->unsure && !binding->trainable && binding->value != RENGA_VALUE_NONE)
      AddMergedName(&buffers, binding->name);
    if (!binding || !IsParameter(importer, binding)) continue;
    if (binding->unsure) AddMergedName(&unsure, binding->name);
    if (binding->is_shared && !binding->is_table) AddMergedName(&shared, binding->name);
  }
  if (unsure.count > 0)
    RengaWarning(importer->comm,
                 "%s does not say whether these are parameters or constants: %s. They are trained; "
                 "-graph_frozen NAME,... stops that, -graph_trained NAME,... says that it is right",
                 importer->file, EndNames(&unsure));
  if (buffers.count > 0)
    RengaWarning(importer->comm,
                 "%s: by their names these are buffers, and are not trained: %s. -graph_trained "
                 "NAME,... trains them, -graph_frozen NAME,... says that it is right",
                 importer->file, EndNames(&buffers));
  if (shared.count > 0)
    RengaWarning(
        importer->comm,
        "%s: parameters that several modules share, and are trained as one: %s. Unless the "
        "network ties them, an exporter or optimizer made equal values one: export it "
        "without",
        importer->file, EndNames(&shared));
}

/* Their first values are not those of the module to the last bit. */
static void WarnOfFoldedFunctions(RengaOnnxImporter *importer)
{
  Names undone = {0};
  for (int i = 0; i < importer->model_scope->capacity; i++) {
    const RengaOnnxBinding *binding = importer->model_scope->slot[i];
    if (binding && binding->undone) AddMergedName(&undone, binding->same->name);
  }
  if (undone.count > 0)
    RengaWarning(importer->comm,
                 "%s has functions of these parameters in their place: %s. Their first values are "
                 "computed back, right but for rounding; for their very bits %s",
                 importer->file, EndNames(&undone), RengaOnnxExportAdvice);
}

void RengaOnnxWarnOfExport(RengaOnnxImporter *importer)
{
  if (importer->options->evaluate || importer->graph == NULL) return;
  WarnOfMerged(importer);
  WarnOfBindings(importer);
  WarnOfFoldedFunctions(importer);
  if (importer->noted.n_inference > 0)
    RengaWarning(importer->comm,
                 "%s: %d BatchNormalization%s in the form of inference: the running statistics "
                 "stay as they are. To train them, export the network after model.train()%s",
                 importer->file, importer->noted.n_inference,
                 importer->noted.n_inference == 1 ? " is" : "s are",
                 importer->is_signed ? "" : ", with training=torch.onnx.TrainingMode.TRAINING");
}
