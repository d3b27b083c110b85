/*
   Gelu (Hendrycks and Gimpel 2016) as a product in any order:
   0.5 x (1 + erf(x / sqrt 2)), and 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
*/
#include "../fuse.h"
#include <math.h>

enum { MAX_FACTORS = 6 };
typedef struct {
  double number; /* product of the constants */
  int count;
  RengaValue factor[MAX_FACTORS];
} GeluProduct;

static bool Flatten(RengaGraph graph, RengaValue value, int depth, GeluProduct *product);

static bool FlattenNode(RengaGraph graph, const RengaGraphNode *node, int depth,
                        GeluProduct *product)
{
  return Flatten(graph, node->in[0], depth + 1, product) &&
         Flatten(graph, node->in[1], depth + 1, product);
}

/* Factors of value through products that nothing else reads. */
static bool Flatten(RengaGraph graph, RengaValue value, int depth, GeluProduct *product)
{
  double number;
  RengaValue other;
  if (RengaFuseScalar(graph, value, &number)) {
    product->number *= number;
    return true;
  }
  const RengaGraphNode *node = depth > 4 ? NULL : RengaFuseInner(graph, value, "Mul");
  if (node) return FlattenNode(graph, node, depth, product);
  node = RengaFuseInner(graph, value, "Div");
  if (node && RengaFuseWithScalar(graph, node, false, &number, &other) && number != 0) {
    product->number /= number;
    return Flatten(graph, other, depth + 1, product);
  }
  if (product->count == MAX_FACTORS) return false;
  product->factor[product->count++] = value;
  return true;
}

static bool FactorsOf(RengaGraph graph, RengaValue value, GeluProduct *product)
{
  *product = (GeluProduct){.number = 1};
  return Flatten(graph, value, 0, product);
}

/* value = 1 + op(argument) */
static bool MatchOnePlus(RengaGraph graph, RengaValue value, const char *op, RengaValue *argument)
{
  double one;
  RengaValue inside;
  const RengaGraphNode *add = RengaFuseInner(graph, value, "Add");
  if (!add || !RengaFuseWithScalar(graph, add, true, &one, &inside) || one != 1) return false;
  const RengaGraphNode *node = RengaFuseInner(graph, inside, op);
  if (node) *argument = node->in[0];
  return node != NULL;
}

static bool IsErfArgument(RengaGraph graph, RengaValue value, RengaValue x)
{
  GeluProduct product;
  return FactorsOf(graph, value, &product) && product.count == 1 && product.factor[0] == x &&
         RengaFuseNear(product.number, sqrt(0.5));
}

/* value = number * x^power */
static bool IsPower(RengaGraph graph, RengaValue value, RengaValue x, int power, double number)
{
  GeluProduct product;
  double exponent;
  if (!FactorsOf(graph, value, &product) || !RengaFuseNear(product.number, number)) return false;
  int found = 0;
  for (int i = 0; i < product.count; i++) {
    const RengaGraphNode *pow = RengaFuseInner(graph, product.factor[i], "Pow");
    if (product.factor[i] == x)
      found++;
    else if (pow && pow->in[0] == x && RengaFuseScalar(graph, pow->in[1], &exponent))
      found += exponent == 2 || exponent == 3 ? (int)exponent : 100;
    else
      return false;
  }
  return found == power;
}

/* c (x + 0.044715 x^3), or c x (1 + 0.044715 x^2) */
static bool IsTanhArgument(RengaGraph graph, RengaValue value, RengaValue x)
{
  const double cubic = 0.044715;
  GeluProduct product;
  double one;
  RengaValue inside;
  if (!FactorsOf(graph, value, &product) || !RengaFuseNear(product.number, sqrt(2.0 / acos(-1.0))))
    return false;
  for (int i = 0; i < product.count; i++) {
    const RengaGraphNode *add = RengaFuseInner(graph, product.factor[i], "Add");
    if (!add) continue;
    if (product.count == 1)
      return (add->in[0] == x && IsPower(graph, add->in[1], x, 3, cubic)) ||
             (add->in[1] == x && IsPower(graph, add->in[0], x, 3, cubic));
    return product.count == 2 && product.factor[1 - i] == x &&
           RengaFuseWithScalar(graph, add, true, &one, &inside) && one == 1 &&
           IsPower(graph, inside, x, 2, cubic);
  }
  return false;
}

static const struct {
  const char *op, *approximate;
  bool (*is_argument)(RengaGraph graph, RengaValue value, RengaValue x);
} forms[] = {{"Erf", "none", IsErfArgument}, {"Tanh", "tanh", IsTanhArgument}};

/* The form whose factors these are, -1: none. */
static int FindForm(RengaGraph graph, const GeluProduct *product, RengaValue *x)
{
  for (int f = 0; f < 2; f++)
    for (int i = 0; i < 2; i++) {
      RengaValue argument;
      *x = product->factor[i];
      if (MatchOnePlus(graph, product->factor[1 - i], forms[f].op, &argument) &&
          forms[f].is_argument(graph, argument, *x))
        return f;
    }
  return -1;
}

static RengaErrorCode FuseGelu(RengaGraph graph, int root, bool *done)
{
  const RengaGraphNode *node = &graph->entry[root]->node;
  GeluProduct product = {.number = 1};
  RengaValue x;
  if (!FlattenNode(graph, node, 0, &product) || product.count != 2) return RENGA_SUCCESS;
  if (!RengaFuseNear(product.number, 0.5)) return RENGA_SUCCESS;
  int form = FindForm(graph, &product, &x);
  if (form < 0 ||
      !RengaTensorSpecEqual(RengaGraphSpec(graph, x), RengaGraphSpec(graph, node->out[0])))
    return RENGA_SUCCESS;
  RengaAttributes attributes = {0};
  RengaCall(RengaAttributesSetString(&attributes, "approximate", forms[form].approximate));
  RengaErrorCode code = RengaFuseReplace(graph, root, "Gelu", &attributes, 1, &x);
  RengaAttributesFree(&attributes);
  RengaCall(code);
  *done = true;
  return RENGA_SUCCESS;
}

const RengaFuseRow RengaFuseGelu[] = {
    {"Mul", FuseGelu},
    {"Div", FuseGelu},
    {NULL, NULL},
};
