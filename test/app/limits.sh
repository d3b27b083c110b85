#!/bin/sh
# What goes together: the table of doc/limits.md is what the program runs and refuses, on cpu for half of the pairs of features in
# turn (with RENGA_TEST_FULL all), and on the emulated cuda device for each feature and a part of the pairs.
. "${0%/*}/common.sh"
[ -z "$SANITIZERS" ] || { echo "sanitizers would say nothing new of these networks"; exit 77; }
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
matrix="python3 $top_srcdir/test/app/limits/matrix.py"
half="--half $((${RENGA_TEST_SLOT:-0} / 8 % 2))"
[ -z "${RENGA_TEST_FULL:-}" ] || half=
# shellcheck disable=SC2086
$matrix "$top_srcdir" "$renga" $half >out 2>&1 || fail "the table of doc/limits.md is not what is refused"
[ -z "${CUDA_EMULATED:-}" ] || $matrix "$top_srcdir" "$renga" --cuda "$top_builddir/test/cuda/renga_cudaemu.so" --every 29 >out 2>&1 ||
  fail "the table of doc/limits.md is not what device cuda refuses"

# A table that says otherwise is found, in a cell and in its mirror.
mkdir -p wrong/doc
sed 's/^| 2 virtual stages | `-layout_chunks` |  |  |  |/| 2 virtual stages | `-layout_chunks` |  |  | no |/' "$top_srcdir/doc/limits.md" >wrong/doc/limits.md
cmp -s wrong/doc/limits.md "$top_srcdir/doc/limits.md" && fail "nothing is planted"
$matrix wrong "$renga" --first 2 >out 2>&1 && fail "a wrong table is taken"
says 'virtual stages, stages (1): "", but doc/limits.md has "no".'
finish
