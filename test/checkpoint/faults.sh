#!/bin/sh
# A kill at any moment of a write, and a write that fails, leave the checkpoint before it or the new one
# whole. Wrong directories, other networks and all files damaged are errors on all ranks.
. "${0%/*}/../app/common.sh"
program=$top_builddir/test/checkpoint/faults

run() { # RANKS ARGUMENTS...: output to the file out, exit code to $code
  latest="$*"
  ranks=$1
  shift
  timeout -k 5 $limit "$mpiexec" -n "$ranks" "$program" "$@" >out 2>&1 </dev/null
  code=$?
}
complain() { fail "$1: $latest"; }
succeeds() { [ $code -eq 0 ] || complain "exit code $code"; }
fails() { is_error $code || complain "exit code $code"; }

# Kills: rank, call, number of the call.
for kill in '0 pwrite 1' '0 pwrite 5' '1 pwrite 1' '1 pwrite 3' '0 fsync 1' '1 fsync 1' '0 fsync 2' \
  '0 rename 1' '0 renamed 1' '0 fsync 3'; do
  set -- $kill
  rm -rf run
  run 2 write run -stages 2 -step 1
  succeeds
  run 2 write run -stages 2 -step 2 -fault_rank "$1" -fault_call "$2" -fault_number "$3"
  fails
  expected='step 1'
  case "$kill" in '0 renamed 1' | '0 fsync 3') expected='step 2' ;; esac
  run 3 resume run -stages 3
  succeeds
  says "$expected"
  run 2 write run -stages 1 -step 2 # what the kill left is no hindrance
  succeeds
  run 1 resume run
  succeeds
  says 'step 2'
done

# A write that fails on one rank is an error on all, and leaves nothing but the old file.
for rank in 0 1; do
  rm -rf run
  run 3 write run -stages 3 -step 1
  run 3 write run -stages 3 -step 2 -fault_rank $rank -fault_call limit
  fails
  says 'File too large'
  run 3 resume run -stages 1
  says 'step 1'
  [ "$(ls run)" = step_000000001.h5 ] || complain 'something is left'
done

# The same beside training, at chosen moments and at RENGA_TEST_KILLS random ones.
beside() { # RANKS STEP ARGUMENTS...
  n=$1 step=$2
  shift 2
  run "$n" write run -step "$step" -checkpoint_every 1000 -beside "$@"
}
number=1
random() { # LIMIT: $drawn is 0 ... LIMIT - 1
  number=$(((number * 1103515245 + 12345) % 2147483648))
  drawn=$((number / 65536 % $1))
}
choose() {
  random 2
  rank=$drawn
  random 4
  case $drawn in
  0 | 1) call=time most=60000 ;;
  2) call=pwrite most=24 ;;
  3) call=fsync most=3 ;;
  esac
  random $most
  moment=$((drawn + 1))
}
kills() {
  echo '0 pwrite 9
1 pwrite 4
1 fsync 1
0 rename 1
0 renamed 1'
  for i in $(seq "${RENGA_TEST_KILLS:-5}"); do
    choose
    echo "$rank $call $moment"
  done
}
kills >kills
while read -r rank call moment; do
  rm -rf run
  run 2 write run -stages 2 -step 1
  succeeds
  beside 2 1000 -stages 2 -fault_rank "$rank" -fault_call "$call" -fault_number "$moment"
  [ $code -ne 124 ] && [ $code -ne 137 ] || complain 'hangs'
  [ $code -eq 0 ] && found='step 1000' || found='step 1'
  run 3 resume run -stages 3
  succeeds
  says "$found" # of step 1000 too where that has its name
  beside 2 2000 -stages 1 # what the kill left is no hindrance
  succeeds
  run 1 resume run
  succeeds
  says 'step 2000'
  [ -z "$(ls run | grep tmp)" ] || complain 'an unfinished file is left'
done <kills

# A limit on the size of files, which threads meet too: a warning on one rank, the old file.
for rank in 0 1; do
  rm -rf run
  run 3 write run -stages 3 -step 1
  beside 3 1000 -stages 3 -fault_rank $rank -fault_call limit
  fails
  says 'a checkpoint is not written' 'File too large' 'that of step 1 is kept, and training goes on'
  run 3 resume run -stages 1
  says 'step 1'
  [ "$(ls run)" = step_000000001.h5 ] || complain 'something is left'
done

# Damage: the one before it is taken, with a warning; where all are damaged, an error.
rm -rf run
run 2 write run -step 1
run 2 write run -step 2
truncate -s -1 "run/step_000000002.h5"
run 3 resume run -stages 2
succeeds
says 'step 1' 'step_000000002.h5 is damaged: it is truncated' 'trying the one before it'
: >"run/step_000000001.h5"
run 3 resume run -stages 2
fails
says 'none of the 2 checkpoints in'

# Another network: the differences are named, once.
rm -rf run
run 2 write run -step 1
run 3 resume run -stages 3 -other
fails
says 'holds another network or optimizer, 3 differences' 'renamed float32[8] of the network is not' \
  'layer.1/weight of the file is not in the network' 'layer.4/weight:first_moment is float32['
[ "$(grep -c 'another network' out)" -eq 1 ] || complain 'said more than once'

# A directory that cannot be one.
run 2 resume "run/step_000000001.h5"
fails
says 'cannot be written: Not a directory'

# Other programs read it.
if command -v h5dump >/dev/null; then
  rm -rf run
  run 2 write run -stages 2
  h5dump -H "run/step_000000001.h5" >out 2>&1 || complain 'h5dump fails'
  says 'DATASET "checksums"' 'GROUP "parameters"' 'GROUP "first_moment"' 'GROUP "states"' \
    'DATASET "a%2Fb%2Fc"' 'DATASET "layer.1%2Fweight"' 'ATTRIBUTE "step"' 'ATTRIBUTE "options"'
  h5dump "run/step_000000001.h5" >/dev/null 2>&1 || complain 'h5dump fails on the data'
fi
finish
