#!/bin/sh
# A rank is killed, or stops, before an action of its list, on layouts of 2 and 4 ranks: mpiexec ends with
# an error soon; where a rank stopped the others name it; no process stays; what was said to be written
# is whole, and a run that goes on from there has the parameters of one that nobody disturbed.
# RENGA_FAULT_TRIES: kills and stops of each layout, 0: at every action (minutes). RENGA_FAULT_LAYOUTS="0 3": these
# alone. RENGA_FAULT_JOBS: runs at a time.
# No rank meets the limit of a wait before another has stopped; then seconds fly.
. "${0%/*}/../app/common.sh"
[ -z "${RENGA_TEST_SLOW:-}" ] || { echo "skipped: too many runs for slow programs"; exit 77; }
"$mpiexec" --version 2>/dev/null | grep -q HYDRA || { echo "skipped: the launcher is not MPICH's"; exit 77; }
tries=${RENGA_FAULT_TRIES:-1}
jobs=${RENGA_FAULT_JOBS:-3}
steps=2
train="train -graph $gpt -data synthetic -batch_size 4 -microbatch_size 1 -parameter_digest -progress none
  -checkpoint_dir c -checkpoint_every 1 -checkpoint_keep 2 -timeout 100"

# layout NUMBER: $ranks and $options, $lanes of the network; 1 behind the last
layout() {
  lanes=
  two="-partition_type even -layout_pipeline 2" both="-partition_type even -layout_pipeline 2 -layout_data 2"
  case $1 in
  0) ranks=2 options="$two" ;;
  1) ranks=2 options="$two -schedule_type zb-h1 -checkpoint_async" ;;
  2) ranks=2 options="$two -schedule_type interleaved" ;;
  3) ranks=2 options="-layout_data 2 -pipeline_buckets 3 -checkpoint_async" ;;
  4) ranks=2 options="-layout_data 2 -pipeline_buckets 3 -layout_zero 1" ;;
  5) ranks=2 options="-partition_type even -layout_data 2 -layout_zero 3 -checkpoint_async" ;;
  6) ranks=4 options="$both -pipeline_buckets 2 -layout_zero 1 -checkpoint_async" ;;
  7) ranks=4 options="$both -layout_zero 3" ;;
  8) ranks=4 options="$both -schedule_type zb-h1 -pipeline_buckets 2" ;;
  9) ranks=4 options="$both -schedule_type interleaved -checkpoint_async" ;;
  10) ranks=2 options="$two -layout_recompute full -schedule_type gpipe" ;;
  11) ranks=4 lanes="-graph_lanes 2" options="-layout_tensor 2 -layout_pipeline 1 -layout_data 2 -pipeline_buckets 2 -layout_zero 3" ;;
  12) ranks=2 lanes="-graph_token_lanes 2" options="-layout_context 2 -layout_pipeline 1" ;;
  13) ranks=4 lanes="-graph_lanes 2 -graph_token_lanes 2" options="-partition_type even -layout_tensor 2 -layout_context 2 -layout_pipeline 1" ;;
  *) return 1 ;;
  esac
}

wrong() {
  echo "$fault on $ranks ranks, $options: $*" >>failed
}

# The ranks of a run are known by its folder: their numbers and commands.
running() {
  for process in $(ls -l /proc/[0-9]*/cwd 2>/dev/null | sed -n "s|.* /proc/\([0-9]*\)/cwd -> $(pwd -P)\$|\1|p"); do
    tr '\0' ' ' 2>/dev/null <"/proc/$process/cmdline" | awk -v process="$process" '/^[^ ]*renga train/ { print process, $0 }'
  done
}
is_stopped() {
  for process in $(running | cut -d' ' -f1); do
    grep -q '^State:.T' "/proc/$process/status" && return
  done
  return 1
}
# The launcher may end while the system still takes away what it has killed.
stayed() {
  looks=0
  while [ -n "$(running)" ]; do
    looks=$((looks + 1))
    [ $looks -le $((2 * limit)) ] || { running; return; }
    sleep 0.5
  done
}

goes_on() {
  said=$(sed -n 's/^checkpoint after step //p' out | tail -n 1)
  timeout -k 5 $limit "$mpiexec" -n 1 "$renga" $train $lanes -steps $((steps + 1)) -resume </dev/null >again 2>&1 ||
    wrong "the run does not go on: exit code $?"
  there=$(sed -n 's/^goes on after step //p' again)
  [ "${there:-0}" -ge "${said:-0}" ] || wrong "step $said was written, and the run goes on after ${there:-none}"
  grep -q damaged again && wrong "a checkpoint is damaged"
  [ -n "$digest" ] && grep -q -F -x "$digest" again || wrong "other parameters than without"
}

# try FOLDER KIND RANK NUMBER: in a process of its own
try() {
  mkdir "$1" && cd "$1" || exit 1
  fault=$2:$4:$3
  : >out
  RENGA_FAULT=$fault RENGA_TEST_FLY=flies timeout -k 5 $limit "$mpiexec" -n "$ranks" env $clock "$renga" $train $lanes -steps $steps $options \
    </dev/null >out 2>&1 &
  launcher=$!
  if [ "$2" = stop ]; then
    wait_for grep -q "RENGA_FAULT: rank $3 stops" out || wrong "nobody stops"
    wait_for is_stopped || wrong "nobody is stopped"
    : >flies
  fi
  wait $launcher
  code=$?
  is_error $code || wrong "exit code $code"
  grep -q "RENGA_FAULT: rank $3 [a-z ]* before" out || wrong "does not say where"
  [ "$2" = kill ] || grep -Eq "no sign of rank ([0-9]+, )*$3[ ,]" out || wrong "does not name rank $3"
  left=$(stayed)
  [ -z "$left" ] || wrong "stayed: $left"
  goes_on
  [ ! -f failed ] || cat out again >>failed
}

# place POSITION: $rank and $number of the action, counted through the lists of all ranks in turn
place() {
  rank=0 number=$(($1 + 1))
  for count in $counts; do
    [ $number -gt "$count" ] || return 0
    number=$((number - count)) rank=$((rank + 1))
  done
}

# How many actions each rank comes to.
count_actions() {
  mkdir "count$1" && cd "count$1" || exit 1
  RENGA_FAULT=kill:0 timeout -k 5 $limit "$mpiexec" -n $ranks "$renga" $train $lanes -steps $steps $options </dev/null >../out 2>&1 ||
    fail "exit code $?: $options"
  cd ..
  counts=$(sed -n 's/^.*RENGA_FAULT: rank \([0-9]*\) came to \([0-9]*\) events of kind kill$/\1 \2/p' out | sort -n | cut -d' ' -f2)
  total=0
  for count in $counts; do total=$((total + count)); done
  [ "$(echo "$counts" | wc -w)" -eq $ranks ] && [ $total -gt 0 ] || fail "not the actions of $ranks ranks: $options"
}

begun=0
later() {
  (try "$@") &
  begun=$((begun + 1))
  [ $((begun % jobs)) -ne 0 ] || wait
}

# What is no fault is not passed over.
for wrong_fault in "kil:3" "kill:x" "stop:-1:1" "message:3:" "kill:5:99" "stop:5:2" "kill:5:-1"; do
  export RENGA_FAULT="$wrong_fault"
  case $wrong_fault in
  kil:*) why="a kind, a colon and a number: allocation, message, file, kill or stop, as in message:17" ;;
  *:5:*) why="there is no rank ${wrong_fault##*:}: give one of 0 to 1, or none for all of them" ;;
  *) why="behind ${wrong_fault%%:*}: a number, 0 to count, and a rank where only one is meant" ;;
  esac
  tellers=2 # each has its own environment
  refuses 2 "RENGA_FAULT=$wrong_fault: $why" train -graph $mlp -data synthetic -batch_size 4 -steps 1
  tellers=1
done
unset RENGA_FAULT

accepts 1 $train -steps $((steps + 1))
digest=$(digest)
# meanwhile COMMAND: done to a run of which rank 2 has stopped
meanwhile() {
  layout 6
  mkdir "$1" && cd "$1" || exit 1
  : >out
  {
    wait_for grep -q "RENGA_FAULT: rank 2 stops" out
    wait_for is_stopped
    "$@"
  } &
  RENGA_FAULT=stop:20:2 timeout -k 5 $limit "$mpiexec" -n $ranks "$renga" $train $lanes -steps $((steps + 1)) $options </dev/null >out 2>&1
  code=$?
  wait
  says "RENGA_FAULT: rank 2 stops"
}
wake() { kill -CONT $(running | cut -d' ' -f1); }
# The launcher's process that has started the ranks.
orphan() { kill -KILL $(sed 's/.*) [A-Za-z] \([0-9]*\) .*/\1/' "/proc/$(running | sed -n '1s/ .*//p')/stat"); }

# A rank that stops, and goes on before the time limit, changes nothing. Where the launcher's process on a node
# dies no rank of the node stays, and the launcher ends.
meanwhile wake
[ $code -eq 0 ] || fail "a rank that goes on: exit code $code"
says "$digest"
cd ..
meanwhile orphan
is_error $code || fail "a launcher that dies: exit code $code"
left=$(stayed)
[ -z "$left" ] || fail "a launcher that dies leaves $left"
cd ..

l=0
while layout $l; do
  case " ${RENGA_FAULT_LAYOUTS:-$l} " in
  *" $l "*)
    if [ -n "$lanes" ]; then # other bits
      rm -rf c
      accepts 1 $train $lanes -steps $((steps + 1))
      digest=$(digest)
      layout $l
    fi
    count_actions $l
    most=$tries
    [ "$most" -gt 0 ] && [ "$most" -le $total ] || most=$total
    t=0
    while [ $t -lt "$most" ]; do
      for kind in kill stop; do
        shift=$((l * 7919 + total / 3))
        [ $kind = kill ] || shift=$((l * 104729 + total / 2))
        [ "$most" -lt $total ] || shift=0
        place $(((t * total / most + shift) % total))
        later "l$l-$kind-$rank-$number" $kind $rank $number
      done
      t=$((t + 1))
    done
    ;;
  esac
  l=$((l + 1))
done
wait
cat l*/out | sed -n 's/^.*RENGA_FAULT: rank [0-9]* \([a-z ]* before [a-z-]*\).*/\1/p' | sort | uniq -c
for failed in l*/failed; do
  [ -f "$failed" ] || continue
  cat "$failed"
  failures=$((failures + 1))
done
echo "$failures of $(ls -d l*/ | wc -l) runs with a fault went wrong"
finish
