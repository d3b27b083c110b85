#!/bin/sh
# Networks that are built by size have the losses that PyTorch computes for them, step by step.
# Skipped where there is no python3 with torch and h5py.
modules="torch, h5py"
. "${0%/*}/python.sh"
"$found" "$here/builders.py" data . || exit 1

# same NETWORK DATA [RATE]: trains; what is to be compared is put to the list.
same() {
  accepts 1 train -graph "$1" -data "$2" -data_validation 0 -data_shuffle 0 -batch_size 32 \
    -microbatch_size 8 -steps 6 -seed 1 \
    -optimizer_type sgd -optimizer_learning_rate "${3:-0.3}" \
    -checkpoint_dir "$count" -checkpoint_every 1 \
    -checkpoint_keep 9 -monitor "csv:$count.csv"
  list="$list $1 $2 $count/step_000000001.h5 $count.csv ${3:-0.3}"
  count=$((count + 1))
}
count=0
list=

bert=bert:layers=2,hidden=32,heads=4,sequence=12,vocabulary=50
same $bert,next_sentence=1 bert.h5
same $bert,prenorm=1,segments=0,padding=0,intermediate=48 bert.h5
pairs=layers=2,hidden=32,heads=4,sequence=12,target=9,vocabulary=50
same transformer:$pairs,smoothing=0.1 pairs.h5
same transformer:$pairs,tied=0,padding=0,prenorm=1 pairs.h5
same t5:$pairs,head_width=6,buckets=8,distance=7 pairs.h5
same t5:$pairs,gated=1,tied=0,padding=0 pairs.h5
same ncf:users=40,items=30,factors=8,layers=16-12-6 ratings.h5
same gpt:layers=2,hidden=32,heads=4,sequence=12,vocabulary=50 text.h5
same gpt:layers=2,hidden=32,heads=2,sequence=12,vocabulary=50,tied=0 text.h5
same llama:layers=2,hidden=32,heads=4,groups=2,intermediate=44,sequence=12,vocabulary=50,base=500 text.h5
same llama:layers=2,hidden=32,heads=2,intermediate=44,sequence=12,vocabulary=50,tied=1 text.h5
same resnet:depth=18,width=0.125,image=64,classes=7 images.h5 0.001
same resnet:depth=50,width=0.125,image=64,classes=7 images.h5 0.000002
# No word of the list has a blank.
"$found" "$here/builders.py" check $list >out 2>&1 || fail "other losses than PyTorch's"
[ -z "${VERBOSE:-}" ] || cat out
[ "$failures" -eq 0 ]
