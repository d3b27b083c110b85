#!/bin/sh
# What the commands print, and a small training: the same losses on any layout, resumed on another.
. "${0%/*}/common.sh"

# Short for the program, and what a command uses for each of them.
for asked in -help -h --help; do
  accepts 2 $asked
  says "usage: mpiexec -n RANKS renga train"
  says "renga COMMAND -help"
done
[ "$(wc -l <out)" -le 40 ] || fail "renga -help is long"
accepts 2 train -help
[ "$(awk 'length > 80 && NF > 1' out | wc -l)" -eq 0 ] || fail "lines of renga train -help are longer than 80"
says "usage: renga train"
[ "$(grep -c '^Optimizer$' out)" -eq 1 ] || fail "not one heading Optimizer"
for option in batch_size microbatch_size steps seed resume monitor layout_pipeline plan_load \
  schedule_type timeout optimizer_type device_threads checkpoint_dir checkpoint_every \
  parameter_digest log_view options_file data graph; do
  says "  -$option "
done
for option in temperature plan_diff profile_save sequence; do lacks "  -$option "; done
accepts 1 data -h
says "  -sequence "
says "  -data_validation "
lacks "  -optimizer_type "
accepts 1 plan -h
says "  -partition_type "
lacks "  -checkpoint_dir "
accepts 1 generate -h
says "  -temperature "
accepts 1 -version
says "renga 0."

accepts 1 info -graph $gpt -batch_size 4
says "CrossEntropy"
says "loss"
says "what is trained "
says "trained, several uses "
accepts 1 info -graph $gpt -info_parameters -graph_frozen '*' -graph_trained 'wpe*'
says "  trained                  wpe"
says "  frozen                   blocks.0.ln1.weight"
accepts 1 info -device
says "device cpu: "
says "  cpu, renga 0."
accepts 2 info -device -device_type cuda -device_cuda_module "$PWD/none.so"
says "device cuda: not here: "
accepts 1 plan -graph $gpt -layout_pipeline 3 -layout_data 2 -batch_size 64
says "plan: 3 stages x 2 replicas; steps of 64 samples in 8 micro-batches of 8"
says "schedule 1f1b"
accepts 1 plan -graph $gpt -layout_pipeline 2 -partition_ranks 5
says "idle: 1 of 5 ranks (4)"
accepts 1 plan -graph $gpt -layout_data 9 -layout_pipeline 1 -batch_size 8
says "only 8 of 9 replicas have a micro-batch"
accepts 1 plan -graph $gpt -layout_pipeline 2 -plan_view json
says '"stages":['
accepts 1 plan -graph $gpt -layout_pipeline 2 -batch_size 8 -plan_save plan.txt
says "wrote plan.txt"

accepts 1 profile -graph $gpt -machine_file h200 -profile_samples 1,4 -profile_save costs.txt
says "profile: analytic"
says "machine h200: 32 nodes x 8 devices"
accepts 1 profile -graph $gpt -profile_type file -profile_file costs.txt -profile_samples 2
says "costs of costs.txt for 1, 4 samples"
accepts 2 profile -graph $gpt -microbatch_size 2 -device_threads 1 -profile_file measured.h5
says "profile: measured"
accepts 2 profile -graph $gpt -microbatch_size 2 -device_threads 1 -profile_file measured.h5
says " 0 of them measured now; kept in measured.h5"

# One rank, two stages from a file, two replicas: the same losses and the same digest.
train="train -graph $gpt -data synthetic -batch_size 8 -microbatch_size 2 -seed 3
  -optimizer_type adam -parameter_digest -progress none"
accepts 1 $train -steps 4 -monitor csv:one.csv
digest=$(digest)
accepts 2 $train -steps 4 -monitor csv:two.csv -plan_load plan.txt
says "$digest"
accepts 2 $train -steps 4 -monitor csv:three.csv -layout_data 2 -schedule_type gpipe
says "$digest"
accepts 3 $train -steps 4 -monitor csv:five.csv -partition_type even -layout_pipeline 3 \
  -schedule_eager 0.75
says "$digest"
# The plan is made for the run's own settings: a schedule of the learning rate has its steps.
accepts 2 train -graph $gpt -data synthetic -batch_size 8 -steps 2 -progress none \
  -optimizer_schedule cosine
accepts 2 train -graph $gpt -data synthetic -batch_size 8 -steps 2 -progress none \
  -optimizer_schedule linear -optimizer_warmup_steps 1
cat >four.opts <<OPTIONS
# A layout with an idle rank, by hand.
-partition_type manual -layout_data 1 -partition_cuts blocks.1.ln1
-monitor csv:four.csv -plan_view
OPTIONS
accepts 3 $train -steps 4 -options_file four.opts
says "$digest"
says "1 of 3 ranks is idle"
says "blocks.1.ln1"
for file in two three four five; do
  equal "$(cut -d, -f1,2 one.csv)" "$(cut -d, -f1,2 $file.csv)" "losses of $file.csv differ"
done
[ "$(head -n 1 one.csv)" = "step,loss,learning_rate,gradient_norm,samples_per_second,seconds,validation_loss,perplexity" ] ||
  fail "header of one.csv"
[ "$(wc -l <one.csv)" -eq 5 ] || fail "rows of one.csv"

# Two steps on two stages, the other two on one rank; the monitor goes on in the same file.
accepts 2 $train -steps 2 -layout_pipeline 2 -checkpoint_dir c -monitor csv:resumed.csv
says "checkpoint c/"
echo "7,1,1,1,1,1" >>resumed.csv # of a step after the checkpoint: dropped
accepts 1 $train -steps 4 -checkpoint_dir c -resume -monitor csv:resumed.csv
says "$digest"
equal "$(cut -d, -f1,2 one.csv)" "$(cut -d, -f1,2 resumed.csv)" "losses of resumed.csv"
accepts 1 $train -steps 4 -checkpoint_dir c -resume
says "nothing to do"
newest=$(ls c/*.h5 | tail -n 1)
accepts 1 info -checkpoint "$newest"
echo "my notes" >notes.csv
accepts 1 $train -steps 2 -checkpoint_dir fresh -resume -monitor csv:fresh.csv # nothing is there yet
[ "$(wc -l <fresh.csv)" -eq 3 ] || fail "fresh.csv does not have a header and two rows"
refuses 1 "is no monitor's" $train -steps 6 -checkpoint_dir c -resume -monitor csv:notes.csv
[ "$(cat notes.csv)" = "my notes" ] || fail "notes.csv was changed"

# Text: data set, training with validation, writing.
seq 3000 >text.txt
accepts 2 data text text.txt text.h5 -sequence 16 -data_validation 0.1
accepts 2 train -graph $gpt -data text.h5 -batch_size 8 -steps 5 -eval_every 2 -eval_samples 12 \
  -checkpoint_dir t -progress lines -monitor_every 1 -layout_pipeline 2
says "validation loss"
says "tokens/s"
says "step 5/5"
newest=$(ls t/*.h5 | tail -n 1)
accepts 2 generate -graph $gpt -checkpoint "$newest" -prompt 12 -tokens 20 -seed 5
cp out first
accepts 1 generate -graph $gpt -checkpoint "$newest" -prompt 12 -tokens 20 -seed 5
equal_files out first "the text differs on another layout"
finish
