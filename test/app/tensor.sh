#!/bin/sh
# Ranks that share out lanes of heads and columns, as the command has them: runs that go on elsewhere, plans and lanes
# that runs keep, tables of plans, want of memory, and options of the program that are refused. Bits and memory on all
# layouts, other refusals and what plans say are in test/lanes.
. "${0%/*}/common.sh"
heads="gpt:layers=2,hidden=20,heads=5,sequence=8,vocabulary=61"
small="-data synthetic -data_samples 600 -batch_size 8 -microbatch_size 2 -parameter_digest -progress none -optimizer_clip_norm 0.5"

# A run that goes on elsewhere, there and back, and its evaluations.
valued="-eval_every 3 -data_validation 0.2 -eval_samples 96"
accepts 1 train -graph "$heads" $small $valued -graph_lanes 3 -steps 6
digest=$(grep "parameter digest 0x" out)
values=$(grep "validation" out)
[ -n "$values" ] || fail "no evaluation"
accepts 2 train -graph "$heads" $small $valued -graph_lanes 3 -steps 3 -checkpoint_dir c -layout_tensor 2
middle=$(grep "validation" out)
accepts 2 train -graph "$heads" $small $valued -steps 4 -checkpoint_dir c -resume -partition_type even -layout_data 2 \
  -layout_zero 3
accepts 4 train -graph "$heads" $small $valued -steps 5 -checkpoint_dir c -resume -layout_tensor 2 -layout_data 2 \
  -layout_zero 1
accepts 4 train -graph "$heads" $small $valued -steps 6 -checkpoint_dir c -resume -layout_pipeline 2 -layout_tensor 2
says "$digest"
says "2 stages x 1 replica x 2 tensor-parallel ranks on 4 ranks"
both=$(echo "$middle" && grep "validation" out)
[ "$both" = "$values" ] || fail "other evaluations than $values: $both"

# Lanes that nobody gives are those of the ranks, of a plan's file, of a checkpoint.
accepts 2 train -graph "$heads" $small -steps 2 -layout_tensor 2 -plan_save two.txt -checkpoint_dir two
says "2 lanes at most, which decide bits"
two=$(grep "parameter digest 0x" out)
RENGA_FAULT=allocation:0:1
export RENGA_FAULT
accepts 2 train -graph "$heads" $small -steps 2 -plan_load two.txt
unset RENGA_FAULT
says "$two"
says "2 lanes at most, which decide bits"
allocations=$(sed -n 's/.*rank 1 came to \([0-9]*\) events of kind allocation.*/\1/p' out)
accepts 1 train -graph "$heads" $small -steps 3 -checkpoint_dir two -resume
says "2 lanes at most, which decide bits"
accepts 1 train -graph "$heads" $small -steps 1 -checkpoint_dir one
refuses 2 "2 tensor-parallel ranks (-layout_tensor) split the lanes of the network, of which there is 1: give -graph_lanes 2 or more" \
  train -graph "$heads" $small -layout_tensor 2 -checkpoint_dir one -resume

# The number is chosen where that is asked for; tables try several; costs that are measured are said.
whole="$small -microbatch_size 8 -graph_lanes 3 -steps 3"
accepts 1 train -graph "$heads" $whole
one=$(grep "parameter digest 0x" out)
accepts 2 train -graph "$heads" $whole -layout_tensor auto -machine_file laptop
says "$one"
says "1 stage x 1 replica x 2 tensor-parallel ranks on 2 ranks"
accepts 1 plan -graph "$heads" -graph_lanes 3 -batch_size 8 -microbatch_size 2 -machine_file laptop -partition_ranks 6 \
  -plan_sweep layout_tensor:1,2,3
[ "$(grep -c '^ *[123]  .* us ' out)" -eq 3 ] || fail "not three plans that were searched"
accepts 2 train -graph "$heads" -data synthetic -batch_size 24 -steps 3 -progress none -layout_tensor 2 -profile_type measured \
  -plan_explain
says "in micro-batches of 24, 3"
says "per step: measured is "

# Learners that train apart.
refuses 4 "-layout_tensor 2 together with -train_average local:2 is not supported" train -graph "$heads" $small -graph_lanes 3 \
  -layout_tensor 2 -train_average local:2 -train_learners 2
accepts 2 train -graph "$heads" $small -graph_lanes 3 -layout_tensor auto -train_average local:2 -train_learners 2
refuses 4 "a plan with tensor-parallel ranks together with -train_average local:2 is not supported" train -graph "$heads" $small -plan_load two.txt \
  -train_average local:2 -train_learners 2

# wants FAULT RANKS OPTION...: a rank that has no room says so, and all end, soon; else nothing is said, and the bits are
# right.
wants() {
  fault=$1
  ranks=$2
  shift 2
  RENGA_FAULT=$fault timeout -k 5 $limit "$mpiexec" -n "$ranks" "$renga" train -graph "$heads" $small -steps 2 -graph_lanes 2 \
    -layout_tensor 2 -timeout 20 "$@" </dev/null >out 2>&1
  code=$?
  [ $code -ne 124 ] && [ $code -ne 137 ] || fail "$fault did not end"
  if [ $code -ne 0 ]; then
    says "no room for "
  else
    lacks "no room for "
    says "$two"
  fi
}
[ "${allocations:-0}" -gt 1000 ] || fail "allocations were not counted"
wants "allocation:$((allocations / 2)):1" 2
[ $code -ne 0 ] || fail "half of $allocations allocations were none"
wants "allocation:$((allocations * 9 / 10)):1" 4 -layout_pipeline 2 -layout_recompute full

# Nobody gives the tensor-parallel ranks: they are chosen, with lanes, where that is faster, and the plan says what each axis wins.
machines=$top_srcdir/test/golden/machines
chosen="plan -graph mlp:layers=4,hidden=256 -machine_file $machines/m8_0.opts -batch_size 24 -optimizer_type adam -microbatch_size 6
  -partition_leaf 1 -machine_memory 3705216"
accepts 1 $chosen -plan_explain -plan_save chosen.txt
says "2 stages x 1 replica"
says "chosen: 2 lanes of heads and columns"
says "axis: without tensor-parallel ranks (-layout_tensor 1) "
says "the lower bound is the least of those of plans with 1, 2, 1 in 2 lanes tensor-parallel ranks"
accepts 1 $chosen -plan_load chosen.txt
accepts 1 $chosen -graph_lanes 1
lacks "lanes of heads"
# So does a run, and goes on in the lanes that were chosen for it.
run="train -graph mlp:layers=4,hidden=256 -data synthetic -batch_size 24 -optimizer_type adam -microbatch_size 6 -partition_leaf 1
  -machine_file $machines/m8_0.opts -partition_memory 3705216 -parameter_digest -progress none"
accepts 4 $run -steps 4
says "2 tensor-parallel ranks on 4 ranks"
says "chosen: 2 lanes of heads and columns"
whole=$(digest)
accepts 4 $run -steps 2 -checkpoint_dir lanes
accepts 4 $run -steps 4 -checkpoint_dir lanes -resume
says "$whole"
accepts 2 $run -steps 4 -graph_lanes 2 -partition_memory 0
says "$whole"
# Eight nodes make no slower plan than one: halves of the devices are looked at, too.
mlp64="plan -graph mlp:sizes=64-128-128-10 -machine_file $machines/small.opts -batch_size 16 -partition_leaf 1"
accepts 1 $mlp64 -machine_nodes 1 -plan_save nodes1.txt
accepts 1 $mlp64 -machine_nodes 8 -plan_explain -plan_save nodes8.txt
says "devices stay idle: no plan that was found with all of them is faster"
awk '$1 == "predicted" { step[++n] = $2 } END { exit !(n == 2 && step[2] <= step[1] * 1.000001) }' nodes1.txt nodes8.txt ||
  fail "slower on eight nodes than on one"
finish
