#!/bin/sh
# analyze.sh [ROOM...]: clang's analyser finds nothing in the library and the program, or in the
# rooms named: no null pointer followed, no value read that was never written, no store that is
# never read, no division by zero. Two files at a time.
. "${0%/*}/common.sh"
command -v clang >/dev/null || { echo "no clang here"; exit 77; }
[ $# -gt 0 ] || set -- .
cd "$top_builddir"
command=$(make -s analyze-command | tail -n 1)
export MPICH_CC=clang OMPI_CC=clang command
# A file is done where the compiler says nothing; what it says is kept. folders.c, one line, has
# flags of its own.
analyze='
  said=$($command -w --analyze --analyzer-output text -c -o /dev/null "$1" 2>&1) || echo "$1: $?"
  [ -z "$said" ] || printf "%s\n" "$said"'
echo 'int planted(void) { int *p = 0; return *p; }' >"$scratch/planted.c"
sh -c "$analyze" analyze "$scratch/planted.c" | grep -q "ereference of null" ||
  { echo "the analyser does not find a null pointer that is followed"; exit 1; }
for room; do
  find "$source/src/$room" -name '*.c' ! -name folders.c
done | LC_ALL=C sort | xargs -P 2 -n 1 sh -c "$analyze" analyze >"$scratch/said"
[ ! -s "$scratch/said" ] || { cat "$scratch/said"; echo "the analyser finds something"; exit 1; }
