#!/bin/sh
# The layers of doc/design.md: what a room of src/ may include, and what only sys and app may call.
root=${top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root" || exit 1
status=0

# Lines "header room" for all headers, then one pass over the sources.
headers=$(
  for room in sys op comm device graph data machine plan persistent optimizer transport \
    schedule settings profile partition pipeline checkpoint trainer; do
    echo "renga$room.h $room"
    find "src/$room" -name local.mk -exec grep -oh 'renga/private/[a-z0-9_]*\.h' {} + |
      sed "s/\$/ $room/"
  done
  echo "renga/private/object.h sys"
)
find src include -name '*.[ch]' | LC_ALL=C sort | xargs awk -v headers="$headers" '
function level(room) { return room in levels ? levels[room] : -1 }
function complain(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
BEGIN {
  n = split("sys 0 op 1 comm 2 device 2 graph 2 data 3 machine 2 plan 3 persistent 3 optimizer 3 transport 3 " \
            "schedule 4 settings 5 profile 6 partition 7 pipeline 8 checkpoint 9 trainer 10 app 11 top 12", word, " ")
  for (i = 1; i < n; i += 2) levels[word[i]] = word[i + 1]
  n = split(headers, line, "\n")
  for (i = n; i >= 1; i--) { split(line[i], pair, " "); owner[pair[1]] = pair[2] }  # the lowest room that lists it
}
FNR == 1 {
  split(FILENAME, part, "/")
  room = "top"
  if (part[1] == "src" && part[3] != "") room = part[2]
  if (part[1] == "include") {
    header = substr(FILENAME, 9)
    room = header in owner ? owner[header] : "top"
  }
  in_comment = 0
  if (level(room) < 0) complain("room " room " is not in the layers of doc/design.md")
}
/^#include "/ {
  split($0, quoted, "\"")
  name = quoted[2]
  if (name ~ /\.\.\// && !(name ~ /^\.\.\/[^.]/ && part[4] != ""))
    complain("include " name ": not out of the room")
  if (name == "renga.h" && room != "app" && room != "top") complain("renga.h is for programs")
  if (name in owner) {
    other = owner[name]
    if (other != room && level(other) >= level(room))
      complain(room " may not include " name " of " other)
    if (room == "app" && name ~ /private/ && other != "sys")
      complain("app uses public headers only")
  } else if (name ~ /^renga/ && name != "renga.h") complain(name " belongs to no room")
  next
}
{
  # Without strings and comments.
  text = $0
  gsub(/\\./, "", text)
  gsub(/"[^"]*"/, "\"\"", text)
  if (in_comment) {
    if (!match(text, /\*\//)) next
    text = substr(text, RSTART + 2)
    in_comment = 0
  }
  while ((from = index(text, "/*")) > 0) {
    rest = substr(text, from + 2)
    to = index(rest, "*/")
    if (to == 0) { in_comment = 1; text = substr(text, 1, from - 1); break }
    text = substr(text, 1, from - 1) " " substr(rest, to + 2)
  }
  if (FILENAME != "src/sys/open.c" && FILENAME !~ /^src\/device\/cuda\/module/ &&
      text ~ /(^|[^A-Za-z_>.])(fopen|freopen|open|open64|openat|creat|gzopen|png_image_begin_read_from_file) *\(/)
    complain("opens a file: use RengaFileOpen_Private, which does not wait for the other end of a pipe")
  if (text ~ /(gethostid|gethostbyname|getaddrinfo) *\(/ && room != "app")
    complain("asks the name server, for which a node of a cluster may wait in vain: RengaHashHost_Private names the host")
  if (text ~ /H5Fopen *\(/ && FILENAME !~ /^src\/(data\/hdf5|data\/hdf5origin|profile\/store|checkpoint\/layout)\.c$/)
    complain("opens a file by HDF5: a file that looks at it first by RengaFileCheck_Private does")
  if (room == "sys" || room == "app" || room == "top" || FILENAME ~ /^include/) next
  if (FILENAME ~ /^src\/(partition\/search|pipeline)\// && text ~ /RengaOptionsGet/)
    complain("reads an option: take it from the settings, which have them of SetFromOptions")
  if (text ~ /MPI_COMM_WORLD/) complain("MPI_COMM_WORLD: use the communicator of the object")
  if (text ~ /(^|[^A-Za-z_>.])(printf|puts|putchar|vprintf|perror) *\(/) complain("prints to the user")
  if (text ~ /(fprintf|fputs|vfprintf|RengaFilePrint|RengaFilePrintList) *\( *(stderr|stdout)/ || text ~ /, *(stderr|stdout)\)/)
    complain("prints to the user")
  if (text ~ /(^|[^A-Za-z_>.])(exit|_exit|abort|assert) *\(/) complain("ends the program: return a code")
  if (text ~ /(^|[^A-Za-z_>.])(malloc|calloc|realloc|strdup) *\(/) complain("use RengaMalloc")
  if (text ~ /(^|[^A-Za-z_>.])(rand|srand|random|drand48) *\(/) complain("use RengaRandomUniform")
}
END { exit bad }' || status=1
exit $status
