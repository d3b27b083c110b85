#!/bin/sh
# Tensor ranks: the bits of one rank with as many lanes on every layout, uneven lanes too; forecast memory is
# measured memory; runs that go on elsewhere; ranks that fail; what is refused.
. "${0%/*}/common.sh"
heads="gpt:layers=2,hidden=20,heads=5,sequence=8,vocabulary=61"
pairs="t5:layers=1,hidden=12,heads=3,head_width=4,intermediate=17,sequence=8,vocabulary=61,gated=1,buckets=8"
grouped="llama:layers=1,hidden=24,heads=6,groups=3,intermediate=17,sequence=8,vocabulary=61"
cloze="bert:layers=1,hidden=12,heads=3,intermediate=17,sequence=8,vocabulary=61,next_sentence=1"
small="-data synthetic -batch_size 8 -microbatch_size 2 -parameter_digest -progress none -steps 3 -optimizer_clip_norm 0.5"

# fits: what the last run took of each rank is what was forecast.
fits() {
  awk '/, tensor rank [0-9]/ { ranks++; if ($(NF - 5) != $(NF - 3) || $(NF - 4) != $(NF - 2)) bad = 1 } END { exit bad || !ranks }' out || fail "measured memory is not what was forecast"
}

# ranks NETWORK: on one rank in 3 lanes, then on layouts with 2 and 3 tensor ranks.
ranks() {
  rm -f *.csv
  accepts 1 train -graph "$1" $small -graph_lanes 3 -monitor csv:one.csv
  digest=$(grep "parameter digest 0x" out)
  number=0
  for layout in "2 -partition_tensor 2" "3 -partition_tensor 3" "4 -partition_tensor 2 -partition_stages 2" \
    "4 -partition_tensor 2 -partition_replicas 2"; do
    accepts ${layout%% *} train -graph "$1" $small -graph_lanes 3 ${layout#* } -monitor csv:$number.csv
    says "$digest"
    fits
    [ "$(cut -d, -f1-2 one.csv)" = "$(cut -d, -f1-2 $number.csv)" ] || fail "other losses"
    number=$((number + 1))
  done
}
ranks "$pairs"
ranks "$cloze"
ranks "$grouped"
ranks "ncf:users=41,items=29,factors=5,layers=14-11-7-5"
ranks mlp:sizes=9-17-15-13-5
ranks "$heads"
accepts 8 train -graph "$heads" $small -graph_lanes 3 -partition_tensor 2 -partition_stages 2 -partition_replicas 2
says "$digest"
says "2 stages x 2 replicas x 2 tensor ranks on 8 ranks"
accepts 4 train -graph "$heads" $small -graph_lanes 3 -partition_tensor 2 -partition_stages 2 -pipeline_schedule zb-h1
says "$digest"
for shard in optimizer gradients parameters; do
  accepts 4 train -graph "$heads" $small -graph_lanes 3 -partition_tensor 2 -partition_replicas 2 -pipeline_shard $shard
  says "$digest"
  fits
done
for precision in bf16 fp16; do
  accepts 1 train -graph "$heads" $small -graph_lanes 3 -precision $precision
  narrow=$(grep "parameter digest 0x" out)
  accepts 4 train -graph "$heads" $small -graph_lanes 3 -precision $precision -partition_tensor 2 -partition_replicas 2
  says "$narrow"
  fits
done
# In 16 bits, too, a rank has its lanes' parts alone; of the table as well, which the first stage looks up and the last one multiplies by.
for stages in 1 2; do
  for tensor in 1 3; do
    accepts 1 plan -graph "$heads" -graph_lanes 3 -batch_size 8 -microbatch_size 2 -precision bf16 -partition_type even \
      -partition_ranks $((stages * tensor)) -partition_stages $stages -partition_tensor $tensor
    held=$(awk '/^ *stage  parameters/ { getline; print $3 == "KiB" ? 1024 * $2 : $2 }' out)
    [ $tensor -eq 1 ] && all=$held
  done
  [ -n "$held" ] && awk "BEGIN { exit !($held < 0.45 * $all) }" || fail "a rank of 3 has $held bytes of parameters of $all"
done
# What the optimizer leaves as it is: biases, that lanes read or nobody in lanes; all but the last layer; whole parameters of lanes.
for frozen in "*bias:frozen=yes" "blocks*:frozen=yes;w*:frozen=yes" "*weight:frozen=yes"; do
  for precision in fp32 bf16; do
    accepts 1 train -graph "$heads" $small -graph_lanes 3 -optimizer_groups "$frozen" -precision $precision
    still=$(grep "parameter digest 0x" out)
    accepts 2 train -graph "$heads" $small -graph_lanes 3 -optimizer_groups "$frozen" -precision $precision -partition_tensor 2
    says "$still"
    fits
  done
done
accepts 4 train -graph "$heads,dropout=0.1" $small -graph_lanes 3 -partition_tensor 2 -partition_stages 2
dropped=$(grep "parameter digest 0x" out)
accepts 1 train -graph "$heads,dropout=0.1" $small -graph_lanes 3
says "$dropped"

# Evaluation, outputs, and a run that goes on elsewhere, there and back.
accepts 1 train -graph "$heads" $small -graph_lanes 3 -steps 6 -eval_every 3 -data_validation 0.2
digest=$(grep "parameter digest 0x" out)
valued=$(grep "validation" out)
accepts 2 train -graph "$heads" $small -graph_lanes 3 -steps 6 -eval_every 3 -data_validation 0.2 -partition_tensor 2
says "$digest"
[ -n "$valued" ] && [ "$(grep "validation" out)" = "$valued" ] || fail "other evaluations than $valued"
accepts 1 train -graph "$heads" $small -graph_lanes 3 -steps 6
digest=$(grep "parameter digest 0x" out)
accepts 2 train -graph "$heads" $small -graph_lanes 3 -steps 2 -checkpoint_dir c -partition_tensor 2
accepts 2 train -graph "$heads" $small -steps 3 -checkpoint_dir c -resume -partition_replicas 2 -pipeline_shard optimizer
accepts 2 train -graph "$heads" $small -steps 4 -checkpoint_dir c -resume -partition_type even -partition_replicas 2 -pipeline_shard parameters
accepts 4 train -graph "$heads" $small -steps 5 -checkpoint_dir c -resume -partition_tensor 2 -partition_replicas 2 -pipeline_shard optimizer
accepts 4 train -graph "$heads" $small -steps 6 -checkpoint_dir c -resume -partition_stages 2 -partition_tensor 2
says "$digest"

# A plan's file has them.
accepts 4 train -graph "$heads" $small -graph_lanes 3 -steps 6 -partition_stages 2 -partition_tensor 2 -plan_save plan.txt
accepts 4 train -graph "$heads" $small -graph_lanes 3 -steps 6 -plan_load plan.txt
says "$digest"
accepts 2 train -graph "$heads" $small -partition_tensor 2 -plan_save two.txt
two=$(grep "parameter digest 0x" out)
grep -q "^graph 0x.* lanes 2$" two.txt || fail "a plan without its lanes"
accepts 2 train -graph "$heads" $small -plan_load two.txt
says "$two"
says "2 lanes at most, which decide bits"
refuses 2 "; lanes: 2, this network's: 3, give -graph_lanes 2" train -graph "$heads" $small -graph_lanes 3 -plan_load two.txt

# What such plans take is predicted where costs are known, by the plan and by its file alike; measured costs change no bit.
planned="-graph $heads -graph_lanes 3 -batch_size 8 -microbatch_size 2 -machine_file laptop"
accepts 1 plan $planned -partition_type even -partition_ranks 4 -partition_stages 2 -partition_tensor 2 -plan_explain
says "tensor ranks: 2 of them compute each replica of a stage; in stage 0 they take "
lacks "lower bound: "
predicted=$(grep "predicted: " out | head -n 1)
accepts 1 plan $planned -plan_load plan.txt
says "$predicted"
refuses 1 "of which there are 3: give -graph_lanes 4 or more" plan $planned -partition_type even -partition_ranks 4 -partition_tensor 4
refuses 1 "the plan: stage 0 needs" plan $planned -partition_type even -partition_ranks 2 -partition_tensor 2 -partition_memory 100KiB
refuses 1 "with 2 tensor ranks (-partition_tensor) the leaf is not chosen: give -reduction_leaf" plan $planned -partition_type even \
  -partition_ranks 2 -partition_tensor 2 -partition_leaves auto
accepts 2 train -graph "$heads" $small -graph_lanes 3 -steps 6 -partition_type tree -partition_tensor 2 -profile_type measured
says "$digest"
says "per step: measured is "
fits

refuses 8 "a plan with tensor ranks together with -data_parallel local:2 is not supported" train -graph "$heads" $small -graph_lanes 3 \
  -plan_load plan.txt -data_parallel local:2 -data_learners 2

# The number is chosen where that is asked for, and what is refused is not chosen; the bits are those of one rank.
whole="$small -batch_size 8 -microbatch_size 8 -graph_lanes 3"
accepts 1 train -graph "$heads" $whole
one=$(grep "parameter digest 0x" out)
four=
accepts 2 train -graph "$heads" $whole -partition_tensor auto -machine_file laptop
says "$one"
says "1 stage x 1 replica x 2 tensor ranks on 2 ranks"
fits
chosen="plan -graph $heads -machine_file laptop -batch_size 8 -microbatch_size 8 -partition_ranks 2 -plan_explain -partition_tensor auto"
accepts 1 $chosen -graph_lanes 3
grep -q "tensor degrees: 1: .*; 2: .* (1 stage, 2 ranks in groups of 2, micro-batches of 8)" out || fail "what was compared is not said"
accepts 1 $chosen -graph_lanes 3 -pipeline_reduction unordered
says "; 2: none (2 tensor ranks (-partition_tensor) do not go with -pipeline_reduction unordered yet)"
says "lower bound: "
# Given, plans with them are looked for; what is found runs with the bits of one rank in its micro-batches, on uneven stages too.
searched="-machine_file laptop -partition_type auto"
for layout in "4 2" "6 2" "3 3"; do
  accepts ${layout% *} train -graph "$heads" $whole -microbatch_size 4 $searched -partition_tensor ${layout#* }
  found=$(grep "parameter digest 0x" out)
  says " x ${layout#* } tensor ranks on ${layout% *} ranks"
  fits
  [ -n "$four" ] || accepts 1 train -graph "$heads" $whole -microbatch_size 4
  : "${four:=$(grep "parameter digest 0x" out)}"
  [ "$found" = "$four" ] || fail "other bits: $found, not $four"
done
accepts 4 train -graph "$heads" $small $searched -graph_lanes 3 -partition_tensor 2 -pipeline_shard optimizer -steps 6
says "$digest"
fits
refuses 4 "2 tensor ranks (-partition_tensor) do not go with -pipeline_reduction unordered yet" train -graph "$heads" $whole $searched \
  -partition_tensor 2 -pipeline_reduction unordered
accepts 1 plan $planned -partition_ranks 6 -plan_sweep partition_tensor:1,2,3
[ "$(grep -c '^ *[123]  .* us ' out)" -eq 3 ] || fail "not three plans that were searched"
refuses 1 "with 2 tensor ranks for each replica in micro-batches of 2 samples: " plan $planned -partition_ranks 2 -partition_tensor 2 -partition_memory 100KiB
refuses 1 "of which there is 1: give -graph_lanes, or leave it out" $chosen -graph_lanes 1
# So they are without a type, no rank is idle, and where costs are measured one size is a micro-batch of each group.
accepts 2 train -graph "$heads" $small -microbatch_size 8 -graph_lanes 3 -partition_tensor 2 -machine_file laptop -plan_explain
says "proof: no plan with 2 tensor ranks"
lacks "stay idle"
accepts 2 train -graph "$heads" -data synthetic -batch_size 24 -steps 1 -progress none -partition_tensor 2 -profile_type measured -plan_explain
says "in micro-batches of 24, 3"
# Without a number of lanes there are as many as tensor ranks; of those to choose, as many as every chain has heads for.
accepts 1 $chosen -graph_view ascii
says "lanes                  2, of 31 nodes of the network"
accepts 1 $chosen -partition_ranks 8 -graph_view ascii
says "lanes                  4, of 31 nodes of the network"
says "lanes that auto chose  no more, as \"blocks.0.proj\" has 5 units"
accepts 1 plan $planned -partition_type even -partition_ranks 6 -plan_sweep partition_tensor:1,2,3
[ "$(grep -c '^ *[123]  ' out)" -eq 3 ] || fail "not three rows"
refuses 1 "-partition_tensor auto is not supported by -partition_type even" $chosen -graph_lanes 3 -partition_type even
refuses 1 "write how many ranks compute a replica of a stage together" $chosen -graph_lanes 3 -partition_tensor some
refuses 2 "-partition_tensor auto together with -data_parallel local:2 is not supported" train -graph "$heads" $small -graph_lanes 3 \
  -partition_tensor auto -data_parallel local:2 -data_learners 2

# What there is no room for is made again, with the exchanges that lead to it.
accepts 1 train -graph "$heads" $small -graph_lanes 3 -steps 6
says "$digest"
for bound in 220KiB 210KiB; do
  accepts 2 train -graph "$heads" $small -graph_lanes 3 -steps 6 -partition_tensor 2 -partition_type even -partition_memory $bound
  says "$digest"
  fits
  says "1 of 1 stages runs forward again before backward"
done

# Several stages on each rank, which make their exchanges in one order.
for order in interleaved zb-v; do
  accepts 4 train -graph "$heads" $small -graph_lanes 3 -steps 6 -partition_tensor 2 -partition_stages 2 -pipeline_chunks 2 \
    -pipeline_schedule $order
  says "$digest"
  says "4 stages x 1 replica x 2 tensor ranks on 4 ranks, 2 stages on each"
  fits
done
accepts 1 plan $planned -partition_type even -partition_ranks 4 -partition_stages 2 -partition_tensor 2 -pipeline_chunks 2 -pipeline_schedule zb-v \
  -plan_save several.txt
predicted=$(grep "predicted: " out | head -n 1)
accepts 1 plan $planned -plan_load several.txt
says "$predicted"

# A message that fails is sent again; for want of memory on one rank all end, soon.
for fault in message:500:0 message:801:1 allocation:12000:1 allocation:13500:1; do
  RENGA_FAULT=$fault timeout -k 5 $limit "$mpiexec" -n 2 "$renga" train -graph "$heads" $small -steps 6 -graph_lanes 3 \
    -partition_tensor 2 -pipeline_timeout 20 </dev/null >out 2>&1
  code=$?
  [ $code -ne 124 ] && [ $code -ne 137 ] || fail "$fault did not end"
  case $fault in message*) says "$digest" ;; *) [ $code -ne 0 ] || fail "$fault was not noticed" ;; esac
done
for fault in message:600:1 message:907:0 allocation:21700:1; do
  RENGA_FAULT=$fault timeout -k 5 $limit "$mpiexec" -n 4 "$renga" train -graph "$heads" $small -steps 6 -graph_lanes 3 \
    -partition_tensor 2 -partition_stages 2 -pipeline_recompute full -pipeline_timeout 20 </dev/null >out 2>&1
  code=$?
  [ $code -ne 124 ] && [ $code -ne 137 ] || fail "$fault did not end"
  case $fault in message*) says "$digest" ;; esac
done

tensor="train -graph $heads $small -graph_lanes 3 -partition_tensor"
accepts 2 train -graph "$heads" $small -partition_tensor 2 -steps 6 -checkpoint_dir two
digest=$(grep "parameter digest 0x" out)
says "2 lanes at most, which decide bits"
accepts 1 train -graph "$heads" $small -graph_lanes 2 -steps 6
says "$digest"
accepts 1 train -graph "$heads" $small -steps 8 -checkpoint_dir two -resume
says "2 lanes at most, which decide bits"
accepts 1 train -graph "$heads" $small -steps 2 -checkpoint_dir one
refuses 2 "of which there is 1: give -graph_lanes 2 or more" train -graph "$heads" $small -partition_tensor 2 -checkpoint_dir one -resume
refuses 2 "of which there is 1: give -graph_lanes 2 or more" train -graph "$heads" $small -partition_tensor 2 -graph_lanes 1
refuses 4 "of which there are 3: give -graph_lanes 4 or more" $tensor 4
refuses 3 "needs 2 ranks or a multiple of them, but there are 3" $tensor 2
refuses 1 "-partition_tensor 3 with 4 stages x 1 replicas needs 12 ranks or a multiple of them, but there are 6" plan $planned \
  -partition_ranks 6 -partition_tensor 3 -partition_stages 4
refuses 4 "2 stages x 2 replicas needs 8 ranks, but there are 4" $tensor 2 -partition_stages 2 -partition_replicas 2
refuses 2 "is not supported by -partition_type rannc" $tensor 2 -partition_type rannc -machine_file laptop
refuses 2 "do not go with -pipeline_reduction unordered yet" $tensor 2 -pipeline_reduction unordered
refuses 2 "do not go with -optimizer_sparse lazy yet" $tensor 2 -optimizer_sparse lazy
refuses 2 "do not go with a device whose memory is not the host's yet" $tensor 2 -device_type far
refuses 4 "-partition_tensor 2 together with -data_parallel local:2 is not supported" $tensor 2 -data_parallel local:2 -data_learners 2
refuses 2 "nothing of the network is computed in lanes" train -graph mlp:sizes=9-5 $small -graph_lanes 3 -partition_tensor 2
finish
