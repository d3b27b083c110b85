#!/bin/sh
# Run one test. A program runs once for each number of ranks in its source's line "/* TEST ranks: 1 2 4 */"
# (default 1); a script runs as it is. Each run is bounded in time: "timeout: SECONDS" in that line, 300 else.
# Measured costs are kept in a cache of the test's own. The last line of the log says how long it took.
test=$1
shift
began=$(date +%s)
XDG_CACHE_HOME=$(mktemp -d) || exit 99
export XDG_CACHE_HOME
trap 'rm -rf "$XDG_CACHE_HOME"; echo "took $(($(date +%s) - began)) s"' EXIT
case $test in
*.sh)
  timeout -k 5 "${RENGA_TEST_TIMEOUT:-900}" sh "$test" "$@"
  exit
  ;;
esac
name=${test#./}
source=$srcdir/$name.c
line=$(sed -n 's|^/\* TEST \(.*\)\*/.*|\1|p' "$source" | head -n 1)
ranks=$(printf '%s\n' "$line" | sed -n 's/.*ranks: *\([0-9 ]*\).*/\1/p')
limit=$(printf '%s\n' "$line" | sed -n 's/.*timeout: *\([0-9]*\).*/\1/p')
limit=${RENGA_TEST_TIMEOUT:-${limit:-300}}
[ -n "$SANITIZERS" ] && limit=$((limit * 4))
for n in ${ranks:-1}; do
  threads=$(($(nproc) / n))
  [ "$threads" -ge 1 ] || threads=1
  OMP_NUM_THREADS=$threads timeout -k 5 "$limit" "${MPIEXEC:-mpiexec}" -n "$n" "$test" "$@" </dev/null
  code=$?
  if [ $code -ne 0 ]; then
    echo "$name on $n ranks: exit code $code"
    exit $code
  fi
done
exit 0
