#!/bin/sh
# TEST ranks: 2
# The hot kernels of the cuda device as NVIDIA's compiler makes them for an H100: registers, spills, 64-bit divisions and
# instructions for each product of matrices stay within budgets.tsv, where nvcc is. Kernels with faults exceed it.
. "${0%/*}/common.sh"
nvcc=$(sed -n 's/^NVCC = //p' "$top_builddir/Makefile")
if [ -z "$nvcc" ] || ! command -v "$nvcc" >/dev/null || ! command -v python3 >/dev/null; then
  echo "no nvcc or no python3 here"
  exit 77
fi
flags=$(sed -n 's/^NVCCFLAGS = //p' "$source/src/device/cuda/local.mk")

# compile NAME FILE
compile() {
  "$nvcc" $flags -I"$source/include" -I"$source/src/device/cuda/module" -arch=sm_90 -cubin -Xptxas -v -o "$scratch/$1.cubin" "$2" >"$scratch/$1.log" 2>&1 || {
    cat "$scratch/$1.log"
    exit 1
  }
}

cat >"$scratch/planted.cu" <<'EOF'
#include "matrix.h"
/* A 64-bit division for each product of matrices, an array that no register holds. */
__global__ void DividingKernel(uint32_t *x, int64_t n, int64_t by)
{
  float sum[4] = {};
  for (int64_t i = 0; i < n; i++) Multiply<__half>(sum, x + i / by, x + i % by);
  x[0] = (uint32_t)sum[0];
}
__global__ void SpillingKernel(float *x, int n)
{
  float room[64];
  for (int i = 0; i < 64; i++) room[i] = x[i];
  for (int i = 0; i < n; i++) room[(int)x[i] & 63] += 1;
  for (int i = 0; i < 64; i++) x[i] = room[i];
}
EOF
files=
for name in tensorattention loss norm vector window batchnorm; do
  compile $name "$source/src/device/cuda/module/$name.cu" &
  files="$files $scratch/$name.cubin=$scratch/$name.log"
done
compile planted "$scratch/planted.cu"
wait
python3 "$here/budgets.py" "$here/budgets.tsv" $files || exit 1

# exceeds WORDS ROW: the kernels of planted.cu do not keep to this row.
exceeds() {
  echo "$2" | tr ' ' '\t' >"$scratch/table"
  python3 "$here/budgets.py" "$scratch/table" "$scratch/planted.cubin=$scratch/planted.log" >"$scratch/out" && { echo "not found: $1"; exit 1; }
  grep -q "$1" "$scratch/out" || { cat "$scratch/out"; exit 1; }
}
exceeds "divisions [1-9]" "DividingKernel 255 0 0 0 10000 10000"
exceeds "per mma [1-9]" "DividingKernel 255 0 0 100 10000 8"
exceeds "spills 256" "SpillingKernel 255 0 0 0 10000 0"
exceeds "registers [1-9]" "SpillingKernel 4 0 256 0 10000 0"
exceeds "no such kernel" "AbsentKernel 255 0 0 0 10000 0"
