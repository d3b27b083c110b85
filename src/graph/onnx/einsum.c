/* Einsum: each pair of operands is one product of matrices, after transposing and reshaping to
   [in both and kept, left only, summed] x [in both and kept, summed, right only]. */
#include "onnx.h"
#include "renga/private/number.h"
#include <string.h>

/* Labels: A … Z, a … z in the order of their codes, and the dimensions of an ellipsis before them,
   the last of which is FIRST_LETTER - 1. */
enum {
  FIRST_LETTER = RENGA_MAX_DIM,
  LABELS = FIRST_LETTER + 52,
  OPERANDS_MAX = 16,
  TEXT_MAX = 256
};
typedef struct {
  int n;
  int label[2 * RENGA_MAX_DIM];
} EinsumLabels;
typedef struct {
  RengaValue value;
  EinsumLabels labels;
} Operand;
typedef struct {
  RengaOnnxNode *node;
  int count, ellipsis; /* the most dimensions that an ellipsis stands for */
  Operand operand[OPERANDS_MAX];
  EinsumLabels output;
} Einsum;

static int LabelOf(char letter)
{
  return FIRST_LETTER + (letter <= 'Z' ? letter - 'A' : 26 + letter - 'a');
}

static int FindLabel(const EinsumLabels *labels, int label)
{
  for (int i = 0; i < labels->n; i++)
    if (labels->label[i] == label) return i;
  return -1;
}

static int64_t LabelSize(const Einsum *e, const Operand *x, int label)
{
  int at = FindLabel(&x->labels, label);
  return at < 0 ? 1 : RengaOnnxSpec(e->node, x->value)->dim[at];
}

/* One term, up to a comma or the end; ellipsis: dimensions that "..." stands for. */
static RengaErrorCode ReadTerm(const Einsum *e, const char *text, size_t length, int ellipsis,
                               EinsumLabels *labels)
{
  labels->n = 0;
  for (size_t i = 0; i < length; i++) {
    bool dots = i + 2 < length && strncmp(text + i, "...", 3) == 0;
    int added = dots ? ellipsis : 1;
    RengaOnnxCheck((dots && ellipsis >= 0) || RengaIsLetter(text[i]), e->node,
                   RENGA_ERR_FILE_FORMAT, "the equation cannot be read at \"%.20s\"", text + i);
    RengaOnnxCheck(labels->n + added <= RENGA_MAX_DIM, e->node, RENGA_ERR_SHAPE,
                   "a term of more than %d dimensions", RENGA_MAX_DIM);
    for (int k = 0; k < added; k++)
      labels->label[labels->n++] = dots ? FIRST_LETTER - added + k : LabelOf(text[i]);
    if (dots) i += 2;
  }
  return RENGA_SUCCESS;
}

/* How many dimensions the dots of a term stand for; -1: it has none. */
static int EllipsisOf(const char *text, size_t length, int ndim)
{
  const char *dots = memchr(text, '.', length);
  int letters = 0;
  for (size_t i = 0; i < length; i++) letters += RengaIsLetter(text[i]);
  return dots && ndim >= letters ? ndim - letters : -1;
}

static RengaErrorCode ReadOperand(Einsum *e, const char *text, size_t length)
{
  RengaOnnxCheck(e->count < OPERANDS_MAX && RengaOnnxHasInput(e->node, e->count), e->node,
                 RENGA_ERR_FILE_FORMAT, "the equation has more terms than the node inputs");
  Operand *x = &e->operand[e->count];
  RengaCall(RengaOnnxInputValue(e->node, e->count++, &x->value));
  const RengaTensorSpec *spec = RengaOnnxSpec(e->node, x->value);
  int ellipsis = EllipsisOf(text, length, spec->ndim);
  RengaCall(ReadTerm(e, text, length, ellipsis, &x->labels));
  RengaOnnxCheck(x->labels.n == spec->ndim, e->node, RENGA_ERR_SHAPE,
                 "term %d has %d dimensions, its input %d", e->count - 1, x->labels.n, spec->ndim);
  if (ellipsis > e->ellipsis) e->ellipsis = ellipsis;
  return RENGA_SUCCESS;
}

/* Without "->": the ellipsis, then letters that occur once, in order. */
static void ImplyOutput(Einsum *e)
{
  int seen[LABELS] = {0};
  for (int i = 0; i < e->count; i++)
    for (int k = 0; k < e->operand[i].labels.n; k++) seen[e->operand[i].labels.label[k]]++;
  for (int label = 0; label < LABELS && e->output.n < RENGA_MAX_DIM; label++)
    if (label < FIRST_LETTER ? seen[label] > 0 : seen[label] == 1)
      e->output.label[e->output.n++] = label;
}

static RengaErrorCode ReadOutput(Einsum *e, const char *text)
{
  if (!text) {
    ImplyOutput(e);
    return RENGA_SUCCESS;
  }
  RengaCall(ReadTerm(e, text, strlen(text), e->ellipsis, &e->output));
  for (int i = 0; i < e->output.n; i++) {
    bool found = false;
    for (int k = 0; k < e->count; k++)
      found = found || FindLabel(&e->operand[k].labels, e->output.label[i]) >= 0;
    RengaOnnxCheck(found && FindLabel(&e->output, e->output.label[i]) == i, e->node,
                   RENGA_ERR_FILE_FORMAT,
                   "output term \"%.40s\" has a letter twice, or of no input", text);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadEquation(Einsum *e)
{
  char text[TEXT_MAX] = "";
  size_t length = 0;
  const Onnx__AttributeProto *attribute = RengaOnnxAttribute(e->node, "equation");
  RengaOnnxCheck(attribute && attribute->has_s && attribute->s.len < sizeof text, e->node,
                 RENGA_ERR_FILE_FORMAT, "it has no equation, or a very long one");
  for (size_t i = 0; i < attribute->s.len; i++)
    if (attribute->s.data[i] != ' ') text[length++] = (char)attribute->s.data[i];
  char *arrow = strstr(text, "->"), *term = text;
  if (arrow) *arrow = 0;
  for (char *comma = term; comma; term = comma + 1) {
    comma = strchr(term, ',');
    RengaCall(ReadOperand(e, term, comma ? (size_t)(comma - term) : strlen(term)));
    if (!comma) break;
  }
  RengaOnnxCheck(e->count == RengaOnnxInputCount(e->node), e->node, RENGA_ERR_FILE_FORMAT,
                 "the equation has %d terms for %d inputs", e->count, RengaOnnxInputCount(e->node));
  RengaCall(ReadOutput(e, arrow ? arrow + 2 : NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode SumOut(Einsum *e, Operand *x, int at)
{
  const int64_t axis = at;
  RengaCall(RengaOnnxReduce(e->node, "ReduceSum", x->value, 1, &axis, false, &x->value));
  x->labels.n--;
  for (int i = at; i < x->labels.n; i++) x->labels.label[i] = x->labels.label[i + 1];
  return RENGA_SUCCESS;
}

/* A letter twice: times the identity matrix, summed over one of the two. */
static RengaErrorCode TakeDiagonal(Einsum *e, Operand *x, int first, int second)
{
  const RengaTensorSpec spec = *RengaOnnxSpec(e->node, x->value);
  RengaTensorSpec square = {.type = spec.type, .ndim = 2}, wide = {.ndim = spec.ndim};
  for (int d = 0; d < 2; d++) square.dim[d] = spec.dim[first];
  for (int d = 0; d < spec.ndim; d++) wide.dim[d] = d == first || d == second ? spec.dim[d] : 1;
  RengaOnnxCheck(spec.dim[first] == spec.dim[second] && spec.dim[first] >= 0, e->node,
                 RENGA_ERR_SHAPE, "a diagonal of dimensions %lld and %lld",
                 (long long)spec.dim[first], (long long)spec.dim[second]);
  RengaValue identity;
  RengaCall(RengaAttributesSetInt(&e->node->importer->attributes, "to", (int64_t)spec.type));
  RengaCall(RengaOnnxEmit(e->node, "EyeLike", 0, NULL, 1, &square, &identity));
  RengaCall(RengaOnnxReshape(e->node, identity, &wide, &identity));
  RengaCall(RengaOnnxApply(e->node, "Mul", x->value, identity, &x->value));
  RengaCall(SumOut(e, x, second));
  return RENGA_SUCCESS;
}

/* Is the label in the output or in an operand from `next` on? */
static bool IsLabelNeeded(const Einsum *e, int label, int next)
{
  bool needed = FindLabel(&e->output, label) >= 0;
  for (int i = next; i < e->count; i++)
    needed = needed || FindLabel(&e->operand[i].labels, label) >= 0;
  return needed;
}

/* What occurs in this operand alone is summed at once. */
static RengaErrorCode Simplify(Einsum *e, int number)
{
  Operand *x = &e->operand[number];
  for (int i = x->labels.n; i-- > 0;) {
    int first = FindLabel(&x->labels, x->labels.label[i]);
    if (first < i) RengaCall(TakeDiagonal(e, x, first, i));
  }
  for (int i = x->labels.n; i-- > 0;) {
    bool elsewhere = IsLabelNeeded(e, x->labels.label[i], number + 1);
    for (int k = 0; k < number; k++)
      elsewhere = elsewhere || FindLabel(&e->operand[k].labels, x->labels.label[i]) >= 0;
    if (!elsewhere) RengaCall(SumOut(e, x, i));
  }
  return RENGA_SUCCESS;
}

/* x with its dimensions in the order of the labels. */
static RengaErrorCode Arrange(Einsum *e, Operand *x, const EinsumLabels *order)
{
  int64_t perm[RENGA_MAX_DIM];
  bool same = true;
  for (int i = 0; i < order->n; i++) {
    perm[i] = FindLabel(&x->labels, order->label[i]);
    same = same && perm[i] == i;
  }
  if (!same) RengaCall(RengaOnnxTranspose(e->node, x->value, order->n, perm, &x->value));
  x->labels = *order;
  return RENGA_SUCCESS;
}

/* A dimension of 1 that the other has larger is as good as absent. */
static RengaErrorCode DropOnes(Einsum *e, Operand *x, const Operand *other)
{
  RengaTensorSpec spec = *RengaOnnxSpec(e->node, x->value), kept = {.type = spec.type};
  EinsumLabels labels = {0};
  for (int i = 0; i < x->labels.n; i++) {
    int label = x->labels.label[i];
    if (spec.dim[i] == 1 && LabelSize(e, other, label) != 1) continue;
    kept.dim[kept.ndim++] = spec.dim[i];
    labels.label[labels.n++] = label;
  }
  if (labels.n == x->labels.n) return RENGA_SUCCESS;
  RengaCall(RengaOnnxReshape(e->node, x->value, &kept, &x->value));
  x->labels = labels;
  return RENGA_SUCCESS;
}

static void AppendLabel(EinsumLabels *to, const EinsumLabels *from)
{
  for (int i = 0; i < from->n && to->n < 2 * RENGA_MAX_DIM; i++)
    to->label[to->n++] = from->label[i];
}

typedef struct {
  EinsumLabels both, left, right, summed;
} EinsumPair;

static RengaErrorCode SortLabels(Einsum *e, int number, const Operand *a, const Operand *b,
                                 EinsumPair *pair)
{
  *pair = (EinsumPair){0};
  for (int i = 0; i < a->labels.n; i++) {
    int label = a->labels.label[i];
    bool shared = FindLabel(&b->labels, label) >= 0;
    RengaOnnxCheck(!shared || LabelSize(e, a, label) == LabelSize(e, b, label), e->node,
                   RENGA_ERR_SHAPE, "a letter stands for %lld and for %lld",
                   (long long)LabelSize(e, a, label), (long long)LabelSize(e, b, label));
    EinsumLabels *to = !shared                               ? &pair->left
                       : IsLabelNeeded(e, label, number + 1) ? &pair->both
                                                             : &pair->summed;
    to->label[to->n++] = label;
  }
  for (int i = 0; i < b->labels.n; i++)
    if (FindLabel(&a->labels, b->labels.label[i]) < 0)
      pair->right.label[pair->right.n++] = b->labels.label[i];
  RengaOnnxCheck(pair->both.n + pair->left.n + pair->right.n <= RENGA_MAX_DIM, e->node,
                 RENGA_ERR_SUPPORT, "a product of more than %d dimensions", RENGA_MAX_DIM);
  return RENGA_SUCCESS;
}

static int64_t EinsumProduct(const Einsum *e, const Operand *x, const EinsumLabels *labels)
{
  int64_t product = 1;
  for (int i = 0; i < labels->n; i++) product *= LabelSize(e, x, labels->label[i]);
  return product;
}

/* [both…, first…, second…] as [both, first, second], or without the first where it is empty */
static RengaErrorCode AsLabelMatrices(Einsum *e, Operand *x, const EinsumLabels *both,
                                      const EinsumLabels *first, const EinsumLabels *second)
{
  EinsumLabels order = *both;
  RengaTensorSpec flat = {
      .ndim = 3,
      .dim = {EinsumProduct(e, x, both), EinsumProduct(e, x, first), EinsumProduct(e, x, second)}};
  AppendLabel(&order, first);
  AppendLabel(&order, second);
  RengaCall(Arrange(e, x, &order));
  if (both->n == 0) {
    flat.ndim = 2;
    flat.dim[0] = flat.dim[1];
    flat.dim[1] = flat.dim[2];
  }
  RengaCall(RengaOnnxReshape(e->node, x->value, &flat, &x->value));
  return RENGA_SUCCESS;
}

/* Shapes before the product, as reshapes lose them. */
static void ResultSpec(const Einsum *e, const Operand *a, const Operand *b,
                       const EinsumLabels *labels, RengaTensorSpec *spec)
{
  *spec = (RengaTensorSpec){.ndim = labels->n};
  for (int i = 0; i < labels->n; i++) {
    int64_t size = LabelSize(e, a, labels->label[i]);
    spec->dim[i] =
        FindLabel(&a->labels, labels->label[i]) >= 0 ? size : LabelSize(e, b, labels->label[i]);
  }
}

/* Nothing is summed: elementwise, with ones where an operand lacks a dimension. */
static RengaErrorCode MultiplyPair(Einsum *e, Operand *a, Operand *b, const EinsumLabels *labels,
                                   Operand *y)
{
  Operand *side[2] = {a, b};
  for (int s = 0; s < 2; s++) {
    RengaTensorSpec wide = {.ndim = labels->n};
    EinsumLabels order = {0};
    for (int i = 0; i < labels->n; i++) {
      wide.dim[i] = LabelSize(e, side[s], labels->label[i]);
      if (FindLabel(&side[s]->labels, labels->label[i]) >= 0)
        order.label[order.n++] = labels->label[i];
    }
    RengaCall(Arrange(e, side[s], &order));
    RengaCall(RengaOnnxReshape(e->node, side[s]->value, &wide, &side[s]->value));
  }
  RengaCall(RengaOnnxApply(e->node, "Mul", a->value, b->value, &y->value));
  y->labels = *labels;
  return RENGA_SUCCESS;
}

/* operand[number] becomes its product with what came before. */
static RengaErrorCode Contract(Einsum *e, int number)
{
  Operand a = e->operand[number - 1], *b = &e->operand[number], y;
  EinsumPair pair;
  RengaCall(DropOnes(e, &a, b));
  RengaCall(DropOnes(e, b, &a));
  RengaCall(SortLabels(e, number, &a, b, &pair));
  EinsumLabels labels = pair.both;
  AppendLabel(&labels, &pair.left);
  AppendLabel(&labels, &pair.right);
  if (pair.summed.n == 0) {
    RengaCall(MultiplyPair(e, &a, b, &labels, &y));
  } else {
    RengaTensorSpec spec;
    ResultSpec(e, &a, b, &labels, &spec);
    RengaCall(AsLabelMatrices(e, &a, &pair.both, &pair.left, &pair.summed));
    RengaCall(AsLabelMatrices(e, b, &pair.both, &pair.summed, &pair.right));
    RengaCall(RengaOnnxApply(e->node, "MatMul", a.value, b->value, &y.value));
    RengaCall(RengaOnnxReshape(e->node, y.value, &spec, &y.value));
    y.labels = labels;
  }
  e->operand[number - 1].labels.n = 0;
  *b = y;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxConvertEinsum(RengaOnnxNode *node)
{
  Einsum e = {.node = node, .ellipsis = 0};
  RengaCall(ReadEquation(&e));
  for (int i = 0; i < e.count; i++) RengaCall(Simplify(&e, i));
  for (int i = 1; i < e.count; i++) RengaCall(Contract(&e, i));
  Operand *y = &e.operand[e.count - 1];
  RengaOnnxCheck(y->labels.n == e.output.n, node, RENGA_ERR_SUPPORT,
                 "an output dimension that comes from dimensions of 1 only");
  RengaCall(Arrange(&e, y, &e.output));
  RengaCall(RengaOnnxBindValue(node, 0, y->value));
  return RENGA_SUCCESS;
}
