/* Loops whose number of passes is known while reading are unrolled. */
#include "onnx.h"

enum { PASSES_MAX = 1 << 14 };

/* State and what each pass adds to the outputs [pass, output]. */
typedef struct {
  RengaOnnxNode *node;
  const Onnx__GraphProto *body;
  RengaOnnxScope *outer; /* with the initializers of the body */
  int n_state, n_scanned, n_passes, capacity;
  RengaOnnxBinding **state, **scanned;
} Unrolled;

static RengaErrorCode StartUnrolled(Unrolled *loop, int first_state, int n_state, int n_before)
{
  RengaOnnxNode *node = loop->node;
  const Onnx__AttributeProto *body = RengaOnnxAttribute(node, "body");
  RengaOnnxCheck(body && body->g, node, RENGA_ERR_FILE_FORMAT, "it has no body");
  loop->body = body->g;
  loop->n_state = n_state;
  loop->n_scanned = (int)loop->body->n_output - n_before - n_state;
  bool fits = n_state >= 0 && loop->n_scanned >= 0 &&
              (int)node->proto->n_output <= n_state + loop->n_scanned;
  RengaOnnxCheck(fits, node, RENGA_ERR_FILE_FORMAT, "its body has %zu inputs and %zu outputs",
                 loop->body->n_input, loop->body->n_output);
  RengaCall(RengaOnnxScopeCreate(node->importer, node->scope, &loop->outer));
  RengaCall(RengaOnnxImportInitializers(node->importer, loop->outer, loop->body));
  RengaCall(RengaOnnxAllocate(node->importer, n_state, sizeof *loop->state, &loop->state));
  for (int i = 0; i < n_state; i++)
    RengaCall(RengaOnnxInputBinding(node, first_state + i, &loop->state[i]));
  return RENGA_SUCCESS;
}

/* A name of the body: another one's, or a number. */
static RengaErrorCode BindBody(Unrolled *loop, RengaOnnxScope *scope, size_t input,
                               RengaOnnxBinding **binding)
{
  const Onnx__GraphProto *body = loop->body;
  RengaOnnxCheck(input < body->n_input && body->input[input]->name, loop->node,
                 RENGA_ERR_FILE_FORMAT, "its body has no input %zu", input);
  RengaCall(RengaOnnxScopeAdd(loop->node->importer, scope, body->input[input]->name, binding));
  RengaOnnxCheck(*binding, loop->node, RENGA_ERR_FILE_FORMAT, "its body has two inputs \"%s\"",
                 body->input[input]->name);
  return RENGA_SUCCESS;
}

static RengaErrorCode BindNumber(Unrolled *loop, RengaOnnxScope *scope, size_t input,
                                 RengaDataType type, int64_t number)
{
  RengaOnnxBinding *binding;
  RengaCall(BindBody(loop, scope, input, &binding));
  binding->kind = RENGA_ONNX_HOST;
  RengaCall(RengaOnnxHostCreate(loop->node->importer, type, 0, NULL, &binding->host));
  binding->host->number->whole = number;
  return RENGA_SUCCESS;
}

/* Names of a pass: PREFIX NODE / number /. */
static RengaErrorCode PassScope(Unrolled *loop, RengaOnnxScope **scope)
{
  RengaOnnxImporter *importer = loop->node->importer;
  char number[24], *prefix;
  snprintf(number, sizeof number, "/%d/", loop->n_passes);
  RengaOnnxCheck(loop->n_passes < PASSES_MAX, loop->node, RENGA_ERR_SUPPORT,
                 "more than %d passes; they are unrolled", PASSES_MAX);
  RengaCall(RengaOnnxScopeCreate(importer, loop->outer, scope));
  RengaCall(RengaOnnxJoin(importer, loop->outer->prefix, loop->node->name, &prefix));
  RengaCall(RengaOnnxJoin(importer, prefix, number, &prefix));
  (*scope)->prefix = prefix;
  return RENGA_SUCCESS;
}

static RengaErrorCode BodyOutput(const Unrolled *loop, RengaOnnxScope *scope, int output,
                                 RengaOnnxBinding **binding)
{
  const char *name = loop->body->output[output]->name;
  *binding = RengaOnnxScopeFind(scope, name ? name : "");
  RengaOnnxCheck(*binding, loop->node, RENGA_ERR_FILE_FORMAT, "its body does not make \"%s\"",
                 name ? name : "");
  return RENGA_SUCCESS;
}

/* The states, of which the first is input `first` of the body, then the nodes, then what is made:
   states from output n_before on, and one element of each output that is scanned. */
static RengaErrorCode RunBody(Unrolled *loop, RengaOnnxScope *scope, int first, int n_before)
{
  RengaOnnxImporter *importer = loop->node->importer;
  const Onnx__GraphProto *body = loop->body;
  RengaOnnxBinding *binding;
  for (int i = 0; i < loop->n_state; i++) {
    RengaCall(BindBody(loop, scope, (size_t)(first + i), &binding));
    binding->alias = loop->state[i];
  }
  for (size_t i = 0; i < body->n_output; i++)
    RengaCall(RengaOnnxMarkUsed(importer, body->output[i]->name));
  RengaCall(RengaOnnxImportNodes(importer, scope, body->n_node, body->node));
  for (int i = 0; i < loop->n_state; i++)
    RengaCall(BodyOutput(loop, scope, n_before + i, &loop->state[i]));
  if (loop->n_passes == loop->capacity) {
    const int wanted = 2 * loop->capacity + 16;
    RengaOnnxBinding **more;
    RengaCall(RengaOnnxAllocate(importer, (int64_t)wanted * loop->n_scanned, sizeof *more, &more));
    for (int i = 0; i < loop->n_passes * loop->n_scanned; i++) more[i] = loop->scanned[i];
    loop->scanned = more;
    loop->capacity = wanted;
  }
  for (int i = 0; i < loop->n_scanned; i++)
    RengaCall(BodyOutput(loop, scope, n_before + loop->n_state + i,
                         &loop->scanned[loop->n_passes * loop->n_scanned + i]));
  loop->n_passes++;
  return RENGA_SUCCESS;
}

/* The elements of all passes, along a new dimension. */
static RengaErrorCode JoinPasses(Unrolled *loop, int output, int64_t axis, bool backwards,
                                 RengaValue *y)
{
  RengaOnnxNode *node = loop->node;
  RengaValue *part;
  int along = 0;
  RengaOnnxCheck(loop->n_passes > 0, node, RENGA_ERR_SUPPORT,
                 "it makes no pass, so the shape of its output %d is not known",
                 loop->n_state + output);
  RengaCall(RengaOnnxAllocate(node->importer, loop->n_passes, sizeof *part, &part));
  for (int i = 0; i < loop->n_passes; i++) {
    const int pass = backwards ? loop->n_passes - 1 - i : i;
    RengaValue x;
    RengaCall(RengaOnnxBindingValue(node, loop->scanned[pass * loop->n_scanned + output], &x));
    RengaTensorSpec spec = *RengaOnnxSpec(node, x);
    RengaOnnxCheck(spec.ndim < RENGA_MAX_DIM, node, RENGA_ERR_SUPPORT, "an output of %d dimensions",
                   spec.ndim + 1);
    RengaCall(RengaOnnxAxis(node, axis, spec.ndim + 1, &along));
    for (int d = spec.ndim++; d > along; d--) spec.dim[d] = spec.dim[d - 1];
    spec.dim[along] = 1;
    RengaCall(RengaOnnxReshape(node, x, &spec, &part[i]));
  }
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", along));
  RengaCall(RengaOnnxEmit(node, "Concat", loop->n_passes, part, 1, NULL, y));
  return RENGA_SUCCESS;
}

/* ---- Loop: trip count, condition, states; body: number of the pass, condition, states ---- */
static RengaErrorCode TripCount(RengaOnnxNode *node, int64_t *count)
{
  const RengaOnnxHost *host;
  *count = INT64_MAX;
  if (!RengaOnnxHasInput(node, 0)) return RENGA_SUCCESS;
  RengaCall(RengaOnnxKnownInput(node, 0, &host));
  RengaOnnxCheck(host && host->count == 1, node, RENGA_ERR_SUPPORT,
                 "how many passes it makes depends on data; only loops of a number of passes that "
                 "is known while reading are supported (they are unrolled)");
  RengaOnnxCheckApart(RengaOnnxHostIsBatchFree(host), node,
                      "it makes a pass for each sample (as in torch.nn.EmbeddingBag: write it as "
                      "Embedding and a sum)");
  *count = host->number->whole;
  return RENGA_SUCCESS;
}

/* An initializer is known, too. */
static RengaErrorCode KnownCondition(RengaOnnxNode *node, RengaOnnxBinding *condition,
                                     const RengaOnnxHost **host)
{
  RengaTensorSpec spec;
  void *data;
  bool unread = !condition->host && condition->kind == RENGA_ONNX_TENSOR && condition->tensor &&
                condition->spec.type == RENGA_BOOL && RengaTensorSpecCount(&condition->spec) == 1;
  if (unread) {
    RengaCall(RengaOnnxTensorRead(node->importer, condition->tensor, &spec, &data));
    RengaCall(RengaOnnxHostFromData(node->importer, &spec, data, &condition->host));
  }
  *host = condition->host;
  return RENGA_SUCCESS;
}

static RengaErrorCode GoesOn(RengaOnnxNode *node, RengaOnnxBinding *condition, bool *on)
{
  const RengaOnnxHost *host;
  RengaCall(KnownCondition(node, condition, &host));
  RengaOnnxCheck(host && host->count == 1, node, RENGA_ERR_SUPPORT,
                 "whether it makes another pass depends on data; only loops of a number of passes "
                 "that is known while reading are supported (they are unrolled)");
  RengaOnnxCheckApart(RengaOnnxHostIsBatchFree(host), node,
                      "how many passes it makes depends on the batch (as in torch.nn.EmbeddingBag: "
                      "write it as Embedding and a sum)");
  *on = host->number->whole != 0;
  return RENGA_SUCCESS;
}

static RengaErrorCode BindUnrolled(Unrolled *loop)
{
  for (int i = 0; i < loop->n_state; i++)
    RengaCall(RengaOnnxBindAlias(loop->node, i, loop->state[i]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertLoop(RengaOnnxNode *node)
{
  Unrolled loop = {.node = node};
  int64_t count;
  bool on = true;
  RengaOnnxBinding *condition;
  RengaOnnxScope *scope;
  RengaCall(StartUnrolled(&loop, 2, (int)node->proto->n_input - 2, 1));
  RengaCall(TripCount(node, &count));
  if (RengaOnnxHasInput(node, 1)) {
    RengaCall(RengaOnnxInputBinding(node, 1, &condition));
    RengaCall(GoesOn(node, condition, &on));
  }
  while (on && loop.n_passes < count) {
    RengaCall(PassScope(&loop, &scope));
    RengaCall(BindNumber(&loop, scope, 0, RENGA_INT64, loop.n_passes));
    RengaCall(BindNumber(&loop, scope, 1, RENGA_BOOL, 1));
    RengaCall(RunBody(&loop, scope, 2, 1));
    RengaCall(BodyOutput(&loop, scope, 0, &condition));
    RengaCall(GoesOn(node, condition, &on));
  }
  RengaCall(BindUnrolled(&loop));
  for (int i = 0; i < loop.n_scanned; i++) {
    RengaValue y;
    if (!RengaOnnxHasOutput(node, loop.n_state + i)) continue;
    RengaCall(JoinPasses(&loop, i, 0, false, &y));
    RengaCall(RengaOnnxBindValue(node, loop.n_state + i, y));
  }
  return RENGA_SUCCESS;
}

/* ---- Scan: states, tensors that are walked through ---- */
enum { SCANNED_MAX = 2 * RENGA_MAX_DIM };
typedef struct {
  int count;
  int axis[SCANNED_MAX];
  int64_t backwards[SCANNED_MAX], length;
  RengaValue x[SCANNED_MAX];
} LoopWalk;

static RengaErrorCode ReadWalk(RengaOnnxNode *node, int first, LoopWalk *walk)
{
  int n_axes, n_directions;
  int64_t axes[SCANNED_MAX];
  RengaCall(RengaOnnxInts(node, "scan_input_axes", &n_axes, axes));
  RengaCall(RengaOnnxInts(node, "scan_input_directions", &n_directions, walk->backwards));
  RengaOnnxCheck(walk->count >= 1 && walk->count <= SCANNED_MAX && first >= 0, node,
                 RENGA_ERR_SUPPORT, "%d tensors are scanned", walk->count);
  for (int i = 0; i < walk->count; i++) {
    RengaCall(RengaOnnxInputValue(node, first + i, &walk->x[i]));
    RengaOnnxCheck(walk->x[i] != RENGA_VALUE_NONE, node, RENGA_ERR_FILE_FORMAT,
                   "input %d is missing", first + i);
    const RengaTensorSpec *spec = RengaOnnxSpec(node, walk->x[i]);
    if (i >= n_directions) walk->backwards[i] = 0;
    RengaCall(RengaOnnxAxis(node, i < n_axes ? axes[i] : 0, spec->ndim, &walk->axis[i]));
    int64_t length = spec->dim[walk->axis[i]];
    RengaOnnxCheckApart(length >= 0, node, "it makes a pass for each sample");
    RengaOnnxCheck(i == 0 || length == walk->length, node, RENGA_ERR_SHAPE,
                   "tensors of %lld and %lld elements are scanned together", (long long)length,
                   (long long)walk->length);
    walk->length = length;
  }
  return RENGA_SUCCESS;
}

/* Element of this pass of tensor i. */
static RengaErrorCode BindElement(Unrolled *loop, RengaOnnxScope *scope, const LoopWalk *walk,
                                  int i)
{
  RengaOnnxNode *node = loop->node;
  RengaOnnxHost *host;
  RengaOnnxBinding *binding;
  RengaValue at;
  RengaCall(BindBody(loop, scope, (size_t)(loop->n_state + i), &binding));
  RengaCall(RengaOnnxHostCreate(node->importer, RENGA_INT64, 0, NULL, &host));
  host->number->whole = walk->backwards[i] ? walk->length - 1 - loop->n_passes : loop->n_passes;
  RengaCall(RengaOnnxHostValue(node, host, &at));
  RengaCall(RengaAttributesSetInt(&node->importer->attributes, "axis", walk->axis[i]));
  binding->kind = RENGA_ONNX_VALUE;
  RengaCall(RengaOnnxApply(node, "Gather", walk->x[i], at, &binding->value));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertScan(RengaOnnxNode *node)
{
  Unrolled loop = {.node = node};
  LoopWalk walk = {.count = (int)RengaOnnxInt(node, "num_scan_inputs", 0)};
  RengaOnnxScope *scope;
  int n_axes, n_directions, first = (int)node->proto->n_input - walk.count;
  int64_t axes[2 * RENGA_MAX_DIM], backwards[2 * RENGA_MAX_DIM];
  RengaCall(ReadWalk(node, first, &walk));
  RengaCall(StartUnrolled(&loop, 0, first, 0));
  while (loop.n_passes < walk.length) {
    RengaCall(PassScope(&loop, &scope));
    for (int i = 0; i < walk.count; i++) RengaCall(BindElement(&loop, scope, &walk, i));
    RengaCall(RunBody(&loop, scope, 0, 0));
  }
  RengaCall(BindUnrolled(&loop));
  RengaCall(RengaOnnxInts(node, "scan_output_axes", &n_axes, axes));
  RengaCall(RengaOnnxInts(node, "scan_output_directions", &n_directions, backwards));
  for (int i = 0; i < loop.n_scanned; i++) {
    RengaValue y;
    if (!RengaOnnxHasOutput(node, loop.n_state + i)) continue;
    RengaCall(JoinPasses(&loop, i, i < n_axes ? axes[i] : 0, i < n_directions && backwards[i], &y));
    RengaCall(RengaOnnxBindValue(node, loop.n_state + i, y));
  }
  return RENGA_SUCCESS;
}
