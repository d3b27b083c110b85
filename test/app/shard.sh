#!/bin/sh
# A share of the optimizer on each replica: the same parameters as without, on any layout and from any
# checkpoint to any; less memory, as planned; what is not supported is refused by name.
. "${0%/*}/common.sh"
wide="mlp:sizes=40-500-70-5"
train="train -graph $wide -data synthetic -batch_size 8 -microbatch_size 1 -parameter_digest -progress none
  -optimizer_type adamw -optimizer_clip_norm 0.5"
plan="plan -graph $wide -machine_file laptop -batch_size 8 -microbatch_size 1 -graph_lanes 1"

accepts 1 $train -steps 4 -checkpoint_dir one
digest=$(digest)
bits=$digest
accepts 2 $train -steps 4 -layout_data 2 -layout_zero 1
says "$digest"
accepts 2 $train -steps 2 -layout_data 2 -layout_zero 1 -pipeline_buckets 2 -checkpoint_dir two
accepts 4 $train -steps 4 -layout_pipeline 2 -layout_data 2 -layout_zero 1 -checkpoint_dir two -resume
says "$digest"
# Sums while ranks compute, and in place; buckets of a size: the same, and the log says what was hidden.
accepts 2 $train -steps 4 -layout_data 2 -layout_zero 1 -pipeline_overlap off -pipeline_bucket_size 20KiB
says "$digest"
accepts 2 $train -steps 4 -layout_data 2 -layout_zero 1 -pipeline_bucket_size 20KiB -log_view
says "$digest"
says "sums over replicas were under way for"
refuses 2 "leave one of the two out" $train -layout_data 2 -pipeline_buckets 2 -pipeline_bucket_size 20KiB
# Gradients, too: from any checkpoint to any.
even="-partition_type even -layout_zero 2"
accepts 2 $train -steps 4 $even -layout_data 2
says "$digest"
accepts 2 $train -steps 2 $even -layout_data 2 -pipeline_bucket_size 20KiB -checkpoint_dir three
accepts 4 $train -steps 4 $even -layout_pipeline 2 -layout_data 2 -checkpoint_dir three -resume
says "$digest"
even="-partition_type even -layout_zero 3"
accepts 2 $train -steps 4 $even -layout_data 2 -log_view
says "$digest"
accepts 2 $train -steps 2 $even -layout_data 2 -pipeline_overlap off -checkpoint_dir four -checkpoint_async
accepts 4 $train -steps 4 $even -layout_pipeline 2 -layout_data 2 -checkpoint_dir four -resume
says "$digest"
refuses 2 "-layout_zero 3 adds gradients in order" $train $even -layout_data 2 -pipeline_reduction unordered
refuses 1 "-layout_zero 2 is not supported by -partition_type rannc" $plan -partition_type rannc -partition_ranks 2 -layout_zero 2
accepts 1 $plan -partition_ranks 2 $even -layout_pipeline 1 -layout_data 2 -plan_save folded.txt
# Of gradients that go with each micro-batch a bucket is left behind the last one; what is fetched makes the pipeline longer.
for level in optimizer gradients; do
  accepts 1 $plan -partition_ranks 2 -partition_type even -layout_pipeline 1 -layout_data 2 -layout_zero $level -plan_save $level.txt
done
predicted() { awk -v column="$2" '$1 == "predicted" { print $column }' "$1"; }
awk -v one="$(predicted optimizer.txt 4)" -v two="$(predicted gradients.txt 4)" 'BEGIN { exit !(0 < two && two < one / 2) }' ||
  fail "more than a bucket of gradients is left behind the last backward"
awk -v two="$(predicted gradients.txt 3)" -v three="$(predicted folded.txt 3)" 'BEGIN { exit !(two < three) }' ||
  fail "parameters that others have are there at once"
accepts 2 $train -steps 4 -plan_load folded.txt
says "$digest"
accepts 3 $train -steps 6 -layout_data 3 -layout_zero 1 -checkpoint_dir one -resume
digest=$(digest)
accepts 1 $train -steps 6 -checkpoint_dir two -resume
says "$digest"
accepts 2 $train -precision bf16 -steps 4 -layout_data 2
digest=$(digest)
accepts 2 $train -precision bf16 -steps 4 -layout_data 2 -layout_zero 1
says "$digest"

# Plans: by file, with less memory; and no other plan than was asked for.
accepts 1 $plan -partition_ranks 2 -layout_data 2 -layout_zero 1 -plan_save p.txt
grep -q "shard optimizer" p.txt || fail "the file of the plan does not say what is sharded"
accepts 1 $plan -plan_load p.txt -layout_zero 1
accepts 2 $train -steps 4 -plan_load p.txt
# Where a stage shards and another does not, the bound is that of plans that may shard.
mixed="plan -graph $wide -machine_file laptop"
accepts 1 $mixed -batch_size 8 -microbatch_size 1 -layout_pipeline 2 -layout_data 2 -layout_zero 1 -plan_save both.txt
accepts 1 $mixed -plan_load both.txt
both=$(sed -n 's/.*no plan takes less than \([0-9.]*\) us.*/\1/p' out)
sed '/^stage 0/s/ shard optimizer / shard none /' both.txt >mixed.txt
accepts 1 $mixed -plan_load mixed.txt
own=$(sed -n 's/.*no plan takes less than \([0-9.]*\) us.*/\1/p' out)
awk "BEGIN {exit !($own > 0.8 * $both && $own <= $both)}" || fail "a bound of $own us, of plans that all shard $both us"
accepts 2 $train -steps 4 -partition_type even -layout_data 2 -layout_zero 1 -partition_memory 1400KiB
# The planner shards what does not fit otherwise, and says what that saves.
short="$plan -partition_ranks 2 -layout_pipeline 1 -partition_memory 1100KiB -plan_explain"
accepts 1 $short -layout_zero 0
says "1 stage x 1 replica"
lacks "replicas share"
accepts 1 $short
says "1 stage x 2 replicas"
says "replicas shard masters and moments of the optimizer: stage 0 needs 1.06 MiB of a device, and would need 1.21 MiB without"
says "with or without a sharded optimizer"
# Stages share where that is needed, or faster. (Sums in any order leave shares of gradients out.)
some="$plan -partition_ranks 4 -layout_pipeline 2 -layout_data 2 -partition_leaf 1 -partition_memory 650KiB -pipeline_reduction unordered"
accepts 1 $some -plan_explain -plan_save some.txt
says "replicas shard masters and moments of the optimizer: stage 1 needs"
grep -q "shard optimizer" some.txt || fail "no stage of the plan shards"
accepts 4 $train -steps 4 -plan_load some.txt
says "$bits"
refuses 2 "stage 0 needs 1.43 MiB (1502848 bytes) per device, -partition_memory allows 1.37 MiB" $train -steps 4 -partition_type even -layout_data 2 -layout_zero 0 -partition_memory 1400KiB
refuses 2 "the settings ask for -layout_zero 0, but stage 0 of the plan shards optimizer" \
  $train -steps 4 -plan_load p.txt -layout_zero 0
refuses 1 "-layout_zero states: not one of auto|0=none|1=optimizer|2=gradients|3=parameters" $train -layout_zero states
# Replicas that have other numbers of micro-batches go through one list, whatever the schedule.
odd="train -graph $gpt -data synthetic -batch_size 4 -microbatch_size 1 -steps 2 -parameter_digest"
accepts 1 $odd
digest >one.txt
for level in gradients parameters; do
  for schedule in zb-v zb-h1; do
    accepts 3 $odd -partition_type even -layout_data 3 -layout_pipeline 1 -layout_zero $level -schedule_type $schedule
    equal "$(digest)" "$(cat one.txt)" "another digest than one rank's: $level, $schedule"
  done
done
finish
