#!/bin/sh
# TEST ranks: 2
# Every file of the library, the program, tests, tutorials and examples goes through clang with every warning an error.
# Nothing is generated or linked: linked.sh does that.
. "${0%/*}/common.sh"
command -v clang >/dev/null || { echo "no clang here"; exit 77; }
cd "$top_builddir"
flags=$(make -s compile-flags | tail -n 1)
[ -n "$flags" ] || { echo "make compile-flags says nothing"; exit 1; }
cd "$source"
check() { # FILE...
  printf '%s\n' "$@" | (cd "$top_builddir" && sed "s|^|$source/|" | xargs -P "$jobs" -n 8 clang -fsyntax-only -Werror $flags)
}
echo 'int planted(int a) { int b; return a == b; }' >"$scratch/planted.c"
! (cd "$top_builddir" && clang -fsyntax-only -Werror $flags "$scratch/planted.c") 2>/dev/null || { echo "clang does not warn of a value that was never written"; exit 1; }
absent= # what is built with a package that is not here
pkg-config --exists simgrid 2>/dev/null || absent='test/simgrid/*'
check $(find src test tutorials examples -name '*.c' ! -path "$absent" ! -path src/machine/folders.c)
