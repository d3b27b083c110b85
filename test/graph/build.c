/* TEST ranks: 1 */
/* Builders and shapes while the batch is open: parameters by formula, errors that name the place. */
#include <renga.h>
#include <string.h>

static int failures;

static void Expect(bool condition, const char *what)
{
  if (condition) return;
  fprintf(stderr, "wrong: %s\n", what);
  failures++;
}

static RengaErrorCode CheckParameters(RengaComm comm, const char *what, int64_t expected)
{
  RengaGraph graph;
  RengaGraphTotals totals;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, what));
  RengaCall(RengaGraphGetTotals(graph, &totals));
  if (totals.parameters != expected) fprintf(stderr, "%lld: ", (long long)totals.parameters);
  Expect(totals.parameters == expected, what);
  Expect(totals.forward_flops > 2.0, "flops");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBuilders(RengaComm comm)
{
  int64_t d = 64, layers = 2, v = 512, t = 32;
  int64_t block = 12 * d * d + 13 * d, rest = (v + t) * d + 2 * d;
  RengaCall(CheckParameters(comm, "gpt:layers=2,hidden=64,heads=4,sequence=32,vocabulary=512",
                            layers * block + rest));
  RengaCall(CheckParameters(comm, "gpt:layers=2,hidden=64,heads=4,sequence=32,vocabulary=512,tied=0",
                            layers * block + rest + v * d));
  RengaCall(CheckParameters(comm, "gpt", 124439808)); /* as published for GPT-2 */
  RengaCall(CheckParameters(comm, "mlp:sizes=64-128-128-10", 65 * 128 + 129 * 128 + 129 * 10));
  RengaCall(CheckParameters(comm, "resnet:depth=50", 25557032));
  RengaCall(CheckParameters(comm, "resnet:depth=18", 11689512));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckSpecs(RengaComm comm)
{
  RengaGraph graph;
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {-1, 6, 4}};
  RengaValue x, y, z;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", &spec, &x));
  RengaCall(RengaGraphAddReshape(graph, x, 2, (const int64_t[]){-6, 4}, &y));
  RengaCall(RengaGraphAddTranspose(graph, y, (const int64_t[]){1, 0}, &z));
  const RengaTensorSpec *found = &RengaGraphGetValue(graph, z)->spec;
  Expect(found->dim[0] == 4 && found->dim[1] == -6, "transposed batch");
  RengaCall(RengaGraphAddAttention(graph, x, x, x, true, 0, &z));
  Expect(RengaGraphFindValue(graph, "x") == x, "find x");
  Expect(RengaGraphFindValue(graph, "no such") == RENGA_VALUE_NONE, "find nothing");
  RengaValue in[2] = {x, y}, out;
  Expect(RengaGraphAddNode(graph, "Add", "bad", NULL, 2, in, 1, NULL, &out) != RENGA_SUCCESS,
         "shapes that do not broadcast");
  in[1] = 1000;
  Expect(RengaGraphAddNode(graph, "Add", NULL, NULL, 2, in, 1, NULL, &out) != RENGA_SUCCESS,
         "a value that is not there");
  Expect(RengaGraphAddNode(graph, "Ad", NULL, NULL, 1, in, 1, NULL, &out) != RENGA_SUCCESS,
         "an operator that is not there");
  Expect(RengaGraphAddInput(graph, "x", &spec, &y) != RENGA_SUCCESS, "a name twice");
  spec.dim[1] = -2;
  Expect(RengaGraphAddInput(graph, "w", &spec, &y) != RENGA_SUCCESS, "two batches");
  in[0] = in[1] = x;
  Expect(RengaGraphAddNode(graph, "Concat", NULL, NULL, 2, in, 1, NULL, &out) == RENGA_SUCCESS,
         "twice the batch");
  Expect(RengaGraphGetValue(graph, out)->spec.dim[0] == -2, "2N");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckLoadErrors(RengaComm comm)
{
  static const char *const wrong[] = {"gtp:layers=2", "gpt:layer=2", "gpt:layers=x", "gpt:layers",
                                      "gpt:hidden=100,heads=3", "mlp:sizes=7-x", "resnet:depth=19"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    RengaGraph graph;
    RengaCall(RengaGraphCreate(comm, &graph));
    Expect(RengaGraphLoad(graph, wrong[i]) != RENGA_SUCCESS, wrong[i]);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckInitialize(RengaComm comm)
{
  RengaGraph graph;
  float whole[64], part[8];
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=8-8-2"));
  RengaValue w = RengaGraphFindValue(graph, "l.0.weight");
  RengaCall(RengaGraphInitializeValue(graph, w, 7, 0, 64, whole));
  RengaCall(RengaGraphInitializeValue(graph, w, 7, 13, 8, part));
  Expect(memcmp(whole + 13, part, sizeof part) == 0, "a part of the first values");
  RengaCall(RengaGraphInitializeValue(graph, w, 8, 13, 8, part));
  Expect(memcmp(whole + 13, part, sizeof part) != 0, "another seed");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckBuilders(comm));
  RengaCall(CheckSpecs(comm));
  RengaCall(CheckLoadErrors(comm));
  RengaCall(CheckInitialize(comm));
  RengaCall(RengaCommDestroy(&comm));
  RengaCheck(failures == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%d checks failed", failures);
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
