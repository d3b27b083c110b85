#!/bin/sh
# Make man pages (section 3) from the /*@ ... @*/ comments above the functions of the C sources.
# A page that says neither who calls it, nor Input, nor Errors is of a function that only looks at its object: it is not collective, its
# input is that object, and its errors are none beyond bad arguments. Its man page says all that. A setter or getter that says not where
# to read on sends to the other of the two.
# usage: manpages.sh OUTPUT_FOLDER VERSION SOURCE...
set -eu
out=$1
version=$2
shift 2
mkdir -p "$out"
awk -v out="$out" -v version="$version" '
function escape(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); sub(/^\./, "\\\\\\&.", text); return text }
function add(text) { full[++m] = text }
function complete(   i, class, noun, done, name) {
  name = lines[1]; sub(/^ */, "", name); sub(/ .*/, "", name)
  for (i = 1; i <= n && lines[i] !~ /^ *See also:/; i++) continue
  if (i > n && match(name, /(Get|Set)[A-Z]/)) {
    while (lines[n] !~ /[^ ]/) n--
    lines[++n] = ""
    lines[++n] = "See also: " substr(name, 1, RSTART - 1) (substr(name, RSTART, 1) == "G" ? "Set" : "Get") substr(name, RSTART + 3) "()"
  }
  for (i = 1; i <= n; i++) if (lines[i] ~ /^ *(Collective|Not collective|Input:|Errors:)/) return
  if (!match(prototype, /\((const )?Renga[A-Za-z]+ [a-z_]+[,)]/)) return
  noun = substr(prototype, RSTART + 1, RLENGTH - 2); sub(/^const /, "", noun)
  class = noun; sub(/ .*/, "", class); sub(/.* /, "", noun)
  m = 0; add(lines[1]); add(""); add("Not collective"); add(""); add("Input:")
  class = class == "RengaData" ? "data set" : class == "RengaComm" ? "ranks" : substr(class, 6)
  while (match(class, /.[A-Z]/)) class = substr(class, 1, RSTART) " " tolower(substr(class, RSTART + 1, 1)) substr(class, RSTART + 2)
  add(". " noun " - the " tolower(class))
  for (i = 2; i <= n; i++) {
    if (!done && lines[i] ~ /^ *(Notes|Source|See also):/) { add("Errors: none beyond bad arguments."); add(""); done = 1 }
    add(lines[i])
  }
  for (n = 0; n < m; n++) lines[n + 1] = full[n + 1]
}
function finish(   i, line, name, short, file) {
  if (n == 0) return
  complete()
  name = lines[1]; sub(/^ */, "", name); short = name
  sub(/ - .*/, "", name); sub(/^[^-]*- /, "", short)
  file = out "/" name ".3"
  printf ".TH %s 3 \"\" \"Renga %s\" \"Renga\"\n.SH NAME\n%s \\- %s\n", name, version, name, escape(short) > file
  printf ".SH SYNOPSIS\n.nf\n#include <renga.h>\n%s;\n.fi\n.SH DESCRIPTION\n", escape(prototype) > file
  for (i = 2; i <= n; i++) {
    line = lines[i]; sub(/^ +/, "", line)
    if (line ~ /^(Input|Output|Options|Errors|Notes|Source|See also)[A-Za-z ]*:/) {
      head = line; sub(/:.*/, "", head); rest = line; sub(/^[^:]*: */, "", rest)
      printf ".SH %s\n", toupper(head) > file
      if (rest != "") print escape(rest) > file
    } else if (line ~ /^\. /) {
      sub(/^\. /, "", line); what = line; text = line
      sub(/ - .*/, "", what); text = substr(text, length(what) + 4)
      printf ".TP\n.I %s\n%s\n", escape(what), escape(text) > file
    } else if (line == "") print ".PP" > file
    else print escape(line) > file
  }
  close(file); n = 0
}
/^ *\/\*@/ { inside = 1; n = 0; next }
/@\*\// { inside = 0; waiting = 1; prototype = ""; next }
inside { sub(/^ *\* ?/, ""); if (n > 0 || $0 ~ /[^ ]/) lines[++n] = $0; next }
waiting { if ($0 ~ /^\{/) { waiting = 0; finish() } else prototype = prototype (prototype == "" ? "" : "\n") $0 }
' "$@"
