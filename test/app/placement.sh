#!/bin/sh
# Samples that ranks hold: the digest of a run that reads the files, on any layout, with a cache, masked
# and after a resume; what cannot be used is named.
. "${0%/*}/common.sh"

for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
  echo "In the beginning there was line $i of a text that is not long, but long enough to be cut."
done >text
accepts 1 data text text set.h5 -sequence 16 -data_validation 0.1
train="train -graph $gpt -data set.h5 -batch_size 8 -microbatch_size 1 -progress none -parameter_digest
  -data_owners 4 -data_shuffle partial:0.5 -steps 24"
same() { equal "$(digest)" "$expected" "another digest with $*"; }

accepts 1 $train
expected=$(digest)
for layout in "1" "2 -layout_pipeline 2" "2 -layout_data 2" "3 -layout_data 3"; do
  set -- $layout
  ranks=$1
  shift
  accepts "$ranks" $train -data_placement local "$@"
  same "$layout"
  says "samples: ranks hold"
done
accepts 3 $train -data_placement local -data_cache here -layout_data 3
same "a cache"
[ -s here/owner-3.field-0 ] || fail "no file of owner 3"
accepts 2 $train -data_placement local -data_cache here -layout_data 2
same "a cache of another run"

# Killed after some steps, and resumed on other ranks.
accepts 3 $train -steps 11 -checkpoint_dir c -data_placement local -layout_data 3
accepts 2 $train -checkpoint_dir c -resume -data_placement local -data_cache here -layout_data 2
same "a resume"

refuses 2 "here/owner-0.field-0 holds owner 0 of 4" $train -data_placement local -data_cache here -data_owners 2
printf x >here/owner-1.field-0
refuses 2 "here/owner-1.field-0 is no file of a data cache" $train -data_placement local -data_cache here
finish
