#!/bin/sh
# Failures in steps of replicas that share the optimizer, or gradients, too, with parameters on their way in buckets: all
# ranks get an error within seconds and nothing has changed, or the step is made all the same. All
# events: RENGA_FAULT_TRIES=0. RENGA_FAULT_PARTS="name,name": these parts.
status=0
IFS=,
for try in ${RENGA_FAULT_PARTS:-optimizer step,optimizer second step,optimizer digest,optimizer named,gradients pipeline,gradients step,gradients second step,parameters pipeline,parameters step,parameters second step}; do
  shard=${try%% *} part=${try#* }
  OMP_NUM_THREADS=1 RENGA_FAULT_SHARD=$shard RENGA_FAULT_TRIES=${RENGA_FAULT_TRIES:-12} RENGA_FAULT_PART=$part \
    timeout -k 5 240 "${MPIEXEC:-mpiexec}" -n 2 "$top_builddir/test/faults/each" >shard-faults.out 2>&1 </dev/null
  code=$?
  if [ $code -ne 0 ] || ! grep -q "^$part: [0-9]* times message failed" shard-faults.out; then
    echo "$part: exit code $code"
    tail -n 30 shard-faults.out
    status=1
  fi
done
rm -f shard-faults.out
exit $status
