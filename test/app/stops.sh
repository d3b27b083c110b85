#!/bin/sh
# Where a rank is stopped the run ends soon after -timeout and names it, beside replicas that share the
# optimizer too; where one is killed the run ends; a run that is asked to leave by a signal to mpiexec
# writes a whole checkpoint and ends with 85. RENGA_STOPS=60 RENGA_KILLS=60 RENGA_TERMS=20: more.
. "${0%/*}/common.sh"
train="train -graph $mlp -data synthetic -batch_size 8 -progress none"

# start RANKS OPTIONS...: in the folder c; until the i-th run has written so many checkpoints, at any moment of a step. mpiexec
# is $launcher, which its limit ends.
start() {
  ranks=$1
  shift
  rm -rf c out "$flies"
  : >out
  timeout -k 5 $limit "$mpiexec" -n "$ranks" $flying "$renga" $train -steps 100000000 -checkpoint_dir c "$@" </dev/null >out 2>&1 &
  launcher=$!
  step=$((1 + i * 7919 % 23))
  wait_for has_come_to $step
}
has_come_to() { said=$(sed -n 's/^checkpoint after step //p' out | tail -n 1) && [ "${said:-0}" -ge "$1" ]; }

# process_of RANK: the process, be it stopped.
process_of() {
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/cwd")" = "$PWD" ] || continue
    tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qx "PMI_RANK=$1" || continue
    [ "$(sed -n 's/^State:\t\(.\).*/\1/p' "$process/status")" != Z ] && echo "${process#/proc/}"
  done
}

# layout NUMBER: $ranks and its options in $layout; each second one shares the optimizer
layout() {
  ranks=$(($1 / 2 % 3 + 2))
  layout="-layout_pipeline $((ranks == 3 ? 3 : 2))"
  [ $(($1 % 2)) -eq 0 ] || layout="-layout_pipeline $((ranks / 4 + 1)) -layout_data $((ranks == 3 ? 3 : 2))
    -layout_zero 1 -pipeline_buckets 3"
}

# A limit that no slow rank meets; once the victim is stopped it comes soon.
i=0
while [ $i -lt "${RENGA_STOPS:-6}" ]; do
  layout $i
  start $ranks -checkpoint_every 1 -timeout 100 $layout
  victim=$((i % ranks))
  kill -STOP $(process_of $victim)
  : >"$flies"
  wait $launcher
  code=$?
  is_error $code || fail "stop $i: exit code $code"
  grep -Eq "no sign of rank ([0-9]+, )*$victim[ ,]" out || fail "stop $i of rank $victim: $(grep error out)"
  i=$((i + 1))
done

# MPI or mpiexec finds the dead rank; what was written is whole.
i=0
while [ $i -lt "${RENGA_KILLS:-3}" ]; do
  layout $((2 * i + 1))
  start $ranks -checkpoint_every 1 -checkpoint_keep 2 -timeout 100 $layout
  kill -KILL $(process_of $((i % ranks)))
  wait $launcher
  code=$?
  is_error $code || fail "kill $i: exit code $code"
  accepts 1 $train -steps 1 -checkpoint_dir c -resume
  says "goes on after step"
  i=$((i + 1))
done

# A whole checkpoint is one that a run can resume.
i=0
while [ $i -lt "${RENGA_TERMS:-3}" ]; do
  ranks=$((i % 2 + 1))
  signal=TERM
  [ $((i % 5)) -ne 4 ] || signal=INT
  start $ranks -checkpoint_every 2s -layout_pipeline $ranks
  kill -$signal $(cat "/proc/$launcher/task/$launcher/children")
  wait $launcher
  code=$?
  [ $code -eq 85 ] || fail "SIG$signal $i on $ranks ranks: exit code $code"
  says "asked to leave after step"
  left=$(sed -n 's/asked to leave after step \([0-9]*\) .*/\1/p' out)
  accepts 1 $train -steps $((left + 1)) -checkpoint_dir c -resume
  says "goes on after step $left"
  i=$((i + 1))
done
finish
