/* Buffers that the network changes itself in each step: a running mean, the vectors of
   spectral_norm. PyTorch's newer exporter leaves the changes out of the file and says so in the
   signature. Renga follows those of BatchNormalization; where the result needs another one, a
   training would be of a network whose buffers stand still. */
#include "module.h"
#include <string.h>

/* In training, BatchNormalization reads its statistics to update them only. */
static RengaErrorCode UpdatesStatistics(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                        bool *updates)
{
  char *call;
  *updates = false;
  if (strcmp(node->op_type ? node->op_type : "", "BatchNormalization") != 0) return RENGA_SUCCESS;
  RengaCall(RengaOnnxCall(importer, node, &call));
  *updates = RengaOnnxIsTrainingNorm(call);
  for (size_t i = 0; i < node->n_attribute; i++)
    if (node->attribute[i]->name && strcmp(node->attribute[i]->name, "training_mode") == 0)
      *updates = *updates || node->attribute[i]->i != 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode Need(RengaOnnxImporter *importer, RengaOnnxScope *needed, const char *name)
{
  RengaOnnxBinding *added;
  if (name && *name) RengaCall(RengaOnnxScopeAdd(importer, needed, name, &added));
  return RENGA_SUCCESS;
}

/* What a node of these, or one of their branches, reads. */
static RengaErrorCode NeedInputs(RengaOnnxImporter *importer, RengaOnnxScope *needed,
                                 const Onnx__NodeProto *node)
{
  enum { MEAN = 3, VARIANCE = 4 };
  bool updates;
  RengaCall(UpdatesStatistics(importer, node, &updates));
  for (size_t i = 0; i < node->n_input; i++)
    if (!updates || (i != MEAN && i != VARIANCE)) RengaCall(Need(importer, needed, node->input[i]));
  for (size_t i = 0; i < node->n_attribute; i++) {
    const Onnx__GraphProto *inner = node->attribute[i]->g;
    for (size_t k = 0; inner && k < inner->n_node; k++)
      RengaCall(NeedInputs(importer, needed, inner->node[k]));
    for (size_t k = 0; inner && k < inner->n_output; k++)
      RengaCall(Need(importer, needed, inner->output[k]->name));
  }
  return RENGA_SUCCESS;
}

/* The names that the loss needs, or all outputs where none is called so: nodes are in order. */
static RengaErrorCode FindNeeded(RengaOnnxImporter *importer, RengaOnnxScope **needed)
{
  const Onnx__GraphProto *graph = importer->model->graph;
  bool loss = false;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, needed));
  for (size_t i = 0; i < graph->n_output; i++)
    loss = loss || strcmp(graph->output[i]->name ? graph->output[i]->name : "", "loss") == 0;
  for (size_t i = 0; i < graph->n_output && !loss; i++)
    RengaCall(Need(importer, *needed, graph->output[i]->name));
  if (loss) RengaCall(Need(importer, *needed, "loss"));
  for (size_t i = importer->n_node; i-- > 0;) {
    const Onnx__NodeProto *node = importer->node[i];
    bool read = false;
    for (size_t k = 0; k < node->n_output && !read; k++)
      read = RengaOnnxScopeFind(*needed, node->output[k]) != NULL;
    if (read) RengaCall(NeedInputs(importer, *needed, node));
  }
  return RENGA_SUCCESS;
}

/* By itself, or in a constant that the exporter's optimizer made of it. */
static bool IsChangeNeeded(const RengaOnnxImporter *importer, RengaOnnxScope *needed,
                           const char *buffer)
{
  if (RengaOnnxScopeFind(needed, buffer)) return true;
  for (int i = 0; i < importer->said->capacity; i++) {
    const RengaOnnxBinding *said = importer->said->slot[i];
    if (said && said->folded_from && RengaOnnxIsFoldedFrom(said, buffer) &&
        RengaOnnxScopeFind(needed, said->name))
      return true;
  }
  return false;
}

/* Does the call name a sum or product that is not in the file? The exporter's optimizer drops those
   with 0 and 1, which a buffer may be at first. */
static bool NamesDropped(const RengaOnnxImporter *importer, const char *call)
{
  static const char dropped[] = "add sub mul div pow where";
  const char *at = RengaOnnxCallArguments(call, NULL), *name;
  size_t length;
  while (at && RengaOnnxNextName(&at, &name, &length)) {
    char word[8];
    snprintf(word, sizeof word, "%.*s", (int)RengaOnnxWithoutNumber(name, length), name);
    if (RengaOnnxHasWord(dropped, word) && !RengaOnnxScopeFindPart(importer->made, name, length) &&
        !RengaOnnxScopeFindPart(importer->model_scope, name, length) &&
        !RengaOnnxIsInputOf(importer->model->graph, name, length))
      return true;
  }
  return false;
}

/* Of a buffer that is not in the file one cannot say whether anything reads it; but nothing does
   where no calculation is missing, or where it counts the batches of a BatchNormalization. */
static RengaErrorCode CheckDropped(RengaOnnxImporter *importer)
{
  const char *gone = NULL;
  bool dropped = false;
  for (int i = 0; i < importer->changed->capacity; i++) {
    const RengaOnnxBinding *changed = importer->changed->slot[i];
    if (changed && !RengaOnnxScopeFind(importer->model_scope, changed->name) &&
        strcmp(RengaOnnxLastName(changed->name), "num_batches_tracked") != 0 &&
        RengaGraphChoose_Private(importer->graph, changed->name) != RENGA_GRAPH_FROZEN &&
        (!gone || strcmp(changed->name, gone) < 0))
      gone = changed->name;
  }
  if (gone) RengaCall(RengaOnnxFindMade(importer));
  for (size_t i = 0; i < importer->n_node && gone && !dropped; i++) {
    char *call;
    RengaCall(RengaOnnxCall(importer, importer->node[i], &call));
    dropped = NamesDropped(importer, call);
  }
  RengaCheck(!dropped, importer->comm, RENGA_ERR_SUPPORT,
             "%s: the network changes \"%s\" in each step, and the exporter's optimizer dropped it "
             "and calculations: %s, or keep the first values with -graph_frozen %s",
             importer->file, gone, RengaOnnxExportAdvice, gone);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxCheckChanged(RengaOnnxImporter *importer)
{
  RengaOnnxScope *needed;
  const char *first = NULL;
  if (!importer->changed || importer->options->evaluate) return RENGA_SUCCESS;
  RengaCall(FindNeeded(importer, &needed));
  for (int i = 0; i < importer->changed->capacity; i++) {
    const RengaOnnxBinding *changed = importer->changed->slot[i];
    if (changed && IsChangeNeeded(importer, needed, changed->name) &&
        RengaGraphChoose_Private(importer->graph, changed->name) != RENGA_GRAPH_FROZEN &&
        (!first || strcmp(changed->name, first) < 0))
      first = changed->name;
  }
  RengaCheck(!first, importer->comm, RENGA_ERR_SUPPORT,
             "%s: the network changes \"%s\" in each step and computes with it, which is supported "
             "of the statistics of BatchNormalization only (spectral_norm and running means of "
             "one's own do it): export it with that module in eval(), or keep the first values "
             "with -graph_frozen %s",
             importer->file, first, first);
  RengaCall(CheckDropped(importer));
  return RENGA_SUCCESS;
}
