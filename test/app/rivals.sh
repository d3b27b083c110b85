#!/bin/sh
# renga plan, on machines where it was once otherwise: type auto is not behind other types, nor behind itself
# with an option more, nor behind a plan that exact found; exact, whatever its time, is not behind auto; what
# it proves is not beaten under an option more.
. "${0%/*}/common.sh"

# plans COMMAND…: seconds are those of its plan.
plans() {
  accepts 1 "$@" -plan_save plan.txt
  seconds=$(awk '$1 == "predicted" { print $2 }' plan.txt)
}

# no_faster BAR COMMAND…: its plan takes as many seconds at the least.
no_faster() {
  bar=$1
  shift
  plans "$@"
  awk "BEGIN { exit !(${seconds:-0} * (1 + 1e-9) >= $bar) }" || fail "$seconds s, not $bar s: renga $*"
}

# Small nodes and slow links, on which stages differ in replicas.
gpt="plan -graph gpt -machine_file mdx-cpu -machine_nodes 4 -batch_size 32 -microbatch_size 2"
plans $gpt
own=$seconds
for option in "-partition_type rannc" "-partition_type tree" "-partition_type even" \
  "-layout_data 1" "-layout_pipeline 4" "-schedule_type gpipe" "-schedule_eager 3"; do
  no_faster "$own" $gpt $option
done

# Exact begins with the plan of auto; cuts that exact found in five seconds, where auto was 3 % behind.
plans $gpt -partition_type exact -partition_exact_time_limit 0.001
awk "BEGIN { exit !($seconds <= $own * (1 + 1e-9)) }" || fail "exact takes $seconds s, auto $own s"
cat >found.txt <<'END'
renga-plan 3
batch 32 microbatch 2 leaf 1
schedule 1f1b eager 2.5
stages 3
stage 0 nodes 0 87 replicas 2
stage 1 nodes 87 163 replicas 2
stage 2 nodes 163 224 replicas 4
end
END
no_faster "$own" $gpt -plan_load found.txt

# Where messages take as long as work many micro-batches are begun early.
cat >slow.opts <<'END'
-name slow
-nodes 1
-devices 4
-memory 3GiB
-matrix_rate 1e10
-vector_rate 192e9
-memory_bandwidth 2e9
-matrix_efficiency 0.75
-vector_efficiency 0.2
-bandwidth_efficiency 0.7
-launch 1e-6
-node_latency 2e-6
-node_bandwidth 1e8
-cluster_latency 1e-4
-cluster_bandwidth 100e6
END
mlp="plan -graph mlp:sizes=100-30-200-10 -machine_file slow.opts -batch_size 30 -microbatch_size 3
  -machine_nodes 1 -partition_leaf 2 -machine_memory 206784"
plans $mlp -partition_type exact
proved=$seconds
says "proved best of the plans searched"
says "in micro-batches of 3 and leaves of 2: any stages that are intervals of the nodes' order"
says "zb-h1 and zb-h2; every one that may be faster was simulated"
for eager in 0 0.5 1 2 3 5 9; do
  no_faster "$proved" $mlp -partition_type exact -schedule_eager $eager
done
plans $mlp -partition_type exact -schedule_eager 5
no_faster "$seconds" $mlp -partition_type exact -schedule_eager 0

finish
