#!/bin/sh
# No circle of files within a room: a .c file that uses what another one defines is not used by it
# in turn, however long the way. Read from the sources alone: exported functions and tables are
# defined at column 0; a use is the name in another file, but for comments, strings and members.
# Names that a macro makes are not seen.
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root" || exit 1

find src -name '*.c' | LC_ALL=C sort | xargs awk '
function folder(file) { sub(/^src\//, "", file); sub(/\/[^\/]*$/, "", file); return file }
function room(file) { file = folder(file); sub(/\/.*/, "", file); return file }
# The longest folder that holds both.
function common(a, b) {
  while (a != b && index(b "/", a "/") != 1) if (!sub(/\/[^\/]*$/, "", a)) return a
  return a
}
function uses(name) { if (!((FILENAME, name) in used)) { used[FILENAME, name] = 1; list[FILENAME] = list[FILENAME] " " name } }
# Marks all files that can be reached from one in its room.
function walk(file, start,   n, i, next_file) {
  n = split(arrows[file], next_file, " ")
  for (i = 1; i <= n; i++)
    if (!((start, next_file[i]) in reach)) { reach[start, next_file[i]] = 1; walk(next_file[i], start) }
}
FNR == 1 { files[++n_files] = FILENAME; in_comment = 0; head = "" }
{
  text = $0
  gsub(/\\./, "", text)
  gsub(/"[^"]*"/, "", text)
  if (in_comment) {
    if (!match(text, /\*\//)) next
    text = substr(text, RSTART + 2)
    in_comment = 0
  }
  while (match(text, /\/\*/)) {
    rest = substr(text, RSTART + 2)
    before = substr(text, 1, RSTART - 1)
    if (!match(rest, /\*\//)) { in_comment = 1; text = before; break }
    text = before " " substr(rest, RSTART + 2)
  }
}
# What this file defines: a head at column 0 that is not a declaration.
text ~ /^[A-Za-z_]/ && text !~ /^(typedef|enum|extern|struct[^(=]*\{)/ {
  head = ""
  if (match(text, /[A-Za-z_0-9]+(\[[^=]*\])* = / )) head = substr(text, RSTART, RLENGTH)
  else if (match(text, /[A-Za-z_0-9]+\(/)) head = substr(text, RSTART, RLENGTH)
  sub(/[^A-Za-z_0-9].*/, "", head)
  local = text ~ /^static/
  if (head != "" && text ~ / = /) { own[FILENAME, head] = 1; if (!local) definer[head] = FILENAME; head = "" }
}
/;[ ]*$/ && head != "" { head = "" }
/^\{/ && head != "" {
  own[FILENAME, head] = 1
  if (!local) definer[head] = FILENAME
  head = ""
}
{
  gsub(/(->|\.) *[A-Za-z_][A-Za-z_0-9]*/, " ", text)
  n = split(text, word, /[^A-Za-z_0-9]+/)
  for (i = 1; i <= n; i++) if (length(word[i]) > 3) uses(word[i])
}
END {
  for (f = 1; f <= n_files; f++) {
    from = files[f]
    n = split(list[from], word, " ")
    for (i = 1; i <= n; i++) {
      if (!(word[i] in definer) || (from, word[i]) in own) continue
      to = definer[word[i]]
      if (room(to) != room(from)) continue
      if (!((from, to) in by)) arrows[from] = arrows[from] " " to
      by[from, to] = by[from, to] " " word[i]
    }
  }
  for (f = 1; f <= n_files; f++) walk(files[f], files[f])
  for (f = 1; f <= n_files; f++) {
    from = files[f]
    if (!((from, from) in reach) || from in done) continue
    where = folder(from)
    count = 0
    for (g = f; g <= n_files; g++)
      if ((from, files[g]) in reach && (files[g], from) in reach) {
        done[files[g]] = 1
        circle[++count] = files[g]
        where = common(where, folder(files[g]))
      }
    print where ": a circle of " count " files:"
    for (a = 1; a <= count; a++)
      for (b = 1; b <= count; b++)
        if ((circle[a], circle[b]) in by) print "  " circle[a] " -> " circle[b] ":" by[circle[a], circle[b]]
    bad = 1
  }
  exit bad
}'
