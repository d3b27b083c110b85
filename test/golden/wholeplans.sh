#!/bin/sh
# All planning problems of plans.tsv have no longer steps than were recorded.
. "${0%/*}/../app/common.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 "$top_srcdir/test/golden/plans.py" --all || fail "plans are worse than those of plans.expected.tsv"
finish
