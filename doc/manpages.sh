#!/bin/sh
# Make man pages (section 3) from the /*@ ... @*/ comments above the functions of the C sources.
# What a page leaves out is said by its man page: a function that is not said to be collective is not, though setters of some classes and
# registrations are the same on all ranks; its first argument, where that is an object of which nothing is said, is an input; it has no
# errors beyond bad arguments, and where it returns no code none, or (RengaCheckHandle) a null handle. A setter or getter that says not where to read on sends to the other of the two, and what destroys an object to what creates it.
# A getter without a comment gives what its setter takes, whose title follows its own.
# usage: manpages.sh OUTPUT_FOLDER VERSION SOURCE...
set -eu
out=$1
version=$2
shift 2
mkdir -p "$out"
awk -v out="$out" -v version="$version" '
function escape(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); sub(/^\./, "\\\\\\&.", text); return text }
function matching(pattern,   i) { for (i = 1; i <= n; i++) if (lines[i] ~ pattern) return i; return 0 }
function insert(at, text,   i) { for (i = ++n; i > at; i--) lines[i] = lines[i - 1]; lines[at] = text }
function before(pattern,   at) { at = matching(pattern); return at ? at : n + 1 }
function complete(   class, noun, name, code, same) {
  name = lines[1]; sub(/^ */, "", name); sub(/ .*/, "", name)
  while (lines[n] !~ /[^ ]/) n--
  if (!matching("^ *See also:") && match(name, /(Get|Set)[A-Z]/)) {
    lines[++n] = ""
    lines[++n] = "See also: " substr(name, 1, RSTART - 1) (substr(name, RSTART, 1) == "G" ? "Set" : "Get") substr(name, RSTART + 3) "()"
  }
  if (!matching("^ *See also:") && name ~ /Destroy$/) {
    lines[++n] = ""
    lines[++n] = "See also: " substr(name, 1, length(name) - 7) "Create()"
  }
  code = prototype ~ /^RengaErrorCode /
  same = name ~ /^Renga((Checkpoint|Machine|Plan|Settings|Trainer)(Set|Add)[A-Z]|[A-Za-z]+Register$)/
  if (!matching("^ *Errors:")) {
    if (n == 1) insert(2, "")
    at = before("^ *(Notes|Source|See also):")
    if (at > n && lines[n] ~ /[^ ]/) { insert(at, ""); at++ }
    insert(at, code ? "Errors: none beyond bad arguments." : \
      handle ? "Errors: a null handle, which the error handler is told." : "Errors: none.")
    if (at < n) insert(at + 1, "")
  }
  if (!matching("^ *(Collective|Not collective)")) {
    insert(3, "")
    insert(3, "Not collective" (same ? " (the same on all ranks)" : ""))
  }
  if (!match(prototype, /\((const )?Renga[A-Za-z]+ [a-z_]+[,)]/)) return
  noun = substr(prototype, RSTART + 1, RLENGTH - 2); sub(/^const /, "", noun)
  class = noun; sub(/ .*/, "", class); sub(/.* /, "", noun)
  if (matching("^ *\\. " noun "[ ,]")) return
  class = class == "RengaData" ? "data set" : class == "RengaComm" ? "ranks" : substr(class, 6)
  while (match(class, /.[A-Z]/)) class = substr(class, 1, RSTART) " " tolower(substr(class, RSTART + 1, 1)) substr(class, RSTART + 2)
  if (!matching("^ *Input:")) { insert(before("^ *(Output|Options|Errors):"), "Input:"); insert(matching("^ *Input:") + 1, "") }
  insert(matching("^ *Input:") + 1, ". " noun " - the " tolower(class))
}
function finish(   i, line, name, short, file) {
  if (n == 0) return
  complete()
  name = lines[1]; sub(/^ */, "", name); short = name
  sub(/ - .*/, "", name); sub(/^[^-]*- /, "", short)
  title[name] = short
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
# RengaClassGetNoun(RengaClass object, type *value, ...) without a comment.
function finish_getter(   setter, name, values, parts, count, i, lent) {
  match(prototype, /Renga[A-Za-z]+\(/); name = substr(prototype, RSTART, RLENGTH - 1)
  setter = name; sub(/Get/, "Set", setter)
  if (!(setter in title)) return
  count = split(substr(prototype, RSTART + RLENGTH), parts, ",")
  for (i = 2; i <= count; i++) {
    lent = lent || parts[i] ~ /\*\*|Renga(Graph|Device) \*/
    gsub(/.*[ *]|\)|\n/, "", parts[i])
    values = values (i > 2 ? ", " : "") parts[i]
  }
  n = 0
  lines[++n] = name " - the value of " setter "(): " title[setter]; lines[++n] = ""; lines[++n] = "Output:"
  lines[++n] = ". " values " - the value" (count > 2 ? "s" : "") " that " setter "() takes" (lent ? ", lent" : "")
  finish()
}
/^ *\/\*@/ { inside = 1; n = 0; next }
/@\*\// { inside = 0; waiting = 1; prototype = ""; next }
/^RengaErrorCode Renga[A-Za-z]+Get[A-Z][A-Za-z]*\(/ && !waiting { getter = 1; prototype = "" }
getter { if ($0 ~ /^\{/) { getter = 0; finish_getter() } else prototype = prototype (prototype == "" ? "" : "\n") $0; next }
inside { sub(/^ *\* ?/, ""); if (n > 0 || $0 ~ /[^ ]/) lines[++n] = $0; next }
body && /RengaCheckHandle/ { handle = 1 }
body && /^\}/ { finish(); body = handle = 0 }
waiting { if ($0 ~ /^\{/) { waiting = 0; body = 1 } else prototype = prototype (prototype == "" ? "" : "\n") $0 }
' "$@"
