#!/bin/sh
# Failures in steps of replicas that share the optimizer, or gradients, too, with parameters on their way in buckets: all
# ranks get an error within seconds and nothing has changed, or the step is made all the same. All
# events: RENGA_FAULT_TRIES=0. RENGA_FAULT_PARTS="name,name": these parts.
. "${0%/*}/../app/common.sh"
IFS=,
for try in ${RENGA_FAULT_PARTS:-optimizer step,optimizer second step,optimizer digest,optimizer named,gradients pipeline,gradients step,gradients second step,parameters pipeline,parameters step,parameters second step}; do
  shard=${try%% *} part=${try#* }
  own env RENGA_FAULT_SHARD="$shard" RENGA_FAULT_TRIES="${RENGA_FAULT_TRIES:-12}" RENGA_FAULT_PART="$part" \
    timeout -k 5 $((2 * limit)) "$mpiexec" -n 2 "$top_builddir/test/faults/each" >out 2>&1 </dev/null
  code=$?
  [ $code -eq 0 ] && grep -q "^$part: [0-9]* times message failed" out || fail "$part: exit code $code"
done
# Each replica is a group, which adds up by itself; two groups of two.
for ranks in 2 4; do
  own env RENGA_FAULT_GROUPS=2 RENGA_FAULT_SHARD=gradients RENGA_FAULT_TRIES="${RENGA_FAULT_TRIES:-12}" RENGA_FAULT_PART=step \
    timeout -k 5 $((2 * limit)) "$mpiexec" -n $ranks "$top_builddir/test/faults/each" >out 2>&1 </dev/null
  code=$?
  [ $code -eq 0 ] && grep -q "^step: [0-9]* times message failed" out || fail "$ranks ranks in two groups: exit code $code"
done
# Two replicas of two tensor-parallel ranks each: exchanges of lanes, gathers and sums in turn.
for part in ${RENGA_FAULT_PARTS:-step,evaluate}; do
  own env RENGA_FAULT_TENSOR=1 RENGA_FAULT_SHARD=parameters RENGA_FAULT_TRIES="${RENGA_FAULT_TRIES:-12}" RENGA_FAULT_PART="$part" \
    timeout -k 5 $((2 * limit)) "$mpiexec" -n 4 "$top_builddir/test/faults/each" >out 2>&1 </dev/null
  code=$?
  [ $code -eq 0 ] && grep -q "^$part: [0-9]* times message failed" out || fail "tensor-parallel ranks, $part: exit code $code"
done
finish
