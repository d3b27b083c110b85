#!/bin/sh
# Networks in lanes: other bits than whole, near its losses, the same ones on every layout; what is
# printed, kept by -resume, and refused.
. "${0%/*}/common.sh"
heads="gpt:layers=2,hidden=20,heads=5,sequence=8,vocabulary=61"
pairs="t5:layers=1,hidden=12,heads=3,head_width=4,intermediate=17,sequence=8,vocabulary=61,gated=1,buckets=8"
cloze="bert:layers=1,hidden=12,heads=3,intermediate=17,sequence=8,vocabulary=61,next_sentence=1"
tables="ncf:users=41,items=29,factors=5,layers=14-11-7-5"
small="-data synthetic -batch_size 8 -microbatch_size 2 -parameter_digest -progress none -steps 20"

# near A B: losses of the last steps of two tables, within 1e-4.
near() {
  a=$(tail -n 1 "$1" | cut -d, -f2)
  b=$(tail -n 1 "$2" | cut -d, -f2)
  awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(d < 1e-4 && d > -1e-4) }' || fail "$a is not near $b: $1 $2"
}

# lanes NETWORK: in 1, 2 and 3 lanes, uneven ones too; in 3 on other layouts.
lanes() {
  seen=
  rm -f [123].csv
  for number in 1 2 3; do
    accepts 1 train -graph "$1" $small -graph_lanes $number -monitor csv:$number.csv
    digest=$(digest) || fail "no digest"
    case $seen in *"$digest"*) fail "$number lanes have other lanes' bits" ;; esac
    seen="$seen $digest"
    near 1.csv $number.csv
  done
  accepts 2 train -graph "$1" $small -graph_lanes 3 -layout_pipeline 2
  says "$digest"
  accepts 2 train -graph "$1" $small -graph_lanes 3 -layout_data 2
  says "$digest"
  for shard in optimizer gradients parameters; do
    accepts 4 train -graph "$1" $small -graph_lanes 3 -layout_pipeline 2 -layout_data 2 -partition_type even \
      -layout_zero $shard
    says "$digest"
  done
}
lanes "$pairs"
lanes "$cloze"
lanes mlp:sizes=9-17-15-13-5
lanes "$tables"
lanes "$heads"
says "3 lanes at most"
accepts 1 train -graph "$heads" $small
lacks "lanes"
# Heads that share keys stay together where there are as many groups as lanes; else what they share is whole.
shared="llama:layers=1,hidden=24,heads=6,groups=3,intermediate=17,sequence=8,vocabulary=61"
accepts 1 info -graph "$shared" -graph_lanes 3 -graph_view ascii
says "lanes                  3, of 39 nodes of the network, 3 of them summed"
accepts 1 info -graph "$shared" -graph_lanes 6 -graph_view ascii
says "lanes                  6, of 21 nodes of the network, 3 of them summed"
accepts 1 train -graph mlp:sizes=9-5 $small -graph_lanes 3
says "nothing of it is computed in lanes (-graph_lanes 3)"

accepts 2 train -graph "$heads" $small -graph_lanes 3 -precision bf16 -layout_pipeline 2 -monitor csv:narrow.csv
narrow=$(digest)
accepts 1 train -graph "$heads" $small -graph_lanes 3 -precision bf16
says "$narrow"

# Tables of embeddings, by their rows; with them whole the numbers are those of fewer lanes, and updates by rows go.
accepts 1 info -graph "$tables" -graph_lanes 3 -graph_view ascii
says "3, of 7 nodes of the network, 5 of them summed"
refuses 1 "-optimizer_sparse lazy does not go with rows of mf.user.weight in lanes yet: give -graph_lanes 1, or have" train \
  -graph "$tables" $small -graph_lanes 3 -optimizer_sparse lazy
accepts 1 train -graph "$tables" $small -graph_lanes 3 -optimizer_sparse lazy -graph_split 'Gather*:whole'
accepts 1 train -graph "$tables" $small -batch_size 64 -graph_lanes 3 -optimizer_sparse lazy # no table is worth it

# Attention that drops out is whole, hidden layers are not: numbers are drawn as they always were.
accepts 1 train -graph "$heads,dropout=0.2" $small -graph_lanes 3 -graph_view ascii
says "3, of 9 nodes of the network, 3 of them summed"
accepts 1 plan -graph "$heads" -graph_lanes 3 -graph_view ascii -batch_size 8 -machine_file laptop -partition_ranks 2
says "3, of 31 nodes of the network, 5 of them summed"

# No lanes of statistics, nor of what has no hidden layer; a node that is named keeps its lanes in 32 bits.
accepts 1 train -graph mlp:sizes=9-5 $small -graph_lanes 3
says "nothing of it is computed in lanes"
for number in 1 3; do
  accepts 1 train -graph "$heads" $small -graph_lanes $number -precision bf16 -precision_keep 'blocks.0.qkv,blocks.1.out' -monitor csv:keep$number.csv
done
awk -F, 'NR == FNR { a = $2; next } { b = $2 } END { d = a - b; exit !(d < 2e-2 && d > -2e-2) }' keep1.csv keep3.csv || fail "kept nodes in lanes"

# Convolutions and their statistics, on layouts, cut between lanes of one node too; checkpoints have whole statistics.
images="resnet:depth=18,width=0.125,image=16,classes=7"
accepts 1 train -graph "$images" $small -steps 4 -graph_lanes 3 -graph_view ascii -checkpoint_dir images
says "lanes                  3, of 32 nodes of the network, 8 of them summed"
images_digest=$(digest)
accepts 4 train -graph "$images" $small -steps 4 -graph_lanes 3 -layout_pipeline 2 -layout_tensor 2 \
  -partition_type manual -partition_cuts 24,224
says "$images_digest"
accepts 4 train -graph "$images" $small -steps 4 -graph_lanes 3 -layout_data 2 -layout_tensor 2 -layout_zero 2
says "$images_digest"
for number in 1 3; do
  accepts 1 eval -graph "$images" -data synthetic -data_samples 64 -batch_size 8 -graph_lanes $number -initial images
  says "102 of 102 parameters and states are those of images"
  grep "^loss " out | cut -c 1-11 >eval$number
done
equal_files eval1 eval3 "statistics in lanes are other ones"
says "over 64 samples"

# A checkpoint holds the network, not its lanes: they are kept, or others are taken and told.
accepts 1 train -graph "$heads" $small -steps 12 -graph_lanes 3 -checkpoint_dir kept
accepts 1 eval -graph "$heads" -data synthetic -initial kept -graph_lanes 3
says "accuracy"
cp -r kept other
accepts 2 train -graph "$heads" $small -checkpoint_dir kept -resume -layout_data 2
says "$digest"
cp -r other third
accepts 1 train -graph "$heads" $small -batch_size 4 -checkpoint_dir third -resume
lacks "graph_lanes   "
accepts 1 train -graph "$heads" $small -checkpoint_dir other -resume -graph_lanes 2
says "graph_lanes              was 3, is 2"

# -graph_split: what it names is whole, or is in lanes as asked; kept by -resume.
accepts 1 train -graph "$heads" $small -graph_lanes 3 -graph_split 'blocks.0.*:whole,blocks.*.qkv:columns,blocks.*.out:rows' \
  -graph_view ascii -steps 12 -checkpoint_dir split
says "3, of 17 nodes of the network, 3 of them summed"
accepts 2 train -graph "$heads" $small -checkpoint_dir split -resume -graph_view ascii -layout_pipeline 2
says "3, of 17 nodes of the network, 3 of them summed"
split=$(digest)
cp -r split joined
accepts 1 train -graph "$heads" $small -checkpoint_dir joined -resume -graph_lanes 1
lacks "graph_split: node"
accepts 1 train -graph "$heads" $small -graph_lanes 3 -graph_split 'blocks.0.*:whole'
says "$split"
accepts 1 train -graph "$heads" $small
whole=$(digest)
accepts 1 train -graph "$heads" $small -graph_split '*:whole'
says "$whole"
refuses 2 'node "blocks.0.qkv" (Linear) cannot be computed in lanes so (rows)' train -graph "$heads" $small -graph_lanes 3 \
  -graph_split 'blocks.?.qkv:rows'
refuses 1 'node "blocks.0.qkv" is to be computed in lanes (columns), but the network has one: give -graph_lanes 2 or more' \
  train -graph "$heads" $small -graph_split 'blocks.?.qkv:columns'
refuses 1 'its chain has 5 heads, columns or experts, fewer than 8 lanes: give fewer -graph_lanes' train -graph "$heads" $small \
  -graph_lanes 8 -graph_split 'blocks.?.proj:rows'
refuses 1 '"blocks.7.*" fits no node of the network' train -graph "$heads" $small -graph_lanes 3 -graph_split 'blocks.7.*:whole'
refuses 1 '"blocks.0.qkv:heads" is no PATTERN:HOW' train -graph "$heads" $small -graph_lanes 3 -graph_split blocks.0.qkv:heads

# Five heads stay whole in six lanes, hidden layers do not; in 90 nothing is left. One rank and two say the same.
accepts 1 train -graph "$heads" $small -graph_lanes 6 -graph_view ascii
says "2 products stay whole with what leads to them, for fewer heads, columns or experts than lanes: node \"blocks.0.proj\" adds up 5"
says "lanes                  6, of 9 nodes of the network, 3 of them summed"
says "fewer units than lanes 2 of the sums stay whole: \"blocks.0.proj\" has 5"
digest=$(digest)
accepts 2 train -graph "$heads" $small -graph_lanes 6 -layout_tensor 2
says "$digest"
accepts 1 train -graph "$heads" $small -graph_lanes 90
says "no more heads, hidden columns or experts between two products, so that nothing of it is computed in lanes"
refuses 1 "-graph_lanes 0: write a whole number from 1 to 1024, or auto" train -graph "$heads" $small -graph_lanes 0
refuses 1 "-graph_lanes some: write a whole number from 1 to 1024, or auto" train -graph "$heads" $small -graph_lanes some
# What is kept for backward does not grow with lanes: a lane's queries, keys and values of a weight are there together.
for lanes in 1 2 4; do
  accepts 1 plan -graph gpt:layers=2,hidden=64,heads=8,sequence=16,vocabulary=61 -batch_size 2 -microbatch_size 1 -partition_type even \
    -partition_ranks 1 -graph_lanes $lanes
  bytes=$(grep -A2 "memory of a device" out | awk 'NR == 3 { print $8, $9 }')
  : "${kept:=$bytes}"
  equal "$bytes" "$kept" "other bytes are saved with $lanes lanes"
done
finish
