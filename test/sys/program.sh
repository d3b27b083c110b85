#!/bin/sh
# What ends a program: -help, wrong options, leaks, failures; and the reports at its end.
. "${0%/*}/../app/common.sh"
program=$top_builddir/test/sys/program
RENGA_OPTIONS= ; export RENGA_OPTIONS

# run RANKS EXPECTED_CODE ARGUMENTS...
run() {
  ranks=$1
  expected=$2
  shift 2
  latest="$ranks ranks: $*"
  timeout -k 5 $limit "$mpiexec" -n "$ranks" "$program" "$@" >out 2>&1 </dev/null
  code=$?
  [ "$code" -eq "$expected" ] || complain "exit code $code, expected $expected"
}
complain() { fail "$1: $latest"; }
number() { [ "$(grep -cF -- "$2" out)" -eq "$1" ] || complain "not $1 times: $2"; }

run 2 0 train -count -3 --alpha=0.25 out -flag
says 'alpha 0.25 count -3 kind sgd flag 1 train out'
run 1 0 -flag train
says 'flag 1 train'
run 1 0 -flag false train
says 'flag 0 train'

# Order: options file, RENGA_OPTIONS, command line.
cat >"inner.opts" <<END
-kind adam # the last one wins
-count 1
END
cat >"outer.opts" <<END
# A comment
-options_file "inner.opts"
-count 2   -alpha 0.125
END
RENGA_OPTIONS="-alpha 0.75 -options_file outer.opts"
run 2 0
says 'alpha 0.75 count 2 kind adam flag 0'
run 2 0 -alpha 1
says 'alpha 1 count 2 kind adam flag 0'
RENGA_OPTIONS=
run 2 0 -options_file "outer.opts" -options_view
says '-options_file' '-kind adam' 'alpha 0.125 count 2 kind adam'
printf '\357\273\277-count 5\r\n-kind adam\r\n' >"mark.opts" # as editors of Windows write
run 2 0 -options_file "mark.opts"
says 'count 5 kind adam'
printf -- '-count 5\n\000-kind adam\n' >"byte.opts"
run 2 5 -options_file "byte.opts"
says 'options file byte.opts: it is no text in UTF-8'
echo "-options_file circle.opts" >"circle.opts"
run 2 5 -options_file "circle.opts"
says 'circle'
run 3 5 -options_file "nothing.opts"
says 'nothing.opts: No such file or directory'
echo 'count 3' >"word.opts"
run 1 5 -options_file "word.opts"
says 'count is no option'

# Wrong options: all of them named once, on all ranks, before any work.
run 3 5 -cuont 3 -alpha 2 -kind adma -count many
number 1 'unknown option -cuont; did you mean -count?'
number 1 '-alpha 2: must be from 0 to 1'
number 1 '-kind adma: not one of sgd|adam; did you mean adam?'
number 1 '-count many: not a whole number'
number 0 'kind sgd flag'
number 0 'MPI_Abort'
number 0 'RengaInitialize() at'
run 1 5 -count
says '-count needs a value'
run 1 5 -count 11
says 'must be from -5 to 10'
run 1 5 -count 99999999999
says 'not a whole number'
run 1 5 -alpha nan
says 'not a number'

run 3 0 -help
says 'A program of the tests.' '-alpha' 'sgd|adam; default sgd' '-log_view'
number 1 'A program of the tests.'
number 1 'General'
run 1 0 -h
says '-error_trace'
run 2 0 -version
says 'renga 0.'

run 2 1 leak
says '7 bytes from Work()' 'program.c'
# One sentence; all ranks leave by MPI_Finalize where they come to their ends together.
run 3 12 fail
number 1 'rank 1 was told to fail'
[ "$(wc -l <out)" -eq 2 ] || complain 'more than what Work() prints and one sentence'
run 3 12 alone
number 1 'rank 1 was told to fail'
run 3 12 -error_trace fail
says '[rank 1]   #0 FailOn() at' '[rank 1]   #1 Work() at' '[rank 1]   #3 main() at'

run 3 0 -log_view -log_trace "trace.json"
says 'Renga 0.' 'on 3 ranks' 'Work' 'parameters' '1.00 MiB' '3.00 MiB' 'process (resident at the end)'
[ "$(grep -c '"ph":"X"' "trace.json")" -eq 3 ] || complain 'the trace lacks bars'
grep -q '"name":"forward _1_"' "trace.json" || complain 'the trace lacks a name'
if command -v python3 >/dev/null; then
  python3 -m json.tool "trace.json" >/dev/null || complain 'the trace is no JSON'
fi
run 2 10 -log_trace "no/trace.json"
says 'No such file or directory'
finish
