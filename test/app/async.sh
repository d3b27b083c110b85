#!/bin/sh
# Checkpoints that are written while training goes on: the same parameters, files and rows as those
# written at once, sharded, in 16 bits, interrupted; kill -9 at any moment loses nothing that was said to
# be there. RENGA_KILLS=100: more kills.
. "${0%/*}/common.sh"
train="train -graph $gpt -data synthetic -batch_size 8 -microbatch_size 2 -parameter_digest -progress none"

refuses 1 "-checkpoint_async needs -checkpoint_dir: where are the checkpoints?" $train -steps 2 -checkpoint_async

# Copies count: what the plan takes fits alone, not with them.
wide="train -graph mlp:sizes=40-500-70-5 -data synthetic -batch_size 8 -microbatch_size 1 -steps 2 -checkpoint_dir m -progress none"
accepts 1 $wide -partition_memory 1600KiB
rm -rf m
refuses 1 "more than -partition_memory 1.56 MiB; give" $wide -partition_memory 1600KiB -checkpoint_async
accepts 1 $wide -partition_memory 3MiB -checkpoint_async -checkpoint_every 1 -log_view
says "checkpoint, copied aside"
rm -rf m
# Where one rank of a node writes for all of them, it copies all.
accepts 4 $train -steps 4 -layout_data 2 -layout_pipeline 2 -checkpoint_dir m -checkpoint_async -checkpoint_every 2 -checkpoint_writers 1 -log_view
grep -Eq 'copied aside +([0-9.]+ [KM]iB) +\1' out || fail "copies take something else than is counted"
rm -rf m

# hashes FOLDER: of the tensors of all files, as renga info lists them; a file's size is that of its options, too
hashes() {
  for file in "$1"/*.h5; do
    "$renga" info -checkpoint "$file" | grep -E '^  /|step [0-9]+,' | sed 's/^checkpoint [^:]*//; s/, [0-9.]* [KM]iB, whole/, whole/'
  done
}
for manner in '' '-layout_zero 1' '-precision bf16'; do
  for beside in '' -checkpoint_async; do
    accepts 2 $train -steps 12 -layout_data 2 $manner -checkpoint_dir c$beside -checkpoint_every 5 $beside
    digest >digest$beside
    hashes c$beside >list$beside
  done
  equal_files digest digest-checkpoint_async "other parameters with -checkpoint_async $manner"
  [ "$(grep -c 'step 5,\|step 10,\|step 12,' list-checkpoint_async)" -eq 3 ] || fail "files are missing $manner"
  equal_files list list-checkpoint_async "other files with -checkpoint_async $manner"
  accepts 4 $train -steps 16 -layout_data 2 -layout_pipeline 2 $manner -checkpoint_dir c-checkpoint_async \
    -checkpoint_async -checkpoint_every 2 -resume -log_view
  digest >resumed
  grep -q 'Checkpoint stall' out && grep -q 'Checkpoint write' out || fail "-log_view does not say how long it took"
  accepts 1 $train -steps 16 $manner -checkpoint_dir c -resume
  equal "$(digest)" "$(cat resumed)" "a resumed run has other parameters $manner"
  rm -rf c c-checkpoint_async
done

# A run that a bad sample ends leaves the files that it would have left otherwise: here label 201 is no class.
awk 'BEGIN { print "a,b,kind"; for (i = 0; i < 404; i++) printf "%d,%d,k%03d\n", i % 7, (i * i) % 11, i % 202 }' >table.csv
accepts 1 data csv table.csv table.h5 -data_label kind
LC_ALL=C sed 's/\xc9\x00\x00\x00\x00\x00\x00\x00/\xc9\x01\x00\x00\x00\x00\x00\x00/' table.h5 >wrong.h5
for beside in '' -checkpoint_async; do
  refuses 2 "457 is none of the 202 classes" train -graph mlp:sizes=2-8-202 -data wrong.h5 -batch_size 8 -steps 100 \
    -layout_data 2 -checkpoint_dir w$beside -checkpoint_every 1 -progress none $beside
  ls w$beside >list$beside
done
equal_files list list-checkpoint_async "an error loses a file with -checkpoint_async"
[ "$(grep -c 'h5$' list)" -eq 3 ] || fail "not the files of three steps"

# Kills: a file that was said to be there is there, and the run goes on from one no older.
has_come_to() { said=$(sed -n 's/^checkpoint after step //p' killed | tail -n 1) && [ "${said:-0}" -ge "$1" ]; }
i=0
while [ $i -lt "${RENGA_KILLS:-4}" ]; do
  rm -rf k killed
  : >killed
  timeout -k 5 $limit "$mpiexec" -n 2 "$renga" $train -steps 100000000 -checkpoint_dir k -checkpoint_every 1 -checkpoint_keep 2 \
    -checkpoint_async -layout_pipeline 2 </dev/null >killed 2>&1 &
  launcher=$!
  wait_for has_come_to $((1 + i * 7919 % 23))
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/cwd")" = "$PWD" ] || continue
    tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qx "PMI_RANK=$((i % 2))" && kill -9 "${process#/proc/}"
  done
  wait $launcher
  said=$(sed -n 's/^checkpoint after step //p' killed | tail -n 1)
  accepts 1 $train -steps $((${said:-0} + 1)) -checkpoint_dir k -resume
  there=$(sed -n 's/^goes on after step //p' out)
  [ "${there:-0}" -ge "${said:-0}" ] || fail "kill $i: step $said was written, and the run goes on after ${there:-none}"
  lacks "damaged"
  i=$((i + 1))
done
# Its parameters are those of a run that nobody killed.
steps=$((${there:-0} + 4))
accepts 2 $train -steps $steps -checkpoint_dir k -resume -checkpoint_async -checkpoint_every 1 -layout_pipeline 2
digest=$(digest)
accepts 1 $train -steps $steps
says "$digest"
finish
