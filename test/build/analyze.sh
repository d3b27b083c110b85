#!/bin/sh
# analyze.sh [ROOM...]: clang's analyser finds nothing in the rooms named, or in those where ranks
# meet: no null pointer followed, no value read that was never written, no store that is never read.
. "${0%/*}/common.sh"
command -v clang >/dev/null || { echo "no clang here"; exit 77; }
[ $# -gt 0 ] || set -- comm transport persistent pipeline checkpoint device/far settings optimizer
cd "$top_builddir"
command=$(make -s analyze-command)
export MPICH_CC=clang OMPI_CC=clang
found=0
for room; do
  for file in $(find "$source/src/$room" -name '*.c' | LC_ALL=C sort); do
    $command -w --analyze --analyzer-output text -c -o /dev/null "$file" >"$scratch/said" 2>&1 ||
      { cat "$scratch/said"; exit 1; }
    if grep -q 'warning: ' "$scratch/said"; then
      cat "$scratch/said"
      found=$((found + 1))
    fi
  done
done
[ $found -eq 0 ] || { echo "the analyser finds something in $found files"; exit 1; }
