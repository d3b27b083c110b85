#!/bin/sh
# Misuse of the program: each ends on all ranks with a message that says what and where.
. "${0%/*}/common.sh"

train="train -graph $mlp -data synthetic -batch_size 8"
refuses 2 "renga needs a command" # none at all
refuses 2 "renga has no command trian; did you mean train?" trian -graph $mlp
refuses 2 "what is \"extra\" for?" $train extra
refuses 2 "unknown option -batchsize; did you mean -batch_size?" train -graph $mlp -batchsize 8
refuses 2 "unknown option -partition_schedule; did you mean -schedule_type?" $train -partition_schedule gpipe
refuses 2 "-steps abc: not a whole number" $train -steps abc
refuses 2 "-steps -5: must be from 0 to 1e+15" $train -steps -5
refuses 2 "-partition_type evne: not one of auto|exact|rannc|tree|even|manual" $train -partition_type evne
refuses 2 "-schedule_type 2f2b: not one of gpipe|1f1b|interleaved|zb-h1|zb-h2|zb-v|dualpipe-v|auto|file:" $train -schedule_type 2f2b
refuses 2 "-optimizer_type adamx: not one of sgd|adam|adamw" $train -optimizer_type adamx
refuses 2 "-device_type gpu: not one of ref|cpu|cuda|far" $train -device_type gpu
refuses 2 "-partition_memory 3parsecs: not a size in bytes such as 1024, 512MB or 8GiB" $train -partition_memory 3parsecs
refuses 2 "renga train does not use -prompt: it is for renga generate" $train -prompt Hello
refuses 2 "-graph is missing: an ONNX file or a built-in network, such as gpt:layers=4," train -data synthetic
refuses 2 "-data is missing: an HDF5 data set (renga data text makes one), or synthetic" train -graph $mlp
refuses 2 "cannot open file: no-such-file.onnx: No such file or directory" train -graph no-such-file.onnx -data synthetic
refuses 2 "cannot open file: data set no-such-file.h5: No such file or directory" train -graph $mlp -data no-such-file.h5
refuses 2 "gpt has no setting \"layer\"; did you mean layers?" train -graph gpt:layer=2 -data synthetic
echo "this is no network" >garbled.onnx
refuses 2 "garbled.onnx is not an ONNX model: byte 0: wire type 4" train -graph garbled.onnx -data synthetic
echo "this is no data set" >garbled.h5
refuses 2 "data set garbled.h5 is not an HDF5 file; make one of text with: renga data text IN OUT" train -graph $mlp -data garbled.h5
refuses 2 "all 6 parameters are frozen, so that nothing would be trained: -graph_frozen and the file freeze them" $train -graph_frozen '*'

# Layouts.
refuses 2 "2 stages x 2 replicas need 4 ranks, but there are 2" $train -layout_pipeline 2 \
  -layout_data 2
refuses 2 "3 stages need at least 3 ranks" $train -layout_pipeline 3
refuses 2 "5 replicas need at least 5 ranks" $train -layout_data 5
refuses 1 "500 stages, but the network has only" plan -graph $mlp -layout_pipeline 500
refuses 2 "schedule zb-v has 2 virtual stages per rank, but here are 1: give -layout_chunks 2" $train -layout_pipeline 2 -layout_chunks 1 \
  -schedule_type zb-v
refuses 2 "cut \"nothing\": the network has no node or value of that name" $train -partition_type manual -partition_cuts nothing
refuses 2 "-partition_cuts is for -partition_type manual" $train -partition_cuts 3,4
refuses 2 "cannot read the plan no-such-plan: No such file or directory" $train -plan_load no-such-plan
refuses 2 "-plan_load and -layout_pipeline are both given, but the file says it already: leave one out" $train -plan_load p \
  -layout_pipeline 2
accepts 1 plan -graph $gpt -plan_save other-plan
refuses 2 "was made for another network" $train -plan_load other-plan
refuses 2 "the network does not fit on 2 devices of 1.00 KiB each" $train -partition_memory 1KiB

# Of all ranks alike, said once.
once() {
  text=$1
  shift
  refuses 2 "$text" $train "$@"
  [ "$(grep -c "error: " out)" -eq 1 ] || fail "more than one error"
}
once "bad option: -schedule_eager 3 asks for extra warm-up micro-batches of -schedule_type 1f1b, but" \
  -layout_pipeline 2 -schedule_type gpipe -schedule_eager 3
[ $code -eq 5 ] || fail "exit code $code of options that do not go together"
once "that of device far is not the host's" -device_type far -transport_type mpi
once "-graph_whole_batch is for ONNX files" -graph_whole_batch 8

# Files of a run.
refuses 2 "-resume needs -checkpoint_dir: where are the checkpoints?" $train -resume
refuses 2 "-checkpoint_every needs -checkpoint_dir: where are the checkpoints?" $train -checkpoint_every 10
: >a-file
refuses 2 "checkpoint directory a-file/checkpoints cannot be written: Not a directory" $train -checkpoint_dir a-file/checkpoints
refuses 2 "-monitor text:losses: write csv:FILE, tensorboard:DIR or http:PORT, or several of them" $train -monitor text:losses
refuses 2 "-monitor csv:no-such-folder/losses.csv: No such file or directory" $train -monitor csv:no-such-folder/losses.csv
refuses 2 "options file no-options-here: No such file or directory" $train -options_file no-options-here
echo "-stepz 3" >wrong.opts
refuses 2 "wrong.opts: unknown option -stepz; did you mean -steps?" $train -options_file wrong.opts

# Numbers that stop being numbers.
refuses 2 "not a finite number: the loss of step 1 is " $train -steps 50 -optimizer_type sgd -optimizer_learning_rate 1e30

# Other commands.
refuses 1 "renga info: of what?" info
refuses 1 "checkpoint no-such-checkpoint.h5: No such file or directory" info -checkpoint no-such-checkpoint.h5
refuses 1 "of kind text, chat, pairs, ratings, idx, images, csv, npy, not of kind image" data image a b
refuses 1 "renga data text: some word is missing; usage: renga data text IN OUT" data text a
refuses 1 "what is \"c\" for?" data text a b c
refuses 1 "renga data text does not use -data_mean" data text a b -data_mean 1
refuses 1 "-data_mean 1 needs -data_deviation" data idx a b c -data_mean 1
refuses 2 "3 IDX files: 2 are needed" data idx a b c d
refuses 2 "cannot open file: text no-such-text: No such file or directory" data text no-such-text out.h5
refuses 1 "-checkpoint is missing: the file of a trained network" generate -graph $gpt
refuses 1 "renga generate needs a network with an input [batch, sequence] of tokens" generate \
  -graph $mlp -checkpoint a-file

# Data of another shape than the network's.
seq 2000 >text.txt
accepts 1 data text text.txt text.h5 -sequence 12
refuses 2 "text.h5 is there already: -overwrite replaces it" data text text.txt text.h5 -sequence 16
[ $code -eq 10 ] || fail "exit code $code of a data set that is there"
accepts 1 data text text.txt text.h5 -sequence 12 -overwrite
refuses 2 "input tokens of the network takes int64[16] per sample; text.h5:/training has uint8[12] per sample" train -graph $gpt -data text.h5 -steps 1
refuses 2 "input x of the network takes float32[8] per sample; text.h5:/training has uint8[12] per sample" $train -data text.h5

# What is read is not replaced by what is written.
cp text.h5 kept.h5
refuses 2 "text.txt is read by this command" data text text.txt ./text.txt -sequence 12
refuses 2 "text.h5 is read by this command" predict text.h5 -graph $gpt -data text.h5 -overwrite
refuses 2 "text.h5 is read by this command" train -graph $gpt -data text.h5 -steps 1 -log_trace text.h5
refuses 1 "text.h5 is read by this command" train -graph $gpt -data text.h5 -steps 1 -graph_view json:text.h5
refuses 1 "text.h5 is read by this command" predict text.h5 -graph $gpt -data 'te*.h5' -overwrite
cp text.h5 other.h5
refuses 1 "text.h5 is read by this command" train -graph $gpt -data other.h5,text.h5 -steps 1 -log_trace text.h5
accepts 1 data text text.txt made.h5 -sequence 16 -vocabulary 260 -vocabulary_save kept
refuses 1 "kept is read by this command" data text text.txt kept -sequence 16 -vocabulary_file kept
equal_files text.h5 kept.h5 "the data set was changed"
finish
