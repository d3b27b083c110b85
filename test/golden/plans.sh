#!/bin/sh
# Of the planning problems of plans.tsv those of this slot have no longer steps than were recorded; wholeplans.sh has all of them.
. "${0%/*}/../app/common.sh"
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
python3 "$top_srcdir/test/golden/plans.py" --sample "${RENGA_TEST_SLOT:-0}" || fail "plans are worse than those of plans.expected.tsv"
finish
