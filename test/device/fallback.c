/* TEST ranks: 1 */
/* No operator of the networks that are built in, or of the reference files, where they are there,
   falls back on the ref device: forward and backward, at two batch sizes. */
#include "../check.h"
#include "renga/private/kernel.h"
#include "rengacomm.h"
#include "rengadevice.h"
#include "rengagraph.h"
#include <glob.h>
#include <stdlib.h>

enum { MOST = 64 };

static RengaErrorCode CheckNode(RengaDevice device, RengaGraph graph, const char *network, int n,
                                int64_t batch, int *missing)
{
  const RengaGraphNode *node = RengaGraphGetNode(graph, n);
  RengaTensorSpec in[MOST], out[MOST], absent = {.ndim = -1};
  if (node->op->flags & RENGA_OP_BATCH_SUM) return RENGA_SUCCESS; /* the runtime's own */
  Expect(node->n_in <= MOST && node->n_out <= MOST);
  for (int i = 0; i < node->n_in; i++)
    in[i] = node->in[i] < 0
                ? absent
                : RengaTensorSpecAt(&RengaGraphGetValue(graph, node->in[i])->spec, batch);
  for (int i = 0; i < node->n_out; i++)
    out[i] = node->out[i] < 0
                 ? absent
                 : RengaTensorSpecAt(&RengaGraphGetValue(graph, node->out[i])->spec, batch);
  RengaOpCall call = {node->op, &node->attributes, node->n_in, node->n_out, in, out};
  RengaKernel kernel = NULL;
  RengaCall(RengaKernelCreate(device, &call, &kernel));
  if (RengaKernelIsFallback(kernel)) {
    char text[128];
    RengaTensorSpecFormat(node->n_in ? &in[0] : &out[0], sizeof text, text);
    printf("%s: no cpu kernel for %s of %s (%s)\n", network, node->op->name, text, node->name);
    ++*missing;
  }
  RengaCall(RengaKernelDestroy(&kernel));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckNetwork(RengaComm comm, RengaDevice device, const char *network,
                                   int *missing)
{
  RengaGraph graph = NULL, whole = NULL;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, network));
  RengaCall(RengaGraphSetUp(graph));
  RengaCall(RengaGraphGetSubgraph(graph, 0, RengaGraphGetNodeCount(graph), &whole));
  RengaCall(RengaGraphDifferentiate(whole, 0, NULL, NULL, 0, NULL, NULL));
  for (int n = 0; n < RengaGraphGetNodeCount(whole); n++)
    for (int64_t batch = 1; batch <= 3; batch += 2)
      RengaCall(CheckNode(device, whole, network, n, batch, missing));
  RengaCall(RengaGraphDestroy(&whole));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* The files of ../shared/reference, or of the folder in RENGA_REFERENCE. */
static RengaErrorCode CheckFiles(RengaComm comm, RengaDevice device, int *missing)
{
  static const char *const kinds[] = {"gpt_micro*",      "mlp_small*", "resnet18_small*",
                                      "resnet50_small*", "bert_tiny*", "t5_tiny*",
                                      "nmt_tiny*",       "ncf_tiny*"};
  const char *given = getenv("RENGA_REFERENCE"), *top = getenv("top_srcdir");
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    char pattern[1024];
    glob_t files;
    snprintf(pattern, sizeof pattern, "%s%s/onnx/%s.onnx",
             given ? given
             : top ? top
                   : ".",
             given ? "" : "/../shared/reference", kinds[k]);
    if (glob(pattern, 0, NULL, &files) != 0) continue;
    for (size_t f = 0; f < files.gl_pathc; f++)
      RengaCall(CheckNetwork(comm, device, files.gl_pathv[f], missing));
    globfree(&files);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  static const char *const networks[] = {
      "gpt:layers=2,hidden=32,heads=2,sequence=8,vocabulary=50",
      "mlp",
      "resnet:depth=18,image=32",
      "resnet:depth=50,image=32",
      "bert:layers=2,hidden=32,sequence=8,dropout=0.1,next_sentence=1",
      "transformer:layers=2,hidden=32,sequence=8,dropout=0.1",
      "transformer:layers=1,hidden=32,smoothing=0.1,prenorm=1,tied=0",
      "t5:layers=2,hidden=32,sequence=8,dropout=0.1",
      "t5:layers=1,hidden=32,sequence=8,gated=1,padding=0",
      "ncf:users=90,items=70"};
  RengaComm comm = NULL;
  RengaDevice device = NULL;
  int missing = 0;
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(RengaDeviceCreate(comm, &device));
  RengaCall(RengaDeviceSetThreads(device, 1));
  RengaCall(RengaDeviceSetUp(device));
  for (size_t n = 0; n < sizeof networks / sizeof *networks; n++)
    RengaCall(CheckNetwork(comm, device, networks[n], &missing));
  RengaCall(CheckFiles(comm, device, &missing));
  Expect(missing == 0);
  RengaCall(RengaDeviceDestroy(&device));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
