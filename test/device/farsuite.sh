#!/bin/sh
# Tests of the pipeline and of what uses a device, once more on the far device: nothing of theirs may
# touch its memory, or rely on when its work is done. RENGA_FAR_SEEDS: orders of its work, "1 2" unless
# given; odd ones with the kernels of cpu, even ones with those that stand in on any device, too.
# A program's name may end with its ranks: such ones run in odd orders.
. "${0%/*}/../app/common.sh"
seeds=${RENGA_FAR_SEEDS:-1 2}
programs=${RENGA_FAR_TESTS:-pipeline/again pipeline/gradient pipeline/groups pipeline/halves pipeline/kinds
  pipeline/layouts pipeline/leaf pipeline/named pipeline/networks pipeline/outcome pipeline/refuse
  pipeline/settings pipeline/together faults/each link/operator profile/measured
  pipeline/chunks:2 pipeline/together:2 pipeline/samplelosses:4 pipeline/named:4 checkpoint/parts:2
  checkpoint/resume:4 checkpoint/rollback:4}
if [ -n "${RENGA_TEST_SLOW:-}" ]; then # a few of each kind
  seeds=1
  programs="pipeline/together pipeline/chunks:2 checkpoint/parts:2 profile/measured"
fi
export MALLOC_PERTURB_=165 # what is freed too early does not stay as it was
[ $(echo "$seeds" | wc -w) -gt 2 ] || export RENGA_FAULT_TRIES=3
XDG_CACHE_HOME=$scratch
export XDG_CACHE_HOME

on_far() {
  RENGA_OPTIONS="-device_type far -device_far_seed $1 -device_far_kernels $2"
  export RENGA_OPTIONS
}

run() {
  name=${1%:*}
  ranks=1
  [ "$name" = "$1" ] || ranks=${1#*:}
  own timeout -k 5 $((2 * limit)) "$mpiexec" -n "$ranks" "$top_builddir/test/$name" </dev/null >out 2>&1 ||
    fail "test/$name on $ranks ranks with $RENGA_OPTIONS"
}

# The program: a run with a validation, a checkpoint, another run that goes on; then what cpu says.
train="train -graph $gpt -data synthetic -data_samples 40 -batch_size 8 -microbatch_size 3 -seed 3 -progress none
  -data_validation 0.2 -eval_every 2 -parameter_digest"
convolutions="train -graph resnet:depth=18,width=0.0625,image=16,classes=5 -data synthetic -data_samples 40
  -batch_size 8 -microbatch_size 3 -progress none -parameter_digest -steps 2"
# Replicas whose batches are now short, now whole, so that the messages of a sum are now more, now less;
# on two ranks the second run's layout is one that follows from costs measured there.
short="train -graph ncf:users=50,items=40 -data synthetic -data_samples 21 -batch_size 8 -microbatch_size 1
  -progress none -parameter_digest -steps 8"
several() {
  accepts "$1" $short -layout_pipeline 1 -comm_message_limit 64
  digest >>"$2.txt"
  accepts "$1" $short
  digest >>"$2.txt"
}
whole() {
  rm -rf c
  accepts 1 $train -steps 3 -checkpoint_dir c -monitor "csv:$1.csv"
  accepts 1 $train -steps 5 -checkpoint_dir c -resume -monitor "csv:$1.csv" -log_view -log_trace trace.json
  says "Forward"
  digest >"$1.txt"
  accepts 1 $convolutions
  digest >>"$1.txt"
  accepts 1 predict "$1.h5" -graph "$gpt" -data synthetic -data_samples 5 -initial c
}

# Tensor- and context-parallel ranks, shares of gradients and of parameters, on replicas that have other numbers of
# micro-batches, and what lies on the host: all have the bits of one rank.
lanes="train -graph llama:layers=2,hidden=16,heads=4,sequence=8,vocabulary=32 -data synthetic -data_samples 40 -batch_size 5
  -microbatch_size 1 -progress none -parameter_digest -steps 2"
shares="$lanes -layout_pipeline 1 -pipeline_buckets 3"
laid() {
  accepts "$@"
  equal "$(digest)" "$one" "another digest than on one rank: $* with ${RENGA_OPTIONS:-}"
}
layouts() {
  one=$1
  shift
  laid 2 $lanes -graph_lanes 2 -layout_tensor 2 -layout_pipeline 1 "$@"
  laid 4 $shares -graph_lanes 2 -layout_tensor 2 -layout_data 2 -layout_zero 3 "$@"
}
shares() {
  one=$1
  shift
  laid 3 $shares -layout_data 3 -layout_zero 2 "$@"
  laid 2 $shares -layout_data 2 -layout_zero 3 "$@"
  laid 4 $lanes -layout_pipeline 2 -layout_data 2 -layout_zero 3 -schedule_type zb-h1 "$@"
}

unset RENGA_OPTIONS
accepts 1 $lanes -graph_lanes 2
digest >lanes.txt
accepts 1 $lanes
digest >shares.txt
whole cpu
several 1 cpu
[ "$(wc -l <cpu.txt)" -eq 4 ] || fail "no digests"
for seed in $seeds; do
  on_far "$seed" cpu
  whole far
  several 2 far
  equal_files cpu.txt far.txt "other parameters with $RENGA_OPTIONS"
  equal_files cpu.h5 far.h5 "other predictions with $RENGA_OPTIONS"
  equal "$(cut -d, -f1,2,7 cpu.csv)" "$(cut -d, -f1,2,7 far.csv)" "other losses with $RENGA_OPTIONS"
  rm -f far.csv far.h5
  layouts "$(cat lanes.txt)"
  shares "$(cat shares.txt)"
  layouts "$(cat lanes.txt)" -layout_offload all
  shares "$(cat shares.txt)" -layout_offload all
  for program in $programs; do
    case $program in *:*) [ $((seed % 2)) -eq 1 ] || continue ;; esac
    run "$program"
  done
  [ $((seed % 2)) -eq 1 ] && continue
  on_far "$seed" ref
  for program in pipeline/layouts pipeline/together link/operator; do
    run $program
  done
done
unset RENGA_OPTIONS
finish
