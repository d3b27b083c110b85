/* The nodes of a graph, subgraph or function, one after the other. */
#include "form.h"
#include "renga/private/op.h"
#include <string.h>

enum { DEPTH_MAX = 24, NODES_MAX = 1 << 18, MISSING_TEXT = 4096 };

static bool IsStandard(const char *domain)
{
  return !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
}

/* How the node is read: an operator of ONNX or of the program; NULL: neither. */
static const RengaOnnxRow *ReadingOf(const Onnx__NodeProto *node)
{
  static const RengaOnnxRow outside = {.op = "", .canonical = "", .convert = RengaOnnxConvertSame};
  const RengaOnnxRow *row = IsStandard(node->domain) ? RengaOnnxFindRow(node->op_type) : NULL;
  if (!row && RengaOperatorIsOutside_Private(node->op_type)) row = &outside;
  return row;
}

/* The number of the function that the node calls; n_functions: none. */
static size_t FindModelFunction(const RengaOnnxImporter *importer, const Onnx__NodeProto *node)
{
  const char *domain = IsStandard(node->domain) ? "" : node->domain;
  size_t i = 0;
  for (; i < importer->model->n_functions; i++) {
    const Onnx__FunctionProto *function = importer->model->functions[i];
    const char *of = IsStandard(function->domain) ? "" : function->domain;
    if (function->name && strcmp(function->name, node->op_type) == 0 && strcmp(of, domain) == 0)
      break;
  }
  return i;
}

/* The version of ONNX's own operators; 0: none given. */
int64_t RengaOnnxOpset(size_t count, Onnx__OperatorSetIdProto *const imports[])
{
  for (size_t i = 0; i < count; i++)
    if (IsStandard(imports[i]->domain)) return imports[i]->version;
  return 0;
}

static const char *NodeName(const Onnx__NodeProto *node)
{
  if (node->name && *node->name) return node->name;
  for (size_t i = 0; i < node->n_output; i++)
    if (node->output[i][0]) return node->output[i];
  return node->op_type;
}

/* Names what is not supported in these nodes and in the functions that they call. */
typedef struct {
  RengaOnnxImporter *importer;
  char text[MISSING_TEXT];
  size_t length;
  int count, left_out;
  bool *visited; /* by function */
} Missing;

static void AddMissing(Missing *missing, const Onnx__NodeProto *node, const char *why)
{
  char entry[96];
  const char *domain = IsStandard(node->domain) ? "" : node->domain;
  snprintf(entry, sizeof entry, "%.30s%s%.50s (", domain, *domain ? "." : "", node->op_type);
  const char *found = strstr(missing->text, entry);
  if (found && (found == missing->text || found[-1] == ' ')) return;
  missing->count++;
  if (missing->length + 200 > sizeof missing->text) {
    missing->left_out++;
    return;
  }
  missing->length += (size_t)snprintf(
      missing->text + missing->length, sizeof missing->text - missing->length,
      "%s%sfirst node \"%.80s\"%s)", missing->count > 1 ? ", " : "", entry, NodeName(node), why);
}

/* Branches of an If are not looked into, as one of them is never taken. */
static void FindMissing(Missing *missing, int64_t opset, int depth, size_t count,
                        Onnx__NodeProto *const nodes[])
{
  const Onnx__ModelProto *model = missing->importer->model;
  for (size_t i = 0; i < count && depth < DEPTH_MAX; i++) {
    const Onnx__NodeProto *node = nodes[i];
    if (!node->op_type) continue;
    const RengaOnnxRow *row = ReadingOf(node);
    bool built = row && RengaOnnxRowIsBuilt(row);
    size_t number = built ? model->n_functions : FindModelFunction(missing->importer, node);
    if (built && opset < row->since)
      AddMissing(missing, node, ", in the form of this opset");
    else if (!built && number == model->n_functions)
      AddMissing(missing, node, "");
    if (number == model->n_functions || missing->visited[number]) continue;
    const Onnx__FunctionProto *function = model->functions[number];
    const int64_t own = RengaOnnxOpset(function->n_opset_import, function->opset_import);
    missing->visited[number] = true;
    FindMissing(missing, own > 0 ? own : opset, depth + 1, function->n_node, function->node);
  }
}

static RengaErrorCode CheckSupported(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                     size_t count, Onnx__NodeProto *const nodes[])
{
  Missing missing = {.importer = importer};
  char more[48] = "";
  RengaCall(RengaOnnxAllocate(importer, (int64_t)importer->model->n_functions,
                              sizeof *missing.visited, &missing.visited));
  FindMissing(&missing, scope->opset, 0, count, nodes);
  if (missing.left_out > 0) snprintf(more, sizeof more, " and %d more", missing.left_out);
  RengaCheck(missing.count == 0, importer->comm, RENGA_ERR_SUPPORT,
             "%s (opset %lld): %d operator%s not supported: %s%s", importer->file,
             (long long)scope->opset, missing.count, missing.count == 1 ? " is" : "s are",
             missing.text, more);
  return RENGA_SUCCESS;
}

/* A call is replaced by the nodes of the function, whose names it gets before theirs. */
static RengaErrorCode Inline(RengaOnnxNode *node, size_t number)
{
  RengaOnnxImporter *importer = node->importer;
  const Onnx__FunctionProto *function = importer->model->functions[number];
  RengaOnnxScope *scope;
  RengaCall(RengaOnnxScopeCreate(importer, node->scope, &scope));
  char *prefix;
  RengaCall(RengaOnnxJoin(importer, node->scope->prefix, node->name, &prefix));
  RengaCall(RengaOnnxJoin(importer, prefix, "/", &prefix));
  scope->outer = NULL;
  scope->prefix = prefix;
  scope->call = node;
  RengaCall(RengaOnnxReadDefaults(importer, number, &scope->defaults));
  RengaCall(RengaOnnxCheckCallForm(node, function, scope->defaults));
  int64_t opset = RengaOnnxOpset(function->n_opset_import, function->opset_import);
  if (opset > 0) scope->opset = opset;
  for (size_t i = 0; i < function->n_input; i++) {
    RengaOnnxBinding *binding, *actual = NULL;
    if (RengaOnnxHasInput(node, (int)i)) RengaCall(RengaOnnxInputBinding(node, (int)i, &actual));
    RengaCall(RengaOnnxScopeAdd(importer, scope, function->input[i], &binding));
    RengaOnnxCheck(binding, node, RENGA_ERR_FILE_FORMAT, "its function has two inputs \"%s\"",
                   function->input[i]);
    binding->alias = actual;
    if (!actual) binding->kind = RENGA_ONNX_ABSENT;
  }
  RengaCall(RengaOnnxImportNodes(importer, scope, function->n_node, function->node));
  for (size_t i = 0; i < function->n_output; i++) {
    RengaOnnxBinding *binding = RengaOnnxScopeFind(scope, function->output[i]);
    if (!RengaOnnxHasOutput(node, (int)i)) continue;
    RengaOnnxCheck(binding, node, RENGA_ERR_FILE_FORMAT, "its function does not make \"%s\"",
                   function->output[i]);
    RengaCall(RengaOnnxBindAlias(node, (int)i, binding));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ImportNode(RengaOnnxNode *node)
{
  bool folded, passed;
  const Onnx__ModelProto *model = node->importer->model;
  const bool built = node->row && RengaOnnxRowIsBuilt(node->row);
  size_t function = built ? model->n_functions : FindModelFunction(node->importer, node->proto);
  if (function < model->n_functions) {
    RengaCall(Inline(node, function));
    return RENGA_SUCCESS;
  }
  RengaOnnxCheck(node->row, node, RENGA_ERR_SUPPORT, "the operator is not supported");
  RengaCall(RengaOnnxCheckForm(node));
  RengaCall(RengaOnnxPassPositions(node, &passed));
  if (passed) return RENGA_SUCCESS;
  const uint64_t outer = node->importer->asked.bits;
  node->importer->asked.bits = 0;
  RengaCall(RengaOnnxFold(node, &folded));
  RengaErrorCode code = folded ? RENGA_SUCCESS : node->row->convert(node);
  RengaAttributesFree(&node->importer->attributes);
  RengaCall(code);
  RengaCall(RengaOnnxCheckAttributes(node));
  node->importer->asked.bits = outer;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxImportNodes(RengaOnnxImporter *importer, RengaOnnxScope *scope,
                                    size_t count, Onnx__NodeProto *const nodes[])
{
  for (size_t i = 0; i < count; i++) {
    RengaCheck(nodes[i]->op_type && nodes[i]->op_type[0], importer->comm, RENGA_ERR_FILE_FORMAT,
               "%s: node %zu has no operator", importer->file, i);
    for (size_t k = 0; k < nodes[i]->n_input; k++)
      RengaCall(RengaOnnxMarkUsed(importer, nodes[i]->input[k]));
  }
  RengaCall(CheckSupported(importer, scope, count, nodes));
  for (size_t i = 0; i < count; i++) {
    RengaCheck(++importer->n_nodes <= NODES_MAX, importer->comm, RENGA_ERR_SUPPORT,
               "%s: more than %d nodes, functions inlined", importer->file, NODES_MAX);
    RengaOnnxNode *node;
    RengaCall(RengaOnnxAllocate(importer, 1, sizeof *node, &node));
    *node = (RengaOnnxNode){.importer = importer,
                            .scope = scope,
                            .proto = nodes[i],
                            .row = ReadingOf(nodes[i]),
                            .name = NodeName(nodes[i]),
                            .opset = scope->opset};
    RengaCall(RengaOnnxCall(importer, nodes[i], &node->call));
    RengaCall(ImportNode(node));
  }
  return RENGA_SUCCESS;
}
