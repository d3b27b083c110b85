#!/bin/sh
# Where a rank is stopped the run ends soon after -timeout and names it, beside replicas that share the
# optimizer too; where one is killed the run ends; a run that is asked to leave by a signal to mpiexec
# writes a whole checkpoint and ends with 143. RENGA_STOPS=60 RENGA_KILLS=60 RENGA_TERMS=20: more.
. "${0%/*}/common.sh"
pause=$(($$ % 1000))
train="train -graph $mlp -data synthetic -batch_size 8 -steps 100000000 -progress none"

# start RANKS OPTIONS...: in a folder of its own; mpiexec is $launcher, its ranks are in $ranks
start() {
  ranks=$1
  shift
  rm -rf c out
  : >out
  "$mpiexec" -n "$ranks" "$renga" $train -checkpoint_dir c "$@" </dev/null >out 2>&1 &
  launcher=$!
  tries=0
  until ls c/*.h5 >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -le $((10 * limit)) ] || { fail "no checkpoint: $(tail -n 3 out)"; return; }
    sleep 0.1
  done
  pause=$(((pause * 7919 + 104729) % 1000)) # any moment: steps and checkpoints take a few ms
  sleep "$(printf '0.%03d' $pause)"
}

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
  layout="-partition_stages $((ranks == 3 ? 3 : 2))"
  [ $(($1 % 2)) -eq 0 ] || layout="-partition_stages $((ranks / 4 + 1)) -partition_replicas $((ranks == 3 ? 3 : 2))
    -pipeline_shard optimizer -pipeline_buckets 3"
}

i=0
while [ $i -lt "${RENGA_STOPS:-6}" ]; do
  layout $i
  start $ranks -checkpoint_every 1 -pipeline_timeout 4 $layout
  victim=$((i % ranks))
  kill -STOP $(process_of $victim)
  begin=$(date +%s)
  wait $launcher
  code=$?
  seconds=$(($(date +%s) - begin))
  [ $code -ne 0 ] || fail "stop $i: exit code 0"
  [ $seconds -le 30 ] || fail "stop $i: ended after $seconds s"
  grep -Eq "no sign of rank $victim \(|no sign of rank ([0-9]+, )*$victim[ ,]" out ||
    fail "stop $i of rank $victim: $(grep error out)"
  i=$((i + 1))
done

# MPI or mpiexec finds the dead rank; what was written is whole.
i=0
while [ $i -lt "${RENGA_KILLS:-3}" ]; do
  layout $((2 * i + 1))
  start $ranks -checkpoint_every 50 -pipeline_timeout 4 $layout
  kill -KILL $(process_of $((i % ranks)))
  begin=$(date +%s)
  wait $launcher
  code=$?
  seconds=$(($(date +%s) - begin))
  [ $code -ne 0 ] || fail "kill $i: exit code 0"
  [ $seconds -le 30 ] || fail "kill $i: ended after $seconds s"
  accepts 1 train -graph $mlp -data synthetic -batch_size 8 -steps 1 -progress none -checkpoint_dir c -resume
  says "goes on after step"
  i=$((i + 1))
done

# A whole checkpoint is one that a run can resume.
i=0
while [ $i -lt "${RENGA_TERMS:-3}" ]; do
  ranks=$((i % 2 + 1))
  signal=TERM
  [ $((i % 5)) -ne 4 ] || signal=INT
  start $ranks -checkpoint_every 2s -partition_stages $ranks
  kill -$signal $launcher
  wait $launcher
  code=$?
  [ $code -eq 143 ] || fail "SIG$signal $i on $ranks ranks: exit code $code"
  says "asked to leave after step"
  last=$(sed -n 's/asked to leave after step \([0-9]*\) .*/\1/p' out)
  accepts 1 train -graph $mlp -data synthetic -batch_size 8 -steps $((last + 1)) -progress none \
    -checkpoint_dir c -resume
  says "goes on after step $last"
  i=$((i + 1))
done
finish
