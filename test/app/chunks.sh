#!/bin/sh
# Several stages on each rank: the program makes such plans, shows, predicts, saves and runs them, with
# the parameters of one stage on one rank, and goes on from checkpoints of other layouts; what cannot be
# is refused by name.
. "${0%/*}/common.sh"
train="train -graph $gpt -data synthetic -batch_size 8 -microbatch_size 1 -parameter_digest -progress none"

accepts 1 $train -steps 4 -checkpoint_dir one
digest=$(digest)
accepts 1 $train -steps 4 -layout_chunks 3
says "3 stages x 1 replica on 1 rank, 3 stages on each"
says "stages 0, 1, …, replica 0"
says "$digest"
accepts 2 $train -steps 2 -layout_chunks 2 -pipeline_buckets 2 -checkpoint_dir two
says "4 stages x 1 replica on 2 ranks, 2 stages on each; steps of 8 samples in micro-batches of 1; schedule 1f1b"
accepts 4 $train -steps 4 -layout_pipeline 2 -layout_chunks 2 -checkpoint_dir two -resume
says "4 stages x 2 replicas on 4 ranks"
says "$digest"
accepts 2 $train -steps 4 -partition_type tree -layout_chunks 2 -checkpoint_dir one -resume
says "nothing to do"
accepts 2 $train -steps 6 -partition_type tree -layout_chunks 2 -checkpoint_dir one -resume
digest=$(digest)
accepts 1 $train -steps 6 -checkpoint_dir two -resume
says "$digest"

# A plan with costs, through a file.
plan="plan -graph $gpt -machine_file laptop -batch_size 8 -microbatch_size 1"
accepts 1 $plan -partition_ranks 4 -layout_pipeline 2 -layout_chunks 2 -plan_save p.txt
says "4 stages x 2 replicas, 2 virtual stages per rank"
says "predicted:"
says "bound: of all plans on so many devices in micro-batches of 1, with any number of virtual stages per rank"
step=$(grep predicted: out)
accepts 1 $plan -plan_load p.txt -plan_explain
says "$step"
says "each rank computes 2 of the 4 stages"
says "less waiting is saved than by an interleaved order"
accepts 4 $train -steps 6 -plan_load p.txt
says "$digest"

# Gradients that pass by stages of the same ranks: they are taken late, and the lists wait for that.
accepts 1 plan -graph ncf -batch_size 8 -microbatch_size 1 -partition_ranks 4 -layout_pipeline 4 \
  -layout_chunks 5 -schedule_type gpipe
says "20 stages x 1 replica, 5 virtual stages per rank"
accepts 3 train -graph ncf -data synthetic -batch_size 8 -microbatch_size 1 -steps 2 -progress none \
  -parameter_digest -layout_pipeline 3 -layout_chunks 6 -schedule_type gpipe
digest=$(digest)
accepts 1 train -graph ncf -data synthetic -batch_size 8 -microbatch_size 1 -steps 2 -progress none \
  -parameter_digest
says "$digest"

refuses 2 "-layout_chunks 2: 2 virtual stages per rank are not supported by -partition_type auto" \
  $train -layout_chunks 2 -partition_type auto
refuses 2 "the cuts make 3 stages, which are no multiple of 2 virtual stages per rank" \
  $train -layout_chunks 2 -partition_type manual -partition_cuts 10,10,24
refuses 1 "-plan_load and -layout_chunks are both given" $plan -plan_load p.txt -layout_chunks 2
refuses 1 "1000 virtual stages per rank, but the network has only" $train -layout_chunks 1000
accepts 1 plan -graph $gpt -partition_ranks 2 -layout_chunks 2 -plan_explain
says "each rank computes 2 of the 4 stages"
lacks "left no reasons"
chunks="plan -graph $gpt -machine_file laptop -partition_ranks 2 -layout_chunks 2 -partition_memory 300KiB"
refuses 1 "with the other stages of its ranks, needs" $chunks -batch_size 8 -microbatch_size 1
says "micro-batches of one sample are as small as can be"
refuses 1 "a smaller -microbatch_size than 4 (an eighth of the batch, as none is given)" $chunks -batch_size 32
finish
