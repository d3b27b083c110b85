#!/bin/sh
# Runs beside and after each other: one per folder, nothing of another one replaced, settings that
# change are named, the best checkpoint, the time limit, steps that are not finite.
. "${0%/*}/common.sh"

train="train -graph $mlp -data synthetic -batch_size 8 -microbatch_size 2 -progress none"

# Two runs in one folder: the second is refused by name; a killed one is no hindrance.
"$renga" $train -steps 100000000 -checkpoint_dir c -checkpoint_every 1 >first 2>&1 &
first=$!
wait_for sh -c "ls c/step_*.h5"
refuses 2 "checkpoint directory c is in use by another run: process $first on $(uname -n), since 20" \
  $train -checkpoint_dir c -resume
kill -9 $first
wait $first 2>/dev/null
accepts 2 $train -checkpoint_dir c -resume -steps 1
says "goes on after step"
[ ! -e c/.renga_lock ] || fail "the lock is left"
[ -z "$(ls c/*.tmp 2>/dev/null)" ] || fail "a dead run's unfinished file is left"

# Neither checkpoints nor rows of another run are replaced.
refuses 2 "c holds the checkpoints of another run, the newest of step" $train -checkpoint_dir c
accepts 2 $train -steps 3 -checkpoint_dir d -monitor csv:rows.csv
cp rows.csv before.csv
refuses 2 "the file is there already and is not replaced" $train -steps 3 -monitor csv:rows.csv
equal_files rows.csv before.csv "rows.csv was changed"
refuses 2 "-log_trace no-such-folder/t.json: No such file or directory" $train -steps 3 -log_trace no-such-folder/t.json

# A full disk costs rows, not the run: its end says how many, and a resume that there is a gap.
refuses 2 "-monitor csv:/dev/full: 3 rows of this run, which is done, are missing" $train -steps 3 \
  -monitor csv:/dev/full -parameter_digest
[ $code -eq 10 ] || fail "exit code $code where rows are missing"
says "parameter digest"
sed -i 2d rows.csv
accepts 2 $train -steps 3 -checkpoint_dir d -resume -monitor csv:rows.csv
says "of the 3 steps so far 1 have no row in the file, the first of them step 0"

# Settings that a resume changes.
accepts 2 $train -steps 4 -checkpoint_dir d -resume -optimizer_learning_rate 1e-3
! grep -q "other settings" out || fail "the same settings are named"
accepts 2 train -graph $mlp -data synthetic -data_samples 100 -batch_size 8 -steps 5 -checkpoint_dir d \
  -resume -optimizer_learning_rate 0.01 -optimizer_type adam -data_shuffle false -progress none
says "had other settings:"
for row in "data_digest  *was [0-9a-f]*, is " "optimizer_type  *was adamw, is adam" \
  "optimizer_learning_rate  *was .*, is 0.01" "data_shuffle  *was true, is false"; do
  grep -q "$row" out || fail "no row $row"
done
! grep -q "microbatch_size  *was" out || fail "the micro-batch was not kept"
refuses 2 "-resume_strict: the run that wrote the checkpoint had other settings:" $train -steps 9 \
  -checkpoint_dir d -resume -resume_strict

# One order of the samples has several names.
accepts 1 $train -steps 3 -checkpoint_dir same
for same in "-data_shuffle global" -data_shuffle "-data_shuffle Yes"; do
  accepts 1 $train -steps 3 -checkpoint_dir same -resume -resume_strict $same
done
refuses 1 "data_shuffle             was true, is off" $train -steps 3 -checkpoint_dir same -resume -resume_strict -data_shuffle off

# The weight decay that is the default of adamw is known as what it is.
accepts 1 info -checkpoint d/step_000000003.h5
grep -q "optimizer_weight_decay  *0.01$" out || fail "the weight decay of adamw"
accepts 2 $train -steps 3 -checkpoint_dir w
accepts 2 $train -steps 4 -checkpoint_dir w -resume -resume_strict -optimizer_weight_decay 0.01
refuses 2 "optimizer_weight_decay   was 0.01, is 0" $train -steps 5 -checkpoint_dir w -resume \
  -resume_strict -optimizer_weight_decay 0
accepts 2 $train -steps 3 -checkpoint_dir v -optimizer_type sgd
accepts 2 $train -steps 4 -checkpoint_dir v -resume -resume_strict -optimizer_type sgd \
  -optimizer_weight_decay 0
accepts 1 train -help
says "real, >= 0; default 0.01"

# Validation in the rows, the best checkpoint, an early stop.
seq 3000 >text.txt
accepts 1 data text text.txt text.h5 -sequence 16 -data_validation 0.1
language="train -graph $gpt -data text.h5 -batch_size 8 -microbatch_size 4 -eval_samples 16 -progress none"
accepts 2 $language -steps 6 -eval_every 2 -checkpoint_dir e -keep_best -monitor csv:text.csv
says "checkpoint best.h5: the least loss"
says "perplexity"
[ -s e/best.h5 ] || fail "no e/best.h5"
awk -F, 'NR > 1 && ($1 % 2 == 1) != ($7 != "" && ($8 / exp($7) - 1) ^ 2 < 1e-6) { bad = 1 } END { exit bad }' \
  text.csv || fail "validation in text.csv"
accepts 1 info -checkpoint e/best.h5
says "best_validation_loss"
accepts 2 $language -steps 60 -eval_every 1 -early_stop 2 -optimizer_learning_rate 0
says "early stop: no loss below"
for time in 1 2; do # the same command again: no step more
  accepts 2 $language -steps 60 -eval_every 1 -early_stop 2 -optimizer_learning_rate 0 -checkpoint_dir h -resume
  says "early stop: no loss below"
done
says "nothing to do: step 3 of 3 is reached"
accepts 2 $language -steps 5 -eval_every 1 -checkpoint_dir h -resume
says "goes on after step 3"

# A run that left between a checkpoint and the validation of its step owes it: rows, early stop and parameters are those of a
# run that did not.
owes="train -graph $mlp -data synthetic -data_samples 103 -data_validation 0.2 -batch_size 8 -microbatch_size 2 -progress none
  -steps 200 -eval_every 4 -early_stop 2 -optimizer_learning_rate 0.05 -parameter_digest -checkpoint_every 4"
accepts 1 $owes -checkpoint_dir whole -checkpoint_keep 100 -monitor csv:whole.csv
says "early stop: no loss below 1.44903, of step 12, in 2 validations"
digest=$(digest)
mkdir owes
cp whole/step_000000012.h5 owes
sed -n '1,12p;13s/,[^,]*,$/,,/p' whole.csv >owes.csv
accepts 2 $owes -checkpoint_dir owes -resume -monitor csv:owes.csv
says "after step 12 "
says "$digest"
for rows in whole owes; do cut -d, -f1-4,7,8 $rows.csv >$rows.cut; done
equal_files whole.cut owes.cut "other rows after the resume"

accepts 2 train -graph $gpt -data text.h5 -batch_size 8 -microbatch_size 4 -eval_samples 30 -steps 1 \
  -progress lines -monitor_every 2
says "validating, 16 of 30 samples"
lacks "validating, 8 of 30"
refuses 2 "-keep_best needs -checkpoint_dir: where are the checkpoints?" $language -keep_best
refuses 1 "-early_stop 2 counts validations during the run: -eval_every says how often" $language -early_stop 2
refuses 1 "the data have no validation part" $train -checkpoint_dir n -keep_best

# The time limit: a checkpoint, and exit code 75. Seconds fly, so that a limit which is never met before the first step comes soon.
: >"$flies"
timeout -k 5 $limit "$mpiexec" -n 2 $flying "$renga" $train -steps 100000000 -checkpoint_dir t \
  -time_limit 20:00 </dev/null >out 2>&1
code=$?
[ $code -eq 75 ] || fail "exit code $code at the time limit"
says "the time limit is near: leaving after step"
[ "$(ls t/*.h5 | wc -l)" -eq 1 ] || fail "no checkpoint at the time limit"
SLURM_JOB_END_TIME=$(($(date +%s) + 1200)) timeout -k 5 $limit $flying "$renga" $train -steps 100000000 \
  </dev/null >out 2>&1
code=$?
[ $code -eq 75 ] || fail "exit code $code at the end of a Slurm job"
refuses 1 "-time_limit 1:2:3:4: write seconds, MM:SS, HH:MM:SS or D-HH:MM:SS" $train -time_limit 1:2:3:4
# A data set that becomes shorter while it is read, instead of zeros.
awk 'BEGIN { for (i = 0; i < 3000; i++) print "In the beginning of" }' >cut.txt
accepts 1 data text cut.txt cut.h5 -sequence 16
timeout -k 5 $limit "$mpiexec" -n 2 "$renga" train -graph "$gpt" -data cut.h5 -batch_size 8 \
  -steps 100000000 -layout_pipeline 2 -monitor csv:cut.csv </dev/null >out 2>&1 &
cutting=$!
wait_for test -s cut.csv
truncate -s 10000 cut.h5
wait $cutting
code=$?
[ $code -ne 0 ] && [ $code -ne 124 ] && [ $code -ne 137 ] || fail "exit code $code on a data set cut short"
says "data set cut.h5 changed while it was in use"
says "noticed at sample"
finish
