#!/bin/sh
# renga plan -plan_load: what a plan's file says of time and memory is worked out anew, and a plan that
# is written by hand is answered. What cannot be planned for is refused with what is wrong.
. "${0%/*}/common.sh"

machine="plan -graph $gpt -machine_file v100 -batch_size 32 -microbatch_size 2"
accepts 1 $machine -plan_save made.txt
accepts 1 $machine -plan_load made.txt -plan_save again.txt
# What was chosen, and simulated beside it, stands in the plan that was made; of one that is given
# nothing is, and its bound is one of fewer plans.
sed -i -e '/^reason /d' -e 's/ bound [^ ]*/ bound 0/' made.txt again.txt
equal_files made.txt again.txt "a plan is not evaluated as when it was made"
grep -q warning out && fail "a warning of a file that is right"

# Of a file that lies nothing is believed.
sed -e 's/^predicted [^ ]*/predicted 1e-9/' -e 's/memory [0-9]* parts/memory 12345 parts/' made.txt >lie.txt
accepts 1 $machine -plan_load lie.txt -plan_save again.txt
sed -i -e '/^reason /d' -e 's/ bound [^ ]*/ bound 0/' again.txt
equal_files made.txt again.txt "a file was believed"
says "lie.txt predicts 1.00 ns per step, but here this plan takes"
says "lie.txt says that stage 0 needs 12345 bytes of a device, but here it needs"
accepts 1 plan -graph $gpt -plan_load lie.txt
says "which cannot be checked without costs"
grep -q "predicted:" out && fail "a prediction that nobody made"
accepts 1 plan -graph $gpt -machine_file h100 -plan_load made.txt
says "made.txt was made for v100, not for h100: what it takes there is worked out"
says "but here this plan takes"
refuses 1 "but a device may use" $machine -plan_load lie.txt -machine_memory 100KiB

# The file of doc/formats.md.
sed -n '/^renga-plan 5$/,/^end$/{p;/^end$/q}' "$top_srcdir/doc/formats.md" >hand.txt
[ "$(wc -l <hand.txt)" -eq 6 ] || fail "not the six lines of the example"
hand="plan -graph gpt:layers=2,hidden=16,heads=2,sequence=16,vocabulary=256 -plan_load hand.txt"
accepts 1 $hand -machine_file v100
sed -n '/^The answer begins$/,/^where/{/^plan: /p;/^  /p}' "$top_srcdir/doc/formats.md" >shown.txt
[ "$(wc -l <shown.txt)" -eq 3 ] || fail "not the three lines of the answer"
while read -r line; do says "$line"; done <shown.txt
says "plan: 2 stages of 2 to 3 replicas; steps of 32 samples in 16 micro-batches of 2"
says "predicted: "
says "lower bound: no plan takes less than"
accepts 1 $hand -machine_file v100 -batch_size 64 -schedule_type gpipe
says "steps of 64 samples in 32 micro-batches of 2; schedule gpipe"
accepts 1 $hand
says "2-4"
sed 's/^stage 1.*/& saved recompute/' hand.txt >twice.txt
accepts 1 plan -graph $gpt -plan_load twice.txt -machine_file v100 -plan_view json
says '"recompute":true'
sed 's/^stage 0.*/&\nranks 0 1/' hand.txt >some.txt
refuses 1 "some stages have a line of ranks" plan -graph $gpt -plan_load some.txt
refuses 1 "expected: graph DIGEST nodes COUNT, unless the network is given" plan -plan_diff hand.txt made.txt
accepts 1 plan -graph gpt:layers=2,hidden=16,heads=2,sequence=16,vocabulary=256 -plan_diff hand.txt twice.txt

# Stages by their number alone, and numbers that make no sense.
accepts 1 plan -graph $gpt -partition_type manual -layout_pipeline 3 -plan_save manual.txt
accepts 1 plan -graph $gpt -partition_type even -layout_pipeline 3 -plan_save even.txt
equal_files manual.txt even.txt "manual without cuts is not cut evenly"
refuses 1 "4 replicas, but a step of 3 samples in micro-batches of 1 makes only 3 parts" $machine \
  -batch_size 3 -microbatch_size 1 -layout_data 4
refuses 1 "give a -microbatch_size of 10 or more" plan -graph $mlp -batch_size 10000000 \
  -microbatch_size 1
accepts 1 plan -graph $mlp -partition_ranks 100000 -batch_size 8
says "plan: 1 stage x 8 replicas"
says "idle: 99992 of 100000 ranks"

# What the cuts need is said of these cuts, and is enough.
cuts="$machine -partition_type manual -partition_cuts blocks.1.ln1 -layout_data 2"
refuses 1 "as this type cuts it the network does not fit" $cuts -machine_memory 30KiB
enough=$(sed -n 's/.*samples: \([0-9.]*\) \([A-Za-z]*\) per device would do.*/\1\2/p' out)
accepts 1 $cuts -machine_memory "${enough:-none}"

finish
