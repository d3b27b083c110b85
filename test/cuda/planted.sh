#!/bin/sh
# Faults in the cuda device's own code, planted one by one in copies of its files: test/cuda/operators
# on the emulated runtime must find each of them.
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"
  exit 77
fi
top_builddir=$(cd "${top_builddir:-.}" && pwd)
top_srcdir=$(cd "${top_srcdir:-${srcdir:-.}}" && pwd)
device=$top_srcdir/src/device/cuda
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export OMP_NUM_THREADS=1
failures=0
count=0

build() { # what of it
  "${MAKE:-make}" -s -C "$top_builddir" "planted-$1" PLANTED="$scratch" PLANTED_FILE="$2" >"$scratch/out" 2>&1 || {
    echo "NOT BUILT: $fault"
    sed 's/^/    /' "$scratch/out"
    failures=$((failures + 1))
    return 1
  }
}

# change FILE SED: a copy of a file of the device with a fault.
change() {
  sed -e "$2" "$device/$1" >"$scratch/${1##*/}"
  cmp -s "$device/$1" "$scratch/${1##*/}" || return 0
  echo "NOT PLANTED: $fault: $1 has no such place any more"
  failures=$((failures + 1))
  return 1
}

# Runs the operators' test in the given settings, one after the other, until one fails.
is_found() {
  for settings in "$@"; do
    env $settings RENGA_OPTIONS="-device_type cuda -device_images channels_last -device_cuda_workspace 1 -device_cuda_module $module" \
      timeout -k 5 "${RENGA_TEST_LIMIT:-150}" "$program" </dev/null >"$scratch/out" 2>&1 || return 0
  done
  return 1
}

# finds WORDS SETTINGS...: in one of these settings the test fails, and says WORDS.
finds() {
  words=$1
  shift
  count=$((count + 1))
  if ! is_found "$@"; then
    echo "NOT FOUND: $fault"
    failures=$((failures + 1))
  elif ! grep -q -E -e "$words" "$scratch/out"; then
    echo "NOT NAMED: $fault"
    sed 's/^/    /' "$scratch/out"
    failures=$((failures + 1))
  fi
  rm -f "$scratch"/*.c "$scratch"/*.cu "$scratch"/*.h
}

# in_module FILE WORDS SETTINGS...: FILE of the module is compiled from its changed copy.
in_module() {
  file=$1
  shift
  [ -f "$scratch/$file.cu" ] || cp "$device/module/$file.cu" "$scratch"
  program=$top_builddir/test/cuda/operators module=$scratch/module.so
  build module "$file" && finds "$@"
}

# in_library FILE WORDS SETTINGS...: likewise for a file of the library.
in_library() {
  file=$1
  shift
  program=$scratch/operators module=$top_builddir/test/cuda/renga_cudaemu.so
  build program "$file" && finds "$@"
}

check="EMU_MODE=sync EMU_ORDER=check"
order="depends on the order|differs from ref"

fault="the last barrier before threads' sums of columns are read"
change module/norm.cu '/sums\[1\]\[threadIdx.y\]/{n;n;s/__syncthreads();//;}' && in_module norm "$order" "$check"
fault="the barrier between two sums of a block"
change module/kernel.h 's|__syncthreads(); /\* the numbers before were read \*/||' && in_module softmax "$order" "$check"
fault="the barrier before a tile is written over"
change module/attention.cu 's|__syncthreads(); /\* the tile before was read, the weights are written \*/||' &&
  in_module attention "$order" "$check"
fault="a barrier that a warp leaves out"
change module/kernel.h 's|__syncthreads(); /\* the numbers before were read|if (threadIdx.y > 0) &|' &&
  in_module softmax "at different barriers|a block hangs" "$check"
fault="two threads that add to one place"
change module/window.cu 's/adds = place\[t\] != own;/adds = true;/' && in_module window "$order" "$check"
fault="a warp beyond the last line"
change module/softmax.cu '/if (line >= s.outer \* s.inner) return;/d' &&
  in_module softmax "the device touched|wrote byte" "$check"
fault="a loss that is not set where the label is ignored"
change module/loss.cu '/losses\[row\] = 0;/d' && in_module loss "differs from ref" "$check"
fault="a gradient that is not cleared"
change module/index.cu 's/cudaMemsetAsync(out\[0\].data, 0, bytes, queue)/cudaSuccess/' &&
  in_module index "differs from ref" "$check"
fault="a tile of keys that is left out"
change module/attention.cu 's/key < end; key += TILE/key + TILE < end; key += TILE/' &&
  in_module attention "differs from ref" "$check"
fault="the last keys of 16-bit attention that are left out"
change module/tensorattention.cu 's/key < end; key += N/key + N < end; key += N/' &&
  in_module tensorattention "differs from ref" "$check"
fault="a tile of 16-bit attention that is written before all have read it"
change module/tensorattention.cu 's|__syncthreads(); /\* this tile is there, and the one before was read \*/||' &&
  in_module tensorattention "$order" "$check"
fault="a tile of 16-bit attention that is not waited for"
change module/tensorattention.cu 's/^    WaitForCopies();$//' && in_module tensorattention "differs from ref" "$check"
fault="16-bit attention that goes on behind the diagonal"
change module/tensorattention.cu 's/if (!SeesAll<false>(s, query, key, N)) HideUnseen/if (0) HideUnseen/' &&
  in_module tensorattention "differs from ref" "$check"

fault="the host looks at an input"
change shaped.c 's|^  if (s->checked >= 0)$|  if (in[0] \&\& *(const volatile char *)in[0] == 1) return RENGA_SUCCESS;\n&|' &&
  in_library shaped "the host touched" "$check"
fault="indices of the host"
change shaped.c 's/in\[s->checked\],/\&s->indices,/' && in_library shaped "is no memory of the device" "$check"
fault="CUDA's own stream instead of the kernel's"
change shaped.c 's/void \*queue = .*/void *queue = NULL;/' &&
  in_library shaped "differs from ref" EMU_SEED=1 EMU_SEED=2 EMU_SEED=3
fault="no wait for who uses the work memory on another stream"
change vector.c '/eventwait(cuda->parts_free, stream)/d' &&
  in_library vector "expected: fabs" EMU_SEED=1 EMU_SEED=2 EMU_SEED=3 EMU_SEED=4 \
    EMU_SEED=5 EMU_SEED=6 EMU_SEED=7 EMU_SEED=8 EMU_SEED=9 EMU_SEED=10 EMU_SEED=11 EMU_SEED=12
fault="work memory that is free before it was read"
change vector.c '/eventrecord(RengaCudaOf_Private(device)->parts_free, queue)/d
/RengaCall(NeedParts(device, queue, most));/a RENGA_CALL_CUDA(device, module_->eventrecord(RengaCudaOf_Private(device)->parts_free, queue));' &&
  in_library vector "expected: fabs" EMU_SEED=1 EMU_SEED=2 EMU_SEED=3 EMU_SEED=4 \
    EMU_SEED=5 EMU_SEED=6 EMU_SEED=7 EMU_SEED=8 EMU_SEED=9 EMU_SEED=10 EMU_SEED=11 EMU_SEED=12
fault="a label outside that nobody is told of"
change queue.c 's/if (!fault || !fault->found) return/if (fault) return/' && in_library queue "expected" EMU_MODE=sync

[ $count -eq 19 ] || { echo "FAILED: $count faults of 19 were tried"; failures=$((failures + 1)); }
[ $failures -eq 0 ]
