#!/bin/sh
# -pipeline_on_nonfinite: stop, skip and rollback, on all layouts to the same bits; a file that a step followed that
# was not finite is not gone on from.
. "${0%/*}/common.sh"

# array NAME TYPE SHAPE: an array of NumPy, of the bytes that are read.
array() {
  printf '\223NUMPY\001\000v\000' >"$1"
  printf "%-117s\n" "{'descr': '$2', 'fortran_order': False, 'shape': $3, }" >>"$1"
  cat >>"$1"
}

# 64 samples of 8 numbers between 0.5 and 1, as letters that a '?' makes such; one of sample 29 is infinite.
awk 'BEGIN { for (i = 0; i < 512; i++) printf "%c%c%c?", 33 + i % 90, 33 + i * 7 % 90, 33 + i * 31 % 90 }' |
  array x.npy '<f4' '(64, 8)'
printf '\000\000\200\177' | dd of=x.npy bs=1 seek=$((128 + 4 * (8 * 29 + 3))) conv=notrunc 2>/dev/null
for i in 1 2 3 4 5 6 7 8; do printf '\000\001\002\003\003\001\000\002'; done | array labels.npy '|u1' '(64,)'
accepts 1 data npy x.npy labels.npy d.h5
train="train -graph $mlp -data d.h5 -data_shuffle false -batch_size 8 -microbatch_size 2 -parameter_digest
  -progress none"

# same ARGUMENT...: the digest is the same on each layout.
same() {
  digest=
  for layout in "" "-layout_pipeline 2" "-layout_data 2"; do
    rm -rf c
    [ -z "$layout" ] && ranks=1 || ranks=2
    accepts $ranks $train "$@" $layout
    : "${digest:=$(digest)}"
    says "$digest"
  done
}

# Step 3 fails. The file after step 3 is bad, that after step 2 is good: step 3 was finite up to it.
same -steps 6 -pipeline_on_nonfinite rollback -checkpoint_dir c -checkpoint_every 1 -checkpoint_keep 9
says "rolled back to the checkpoint of step 2; batches 2 to 3 are left out"
mkdir b
mv c/step_000000003.h5 b
refuses 1 "the loss of step 3 is" $train -steps 6 -checkpoint_dir b -resume
says "the checkpoint of step 3 was followed by a step that was not finite"
accepts 2 $train -steps 9 -pipeline_on_nonfinite rollback -checkpoint_dir c -resume
says "goes on after step 6"

# An interrupted run goes back to where the undisturbed one does: not to the last file of its first part.
same -steps 7 -pipeline_on_nonfinite rollback -checkpoint_dir c -checkpoint_every 2
digest >undisturbed
rm -rf c
accepts 1 $train -steps 3 -pipeline_on_nonfinite rollback -checkpoint_dir c -checkpoint_every 2 -checkpoint_keep 1
accepts 2 $train -steps 7 -pipeline_on_nonfinite rollback -checkpoint_dir c -checkpoint_every 2 -resume -layout_pipeline 2
says "rolled back to the checkpoint of step 2; batches 2 to 3 are left out"
says "$(cat undisturbed)"

# Another time in each epoch; the limit.
same -steps 16 -pipeline_on_nonfinite rollback -checkpoint_dir c -checkpoint_every 2
says "rolled back to the checkpoint of step 2; batches 2 to 3 are left out"
says "rolled back to the checkpoint of step 10; batches 10 to 11 are left out"
rm -rf c
refuses 2 "step 11 is not finite after 1 rollbacks" $train -steps 16 -pipeline_on_nonfinite rollback \
  -checkpoint_dir c -checkpoint_every 2 -rollback_limit 1
rm -rf c
refuses 2 "there is no checkpoint yet that a finite step followed" $train -steps 16 \
  -pipeline_on_nonfinite rollback -checkpoint_dir c -checkpoint_every 100
refuses 2 "-pipeline_on_nonfinite rollback needs -checkpoint_dir" $train -steps 1 -pipeline_on_nonfinite rollback

# Without: the step leaves no trace, or the run ends there.
same -steps 6 -pipeline_on_nonfinite skip
rm -rf c
refuses 2 "the loss of step 3 is" $train -steps 6 -checkpoint_dir c -checkpoint_every 1
accepts 1 $train -steps 3 -checkpoint_dir c -resume
says "goes on after step 2"
finish
