/* TEST ranks: 1 */
/* What is trained: by the properties that exporters leave, by those of the model, by options, by
   shape and name; rows and values without gradients; what is warned of. */
#include "../check.h"
#include "renga.h"
#include "reader.h"
#include "renga/private/graph.h"

enum { FLOAT = 1, INT64 = 7, WIDTH = 4 };
enum { GRAPH_VALUE_INFO = 13, GRAPH_PROPERTY = 16, NODE_PROPERTY = 9, VALUE_PROPERTY = 4 };
enum { MODEL_PRODUCER = 2, MODEL_PROPERTY = 14 };
static const char signature_key[] = "pkg.torch.export.ExportedProgram.graph_signature";
static const char kind_key[] = "pkg.torch.export.graph_signature.InputSpec.kind";
static const char call_key[] = "pkg.torch.onnx.fx_node";
static RengaComm comm;

static void AddSaid(Message *graph, const char *name, const char *key, const char *value)
{
  Message *info = MessageNew();
  PutText(info, 1, name);
  AddProperty(info, VALUE_PROPERTY, key, value);
  PutMessage(graph, GRAPH_VALUE_INFO, info);
}

static void AddFloats(Message *graph, const char *name, int ndim, const int64_t dim[])
{
  float data[64] = {0};
  size_t count = 1;
  for (int d = 0; d < ndim; d++) count *= (size_t)dim[d];
  for (size_t i = 0; i < count; i++) data[i] = 0.5f + (float)i;
  AddInitializer(graph, name, FLOAT, ndim, dim, data, count * sizeof *data);
}

/* loss = mean of ((x w + buf) scale)² */
static Message *NewPlain(void)
{
  Message *graph = MessageNew(), *mean = NewNode("ReduceMean", "squares", "loss");
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){2, WIDTH}, "N");
  AddFloats(graph, "layer.weight", 2, (int64_t[]){WIDTH, WIDTH});
  AddFloats(graph, "buf", 1, (int64_t[]){WIDTH});
  AddFloats(graph, "scale", 0, NULL);
  AddOperator(graph, "MatMul", "x layer.weight", "product");
  AddOperator(graph, "Add", "product buf", "sum");
  AddOperator(graph, "Mul", "sum scale", "scaled");
  AddOperator(graph, "Mul", "scaled scaled", "squares");
  AddInt(mean, "keepdims", 0);
  AddNode(graph, mean);
  AddOutput(graph, "loss");
  return graph;
}

static Message *NewFrom(Message *graph, const char *producer)
{
  Message *model = NewModel(graph, 17);
  PutText(model, MODEL_PRODUCER, producer);
  return model;
}

/* Kinds of layer.weight, buf and scale. */
static RengaErrorCode CheckPlain(Message *model, const char *trained, const char *frozen,
                                 const char *kinds, const char *warning)
{
  RengaGraph graph;
  const char *text;
  static const char *const names[] = {"layer.weight", "buf", "scale"};
  RengaCall(ReadModel(comm, model, trained, frozen, &graph, &text));
  for (int i = 0; i < 3; i++)
    RengaCheck(KindOf(graph, names[i]) == kinds[i], MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "%s is %c, not %c", names[i], KindOf(graph, names[i]), kinds[i]);
  bool right = warning ? strstr(text, warning) != NULL : strstr(text, "warning") == NULL;
  if (!right) printf("%s", text);
  Expect(right);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static Message *WithProperty(const char *key, const char *value)
{
  Message *model = NewFrom(NewPlain(), "pytorch");
  AddProperty(model, MODEL_PROPERTY, key, value);
  return model;
}

static Message *NewSigned(void)
{
  Message *graph = NewPlain();
  AddProperty(graph, GRAPH_PROPERTY, signature_key,
              "\n# inputs\np_layer_weight: PARAMETER target='layer.weight'\n"
              "p_scale: PARAMETER target='scale'\nx: USER_INPUT\n\n# outputs\nloss: USER_OUTPUT\n");
  return NewFrom(graph, "pytorch");
}

static Message *NewMarked(void)
{
  Message *graph = NewPlain();
  AddSaid(graph, "layer.weight", kind_key, "PARAMETER");
  AddSaid(graph, "buf", kind_key, "BUFFER");
  return NewFrom(graph, "pytorch");
}

static RengaErrorCode TestKinds(void)
{
  RengaCall(CheckPlain(NewSigned(), NULL, NULL, "tct", NULL));
  RengaCall(CheckPlain(NewSigned(), "buf", NULL, "ttt", NULL));
  RengaCall(CheckPlain(NewSigned(), NULL, "buf", "tct", NULL));
  RengaCall(CheckPlain(NewSigned(), "scale", "*", "fct", NULL));
  RengaCall(CheckPlain(NewMarked(), NULL, NULL, "tcc", NULL));
  RengaCall(CheckPlain(NewFrom(NewPlain(), "pytorch"), NULL, NULL, "ttt",
                       "does not say whether these are parameters or constants: "));
  RengaCall(CheckPlain(NewFrom(NewPlain(), "pytorch"), "scale", "buf", "tft", NULL));
  RengaCall(CheckPlain(NewFrom(NewPlain(), "someone"), NULL, NULL, "ttc", NULL));
  RengaCall(CheckPlain(NewFrom(NewPlain(), "someone"), "scale", NULL, "ttt", NULL));
  RengaCall(CheckPlain(WithProperty("renga.parameters", "layer.weight,\nscale"), NULL, NULL, "tct",
                       NULL));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestRefused(void)
{
  ExpectError(ReadOnly(comm, WithProperty("renga.parameters", "layer.weights"), NULL),
              RENGA_ERR_FILE_FORMAT, "renga.parameters: there is no floating initializer",
              "\"layer.weights\"");
  ExpectError(ReadOnly(comm, WithProperty("renga.stop_gradient", "summe"), NULL),
              RENGA_ERR_FILE_FORMAT, "renga.stop_gradient: no node makes \"summe\"");
  ExpectError(ReadOnly(comm, WithProperty("renga.padding_rows", "layer.weight:0"), NULL),
              RENGA_ERR_FILE_FORMAT, "renga.padding_rows: no Gather reads \"layer.weight\"");
  ExpectError(ReadOnly(comm, WithProperty("renga.padding_rows", "layer.weight"), NULL),
              RENGA_ERR_FILE_FORMAT, "\"layer.weight\" is not TABLE:ROW");
  ExpectError(ReadOnly(comm, NewFrom(NewPlain(), "pytorch"), "tail.*"), RENGA_ERR_OPTION,
              "-graph_trained: \"tail.*\" fits no parameter");
  return RENGA_SUCCESS;
}

/* Nothing is converted unasked. */
static Message *NewWide(int onnx_type, const void *data, size_t bytes)
{
  Message *graph = MessageNew(), *mean = NewNode("ReduceMean", "product", "loss");
  AddInput(graph, "x", onnx_type, 2, (int64_t[]){2, 2}, "N");
  AddInitializer(graph, "layer.weight", onnx_type, 2, (int64_t[]){2, 2}, data, bytes);
  AddOperator(graph, "MatMul", "x layer.weight", "product");
  AddInt(mean, "keepdims", 0);
  AddNode(graph, mean);
  AddOutput(graph, "loss");
  return NewFrom(graph, "pytorch");
}

static RengaErrorCode TestTypes(void)
{
  static const double zeros[4] = {0};
  enum { FLOAT16 = 10, DOUBLE = 11, BFLOAT16 = 16 };
  ExpectError(ReadOnly(comm, NewWide(DOUBLE, zeros, 32), NULL), RENGA_ERR_SUPPORT,
              "(\"layer.weight\" is float64)", "model.float()");
  ExpectError(ReadOnly(comm, NewWide(FLOAT16, zeros, 8), NULL), RENGA_ERR_SUPPORT, "is float16)");
  ExpectError(ReadOnly(comm, NewWide(BFLOAT16, zeros, 8), NULL), RENGA_ERR_SUPPORT, "is bfloat16)");
  return RENGA_SUCCESS;
}

/* x w is detached: an Identity whose call says so. */
static Message *NewDetached(const char *call)
{
  Message *graph = MessageNew(), *mean = NewNode("ReduceMean", "sum", "loss");
  Message *identity = NewNode("Identity", "product", "detached");
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){2, WIDTH}, "N");
  AddFloats(graph, "weight", 2, (int64_t[]){WIDTH, WIDTH});
  AddFloats(graph, "bias", 1, (int64_t[]){WIDTH});
  AddOperator(graph, "MatMul", "x weight", "product");
  AddProperty(identity, NODE_PROPERTY, call_key, call);
  AddNode(graph, identity);
  AddOperator(graph, "Add", "detached bias", "sum");
  AddInt(mean, "keepdims", 0);
  AddNode(graph, mean);
  AddOutput(graph, "loss");
  return NewFrom(graph, "pytorch");
}

static RengaErrorCode TestStopped(void)
{
  RengaCall(CheckUses(comm, WithProperty("renga.stop_gradient", "squares, scaled"), ""));
  RengaCall(CheckUses(comm, WithProperty("renga.stop_gradient", "product"), "bs"));
  RengaCall(
      CheckUses(comm, NewDetached("%clone = call_function[target=torch.ops.aten.clone]"), "wb"));
  RengaCall(CheckUses(comm, NewDetached("%d = call_function[target=torch.ops.aten.detach.default]"),
                      "b"));
  return RENGA_SUCCESS;
}

static Message *NewTable(const char *call)
{
  Message *graph = MessageNew(), *mean = NewNode("ReduceMean", "rows", "loss");
  Message *gather = NewNode("Gather", "table.weight ids", "rows");
  AddInput(graph, "ids", INT64, 2, (int64_t[]){2, 3}, "N");
  AddFloats(graph, "table.weight", 2, (int64_t[]){5, WIDTH});
  if (call) AddProperty(gather, NODE_PROPERTY, call_key, call);
  AddNode(graph, gather);
  AddInt(mean, "keepdims", 0);
  AddNode(graph, mean);
  AddOutput(graph, "loss");
  return NewFrom(graph, "pytorch");
}

static RengaErrorCode CheckPadding(Message *model, int64_t row)
{
  RengaGraph graph;
  const char *text;
  RengaCall(ReadModel(comm, model, NULL, NULL, &graph, &text));
  const RengaGraphNode *node = RengaGraphGetNode(graph, 0);
  Expect(strcmp(node->op->name, "Gather") == 0);
  Expect(RengaAttributesInt(&node->attributes, "padding", -1) == row);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestPadding(void)
{
  Message *model = NewTable(NULL);
  AddProperty(model, MODEL_PROPERTY, "renga.padding_rows", "table.weight:3");
  RengaCall(CheckPadding(model, 3));
  RengaCall(CheckPadding(
      NewTable("%e = call_function[target=torch.ops.aten.embedding.default](args = (%p, %ids, 0))"),
      0));
  RengaCall(CheckPadding(
      NewTable("%e = call_function[target=torch.ops.aten.embedding.default](args = (%p, %ids))"),
      -1));
  model = NewTable(NULL);
  AddProperty(model, MODEL_PROPERTY, "renga.padding_rows", "table.weight:5");
  ExpectError(ReadOnly(comm, model, NULL), RENGA_ERR_FILE_FORMAT, "\"table.weight\" has no row 5");
  return RENGA_SUCCESS;
}

/* The exporter writes the form of inference; its call says what the module was. */
static Message *NewNorm(const char *call)
{
  Message *graph = MessageNew(), *mean = NewNode("ReduceMean", "y", "loss");
  Message *norm = NewNode("BatchNormalization", "x bn.weight bn.bias bn.mean bn.var", "y");
  AddInput(graph, "x", FLOAT, 2, (int64_t[]){2, WIDTH}, "N");
  AddFloats(graph, "bn.weight", 1, (int64_t[]){WIDTH});
  AddFloats(graph, "bn.bias", 1, (int64_t[]){WIDTH});
  AddFloats(graph, "bn.mean", 1, (int64_t[]){WIDTH});
  AddFloats(graph, "bn.var", 1, (int64_t[]){WIDTH});
  AddSaid(graph, "bn.weight", kind_key, "PARAMETER");
  AddSaid(graph, "bn.mean", kind_key, "BUFFER");
  AddProperty(norm, NODE_PROPERTY, call_key, call);
  AddNode(graph, norm);
  AddInt(mean, "keepdims", 0);
  AddNode(graph, mean);
  AddOutput(graph, "loss");
  return NewFrom(graph, "pytorch");
}

static RengaErrorCode CheckNorm(const char *call, int updates, const char *warning)
{
  RengaGraph graph;
  const char *text;
  int count;
  const RengaStateUpdate *update;
  RengaCall(ReadModel(comm, NewNorm(call), NULL, NULL, &graph, &text));
  RengaCall(RengaGraphGetStateUpdates(graph, &count, &update));
  Expect(count == updates);
  Expect(KindOf(graph, "bn.weight") == 't' && KindOf(graph, "bn.mean") == 's');
  Expect(strstr(text, warning));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestNorm(void)
{
  RengaCall(CheckNorm("target=torch.ops.aten._native_batch_norm_legit_functional.default](args = "
                      "(%x, %w, %b, %m, %v, True, 0.1, 1e-05)",
                      2, ""));
  RengaCall(CheckNorm("target=torch.ops.aten._native_batch_norm_legit_no_training.default](args = "
                      "(%x, %w, %b, %m, %v, 0.1, 1e-05)",
                      0, "1 BatchNormalization is in the form of inference"));
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(TestKinds());
  RengaCall(TestRefused());
  RengaCall(TestTypes());
  RengaCall(TestStopped());
  RengaCall(TestPadding());
  RengaCall(TestNorm());
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
