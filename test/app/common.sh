# What scripts of tests share: a scratch folder, removed at the end, where they work, and the program. top_builddir is the
# folder of the build, or the script is started there.
set -u
top_srcdir=$(cd "${top_srcdir:-${0%/*}/../..}" && pwd) || exit 99
top_builddir=$(cd "${top_builddir:-.}" && pwd) || exit 99
export top_srcdir top_builddir
renga=$top_builddir/renga
mpiexec=${MPIEXEC:-mpiexec}
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export OMP_NUM_THREADS=1
limit=${RENGA_TEST_LIMIT:-150} # seconds, which only a hang meets
failures=0
mlp="mlp:sizes=8-16-16-4"
gpt="gpt:layers=2,hidden=16,heads=2,sequence=16,vocabulary=256"

fail() {
  echo "FAILED: $*"
  sed 's/^/    /' out
  failures=$((failures + 1))
}

# refuses RANKS MESSAGE ARGUMENT...: ends by itself with a code that is not 0, and says MESSAGE.
refuses() {
  ranks=$1
  message=$2
  shift 2
  timeout -k 5 $limit "$mpiexec" -n "$ranks" "$renga" "$@" </dev/null >out 2>&1
  code=$?
  [ $code -ne 0 ] || fail "exit code 0: renga $*"
  [ $code -ne 124 ] && [ $code -ne 137 ] || fail "did not end within $limit s: renga $*"
  times=$(grep -c -F -e "$message" out)
  [ "$times" -ge 1 ] || fail "does not say \"$message\": renga $*"
  [ "$times" -le "$ranks" ] || fail "says \"$message\" $times times: renga $*"
}

# accepts RANKS ARGUMENT...: exit code 0; what it prints is in the file out.
accepts() {
  ranks=$1
  shift
  timeout -k 5 $limit "$mpiexec" -n "$ranks" "$renga" "$@" </dev/null >out 2>&1 ||
    fail "exit code $?: renga $*"
}

# says TEXT: the last command said it.
says() {
  grep -q -F -e "$1" out || fail "does not say \"$1\""
}

# lacks TEXT: it did not.
lacks() {
  ! grep -q -F -e "$1" out || fail "says \"$1\""
}

# own COMMAND...: it runs in a fresh folder of its own, removed afterwards; for programs whose files have fixed names.
own() (
  folder=$(mktemp -d) && cd "$folder" || exit 99
  "$@"
  code=$?
  cd / && rm -rf "$folder"
  exit $code
)

finish() {
  [ $failures -eq 0 ] || exit 1
  exit 0
}
