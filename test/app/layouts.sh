#!/bin/sh
# Networks in lanes have the bits and losses of one rank on layouts of stages, replicas, their shares and tensor
# ranks, with six schedules, any cuts, several stages per rank and recomputation, and take the memory that was forecast.
#
#   layouts.sh [EVERY [FOLDER]]   from a build: each EVERYth layout of each network; 1: all, which takes hours
#
# Without arguments few layouts are tried, in 3 lanes. FOLDER has more networks: NAME.onnx, its data NAME.h5,
# options, if any, in NAME.opts, and in NAME.losses, if it is there, 20 losses, which one rank is to have within
# 1e-4: by SGD without shuffling. VERBOSE=1 prints how far it is.
networks=$(cd "${0%/*}/../reference/networks" && pwd)
every=${1:-23}
folder=${2:+$(cd "$2" && pwd)}
. "${0%/*}/common.sh"
common="-batch_size 8 -microbatch_size 2 -parameter_digest -progress none -seed 1"
number=0
runs=0
refused=0

# layouts LANES: of each that fits 8 ranks a line: ranks, stages, and options.
layouts() {
  for tensor in 1 2 3 4; do
    for stages in 1 2 3; do
      for replicas in 1 2; do
        ranks=$((tensor * stages * replicas))
        [ $ranks -le 8 ] && [ $tensor -le "$1" ] || continue
        for shard in none optimizer gradients parameters; do
          [ $replicas -gt 1 ] || [ $shard = none ] || continue
          echo "$ranks $stages -partition_tensor $tensor -partition_stages $stages -partition_replicas $replicas" \
            "-pipeline_shard $shard"
        done
      done
    done
  done
}

# turn STAGES NODES: schedule, recomputation, and cuts or several stages per rank of this number.
turn() {
  turn=$((number / every))
  [ $((turn / 3 % 2)) -eq 0 ] || echo "-pipeline_recompute full"
  if [ $((turn % 5)) -eq 2 ]; then
    case $((turn / 5 % 4)) in 0) order=interleaved ;; 1) order=zb-v ;; 2) order=dualpipe-v ;; 3) order=1f1b ;; esac
    echo "-pipeline_schedule $order -pipeline_chunks 2 -partition_type even"
    return
  fi
  case $((turn % 3)) in 0) order=1f1b ;; 1) order=gpipe ;; 2) order=zb-h1 ;; esac
  echo "-pipeline_schedule $order"
  first=$((3 + number * 131 % ($2 / 2))) # some networks begin with nodes that no cut may leave alone
  second=$((first + 1 + number * 31 % ($2 - first - 1)))
  case $1$((number % 2)) in
  21) echo "-partition_type manual -partition_cuts $second,$(($2 - second))" ;;
  31) echo "-partition_type manual -partition_cuts $first,$((second - first)),$(($2 - second))" ;;
  esac
}

# What the last run took of each rank is what was forecast.
fits() {
  awk '/stages? [0-9].*, replica [0-9]/ { ranks++; if ($(NF - 5) != $(NF - 3) || $(NF - 4) != $(NF - 2)) bad = 1 }
    END { exit bad || !ranks }' out || fail "measured memory is not what was forecast: $*"
}

# on RANKS STAGES OPTIONS: as one rank, or refused where no lane is there to be shared out.
on() {
  ranks=$1
  stages=$2
  shift 2
  if [ -n "$nothing" ] && [ "$1 $2" != "-partition_tensor 1" ]; then
    refuses "$ranks" "nothing of the network is computed in lanes" train $common "$@"
    refused=$((refused + 1))
    return
  fi
  rm -f run.csv
  # shellcheck disable=SC2046
  accepts "$ranks" train $common "$@" $(turn "$stages" "$nodes") -monitor csv:run.csv
  says "$digest"
  fits
  [ "$(cut -d, -f1-2 one.csv)" = "$(cut -d, -f1-2 run.csv)" ] || fail "other losses: $*"
  runs=$((runs + 1))
}

# has LOSSES: they are those of one.csv.
has() {
  tail -n +2 one.csv | cut -d, -f2 | paste -d ' ' - "$1" | awk '{ d = $1 - $2; s = $2 < -1 ? -$2 : $2 > 1 ? $2 : 1
      if (NF < 2 || d > 1e-4 * s || d < -1e-4 * s) bad = 1 } END { exit bad || NR < 20 }' || fail "other losses than $1"
}

# samples NETWORK OPTIONS: each of the numbers whose turn it is.
samples() {
  for lanes in $([ "$every" -gt 22 ] && echo 3 || echo 2 3 4); do
    rm -f one.csv
    accepts 1 train $common -graph "$@" -graph_lanes "$lanes" -monitor csv:one.csv
    digest=$(grep "parameter digest 0x" out)
    nothing=$(grep "nothing of it is computed in lanes" out)
    nodes=$(sed -n 's/.* parameters in \([0-9]*\) nodes.*/\1/p' out)
    [ -z "$losses" ] || has "$losses"
    layouts "$lanes" >list
    while read -r layout; do
      number=$((number + 1))
      # shellcheck disable=SC2086
      [ $((number % every)) -ne 0 ] || on $layout -graph "$@" -graph_lanes "$lanes"
    done <list
  done
  [ -z "${VERBOSE:-}" ] || echo "$1: $runs runs, $refused refused, $failures failures so far"
}

losses=
short="-data synthetic -steps 3 -optimizer_clip_norm 0.5"
words="sequence=8,vocabulary=61"
pair="layers=1,hidden=20,heads=5,$words,target=7"
samples "gpt:layers=2,hidden=20,heads=5,$words" $short
samples "gpt:layers=2,hidden=28,heads=7,$words,dropout=0.1,tied=0" $short
samples "gpt:layers=2,hidden=20,heads=5,$words" $short -precision bf16
# Stages of few nodes: some have a parameter, and others the lanes that read it, so that gradients of its parts are messages.
for small in "-partition_stages 8" "-partition_tensor 2 -partition_stages 4 -pipeline_chunks 4 -pipeline_schedule interleaved"; do
  accepts 8 train $common -graph "gpt:layers=2,hidden=20,heads=5,$words" $short -precision bf16 -graph_lanes "$lanes" -partition_type even $small
  says "$digest"
  fits
done
samples "bert:layers=2,hidden=12,heads=4,intermediate=17,$words,next_sentence=1" $short
samples "t5:layers=1,hidden=12,heads=5,head_width=4,intermediate=17,$words,gated=1,buckets=8" $short
samples "transformer:$pair,intermediate=31,smoothing=0.1" $short
samples "llama:layers=2,hidden=24,heads=6,groups=3,intermediate=37,$words" $short
samples "llama:layers=1,hidden=28,heads=7,groups=1,intermediate=19,$words,tied=1" $short
samples mlp:sizes=9-17-15-13-5 $short -optimizer_type sgd
samples ncf:users=41,items=29,factors=5,layers=14-11-7-5 $short
samples resnet:depth=18,width=0.125,image=16,classes=7 $short
for file in "$networks"/*_export.onnx "$networks"/resnet_trace.onnx; do
  samples "$file" $short
done
for file in ${folder:+"$folder"/*.onnx}; do
  losses=${file%.onnx}.losses
  [ -f "$losses" ] || losses=
  [ -f "${file%.onnx}.opts" ] && options=$(cat "${file%.onnx}.opts") || options=
  # shellcheck disable=SC2086
  samples "$file" -data "${file%.onnx}.h5" -data_validation 0 -data_shuffle 0 -steps 20 -optimizer_type sgd \
    -optimizer_learning_rate 0.1 $options
done
[ $runs -ge 20 ] || fail "only $runs runs"
finish
