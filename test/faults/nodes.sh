#!/bin/sh
# test/bench/heal.py over two network namespaces in the place of nodes, two ranks on each: the launcher's part on a node is killed,
# and a node's link is cut, in a run that shards parameters and whose sums go by way of relays; it ends with the parameters of a run
# that nothing happened to. Needs root; skipped where namespaces cannot be made.
name=renga-nodes$$ tools=python3
. "${0%/*}/namespaces.sh"

star 85 # it can be made, and is not needed
latest="NODES=2 test/bench/heal.py"
NODES=2 STEPS=150 python3 "$top_srcdir/test/bench/heal.py" "$renga" 2 44 >out 2>&1 || fail "exit code $?: $latest"
says "2 of 2 good"
finish
