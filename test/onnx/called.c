/* TEST ranks: 1 */
/* What PyTorch's newer exporter says beside the operators, in the signature of the program and in
   the call that a node was made of, and what a network is refused for by it. */
#include "../check.h"
#include "reader.h"
#include "renga.h"
#include "text.h"
#include <string.h>

static RengaComm comm;

#define MEAN "ReduceMean y -> loss keepdims=0; out loss"
#define COUNTED                                                                                    \
  "in x f32 N 2; init a f32 2 : 1 1; init net.n f32 : 2; init one f32 : 1; param a p_a;"           \
  "buffer net.n b_n;"
#define NORM(x, mean, y)                                                                           \
  "BatchNormalization " x " a a " mean " net.v -> " y " call=" y                                   \
  ":_native_batch_norm_legit_functional.default(%x,%p_a,%p_a,%m,%v,~True,~0.1,~1e-05);"

/* error: NULL where the network is right */
static const struct {
  const char *name, *text, *error;
} changed[] = {
    {"a counter that is computed with",
     COUNTED "changed net.n add; Add net.n one -> add; Mul x a -> h; Mul h add -> y;" MEAN,
     "the network changes \"net.n\" in each step and computes with it, which is supported of the "
     "statistics of BatchNormalization only"},
    {"a counter that the exporter's optimizer folded",
     COUNTED "init add f32 : 3; folded add net.n,one; changed net.n add; Mul x a -> h;"
             "Mul h add -> y;" MEAN,
     "or keep the first values with -graph_frozen net.n"},
    {"a counter that the exporter's optimizer dropped with a product by 1",
     "in x f32 N 2; init a f32 2 : 1 1; param a p_a; buffer net.n b_n; changed net.n add;"
     "Mul x a -> h; ReduceMean h -> loss keepdims=0 call=mean:mean.default(%mul_1); out loss",
     "the network changes \"net.n\" in each step, and the exporter's optimizer dropped it and"},
    {"a counter of batches",
     "in x f32 N 2; init a f32 2 : 1 1; param a p_a; buffer net.num_batches_tracked b_n;"
     "changed net.num_batches_tracked add;"
     "Mul x a -> h; ReduceMean h -> loss keepdims=0 call=mean:mean.default(%mul_1); out loss",
     NULL},
    {"a buffer that is made anew before it is read",
     COUNTED "changed net.n div; Div one one -> div; Mul x a -> h; Mul h div -> y;" MEAN, NULL},
    {"a counter that nothing reads",
     COUNTED "changed net.n add; Add net.n one -> add; Mul x a -> y;" MEAN, NULL},
    {"a counter that another output than the loss reads",
     COUNTED "changed net.n add; Add net.n one -> add; Mul x add -> z; Mul x a -> y; out z;" MEAN,
     NULL},
    {"a buffer that stands still", COUNTED "Mul x a -> h; Mul h net.n -> y;" MEAN, NULL},
    {"statistics of a normalisation in training",
     "in x f32 N 2; init a f32 2 : 1 1; init net.m f32 2; init net.v f32 2; param a p_a;"
     "buffer net.m m; buffer net.v v; changed net.m getitem_3; changed net.v getitem_4;" NORM(
         "x", "net.m", "h") "Identity net.m -> getitem_3;" NORM("h", "getitem_3", "y") MEAN,
     NULL},
    {"statistics that are also subtracted",
     "in x f32 N 2; init a f32 2 : 1 1; init net.m f32 2; init net.v f32 2; param a p_a;"
     "buffer net.m m; buffer net.v v; changed net.m getitem_3; changed net.v getitem_4;"
     "Sub x net.m -> h;" NORM("h", "net.m", "y") MEAN,
     "the network changes \"net.m\" in each step"},
};

/* op: the node that the call decides on, and how many there are */
static const struct {
  const char *name, *text, *op;
  int count;
} decided[] = {
    {"a clamp by a number, written as Max and Min",
     "in x f32 N 2; init a f32 2 : 1 1; init low f32 : 0; init high f32 : 1; Mul x a -> h;"
     "Max h low -> g call=clamp:clamp.Tensor(%h,~%scalar_tensor_default,~%scalar_tensor_default_1);"
     "Min g high -> y "
     "call=clamp:clamp.Tensor(%h,~%scalar_tensor_default,~%scalar_tensor_default_1);" MEAN,
     "Clip", 2},
    {"a clamp by a tensor",
     "in x f32 N 2; init a f32 2 : 1 1; init low f32 : 0; Mul x a -> h;"
     "Max h low -> y call=clamp:clamp.Tensor(%h,~%b_low);" MEAN,
     "Max", 1},
    {"a maximum",
     "in x f32 N 2; init a f32 2 : 1 1; init low f32 : 0; Mul x a -> h;"
     "Max h low -> y call=maximum:maximum.default(%h,~%scalar_tensor_default);" MEAN,
     "Max", 1},
    {"the first of equal maxima",
     "in x f32 N 2; init a f32 2 : 1 1; init last i64 1 : 1; Mul x a -> h;"
     "ReduceMax h last -> y call=max_1:max.dim(%h,~1,~True);" MEAN,
     "first", 1},
    {"all of equal maxima",
     "in x f32 N 2; init a f32 2 : 1 1; init last i64 1 : 1; Mul x a -> h;"
     "ReduceMax h last -> y call=amax:amax.default(%h,~[1],~True);" MEAN,
     "first", 0},
};

static RengaErrorCode TestDecided(void)
{
  for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) {
    RengaGraph graph;
    const RengaGraphNode *node;
    const char *text;
    int count = 0;
    RengaCall(ReadModel(comm, NewModelOf(18, decided[i].text), NULL, NULL, &graph, &text));
    for (int k = 0; (node = RengaGraphGetNode(graph, k)) != NULL; k++)
      count += strcmp(node->op->name, decided[i].op) == 0 ||
               (strcmp(decided[i].op, "first") == 0 &&
                RengaAttributesInt(&node->attributes, "first", 0) == 1);
    RengaCheck(count == decided[i].count, MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s: %d %s",
               decided[i].name, count, decided[i].op);
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TestChanged(void)
{
  RengaGraph graph;
  const char *text;
  for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
    if (changed[i].error) {
      ExpectError(ReadOnly(comm, NewModelOf(18, changed[i].text), NULL), RENGA_ERR_SUPPORT,
                  changed[i].error);
      RengaCall(ReadModel(comm, NewModelOf(18, changed[i].text), NULL, "net.*", &graph, &text));
    } else {
      RengaCall(ReadModel(comm, NewModelOf(18, changed[i].text), NULL, NULL, &graph, &text));
    }
    RengaCall(RengaGraphDestroy(&graph));
  }
  return RENGA_SUCCESS;
}

static const struct {
  const char *text, *error;
} misread[] = {
    {"in x i64 N; init a f32 4 2; param a p_a;"
     "Gather a x -> y call=y:embedding.default(%p_a,~%x,~-1,~True);" MEAN,
     "scale_grad_by_freq=True"},
    {"in x f32 N 2; in k i64 N 2; init a f32 2; Mul x a -> h;"
     "ScatterElements h k h -> y axis=1 call=y:scatter_reduce.two(%h,~1,~%k,~%h,~mean);" MEAN,
     "the exporter writes scatter_reduce(..., \"mean\") as if"},
    {"in x f32 N 2 4 4; init a f32 4; Mul x a -> h; AveragePool h -> y kernel_shape=2,2 "
     "call=y:avg_pool2d.default(%h,~[2,~2],~[2,~2],~[0,~0],~False,~True,~5);" MEAN,
     "divisor_override"},
    {"in x f32 N 2; init a f32 2; Mul x a -> y "
     "call=lstm:lstm.input(%x,~[%p_weight_ih_l0,~%p_weight_hr_l0]);" MEAN,
     "\"y\" is an LSTM with projections (proj_size)"},
};

static RengaErrorCode TestMisread(void)
{
  for (size_t i = 0; i < sizeof misread / sizeof *misread; i++)
    ExpectError(ReadOnly(comm, NewModelOf(18, misread[i].text), NULL), RENGA_ERR_SUPPORT,
                misread[i].error);
  return RENGA_SUCCESS;
}

static RengaErrorCode RunTest(void)
{
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(TestChanged());
  RengaCall(TestDecided());
  RengaCall(TestMisread());
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
