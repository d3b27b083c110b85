#!/bin/sh
# From C++: each public header by itself, and a program that is linked with the library and runs.
: "${MPICXX:?}"
command -v "$MPICXX" >/dev/null && [ -z "$SANITIZERS" ] && [ -e "$top_builddir/.libs/librenga.so" ] ||
  { echo "no C++ compiler for MPI, or no shared library"; exit 77; }
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
flags="-std=c++11 -Wall -Wextra -Wpedantic -Wshadow -Werror -DMPICH_SKIP_MPICXX -DOMPI_SKIP_MPICXX -I$top_srcdir/include"
status=0
for header in "$top_srcdir"/include/*.h "$top_srcdir/include/renga.hpp"; do
  echo "#include \"${header##*/}\"" >"$folder/alone.cpp"
  # shellcheck disable=SC2086
  "$MPICXX" $flags -fsyntax-only "$folder/alone.cpp" || { echo "${header##*/} alone is no C++"; status=1; }
done
# shellcheck disable=SC2086
"$MPICXX" $flags -o "$folder/train" "$top_srcdir/test/link/train.cpp" -L"$top_builddir/.libs" -lrenga \
  -Wl,-rpath,"$top_builddir/.libs" || exit 1
OMP_NUM_THREADS=1 timeout -k 5 "${RENGA_TEST_LIMIT:-150}" "$MPIEXEC" -n 2 "$folder/train" >"$folder/out" 2>&1 || { cat "$folder/out"; exit 1; }
grep -q '^3 steps' "$folder/out" || { cat "$folder/out"; exit 1; }

# The handles of renga.hpp on 1, 2 and 4 ranks, as by the functions of C.
# shellcheck disable=SC2086
"$MPICXX" $flags -o "$folder/handles" "$top_srcdir/test/link/handles.cpp" -L"$top_builddir/.libs" -lrenga \
  -Wl,-rpath,"$top_builddir/.libs" || exit 1
for ranks in 1 2 4; do
  OMP_NUM_THREADS=1 timeout -k 5 "${RENGA_TEST_LIMIT:-150}" "$MPIEXEC" -n $ranks "$folder/handles" "$folder/checkpoints$ranks" >"$folder/out$ranks" 2>&1 ||
    { cat "$folder/out$ranks"; status=1; }
  cmp -s "$folder/out1" "$folder/out$ranks" || { cat "$folder/out1" "$folder/out$ranks"; status=1; }
done
grep -q '^digest' "$folder/out1" || status=1
exit $status
