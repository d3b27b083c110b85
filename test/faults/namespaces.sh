# For scripts that have network namespaces in the place of nodes: node 0 has the launcher, 1 and 2 the ranks. They are named
# $name-0, $name-1 and $name-2, and gone at the end. Sourced; needs $name, and the tools that the script needs besides.
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
  for i in 1 2 0; do
    for process in $(ip netns pids $name-$i 2>/dev/null); do kill -9 "$process"; done
    ip netns del $name-$i 2>/dev/null
  done
  rm -rf "$scratch"
}
trap down EXIT
trap 'exit 1' HUP INT TERM
