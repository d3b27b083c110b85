#!/bin/sh
# The planner takes virtual pipeline stages where that is clearly faster, says by how much, and leaves it alone
# where a number is given or it may not; such a plan is kept, simulated alike, and run with the bits of one rank.
. "${0%/*}/common.sh"

few="gpt:layers=8,hidden=32,heads=2,sequence=16,vocabulary=64"
machine="-machine_file v100 -machine_nodes 1"
numbers="-batch_size 4 -microbatch_size 1 -partition_leaf 1"
plan="plan -graph $few $machine $numbers -partition_ranks 4 -layout_data 1"

# seconds FILE: of the step of a kept plan.
seconds() {
  sed -n 's/^predicted \([^ ]*\) .*/\1/p' "$1"
}

# clearly SHARE LESS MORE: LESS is below SHARE of MORE.
clearly() {
  awk -v share="$1" -v less="$2" -v more="$3" 'BEGIN { exit !(less + 0 > 0 && less < share * more) }'
}

accepts 1 $plan -plan_explain -plan_save chunks.txt
says "8 stages x 1 replica, 2 virtual stages per rank; steps of 4 samples in 4 micro-batches of 1; schedule zb-v"
says "chunks: each of 4 ranks computes 2 of the 8 stages under zb-v: "
says "proof: no plan with one stage per rank has a faster step than "
says " were simulated, and others are not looked at"
lacks "left out"
says "lower bound: no plan takes less"
says "bound: of all plans on so many devices in micro-batches of "
awk '$1 == "predicted" { for (i = 2; i < NF; i++) if ($i == "bound") { bound = $(i + 1); step = $2 } }
  END { exit !(bound > 0.5 * step && bound <= step) }' chunks.txt || fail "the bound is above the step, or far below it"
predicted=$(grep predicted: out | head -n 1)
accepts 1 $plan -layout_chunks 1 -plan_save one.txt
lacks "virtual stages per rank;"
says "left out: plans of several virtual stages per rank (-layout_chunks)"
clearly 0.99 "$(seconds chunks.txt)" "$(seconds one.txt)" || fail "not 1 % faster than one stage per rank"

# The same plan given, from its file and by its cuts; on other ranks that plan; by exact, too.
accepts 1 plan -graph $few $machine $numbers -plan_load chunks.txt -plan_save again.txt
says "$predicted"
cuts=$(awk '$1 == "stage" { printf "%s%d", n++ ? "," : "", $5 - $4 }' chunks.txt)
accepts 1 $plan -partition_type manual -partition_cuts "$cuts" -layout_pipeline 4 -schedule_type zb-v
says "$predicted"
cp chunks.txt mine.txt
accepts 3 $plan -plan_explain -plan_save chunks.txt
equal_files chunks.txt mine.txt "three planning ranks make another plan than one"
accepts 1 $plan -partition_type exact -partition_exact_time_limit 100
says "$predicted"
says "covered: no plan with one stage per rank has a faster step than "

# What the user says is kept.
for option in "-layout_pipeline 4" "-schedule_type 1f1b" "-layout_recompute full" "-schedule_eager 1" \
  "-partition_type rannc"; do
  accepts 1 $plan $option
  lacks "virtual stages per rank;"
done
accepts 1 $plan -layout_recompute none
says "2 virtual stages per rank;"
# With many micro-batches they win little, and one stage on all ranks has no pipeline.
accepts 1 $plan -batch_size 64
says "left out: plans of several virtual stages per rank, of which "
lacks "virtual stages per rank;"
# A bound on memory holds for the plan as the runtime forecasts it.
accepts 1 $plan -partition_memory 1200KiB -plan_save tight.txt
clearly 1.0000001 "$(seconds chunks.txt)" "$(seconds tight.txt)" || fail "faster in less memory"

# Runs have the bits of one rank, with this plan's machine, with measured costs, and with replicas.
train="train -graph $few -data synthetic $numbers -steps 3 -parameter_digest -progress none"
accepts 1 $train
digest=$(digest)
accepts 4 $train $machine -partition_type auto -layout_data 1
says "8 stages x 1 replica on 4 ranks, 2 stages on each; steps of 4 samples in micro-batches of 1; schedule zb-v"
says "$digest"
accepts 4 $train -plan_load chunks.txt
says "2 stages on each"
says "$digest"
accepts 2 $train -partition_type auto -layout_data 1
says "$digest"
accepts 4 $train $machine -partition_type auto -layout_data 2 -layout_zero 1
says "8 stages x 2 replicas on 4 ranks, 4 stages on each; steps of 4 samples in micro-batches of 1; schedule interleaved"
says "$digest"
finish
