/* TEST ranks: 1 */
/* Files as PyTorch's exporter writes them with its optimizer: parameters that began equal are one,
   weights are transposed, biases of zeros and detach() are gone. What the calls at the nodes say
   gives each parameter back, or the file is refused. */
#include "../check.h"
#include "reader.h"
#include "renga.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

static RengaComm comm;

#define MEAN "ReduceMean y -> loss keepdims=0; out loss;"
/* loss = mean((x a + a's bias) b + b's bias), where b began as a */
#define TWO_LINEAR                                                                                 \
  "in x f32 N 2; init a.weight f32 2 2 : 1 2 3 4; init a.bias f32 2 : 5 6;"                        \
  "param a.weight p_a_weight; param a.bias p_a_bias;"                                              \
  "param b.weight p_b_weight; param b.bias p_b_bias;"
#define FIRST "Gemm x a.weight a.bias -> h call=h:linear.default(%x,%p_a_weight,%p_a_bias);"

static const struct {
  const char *name, *text;
  const char *trained; /* parameters, sorted by name */
} cases[] = {
    {"equal layers",
     TWO_LINEAR FIRST
     "Gemm h a.weight a.bias -> y call=y:linear.default(%h,%p_b_weight,%p_b_bias);" MEAN,
     "a.bias a.weight b.bias b.weight"},
    {"equal layers, in two nodes",
     TWO_LINEAR FIRST "MatMul h a.weight -> p call=y:linear.default(%h,%p_b_weight,%p_b_bias);"
                      "Add p a.bias -> y call=y:linear.default(%h,%p_b_weight,%p_b_bias);" MEAN,
     "a.bias a.weight b.bias b.weight"},
    {"an equal bias",
     TWO_LINEAR "init b.weight f32 2 2 : 5 6 7 8;" FIRST
                "Gemm h b.weight a.bias -> y call=y:linear.default(%h,%p_b_weight,%p_b_bias);" MEAN,
     "a.bias a.weight b.bias b.weight"},
    {"a layer that is called twice",
     TWO_LINEAR FIRST
     "Gemm h a.weight a.bias -> y call=y:linear.default(%h,%p_a_weight,%p_a_bias);" MEAN,
     "a.bias a.weight"},
    {"a bias of zeros is dropped",
     TWO_LINEAR FIRST "Gemm h a.weight -> y call=y:linear.default(%h,%p_b_weight,%p_b_bias);" MEAN,
     "a.bias a.weight b.bias b.weight"},
    {"scale and mean of a norm began equal",
     "in x f32 N 2; init n.weight f32 2 : 1 1; init n.bias f32 2; param n.weight p_w;"
     "param n.bias p_b; buffer n.mean b_m; buffer n.var b_v;"
     "BatchNormalization x n.weight n.bias n.bias n.weight -> y "
     "call=y:_native_batch_norm_legit_functional.default(%x,%p_w,%p_b,%b_m,%b_v,~True,~0.1);" MEAN,
     "n.bias n.weight"},
    {"a weight that was transposed",
     "in x f32 N 2; init val_1 f32 2 3 : 1 2 3 4 5 6; param a.weight p_a; folded val_1 a.weight;"
     "MatMul x val_1 -> y call=y:linear.default(%x,%p_a);" MEAN,
     "val_1"},
    {"a table that is transposed at the end",
     "in i i64 N; init e f32 3 2 : 1 2 3 4 5 6; init val_1 f32 2 3 : 1 3 5 2 4 6;"
     "param e p_e; folded val_1 e; Gather e i -> h call=h:embedding.default(%p_e,%i);"
     "MatMul h val_1 -> y call=y:linear.default(%h,%p_e);" MEAN,
     "e"},
    {"rows that were looked up",
     "in x f32 N 2 2; init embedding f32 2 2 : 1 2 3 4; param e p_e;"
     "folded embedding e,add,arange,val_3; Add x embedding -> y "
     "call=y:add.Tensor(%x,%embedding);" MEAN,
     "embedding"},
    {"parts of a parameter",
     "in x f32 N 2; init slice_1 f32 2 2 : 1 2 3 4; init slice_2 f32 2 2 : 5 6 7 8; param e p_e;"
     "folded slice_1 e,val_3; folded slice_2 e,val_4;"
     "MatMul x slice_1 -> h call=h:matmul.default(%x,%slice_1);"
     "MatMul h slice_2 -> y call=y:matmul.default(%h,%slice_2);" MEAN,
     "slice_1 slice_2"},
};

static const struct {
  const char *name, *text, *error, *frozen; /* frozen: patterns with which it is taken, or NULL */
} refused[] = {
    {"a weight that was computed",
     "in x f32 N 2; init mul f32 2 3 : 1 2 3 4 5 6; param a.weight p_a;"
     "folded mul a.weight,rsqrt,val_2; MatMul x mul -> y call=y:linear.default(%x,%mul);" MEAN,
     "computed \"mul\" from parameter \"a.weight\", which cannot be trained through it: export "
     "the network with torch.onnx.export(..., dynamo=True, optimize=False), or freeze it",
     "a.weight"},
    {"a query with attention's factor",
     "in x f32 N 2 2; init val_1 f32 1 2 2 : 1 2 3 4; param q p_q; folded val_1 q,val_0;"
     "MatMul val_1 x -> y call=y:scaled_dot_product_attention.default(%p_q,%x,%x);" MEAN,
     "computed \"val_1\" from parameter \"q\"", "q"},
    {"a row that was looked up twice",
     "in x f32 N 2 2; init embedding f32 2 2 : 1 2 1 2; param e p_e; folded embedding e,val_3;"
     "Add x embedding -> y call=y:add.Tensor(%x,%embedding);" MEAN,
     "computed \"embedding\" from parameter \"e\"", NULL},
    {"a norm in a convolution",
     "in x f32 N 2; init a.weight f32 2 2 : 1 2 3 4; param a.weight p_a; param n.weight p_w;"
     "param n.bias p_b; Gemm x a.weight -> y "
     "call=y:_native_batch_norm_legit_functional.default(%x,%p_w,%p_b);" MEAN,
     "folded parameter \"n.weight\" into the Gemm that makes \"y\"", "n.*"},
    {"a parameter in two forms",
     "in i i64 N; init e f32 3 2 : 1 2 3 4 5 6; init val_1 f32 2 3 : 1 3 5 2 4 7;"
     "param e p_e; folded val_1 e; Gather e i -> h call=h:embedding.default(%p_e,%i);"
     "MatMul h val_1 -> y call=y:linear.default(%h,%p_e);" MEAN,
     "parameter \"e\" is in the file in two forms, \"e\" and \"val_1\"", NULL},
    {"norms of the same values with equal weights",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.weight p_b;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Add norm norm -> y call=y:add.Tensor(%norm,%norm_1);" MEAN,
     "1 of these are lost (\"b.weight\")", "b.weight"},
    {"detach() where nobody knows",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a;"
     "Mul x a.weight -> h call=h:mul.Tensor(%x,%p_a); Mul h h -> s call=y:var.dim(%detach);"
     "Neg s -> y call=y:var.dim(%detach);" MEAN,
     "dropped a detach() before \"s\"", NULL},
};

static int ByName(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static RengaErrorCode CheckTrained(const char *name, Message *model, const char *wanted)
{
  enum { COUNT_MAX = 16 };
  const char *names[COUNT_MAX], *text;
  char found[256] = "";
  int count = 0;
  RengaGraph graph;
  RengaCall(ReadModel(comm, model, NULL, NULL, &graph, &text));
  for (RengaValue v = 0; RengaGraphGetValue(graph, v); v++) {
    const RengaGraphValue *value = RengaGraphGetValue(graph, v);
    if (value->kind == RENGA_VALUE_PARAMETER && !value->frozen && count < COUNT_MAX)
      names[count++] = value->name;
  }
  qsort(names, (size_t)count, sizeof *names, ByName);
  for (int i = 0; i < count; i++) strcat(strcat(found, i > 0 ? " " : ""), names[i]);
  RengaCheck(strcmp(found, wanted) == 0, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: trained are %s, not %s", name, found, wanted);
  RengaCheck(!strstr(text, "warning"), MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s: %s", name, text);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckRefused(int row)
{
  RengaGraph graph;
  const char *text;
  ExpectError(ReadOnly(comm, NewModelOf(18, refused[row].text), NULL), RENGA_ERR_SUPPORT,
              refused[row].error, "optimize=False");
  if (!refused[row].frozen) return RENGA_SUCCESS;
  RengaCall(
      ReadModel(comm, NewModelOf(18, refused[row].text), NULL, refused[row].frozen, &graph, &text));
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

/* The optimizer drops detach(): the second factor of the product gets no gradient. */
static RengaErrorCode TestDetached(void)
{
  static const char text[] =
      "in x f32 N 2; init a f32 2 : 1 1; init b f32 2 : 1 1; param a p_a; param b p_b;"
      "Mul x a -> h call=h:mul.Tensor(%%x,%%p_a); Mul x b -> k call=k:mul.Tensor(%%x,%%p_b);"
      "Mul h k -> y call=y:mul.Tensor(%%%s,%%%s);" MEAN;
  static const char *const args[][3] = {
      {"h", "k", "ab"}, {"h", "detach", "a"}, {"detach_1", "k", "b"}};
  char made[512];
  for (int i = 0; i < 3; i++) {
    snprintf(made, sizeof made, text, args[i][0], args[i][1]);
    RengaCall(CheckUses(comm, NewModelOf(18, made), args[i][2]));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    RengaCall(CheckTrained(cases[i].name, NewModelOf(18, cases[i].text), cases[i].trained));
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) RengaCall(CheckRefused((int)i));
  RengaCall(TestDetached());
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
