#!/bin/sh
# Where MPI_Finalize hangs the program ends all the same: with its own exit code, its output written.
. "${0%/*}/../app/common.sh"
for wanted in 0 7; do
  timeout -k 5 $limit "$mpiexec" -n 2 "$top_builddir/test/sys/stuck" $wanted >out 2>&1 </dev/null
  code=$?
  [ $code -eq $wanted ] || fail "exit code $code, not $wanted"
  [ $wanted -eq 7 ] || [ "$(cat out)" = "all is writtenall is written" ] || fail "what was printed is lost"
done
finish
