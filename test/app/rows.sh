#!/bin/sh
# Tables that are updated by rows: the run names them; parameters are the same on any layout and from any
# checkpoint; plans count what rows take, and their bound is not above them; what is not supported is
# refused by name.
. "${0%/*}/common.sh"
ncf="ncf:users=4000,items=900,factors=16,layers=32-16"
train="train -graph $ncf -data synthetic -batch_size 16 -microbatch_size 2 -parameter_digest -progress none"
adam="-optimizer_type adam -optimizer_clip_norm 0.5 -optimizer_sparse lazy"

accepts 1 $train $adam -steps 4 -checkpoint_dir one
digest=$(digest)
says "mf.user.weight is updated by the rows that a step reads: up to 16 of 4000"
says "mlp.item.weight is updated by the rows that a step reads: up to 16 of 900"
accepts 1 $train $adam -steps 1 -optimizer_groups "mf.*:frozen=yes"
says "mlp.item.weight is updated by the rows that a step reads: up to 16 of 900"
lacks "mf.user.weight is updated by the rows"
accepts 2 $train $adam -steps 4 -layout_pipeline 2
says "$digest"
accepts 2 $train $adam -steps 2 -layout_data 2 -checkpoint_dir two
accepts 3 $train $adam -steps 4 -layout_pipeline 1 -layout_data 3 -layout_zero 1 -checkpoint_dir two -resume
says "$digest"
refuses 1 "optimizer_sparse         was lazy, is off" $train -optimizer_type adam -optimizer_clip_norm 0.5 -steps 5 \
  -checkpoint_dir two -resume -resume_strict
accepts 1 $train -optimizer_type sgd -steps 4
digest >whole
accepts 1 $train -optimizer_type sgd -steps 4 -optimizer_sparse lazy
says "$(cat whole)"
accepts 1 $train -optimizer_type adam -steps 4
digest >whole
accepts 2 $train -optimizer_type adam -steps 4 -optimizer_sparse exact -layout_data 2
says "$(cat whole)"
says "mf.user.weight has gradients of the rows that a step reads: up to 16 of 4000"

# A table that is read by constant numbers, for all samples alike: backwards in two parts make its rows in the second.
t5="train -graph t5:layers=1,hidden=16,heads=2,head_width=8,sequence=3,target=5,vocabulary=20 -data synthetic -batch_size 6
  -microbatch_size 2 -parameter_digest -progress none -steps 2 -optimizer_sparse lazy"
accepts 1 $t5 -schedule_type 1f1b
digest=$(digest)
says "encoder.distances.weight is updated by the rows that a step reads"
accepts 1 $t5 -schedule_type zb-h1
says "$digest"
accepts 2 $t5 -layout_pipeline 2 -schedule_type zb-h2
says "$digest"

# Bytes of gradients of a plan, and its bound in its own unit.
gradients() {
  sed -n '/^ *stage  *parameters  *gradients/,$p' out | sed -n 2p | awk '{print $4, $5}'
}
plan="plan -graph $ncf -machine_file laptop -batch_size 16 -microbatch_size 2 -optimizer_type adam -graph_lanes 1"
accepts 1 $plan -layout_pipeline 1 -layout_data 1
whole=$(gradients)
accepts 1 $plan -layout_pipeline 1 -layout_data 1 -optimizer_sparse lazy
rows=$(gradients)
case $whole in *MiB) ;; *) fail "gradients of whole tables take $whole" ;; esac
case $rows in *KiB) ;; *) fail "gradients of rows take $rows" ;; esac
# The bound is that of rows too: no plan of the same task is faster than it says.
accepts 1 $plan -optimizer_sparse lazy
says "lower bound: no plan takes less than"
awk '/predicted:/ {p = $2; pu = $3} /lower bound:/ {for (i = 1; i < NF; i++) if ($i == "than") {b = $(i + 1); bu = $(i + 2)}}
  END {sub(/[^a-z].*/, "", bu); s["ms"] = 1e3; s["us"] = 1; s["s"] = 1e6; exit !(b * s[bu] > 0 && b * s[bu] <= 1.001 * p * s[pu])}' out ||
  fail "the bound is above the prediction"

refuses 1 "-optimizer_sparse lazy updates rows of float32 tables; -precision is bf16" $train $adam -steps 1 -precision bf16
refuses 1 "-optimizer_sparse eager: not one of off|lazy" $train -steps 1 -optimizer_sparse eager
finish
