#!/bin/sh
# Steps that others published beside what is predicted for their layouts (published.tsv): each within 12 %, all within 8 % in the
# mean; and what Renga chooses with as many tensor ranks, which is to be no slower: for clusters of up to 8 nodes, or, with a path
# as argument, for all, and the table of doc/performance.md is written there.
top=$(cd "${0%/*}/../.." && pwd)
table=${1:-}
case $table in '' | /*) ;; *) table=$PWD/$table ;; esac
. "${0%/*}/common.sh"
[ -z "$table" ] || limit=900

# seconds NODES LAYERS HIDDEN HEADS BATCH TENSOR OPTION...: of the plan.
seconds() {
  network="gpt:layers=$2,hidden=$3,heads=$4,sequence=2048,vocabulary=51200"
  machine="-machine_file selene -machine_nodes $1 -precision bf16 -optimizer_type adam -batch_size $5 -plan_tensor $6"
  shift 6
  # shellcheck disable=SC2086
  timeout -k 5 $limit "$renga" plan $machine -graph "$network" "$@" </dev/null >out 2>&1 || fail "exit code $?: $*"
  awk '/predicted: / { print $2 * ($3 == "ms" ? 1e-3 : $3 == "min" ? 60 : 1) }' out
}

# predict LINE: seconds, micro-batch and chunks.
predict() {
  seconds "$6" "$3" "$4" "$5" "$7" "${11}" -microbatch_size "$8" -partition_stages "$9" -partition_replicas "${10}" \
    -pipeline_chunks "${12}" -plan_recompute "${13}" -plan_tensor_split "${14}"
  chosen
}

# chosen: micro-batch, chunks, stages, replicas, and what is made again, of the last plan.
chosen() {
  awk '/predicted for/ {
      for (i = 1; i < NF; i++) {
        if ($i ~ /^part/) chunks = $(i - 1)
        if ($i ~ /^stage/) stages = $(i - 1)
        if ($i ~ /^replica/) replicas = $(i - 1)
        if ($i == "micro-batches") { rows = $(i + 2); sub(",", "", rows) }
      }
      print rows, chunks, stages, replicas, $NF == "attention" ? "selective" : $NF == "nothing" ? "none" : "full"
    }' out
}

# choose LINE: what predict prints, of the fastest layout with as many tensor ranks; or nothing. Rows of one network, machine and
# number of tensor ranks have one choice, which is made once.
choose() {
  [ -n "$table" ] || { [ "$6" -le 8 ] && [ -z "${SANITIZERS:-}" ]; } || return 0
  made=choice-$6-$3-$4-$5-$7-${11}
  [ -e "$made" ] || { seconds "$6" "$3" "$4" "$5" "$7" "${11}" && chosen; } >"$made"
  cat "$made"
}

: >rows
while read -r line; do
  case $line in '#'* | '') continue ;; esac
  # shellcheck disable=SC2086
  set -- $line
  # shellcheck disable=SC2046,SC2086
  echo $line $(predict $line) $(choose $line) >>rows
done <"$top/test/app/published.tsv"

cat >judge.awk <<'AWK'
BEGIN {
  name["N21"] = "Narayanan 2021, table 1"
  name["Z21"] = "the same, table 2"
  name["K22"] = "Korthikanti 2022"
  name["S22"] = "Smith 2022 (DeepSpeed)"
}
{
  published = $15
  devices = $9 * $10 * $11
  if (published ~ /x$/)
    published = 96 * $7 * 2048 * $3 * $4 * $4 * (1 + 2048 / (6 * $4) + 51200 / (16 * $3 * $4)) / (devices * 1e12 * (published + 0))
  error = $16 / published - 1
  printf "| %s, %s G, %d devices | %d x %d x %d | %d | %d | %s | %.2f s | %.2f s | %+.1f %% | %s x %s x %d, %s, %s, %s: %.2f s |\n", name[$1], \
    $2, devices, $9, $10, $11, $18, $17, $13, published, $16, 100 * error, $25, $26, $11, $24, $23, $27, $22 > "table"
  if (NF == 27) { owned++; if ($22 > $16) { print "row " NR ": its own choice is slower: " $0; bad = 1 } }
  size = error < 0 ? -error : error
  if ($1 == "S22") next
  count++
  sum += size
  if (size > 0.12 || $16 + 0 == 0) { print "row " NR " is off by " 100 * error " %: " $0; bad = 1 }
}
END {
  printf "%d rows, in the mean %.1f %% off; %d choices are no slower\n", count, 100 * sum / count, owned
  exit bad || count < 25 || sum / count > 0.08 || owned < least
}
AWK
least=0
[ -n "${SANITIZERS:-}" ] || least=6
[ -z "$table" ] || least=26
awk -v least=$least -f judge.awk rows >out 2>&1 || fail "predictions are off"
cat out
if [ -n "$table" ]; then
  { echo "| run | stages x replicas x tensor | chunks | micro-batch | made again | published | predicted | | Renga's own: layout, chunks, micro-batch, made again, step |"
    echo "|---|---|---|---|---|---|---|---|---|"
    cat table; } >"$table"
fi
[ $failures -eq 0 ] || exit 1

# What is no layout, and no machine.
gpt1="plan -graph $gpt -batch_size 8"
refuses 1 "-plan_tensor 2 predicts for a machine: give -machine_file" $gpt1 -plan_tensor 2
refuses 1 "write how many ranks share a tensor" $gpt1 -machine_file selene -plan_tensor 2,x
refuses 1 "need 16 devices, but the machine has 8" $gpt1 -machine_file selene -machine_nodes 1 -partition_stages 8 -plan_tensor 2 -precision bf16
refuses 1 "-plan_save p is for one plan" $gpt1 -machine_file selene -plan_tensor 1,2 -precision bf16 -plan_save p
# A plan with tensor ranks is kept, shown, and not run; several numbers are a table, with what training takes.
accepts 1 $gpt1 -machine_file selene -machine_nodes 1 -plan_tensor 2 -precision bf16 -plan_save p -plan_explain -plan_tokens 1e9
says "bound: none is known of plans that share tensors by rule: "
says "this is a prediction, which no run takes"
says "blocks.1.qkv.weight"
says "1.00 G tokens: "
accepts 1 $gpt1 -machine_file selene -machine_nodes 1 -plan_tensor 2 -partition_stages 1 -partition_replicas 1 -plan_save p2
refuses 2 "of which there is 1: give -graph_lanes 2 or more" train -graph $gpt -data synthetic -batch_size 8 -steps 1 -plan_load p2
refuses 1 "leave -graph_lanes 2 out" $gpt1 -machine_file selene -machine_nodes 1 -plan_tensor 2 -graph_lanes 2
accepts 1 $gpt1 -machine_file selene -machine_nodes 1 -plan_tensor 1,2,4 -precision bf16
says "bound: none is known of plans that share tensors by rule"
[ "$(grep -c '^ *[124]  ' out)" -eq 3 ] || fail "not three rows"
# A row says why there is no plan; what no row can have is an error.
tensor="$gpt1 -machine_file selene -machine_nodes 1 -precision bf16 -plan_tensor"
accepts 1 $tensor 1,8 -partition_stages 1 -partition_replicas 1 -partition_memory 200000
grep -q '^ *1  no layout with 1 tensor ranks fits' out || fail "a row does not say why"
refuses 1 "-plan_tensor 16: 1 stages x 1 replicas x 16 tensor ranks need 16 devices" $tensor 1,16
refuses 1 "leave -graph_lanes 2 out" $tensor 1,2 -graph_lanes 2
refuses 1 "is no whole number of micro-batches of 3" $tensor 1,2 -microbatch_size 3
# What says something else of a plan.
for option in "pipeline_recompute full" "pipeline_eager 1" "partition_type auto" "partition_tensor 2" "plan_load p" "partition_ranks 4" \
  "pipeline_reduction unordered" "pipeline_buckets 2" "pipeline_bucket_size 1MiB" "pipeline_overlap off" "partition_even_slack 0.1"; do
  refuses 1 "-$option does not go with -plan_tensor 2: " $tensor 2 -$option
done
refuses 1 "give several numbers as -plan_tensor 1,2,4 instead" $tensor 2 -plan_sweep batch_size:8,16
refuses 1 "-machine_nodes 1,2 does not go with -plan_tensor" $gpt1 -machine_file selene -machine_nodes 1,2 -plan_tensor 2
refuses 1 "and not -pipeline_schedule zb-h1" $tensor 2 -pipeline_schedule zb-h1
accepts 1 $tensor 2 -pipeline_schedule 1f1b -pipeline_chunks 1
refuses 1 "-plan_recompute full goes with -plan_tensor only" $gpt1 -machine_file selene -plan_recompute full
refuses 1 "-plan_tensor_split features goes with -plan_tensor only" $gpt1 -plan_tensor_split features
finish
