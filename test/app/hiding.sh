#!/bin/sh
# Hiding the samples that matter least: the same numbers on any layout and after a resume in the
# middle of an epoch, with fewer samples trained; by name what has no losses of single samples.
. "${0%/*}/common.sh"

train="train -graph $mlp -data synthetic -data_samples 103 -batch_size 8 -microbatch_size 2 -progress none
  -optimizer_learning_rate 0.01 -parameter_digest"
hide="-data_hide 0.4 -data_hide_confidence 0.2"

# 14 steps an epoch. Bits on several layouts, of losses, order and parameters.
accepts 1 $train $hide -steps 60 -monitor csv:one.csv
says "epoch 1 hides 32 of 103 samples (31.1 %); 8 with small loss were moved back"
says "epoch 4 hides 16"
expected=$(digest)
rows=$(wc -l <one.csv)
[ "$rows" -eq 52 ] || fail "$rows rows, not one for each of 60 steps but the 9 of hidden samples"
cut -d, -f1-4 one.csv >one
for layout in "-layout_pipeline 2" "-layout_data 3" "-layout_pipeline 3 -layout_data 1"; do
  rm -f two.csv
  accepts 3 $train $hide -steps 60 $layout -monitor csv:two.csv
  equal "$(digest)" "$expected" "another digest with $layout"
  equal "$(cut -d, -f1-4 two.csv)" "$(cat one)" "other rows with $layout"
done
accepts 1 $train -steps 60
differ "$(digest)" "$expected" "hiding changes nothing"

# Stopped while samples are trained, while hidden ones are evaluated, and between epochs.
for stop in 20 27 28; do
  accepts 2 $train $hide -steps 60 -checkpoint_dir c$stop -checkpoint_every $stop -layout_pipeline 2
  rm -f c$stop/step_000000060.h5
  for later in 2 3; do rm -f "$(printf 'c%d/step_%09d.h5' $stop $((later * stop)))"; done
  accepts 3 $train $hide -steps 60 -checkpoint_dir c$stop -resume -layout_data 3
  says "goes on after step $stop"
  equal "$(digest)" "$expected" "another digest after a resume at step $stop"
done

# Other settings, and runs that hid nothing.
accepts 1 $train -steps 61 -checkpoint_dir c28 -resume
grep -q "data_hide  *was 0.4, is 0" out || fail "data_hide is not named"
accepts 1 $train -steps 10 -checkpoint_dir plain
accepts 1 $train $hide -steps 20 -checkpoint_dir plain -resume
says "the checkpoint knows no losses of this run's samples"
refuses 1 "which are no batches of 12" train -graph $mlp -data synthetic -data_samples 103 \
  -microbatch_size 2 -progress none $hide -batch_size 12 -steps 90 -checkpoint_dir c20 -resume
accepts 1 $train -steps 12 -initial c20

# By chance, for comparison; of tokens; what is refused.
accepts 2 $train -data_hide 0.3 -data_importance random -steps 40
says "epoch 1 hides 24 of 103 samples (23.3 %); 0 with small loss were moved back"
byte="train -graph $gpt -data synthetic -data_samples 40 -batch_size 8 -microbatch_size 4 -progress none"
accepts 2 $byte -data_hide 0.4 -steps 14 -data_hide_schedule constant
says "epoch 2 hides 16 of 40 samples (40 %)"
refuses 2 "-data_hide_confidence 0.5: it needs a network with one label for each sample" \
  $byte -data_hide 0.4 -steps 12 -data_hide_confidence 0.5

# By the norm of the gradient: other samples than by the loss, the same ones on any layout.
norm="$train $hide -data_hide_confidence 0 -steps 60 -data_importance"
accepts 1 $norm loss
expected=$(digest)
accepts 1 $norm gradient_norm
differ "$(digest)" "$expected" "norms choose what losses do"
expected=$(digest)
accepts 3 $norm gradient_norm -layout_pipeline 3
equal "$(digest)" "$expected" "another digest of norms on three stages"
accepts 2 $norm gradient_norm -layout_data 2
equal "$(digest)" "$expected" "another digest of norms on two replicas"
accepts 2 $byte -data_hide 0.4 -steps 14 -data_hide_schedule constant -data_importance gradient_norm
says "epoch 2 hides 16 of 40 samples (40 %)"
refuses 2 "the loss is a ReduceSum" train -data synthetic -batch_size 8 -microbatch_size 2 \
  -graph ncf:users=9,items=9,factors=4,layers=16-8-4 -data_hide 0.2 -data_importance gradient_norm

refuses 2 "-data_hide_warmup 2: nothing is hidden without -data_hide" $train -data_hide_warmup 2
refuses 2 "-data_hide 1: must be from 0 to 0.9" $train -data_hide 1
refuses 1 "tensor data_hide of the program lies in the host's memory, and checkpoints of a device that has its own do not take it: use -device_type cpu" \
  $train -data_hide 0.3 -steps 4 -device_type far -checkpoint_dir far
refuses 2 "a loss of 2 sums over the samples" train -data synthetic -batch_size 8 -microbatch_size 2 \
  -graph bert:layers=1,hidden=8,heads=2,sequence=4,vocabulary=11,next_sentence=1 -data_hide 0.2
finish
