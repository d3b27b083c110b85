/* The call of PyTorch that a node was made of, as the newer exporter leaves it in a property:
   "%linear : [...] = call_function[target=torch.ops.aten.linear.default](args = (%x, %p_weight,
   0.5), kwargs = {...})". It knows what the operator of the file does not say. */
#include "onnx.h"
#include "renga/private/number.h"
#include <string.h>

/* Where the arguments begin; NULL: it is no call, or not of the target. */
const char *RengaOnnxCallArguments(const char *text, const char *target)
{
  static const char opening[] = "](args = (";
  const char *called = text ? strstr(text, "target=torch.ops.") : NULL;
  const char *end = called ? strstr(called, opening) : NULL;
  if (!end) return NULL;
  called += strlen("target=torch.ops.");
  if (target && (strncmp(called, target, strlen(target)) != 0 || called + strlen(target) != end))
    return NULL;
  return end + strlen(opening);
}

/* The argument at a position, 0 the first: commas inside brackets do not count. NULL: none. */
static const char *Argument(const char *at, int position)
{
  int depth = 0;
  for (; *at && depth >= 0; at++) {
    if (position == 0) return *at == ')' ? NULL : at;
    depth += (*at == '(' || *at == '[' || *at == '{') - (*at == ')' || *at == ']' || *at == '}');
    if (*at != ',' || depth != 0) continue;
    position--;
    at += strspn(at + 1, " ");
  }
  return NULL;
}

/* A number among the arguments of a call of the target; otherwise: there is none. */
double RengaOnnxCallReal(const RengaOnnxNode *node, const char *target, int position,
                         double otherwise)
{
  const char *arguments = RengaOnnxCallArguments(node->call, target);
  const char *found = arguments ? Argument(arguments, position) : NULL;
  char *end = NULL;
  const double number = found ? RengaReadReal(found, &end) : 0;
  return end != found ? number : otherwise;
}

/* Is the node made of a call of the target, any overload where it ends in a point? */
bool RengaOnnxIsCallOf(const RengaOnnxNode *node, const char *target)
{
  const char *called = node->call ? strstr(node->call, "target=torch.ops.") : NULL;
  const size_t length = strlen(target);
  if (!called) return false;
  called += strlen("target=torch.ops.");
  return strncmp(called, target, length) == 0 &&
         (target[length - 1] == '.' || called[length] == ']');
}

/* An Identity that the module wrote as detach(). */
bool RengaOnnxIsDetach(const RengaOnnxNode *node)
{
  return node->call && strstr(node->call, "target=torch.ops.aten.detach");
}

/* torch 2.15 writes the form of inference for a module in training; its call says which it was:
   (x, weight, bias, mean, variance, training, momentum, epsilon). */
bool RengaOnnxIsTrainingNorm(const char *call)
{
  return call && strstr(call, "target=torch.ops.aten._native_batch_norm_legit_functional") &&
         strstr(call, ", True, ");
}

/* The next name of a value, "%name", from *at on; false at the end. */
bool RengaOnnxNextName(const char **at, const char **name, size_t *length)
{
  const char *percent = strchr(*at, '%');
  if (!percent) return false;
  *name = percent + 1;
  *length = 0;
  while (RengaIsLetterOrDigit((*name)[*length]) || (*name)[*length] == '_') (*length)++;
  *at = *name + *length;
  return true;
}

RengaOnnxBinding *RengaOnnxNextParameter(const RengaOnnxImporter *importer, const char **at)
{
  const char *name;
  size_t length;
  while (*at && RengaOnnxNextName(at, &name, &length)) {
    RengaOnnxBinding *named = RengaOnnxScopeFindPart(importer->placeholders, name, length);
    if (named && named->said == RENGA_ONNX_PARAMETER) return named;
  }
  return NULL;
}

bool RengaOnnxIsInputOf(const Onnx__GraphProto *graph, const char *name, size_t length)
{
  for (size_t i = 0; i < graph->n_input; i++)
    if (graph->input[i]->name && RengaOnnxIsName(graph->input[i]->name, name, length)) return true;
  return false;
}

/* ---- the call of a node ---- */
enum { NODE_KEY_SIZE = 24 };

RengaErrorCode RengaOnnxCall(RengaOnnxImporter *importer, const Onnx__NodeProto *node, char **call)
{
  char key[NODE_KEY_SIZE];
  RengaOnnxBinding *set = NULL;
  snprintf(key, sizeof key, "%p", (const void *)node);
  if (importer->calls) set = RengaOnnxScopeFind(importer->calls, key);
  if (set)
    RengaCall(RengaOnnxJoin(importer, set->target, "", call));
  else
    RengaCall(RengaOnnxProperty(importer, &node->base, "pkg.torch.onnx.fx_node", call));
  return RENGA_SUCCESS;
}

/* call: lent */
RengaErrorCode RengaOnnxSetCall(RengaOnnxImporter *importer, const Onnx__NodeProto *node,
                                const char *call)
{
  char key[NODE_KEY_SIZE], *copy;
  RengaOnnxBinding *set;
  snprintf(key, sizeof key, "%p", (const void *)node);
  if (!importer->calls) RengaCall(RengaOnnxScopeCreate(importer, NULL, &importer->calls));
  RengaCall(RengaOnnxJoin(importer, key, "", &copy));
  RengaCall(RengaOnnxScopeAdd(importer, importer->calls, copy, &set));
  if (set) set->target = call;
  return RENGA_SUCCESS;
}

/* ---- calls that the exporter writes as operators which compute something else ---- */
static const struct {
  const char *op, *target;
  int position;
  const char *begins, *why;
} misread[] = {
    {"Gather", "aten.embedding.default", 3, "True",
     "scale_grad_by_freq=True divides gradients by how often a row occurs in the batch, which is "
     "not supported: export the embedding without it"},
    {"ScatterElements", "aten.scatter_reduce.two", 4, "mean",
     "the exporter writes scatter_reduce(..., \"mean\") as if the last one stayed: export it by "
     "renga.export, or take scatter_add and divide by the counts"},
    {"AveragePool", "aten.avg_pool1d.default", 6, "", NULL},
    {"AveragePool", "aten.avg_pool2d.default", 6, "", NULL},
    {"AveragePool", "aten.avg_pool3d.default", 6, "", NULL},
};

static RengaErrorCode CheckOneCall(RengaOnnxImporter *importer, const Onnx__NodeProto *node)
{
  char *call;
  RengaCall(RengaOnnxCall(importer, node, &call));
  if (!call || !node->op_type || !node->n_output) return RENGA_SUCCESS;
  RengaCheck(!strstr(call, "target=torch.ops.aten.lstm.input") || !strstr(call, "weight_hr_l"),
             importer->comm, RENGA_ERR_SUPPORT,
             "%s: \"%s\" is an LSTM with projections (proj_size), which the exporter leaves out of "
             "the file: export it by renga.export, or one without them and a Linear behind it",
             importer->file, node->output[0]);
  for (size_t i = 0; i < sizeof misread / sizeof *misread; i++) {
    if (strcmp(node->op_type, misread[i].op) != 0) continue;
    const char *at = RengaOnnxCallArguments(call, misread[i].target);
    const char *found = at ? Argument(at, misread[i].position) : NULL;
    const bool wrong = found && strncmp(found, "None", 4) != 0 &&
                       strncmp(found, misread[i].begins, strlen(misread[i].begins)) == 0;
    RengaCheck(!wrong, importer->comm, RENGA_ERR_SUPPORT, "%s: \"%s\": %s", importer->file,
               node->output[0],
               misread[i].why
                   ? misread[i].why
                   : "the exporter leaves divisor_override of an average pool out of the "
                     "file: take count_include_pad=True and multiply by what differs");
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxCheckCalls(RengaOnnxImporter *importer)
{
  for (size_t i = 0; i < importer->n_node && !importer->options->evaluate; i++)
    RengaCall(CheckOneCall(importer, importer->node[i]));
  return RENGA_SUCCESS;
}
