/* Attributes and types of a call against its operator's row. */
#include "renga/private/number.h"
#include "renga/private/op.h"
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* One "name:kind=default" of a row's attributes; the parts point into the row. */
typedef struct {
  const char *name, *kind, *value; /* value NULL: no default */
  size_t name_length, kind_length, value_length;
} Declaration;

/* Reads the declaration at text; returns where the next one begins, NULL at the end. */
static const char *ReadDeclaration(const char *text, Declaration *declaration)
{
  text += strspn(text, " ");
  if (*text == '\0') return NULL;
  declaration->name = text;
  declaration->name_length = strcspn(text, ":");
  declaration->kind = text + declaration->name_length + (text[declaration->name_length] == ':');
  declaration->kind_length = strcspn(declaration->kind, "= ");
  const char *end = declaration->kind + declaration->kind_length;
  declaration->value = *end == '=' ? end + 1 : NULL;
  declaration->value_length = *end == '=' ? strcspn(end + 1, " ") : 0;
  return declaration->value ? declaration->value + declaration->value_length : end;
}

static bool FindDeclaration(const RengaOperator *op, const char *name, Declaration *declaration)
{
  const char *text = op->attributes ? op->attributes : "";
  while ((text = ReadDeclaration(text, declaration)) != NULL)
    if (strlen(name) == declaration->name_length &&
        strncmp(name, declaration->name, declaration->name_length) == 0)
      return true;
  return false;
}

static const char *const kind_names[] = {
    [RENGA_ATTRIBUTE_INT] = "int",       [RENGA_ATTRIBUTE_REAL] = "real",
    [RENGA_ATTRIBUTE_STRING] = "string", [RENGA_ATTRIBUTE_INTS] = "ints",
    [RENGA_ATTRIBUTE_REALS] = "reals",
};

bool RengaOpRowIsSound_Private(const RengaOperator *op)
{
  enum { KINDS = sizeof kind_names / sizeof kind_names[0] };
  static const char letters[] = "TUNMFZIBLS?";
  const size_t in = strspn(op->types, letters);
  const char *text = op->attributes ? op->attributes : "";
  Declaration declaration;
  if (in == 0 || op->types[in] != '>' || op->types[in + 1] == 0 ||
      op->types[in + 1 + strspn(op->types + in + 1, letters)])
    return false;
  while ((text = ReadDeclaration(text, &declaration)) != NULL) {
    bool known = false;
    if (declaration.name[declaration.name_length] != ':') return false;
    for (int k = 0; k < KINDS; k++)
      known = known || (strlen(kind_names[k]) == declaration.kind_length &&
                        !strncmp(kind_names[k], declaration.kind, declaration.kind_length));
    if (!known) return false;
  }
  return true;
}

/* Every attribute of the call is one that its operator knows, of the right kind. */
RengaErrorCode RengaOpCheckAttributes(const RengaOpCall *call)
{
  for (int i = 0; call->attributes && i < call->attributes->count; i++) {
    const RengaAttribute *row = &call->attributes->row[i];
    Declaration declaration;
    RengaOpCheckValue(FindDeclaration(call->op, row->name, &declaration), call,
                      "has no attribute %s; it knows: %s", row->name,
                      call->op->attributes ? call->op->attributes : "none");
    const char *kind = kind_names[row->kind];
    RengaOpCheckValue(strlen(kind) == declaration.kind_length &&
                          strncmp(kind, declaration.kind, declaration.kind_length) == 0,
                      call, "attribute %s is of kind %s, must be %.*s", row->name, kind,
                      (int)declaration.kind_length, declaration.kind);
  }
  return RENGA_SUCCESS;
}

/*@
   RengaOpCallInt - an integer attribute of a call

   Input:
   . call - the use of an operator
   . name - the attribute's name

   Notes: where absent the default of the operator's row, 0 where that has none

   See also: RengaOpCallReal(), RengaAttributesInt()
@*/
int64_t RengaOpCallInt(const RengaOpCall *call, const char *name)
{
  Declaration declaration;
  bool has = FindDeclaration(call->op, name, &declaration) && declaration.value;
  return RengaAttributesInt(call->attributes, name, has ? strtoll(declaration.value, NULL, 10) : 0);
}

/*@
   RengaOpCallReal - a real attribute of a call

   Input:
   . call - the use of an operator
   . name - the attribute's name

   Notes: where absent the default of the operator's row, 0 where that has none

   See also: RengaOpCallInt(), RengaAttributesReal()
@*/
double RengaOpCallReal(const RengaOpCall *call, const char *name)
{
  Declaration declaration;
  bool has = FindDeclaration(call->op, name, &declaration) && declaration.value;
  return RengaAttributesReal(call->attributes, name,
                             has ? RengaReadReal(declaration.value, NULL) : 0);
}

/*@
   RengaOpCallString - a text attribute of a call

   Input:
   . call - the use of an operator
   . name - the attribute's name

   Notes: where absent the empty text, which stands for the operator's first choice

   See also: RengaAttributesString()
@*/
const char *RengaOpCallString(const RengaOpCall *call, const char *name)
{
  return RengaAttributesString(call->attributes, name, "");
}

/*@
   RengaOpCallInts - an attribute of a call that is a list of integers

   Input:
   . call - the use of an operator
   . name - the attribute's name

   Output:
   . count - number of integers, 0 where absent (the answer is then NULL)

   See also: RengaAttributesInts()
@*/
const int64_t *RengaOpCallInts(const RengaOpCall *call, const char *name, int *count)
{
  return RengaAttributesInts(call->attributes, name, count);
}

/*@
   RengaOpCallHasInput - whether an optional input is there

   Input:
   . call - the use of an operator
   . input - the number of the input, from 0

   See also: RengaOpCallInt()
@*/
bool RengaOpCallHasInput(const RengaOpCall *call, int input)
{
  return input < call->n_in && call->in[input].ndim >= 0;
}

/* A call as text: Add(float32[2,3], float32[3]). size: bytes of text, at least 1. */
void RengaOpCallFormat(const RengaOpCall *call, size_t size, char text[])
{
  size_t at = (size_t)snprintf(text, size, "%s(", call->op->name);
  for (int i = 0; i < call->n_in && at < size; i++) {
    char spec[160];
    RengaTensorSpecFormat(&call->in[i], sizeof spec, spec);
    at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? ", " : "", spec);
  }
  if (at < size) snprintf(text + at, size - at, ")");
}

/* A number as times * N + rest; times 0 where it has nothing to do with the batch. */
static long long TimesBatch(long long number, int *rest)
{
  enum { NEAR = 64 };
  static const long long batches[] = {RENGA_OP_SOME_BATCH, RENGA_OP_OTHER_BATCH};
  if (number > LLONG_MAX - NEAR) return 0; /* "to the end" of a slice */
  for (int k = 0; k < 2; k++) {
    const long long times = (number + NEAR) / batches[k], more = number - times * batches[k];
    *rest = (int)more;
    /* of a multiple of one the other is not far: the nearer one is meant */
    if (times > 0 && more >= -NEAR && more <= NEAR &&
        (k == 1 || llabs(more) <= llabs(number - times * batches[1])))
      return times;
  }
  return 0;
}

/* "[2599418,8]" becomes "[2N,8]". */
static void NameBatch(size_t size, const char *from, char *to)
{
  size_t length = 0;
  to[0] = '\0';
  while (*from && length + 1 < size) {
    const size_t digits = strspn(from, "0123456789"), taken = digits > 0 ? digits : 1;
    int rest = 0;
    const long long times = digits > 0 ? TimesBatch(strtoll(from, NULL, 10), &rest) : 0;
    char *at = to + length, factor[24] = "", more[16] = "";
    if (times > 1) snprintf(factor, sizeof factor, "%lld", times);
    if (rest != 0) snprintf(more, sizeof more, "%+d", rest);
    if (times > 0)
      length += (size_t)snprintf(at, size - length, "%sN%s", factor, more);
    else
      length += (size_t)snprintf(at, size - length, "%.*s", (int)taken, from);
    from += taken;
  }
}

RengaErrorCode RengaOpRefuse(const RengaOpCall *call, RengaErrorCode code, const char *function,
                             const char *file, int line, const char *format, ...)
{
  char what[640], why[384], named[2][640];
  RengaOpCallFormat(call, sizeof what, what);
  va_list arguments;
  va_start(arguments, format);
  RengaTextFormatList(why, sizeof why, format, arguments);
  va_end(arguments);
  NameBatch(sizeof named[0], what, named[0]);
  NameBatch(sizeof named[1], why, named[1]);
  return RengaErrorRaise(MPI_COMM_SELF, code, function, file, line, "%s: %s", named[0], named[1]);
}

#define BIT(type) (1u << RENGA_##type)
#define FLOATING (BIT(FLOAT32) | BIT(FLOAT64) | BIT(BFLOAT16) | BIT(FLOAT16))
#define SIGNED (BIT(INT8) | BIT(INT16) | BIT(INT32) | BIT(INT64))
#define UNSIGNED (BIT(UINT8) | BIT(UINT16) | BIT(UINT32) | BIT(UINT64))
#define ANY (FLOATING | SIGNED | UNSIGNED | BIT(BOOL))

/* The letters of a row's types. */
static const struct {
  char letter;
  bool bound; /* all places with this letter have one type */
  unsigned types;
  const char *text;
} type_classes[] = {
    {'T', true, ANY, "any type"},
    {'U', true, ANY, "any type"},
    {'N', true, FLOATING | SIGNED | UNSIGNED, "a number"},
    {'M', true, FLOATING | SIGNED | UNSIGNED, "a number"},
    {'F', true, FLOATING, "a floating type"},
    {'Z', true, SIGNED | UNSIGNED, "an integer"},
    {'I', false, BIT(INT32) | BIT(INT64), "int32 or int64"},
    {'B', true, BIT(BOOL), "bool"},
    {'L', true, BIT(INT64), "int64"},
    {'S', true, BIT(FLOAT32), "float32"},
};
enum { N_CLASSES = sizeof type_classes / sizeof type_classes[0] };

static int FindTypeClass(char letter)
{
  int i = 0;
  while (i < N_CLASSES && type_classes[i].letter != letter) i++;
  return i;
}

static RengaErrorCode CheckInputType(const RengaOpCall *call, int input, int class, int bound[])
{
  RengaDataType type = call->in[input].type;
  RengaOpCheck(type_classes[class].types >> type & 1u, call, "input %d is %s, must be %s", input,
               RengaDataTypeName(type), type_classes[class].text);
  RengaOpCheck(bound[class] < 0 || !type_classes[class].bound || bound[class] == (int)type, call,
               "input %d is %s, an earlier input of the same kind is %s", input,
               RengaDataTypeName(type), RengaDataTypeName((RengaDataType)bound[class]));
  bound[class] = (int)type;
  return RENGA_SUCCESS;
}

/* An output whose letter no input has bound has a class of one type, or asks attribute "to". */
static RengaErrorCode SetOutputType(RengaOpCall *call, int output, char letter, const int bound[])
{
  int class = FindTypeClass(letter);
  if (class == N_CLASSES) {
    int64_t to = RengaOpCallInt(call, "to");
    RengaOpCheck(to >= 0 && to < RENGA_TYPE_COUNT, call, "attribute to is %lld, not a data type",
                 (long long)to);
    call->out[output].type = (RengaDataType)to;
  } else if (bound[class] >= 0) {
    call->out[output].type = (RengaDataType)bound[class];
  } else {
    int type = 0;
    while (!(type_classes[class].types >> type & 1u)) type++;
    call->out[output].type = (RengaDataType)type;
  }
  return RENGA_SUCCESS;
}

/* The types of the inputs are allowed and agree; those of the outputs follow. */
RengaErrorCode RengaOpCheckTypes(RengaOpCall *call)
{
  const char *in = call->op->types, *out = strchr(in, '>') + 1;
  int n_in = (int)(out - in) - 1, n_out = (int)strlen(out);
  int bound[N_CLASSES];
  for (int c = 0; c < N_CLASSES; c++) bound[c] = -1;
  for (int i = 0; i < call->n_in; i++) {
    char letter = in[i < n_in ? i : n_in - 1];
    if (call->in[i].ndim >= 0) RengaCall(CheckInputType(call, i, FindTypeClass(letter), bound));
  }
  for (int i = 0; i < call->n_out; i++)
    RengaCall(SetOutputType(call, i, out[i < n_out ? i : n_out - 1], bound));
  return RENGA_SUCCESS;
}
