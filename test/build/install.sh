#!/bin/sh
# make install, then programs built against what was installed: a tutorial through pkg-config alone, linked with the
# shared library and with the archive, and a project of CMake.
. "${0%/*}/common.sh"
configure_in install --prefix="$scratch/prefix" CFLAGS=-O0
make -s -j"$jobs"
make -s install
make -s installcheck
[ -s "$scratch/prefix/share/man/man3/RengaPipelineStep.3" ]
[ -s "$scratch/prefix/lib/librenga.a" ] && [ -s "$scratch/prefix/lib/librenga.so" ]

run() { OMP_NUM_THREADS=1 timeout 100 mpiexec -n 2 "$@"; }

# The archive alone: renga.pc names all that it needs, and the compiler need not be MPI's.
mkdir "$scratch/archive"
cp "$scratch/prefix/lib/librenga.a" "$scratch/archive"
export PKG_CONFIG_PATH="$scratch/prefix/lib/pkgconfig"
# shellcheck disable=SC2046
gcc -std=c11 -o "$scratch/static" "$source/tutorials/ex4.c" \
  $(pkg-config --define-variable=libdir="$scratch/archive" --static --cflags --libs renga)
! ldd "$scratch/static" | grep librenga
run "$scratch/static" -partition_stages 2

command -v cmake >/dev/null || { echo "no cmake here"; exit 0; }
env -u CC cmake -S "$source/test/link/cmake" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
  -DTRAIN="$source/test/link/train.cpp" >"$scratch/cmake.log" 2>&1 || { cat "$scratch/cmake.log"; exit 1; }
cmake --build "$scratch/cmake" >"$scratch/cmake.log" 2>&1 || { cat "$scratch/cmake.log"; exit 1; }
for program in train train_pc; do run "$scratch/cmake/$program"; done
