/* TEST ranks: 1 */
/* Files as PyTorch's exporter writes them with its optimizer: parameters that began equal are one,
   weights are transposed, biases of zeros and detach() are gone. What the calls at the nodes say
   gives each parameter back, or the file is refused. */
#include "../check.h"
#include "reader.h"
#include "renga.h"
#include "text.h"
#include <math.h>
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
    {"a table whose module is another's",
     "in x f32 N 2; in i i64 N; init head.weight f32 3 2 : 1 2 3 4 5 6; init n.weight f32 2 : 1 1;"
     "param emb.weight p_e; param head.weight p_h; param n.weight p_n;"
     "Gather head.weight i -> e call=e:embedding.default(%p_h,%i) scope=emb;"
     "LayerNormalization e n.weight -> norm call=norm:layer_norm.default(%e,[2],%p_n) scope=n;"
     "Relu norm -> relu call=relu:relu.default(%dropout);"
     "Add relu x -> y call=y:add.Tensor(%relu,%x);" MEAN,
     "head.weight n.weight"},
    {"masks that were made one, through which no gradient goes",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a;"
     "Mul x a.weight -> h call=h:mul.Tensor(%x,%p_a); Sign h -> sign call=sign:sign.default(%h);"
     "Mul sign sign -> m call=m:mul.Tensor(%sign,%sign_1);"
     "Mul h m -> y call=y:mul.Tensor(%h,%m);" MEAN,
     "a.weight"},
    {"a part of a parameter that was a list",
     "in x f32 N 2; init getitem_1 f32 2 2 : 1 2 3 4; param a.weight p_a;"
     "folded getitem_1 a.weight,val_4,val_5,val_6,val_7,val_8;"
     "MatMul x getitem_1 -> y call=y:matmul.default(%x,%getitem_1);" MEAN,
     "getitem_1"},
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
    {"a weight that was normalised",
     "in x f32 N 2; init t_1 f32 2 2 : 1 2 3 4; param a.weight p_a;"
     "folded t_1 a.weight,unsqueeze,val_0,val_1,val_2,val_3,val_4,val_5,val_6,getitem,select;"
     "MatMul x t_1 -> y call=y:matmul.default(%x,%t_1);" MEAN,
     "computed \"t_1\" from parameter \"a.weight\", which cannot be trained through it",
     "a.weight"},
    {"a function, and one of a value without its gradient",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a;"
     "Mul x a.weight -> h call=h:mul.Tensor(%x,%p_a); Tanh h -> tanh call=tanh:tanh.default(%h);"
     "Add tanh tanh -> y call=y:add.Tensor(%tanh,%tanh_1);" MEAN,
     "made \"tanh_1\", which \"y\" reads, one with \"tanh\". A detach() before one of them would "
     "be lost, and the file does not say whether there was one: export the network with "
     "torch.onnx.export(..., dynamo=True, optimize=False)",
     NULL},
    {"a part of a loss, and one of a value without its gradient",
     "in x f32 N 2; in t f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a;"
     "Mul x a.weight -> h call=h:mul.Tensor(%x,%p_a);"
     "Sub h t -> val_0 call=m:mse_loss.default(%h,%t);"
     "Mul val_0 val_0 -> m call=m:mse_loss.default(%h,%t);"
     "Abs val_0 -> abs_1 call=abs_1:abs.default(%sub_1); Add m abs_1 -> y;" MEAN,
     "made \"sub_1\", which \"abs_1\" reads, one with \"val_0\"", NULL},
    {"a function in the first of two nodes, of a value without its gradient",
     "in x f32 N 2; in t f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a;"
     "Mul x a.weight -> h call=h:mul.Tensor(%x,%p_a); Exp h -> exp call=exp:exp.default(%h);"
     "Mul exp t -> m call=m:mul.Tensor(%exp,%t);"
     "Sub exp t -> val_0 call=y:mse_loss.default(%exp_1,%t);"
     "Mul val_0 val_0 -> y call=y:mse_loss.default(%exp_1,%t); Add y m -> z; ReduceMean z -> loss "
     "keepdims=0; out loss;",
     "made \"exp_1\", which \"val_0\" reads, one with \"exp\"", NULL},
    {"a copy of a value without its gradient",
     "in x f32 N 2; in t f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a;"
     "Mul x a.weight -> h call=h:mul.Tensor(%x,%p_a);"
     "Sub t h -> y call=y:sub.Tensor(%t,%clone);" MEAN,
     "dropped \"clone\", which \"y\" reads. A detach() before it would be lost", NULL},
    {"another form of a value without its gradient, of which a line tells",
     "in x f32 N 2; in t f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a;"
     "Mul x a.weight -> h call=h:mul.Tensor(%x,%p_a) line=h=self.a(x).detach().view(-1,2);"
     "Sub t h -> y call=y:sub.Tensor(%t,%view);" MEAN,
     "dropped \"view\", which \"y\" reads. A detach() before it would be lost", NULL},
    {"a function of a parameter, and one of it without its gradient",
     "in x f32 N 2; init exp f32 2 : 1 2; param a p_a; folded exp a;"
     "Mul x exp -> h call=h:mul.Tensor(%x,%exp); Add h exp -> y call=y:add.Tensor(%h,%exp_1);" MEAN,
     "made \"exp_1\", which \"y\" reads, one with \"exp\"", NULL},
    {"a function of several names",
     "in x f32 N 2; init exp f32 2 : 1 2; param a p_a; folded exp a,mul,val_2;"
     "Mul x exp -> y call=y:mul.Tensor(%x,%exp);" MEAN,
     "computed \"exp\" from parameter \"a\"", "a"},
    {"a function that does not make these numbers",
     "in x f32 N 2; init exp f32 2 : 1 -2; param a p_a; folded exp a;"
     "Mul x exp -> y call=y:mul.Tensor(%x,%exp);" MEAN,
     "computed \"exp\" from parameter \"a\"", "a"},
    {"an addition of nobody knows what",
     "in x f32 N 2; init add f32 2 : 1 2; param a.weight p_a; folded add a.weight,val_2;"
     "Mul x add -> y call=y:mul.Tensor(%x,%add) line=y~=~x~*~self.scaled();" MEAN,
     "computed \"add\" from parameter \"a.weight\"", "a.weight"},
    {"an addition in a longer sum",
     "in x f32 N 2; init add f32 2 : 1 2; param a.weight p_a; folded add a.weight,val_2;"
     "Mul x add -> y call=y:mul.Tensor(%x,%add) line=y~=~x~*~(2*1~+~self.weight);" MEAN,
     "computed \"add\" from parameter \"a.weight\"", "a.weight"},
    {"two norms of one, and two that could be the second",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.weight p_b;"
     "param c.weight p_c;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Add norm norm -> y call=y:add.Tensor(%norm,%norm_1) line=self.a+self.b+self.c;" MEAN,
     "2 of these are lost (\"b.weight\")", "b.weight,c.weight"},
    {"a norm that is read twice, and one that nobody reads",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.weight p_b;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Add norm norm -> y call=y:add.Tensor(%norm,%norm_1) line=self.a(x)+self.a(x);" MEAN,
     "1 of these are lost (\"b.weight\")", "b.weight"},
    {"results of equal norms that were made one too",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.weight p_b;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Relu norm -> relu call=relu:relu.default(%norm);"
     "Mul relu relu -> y call=y:mul.Tensor(%relu,%relu_1) line=self.a(x)*self.b(x);" MEAN,
     "1 of these are lost (\"b.weight\")", "b.weight"},
    {"results of equal norms that were made one too, beside a reader that has its own again",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.weight p_b;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Relu norm -> relu call=relu:relu.default(%norm);"
     "Mul relu relu -> m call=m:mul.Tensor(%relu,%relu_1);"
     "Add m norm -> y call=y:add.Tensor(%m,%norm_1) line=self.b(x);" MEAN,
     "not all that read them can be told apart (\"m\")", NULL},
    {"a norm that is read by a node without a call, beside a reader that has its own again",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.weight p_b;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Relu norm -> relu; Add relu norm -> y call=y:add.Tensor(%relu,%norm_1) line=self.b(x);" MEAN,
     "not all that read them can be told apart (\"relu\")", NULL},
    {"norms of two classes, whose equal weights have different names",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.scale p_b;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Add norm norm -> y call=y:add.Tensor(%norm,%norm_1) line=self.a(x)~+~self.b(x);" MEAN,
     "1 of these are lost (\"b.scale\")", NULL},
    {"a norm of which only a number is missing",
     "in x f32 N 2; init a.weight f32 2 : 1 1; init c.weight f32 2 : 2 3; param a.weight p_a;"
     "param b.weight p_b; param c.weight p_c;"
     "LayerNormalization x a.weight -> layer_norm "
     "call=layer_norm:layer_norm.default(%x,[2],%p_a);"
     "LayerNormalization layer_norm c.weight -> layer_norm_2 "
     "call=layer_norm_2:layer_norm.default(%view,[2],%p_c);"
     "Mul layer_norm_2 x -> y call=y:mul.Tensor(%layer_norm_2,%x);" MEAN,
     "1 of these are lost (\"b.weight\")", "b.weight"},
    {"three norms of one, and two weights",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.weight p_b;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Sum norm norm norm -> y call=y:add.Tensor(%norm,%norm_1,%norm_2) line=self.a+self.b;" MEAN,
     "calculations one that began with equal parameters (\"norm\"), and not all can be told apart",
     NULL},
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
    {"detach() where nobody knows",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a;"
     "Mul x a.weight -> h call=h:mul.Tensor(%x,%p_a); Mul h h -> s call=y:var.dim(%detach);"
     "Neg s -> y call=y:var.dim(%detach);" MEAN,
     "dropped a detach() before \"s\"", NULL},
};

/* What is computed again: an operator, how often it is in the graph. */
static const struct {
  const char *name, *text, *trained, *op;
  int count;
} again[] = {
    {"norms of the same values with equal weights",
     "in x f32 N 2; init a.weight f32 2 : 1 1; param a.weight p_a; param b.weight p_b;"
     "LayerNormalization x a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_a);"
     "Add norm norm -> y call=y:add.Tensor(%norm,%norm_1) line=self.a(x)~+~self.b(x);" MEAN,
     "a.weight b.weight", "LayerNormalization", 2},
    {"norms of two layers, by the modules that read them",
     "in x f32 N 2; init l.0.a.weight f32 2 : 1 1; init w f32 2 2 : 1 2 3 4;"
     "init v f32 2 2 : 5 6 7 8; param w p_w; param v p_v;"
     "param l.0.a.weight p_0a; param l.1.b.weight p_1b; param l.0.b.weight p_0b;"
     "LayerNormalization x l.0.a.weight -> norm call=norm:layer_norm.default(%x,[2],%p_0a);"
     "MatMul norm w -> p call=p:matmul.default(%norm,%p_w) scope=l.0;"
     "MatMul norm v -> q call=q:matmul.default(%norm_1,%p_v) scope=l.0.mlp "
     "line=z~=~self.v(self.b(x)); Add p q -> y;" MEAN,
     "l.0.a.weight l.0.b.weight v w", "LayerNormalization", 2},
    {"a token beside an equal one",
     "in x f32 N 2; init m.a f32 1 2 : 1 1; param m.a p_a; param m.b p_b;"
     "Neg m.a -> neg call=neg:neg.default(%p_a) scope=m;"
     "Concat neg neg -> c call=cat:cat.default([%neg,%neg_1],1) scope=m axis=0 "
     "line=cat(a,bs);"
     "ReduceMean c -> d keepdims=0; Add x d -> y;" MEAN,
     "m.a m.b", "Neg", 2},
    {"a layer of two nodes",
     "in x f32 N 2; init a.weight f32 2 2 : 1 2 3 4; init a.bias f32 2 : 5 6;"
     "param a.weight p_aw; param a.bias p_ab; param b.weight p_bw; param b.bias p_bb;"
     "MatMul x a.weight -> v call=linear:linear.default(%x,%p_aw,%p_ab);"
     "Add v a.bias -> linear call=linear:linear.default(%x,%p_aw,%p_ab);"
     "Mul linear linear -> y call=y:mul.Tensor(%linear,%linear_1) line=self.a(x)*self.b(x);" MEAN,
     "a.bias a.weight b.bias b.weight", "Linear", 2},
    {"a bias that is split for another module",
     "in x f32 N 2; init a.bias f32 4 : 1 2 1 2; param a.bias p_a; param b.bias p_b;"
     "init parts i64 2 : 2 2; Add a.bias a.bias -> s call=s:add.Tensor(%p_a,%p_a) scope=a;"
     "ReduceMean s -> m keepdims=0; Split a.bias parts -> u v axis=0;"
     "Add x u -> p call=p:add.Tensor(%x,%getitem) scope=b;"
     "Add p v -> q call=q:add.Tensor(%p,%getitem_1) scope=b; Add q m -> y;" MEAN,
     "a.bias b.bias", "Split", 1},
    {"an equal bias that is split for two modules",
     "in x f32 N 2; init a.bias f32 4 : 1 2 1 2; param a.bias p_a; param b.bias p_b;"
     "init parts i64 2 : 2 2; Split a.bias parts -> u v axis=0;"
     "Add x u -> p call=p:add.Tensor(%x,%getitem) scope=a;"
     "Add p v -> q call=q:add.Tensor(%p,%getitem_1) scope=a;"
     "Mul q u -> r call=r:mul.Tensor(%q,%getitem_2) scope=b;"
     "Mul r v -> y call=y:mul.Tensor(%r,%getitem_3) scope=b;" MEAN,
     "a.bias b.bias", "Split", 2},
    {"a table that was folded for two modules",
     "in x f32 N 2; init unsqueeze f32 1 2 : 3 4; param l.0.d p_0d; param l.1.d p_1d;"
     "folded unsqueeze l.0.d,val_1;"
     "Mul x unsqueeze -> h call=h:mul.Tensor(%x,%unsqueeze) scope=l.0;"
     "Mul h unsqueeze -> y call=y:mul.Tensor(%h,%unsqueeze_1) scope=l.1;" MEAN,
     "unsqueeze unsqueeze_1", "Mul", 2},
};

/* Functions of a parameter, undone: its first value, from -0.75, 0.5 or 2 */
static const struct {
  const char *name, *text, *parameter, *op;
  double value[2];
} undone[] = {
    {"exp",
     "in x f32 N 2; init exp f32 : 1.6487212707; param a p_a; folded exp a;"
     "Mul x exp -> y call=y:mul.Tensor(%x,%exp);" MEAN,
     "a",
     "Exp",
     {0.5}},
    {"-exp, unsqueezed",
     "in x f32 N 2; init unsqueeze_1 f32 1 2 : -1.6487212707 -7.3890560989; param a p_a;"
     "folded unsqueeze_1 exp_2,a,neg,unsqueeze,val_3;"
     "Mul x unsqueeze_1 -> y call=y:mul.Tensor(%x,%unsqueeze_1);" MEAN,
     "a",
     "Neg",
     {0.5, 2}},
    {"exp of the negative",
     "in x f32 N 2; init exp f32 2 : 1.6487212707 7.3890560989; param a p_a;"
     "folded exp a,neg; Mul x exp -> y call=y:mul.Tensor(%x,%exp);" MEAN,
     "a",
     "Exp",
     {-0.5, -2}},
    {"sigmoid",
     "in x f32 N 2; init sigmoid f32 2 : 0.6224593312 0.880797078; param a p_a;"
     "folded sigmoid a; Mul x sigmoid -> y call=y:mul.Tensor(%x,%sigmoid);" MEAN,
     "a",
     "Sigmoid",
     {0.5, 2}},
    {"1 + w",
     "in x f32 N 2; init add f32 2 : 0.25 1.5; param n.weight p_w; folded add n.weight,val_3;"
     "Mul x add -> y call=y:mul.Tensor(%x,%add) scope=n "
     "line=y~=~x~*~(1.0~+~self.weight.float());" MEAN,
     "n.weight",
     "Add",
     {-0.75, 0.5}},
    {"w + 1 of the second of equal ones",
     "in x f32 N 2; init add f32 2 : 0.25 1.5; param n.weight p_n; param o.weight p_o;"
     "folded add n.weight,val_3;"
     "Mul x add -> h call=y:mul.Tensor(%x,%add) scope=n line=(self.weight~+~1)~*~x;"
     "Mul h add -> y call=y:mul.Tensor(%h,%add_2) scope=o line=(self.weight~+~1)~*~x;" MEAN,
     "o.weight",
     "Add",
     {-0.75, 0.5}},
};

static int NodesOf(RengaGraph graph, const char *op)
{
  int count = 0;
  for (int i = 0; i < RengaGraphGetNodeCount(graph); i++)
    count += strcmp(RengaGraphGetNode(graph, i)->op->name, op) == 0;
  return count;
}

static int ByName(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static RengaErrorCode CheckTrained(const char *name, Message *model, const char *wanted,
                                   const char *op, int n_op)
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
  RengaCheck(!op || NodesOf(graph, op) == n_op, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "%s: %d %s, not %d", name, NodesOf(graph, op), op, n_op);
  RengaCall(RengaGraphDestroy(&graph));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckUndone(int row)
{
  RengaGraph graph;
  const char *text;
  float value[2];
  RengaCall(ReadModel(comm, NewModelOf(18, undone[row].text), NULL, NULL, &graph, &text));
  const RengaValue parameter = RengaGraphFindValue(graph, undone[row].parameter);
  const int64_t count = RengaTensorSpecCount(&RengaGraphGetValue(graph, parameter)->spec);
  RengaCall(RengaGraphInitializeValue(graph, parameter, 1, 0, count, value));
  for (int64_t i = 0; i < count; i++)
    RengaCheck(fabs((double)value[i] - undone[row].value[i]) < 1e-6, MPI_COMM_SELF,
               RENGA_ERR_INTERNAL, "%s: %.9g, not %g", undone[row].name, (double)value[i],
               undone[row].value[i]);
  RengaCheck(NodesOf(graph, undone[row].op) > 0 &&
                 strstr(text, "has functions of these parameters in their place: ") &&
                 strstr(text, undone[row].parameter),
             MPI_COMM_SELF, RENGA_ERR_INTERNAL, "%s: %s", undone[row].name, text);
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
    RengaCall(
        CheckTrained(cases[i].name, NewModelOf(18, cases[i].text), cases[i].trained, NULL, 0));
  for (size_t i = 0; i < sizeof again / sizeof *again; i++)
    RengaCall(CheckTrained(again[i].name, NewModelOf(18, again[i].text), again[i].trained,
                           again[i].op, again[i].count));
  for (size_t i = 0; i < sizeof undone / sizeof *undone; i++) RengaCall(CheckUndone((int)i));
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) RengaCall(CheckRefused((int)i));
  RengaCall(TestDetached());
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(RunTest)
