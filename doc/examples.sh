#!/bin/sh
# Add to the man page of each function the statement of a program that calls it: a program that is compiled and run by "make check", so
# that what the page shows is true. The first program that has a call is taken, so those that are to be read come first. The library
# and its commands do not count, nor do measurements, the emulated CUDA runtime and what waits for a GPU.
# usage: examples.sh OUTPUT_FOLDER      run in the folder of the sources; changes the pages that are there
#        examples.sh -check             names the public functions that no program calls
set -eu
programs=$(for folder in tutorials examples test/link test; do
  find "$folder" \( -path test/bench -o -path test/cuda -o -path test/gpu \) -prune -o \
    \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.cc' \) -print | LC_ALL=C sort
done | awk '!seen[$0]++')
# Those that most programs call: their pages show the lines around the call, too.
most_used='RengaInitialize RengaFinalize RengaCommCreate RengaGraphCreate RengaGraphSetFromOptions RengaGraphSetUp RengaGraphAddInput
  RengaGraphAddParameter RengaGraphAddNode RengaGraphAddLinear RengaGraphAddCrossEntropy RengaGraphSetLoss RengaPartitionCreate
  RengaPartitionSetGraph RengaPartitionSetFromOptions RengaPartitionSolve RengaPlanView RengaPipelineCreate RengaPipelineSetPlan
  RengaPipelineSetFromOptions RengaPipelineSetUp RengaPipelineStep RengaPipelineEvaluate RengaPipelineForward RengaPipelineGetParameter
  RengaDataSetFields RengaDataGetStep RengaDataRead RengaCheckpointCreate RengaCheckpointStep RengaCheckpointResume RengaOptimizerSetLearningRate'
# shellcheck disable=SC2086
awk -v out="$1" -v most_used="$most_used" '
function escape(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); sub(/^\./, "\\\\\\&.", text); sub(/^\047/, "\\\\\\&\047", text); return text }
function ends(line) { sub(/ *(\/\*.*\*\/|\/\/.*)$/, "", line); return line ~ /[;{}:]$/ || line ~ /^ *$/ || line ~ /^#/ || line ~ /\*\/$/ }
function balance(line,   opened) { gsub(/"[^"]*"/, "", line); opened = gsub(/\(/, "", line); return opened - gsub(/\)/, "", line) }

# The statement around line at of the program; of those that are used most, the lines before and behind it, too.
function excerpt(name, at,   first, last, open, i, more, least, text) {
  first = last = at
  while (first > 1 && at - first < 6 && !ends(line[first - 1])) first--
  for (i = first; i <= at; i++) open += balance(line[i])
  while (last < count && last - at < 10 && (open > 0 || !ends(line[last]))) open += balance(line[++last])
  if (name in main_ones) {
    for (more = 0; more < 5 && line[first - 1] ~ /^  +[^ ]/; more++) first--
    while (!ends(line[first - 1]) && first < at) first++
    for (more = 0; (more < 4 || !ends(line[last])) && more < 10 && line[last + 1] ~ /^  +[^ ]/; more++) last++
  }
  least = 1000
  for (i = first; i <= last; i++) if (match(line[i], /[^ ]/) && RSTART < least) least = RSTART
  for (i = first; i <= last; i++) text = text substr(line[i], least) "\n"
  found[name] = "In " program ":\n.PP\n.nf\n"
  body[name] = text
}
function search(   i, rest, name, called) {
  for (i = 1; i <= count; i++) {
    if (line[i] !~ /^ / || line[i] ~ /^ *(\*|\/\*|\/\/)/) continue
    rest = line[i]; gsub(/"[^"]*"/, "", rest); sub(/\/\*.*/, "", rest)
    while (match(rest, /Renga[A-Za-z0-9]+[(,)]/)) { # called, or handed on as a function to call
      name = substr(rest, RSTART, RLENGTH - 1); called = substr(rest, RSTART + RLENGTH - 1, 1) == "("
      rest = substr(rest, RSTART + RLENGTH - 1)
      if (!(name in found) && (called || name in public)) excerpt(name, i)
    }
  }
}
BEGIN { n = split(most_used, used, /[ \n]+/); for (i = 1; i <= n; i++) main_ones[used[i]] = 1 }
FNR == 1 { if (program != "") search(); program = FILENAME; count = 0 }
FILENAME ~ /^include\// {
  if (/^#define Renga[A-Za-z]+\(/) { macro = $2; sub(/\(.*/, "", macro) }
  if (!/^[#A-Za-z]/ || /^#define Renga[A-Za-z]+\(/) {
    rest = $0; sub(/^#define [A-Za-z]+/, "", rest)
    if (macro != "" && match(rest, /Renga[A-Za-z]+\(/)) { rest = substr(rest, RSTART, RLENGTH - 1); if (!(rest in by_macro)) by_macro[rest] = macro }
  }
  if (!/\\$/) macro = ""
  if (/^[A-Za-z].*[ *]Renga[A-Za-z0-9]+\(/ && !/^typedef/) { match($0, /Renga[A-Za-z0-9]+\(/); public[substr($0, RSTART, RLENGTH - 1)] = FILENAME }
  next
}
{ line[++count] = $0 }
function add(name,   file, row, n, i, n_lines, code) {
  file = out "/" name ".3"
  while ((getline text < file) > 0) row[++n] = text
  close(file)
  if (!n) return
  n_lines = split(body[name], code, "\n")
  for (i = 1; i <= n; i++) {
    if (row[i] == ".SH SEE ALSO") { show(name, file, code, n_lines); name = "" }
    print row[i] > file
  }
  if (name != "") show(name, file, code, n_lines)
  close(file)
}
function show(name, file, code, n_lines,   i) {
  printf ".SH EXAMPLES\n%s", found[name] > file
  for (i = 1; i < n_lines; i++) print escape(code[i]) > file
  print ".fi" > file
}
END {
  search()
  for (name in by_macro) if (!(name in found) && by_macro[name] in found) { found[name] = found[by_macro[name]]; body[name] = body[by_macro[name]] }
  for (name in public) {
    if (out != "-check") { if (name in found) add(name) }
    else if (!(name in found)) { printf "%s: %s: no tutorial, example or test calls it\n", public[name], name; bad = 1 }
  }
  exit bad
}' include/renga*.h $programs
