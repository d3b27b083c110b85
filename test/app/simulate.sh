#!/bin/sh
# renga plan: the planned step on shared links of a machine, and with what -simulate_... says of its nodes and links.
. "${0%/*}/common.sh"

cat >cards.opts <<'OPTS'
-name cards -nodes 4 -devices 2 -memory 8GiB -matrix_rate 1e12 -vector_rate 1e11 -memory_bandwidth 1e11
-matrix_efficiency 0.5 -vector_efficiency 0.5 -bandwidth_efficiency 0.5 -launch 1e-6
-node_latency 1e-6 -node_bandwidth 1e10 -switch_nodes 2 -switch_latency 2e-6 -switch_bandwidth 1e9
-cluster_latency 4e-6 -cluster_bandwidth 5e8
OPTS
sed 's/-name cards/-name shared/; $a -cards 2 -card_bandwidth 1e9 -uplink_bandwidth 4e9' cards.opts >shared.opts
layout="plan -graph mlp:sizes=256-1024-1024-256 -batch_size 64 -microbatch_size 8 -graph_lanes 1 -layout_pipeline 1 -layout_data 8 -layout_zero 0"

# What is predicted does not change by cards.
accepts 1 $layout -machine_file cards.opts
grep -q simulated out && fail "a machine without cards is simulated unasked"
grep predicted out >alone
accepts 1 $layout -machine_file shared.opts
says " per step ("
grep predicted out | cmp -s - alone || fail "cards change the prediction"

# What disturbs a step makes it longer, the same each time.
for of in "slow 1:2" "link 1:0.1" "lost 1" "jitter 0.05"; do
  accepts 1 $layout -machine_file shared.opts -simulate_$of
  says "per step without, "
  awk '/simulated/ {n = $(NF - 3)} END {exit !(n > 1)}' out || fail "-simulate_$of makes nothing longer"
done
cp out first
accepts 1 $layout -machine_file shared.opts -simulate_jitter 0.05
cmp -s out first || fail "jitter of one seed differs"
accepts 1 $layout -machine_file shared.opts -simulate_jitter 0.05 -simulate_seed 3
cmp -s out first && fail "jitter of two seeds is one"
accepts 1 $layout -machine_file cards.opts -simulate_link 0:0.5
says "times as long"

# The last switch may have fewer nodes.
accepts 1 $layout -machine_file shared.opts -machine_nodes 3 -layout_data 6 -plan_explain
says "with twice the bandwidth"

# The step as a text.
accepts 1 $layout -machine_file shared.opts -simulate_save step.txt
[ "$(grep -c '^rank ' step.txt)" -eq 8 ] || fail "not eight ranks"
[ "$(tail -n 1 step.txt)" = end ] || fail "no end"
refuses 1 "a step whose ranks have several stages is not written for other simulators" $layout -machine_file shared.opts -simulate_save step.txt \
  -layout_pipeline 2 -layout_data 4 -layout_chunks 2

refuses 1 "write NODE:FACTOR, a node from 0 on and a number" $layout -machine_file shared.opts -simulate_slow 2
refuses 1 "node 4: the plan is on nodes 0 to 3" $layout -machine_file shared.opts -simulate_slow 4:2
refuses 1 "with one lost no other carries its messages" $layout -machine_file cards.opts -simulate_lost 0
# Exchanges of replicas that share gradients or parameters take what is predicted where they share nothing with others, and longer on a
# slower link.
for zero in 2 3; do
  accepts 1 $layout -machine_file cards.opts -layout_zero $zero -simulate_link 0:0.5
  awk '/predicted/ {p = $2 * ($3 == "ms," || $3 == "ms" ? 1 : 1000)} /simulated/ {s = $5 * ($6 == "ms" ? 1 : 1000); n = $(NF - 3)}
    END {exit !(s > 0.99 * p && s < 1.01 * p && n > 1)}' out || fail "ZeRO $zero is simulated otherwise than predicted"
  accepts 1 $layout -machine_file shared.opts -layout_zero $zero
  says "simulated on shared links"
done
refuses 1 "not supported: gradients or parameters of stage 0 are sharded" $layout -machine_file shared.opts -layout_zero 2 \
  -simulate_save step.txt
refuses 1 "is of random numbers: give -simulate_jitter" $layout -machine_file shared.opts -simulate_seed 3
refuses 1 "is for one plan, and a table of several is asked for" $layout -machine_file shared.opts -machine_nodes 2,4 -simulate_slow 1:2
accepts 1 $layout -machine_file shared.opts -simulate_slow 1:2 -plan_view json:plan.json
says "times as long"
refuses 1 "is for the links of a machine: give -machine_file" plan -graph mlp:sizes=8-8 -simulate_slow 0:2
sed 's/-card_bandwidth 1e9//' shared.opts >bad.opts
refuses 1 "-cards 2 needs -card_bandwidth" $layout -machine_file bad.opts
sed 's/-cards 2 -card_bandwidth 1e9//' shared.opts >bad.opts
refuses 1 "-uplink_bandwidth needs -switch_nodes and -cards" $layout -machine_file bad.opts
finish
