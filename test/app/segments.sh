#!/bin/sh
# A network that needs four times a rank's memory on one rank trains within it on four ranks and on two, for stages make
# a part of themselves again at a time: the planner finds what lies between the parts, the parameters are the same, and
# what a run takes is what was foretold.
. "${0%/*}/common.sh"
graph="gpt:layers=8,hidden=32,heads=2,sequence=256,vocabulary=40"
size="-graph $graph -batch_size 8 -microbatch_size 2 -reduction_leaf 4"
plan="plan $size -machine_file laptop -partition_type even -pipeline_schedule 1f1b"
train="train $size -data synthetic -parameter_digest -progress none -steps 2 -device_threads 1"
memory() { awk '$1 == "memory" && $2 > most { most = $2 } END { print most }' "$1"; }

accepts 1 $plan -partition_ranks 1 -pipeline_recompute none -plan_save one.txt
quarter=$(($(memory one.txt) / 4))
accepts 1 $train -plan_load one.txt
digest=$(grep "parameter digest 0x" out)
for devices in 2 4; do
  refuses 1 "does not fit" $plan -partition_ranks $devices -partition_stages $devices -pipeline_recompute none -partition_memory $quarter
  accepts 1 $plan -partition_ranks $devices -partition_stages $devices -partition_memory $quarter -plan_save planned.txt
  says "in part"
  [ "$(memory planned.txt)" -le $quarter ] || fail "a plan takes more than there is on $devices ranks"
  accepts $devices $train -plan_load planned.txt -partition_memory $quarter
  says "$digest"
done

# All made again at once takes more than a part at a time.
accepts 1 $plan -partition_ranks 2 -partition_stages 2 -pipeline_recompute full -plan_save full.txt
[ "$(memory full.txt)" -gt $quarter ] || fail "all that is made again takes no more than a part of it"
finish
