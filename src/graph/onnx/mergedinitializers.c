/* What the exporter's optimizer made one. Of equal initializers (biases of zeros, weights of layers
   that were cloned) it keeps one, and it drops additions of zeros; but the calls that it leaves at
   the nodes name the parameters of each: "%p_layer_1_weight". Where an initializer stands for
   another parameter, that one is made beside it, with the same first values, and takes its place at
   the node. What the calls do not settle is an error. */
#include "module.h"
#include <string.h>

/* An initializer at an input of a node. */
typedef struct {
  const Onnx__NodeProto *node;
  int input;
  RengaOnnxBinding *binding;
} InitializerUse;
/* A call: its nodes, what they read, and the parameters and buffers that it names. What belongs
   together leaves both lists. */
typedef struct {
  RengaOnnxImporter *importer;
  const char *text;
  int n_nodes, n_uses, n_named;
  const Onnx__NodeProto **node;
  InitializerUse *use;
  RengaOnnxBinding **named; /* in importer->placeholders */
} Call;

static RengaErrorCode ReplaceInput(RengaOnnxImporter *importer, const Onnx__NodeProto *proto,
                                   int input, RengaOnnxBinding *by)
{
  RengaCall(RengaOnnxNoteInput(importer, importer->replaced, proto, input, by));
  return RENGA_SUCCESS;
}

/* ---- one call ---- */
static RengaErrorCode ReadNamed(Call *call)
{
  const char *at = RengaOnnxCallArguments(call->text, NULL), *name;
  size_t length;
  if (!at) return RENGA_SUCCESS;
  RengaCall(RengaOnnxAllocate(call->importer, (int64_t)strlen(at), sizeof *call->named,
                              &call->named)); /* more than there are */
  while (RengaOnnxNextName(&at, &name, &length)) {
    RengaOnnxBinding *named = RengaOnnxScopeFindPart(call->importer->placeholders, name, length);
    bool known = false;
    for (int i = 0; i < call->n_named; i++) known = known || call->named[i] == named;
    if (named && !known) call->named[call->n_named++] = named;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadUses(Call *call)
{
  int64_t count = 0;
  for (int i = 0; i < call->n_nodes; i++) count += (int64_t)call->node[i]->n_input;
  RengaCall(RengaOnnxAllocate(call->importer, count, sizeof *call->use, &call->use));
  for (int i = 0; i < call->n_nodes; i++)
    for (size_t k = 0; k < call->node[i]->n_input; k++) {
      RengaOnnxBinding *binding =
          RengaOnnxScopeFind(call->importer->model_scope, call->node[i]->input[k]);
      if (!binding || binding->kind != RENGA_ONNX_TENSOR || binding->said == RENGA_ONNX_UNSAID ||
          binding->said == RENGA_ONNX_CONSTANT || !RengaDataTypeIsFloating(binding->spec.type))
        continue;
      binding->n_calls += call->n_uses == 0 || call->use[call->n_uses - 1].binding != binding;
      call->use[call->n_uses++] = (InitializerUse){call->node[i], (int)k, binding};
      if (strstr(call->text, "scaled_dot_product_attention")) binding->scaled = true;
    }
  return RENGA_SUCCESS;
}

static bool StandsFor(const RengaOnnxBinding *binding, const RengaOnnxBinding *named)
{
  return strcmp(binding->name, named->target) == 0 ||
         (binding->said == RENGA_ONNX_FOLDED && RengaOnnxIsFoldedFrom(binding, named->target));
}

static void DropUse(Call *call, int at)
{
  call->n_uses--;
  memmove(&call->use[at], &call->use[at + 1], (size_t)(call->n_uses - at) * sizeof *call->use);
}

static void DropNamed(Call *call, int at)
{
  call->named[at]->found = true;
  call->n_named--;
  memmove(&call->named[at], &call->named[at + 1],
          (size_t)(call->n_named - at) * sizeof *call->named);
}

enum { NAMED_MAX = 512 };

/* Most initializers stand for themselves. */
static void MatchOwn(Call *call)
{
  bool own[NAMED_MAX] = {false};
  for (int u = call->n_uses - 1; u >= 0; u--) {
    bool found = false;
    for (int k = 0; k < call->n_named && k < NAMED_MAX; k++)
      if (StandsFor(call->use[u].binding, call->named[k])) found = own[k] = true;
    if (found) DropUse(call, u);
  }
  for (int k = call->n_named - 1; k >= 0; k--)
    if (k < NAMED_MAX && own[k]) DropNamed(call, k);
}

static RengaErrorCode Match(Call *call, int use, int named)
{
  RengaOnnxBinding *made;
  const InitializerUse *at = &call->use[use];
  RengaCall(RengaOnnxSeparate(call->importer, at->binding, call->named[named], &made));
  RengaCall(ReplaceInput(call->importer, at->node, at->input, made));
  DropUse(call, use);
  DropNamed(call, named);
  return RENGA_SUCCESS;
}

/* As many initializers as names are in the order of the call; otherwise a bias is a bias. */
static RengaErrorCode MatchOthers(Call *call)
{
  while (call->n_uses > 0 && call->n_uses == call->n_named) RengaCall(Match(call, 0, 0));
  for (int k = call->n_named - 1; k >= 0; k--) {
    int found = -1, count = 0;
    for (int u = 0; u < call->n_uses; u++)
      if (strcmp(RengaOnnxLastName(call->use[u].binding->name),
                 RengaOnnxLastName(call->named[k]->target)) == 0) {
        found = u;
        count++;
      }
    if (count == 1) RengaCall(Match(call, found, k));
  }
  return RENGA_SUCCESS;
}

/* A bias of zeros that was dropped: as many as the channels that the weight makes. */
static RengaErrorCode MatchDropped(Call *call)
{
  const Onnx__NodeProto *node = call->node[call->n_nodes - 1];
  const char *op = node->op_type ? node->op_type : "";
  const bool takes = strcmp(op, "Conv") == 0 || strcmp(op, "Gemm") == 0;
  const RengaOnnxBinding *weight =
      takes && node->n_input > 1 ? RengaOnnxScopeFind(call->importer->model_scope, node->input[1])
                                 : NULL;
  RengaOnnxBinding *bias;
  if (!weight || weight->kind != RENGA_ONNX_TENSOR || weight->spec.ndim < 2 || call->n_named != 1 ||
      (node->n_input > 2 && node->input[2][0]))
    return RENGA_SUCCESS;
  bool turned = false;
  for (size_t i = 0; *op == 'G' && i < node->n_attribute; i++)
    turned = turned || (strcmp(node->attribute[i]->name, "transB") == 0 && node->attribute[i]->i);
  RengaCall(RengaOnnxMakeZeros(call->importer, call->named[0],
                               weight->spec.dim[*op == 'G' && !turned], &bias));
  RengaCall(ReplaceInput(call->importer, node, 2, bias));
  DropNamed(call, 0);
  return RENGA_SUCCESS;
}

/* Parameters that the call names and no node reads. */
static RengaErrorCode CheckAllFound(const Call *call)
{
  for (int k = 0; k < call->n_named; k++) {
    const RengaOnnxBinding *named = call->named[k];
    if (named->said != RENGA_ONNX_PARAMETER ||
        RengaGraphChoose_Private(call->importer->graph, named->target) == RENGA_GRAPH_FROZEN)
      continue;
    const char *output = call->node[0]->n_output > 0 ? call->node[0]->output[0] : "";
    RengaCheck(false, call->importer->comm, RENGA_ERR_SUPPORT,
               "%s: the exporter's optimizer folded parameter \"%s\" into the %s that makes "
               "\"%s\", and it cannot be trained there: %s, or freeze it with -graph_frozen %s",
               call->importer->file, named->target, call->node[0]->op_type, output,
               RengaOnnxExportAdvice, named->target);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MatchCall(Call *call)
{
  RengaCall(ReadNamed(call));
  RengaCall(ReadUses(call));
  const bool in_order = call->n_nodes == 1 && call->n_uses == call->n_named && call->n_uses > 0 &&
                        strcmp(call->node[0]->op_type, "BatchNormalization") == 0;
  const bool norm = strstr(call->text, "_batch_norm") != NULL;
  bool is_norm = false;
  for (int i = 0; i < call->n_nodes; i++)
    is_norm = is_norm || strcmp(call->node[i]->op_type, "BatchNormalization") == 0;
  if (in_order) { /* a mean of zeros may be read from the bias */
    while (call->n_uses > 0)
      if (StandsFor(call->use[0].binding, call->named[0])) {
        DropUse(call, 0);
        DropNamed(call, 0);
      } else
        RengaCall(Match(call, 0, 0));
  }
  MatchOwn(call);
  if (!norm || is_norm) {
    RengaCall(MatchOthers(call));
    RengaCall(MatchDropped(call));
  }
  for (int u = 0; u < call->n_uses; u++) call->use[u].binding->vague = true;
  RengaCall(CheckAllFound(call));
  return RENGA_SUCCESS;
}

/* An argument detach_1 that no node makes: the optimizer dropped it. */
static RengaErrorCode FindDetached(const Call *call)
{
  RengaOnnxImporter *importer = call->importer;
  const char *at = RengaOnnxCallArguments(call->text, NULL), *name;
  int detached[NAMED_MAX], count = 0, position = 0;
  size_t length;
  for (; at && RengaOnnxNextName(&at, &name, &length); position++) {
    if (strncmp(name, "detach", 6) != 0 || count == NAMED_MAX) continue;
    if (!RengaOnnxScopeFindPart(importer->made, name, length)) detached[count++] = position;
  }
  if (count == 0) return RENGA_SUCCESS;
  RengaCheck(call->n_nodes == 1 && (int)call->node[0]->n_input == position, importer->comm,
             RENGA_ERR_SUPPORT,
             "%s: the exporter's optimizer dropped a detach() before \"%s\", and where gradients "
             "are to stop is not known: %s",
             importer->file, call->node[0]->n_output ? call->node[0]->output[0] : "",
             RengaOnnxExportAdvice);
  for (int i = 0; i < count; i++)
    RengaCall(RengaOnnxNoteInput(importer, importer->detached, call->node[0], detached[i], NULL));
  return RENGA_SUCCESS;
}

/* ---- all calls ---- */
/* A node without a call may read any of the parameters that began equal. */
static void MarkVague(const RengaOnnxImporter *importer, const Onnx__NodeProto *node)
{
  for (size_t i = 0; i < node->n_input; i++) {
    RengaOnnxBinding *binding = RengaOnnxScopeFind(importer->model_scope, node->input[i]);
    if (!binding || binding->kind != RENGA_ONNX_TENSOR) continue;
    binding->vague = true;
    binding->n_calls++;
  }
}

/* Nodes of one call have the same text: next[i] is the node after node i, first is in row. */
static RengaErrorCode GroupNodes(RengaOnnxImporter *importer, RengaOnnxScope *calls, int next[])
{
  for (int i = (int)importer->n_node - 1; i >= 0; i--) {
    char *text;
    RengaOnnxBinding *call;
    RengaCall(RengaOnnxCall(importer, importer->node[i], &text));
    if (!text) {
      MarkVague(importer, importer->node[i]);
      continue;
    }
    RengaCall(RengaOnnxScopeAdd(importer, calls, text, &call));
    if (call) call->row = -1;
    call = RengaOnnxScopeFind(calls, text);
    next[i] = (int)call->row;
    call->row = i;
    call->n_items++;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode MatchNodes(RengaOnnxImporter *importer, const RengaOnnxBinding *of,
                                 const int next[])
{
  Call call = {.importer = importer, .text = of->name};
  RengaCall(RengaOnnxAllocate(importer, of->n_items, sizeof(Onnx__NodeProto *), &call.node));
  for (int i = (int)of->row; i >= 0; i = next[i]) call.node[call.n_nodes++] = importer->node[i];
  RengaCall(MatchCall(&call));
  RengaCall(FindDetached(&call));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxMatchCalls(RengaOnnxImporter *importer)
{
  RengaOnnxScope *calls;
  int *next;
  if (!importer->is_signed || importer->listed || importer->options->evaluate) return RENGA_SUCCESS;
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &calls));
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->replaced));
  RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->detached));
  RengaCall(RengaOnnxSplitMergedNodes(importer));
  RengaCall(RengaOnnxFindMade(importer));
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->n_node, sizeof *next, &next));
  RengaCall(GroupNodes(importer, calls, next));
  for (int i = 0; i < calls->capacity; i++)
    if (calls->slot[i]) RengaCall(MatchNodes(importer, calls->slot[i], next));
  RengaCall(RengaOnnxCheckFolded(importer));
  RengaCall(RengaOnnxCheckMissing(importer));
  RengaCall(RengaOnnxCheckStopped(importer, calls, next));
  return RENGA_SUCCESS;
}
