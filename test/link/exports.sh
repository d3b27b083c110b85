#!/bin/sh
# The shared library gives a program names that begin with Renga, between RENGA_BEGIN_DECLS and _END_ of a header.
library=${top_builddir:-.}/.libs/librenga.so
[ -e "$library" ] || { echo "no shared library here"; exit 77; }
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
nm -D --defined-only "$library" | awk '{ print $NF }' | LC_ALL=C sort -u >"$folder/exported"
grep -rl RENGA_BEGIN_DECLS "$top_srcdir/include" | xargs cat | grep -o 'Renga[A-Za-z0-9_]*' | LC_ALL=C sort -u >"$folder/declared"
[ -s "$folder/exported" ] && [ -s "$folder/declared" ] || exit 99
LC_ALL=C comm -23 "$folder/exported" "$folder/declared" | sed 's/$/ is exported, and no header says so/' | grep . && exit 1
grep -v '^Renga' "$folder/exported" && exit 1
grep '_Private$' "$folder/exported" && exit 1
exit 0
