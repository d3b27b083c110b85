#!/bin/sh
# Schedules by name: plans are predicted and shown for each, runs have the bits of one rank and the
# memory that was foretold, lists are saved, edited and replayed; what a schedule cannot do is refused.
. "${0%/*}/common.sh"
train="train -graph $gpt -data synthetic -batch_size 8 -microbatch_size 1 -steps 3 -parameter_digest -progress none"
plan="plan -graph $gpt -machine_file laptop -batch_size 8 -microbatch_size 1"

accepts 1 $train
digest=$(digest)
for schedule in zb-h1 zb-h2 auto interleaved zb-v dualpipe-v; do
  case $schedule in
  zb-h*) known="lower bound: no plan takes less" unknown="bound: of all plans" ;;
  *) known="bound: of all plans on so many devices" unknown="proved best" ;;
  esac
  accepts 2 $train -partition_type even -layout_pipeline 2 -schedule_type $schedule
  says "$digest"
  accepts 1 $plan -partition_ranks 4 -layout_pipeline 2 -layout_data 2 -schedule_type $schedule \
    -plan_explain -plan_save $schedule.txt
  says "schedule $schedule"
  says "$known"
  lacks "$unknown"
  step=$(grep predicted: out | head -n 1)
  accepts 1 $plan -plan_load $schedule.txt
  says "$step"
  accepts 4 $train -plan_load $schedule.txt
  says "$digest"
done
says "4 stages x 2 replicas on 4 ranks, 2 stages on each"

# Lists from a file, and the file with two actions in the other order.
accepts 1 $plan -partition_ranks 2 -layout_pipeline 2 -schedule_type zb-v -schedule_view file:lists.txt
grep -q "^ranks 2 stages 4 microbatches 8 wave$" lists.txt || fail "the file of lists has another head"
accepts 1 $plan -partition_ranks 2 -layout_pipeline 2 -schedule_type zb-v -schedule_view
says "schedule zb-v: 4 stages, 8 micro-batches"
accepts 2 $train -layout_pipeline 2 -schedule_type file:lists.txt
says "4 stages x 1 replica on 2 ranks, 2 stages on each"
says "$digest"
awk '/^backward-weight/ && !held { held = $0; next } { print } held && !done { print held; done = 1 }' \
  lists.txt >edited.txt
cmp -s lists.txt edited.txt && fail "nothing was edited"
accepts 2 $train -layout_pipeline 2 -schedule_type file:edited.txt
says "$digest"
sed 's/^forward 1 0$/backward 1 0/' lists.txt >wrong.txt
# Rank 0 reads the file for all, so that one rank says what is wrong.
once() {
  [ "$(grep -c "$1" out)" -eq 1 ] || fail "does not say \"$1\" once"
}
refuses 2 "the backward of stage 1 and micro-batch 0 is there whole, and in halves" $train -layout_pipeline 2 -schedule_type file:wrong.txt
once "there whole, and in halves"
mkfifo pipe
for name in pipe . /dev/zero; do
  refuses 2 "cannot read the schedule $name: it is not there, or no regular file" $train -layout_pipeline 2 \
    -schedule_type file:$name
  once "cannot read the schedule"
done
refuses 2 "cannot read the schedule none.txt" $train -layout_pipeline 2 -schedule_type file:none.txt
refuses 2 "is of 8 micro-batches, but a replica has 16" $train -batch_size 16 -layout_pipeline 2 \
  -schedule_type file:lists.txt
once "is of 8 micro-batches"

refuses 2 "schedule zb-h1 has one stage on each rank, but a rank has stages 0 and 2" \
  $train -layout_pipeline 2 -layout_chunks 2 -schedule_type zb-h1
refuses 2 "schedule zb-v has 2 virtual stages per rank, but here are 3: give -layout_chunks 2" \
  $train -layout_pipeline 2 -layout_chunks 3 -schedule_type zb-v
accepts 1 $plan -partition_ranks 2 -layout_pipeline 2 -layout_chunks 2 -plan_save round.txt
refuses 2 "schedule zb-v has stages 0 and 3 on one rank, but here these are stages 0 and 2" \
  $train -plan_load round.txt -schedule_type zb-v
refuses 2 "-schedule_type file:: not one of gpipe" $train -schedule_type file:
finish
