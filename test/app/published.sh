#!/bin/sh
# Steps that others published beside what is predicted for their layouts (published.py): a few rows, which are within 10 % in the
# mean. `make published` holds all rows against it, and writes the table of doc/performance.md.
. "${0%/*}/common.sh"
python3 "$top_srcdir/test/app/published.py" "$renga" -machines "$top_srcdir/share/renga/machines" -quick -rows -mean 10 -most 45 >out 2>&1 ||
  fail "predictions are off"
cat out
finish
