#!/bin/sh
# A rank that is stopped inside MPI_Comm_split, which cannot be waited for politely, is named.
RENGA_OPTIONS="-timeout 4" timeout -k 5 60 "${MPIEXEC:-mpiexec}" -n 2 "$top_builddir/test/sys/split" >split.out 2>&1 </dev/null
ended=$?
out=$(cat split.out)
rm -f split.out
[ $ended -ne 0 ] && [ $ended -ne 124 ] && [ $ended -ne 137 ] || { echo "exit code $ended: $out"; exit 1; }
case $out in
*"no sign of rank 1 (its process "*" is stopped)"*) ;;
*) echo "rank 1 is not named: $out"; exit 1 ;;
esac
