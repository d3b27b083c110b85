/* TEST ranks: 1 2 */
/* Divided networks: names and widths of the parts, what is shared, the outputs; a network in one
   part is the network; what is refused. */
#include "../check.h"
#include "rengacomm.h"
#include "rengagraph.h"
#include <string.h>

static RengaErrorCode Load(RengaComm comm, const char *what, int64_t parts, double weight,
                           RengaGraph *graph)
{
  RengaCall(RengaGraphCreate(comm, graph));
  RengaCall(RengaGraphSetDivision(*graph, &(RengaGraphDivision){parts, weight}));
  RengaCall(RengaGraphLoad(*graph, what));
  RengaCall(RengaGraphSetUp(*graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckShape(RengaGraph graph, const char *name, int ndim, const int64_t dim[])
{
  const RengaValue v = RengaGraphFindValue(graph, name);
  Expect(v >= 0);
  const RengaTensorSpec *spec = &RengaGraphGetValue(graph, v)->spec;
  Expect(spec->ndim == ndim && memcmp(spec->dim, dim, (size_t)ndim * sizeof *dim) == 0);
  return RENGA_SUCCESS;
}

static int CountKind(RengaGraph graph, RengaValueKind kind)
{
  int count = 0;
  for (int v = 0; v < RengaGraphGetValueCount(graph); v++)
    count += RengaGraphGetValue(graph, v)->kind == kind;
  return count;
}

static RengaErrorCode CheckParts(RengaComm comm)
{
  RengaGraph graph;
  RengaGraphDivision division;
  const RengaValue *outputs;
  RengaValue loss;
  int count;
  RengaCall(Load(comm, "mlp:sizes=8-16-12-4", 4, 0.5, &graph));
  RengaCall(CheckShape(graph, "models.0.l.0.weight", 2, (const int64_t[]){8, 8}));
  RengaCall(CheckShape(graph, "models.3.l.1.weight", 2, (const int64_t[]){6, 8}));
  RengaCall(CheckShape(graph, "models.3.l.2.bias", 1, (const int64_t[]){4}));
  RengaCall(CheckShape(graph, RENGA_GRAPH_MEAN_OF_PARTS, 2, (const int64_t[]){-1, 4}));
  Expect(RengaGraphFindValue(graph, "l.0.weight") == RENGA_VALUE_NONE);
  Expect(RengaGraphFindValue(graph, "models.4.l.0.weight") == RENGA_VALUE_NONE);
  Expect(CountKind(graph, RENGA_VALUE_INPUT) == 2);
  Expect(CountKind(graph, RENGA_VALUE_PARAMETER) == 4 * 6);
  RengaCall(RengaGraphGetOutputs(graph, &count, &outputs));
  RengaCall(RengaGraphGetLoss(graph, &loss));
  Expect(count == 2 && outputs[0] == loss &&
         strcmp(RengaGraphGetValue(graph, loss)->name, "loss") == 0);
  RengaCall(RengaGraphGetDivision(graph, &division));
  Expect(division.parts == 4 && division.weight == 0.5);
  RengaCall(RengaGraphDestroy(&graph));
  /* Heads are fewer where their number can be divided, else narrower. */
  RengaCall(Load(comm, "gpt:layers=1,hidden=32,heads=4,sequence=8,vocabulary=16", 4, 0.5, &graph));
  RengaCall(CheckShape(graph, "models.1.blocks.0.qkv.weight", 2, (const int64_t[]){48, 16}));
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(Load(comm, "gpt:layers=1,hidden=32,heads=4,sequence=8,vocabulary=16", 2, 0.5, &graph));
  RengaCall(CheckShape(graph, "models.1.blocks.0.qkv.weight", 2, (const int64_t[]){72, 24}));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckWhole(RengaComm comm)
{
  RengaGraph one, plain;
  RengaGraphDivision division;
  RengaCall(Load(comm, "mlp:sizes=8-16-4", 1, 3, &one));
  RengaCall(RengaGraphCreate(comm, &plain));
  RengaCall(RengaGraphGetDivision(plain, &division));
  Expect(division.parts == 1);
  RengaCall(RengaGraphLoad(plain, "mlp:sizes=8-16-4"));
  RengaCall(RengaGraphSetUp(plain));
  Expect(RengaGraphGetDigest(one) == RengaGraphGetDigest(plain));
  RengaCall(RengaGraphDestroy(&one));
  RengaCall(RengaGraphDestroy(&plain));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefusals(RengaComm comm)
{
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  ExpectError(RengaGraphSetDivision(graph, &(RengaGraphDivision){0, 0.5}), RENGA_ERR_ARGUMENT,
              "0 parts");
  ExpectError(RengaGraphSetDivision(graph, &(RengaGraphDivision){2, -1}), RENGA_ERR_ARGUMENT,
              "weight -1");
  RengaCall(RengaGraphSetDivision(graph, &(RengaGraphDivision){2, 1}));
  ExpectError(RengaGraphLoad(graph, "llama"), RENGA_ERR_SUPPORT,
              RengaCommGetRank(comm) == 0 ? "llama cannot be divided" : "");
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=8-4"));
  ExpectError(RengaGraphSetDivision(graph, &(RengaGraphDivision){2, 1}), RENGA_ERR_ORDER,
              "before RengaGraphLoad");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaComm comm;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(CheckParts(comm));
  RengaCall(CheckWhole(comm));
  RengaCall(CheckRefusals(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
