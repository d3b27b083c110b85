#!/bin/sh
# Ranks that share out lanes of tokens, as the command has them: runs that go on elsewhere, evaluations, what is said.
# Bits and memory on all layouts, images, refusals and plans are in test/lanes.
. "${0%/*}/common.sh"
heads="gpt:layers=2,hidden=20,heads=5,sequence=9,vocabulary=61"
small="-data synthetic -data_samples 600 -batch_size 8 -microbatch_size 2 -parameter_digest -progress none -optimizer_clip_norm 0.5"
valued="-eval_every 2 -data_validation 0.2 -eval_samples 96"

accepts 1 train -graph "$heads" $small $valued -graph_token_lanes 3 -steps 4
says "3 lanes at most, which decide bits (-graph_token_lanes)"
digest=$(grep "parameter digest 0x" out)
values=$(grep "validation" out)
accuracy() { grep -o "accuracy [0-9.]*" out; }
counted=$(accuracy)
[ -n "$values" ] && [ -n "$counted" ] || fail "no evaluation"
accepts 1 train -graph "$heads" $small $valued -steps 4
[ "$(accuracy)" = "$counted" ] || fail "another accuracy than that of lanes, $counted"

# A run goes on with other ranks and as many lanes.
accepts 3 train -graph "$heads" $small $valued -steps 2 -graph_token_lanes 3 -layout_context 3 -checkpoint_dir c
middle=$(grep "validation" out)
accepts 4 train -graph "$heads" $small $valued -steps 3 -checkpoint_dir c -resume -layout_context 2 -layout_pipeline 2
accepts 2 train -graph "$heads" $small $valued -steps 4 -checkpoint_dir c -resume -layout_data 2
says "$digest"
both=$(echo "$middle" && grep "validation" out)
[ "$both" = "$values" ] || fail "other evaluations than $values: $both"

# Types that search take as many; a plan's file is of as many lanes as are given.
accepts 3 train -graph "$heads" $small $valued -steps 4 -graph_token_lanes 3 -layout_context 3 -partition_type auto \
  -layout_pipeline 1 -layout_data 1 -machine_file laptop
says "$digest"
says "1 stage x 1 replica x 3 context-parallel ranks on 3 ranks"

# A network part of which is in no lane is told of.
accepts 1 train -graph resnet:depth=18,width=0.0625,image=33,classes=7 $small -steps 1 -microbatch_size 4 -graph_token_lanes 4
says "warning: -graph_token_lanes 4: 43% of the FLOPs of products are in no lane"
finish
