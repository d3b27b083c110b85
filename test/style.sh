#!/bin/sh
# The rules of style that a script can check.
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root" || exit 1
status=0
folders=$(ls -d src include test tutorials examples 2>/dev/null)
sources=$(find $folders -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' | LC_ALL=C sort)
headers=$(find include src -name '*.h' | LC_ALL=C sort)

LC_ALL=C.UTF-8 grep -nE '^.{101,}' $sources && { echo "lines over 100 columns"; status=1; }
grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $sources && { echo "unfinished work"; status=1; }
grep -LE '^#pragma once' $headers | sed 's/$/: no #pragma once/' | grep . && status=1

# C++ and the exports of the library.
for header in include/*.h; do
  [ "$header" = include/renga.h ] || [ "$(grep -cE '^RENGA_(BEGIN|END)_DECLS$' "$header")" -eq 2 ] ||
    { echo "$header: not all of it is between RENGA_BEGIN_DECLS and RENGA_END_DECLS"; status=1; }
done

# The version is one.
version() { sed -n "s/^#define RENGA_VERSION$1 //p" include/rengasys.h; }
[ "\"$(version _MAJOR).$(version _MINOR).$(version _PATCH)\"" = "$(version)" ] ||
  { echo "include/rengasys.h: two versions"; status=1; }

# Lengths of files and functions, tabs, white space at the end, rulers.
awk '
function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
FNR == 1 { if (long_file) { print long_file; bad = 1 } long_file = "" }
/\t/ { complain("tab") }
/[ \r]$/ { complain("white space at the end") }
/\/[*\/] *[-=*#]{8,}/ { complain("ruler") }
/^\{/ { start = FNR }
/^\}/ && start {
  if (FNR - start - 1 > 60) complain("function of " FNR - start - 1 " lines")
  start = 0
}
FNR > 800 { long_file = FILENAME ": " FNR " lines" }
END { if (long_file) { print long_file; bad = 1 } exit bad }' $sources || status=1

# Members of structs in the library.
python3 test/structs.py || status=1

# Headers have at most 300 lines. These have more; the list may only shrink.
longer='
src/app/app.h 336
src/graph/onnx/onnx.h 500
src/partition/search/model.h 460
src/partition/search/search.h 480
'
wc -l $headers | awk -v longer="$longer" '
BEGIN { n = split(longer, word, " "); for (i = 1; i < n; i += 2) most[word[i]] = word[i + 1] }
$2 == "total" { next }
{ seen[$2] = 1 }
$1 > ($2 in most ? most[$2] : 300) { print $2 ": " $1 " lines, " ($2 in most ? most[$2] : 300) " at most"; bad = 1 }
$1 <= 300 && $2 in most { print $2 ": " $1 " lines: take it out of the list in test/style.sh"; bad = 1 }
END { for (file in most) if (!(file in seen)) { print "test/style.sh: there is no " file; bad = 1 } exit bad }' || status=1

# Names of static functions and of structs stand once in the library, so that one can look them up.
# Test programs are exempt, each being a program of its own, and so are the structs behind a public
# handle that each device defines for itself (_Renga...).
awk '
FNR == 1 { in_comment = 0; head = ""; opened = 0 }
{
  text = $0
  gsub(/"[^"]*"/, "", text)
  if (in_comment) { if (!sub(/^.*\*\//, "", text)) next; in_comment = 0 }
  gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", text)
  if (sub(/\/\*.*/, "", text)) in_comment = 1
}
function define(name) {
  if (name ~ /^_Renga/) return
  if (name in last && last[name] != FILENAME) {
    printf "%s:%d: %s is defined in %s, too\n", FILENAME, FNR, name, last[name]
    bad = 1
  }
  last[name] = FILENAME
}
text ~ /^static [^;={]*[A-Za-z_0-9]+\(/ {
  match(text, /[A-Za-z_0-9]+\(/)
  head = substr(text, RSTART, RLENGTH - 1)
}
head != "" && text ~ /;[ ]*$/ { head = "" }
head != "" && text ~ /^\{/ { define(head); head = "" }
text ~ /^typedef [^;]*\{[ ]*$/ { opened = 1 }
text ~ /^(typedef )?struct [A-Za-z_0-9]+ \{/ { name = text; sub(/^(typedef )?struct /, "", name); sub(/ .*/, "", name); define(name) }
opened && text ~ /^\} [A-Za-z_0-9]+;/ { name = text; sub(/^\} /, "", name); sub(/;.*/, "", name); define(name); opened = 0 }
END { exit bad }' $(find include src -name '*.[ch]' | LC_ALL=C sort) || status=1

# A manual page above every public function, but for getters whose setter has one.
pages=$(find src -name '*.c' -exec awk '/^\/\*@/ { getline; print $1 }' {} + | LC_ALL=C sort -u)
pages="$pages
$(find src -name '*.c' -exec sed -n 's/^RengaErrorCode \(Renga[A-Za-z]*\)Get\([A-Z][A-Za-z]*\)(.*/\1 \2/p' {} + |
  while read -r class noun; do
    printf '%s\n' "$pages" | grep -qx "${class}Set$noun" && echo "${class}Get$noun"
  done)"
awk '/^[A-Za-z].*[ *]Renga[A-Za-z]+\(/ && !/^typedef/ && !/^#/ {
  match($0, /Renga[A-Za-z]+\(/); print substr($0, RSTART, RLENGTH - 1) }' include/*.h |
  LC_ALL=C sort -u | while read -r name; do
  printf '%s\n' "$pages" | grep -qx "$name" || echo "$name: no manual page"
done | grep . && status=1

# The page of a function that checks more than pointers says which errors there are, and each page where to read on, in pages that
# there are; doc/manpages.sh adds what the others leave out, and sends from a setter to its getter, and back.
find src -name '*.c' | LC_ALL=C sort | xargs awk -v pages="$pages" '
function complain(text) { printf "%s:%d: %s: %s\n", FILENAME, begin, name, text; bad = 1 }
BEGIN { n = split(pages, page_names, "\n"); for (i = 1; i <= n; i++) known[page_names[i]] = 1 }
/^\/\*@/ { page = 1; begin = FNR; errors = also = body = 0; name = ""; next }
/^}/ { body = 0 }
body && !errors && /RengaCheck\(|RengaErrorRaise\(/ { complain("no Errors in its manual page"); body = 0 }
page && name == "" { name = $1 }
page && /^   [A-Z]/ { also = 0 }
page && /^   Errors: / { errors = 1 }
page && /^   See also: / { also = found = 1 }
page && also {
  text = $0
  while (match(text, /Renga[A-Za-z0-9]+\(\)/)) {
    other = substr(text, RSTART, RLENGTH - 2)
    if (!(other in known)) complain("See also: there is no page of " other)
    text = substr(text, RSTART + RLENGTH)
  }
}
page && /@\*\// {
  body = 1
  other = name
  sub(/Destroy$/, "Create", other)
  if (match(name, /(Get|Set)[A-Z]/))
    other = substr(name, 1, RSTART - 1) (substr(name, RSTART, 1) == "G" ? "Set" : "Get") substr(name, RSTART + 3)
  if (!found && (other == name || !(other in known))) complain("no See also in its manual page")
  page = found = 0
}
END { exit bad }' || status=1

# Each type, macro and constant of the headers has a comment that says what it is, of which its page is made, and each public function
# is called by a program whose statement its page shows.
sh doc/typepages.sh -check include/renga*.h || status=1
sh doc/examples.sh -check || status=1

# Parameters in manual pages begin with a point; doc/manpages.sh knows no other sign.
find src include -name '*.[ch]' | LC_ALL=C sort | xargs awk '
/^\/\*@/ { page = 1 }
page && /^ *[-+*] / { printf "%s:%d: a parameter in a manual page begins with a point\n", FILENAME, FNR; bad = 1 }
/@\*\// { page = 0 }
END { exit bad }' || status=1
exit $status
