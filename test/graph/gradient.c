/* TEST ranks: 1 */
/* Every rule of reverse mode against finite differences, in float64 on the ref device; and every
   floating input of every operator has one, or is refused by name. */
#include "../check.h"
#include "execute.h"
#include "gradientcases.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char kind;
  int64_t below;
  double low, high;
  RengaTensorSpec spec;
  RengaValue value;
  char name[24];
} Input;

static void ReadDimensions(const char **text, RengaTensorSpec *spec)
{
  spec->ndim = 0;
  while (isdigit((unsigned char)**text)) {
    char *end;
    spec->dim[spec->ndim++] = strtoll(*text, &end, 10);
    *text = end + (*end == ',');
  }
}

static int ReadInputs(const char *text, Input input[])
{
  int count = 0;
  while (*text) {
    Input *at = &input[count];
    *at = (Input){.kind = *text++, .low = -1, .high = 1};
    at->spec.type = at->kind == 'i' ? RENGA_INT64 : at->kind == 'b' ? RENGA_BOOL : RENGA_FLOAT64;
    ReadDimensions(&text, &at->spec);
    char *end = NULL;
    if (*text == '<') at->below = strtoll(text + 1, &end, 10);
    if (end) text = end;
    if (*text == '@') {
      at->low = strtod(text + 1, &end);
      at->high = strtod(end + 1, &end);
      text = end;
    }
    snprintf(at->name, sizeof at->name, "input%d", count++);
    text += strspn(text, " ");
  }
  return count;
}

static RengaErrorCode ReadAttribute(char *text, RengaAttributes *attributes)
{
  char *kind = strchr(text, ':'), *value = strchr(text, '=');
  *kind++ = *value++ = '\0';
  if (strcmp(kind, "int") == 0)
    RengaCall(RengaAttributesSetInt(attributes, text, strtoll(value, NULL, 10)));
  if (strcmp(kind, "real") == 0)
    RengaCall(RengaAttributesSetReal(attributes, text, strtod(value, NULL)));
  if (strcmp(kind, "string") == 0) RengaCall(RengaAttributesSetString(attributes, text, value));
  if (strcmp(kind, "ints") == 0) {
    int64_t ints[2 * RENGA_MAX_DIM];
    int count = 0;
    for (char *end; *value; value = end + (*end == ',')) ints[count++] = strtoll(value, &end, 10);
    RengaCall(RengaAttributesSetInts(attributes, text, count, ints));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadAttributes(const char *text, RengaAttributes *attributes)
{
  char copy[256], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    RengaCall(ReadAttribute(word, attributes));
  return RENGA_SUCCESS;
}

static double Draw(uint64_t *state, double low, double high)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (double)(*state >> 11) / 9007199254740992.0;
}

static RengaErrorCode AddConstant(RengaGraph graph, Input *input, uint64_t *state)
{
  int64_t count = RengaTensorSpecCount(&input->spec);
  char *data = NULL;
  RengaCall(RengaMalloc(count * 8 + 8, &data));
  for (int64_t i = 0; i < count; i++) {
    bool ranged = input->kind == 'i' && input->low >= 0;
    double number = Draw(state, input->kind == 'i' && !ranged ? 0 : input->low,
                         input->kind == 'i' && !ranged ? (double)input->below : input->high);
    if (input->kind == 'i')
      ((int64_t *)(void *)data)[i] = (int64_t)number;
    else if (input->kind == 'b')
      data[i] = number > 0;
    else
      ((double *)(void *)data)[i] = number;
  }
  RengaErrorCode code =
      RengaGraphAddConstant(graph, input->name, &input->spec, data, &input->value);
  RengaFree(&data);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* loss = sum of c * y for all outputs the loss reads */
static RengaErrorCode AddLoss(RengaGraph graph, int n_out, const RengaValue out[], uint64_t *state)
{
  RengaValue loss = RENGA_VALUE_NONE;
  for (int i = 0; i < n_out; i++) {
    Input weight = {.kind = 'c', .low = -1, .high = 1};
    RengaValue y = out[i];
    RengaAttributes attributes = {0};
    snprintf(weight.name, sizeof weight.name, "weight%d", i);
    weight.spec = RengaGraphGetValue(graph, y)->spec;
    if (weight.spec.type != RENGA_FLOAT64) return RENGA_SUCCESS;
    RengaCall(AddConstant(graph, &weight, state));
    RengaValue in[2] = {y, weight.value};
    RengaCall(RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, in, 1, NULL, &y));
    RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
    RengaCall(
        RengaGraphAddNode(graph, "ReduceSum", NULL, &attributes, 1, &(RengaValue){y}, 1, NULL, &y));
    RengaCall(RengaAttributesFree(&attributes));
    if (loss < 0)
      loss = y;
    else
      RengaCall(RengaGraphAddAdd(graph, loss, y, &loss));
  }
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode Build(RengaGraph graph, const Case *test, int n_in, Input input[],
                            uint64_t *state)
{
  RengaValue in[MAX_INPUTS], out[MAX_OUTPUTS];
  RengaAttributes attributes = {0};
  RengaTensorSpec given = {.type = RENGA_FLOAT64};
  for (int i = 0; i < n_in; i++) {
    if (input[i].kind == 'f')
      RengaCall(
          RengaGraphAddParameter(graph, input[i].name, &input[i].spec, NULL, &input[i].value));
    else
      RengaCall(AddConstant(graph, &input[i], state));
    in[i] = input[i].value;
  }
  const char *text = test->given;
  if (text) ReadDimensions(&text, &given);
  RengaCall(ReadAttributes(test->attributes, &attributes));
  int least = RengaOperatorFind(test->op)->min_out;
  RengaCall(RengaGraphAddNode(graph, test->op, "tested", &attributes, n_in, in,
                              test->n_out > least ? test->n_out : least, text ? &given : NULL,
                              out));
  RengaCall(RengaAttributesFree(&attributes));
  RengaCall(AddLoss(graph, test->n_out, out, state));
  return RENGA_SUCCESS;
}

static RengaErrorCode LossAt(Execute *execute, RengaValue parameter, int64_t element, double number,
                             double *loss)
{
  RengaValue value;
  RengaCall(RengaGraphGetLoss(execute->graph, &value));
  double before = ExecuteGet(execute, parameter, element);
  ExecuteSet(execute, parameter, element, number);
  RengaCall(ExecuteRun(execute, true));
  *loss = ExecuteGet(execute, value, 0);
  ExecuteSet(execute, parameter, element, before);
  return RENGA_SUCCESS;
}

enum { MOST_ELEMENTS = 40 };

/* Central differences of the fourth order. */
static RengaErrorCode Difference(Execute *execute, RengaValue parameter, int64_t element,
                                 double *slope)
{
  const double h = 1e-4, x = ExecuteGet(execute, parameter, element);
  double loss[4];
  for (int i = 0; i < 4; i++) {
    double step = i < 2 ? i - 2 : i - 1;
    RengaCall(LossAt(execute, parameter, element, x + step * h, &loss[i]));
  }
  *slope = (loss[0] - 8 * loss[1] + 8 * loss[2] - loss[3]) / (12 * h);
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckUse(Execute *execute, const Case *test, const RengaParameterUse *use,
                               bool *good)
{
  int64_t count = ExecuteCountElements(execute, use->parameter);
  int64_t step = count / MOST_ELEMENTS + 1;
  for (int64_t i = 0; i < count; i += step) {
    double slope = 0, found = ExecuteGet(execute, use->gradient, i);
    RengaCall(Difference(execute, use->parameter, i, &slope));
    if (fabs(slope - found) <= 1e-7 * (1 + fabs(slope))) continue;
    fprintf(stderr, "%s %s %s: %s[%lld]: difference %.12g, gradient %.12g\n", test->op,
            test->attributes, test->inputs,
            RengaGraphGetValue(execute->graph, use->parameter)->name, (long long)i, slope, found);
    *good = false;
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckGradients(Execute *execute, const Case *test, int n_parameters,
                                     bool *good)
{
  const RengaParameterUse *use;
  int count;
  RengaCall(RengaGraphGetParameterUses(execute->graph, &count, &use));
  if (count != n_parameters) {
    fprintf(stderr, "%s %s: %d gradients of %d parameters\n", test->op, test->inputs, count,
            n_parameters);
    *good = false;
  }
  RengaCall(ExecuteRun(execute, false));
  for (int i = 0; i < count; i++) RengaCall(CheckUse(execute, test, &use[i], good));
  return RENGA_SUCCESS;
}

/* given_parameter: this input is a parameter instead of a constant; -1: as the case says. */
static RengaErrorCode BuildCase(RengaComm comm, const Case *test, int given_parameter,
                                Input input[], int *n_in, uint64_t *state, RengaGraph *graph)
{
  *n_in = ReadInputs(test->inputs, input);
  if (given_parameter >= 0) input[given_parameter].kind = 'f';
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(Build(*graph, test, *n_in, input, state));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetUpAndDifferentiate(RengaGraph graph)
{
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCase(RengaGraph graph, RengaDevice device, const Case *test, int n_in,
                                const Input input[], uint64_t seed, uint64_t *state, bool *good)
{
  Execute execute;
  int n_parameters = 0;
  RengaCall(ExecuteCreate(graph, device, 1, seed, &execute));
  for (int i = 0; i < n_in; i++) {
    if (input[i].kind != 'f') continue;
    n_parameters++;
    RengaValue value = RengaGraphFindValue(graph, input[i].name);
    int64_t count = ExecuteCountElements(&execute, value);
    for (int64_t j = 0; j < count; j++)
      ExecuteSet(&execute, value, j, Draw(state, input[i].low, input[i].high));
  }
  RengaCall(CheckGradients(&execute, test, n_parameters, good));
  RengaCall(ExecuteDestroy(&execute));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunCase(RengaComm comm, RengaDevice device, const Case *test, uint64_t seed,
                              bool *good)
{
  RengaGraph graph;
  Input input[MAX_INPUTS];
  uint64_t state = seed * 2654435761u + 12345;
  int n_in;
  RengaCall(BuildCase(comm, test, -1, input, &n_in, &state, &graph));
  RengaCall(SetUpAndDifferentiate(graph));
  RengaCall(CheckCase(graph, device, test, n_in, input, seed, &state, good));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A constant of the case becomes a parameter: it gets its gradient, or the node is refused. */
static RengaErrorCode RunFreed(RengaComm comm, RengaDevice device, const Case *test, int freed,
                               bool must_refuse, bool *good)
{
  RengaGraph graph;
  Input input[MAX_INPUTS];
  uint64_t state = 12345;
  int n_in;
  FILE *file;
  RengaCall(BuildCase(comm, test, freed, input, &n_in, &state, &graph));
  int saved = BeginErrors(&file);
  RengaErrorCode code = SetUpAndDifferentiate(graph);
  const char *text = EndErrors(file, saved);
  if (code == RENGA_SUCCESS && !must_refuse) {
    RengaCall(CheckCase(graph, device, test, n_in, input, 1, &state, good));
  } else if (code == RENGA_SUCCESS || !strstr(text, "node \"tested\"") || !strstr(text, test->op)) {
    fprintf(stderr, "%s %s: input %d is not refused by name: %s\n", test->op, test->inputs, freed,
            text);
    *good = false;
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunAllFreed(RengaComm comm, RengaDevice device, const Case *test, bool *good)
{
  Input input[MAX_INPUTS];
  int n_in = ReadInputs(test->inputs, input);
  for (int i = 0; i < n_in; i++)
    if (input[i].kind == 'c') RengaCall(RunFreed(comm, device, test, i, false, good));
  return RENGA_SUCCESS;
}

static bool IsFloatingLetter(char letter)
{
  return strchr("TUNMF", letter) != NULL;
}

static bool Tries(const Case *test, const char *op, int number)
{
  Input input[MAX_INPUTS];
  return strcmp(test->op, op) == 0 && ReadInputs(test->inputs, input) > number &&
         (input[number].kind == 'f' || input[number].kind == 'c');
}

static bool IsTried(const char *op, int number)
{
  for (int i = 0; i < N_CASES; i++)
    if (Tries(&cases[i], op, number)) return true;
  for (int i = 0; i < N_REFUSED; i++)
    if (Tries(&refused[i], op, number)) return true;
  for (int i = 0; i < N_CONSTANT; i++)
    if (strcmp(constant_pieces[i], op) == 0) return true;
  return false;
}

/* Each floating input of each operator with an output of its type stands in some case. Operators
   of gradients have no rules of their own. */
static bool IsComplete(void)
{
  bool complete = true;
  for (int i = 0; i < RengaOperatorCount(); i++) {
    const RengaOperator *op = RengaOperatorAt(i);
    const char *out = strchr(op->types, '>') + 1;
    int letters = (int)(out - op->types) - 1, most = op->max_in < 0 ? 2 : op->max_in;
    if (strstr(op->name, "Grad") || strchr("BZLIS", *out)) continue;
    for (int k = 0; k < most; k++) {
      if (!IsFloatingLetter(op->types[k < letters ? k : letters - 1]) || IsTried(op->name, k))
        continue;
      fprintf(stderr, "no case has input %d of %s\n", k, op->name);
      complete = false;
    }
  }
  return complete;
}

static RengaErrorCode RunAll(RengaComm comm, RengaDevice device, const Case *test, bool *good)
{
  for (uint64_t seed = 1; seed <= 2; seed++) {
    RengaErrorCode code = RunCase(comm, device, test, seed, good);
    if (code != RENGA_SUCCESS) fprintf(stderr, "%s %s failed\n", test->op, test->inputs);
    RengaCall(code);
  }
  RengaCall(RunAllFreed(comm, device, test, good));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaDevice device;
  int wrong = 0;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetType(device, RENGA_DEVICE_REF));
  RengaCall(RengaDeviceSetUp(device));
  for (int i = 0; i < N_CASES; i++) {
    bool good = true;
    RengaCall(RunAll(comm, device, &cases[i], &good));
    wrong += !good;
  }
  for (int i = 0; i < N_REFUSED; i++) {
    bool good = true;
    RengaCall(RunFreed(comm, device, &refused[i], -1, true, &good));
    wrong += !good;
  }
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  RengaCheck(wrong == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%d of %d gradients are wrong", wrong,
             (int)N_CASES);
  Expect(IsComplete());
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
