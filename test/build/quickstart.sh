#!/bin/sh
# TEST ranks: 4
# ./quickstart and ./quickstart python end well, in folders of their own and with few steps.
. "${0%/*}/common.sh"
export RENGA_BUILD="$top_builddir" RENGA_WORK="$scratch/run" RENGA_STEPS=30
cd "$source"
./quickstart >"$scratch/out" 2>&1 || { cat "$scratch/out"; echo "./quickstart fails"; exit 1; }
grep -q "^The checkpoint is $scratch/run/checkpoints/step_" "$scratch/out" || { cat "$scratch/out"; echo "no checkpoint is named"; exit 1; }
./quickstart python >"$scratch/out" 2>&1 || { cat "$scratch/out"; echo "./quickstart python fails"; exit 1; }
