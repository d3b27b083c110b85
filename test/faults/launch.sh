#!/bin/sh
# TEST ranks: 2
# Nodes that do not fit together are found before any work, on two network namespaces: another version of Renga is refused, and so is
# a data set of another content under the same name; another clock and too little locked memory for a network card are warned of.
# Needs root; skipped where namespaces cannot be made.
name=renga-launch$$ tools=setpriv
. "${0%/*}/namespaces.sh"

# Node 0 has the launcher and a switch.
star 84

# The file before has what stands before the command on node 2.
cat >launch <<LAUNCH
#!/bin/sh
# As ssh: launch [-option ...] HOST COMMAND
while [ "\${1#-}" != "\$1" ]; do shift; done
number=\${1##*.}
shift
before=exec
[ \$number = 1 ] || before=\$(cat "$PWD/before")
exec ip netns exec "$name-\$number" unshare --uts --ipc --mount sh -c \\
  "hostname node\$number; mount -t tmpfs -o size=256m tmpfs /dev/shm; \$before \$*"
LAUNCH
cat >preloading <<LAUNCH
#!/bin/sh
# A rank that has the odd library where it should.
[ -z "\${ODD:-}" ] || export LD_PRELOAD="$top_builddir/test/oddnode.so\${LD_PRELOAD:+:\$LD_PRELOAD}"
exec "$renga" "\$@"
LAUNCH
chmod +x launch preloading

# on_nodes CODE BEFORE ARGUMENT...: two ranks
on_nodes() {
  wanted=$1
  echo "$2" >before
  shift 2
  latest="$(cat before); renga $*"
  UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 ip netns exec $name-0 timeout -k 5 $limit "$mpiexec" -launcher ssh \
    -launcher-exec "$PWD/launch" -iface switch0 -hosts 10.84.0.1:1,10.84.0.2:1 -n 2 "$PWD/preloading" "$@" </dev/null >out 2>&1
  code=$?
  if [ "$wanted" -eq 0 ]; then [ $code -eq 0 ]; else is_error $code; fi || fail "exit code $code: $latest"
}
printf 'a,b,class\n' >table.csv
awk -v OFS=, 'BEGIN { for (r = 0; r < 64; r++) print r, r * r % 7, r % 3 }' >>table.csv
accepts 1 data csv table.csv train.h5 -data_label class
sed 's/^9,/10,/' table.csv >other.csv
accepts 1 data csv other.csv other.h5 -data_label class
train="train -graph mlp:sizes=2-4-3 -data $PWD/train.h5 -batch_size 8 -steps 2 -progress none"

on_nodes 0 exec $train
lacks warning
on_nodes 1 "export ODD=1 RENGA_TEST_VERSION=0.0.9; exec" $train
version=$("$renga" -version | sed 's/renga //')
says "rank 1 (node2) has version 0.0.9 of Renga, and rank 0 (node1) has $version: install the same on all nodes"
[ "$(grep -c 'version 0.0.9' out)" -eq 1 ] || fail "it is said more than once"
on_nodes 1 "mount --bind $PWD/other.h5 $PWD/train.h5 && exec" $train
says "rank 1 differs from rank 0 in its samples of data set $PWD/train.h5 (a node has another file of that name)"
on_nodes 0 "export ODD=1 RENGA_TEST_CLOCK=400; exec" $train
grep -Eq "warning: the clock of rank 1 \(node2\) is (39|40)[0-9] s ahead of that of rank 0 \(node1\)" out || fail "the clock is not warned of"
on_nodes 0 "export ODD=1 RENGA_TEST_CLOCK=-400; exec" $train
grep -Eq "warning: the clock of rank 1 \(node2\) is (39|40)[0-9] s behind that of rank 0 \(node1\)" out || fail "the clock is not warned of"
# A card of InfiniBand, and no right to lock more than the limit.
mkdir class
on_nodes 0 "mount --rbind /sys/class $PWD/class; mount -t tmpfs tmpfs /sys/class; mkdir -p /sys/class/net /sys/class/infiniband/mlx5_0;
  mount --bind $PWD/class/net /sys/class/net; ulimit -l 64; exec setpriv --bounding-set=-ipc_lock" $train
says "warning: rank 1 (node2) may lock 64 KiB of memory, and its network card mlx5_0 needs more"
finish
