#!/bin/sh
# All of the short trainings of cases.tsv give the numbers that were recorded.
. "${0%/*}/../app/common.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 "$top_srcdir/test/golden/golden.py" --all || fail "numbers are not those of expected.tsv"
finish
