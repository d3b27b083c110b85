#!/bin/sh
# -initial: the parameters of another run, on any layout, and nothing else of it.
. "${0%/*}/common.sh"
train="train -data synthetic -batch_size 8 -microbatch_size 2 -progress none -parameter_digest"

# begins NETWORK FILE: on each layout a run of no steps has the parameters that are wanted.
begins() {
  for layout in "" "-layout_pipeline 2" "-layout_data 2"; do
    [ -z "$layout" ] && ranks=1 || ranks=2
    accepts $ranks $train -graph "$1" -optimizer_type sgd -seed 9 -steps 0 -initial "$2" $layout
    says "$digest"
  done
}

# SGD keeps no moments: the digest is that of the parameters and states.
for network in $mlp resnet:depth=18,classes=4,image=8,channels=1; do
  rm -rf a
  accepts 2 $train -graph $network -optimizer_type sgd -steps 3 -layout_pipeline 2 -checkpoint_dir a
  digest=$(digest)
  begins $network a
  begins $network a/step_000000003.h5
done

# The file's moments, step and place in the data are left alone.
rm -rf a
accepts 2 $train -graph $mlp -steps 3 -checkpoint_dir a -checkpoint_every 1
accepts 1 $train -graph $mlp -steps 1 -initial a/step_000000002.h5 -monitor csv:b.csv -checkpoint_dir b -log_view
says "Checkpoint read"
says "6 of 6 parameters and states are those of a/step_000000002.h5, step 2"
[ "$(tail -n 1 b.csv | cut -d , -f 1)" = 0 ] || fail "the first step is not 0"
accepts 1 info -checkpoint b/step_000000001.h5
says "initial                      a/step_000000002.h5"

# A job's script gives the same command when it goes on; the first time there is nothing to go on from.
accepts 2 $train -graph $mlp -steps 2 -initial a -checkpoint_dir c -resume
says "6 of 6 parameters and states are those of a, step 3"
mv a a.away
accepts 2 $train -graph $mlp -steps 3 -initial a -checkpoint_dir c -resume
says "goes on after step 2"
says "-initial a is not read: the run goes on from its own checkpoint"
refuses 2 "checkpoint a: No such file or directory" $train -graph $mlp -steps 3 -initial a
mv a.away a

# What does not fit is named, and an error unless it may stay as it is.
other=mlp:sizes=8-16-16-5
refuses 2 "a/step_000000003.h5 holds another network, 2 differences (-initial_partial takes what fits):" \
  $train -graph $other -initial a -steps 1
says "l.2.weight is float32[5,16] in the network, float32[4,16] in the file"
accepts 2 $train -graph $other -initial a -initial_partial -steps 1
says "4 of 6 parameters"
says "and the network have 2 differences, which keep what they are:"
accepts 1 $train -graph mlp:sizes=8-16-16-16-4 -initial a -initial_partial -steps 1
says "l.3.weight float32[4,16] of the network is not in the file"
refuses 2 "l.2.bias of the file is not in the network" $train -graph mlp:sizes=8-16-4 -initial a -steps 1
refuses 2 "not one tensor that fits" $train -graph $gpt -data synthetic -initial a -initial_partial
refuses 2 "-initial_partial needs -initial: whose parameters?" $train -graph $mlp -initial_partial
refuses 2 "renga info does not use -initial: it is for renga train eval predict; here it is -checkpoint" \
  info -graph $mlp -initial a
refuses 2 "it is for renga info generate; here it is -initial" $train -graph $mlp -checkpoint a
accepts 2 info -checkpoint a
says "checkpoint a/step_000000003.h5: step 3"

# Damage: of a folder the file before is taken; a file that is named is an error; no folder of checkpoints.
printf spoilt | dd of=a/step_000000003.h5 bs=1 seek=5000 conv=notrunc 2>/dev/null
accepts 2 $train -graph $mlp -initial a -steps 0
says "checkpoint a/step_000000003.h5 is damaged"
says "are those of a, step 2"
refuses 2 "checkpoint a/step_000000003.h5: its names, shapes or checksums are damaged" $train -graph $mlp -initial a/step_000000003.h5 -steps 0
mkdir empty
refuses 2 "directory empty holds no checkpoint to take parameters from" $train -graph $mlp -initial empty
finish
