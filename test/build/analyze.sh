#!/bin/sh
# TEST ranks: 2
# analyze.sh [ROOM...]: clang's analyser finds nothing in the library and the program: no null pointer followed, no value
# read that was never written, no store that is never read, no division by zero. Deep in the rooms named, "." being all;
# without a name in the files that changed during the last day of commits and in one eighth of all, that of RENGA_TEST_SLOT.
. "${0%/*}/common.sh"
command -v clang >/dev/null || { echo "no clang here"; exit 77; }
cd "$top_builddir"
flags=$(make -s compile-flags | tail -n 1)
[ -n "$flags" ] || { echo "make compile-flags says nothing"; exit 1; }
export flags
# A file is done where the compiler says nothing; what it says is kept. folders.c, one line, has
# flags of its own.
analyze='
  said=$(clang $flags -w --analyze --analyzer-output text -c -o /dev/null "$1" 2>&1) || echo "$1: $?"
  [ -z "$said" ] || printf "%s\n" "$said"'
echo 'int planted(void) { int *p = 0; return *p; }' >"$scratch/planted.c"
sh -c "$analyze" analyze "$scratch/planted.c" | grep -q "ereference of null" ||
  { echo "the analyser does not find a null pointer that is followed"; exit 1; }

changed() {
  git -C "$source" rev-parse --git-dir >/dev/null 2>&1 || return 0
  last=$(git -C "$source" log -1 --format=%ct)
  git -C "$source" log --since=$((last - 86400)) --format= --name-only --diff-filter=d -- 'src/*.c' | LC_ALL=C sort -u
}
if [ $# -gt 0 ]; then
  for room; do (cd "$source" && find "src/$room" -name '*.c'); done
else
  changed
  (cd "$source" && find src -name '*.c') | LC_ALL=C sort | awk -v slot="${RENGA_TEST_SLOT:-0}" 'NR % 8 == slot % 8'
fi | grep -v folders.c | LC_ALL=C sort -u >"$scratch/files"
echo "$(wc -l <"$scratch/files") files"
sed "s|^|$source/|" "$scratch/files" | xargs -P "$jobs" -n 1 sh -c "$analyze" analyze >"$scratch/said"
[ ! -s "$scratch/said" ] || { cat "$scratch/said"; echo "the analyser finds something"; exit 1; }
