#!/bin/sh
# renga run over two network namespaces in the place of nodes: a node whose link is cut and whose processes die is left out, the
# plan is made anew for the other one, and the node is taken back once it answers; a node that is said to go is left with a
# checkpoint; a node that is lost takes its memory with it, and no step is lost where the other one has a copy (-checkpoint_memory);
# of four nodes one is lost and comes back. The parameters are those of a run that nothing happened to, and nothing stays on a node.
# Needs root; skipped where namespaces cannot be made.
name=renga-run$$ tools= nodes=4
. "${0%/*}/namespaces.sh"

# Node 0 has renga run and a switch, 10.80.0.x.
star 80

cat >launch <<LAUNCH
#!/bin/sh
# As ssh: launch [-option ...] HOST COMMAND; a node whose file down-NUMBER is there does not answer.
while [ "\${1#-}" != "\$1" ]; do shift; done
number=\${1##*.}
shift
[ ! -e "$PWD/down-\$number" ] || exec sleep 100
exec ip netns exec "$name-\$number" unshare --uts --ipc --mount sh -c \\
  "hostname node\$number; mount -t tmpfs -o size=256m tmpfs /dev/shm; mount --bind $PWD/memory-\$number $PWD/memory; \$*"
LAUNCH
chmod +x launch
mkdir memory memory-1 memory-2 memory-3 memory-4 # of a node, which outlives its processes
printf '%s\n' 10.80.0.1:1 "10.80.0.2 slots=1 # the other" >hosts
train="train -graph $mlp -data synthetic -batch_size 8 -microbatch_size 1 -partition_leaf 1 -progress none -parameter_digest"

# begin OPTIONS -- OPTIONS OF TRAIN: renga run in the background, until there is a checkpoint
begin() {
  rm -rf c out code
  options=
  while [ "$1" != -- ]; do options="$options $1"; shift; done
  shift
  latest="renga run$options -- renga train $*"
  (
    UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 ip netns exec $name-0 timeout -k 5 $limit sh -c \
      'echo $$ >process; exec "$@"' sh "$renga" run -hosts hosts -remote "$PWD/launch" \
      -launcher "$mpiexec -iface switch0" -probe 3 $options -- "$renga" $train -checkpoint_dir c -checkpoint_every 50 "$@" </dev/null >out 2>&1
    echo $? >code
  ) &
  wait_for has_checkpoint
}
has_checkpoint() { set -- c/*.h5; [ -e "$1" ]; }
# ends CODE
ends() {
  wait
  [ "$(cat code)" -eq "$1" ] || fail "exit code $(cat code), not $1: $latest"
  left=$(for i in 1 2 3 4; do ip netns pids $name-$i; done)
  [ -z "$left" ] || fail "processes stay: $left"
}
said() { grep -q -F -e "$1" out; }
# lose NODE SENTENCE: it is gone with its processes, until the run goes on as the sentence says.
lose() {
  : >"down-$1"
  ip -n "$name-0" link set "port0-$1" nomaster
  for process in $(ip netns pids "$name-$1"); do kill -9 "$process"; done
  wait_for said "$2"
  wait_for said "goes on after step"
  ip -n "$name-0" link set "port0-$1" master switch0
  rm "down-$1"
}

accepts 1 $train -steps 4000
digest=$(digest)

begin -back 1 -- -steps 4000 -timeout 4
lose 2 "start 2: 1 rank on 1 of 2 hosts"
ends 0
says "$digest" "renga run: 10.80.0.2 is left out until it answers again" "1 stage x 1 replica on 1 rank"
grep -Eq "start 1 ended after step .*: (rank 0 said: .*no sign of rank 1|.*rank 1|host 10.80.0.2 does not answer)" out || fail "rank 1 is not named"
# It may be done before the node is back; else the node takes part again.
if said "answers again and takes part"; then says "renga run: start 3: 2 ranks on 2 of 2 hosts, from the checkpoint of step"; fi

# Four nodes, three, and four again.
cp hosts two
printf '10.80.0.%d:1\n' 1 2 3 4 >hosts
begin -back 1 -- -steps 4000 -timeout 4
lose 3 "start 2: 3 ranks on 3 of 4 hosts"
ends 0
says "$digest" "renga run: 10.80.0.3 is left out until it answers again"
if said "answers again and takes part"; then says "renga run: start 3: 4 ranks on 4 of 4 hosts, from the checkpoint of step"; fi
mv two hosts

# A node dies, with its memory: the other one has all of the newest step.
accepts 1 $train -steps 400
shorter=$(digest)
begin -back 0 -- -steps 400 -timeout 4 -checkpoint_memory 1 -checkpoint_memory_dir "$PWD/memory"
: >down-2
for process in $(ip netns pids $name-2); do kill -9 "$process"; done
rm -rf memory-2/*
wait_for said "goes on after step"
ends 0
rm down-2
says "$shorter" "renga run: start 2: 1 rank on 1 of 2 hosts"
lost=$(sed -n 's/.*start 1 ended after step \([0-9]*\):.*/\1/p' out)
from=$(sed -n "s/^goes on after step \\([0-9]*\\).*/\\1/p" out) # of memory, or of a file that is as new
[ "${from:-0}" -ge $((${lost:-0} - 1)) ] || fail "goes on from ${from:-nothing} after step $lost"
[ -z "$(ls memory-1)" ] || fail "memory stays: $(ls memory-1)"

begin -warning warning -back 0 -- -steps 4000
echo node2.somewhere >>warning # it has an address here
echo 10.80.0.2 >>warning
ends 0
says "$digest" "renga run: 10.80.0.2 goes away soon, says the file of -warning"
says "renga run: start 2: 1 rank on 1 of 2 hosts, from the checkpoint of step" "renga run: the run is complete after 2 starts"
rm warning

# More hosts are waited for where the layout needs them.
begin -back 1 -- -steps 100000000 -layout_pipeline 2 -timeout 4
: >down-2
for process in $(ip netns pids $name-2); do kill -9 "$process"; done
wait_for said "plan does not fit: 2 stages need at least 2 ranks, but there are 1"
wait_for said "it waits for hosts: those that are left take 1 of at least 2 ranks (-least)"
rm down-2
wait_for said "start 3: 2 ranks on 2 of 2 hosts"
wait_for said "goes on after step"
kill -TERM "$(cat process)"
ends 85
finish
