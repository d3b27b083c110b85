#!/bin/sh
# What goes wrong with GPUs and NCCL, on the emulated runtime: all ranks end within seconds, and each cause
# is said in one sentence by each rank at the most. Then transports as they are chosen, and runs that are
# interrupted and go on with another transport and layout.
. "${0%/*}/../app/common.sh"
tellers=2 # each rank has a device of its own
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"
  exit 77
fi
EMU_DEVICES=2
export EMU_DEVICES EMU_DRIVER EMU_FAIL EMU_MEMORY EMU_NAME EMU_NCCL EMU_OPEN
data="-data synthetic -data_samples 64 -batch_size 8 -microbatch_size 4"
train="train -graph $gpt $data -seed 3 -steps 4 -progress none -parameter_digest
  -device_type cuda -device_cuda_module $top_builddir/test/cuda/renga_cudaemu.so -comm_view ascii"
stages="-layout_pipeline 2"

# errors COUNT: the last run said so many.
errors() {
  times=$(grep -c "error: " out)
  [ "$times" -le "$1" ] || fail "says $times errors, not $1"
}

found="info -device -device_type cuda -device_cuda_module $top_builddir/test/cuda/renga_cudaemu.so"
EMU_DEVICES=0
refuses 2 "there is no driver" $train $stages
accepts 2 $found
says "device cuda: not here: no usable GPU: "
EMU_DEVICES=2
accepts 2 $found
says "device cuda: "
says "products of 8 bits (-precision fp8): yes"
lacks "not here"
(EMU_CAPABILITY=86 && export EMU_CAPABILITY && accepts 1 $found && says "products of 8 bits (-precision fp8): no, " && exit $failures) ||
  failures=$((failures + 1))
EMU_DRIVER=old
refuses 2 "the driver is for CUDA 11.8, older than CUDA" $train $stages
EMU_DRIVER=
EMU_MEMORY=1
refuses 2 "has no 33554432 bytes more, for products (-device_cuda_workspace): cudaMalloc: error 2" $train $stages
errors 2
EMU_MEMORY=33
refuses 2 " bytes more: cudaMalloc: error 2 of the emulated CUDA" $train $stages -graph gpt:layers=2,hidden=128,heads=2,sequence=16,vocabulary=256
errors 2
EMU_MEMORY=
EMU_DEVICES=1
refuses 2 "ranks 0 and 1 share device" $train $stages -transport_type nccl
errors 1
NCCL_HOSTID=one && export NCCL_HOSTID
refuses 2 "of NCCL_HOSTID one of node 0" $train $stages -transport_type nccl
unset NCCL_HOSTID
EMU_DEVICES=2
EMU_NCCL=none
refuses 2 "rank 0 has no NCCL" $train $stages -transport_type nccl
errors 1
accepts 2 $train $stages
says "Transport: staged"
says "rank 0 has no NCCL"
EMU_NCCL=
refuses 2 "this MPI does not read memory of the device" $train $stages -transport_type mpi_device
errors 1
for transport in nccl staged; do
  for at in 1 40; do
    EMU_FAIL=kernel:$at@1
    refuses 2 "GPU 1 failed and answers no more" $train $stages -transport_type $transport
    errors 2
  done
  EMU_FAIL=hang:40@1
  refuses 2 "nothing moved for 4 s" $train $stages -transport_type $transport -timeout 4
  errors 2
  grep -q "rank 1 of 2 on .*this rank's device does not end work of its own" out || fail "rank 1 does not say that it hangs: $transport"
  grep -q "rank 0 of 2 on .*this rank's device does not end" out && fail "rank 0 says that it hangs: $transport"
done
EMU_FAIL=hang:20@1 # while operators are measured, before there is a plan
refuses 2 "nothing moved for 4 s" $train -timeout 4
errors 2
EMU_FAIL=hang:1
own env RENGA_OPTIONS="-device_type cuda -device_cuda_module $top_builddir/test/cuda/renga_cudaemu.so" \
  timeout -k 5 $limit "$mpiexec" -n 1 "$top_builddir/test/cuda/waits" </dev/null >out 2>&1 || fail "test/cuda/waits"
says "all waits ended"
EMU_FAIL=
own env RENGA_OPTIONS="-device_type cuda -device_cuda_module $top_builddir/test/cuda/renga_cudaemu.so" \
  timeout -k 5 $limit "$mpiexec" -n 2 "$top_builddir/test/cuda/again" </dev/null >out 2>&1 || fail "test/cuda/again"
EMU_FAIL=nccl:1@1 # while routes are opened: rank 1 cannot tell rank 0 either
refuses 2 "a message by NCCL" $train $stages -transport_type nccl
errors 3
for replicas in "$stages" "-layout_pipeline 1 -layout_data 2"; do
  EMU_FAIL=key:1@0 # before rank 1 waits for it
  refuses 2 "CUDA failed on GPU 0: ncclGetUniqueId" $train $replicas -transport_type nccl
  errors 1
done
EMU_FAIL=nccl:9@1
refuses 2 "a message by NCCL" $train $stages -transport_type nccl
errors 2
EMU_FAIL=nccl:4@0
refuses 2 "a message by NCCL" $train -layout_pipeline 1 -layout_data 2 -transport_type nccl
errors 2
EMU_FAIL=

accepts 2 $train $stages
says "Transport: nccl"
says "each rank has a device of its own"
says "its library keeps about 32.0 MiB of rank 0's device, an estimate" # two lanes, a ring and a tree, 2 channels of 4 MiB each
NCCL_BUFFSIZE=1048576 && export NCCL_BUFFSIZE
accepts 2 $train -layout_pipeline 1 -layout_data 2 -log_view
says "its library keeps about 20.0 MiB of rank 0's device, an estimate" # one peer, 16 channels, and all ranks
grep -q "^NCCL's buffers (estimate) *20.0 MiB *-" out || fail "the log lacks NCCL's buffers"
unset NCCL_BUFFSIZE
# More streams than the hardware has queues: what waits in one stops what stands behind it.
export EMU_QUEUES=1 CUDA_DEVICE_MAX_CONNECTIONS=1
refuses 2 "nothing moved for 4 s" $train $stages -transport_type nccl -timeout 4
says "rank 0 would have 2 communicators, so 6 streams at work, and its device has 1 hardware queues for them"
accepts 2 $train $stages
says "Transport: staged"
says "not nccl: rank 0 would have 2 communicators"
unset EMU_QUEUES CUDA_DEVICE_MAX_CONNECTIONS
# Links are measured by the transport of the run, and the file of costs says which.
XDG_CACHE_HOME=$scratch/costs
export XDG_CACHE_HOME
for transport in nccl staged; do
  accepts 2 $train -graph $mlp -steps 1 -transport_type $transport
  grep -a -r -q "link within a node, 2 ranks on 1 nodes, by $transport: latency" "$XDG_CACHE_HOME" || fail "no link by $transport"
done
unset XDG_CACHE_HOME
EMU_DEVICES=1
accepts 2 $train $stages
says "Transport: staged"
says "ranks 0 and 1 share device"
EMU_OPEN=1
accepts 2 $train $stages
says "Transport: mpi_device"
EMU_OPEN=
EMU_DEVICES=4
cat >one.sh <<'EOF'
[ "${PMI_RANK:-0}" = 0 ] || EMU_NAME="another GPU"
export EMU_NAME
exec "$@"
EOF
timeout -k 5 $limit "$mpiexec" -n 2 sh one.sh "$renga" $train $stages </dev/null >out 2>&1 || fail "unequal GPUs"
says "the GPUs are not equal: rank 1 has another"

# interrupted, and resumed by another transport on another layout
keep="-checkpoint_dir kept -checkpoint_every 2"
accepts 1 $train -transport_type staged
digest=$(digest)
accepts 2 $train $stages -steps 2 $keep -transport_type nccl
accepts 3 $train -layout_pipeline 3 -resume $keep -transport_type nccl
equal "$(digest)" "$digest" "another digest after a resumption on 3 x 1"
rm -rf kept
accepts 2 $train -layout_pipeline 1 -layout_data 2 -steps 2 $keep -transport_type nccl
accepts 2 $train $stages -resume $keep -transport_type staged
equal "$(digest)" "$digest" "another digest after a resumption by staged"
rm -rf kept
accepts 2 $train $stages -steps 2 $keep -transport_type staged
export EMU_QUEUES=9 CUDA_DEVICE_MAX_CONNECTIONS=9 EMU_CONNECT=late # as many as 2 x 2 ranks need
accepts 4 $train $stages -layout_data 2 -resume $keep
says "Transport: nccl"
unset EMU_QUEUES CUDA_DEVICE_MAX_CONNECTIONS EMU_CONNECT
equal "$(digest)" "$digest" "another digest after a resumption on 2 x 2"
finish
