#!/bin/sh
# The last batch of an epoch is short, and its gradients may need more buffers than those of a whole
# one: plans are of the memory that all batches of a run need, and so is what a refusal names.
. "${0%/*}/common.sh"
run="train -graph mlp:sizes=40-500-70-5 -data synthetic -data_samples 44 -steps 4 -batch_size 16 -progress none
  -machine_file laptop -profile_type analytic"
train="$run -microbatch_size 2 -partition_type auto -layout_data 2"

# Without shards and with leaves of one micro-batch nothing can be saved: what would do does.
whole="$train -layout_zero 0 -partition_leaf 1"
refuses 2 "the network does not fit on 2 devices" $whole -partition_memory 1000K
enough=$(sed -n 's/.*: \([0-9.]*\) \([KMG]\)iB per device would do.*/\1\2/p' out | head -1)
[ -n "$enough" ] || fail "does not say what would do"
accepts 2 $whole -partition_memory "${enough}iB"

# Whole batches alone would fit: the gradients of the last one would not.
refuses 2 "the network does not fit on 2 devices" $whole -partition_memory 1500K
accepts 2 $whole -data_samples 48 -partition_memory 1500K
# What is left open is chosen so that it fits.
accepts 2 $train -partition_memory 1500K
accepts 2 $train -data_samples 60 -data_validation 0.25 -partition_memory 1500K

# A plan from a file is judged with them too.
accepts 2 $whole -plan_save p.txt -steps 1
accepts 2 $run -data_samples 48 -plan_load p.txt -partition_memory 1500K
refuses 2 "p.txt: stage 0 needs 1.65 MiB, but a device may use 1.46 MiB: plan again for this machine" $run -plan_load p.txt -partition_memory 1500K
# A batch that is larger than the data set is said to be.
accepts 2 train -graph $mlp -data synthetic -data_samples 5 -batch_size 8 -steps 1 -progress none
says "a batch of 8 samples is larger than the data set, of which 5 are for training: each step takes these, and is an epoch"
accepts 2 train -graph $mlp -data synthetic -data_samples 8 -batch_size 8 -steps 1 -progress none
! grep -q "larger than the data set" out || fail "a batch that is the data set is called larger"
# Where sizes of micro-batches are chosen, what would do is that of the smallest.
small="plan -graph gpt:layers=2,hidden=20,heads=5,sequence=8,vocabulary=61 -machine_file laptop -partition_ranks 4 -batch_size 8 -partition_memory"
refuses 1 "in micro-batches of 1 sample: " $small 20000
enough=$(sed -n 's/.*: \([0-9.]*\) \([KMG]\)iB per device would do.*/\1\2/p' out | head -1)
accepts 1 $small "$enough"
finish
