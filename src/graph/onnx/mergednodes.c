/* Calculations that the exporter's optimizer made one, made again. It keeps one of equal nodes that
   read equal values, and with the others go the parameters that began equal. The calls of the nodes
   that read the result still name the one that each had: where a call reads layer_norm in place of
   layer_norm_1, and a module in whose reach it lies lost parameters of the same names, the nodes of
   layer_norm are copied for layer_norm_1, with a call that names these parameters. A folded value
   is copied in the same way. What remains lost is for missingparameters.c to refuse. */
#include "module.h"
#include <string.h>

/* Nodes, and after which of the file's they come. */
typedef struct {
  Onnx__NodeProto *node;
  size_t after;
} NodeCopy;
typedef struct {
  RengaOnnxImporter *importer;
  RengaOnnxMissing lost;
  RengaOnnxScope *restored;   /* by name in calls: what is made again; target: in place of what */
  RengaOnnxScope *unresolved; /* values that a call read in place of another, which nobody knows */
  int n_copies, copies_max;
  NodeCopy *copy;
  bool *dropped; /* by node: nobody reads it any more */
} MakingAgain;

/* ---- copies ---- */
static RengaErrorCode AddCopy(MakingAgain *again, Onnx__NodeProto *node, size_t after)
{
  if (again->n_copies == again->copies_max) {
    NodeCopy *copy;
    again->copies_max = 2 * again->copies_max + 16;
    RengaCall(RengaOnnxAllocate(again->importer, again->copies_max, sizeof *copy, &copy));
    for (int i = 0; i < again->n_copies; i++) copy[i] = again->copy[i];
    again->copy = copy;
  }
  again->copy[again->n_copies++] = (NodeCopy){node, after};
  return RENGA_SUCCESS;
}

static RengaErrorCode RenameAll(MakingAgain *again, size_t count, char *names[], const char *from,
                                const char *to)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(names[i], from) == 0) RengaCall(RengaOnnxJoin(again->importer, to, "", &names[i]));
  return RENGA_SUCCESS;
}

/* All nodes of the call that makes a value are copied; the copy of the value is called result. */
static RengaErrorCode CopyCallOf(MakingAgain *again, const char *call,
                                 const RengaOnnxOwners *parameters, const char *value,
                                 const char *result)
{
  RengaOnnxImporter *importer = again->importer;
  const int first = again->n_copies;
  char *text, *other, *name;
  RengaCall(RengaOnnxRenameCall(importer, call, parameters, result, &other));
  for (size_t i = 0; i < importer->n_node; i++) {
    Onnx__NodeProto *copy;
    RengaCall(RengaOnnxCall(importer, importer->node[i], &text));
    if (!text || strcmp(text, call) != 0) continue;
    RengaCall(RengaOnnxCopyProto(importer, importer->node[i], &copy));
    RengaCall(RengaOnnxSetCall(importer, copy, other));
    RengaCall(AddCopy(again, copy, i));
  }
  for (int i = first; i < again->n_copies; i++)
    for (size_t k = 0; k < again->copy[i].node->n_output; k++) {
      const char *made = again->copy[i].node->output[k];
      if (!made[0]) continue; /* an output that is left out */
      RengaCall(RengaOnnxJoin(importer, made, " of ", &name));
      RengaCall(RengaOnnxJoin(importer, name, result, &name));
      if (strcmp(made, value) == 0) RengaCall(RengaOnnxJoin(importer, result, "", &name));
      for (int n = first; n < again->n_copies; n++)
        RengaCall(
            RenameAll(again, again->copy[n].node->n_input, again->copy[n].node->input, made, name));
      again->copy[i].node->output[k] = name;
    }
  return RENGA_SUCCESS;
}

/* The initializer that was folded from one parameter also is the one folded from another. */
static RengaErrorCode CopyFolded(MakingAgain *again, const RengaOnnxBinding *value,
                                 const RengaOnnxOwners *parameters, const char *result)
{
  RengaOnnxImporter *importer = again->importer;
  RengaOnnxBinding *said, *copy;
  char *name, *list;
  RengaCall(RengaOnnxJoin(importer, result, "", &name));
  RengaCall(RengaOnnxRenameList(importer, value->folded_from, parameters, &list));
  RengaCall(RengaOnnxScopeAdd(importer, importer->said, name, &said));
  RengaCall(RengaOnnxScopeAdd(importer, importer->model_scope, name, &copy));
  if (!said || !copy) return RENGA_SUCCESS;
  said->said = RENGA_ONNX_FOLDED;
  said->folded_from = list;
  copy->kind = RENGA_ONNX_TENSOR;
  copy->tensor = value->tensor;
  copy->spec = value->spec;
  RengaOnnxDecide(importer, copy);
  return RENGA_SUCCESS;
}

/* ---- which value a call lost ---- */
static void AddOld(RengaOnnxOwners *parameters, const RengaOnnxBinding *named)
{
  for (int k = 0; k < parameters->count && k < RENGA_ONNX_OWNERS_MAX; k++)
    if (parameters->old[k] == named) return;
  if (parameters->count < RENGA_ONNX_OWNERS_MAX) parameters->old[parameters->count] = named;
  parameters->count++;
}

/* Those that the call of the node that makes the value names. */
static void ParametersOfCall(const MakingAgain *again, const char *call,
                             RengaOnnxOwners *parameters)
{
  const char *at = RengaOnnxCallArguments(call, NULL);
  const RengaOnnxBinding *named;
  while ((named = RengaOnnxNextParameter(again->importer, &at))) AddOld(parameters, named);
}

static void ParametersOfFolded(const MakingAgain *again, const RengaOnnxBinding *value,
                               RengaOnnxOwners *parameters)
{
  const RengaOnnxScope *scope = again->importer->placeholders;
  for (int i = 0; i < scope->capacity; i++)
    if (scope->slot[i] && scope->slot[i]->said == RENGA_ONNX_PARAMETER &&
        RengaOnnxIsFoldedFrom(value, scope->slot[i]->target))
      AddOld(parameters, scope->slot[i]);
  if (parameters->count > 1) parameters->count = RENGA_ONNX_OWNERS_MAX + 1; /* nothing for copies */
}

/* The class of the module that reads the value by its own name; NULL: none does. */
static RengaErrorCode TypeOfReader(MakingAgain *again, const char *value, char **type)
{
  RengaOnnxImporter *importer = again->importer;
  *type = NULL;
  for (size_t i = 0; i < importer->n_node && !*type; i++) {
    const Onnx__NodeProto *node = importer->node[i];
    const char *at = NULL, *name;
    char *call;
    size_t length;
    bool reads = false;
    for (size_t k = 0; k < node->n_input; k++) reads = reads || strcmp(node->input[k], value) == 0;
    if (!reads) continue;
    RengaCall(RengaOnnxCall(importer, node, &call));
    at = RengaOnnxCallArguments(call, NULL);
    while (at && !*type && RengaOnnxNextName(&at, &name, &length)) {
      RengaOnnxOrigin origin;
      if (!RengaOnnxIsName(value, name, length)) continue;
      RengaCall(RengaOnnxReadOrigin(importer, node, &origin));
      *type = origin.type;
    }
  }
  return RENGA_SUCCESS;
}

/* Makes what the call calls result, in place of which a node reads value. */
static RengaErrorCode Restore(MakingAgain *again, const Onnx__NodeProto *reader, const char *value,
                              const char *result)
{
  RengaOnnxImporter *importer = again->importer;
  const RengaOnnxBinding *maker = RengaOnnxScopeFind(importer->made, value);
  const RengaOnnxBinding *tensor = RengaOnnxScopeFind(importer->model_scope, value);
  RengaOnnxBinding *binding;
  RengaOnnxOwners parameters = {0};
  RengaOnnxOrigin origin;
  char *type, *call = NULL;
  if (maker) RengaCall(RengaOnnxCall(importer, importer->node[maker->row], &call));
  if (call) ParametersOfCall(again, call, &parameters);
  if (tensor && tensor->said == RENGA_ONNX_FOLDED) ParametersOfFolded(again, tensor, &parameters);
  if (parameters.count == 0) return RENGA_SUCCESS;
  RengaCall(RengaOnnxReadOrigin(importer, reader, &origin));
  RengaCall(TypeOfReader(again, value, &type));
  if (parameters.count > RENGA_ONNX_OWNERS_MAX ||
      !RengaOnnxTakeMissing(&again->lost, &parameters, &origin, type)) {
    RengaCall(RengaOnnxScopeAdd(importer, again->unresolved, value, &binding));
    return RENGA_SUCCESS;
  }
  if (call)
    RengaCall(CopyCallOf(again, call, &parameters, value, result));
  else
    RengaCall(CopyFolded(again, tensor, &parameters, result));
  RengaCall(RengaOnnxScopeAdd(importer, again->restored, result, &binding));
  if (binding) binding->target = value;
  return RENGA_SUCCESS;
}

/* ---- calls ---- */
static bool IsKnown(const MakingAgain *again, const char *name)
{
  return RengaOnnxIsInputOf(again->importer->model->graph, name, strlen(name)) ||
         RengaOnnxScopeFind(again->importer->placeholders, name) ||
         RengaOnnxScopeFind(again->importer->made, name) ||
         (RengaOnnxScopeFind(again->importer->model_scope, name) &&
          !RengaOnnxScopeFind(again->restored, name));
}

/* The input that is read in place of a name: at its position where each name is an input, and
   otherwise one that the call does not name. -1: none. */
static int FindInput(const Onnx__NodeProto *node, const char *name, int position, int count,
                     RengaOnnxScope *own)
{
  for (size_t i = 0; i < node->n_input; i++)
    if (RengaOnnxIsOtherCall(name, strlen(name), node->input[i]) &&
        (count == (int)node->n_input ? (int)i == position
                                     : !RengaOnnxScopeFind(own, node->input[i])))
      return (int)i;
  return -1;
}

static RengaErrorCode RedirectInput(MakingAgain *again, size_t row, int input, bool all,
                                    const char *to)
{
  RengaOnnxImporter *importer = again->importer;
  Onnx__NodeProto *node;
  RengaCall(RengaOnnxCopyProto(importer, importer->node[row], &node));
  const char *from = importer->node[row]->input[input];
  for (size_t i = 0; i < node->n_input; i++)
    if ((int)i == input || (all && strcmp(node->input[i], from) == 0))
      RengaCall(RengaOnnxJoin(importer, to, "", &node->input[i]));
  importer->node[row] = node;
  return RENGA_SUCCESS;
}

/* names: of the call's arguments, in order */
static RengaErrorCode LookAtNames(MakingAgain *again, size_t row, int count, char *const names[])
{
  RengaOnnxImporter *importer = again->importer;
  RengaOnnxScope *own;
  RengaOnnxBinding *binding;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &own));
  for (int k = 0; k < count; k++) RengaCall(RengaOnnxScopeAdd(importer, own, names[k], &binding));
  for (int k = 0; k < count; k++) {
    const Onnx__NodeProto *node = importer->node[row];
    if (IsKnown(again, names[k])) continue;
    const int input = FindInput(node, names[k], k, count, own);
    if (input < 0) continue;
    if (!RengaOnnxScopeFind(again->restored, names[k]))
      RengaCall(Restore(again, node, node->input[input], names[k]));
    const RengaOnnxBinding *restored = RengaOnnxScopeFind(again->restored, names[k]);
    if (restored && strcmp(restored->target, node->input[input]) == 0)
      RengaCall(RedirectInput(again, row, input, count != (int)node->n_input, names[k]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode LookAtReader(MakingAgain *again, size_t row)
{
  RengaOnnxImporter *importer = again->importer;
  const char *at, *name;
  char *text, **names;
  size_t length;
  int count = 0;
  RengaCall(RengaOnnxCall(importer, importer->node[row], &text));
  at = RengaOnnxCallArguments(text, NULL);
  if (!at) return RENGA_SUCCESS;
  RengaCall(RengaOnnxAllocate(importer, (int64_t)strlen(at), sizeof *names, &names));
  while (RengaOnnxNextName(&at, &name, &length)) {
    RengaCall(RengaOnnxCopyPart(importer, name, length, &names[count]));
    count++;
  }
  RengaCall(LookAtNames(again, row, count, names));
  return RENGA_SUCCESS;
}

/* ---- nodes without a call: a parameter that is split for its module ---- */
/* The lost parameter of the module that reads what the node makes of its parameter; -1: none. */
static int MissingOfReader(const MakingAgain *again, const RengaOnnxBinding *parameter,
                           const char *reader)
{
  if (RengaOnnxIsInside(reader, parameter->name, RengaOnnxModuleLength(parameter->name))) return -1;
  return RengaOnnxMissingIn(&again->lost, reader, strlen(reader),
                            RengaOnnxLastName(parameter->name));
}

static bool ReadsAny(const Onnx__NodeProto *reader, const Onnx__NodeProto *maker)
{
  for (size_t i = 0; i < reader->n_input; i++)
    for (size_t k = 0; k < maker->n_output; k++)
      if (maker->output[k][0] && strcmp(reader->input[i], maker->output[k]) == 0) return true;
  return false;
}

/* A copy that reads another parameter, whose outputs all nodes of its module read. */
static RengaErrorCode SplitMergedNode(MakingAgain *again, size_t row, int input,
                                      RengaOnnxBinding *parameter, const RengaOnnxBinding *lost,
                                      const char *module)
{
  RengaOnnxImporter *importer = again->importer;
  const Onnx__NodeProto *node = importer->node[row];
  Onnx__NodeProto *copy;
  RengaOnnxBinding *made;
  RengaOnnxOrigin reader;
  char *name;
  RengaCall(RengaOnnxCopyProto(importer, node, &copy));
  RengaCall(RengaOnnxSeparate(importer, parameter, lost, &made));
  RengaCall(RengaOnnxJoin(importer, made->name, "", &copy->input[input]));
  RengaCall(AddCopy(again, copy, row));
  for (size_t k = 0; k < node->n_output; k++) {
    if (!node->output[k][0]) continue;
    RengaCall(RengaOnnxJoin(importer, node->output[k], " of ", &name));
    RengaCall(RengaOnnxJoin(importer, name, lost->target, &copy->output[k]));
  }
  for (size_t i = 0; i < importer->n_node; i++) {
    if (!ReadsAny(importer->node[i], node)) continue;
    RengaCall(RengaOnnxReadOrigin(importer, importer->node[i], &reader));
    if (strcmp(reader.module, module) != 0) continue;
    for (size_t k = 0; k < importer->node[i]->n_input; k++)
      for (size_t n = 0; n < node->n_output; n++)
        if (node->output[n][0] && strcmp(importer->node[i]->input[k], node->output[n]) == 0) {
          RengaCall(RedirectInput(again, i, (int)k, false, copy->output[n]));
          break;
        }
  }
  return RENGA_SUCCESS;
}

static bool IsReadAgain(const MakingAgain *again, const Onnx__NodeProto *node)
{
  for (size_t i = 0; i < again->importer->n_node; i++)
    if (ReadsAny(again->importer->node[i], node)) return true;
  return false;
}

static RengaErrorCode LookAtSplit(MakingAgain *again, size_t row)
{
  RengaOnnxImporter *importer = again->importer;
  const Onnx__NodeProto *node = importer->node[row];
  RengaOnnxOrigin reader;
  char *text;
  for (size_t k = 0; k < node->n_input; k++) /* of parameters and constants alone */
    if (node->input[k][0] && !RengaOnnxScopeFind(importer->model_scope, node->input[k]))
      return RENGA_SUCCESS;
  RengaCall(RengaOnnxCall(importer, node, &text));
  for (size_t k = 0; k < node->n_input && !text; k++) {
    RengaOnnxBinding *parameter = RengaOnnxScopeFind(importer->model_scope, node->input[k]);
    if (!parameter || parameter->kind != RENGA_ONNX_TENSOR ||
        parameter->said != RENGA_ONNX_PARAMETER)
      continue;
    for (size_t i = 0; i < importer->n_node; i++) {
      if (!ReadsAny(importer->node[i], node)) continue;
      RengaCall(RengaOnnxReadOrigin(importer, importer->node[i], &reader));
      const int lost = MissingOfReader(again, parameter, reader.module);
      if (lost < 0) continue;
      RengaOnnxBinding *named = again->lost.parameter[lost];
      again->lost.parameter[lost] = NULL;
      RengaCall(SplitMergedNode(again, row, (int)k, parameter, named, reader.module));
      again->dropped[row] = !IsReadAgain(again, node);
    }
  }
  return RENGA_SUCCESS;
}

/* ---- all ---- */
/* Of two calculations that were made one with a third, one has its parameters again, and of the
   other nobody knows whether it has its own. */
static RengaErrorCode CheckUnresolved(const MakingAgain *again)
{
  for (int i = 0; i < again->restored->capacity; i++) {
    const RengaOnnxBinding *restored = again->restored->slot[i];
    RengaCheck(!restored || !RengaOnnxScopeFind(again->unresolved, restored->target),
               again->importer->comm, RENGA_ERR_SUPPORT,
               "%s: the exporter's optimizer made calculations one that began with equal "
               "parameters (\"%s\"), and not all can be told apart: %s",
               again->importer->file, restored->target, RengaOnnxExportAdvice);
  }
  return RENGA_SUCCESS;
}

static const RengaOnnxBinding *RestoredFor(const MakingAgain *again, const char *value)
{
  for (int i = 0; i < again->restored->capacity; i++)
    if (again->restored->slot[i] && strcmp(again->restored->slot[i]->target, value) == 0)
      return again->restored->slot[i];
  return NULL;
}

/* Does the node read another call of that name, which was made again or follows from what was? */
static bool ReadsAgain(const MakingAgain *again, const Onnx__NodeProto *node, const char *name,
                       const bool follows[])
{
  for (size_t k = 0; k < node->n_input; k++) {
    const RengaOnnxBinding *made = RengaOnnxScopeFind(again->importer->made, node->input[k]);
    if (!RengaOnnxIsOtherCall(name, strlen(name), node->input[k])) continue;
    if (RestoredFor(again, node->input[k]) || (made && follows[made->row])) return true;
  }
  return false;
}

static bool HasInput(const Onnx__NodeProto *node, const char *name)
{
  for (size_t k = 0; k < node->n_input; k++)
    if (strcmp(node->input[k], name) == 0) return true;
  return false;
}

/* A name of the call that is nowhere, in place of which the node reads what was made again for
   others, or what follows from it. */
static RengaErrorCode IsStillMerged(MakingAgain *again, const Onnx__NodeProto *node,
                                    const bool follows[], bool *merged)
{
  const char *at, *name;
  char *text, *copy;
  size_t length;
  *merged = false;
  RengaCall(RengaOnnxCall(again->importer, node, &text));
  for (size_t k = 0; k < node->n_input && !text; k++)
    *merged = *merged || RestoredFor(again, node->input[k]);
  at = text ? RengaOnnxCallArguments(text, NULL) : NULL;
  while (at && !*merged && RengaOnnxNextName(&at, &name, &length)) {
    RengaCall(RengaOnnxCopyPart(again->importer, name, length, &copy));
    const bool known =
        RengaOnnxScopeFind(again->restored, copy) ? HasInput(node, copy) : IsKnown(again, copy);
    *merged = !known && ReadsAgain(again, node, copy, follows);
  }
  return RENGA_SUCCESS;
}

/* All that the node reads are parameters and constants, and what was made again or follows from it:
   of two equal ones it may be one. */
static bool Follows(const MakingAgain *again, const Onnx__NodeProto *node, const bool follows[])
{
  bool any = false;
  for (size_t k = 0; k < node->n_input; k++) {
    const RengaOnnxBinding *made = RengaOnnxScopeFind(again->importer->made, node->input[k]);
    const bool again_made = RestoredFor(again, node->input[k]) || (made && follows[made->row]);
    any = any || again_made;
    if (node->input[k][0] && !again_made &&
        !RengaOnnxScopeFind(again->importer->model_scope, node->input[k]))
      return false;
  }
  return any;
}

/* Each reader of what was made again, and of what follows from it alone, has its own. */
static RengaErrorCode CheckReaders(MakingAgain *again)
{
  RengaOnnxImporter *importer = again->importer;
  bool *follows, merged;
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node, sizeof *follows, &follows));
  for (size_t i = 0; i < importer->n_node; i++) {
    follows[i] = Follows(again, importer->node[i], follows);
    RengaCall(IsStillMerged(again, importer->node[i], follows, &merged));
    RengaCheck(!merged, importer->comm, RENGA_ERR_SUPPORT,
               "%s: the exporter's optimizer made calculations one that began with equal "
               "parameters, and not all that read them can be told apart (\"%s\"): %s",
               importer->file, importer->node[i]->n_output ? importer->node[i]->output[0] : "",
               RengaOnnxExportAdvice);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode PutCopies(const MakingAgain *again)
{
  RengaOnnxImporter *importer = again->importer;
  Onnx__NodeProto **node;
  size_t count = 0;
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node + again->n_copies, sizeof *node,
                              &node));
  for (size_t i = 0; i < importer->n_node; i++) {
    if (!again->dropped[i]) node[count++] = importer->node[i];
    for (int k = 0; k < again->n_copies; k++)
      if (again->copy[k].after == i) node[count++] = again->copy[k].node;
  }
  importer->node = node;
  importer->n_node = count;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxSplitMergedNodes(RengaOnnxImporter *importer)
{
  MakingAgain again = {.importer = importer};
  Onnx__NodeProto **node;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &again.restored));
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &again.unresolved));
  RengaCall(RengaOnnxFindMissing(importer, &again.lost));
  if (again.lost.count == 0) return RENGA_SUCCESS;
  RengaCall(RengaOnnxFindMade(importer));
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node, sizeof *node, &node));
  memcpy(node, importer->node, importer->n_node * sizeof *node);
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node, 1, &again.dropped));
  importer->node = node; /* the model's own stays as it is */
  for (size_t i = 0; i < importer->n_node; i++) RengaCall(LookAtSplit(&again, i));
  for (size_t i = 0; i < importer->n_node; i++) RengaCall(LookAtReader(&again, i));
  RengaCall(CheckUnresolved(&again));
  RengaCall(CheckReaders(&again));
  RengaCall(PutCopies(&again));
  return RENGA_SUCCESS;
}
