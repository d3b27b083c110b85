#!/bin/sh
# Networks whose results depend on the micro-batch: the whole batch is one where nobody says another, on any
# number of ranks; else it is said; one value for a channel is refused. An evaluation is of what counts.
. "${0%/*}/common.sh"
resnet="resnet:depth=18,width=0.0625,image=32,classes=3,channels=1"
small="-data synthetic -data_samples 16 -batch_size 8 -steps 2 -optimizer_type sgd -progress none -parameter_digest"

accepts 1 info -graph "$resnet"
says "statistics     of micro-batches in training, by 20 BatchNormalizations; the fewest values are 1 per sample and channel, of "
accepts 1 info -graph $mlp
lacks "statistics in training"

accepts 1 train -graph "$resnet" $small
says "steps of 8 samples in micro-batches of 8"
lacks "statistics:"
digest=$(grep "parameter digest 0x" out)
accepts 3 train -graph "$resnet" $small
says "steps of 8 samples in micro-batches of 8"
says "statistics over the whole batch of 8, which is one micro-batch on one replica: with a smaller -microbatch_size more of 3 ranks"
says "$digest"

# What replicas that are asked for have of it, with a word; a micro-batch that is given is shown.
accepts 2 train -graph "$resnet" $small -layout_data 2
says "micro-batches of 4"
says "warning: in training 20 BatchNormalizations take their statistics over micro-batches of 4 of the 8 samples"
says ": -microbatch_size 8 takes them over the whole batch"
accepts 1 train -graph "$resnet" $small -microbatch_size 2
says "statistics: in training 20 BatchNormalizations take their statistics over micro-batches of 2"
lacks "warning"

# One value, at once or at the end of an epoch; an evaluation takes none.
refuses 2 "takes the statistics of a channel in training over one value: a step of 8 samples in micro-batches of 1" \
  train -graph "$resnet" $small -microbatch_size 1
refuses 1 "a step of 1 sample in micro-batches of 8 has one of 1 sample" train -graph "$resnet" $small -data_samples 17
accepts 1 eval -graph "$resnet" -data synthetic -data_samples 5 -batch_size 1 -microbatch_size 1

# Plans: the whole batch where it fits, less where it does not.
plan="plan -graph resnet:depth=18,image=64,classes=10 -graph_lanes 1 -machine_file v100 -machine_nodes 1 -batch_size 64"
accepts 1 $plan -partition_ranks 2
says "64 samples in 1 micro-batch of 64"
says "statistics: in training 20 BatchNormalizations take their statistics over the whole batch"
step=$(sed -n 's/^  statistics of fewer samples (-microbatch_size 32) would take at most \([0-9.]* [um]*s\) per step, .* differ$/\1/p' out)
leaf=$(sed -n 's/.*\(-partition_leaf [0-9]*\).*/\1/p' out)
accepts 1 $plan -partition_ranks 2 -microbatch_size 32 ${leaf:--partition_leaf 1}
says "predicted: ${step:-none} per step"
lacks "of fewer samples"
accepts 1 $plan -partition_ranks 1 -machine_memory 230MiB
says "warning: in training 20 BatchNormalizations take their statistics over micro-batches of 32 of the 64 samples"

# Masked tokens: samples have few labels that count, some none. The loss over them does not depend on the batch.
awk 'BEGIN { for (i = 0; i < 60; i++) printf "%s", (i % 7 ? "In the " : "beginning of\n") }' >text.txt
accepts 1 data text text.txt text.h5 -sequence 8 -vocabulary 260
bert="-graph bert:layers=1,hidden=8,heads=2,sequence=8,vocabulary=260 -data text.h5 -data_masking 0.1"
for batch in 1 3 7 100; do
  accepts 1 eval $bert -part all -batch_size $batch
  sed -n 's/^loss \([^ ]*\) .*/\1/p' out
done >losses
awk '{ d = $1 - first; if (NR == 1) first = $1; else if (d > 1e-6 || d < -1e-6 || $1 == "nan") bad = 1 }
  END { exit bad || NR != 4 || !(first > 1) }' losses || fail "losses of batches: $(tr '\n' ' ' <losses)"
accepts 3 eval $bert -part all -batch_size 3 -partition_type even -layout_pipeline 3
says "$(sed -n 2p losses | cut -c 1-10)"
for batch in 2 5; do
  accepts 1 train $bert -data_validation 0.4 -batch_size $batch -microbatch_size 1 -steps 1 -optimizer_learning_rate 0 -optimizer_weight_decay 0
  sed -n 's/.*validation loss \([0-9.nae+-]*\).*/\1/p' out
done >losses
[ "$(sort -u losses | wc -l)" -eq 1 ] && [ -s losses ] && ! grep -q nan losses || fail "losses of validations: $(cat losses)"
# Less than the whole batch is not chosen because plans of that are slower than those on more ranks: they fit.
accepts 1 plan -graph resnet:depth=18,classes=10 -graph_lanes 1 -machine_file h100 -machine_nodes 1 -batch_size 96
says "in 1 micro-batch of 96;" "the whole batch of 96"
finish
