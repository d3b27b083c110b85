#!/bin/sh
# The emulated CUDA runtime: right programs in all modes and orders, then faults on purpose.
if [ -z "${CUDA_EMULATED:-}" ]; then
  echo "skipped: ${CUDA_MISSING:-configure found no CUDA}"
  exit 77
fi
top_builddir=$(cd "${top_builddir:-.}" && pwd)
folder=$top_builddir/test/cuda
failures=0
limit=${RENGA_TEST_LIMIT:-150}

passes() { # what, program and arguments; the environment says how
  "$@" >/dev/null || {
    echo "FAILED: $* with $(env | grep '^EMU_' | tr '\n' ' ')"
    failures=$((failures + 1))
  }
}

on_ranks() {
  EMU_TIMEOUT=100 timeout -k 5 $limit "${MPIEXEC:-mpiexec}" -n "$@" </dev/null
}

# finds FAULT WORDS SETTING...: the program ends with 86 and says WORDS.
finds() {
  fault=$1
  words=$2
  shift 2
  said=$(env "$@" timeout -k 5 $limit "$folder/faults" "$fault" 2>&1)
  code=$?
  if [ $code -ne 86 ]; then
    echo "NOT FOUND: $fault with $*: exit code $code"
    failures=$((failures + 1))
  elif ! printf '%s\n' "$said" | grep -q -F -e "$words"; then
    echo "NOT NAMED: $fault: $said"
    failures=$((failures + 1))
  fi
}

for EMU_MODE in sync async; do
  export EMU_MODE
  for EMU_ORDER in forward reverse random check; do
    export EMU_ORDER
    passes "$folder/kernels"
  done
  unset EMU_ORDER
  passes "$folder/products"
  EMU_CUDNN=9.19.0 passes "$folder/cudnn"
  passes "$folder/streams"
done
for EMU_SEED in 1 2 3 4 5 6 7 8; do
  export EMU_SEED
  passes "$folder/streams"
  [ "$EMU_SEED" -gt 2 ] || passes on_ranks 4 "$folder/messages"
done
unset EMU_SEED
EMU_MODE=sync
passes on_ranks 1 "$folder/messages"
passes on_ranks 2 "$folder/messages"
unset EMU_MODE

finds missing-barrier "depends on the order" EMU_ORDER=check
finds late-value "depends on the order" EMU_ORDER=check
finds atomic-sum "depends on the order" EMU_ORDER=check
finds race-of-blocks "depends on the order" EMU_ORDER=check
for EMU_MODE in sync async; do
  export EMU_MODE
  finds two-barriers "at different barriers"
  finds half-a-barrier "a block hangs"
  finds half-a-shuffle "a block hangs"
  finds foreign-lane "which is not in mask"
  finds out-of-bounds "the device touched"
  finds at-the-end "the device touched byte 256 of a block of 256 bytes"
  finds behind-the-end "JustBehind wrote byte 4 of a block of 4 bytes"
  finds dynamic-shared "dynamic shared memory"
  finds unset-shared "wrong"
  finds host-pointer "is no memory of the device"
  finds host-touch "the host touched byte 12 of a block of 256 bytes"
  finds use-after-free "is no memory of the device"
  finds host-after-free "which was freed"
  finds freed-behind-graph "was freed since it was captured"
  finds many-threads "refused"
  finds much-shared "refused"
  finds much-memory "refused"
  finds wrong-direction "refused"
  finds split-sums "sums may be split"
  finds nccl-host-pointer "is not 256 bytes of device memory"
  finds nccl-sizes "of 128 bytes, and rank 0"
  finds nccl-ungrouped "waits for more than" EMU_TIMEOUT=0.2
done
unset EMU_MODE
finds changed-source "the host changed the source" EMU_MODE=async
finds missing-wait "wrong" EMU_MODE=async
finds early-read "wrong" EMU_MODE=async
passes "$folder/faults" none
EMU_DEVICES=0 "$folder/kernels"
[ $? -eq 77 ] || { echo "FAILED: a device where there is none"; failures=$((failures + 1)); }
[ $failures -eq 0 ]
