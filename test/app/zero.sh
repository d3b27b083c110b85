#!/bin/sh
# Where memory is short the planner looks at replicas that share gradients, and parameters, too: it finds what fits where
# nothing else does, or is faster, with the same bits and the memory that was foretold; what is slower is not taken, and
# what a run refuses is not chosen.
. "${0%/*}/common.sh"
size="-graph mlp:sizes=40-700-700-5 -batch_size 8 -microbatch_size 1 -partition_leaf 1 -optimizer_type adam"
plan="plan $size -machine_file laptop -partition_ranks 4 -graph_lanes 1"
train="train $size -data synthetic -parameter_digest -progress none -steps 2 -device_threads 1"
as_forecast() { awk '$1 == "device" && NF == 7 { met = $2 == $4 && $3 == $5 } END { exit !met }' out || fail "not the memory that was forecast"; }

# One layer has most of the parameters, so that stages alone do not help, nor does the optimizer's share.
accepts 1 $train
digest=$(digest)
refuses 1 "9.96 MiB per device would do" $plan -partition_memory 8MiB -layout_zero 1
accepts 1 $plan -partition_memory 8MiB -plan_explain -plan_save parameters.txt
says "replicas shard parameters, gradients, masters and moments: stage 0 needs 6.74 MiB of a device, and would need 12.9 MiB"
says "with or without a sharded optimizer, or, with equal replicas, sharded gradients or parameters"
lacks "with sharded gradients or parameters (-layout_zero)"
# Values of the largest layer lie in the window whole: where that is too much, gradients alone are shared.
accepts 1 $plan -partition_memory 6.5MiB -plan_explain -plan_save gradients.txt
says "replicas shard gradients, masters and moments: stage 0 needs 6.23 MiB of a device, and would need 12.9 MiB"
for level in parameters gradients; do
  grep -q "replicas 4 .* shard $level " $level.txt || fail "the plan does not share $level on four replicas"
  accepts 4 $train -plan_load $level.txt -log_view
  says "$digest"
  as_forecast
done
# What a refusal names would do; what a run refuses is not looked for.
refuses 1 "6.26 MiB per device would do" $plan -partition_memory 6MiB
accepts 1 $plan -partition_memory 6.26MiB
refuses 1 "the network does not fit on 4 devices of " $plan -partition_memory 6.5MiB -pipeline_reduction unordered
refuses 1 "the network does not fit on 4 devices of " $plan -partition_memory 8MiB -layout_data 1
# A level that is asked for is kept, as it is by types that only cut.
for level in gradients parameters; do
  accepts 1 $plan -layout_zero $level -plan_explain -plan_save asked.txt
  grep "^stage [0-9]" asked.txt | grep -v -q "shard $level " && fail "a stage does not share $level"
  says "with sharded $level"
done

# Groups of replicas, as those of two nodes, add up by themselves first: less is sent, for more memory, as it was foretold.
cat >cards.opts <<'OPTS'
-name machine -nodes 2 -devices 2 -memory 8GiB -matrix_rate 1e12 -vector_rate 1e11 -memory_bandwidth 1e11
-matrix_efficiency 0.5 -vector_efficiency 0.5 -bandwidth_efficiency 0.5 -launch 1e-6
-node_latency 1e-6 -node_bandwidth 1e10 -cluster_latency 4e-6 -cluster_bandwidth 1e8 -cards 1 -card_bandwidth 1e8
OPTS
accepts 1 $train -batch_size 24
digest=$(digest)
replicas="-batch_size 24 -layout_pipeline 1 -layout_data 4 -layout_zero 2 -partition_type even"
for groups in 1 2; do
  accepts 1 plan $size $replicas -machine_file cards.opts -layout_zero_groups $groups
  awk '$1 == "predicted:" { by_plan = $2 * ($3 == "ms" ? 1 : 1000) } / simulated on / { print by_plan, $5 * ($6 == "ms" ? 1 : 1000) }' out >>seconds
  shared=$(sed -n 's/.* sums share up to \(.*\) of a rank .*/\1/p' out)
  accepts 4 $train $replicas -layout_zero_groups $groups -log_view
  says "$digest"
  as_forecast
  grep -q "^sums, shared within the node  *$shared " out || fail "$groups groups do not share $shared within a node, as was foretold"
done
# Replicas that own nothing of so small a network.
few="train -graph mlp:sizes=8-8-8 -batch_size 10 -microbatch_size 1 -partition_leaf 1 -data synthetic -parameter_digest -progress none -steps 2"
accepts 1 $few
nothing=$(digest)
accepts 4 $few -layout_pipeline 1 -layout_data 4 -layout_zero 2 -layout_zero_groups 2 -partition_type even
says "$nothing"
accepts 4 $train $replicas -layout_zero_groups 3
says "$digest" "4 replicas do not make 3 equal groups (-layout_zero_groups): they are one group"
accepts 2 $train -layout_data 2 -layout_pipeline 1 -layout_zero 1 -layout_zero_groups 2
says "-layout_zero_groups 2 is for replicas that shard gradients (-layout_zero 2, 3); those of the plan do not"
awk 'NR == 1 { plan = $1; simulated = $2 } NR == 2 { exit !($1 < plan / 2 && $2 < simulated / 2) }' seconds || fail "no less is sent: $(cat seconds)"

# Possible, but slower: replicas wait for each other's gradients.
size="-graph mlp:sizes=256-256-256-256-256-256-256-256-256 -batch_size 8 -microbatch_size 1 -partition_leaf 1 -optimizer_type adam"
plan="plan $size -machine_file laptop -partition_ranks 4 -partition_memory 3.55MiB"
accepts 1 $plan -partition_type even -layout_pipeline 2 -layout_data 2 -layout_zero 2 -plan_save slower.txt
accepts 1 $plan -layout_chunks 1 -plan_explain -plan_save taken.txt
says "with sharded gradients or parameters (-layout_zero), of which none was found that is faster"
[ "$(grep -c "shard none" taken.txt)" = 4 ] || fail "not four stages that share nothing"
predicted() { awk '$1 == "predicted" { print $2 }' "$1"; }
awk -v taken="$(predicted taken.txt)" -v slower="$(predicted slower.txt)" 'BEGIN { exit !(taken < slower) }' ||
  fail "a plan that shares gradients is faster"
finish
