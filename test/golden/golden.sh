#!/bin/sh
# One in eight of the short trainings of cases.tsv, by slot, gives the numbers that were recorded; whole.sh has all of them.
. "${0%/*}/../app/common.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 "$top_srcdir/test/golden/golden.py" --sample "${RENGA_TEST_SLOT:-0}" || fail "numbers are not those of expected.tsv"
finish
