#!/bin/sh
# A stalled run ends after -pipeline_timeout and names rank, stage, message, peer and micro-batch.
out=$(timeout -k 5 60 "${MPIEXEC:-mpiexec}" -n 2 "$top_builddir/test/pipeline/stall" -pipeline_timeout 2 2>&1 </dev/null)
code=$?
[ $code -ne 0 ] && [ $code -ne 124 ] || { echo "exit code $code: $out"; exit 1; }
printf '%s\n' "$out" | tr '\n' ' ' |
  grep -q 'rank 1 (stage 1, replica 0) waits for the activation .* from stage 0 (rank 0) for micro-batch 2 of step 0' ||
  { echo "nobody says what it waits for: $out"; exit 1; }
