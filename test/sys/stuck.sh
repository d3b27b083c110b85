#!/bin/sh
# Where MPI_Finalize hangs the program ends all the same: with its own exit code, its output written.
for code in 0 7; do
  out=$(timeout -k 5 60 "${MPIEXEC:-mpiexec}" -n 2 "$top_builddir/test/sys/stuck" $code 2>&1 </dev/null)
  ended=$?
  [ $ended -eq $code ] || { echo "exit code $ended, not $code: $out"; exit 1; }
  [ $code -eq 7 ] || [ "$out" = "all is writtenall is written" ] || { echo "lost: $out"; exit 1; }
done
