#!/bin/sh
# TEST ranks: 2
# analyze.sh [ROOM...]: clang's analyser finds nothing in the library and the program: no null pointer followed, no value
# read that was never written, no store that is never read, no division by zero. In the rooms named, "." being all, to the
# analyser's own depth; without a name so in one eighth of all files, that of RENGA_TEST_SLOT, and to a quarter of it, for a
# third of the time, in the 60 that changed last during the last day of commits.
. "${0%/*}/common.sh"
command -v clang >/dev/null || { echo "no clang here"; exit 77; }
cd "$top_builddir"
flags=$(make -s compile-flags | tail -n 1)
[ -n "$flags" ] || { echo "make compile-flags says nothing"; exit 1; }
export flags depth
depth=225000 # nodes of its graph of states, at most, that the analyser makes for a function
# A file is done where the compiler says nothing; what it says is kept. folders.c, one line, has
# flags of its own.
analyze='
  said=$(clang $flags -w --analyze -Xclang -analyzer-config -Xclang max-nodes=$depth --analyzer-output text -c -o /dev/null "$1" 2>&1) || echo "$1: $?"
  [ -z "$said" ] || printf "%s\n" "$said"'
echo 'int planted(void) { int *p = 0; return *p; }' >"$scratch/planted.c"
sh -c "$analyze" analyze "$scratch/planted.c" | grep -q "ereference of null" ||
  { echo "the analyser does not find a null pointer that is followed"; exit 1; }

changed() {
  git -C "$source" rev-parse --git-dir >/dev/null 2>&1 || return 0
  last=$(git -C "$source" log -1 --format=%ct)
  git -C "$source" log --since=$((last - 86400)) --format= --name-only -- 'src/*.c' | awk '!seen[$0]++' |
    while read -r name; do [ ! -f "$source/$name" ] || echo "$name"; done | head -n 60 | LC_ALL=C sort
}
look() { # LIST
  echo "$(wc -l <"$1") files to a depth of $depth"
  sed "s|^|$source/|" "$1" | xargs -P "$jobs" -n 1 sh -c "$analyze" analyze >>"$scratch/said"
}
cd "$source"
if [ $# -gt 0 ]; then
  for room; do find "src/$room" -name '*.c'; done | grep -v folders.c | LC_ALL=C sort -u >"$scratch/deep"
  : >"$scratch/changed"
else
  find src -name '*.c' | grep -v folders.c | LC_ALL=C sort | awk -v slot="${RENGA_TEST_SLOT:-0}" 'NR % 8 == slot % 8' >"$scratch/deep"
  changed | grep -v folders.c | LC_ALL=C comm -23 - "$scratch/deep" >"$scratch/changed"
fi
cd "$top_builddir"
: >"$scratch/said"
look "$scratch/deep"
depth=60000
look "$scratch/changed"
[ ! -s "$scratch/said" ] || { cat "$scratch/said"; echo "the analyser finds something"; exit 1; }
