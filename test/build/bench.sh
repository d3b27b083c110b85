#!/bin/sh
# TEST ranks: 2
# The programs of test/bench compile and link.
. "${0%/*}/common.sh"
cd "$top_builddir"
make -s -j"$jobs" bench-programs
