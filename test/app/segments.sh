#!/bin/sh
# A network that needs four times a rank's memory on one rank trains within it on four ranks and on two, for stages make
# a part of themselves again at a time: the planner finds what lies between the parts, the parameters are the same, and
# what a run takes is what was foretold.
. "${0%/*}/common.sh"
graph="gpt:layers=8,hidden=32,heads=2,sequence=256,vocabulary=40"
size="-graph $graph -batch_size 8 -microbatch_size 2 -partition_leaf 4"
plan="plan $size -machine_file laptop -partition_type even -schedule_type 1f1b"
train="train $size -data synthetic -parameter_digest -progress none -steps 2 -device_threads 1"
memory() { awk '$1 == "memory" && $2 > most { most = $2 } END { print most }' "$1"; }

accepts 1 $plan -partition_ranks 1 -layout_recompute none -plan_save one.txt
quarter=$(($(memory one.txt) / 4))
accepts 1 $train -plan_load one.txt
digest=$(digest)
for devices in 2 4; do
  refuses 1 "the network does not fit on $devices devices of " $plan -partition_ranks $devices -layout_pipeline $devices -layout_recompute none -partition_memory $quarter
  accepts 1 $plan -partition_ranks $devices -layout_pipeline $devices -partition_memory $quarter -plan_save planned.txt
  says "in part"
  [ "$(memory planned.txt)" -le $quarter ] || fail "a plan takes more than there is on $devices ranks"
  accepts $devices $train -plan_load planned.txt -partition_memory $quarter
  says "$digest"
done

as_forecast() { awk '$1 == "device" && NF == 7 { met = $2 == $4 && $3 == $5 } END { exit !met }' out || fail "not the memory that was forecast"; }

# All that is made again is so in segments: about the square root of the layers, with costs and without, where ranks have
# several stages, too, and under any schedule.
accepts 1 $plan -partition_ranks 2 -layout_pipeline 2 -layout_recompute full -plan_save full.txt
says "in part"
sed "/^  keeps/d" full.txt >once.txt
accepts 1 plan -graph $graph -machine_file laptop -plan_load once.txt -plan_save again.txt
[ $((3 * $(memory full.txt))) -lt $((2 * $(memory again.txt))) ] || fail "segments take more than two thirds of a stage at once"
for stages in "-layout_pipeline 1" "-layout_pipeline 2" "-layout_pipeline 2 -schedule_type gpipe" \
  "-layout_pipeline 2 -schedule_type interleaved"; do
  ranks=2
  [ "$stages" != "-layout_pipeline 1" ] || ranks=1
  accepts $ranks $train -partition_type even $stages -layout_recompute full -log_view
  says "$digest"
  as_forecast
done

# Replicas that share parameters, too, with costs and without: what a stage keeps follows from the memory.
size="-graph gpt:layers=8,hidden=32,heads=2,sequence=512,vocabulary=40 -batch_size 8 -microbatch_size 2 -partition_leaf 1"
plan="plan $size -machine_file laptop -partition_type even -schedule_type 1f1b"
train="train $size -data synthetic -parameter_digest -progress none -steps 1 -device_threads 1"
accepts 1 $plan -partition_ranks 1 -layout_recompute none -plan_save one.txt
quarter=$(($(memory one.txt) / 4))
accepts 1 $train -plan_load one.txt
digest=$(digest)
shares="-layout_pipeline 1 -layout_data 2 -layout_zero 3"
within="-partition_memory $quarter"
refuses 1 "a device may use" $plan -partition_ranks 2 $shares $within -layout_recompute none
accepts 1 $plan -partition_ranks 2 $shares $within -plan_save shared.txt
says "in part"
[ "$(memory shared.txt)" -le $quarter ] || fail "a plan of replicas takes more than there is"
for ways in "-plan_load shared.txt" "$shares -partition_type even" "$shares -partition_type even -layout_recompute full"; do
  accepts 2 $train $ways $within -log_view
  says "$digest"
  as_forecast
done
refuses 2 "-partition_memory allows 5.20 MiB; the largest part is saved with 17.6 MiB" $train $shares $within -partition_type even -layout_recompute none
# The bound is of plans that can be: where replicas share gradients all stages have as many.
accepts 1 plan -graph "llama:layers=2,hidden=24,heads=6,groups=3,intermediate=37,sequence=8,vocabulary=61" -batch_size 8 -microbatch_size 2 \
  -partition_type even -partition_ranks 6 -layout_pipeline 3 -layout_data 2 -layout_zero 3 -layout_recompute full
# Six layers need more memory in 4 parts than in 3, but the least in 6.
accepts 1 train -graph gpt:layers=6,hidden=16,heads=2,vocabulary=64,sequence=256 -batch_size 2 -microbatch_size 1 -data synthetic \
  -steps 1 -progress none -partition_type even -layout_recompute full -partition_memory 1000KiB -device_threads 1
finish
