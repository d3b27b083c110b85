#!/bin/sh
# Transports of the cuda device on the emulated runtime: messages, sums and pipelines by the host (staged),
# by NCCL, by an MPI that takes the device's memory, and as chosen. EMU_SEEDS are orders of streams.
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"
  exit 77
fi
. "${0%/*}/../app/common.sh"
RENGA_TEST_CUDA=$top_builddir/test/cuda/renga_cudaemu.so
EMU_DEVICES=4
EMU_TIMEOUT=100
EMU_QUEUES=32 # as CUDA_DEVICE_MAX_CONNECTIONS
EMU_CONNECT=late
export EMU_QUEUES EMU_CONNECT RENGA_TEST_CUDA RENGA_TEST_TRANSPORTS EMU_DEVICES EMU_TIMEOUT EMU_SEED EMU_MODE EMU_OPEN

passes() { # ranks, program
  own timeout -k 5 $((2 * limit)) "$mpiexec" -n "$1" "$top_builddir/test/transport/$2" </dev/null >out 2>&1 ||
    fail "exit code $?: $2 on $1 ranks with $(env | grep -E '^(EMU_|RENGA_TEST_T)' | tr '\n' ' ')"
}

RENGA_TEST_TRANSPORTS="staged nccl"
EMU_MODE=async
for EMU_SEED in ${EMU_SEEDS:-1}; do
  passes 2 messages
  passes 3 messages
  passes 3 sums
  passes 2 pipelines
  passes 3 pipelines
  passes 4 pipelines
done
EMU_MODE=sync
passes 2 messages
RENGA_TEST_TRANSPORTS=nccl
passes 2 sums
passes 2 pipelines
# memory that MPI can read
EMU_MODE=async
EMU_OPEN=1
RENGA_TEST_TRANSPORTS=mpi_device
passes 2 messages
passes 3 sums
passes 2 pipelines
finish
