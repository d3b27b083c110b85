#!/bin/sh
# make distcheck without the tests, which `make check` runs: a build of the distribution apart from its sources, which
# cannot be written; installed, a tutorial built against it, uninstalled with nothing left; then again with DESTDIR.
. "${0%/*}/common.sh"
configure_in distribution
make -s -j"$jobs" distcheck TESTS= DISTCHECK_CONFIGURE_FLAGS="--disable-static CC='${CC:-mpicc}' CFLAGS=-O0"
