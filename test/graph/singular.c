/* TEST ranks: 1 */
/* Gradients at corners, ties, rows that are masked whole and numbers without end, against those of
   PyTorch in float64 (singular.txt, written by singular.py): on ref and cpu, or on the device that
   -device_type names alone (test/cuda/device.sh). Usage: singular [FILE] */
#include "../check.h"
#include "execute.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 16, MOST_NUMBERS = 256, LINE = 8192 };

typedef struct {
  char word[16], name[24];
  RengaTensorSpec spec;
  double number[MOST_NUMBERS];
} Line;

/* Numbers of a case: parameters, constants, weights, values and gradients. */
typedef struct {
  char title[128];
  RengaGraph graph;
  int n_lines, n_names;
  Line line[MOST_NAMES];
  struct {
    char name[24];
    RengaValue value;
  } named[2 * MOST_NAMES];
} Singular;

static void ReadShape(const char *text, RengaTensorSpec *spec)
{
  spec->ndim = 0;
  for (char *end; *text && *text != '-'; text = end + (*end == ','))
    spec->dim[spec->ndim++] = strtoll(text, &end, 10);
}

/* "WORD NAME TYPE SHAPE : numbers" */
static RengaErrorCode ReadNumbers(const char *text, Line *line)
{
  char type[16], shape[32];
  int at = 0;
  RengaCheck(sscanf(text, "%15s %23s %15s %31s : %n", line->word, line->name, type, shape, &at) ==
                     4 &&
                 at > 0,
             MPI_COMM_SELF, RENGA_ERR_INTERNAL, "not a line of numbers: %.60s", text);
  line->spec.type = strcmp(type, "int64") == 0  ? RENGA_INT64
                    : strcmp(type, "bool") == 0 ? RENGA_BOOL
                                                : RENGA_FLOAT32;
  ReadShape(shape, &line->spec);
  const int64_t count = RengaTensorSpecCount(&line->spec);
  RengaCheck(count <= MOST_NUMBERS, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%lld numbers",
             (long long)count);
  char *next = (char *)text + at, *end;
  for (int64_t i = 0; i < count; i++, next = end) {
    line->number[i] = strtod(next, &end);
    RengaCheck(end != next, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%lld numbers are missing: %.60s",
               (long long)(count - i), text);
  }
  return RENGA_SUCCESS;
}

static RengaValue *FindNamed(Singular *test, const char *name)
{
  for (int i = 0; i < test->n_names; i++)
    if (strcmp(test->named[i].name, name) == 0) return &test->named[i].value;
  snprintf(test->named[test->n_names].name, sizeof test->named[0].name, "%s", name);
  test->named[test->n_names].value = RENGA_VALUE_NONE;
  return &test->named[test->n_names++].value;
}

static RengaErrorCode AddNumbers(Singular *test, const Line *line)
{
  union {
    float real[MOST_NUMBERS];
    int64_t integer[MOST_NUMBERS];
    unsigned char truth[MOST_NUMBERS];
  } data;
  for (int64_t i = 0; i < RengaTensorSpecCount(&line->spec); i++)
    if (line->spec.type == RENGA_INT64)
      data.integer[i] = (int64_t)line->number[i];
    else if (line->spec.type == RENGA_BOOL)
      data.truth[i] = line->number[i] != 0;
    else
      data.real[i] = (float)line->number[i];
  const char *name = strcmp(line->word, "weights") == 0 ? "weights of y" : line->name;
  RengaValue *value = FindNamed(test, name);
  if (strcmp(line->word, "parameter") == 0)
    RengaCall(RengaGraphAddParameter(test->graph, name, &line->spec, NULL, value));
  else
    RengaCall(RengaGraphAddConstant(test->graph, name, &line->spec, &data, value));
  return RENGA_SUCCESS;
}

static RengaErrorCode SetAttribute(char *word, RengaAttributes *attributes, RengaTensorSpec *given)
{
  char *kind = strchr(word, ':'), *value = strchr(word, '=');
  if (strncmp(word, "given=", 6) == 0) {
    ReadShape(word + 6, given);
    return RENGA_SUCCESS;
  }
  RengaCheck(kind && value, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "\"%s\" is no attribute", word);
  *kind++ = *value++ = '\0';
  if (strncmp(kind, "ints", 4) == 0) {
    RengaTensorSpec ints;
    ReadShape(value, &ints);
    RengaCall(RengaAttributesSetInts(attributes, word, ints.ndim, ints.dim));
  } else if (strncmp(kind, "int", 3) == 0) {
    RengaCall(RengaAttributesSetInt(attributes, word, strtoll(value, NULL, 10)));
  } else {
    RengaCall(RengaAttributesSetReal(attributes, word, strtod(value, NULL)));
  }
  return RENGA_SUCCESS;
}

/* "node OPERATOR name:kind=value ... : inputs = outputs" */
static RengaErrorCode AddNode(Singular *test, char *text)
{
  RengaAttributes attributes = {0};
  RengaTensorSpec given = {.type = RENGA_FLOAT32, .ndim = -1};
  RengaValue in[MOST_NAMES], out[MOST_NAMES];
  char *rest = NULL, *op = (strtok_r(text, " ", &rest), strtok_r(NULL, " ", &rest)), *word;
  int n_in = 0, n_out = 0;
  while ((word = strtok_r(NULL, " \n", &rest)) && strcmp(word, ":") != 0)
    RengaCall(SetAttribute(word, &attributes, &given));
  while ((word = strtok_r(NULL, " \n", &rest)) && strcmp(word, "=") != 0)
    in[n_in++] = *FindNamed(test, word);
  char *names = rest, name[24];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(names, " \n"), names);
  for (const char *c = names; *c > ' '; c += strspn(c, " \n"), n_out++) c += strcspn(c, " \n");
  RengaCall(RengaGraphAddNode(test->graph, op, name, &attributes, n_in, in, n_out,
                              given.ndim >= 0 ? &given : NULL, out));
  for (int i = 0; i < n_out; i++)
    *FindNamed(test, strtok_r(i ? NULL : names, " \n", &rest)) = out[i];
  RengaCall(RengaAttributesFree(&attributes));
  return RENGA_SUCCESS;
}

/* loss = sum of weights * y */
static RengaErrorCode AddLoss(Singular *test)
{
  RengaValue in[2] = {*FindNamed(test, "y"), *FindNamed(test, "weights of y")}, loss;
  RengaAttributes attributes = {0};
  RengaCall(RengaGraphAddNode(test->graph, "Mul", NULL, NULL, 2, in, 1, NULL, &loss));
  RengaCall(RengaAttributesSetInt(&attributes, "keepdims", 0));
  RengaCall(RengaGraphAddNode(test->graph, "ReduceSum", NULL, &attributes, 1, &loss, 1, NULL, in));
  RengaCall(RengaAttributesFree(&attributes));
  RengaCall(RengaGraphSetLoss(test->graph, in[0]));
  RengaCall(RengaGraphSetUp(test->graph));
  RengaCall(RengaGraphDifferentiate(test->graph, 0, NULL, NULL, 0, NULL, NULL));
  return RENGA_SUCCESS;
}

/* Element i of a value, or of the gradient of a parameter that several nodes may read. */
static double Found(const Singular *test, const Execute *execute, const Line *line, int64_t i)
{
  const RengaParameterUse *use;
  int count;
  double sum = 0;
  const RengaValue value = RengaGraphFindValue(test->graph, line->name);
  if (strcmp(line->word, "value") == 0) return ExecuteGet(execute, value, i);
  RengaGraphGetParameterUses(test->graph, &count, &use);
  for (int u = 0; u < count; u++)
    if (use[u].parameter == value) sum += ExecuteGet(execute, use[u].gradient, i);
  return sum;
}

/* Within what float32 rounds, of the largest; what is infinite or no number is so in both. */
static bool IsNear(const Singular *test, const Execute *execute, const Line *line,
                   const char *device)
{
  const int64_t count = RengaTensorSpecCount(&line->spec);
  double largest = 0.25;
  for (int64_t i = 0; i < count; i++)
    if (isfinite(line->number[i])) largest = fmax(largest, fabs(line->number[i]));
  for (int64_t i = 0; i < count; i++) {
    const double want = line->number[i], got = Found(test, execute, line, i);
    if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= 1e-5 * largest) continue;
    fprintf(stderr, "%s, %s: %s of %s[%lld] is %.9g, and PyTorch's %.9g\n", test->title, device,
            line->word, line->name, (long long)i, got, want);
    return false;
  }
  return true;
}

static RengaErrorCode RunOn(Singular *test, RengaDevice device, const char *name, int *wrong)
{
  Execute execute;
  RengaCall(ExecuteCreate(test->graph, device, 1, 1, &execute));
  for (int i = 0; i < test->n_lines; i++) {
    const Line *line = &test->line[i];
    const RengaValue value = RengaGraphFindValue(test->graph, line->name);
    for (int64_t k = 0; k < RengaTensorSpecCount(&line->spec); k++)
      if (strcmp(line->word, "parameter") == 0) ExecuteSet(&execute, value, k, line->number[k]);
  }
  RengaCall(ExecuteRun(&execute, false));
  for (int i = 0; i < test->n_lines; i++) {
    const Line *line = &test->line[i];
    if (strcmp(line->word, "value") == 0 || strcmp(line->word, "gradient") == 0)
      *wrong += !IsNear(test, &execute, line, name);
  }
  RengaCall(ExecuteDestroy(&execute));
  return RENGA_SUCCESS;
}

/* Lines up to the next case; false: there is none. */
static RengaErrorCode ReadCase(FILE *file, RengaComm comm, Singular *test, bool *found)
{
  static char text[LINE];
  memset(test, 0, sizeof *test);
  *found = false;
  while (fgets(text, sizeof text, file) && !(*found && *text == '\n')) {
    if (strncmp(text, "case ", 5) == 0) {
      snprintf(test->title, sizeof test->title, "%.*s", (int)strcspn(text + 5, "\n"), text + 5);
      RengaCall(RengaGraphCreate(comm, &test->graph));
      *found = true;
    } else if (strncmp(text, "node ", 5) == 0) {
      RengaCall(AddNode(test, text));
    } else if (*found) {
      Line *line = &test->line[test->n_lines++];
      RengaCall(ReadNumbers(text, line));
      if (strcmp(line->word, "value") != 0 && strcmp(line->word, "gradient") != 0)
        RengaCall(AddNumbers(test, line));
    }
  }
  if (*found) RengaCall(AddLoss(test));
  return RENGA_SUCCESS;
}

static RengaErrorCode CreateDevice(RengaComm comm, const char *type, RengaDevice *device)
{
  RengaCall(RengaDeviceCreate(comm, device));
  if (type)
    RengaCall(RengaDeviceSetType(*device, type));
  else
    RengaCall(RengaDeviceSetFromOptions(*device));
  RengaCall(RengaDeviceSetUp(*device));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(const char *path)
{
  static Singular test;
  RengaComm comm;
  RengaDevice device[2];
  const char *names[2] = {RENGA_DEVICE_REF, RENGA_DEVICE_CPU};
  const char *type;
  bool one = false, found;
  int wrong = 0, cases = 0;
  RengaCall(RengaOptionsGetString("device_type", &type, &one));
  if (one) names[0] = NULL;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int d = 0; d < (one ? 1 : 2); d++) RengaCall(CreateDevice(comm, names[d], &device[d]));
  FILE *file = fopen(path, "r");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s cannot be read", path);
  for (;;) {
    RengaCall(ReadCase(file, comm, &test, &found));
    if (!found) break;
    cases++;
    for (int d = 0; d < (one ? 1 : 2); d++)
      RengaCall(RunOn(&test, device[d], names[d] ? names[d] : "this device", &wrong));
    RengaCall(RengaGraphDestroy(&test.graph));
  }
  fclose(file);
  for (int d = 0; d < (one ? 1 : 2); d++) RengaCall(RengaDeviceDestroy(&device[d]));
  RengaCall(RengaCommDestroy(&comm));
  RengaCheck(wrong == 0 && cases > 50, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%d tensors of %d cases are wrong", wrong, cases);
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  char path[1024];
  const char *source = getenv("top_srcdir");
  snprintf(path, sizeof path, "%s/test/graph/singular.txt", source ? source : ".");
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run(argc > 1 && argv[1][0] != '-' ? argv[1] : path));
  RengaCallAbort(RengaFinalize());
  return 0;
}
