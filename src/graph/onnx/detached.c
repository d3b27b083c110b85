/* Gradients that a detach() stopped before the exporter's optimizer. It drops detach() and then
   makes f(a) and f(a.detach()) one, and of the second nothing stays in the file but its name in the
   calls of those that read it: "args = (%tanh, %tanh_1)" at a node that reads tanh twice. The same
   is left of f(a) that was written twice, where nothing is lost; but the file does not say which it
   was, so that both are refused. */
#include "module.h"
#include <string.h>

/* What has no gradient: the results may be one. */
static const char flat[] = "Shape Size ArgMax ArgMin Equal Greater GreaterOrEqual Less LessOrEqual "
                           "Not And Or Xor IsNaN IsInf NonZero Sign Floor Ceil Round Range "
                           "ConstantOfShape EyeLike";

static bool IsTrained(const RengaOnnxImporter *importer, const char *name)
{
  const RengaOnnxBinding *binding = RengaOnnxScopeFind(importer->model_scope, name);
  return binding && binding->kind == RENGA_ONNX_TENSOR && binding->trainable &&
         binding->said != RENGA_ONNX_BUFFER && binding->said != RENGA_ONNX_CONSTANT;
}

/* By node, in order: a parameter has a gradient through it. */
static RengaErrorCode FindThroughTrained(RengaOnnxImporter *importer, bool **trained)
{
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node, sizeof **trained, trained));
  for (size_t i = 0; i < importer->n_node; i++) {
    const Onnx__NodeProto *node = importer->node[i];
    const bool ends = node->op_type && RengaOnnxHasWord(flat, node->op_type);
    for (size_t k = 0; k < node->n_input && !ends && !(*trained)[i]; k++) {
      const RengaOnnxBinding *made = RengaOnnxScopeFind(importer->made, node->input[k]);
      (*trained)[i] = IsTrained(importer, node->input[k]) ||
                      (made && made->row < (int64_t)i && (*trained)[made->row]);
    }
  }
  return RENGA_SUCCESS;
}

static bool IsInFile(const RengaOnnxImporter *importer, const char *name, size_t length)
{
  return RengaOnnxScopeFindPart(importer->made, name, length) ||
         RengaOnnxScopeFindPart(importer->model_scope, name, length) ||
         RengaOnnxScopeFindPart(importer->placeholders, name, length) ||
         RengaOnnxIsInputOf(importer->model->graph, name, length);
}

/* ---- one call: its nodes, and what they read of other nodes that a gradient goes through ---- */
typedef struct {
  const char *text;
  int n_nodes;
  const Onnx__NodeProto **node;
  const bool *trained;
} StoppedCall;
typedef struct {
  const StoppedCall *call;
  int n_read, n_names;
  struct {
    const char *name;
    const Onnx__NodeProto *maker;
    bool named; /* by the call */
  } * read;
} StoppedReading;

static bool IsNamedByCall(const char *text, const char *name)
{
  const char *at = RengaOnnxCallArguments(text, NULL), *found;
  size_t length;
  while (at && RengaOnnxNextName(&at, &found, &length))
    if (RengaOnnxIsName(name, found, length)) return true;
  return false;
}

static RengaErrorCode ReadOthers(RengaOnnxImporter *importer, StoppedReading *reading)
{
  const StoppedCall *call = reading->call;
  int64_t most = 0;
  for (int i = 0; i < call->n_nodes; i++) most += (int64_t)call->node[i]->n_input;
  RengaCall(RengaOnnxAllocate(importer, most, sizeof *reading->read, &reading->read));
  for (int i = 0; i < call->n_nodes; i++)
    for (size_t k = 0; k < call->node[i]->n_input; k++) {
      const RengaOnnxBinding *made = RengaOnnxScopeFind(importer->made, call->node[i]->input[k]);
      char *maker;
      if (!made || !call->trained[made->row]) continue;
      RengaCall(RengaOnnxCall(importer, importer->node[made->row], &maker));
      if (maker && strcmp(maker, call->text) == 0) continue;
      reading->read[reading->n_read].name = made->name;
      reading->read[reading->n_read].maker = importer->node[made->row];
      reading->read[reading->n_read].named = IsNamedByCall(call->text, made->name);
      reading->n_read++;
    }
  return RENGA_SUCCESS;
}

/* A part of another call: val_3. */
static bool IsPart(const char *name)
{
  return strncmp(name, "val_", 4) == 0;
}

/* What is read in place of a result that is not in the file: another call of its kind, at its
   position where each name is an input. NULL: none. */
static const char *ReadInstead(const StoppedReading *reading, const char *missing, size_t length,
                               int position)
{
  const StoppedCall *call = reading->call;
  const Onnx__NodeProto *node = call->node[0];
  bool others = false;
  if (call->n_nodes == 1 && (int)node->n_input == reading->n_names) {
    for (int i = 0; i < reading->n_read; i++)
      if (reading->read[i].name && strcmp(reading->read[i].name, node->input[position]) == 0 &&
          (RengaOnnxIsOtherCall(missing, length, node->input[position]) ||
           IsPart(node->input[position])))
        return node->input[position];
    return NULL;
  }
  for (int i = 0; i < reading->n_read; i++) {
    const char *name = reading->read[i].name;
    if (!reading->read[i].named && (RengaOnnxIsOtherCall(missing, length, name) || IsPart(name)))
      return name;
    others = others || !reading->read[i].named;
  }
  for (int i = 0; i < reading->n_read && !others; i++)
    if (RengaOnnxIsOtherCall(missing, length, reading->read[i].name)) return reading->read[i].name;
  return NULL;
}

/* A function of a parameter that was computed, exp(a), and read in place of exp_1. */
static const char *ReadFunction(const RengaOnnxImporter *importer, const StoppedCall *call,
                                const char *missing, size_t length)
{
  for (int i = 0; i < call->n_nodes; i++)
    for (size_t k = 0; k < call->node[i]->n_input; k++) {
      const char *name = call->node[i]->input[k];
      const RengaOnnxBinding *binding = RengaOnnxScopeFind(importer->model_scope, name);
      if (binding && binding->said == RENGA_ONNX_FOLDED && binding->trainable &&
          !RengaOnnxIsMoved(binding) && RengaOnnxIsOtherCall(missing, length, name))
        return name;
    }
  return NULL;
}

/* ---- a.detach().clone(): neither is in the file. A copy is of no other use to a network ---- */
static const char copies[] = "clone _to_copy to view reshape alias contiguous expand type_as "
                             "unsqueeze squeeze flatten dropout";

static RengaErrorCode SaysDetached(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                   bool *says)
{
  char *trace;
  RengaCall(RengaOnnxProperty(importer, &node->base, "pkg.torch.onnx.stack_trace", &trace));
  *says = *says || (trace && strstr(trace, ".detach()."));
  return RENGA_SUCCESS;
}

/* A copy by name, or a line of Python that led to the call or to what it reads says so. */
static RengaErrorCode CopiesDetached(RengaOnnxImporter *importer, const StoppedReading *reading,
                                     const char *missing, size_t length, bool *says)
{
  char word[16];
  const bool named = strstr(reading->call->text, "%detach") != NULL;
  bool any = false;
  snprintf(word, sizeof word, "%.*s", (int)RengaOnnxWithoutNumber(missing, length), missing);
  *says = false;
  for (int i = 0; i < reading->n_read; i++) {
    if (reading->read[i].named) continue;
    any = true;
    RengaCall(SaysDetached(importer, reading->call->node[0], says));
    RengaCall(SaysDetached(importer, reading->read[i].maker, says));
  }
  *says =
      any && (strcmp(word, "clone") == 0 || (*says && !named && RengaOnnxHasWord(copies, word)));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCall(RengaOnnxImporter *importer, const StoppedCall *call)
{
  StoppedReading reading = {.call = call};
  const char *at = RengaOnnxCallArguments(call->text, NULL), *name;
  size_t length;
  bool missing = false;
  for (; at && RengaOnnxNextName(&at, &name, &length); reading.n_names++)
    missing = missing || !IsInFile(importer, name, length);
  if (!missing) return RENGA_SUCCESS;
  RengaCall(ReadOthers(importer, &reading));
  at = RengaOnnxCallArguments(call->text, NULL);
  for (int position = 0; RengaOnnxNextName(&at, &name, &length); position++) {
    if (IsInFile(importer, name, length) || strncmp(name, "detach", 6) == 0) continue;
    const char *instead = ReadInstead(&reading, name, length, position);
    if (!instead) instead = ReadFunction(importer, call, name, length);
    const char *reader = call->node[0]->n_output ? call->node[0]->output[0] : "";
    bool copied;
    RengaCheck(!instead, importer->comm, RENGA_ERR_SUPPORT,
               "%s: the exporter's optimizer made \"%.*s\", which \"%s\" reads, one with \"%s\". A "
               "detach() before one of them would be lost, and the file does not say whether there "
               "was one: %s",
               importer->file, (int)length, name, reader, instead, RengaOnnxExportAdvice);
    RengaCall(CopiesDetached(importer, &reading, name, length, &copied));
    RengaCheck(!copied, importer->comm, RENGA_ERR_SUPPORT,
               "%s: the exporter's optimizer dropped \"%.*s\", which \"%s\" reads. A detach() "
               "before it would be lost, and the file does not say whether there was one: %s",
               importer->file, (int)length, name, reader, RengaOnnxExportAdvice);
  }
  return RENGA_SUCCESS;
}

/* A parameter whose calculation was made one with another's, and that stays as it is. */
static bool IsMissingFrozen(const RengaOnnxImporter *importer)
{
  for (int i = 0; i < importer->placeholders->capacity; i++) {
    const RengaOnnxBinding *named = importer->placeholders->slot[i];
    if (named && named->said == RENGA_ONNX_PARAMETER &&
        !RengaOnnxScopeFind(importer->model_scope, named->target) &&
        RengaGraphChoose_Private(importer->graph, named->target) == RENGA_GRAPH_FROZEN)
      return true;
  }
  return false;
}

RengaErrorCode RengaOnnxCheckStopped(RengaOnnxImporter *importer, const RengaOnnxScope *calls,
                                     const int next[])
{
  StoppedCall call;
  bool *trained;
  if (IsMissingFrozen(importer)) return RENGA_SUCCESS;
  RengaCall(FindThroughTrained(importer, &trained));
  for (int i = 0; i < calls->capacity; i++) {
    const RengaOnnxBinding *of = calls->slot[i];
    if (!of) continue;
    call = (StoppedCall){.text = of->name, .trained = trained};
    RengaCall(RengaOnnxAllocate(importer, of->n_items, sizeof(Onnx__NodeProto *), &call.node));
    for (int k = (int)of->row; k >= 0; k = next[k]) call.node[call.n_nodes++] = importer->node[k];
    RengaCall(CheckCall(importer, &call));
  }
  return RENGA_SUCCESS;
}
