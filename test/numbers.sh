#!/bin/sh
# Numbers and letters are the same in every locale: in src and include, the functions of the C library that ask the locale are
# called in one file only, include/renga/private/number.h, which has others for them; patterns of the shell in pattern.h beside it. Arguments: files instead of all.
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root" || exit 1
own=include/renga/private/number.h
patterns=include/renga/private/pattern.h
[ $# -gt 0 ] || set -- $(find src include -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' | LC_ALL=C sort)
LC_ALL=C awk -v own="$own" -v patterns="$patterns" '
function complain(text) { printf "%s:%d: %s\n", FILENAME, begin, text; bad = 1 }
# The strings of a statement, one after the other, without %%; in rest what is no string.
function split_strings(text,   strings) {
  rest = ""
  strings = ""
  while (match(text, /"([^"\\]|\\.)*"/)) {
    rest = rest substr(text, 1, RSTART - 1) "\"\""
    strings = strings substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
  }
  rest = rest text
  gsub(/%%/, "", strings)
  return strings
}
function check(text,   strings) {
  gsub(/\47(\\.|[^\47\\])\47/, "0", text)
  strings = split_strings(text)
  if (match(rest, /(^|[^A-Za-z0-9_])(strto[dfl]d?|atof|(set|new|use|dup)locale|localeconv|strn?casecmp|fnmatch|glob|strcoll|strxfrm|tolower|toupper|is(alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit)|v[sn]*[fd]?printf|v[sf]?scanf) *\(/) &&
      substr(rest, RSTART, RLENGTH) !~ /strtol *\(/)
    complain("asks the locale: take what renga/private/number.h or pattern.h has for it")
  if (strings ~ /%[-+ #0]*[0-9*]*(\.[0-9*]*)?[lL]?[aefgAEFG]/ &&
      rest ~ /(^|[^A-Za-z0-9_>.])([fsd]|sn|as)?printf *\(/)
    complain("prints a real number in the locale of the program: RengaTextFormat or RengaFilePrint")
  if (strings ~ /%\*?[0-9]*[lL]?[aefgAEFG]/ && rest ~ /(^|[^A-Za-z0-9_>.])[sf]?scanf *\(/)
    complain("reads a real number in the locale of the program: RengaReadReal")
}
FNR == 1 { comment = 0; statement = "" }
FILENAME == own || FILENAME == patterns || /^#include/ { next }
{
  text = $0
  if (comment) {
    if (!match(text, /\*\//)) next
    text = substr(text, RSTART + 2)
    comment = 0
  }
  while (match(text, /\/\*([^*]|\*[^\/])*\*\//)) text = substr(text, 1, RSTART - 1) " " substr(text, RSTART + RLENGTH)
  if (match(text, /\/\*/) && text !~ /"[^"]*\/\*[^"]*"/) { text = substr(text, 1, RSTART - 1); comment = 1 }
  if (statement == "") begin = FNR
  statement = statement " " text
  if (text ~ /[;{}] *\\? *$/) { check(statement); statement = "" }
}
END { exit bad }' "$@"
