#!/bin/sh
# Two replicas in two network namespaces, as on two nodes, and the link between them is cut in the middle of a
# sum of gradients that is under way: both ends say so within the time limit and end, and the run goes on
# from its last checkpoint. First the network of the data alone is cut, then also that of the launcher. A link that
# comes back in time changes nothing; where a rank or all of a node dies the other node's ranks end.
# Needs root; skipped where namespaces cannot be made.
name=renga$$ tools=tc
. "${0%/*}/namespaces.sh"

# Node 0 has the launcher and two switches: of the launcher (10.79.0.x, eth0) and of the data (10.79.1.x, eth1).
star 79 2
for i in 1 2; do
  ip netns exec $name-$i tc qdisc add dev eth1 root tbf rate 8mbit burst 32kb latency 200ms >tc.log 2>&1 || skip "no tc here: $(cat tc.log)"
done

cat >launch <<LAUNCH
#!/bin/sh
# As ssh: launch [-option ...] HOST COMMAND
while [ "\${1#-}" != "\$1" ]; do shift; done
number=\${1##*.}
shift
exec ip netns exec "$name-\$number" unshare --uts --ipc --mount sh -c \\
  "hostname node\$number; mount -t tmpfs -o size=256m tmpfs /dev/shm; exec \$*"
LAUNCH
cat >node <<'NODE'
#!/bin/sh
# What a rank says is kept on its node.
exec "$@" >"out$PMI_RANK" 2>&1
NODE
chmod +x launch node

train="train -graph mlp:sizes=40-500-500-5 -data synthetic -batch_size 8 -microbatch_size 2 -parameter_digest -progress none"

bytes() {
  ip netns exec $name-0 cat /sys/class/net/port1-1/statistics/rx_bytes
}
has_written() { grep -q "checkpoint after step 2" out0; }
has_sent() { [ "$(bytes)" -gt "$1" ]; }
are_gone() { [ -z "$(ip netns pids $name-1)$(ip netns pids $name-2)" ]; }
# ports NETWORKS SETTING: of node 2, at the switches
ports() {
  for n in $1; do ip -n $name-0 link set "port$n-2" $2; done
}

# start STEPS OPTIONS...: until the third step's sum has sent a seventh of its bytes
start() {
  steps=$1
  shift
  options=$*
  rm -rf c out out0 out1 "$flies"
  : >out0 >out1
  # Its exit code is in the file code.
  (
    UCX_TLS=tcp,self UCX_NET_DEVICES=eth1 ip netns exec $name-0 timeout -k 5 $limit "$mpiexec" -launcher ssh \
      -launcher-exec "$PWD/launch" -iface switch0 -hosts 10.79.0.1:1,10.79.0.2:1 -n 2 "$PWD/node" $flying "$renga" $train \
      -steps "$steps" -layout_pipeline 1 -layout_data 2 -pipeline_buckets 4 -timeout 100 -checkpoint_dir c \
      -checkpoint_every 1 "$@" </dev/null >out 2>&1
    echo $? >code
  ) &
  launcher=$!
  wait_for has_written && wait_for has_sent $(($(bytes) + 150000)) ||
    wrong "does not come to the third step"
}

wrong() {
  cat out0 out1 >>out
  fail "$*: $options"
}

# All processes on both nodes, and the launcher.
ends() {
  wait_for are_gone || wrong "processes stay: $(ip netns pids $name-1) $(ip netns pids $name-2)"
  wait $launcher
}

# On node 1, where it can be seen that the run that had the folder is dead: from the last checkpoint that was
# announced one step more, as in a run that nobody disturbed.
goes_on() {
  for n in 0 1; do ports $n "master switch$n"; done
  last=$(sed -n 's/^checkpoint after step //p' out0 | tail -n 1)
  accepts 1 $train -steps $((${last:-0} + 1))
  digest_then=$(digest)
  timeout -k 5 $limit unshare --uts sh -c 'hostname node1; exec "$@"' sh "$renga" $train -steps $((${last:-0} + 1)) \
    -checkpoint_dir c -resume </dev/null >out 2>&1 || fail "the run does not go on: exit code $?"
  there=$(sed -n 's/^goes on after step //p' out)
  [ "${there:-0}" -ge "${last:-1}" ] || fail "step ${last:-none} was written, and the run goes on after ${there:-none}"
  says "$digest_then"
}

# cut NETWORKS OPTIONS...: node 2 is taken off these networks
cut() {
  networks=$1
  shift
  start 1000 "$@"
  ports "$networks" nomaster
  : >"$flies" # the limit comes soon now
  ends
  [ "$(cat code)" -ne 0 ] || wrong "exit code 0"
  for i in 0 1; do
    grep -Eq "nothing moved for .* (adds up gradients|gathers parameters) with the other replicas .*in step [0-9]* .*; no sign of rank $((1 - i)) " out$i ||
      wrong "rank $i does not say what it waits for"
  done
  goes_on
}

ip netns exec $name-0 timeout -k 5 $limit "$mpiexec" -launcher ssh -launcher-exec "$PWD/launch" -iface switch0 \
  -hosts 10.79.0.1:1,10.79.0.2:1 -n 2 hostname >started 2>&1 </dev/null || skip "no ranks on two nodes here: $(tail -n 1 started)"
grep -q node1 started && grep -q node2 started || skip "no ranks on two nodes here"
accepts 1 $train -steps 3
digest=$(digest) || fail "no digest"
cut 1
cut 1 -partition_type even -layout_zero 3
cut "1 0" -layout_zero 1

# A link that comes back before the time limit costs nothing but time.
start 3
ports 1 nomaster
sleep 2
ports 1 "master switch1"
ends
[ "$(cat code)" -eq 0 ] || wrong "exit code $(cat code)"
grep -q -F -x "$digest" out0 || wrong "other parameters where the link was away for a while"

# All processes of a node die.
start 1000
: >"$flies"
for process in $(ip netns pids $name-2); do kill -9 "$process"; done
ends
[ "$(cat code)" -ne 0 ] || wrong "exit code 0"
goes_on

# A rank dies on one node: mpiexec ends those of the other, too.
export RENGA_FAULT=kill:45:1
start 1000
unset RENGA_FAULT
ends
[ "$(cat code)" -ne 0 ] || wrong "exit code 0"
finish
