#!/bin/sh
# TEST ranks: 4
# The commands for machines without a scheduler as they stand in doc/clusters.md (two nodes by hand) and doc/mdx.md, and the script of
# PBS, on two network namespaces with the names node1 and node2; each trouble that renga-hosts looks for is said in one sentence.
# Needs root; skipped where namespaces cannot be made.
name=renga-hand$$ tools="python3 getent hostname"
. "${0%/*}/namespaces.sh"

# Node 0 has a switch alone: the user works on node 1.
star 83

mkdir bin work other
mpiexec=$(command -v "$mpiexec")
ln -s "$top_srcdir/share" share
printf '#!/bin/sh\nexec "%s" "$@"\n' "$renga" >bin/renga
printf '#!/bin/sh\nexec "%s" "$@"\n' "$mpiexec" >bin/mpiexec
printf '#!/bin/sh\necho "qsub $*" >>"%s/submitted"\n' "$PWD" >bin/qsub
printf '#!/bin/sh\necho renga 0.0.9\n' >other/renga
# nodes wait for others under their names; a machine of Debian gives its own name the address 127.0.1.1
printf '127.0.0.1 localhost\n10.83.0.1 node1\n10.83.0.2 node2\n' >addresses
printf '127.0.0.1 localhost\n127.0.1.1 node1\n10.83.0.2 node2\n' >debian
cat >node <<NODE
#!/bin/sh
# node NUMBER COMMAND...: there, with its name and the addresses that all know
number=\$1
shift
exec ip netns exec "$name-\$number" unshare --uts --ipc --mount sh -c 'hostname "\$0"
mount -t tmpfs -o size=256m tmpfs /dev/shm; mount --bind "\${ADDRESSES:-$PWD/addresses}" /etc/hosts; exec "\$@"' "node\$number" "\$@"
NODE
cat >bin/ssh <<SSH
#!/bin/sh
# ssh [-option ...] HOST COMMAND; files of $PWD say what is wrong with node2
while [ "\${1#-}" != "\$1" ]; do [ "\$1" != -o ] || shift; shift; done
number=\${1#node}
shift
[ \$number != 2 ] || [ ! -e "$PWD/closed" ] || { echo "Permission denied (publickey)."; exit 255; }
[ \$number != 2 ] || [ ! -e "$PWD/old" ] || PATH=$PWD/other:\$PATH
[ \$number != 2 ] || [ ! -e "$PWD/bare" ] || PATH=/usr/bin:/bin
[ \$number != 2 ] || [ ! -e "$PWD/apart" ] || set -- "mount -t tmpfs tmpfs $PWD/work; \$*"
[ \$number != 2 ] || [ ! -e "$PWD/early" ] || set -- "date() { echo 1000; }; \$*"
exec "$PWD/node" "\$number" sh -c "\$*"
SSH
chmod +x bin/* other/* node
PATH=$PWD/bin:$PATH
export PATH
cd work || exit 1

# on_page FILE: its commands, on node 1
on_page() {
  latest="the commands of $1"
  python3 "$top_srcdir/doc/book/commands.py" "$1" >script || fail "no commands in $1"
  timeout -k 5 $limit ../node 1 bash script </dev/null >out 2>&1 || fail "exit code $?: $latest"
}
cp "$top_srcdir/test/reference/networks/mlp_export.onnx" net.onnx
awk 'BEGIN { for (c = 0; c < 20; c++) printf "c%d,", c; print "class"
  for (r = 0; r < 256; r++) { for (c = 0; c < 20; c++) printf "%.3f,", (r * 37 + c * 11) % 101 / 101; print r % 7 } }' >table.csv
accepts 1 data csv table.csv train.h5 -data_label class

../node 1 timeout -k 5 30 mpiexec -iface eth0 -hosts node1:1,node2:1 -n 2 hostname >started 2>&1 </dev/null ||
  skip "no ranks on two nodes here: $(tail -n 1 started)"
sed -n '/^## Two nodes by hand/,/^## In batches/p' "$top_srcdir/doc/clusters.md" >page.md
on_page page.md
# Also where the machine gives its own name an address that others cannot reach.
ADDRESSES=${PWD%/*}/debian
export ADDRESSES
on_page page.md
unset ADDRESSES
on_page "$top_srcdir/doc/mdx.md"
says "renga run: start 1: 4 ranks on 2 of 2 hosts"
grep -q -F "renga run: the run is complete after 1 start" long.out || fail "$(tail -n 3 long.out)"

# A job of PBS whose time is up submits the next one; one that is done does not.
printf 'node1\nnode1\nnode2\nnode2\n' >nodes
sed -e 's/-batch_size 256 -steps 100000/-batch_size 64 -steps 100000000/' -e 's/3:50:00/6/' \
  "$top_srcdir/share/renga/cluster/renga.pbs" >renga.pbs
latest="renga.pbs"
PBS_O_WORKDIR=$PWD PBS_NODEFILE=$PWD/nodes HYDRA_IFACE=eth0 timeout -k 5 $limit ../node 1 bash renga.pbs </dev/null >out 2>&1
[ $? -eq 75 ] || fail "not exit code 75: $latest"
says "renga run: start 1: 4 ranks on 2 of 2 hosts" "renga run: the time limit is near"
[ "$(cat ../submitted)" = "qsub renga.pbs" ] || fail "the next job is not submitted"
steps=$(sed -n 's/.*leaving after step \([0-9]*\) .*/\1/p' out)
sed -i -e "s/-steps 100000000/-steps $((steps + 1))/" renga.pbs
PBS_O_WORKDIR=$PWD PBS_NODEFILE=$PWD/nodes HYDRA_IFACE=eth0 timeout -k 5 $limit ../node 1 bash renga.pbs </dev/null >out 2>&1 ||
  fail "exit code $?: $latest"
says "goes on after step $steps" "renga run: the run is complete after 1 start"
[ "$(wc -l <../submitted)" -eq 1 ] || fail "a job that is done is submitted again"

# refused SENTENCE [FILE]: that trouble of node2
refused() {
  latest="renga-hosts: ${2:-}"
  [ -z "${2:-}" ] || : >"../$2"
  timeout -k 5 $limit ../node 1 "$top_srcdir/share/renga/cluster/renga-hosts" hosts renga train -graph $mlp -data synthetic -steps 1 \
    </dev/null >out 2>&1
  code=$?
  [ $code -eq 1 ] || fail "exit code $code: $latest"
  [ "$(wc -l <out)" -eq 1 ] || fail "not one sentence"
  says "renga-hosts: $1"
  [ -z "${2:-}" ] || rm "../$2"
  [ "$(echo .renga-hosts*)" = ".renga-hosts*" ] || fail "a file stays: $(echo .renga-hosts*)"
}
refused "ssh node2: Permission denied (publickey).: it must work without a password (ssh-copy-id node2)" closed
refused "node2 has another version of Renga than $("$renga" -version): install the same everywhere" old
refused "node2 finds no renga by ssh: set the PATH at the top of ~/.bashrc there" bare
refused "node2 does not see $PWD: start in a folder that all machines share" apart
refused "the clock of node2 is -" early
ADDRESSES=${PWD%/*}/debian
export ADDRESSES
refused "node1 has address 127.0.1.1 in /etc/hosts: write its true one in that line"
unset ADDRESSES
printf 'node1:1\nnode3:1\n' >hosts
refused "node3 has no address: add it to /etc/hosts of all machines"
echo "# none" >hosts
refused "hosts names no machine: write NAME:RANKS, a line each"
finish
