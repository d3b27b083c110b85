#!/bin/sh
# What surrounds a run: a standard output that is full or closed, launchers that start several
# programs that do not know of each other, jobs that do not say their end.
. "${0%/*}/common.sh"
train="train -graph mlp:sizes=4-8-3 -data synthetic -batch_size 4"

"$renga" $train -steps 6 -checkpoint_dir full -checkpoint_every 3 >/dev/full 2>out </dev/null
code=$?
[ $code -eq 10 ] || fail "exit code $code on a full standard output"
says "warning: standard output cannot be written: No space left on device; what should stand there is lost"
says "the training is complete, but standard output lost some of what it had to say"
[ "$(grep -c "standard output" out)" -eq 2 ] || fail "the warning comes more than once"
[ -e full/step_000000006.h5 ] || fail "no last checkpoint"

# Nobody reads the pipe from before the first line on.
mkfifo pipe
: <pipe &
"$renga" $train -steps 6 -checkpoint_dir closed >pipe 2>out </dev/null
code=$?
[ $code -eq 10 ] || fail "exit code $code on a closed standard output"
says "warning: standard output cannot be written: Broken pipe"
[ -e closed/step_000000006.h5 ] || fail "no checkpoint"

# What only prints ends where it cannot.
"$renga" info -graph mlp:sizes=4-8-3 >/dev/full 2>out </dev/null
code=$?
[ $code -eq 10 ] || fail "exit code $code of renga info on a full standard output"
says "standard output cannot be written: No space left on device"

export SLURM_JOB_ID=7 SLURM_STEP_NUM_TASKS=2
"$renga" $train -steps 1 >out 2>&1 </dev/null && fail "a task of Slurm trains alone"
says "Slurm started 2 tasks (SLURM_STEP_NUM_TASKS), but to MPI this process is the only one" "srun --mpi=list" "set RENGA_ALONE=1"
RENGA_ALONE=1 "$renga" $train -steps 1 >out 2>&1 </dev/null || fail "exit code $? with RENGA_ALONE=1"
says "-time_limit auto: no end of a Slurm job is known (SLURM_JOB_END_TIME is not set), so there is no limit"
accepts 2 $train -steps 1 -time_limit 0
lacks warning

# More threads than cores, unless an option says how many.
cores=$(env -u OMP_NUM_THREADS nproc)
OMP_NUM_THREADS=$((cores + 1)) accepts 2 info -graph $mlp
says "warning: OMP_NUM_THREADS asks for $((2 * cores + 2)) threads on $cores cores of" "by 2 ranks: steps will be many times slower"
OMP_NUM_THREADS=$((cores + 1)) accepts 2 $train -steps 1 -time_limit 0 -device_threads 1
lacks warning
finish
