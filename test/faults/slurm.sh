#!/bin/sh
# TEST ranks: 2
# share/renga/cluster/renga.sbatch, as it is, under a Slurm of two nodes that are network namespaces: the job is warned before its
# limit, leaves with a checkpoint, is put into the queue again three times and ends with the parameters of a run on one rank; a rank
# that is killed is a failure, after which the run goes on within the job; -time_limit auto ends before the limit; a job that
# somebody cancels does not come back. Needs root, slurmctld and slurmd; skipped where one of them is not there.
name=renga-slurm$$ tools="slurmctld slurmd sbatch srun scontrol squeue scancel"
. "${0%/*}/namespaces.sh"

# Node 0 has slurmctld and a switch, 10.82.0.x.
star 82

# Neither munge nor control groups nor systemd.
mkdir slurm bin
cat >slurm/slurm.conf <<CONF
ClusterName=renga
SlurmctldHost=control(10.82.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$PWD/slurm/state
SlurmdSpoolDir=$PWD/slurm/spool.%n
SlurmctldPidFile=$PWD/slurm/slurmctld.pid
SlurmdPidFile=$PWD/slurm/slurmd.%n.pid
SlurmctldLogFile=$PWD/slurm/slurmctld.log
SlurmdLogFile=$PWD/slurm/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,batch_sched_delay=1
ReturnToService=2
KillWait=10
NodeName=node1 NodeAddr=10.82.0.1 CPUs=2 State=UNKNOWN
NodeName=node2 NodeAddr=10.82.0.2 CPUs=2 State=UNKNOWN
PartitionName=main Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP
CONF
echo CgroupPlugin=cgroup/v1 >slurm/cgroup.conf # other versions of Slurm start with another one, or not at all
printf '#!/bin/sh\nexec "%s" "$@"\n' "$renga" >bin/renga
printf '#!/bin/sh\n[ -n "${SLURM_RESTART_COUNT:-}" ] || sleep 40\nexec "$@"\n' >bin/late
chmod +x bin/*
PATH=$PWD/bin:$PATH
export SLURM_CONF=$PWD/slurm/slurm.conf UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 PATH
mkdir slurm/state slurm/spool.node1 slurm/spool.node2
ip netns exec $name-0 unshare --uts sh -c "hostname control; exec slurmctld -c" >up.log 2>&1 ||
  skip "no slurmctld here: $(tail -n 1 up.log)"
for i in 1 2; do
  ip netns exec $name-$i unshare --uts --ipc --mount sh -c \
    "hostname node$i; mount -t tmpfs -o size=256m tmpfs /dev/shm; exec slurmd -N node$i -c" >up.log 2>&1 ||
    skip "no slurmd here: $(tail -n 1 up.log)"
done

at() { ip netns exec $name-0 "$@"; }
looks=0
until [ "$(at sinfo -h -N -t idle -o %N 2>/dev/null | wc -l)" -eq 2 ]; do
  [ $((looks += 1)) -le 200 ] || skip "the nodes of this Slurm do not come up: $(tail -n 1 slurm/slurmd.node1.log)"
  sleep 0.1
done

train="renga train -graph $mlp -data synthetic -batch_size 8 -microbatch_size 1 -partition_leaf 1 -progress none -parameter_digest
  -options_file steps -checkpoint_dir c -checkpoint_every 2000"
# submit OPTIONS -- COMMAND: of sbatch
submit() {
  options=
  while [ "$1" != -- ]; do options="$options $1"; shift; done
  shift
  latest="sbatch$options renga.sbatch $*"
  echo "-steps 100000000" >steps
  job=$(at sbatch --parsable -o out --ntasks-per-node=1 --cpus-per-task=1 $options "$top_srcdir/share/renga/cluster/renga.sbatch" "$@" \
    2>submitted) || fail "$(cat submitted): $latest"
}
is() { [ "$(at squeue -h -t all -j "$job" -o %T)" = "$1" ]; }
said() { grep -q -F -e "$1" out; }
said_times() { [ "$(grep -c -e "^$1" out)" -eq "$2" ]; }
has_checkpoint() { set -- c/*.h5; [ -e "$1" ]; }
# Processes of Slurm for the job, which know it for a while after its end.
has_left() {
  for i in 1 2; do for process in $(ip netns pids $name-$i); do ! grep -qs slurmstepd "/proc/$process/comm" || return 1; done; done
}
# Slurm itself waits two minutes.
again() {
  wait_for is PENDING && wait_for has_left
  sleep 2
  at scontrol update JobId="$job" StartTime=now
}
# The process of Renga that has this rank.
process_of() {
  for process in $(ip netns pids $name-$(($1 + 1))); do
    grep -qsaz "^SLURM_PROCID=$1$" "/proc/$process/environ" && grep -qs renga "/proc/$process/comm" && echo "$process"
  done | tail -n 1
}

submit --time=1 --signal=B:TERM@25 -- $train
wait_for has_checkpoint
kill -9 "$(process_of 1)"
wait_for said "start 2: 2 ranks on 2 of 2 hosts, from the checkpoint of step"
says "renga run: start 1 ended after step" "rank 1 on node2 was ended by signal 9 (Killed)"
is RUNNING || fail "a killed rank ends the job"
lacks "put into the queue again"
again # by Slurm's warning
says "signal 15 (Terminated) asks the run to leave"
for times in 2 3; do
  wait_for said_times "goes on after step" $times # twice in the first job
  at scancel --batch --signal=TERM "$job"
  wait_for said_times "renga run: job $job is put into the queue again and goes on after step" $times
  [ $times -ne 3 ] || sed -n 's/^asked to leave after step \([0-9]*\) .*/\1/p' out | tail -n 1 | awk '{ print "-steps", $1 + 1 }' >steps
  again
done
wait_for is COMPLETED
says "renga run: the run is complete after 1 start"
[ "$(at scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p')" -eq 3 ] || fail "it is not put into the queue again three times"
there=$(digest | tail -n 1)
steps=$(sed 's/-steps //' steps)
accepts 1 ${train#renga } -checkpoint_dir alone -checkpoint_every 0
equal "$(digest)" "$there" "parameters after $steps steps"

# The end of the job is known, from the environment or by squeue; who is not warned leaves before it by himself.
rm -rf c out
submit --time=1 --signal=B:CONT@1 -- late $train
wait_for said "is put into the queue again"
says "the time limit is near: leaving after step" "renga run: the time limit is near: the run left with steps to go"
has_checkpoint || fail "no checkpoint before the limit"
lacks "DUE TO TIME LIMIT" "signal 15"
again
wait_for said_times "goes on after step" 1
at scancel "$job"
wait_for is CANCELLED
wait_for has_left
is CANCELLED || fail "a cancelled job comes back"
says "renga run: job $job is not put into the queue again, since Slurm is asked to end it (scancel)"

# Tasks that do not know of each other are refused, each of them.
latest="srun --mpi=none"
at timeout -k 5 $limit srun --mpi=none --nodes=2 --ntasks-per-node=1 renga info -graph $mlp </dev/null >out 2>&1 && fail "exit code 0: $latest"
said_times ".*error: .*Slurm started 2 tasks (SLURM_STEP_NUM_TASKS), but to MPI this process is the only one" 2 ||
  fail "not both tasks refuse: $latest"

# The page, as it stands.
if command -v python3 >/dev/null; then
  latest="the commands of doc/slurm.md"
  ln -s "$top_srcdir/share" share
  python3 "$top_srcdir/doc/book/commands.py" "$top_srcdir/doc/slurm.md" >page
  timeout -k 5 $limit ip netns exec $name-0 bash page </dev/null >out 2>&1 || fail "exit code $?: $latest"
  says "Comm: 2 ranks on 2 nodes" "  node 1 (node2): ranks 1"
  is_done() { grep -q -F "renga run: the run is complete after 1 start" slurm-*.out; }
  wait_for is_done
fi
finish
