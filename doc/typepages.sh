#!/bin/sh
# Make man pages (section 3) of the types, macros and constants of the public headers, from the comments above and behind them.
# A name that has a page already, of a function, is left as it is.
# usage: typepages.sh OUTPUT_FOLDER VERSION HEADER...       makes the pages
#        typepages.sh -check HEADER...                      names what has no comment, members of structs too
set -eu
if [ "$1" = -check ]; then
  check=1 out= version=
  shift
else
  check=0 out=$1 version=$2
  shift 2
fi
awk -v out="$out" -v version="$version" -v check="$check" '
function escape(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); sub(/^\./, "\\\\\\&.", text); sub(/^\047/, "\\\\\\&\047", text); return text }
function words(text) { gsub(/[ \n]+/, " ", text); sub(/^ /, "", text); sub(/ $/, "", text); return text }
function heading(text) { return text ~ /^----/ ? "" : text }
function inner(text) { gsub(/\/\*|\*\//, " ", text); return words(text) }
function behind(text) { return match(text, /\/\*.*\*\//) ? inner(substr(text, RSTART, RLENGTH)) : "" }

# What a name is for: the item that the parser found; items of one comment that are constants share a page.
function add(name, kind, code) {
  n++; names[n] = name; kinds[n] = kind; codes[n] = code; notes[n] = note; tails[n] = behind(kind == "constant" || kind == "handle" ? code : "")
  heads[n] = header; lines[n] = begin; group[n] = n; next_function[n] = ""
  if (kind == "constant" && n > 1 && kinds[n - 1] == "constant" && together) group[n] = group[n - 1]
  together = kind == "constant"
  if (kind != "constant") note = ""
}
function functions_begin(text,   name) {
  if (match(text, /Renga[A-Za-z0-9]+\(/)) {
    name = substr(text, RSTART, RLENGTH - 1); functions[++n_functions] = name; prototype[n_functions] = text
    for (i = n; i > 0 && next_function[i] == "" && heads[i] == header; i--) next_function[i] = name
  }
  note = ""; together = 0
}
FNR == 1 { header = FILENAME; sub(/.*\//, "", header); note = ""; mode = ""; together = 0; skipping = 0 }
mode == "comment" { text = text "\n" $0; if (/\*\//) { note = heading(inner(text)); mode = "" } next }
mode == "code" { text = text "\n" $0; if (ended($0)) { mode = ""; item() } next }
/^#ifdef __clang_analyzer__/ || /^#if.*__cplusplus/ { skipping = 1 }
skipping { if (/^#(endif|else)/) skipping = 0; next }
/^#undef / { gone[$2] = 1; next }
/^\/\*/ { text = $0; together = 0; if (/\*\//) note = heading(inner(text)); else mode = "comment"; next }
/^$/ { note = ""; together = 0; next }
/^#define / || /^typedef / || /^struct [A-Za-z]+ \{/ || /^enum \{/ || /^(const )?[A-Za-z_0-9]+ \**[A-Za-z_0-9 *]*Renga[A-Za-z0-9]+\(/ {
  text = $0; begin = FNR; macro = /^#define/; if (ended($0)) item(); else mode = "code"; next
}
function ended(line) {
  if (macro) return line !~ /\\$/
  sub(/ *\/\*.*$/, "", line)
  if (text ~ /^[^;(]*\{/) return line ~ /^\}.*;$/ || (text !~ /\n/ && line ~ /\}.*;$/)
  return line ~ /;$/
}
function item(   name, code) {
  code = text
  if (macro) {
    name = code; sub(/^#define +/, "", name); sub(/[^A-Za-z_0-9].*/, "", name)
    add(name, code ~ /^#define [A-Za-z_0-9]+\(/ ? "macro" : "constant", code)
  } else if (code ~ /^typedef struct [A-Za-z_]+ \*?[A-Za-z]+;/) {
    name = code; sub(/;.*/, "", name); sub(/.*[ *]/, "", name); add(name, "handle", code)
  } else if (code ~ /^enum \{/) {
    name = code; gsub(/\/\*[^*]*\*\//, "", name); sub(/^enum \{[ \n]*/, "", name); sub(/[^A-Z_0-9].*/, "", name); add(name, "enum", code)
  } else if (code ~ /^struct /) {
    name = code; sub(/^struct /, "", name); sub(/ .*/, "", name)
    for (i = 1; i <= n; i++) if (names[i] == name) names[i] = ""
    add(name, "struct", code)
  } else if (code ~ /^typedef [^;]*\{/) {
    name = code; sub(/;[^;]*$/, "", name); sub(/.*[ }]/, "", name); add(name, code ~ /^typedef enum/ ? "enum" : "struct", code)
  } else if (code ~ /^typedef [^;]*\(\*/) {
    name = code; sub(/^[^(]*\(\*/, "", name); sub(/\).*/, "", name); add(name, "function", code)
  } else if (code ~ /^typedef /) {
    name = code; sub(/;.*/, "", name); sub(/.*[ *]/, "", name); add(name, "type", code)
  } else functions_begin(code)
}

# Members and enumerators, each with the comment above or behind it.
function members(code, file, at,   row, count, i, line, comment, above, declared, first) {
  count = split(code, row, "\n"); first = 1; above = ""; declared = ""; comment = ""; open = 0
  for (i = 1; i <= count; i++) {
    line = row[i]
    if (i == 1 && count == 1) { sub(/^[^{]*\{/, "", line); sub(/\}[^}]*$/, "", line) }
    else if (i == 1 || line ~ /^\}/) continue
    if (open || line ~ /^ *\/\*/) {
      above = (open ? above " " : "") line; open = line !~ /\*\//
      if (!open) above = inner(above)
      continue
    }
    while (line ~ /\/\*/ && line !~ /\*\// && i < count) line = line " " row[++i]
    comment = behind(line); sub(/ *\/\*.*$/, "", line); declared = words(declared " " line)
    if (declared !~ /[;,]$/ && i < count - 1) continue
    if (declared ~ /\([^)]*$/) continue
    if (code !~ /enum/ && declared ~ /,$/) continue
    if (comment == "") comment = above; else if (above != "" && declared != "") comment = above " " comment
    above = ""
    sub(/[;,]$/, "", declared)
    if (declared == "") continue
    if (check) { if (comment == "" && code !~ /enum/) { printf "include/%s: %s: no comment says what %s is\n", heads[at], names[at], declared; bad = 1 } declared = ""; continue }
    if (first) print ".SH " (code ~ /enum/ ? "VALUES" : "MEMBERS") > file
    first = 0
    if (declared ~ /_MAP\(/) rows(declared, file)
    else if (code ~ /enum/) values(declared, comment, file)
    else term(declared, comment, file)
    declared = ""
  }
}
# Enumerators, which are also found by their own names; several stand on one line where none has a comment.
function values(declared, comment, file,   value, count, i) {
  count = split(declared, value, /, */)
  for (i = 1; i <= count; i++) { term(value[i], comment, file); alias(value[i], file) }
}
function alias(name, file,   other) {
  sub(/ .*/, "", name); other = out "/" name ".3"
  if (other == file || (getline line < other) > 0) { close(other); return }
  sub(/.*\//, "", file); printf ".so man3/%s\n", file > other; close(other)
}
# NAME_MAP(NAME_ENUM) NAME_COUNT: the rows of a table in a macro, as the other macro makes names of them.
function rows(declared, file,   map, maker, i, count, row, name) {
  map = maker = declared; sub(/\(.*/, "", map); sub(/^[^(]*\(/, "", maker); sub(/\).*/, "", maker)
  for (i = 1; i <= n; i++) {
    if (names[i] == maker) { maker = codes[i]; sub(/^[^)]*\) */, "", maker); sub(/##.*/, "", maker) }
    if (names[i] == map) map = codes[i]
  }
  count = split(map, row, /X\(/)
  for (i = 2; i <= count; i++) {
    name = row[i]; sub(/,.*/, "", name); match(row[i], /"[^"]*"/)
    values(maker name, substr(row[i], RSTART + 1, RLENGTH - 2), file)
  }
  sub(/.*\) */, "", declared)
  if (declared != "") values(declared, "how many there are", file)
}
function term(what, comment, file) {
  printf ".TP\n.I %s\n%s", escape(what), comment == "" ? "" : escape(sentence(comment)) "\n" > file
}
function sentence(text) { text = toupper_first(text); return text ~ /[.:]$/ ? text : text "." }
function toupper_first(text) { return text ~ /^[a-z]+([ ,;]|$)/ && text !~ /^(renga|bool|int|char|double|max|data)([ ,;]|$)/ ? toupper(substr(text, 1, 1)) substr(text, 2) : text }
function short(text) { if (match(text, /[.;] /)) text = substr(text, 1, RSTART - 1); sub(/[.;:]$/, "", text); return text }
# Nearly every function returns a code of errors, so only those that take one are named.
function taken(text, name) { if (name == "RengaErrorCode") sub(/^[^(]*/, "", text); return text }
function has(text, name) { return match(" " text " ", "[^A-Za-z_0-9]" name "[^A-Za-z_0-9]") > 0 }
function page(at,   file, i, all, code, text, also, seen) {
  file = out "/" names[at] ".3"
  if ((getline line < file) > 0) { close(file); return }
  all = names[at]; code = codes[at]; gsub(/  +\\/, " \\", code); text = notes[at]; several = 0
  for (i = at + 1; i <= n && group[i] == at; i++) if (!(names[i] in gone) && index(", " all ",", ", " names[i] ",")) { code = code "\n" codes[i] }
  else if (!(names[i] in gone)) {
    several = 1; all = all ", " names[i]; code = code "\n" codes[i]
    printf ".so man3/%s.3\n", names[at] > (out "/" names[i] ".3"); close(out "/" names[i] ".3")
  }
  if (text == "") text = tails[at]
  printf ".\\\" %s\n.TH %s 3 \"\" \"Renga %s\" \"Renga\"\n.SH NAME\n%s \\- %s\n", heads[at], names[at], version, all, escape(short(text)) > file
  printf ".SH SYNOPSIS\n.nf\n#include <renga.h>\n%s\n.fi\n.SH DESCRIPTION\n%s\n", escape(code), escape(sentence(text)) > file
  if (kinds[at] == "enum" || kinds[at] == "struct") members(code, file, at)
  if (several) for (i = at; i <= n && group[i] == at; i++) if (tails[i] != "") {
    if (i == at) print ".SH VALUES" > file
    term(names[i], tails[i], file)
  }
  also = ""
  while (match(text, /Renga[A-Za-z0-9]+/)) {
    for (i = 1; i <= n_functions; i++) if (functions[i] == substr(text, RSTART, RLENGTH)) also = also " " functions[i] "(),"
    text = substr(text, RSTART + RLENGTH)
  }
  for (i = 1; i <= n_functions; i++) if (index(also, " " functions[i] "()") == 0) if (has(taken(prototype[i], names[at]), names[at]) || (kinds[at] == "macro" && has(code, functions[i]))) also = also " " functions[i] "(),"
  for (i = 1; i <= n; i++) if (i != at && group[i] == i && names[i] != "" && !(names[i] in gone) && kinds[i] != "handle" && kinds[i] != "macro" && has(codes[i], names[at])) also = also " " names[i] ","
  if (also == "" && next_function[at] != "") also = " " next_function[at] "(),"
  sub(/,$/, "", also); sub(/^ /, "", also)
  if (also != "") printf ".SH SEE ALSO\n%s.\n", also > file
  close(file)
}
END {
  for (i = 1; i <= n; i++) {
    if (names[i] == "" || names[i] in gone || names[i] ~ /_$/) continue
    if (check) { if (notes[i] == "" && tails[i] == "") { printf "include/%s:%d: %s: no comment says what it is\n", heads[i], lines[i], names[i]; bad = 1 } if (kinds[i] == "struct") members(codes[i], "", i) }
    else if (group[i] == i) page(i)
  }
  exit bad
}' "$@"
