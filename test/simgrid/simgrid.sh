#!/bin/sh
# Steps on shared links as renga plan simulates them beside the same steps in SimGrid, message by message (referee.c), of 16 and 32
# ranks: within 2 % where SimGrid shares links as Renga does (CM02), within 10 % with what its default takes TCP to be (LV08).
. "${0%/*}/../app/common.sh"
referee=$top_builddir/test/simgrid/referee
[ -x "$referee" ] || { echo "no SimGrid (configure found none), or sanitizers"; exit 77; }

cat >cards.opts <<'OPTS'
-name machine -nodes 16 -devices 2 -memory 8GiB -matrix_rate 1e12 -vector_rate 1e11 -memory_bandwidth 1e11
-matrix_efficiency 0.5 -vector_efficiency 0.5 -bandwidth_efficiency 0.5 -launch 1e-6
-node_latency 1e-6 -node_bandwidth 1e10 -switch_nodes 4 -switch_latency 2e-6 -switch_bandwidth 1e9
-cluster_latency 4e-6 -cluster_bandwidth 5e8 -cards 1 -card_bandwidth 2e9 -uplink_bandwidth 3e9
OPTS

# compare MODEL PERCENT: the step of step.txt
compare() {
  "$referee" step.txt $1 >seconds 2>&1 || fail "the referee: $(cat seconds)"
  awk -v own="$own" -v other="$(tail -n 1 seconds)" -v most="$2" 'BEGIN {off = 100 * (own / other - 1); printf "%s: %+.2f %%\n", ARGV[1], off
    exit !(off < most && off > -most)}' "$layout, $1" || fail "not within $2 % of SimGrid's $(tail -n 1 seconds) s"
}

# nodes, stages, replicas, tensor ranks, network cards
while read -r nodes stages replicas tensor cards; do
  layout="$stages stages x $replicas x $tensor, $cards cards"
  sed "s/-cards 1/-cards $cards/" cards.opts >machine.opts
  accepts 1 plan -graph gpt:layers=8,hidden=256,heads=4,sequence=64,vocabulary=1024 -machine_file machine.opts -machine_nodes "$nodes" \
    -batch_size 256 -microbatch_size 2 -graph_lanes "$tensor" -layout_tensor "$tensor" -layout_pipeline "$stages" -layout_data "$replicas" -partition_type even \
    -layout_chunks 1 -layout_zero 0 -simulate_save step.txt
  own=$(sed -n 's/.*simulated on shared links: .*(\(.*\) s)/\1/p' out)
  compare CM02 2
  compare LV08 10
done <<'LAYOUTS'
8 1 16 1 1
8 2 8 1 2
8 4 4 1 1
8 2 4 2 1
8 16 1 1 1
8 8 2 1 2
8 4 2 2 1
8 1 8 2 1
8 8 1 2 2
16 1 32 1 2
16 2 16 1 1
16 8 4 1 1
16 2 8 2 2
16 16 2 1 1
16 32 1 1 1
16 4 8 1 2
16 4 4 2 1
16 8 2 2 1
16 16 1 2 2
16 1 16 2 1
LAYOUTS
finish
