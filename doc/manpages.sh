#!/bin/sh
# Make man pages (section 3) from the /*@ ... @*/ comments above the functions of the C sources.
# usage: manpages.sh OUTPUT_FOLDER VERSION SOURCE...
set -eu
out=$1
version=$2
shift 2
mkdir -p "$out"
awk -v out="$out" -v version="$version" '
function escape(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); sub(/^\./, "\\\\\\&.", text); return text }
function finish(   i, line, name, short, file) {
  if (n == 0) return
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
