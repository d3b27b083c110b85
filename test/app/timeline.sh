#!/bin/sh
# Drawings of steps: all actions of small layouts, simulated, and beside it as they were run.
. "${0%/*}/common.sh"
plan="plan -graph $gpt -machine_file laptop -batch_size 8 -microbatch_size 1"
train="train -graph $gpt -data synthetic -batch_size 4 -microbatch_size 1 -steps 4 -progress none"
python=$(command -v python3) || exit 77

# drawn KEY=VALUE...: the file f.svg has it.
drawn() {
  "$python" "$top_srcdir/test/app/timeline.py" f.svg "$@" >out 2>&1 || fail "the drawing of $layout"
}

# simulated LAYOUT KEY=VALUE...
simulated() {
  layout=$1
  shift
  # shellcheck disable=SC2086
  accepts 1 $plan -schedule_view draw:f.svg $layout
  drawn "$@"
}

two="-partition_ranks 2 -layout_pipeline 2 -partition_type even"
simulated "$two -schedule_type gpipe" ranks=2 forward=16 backward=16 message=32 update=2
simulated "$two -schedule_type 1f1b" ranks=2 forward=16 backward=16 message=32 update=2
simulated "$two -schedule_type zb-h1" ranks=2 forward=16 backward_of_inputs=16 of_weights=16 message=32 update=2
simulated "$two -schedule_type zb-v" ranks=2 forward=32 backward_of_inputs=32 of_weights='*' message='*' update=2
simulated "$two -schedule_type interleaved" ranks=2 forward=32 backward=32 message='*' update=2
simulated "$two -layout_recompute full" ranks=2 forward=16 backward=16 recomputation=16 message=32 update=2
simulated "-partition_ranks 4 -layout_pipeline 2 -layout_data 2 -partition_type even -schedule_type 1f1b" \
  ranks=4 forward=16 backward=16 message=32 update=4 sum_of_gradients=4
simulated "-partition_ranks 1 -layout_pipeline 1" ranks=1 forward=8 backward=8 update=1

# The bubble is the plan's. Of many replicas one row; groups of tensor-parallel ranks with all their ranks.
accepts 1 $plan $two -schedule_type 1f1b -schedule_view draw:f.svg
waits=$(sed -n 's/.*bubble \([0-9.]*\) %.*/\1/p' out)
grep -q "bubble ${waits:-none} %" f.svg || fail "another bubble than the plan's $waits %"
layout="16 replicas"
accepts 1 plan -graph $mlp -machine_file v100 -machine_nodes 4 -batch_size 32 -microbatch_size 1 -partition_type even \
  -layout_pipeline 1 -layout_data 16 -schedule_view draw:f.svg
drawn ranks=1 forward=2 backward=2 update=1 sum_of_gradients=1
grep -q ">rank 0 and 15 alike: stage 0<" f.svg || fail "replicas in rows of their own"
accepts 1 $plan -graph_lanes 2 -partition_ranks 4 -layout_pipeline 2 -layout_tensor 2 -partition_type even -schedule_view draw:f.svg \
  -plan_view draw:p.svg
grep -q ">2 stages x 1 replica x 2 tensor-parallel ranks on 4 ranks: " p.svg || fail "the plan's picture has no tensor-parallel ranks"
bubble=$(sed -n 's/.*; bubble \([0-9.]*\) %.*/\1/p' p.svg)
grep -q "bubble ${bubble:-none} %" f.svg || fail "another bubble than the plan's picture: $bubble %"
grep -q "2 stages on 4 ranks (2 at a time compute a stage together)" f.svg || fail "other ranks than the plan's"
grep -q ">ranks 2-3: stage 1<" f.svg || fail "a row without its ranks"
plan="plan -graph $gpt -batch_size 8 -microbatch_size 1" # without costs
simulated "-partition_type even -layout_pipeline 2" ranks=2 forward=16 backward=16 message='*'
grep -q "as if time went as FLOPs" f.svg || fail "does not say that time has no unit"
grep -q 'e+[0-9]' f.svg && fail "a number with a power of ten"

# ran RANKS LAYOUT KEY=VALUE...: a run of four micro-batches; half of the bars of each kind are simulated.
ran() {
  ranks=$1
  layout=$2
  shift 2
  # shellcheck disable=SC2086
  accepts $ranks $train -schedule_view draw:f.svg $layout
  says "f.svg shows step"
  drawn parts=2 ranks=$ranks "$@"
}

even="-partition_type even"
ran 1 "-layout_pipeline 1" forward=8 backward=8 update=2
ran 2 "$even -layout_pipeline 2" forward=16 backward=16 message='*' update=4
ran 2 "$even -layout_pipeline 2 -schedule_type zb-h1" \
  forward=16 backward_of_inputs=16 of_weights=16 message='*' update=4
ran 2 "$even -layout_pipeline 2 -schedule_type interleaved -layout_recompute full" \
  forward=32 backward=32 recomputation=32 message='*' update=4
ran 2 "$even -layout_pipeline 1 -layout_data 2 -pipeline_buckets 2 -monitor http:0 -log_trace trace.json" \
  forward=8 backward=8 sum_of_gradients=8 update=4
ran 2 "$even -layout_pipeline 1 -layout_data 2 -layout_zero 1" \
  forward=8 backward=8 sum_of_gradients='*' update=4
# Of sums of each micro-batch's gradients the last ones are the list's; a group of ranks is one row.
ran 2 "$even -layout_pipeline 1 -layout_data 2 -layout_zero 2" \
  sums=last forward=8 backward=8 sum_of_gradients='*' update=4
ran 2 "$even -layout_pipeline 1 -layout_tensor 2 -graph_lanes 2" ranks=1 forward=8 backward=8 update=2

# A short batch is not the step that is drawn; no step at all leaves the simulated one.
accepts 2 $train $even -layout_pipeline 2 -steps 0 -schedule_view draw:f.svg
layout="no step"
drawn ranks=2 forward=8 backward=8 message='*'
accepts 2 $train $even -layout_pipeline 2 -steps 1 -schedule_view
says "schedule 1f1b: 2 stages, 4 micro-batches"
accepts 2 $train $even -layout_pipeline 2 -steps 1 -schedule_view file:lists.txt
grep -q "^ranks 2 stages 2 microbatches 4 round$" lists.txt || fail "renga train saves no lists"

# What cannot be written, or is none of these, is refused before any work.
echo kept >kept.svg
refuses 2 "no-such-folder/f.svg: No such file or directory" $train -schedule_view draw:no-such-folder/f.svg
lacks "step"
mkdir folder
refuses 2 "folder is a folder, not a file that can be replaced" $train -schedule_view draw:folder
lacks "stages"
refuses 2 "-schedule_view picture: write ascii, ascii:FILE, draw:FILE or file:FILE" $train -schedule_view picture
refuses 1 "-schedule_view file: which file? write file:FILE" $plan -schedule_view file
refuses 1 "no-such-folder/f.svg: No such file or directory" $plan -schedule_view draw:no-such-folder/f.svg
refuses 1 "is read by this command" train -graph $gpt -data kept.svg -steps 1 -schedule_view draw:kept.svg
grep -q "^kept$" kept.svg || fail "a refused command has replaced a file"
finish
