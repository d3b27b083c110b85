#!/bin/sh
# -checkpoint_memory: ranks are killed, and a node's memory is lost; the run goes on from the step before the crash, on other layouts
# and ranks, and ends with the parameters of one that nothing happened to. What is damaged gives way to its copy, or to an older one;
# nothing stays at a clean end. RENGA_NODES has nodes pretended; their memory is told apart by the ranks that wrote it.
. "${0%/*}/common.sh"
train="train -graph $mlp -data synthetic -batch_size 8 -microbatch_size 1 -partition_leaf 1 -progress none"
digested="$train -parameter_digest -steps 40"
keeping="-checkpoint_dir c -checkpoint_every 1000 -checkpoint_memory 1 -checkpoint_memory_dir $PWD/shm -monitor csv:steps.csv"
mkdir shm
accepts 1 $digested
digest=$(digest)

# crashes FAULT OPTIONS...: four ranks on two nodes, of which one is killed; the newest step that was made: $made
crashes() {
  rm -rf c steps.csv
  fault=$1
  shift
  latest="RENGA_FAULT=$fault renga $digested $keeping $*"
  RENGA_FAULT=$fault RENGA_NODES=2 timeout -k 5 $limit "$mpiexec" -n 4 "$renga" $digested $keeping "$@" </dev/null >out 2>&1 &&
    fail "exit code 0: $latest"
  made=$(sed -n '$s/,.*//p' steps.csv)
  [ "${made:-0}" -gt 2 ] || fail "not three steps: $latest"
}
# resumes LOST RANKS OPTIONS...: goes on with all but the last LOST steps that were made
resumes() {
  lost=$1
  ranks=$2
  shift 2
  accepts $ranks $digested $keeping -resume "$@"
  from=$(sed -n 's/^the nodes have the checkpoint of step \([0-9]*\) in memory: it is now c\/step_.*/\1/p' out)
  [ "${from:-0}" -ge $((made - lost)) ] || fail "goes on from ${from:-nothing} after $made steps: $latest"
  says "$digest" "goes on after step $from"
  [ -z "$(ls shm)" ] || fail "memory stays: $(ls shm)"
  [ ! -e c/.renga_memory ] || fail "the token of the memory stays"
}
# Four ranks have two stages of two replicas, shares of all, and learners apart; a node is lost, which had ranks 0 and 1 or 2 and 3.
crashes kill:500:1 -layout_pipeline 2
rm -f shm/*/*_by_[23].*
resumes 1 2 -layout_pipeline 2
lacks "is not whole"
crashes kill:500:2 -layout_pipeline 1 -layout_data 4 -layout_zero 3
rm -f shm/*/*_by_[01].*
RENGA_NODES=3
export RENGA_NODES
resumes 1 3 -layout_pipeline 3
unset RENGA_NODES
# Processes alone are killed, where there is one node.
crashes kill:500:3 -layout_pipeline 4
resumes 1 4 -layout_pipeline 4
says "-checkpoint_memory: all ranks are on one node, so that it protects from the end of processes, not from that of the node"

# A fragment that is damaged: its copy is taken, and where there is none the checkpoint before.
spoil() { for file; do printf spoilt | dd of="$file" bs=1 seek=4100 conv=notrunc 2>dd; done; }
crashes kill:500:1 -layout_pipeline 2
spoil shm/*/fragment_1_by_1.*
resumes 1 1
crashes kill:500:1 -layout_pipeline 2
newest=$(ls -t shm/*/fragment_1_by_1.* | head -n 1)
spoil shm/*/fragment_1_by_?."${newest##*.}"
resumes 2 2
says "in the memory of the nodes is damaged; an older one is used"

# Ranks of both nodes are lost: the newest file is what is left, or nothing.
crashes kill:500:1 -layout_pipeline 2 -checkpoint_every 3
rm -f shm/*/*_by_[13].*
accepts 2 $digested $keeping -resume
says "the checkpoint of step" "in the memory of the nodes is not whole: the fragments of 2 of 4 ranks are lost; an older one is used" \
  "goes on after step $((made / 3 * 3))" "$digest"
crashes kill:500:1 -layout_pipeline 2
rm -rf shm/*
accepts 2 $digested $keeping -resume
says "the memory of the nodes holds no checkpoint: the newest file of c is used" "no checkpoint yet: training begins at step 0" "$digest"
# A file that is newer, and a folder of checkpoints that was made anew: what the memory has is not used.
crashes kill:500:1 -layout_pipeline 2
rm -rf c
accepts 2 $digested $keeping -resume
says "no checkpoint yet: training begins at step 0" "$digest"
[ -z "$(ls shm)" ] || fail "memory stays: $(ls shm)"

# Nobody looks for what the memory has.
crashes kill:500:1 -layout_pipeline 2
accepts 2 $digested -checkpoint_dir c -checkpoint_every 1000 -resume
says "c/.renga_memory: a run that kept checkpoints in the memory of nodes has not come to its end, and they may be newer than the files"
rm -rf shm/*

# The first rank's clock is behind that of the one before: what is newer is told by what was found.
crashes kill:500:1 -layout_pipeline 2
RENGA_FAULT=kill:130:1 RENGA_NODES=2 LD_PRELOAD="$top_builddir/test/oddnode.so${LD_PRELOAD:+:$LD_PRELOAD}" RENGA_TEST_CLOCK=-1000 \
  timeout -k 5 $limit "$mpiexec" -n 4 "$renga" $digested $keeping -layout_pipeline 2 -resume </dev/null >out 2>&1 &&
  fail "exit code 0: $latest"
made=$(sed -n '$s/,.*//p' steps.csv)
resumes 1 2 -layout_pipeline 2

# renga run, whose ranks are killed in three starts.
if "$mpiexec" --version 2>/dev/null | grep -q HYDRA; then
  rm -rf c
  latest="renga run"
  RENGA_NODES=2 timeout -k 5 $limit "$renga" run -n 4 -starts 9 -- \
    sh -c '[ $RENGA_RUN_START -gt 3 ] || export RENGA_FAULT=kill:$((100 + 40 * RENGA_RUN_START)):$RENGA_RUN_START; exec "$@"' sh \
    "$renga" $digested $keeping -layout_pipeline 2 -checkpoint_keep 2 </dev/null >out 2>&1 || fail "exit code $?: $latest"
  says "$digest" "renga run: the run is complete after 4 starts"
  [ "$(grep -c "^the nodes have the checkpoint of step" out)" -eq 3 ] || fail "not three checkpoints in memory"
  [ "$(ls c | wc -l)" -eq 2 ] || fail "not two files: $(ls c)"
fi

# Not each step; beside files that are written meanwhile.
crashes kill:500:0 -layout_pipeline 2 -checkpoint_memory 4 -checkpoint_async -checkpoint_every 6
accepts 4 $digested $keeping -resume
from=$(sed -n 's/^goes on after step //p' out)
[ "${from:-0}" -ge $((made - 4)) ] || fail "goes on from ${from:-nothing} after $made steps: $latest"
says "$digest"

# What is refused, and what is said of the memory that it takes.
rm -rf c steps.csv
refuses 2 "-checkpoint_memory needs -checkpoint_dir: where are the checkpoints?" $train -steps 3 -checkpoint_memory 1
refuses 2 "-checkpoint_memory -1: must be from 0 to 1000000000" $train -steps 3 -checkpoint_dir c -checkpoint_memory -1
tellers=2
refuses 2 "cannot be made: No such file or directory; -checkpoint_memory_dir names a folder of each node's own memory" \
  $train -steps 3 -checkpoint_dir c -checkpoint_memory 1 -checkpoint_memory_dir nowhere
refuses 2 "to memory of the host, of which the plan takes" $train -steps 3 $keeping -partition_memory 100KB
tellers=1
lacks "holds no checkpoint"
[ -z "$(ls shm)" ] && [ ! -e c/.renga_memory ] || fail "memory stays after what is refused: $(ls shm)"
says "-checkpoint_memory copies" "that is more than -partition_memory 97.7 KiB"
accepts 2 $train -steps 3 -checkpoint_dir d -checkpoint_memory 1 -checkpoint_memory_dir shm -log_view
says "-checkpoint_memory takes up to" "checkpoints, in the node's memory" "Checkpoint memory"
accepts 1 plan -graph $gpt -machine_file v100 -machine_nodes 2 -batch_size 32 -microbatch_size 2 -checkpoint_memory 10
says "memory of the host beside it: -checkpoint_memory takes up to" "for a rank, with the copies of a neighbour node"
if unshare --mount true 2>unshare; then
  rm -rf c steps.csv
  mkdir small
  latest="renga train with little memory"
  unshare --mount sh -c 'mount -t tmpfs -o size=1m tmpfs small && exec "$@"' sh timeout -k 5 $limit "$mpiexec" -n 2 "$renga" \
    $train -steps 3 $keeping -checkpoint_memory_dir small </dev/null >out 2>&1 && fail "exit code 0: $latest"
  says "-checkpoint_memory needs" "which has room for 1.00 MiB: free some there, use more nodes"
  [ "$(grep -c "which has room for" out)" -eq 1 ] || fail "said more than once"

  # A run that goes on, whose folder has the same path: that of another container.
  rm -rf c steps.csv
  mkdir -p c one other
  unshare --mount sh -c 'mount --bind one c && exec "$@"' sh timeout -k 5 $limit "$mpiexec" -n 2 "$renga" \
    $train -steps 100000 $keeping </dev/null >one.out 2>&1 &
  wait_for sh -c 'ls shm/*/fragment_1_by_1.1'
  latest="renga train in another container"
  unshare --mount sh -c 'mount --bind other c && exec "$@"' sh timeout -k 5 $limit "$mpiexec" -n 2 "$renga" \
    $train -steps 3 $keeping -monitor csv:other.csv </dev/null >out 2>&1 && fail "exit code 0: $latest"
  says "is used by another run, whose folder of checkpoints has the same name"
  [ "$(ls shm/* | wc -l)" -eq 4 ] || fail "fragments of another run are gone: $(ls shm/*)"
  kill $!
  wait
fi
finish
