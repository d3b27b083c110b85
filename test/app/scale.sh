#!/bin/sh
# How the Transformer scales to 1,200 ranks of stampede2, simulated on shared links (scale.py): the ends of the tables that
# `make scale` writes. What was asked is reached, in little time and memory.
. "${0%/*}/common.sh"
python3 "$top_srcdir/test/app/scale.py" "$renga" -machines "$top_srcdir/share/renga/machines" -quick >out 2>&1 || fail "a plan is missing, or takes too much"
cat out
says "weak scaling to 1,200 ranks, at least 98 %"
says "strong scaling to 400 ranks, at least 85 %"
grep -q "not reached" out && fail "what was asked is not reached"
finish
