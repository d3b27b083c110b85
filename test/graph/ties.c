/* TEST ranks: 1 */
/* Gradients where they are not unique, as PyTorch has them: at the bounds of a clamp, of equal
   maxima. On the ref and the cpu device. */
#include "../check.h"
#include "execute.h"
#include <stdlib.h>
#include <string.h>

enum { COUNT = 4, TIES_MAX = 2 };
/* Parameters of four numbers; the loss is the sum of y, each element times its number from 1. */
static const struct {
  const char *name, *op;
  int ndim;
  int64_t dim[RENGA_MAX_DIM];
  int n_in;
  float in[TIES_MAX][COUNT], slope[TIES_MAX][COUNT];
  const char *attributes; /* "name=1 …" */
  const char *axes;
} ties[] = {
    {"bounds of a clamp", "Clip", 1, {4}, 1, {{-1, 0, 6, 7}}, {{0, 0, 0, 0}}, "min=0 max=6", NULL},
    {"inside of a clamp", "Clip", 1, {4}, 1, {{0, 1, 2, 3}}, {{0, 2, 3, 4}}, "min=0", NULL},
    {"the larger of two",
     "Max",
     1,
     {4},
     2,
     {{1, 2, 3, 0}, {1, 1, 3, 4}},
     {{0.5f, 2, 1.5f, 0}, {0.5f, 0, 1.5f, 4}},
     "",
     NULL},
    {"the smaller of two",
     "Min",
     1,
     {4},
     2,
     {{1, 2, 3, 0}, {1, 1, 3, 4}},
     {{0.5f, 0, 1.5f, 4}, {0.5f, 2, 1.5f, 0}},
     "",
     NULL},
    {"shared maxima", "ReduceMax", 2, {2, 2}, 1, {{5, 5, 1, 2}}, {{0.5f, 0.5f, 0, 2}}, "", "1"},
    {"first maxima", "ReduceMax", 2, {2, 2}, 1, {{5, 5, 2, 2}}, {{1, 0, 2, 0}}, "first=1", "1"},
    {"first minima", "ReduceMin", 2, {2, 2}, 1, {{5, 1, 5, 1}}, {{1, 2, 0, 0}}, "first=1", "0"},
    {"first maxima of two dimensions",
     "ReduceMax",
     3,
     {1, 2, 2},
     1,
     {{2, 7, 7, 1}},
     {{0, 1, 0, 0}},
     "first=1 keepdims=0",
     "12"},
};

static RengaErrorCode SetAttributes(const char *text, const char *axes, RengaAttributes *attributes)
{
  char copy[64], *rest = NULL;
  int64_t axis[RENGA_MAX_DIM];
  int count = 0;
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(word, '=');
    *value++ = '\0';
    if (strcmp(word, "min") == 0 || strcmp(word, "max") == 0)
      RengaCall(RengaAttributesSetReal(attributes, word, atof(value)));
    else
      RengaCall(RengaAttributesSetInt(attributes, word, atoi(value)));
  }
  for (; axes && axes[count]; count++) axis[count] = axes[count] - '0';
  if (axes) RengaCall(RengaAttributesSetInts(attributes, "axes", count, axis));
  return RENGA_SUCCESS;
}

static RengaErrorCode BuildTie(RengaGraph graph, int row, RengaValue in[])
{
  static const float numbers[COUNT] = {1, 2, 3, 4};
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = ties[row].ndim};
  RengaAttributes attributes = {0}, sum = {0};
  RengaValue pair[2], product, loss;
  memcpy(spec.dim, ties[row].dim, sizeof spec.dim);
  for (int i = 0; i < ties[row].n_in; i++)
    RengaCall(RengaGraphAddParameter(graph, i == 0 ? "a" : "b", &spec, NULL, &in[i]));
  RengaCall(SetAttributes(ties[row].attributes, ties[row].axes, &attributes));
  RengaCall(RengaGraphAddNode(graph, ties[row].op, "tested", &attributes, ties[row].n_in, in, 1,
                              NULL, &pair[0]));
  RengaCall(RengaAttributesFree(&attributes));
  spec = RengaGraphGetValue(graph, pair[0])->spec;
  RengaCall(RengaGraphAddConstant(graph, "numbers", &spec, numbers, &pair[1]));
  RengaCall(RengaGraphAddNode(graph, "Mul", NULL, NULL, 2, pair, 1, NULL, &product));
  RengaCall(RengaAttributesSetInt(&sum, "keepdims", 0));
  RengaCall(RengaGraphAddNode(graph, "ReduceSum", NULL, &sum, 1, &product, 1, NULL, &loss));
  RengaCall(RengaAttributesFree(&sum));
  RengaCall(RengaGraphSetLoss(graph, loss));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckTie(RengaGraph graph, RengaDevice device, int row)
{
  const RengaParameterUse *use;
  Execute execute;
  int count;
  RengaCall(RengaGraphGetParameterUses(graph, &count, &use));
  Expect(count == ties[row].n_in);
  RengaCall(ExecuteCreate(graph, device, 1, 1, &execute));
  for (int i = 0; i < count; i++)
    for (int k = 0; k < COUNT; k++) {
      const int input = RengaGraphGetValue(graph, use[i].parameter)->name[0] - 'a';
      ExecuteSet(&execute, use[i].parameter, k, (double)ties[row].in[input][k]);
    }
  RengaCall(ExecuteRun(&execute, false));
  for (int i = 0; i < count; i++)
    for (int k = 0; k < COUNT; k++) {
      const int input = RengaGraphGetValue(graph, use[i].parameter)->name[0] - 'a';
      const double found = ExecuteGet(&execute, use[i].gradient, k);
      RengaCheck((float)found == ties[row].slope[input][k], MPI_COMM_SELF, RENGA_ERR_INTERNAL,
                 "%s: gradient %d of input %d is %g, not %g", ties[row].name, k, input, found,
                 (double)ties[row].slope[input][k]);
    }
  RengaCall(ExecuteDestroy(&execute));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const char *const devices[] = {"ref", "cpu"};
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (int d = 0; d < 2; d++)
    for (int i = 0; i < (int)(sizeof ties / sizeof *ties); i++) {
      RengaDevice device;
      RengaGraph graph;
      RengaValue in[TIES_MAX];
      RengaCall(RengaDeviceCreate(comm, &device));
      RengaCall(RengaDeviceSetType(device, devices[d]));
      RengaCall(RengaDeviceSetUp(device));
      RengaCall(RengaGraphCreate(comm, &graph));
      RengaCall(BuildTie(graph, i, in));
      RengaCall(RengaGraphSetUp(graph));
      RengaCall(RengaGraphDifferentiate(graph, 0, NULL, NULL, 0, NULL, NULL));
      RengaCall(CheckTie(graph, device, i));
      RengaCall(RengaGraphDestroy(&graph));
      RengaCall(RengaDeviceDestroy(&device));
    }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
