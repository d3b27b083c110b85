#!/bin/sh
# renga run: a training whose ranks are killed in a step, before it begins, while a checkpoint is written and while one is read, all
# at once, or stop, is started again and ends with the parameters of one that nothing happened to; who is to blame is named; asked
# to leave it ends with its own codes; where it comes no further, or an error is for good, it gives up; nothing stays behind.
# RENGA_HEALS=1: on another layout, too; test/bench/heal.py: many faults at any time.
. "${0%/*}/common.sh"
train="train -graph $mlp -data synthetic -batch_size 8 -microbatch_size 1 -partition_leaf 1 -progress none"
digested="$train -parameter_digest -steps 900"
keeping="-checkpoint_dir c -checkpoint_every 50"
"$mpiexec" --version 2>/dev/null | grep -q HYDRA || { echo "skipped: the launcher is not MPICH's"; exit 77; }

# run CODE ARGUMENT...: renga run ends with it, and nothing of it stays.
run() {
  wanted=$1
  shift
  latest="renga run $*"
  timeout -k 5 $limit "$renga" run "$@" </dev/null >out 2>&1
  code=$?
  [ $code -eq "$wanted" ] || fail "exit code $code, not $wanted: $latest"
  [ "$(echo renga_run.*)" = "renga_run.*" ] || fail "a file stays: $(echo renga_run.*)"
  ! grep -lsaz "^RENGA_RUN_SIGNS=$PWD/" /proc/[0-9]*/environ >stay || fail "processes stay: $(cat stay)"
}
# count TEXT: lines of the last run that have it
count() { grep -c -F -e "$1" out; }

accepts 1 $digested
digest=$(digest)

# In each start something else: rank 1 is killed in a step, then before it has joined; rank 0 while a checkpoint is written; all ranks
# in a step; rank 1 while a checkpoint is read; rank 1 stops, and rank 0 says so.
cat >faulty <<'FAULTY'
#!/bin/sh
# killed_once COMMAND...: this process, which becomes a rank, is killed once that succeeds, or a while later
killed_once() {
  (looks=0; until "$@" || [ $((looks += 1)) -gt 3000 ]; do :; done; kill -9 $$) 2>/dev/null &
}
writes() { set -- c/*.tmp; [ -e "$1" ]; }
has_met() { read -r line <"$RENGA_RUN_SIGNS"; }
case $RENGA_RUN_START:$PMI_RANK in
1:*) export RENGA_FAULT=kill:2000:1 ;;
2:1) kill -9 $$ ;;
3:0) killed_once writes ;;
4:*) export RENGA_FAULT=kill:2000 ;;
5:1) killed_once has_met ;;
6:*) export RENGA_FAULT=stop:1500:1; set -- "$@" -timeout 5 ;;
esac
exec "$@"
FAULTY
chmod +x faulty
for layout in ${RENGA_HEALS:+"-layout_pipeline 2"} "-layout_pipeline 1 -layout_data 2 -layout_zero 3"; do
  rm -rf c events
  run 0 -n 2 -starts 9 -events events -- ./faulty "$renga" $digested $keeping $layout
  says "$digest"
  says "renga run: the run is complete after 7 starts"
  [ "$(count "was ended by signal 9 (Killed)")" -ge 4 ] || fail "killed ranks are not named"
  says "renga run: start 1 ended after step" "no sign of rank 1 (stopped, busy or cut off)"
  [ "$(grep -c '"event":"failure"' events)" -eq 6 ] || fail "not six failures in events"
done
if command -v python3 >/dev/null; then
  python3 -c 'import json, sys
rows = [json.loads(line) for line in open("events")]
assert [row["start"] for row in rows if row["event"] == "start"] == list(range(1, 8)), rows
assert all("rank" in row and row["reason"] for row in rows if row["event"] == "failure"), rows
assert rows[-1]["event"] == "done", rows' >>out 2>&1 || fail "the events are no rows of JSON"
fi

# Nobody says anything: what stands still is found by renga run, which sees who is stopped.
rm -rf c
run 0 -n 2 -stall 4 -starts 9 -- sh -c '[ $RENGA_RUN_START != 1 ] || export RENGA_FAULT=stop:4000:1; exec "$@"' sh \
  "$renga" $digested $keeping -layout_pipeline 2
says "$digest" "(-stall); rank 1 (process" "is stopped"

# The launcher is killed, and the time limit is that of all starts.
rm -rf c
cat >mpiexec <<MPIEXEC
#!/bin/sh
has_checkpoint() { set -- c/*.h5; [ -e "\$1" ]; }
[ "\$RENGA_RUN_START" != 1 ] || (until has_checkpoint; do sleep 0.05; done; kill -9 \$\$) &
exec "$mpiexec" "\$@"
MPIEXEC
chmod +x mpiexec
run 75 -launcher ./mpiexec -n 2 -- "$renga" $train -steps 100000000 $keeping -time_limit 5
says "renga run: start 1 ended after step" "the launcher, ./mpiexec, was ended by signal 9 (Killed)"
says "renga run: the time limit is near: the run left with steps to go; the newest checkpoint is of step"

has_checkpoint() { set -- c/*.h5; [ -e "$1" ]; }
# asked CODE SIGNAL ARGUMENT...: renga run is sent a signal once it has a checkpoint
asked() {
  wanted=$1
  signal=$2
  shift 2
  rm -rf c
  latest="renga run $* and SIG$signal"
  timeout -k 5 $limit "$renga" run "$@" </dev/null >out 2>&1 &
  launcher=$!
  wait_for has_checkpoint
  kill -$signal $(cat "/proc/$launcher/task/$launcher/children")
  wait $launcher
  code=$?
  [ $code -eq "$wanted" ] || fail "exit code $code, not $wanted: $latest"
}
endless="$train -steps 100000000 $keeping"
for signal in TERM USR1; do
  asked 85 $signal -n 2 -- "$renga" $endless
  says "renga run: asked to leave: the run left with steps to go; the newest checkpoint is of step"
done
left=$(sed -n 's/.*asked to leave after step \([0-9]*\) .*/\1/p' out)
run 0 -n 2 -- "$renga" $train $keeping -steps $((left + 1))
says "goes on after step $left"
asked 85 CONT -n 2 -warning warning -- sh -c '(until ls c/*.h5; do sleep 0.1; done; : >warning) >ls 2>&1 & exec "$@"' sh \
  "$renga" $endless
says "renga run: the file warning says that this run has to go: it leaves with a checkpoint"
# It comes before there are ranks to ask.
: >warning
run 85 -n 2 -warning warning -- "$renga" $endless
says "renga run: asked to leave while nothing ran; no checkpoint is known"
rm -f warning
run 85 -n 2 -warning warning -- sh -c ': >warning; exec sleep 100'
says "renga run: asked to leave: no checkpoint is known; nothing is lost"
rm -f warning
# Killed itself, it takes the ranks with it, which write what they have.
asked 137 KILL -n 2 -- "$renga" $endless
no_ranks() { ! grep -lsaz "^RENGA_RUN_SIGNS=$PWD/" /proc/[0-9]*/environ; }
wait_for no_ranks
no_signs() { [ "$(echo renga_run.*)" = "renga_run.*" ]; }
wait_for no_signs

# Errors that are for good, and a program that comes no further; other programs than renga train.
rm -rf c
run 5 -n 2 -- "$renga" $train $keeping -stepps 3
says "renga run: start 1 ended: rank 0 said: command line: unknown option -stepps; did you mean -steps?"
says "renga run: another start would find the same error: none is made"
run 5 -n 2 -- "$renga" $train -steps 3
says "-resume needs -checkpoint_dir: where are the checkpoints?"
run 70 -n 2 -starts 2 -- sh -c 'exit 3'
says "renga run: start 2 ended: mpiexec" "ended with code 3" \
  "renga run: 2 starts in a row came to no new step (-starts): look at their reasons; no checkpoint is known"
mkdir c
echo "this is no checkpoint" >c/step_000000050.h5
run 9 -n 2 -- "$renga" $train $keeping -steps 60
says "none of the 1 checkpoints in c is whole" "renga run: another start would find the same error: none is made"
run 0 -n 2 -events /dev/full -- true
says "renga run: -events /dev/full takes no more rows: No space left on device: events are lost"
[ "$(count "takes no more rows")" -eq 1 ] || fail "said more than once"
run 0 -n 2 -- sh -c '[ $RENGA_RUN_START = 2 ]'
says "renga run: the run is complete after 2 starts"
run 85 -n 2 -- sh -c 'exit 85'

# A job of Slurm, whose programs are stood in for: hosts and ranks by srun, the end of the job by squeue; the warning before that end
# leads to a checkpoint, and the job is put into the queue again, but not where it made no new step.
mkdir slurm
cat >slurm/srun <<SRUN
#!/bin/sh
ranks=
while [ "\${1#-}" != "\$1" ]; do
  case \$1 in -n) ranks=\$2; shift 2 ;; --nodes | --nodelist) shift 2 ;; *) shift ;; esac
done
[ -n "\$ranks" ] || exec "\$@"
export SLURM_PROCID=0
exec "$mpiexec" -n "\$ranks" "\$@"
SRUN
printf '%s\n' '#!/bin/sh' 'echo "scontrol $*" >>said' 'case $* in "show hostnames"*) echo node1; echo node2 ;; esac' >slurm/scontrol
printf '%s\n' '#!/bin/sh' 'echo "squeue $*" >>said' \
  'case $* in *%T*) cat state 2>/dev/null || echo RUNNING None ;; *) echo 2040-01-02T03:04:05 ;; esac' >slurm/squeue
chmod +x slurm/*
path=$PATH
PATH=$PWD/slurm:$PATH
export SLURM_JOB_ID=7 SLURM_JOB_NODELIST="node[1-2]" PATH
unset SLURM_JOB_END_TIME
asked 85 USR1 -requeue -- "$renga" $endless
says "renga run: start 1: 2 ranks on 2 of 2 hosts" "renga run: job 7 is put into the queue again and goes on after step"
grep -qx "scontrol requeue 7" said || fail "the job is not put into the queue again"
grep -qx "squeue -h -j 7 -o %e" said || fail "squeue is not asked for the end of the job"
lacks "-time_limit auto"
rm said
# Whoever cancels a job does not want it back; at its limit it may come back.
echo COMPLETING None >state
asked 85 TERM -requeue -- "$renga" $endless
says "renga run: job 7 is not put into the queue again, since Slurm is asked to end it (scancel)"
! grep -q requeue said || fail "a cancelled job is put into the queue again"
echo COMPLETING TimeLimit >state
asked 85 TERM -requeue -- "$renga" $endless
says "renga run: job 7 is put into the queue again and goes on after step"
rm said state
run 5 -requeue -n 2 -- "$renga" $train $keeping -stepps 3
run 85 -requeue -n 2 -- sh -c 'exit 85'
says "renga run: job 7 is not put into the queue again, since it made no new step"
! grep -q requeue said || fail "a job without a step is put into the queue again"
unset SLURM_JOB_ID SLURM_JOB_NODELIST
PATH=$path
run 85 -requeue -n 2 -- sh -c 'exit 85'
says "renga run: -requeue: this is no Slurm job (SLURM_JOB_ID is not set): submit it again by hand"

# What is refused.
refused() { # MESSAGE ARGUMENT...
  message=$1
  shift
  timeout -k 5 $limit "$renga" "$@" </dev/null >out 2>&1
  code=$?
  latest="renga $*"
  is_error $code || fail "exit code $code: $latest"
  says "$message"
}
refused "renga run: which command? As in renga run -n 4 -- renga train" run -n 2
refused "renga run: how many ranks? -n N says it, or a file of -hosts" run -- true
refused "renga run -n x: write a whole number of 0 to 16777216" run -n x -- true
refused "renga run -n 1.5: write a whole number" run -n 1.5 -- true
refused "renga run has no option -host; did you mean -hosts?; options of the command come behind it" run -host a -- true
refused "renga run -n needs a value: -n RANKS" run -n
refused "-least 3: there are 2 ranks at the most" run -n 2 -least 3 -- true
refused "renga run: there is no program no-launcher: give -launcher the launcher of your MPI" run -n 2 -launcher no-launcher -- true
refused "-hosts none: No such file or directory" run -hosts none -- true
printf 'node1:2\nnode2 and more\n' >hosts
refused "-hosts hosts: line 2: \"node2 and more\" is no host: write NAME:RANKS, as in node1:4, a line each" run -hosts hosts -- true
echo "# nobody" >hosts
refused "-hosts hosts: the file names no host" run -hosts hosts -- true
echo node1:2 >hosts
refused "-n 4: the hosts take 2 ranks: give more hosts, or more ranks to each" run -hosts hosts -n 4 -- true
refused "renga run has options of its own: write run first" -timeout 9 run
latest="mpiexec renga run"
timeout -k 5 $limit "$mpiexec" -n 1 "$renga" run -n 2 -- true </dev/null >out 2>&1 && fail "exit code 0: $latest"
says "renga run starts the ranks itself, and here a launcher has started it (PMI_RANK is set): start it without mpiexec or srun"
"$renga" run -help >out || fail "renga run -help"
[ "$(awk 'length > 80' out | wc -l)" -eq 0 ] || fail "lines of renga run -help are longer than 80"
says "usage: renga run [options] -- COMMAND" "  -hosts  " "int, 1 to 1000000; default 3"
finish
