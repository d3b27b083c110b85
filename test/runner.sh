#!/bin/sh
# TEST ranks: 2
# What run.py is for, by tests that are planted: it finds one that fails, hangs, takes too long, leaves a process behind or has no
# row; a signal ends it and what it runs; it preloads yield.so of the build that has it; two that use one name of a file do not meet; each row that takes turns has one slot of eight.
. "${0%/*}/app/common.sh"
mkdir -p tree/test/sub build
cp "$top_srcdir/test/run.py" tree/test
test() { # NAME LINE...: a script
  name=tree/test/sub/$1.sh
  shift
  printf '%s\n' '#!/bin/sh' "$@" >"$name"
}
rows() { # LINE...: the budget; words are parted by tabs
  { printf 'limit calibration 1\nlimit slack 0.5\nlimit check 100\nlimit commit 100\n' && printf '%s\n' "$@"; } | tr ' ' '\t' >tree/test/budget.tsv
}
run() { # ARGUMENT...: what run.py prints is in the file out
  (cd build && python3 ../tree/test/run.py "$@") >out 2>&1
}
passes() { run "$@" || fail "run.py $*"; }
fails() { ! run "$@" || fail "run.py $* ends well"; }

test first '[ ! -e fixed-name ] || exit 3' ': >fixed-name' 'sleep 0.5' 'echo "$srcdir $top_builddir $PWD $TMPDIR"'
cp tree/test/sub/first.sh tree/test/sub/second.sh
test bad 'echo "a word of its own"' 'exit 5'
test skipped 'exit 77'
test hangs 'sleep 300'
sed -i '1a # TEST timeout: 1' tree/test/sub/hangs.sh
test leaves 'sleep 300 &' 'exit 0'
test busy 'i=0' 'while [ $i -lt 1800000 ]; do i=$((i + 1)); done'
rows "test/sub/first.sh plain check 0.1" "test/sub/second.sh plain check 0.1" "test/sub/bad.sh plain check 0.1" \
  "test/sub/skipped.sh plain check 0.1" "test/sub/hangs.sh plain check 0.1" "test/sub/leaves.sh plain check 0.1" "test/sub/busy.sh plain check 0.01"
passes test/sub/first.sh test/sub/second.sh test/sub/skipped.sh
says "2 passed, 0 failed, 1 skipped"
fails test/sub/bad.sh
says "a word of its own"
says "exit code 5"
fails test/sub/hangs.sh
says "did not end within 1 s"
fails test/sub/leaves.sh
says "left processes ["
all="test/sub/first.sh test/sub/second.sh test/sub/bad.sh test/sub/skipped.sh test/sub/hangs.sh test/sub/leaves.sh test/sub/busy.sh"
fails --when check $all
says "3 passed, 3 failed, 1 skipped"
says "its row in test/budget.tsv says 0.01"
fails --when check $all test/sub/none.sh
says "no row in test/budget.tsv: test/sub/none.sh"
fails --when check test/sub/first.sh
says "test/budget.tsv has rows of no test: "
fails test/sub/none.sh
says "No such file or directory"

# A signal ends it, its tests and what they have begun in sessions and groups of their own, and leaves no folder.
test long 'setsid sleep 300 & one=$!' 'timeout 300 sleep 300 &' 'echo $$ $! $one >"$top_builddir/started"' 'trap "" TERM INT' 'sleep 300'
for signal in TERM INT; do
  mkdir -p kept
  rm -f build/started
  (cd build && TMPDIR=$scratch/kept exec python3 ../tree/test/run.py test/sub/long.sh) >out 2>&1 &
  runner=$!
  wait_for grep . build/started
  kill -$signal $runner
  wait $runner
  is_error $? || fail "run.py ends well after SIG$signal"
  says "ended by signal "
  ended() { ! kill -0 "$1" 2>/dev/null; } # its new parent is told of it a little later
  for pid in $(cat build/started); do
    wait_for ended "$pid" || fail "process $pid lives on after SIG$signal"
  done
  rmdir kept || fail "a folder is left after SIG$signal"
done

# The shim of the one build that is named.
test preloads 'case ${LD_PRELOAD:-} in */other/test/yield.so) ;; *) exit 3 ;; esac'
mkdir -p other/test
cp "$top_builddir/test/yield.so" other/test
rows "test/sub/preloads.sh sanitized commit 0.1"
passes --tree sanitized=../other test/sub/preloads.sh
says "1 passed, 0 failed"

# Ten that take turns: of eight slots each runs some, and none twice; a program that a commit runs sanitized is one of them.
turns=
set --
for i in 0 1 2 3 4 5 6 7 8 9; do
  test turn$i 'exit 0'
  turns="$turns test/sub/turn$i.sh"
  set -- "$@" "test/sub/turn$i.sh plain turn 1"
done
rows "test/sub/first.sh plain check 0.1" "test/sub/first.sh sanitized commit 0.1" "$@"
: >ran
for slot in 0 1 2 3 4 5 6 7; do
  passes --when commit --slot $slot test/sub/first.sh $turns
  grep -o '^PASS  [^ ]*' out >>ran || fail "nothing in slot $slot"
done
[ "$(sort -u ran | wc -l)" -eq 11 ] && [ "$(wc -l <ran)" -eq 11 ] || fail "$(wc -l <ran) runs of 11 tests"
passes --sums
says "commit 0: "
rows "test/sub/first.sh plain check 101"
fails --sums
rows "test/sub/first.sh plain often 1"
fails --sums
says "test/budget.tsv:5: expected: test, "
finish
