#!/bin/sh
# usage: installcheck.sh SOURCE LIBDIR BINDIR MANDIR: what is installed, and programs built against it: a tutorial
# through pkg-config alone, linked with the shared library and with the archive, an example of Fortran, and a project of CMake.
set -eu
source=$1
libdir=$2
bindir=$3
mandir=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PKG_CONFIG_PATH=$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
done_with() { echo "installcheck: $*"; }
run() { OMP_NUM_THREADS=1 timeout 100 "$MPIEXEC" -n 2 "$@"; }

"$bindir/renga" -version
# The pages of a function, a type, an error and a constant.
for page in RengaPipelineStep RengaTensorSpec RENGA_ERR_MEMORY RENGA_SCHEDULE_1F1B; do [ -s "$mandir/man3/$page.3" ]; done
# shellcheck disable=SC2046
$CC -std=c11 -o "$folder/tutorial" "$source/tutorials/ex4.c" $($PKG_CONFIG --cflags --libs renga) -Wl,-rpath,"$libdir" -lm
run "$folder/tutorial" -layout_pipeline 2
done_with "shared library"

# Copied to another place, the packages are those of that place.
mkdir -p "$folder/moved/lib/pkgconfig"
cp "$libdir"/pkgconfig/renga*.pc "$folder/moved/lib/pkgconfig"
[ "${libdir##*/}" != lib ] ||
  [ "$(PKG_CONFIG_PATH=$folder/moved/lib/pkgconfig $PKG_CONFIG --variable=libdir renga)" -ef "$folder/moved/lib" ] ||
  { echo "renga.pc does not find itself"; exit 1; }

# The archive alone: renga.pc names all that it needs, and the compiler need not be MPI's.
if [ -s "$libdir/librenga.a" ]; then
  mkdir "$folder/archive"
  cp "$libdir/librenga.a" "$folder/archive"
  # shellcheck disable=SC2046
  gcc -std=c11 -o "$folder/static" "$source/tutorials/ex4.c" \
    $($PKG_CONFIG --define-variable=libdir="$folder/archive" --static --cflags --libs renga)
  ! ldd "$folder/static" | grep librenga
  run "$folder/static" -layout_pipeline 2
  done_with archive
fi

# The module of Fortran, where the library has it.
if [ -s "$libdir/librenga_fortran.a" ]; then
  # shellcheck disable=SC2046
  $MPIFC -o "$folder/heat" "$source/examples/heat.f90" -J "$folder" $($PKG_CONFIG --cflags --libs renga-fortran) -Wl,-rpath,"$libdir"
  run "$folder/heat" -partition_type even
  done_with Fortran
fi

command -v cmake >/dev/null || exit 0
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }; }
mkdir "$folder/project"
cp "$source"/test/link/cmake/* "$folder/project"
sed -n '/^```c train\.c$/,/^```$/{/^```/!p;}' "$source/doc/linking.md" >"$folder/project/train.c"
quietly env -u CC cmake -S "$folder/project" -B "$folder/cmake" -DCMAKE_PREFIX_PATH="${libdir%/lib*}" \
  -DTRAIN="$(cd "$source" && pwd)/test/link/train.cpp"
quietly cmake --build "$folder/cmake"
for program in train train_pc; do run "$folder/cmake/$program"; done
done_with CMake
