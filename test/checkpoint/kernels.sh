#!/bin/sh
# Checkpoints say what computed them. A run that goes on by other kernels says so once; so does one whose ranks have
# unequal libraries.
. "${0%/*}/../app/common.sh"
unset DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA
device="-device_type cpu -device_threads 1"
train="train -graph $mlp -data synthetic -batch_size 8 -microbatch_size 2 -seed 1 -progress none $device"
differ="bits may differ from here on"

# kernels ISA: what computes, as renga info -device has it, in $kernels; empty where the machine has no such set
kernels() {
  "$renga" info -device $device -device_isa "$1" </dev/null >out 2>&1
  kernels=$(sed -n 's/^  \(cpu, renga .*\), 1 threads, .*/\1/p' out)
}
# once TEXT: the last command said it, and one rank did
once() {
  says "$1"
  [ "$(grep -c -F -e "$1" out)" -eq 1 ] || fail "says \"$1\" several times: $latest"
}

kernels base
says ", base, oneDNN "
base=$kernels
kernels avx2
if [ -n "$kernels" ]; then
  keep="-checkpoint_dir c -checkpoint_every 1"
  accepts 1 $train -steps 1 $keep -device_isa avx2
  accepts 1 info -checkpoint c
  says "  kernels                      $kernels"
  accepts 2 $train -steps 2 $keep -device_isa avx2 -resume
  lacks "$differ"
  accepts 2 $train -steps 3 $keep -device_isa base -resume -checkpoint_async
  once "the checkpoint of step 2 was computed by avx2, this run computes by base: $differ"
  accepts 1 info -checkpoint c
  says "  kernels                      $base"
  accepts 1 $train -steps 1 -initial c/step_000000002.h5 -device_isa base # which promises no bits
  lacks "$differ"

  keep="-checkpoint_dir m -checkpoint_every 1000 -checkpoint_memory 1 -checkpoint_memory_dir $PWD"
  RENGA_FAULT=kill:100:0 "$renga" $train -steps 100 $keep -device_isa avx2 </dev/null >out 2>&1
  accepts 1 $train -steps 100 $keep -device_isa base -resume
  once "was computed by avx2, this run computes by base: $differ"
fi

# Ranks 1 and 2 hold oneDNN down.
kernels base
library=$(echo "$kernels" | sed 's/.*, \(oneDNN [^,]*\),.*/\1/')
low="${library% *} sse41"
[ "$library" != "$low" ] || finish
cat >unequal.sh <<'END'
[ "${PMI_RANK:-0}" = 0 ] || DNNL_MAX_CPU_ISA=SSE41 ONEDNN_MAX_CPU_ISA=SSE41
export DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA
exec "$@"
END
latest="renga with unequal libraries"
timeout -k 5 $limit "$mpiexec" -n 3 sh unequal.sh "$renga" $train -steps 1 -checkpoint_dir u -device_isa base </dev/null >out 2>&1 ||
  fail "exit code $?: $latest"
once "so the bits depend on the layout: rank 0 by $library, rank 1 by $low (2 of 3 ranks by others than rank 0)"
accepts 1 info -checkpoint u
says "  kernels                      $base; rank 1: ${base%%, oneDNN*}, $low, "
finish
