/* Functions of one parameter that the exporter's optimizer computed: exp(scale), -exp(a), 1 + w.
   The file has the result only. Where the names that it was folded from tell which function that
   was and the numbers do not contradict, the function is undone: the parameter's first values are
   its inverse, to rounding, and the function becomes nodes again. */
#include "module.h"
#include "renga/private/number.h"
#include <math.h>
#include <string.h>

struct RengaOnnxFolding {
  const char *words;    /* in the list, sorted */
  const char *nodes[2]; /* in order */
  double (*inverse)(double);
  double low, high; /* results lie between: where the inverse is as exact as they are */
};

static double NegativeLog(double y)
{
  return -log(y);
}
static double LogOfNegative(double y)
{
  return log(-y);
}
static double NegativeReal(double y)
{
  return -y;
}
static double Logit(double y)
{
  return log(y / (1 - y));
}

/* Which of two is decided by the sign of the results. */
static const struct RengaOnnxFolding functions[] = {
    {"exp", {"Exp"}, log, 1e-30, 1e30},
    {"exp neg", {"Exp", "Neg"}, LogOfNegative, -1e30, -1e-30},
    {"exp neg", {"Neg", "Exp"}, NegativeLog, 1e-30, 1e30},
    {"neg", {"Neg"}, NegativeReal, -1e30, 1e30},
    {"sigmoid", {"Sigmoid"}, Logit, 0.01, 0.99},
    {"tanh", {"Tanh"}, atanh, -0.99, 0.99},
};
static const struct RengaOnnxFolding sum = {"add", {"Add"}, NULL, -1e30, 1e30};

/* Elements stay, in another order or shape; their numbers are constants, val_3. */
static const char moves[] = "val view reshape _unsafe_view permute transpose t unsqueeze squeeze "
                            "contiguous clone flatten unflatten alias movedim";

enum { WORD_SIZE = 32, WORDS_SIZE = 64 };

/* unsqueeze_3 is unsqueeze */
static bool CopyWord(const char *name, size_t length, char word[WORD_SIZE])
{
  length = RengaOnnxWithoutNumber(name, length);
  if (length >= WORD_SIZE) return false;
  memcpy(word, name, length);
  word[length] = '\0';
  return true;
}

/* Words are kept sorted. */
static bool AddFunctionWord(char words[WORDS_SIZE], const char *name, size_t length)
{
  char word[WORD_SIZE];
  const size_t used = strlen(words);
  if (!CopyWord(name, length, word)) return false;
  if (RengaOnnxHasWord(moves, word)) return true;
  const size_t size = strlen(word), front = used > 0 && strcmp(words, word) > 0 ? 0 : used;
  if (used + size + 2 > WORDS_SIZE) return false;
  memmove(words + front + size + (used > 0), words + front, used - front + 1);
  memcpy(words + front + (front > 0), word, size);
  if (used > 0) words[front > 0 ? front : size] = ' ';
  words[used + size + (used > 0)] = '\0';
  return true;
}

/* The functions in the list, "exp neg"; false: something else is in it. */
static bool FindWords(const RengaOnnxBinding *folded, const char *parameter, char words[WORDS_SIZE])
{
  const char *list = folded->folded_from, *name;
  size_t length;
  bool good = true;
  *words = '\0';
  while (good && RengaOnnxNextQuoted(&list, &name, &length))
    if (!RengaOnnxIsName(parameter, name, length)) good = AddFunctionWord(words, name, length);
  return good && AddFunctionWord(words, folded->name, strlen(folded->name));
}

static const struct RengaOnnxFolding *FindFoldedFunction(const char *words, int64_t count,
                                                         const float data[])
{
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    const struct RengaOnnxFolding *function = &functions[i];
    bool fits = strcmp(function->words, words) == 0;
    for (int64_t k = 0; k < count && fits; k++)
      fits = (double)data[k] > function->low && (double)data[k] < function->high;
    if (fits) return function;
  }
  return NULL;
}

/* ---- 1 + w: the line of Python that reads it says what is added ---- */
static const char *SkipText(const char *at, const char *text)
{
  return at && strncmp(at, text, strlen(text)) == 0 ? at + strlen(text) : NULL;
}

/* self.weight or self.weight.float() */
static const char *SkipParameter(const char *at, const char *last)
{
  const char *after = SkipText(SkipText(at, "self."), last);
  const char *cast = SkipText(after, ".float()");
  return cast ? cast : after;
}

static const char *SkipNumber(const char *at, double *number)
{
  char *end;
  if (!at || !RengaIsDigit(*at)) return NULL;
  *number = RengaReadReal(at, &end);
  return end;
}

/* (1.0 + self.weight.float()), (self.weight + 1): of a text, the number, if it is the same wherever
   the parameter is */
static bool FindAdded(const char *text, const char *last, double *added)
{
  bool found = false;
  double number = 0;
  for (const char *at = strstr(text, "self."); at; at = strstr(at + 1, "self.")) {
    const char *open = at, *after = SkipParameter(at, last);
    if (!after || RengaIsLetterOrDigit(*after) || *after == '_') continue;
    while (open > text && open[-1] != '(' && open[-1] != '\n') open--;
    const char *end = SkipParameter(SkipText(SkipNumber(open, &number), " + "), last);
    if (open == at) end = SkipNumber(SkipText(after, " + "), &number);
    if (open == text || open[-1] != '(' || !end || *end != ')') return false;
    if (found && number != *added) return false;
    *added = number;
    found = true;
  }
  return found;
}

static const char *LastFrame(const char *trace)
{
  const char *frame = trace;
  for (const char *at = trace; at; at = strstr(at + 1, "File \"")) frame = at;
  return frame;
}

/* All nodes that read the sum have to be of the parameter's module, and say the same. */
static RengaErrorCode FindAddedConstant(RengaOnnxImporter *importer, const RengaOnnxBinding *folded,
                                        const char *parameter, double *added, bool *known)
{
  const char *last = RengaOnnxLastName(parameter);
  double number = 0;
  int count = 0;
  *known = true;
  for (size_t i = 0; i < importer->n_node && *known; i++)
    for (size_t k = 0; k < importer->node[i]->n_input && *known; k++) {
      const size_t length = RengaOnnxModuleLength(parameter);
      RengaOnnxOrigin origin;
      char *trace;
      if (strcmp(importer->node[i]->input[k], folded->name) != 0) continue;
      RengaCall(RengaOnnxReadOrigin(importer, importer->node[i], &origin));
      RengaCall(RengaOnnxProperty(importer, &importer->node[i]->base, "pkg.torch.onnx.stack_trace",
                                  &trace));
      *known = RengaOnnxIsName(origin.module, parameter, length) && trace &&
               FindAdded(LastFrame(trace), last, &number) && (count++ == 0 || number == *added);
      *added = number;
    }
  *known = *known && count > 0;
  return RENGA_SUCCESS;
}

/* ---- both ---- */
/* The list is the parameter and one constant: "['a.weight', 'val_6']". */
static bool IsSum(const RengaOnnxBinding *folded)
{
  const char *list = folded->folded_from, *name;
  size_t length;
  int count = 0, constants = 0;
  while (RengaOnnxNextQuoted(&list, &name, &length)) {
    count++;
    constants += length > 4 && memcmp(name, "val_", 4) == 0;
  }
  return count == 2 && constants == 1;
}

/* The parameter takes the place that it had: folded is computed from it. */
static RengaErrorCode GiveBack(RengaOnnxImporter *importer, RengaOnnxBinding *folded,
                               RengaOnnxBinding *said, const struct RengaOnnxFolding *function,
                               double added)
{
  RengaOnnxBinding *parameter;
  RengaCall(RengaOnnxScopeAdd(importer, importer->model_scope, said->name, &parameter));
  parameter->kind = RENGA_ONNX_TENSOR;
  parameter->tensor = folded->tensor;
  parameter->spec = folded->spec;
  parameter->map = function->inverse;
  parameter->shift = -added;
  RengaOnnxDecide(importer, parameter);
  said->form = folded;
  folded->same = parameter;
  folded->undone = function;
  return RENGA_SUCCESS;
}

/* undone: false where the function is not known, or the parameter is in the file in another form */
RengaErrorCode RengaOnnxUndo(RengaOnnxImporter *importer, RengaOnnxBinding *folded,
                             RengaOnnxBinding *said, bool *undone)
{
  const struct RengaOnnxFolding *function = NULL;
  RengaTensorSpec spec;
  char words[WORDS_SIZE];
  double added = 0;
  float *data;
  bool known = false;
  *undone = false;
  if (said->form || RengaOnnxScopeFind(importer->model_scope, said->name) || folded->scaled ||
      folded->spec.type != RENGA_FLOAT32 || !FindWords(folded, said->name, words))
    return RENGA_SUCCESS;
  RengaCall(RengaOnnxTensorRead(importer, folded->tensor, &spec, (void **)&data));
  function = FindFoldedFunction(words, RengaTensorSpecCount(&spec), data);
  if (strcmp(words, sum.words) == 0 && IsSum(folded))
    RengaCall(FindAddedConstant(importer, folded, said->name, &added, &known));
  if (known) function = &sum;
  if (!function) return RENGA_SUCCESS;
  RengaCall(GiveBack(importer, folded, said, function, added));
  *undone = true;
  return RENGA_SUCCESS;
}

RengaErrorCode RengaOnnxUnfoldFunctions(RengaOnnxNode *node, const RengaOnnxBinding *folded,
                                        RengaValue *value)
{
  const struct RengaOnnxFolding *function = folded->undone;
  if (function == &sum) {
    RengaCall(RengaOnnxApplyReal(node, "Add", *value, -folded->same->shift, value));
    return RENGA_SUCCESS;
  }
  for (int i = 0; i < 2 && function->nodes[i]; i++)
    RengaCall(RengaOnnxApply(node, function->nodes[i], *value, RENGA_VALUE_NONE, value));
  return RENGA_SUCCESS;
}
