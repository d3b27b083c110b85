#!/bin/sh
# TEST ranks: 2
# NVIDIA's compiler takes the kernels of the cuda device, where it is there.
. "${0%/*}/common.sh"
cd "$top_builddir"
make -s cuda-module >"$scratch/out" 2>&1 && exit 0
grep -q "no nvcc" "$scratch/out" && { echo "no nvcc here"; exit 77; }
cat "$scratch/out"
exit 1
