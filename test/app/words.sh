#!/bin/sh
# README.md, the pages, help, messages and manual pages: the field's words, short sentences, one line of help; and what is planted
# in a copy of them is found.
top=$(cd "$top_srcdir" && pwd)
renga=$(cd "$top_builddir" && pwd)/renga
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
[ -z "$SANITIZERS" ] || { echo "sanitizers would say nothing new of these texts"; exit 77; }
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1
status=0
words="python3 $top/test/app/words/words.py"
$words "$top" "$renga" || status=1

# A text with a mistake of each kind, in each place.
wrong=$scratch/wrong
mkdir -p "$wrong/doc" "$wrong/src" "$wrong/include" "$wrong/test/app/words"
cp "$top/test/app/words/words.tsv" "$wrong/test/app/words"
printf '# Renga\n\nTensor ranks share\nout the lanes.\n%s\n' "$(yes 'a line' | head -80)" >"$wrong/README.md"
printf '# Page\n\nThis sentence %s.\n\n| a | all is made once again |\n' "$(yes 'and on' | head -40 | tr '\n' ' ')" >"$wrong/doc/page.md"
printf 'what replicas have a share of\n' >"$wrong/doc/renga.1"
printf '/*@\n   F - how many lost seconds\n@*/\nint F(void) { return puts("a stage runs forward " "again"); }\n' >"$wrong/src/f.c"
printf '/*@\n   RengaF - a page\n\n   Input:\n   . count - elements\n   . name - of it\n@*/\nint RengaF(int count, const char *name)\n{\n}\n' >"$wrong/src/g.c"
printf '/* micro-batches begun early */\n' >"$wrong/include/renga.h"
$words "$wrong" "$renga" words sentences readme items >"$scratch/out" && { echo "a text with mistakes is taken"; status=1; }
for mistake in 'README.md:3: "Tensor ranks"' 'README.md:3: "share out"' 'doc/page.md:5: "made once again"' 'doc/page.md:3: 82 words' \
  'doc/renga.1:1: "have a share of"' 'src/f.c:2: "lost seconds"' 'src/f.c:4: "forward again"' 'include/renga.h:1: "begun early"' \
  'src/g.c:5: RengaF: count: a number without its range' 'src/g.c:6: RengaF: name: begins as no sentence does' \
  'README.md has 84 lines' 'README.md: half of its sentences'; do
  grep -q -F -e "$mistake" "$scratch/out" || { echo "not found: $mistake"; status=1; }
done
[ $status -eq 0 ] || cat "$scratch/out"
exit $status
