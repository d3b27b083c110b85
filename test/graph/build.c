/* TEST ranks: 1 */
/* Builders and shapes while the batch is open: parameters by formula, errors that name the
   place. */
#include "../plan/plantest.h"
#include "renga/private/graph.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static RengaErrorCode CheckParameters(RengaComm comm, const char *what, int64_t expected)
{
  RengaGraph graph;
  RengaGraphTotals totals;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, what));
  RengaCall(RengaGraphGetTotals(graph, &totals));
  TestTrue(totals.parameters == expected);
  TestTrue(totals.forward_flops >= (double)expected);
  TestTrue(RengaGraphGetDigest(graph) != 0);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckBuilders(RengaComm comm)
{
  int64_t d = 64, layers = 2, v = 512, t = 32;
  int64_t block = 12 * d * d + 13 * d, rest = (v + t) * d + 2 * d;
  RengaCall(CheckParameters(comm, "gpt:layers=2,hidden=64,heads=4,sequence=32,vocabulary=512",
                            layers * block + rest));
  RengaCall(CheckParameters(comm,
                            "gpt:layers=2,hidden=64,heads=4,sequence=32,vocabulary=512,tied=0",
                            layers * block + rest + v * d));
  RengaCall(CheckParameters(comm, "gpt", 124439808)); /* as published for GPT-2 */
  RengaCall(CheckParameters(comm, "mlp:sizes=64-128-128-10", 65 * 128 + 129 * 128 + 129 * 10));
  RengaCall(CheckParameters(comm, "mlp:sizes=5-7-2,activation=gelu,loss=mse", 6 * 7 + 8 * 2));
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
  TestTrue(found->dim[0] == 4 && found->dim[1] == -6);
  RengaCall(RengaGraphAddAttention(graph, x, x, x, true, 0, &z));
  TestTrue(RengaGraphFindValue(graph, "x") == x);
  TestTrue(RengaGraphFindValue(graph, "no such") == RENGA_VALUE_NONE);
  RengaValue in[2] = {x, y}, out;
  TestError(RengaGraphAddNode(graph, "Add", "bad", NULL, 2, in, 1, NULL, &out), RENGA_ERR_SHAPE,
            "node \"bad\": Add(float32[N,6,4], float32[6N,4])");
  in[1] = 1000;
  TestError(RengaGraphAddNode(graph, "Add", NULL, NULL, 2, in, 1, NULL, &out), RENGA_ERR_ARGUMENT,
            "there is no value 1000");
  TestError(RengaGraphAddNode(graph, "Ad", NULL, NULL, 1, in, 1, NULL, &out), RENGA_ERR_SUPPORT,
            "did you mean Add?");
  TestError(RengaGraphAddInput(graph, "x", &spec, &y), RENGA_ERR_GRAPH, "two values named \"x\"");
  spec.dim[1] = -2;
  TestError(RengaGraphAddInput(graph, "w", &spec, &y), RENGA_ERR_SHAPE, "at most one may");
  in[0] = in[1] = x;
  RengaCall(RengaGraphAddNode(graph, "Concat", NULL, NULL, 2, in, 1, NULL, &out));
  TestTrue(RengaGraphGetValue(graph, out)->spec.dim[0] == -2);
  RengaTensorSpec one = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {1, 6, 4}};
  float zeros[24] = {0};
  RengaCall(RengaGraphAddConstant(graph, NULL, &one, zeros, &in[1]));
  TestError(RengaGraphAddNode(graph, "Concat", NULL, NULL, 2, in, 1, NULL, &out), RENGA_ERR_SHAPE,
            "neither constant nor a multiple of the batch");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static const struct {
  const char *what;
  RengaErrorCode code;
  const char *message;
} wrong[] = {
    {"gtp:layers=2", RENGA_ERR_OPTION, "did you mean gpt?"},
    {"gpt:layer=2", RENGA_ERR_OPTION, "did you mean layers?"},
    {"gpt:layers=x", RENGA_ERR_OPTION, "layers=x must be a number from 1"},
    {"gpt:layers", RENGA_ERR_OPTION, "\"layers\" is not name=value"},
    {"gpt:hidden=100,heads=3", RENGA_ERR_OPTION, "no multiple of heads=3"},
    {"bert:hidden=100,heads=3", RENGA_ERR_OPTION, "bert: hidden=100 is no multiple of heads=3"},
    {"bert:padding=2", RENGA_ERR_OPTION, "bert: padding=2 must be a number from 0 to 1"},
    {"bert:segment=2", RENGA_ERR_OPTION, "did you mean segments?; it has layers, hidden, heads"},
    {"ncf:layers=7-3", RENGA_ERR_OPTION, "ncf: layers=7-3 must begin with an even width"},
    {"ncf:layers=", RENGA_ERR_OPTION, "must begin with an even width"},
    {"ncf:layers=8-0", RENGA_ERR_OPTION,
     "layers=8-0 must be at most 128 widths from 1 to 100000000"},
    {"t5:buckets=8,distance=4", RENGA_ERR_OPTION, "distance=4 must be above half of buckets=8"},
    {"t5:sequence=8193", RENGA_ERR_OPTION, "t5: sequence=8193 must be a number from 1 to 8192"},
    {"bert:layers=100001", RENGA_ERR_OPTION, "layers=100001 must be a number from 1 to 100000"},
    {"t5:heads=-1", RENGA_ERR_OPTION, "t5: heads=-1 must be a number from 0"},
    {"transformer:hidden=10,heads=4", RENGA_ERR_OPTION, "no multiple of heads=4"},
    {"transformer:smoothing=1", RENGA_ERR_OPTION, "smoothing=1 must be a number from 0 to 0.999"},
    {"transformers", RENGA_ERR_OPTION, "did you mean transformer?"},
    {"bart", RENGA_ERR_OPTION, "one of bert, gpt, llama, mlp"},
    {"mlp:sizes=7-x", RENGA_ERR_OPTION, "sizes=7-x must be at most 128 widths"},
    {"mlp:sizes=7", RENGA_ERR_OPTION, "two widths or more"},
    {"mlp:sizes=7-2,loss=mae", RENGA_ERR_OPTION, "loss=mae is not one of cross_entropy|mse"},
    {"mlp:sizes=7-2,activation=a-name-that-is-too-long", RENGA_ERR_OPTION, "may have 15"},
    {"resnet:depth=19", RENGA_ERR_OPTION, "depth=19 must be 18"},
    {"no_such_file.onnx", RENGA_ERR_FILE_OPEN, "no_such_file.onnx"},
};

static RengaErrorCode CheckLoadErrors(RengaComm comm)
{
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    RengaGraph graph;
    RengaCall(RengaGraphCreate(comm, &graph));
    TestError(RengaGraphLoad(graph, wrong[i].what), wrong[i].code, wrong[i].message);
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
  TestTrue(memcmp(whole + 13, part, sizeof part) == 0);
  RengaCall(RengaGraphInitializeValue(graph, w, 8, 13, 8, part));
  TestTrue(memcmp(whole + 13, part, sizeof part) != 0);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* First values from raw numbers in a file, of each type that is converted. */
static RengaErrorCode CheckFile(RengaComm comm)
{
  static const struct {
    RengaDataType type;
    unsigned char bytes[3 * 8];
  } files[] = {
      {RENGA_FLOAT32, {0, 0, 128, 63, 0, 0, 0, 192, 0, 0, 0, 62}},
      {RENGA_FLOAT16, {0, 60, 0, 192, 0, 48}},
      {RENGA_BFLOAT16, {128, 63, 0, 192, 0, 62}},
      {RENGA_FLOAT64,
       {0, 0, 0, 0, 0, 0, 240, 63, 0, 0, 0, 0, 0, 0, 0, 192, 0, 0, 0, 0, 0, 0, 192, 63}},
  };
  const float wanted[3] = {1, -2, 0.125f};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char name[] = "rengaXXXXXX";
    int64_t bytes = 3 * (int64_t)RengaDataTypeSize(files[i].type);
    int file = mkstemp(name);
    TestTrue(file >= 0 && write(file, "xx", 2) == 2);
    TestTrue(write(file, files[i].bytes, (size_t)bytes) == bytes);
    close(file);
    RengaGraph graph;
    RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {3}};
    RengaInit init = {.kind = RENGA_INIT_FILE, .file = name, .offset = 2, .bytes = bytes};
    RengaValue w, longer;
    float out[4];
    init.type = files[i].type;
    RengaCall(RengaGraphCreate(comm, &graph));
    RengaCall(RengaGraphAddParameter(graph, "w", &spec, &init, &w));
    RengaCall(RengaGraphInitializeValue(graph, w, 0, 0, 3, out));
    TestTrue(memcmp(out, wanted, sizeof wanted) == 0);
    RengaCall(RengaGraphInitializeValue(graph, w, 0, 1, 2, out));
    TestTrue(memcmp(out, wanted + 1, 2 * sizeof *wanted) == 0);
    init.bytes = 0;
    spec.dim[0] = 4;
    RengaCall(RengaGraphAddParameter(graph, "longer", &spec, &init, &longer));
    TestError(RengaGraphInitializeValue(graph, longer, 0, 0, 4, out), RENGA_ERR_FILE_FORMAT,
              "the file ends before the data of \"longer\"");
    unlink(name);
    TestError(RengaGraphInitializeValue(graph, w, 0, 0, 3, out), RENGA_ERR_FILE_OPEN, name);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

/* A network is shown as a table, a drawing and JSON; the last two are whole. */
static RengaErrorCode CheckView(RengaComm comm)
{
  static const struct {
    const char *kind, *begins, *ends;
  } views[] = {{"ascii", "Graph: ", "\n"}, {"dot", "digraph", "}\n"}, {"json", "{", "}\n"}};
  RengaGraph graph;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphLoad(graph, "mlp:sizes=4-5-3"));
  RengaCall(RengaGraphSetUp(graph));
  for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
    char name[] = "rengaXXXXXX", specification[64], text[16384];
    RengaViewer viewer;
    int file = mkstemp(name);
    TestTrue(file >= 0);
    snprintf(specification, sizeof specification, "%s:%s", views[i].kind, name);
    RengaCall(RengaViewerCreate(comm, specification, &viewer));
    RengaCall(RengaGraphView(graph, viewer));
    RengaCall(RengaViewerDestroy(&viewer));
    close(file);
    file = open(name, O_RDONLY); /* it is a new one, written whole */
    TestTrue(file >= 0);
    ssize_t got = read(file, text, sizeof text - 1);
    TestTrue(got > 40 && got < (ssize_t)sizeof text - 1);
    text[got] = 0;
    TestTrue(strncmp(text, views[i].begins, strlen(views[i].begins)) == 0);
    TestTrue(strcmp(text + got - strlen(views[i].ends), views[i].ends) == 0);
    TestTrue(strstr(text, "Linear") && strstr(text, "CrossEntropy"));
    close(file);
    unlink(name);
  }
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* What the options say is what the setters do; sizes of symbolic dimensions are read by name. */
static RengaErrorCode CheckOptions(RengaComm comm)
{
  const char *text;
  RengaGraph graph;
  int64_t size = -1;
  const char *inputs = NULL;
  RengaCall(RengaOptionsSetValue("graph", "mlp:sizes=4-5-3"));
  RengaCall(RengaOptionsSetValue("graph_frozen", "l.0.*"));
  RengaCall(RengaOptionsSetValue("graph_dimension", "sequence=128,width=64"));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetFromOptions(graph));
  RengaCall(RengaGraphGetDimension(graph, &text));
  TestTrue(strcmp(text, "sequence=128,width=64") == 0);
  RengaCall(RengaGraphSetSplit(graph, "nowhere.*:whole"));
  RengaCall(RengaGraphGetSplit(graph, &text));
  TestTrue(strcmp(text, "nowhere.*:whole") == 0);
  TestError(RengaGraphSetUp(graph), RENGA_ERR_OPTION, "fits no node of the network");
  RengaCall(RengaGraphSetSplit(graph, NULL));
  RengaCall(RengaGraphSetUp(graph));
  TestTrue(RengaGraphGetValue(graph, RengaGraphFindValue(graph, "l.0.bias"))->frozen);
  TestTrue(!RengaGraphGetValue(graph, RengaGraphFindValue(graph, "l.1.bias"))->frozen);
  TestTrue(!RengaGraphGetValue(graph, RengaGraphFindValue(graph, "l.0"))->differentiable);
  TestTrue(RengaGraphGetValue(graph, RengaGraphFindValue(graph, "l.1"))->differentiable);
  RengaCall(RengaGraphGetDimension_Private(graph, "width", &size));
  TestTrue(size == 64);
  RengaCall(RengaGraphGetDimension_Private(graph, "height", &size));
  TestTrue(size == 0);
  RengaCall(RengaGraphSetDimension(graph, "sequence=128,width=x"));
  TestError(RengaGraphGetDimension_Private(graph, "width", &size), RENGA_ERR_OPTION,
            "\"width=x\" is not name=size");
  RengaCall(RengaGraphGetFileBatch(graph, &size));
  TestTrue(size == 0);
  TestError(RengaGraphSetBatchInputs(graph, "x"), RENGA_ERR_ORDER, "before RengaGraphLoad");
  TestError(RengaGraphSetWholeBatch(graph, 4), RENGA_ERR_ORDER, "before RengaGraphLoad");
  RengaCall(RengaGraphDestroy(&graph));
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphSetBatchInputs(graph, "tokens,image:1"));
  RengaCall(RengaGraphGetBatchInputs(graph, &inputs));
  TestTrue(inputs && strcmp(inputs, "tokens,image:1") == 0);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckCosts(RengaComm comm)
{
  RengaGraph graph;
  RengaTensorSpec of_a = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {-1, 2, 3}};
  RengaTensorSpec of_b = {.type = RENGA_FLOAT32, .ndim = 3, .dim = {-1, 3, 5}};
  RengaValue a, b, y;
  RengaGraphTotals totals;
  double flops = 0;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "a", &of_a, &a));
  RengaCall(RengaGraphAddInput(graph, "b", &of_b, &b));
  RengaCall(RengaGraphAddMatMul(graph, a, b, &y));
  RengaCall(RengaGraphGetNodeFlops(graph, 0, 7, &flops));
  TestTrue(flops == 7 * 2.0 * 2 * 3 * 5);
  RengaCall(RengaGraphGetTotals(graph, &totals));
  TestTrue(totals.parameters == 0 && totals.activation_bytes == 4.0 * 2 * 5);
  TestTrue(totals.forward_flops == 2.0 * 2 * 3 * 5);
  TestError(RengaGraphGetNodeFlops(graph, 1, 7, &flops), RENGA_ERR_ARGUMENT, "no node 1");
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* Without a loss the labels are not needed; with other ends neither is what is behind them. */
static RengaErrorCode CheckKeepOutputs(RengaComm comm)
{
  static const char *const names[] = {"l.0", "l.0.weight", "nothing"};
  for (int turn = 0; turn < 3; turn++) {
    RengaGraph graph;
    RengaValue loss;
    int count;
    const RengaValue *outputs;
    RengaCall(RengaGraphCreate(comm, &graph));
    RengaCall(RengaGraphLoad(graph, "mlp:sizes=4-5-3"));
    if (turn == 2)
      TestError(RengaGraphKeepOutputs(graph, 1, &names[2]), RENGA_ERR_ARGUMENT, "no value nothing");
    RengaCall(RengaGraphKeepOutputs(graph, turn, names));
    RengaCall(RengaGraphSetUp(graph));
    RengaCall(RengaGraphGetLoss(graph, &loss));
    RengaCall(RengaGraphGetOutputs(graph, &count, &outputs));
    TestTrue(loss == RENGA_VALUE_NONE && count == (turn == 0 ? 1 : turn));
    TestTrue(RengaGraphFindValue(graph, "labels") == RENGA_VALUE_NONE);
    TestTrue((RengaGraphFindValue(graph, "l.1.weight") >= 0) == (turn == 0));
    TestTrue(RengaGraphKeepOutputs(graph, 0, NULL) == RENGA_ERR_ORDER);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

/* After an error the network is as it was. */
static RengaErrorCode CheckKeptEnds(RengaComm comm)
{
  static const char *const names[] = {"l.0", "l.0", "nothing"};
  RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 0};
  RengaGraph graph;
  RengaValue x, loss, now;
  int count;
  const RengaValue *outputs;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddParameter(graph, "x", &spec, NULL, &x));
  RengaCall(RengaGraphAddUnary(graph, "Exp", x, &loss));
  RengaCall(RengaGraphSetLoss(graph, loss));
  RengaCall(RengaGraphAddOutput(graph, loss));
  TestError(RengaGraphKeepOutputs(graph, 0, NULL), RENGA_ERR_GRAPH, "no output besides its loss");
  TestError(RengaGraphKeepOutputs(graph, 3, names), RENGA_ERR_ARGUMENT, "no value l.0");
  TestError(RengaGraphKeepOutputs(graph, -1, names), RENGA_ERR_ARGUMENT, "-1 names");
  RengaCall(RengaGraphGetLoss(graph, &now));
  RengaCall(RengaGraphGetOutputs(graph, &count, &outputs));
  TestTrue(now == loss && count == 1 && outputs[0] == loss);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* A null pointer for what a call makes is an error, and the graph is as before. */
static RengaErrorCode CheckNullOutputs(RengaComm comm)
{
  const RengaTensorSpec spec = {.type = RENGA_FLOAT32, .ndim = 2, .dim = {-1, 4}};
  const RengaTensorSpec fixed = {.type = RENGA_FLOAT32, .ndim = 1, .dim = {2}};
  const float two[2] = {1, 2};
  RengaGraph graph;
  RengaValue x;
  RengaCall(RengaGraphCreate(comm, &graph));
  RengaCall(RengaGraphAddInput(graph, "x", &spec, &x));
  TestError(RengaGraphAddInput(graph, "y", &spec, NULL), RENGA_ERR_ARGUMENT, "null pointer");
  TestError(RengaGraphAddConstant(graph, "c", &fixed, two, NULL), RENGA_ERR_ARGUMENT,
            "null pointer");
  TestError(RengaGraphAddUnary(graph, "Relu", x, NULL), RENGA_ERR_ARGUMENT, "Relu: the pointer");
  TestError(RengaGraphAddReshape(graph, x, 2, spec.dim, NULL), RENGA_ERR_ARGUMENT, "Reshape");
  TestError(RengaGraphAddDropout(graph, x, 0, NULL), RENGA_ERR_ARGUMENT, "null pointer");
  TestTrue(RengaGraphGetNodeCount(graph) == 0 && RengaGraphGetValueCount(graph) == 1);
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
  RengaCall(CheckFile(comm));
  RengaCall(CheckView(comm));
  RengaCall(CheckOptions(comm));
  RengaCall(CheckCosts(comm));
  RengaCall(CheckKeepOutputs(comm));
  RengaCall(CheckKeptEnds(comm));
  RengaCall(CheckNullOutputs(comm));
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

int main(int argc, char **argv)
{
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(Run());
  RengaCallAbort(RengaFinalize());
  return 0;
}
