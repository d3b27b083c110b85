#!/bin/sh
# NVIDIA's cuDNN, where it is: it takes all tasks that the cuda device would give it for GPT-2, BERT,
# ResNet-50, ViT and Llama, on cards whose properties stand in files. No GPU is needed.
. "${0%/*}/../app/common.sh"
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"
  exit 77
fi
here=${0%/*}
cuda=$(sed -n 's/^CUDA_DIR = //p' "$top_builddir/Makefile")
driver=$cuda/lib64/stubs/libcuda.so
if [ ! -e "$cuda/lib64/libcudnn.so.9" ] || [ ! -e "$driver" ]; then
  echo "skipped: no libcudnn.so.9, or no stub of CUDA's driver, in $cuda/lib64"
  exit 77
fi
ln -s "$driver" libcuda.so.1 # cuDNN wants some driver where it compiles kernels
cp "$here/h200.json" H200.json
sed 's/NVIDIA H200/NVIDIA H100 80GB HBM3/; s/"totalGlobalMem": [0-9]*/"totalGlobalMem": 85029158912/
  s/"memClockRateKHz": [0-9]*/"memClockRateKHz": 2619000/; s/"l2CacheSize": [0-9]*/"l2CacheSize": 52428800/' H200.json >H100.json
differ "$(cat H100.json)" "$(cat H200.json)" "the file of an H100 is that of an H200"
for card in H200 H100; do
  LD_LIBRARY_PATH=$PWD:$cuda/lib64 timeout -k 5 $limit "$top_builddir/test/cuda/accepted" $card.json >out 2>&1 || fail "cuDNN for $card"
  says "Llama 8B b1 s2048, its gradient, bf16: accepted"
done

# The module's own declarations are those of cuDNN's header.
if [ -e "$cuda/include/cudnn.h" ]; then
  {
    echo "#include <cudnn.h>"
    sed -n 's/^  \(CUDNN_[A-Za-z0-9_]*\) = \([0-9]*\),$/_Static_assert((int)\1 == \2, "\1");/p' "$here/../../src/device/cuda/module/cudnn.h"
  } >constants.c
  [ "$(grep -c Static_assert constants.c)" -gt 100 ] || fail "constants of src/device/cuda/module/cudnn.h are not found"
  ${CC:-cc} -std=c11 -I"$cuda/include" -fsyntax-only constants.c >out 2>&1 || fail "other constants than cuDNN's"
fi
finish
