#!/bin/sh
# Samples that belong to owners: the same numbers on any layout and after a resume; the old values of
# -data_shuffle mean what they meant; by name what owners cannot do.
. "${0%/*}/common.sh"

train="train -graph $mlp -data synthetic -data_samples 103 -batch_size 8 -microbatch_size 2 -progress none
  -parameter_digest"

accepts 1 $train -steps 40 -data_owners 4 -data_shuffle partial:0.3
expected=$(digest)
for layout in "-layout_pipeline 2" "-layout_data 3"; do
  accepts 3 $train -steps 40 -data_owners 4 -data_shuffle partial:0.3 $layout
  equal "$(digest)" "$expected" "another digest with $layout"
done
accepts 2 $train -steps 17 -data_owners 4 -data_shuffle partial:0.3 -checkpoint_dir c -layout_pipeline 2
accepts 3 $train -steps 40 -data_owners 4 -data_shuffle partial:0.3 -checkpoint_dir c -resume -layout_data 3
equal "$(digest)" "$expected" "another digest after a resume"
accepts 1 $train -steps 40 -data_owners 4 -data_shuffle local
differ "$(digest)" "$expected" "the exchange changes nothing"

# One order: the default, global, true, the bare option. Another: false.
accepts 1 $train -steps 20
expected=$(digest)
for same in "-data_shuffle global" "-data_shuffle true" "-data_shuffle yes" "-data_shuffle"; do
  accepts 1 $train -steps 20 $same
  equal "$(digest)" "$expected" "another digest with $same"
done
accepts 1 $train -steps 20 -data_shuffle no
differ "$(digest)" "$expected" "-data_shuffle no changes nothing"

refuses 2 "a batch of 8 samples cannot be filled equally by 3 data owners" $train -steps 4 -data_owners 3 \
  -data_shuffle local
refuses 2 "103 training samples cannot be split among 200 owners" $train -steps 4 -data_owners 200 \
  -data_shuffle local
refuses 2 "-data_hide 0.3 together with -data_owners is not supported" $train -steps 4 -data_owners 4 \
  -data_shuffle local -data_hide 0.3
refuses 2 "-data_placement local is for samples that belong to owners" $train -steps 4 -data_placement local
refuses 2 "made-up samples lie nowhere" $train -steps 4 -data_owners 4 -data_shuffle local -data_placement local
refuses 2 "-data_cache c is for -data_placement local" $train -steps 4 -data_owners 4 -data_shuffle local -data_cache c
finish
