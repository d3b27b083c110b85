#!/bin/sh
# A kill at any moment of a write, and a write that fails, leave the checkpoint before it or the new one
# whole. Wrong directories, other networks and all files damaged are errors on all ranks.
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
program=${top_builddir:-.}/test/checkpoint/faults
status=0

run() { # RANKS ARGUMENTS...: output to $folder/out, exit code to $code
  what="$*"
  ranks=$1
  shift
  timeout 60 "${MPIEXEC:-mpiexec}" -n "$ranks" "$program" "$@" >"$folder/out" 2>&1 </dev/null
  code=$?
}
complain() {
  echo "$what: $1"
  sed 's/^/    /' "$folder/out"
  status=1
}
says() { for text; do grep -qF -- "$text" "$folder/out" || complain "does not say: $text"; done; }
succeeds() { [ $code -eq 0 ] || complain "exit code $code"; }
fails() { { [ $code -ne 0 ] && [ $code -ne 124 ]; } || complain "exit code $code"; }

# Kills: rank, call, number of the call.
for kill in '0 pwrite 1' '0 pwrite 5' '1 pwrite 1' '1 pwrite 3' '0 fsync 1' '1 fsync 1' '0 fsync 2' \
  '0 rename 1' '0 renamed 1' '0 fsync 3'; do
  set -- $kill
  rm -rf "$folder/run"
  run 2 write "$folder/run" -stages 2 -step 1
  succeeds
  run 2 write "$folder/run" -stages 2 -step 2 -fault_rank "$1" -fault_call "$2" -fault_number "$3"
  fails
  expected='step 1'
  case "$kill" in '0 renamed 1' | '0 fsync 3') expected='step 2' ;; esac
  run 3 resume "$folder/run" -stages 3
  succeeds
  says "$expected"
  run 2 write "$folder/run" -stages 1 -step 2 # what the kill left is no hindrance
  succeeds
  run 1 resume "$folder/run"
  succeeds
  says 'step 2'
done

# A write that fails on one rank is an error on all, and leaves nothing but the old file.
for rank in 0 1; do
  rm -rf "$folder/run"
  run 3 write "$folder/run" -stages 3 -step 1
  run 3 write "$folder/run" -stages 3 -step 2 -fault_rank $rank -fault_call limit
  fails
  says 'File too large'
  run 3 resume "$folder/run" -stages 1
  says 'step 1'
  [ "$(ls "$folder/run")" = step_000000001.h5 ] || complain 'something is left'
done

# The same beside training, at chosen moments and at RENGA_TEST_KILLS random ones.
beside() { # RANKS STEP ARGUMENTS...
  n=$1 step=$2
  shift 2
  run "$n" write "$folder/run" -step "$step" -checkpoint_every 1000 -beside "$@"
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
kills >"$folder/kills"
while read -r rank call moment; do
  rm -rf "$folder/run"
  run 2 write "$folder/run" -stages 2 -step 1
  succeeds
  beside 2 1000 -stages 2 -fault_rank "$rank" -fault_call "$call" -fault_number "$moment"
  [ $code -ne 124 ] || complain 'hangs'
  [ $code -eq 0 ] && found='step 1000' || found='step 1'
  run 3 resume "$folder/run" -stages 3
  succeeds
  says "$found" # of step 1000 too where that has its name
  beside 2 2000 -stages 1 # what the kill left is no hindrance
  succeeds
  run 1 resume "$folder/run"
  succeeds
  says 'step 2000'
  [ -z "$(ls "$folder/run" | grep tmp)" ] || complain 'an unfinished file is left'
done <"$folder/kills"

# A limit on the size of files, which threads meet too: a warning on one rank, the old file.
for rank in 0 1; do
  rm -rf "$folder/run"
  run 3 write "$folder/run" -stages 3 -step 1
  beside 3 1000 -stages 3 -fault_rank $rank -fault_call limit
  fails
  says 'a checkpoint is not written' 'File too large' 'that of step 1 is kept, and training goes on'
  run 3 resume "$folder/run" -stages 1
  says 'step 1'
  [ "$(ls "$folder/run")" = step_000000001.h5 ] || complain 'something is left'
done

# Damage: the one before it is taken, with a warning; where all are damaged, an error.
rm -rf "$folder/run"
run 2 write "$folder/run" -step 1
run 2 write "$folder/run" -step 2
truncate -s -1 "$folder/run/step_000000002.h5"
run 3 resume "$folder/run" -stages 2
succeeds
says 'step 1' 'step_000000002.h5 is damaged: it is truncated' 'trying the one before it'
: >"$folder/run/step_000000001.h5"
run 3 resume "$folder/run" -stages 2
fails
says 'none of the 2 checkpoints in'

# Another network: the differences are named, once.
rm -rf "$folder/run"
run 2 write "$folder/run" -step 1
run 3 resume "$folder/run" -stages 3 -other
fails
says 'holds another network or optimizer, 3 differences' 'renamed float32[8] of the network is not' \
  'layer.1/weight of the file is not in the network' 'layer.4/weight:first_moment is float32['
[ "$(grep -c 'another network' "$folder/out")" -eq 1 ] || complain 'said more than once'

# A directory that cannot be one.
run 2 resume "$folder/run/step_000000001.h5"
fails
says 'cannot be written: Not a directory'

# Other programs read it.
if command -v h5dump >/dev/null; then
  rm -rf "$folder/run"
  run 2 write "$folder/run" -stages 2
  h5dump -H "$folder/run/step_000000001.h5" >"$folder/out" 2>&1 || complain 'h5dump fails'
  says 'DATASET "checksums"' 'GROUP "parameters"' 'GROUP "first_moment"' 'GROUP "states"' \
    'DATASET "a%2Fb%2Fc"' 'DATASET "layer.1%2Fweight"' 'ATTRIBUTE "step"' 'ATTRIBUTE "options"'
  h5dump "$folder/run/step_000000001.h5" >/dev/null 2>&1 || complain 'h5dump fails on the data'
fi
exit $status
