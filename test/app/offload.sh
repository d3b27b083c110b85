#!/bin/sh
# Moments of the optimizer and saved activations in the host's memory: the bits and the forecasts of runs, checkpoints that go on
# with and without, and what is refused. Device far has memory of its own, which the host cannot touch.
. "${0%/*}/common.sh"
wide="mlp:sizes=300-900-300-4" # more than two windows of moments
train="train -data synthetic -batch_size 8 -microbatch_size 2 -optimizer_type adamw -device_type far \
  -parameter_digest -progress none"
offload="-layout_offload optimizer"

# as_foretold: the table of memory at the end has the same bytes twice in each row.
as_foretold() {
  awk '/stage.*replica/ && /[KMG]iB|bytes/ { if ($(NF - 5) " " $(NF - 4) != $(NF - 3) " " $(NF - 2)) wrong = 1; rows++ }
    END { exit wrong || !rows }' out || fail "memory is not as foretold"
}

# same RANKS LAYOUT...: the digest of the run without.
same() {
  ranks=$1
  shift
  # shellcheck disable=SC2086
  accepts "$ranks" $train $offload "$@"
  says "$digest"
  as_foretold
}

for graph in "$wide" "$gpt"; do
  accepts 1 $train -graph $graph -steps 3
  digest=$(digest)
  same 1 -graph $graph -steps 3
  same 2 -graph $graph -steps 3 -partition_type even -layout_pipeline 2
  same 2 -graph $graph -steps 3 -partition_type even -layout_data 2 -layout_zero 1
done
same 2 -graph $gpt -steps 3 -partition_type even -layout_pipeline 2 -layout_chunks 2
accepts 1 $train -graph $wide -steps 3 -optimizer_type sgd -optimizer_momentum 0.9 -optimizer_clip_norm 0.1
digest=$(digest)
same 1 -graph $wide -steps 3 -optimizer_type sgd -optimizer_momentum 0.9 -optimizer_clip_norm 0.1

# The device has two windows of 1 MiB for each moment, where it had all of them.
accepts 1 plan -graph $wide -batch_size 8 -optimizer_type adamw -device_type far -plan_view json:with.json $offload
grep -q '"optimizer": *4194304' with.json || fail "the forecast counts no windows: $(grep optimizer with.json)"

# Checkpoints of either go on as the other.
accepts 1 $train -graph $wide -steps 4
digest=$(digest)
accepts 1 $train -graph $wide -steps 2 -checkpoint_dir one $offload
accepts 1 $train -graph $wide -steps 4 -checkpoint_dir one -resume
says "$digest"
accepts 1 $train -graph $wide -steps 2 -checkpoint_dir other
accepts 2 $train -graph $wide -steps 4 -checkpoint_dir other -resume $offload -partition_type even \
  -layout_data 2 -layout_zero 1
says "$digest"
accepts 1 $train -graph $wide -steps 4 -checkpoint_dir aside -checkpoint_every 1 -checkpoint_async $offload
says "$digest"

# Tensors that forward saves, alone and with the moments, under schedules that hold them long; the device has those of one
# micro-batch. Dropout draws its numbers once.
accepts 1 $train -graph $gpt,dropout=0.1 -steps 3
digest=$(digest)
for saved in saved all; do
  offload="-layout_offload $saved"
  same 1 -graph $gpt,dropout=0.1 -steps 3
  for schedule in gpipe 1f1b zb-h1 interleaved; do
    same 2 -graph $gpt,dropout=0.1 -steps 3 -partition_type even -layout_pipeline 2 -schedule_type $schedule
  done
  same 2 -graph $gpt,dropout=0.1 -steps 3 -partition_type even -layout_data 2 -layout_zero 1
done
plan="plan -graph $gpt -batch_size 8 -microbatch_size 1 -optimizer_type adamw -device_type far -partition_type even \
  -partition_ranks 2 -layout_pipeline 2 -schedule_type gpipe"
accepts 1 $plan -plan_view json:kept.json
accepts 1 $plan -plan_view json:away.json -layout_offload saved -plan_save away.txt
grep -q "saved offload" away.txt || fail "the plan's file does not say that stages offload"
for place in 1 2; do # of the two stages
  kept=$(grep '"saved": *[0-9]' kept.json | sed -n ${place}p | tr -cd 0-9)
  away=$(grep '"saved": *[0-9]' away.json | sed -n ${place}p | tr -cd 0-9)
  [ $((2 * away)) -lt "$kept" ] || fail "saved activations take $away bytes of the device, and $kept without"
done
accepts 2 $train -graph $gpt -steps 1 -plan_load away.txt
refuses 2 "the memory of device cpu is the host's already: leave it out" $train -graph $gpt -steps 1 -plan_load away.txt \
  -device_type cpu
refuses 1 "-layout_recompute full says something else of them" $train -graph $wide -steps 1 -layout_offload saved \
  -layout_recompute full
accepts 1 $plan -plan_save keeps.txt
refuses 2 "stage 0 of the plan offloads no saved activations" $train -graph $gpt -steps 1 -plan_load keeps.txt \
  -layout_offload saved

offload="-layout_offload optimizer"
refuses 2 "the memory of device cpu is the host's already: leave it out" $train -graph $wide -steps 1 $offload \
  -device_type cpu
refuses 2 "sgd as it is set has no moments that could be offloaded" $train -graph $wide -steps 1 $offload \
  -optimizer_type sgd
refuses 2 "does not go with -optimizer_sparse lazy" $train -graph $gpt -steps 1 $offload -optimizer_sparse lazy
refuses 2 "-layout_offload moments: not one of none|optimizer|saved|all" $train -graph $wide -steps 1 -layout_offload moments
finish
