#!/bin/sh
# The cuda device: refusals by name, then on the emulated runtime its operators and small runs, which
# have cpu's losses, and one and the same bits on any layout, in any mode and order of streams.
top_srcdir=$(cd "${0%/*}/../.." && pwd)
export top_srcdir
. "${0%/*}/../app/common.sh"
tellers=2 # each rank has a device of its own
module=$top_builddir/test/cuda/renga_cudaemu.so
train="train -graph $mlp -data synthetic -data_samples 64 -batch_size 8 -microbatch_size 4 -seed 3
  -steps 4 -progress none -parameter_digest -optimizer_type adamw -transport_type staged"
refuses 2 "this build has no CUDA" $train -device_type cuda -device_cuda_module nowhere.so
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "the rest is skipped: ${CUDA_MISSING:-configure found no CUDA}"
  finish
fi
on_cuda="-device_type cuda -device_cuda_module $module -device_cuda_workspace 1"
(EMU_DEVICES=0 && export EMU_DEVICES && refuses 2 "no usable GPU: cudaGetDeviceCount: there is no driver; use -device_type cpu" $train $on_cuda && exit $failures) ||
  failures=$((failures + 1))
refuses 1 "is for -device_type cuda, but the type is cpu" $train -device_type cpu -device_number 0
refuses 1 "this node has 1 GPUs" $train $on_cuda -device_number 3

near() {
  cut -d, -f2 cpu.csv >cpu.txt
  cut -d, -f2 cuda.csv | paste -d, cpu.txt - | awk -F, '
    NR > 1 { d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-5 * $1)) bad = 1 }
    END { exit bad || NR != 5 }' || { cat cpu.csv cuda.csv >out; fail "other losses than cpu's"; }
}
accepts 1 $train -device_type cpu -monitor csv:cpu.csv
accepts 1 $train $on_cuda -monitor csv:cuda.csv -device_view ascii
says "operators computed on the GPU"
says "operators computed on the host, from copies"
says "16-bit floats between conversions: products of factors of two types"
near
digest >one.txt
same() {
  accepts "$@"
  digest >other.txt
  equal_files one.txt other.txt "other parameters: $* with $(env | grep '^EMU_' | tr '\n' ' ')"
}
same 2 $train $on_cuda -layout_pipeline 2
same 2 $train $on_cuda -layout_pipeline 1 -layout_data 2
for EMU_SEED in 2 3 4; do
  export EMU_SEED
  same 2 $train $on_cuda -layout_pipeline 2
done
EMU_MODE=sync EMU_ORDER=check
export EMU_MODE EMU_ORDER
same 1 $train $on_cuda
same 2 $train $on_cuda -layout_pipeline 2
unset EMU_SEED EMU_MODE EMU_ORDER
(EMU_CUBLAS=14 && export EMU_CUBLAS && accepts 1 $train $on_cuda -precision bf16 -steps 1 && exit $failures) ||
  failures=$((failures + 1)) # numbers of families of algorithms are not looked at there
# Heads that share their keys have no copies of them: as many kernels as of heads with their own.
EMU_TRACE=1 && export EMU_TRACE
for groups in 4 2; do
  accepts 1 $train $on_cuda -device_graphs off -steps 1 -graph llama:layers=1,hidden=16,heads=4,groups=$groups,sequence=9,vocabulary=40
  says "queued: kernel"
  grep -c "^queued: kernel" out >groups$groups.txt
done
unset EMU_TRACE
equal_files groups4.txt groups2.txt "other kernels where heads share keys"
accepts 1 $train $on_cuda -log_view
grep -q "^Update  *4 " out || fail "the log has not the updates of 4 steps"
RENGA_OPTIONS="$on_cuda -device_images channels_last"
export RENGA_OPTIONS
for EMU_MODE in async sync; do
  export EMU_MODE
  own env EMU_ORDER=check EMU_LONGEST=GatherGradKernel:12 timeout -k 5 $limit "$mpiexec" -n 1 "$top_builddir/test/cuda/operators" </dev/null >out 2>&1 ||
    fail "test/cuda/operators with EMU_MODE=$EMU_MODE"
  for program in device/low device/fp8 device/lowkernels graph/singular; do
    own timeout -k 5 $limit "$mpiexec" -n 1 "$top_builddir/test/$program" </dev/null >out 2>&1 ||
      fail "test/$program with EMU_MODE=$EMU_MODE"
  done
done
# Without products of 8 bits they are those of bfloat16.
EMU_CAPABILITY=80 own timeout -k 5 $limit "$mpiexec" -n 1 "$top_builddir/test/device/fp8" </dev/null >out 2>&1 ||
  fail "test/device/fp8 on sm_80"
finish
