#!/bin/sh
# Networks in fp8 have the gradients of PyTorch, whose own types of 8 bits round the factors of linear layers.
# Skipped where there is no python3 with torch and h5py.
modules="torch, h5py"
. "${0%/*}/python.sh"
"$found" "$here/fp8.py" data . || exit 1

# same NETWORK DATA: a step of plain SGD, between two checkpoints.
same() {
  accepts 1 train -graph "$1" -data "$2" -data_validation 0 -data_shuffle 0 -batch_size 32 -microbatch_size 32 \
    -steps 2 -seed 1 -optimizer_type sgd -optimizer_learning_rate 0.5 -precision fp8 -checkpoint_dir "$count" -checkpoint_every 1
  list="$list $1 $2 $count/step_000000001.h5 $count/step_000000002.h5 0.5"
  count=$((count + 1))
}
count=0
list=

sizes=layers=2,hidden=32,heads=4,sequence=12,vocabulary=50
same mlp:sizes=24-32-48-5,activation=tanh points.h5
same gpt:$sizes text.h5
same llama:$sizes,groups=2,intermediate=44,base=500 text.h5
same bert:$sizes,next_sentence=1 bert.h5
# No word of the list has a blank.
"$found" "$here/fp8.py" check $list >out 2>&1 || fail "other gradients than PyTorch's"
[ -z "${VERBOSE:-}" ] || cat out
[ "$failures" -eq 0 ]
