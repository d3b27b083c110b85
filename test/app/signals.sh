#!/bin/sh
# SIGUSR1 writes a checkpoint and goes on; SIGTERM writes one and leaves with code 85, which
# no signal makes; the run can be resumed.
. "${0%/*}/common.sh"

more_rows_than() { [ "$(wc -l <losses.csv)" -gt "$1" ]; }
has_files() { [ "$(ls c/*.h5 | wc -l)" -ge "$1" ]; }

train="train -graph $mlp -data synthetic -batch_size 8 -checkpoint_dir c -monitor csv:losses.csv"
"$renga" $train -steps 100000000 </dev/null >out 2>&1 &
process=$!
wait_for more_rows_than 5
kill -USR1 $process
wait_for has_files 1
rows=$(wc -l <losses.csv)
wait_for more_rows_than "$rows"
kill -TERM $process
wait $process
code=$?
[ $code -eq 85 ] || fail "exit code $code after SIGTERM"
says "asked to leave after step"
has_files 2 || fail "no checkpoint after SIGTERM"
last=$(sed -n 's/asked to leave after step \([0-9]*\) .*/\1/p' out)
[ "$(($(wc -l <losses.csv) - 1))" -eq "$last" ] || fail "losses.csv does not end with step $last"
accepts 2 $train -resume -steps $((last + 2)) -layout_pipeline 2
says "goes on after step $last"
[ "$(($(wc -l <losses.csv) - 1))" -eq $((last + 2)) ] || fail "losses.csv was not continued"

# Signals that come while it leaves already, or behind the last step, change nothing.
for wanted in 85 0; do
  steps=100000000
  [ $wanted -eq 85 ] || steps=$((last + 2000))
  rm out # what the run before said is not what is waited for
  "$renga" $train -resume -steps $steps </dev/null >out 2>&1 &
  process=$!
  wait_for grep -q "goes on after step" out
  [ $wanted -ne 0 ] || wait_for grep -q "c/step_" out
  while kill -TERM $process 2>/dev/null; do sleep 0.002; done
  wait $process
  code=$?
  [ $code -eq $wanted ] || fail "exit code $code, not $wanted, after many SIGTERM"
  last=$(sed -n 's/asked to leave after step \([0-9]*\) .*/\1/p' out)
done
finish
