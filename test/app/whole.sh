#!/bin/sh
# Losses across samples: a network that cannot be cut into micro-batches is trained where the options
# say that a batch is one micro-batch on one replica, and refused with what to do where they do not.
. "${0%/*}/common.sh"

network() {
  "$top_builddir/test/app/network" "$1" 18 "$(echo "$2" | tr '\n' ' ')" || fail "$1 cannot be written"
}

# Each sample beside all, found out while the file is read.
linear="in x f32 N 4; init w f32 4 3 : .1 .2 .3 -.4 .5 .6 -.7 .8 .9 .1 -.2 .3; MatMul x w -> h"
network pairs.onnx "$linear; Transpose h -> t perm=1,0; MatMul h t -> s; Softmax s -> p axis=1;
  Mul p s -> q; ReduceMean q -> loss keepdims=0; out loss"
# The square of a sum over the batch, found out when the network is set up.
network dice.onnx "$linear; Sigmoid h -> p; ReduceSum p -> a keepdims=0; Mul a a -> b; Exp h -> e;
  ReduceSum e -> d keepdims=0; Div b d -> loss; out loss"

once="-data synthetic -data_samples 24 -data_validation 0 -batch_size 8 -microbatch_size 8"
once="$once -steps 6 -seed 3 -parameter_digest"
csv() {
  sed '/^#/d' "$1" | cut -d, -f1-3
}
network bare.onnx "$linear; Exp h -> e; out e"
refuses 2 "bare.onnx has no loss, so that there is nothing to train for" train -graph bare.onnx $once
for file in pairs dice; do
  [ $file = pairs ] && why='value "s" has 2 dimensions that depend on the batch' || why='node "b" (Mul)'
  accepts 1 train -graph $file.onnx $once -monitor csv:auto.csv
  says "$file.onnx is read for whole batches of 8, never cut: "
  says "$why"
  lacks "error"
  lacks "Where that is meant"
  [ "$(grep -c "warning" out)" -le 1 ] || fail "a warning is repeated"
  digest >auto.txt
  # The same as when it is asked for, and on two stages.
  accepts 1 train -graph $file.onnx $once -monitor csv:given.csv -graph_whole_batch 8
  lacks "is read for whole batches"
  digest >given.txt
  accepts 2 train -graph $file.onnx $once -monitor csv:stages.csv -layout_pipeline 2
  digest >stages.txt
  for other in given stages; do
    equal_files auto.txt $other.txt "$file: other parameters, $other"
    equal "$(csv auto.csv)" "$(csv $other.csv)" "$file: other losses, $other"
  done
  [ "$(csv auto.csv | wc -l)" -eq 7 ] || fail "not a row for each step"
  rm auto.csv given.csv stages.csv

  # Several micro-batches or replicas, or nothing said: refused, with both ways.
  advice="give -microbatch_size that of -batch_size, or -graph_whole_batch SIZE"
  for cut in "-microbatch_size 4" "-layout_data 2" "-graph_whole_batch 0"; do
    refuses 2 "$advice" train -graph $file.onnx $once $cut
    says "$why"
    says "one micro-batch on one replica"
    [ "$(grep -c "error" out)" -eq 1 ] || fail "not one sentence"
  done
  refuses 1 "$advice" plan -graph $file.onnx -batch_size 8
  accepts 1 plan -graph $file.onnx -batch_size 8 -microbatch_size 8
  says "in 1 micro-batch of 8"
  refuses 2 "a batch of 8 in micro-batches of 8 on 2 replicas, but such a network takes one" train -graph $file.onnx $once -graph_whole_batch 8 -layout_data 2
  refuses 1 "the network is read for batches of 8 that are never cut, but some steps have 4 samples" \
    train -graph $file.onnx $once -data_samples 20
done

# A network that can be cut is not touched by it.
accepts 1 train -graph $mlp $once
lacks "never cut"

# What is wrong in either way is said once; what is wrong in the second is said beside the first.
network unknown.onnx "$linear; Transpose h -> t perm=1,0; Furl t -> loss; out loss"
refuses 2 "not supported: Furl" plan -graph unknown.onnx -batch_size 8 -microbatch_size 8
lacks "never cut"
[ "$(grep -c "error" out)" -eq 1 ] || fail "not one sentence"
network fixed.onnx "in x f32 4 3; init w f32 3 2 : 1 2 3 4 5 6; MatMul x w -> h;
  Transpose h -> t perm=1,0; MatMul h t -> s;
  ReduceMean s -> loss keepdims=0; out loss"
refuses 2 "dimensions that depend on the batch, at most one may. Read for whole batches of 8, never cut" \
  plan -graph fixed.onnx -batch_size 8 -microbatch_size 8
says "fixed.onnx has a fixed batch of 4"
[ "$(grep -c "error" out)" -eq 1 ] || fail "not one sentence"
accepts 1 plan -graph fixed.onnx -batch_size 4 -microbatch_size 4
finish
