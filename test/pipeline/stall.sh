#!/bin/sh
# A stalled run ends after -timeout and names rank, stage, message, peer and micro-batch. Seconds fly once it stalls.
. "${0%/*}/../app/common.sh"
RENGA_TEST_FLY=stalls timeout -k 5 $limit "$mpiexec" -n 2 "$top_builddir/test/pipeline/stall" -timeout 100 >said 2>&1 </dev/null
code=$?
is_error $code || fail "exit code $code"
tr '\n' ' ' <said >out
grep -q 'rank 1 (stage 1, replica 0) waits for the activation .* from stage 0 (rank 0) for micro-batch 2 of step 0' out ||
  fail "nobody says what it waits for"
finish
