# For scripts that have network namespaces in the place of nodes: node 0 has the launcher, 1 and 2, or as many as $nodes says, the
# ranks. They are named $name-0, $name-1 and $name-2, and gone at the end. Sourced; needs $name, and the tools that the script needs
# besides.
. "${0%/*}/../app/common.sh"
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
for tool in ip unshare $tools; do command -v $tool >/dev/null || skip "there is no $tool"; done
"$mpiexec" --version 2>/dev/null | grep -q HYDRA || skip "the launcher is not MPICH's"
[ -z "${RENGA_TEST_SLOW:-}" ] || skip "limits of a few seconds are no measure for slow programs"

down() {
  for i in $(seq ${nodes:-2}) 0; do
    for process in $(ip netns pids $name-$i 2>/dev/null); do kill -9 "$process"; done
    ip netns del $name-$i 2>/dev/null
  done
  rm -rf "$scratch"
}
trap down EXIT
trap 'exit 1' HUP INT TERM

# star ADDRESS [NETWORKS]: node 0 has a switch for each network, and in the first of them the address 10.ADDRESS.0.254; nodes 1, 2 ...
# have 10.ADDRESS.0.1 and .2 in it on eth0, and so on: 10.ADDRESS.1.1 on eth1.
make_star() {
  ip netns add $name-0 && ip -n $name-0 link set lo up || return 1
  for i in $(seq ${nodes:-2}); do ip netns add $name-$i && ip -n $name-$i link set lo up || return 1; done
  for network in $(seq 0 $((${2:-1} - 1))); do
    ip -n $name-0 link add switch$network type bridge && ip -n $name-0 link set switch$network up || return 1
    for i in $(seq ${nodes:-2}); do
      ip -n $name-0 link add port$network-$i type veth peer name eth$network netns $name-$i || return 1
      ip -n $name-0 link set port$network-$i master switch$network up
      ip -n $name-$i addr add 10.$1.$network.$i/24 dev eth$network
      ip -n $name-$i link set eth$network up
    done
  done
  ip -n $name-0 addr add 10.$1.0.254/24 dev switch0
}
star() { make_star "$@" >star.log 2>&1 || skip "no network namespaces here: $(tail -n 1 star.log)"; }
