# What scripts of tests share: a scratch folder, removed at the end, where they work, the program, and how they judge what
# programs print. top_builddir is the folder of the build, or the script is started there.
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
tellers=1 # ranks that may say why they refuse
latest= # the command whose output is in the file out
mlp="mlp:sizes=8-16-16-4"
gpt="gpt:layers=2,hidden=16,heads=2,sequence=16,vocabulary=256"

fail() {
  echo "FAILED: $*"
  [ ! -e out ] || sed 's/^/    /' out
  failures=$((failures + 1))
}

# is_error CODE: of a program that ended by itself, and not with success.
is_error() {
  [ "$1" -ne 0 ] && [ "$1" -ne 124 ] && [ "$1" -ne 137 ]
}

# refuses RANKS MESSAGE ARGUMENT...: ends by itself with a code that is not 0, and says MESSAGE: a sentence, or as much
# of it as no other error has.
refuses() {
  ranks=$1
  message=$2
  shift 2
  latest="renga $*"
  timeout -k 5 $limit "$mpiexec" -n "$ranks" "$renga" "$@" </dev/null >out 2>&1
  code=$?
  is_error $code || fail "exit code $code (0: success, 124, 137: not within $limit s): $latest"
  case $message in *[!\ ]\ *[!\ ]\ *[!\ ]*) ;; *) fail "\"$message\" is not enough of a sentence: $latest" ;; esac
  times=$(grep -c -F -e "$message" out)
  [ "$times" -ge 1 ] || fail "does not say \"$message\": $latest"
  [ "$times" -le "$tellers" ] || fail "says \"$message\" $times times: $latest"
}

# accepts RANKS ARGUMENT...: exit code 0; what it prints is in the file out.
accepts() {
  ranks=$1
  shift
  latest="renga $*"
  timeout -k 5 $limit "$mpiexec" -n "$ranks" "$renga" "$@" </dev/null >out 2>&1 || fail "exit code $?: $latest"
}

# Several lines would be as many texts, of which one is enough for grep.
one_line() {
  case $1 in
  '') fail "no text is given to look for, or what was to be compared is empty, after: $latest" ;;
  *'
'*) fail "several lines are given to look for after: $latest: $1" ;;
  *) return 0 ;;
  esac
  return 1
}

# says TEXT...: the last command said each of them.
says() {
  for sought; do
    one_line "$sought" || continue
    grep -q -F -e "$sought" out || fail "does not say \"$sought\": $latest"
  done
}

# lacks TEXT...: it said none of them.
lacks() {
  for sought; do
    one_line "$sought" || continue
    ! grep -q -F -e "$sought" out || fail "says \"$sought\": $latest"
  done
}

# digest: what the last command said of its parameters.
digest() {
  grep "parameter digest 0x" out
}

# equal A B MESSAGE, differ A B MESSAGE: two texts that were captured, and neither of them is empty.
equal() {
  [ -n "$1" ] && [ "$1" = "$2" ] || fail "$3: \"$1\", \"$2\""
}
differ() {
  [ -n "$1" ] && [ -n "$2" ] && [ "$1" != "$2" ] || fail "$3: \"$1\", \"$2\""
}

# equal_files A B MESSAGE: the same bytes, and at least one.
equal_files() {
  [ -s "$1" ] && cmp -s "$1" "$2" || fail "$3: $1, $2"
}

# own COMMAND...: it runs in a fresh folder of its own, removed afterwards; for programs whose files have fixed names.
own() (
  folder=$(mktemp -d) && cd "$folder" || exit 99
  "$@"
  code=$?
  cd / && rm -rf "$folder"
  exit $code
)

# wait_for COMMAND...: until it succeeds.
wait_for() {
  looks=0
  until "$@" >/dev/null 2>&1; do
    looks=$((looks + 1))
    [ $looks -le $((20 * limit)) ] || { fail "waited in vain for: $*"; return 1; }
    sleep 0.05
  done
}

# For ranks of "$mpiexec" -n RANKS $flying PROGRAM: from when the file $flies is there their seconds pass a thousand times as fast.
flies=$scratch/flies
clock="LD_PRELOAD=$top_builddir/test/flying.so${LD_PRELOAD:+:$LD_PRELOAD}"
[ -z "${SANITIZERS:-}" ] || clock="$clock ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"
flying="env $clock RENGA_TEST_FLY=$flies"

finish() {
  [ $failures -eq 0 ] || exit 1
  exit 0
}
