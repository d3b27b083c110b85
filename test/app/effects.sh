#!/bin/sh
# TEST ranks: 2
# Options whose effect no other test sees: each changes something, its default does not, and what it says is what happens.
. "${0%/*}/common.sh"
train="train -graph $mlp -data synthetic -data_samples 103 -batch_size 8 -microbatch_size 2 -progress none -parameter_digest"
losses() { cut -d, -f2 "$1"; }

# -optimizer_epsilon: beside one that is larger than all numbers a step is none, as with a learning rate of 0.
adam="$train -steps 4 -optimizer_type adam"
accepts 1 $adam
plain=$(digest)
accepts 1 $adam -optimizer_epsilon 1e-8
equal "$(digest)" "$plain" "1e-8 is not the default"
accepts 1 $adam -optimizer_epsilon 0.01
large=$(digest)
differ "$large" "$plain" "-optimizer_epsilon changes nothing"
accepts 2 $adam -optimizer_epsilon 0.01 -layout_pipeline 2
equal "$(digest)" "$large" "other parameters on two stages"
accepts 1 $adam -optimizer_epsilon 1e30 -monitor csv:huge.csv
accepts 1 $adam -optimizer_learning_rate 0 -monitor csv:still.csv
equal "$(losses huge.csv)" "$(losses still.csv)" "a huge epsilon leaves a step"
refuses 1 "-optimizer_epsilon is an option of type adam and adamw; -optimizer_type is sgd" $train -optimizer_type sgd -optimizer_epsilon 1e-3

# -data_owners_order: owners of ranges of the file have other samples; not without owners.
owned="$train -steps 5 -data_owners 4 -data_shuffle local"
accepts 1 $owned
plain=$(digest)
accepts 1 $owned -data_owners_order shuffled
equal "$(digest)" "$plain" "shuffled is not the default"
accepts 1 $owned -data_owners_order file
ranges=$(digest)
differ "$ranges" "$plain" "-data_owners_order file changes nothing"
accepts 2 $owned -data_owners_order file -layout_data 2
equal "$(digest)" "$ranges" "other parameters on two replicas"
refuses 1 "-data_owners_order files: not one of shuffled|file" $owned -data_owners_order files
refuses 1 "-data_owners_order file is of samples that belong to owners: -data_owners N with -data_shuffle local or partial:Q" \
  $train -data_owners_order file

# -data_hide_rate: the rate of the second epoch, which hides 24 of 103 samples, is 0.01 / (1 - 24 / 103), or stays.
hides="$train -steps 15 -data_hide 0.4 -data_hide_confidence 0.2 -optimizer_learning_rate 0.01"
rate() { tail -n 1 rates.csv | cut -d, -f3; rm rates.csv; }
accepts 1 $hides -monitor csv:rates.csv
says "epoch 1 hides 24 of 103 samples"
plain=$(digest)
equal "$(rate)" 0.0130379747 "another rate where samples are hidden"
accepts 1 $hides -monitor csv:rates.csv -data_hide_rate true
equal "$(digest)" "$plain" "true is not the default"
rm rates.csv
accepts 1 $hides -monitor csv:rates.csv -data_hide_rate false
says "epoch 1 hides 24 of 103 samples"
differ "$(digest)" "$plain" "-data_hide_rate false changes nothing"
equal "$(rate)" 0.01 "another rate than was asked for"

# -partition_microbatch_sizes: the plan has one of these; default is an eighth of the batch. For types that choose.
plan="plan -graph $gpt -machine_file v100 -batch_size 32"
size() { sed -n 's/^plan: .* in [0-9]* micro-batch[es]* of \([0-9]*\).*/\1/p' out; }
for wish in 1=1 3=3 4=4 default=4; do
  accepts 1 $plan -partition_microbatch_sizes "${wish%=*}"
  equal "$(size)" "${wish#*=}" "-partition_microbatch_sizes ${wish%=*} makes other micro-batches"
done
accepts 1 $plan -partition_microbatch_sizes 1,2
case $(size) in 1 | 2) ;; *) fail "micro-batches of $(size), not of 1 or 2" ;; esac
accepts 1 $plan
plain=$(grep "predicted:" out)
accepts 1 $plan -partition_microbatch_sizes auto
equal "$(grep "predicted:" out)" "$plain" "auto is not the default"
# A run that goes on by the same command has what was chosen.
again="train -graph $mlp -data synthetic -batch_size 8 -progress none -partition_type auto -partition_microbatch_sizes 1,2 -partition_leaf 1,4"
accepts 1 $again -steps 2 -checkpoint_dir c
chosen=$(grep -o "micro-batches of [0-9]*$" out)
accepts 1 $again -steps 4 -checkpoint_dir c -resume
says "goes on after step 2" "$chosen"
refuses 1 "-partition_microbatch_sizes x: write default, auto, or samples of a micro-batch, from 1 to 32: 1,2,4" $plan -partition_microbatch_sizes x
refuses 1 "-microbatch_size 2 and -partition_microbatch_sizes 1,2 are both given: leave one out" $plan -partition_microbatch_sizes 1,2 \
  -microbatch_size 2
refuses 1 "-partition_microbatch_sizes is for -partition_type auto, exact and rannc, but the type is even" $plan -partition_type even \
  -partition_microbatch_sizes 1,2

# -partition_tree_memory_weight: time alone, and memory alone, cut at other places; time alone is faster.
tree="$plan -microbatch_size 2 -partition_type tree -layout_pipeline 3 -layout_data 1 -plan_save"
cuts() { awk '$1 == "stage" { print $4, $5 }' "$1" | tr '\n' ','; }
step() { awk '$1 == "predicted" { print $2 }' "$1"; }
for weight in 0 0.2 1; do accepts 1 $tree tree$weight.txt -partition_tree_memory_weight $weight; done
accepts 1 $tree tree.txt
equal "$(cuts tree.txt)" "$(cuts tree0.2.txt)" "0.2 is not the default"
differ "$(cuts tree0.txt)" "$(cuts tree1.txt)" "-partition_tree_memory_weight changes nothing"
awk "BEGIN { exit !(0 < $(step tree0.txt) && $(step tree0.txt) < $(step tree1.txt)) }" || fail "memory alone makes a faster step than time alone"
refuses 1 "-partition_tree_memory_weight is for -partition_type tree, but the type is auto" $plan -partition_tree_memory_weight 1

# -partition_rannc_blocks: of one block there is one stage; few blocks are other places to cut than as many as stages need.
rannc="$plan -microbatch_size 2 -partition_type rannc -plan_save"
for blocks in 0 1; do accepts 1 $rannc rannc$blocks.txt -partition_rannc_blocks $blocks; done
for blocks in 0 8; do accepts 1 $rannc cut$blocks.txt -partition_rannc_blocks $blocks -layout_pipeline 4; done
accepts 1 $rannc rannc.txt
equal "$(cuts rannc.txt)" "$(cuts rannc0.txt)" "0 is not the default"
equal "$(cuts rannc1.txt)" "0 44," "of one block there are several stages"
differ "$(cuts cut8.txt)" "$(cuts cut0.txt)" "-partition_rannc_blocks 8 changes nothing"
refuses 1 "-partition_rannc_blocks is for -partition_type rannc, but the type is auto" $plan -partition_rannc_blocks 3
finish
