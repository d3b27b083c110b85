#!/bin/sh
# The module of Fortran: its interfaces, calls and errors, and the example, on 1, 2 and 4 ranks with the bits of a program in C. Skipped
# where configure found no compiler.
top=$(cd "$top_srcdir" && pwd)
build=$(cd "$top_builddir" && pwd)
archive=$build/src/binding/fortran/librenga_fortran.a
[ -e "$archive" ] && [ -e "$build/.libs/librenga.so" ] && [ -z "$SANITIZERS" ] ||
  { echo "no module of Fortran (configure found no gfortran for MPI), or no shared library"; exit 77; }
MPIFC=${MPIFC:-$(sed -n 's/^MPIFC = //p' "$build/Makefile")}
limit=${RENGA_TEST_LIMIT:-150}
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
status=0

# Each function of C that the module binds by hand is declared in a header, with as many arguments.
cat "$top"/include/*.h | sed 's|/\*.*\*/||' | tr -s ' \n' ' ' >"$folder/headers"
tr '\n' ' ' <"$top/src/binding/fortran/renga.f90.in" | sed 's/& *//g' |
  grep -oE '(function|subroutine) c_[a-z_]*\([a-z_, ]*\) *bind\(c, name="[A-Za-z]*"' |
  sed 's/.*(\(.*\)) *bind(c, name="\(.*\)"/\2 \1/' >"$folder/bound"
[ "$(wc -l <"$folder/bound")" -gt 15 ] || { echo "few interfaces are found"; status=1; }
while read -r name arguments; do
  declared=$(grep -oE "\b$name\([^;]*\);" "$folder/headers" | head -n 1)
  [ -n "$declared" ] || { echo "$name is in no header"; status=1; continue; }
  theirs=$(printf '%s' "$declared" | sed 's/(void)/()/' | awk -F, '{ print ($0 ~ /\(\)/) ? 0 : NF + 0 }')
  ours=$(printf '%s\n' "$arguments" | awk -F, '{ print NF + 0 }')
  [ "$ours" = "$theirs" ] || { echo "$name has $theirs arguments, the module gives $ours"; status=1; }
done <"$folder/bound"

compile() {
  # shellcheck disable=SC2086
  $MPIFC -std=f2008 -Wall -Wextra -Wno-function-elimination -Werror -fcheck=all -g $FCFLAGS -I"$build/src/binding/fortran" -J "$folder" -o "$folder/$1" "$2" \
    "$archive" -L"$build/.libs" -lrenga -Wl,-rpath,"$build/.libs" || exit 1
}
compile calls "$top/test/binding/calls.f90"
compile heat "$top/examples/heat.f90"
export OMP_NUM_THREADS=1
for ranks in 1 2 4; do
  mkdir "$folder/work$ranks"
  timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n $ranks "$folder/calls" "$folder/work$ranks" >"$folder/calls$ranks" 2>&1 ||
    { echo "calls on $ranks ranks:"; cat "$folder/calls$ranks"; status=1; }
  timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n $ranks "$folder/heat" -partition_type even >"$folder/heat$ranks" 2>&1 ||
    { echo "heat on $ranks ranks:"; cat "$folder/heat$ranks"; status=1; }
  for program in calls heat; do
    [ -s "$folder/${program}1" ] && cmp -s "$folder/${program}1" "$folder/$program$ranks" ||
      { echo "$program on $ranks ranks:"; cat "$folder/${program}1" "$folder/$program$ranks"; status=1; }
  done
done
# The same training by the functions of C.
# shellcheck disable=SC2086
${MPICC:-mpicc} -std=c11 -Wall -Wextra -Werror $CFLAGS -I"$top/include" -o "$folder/inc" "$top/test/binding/calls.c" -L"$build/.libs" -lrenga -lm \
  -Wl,-rpath,"$build/.libs" || exit 1
timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n 1 "$folder/inc" >"$folder/inc1" 2>&1 || { cat "$folder/inc1"; status=1; }
after=$(grep '^after three steps' "$folder/calls1") && grep -q -F -x "$after" "$folder/inc1" || { cat "$folder/calls1" "$folder/inc1"; status=1; }
grep -q '^digest' "$folder/calls1" && grep -q 'off by  *1[0-9]\.' "$folder/heat1" || { cat "$folder/heat1"; status=1; }

# Without ierror an error ends all ranks, with Renga's sentence.
cat >"$folder/wrong.f90" <<'F'
program wrong
  use renga
  use mpi_f08
  type(renga_comm) :: comm
  type(renga_graph) :: graph
  call renga_initialize()
  call renga_comm_create(MPI_COMM_WORLD, comm)
  call renga_graph_create(comm, graph)
  call renga_graph_load(graph, "mlp:sizes=4")
  print *, "goes on"
end program
F
compile wrong "$folder/wrong.f90"
timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n 2 "$folder/wrong" >"$folder/out" 2>&1 && { echo "an error was ignored"; status=1; }
grep -q 'two widths' "$folder/out" && ! grep -q 'goes on' "$folder/out" || { cat "$folder/out"; status=1; }
exit $status
