#!/bin/sh
# -checkpoint_format safetensors: beside each checkpoint the folder that renga export would give. What fails of it is a
# warning, what is half written is removed, and runs go on from the file alone.
. "${0%/*}/common.sh"
python=python3
"$python" -c '' 2>/dev/null || exit 77
make="$python $top_srcdir/test/app/huggingface.py"
$make write llama-1 || fail "no folder is made"
accepts 1 data npy llama-1/tokens.npy llama-1/labels.npy data.h5
train="train -data data.h5 -data_shuffle 0 -batch_size 8 -microbatch_size 4 -progress none -seed 1
  -graph hf:llama-1,sequence=12 -graph_lanes 2 -initial llama-1 -parameter_digest"
folders="-checkpoint_format safetensors -checkpoint_every 2 -checkpoint_keep 1"

# is_exported FOLDER: of its file
is_exported() {
  rm -rf exported
  accepts 1 export "$1.h5" exported
  ! diff -r exported "$1" >out 2>&1 && fail "$1 is not what renga export gives"
}

accepts 1 $train -steps 6
digest=$(digest)
accepts 2 $train -steps 6 -layout_pipeline 2 -checkpoint_dir c $folders -keep_best -data_validation 0.5 -eval_every 2
equal "$(cd c && echo step_*)" "step_000000004 step_000000004.h5 step_000000006 step_000000006.h5" "other files"
is_exported c/step_000000004
is_exported c/step_000000006
is_exported c/best
rm -rf d
accepts 2 $train -steps 4 -layout_pipeline 2 -checkpoint_dir d $folders
mkdir d/step_000000002.h5.0123456789abcdef.tmp
: >d/step_000000002.h5.0123456789abcdef.tmp/model.safetensors
accepts 2 $train -steps 6 -layout_tensor 2 -checkpoint_dir d $folders -resume -checkpoint_async
says "$digest"
is_exported d/step_000000006
equal "$(cd d && echo step_*)" "step_000000004 step_000000004.h5 step_000000006 step_000000006.h5" "other files"

# Files fail, from the last back to the checkpoint's own: a warning, the file is there, and the folder is whole or not there.
rm -rf e
export RENGA_FAULT=file:0:0
accepts 1 $train -steps 2 -checkpoint_dir e $folders
last=$(sed -n 's/.*RENGA_FAULT: rank 0 came to \([0-9]*\) events.*/\1/p' out)
unwritten=0
while [ "$last" -gt 0 ]; do
  rm -rf e
  latest="RENGA_FAULT=file:$last:0"
  RENGA_FAULT=file:$last:0 timeout -k 5 $limit "$mpiexec" -n 1 "$renga" $train -steps 2 -checkpoint_dir e $folders >out 2>&1 || break
  RENGA_FAULT=
  if [ -e e/step_000000002 ]; then
    is_exported e/step_000000002
  else
    says "a checkpoint is not written: " "; that of step 2 is kept, and training goes on"
    unwritten=$((unwritten + 1))
  fi
  equal "$(ls e | grep -c tmp)" 0 "half a folder is left"
  last=$((last - 1))
done
[ $unwritten -ge 3 ] || fail "$unwritten of the folders were not written"
says "the checkpoint after the last step, 2, could not be written"
refuses 1 "-checkpoint_format needs -checkpoint_dir: where are the checkpoints?" $train -steps 1 -checkpoint_format safetensors
finish
