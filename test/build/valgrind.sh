#!/bin/sh
# TEST ranks: 2
# A subset of the tests under valgrind: no invalid access, no use of what was never written.
. "${0%/*}/common.sh"
command -v valgrind >/dev/null || { echo "no valgrind here"; exit 77; }
cd "$top_builddir"
for test in test/sys/memory test/graph/setup test/comm/sumtree test/data/arrays tutorials/ex2; do
  [ -x "$test" ] || make -s "$test"
  OMP_NUM_THREADS=1 timeout 300 ./libtool --mode=execute valgrind -q --error-exitcode=9 "$test" >/dev/null
done
OMP_NUM_THREADS=1 timeout 300 mpiexec -n 2 ./libtool --mode=execute valgrind -q --error-exitcode=9 ./renga train \
  -graph gpt:layers=2,hidden=16,heads=2,sequence=8,vocabulary=32 -data synthetic -batch_size 4 -microbatch_size 2 \
  -steps 2 -layout_pipeline 2 -device_type cpu >/dev/null
