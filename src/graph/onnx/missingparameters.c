/* Parameters of which the exporter's optimizer left nothing: it makes equal calculations one, and
   with them the parameters that they read. A parameter that the file announces and does not have
   may also be tied to another, or of no use to the loss: then no such calculation is missing. */
#include "module.h"
#include <stdlib.h>
#include <string.h>

/* layer_norm_1 was layer_norm: the same call, by another number. */
bool RengaOnnxIsOtherCall(const char *missing, size_t length, const char *there)
{
  const size_t base = RengaOnnxWithoutNumber(missing, length);
  return base == RengaOnnxWithoutNumber(there, strlen(there)) &&
         memcmp(missing, there, base) == 0 && !RengaOnnxIsName(there, missing, length);
}

static bool ReadsParameter(const RengaOnnxImporter *importer, const Onnx__NodeProto *node)
{
  for (size_t i = 0; i < node->n_input; i++) {
    const RengaOnnxBinding *binding = RengaOnnxScopeFind(importer->model_scope, node->input[i]);
    if (binding && binding->kind == RENGA_ONNX_TENSOR && binding->trainable) return true;
  }
  return false;
}

/* Nodes by the names of their outputs. */
RengaErrorCode RengaOnnxFindMade(RengaOnnxImporter *importer)
{
  RengaOnnxBinding *binding;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->made));
  for (size_t i = 0; i < importer->n_node; i++)
    for (size_t k = 0; k < importer->node[i]->n_output; k++) {
      RengaCall(
          RengaOnnxScopeAdd(importer, importer->made, importer->node[i]->output[k], &binding));
      if (binding) binding->row = (int64_t)i;
    }
  return RENGA_SUCCESS;
}

static void AddOwner(RengaOnnxOwners *owners, const RengaOnnxBinding *parameter)
{
  if (owners->count < RENGA_ONNX_OWNERS_MAX) owners->old[owners->count++] = parameter;
}

/* Parameters that the call of the node names; without any, those that it reads. */
static RengaErrorCode FindOwners(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                 RengaOnnxOwners *owners)
{
  const RengaOnnxBinding *named;
  char *text;
  RengaCall(RengaOnnxCall(importer, node, &text));
  const char *at = RengaOnnxCallArguments(text, NULL);
  while ((named = RengaOnnxNextParameter(importer, &at))) AddOwner(owners, named);
  for (int i = 0; i < importer->placeholders->capacity && owners->count == 0; i++) {
    named = importer->placeholders->slot[i];
    for (size_t k = 0; k < node->n_input && named && named->said == RENGA_ONNX_PARAMETER; k++) {
      const RengaOnnxBinding *read = RengaOnnxScopeFind(importer->model_scope, node->input[k]);
      if (read && read->trainable &&
          (strcmp(read->name, named->target) == 0 || RengaOnnxIsFoldedFrom(read, named->target)))
        AddOwner(owners, named);
    }
  }
  return RENGA_SUCCESS;
}

/* Which nodes compute from parameters like those that are lost, through others too: nodes are in
   order. own: by themselves; reads: from any parameters */
static RengaErrorCode FindDependent(RengaOnnxImporter *importer, const RengaOnnxMissing *lost,
                                    bool **dependent, bool **own, bool **reads)
{
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node, sizeof **reads, reads));
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node, sizeof **dependent, dependent));
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node, sizeof **own, own));
  for (size_t i = 0; i < importer->n_node; i++) {
    RengaOnnxOwners owners = {0};
    const Onnx__NodeProto *node = importer->node[i];
    (*reads)[i] = ReadsParameter(importer, node);
    if ((*reads)[i]) RengaCall(FindOwners(importer, node, &owners));
    (*dependent)[i] = (*own)[i] = owners.count > 0 && RengaOnnxIsLikeMissing(lost, &owners);
    for (size_t k = 0; k < node->n_input && !(*dependent)[i]; k++) {
      const RengaOnnxBinding *read = RengaOnnxScopeFind(importer->made, node->input[k]);
      (*dependent)[i] = read && read->row < (int64_t)i && (*dependent)[read->row];
    }
  }
  return RENGA_SUCCESS;
}

/* layer_norm_2 is made of such parameters, and layer_norm_1 is nowhere: it was merged, and what
   read it too. Norms begin equal and are numbered without gaps; of other layers, gaps are unused
   ones. */
static bool IsAfterGap(const RengaOnnxImporter *importer, const Onnx__NodeProto *node)
{
  static const char layers[] = "layer_norm group_norm rms_norm";
  for (size_t k = 0; k < node->n_output; k++) {
    const char *name = node->output[k];
    const size_t length = strlen(name), base = RengaOnnxWithoutNumber(name, length);
    char word[32], before[64];
    if (base == length || base >= sizeof word) continue;
    snprintf(word, sizeof word, "%.*s", (int)base, name);
    if (!RengaOnnxHasWord(layers, word)) continue;
    const int number = atoi(name + base + 1);
    if (number > 1)
      snprintf(before, sizeof before, "%s_%d", word, number - 1);
    else
      snprintf(before, sizeof before, "%s", word);
    if (!RengaOnnxScopeFind(importer->made, before)) return true;
  }
  return false;
}

/* Does the node read a result that was made from a parameter for another call than the one that
   its own call names? */
static bool ReadsOther(const RengaOnnxImporter *importer, const char *missing, size_t length,
                       const Onnx__NodeProto *node, const bool dependent[])
{
  for (size_t i = 0; i < node->n_input; i++) {
    const RengaOnnxBinding *read = RengaOnnxScopeFind(importer->made, node->input[i]);
    if (read && RengaOnnxIsOtherCall(missing, length, read->name) && dependent[read->row])
      return true;
  }
  return false;
}

/* The call of a node names a result that no node makes (missing); it reads another one of that kind
   (merged). */
static RengaErrorCode LookAtCall(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                 const bool dependent[], bool *missing, bool *merged)
{
  const char *at, *name;
  char *text;
  size_t length;
  *merged = false;
  RengaCall(RengaOnnxCall(importer, node, &text));
  at = RengaOnnxCallArguments(text, NULL);
  while (at && !*merged && RengaOnnxNextName(&at, &name, &length)) {
    const bool there = RengaOnnxScopeFindPart(importer->made, name, length) ||
                       RengaOnnxScopeFindPart(importer->model_scope, name, length);
    const bool given = RengaOnnxScopeFindPart(importer->placeholders, name, length) ||
                       RengaOnnxIsInputOf(importer->model->graph, name, length);
    *missing = *missing || (!there && !given);
    *merged = !there && ReadsOther(importer, name, length, node, dependent);
  }
  return RENGA_SUCCESS;
}

/* A parameter that stands at several calls, not all of which name it. */
static bool IsAnyVague(const RengaOnnxScope *scope)
{
  for (int i = 0; i < scope->capacity; i++)
    if (scope->slot[i] && scope->slot[i]->vague && scope->slot[i]->trainable &&
        scope->slot[i]->n_calls > 1)
      return true;
  return false;
}

/* The first parameter that is announced and is not there; NULL: none. */
static const char *FirstMissing(const RengaOnnxImporter *importer, int *count)
{
  const char *first = NULL;
  *count = 0;
  for (int i = 0; i < importer->placeholders->capacity; i++) {
    const RengaOnnxBinding *named = importer->placeholders->slot[i];
    if (!named || named->said != RENGA_ONNX_PARAMETER || named->found ||
        RengaOnnxScopeFind(importer->model_scope, named->target) ||
        RengaOnnxScopeFind(importer->said, named->target)->found ||
        RengaGraphChoose_Private(importer->graph, named->target) == RENGA_GRAPH_FROZEN)
      continue;
    if (!first || strcmp(named->target, first) < 0) first = named->target;
    (*count)++;
  }
  return first;
}

/* x + 0 and x * 1 are not in the file any more, and with them the parameter is not. */
static void WarnOfMissing(const RengaOnnxImporter *importer, int count, const char *lost)
{
  RengaWarning(importer->comm,
               "%s announces %d parameter%s that it does not have (\"%s\"%s), and calculations are "
               "missing too. One that is neither tied to another nor unused is not trained, and "
               "the losses are not PyTorch's: %s",
               importer->file, count, count == 1 ? "" : "s", lost, count == 1 ? "" : " and others",
               RengaOnnxExportAdvice);
}

RengaErrorCode RengaOnnxCheckMissing(RengaOnnxImporter *importer)
{
  bool missing = false, *dependent, *own, *reads;
  RengaOnnxMissing losses;
  int count;
  const char *lost = FirstMissing(importer, &count);
  bool merged = lost && IsAnyVague(importer->model_scope);
  if (!lost) return RENGA_SUCCESS;
  RengaCall(RengaOnnxFindMissing(importer, &losses));
  RengaCall(FindDependent(importer, &losses, &dependent, &own, &reads));
  for (size_t i = 0; i < importer->n_node && !merged; i++)
    merged = own[i] && IsAfterGap(importer, importer->node[i]);
  for (size_t i = 0; i < importer->n_node && !merged; i++)
    RengaCall(LookAtCall(importer, importer->node[i], dependent, &missing, &merged));
  for (size_t i = 0; i < importer->n_node && !merged; i++) {
    RengaOnnxOrigin origin;
    RengaCall(RengaOnnxReadOrigin(importer, importer->node[i], &origin));
    if (RengaOnnxNamesMissing(&losses, &origin)) /* whatever its parameters are called */
      RengaCall(LookAtCall(importer, importer->node[i], reads, &missing, &merged));
  }
  RengaCheck(!merged, importer->comm, RENGA_ERR_SUPPORT,
             "%s: the exporter's optimizer made calculations one that began with equal parameters, "
             "and %d of these are lost (\"%s\"): %s",
             importer->file, count, lost, RengaOnnxExportAdvice);
  if (missing && !importer->options->evaluate) WarnOfMissing(importer, count, lost);
  return RENGA_SUCCESS;
}
