#!/bin/sh
# renga plan: on a machine that is not this one, for several numbers of its nodes, with pictures; what
# does not fit; files compared, and refused where they do not go with network, ranks or memory.
. "${0%/*}/common.sh"

machine="plan -graph $gpt -machine_file v100 -batch_size 32 -microbatch_size 2"
accepts 1 $machine -plan_save one.txt -plan_explain
says "why this plan"
says "links: with twice the bandwidth "
says "batch: with twice the micro-batches per step "
less=$(sed -n 's/.*twice the bandwidth .* per step, \(.*\) % less/\1/p' out)
case "$less" in -*) fail "slower with faster links" ;; '') fail "does not say what faster links give" ;; esac
says "lower bound: no plan takes less than"
says "memory of a device"
says "made for: v100"
says "memory of the host beside it: sums share up to 8.00 MiB of a rank with the others of its node"
accepts 1 $machine -optimizer_schedule cosine
says "lower bound: no plan takes less than"
for type in rannc tree even "exact -partition_exact_time_limit 1"; do
  accepts 1 $machine -partition_type $type -plan_view json
  says '"bound":'
  says '"memory_parts":'
done
says '"machine":"v100"'
says '"costs":"analytic"'
accepts 1 $machine -partition_type exact -partition_ranks 3
says "proved best of the plans searched"
says "left out: plans of several virtual stages per rank, of which none of equal work under zb-v, dualpipe-v and interleaved, "
says ", and plans with sharded gradients or parameters"
[ "$(grep -c "left out: " out)" -eq 1 ] || fail "what the bound leaves out is not said once"
cp out first
accepts 3 $machine -partition_type exact -partition_ranks 3
equal_files first out "three planning ranks make another plan than one"

accepts 1 $machine -machine_nodes 1,2,4 -plan_view draw:nodes.svg
says "efficiency"
[ "$(grep -c '%' out)" -eq 3 ] || fail "not three rows"
says "wrote nodes.svg"
accepts 1 $machine -machine_nodes 1,2 -plan_tokens 1e9
grep -q "training  *node-hours" out || fail "no cost"
accepts 1 $machine -machine_nodes 2 -plan_samples 6400
says "6.40 k samples: 200 steps take"
says "node-hours on 2 nodes"
accepts 1 $machine -machine_nodes 1 -plan_sweep batch_size:8,16,64 -plan_samples 6400 -plan_view draw:sweep.svg
says "of best"
[ "$(grep -c '100.0 %' out)" -eq 1 ] || fail "not one best row"
says "wrote sweep.svg"
# 0: Renga chooses, and the row is in the table only; one sample takes as long as a step.
accepts 1 $machine -machine_nodes 1 -plan_sweep layout_pipeline:0,1,2 -plan_samples 1 -plan_view draw:chosen.svg
[ "$(grep -c ' % ' out)" -eq 3 ] || fail "not three rows"
[ "$(grep -c '<circle' chosen.svg)" -eq 2 ] || fail "not two points"
grep -q -i -e nan -e inf chosen.svg && fail "a point without a place"
awk '/ % / {for (i = 6; i < NF; i++) if ($i ~ /^[mu]?s$/) time[++n] = $(i - 1) $i} END {exit !(n == 6 && time[1] == time[2])}' out ||
  fail "a training of one step takes another time"
refuses 1 "and plans are of at most 1000000: give -machine_nodes" $machine -machine_nodes 99999999
refuses 1 "-plan_sweep batchsize:8: write OPTION:VALUE" $machine -plan_sweep batchsize:8
refuses 1 "is for a machine: give -machine_file" plan -graph $mlp -plan_sweep batch_size:8,16
refuses 1 "-plan_save s.txt is for one plan" $machine -machine_nodes 1 -plan_sweep batch_size:8,16 -plan_save s.txt
refuses 1 "-plan_sweep batch_size:8,,9: at most 64 values, none empty, please" $machine -plan_sweep batch_size:8,,9
refuses 1 "-plan_tokens 1e+09 and -plan_samples 10: give one of them" $machine -plan_tokens 1e9 -plan_samples 10
refuses 1 "no input of the network is [batch, sequence] of tokens; give -plan_samples" plan -graph mlp:sizes=4-8-3 -machine_file v100 -batch_size 8 -plan_tokens 1e9
accepts 1 $machine -plan_view draw:plan.svg -plan_save drawn.txt
says "wrote plan.svg"
says "wrote drawn.txt"
if command -v xmllint >/dev/null; then
  xmllint --noout nodes.svg plan.svg sweep.svg || fail "not well-formed"
fi
grep -q "</svg>" nodes.svg || fail "no picture of the nodes"
grep -q "</svg>" plan.svg || fail "no picture of the plan"
refuses 1 "shown as ascii or draw" $machine -machine_nodes 1,2 -plan_view json

# A device with too little memory: an error that says what would do, and it does; in a table, a row of
# its own.
refuses 1 "per device would do" $machine -machine_memory 100KiB
enough=$(sed -n 's/.*samples: \([0-9.]*\) \([A-Za-z]*\) per device would do.*/\1\2/p' out)
accepts 1 $machine -machine_memory "${enough:-none}"

# So do the devices that it names.
deep="plan -schedule_type 1f1b -graph_lanes 1 -graph gpt:layers=6,hidden=128,heads=4,sequence=64,vocabulary=1024 -machine_file v100
  -batch_size 64 -microbatch_size 4 -partition_leaf 1 -machine_memory 10MiB -machine_nodes 4"
refuses 1 "per device would do" $deep -partition_ranks 2
enough=$(sed -n 's/.* and \([0-9]*\) devices with this memory would do.*/\1/p' out)
accepts 1 $deep -partition_ranks "${enough:-none}"

# The next-best kind of plan fits, too.
short="$machine -partition_ranks 4 -partition_leaf 1 -schedule_type 1f1b -machine_memory 400KiB"
accepts 1 $short -plan_explain
other=$(sed -n 's/.*runner-up: .*(\([0-9]*\) stages* x \([0-9]*\)): .*/-layout_pipeline \1 -layout_data \2/p' out)
[ -n "$other" ] || fail "no runner-up"
accepts 1 $short $other

# In a table: the fewest nodes, also of those between, and what twice the nodes give.
accepts 1 $deep -machine_memory 9MiB -machine_nodes 1,8,16
says "does not fit"
says "1 node: the network does not fit on 8 devices"
says "; none of the fewer that were tried does"
says "16 nodes instead of 8: "
fewest=$(sed -n 's/^it fits on \([0-9]*\) nodes.*/\1/p' out)
[ "${fewest:-0}" -gt 1 ] || fail "not the fewest nodes"
accepts 1 $deep -machine_memory 9MiB -machine_nodes "$fewest"
refuses 1 "devices with this memory would do" $deep -machine_memory 9MiB \
  -machine_nodes $((fewest - 1))
accepts 1 $machine -machine_memory 100KiB -machine_nodes 1,2
says "per device would do"

accepts 1 $machine -partition_type tree -layout_pipeline 2 -layout_data 4 -plan_save two.txt
accepts 1 plan -plan_diff one.txt two.txt
says "one.txt -> two.txt"
says "predicted step"
accepts 1 plan -plan_diff two.txt two.txt
says "2 stages are the same; 0 of"
refuses 1 "-plan_diff one.txt needs the file of another plan after it" plan -plan_diff one.txt
refuses 1 "what is \"two.txt\" for" plan -graph $gpt two.txt
refuses 1 "renga info does not use -plan_diff: it is for renga plan" info -graph $gpt -plan_diff one.txt
accepts 1 plan -graph $mlp -plan_save other.txt
refuses 1 "the plans are of two networks" plan -plan_diff one.txt other.txt

# Where nobody names a schedule a faster one is taken, and kept with the plan.
resnet="plan -graph resnet:depth=50,classes=1000 -machine_file mdx-cpu -machine_nodes 8
  -batch_size 256 -microbatch_size 4"
accepts 1 $resnet -plan_save eager.txt
says "schedule interleaved"
accepts 1 $resnet -plan_load eager.txt
says "schedule interleaved"
says "lower bound: no plan takes less than"
accepts 1 $resnet -schedule_type 1f1b -plan_save late.txt
grep -q "schedule 1f1b eager 0$" late.txt || fail "another schedule than the user's"
awk '$1 == "predicted" { step[++n] = $2 } END { exit !(n == 2 && step[1] < step[2]) }' \
  eager.txt late.txt || fail "the chosen schedule is no faster"

# Gradients in leaves of micro-batches: kept with the plan, changed by the option; of several the
# fastest is taken; larger ones where nothing fits with small ones. A replica has whole leaves.
accepts 1 $machine -partition_leaf 4 -layout_data 3 -plan_save leaf.txt
says "16 micro-batches of 2, their gradients in leaves of 4"
grep -q "microbatch 2 leaf 4$" leaf.txt || fail "no leaf in the file"
accepts 1 $machine -plan_load leaf.txt -plan_view json
says '"leaf":4'
accepts 1 $machine -plan_load leaf.txt -partition_leaf 2
says "in leaves of 2"
refuses 1 "make only 2 leaves of 8" $machine -plan_load leaf.txt -partition_leaf 8
accepts 1 $machine -partition_leaf 16,1 -layout_data 2
grep -q "in leaves" out && fail "a leaf that leaves one replica for all"
accepts 1 $machine -partition_leaf auto
refuses 1 "-partition_leaf 1,0: write auto, or numbers of micro-batches" $machine -partition_leaf 1,0
refuses 1 "the file says it already" $machine -plan_load leaf.txt -partition_leaf 1,4
refuses 1 "-partition_leaf 1,2: type even does not know which is faster without costs" plan -graph $mlp -partition_leaf 1,2
narrow="$machine -partition_ranks 2 -batch_size 256 -microbatch_size 1 -layout_pipeline 2"
accepts 1 $narrow -plan_explain
says "gradients: sums of gradients hold"
bytes=$(sed -n 's/^ *[01]-* .* \([0-9.]*\) KiB$/\1/p' out | sort -g | tail -1)
accepts 1 $narrow -machine_memory "$(awk "BEGIN { print int(${bytes:-0} * 0.8) }")KiB" -plan_explain
says "chosen: leaves of "

# A plan goes with its network, with the devices of the machine, and with their memory.
accepts 1 $machine -plan_load two.txt
says "2 stages x 4 replicas"
accepts 1 plan -graph $gpt -machine_file dgx-a100 -batch_size 32 -microbatch_size 2 -plan_load two.txt
says "was made for v100, not for dgx-a100"
refuses 1 "needs 8 ranks but there are 4" $machine -plan_load two.txt -partition_ranks 4
refuses 1 "was made for another network" plan -graph $mlp -plan_load two.txt
refuses 1 "but a device may use" $machine -plan_load two.txt -machine_memory 1KiB

# Types that only cut predict what their cuts take where costs are asked for without a machine, too.
accepts 1 plan -graph $gpt -batch_size 8 -microbatch_size 2 -partition_type even -partition_ranks 2 -layout_pipeline 2 -profile_type analytic
says "predicted: "
lacks "made without costs"

# Nodes with unequal numbers of devices: what sums most is put into a node; the order of ranks, as if nodes were equal, takes longer
# by more than a tenth.
islands="plan -graph gpt:layers=4,hidden=64,heads=2,sequence=64,vocabulary=512 -batch_size 24 -microbatch_size 1"
sed "s/^-name .*/-name equal/; s/^-nodes .*/-nodes 3/; s/^-devices .*/-devices 4/; s/^-cluster_bandwidth .*/-cluster_bandwidth 1e7/" \
  "$top_srcdir/share/renga/machines/v100.opts" >equal.opts
sed 's/-name equal/-name islands/; s/-nodes 3/-nodes 4 -islands 3,4,4,1/' equal.opts >islands.opts
fixed="-partition_ranks 12 -layout_pipeline 3 -layout_data 4 -layout_tensor 1"
accepts 1 $islands $fixed -machine_file ./equal.opts -plan_save ranks.txt
accepts 1 $islands $fixed -machine_file ./islands.opts -plan_view json:placed.json
accepts 1 $islands -machine_file ./islands.opts -plan_load ranks.txt -plan_view json:ranks.json
seconds() { sed -n 's/.*"step":\([0-9.e+-]*\).*/\1/p' "$1" | head -n 1; }
awk "BEGIN { exit !($(seconds placed.json) < 0.9 * $(seconds ranks.json)) }" ||
  fail "placed $(seconds placed.json) s, in the order of ranks $(seconds ranks.json) s"
sed 's/3,4,4,1/3,4,5,1/' islands.opts >bad.opts
refuses 1 "the largest node has 5 devices" $islands -machine_file ./bad.opts
sed 's/3,4,4,1/3,4,4/' islands.opts >bad.opts
refuses 1 "-islands 3,4,4 are 3 nodes, and -nodes says 4" $islands -machine_file ./bad.opts
export RENGA_NODES=2
accepts 3 train -graph $gpt -data synthetic -batch_size 8 -microbatch_size 2 -steps 2 -progress none \
  -partition_type auto -layout_data 1 -layout_pipeline 3
unset RENGA_NODES

# Of several kinds of devices groups of tensor-parallel ranks lie in nodes, whatever these have. There may be 8.
cat >kinds.opts <<'EOF'
-name mixed -memory 1GiB -vector_rate 2e13 -memory_bandwidth 1.5e12 -matrix_efficiency 0.6 -vector_efficiency 0.5
-bandwidth_efficiency 0.8 -launch 5e-6 -node_latency 2e-6 -node_bandwidth 5e10 -cluster_latency 5e-6 -cluster_bandwidth 1e10
EOF
cp kinds.opts odd.opts
printf '%s\n' '-kind A -nodes 2 -devices 3 -matrix_rate 9e13' '-kind B -nodes 1 -devices 4 -matrix_rate 3e13' >>odd.opts
for kind in 1 2 3 4 5 6 7 8; do echo "-kind K$kind -nodes 1 -devices 1 -matrix_rate ${kind}e13"; done >>kinds.opts
sed 's/^-kind K1/-kind K9 -nodes 1 -devices 1 -matrix_rate 9e13\n&/' kinds.opts >nine.opts
kinds="plan -graph $gpt -batch_size 8 -microbatch_size 2 -partition_leaf 1"
accepts 1 $kinds -machine_file ./odd.opts -layout_tensor 2 -graph_lanes 2
says "kinds: "
[ "$(grep 'kinds: ' out | sort | uniq -d | wc -l)" = 0 ] || fail "kinds are said twice"
accepts 1 $kinds -machine_file ./kinds.opts -layout_tensor 1
says "and K8 (1.00 GiB)"
refuses 1 "nine.opts: more than 8 of -kind" $kinds -machine_file ./nine.opts

# A run whose ranks have more threads than there are cores says that it takes longer than predicted.
accepts 3 train -graph $gpt -data synthetic -batch_size 8 -microbatch_size 2 -steps 3 -progress none \
  -partition_type auto -layout_data 1 -layout_pipeline 3 -profile_type analytic
if [ "$(getconf _NPROCESSORS_ONLN)" -lt 3 ]; then
  says "cores: a step takes longer than predicted, "
fi

# Of measured costs a few micro-batches are looked at, one for each replica among them.
accepts 2 train -graph $mlp -graph_lanes 1 -data synthetic -batch_size 16 -steps 1 -progress none -plan_explain
says ", in micro-batches of 8, 2, 1 and leaves of "

# Memory of a described machine's ranks is none of the threads of this one.
one="plan -graph gpt:layers=1,hidden=32,heads=2,sequence=16,vocabulary=64 -machine_file laptop -machine_nodes 1 -batch_size 4
  -precision bf16 -partition_type even -layout_pipeline 1"
OMP_NUM_THREADS=1 accepts 1 $one
cp out one.out
OMP_NUM_THREADS=2 accepts 1 $one
cmp -s one.out out || fail "another plan with two threads"
accepts 1 $one -device_threads 2
cmp -s one.out out && fail "the same memory for two threads"

finish
