#!/bin/sh
# What stages keep of forward, and what they make again: the same parameters whatever it is, also of runs
# that go on with another choice; less memory, as planned; and no other plan than was asked for.
. "${0%/*}/common.sh"
graph="gpt:layers=4,hidden=32,heads=2,sequence=16,vocabulary=40,dropout=0.1"
train="train -graph $graph -data synthetic -batch_size 16 -microbatch_size 2 -parameter_digest -progress none"
plan="plan -graph $graph -machine_file laptop -batch_size 16 -microbatch_size 2 -partition_type even
  -partition_ranks 2 -layout_pipeline 2 -layout_data 1 -partition_leaf 1 -schedule_type gpipe"

accepts 1 $plan -layout_recompute none -plan_save keep.txt
accepts 1 $plan -layout_recompute full -plan_save full.txt
grep -q "saved keep" full.txt && fail "a stage keeps what it was to make again"
grep -q "saved recompute" keep.txt && fail "a stage makes again what it was to keep"
memory() { awk '$1 == "memory" && $2 > most { most = $2 } END { print most }' "$1"; }
step() { awk '$1 == "predicted" { print $2 }' "$1"; }
[ "$(memory full.txt)" -lt "$(memory keep.txt)" ] || fail "what is made again saves no memory"
half=$((($(memory full.txt) + $(memory keep.txt)) / 2))
accepts 1 $plan -partition_memory $half -plan_save part.txt -plan_explain
says "in part"
grep -q "  keeps blocks" part.txt || fail "the file of the plan does not say what is kept"
[ "$(memory part.txt)" -le $half ] || fail "what is kept takes more than there is"
awk -v full="$(step full.txt)" -v part="$(step part.txt)" -v keep="$(step keep.txt)" \
  'BEGIN { exit !(keep < part && part < full) }' || fail "a part of it takes no time between none and all"
accepts 1 $plan -layout_recompute auto -plan_save auto.txt
grep -q "saved recompute" auto.txt && fail "a stage makes again what there is room for"

# Files that are loaded are predicted as they were, and run with the same bits, interrupted or not.
accepts 1 plan -graph $graph -machine_file laptop -plan_load part.txt
lacks "warning"
accepts 1 $train -steps 4
digest=$(digest)
for file in keep full part; do
  accepts 2 $train -steps 4 -plan_load $file.txt
  says "$digest"
done
accepts 2 $train -steps 2 -plan_load part.txt -checkpoint_dir on
accepts 2 $train -steps 3 -plan_load full.txt -checkpoint_dir on -resume
accepts 2 $train -steps 4 -plan_load part.txt -checkpoint_dir on -resume
says "$digest"
accepts 2 $train -steps 4 -partition_type even -layout_pipeline 2 -layout_recompute full
says "$digest"

refuses 2 "the settings ask for -layout_recompute none, but stage" $train -steps 4 -plan_load part.txt -layout_recompute none
refuses 2 "the settings ask for -layout_recompute full, but stage 0 of the plan recomputes nothing" $train -steps 4 -plan_load keep.txt -layout_recompute full
refuses 1 "the network does not fit" $plan -layout_recompute none -partition_memory $half
refuses 1 "-layout_recompute most: not one of auto=selective|none|full" $plan -layout_recompute most
sed 's/  keeps blocks/  keeps block/' part.txt >wrong.txt
refuses 1 "but the network has no such value" plan -graph $graph -machine_file laptop -plan_load wrong.txt
finish
