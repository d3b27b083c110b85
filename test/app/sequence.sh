#!/bin/sh
# Sequence ranks: networks in lanes of tokens, or of rows of images, are near those that are whole, and have the bits of
# one rank on every layout of ranks that share out the tokens, stages, replicas and their shares, uneven lanes too;
# forecast memory is measured memory; each of four ranks needs less of a long sequence; runs that go on elsewhere; what
# is refused.
#
#   sequence.sh [EVERY]   from a build: each EVERYth layout of each network; 1: all
every=${1:-${SANITIZERS:+41}}
every=${every:-13}
traced="$(cd "${0%/*}/../reference/networks" && pwd)/resnet_trace.onnx"
. "${0%/*}/common.sh"
words="sequence=9,vocabulary=61"
small="-data synthetic -batch_size 8 -microbatch_size 2 -parameter_digest -progress none -steps 3 -optimizer_clip_norm 0.5"
number=0

# fits: what the last run took of each rank is what was forecast.
fits() {
  awk '/stage [0-9]+, replica [0-9]/ { ranks++; if ($(NF - 5) != $(NF - 3) || $(NF - 4) != $(NF - 2)) bad = 1 }
    END { exit bad || !ranks }' out || fail "measured memory is not what was forecast: $*"
}

# near A B: losses of the last steps of two tables, within 1e-4.
near() {
  a=$(tail -n 1 "$1" | cut -d, -f2)
  b=$(tail -n 1 "$2" | cut -d, -f2)
  awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(d < 1e-4 && d > -1e-4) }' || fail "$a is not near $b: $1 $2"
}

# layouts LANES: of each that fits 8 ranks a line: ranks and options.
layouts() {
  for sequence in 1 2 3 4; do
    for stages in 1 2 3; do
      for replicas in 1 2; do
        ranks=$((sequence * stages * replicas))
        [ $ranks -le 8 ] && [ $sequence -le "$1" ] || continue
        for shard in none optimizer gradients parameters; do
          [ $replicas -gt 1 ] || [ $shard = none ] || continue
          echo "$ranks -partition_sequence $sequence -partition_stages $stages -partition_replicas $replicas" \
            "-pipeline_shard $shard"
        done
      done
    done
  done
}

# samples NETWORK OPTIONS: in 2 to 4 lanes, on each layout whose turn it is.
samples() {
  rm -f whole.csv
  accepts 1 train $small -graph "$@" -monitor csv:whole.csv
  for lanes in 2 3 4; do
    rm -f one.csv
    accepts 1 train $small -graph "$@" -graph_token_lanes $lanes -monitor csv:one.csv
    digest=$(grep "parameter digest 0x" out)
    fits "$@"
    [ -n "$drops" ] || near whole.csv one.csv
    layouts $lanes >list
    while read -r layout; do
      number=$((number + 1))
      [ $((number % every)) -eq 0 ] || continue
      case $((number / every % 3)) in 0) order=1f1b ;; 1) order=gpipe ;; 2) order=zb-h1 ;; esac
      case $((number / every % 2)) in 0) recompute=auto ;; 1) recompute=full ;; esac
      rm -f run.csv
      # shellcheck disable=SC2086
      accepts ${layout%% *} train $small -graph "$@" -graph_token_lanes $lanes ${layout#* } -partition_type even \
        -pipeline_schedule $order -pipeline_recompute $recompute -monitor csv:run.csv
      says "$digest"
      fits "$layout"
      [ "$(cut -d, -f1-2 one.csv)" = "$(cut -d, -f1-2 run.csv)" ] || fail "other losses: $layout"
    done <list
  done
}

drops=
samples "bert:layers=1,hidden=12,heads=3,intermediate=17,$words,next_sentence=1,dropout=0"
samples "t5:layers=1,hidden=12,heads=3,head_width=4,intermediate=17,$words,gated=1,buckets=8"
samples "llama:layers=2,hidden=24,heads=6,groups=3,intermediate=37,$words"
samples "gpt:layers=2,hidden=20,heads=5,$words"
drops=1
samples "gpt:layers=2,hidden=20,heads=5,$words,dropout=0.1,tied=0"
samples "gpt:layers=2,hidden=20,heads=5,$words" -precision bf16

# Rows of images: windows of convolutions and pooling, statistics of batches; a U-Net, part of which has all rows.
draw() {
  awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "%.2f ", 0.8 * sin(i * i * 0.7) }'
}
# unet NAME NODES: f, 4 rows of 2 channels, becomes i, 9 rows.
unet() {
  levels=$(echo "in x f32 N 1 9 4; in labels i64 N 9 4; out loss; init v f32 2 1 3 3 : $(draw 18); Conv x v -> a pads=1,1,1,1;
    init g f32 2 : 1 1; init h f32 2 : 0 0; InstanceNormalization a g h -> b; Relu b -> c; MaxPool c -> d kernel_shape=2,2 strides=2,2;
    init w f32 2 2 3 3 : $(draw 36); Conv d w -> e pads=1,1,1,1; Relu e -> f; $2; Concat c i -> j axis=1;
    init z f32 2 2 3 3 : $(draw 36); Conv j z -> k pads=1,1,1,1 group=2; Relu k -> l; init u f32 4 2 1 1 : $(draw 8); Conv l u -> m;
    SoftmaxCrossEntropyLoss m labels -> loss" | tr '\n' ' ')
  "$top_builddir/test/app/network" "$1" 18 "$levels" || fail "$1 cannot be written"
}
unet unet.onnx "init y f32 2 2 2 2 : $(draw 16); ConvTranspose f y -> i strides=2,2 output_padding=1,0"
unet nearest.onnx "init s f32 4 : 1 1 2.25 2; Resize f - s -> i mode=nearest"
unet linear.onnx "init s f32 4 : 1 1 2.25 2; Resize f - s -> i mode=linear"
for file in nearest linear; do
  accepts 1 info -graph $file.onnx -graph_token_lanes 2 -graph_view ascii
  says "lanes of tokens        2, of 12 nodes of the network, 1 of them summed"
done
resnet="resnet:depth=18,width=0.0625,image=33,classes=7"
drops=
samples unet.onnx
samples nearest.onnx
samples linear.onnx
samples "$resnet" -microbatch_size 4
drops=1
samples "$resnet" -microbatch_size 4 -precision bf16

# What of a network is in no lane is said; rows that there are not are refused as they are where the network is whole.
accepts 1 train -graph "$resnet" $small -microbatch_size 4 -graph_token_lanes 4 -graph_view ascii
says "warning: -graph_token_lanes 4: 43% of the FLOPs of products are in no lane"
says "products in no lane    43.4% of the FLOPs of products, first behind \"layers.4.c1\""
for rows in "3 0 2 1" "3 0 2 4"; do
  shuffled=$(echo "in x f32 N 1 4 4; in labels i64 N 4 4; out loss; init v f32 2 1 3 3 : $(draw 18); Conv x v -> a pads=1,1,1,1;
    Relu a -> b; init r i64 4 : $rows; Gather b r -> c axis=2; init w f32 4 2 1 3 : $(draw 24); Conv c w -> m pads=0,1,0,1;
    SoftmaxCrossEntropyLoss m labels -> loss" | tr '\n' ' ')
  "$top_builddir/test/app/network" "rows${rows##* }.onnx" 18 "$shuffled" || fail "$rows cannot be written"
done
accepts 1 info -graph rows1.onnx -graph_token_lanes 2 -graph_view ascii
says "lanes of tokens        2, of 5 nodes of the network"
refuses 1 "Gather: index 4 at position 3 is outside [0, 4)" train -graph rows4.onnx $small -graph_token_lanes 2

# A file names the statistics of its batch norms, which nobody reads: these are in lanes, too.
accepts 1 info -graph "$traced" -graph_token_lanes 3 -graph_view ascii
says "lanes of tokens        3, of 17 nodes"
accepts 1 train -graph "$traced" $small -graph_token_lanes 3
digest=$(grep "parameter digest 0x" out)
accepts 4 train -graph "$traced" $small -graph_token_lanes 3 -partition_sequence 2 -partition_stages 2 -partition_type even
says "$digest"
fits

# A run goes on with other ranks and as many lanes.
heads="gpt:layers=2,hidden=20,heads=5,$words"
accepts 1 train -graph "$heads" $small -steps 4 -graph_token_lanes 3
says "3 lanes at most, which decide bits (-graph_token_lanes)"
digest=$(grep "parameter digest 0x" out)
accepts 3 train -graph "$heads" $small -steps 2 -graph_token_lanes 3 -partition_sequence 3 -checkpoint_dir c
accepts 4 train -graph "$heads" $small -steps 3 -checkpoint_dir c -resume -partition_sequence 2 -partition_stages 2
accepts 2 train -graph "$heads" $small -steps 4 -checkpoint_dir c -resume -partition_replicas 2
says "$digest"
accepts 2 train -graph "$heads" $small -steps 4 -graph_token_lanes 3 -partition_sequence 2 -eval_every 2 -data_validation 0.2
valued=$(grep "validation" out)
accepts 1 train -graph "$heads" $small -steps 4 -graph_token_lanes 3 -eval_every 2 -data_validation 0.2
says "accuracy"
accuracy() { grep -o "accuracy [0-9.]*" out; }
counted=$(accuracy)
[ -n "$valued" ] && [ "$(grep "validation" out)" = "$valued" ] || fail "other evaluations than $valued"
accepts 1 train -graph "$heads" $small -steps 4 -eval_every 2 -data_validation 0.2
[ "$(accuracy)" = "$counted" ] || fail "another accuracy than that of lanes, $counted"
accepts 3 train -graph "$heads" $small -steps 4 -graph_token_lanes 3 -partition_sequence auto -partition_type auto -partition_stages 1 -partition_replicas 1
says "$digest"
says "1 stage x 1 replica x 3 tensor ranks on 3 ranks"
refuses 3 "-partition_sequence auto shares out the lanes of tokens" train -graph "$heads" $small -partition_sequence auto
accepts 1 plan -graph "$heads" -batch_size 8 -partition_type even -graph_token_lanes 3 -partition_sequence 3 -partition_ranks 3 \
  -plan_save plan.json
accepts 3 train -graph "$heads" $small -steps 4 -graph_token_lanes 3 -plan_load plan.json -reduction_leaf 0
for lanes in "" "-graph_lanes 3"; do
  refuses 3 "; was it made with -graph_token_lanes, give it the same number" train -graph "$heads" $small $lanes -plan_load plan.json -reduction_leaf 0
done
accepts 1 plan -graph "$heads" -batch_size 8 -partition_type even -graph_lanes 3 -partition_tensor 3 -partition_ranks 3 \
  -plan_save plan.json
refuses 3 "its 3 lanes are of heads and columns, this network's 3 are of tokens: leave -graph_token_lanes out" \
  train -graph "$heads" $small -graph_token_lanes 3 -plan_load plan.json
accepts 1 info -graph "$heads" -graph_token_lanes 3 -graph_view ascii
says "lanes of tokens        3, of"

# 4 MiB hold 230 tokens of one rank, but not 240; each of four ranks has 800 in them, and 1840, 8 times as many, where
# it runs forward again.
long="-batch_size 2 -microbatch_size 1 -data synthetic -steps 1 -progress none -parameter_digest -partition_type even"
deep="gpt:layers=12,hidden=16,heads=2,vocabulary=64"
keeps="-partition_memory 4MiB -pipeline_recompute none"
accepts 1 train -graph "$deep,sequence=230" $long -graph_token_lanes 4 $keeps
fits
refuses 1 "4.00 MiB" train -graph "$deep,sequence=240" $long -graph_token_lanes 4 $keeps
accepts 4 train -graph "$deep,sequence=800" $long -graph_token_lanes 4 -partition_sequence 4 $keeps
fits
accepts 1 train -graph "$deep,sequence=1840" $long -graph_token_lanes 4
digest=$(grep "parameter digest 0x" out)
accepts 4 train -graph "$deep,sequence=1840" $long -graph_token_lanes 4 -partition_sequence 4 -partition_memory 4MiB \
  -pipeline_recompute full
says "$digest"
fits

# A budget that four ranks keep with images that one rank has no room for.
wide="resnet:depth=18,width=0.0625,image=160,classes=5,channels=1"
photos="-data synthetic -data_samples 8 -batch_size 4 -microbatch_size 4 -steps 1 -progress none -parameter_digest -partition_type even"
budget="-partition_memory 2.5MiB -pipeline_recompute none"
refuses 1 "allows 2.50 MiB" train -graph "$wide" $photos -graph_token_lanes 4 $budget
accepts 1 train -graph "$wide" $photos -graph_token_lanes 4
digest=$(grep "parameter digest 0x" out)
accepts 4 train -graph "$wide" $photos -graph_token_lanes 4 -partition_sequence 4 $budget
says "$digest"
fits

refuses 2 "give -graph_token_lanes 2 or more" train -graph "$heads" $small -partition_sequence 2
refuses 3 "of which there are 2: give -graph_token_lanes 3 or more" train -graph "$heads" $small -graph_token_lanes 2 -partition_sequence 3
refuses 2 "give -partition_sequence 2" train -graph "$heads" $small -graph_token_lanes 2 -graph_lanes 1 -partition_tensor 2
refuses 2 "in lanes of one kind" train -graph "$heads" $small -graph_token_lanes 2 -partition_tensor 2 -partition_sequence 2
refuses 1 "together with -graph_token_lanes 2 is not supported" train -graph "$heads" $small -graph_token_lanes 2 \
  -partition_split 'blocks.0.*:whole'
refuses 1 "in lanes of one kind" train -graph "$heads" $small -graph_token_lanes 2 -graph_lanes 2
refuses 3 "-partition_sequence 2 with 1 stages x 1 replicas needs" train -graph "$heads" $small -graph_token_lanes 2 -partition_sequence 2
refuses 2 "-partition_sequence 2 is not supported by -partition_type auto" train -graph "$heads" $small -graph_token_lanes 2 \
  -partition_sequence 2 -partition_type auto
refuses 2 "-partition_tensor auto shares out lanes of heads" train -graph "$heads" $small -graph_token_lanes 2 \
  -graph_lanes 1 -partition_tensor auto
refuses 1 "has no product along the tokens" train -graph mlp:sizes=9-5 $small -graph_token_lanes 2
finish
