#!/bin/sh
# TEST ranks: 8
# The whole tree, tests included, is built with clang.
. "${0%/*}/common.sh"
command -v clang >/dev/null || { echo "no clang here"; exit 77; }
configure_in clang MPICH_CC=clang OMPI_CC=clang --enable-werror --disable-static CFLAGS=-O0
make -s -j"$jobs"
make -s -j"$jobs" check-programs
